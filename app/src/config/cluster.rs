//! `[cluster]`: streams that other servers have.

use super::Config;
use super::edge::server;
use super::problem::{Problem, problem};
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{NodeName, TEXT_MAX_BYTES};
use glassline_edge::UpstreamSettings;
use glassline_streams::StaticDirectory;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// `[cluster]`.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cluster {
    /// Servers of NATS, which are one cluster. Empty: the map alone says where streams are.
    pub(crate) nats: Vec<String>,
    /// The file with what NATS gives a user. After loading, the path is relative to the working directory.
    pub(crate) credentials_file: Option<PathBuf>,
    /// The authorities that are trusted for the servers of NATS. After loading, the path is relative to the working directory.
    pub(crate) nats_ca: Option<PathBuf>,
    /// The bucket of NATS JetStream.
    pub(crate) bucket: String,
    /// How many servers of NATS keep it where it is made here.
    pub(crate) replicas: usize,
    /// What this server is called.
    pub(crate) node: Option<String>,
    /// Where the others reach it.
    pub(crate) address: Option<String>,
    /// Where viewers reach it.
    pub(crate) public: Option<String>,
    /// Where it is.
    pub(crate) zone: String,
    /// Streams that other servers have: a name, or what names begin with and a `*`, and the server.
    #[serde(rename = "static", deserialize_with = "places")]
    pub(crate) places: BTreeMap<String, Url>,
    /// The authorities that are trusted for the other servers over TLS. After loading, the path is relative to the working
    /// directory.
    pub(crate) ca: Option<PathBuf>,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            nats: Vec::new(),
            credentials_file: None,
            nats_ca: None,
            bucket: "glassline".to_owned(),
            replicas: 1,
            node: None,
            address: None,
            public: None,
            zone: String::new(),
            places: BTreeMap::new(),
            ca: None,
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A user and a password may stand in front of a host, and the key of a server.
        let without_key = |address: &String| match (address.split_once("://"), address.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            (None, Some((_, host))) => host.to_owned(),
            (_, None) => address.clone(),
        };
        f.debug_struct("Cluster")
            .field("nats", &self.nats.iter().map(without_key).collect::<Vec<_>>())
            .field("credentials_file", &self.credentials_file)
            .field("nats_ca", &self.nats_ca)
            .field("bucket", &self.bucket)
            .field("replicas", &self.replicas)
            .field("node", &self.node)
            .field("address", &self.address.as_ref().map(without_key))
            .field("zone", &self.zone)
            .field("places", &self.places)
            .field("ca", &self.ca)
            .finish()
    }
}

impl Cluster {
    /// Whether this server knows others.
    pub(crate) fn is_on(&self) -> bool {
        !self.places.is_empty() || !self.nats.is_empty()
    }

    fn check_registry(&self) -> Result<(), Problem> {
        if self.nats.is_empty() {
            return Ok(());
        }
        if !cfg!(feature = "cluster") {
            return problem("cluster.nats", "this program was built without it (feature 'cluster')");
        }
        let is_server = |server: &String| {
            ["nats://", "tls://"]
                .iter()
                .any(|scheme| server.strip_prefix(scheme).is_some_and(|host| !host.is_empty()))
        };
        if !self.nats.iter().all(is_server) {
            let text = "each is an address as nats://HOST:4222, or tls://HOST:4222; a user and a password may stand in front of the host";
            return problem("cluster.nats", text);
        }
        match &self.node {
            None => {
                return problem(
                    "cluster.node",
                    "is needed with nats: a name that no other server of the cluster has",
                );
            }
            Some(name) if NodeName::parse(name).is_none() => {
                return problem("cluster.node", "is 1 to 64 of the characters A-Z a-z 0-9 _ -");
            }
            Some(_) => {}
        }
        let Some(address) = &self.address else {
            let text =
                "is needed with nats: where the other servers reach this one, as in \"http://10.0.0.1:8080\"";
            return problem("cluster.address", text);
        };
        if let Err(error) = server(address) {
            return problem("cluster.address", error);
        }
        if address.len() > TEXT_MAX_BYTES {
            let text =
                format!("has at most {TEXT_MAX_BYTES} bytes, with its key; this one has {}", address.len());
            return problem("cluster.address", text);
        }
        if let Some(public) = &self.public {
            let url = match server(public) {
                Ok(url) => url,
                Err(error) => return problem("cluster.public", error),
            };
            if url.authorization().is_some() || url.target().contains('?') {
                return problem(
                    "cluster.public",
                    "is told to viewers: it has no key, and no ? behind the path",
                );
            }
        }
        if !matches!(self.replicas, 1 | 3 | 5) {
            return problem("cluster.replicas", "is 1, 3 or 5");
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !((1..=64).contains(&self.bucket.len()) && self.bucket.bytes().all(is_plain)) {
            return problem("cluster.bucket", "is 1 to 64 of the characters A-Z a-z 0-9 _ -");
        }
        if self.zone.len() > 64 || self.zone.chars().any(char::is_control) {
            return problem("cluster.zone", "has at most 64 bytes, and no control characters");
        }
        Ok(())
    }

    /// Where viewers reach this server: what is written, or where the others reach it, without a key.
    #[cfg(feature = "cluster")]
    pub(crate) fn public_address(&self) -> String {
        let written = self.public.as_ref().or(self.address.as_ref());
        let url = written.and_then(|written| server(written).ok());
        url.map_or_else(String::new, |url| {
            let scheme = if url.tls() { "https" } else { "http" };
            let path = url.target().split('?').next().unwrap_or_default().trim_end_matches('/');
            format!("{scheme}://{}{path}", url.authority())
        })
    }

    /// Its files count from the configuration's folder.
    pub(super) fn join(&mut self, folder: &Path) {
        for file in [&mut self.ca, &mut self.nats_ca, &mut self.credentials_file] {
            *file = file.take().map(|file| folder.join(file));
        }
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
        cluster.check_registry()?;
        if self.upstream.all_servers().next().is_some() {
            let text = "has servers, and so has [cluster]: a stream that is not here would have two places. Leave one of them out; \
                        [cluster] static = { \"*\" = \"http://ORIGIN:8080\" } asks one server for all streams that others do not have";
            return problem("upstream.servers", text);
        }
        if self.upstream.ca.is_some() {
            return problem(
                "upstream.ca",
                "there are no servers of [upstream] beside a cluster; name it as [cluster] ca",
            );
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
