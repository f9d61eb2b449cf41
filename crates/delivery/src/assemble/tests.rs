//! Publishers of all kinds, and when what they bring comes out.

use super::*;
use crate::packager::testing::{PICTURE, aac, h265, opus, picture};
use glassline_media::bitstream;
use glassline_media::container::ts::{Demuxer, Event, PACKET_BYTES};
use proptest::prelude::*;

const VIDEO: u16 = 9;
const SOUND: u16 = 8;
/// 20 ms.
const PACKET: i64 = 1800;
const OPUS: Format =
    Format::Sound(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
const AAC: Format =
    Format::Sound(AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None });
const H264: Format = Format::Pictures(Codec::H264);
const BOTH: Kinds = Kinds { pictures: true, sound: true };

/// What came out: whether it is a picture, and its decoding time as the publisher gave it.
type Came = (bool, i64);

#[derive(Default)]
struct Run {
    assembler: Assembler,
    demuxer: Demuxer,
    seams: usize,
    last: Option<AccessUnit>,
}

impl Run {
    /// A publisher that has declared both tracks.
    fn of_both() -> Run {
        let mut run = Run::default();
        run.declare(VIDEO, H264, 0);
        run.declare(SOUND, OPUS, 0);
        run
    }

    fn declare(&mut self, id: u16, format: Format, at_ms: u64) -> Vec<Came> {
        self.assembler.declare(id, format, Time::from_millis(at_ms)).expect("a format that is carried");
        self.look()
    }

    fn push(&mut self, unit: AccessUnit, at_ms: u64) -> Vec<Came> {
        let id = if unit.codec.is_video() { VIDEO } else { SOUND };
        self.assembler.push(id, unit, None, Time::from_millis(at_ms));
        self.look()
    }

    fn timeout(&mut self, at_ms: u64) -> Vec<Came> {
        self.assembler.handle_timeout(Time::from_millis(at_ms));
        self.look()
    }

    fn look(&mut self) -> Vec<Came> {
        let mut found = Vec::new();
        while let Some(written) = self.assembler.poll() {
            match written {
                Written::Bytes(bytes) => {
                    assert_eq!(bytes.len() % PACKET_BYTES, 0);
                    self.demuxer.push(&bytes);
                }
                Written::Seam => {
                    self.demuxer.finish();
                    self.gather(&mut found);
                    self.seams += 1;
                    self.demuxer = Demuxer::new();
                }
            }
            self.gather(&mut found);
        }
        found
    }

    fn gather(&mut self, found: &mut Vec<Came>) {
        while let Some(event) = self.demuxer.poll() {
            if let Event::AccessUnit { unit, .. } = event {
                found.push((unit.codec.is_video(), (unit.dts - program::LEAD).0));
                self.last = Some(unit);
            }
        }
    }
}

#[test]
fn units_go_on_in_the_call_that_brings_them() {
    let mut run = Run::of_both();
    for number in 0..50 {
        let at_ms = number as u64 * 40;
        let (video, first, second) = (number * PICTURE, number * PICTURE, number * PICTURE + PACKET);
        assert_eq!(run.push(picture(number == 0, 9, video), at_ms), [(true, video)]);
        assert_eq!(run.push(opus(9, first), at_ms), [(false, first)]);
        assert_eq!(run.push(opus(9, second), at_ms + 20), [(false, second)]);
    }
    assert_eq!((run.seams, run.assembler.held_bytes()), (0, 0));
    assert_eq!(run.assembler.counters(), Counters::default());
    assert_eq!(run.assembler.poll_timeout(), None);
}

#[test]
fn a_silent_track_holds_the_other_one_back_at_no_time() {
    let mut run = Run::of_both();
    assert_eq!(run.push(opus(9, 0), 0), [(false, 0)]);
    for number in 0..500 {
        let video = number * PICTURE;
        assert_eq!(run.push(picture(number == 0, 9, video), number as u64 * 40), [(true, video)]);
    }
    assert_eq!(run.push(opus(9, 500 * PICTURE), 20_000), [(false, 500 * PICTURE)], "and it may come back");
    assert_eq!(run.seams, 0);
}

