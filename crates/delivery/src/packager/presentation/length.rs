//! How long the segments of an epoch are, exactly: what players of DASH reckon segments' numbers by, for as long as it goes on.

use super::Segment;
use glassline_media::{FrameRate, Ticks};
use std::time::Duration;

/// The length of a segment as a rational number of seconds, so that no multiple of it is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLength {
    ticks: u64,
    timescale: u32,
}

impl SegmentLength {
    /// `ticks` of which `timescale` make a second; both at least 1.
    pub const fn new(ticks: u64, timescale: u32) -> SegmentLength {
        let ticks = if ticks == 0 { 1 } else { ticks };
        SegmentLength { ticks, timescale: if timescale == 0 { 1 } else { timescale } }
    }

    /// How long a complete segment is. Stamps of pictures are rounded to ticks of 90 kHz: what is meant is a whole number of
    /// pictures at the rate that the stream states, or at a usual one at which pictures are `seen` ticks apart, to a tick, where it is
    /// as long as one within that rounding.
    pub(in crate::packager) fn of(
        segment: &Segment,
        stated: Option<FrameRate>,
        seen: Option<u32>,
    ) -> SegmentLength {
        // 83 pictures of 50 a second are as long as 199 of 120000/1001.
        let is_seen = |rate: &FrameRate| {
            seen.is_none_or(|seen| (f64::from(Ticks::RATE) / rate.as_f64() - f64::from(seen)).abs() < 1.0)
        };
        let usual = FrameRate::USUAL.into_iter().filter(is_seen);
        let found = stated.into_iter().chain(usual).find_map(|rate| whole_pictures(segment, rate));
        found
            .filter(|_| segment.timescale == Ticks::RATE)
            .unwrap_or(SegmentLength::new(segment.duration, segment.timescale))
    }

    /// Ticks of [`SegmentLength::timescale`].
    pub const fn ticks(self) -> u64 {
        self.ticks
    }

    /// Ticks a second.
    pub const fn timescale(self) -> u32 {
        self.timescale
    }

    /// How long `count` segments are, rounded down to the nanosecond.
    pub fn times(self, count: u64) -> Duration {
        let ticks = u128::from(self.ticks) * u128::from(count);
        let timescale = u128::from(self.timescale);
        let secs = u64::try_from(ticks / timescale).unwrap_or(u64::MAX);
        Duration::new(secs, (ticks % timescale * 1_000_000_000 / timescale) as u32)
    }

    /// How far it is from another.
    pub fn abs_diff(self, other: SegmentLength) -> Duration {
        self.times(1).abs_diff(other.times(1))
    }
}

fn whole_pictures(segment: &Segment, rate: FrameRate) -> Option<SegmentLength> {
    let (numerator, denominator) = (u128::from(rate.numerator()), u128::from(rate.denominator()));
    let scale = u128::from(Ticks::RATE);
    let duration = u128::from(segment.duration);
    let pictures = (duration * numerator + scale * denominator / 2) / (scale * denominator);
    // Both ends may be rounded by half a tick, and by a whole one where senders round down.
    let is_near =
        (pictures * scale * denominator).abs_diff(duration * numerator) <= numerator + numerator / 8;
    // Fine enough for the times of what does not begin with a picture.
    let factor = Ticks::RATE.div_ceil(rate.numerator());
    let ticks = u64::try_from(pictures * denominator * u128::from(factor)).ok();
    let timescale = rate.numerator().checked_mul(factor)?;
    ticks.filter(|&ticks| ticks > 0 && is_near).map(|ticks| SegmentLength::new(ticks, timescale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(duration: u64, timescale: u32) -> Segment {
        Segment {
            number: 0,
            epoch: 1,
            timescale,
            start: 0,
            duration,
            program_date_time: glassline_media::Utc::default(),
            captured: false,
            independent: true,
            gap: false,
            complete: true,
            source: None,
            parts: Vec::new(),
            open_part: None,
            size_bytes: 0,
            key_frames: Vec::new(),
            first_key_frame: 0,
        }
    }

    proptest! {
        /// Whichever way stamps are rounded, a day of segments is as long as a day of their pictures.
        #[test]
        fn rounded_stamps_do_not_add_up(rate in 0..FrameRate::USUAL.len(), pictures in 8u64..600, from in 0u64..100, round_down: bool, states: bool) {
            let rate = FrameRate::USUAL[rate];
            let stamp = |number: u64| {
                let (numerator, ticks) = (u64::from(rate.numerator()), number * u64::from(rate.denominator()) * 90_000);
                if round_down { ticks / numerator } else { (ticks + numerator / 2) / numerator }
            };
            let seen = u32::try_from(stamp(from + 1) - stamp(from)).ok();
            let segment = segment(stamp(from + pictures) - stamp(from), 90_000);
            let length = SegmentLength::of(&segment, states.then_some(rate), seen);
            let count = 86_400 * u64::from(rate.numerator()) / u64::from(rate.denominator()) / pictures;
            let error = length.times(count).abs_diff(rate.time_of(count * pictures));
            prop_assert!(error < rate.time_of(1) / 2, "{error:?}");
        }
    }

    #[test]
    fn a_length_of_two_rates_is_of_the_one_that_is_seen() {
        let length = |seen| SegmentLength::of(&segment(149_400, 90_000), None, Some(seen)).times(1000);
        assert_eq!(length(1800), FrameRate::new(50, 1).unwrap().time_of(83_000));
        assert_eq!(length(751), FrameRate::new(120_000, 1001).unwrap().time_of(199_000));
    }

    #[test]
    fn what_is_no_number_of_pictures_is_as_long_as_it_is() {
        assert_eq!(
            SegmentLength::of(&segment(123_457, 90_000), None, None),
            SegmentLength::new(123_457, 90_000)
        );
        assert_eq!(
            SegmentLength::of(&segment(96_256, 48_000), None, None),
            SegmentLength::new(96_256, 48_000)
        );
        let odd = FrameRate::new(10, 3).unwrap();
        assert_eq!(
            SegmentLength::of(&segment(7 * 27_000, 90_000), Some(odd), None),
            SegmentLength::new(189_000, 90_000)
        );
        // An absurd rate states nothing.
        let ticks = FrameRate::new(90_000, 1).unwrap();
        let length = SegmentLength::of(&segment(180_180, 90_000), Some(ticks), None);
        assert_eq!(length.times(1), SegmentLength::new(2002, 1000).times(1));
    }
}
