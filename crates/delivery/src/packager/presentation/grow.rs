//! How the model grows and is trimmed: each change is also an event.

use super::super::{Event, RenditionName};
use super::rendition::rate_bps;
use super::{
    Epoch, KeyFrame, Kind, Part, Presentation, Rendition, Segment, SegmentLength, TrackInfo, duration_of,
};
use glassline_media::{Ticks, Utc};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Segments that are kept behind those that are listed, for viewers that have an older playlist.
const GRACE_SEGMENTS: usize = 3;
/// Segments of a rendition that are listed at least, if there are as many.
const LISTED_MIN: usize = 3;
/// Segments of a rendition that are listed at most.
const LISTED_MAX: usize = 8192;
/// Bit rates above this, which only segments of no length show, are not told.
const PEAK_MAX_BPS: u64 = 10_000_000_000;

impl Presentation {
    /// A rendition goes on, or begins, in an epoch; its first segment there has the number `next`.
    pub(in crate::packager) fn begin_track(
        &mut self,
        name: RenditionName,
        track: TrackInfo,
        next: u64,
        events: &mut VecDeque<Event>,
    ) {
        let at = match self.renditions.binary_search_by_key(&name, Rendition::name) {
            Ok(at) => at,
            Err(at) => {
                self.renditions.insert(at, Rendition::new(name, next));
                at
            }
        };
        let rendition = &mut self.renditions[at];
        if rendition.next != next {
            // Numbers in a playlist have no gaps: what is before one leaves.
            rendition.expire_all(events);
            (rendition.next, rendition.listed_from) = (next, next);
        }
        rendition.tracks.push_back(track);
        rendition.forget_tracks(events);
    }

    /// An epoch begins; its first unit came in at `arrived`. Decides when it begins in the presentation, so that it overlaps no
    /// other one.
    pub(in crate::packager) fn begin_epoch(&mut self, epoch: Epoch, arrived: Utc) {
        let begun = *self.begun.get_or_insert(arrived);
        let since = Duration::from_nanos(arrived.as_nanos().saturating_sub(begun.as_nanos()));
        // Periods do not overlap, even where more came in than the time between.
        let before = self.epochs.back().map_or(Duration::ZERO, |epoch| epoch.start + self.length_of(epoch));
        let start = since.max(before);
        self.epochs.push_back(Epoch { start, ..epoch });
    }

    /// How long what is kept of an epoch has lasted since its beginning.
    pub(crate) fn length_of(&self, epoch: &Epoch) -> Duration {
        let segments = self.renditions.iter().filter_map(|rendition| {
            rendition.segments.iter().rev().find(|segment| segment.epoch == epoch.number)
        });
        let end = segments.map(|segment| duration_of(segment.end(), segment.timescale)).max();
        end.unwrap_or_default().saturating_sub(duration_of(epoch.first_ticks, Ticks::RATE))
    }

    /// Remembers how long the segments of the current epoch are, once the first whole one of the rendition that cuts is
    /// complete.
    pub(in crate::packager) fn learn_length(&mut self, lead: RenditionName) {
        let Some(epoch) = self.epochs.back() else { return };
        if epoch.segment_length.is_some() {
            return;
        }
        let Some(rendition) = self.rendition(lead) else { return };
        let mut own = rendition.segments.iter().filter(|segment| segment.epoch == epoch.number).peekable();
        // Where another version was joined, the first one may lack its beginning.
        if own.peek().is_some_and(|first| first.number != epoch.first_segment) {
            own.next();
        }
        let first = own.next().filter(|first| first.complete);
        let (stated, seen) = match rendition.track_in(epoch.number) {
            Some(TrackInfo { kind: Kind::Video { frame_rate, .. }, sample_ticks, .. }) => {
                (*frame_rate, Some(*sample_ticks))
            }
            _ => (None, None),
        };
        let length = first.map(|first| SegmentLength::of(first, stated, seen));
        if let Some(epoch) = self.epochs.back_mut() {
            epoch.segment_length = length;
        }
    }

    pub(in crate::packager) fn rendition_mut(&mut self, name: RenditionName) -> Option<&mut Rendition> {
        self.renditions.iter_mut().find(|rendition| rendition.name() == name)
    }

    /// Forgets epochs of which nothing is kept.
    pub(in crate::packager) fn forget_epochs(&mut self) {
        let firsts = self.renditions.iter().filter_map(|rendition| rendition.segments.front());
        let oldest = firsts.map(|segment| segment.epoch).min();
        while self.epochs.len() > 1
            && self.epochs.front().is_some_and(|epoch| oldest.is_none_or(|oldest| epoch.number < oldest))
        {
            self.epochs.pop_front();
        }
    }
}

impl Rendition {
    pub(in crate::packager) fn begin_segment(&mut self, segment: Segment, events: &mut VecDeque<Event>) {
        self.next = segment.number + 1;
        events.push_back(Event::SegmentBegins { rendition: self.name(), segment: segment.number });
        self.segments.push_back(Segment { first_key_frame: self.key_frames, ..segment });
    }

    fn open_mut(&mut self) -> Option<&mut Segment> {
        self.segments.back_mut().filter(|segment| !segment.complete)
    }

