//! What upstream servers answered, or are answering: one object for each address, whoever asks for it. What is kept, and
//! what becomes of a request, `delivery::fill::Store` decides; here are its lock, and those who are woken.

use super::{Growing, Wake};
use glassline_delivery::fill::{
    CacheStatus, Failure, Freshness, Key, Lookup, Object, Store, StoreFigures, Wanted,
};
use glassline_media::Time;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// An object to be fetched.
#[derive(Debug)]
pub(super) struct Job {
    /// What it is kept under.
    pub(super) key: String,
    /// Which servers have it: 0 are those for everything else, those of the routes follow.
    pub(super) group: usize,
    /// Path and query at the server.
    pub(super) target: String,
    /// What the server is called by, where that is not its own name.
    pub(super) host: Option<String>,
    pub(super) growing: Arc<Growing>,
    /// What was there, which may still hold.
    pub(super) old: Option<Arc<Growing>>,
    /// Until when that may be given where no server can be reached.
    pub(super) old_until: Time,
    /// What of it came from the disk, which has no more.
    pub(super) begun: Option<Begun>,
    /// The servers by which the request came that asks for it.
    pub(super) via: Option<String>,
    /// Where it is kept.
    pub(super) cache: Arc<Cache>,
}

/// A job that is dropped before its object is over was dropped by a panic: the object fails, so that its readers do not wait for
/// it, and who asks next begins anew.
impl Drop for Job {
    fn drop(&mut self) {
        if !self.growing.look(Object::is_over) {
            self.cache.forget(&self.key, &self.growing);
            self.growing.change(|object| object.fail(Failure::Fault));
        }
    }
}

/// The part of an object that is there already.
#[derive(Debug)]
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
}

/// See the module.
pub(super) struct Cache {
    bytes_max: u64,
    kept: Mutex<Store<Arc<Growing>>>,
    /// Strangers choose what objects are called, and cannot foresee its hashes.
    hasher: RandomState,
    wake: Arc<dyn Wake>,
    requests: [AtomicU64; CacheStatus::ALL.len()],
}

impl fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

impl Cache {
    pub(super) fn new(bytes_max: u64, wake: Arc<dyn Wake>) -> Cache {
        let kept = Mutex::new(Store::new(bytes_max));
        Cache { bytes_max, kept, hasher: RandomState::new(), wake, requests: Default::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Store<Arc<Growing>>> {
        self.kept.lock().unwrap_or_else(|poisoned| {
            // A panic has left the store half-written. It begins anew: who reads an object keeps that object.
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
        Growing::new(Object::new(), Arc::clone(&self.wake))
    }

    /// The object of this key. Where it is to be fetched, or asked about, also what to do for it.
    pub(super) fn find(
        &self,
        key: &str,
        now: Time,
    ) -> (Arc<Growing>, CacheStatus, Option<Wanted<Arc<Growing>>>) {
        let key = self.key(key);
        let Lookup { value, status, wanted } = self.lock().find(key, now, || self.fresh());
        (value, status, wanted)
    }

    /// A request came to this.
    pub(super) fn count(&self, status: CacheStatus) {
        let at = CacheStatus::ALL.iter().position(|it| *it == status).unwrap_or_default();
        self.requests[at].fetch_add(1, Ordering::Relaxed);
    }

    /// `growing` has, or is about to have, all its `bytes`, and is worth this much. To be told before those who read it see
    /// its end: who asks again then finds it so.
    pub(super) fn keep(
        &self,
        key: &str,
        growing: &Arc<Growing>,
        bytes: u64,
        freshness: Freshness,
        now: Time,
    ) {
        let key = self.key(key);
        self.lock().keep(key, Arc::clone(growing), bytes, freshness, now);
    }

    /// `growing` is about to fail. Who asks next is not to join it.
    pub(super) fn forget(&self, key: &str, growing: &Arc<Growing>) {
        let key = self.key(key);
        self.lock().forget(key, |known| Arc::ptr_eq(known, growing));
    }

    /// What was done, and is held.
    pub(super) fn figures(&self) -> CacheFigures {
        let StoreFigures { objects, bytes, evicted } = self.lock().figures();
        let requests = std::array::from_fn(|at| self.requests[at].load(Ordering::Relaxed));
        CacheFigures { requests, objects, bytes, evicted }
    }
}
