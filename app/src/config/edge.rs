//! The sections about objects: `[package]` makes LL-HLS and LL-DASH from streams, and `[upstream]` fetches objects
//! from other servers.

use super::problem::{Problem, problem};
use crate::serde_text::duration;
use glassline_delivery::fill::{KeyQuery, Route, RouteError};
use glassline_delivery::http1::Url;
use glassline_delivery::packager;
use glassline_edge::{DiskSettings, UpstreamSettings};
use glassline_media::quantity::ByteSize;
use glassline_relay::PackagingSettings;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// `[package]`: how LL-HLS and LL-DASH are made from streams.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Package {
    /// A segment ends at the first key frame after this time.
    #[serde(deserialize_with = "duration")]
    pub(crate) segment: Duration,
    /// Approximate length of a part.
    #[serde(deserialize_with = "duration")]
    pub(crate) part: Duration,
    /// How far back viewers can seek.
    #[serde(deserialize_with = "duration")]
    pub(crate) window: Duration,
    /// Whether a stream is packaged only while viewers request it.
    pub(crate) on_demand: bool,
    /// How long after the last request a packaged stream is kept.
    #[serde(deserialize_with = "duration")]
    pub(crate) idle: Duration,
}

impl Default for Package {
    fn default() -> Package {
        let PackagingSettings { presentation, on_demand, idle } = PackagingSettings::default();
        let packager::Settings { segment, part, window } = presentation;
        Package { segment, part, window, on_demand, idle }
    }
}

impl Package {
    /// How presentations are cut, and how far back they reach.
    pub(super) fn presentation(&self) -> packager::Settings {
        packager::Settings { segment: self.segment, part: self.part, window: self.window }
    }

    /// The section as settings of the relay.
    pub(crate) fn settings(&self) -> PackagingSettings {
        let (presentation, on_demand, idle) = (self.presentation(), self.on_demand, self.idle);
        PackagingSettings { presentation, on_demand, idle }
    }
}

/// `[upstream]`: servers from which missing objects are fetched.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Upstream {
    /// Servers with the same content, in order of preference. Empty: nothing is fetched.
    #[serde(deserialize_with = "servers")]
    pub(crate) servers: Vec<Url>,
    /// Other servers for some requests.
    pub(crate) route: Vec<UpstreamRoute>,
    /// Which query parameters are part of an object's name; unset: all.
    pub(crate) key_query: Option<Vec<String>>,
    /// The authorities that are trusted for these servers over TLS. After loading, the path is relative to the
    /// working directory.
    pub(crate) ca: Option<PathBuf>,
    /// The memory that objects may take.
    pub(crate) cache: ByteSize,
    /// A directory in which objects are also stored as files. After loading, the path is relative to the working
    /// directory.
    pub(crate) disk: Option<PathBuf>,
    /// The disk space that those files may take.
    pub(crate) disk_size: ByteSize,
    /// How long to wait for the disk.
    #[serde(deserialize_with = "duration")]
    pub(crate) disk_timeout: Duration,
    /// The largest object.
    pub(crate) max_object: ByteSize,
    /// How long segments are kept if their server does not say.
    #[serde(deserialize_with = "duration")]
    pub(crate) media_ttl: Duration,
    /// The same for all other objects.
    #[serde(deserialize_with = "duration")]
    pub(crate) other_ttl: Duration,
    /// The same for refusals.
    #[serde(deserialize_with = "duration")]
    pub(crate) negative_ttl: Duration,
    /// How long connecting to a server may take.
    #[serde(deserialize_with = "duration")]
    pub(crate) connect_timeout: Duration,
    /// How long a server may send nothing.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// The largest number of connections to one server.
    pub(crate) connections: usize,
}

/// Disk space if nothing is configured: small enough for the disk of a small machine.
const DISK_SIZE_MEBIBYTES: u64 = 10 << 10;

/// A disk answers within a few milliseconds, and an upstream server soon after that.
const DISK_TIMEOUT: Duration = Duration::from_millis(100);

impl Default for Upstream {
    fn default() -> Upstream {
        let usual = UpstreamSettings::new(Vec::new());
        Upstream {
            servers: usual.servers,
            route: Vec::new(),
            key_query: None,
            ca: usual.ca,
            cache: ByteSize::from_mebibytes(usual.cache_bytes >> 20),
            disk: None,
            disk_size: ByteSize::from_mebibytes(DISK_SIZE_MEBIBYTES),
            disk_timeout: DISK_TIMEOUT,
            max_object: ByteSize::from_mebibytes(usual.object_bytes >> 20),
            media_ttl: usual.defaults.media,
            other_ttl: usual.defaults.other,
            negative_ttl: usual.defaults.negative,
            connect_timeout: usual.connect_timeout,
            silence_timeout: usual.silence_timeout,
            connections: usual.connections,
        }
    }
}

