//! What upstream servers answered, or are answering: one object for each address, shared by all requests for it.
//! `delivery::fill::Store` decides what is kept and what a request gets; this module adds its lock, and wakes readers.

use super::readers::Feeder;
use super::{Growing, Reading, Wake};
use glassline_delivery::fill::{
    Budget, CacheStatus, Failure, Freshness, Key, Lookup, Memory, Object, Pace, Purge, Store, StoreFigures,
    Via, Wanted,
};
use glassline_media::Time;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// An object that has to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The client address that it is fetched for, as fetches that wait take turns by: of IPv6 the first 64 bits.
    pub(super) asker: IpAddr,
    /// What it is kept under.
    pub(super) key: String,
    /// Which servers have it: 0 are those for everything else, those of the routes follow.
    pub(super) group: usize,
    /// Path and query at the server.
    pub(super) target: String,
    /// What the server is called by, where that is not its own name.
    pub(super) host: Option<String>,
    pub(super) growing: Arc<Growing>,
    /// The object is fetched although it has no reader yet: what is here has grown old.
    pub(super) refresh: Option<Arc<Reading>>,
    /// What was there, which may still hold.
    pub(super) old: Option<Arc<Growing>>,
    /// Until when that may be given where no server can be reached.
    pub(super) old_until: Time,
    /// What of it came from the disk, which has no more.
    pub(super) begun: Option<Begun>,
    /// The servers by which the request came that asks for it.
    pub(super) via: Via,
    pub(super) _unfinished: Arc<Unfinished>,
}

/// What all copies of a job share. Where the last of them goes before the object is over, a panic has dropped it: the object
/// fails, so that its readers do not wait for it, and the next request begins anew.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) cache: Arc<Cache>,
    pub(super) key: String,
    pub(super) growing: Arc<Growing>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.growing.look(Object::is_over) {
            self.cache.forget(&self.key, &self.growing);
            self.growing.change(|object| object.fail(Failure::Fault));
        }
    }
}

/// The part of an object that is there already.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) etag: String,
    pub(super) filled: u64,
    pub(super) total: u64,
    /// What it is worth.
    pub(super) freshness: Freshness,
}

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Requests by what they found, as in [`CacheStatus::ALL`].
    pub requests: [u64; CacheStatus::ALL.len()],
    /// Objects that are kept or on their way.
    pub objects: usize,
    /// Bytes of those that are kept.
    pub bytes: u64,
    /// Objects that made room for others.
    pub evicted: u64,
    /// Bytes that all objects take: those that are kept, those on their way, and those that clients, sockets or files to
    /// be written still hold.
    pub held_bytes: u64,
}

/// Where memory is short, this part of it is made free.
const ROOM_MADE: u64 = 16;

/// See the module.
pub(super) struct Cache {
    kept: Mutex<Store<Arc<Growing>>>,
    /// Strangers choose what objects are called, and cannot foresee its hashes.
    hasher: RandomState,
    wake: Arc<dyn Wake>,
    feeder: Arc<dyn Feeder>,
    memory: Memory,
    bytes_max: u64,
    requests: [AtomicU64; CacheStatus::ALL.len()],
}

impl fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

impl Cache {
    pub(super) fn new(bytes_max: u64, wake: Arc<dyn Wake>, feeder: Arc<dyn Feeder>) -> Cache {
        let kept = Mutex::new(Store::new(bytes_max));
        let released = Arc::clone(&feeder);
        let memory = Memory::new(move || released.resume());
        let (hasher, requests) = (RandomState::new(), Default::default());
        Cache { kept, hasher, wake, feeder, memory, bytes_max, requests }
    }

    /// The memory of all objects.
    fn budget(&self) -> Budget {
        Budget { bytes_max: self.bytes_max, held_bytes: self.memory.bytes() }
    }

    /// Bytes that all objects take.
    pub(super) fn held_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// What the feeder of `growing` does next, given `pending` bytes that have come for it and that it does not have yet.
    pub(super) fn pace(&self, growing: &Growing, pending: u64) -> Pace {
        let mut pace = growing.pace(self.budget(), pending);
        if pace == Pace::WaitForRoom {
            // Before the look that finds no room.
            self.memory.await_release();
            self.make_room();
            pace = growing.pace(self.budget(), pending);
        }
        pace
    }

    /// Drops objects without readers, where memory is short. Returns whether there is room now.
    pub(super) fn make_room(&self) -> bool {
        if self.budget().is_full() {
            let is_free = |growing: &Arc<Growing>| growing.readers() == 0;
            // More than has to be, since the search looks at all.
            let wanted = self.bytes_max / ROOM_MADE;
            self.lock().release(is_free, || self.budget().free_bytes() >= wanted);
        }
        !self.budget().is_full()
    }

