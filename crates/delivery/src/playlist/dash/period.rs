//! What of a presentation becomes a period: an epoch, the renditions in it, and how their segments are told. [`periods`] reads it
//! from the presentations of all variants; the writers of the manifest, of its sets and of their addresses have it from there.

use super::super::variant::{Variant, common_length};
use super::Addressing;
use crate::packager::{Epoch, EventStream, Rendition, Segment, SegmentLength, duration_of};
use glassline_media::Ticks;
use std::time::Duration;

/// How the segments of a period are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// All last about as long.
    Regular {
        /// The length; times are told in its time scale.
        length: SegmentLength,
    },
    /// Each by its time.
    Timeline,
}

/// A variant's rendition in a period.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    /// What is put in front of its addresses.
    pub(super) base: &'a str,
    pub(super) epoch: &'a Epoch,
    pub(super) rendition: &'a Rendition,
}

/// What of an epoch is told.
pub(super) struct Period<'a> {
    /// Its name among the periods of the manifest.
    pub(super) id: u32,
    pub(super) epoch: &'a Epoch,
    /// What becomes adaptation sets: a rendition, in each of the variants that have it.
    pub(super) sets: Vec<Vec<Member<'a>>>,
    pub(super) listing: Listing,
    /// What the chunks of its first set carry of events.
    pub(super) events: &'a [EventStream],
    /// When it begins in the presentation.
    pub(super) start: Duration,
    /// How long it lasts; `None` while it goes on.
    pub(super) duration: Option<Duration>,
}

impl<'a> Member<'a> {
    /// Its complete segments in the period.
    pub(super) fn complete(&self) -> impl DoubleEndedIterator<Item = &'a Segment> + use<'a> {
        let number = self.epoch.number;
        self.rendition.complete().filter(move |segment| segment.epoch == number)
    }

    /// The segments that it has in the period, without the gaps: segments for a time in which nothing came.
    pub(super) fn listed(&self) -> impl DoubleEndedIterator<Item = &'a Segment> + use<'a> {
        let number = self.epoch.number;
        self.rendition.listed().filter(move |segment| segment.epoch == number && !segment.gap)
    }
}

impl Period<'_> {
    /// How much of its beginning is no longer listed.
    pub(super) fn trimmed(&self) -> Duration {
        let members = self.sets.iter().flatten();
        let firsts = members.filter_map(|member| member.complete().next().map(Segment::start_time));
        let first = duration_of(self.epoch.first_ticks, Ticks::RATE);
        firsts.min().unwrap_or_default().saturating_sub(first)
    }
}

/// What is told of each epoch: the current one by number, where that is wanted and possible; all else by its list.
pub(super) fn periods<'a>(
    lead: Variant<'a>,
    others: &[Variant<'a>],
    addressing: Addressing,
) -> Vec<Period<'a>> {
    let presentation = lead.presentation;
    let current = presentation.current_epoch().map(|epoch| epoch.number);
    let mut periods: Vec<Period<'_>> = Vec::new();
    for epoch in presentation.epochs() {
        let goes_on = current == Some(epoch.number) && !presentation.is_ended();
        let mut sets: Vec<Vec<Member<'a>>> = presentation
            .renditions()
            .iter()
            .map(|rendition| vec![Member { base: lead.base, epoch, rendition }])
            .collect();
        if let Some(video) = sets.iter_mut().find(|set| set[0].rendition.name().is_video()) {
            video.extend(others.iter().filter_map(|other| {
                let (rendition, epoch) = other.counterpart(epoch)?;
                Some(Member { base: other.base, epoch, rendition })
            }));
        }
        let by_number = addressing == Addressing::Number && goes_on;
        let length = Some(()).filter(|()| by_number).and_then(|()| regular_length(&sets));
        let listing = length.map_or(Listing::Timeline, |length| Listing::Regular { length });
        for set in &mut sets {
            set.retain(|member| match listing {
                Listing::Regular { .. } => member.rendition.is_in(member.epoch.number),
                Listing::Timeline => member.complete().next().is_some(),
            });
        }
        sets.retain(|set| !set.is_empty());
        if sets.is_empty() {
            continue;
        }
        let length = presentation.length_of(epoch);
        let (events, start) = (presentation.event_streams(), epoch.start);
        let duration = (!goes_on).then_some(length);
        let mut period = Period { id: epoch.number, epoch, sets, listing, events, start, duration };
        if presentation.is_ended() {
            // What is no longer live begins with what is left of it.
            period.start =
                periods.last().map_or(Duration::ZERO, |last| last.start + last.duration.unwrap_or_default());
            period.duration = Some(length.saturating_sub(period.trimmed()));
        }
        periods.push(period);
    }
    periods
}

/// How long all segments of a period are, where they begin where equal lengths would have them, give or
/// take half of one (23009-1 §5.3.9.5.3: the most that players have to expect).
fn regular_length(sets: &[Vec<Member<'_>>]) -> Option<SegmentLength> {
    let members = || sets.iter().flatten();
    let length = common_length(members().map(|member| member.epoch.segment_length))?;
    let mut begun = members().flat_map(|member| member.listed().map(|segment| (member.epoch, segment)));
    let is_regular = begun.all(|(epoch, segment)| {
        let start = segment.start_time().saturating_sub(duration_of(epoch.first_ticks, Ticks::RATE));
        let due = length.times(segment.number.saturating_sub(epoch.first_segment));
        // Half a segment is what the standard allows (ISO/IEC 23009-1 §5.3.9.2.1); a little more does not hurt, since what is
        // asked for too early waits.
        start.abs_diff(due) <= length.times(1) * 5 / 8
    });
    is_regular.then_some(length)
}
