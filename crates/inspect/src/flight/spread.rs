//! Figures of one kind: exact sums and extremes, percentiles within 0.1 %.

use crate::distribution::Distribution;
use hdrhistogram::Histogram;

/// Larger figures count as this in the percentiles: 2⁵⁰ ns are 13 days, and as bytes a petabyte.
const VALUE_MAX: u64 = (1 << 50) - 1;

/// Collects whole figures in bounded memory (about 400 KiB where they range from 1 to 2⁵⁰).
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    histogram: Histogram<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Spread {
        let mut histogram = Histogram::new(3).expect("three digits are within its range");
        histogram.auto(true);
        Spread { histogram, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Spread {
    pub(crate) fn push(&mut self, value: u64) {
        self.push_many(value, 1);
    }

    /// The same figure `times` times.
    pub(crate) fn push_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.histogram.record_n(value.min(VALUE_MAX), times).expect("it grows by itself");
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The distribution of the figures times `scale`, which is positive.
    pub(crate) fn distribution(&self, scale: f64) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let at = |share: f64| {
            let value = self.histogram.value_at_quantile(share).clamp(self.min, self.max);
            value as f64 * scale
        };
        Some(Distribution {
            count: self.count,
            min: self.min as f64 * scale,
            mean: self.sum as f64 / self.count as f64 * scale,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: self.max as f64 * scale,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_thousand() {
        let mut spread = Spread::default();
        (1..=1000).for_each(|value| spread.push(value));
        let all = spread.distribution(2.0).unwrap();
        assert_eq!((all.count, all.min, all.mean, all.max), (1000, 2.0, 1001.0, 2000.0));
        assert_eq!((all.p50, all.p95, all.p99), (1000.0, 1900.0, 1980.0));
        assert!(Spread::default().distribution(1.0).is_none());
    }

    #[test]
    fn the_largest_figures_fit() {
        let mut spread = Spread::default();
        spread.push_many(u64::MAX, u64::from(u32::MAX));
        spread.push(0);
        let all = spread.distribution(1.0).unwrap();
        assert_eq!((all.min, all.max), (0.0, u64::MAX as f64));
        assert_eq!(all.p50, VALUE_MAX as f64);
    }
}