    /// `growing` drops what all of its readers have read, from now on. The store forgets it, so that no new reader finds it.
    pub(super) fn slide(&self, key: &str, growing: &Arc<Growing>) {
        let key = self.key(key);
        let mut kept = self.lock();
        kept.forget(key, |known| Arc::ptr_eq(known, growing));
        growing.slide();
    }

    /// Drops what a purge is about; its readers read on. Returns how many objects those were.
    pub(super) fn purge(&self, purge: &Purge) -> usize {
        let mut kept = self.lock();
        let (count, gone) = kept.purge(|key| purge.is_about_key(key));
        // Under the lock: what is whole by now is not kept under the key of what comes next, nor written to the disk.
        gone.iter().for_each(|growing| growing.slide());
        count
    }

    /// Forgets `growing` if it has no reader, so that no new one finds it. Returns whether that is so.
    pub(super) fn abandon(&self, key: &str, growing: &Arc<Growing>) -> bool {
        let key = self.key(key);
        // New readers are counted under this lock (`find`).
        let mut kept = self.lock();
        let is_unread = growing.readers() == 0;
        if is_unread {
            kept.forget(key, |known| Arc::ptr_eq(known, growing));
        }
        is_unread
    }

    fn lock(&self) -> MutexGuard<'_, Store<Arc<Growing>>> {
        self.kept.lock().unwrap_or_else(|poisoned| {
            // A panic has left the store half-written. It begins anew; readers of an object keep that object.
            let mut store = poisoned.into_inner();
            *store = Store::new(self.bytes_max);
            self.kept.clear_poison();
            store
        })
    }

    fn key<'a>(&self, text: &'a str) -> Key<'a> {
        Key { text, hash: self.hasher.hash_one(text) }
    }

    /// An object that readers of this cache wait for.
    pub(super) fn fresh(&self) -> Arc<Growing> {
        Growing::fed(self.memory.clone(), Arc::clone(&self.wake), Arc::clone(&self.feeder))
    }

    /// The object of this key. Where it has to be fetched or revalidated, also what that takes.
    pub(super) fn find(&self, key: &str, now: Time) -> (Reading, CacheStatus, Option<Wanted<Arc<Growing>>>) {
        let key = self.key(key);
        let mut kept = self.lock();
        let Lookup { value, status, wanted } = kept.find(key, now, || self.fresh());
        // Under the lock: `abandon` and `make_room` cannot take it for one without readers.
        (Reading::new(value), status, wanted)
    }

    /// A request came to this.
    pub(super) fn count(&self, status: CacheStatus) {
        let at = CacheStatus::ALL.iter().position(|it| *it == status).unwrap_or_default();
        self.requests[at].fetch_add(1, Ordering::Relaxed);
    }

    /// `growing` has, or is about to have, all its `bytes`, and is worth this much. Called before its readers see its end, so
    /// that a request that follows finds it so.
    pub(super) fn keep(
        &self,
        key: &str,
        growing: &Arc<Growing>,
        bytes: u64,
        freshness: Freshness,
        now: Time,
    ) {
        let key = self.key(key);
        {
            let mut kept = self.lock();
            // It was purged, or a part of it is gone, and another one may be on its way under the key.
            if growing.is_sliding() {
                return;
            }
            kept.keep(key, Arc::clone(growing), bytes, freshness, now);
        }
        self.make_room();
    }

    /// `growing` is about to fail. Requests that follow do not join it.
    pub(super) fn forget(&self, key: &str, growing: &Arc<Growing>) {
        let key = self.key(key);
        self.lock().forget(key, |known| Arc::ptr_eq(known, growing));
    }

    /// `growing` is about to become what was there before, of so many `bytes`, which may be given until `old_until`. Nothing
    /// better has come, so the old object keeps its place.
    pub(super) fn fall_back(&self, key: &str, growing: &Arc<Growing>, bytes: u64, old_until: Time) {
        let key = self.key(key);
        self.lock().fall_back(key, |known| Arc::ptr_eq(known, growing), bytes, old_until);
    }

    /// What was done, and is held.
    pub(super) fn figures(&self) -> CacheFigures {
        let StoreFigures { objects, bytes, evicted } = self.lock().figures();
        let requests = std::array::from_fn(|at| self.requests[at].load(Ordering::Relaxed));
        CacheFigures { requests, objects, bytes, evicted, held_bytes: self.memory.bytes() }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
