//! Encoders from their opening to their end: what is opened, and what becomes of outputs however it ends.

use super::*;
use crate::capture::{Item, Length};
use crate::encode::{Keyint, LadderError, SoundRequest};
use crate::output::{self, Demand, Packets};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::container::wav;
use glassline_media::quantity::Bitrate;
use glassline_media::{
    AccessUnit, AudioBlock, Codec, Colour, FrameRate, Picture, PixelFormat, Size, Stamps, Ticks, Time,
};
use glassline_test_support::program::Scratch;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// What an output got, and how often it was ended.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<u8>, u32)>>);

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }

    fn ends(&self) -> u32 {
        self.0.lock().unwrap().1
    }

    /// An output that keeps what it gets here, unless `write` fails; it ends as `finish` does.
    fn output(
        &self,
        write: impl Fn() -> output::Result<()> + Send + 'static,
        finish: impl Fn() -> output::Result<()> + Send + 'static,
    ) -> Box<dyn Output> {
        Box::new(Keeping { kept: self.clone(), write: Box::new(write), finish: Box::new(finish) })
    }

    fn well(&self) -> Box<dyn Output> {
        self.output(|| Ok(()), || Ok(()))
    }
}

type Act = Box<dyn Fn() -> output::Result<()> + Send>;

struct Keeping {
    kept: Kept,
    write: Act,
    finish: Act,
}

impl Output for Keeping {
    fn write(&mut self, packets: &Packets<'_>) -> output::Result<Demand> {
        (self.write)()?;
        self.kept.0.lock().unwrap().0.extend_from_slice(packets.bytes);
        Ok(Demand::Nothing)
    }

    fn finish(&mut self) -> output::Result<()> {
        self.kept.0.lock().unwrap().1 += 1;
        (self.finish)()
    }
}

fn full(name: &str) -> output::Error {
    output::Error::Write { name: name.to_owned(), error: std::io::ErrorKind::StorageFull.into() }
}

fn rate(bits: u64) -> Bitrate {
    Bitrate::from_bits_per_second(bits)
}

/// Small and quick, without sound.
fn request(input: &str) -> Request {
    let mut request = Request::new(input.parse().unwrap());
    request.settings = Settings {
        preset: "ultrafast".to_owned(),
        bitrate: rate(300_000),
        keyint: Keyint::Time(Duration::from_millis(200)),
        threads: 1,
        ..Settings::default()
    };
    request.sound.codec = Some(Audio::None);
    request.paced = false;
    request
}

fn open(request: &Request) -> Encoding {
    Encoding::open(request, Clock::new()).unwrap()
}

fn refused(request: &Request) -> Error {
    Encoding::open(request, Clock::new()).err().expect("it is refused")
}

const RATE: FrameRate = FrameRate::new(25, 1).unwrap();

/// A source that waits for its encoder, and what gives it its items.
fn handed() -> (Sender<Item>, Source) {
    let format = Format {
        size: Size::new(64, 48).unwrap(),
        rate: RATE,
        colour: Colour::BT709,
        sample_aspect: None,
        fields: None,
        live: false,
    };
    let (give, items) = channel();
    (give, Source::handed(items, format, Clock::new()))
}

fn picture(number: u64) -> Item {
    let captured = Time::ZERO + RATE.time_of(number);
    let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), captured);
    let stamps = Stamps::captured_at(captured);
    Item::Picture { picture, pts: Ticks::from_time(captured), stamps }
}

/// Of a source that gives so many pictures and ends.
fn of_pictures(count: u64, request: &Request) -> Encoding {
    let (give, source) = handed();
    (0..count).for_each(|number| give.send(picture(number)).unwrap());
    Encoding::of_source(source, None, request, Clock::new()).unwrap()
}

/// Two renditions of four pictures.
fn ladder_of_pictures() -> Encoding {
    let mut request = request("-");
    request.renditions = ["64x48@25:300k", "32x24@25:100k"].map(|text| text.parse().unwrap()).into();
    of_pictures(4, &request)
}

/// A y4m file of so many grey pictures, 25 a second.
fn film(scratch: &Scratch, count: usize) -> String {
    let picture = [&b"FRAME\n"[..], &[128; 64 * 48 * 3 / 2]].concat();
    scratch.write("a.y4m", [&b"YUV4MPEG2 W64 H48 F25:1 C420\n"[..], &picture.repeat(count)].concat())
}

/// A WAVE file of so many samples of one channel, 48 kHz.
fn sound(scratch: &Scratch, samples: usize) -> String {
    let head = wav::head_of(48_000, 1, 2, Some(2 * samples as u32));
    scratch.write("a.wav", [&head[..], &vec![1; 2 * samples]].concat())
}

/// The units of a stream, video and others.
fn units(stream: &[u8]) -> (Vec<AccessUnit>, Vec<AccessUnit>) {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let units = std::iter::from_fn(|| demuxer.poll()).filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => Some(unit),
        _ => None,
    });
    units.partition(|unit| unit.codec.is_video())
}

