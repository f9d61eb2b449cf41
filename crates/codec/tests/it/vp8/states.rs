//! States are values: they fork, are named, saved and restored, and share what they can.

use super::{samples, stream};
use glassline_codec::vp8::{Limits, State, Workspace, decode, decode_in};
use std::collections::BTreeSet;

/// Streams with golden and altref frames, segments, odd sizes and a probability that is not kept.
const STREAMS: [&str; 4] = [
    "vp80-00-comprehensive-006",
    "vp80-00-comprehensive-010",
    "vp80-03-segmentation-1437",
    "vp80-05-sharpness-1438",
];

#[test]
fn a_restored_state_goes_on_as_the_saved_one() {
    for name in STREAMS {
        let Some(frames) = stream("a_restored_state_goes_on_as_the_saved_one", name) else { return };
        let limits = Limits::default();
        let mut state = State::new();
        for frame in frames.iter().take(20) {
            let saved = state.save();
            let restored = State::restore(&saved, &limits).unwrap();
            assert_eq!(restored.hash(), state.hash());
            assert_eq!(restored.save(), saved);
            let (a, b) =
                (decode(&state, frame, &limits).unwrap(), decode(&restored, frame, &limits).unwrap());
            assert_eq!(a.state, b.state);
            assert_eq!(a.picture.as_ref().map(samples), b.picture.as_ref().map(samples));
            state = a.state;
        }
    }
}

#[test]
fn forks_do_not_touch_each_other() {
    let Some(frames) = stream("forks_do_not_touch_each_other", STREAMS[0]) else { return };
    let limits = Limits::default();
    let mut workspace = Workspace::new();
    let mut decode = |state: &State, frame: &[u8]| decode_in(state, frame, &limits, &mut workspace).unwrap();
    let start = decode(&State::new(), &frames[0]).state;
    let before = (start.hash(), start.save());
    // One branch decodes the stream; the other leaves every second frame out, which decodes to something else.
    let mut straight = start.clone();
    let mut skipping = start.clone();
    for (number, frame) in frames[1..12].iter().enumerate() {
        straight = decode(&straight, frame).state;
        if number % 2 == 0 {
            skipping = decode(&skipping, frame).state;
        }
    }
    assert_ne!(straight.hash(), skipping.hash());
    assert_eq!((start.hash(), start.save()), before);
    // And the first branch again, from the state that was kept.
    let mut again = start;
    for frame in &frames[1..12] {
        again = decode(&again, frame).state;
    }
    assert_eq!(again.save(), straight.save());
}

#[test]
fn states_that_differ_have_different_hashes() {
    let mut hashes = BTreeSet::from([State::new().hash()]);
    let mut saved = BTreeSet::from([State::new().save()]);
    for name in STREAMS {
        let Some(frames) = stream("states_that_differ_have_different_hashes", name) else { return };
        let mut state = State::new();
        for frame in frames.iter().take(20) {
            state = decode(&state, frame, &Limits::default()).unwrap().state;
            hashes.insert(state.hash());
            saved.insert(state.save());
        }
    }
    assert_eq!(hashes.len(), saved.len());
}

#[test]
fn hashes_stay_what_they_are() {
    // A peer of another version names states by these; whoever changes them changes the saved format's version.
    let Some(frames) = stream("hashes_stay_what_they_are", STREAMS[1]) else { return };
    assert_eq!(State::new().hash().to_string(), "99aa06d3014798d86001c324468d497f");
    let state = decode(&State::new(), &frames[0], &Limits::default()).unwrap().state;
    let state = decode(&state, &frames[1], &Limits::default()).unwrap().state;
    assert_eq!(state.hash().to_string(), "7f05f335943bfa9e2475cf8038334d22");
}

#[test]
fn a_state_takes_little_memory() {
    let Some(frames) = stream("a_state_takes_little_memory", "vp80-03-segmentation-04") else { return };
    let mut state = State::new();
    let mut largest = 0;
    for frame in &frames {
        state = decode(&state, frame, &Limits::default()).unwrap().state;
        largest = largest.max(state.memory_bytes());
    }
    assert_eq!(state.size().unwrap().to_string(), "1280x720");
    assert!(largest <= 9 << 19, "{largest} bytes, more than 4.5 MiB");
}

#[test]
fn an_empty_frame_changes_nothing() {
    let Some(frames) = stream("an_empty_frame_changes_nothing", STREAMS[1]) else { return };
    let state = decode(&State::new(), &frames[0], &Limits::default()).unwrap().state;
    let dropped = decode(&state, &[], &Limits::default()).unwrap();
    assert_eq!(dropped.state, state);
    assert_eq!(dropped.picture, None);
}
