//! Steps the preset where x264 cannot keep up, and back when it could do more.

use glassline_codec::h264::x264;
use glassline_media::Time;
use std::time::Duration;

/// A step gets this long to help before the next.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// Room must have been there this long before a step back.
const STEP_BACK_AFTER: Duration = Duration::from_secs(10);
/// A step back that did not hold doubles the timeout up to this.
const STEP_BACK_AFTER_MAX: Duration = Duration::from_secs(300);
/// A picture that takes less than this share of its time leaves room for a slower preset.
const ROOM: f64 = 0.5;

/// Chooses a preset by what was dropped and how long pictures take. `placebo` to `ultrafast`, but never slower than
/// the one that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Adapt {
    /// From the fastest to the one that was asked for.
    presets: Vec<&'static str>,
    at: usize,
    dropped: u64,
    stepped: Time,
    /// Since when nothing was dropped and there was room.
    calm_since: Time,
    timeout: Duration,
    stepped_back: bool,
}

impl Adapt {
    /// Begins at `preset`.
    pub(super) fn new(preset: &str, now: Time) -> Adapt {
        let mut presets = x264::PRESETS.to_vec();
        let at = presets.iter().position(|name| *name == preset).unwrap_or(0);
        presets.truncate(at + 1);
        Adapt {
            presets,
            at,
            dropped: 0,
            stepped: now,
            calm_since: now,
            timeout: STEP_BACK_AFTER,
            stepped_back: false,
        }
    }

