//! What upstream servers answered, or are answering: one object for each address, whoever asks for it.

use super::{Growing, Wake};
use glassline_delivery::fill::{Freshness, Object};
use glassline_media::Time;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a request found (RFC 9211 calls the first `hit`, and the others `fwd` with `collapsed` or not).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheStatus {
    /// It was there.
    Hit,
    /// It was there, old, and is asked for anew.
    Stale,
    /// It was on its way already.
    Joined,
    /// It is asked for.
    Miss,
}

impl CacheStatus {
    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            CacheStatus::Hit => "hit",
            CacheStatus::Stale => "stale",
            CacheStatus::Joined => "joined",
            CacheStatus::Miss => "miss",
        }
    }
}

/// An object to be fetched.
#[derive(Debug)]
pub(super) struct Job {
    /// Path and query at the server.
    pub(super) target: String,
    pub(super) growing: Arc<Growing>,
    /// What was there, which may still hold.
    pub(super) old: Option<Arc<Growing>>,
    /// Until when that may be given where no server can be reached.
    pub(super) old_until: Time,
    /// The servers by which the request came that asks for it.
    pub(super) via: Option<String>,
}

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Requests by what they found: hit, stale, joined, miss.
    pub requests: [u64; 4],
    /// Objects that are kept or on their way.
    pub objects: usize,
    /// Bytes of those that are kept.
    pub bytes: u64,
    /// Objects that made room for others.
    pub evicted: u64,
}

/// What an object takes in memory beside its bytes, about.
const OVERHEAD_BYTES: u64 = 1024;
/// Where there is no room, this part of it is made.
const ROOM_MADE: u64 = 16;
/// Objects among which nobody looks for what is old.
const SWEPT_MIN: usize = 1024;

/// See the module.
pub(super) struct Cache {
    kept: Mutex<Kept>,
    wake: Arc<dyn Wake>,
    bytes_max: u64,
    requests: [AtomicU64; 4],
}

#[derive(Default)]
struct Kept {
    entries: HashMap<String, Entry>,
    bytes: u64,
    /// Counts uses: who was used longest ago goes first.
    uses: u64,
    evicted: u64,
    /// At so many objects what is of no use any more is let go: strangers choose their names.
    sweep_at: usize,
}

struct Entry {
    growing: Arc<Growing>,
    /// Until when it is fresh, of use while it is asked for anew, and of use where no server can be reached. `None` while it fills.
    until: Option<[Time; 3]>,
    refreshes: bool,
    bytes: u64,
    used: u64,
}

