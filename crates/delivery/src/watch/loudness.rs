//! Loudness as EBU R 128 and ITU-R BS.1770-4 define it.
//!
//! The crate `ebur128` weights the samples and gives the momentary loudness (400 ms) and the true peak (at four times the rate). The
//! integrated loudness is gated as R 128 has it, over the last minute instead of a whole programme: a live stream has no end, and a
//! mean since its beginning would no longer tell that something is wrong now.

use super::alarm::Alarm;
use super::board::Board;
use ebur128::{EbuR128, Mode};
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A block begins every 100 ms, three quarters of it overlap with the one before.
const BLOCKS_A_SECOND: usize = 10;
/// What a block is long, in these steps.
const BLOCK_STEPS: usize = 4;
/// Blocks of a minute.
const BLOCKS_MAX: usize = 60 * BLOCKS_A_SECOND;
/// Fewer than these say little: three seconds, which is the short-term window of EBU Tech 3341.
const BLOCKS_MIN: usize = 3 * BLOCKS_A_SECOND;
/// Blocks below this are no programme (LUFS).
const ABSOLUTE_GATE: f64 = -70.0;
/// Blocks this far below the mean of the others are pauses (LU).
const RELATIVE_GATE: f64 = -10.0;
/// True peaks that are kept: those of a second.
const PEAKS: usize = BLOCKS_A_SECOND;

/// Follows the loudness of one stream's sound.
#[derive(Debug)]
pub(super) struct Loudness {
    meter: Option<EbuR128>,
    format: (u8, u32),
    /// Frames of the 100 ms that are begun.
    open: usize,
    /// How many of those 100 ms there have been, up to the four of a block.
    steps: usize,
    /// Momentary loudness, in LUFS.
    blocks: VecDeque<f64>,
    /// True peaks, linear.
    peaks: VecDeque<f64>,
}

impl Clone for Loudness {
    /// A meter that begins anew: the library's has no copy.
    fn clone(&self) -> Loudness {
        Loudness::new(self.format.0, self.format.1)
    }
}

impl Loudness {
    pub(super) fn new(channels: u8, rate_hz: u32) -> Loudness {
        // It refuses what no stream has (no channel, a rate beyond 2.8 MHz): then nothing is measured.
        let meter = EbuR128::new(channels.into(), rate_hz, Mode::M | Mode::TRUE_PEAK).ok();
        let (blocks, peaks) = (VecDeque::new(), VecDeque::new());
        Loudness { meter, format: (channels, rate_hz), open: 0, steps: 0, blocks, peaks }
    }

    /// Takes interleaved samples, the first of which is heard at `at`.
    pub(super) fn push(&mut self, samples: &[f32], at: Time, board: &mut Board) {
        let (channels, rate_hz) = (usize::from(self.format.0.max(1)), self.format.1.max(1));
        let step = (rate_hz as usize / BLOCKS_A_SECOND).max(1);
        let mut rest = samples;
        let mut passed = 0u64;
        while !rest.is_empty() {
            let (run, tail) = rest.split_at(rest.len().min((step - self.open) * channels));
            rest = tail;
            let Some(meter) = &mut self.meter else { return };
            if meter.add_frames_f32(run).is_err() {
                // A piece of a frame at the end.
                return;
            }
            self.open += run.len() / channels;
            passed += (run.len() / channels) as u64;
            if self.open >= step {
                self.open = 0;
                self.close(at + Duration::from_nanos(passed * 1_000_000_000 / u64::from(rate_hz)), board);
            } else if run.len() < channels {
                return;
            }
        }
    }

    fn close(&mut self, at: Time, board: &mut Board) {
        let Some(meter) = &self.meter else { return };
        let channels = u32::from(self.format.0);
        let peak = (0..channels).filter_map(|channel| meter.prev_true_peak(channel).ok()).fold(0.0, f64::max);
        keep(&mut self.peaks, peak, PEAKS);
        self.steps = (self.steps + 1).min(BLOCK_STEPS);
        if self.steps == BLOCK_STEPS {
            keep(&mut self.blocks, meter.loudness_momentary().unwrap_or(f64::NEG_INFINITY), BLOCKS_MAX);
        }
        let peak = 20.0 * self.peaks.iter().copied().fold(0.0, f64::max).log10();
        if peak > board.rules.true_peak_dbtp {
            // What the true peak is above its limit; the alarm's limit is of loudness.
            board.observe(Alarm::Loudness, true, Some(peak - board.rules.true_peak_dbtp), at);
            return;
        }
        match integrated(&self.blocks) {
            Some(loudness) if self.blocks.len() >= BLOCKS_MIN => {
                board.observe_above(Alarm::Loudness, (loudness - board.rules.target_lufs).abs(), at);
            }
            _ => board.observe(Alarm::Loudness, false, None, at),
        }
    }
}

