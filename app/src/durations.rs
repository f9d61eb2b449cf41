//! How long things took that were done over and over.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longer times are counted as this one: a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Durations, by their distribution to three digits.
#[derive(Debug)]
pub(crate) struct Durations(Histogram<u64>);

/// What is told of [`Durations`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Milliseconds {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Durations {
    pub(crate) fn new() -> Durations {
        Durations(Histogram::new_with_max(LONGEST_NANOS, 3).expect("three digits are in range"))
    }

    pub(crate) fn push(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn milliseconds(&self) -> Milliseconds {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let quantile = |share| ms(self.0.value_at_quantile(share));
        Milliseconds { p50: quantile(0.5), p99: quantile(0.99), max: ms(self.0.max()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_told_to_three_digits_and_an_hour_counts_as_a_minute() {
        let mut durations = Durations::new();
        (1..=100).for_each(|millis| durations.push(Duration::from_millis(millis)));
        durations.push(Duration::from_secs(3600));
        let Milliseconds { p50, p99, max } = durations.milliseconds();
        assert!((p50 - 51.0).abs() < 0.1 && (p99 - 100.0).abs() < 0.1, "{p50} {p99}");
        assert!((max / 60_000.0 - 1.0).abs() < 0.001, "{max}");
    }
}
