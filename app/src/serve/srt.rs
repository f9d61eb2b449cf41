//! What of SRT the server has, from what is configured.

use crate::config::{Config, Stream, StreamForward, StreamOutput, StreamSource};
use crate::failure;
use glassline_delivery::policy::StreamName;
use glassline_doors::srt::{Wanted, WantedListener};
use glassline_transport::srt::{Address, Settings};
use std::fmt::Display;
use std::net::SocketAddr;

/// The listeners that `config` asks for.
pub(super) fn listener(config: &Config) -> WantedListener {
    let Some(srt) = &config.srt else { return WantedListener::default() };
    let passphrase = srt.passphrase.clone();
    let settings = Settings { latency: Some(srt.latency), passphrase, ..Settings::default() };
    WantedListener {
        addresses: srt.listen.clone(),
        bonded: srt.srtla.clone(),
        settings,
        max_peers: srt.max_connections,
    }
}

/// SRT cannot be served at an address.
pub(super) fn explain(address: SocketAddr, error: &dyn Display) -> anyhow::Error {
    let advice = "end the program that listens there, or change [srt] listen or srtla";
    failure::failed(format!("cannot listen for SRT on {address}: {error}"), advice)
}

/// The sources, outputs and forwards by SRT that `config` asks for.
pub(super) fn lines(config: &Config) -> Vec<Wanted> {
    let silence_timeout = config.pull.silence_timeout;
    let of_stream = |(name, stream): (&String, &Stream)| {
        let name = StreamName::parse(name)?;
        let source = match &stream.source {
            Some(StreamSource::Srt(address)) => Some((&**address, true)),
            _ => None,
        };
        let outputs = stream.outputs.iter().filter_map(|output| match output {
            StreamOutput::Srt(address) => Some((&**address, false)),
            _ => None,
        });
        let forwards = stream.forward.iter().filter_map(StreamForward::srt).map(|address| (address, false));
        let wanted = |(address, is_source): (&Address, bool)| Wanted {
            stream: name.clone(),
            address: address.clone(),
            is_source,
            silence_timeout,
        };
        Some(source.into_iter().chain(outputs).chain(forwards).map(wanted).collect::<Vec<_>>())
    };
    config.stream.iter().filter_map(of_stream).flatten().collect()
}
