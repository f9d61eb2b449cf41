//! Sources without a device: files as fast as they go, the test pattern, what another part of the program hands over.

use super::*;
use crate::capture::FileAudio;
use glassline_media::container::y4m;
use glassline_media::{AudioBlock, Chroma};
use glassline_test_support::program::Scratch;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// Keeps what a source gives, and wants no more than `most` of it.
#[derive(Default)]
struct Kept {
    most: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pictures: Vec<(Picture, Ticks, Stamps)>,
    sounds: Vec<AudioBlock>,
    /// Before which picture the file began again, and with which stamp.
    again: Vec<(usize, Ticks)>,
    dropped: u64,
    ended: Vec<Result<()>>,
}

impl Consumer for Kept {
    fn push(&self, item: Item) -> bool {
        let mut state = self.state.lock().unwrap();
        match item {
            Item::Picture { picture, pts, stamps } => state.pictures.push((picture, pts, stamps)),
            Item::Sound(block) => state.sounds.push(block),
        }
        self.most.is_none_or(|most| state.pictures.len() + state.sounds.len() < most)
    }

    fn begin_again(&self, pts: Ticks) -> bool {
        let mut state = self.state.lock().unwrap();
        let before = state.pictures.len();
        state.again.push((before, pts));
        true
    }

    fn accompany(&self, _: FileAudio) {}

    fn first_picture(&self) -> Option<Time> {
        None
    }

