//! What the store gets, and what the index says of it.

use super::{
    ANSWER_WITHIN, Event, FAILED_MAX, HoleReason, IndexLine, Kind, Log, LogFailed, Outcome, PASSED_OVER,
    Permission, REFUSED_MAX, Recording,
};
use super::{InMemory, Item, PARTS_IN_MEMORY_MAX};
use super::{Spool, State, Upload, header, stored_code, told_of};
use crate::archive::index::{Line, Part, RecordedSegment};
use crate::archive::log::Piece;
use crate::archive::names::{SessionObject, StoredObject};
use crate::packager::RenditionName;
use glassline_media::Time;
use std::collections::BTreeSet;

/// Tracks of a recording that are kept without a need: each file of the log has them.
const TRACKS_KEPT: usize = 64;

impl Spool {
    /// The next object for the store, where one may leave now. Call it until it returns none.
    pub fn next_upload(&mut self, now: Time, log: &mut dyn Log) -> Option<Upload> {
        loop {
            let id = self.next_waiting()?;
            let item = self.items.get(&id)?;
            if self.uploads.permission(item.bytes, now) != Permission::Now {
                return None;
            }
            let (recording, object, bytes, is_gone) = (item.recording, item.object, item.bytes, item.is_gone);
            let line = self.line_of(id, log);
            if self.is_without_header(recording, object, line.as_ref()) {
                self.give_up(id, HoleReason::Store, now, log);
                self.write_index(recording, now, log);
                continue;
            }
            let pieces = self.read_object(id, line.as_ref(), log);
            let known = self.recordings.get(&recording).map(|known| (known.name.clone(), known.session));
            let (Some(pieces), Some((name, session))) = (pieces, known) else {
                // The disk has it no longer as it was written, or the spool was full.
                let reason = if is_gone { HoleReason::Spool } else { HoleReason::Other };
                self.give_up(id, reason, now, log);
                self.write_index(recording, now, log);
                continue;
            };
            self.queue.remove(&id);
            if let Some(item) = self.items.get_mut(&id) {
                item.state = State::Uploading;
                // Its file may go meanwhile.
                item.line = line.map(Box::new);
            }
            self.uploads.begin(bytes, now);
            self.sent.insert(id, now);
            let object = StoredObject { name, session, object };
            return Some(Upload { id, recording, object, pieces });
        }
    }

    /// The first that waits, but for those that let others pass as long as there are others.
    fn next_waiting(&self) -> Option<u64> {
        let taken = self.counters.uploaded_objects;
        let is_next = |id: &&u64| self.passed_over.get(*id).is_none_or(|until| *until <= taken);
        self.queue.iter().find(is_next).or_else(|| self.queue.first()).copied()
    }

    /// Whether a segment is of a track the header of which will not be in the store.
    fn is_without_header(&self, number: u64, object: SessionObject, line: Option<&RecordedSegment>) -> bool {
        let (SessionObject::Segment { rendition, .. }, Some(line)) = (object, line) else { return false };
        let lost = self.recordings.get(&number).map(|recording| &recording.lost_tracks);
        lost.is_some_and(|lost| lost.contains(&(rendition, line.epoch)))
    }

    /// What became of an upload.
    pub fn uploaded(&mut self, id: u64, outcome: Outcome, now: Time, log: &mut dyn Log) {
        let taken = self.counters.uploaded_objects;
        // What a former spool has sent may be answered now: it is of none here.
        let Some(item) = self.items.get_mut(&id).filter(|item| item.state == State::Uploading) else {
            return;
        };
        self.uploads.end(item.bytes, outcome, now);
        self.sent.remove(&id);
        item.state = State::Waiting;
        match outcome {
            Outcome::Stored => {
                self.passed_over.remove(&id);
                self.stored(id, now, log);
                return self.delete_done(log);
            }
            Outcome::Busy | Outcome::Away => {}
            Outcome::Refused | Outcome::Failed => {
                let (count, since) = item.failed;
                item.failed = (count.saturating_add(1), if count == 0 { taken } else { since });
                self.passed_over.insert(id, taken + PASSED_OVER);
            }
        }
        self.queue.insert(id);
        // Where nothing else is taken either, it is the store and not the object.
        let (count, since) = item.failed;
        let most = if outcome == Outcome::Refused { REFUSED_MAX } else { FAILED_MAX };
        if count >= most && taken > since {
            self.refuse(id, now, log);
        }
        self.delete_done(log);
    }

