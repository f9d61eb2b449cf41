//! What is wrong with sound: silence, clipping, and stereo that cancels out.
//!
//! Samples are taken in windows of a tenth of a second. Silence is judged by the peak of each window; clipping and correlation by the
//! last ten of them.

use super::alarm::Alarm;
use super::board::Board;
use super::loudness::Loudness;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Windows in a second.
const WINDOWS: usize = 10;
/// A sample stands at full scale from here on (-0.2 dBFS): what is clipped before it is coded comes out of a lossy codec a little
/// below full scale too.
const FULL_SCALE: f32 = 0.977;
/// So many in a row are clipped; one or two are the top of a wave that just fits.
const RUN: u32 = 3;
/// Channels below this are too quiet for their correlation to say anything (-50 dBFS).
const CORRELATED_RMS: f64 = 0.003_16;
/// What stands for no sound at all.
pub(super) const SILENT_DBFS: f64 = -120.0;
/// Channels that are looked at.
const CHANNELS_MAX: usize = 8;

/// Sums over one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    frames: u32,
    peak: f32,
    clipped: u32,
    samples: u32,
    left: f64,
    right: f64,
    both: f64,
}

/// Follows the sound of one stream.
#[derive(Clone, Debug)]
pub(super) struct SoundMeter {
    format: (u8, u32),
    open: Window,
    recent: VecDeque<Window>,
    /// Samples in a row at full scale, by channel.
    runs: [u32; CHANNELS_MAX],
    loudness: Option<Loudness>,
}

impl SoundMeter {
    pub(super) fn new() -> SoundMeter {
        SoundMeter {
            format: (0, 0),
            open: Window::default(),
            recent: VecDeque::new(),
            runs: [0; CHANNELS_MAX],
            loudness: None,
        }
    }

    /// Takes interleaved `samples` (-1 to 1) of `channels` at `rate_hz`, the first of which is heard at `at`. Another format than before
    /// begins anew; samples of more than eight channels, or of an impossible rate, are left out.
    pub(super) fn push(&mut self, samples: &[f32], channels: u8, rate_hz: u32, at: Time, board: &mut Board) {
        if !(1..=CHANNELS_MAX).contains(&usize::from(channels)) || !(1000..=384_000).contains(&rate_hz) {
            return;
        }
        if self.format != (channels, rate_hz) {
            *self = SoundMeter { format: (channels, rate_hz), ..SoundMeter::new() };
        }
        if board.rules[Alarm::Loudness].enabled {
            let loudness = self.loudness.get_or_insert_with(|| Loudness::new(channels, rate_hz));
            loudness.push(samples, at, board);
        } else {
            self.loudness = None;
        }
        let window_frames = rate_hz / WINDOWS as u32;
        let mut passed = 0u64;
        for frame in samples.chunks_exact(usize::from(channels)) {
            self.frame(frame);
            passed += 1;
            if self.open.frames >= window_frames {
                self.close(at + Duration::from_nanos(passed * 1_000_000_000 / u64::from(rate_hz)), board);
            }
        }
    }

    #[inline]
    fn frame(&mut self, frame: &[f32]) {
        let window = &mut self.open;
        window.frames += 1;
        window.samples += frame.len() as u32;
        for (&sample, run) in frame.iter().zip(&mut self.runs) {
            let height = sample.abs();
            // Of a NaN neither is true.
            if height > window.peak {
                window.peak = height;
            }
            if height >= FULL_SCALE {
                *run += 1;
                // The run's first samples count with the one that makes it a run.
                if *run >= RUN {
                    window.clipped += if *run == RUN { RUN } else { 1 };
                }
            } else {
                *run = 0;
            }
        }
        if let [left, right, ..] = *frame
            && left.is_finite()
            && right.is_finite()
        {
            let [left, right] = [f64::from(left), f64::from(right)];
            window.left += left * left;
            window.right += right * right;
            window.both += left * right;
        }
    }

    fn close(&mut self, at: Time, board: &mut Board) {
        let window = std::mem::take(&mut self.open);
        let peak = dbfs(f64::from(window.peak));
        let limit = board.rules[Alarm::Silence].limit;
        board.observe(Alarm::Silence, peak <= limit, Some(peak), at);
        self.recent.push_back(window);
        if self.recent.len() > WINDOWS {
            self.recent.pop_front();
        }
        if self.recent.len() < WINDOWS {
            return;
        }
        let sum = |of: fn(&Window) -> f64| self.recent.iter().map(of).sum::<f64>();
        let samples = sum(|window| f64::from(window.samples));
        let clipped = sum(|window| f64::from(window.clipped)) * 100.0 / samples.max(1.0);
        board.observe_above(Alarm::Clipping, clipped, at);
        let frames = sum(|window| f64::from(window.frames)).max(1.0);
        let [left, right, both] =
            [sum(|window| window.left), sum(|window| window.right), sum(|window| window.both)];
        let quietest = left.min(right) / frames;
        if quietest >= CORRELATED_RMS * CORRELATED_RMS {
            board.observe_below(Alarm::Phase, both / (left * right).sqrt(), at);
        } else {
            board.observe(Alarm::Phase, false, None, at);
        }
    }

    /// Part of the sound is missing before what comes next.
    pub(super) fn forget(&mut self) {
        *self = SoundMeter { format: self.format, ..SoundMeter::new() };
    }
}

/// A level in dBFS, at least [`SILENT_DBFS`].
fn dbfs(level: f64) -> f64 {
    (20.0 * level.log10()).max(SILENT_DBFS)
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
