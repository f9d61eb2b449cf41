//! The edge: objects that are served while they fill.
//!
//! ```text
//! relay's streams ─► packager ─► PresentationStore ─┐
//!                                                   ├─► Growing ─► relay's workers ─► waiting clients
//! upstream servers ─► fetching ─► Cache ────────────┘
//!                                   ▲▼
//!                                  Disk
//! ```
//! [`Growing`] joins `delivery::fill`'s object with the readers that wait for more of it; [`PresentationStore`] is one stream's
//! presentation, [`Ladder`] those of the versions of one capture, and [`Edge`] what was fetched from elsewhere, in memory and
//! on a disk.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod cache;
mod chunk_observer;
mod disk;
mod fetch_mailbox;
mod growing;
mod ladder;
mod mpeg_ts_segments;
mod nodes;
mod playlists;
mod presentation_store;
mod readers;
mod reading;
mod recorded;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod upstream;
mod waits;

pub use cache::CacheFigures;
pub use chunk_observer::ChunkObserver;
pub use disk::{DiskFigures, DiskSettings};
pub use glassline_delivery::fill::CacheStatus;
pub use growing::{Growing, ObjectFile, Reader, Wake};
pub use ladder::Ladder;
pub use mpeg_ts_segments::MissingSegment;
pub use playlists::FoundObject;
pub use presentation_store::{CaptureVersion, PresentationStore};
pub use reading::Reading;
pub use recorded::{RecordedObjects, RecordedRequest};
pub use upstream::{FetchFigures, FetcherError, UpstreamRoute, UpstreamSettings};
pub use waits::{ObjectSource, WAIT_EDGES_MS, WaitCounts, Waits};

use cache::{Cache, Job, Unfinished};
use disk::Disk;
use fetch_mailbox::FetchMailbox;
use glassline_delivery::archive::query as archive_query;
use glassline_delivery::fill::disk::Found as OnDisk;
use glassline_delivery::fill::{
    Located, Purge, Via, Wanted, has_passed, locate, server_name, upstream_target,
};
use glassline_delivery::http1::{Headers, Url};
use glassline_io::clock::Clock;
use glassline_media::Time;
use nodes::Nodes;
use readers::Feeder;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use upstream::{FetchCounters, Fetcher};

/// Objects of upstream servers: each is fetched once, however many ask for it, and they read it while it comes. Dropping it
/// ends its threads; what is on its way then fails.
pub struct Edge {
    settings: UpstreamSettings,
    cache: Arc<Cache>,
    counters: Arc<FetchCounters>,
    mailbox: Arc<FetchMailbox>,
    ends: Arc<AtomicBool>,
    name: String,
    clock: Clock,
    disk: Option<Arc<Disk>>,
    nodes: Arc<Nodes>,
    threads: Vec<JoinHandle<()>>,
}

/// An object at a server, and how it is kept here.
struct Sought {
    key: String,
    /// Which servers have it.
    group: usize,
    target: String,
    host: Option<String>,
    /// It may lie on the disk.
    is_for_disk: bool,
}

impl Edge {
    /// Begins. Readers are woken by `wake`; `seed` makes its name among servers, by which it knows requests of its own.
    ///
    /// # Errors
    /// [`FetcherError`].
    pub fn start(
        settings: UpstreamSettings,
        wake: Arc<dyn Wake>,
        clock: Clock,
        seed: u64,
    ) -> Result<Edge, FetcherError> {
        let feeders = Arc::new(Feeders::default());
        let cache = Arc::new(Cache::new(settings.cache_bytes, wake, Arc::clone(&feeders) as Arc<dyn Feeder>));
        let disk = settings.disk.clone().map(|disk| Disk::new(disk, settings.cache_bytes, settings.groups()));
        let (counters, ends) = (Arc::new(FetchCounters::default()), Arc::new(AtomicBool::new(false)));
        let name = server_name(seed);
        let (fetcher, mailbox) = Fetcher::new(
            settings.clone(),
            Arc::clone(&cache),
            disk.clone(),
            Arc::clone(&counters),
            Arc::clone(&ends),
            clock,
            name.clone(),
        )?;
        let nodes = fetcher.nodes();
        let _ = feeders.fetch.set(Arc::clone(&mailbox));
        disk.iter().for_each(|disk| drop(feeders.disk.set(Arc::clone(disk))));
        let threads = Vec::new();
        let mut edge = Edge { settings, cache, counters, mailbox, ends, name, clock, disk, nodes, threads };
        edge.threads.push(std::thread::Builder::new().name("fetch".into()).spawn(move || fetcher.run())?);
        if let Some(disk) = &edge.disk {
            let thread = disk.start(Arc::clone(&edge.cache), Arc::clone(&edge.mailbox), clock)?;
            edge.threads.push(thread);
        }
        Ok(edge)
    }

    /// How it was started.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// Where the object is that a request for `path` with `query` and this `Host` is about; `None` where no server is asked
    /// for it.
    pub fn locate(&self, host: Option<&str>, path: &str, query: &str) -> Option<Located> {
        let routes = self.settings.routes.iter().map(|route| &route.rule);
        let located = locate(routes, host, path, &self.settings.key_query.select(query))?;
        (located.route.is_some() || !self.settings.servers.is_empty()).then_some(located)
    }

