//! The configuration: one TOML file, read into plain values.
//!
//! [`Config::load`] takes a path and returns either a complete [`Config`] with all values within their ranges, or a
//! [`ConfigError`] that names the file, the line and what to write instead. Every key has a default and is listed in
//! `examples/glassline.toml`; unknown keys are refused.

mod cluster;
mod de;
mod edge;
mod encode;
mod error;
mod event;
mod link;
mod load;
mod problem;
mod record;
mod rtmp;
mod rtsp;
mod section;
mod srt;
mod validate;
mod validate_streams;
mod watch;
mod wording;

pub(crate) use cluster::Cluster;
pub(crate) use edge::{Package, Upstream, server};
pub(crate) use error::ConfigError;
pub(crate) use event::Event;
pub(crate) use link::{LinkOutput, StreamForward, StreamOutput, StreamSource, checked_deadline};
pub(crate) use load::{KeyRead, read_key};
pub(crate) use record::Record;
pub(crate) use rtmp::Rtmp;
pub(crate) use rtsp::Rtsp;
pub(crate) use section::{
    Admin, Certificate, Demo, Log, Port, Process, Publish, Pull, Secret, SlateKind, Slow, Stream, Tls, Viewer,
};
pub(crate) use srt::Srt;
pub(crate) use validate_streams::parse_port;
pub(crate) use watch::Watch;

use crate::encode::EncodeOptions;
use glassline_delivery::policy::Hosts;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The whole configuration. Every value is within the range that `examples/glassline.toml` gives for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Addresses for HTTP. At least one, unless `tls` has one; no address twice.
    #[serde(deserialize_with = "section::listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Host names of this server.
    #[serde(deserialize_with = "section::hosts")]
    pub(crate) hosts: Hosts,
    /// The path prefix under which a reverse proxy publishes this server, without a slash at its end. Empty: none.
    pub(crate) base_path: String,
    /// Access for operators.
    pub(crate) admin: Admin,
    /// HTTPS: addresses and certificates.
    pub(crate) tls: Tls,
    /// How viewers can reach the operators: one line of text for the page.
    pub(crate) contact: Option<String>,
    /// Number of worker threads; 0: one for each core.
    pub(crate) workers: usize,
    /// Publishers: access, limits and timeouts.
    pub(crate) publish: Publish,
    /// Publishers over RTMP: where they connect to.
    pub(crate) rtmp: Rtmp,
    /// Publishers and viewers over RTSP: where they connect to.
    pub(crate) rtsp: Rtsp,
    /// Viewers: access, limits and delivery.
    pub(crate) viewer: Viewer,
    /// Streams that are fetched from a source.
    pub(crate) pull: Pull,
    /// How LL-HLS and LL-DASH are made from streams.
    pub(crate) package: Package,
    /// Where streams are recorded to.
    pub(crate) record: Record,
    /// Servers from which missing objects are fetched.
    pub(crate) upstream: Upstream,
    /// Other servers, and the streams that they have.
    pub(crate) cluster: Cluster,
    /// Where SRT is served, and how; unset: not at all.
    pub(crate) srt: Option<Srt>,
    /// Settings of single streams, by name.
    pub(crate) stream: BTreeMap<String, Stream>,
    /// Streams that the program encodes itself, by the names under which it publishes them.
    pub(crate) encode: BTreeMap<String, EncodeOptions>,
    /// Pages with several streams, by their names.
    pub(crate) event: BTreeMap<String, Event>,
    /// Which streams are watched for which alarms; unset: none.
    pub(crate) watch: Option<Watch>,
    /// The user as which the process continues, and how it ends after an upgrade.
    pub(crate) process: Process,
    /// The log.
    pub(crate) log: Log,
    /// The built-in test stream.
    pub(crate) demo: Demo,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: vec![SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 8080))],
            hosts: Hosts::default(),
            base_path: String::new(),
            admin: Admin::default(),
            tls: Tls::default(),
            contact: None,
            workers: 0,
            publish: Publish::default(),
            rtmp: Rtmp::default(),
            rtsp: Rtsp::default(),
            viewer: Viewer::default(),
            pull: Pull::default(),
            package: Package::default(),
            record: Record::default(),
            upstream: Upstream::default(),
            cluster: Cluster::default(),
            srt: None,
            stream: BTreeMap::new(),
            encode: BTreeMap::new(),
            event: BTreeMap::new(),
            watch: None,
            process: Process::default(),
            log: Log::default(),
            demo: Demo::default(),
        }
    }
}

#[cfg(test)]
mod header_marks_tests;
#[cfg(test)]
mod tests;
