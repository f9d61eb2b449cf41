//! The files of the spool: what is appended to them, and which of them go.

use super::{FILE_MIN_BYTES, File, HoleReason, Item, Kind, Log, LogFailed, Spool, State, header};
use crate::archive::index::{Hole, Line, RecordedSegment};
use crate::archive::log::{self, HEADER_BYTES, Header, Piece};
use crate::archive::names::SessionObject;
use crate::packager::RenditionName;
use bytes::Bytes;
use glassline_media::{Time, Utc};
use std::collections::BTreeSet;

impl Spool {
    /// Appends a record. Returns where its payload is.
    pub(super) fn append(
        &mut self,
        header: Header,
        line: &str,
        body: Vec<Bytes>,
        log: &mut dyn Log,
    ) -> Result<Piece, LogFailed> {
        let needed =
            body.iter().map(|piece| piece.len() as u64).sum::<u64>() + (line.len() + HEADER_BYTES + 1) as u64;
        let is_full = self.files.back().is_none_or(|file| file.bytes + needed > self.file_bytes);
        let is_empty = self.files.back().is_some_and(|file| file.bytes == 0);
        if !log.has_file() || (is_full && !is_empty) {
            self.rotate(log)?;
        }
        self.make_room(needed, log)?;
        if self.recordings.get(&header.recording).is_some_and(|recording| !recording.is_written) {
            self.write_begun(header.recording, log)?;
        }
        let written = self.append_record(header, line, body.clone(), log);
        let is_free = self.files.back().is_some_and(|file| file.items.is_empty() && file.bytes > 0);
        if written.is_ok() || self.is_making_room || !is_free {
            return written;
        }
        // The disk is full, and nothing in the newest file is needed: another one makes room.
        self.rotate(log)?;
        self.append_record(header, line, body, log)
    }

    pub(super) fn append_record(
        &mut self,
        header: Header,
        line: &str,
        body: Vec<Bytes>,
        log: &mut dyn Log,
    ) -> Result<Piece, LogFailed> {
        let payload: Vec<Bytes> = [Bytes::from(format!("{line}\n"))].into_iter().chain(body).collect();
        let header = header.of(&payload).ok_or(LogFailed)?;
        let file = self.files.back_mut().ok_or(LogFailed)?;
        let at = u32::try_from(file.bytes + HEADER_BYTES as u64).map_err(|_| LogFailed)?;
        if let Err(failed) = log.append(&header.write(), &payload) {
            if !std::mem::replace(&mut self.is_disk_full, true) {
                // It has less room than it was meant to have: smaller files are gone sooner.
                self.file_bytes = (self.file_bytes / 2).max(FILE_MIN_BYTES);
            }
            return Err(failed);
        }
        self.is_disk_full = false;
        file.bytes += header.record_bytes();
        self.total_bytes += header.record_bytes();
        Ok(Piece { file: file.number, at, length: header.length })
    }

    /// Begins a file, and writes what goes on into it.
    pub(super) fn rotate(&mut self, log: &mut dyn Log) -> Result<(), LogFailed> {
        log.begin_file(self.next_file)?;
        self.files.push_back(File { number: self.next_file, bytes: 0, items: BTreeSet::new() });
        self.next_file += 1;
        for recording in self.recordings.values_mut() {
            recording.is_written = false;
        }
        if self.write_all_begun(log).is_err() {
            // The disk is full: what is not needed goes first, though for a moment no file knows of what goes on.
            self.delete_done(log);
            self.write_all_begun(log)?;
        }
        self.delete_done(log);
        Ok(())
    }

    fn write_all_begun(&mut self, log: &mut dyn Log) -> Result<(), LogFailed> {
        let is_unwritten = |(_, recording): &(&u64, &super::Recording)| !recording.is_written;
        let unwritten: Vec<u64> =
            self.recordings.iter().filter(is_unwritten).map(|(number, _)| *number).collect();
        unwritten.into_iter().try_for_each(|number| self.write_begun(number, log))
    }

