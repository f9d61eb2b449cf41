//! How long messages take: until their acknowledgement comes, and from their stamps until they are written.

use glassline_media::{Time, Utc};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::time::Duration;

/// Longer delays are counted as this one: a minute.
const LONGEST_MICROS: u64 = 60_000_000;

/// How long messages of a channel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest; a minute at most.
    pub max: Duration,
}

/// Measures the delays of a channel. Messages have the numbers 0, 1, … in the order of sending.
pub(super) struct DelayMeter {
    /// The number of the first in `sent`.
    first: u64,
    /// When messages were handed over; `None` for those that have ended.
    sent: VecDeque<Option<Time>>,
    /// Microseconds.
    histogram: Histogram<u64>,
}

impl DelayMeter {
    pub(super) fn new() -> DelayMeter {
        DelayMeter { first: 0, sent: VecDeque::new(), histogram: histogram() }
    }

    /// The next message is about to be handed over.
    pub(super) fn push(&mut self, now: Time) {
        self.sent.push_back(Some(now));
    }

    /// The last message was not sent after all.
    pub(super) fn pop(&mut self) {
        self.sent.pop_back();
    }

    /// Message `number` has ended; only those that were delivered count.
    pub(super) fn handle_end(&mut self, number: u64, is_delivered: bool, now: Time) {
        let index = number.checked_sub(self.first);
        let sent = index.and_then(|index| self.sent.get_mut(index as usize)).and_then(Option::take);
        if let Some(sent) = sent.filter(|_| is_delivered) {
            record(&mut self.histogram, (now - sent).as_micros() as u64);
        }
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// The delays since the last call, if there were any.
    pub(super) fn take(&mut self) -> Option<Delays> {
        take(&mut self.histogram)
    }
}

/// Measures how old messages of a channel are when they are written, by their stamps and our wall clock.
pub(super) struct AgeMeter {
    histogram: Histogram<u64>,
    last: Option<Utc>,
}

impl AgeMeter {
    pub(super) fn new() -> AgeMeter {
        AgeMeter { histogram: histogram(), last: None }
    }

    /// A message with this stamp was written at `now`. One from ahead of our clock counts as one of no age.
    pub(super) fn record(&mut self, stamp: Utc, now: Utc) {
        record(&mut self.histogram, now.as_micros().saturating_sub(stamp.as_micros()));
        self.last = Some(stamp);
    }

    /// The stamp of the message that was written last.
    pub(super) fn last(&self) -> Option<Utc> {
        self.last
    }

    /// The ages since the last call, if there were any.
    pub(super) fn take(&mut self) -> Option<Delays> {
        take(&mut self.histogram)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, micros: u64) {
    histogram.saturating_record(micros.clamp(1, LONGEST_MICROS));
}

/// What was recorded since the last call, if there was anything.
fn take(histogram: &mut Histogram<u64>) -> Option<Delays> {
    if histogram.is_empty() {
        return None;
    }
    let at = |quantile| Duration::from_micros(histogram.value_at_quantile(quantile));
    let max = Duration::from_micros(histogram.max());
    let delays = Delays { p50: at(0.5), p95: at(0.95), p99: at(0.99), max };
    histogram.reset();
    Some(delays)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn percentiles_are_of_delivered_messages_since_the_last_call() {
        let mut meter = DelayMeter::new();
        assert_eq!(meter.take(), None);
        (0..100).for_each(|_| meter.push(at(0)));
        // In any order; one is lost.
        (0..100u64).rev().for_each(|number| meter.handle_end(number, number != 99, at((number + 1) * 1000)));
        let delays = meter.take().unwrap();
        let near = |found: Duration, millis: u64| {
            found.abs_diff(Duration::from_millis(millis)) < Duration::from_millis(2)
        };
        assert!(near(delays.p50, 50) && near(delays.p95, 95) && near(delays.p99, 99), "{delays:?}");
        assert!(near(delays.max, 99), "{delays:?}");
        assert_eq!(meter.take(), None);
        assert!(meter.sent.is_empty());
    }

    #[test]
    fn numbers_go_on_after_a_message_that_was_not_sent() {
        let mut meter = DelayMeter::new();
        meter.push(at(0));
        meter.push(at(0));
        meter.pop();
        meter.handle_end(0, true, at(10));
        meter.push(at(20));
        meter.handle_end(1, true, at(70));
        assert_eq!(meter.take().unwrap().max, Duration::from_micros(50));
        // A number that is not known, and one that has ended twice.
        meter.handle_end(7, true, at(90));
        meter.handle_end(0, true, at(90));
        assert_eq!(meter.take(), None);
    }

    #[test]
    fn an_age_is_what_has_passed_since_the_stamp_and_none_where_that_lies_ahead() {
        let mut meter = AgeMeter::new();
        assert_eq!((meter.take(), meter.last()), (None, None));
        let now = Utc::from_micros(1_700_000_000_000_000);
        meter.record(Utc::from_micros(now.as_micros() - 40_000), now);
        let ages = meter.take().unwrap();
        assert!(ages.p50.abs_diff(Duration::from_millis(40)) < Duration::from_micros(100), "{ages:?}");
        // The sender's clock is ahead of ours, or has been set back since.
        for (stamp, expected) in [(now.as_micros() + 3_000_000, Duration::ZERO), (1, Duration::from_secs(60))]
        {
            meter.record(Utc::from_micros(stamp), now);
            assert_eq!(meter.last(), Some(Utc::from_micros(stamp)));
            let age = meter.take().unwrap().max;
            assert!(age.abs_diff(expected) < Duration::from_millis(100), "{age:?}");
        }
        assert_eq!(meter.take(), None);
    }

    #[test]
    fn a_delay_is_a_minute_at_most() {
        let mut meter = DelayMeter::new();
        meter.push(at(0));
        meter.handle_end(0, true, at(600_000_000));
        assert!(meter.take().unwrap().max.abs_diff(Duration::from_secs(60)) < Duration::from_millis(100));
    }
}

#[cfg(test)]
#[path = "delays_tests.rs"]
mod model_tests;
