use super::*;
use glassline_media::container::ts::{ContinuityChecker, Packet, SYNC_BYTE};
use glassline_test_support::ts::{RECOVERY_FRAMES, Source};
use proptest::prelude::*;

const BACKLOG: Backlog = Backlog { time: Duration::from_secs(2), bytes: 1 << 20 };
const SETTINGS: Settings = Settings {
    backlog: BACKLOG,
    flush: FlushPolicy::Frame,
    pacing: Pacing::Factor(3.0),
    prebuffer: Prebuffer::NONE,
};

/// A stream and the file that its bytes went to.
struct Written {
    stream: Stream,
    file: Vec<u8>,
}

impl Written {
    fn new() -> Written {
        let mut stream = Stream::new(Mux::MpegTs, SETTINGS, Time::ZERO);
        stream.begin_session(Time::ZERO);
        Written { stream, file: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8], now: Time) -> Result<(), StreamError> {
        self.stream.push(bytes, now, &mut |run| self.file.extend_from_slice(run)).map(|_| ())
    }

    fn from(&self, entry: &Entry, moved: bool) -> Vec<u8> {
        [entry.prelude(moved), self.file[entry.offset as usize..].to_vec()].concat()
    }
}

fn continuity_errors(bytes: &[u8]) -> u64 {
    let mut checker = ContinuityChecker::new();
    for packet in bytes.as_chunks::<PACKET_BYTES>().0 {
        checker.check(&Packet::parse(packet).expect("whole packets"));
    }
    checker.errors()
}

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

#[test]
fn a_viewer_enters_at_the_newest_key_frame_with_tables_in_front() {
    let (mut source, mut written) = (Source::default(), Written::new());
    written.push(&source.tables(), at(0.0)).unwrap();
    assert!(written.stream.newest_entry().is_none());
    written.push(&source.picture(true, 3), at(0.0)).unwrap();
    written.push(&source.picture(false, 2), at(0.1)).unwrap();
    let key_offset = written.stream.head();
    written.push(&source.picture(true, 3), at(0.2)).unwrap();
    written.push(&[source.picture(false, 1), source.tables()].concat(), at(0.3)).unwrap();
    let entry = written.stream.newest_entry().expect("two key frames came").clone();
    assert_eq!(entry.offset, key_offset);
    assert_eq!(entry.prelude(false).len(), 2 * 188);
    assert_eq!(continuity_errors(&written.from(&entry, false)), 0);
    assert_eq!(written.stream.key_frame_interval(), Some(Duration::from_millis(200)));
    assert_eq!(written.stream.counters().continuity_errors, 0);
}

#[test]
fn a_viewer_is_moved_forward_without_a_continuity_error() {
    let (mut source, mut written) = (Source::default(), Written::new());
    written.push(&source.tables(), at(0.0)).unwrap();
    for second in 0..20 {
        written.push(&source.picture(true, 7), at(f64::from(second))).unwrap();
        written.push(&source.tables(), at(f64::from(second) + 0.5)).unwrap();
    }
    let tail = written.stream.tail();
    assert!(tail > 0 && tail.is_multiple_of(188), "{tail}");
    let entry = written.stream.newest_entry().unwrap().clone();
    assert!(entry.offset >= tail);
    // The viewer stands somewhere before the tail, at a packet's end.
    let mut watched = written.file[..5 * 188].to_vec();
    watched.extend(written.from(&entry, true));
    assert_eq!(continuity_errors(&watched), 0);
    // Without the announcement it would have been one.
    let mut unannounced = written.file[..5 * 188].to_vec();
    unannounced.extend(written.from(&entry, false));
    assert!(continuity_errors(&unannounced) > 0);
}

#[test]
fn a_publisher_that_returns_is_announced() {
    let (mut source, mut written) = (Source::default(), Written::new());
    written.push(&[source.tables(), source.picture(true, 4)].concat(), at(0.0)).unwrap();
    // Cut off within a packet.
    written.push(&source.picture(false, 2)[..300], at(0.1)).unwrap();
    written.stream.begin_session(at(3.0));
    let mut next = Source::default();
    written.push(&[next.tables(), next.picture(true, 4), next.picture(false, 2)].concat(), at(3.1)).unwrap();
    assert_eq!(written.file.len() as u64, written.stream.head());
    assert_eq!(written.file.len() % 188, 0);
    assert_eq!(continuity_errors(&written.file), 0);
    let entry = written.stream.newest_entry().unwrap().clone();
    assert_eq!(continuity_errors(&written.from(&entry, false)), 0);
    assert_eq!(written.stream.counters().sessions, 2);
    assert_eq!(written.stream.counters().continuity_errors, 0);
}

