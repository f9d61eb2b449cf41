use super::*;
use crate::stream::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings};
use bytes::Bytes;
use glassline_media::container::ts::{
    AudioFormat, Continuity, ContinuityChecker, Demuxer, Event, MuxSettings, Muxer, PACKET_BYTES, Packet,
    ProgramNumbers,
};
use glassline_media::{AccessUnit, Stamps};
use proptest::prelude::*;

const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(10), bytes: 64 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};
const SILENCE: Duration = Duration::from_secs(2);
/// A picture at 25 a second.
const STEP: i64 = 3600;
/// What pictures end with, by which the tests tell them apart.
const PUBLISHER: u8 = 0x11;
const SLATE: u8 = 0x22;

/// An access unit of H.264 that says only whether it is a key frame.
fn picture(is_key: bool, mark: u8, bytes: usize) -> Bytes {
    let nal = if is_key { 0x65 } else { 0x41 };
    let sets: &[u8] = &[0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x0a, 0, 0, 0, 1, 0x68, 0xce];
    let head = if is_key { sets } else { &[] };
    Bytes::from([head, &[0, 0, 0, 1, nal, 0x88], &vec![mark; bytes]].concat())
}

fn reel() -> Arc<Reel> {
    let pictures = (0..50).map(|number| picture(number == 0, SLATE, if number == 0 { 3000 } else { 20 }));
    Arc::new(Reel::still(pictures.collect(), FrameRate::new(25, 1).unwrap()).unwrap())
}

/// A publisher at 25 pictures a second, with a key frame each second.
struct Publisher {
    muxer: Muxer,
    number: i64,
    first: i64,
    /// From DTS to PTS.
    order: i64,
    has_sound: bool,
}

impl Publisher {
    fn new(first: i64, order: i64, numbers: ProgramNumbers) -> Publisher {
        let audio = AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None };
        let settings =
            MuxSettings { video: Some(Codec::H264), audio: Some(audio), numbers, ..MuxSettings::default() };
        Publisher { muxer: Muxer::new(settings).unwrap(), number: 0, first, order, has_sound: true }
    }

    fn usual(first: i64) -> Publisher {
        Publisher::new(first, 0, ProgramNumbers::default())
    }

    /// Its next picture, and the sound of that time.
    fn next(&mut self) -> Vec<u8> {
        let dts = Ticks(self.first + self.number * STEP);
        let is_key = self.number % 25 == 0;
        let mut out = Vec::new();
        let data = picture(is_key, PUBLISHER, 500);
        let unit = |codec, data, pts| AccessUnit {
            codec,
            data,
            pts,
            dts,
            random_access: is_key,
            stamps: Stamps::default(),
        };
        self.muxer.write(&unit(Codec::H264, data, dts + Ticks(self.order)), &mut out).unwrap();
        if self.has_sound {
            let sound = Silence::USUAL.unit().unwrap();
            self.muxer.write(&unit(Codec::Aac, sound, dts), &mut out).unwrap();
        }
        self.number += 1;
        out
    }
}

/// A stream with a gate, on a clock of the test's.
struct Stage {
    stream: Stream,
    gate: Gate,
    now: Time,
    file: Vec<u8>,
}

impl Stage {
    fn new() -> Stage {
        let now = Time::from_millis(1000);
        let mut stream = Stream::new(Mux::MpegTs, SETTINGS, now);
        let mut gate = Gate::new(SILENCE, false, false, &mut stream);
        gate.set_reel(Some(reel()));
        Stage { stream, gate, now, file: Vec::new() }
    }

    fn begin(&mut self) {
        self.gate.begin_publisher(&mut self.stream);
    }

    fn push(&mut self, bytes: &[u8]) -> Result<bool, StreamError> {
        let append = &mut |run: &[u8]| self.file.extend_from_slice(run);
        if self.gate.is_passing() {
            self.stream.push(bytes, self.now, append)
        } else {
            self.gate.push(bytes, &mut self.stream, self.now, append)
        }
    }

    fn play(&mut self) {
        let append = &mut |run: &[u8]| self.file.extend_from_slice(run);
        self.gate.handle_timeout(&mut self.stream, self.now, append).unwrap();
    }

    /// So many pictures of `publisher`, each when it is due.
    fn publish(&mut self, publisher: &mut Publisher, pictures: usize) {
        for _ in 0..pictures {
            self.play();
            let bytes = publisher.next();
            self.push(&bytes).unwrap();
            self.wait(40);
        }
    }

    /// Time passes; the gate is called when it wants to be.
    fn wait(&mut self, millis: u64) {
        let until = Time::from_nanos(self.now.as_nanos() + millis * 1_000_000);
        while let Some(at) = self.gate.poll_timeout(&self.stream, self.now).filter(|at| *at <= until) {
            let before = (self.file.len(), self.gate.is_passing());
            self.now = self.now.max(at);
            self.play();
            assert_ne!(before, (self.file.len(), self.gate.is_passing()), "called for something");
        }
        self.now = until;
    }

