//! A quantiser for each picture, out of the pictures before it.
//!
//! x264's own rate control looks at the whole picture at half size before it codes its first macroblock, which takes
//! a quarter of the time that the fast presets need in all, and more than half of the time until the first slice.
//! [`RateControl`] compares some lines of the picture with the same lines of the one before instead, and takes the
//! rest from what the pictures before have cost:
//!
//! ```text
//! sampled lines ─► change against the last picture ─┐
//! sizes of the pictures so far ─► cost of a change ─┴─► expected bits at a quantiser
//!                                                             │
//! bit rate, key interval, bits spent beyond the plan ─► quantiser ─► raised until the VBV holds the picture
//! ```
//! The price: quantisers do not change within a picture (x264's adaptive quantisation and its watch on the VBV by rows
//! need that look), and a change of scene is told by the sampled lines alone.

use glassline_media::Picture;

/// Of each so many lines one is looked at.
const LINE_STEP: usize = 4;
/// How much finer key frames are quantised than the pictures that are predicted from them, as x264 does it.
const KEY_FACTOR: f64 = 1.4;
/// Bits follow the sampled change less than in proportion: what moves is found again by motion search.
const CHANGE_POWER: f64 = 0.7;
/// A sampled sample changes by this much at least: noise of the measure itself.
const LEAST_CHANGE: f64 = 0.15;
/// A picture that changes by so many times the usual change, and by so much of its own detail, shows another scene:
/// it will be coded like a key frame, whatever it is called.
const CUT_CHANGE: f64 = 2.5;
const CUT_DETAIL: f64 = 0.6;
/// How much of a new picture's cost goes into what is expected of the next.
const COST_WEIGHT: f64 = 0.3;
/// Quantisers; x264's own goes from 0 to 51, and below 8 nothing is gained that could be seen.
const QUANTIZERS: std::ops::RangeInclusive<f64> = 8.0..=51.0;
/// The VBV may be emptied so far by what is expected of a picture; the rest is for pictures that turn out larger.
const KEY_SHARE: f64 = 0.8;
const SHARE: f64 = 0.6;
/// Steps from one picture's quantiser to the next's, unless the VBV demands more.
const STEP: f64 = 4.0;
/// How full the VBV is at the start.
const INITIAL_FILL: f64 = 0.9;
/// Bits of a sample at quantiser scale 1, for a mean gradient or change of 1: what is believed before the first
/// picture of its kind.
const INTRA_COST: f64 = 0.6;
const INTER_COST: f64 = 0.5;

/// Chooses quantisers for pictures that come at a constant rate.
#[derive(Debug)]
pub(super) struct RateControl {
    /// Bits that come in while a picture lasts.
    bits_per_picture: f64,
    pictures_per_second: f64,
    vbv_bits: f64,
    /// Bits in the VBV of a receiver that has been sent everything so far.
    fill: f64,
    /// Samples a picture, of which costs are told.
    samples: f64,
    /// Luma lines of the last picture.
    lines: Vec<u8>,
    key: Cost,
    inter: Cost,
    /// Bits spent beyond the plan.
    debt: f64,
    /// The usual change of a picture against the one before.
    usual_change: Option<f64>,
    /// Pictures since the last key frame, and from that to the one before: the plan's length.
    since_key: u32,
    key_distance: f64,
    last_quantizer: Option<f64>,
    pending: Option<Pending>,
}

/// What pictures of a kind cost.
#[derive(Debug)]
struct Cost {
    /// Bits times quantiser scale, of a complexity of 1.
    bits: f64,
    /// Bits times quantiser scale of the usual picture of this kind.
    usual: f64,
    known: bool,
}

/// The picture that is being coded.
#[derive(Debug)]
struct Pending {
    key: bool,
    /// Coded like a key frame.
    intra: bool,
    complexity: f64,
    scale: f64,
    planned: f64,
}

impl Cost {
    fn new(bits: f64) -> Cost {
        Cost { bits, usual: 0.0, known: false }
    }

    fn expected(&self, complexity: f64) -> f64 {
        self.bits * complexity
    }

