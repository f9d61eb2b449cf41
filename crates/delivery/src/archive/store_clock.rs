//! Whether the clock that recordings are kept by may be believed.
//!
//! How old something in the store is, is the difference of two times of the store's own clock. That clock may jump: then what is young
//! looks old, and would be deleted for its age. So its time is compared with the time that has passed by a clock which cannot be set; over
//! a restart, with the time that was believed last.
//!
//! ```text
//! store's time, monotonic time ─► StoreClock ─► Believed, or Held: nothing goes for its age, until the clock is put right or has stayed
//!                                               so for HELD_FOR
//! ```

use crate::packager::later;
use glassline_media::{Time, Utc};
use std::time::Duration;

/// A clock that has gone by so much more than the time that has passed has jumped.
pub const JUMP_MIN: Duration = Duration::from_secs(3600);
/// A server may have been off for so long without that being taken for a jump.
pub const OFF_MAX: Duration = Duration::from_secs(24 * 3600);
/// A clock that has jumped is believed when it has stayed so for that long: there is time to put it right.
pub const HELD_FOR: Duration = Duration::from_secs(12 * 3600);

/// What the store's time is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// It is right, as far as can be told.
    Believed,
    /// It has jumped ahead.
    Held {
        /// By so much, at least.
        ahead: Duration,
        /// It is believed after that, where it stays so.
        left: Duration,
    },
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct StoreClock {
    /// The latest time that was believed or had to be by what has passed: when, the store's time then, and how much more may have passed.
    mark: Option<(Time, Utc, Duration)>,
    /// How long the clock has been ahead, and when it was last seen so.
    held: (Duration, Option<Time>),
}

impl StoreClock {
    /// What was believed last is known from before a start: `at`, by the store's clock, which had then been ahead for `held`.
    pub fn restarted(at: Option<Utc>, held: Duration, now: Time) -> StoreClock {
        StoreClock { mark: at.map(|at| (now, at, OFF_MAX)), held: (held, None) }
    }

    /// The store's clock says `at`, when `now` has passed.
    pub fn look(&mut self, at: Utc, now: Time) -> Belief {
        let passed = self.mark.map(|(then, known, more)| (later(known, now.since(then)), more));
        let ahead = passed.map_or(Duration::ZERO, |(known, more)| {
            Duration::from_nanos(at.as_nanos().saturating_sub(later(known, more).as_nanos()))
        });
        if ahead > JUMP_MIN {
            let (held, seen) = self.held;
            let held = held.saturating_add(seen.map_or(Duration::ZERO, |seen| now.since(seen)));
            self.held = (held, Some(now));
            let left = HELD_FOR.saturating_sub(held);
            if !left.is_zero() {
                return Belief::Held { ahead, left };
            }
        }
        // A clock that goes back, and is put right again, has not jumped.
        let known = passed.map_or(at, |(known, _)| known.max(at));
        self.mark = Some((now, known, Duration::ZERO));
        self.held = (Duration::ZERO, None);
        Belief::Believed
    }

