//! RTP time stamps of capture times, and the grid that they lie on. Pure.

use glassline_media::{FrameRate, Time, Utc};

/// Ticks a second (ST 2110-20 §6.1.3).
const RATE: u128 = 90_000;
const SECOND: u128 = 1_000_000_000;
/// PTP counts TAI, which is ahead of UTC by this since 2017.
const TAI_AHEAD: u64 = 37 * 1_000_000_000;
/// A wall clock that is further away than this from where it was has been set. Slewing is no matter: the monotonic clock is slewed
/// along with it.
const STEP: u64 = 1_000_000;

/// How the capture clock and TAI are related.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    /// TAI less the capture clock, in nanoseconds.
    ahead: u64,
    /// How often the wall clock was set.
    steps: u64,
    last: Option<u32>,
}

impl Stamps {
    /// The wall clock says `utc` at `time`.
    pub(super) fn new(time: Time, utc: Utc) -> Stamps {
        Stamps { ahead: ahead(time, utc), steps: 0, last: None }
    }

    /// Looks whether the wall clock has been set since.
    pub(super) fn follow(&mut self, time: Time, utc: Utc) {
        let found = ahead(time, utc);
        if found.abs_diff(self.ahead) > STEP {
            self.ahead = found;
            self.steps += 1;
        }
    }

    /// How often the wall clock was set.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The stamp of what was captured then: the nearest tick of TAI since PTP's epoch, modulo 2³².
    pub(super) fn of(&self, captured: Time) -> u32 {
        self.ticks(captured, RATE)
    }

    /// The same in samples, `rate_hz` a second (ST 2110-30 §6.1).
    pub(super) fn of_sound(&self, captured: Time, rate_hz: u32) -> u32 {
        self.ticks(captured, rate_hz.into())
    }

    fn ticks(&self, captured: Time, rate: u128) -> u32 {
        let tai = u128::from(captured.as_nanos()) + u128::from(self.ahead);
        ((tai * rate + SECOND / 2) / SECOND) as u32
    }

    /// The stamps of a frame; its second field, if it has one, was captured at `second`. No frame has those of the one before
    /// it, however close they are.
    pub(super) fn of_frame(&mut self, captured: Time, second: Option<Time>) -> [u32; 2] {
        let stamp = self.of(captured);
        let first = match self.last {
            Some(last) if stamp.wrapping_sub(last) as i32 <= 0 && last.wrapping_sub(stamp) < RATE as u32 => {
                last.wrapping_add(1)
            }
            _ => stamp,
        };
        let second = second.map_or(first, |second| self.of(second));
        self.last = Some(first);
        [first, second]
    }

    /// The first whole period since PTP's epoch that begins at `time` or later (ST 2110-21 §6.2).
    pub(super) fn next_on_grid(&self, time: Time, rate: FrameRate) -> Time {
        let tai = u128::from(time.as_nanos()) + u128::from(self.ahead);
        let (above, below) = (u128::from(rate.numerator()), u128::from(rate.denominator()) * SECOND);
        let number = (tai * above).div_ceil(below);
        let at = (number * below).div_ceil(above).saturating_sub(u128::from(self.ahead));
        Time::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))
    }
}

