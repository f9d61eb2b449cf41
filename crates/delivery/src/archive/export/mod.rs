//! A time of recordings as one file: which objects it needs, and what becomes of their bytes.
//!
//! ```text
//! Window ─► Plan: steps, each with the objects of one row ─► the shell fetches them ─► Export::push ─► bytes of the file
//!                                                                                     Export::finish ─► head (MP4), report
//! ```
//! The file begins at the last key frame before the time that was asked for, and ends exactly: pictures and sound are not coded anew. With
//! a [`Recoder`] it begins exactly: the pictures up to the next key frame are coded anew then.
//! Runs follow each other without a hole. Inside a run a rendition may be missing for a while: the others go on, and pictures are left
//! out up to the next one that decoding can begin with. All that is missing is told in the report. Each run's tracks keep the times that
//! they have to each other, so that sound is as far from pictures as it was in the stream.

mod cut;
mod exact;
mod mp4;
mod mpeg_ts;

use super::index::{RecordedSegment, Recording};
use super::names::{Session, SessionObject, StoredObject};
use super::query::Span;
use super::window::{Cut, Row, Source, Window};
use crate::packager::{RenditionName, TrackInfo, duration_of, later};
use bytes::Bytes;
use cut::{Anchor, ROUNDED, RowCut, RunCut};
pub use exact::{Group, Recoder};
use glassline_media::Utc;
use glassline_media::container::cmaf::{ProgressiveError, ReadError};
use glassline_media::container::ts::Error as MuxError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Two ends that are no further apart meet: clocks differ by less than a picture.
const MEETING: Duration = Duration::from_millis(100);
/// The most segments before the wanted time that a key frame is looked for in: the longest that an encoder goes without.
const SEGMENTS_BACK: usize = 600;

/// What kind of file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// MP4 that is not fragmented, with all that is told in front of the bytes.
    Mp4,
    /// An MPEG transport stream.
    MpegTs,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The bytes of an object are not what they should be.
    #[error("{object} cannot be read: {reason}")]
    Object {
        /// Which.
        object: StoredObject,
        /// Why.
        reason: ReadError,
    },
    /// Its samples have times that are far from those which the index tells of it.
    #[error("{object} has other times than its index tells")]
    Astray {
        /// Which.
        object: StoredObject,
    },
    /// Samples that do not fit into the file.
    #[error("{object} does not fit into the file: {reason}")]
    Mp4 {
        /// Of which object.
        object: StoredObject,
        /// Why.
        reason: ProgressiveError,
    },
    /// A codec that a transport stream has no place for, or a change of codec.
    #[error("a transport stream cannot have this: {0}; export it as MP4")]
    MpegTs(MuxError),
    /// A codec that no transport stream of this program has.
    #[error("a transport stream cannot have {codec}; export it as MP4")]
    Codec {
        /// As RFC 6381 has it.
        codec: String,
    },
    /// The codec changes within the time.
    #[error(
        "the codec of {rendition} changes from {from} to {to} at {at}: a transport stream cannot follow; export it as MP4, or each part alone"
    )]
    CodecChanges {
        /// The rendition.
        rendition: RenditionName,
        /// Before.
        from: String,
        /// Behind.
        to: String,
        /// When.
        at: String,
    },
    /// It cannot begin exactly where it should.
    #[error("the file cannot begin exactly there: {0}")]
    Exact(Exactness),
    /// No picture or sound of the time could be used.
    #[error("nothing in that time can be decoded: there is no key frame in it")]
    Nothing,
}

/// Why a file cannot begin with any picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exactness {
    /// Another codec than H.264.
    #[error("pictures of H.264 alone are coded anew, and these are {0}")]
    Codec(String),
    /// Decoding begins at recovery points.
    #[error("the stream has no key frames")]
    NoKeyFrame,
    /// The key frame before lies too far back, or too much follows it.
    #[error("there is no key frame in the nine seconds before it, or too much behind that")]
    LongGroup,
    /// Pictures in front of a key frame need those of the group before.
    #[error("pictures refer to those before the next key frame (open groups of pictures)")]
    OpenGroup,
    /// A transport stream has no place for what has to be decoded and not shown.
    #[error("a transport stream cannot; export it as MP4")]
    MpegTs,
    /// What codes cannot.
    #[error("{0}")]
    Refused(String),
}

