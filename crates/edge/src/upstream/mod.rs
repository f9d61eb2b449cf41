//! Objects from upstream servers: one thread, one epoll, connections that live on.
//!
//! ```text
//! worker ─► Edge::find ─► Cache ─ Job ─► thread "fetch" ─► Server: idle connection, or a new one ─► Exchange ─► Growing
//!                                            └─ broken off: the rest from it, or from the next server
//! ```
//! Servers are asked in their order: the first that is well gets all, so that an origin and one in reserve are told apart by
//! their places. One that fails is left alone for a time that doubles.

mod exchange;
mod fetcher;
mod line;
mod server;
mod waiting;

pub(super) use fetcher::Fetcher;
pub use fetcher::FetcherError;

use super::disk::DiskSettings;
use glassline_delivery::fill::{Defaults, KeyQuery, Route, WINDOW_MIN_BYTES};
use glassline_delivery::http1::{Limits, Url};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where objects come from that are not here, and what is kept of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Servers that have the same, in the order in which they are asked. A path in them stands in front of each request's.
    pub servers: Vec<Url>,
    /// What is asked for elsewhere.
    pub routes: Vec<UpstreamRoute>,
    /// Which parameters of a query are part of an object's name, and asked for.
    pub key_query: KeyQuery,
    /// Authorities that may vouch for them; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// Bytes that are kept in memory at most.
    pub cache_bytes: u64,
    /// Where objects lie in files, too, that outlive the memory and the process.
    pub disk: Option<DiskSettings>,
    /// Bytes that one object may have.
    pub object_bytes: u64,
    /// How long answers are worth that say nothing of it.
    pub defaults: Defaults,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long a server may be silent: before its answer, which may be one that waits for what is due (a blocking
    /// playlist reload), and within it.
    pub silence_timeout: Duration,
    /// Connections to one server at most.
    pub connections: usize,
}

/// Servers for some of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRoute {
    /// For which.
    pub rule: Route,
    /// Servers that have the same, in the order in which they are asked.
    pub servers: Vec<Url>,
    /// Whether their pages are the operator's own: they run scripts in this server's origin then.
    pub own_pages: bool,
}

impl UpstreamSettings {
    /// The groups of servers: those for everything else, and those of the routes.
    pub fn groups(&self) -> impl Iterator<Item = &[Url]> {
        std::iter::once(&*self.servers).chain(self.routes.iter().map(|route| &*route.servers))
    }

    /// These servers, and what fits nearly everybody.
    pub fn new(servers: Vec<Url>) -> UpstreamSettings {
        UpstreamSettings {
            servers,
            routes: Vec::new(),
            key_query: KeyQuery::default(),
            ca: None,
            cache_bytes: 512 << 20,
            disk: None,
            object_bytes: 256 << 20,
            defaults: Defaults::default(),
            connect_timeout: Duration::from_secs(2),
            silence_timeout: Duration::from_secs(12),
            connections: 256,
        }
    }

    /// Bytes that its objects take at most: the cache's, and for each connection what an object that it brings may have ahead
    /// of its readers in any case.
    pub fn memory_bytes(&self) -> u64 {
        let servers = self.groups().map(<[Url]>::len).sum::<usize>() as u64;
        let windows = servers.saturating_mul(self.connections as u64).saturating_mul(WINDOW_MIN_BYTES);
        self.cache_bytes.saturating_add(windows)
    }

    fn limits() -> Limits {
        Limits::DEFAULT
    }
}

/// What came of the fetches so far.
#[derive(Debug, Default)]
pub(super) struct FetchCounters {
    pub(super) fetches: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

/// What was fetched from upstream servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchFigures {
    /// Requests that were sent, resumptions included.
    pub fetches: u64,
    /// Objects that broke off and went on.
    pub resumed: u64,
    /// Objects that no server could complete.
    pub failed: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Objects that were not fetched on, since they had no reader any more.
    pub cancelled: u64,
}

impl FetchCounters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> FetchFigures {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FetchFigures {
            fetches: value(&self.fetches),
            resumed: value(&self.resumed),
            failed: value(&self.failed),
            bytes: value(&self.bytes),
            cancelled: value(&self.cancelled),
        }
    }
}
