//! What a log tells after a crash.
//!
//! Files are read from the oldest to the newest. What follows is as it would have been: segments that are whole and not in the store
//! wait for it, those that were open end with their last whole part, and each recording ends. Where records are missing between those
//! that are there, because of a damaged or missing file, the segments that nothing tells of become holes.

use super::open::OpenSegment;
use super::recording::MPEG_TS;
use super::{File, INDEX_CODE, Item, Kind, Log, PARTS_IN_MEMORY_MAX, Recording, Spool, State, stored_code};
use crate::archive::index::{Hole, HoleReason, Line, RecordedSegment};
use crate::archive::log::{self, Header, Piece};
use crate::archive::names::SessionObject;
use crate::archive::upload::Uploads;
use crate::packager::RenditionName;
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, BTreeSet};

/// Segments of a recording that its index tells of, as far as they are remembered: one that is not is told of again.
const TOLD_MAX: usize = 1 << 20;

/// What was found of a recording.
#[derive(Debug)]
struct Found {
    recording: Recording,
    /// Objects by their names: the record, the oldest file, the bytes, and the line of a segment.
    objects: BTreeMap<SessionObject, Item>,
    open: BTreeMap<RenditionName, OpenSegment>,
    /// What is in the store, as records name it.
    stored: BTreeSet<(u32, Option<RenditionName>, u64)>,
    /// Segments that a part of the index tells of.
    told: BTreeSet<(RenditionName, u64)>,
    /// The same of segments of MPEG-TS.
    told_mpeg_ts: BTreeSet<u64>,
    /// Segments that have parts and no end, though others follow.
    left: BTreeSet<(RenditionName, u64)>,
    /// Holes that no part of the index told of when the newest file began.
    holes: Vec<Hole>,
}

/// Reads the log of a former process.
#[derive(Debug)]
pub struct Recovery {
    spool: Spool,
    found: BTreeMap<u64, Found>,
}

impl Recovery {
    /// Into a spool of at most `max_bytes`.
    pub fn new(max_bytes: u64, uploads: Uploads) -> Recovery {
        Recovery { spool: Spool::new(max_bytes, uploads), found: BTreeMap::new() }
    }

    /// File `number` follows, of which `bytes` are whole records.
    pub fn file(&mut self, number: u32, bytes: u64) {
        self.spool.next_file = self.spool.next_file.max(number.saturating_add(1));
        self.spool.total_bytes += bytes;
        self.spool.files.push_back(File { number, bytes, items: BTreeSet::new() });
    }

    /// A record of that file, with the payload that begins at `at`; of one of [`Kind::Part`] its beginning with the line is enough.
    /// What cannot be understood is left out.
    pub fn record(&mut self, header: &Header, payload: &[u8], at: usize) {
        let number = header.recording;
        self.spool.next_recording = self.spool.next_recording.max(number.saturating_add(1));
        let Some(file) = self.spool.files.back().map(|file| file.number) else { return };
        let Ok((line, body)) = log::split(payload) else { return };
        let Ok(at) = u32::try_from(at) else { return };
        let record = Piece { file, at, length: header.length };
        if header.kind == Kind::Begun {
            return self.begun(number, line, body);
        }
        let Some(found) = self.found.get_mut(&number) else { return };
        let rendition = header.rendition;
        match (header.kind, rendition) {
            (Kind::Init, Some(rendition)) => {
                let Ok(Some(Line::Track(_, track))) = Line::from_json(line) else { return };
                let object = SessionObject::Init { rendition, number: track.epoch };
                found.recording.tracks.insert((rendition, track.epoch), track);
                found
                    .objects
                    .insert(object, Item::new(number, object, record, body.len() as u64, Time::ZERO));
            }
            (Kind::Part, Some(rendition)) => found.part(rendition, header, line, record),
            (Kind::SegmentEnd, Some(rendition)) => found.segment_end(number, rendition, line, body, record),
            (Kind::IndexPart, _) => {
                let Ok(part) = u32::try_from(header.number) else { return };
                found.recording.next_part = found.recording.next_part.max(part.saturating_add(1));
                found.index_part(line);
                let object = SessionObject::Index { part };
                found
                    .objects
                    .insert(object, Item::new(number, object, record, body.len() as u64, Time::ZERO));
            }
            (Kind::Stored, _) => {
                if let (INDEX_CODE, Ok(part)) = (header.part, u32::try_from(header.number)) {
                    found.recording.next_part = found.recording.next_part.max(part.saturating_add(1));
                }
                found.stored.insert((header.part, rendition, header.number));
            }
            (Kind::MpegTs, _) => {
                let Ok(Some(Line::MpegTs(segment))) = Line::from_json(line) else { return };
                let object = SessionObject::MpegTs { segment: segment.number };
                let mut item = Item::new(number, object, record, segment.bytes, Time::ZERO);
                item.mpeg_ts = Some(segment);
                found.recording.bytes = found.recording.bytes.saturating_add(segment.bytes);
                found.objects.insert(object, item);
            }
            (Kind::Ended, _) => found.recording.ended = Some(Utc::from_nanos(header.number)),
            _ => {}
        }
    }

