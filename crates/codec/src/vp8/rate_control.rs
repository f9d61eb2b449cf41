//! Rate control for real time: how finely to quantise the next frame, so that a link of constant rate carries the
//! stream and a receiver's buffer never runs dry.
//!
//! ```text
//! quantizer(role) ─► encode ─► judge(…) ─┬► Keep ─────────────► encoded(…) ─► quantizer(role) …
//!                       ▲                └► Again(quantizer) ┐
//!                       └───────────────────────────────────┘
//! ```
//! The buffer is the decoder's (VBV): the link fills it at the bit rate, each frame is taken out whole when its time
//! has come. A frame larger than what has arrived by then would be late: it is encoded again, coarser. No frame is left
//! out.
//!
//! Quality is best where the quantiser hardly moves, so it follows the content slowly and the buffer takes up what
//! single frames need: bits are modelled as *complexity / step^exponent*, complexity being a running mean over what
//! frames took, and the share of the rate that a frame may spend goes up and down with the buffer's distance from
//! where it should be. A cut is met by the buffer first, and paid back within about its length. Key frames at regular
//! distance are saved for beforehand. Long-term references are finer than their neighbours; the mean over the frames
//! around them, in which they count with their neighbours' step, makes room for that.

use super::plan::Role;
use super::quantizer::{MAX_INDEX, ac_factor};
use glassline_media::FrameRate;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Where the buffer stands when the first frame is taken out, and where it should stand later.
const INITIAL_FULLNESS: f64 = 0.5;
const WANTED_FULLNESS: f64 = 0.6;
/// What the first frame may take of the buffer: nothing is known yet from which a better size could be estimated.
const FIRST_FRAME_SHARE: f64 = 0.6;
/// What any frame may take of the buffer; the rest keeps the frames behind it from starving.
const MOST_SHARE: f64 = 0.75;
/// Bits ∝ step^−exponent.
const INTER_EXPONENT: f64 = 1.15;
const KEY_EXPONENT: f64 = 0.8;
/// A key frame's step by that of the frames around it, which are predicted from it: where the next one is near, and
/// where none comes but for cuts.
const KEY_STEP: f64 = 0.85;
const LONE_KEY_STEP: f64 = 0.7;
/// The same for a long-term reference, and what it may take of the buffer.
const LONG_TERM_STEP: f64 = 0.75;
const LONG_TERM_SHARE: f64 = 0.4;
/// The complexity is the mean over so much time.
const MEMORY: Duration = Duration::from_millis(600);
/// A frame counts as at most so many times as complex as the mean: cuts are exceptions.
const OUTLIER: f64 = 3.0;
/// A key frame has this many times the bits of a frame that is predicted, until it is known better.
const KEY_BY_INTER: f64 = 8.0;
/// How much the step may grow or shrink from frame to frame.
const STEP_UP: f64 = 1.12;
const STEP_DOWN: f64 = 0.94;
/// The same where the buffer is nearly empty, or nearly full.
const STEP_UP_IN_NEED: f64 = 1.4;
const NEED: f64 = 0.25;
const STEP_DOWN_WITH_ROOM: f64 = 0.85;
const ROOM: f64 = 0.85;
/// A buffer of fewer frames has no room for errors of the model: frames are aimed lower, and the step may move freely.
const FEW_FRAMES: f64 = 6.0;
/// Where the first frame begins, and how often it may become finer.
const FIRST_STEP: f64 = 40.0;
const FINER_TRIES: u32 = 2;

/// What the stream is to keep to.
#[derive(Clone, Debug, PartialEq)]
pub struct RateSettings {
    /// Bits a second of the link: the mean, and over the buffer the maximum. At least 1,000.
    pub bitrate_bps: u64,
    /// Frames a second.
    pub frame_rate: FrameRate,
    /// The buffer in time at `bitrate_bps`; it holds one frame's share at least.
    pub buffer: Duration,
    /// Frames from one key frame to the next, where they come regularly.
    pub key_interval: Option<u32>,
    /// Quantiser indices that may be used, within 0 to 127.
    pub quantizers: RangeInclusive<u8>,
}

impl RateSettings {
    /// A bit rate and a buffer; key frames only where they are asked for; quantiser indices from 2 on.
    pub fn new(bitrate_bps: u64, frame_rate: FrameRate, buffer: Duration) -> RateSettings {
        RateSettings { bitrate_bps, frame_rate, buffer, key_interval: None, quantizers: 2..=MAX_INDEX as u8 }
    }
}

/// Whether a frame may be sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits, or nothing coarser is left.
    Keep,
    /// It would be late, or starve those behind it; or it is the first one, and far from the size that it may have.
    /// Encode it again with this quantiser index.
    Again(u8),
}

