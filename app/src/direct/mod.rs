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
use glassline_call::direct::Telemetry;
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

/// The ends of the channels beside pictures and sound, which have channels of their own. What comes on those with `klv` goes into
/// `telemetry`.
fn open_channels(channels: &[Channel], telemetry: Option<&Telemetry>) -> Result<Vec<ChannelEnds>> {
    let opened = match channels.iter().find(|channel| channel.id() >= SOUND) {
        Some(channel) => {
            return Err(failure::usage(
                format!("channel {} carries pictures, sound or the reports of them", channel.id()),
                format!("take one from 0 to {} beside them", SOUND - 1),
            ));
        }
        None => link::open_channels(channels)?,
    };
    Ok(match telemetry {
        Some(telemetry) => opened.into_iter().map(|ends| ends.with_telemetry(telemetry)).collect(),
        None => opened,
    })
}

/// Where telemetry goes on its way from channels into the stream at `output`; `None` where no channel has any.
///
/// # Errors
/// The output is no transport stream, or there is none.
fn telemetry(channels: &[Channel], output: Option<&str>) -> Result<Option<Telemetry>> {
    let Some(channel) = channels.iter().find(|channel| channel.has_klv()) else { return Ok(None) };
    let id = channel.id();
    let what = match output {
        Some(output) if receiving::is_transport_stream(output)? => return Ok(Some(Telemetry::new())),
        Some(output) => {
            format!("channel {id}: klv= puts telemetry into a transport stream, and {output} is none")
        }
        None => {
            format!("channel {id}: klv= puts telemetry into a stream of what comes, and nothing comes here")
        }
    };
    let advice = match output {
        Some(_) => {
            "name FILE.ts, udp://HOST:PORT, http://HOST:PORT/live/NAME.ts or preview:, or leave out klv="
        }
        None => "give it to glassline receive, or name --both OUTPUT",
    };
    Err(failure::usage(what, advice))
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
    fn telemetry_goes_into_transport_streams_alone() {
        let channels = ["1:out=-".parse().unwrap(), "0:klv=mavlink".parse().unwrap()];
        for output in
            ["a.ts", "udp://127.0.0.1:5000", "http://h:8080/live/a.ts", "preview:", "preview:0.0.0.0:8081"]
        {
            assert!(telemetry(&channels, Some(output)).unwrap().is_some(), "{output}");
        }
        for output in ["a.mp4", "a.webm", "a.y4m", "a.ivf", "a.h264", "-", "null:", "ts"] {
            let error = telemetry(&channels, Some(output)).err().expect(output);
            assert!(error.to_string().contains("channel 0: klv="), "{error:#}");
        }
        assert!(telemetry(&channels, None).is_err());
        assert!(telemetry(&channels[..1], Some("-")).unwrap().is_none());
    }

    #[test]
    fn addresses_have_their_scheme() {
        assert_eq!(address("link://[::1]:7000").unwrap(), "[::1]:7000");
        for bad in ["192.0.2.1:7000", "link://", "udp://192.0.2.1:7000"] {
            assert!(address(bad).unwrap_err().to_string().contains("link://HOST:PORT"), "{bad}");
        }
    }
}
