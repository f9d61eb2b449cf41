//! What is encoded is decoded to the encoder's own picture and state.

use super::samples;
use glassline_codec::vp8::{
    EncodeError, EncodeWorkspace, Limits, Parallel, Quality, References, Replace, Request, Serial, State,
    Updates, decode, encode, encode_candidates, encode_candidates_in, encode_in,
};
use glassline_media::{Picture, PixelFormat, Size, Time};
use proptest::prelude::*;
use std::sync::Mutex;

/// A picture of blobs and noise that moves with `shift`; `seed` and `noise` choose which.
pub(crate) fn picture((width, height): (u32, u32), seed: u32, shift: u32, noise: u32) -> Picture {
    let mut picture = Picture::new(PixelFormat::I420, Size::new(width, height).unwrap(), Time::ZERO);
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(shift) | 1;
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (x, y) = (x as u32 + shift * (index == 0) as u32, y as u32 + shift / 3);
                let blob = (x / 9 * 37 + y / 7 * 53 + seed) % 11 * 20 + (x * y / 16) % 24;
                *sample = (blob + (state >> 24) * noise / 256).min(255) as u8;
            }
        }
    }
    picture
}

/// Encodes pictures one after the other and checks each against the decoder.
fn check(pictures: &[Picture], requests: &[Request]) {
    let mut state = State::new();
    let mut workspace = EncodeWorkspace::new();
    for (picture, request) in pictures.iter().zip(requests) {
        let encoded = encode_in(&state, picture, request, &mut workspace, &Serial).unwrap();
        let decoded = decode(&state, &encoded.bytes, &Limits::default()).unwrap();
        let shown = decoded.picture.unwrap();
        assert_eq!(samples(&shown), samples(&encoded.picture), "{request:?}");
        assert_eq!(decoded.state.save(), encoded.state.save(), "{request:?}");
        assert_eq!(decoded.state.hash(), encoded.state.hash());
        assert_eq!(decoded.key, encoded.stats.key);
        state = encoded.state;
    }
}

fn replaces() -> impl Strategy<Value = Replace> {
    prop::sample::select(vec![Replace::Keep, Replace::ByCurrent, Replace::ByLast, Replace::ByOther])
}