/// Keeps count of a stream and plans its frames. All times are those of the stream; nothing here reads a clock.
#[derive(Clone, Debug)]
pub struct RateControl {
    frame_bits: f64,
    buffer_bits: f64,
    key_interval: Option<f64>,
    /// Steps at the ends of the range.
    steps: (f64, f64),
    quantizers: RangeInclusive<u8>,
    frames_per_s: f64,
    /// Bits in the buffer when the next frame is taken out.
    fullness: f64,
    inter: Model,
    key: Model,
    /// Of the frame before, as it was planned: not rounded to an index.
    step: Option<f64>,
    since_key: f64,
    late: u64,
}

/// How many bits frames of a kind take.
#[derive(Clone, Copy, Debug)]
struct Model {
    exponent: f64,
    /// Mean over the frames so far, bits · step^exponent.
    complexity: Option<f64>,
    frames: f64,
    /// Whether the newest frame was many times as complex as the mean.
    outlier: bool,
}

impl Model {
    fn bits(&self, step: f64) -> Option<f64> {
        Some(self.complexity? / step.powf(self.exponent))
    }

    /// The step at which a frame takes `bits`.
    fn step(&self, bits: f64) -> Option<f64> {
        Some((self.complexity? / bits).powf(1.0 / self.exponent))
    }

    /// Learns from a frame; the mean is over `memory` frames.
    fn learn(&mut self, bits: f64, step: f64, memory: f64) {
        let found = bits * step.powf(self.exponent);
        let is_outlier = self.complexity.is_some_and(|mean| self.frames >= 1.0 && found > mean * OUTLIER);
        // A cut is one frame; where the next one is as large, the scene is another.
        let is_new = is_outlier && self.outlier;
        self.frames = if is_new { 1.0 } else { (self.frames + 1.0).min(memory) };
        self.complexity = Some(match self.complexity {
            Some(mean) if !is_new => mean + (found.min(mean * OUTLIER) - mean) / self.frames,
            _ => found,
        });
        self.outlier = is_outlier;
    }
}

impl RateControl {
    /// A stream that begins. Settings out of range are taken as the nearest that can be: at least 1,000 bit/s, a
    /// buffer of one frame, quantiser indices up to 127.
    pub fn new(settings: &RateSettings) -> RateControl {
        let frames_per_s = settings.frame_rate.as_f64();
        let rate = settings.bitrate_bps.max(1000) as f64;
        let frame_bits = rate / frames_per_s;
        let buffer_bits = (rate * settings.buffer.as_secs_f64()).max(frame_bits);
        let highest = (*settings.quantizers.end()).min(MAX_INDEX as u8);
        let lowest = (*settings.quantizers.start()).min(highest);
        let model = |exponent| Model { exponent, complexity: None, frames: 0.0, outlier: false };
        RateControl {
            frame_bits,
            buffer_bits,
            key_interval: settings.key_interval.map(|frames| f64::from(frames.max(1))),
            steps: (step_of(lowest), step_of(highest)),
            quantizers: lowest..=highest,
            frames_per_s,
            fullness: (INITIAL_FULLNESS * buffer_bits).max(frame_bits),
            inter: model(INTER_EXPONENT),
            key: model(KEY_EXPONENT),
            step: None,
            since_key: 0.0,
            late: 0,
        }
    }

    /// The quantiser index of the next frame, which will have this role.
    pub fn quantizer(&self, role: Role) -> u8 {
        self.quantizer_of(self.wanted_step(role).unwrap_or(FIRST_STEP))
    }

    /// What becomes of a frame of `bytes` that was encoded with `quantizer`, as the `tries`-th try, from 1. The number
    /// of tries is bounded: a frame that is too large becomes coarser each time.
    pub fn judge(&self, role: Role, quantizer: u8, bytes: usize, tries: u32) -> Verdict {
        let bits = bytes as f64 * 8.0;
        let model = if role == Role::Key { &self.key } else { &self.inter };
        let step_for = |wanted: f64| step_of(quantizer) * (bits / wanted).powf(1.0 / model.exponent);
        if bits > self.most_bits() {
            let coarser =
                self.quantizer_of(step_for(self.most_bits() * 0.9)).max(quantizer.saturating_add(1));
            let last = *self.quantizers.end();
            return if quantizer >= last { Verdict::Keep } else { Verdict::Again(coarser.min(last)) };
        }
        // Nothing was known of the first frame.
        let first = FIRST_FRAME_SHARE * self.fullness;
        if self.step.is_none() && tries <= FINER_TRIES && bits < first * 0.8 {
            let finer = self.quantizer_of(step_for(first));
            if finer < quantizer {
                return Verdict::Again(finer);
            }
        }
        Verdict::Keep
    }

