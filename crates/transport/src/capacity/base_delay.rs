//! The one-way delay of the empty path.

use glassline_media::Time;
use std::time::Duration;

/// The least one-way delay of its life to twice that.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseDelay {
    before: i64,
    now: i64,
    since: Time,
}

impl BaseDelay {
    pub(super) fn new(now: Time) -> BaseDelay {
        BaseDelay { before: i64::MAX, now: i64::MAX, since: now }
    }

    /// A packet took `one_way_us`, by two clocks of unknown difference.
    pub(super) fn update(&mut self, now: Time, one_way_us: i64, life: Duration) {
        if now - self.since > life {
            (self.before, self.now, self.since) = (self.now, one_way_us, now);
        }
        self.now = self.now.min(one_way_us);
    }

    pub(super) fn us(&self) -> i64 {
        self.before.min(self.now)
    }

    /// How long a packet of this one-way delay waited in queues.
    pub(super) fn queue(&self, one_way_us: i64) -> Duration {
        Duration::from_micros(one_way_us.saturating_sub(self.us()).max(0) as u64)
    }
}