prop_compose! {
    fn requests()(
        quantizer in 0u8..128,
        speed in 0u8..=10,
        (last, golden, altref) in any::<(bool, bool, bool)>(),
        (replace_last, replace_golden, replace_altref) in (any::<bool>(), replaces(), replaces()),
        key_frame in prop::bool::weighted(0.1),
        still_finer in prop::sample::select(vec![0u8, 1, 14, 127, 255]),
        token_partitions in prop::sample::select(vec![1u8, 2, 4, 8]),
    ) -> Request {
        Request {
            quality: Quality::Quantizer(quantizer),
            speed,
            references: References { last, golden, altref },
            updates: Updates { last: replace_last, golden: replace_golden, altref: replace_altref },
            key_frame,
            still_finer,
            token_partitions,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn encoded_frames_decode_to_their_reconstruction(
        size in (1u32..100, 1u32..70),
        seed in any::<u16>(),
        noise in prop::sample::select(vec![0u32, 6, 255]),
        step in 0u32..40,
        requests in prop::collection::vec(requests(), 1..6),
    ) {
        let pictures: Vec<Picture> =
            (0..requests.len() as u32).map(|at| picture(size, u32::from(seed), at * step, noise)).collect();
        check(&pictures, &requests);
    }
}

#[test]
fn a_stream_at_each_speed_decodes_to_its_reconstruction() {
    let pictures: Vec<Picture> = (0..4).map(|at| picture((176, 144), 5, 3 * at, 12)).collect();
    for speed in 0..=10 {
        for quantizer in [0, 30, 127] {
            let request = Request { quality: Quality::Quantizer(quantizer), speed, ..Request::default() };
            check(&pictures, &[request; 4]);
        }
    }
}

/// A clock that has these readings, one after the other; the last one stays.
#[derive(Debug)]
struct Readings(Mutex<Vec<f64>>);

impl Readings {
    fn new(readings: &[f64]) -> Readings {
        Readings(Mutex::new(readings.iter().rev().copied().collect()))
    }
}

impl Parallel for Readings {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        Serial.run(tasks);
    }

    fn spent(&self) -> f64 {
        let mut left = self.0.lock().unwrap();
        if left.len() > 1 { left.pop().unwrap() } else { left[0] }
    }
}

#[test]
fn rows_that_are_late_are_coded_with_less_care_and_decode_all_the_same() {
    let pictures: Vec<Picture> = (0..3).map(|at| picture((176, 144), 5, 7 * at, 60)).collect();
    let request = Request { quality: Quality::Quantizer(30), speed: 2, ..Request::default() };
    let coded = |speed: u8, readings: &[f64]| {
        let (mut state, mut bytes) = (State::new(), Vec::new());
        for picture in &pictures {
            let (request, clock) = (Request { speed, ..request }, Readings::new(readings));
            let encoded = encode_in(&state, picture, &request, &mut EncodeWorkspace::new(), &clock).unwrap();
            let decoded = decode(&state, &encoded.bytes, &Limits::default()).unwrap();
            assert_eq!(decoded.state.hash(), encoded.state.hash());
            bytes.push(encoded.bytes);
            state = encoded.state;
        }
        bytes
    };
    let (calm, late) = (coded(2, &[0.0]), coded(2, &[9.0]));
    assert!(coded(2, &[0.1]) == calm, "in time");
    assert!(late != calm, "late from the first row on");
    // Late in the middle: nine rows, of which the first ones are coded as they would be.
    let jump = coded(2, &[0.0, 0.0, 0.0, 0.0, 0.9]);
    assert!(jump != calm, "calm");
    assert!(jump != late, "late");
}

#[test]
fn where_the_time_is_gone_no_size_is_searched_for_beside_quantisers() {
    let pictures = [picture((176, 144), 5, 0, 12), picture((176, 144), 5, 3, 12)];
    let state = encode(&State::new(), &pictures[0], &Request::default()).unwrap().state;
    let qualities = [Quality::Quantizer(30), Quality::Bytes { target: 2_000, never_above: true }];
    let coded = |spent: f64, qualities: &[Quality]| {
        let clock = Readings::new(&[spent]);
        let workspace = &mut EncodeWorkspace::new();
        encode_candidates_in(&state, &pictures[1], &Request::default(), qualities, workspace, &clock).unwrap()
    };
    assert_eq!((coded(0.5, &qualities).len(), coded(0.9, &qualities).len()), (2, 1));
    // A size alone is all that is asked for.
    let alone = coded(2.0, &qualities[1..]);
    assert!(alone.len() == 1 && alone[0].bytes.len() <= 2_000, "{}", alone[0].bytes.len());
}

#[test]
fn a_picture_of_another_size_begins_anew() {
    let pictures = [picture((64, 48), 1, 0, 9), picture((65, 48), 1, 1, 9), picture((65, 48), 1, 2, 9)];
    check(&pictures, &[Request::default(); 3]);
    let state = encode(&State::new(), &pictures[0], &Request::default()).unwrap().state;
    assert!(encode(&state, &pictures[1], &Request::default()).unwrap().stats.key);
    assert!(!encode(&state, &pictures[0], &Request::default()).unwrap().stats.key);
}

#[test]
fn a_workspace_changes_nothing() {
    let (first, second) = (picture((80, 64), 3, 0, 30), picture((80, 64), 3, 5, 30));
    let mut workspace = EncodeWorkspace::new();
    let request = Request::default();
    let mut used = |state: &State, picture: &Picture| {
        encode_in(state, picture, &request, &mut workspace, &Serial).unwrap()
    };
    let state = used(&State::new(), &first).state;
    used(&State::new(), &picture((33, 99), 8, 1, 3));
    let again = used(&state, &second);
    assert_eq!(again.bytes, encode(&state, &second, &request).unwrap().bytes);
}

#[test]
fn a_finer_quantizer_gives_a_better_and_larger_frame() {
    let picture = picture((176, 144), 2, 0, 20);
    let distance = |quantizer| {
        let request = Request { quality: Quality::Quantizer(quantizer), ..Request::default() };
        let encoded = encode(&State::new(), &picture, &request).unwrap();
        let pairs = samples(&picture).into_iter().zip(samples(&encoded.picture));
        let squares: u64 = pairs.map(|(a, b)| u64::from(a.abs_diff(b)).pow(2)).sum();
        (squares, std::cmp::Reverse(encoded.bytes.len()))
    };
    let distances = [2, 30, 70, 120].map(distance);
    assert!(distances.is_sorted(), "{distances:?}");
    // Less than one step of the finest quantiser a sample.
    assert!(distances[0].0 < 176 * 144 * 3 / 2 * 4, "{distances:?}");
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let small = picture((16, 16), 1, 0, 0);
    let encode = |picture: &Picture, request: Request| encode(&State::new(), picture, &request).err();
    let quality = Quality::Quantizer(128);
    assert_eq!(
        encode(&small, Request { quality, ..Request::default() }),
        Some(EncodeError::Quantizer { found: 128 })
    );
    assert_eq!(
        encode(&small, Request { token_partitions: 3, ..Request::default() }),
        Some(EncodeError::Partitions { found: 3 })
    );
    let wide = Picture::new(PixelFormat::I420, Size::new(16_384, 1).unwrap(), Time::ZERO);
    assert_eq!(encode(&wide, Request::default()), Some(EncodeError::Size { found: wide.size() }));
}

#[test]
fn candidates_are_frames_like_any_other() {
    let pictures: Vec<Picture> = (0..3).map(|at| picture((144, 112), 7, 2 * at, 16)).collect();
    let bytes = |target| Quality::Bytes { target, never_above: false };
    let mut state = State::new();
    for picture in &pictures {
        let qualities = [Quality::Quantizer(20), Quality::Quantizer(90), bytes(1500), Quality::Quantizer(50)];
        let candidates = encode_candidates(&state, picture, &Request::default(), &qualities).unwrap();
        assert_eq!(candidates.len(), 4);
        assert_eq!([0, 1, 3].map(|at: usize| candidates[at].stats.quantizer), [20, 90, 50]);
        assert!(candidates[0].bytes.len() > candidates[3].bytes.len());
        assert!(candidates[3].bytes.len() > candidates[1].bytes.len());
        for candidate in &candidates {
            let decoded = decode(&state, &candidate.bytes, &Limits::default()).unwrap();
            assert_eq!(decoded.state, candidate.state);
        }
        state = candidates[3].state.clone();
    }
    assert_eq!(encode_candidates(&state, &pictures[0], &Request::default(), &[]).unwrap().len(), 0);
}

#[test]
fn a_frame_has_the_size_that_is_asked_for() {
    let pictures: Vec<Picture> = (0..6).map(|at| picture((320, 240), 4, 2 * at, 20)).collect();
    let mut state = State::new();
    let (mut met, mut asked) = (0, 0);
    for picture in &pictures {
        let natural = encode(&state, picture, &Request::default()).unwrap();
        for share in [50, 80, 100, 140, 200] {
            for never_above in [false, true] {
                let target = natural.bytes.len() * share / 100;
                let quality = Quality::Bytes { target, never_above };
                let encoded = encode(&state, picture, &Request { quality, ..Request::default() }).unwrap();
                let bytes = encoded.bytes.len();
                assert!(!never_above || bytes <= target, "{bytes} bytes, at most {target} asked for");
                met += usize::from(bytes.abs_diff(target) * 20 <= target);
                asked += 1;
                assert_eq!(decode(&state, &encoded.bytes, &Limits::default()).unwrap().state, encoded.state);
            }
        }
        state = natural.state;
    }
    assert!(met * 20 >= asked * 19, "{met} of {asked} frames within 5 %");
}

#[test]
fn a_size_below_every_frame_is_refused() {
    let picture = picture((320, 240), 4, 0, 20);
    let quality = Quality::Bytes { target: 20, never_above: true };
    let state = State::new();
    let error = encode(&state, &picture, &Request { quality, ..Request::default() }).err();
    let Some(EncodeError::Target { target: 20, least }) = error else { panic!("{error:?}") };
    let quality = Quality::Bytes { target: least, never_above: true };
    let encoded = encode(&state, &picture, &Request { quality, ..Request::default() }).unwrap();
    assert!(encoded.bytes.len() <= least);
    assert_eq!(decode(&state, &encoded.bytes, &Limits::default()).unwrap().state, encoded.state);
}
