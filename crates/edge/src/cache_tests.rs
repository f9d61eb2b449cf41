use super::super::testing::{at, bytes, cache, freshness, job, plain, text};
use super::*;
use glassline_delivery::fill::{Bytes, OVERHEAD_BYTES, WINDOW_MIN_BYTES};
use glassline_io::containment::{Border, contain};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Asks for an object at this second.
fn ask(cache: &Cache, key: &str, second: u64) -> (Reading, CacheStatus, Option<Wanted<Arc<Growing>>>) {
    cache.find(key, at(second))
}

fn status(cache: &Cache, key: &str, second: u64) -> CacheStatus {
    ask(cache, key, second).1
}

/// Fills what is wanted with so many bytes, keeps it, and ends it, as a fetch does.
fn fill(cache: &Cache, key: &str, growing: &Arc<Growing>, count: usize, worth: Freshness, second: u64) {
    growing.change(|object| object.begin(plain(), None));
    let held = growing.hold(vec![b'x'; count]);
    growing.change(|object| object.append(held));
    cache.keep(key, growing, count as u64, worth, at(second));
    growing.change(Object::finish);
}

/// The object of this key is asked for and filled; its reader leaves.
fn fetch(cache: &Cache, key: &str, count: usize, second: u64) -> Arc<Growing> {
    let (_reading, _, wanted) = ask(cache, key, second);
    let growing = wanted.expect("it is not there").value;
    fill(cache, key, &growing, count, freshness(60, 0, 0), second);
    growing
}

#[test]
fn the_first_request_fetches_the_second_joins_and_the_third_hits() {
    let (cache, _) = cache(1 << 20);
    let (first, miss, wanted) = ask(&cache, "/a", 0);
    let wanted = wanted.unwrap();
    assert_eq!(miss, CacheStatus::Miss);
    assert!(Arc::ptr_eq(&wanted.value, &first) && wanted.old.is_none());
    let (second, joined, none) = ask(&cache, "/a", 0);
    assert!(Arc::ptr_eq(&first, &second) && none.is_none());
    assert_eq!((joined, first.readers()), (CacheStatus::Joined, 2));
    fill(&cache, "/a", &wanted.value, 5, freshness(10, 0, 0), 0);
    let (third, hit, none) = ask(&cache, "/a", 9);
    assert!(Arc::ptr_eq(&first, &third) && none.is_none());
    assert_eq!((hit, text(&third)), (CacheStatus::Hit, "xxxxx".to_owned()));
    assert_eq!(status(&cache, "/a", 10), CacheStatus::Miss, "its time is over to the second");
}

#[test]
fn keys_are_told_apart_by_each_byte() {
    let (cache, _) = cache(1 << 20);
    let keys = ["/a", "/a?", "/a?x=1", "/A", "/a/", "0  /a", "1  /a", "1 h /a"];
    let objects = keys.map(|key| fetch(&cache, key, 3, 0));
    for (key, object) in keys.iter().zip(&objects) {
        let (reading, status, _) = ask(&cache, key, 1);
        assert!(status == CacheStatus::Hit && Arc::ptr_eq(&reading, object), "{key}");
    }
    assert_eq!(cache.figures().objects, keys.len());
}

#[test]
fn an_old_object_is_given_while_one_request_asks_for_it_anew() {
    let (cache, _) = cache(1 << 20);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let old = wanted.unwrap().value;
    fill(&cache, "/a", &old, 3, freshness(1, 10, 0), 0);
    let (stale, found, wanted) = ask(&cache, "/a", 2);
    let wanted = wanted.unwrap();
    assert!(found == CacheStatus::Stale && Arc::ptr_eq(&stale, &old));
    assert!(!Arc::ptr_eq(&wanted.value, &old) && Arc::ptr_eq(&wanted.old.unwrap(), &old));
    let (_, again, none) = ask(&cache, "/a", 2);
    assert!(again == CacheStatus::Stale && none.is_none(), "it is asked for once");
    fill(&cache, "/a", &wanted.value, 4, freshness(5, 0, 0), 2);
    assert_eq!(
        (ask(&cache, "/a", 3).1, text(&ask(&cache, "/a", 3).0)),
        (CacheStatus::Hit, "xxxx".to_owned())
    );
}

