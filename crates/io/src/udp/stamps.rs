//! When datagrams came, by the monotonic clock: the kernel's stamps are of the wall clock, which may be set meanwhile.

use crate::clock::Clock;
use glassline_media::Time;
use std::time::Duration;

/// By how much the wall clock may go another way than the monotonic one from one call to the next before it counts as set. A
/// program that slews it changes it by an eighth of any time at most (NTP by far less).
const SET_BY: Duration = Duration::from_millis(2);
const SLEWED_BY: u32 = 8;

/// Both clocks at one moment, nanoseconds of the wall clock's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Time,
    pub(super) wall: u64,
}

impl Moment {
    /// Now. The wall clock is read first: an interruption between the two lets datagrams seem to have come later than they did,
    /// as late at most as if there were no stamps.
    pub(super) fn read(clock: Clock) -> Moment {
        let wall = clock.kernels_utc().as_nanos();
        Moment { now: clock.now(), wall }
    }
}

/// Makes times of stamps. The offset of the two clocks is that of each call; where the wall clock was set since the call before,
/// stamps may be of before that and are not believed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    before: Option<Moment>,
    /// The newest time that was given.
    latest: Time,
}

impl Stamps {
    /// A call has brought something, at `moment`. `true`: its stamps can be believed.
    pub(super) fn begin(&mut self, moment: Moment) -> bool {
        let Some(before) = self.before.replace(moment) else { return true };
        let passed = moment.now - before.now;
        let wall = i128::from(moment.wall) - i128::from(before.wall);
        let apart = (wall - passed.as_nanos() as i128).unsigned_abs();
        apart <= (SET_BY + passed / SLEWED_BY).as_nanos()
    }

    /// When a datagram with this stamp came: no later than now, and no earlier than the one before it.
    pub(super) fn arrival(&mut self, moment: Moment, stamp: Option<u64>) -> Time {
        let age = stamp.map_or(0, |stamp| moment.wall.saturating_sub(stamp));
        let at = Time::from_nanos(moment.now.as_nanos().saturating_sub(age));
        self.latest = at.max(self.latest).min(moment.now);
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_700_000_000_000_000_000;
    const MILLI: u64 = 1_000_000;

    /// The clocks after so many milliseconds, the wall clock `ahead` milliseconds from where it was.
    fn moment(millis: u64, ahead: i64) -> Moment {
        let wall = (WALL + millis * MILLI).saturating_add_signed(ahead * MILLI as i64);
        Moment { now: Time::from_millis(5_000 + millis), wall }
    }

    #[test]
    fn a_stamp_is_as_old_by_one_clock_as_by_the_other() {
        let mut stamps = Stamps::default();
        assert!(stamps.begin(moment(20, 0)));
        for (stamp, came) in [(WALL, 5_000), (WALL + 3 * MILLI, 5_003), (WALL + 20 * MILLI, 5_020)] {
            assert_eq!(stamps.arrival(moment(20, 0), Some(stamp)), Time::from_millis(came));
        }
        // Without a stamp it has come now.
        assert_eq!(stamps.arrival(moment(20, 0), None), Time::from_millis(5_020));
    }

    #[test]
    fn no_datagram_came_before_the_one_before_it_or_after_now() {
        let mut stamps = Stamps::default();
        assert!(stamps.begin(moment(20, 0)));
        assert_eq!(stamps.arrival(moment(20, 0), Some(WALL + 8 * MILLI)), Time::from_millis(5_008));
        assert_eq!(stamps.arrival(moment(20, 0), Some(WALL + 2 * MILLI)), Time::from_millis(5_008));
        assert_eq!(stamps.arrival(moment(20, 0), Some(WALL + 90 * MILLI)), Time::from_millis(5_020));
        assert_eq!(stamps.arrival(moment(20, 0), Some(0)), Time::from_millis(5_020));
        assert_eq!(stamps.arrival(moment(20, 0), Some(u64::MAX)), Time::from_millis(5_020));
    }

    #[test]
    fn a_wall_clock_that_was_set_is_noticed_and_costs_one_call() {
        for ahead in [-3_600_000, -50, 50, 3_600_000] {
            let mut stamps = Stamps::default();
            assert!(stamps.begin(moment(0, 0)) && stamps.begin(moment(10, 0)));
            assert!(!stamps.begin(moment(20, ahead)), "{ahead} ms");
            // By the new offset from then on.
            assert!(stamps.begin(moment(30, ahead)), "{ahead} ms");
            let stamp = (WALL + 25 * MILLI).saturating_add_signed(ahead * MILLI as i64);
            assert_eq!(stamps.arrival(moment(30, ahead), Some(stamp)), Time::from_millis(5_025));
        }
    }

    #[test]
    fn a_wall_clock_that_is_slewed_is_believed() {
        let mut stamps = Stamps::default();
        // A tenth faster, whether calls come often or seldom.
        let mut millis = 0;
        for step in [1, 1, 10, 100, 1_000, 10_000, 1, 5] {
            millis += step;
            assert!(stamps.begin(moment(millis, (millis / 10) as i64)), "after {step} ms");
        }
    }
}
