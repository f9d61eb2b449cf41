//! Sets of numbers, as sorted, disjoint half-open ranges: which bytes of a message came, which messages have ended,
//! which packets are acknowledged.
//!
//! Each operation takes logarithmic time in the number of ranges, whatever a peer made of them.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::steps::step;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What a [`Ranges`] is a set of.
pub(crate) trait Number: Copy + Ord + Default {
    /// The sum, or the largest number.
    fn plus(self, other: Self) -> Self;
    /// The difference, or zero.
    fn minus(self, other: Self) -> Self;
}

impl Number for u32 {
    fn plus(self, other: u32) -> u32 {
        self.saturating_add(other)
    }
    fn minus(self, other: u32) -> u32 {
        self.saturating_sub(other)
    }
}

impl Number for u64 {
    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
    fn minus(self, other: u64) -> u64 {
        self.saturating_sub(other)
    }
}

/// A set of numbers. Small where loss is rare: what comes in order is one range. An empty one is a pointer, since each
/// message under way has two of them.
#[allow(clippy::box_collection, reason = "an empty map alone is three words")]
#[derive(Clone, Debug)]
pub(crate) struct Ranges<N = u32>(Option<Box<BTreeMap<N, N>>>);

impl<N> Default for Ranges<N> {
    fn default() -> Ranges<N> {
        Ranges(None)
    }
}

impl<N: Number> Ranges<N> {
    /// Adds `start..end`; gives how many numbers were new.
    pub(crate) fn insert(&mut self, start: N, end: N) -> N {
        let mut known = N::default();
        if start >= end {
            return known;
        }
        let parts = self.0.get_or_insert_default();
        let (mut merged, mut is_there) = ((start, end), false);
        if let Some((&low, high)) = parts.range_mut(..=start).next_back()
            && *high >= start
        {
            if *high >= end {
                return known;
            }
            known = high.minus(start);
            merged.0 = low;
            // What comes in order makes that range longer, unless it reaches the next.
            *high = end;
            is_there = true;
        }
        while let Some((&low, &high)) = parts.range((Bound::Excluded(merged.0), Bound::Included(end))).next()
        {
            step();
            known = known.plus(high.min(end).minus(low));
            merged.1 = merged.1.max(high);
            parts.remove(&low);
            is_there = false;
        }
        if !is_there {
            parts.insert(merged.0, merged.1);
        }
        end.minus(start).minus(known)
    }

    /// Takes `start..end` away.
    pub(crate) fn remove(&mut self, start: N, end: N) {
        let Some(parts) = self.0.as_deref_mut() else { return };
        if start >= end {
            return;
        }
        if let Some((_, high)) = parts.range_mut(..start).next_back()
            && *high > start
        {
            let after = std::mem::replace(high, start);
            if after > end {
                parts.insert(end, after);
            }
        }
        while let Some((&low, &high)) = parts.range(start..end).next() {
            step();
            parts.remove(&low);
            if high > end {
                parts.insert(end, high);
            }
        }
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<(N, N)> {
        self.0.as_ref()?.first_key_value().map(|(low, high)| (*low, *high))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many ranges there are.
    pub(crate) fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |parts| parts.len())
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    pub(crate) fn contains(&self, number: N) -> bool {
        let below = self.0.as_ref().and_then(|parts| parts.range(..=number).next_back());
        below.is_some_and(|(_, high)| *high > number)
    }

    /// Whether all of `0..end` is there.
    pub(crate) fn covers(&self, end: N) -> bool {
        let zero = N::default();
        end == zero || self.first().is_some_and(|part| part.0 == zero && part.1 >= end)
    }

    /// The ranges of which `start..end` has a part, or on which it borders.
    pub(crate) fn touching(&self, start: N, end: N) -> impl Iterator<Item = (N, N)> {
        let before = self.0.as_ref().and_then(|parts| parts.range(..start).next_back());
        let before = before.filter(move |part| *part.1 >= start);
        let after = self.0.iter().flat_map(move |parts| parts.range(start..));
        let after = after.take_while(move |part| *part.0 <= end);
        before.into_iter().chain(after).map(|(low, high)| {
            step();
            (*low, *high)
        })
    }

    /// What of `start..end` is not there.
    pub(crate) fn missing(&self, start: N, end: N) -> impl Iterator<Item = (N, N)> {
        let mut at = start;
        self.touching(start, end).chain([(end, end)]).filter_map(move |part| {
            let gap = (at, part.0.min(end).max(at));
            at = at.max(part.1);
            (gap.0 < gap.1).then_some(gap)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..60, 0u32..60), 0..40), probe in (0u32..60, 0u32..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (insert, start, end) in steps {
                if insert {
                    let before = set.len();
                    set.extend(start..end);
                    prop_assert_eq!(ranges.insert(start, end) as usize, set.len() - before);
                } else {
                    ranges.remove(start, end);
                    set.retain(|byte| !(start..end).contains(byte));
                }
                let parts: Vec<(u32, u32)> = ranges.touching(0, u32::MAX).collect();
                let bytes: Vec<u32> = parts.iter().flat_map(|part| part.0..part.1).collect();
                prop_assert_eq!(bytes, set.iter().copied().collect::<Vec<_>>());
                prop_assert!(parts.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
                prop_assert_eq!((parts.len(), parts.first().copied()), (ranges.count(), ranges.first()));
            }
            let missing: Vec<u32> = ranges.missing(probe.0, probe.1).flat_map(|part| part.0..part.1).collect();
            prop_assert_eq!(missing, (probe.0..probe.1).filter(|byte| !set.contains(byte)).collect::<Vec<_>>());
            prop_assert_eq!(ranges.covers(probe.0), (0..probe.0).all(|byte| set.contains(&byte)));
            prop_assert_eq!(ranges.contains(probe.0), set.contains(&probe.0));
            let touching: BTreeSet<u32> = ranges.touching(probe.0, probe.1).flat_map(|part| part.0..part.1).collect();
            prop_assert!((probe.0..probe.1).all(|byte| touching.contains(&byte) == set.contains(&byte)));
        }
    }
}