/// An object that a step needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedObject {
    /// Of which rendition.
    pub rendition: RenditionName,
    /// Where it is.
    pub object: StoredObject,
    /// Its length and CRC-32C, as the index tells; `None` of headers.
    pub checksum: Option<(u64, u32)>,
    /// Decoding can begin with its first sample: a key frame or a recovery point.
    pub is_entry: bool,
}

/// Objects that are needed together.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which.
    pub objects: Vec<PlannedObject>,
    kind: StepKind,
}

#[derive(Clone, Debug)]
enum StepKind {
    /// The headers of a run's renditions; what they are in it.
    Run { tracks: Vec<(RenditionName, TrackInfo)>, cut: RunCut },
    /// Segments of one row.
    Row(PlannedRow),
}

#[derive(Clone, Debug)]
struct PlannedRow {
    /// When it begins, by the time of its epoch, and how long it lasts.
    begins: Duration,
    lasts: Duration,
    /// Where the wanted time ends in it, by the same.
    end: Option<Duration>,
    /// By the clock.
    utc: Utc,
    ends: Utc,
    /// Renditions of which a segment should be there, and is not told.
    absent: Vec<RenditionName>,
}

/// A time that is not in the file, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What of it is missing; `None`: all.
    pub rendition: Option<RenditionName>,
    /// From when.
    pub from: Utc,
    /// To when.
    pub to: Utc,
}

/// What a file needs, in this order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// What is missing of what was asked for, as far as the index tells.
    missing: Vec<Missing>,
    /// Bytes of all segments, about what the file has.
    pub bytes: u64,
    /// What lies in the time by the wall clock, about.
    pub lasts: Duration,
}

