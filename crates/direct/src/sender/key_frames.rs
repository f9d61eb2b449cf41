//! Key frames that the receiver asks for: when one is made.

use glassline_media::Time;
use std::time::Duration;

/// From one key frame to the next that is asked for, at least: a receiver that asks all the time gets no more of them.
pub(super) const ASKED_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// While losses come close to each other, one that is asked for waits so long at most: with AV1 it overwrites all that both ends have in
/// common, so that one more follows where it is lost.
const LOSSES_WAIT: Duration = Duration::from_secs(2);

/// Which key frame was sent last, and which is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyFrames {
    /// Number of the newest one, and when it was chosen.
    newest: Option<(u64, Time)>,
    /// One that is newer than this picture is asked for, since then.
    asked: Option<(u64, Time)>,
}

impl KeyFrames {
    /// Another run of the receiver: it asks anew.
    pub(super) fn handle_reset(&mut self) {
        self.asked = None;
    }

    /// The receiver asks for one that is newer than this picture, or for none.
    pub(super) fn handle_report(&mut self, now: Time, key_after: Option<u64>) {
        let open = key_after.filter(|after| self.newest.is_none_or(|(newest, _)| newest <= *after));
        self.asked = open.map(|after| (after, self.asked.map_or(now, |(_, since)| since)));
    }

    /// The picture `number` was sent, and needs no other.
    pub(super) fn sent(&mut self, now: Time, number: u64) {
        (self.newest, self.asked) = (Some((number, now)), None);
    }

    /// Whether the next picture is made one. `is_silent`: the link is not answered; `is_careful`: losses came close to each other.
    pub(super) fn is_due(&self, now: Time, is_silent: bool, is_careful: bool) -> bool {
        let Some((_, since)) = self.asked else { return false };
        let may_follow = self.newest.is_none_or(|(_, at)| now.since(at) >= ASKED_INTERVAL_MIN);
        may_follow && !is_silent && (!is_careful || now.since(since) >= LOSSES_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn one_that_is_asked_for_comes_once_and_no_sooner_than_two_seconds_behind_another() {
        let mut keys = KeyFrames::default();
        keys.sent(at(0), 0);
        assert!(!keys.is_due(at(5_000), false, false), "none is asked for");
        keys.handle_report(at(500), Some(10));
        assert!(!keys.is_due(at(1_999), false, false) && keys.is_due(at(2_000), false, false));
        assert!(!keys.is_due(at(2_000), true, false), "nothing is put into an outage");
        keys.sent(at(2_000), 60);
        // Reports that left before it came say it again.
        for millis in 2_000..5_000 {
            keys.handle_report(at(millis), Some(10));
            assert!(!keys.is_due(at(millis), false, false));
        }
        keys.handle_report(at(5_000), Some(60));
        assert!(keys.is_due(at(5_000), false, false));
        keys.handle_report(at(5_001), None);
        assert!(!keys.is_due(at(5_001), false, false), "it is asked for no more");
        keys.handle_report(at(5_002), Some(61));
        keys.handle_reset();
        assert!(!keys.is_due(at(9_000), false, false));
    }

    #[test]
    fn while_losses_come_close_to_each_other_it_waits_but_not_for_ever() {
        let mut keys = KeyFrames::default();
        keys.sent(at(0), 0);
        for millis in 3_000..5_000 {
            keys.handle_report(at(millis), Some(90));
            assert!(!keys.is_due(at(millis), false, true));
        }
        assert!(keys.is_due(at(4_000), false, false) && keys.is_due(at(5_000), false, true));
    }

    #[test]
    fn a_receiver_that_asks_all_the_time_gets_one_in_two_seconds() {
        let (mut keys, mut made) = (KeyFrames::default(), 0);
        for number in 0..3_000 {
            let now = at(number * 20);
            keys.handle_report(now, Some(u64::MAX >> 12));
            if keys.is_due(now, false, false) {
                keys.sent(now, number);
                made += 1;
            }
        }
        assert_eq!(made, 30, "in a minute");
    }
}
