use super::super::{CodedInput, CodedItem, Length};
use super::testing::{DELIMITER, SETS, Source, muxer, picture, write};
use super::*;
use glassline_io::clock::Clock;
use glassline_media::bitstream::h264::write_capture_utc_nal;
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Stamps};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

impl Source {
    /// Reads it, until so many pictures have come.
    fn read(self: &Arc<Source>, length: Length) -> (Receiver<CodedItem>, JoinHandle<Result<()>>) {
        let (to, items) = channel();
        let input = CodedInput::fetched(Arc::clone(self) as _, length, Clock::new());
        let thread = std::thread::spawn(move || input.run(&|item| to.send(item).is_ok()));
        (items, thread)
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn pictures_come_unchanged_and_at_once_with_what_is_known_of_them() {
    let source = Source::new();
    let (items, thread) = source.read(Length { pictures: Some(12), time: None });
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    for number in 0..12 {
        publisher.push(&write(&mut muxer, number, 0, picture(number))).unwrap();
        // Nothing follows it yet.
        let item = items.recv_timeout(PATIENCE).unwrap();
        assert_eq!(item.piece.data, picture(number), "{number}");
        let (key, reference) = (number.is_multiple_of(5), number.is_multiple_of(5) || number % 2 == 0);
        assert_eq!((item.piece.key, item.piece.reference, item.piece.continues), (key, reference, false));
        // The first one follows nothing.
        assert_eq!(item.follows_gap, number == 0, "{number}");
        assert!(Clock::new().now().since(item.captured) < PATIENCE);
        if number >= 9 {
            // As the parameter sets say, which 25 a second do not contradict.
            assert_eq!(item.rate, FrameRate::new(24, 1));
        }
    }
    publisher.push(&write(&mut muxer, 12, 0, picture(12))).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn another_session_with_the_source_is_a_gap_and_goes_on() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
        for number in 0..3 {
            publisher.push(&write(&mut muxer, number, 0, picture(number))).unwrap();
            gaps.push(items.recv_timeout(PATIENCE).unwrap().follows_gap);
        }
    }
    let wanted: Vec<bool> = (0..60).map(|number| number % 3 == 0).collect();
    assert_eq!(gaps, wanted);
}

#[test]
fn pictures_that_a_session_has_lost_are_a_gap() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    let mut gaps = Vec::new();
    for number in 0..8 {
        if number == 3 || number == 6 {
            source.losses.fetch_add(2, Ordering::SeqCst);
        }
        publisher.push(&write(&mut muxer, number, 0, picture(number))).unwrap();
        gaps.push(items.recv_timeout(PATIENCE).unwrap().follows_gap);
    }
    assert_eq!(gaps, [true, false, false, true, false, false, true, false]);
    // Of pictures that come at once it is not known which one the loss is in front of: a key frame among them proves nothing.
    source.losses.fetch_add(1, Ordering::SeqCst);
    let at_once =
        (8..13).flat_map(|number| write(&mut muxer, number, 0, picture(number))).collect::<Vec<_>>();
    publisher.push(&at_once).unwrap();
    let gaps = || items.recv_timeout(PATIENCE).unwrap().follows_gap;
    assert!((8..13).all(|_| gaps()));
    publisher.push(&write(&mut muxer, 13, 0, picture(13))).unwrap();
    assert!(!gaps());
}

#[test]
fn a_picture_that_says_when_it_was_captured_is_believed() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    let clock = Clock::new();
    for (number, ago_s) in [(0, Some(2u64)), (1, None), (2, Some(3_000))] {
        let now = clock.now();
        let plain = picture(number);
        let (head, slice) = plain.split_at(DELIMITER.len() + if number == 0 { SETS.len() } else { 0 });
        let mut data = head.to_vec();
        if let Some(ago_s) = ago_s {
            let said = Utc::from_nanos(clock.utc_at(now).as_nanos() - ago_s * 1_000_000_000);
            write_capture_utc_nal(said, &mut data);
        }
        data.extend_from_slice(slice);
        publisher.push(&write(&mut muxer, number, 0, data)).unwrap();
        let item = items.recv_timeout(PATIENCE).unwrap();
        let age = now.since(item.captured);
        if ago_s == Some(2) {
            let off = age.abs_diff(Duration::from_secs(2));
            assert!(off < Duration::from_millis(100), "{age:?}");
        } else {
            assert_eq!(age, Duration::ZERO, "it was captured when it came: {number}");
        }
    }
}

