//! The test tone: a quiet note that never stops, and a beep at each full UTC second.
//!
//! The beep sounds exactly while the test pattern flashes ([`flashes`]): together they show lip sync. A gap or a
//! click in the note shows lost sound.

use glassline_media::audio::AudioBlock;
use glassline_media::time::{Time, Utc};
use std::f64::consts::TAU;

/// How long flash and beep last, from each full UTC second on, in nanoseconds.
pub const MARK_NANOS: u64 = 60_000_000;

/// The continuous note in Hz, and its peak (−34 dBFS).
const NOTE: (f64, f64) = (440.0, 0.02);
/// The beep in Hz, and its peak (−12 dBFS).
const BEEP: (f64, f64) = (1000.0, 0.25);
/// Over this time the beep fades in and out, so that it does not click.
const FADE_SECONDS: f64 = 0.001;
const SECOND_NANOS: u64 = 1_000_000_000;

/// Whether flash and beep are on at `utc`: in the first 60 ms of each second.
pub const fn flashes(utc: Utc) -> bool {
    utc.as_nanos() % SECOND_NANOS < MARK_NANOS
}

/// Makes the test tone, block by block.
#[derive(Clone, Debug)]
pub struct Tone {
    rate_hz: u32,
    channels: u8,
    /// The note's phase in turns, 0 to 1.
    phase: f64,
    /// The UTC second that was entered last.
    second: Option<u64>,
    /// Samples of the running beep that were given; `None` in between.
    beep: Option<u32>,
}

impl Tone {
    /// A tone of `rate_hz` samples a second (at least 1) in 1 or 2 equal channels.
    pub fn new(rate_hz: u32, channels: u8) -> Tone {
        Tone { rate_hz: rate_hz.max(1), channels: channels.clamp(1, 2), phase: 0.0, second: None, beep: None }
    }

    /// The next `frames` samples of each channel, the first of them captured at `captured` and `utc`.
    ///
    /// Note and beep run on from block to block without a jump in phase, even where `utc` jitters; only the start
    /// of a beep follows `utc`, to the nearest sample.
    pub fn next(&mut self, frames: usize, captured: Time, utc: Utc) -> AudioBlock {
        let mut samples = Vec::with_capacity(frames * usize::from(self.channels));
        let rate = u64::from(self.rate_hz);
        // Half a sample on, so that the nearest sample begins the second, however the nanoseconds are rounded.
        let start = utc.as_nanos().saturating_add(SECOND_NANOS / rate / 2);
        for index in 0..frames as u64 {
            let at = start.saturating_add(index * SECOND_NANOS / rate);
            self.enter(at);
            let sample = self.sample() as f32;
            samples.extend(std::iter::repeat_n(sample, usize::from(self.channels)));
        }
        AudioBlock { samples, channels: self.channels, rate_hz: self.rate_hz, captured }
    }

    /// Starts a beep where `at` lies in a new second. A clock that jitters back over the edge of a second by less
    /// than a second starts no second beep.
    fn enter(&mut self, at: u64) {
        let (second, within) = (at / SECOND_NANOS, at % SECOND_NANOS);
        if self.second == Some(second) || self.second == Some(second + 1) {
            return;
        }
        self.second = Some(second);
        if within < MARK_NANOS {
            self.beep = Some((within * u64::from(self.rate_hz) / SECOND_NANOS) as u32);
        }
    }

    fn sample(&mut self) -> f64 {
        let rate = f64::from(self.rate_hz);
        let note = NOTE.1 * (TAU * self.phase).sin();
        self.phase = (self.phase + NOTE.0 / rate).fract();
        let Some(given) = self.beep else { return note };
        let (elapsed, length) = (f64::from(given) / rate, MARK_NANOS as f64 / 1e9);
        if elapsed >= length {
            self.beep = None;
            return note;
        }
        self.beep = Some(given + 1);
        let fade = (elapsed.min(length - elapsed) / FADE_SECONDS).clamp(0.0, 1.0);
        note + BEEP.1 * fade * (TAU * BEEP.0 * elapsed).sin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_700_000_000 * SECOND_NANOS + 700_000_000;

    fn run(block: usize, frames: usize) -> Vec<f32> {
        let mut tone = Tone::new(48_000, 1);
        let mut samples = Vec::new();
        while samples.len() < frames {
            let utc = Utc::from_nanos(START + samples.len() as u64 * SECOND_NANOS / 48_000);
            samples.extend(tone.next(block.min(frames - samples.len()), Time::ZERO, utc).samples);
        }
        samples
    }

    #[test]
    fn a_beep_begins_on_each_full_second_and_lasts_60_ms() {
        let samples = run(1024, 3 * 48_000);
        let loud: Vec<usize> = (0..samples.len()).filter(|&index| samples[index].abs() > 0.05).collect();
        for beep in 0..3 {
            let start = 14_400 + beep * 48_000;
            let inside: Vec<_> = loud.iter().filter(|&&at| at / 48_000 == start / 48_000).collect();
            assert!((start..start + 48).contains(inside[0]), "starts at {}", inside[0]);
            let last = **inside.last().unwrap();
            assert!((start + 2832..start + 2880).contains(&last), "ends at {last}");
        }
        assert!(flashes(Utc::from_nanos(START + 300_000_000)));
        assert!(flashes(Utc::from_nanos(START + 359_999_999)));
        assert!(!flashes(Utc::from_nanos(START + 360_000_000)));
    }

    #[test]
    fn the_note_is_quiet_and_never_stops() {
        let samples = run(480, 14_000);
        let power = samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / samples.len() as f64;
        assert!((power.sqrt() - 0.02 / 2f64.sqrt()).abs() < 0.001, "{}", power.sqrt());
    }

    #[test]
    fn channels_are_equal_and_strange_parameters_are_brought_into_range() {
        let block = Tone::new(44_100, 2).next(100, Time::from_millis(5), Utc::from_nanos(START));
        assert_eq!((block.frames(), block.channels, block.captured), (100, 2, Time::from_millis(5)));
        assert!(block.samples.chunks(2).all(|pair| pair[0] == pair[1]));
        let block = Tone::new(0, 0).next(3, Time::ZERO, Utc::from_nanos(u64::MAX));
        assert_eq!((block.frames(), block.channels, block.rate_hz), (3, 1, 1));
    }

    proptest! {
        #[test]
        fn the_length_of_blocks_makes_no_difference_and_nothing_clicks(block in 1usize..3000) {
            let samples = run(block, 20_000);
            prop_assert!(samples == run(960, 20_000), "blocks differ");
            // The steepest slope of both sines together, with a little for the fade.
            let steepest = TAU * (440.0 * 0.02 + 1000.0 * 0.25) / 48_000.0 + 0.006;
            prop_assert!(samples.windows(2).all(|pair| f64::from((pair[1] - pair[0]).abs()) < steepest));
        }
    }
}