#[test]
fn pictures_that_another_part_of_the_program_hands_over_are_coded_one_by_one() {
    let kept = Kept::default();
    let encoding = of_pictures(5, &request("-"));
    assert!(!encoding.liveness().live, "it waits for its outputs");
    let ended = encoding.run(vec![kept.well()]);
    ended.result.unwrap();
    let stats = &ended.stats[0];
    assert_eq!((stats.pictures(), stats.dropped(), kept.ends()), (5, 0, 1));
    assert_eq!(stats.stream_bytes(), kept.bytes().len() as u64);
    let (video, _) = units(&kept.bytes());
    // On the wire all stamps are later by the time that a decoder has.
    let apart: Vec<_> = video.windows(2).map(|pair| (pair[1].pts - pair[0].pts).0).collect();
    assert_eq!((video.len(), apart), (5, vec![3_600; 4]));
}

#[test]
fn sound_that_is_handed_over_is_coded_beside_the_pictures() {
    let (give, source) = handed();
    let mut wanted = request("-");
    let frame = Some(Duration::from_millis(1));
    wanted.sound = SoundRequest { codec: Some(Audio::S302m), frame, ..SoundRequest::default() };
    let encoding = Encoding::of_source(source, Some(2), &wanted, Clock::new()).unwrap();
    assert_eq!(encoding.audio(), Audio::S302m);
    for number in 0..3 {
        give.send(picture(number)).unwrap();
        let captured = Time::ZERO + RATE.time_of(number);
        let block = AudioBlock { samples: vec![0.25; 2 * 1_920], channels: 2, rate_hz: 48_000, captured };
        give.send(Item::Sound(block)).unwrap();
    }
    drop(give);
    let kept = Kept::default();
    encoding.run(vec![kept.well()]).result.unwrap();
    let (video, audio) = units(&kept.bytes());
    assert_eq!((video.len(), audio.len()), (3, 120));
    assert!(audio.iter().all(|unit| unit.codec == Codec::S302m));
}

#[test]
fn a_codec_that_is_named_beside_a_source_without_sound_is_refused() {
    let (_give, source) = handed();
    let mut wanted = request("-");
    wanted.sound.codec = Some(Audio::S302m);
    let refused = Encoding::of_source(source, None, &wanted, Clock::new()).err().unwrap();
    assert!(matches!(refused, Error::Sound(_)), "{refused}");
}

#[test]
fn an_output_that_fails_ends_all_renditions_and_each_output_is_ended_once() {
    let (one, other) = (Kept::default(), Kept::default());
    let failing = one.output(|| Err(full("one")), || Ok(()));
    let ended = ladder_of_pictures().run(vec![failing, other.well()]);
    assert!(matches!(ended.result, Err(Error::Output(output::Error::Write { name, .. })) if name == "one"));
    assert_eq!((one.ends(), other.ends()), (1, 1));
    assert_eq!(ended.stats.len(), 2, "each tells how far it came");
}