#[test]
fn the_backlog_keeps_its_newest_key_frame_up_to_its_size() {
    let (mut source, mut written) = (Source::default(), Written::new());
    written.push(&[source.tables(), source.picture(true, 1)].concat(), at(0.0)).unwrap();
    let entry = written.stream.newest_entry().unwrap().offset;
    for tick in 1..100 {
        written.push(&source.picture(false, 10), at(f64::from(tick) * 0.1)).unwrap();
    }
    // Ten seconds without a key frame: older than the backlog's two seconds, and still to be entered at.
    assert_eq!(written.stream.tail(), entry);
    for tick in 100..800 {
        written.push(&source.picture(false, 10), at(f64::from(tick) * 0.1)).unwrap();
    }
    let kept = written.stream.head() - written.stream.tail();
    assert!(kept <= BACKLOG.bytes, "{kept}");
}

#[test]
fn without_key_frames_a_viewer_enters_anywhere_after_a_while() {
    let (mut source, mut written) = (Source::default(), Written::new());
    for tick in 0..130 {
        written
            .push(&[source.tables(), source.picture(false, 2)].concat(), at(f64::from(tick) * 0.1))
            .unwrap();
        assert_eq!(written.stream.newest_entry().is_some(), tick > 120, "tick {tick}");
    }
}

#[test]
fn without_key_frames_a_viewer_enters_at_the_newest_recovery_point() {
    for announced in [true, false] {
        let (mut source, mut written) = (Source::default(), Written::new());
        written.push(&[source.tables(), source.picture(true, 3)].concat(), at(0.0)).unwrap();
        assert_eq!(written.stream.join(), None, "announced, and no IDR");
        let mut newest = 0;
        for second in 1..=3 {
            written.push(&source.picture(false, 2), at(f64::from(second))).unwrap();
            newest = written.stream.head();
            written.push(&source.recovery_point(announced, 2), at(f64::from(second) + 0.5)).unwrap();
        }
        written.push(&source.picture(false, 2), at(4.0)).unwrap();
        let entry = written.stream.newest_entry().expect("a recovery point came").clone();
        assert_eq!(entry.offset, newest, "announced: {announced}");
        assert_eq!(continuity_errors(&written.from(&entry, false)), 0);
        let Some(Join::Recovery(point)) = written.stream.join() else {
            panic!("{:?}", written.stream.join())
        };
        assert_eq!((point.frames, point.exact), (RECOVERY_FRAMES, true));
        assert_eq!(written.stream.key_frame_interval(), Some(Duration::from_secs(1)));
    }
}

#[test]
fn what_is_no_transport_stream_is_refused_soon() {
    let mut written = Written::new();
    let page = b"<html>".repeat(1000);
    let refused = (0..20).map(|_| written.push(&page, at(0.0))).find_map(Result::err);
    assert!(matches!(refused, Some(StreamError::NotMpegTs { bytes }) if bytes > 60_000));
    assert!(written.file.is_empty());
}

#[test]
fn bit_rate_is_that_of_the_last_two_seconds() {
    let (mut source, mut written) = (Source::default(), Written::new());
    written.push(&source.tables(), at(0.0)).unwrap();
    for tick in 1..=100 {
        let picture = source.picture(tick % 10 == 0, 10);
        written.push(&picture, at(f64::from(tick) * 0.1)).unwrap();
    }
    let expected = 10.0 * 188.0 * 8.0 * 10.0;
    let measured = written.stream.bitrate_bps(at(10.0)) as f64;
    assert!((measured / expected - 1.0).abs() < 0.06, "{measured} of {expected}");
    assert_eq!(written.stream.bitrate_bps(at(13.0)), 0);
}

proptest! {
    #[test]
    fn any_chop_gives_the_same_file(
        pictures in proptest::collection::vec((any::<bool>(), 1usize..12), 1..12),
        cuts in proptest::collection::vec(1usize..700, 1..30),
    ) {
        let (mut source, mut wire) = (Source::default(), Vec::new());
        for (key, packets) in pictures {
            wire.extend(source.tables());
            wire.extend(source.picture(key, packets));
        }
        let mut whole = Written::new();
        whole.push(&wire, at(0.0)).unwrap();
        let (mut chopped, mut rest, mut cut) = (Written::new(), &wire[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (chop, tail) = rest.split_at((*cut.next().expect("cycles")).min(rest.len()));
            chopped.push(chop, at(0.0)).unwrap();
            rest = tail;
        }
        prop_assert_eq!(&whole.file, &wire);
        prop_assert_eq!(&chopped.file, &wire);
        prop_assert_eq!(
            chopped.stream.newest_entry().map(|entry| entry.offset),
            whole.stream.newest_entry().map(|entry| entry.offset)
        );
    }

    #[test]
    fn garbage_never_panics_nor_breaks_packets(chunks in proptest::collection::vec(
        proptest::collection::vec(prop_oneof![Just(SYNC_BYTE), any::<u8>()], 0..600), 0..12,
    )) {
        let mut written = Written::new();
        for chunk in chunks {
            let _ = written.push(&chunk, at(0.0));
        }
        prop_assert_eq!(written.file.len() as u64, written.stream.head());
        prop_assert_eq!(written.file.len() % 188, 0);
    }
}

/// What a publisher sends, cut at `cuts`, each piece in a request of its own.
fn in_pieces(bytes: &[u8], cuts: &[usize], may: bool) -> Written {
    let mut written = Written::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        if from > 0 {
            assert!(written.stream.return_session(may));
        }
        written.push(&bytes[from..to], at(0.0)).unwrap();
        from = to;
    }
    written
}

