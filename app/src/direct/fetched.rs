//! Inputs of `send` that are fetched: cameras by RTSP, servers by HTTP, datagrams.

use crate::failure;
use anyhow::{Context, Result};
use glassline_call::direct::PulledSource;
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use glassline_io::small_file::{self, Accept};
use glassline_io::tls::{Connector, Roots};
use glassline_media::Codec;
use glassline_studio::capture::ParseError;
use glassline_transport::rtp::session::described::Described;
use std::path::{Path, PathBuf};

/// Where coded pictures are fetched from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fetched(Source);

impl Fetched {
    /// Reads an address; `None` where `text` names something else: `rtp:FILE` with a description of uncompressed pictures, too.
    pub(super) fn parse(text: &str) -> Result<Option<Fetched>, ParseError> {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let of_file = scheme.as_deref() == Some("rtp") && !text.contains("://");
        match scheme.as_deref() {
            Some("rtsp" | "rtsps" | "http" | "https" | "udp" | "rtp") => {}
            _ => return Ok(None),
        }
        let source = match Source::parse(text) {
            Ok(source) => source,
            // Uncompressed video has options of its own.
            Err(_) if of_file => return Ok(None),
            Err(error) => return Err(ParseError::new(error.to_string())),
        };
        if let Source::Sdp(file) = &source {
            return Ok(check_described(&file.path)?.then_some(Fetched(source)));
        }
        match source.mux() {
            Mux::MpegTs => Ok(Some(Fetched(source))),
            mux => Err(ParseError::new(format!(
                "{source} is {mux} by its name, and what is sent on has to come as MPEG-TS: name an address that ends in .ts"
            ))),
        }
    }

    /// Whether it is asked over TLS.
    pub(super) fn is_secured(&self) -> bool {
        match &self.0 {
            Source::Http(url) => url.tls(),
            Source::Rtsp(url) => url.tls(),
            Source::Udp(_) | Source::Rtp(_) | Source::Sdp(_) => false,
        }
    }

    /// Begins to fetch it.
    pub(super) fn start(&self, ca: Option<PathBuf>) -> Result<PulledSource> {
        if self.is_secured() {
            // They are read when a connection is there: what is wrong with them shows now.
            let roots = ca.clone().map_or(Roots::System, Roots::File);
            let advice = if ca.is_some() {
                "check --source-ca"
            } else {
                "name a certificate to trust: --source-ca FILE"
            };
            Connector::new(&roots, Accept::RegularFile)
                .map_err(|error| failure::usage(error.to_string(), advice))?;
        }
        PulledSource::start(self.0.clone(), ca).context("cannot start the thread that fetches the input")
    }
}

/// Whether a session description has coded pictures. Fails where they are not H.264.
fn check_described(path: &Path) -> Result<bool, ParseError> {
    let Ok(text) = small_file::read(path, Accept::AnyFile) else { return Ok(false) };
    let Ok(described) = Described::parse_bytes(&text) else { return Ok(false) };
    let codecs = described.tracks.iter().map(|track| track.format.codec());
    match codecs.clone().find(|codec| codec.is_video()) {
        None => Ok(false),
        Some(Codec::H264) => Ok(true),
        Some(codec) => Err(ParseError::new(format!(
            "{} describes {}, and only H.264 is sent on unchanged: set the camera's encoder to H.264",
            path.display(),
            codec.name()
        ))),
    }
}