impl Plan {
    /// The time to look at for a file of `span`: it begins with the key frame before that, where a segment begins without one.
    pub fn widened(sources: &[Source<'_>], span: Span) -> Span {
        let from = sources.iter().filter_map(|source| entry_before(source.recording, span.from)).max();
        Span { from: from.map_or(span.from, |from| from.min(span.from)), ..span }
    }

    /// What a file of `window` needs, which has [`Plan::widened`] the time that was asked for; `wanted` is that time, and `now` when it
    /// was asked for.
    pub fn new(window: &Window<'_>, wanted: Option<Span>, now: Utc) -> Plan {
        let rows = window.rows();
        let (from, to) = (wanted.map(|span| span.from), wanted.and_then(|span| span.to));
        let mut plan = Plan { steps: Vec::new(), missing: Vec::new(), bytes: 0, lasts: Duration::ZERO };
        let mut ended = from;
        let mut holes: BTreeMap<Session, Holes> = BTreeMap::new();
        for run in window.runs(Cut::Nowhere) {
            let Some(mut rows) = rows.get(run) else { continue };
            let from = from.filter(|_| plan.steps.is_empty());
            if let Some(from) = from {
                // Of the rows before the wanted time the last one that decoding can begin in is enough.
                let entry = rows.iter().rposition(|row| {
                    row.utc <= from
                        && video_of(row).is_some_and(|(segment, scale)| has_entry(segment, scale, from))
                });
                rows = rows.get(entry.unwrap_or(0)..).unwrap_or_default();
            }
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { continue };
            // A hole, or a stream that was away.
            if let Some(before) = ended {
                plan.miss(None, before, first.utc);
            }
            ended = Some(last.end);
            plan.add_run(rows, from);
            let recording = first.recording;
            let holes = holes.entry(recording.session()).or_insert_with(|| holes_of(recording));
            let absent = Absent::of(rows, holes);
            for (row, at) in rows.iter().zip(0usize..) {
                // Where the clock was set back, rows before the last one may seem to reach beyond the end.
                let is_last = window.rows().last().is_some_and(|last| std::ptr::eq(last, row));
                plan.add_row(row, to.filter(|_| is_last), absent.of_row(row, at));
            }
        }
        if let (Some(ended), Some(to)) = (ended, to) {
            plan.miss(None, ended, to.min(now));
        }
        plan
    }

    fn miss(&mut self, rendition: Option<RenditionName>, from: Utc, to: Utc) {
        add_missing(&mut self.missing, Missing { rendition, from, to });
    }

    fn add_run(&mut self, rows: &[Row<'_>], from: Option<Utc>) {
        let (mut objects, mut tracks) = (Vec::new(), Vec::new());
        for rendition in RenditionName::all() {
            let mut own = rows.iter().filter(|row| has_object(row, rendition));
            let Some(row) = own.next() else { continue };
            let Some(track) = row.recording.track(rendition, row.epoch) else { continue };
            let object = SessionObject::Init { rendition, number: row.epoch };
            let (object, is_entry) = (stored(row, object), false);
            objects.push(PlannedObject { rendition, object, checksum: None, is_entry });
            tracks.push((rendition, track.clone()));
        }
        let Some(lead) = rows.first() else { return };
        let anchor = anchor_of(lead);
        self.steps.push(Step { objects, kind: StepKind::Run { tracks, cut: RunCut { from, anchor } } });
    }

    fn add_row(&mut self, row: &Row<'_>, to: Option<Utc>, absent: Vec<RenditionName>) {
        let mut objects = Vec::new();
        for rendition in RenditionName::all().filter(|name| has_object(row, *name)) {
            let Some(segment) = row.segment(rendition) else { continue };
            self.bytes = self.bytes.saturating_add(segment.bytes);
            let object = SessionObject::Segment { rendition, segment: segment.number };
            let checksum = Some((segment.bytes, segment.crc32c));
            let (object, is_entry) = (stored(row, object), segment.independent);
            objects.push(PlannedObject { rendition, object, checksum, is_entry });
        }
        let anchor = anchor_of(row);
        let end = to.filter(|to| *to < row.end).map(|to| anchor.time_at(to));
        let lasts = Duration::from_nanos(row.end.as_nanos().saturating_sub(row.utc.as_nanos()));
        self.lasts = self.lasts.saturating_add(lasts);
        let (utc, ends) = (row.utc, to.map_or(row.end, |to| to.min(row.end)));
        let planned = PlannedRow { begins: anchor.time, lasts, end, utc, ends, absent };
        self.steps.push(Step { objects, kind: StepKind::Row(planned) });
    }
}

/// Adds a time to those that are missing; one that goes on where another of the same rendition ends is one with it.
fn add_missing(all: &mut Vec<Missing>, new: Missing) {
    if new.to <= later(new.from, if new.rendition.is_none() { MEETING } else { Duration::ZERO }) {
        return;
    }
    let before = all.iter_mut().rev().find(|known| known.rendition == new.rendition);
    match before.filter(|before| new.from <= later(before.to, MEETING) && before.from <= new.from) {
        Some(before) => before.to = before.to.max(new.to),
        None => all.push(new),
    }
}

/// A row's pictures, and the ticks a second of their track.
fn video_of<'a>(row: &Row<'a>) -> Option<(&'a RecordedSegment, u32)> {
    let segment = row.segment(RenditionName::Video).filter(|segment| !segment.is_gap())?;
    Some((segment, row.recording.track(RenditionName::Video, row.epoch)?.timescale))
}

/// Whether there is a place in a segment, at `from` or before, that decoding can begin at.
fn has_entry(segment: &RecordedSegment, timescale: u32, from: Utc) -> bool {
    let is_before = |utc: Utc| utc <= later(from, ROUNDED);
    let mut keys = segment.key_frames.iter().map(|key| later(segment.utc, duration_of(key.time, timescale)));
    segment.independent && is_before(segment.utc) || keys.any(is_before)
}

/// When the segment begins that decoding of what was captured at `from` can begin in; `None` where that was not recorded, or no such
/// segment lies before it without a hole.
fn entry_before(recording: &Recording, from: Utc) -> Option<Utc> {
    let mut segments =
        recording.segments(RenditionName::Video).rev().skip_while(|segment| segment.utc > from);
    let scale = |segment: &RecordedSegment| {
        recording.track(RenditionName::Video, segment.epoch).map_or(1, |track| track.timescale)
    };
    let mut later = segments.next()?;
    if later.end_utc(scale(later)) <= from {
        return None;
    }
    if has_entry(later, scale(later), from) {
        return Some(later.utc);
    }
    for segment in segments.take(SEGMENTS_BACK) {
        if segment.epoch != later.epoch || segment.number.checked_add(1) != Some(later.number) {
            return None;
        }
        if !segment.is_gap() && has_entry(segment, scale(segment), from) {
            return Some(segment.utc);
        }
        later = segment;
    }
    None
}

/// The holes of a recording: of each rendition, by the number of their first segment, that of the last one. No two touch.
type Holes = BTreeMap<RenditionName, BTreeMap<u64, u64>>;

fn holes_of(recording: &Recording) -> Holes {
    let mut all: Vec<_> = recording.holes().map(|hole| (hole.rendition, hole.first, hole.last)).collect();
    all.sort_unstable();
    let mut joined = Holes::new();
    for (rendition, first, last) in all {
        let own = joined.entry(rendition).or_default();
        match own.last_entry().filter(|before| first <= before.get().saturating_add(1)) {
            Some(mut before) => {
                let end = last.max(*before.get());
                before.insert(end);
            }
            None => {
                own.insert(first, last);
            }
        }
    }
    joined
}

/// Which renditions of a run lack segments that should be there: those that a hole tells of, and those between two that are there.
struct Absent<'a> {
    /// Of each rendition the first and the last row that has it.
    between: BTreeMap<RenditionName, (usize, usize)>,
    holes: &'a Holes,
}

