//! What was read, in memory: the object that was used longest ago goes first.

use super::ReadingFigures;
use glassline_delivery::fill::Object as Filling;
use glassline_edge::Growing;
use glassline_media::Time;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Objects that are fetched at once, and playlists that are rendered or wait, at most: neither takes the room of the other.
const COMING_MAX: usize = 192;
const LISTS_MAX: usize = 128;
/// Of these, those that one address has caused, at most, where nothing else is configured: a third. Of playlists two thirds of that.
pub(super) const COMING_MAX_OF_ONE: usize = COMING_MAX / 3;
/// What it has caused of their bytes, at most; one object always comes.
const BYTES_MAX_OF_ONE: u64 = COMING_MAX_BYTES / 3;
/// Answers in place of objects that are kept, at most: strangers ask for what is not there.
const FAILED_MAX: usize = 1024;
/// Their bytes, as far as they are known: more than one is not begun beyond it.
pub(super) const COMING_MAX_BYTES: u64 = 64 << 20;
/// Objects that are kept at most, however small they are.
const KEPT_MAX: usize = 1 << 14;
/// What an object takes beside its bytes: its head, its place here, twice its key.
const BESIDE_BYTES: u64 = 1024;

/// What is expected of a playlist.
pub(super) const LIST: u64 = u64::MAX;

/// See the module.
pub(super) struct Cache {
    max_bytes: u64,
    entries: HashMap<String, Entry>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
    bytes: u64,
    coming: usize,
    coming_bytes: u64,
    lists: usize,
    /// What each address has caused of these.
    of_one: HashMap<IpAddr, Caused>,
    /// Objects that one may cause; 0: any number.
    max_of_one: usize,
    failed: VecDeque<String>,
    figures: ReadingFigures,
}

/// What an address has caused that is coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Caused {
    objects: usize,
    lists: usize,
    bytes: u64,
}

struct Entry {
    growing: Arc<Growing>,
    used: u64,
    /// How many bytes it was expected to have.
    expected: u64,
    is_list: bool,
    /// The address that has caused it, while it is coming.
    by: Option<IpAddr>,
    has_failed: bool,
    /// Its bytes, once it is whole.
    bytes: Option<u64>,
    /// From then on it is fetched anew.
    expires: Time,
}

/// What a look came to.
pub(super) enum Looked {
    /// It is there, or coming.
    Known(Arc<Growing>),
    /// It is not; the caller fills what it was given, and says when it is whole.
    New(Arc<Growing>),
    /// Too much is coming.
    Busy,
    /// Too much is coming that this address has caused.
    BusyWithOne,
}

impl Cache {
    pub(super) fn new(max_bytes: u64) -> Cache {
        Cache {
            max_bytes,
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            coming: 0,
            coming_bytes: 0,
            lists: 0,
            of_one: HashMap::new(),
            max_of_one: COMING_MAX_OF_ONE,
            failed: VecDeque::new(),
            figures: ReadingFigures::default(),
        }
    }

    /// How many objects one address may cause from now on; 0: any number.
    pub(super) fn set_max_of_one(&mut self, objects: usize) {
        self.max_of_one = objects;
    }

    pub(super) fn figures(&self) -> ReadingFigures {
        self.figures
    }

    #[cfg(test)]
    pub(super) fn look(
        &mut self,
        key: &str,
        expected: u64,
        now: Time,
        new: impl FnOnce() -> Arc<Growing>,
    ) -> Looked {
        self.look_for(None, key, expected, now, new)
    }

