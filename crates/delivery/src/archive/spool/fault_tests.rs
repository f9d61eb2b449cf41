//! Faults of the disk, of the store and of single objects.

use super::testing::*;
use super::tests::{MIB, numbers, spool};
use super::*;
use crate::archive::index::testing;
use std::time::Duration;

#[test]
fn a_start_with_files_of_which_nothing_waits_records() {
    let (mut first, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut first, &mut log, "hall", 5_000, now);
    (0..PARTS * 2).for_each(|_| source.part(&mut first, &mut log, now));
    first.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut first, &mut log, now);
    assert!(!log.files.is_empty() && first.recordings().count() == 0);
    // The second start is one on a disk that is full at that moment.
    for is_full in [false, true] {
        log.is_full = is_full;
        let mut spool = log.recover(64 * MIB, now);
        log.is_full = false;
        let (number, begun) =
            (spool.next_recording, Utc::from_nanos(testing::BEGUN.as_nanos() + 1_000_000_000));
        let mut source = Source { next: 0, number, epoch: 1, part_bytes: 5_000 };
        assert_eq!(spool.begin(StreamName::parse("hall").unwrap(), begun), number);
        source.init(&mut spool, &mut log, now);
        (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
        assert_eq!(spool.counters().dropped_bytes, 0);
        assert!(spool.counters().spooled_bytes > 0 && spool.waiting_bytes() > 0);
        spool.end(number, testing::BEGUN, now, &mut log);
        store.take_all(&mut spool, &mut log, now);
    }
}

/// A log that cannot be appended to and loses the file that it was writing.
#[test]
fn a_file_that_is_lost_is_followed_by_another() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 2).for_each(|_| source.part(&mut spool, &mut log, now));
    log.newest = None;
    (0..PARTS * 2).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(numbers(&store.indexes()[0], VIDEO), [100, 101, 102, 103]);
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    let (mut spool, mut log, _, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 2).for_each(|_| source.part(&mut spool, &mut log, now));
    let before = spool.waiting_bytes();
    for id in spool.items.keys().copied().collect::<Vec<_>>() {
        spool.uploaded(id, Outcome::Stored, now, &mut log);
    }
    assert_eq!((spool.waiting_bytes(), spool.counters().uploaded_objects), (before, 0));
}

#[test]
fn an_object_that_fails_alone_is_given_up_and_an_outage_gives_up_none() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    let bad = SessionObject::Segment { rendition: VIDEO, segment: 102 };
    for half_second in 0..400 {
        source.part(&mut spool, &mut log, now);
        // All fails for a while, and one object always does.
        let fails = |object: &StoredObject| (100..160).contains(&half_second) || object.object == bad;
        store.take(
            &mut spool,
            &mut log,
            now,
            |object| {
                if fails(object) { Outcome::Failed } else { Outcome::Stored }
            },
        );
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
    }
    assert!(spool.waiting_bytes() < 100_000, "{}", spool.waiting_bytes());
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    let expected: Vec<u64> = (100..200).filter(|number| *number != 102).collect();
    assert_eq!(numbers(index, VIDEO), expected);
    assert_eq!(numbers(index, AUDIO).len(), 100);
    let holes: Vec<_> = index.holes().map(|hole| (hole.rendition, hole.first, hole.reason)).collect();
    assert_eq!(holes, [(VIDEO, 102, HoleReason::Store)]);
}