    fn shown(&self) -> Vec<Shown> {
        let (mut demuxer, mut found) = (Demuxer::new(), Vec::new());
        demuxer.push(&self.file);
        demuxer.finish();
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { pid, unit, .. } = event {
                let mark = unit.data.iter().rev().find(|byte| [PUBLISHER, SLATE].contains(byte)).copied();
                let (codec, is_key) =
                    (unit.codec, glassline_media::bitstream::is_key(unit.codec, &unit.data));
                found.push(Shown { pid, codec, pts: unit.pts.0, dts: unit.dts.0, mark, is_key });
            }
        }
        found
    }

    fn pictures(&self) -> Vec<Shown> {
        self.shown().into_iter().filter(|shown| shown.codec.is_video()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    pid: u16,
    codec: Codec,
    pts: i64,
    dts: i64,
    mark: Option<u8>,
    is_key: bool,
}

/// The marks of pictures, those in a row once.
fn order(pictures: &[Shown]) -> Vec<u8> {
    let mut marks: Vec<u8> = pictures.iter().filter_map(|picture| picture.mark).collect();
    marks.dedup();
    marks
}

/// Pictures follow each other without a gap, in both orders.
fn assert_steady(pictures: &[Shown], step_max: i64) {
    for pair in pictures.windows(2) {
        let [before, after] = pair else { continue };
        assert!(after.dts > before.dts, "{before:?} {after:?}");
        let step = after.pts - before.pts;
        assert!(step > 0 && step <= step_max, "from {before:?} to {after:?}: {step}");
    }
}

/// All that breaks continuity is announced.
fn assert_announced(file: &[u8]) {
    let mut checker = ContinuityChecker::new();
    for packet in file.as_chunks::<PACKET_BYTES>().0 {
        let packet = Packet::parse(packet).unwrap();
        assert!(!matches!(checker.check(&packet), Continuity::Lost { .. }), "on {:#x}", packet.pid);
    }
}

#[test]
fn the_slate_stands_in_for_a_publisher_that_ends_until_the_next_key_frame_is_whole() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(900_000);
    stage.publish(&mut publisher, 60);
    assert!(stage.gate.is_passing());
    stage.gate.end_publisher();
    stage.wait(3000);
    assert!(stage.gate.status(stage.now).on_air);
    // It comes back in the middle of a group of pictures, on another clock.
    let mut again = Publisher::usual(7_000_000_000);
    again.number = 5;
    stage.begin();
    stage.publish(&mut again, 60);
    let pictures = stage.pictures();
    assert_eq!(order(&pictures), [SLATE, PUBLISHER, SLATE, PUBLISHER]);
    assert_steady(&pictures, 2 * STEP);
    assert_announced(&stage.file);
    for change in pictures.windows(2).filter(|pair| pair[0].mark != pair[1].mark) {
        assert!(change[1].is_key, "{change:?}");
    }
    let status = stage.gate.status(stage.now);
    assert_eq!((status.on_air, status.times), (false, 2));
    assert_eq!(stage.stream.counters().sessions, 2);
}

#[test]
fn a_publisher_that_falls_silent_is_not_shown_until_its_next_key_frame() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(900_000);
    stage.publish(&mut publisher, 40);
    let due = SILENCE.as_millis() as u64;
    stage.wait(due - 200);
    assert!(stage.gate.is_passing(), "it may yet send");
    stage.wait(400);
    assert!(!stage.gate.is_passing());
    // What was missed is made up: the stamps have no gap.
    publisher.number += 50;
    stage.publish(&mut publisher, 40);
    let pictures = stage.pictures();
    assert_eq!(order(&pictures), [SLATE, PUBLISHER, SLATE, PUBLISHER]);
    assert_steady(&pictures, 2 * STEP);
    let last = pictures.last().unwrap();
    let first = pictures[0];
    let live = (stage.now.as_nanos() as i64 - 1_000_000_000) * 9 / 100_000;
    assert!(
        (last.pts - first.pts - live).abs() <= 6 * STEP,
        "on the wall's clock: {} {live}",
        last.pts - first.pts
    );
}

#[test]
fn reordered_pictures_leave_no_gap_where_they_begin_and_end() {
    let mut stage = Stage::new();
    for (first, order) in [(900_000, 0), (5_000_000, 3 * STEP), (900, 0), (100_000, 2 * STEP)] {
        stage.begin();
        let mut publisher = Publisher::new(first, order, ProgramNumbers::default());
        stage.publish(&mut publisher, 40);
        stage.gate.end_publisher();
        stage.wait(1000);
    }
    assert_steady(&stage.pictures(), 2 * STEP);
    assert_announced(&stage.file);
}