#[test]
fn the_beginning_waits_for_the_kinds_that_were_expected_and_no_longer_than_a_second() {
    let mut run = Run::default();
    run.declare(VIDEO, H264, 100);
    assert_eq!(run.push(picture(true, 9, 0), 110), []);
    assert_eq!(run.assembler.poll_timeout(), Some(Time::from_millis(1100)));
    assert_eq!(run.timeout(1099), []);
    assert_eq!(run.timeout(1100), [(true, 0)]);

    let mut run = Run::default();
    run.assembler.expect(BOTH, Time::ZERO);
    run.declare(VIDEO, H264, 100);
    assert_eq!(run.push(picture(true, 9, 0), 110), []);
    assert_eq!(run.push(picture(false, 9, PICTURE), 150), []);
    assert_eq!(run.declare(SOUND, AAC, 160), [(true, 0), (true, PICTURE)]);
    assert_eq!(run.push(aac(9, 0), 160), [(false, 0)]);
    assert_eq!(run.seams, 0);

    let mut run = Run::default();
    run.assembler.expect(Kinds { pictures: true, sound: false }, Time::ZERO);
    run.declare(VIDEO, H264, 100);
    assert_eq!(run.push(picture(true, 9, 0), 100), [(true, 0)]);
}

#[test]
fn sound_that_begins_later_comes_behind_a_seam() {
    let mut run = Run::default();
    run.declare(VIDEO, H264, 0);
    assert_eq!(run.push(picture(true, 9, 0), 0), []);
    assert_eq!(run.timeout(1000), [(true, 0)]);
    run.declare(SOUND, OPUS, 1500);
    assert_eq!(run.seams, 1);
    assert_eq!(run.push(opus(9, 135_000), 1500), [(false, 135_000)]);
    assert_eq!(run.push(picture(true, 9, 38 * PICTURE), 1520), [(true, 38 * PICTURE)]);
    let program = run.demuxer.program().expect("tables");
    assert_eq!((program.streams.len(), program.audio().is_some()), (2, true));
}

#[test]
fn a_third_track_is_refused_until_one_of_its_kind_is_over() {
    let mut run = Run::of_both();
    let now = Time::from_millis(10);
    let refused = run.assembler.declare(7, AAC, now).unwrap_err();
    assert_eq!(refused, AssembleError::Second { pictures: false });
    assert_eq!(refused.to_string(), "a second track of sound; a stream has one");
    run.assembler.push(7, aac(9, 0), None, now);
    assert_eq!(run.assembler.counters().undeclared_units, 1);
    assert_eq!(
        run.assembler.declare(VIDEO, AAC, now).unwrap_err().to_string(),
        "the track carried pictures and cannot become one of sound"
    );
    run.assembler.end_track(SOUND);
    run.assembler.declare(7, AAC, now).unwrap();
    run.assembler.push(7, aac(9, 0), None, now);
    assert_eq!(run.look(), [(false, 0)]);
    assert_eq!(run.seams, 1);
}

#[test]
fn a_codec_that_changes_is_announced_and_a_configuration_that_comes_again_is_not() {
    let mut run = Run::of_both();
    run.push(picture(true, 9, 0), 0);
    run.declare(VIDEO, H264, 10);
    run.declare(SOUND, OPUS, 10);
    assert_eq!(run.seams, 0);
    run.declare(VIDEO, Format::Pictures(Codec::H265), 20);
    assert_eq!(run.push(picture(false, 9, PICTURE), 30), [], "of the codec before");
    assert_eq!(run.assembler.counters().undeclared_units, 1);
    assert_eq!(run.push(h265(true, 2 * PICTURE), 80), [], "an H.265 picture ends where the next begins");
    assert_eq!(run.push(h265(false, 3 * PICTURE), 120), [(true, 2 * PICTURE)]);
    assert_eq!(run.last.as_ref().unwrap().codec, Codec::H265);
    assert_eq!(run.seams, 1);
}

