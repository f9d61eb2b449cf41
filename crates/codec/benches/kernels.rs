//! Nanoseconds a call of each kernel, scalar and vector:
//! `cargo bench -p glassline-codec --features bench --bench kernels [-- WORD]`, WORD in the kernels' names.
//!
//! Rounds of all kinds of processor take turns, and the fastest round counts: what else runs disturbs all alike.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bench reads the clock")]

use glassline_codec::vp8::bench::cases;
use std::time::{Duration, Instant};

/// Rounds of each call.
const ROUNDS: usize = 15;
/// A round lasts about this long.
const ROUND: Duration = Duration::from_millis(1);

fn time(calls: u32, call: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

/// How many calls make a round.
fn calibrate(call: &mut dyn FnMut()) -> u32 {
    let mut calls = 16;
    while calls < 1 << 24 && time(calls, call) < ROUND {
        calls *= 2;
    }
    calls
}

fn main() {
    let word = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<36} {:>24} {:>8}", "kernel", "ns a call", "ratio");
    for mut case in cases().into_iter().filter(|case| case.name.contains(&word)) {
        let counts: Vec<u32> = case.calls.iter_mut().map(|(_, call)| calibrate(call)).collect();
        let mut best = vec![f64::MAX; counts.len()];
        for _ in 0..ROUNDS {
            for ((best, (_, call)), &calls) in best.iter_mut().zip(&mut case.calls).zip(&counts) {
                *best = best.min(time(calls, call).as_secs_f64() * 1e9 / f64::from(calls));
            }
        }
        let figures: Vec<String> =
            case.calls.iter().zip(&best).map(|((name, _), nanos)| format!("{name} {nanos:.1}")).collect();
        let ratio = best[0] / best[best.len() - 1];
        println!("{:<36} {:>24} {ratio:>7.1}x", case.name, figures.join(", "));
    }
}
