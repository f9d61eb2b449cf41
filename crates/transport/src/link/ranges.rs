//! Parts of a message: sorted, disjoint half-open ranges of bytes.

/// A set of bytes below 2³². Small where loss is rare: bytes that come in order are one range. An empty one is a
/// pointer, since each message under way has two of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Option<Box<Parts>>);

#[derive(Clone, Debug, Default)]
struct Parts {
    parts: Vec<(u32, u32)>,
}

impl Ranges {
    fn parts(&self) -> &[(u32, u32)] {
        self.0.as_ref().map_or(&[], |parts| &parts.parts)
    }

    /// Adds `start..end`; gives how many bytes were new.
    pub(crate) fn insert(&mut self, start: u32, end: u32) -> u32 {
        if start >= end {
            return 0;
        }
        let parts = &mut self.0.get_or_insert_default().parts;
        // The ranges that touch the new one.
        let first = parts.partition_point(|part| part.1 < start);
        let last = first + parts[first..].partition_point(|part| part.0 <= end);
        let (mut merged, mut known) = ((start, end), 0);
        for part in &parts[first..last] {
            known += part.1.min(end).saturating_sub(part.0.max(start));
            merged = (merged.0.min(part.0), merged.1.max(part.1));
        }
        if last - first == 1 {
            parts[first] = merged;
        } else {
            parts.splice(first..last, [merged]);
        }
        end - start - known
    }

    /// Takes `start..end` away.
    pub(crate) fn remove(&mut self, start: u32, end: u32) {
        let Some(Parts { parts }) = self.0.as_deref_mut() else { return };
        if start >= end {
            return;
        }
        let first = parts.partition_point(|part| part.1 <= start);
        let last = first + parts[first..].partition_point(|part| part.0 < end);
        if first == last {
            return;
        }
        let before = (parts[first].0, start);
        let after = (end, parts[last - 1].1);
        let left = [before, after].into_iter().filter(|part| part.0 < part.1);
        parts.splice(first..last, left);
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<(u32, u32)> {
        self.parts().first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts().is_empty()
    }

    /// How many ranges there are.
    pub(crate) fn count(&self) -> usize {
        self.parts().len()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Whether all of `0..end` is there.
    pub(crate) fn covers(&self, end: u32) -> bool {
        end == 0 || self.parts().first().is_some_and(|part| part.0 == 0 && part.1 >= end)
    }

    /// What of `start..end` is not there.
    pub(crate) fn missing(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut at = start;
        let first = self.parts().partition_point(|part| part.1 <= start);
        self.parts()[first..]
            .iter()
            .copied()
            .take_while(move |part| part.0 < end)
            .chain([(end, end)])
            .filter_map(move |part| {
                let gap = (at, part.0.max(at));
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
                let bytes: Vec<u32> = ranges.parts().iter().flat_map(|part| part.0..part.1).collect();
                prop_assert_eq!(bytes, set.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.parts().windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
            }
            let missing: Vec<u32> = ranges.missing(probe.0, probe.1).flat_map(|part| part.0..part.1).collect();
            prop_assert_eq!(missing, (probe.0..probe.1).filter(|byte| !set.contains(byte)).collect::<Vec<_>>());
            prop_assert_eq!(ranges.covers(probe.0), (0..probe.0).all(|byte| set.contains(&byte)));
        }
    }
}