    fn learn(&mut self, complexity: f64, bits_at_1: f64) {
        let weight = if self.known { COST_WEIGHT } else { 1.0 };
        self.bits += weight * (bits_at_1 / complexity - self.bits);
        self.usual += weight * (bits_at_1 - self.usual);
        self.known = true;
    }
}

impl RateControl {
    /// For `size` in luma samples. `vbv_bits` holds at least one picture's bits.
    pub(super) fn new(
        samples: u64,
        pictures_per_second: f64,
        bitrate_bps: u64,
        vbv_bits: f64,
    ) -> RateControl {
        let samples = samples as f64;
        let bits_per_picture = bitrate_bps as f64 / pictures_per_second;
        RateControl {
            bits_per_picture,
            pictures_per_second,
            vbv_bits,
            fill: INITIAL_FILL * vbv_bits,
            samples,
            lines: Vec::new(),
            key: Cost::new(INTRA_COST * samples),
            inter: Cost::new(INTER_COST * samples),
            debt: 0.0,
            usual_change: None,
            since_key: 0,
            key_distance: pictures_per_second.round().max(1.0),
            last_quantizer: None,
            pending: None,
        }
    }

    /// Another rate from the next picture on; what is in the VBV keeps its time.
    pub(super) fn set_rate(&mut self, bitrate_bps: u64, vbv_bits: f64) {
        self.bits_per_picture = bitrate_bps as f64 / self.pictures_per_second;
        self.fill *= vbv_bits / self.vbv_bits;
        self.debt *= vbv_bits / self.vbv_bits;
        self.vbv_bits = vbv_bits;
    }

    /// The quantiser, 8 to 51, for a picture that is a key frame if `key`. [`RateControl::coded`] has to follow.
    pub(super) fn choose(&mut self, picture: &Picture, key: bool) -> u8 {
        let (gradient, change) = self.look(picture);
        self.choose_for(gradient, change, key)
    }

    /// The same, for mean absolute differences between neighbours on a line, and against the last picture (`None`
    /// for the first).
    fn choose_for(&mut self, gradient: f64, change: Option<f64>, key: bool) -> u8 {
        // What changes by more than its own detail is coded anew.
        let change = change.unwrap_or(f64::INFINITY).min(2.0 * gradient).max(LEAST_CHANGE);
        let usual = self.usual_change.unwrap_or(change);
        let cut = change > CUT_CHANGE * usual && change > CUT_DETAIL * gradient;
        // Behind a cut everything is new, what is usual too.
        self.usual_change = (!cut).then_some(usual + COST_WEIGHT * (change - usual));
        let intra = key || cut;
        let complexity = if intra { gradient.max(LEAST_CHANGE) } else { change.powf(CHANGE_POWER) };
        let cost = if intra { &self.key } else { &self.inter };
        let expected = cost.expected(complexity);
        let key_usual = if self.key.known { self.key.usual } else { expected };
        let inter_usual = if self.inter.known { self.inter.usual } else { INTER_COST * self.samples };

        let distance = self.key_distance.max(1.0);
        let budget = self.bits_per_picture * distance;
        let scale = (key_usual * KEY_FACTOR + (distance - 1.0) * inter_usual) / budget;
        // Half a VBV too much doubles the quantiser's scale.
        let correction = (1.0 + 2.0 * self.debt / self.vbv_bits).clamp(0.5, 2.0);
        let mut quantizer = quantizer_of(scale * correction / if key { KEY_FACTOR } else { 1.0 });
        if let Some(last) = self.last_quantizer.filter(|_| !intra) {
            quantizer = quantizer.clamp(last - STEP, last + STEP);
        }
        let share = if key { KEY_SHARE } else { SHARE };
        let most = (self.fill * share).max(self.bits_per_picture * 0.5);
        quantizer = quantizer.max(quantizer_of(expected / most));
        let quantizer = quantizer.clamp(*QUANTIZERS.start(), *QUANTIZERS.end()).round();

        let key_planned = key_usual * KEY_FACTOR / scale;
        let planned = if key {
            key_planned
        } else {
            ((budget - key_planned) / (distance - 1.0).max(1.0)).max(0.1 * self.bits_per_picture)
        };
        self.last_quantizer = Some(if key { quantizer + 6.0 * KEY_FACTOR.log2() } else { quantizer });
        self.pending = Some(Pending { key, intra, complexity, scale: scale_of(quantizer), planned });
        quantizer as u8
    }