impl<'a> Absent<'a> {
    fn of(rows: &[Row<'_>], holes: &'a Holes) -> Absent<'a> {
        let mut between = BTreeMap::new();
        for rendition in RenditionName::all() {
            let has = |row: &Row<'_>| row.segment(rendition).is_some();
            if let Some(ends) = rows.iter().position(has).zip(rows.iter().rposition(has)) {
                between.insert(rendition, ends);
            }
        }
        Absent { between, holes }
    }

    fn of_row(&self, row: &Row<'_>, at: usize) -> Vec<RenditionName> {
        let is_absent = |rendition: &RenditionName| {
            let between = self.between.get(rendition);
            let hole = self.holes.get(rendition).and_then(|holes| holes.range(..=row.number).next_back());
            let is_told = hole.is_some_and(|(_, last)| row.number <= *last);
            row.segment(*rendition).is_none()
                && (is_told || between.is_some_and(|(first, last)| (*first..=*last).contains(&at)))
        };
        RenditionName::all().filter(is_absent).collect()
    }
}

fn has_object(row: &Row<'_>, rendition: RenditionName) -> bool {
    row.segment(rendition).is_some_and(|segment| !segment.is_gap())
}

fn stored(row: &Row<'_>, object: SessionObject) -> StoredObject {
    StoredObject { name: row.recording.name().clone(), session: row.recording.session(), object }
}

/// Which time of the epoch a row's begin by the wall clock is.
fn anchor_of(row: &Row<'_>) -> Anchor {
    let lead = RenditionName::all().find_map(|name| Some((name, row.segment(name)?)));
    let time = lead.and_then(|(name, segment)| {
        row.recording.track(name, row.epoch).map(|track| duration_of(segment.start, track.timescale))
    });
    Anchor { utc: row.utc, time: time.unwrap_or_default() }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the file's first picture or sound was captured: its key frame.
    pub from: Utc,
    /// When what was recorded ends that is in it.
    pub to: Utc,
    /// How long it lasts: less than from `from` to `to` where something is missing.
    pub duration: Duration,
    /// What is missing of the time that was asked for.
    pub missing: Vec<Missing>,
    /// Objects that were not there, or damaged.
    pub lost_objects: u64,
    /// Renditions that are in it.
    pub renditions: Vec<RenditionName>,
}

impl Report {
    /// Whether the file has all that was asked for.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.lost_objects == 0
    }
}

/// A file in the making.
#[derive(Debug)]
pub struct Export {
    writer: Writer,
    missing: Vec<Missing>,
    lost_objects: u64,
    /// When the last row ends that something is there of.
    to: Utc,
    /// Renditions of the current run of which the header is lost.
    headless: Vec<RenditionName>,
}

#[derive(Debug)]
enum Writer {
    Mp4(Box<mp4::Mp4>),
    MpegTs(Box<mpeg_ts::MpegTs>),
}