#[test]
fn what_fails_while_an_output_is_ended_is_told_though_all_was_coded() {
    let (one, other) = (Kept::default(), Kept::default());
    let outputs =
        vec![one.output(|| Ok(()), || Err(full("one"))), other.output(|| Ok(()), || Err(full("two")))];
    let ended = ladder_of_pictures().run(outputs);
    let Err(Error::Output(output::Error::Write { name, .. })) = ended.result else { panic!("it went well") };
    assert_eq!((name.as_str(), other.ends()), ("one", 1), "the first failure, and the others are ended");
    assert_eq!(ended.stats.iter().map(Stats::pictures).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_panic_in_one_rendition_is_a_failure_of_the_encoder_and_of_nothing_else() {
    let (one, other) = (Kept::default(), Kept::default());
    let panicking = one.output(|| panic!("the test's own"), || Ok(()));
    let ended = ladder_of_pictures().run(vec![panicking, other.well()]);
    let Err(Error::Fault(panicked)) = ended.result else { panic!("it went on") };
    assert_eq!(panicked.message, "the test's own");
    assert_eq!((one.ends(), other.ends()), (1, 1));
}

#[test]
fn one_that_was_stopped_before_it_runs_codes_nothing_and_ends_well() {
    let kept = Kept::default();
    let encoding = open(&request("test:64x48@25"));
    let (stopper, liveness) = (encoding.stopper(), encoding.liveness());
    assert!(liveness.live && !liveness.is_stopped() && !stopper.is_stopped());
    stopper.stop();
    assert!(liveness.is_stopped() && stopper.clone().is_stopped());
    let ended = encoding.run(vec![kept.well()]);
    ended.result.unwrap();
    assert_eq!((ended.stats[0].pictures(), kept.bytes().len(), kept.ends()), (0, 0, 1));
}

#[test]
fn one_that_runs_ends_when_it_is_told_to() {
    let kept = Kept::default();
    let encoding = open(&request("test:64x48@25"));
    let stopper = encoding.stopper();
    // It is told by its own first picture: until then it certainly runs.
    let ended = encoding.run(vec![kept.output(
        move || {
            stopper.stop();
            Ok(())
        },
        || Ok(()),
    )]);
    ended.result.unwrap();
    assert_eq!((ended.stats[0].pictures(), kept.ends()), (1, 1));
}

#[test]
fn a_file_and_its_sound_lie_side_by_side_and_end_together() {
    let scratch = Scratch::new("encoding-film");
    let mut wanted = request(&film(&scratch, 10));
    // A second of sound beside 400 ms of pictures.
    wanted.sound = SoundRequest {
        codec: Some(Audio::S302m),
        input: Some(sound(&scratch, 48_000).parse().unwrap()),
        frame: Some(Duration::from_millis(1)),
        ..SoundRequest::default()
    };
    let kept = Kept::default();
    open(&wanted).run(vec![kept.well()]).result.unwrap();
    let (video, audio) = units(&kept.bytes());
    assert_eq!((video.len(), audio.len()), (10, 400));
    assert_eq!((audio[399].pts - audio[0].pts, audio[0].pts), (Ticks(399 * 90), video[0].pts));
}

#[test]
fn a_file_that_is_looped_goes_on_until_its_length_with_its_sound() {
    let scratch = Scratch::new("encoding-looped");
    let mut wanted = request(&film(&scratch, 3));
    wanted.sound = SoundRequest {
        codec: Some(Audio::S302m),
        input: Some(sound(&scratch, 48_000).parse().unwrap()),
        frame: Some(Duration::from_millis(1)),
        ..SoundRequest::default()
    };
    (wanted.looped, wanted.length) = (true, Length { pictures: Some(8), time: None });
    let kept = Kept::default();
    open(&wanted).run(vec![kept.well()]).result.unwrap();
    let (video, audio) = units(&kept.bytes());
    assert_eq!((video.len(), audio.len()), (8, 8 * 40), "sound of each picture, whichever round it is of");
}

#[test]
fn where_there_is_no_sound_none_is_coded_unless_a_codec_was_named() {
    let scratch = Scratch::new("encoding-silent");
    let mut wanted = request(&film(&scratch, 1));
    wanted.sound = SoundRequest::default();
    assert_eq!(open(&wanted).audio(), Audio::None);
    wanted.sound.codec = Some(Audio::S302m);
    assert!(matches!(refused(&wanted), Error::Sound(_)));
    let mut pattern = request("test:64x48@25");
    pattern.sound = SoundRequest::default();
    assert_eq!(open(&pattern).audio(), Audio::default(), "the test pattern has a tone");
}

#[test]
fn live_sound_goes_with_pictures_by_the_clock_alone() {
    let scratch = Scratch::new("encoding-live-sound");
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut wanted = request(&film(&scratch, 1));
    wanted.sound = SoundRequest {
        codec: Some(Audio::S302m),
        input: Some(format!("fd:{}", reader.as_raw_fd()).parse().unwrap()),
        ..SoundRequest::default()
    };
    assert!(matches!(refused(&wanted), Error::Capture(capture::Error::LiveSoundUntimed)));
    wanted.paced = true;
    assert_eq!(open(&wanted).audio(), Audio::S302m);
}

#[test]
fn a_stream_of_constant_rate_takes_no_bit_rate_that_its_mux_rate_does_not_hold() {
    let mut wanted = request("test:64x48@25");
    wanted.settings.cbr = true;
    let controls = open(&wanted).controls();
    controls.set_bitrate(0, rate(300_000)).unwrap();
    let refused = controls.set_bitrate(0, rate(3_000_000)).unwrap_err();
    assert!(matches!(refused, crate::encode::ControlError::MuxRate { .. }), "{refused}");
    // Without it there is no such bound.
    wanted.settings.cbr = false;
    open(&wanted).controls().set_bitrate(0, rate(3_000_000)).unwrap();
}

#[test]
fn what_renditions_are_coded_like_is_told_before_it_runs() {
    let mut wanted = request("test:64x48@50");
    wanted.renditions = ["64x48@50:300k", "32x24@25:100k"].map(|text| text.parse().unwrap()).into();
    let encoding = open(&wanted);
    let told: Vec<_> = encoding
        .renditions()
        .map(|(name, format, settings)| (name.to_owned(), format.size.to_string(), settings.bitrate))
        .collect();
    let expected = [("48p50", "64x48", 300_000), ("24p25", "32x24", 100_000)];
    assert_eq!(told, expected.map(|(name, size, bits)| (name.to_owned(), size.to_owned(), rate(bits))));
    assert_eq!(encoding.controls().status().len(), 2);
    wanted.settings.intra_refresh = true;
    assert!(matches!(refused(&wanted), Error::Ladder(LadderError::NoKeyFrames)));
}