    /// The object of this key, or a new one of about `expected` bytes that `new` makes. `by` has asked for it; `None`: no one address.
    pub(super) fn look_for(
        &mut self,
        by: Option<IpAddr>,
        key: &str,
        expected: u64,
        now: Time,
        new: impl FnOnce() -> Arc<Growing>,
    ) -> Looked {
        if self.entries.get(key).is_some_and(|entry| entry.bytes.is_some() && now >= entry.expires) {
            self.remove(key);
        }
        self.uses += 1;
        if let Some(entry) = self.entries.get_mut(key) {
            self.by_use.remove(&entry.used);
            entry.used = self.uses;
            self.by_use.insert(self.uses, key.to_owned());
            self.figures.hits += 1;
            return Looked::Known(Arc::clone(&entry.growing));
        }
        // A playlist is counted as one, since it is rendered by one thread.
        let is_list = expected == LIST;
        let expected = if is_list { 0 } else { expected };
        if by.is_some_and(|by| self.is_too_much_of_one(by, is_list, expected)) {
            self.figures.refused += 1;
            return Looked::BusyWithOne;
        }
        let is_too_much =
            self.coming > self.lists && self.coming_bytes.saturating_add(expected) > COMING_MAX_BYTES;
        let (own, max) =
            if is_list { (self.lists, LISTS_MAX) } else { (self.coming - self.lists, COMING_MAX) };
        if own >= max || !is_list && is_too_much {
            return Looked::Busy;
        }
        if let Some(by) = by {
            let caused = self.of_one.entry(by).or_default();
            caused.objects += usize::from(!is_list);
            caused.lists += usize::from(is_list);
            caused.bytes = caused.bytes.saturating_add(expected);
        }
        let growing = new();
        self.coming += 1;
        self.lists += usize::from(is_list);
        self.coming_bytes = self.coming_bytes.saturating_add(expected);
        self.figures.misses += 1;
        let (used, expires) = (self.uses, Time::NEVER);
        let entry = Entry {
            growing: Arc::clone(&growing),
            used,
            expected,
            is_list,
            by,
            has_failed: false,
            bytes: None,
            expires,
        };
        self.entries.insert(key.to_owned(), entry);
        self.by_use.insert(self.uses, key.to_owned());
        Looked::New(growing)
    }

    fn is_too_much_of_one(&self, by: IpAddr, is_list: bool, expected: u64) -> bool {
        let Some(caused) = self.of_one.get(&by).filter(|_| self.max_of_one > 0) else { return false };
        if is_list {
            caused.lists >= (self.max_of_one * 2 / 3).max(1)
        } else {
            caused.objects >= self.max_of_one
                || caused.objects > 0 && caused.bytes.saturating_add(expected) > BYTES_MAX_OF_ONE
        }
    }

