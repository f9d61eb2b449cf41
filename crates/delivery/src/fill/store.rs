//! What is kept of objects that come from elsewhere, and what becomes of a request for one: the decisions of a cache, without
//! its locks.
//!
//! ```text
//! find ─┬─ there, fresh ──────────► Hit
//!       ├─ there, old, of use ────► Stale, and one of these requests also gets it to fetch
//!       ├─ on its way ────────────► Joined
//!       └─ not there, or too old ─► Miss, to fetch ─► keep (it is whole) | forget (it failed)
//! ```
//! `V` is a handle to an object; clones of one are the same object, and equal.

use super::freshness::Freshness;
use glassline_media::Time;
use hashbrown::HashTable;

/// What a request found (RFC 9211 calls the first `hit`, and the others `fwd` with `collapsed` or not).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheStatus {
    /// It was there.
    Hit,
    /// It was there, old, and is asked for anew.
    Stale,
    /// It was on its way already.
    Joined,
    /// It was on the disk, and is read from there.
    Disk,
    /// It is asked for.
    Miss,
}

impl CacheStatus {
    /// All there are.
    pub const ALL: [CacheStatus; 5] =
        [CacheStatus::Hit, CacheStatus::Stale, CacheStatus::Joined, CacheStatus::Disk, CacheStatus::Miss];

    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            CacheStatus::Hit => "hit",
            CacheStatus::Stale => "stale",
            CacheStatus::Joined => "joined",
            CacheStatus::Disk => "disk",
            CacheStatus::Miss => "miss",
        }
    }
}

/// What an object is kept under.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The same for all requests that are for it.
    pub text: &'a str,
    /// A hash of the text, by a function that strangers cannot foresee: they choose the texts.
    pub hash: u64,
}

/// What a request comes to.
#[derive(Clone, Debug)]
pub struct Lookup<V> {
    /// The object to read.
    pub value: V,
    /// What was found.
    pub status: CacheStatus,
    /// What the caller has to fetch for it.
    pub wanted: Option<Wanted<V>>,
}

/// An object to be fetched.
#[derive(Clone, Debug)]
pub struct Wanted<V> {
    /// What it is put into.
    pub value: V,
    /// What was there, which may still hold.
    pub old: Option<V>,
    /// Until when that may be given where no server can be reached.
    pub old_until: Time,
}

/// What a store holds and has let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Objects that are kept or on their way.
    pub objects: usize,
    /// Bytes of those that are kept.
    pub bytes: u64,
    /// Objects that made room for others.
    pub evicted: u64,
}

/// What an object takes in memory beside its bytes, about.
pub const OVERHEAD_BYTES: u64 = 1024;
/// Where there is no room, this part of it is made.
const ROOM_MADE: u64 = 16;
/// With fewer objects than this, the store does not look for those that are of no use any more.
const SWEPT_MIN: usize = 1024;

/// See the module.
#[derive(Clone, Debug)]
pub struct Store<V> {
    /// By their keys' hashes, which are handed in.
    entries: HashTable<Entry<V>>,
    bytes: u64,
    bytes_max: u64,
    /// Counts uses: what was used longest ago goes first.
    uses: u64,
    evicted: u64,
    /// At so many objects what is of no use any more is let go: strangers choose their names.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    key: Box<str>,
    hash: u64,
    value: V,
    /// Until when it is fresh, of use while it is asked for anew, and of use where no server can be reached. `None` while it fills.
    until: Option<[Time; 3]>,
    /// What is to take its place, while it is asked for anew.
    refresh: Option<V>,
    bytes: u64,
    used: u64,
}

impl<V> Entry<V> {
    fn is_of(&self, key: Key<'_>) -> bool {
        *self.key == *key.text
    }

    /// It is whole, and nothing is on its way that is to take its place.
    fn rests(&self) -> bool {
        self.until.is_some() && self.refresh.is_none()
    }
}

impl<V: Clone + PartialEq> Store<V> {
    /// An empty one that keeps `bytes_max` at most.
    pub fn new(bytes_max: u64) -> Store<V> {
        Store { entries: HashTable::new(), bytes: 0, bytes_max, uses: 0, evicted: 0, sweep_at: 0 }
    }