    fn begun(&mut self, number: u64, line: &str, lines: &[u8]) {
        let Ok(recording) = Recording::of_line(line) else { return };
        let found = self.found.entry(number).or_insert_with(|| Found {
            recording: Recording::of_line(line).unwrap_or_else(|_| recording.clone_names()),
            objects: BTreeMap::new(),
            open: BTreeMap::new(),
            stored: BTreeSet::new(),
            told: BTreeSet::new(),
            told_mpeg_ts: BTreeSet::new(),
            left: BTreeSet::new(),
            holes: Vec::new(),
        });
        found.recording.next_part = found.recording.next_part.max(recording.next_part);
        found.recording.is_indexed |= recording.is_indexed;
        found.recording.bytes = recording.bytes;
        found.recording.span = recording.span;
        found.recording.ended = recording.ended.or(found.recording.ended);
        found.holes.clear();
        for line in String::from_utf8_lossy(lines).lines() {
            match Line::from_json(line) {
                Ok(Some(Line::Track(rendition, track))) => {
                    found.recording.tracks.insert((rendition, track.epoch), track);
                }
                Ok(Some(Line::Hole(hole))) => found.holes.push(hole),
                _ => {}
            }
        }
    }

    /// All was read; it is `now`. What goes on is written into a new file of `log`.
    pub fn finish(self, now: Time, log: &mut dyn Log) -> Spool {
        let Recovery { mut spool, found } = self;
        let oldest = spool.files.front().map_or(0, |file| file.number);
        let mut waiting: Vec<Item> = Vec::new();
        let mut holes: Vec<(u64, Hole, u64)> = Vec::new();
        for (number, found) in found {
            let known: Vec<Hole> = found.known_holes().cloned().collect();
            let is_known = |rendition, segment: u64| {
                known.iter().any(|it| it.rendition == rendition && (it.first..=it.last).contains(&segment))
            };
            holes.extend(known.iter().cloned().chain(found.untold(&is_known)).map(|hole| (number, hole, 0)));
            let mut recording = found.recording;
            // A disk that was full could not be told of parts that went to the store from memory: no other is called by their numbers.
            recording.next_part = recording.next_part.saturating_add(PARTS_IN_MEMORY_MAX as u32);
            recording.is_recovered = recording.ended.is_none();
            recording.open = found.open;
            // One that was lost, and told to be, before the crash.
            recording.open.retain(|name, open| !found.told.contains(&(*name, open.segment.number)));
            let mut settled = Vec::new();
            for (object, mut item) in found.objects {
                item.since = now;
                let is_stored = found.stored.contains(&stored_code(object));
                let told = |rendition, segment| found.told.contains(&(rendition, segment));
                match object {
                    SessionObject::Segment { rendition, segment } if told(rendition, segment) => {}
                    SessionObject::Segment { .. } if is_stored => settled.push(item),
                    SessionObject::Segment { rendition, segment } if is_known(rendition, segment) => {}
                    SessionObject::Segment { rendition, segment } if item.oldest_file < oldest => {
                        let hole = recording.lost(rendition, segment, item.line.as_deref());
                        holes.push((number, hole, item.bytes));
                    }
                    SessionObject::MpegTs { segment } if found.told_mpeg_ts.contains(&segment) => {}
                    SessionObject::MpegTs { .. } if is_stored => settled.push(item),
                    _ if is_stored => {}
                    _ => waiting.push(item),
                }
            }
            for open in recording.open.values_mut() {
                open.id = spool.next_id();
                if open.pieces.first().is_none_or(|piece| piece.file < oldest) {
                    open.lost = Some(HoleReason::Spool);
                }
            }
            spool.recordings.insert(number, recording);
            for mut item in settled {
                item.state = State::Stored;
                spool.settle_recovered(item, now);
            }
        }
        for (number, hole, bytes) in holes {
            spool.add_hole(number, hole, bytes, now);
        }
        waiting.sort_by_key(|item| (item.record.file, item.record.at));
        for item in waiting {
            let id = spool.next_id();
            spool.insert_item(id, item);
        }
        spool.end_recovered(now, log);
        spool
    }
}

