//! Segments of MPEG-TS, made of the CMAF segments that were recorded.
//!
//! When all renditions have come to the end of a number, its segments are read back, muxed, and wait for the store as they do. They are of
//! less worth: they are made while the spool is less than half full, so that they take a quarter of it from the CMAF segments at most; one
//! that is missing is no hole, since its pictures and sound are in those.

use super::{Event, Item, Kind, Log, Spool, header};
use crate::archive::index::{Line, MpegTsSegment, crc32c};
use crate::archive::log::HEADER_BYTES;
use crate::archive::mpeg_ts::{Ingredient, NoSegment, segment};
use crate::archive::names::SessionObject;
use crate::packager::{Kind as TrackKind, RenditionName};
use bytes::Bytes;
use glassline_media::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Headers of each rendition that are kept: that of the epoch that has begun, and of the one before, which has segments that wait.
const HEADERS: usize = 2;
/// Where a rendition has stopped, others do not wait for it for longer than so many segments.
const LAG: u64 = 2;
/// The spool is filled with it up to the half, and with one segment up to a quarter.
const SHARE: u64 = 2;
const ROOM: u64 = 4;

/// What there is to make.
#[derive(Debug, Default)]
pub(super) struct Rows {
    headers: BTreeMap<(RenditionName, u32), Bytes>,
    /// Numbers of which segments were recorded: their epoch, and of which renditions. What the index says of these waits, since their
    /// items go with it.
    waiting: BTreeMap<u64, (u32, BTreeSet<RenditionName>)>,
    /// The last number that was made, or given up: what comes later of it is in none.
    done: Option<u64>,
}

impl Rows {
    pub(super) fn add_header(&mut self, rendition: RenditionName, epoch: u32, header: Bytes) {
        self.headers.insert((rendition, epoch), header);
        let of_rendition = self.headers.range((rendition, 0)..=(rendition, u32::MAX)).map(|(key, _)| *key);
        let of_rendition: Vec<_> = of_rendition.collect();
        for key in of_rendition.iter().rev().skip(HEADERS) {
            self.headers.remove(key);
        }
    }

    /// A segment was recorded.
    pub(super) fn add(&mut self, rendition: RenditionName, epoch: u32, number: u64) {
        if self.done.is_none_or(|done| number > done) {
            self.waiting.entry(number).or_insert_with(|| (epoch, BTreeSet::new())).1.insert(rendition);
        }
    }

    /// Whether the segments of a number are still needed.
    pub(super) fn needs(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// The renditions that are in it in an epoch: pictures, and the first sound.
    fn renditions(&self, epoch: u32) -> Vec<RenditionName> {
        let of_epoch = self.headers.keys().filter(|(_, of)| *of == epoch);
        let all: BTreeSet<RenditionName> = of_epoch.map(|(name, _)| *name).collect();
        let pictures = all.iter().copied().filter(|name| name.is_video());
        let sound = all.iter().copied().find(|name| !name.is_video());
        pictures.chain(sound).collect()
    }
}

impl Spool {
    /// What is recorded from now on of the recording of this number goes to the store as MPEG-TS, too.
    pub fn also_as_mpeg_ts(&mut self, number: u64) {
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.mpeg_ts.get_or_insert_default();
        }
    }

    /// Makes and writes the segments of which all is there; where the recording ends, all that wait.
    pub(super) fn write_mpeg_ts(&mut self, number: u64, is_end: bool, now: Time, log: &mut dyn Log) {
        while let Some((row, epoch, recorded)) = self.next_row(number, is_end) {
            match self.mux(number, (row, epoch), &recorded, log) {
                Ok(Some(bytes)) => self.add_mpeg_ts(number, row, bytes, now, log),
                // Something of it has gone already.
                Ok(None) => {}
                Err(error) => {
                    let Some(recording) = self.recordings.get_mut(&number) else { return };
                    recording.mpeg_ts = None;
                    let name = recording.name.clone();
                    self.events.push(Event::NoMpegTs(name, error.to_string()));
                }
            }
        }
    }