    /// The picture has come to so many bytes.
    pub(super) fn coded(&mut self, bytes: usize) {
        let Some(pending) = self.pending.take() else { return };
        let bits = 8.0 * bytes as f64;
        let cost = if pending.intra { &mut self.key } else { &mut self.inter };
        cost.learn(pending.complexity, bits * pending.scale);
        self.debt = (self.debt + bits - pending.planned).clamp(-self.vbv_bits / 2.0, self.vbv_bits / 2.0);
        self.fill = (self.fill - bits).max(0.0) + self.bits_per_picture;
        self.fill = self.fill.min(self.vbv_bits);
        if pending.key {
            if self.since_key > 0 {
                self.key_distance = self.since_key.into();
            }
            self.since_key = 0;
        }
        self.since_key = self.since_key.saturating_add(1);
        // Without key frames for long the plan is a second of pictures alike.
        self.key_distance = self.key_distance.max(self.since_key.into()).min(10.0 * self.pictures_per_second);
    }

    /// Mean absolute differences of the sampled lines, and keeps them.
    fn look(&mut self, picture: &Picture) -> (f64, Option<f64>) {
        let luma = &picture.planes()[0];
        let width = luma.size().width as usize;
        let known = !self.lines.is_empty();
        let mut kept = 0;
        let (mut gradient, mut change) = (0u64, 0u64);
        for line in luma.lines().skip(LINE_STEP / 2).step_by(LINE_STEP) {
            gradient += difference(&line[1..], &line[..width - 1]);
            if known {
                let before = &mut self.lines[kept..][..width];
                change += difference(line, before);
                before.copy_from_slice(line);
            } else {
                self.lines.extend_from_slice(line);
            }
            kept += width;
        }
        let count = kept.max(1) as f64;
        (gradient as f64 / count, known.then_some(change as f64 / count))
    }
}

/// Sum of absolute differences, in a shape that compilers turn into vector instructions.
fn difference(a: &[u8], b: &[u8]) -> u64 {
    let (a_chunks, a_rest) = a.as_chunks::<32>();
    let (b_chunks, b_rest) = b.as_chunks::<32>();
    let sum = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(&a, &b)| u32::from(a.abs_diff(b))).sum::<u32>();
    let whole: u32 = a_chunks.iter().zip(b_chunks).map(|(a, b)| sum(a, b)).sum();
    u64::from(whole + sum(a_rest, b_rest))
}

/// x264's relation of quantiser and its scale.
fn scale_of(quantizer: f64) -> f64 {
    0.85 * ((quantizer - 12.0) / 6.0).exp2()
}

