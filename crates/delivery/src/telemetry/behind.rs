//! How far behind live viewers are.

use crate::stream::OffsetTime;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Upper edges of a histogram's buckets, milliseconds, each included; above the last one lies one bucket more.
pub const BEHIND_EDGES_MS: [u32; 7] = [50, 100, 200, 500, 1000, 2000, 5000];

/// Viewers by how far they are behind live. Each bucket counts those of its range alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// One for each of [`BEHIND_EDGES_MS`], and one for what is above.
    pub buckets: [u64; BEHIND_EDGES_MS.len() + 1],
    /// All that were counted, added up, milliseconds.
    pub sum_ms: u64,
}

impl Behind {
    /// Counts a viewer.
    pub fn observe(&mut self, behind_ms: u32) {
        let bucket = BEHIND_EDGES_MS.partition_point(|edge| *edge < behind_ms);
        self.buckets[bucket] += 1;
        self.sum_ms += u64::from(behind_ms);
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Behind) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_ms += other.sum_ms;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// How long ago the byte at `offset` came, by `marks` (the oldest first). Exact to the marks' distance; at least as
/// long as told where the byte is older than all of them, and nothing where it is still to come.
pub fn age_of(marks: &[OffsetTime], offset: u64, now: Time) -> Duration {
    let reached = marks.partition_point(|mark| mark.offset <= offset);
    marks.get(reached).map_or(Duration::ZERO, |mark| now.since(mark.at))
}

/// The 50th and the 95th percentile of `behind_ms` (nearest rank); `None` of nothing. Changes the order in `behind_ms`.
pub fn percentiles_ms(behind_ms: &mut [u32]) -> Option<(u32, u32)> {
    let last = behind_ms.len().checked_sub(1)?;
    let rank = |hundredths: usize| (behind_ms.len() * hundredths).div_ceil(100).saturating_sub(1).min(last);
    let (median, high) = (rank(50), rank(95));
    let p50 = *behind_ms.select_nth_unstable(median).1;
    let p95 = *behind_ms.select_nth_unstable(high).1;
    Some((p50, p95))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_viewer_counts_in_one_bucket() {
        let mut behind = Behind::default();
        for ms in [0, 50, 51, 100, 500, 501, 5000, 5001, u32::MAX] {
            behind.observe(ms);
        }
        assert_eq!(behind.buckets, [2, 2, 0, 1, 1, 0, 1, 2]);
        assert_eq!(behind.count(), 9);
        let mut twice = behind;
        twice.add(&behind);
        assert_eq!((twice.count(), twice.sum_ms), (18, 2 * behind.sum_ms));
    }

    #[test]
    fn a_byte_is_as_old_as_the_mark_that_first_covers_it() {
        let marks = [(1000, 100), (2000, 150), (5000, 300)]
            .map(|(offset, ms)| OffsetTime { offset, at: Time::from_millis(ms) });
        let age = |offset| age_of(&marks, offset, Time::from_millis(400)).as_millis();
        assert_eq!((age(0), age(999)), (300, 300));
        assert_eq!((age(1000), age(1999)), (250, 250));
        assert_eq!((age(2000), age(4999)), (100, 100));
        assert_eq!(age(5000), 0, "it is still to come");
        assert_eq!(age_of(&[], 7, Time::from_millis(1)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list(mut all in proptest::collection::vec(0u32..10_000, 1..300)) {
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let rank = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).max(1) - 1];
            prop_assert_eq!(percentiles_ms(&mut all), Some((rank(0.50), rank(0.95))));
        }
    }

    #[test]
    fn nothing_has_no_percentiles() {
        assert_eq!(percentiles_ms(&mut []), None);
    }
}
