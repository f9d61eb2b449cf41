use super::*;
use crate::direct::relay_for_tests;
use bytes::Bytes;
use glassline_direct::CodedFrame;
use glassline_direct::coded::{ReceivedUnit, UnitHeader};
use glassline_direct::wire::{FrameCodec, PictureHeader, StateTag};
use glassline_media::bitstream;
use glassline_media::container::ts::{self, Demuxer};
use glassline_media::{PixelFormat, Size, Utc};
use glassline_studio::capture::Input;
use glassline_test_support::program::Scratch;
use std::path::PathBuf;

const RATE: FrameRate = match FrameRate::new(25, 1) {
    Some(rate) => rate,
    None => unreachable!(),
};

fn request() -> Request {
    Request::new(Input::Test { size: Size::new(64, 48).unwrap(), rate: RATE })
}

fn name() -> StreamName {
    StreamName::parse("a").unwrap()
}

/// A publisher to a relay in this process, and that.
fn to_relay() -> (Publisher, Arc<Streams>) {
    to_relay_with(Av1Frames::Passed)
}

fn to_relay_with(av1: Av1Frames) -> (Publisher, Arc<Streams>) {
    let streams = relay_for_tests::streams();
    let to = PublishTo::Relay { streams: Arc::clone(&streams), name: name() };
    (Publisher::new(PublishSettings { to, request: request(), av1, telemetry: None }), streams)
}

fn to_file(path: PathBuf) -> Publisher {
    to_file_with(path, Av1Frames::Passed)
}

fn to_file_with(path: PathBuf, av1: Av1Frames) -> Publisher {
    let to = PublishTo::Targets { targets: vec![Target::File(path)], credentials: Credentials::default() };
    Publisher::new(PublishSettings { to, request: request(), av1, telemetry: None })
}

fn state(publisher: &Publisher) -> std::sync::MutexGuard<'_, State> {
    publisher.0.lock().unwrap()
}

/// So long ago.
fn ago(time: Duration) -> Time {
    Time::from_nanos(Clock::new().now().as_nanos().saturating_sub(time.as_nanos() as u64))
}

fn coded(number: u64, needs: Option<u64>) -> CodedPicture {
    CodedPicture::of_unit(&unit(number, needs))
}

fn unit(number: u64, needs: Option<u64>) -> ReceivedUnit {
    let header = UnitHeader {
        epoch: 1,
        number,
        needs,
        continues: false,
        reference: true,
        captured: Utc::from_nanos(0),
        rate: None,
        passed: Stamps::default(),
    };
    // A delimiter, parameter sets and a slice.
    let head = [0, 0, 0, 1, 0x09, 0xF0, 0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x0A, 0, 0, 0, 1, 0x68, 0xCE];
    let slice = [0, 0, 0, 1, if needs.is_none() { 0x65 } else { 0x41 }, 0x9A, 1, 2, 3];
    ReceivedUnit { header, data: Bytes::from([&head[..], &slice].concat()), after_gap: false }
}

fn shown(content: Content, captured: Time) -> Shown {
    Shown { content, rate: RATE, stamps: Stamps::captured_at(captured), captured: Utc::default() }
}

fn other_error() -> io::Error {
    io::Error::other("a test's")
}

#[test]
fn a_stream_begins_when_sound_is_there_or_was_waited_for() {
    let (publisher, _streams) = to_relay();
    let mut state = state(&publisher);
    assert!(!state.try_begin(SOUND_WAIT) && !state.try_begin(SOUND_WAIT), "it has just begun to wait");
    state.since = Some(ago(SOUND_WAIT));
    assert!(state.try_begin(SOUND_WAIT));
    state.since = None;
    state.has_sound = true;
    assert!(state.try_begin(SOUND_WAIT));
    state.failures.again_at = Some(state.clock.now() + Duration::from_secs(3600));
    assert!(!state.try_begin(SOUND_WAIT), "a failure is too young");
    state.failures.again_at = Some(ago(Duration::ZERO));
    assert!(state.try_begin(SOUND_WAIT));
}

#[test]
fn a_stream_that_never_went_on_for_a_while_fails_at_once() {
    let (publisher, _streams) = to_relay();
    let mut state = state(&publisher);
    assert!(state.fail(other_error()).is_err());
    state.failures.begun_at = Some(state.clock.now());
    assert!(state.fail(other_error()).is_err());
    assert!(!state.failures.has_settled && state.failures.again_at.is_none());
}

