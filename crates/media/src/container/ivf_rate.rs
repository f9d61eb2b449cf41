//! How many pictures a second an IVF file has, by its time stamps.
//!
//! The header says in which units time stamps are, and many writers make that something finer than a picture: FFmpeg 1/1000 or
//! 1/90000 second when it copies a stream, encoders of fields half a picture. So the steps from stamp to stamp decide, and the
//! header is looked at only where there are none.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::ratio;
use crate::time::FrameRate;
use std::collections::BTreeMap;

/// Different steps that are counted apart; a file with more has no rate of its own.
const STEPS_MAX: usize = 4_096;
/// So many of a hundred steps make a rate constant; the others are pictures that the encoder left out.
const CONSTANT_PERCENT: u64 = 75;
/// A time base that is no finer than this may be the rate of pictures.
const BASE_MAX_HZ: u32 = 240;
/// The rate of a single picture with a time base that tells nothing of it.
const USUAL_RATE: u32 = 25;
/// The largest denominator and numerator of a rate that is none of the usual ones.
const DENOMINATOR_MAX: u32 = 1_001;
const NUMERATOR_MAX: u32 = 1_001_000;
/// Steps of so many stamps are so fine that rounding makes some of them longer than others.
const FINE_STEP: u64 = 8;

/// Whether a frame of VP8 that begins with this byte is meant to be seen (RFC 6386 §9.1). One without bytes is the picture before
/// it once more.
pub fn is_shown(first: Option<&u8>) -> bool {
    first.is_none_or(|byte| byte & 0x10 != 0)
}

/// Collects the time stamps of shown pictures, in their order.
#[derive(Clone, Debug, Default)]
pub struct PictureRate {
    last: Option<u64>,
    /// Steps forward, by their length, and how often each has come.
    steps: BTreeMap<u64, u64>,
    count: u64,
    sum: u64,
}

impl PictureRate {
    /// Takes the next shown picture's stamp. One that is no later than the one before tells nothing.
    pub fn push(&mut self, time_stamp: u64) {
        let Some(last) = self.last.replace(time_stamp) else { return };
        let Some(step) = time_stamp.checked_sub(last).filter(|step| *step > 0) else { return };
        if self.steps.len() >= STEPS_MAX && !self.steps.contains_key(&step) {
            return;
        }
        let count = self.steps.entry(step).or_default();
        *count = count.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(step);
    }

    /// Steps that were counted.
    pub fn steps(&self) -> u64 {
        self.count
    }

    /// Pictures a second, where `time_base` is the header's rate: stamps a second.
    ///
    /// Where most steps are alike, their mean: the rate at which pictures were made, also where the encoder has left some out.
    /// Otherwise the mean of all, with which the pictures take as long as they did. A rate that is as near to a usual one as the
    /// stamps can tell is that one.
    pub fn rate(&self, time_base: FrameRate) -> FrameRate {
        let (count, sum) = self.alike().unwrap_or((self.count, self.sum));
        if count == 0 {
            let is_coarse = time_base.numerator() <= time_base.denominator().saturating_mul(BASE_MAX_HZ);
            let usual = FrameRate::new(USUAL_RATE, 1).filter(|_| !is_coarse);
            return usual.unwrap_or(time_base);
        }
        // count / sum stamps a picture, time_base stamps a second.
        let above = u128::from(count).saturating_mul(time_base.numerator().into());
        let below = u128::from(sum).saturating_mul(time_base.denominator().into());
        let is_plain =
            |rate: &FrameRate| rate.denominator() <= DENOMINATOR_MAX && rate.numerator() <= NUMERATOR_MAX;
        let exact = exact(above, below).filter(is_plain);
        usual((above, below), sum).or(exact).or_else(|| rounded(above, below)).unwrap_or(time_base)
    }

    /// How many steps are as long as the median one, but for what rounding to stamps does, and their sum; `None` where too few
    /// are.
    fn alike(&self) -> Option<(u64, u64)> {
        let mut passed = 0u64;
        let (median, _) = self.steps.iter().find(|(_, count)| {
            passed = passed.saturating_add(**count);
            passed > self.count / 2
        })?;
        let slack = u64::from(*median >= FINE_STEP);
        let near = self.steps.range(median.saturating_sub(slack)..=median.saturating_add(slack));
        let (count, sum) = near.fold((0u64, 0u64), |(count, sum), (step, times)| {
            (count.saturating_add(*times), sum.saturating_add(step.saturating_mul(*times)))
        });
        (count.saturating_mul(100) >= self.count.saturating_mul(CONSTANT_PERCENT)).then_some((count, sum))
    }
}

