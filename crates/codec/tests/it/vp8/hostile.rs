//! Whatever comes: a picture or an error, never a panic, and a state that is as it was.

use super::stream;
use glassline_codec::vp8::{Error, Limits, State, Workspace, decode, decode_in};
use proptest::prelude::*;

/// The state behind the first `count` frames, and the frame that follows.
fn state_before(frames: &[Vec<u8>], count: usize) -> (State, &[u8]) {
    let mut state = State::new();
    for frame in &frames[..count] {
        state = decode(&state, frame, &Limits::default()).unwrap().state;
    }
    (state, &frames[count])
}

#[test]
fn a_frame_cut_anywhere_is_an_error_or_a_picture() {
    let test = "a_frame_cut_anywhere_is_an_error_or_a_picture";
    for (name, count) in [
        ("vp80-00-comprehensive-001", 0),
        ("vp80-00-comprehensive-001", 5),
        ("vp80-00-comprehensive-010", 1),
        ("vp80-04-partitions-1404", 1),
    ] {
        let Some(frames) = stream(test, name) else { return };
        let (state, frame) = state_before(&frames, count);
        let before = state.hash();
        let mut workspace = Workspace::new();
        let mut errors = 0;
        for end in 1..frame.len() {
            let result = decode_in(&state, &frame[..end], &Limits::default(), &mut workspace);
            errors += usize::from(result.is_err());
            assert_eq!(state.hash(), before);
        }
        // Only a few bytes at the end may be more than what is needed.
        assert!(
            errors + 8 >= frame.len() - 1,
            "{name}: only {errors} of {} cuts are noticed",
            frame.len() - 1
        );
        // The memory that failed frames have used does not leak into the next one.
        let whole = decode_in(&state, frame, &Limits::default(), &mut workspace).unwrap();
        assert_eq!(whole.state, decode(&state, frame, &Limits::default()).unwrap().state);
    }
}

#[test]
fn nothing_is_decoded_before_a_key_frame() {
    let Some(frames) = stream("nothing_is_decoded_before_a_key_frame", "vp80-00-comprehensive-001") else {
        return;
    };
    for frame in [&frames[1][..], &[]] {
        assert_eq!(decode(&State::new(), frame, &Limits::default()).unwrap_err(), Error::NoKeyFrame);
    }
}

#[test]
fn sizes_are_limited() {
    let Some(frames) = stream("sizes_are_limited", "vp80-00-comprehensive-001") else { return };
    let limits = Limits { max_pixels: 176 * 144 - 1 };
    let expected = Error::TooLarge { width: 176, height: 144, max_pixels: limits.max_pixels };
    assert_eq!(decode(&State::new(), &frames[0], &limits).unwrap_err(), expected);
    let saved = decode(&State::new(), &frames[0], &Limits::default()).unwrap().state.save();
    assert_eq!(State::restore(&saved, &limits).unwrap_err(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn turned_bits_never_panic(
        count in 0usize..10,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..12),
        which in 0usize..3,
    ) {
        let name = ["vp80-00-comprehensive-006", "vp80-00-comprehensive-004", "vp80-03-segmentation-1437"][which];
        let Some(frames) = stream("turned_bits_never_panic", name) else { return Ok(()) };
        let (state, frame) = state_before(&frames, count);
        let before = state.hash();
        let mut frame = frame.to_vec();
        for (place, bit) in flips {
            let at = place.index(frame.len());
            frame[at] ^= 1 << bit;
        }
        let limits = Limits { max_pixels: 1 << 20 };
        let mut next = state.clone();
        if let Ok(decoded) = decode(&state, &frame, &limits) {
            next = decoded.state;
        }
        // What a damaged frame left behind can be decoded against all the same.
        let _ = decode(&next, &frames[count + 1], &limits);
        prop_assert_eq!(state.hash(), before);
    }

    #[test]
    fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 1..600), key: bool) {
        let limits = Limits { max_pixels: 1 << 16 };
        if key && bytes.len() > 10 {
            let partition = bytes[1] & 3;
            bytes[..10].copy_from_slice(&[0x10, partition, 0, 0x9d, 1, 0x2a, 60, 0, 33, 0]);
        }
        let mut state = State::new();
        for _ in 0..3 {
            if let Ok(decoded) = decode(&state, &bytes, &limits) {
                state = decoded.state;
            }
            bytes[0] |= 1;
        }
    }

    #[test]
    fn damaged_saved_states_are_refused(place: prop::sample::Index, bit in 0u8..8, cut: bool) {
        let Some(frames) = stream("damaged_saved_states_are_refused", "vp80-00-comprehensive-006") else {
            return Ok(());
        };
        let state = state_before(&frames, 3).0;
        let mut saved = state.save();
        let at = place.index(saved.len());
        if cut {
            saved.truncate(at);
        } else {
            saved[at] ^= 1 << bit;
        }
        if let Ok(restored) = State::restore(&saved, &Limits::default()) {
            // Probabilities and the like are any bytes; then it is another state, and says so.
            prop_assert_ne!(restored.hash(), state.hash());
        }
    }
}
