//! Marks for viewers' connections (`SO_MARK`): by them the system's traffic control knows which viewer a packet is for.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How the connections of a stream's viewers are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// The mark of each connection that gets none of its own.
    pub shared: Option<u32>,
    /// Out of which each connection gets a mark of its own while there is one.
    pub pool: Option<MarkRange>,
    /// What its packets bear for the routers on their way.
    pub header: HeaderMarks,
}

impl Marking {
    /// Whether connections get marks of the system (`SO_MARK`), for which a process needs a privilege; for what packets bear in
    /// their headers it needs none.
    pub fn needs_privilege(&self) -> bool {
        self.shared.is_some() || self.pool.is_some()
    }
}

/// The highest DSCP: it has six bits (RFC 2474 §3).
pub const DSCP_MAX: u8 = 63;

/// What packets bear in IP's header for the routers on their way. What is `None` is as the system does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeaderMarks {
    /// The class that routers are asked to treat them as (DSCP, RFC 2474), at most [`DSCP_MAX`].
    pub dscp: Option<u8>,
    /// Whether those of IPv6 bear a flow label (RFC 6437).
    pub flow_label: Option<bool>,
}

impl HeaderMarks {
    /// These, and of `others` what is not said here.
    #[must_use]
    pub fn or(self, others: HeaderMarks) -> HeaderMarks {
        HeaderMarks { dscp: self.dscp.or(others.dscp), flow_label: self.flow_label.or(others.flow_label) }
    }

    /// Takes an option of a URL's query, `dscp=N` or `flow_label=true|false`. Returns whether it is one of these.
    ///
    /// # Errors
    /// What its value would have to be.
    pub fn take_option(&mut self, key: &str, value: &str) -> Result<bool, &'static str> {
        match key {
            "dscp" => {
                let dscp = value.parse().ok().filter(|dscp| *dscp <= DSCP_MAX);
                self.dscp = Some(dscp.ok_or("dscp is a number from 0 to 63, as in dscp=34")?);
            }
            "flow_label" => {
                self.flow_label = Some(value.parse().map_err(|_| "flow_label is true or false")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The options that say the same, as [`HeaderMarks::take_option`] takes them.
    pub fn options(&self) -> impl Iterator<Item = String> + use<> {
        let dscp = self.dscp.map(|dscp| format!("dscp={dscp}"));
        let flow_label = self.flow_label.map(|has_label| format!("flow_label={has_label}"));
        dscp.into_iter().chain(flow_label)
    }
}

/// Marks from one to another, both included. Never empty, and without 0, which is what an unmarked socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkRange {
    first: u32,
    last: u32,
}

/// What is no range of marks.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{found:?} is no range of marks; write two numbers from 1 to 4294967295, the lower one first and at most \
     65536 in all, as in \"1000-1999\""
)]
pub struct MarkRangeError {
    found: String,
}

impl MarkRange {
    /// The most marks of a range: as many classes as a queueing discipline can have.
    pub const MAX_MARKS: u32 = 1 << 16;

    /// From `first` to `last`; `None` where that is no range, or too long a one.
    pub fn new(first: u32, last: u32) -> Option<MarkRange> {
        let fits = first > 0 && first <= last && last.saturating_sub(first) < Self::MAX_MARKS;
        fits.then_some(MarkRange { first, last })
    }

    /// Whether `mark` is one of these.
    pub fn contains(self, mark: u32) -> bool {
        (self.first..=self.last).contains(&mark)
    }