/// 100 streams of two renditions, a store that takes 200 ms for each object and one that is away for a minute.
#[test]
fn a_hundred_streams_leave_as_fast_as_they_come() {
    let (mut spool, mut log, mut store, mut now) = spool(512 * MIB);
    let mut sources: Vec<Source> = (0..100)
        .map(|number| Source::begin(&mut spool, &mut log, &format!("s{number}"), 1_000, now))
        .collect();
    let mut sent: VecDeque<(Time, Upload)> = VecDeque::new();
    let (mut most_late, mut largest) = (Duration::ZERO, 0);
    for tenth in 0..3_000u32 {
        if tenth % 5 == 0 {
            sources.iter_mut().for_each(|source| source.part(&mut spool, &mut log, now));
        }
        now += Duration::from_millis(100);
        let is_away = (600..1_200).contains(&tenth);
        while sent.front().is_some_and(|(at, _)| *at <= now) {
            let (_, upload) = sent.pop_front().unwrap();
            let outcome = if is_away { Outcome::Away } else { Outcome::Stored };
            if outcome == Outcome::Stored {
                store.objects.insert(upload.object.to_string(), upload.pieces.concat());
            }
            spool.uploaded(upload.id, outcome, now, &mut log);
        }
        while let Some(upload) = spool.next_upload(now, &mut log) {
            sent.push_back((now + Duration::from_millis(200), upload));
        }
        spool.handle_timeout(now, &mut log);
        if !(600..2_700).contains(&tenth) {
            let late = spool.waiting_since().map_or(Duration::ZERO, |since| now.since(since));
            most_late = most_late.max(late);
            largest = largest.max(spool.total_bytes());
        }
    }
    assert!(most_late < Duration::from_secs(5), "{most_late:?}");
    assert!(largest <= 2 * FILE_MAX_BYTES, "{largest}");
    for source in &sources {
        spool.end(source.number, testing::BEGUN, now, &mut log);
    }
    for (_, upload) in sent {
        store.objects.insert(upload.object.to_string(), upload.pieces.concat());
        spool.uploaded(upload.id, Outcome::Stored, now, &mut log);
    }
    store.take_all(&mut spool, &mut log, now);
    let indexes = store.indexes();
    assert_eq!(indexes.len(), 100);
    assert!(indexes.iter().all(|index| numbers(index, VIDEO).len() == 150 && index.holes().count() == 0));
}

#[test]
fn damage_in_the_middle_and_a_missing_file_are_holes_and_what_follows_is_there() {
    let now = Time::from_millis(1_000_000);
    for is_missing in [false, true] {
        let (mut written, mut log, ..) = spool(4 * MIB);
        let mut source = Source::begin(&mut written, &mut log, "hall", 20_000, now);
        (0..PARTS * 20).for_each(|_| source.part(&mut written, &mut log, now));
        let middle = *log.files.keys().nth(1).unwrap();
        assert!(log.files.len() >= 4);
        if is_missing {
            log.files.remove(&middle);
        } else {
            let file = log.files.get_mut(&middle).unwrap();
            let half = file.len() / 2;
            file[half..half + 50_000].fill(0);
        }
        let mut spool = log.recover(4 * MIB, now);
        let mut store = MemoryStore::default();
        store.take_all(&mut spool, &mut log, now);
        let index = &store.indexes()[0];
        for rendition in [VIDEO, AUDIO] {
            let kept = numbers(index, rendition);
            let holes = index.holes().filter(|hole| hole.rendition == rendition);
            let holes: Vec<u64> = holes.flat_map(|hole| hole.first..=hole.last).collect();
            assert!(kept.contains(&100) && kept.contains(&119), "{kept:?}");
            assert!(!holes.is_empty() && holes.len() < 10, "{holes:?}");
            let mut all = [kept, holes].concat();
            all.sort_unstable();
            assert_eq!(all, (100..120).collect::<Vec<_>>());
        }
        let dropped: u64 = spool.counters().dropped_segments.iter().sum();
        assert!(dropped > 0 && spool.take_events().iter().any(|event| matches!(event, Event::Hole(..))));
    }
}

#[test]
fn what_was_dropped_with_what_told_of_it_is_a_hole() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
    // Of five segments nothing comes, not even that they are lost.
    source.next += PARTS * 5;
    (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    assert_eq!(numbers(index, VIDEO), [100, 106]);
    let hole = index.holes().find(|hole| hole.rendition == VIDEO).unwrap();
    assert_eq!((hole.first, hole.last, hole.reason), (101, 105, HoleReason::Queue));
    assert!(hole.to > hole.from);
}

#[test]
fn small_objects_that_the_disk_has_changed_are_not_stored() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 2).for_each(|_| source.part(&mut spool, &mut log, now));
    let file = log.files.values_mut().next().unwrap();
    let at = file.windows(12).position(|window| window == b"video header").unwrap();
    file[at] ^= 1;
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert!(store.objects.values().all(|object| !object.ends_with(b"ideo header")));
    let index = &store.indexes()[0];
    // Pictures without a header cannot be played, and say so.
    assert_eq!((numbers(index, VIDEO), numbers(index, AUDIO)), (vec![], vec![100, 101]));
    assert_eq!(index.holes().map(|hole| hole.last - hole.first + 1).sum::<u64>(), 2);
}

