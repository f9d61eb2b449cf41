//! The clocks of the machine, and how they relate.

use glassline_media::{Time, Utc};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Reads the monotonic and the wall clock. Copied freely; all copies agree.
///
/// [`Time`]'s origin is that of `CLOCK_MONOTONIC` (usually boot), so stamps of two processes of one machine can
/// be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The machine's clocks.
    pub const fn new() -> Clock {
        Clock
    }

    /// The monotonic clock, now. About 20 ns (vDSO).
    pub fn now(&self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
    }

    /// The wall clock, now.
    pub fn utc(&self) -> Utc {
        Utc::from_nanos(nanos(clock_gettime(ClockId::Realtime)))
    }

    /// The wall clock at `time`, by the offset that holds now: a wall clock that is being slewed or stepped
    /// moves the result, never `Time`.
    pub fn utc_at(&self, time: Time) -> Utc {
        let (now, utc) = (self.now().as_nanos(), self.utc().as_nanos());
        Utc::from_nanos((utc + time.as_nanos()).saturating_sub(now))
    }
}

fn nanos(time: Timespec) -> u64 {
    let whole = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000;
    whole + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_wall_clock_of_a_monotonic_time_is_consistent() {
        let clock = Clock::new();
        let now = clock.now();
        let (first, later) = (clock.utc_at(now), clock.utc_at(now + Duration::from_secs(3)));
        let apart = later.as_nanos() - first.as_nanos();
        assert!((2_900_000_000..3_100_000_000).contains(&apart), "{apart} ns");
    }
}