impl Found {
    fn part(&mut self, rendition: RenditionName, header: &Header, line: &str, record: Piece) {
        let Ok(Some(Line::Segment(_, segment))) = Line::from_json(line) else { return };
        if self.open.get(&rendition).is_none_or(|open| open.segment.number != segment.number) {
            let open = self.open.insert(rendition, OpenSegment::new(0, segment.clone()));
            self.left.extend(open.map(|open| (rendition, open.segment.number)));
        }
        let Some(open) = self.open.get_mut(&rendition) else { return };
        let skipped = u32::try_from(line.len() + 1).unwrap_or(u32::MAX);
        // A part in front of it is missing: what is there is not the segment's beginning.
        if open.pieces.len() as u64 != u64::from(header.part) {
            open.lost = Some(HoleReason::Spool);
        }
        open.pieces.push(Piece {
            file: record.file,
            at: record.at.saturating_add(skipped),
            length: record.length.saturating_sub(skipped),
        });
        open.segment = segment;
    }

    fn segment_end(&mut self, number: u64, rendition: RenditionName, line: &str, body: &[u8], record: Piece) {
        let Ok(Some(Line::Segment(_, segment))) = Line::from_json(line) else { return };
        let Ok(pieces) = log::read_pieces(body) else { return };
        if self.open.get(&rendition).is_some_and(|open| open.segment.number <= segment.number) {
            let open = self.open.remove(&rendition).filter(|open| open.segment.number < segment.number);
            self.left.extend(open.map(|open| (rendition, open.segment.number)));
        }
        let object = SessionObject::Segment { rendition, segment: segment.number };
        let mut item = Item::new(number, object, record, segment.bytes, Time::ZERO);
        item.oldest_file = pieces.iter().map(|piece| piece.file).min().unwrap_or(record.file);
        self.recording.bytes += segment.bytes;
        let timescale = self.recording.timescale(rendition, segment.epoch);
        self.recording.extend(segment.utc, segment.end_utc(timescale));
        item.line = Some(Box::new(segment));
        self.objects.insert(object, item);
    }

    /// The holes that the log knew of, and no part of the index.
    fn known_holes(&self) -> impl Iterator<Item = &Hole> {
        let is_told = |hole: &&Hole| {
            [hole.first, hole.last].iter().all(|number| self.told.contains(&(hole.rendition, *number)))
        };
        self.holes.iter().filter(move |hole| !is_told(hole))
    }

    /// The segments that nothing tells of, though what came before and after them is there, or their parts are.
    fn untold(&self, is_known: &dyn Fn(RenditionName, u64) -> bool) -> Vec<Hole> {
        let mut known: BTreeMap<RenditionName, BTreeMap<u64, Option<(Utc, Utc)>>> = BTreeMap::new();
        if self.told.len() >= TOLD_MAX {
            return Vec::new();
        }
        let span = |rendition, segment: &RecordedSegment| {
            Some((segment.utc, segment.end_utc(self.recording.timescale(rendition, segment.epoch))))
        };
        for (object, item) in &self.objects {
            if let (SessionObject::Segment { rendition, segment }, Some(line)) = (*object, &item.line) {
                known.entry(rendition).or_default().insert(segment, span(rendition, line));
            }
        }
        for (rendition, open) in &self.open {
            known.entry(*rendition).or_default().insert(open.segment.number, span(*rendition, &open.segment));
        }
        let mut holes = Vec::new();
        for (rendition, mut numbers) in known {
            let (Some((&first, _)), Some((&last, _))) = (numbers.first_key_value(), numbers.last_key_value())
            else {
                continue;
            };
            for (_, told) in self.told.range((rendition, first)..=(rendition, last)) {
                numbers.entry(*told).or_insert(None);
            }
            let left = self.left.range((rendition, 0)..(rendition, first));
            let left = left
                .filter(|key| !self.told.contains(key) && !is_known(rendition, key.1))
                .map(|(_, number)| *number);
            let reason = HoleReason::Crash;
            let hole = |first, last, from, to| Hole { rendition, first, last, from, to, reason };
            let begins = numbers.get(&first).copied().flatten().map_or(Utc::default(), |(from, _)| from);
            holes.extend(left.map(|number| hole(number, number, begins, begins)));
            let (mut before, mut ended) = (first, begins);
            for (number, span) in numbers {
                if number > before.saturating_add(1) && !is_known(rendition, before + 1) {
                    let begins = span.map_or(ended, |(from, _)| from);
                    holes.push(hole(before + 1, number - 1, ended, begins.max(ended)));
                }
                (before, ended) = (number, span.map_or(ended, |(_, to)| to));
            }
        }
        holes
    }

