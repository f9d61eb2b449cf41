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
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

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
    /// What was believed last: the time that had passed, and the store's then; and how much more may have passed.
    believed: Option<(Time, Utc, Duration)>,
    /// Since when it is not.
    held_since: Option<Time>,
}

impl StoreClock {
    /// What was believed last is known from before a start: `at`, by the store's clock.
    pub fn restarted(at: Option<Utc>, now: Time) -> StoreClock {
        StoreClock { believed: at.map(|at| (now, at, OFF_MAX)), held_since: None }
    }

    /// The store's clock says `at`, when `now` has passed.
    pub fn look(&mut self, at: Utc, now: Time) -> Belief {
        let ahead = self.believed.map_or(Duration::ZERO, |(then, known, more)| {
            let expected = later(later(known, now.since(then)), more);
            Duration::from_nanos(at.as_nanos().saturating_sub(expected.as_nanos()))
        });
        if ahead > JUMP_MIN {
            let since = *self.held_since.get_or_insert(now);
            let left = HELD_FOR.saturating_sub(now.since(since));
            if !left.is_zero() {
                return Belief::Held { ahead, left };
            }
        }
        self.believed = Some((now, at, Duration::ZERO));
        self.held_since = None;
        Belief::Believed
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
        // Back is no danger: all looks younger.
        assert_eq!(clock.look(utc(0), time(24)), Belief::Believed);
    }

    #[test]
    fn over_a_restart_a_day_may_have_passed_and_no_more() {
        assert_eq!(StoreClock::restarted(None, time(5)).look(utc(9999), time(5)), Belief::Believed);
        assert_eq!(StoreClock::restarted(Some(utc(0)), time(5)).look(utc(25), time(5)), Belief::Believed);
        let mut clock = StoreClock::restarted(Some(utc(0)), time(5));
        assert!(is_held(clock.look(utc(26), time(5))));
        assert!(is_held(clock.look(utc(37), time(16))));
        assert_eq!(clock.look(utc(38), time(17)), Belief::Believed);
    }

    proptest! {
        /// Whatever the clock says, what is believed is never further ahead than the time that has passed allows, unless it stayed so.
        #[test]
        fn no_jump_is_believed_at_once(begun in 0u32..10_000, steps in proptest::collection::vec((0u32..6, 0u32..20_000), 1..40)) {
            let mut clock = StoreClock::restarted(Some(utc(begun)), time(0));
            let (mut passed, mut known, mut at_known) = (0, begun + 24, 0);
            let mut held_since = None;
            for (step, says) in steps {
                passed += step;
                let is_ahead = says > known + (passed - at_known) + 1;
                let belief = clock.look(utc(says), time(passed));
                if is_ahead {
                    let since = *held_since.get_or_insert(passed);
                    prop_assert_eq!(is_held(belief), passed - since < 12);
                } else {
                    prop_assert_eq!(belief, Belief::Believed);
                }
                if belief == Belief::Believed {
                    (known, at_known, held_since) = (says, passed, None);
                }
            }
        }

        #[test]
        fn no_time_panics(at: u64, then: u64, now: u64, later: u64) {
            let mut clock = StoreClock::restarted(Some(Utc::from_nanos(at)), Time::from_nanos(now));
            clock.look(Utc::from_nanos(then), Time::from_nanos(later));
            clock.look(Utc::from_nanos(later), Time::from_nanos(then));
        }
    }
}