    /// The object there, and what was found of it. It is fetched where it is not here; servers are then told by which others
    /// the request came (`via`, RFC 9110 §7.6.3), and this one. Where all connections are in use, requests take turns by the
    /// clients' `address`: of IPv6 the first 64 bits.
    pub fn find(&self, located: Located, via: Via, address: IpAddr, now: Time) -> (Reading, CacheStatus) {
        let key = located.key().into_owned();
        let group = located.route.map_or(0, |route| route + 1);
        let Located { target, host, .. } = located;
        self.find_sought(Sought { key, group, target, host, is_for_disk: true }, via, address, now)
    }

    /// The same of the object that a request for `path` with `query` is about and that `node`, another server of a cluster, has.
    /// `epoch` tells what the node has under a name from what was there before: it is kept apart from that. `None` where it is no path
    /// that servers are asked for, or too many nodes are known.
    pub fn find_at(
        &self,
        (node, epoch): (&Url, u64),
        (path, query): (&str, &str),
        via: Via,
        address: IpAddr,
        now: Time,
    ) -> Option<(Reading, CacheStatus)> {
        // Whatever else counts: the time of what was recorded there.
        let key_query = self.settings.key_query.and(&[archive_query::FROM, archive_query::TO]);
        let target = upstream_target(path, &key_query.select(query))?;
        let number = self.nodes.number(node)?;
        let group = self.settings.groups().count() + number;
        // Other keys begin with a slash, or with the number of a route.
        let key = format!("@{number} {epoch} {target}");
        let sought = Sought { key, group, target, host: None, is_for_disk: false };
        Some(self.find_sought(sought, via, address, now))
    }

    /// What this server is called among others.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn find_sought(&self, sought: Sought, via: Via, address: IpAddr, now: Time) -> (Reading, CacheStatus) {
        let Sought { key, group, target, host, is_for_disk } = sought;
        let (reading, mut status, wanted) = self.cache.find(&key, now);
        let ticket = reading.ticket().load(Ordering::Acquire);
        if status == CacheStatus::Joined && ticket != 0 {
            self.mailbox.join(ticket, address);
        }
        if let Some(Wanted { value, old, old_until }) = wanted {
            let unfinished = Arc::new(Unfinished {
                cache: Arc::clone(&self.cache),
                key: key.clone(),
                growing: Arc::clone(&value),
            });
            let job = Job {
                key,
                group,
                target,
                host,
                refresh: (!Arc::ptr_eq(&value, &reading))
                    .then(|| Arc::new(Reading::of_all(Arc::clone(&value)))),
                asker: address,
                growing: value,
                old,
                old_until,
                begun: None,
                via,
                _unfinished: unfinished,
            };
            // What the memory still has is not older than what the disk has.
            match &self.disk {
                Some(disk) if job.old.is_none() && is_for_disk => {
                    match disk.read(job, self.clock.utc(), self.clock.now()) {
                        Ok(found) => {
                            // What is old is read, and then asked about.
                            if found == OnDisk::Fresh {
                                status = CacheStatus::Disk;
                            }
                            // The thread that fetches looks after it, should the disk be too slow.
                            self.mailbox.wake();
                        }
                        Err(job) => self.mailbox.send(job),
                    }
                }
                _ => self.mailbox.send(Box::new(job)),
            }
        }
        self.cache.count(status);
        (reading, status)
    }

    /// Whether a request with these fields has passed here already.
    pub fn is_loop(&self, headers: &Headers) -> bool {
        has_passed(headers, &self.name)
    }

    /// Forgets the objects that clients ask for at `path`, or with `is_prefix` at all paths that begin with it: the next request for
    /// one goes to its server. Returns how many there were in memory; those of the disk are not found any more, and are removed by its
    /// thread. `None` where it is no path that servers are asked for.
    pub fn purge(&self, path: &str, is_prefix: bool) -> Option<usize> {
        let routes = self.settings.routes.iter().map(|route| &route.rule);
        let purge = Purge::new(routes, path, is_prefix)?;
        // Before, so that no file takes the place of what the memory lets go; behind, for what was whole in between.
        let purge_disk = || self.disk.iter().for_each(|disk| disk.purge(purge.clone()));
        purge_disk();
        let count = self.cache.purge(&purge);
        purge_disk();
        Some(count)
    }

    /// What was asked for here, and is kept.
    pub fn cache_figures(&self) -> CacheFigures {
        self.cache.figures()
    }

    /// What lies on the disk, where there is one behind the memory.
    pub fn disk_figures(&self) -> Option<DiskFigures> {
        self.disk.as_ref().map(|disk| disk.figures())
    }

    /// What was fetched.
    pub fn fetch_figures(&self) -> FetchFigures {
        self.counters.figures()
    }
}

/// The name of the disk's thread; the other thread fetches.
const DISK_THREAD: &str = "disk";
/// How often it is looked whether a thread has ended.
const END_LOOK: std::time::Duration = std::time::Duration::from_millis(2);

/// The threads that fill objects.
#[derive(Default)]
struct Feeders {
    fetch: OnceLock<Arc<FetchMailbox>>,
    disk: OnceLock<Arc<Disk>>,
}

impl Feeder for Feeders {
    fn resume(&self) {
        self.fetch.get().into_iter().for_each(|mailbox| mailbox.wake());
        self.disk.get().into_iter().for_each(|disk| disk.wake());
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        self.mailbox.wake();
        self.disk.iter().for_each(|disk| disk.end());
        let hangs = || self.disk.as_ref().is_some_and(|disk| disk.hangs(self.clock.now()));
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && !hangs() {
                std::thread::sleep(END_LOOK);
            }
            if !thread.is_finished() && thread.thread().name() == Some(DISK_THREAD) {
                // It ends when the disk answers again.
                continue;
            }
            // One that panicked has said so on standard error.
            drop(thread.join());
        }
    }
}
