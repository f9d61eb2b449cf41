//! How long messages take until their acknowledgement comes.

use glassline_media::Time;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::time::Duration;

/// Longer delays are counted as this one: a minute.
const LONGEST_MICROS: u64 = 60_000_000;

/// From handing over to the acknowledgement, of a channel's messages that arrived.
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
        let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order");
        DelayMeter { first: 0, sent: VecDeque::new(), histogram }
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
            let micros = (now - sent).as_micros() as u64;
            self.histogram.saturating_record(micros.clamp(1, LONGEST_MICROS));
        }
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// The delays since the last call, if there were any.
    pub(super) fn take(&mut self) -> Option<Delays> {
        if self.histogram.is_empty() {
            return None;
        }
        let at = |quantile| Duration::from_micros(self.histogram.value_at_quantile(quantile));
        let max = Duration::from_micros(self.histogram.max());
        let delays = Delays { p50: at(0.5), p95: at(0.95), p99: at(0.99), max };
        self.histogram.reset();
        Some(delays)
    }
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
