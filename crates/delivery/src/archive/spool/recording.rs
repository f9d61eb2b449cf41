//! What the spool knows of a recording that goes on, or of which something waits.

use super::mpeg_ts::Rows;
use super::open::OpenSegment;
use super::{INDEX_INTERVALS, LogFailed};
use crate::archive::index::{Line, PART_BYTES, Part, PartWriter, RecordedSegment};
use crate::archive::names::Session;
use crate::packager::{RenditionName, TrackInfo};
use crate::policy::StreamName;
use bytes::Bytes;
use glassline_media::{Time, Utc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What stands for a rendition where a record of a part of the index tells of a segment of MPEG-TS: none has this name.
pub(super) const MPEG_TS: &str = "ts";
/// Bytes of a line of the index, roughly.
const LINE_BYTES: usize = 256;
/// What could not be written is tried again so much later.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Holes that a file says of a recording at most.
const HOLES_LOGGED: usize = 256;

/// A line that no part of the index has yet, and the item that it is of.
#[derive(Debug)]
pub(super) struct PendingLine {
    pub(super) item: Option<u64>,
    pub(super) line: Line,
}

#[derive(Debug)]
pub(super) struct Recording {
    pub(super) name: StreamName,
    pub(super) session: Session,
    /// The newest file knows of it.
    pub(super) is_written: bool,
    pub(super) tracks: BTreeMap<(RenditionName, u32), TrackInfo>,
    /// Headers that could not be written yet.
    pub(super) unwritten: Vec<(RenditionName, TrackInfo, Bytes)>,
    pub(super) open: BTreeMap<RenditionName, OpenSegment>,
    /// The last segment of each rendition that came, and when it ended.
    pub(super) last: BTreeMap<RenditionName, (u64, Utc)>,
    /// Tracks the headers of which will not be in the store.
    pub(super) lost_tracks: BTreeSet<(RenditionName, u32)>,
    /// Items but parts of the index that are not in the store yet.
    pub(super) waiting: usize,
    /// Parts of the index that are not in the store yet.
    pub(super) index_waiting: usize,
    pub(super) pending: Vec<PendingLine>,
    pub(super) pending_since: Option<Time>,
    pub(super) next_part: u32,
    pub(super) ended: Option<Utc>,
    /// The last part of the index is written.
    pub(super) is_indexed: bool,
    /// Parts of the index that the store refused and that were written again.
    pub(super) refused_parts: u8,
    pub(super) is_recovered: bool,
    pub(super) span: Option<(Utc, Utc)>,
    pub(super) bytes: u64,
    /// What is made as MPEG-TS, too, where that is asked for.
    pub(super) mpeg_ts: Option<Rows>,
}

/// What a file says of a recording that goes on in it.
#[derive(Deserialize, Serialize)]
pub(super) struct BegunLine {
    pub(super) name: String,
    pub(super) session: String,
    pub(super) next_part: u32,
    /// When it ended, in nanoseconds of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<u64>,
    #[serde(default)]
    pub(super) is_indexed: bool,
    #[serde(default)]
    pub(super) bytes: u64,
    /// When it began and how far it has come, in nanoseconds of UTC.
    #[serde(default)]
    pub(super) span: Option<(u64, u64)>,
}

impl Recording {
    pub(super) fn new(name: StreamName, session: Session) -> Recording {
        Recording {
            name,
            session,
            is_written: false,
            tracks: BTreeMap::new(),
            unwritten: Vec::new(),
            open: BTreeMap::new(),
            last: BTreeMap::new(),
            lost_tracks: BTreeSet::new(),
            waiting: 0,
            index_waiting: 0,
            pending: Vec::new(),
            pending_since: None,
            next_part: 0,
            ended: None,
            is_indexed: false,
            refused_parts: 0,
            is_recovered: false,
            span: None,
            bytes: 0,
            mpeg_ts: None,
        }
    }

    /// The codec of its first pictures that are known.
    pub(super) fn pictures(&self) -> Option<&str> {
        let of_pictures = (RenditionName::Video, 0)..=(RenditionName::Video, u32::MAX);
        self.tracks.range(of_pictures).next().map(|(_, track)| track.codec.as_str())
    }

    /// What a file says of it: a line, and the lines of its tracks and of the holes that no part of its index tells of yet.
    pub(super) fn begun_record(&self, is_end_held: bool) -> (String, Bytes) {
        let line = BegunLine {
            name: self.name.as_str().to_owned(),
            session: self.session.to_string(),
            next_part: self.next_part,
            ended: self.ended.map(Utc::as_nanos),
            is_indexed: self.is_indexed && !is_end_held,
            bytes: self.bytes,
            span: self.span.map(|(from, to)| (from.as_nanos(), to.as_nanos())),
        };
        let track = |((rendition, _), track): (&(RenditionName, u32), &TrackInfo)| {
            Line::Track(*rendition, track.clone()).to_json() + "\n"
        };
        let holes = self.pending.iter().filter(|pending| matches!(pending.line, Line::Hole(_)));
        let holes = holes.take(HOLES_LOGGED).map(|pending| pending.line.to_json() + "\n");
        let lines: String = self.tracks.iter().map(track).chain(holes).collect();
        (serde_json::to_string(&line).unwrap_or_default(), Bytes::from(lines))
    }

    /// How many lines the next part of its index may have: those before the first one of a segment that is still needed.
    pub(super) fn writable(&self) -> usize {
        let is_needed = |pending: &PendingLine| match (&pending.line, &self.mpeg_ts) {
            (Line::Segment(_, segment), Some(rows)) => rows.needs(segment.number),
            _ => false,
        };
        self.pending.iter().position(is_needed).unwrap_or(self.pending.len())
    }

    /// Takes lines for the next part of its index: the part, the lines, and when the recording ended where this is the last part.
    pub(super) fn take_part(&mut self, is_last: bool) -> (Bytes, Vec<PendingLine>, Option<Utc>) {
        let mut writer = PartWriter::new(&self.name, self.session, self.next_part);
        let (mut count, most) = (0, self.writable());
        while let Some(pending) = self.pending.get(count).filter(|_| count < most && !writer.is_full()) {
            match &pending.line {
                Line::Segment(rendition, segment) => {
                    if let Some(track) = self.tracks.get(&(*rendition, segment.epoch)) {
                        writer.add_segment(*rendition, track, segment);
                    }
                }
                Line::MpegTs(segment) => writer.add_mpeg_ts(*segment),
                Line::Hole(hole) => writer.add_hole(hole),
                Line::Track(..) | Line::Ended(_) => {}
            }
            count += 1;
        }
        let ended = self.ended.filter(|_| is_last && !self.is_indexed && count == self.pending.len());
        if let Some(utc) = ended {
            writer.end(utc);
        }
        (Bytes::from(writer.finish()), self.pending.drain(..count).collect(), ended)
    }

    /// When the next part of its index is due: soon where the disk is full, since what it tells of can go then.
    pub(super) fn index_due(&self, is_disk_full: bool) -> Option<Time> {
        if self.ended.is_some() && self.waiting == 0 && !self.is_indexed {
            return Some(self.pending_since.map_or(Time::ZERO, |since| since + TRY_AGAIN));
        }
        let since = self.pending_since?;
        if is_disk_full && self.pending.iter().any(|pending| pending.item.is_some()) {
            return Some(since + TRY_AGAIN);
        }
        let interval = if self.next_part == 0 { INDEX_INTERVALS.0 } else { INDEX_INTERVALS.1 };
        let is_full = self.pending.len() * LINE_BYTES >= PART_BYTES;
        Some(if is_full { since } else { since + interval })
    }

    /// Tracks of epochs that are over are forgotten where nothing of them is open or waits.
    pub(super) fn forget_tracks(&mut self, is_needed: impl Fn(RenditionName, u32) -> bool) {
        let newest = |tracks: &BTreeMap<(RenditionName, u32), TrackInfo>, rendition| {
            tracks.keys().filter(|(of, _)| *of == rendition).map(|(_, epoch)| *epoch).max()
        };
        let keys: Vec<_> = self.tracks.keys().copied().collect();
        for (rendition, epoch) in keys {
            let is_pending = self.pending.iter().any(|pending| {
                matches!(&pending.line, Line::Segment(of, segment) if *of == rendition && segment.epoch == epoch)
            });
            if newest(&self.tracks, rendition) != Some(epoch) && !is_pending && !is_needed(rendition, epoch) {
                self.tracks.remove(&(rendition, epoch));
            }
        }
    }

    /// What a part of the index says that will not be in the store is said by the next one.
    pub(super) fn tell_again(&mut self, part: Option<Part>, now: Time) {
        for line in part.into_iter().flat_map(|part| part.lines) {
            match line {
                Line::Segment(..) | Line::MpegTs(_) | Line::Hole(_) => {
                    self.pending.push(PendingLine { item: None, line });
                    self.pending_since.get_or_insert(now);
                }
                Line::Ended(_) => self.is_indexed = false,
                Line::Track(rendition, track) => {
                    self.tracks.entry((rendition, track.epoch)).or_insert(track);
                }
            }
        }
    }

    /// A segment came to its end.
    pub(super) fn has_come_to(&mut self, rendition: RenditionName, segment: &RecordedSegment) {
        let end = segment.end_utc(self.timescale(rendition, segment.epoch));
        let last = self.last.entry(rendition).or_insert((segment.number, end));
        if segment.number >= last.0 {
            *last = (segment.number, end);
        }
    }

    /// Its time reaches from `from` to `to`, too.
    pub(super) fn extend(&mut self, from: Utc, to: Utc) {
        let known = self.span.get_or_insert((from, to));
        *known = (known.0.min(from), known.1.max(to));
    }

    /// The ticks a second of a rendition in an epoch.
    pub(super) fn timescale(&self, rendition: RenditionName, epoch: u32) -> u32 {
        self.tracks.get(&(rendition, epoch)).map_or(1, |track| track.timescale)
    }

    /// It can be recorded: its names are known.
    pub(super) fn of_line(line: &str) -> Result<Recording, LogFailed> {
        let line: BegunLine = serde_json::from_str(line).map_err(|_| LogFailed)?;
        let name = StreamName::parse(&line.name).ok_or(LogFailed)?;
        let session = line.session.parse().map_err(|_| LogFailed)?;
        Ok(Recording {
            next_part: line.next_part,
            ended: line.ended.map(Utc::from_nanos),
            is_indexed: line.is_indexed,
            is_recovered: true,
            bytes: line.bytes,
            span: line.span.map(|(from, to)| (Utc::from_nanos(from), Utc::from_nanos(to))),
            ..Recording::new(name, session)
        })
    }
}

/// What the record of an index part says of it.
#[derive(serde::Deserialize, serde::Serialize)]
pub(super) struct IndexLine {
    /// The segments that it tells of: rendition, first, last.
    pub(super) segments: Vec<(String, u64, u64)>,
    pub(super) is_last: bool,
}

pub(super) fn told_of(pending: &PendingLine) -> Option<(String, u64, u64)> {
    match &pending.line {
        Line::Segment(rendition, segment) => Some((rendition.to_string(), segment.number, segment.number)),
        Line::Hole(hole) => Some((hole.rendition.to_string(), hole.first, hole.last)),
        Line::MpegTs(segment) => Some((MPEG_TS.to_owned(), segment.number, segment.number)),
        Line::Track(..) | Line::Ended(_) => None,
    }
}
