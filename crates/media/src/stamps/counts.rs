//! How long pictures took from stage to stage, counted in buckets: what metrics tell.

use super::{Stage, Stamps};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The upper edges of the buckets, in microseconds; what is longer is in one more.
pub const STAGE_EDGES_MICROS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// Counts of one stage: how long pictures took to it from the stage before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCount {
    /// Pictures in each bucket, which end at [`STAGE_EDGES_MICROS`]; the last one has no end.
    pub buckets: [u64; STAGE_EDGES_MICROS.len() + 1],
    /// All of their times.
    pub sum: Duration,
}

impl StageCount {
    /// The bucket of a time.
    pub fn bucket(time: Duration) -> usize {
        STAGE_EDGES_MICROS.partition_point(|edge| Duration::from_micros(*edge) < time)
    }

    /// Counts a time.
    pub fn push(&mut self, time: Duration) {
        self.buckets[Self::bucket(time)] += 1;
        self.sum = self.sum.saturating_add(time);
    }
}

/// Counts of all stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounts([StageCount; Stage::ALL.len()]);

impl StageCounts {
    /// Counts a picture.
    pub fn push(&mut self, stamps: &Stamps) {
        for step in stamps.budget() {
            self.0[step.to as usize].push(step.time);
        }
    }

    /// The stages that were passed, in the order of the way.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, &StageCount)> {
        let passed = |(_, count): &(Stage, &StageCount)| count.buckets.iter().any(|count| *count > 0);
        Stage::ALL.into_iter().zip(&self.0).filter(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_at_or_behind_it() {
        let mut counts = StageCounts::default();
        for micros in [0, 100, 101, 500_000, 500_001] {
            let captured = Time::from_millis(5);
            counts.push(
                &Stamps::captured_at(captured).with(Stage::Queued, captured + Duration::from_micros(micros)),
            );
        }
        let told: Vec<_> = counts.stages().collect();
        assert_eq!(told.len(), 1);
        let (stage, count) = told[0];
        assert_eq!((stage, count.sum), (Stage::Queued, Duration::from_micros(1_000_202)));
        assert_eq!(count.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
    }
}