    /// The store does not take this object, and does take others.
    fn refuse(&mut self, id: u64, now: Time, log: &mut dyn Log) {
        let Some(item) = self.items.get(&id) else { return };
        let (number, object) = (item.recording, item.object);
        let lines = match object {
            SessionObject::Index { .. } => self.read_object(id, None, log),
            _ => None,
        };
        let part = lines.and_then(|pieces| Part::read(&pieces.concat()).ok());
        self.give_up(id, HoleReason::Store, now, log);
        if let Some(recording) = self.recordings.get_mut(&number) {
            let (name, session) = (recording.name.clone(), recording.session);
            self.events.push(Event::Refused(StoredObject { name, session, object }));
            if recording.refused_parts < REFUSED_MAX {
                recording.refused_parts += 1;
                recording.tell_again(part, now);
            }
        }
        self.write_index(number, now, log);
    }

    pub(super) fn stored(&mut self, id: u64, now: Time, log: &mut dyn Log) {
        let line = self.line_of(id, log);
        let Some(item) = self.items.get_mut(&id) else { return };
        item.state = State::Stored;
        let (number, object, bytes) = (item.recording, item.object, item.bytes);
        self.settle(number, object, bytes);
        self.counters.uploaded_bytes += bytes;
        self.counters.uploaded_objects += 1;
        let (code, rendition, object_number) = stored_code(object);
        let mut header = header(Kind::Stored, rendition, number, object_number);
        header.part = code;
        // Where it cannot be written, it is uploaded again after a crash.
        let _ = self.append(header, "{}", Vec::new(), log);
        match (object, line) {
            (SessionObject::Segment { rendition, .. }, Some(line)) => {
                self.add_line(number, Some(id), Line::Segment(rendition, line), now);
            }
            (SessionObject::MpegTs { .. }, _) => {
                if let Some(segment) = self.items.get(&id).and_then(|item| item.mpeg_ts) {
                    self.add_line(number, Some(id), Line::MpegTs(segment), now);
                }
            }
            _ => {
                let item = self.remove_item(id);
                for told in item.and_then(|item| item.memory).into_iter().flat_map(|memory| memory.told) {
                    self.remove_item(told);
                }
            }
        }
        self.write_index(number, now, log);
    }

