//! The disk behind the memory: objects in files, written and read by a thread of its own.
//!
//! ```text
//! fetch ─ an object is whole, and lasts ─► Disk::offer ─► thread "disk" ─► FILE.tmp ─► rename ─► Index
//! worker ─ a miss ─► Index: there? ─► Disk::read ─► thread "disk" ─► block by block ─► Growing ─► its readers
//!                         └─ no ─► fetch                └─ damaged ─► fetch, from there on
//! ```
//! An object is written when it is whole, and not when it makes room in the memory: then a restart finds also what was asked
//! for last, room in the memory is made at once, and what is written is what comes from upstream servers, once. What is old
//! before long is not worth it: playlists, refusals, answers that say so.

mod claims;
mod directory;
#[cfg(test)]
mod disk_tests;
mod files;
mod purging;
mod reading;
mod scanning;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod thread;
mod writing;

use super::Cache;
use super::cache::Job;
use super::fetch_mailbox::FetchMailbox;
use claims::Claims;
use glassline_delivery::fill::disk::{Found, Index, Name};
use glassline_delivery::fill::{Freshness, Object, Purge};
use glassline_delivery::http1::Url;
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use thread::DiskThread;

/// What is of use for a shorter time is not written: it would be old before the next start.
const LASTS_MIN: Duration = Duration::from_secs(30);
/// Bytes that wait to be written at most: a disk that is too slow shall not hold the memory.
const UNWRITTEN_BYTES_MAX: u64 = 128 << 20;
/// Purges that wait for files to be looked at; beyond them all files go.
const PURGES_MAX: usize = 256;
/// Objects that wait to be read at most; others are fetched.
const READS_MAX: usize = 4096;

/// Where files are, and how much they may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// The directory. It belongs to one server.
    pub directory: PathBuf,
    /// Bytes that its files may take.
    pub bytes: u64,
    /// How long an object, or its next block, is waited for; then it is fetched from upstream servers.
    pub timeout: Duration,
}

/// What was done with files.
#[derive(Debug, Default)]
struct DiskCounters {
    read: AtomicU64,
    written: AtomicU64,
    written_bytes: AtomicU64,
    evicted: AtomicU64,
    damaged: AtomicU64,
    errors: AtomicU64,
    skipped: AtomicU64,
    late: AtomicU64,
}

/// What stands in front of the addresses of a server's objects.
fn origin(server: &Url) -> String {
    let scheme = if server.tls() { "https" } else { "http" };
    format!("{scheme}://{}{}", server.authority(), server.target().trim_end_matches('/'))
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What lies in files, and was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Objects in files.
    pub objects: usize,
    /// What those take, about.
    pub bytes: u64,
    /// Objects that were read.
    pub read: u64,
    /// Objects that were written.
    pub written: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Files that made room for others.
    pub evicted: u64,
    /// Files that were dropped because their bytes were not those that had been written.
    pub damaged: u64,
    /// Operations that the system refused: a full disk, a directory that may not be written, a disk that fails.
    pub errors: u64,
    /// Objects that were not written because too much waited for the disk, or because it had failed shortly before.
    pub skipped: u64,
    /// Objects that were fetched since the disk did not give them, or the rest of them, in time.
    pub late: u64,
}

/// What the thread does next.
enum Task {
    /// Reads the object for this job.
    Read { name: Name, found: Found, claim: u64 },
    /// Writes an object that is whole.
    Write { name: Name, key: String, object: Object, freshness: Freshness, came: Utc },
    /// Removes a file: its object is out of date.
    Remove(Name),
}

/// A purge for which not all files were looked at yet.
struct Standing {
    purge: Purge,
    /// Files are being looked at: what was written since may not be among them.
    is_begun: bool,
}

#[derive(Default)]
struct Tasks {
    reads: VecDeque<Task>,
    /// Writes and removals, in their order.
    writes: VecDeque<Task>,
    unwritten_bytes: u64,
    ends: bool,
}