/// Each seam is told to all viewers, and a hostile publisher may send nothing but configurations.
#[test]
fn changes_with_nothing_between_them_are_one_seam() {
    let mut run = Run::of_both();
    run.push(picture(true, 9, 0), 0);
    for number in 0..50 {
        let format = if number % 2 == 0 { AAC } else { OPUS };
        run.assembler.declare(SOUND, format, Time::from_millis(10)).unwrap();
    }
    let seams =
        std::iter::from_fn(|| run.assembler.poll()).filter(|written| *written == Written::Seam).count();
    assert_eq!(seams, 1);
}

#[test]
fn what_mpeg_ts_cannot_carry_is_refused_with_its_name() {
    let mut assembler = Assembler::new();
    let nine = AudioFormat { codec: Codec::Opus, channels: 9, language: None, he_aac: None };
    let refused = assembler.declare(SOUND, Format::Sound(nine), Time::ZERO).unwrap_err();
    assert_eq!(refused.to_string(), "MPEG-TS cannot carry this track: 9 audio channels, expected 1 to 8");
    assert!(assembler.declare(VIDEO, Format::Pictures(Codec::Aac), Time::ZERO).is_err());
}

#[test]
fn times_that_jump_make_one_seam_for_both_tracks() {
    for (video, sound) in [(0, 1800), (90_000 * 50_000, 90_000 * 50_000 + 1800), (100 * PICTURE, 0)] {
        let mut run = Run::of_both();
        let begun = 200 * PICTURE;
        assert_eq!(run.push(picture(true, 9, begun), 0), [(true, begun)]);
        assert_eq!(run.push(opus(9, begun), 0), [(false, begun)]);
        assert_eq!(run.push(picture(true, 9, video), 40), [(true, video)]);
        assert_eq!(run.push(opus(9, begun + PACKET), 40), [], "this belongs to the times before the seam");
        let came = run.push(opus(9, sound), 50);
        // Pictures and sound that have jumped to different times are put together by their arrival.
        let apart = (sound - video).abs() > 10 * 90_000;
        assert_eq!(came, [(false, if apart { video } else { sound })]);
        assert_eq!((run.seams, run.assembler.counters().stale_units), (1, 1));
        assert_eq!(run.push(picture(false, 9, video + PICTURE), 80), [(true, video + PICTURE)]);
    }
}

#[test]
fn a_track_on_another_clock_is_put_where_it_arrives() {
    let mut run = Run::of_both();
    let (video, sound) = (1 << 32, 500);
    assert_eq!(run.push(picture(true, 9, video), 0), [(true, video)]);
    assert_eq!(run.push(opus(9, sound), 0), [(false, video)]);
    assert_eq!(run.push(opus(9, sound + PACKET), 20), [(false, video + PACKET)]);
    assert_eq!(run.push(picture(false, 9, video + PICTURE), 40), [(true, video + PICTURE)]);
    assert_eq!((run.seams, run.assembler.counters().aligned_tracks), (0, 1));
}

#[test]
fn bursts_are_interleaved() {
    let mut run = Run::of_both();
    let mut out = Vec::new();
    for number in 0..25 {
        out.extend(run.push(picture(number == 0, 9, number * PICTURE), 0));
    }
    assert!(out.len() < 12, "no more than 300 ms ahead of the sound: {}", out.len());
    for number in 0..50 {
        out.extend(run.push(opus(9, number * PACKET), 1));
    }
    assert_eq!(out.len(), 75);
    let mut newest = 0;
    for (_, dts) in out {
        newest = newest.max(dts);
        assert!(newest - dts <= program::LEAD.0);
    }
}

