//! When a frame, or a block of sound, was captured, by its RTP time stamp.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::{Time, Utc};
use std::time::Duration;

/// Ticks a second of video's RTP clock (ST 2110-20 §6.1.3).
const RATE: u64 = 90_000;
/// How old a frame may be by its stamp, in seconds, and how far in the future, in parts of one, for both clocks to be
/// believed to be one.
const OLDEST: i64 = 1;
const FUTURE: i64 = 200;
/// By how much the sender's clock may be slower than ours. What comes late by more than this was late, and no evidence.
const SLOWER_PPM: u64 = 200;
/// A stamp that is further away than this from where it should be begins anew.
const JUMP: Duration = Duration::from_millis(500);

/// Makes capture times of RTP time stamps.
///
/// Where the session description says that stamps are of PTP's clock (`a=ts-refclk:ptp`, `a=mediaclk:direct`) and our wall clock
/// agrees with them, a frame was captured when its stamp says. Otherwise its first packet's arrival tells: stamps are even, and
/// the earliest arrival of late ones is the nearest to the truth, so each time is that of the stamps' grid, moved to it.
#[derive(Clone, Debug)]
pub struct MediaClock {
    /// What is added to the clock's ticks, where stamps are related to PTP's.
    direct: Option<u32>,
    /// Ticks a second.
    rate: u64,
    /// The last stamp, without wrapping, when its frame came and by how much its grid is behind ours, in nanoseconds.
    last: Option<(u64, Time, i64)>,
    is_related: bool,
}

impl MediaClock {
    /// PTP counts TAI, which is ahead of UTC by this since 2017.
    pub const TAI_AHEAD: Duration = Duration::from_secs(37);

    /// `direct`: the offset of `a=mediaclk:direct=`, where the description names a clock that all share.
    pub fn new(direct: Option<u32>) -> MediaClock {
        MediaClock { direct, rate: RATE, last: None, is_related: false }
    }

    /// The same for stamps that count `rate_hz` ticks a second: sound's are its samples. At least 1.
    pub fn with_rate(direct: Option<u32>, rate_hz: u32) -> MediaClock {
        MediaClock { rate: u64::from(rate_hz.max(1)), ..MediaClock::new(direct) }
    }

    /// Whether the last time came from the stamp itself, and not from arrivals.
    pub fn is_related(&self) -> bool {
        self.is_related
    }

    /// When a frame with this time stamp was captured; its first packet came at `arrived`, which is `utc` by the wall
    /// clock. Never later than that.
    pub fn captured(&mut self, timestamp: u32, arrived: Time, utc: Utc) -> Time {
        let by_arrival = self.by_arrival(timestamp, arrived);
        let by_stamp = self.direct.and_then(|direct| {
            let tai = u128::from(utc.as_nanos()).saturating_add(MediaClock::TAI_AHEAD.as_nanos());
            let now = wrapped(tai.saturating_mul(u128::from(self.rate)) / 1_000_000_000);
            let age = i64::from(now.wrapping_add(direct).wrapping_sub(timestamp).cast_signed());
            let second = self.rate.cast_signed();
            let believed = second.saturating_neg() / FUTURE..=second.saturating_mul(OLDEST);
            believed.contains(&age).then(|| {
                let age = self.nanos(u64::try_from(age).unwrap_or(0));
                Time::from_nanos(arrived.as_nanos().saturating_sub(age.unsigned_abs()))
            })
        });
        self.is_related = by_stamp.is_some();
        by_stamp.unwrap_or(by_arrival)
    }

    /// How long so many ticks are, in nanoseconds.
    fn nanos(&self, ticks: u64) -> i64 {
        let nanos = u128::from(ticks).saturating_mul(1_000_000_000).checked_div(self.rate.into());
        nanos.and_then(|nanos| i64::try_from(nanos).ok()).unwrap_or(i64::MAX)
    }

    fn by_arrival(&mut self, timestamp: u32, arrived: Time) -> Time {
        let arrived_nanos = i64::try_from(arrived.as_nanos()).unwrap_or(i64::MAX);
        let (stamp, behind) = match self.last {
            None => {
                let stamp = 1 << 32 | u64::from(timestamp);
                (stamp, arrived_nanos.saturating_sub(self.nanos(stamp)))
            }
            Some((last, last_arrived, behind)) => {
                let step = i64::from(timestamp.wrapping_sub(wrapped(last.into())).cast_signed());
                let stamp = last.saturating_add_signed(step);
                let found = arrived_nanos.saturating_sub(self.nanos(stamp));
                let passed = arrived.as_nanos().saturating_sub(last_arrived.as_nanos());
                let slower = (passed / 1_000_000).saturating_mul(SLOWER_PPM);
                let allowed = behind.saturating_add_unsigned(slower);
                let is_jump = u128::from(found.abs_diff(behind)) > JUMP.as_nanos();
                (stamp, if is_jump { found } else { found.min(allowed) })
            }
        };
        self.last = Some((stamp, arrived, behind));
        Time::from_nanos(u64::try_from(self.nanos(stamp).saturating_add(behind)).unwrap_or(0)).min(arrived)
    }
}

/// The stamp of so many ticks: it counts modulo 2³².
pub(super) fn wrapped(ticks: u128) -> u32 {
    (ticks & 0xFFFF_FFFF) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 60 frames a second.
    const STEP: u32 = 1500;

    fn frame(number: u32) -> Time {
        Time::from_nanos(1_000_000_000 + u64::from(number) * 1_000_000_000 / 60)
    }

    #[test]
    fn late_arrivals_do_not_move_the_grid() {
        let mut clock = MediaClock::new(None);
        let mut worst = 0;
        for number in 0..600u32 {
            let late = Duration::from_micros(u64::from(number * 7919 % 3000));
            let arrived = frame(number) + late;
            let captured = clock.captured((number * STEP).wrapping_sub(300_000), arrived, Utc::default());
            assert!(captured <= arrived);
            if number > 20 {
                worst = worst.max(captured.as_nanos().abs_diff(frame(number).as_nanos()));
            }
        }
        assert!(worst < 300_000, "{worst} ns");
        assert!(!clock.is_related());
    }

    #[test]
    fn a_clock_that_is_slower_is_followed_and_a_jump_too() {
        let mut clock = MediaClock::new(None);
        for number in 0..6000u32 {
            let arrived = Time::from_nanos(frame(number).as_nanos() * 10_001 / 10_000);
            let captured = clock.captured(number * STEP, arrived, Utc::default());
            assert!(arrived.since(captured) < Duration::from_micros(100), "{number}");
        }
        let arrived = frame(6001);
        assert_eq!(clock.captured(5, arrived, Utc::default()), arrived);
    }

    #[test]
    fn a_stamp_of_a_clock_in_common_is_believed_where_it_is_plausible() {
        let mut clock = MediaClock::new(Some(100));
        let utc = Utc::from_nanos(1_700_000_000_000_000_000);
        let ticks = ((1_700_000_037u64 * RATE) as u32).wrapping_add(100);
        let arrived = Time::from_millis(5_000);
        assert_eq!(clock.captured(ticks - 900, arrived, utc), Time::from_millis(4_990));
        assert!(clock.is_related());
        let _ = clock.captured(ticks + 9_000, arrived, utc);
        assert!(!clock.is_related(), "it is of the future");
    }
}