    /// The object of this key. Where the caller has to fetch it, or to ask whether it still holds, `fresh` makes the object that
    /// the answer goes into. A hit costs no allocation.
    pub fn find(&mut self, key: Key<'_>, now: Time, fresh: impl FnOnce() -> V) -> Lookup<V> {
        self.uses += 1;
        let Some(entry) = self.entries.find_mut(key.hash, |entry| entry.is_of(key)) else {
            return self.begin(key, now, fresh());
        };
        entry.used = self.uses;
        let Some([fresh_until, stale_until, old_until]) = entry.until else {
            return Lookup { value: entry.value.clone(), status: CacheStatus::Joined, wanted: None };
        };
        let old = entry.value.clone();
        if now < fresh_until {
            return Lookup { value: old, status: CacheStatus::Hit, wanted: None };
        }
        if now < stale_until && entry.refresh.is_some() {
            return Lookup { value: old, status: CacheStatus::Stale, wanted: None };
        }
        let value = fresh();
        let wanted = Wanted { value: value.clone(), old: Some(old.clone()), old_until };
        if now < stale_until {
            entry.refresh = Some(value);
            return Lookup { value: old, status: CacheStatus::Stale, wanted: Some(wanted) };
        }
        (entry.value, entry.until) = (value.clone(), None);
        self.bytes -= std::mem::take(&mut entry.bytes);
        Lookup { value, status: CacheStatus::Miss, wanted: Some(wanted) }
    }

    fn begin(&mut self, key: Key<'_>, now: Time, value: V) -> Lookup<V> {
        self.sweep(now);
        let entry = Entry {
            key: key.text.into(),
            hash: key.hash,
            value: value.clone(),
            until: None,
            refresh: None,
            bytes: 0,
            used: self.uses,
        };
        self.entries.insert_unique(key.hash, entry, |entry| entry.hash);
        let wanted = Wanted { value: value.clone(), old: None, old_until: Time::ZERO };
        Lookup { value, status: CacheStatus::Miss, wanted: Some(wanted) }
    }

    /// `value` has, or is about to have, all its `bytes`, and this freshness. The caller says so before readers see the
    /// object's end, so that the next request of such a reader finds it here.
    pub fn keep(&mut self, key: Key<'_>, value: V, bytes: u64, freshness: Freshness, now: Time) {
        let until = freshness.until(now);
        let Some(entry) = self.entries.find_mut(key.hash, |entry| entry.is_of(key)) else { return };
        let bytes = bytes.saturating_add(OVERHEAD_BYTES);
        let before = std::mem::replace(&mut entry.bytes, bytes);
        // Another one that fills for this key goes on: it is the newer one.
        let fills = if entry.until.is_none() { Some(&entry.value) } else { None };
        let goes_on = fills.into_iter().chain(&entry.refresh).find(|other| **other != value).cloned();
        (entry.value, entry.until, entry.refresh) = (value, Some(until), goes_on);
        self.bytes = (self.bytes - before).saturating_add(bytes);
        if until.iter().all(|until| *until <= now) {
            self.remove(key);
        }
        if self.bytes > self.bytes_max {
            self.evict(self.bytes_max - self.bytes_max / ROOM_MADE);
        }
    }

    /// Lets go objects that are whole, those that were used longest ago first, until `is_enough`. Only those that are `free`:
    /// what others hold takes memory still, and would have to be fetched again.
    pub fn release(&mut self, is_free: impl Fn(&V) -> bool, mut is_enough: impl FnMut() -> bool) {
        let free = self.entries.iter().filter(|entry| entry.rests() && is_free(&entry.value));
        let mut by_use: Vec<(u64, u64)> = free.map(|entry| (entry.used, entry.hash)).collect();
        by_use.sort_unstable();
        for (used, hash) in by_use {
            if is_enough() {
                return;
            }
            self.remove_if(hash, |entry| entry.used == used);
            self.evicted += 1;
        }
    }

    /// Forgets the object that `is_it` accepts, which is about to fail, so that the next request does not join it.
    pub fn forget(&mut self, key: Key<'_>, is_it: impl Fn(&V) -> bool) {
        let Some(entry) = self.entries.find_mut(key.hash, |entry| entry.is_of(key)) else { return };
        entry.refresh.take_if(|refresh| is_it(refresh));
        if is_it(&entry.value) {
            self.remove(key);
        }
    }

