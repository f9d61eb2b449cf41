//! Time, in the four meanings that live video has.
//!
//! [`Time`] is a point on the process' monotonic clock, [`Utc`] a point on the wall clock, [`Ticks`] a media
//! time stamp (90 kHz), [`FrameRate`] a rational. They are separate types so that none is mistaken for another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on the monotonic clock: nanoseconds since an origin that the process chose.
///
/// Own type and not `std::time::Instant` because a pure core needs a zero, arithmetic in tests and a
/// representation on the wire. Subtraction saturates: a stamp that is out of order gives zero, not a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// Later than any time that occurs; "never" for deadlines.
    pub const NEVER: Time = Time(u64::MAX);

    /// The time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The time `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A point on the wall clock: nanoseconds since the Unix epoch, UTC, leap seconds not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Utc(u64);

impl Utc {
    /// The point `nanos` nanoseconds after 1970-01-01T00:00:00Z.
    pub const fn from_nanos(nanos: u64) -> Utc {
        Utc(nanos)
    }

    /// The point `micros` microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: u64) -> Utc {
        Utc(micros.saturating_mul(1000))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1000
    }
}

/// A media time stamp: 90 kHz ticks, the unit of PTS and DTS (ISO/IEC 13818-1 §2.4.3.7), unwrapped to 64 bits.
///
/// The 33-bit form on the wire is [`Ticks::wrapped`]; [`Ticks::unwrap_near`] undoes it. Sums saturate: what is added to a
/// stamp comes from a stream's own words, and may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Ticks(pub i64);

impl Ticks {
    /// Ticks a second.
    pub const RATE: u32 = 90_000;
    /// The time stamps on the wire count modulo this (2³³).
    pub const WRAP: i64 = 1 << 33;

    /// The tick nearest to `time`. Exact for 292 years.
    pub const fn from_time(time: Time) -> Ticks {
        Ticks(((time.as_nanos() as u128 * 9 + 50_000) / 100_000) as i64)
    }

    /// The 33 bits that go on the wire.
    pub const fn wrapped(self) -> u64 {
        self.0.rem_euclid(Self::WRAP) as u64
    }

    /// The unwrapped stamp with the low 33 bits `wrapped` that is nearest to `reference`.
    pub const fn unwrap_near(wrapped: u64, reference: Ticks) -> Ticks {
        // Both wrap at a multiple of the stamps' own wrap.
        let mut delta = wrapped.cast_signed().wrapping_sub(reference.0).rem_euclid(Self::WRAP);
        if delta >= Self::WRAP / 2 {
            delta -= Self::WRAP;
        }
        Ticks(reference.0.saturating_add(delta))
    }

    /// Seconds, for people and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / f64::from(Self::RATE)
    }
}

impl Sub<Ticks> for Ticks {
    type Output = Ticks;
    fn sub(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(other.0))
    }
}

impl Add<Ticks> for Ticks {
    type Output = Ticks;
    fn add(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_add(other.0))
    }
}

/// Pictures a second as a rational: 50/1, 60000/1001. Both parts are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameRate {
    numerator: u32,
    denominator: u32,
}

impl FrameRate {
    /// Rates that occur, the slowest first.
    pub const USUAL: [FrameRate; 12] = {
        const fn rate(numerator: u32, denominator: u32) -> FrameRate {
            FrameRate { numerator, denominator }
        }
        [
            rate(24_000, 1001),
            rate(24, 1),
            rate(25, 1),
            rate(30_000, 1001),
            rate(30, 1),
            rate(48, 1),
            rate(50, 1),
            rate(60_000, 1001),
            rate(60, 1),
            rate(100, 1),
            rate(120_000, 1001),
            rate(120, 1),
        ]
    };

    /// `numerator / denominator` pictures a second, or `None` if a part is zero.
    pub const fn new(numerator: u32, denominator: u32) -> Option<FrameRate> {
        if numerator == 0 || denominator == 0 { None } else { Some(FrameRate { numerator, denominator }) }
    }

    /// A rate that pictures may be meant to have: one in ten seconds to a thousand a second. What parameter sets and headers say
    /// beyond that is a time base (90,000, 1,000,000), not a rate.
    pub fn is_plausible(self) -> bool {
        (0.1..=1000.0).contains(&self.as_f64())
    }

    /// The rate of pictures that are so many ticks of 90 kHz apart: a usual one where rounding to ticks may be all that it differs
    /// by.
    pub fn of_distance(ticks: u32) -> Option<FrameRate> {
        let distance = |rate: &FrameRate| (f64::from(Ticks::RATE) / rate.as_f64() - f64::from(ticks)).abs();
        let nearest = FrameRate::USUAL.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.filter(|rate| distance(rate) <= 1.0).or_else(|| FrameRate::new(Ticks::RATE, ticks))
    }