fn ahead(time: Time, utc: Utc) -> u64 {
    utc.as_nanos().saturating_add(TAI_AHEAD).saturating_sub(time.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// The second 1,700,000,000 of Unix time, at 5 s of ours.
    fn stamps() -> Stamps {
        Stamps::new(Time::from_millis(5_000), Utc::from_nanos(1_700_000_000_000_000_000))
    }

    #[test]
    fn a_stamp_is_tai_in_ticks() {
        let mut stamps = stamps();
        let expected = (1_700_000_037u64 * 90_000) as u32;
        assert_eq!(stamps.of(Time::from_millis(5_000)), expected);
        assert_eq!(stamps.of(Time::from_nanos(5_000_005_600)), expected + 1, "the nearest");
        let sound = (1_700_000_037u64 * 48_000) as u32;
        assert_eq!(stamps.of_sound(Time::from_nanos(5_000_011_000), 48_000), sound.wrapping_add(1));
        let second = Time::from_millis(5_010);
        assert_eq!(stamps.of_frame(Time::from_millis(5_000), Some(second)), [expected, expected + 900]);
    }

    #[test]
    fn the_grid_begins_with_the_epoch() {
        let stamps = stamps();
        for (above, below) in [(50, 1), (60_000, 1001), (25, 1), (24_000, 1001)] {
            let rate = FrameRate::new(above, below).unwrap();
            let first = stamps.next_on_grid(Time::from_millis(5_003), rate);
            assert!(
                first >= Time::from_millis(5_003) && first.since(Time::from_millis(5_003)) <= rate.time_of(1)
            );
            let tai = u128::from(first.as_nanos()) + u128::from(stamps.ahead);
            let rest = tai * u128::from(above) % (SECOND * u128::from(below));
            assert!(rest < u128::from(above), "{rate}: {rest}");
            let second = stamps.next_on_grid(first + Duration::from_nanos(2), rate);
            assert!(second.since(first).abs_diff(rate.time_of(1)) < Duration::from_nanos(3));
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed_and_one_that_jitters_is_not() {
        let mut stamps = stamps();
        let before = stamps.of(Time::from_millis(6_000));
        stamps.follow(Time::from_millis(6_000), Utc::from_nanos(1_700_000_001_000_400_000));
        assert_eq!((stamps.of(Time::from_millis(6_000)), stamps.steps()), (before, 0));
        stamps.follow(Time::from_millis(6_000), Utc::from_nanos(1_700_000_002_000_000_000));
        assert_eq!((stamps.of(Time::from_millis(6_000)), stamps.steps()), (before + 90_000, 1));
    }

    #[test]
    fn frames_that_are_very_close_have_stamps_of_their_own() {
        let mut stamps = stamps();
        let at = |nanos: u64| Time::from_nanos(5_000_000_000 + nanos);
        let [first, _] = stamps.of_frame(at(0), None);
        assert_eq!(stamps.of_frame(at(100), None)[0], first + 1);
        assert_eq!(stamps.of_frame(at(200), None)[0], first + 2);
        assert_eq!(stamps.of_frame(at(1_000_000), None)[0], first + 90);
    }

    #[test]
    fn a_wall_clock_that_was_set_back_is_followed_too() {
        let mut stamps = stamps();
        let before = stamps.of(Time::from_millis(6_000));
        stamps.follow(Time::from_millis(6_000), Utc::from_nanos(1_699_999_999_000_000_000));
        assert_eq!((stamps.of(Time::from_millis(6_000)), stamps.steps()), (before - 2 * 90_000, 1));
        stamps.follow(Time::from_millis(7_000), Utc::from_nanos(1_700_000_000_001_000_000));
        assert_eq!(stamps.steps(), 1, "a millisecond is no step");
    }

    #[test]
    fn a_frame_that_was_captured_a_second_earlier_is_of_a_clock_that_was_set() {
        let mut stamps = stamps();
        let [first, _] = stamps.of_frame(Time::from_millis(9_000), None);
        let [back, _] = stamps.of_frame(Time::from_millis(7_990), None);
        assert_eq!(first.wrapping_sub(back), 1_010 * 90, "its own stamp, not the next tick");
    }

    proptest! {
        #[test]
        fn the_grid_is_never_in_front_of_the_time_and_less_than_a_period_behind(
            nanos in 0..u64::from(u32::MAX) * 1_000, rate in 0..4_usize,
        ) {
            let (above, below) = [(50, 1), (60_000, 1001), (24_000, 1001), (120, 1)][rate];
            let (stamps, rate) = (stamps(), FrameRate::new(above, below).unwrap());
            let time = Time::from_nanos(nanos);
            let at = stamps.next_on_grid(time, rate);
            // A period that is no whole number of nanoseconds is rounded up.
            prop_assert!(at >= time && at.since(time) <= rate.time_of(1) + Duration::from_nanos(1));
        }

        #[test]
        fn frames_in_their_order_have_stamps_that_ascend(
            steps in prop::collection::vec(0..50_000_000_u64, 1..50),
        ) {
            let (mut stamps, mut nanos, mut last) = (stamps(), 5_000_000_000, None);
            for step in steps {
                nanos += step;
                let [stamp, second] = stamps.of_frame(Time::from_nanos(nanos), None);
                prop_assert_eq!(stamp, second, "a frame without fields has one stamp");
                prop_assert!(last.is_none_or(|last: u32| stamp.wrapping_sub(last).cast_signed() > 0));
                last = Some(stamp);
            }
        }
    }
}
