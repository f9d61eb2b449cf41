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
