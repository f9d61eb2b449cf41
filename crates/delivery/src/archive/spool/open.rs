//! Segments that are being recorded.

use super::{Item, Kind, LINES_MAX, Log, Spool, header};
use crate::archive::index::{Crc32c, Hole, HoleReason, Line, RecordedSegment};
use crate::archive::log::{self, Piece};
use crate::archive::names::SessionObject;
use crate::packager::RenditionName;
use bytes::Bytes;
use glassline_media::Time;

/// A segment that is being recorded.
#[derive(Debug)]
pub(super) struct OpenSegment {
    /// The item that it will be.
    pub(super) id: u64,
    /// As far as it has come.
    pub(super) segment: RecordedSegment,
    pub(super) pieces: Vec<Piece>,
    pub(super) crc: Crc32c,
    /// It will not be recorded, and why.
    pub(super) lost: Option<HoleReason>,
}

impl OpenSegment {
    pub(super) fn new(id: u64, segment: RecordedSegment) -> OpenSegment {
        let segment = RecordedSegment { bytes: 0, crc32c: 0, key_frames: Vec::new(), ..segment };
        OpenSegment { id, segment, pieces: Vec::new(), crc: Crc32c::default(), lost: None }
    }

    /// What it is with `chunks` behind what came; `segment` is what the packager says of it, with bytes and key frames that may be
    /// ahead.
    fn with(&self, segment: &RecordedSegment, chunks: &[Bytes]) -> (RecordedSegment, Crc32c) {
        let mut crc = self.crc.clone();
        chunks.iter().for_each(|chunk| crc.update(chunk));
        let bytes = self.segment.bytes + chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let mut segment = RecordedSegment { bytes, crc32c: crc.value(), ..segment.clone() };
        let duration = segment.duration;
        segment
            .key_frames
            .retain(|key| key.time <= duration && key.offset_bytes.saturating_add(key.size_bytes) <= bytes);
        (segment, crc)
    }
}

impl Spool {
    /// A part of a segment has come to its end: `segment` is the segment with this part, `chunks` are the part's.
    /// Bytes and CRC of `segment` are not looked at; a key frame beyond the chunks that came is left out.
    pub fn part(
        &mut self,
        number: u64,
        rendition: RenditionName,
        segment: &RecordedSegment,
        chunks: Vec<Bytes>,
        now: Time,
        log: &mut dyn Log,
    ) {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        if !self.open_segment(number, rendition, segment, now, log) {
            return;
        }
        if self.write_inits(number, now, log).is_err() {
            self.lose_segment(number, rendition, HoleReason::Queue);
        }
        let Some(open) = self.recordings.get(&number).and_then(|it| it.open.get(&rendition)) else { return };
        if open.lost.is_some() {
            self.counters.dropped_bytes += bytes;
            return;
        }
        let (known, crc) = open.with(segment, &chunks);
        let part = u32::try_from(open.pieces.len()).unwrap_or(u32::MAX);
        let line = Line::Segment(rendition, known.clone()).to_json();
        let mut header = header(Kind::Part, Some(rendition), number, known.number);
        header.part = part;
        let written = self.append(header, &line, chunks, log);
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        let Some(open) = recording.open.get_mut(&rendition) else { return };
        let Ok(record) = written else {
            self.counters.dropped_bytes += bytes;
            return self.lose_segment(number, rendition, HoleReason::Queue);
        };
        self.counters.spooled_bytes += bytes;
        recording.bytes += bytes;
        let skipped = u32::try_from(line.len() + 1).unwrap_or(u32::MAX);
        open.pieces.push(Piece {
            file: record.file,
            at: record.at.saturating_add(skipped),
            length: record.length.saturating_sub(skipped),
        });
        (open.segment, open.crc) = (known, crc);
        let (id, first) = (open.id, open.pieces.len() == 1);
        let timescale = recording.timescale(rendition, segment.epoch);
        recording.extend(segment.utc, segment.end_utc(timescale));
        if first {
            self.pin(id, record.file);
        }
    }

    /// The segment is the one that is open from now on; what was open before it ends. False where the recording is not there.
    fn open_segment(
        &mut self,
        number: u64,
        rendition: RenditionName,
        segment: &RecordedSegment,
        now: Time,
        log: &mut dyn Log,
    ) -> bool {
        let Some(recording) = self.recordings.get(&number).filter(|it| it.ended.is_none()) else {
            return false;
        };
        let open = recording.open.get(&rendition).map(|open| open.segment.number);
        if open == Some(segment.number) {
            return true;
        }
        if open.is_some() {
            self.close_segment(number, rendition, now, log);
        }
        self.tell_missing(number, rendition, segment, now);
        let id = self.next_id();
        let Some(recording) = self.recordings.get_mut(&number) else { return false };
        recording.open.insert(rendition, OpenSegment::new(id, segment.clone()));
        true
    }

