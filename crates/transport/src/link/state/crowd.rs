//! Whether copies of messages leave in time over a second path.

use glassline_media::Time;
use std::time::Duration;

use crate::counter::count;

/// Whether copies leave in time is judged after so long each,
const JUDGED_EVERY: Duration = Duration::from_millis(500);
/// and none are tried for some seconds where those of more than this share of what was sent did not.
const CROWDED: f64 = 0.3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Paths that have no room for copies are kept busy by those that are tried, and what goes once is late for it. So where most do
/// not leave in time none are tried for a while, longer each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Since when it is judged; bytes of messages since then, and of those that got parity in place of copies.
    since: Time,
    bytes: u64,
    refused: u64,
    /// No copies are tried until then, nor for so long after the next time that most do not leave.
    until: Time,
    pause: Duration,
}

impl Crowd {
    /// A message of so many bytes has left that was to go twice.
    pub(super) fn note(&mut self, now: Time, bytes: u32, is_refused: bool) {
        if now < self.until {
            return;
        }
        if now >= self.since + JUDGED_EVERY.saturating_mul(2) {
            // There was a pause, of the application's or of copies.
            (self.since, self.bytes, self.refused) = (now, 0, 0);
        }
        count(&mut self.bytes, bytes.into());
        count(&mut self.refused, if is_refused { bytes.into() } else { 0 });
        if now < self.since + JUDGED_EVERY {
            return;
        }
        self.pause = if self.refused as f64 > CROWDED * self.bytes as f64 {
            self.until = now + self.pause.max(FIRST_PAUSE);
            self.pause.max(FIRST_PAUSE).saturating_mul(2).min(LONGEST_PAUSE)
        } else {
            Duration::ZERO
        };
        (self.since, self.bytes, self.refused) = (now, 0, 0);
    }

    /// Whether no copies are tried.
    pub(super) fn is_on(self, now: Time) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of 5 kB each 10 ms; gives for how many milliseconds copies were tried.
    fn run(crowd: &mut Crowd, from: u64, millis: u64, refused: impl Fn(u64) -> bool) -> u64 {
        let mut tried = 0;
        for at in (from..from + millis).step_by(10) {
            let now = Time::from_millis(at);
            tried += u64::from(!crowd.is_on(now));
            crowd.note(now, 5000, refused(at));
        }
        tried * 10
    }

    #[test]
    fn copies_that_mostly_do_not_leave_are_tried_more_and_more_rarely() {
        let mut crowd = Crowd::default();
        let half = |at: u64| at.is_multiple_of(20);
        let tried: Vec<u64> =
            (0..3).map(|part| run(&mut crowd, 1000 + part * 60_000, 60_000, half)).collect();
        assert!(tried[0] > 1000 && tried[0] < 6000, "{tried:?}");
        assert!(tried[1] < 2000 && tried[2] < 2000 && tried[2] > 0, "{tried:?}");
        // Once they leave, all of them do.
        let later = run(&mut crowd, 200_000, 60_000, |_| false);
        assert!(later >= 30_000, "{later}");
        assert_eq!(run(&mut crowd, 260_000, 60_000, |_| false), 60_000);
    }

    #[test]
    fn some_that_do_not_leave_are_as_a_key_frame_and_change_nothing() {
        let mut crowd = Crowd::default();
        assert_eq!(run(&mut crowd, 1000, 60_000, |at| at.is_multiple_of(40)), 60_000);
        // A pause is no reason to judge by what was before it.
        assert_eq!(run(&mut crowd, 100_000, 30, |_| true), 30);
        assert_eq!(run(&mut crowd, 200_000, 400, |_| true), 400);
        assert!(!crowd.is_on(Time::from_millis(200_400)));
    }
}
