//! The segments of MPEG-TS of a presentation: copies of the stream's bytes, made only while clients ask for them.

use super::{Growing, Wake};
use glassline_delivery::fill::{Bytes, Failure, Head, Object as Filling};
use glassline_delivery::packager::Presentation;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// A segment that is not kept yet, and where in the stream its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSegment {
    /// Its number.
    pub segment: u64,
    /// Its bytes, as offsets of the stream.
    pub source: Range<u64>,
}

/// What is kept.
#[derive(Default)]
pub(super) struct MpegTsSegments {
    kept: BTreeMap<u64, Arc<Growing>>,
    /// Segments before this one were asked for in vain: their bytes are gone.
    gone_before: u64,
}

impl MpegTsSegments {
    /// The segments that have to be made, the oldest first.
    pub(super) fn missing(&self, presentation: &Presentation) -> Vec<MissingSegment> {
        let Some(lead) = presentation.lead() else { return Vec::new() };
        let due = lead.complete().filter(|segment| segment.number >= self.gone_before);
        let missing = due.filter(|segment| !self.kept.contains_key(&segment.number));
        missing
            .filter_map(|it| Some(MissingSegment { segment: it.number, source: it.source.clone()? }))
            .collect()
    }

    /// The bytes of a segment; `None`: they are gone.
    pub(super) fn put(&mut self, segment: u64, bytes: Option<Bytes>, head: Head, wake: &Arc<dyn Wake>) {
        match bytes {
            Some(bytes) => {
                self.kept.insert(segment, Growing::new(Filling::whole(head, bytes), Arc::clone(wake)));
            }
            None => {
                // What is listed has no holes.
                self.gone_before = segment + 1;
                self.kept.retain(|&number, _| number > segment);
            }
        }
    }

    /// A segment leaves the presentation.
    pub(super) fn expire(&mut self, segment: u64) {
        self.kept.remove(&segment);
    }

    pub(super) fn find(&self, segment: u64) -> Option<Arc<Growing>> {
        self.kept.get(&segment).cloned()
    }

    /// The newest segments that follow each other.
    pub(super) fn range(&self) -> Option<RangeInclusive<u64>> {
        let last = *self.kept.keys().next_back()?;
        let first = self.kept.keys().rev().zip((0..=last).rev()).take_while(|&(&number, due)| number == due);
        first.last().map(|(&first, _)| first..=last)
    }

    /// Drops all, since no client asks any more.
    pub(super) fn clear(&mut self) {
        for growing in std::mem::take(&mut self.kept).into_values() {
            growing.change(|object| object.fail(Failure::Ended));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BEGUN_SECS, KEY_EVERY, Stream, Woken, plain, store, text};
    use super::*;
    use proptest::prelude::*;

    fn put(segments: &mut MpegTsSegments, segment: u64, bytes: Option<&'static [u8]>) {
        let wake = Arc::new(Woken::default()).as_wake();
        segments.put(segment, bytes.map(Bytes::from_static), plain(), &wake);
    }

    fn kept(numbers: &[u64]) -> MpegTsSegments {
        let mut segments = MpegTsSegments::default();
        numbers.iter().for_each(|number| put(&mut segments, *number, Some(b"packets")));
        segments
    }

    fn missing(segments: &MpegTsSegments, pictures: u64) -> Vec<u64> {
        let (store, _) = store();
        Stream::new().push_until(&store, pictures);
        let missing = store.look(|presentation| segments.missing(presentation));
        missing.iter().map(|it| it.segment - BEGUN_SECS).collect()
    }

    #[test]
    fn nothing_is_missing_before_a_segment_is_complete() {
        let segments = MpegTsSegments::default();
        assert!(missing(&segments, 0).is_empty());
        assert!(missing(&segments, KEY_EVERY).is_empty());
        assert_eq!(missing(&segments, KEY_EVERY + 1), [0]);
    }

    #[test]
    fn what_is_kept_is_not_missing() {
        let segments = kept(&[BEGUN_SECS + 1]);
        assert_eq!(missing(&segments, 3 * KEY_EVERY + 1), [0, 2]);
    }

    #[test]
    fn a_segment_that_has_lost_its_bytes_is_not_asked_for_again_nor_any_before_it() {
        let mut segments = kept(&[BEGUN_SECS]);
        put(&mut segments, BEGUN_SECS + 1, None);
        assert_eq!(missing(&segments, 4 * KEY_EVERY + 1), [2, 3]);
        assert_eq!(segments.range(), None, "what is listed has no hole");
    }

    #[test]
    fn a_segment_is_found_by_its_number_with_its_head() {
        let segments = kept(&[7]);
        let growing = segments.find(7).unwrap();
        assert_eq!(text(&growing), "packets");
        assert_eq!(growing.look(|object| object.progress().head).as_deref(), Some(&plain()));
        assert!(segments.find(6).is_none() && segments.find(8).is_none());
    }

    #[test]
    fn the_range_ends_at_the_newest_and_begins_behind_the_last_hole() {
        assert_eq!(kept(&[]).range(), None);
        assert_eq!(kept(&[0]).range(), Some(0..=0));
        assert_eq!(kept(&[3, 4, 6, 7, 8]).range(), Some(6..=8));
        assert_eq!(kept(&[0, 1, 2]).range(), Some(0..=2));
    }

    #[test]
    fn what_expires_or_is_cleared_is_found_no_more_and_read_on() {
        let mut segments = kept(&[5, 6]);
        let read = segments.find(6).unwrap();
        segments.expire(5);
        segments.expire(4);
        assert_eq!(segments.range(), Some(6..=6));
        segments.clear();
        assert!(segments.find(6).is_none() && segments.range().is_none());
        assert_eq!((text(&read).as_str(), read.look(Filling::failure)), ("packets", None));
    }

    proptest! {
        #[test]
        fn the_range_is_the_longest_end_of_the_numbers_without_a_hole(
            numbers in prop::collection::btree_set(0u64..20, 0..15),
        ) {
            let segments = kept(&numbers.iter().copied().collect::<Vec<_>>());
            let expected = numbers.last().map(|&last| {
                let first = (0..=last).rev().take_while(|number| numbers.contains(number)).last();
                first.unwrap()..=last
            });
            prop_assert_eq!(segments.range(), expected);
        }
    }
}
