use super::testing::*;
use super::*;
use crate::archive::index::{Recording as Index, testing};
use proptest::prelude::*;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn spool(max_bytes: u64) -> (Spool, MemoryLog, MemoryStore, Time) {
    let uploads = Uploads::new(None, 1);
    (
        Spool::new(max_bytes, uploads),
        MemoryLog::default(),
        MemoryStore::default(),
        Time::from_millis(1_000_000),
    )
}

pub(super) fn numbers(index: &Index, rendition: RenditionName) -> Vec<u64> {
    index.segments(rendition).map(|segment| segment.number).collect()
}

#[test]
fn what_is_recorded_is_in_the_store_with_an_index_and_the_spool_is_empty() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 2000, now);
    for _ in 0..100 {
        source.part(&mut spool, &mut log, now);
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
    }
    let before = store.indexes();
    assert!(
        before[0].ended().is_none() && numbers(&before[0], VIDEO).len() > 10,
        "it is written as it goes on"
    );
    let ended = Utc::from_nanos(testing::BEGUN.as_nanos() + 50_000_000_000);
    spool.end(source.number, ended, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let indexes = store.indexes();
    let [index] = &indexes[..] else { panic!("one recording") };
    assert_eq!(numbers(index, VIDEO), (100..125).collect::<Vec<_>>());
    assert_eq!(numbers(index, AUDIO), (100..125).collect::<Vec<_>>());
    assert_eq!((index.ended(), index.holes().count(), index.missing_parts()), (Some(ended), 0, 0));
    assert!(index.parts() <= 4, "{} parts", index.parts());
    let path = format!("hall/{}/video/107.m4s", testing::session());
    assert_eq!(store.objects[&path], source.bytes(VIDEO, 107, PARTS));
    assert_eq!((spool.recordings().count(), spool.waiting_bytes()), (0, 0));
    assert!(matches!(&spool.take_events()[..], [Event::Complete(..)]));
    assert!(log.files.len() <= 1 && spool.items.is_empty(), "{:?}", log.files.keys());
}

#[test]
fn a_store_that_is_away_and_comes_back_costs_nothing() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 50_000, now);
    let mut most = 0;
    for half_second in 0..400 {
        source.part(&mut spool, &mut log, now);
        let is_away = (40..160).contains(&half_second);
        store.take(&mut spool, &mut log, now, |_| if is_away { Outcome::Away } else { Outcome::Stored });
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
        most = most.max(spool.total_bytes());
        assert_eq!(spool.total_bytes(), log.bytes());
    }
    assert!(most > 120 * 100_000 && spool.total_bytes() < most / 2, "{most}, then {}", spool.total_bytes());
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(numbers(&store.indexes()[0], VIDEO), (100..200).collect::<Vec<_>>());
    assert_eq!(spool.counters().dropped_segments, [0; HoleReason::COUNT]);
}

#[test]
fn a_spool_that_is_full_gives_up_the_oldest_and_says_so() {
    let (mut spool, mut log, mut store, mut now) = spool(4 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 20_000, now);
    for half_second in 0..400 {
        source.part(&mut spool, &mut log, now);
        let is_away = (8..360).contains(&half_second);
        store.take(&mut spool, &mut log, now, |_| if is_away { Outcome::Away } else { Outcome::Stored });
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
        assert!(log.bytes() <= 4 * MIB + 100_000, "{}", log.bytes());
    }
    let holes = spool.take_events();
    assert!(
        holes.iter().any(|event| matches!(event, Event::Hole(_, hole) if hole.reason == HoleReason::Spool))
    );
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    let (kept, holes) = (numbers(index, VIDEO), index.holes().filter(|hole| hole.rendition == VIDEO));
    let missing: Vec<u64> = holes.flat_map(|hole| hole.first..=hole.last).collect();
    assert_eq!(kept[..2], [100, 101]);
    assert!(kept.len() > 20 && missing.len() > 40, "{kept:?} {missing:?}");
    let mut all = [kept.clone(), missing.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (100..200).collect::<Vec<_>>(), "each segment is there or told to be missing");
    assert!(missing.iter().max() < kept.get(kept.len() - 20), "the newest are there");
    let dropped = spool.counters().dropped_segments[HoleReason::Spool.index()];
    let audio = index.holes().filter(|hole| hole.rendition == AUDIO).map(|hole| hole.last - hole.first + 1);
    assert_eq!(dropped, missing.len() as u64 + audio.sum::<u64>());
    let hole = index.holes().find(|hole| hole.rendition == VIDEO).unwrap();
    assert!(hole.to > hole.from && hole.from > testing::BEGUN, "{hole:?}");
}

