//! The sections about objects: `[package]`, LL-HLS and LL-DASH out of streams, and `[upstream]`, what is fetched from others.

use super::problem::{Problem, problem};
use super::section::duration;
use glassline_delivery::fill::{KeyQuery, Route, RouteError};
use glassline_delivery::http1::Url;
use glassline_delivery::packager;
use glassline_engine::edge::{self, DiskSettings, UpstreamSettings};
use glassline_engine::relay::PackagingSettings;
use glassline_media::quantity::ByteSize;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// `[package]`: how streams are made LL-HLS and LL-DASH of.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Package {
    /// A segment ends at the first key frame after this long.
    #[serde(deserialize_with = "duration")]
    pub(crate) segment: Duration,
    /// How long a part lasts, about.
    #[serde(deserialize_with = "duration")]
    pub(crate) part: Duration,
    /// How far back viewers may go.
    #[serde(deserialize_with = "duration")]
    pub(crate) window: Duration,
    /// Whether a stream is packaged only while somebody asks for it.
    pub(crate) on_demand: bool,
    /// How long what nobody asks for is kept.
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
    /// How presentations are cut and kept.
    pub(super) fn presentation(&self) -> packager::Settings {
        packager::Settings { segment: self.segment, part: self.part, window: self.window }
    }

    /// The same for the relay.
    pub(crate) fn settings(&self) -> PackagingSettings {
        let (presentation, on_demand, idle) = (self.presentation(), self.on_demand, self.idle);
        PackagingSettings { presentation, on_demand, idle }
    }
}

/// `[upstream]`: where objects come from that are not here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Upstream {
    /// Servers that have the same, in the order in which they are asked. Empty: nothing is fetched.
    #[serde(deserialize_with = "servers")]
    pub(crate) servers: Vec<Url>,
    /// What is asked for elsewhere.
    pub(crate) route: Vec<UpstreamRoute>,
    /// Which parameters of a query are part of an object's name; unset: all.
    pub(crate) key_query: Option<Vec<String>>,
    /// The authorities that may vouch for them over TLS; once loaded, relative to where the program runs.
    pub(crate) ca: Option<PathBuf>,
    /// What is kept in memory at most.
    pub(crate) cache: ByteSize,
    /// A directory where objects lie in files, too; once loaded, relative to where the program runs.
    pub(crate) disk: Option<PathBuf>,
    /// What those files may take.
    pub(crate) disk_size: ByteSize,
    /// How long the disk is waited for.
    #[serde(deserialize_with = "duration")]
    pub(crate) disk_timeout: Duration,
    /// What one object may have.
    pub(crate) max_object: ByteSize,
    /// How long segments are kept whose server says nothing of it.
    #[serde(deserialize_with = "duration")]
    pub(crate) media_ttl: Duration,
    /// The same of anything else.
    #[serde(deserialize_with = "duration")]
    pub(crate) other_ttl: Duration,
    /// The same of refusals.
    #[serde(deserialize_with = "duration")]
    pub(crate) negative_ttl: Duration,
    /// How long a connection may take to come about.
    #[serde(deserialize_with = "duration")]
    pub(crate) connect_timeout: Duration,
    /// How long a server may say nothing.
    #[serde(deserialize_with = "duration")]
    pub(crate) silence_timeout: Duration,
    /// Connections to one server at most.
    pub(crate) connections: usize,
}

/// What files may take where nothing is said: little enough for the disk of a small machine.
const DISK_SIZE_MEBIBYTES: u64 = 10 << 10;

/// A disk answers within some milliseconds, and an upstream server soon after that.
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
    /// The servers for everything else and those of the routes.
    pub(super) fn all_servers(&self) -> impl Iterator<Item = &Url> {
        self.servers.iter().chain(self.route.iter().flat_map(|route| &route.servers))
    }

    /// The same for the relay; `None` where there are no servers.
    pub(crate) fn settings(&self) -> Option<UpstreamSettings> {
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
            Some(edge::UpstreamRoute { rule, servers, own_pages: route.own_pages })
        });
        settings.routes = routes.collect();
        (!settings.servers.is_empty() || !settings.routes.is_empty()).then_some(settings)
    }
}

/// `[[upstream.route]]`: servers for requests of a host, or for paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamRoute {
    /// The host that clients call: a name, or `*.` and what names end with. Unset: any.
    #[serde(default)]
    host: Option<String>,
    /// What paths begin with. Unset: any.
    #[serde(default)]
    path: Option<String>,
    /// Servers that have the same, in the order in which they are asked.
    #[serde(deserialize_with = "servers")]
    servers: Vec<Url>,
    /// What is taken off the paths' front.
    #[serde(default)]
    strip: Option<String>,
    /// Whether servers are asked by the host that the client called.
    #[serde(default)]
    keep_host: bool,
    /// Whether pages there are the operator's own, and run scripts.
    #[serde(default)]
    own_pages: bool,
}

impl UpstreamRoute {
    fn rule(&self) -> Result<Route, RouteError> {
        Route::new(self.host.as_deref(), self.path.as_deref(), self.strip.as_deref(), self.keep_host)
    }
}

impl Upstream {
    /// Whether every route can be told from the others, and leads somewhere.
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

/// An upstream server's address. Where a key may stand in it, an error does not repeat that.
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
