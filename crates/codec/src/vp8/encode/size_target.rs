//! A frame of a certain size: one analysis, coded again with other quantisers until the size is right.

use super::EncodeError;
use super::coder::{Coder, Pass, Setting};
use super::task::Task;
use crate::vp8::header::Quantizer;
use crate::vp8::quantizer::Factors;

/// Passes that are made at most, before whatever came nearest is taken.
const PASSES: usize = 9;
/// Of the time for a picture, the share after which no further quantiser is tried where one gave a size that will do.
const NO_PASS_AFTER: f64 = 0.85;
/// How much a bit may be worth at most, in percent.
const MAX_THRIFT: u32 = 6400;

/// The quantiser that gives about `target` bytes, by what pictures take as a rule.
pub(crate) fn guess(target: usize, task: &Task<'_>) -> u8 {
    let macroblocks = (task.geometry.rows * task.geometry.columns) as u64;
    let bits = (256 * 8 * target as u64 / macroblocks).max(1);
    // Half the bits take about 15 indices more; at index 43, an inter frame takes 10 bits a macroblock.
    let natural: u64 = if task.key { 70 * 256 } else { 10 * 256 };
    let octaves = i64::from(log2(natural)) - i64::from(log2(bits));
    (43 + octaves * 15 / 256).clamp(2, 120) as u8
}

/// 256 times the logarithm, coarsely.
fn log2(value: u64) -> u32 {
    let whole = value.max(1).ilog2();
    let fraction = if whole > 8 { value >> (whole - 8) } else { value << (8 - whole) };
    256 * whole + (fraction as u32 & 255)
}

/// The step of luma's AC coefficients.
fn step(index: u8) -> u64 {
    Factors::new(i32::from(index), &Quantizer::default()).y[1] as u64
}

/// The finest index with a step of which the logarithm is at least `wanted`.
fn index_of(wanted: i64) -> u8 {
    (0..=127).find(|&index| i64::from(log2(step(index))) >= wanted).unwrap_or(127)
}

/// By how many times the logarithm of a size shrinks when that of the step grows, in quarters: frames that are
/// predicted have little but what is larger than a step, and lose it soon.
const INTER_SLOPE: i64 = 9;
const KEY_SLOPE: i64 = 4;

/// What is asked for.
#[derive(Clone, Copy)]
struct Goal {
    target: usize,
    never_above: bool,
}

impl Goal {
    fn is_met(self, bytes: usize) -> bool {
        let (low, high) =
            if self.never_above { (self.target - self.target / 25, self.target) } else { self.around() };
        (low..=high).contains(&bytes)
    }

    fn around(self) -> (usize, usize) {
        (self.target - self.target / 32, self.target + self.target / 32)
    }

    /// What the search heads for.
    fn aim(self) -> usize {
        if self.never_above { self.target - self.target / 50 } else { self.target }
    }

    /// How bad a size is; less is better.
    fn badness(self, bytes: usize) -> usize {
        let off = bytes.abs_diff(self.target);
        if self.never_above && bytes > self.target { off + (1 << 40) } else { off }
    }
}

/// Sizes on both sides of the goal: the coarsest setting that is too large, the finest that is small enough.
struct Bracket {
    above: Option<(Setting, usize)>,
    below: Option<(Setting, usize)>,
    /// Whether the two sizes that came last were on the same side.
    repeated: bool,
    was_above: bool,
    key: bool,
}

impl Bracket {
    fn new(key: bool) -> Bracket {
        Bracket { above: None, below: None, repeated: false, was_above: false, key }
    }

    fn take(&mut self, setting: Setting, bytes: usize, aim: usize) {
        let is_above = bytes > aim;
        let side = if is_above { &mut self.above } else { &mut self.below };
        self.repeated = side.is_some() && is_above == self.was_above;
        self.was_above = is_above;
        *side = Some((setting, bytes));
    }

    /// The index that should give the aim, by what frames of this kind do; at most an octave of steps away.
    fn towards(&self, setting: Setting, bytes: usize, aim: usize) -> u8 {
        let slope = if self.key { KEY_SLOPE } else { INTER_SLOPE };
        let octaves = i64::from(log2(bytes.max(1) as u64)) - i64::from(log2(aim.max(1) as u64));
        let from = i64::from(log2(step(setting.index)));
        index_of(from + (4 * octaves / slope).clamp(-256, 256))
    }

