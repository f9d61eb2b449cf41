//! `[srt]`: where SRT is served, and how.

use super::Config;
use super::problem::{Problem, problem};
use super::section::listen;
use super::validate::{duration, number};
use crate::serde_text;
use glassline_transport::srt::{Address, LATENCY, LATENCY_MAX, Mode, Passphrase};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `[srt]`. A configuration without it serves no SRT.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Srt {
    /// Where publishers and viewers connect to.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// The file with the passphrase of all connections.
    pub(crate) passphrase_file: Option<PathBuf>,
    /// How long what publishers send is held back at least.
    #[serde(deserialize_with = "serde_text::duration")]
    pub(crate) latency: Duration,
    /// Connections at once, of each address that is listened at.
    pub(crate) max_connections: usize,
    /// Of `passphrase_file`.
    #[serde(skip)]
    pub(crate) passphrase: Option<Passphrase>,
}

impl Default for Srt {
    fn default() -> Srt {
        Srt {
            listen: Vec::new(),
            passphrase_file: None,
            latency: LATENCY,
            max_connections: 500,
            passphrase: None,
        }
    }
}

impl Config {
    pub(super) fn check_srt(&self) -> Result<(), Problem> {
        let Some(srt) = &self.srt else { return Ok(()) };
        if srt.listen.is_empty() {
            return problem(
                "srt.listen",
                "names no address; write for example [\"0.0.0.0:8890\"], or remove [srt]",
            );
        }
        for (index, address) in srt.listen.iter().enumerate() {
            if srt.listen[..index].contains(address) {
                return problem("srt.listen", format!("names {address} twice"));
            }
        }
        duration("srt.latency", srt.latency, Duration::ZERO, LATENCY_MAX)?;
        number("srt.max_connections".to_owned(), srt.max_connections, 1, 10_000)
    }
}

/// A source or an output of a stream by SRT. An error does not repeat what may be a key.
pub(super) fn address(text: &str) -> Result<Box<Address>, String> {
    let address = Address::parse(text)?;
    if address.mode == Mode::Listener
        && address.host.parse::<std::net::IpAddr>().is_err()
        && !address.host.is_empty()
    {
        return Err("an address to listen at is one of this machine, as in srt://0.0.0.0:9000?mode=listener"
            .to_owned());
    }
    Ok(Box::new(address))
}

/// Whether the text is an address of SRT.
pub(super) fn is_address(text: &str) -> bool {
    text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("srt://"))
}
