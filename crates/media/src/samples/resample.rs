//! The resampler, which knows at each moment where in the input it stands.

use super::ResampleError;
use audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Adjustable as _, Async, FixedAsync, Resampler as _, SincInterpolationParameters, WindowFunction,
};

/// Points of the filter. Half of them are its delay: 0.7 ms at 48 kHz. It passes 20 kHz and stops 92 dB.
const POINTS: usize = 64;
/// How far a step may lie from the nominal one, as a factor.
const MOST: f64 = 1.01;

/// Resamples interleaved sound, a chunk at a time, by a ratio that may change with each chunk.
///
/// Input samples are counted from 0, and positions lie between them: that is what makes stamps exact.
pub struct Resampler {
    inner: Async<f32>,
    channels: usize,
    /// Samples of each channel that a chunk of output has.
    chunk: usize,
    /// Input samples to an output sample: nominal, and now.
    nominal: f64,
    step: f64,
    /// Input that is not used up yet, interleaved, and how much of each channel was.
    input: Vec<f32>,
    used: u64,
    /// The position of the last output sample in the input.
    position: f64,
}

impl Resampler {
    /// A resampler of `channels` that takes `step` input samples to an output sample (1: the same rate), and gives
    /// chunks of `chunk` samples of each channel. It begins as if silence had gone in before.
    pub fn new(channels: u8, step: f64, chunk: usize) -> Result<Resampler, ResampleError> {
        let filter = SincInterpolationParameters::new(POINTS, WindowFunction::BlackmanHarris);
        let channels = usize::from(channels);
        let inner = Async::new_sinc(1.0 / step, MOST, &filter, chunk, channels, FixedAsync::Output)
            .map_err(|error| ResampleError(error.to_string()))?;
        // The filter's middle begins half its length before the first sample.
        let position = -(POINTS as f64 / 2.0);
        Ok(Resampler { inner, channels, chunk, nominal: step, step, input: Vec::new(), used: 0, position })
    }

    /// The position in the input of the next output sample; below 0 at the beginning.
    pub fn position(&self) -> f64 {
        self.position + self.step
    }

    /// Sets how many input samples the next output samples are apart; at most 1 % off the nominal.
    pub fn set_step(&mut self, step: f64) -> Result<(), ResampleError> {
        let step = step.clamp(self.nominal / MOST, self.nominal * MOST);
        // A hair inside, so that rounding refuses nothing.
        let ratio = (1.0 / step).clamp(1.000_001 / (self.nominal * MOST), MOST / (1.000_001 * self.nominal));
        self.inner.set_resample_ratio(ratio, false).map_err(|error| ResampleError(error.to_string()))?;
        self.step = 1.0 / ratio;
        Ok(())
    }

    /// Takes interleaved input.
    pub fn push(&mut self, samples: &[f32]) {
        self.input.extend_from_slice(samples);
    }

    /// Appends the next chunk to `out`; false where it needs more input.
    pub fn poll(&mut self, out: &mut Vec<f32>) -> Result<bool, ResampleError> {
        let frames = self.input.len() / self.channels;
        if frames < self.inner.input_frames_next() {
            return Ok(false);
        }
        let failed = |error: &dyn std::fmt::Display| ResampleError(error.to_string());
        let start = out.len();
        out.resize(start + self.chunk * self.channels, 0.0);
        let input = InterleavedSlice::new(&self.input[..frames * self.channels], self.channels, frames)
            .map_err(|error| failed(&error))?;
        let mut output = InterleavedSlice::new_mut(&mut out[start..], self.channels, self.chunk)
            .map_err(|error| failed(&error))?;
        let (used, given) =
            self.inner.process_into_buffer(&input, &mut output, None).map_err(|error| failed(&error))?;
        self.input.drain(..used * self.channels);
        self.used += used as u64;
        self.position += self.step * given as f64;
        Ok(true)
    }

    /// Samples of silence that bring out all that went in.
    pub fn tail(&self) -> usize {
        POINTS + (self.chunk as f64 * self.nominal * MOST) as usize + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds a sine of `hz` (input rate 1) through `steps`, one a chunk, and returns the largest deviation of the
    /// output from what the positions promise.
    fn deviation(hz: f64, step: f64, steps: &[f64]) -> f64 {
        let sine =
            |position: f64| if position < 0.0 { 0.0 } else { (std::f64::consts::TAU * hz * position).sin() };
        let mut resampler = Resampler::new(2, step, 48).unwrap();
        let (mut fed, mut worst) = (0u64, 0f64);
        for (number, step) in steps.iter().enumerate() {
            resampler.set_step(*step).unwrap();
            let first = resampler.position();
            let mut out = Vec::new();
            while !resampler.poll(&mut out).unwrap() {
                let pair: Vec<f32> = (fed..fed + 7).flat_map(|at| [sine(at as f64) as f32; 2]).collect();
                resampler.push(&pair);
                fed += 7;
            }
            assert_eq!(out.len(), 96);
            for (at, pair) in out.chunks(2).enumerate() {
                assert!(pair[0].to_bits() == pair[1].to_bits() || (pair[0] - pair[1]).abs() < 1e-6);
                let position = first + at as f64 * resampler.step;
                // The beginning is a jump from silence, which rings.
                if number > 4 {
                    worst = worst.max((f64::from(pair[0]) - sine(position)).abs());
                }
            }
        }
        worst
    }

    #[test]
    fn output_lies_where_the_position_says() {
        for step in [1.0, 44_100.0 / 48_000.0, 96_000.0 / 48_000.0, 8_000.0 / 48_000.0] {
            // An error of a hundredth of a sample is a deviation of 0.003.
            let worst = deviation(0.05, step, &vec![step; 50]);
            assert!(worst < 0.004, "step {step}: {worst}");
        }
        assert!(deviation(0.05, 1.0, &vec![1.0002; 3000]) < 0.004);
    }

    #[test]
    fn a_step_that_is_too_far_off_is_limited() {
        let mut resampler = Resampler::new(1, 1.0, 48).unwrap();
        resampler.set_step(3.0).unwrap();
        assert!((resampler.step - 1.01).abs() < 1e-4);
        resampler.set_step(0.0).unwrap();
        assert!((resampler.step - 1.0 / 1.01).abs() < 1e-4);
    }

    proptest! {
        #[test]
        fn changing_the_step_moves_nothing(steps in proptest::collection::vec(-2000i32..2000, 6..60)) {
            let steps: Vec<f64> = steps.iter().map(|ppm| 1.0 + f64::from(*ppm) * 1e-6).collect();
            prop_assert!(deviation(0.05, 1.0, &steps) < 0.004);
        }
    }
}