#[test]
fn a_stream_that_has_settled_begins_again_ever_later_until_it_settles_again() {
    let (publisher, _streams) = to_relay();
    let mut state = state(&publisher);
    state.failures.begun_at = Some(ago(SETTLED));
    let mut waits = Vec::new();
    for _ in 0..7 {
        state.last = Some(Ticks(5));
        state.held.push((coded(0, None), Time::ZERO));
        let before = state.clock.now();
        state.fail(other_error()).unwrap();
        waits.push(state.failures.wait.as_secs());
        let again_at = state.failures.again_at.expect("it begins again");
        assert!(again_at >= before + state.failures.wait);
        assert!(matches!(state.stage, Progress::Waiting) && state.last.is_none() && state.held.is_empty());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    state.failures.begun_at = Some(ago(SETTLED));
    state.fail(other_error()).unwrap();
    assert_eq!(state.failures.wait, AGAIN);
}

#[test]
fn a_file_that_cannot_be_written_any_more_is_ended_and_its_failure_told_at_the_end() {
    let publisher = to_file("/no/such/folder/a.ts".into());
    {
        let mut state = state(&publisher);
        state.failures.begun_at = Some(ago(SETTLED));
        state.fail(other_error()).unwrap();
        assert!(matches!(state.stage, Progress::Over) && state.failures.last.is_some());
    }
    let mut sink = publisher.sink();
    sink.show(&shown(Content::Unit(unit(0, None)), Time::from_millis(1))).unwrap();
    assert!(state(&publisher).held.is_empty(), "nothing more is taken");
    assert_eq!(sink.finish().unwrap_err().to_string(), "a test's");
    sink.finish().unwrap();
}

#[test]
fn what_comes_too_early_is_left_out_and_after_a_while_the_stream_begins_anew() {
    let (publisher, _streams) = to_relay();
    let mut state = state(&publisher);
    assert!(!state.note_behind(0, false));
    assert!(state.note_behind(0, true) && state.behind_since[0].is_some());
    assert!(!state.note_behind(1, false) && state.behind_since[0].is_some(), "sound is another matter");
    assert!(!state.note_behind(0, false) && state.behind_since[0].is_none());
    state.last = Some(Ticks(7));
    state.behind_since[0] = Some(ago(CLOCK_WAIT));
    assert!(state.note_behind(0, true));
    assert!(state.last.is_none() && state.behind_since == [None; 2]);
    assert_eq!(state.failures.wait, Duration::ZERO);
    assert!(state.note_behind(9, true) && !state.note_behind(9, false), "a kind that there is none of");
}

#[test]
fn units_are_held_from_the_newest_key_frame_on_until_the_stream_begins() {
    let (publisher, streams) = to_relay();
    let mut state = state(&publisher);
    let numbers =
        |state: &State| state.held.iter().map(|(_, at)| at.as_nanos() / 40_000_000).collect::<Vec<_>>();
    let at = Time::from_millis;
    state.show_coded(&coded(0, Some(9)), at(1)).unwrap();
    assert!(numbers(&state).is_empty(), "there is no key frame before it");
    for (number, needs) in [(1, None), (2, Some(1)), (3, None), (4, Some(3))] {
        state.show_coded(&coded(number, needs), at(number * 40)).unwrap();
    }
    assert_eq!(numbers(&state), [3, 4]);
    for number in 5..5 + 2 * HELD_MAX as u64 {
        state.since = Some(state.clock.now());
        state.show_coded(&coded(number, Some(number - 1)), at(number * 40)).unwrap();
    }
    assert_eq!(state.held.len(), HELD_MAX);
    assert!(streams.find(&name()).is_none());
    // Sound was waited for in vain.
    state.since = Some(ago(CODED_SOUND_WAIT));
    state.show_coded(&coded(500, None), at(20_000)).unwrap();
    assert!(state.held.is_empty() && matches!(state.stage, Progress::Muxing(_)));
    let before = streams.find(&name()).expect("it has begun").bytes_in();
    assert!(before > 0 && before.is_multiple_of(188));
    state.show_coded(&coded(501, Some(500)), at(20_040)).unwrap();
    assert!(streams.find(&name()).expect("it goes on").bytes_in() > before);
    assert_eq!(state.last, Some(Ticks::from_time(at(20_040))));
    // One that comes too early is written at a later stamp, since later ones need it.
    state.show_coded(&coded(502, Some(501)), at(20_000)).unwrap();
    assert_eq!(state.last, Some(Ticks::from_time(at(20_040)) + Ticks(1)));
    state.end().unwrap();
    assert_eq!(streams.find(&name()).and_then(|live| live.published_since()), None);
}

#[test]
fn a_stream_of_units_takes_no_pictures() {
    let (publisher, _streams) = to_relay();
    state(&publisher).since = Some(ago(CODED_SOUND_WAIT));
    let mut sink = publisher.sink();
    sink.show(&shown(Content::Unit(unit(0, None)), Time::from_millis(40))).unwrap();
    let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::ZERO);
    let refused = sink.show(&shown(Content::Picture(picture), Time::from_millis(80))).unwrap_err();
    assert!(refused.to_string().contains("now sends pictures"), "{refused}");
    sink.finish().unwrap();
}

