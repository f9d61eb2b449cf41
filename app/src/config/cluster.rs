//! `[cluster]`: streams that other servers have.

use super::Config;
use super::edge::server;
use super::problem::{Problem, problem};
use glassline_delivery::http1::Url;
use glassline_edge::UpstreamSettings;
use glassline_streams::StaticDirectory;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `[cluster]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cluster {
    /// Streams that other servers have: a name, or what names begin with and a `*`, and the server.
    #[serde(rename = "static", deserialize_with = "places")]
    pub(crate) places: BTreeMap<String, Url>,
    /// The authorities that are trusted for the other servers over TLS. After loading, the path is relative to the working
    /// directory.
    pub(crate) ca: Option<PathBuf>,
}

impl Cluster {
    /// Whether this server knows others.
    pub(crate) fn is_on(&self) -> bool {
        !self.places.is_empty()
    }

    /// Its files count from the configuration's folder.
    pub(super) fn join(&mut self, folder: &Path) {
        self.ca = self.ca.take().map(|file| folder.join(file));
    }

    /// Where the configuration places streams.
    pub(crate) fn directory(&self) -> StaticDirectory {
        StaticDirectory::new(self.places.clone()).unwrap_or_default()
    }
}

impl Config {
    /// From where objects are fetched that are not here; `None`: from no server.
    pub(crate) fn fetching(&self) -> Option<UpstreamSettings> {
        if !self.cluster.is_on() {
            return self.upstream.settings();
        }
        let ca = self.cluster.ca.clone();
        Some(UpstreamSettings { ca, disk: None, ..self.upstream.all_settings() })
    }

    pub(super) fn check_cluster(&self) -> Result<(), Problem> {
        let cluster = &self.cluster;
        if let Err(pattern) = StaticDirectory::new(cluster.places.clone()) {
            let text = format!(
                "{pattern:?} is no stream's name, and not what names begin with and a * behind that, as in \"sport-*\""
            );
            return problem("cluster.static", text);
        }
        if !cluster.is_on() {
            return Ok(());
        }
        if self.upstream.all_servers().next().is_some() {
            let text = "has servers, and so has [cluster]: a stream that is not here would have two places. Leave one of them out; \
                        [cluster] static = { \"*\" = \"http://ORIGIN:8080\" } asks one server for all streams that others do not have";
            return problem("upstream.servers", text);
        }
        if self.upstream.disk.is_some() {
            return problem(
                "upstream.disk",
                "objects of a cluster's servers are kept in memory alone; leave it out",
            );
        }
        let directory = cluster.directory();
        let placed = |name: &str| {
            let name = glassline_delivery::policy::StreamName::parse(name)?;
            directory.server(&name).map(ToString::to_string)
        };
        let sources = self.stream.iter().filter(|(_, stream)| stream.source.is_some());
        let sources = sources.map(|(name, _)| ("stream", name));
        for (section, name) in sources.chain(self.encode.keys().map(|name| ("encode", name))) {
            if let Some(server) = placed(name) {
                let text = format!(
                    "is made here, and [cluster] static places it at {server}; leave one of them out"
                );
                return problem(format!("{section}.{name}"), text);
            }
        }
        Ok(())
    }
}

fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Url>, D::Error> {
    let places = BTreeMap::<String, String>::deserialize(deserializer)?;
    let place =
        |(pattern, text): (String, String)| Ok((pattern, server(&text).map_err(serde::de::Error::custom)?));
    places.into_iter().map(place).collect()
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