    pub(super) fn write_begun(&mut self, number: u64, log: &mut dyn Log) -> Result<(), LogFailed> {
        let Some(recording) = self.recordings.get(&number) else { return Ok(()) };
        let (line, tracks) = recording.begun_record(self.is_end_held(number));
        self.append_record(header(Kind::Begun, None, number, 0), &line, vec![tracks], log)?;
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.is_written = true;
        }
        Ok(())
    }

    /// Deletes the oldest files as long as nothing in them waits.
    pub(super) fn delete_done(&mut self, log: &mut dyn Log) {
        while self.files.len() > 1 && self.files.front().is_some_and(|file| file.items.is_empty()) {
            self.delete_oldest(log);
        }
    }

    pub(super) fn delete_oldest(&mut self, log: &mut dyn Log) {
        let Some(file) = self.files.pop_front() else { return };
        log.delete_file(file.number);
        self.total_bytes -= file.bytes;
    }

    /// Gives up the oldest segments until there is room for so many bytes more.
    pub(super) fn make_room(&mut self, needed: u64, log: &mut dyn Log) -> Result<(), LogFailed> {
        let max_bytes = self.max_bytes.max(2 * self.file_bytes);
        if self.is_making_room || self.total_bytes + needed <= max_bytes {
            return Ok(());
        }
        self.delete_done(log);
        self.is_making_room = true;
        let mut made = Ok(());
        while made.is_ok() && self.total_bytes + needed > max_bytes {
            made = if self.files.len() > 1 { self.give_up_oldest(log) } else { Err(LogFailed) };
        }
        self.is_making_room = false;
        made
    }

    /// Gives up the segments that wait in the oldest file, and deletes it.
    pub(super) fn give_up_oldest(&mut self, log: &mut dyn Log) -> Result<(), LogFailed> {
        let now = self.items.values().map(|item| item.since).max().unwrap_or(Time::ZERO);
        let Some(oldest) = self.files.front() else { return Ok(()) };
        let (number, ids) = (oldest.number, oldest.items.iter().copied().collect::<Vec<_>>());
        self.write_held(log);
        // Lines of what is in the store already wait in it, too.
        let of_items = ids.iter().filter_map(|id| self.items.get(id)).map(|item| item.recording);
        let of_items: BTreeSet<u64> = of_items.collect();
        for recording in of_items.iter().copied() {
            self.write_lines(recording, false, now, log)?;
        }
        self.lose_open(number);
        for id in ids {
            let Some(item) = self.items.get(&id) else { continue };
            match (item.object, item.state) {
                // Its bytes are in memory, on their way.
                (SessionObject::Segment { .. } | SessionObject::MpegTs { .. }, State::Uploading)
                | (_, State::Stored) => self.move_pin(id),
                (SessionObject::Segment { .. } | SessionObject::MpegTs { .. }, _) => {
                    self.give_up(id, HoleReason::Spool, now, log);
                }
                _ => self.write_again(id, now, log)?,
            }
        }
        // What was given up is told when the log says so, before what it was made of goes.
        for recording in of_items {
            let _ = self.write_begun(recording, log);
        }
        if self.files.front().is_some_and(|file| file.number == number) {
            if let Some(file) = self.files.front_mut() {
                file.items.clear();
            }
            self.delete_oldest(log);
        }
        Ok(())
    }

    /// Writes a small object again, into the newest file. One that the disk has no longer as it was written is given up.
    fn write_again(&mut self, id: u64, now: Time, log: &mut dyn Log) -> Result<(), LogFailed> {
        let Some(item) = self.items.get(&id) else { return Ok(()) };
        let (recording, object) = (item.recording, item.object);
        let (kind, rendition, number) = match object {
            SessionObject::Init { rendition, number } => (Kind::Init, Some(rendition), u64::from(number)),
            SessionObject::Index { part } => (Kind::IndexPart, None, u64::from(part)),
            _ => return Ok(()),
        };
        if item.memory.is_some() {
            return Ok(());
        }
        let Some(payload) = read_record(item.record, log) else {
            self.give_up(id, HoleReason::Other, now, log);
            return Ok(());
        };
        let (line, body) = log::split(&payload).map_err(|_| LogFailed)?;
        let (line, body) = (line.to_owned(), payload.slice_ref(body));
        let header = header(kind, rendition, recording, number);
        let record = self.append_record(header, &line, vec![body], log)?;
        if let Some(item) = self.items.get_mut(&id) {
            (item.record, item.oldest_file) = (record, record.file);
        }
        self.pin(id, record.file);
        Ok(())
    }

    pub(super) fn move_pin(&mut self, id: u64) {
        let Some(newest) = self.files.back().map(|file| file.number) else { return };
        if let Some(item) = self.items.get_mut(&id) {
            (item.oldest_file, item.is_gone) = (newest, true);
        }
        self.pin(id, newest);
    }

    /// File `number` stays for `id`, and no other does any more.
    pub(super) fn pin(&mut self, id: u64, number: u32) {
        if let Some(before) = self.pins.insert(id, number).filter(|before| *before != number)
            && let Some(file) = self.file_mut(before)
        {
            file.items.remove(&id);
        }
        if let Some(file) = self.file_mut(number) {
            file.items.insert(id);
        }
    }

    /// No file stays for `id`.
    pub(super) fn unpin(&mut self, id: u64) {
        if let Some(number) = self.pins.remove(&id)
            && let Some(file) = self.file_mut(number)
        {
            file.items.remove(&id);
        }
    }

    fn file_mut(&mut self, number: u32) -> Option<&mut File> {
        let at = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        self.files.get_mut(at)
    }

    pub(super) fn add_item(
        &mut self,
        recording: u64,
        object: SessionObject,
        record: Piece,
        bytes: u64,
        since: Time,
    ) -> u64 {
        let id = self.next_id();
        self.insert_item(id, Item::new(recording, object, record, bytes, since));
        id
    }

    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.next_item;
        self.next_item += 1;
        id
    }

    pub(super) fn insert_item(&mut self, id: u64, item: Item) {
        self.pin(id, item.oldest_file);
        if item.state == State::Waiting {
            self.queue.insert(id);
            self.waiting_bytes += item.bytes;
            if let Some(recording) = self.recordings.get_mut(&item.recording) {
                match item.object {
                    SessionObject::Index { .. } => recording.index_waiting += 1,
                    _ => recording.waiting += 1,
                }
            }
        }
        if item.memory.is_some() {
            self.held.insert(id);
        }
        self.by_object.insert((item.recording, item.object), id);
        self.items.insert(id, item);
    }

    /// Forgets an item: its file need not stay for it.
    pub(super) fn remove_item(&mut self, id: u64) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.queue.remove(&id);
        self.passed_over.remove(&id);
        let key = (item.recording, item.object);
        if self.by_object.get(&key) == Some(&id) {
            self.by_object.remove(&key);
        }
        self.held.remove(&id);
        self.unpin(id);
        Some(item)
    }

    /// An item waits no longer, whatever has become of it.
    pub(super) fn settle(&mut self, recording: u64, object: SessionObject, bytes: u64) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        if let Some(recording) = self.recordings.get_mut(&recording) {
            match object {
                SessionObject::Index { .. } => {
                    recording.index_waiting = recording.index_waiting.saturating_sub(1);
                }
                _ => recording.waiting = recording.waiting.saturating_sub(1),
            }
        }
    }

    /// An object will not be in the store.
    pub(super) fn give_up(&mut self, id: u64, reason: HoleReason, now: Time, log: &mut dyn Log) {
        let line = self.line_of(id, log);
        let Some(item) = self.remove_item(id) else { return };
        if item.state != State::Stored {
            self.settle(item.recording, item.object, item.bytes);
        }
        if let (SessionObject::Init { rendition, number: epoch }, Some(recording)) =
            (item.object, self.recordings.get_mut(&item.recording))
        {
            // Its segments cannot be played.
            recording.lost_tracks.insert((rendition, epoch));
        }
        if let SessionObject::MpegTs { .. } = item.object {
            self.drop_mpeg_ts(item.recording, item.bytes);
        }
        if let SessionObject::Segment { rendition, segment: number } = item.object {
            let (from, to) = line.map_or((Utc::default(), Utc::default()), |line| {
                let timescale = self.timescale(item.recording, rendition, line.epoch);
                (line.utc, line.end_utc(timescale))
            });
            let hole = Hole { rendition, first: number, last: number, from, to, reason };
            self.add_hole(item.recording, hole, item.bytes, now);
        }
    }

    pub(super) fn timescale(&self, recording: u64, rendition: RenditionName, epoch: u32) -> u32 {
        let tracks = self.recordings.get(&recording).map(|recording| &recording.tracks);
        tracks.and_then(|tracks| tracks.get(&(rendition, epoch))).map_or(1, |track| track.timescale)
    }

    /// The line of a segment that waits.
    pub(super) fn line_of(&self, id: u64, log: &mut dyn Log) -> Option<RecordedSegment> {
        let item = self.items.get(&id)?;
        if let Some(line) = &item.line {
            return Some((**line).clone());
        }
        let SessionObject::Segment { .. } = item.object else { return None };
        let payload = read_record(item.record, log)?;
        let (line, _) = log::split(&payload).ok()?;
        match Line::from_json(line).ok()? {
            Some(Line::Segment(_, segment)) => Some(segment),
            _ => None,
        }
    }
}

/// The payload of a record, where it is the one that was written.
pub(super) fn read_record(payload: Piece, log: &mut dyn Log) -> Option<Bytes> {
    let at = payload.at.checked_sub(HEADER_BYTES as u32)?;
    let length = payload.length.checked_add(HEADER_BYTES as u32)?;
    let record = log.read(Piece { at, length, ..payload })?;
    let header = Header::read(&record).ok()?;
    let payload = record.slice(HEADER_BYTES.min(record.len())..);
    header.has(&payload).then_some(payload)
}