    /// The fetch of the object that `is_it` accepts has failed, and the object has become again what was there before, of so many
    /// `bytes`, which may be given until `old_until` where no server can be reached. It keeps its place, and the next request has
    /// a server asked whether it still holds.
    pub fn fall_back(&mut self, key: Key<'_>, is_it: impl Fn(&V) -> bool, bytes: u64, old_until: Time) {
        let Some(entry) = self.entries.find_mut(key.hash, |entry| entry.is_of(key)) else { return };
        entry.refresh.take_if(|refresh| is_it(refresh));
        if is_it(&entry.value) {
            entry.until = Some([Time::ZERO, Time::ZERO, old_until]);
            let bytes = bytes.saturating_add(OVERHEAD_BYTES);
            let before = std::mem::replace(&mut entry.bytes, bytes);
            self.bytes = (self.bytes - before).saturating_add(bytes);
            if self.bytes > self.bytes_max {
                self.evict(self.bytes_max - self.bytes_max / ROOM_MADE);
            }
        }
    }

    /// Removes the objects with a key that `is_meant` accepts. Returns how many these were, and the values that were there or on
    /// their way for them. Later requests do not join these, and the caller must not keep them elsewhere: they were asked for
    /// before the purge.
    pub fn purge(&mut self, is_meant: impl Fn(&str) -> bool) -> (usize, Vec<V>) {
        let (mut count, mut gone) = (0, Vec::new());
        let Store { entries, bytes, .. } = self;
        entries.retain(|entry| {
            let is_kept = !is_meant(&entry.key);
            if !is_kept {
                *bytes -= entry.bytes;
                count += 1;
                gone.extend([Some(entry.value.clone()), entry.refresh.take()].into_iter().flatten());
            }
            is_kept
        });
        (count, gone)
    }

    /// What it holds and has let go.
    pub fn figures(&self) -> StoreFigures {
        StoreFigures { objects: self.entries.len(), bytes: self.bytes, evicted: self.evicted }
    }

