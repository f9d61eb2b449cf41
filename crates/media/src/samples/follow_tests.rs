//! In virtual time: a source whose crystal is off and whose samples arrive late and unevenly.

use super::*;
use proptest::prelude::*;

/// The sound is a slow sine over the capture clock's time: from each sample that comes out its capture time can be
/// read. A millisecond is a deviation of 0.031 where the sine is steepest.
const HZ: f64 = 5.0;
const MILLISECOND: f64 = std::f64::consts::TAU * HZ * 0.001;
const START: Time = Time::from_millis(5_000_000);

/// A pseudo-random number in 0..1, from its place in the run.
fn noise(seed: u64, number: u64) -> f64 {
    let mut state = (seed << 32 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((state ^ state >> 32) >> 11) as f64 / (1u64 << 53) as f64
}

struct Source {
    rate_hz: u32,
    ppm: f64,
    /// Samples in a block.
    block: usize,
    /// Blocks arrive up to so many seconds late.
    jitter: f64,
}

/// What came out of a run.
struct Outcome {
    /// The largest deviation of a sample from what its stamp promises, in milliseconds, from the third second on.
    worst_ms: f64,
    /// Samples that came out, and seconds from the first to the last of them by their stamps.
    samples: u64,
    seconds: f64,
    /// Blocks that did not begin where the one before ended.
    gaps: u32,
    restarts: u32,
}

/// Lets the source run for so many seconds of the capture clock, at an output rate that keeps the test short.
fn run(source: &Source, seconds: f64, out_rate_hz: u32, seed: u64) -> Outcome {
    let Source { rate_hz, ppm, block, jitter } = *source;
    let mut follower =
        Follower::new(Format { rate_hz, channels: 1 }, out_rate_hz, out_rate_hz as usize / 1000);
    let true_rate = f64::from(rate_hz) * (1.0 + ppm * 1e-6);
    let (mut number, mut arrived) = (0u64, 0f64);
    let mut outcome = Outcome { worst_ms: 0.0, samples: 0, seconds: 0.0, gaps: 0, restarts: 0 };
    let (mut first, mut next) = (None, None::<Time>);
    while (number * block as u64) as f64 / true_rate < seconds {
        let begin = number * block as u64;
        let samples: Vec<f32> = (begin..begin + block as u64)
            .map(|at| (std::f64::consts::TAU * HZ * at as f64 / true_rate).sin() as f32)
            .collect();
        let captured = (begin + block as u64) as f64 / true_rate;
        // Arrivals never overtake one another.
        arrived = (captured + jitter * noise(seed, number)).max(arrived);
        let end = START + Duration::from_secs_f64(arrived);
        number += 1;
        let Some(out) = follower.push(&samples, end).unwrap() else { continue };
        let since = |time: Time| (time.as_nanos() as f64 - START.as_nanos() as f64) / 1e9;
        let first = *first.get_or_insert(out.captured);
        outcome.gaps += u32::from(next.is_some_and(|next| {
            next.since(out.captured) + out.captured.since(next) > Duration::from_nanos(2)
        }));
        outcome.samples += out.samples.len() as u64;
        next = Some(first + Duration::from_nanos(outcome.samples * 1_000_000_000 / u64::from(out_rate_hz)));
        outcome.seconds =
            since(out.captured) - since(first) + out.samples.len() as f64 / f64::from(out_rate_hz);
        for (at, sample) in out.samples.iter().enumerate() {
            let time = since(out.captured) + at as f64 / f64::from(out_rate_hz);
            if time > 3.0 {
                let deviation = (f64::from(*sample) - (std::f64::consts::TAU * HZ * time).sin()).abs();
                outcome.worst_ms = outcome.worst_ms.max(deviation / MILLISECOND);
            }
        }
    }
    outcome.restarts = follower.restarts();
    outcome
}

#[test]
fn half_an_hour_of_a_source_that_is_off_neither_drifts_nor_gaps() {
    for ppm in [-200.0, 200.0] {
        // A low rate keeps the test short; the clock knows no rate but seconds.
        let source = Source { rate_hz: 2_000, ppm, block: 20, jitter: 0.008 };
        let outcome = run(&source, 1800.0, 2_000, 1);
        eprintln!("{ppm} ppm: at most {:.3} ms off in 30 minutes", outcome.worst_ms);
        assert!(outcome.worst_ms < 1.0, "{ppm} ppm: {} ms", outcome.worst_ms);
        assert_eq!((outcome.gaps, outcome.restarts), (0, 0));
        assert!(outcome.seconds > 1799.0, "{}", outcome.seconds);
        let expected = outcome.seconds * 2_000.0;
        assert!((outcome.samples as f64 - expected).abs() < 2.0, "{} samples, {expected}", outcome.samples);
    }
}

#[test]
fn any_rate_becomes_48_khz() {
    for rate_hz in [44_100, 48_000, 96_000] {
        let source = Source { rate_hz, ppm: 50.0, block: rate_hz as usize / 100, jitter: 0.002 };
        let outcome = run(&source, 20.0, 48_000, 2);
        assert!(outcome.worst_ms < 0.5, "{rate_hz}: {} ms", outcome.worst_ms);
        assert_eq!((outcome.gaps, outcome.restarts), (0, 0));
    }
}

#[test]
fn a_source_that_loses_a_second_goes_on_at_its_right_time() {
    let mut follower = Follower::new(Format { rate_hz: 8_000, channels: 1 }, 8_000, 8);
    let mut last = None;
    let mut largest = Duration::ZERO;
    for number in 0..4000u64 {
        // A second of samples is missing after the tenth; what comes after it comes on time.
        let lost = if number >= 1000 { 1.0 } else { 0.0 };
        let end = START + Duration::from_secs_f64(number as f64 * 0.01 + lost);
        let Some(out) = follower.push(&[0.1; 80], end).unwrap() else { continue };
        if let Some(last) = last.replace(out.captured) {
            largest = largest.max(out.captured.since(last));
        }
    }
    assert_eq!(follower.restarts(), 1);
    // It takes some seconds to be sure, and half a one to measure.
    assert!(largest > Duration::from_secs(1) && largest < Duration::from_secs(5), "{largest:?}");
    let behind = (START + Duration::from_secs_f64(40.99)).since(last.unwrap());
    assert!(behind < Duration::from_millis(30), "{behind:?}");
}

#[test]
fn what_runs_ahead_of_its_rate_is_seen() {
    let mut follower = Follower::new(Format { rate_hz: 48_000, channels: 2 }, 48_000, 48);
    for _ in 0..101 {
        assert!(follower.push(&[0.0; 960], START).unwrap().is_none() || follower.is_settled());
    }
    assert_eq!(follower.ahead(START), Duration::from_secs(1));
    assert_eq!(follower.ahead(START + Duration::from_secs(3)), Duration::ZERO);
    follower.restart();
    assert!(!follower.is_settled() && follower.ahead(START) == Duration::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn sound_stays_within_a_millisecond(ppm in -200i32..=200, block in 8usize..100, jitter in 0u32..=6, seed in any::<u32>()) {
        let source = Source { rate_hz: 4_000, ppm: f64::from(ppm), block, jitter: f64::from(jitter) / 1000.0 };
        let outcome = run(&source, 40.0, 4_000, seed.into());
        prop_assert!(outcome.worst_ms < 1.0, "{} ms", outcome.worst_ms);
        prop_assert_eq!((outcome.gaps, outcome.restarts), (0, 0));
    }
}
