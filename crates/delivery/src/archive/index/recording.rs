//! A recording, as the parts of its index tell of it together.

use super::super::names::Session;
use super::holes::Holes;
use super::line::is_bounded;
use super::{Hole, Line, MpegTsSegment, Part, RecordedSegment, SEGMENTS_MAX, TRACKS_MAX};
use crate::packager::{RenditionName, TrackInfo};
use crate::policy::StreamName;
use glassline_media::Utc;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is known of a recording. Parts may be added in any order; what a later part says of a segment counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    name: StreamName,
    session: Session,
    tracks: BTreeMap<(RenditionName, u32), TrackInfo>,
    /// With the number of the part that told of it.
    segments: BTreeMap<RenditionName, BTreeMap<u64, (u32, RecordedSegment)>>,
    count: usize,
    mpeg_ts: BTreeMap<u64, (u32, MpegTsSegment)>,
    holes: Holes,
    parts: BTreeSet<u32>,
    ended: Option<Utc>,
    bytes: u64,
    left_out: u64,
    longest: Duration,
    /// No segment was captured before one of a lower number.
    is_ordered: bool,
}

/// A part that belongs to another recording, or is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Of another stream or session.
    #[error("the part is of another recording")]
    Other,
    /// There was one with this number.
    #[error("there is a part with this number already")]
    Repeated,
}

impl Recording {
    /// Of which nothing is known yet.
    pub fn new(name: StreamName, session: Session) -> Recording {
        Recording {
            name,
            session,
            tracks: BTreeMap::new(),
            segments: BTreeMap::new(),
            count: 0,
            mpeg_ts: BTreeMap::new(),
            holes: Holes::default(),
            parts: BTreeSet::new(),
            ended: None,
            bytes: 0,
            left_out: 0,
            longest: Duration::ZERO,
            is_ordered: true,
        }
    }

    /// The stream.
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    /// Its name among the stream's recordings.
    pub const fn session(&self) -> Session {
        self.session
    }

    /// Adds what a part of its index says.
    ///
    /// # Errors
    /// [`Refused`]: nothing of it was added.
    pub fn add_part(&mut self, part: Part) -> Result<(), Refused> {
        if part.name != self.name || part.session != self.session {
            return Err(Refused::Other);
        }
        if !self.parts.insert(part.number) {
            return Err(Refused::Repeated);
        }
        for line in part.lines {
            self.add(part.number, line);
        }
        Ok(())
    }

    /// Adds what part `part` says or will say; what is beyond the bounds of an index, or has no track, is left out and counted.
    pub fn add(&mut self, part: u32, line: Line) {
        match line {
            Line::Track(rendition, track) => {
                let key = (rendition, track.epoch);
                if self.tracks.len() < TRACKS_MAX || self.tracks.contains_key(&key) {
                    self.tracks.insert(key, track);
                } else {
                    self.left_out += 1;
                }
            }
            Line::Segment(rendition, segment) => self.add_segment(part, rendition, segment),
            Line::MpegTs(segment) => self.add_mpeg_ts(part, segment),
            Line::Hole(hole) => self.add_hole(part, hole),
            Line::Ended(utc) => self.ended = Some(self.ended.map_or(utc, |known| known.max(utc))),
        }
    }

    fn add_segment(&mut self, part: u32, rendition: RenditionName, segment: RecordedSegment) {
        let track = self.tracks.get(&(rendition, segment.epoch));
        let is_known = track.is_some_and(|track| is_bounded(&segment, track));
        let length = track.map(|track| segment.duration_time(track.timescale)).unwrap_or_default();
        if !is_known || self.count >= SEGMENTS_MAX {
            self.left_out += 1;
            return;
        }
        if self.holes.told_in(rendition, segment.number).is_some_and(|later| later > part) {
            return;
        }
        let segments = self.segments.entry(rendition).or_default();
        if segments.get(&segment.number).is_some_and(|(known, _)| *known > part) {
            return;
        }
        let before = segments.range(..segment.number).next_back().map(|(_, (_, before))| before.utc);
        let behind = segment.number.checked_add(1).and_then(|next| segments.range(next..).next());
        let behind = behind.map(|(_, (_, behind))| behind.utc);
        self.is_ordered &= before.is_none_or(|before| before <= segment.utc)
            && behind.is_none_or(|behind| segment.utc <= behind);
        self.longest = self.longest.max(length);
        self.bytes = self.bytes.saturating_add(segment.bytes);
        match segments.insert(segment.number, (part, segment)) {
            Some((_, former)) => self.bytes = self.bytes.saturating_sub(former.bytes),
            None => self.count += 1,
        }
    }

    fn add_mpeg_ts(&mut self, part: u32, segment: MpegTsSegment) {
        let known = self.mpeg_ts.get(&segment.number);
        if known.is_some_and(|(known, _)| *known > part) {
            return;
        }
        if known.is_none() && self.mpeg_ts.len() >= SEGMENTS_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes = self.bytes.saturating_add(segment.bytes);
        if let Some((_, former)) = self.mpeg_ts.insert(segment.number, (part, segment)) {
            self.bytes = self.bytes.saturating_sub(former.bytes);
        }
    }