impl Cache {
    pub(super) fn new(bytes_max: u64, wake: Arc<dyn Wake>) -> Cache {
        Cache { kept: Mutex::default(), wake, bytes_max, requests: Default::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Each change leaves it whole, whatever panicked in between.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object of this address. Where it is to be fetched, or asked about, also the job to do.
    pub(super) fn find(&self, target: &str, now: Time) -> (Arc<Growing>, CacheStatus, Option<Job>) {
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let fresh = || Growing::new(Object::new(), Arc::clone(&self.wake));
        let (growing, status, job) = match kept.entries.get_mut(target) {
            Some(entry) => {
                entry.used = uses;
                match entry.until {
                    None => (Arc::clone(&entry.growing), CacheStatus::Joined, None),
                    Some([fresh_until, ..]) if now < fresh_until => {
                        (Arc::clone(&entry.growing), CacheStatus::Hit, None)
                    }
                    Some([_, stale_until, old_until]) => {
                        let old = Arc::clone(&entry.growing);
                        let growing = fresh();
                        let job = Job {
                            target: target.to_owned(),
                            growing: Arc::clone(&growing),
                            old: Some(Arc::clone(&old)),
                            old_until,
                            via: None,
                        };
                        if now < stale_until {
                            let job = (!std::mem::replace(&mut entry.refreshes, true)).then_some(job);
                            (old, CacheStatus::Stale, job)
                        } else {
                            let bytes = std::mem::take(&mut entry.bytes);
                            (entry.growing, entry.until) = (Arc::clone(&growing), None);
                            kept.bytes -= bytes;
                            (growing, CacheStatus::Miss, Some(job))
                        }
                    }
                }
            }
            None => {
                kept.sweep(now);
                let growing = fresh();
                let entry = Entry {
                    growing: Arc::clone(&growing),
                    until: None,
                    refreshes: false,
                    bytes: 0,
                    used: uses,
                };
                kept.entries.insert(target.to_owned(), entry);
                let job = Job {
                    target: target.to_owned(),
                    growing: Arc::clone(&growing),
                    old: None,
                    old_until: Time::ZERO,
                    via: None,
                };
                (growing, CacheStatus::Miss, Some(job))
            }
        };
        self.requests[status as usize].fetch_add(1, Ordering::Relaxed);
        (growing, status, job)
    }

    /// `growing` has, or is about to have, all its `bytes`, and is worth this much. To be told before those who read it see
    /// its end: who asks again then finds it so.
    pub(super) fn keep(
        &self,
        target: &str,
        growing: &Arc<Growing>,
        bytes: u64,
        freshness: Freshness,
        now: Time,
    ) {
        let bytes = bytes + OVERHEAD_BYTES;
        let fresh = now + freshness.fresh;
        let until = [fresh, fresh + freshness.stale_while_revalidate, fresh + freshness.stale_if_error];
        let mut kept = self.lock();
        let is_of_use = until.iter().any(|until| *until > now);
        let Some(entry) = kept.entries.get_mut(target) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        (entry.growing, entry.until, entry.refreshes) = (Arc::clone(growing), Some(until), false);
        kept.bytes = kept.bytes - before + bytes;
        if !is_of_use {
            kept.remove(target);
        }
        if kept.bytes > self.bytes_max {
            kept.evict(self.bytes_max - self.bytes_max / ROOM_MADE);
        }
    }

    /// `growing` is about to fail. Who asks next is not to join it.
    pub(super) fn forget(&self, target: &str, growing: &Arc<Growing>) {
        let mut kept = self.lock();
        let Some(entry) = kept.entries.get_mut(target) else { return };
        entry.refreshes = false;
        if Arc::ptr_eq(&entry.growing, growing) {
            kept.remove(target);
        }
    }

    /// What was done, and is held.
    pub(super) fn figures(&self) -> CacheFigures {
        let kept = self.lock();
        CacheFigures {
            requests: std::array::from_fn(|at| self.requests[at].load(Ordering::Relaxed)),
            objects: kept.entries.len(),
            bytes: kept.bytes,
            evicted: kept.evicted,
        }
    }
}

impl Kept {
    /// Lets go what is of no use any more, now and then.
    fn sweep(&mut self, now: Time) {
        if self.entries.len() < self.sweep_at.max(SWEPT_MIN) {
            return;
        }
        let Kept { entries, bytes, .. } = self;
        entries.retain(|_, entry| {
            let is_of_use = entry.until.is_none_or(|until| until.iter().any(|until| *until > now));
            if !is_of_use {
                *bytes -= entry.bytes;
            }
            is_of_use
        });
        self.sweep_at = self.entries.len() * 2;
    }

    /// Lets go what was used longest ago, until `bytes` are kept at most: more than has to be, so that the search for it, which
    /// looks at all, comes seldom.
    fn evict(&mut self, bytes: u64) {
        let whole = self.entries.iter().filter(|(_, entry)| entry.until.is_some());
        let mut by_use: Vec<(u64, String)> =
            whole.map(|(target, entry)| (entry.used, target.clone())).collect();
        by_use.sort_unstable();
        for (_, target) in by_use {
            if self.bytes <= bytes {
                return;
            }
            self.remove(&target);
            self.evicted += 1;
        }
    }

    fn remove(&mut self, target: &str) {
        if let Some(entry) = self.entries.remove(target) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::fill::{Bytes, Head};
    use std::time::Duration;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self, _: usize, _: Vec<u64>) {}
    }

    fn cache(bytes_max: u64) -> Cache {
        Cache::new(bytes_max, Arc::new(Nobody))
    }

    fn fill(job: &Job, bytes: usize) {
        job.growing.change(|object| {
            object.begin(Head::new("video/mp4"), None);
            object.append(Bytes::from(vec![0; bytes]));
            object.finish();
        });
    }

    fn freshness(fresh: u64, swr: u64, error: u64) -> Freshness {
        Freshness {
            fresh: Duration::from_secs(fresh),
            stale_while_revalidate: Duration::from_secs(swr),
            stale_if_error: Duration::from_secs(error),
        }
    }

    fn at(secs: u64) -> Time {
        Time::from_millis(secs * 1000)
    }

    #[test]
    fn one_job_however_many_ask() {
        let cache = cache(1 << 20);
        let (first, status, job) = cache.find("/a", at(0));
        let job = job.unwrap();
        assert_eq!(status, CacheStatus::Miss);
        for _ in 0..100 {
            let (growing, status, job) = cache.find("/a", at(0));
            assert!(Arc::ptr_eq(&growing, &first) && status == CacheStatus::Joined && job.is_none());
        }
        fill(&job, 10);
        cache.keep("/a", &job.growing, 10, freshness(5, 5, 60), at(1));
        assert_eq!(cache.find("/a", at(5)).1, CacheStatus::Hit);
        let (old, status, refresh) = cache.find("/a", at(7));
        assert!(Arc::ptr_eq(&old, &first) && status == CacheStatus::Stale && refresh.is_some());
        assert!(cache.find("/a", at(7)).2.is_none(), "it is asked for once");
        let (new, status, job) = cache.find("/a", at(30));
        assert!(!Arc::ptr_eq(&new, &first) && status == CacheStatus::Miss);
        let job = job.unwrap();
        assert!(job.old.is_some() && job.old_until == at(66));
        assert_eq!(cache.figures().requests, [1, 2, 100, 2]);
    }

    #[test]
    fn what_is_of_no_use_and_what_failed_is_asked_for_again() {
        let cache = cache(1 << 20);
        let job = cache.find("/a", at(0)).2.unwrap();
        fill(&job, 10);
        cache.keep("/a", &job.growing, 10, Freshness::default(), at(0));
        let job = cache.find("/a", at(0)).2.expect("it was not kept");
        cache.forget("/a", &job.growing);
        assert!(cache.find("/a", at(0)).2.is_some());
        assert_eq!((cache.figures().objects, cache.figures().bytes), (1, 0));
    }

    #[test]
    fn names_that_strangers_choose_do_not_pile_up() {
        let cache = cache(1 << 30);
        for number in 0..10_000u64 {
            let name = format!("/{number}");
            let job = cache.find(&name, at(number)).2.unwrap();
            fill(&job, 10);
            cache.keep(&name, &job.growing, 10, freshness(1, 0, 0), at(number));
        }
        let figures = cache.figures();
        assert!(figures.objects <= SWEPT_MIN, "{figures:?}");
        assert_eq!(figures.bytes, figures.objects as u64 * (10 + OVERHEAD_BYTES));
    }

    #[test]
    fn who_was_used_longest_ago_makes_room() {
        let cache = cache(25_000 + 2 * OVERHEAD_BYTES);
        for name in ["/a", "/b", "/c"] {
            let job = cache.find(name, at(0)).2.unwrap();
            fill(&job, 10_000);
            cache.find("/a", at(0));
            cache.keep(name, &job.growing, 10_000, freshness(60, 0, 0), at(0));
        }
        let figures = cache.figures();
        assert_eq!((figures.objects, figures.bytes, figures.evicted), (2, 20_000 + 2 * OVERHEAD_BYTES, 1));
        assert_eq!(cache.find("/a", at(1)).1, CacheStatus::Hit);
        assert_eq!(cache.find("/b", at(1)).1, CacheStatus::Miss);
    }
}
