//! Recordings that are to be had as MPEG-TS, with real pictures and sound.

use super::testing::*;
use super::tests::{MIB, spool};
use super::*;
use crate::archive::index::{Recording as Index, crc32c};
use crate::archive::mpeg_ts::{Ingredient, segment};
use crate::packager::testing::{BEGUN, Checked, feed, video_and_aac};
use crate::packager::{Settings, later};
use proptest::prelude::*;

/// Twenty seconds in segments of two seconds.
fn twenty() -> Checked {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 500, 25);
    checked.finish(later(BEGUN, Duration::from_secs(20)));
    checked
}

/// A recording that a spool is brought segment by segment.
struct Played {
    checked: Checked,
    number: u64,
    /// Renditions and numbers in the order of their ends.
    segments: Vec<(RenditionName, u64)>,
}

impl Played {
    fn begin(spool: &mut Spool, log: &mut MemoryLog, now: Time) -> Played {
        let checked = twenty();
        let number = spool.begin(StreamName::parse("hall").unwrap(), BEGUN);
        spool.also_as_mpeg_ts(number);
        for rendition in [VIDEO, AUDIO] {
            let presented = checked.packager.presentation();
            let track = presented.rendition(rendition).unwrap().track_in(1).unwrap().clone();
            spool.init(number, rendition, track, checked.inits[&(rendition, 1)].clone(), now, log);
        }
        let mut segments: Vec<_> = checked.segments.keys().copied().collect();
        segments.sort_by_key(|(rendition, segment)| (*segment, *rendition));
        Played { checked, number, segments }
    }

    fn line(&self, rendition: RenditionName, number: u64) -> RecordedSegment {
        let presentation = self.checked.packager.presentation();
        let segment = presentation.rendition(rendition).unwrap().segment(number).unwrap();
        RecordedSegment {
            number,
            epoch: segment.epoch,
            start: segment.start,
            duration: segment.duration,
            utc: segment.program_date_time,
            captured: segment.captured,
            independent: segment.independent,
            bytes: 0,
            crc32c: 0,
            key_frames: Vec::new(),
        }
    }

    fn bytes(&self, rendition: RenditionName, number: u64) -> Bytes {
        self.checked.segments[&(rendition, number)].bytes.clone().into()
    }

    fn bring(&self, spool: &mut Spool, log: &mut MemoryLog, at: usize, now: Time) {
        let (rendition, number) = self.segments[at];
        let (line, bytes) = (self.line(rendition, number), self.bytes(rendition, number));
        spool.part(self.number, rendition, &line, vec![bytes], now, log);
        spool.segment_end(self.number, rendition, &line, now, log);
    }

    fn expected(&self, number: u64) -> Vec<u8> {
        let ingredient = |name: RenditionName| Ingredient {
            header: self.checked.inits[&(name, 1)].clone(),
            segment: Some(self.bytes(name, number)),
            language: (!name.is_video()).then_some(*b"eng"),
        };
        segment(&[VIDEO, AUDIO].map(ingredient)).unwrap()
    }

    fn numbers(&self) -> Vec<u64> {
        self.segments
            .iter()
            .filter(|(rendition, _)| rendition.is_video())
            .map(|(_, number)| *number)
            .collect()
    }
}

/// The numbers that the index tells of as MPEG-TS, each of which is in the store as it says.
fn told(store: &MemoryStore, index: &Index, numbers: &[u64]) -> Vec<u64> {
    let is_told = |number: &u64| {
        let Some(known) = index.mpeg_ts(*number) else { return false };
        let object = SessionObject::MpegTs { segment: *number };
        let path = StoredObject { name: index.name().clone(), session: index.session(), object }.to_string();
        let bytes = store.objects.get(&path).unwrap_or_else(|| panic!("{path} is named and not there"));
        assert_eq!((bytes.len() as u64, crc32c(bytes)), (known.bytes, known.crc32c));
        true
    };
    numbers.iter().copied().filter(is_told).collect()
}