/// What the disk's thread shares with the others.
pub(super) struct Disk {
    settings: DiskSettings,
    /// What stands in front of an object's address, for each group of servers: those of two origins are told apart, also by a
    /// server that is started with another one.
    origins: Vec<String>,
    index: Mutex<Index>,
    tasks: Mutex<Tasks>,
    news: Condvar,
    counters: DiskCounters,
    claims: Mutex<Claims>,
    purges: Mutex<Vec<Standing>>,
    /// Since when the thread is at what it does, in nanoseconds; 0 while it waits for something to do.
    step_since_nanos: AtomicU64,
    unwritten_bytes_max: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole after every single change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Objects come from `groups` of servers, of each of which the first one gives them their names.
    pub(super) fn new<'a>(
        settings: DiskSettings,
        cache_bytes: u64,
        groups: impl Iterator<Item = &'a [Url]>,
    ) -> Arc<Disk> {
        Arc::new(Disk {
            origins: groups.map(|servers| servers.first().map(origin).unwrap_or_default()).collect(),
            index: Mutex::new(Index::new(settings.bytes)),
            settings,
            tasks: Mutex::default(),
            news: Condvar::new(),
            counters: DiskCounters::default(),
            claims: Mutex::default(),
            purges: Mutex::default(),
            step_since_nanos: AtomicU64::new(0),
            unwritten_bytes_max: UNWRITTEN_BYTES_MAX.min(cache_bytes),
        })
    }

    /// Starts the thread. What it cannot read it has fetched by `fetch`.
    pub(super) fn start(
        self: &Arc<Disk>,
        cache: Arc<Cache>,
        fetch: Arc<FetchMailbox>,
        clock: Clock,
    ) -> std::io::Result<JoinHandle<()>> {
        let thread = DiskThread::new(Arc::clone(self), cache, fetch, clock);
        std::thread::Builder::new().name(super::DISK_THREAD.into()).spawn(move || thread.run())
    }

    /// Memory was released, or readers have gone on: what was paused may go on.
    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    /// Ends the thread, after what it is doing.
    pub(super) fn end(&self) {
        lock(&self.tasks).ends = true;
        self.news.notify_one();
    }

    /// What the object for `job` is kept under.
    fn key(&self, job: &Job) -> String {
        let origin = self.origins.get(job.group).map(String::as_str).unwrap_or_default();
        match &job.host {
            None => format!("{origin}{}", job.target),
            Some(host) => format!("{origin} {host} {}", job.target),
        }
    }

    /// Has the object for `job` read, where it is there and of use; else the job comes back, to be fetched.
    /// Where the disk hangs it is not asked.
    pub(super) fn read(&self, job: Job, utc: Utc, now: Time) -> Result<Found, Box<Job>> {
        if self.hangs(now) {
            return Err(Box::new(job));
        }
        let key = self.key(&job);
        let name = Name::of(&key);
        if self.is_purged(&key) {
            return Err(Box::new(job));
        }
        let Some(found) = lock(&self.index).find(name, utc) else { return Err(Box::new(job)) };
        let mut tasks = lock(&self.tasks);
        if tasks.reads.len() >= READS_MAX || tasks.ends {
            return Err(Box::new(job));
        }
        let claim = lock(&self.claims).insert(Box::new(job), now);
        tasks.reads.push_back(Task::Read { name, found, claim });
        drop(tasks);
        self.news.notify_one();
        Ok(found)
    }

    /// The object for `job` is whole and has come from a server: it is written where that is worth it, and what was kept
    /// under its key is out of date in any case.
    pub(super) fn offer(&self, job: &Job, freshness: Freshness, came: Utc, now: Time) {
        let hangs = self.hangs(now);
        let key = self.key(job);
        let name = Name::of(&key);
        let object = job.growing.look(Object::clone);
        let is_worth_it =
            freshness.lasts() >= LASTS_MIN && object.progress().head.is_some_and(|head| head.status() == 200);
        let mut tasks = lock(&self.tasks);
        // It must not be found any more: it was purged, or a part of it is gone. Checked under the lock, which a purge takes
        // once it has marked its objects.
        if job.growing.is_sliding() {
            return;
        }
        let bytes = object.filled();
        if is_worth_it && !hangs && tasks.unwritten_bytes + bytes <= self.unwritten_bytes_max {
            tasks.unwritten_bytes += bytes;
            tasks.writes.push_back(Task::Write { name, key, object, freshness, came });
        } else {
            if is_worth_it {
                count(&self.counters.skipped);
            }
            if !lock(&self.index).has(name) {
                return;
            }
            tasks.writes.push_back(Task::Remove(name));
        }
        drop(tasks);
        self.news.notify_one();
    }

    /// Has the files removed that a purge is about: their names do not tell what is in them, so that the head of each one is read.
    /// Until that is done, none of them is found.
    pub(super) fn purge(&self, purge: Purge) {
        let mut tasks = lock(&self.tasks);
        let mut freed = 0;
        tasks.writes.retain(|task| match task {
            Task::Write { key, object, .. } if self.is_meant(&purge, key) => {
                freed += object.filled();
                false
            }
            _ => true,
        });
        tasks.unwritten_bytes = tasks.unwritten_bytes.saturating_sub(freed);
        let mut purges = lock(&self.purges);
        if !purges.iter().any(|standing| standing.purge == purge && !standing.is_begun) {
            // A disk that hangs looks at no files, and each request looks at what stands.
            let purge = if purges.len() < PURGES_MAX { purge } else { Purge::everything() };
            if purge == Purge::everything() {
                purges.retain(|standing| standing.is_begun);
            }
            purges.push(Standing { purge, is_begun: false });
        }
        drop((tasks, purges));
        self.news.notify_one();
    }

    /// Whether a purge that has not looked at all files yet is about the object of this key.
    fn is_purged(&self, key: &str) -> bool {
        lock(&self.purges).iter().any(|standing| self.is_meant(&standing.purge, key))
    }

    /// Whether a purge is about the object that is kept under this key.
    fn is_meant(&self, purge: &Purge, key: &str) -> bool {
        self.origins.iter().enumerate().any(|(group, origin)| {
            let rest = key.strip_prefix(origin.as_str());
            let target = rest.map(|rest| rest.rsplit_once(' ').map_or(rest, |(_, target)| target));
            target.is_some_and(|target| purge.is_about(group.checked_sub(1), target))
        })
    }

    /// The disk hangs: objects that wait for a write would hold memory for as long. The files that they would have replaced
    /// are out of date, and are removed.
    fn drop_writes(&self) {
        let mut tasks = lock(&self.tasks);
        for task in &mut tasks.writes {
            if let Task::Write { name, .. } = task {
                count(&self.counters.skipped);
                *task = Task::Remove(*name);
            }
        }
        tasks.unwritten_bytes = 0;
    }

    pub(super) fn figures(&self) -> DiskFigures {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (objects, bytes) = {
            let index = lock(&self.index);
            (index.files(), index.bytes())
        };
        let DiskCounters { read, written, written_bytes, evicted, damaged, errors, skipped, late } =
            &self.counters;
        DiskFigures {
            objects,
            bytes,
            read: value(read),
            written: value(written),
            written_bytes: value(written_bytes),
            evicted: value(evicted),
            damaged: value(damaged),
            errors: value(errors),
            skipped: value(skipped),
            late: value(late),
        }
    }
}