#[test]
fn a_webm_file_takes_frames_and_refuses_what_it_does_not_hold_with_a_name_that_does() {
    let scratch = Scratch::new("publish-webm");
    let publisher = to_file(scratch.file("a.webm").into());
    let mut sink = publisher.sink();
    assert!(sink.takes_frames());
    for (file, encoded, passed) in [("a.mp4", false, true), ("a.ts", false, true), ("a.webm", true, true)] {
        let takes = |av1| to_file_with(file.into(), av1).sink().takes_frames();
        assert_eq!((takes(Av1Frames::Encoded), takes(Av1Frames::Passed)), (encoded, passed), "{file}");
    }
    let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::ZERO);
    for (content, names) in [
        (Content::Picture(picture), ["VP8 comes", "FILE.ivf"]),
        (Content::Unit(unit(0, None)), ["H.264 comes", "FILE.h264"]),
    ] {
        let refused = sink.show(&shown(content, Time::from_millis(40))).unwrap_err().to_string();
        assert!(names.iter().all(|name| refused.contains(name)) && refused.contains("FILE.mp4"), "{refused}");
    }
    sink.finish().unwrap();
}

#[test]
fn a_name_that_is_taken_is_told_with_the_first_unit() {
    let (publisher, streams) = to_relay();
    let _other = streams.publish(&name(), Mux::MpegTs).unwrap();
    state(&publisher).since = Some(ago(CODED_SOUND_WAIT));
    let refused = publisher.sink().show(&shown(Content::Unit(unit(0, None)), Time::from_millis(40)));
    assert!(refused.is_err());
}

#[cfg(feature = "opus")]
#[test]
fn sound_that_was_heard_already_is_left_out_and_lets_the_stream_begin() {
    let (publisher, _streams) = to_relay();
    let block = |millis| AudioBlock {
        samples: vec![0.0; 960],
        channels: 2,
        rate_hz: 48_000,
        captured: Time::from_millis(millis),
    };
    let mut state = state(&publisher);
    assert!(!state.try_begin(SOUND_WAIT));
    state.hear(block(10_000)).unwrap();
    assert!(state.has_sound && state.try_begin(SOUND_WAIT));
    assert_eq!(state.heard_to, Some(Time::from_millis(10_010)));
    state.hear(block(9600)).unwrap();
    assert_eq!((state.heard_to, state.behind_since[1]), (Some(Time::from_millis(10_010)), None), "a little");
    state.hear(block(9000)).unwrap();
    assert!(state.behind_since[1].is_some());
    state.hear(block(10_010)).unwrap();
    assert_eq!((state.heard_to, state.behind_since[1]), (Some(Time::from_millis(10_020)), None));
}

/// A frame as the sender sends it: a delimiter, a sequence header where it is a key frame, and the frame.
fn frame(number: u64, source: Option<u64>) -> CodedFrame {
    let header = PictureHeader {
        epoch: 1,
        number,
        source,
        kept: 0,
        target: StateTag([0; 8]),
        captured: Utc::from_micros(1_700_000_000_000_000 + number * 40_000),
        rate: Some(RATE),
        size: None,
        codec: FrameCodec::Av1 { slot: 0 },
        passed: Stamps::captured_at(Time::ZERO).with(Stage::Queued, Time::from_millis(3)),
    };
    let sequence: &[u8] = if source.is_none() { &[0x0a, 0x02, 0x00, 0x00] } else { &[] };
    // Behind the size: whether it is shown again, its kind, whether it is shown.
    let first = if source.is_none() { 0x10 } else { 0x30 };
    let data = [&[0x12, 0x00][..], sequence, &[0x32, 0x04, first, number as u8, 0, 1]].concat();
    CodedFrame { header, rate: RATE, size: Size::new(64, 48).unwrap(), frame: data.into() }
}

/// The access units of the video in a transport stream.
fn units_of(stream: &[u8]) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let events = std::iter::from_fn(|| demuxer.poll());
    let units = events.filter_map(|event| match event {
        ts::Event::AccessUnit { unit, .. } if unit.codec.is_video() => Some(unit),
        _ => None,
    });
    units.collect()
}

