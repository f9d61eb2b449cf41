//! Which bytes of a frame are there.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::ops::Range;

/// Runs that a frame has at most, as many as a frame of UHD has where each other packet is lost. What would be one more
/// is treated as if it had not come: a sender that strews samples over a frame costs no more memory and time than that.
pub(super) const RUNS_MAX: usize = 16_384;

/// Runs of bytes that are there, ascending, with gaps between them. What comes in order costs the same however large the frame
/// is; a frame has one run more than it has holes.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    runs: Vec<Range<usize>>,
    bytes: usize,
}

impl Coverage {
    /// How many bytes are there.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that a range is there. Returns how many of its bytes were not before.
    pub(super) fn add(&mut self, range: Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let is_full = self.runs.len() >= RUNS_MAX;
        match self.runs.last_mut() {
            Some(last) if last.end == range.start => {
                let added = range.len();
                self.bytes = self.bytes.saturating_add(added);
                last.end = range.end;
                return added;
            }
            Some(last) if last.end > range.start => {}
            _ if is_full => return 0,
            _ => {
                let added = range.len();
                self.bytes = self.bytes.saturating_add(added);
                self.runs.push(range);
                return added;
            }
        }
        // The runs that it overlaps or touches become one with it.
        let first = self.runs.partition_point(|run| run.end < range.start);
        let end = self.runs.partition_point(|run| run.start <= range.end);
        let before: usize = self.runs[first..end].iter().map(Range::len).sum();
        let joined = self.runs[first..end]
            .iter()
            .fold(range, |joined, run| joined.start.min(run.start)..joined.end.max(run.end));
        let added = joined.len().saturating_sub(before);
        if first == end && is_full {
            return 0;
        }
        if first == end {
            self.runs.insert(first, joined);
        } else {
            self.runs[first] = joined;
            self.runs.drain(first.saturating_add(1)..end);
        }
        self.bytes = self.bytes.saturating_add(added);
        added
    }

    /// Whether nothing of a range is there.
    pub(super) fn is_free(&self, range: &Range<usize>) -> bool {
        match self.runs.last() {
            None => true,
            Some(last) if last.end <= range.start => true,
            Some(_) if range.is_empty() => true,
            Some(_) => {
                let next = self.runs.partition_point(|run| run.end <= range.start);
                self.runs.get(next).is_none_or(|run| run.start >= range.end)
            }
        }
    }

    /// Whether all of a range is there.
    pub(super) fn has(&self, range: &Range<usize>) -> bool {
        let next = self.runs.partition_point(|run| run.end < range.end);
        range.is_empty() || self.runs.get(next).is_some_and(|run| run.start <= range.start)
    }

    /// What is missing of a frame of so many bytes.
    pub(super) fn holes(&self, bytes: usize) -> Vec<Range<usize>> {
        let ends = std::iter::once(0).chain(self.runs.iter().map(|run| run.end));
        let starts = self.runs.iter().map(|run| run.start).chain([bytes]);
        ends.zip(starts).map(|(from, to)| from..to).filter(|hole| !hole.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn samples_that_are_strewn_are_a_bounded_number_of_runs() {
        let mut coverage = Coverage::default();
        let wanted = 2 * RUNS_MAX;
        // From the end to the beginning: each run is in front of all others.
        let added: usize = (0..wanted).rev().map(|at| coverage.add(4 * at..4 * at + 2)).sum();
        assert_eq!((coverage.runs.len(), coverage.bytes(), added), (RUNS_MAX, 2 * RUNS_MAX, 2 * RUNS_MAX));
        assert_eq!(coverage.add(4 * wanted..4 * wanted + 2), 0);
        // What is left out is told as missing, and comes where it joins what is there.
        assert!(!coverage.has(&(0..2)));
        assert_eq!(coverage.holes(4 * wanted).len(), RUNS_MAX + 1);
        assert_eq!(coverage.add(0..4 * wanted), 4 * wanted - 2 * RUNS_MAX);
        assert_eq!(coverage.holes(4 * wanted), []);
    }

    proptest! {
        #[test]
        fn it_knows_what_a_map_of_bytes_knows(ranges in prop::collection::vec((0usize..60, 0usize..20), 0..40)) {
            let (mut coverage, mut map) = (Coverage::default(), [false; 80]);
            for (start, length) in ranges {
                let range = start..start + length;
                let there = map[range.clone()].iter().filter(|there| **there).count();
                prop_assert_eq!(coverage.is_free(&range), there == 0);
                prop_assert_eq!(coverage.has(&range), there == length);
                prop_assert_eq!(coverage.add(range.clone()), length - there);
                map[range].fill(true);
                prop_assert_eq!(coverage.bytes(), map.iter().filter(|there| **there).count());
            }
            let mut holes = [true; 80];
            for hole in coverage.holes(80) {
                prop_assert!(holes[hole.clone()].iter().all(|free| *free));
                holes[hole].fill(false);
            }
            prop_assert_eq!(holes, map);
            prop_assert!(coverage.runs.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