    /// What to try next.
    fn next(&self, aim: usize) -> Option<Setting> {
        match (self.above, self.below) {
            (Some(above), Some(below)) => {
                let mut share = share(above.1, below.1, aim);
                if self.repeated {
                    // Sizes bend more than the model does: at least half of the way, so that both sides move.
                    share = if self.was_above { share.min(128) } else { share.max(128) };
                }
                between(above.0, below.0, share)
            }
            (Some((setting, bytes)), None) if setting.index == 127 => {
                let thrift = u64::from(setting.thrift) * bytes as u64 * 3 / (aim.max(1) as u64 * 2);
                let thrift = thrift.max(u64::from(setting.thrift) * 2).min(u64::from(MAX_THRIFT)) as u32;
                (thrift > setting.thrift).then_some(Setting { index: 127, thrift })
            }
            (Some((setting, bytes)), None) => {
                Some(Setting::new(self.towards(setting, bytes, aim).max(setting.index + 1)))
            }
            (None, Some((setting, bytes))) => {
                let finer = self.towards(setting, bytes, aim).min(setting.index.saturating_sub(1));
                (setting.index > 0).then_some(Setting::new(finer))
            }
            (None, None) => None,
        }
    }
}

/// The share of the way from the small size to the large one at which the aim lies, by their logarithms, in 256ths.
fn share(more: usize, less: usize, aim: usize) -> u64 {
    let (high, low, at) = (log2(more as u64), log2(less.max(1) as u64), log2(aim as u64));
    let share = 256 * u64::from(at.saturating_sub(low)) / u64::from((high - low.min(high)).max(1));
    share.clamp(20, 236)
}

/// A setting that lies `share` 256ths of the way from one that gives too little to one that gives too much.
fn between(above: Setting, below: Setting, share: u64) -> Option<Setting> {
    if below.index > above.index + 1 {
        // By the logarithm of the step.
        let (fine, coarse) = (u64::from(log2(step(above.index))), u64::from(log2(step(below.index))));
        let wanted = coarse - (coarse - fine) * share / 256;
        let index = (0..=127).find(|&index| u64::from(log2(step(index))) >= wanted).unwrap_or(127);
        return Some(Setting::new(index.clamp(above.index + 1, below.index - 1)));
    }
    // Neighbours: the finer one, with bits worth more.
    let from = above.thrift;
    let to = if below.index == above.index { below.thrift } else { from + from / 4 };
    let thrift = to - (u64::from(to.max(from) - from) * share / 256) as u32;
    (thrift > above.thrift && (below.index != above.index || thrift < below.thrift))
        .then_some(Setting { index: above.index, thrift })
}

/// Codes a picture such that it takes about `target` bytes. `known` are quantisers with the sizes that they gave, of this
/// picture with the modes that are decided: the search goes on from there.
pub(crate) fn search(
    coder: &mut Coder<'_>,
    target: usize,
    never_above: bool,
    known: &[(u8, usize)],
) -> Result<Pass, EncodeError> {
    let goal = Goal { target, never_above };
    let aim = goal.aim();
    let mut bracket = Bracket::new(coder.task.key);
    // The nearest on either side.
    let above = known.iter().filter(|(_, bytes)| *bytes > aim).min_by_key(|(_, bytes)| *bytes);
    let below = known.iter().filter(|(_, bytes)| *bytes <= aim).max_by_key(|(_, bytes)| *bytes);
    for &(index, bytes) in [above, below].into_iter().flatten() {
        bracket.take(Setting::new(index), bytes, aim);
    }
    let mut setting = bracket.next(aim).unwrap_or_else(|| match (above, below) {
        // Neighbours, or the finest that there is.
        (_, Some(&(index, _))) | (Some(&(index, _)), None) => Setting::new(index),
        (None, None) => Setting::new(guess(target, &coder.task)),
    });
    let mut best: Option<(usize, Setting)> = None;
    for number in 0..PASSES {
        let pass = coder.pass(setting);
        let bytes = coder.size(&pass);
        if goal.is_met(bytes) {
            return Ok(pass);
        }
        if best.is_none_or(|(badness, _)| goal.badness(bytes) < badness) {
            best = Some((goal.badness(bytes), setting));
        }
        bracket.take(setting, bytes, aim);
        let Some(next) = bracket.next(aim) else { break };
        // What is good enough is taken where the time is gone.
        if best.is_some_and(|(badness, _)| badness < 1 << 40) && coder.task.parallel.spent() > NO_PASS_AFTER {
            break;
        }
        // Decisions for a quantiser that is far from this one do not fit.
        if number == 0 && known.is_empty() && (bytes > 2 * aim || 2 * bytes < aim) {
            coder.forget_decisions();
            bracket = Bracket::new(coder.task.key);
        }
        setting = next;
    }
    let setting = best.map_or(setting, |(_, setting)| setting);
    let pass = coder.pass(setting);
    if !never_above || coder.size(&pass) <= target {
        return Ok(pass);
    }
    least(coder, target)
}

/// A frame with nothing but the cheapest predictions.
fn least(coder: &mut Coder<'_>, target: usize) -> Result<Pass, EncodeError> {
    coder.decide_barely();
    let pass = coder.pass(Setting { index: 127, thrift: u32::MAX });
    let least = coder.size(&pass);
    if least > target { Err(EncodeError::Target { target, least }) } else { Ok(pass) }
}
