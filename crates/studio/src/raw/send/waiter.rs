//! Waiting for a time.

use glassline_io::clock::Clock;
use glassline_media::Time;
use std::thread;
use std::time::Duration;

/// So long before the time the clock is looked at over and over, where that is asked for.
const SPIN: Duration = Duration::from_micros(120);
/// A wait is no longer than this at a time, so that an end is noticed.
const LONGEST: Duration = Duration::from_millis(50);

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) clock: Clock,
    pub(super) spins: bool,
}

impl Waiter {
    /// Waits for `time`, but no longer than some milliseconds; callers look what time it is.
    pub(super) fn wait(&self, time: Time) {
        let left = time.since(self.clock.now());
        if !self.spins {
            thread::sleep(left.min(LONGEST));
            return;
        }
        if left > SPIN {
            thread::sleep((left - SPIN).min(LONGEST));
            return;
        }
        while self.clock.now() < time {
            std::hint::spin_loop();
        }
    }
}