    pub(in crate::packager) fn begin_part(&mut self, independent: bool, events: &mut VecDeque<Event>) {
        let rendition = self.name();
        let Some(open) = self.open_mut() else { return };
        open.open_part =
            Some(Part { duration: 0, independent, offset_bytes: open.size_bytes, size_bytes: 0 });
        let (segment, part) = (open.number, open.parts.len() as u32);
        events.push_back(Event::PartBegins { rendition, segment, part });
    }

    /// Adds a chunk to the open segment and part; `key_frame` is its time since the segment's start where it is one.
    pub(in crate::packager) fn add_chunk(
        &mut self,
        bytes: bytes::Bytes,
        key_frame: Option<u64>,
        events: &mut VecDeque<Event>,
    ) {
        let rendition = self.name();
        let Some(open) = self.segments.back_mut().filter(|segment| !segment.complete) else { return };
        let size_bytes = bytes.len() as u64;
        if let Some(time) = key_frame {
            let key_frame = KeyFrame { time, offset_bytes: open.size_bytes, size_bytes };
            self.key_frames += u64::from(open.add_key_frame(key_frame));
        }
        open.size_bytes += size_bytes;
        if let Some(part) = &mut open.open_part {
            part.size_bytes += size_bytes;
        }
        let (segment, part) = (open.number, open.parts.len() as u32);
        events.push_back(Event::Chunk { rendition, segment, part, bytes });
    }

    /// What is in the open segment lasts so many ticks.
    pub(in crate::packager) fn lasts(&mut self, duration: u64) {
        if let Some(open) = self.open_mut() {
            open.duration = duration;
        }
    }

    pub(in crate::packager) fn end_part(&mut self, duration: u64, events: &mut VecDeque<Event>) {
        let rendition = self.name();
        let Some(open) = self.open_mut() else { return };
        let Some(part) = open.open_part.take() else { return };
        let (segment, number) = (open.number, open.parts.len() as u32);
        open.parts.push(Part { duration, ..part });
        events.push_back(Event::PartEnds { rendition, segment, part: number });
    }

    pub(in crate::packager) fn end_segment(&mut self, events: &mut VecDeque<Event>) {
        let rendition = self.name();
        let Some(open) = self.open_mut() else { return };
        open.complete = true;
        open.parts.shrink_to_fit();
        let (segment, time) = (open.number, open.duration_time());
        let rate = rate_bps(open.size_bytes, time).min(PEAK_MAX_BPS);
        // The last segment of an epoch may have a few pictures only: its rate says nothing of the others'.
        if self.longest.is_zero() || time >= self.longest / 2 {
            self.peak_bps = self.peak_bps.max(rate);
        }
        self.longest = self.longest.max(time);
        events.push_back(Event::SegmentEnds { rendition, segment });
    }

    /// Notes of which part of the source the last segment was made, which is complete.
    pub(in crate::packager) fn set_source(&mut self, source: Range<u64>) {
        let last = self.segments.back_mut().filter(|last| last.complete && !last.gap);
        if let Some(last) = last.filter(|last| last.source.is_none()) {
            last.source = Some(source);
        }
    }

    /// Adds a segment without bytes: nothing came in its time.
    pub(in crate::packager) fn add_gap(&mut self, segment: Segment) {
        self.next = segment.number + 1;
        self.longest = self.longest.max(segment.duration_time());
        self.segments.push_back(Segment { gap: true, complete: true, ..segment });
    }

    /// Lists no more than the window, and keeps little more than is listed.
    pub(in crate::packager) fn trim(&mut self, window: Duration, events: &mut VecDeque<Event>) {
        let mut listed = self.listed().count();
        let mut time: Duration = self.listed().map(Segment::duration_time).sum();
        while listed > LISTED_MIN {
            let Some(first) = self.listed().next().map(Segment::duration_time) else { break };
            if time.saturating_sub(first) < window && listed <= LISTED_MAX {
                break;
            }
            time = time.saturating_sub(first);
            listed -= 1;
            self.listed_from += 1;
        }
        while self.segments.len() > listed + GRACE_SEGMENTS {
            self.expire_first(events);
        }
        self.forget_tracks(events);
    }

    fn expire_first(&mut self, events: &mut VecDeque<Event>) {
        let Some(segment) = self.segments.pop_front() else { return };
        if !segment.gap {
            events.push_back(Event::Expires { rendition: self.name(), segment: segment.number });
        }
    }

    fn expire_all(&mut self, events: &mut VecDeque<Event>) {
        while !self.segments.is_empty() {
            self.expire_first(events);
        }
    }

    /// Forgets what it was in epochs of which no segment is kept, but for the newest.
    fn forget_tracks(&mut self, events: &mut VecDeque<Event>) {
        let oldest = self.segments.front().map(|segment| segment.epoch);
        while self.tracks.len() > 1 {
            let Some(track) =
                self.tracks.front().filter(|track| oldest.is_none_or(|oldest| track.epoch < oldest))
            else {
                break;
            };
            events.push_back(Event::InitExpires { rendition: self.name(), number: track.epoch });
            self.tracks.pop_front();
        }
    }
}