#[test]
fn what_cannot_be_sent_ends_in_words_before_the_first_picture() {
    let source = Source::new();
    let (_items, thread) = source.read(Length::default());
    source.refuse();
    let ended = thread.join().unwrap().unwrap_err();
    assert!(matches!(&ended, Error::Refused { remedy, .. } if remedy == "check the path"), "{ended}");
    assert_eq!(ended.to_string(), "rtsp://cam/…: it answers 404");

    let source = Source::new();
    let input = CodedInput::fetched(Arc::clone(&source) as _, Length::default(), Clock::new());
    assert!(input.refusal().is_none());
    let (_items, thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H265));
    let mut packets = Vec::new();
    muxer.write_tables(Ticks(0), &mut packets);
    let key = [
        &[0, 0, 0, 1, 0x40, 1, 9][..],
        &[0, 0, 0, 1, 0x42, 1, 9],
        &[0, 0, 0, 1, 0x44, 1, 9],
        &[0, 0, 0, 1, 0x26, 1, 0xAF, 9],
    ];
    let (data, stamps) = (key.concat().into(), Stamps::default());
    let unit =
        AccessUnit { codec: Codec::H265, data, pts: Ticks(0), dts: Ticks(0), random_access: true, stamps };
    muxer.write(&unit, &mut packets).unwrap();
    publisher.push(&packets).unwrap();
    let ended = thread.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("sends H.265"), "{ended}");
    // It is known of one that does not read it yet, too.
    let refusal = input.refusal().map(|error| error.to_string());
    assert_eq!(refusal, Some(ended));
}

#[test]
fn a_source_with_sound_alone_ends_in_words_though_something_comes_all_the_time() {
    let source = Source::new();
    let (_items, thread) = source.read(Length::default());
    let input = CodedInput::fetched(Arc::clone(&source) as _, Length::default(), Clock::new());
    let audio = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };
    let mut muxer = Muxer::new(MuxSettings { audio: Some(audio), ..MuxSettings::default() }).unwrap();
    let mut publisher = source.publish();
    let began = std::time::Instant::now();
    for number in 0.. {
        let pts = Ticks(number * 900);
        let (data, stamps) = (vec![0xFC, 0xFF, 0xFE].into(), Stamps::default());
        let unit = AccessUnit { codec: Codec::Opus, data, pts, dts: pts, random_access: true, stamps };
        let mut packets = Vec::new();
        muxer.write(&unit, &mut packets).unwrap();
        publisher.push(&packets).unwrap();
        if thread.is_finished() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "it waits for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = thread.join().unwrap().unwrap_err();
    assert!(matches!(ended, Error::NoPicturesFetched { .. }), "{ended}");
    assert!(matches!(input.refusal(), Some(Error::NoPicturesFetched { .. })));
}

#[test]
fn a_camera_that_is_refused_later_is_waited_for() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    publisher.push(&write(&mut muxer, 0, 0, picture(0))).unwrap();
    items.recv_timeout(PATIENCE).unwrap();
    source.refuse();
    drop(publisher);
    assert!(items.recv_timeout(Duration::from_millis(300)).is_err());
    source.publish().push(&write(&mut self::muxer(Codec::H264), 0, 0, picture(0))).unwrap();
    assert!(items.recv_timeout(PATIENCE).unwrap().follows_gap);
}

#[test]
fn pictures_in_another_order_are_told_and_those_of_a_clock_that_was_set_are_not() {
    let source: Arc<dyn Fetched> = Source::new();
    let mut run = Run::new(&source, None);
    for pts in [0, 3600, 900_000, 903_600, 7200, 10_800] {
        run.note_order(Ticks(pts));
    }
    assert!(!run.told.reordered);
    // A camera that began anew counts from another beginning.
    run.begin_anew();
    run.note_order(Ticks(7200));
    assert!(!run.told.reordered);
    run.note_order(Ticks(3600));
    assert!(run.told.reordered);
}

