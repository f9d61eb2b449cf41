//! How long requests for objects waited for the first byte, by where it came from.

use super::CacheStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where an object came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectSource {
    /// Packaged here.
    Packaged,
    /// An upstream server, and what was found of it here.
    Upstream(CacheStatus),
    /// A recording.
    Recorded,
}

impl ObjectSource {
    /// All there are.
    pub const ALL: [ObjectSource; 7] = [
        ObjectSource::Packaged,
        ObjectSource::Upstream(CacheStatus::Hit),
        ObjectSource::Upstream(CacheStatus::Stale),
        ObjectSource::Upstream(CacheStatus::Joined),
        ObjectSource::Upstream(CacheStatus::Disk),
        ObjectSource::Upstream(CacheStatus::Miss),
        ObjectSource::Recorded,
    ];

    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectSource::Packaged => "packaged",
            ObjectSource::Upstream(status) => status.name(),
            ObjectSource::Recorded => "recorded",
        }
    }

    /// Its place in [`ObjectSource::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|source| *source == self).unwrap_or_default()
    }
}

/// Upper edges of the histogram, in milliseconds; what took longer is counted beyond. A cache that has waiting requests sleep
/// on a lock shows a step at 500.
pub const WAIT_EDGES_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 400, 600, 1000, 2000];

/// Waits by where objects came from.
#[derive(Debug, Default)]
pub struct Waits([Histogram; ObjectSource::ALL.len()]);

#[derive(Debug, Default)]
struct Histogram {
    counts: [AtomicU64; WAIT_EDGES_MS.len() + 1],
    micros: AtomicU64,
}

/// A histogram as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// One for each of [`WAIT_EDGES_MS`], and one beyond; not added up.
    pub counts: [u64; WAIT_EDGES_MS.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

impl Waits {
    /// One waited for `wait`.
    pub fn record(&self, source: ObjectSource, wait: Duration) {
        let histogram = &self.0[source.index()];
        let millis = wait.as_micros().div_ceil(1000) as u64;
        let bucket = WAIT_EDGES_MS.partition_point(|edge| *edge < millis);
        histogram.counts[bucket].fetch_add(1, Ordering::Relaxed);
        histogram.micros.fetch_add(wait.as_micros() as u64, Ordering::Relaxed);
    }

    /// Those of one source.
    pub fn counts(&self, source: ObjectSource) -> WaitCounts {
        let histogram = &self.0[source.index()];
        WaitCounts {
            counts: std::array::from_fn(|bucket| histogram.counts[bucket].load(Ordering::Relaxed)),
            sum: Duration::from_micros(histogram.micros.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_at_their_edges() {
        let waits = Waits::default();
        let joined = ObjectSource::Upstream(CacheStatus::Joined);
        for micros in [0, 1000, 1001, 500_000, 9_000_000] {
            waits.record(joined, Duration::from_micros(micros));
        }
        let counts = waits.counts(joined);
        assert_eq!(counts.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert_eq!(counts.sum, Duration::from_micros(9_502_001));
        assert_eq!(waits.counts(ObjectSource::Packaged), WaitCounts::default());
    }
    #[test]
    fn each_source_has_its_own_place_and_name() {
        for (at, source) in ObjectSource::ALL.into_iter().enumerate() {
            assert_eq!(source.index(), at);
        }
        let names = ObjectSource::ALL.map(ObjectSource::name);
        assert_eq!(names, ["packaged", "hit", "stale", "joined", "disk", "miss", "recorded"]);
    }

    #[test]
    fn a_wait_is_counted_at_the_first_edge_that_it_does_not_exceed() {
        for (at, edge) in WAIT_EDGES_MS.into_iter().enumerate() {
            let waits = Waits::default();
            waits.record(ObjectSource::Packaged, Duration::from_millis(edge));
            waits.record(ObjectSource::Packaged, Duration::from_millis(edge) + Duration::from_micros(1));
            let mut expected = [0; WAIT_EDGES_MS.len() + 1];
            (expected[at], expected[at + 1]) = (1, 1);
            assert_eq!(waits.counts(ObjectSource::Packaged).counts, expected, "{edge}");
        }
    }

    #[test]
    fn a_wait_of_one_source_is_none_of_another() {
        let waits = Waits::default();
        for (times, source) in ObjectSource::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| waits.record(source, Duration::from_micros(1500)));
        }
        for (times, source) in ObjectSource::ALL.into_iter().enumerate() {
            let WaitCounts { counts, sum } = waits.counts(source);
            assert_eq!((counts[1], counts.iter().sum::<u64>()), (times as u64, times as u64));
            assert_eq!(sum, Duration::from_micros(1500 * times as u64));
        }
    }
}