#[test]
fn each_number_is_in_the_store_as_mpeg_ts_and_the_index_says_so() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let played = Played::begin(&mut spool, &mut log, now);
    let mut told_early = false;
    for at in 0..played.segments.len() {
        played.bring(&mut spool, &mut log, at, now);
        // Readers have it before the store does.
        let number = played.segments[at].1;
        let is_whole = played.segments[at].0 == AUDIO;
        let name = StreamName::parse("hall").unwrap();
        let object = SessionObject::MpegTs { segment: number };
        let found = spool.find(&name, Session::new(BEGUN), object);
        assert_eq!(found.is_some(), is_whole, "when pictures and sound are there");
        if let Some(id) = found {
            assert!(spool.read(id, &mut log).unwrap().concat() == played.expected(number));
            let lines = spool.lines_of(&name, &mut log).remove(0).2;
            told_early |= lines.iter().any(|line| matches!(line, Line::MpegTs(it) if it.number == number));
        }
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
        now += Duration::from_secs(2);
        spool.handle_timeout(now, &mut log);
    }
    assert!(told_early);
    let bytes = spool.recordings().next().unwrap().bytes;
    spool.end(played.number, later(BEGUN, Duration::from_secs(20)), now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let indexes = store.indexes();
    let [index] = &indexes[..] else { panic!("one recording") };
    assert_eq!(told(&store, index, &played.numbers()), played.numbers());
    assert_eq!((index.bytes(), index.holes().count()), (bytes, 0));
    let path = format!("hall/{}/ts/{}.ts", index.session(), played.numbers()[4]);
    assert!(store.objects[&path] == played.expected(played.numbers()[4]));
    assert!(spool.items.is_empty() && spool.recordings().next().is_none());
}

#[test]
fn a_rendition_that_has_stopped_is_not_waited_for_and_the_end_waits_for_nothing() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let played = Played::begin(&mut spool, &mut log, now);
    let numbers = played.numbers();
    for at in 0..played.segments.len() {
        let (rendition, number) = played.segments[at];
        if rendition == VIDEO || number < numbers[3] {
            played.bring(&mut spool, &mut log, at, now);
        }
    }
    let has = |spool: &Spool, number: u64| {
        let object = SessionObject::MpegTs { segment: number };
        spool.by_object.contains_key(&(played.number, object))
    };
    let last = numbers.len() - 1;
    assert!(numbers[..last - 1].iter().all(|number| has(&spool, *number)));
    assert!(!has(&spool, numbers[last]) && !has(&spool, numbers[last - 1]));
    spool.end(played.number, later(BEGUN, Duration::from_secs(20)), now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(told(&store, &store.indexes()[0], &numbers), numbers);
}

#[test]
fn sound_that_is_late_finds_its_pictures_though_the_store_and_the_index_are_quick() {
    let (mut spool, mut log, mut store, mut now) = spool(64 * MIB);
    let played = Played::begin(&mut spool, &mut log, now);
    for at in 0..played.segments.len() {
        played.bring(&mut spool, &mut log, at, now);
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
        // A part of the index is due between pictures and sound.
        now += Duration::from_secs(31);
        spool.handle_timeout(now, &mut log);
        store.take(&mut spool, &mut log, now, |_| Outcome::Stored);
    }
    spool.end(played.number, later(BEGUN, Duration::from_secs(20)), now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = store.indexes().remove(0);
    assert_eq!(told(&store, &index, &played.numbers()), played.numbers());
    for number in played.numbers() {
        let path = format!("hall/{}/ts/{number}.ts", index.session());
        assert!(store.objects[&path] == played.expected(number), "{number}");
    }
    assert!(index.parts() > 5, "the index was not held up: {}", index.parts());
}

#[test]
fn what_comes_of_a_number_that_was_made_already_is_not_made_again() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    let played = Played::begin(&mut spool, &mut log, now);
    let numbers = played.numbers();
    let bring = |spool: &mut Spool, log: &mut MemoryLog, wanted: RenditionName| {
        let all = 0..played.segments.len();
        all.filter(|at| played.segments[*at].0 == wanted).for_each(|at| played.bring(spool, log, at, now));
    };
    // All pictures, and then the sound of all.
    bring(&mut spool, &mut log, VIDEO);
    let object = SessionObject::MpegTs { segment: numbers[0] };
    let id = spool.by_object[&(played.number, object)];
    let alone = spool.read(id, &mut log).unwrap().concat();
    bring(&mut spool, &mut log, AUDIO);
    assert_eq!(spool.by_object[&(played.number, object)], id);
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    spool.end(played.number, later(BEGUN, Duration::from_secs(20)), now, &mut log);
    store.take(&mut spool, &mut log, now, |object| {
        *writes.entry(object.to_string()).or_default() += 1;
        Outcome::Stored
    });
    assert!(writes.values().all(|count| *count == 1), "{writes:?}");
    store.take_all(&mut spool, &mut log, now);
    let index = store.indexes().remove(0);
    assert_eq!(told(&store, &index, &numbers), numbers);
    let path = format!("hall/{}/ts/{}.ts", index.session(), numbers[0]);
    assert!(store.objects[&path] == alone);
}