impl Export {
    /// Of what `plan` has.
    pub fn new(plan: &Plan, container: Container) -> Export {
        let writer = match container {
            Container::Mp4 => Writer::Mp4(Box::default()),
            Container::MpegTs => Writer::MpegTs(Box::default()),
        };
        let (missing, to) = (plan.missing.clone(), Utc::default());
        Export { writer, missing, lost_objects: 0, to, headless: Vec::new() }
    }

    /// Begins the file with the first picture that was captured at the wanted time or later, and not with the key frame before it.
    ///
    /// # Errors
    /// [`Exactness::MpegTs`].
    pub fn begin_exactly(&mut self, recoder: Recoder) -> Result<(), ExportError> {
        match &mut self.writer {
            Writer::Mp4(mp4) => mp4.begin_exactly(recoder),
            Writer::MpegTs(_) => return Err(ExportError::Exact(Exactness::MpegTs)),
        }
        Ok(())
    }

    /// Takes the objects of the next step of the plan, `None` for each that is not there, and appends bytes of the file.
    ///
    /// # Errors
    /// [`ExportError`]: there will be no file.
    pub fn push(
        &mut self,
        step: &Step,
        objects: &[Option<Bytes>],
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        let is_there = |at: usize| objects.get(at).is_some_and(Option::is_some);
        let all = step.objects.iter().zip(0usize..);
        let lost: Vec<_> =
            all.filter(|(_, at)| !is_there(*at)).map(|(planned, _)| planned.rendition).collect();
        self.lost_objects = self.lost_objects.saturating_add(lost.len() as u64);
        let there = step.objects.iter().zip(objects);
        let there: Vec<_> = there.filter_map(|(planned, bytes)| Some((planned, bytes.as_ref()?))).collect();
        match &step.kind {
            StepKind::Run { tracks, cut } => {
                self.headless = lost;
                match &mut self.writer {
                    Writer::Mp4(mp4) => mp4.begin_run(&there, tracks, *cut, out),
                    Writer::MpegTs(ts) => ts.begin_run(&there, tracks, *cut, out),
                }
            }
            StepKind::Row(row) => {
                let headless = self
                    .headless
                    .iter()
                    .filter(|name| step.objects.iter().any(|planned| planned.rendition == **name));
                let mut lacking: Vec<_> = row.absent.iter().chain(&lost).chain(headless).copied().collect();
                lacking.sort_unstable();
                lacking.dedup();
                for rendition in &lacking {
                    let missing = Missing { rendition: Some(*rendition), from: row.utc, to: row.ends };
                    add_missing(&mut self.missing, missing);
                }
                if !there.is_empty() {
                    self.to = row.ends;
                }
                let cut = RowCut { begins: row.begins, lasts: row.lasts, end: row.end, lacking: &lacking };
                let undecodable = match &mut self.writer {
                    Writer::Mp4(mp4) => mp4.push(&there, cut, out)?,
                    Writer::MpegTs(ts) => ts.push(&there, cut, out)?,
                };
                if let Some((from, to)) = undecodable {
                    let rendition = Some(RenditionName::Video);
                    add_missing(&mut self.missing, Missing { rendition, from, to });
                }
                Ok(())
            }
        }
    }

    /// Ends the file. Returns what belongs in front of all bytes, empty for a transport stream, and what became of it.
    ///
    /// # Errors
    /// [`ExportError::Nothing`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(Vec<u8>, Report), ExportError> {
        let (head, ended) = match self.writer {
            Writer::Mp4(mp4) => mp4.finish(out)?,
            Writer::MpegTs(ts) => (Vec::new(), ts.finish(out)?),
        };
        let Ended { from, duration, renditions } = ended;
        let (mut missing, lost_objects) = (self.missing, self.lost_objects);
        missing.sort_by_key(|missing| (missing.from, missing.rendition));
        let to = self.to;
        Ok((head, Report { from, to, duration, missing, lost_objects, renditions }))
    }
}

/// What a writer tells at its end.
struct Ended {
    from: Utc,
    duration: Duration,
    renditions: Vec<RenditionName>,
}

impl Step {
    /// How long what is in it lasts; nothing of headers.
    pub fn lasts(&self) -> Duration {
        match self.kind {
            StepKind::Run { .. } => Duration::ZERO,
            StepKind::Row(ref row) => row.lasts,
        }
    }
}

#[cfg(test)]
#[path = "../export_tests.rs"]
mod tests;