    /// The rate that is stated; where there is none, or one that is absurd or that pictures `seen` ticks of 90 kHz apart have more
    /// than twice or at most half of, the rate of those.
    pub fn believed(stated: Option<FrameRate>, seen: Option<u32>) -> Option<FrameRate> {
        let stated = stated.filter(|stated| stated.is_plausible());
        let measured = seen.and_then(FrameRate::of_distance);
        let agrees = |stated: &FrameRate| {
            let told = f64::from(Ticks::RATE) / stated.as_f64();
            seen.is_none_or(|seen| told > f64::from(seen) / 2.0 && told <= f64::from(seen) * 2.0)
        };
        stated.filter(agrees).or(measured)
    }

    /// Pictures in [`FrameRate::denominator`] seconds.
    pub const fn numerator(self) -> u32 {
        self.numerator
    }

    /// Seconds in which [`FrameRate::numerator`] pictures pass.
    pub const fn denominator(self) -> u32 {
        self.denominator
    }

    /// When picture `number` (from 0) is due after the first one, rounded down to the nanosecond. Computed from
    /// the number, so that rounding does not add up.
    pub const fn time_of(self, number: u64) -> Duration {
        let nanos = number as u128 * self.denominator as u128 * 1_000_000_000 / self.numerator as u128;
        Duration::from_nanos(nanos as u64)
    }

    /// How many pictures come in this time: the nearest whole number, the other way round of [`FrameRate::time_of`].
    pub fn pictures_in(self, time: Duration) -> u64 {
        let below = u128::from(self.denominator) * 1_000_000_000;
        let pictures = (time.as_nanos() * u128::from(self.numerator) + below / 2) / below;
        u64::try_from(pictures).unwrap_or(u64::MAX)
    }

    /// Pictures a second, for people.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_of_a_time_are_the_nearest() {
        assert_eq!(Ticks::from_time(Time::from_nanos(0)), Ticks(0));
        assert_eq!(Ticks::from_time(Time::from_nanos(1_000_000_000)), Ticks(90_000));
        assert_eq!(Ticks::from_time(Time::from_nanos(5_555)), Ticks(0));
        assert_eq!(Ticks::from_time(Time::from_nanos(5_556)), Ticks(1));
    }

    #[test]
    fn absurd_rates_are_measured() {
        let rate = |numerator, denominator| FrameRate::new(numerator, denominator);
        let believed = FrameRate::believed;
        // nginx-vod-module #1558: a VUI of ticks.
        assert_eq!(believed(rate(90_000, 1), Some(3600)), rate(25, 1));
        assert_eq!(believed(rate(90_000, 1), None), None);
        assert_eq!(believed(rate(30, 1), Some(3003)), rate(30, 1));
        assert_eq!(believed(None, Some(3003)), rate(30_000, 1001));
        assert_eq!(believed(None, Some(3754)), rate(24_000, 1001));
        assert_eq!(believed(None, Some(1501)), rate(60_000, 1001));
        assert_eq!(believed(None, Some(6000)), rate(90_000, 6000));
        // Fields counted as pictures.
        assert_eq!(believed(rate(50, 1), Some(3600)), rate(25, 1));
        assert_eq!(believed(rate(25, 1), Some(7200)), rate(90_000, 7200));
        assert_eq!(believed(rate(25, 1), Some(7199)), rate(25, 1));
        assert_eq!(believed(None, Some(0)), None);
    }

    #[test]
    fn frame_times_do_not_drift() {
        let rate = FrameRate::new(60_000, 1001).unwrap();
        assert_eq!(rate.time_of(60_000), Duration::from_secs(1001));
        assert_eq!(FrameRate::new(0, 1), None);
        assert_eq!(rate.to_string(), "60000/1001");
    }

    proptest! {
        #[test]
        fn unwrapping_finds_the_stamp_within_half_a_wrap(
            reference in -(1i64 << 50)..(1i64 << 50),
            delta in -(Ticks::WRAP / 2)..(Ticks::WRAP / 2),
        ) {
            let stamp = Ticks(reference + delta);
            prop_assert_eq!(Ticks::unwrap_near(stamp.wrapped(), Ticks(reference)), stamp);
        }

        #[test]
        fn no_stamp_overflows(wrapped: u64, reference: i64, other: i64) {
            let near = Ticks::unwrap_near(wrapped, Ticks(reference));
            prop_assert!(near.0.abs_diff(reference) <= Ticks::WRAP.unsigned_abs() / 2);
            prop_assert_eq!(Ticks(reference) + Ticks(other), Ticks(reference.saturating_add(other)));
            prop_assert_eq!(Ticks(reference) - Ticks(other), Ticks(reference.saturating_sub(other)));
        }
    }

    #[test]
    fn pictures_of_a_time_are_the_nearest_whole_number() {
        for (above, below) in [(25, 1), (30_000, 1001), (24_000, 1001), (1, 5)] {
            let rate = FrameRate::new(above, below).unwrap();
            for number in [0, 1, 2, 1000, 2_000_000] {
                assert_eq!(rate.pictures_in(rate.time_of(number)), number, "{rate}");
                assert_eq!(rate.pictures_in(rate.time_of(number) + rate.time_of(1) / 3), number, "{rate}");
            }
        }
    }
}