#[test]
fn in_a_spool_that_is_full_mpeg_ts_goes_first_and_leaves_no_hole() {
    let (mut spool, mut log, mut store, now) = spool(8 * MIB);
    let played = Played::begin(&mut spool, &mut log, now);
    // There is room for the CMAF segments and some of MPEG-TS, in the half that these may have.
    let cmaf: u64 =
        played.segments.iter().map(|(name, number)| played.bytes(*name, *number).len() as u64).sum();
    let one = played.expected(played.numbers()[0]).len() as u64;
    spool.max_bytes = 2 * (cmaf / 2 + 3 * one);
    spool.file_bytes = one;
    for at in 0..played.segments.len() {
        played.bring(&mut spool, &mut log, at, now);
    }
    let dropped = spool.counters().dropped_bytes;
    assert!(dropped > 0, "{cmaf}");
    assert_eq!(spool.counters().dropped_segments, [0; HoleReason::COUNT]);
    spool.end(played.number, later(BEGUN, Duration::from_secs(20)), now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    let index = store.indexes().remove(0);
    let told = told(&store, &index, &played.numbers());
    assert!(!told.is_empty() && told.len() < played.numbers().len(), "{told:?}");
    assert_eq!((index.segments(VIDEO).count(), index.holes().count()), (played.numbers().len(), 0));
}

#[test]
fn what_no_transport_stream_can_have_is_told_once_and_recorded_all_the_same() {
    let (mut spool, mut log, mut store, now) = spool(64 * MIB);
    // Its headers and segments are none.
    let mut source = Source::begin(&mut spool, &mut log, "hall", 2000, now);
    spool.also_as_mpeg_ts(source.number);
    source.init(&mut spool, &mut log, now);
    for _ in 0..5 * PARTS {
        source.part(&mut spool, &mut log, now);
    }
    let told = spool.take_events();
    assert!(matches!(&told[..], [Event::NoMpegTs(_, words)] if words.contains("cannot be read")), "{told:?}");
    spool.end(source.number, BEGUN, now, &mut log);
    store.take_all(&mut spool, &mut log, now);
    assert_eq!(store.indexes()[0].segments(VIDEO).count(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Killed at any byte of its log: the index names nothing that is not there, and no CMAF segment is lost for it.
    #[test]
    fn after_a_crash_the_index_names_what_is_there(stop in 2usize..20, stored in 0usize..40, torn in 0usize..5000) {
        let (mut spool, mut log, mut store, now) = spool(64 * MIB);
        let played = Played::begin(&mut spool, &mut log, now);
        let mut left = stored;
        for at in 0..stop.min(played.segments.len()) {
            played.bring(&mut spool, &mut log, at, now);
            store.take(&mut spool, &mut log, now, |_| {
                left = left.saturating_sub(1);
                if left > 0 { Outcome::Stored } else { Outcome::Away }
            });
        }
        drop(spool);
        if let Some(file) = log.files.values_mut().next_back() {
            let length = file.len();
            file.truncate(length - torn.min(length));
        }
        let mut spool = log.recover(64 * MIB, now);
        store.take_all(&mut spool, &mut log, now);
        for index in store.indexes() {
            let told = told(&store, &index, &played.numbers());
            for number in told {
                let path = format!("hall/{}/ts/{number}.ts", index.session());
                prop_assert!(store.objects[&path] == played.expected(number));
            }
        }
        prop_assert!(spool.items.is_empty());
    }
}
