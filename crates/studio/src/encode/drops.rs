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
}
