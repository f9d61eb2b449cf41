//! What the threads count, of the relay and of each stream. Nothing is ordered by these counts, so every access is relaxed.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that any thread may change.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    fn new(value: u64) -> Counter {
        Counter(AtomicU64::new(value))
    }

    /// One more.
    pub(super) fn increment(&self) {
        self.add(1);
    }

    /// `count` more.
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// `count` fewer. The caller has added them before.
    pub(super) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// The count of the moment.
    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

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
    /// Connections now whose TLS another process does.
    pub(super) tls_apart: Counter,
    /// Handed over beside [`RelayCounters::state`].
    pub(super) gave_way: Counter,
}

impl RelayCounters {
    /// The counts that the next process goes on from, in the order of the handover's message. Those of connections now are
    /// not among them: the next process counts the connections that it takes in.
    pub(super) fn state(&self) -> [u64; 10] {
        [
            &self.accepted,
            &self.refused,
            &self.refused_unanswered,
            &self.requests,
            &self.errors,
            &self.timed_out,
            &self.bodies_timed_out,
            &self.streams_displaced,
            &self.tls_handshakes,
            &self.tls_failed,
        ]
        .map(Counter::value)
    }

    /// Goes on from [`RelayCounters::state`] of another process.
    pub(super) fn restore(state: [u64; 10]) -> RelayCounters {
        let [
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
        ] = state.map(Counter::new);
        RelayCounters {
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
            ..RelayCounters::default()
        }
    }
}

/// Counts of one stream; [`StreamStatus`](super::StreamStatus) documents each.
#[derive(Debug, Default)]
pub(super) struct StreamCounters {
    pub(super) bytes_out: Counter,
    pub(super) moved_forward: Counter,
    pub(super) dropped_behind: Counter,
    pub(super) stalled: Counter,
    pub(super) cut_off: Counter,
    pub(super) joined: Counter,
    pub(super) retransmitted: Counter,
    /// Bursts that were longer than their paths had shown to take, since there was no time for pacing.
    pub(super) unpaced: Counter,
}

impl StreamCounters {
    /// All counts, in the order of the handover's message.
    pub(super) fn state(&self) -> [u64; 8] {
        [
            &self.bytes_out,
            &self.moved_forward,
            &self.dropped_behind,
            &self.stalled,
            &self.cut_off,
            &self.joined,
            &self.retransmitted,
            &self.unpaced,
        ]
        .map(Counter::value)
    }

    /// Goes on from [`StreamCounters::state`] of another process.
    pub(super) fn restore(state: [u64; 8]) -> StreamCounters {
        let [bytes_out, moved_forward, dropped_behind, stalled, cut_off, joined, retransmitted, unpaced] =
            state.map(Counter::new);
        StreamCounters {
            bytes_out,
            moved_forward,
            dropped_behind,
            stalled,
            cut_off,
            joined,
            retransmitted,
            unpaced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_goes_up_and_down() {
        let counter = Counter::default();
        counter.increment();
        counter.add(4);
        counter.subtract(2);
        assert_eq!(counter.value(), 3);
    }

    #[test]
    fn threads_lose_no_count() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.value(), 4000);
    }

    #[test]
    fn the_relays_counts_are_restored_each_to_its_place_but_not_those_of_now() {
        let state: [u64; 10] = std::array::from_fn(|place| place as u64 + 1);
        let counters = RelayCounters::restore(state);
        assert_eq!(counters.state(), state);
        // The order is part of the handover's format: an older process leaves its counts so.
        assert_eq!((counters.accepted.value(), counters.refused.value()), (1, 2));
        assert_eq!((counters.requests.value(), counters.errors.value()), (4, 5));
        assert_eq!((counters.streams_displaced.value(), counters.tls_failed.value()), (8, 10));
        counters.connections.increment();
        counters.tls_apart.increment();
        let next = RelayCounters::restore(counters.state());
        assert_eq!((next.connections.value(), next.tls_apart.value()), (0, 0));
    }

    #[test]
    fn a_streams_counts_are_restored_each_to_its_place() {
        let state: [u64; 8] = std::array::from_fn(|place| place as u64 + 1);
        let counters = StreamCounters::restore(state);
        assert_eq!(counters.state(), state);
        assert_eq!((counters.bytes_out.value(), counters.moved_forward.value()), (1, 2));
        assert_eq!((counters.joined.value(), counters.unpaced.value()), (6, 8));
    }
}