    /// Says what became of the frame: its size, the quantiser index that it has, and its role.
    pub fn encoded(&mut self, bytes: usize, quantizer: u8, role: Role) {
        let bits = bytes as f64 * 8.0;
        // What was planned is finer than an index; where it was coded otherwise, the index is what counts.
        let planned = self.wanted_step(role).filter(|&step| self.quantizer_of(step) == quantizer);
        let step = planned.unwrap_or(step_of(quantizer));
        let memory = (MEMORY.as_secs_f64() * self.frames_per_s).max(2.0);
        // What its neighbours would have had.
        let around = step / self.factor(role);
        if role == Role::Key {
            self.key.learn(bits, step_of(quantizer), 2.0);
            if self.inter.complexity.is_none() {
                let guess = bits / KEY_BY_INTER * step.powf(INTER_EXPONENT);
                self.inter.complexity = Some(guess);
            }
            self.since_key = 0.0;
        } else {
            self.inter.learn(bits, step_of(quantizer) / self.factor(role), memory);
        }
        self.step = Some(around.clamp(self.steps.0, self.steps.1));
        self.since_key += 1.0;
        self.late += u64::from(bits > self.fullness);
        self.fullness = (self.fullness - bits + self.frame_bits).min(self.buffer_bits);
    }

    /// Bits in the decoder's buffer when it takes the next frame out, in time of the link; below zero where it has to
    /// wait.
    pub fn buffered_s(&self) -> f64 {
        self.fullness / self.frame_bits / self.frames_per_s
    }

    /// Frames that came too late for a decoder with this buffer: the encoder could not make them small enough.
    pub fn late_frames(&self) -> u64 {
        self.late
    }

    /// Bits that a frame may take at most.
    fn most_bits(&self) -> f64 {
        let share = if self.has_few_frames() { 1.0 } else { MOST_SHARE };
        (share * self.fullness).max(self.fullness.min(self.frame_bits))
    }

    /// Whether the buffer has no room for errors of the model.
    fn has_few_frames(&self) -> bool {
        self.buffer_bits < FEW_FRAMES * self.frame_bits
    }

    /// Bits that the next frame should take if it is no key frame.
    fn wanted_bits(&self) -> f64 {
        // A regular key frame takes `excess` more than a frame's share. It is saved for evenly, so that the buffer is
        // highest in front of it.
        let step = self.step.unwrap_or(self.steps.1);
        let excess = match (self.key_interval, self.key.bits(step * self.factor(Role::Key))) {
            (Some(interval), Some(bits)) if interval > 1.0 => {
                let most = (self.buffer_bits * 0.7).min(self.frame_bits * (interval - 1.0) * 0.8);
                (bits - self.frame_bits).clamp(0.0, most)
            }
            _ => 0.0,
        };
        let interval = self.key_interval.unwrap_or(f64::INFINITY);
        let progress = if excess > 0.0 { (self.since_key / interval).min(1.0) - 0.5 } else { 0.0 };
        let wanted = (WANTED_FULLNESS * self.buffer_bits + excess * progress)
            .clamp(0.1 * self.buffer_bits, 0.95 * self.buffer_bits);
        let base = self.frame_bits - excess / interval;
        if self.has_few_frames() {
            return 0.85 * self.fullness.clamp(0.1 * self.frame_bits, self.frame_bits);
        }
        let frames = self.buffer_bits / self.frame_bits;
        let bits = base + (self.fullness - wanted) / frames * CORRECTION;
        bits.clamp(0.2 * base, 4.0 * base)
    }

    /// The step of the next frame's quantiser; none before anything is known.
    fn wanted_step(&self, role: Role) -> Option<f64> {
        let before = self.step?;
        let fresh = self.inter.frames < 1.0;
        let up = if self.fullness < NEED * self.buffer_bits { STEP_UP_IN_NEED } else { STEP_UP };
        let down = if self.fullness > ROOM * self.buffer_bits { STEP_DOWN_WITH_ROOM } else { STEP_DOWN };
        let free = self.inter.step(self.wanted_bits())?;
        let step = match (self.has_few_frames(), fresh) {
            (true, _) => free,
            (_, true) => free.clamp(before / 1.5, before * 2.0),
            _ => free.clamp(before * down, before * up),
        };
        // Finer than the frames around it, but not so large that they starve.
        let affordable = match role {
            Role::Key => self.key.step(MOST_SHARE * self.fullness * 0.8).unwrap_or(0.0),
            Role::LongTerm => self.inter.step(LONG_TERM_SHARE * self.fullness)?.min(step),
            Role::Inter => 0.0,
        };
        Some((step * self.factor(role)).max(affordable).clamp(self.steps.0, self.steps.1))
    }