#[test]
fn sound_goes_on_as_silence_on_the_publishers_pids() {
    let numbers = ProgramNumbers { program: 7, map_pid: 0x40, video_pid: 0x41, audio_pid: 0x45 };
    let mut stage = Stage::new();
    stage.begin();
    stage.publish(&mut Publisher::new(900_000, 0, numbers), 30);
    let before = stage.file.len();
    stage.gate.end_publisher();
    stage.wait(1000);
    stage.file.drain(..before);
    let shown = stage.shown();
    let sound: Vec<_> = shown.iter().filter(|unit| unit.codec == Codec::Aac).collect();
    assert!(sound.len() >= 44, "{} frames in a second", sound.len());
    assert!(sound.iter().all(|unit| unit.pid == 0x45));
    assert!(shown.iter().filter(|unit| unit.codec.is_video()).all(|unit| unit.pid == 0x41));
    assert!(sound.windows(2).all(|pair| (1919..=1921).contains(&(pair[1].pts - pair[0].pts))));
    // A publisher without sound gets none.
    let mut stage = Stage::new();
    stage.begin();
    let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
    let muxer = Muxer::new(settings).unwrap();
    let mut mute = Publisher { muxer, has_sound: false, ..Publisher::usual(0) };
    stage.publish(&mut mute, 30);
    let before = stage.file.len();
    stage.gate.end_publisher();
    stage.wait(1000);
    stage.file.drain(..before);
    assert!(stage.shown().iter().all(|unit| unit.codec.is_video()));
}

#[test]
fn sound_that_was_heard_already_is_left_out_when_a_publisher_comes() {
    let mut stage = Stage::new();
    stage.wait(2000);
    stage.begin();
    let mut publisher = Publisher::usual(0);
    stage.publish(&mut publisher, 40);
    let sound: Vec<_> = stage.shown().into_iter().filter(|unit| unit.codec == Codec::Aac).collect();
    assert!(sound.windows(2).all(|pair| pair[1].pts > pair[0].pts), "{sound:?}");
}

#[test]
fn a_publisher_that_flaps_up_to_twenty_times_a_second_costs_little() {
    let mut stage = Stage::new();
    stage.wait(1000);
    let before = stage.file.len();
    for round in 0..200 {
        stage.begin();
        let mut publisher = Publisher::usual(round * 1_000_000);
        for _ in 0..1 + round % 3 {
            let bytes = publisher.next();
            stage.push(&bytes).unwrap();
            stage.wait(20);
        }
        stage.wait(20 * (1 + round as u64 % 3));
        stage.gate.end_publisher();
        stage.wait(5);
    }
    let bytes = stage.file.len() - before;
    assert!(bytes < 200 * 16_000, "{bytes} bytes for 200 publishers");
    let pictures = stage.pictures();
    assert_steady(&pictures, 2 * STEP);
    assert_announced(&stage.file);
    // The clock has not run ahead of the wall's by more than what was sent at once.
    let shown = pictures.last().unwrap().pts - pictures[0].pts;
    let passed = (stage.now.as_nanos() as i64 - 1_000_000_000) * 9 / 100_000;
    assert!(shown - passed < 90_000, "{shown} {passed}");
}

#[test]
fn nothing_is_kept_of_a_publisher_without_a_key_frame_and_garbage_is_refused() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(0);
    publisher.number = 1;
    let mut sent = 0;
    for _ in 0..20 {
        let bytes = publisher.next();
        sent += bytes.len() as u64;
        stage.push(&bytes).unwrap();
        publisher.number = 1;
    }
    let State::Away(away) = &stage.gate.state else { panic!("not shown") };
    assert!(sent > 10_000 && away.cue.as_ref().unwrap().held_bytes() < 3000);
    assert_eq!(stage.stream.counters().bytes_in, sent);
    stage.begin();
    let error = stage.push(&vec![0x55; 100 << 10]).unwrap_err();
    assert!(matches!(error, StreamError::NotMpegTs { .. }), "{error}");
    assert!(stage.stream.counters().garbage_bytes > 64 << 10);
}

#[test]
fn a_publisher_that_shows_no_key_frame_is_shown_after_a_while_all_the_same() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(0);
    publisher.number = 1;
    for _ in 0..400 {
        stage.publish(&mut publisher, 1);
        publisher.number += i64::from(publisher.number % 25 == 0);
    }
    assert!(stage.gate.is_passing());
}

#[test]
fn a_key_frame_that_never_ends_is_bounded() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(0);
    let first = publisher.next();
    stage.push(&first).unwrap();
    let mut more = [0xff; PACKET_BYTES];
    more[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10]);
    let many = more.repeat(1000);
    for _ in 0..100 {
        stage.push(&many).unwrap();
    }
    assert!(stage.gate.is_passing(), "it is shown as far as it has come");
}

