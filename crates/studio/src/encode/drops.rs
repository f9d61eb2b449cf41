//! When it is said that pictures were dropped: at once, and then less and less often, so that a machine that is too slow for
//! ever does not fill the log.

use glassline_media::Time;
use std::time::Duration;

/// Dropped pictures are spoken of after this time, then after twice as long each time,
const TELL_INTERVAL: Duration = Duration::from_secs(5);
/// up to this. Where none were dropped for as long it begins anew.
const TELL_INTERVAL_MAX: Duration = Duration::from_secs(600);
/// What was said of dropped pictures, and when.
#[derive(Debug, Default)]
pub(super) struct DropsTold {
    count: u64,
    at: Option<Time>,
    wait: Duration,
    /// When the last one was dropped, and how many were by then.
    last: (u64, Time),
}

impl DropsTold {
    /// How many of `dropped` pictures have to be reported now: those since the last report.
    pub(super) fn tell(&mut self, dropped: u64, now: Time) -> Option<u64> {
        if dropped > self.last.0 {
            if now.since(self.last.1) >= TELL_INTERVAL_MAX {
                self.wait = Duration::ZERO;
            }
            self.last = (dropped, now);
        }
        let is_due = self.at.is_none_or(|at| now.since(at) >= self.wait);
        if dropped <= self.count || !is_due {
            return None;
        }
        self.wait = (self.wait * 2).clamp(TELL_INTERVAL, TELL_INTERVAL_MAX);
        self.at = Some(now);
        Some(dropped - std::mem::replace(&mut self.count, dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_goes_on_for_ever_is_told_less_and_less_often() {
        let mut told = DropsTold::default();
        // One picture is dropped each second, for two hours.
        let lines: Vec<(u64, u64)> = (0..7200)
            .filter_map(|second| Some((second, told.tell(second + 1, Time::from_millis(1000 * second))?)))
            .collect();
        assert_eq!(lines[..4], [(0, 1), (5, 5), (15, 10), (35, 20)]);
        assert!(lines.len() < 20, "{}", lines.len());
        // All of them are told, but those since the last line.
        let sum: u64 = lines.iter().map(|(_, new)| new).sum();
        assert_eq!(sum, lines.last().unwrap().0 + 1);
        // Ten quiet minutes later it begins anew; where none were dropped there is nothing to say.
        assert_eq!(told.tell(7200, Time::from_millis(8_000_000)), Some(7200 - sum));
        assert_eq!(told.tell(7200, Time::from_millis(9_000_000)), None);
        assert_eq!(told.tell(7201, Time::from_millis(9_000_000)), Some(1));
        assert_eq!(told.tell(7202, Time::from_millis(9_005_000)), Some(1));
    }
    #[test]
    fn where_nothing_was_dropped_nothing_is_told_however_long_it_runs() {
        let mut told = DropsTold::default();
        assert!((0..10_000).all(|second| told.tell(0, Time::from_millis(1000 * second)).is_none()));
    }

    #[test]
    fn what_was_dropped_while_it_waited_is_told_when_the_wait_is_over_without_another_drop() {
        let mut told = DropsTold::default();
        assert_eq!(told.tell(2, Time::from_millis(1_000)), Some(2));
        assert_eq!(told.tell(9, Time::from_millis(5_999)), None);
        assert_eq!(told.tell(9, Time::from_millis(6_000)), Some(7));
    }

    #[test]
    fn the_wait_grows_from_five_seconds_to_ten_minutes_and_stays_there() {
        let mut told = DropsTold::default();
        let mut at = Vec::new();
        for second in 0..6_000 {
            if told.tell(second + 1, Time::from_millis(1000 * second)).is_some() {
                at.push(second);
            }
        }
        let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600, 600, 600, 600]);
    }

    #[test]
    fn less_than_ten_quiet_minutes_do_not_begin_it_anew() {
        let mut told = DropsTold::default();
        let seconds = |seconds: u64| Time::from_millis(1000 * seconds);
        for (second, dropped) in [(0, 1), (5, 2), (15, 3), (35, 4), (75, 5), (155, 6)] {
            assert_eq!(told.tell(dropped, seconds(second)), Some(1), "{second}");
        }
        // Dropped at once behind the line, and again 599 s later.
        assert_eq!(told.tell(7, seconds(156)), None);
        assert_eq!(told.tell(8, seconds(755)), Some(2));
        assert_eq!(told.tell(9, seconds(756)), None, "it goes on with long waits");
    }

    proptest! {
        #[test]
        fn what_was_told_is_all_that_was_dropped_until_then(
            steps in prop::collection::vec((0u64..4, 0u64..700_000), 0..200),
        ) {
            let mut told = DropsTold::default();
            let (mut dropped, mut now, mut sum) = (0, 0, 0);
            for (new, later) in steps {
                (dropped, now) = (dropped + new, now + later);
                if let Some(count) = told.tell(dropped, Time::from_millis(now)) {
                    prop_assert!(count > 0);
                    sum += count;
                    prop_assert_eq!(sum, dropped);
                }
            }
        }
    }
}
