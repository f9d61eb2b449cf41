//! What a relay's threads count of it as a whole.

use glassline_streams::counters::{Counter, HandedCounts, UnknownCounts};

/// Counts of the relay as a whole; [`Totals`](super::Totals) documents each.
#[derive(Debug, Default)]
pub(super) struct RelayCounters {
    /// Connections now.
    pub(super) connections: Counter,
    pub(super) accepted: Counter,
    pub(super) refused: Counter,
    pub(super) refused_unanswered: Counter,
    pub(super) requests: Counter,
    pub(super) errors: Counter,
    pub(super) timed_out: Counter,
    pub(super) bodies_timed_out: Counter,
    pub(super) streams_displaced: Counter,
    pub(super) tls_handshakes: Counter,
    pub(super) tls_failed: Counter,
    /// Connections now of which another process does the TLS.
    pub(super) tls_apart: Counter,
    pub(super) gave_way: Counter,
    pub(super) unpackaged_bytes: Counter,
}

/// How many of [`RelayCounters::named`] versions knew that handed them over by position.
const POSITIONS: usize = 10;

impl RelayCounters {
    /// Those that the next process goes on from, the first [`POSITIONS`] in the order in which earlier versions handed them over.
    /// Those of connections now are not among them: the next process counts the connections that it takes in.
    fn named(&self) -> [(&'static str, &Counter); 12] {
        [
            ("accepted", &self.accepted),
            ("refused", &self.refused),
            ("refused_unanswered", &self.refused_unanswered),
            ("requests", &self.requests),
            ("errors", &self.errors),
            ("timed_out", &self.timed_out),
            ("bodies_timed_out", &self.bodies_timed_out),
            ("streams_displaced", &self.streams_displaced),
            ("tls_handshakes", &self.tls_handshakes),
            ("tls_failed", &self.tls_failed),
            ("gave_way", &self.gave_way),
            ("unpackaged_bytes", &self.unpackaged_bytes),
        ]
    }

    /// What the next process goes on from.
    pub(super) fn state(&self) -> HandedCounts {
        HandedCounts::of(self.named())
    }

    /// Goes on from [`RelayCounters::state`] of another process.
    pub(super) fn restore(state: &HandedCounts) -> Result<RelayCounters, UnknownCounts> {
        let counters = RelayCounters::default();
        state.add_to(counters.named(), POSITIONS)?;
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relays_counts_go_over_each_to_its_place_but_not_those_of_now() {
        let earlier = HandedCounts::Positional((1..=10).collect());
        let counters = RelayCounters::restore(&earlier).unwrap();
        assert_eq!((counters.accepted.value(), counters.refused.value()), (1, 2));
        assert_eq!((counters.requests.value(), counters.errors.value()), (4, 5));
        assert_eq!((counters.streams_displaced.value(), counters.tls_failed.value()), (8, 10));
        assert_eq!(counters.gave_way.value(), 0);
        for counter in [&counters.connections, &counters.tls_apart, &counters.gave_way] {
            counter.increment();
        }
        let next = RelayCounters::restore(&counters.state()).unwrap();
        assert_eq!(next.state(), counters.state());
        assert_eq!((next.connections.value(), next.tls_apart.value(), next.gave_way.value()), (0, 0, 1));
    }

    #[test]
    fn another_number_of_counts_without_names_is_refused() {
        assert!(RelayCounters::restore(&HandedCounts::Positional(vec![1; 11])).is_err());
    }

    #[test]
    fn counts_of_a_later_program_that_are_not_known_here_are_passed_over_or_refused_as_one() {
        let counters = RelayCounters::default();
        counters.refused.add(7);
        counters.gave_way.add(3);
        // Counts go over by their names, whatever order they stand in.
        let written = rmp_serde::to_vec_named(&counters.state()).unwrap();
        let read: HandedCounts = rmp_serde::from_slice(&written).unwrap();
        assert_eq!(read, counters.state());
        let restored = RelayCounters::restore(&read).unwrap();
        assert_eq!(
            (restored.refused.value(), restored.gave_way.value(), restored.accepted.value()),
            (7, 3, 0)
        );
    }

    #[test]
    fn each_count_goes_over_to_its_own_place() {
        for at in 0..11 {
            let counters = RelayCounters::default();
            counters.named()[at].1.add(1 + at as u64);
            let restored = RelayCounters::restore(&counters.state()).unwrap();
            for (place, (name, counter)) in restored.named().into_iter().enumerate() {
                assert_eq!(counter.value(), if place == at { 1 + at as u64 } else { 0 }, "{name}");
            }
        }
    }

    #[test]
    fn too_few_counts_without_names_are_refused() {
        assert!(RelayCounters::restore(&HandedCounts::Positional(vec![1; 9])).is_err());
    }
}
