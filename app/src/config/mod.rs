//! The configuration: one TOML file, read into plain values.
//!
//! [`Config::load`] takes a path and gives either a [`Config`] that is complete and within range, or a
//! [`ConfigError`] that names the file, the line and what to write instead. Every key has a default, stands in
//! `examples/glassline.toml`, and is refused where it is not known.

mod de;
mod edge;
mod encode;
mod error;
mod load;
mod problem;
mod section;
mod validate;
mod validate_streams;
mod wording;

pub(crate) use edge::{Package, Upstream, server};
pub(crate) use encode::Encode;
pub(crate) use error::ConfigError;
pub(crate) use load::read_key;
pub(crate) use section::{
    Admin, Demo, Flush, Log, Mux, Pacing, Prebuffer, Process, Publish, Pull, Secret, SendPath, Slow, Stream,
    Tls, Viewer,
};

use glassline_delivery::policy::Hosts;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// All that can be configured. Every value is within the range that `examples/glassline.toml` gives for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where HTTP is served. At least one, if none is in `tls`; none twice.
    #[serde(deserialize_with = "section::listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// The names by which it is called.
    #[serde(deserialize_with = "section::hosts")]
    pub(crate) hosts: Hosts,
    /// The folder in which a proxy has this server's addresses: a path without a slash at its end. Empty: none.
    pub(crate) base_path: String,
    /// Where operators look after it.
    pub(crate) admin: Admin,
    /// Where HTTPS is served, and with what.
    pub(crate) tls: Tls,
    /// How viewers reach the operators: one line of text for the page.
    pub(crate) contact: Option<String>,
    /// Worker threads; 0 is one per core.
    pub(crate) workers: usize,
    /// Who may publish, and when a stream ends.
    pub(crate) publish: Publish,
    /// What a viewer gets, and when one is given up.
    pub(crate) viewer: Viewer,
    /// How streams are fetched from elsewhere.
    pub(crate) pull: Pull,
    /// How streams are made LL-HLS and LL-DASH of.
    pub(crate) package: Package,
    /// Where objects come from that are not here.
    pub(crate) upstream: Upstream,
    /// What is particular to single streams, by their names.
    pub(crate) stream: BTreeMap<String, Stream>,
    /// What the program encodes itself, by the names under which it is published.
    pub(crate) encode: BTreeMap<String, Encode>,
    /// The user that the program goes on as.
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
            viewer: Viewer::default(),
            pull: Pull::default(),
            package: Package::default(),
            upstream: Upstream::default(),
            stream: BTreeMap::new(),
            encode: BTreeMap::new(),
            process: Process::default(),
            log: Log::default(),
            demo: Demo::default(),
        }
    }
}

#[cfg(test)]
mod tests;