/// The rate that people name which is nearest to `above / below`, where it is within what stamps over `sum` units can tell.
fn usual((above, below): (u128, u128), sum: u64) -> Option<FrameRate> {
    let whole = (1..=BASE_MAX_HZ).map(|rate| (rate, 1));
    let over_1001 = [24u32, 30, 48, 60, 72, 96, 120, 240].map(|rate| (rate.saturating_mul(1_000), 1_001));
    // |above/below - n/d| · below·d, and what of it rounding may be: a stamp at either end.
    let distance = |(n, d): (u32, u32)| {
        above
            .saturating_mul(d.into())
            .abs_diff(u128::from(n).saturating_mul(below))
            .checked_div(d.into())
            .unwrap_or(u128::MAX)
    };
    let nearest = whole.chain(over_1001).min_by_key(|rate| distance(*rate))?;
    let room = above.checked_div(sum.into())?.saturating_add(above / 1_000_000);
    let is_near = distance(nearest) <= room;
    FrameRate::new(nearest.0, nearest.1).filter(|_| is_near)
}

fn exact(above: u128, below: u128) -> Option<FrameRate> {
    let (above, below) = ratio::shortened(above, below);
    FrameRate::new(u32::try_from(above).ok()?, u32::try_from(below).ok()?)
}

/// In thousandths; below that in seconds a picture.
fn rounded(above: u128, below: u128) -> Option<FrameRate> {
    let half = below / 2;
    let thousandths = above.checked_mul(1_000)?.checked_add(half)?.checked_div(below)?;
    if thousandths > 0 {
        return exact(thousandths, 1_000);
    }
    exact(1, below.checked_div(above)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(stamps: impl IntoIterator<Item = u64>, base: (u32, u32)) -> (u32, u32) {
        let mut rate = PictureRate::default();
        stamps.into_iter().for_each(|stamp| rate.push(stamp));
        let rate = rate.rate(FrameRate::new(base.0, base.1).unwrap());
        (rate.numerator(), rate.denominator())
    }

    /// Stamps of a rate in units of a time base, rounded down as writers do.
    fn stamps(frames: u64, rate: (u64, u64), base: u64) -> Vec<u64> {
        (0..frames).map(|frame| frame * rate.1 * base / rate.0).collect()
    }

    #[test]
    fn the_rate_is_that_of_pictures_whatever_stamps_count() {
        for base in [25, 50, 1_000, 12_800, 90_000] {
            for frames in [2, 3, 10, 250] {
                let found = of(stamps(frames, (25, 1), base.into()), (base, 1));
                assert_eq!(found, (25, 1), "{frames} frames in 1/{base} s");
            }
        }
        for rate in
            [(24_000, 1_001), (30_000, 1_001), (60_000, 1_001), (24, 1), (30, 1), (50, 1), (60, 1), (120, 1)]
        {
            let found = of(stamps(300, rate, 90_000), (90_000, 1));
            assert_eq!((u64::from(found.0), u64::from(found.1)), rate);
            // A minute tells 30 from 29.97 in milliseconds.
            let found = of(stamps(2_000, rate, 1_000), (1_000, 1));
            assert_eq!((u64::from(found.0), u64::from(found.1)), rate);
        }
        assert_eq!(of(stamps(100, (15, 2), 1_000), (1_000, 1)), (15, 2));
        assert_eq!(of((0..10).map(|frame| 7 + frame), (30_000, 1_001)), (30_000, 1_001));
        // A picture every ten seconds.
        assert_eq!(of((0..10).map(|frame| frame * 10_000), (1_000, 1)), (1, 10));
    }

    #[test]
    fn pictures_that_were_left_out_change_no_rate_and_variable_ones_have_their_mean() {
        let all = stamps(100, (25, 1), 1_000);
        let some = all.iter().copied().filter(|stamp| stamp / 40 % 9 != 4);
        assert_eq!(of(some, (1_000, 1)), (25, 1));
        assert_eq!(of((0..100).filter(|number| number % 7 != 3), (30, 1)), (30, 1));
        // 30 pictures in 2 s, at any intervals.
        let mut at = 0;
        let variable = (0..31u64).map(|number| {
            let stamp = at;
            at += if number % 2 == 0 { 17 + number } else { 116 - number + 1 };
            stamp
        });
        let all: Vec<u64> = variable.collect();
        let (above, below) = of(all.clone(), (1_000, 1));
        let expected = 30.0 * 1_000.0 / (all[30] - all[0]) as f64;
        assert!(
            (f64::from(above) / f64::from(below) - expected).abs() < 0.01,
            "{above}/{below} is not {expected}"
        );
    }

    #[test]
    fn without_steps_a_sensible_time_base_counts() {
        assert_eq!(of([0], (30, 1)), (30, 1));
        assert_eq!(of([], (30_000, 1_001)), (30_000, 1_001));
        assert_eq!(of([5], (90_000, 1)), (25, 1));
        assert_eq!(of([5, 5, 5, 4], (1_000, 1)), (25, 1));
    }

    proptest! {
        #[test]
        fn any_stamps_have_a_rate(stamps in prop::collection::vec(any::<u64>(), 0..50), above in 1u32.., below in 1u32..) {
            of(stamps, (above, below));
        }
    }
}