    /// Whether both have a mark in common.
    pub fn overlaps(self, other: MarkRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl FromStr for MarkRange {
    type Err = MarkRangeError;
    fn from_str(text: &str) -> Result<MarkRange, MarkRangeError> {
        let parsed = text
            .split_once('-')
            .and_then(|(first, last)| MarkRange::new(first.trim().parse().ok()?, last.trim().parse().ok()?));
        parsed.ok_or_else(|| MarkRangeError { found: text.to_owned() })
    }
}

impl fmt::Display for MarkRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Which marks are held, and in which order the others are given out: those that were never held first, by number,
/// then the one that was given back the longest ago, so that a class of traffic control has sent the last packets
/// of one viewer before it gets another.
///
/// Ranges may overlap, and may come and go with a configuration: a mark has one holder all the same.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    held: BTreeSet<u32>,
    /// When each mark was given back last, as a count of such events.
    freed: BTreeMap<u32, u64>,
    /// The free marks of each range, the next one first.
    free: BTreeMap<MarkRange, BTreeSet<(u64, u32)>>,
    events: u64,
}

impl Marks {
    /// Takes a mark out of `range`; `None` where all are held. Costs the logarithm of the range's length, and once
    /// its length.
    pub fn take(&mut self, range: MarkRange) -> Option<u32> {
        if !self.free.contains_key(&range) {
            // Ranges of which no mark is held go: they may be of an old configuration, and are listed again when needed.
            let held = &self.held;
            self.free.retain(|old, _| held.range(old.first..=old.last).next().is_some());
            let marks = (range.first..=range.last).filter(|mark| !held.contains(mark));
            let marks = marks.map(|mark| (self.freed.get(&mark).copied().unwrap_or(0), mark)).collect();
            self.free.insert(range, marks);
        }
        let &(freed, mark) = self.free.get(&range)?.first()?;
        for (_, marks) in self.free.iter_mut().filter(|(range, _)| range.contains(mark)) {
            marks.remove(&(freed, mark));
        }
        self.held.insert(mark);
        Some(mark)
    }

    /// Holds just this mark, whatever range it was taken from in another process. Returns whether it was free.
    pub fn hold(&mut self, mark: u32) -> bool {
        for (_, marks) in self.free.iter_mut().filter(|(range, _)| range.contains(mark)) {
            marks.remove(&(self.freed.get(&mark).copied().unwrap_or(0), mark));
        }
        self.held.insert(mark)
    }

    /// Gives a mark back. Returns whether it was held.
    pub fn give_back(&mut self, mark: u32) -> bool {
        let was_held = self.held.remove(&mark);
        if was_held {
            self.events = self.events.saturating_add(1);
            self.freed.insert(mark, self.events);
            for (_, marks) in self.free.iter_mut().filter(|(range, _)| range.contains(mark)) {
                marks.insert((self.events, mark));
            }
        }
        was_held
    }