    /// The step of a frame of this role by that of the frames around it.
    fn factor(&self, role: Role) -> f64 {
        match role {
            Role::Key if self.key_interval.is_some() => KEY_STEP,
            Role::Key => LONE_KEY_STEP,
            Role::LongTerm if !self.has_few_frames() => LONG_TERM_STEP,
            _ => 1.0,
        }
    }

    /// The index with the nearest step, by ratio.
    fn quantizer_of(&self, step: f64) -> u8 {
        let distance = |index: &u8| (step_of(*index) / step).ln().abs();
        let nearest = self.quantizers.clone().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.unwrap_or(*self.quantizers.end())
    }
}

/// How strongly the buffer's distance from where it should be changes what frames may take: 1 pays it back within
/// the buffer's length.
const CORRECTION: f64 = 1.0;

/// The factor of AC coefficients, which stands for a quantiser index.
fn step_of(quantizer: u8) -> f64 {
    f64::from(ac_factor(quantizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a synthetic encoder: bits = complexity / step^exponent, with noise that is the same each time.
    struct Scene {
        complexity: f64,
        exponent: f64,
        frames: usize,
    }

    #[derive(Debug, Default)]
    struct Run {
        bits: Vec<f64>,
        quantizers: Vec<u8>,
        least_buffered_s: f64,
        again: usize,
        late: u64,
    }

    fn settings(bitrate_bps: u64) -> RateSettings {
        RateSettings::new(bitrate_bps, FrameRate::new(30, 1).unwrap(), Duration::from_secs(1))
    }

    /// A scene's first frame, where it is no key frame, is six times as large: all is new.
    fn simulate(settings: &RateSettings, scenes: &[Scene]) -> Run {
        simulate_with(settings, scenes, None)
    }

    /// With a long-term reference every so many frames.
    fn simulate_with(settings: &RateSettings, scenes: &[Scene], long_term: Option<u32>) -> Run {
        let mut control = RateControl::new(settings);
        let mut run = Run { least_buffered_s: f64::INFINITY, ..Run::default() };
        let (mut noise, mut number) = (12345u32, 0u32);
        for scene in scenes {
            for at in 0..scene.frames {
                let key =
                    number == 0 || settings.key_interval.is_some_and(|every| number.is_multiple_of(every));
                let role = if key {
                    Role::Key
                } else if long_term.is_some_and(|every| number.is_multiple_of(every)) {
                    Role::LongTerm
                } else {
                    Role::Inter
                };
                number += 1;
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let factor = 0.8 + 0.4 * f64::from(noise >> 8) / f64::from(1 << 24);
                let kind = if key {
                    8.0
                } else if at == 0 {
                    6.0
                } else {
                    1.0
                };
                let bytes_at = |quantizer: u8| {
                    let bits = scene.complexity * factor * kind / step_of(quantizer).powf(scene.exponent);
                    ((bits / 8.0) as usize).max(30)
                };
                let (mut quantizer, mut tries) = (control.quantizer(role), 1);
                while let Verdict::Again(other) = control.judge(role, quantizer, bytes_at(quantizer), tries) {
                    quantizer = other;
                    tries += 1;
                    assert!(tries < 20, "too many tries");
                }
                run.again += usize::from(number > 1 && tries > 1);
                control.encoded(bytes_at(quantizer), quantizer, role);
                run.bits.push(bytes_at(quantizer) as f64 * 8.0);
                run.quantizers.push(quantizer);
                run.least_buffered_s = run.least_buffered_s.min(control.buffered_s());
            }
        }
        run.late = control.late_frames();
        run
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn the_rate_is_kept_and_the_quantiser_steady() {
        for bitrate in [300_000, 600_000, 1_200_000, 2_400_000, 4_800_000] {
            for exponent in [0.9, 1.15, 1.4] {
                // A step of 30 gives 1.2 Mbit/s.
                let scene = Scene { complexity: 40_000.0 * 30f64.powf(exponent), exponent, frames: 600 };
                let run = simulate(&settings(bitrate), &[scene]);
                let rate = mean(&run.bits[60..]) * 30.0;
                assert!((rate / bitrate as f64 - 1.0).abs() < 0.03, "{bitrate} {exponent}: {rate}");
                assert_eq!(run.late, 0);
                let steady = &run.quantizers[90..];
                let (low, high) = (steady.iter().min().unwrap(), steady.iter().max().unwrap());
                assert!(step_of(*high) / step_of(*low) < 1.35, "{bitrate} {exponent}: {low} to {high}");
            }
        }
    }

    #[test]
    fn cuts_and_harder_scenes_never_come_late() {
        let scenes = [1.0, 3.0, 0.4, 8.0, 0.2, 2.0].map(|by| Scene {
            complexity: by * 2e6,
            exponent: 1.1,
            frames: 75,
        });
        for bitrate in [1_200_000, 2_400_000] {
            let run = simulate(&settings(bitrate), &scenes);
            assert_eq!(run.late, 0, "{bitrate}");
            let rate = mean(&run.bits) * 30.0;
            assert!((0.88..1.03).contains(&(rate / bitrate as f64)), "{bitrate}: {rate}");
            // Encoding twice is for cuts into what is much harder.
            assert!(run.again <= 10, "{}", run.again);
        }
    }

    #[test]
    fn regular_key_frames_are_saved_for() {
        let with_keys = RateSettings { key_interval: Some(30), ..settings(1_200_000) };
        let run = simulate(&with_keys, &[Scene { complexity: 1e6, exponent: 1.1, frames: 600 }]);
        let rate = mean(&run.bits[60..]) * 30.0;
        assert!((rate / 1.2e6 - 1.0).abs() < 0.04, "{rate}");
        assert_eq!(run.late, 0);
        // Between key frames the quantiser does not swing.
        let inter: Vec<u8> = (300..600).filter(|at| at % 30 != 0).map(|at| run.quantizers[at]).collect();
        let (low, high) = (inter.iter().min().unwrap(), inter.iter().max().unwrap());
        assert!(step_of(*high) / step_of(*low) < 1.5, "{low} to {high}");
    }

    #[test]
    fn long_term_references_are_finer_and_the_rate_is_kept_all_the_same() {
        let scene = Scene { complexity: 1e6, exponent: 1.1, frames: 600 };
        let run = simulate_with(&settings(1_200_000), &[scene], Some(20));
        let rate = mean(&run.bits[60..]) * 30.0;
        assert!((rate / 1.2e6 - 1.0).abs() < 0.04, "{rate}");
        assert_eq!(run.late, 0);
        for at in (100..600).step_by(20) {
            let around = step_of(run.quantizers[at - 1]).min(step_of(run.quantizers[at + 1]));
            assert!(step_of(run.quantizers[at]) < 0.9 * around, "{at}");
        }
        let inter: Vec<u8> = (300..600).filter(|at| at % 20 != 0).map(|at| run.quantizers[at]).collect();
        let (low, high) = (inter.iter().min().unwrap(), inter.iter().max().unwrap());
        assert!(step_of(*high) / step_of(*low) < 1.5, "{low} to {high}");
    }

    #[test]
    fn a_buffer_of_one_frame_gives_every_frame_a_size() {
        let small = RateSettings { buffer: Duration::from_millis(33), ..settings(1_200_000) };
        let run = simulate(&small, &[Scene { complexity: 1e6, exponent: 1.1, frames: 300 }]);
        assert_eq!(run.late, 0);
        assert!(run.bits.iter().all(|&bits| bits <= 40_000.0));
        assert!(mean(&run.bits[5..]) > 0.6 * 40_000.0, "{}", mean(&run.bits));
    }

    #[test]
    fn easy_content_ends_at_the_finest_quantiser_and_hard_content_at_the_coarsest() {
        let easy = simulate(&settings(2_400_000), &[Scene { complexity: 5e3, exponent: 1.0, frames: 200 }]);
        assert_eq!(easy.quantizers.last(), Some(&2));
        let hard = simulate(&settings(1_000), &[Scene { complexity: 1e9, exponent: 1.0, frames: 50 }]);
        assert_eq!(hard.quantizers.last(), Some(&127));
        assert!(hard.late > 0 && hard.least_buffered_s < 0.0, "what cannot be is told: {hard:?}");
    }

    #[test]
    fn settings_out_of_range_are_brought_into_it() {
        let backwards = std::ops::RangeInclusive::new(200, 140);
        let odd = RateSettings { quantizers: backwards, buffer: Duration::ZERO, ..settings(0) };
        let mut control = RateControl::new(&odd);
        control.encoded(1000, 127, Role::Key);
        assert_eq!(control.judge(Role::Inter, 127, usize::MAX, 1), Verdict::Keep);
        assert_eq!(control.quantizer(Role::Inter), 127);
        assert!(control.buffered_s().is_finite());
    }
}