    fn add_hole(&mut self, part: u32, hole: Hole) {
        if hole.last < hole.first {
            self.left_out += 1;
            return;
        }
        if let Some(segments) = self.segments.get_mut(&hole.rendition) {
            let covered = segments.range(hole.first..=hole.last).filter(|(_, (known, _))| *known <= part);
            let covered: Vec<u64> = covered.map(|(number, _)| *number).collect();
            for number in covered {
                if let Some((_, segment)) = segments.remove(&number) {
                    self.count -= 1;
                    self.bytes = self.bytes.saturating_sub(segment.bytes);
                }
            }
        }
        // The same line may come again, as that of a part which is written later.
        self.left_out += u64::from(!self.holes.add(part, hole));
    }

    /// The renditions that it has segments of: pictures first.
    pub fn renditions(&self) -> impl Iterator<Item = RenditionName> + '_ {
        self.segments.iter().filter(|(_, segments)| !segments.is_empty()).map(|(name, _)| *name)
    }

    /// The segments of a rendition by their numbers.
    pub fn segments(&self, rendition: RenditionName) -> impl DoubleEndedIterator<Item = &RecordedSegment> {
        self.segments.get(&rendition).into_iter().flatten().map(|(_, (_, segment))| segment)
    }

    /// The segments of a rendition from this number on.
    pub fn segments_from(
        &self,
        rendition: RenditionName,
        number: u64,
    ) -> impl Iterator<Item = &RecordedSegment> {
        let segments = self.segments.get(&rendition).map(|segments| segments.range(number..));
        segments.into_iter().flatten().map(|(_, (_, segment))| segment)
    }

    /// A number before which all segments end by `utc`; the first number there is, where the clock was set back meanwhile.
    pub fn number_at(&self, utc: Utc) -> u64 {
        self.segments
            .iter()
            .filter_map(|(name, segments)| self.search(*name, segments, utc))
            .min()
            .unwrap_or(0)
    }

    fn search(
        &self,
        name: RenditionName,
        segments: &BTreeMap<u64, (u32, RecordedSegment)>,
        utc: Utc,
    ) -> Option<u64> {
        let (mut low, mut high) = (*segments.keys().next()?, *segments.keys().next_back()?);
        while low < high && self.is_ordered {
            let middle = low.midpoint(high);
            let (number, (_, segment)) = segments.range(middle..).next()?;
            let timescale = self.track(name, segment.epoch).map_or(1, |track| track.timescale);
            if segment.end_utc(timescale) > utc {
                high = middle;
            } else {
                low = number.saturating_add(1).min(high);
            }
        }
        Some(low)
    }

    /// Whether times go with numbers.
    pub const fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// How long the longest segment was that it ever told of.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// One of them.
    pub fn segment(&self, rendition: RenditionName, number: u64) -> Option<&RecordedSegment> {
        self.segments.get(&rendition)?.get(&number).map(|(_, segment)| segment)
    }

    /// The segments of a number as MPEG-TS, where they are there so, too.
    pub fn mpeg_ts(&self, number: u64) -> Option<MpegTsSegment> {
        self.mpeg_ts.get(&number).map(|(_, segment)| *segment)
    }

    /// All segments that are there as MPEG-TS, by their numbers.
    pub fn mpeg_ts_segments(&self) -> impl Iterator<Item = MpegTsSegment> + '_ {
        self.mpeg_ts.values().map(|(_, segment)| *segment)
    }

    /// What a rendition is in an epoch.
    pub fn track(&self, rendition: RenditionName, epoch: u32) -> Option<&TrackInfo> {
        self.tracks.get(&(rendition, epoch))
    }

    /// What is told not to be there, as the parts say it, by rendition and number.
    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.holes.iter()
    }

    /// Whether this segment is told not to be there.
    pub fn is_hole(&self, rendition: RenditionName, number: u64) -> bool {
        self.holes.told_in(rendition, number).is_some()
    }

    /// How many segments there are, of all renditions.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this part was added.
    pub fn has_part(&self, number: u32) -> bool {
        self.parts.contains(&number)
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The part behind the last one that there is.
    pub fn next_part(&self) -> u32 {
        self.parts.last().map_or(0, |last| last.saturating_add(1))
    }

    /// How many parts are missing between those that there are.
    pub fn missing_parts(&self) -> u64 {
        u64::from(self.next_part()).saturating_sub(self.parts.len() as u64)
    }

    /// Lines that were left out: beyond the bounds of an index, or of no known track.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// When it ended; `None` while it goes on, or where its end was not written.
    pub const fn ended(&self) -> Option<Utc> {
        self.ended
    }

    /// Bytes of all its segments.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When its first picture or sound was captured, and when its last one ended; `None` where it has no segment.
    pub fn span(&self) -> Option<(Utc, Utc)> {
        let mut span: Option<(Utc, Utc)> = None;
        for (name, segments) in &self.segments {
            for (_, segment) in segments.values() {
                let timescale = self.track(*name, segment.epoch).map_or(1, |track| track.timescale);
                let (from, to) = (segment.utc, segment.end_utc(timescale));
                let known = span.get_or_insert((from, to));
                *known = (known.0.min(from), known.1.max(to));
            }
        }
        span
    }
}
