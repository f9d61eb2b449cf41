//! Waits in buckets that grow with them.

use std::time::Duration;

/// The end of the first bucket, microseconds: what is shorter is not told apart.
const FINEST_US: u64 = 128;
/// Each doubling of the wait is divided into this many buckets of one width.
const STEPS: usize = 4;
/// Doublings beyond [`FINEST_US`]: up to 33.5 s, which is more than any request waits for.
const DOUBLINGS: usize = 18;

/// Buckets of a [`WaitHistogram`]; the last one has no end.
pub const WAIT_BUCKETS: usize = 1 + DOUBLINGS * STEPS + 1;

/// How long some waited. A bucket ends at most a quarter above where it begins, so that a percentile is told within
/// 12 % from 128 µs to 33 s. 296 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitHistogram {
    counts: [u32; WAIT_BUCKETS],
}

impl Default for WaitHistogram {
    fn default() -> WaitHistogram {
        WaitHistogram { counts: [0; WAIT_BUCKETS] }
    }
}

impl WaitHistogram {
    /// Counts one that waited for `wait`.
    pub fn record(&mut self, wait: Duration) {
        let count = &mut self.counts[bucket_of(wait)];
        *count = count.saturating_add(1);
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &WaitHistogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// How many are in each bucket, not added up.
    pub fn counts(&self) -> &[u32; WAIT_BUCKETS] {
        &self.counts
    }

    /// Where the buckets end: the last one does not.
    pub fn ends() -> [Duration; WAIT_BUCKETS - 1] {
        std::array::from_fn(|bucket| Duration::from_micros(begin_us(bucket + 1)))
    }

    /// The wait that `hundredths` of all did not exceed (nearest rank): the middle of its bucket, by ratio; of the last
    /// one, where it begins. `None` of nothing.
    pub fn percentile(&self, hundredths: u32) -> Option<Duration> {
        let total = self.total();
        let rank = (total * u64::from(hundredths.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        let micros = match (bucket, begin_us(bucket), begin_us(bucket + 1)) {
            (0, _, end) => end / 2,
            (last, begin, _) if last == WAIT_BUCKETS - 1 => begin,
            (_, begin, end) => (begin as f64 * end as f64).sqrt() as u64,
        };
        Some(Duration::from_micros(micros))
    }
}

fn bucket_of(wait: Duration) -> usize {
    let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    if micros < FINEST_US {
        return 0;
    }
    let doubling = micros.ilog2() - FINEST_US.ilog2();
    // The bits behind the first one say which step of the doubling it is.
    let step = (micros >> (micros.ilog2() - STEPS.ilog2())) as usize % STEPS;
    (1 + doubling as usize * STEPS + step).min(WAIT_BUCKETS - 1)
}

/// Where `bucket` begins, microseconds.
fn begin_us(bucket: usize) -> u64 {
    let Some(step) = bucket.checked_sub(1) else { return 0 };
    let parts = (STEPS + step % STEPS) as u64;
    (parts << (step / STEPS)) * (FINEST_US / STEPS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_and_none_is_wide() {
        assert_eq!((begin_us(0), begin_us(1), begin_us(2), begin_us(5)), (0, 128, 160, 256));
        let ends = WaitHistogram::ends();
        assert!(ends.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] * 5 / 4));
        assert!(ends[WAIT_BUCKETS - 2] > Duration::from_secs(20));
        for (bucket, end) in ends.iter().enumerate() {
            assert_eq!(bucket_of(*end - Duration::from_nanos(1)), bucket);
            assert_eq!(bucket_of(*end), bucket + 1);
        }
        assert_eq!((bucket_of(Duration::ZERO), bucket_of(Duration::MAX)), (0, WAIT_BUCKETS - 1));
    }

    #[test]
    fn a_step_at_half_a_second_is_one_bucket() {
        let mut waits = WaitHistogram::default();
        for turn in 0..100 {
            waits.record(Duration::from_micros(if turn < 70 { 40 } else { 500_000 + 200 * turn }));
        }
        let filled: Vec<_> = waits.counts().iter().filter(|count| **count > 0).collect();
        assert_eq!(filled, [&70, &30]);
        assert_eq!(waits.percentile(70), Some(Duration::from_micros(64)));
        let half_a_second = waits.percentile(71).unwrap().as_millis();
        assert!((460..540).contains(&half_a_second), "{half_a_second}");
    }

    #[test]
    fn nothing_has_no_percentiles_and_what_is_beyond_has_its_least() {
        let mut waits = WaitHistogram::default();
        assert_eq!((waits.percentile(50), waits.total()), (None, 0));
        waits.record(Duration::from_secs(1000));
        assert_eq!(waits.percentile(0), Some(WaitHistogram::ends()[WAIT_BUCKETS - 2]));
    }

    proptest! {
        #[test]
        fn percentiles_are_near_those_of_the_list(
            mut all in proptest::collection::vec((7.0_f64..14.0).prop_map(|power| power.exp2() as u64 * 1000 / 512), 1..300),
            hundredths in 1u32..=100,
        ) {
            let mut waits = WaitHistogram::default();
            all.iter().for_each(|micros| waits.record(Duration::from_micros(*micros)));
            all.sort_unstable();
            let rank = (all.len() * hundredths as usize).div_ceil(100) - 1;
            let ratio = waits.percentile(hundredths).unwrap().as_micros() as f64 / all[rank] as f64;
            prop_assert!((0.88..1.125).contains(&ratio), "{ratio}");
        }
    }
}