fn three_pictures() -> Vec<u8> {
    let mut source = Source::default();
    [
        source.tables(),
        source.picture(true, 3),
        source.picture(false, 2),
        source.tables(),
        source.picture(true, 3),
    ]
    .concat()
}

#[test]
fn pieces_that_follow_each_other_are_one_session_wherever_they_are_torn() {
    let bytes = three_pictures();
    for piece in [100, 187, 188, 189, 376, 500, 1000] {
        let cuts: Vec<usize> = (piece..bytes.len()).step_by(piece).collect();
        for may in [true, false] {
            let written = in_pieces(&bytes, &cuts, may);
            // What cannot be told yet waits for the next piece.
            let missing = bytes.len() - written.file.len();
            assert!(missing == 0 || may && missing <= 2 * PACKET_BYTES, "{piece}: {missing}");
            assert!(bytes.starts_with(&written.file), "{piece}");
            assert_eq!(written.stream.counters().sessions, 1, "{piece}");
        }
    }
}

#[test]
fn a_publisher_that_was_started_again_is_another_one() {
    for torn in [0, 100] {
        let (mut source, mut written) = (Source::default(), Written::new());
        let first = [source.tables(), source.picture(true, 3), source.picture(false, 2)].concat();
        written.push(&first[..first.len() - torn], at(0.0)).unwrap();
        let whole = written.file.len();
        assert!(written.stream.return_session(true));
        let again = three_pictures();
        written.push(&again, at(1.0)).unwrap();
        assert_eq!(written.stream.counters().sessions, 2);
        let behind = &written.file[whole..];
        assert_eq!(continuity_errors(&written.file), 0, "the seam is announced");
        let announced = behind
            .chunks(PACKET_BYTES)
            .filter(|packet| packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x80 != 0);
        assert_eq!(announced.count(), 3, "on each PID");
        assert_eq!(behind.len(), again.len() + 3 * PACKET_BYTES, "nothing of it is lost");
    }
}

#[test]
fn a_publisher_whose_tables_follow_by_chance_is_found_out_by_its_pictures() {
    let (mut source, mut written) = (Source::default(), Written::new());
    // Its tables come once more, and its pictures' counters are elsewhere.
    written.push(&[source.tables(), source.picture(true, 3)].concat(), at(0.0)).unwrap();
    let tables = source.tables();
    let mut other = Source::default();
    other.picture(true, 9);
    assert!(written.stream.return_session(true));
    written.push(&[tables, other.picture(true, 3)].concat(), at(1.0)).unwrap();
    assert_eq!(written.stream.counters().sessions, 2);
    assert_eq!(continuity_errors(&written.file), 0);
}

#[test]
fn of_other_muxes_nothing_shows_that_a_publisher_goes_on() {
    let mut stream = Stream::new(Mux::Flv, SETTINGS, Time::ZERO);
    stream.begin_session(Time::ZERO);
    assert!(!stream.return_session(true));
    assert!(stream.return_session(false), "it has said so");
}

#[test]
fn nothing_is_paced_by_the_first_bytes_of_a_key_frame() {
    let (mut source, mut written) = (Source::default(), Written::new());
    let picture = [source.tables(), source.picture(true, 300)].concat();
    let (first, rest) = picture.split_at(188 * 4);
    written.push(first, at(0.0)).unwrap();
    assert_eq!(written.stream.poll_pace(at(0.0)), None);
    written.push(rest, at(0.01)).unwrap();
    assert_eq!(written.stream.poll_pace(at(0.01)), None);
    written.push(&source.picture(false, 20), at(0.1)).unwrap();
    // Three times what came in a tenth of a second.
    let rate = written.stream.poll_pace(at(0.1)).unwrap();
    assert!((13_000_000..16_000_000).contains(&rate), "{rate}");
    // A publisher that comes back does not slow down those that have watched the one before.
    written.stream.begin_session(at(1.0));
    written.push(first, at(1.0)).unwrap();
    assert_eq!(written.stream.poll_pace(at(1.0)), None);

    // A rate that is given needs no look.
    let settings = Settings { pacing: Pacing::Rate(8_000_000), ..SETTINGS };
    let mut given = Stream::new(Mux::MpegTs, settings, Time::ZERO);
    given.begin_session(Time::ZERO);
    assert_eq!(given.poll_pace(Time::ZERO), Some(8_000_000));
}
