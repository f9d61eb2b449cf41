use super::*;
use crate::watch::{Raised, Rules, State};
use proptest::prelude::*;

const RATE: usize = 48_000;

/// Stereo: `seconds` of what `sample` gives for each frame.
fn sound(seconds: usize, sample: impl Fn(usize) -> [f32; 2]) -> Vec<f32> {
    (0..seconds * RATE).flat_map(sample).collect()
}

fn wave(n: usize, height: f32) -> f32 {
    height * (n as f32 / 109.0 * std::f32::consts::TAU).sin()
}

fn raised(parts: &[Vec<f32>]) -> Vec<(Alarm, State, u64)> {
    let mut rules = Rules::default();
    rules[Alarm::Loudness].enabled = false;
    let mut board = Board::new(rules);
    let (mut meter, mut at) = (SoundMeter::new(), 0u64);
    for block in parts.concat().chunks(2 * 1024) {
        meter.push(block, 2, RATE as u32, Time::from_nanos(at * 1_000_000_000 / RATE as u64), &mut board);
        at += block.len() as u64 / 2;
    }
    let brief = |raised: Raised| (raised.alarm, raised.state, (raised.at.as_nanos() + 500_000) / 1_000_000);
    std::iter::from_fn(|| board.poll()).map(brief).collect()
}

#[test]
fn silence_begins_after_its_time_and_ends() {
    let tone = sound(3, |n| [wave(n, 0.1); 2]);
    // -60.2 dBFS and -59.2 dBFS.
    let quiet = sound(4, |n| [wave(n, 0.000_98); 2]);
    let almost = sound(4, |n| [wave(n, 0.0011); 2]);
    let expected = [(Alarm::Silence, State::Begun, 5100), (Alarm::Silence, State::Over, 9100)];
    assert_eq!(raised(&[tone.clone(), quiet, tone.clone()]), expected);
    assert_eq!(raised(&[tone.clone(), almost, tone.clone()]), []);
    let digital = sound(4, |_| [0.0; 2]);
    assert_eq!(raised(&[tone.clone(), digital, tone]).len(), 2);
}

/// A break between two songs is shorter than the alarm's time (the first complaint about FFmpeg's silencedetect with d=1).
#[test]
fn a_pause_is_no_silence() {
    let tone = sound(1, |n| [wave(n, 0.3); 2]);
    let mut pause = sound(2, |_| [0.0; 2]);
    pause.truncate(2 * RATE * 19 / 10);
    assert_eq!(raised(&[tone.clone(), pause.clone(), tone.clone(), pause, tone]), []);
}

/// One channel that is dead is no silence: microphones are mono.
#[test]
fn a_mono_source_in_stereo_is_neither_silent_nor_out_of_phase() {
    assert_eq!(raised(&[sound(6, |n| [wave(n, 0.5), 0.0])]), []);
}

#[test]
fn sound_that_is_cut_off_at_full_scale_is_clipped() {
    let loud = |height: f32| sound(4, move |n| [wave(n, height).clamp(-1.0, 1.0); 2]);
    assert_eq!(raised(&[loud(0.9)]), []);
    let events = raised(&[loud(0.5), loud(1.5), loud(0.5)]);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((events[0].0, events[0].1), (Alarm::Clipping, State::Begun));
    assert!((6000..6200).contains(&events[0].2), "{events:?}");
    // Peaks that just touch full scale, two samples each.
    let touching = sound(6, |n| [if n % 50 < 2 { 1.0 } else { 0.2 }; 2]);
    assert_eq!(raised(&[touching]), []);
    let runs = sound(6, |n| [if n % 50 < 3 { 1.0 } else { 0.2 }; 2]);
    assert_eq!(raised(&[runs]).len(), 1);
}

#[test]
fn stereo_that_cancels_out_is_told() {
    let opposed = sound(4, |n| [wave(n, 0.3), -wave(n, 0.3)]);
    let same = sound(4, |n| [wave(n, 0.3); 2]);
    let quarter = sound(6, |n| [wave(n, 0.3), wave(n + 27, 0.3)]);
    let events = raised(&[same.clone(), opposed, same]);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((events[0].0, events[1].1), (Alarm::Phase, State::Over));
    assert_eq!(raised(&[quarter]), []);
    // Noise far below what is heard has any correlation.
    assert_eq!(raised(&[sound(6, |n| [wave(n, 0.002), -wave(n, 0.002)])]), []);
}

proptest! {
    #[test]
    fn any_samples_are_measured(
        blocks in proptest::collection::vec(
            (proptest::collection::vec(any::<f32>(), 0..300), any::<u8>(), prop_oneof![Just(48_000u32), any::<u32>()], any::<u64>()),
            0..20,
        ),
    ) {
        let mut rules = Rules::default();
        rules[Alarm::Loudness].enabled = true;
        let (mut board, mut meter) = (Board::new(rules), SoundMeter::new());
        for (samples, channels, rate_hz, at) in blocks {
            meter.push(&samples, channels % 10, rate_hz, Time::from_nanos(at), &mut board);
        }
    }
}
