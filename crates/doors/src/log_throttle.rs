//! What is said again and again of something that comes and goes.

use glassline_media::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Keeps a source that comes and goes from filling the log: of what is said of it again and again, the 1st, 2nd, 4th,
/// 8th … is told, until it has been good for a while.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    said: BTreeMap<String, u64>,
    live_since: Option<Time>,
}

/// Different sayings that are remembered; there are not so many kinds of trouble.
const SAYINGS: usize = 32;

impl LogThrottle {
    /// Whether `saying` goes into the log. Sayings that differ in their figures alone count as one.
    pub(crate) fn should_log(&mut self, saying: &str) -> bool {
        if self.said.len() >= SAYINGS {
            self.said.clear();
        }
        let kind: String = saying.chars().filter(|character| !character.is_ascii_digit()).collect();
        let times = self.said.entry(kind).or_default();
        *times += 1;
        times.is_power_of_two()
    }

    /// The source sends. Returns whether that goes into the log.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        self.live_since = Some(now);
        self.should_log("live")
    }

    /// The source does not send (any more). Returns whether that goes into the log; always where it has been good for
    /// as long as `good_after`.
    pub(crate) fn end(&mut self, why: &str, good_after: Duration, now: Time) -> bool {
        if self.live_since.take().is_some_and(|since| now.since(since) >= good_after) {
            self.said.clear();
        }
        self.should_log(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_is_told_ever_more_rarely_until_all_was_well() {
        let (mut log_throttle, good_after) = (LogThrottle::default(), Duration::from_secs(5));
        let mut now = Time::ZERO;
        let mut fail = |after: Duration| {
            let begun = log_throttle.begin(now);
            now += after;
            (begun, log_throttle.end(&format!("no packet in {} bytes", now.as_nanos()), good_after, now))
        };
        let told = (0..100).filter(|_| fail(Duration::from_millis(1)) == (true, true)).count();
        assert_eq!(told, 7);
        assert_eq!(fail(good_after), (false, true));
        assert_eq!(fail(Duration::ZERO), (true, true));
    }

    #[test]
    fn the_first_second_fourth_and_eighth_time_are_told() {
        let mut log_throttle = LogThrottle::default();
        let told: Vec<u32> = (1..=17).filter(|_| log_throttle.should_log("refused")).collect();
        assert_eq!(told, [1, 2, 4, 8, 16]);
    }

    #[test]
    fn sayings_count_apart_but_for_their_figures() {
        let mut log_throttle = LogThrottle::default();
        assert!(log_throttle.should_log("no packet for 5 s"));
        assert!(log_throttle.should_log("the name has no address"));
        assert!(log_throttle.should_log("no packet for 60 s"), "the second of its kind");
        assert!(!log_throttle.should_log("no packet for 7 s"), "the third");
        assert!(log_throttle.should_log("the name has no address"));
    }

    #[test]
    fn kinds_that_are_made_up_anew_each_time_take_no_memory() {
        let mut log_throttle = LogThrottle::default();
        let mut letters = String::new();
        for _ in 0..1000 {
            letters.push('x');
            assert!(log_throttle.should_log(&letters), "each is the first of its kind");
            assert!(log_throttle.said.len() <= SAYINGS);
        }
    }

    #[test]
    fn a_source_that_was_good_for_long_enough_is_told_of_anew() {
        let (mut log_throttle, good_after) = (LogThrottle::default(), Duration::from_secs(5));
        let end = |log_throttle: &mut LogThrottle, live_for: u64| {
            log_throttle.begin(Time::from_millis(1000));
            log_throttle.end("lost", good_after, Time::from_millis(1000 + live_for))
        };
        assert_eq!([4999, 4999, 4999].map(|millis| end(&mut log_throttle, millis)), [true, true, false]);
        assert!(end(&mut log_throttle, 5000));
        // Without having sent again, its next failures are told as before.
        let fail =
            |log_throttle: &mut LogThrottle| log_throttle.end("lost", good_after, Time::from_millis(99_000));
        assert_eq!([fail(&mut log_throttle), fail(&mut log_throttle)], [true, false]);
    }
}