/// AlexxIT/go2rtc #35: time stamps that go forth and back, and packets in irregular groups.
#[test]
fn pictures_that_come_in_groups_and_in_another_order_go_on_as_they_are_coded() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    let later = |number: u64| if number % 2 == 1 { 3 } else { 1 };
    let groups = [1u64, 4, 3, 7, 1, 1, 3];
    let (mut number, mut last) = (0, Time::ZERO);
    for group in groups {
        let packets: Vec<u8> = (number..number + group)
            .flat_map(|number| write(&mut muxer, number, later(number), picture(number)))
            .collect();
        publisher.push(&packets).unwrap();
        for number in number..number + group {
            let item = items.recv_timeout(PATIENCE).unwrap();
            assert_eq!(item.piece.data, picture(number));
            assert!(item.captured >= last, "{number}");
            last = item.captured;
        }
        number += group;
    }
}

/// gtxaspec/raptor #30, bluenviron/mediamtx #4262: a camera that is set to another size goes on with other parameter sets.
#[test]
fn other_parameter_sets_in_a_stream_go_on_with_it() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    for number in 0..15 {
        let mut data = picture(number);
        if number >= 5 && number.is_multiple_of(5) {
            // A level of its own.
            data[DELIMITER.len() + 7] = 0x28;
        }
        publisher.push(&write(&mut muxer, number, 0, data.clone())).unwrap();
        let item = items.recv_timeout(PATIENCE).unwrap();
        assert_eq!((item.piece.data.to_vec(), item.follows_gap), (data, number == 0), "{number}");
    }
}

/// deepch/RTSPtoWeb #148: a camera with a key frame each twenty seconds is told of, and waited for.
#[test]
fn a_key_frame_that_does_not_come_is_told_of_and_waited_for() {
    let source = Source::new();
    let (items, _thread) = source.read(Length::default());
    let (mut publisher, mut muxer) = (source.publish(), muxer(Codec::H264));
    for number in 1..5 {
        publisher.push(&write(&mut muxer, number, 0, picture(number))).unwrap();
    }
    assert!(items.recv_timeout(Duration::from_millis(100)).is_err());
    let dynamic = Arc::clone(&source) as Arc<dyn Fetched>;
    let (take, clock) = (&|_: CodedItem| true, Clock::new());
    let outlet = Outlet::new(take, clock, Length::default());
    let (mut run, mut reader) = (Run::new(&dynamic, None), Reader::new(Arc::clone(&dynamic), clock));
    assert!(matches!(reader.next(Duration::ZERO).unwrap(), Next::Nothing));
    assert!(reader.awaits_entry());
    run.look(&reader, &outlet).unwrap();
    assert!(!run.told.no_key);
    run.awaits_key_since = Some(Time::from_nanos(clock.now().as_nanos() - KEY_WAIT.as_nanos() as u64));
    run.look(&reader, &outlet).unwrap();
    assert!(run.told.no_key);
    publisher.push(&write(&mut muxer, 5, 0, picture(5))).unwrap();
    assert_eq!(items.recv_timeout(PATIENCE).unwrap().piece.data, picture(5));
}

/// waveform80/picamera #541: 500 a second by the parameter sets, and far fewer come.
#[test]
fn a_rate_that_parameter_sets_invent_is_not_believed() {
    let source: Arc<dyn Fetched> = Source::new();
    let mut run = Run::new(&source, None);
    let unit = |number: i64| AccessUnit {
        codec: Codec::H264,
        data: picture(0).into(),
        pts: Ticks(number * 6000),
        dts: Ticks(number * 6000),
        random_access: true,
        stamps: Stamps::default(),
    };
    for number in 0..20 {
        run.note_rate(true, false, &unit(number));
    }
    run.stated = FrameRate::new(500, 1);
    let believed = FrameRate::believed(run.stated, run.distance()).unwrap();
    assert_eq!(believed.as_f64(), 15.0);
}