#[test]
fn a_disk_that_is_full_costs_what_comes_meanwhile_and_nothing_else() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    for half_second in 0..200 {
        log.is_full = (80..120).contains(&half_second);
        source.part(&mut spool, &mut log, now);
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
    }
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    let expected: Vec<u64> = (100..120).chain(130..150).collect();
    assert_eq!((numbers(index, VIDEO), numbers(index, AUDIO)), (expected.clone(), expected));
    let holes: Vec<_> = index.holes().map(|hole| (hole.first, hole.last, hole.reason)).collect();
    assert_eq!(holes, [(120, 129, HoleReason::Queue), (120, 129, HoleReason::Queue)]);
}

#[test]
fn a_disk_smaller_than_one_file_is_free_again_when_the_store_is_back() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    log.capacity = 500_000;
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    for half_second in 0..400 {
        source.part(&mut spool, &mut log, now);
        let is_away = half_second < 200;
        store.take(&mut spool, &mut log, now, |_| if is_away { Outcome::Away } else { Outcome::Stored });
        now += Duration::from_millis(500);
        spool.handle_timeout(now, &mut log);
        assert_eq!(spool.total_bytes(), log.bytes());
    }
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    let kept = numbers(index, VIDEO);
    let missing =
        index.holes().filter(|hole| hole.rendition == VIDEO).flat_map(|hole| hole.first..=hole.last);
    let mut all: Vec<u64> = kept.iter().copied().chain(missing).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (100..200).collect::<Vec<_>>(), "each segment is there or told to be missing");
    assert!(kept.contains(&100) && kept.iter().filter(|number| **number >= 160).count() >= 30, "{kept:?}");
    assert!(index.ended().is_some() && spool.recordings().count() == 0 && spool.items.is_empty());
}

#[test]
fn a_disk_that_is_full_when_an_epoch_begins_costs_no_header() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    log.is_full = true;
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    source.part(&mut spool, &mut log, now);
    log.is_full = false;
    (0..PARTS * 3 - 1).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(numbers(&store.indexes()[0], VIDEO), [101, 102]);
}

#[test]
fn what_the_store_refuses_holds_nothing_else_up() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS * 5).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    let refused = |object: &StoredObject| {
        let bad = SessionObject::Segment { rendition: VIDEO, segment: 102 };
        if object.object == bad { Outcome::Refused } else { Outcome::Stored }
    };
    for second in 0..100 {
        let now = now + Duration::from_secs(second);
        store.take(&mut spool, &mut log, now, refused);
        spool.handle_timeout(now, &mut log);
    }
    let index = &store.indexes()[0];
    assert_eq!(numbers(index, VIDEO), [100, 101, 103, 104]);
    assert_eq!(index.holes().next().map(|hole| (hole.first, hole.reason)), Some((102, HoleReason::Store)));
    assert!(index.ended().is_some() && spool.recordings().count() == 0);
}

#[test]
fn what_was_dropped_on_its_way_is_a_hole() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 5_000, now);
    (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.lose(source.number, VIDEO, &source.segment(VIDEO, 1), now, &mut log);
    (0..PARTS * 2).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    assert_eq!((numbers(index, VIDEO), numbers(index, AUDIO)), (vec![100, 102], vec![100, 101, 102]));
}

#[test]
fn two_recordings_that_begin_at_one_moment_have_two_names() {
    let (mut spool, ..) = spool(MIB);
    let name = || StreamName::parse("hall").unwrap();
    let sessions: BTreeSet<_> = (0..3).map(|_| spool.begin(name(), testing::BEGUN)).collect();
    let names: BTreeSet<_> = spool.recordings().map(|recording| recording.session).collect();
    assert_eq!((sessions.len(), names.len()), (3, 3));
}

