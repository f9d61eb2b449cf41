//! The spool: what is recorded and not in the store yet, in one append-only log on disk, bounded in bytes.
//!
//! ```text
//! begin, init, part, end of segment ─► Spool ─► Log: records in files 1, 2, 3, …   ─► next_upload ─► store
//!                                        │                                                  │
//!                                        └── part of the index ◄── lines ◄── uploaded ◄─────┘
//! ```
//! Everything that the store gets is an [`SessionObject`]: CMAF headers, segments, parts of the index. Each waits as the record
//! that has it, in the order in which it became whole. A line of the index is written when its segment is in the store, or given
//! up: the index never names an object that the store does not have.
//!
//! A file is deleted when it is the oldest and nothing in it waits. Files go in their order and in no other, so that after a crash
//! what is there is all that came after some moment, and [`Recovery`] reads it from there. Each file begins with what goes on in
//! it. Where the spool is full, the oldest file goes with the segments in it that wait ([`HoleReason::Spool`]); headers and parts
//! of the index that wait in it are small, and are written again.

mod files;
mod mpeg_ts;
mod open;
mod recording;
mod recovery;
mod store;
mod view;

pub use recovery::Recovery;

use super::index::{Hole, HoleReason, Line, MpegTsSegment, RecordedSegment};
use super::log::{HEADER_BYTES, Header, Kind, Piece};
use super::names::{Session, SessionObject, StoredObject};
use super::upload::{Outcome, Permission, Uploads};
use crate::packager::{RenditionName, TrackInfo};
use crate::policy::StreamName;
use bytes::Bytes;
use glassline_media::{Time, Utc};
use recording::{IndexLine, PendingLine, Recording, told_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The largest file of a log.
pub const FILE_MAX_BYTES: u64 = 64 << 20;
/// The smallest file, however small the spool is.
const FILE_MIN_BYTES: u64 = 256 << 10;
/// A spool has at least so many files when it is full: what goes when it is full is one of them.
const FILES: u64 = 8;
/// The first part of an index is written so long after its first line, the others so long after theirs.
const INDEX_INTERVALS: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(30));
/// Lines that are kept in memory; those of what waits beyond that are read from the disk.
const LINES_MAX: usize = 20_000;
/// Parts of indexes that are kept in memory while the disk is full, 64 KiB each.
const PARTS_IN_MEMORY_MAX: usize = 64;
/// How often an object that the store refuses is tried, while it takes others.
const REFUSED_MAX: u8 = 3;
/// How often one is tried that fails for no known reason, while others are stored.
const FAILED_MAX: u8 = 5;
/// One that the store has not answered after so long counts as one that the store did not take.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// One that has failed for no known reason lets so many others pass.
const PASSED_OVER: u64 = 8;

/// The files of a log.
pub trait Log {
    /// Appends a record to the newest file, `payload` end to end behind `header`. Where it cannot, nothing of it stays there.
    ///
    /// # Errors
    /// [`LogFailed`]; why has been told.
    fn append(&mut self, header: &[u8; HEADER_BYTES], payload: &[Bytes]) -> Result<(), LogFailed>;
    /// Begins file `number`, which is the newest from then on.
    ///
    /// # Errors
    /// [`LogFailed`]: then the newest file is the one before.
    fn begin_file(&mut self, number: u32) -> Result<(), LogFailed>;
    /// Whether there is a file that takes what is appended. After a start there is none.
    fn has_file(&self) -> bool;
    /// Deletes file `number`, which is the oldest.
    fn delete_file(&mut self, number: u32);
    /// Reads bytes of a file; `None` where they cannot be read.
    fn read(&mut self, piece: Piece) -> Option<Bytes>;
}

/// Nothing can be written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the spool cannot be written")]
pub struct LogFailed;