    /// Lets go what is of no use any more, now and then.
    fn sweep(&mut self, now: Time) {
        if self.entries.len() < self.sweep_at.max(SWEPT_MIN) {
            return;
        }
        let Store { entries, bytes, .. } = self;
        entries.retain(|entry| {
            let is_of_use = entry.refresh.is_some()
                || entry.until.is_none_or(|until| until.iter().any(|until| *until > now));
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
        let whole = self.entries.iter().filter(|entry| entry.rests());
        // No two have the same last use.
        let mut by_use: Vec<(u64, u64)> = whole.map(|entry| (entry.used, entry.hash)).collect();
        by_use.sort_unstable();
        for (used, hash) in by_use {
            if self.bytes <= bytes {
                return;
            }
            self.remove_if(hash, |entry| entry.used == used);
            self.evicted += 1;
        }
    }

    fn remove(&mut self, key: Key<'_>) {
        self.remove_if(key.hash, |entry| entry.is_of(key));
    }

    fn remove_if(&mut self, hash: u64, is_it: impl FnMut(&Entry<V>) -> bool) {
        if let Ok(entry) = self.entries.find_entry(hash, is_it) {
            let (entry, _) = entry.remove();
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn key(text: &str) -> Key<'_> {
        Key { text, hash: text.bytes().fold(7, |hash, byte| hash * 31 + u64::from(byte)) }
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
    fn one_fetch_however_many_ask() {
        let mut store = Store::new(1 << 20);
        let first = store.find(key("/a"), at(0), || 1);
        assert_eq!((first.value, first.status), (1, CacheStatus::Miss));
        assert!(first.wanted.is_some());
        for _ in 0..100 {
            let joined = store.find(key("/a"), at(0), || 2);
            assert!(joined.value == 1 && joined.status == CacheStatus::Joined && joined.wanted.is_none());
        }
        store.keep(key("/a"), 1, 10, freshness(5, 5, 60), at(1));
        assert_eq!(store.find(key("/a"), at(5), || 2).status, CacheStatus::Hit);
        let old = store.find(key("/a"), at(7), || 2);
        assert!(old.value == 1 && old.status == CacheStatus::Stale && old.wanted.unwrap().value == 2);
        assert!(store.find(key("/a"), at(7), || 3).wanted.is_none(), "it is asked for once");
        let new = store.find(key("/a"), at(30), || 4);
        assert_eq!((new.value, new.status), (4, CacheStatus::Miss));
        let wanted = new.wanted.unwrap();
        assert_eq!((wanted.old, wanted.old_until), (Some(1), at(66)));
    }

    #[test]
    fn what_is_purged_is_asked_for_again_whether_it_was_whole_or_not() {
        let mut store = Store::new(1 << 20);
        for (text, value) in [("/a", 1), ("/b", 2), ("/c", 3)] {
            store.find(key(text), at(0), || value);
        }
        store.keep(key("/a"), 1, 10, freshness(60, 0, 0), at(0));
        store.keep(key("/c"), 3, 10, freshness(60, 0, 0), at(0));
        let (count, mut gone) = store.purge(|key| key != "/c");
        gone.sort_unstable();
        assert_eq!((count, gone), (2, vec![1, 2]));
        assert_eq!(store.find(key("/a"), at(1), || 4).status, CacheStatus::Miss);
        assert_eq!(store.find(key("/b"), at(1), || 5).status, CacheStatus::Miss);
        assert_eq!(store.find(key("/c"), at(1), || 6).status, CacheStatus::Hit);
        assert_eq!(store.figures().bytes, 10 + OVERHEAD_BYTES);
    }

    #[test]
    fn what_was_asked_for_anew_before_a_purge_is_told() {
        let mut store = Store::new(1 << 20);
        store.find(key("/a"), at(0), || 1);
        store.keep(key("/a"), 1, 10, freshness(1, 60, 0), at(0));
        assert_eq!(store.find(key("/a"), at(2), || 2).status, CacheStatus::Stale);
        assert_eq!(store.purge(|_| true), (1, vec![1, 2]), "what is on its way is older than the purge, too");
        let anew = store.find(key("/a"), at(3), || 3);
        assert_eq!((anew.value, anew.status, store.figures().bytes), (3, CacheStatus::Miss, 0));
    }

    #[test]
    fn what_is_on_its_way_is_known_until_it_is_there() {
        let mut store = Store::new(1 << 20);
        store.find(key("/a"), at(0), || 1);
        store.keep(key("/a"), 1, 10, freshness(1, 5, 0), at(0));
        assert_eq!(store.find(key("/a"), at(2), || 2).status, CacheStatus::Stale);
        // The second one takes longer than the first may be given.
        assert_eq!(store.find(key("/a"), at(9), || 3).status, CacheStatus::Miss);
        store.keep(key("/a"), 2, 10, freshness(60, 0, 0), at(10));
        let (_, mut gone) = store.purge(|_| true);
        gone.sort_unstable();
        assert_eq!(gone, [2, 3], "the third is on its way still");
        // One that is asked for anew is not evicted, and the failure of another one is not its own.
        store.find(key("/b"), at(20), || 4);
        store.keep(key("/b"), 4, 10, freshness(1, 60, 0), at(20));
        store.find(key("/b"), at(22), || 5);
        store.forget(key("/b"), |value| *value == 3);
        store.release(|_| true, || false);
        assert_eq!(store.purge(|_| true), (1, vec![4, 5]));
    }

    #[test]
    fn what_is_of_no_use_and_what_failed_is_asked_for_again() {
        let mut store = Store::new(1 << 20);
        store.find(key("/a"), at(0), || 1);
        store.keep(key("/a"), 1, 10, Freshness::default(), at(0));
        assert!(store.find(key("/a"), at(0), || 2).wanted.is_some(), "it was not kept");
        store.forget(key("/a"), |value| *value == 1);
        assert!(store.find(key("/a"), at(0), || 3).wanted.is_none(), "another one failed");
        store.forget(key("/a"), |value| *value == 2);
        assert!(store.find(key("/a"), at(0), || 4).wanted.is_some());
        assert_eq!((store.figures().objects, store.figures().bytes), (1, 0));
    }

    #[test]
    fn what_was_good_keeps_its_place_while_no_server_has_better() {
        let mut store = Store::new(1 << 20);
        store.find(key("/a"), at(0), || 1);
        store.keep(key("/a"), 1, 10, freshness(5, 0, 60), at(0));
        for now in [6, 20, 64] {
            let wanted = store.find(key("/a"), at(now), || now).wanted.unwrap();
            assert_eq!((wanted.old.is_some(), wanted.old_until), (true, at(65)), "{now} s");
            store.fall_back(key("/a"), |value| *value == now, 10, wanted.old_until);
        }
        assert_eq!(store.figures().bytes, 10 + OVERHEAD_BYTES);
        // One that is asked about beside it stays as it is.
        let mut store = Store::new(1 << 20);
        store.find(key("/a"), at(0), || 1);
        store.keep(key("/a"), 1, 10, freshness(5, 60, 60), at(0));
        assert!(store.find(key("/a"), at(6), || 2).wanted.is_some());
        store.fall_back(key("/a"), |value| *value == 2, 10, at(65));
        let again = store.find(key("/a"), at(7), || 3);
        assert_eq!((again.value, again.status), (1, CacheStatus::Stale));
        assert!(again.wanted.is_some());
    }

    #[test]
    fn names_that_strangers_choose_do_not_pile_up() {
        let mut store = Store::new(1 << 30);
        for number in 0..10_000u64 {
            let name = format!("/{number}");
            store.find(key(&name), at(number), || number);
            store.keep(key(&name), number, 10, freshness(1, 0, 0), at(number));
        }
        let figures = store.figures();
        assert!(figures.objects <= SWEPT_MIN, "{figures:?}");
        assert_eq!(figures.bytes, figures.objects as u64 * (10 + OVERHEAD_BYTES));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut store = Store::new(25_000 + 2 * OVERHEAD_BYTES);
        for name in ["/a", "/b", "/c"] {
            store.find(key(name), at(0), || name);
            store.find(key("/a"), at(0), || "/a");
            store.keep(key(name), name, 10_000, freshness(60, 0, 0), at(0));
        }
        let figures = store.figures();
        assert_eq!((figures.objects, figures.bytes, figures.evicted), (2, 20_000 + 2 * OVERHEAD_BYTES, 1));
        assert_eq!(store.find(key("/a"), at(1), || "").status, CacheStatus::Hit);
        assert_eq!(store.find(key("/b"), at(1), || "").status, CacheStatus::Miss);
    }

    #[test]
    fn what_is_held_is_not_released() {
        let mut store = Store::new(1 << 20);
        for name in ["/a", "/b", "/c", "/d"] {
            store.find(key(name), at(0), || name);
            if name != "/d" {
                store.keep(key(name), name, 10_000, freshness(60, 0, 0), at(0));
            }
        }
        let mut looks = 0;
        store.release(
            |name| *name != "/a",
            || {
                looks += 1;
                looks > 1
            },
        );
        let found = ["/a", "/b", "/c", "/d"].map(|name| store.find(key(name), at(1), || name).status);
        use CacheStatus::{Hit, Joined, Miss};
        assert_eq!(
            found,
            [Hit, Miss, Hit, Joined],
            "the oldest that nobody holds, and no more than is needed"
        );
    }

    #[derive(Clone, Debug)]
    enum Step {
        Find(u8),
        Keep(u8, u16, u8),
        Forget(u8),
        FallBack(u8, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u8..12).prop_map(Step::Find),
            (0u8..12, any::<u16>(), 0u8..20).prop_map(|(name, bytes, fresh)| Step::Keep(name, bytes, fresh)),
            (0u8..12).prop_map(Step::Forget),
            (0u8..12, any::<u16>()).prop_map(|(name, bytes)| Step::FallBack(name, bytes)),
        ]
    }

    proptest! {
        /// Whatever happens, in whatever order, keys that share a hash too: bytes are those of what is there, within their
        /// bound, and nobody gets another key's object.
        #[test]
        fn bytes_are_counted_and_keys_are_told_apart(
            steps in prop::collection::vec((step(), 0u64..3), 1..200),
            hashes in 1u64..12,
        ) {
            let mut store = Store::new(100_000);
            let mut now = 0;
            for (step, pause) in steps {
                now += pause;
                let name = match step { Step::Find(name) | Step::Keep(name, ..) | Step::Forget(name) | Step::FallBack(name, _) => name };
                let text = format!("/{name}");
                let key = Key { text: &text, hash: u64::from(name) % hashes };
                match step {
                    Step::Find(name) => prop_assert_eq!(store.find(key, at(now), || name).value, name),
                    Step::Keep(name, bytes, fresh) => {
                        store.keep(key, name, bytes.into(), freshness(fresh.into(), 2, 5), at(now));
                    }
                    Step::Forget(name) => store.forget(key, |value| *value == name),
                    Step::FallBack(name, bytes) => {
                        store.fall_back(key, |value| *value == name, bytes.into(), at(now + 3));
                    }
                }
                let counted: u64 = store.entries.iter().map(|entry| entry.bytes).sum();
                prop_assert_eq!(store.figures().bytes, counted);
                prop_assert!(counted <= 100_000);
            }
        }
    }
}