#[test]
fn a_part_of_the_index_that_the_store_refuses_is_told_by_the_next() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 3).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    let bad = format!("hall/{}/index/00000000.jsonl", testing::session());
    // The store takes what another stream brings.
    let mut other = Source::begin(&mut spool, &mut log, "other", 5_000, now);
    for second in 0..100 {
        let now = now + Duration::from_secs(second);
        (0..PARTS).for_each(|_| other.part(&mut spool, &mut log, now));
        store.take(&mut spool, &mut log, now, |object| {
            if object.to_string() == bad { Outcome::Refused } else { Outcome::Stored }
        });
        spool.handle_timeout(now, &mut log);
    }
    spool.end(other.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now + Duration::from_secs(100));
    let index = &store.indexes()[0];
    assert_eq!(numbers(index, VIDEO), [100, 101, 102]);
    assert!(index.ended().is_some() && spool.recordings().count() == 0);
}

#[test]
fn a_store_that_refuses_everything_for_a_while_costs_nothing() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    for half_second in 0..400 {
        source.part(&mut spool, &mut log, now);
        let refuses = (0..200).contains(&half_second);
        store.take(&mut spool, &mut log, now, |_| if refuses { Outcome::Refused } else { Outcome::Stored });
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
    }
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(numbers(&store.indexes()[0], VIDEO), (100..200).collect::<Vec<_>>());
    assert_eq!(store.indexes()[0].holes().count(), 0);
}

#[test]
fn a_header_on_its_way_when_its_file_goes_is_there_for_the_next_attempt() {
    let (mut spool, mut log, mut store, mut now) = spool(4 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 20_000, now);
    let upload = spool.next_upload(now, &mut log).expect("the header");
    assert!(matches!(upload.object.object, SessionObject::Init { .. }));
    for _ in 0..200 {
        source.part(&mut spool, &mut log, now);
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
    }
    spool.uploaded(upload.id, Outcome::Away, now, &mut log);
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now + Duration::from_secs(20));
    assert!(numbers(&store.indexes()[0], VIDEO).len() > 20);
}

#[test]
fn a_start_on_a_disk_that_is_full_keeps_what_waits() {
    let (mut first, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut first, &mut log, "hall", 5_000, now);
    // Killed when no segment is open.
    (0..PARTS * 3).for_each(|_| source.part(&mut first, &mut log, now));
    log.is_full = true;
    let mut spool = log.recover(64 * MIB, now);
    log.is_full = false;
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    assert_eq!((numbers(index, VIDEO), index.holes().count()), (vec![100, 101, 102], 0));
    assert!(index.ended().is_some());
}

#[test]
fn what_went_to_the_store_from_memory_is_not_written_over_after_a_crash() {
    let (mut first, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut first, &mut log, "hall", 5_000, now);
    (0..PARTS * 5).for_each(|_| source.part(&mut first, &mut log, now));
    store.take(&mut first, &mut log, now, |_| Outcome::Stored);
    log.is_full = true;
    for _ in 0..20 {
        source.part(&mut first, &mut log, now);
        now += Duration::from_secs(1);
        first.handle_timeout(now, &mut log);
        store.take(&mut first, &mut log, now, |_| Outcome::Stored);
    }
    assert_eq!(numbers(&store.indexes()[0], VIDEO), (100..105).collect::<Vec<_>>());
    log.is_full = false;
    let mut spool = log.recover(64 * MIB, now);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    assert_eq!(numbers(index, VIDEO), (100..105).collect::<Vec<_>>());
    assert!(index.ended().is_some());
}

#[test]
fn a_store_that_never_answers_is_away_and_a_late_answer_changes_nothing() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 3).for_each(|_| source.part(&mut spool, &mut log, now));
    let sent: Vec<Upload> = std::iter::from_fn(|| spool.next_upload(now, &mut log)).collect();
    assert!(sent.len() > 4);
    now += Duration::from_secs(89);
    spool.handle_timeout(now, &mut log);
    assert!(!spool.is_store_away());
    now += Duration::from_secs(1);
    spool.handle_timeout(now, &mut log);
    assert!(spool.is_store_away());
    for upload in sent {
        spool.uploaded(upload.id, Outcome::Stored, now, &mut log);
    }
    assert_eq!(spool.counters().uploaded_objects, 0);
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now + Duration::from_secs(1));
    assert_eq!(numbers(&store.indexes()[0], VIDEO), [100, 101, 102]);
}
