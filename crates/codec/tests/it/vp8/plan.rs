//! Long-term references, what stands still in them, and cuts.

use super::encode::picture;
use super::samples;
use glassline_codec::vp8::{
    Encoded, Limits, Plan, Quality, Request, Role, State, decode, encode, encode_candidates,
};
use glassline_measure::pattern::Pattern;
use glassline_media::{FrameRate, Picture, Size, Time, Utc};

/// A picture whose left half moves with `shift`, and whose right half stands.
pub(crate) fn half_still(size: (u32, u32), shift: u32) -> Picture {
    let mut picture = picture(size, 6, shift, 10);
    for plane in picture.planes_mut() {
        for (y, line) in plane.lines_mut().enumerate() {
            let half = line.len() / 2;
            for (x, sample) in line.iter_mut().enumerate().skip(half) {
                *sample = ((x * x / 97 + y * y / 61) / 2) as u8;
            }
        }
    }
    picture
}

const SIZE: (u32, u32) = (128, 96);

fn request(still_finer: u8) -> Request {
    Request { quality: Quality::Quantizer(60), still_finer, ..Request::default() }
}

/// Squared error of luma in the columns from `from` on.
fn error(picture: &Picture, encoded: &Encoded, from: usize) -> u64 {
    let lines =
        (0..SIZE.1 as usize).map(|y| (picture.planes()[0].line(y), encoded.picture.planes()[0].line(y)));
    let squares = lines.flat_map(|(a, b)| a[from..].iter().zip(&b[from..]));
    squares.map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2)).sum()
}

/// Encodes against `state` and decodes it again, which must give the same.
fn check(state: &State, picture: &Picture, request: &Request) -> Encoded {
    let encoded = encode(state, picture, request).unwrap();
    let decoded = decode(state, &encoded.bytes, &Limits::default()).unwrap();
    assert_eq!(samples(&decoded.picture.unwrap()), samples(&encoded.picture), "{request:?}");
    assert_eq!(decoded.state.save(), encoded.state.save());
    let restored = State::restore(&encoded.state.save(), &Limits::default()).unwrap();
    assert_eq!(restored.hash(), encoded.state.hash());
    encoded
}

#[test]
fn what_stands_still_is_finer_where_that_is_asked_for() {
    let first = check(&State::new(), &half_still(SIZE, 0), &request(40));
    assert_eq!(first.stats.finer, 0, "a key frame has nothing that stood");
    let second = half_still(SIZE, 7);
    let plain = check(&first.state, &second, &request(0));
    let finer = check(&first.state, &second, &request(40));
    assert_eq!((plain.stats.finer, finer.stats.macroblocks), (0, 48));
    assert!((20..=28).contains(&finer.stats.finer), "half of it stands: {:?}", finer.stats);
    let still = 64;
    assert!(error(&second, &finer, still) < error(&second, &plain, still));
    // The frame behind it has no segments and keeps what was gained.
    let behind = check(&finer.state, &half_still(SIZE, 14), &request(0));
    assert!(error(&half_still(SIZE, 14), &behind, still) < error(&second, &plain, still));
}

#[test]
fn segments_that_stay_go_and_come_again_are_what_decoders_have() {
    let mut state = encode(&State::new(), &half_still(SIZE, 0), &request(0)).unwrap().state;
    for (number, still_finer) in [30, 30, 30, 0, 30, 20, 20].into_iter().enumerate() {
        let encoded = check(&state, &half_still(SIZE, number as u32 / 3), &request(still_finer));
        assert_eq!(encoded.stats.finer > 0, still_finer > 0);
        state = encoded.state;
    }
}

#[test]
fn candidates_and_sizes_go_with_segments() {
    let state = encode(&State::new(), &half_still(SIZE, 0), &request(0)).unwrap().state;
    let picture = half_still(SIZE, 5);
    let sized = Quality::Bytes { target: 900, never_above: true };
    let qualities = [Quality::Quantizer(5), Quality::Quantizer(60), sized];
    let candidates = encode_candidates(&state, &picture, &request(20), &qualities).unwrap();
    for candidate in &candidates {
        let decoded = decode(&state, &candidate.bytes, &Limits::default()).unwrap();
        assert_eq!(decoded.state.save(), candidate.state.save(), "{:?}", candidate.stats);
    }
    assert!(candidates[1].stats.finer > 0);
    assert!(candidates[2].bytes.len() <= 900);
}

/// A bright scene without detail, which nothing of [`picture`] is like.
fn bright(size: (u32, u32), shift: u32) -> Picture {
    let mut bright = picture(size, 1, 0, 0);
    for plane in bright.planes_mut() {
        for (y, line) in plane.lines_mut().enumerate() {
            let sample = |x: usize| 250 - ((x + shift as usize) / 3 + y / 4) as u8;
            line.iter_mut().enumerate().for_each(|(x, out)| *out = sample(x));
        }
    }
    bright
}

/// The roles of a stream with two scenes, and its bytes.
fn two_scenes(cut_at: u32, pictures: u32, plan: &mut Plan) -> (Vec<Role>, Vec<usize>) {
    let (mut state, mut roles, mut bytes) = (State::new(), Vec::new(), Vec::new());
    for number in 0..pictures {
        let size = (176, 144);
        let picture = if number < cut_at { picture(size, 1, number, 4) } else { bright(size, number) };
        let mut role = plan.role();
        let encoded = loop {
            let quality = Quality::Quantizer(plan.quantizer(role, 50));
            let request = plan.request(role, Request { quality, ..Request::default() });
            let encoded = check(&state, &picture, &request);
            if !plan.is_cut(&encoded.stats) {
                break encoded;
            }
            role = Role::Key;
        };
        plan.encoded(role, &encoded.stats);
        assert_eq!(encoded.stats.key, role == Role::Key);
        (roles, bytes) = ([roles, vec![role]].concat(), [bytes, vec![encoded.bytes.len()]].concat());
        state = encoded.state;
    }
    (roles, bytes)
}

#[test]
fn a_cut_becomes_a_key_frame_and_nothing_else_does() {
    let (roles, bytes) = two_scenes(14, 20, &mut Plan::new(30.0, None));
    let keys: Vec<usize> = (0..20).filter(|&at| roles[at] == Role::Key).collect();
    assert_eq!(keys, [0, 14], "{bytes:?}");
    let (roles, _) = two_scenes(100, 20, &mut Plan::new(30.0, None));
    assert_eq!(roles.iter().filter(|&&role| role == Role::Key).count(), 1);
}

#[test]
fn the_test_picture_has_no_cuts() {
    let rate = FrameRate::new(25, 1).unwrap();
    for (width, height) in [(64, 48), (176, 144)] {
        let mut pattern = Pattern::new(Size::new(width, height).unwrap(), rate);
        let (mut state, mut plan) = (State::new(), Plan::new(25.0, None));
        for number in 0..25 {
            let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
            let role = plan.role();
            let quality = Quality::Quantizer(plan.quantizer(role, 40));
            let request = plan.request(role, Request { quality, ..Request::default() });
            let encoded = encode(&state, &picture, &request).unwrap();
            assert!(!plan.is_cut(&encoded.stats), "{number}: {:?}", encoded.stats);
            plan.encoded(role, &encoded.stats);
            state = encoded.state;
        }
    }
}