    /// Takes the next number that is due.
    fn next_row(&mut self, number: u64, is_end: bool) -> Option<(u64, u32, BTreeSet<RenditionName>)> {
        let recording = self.recordings.get_mut(&number)?;
        let rows = recording.mpeg_ts.as_mut()?;
        let newest = *rows.waiting.last_key_value()?.0;
        let (&first, (epoch, _)) = rows.waiting.first_key_value()?;
        let has_passed =
            |name: &RenditionName| recording.last.get(name).is_some_and(|(last, _)| *last >= first);
        let is_due =
            is_end || rows.renditions(*epoch).iter().all(has_passed) || newest.saturating_sub(first) >= LAG;
        if !is_due {
            return None;
        }
        rows.done = Some(first);
        rows.waiting.pop_first().map(|(row, (epoch, recorded))| (row, epoch, recorded))
    }

    /// The segments of a number as MPEG-TS; `None` where not all of those that were `recorded` are there any more.
    fn mux(
        &self,
        number: u64,
        (row, epoch): (u64, u32),
        recorded: &BTreeSet<RenditionName>,
        log: &mut dyn Log,
    ) -> Result<Option<Vec<u8>>, NoSegment> {
        let Some(recording) = self.recordings.get(&number) else { return Ok(None) };
        let Some(rows) = &recording.mpeg_ts else { return Ok(None) };
        let mut ingredients = Vec::new();
        for name in rows.renditions(epoch) {
            let Some(header) = rows.headers.get(&(name, epoch)).cloned() else { return Ok(None) };
            let language = match recording.tracks.get(&(name, epoch)).map(|track| track.kind) {
                Some(TrackKind::Audio { language, .. }) => language,
                _ => None,
            };
            let mut segment = None;
            if recorded.contains(&name) {
                let object = SessionObject::Segment { rendition: name, segment: row };
                let Some(id) = self.by_object.get(&(number, object)).copied() else { return Ok(None) };
                let Some(line) = self.line_of(id, log) else { return Ok(None) };
                let Some(pieces) = self.read_object(id, Some(&line), log) else { return Ok(None) };
                segment = Some(Bytes::from(pieces.concat())).filter(|_| line.epoch == epoch);
            }
            ingredients.push(Ingredient { header, segment, language });
        }
        if ingredients.iter().all(|it| it.segment.is_none()) {
            return Ok(None);
        }
        segment(&ingredients).map(Some)
    }

    fn add_mpeg_ts(&mut self, number: u64, row: u64, bytes: Vec<u8>, now: Time, log: &mut dyn Log) {
        let length = bytes.len() as u64;
        let known = MpegTsSegment { number: row, bytes: length, crc32c: crc32c(&bytes) };
        let line = Line::MpegTs(known).to_json();
        let needed = length + (line.len() + HEADER_BYTES + 1) as u64;
        self.delete_done(log);
        let has_room = length > 0
            && !self.is_disk_full
            && needed <= self.max_bytes / ROOM
            && self.total_bytes + needed <= self.max_bytes / SHARE;
        let written = match has_room {
            true => self.append(header(Kind::MpegTs, None, number, row), &line, vec![bytes.into()], log).ok(),
            false => None,
        };
        let Some(record) = written else {
            self.counters.dropped_bytes += length;
            return;
        };
        self.counters.spooled_bytes += length;
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.bytes += length;
        }
        let mut item = Item::new(number, SessionObject::MpegTs { segment: row }, record, length, now);
        item.mpeg_ts = Some(known);
        let id = self.next_id();
        self.insert_item(id, item);
    }

    /// A segment of MPEG-TS will not be in the store.
    pub(super) fn drop_mpeg_ts(&mut self, number: u64, bytes: u64) {
        self.counters.dropped_bytes += bytes;
        if let Some(recording) = self.recordings.get_mut(&number) {
            recording.bytes = recording.bytes.saturating_sub(bytes);
        }
    }
}
