//! What the thread does with what it is told: through a spool and a store that are folders.

use crate::mailbox::{CROWDED_BYTES, Mailbox, Message, REQUESTS_MAX, WAITING_MAX_BYTES};
use crate::recordings::{Recordings, State};
use crate::settings::RecordSettings;
use crate::store::StoreSettings;
use bytes::Bytes;
use glassline_delivery::archive::index::{Line, Part, RecordedSegment};
use glassline_delivery::archive::location::Location;
use glassline_delivery::archive::retention::Rules;
use glassline_delivery::packager::{Kind, RenditionName, TrackInfo};
use glassline_delivery::policy::StreamName;
use glassline_media::Utc;
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

const AUDIO: RenditionName = RenditionName::Audio(1);
const PARTS: u32 = 4;

fn hall() -> StreamName {
    StreamName::parse("hall").unwrap()
}

struct Place {
    scratch: Scratch,
}

impl Place {
    fn new(name: &str) -> Place {
        Place { scratch: Scratch::new(name) }
    }

    fn store(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn settings(&self, store: &str) -> RecordSettings {
        RecordSettings {
            ts: Default::default(),
            streams: [hall()].into(),
            store: StoreSettings::new(Location::Folder(self.store(store))),
            spool: self.scratch.path().join("spool"),
            spool_bytes: 64 << 20,
            keep: Rules::default(),
            upload_rate: None,
        }
    }

    /// The recordings in a store: of each its name, the segments that its index names, and whether that has an end. Each segment is
    /// there as the index says.
    fn recordings(&self, store: &str) -> Vec<(String, Vec<u64>, bool)> {
        let folder = self.store(store).join("hall");
        let Ok(sessions) = fs::read_dir(&folder) else { return Vec::new() };
        let mut sessions: Vec<String> =
            sessions.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        sessions.sort();
        let read = |session: String| {
            let folder = folder.join(&session);
            let parts = fs::read_dir(folder.join("index")).into_iter().flatten().map(|it| it.unwrap().path());
            let parts = parts.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
            let (mut numbers, mut has_ended) = (Vec::new(), false);
            for line in parts.flat_map(|path| Part::read(&fs::read(path).unwrap()).unwrap().lines) {
                match line {
                    Line::Segment(_, segment) => {
                        let bytes = fs::read(folder.join(format!("audio/{}.m4s", segment.number))).unwrap();
                        assert_eq!(bytes.len() as u64, segment.bytes);
                        assert!(bytes.starts_with(format!("{} 0 ", segment.number).as_bytes()));
                        numbers.push(segment.number);
                    }
                    Line::Ended(_) => has_ended = true,
                    Line::Hole(hole) => panic!("{hole:?}"),
                    Line::Track(..) | Line::MpegTs(_) => {}
                }
            }
            numbers.sort_unstable();
            (session, numbers, has_ended)
        };
        sessions.into_iter().map(read).collect()
    }
}

/// A segment with so many parts. The publisher's stamps are the same each time.
fn segment(number: u64, parts: u32) -> RecordedSegment {
    RecordedSegment {
        number,
        epoch: 1,
        start: number * 98_304,
        duration: u64::from(parts) * 24_576,
        utc: Utc::from_nanos(1_796_005_552_000_000_000 + number * 2_048_000_000),
        captured: true,
        independent: true,
        bytes: 0,
        crc32c: 0,
        key_frames: Vec::new(),
    }
}

/// A stream that is recorded.
struct Stream {
    mailbox: Arc<Mailbox>,
    key: u64,
}

impl Stream {
    fn begin(recordings: &Recordings, key: u64) -> Stream {
        let mailbox = Arc::clone(recordings.mailbox());
        mailbox.send(Message::Begin { key, name: hall() });
        let track = TrackInfo {
            epoch: 1,
            codec: "mp4a.40.2".to_owned(),
            timescale: 48_000,
            kind: Kind::Audio { channels: 2, rate_hz: 48_000, language: None },
            sample_ticks: 1024,
            chunk_ticks: 24_576,
            part_ticks: 24_576,
        };
        mailbox.send(Message::Init { key, rendition: AUDIO, track, bytes: Bytes::from_static(b"header") });
        Stream { mailbox, key }
    }