#[test]
fn frames_go_into_a_transport_stream_as_they_came_and_say_when_they_were_captured() {
    let scratch = Scratch::new("publish-av1");
    let path = scratch.file("a.ts");
    let publisher = to_file(path.clone().into());
    state(&publisher).since = Some(ago(CODED_SOUND_WAIT));
    let mut sink = publisher.sink();
    let (sources, begun) = ([None, Some(0), Some(1), None, Some(3)], ago(Duration::from_secs(1)));
    for (number, source) in sources.into_iter().enumerate() {
        // A picture between the third and the fourth was lost.
        let millis = number as u64 * 40 + if number > 2 { 400 } else { 0 };
        let content = Content::Frame(frame(number as u64, source));
        sink.show(&shown(content, begun + Duration::from_millis(millis))).unwrap();
    }
    sink.finish().unwrap();
    let units = units_of(&std::fs::read(path).unwrap());
    assert_eq!(
        units.iter().map(|unit| unit.random_access).collect::<Vec<_>>(),
        [true, false, false, true, false]
    );
    assert!(units.iter().all(|unit| unit.codec == Codec::Av1));
    for (number, unit) in units.iter().enumerate() {
        let (mut head, slice) = bitstream::head(Codec::Av1, &unit.data);
        let said =
            head.find_map(|nal| bitstream::messages(Codec::Av1, &nal)).expect("what it says of itself");
        let captured = 1_700_000_000_000_000 + number as u64 * 40_000;
        assert_eq!(said.capture_utc(), Some(Utc::from_micros(captured)));
        let record = said.stamp_record().unwrap();
        assert_eq!(record.own.between(Stage::Captured, Stage::Queued), Some(Duration::from_millis(3)));
        assert_eq!(
            record.previous.map(|previous| previous.ago),
            (number > 0).then_some(Duration::from_millis(40))
        );
        assert_eq!(&unit.data[slice.unwrap()..][3..4], [number as u8], "the frame itself");
    }
    let stamps: Vec<i64> = units.iter().map(|unit| ((unit.pts - units[0].pts).0 + 45) / 90).collect();
    assert_eq!(stamps, [0, 40, 80, 520, 560]);
}

#[test]
fn a_stream_that_cannot_go_on_without_a_key_frame_wants_one_until_it_comes() {
    let (publisher, streams) = to_relay();
    let mut sink = publisher.sink();
    let wish = sink.key_frame_wish().expect("it takes frames");
    let now = || Clock::new().now();
    let mut show = |number, source, millis| {
        sink.show(&shown(Content::Frame(frame(number, source)), Time::from_millis(millis))).unwrap();
    };
    assert!(!wish.is_wanted(now()));
    show(7, Some(6), 40);
    assert!(wish.is_wanted(now()), "it was not there when the stream began");
    state(&publisher).since = Some(ago(CODED_SOUND_WAIT));
    show(8, None, 80);
    assert!(!wish.is_wanted(now()) && streams.find(&name()).is_some());
    // The stream begins again.
    state(&publisher).failures.begun_at = Some(ago(SETTLED));
    state(&publisher).fail(other_error()).unwrap();
    assert!(!wish.is_wanted(now()));
    show(9, Some(8), 120);
    assert!(wish.is_wanted(now()));
}

#[test]
fn frames_that_wait_too_long_for_the_stream_to_begin_do_not_begin_it_with_a_gap() {
    let (publisher, _streams) = to_relay();
    let mut state = state(&publisher);
    let coded = |number, source| CodedPicture::of_frame(&frame(number, source)).unwrap();
    state.failures.again_at = Some(state.clock.now() + Duration::from_secs(3600));
    for number in 0..=HELD_MAX as u64 {
        let source = number.checked_sub(1);
        state.show_coded(&coded(number, source), Time::from_millis(number * 40)).unwrap();
    }
    assert!(state.held.is_empty() && state.key_frames.is_wanted(state.clock.now()));
}

#[test]
fn where_av1_alone_was_asked_for_other_pictures_are_refused_with_a_way_out() {
    let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::ZERO);
    for (content, what) in [(Content::Picture(picture), "VP8"), (Content::Unit(unit(0, None)), "H.264")] {
        let (publisher, _streams) = to_relay_with(Av1Frames::Only);
        let refused = publisher.sink().show(&shown(content, Time::from_millis(40))).unwrap_err().to_string();
        assert!(refused.starts_with(what) && refused.contains("--out-codec"), "{refused}");
    }
}
