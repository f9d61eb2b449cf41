//! `glassline send` and `glassline receive`: video over a link, each picture as large as the network takes now, or not sent.
//!
//! `send` and `receive` are the commands' arguments and wiring of `engine::direct`; `figures` is what they tell, `sink`
//! where pictures go.

mod figures;
mod receive;
mod send;
mod sink;

pub(crate) use figures::decision as decision_line;
pub(crate) use receive::{Args as ReceiveArgs, run as receive};
pub(crate) use send::{Args as SendArgs, run as send};

use crate::failure;
use anyhow::Result;

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