    /// What a next start has to know: the latest time that was believed, and how long the clock has been ahead.
    pub fn remembered(&self) -> (Option<Utc>, Duration) {
        (self.mark.map(|(_, known, _)| known), self.held.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn time(hours: u32) -> Time {
        Time::ZERO + HOUR * hours
    }

    fn utc(hours: u32) -> Utc {
        later(Utc::from_nanos(1_796_000_000_000_000_000), HOUR * hours)
    }

    fn is_held(belief: Belief) -> bool {
        matches!(belief, Belief::Held { .. })
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_not_believed_until_it_is_right_again_or_has_stayed_so() {
        let mut clock = StoreClock::default();
        assert_eq!(clock.look(utc(0), time(0)), Belief::Believed);
        assert_eq!(clock.look(utc(2), time(1)), Belief::Believed, "an hour is no jump");
        let jumped = clock.look(utc(1000), time(2));
        assert_eq!(jumped, Belief::Held { ahead: HOUR * 997, left: HELD_FOR });
        let still = clock.look(utc(1005), time(7));
        assert_eq!(still, Belief::Held { ahead: HOUR * 997, left: HOUR * 7 });
        // Put right.
        assert_eq!(clock.look(utc(9), time(8)), Belief::Believed);
        assert!(is_held(clock.look(utc(1000), time(9))), "the time begins anew");
        assert!(is_held(clock.look(utc(1011), time(20))));
        assert_eq!(clock.look(utc(1012), time(21)), Belief::Believed);
        assert_eq!(clock.look(utc(1014), time(23)), Belief::Believed);
        // Back is no danger: all looks younger. Put right again, it has not jumped.
        assert_eq!(clock.look(utc(0), time(24)), Belief::Believed);
        assert_eq!(clock.look(utc(1016), time(25)), Belief::Believed);
        assert!(is_held(clock.look(utc(1019), time(25))));
    }

    #[test]
    fn over_a_restart_a_day_may_have_passed_and_no_more() {
        assert_eq!(
            StoreClock::restarted(None, Duration::ZERO, time(5)).look(utc(9999), time(5)),
            Belief::Believed
        );
        assert_eq!(
            StoreClock::restarted(Some(utc(0)), Duration::ZERO, time(5)).look(utc(25), time(5)),
            Belief::Believed
        );
        let mut clock = StoreClock::restarted(Some(utc(0)), Duration::ZERO, time(5));
        assert!(is_held(clock.look(utc(26), time(5))));
        assert!(is_held(clock.look(utc(37), time(16))));
        assert_eq!(clock.look(utc(38), time(17)), Belief::Believed);
    }

    #[test]
    fn hours_of_several_days_count_together() {
        let mut clock = StoreClock::restarted(Some(utc(0)), Duration::ZERO, time(0));
        assert!(is_held(clock.look(utc(100), time(0))) && is_held(clock.look(utc(107), time(7))));
        let (known, held) = clock.remembered();
        assert_eq!((known, held), (Some(utc(0)), HOUR * 7));
        let mut clock = StoreClock::restarted(known, held, time(50));
        assert!(is_held(clock.look(utc(124), time(50))) && is_held(clock.look(utc(128), time(54))));
        assert_eq!(clock.look(utc(129), time(55)), Belief::Believed);
        assert_eq!(clock.remembered(), (Some(utc(129)), Duration::ZERO));
    }

    proptest! {
        /// Whatever the clock says, what is believed is never further ahead than the time that has passed allows, unless it stayed so.
        #[test]
        fn no_jump_is_believed_at_once(begun in 0u32..10_000, steps in proptest::collection::vec((0u32..6, 0u32..20_000), 1..40)) {
            let mut clock = StoreClock::restarted(Some(utc(begun)), Duration::ZERO, time(0));
            let (mut passed, mut known, mut more, mut at_known) = (0, begun, 24, 0);
            let (mut held, mut seen) = (0, None);
            for (step, says) in steps {
                passed += step;
                let expected = known + (passed - at_known);
                let is_ahead = says > expected + more + 1;
                if is_ahead {
                    held += seen.map_or(0, |seen| passed - seen);
                    seen = Some(passed);
                }
                let belief = clock.look(utc(says), time(passed));
                prop_assert_eq!(is_held(belief), is_ahead && held < 12);
                if belief == Belief::Believed {
                    (known, more, at_known, held, seen) = (expected.max(says), 0, passed, 0, None);
                }
            }
        }

        #[test]
        fn no_time_panics(at: u64, then: u64, now: u64, later: u64) {
            let mut clock = StoreClock::restarted(Some(Utc::from_nanos(at)), Duration::from_nanos(at), Time::from_nanos(now));
            clock.look(Utc::from_nanos(then), Time::from_nanos(later));
            clock.look(Utc::from_nanos(later), Time::from_nanos(then));
        }
    }
}