/// What there is to tell about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Segments are not recorded.
    Hole(StreamName, Hole),
    /// A recording cannot be had as MPEG-TS, or no longer; why.
    NoMpegTs(StreamName, String),
    /// The store refuses an object, which is given up after some attempts.
    Refused(StoredObject),
    /// All of a recording is in the store; whether a start had found it unfinished.
    Complete(StreamName, Session, bool),
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of media that were written to the spool.
    pub spooled_bytes: u64,
    /// Bytes of objects that the store has taken.
    pub uploaded_bytes: u64,
    /// Objects that it has taken.
    pub uploaded_objects: u64,
    /// Bytes of media that were dropped.
    pub dropped_bytes: u64,
    /// Segments that were dropped, by the reason.
    pub dropped_segments: [u64; HoleReason::COUNT],
}

/// Something that waits for the store.
#[derive(Debug)]
struct Item {
    recording: u64,
    object: SessionObject,
    /// The payload of its record.
    record: Piece,
    /// The oldest file that has something of it.
    oldest_file: u32,
    /// Bytes of the object.
    bytes: u64,
    since: Time,
    state: State,
    /// How often the store refused it, or failed with it for no known reason, and how many objects it had taken when it first did.
    failed: (u8, u64),
    /// What it was made of has gone from the disk, while it was on its way.
    is_gone: bool,
    /// Its line, of a segment, where there are not too many.
    line: Option<Box<RecordedSegment>>,
    /// A part of the index that the disk did not take.
    memory: Option<Box<InMemory>>,
    /// What the index will say of a segment of MPEG-TS.
    mpeg_ts: Option<MpegTsSegment>,
}

/// A part of the index that is in no file: it goes to the store from here, and what it tells of stays in the log until it is there.
#[derive(Debug)]
struct InMemory {
    text: Bytes,
    /// The line of its record.
    line: String,
    told: Vec<u64>,
}

