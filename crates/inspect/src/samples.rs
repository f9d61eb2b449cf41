//! Figures of one kind, and their distribution.

use crate::distribution::Distribution;

/// Beyond this many, every second one is left out of the percentiles, again and again.
const KEPT_MAX: usize = 1 << 17;

/// Collects figures in bounded memory: 1 MiB. Count, sum and extremes are exact; percentiles come from all figures
/// up to 131,072, from an evenly spaced part of them beyond.
#[derive(Clone, Debug)]
pub struct Samples {
    kept: Vec<f64>,
    /// Every how manyth figure is kept.
    stride: u64,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples {
            kept: Vec::new(),
            stride: 1,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl Samples {
    /// Adds a figure.
    pub fn push(&mut self, value: f64) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == KEPT_MAX {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            // The stride may just have grown beyond this figure.
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(value);
            }
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Figures so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The distribution of the figures, each put through `map`, which must keep (or turn around) their order and
    /// be linear.
    pub fn distribution(&self, map: impl Fn(f64) -> f64) -> Option<Distribution> {
        let mut sorted: Vec<f64> = self.kept.iter().map(|value| map(*value)).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        let (a, b) = (map(self.min), map(self.max));
        Some(Distribution {
            count: self.count,
            min: a.min(b),
            mean: map(self.sum / self.count as f64),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: a.max(b),
        })
    }

    /// The middle figure.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The figure below which `share` of them lie, 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut kept = self.kept.clone();
        let index = (share * kept.len().checked_sub(1)? as f64).round() as usize;
        Some(*kept.select_nth_unstable_by(index, f64::total_cmp).1)
    }

    /// The smallest figure.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The figures that percentiles come from.
    pub fn kept(&self) -> impl Iterator<Item = f64> + '_ {
        self.kept.iter().copied()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Samples {
        let mut samples = Samples::default();
        values.into_iter().for_each(|value| samples.push(value));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_and_one() {
        let samples: Samples = (0..=100).map(f64::from).collect();
        let all = samples.distribution(|value| value / 10.0).unwrap();
        assert_eq!((all.count, all.min, all.mean, all.max), (101, 0.0, 5.0, 10.0));
        assert_eq!((all.p50, all.p95, all.p99), (5.0, 9.5, 9.9));
        assert!(Samples::default().distribution(|value| value).is_none());
    }

    #[test]
    fn memory_is_bounded_and_percentiles_stay_near() {
        let samples: Samples = (0..1_000_000).map(f64::from).collect();
        assert!(samples.kept.len() <= KEPT_MAX);
        let all = samples.distribution(|value| value).unwrap();
        assert_eq!((all.count, all.min, all.max, all.mean), (1_000_000, 0.0, 999_999.0, 499_999.5));
        assert!((all.p95 - 950_000.0).abs() < 100.0, "{}", all.p95);
    }
}