#[test]
fn what_falls_back_keeps_its_place_and_is_asked_about_at_once() {
    let (cache, _) = cache(1 << 20);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let old = wanted.unwrap().value;
    fill(&cache, "/a", &old, 3, freshness(1, 0, 20), 0);
    let (_reading, found, wanted) = ask(&cache, "/a", 5);
    let Wanted { value, old: known, old_until } = wanted.unwrap();
    assert_eq!((found, old_until, known.is_some()), (CacheStatus::Miss, at(21), true));
    let same = old.look(Object::clone);
    cache.fall_back("/a", &value, 3, old_until);
    value.change(|object| *object = same);
    let figures = cache.figures();
    assert_eq!((figures.objects, figures.bytes), (1, 3 + OVERHEAD_BYTES));
    let (reading, found, wanted) = ask(&cache, "/a", 6);
    assert_eq!(found, CacheStatus::Miss, "it is asked about again");
    assert!(Arc::ptr_eq(&wanted.unwrap().old.unwrap(), &value) && !Arc::ptr_eq(&reading, &value));
}

#[test]
fn what_is_forgotten_is_fetched_anew_and_another_object_of_its_key_is_not_forgotten_with_it() {
    let (cache, _) = cache(1 << 20);
    let (reading, ..) = ask(&cache, "/a", 0);
    cache.forget("/a", &cache.fresh());
    assert_eq!(status(&cache, "/a", 0), CacheStatus::Joined);
    cache.forget("/a", &reading);
    assert_eq!((cache.figures().objects, status(&cache, "/a", 0)), (0, CacheStatus::Miss));
}

#[test]
fn what_was_used_longest_ago_makes_room_first() {
    let kept_bytes = 100_000 + OVERHEAD_BYTES;
    // For ten, and no room for an eleventh; then a sixteenth of all is made free.
    let (cache, _) = cache(10 * kept_bytes + WINDOW_MIN_BYTES);
    let keys: Vec<String> = (0..10).map(|number| format!("/{number}")).collect();
    keys.iter().for_each(|key| drop(fetch(&cache, key, 100_000, 0)));
    assert_eq!(cache.figures().evicted, 0);
    assert_eq!(status(&cache, "/0", 1), CacheStatus::Hit, "it is used again");
    fetch(&cache, "/new", 100_000, 1);
    let figures = cache.figures();
    let there: Vec<bool> = keys.iter().map(|key| status(&cache, key, 1) == CacheStatus::Hit).collect();
    let gone = there.iter().filter(|is_there| !**is_there).count();
    assert_eq!(figures.evicted, gone as u64);
    assert!(there[0] && gone > 0 && status(&cache, "/new", 1) == CacheStatus::Hit);
    assert!(there[1..].is_sorted(), "those that are gone are the ones before: {there:?}");
    assert!(figures.held_bytes <= 10 * kept_bytes, "{figures:?}");
}

#[test]
fn an_object_that_is_read_is_not_dropped_to_make_room() {
    let (cache, _) = cache(4 * (100_000 + OVERHEAD_BYTES) + WINDOW_MIN_BYTES);
    fetch(&cache, "/read", 100_000, 0);
    let reading = ask(&cache, "/read", 0).0;
    fetch(&cache, "/unread", 100_000, 0);
    // Held elsewhere, so that memory is short although little is kept.
    let held = cache.fresh().hold(vec![0; 250_000]);
    assert!(cache.make_room());
    assert_eq!(status(&cache, "/unread", 0), CacheStatus::Miss);
    assert_eq!((status(&cache, "/read", 0), cache.figures().evicted), (CacheStatus::Hit, 1));
    drop((reading, held));
}

#[test]
fn memory_that_others_hold_is_not_room() {
    let (cache, resumed) = cache(1 << 20);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let growing = wanted.unwrap().value;
    let held = growing.hold(vec![0; 1 << 20]);
    assert!(!cache.make_room());
    assert_eq!(cache.pace(&growing, 0), Pace::WaitForRoom);
    assert_eq!(resumed.take(), 0);
    drop(held);
    assert_eq!(resumed.take(), 1, "room tells what waited for it");
    assert!(matches!(cache.pace(&growing, 0), Pace::Fill(bytes) if bytes >= WINDOW_MIN_BYTES));
}

#[test]
fn an_object_that_wants_room_drops_others_that_have_no_reader() {
    let (cache, _) = cache(1 << 20);
    fetch(&cache, "/old", 1_000_000, 0);
    let (_reading, _, wanted) = ask(&cache, "/new", 0);
    let growing = wanted.unwrap().value;
    assert_eq!(cache.pace(&growing, 0), Pace::Fill((1 << 20) / 8 - OVERHEAD_BYTES / 8));
    assert_eq!((cache.figures().evicted, cache.figures().objects), (1, 1));
}

#[test]
fn only_an_object_without_a_reader_is_abandoned() {
    let (cache, _) = cache(1 << 20);
    let (reading, _, wanted) = ask(&cache, "/a", 0);
    let growing = wanted.unwrap().value;
    assert!(!cache.abandon("/a", &growing));
    assert_eq!(status(&cache, "/a", 0), CacheStatus::Joined);
    drop(reading);
    assert!(cache.abandon("/a", &growing));
    assert_eq!(status(&cache, "/a", 0), CacheStatus::Miss);
}

