//! When a link is on.

use super::config::OutageTimes;
use super::random::Random;
use glassline_media::Time;
use std::time::Duration;

/// Follows the turns of a link from on to off and back, whatever passes over it.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    times: OutageTimes,
    random: Random,
    on: bool,
    next: Time,
}

/// Turns that are followed one by one; beyond them, after a silence of hours, a link begins anew.
const MAX_TURNS: u32 = 100_000;

impl Switch {
    pub(super) fn new(times: OutageTimes, random: Random, start: Time) -> Switch {
        let mut switch = Switch { times, random, on: true, next: Time::NEVER };
        switch.next = match switch.times {
            OutageTimes::Once { after, .. } => start + after,
            _ => switch.end_of_state(start),
        };
        switch
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// When it turns next.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Turns, at its time.
    pub(super) fn turn(&mut self) {
        let at = self.next;
        self.on = !self.on;
        self.next = match self.times {
            OutageTimes::Once { off, .. } if !self.on => at + off,
            OutageTimes::Once { .. } => Time::NEVER,
            _ => self.end_of_state(at),
        };
    }

    /// Called after so many turns on the way to `now`: leaves out the rest where they are too many.
    pub(super) fn give_up(&mut self, turns: u32, now: Time) -> bool {
        let many = turns >= MAX_TURNS;
        if many {
            self.on = true;
            self.next = self.end_of_state(now);
        }
        many
    }

    fn end_of_state(&mut self, now: Time) -> Time {
        match self.times {
            OutageTimes::None | OutageTimes::Once { .. } => Time::NEVER,
            OutageTimes::Periodic { on, off } => now + if self.on { on } else { off },
            OutageTimes::Random { on, off } => {
                // Never no time at all, so that turns come to an end.
                let mean = if self.on { on } else { off };
                now + self.random.exponential(mean).max(Duration::from_nanos(1))
            }
        }
    }
}