    /// The preset that holds.
    pub(super) fn preset(&self) -> &'static str {
        self.presets[self.at]
    }

    /// Asked after each picture: `dropped` pictures so far, `load` the share of a picture's time that this one took.
    /// Returns the preset to change to.
    pub(super) fn poll(&mut self, dropped: u64, load: f64, now: Time) -> Option<&'static str> {
        let drops = dropped > std::mem::replace(&mut self.dropped, dropped);
        if drops || load > ROOM {
            self.calm_since = now;
        }
        if drops && self.at > 0 && now.since(self.stepped) >= STEP_INTERVAL {
            if self.stepped_back {
                self.timeout = (self.timeout * 2).min(STEP_BACK_AFTER_MAX);
            }
            self.stepped_back = false;
            return Some(self.step(self.at - 1, now));
        }
        if self.at + 1 < self.presets.len() && now.since(self.calm_since) >= self.timeout {
            self.stepped_back = true;
            return Some(self.step(self.at + 1, now));
        }
        None
    }

    fn step(&mut self, to: usize, now: Time) -> &'static str {
        self.at = to;
        self.stepped = now;
        self.calm_since = now;
        self.presets[to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(100_000 + seconds * 1000)
    }

    #[test]
    fn drops_step_down_one_preset_a_second() {
        let mut adapt = Adapt::new("veryfast", at(0));
        assert_eq!(adapt.poll(1, 0.9, at(0)), None);
        assert_eq!(adapt.poll(2, 0.9, at(1)), Some("superfast"));
        assert_eq!(adapt.poll(2, 0.9, at(3)), None);
        assert_eq!(adapt.poll(3, 0.9, at(4)), Some("ultrafast"));
        assert_eq!(adapt.poll(9, 0.9, at(9)), None, "there is nothing faster");
    }

    #[test]
    fn room_steps_back_to_what_was_asked_for_and_no_further() {
        let mut adapt = Adapt::new("superfast", at(0));
        assert_eq!(adapt.poll(1, 0.9, at(1)), Some("ultrafast"));
        assert_eq!(adapt.poll(1, 0.3, at(10)), None);
        assert_eq!(adapt.poll(1, 0.3, at(11)), Some("superfast"));
        assert_eq!(adapt.poll(1, 0.3, at(99)), None);
        // It did not hold: the next try waits twice as long, from the last busy picture on.
        assert_eq!(adapt.poll(2, 0.9, at(100)), Some("ultrafast"));
        assert_eq!(adapt.poll(2, 0.9, at(105)), None);
        assert_eq!(adapt.poll(2, 0.3, at(124)), None);
        assert_eq!(adapt.poll(2, 0.3, at(125)), Some("superfast"));
    }
    #[test]
    fn a_preset_that_is_not_known_is_taken_for_the_fastest_and_never_left() {
        let mut adapt = Adapt::new("glacial", at(0));
        assert_eq!(adapt.poll(5, 0.9, at(2)), None);
        assert_eq!(adapt.poll(5, 0.0, at(1000)), None);
    }

    #[test]
    fn a_slow_picture_alone_steps_nothing() {
        let mut adapt = Adapt::new("veryfast", at(0));
        assert!((0..100).all(|second| adapt.poll(0, 7.5, at(second)).is_none()));
    }

    #[test]
    fn pictures_that_take_just_half_their_time_leave_room_and_those_above_do_not() {
        for (load, expected) in [(0.5, Some("superfast")), (0.501, None)] {
            let mut adapt = Adapt::new("superfast", at(0));
            assert_eq!(adapt.poll(1, 0.9, at(1)), Some("ultrafast"));
            assert_eq!(adapt.poll(1, load, at(11)), expected, "{load}");
        }
    }

    #[test]
    fn drops_within_a_second_of_a_step_are_waited_out_and_not_held_against_the_next() {
        let mut adapt = Adapt::new("veryfast", at(0));
        assert_eq!(adapt.poll(3, 0.9, at(1)), Some("superfast"));
        assert_eq!(adapt.poll(9, 0.9, at(1)), None);
        // The six were asked about already: nothing was dropped since.
        assert_eq!(adapt.poll(9, 0.9, at(2)), None);
        assert_eq!(adapt.poll(10, 0.9, at(3)), Some("ultrafast"));
    }

    #[test]
    fn each_step_back_that_does_not_hold_doubles_the_wait_up_to_five_minutes() {
        let mut adapt = Adapt::new("superfast", at(0));
        let (mut now, mut dropped) = (1, 1);
        assert_eq!(adapt.poll(dropped, 0.9, at(now)), Some("ultrafast"));
        for wait in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(adapt.poll(dropped, 0.1, at(now + wait - 1)), None, "{wait}");
            assert_eq!(adapt.poll(dropped, 0.1, at(now + wait)), Some("superfast"), "{wait}");
            now += wait + 1;
            dropped += 1;
            assert_eq!(adapt.poll(dropped, 0.9, at(now)), Some("ultrafast"));
        }
    }

    #[test]
    fn only_the_first_step_down_behind_a_step_back_doubles_the_wait() {
        let mut adapt = Adapt::new("veryfast", at(0));
        assert_eq!(adapt.poll(1, 0.9, at(1)), Some("superfast"));
        assert_eq!(adapt.poll(2, 0.9, at(2)), Some("ultrafast"));
        assert_eq!(adapt.poll(2, 0.1, at(12)), Some("superfast"));
        assert_eq!(adapt.poll(2, 0.1, at(22)), Some("veryfast"));
        assert_eq!(adapt.poll(3, 0.9, at(23)), Some("superfast"));
        assert_eq!(adapt.poll(4, 0.9, at(24)), Some("ultrafast"));
        assert_eq!(adapt.poll(4, 0.1, at(43)), None);
        assert_eq!(adapt.poll(4, 0.1, at(44)), Some("superfast"));
    }

    proptest! {
        #[test]
        fn each_step_leads_to_a_neighbour_and_none_beyond_what_was_asked_for(
            asked in 0..x264::PRESETS.len(),
            polls in prop::collection::vec((0u64..2, 0.0f64..1.2, 0u64..30), 0..300),
        ) {
            let mut adapt = Adapt::new(x264::PRESETS[asked], at(0));
            let (mut place, mut dropped, mut now) = (asked, 0, 0);
            for (new, load, later) in polls {
                (dropped, now) = (dropped + new, now + later);
                let Some(preset) = adapt.poll(dropped, load, at(now)) else { continue };
                let next = x264::PRESETS.iter().position(|known| *known == preset).unwrap();
                if new > 0 {
                    prop_assert_eq!(next + 1, place, "a drop makes it faster");
                } else {
                    prop_assert_eq!(next, place + 1, "calm makes it slower");
                }
                prop_assert!(next <= asked);
                place = next;
            }
        }
    }
}
