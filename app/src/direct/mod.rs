//! `glassline send` and `glassline receive`: video over a link, each picture as large as the network takes now, or not sent.
//!
//! `send` and `receive` are the commands' arguments; `sending` and `receiving` wire `call::direct`, and either command may do
//! both; `figures` is what they tell, `sink` where pictures go, `preview` the page that shows them.

mod fetched;
mod figures;
mod preview;
mod receive;
mod receiving;
mod send;
mod sending;
mod sink;
#[cfg(feature = "opus")]
mod sound;

pub(crate) use figures::decision as decision_line;
pub(crate) use receive::{Args as ReceiveArgs, run as receive};
pub(crate) use send::{Args as SendArgs, run as send};
pub(crate) use sending::speed_of;

use crate::failure;
use crate::link::{self, Channel, ChannelEnds, Extra, Told};
use anyhow::Result;
use figures::Report;
use glassline_direct::SOUND;

/// What an address of a link begins with.
const SCHEME: &str = "link://";

/// `HOST:PORT` of `link://HOST:PORT`.
fn address(text: &str) -> Result<&str> {
    text.strip_prefix(SCHEME).filter(|rest| !rest.is_empty()).ok_or_else(|| {
        failure::usage(
            format!("{text:?} is no address of a link"),
            "write link://HOST:PORT, as in link://192.0.2.1:7000",
        )
    })
}

/// The ends of the channels beside pictures and sound, which have channels of their own.
fn open_channels(channels: &[Channel]) -> Result<Vec<ChannelEnds>> {
    match channels.iter().find(|channel| channel.id() >= SOUND) {
        Some(channel) => Err(failure::usage(
            format!("channel {} carries pictures, sound or the reports of them", channel.id()),
            format!("take one from 0 to {} beside them", SOUND - 1),
        )),
        None => link::open_channels(channels),
    }
}

/// Figures of one direction, and of the other one if there is one.
fn told(
    mut one: impl FnMut() -> Vec<Extra> + 'static,
    mut other: Option<impl FnMut() -> Vec<Extra> + 'static>,
) -> Told {
    Box::new(move || {
        let mut all = one();
        all.extend(other.iter_mut().flat_map(|other| other()));
        all
    })
}

/// The report of one direction, with that of the other one under `key`.
fn both(one: Report, other: Option<Report>, key: &'static str) -> Report {
    match other {
        Some(other) => one.with(other.into_extra(key)),
        None => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_scheme() {
        assert_eq!(address("link://[::1]:7000").unwrap(), "[::1]:7000");
        for bad in ["192.0.2.1:7000", "link://", "udp://192.0.2.1:7000"] {
            assert!(address(bad).unwrap_err().to_string().contains("link://HOST:PORT"), "{bad}");
        }
    }
}