    /// When [`Spool::handle_timeout`] is due, or an upload may leave, whichever is first.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let index = self.recordings.values().filter_map(|it| it.index_due(self.is_disk_full)).min();
        let upload = self.next_waiting().and_then(|id| self.items.get(&id)).and_then(|item| {
            match self.uploads.permission(item.bytes, now) {
                Permission::Now => Some(now),
                Permission::At(at) => Some(at),
                Permission::AfterOne => None,
            }
        });
        index.into_iter().chain(upload).min()
    }

    /// Writes the parts of indexes that are due.
    pub fn handle_timeout(&mut self, now: Time, log: &mut dyn Log) {
        if !self.is_disk_full {
            self.write_held(log);
        }
        // A folder on a network that is gone answers never.
        let late = self.sent.iter().filter(|(_, since)| now.since(**since) >= ANSWER_WITHIN);
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.uploaded(id, Outcome::Away, now, log);
        }
        let is_full = self.is_disk_full;
        let is_due = |recording: &Recording| recording.index_due(is_full).is_some_and(|due| due <= now);
        let due: Vec<u64> =
            self.recordings.iter().filter(|(_, it)| is_due(it)).map(|(number, _)| *number).collect();
        for number in due {
            self.write_index(number, now, log);
            if let Some(recording) = self.recordings.get_mut(&number)
                && recording.index_due(is_full).is_some_and(|due| due <= now)
            {
                // The disk took it not: some time later.
                recording.pending_since = Some(now);
            }
        }
        self.delete_done(log);
    }

    /// Writes what is due of a recording's index; where all of an ended recording is settled, the last part.
    pub(super) fn write_index(&mut self, number: u64, now: Time, log: &mut dyn Log) {
        let Some(recording) = self.recordings.get(&number) else { return };
        let is_settled = recording.ended.is_some() && recording.waiting == 0;
        if is_settled && !recording.is_indexed {
            let _ = self.write_lines(number, true, now, log);
        } else if recording.index_due(self.is_disk_full).is_some_and(|due| due <= now) {
            let _ = self.write_lines(number, false, now, log);
        }
        let Some(recording) = self.recordings.get(&number) else { return };
        if recording.is_indexed && recording.index_waiting == 0 && recording.pending.is_empty() {
            let (name, is_recovered) = (recording.name.clone(), recording.is_recovered);
            self.events.push(Event::Complete(name, recording.session, is_recovered));
            self.recordings.remove(&number);
        }
    }

    /// Writes pending lines as parts of the index; with `is_last` the last one, even without lines.
    pub(super) fn write_lines(
        &mut self,
        number: u64,
        is_last: bool,
        now: Time,
        log: &mut dyn Log,
    ) -> Result<(), LogFailed> {
        while let Some(recording) = self.recordings.get_mut(&number) {
            let is_nothing = recording.pending.is_empty() && (recording.is_indexed || !is_last);
            if is_nothing || !recording.pending.is_empty() && recording.writable() == 0 {
                break;
            }
            let part = recording.next_part;
            let (text, lines, ended) = recording.take_part(is_last);
            // What is written now may make room first, which writes lines of its own.
            recording.next_part += 1;
            let told: Vec<_> = lines.iter().filter_map(told_of).collect();
            let line = serde_json::to_string(&IndexLine { segments: told, is_last: ended.is_some() });
            let line = line.unwrap_or_default();
            let header = header(Kind::IndexPart, None, number, u64::from(part));
            let length = text.len() as u64;
            let written = self.append(header, &line, vec![text.clone()], log);
            let Some(recording) = self.recordings.get_mut(&number) else { break };
            let Ok(record) = written else {
                if self.held.len() < PARTS_IN_MEMORY_MAX {
                    recording.is_indexed |= ended.is_some();
                    recording.pending_since = (!recording.pending.is_empty()).then_some(now);
                    let told = lines.iter().filter_map(|pending| pending.item).collect();
                    self.hold_part(number, part, InMemory { text, line, told }, now);
                    continue;
                }
                if recording.next_part == part + 1 {
                    recording.next_part = part;
                }
                recording.pending.splice(0..0, lines);
                recording.pending_since.get_or_insert(now);
                return Err(LogFailed);
            };
            recording.is_indexed |= ended.is_some();
            recording.pending_since = (!recording.pending.is_empty()).then_some(now);
            self.add_item(number, SessionObject::Index { part }, record, length, now);
            for id in lines.into_iter().filter_map(|pending| pending.item) {
                self.remove_item(id);
            }
            self.forget_tracks(number);
        }
        Ok(())
    }

    /// A part of the index that the disk did not take goes to the store from memory, so that what it tells of can leave the disk.
    fn hold_part(&mut self, number: u64, part: u32, memory: InMemory, now: Time) {
        let nowhere = Piece { file: u32::MAX, at: 0, length: 0 };
        let bytes = memory.text.len() as u64;
        let mut item = Item::new(number, SessionObject::Index { part }, nowhere, bytes, now);
        item.memory = Some(Box::new(memory));
        let id = self.next_id();
        self.insert_item(id, item);
    }

    /// Writes the parts of indexes that are in memory, as far as the disk takes them.
    pub(super) fn write_held(&mut self, log: &mut dyn Log) {
        for id in self.held.iter().copied().collect::<Vec<_>>() {
            let Some(item) = self.items.get(&id) else { continue };
            let (SessionObject::Index { part }, Some(memory)) = (item.object, &item.memory) else { continue };
            let header = header(Kind::IndexPart, None, item.recording, part.into());
            let (line, text) = (memory.line.clone(), memory.text.clone());
            let Ok(record) = self.append_record(header, &line, vec![text], log) else { return };
            let Some(item) = self.items.get_mut(&id) else { continue };
            (item.record, item.oldest_file) = (record, record.file);
            let memory = item.memory.take();
            self.held.remove(&id);
            self.pin(id, record.file);
            for told in memory.into_iter().flat_map(|memory| memory.told) {
                self.remove_item(told);
            }
        }
    }

    /// Whether the last part of the index of a recording is in memory alone.
    pub(super) fn is_end_held(&self, number: u64) -> bool {
        let mut held = self.held.iter().filter_map(|id| self.items.get(id));
        held.any(|item| item.recording == number)
    }

    /// Forgets what renditions were in epochs that are over, where there are many and none of their segments waits.
    fn forget_tracks(&mut self, number: u64) {
        let Some(recording) = self.recordings.get(&number).filter(|it| it.tracks.len() > TRACKS_KEPT) else {
            return;
        };
        let items = self.items_of(number).map(|(_, item)| item);
        let mut needed: BTreeSet<(RenditionName, u32)> =
            recording.open.iter().map(|(name, open)| (*name, open.segment.epoch)).collect();
        for item in items {
            match (item.object, &item.line) {
                (SessionObject::Segment { rendition, .. }, Some(line)) => {
                    needed.insert((rendition, line.epoch));
                }
                // So many wait that lines are on disk alone: another time.
                (SessionObject::Segment { .. }, None) => return,
                _ => {}
            }
        }
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.forget_tracks(|rendition, epoch| needed.contains(&(rendition, epoch)));
        }
    }
}