#[test]
fn with_too_many_bytes_nothing_waits() {
    let mut run = Run::default();
    run.assembler.expect(BOTH, Time::ZERO);
    run.declare(VIDEO, H264, 0);
    for number in 0..4 {
        assert_eq!(
            run.push(picture(number == 0, 4 << 20, number * PICTURE), 0).len(),
            if number < 3 { 0 } else { 4 }
        );
    }
    assert_eq!(run.assembler.held_bytes(), 0);
}

#[test]
fn the_time_of_capture_goes_into_the_picture() {
    let mut run = Run::of_both();
    let captured = Utc::from_nanos(1_700_000_000_000_000_000);
    run.assembler.push(VIDEO, picture(true, 9, 0), Some(captured), Time::ZERO);
    run.look();
    let unit = run.last.unwrap();
    let (mut head, _) = bitstream::head(unit.codec, &unit.data);
    assert!(head.any(|nal| {
        bitstream::messages(unit.codec, &nal).is_some_and(|sei| sei.capture_utc() == Some(captured))
    }));
}

#[test]
fn what_waits_goes_out_at_the_end() {
    let mut run = Run::default();
    run.declare(VIDEO, H264, 0);
    assert_eq!(run.push(picture(true, 9, 0), 0), []);
    run.assembler.finish();
    assert_eq!(run.look(), [(true, 0)]);
}

#[derive(Clone, Debug)]
enum Step {
    Unit { video: bool, dts: i64, cts: i64, after_ms: u64 },
    Declare { id: u16, format: usize },
    End(u16),
    Timeout,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let dts = prop_oneof![8 => 0i64..900_000, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    let cts = prop_oneof![8 => -9000i64..9000, 1 => any::<i64>()];
    let step = prop_oneof![
        10 => (any::<bool>(), dts, cts, 0u64..700)
            .prop_map(|(video, dts, cts, after_ms)| Step::Unit { video, dts, cts, after_ms }),
        1 => (7u16..10, 0usize..4).prop_map(|(id, format)| Step::Declare { id, format }),
        1 => (7u16..10).prop_map(Step::End),
        1 => Just(Step::Timeout),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn any_steps_give_whole_packets_and_no_more_units_than_came(steps in steps()) {
        let mut assembler = Assembler::new();
        let (mut now, mut given) = (Time::ZERO, 0usize);
        let formats = [H264, AAC, OPUS, Format::Pictures(Codec::H265)];
        let mut bytes = vec![Vec::new()];
        for step in steps {
            match step {
                Step::Unit { video, dts, cts, after_ms } => {
                    now += Duration::from_millis(after_ms);
                    let unit = if video { picture(true, 9, dts) } else { opus(9, dts) };
                    let unit = AccessUnit { pts: Ticks(dts) + Ticks(cts), ..unit };
                    assembler.push(if video { VIDEO } else { SOUND }, unit, None, now);
                    given += 1;
                }
                Step::Declare { id, format } => _ = assembler.declare(id, formats[format], now),
                Step::End(id) => assembler.end_track(id),
                Step::Timeout => {
                    if let Some(at) = assembler.poll_timeout() {
                        now = now.max(at);
                        assembler.handle_timeout(now);
                        prop_assert!(assembler.poll_timeout().is_none_or(|next| next > now));
                    }
                }
            }
        }
        assembler.finish();
        prop_assert_eq!(assembler.held_bytes(), 0);
        while let Some(written) = assembler.poll() {
            match written {
                Written::Bytes(more) => bytes.last_mut().unwrap().extend(more),
                Written::Seam => bytes.push(Vec::new()),
            }
        }
        let mut found = 0;
        for part in bytes {
            prop_assert_eq!(part.len() % PACKET_BYTES, 0);
            let mut demuxer = Demuxer::new();
            demuxer.push(&part);
            demuxer.finish();
            found += std::iter::from_fn(|| demuxer.poll()).filter(|event| matches!(event, Event::AccessUnit { .. })).count();
        }
        prop_assert!(found as u64 + assembler.counters().undeclared_units + assembler.counters().stale_units <= given as u64);
    }
}
