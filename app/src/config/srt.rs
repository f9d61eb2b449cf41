//! `[srt]`: where SRT is served, and how.

use super::Config;
use super::problem::{Problem, problem};
use super::section::listen;
use super::validate::{duration, number};
use crate::serde_text;
use glassline_transport::srt::{LATENCY, LATENCY_MAX, Passphrase};
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
    /// Where publishers connect to that send over several lines at once (SRTLA).
    #[serde(deserialize_with = "listen")]
    pub(crate) srtla: Vec<SocketAddr>,
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
            srtla: Vec::new(),
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
        if srt.listen.is_empty() && srt.srtla.is_empty() {
            return problem(
                "srt.listen",
                "names no address; write for example [\"0.0.0.0:8890\"], or remove [srt]",
            );
        }
        let plain = srt.listen.iter().map(|address| ("srt.listen", address));
        let all: Vec<_> = plain.chain(srt.srtla.iter().map(|address| ("srt.srtla", address))).collect();
        for (index, (key, address)) in all.iter().enumerate() {
            if address.port() != 0 && all[..index].iter().any(|(_, other)| other == address) {
                return problem(
                    *key,
                    format!("names {address} a second time; SRT and SRTLA need a port each"),
                );
            }
        }
        duration("srt.latency", srt.latency, Duration::ZERO, LATENCY_MAX)?;
        number("srt.max_connections".to_owned(), srt.max_connections, 1, 10_000)
    }
}