    fn count_dropped(&self, pictures: u64) {
        self.state.lock().unwrap().dropped += pictures;
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn end(&self, ended: Result<()>) {
        self.state.lock().unwrap().ended.push(ended);
    }
}

/// Runs it to its end, which is told once.
fn run(source: Source, most: Option<usize>) -> (State, Result<()>) {
    let kept = Kept { most, ..Kept::default() };
    source.run(&kept);
    let mut state = kept.state.into_inner().unwrap();
    let ended = state.ended.pop().expect("it has told its end");
    assert!(state.ended.is_empty(), "it has told its end twice");
    (state, ended)
}

/// A y4m file of so many pictures, each of one value, from 1 on.
fn film(scratch: &Scratch, head: &str, count: u8) -> Input {
    let mut bytes = format!("YUV4MPEG2 {head}\n").into_bytes();
    let mut reader = y4m::Reader::new();
    assert!(reader.parse(&mut &bytes[..]).unwrap().is_none());
    let header = reader.header().unwrap().clone();
    for number in 1..=count {
        bytes.extend(y4m::FRAME_LINE);
        bytes.extend(vec![number; header.format.packed_bytes(header.size)]);
    }
    scratch.write("a.y4m", bytes).parse().unwrap()
}

fn open(input: &Input, request: &Request) -> Source {
    Source::open(input, request, Clock::new()).unwrap()
}

/// The value and the stamp of each picture.
fn told(state: &State) -> Vec<(u8, i64)> {
    state.pictures.iter().map(|(picture, pts, _)| (picture.planes()[0].line(0)[0], pts.0)).collect()
}

#[test]
fn a_file_that_goes_as_fast_as_it_can_has_the_stamps_of_its_rate_from_zero_on() {
    let scratch = Scratch::new("source-unpaced");
    let source = open(&film(&scratch, "W4 H4 F25:1 C420", 3), &Request::default());
    assert_eq!(source.pace(), Pace::File { rate: FrameRate::new(25, 1).unwrap(), timed: false });
    assert!(!source.is_live() && !source.is_test());
    let (state, ended) = run(source, None);
    ended.unwrap();
    assert_eq!((told(&state), state.dropped), (vec![(1, 0), (2, 3_600), (3, 7_200)], 0));
    for (picture, _, stamps) in &state.pictures {
        assert_eq!(stamps.at(Stage::Arrived), Some(picture.captured));
        assert!(stamps.at(Stage::Queued) >= Some(picture.captured));
    }
}

#[test]
fn a_file_that_is_looped_goes_on_with_its_stamps_and_says_where_it_begins_again() {
    let scratch = Scratch::new("source-looped");
    let length = Length { pictures: Some(5), time: None };
    let request = Request { looped: true, length, ..Request::default() };
    let (state, ended) = run(open(&film(&scratch, "W4 H4 F25:1 C420", 2), &request), None);
    ended.unwrap();
    assert_eq!(told(&state), [(1, 0), (2, 3_600), (1, 7_200), (2, 10_800), (1, 14_400)]);
    assert_eq!(state.again, [(2, Ticks(7_200)), (4, Ticks(14_400))]);
}

#[test]
fn a_length_ends_a_file_by_its_pictures_or_by_their_time() {
    let scratch = Scratch::new("source-length");
    let input = film(&scratch, "W4 H4 F25:1 C420", 9);
    for (pictures, millis, count) in [
        (Some(0), None, 0),
        (Some(4), None, 4),
        (None, Some(100), 3),
        (Some(2), Some(100), 2),
        (None, Some(0), 0),
    ] {
        let length = Length { pictures, time: millis.map(Duration::from_millis) };
        let (state, ended) = run(open(&input, &Request { length, ..Request::default() }), None);
        assert!(ended.is_ok() && state.pictures.len() == count, "{length:?}");
    }
}

#[test]
fn a_consumer_that_wants_no_more_ends_a_file_without_a_failure() {
    let scratch = Scratch::new("source-enough");
    let request = Request { looped: true, ..Request::default() };
    let (state, ended) = run(open(&film(&scratch, "W4 H4 F25:1 C420", 3), &request), Some(4));
    ended.unwrap();
    assert_eq!(state.pictures.len(), 4);
}

#[test]
fn a_file_that_is_cut_off_gives_its_whole_pictures_and_the_failure() {
    let scratch = Scratch::new("source-cut");
    let input = film(&scratch, "W4 H4 F25:1 C420", 3);
    let path = input.path().unwrap();
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    let (state, ended) = run(open(&input, &Request::default()), None);
    assert!(matches!(ended, Err(Error::Y4m { .. })));
    assert_eq!(state.pictures.len(), 2);
}

#[test]
fn fields_become_pictures_stay_together_or_are_not_looked_at() {
    let scratch = Scratch::new("source-fields");
    let input = film(&scratch, "W4 H4 F25:1 It C420", 2);
    let with = |deinterlace| {
        let source = open(&input, &Request { deinterlace, ..Request::default() });
        let format = source.format();
        (format.rate.to_string(), format.fields, told(&run(source, None).0))
    };
    let whole = vec![(1, 0), (2, 3_600)];
    let each = vec![(1, 0), (1, 1_800), (2, 3_600), (2, 5_400)];
    assert_eq!(with(Deinterlace::Auto), ("50".to_owned(), None, each));
    assert_eq!(with(Deinterlace::Off), ("25".to_owned(), Some(FieldOrder::TopFirst), whole.clone()));
    assert_eq!(with(Deinterlace::Ignore), ("25".to_owned(), None, whole));
}

#[test]
fn a_length_counts_the_pictures_that_fields_become() {
    let scratch = Scratch::new("source-fields-length");
    let length = Length { pictures: Some(3), time: None };
    let source = open(&film(&scratch, "W4 H4 F25:1 It C420", 9), &Request { length, ..Request::default() });
    assert_eq!(run(source, None).0.pictures.len(), 3);
}

#[test]
fn samples_are_made_those_of_encoders_or_left_as_the_input_has_them() {
    let scratch = Scratch::new("source-pixels");
    let input = film(&scratch, "W3 H3 F25:1 C422", 1);
    let with = |pixels| {
        let source = open(&input, &Request { pixels, ..Request::default() });
        let (told, size) = (source.pixels(), source.format().size);
        let (state, _) = run(source, None);
        let picture = &state.pictures[0].0;
        assert_eq!((picture.format(), picture.size()), (told, size), "it is as it was announced");
        (told, size.to_string())
    };
    assert_eq!(with(Pixels::I420), (PixelFormat::I420, "4x4".to_owned()));
    assert_eq!(with(Pixels::Own), (PixelFormat::planar(Chroma::Yuv422, 8), "3x3".to_owned()));
}

#[test]
fn what_cannot_be_opened_is_named() {
    let scratch = Scratch::new("source-absent");
    let refused = |input: &Input| Source::open(input, &Request::default(), Clock::new()).err().unwrap();
    assert!(
        matches!(refused(&"/no/such.y4m".parse().unwrap()), Error::Open { name, .. } if name == "/no/such.y4m")
    );
    let other: Input = scratch.write("other.y4m", "RIFF of some kind\n").parse().unwrap();
    assert!(matches!(refused(&other), Error::Y4m { .. }));
}

#[test]
fn curves_of_high_dynamic_range_are_refused_where_eight_bits_would_carry_them() {
    let with = |transfer| refuse_hdr(Colour { transfer, ..Colour::BT709 });
    for usual in [1, 2, 6, 14] {
        assert!(with(usual).is_ok(), "{usual}");
    }
    for high in [16, 18] {
        assert!(matches!(with(high), Err(Error::HighDynamicRange { .. })), "{high}");
    }
}

#[test]
fn the_test_pattern_begins_when_it_is_told_to_and_its_tone_at_the_same_time() {
    let clock = Clock::new();
    let begin = clock.now() + Duration::from_millis(30);
    let length = Length { pictures: Some(4), time: None };
    let rate = FrameRate::new(100, 1).unwrap();
    let source = Source::test(Size::new(64, 48).unwrap(), rate, Some(240), length, clock).beginning_at(begin);
    assert!(source.is_live() && source.is_test() && source.pace() == Pace::Live);
    let (state, ended) = run(source, None);
    ended.unwrap();
    // One that is too late is left out, as a camera would, and each of the others has its place.
    assert_eq!(state.pictures.len() as u64 + state.dropped, 4);
    let places: Vec<_> = (0..4).map(|number| Ticks::from_time(begin + rate.time_of(number))).collect();
    assert!(state.pictures.iter().all(|(_, pts, _)| places.contains(pts)), "{places:?}");
    let block = |number: u32| begin + Duration::from_millis(5) * number;
    assert!(state.sounds.iter().all(|sound| (0..6).any(|number| sound.captured == block(number))));
    assert!(state.sounds.len() <= 6, "no sound goes further than the pictures");
}

#[test]
fn what_is_handed_over_goes_on_unchanged_until_its_senders_are_gone() {
    let (give, items) = channel();
    let format = Source::test(
        Size::new(64, 48).unwrap(),
        FrameRate::new(25, 1).unwrap(),
        None,
        Length::default(),
        Clock::new(),
    )
    .format();
    let source = Source::handed(items, format, Clock::new());
    assert_eq!((source.format(), source.pace()), (format, Pace::Live));
    let picture = Picture::new(PixelFormat::I420, Size::new(4, 4).unwrap(), Time::from_millis(7));
    let stamps = Stamps::captured_at(Time::from_millis(7));
    give.send(Item::Picture { picture: picture.clone(), pts: Ticks(-5), stamps }).unwrap();
    let sound = AudioBlock { samples: vec![0.5], channels: 1, rate_hz: 48_000, captured: Time::ZERO };
    give.send(Item::Sound(sound.clone())).unwrap();
    drop(give);
    let (state, ended) = run(source, None);
    ended.unwrap();
    assert_eq!((state.pictures, state.sounds), (vec![(picture, Ticks(-5), stamps)], vec![sound]));
}

#[test]
fn a_consumer_that_wants_no_more_ends_what_is_handed_over() {
    let (give, items) = channel();
    let source = Source::test(
        Size::new(64, 48).unwrap(),
        FrameRate::new(25, 1).unwrap(),
        None,
        Length::default(),
        Clock::new(),
    );
    let source = Source::handed(items, source.format(), Clock::new());
    for _ in 0..5 {
        let block = AudioBlock { samples: vec![0.5], channels: 1, rate_hz: 48_000, captured: Time::ZERO };
        give.send(Item::Sound(block)).unwrap();
    }
    // Its sender is still there: only the answer ends it.
    let (state, ended) = run(source, Some(2));
    assert!(ended.is_ok() && state.sounds.len() == 2);
}

#[test]
fn a_panic_on_the_way_is_the_end_that_the_consumer_is_told() {
    let clock = Clock::new();
    let rate = FrameRate::new(100, 1).unwrap();
    let source = Source::test(Size::new(64, 48).unwrap(), rate, None, Length::default(), clock);
    let (_, ended) = run(source.with_wall(|_| panic!("the test's own")), None);
    let Err(Error::Fault(panicked)) = ended else { panic!("it went on: {ended:?}") };
    assert_eq!(panicked.message, "the test's own");
}