    fn index_part(&mut self, line: &str) {
        let Ok(told) = serde_json::from_str::<super::IndexLine>(line) else { return };
        self.recording.is_indexed |= told.is_last;
        for (rendition, first, last) in told.segments {
            if rendition == MPEG_TS && self.told_mpeg_ts.len() < TOLD_MAX {
                self.told_mpeg_ts.insert(first);
            }
            let Ok(rendition) = rendition.parse() else { continue };
            let room = TOLD_MAX.saturating_sub(self.told.len());
            self.told.extend((first..=last).take(room).map(|number| (rendition, number)));
        }
    }
}

impl Recording {
    fn clone_names(&self) -> Recording {
        Recording::new(self.name.clone(), self.session)
    }

    /// Something of a segment is not on disk any more: the spool was full.
    fn lost(&self, rendition: RenditionName, number: u64, line: Option<&RecordedSegment>) -> Hole {
        let (from, to) = line.map_or((Utc::default(), Utc::default()), |line| {
            (line.utc, line.end_utc(self.timescale(rendition, line.epoch)))
        });
        Hole { rendition, first: number, last: number, from, to, reason: HoleReason::Spool }
    }
}

impl Spool {
    /// A segment is in the store, and no part of the index tells of it.
    fn settle_recovered(&mut self, item: Item, now: Time) {
        let number = item.recording;
        let line = match (item.object, &item.line, item.mpeg_ts) {
            (SessionObject::Segment { rendition, .. }, Some(line), _) => {
                Line::Segment(rendition, (**line).clone())
            }
            (SessionObject::MpegTs { .. }, _, Some(segment)) => Line::MpegTs(segment),
            _ => return,
        };
        let id = self.next_id();
        self.insert_item(id, item);
        self.add_line(number, Some(id), line, now);
    }

    /// All that was found has ended; what is open of it ends with its last whole part.
    fn end_recovered(&mut self, now: Time, log: &mut dyn Log) {
        let numbers: Vec<u64> = self.recordings.keys().copied().collect();
        let open = self.recordings.values().flat_map(|it| it.open.values());
        let pins: Vec<_> =
            open.filter_map(|open| open.pieces.first().map(|piece| (open.id, piece.file))).collect();
        for (id, file) in pins {
            self.pin(id, file);
        }
        if !self.files.is_empty() {
            // Nothing is appended behind what was torn. Where that fails, the next record tries it again.
            let _ = self.rotate(log);
        }
        for number in numbers {
            let Some(recording) = self.recordings.get(&number) else { continue };
            if recording.ended.is_some() {
                for rendition in recording.open.keys().copied().collect::<Vec<_>>() {
                    self.close_segment(number, rendition, now, log);
                }
                self.write_index(number, now, log);
                continue;
            }
            let end = recording.span.map_or(recording.session.begun(), |(_, to)| to);
            let open = recording.open.iter().filter(|(_, open)| open.lost.is_none());
            let ends = open.map(|(rendition, open)| {
                open.segment.end_utc(recording.timescale(*rendition, open.segment.epoch))
            });
            let end = ends.fold(end, Ord::max);
            self.end(number, end, now, log);
        }
        self.delete_done(log);
    }
}