#[test]
fn an_object_that_slides_gets_no_new_reader_and_takes_no_place() {
    let (cache, _) = cache(1 << 20);
    let (reading, _, wanted) = ask(&cache, "/a", 0);
    let growing = wanted.unwrap().value;
    cache.slide("/a", &growing);
    assert!(reading.is_sliding());
    let (other, found, _) = ask(&cache, "/a", 0);
    assert!(found == CacheStatus::Miss && !Arc::ptr_eq(&other, &growing));
    fill(&cache, "/a", &growing, 7, freshness(60, 0, 0), 0);
    assert_eq!(status(&cache, "/a", 1), CacheStatus::Joined, "the newer one is still on its way");
    assert_eq!(cache.figures().bytes, 0);
}

#[test]
fn a_purge_drops_what_it_is_about_and_its_readers_read_on() {
    let (cache, _) = cache(1 << 20);
    let reading = {
        fetch(&cache, "/live/a.m4s", 5, 0);
        ask(&cache, "/live/a.m4s", 0).0
    };
    fetch(&cache, "/live/a.m4s?x=1", 5, 0);
    fetch(&cache, "/vod/b.m4s", 5, 0);
    let purge = |path, is_prefix| Purge::new(std::iter::empty(), path, is_prefix).unwrap();
    assert_eq!(cache.purge(&purge("/live/a", false)), 0);
    assert_eq!(cache.purge(&purge("/live/a.m4s", false)), 2, "with whatever query");
    assert_eq!((text(&reading), reading.is_sliding()), ("xxxxx".to_owned(), true));
    assert_eq!(status(&cache, "/live/a.m4s", 0), CacheStatus::Miss);
    assert_eq!(status(&cache, "/vod/b.m4s", 0), CacheStatus::Hit);
    assert_eq!(cache.purge(&Purge::everything()), 2);
    assert_eq!(cache.figures().objects, 0);
}

#[test]
fn what_was_on_its_way_when_it_was_purged_takes_no_place_when_it_is_whole() {
    let (cache, _) = cache(1 << 20);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let before = wanted.unwrap().value;
    assert_eq!(cache.purge(&Purge::everything()), 1);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let after = wanted.unwrap().value;
    fill(&cache, "/a", &after, 2, freshness(60, 0, 0), 0);
    fill(&cache, "/a", &before, 9, freshness(60, 0, 0), 0);
    assert_eq!(text(&ask(&cache, "/a", 1).0), "xx");
}

#[test]
fn a_job_that_is_dropped_fails_its_object_and_frees_its_key() {
    let (cache, _) = cache(1 << 20);
    let (reading, _, wanted) = ask(&cache, "/a", 0);
    let first = job(&cache, "/a", &wanted.unwrap().value);
    let copy = first.clone();
    drop(first);
    assert!(!reading.look(Object::is_over), "a copy of it is at work");
    drop(copy);
    assert_eq!(reading.look(Object::failure), Some(Failure::Fault));
    assert_eq!(status(&cache, "/a", 0), CacheStatus::Miss);
}

#[test]
fn a_job_changes_nothing_when_it_goes_behind_the_end_of_its_object() {
    let (cache, _) = cache(1 << 20);
    let (_reading, _, wanted) = ask(&cache, "/a", 0);
    let growing = wanted.unwrap().value;
    let job = job(&cache, "/a", &growing);
    fill(&cache, "/a", &growing, 1, freshness(60, 0, 0), 0);
    drop(job);
    assert_eq!((growing.look(Object::failure), status(&cache, "/a", 1)), (None, CacheStatus::Hit));
}

#[test]
fn a_panic_under_the_lock_empties_the_cache_and_leaves_readers_their_objects() {
    let (cache, _) = cache(1 << 20);
    fetch(&cache, "/a", 3, 0);
    let reading = ask(&cache, "/a", 0).0;
    let torn = contain(Border::Worker, || {
        let _lock = cache.lock();
        panic!("a test's");
    });
    assert!(torn.is_err());
    assert_eq!((cache.figures().objects, text(&reading)), (0, "xxx".to_owned()));
    fetch(&cache, "/a", 4, 0);
    assert_eq!(status(&cache, "/a", 1), CacheStatus::Hit);
}

#[test]
fn requests_are_counted_by_what_they_found() {
    let (cache, _) = cache(1 << 20);
    for (times, status) in CacheStatus::ALL.into_iter().enumerate() {
        (0..=times).for_each(|_| cache.count(status));
    }
    assert_eq!(cache.figures().requests, [1, 2, 3, 4, 5]);
}