impl Item {
    fn new(recording: u64, object: SessionObject, record: Piece, bytes: u64, since: Time) -> Item {
        let (oldest_file, state) = (record.file, State::Waiting);
        Item {
            recording,
            object,
            record,
            oldest_file,
            bytes,
            since,
            state,
            failed: (0, 0),
            is_gone: false,
            line: None,
            memory: None,
            mpeg_ts: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Uploading,
    /// In the store, and in no part of the index that is written.
    Stored,
}

#[derive(Debug)]
struct File {
    number: u32,
    bytes: u64,
    /// What waits, or is open, and has its oldest bytes in it.
    items: BTreeSet<u64>,
}

/// An object to be put into the store.
#[derive(Clone, Debug)]
pub struct Upload {
    /// What [`Spool::uploaded`] is called with.
    pub id: u64,
    /// The recording, by the number that [`Spool::begin`] gave it.
    pub recording: u64,
    /// Its name.
    pub object: StoredObject,
    /// Its bytes, one piece after another.
    pub pieces: Vec<Bytes>,
}

/// A recording, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingStatus {
    /// The stream.
    pub name: StreamName,
    /// The recording.
    pub session: Session,
    /// When its first picture or sound was captured, and when the last one ended; `None` before the first segment.
    pub span: Option<(Utc, Utc)>,
    /// Bytes of its media, in the spool and in the store.
    pub bytes: u64,
    /// It has ended, and the store has not got all of it yet.
    pub has_ended: bool,
    /// It was found on disk when the server started.
    pub is_recovered: bool,
    /// The codec of its first pictures, as RFC 6381 has it; `None` where none are known.
    pub pictures: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub struct Spool {
    max_bytes: u64,
    file_bytes: u64,
    /// By their numbers.
    files: VecDeque<File>,
    /// Which file stays for which item, or segment that is open.
    pins: BTreeMap<u64, u32>,
    total_bytes: u64,
    next_file: u32,
    recordings: BTreeMap<u64, Recording>,
    next_recording: u64,
    items: BTreeMap<u64, Item>,
    /// By what they are: of a recording, the object.
    by_object: BTreeMap<(u64, SessionObject), u64>,
    /// Those that wait, in the order in which they became whole.
    queue: BTreeSet<u64>,
    /// Those that are on their way, and since when.
    sent: BTreeMap<u64, Time>,
    /// Parts of indexes that are in memory.
    held: BTreeSet<u64>,
    /// Those of them that let others pass, until the store has taken so many objects.
    passed_over: BTreeMap<u64, u64>,
    next_item: u64,
    waiting_bytes: u64,
    uploads: Uploads,
    /// The oldest file goes just now: what is written meanwhile asks for no further room.
    is_making_room: bool,
    /// The disk did not take what it was given last.
    is_disk_full: bool,
    events: Vec<Event>,
    counters: Counters,
}

impl Spool {
    /// An empty spool of at most `max_bytes`.
    pub fn new(max_bytes: u64, uploads: Uploads) -> Spool {
        Spool {
            max_bytes,
            file_bytes: (max_bytes / FILES).clamp(FILE_MIN_BYTES, FILE_MAX_BYTES),
            files: VecDeque::new(),
            pins: BTreeMap::new(),
            total_bytes: 0,
            next_file: 1,
            recordings: BTreeMap::new(),
            next_recording: 1,
            items: BTreeMap::new(),
            by_object: BTreeMap::new(),
            queue: BTreeSet::new(),
            sent: BTreeMap::new(),
            held: BTreeSet::new(),
            passed_over: BTreeMap::new(),
            next_item: 1,
            waiting_bytes: 0,
            uploads,
            is_making_room: false,
            is_disk_full: false,
            events: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Other bounds from now on.
    pub fn reconfigure(&mut self, max_bytes: u64, rate: Option<u64>) {
        self.max_bytes = max_bytes;
        self.file_bytes = (max_bytes / FILES).clamp(FILE_MIN_BYTES, FILE_MAX_BYTES);
        self.uploads.set_rate(rate);
    }

    /// What there is to tell about since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes of objects that wait for the store.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// When the oldest object that waits became whole.
    pub fn waiting_since(&self) -> Option<Time> {
        let oldest = self.items.values().find(|item| item.state != State::Stored);
        oldest.map(|item| item.since)
    }

    /// What goes to the store holds up what comes: see [`Uploads::ease`].
    pub fn ease_uploads(&mut self, now: Time) {
        self.uploads.ease(now);
    }

    /// How many objects are on their way to the store.
    pub fn sending(&self) -> usize {
        self.uploads.active()
    }

    /// Whether the store took nothing the last time.
    pub fn is_store_away(&self) -> bool {
        self.uploads.is_away()
    }

    /// The recordings that go on, or of which something waits.
    pub fn recordings(&self) -> impl Iterator<Item = RecordingStatus> + '_ {
        self.recordings.values().map(|recording| RecordingStatus {
            name: recording.name.clone(),
            session: recording.session,
            span: recording.span,
            bytes: recording.bytes,
            has_ended: recording.ended.is_some(),
            is_recovered: recording.is_recovered,
            pictures: recording.pictures().map(str::to_owned),
        })
    }

    /// The number of the recording that has begun last; 0 before the first.
    pub fn last_recording(&self) -> u64 {
        self.next_recording - 1
    }

    /// Whether something waits of a recording up to this number, or one goes on.
    pub fn has_through(&self, number: u64) -> bool {
        self.recordings.first_key_value().is_some_and(|(first, _)| *first <= number)
    }

    // --- what is recorded ----------------------------------------------------------------------------------

    /// A recording of the stream `name` begins, which is called by that moment, or by one soon after it where another recording of
    /// the stream is known by that. Returns the number that it is called by below.
    pub fn begin(&mut self, name: StreamName, begun: Utc) -> u64 {
        let number = self.next_recording;
        self.next_recording += 1;
        let mut session = Session::new(begun);
        // The clock may have been set back.
        while self.recordings.values().any(|other| other.name == name && other.session == session) {
            session = Session::new(Utc::from_nanos(session.begun().as_nanos().saturating_add(1_000_000)));
        }
        self.recordings.insert(number, Recording::new(name, session));
        number
    }

    /// The CMAF header of an epoch, whole.
    pub fn init(
        &mut self,
        number: u64,
        rendition: RenditionName,
        track: TrackInfo,
        bytes: Bytes,
        now: Time,
        log: &mut dyn Log,
    ) {
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        recording.tracks.insert((rendition, track.epoch), track.clone());
        if let Some(rows) = &mut recording.mpeg_ts {
            rows.add_header(rendition, track.epoch, bytes.clone());
        }
        recording.unwritten.push((rendition, track, bytes));
        // Where it fails, it is written with the next part.
        let _ = self.write_inits(number, now, log);
    }

    fn write_inits(&mut self, number: u64, now: Time, log: &mut dyn Log) -> Result<(), LogFailed> {
        while let Some((rendition, track, bytes)) =
            self.recordings.get(&number).and_then(|recording| recording.unwritten.first()).cloned()
        {
            let object = SessionObject::Init { rendition, number: track.epoch };
            let header = header(Kind::Init, Some(rendition), number, u64::from(track.epoch));
            let length = bytes.len() as u64;
            let line = Line::Track(rendition, track).to_json();
            let record = self.append(header, &line, vec![bytes], log)?;
            self.add_item(number, object, record, length, now);
            if let Some(recording) = self.recordings.get_mut(&number) {
                recording.unwritten.remove(0);
            }
        }
        Ok(())
    }

    /// Segments that have no object: nothing came in their time.
    pub fn gap(&mut self, number: u64, rendition: RenditionName, segment: RecordedSegment, now: Time) {
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        recording.has_come_to(rendition, &segment);
        let segment = RecordedSegment { bytes: 0, crc32c: 0, key_frames: Vec::new(), ..segment };
        self.add_line(number, None, Line::Segment(rendition, segment), now);
    }

    /// A segment was not recorded.
    pub(super) fn add_hole(&mut self, number: u64, hole: Hole, bytes: u64, now: Time) {
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        self.counters.dropped_bytes += bytes;
        self.counters.dropped_segments[hole.reason.index()] += hole.last.saturating_sub(hole.first) + 1;
        recording.bytes = recording.bytes.saturating_sub(bytes);
        self.events.push(Event::Hole(recording.name.clone(), hole.clone()));
        // One long hole is one line.
        let known = recording.pending.iter_mut().rev().find_map(|pending| match &mut pending.line {
            Line::Hole(known) if known.rendition == hole.rendition => Some(known),
            _ => None,
        });
        if let Some(known) =
            known.filter(|known| known.reason == hole.reason && known.last.checked_add(1) == Some(hole.first))
        {
            (known.last, known.to) = (hole.last, hole.to);
            return;
        }
        self.add_line(number, None, Line::Hole(hole), now);
    }

    fn add_line(&mut self, number: u64, item: Option<u64>, line: Line, now: Time) {
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        recording.pending.push(PendingLine { item, line });
        recording.pending_since.get_or_insert(now);
    }

    /// The recording has ended at `utc`: what is open of it ends with its last whole part.
    pub fn end(&mut self, number: u64, utc: Utc, now: Time, log: &mut dyn Log) {
        let Some(recording) = self.recordings.get(&number).filter(|it| it.ended.is_none()) else { return };
        for rendition in recording.open.keys().copied().collect::<Vec<_>>() {
            self.close_segment(number, rendition, now, log);
        }
        self.write_mpeg_ts(number, true, now, log);
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        recording.ended = Some(utc);
        let is_settled = recording.waiting == 0 && recording.index_waiting == 0;
        let is_empty = !recording.is_written && recording.pending.is_empty() && is_settled;
        if is_empty {
            // It has begun, and nothing came.
            self.recordings.remove(&number);
            return;
        }
        let _ = self.append(header(Kind::Ended, None, number, utc.as_nanos()), "{}", Vec::new(), log);
        self.write_index(number, now, log);
    }
}

const fn header(kind: Kind, rendition: Option<RenditionName>, recording: u64, number: u64) -> Header {
    Header { kind, rendition, part: 0, recording, number, length: 0, payload_crc32c: 0 }
}

/// How a record names a part of the index that is in the store.
const INDEX_CODE: u32 = 3;

/// How a record names an object that is in the store.
const fn stored_code(object: SessionObject) -> (u32, Option<RenditionName>, u64) {
    match object {
        SessionObject::Init { rendition, number } => (1, Some(rendition), number as u64),
        SessionObject::Segment { rendition, segment } => (2, Some(rendition), segment),
        SessionObject::Index { part } => (INDEX_CODE, None, part as u64),
        SessionObject::Poster => (4, None, 0),
        SessionObject::MpegTs { segment } => (5, None, segment),
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod mpeg_ts_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