    /// Marks that are held.
    pub fn in_use(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn range(text: &str) -> MarkRange {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_is_two_numbers() {
        assert_eq!(range("1000-1999"), MarkRange::new(1000, 1999).unwrap());
        assert_eq!(range(" 7 - 7 ").to_string(), "7-7");
        assert_eq!(range("4294901760-4294967295").to_string(), "4294901760-4294967295");
        for bad in ["", "5", "0-9", "9-8", "1-65537", "a-b", "1-2-3", "-1-5", "1-4294967296"] {
            let error = bad.parse::<MarkRange>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        assert!(range("1-9").overlaps(range("9-12")) && !range("1-9").overlaps(range("10-12")));
        assert!(range("5-6").overlaps(range("1-9")));
    }

    #[test]
    fn the_mark_that_was_given_back_the_longest_ago_comes_first() {
        let (mut marks, pool) = (Marks::default(), range("10-13"));
        let taken: Vec<_> = (0..4).map(|_| marks.take(pool)).collect();
        assert_eq!(taken, [Some(10), Some(11), Some(12), Some(13)]);
        assert_eq!((marks.take(pool), marks.in_use()), (None, 4));
        assert!(marks.give_back(12) && marks.give_back(10));
        assert!(!marks.give_back(10) && !marks.give_back(99), "nobody holds those");
        assert_eq!((marks.take(pool), marks.take(pool), marks.take(pool)), (Some(12), Some(10), None));
    }

    #[test]
    fn one_that_was_never_held_comes_before_one_that_was() {
        let (mut marks, pool) = (Marks::default(), range("10-12"));
        assert_eq!(marks.take(pool), Some(10));
        marks.give_back(10);
        assert_eq!((marks.take(pool), marks.take(pool), marks.take(pool)), (Some(11), Some(12), Some(10)));
    }

    #[test]
    fn another_configuration_does_not_give_out_what_is_held() {
        let mut marks = Marks::default();
        assert_eq!(marks.take(range("10-12")), Some(10));
        assert_eq!((marks.take(range("9-11")), marks.take(range("9-11"))), (Some(9), Some(11)));
        assert_eq!(marks.take(range("9-11")), None);
        assert!(marks.give_back(10));
        assert_eq!((marks.take(range("9-11")), marks.take(range("10-12"))), (Some(10), Some(12)));
        // A range whose marks are all back is forgotten when the next one comes; their order is not.
        for mark in [12, 11, 10, 9] {
            assert!(marks.give_back(mark));
        }
        assert_eq!(marks.take(range("11-12")), Some(12));
        assert_eq!(marks.free.len(), 1);
    }

    #[test]
    fn what_a_url_says_of_marks_is_taken_and_other_options_are_left() {
        let mut marks = HeaderMarks::default();
        assert_eq!(marks.take_option("ttl", "64"), Ok(false));
        assert_eq!(marks.take_option("DSCP", "1"), Ok(false));
        assert_eq!((marks.take_option("dscp", "0"), marks.take_option("dscp", "63")), (Ok(true), Ok(true)));
        assert_eq!(marks.take_option("flow_label", "false"), Ok(true));
        assert_eq!(marks, HeaderMarks { dscp: Some(63), flow_label: Some(false) });
        assert_eq!(marks.options().collect::<Vec<_>>(), ["dscp=63", "flow_label=false"]);
        for bad in ["64", "-1", "af41", "", " 1"] {
            assert!(marks.take_option("dscp", bad).unwrap_err().contains("from 0 to 63"), "{bad}");
        }
        for bad in ["yes", "1", ""] {
            assert!(marks.take_option("flow_label", bad).unwrap_err().contains("true or false"), "{bad}");
        }
        assert_eq!(marks.dscp, Some(63), "what is refused changes nothing");
    }

    proptest! {
        /// Against a plain model: one queue a range that nobody else draws from.
        #[test]
        fn nobody_shares_a_mark_and_the_order_holds(
            length in 1u32..40,
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400),
        ) {
            let pool = MarkRange::new(100, 99 + length).unwrap();
            let mut queue: VecDeque<u32> = (100..100 + length).collect();
            let (mut marks, mut held) = (Marks::default(), Vec::new());
            for (takes, which) in steps {
                if takes || held.is_empty() {
                    let mark = marks.take(pool);
                    prop_assert_eq!(mark, queue.pop_front());
                    held.extend(mark);
                } else {
                    let mark = held.swap_remove(which.index(held.len()));
                    prop_assert!(marks.give_back(mark));
                    queue.push_back(mark);
                }
                prop_assert_eq!(marks.in_use(), held.len());
            }
        }

        /// Ranges that overlap: a mark is in its range and has one holder, and a range that says it is empty is.
        #[test]
        fn overlapping_ranges_share_no_mark(
            steps in prop::collection::vec((0u32..8, 0u32..8, any::<bool>(), any::<prop::sample::Index>()), 0..200),
        ) {
            let (mut marks, mut held) = (Marks::default(), BTreeSet::new());
            for (first, length, takes, which) in steps {
                if takes || held.is_empty() {
                    let pool = MarkRange::new(1 + first, 1 + first + length).unwrap();
                    match marks.take(pool) {
                        Some(mark) => prop_assert!(pool.contains(mark) && held.insert(mark)),
                        None => prop_assert!((pool.first..=pool.last).all(|mark| held.contains(&mark))),
                    }
                } else {
                    let mark = *held.iter().nth(which.index(held.len())).unwrap();
                    held.remove(&mark);
                    prop_assert!(marks.give_back(mark));
                }
            }
        }
    }

    #[test]
    fn a_mark_that_comes_from_elsewhere_is_nobody_elses() {
        let (mut marks, range) = (Marks::default(), MarkRange::new(1, 3).unwrap());
        assert!(marks.hold(1) && !marks.hold(1));
        assert_eq!(marks.take(range), Some(2));
        assert!(marks.hold(3));
        assert_eq!(marks.take(range), None);
        assert!(marks.give_back(1));
        assert_eq!((marks.take(range), marks.in_use()), (Some(1), 3));
    }
}