#[test]
fn a_transport_stream_is_repeated() {
    let mut publisher = Publisher::usual(500_000);
    let file: Vec<u8> = (0..30).flat_map(|_| publisher.next()).collect();
    let reel = Reel::of_transport_stream(&file).unwrap();
    assert_eq!((reel.period, reel.step), (Ticks(30 * STEP), Ticks(STEP)));
    let mut stage = Stage::new();
    stage.gate.set_reel(Some(Arc::new(reel)));
    stage.wait(5000);
    let pictures = stage.pictures();
    assert!(pictures.len() >= 124, "{}", pictures.len());
    assert_steady(&pictures, STEP);
    assert!(stage.shown().iter().filter(|unit| unit.codec == Codec::Aac).count() > 100);
    assert_announced(&stage.file);
}

#[test]
fn a_file_that_cannot_be_repeated_is_refused_in_words() {
    let refused = |file: &[u8]| Reel::of_transport_stream(file).unwrap_err();
    assert_eq!(refused(b"no stream"), ReelError::NoProgram);
    let mut publisher = Publisher::usual(0);
    publisher.number = 3;
    let late: Vec<u8> = (0..10).flat_map(|_| publisher.next()).collect();
    assert_eq!(refused(&late), ReelError::NoKeyFrame);
    let mut jumping = Publisher::usual(0);
    let mut file: Vec<u8> = (0..5).flat_map(|_| jumping.next()).collect();
    jumping.first = 90_000_000;
    file.extend(jumping.next());
    assert_eq!(refused(&file), ReelError::Jump { picture: 5 });
    let audio = AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None };
    let mut muxer = Muxer::new(MuxSettings { audio: Some(audio), ..MuxSettings::default() }).unwrap();
    let (mut sound, data) = (Vec::new(), Silence::USUAL.unit().unwrap());
    let (pts, stamps) = (Ticks(0), Stamps::default());
    muxer
        .write(
            &AccessUnit { codec: Codec::Aac, data, pts, dts: pts, random_access: true, stamps },
            &mut sound,
        )
        .unwrap();
    assert_eq!(refused(&sound), ReelError::NoPictures);
}

#[test]
fn another_reel_takes_the_place_of_one_that_is_shown() {
    let mut stage = Stage::new();
    stage.wait(1000);
    stage.gate.set_reel(Some(reel()));
    stage.wait(1000);
    let pictures = stage.pictures();
    assert_steady(&pictures, 2 * STEP);
    assert_eq!(pictures.iter().filter(|picture| picture.is_key).count(), 2);
    assert_announced(&stage.file);
    assert_eq!(stage.gate.status(stage.now).times, 1);
}

#[test]
fn without_a_reel_nothing_is_asked_for_and_publishers_are_shown() {
    let mut stage = Stage::new();
    stage.gate.set_reel(None);
    assert_eq!(stage.gate.poll_timeout(&stage.stream, stage.now), None);
    stage.begin();
    stage.publish(&mut Publisher::usual(0), 10);
    stage.gate.end_publisher();
    stage.now = Time::from_nanos(stage.now.as_nanos() + 5_000_000_000);
    stage.begin();
    stage.publish(&mut Publisher::usual(0), 10);
    let pictures = stage.pictures();
    assert_eq!(order(&pictures), [PUBLISHER]);
    assert!(pictures.windows(2).all(|pair| pair[1].dts > pair[0].dts), "the clock goes on over the gap");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever comes and goes: stamps grow without gaps, and nothing breaks that is not announced.
    #[test]
    fn what_viewers_get_is_steady(
        steps in proptest::collection::vec((0u8..4, 1u64..2500, 0..8_589_934_592i64, 0i64..4), 1..12),
    ) {
        let mut stage = Stage::new();
        let mut publisher = None;
        for (what, time, first, reordered) in steps {
            match what {
                0 => {
                    stage.begin();
                    publisher = Some(Publisher::new(first, reordered * STEP, ProgramNumbers::default()));
                }
                1 => {
                    stage.gate.end_publisher();
                    publisher = None;
                }
                2 => stage.wait(time),
                _ => if let Some(publisher) = &mut publisher {
                    stage.publish(publisher, (time / 40) as usize + 1);
                },
            }
        }
        stage.wait(100);
        let pictures = stage.pictures();
        for pair in pictures.windows(2) {
            prop_assert!(pair[1].dts > pair[0].dts && pair[1].pts > pair[0].pts, "{pair:?}");
        }
        assert_announced(&stage.file);
    }
}

#[path = "kinds_tests.rs"]
mod kinds;