    /// Some parts of a segment; its last one ends it.
    fn parts(&self, number: u64, parts: std::ops::Range<u32>) {
        let key = self.key;
        for part in parts {
            let (rendition, chunks) = (AUDIO, vec![Bytes::from(format!("{number} {part} "))]);
            let message = Message::Part { key, rendition, segment: segment(number, part + 1), part, chunks };
            assert!(self.mailbox.send_bounded(message));
            if part + 1 == PARTS {
                let message = Message::SegmentEnd { key, rendition, segment: segment(number, PARTS) };
                assert!(self.mailbox.send_bounded(message));
            }
        }
    }

    fn segments(&self, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| self.parts(number, 0..PARTS));
    }

    fn end(&self) {
        self.mailbox.send(Message::End { key: self.key });
    }
}

fn running(recordings: &Recordings) -> usize {
    recordings.list(|_| true).iter().filter(|listed| listed.state == State::Recording).count()
}

#[test]
fn two_recordings_of_the_same_stamps_have_two_names() {
    let place = Place::new("record-again");
    let recordings = Recordings::start(Some(place.settings("store"))).unwrap();
    for key in 1..=3 {
        let stream = Stream::begin(&recordings, key);
        stream.segments(100..103);
        stream.end();
        let count = key as usize;
        until("the recording", || {
            let found = place.recordings("store");
            found.len() == count
                && found.iter().all(|(_, numbers, ended)| *ended && *numbers == [100, 101, 102])
        });
    }
    recordings.end();
}

#[test]
fn a_fault_costs_the_message_that_it_came_with_and_begins_another_recording() {
    let place = Place::new("record-fault");
    let recordings = Recordings::start(Some(place.settings("store"))).unwrap();
    let stream = Stream::begin(&recordings, 1);
    stream.segments(100..102);
    stream.parts(102, 0..2);
    until("a recording", || running(&recordings) == 1);
    let first = recordings.list(|_| true)[0].session;
    // All of this waits when the thread comes to it.
    let (go, wait) = mpsc::channel::<()>();
    let (told, telling) = mpsc::channel();
    stream.mailbox.send(Message::Do(Box::new(move |_| {
        let _ = wait.recv();
    })));
    stream.mailbox.send(Message::Do(Box::new(|_| panic!("a fault of a test"))));
    stream.mailbox.send(Message::Do(Box::new(move |_| {
        let _ = told.send(());
    })));
    go.send(()).unwrap();
    telling.recv().expect("what waited behind it is done");
    until("another recording", || {
        recordings.list(|_| true).iter().any(|it| it.state == State::Recording && it.session != first)
    });
    // The rest of a segment that began before the recording is none of it.
    stream.parts(102, 2..PARTS);
    stream.segments(103..105);
    stream.end();
    until("both", || {
        let found = place.recordings("store");
        found.len() == 2 && found.iter().all(|(_, _, ended)| *ended)
    });
    let found = place.recordings("store");
    assert_eq!(found[0].1, [100, 101, 102], "the last one as far as it came");
    assert_eq!(found[1].1, [103, 104]);
    recordings.end();
}

#[test]
fn another_store_begins_another_recording_and_what_was_for_the_first_goes_there() {
    let place = Place::new("record-reload");
    let recordings = Recordings::start(Some(place.settings("one"))).unwrap();
    let stream = Stream::begin(&recordings, 1);
    stream.segments(100..103);
    stream.parts(103, 0..1);
    until("a recording", || running(&recordings) == 1);
    recordings.configure(Some(place.settings("two")));
    until("another recording", || {
        let listed = recordings.list(|_| true);
        listed.iter().any(|it| it.state == State::Recording && it.bytes == 0)
    });
    stream.parts(103, 1..PARTS);
    stream.segments(104..106);
    stream.end();
    let whole = |store| {
        let found = place.recordings(store);
        found.len() == 1 && found[0].2
    };
    until("both", || whole("one") && whole("two"));
    assert_eq!(place.recordings("one")[0].1, [100, 101, 102, 103]);
    assert_eq!(place.recordings("two")[0].1, [104, 105]);
    recordings.end();
}

