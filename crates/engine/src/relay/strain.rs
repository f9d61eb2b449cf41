//! How busy a worker is, and what it gives up for it.
//!
//! A worker that has no time left falls behind for good if it goes on as before: sends that come late are no fewer.
//! So it gives up what costs sends and is not asked for: first pacing, which makes many small sends of one, then
//! sending each picture by itself. Neither touches a byte.

use glassline_media::Time;
use std::time::Duration;

/// A worker that is idle for less than this share of its time paces nobody, and again from the second one on.
const PACING_ENDS: f64 = 0.25;
const PACING_BEGINS: f64 = 0.6;
/// The same for pictures that are collected. What they cost is about halved by it, so that the second share is one
/// with which the worker would have time left without it.
const COLLECTING_BEGINS: f64 = 0.05;
const COLLECTING_ENDS: f64 = 0.55;

/// A worker's load, looked at once in a while.
#[derive(Debug)]
pub(super) struct Strain {
    since: Time,
    idle: Duration,
    paces: bool,
    collects: bool,
}

/// What a look at the load has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nobody is paced any more, or everybody again.
    Pacing(bool),
    /// Pictures are collected from now on, or no longer.
    Collecting(bool),
}

impl Strain {
    /// A worker that begins now, with all of its time.
    pub(super) fn new(now: Time) -> Strain {
        Strain { since: now, idle: Duration::ZERO, paces: true, collects: false }
    }

    /// The worker has waited for something to do.
    pub(super) fn rested(&mut self, time: Duration) {
        self.idle += time;
    }

    /// The time so far does not count: nobody ran.
    pub(super) fn forget(&mut self, now: Time) {
        (self.since, self.idle) = (now, Duration::ZERO);
    }

    /// Whether viewers are paced.
    pub(super) fn paces(&self) -> bool {
        self.paces
    }

    /// Looks at the time since the last look. Returns how idle the worker was, as a share, and what that changes.
    pub(super) fn look(&mut self, now: Time) -> (f64, [Option<Change>; 2]) {
        let elapsed = now.since(self.since).max(Duration::from_millis(1));
        let idle = self.idle.as_secs_f64() / elapsed.as_secs_f64();
        self.forget(now);
        let paces = idle > if self.paces { PACING_ENDS } else { PACING_BEGINS };
        let collects = idle < if self.collects { COLLECTING_ENDS } else { COLLECTING_BEGINS };
        let changes = [
            (paces != self.paces).then_some(Change::Pacing(paces)),
            (collects != self.collects).then_some(Change::Collecting(collects)),
        ];
        (self.paces, self.collects) = (paces, collects);
        (idle, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_comes_back_when_there_is_time_for_it() {
        let (mut strain, mut now) = (Strain::new(Time::ZERO), Time::ZERO);
        let mut look = |idle_percent: u64| {
            strain.rested(Duration::from_millis(idle_percent * 10));
            now += Duration::from_secs(1);
            let (_, changes) = strain.look(now);
            (strain.paces, strain.collects, changes.into_iter().flatten().count())
        };
        assert_eq!(look(90), (true, false, 0));
        assert_eq!(look(20), (false, false, 1));
        assert_eq!(look(50), (false, false, 0), "pacing would take that time again");
        assert_eq!(look(2), (false, true, 1));
        assert_eq!(look(45), (false, true, 0), "so would single news");
        assert_eq!(look(70), (true, false, 2));
        assert_eq!(look(0), (false, true, 2));
    }
}