fn quantizer_of(scale: f64) -> f64 {
    12.0 + 6.0 * (scale / 0.85).max(1e-9).log2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: f64 = 50.0;
    const SAMPLES: u64 = 1280 * 720;

    /// An encoder of which picture `number` costs `cost` bits at scale 1. Gives the bits of each picture and how full
    /// the VBV was at least.
    fn play(
        control: &mut RateControl,
        bitrate: f64,
        vbv_bits: f64,
        pictures: std::ops::Range<u32>,
        cost: impl Fn(u32, bool) -> (f64, f64, f64),
    ) -> (Vec<f64>, f64) {
        let mut fill = INITIAL_FILL * vbv_bits;
        let mut least = f64::INFINITY;
        let mut all = Vec::new();
        for number in pictures {
            let key = number % 50 == 0;
            let (gradient, change, bits_at_1) = cost(number, key);
            let quantizer = control.choose_for(gradient, (number > 0).then_some(change), key);
            let bytes = (bits_at_1 / scale_of(quantizer.into()) / 8.0) as usize;
            control.coded(bytes);
            let bits = 8.0 * bytes as f64;
            fill -= bits;
            least = least.min(fill);
            fill = (fill + bitrate / RATE).min(vbv_bits);
            all.push(bits);
        }
        (all, least)
    }

    #[test]
    fn the_rate_is_met_and_quantisers_stand_still() {
        let bitrate = 5e6;
        let mut control = RateControl::new(SAMPLES, RATE, bitrate as u64, bitrate);
        let (bits, least) = play(&mut control, bitrate, bitrate, 0..1000, |number, key| {
            let noise = 1.0 + 0.1 * f64::from(number * 7919 % 11) / 11.0;
            (8.0, 3.0, noise * if key { 4e6 } else { 5e5 })
        });
        let mean = bits[250..].iter().sum::<f64>() / 750.0 * RATE;
        assert!((mean / bitrate - 1.0).abs() < 0.02, "{mean}");
        assert!(least > 0.0, "{least}");
    }

    #[test]
    fn a_change_of_scene_is_seen_and_the_vbv_holds_it() {
        let bitrate = 2e6;
        let mut control = RateControl::new(SAMPLES, RATE, bitrate as u64, bitrate);
        let (bits, least) = play(&mut control, bitrate, bitrate, 0..500, |number, key| {
            // Picture 225 shows something else: as large as a key frame.
            let cut = number == 225;
            (8.0, if cut { 30.0 } else { 1.0 }, if key || cut { 6e6 } else { 2e5 })
        });
        assert!(bits[225] > 2.0 * bitrate / RATE, "{}", bits[225]);
        assert!(least > 0.0, "{least}");
    }

    #[test]
    fn a_rate_that_changes_is_followed_within_a_second() {
        let mut control = RateControl::new(SAMPLES, RATE, 5_000_000, 5e6);
        let cost = |_: u32, key: bool| (8.0, 3.0, if key { 4e6 } else { 5e5 });
        play(&mut control, 5e6, 5e6, 0..200, cost);
        control.set_rate(1_000_000, 1e6);
        let (bits, _) = play(&mut control, 1e6, 1e6, 200..400, cost);
        let mean = bits[50..].iter().sum::<f64>() / 150.0 * RATE;
        assert!((mean / 1e6 - 1.0).abs() < 0.06, "{mean}");
    }

    #[test]
    fn sampled_lines_tell_what_a_picture_is_like() {
        use glassline_media::{PixelFormat, Size, Time};
        let mut control = RateControl::new(64 * 64, RATE, 100_000, 1e5);
        let mut picture = Picture::new(PixelFormat::I420, Size::new(64, 64).unwrap(), Time::ZERO);
        let mut draw = |shift: usize| {
            for line in picture.planes_mut()[0].lines_mut() {
                line.iter_mut().enumerate().for_each(|(x, sample)| *sample = ((x + shift) % 2 * 20) as u8);
            }
            picture.clone()
        };
        let (gradient, change) = control.look(&draw(0));
        assert!((gradient - 20.0 * 63.0 / 64.0).abs() < 1e-9 && change.is_none(), "{gradient}");
        assert_eq!(control.look(&draw(0)).1, Some(0.0));
        assert_eq!(control.look(&draw(1)).1, Some(20.0));
    }

    proptest! {
        #[test]
        fn quantisers_stay_in_range_whatever_comes(
            bitrate in 1_000u64..1_000_000_000,
            vbv_pictures in 1.0f64..200.0,
            pictures in proptest::collection::vec((0.0f64..255.0, 0.0f64..255.0, any::<bool>(), 0usize..5_000_000), 1..100),
        ) {
            let mut control = RateControl::new(SAMPLES, RATE, bitrate, vbv_pictures * bitrate as f64 / RATE);
            for (number, (gradient, change, key, bytes)) in pictures.into_iter().enumerate() {
                let quantizer = control.choose_for(gradient, (number > 0).then_some(change), key || number == 0);
                prop_assert!((8..=51).contains(&quantizer));
                control.coded(bytes);
            }
        }
    }
}