#[test]
fn what_was_for_a_store_that_is_gone_goes_to_the_next() {
    let place = Place::new("record-gone");
    let recordings = Recordings::start(Some(place.settings("one"))).unwrap();
    let stream = Stream::begin(&recordings, 1);
    stream.segments(100..101);
    until("a segment", || place.store("one").join("hall").exists());
    fs::rename(place.store("one"), place.store("moved")).unwrap();
    stream.segments(101..103);
    until("a failure", || recordings.status().store_error.is_some());
    recordings.configure(Some(place.settings("two")));
    stream.segments(103..104);
    stream.end();
    until("all of it", || recordings.status().waiting_bytes == 0);
    // What the first one has not got is there; what it has got is named there, too, as far as it was not told of before.
    let sessions = fs::read_dir(place.store("two").join("hall")).unwrap();
    let folders: Vec<PathBuf> = sessions.map(|it| it.unwrap().path().join("audio")).collect();
    for number in 101..104 {
        let is_there = folders.iter().any(|folder| folder.join(format!("{number}.m4s")).exists());
        assert!(is_there, "{number} in {folders:?}");
    }
    assert_eq!(recordings.status().counters.dropped_bytes, 0);
    recordings.end();
}

#[test]
fn nothing_leaves_for_the_store_while_much_of_what_is_recorded_waits() {
    let place = Place::new("record-crowded");
    let recordings = Recordings::start(Some(place.settings("store"))).unwrap();
    let stream = Stream::begin(&recordings, 1);
    until("a recording", || running(&recordings) == 1);
    let (go, wait) = mpsc::channel::<()>();
    let (told, telling) = mpsc::channel();
    let mailbox = Arc::clone(&stream.mailbox);
    // In one turn of the thread: a segment becomes whole, and more than it may be late by comes meanwhile.
    stream.mailbox.send(Message::Do(Box::new(move |_| {
        let _ = wait.recv();
    })));
    stream.segments(100..101);
    stream.mailbox.send(Message::Do(Box::new(move |_| {
        let chunks = vec![Bytes::from(vec![0; CROWDED_BYTES as usize])];
        let part = Message::Part { key: 1, rendition: AUDIO, segment: segment(101, 2), part: 1, chunks };
        assert!(mailbox.send_bounded(part));
        mailbox.send(Message::Do(Box::new(move |thread| {
            let spool = &thread.spool().expect("a spool").0;
            let _ = told.send((spool.sending(), spool.waiting_bytes()));
        })));
    })));
    go.send(()).unwrap();
    let (sending, waiting) = telling.recv().unwrap();
    assert_eq!(sending, 0);
    assert!(waiting > 0);
    stream.end();
    until("the segment", || place.recordings("store").iter().any(|it| it.2));
    assert_eq!(place.recordings("store")[0].1, [100]);
    recordings.end();
}

#[test]
fn requests_of_viewers_that_wait_are_bounded() {
    let place = Place::new("record-requests");
    let recordings = Recordings::start(Some(place.settings("store"))).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    recordings.mailbox().send(Message::Do(Box::new(move |_| {
        let _ = wait.recv();
    })));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::<AtomicUsize>::default();
    let (answers, answered) = mpsc::channel();
    for _ in 0..REQUESTS_MAX + 44 {
        let (counted, answers) = (Counted(Arc::clone(&dropped)), answers.clone());
        recordings.unstored_lines(&hall(), move |_| {
            let _ = answers.send(());
            drop(counted);
        });
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 44);
    go.send(()).unwrap();
    drop(answers);
    assert_eq!(answered.iter().count(), REQUESTS_MAX);
    // There is room again.
    let (answer, again) = mpsc::channel();
    recordings.unstored_lines(&hall(), move |_| {
        let _ = answer.send(());
    });
    again.recv().unwrap();
    recordings.end();
}

#[test]
fn what_tells_of_dropped_parts_is_bounded_too() {
    let mailbox = Mailbox::default();
    let count = (0..10_000_000u64)
        .take_while(|number| {
            mailbox.send_bounded(Message::Lost { key: 1, rendition: AUDIO, segment: segment(*number, 1) })
        })
        .count();
    assert!(count > 10_000 && (count as u64) < WAITING_MAX_BYTES / 256, "{count}");
}
