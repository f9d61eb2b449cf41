//! When a path is used of which it is not known what it carries.

use glassline_media::Time;
use std::time::Duration;

/// A trial of a path lasts for so long, and for so many round trips: its rate is found out by doubling.
const TRIAL: Duration = Duration::from_millis(500);
const TRIAL_ROUND_TRIPS: u32 = 4;
/// From the end of one to the next at first; twice as long after each that has shown nothing, up to the longest.
const FIRST_TRIAL_GAP: Duration = Duration::from_secs(2);
const LONGEST_TRIAL_GAP: Duration = Duration::from_secs(30);

/// A path is not used that is behind the others by more than what it carries is worth. What it carries is not known while it is not
/// used: so it is now and then, whatever is sooner by others. Messages are later for so long by what it is behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    until: Time,
    next: Time,
    gap: Duration,
}

impl Trial {
    pub(super) fn is_on(self, now: Time) -> bool {
        now < self.until
    }

    /// The path is used for what it is known to carry, or is not.
    pub(super) fn note(&mut self, now: Time, is_used: bool, rtt: Duration) {
        if is_used {
            (self.gap, self.next) = (FIRST_TRIAL_GAP, now);
        } else if self.next <= now {
            self.until = now + TRIAL.max(rtt.saturating_mul(TRIAL_ROUND_TRIPS));
            self.next = self.until + self.gap;
            self.gap = self.gap.saturating_mul(2).clamp(FIRST_TRIAL_GAP, LONGEST_TRIAL_GAP);
        }
    }
}