    /// Whether it gives this object for this key.
    pub(super) fn has(&self, key: &str, growing: &Arc<Growing>) -> bool {
        self.entries.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.growing, growing))
    }

    /// The object of this key is whole, or has failed; it may be given until `expires`.
    pub(super) fn is_whole(&mut self, key: &str, growing: &Arc<Growing>, expires: Time, failed: bool) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.growing, growing))
        else {
            return;
        };
        let bytes = growing.look(Filling::filled) + BESIDE_BYTES + 2 * key.len() as u64;
        if entry.bytes.replace(bytes).is_none() {
            self.coming -= 1;
            self.lists -= usize::from(entry.is_list);
            self.coming_bytes -= entry.expected;
            self.bytes += bytes;
            self.figures.failures += u64::from(failed);
            leave(&mut self.of_one, entry);
        }
        entry.expires = expires;
        entry.has_failed = failed;
        if failed {
            self.failed.push_back(key.to_owned());
            if self.failed.len() > FAILED_MAX
                && let Some(first) = self.failed.pop_front()
                && self.entries.get(&first).is_some_and(|entry| entry.has_failed)
            {
                self.remove(&first);
            }
        }
        self.make_room();
    }

    /// What has expired goes: called now and then.
    pub(super) fn sweep(&mut self, now: Time) {
        let expired = self.entries.iter().filter(|(_, entry)| entry.bytes.is_some() && now >= entry.expires);
        let expired: Vec<String> = expired.map(|(key, _)| key.clone()).collect();
        expired.iter().for_each(|key| self.remove(key));
    }

    /// Objects with keys that begin so go: they are deleted. Those that are coming are given once more.
    pub(super) fn forget(&mut self, prefix: &str) {
        let gone: Vec<String> = self.entries.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    fn make_room(&mut self) {
        while self.bytes > self.max_bytes || self.entries.len() > KEPT_MAX + COMING_MAX {
            // What is coming stays: those that wait for it are one crowd.
            let oldest = self
                .by_use
                .values()
                .find(|key| self.entries.get(*key).is_some_and(|entry| entry.bytes.is_some()));
            let Some(key) = oldest.cloned() else { break };
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(mut entry) = self.entries.remove(key) {
            leave(&mut self.of_one, &mut entry);
            self.by_use.remove(&entry.used);
            match entry.bytes {
                Some(bytes) => self.bytes -= bytes,
                None => {
                    self.coming -= 1;
                    self.lists -= usize::from(entry.is_list);
                    self.coming_bytes -= entry.expected;
                }
            }
        }
    }
}

/// It is not coming any more for the address that has caused it.
fn leave(of_one: &mut HashMap<IpAddr, Caused>, entry: &mut Entry) {
    let Some(by) = entry.by.take() else { return };
    let Some(caused) = of_one.get_mut(&by) else { return };
    caused.objects = caused.objects.saturating_sub(usize::from(!entry.is_list));
    caused.lists = caused.lists.saturating_sub(usize::from(entry.is_list));
    caused.bytes = caused.bytes.saturating_sub(entry.expected);
    if *caused == Caused::default() {
        of_one.remove(&by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::fill::{Bytes, Head};
    use glassline_edge::Wake;

    struct Still;

    impl Wake for Still {
        fn wake(&self, _: usize, _: Vec<u64>) {}
    }

    fn new() -> Arc<Growing> {
        Growing::new(Filling::new(), Arc::new(Still))
    }

    fn fill(cache: &mut Cache, key: &str, bytes: usize, expires: u64) {
        if let Looked::New(growing) = cache.look(key, 0, Time::ZERO, new) {
            growing.change(|object| {
                object.begin(Head::new("video/mp4"), None);
                object.append(Bytes::from(vec![0; bytes]));
                object.finish();
            });
            cache.is_whole(key, &growing, Time::from_millis(expires), false);
        }
    }

    fn is_known(cache: &mut Cache, key: &str, now: u64) -> bool {
        let known = matches!(cache.look(key, 0, Time::from_millis(now), new), Looked::Known(_));
        if !known {
            cache.remove(key);
        }
        known
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_what_is_coming_stays() {
        let own = BESIDE_BYTES + 2;
        let mut cache = Cache::new(100 + 3 * own);
        let Looked::New(coming) = cache.look("coming", 0, Time::ZERO, new) else { panic!() };
        for key in ["a", "b", "c"] {
            fill(&mut cache, key, 33, 1000);
        }
        assert!(is_known(&mut cache, "a", 0));
        fill(&mut cache, "d", 33, 1000);
        assert!(!is_known(&mut cache, "b", 0));
        assert!(["a", "c", "d"].iter().all(|key| is_known(&mut cache, key, 0)));
        let Looked::Known(same) = cache.look("coming", 0, Time::ZERO, new) else { panic!() };
        assert!(Arc::ptr_eq(&coming, &same));
        assert_eq!(cache.bytes, 99 + 3 * own);
        fill(&mut cache, "huge", 10_000, 1000);
        assert_eq!((cache.bytes, cache.entries.len(), cache.by_use.len()), (0, 1, 1));
    }

    #[test]
    fn what_has_expired_is_fetched_anew() {
        let mut cache = Cache::new(10_000);
        fill(&mut cache, "b", 10, 20);
        cache.sweep(Time::from_millis(20));
        assert_eq!((cache.entries.len(), cache.by_use.len()), (0, 0));
        fill(&mut cache, "hall/s/1", 10, 50);
        cache.forget("hall/s/");
        assert!(!is_known(&mut cache, "hall/s/1", 0));
        fill(&mut cache, "a", 10, 50);
        assert!(is_known(&mut cache, "a", 49));
        assert!(!is_known(&mut cache, "a", 50));
        assert_eq!((cache.bytes, cache.coming), (0, 0));
    }

    #[test]
    fn no_more_than_so_many_are_coming() {
        let mut cache = Cache::new(100);
        for number in 0..COMING_MAX {
            assert!(matches!(cache.look(&number.to_string(), 0, Time::ZERO, new), Looked::New(_)));
        }
        assert!(matches!(cache.look("one more", 0, Time::ZERO, new), Looked::Busy));
        assert!(matches!(cache.look("7", 0, Time::ZERO, new), Looked::Known(_)));
    }

    #[test]
    fn one_address_has_a_third_of_what_is_coming_and_what_others_have_asked_for_costs_it_nothing() {
        let mut cache = Cache::new(10_000);
        let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let look = |cache: &mut Cache, by, key: &str, bytes| cache.look_for(by, key, bytes, Time::ZERO, new);
        let Looked::New(first) = look(&mut cache, address(1), "0", 1) else { panic!() };
        for number in 1..COMING_MAX_OF_ONE {
            assert!(matches!(look(&mut cache, address(1), &number.to_string(), 1), Looked::New(_)));
        }
        assert!(matches!(look(&mut cache, address(1), "more", 1), Looked::BusyWithOne));
        assert!(matches!(look(&mut cache, address(2), "more", 1), Looked::New(_)));
        assert!(
            matches!(look(&mut cache, address(1), "more", 1), Looked::Known(_)),
            "it is coming for another one"
        );
        assert!(matches!(look(&mut cache, None, "of no one", 1), Looked::New(_)));
        for number in 0..COMING_MAX_OF_ONE * 2 / 3 {
            let key = format!("list {number}");
            assert!(
                matches!(look(&mut cache, address(1), &key, LIST), Looked::New(_)),
                "lists are counted apart"
            );
        }
        assert!(matches!(look(&mut cache, address(1), "list", LIST), Looked::BusyWithOne));
        assert_eq!(cache.figures().refused, 2);
        // One that has come makes room, once.
        first.change(Filling::finish);
        cache.is_whole("0", &first, Time::ZERO, false);
        cache.is_whole("0", &first, Time::ZERO, false);
        assert!(matches!(look(&mut cache, address(1), "a", 1), Looked::New(_)));
        assert!(matches!(look(&mut cache, address(1), "b", 1), Looked::BusyWithOne));
        cache.forget("");
        assert!(cache.of_one.is_empty());
        // Few that are large are as much as many.
        for number in 0..4u64 {
            let looked = look(&mut cache, address(1), &format!("large {number}"), BYTES_MAX_OF_ONE / 3);
            assert_eq!(matches!(looked, Looked::New(_)), number < 3, "{number}");
        }
        assert!(
            matches!(look(&mut cache, address(2), "huge", BYTES_MAX_OF_ONE + 1), Looked::New(_)),
            "one comes"
        );
        cache.set_max_of_one(0);
        assert!(matches!(look(&mut cache, address(1), "any number", 1), Looked::New(_)));
    }

    #[test]
    fn bytes_that_are_coming_are_bounded_and_one_always_comes() {
        let mut cache = Cache::new(100);
        let look = |cache: &mut Cache, key: &str, bytes| cache.look(key, bytes, Time::ZERO, new);
        let Looked::New(first) = look(&mut cache, "a", COMING_MAX_BYTES * 2) else { panic!("alone") };
        assert!(matches!(look(&mut cache, "b", 1), Looked::Busy));
        cache.is_whole("a", &first, Time::ZERO, false);
        assert!(matches!(look(&mut cache, "b", COMING_MAX_BYTES - 1), Looked::New(_)));
        assert!(matches!(look(&mut cache, "c", 1), Looked::New(_)));
        assert!(matches!(look(&mut cache, "d", 1), Looked::Busy));
        cache.forget("");
        assert_eq!((cache.coming, cache.coming_bytes, cache.bytes), (0, 0, 0));
    }

    #[test]
    fn playlists_take_no_room_of_objects_and_failures_are_few() {
        let mut cache = Cache::new(4 << 20);
        for number in 0..LISTS_MAX {
            assert!(matches!(cache.look(&format!("list {number}"), LIST, Time::ZERO, new), Looked::New(_)));
        }
        assert!(matches!(cache.look("list", LIST, Time::ZERO, new), Looked::Busy));
        fill(&mut cache, "segment", 10, 1000);
        for number in 0..5000 {
            let key = format!("absent {number}");
            let Looked::New(growing) = cache.look(&key, 1, Time::ZERO, new) else { panic!() };
            growing.change(Filling::finish);
            cache.is_whole(&key, &growing, Time::from_millis(1000), true);
        }
        assert!(is_known(&mut cache, "segment", 0));
        assert_eq!(cache.entries.len(), LISTS_MAX + 1 + FAILED_MAX);
        cache.forget("");
        assert_eq!((cache.coming, cache.lists, cache.bytes), (0, 0, 0));
    }
}
