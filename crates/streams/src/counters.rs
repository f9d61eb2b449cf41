//! What threads count. Nothing is ordered by these counts, so every access is relaxed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// A count that any thread may change.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// `count` more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// `count` fewer. The caller has added them before.
    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// The count of the moment.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts as one process hands them over to the next: by name. A name that the next process does not know is left out, and one that
/// the first did not count begins at zero, so that two versions understand each other whatever either counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HandedCounts {
    /// By name.
    Named(BTreeMap<String, u64>),
    /// By position, as versions before 2026-12 handed them over.
    Positional(Vec<u64>),
}

/// An earlier version has handed over another number of counts than it can have had: which is which is not known.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{handed} counts without names were handed over where {known} are known")]
pub struct UnknownCounts {
    handed: usize,
    known: usize,
}

impl HandedCounts {
    /// The counts of the moment of `counters`.
    pub fn of<const N: usize>(counters: [(&'static str, &Counter); N]) -> HandedCounts {
        let named = counters.map(|(name, counter)| (name.to_owned(), counter.value()));
        HandedCounts::Named(named.into())
    }

    /// Adds them to `counters`, of which versions without names knew the first `positions`.
    ///
    /// # Errors
    /// [`UnknownCounts`]; nothing was added then.
    pub fn add_to<const N: usize>(
        &self,
        counters: [(&'static str, &Counter); N],
        positions: usize,
    ) -> Result<(), UnknownCounts> {
        match self {
            HandedCounts::Named(named) => {
                for (name, counter) in counters {
                    counter.add(named.get(name).copied().unwrap_or(0));
                }
            }
            HandedCounts::Positional(counts) if counts.len() == positions => {
                for ((_, counter), count) in counters.into_iter().zip(counts) {
                    counter.add(*count);
                }
            }
            HandedCounts::Positional(counts) => {
                return Err(UnknownCounts { handed: counts.len(), known: positions });
            }
        }
        Ok(())
    }
}

/// Counts of one stream; [`StreamStatus`](crate::status::StreamStatus) documents each.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Bytes of the stream that viewers were sent.
    pub bytes_out: Counter,
    /// Times that a viewer was moved forward.
    pub moved_forward: Counter,
    /// Viewers that fell behind and were dropped.
    pub dropped_behind: Counter,
    /// Viewers that were dropped because their sockets took nothing.
    pub stalled: Counter,
    /// Viewers that were ended within a record.
    pub cut_off: Counter,
    /// Viewers that have joined.
    pub joined: Counter,
    /// TCP segments that were sent again.
    pub retransmitted: Counter,
    /// Bursts that were longer than their paths had shown to take, since there was no time for pacing.
    pub unpaced: Counter,
}

/// How many of [`StreamCounters::named`] versions knew that handed them over by position.
const POSITIONS: usize = 8;

impl StreamCounters {
    /// All of them; the first [`POSITIONS`] in the order in which earlier versions handed them over.
    fn named(&self) -> [(&'static str, &Counter); 8] {
        [
            ("bytes_out", &self.bytes_out),
            ("moved_forward", &self.moved_forward),
            ("dropped_behind", &self.dropped_behind),
            ("stalled", &self.stalled),
            ("cut_off", &self.cut_off),
            ("joined", &self.joined),
            ("retransmitted", &self.retransmitted),
            ("unpaced", &self.unpaced),
        ]
    }

    /// What the next process goes on from.
    pub(crate) fn state(&self) -> HandedCounts {
        HandedCounts::of(self.named())
    }

    /// Goes on from [`StreamCounters::state`] of another process.
    pub(crate) fn restore(state: &HandedCounts) -> Result<StreamCounters, UnknownCounts> {
        let counters = StreamCounters::default();
        state.add_to(counters.named(), POSITIONS)?;
        Ok(counters)
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

    /// Counts that are all different.
    fn different() -> StreamCounters {
        let counters = StreamCounters::default();
        for (place, (_, counter)) in counters.named().into_iter().enumerate() {
            counter.add(place as u64 + 1);
        }
        counters
    }

    #[test]
    fn a_streams_counts_go_over_by_name() {
        let state = different().state();
        let again: HandedCounts = rmp_serde::from_slice(&rmp_serde::to_vec_named(&state).unwrap()).unwrap();
        assert_eq!(again, state);
        let counters = StreamCounters::restore(&again).unwrap();
        assert_eq!(counters.state(), state);
        assert_eq!((counters.bytes_out.value(), counters.unpaced.value()), (1, 8));
    }

    #[test]
    fn a_count_more_or_fewer_does_not_matter() {
        let HandedCounts::Named(mut named) = different().state() else { panic!("by name") };
        named.insert("of_a_later_version".to_owned(), 99);
        named.remove("stalled");
        let counters = StreamCounters::restore(&HandedCounts::Named(named)).unwrap();
        assert_eq!((counters.stalled.value(), counters.cut_off.value()), (0, 5));
    }

    #[test]
    fn counts_of_an_earlier_version_are_taken_by_their_positions_or_refused() {
        let earlier = rmp_serde::to_vec_named(&[1_u64, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let counters = StreamCounters::restore(&rmp_serde::from_slice(&earlier).unwrap()).unwrap();
        assert_eq!(counters.state(), different().state());
        assert_eq!((counters.joined.value(), counters.unpaced.value()), (6, 8));
        let another = HandedCounts::Positional(vec![1; 9]);
        let refused = StreamCounters::restore(&another).unwrap_err().to_string();
        assert_eq!(refused, "9 counts without names were handed over where 8 are known");
    }
}