    /// Where numbers are missing between the last segment and this one, what told of them was dropped on its way here.
    fn tell_missing(&mut self, number: u64, rendition: RenditionName, segment: &RecordedSegment, now: Time) {
        let last = self.recordings.get(&number).and_then(|recording| recording.last.get(&rendition).copied());
        let Some((last, from)) = last else { return };
        let (first, last) = (last.saturating_add(1), segment.number.saturating_sub(1));
        if first <= last {
            let (to, reason) = (segment.utc, HoleReason::Queue);
            self.add_hole(number, Hole { rendition, first, last, from, to, reason }, 0, now);
        }
    }

    /// Bytes of `segment` were dropped on their way here: it will not be recorded.
    pub fn lose(
        &mut self,
        number: u64,
        rendition: RenditionName,
        segment: &RecordedSegment,
        now: Time,
        log: &mut dyn Log,
    ) {
        if self.open_segment(number, rendition, segment, now, log) {
            self.lose_segment(number, rendition, HoleReason::Queue);
        }
    }

    fn lose_segment(&mut self, number: u64, rendition: RenditionName, reason: HoleReason) {
        let open = self.recordings.get_mut(&number).and_then(|it| it.open.get_mut(&rendition));
        if let Some(open) = open {
            open.lost.get_or_insert(reason);
            // Nothing of it is needed any more: its file may go.
            let id = open.id;
            self.unpin(id);
        }
    }

    /// The segments that are open and have bytes in file `file` will not be recorded.
    pub(super) fn lose_open(&mut self, file: u32) {
        let open = self.recordings.values_mut().flat_map(|recording| recording.open.values_mut());
        for open in open.filter(|open| open.pieces.first().is_some_and(|piece| piece.file <= file)) {
            open.lost.get_or_insert(HoleReason::Spool);
        }
    }

    /// A segment is complete, and lasts so long.
    pub fn segment_end(
        &mut self,
        number: u64,
        rendition: RenditionName,
        segment: &RecordedSegment,
        now: Time,
        log: &mut dyn Log,
    ) {
        let recording = self.recordings.get_mut(&number);
        let Some(open) = recording.and_then(|recording| recording.open.get_mut(&rendition)) else { return };
        if open.segment.number == segment.number {
            let (known, _) = open.with(segment, &[]);
            open.segment = known;
            self.close_segment(number, rendition, now, log);
        }
    }

    /// The open segment ends as it is.
    pub(super) fn close_segment(
        &mut self,
        number: u64,
        rendition: RenditionName,
        now: Time,
        log: &mut dyn Log,
    ) {
        self.close_open(number, rendition, now, log);
        self.write_mpeg_ts(number, false, now, log);
    }

    fn close_open(&mut self, number: u64, rendition: RenditionName, now: Time, log: &mut dyn Log) {
        let Some(open) = self.recordings.get(&number).and_then(|it| it.open.get(&rendition)) else { return };
        let (segment, pieces) = (open.segment.clone(), log::write_pieces(&open.pieces));
        let (segment_number, epoch) = (segment.number, segment.epoch);
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.has_come_to(rendition, &segment);
        }
        let Some(open) = self.recordings.get(&number).and_then(|it| it.open.get(&rendition)) else { return };
        let mut record = None;
        if open.lost.is_none() && !open.pieces.is_empty() {
            let line = Line::Segment(rendition, segment.clone()).to_json();
            let header = header(Kind::SegmentEnd, Some(rendition), number, segment.number);
            record = self.append(header, &line, vec![pieces], log).ok();
        }
        // What was written just now may have cost it its oldest part.
        let Some(open) = self.recordings.get_mut(&number).and_then(|it| it.open.remove(&rendition)) else {
            return;
        };
        let oldest = open.pieces.first().map(|piece| piece.file);
        if let (Some(record), None, Some(oldest_file)) = (record, open.lost, oldest) {
            let object = SessionObject::Segment { rendition, segment: segment.number };
            let mut item = Item::new(number, object, record, segment.bytes, now);
            item.oldest_file = oldest_file;
            item.line = (self.items.len() < LINES_MAX).then(|| Box::new(segment));
            self.insert_item(open.id, item);
            if let Some(rows) = self.recordings.get_mut(&number).and_then(|it| it.mpeg_ts.as_mut()) {
                rows.add(rendition, epoch, segment_number);
            }
            return;
        }
        self.unpin(open.id);
        let timescale = self.timescale(number, rendition, segment.epoch);
        let reason = open.lost.unwrap_or(HoleReason::Queue);
        let (from, to) = (segment.utc, segment.end_utc(timescale));
        let hole = Hole { rendition, first: segment.number, last: segment.number, from, to, reason };
        self.add_hole(number, hole, segment.bytes, now);
    }
}
