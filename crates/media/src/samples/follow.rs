//! Brings live sound onto the capture clock: what comes in at the source's own rate and pace leaves at 48 kHz, with
//! stamps that lie on the capture clock and never part from it.

use super::ResampleError;
use super::clock::SourceClock;
use super::resample::Resampler;
use crate::{AudioBlock, Time};
use std::time::Duration;

/// Over how many seconds a deviation is taken out. A point of the clock moves things by some 50 µs at most, which
/// over a second bends the pitch by less than a thousandth of a semitone.
const CORRECT_OVER: f64 = 1.0;
/// What correction may bend the pitch by, as a ratio.
const MAX_BEND: f64 = 0.005;
/// A deviation that is not corrected, in seconds: sound begins anew at its right time.
const RESTART: f64 = 0.02;

/// What live sound is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Samples of each channel in a second.
    pub rate_hz: u32,
    /// Channels.
    pub channels: u8,
}

/// Follows one source.
pub struct Follower {
    format: Format,
    out_rate_hz: u32,
    chunk: usize,
    clock: SourceClock,
    running: Option<Running>,
    /// Times that sound began anew.
    restarts: u32,
}

struct Running {
    resampler: Resampler,
    /// The number of the first sample that went into the resampler.
    base: u64,
    /// When the first sample was captured that left, in seconds from the clock's origin.
    start: f64,
    /// Samples of each channel that left.
    given: u64,
}

impl Follower {
    /// A follower that gives sound at `out_rate_hz`, `chunk` samples of each channel at a time.
    pub fn new(format: Format, out_rate_hz: u32, chunk: usize) -> Follower {
        let clock = SourceClock::new(format.rate_hz);
        Follower { format, out_rate_hz, chunk, clock, running: None, restarts: 0 }
    }

    /// Takes interleaved samples, the last of which had arrived at `end`, and returns what they complete. Nothing
    /// comes for the first half second, in which the source's clock is measured.
    pub fn push(&mut self, samples: &[f32], end: Time) -> Result<Option<AudioBlock>, ResampleError> {
        let frames = samples.len() / usize::from(self.format.channels);
        self.clock.push(frames, end);
        if !self.clock.is_known() {
            self.running = None;
            return Ok(None);
        }
        if self.running.is_none() {
            let base = self.clock.count().saturating_sub(frames as u64);
            self.running = Some(self.begin(base)?);
            self.restarts += 1;
        }
        let Some(running) = &mut self.running else { return Ok(None) };
        running.resampler.push(samples);
        let mut out = Vec::new();
        let first = running.given;
        loop {
            let position = running.base as f64 + running.resampler.position();
            let due = running.start + running.given as f64 / f64::from(self.out_rate_hz);
            let behind = (self.clock.position_at(due) - position) / f64::from(self.format.rate_hz);
            if behind.abs() > RESTART {
                self.running = None;
                break;
            }
            let bend = (behind / CORRECT_OVER).clamp(-MAX_BEND, MAX_BEND);
            let step = self.clock.samples_per_second() / f64::from(self.out_rate_hz) * (1.0 + bend);
            running.resampler.set_step(step)?;
            if !running.resampler.poll(&mut out)? {
                break;
            }
            running.given += self.chunk as u64;
        }
        if out.is_empty() {
            return Ok(None);
        }
        let start = self.running.as_ref().map_or(0.0, |running| running.start);
        let captured = self.at(start, first);
        Ok(Some(AudioBlock {
            samples: out,
            channels: self.format.channels,
            rate_hz: self.out_rate_hz,
            captured,
        }))
    }

    fn begin(&self, base: u64) -> Result<Running, ResampleError> {
        let step = f64::from(self.format.rate_hz) / f64::from(self.out_rate_hz);
        let mut resampler = Resampler::new(self.format.channels, step, self.chunk)?;
        resampler.set_step(self.clock.samples_per_second() / f64::from(self.out_rate_hz))?;
        let start = self.clock.time_of(base as f64 + resampler.position());
        Ok(Running { resampler, base, start, given: 0 })
    }

    /// The capture time of output sample `number` of a run that began at `start`.
    fn at(&self, start: f64, number: u64) -> Time {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.out_rate_hz);
        let since = (start * 1e9) as i64;
        let origin = self.clock.origin().as_nanos().saturating_add_signed(since);
        Time::from_nanos(origin) + Duration::from_nanos(nanos as u64)
    }

    /// Samples were lost: the clock is measured anew.
    pub fn restart(&mut self) {
        self.clock.restart();
        self.running = None;
    }

    /// Times that sound began anew, the first one not counted.
    pub fn restarts(&self) -> u32 {
        self.restarts.saturating_sub(1)
    }

    /// How far the source is ahead of what its rate allows, by the capture clock `now`: it is no live source.
    pub fn ahead(&self, now: Time) -> Duration {
        let sound = Duration::from_nanos(self.clock.count() * 1_000_000_000 / u64::from(self.format.rate_hz));
        if self.clock.origin() == Time::ZERO {
            return Duration::ZERO;
        }
        sound.saturating_sub(now.since(self.clock.origin()))
    }

    /// Whether the clock is known.
    pub fn is_settled(&self) -> bool {
        self.clock.is_known()
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