impl Upstream {
    /// The servers for all other requests, and those of the routes.
    pub(super) fn all_servers(&self) -> impl Iterator<Item = &Url> {
        self.servers.iter().chain(self.route.iter().flat_map(|route| &route.servers))
    }

    /// The section as settings of the relay; `None` if there are no servers.
    pub(crate) fn settings(&self) -> Option<UpstreamSettings> {
        let settings = self.all_settings();
        (!settings.servers.is_empty() || !settings.routes.is_empty()).then_some(settings)
    }

    /// The same, also without servers.
    pub(super) fn all_settings(&self) -> UpstreamSettings {
        let mut settings = UpstreamSettings::new(self.servers.clone());
        settings.ca.clone_from(&self.ca);
        (settings.cache_bytes, settings.object_bytes) = (self.cache.bytes(), self.max_object.bytes());
        let disk_bytes = self.disk_size.bytes();
        settings.disk = self.disk.clone().map(|directory| DiskSettings {
            directory,
            bytes: disk_bytes,
            timeout: self.disk_timeout,
        });
        settings.key_query = self.key_query.clone().map_or_else(KeyQuery::default, KeyQuery::only);
        settings.defaults.media = self.media_ttl;
        settings.defaults.other = self.other_ttl;
        settings.defaults.negative = self.negative_ttl;
        (settings.connect_timeout, settings.silence_timeout) = (self.connect_timeout, self.silence_timeout);
        settings.connections = self.connections;
        let routes = self.route.iter().filter_map(|route| {
            let (rule, servers) = (route.rule().ok()?, route.servers.clone());
            Some(glassline_edge::UpstreamRoute { rule, servers, own_pages: route.own_pages })
        });
        settings.routes = routes.collect();
        settings
    }
}

/// `[[upstream.route]]`: servers for requests with a certain host or path.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamRoute {
    /// The host that clients call: a name, or `*.` and the end of a name. Unset: any.
    #[serde(default)]
    host: Option<String>,
    /// The beginning of the path. Unset: any.
    #[serde(default)]
    path: Option<String>,
    /// Servers with the same content, in order of preference.
    #[serde(deserialize_with = "servers")]
    servers: Vec<Url>,
    /// A prefix that is removed from the path.
    #[serde(default)]
    strip: Option<String>,
    /// Whether servers are sent the host that the client called.
    #[serde(default)]
    keep_host: bool,
    /// Whether the servers' pages belong to the operator, and may run scripts.
    #[serde(default)]
    own_pages: bool,
}

impl UpstreamRoute {
    fn rule(&self) -> Result<Route, RouteError> {
        Route::new(self.host.as_deref(), self.path.as_deref(), self.strip.as_deref(), self.keep_host)
    }
}

impl Upstream {
    /// Checks that no two routes have the same rule, and that each leads to servers.
    pub(super) fn check_routes(&self) -> Result<(), Problem> {
        let key = "upstream.route";
        let mut rules: Vec<Route> = Vec::new();
        for (number, route) in (1..).zip(&self.route) {
            let rule = match route.rule() {
                Ok(rule) => rule,
                Err(error) => return problem(key, format!("the {number}. one: {error}")),
            };
            if route.servers.is_empty() {
                return problem(key, format!("{rule} has no servers; give it some, or remove it"));
            }
            if rules.iter().any(|before| before.is_like(&rule)) {
                return problem(key, format!("{rule} stands there twice; give all its servers in one"));
            }
            rules.push(rule);
        }
        Ok(())
    }
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Url>, D::Error> {
    let server = |text: &String| server(text).map_err(serde::de::Error::custom);
    Vec::<String>::deserialize(deserializer)?.iter().map(server).collect()
}

/// An upstream server's address. If the text can contain a key, an error message does not repeat the text.
pub(crate) fn server(text: &str) -> Result<Url, String> {
    let parsed = text.parse::<Url>();
    let (scheme, rest) = text.find("://").map_or(("", text), |at| text.split_at(at + 3));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let Some((_, host)) = rest.rsplit_once('@') else {
        return parsed.map_err(|error| format!("{text:?}: {error}"));
    };
    let shown = format!("{scheme}…@{host}");
    match (authority.rsplit_once('@'), parsed) {
        (None, Ok(url)) => Ok(url),
        (None, Err(_)) => Err(format!("{shown:?}: in a key, / is written %2F, ? is %3F and # is %23")),
        (Some(_), Err(error)) => Err(format!("{shown:?}: {error}")),
        (Some((user, _)), Ok(url)) => match user.split_once(':') {
            Some((_, key)) if !key.is_empty() => Ok(url),
            _ => Err(format!("{shown:?}: a key stands behind a word and a colon: {scheme}edge:KEY@{host}")),
        },
    }
}