#[test]
fn bytes_count_as_held_until_the_last_reader_has_let_them_go() {
    let (cache, _) = cache(1 << 20);
    let growing = fetch(&cache, "/a", 1000, 0);
    assert_eq!((cache.held_bytes(), cache.figures().bytes), (1000 + OVERHEAD_BYTES, 1000 + OVERHEAD_BYTES));
    let mut pieces: Vec<Bytes> = Vec::new();
    growing.look(|object| object.read(10, 20, &mut pieces));
    cache.purge(&Purge::everything());
    drop(growing);
    assert_eq!((cache.figures().bytes, cache.held_bytes()), (0, 1000));
    drop(pieces);
    assert_eq!(cache.held_bytes(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u8),
    Whole(u8, u64),
    Fail(u8),
    Purge(u8),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u8..5).prop_map(Step::Ask),
        4 => (0u8..5, 0u64..6).prop_map(|(key, fresh)| Step::Whole(key, fresh)),
        1 => (0u8..5).prop_map(Step::Fail),
        1 => (0u8..5).prop_map(Step::Purge),
        2 => (1u64..4).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..80)
}

/// What a plain list knows of a key.
enum Known {
    /// It is on its way.
    Coming(Arc<Growing>),
    /// It is there, and fresh until this second.
    There(Arc<Growing>, u64),
}

proptest! {
    /// Without want of room, a request finds what a plain list of the same objects says.
    #[test]
    fn a_roomy_cache_is_a_list_of_objects_with_their_times(steps in steps()) {
        let (cache, _) = cache(1 << 30);
        let (mut list, mut second) = (BTreeMap::<u8, Known>::new(), 1);
        for step in steps {
            match step {
                Step::Ask(number) => {
                    let (reading, status, wanted) = ask(&cache, &format!("/{number}"), second);
                    match list.get(&number) {
                        Some(Known::Coming(growing)) => {
                            prop_assert_eq!(status, CacheStatus::Joined);
                            prop_assert!(Arc::ptr_eq(&reading, growing) && wanted.is_none());
                        }
                        Some(Known::There(growing, until)) if second < *until => {
                            prop_assert_eq!(status, CacheStatus::Hit);
                            prop_assert!(Arc::ptr_eq(&reading, growing) && wanted.is_none());
                        }
                        known => {
                            prop_assert_eq!(status, CacheStatus::Miss);
                            let Wanted { value, old, .. } = wanted.unwrap();
                            prop_assert_eq!(old.is_some(), known.is_some());
                            prop_assert!(Arc::ptr_eq(&reading, &value));
                            list.insert(number, Known::Coming(value));
                        }
                    }
                }
                Step::Whole(number, fresh) => {
                    if let Some(Known::Coming(growing)) = list.get(&number) {
                        let growing = Arc::clone(growing);
                        fill(&cache, &format!("/{number}"), &growing, 10, freshness(fresh, 0, 0), second);
                        if fresh == 0 {
                            list.remove(&number);
                        } else {
                            list.insert(number, Known::There(growing, second + fresh));
                        }
                    }
                }
                Step::Fail(number) => {
                    if let Some(Known::Coming(growing)) = list.get(&number) {
                        cache.forget(&format!("/{number}"), growing);
                        list.remove(&number);
                    }
                }
                Step::Purge(number) => {
                    let purge = Purge::new(std::iter::empty(), &format!("/{number}"), false).unwrap();
                    let count = cache.purge(&purge);
                    prop_assert_eq!(count, usize::from(list.remove(&number).is_some()));
                }
                Step::Pass(seconds) => second += seconds,
            }
            let there = list.values().filter(|known| matches!(known, Known::There(..))).count() as u64;
            prop_assert_eq!(cache.figures().objects, list.len());
            prop_assert_eq!(cache.figures().bytes, there * (10 + OVERHEAD_BYTES));
        }
        prop_assert_eq!(cache.figures().evicted, 0);
    }

    /// Whatever is asked for and kept, what is kept stays within what may be.
    #[test]
    fn a_small_cache_never_keeps_more_than_it_may(
        objects in prop::collection::vec((0u8..30, 0usize..90_000), 0..40),
    ) {
        const BYTES_MAX: u64 = 300_000;
        let (cache, _) = cache(BYTES_MAX);
        for (number, count) in objects {
            let key = format!("/{number}");
            if let (_reading, _, Some(wanted)) = ask(&cache, &key, 0) {
                fill(&cache, &key, &wanted.value, count, freshness(60, 0, 0), 0);
                prop_assert_eq!(wanted.value.look(bytes).len(), count);
            }
            let figures = cache.figures();
            prop_assert!(figures.bytes <= BYTES_MAX, "{figures:?}");
            prop_assert!(figures.held_bytes <= BYTES_MAX, "{figures:?}");
        }
    }
}