fn keep(values: &mut VecDeque<f64>, value: f64, max: usize) {
    values.push_back(value);
    if values.len() > max {
        values.pop_front();
    }
}

/// The gated mean of blocks (BS.1770-4 §5.1), in LUFS; `None` where all are below the absolute gate.
fn integrated(blocks: &VecDeque<f64>) -> Option<f64> {
    let mean = |gate: f64| {
        let energies = blocks.iter().filter(|&&block| block >= gate).map(|block| 10f64.powf(block / 10.0));
        let (count, sum) = energies.fold((0u32, 0.0), |(count, sum), energy| (count + 1, sum + energy));
        (count > 0).then(|| 10.0 * (sum / f64::from(count)).log10())
    };
    let ungated = mean(ABSOLUTE_GATE)?;
    mean(ABSOLUTE_GATE.max(ungated + RELATIVE_GATE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{Raised, Rules, State};

    fn board() -> Board {
        let mut rules = Rules::default();
        rules[Alarm::Loudness].enabled = true;
        Board::new(rules)
    }

    /// EBU Tech 3341, test 1: a sine of 1 kHz at -23 dBFS in both channels has -23 LUFS.
    fn sine(dbfs: f64, seconds: usize) -> Vec<f32> {
        let height = 10f64.powf(dbfs / 20.0);
        let sample = |n: usize| (height * (n as f64 / 48.0 * std::f64::consts::TAU).sin()) as f32;
        (0..48_000 * seconds).flat_map(|n| [sample(n); 2]).collect()
    }

    fn measure(samples: &[f32], board: &mut Board) -> Vec<Raised> {
        let mut loudness = Loudness::new(2, 48_000);
        for (at, block) in samples.chunks(2 * 1024).enumerate() {
            loudness.push(block, Time::from_nanos(at as u64 * 1024 * 1_000_000_000 / 48_000), board);
        }
        std::iter::from_fn(|| board.poll()).collect()
    }

    #[test]
    fn the_band_is_around_the_target() {
        for (dbfs, is_outside) in
            [(-23.0, false), (-20.1, false), (-19.9, true), (-26.1, true), (-25.9, false)]
        {
            let raised = measure(&sine(dbfs, 8), &mut board());
            assert_eq!(raised.len(), usize::from(is_outside), "{dbfs}: {raised:?}");
            if let [raised] = raised[..] {
                let value = raised.value.unwrap();
                assert!((value - (dbfs + 23.0).abs()).abs() < 0.1, "{dbfs}: {value}");
            }
        }
    }

    #[test]
    fn a_peak_between_the_samples_counts() {
        // A quarter of the rate at 45 degrees: the samples reach 0.707 of the wave.
        let mut board = board();
        board.rules.target_lufs = -3.0;
        board.rules[Alarm::Loudness].limit = 40.0;
        let wave = |height: f32| -> Vec<f32> {
            (0..48_000 * 4).flat_map(|n| [height * [1.0, 1.0, -1.0, -1.0][n % 4]; 2]).collect()
        };
        assert_eq!(measure(&wave(0.60), &mut board), []);
        let raised = measure(&wave(0.68), &mut board);
        assert_eq!(raised.len(), 1);
        assert_eq!((raised[0].alarm, raised[0].state), (Alarm::Loudness, State::Begun));
    }

    #[test]
    fn pauses_do_not_count() {
        let mut samples = sine(-23.0, 4);
        samples.extend(sine(-90.0, 4));
        samples.extend(sine(-40.0, 4));
        assert_eq!(measure(&samples, &mut board()), []);
    }
}