#[test]
fn a_stream_that_begins_anew_all_the_time_does_not_grow_in_the_log() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 50_000, now);
    for _ in 0..600 {
        (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
        now += Duration::from_secs(2);
        spool.handle_timeout(now, &mut log);
        source.epoch += 1;
        source.init(&mut spool, &mut log, now);
    }
    let (_, tracks) = spool.recordings[&source.number].begun_record(false);
    assert!(tracks.len() < 64 << 10, "{} bytes", tracks.len());
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(numbers(&store.indexes()[0], VIDEO), (100..700).collect::<Vec<_>>());
}

#[test]
fn a_recording_of_which_nothing_came_leaves_nothing() {
    let (mut spool, mut log, mut store, now) = spool(MIB);
    let number = spool.begin(StreamName::parse("hall").unwrap(), testing::BEGUN);
    spool.end(number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert!(store.objects.is_empty() && spool.recordings().count() == 0 && log.files.is_empty());
}

#[test]
fn a_gap_of_one_rendition_is_told() {
    let (mut spool, mut log, mut store, now) = spool(MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 500, now);
    (0..PARTS).for_each(|_| source.part(&mut spool, &mut log, now));
    spool.gap(source.number, AUDIO, source.segment(AUDIO, PARTS), now);
    spool.end(source.number, testing::BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = &store.indexes()[0];
    let gap = index.segment(AUDIO, 101).expect("it is told");
    assert!(gap.is_gap() && gap.duration > 0);
}

#[test]
fn readers_see_what_no_part_of_the_index_has_yet() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let mut source = Source::begin(&mut spool, &mut log, "hall", 500, now);
    (0..PARTS * 3 + 1).for_each(|_| source.part(&mut spool, &mut log, now));
    let name = StreamName::parse("hall").unwrap();
    let told = |spool: &Spool, log: &mut MemoryLog, store: &MemoryStore| {
        let mut index = store.indexes().pop().unwrap_or_else(|| Index::new(name.clone(), testing::session()));
        for (session, part, lines) in spool.lines_of(&name, log) {
            assert_eq!(session, testing::session());
            lines.into_iter().for_each(|line| index.add(part, line));
        }
        numbers(&index, VIDEO)
    };
    assert_eq!(told(&spool, &mut log, &store), [100, 101, 102]);
    let object = SessionObject::Segment { rendition: VIDEO, segment: 101 };
    let id = spool.find(&name, testing::session(), object).expect("it waits");
    assert_eq!(spool.read(id, &mut log).unwrap().concat(), source.bytes(VIDEO, 101, PARTS));
    // In the store, and then in a part of the index that waits, and then in one that is there.
    store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
    assert_eq!(told(&spool, &mut log, &store), [100, 101, 102]);
    spool.handle_timeout(now + Duration::from_secs(40), &mut log);
    assert_eq!(told(&spool, &mut log, &store), [100, 101, 102]);
    store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
    assert_eq!(told(&spool, &mut log, &store), [100, 101, 102]);
}

/// What happens to a spool.
#[derive(Clone, Debug)]
enum Step {
    Part(usize),
    Epoch(usize),
    Again(usize),
    Store(u8),
    Time(u16),
    DiskFull(bool),
    Crash(prop::sample::Index),
    PowerLoss,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..3).prop_map(Step::Part),
        1 => (0usize..3).prop_map(Step::Epoch),
        1 => (0usize..3).prop_map(Step::Again),
        5 => (0u8..4).prop_map(Step::Store),
        3 => (100u16..20_000).prop_map(Step::Time),
        1 => any::<bool>().prop_map(Step::DiskFull),
        1 => any::<prop::sample::Index>().prop_map(Step::Crash),
        1 => Just(Step::PowerLoss),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes in which order, with crashes that tear the newest file anywhere: the index never names what is not there
    /// (`MemoryStore::indexes` looks at each), the spool keeps its bound, all comes to an end, and each segment that was whole is in
    /// the store or told to be missing.
    #[test]
    fn nothing_that_was_whole_is_lost_untold(steps in proptest::collection::vec(step(), 1..150), part_bytes in 100usize..60_000) {
        let (mut spool, mut log, mut store, mut now) = spool(2 * MIB);
        let mut sources: Vec<Source> =
            ["a", "b", "c"].iter().map(|name| Source::begin(&mut spool, &mut log, name, part_bytes, now)).collect();
        let names = ["a", "b", "c"];
        let mut crashes = 0u64;
        // What a full disk could not be told of, a crash forgets.
        let mut was_full = false;
        // What of which file has been on the disk for a second: no crash tears that.
        let mut synced = (0, 0);
        // What was whole when a crash could tear nothing of it.
        let mut whole: BTreeSet<(String, Session, u64)> = BTreeSet::new();
        let mut whole_synced = whole.clone();
        for step in steps {
            match step {
                Step::Part(source) => {
                    let number = sources[source].next / PARTS + 100;
                    sources[source].part(&mut spool, &mut log, now);
                    let session = spool.recordings.get(&sources[source].number).map(|it| it.session);
                    if let Some(session) = session.filter(|_| sources[source].next.is_multiple_of(PARTS)) {
                        whole.insert((names[source].to_owned(), session, number));
                    }
                }
                Step::Epoch(source) => {
                    let source = &mut sources[source];
                    source.next = source.next.next_multiple_of(PARTS);
                    source.epoch += 1;
                    source.init(&mut spool, &mut log, now);
                }
                Step::Again(source) => {
                    spool.end(sources[source].number, testing::BEGUN, now, &mut log);
                    let begun = Utc::from_nanos(testing::BEGUN.as_nanos() + now.as_nanos());
                    let number = spool.begin(StreamName::parse(names[source]).unwrap(), begun);
                    sources[source] = Source { number, next: 0, epoch: 1, ..Source::begin(&mut spool, &mut log, "z", part_bytes, now) };
                    sources[source].init(&mut spool, &mut log, now);
                }
                Step::Store(code) => {
                    let mut count = code;
                    store.take(&mut spool, &mut log, now, |_| {
                        count = count.wrapping_mul(5).wrapping_add(1);
                        match (code, count % 8) { (0, _) => Outcome::Away, (_, 0) => Outcome::Busy, _ => Outcome::Stored }
                    });
                }
                Step::Time(millis) => {
                    if let Some((number, file)) = log.files.last_key_value().filter(|_| millis >= 1000) {
                        synced = (*number, file.len());
                        log.sync();
                        whole_synced.clone_from(&whole);
                    }
                    now += Duration::from_millis(millis.into());
                    spool.handle_timeout(now, &mut log);
                }
                Step::DiskFull(is_full) => {
                    log.is_full = is_full;
                    was_full |= is_full;
                }
                Step::Crash(_) | Step::PowerLoss => {
                    if matches!(step, Step::PowerLoss) {
                        log.lose_power();
                        whole.clone_from(&whole_synced);
                    }
                    if let Step::Crash(cut) = step && let Some(mut newest) = log.files.last_entry() {
                        let length = newest.get().len();
                        let least = if *newest.key() == synced.0 { synced.1 } else { 0 };
                        // What was written in the last second may be torn: what was whole just now may be gone.
                        let cut = (length - cut.index(length.min(2000) + 1)).max(least);
                        if cut < length { whole.clear(); }
                        newest.get_mut().truncate(cut);
                    }
                    if was_full { whole.clear(); }
                    whole_synced.clone_from(&whole);
                    (log.is_full, was_full) = (false, false);
                    crashes += 1;
                    spool = log.recover(2 * MIB, now);
                    spool.next_recording += 1000 * crashes;
                    let begun = Utc::from_nanos(testing::BEGUN.as_nanos() + crashes * 1_000_000_000_000);
                    for (source, name) in sources.iter_mut().zip(names) {
                        let number = spool.begin(StreamName::parse(name).unwrap(), begun);
                        *source = Source { number, next: 0, epoch: 1, ..Source::begin(&mut spool, &mut log, "z", part_bytes, now) };
                        source.init(&mut spool, &mut log, now);
                    }
                }
            }
            prop_assert!(log.bytes() <= 3 * MIB, "{}", log.bytes());
            prop_assert_eq!(log.bytes(), spool.total_bytes());
        }
        log.is_full = false;
        for number in spool.recordings.keys().copied().collect::<Vec<_>>() {
            spool.end(number, testing::BEGUN, now, &mut log);
        }
        store.take_all(&mut spool, &mut log, now);
        prop_assert_eq!(spool.recordings().count(), 0);
        prop_assert_eq!((spool.items.len(), spool.waiting_bytes()), (0, 0));
        prop_assert!(spool.files.iter().all(|file| file.items.is_empty()));
        let indexes = store.indexes();
        prop_assert!(indexes.iter().all(|index| index.ended().is_some()));
        for (name, session, number) in whole {
            let index = indexes.iter().find(|index| index.name().as_str() == name && index.session() == session);
            let index = index.expect("its recording has an index");
            for rendition in [VIDEO, AUDIO] {
                let is_hole = index.holes().any(|hole| hole.rendition == rendition && (hole.first..=hole.last).contains(&number));
                prop_assert!(is_hole || index.segment(rendition, number).is_some(), "{} {} of {}", rendition, number, name);
            }
        }
    }

    /// A log of anything ends a start with nothing worse than nothing.
    #[test]
    fn a_log_of_any_records_is_recovered(records in proptest::collection::vec((0u8..7, 0u8..4, 0u32..3, 0u64..3, 0u64..4, "[{}a-z\":0-9]{0,20}"), 0..12)) {
        let mut log = MemoryLog::default();
        log.begin_file(1).unwrap();
        let kinds = [Kind::Begun, Kind::Init, Kind::Part, Kind::SegmentEnd, Kind::IndexPart, Kind::Stored, Kind::Ended];
        for (kind, rendition, part, recording, number, text) in records {
            let rendition = match rendition { 0 => None, 1 => Some(VIDEO), other => Some(RenditionName::Audio(other)) };
            let line = match kind {
                0 => format!("{{\"name\":\"a\",\"session\":\"{}\",\"next_part\":{part}}}\n", testing::session()),
                1 => Line::Track(VIDEO, testing::video(1)).to_json() + "\n",
                2 | 3 => Line::Segment(VIDEO, testing::segment(testing::BEGUN, 100 + number, 1, 90_000)).to_json() + "\n" + &text,
                _ => format!("{text}\n"),
            };
            let header = Header { part, ..header(kinds[usize::from(kind)], rendition, recording, number) };
            let payload = [Bytes::from(line)];
            let header = header.of(&payload).unwrap();
            log.append(&header.write(), &payload).unwrap();
        }
        let now = Time::from_millis(5_000);
        let mut spool = log.recover(MIB, now);
        let mut store = MemoryStore::default();
        store.take_all(&mut spool, &mut log, now);
        prop_assert_eq!(spool.recordings().count(), 0);
    }
}

