//! Sound at a multiple of its rate: each sample becomes several, through a low-pass filter.
//!
//! The filter is a sinc under a Blackman window, in one part for each of the new samples (a polyphase interpolator). Of 8,000
//! samples a second it passes the telephone's band, up to 3,400 Hz, within a hundredth, and nothing of the images above 4,600 Hz.

use std::f64::consts::PI;

/// Old samples that a new one is made of.
const TAPS: usize = 32;
/// The middle of the filter's edge, of the highest frequency that there is.
const EDGE: f64 = 0.98;

/// Raises the rate of one channel. What comes out lags behind by [`Upsampler::DELAY`] old samples.
#[derive(Clone, Debug)]
pub struct Upsampler {
    /// The coefficients for each of the new samples, of the newest old sample first.
    phases: Vec<[f32; TAPS]>,
    /// Old samples, the newest last.
    past: [f32; TAPS],
}

impl Upsampler {
    /// Old samples by which what comes out lags behind.
    pub const DELAY: usize = TAPS / 2;

    /// `factor` new samples for each old one; at least one.
    pub fn new(factor: usize) -> Upsampler {
        let factor = factor.max(1);
        let middle = (TAPS * factor) as f64 / 2.0;
        let coefficient = |at: usize| {
            let (from_middle, place) = (at as f64 - middle, at as f64 / (2.0 * middle));
            let turn = PI * EDGE * from_middle / factor as f64;
            let sinc = if from_middle == 0.0 { 1.0 } else { turn.sin() / turn };
            let window = 0.42 - 0.5 * (2.0 * PI * place).cos() + 0.08 * (4.0 * PI * place).cos();
            sinc * window
        };
        let phase = |phase: usize| {
            let part: [f64; TAPS] = std::array::from_fn(|tap| coefficient(tap * factor + phase));
            // Each part by itself passes a constant unchanged, so that silence with an offset does not hum.
            let sum: f64 = part.iter().sum();
            part.map(|value| (value / sum) as f32)
        };
        Upsampler { phases: (0..factor).map(phase).collect(), past: [0.0; TAPS] }
    }

    /// Appends the new samples of `samples`.
    pub fn push(&mut self, samples: impl IntoIterator<Item = f32>, out: &mut Vec<f32>) {
        for sample in samples {
            self.past.rotate_left(1);
            self.past[TAPS - 1] = sample;
            let newest_first = || self.past.iter().rev();
            let made =
                |phase: &[f32; TAPS]| newest_first().zip(phase).map(|(old, part)| old * part).sum::<f32>();
            out.extend(self.phases.iter().map(made));
        }
    }

    /// What comes next does not follow what came.
    pub fn reset(&mut self) {
        self.past = [0.0; TAPS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tone of so many turns a sample of the old rate.
    fn tone(turns: f64, count: usize, rate: usize) -> Vec<f32> {
        (0..count * rate).map(|at| (2.0 * PI * turns * at as f64 / rate as f64).sin() as f32).collect()
    }

    #[test]
    fn a_tone_stays_what_it_is_and_lags_by_the_delay() {
        for factor in [2, 3, 6] {
            // 300 to 3,400 Hz of 8 kHz.
            for turns in [0.0375, 0.125, 0.375, 0.425] {
                let mut made = Vec::new();
                Upsampler::new(factor).push(tone(turns, 400, 1), &mut made);
                assert_eq!(made.len(), 400 * factor);
                let wanted = tone(turns, 400, factor);
                let delay = Upsampler::DELAY * factor;
                let worst = made[40 * factor..].iter().zip(&wanted[40 * factor - delay..]);
                let worst = worst.map(|(made, wanted)| (made - wanted).abs()).fold(0.0, f32::max);
                assert!(worst < 0.01, "{factor} {turns}: {worst}");
            }
        }
    }

    #[test]
    fn a_constant_passes_exactly_and_nothing_is_left_after_a_reset() {
        let mut upsampler = Upsampler::new(6);
        let mut made = Vec::new();
        upsampler.push([0.25; 100], &mut made);
        assert!(made[(TAPS - 1) * 6..].iter().all(|sample| (sample - 0.25).abs() < 1e-6));
        upsampler.reset();
        made.clear();
        upsampler.push([0.0; 4], &mut made);
        assert_eq!(made, [0.0; 24]);
    }
}