#[test]
fn a_crash_at_any_byte_leaves_each_segment_up_to_its_last_whole_part() {
    let now = Time::from_millis(1_000_000);
    let (mut written, mut log, ..) = spool(64 * MIB);
    let mut source = Source::begin(&mut written, &mut log, "hall", 300, now);
    let mut ends = vec![log.files[&1].len()];
    for _ in 0..PARTS * 2 + 3 {
        source.part(&mut written, &mut log, now);
        ends.push(log.files[&1].len());
    }
    for cut in (0..=log.files[&1].len()).step_by(7) {
        let mut log =
            MemoryLog { files: [(1, log.files[&1][..cut].to_vec())].into(), ..MemoryLog::default() };
        let mut spool = log.recover(64 * MIB, now);
        let mut store = MemoryStore::default();
        store.take_all(&mut spool, &mut log, now);
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let Some(parts) = whole.checked_sub(1).filter(|parts| *parts > 0) else { continue };
        let indexes = store.indexes();
        let index = &indexes[0];
        // The picture's part may be there whose sound is not.
        let (first, last) = (100, 100 + (parts - 1) / PARTS);
        let numbers = numbers(index, VIDEO);
        assert!(numbers.starts_with(&(first..=last).collect::<Vec<_>>()), "{cut}: {numbers:?}");
        let path = format!("hall/{}/video/{last}.m4s", testing::session());
        let expected = source.bytes(VIDEO, last, (parts - 1) % PARTS + 1);
        assert!(store.objects[&path].starts_with(&expected), "{cut}");
        let segment = index.segment(VIDEO, last).unwrap();
        assert!(segment.duration >= ((parts - 1) % PARTS + 1) * 45_000, "{cut}: {segment:?}");
        assert!(index.ended().is_some());
    }
}
