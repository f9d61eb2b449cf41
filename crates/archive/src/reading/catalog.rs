//! Which recordings there are, and what their indexes say, as far as was asked for.

mod index_reader;

use super::Shared;
use crate::store::StoreError;
use bytes::Bytes;
use glassline_delivery::archive::index::{Line, Recording};
use glassline_delivery::archive::names::{Session, SessionObject, StoredObject};
use glassline_delivery::archive::query::Span;
use glassline_delivery::archive::window::SPAN_MAX;
use glassline_delivery::packager::{RenditionName, later};
use glassline_delivery::policy::StreamName;
use glassline_media::{Time, Utc};
use index_reader::{AT_ONCE, AWAY_FOR, Loaded, PARTS_EVERY, PARTS_SELDOM, Reader, begins, new, wait};
pub(super) use index_reader::{OBJECT_WITHIN, wait_for_object, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the store is asked which recordings there are.
const NAMES_EVERY: Duration = Duration::from_secs(10);
/// The same after it did not answer.
const NAMES_AWAY: Duration = Duration::from_secs(15);
/// A recording of another server's is taken to go on while its newest part is younger.
const RUNNING_WITHIN: Duration = Duration::from_secs(45);
/// So long behind what it tells of a part is written at most, while the store takes it at once.
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);
/// Parts that are read before the one that is guessed.
const BEFORE: usize = 3;
/// Parts before the first one that was read which are read first, where that begins too late; then twice as many.
const BACK: u32 = 4;
/// How long indexes are read for one playlist: what was read until then is kept, and the rest is read for the next.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(10);
/// Recordings before that of a time which are looked at for it.
const OVERLAPPING_MAX: usize = 3;
/// Parts that are read for one playlist at most: those of twice a day.
const PARTS_READ_MAX: usize = 20_000;
/// Recordings that are kept in memory, and segments of all of them: those that were asked for last.
const LOADED_MAX: usize = 64;
const LOADED_MAX_SEGMENTS: usize = 500_000;
/// What these take of memory, about: 200 bytes each.
pub(super) const LOADED_MAX_BYTES: u64 = 200 * LOADED_MAX_SEGMENTS as u64;

/// What is recorded and not in the store yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstored {
    /// The recording.
    pub session: Session,
    /// The number of the next part of its index.
    pub part: u32,
    /// What that will say, and what parts say that are on their way: tracks first.
    pub lines: Vec<Line>,
    /// Whether it goes on.
    pub is_running: bool,
}

/// Reads an object from the spool. Called once, on a thread that may wait for the disk.
pub type SpooledRead = Box<dyn FnOnce() -> io::Result<Bytes> + Send>;

/// The recordings of this server that go on, or are not in the store yet.
pub trait RunningRecordings: Send + Sync {
    /// Whether a store is configured at the moment: otherwise nothing is about recordings.
    fn is_on(&self) -> bool;
    /// Whether there is one of this stream, or was one before. Called on workers: it does not wait.
    fn has(&self, name: &StreamName) -> bool;
    /// Those of a stream.
    fn unstored(&self, name: &StreamName) -> Vec<Unstored>;
    /// How an object is read that the store does not have yet; `None` where the store is asked for it.
    fn spooled(&self, object: &StoredObject) -> Option<SpooledRead>;
}

/// What is known of the recordings of all streams.
#[derive(Default)]
pub(super) struct Catalog {
    streams: BTreeMap<StreamName, Known>,
}

#[derive(Clone, Default)]
struct Known {
    sessions: BTreeMap<Session, Loaded>,
    /// When it was asked which there are.
    listed_at: Option<Time>,
    /// The store did not say it then.
    failed_at: Option<(Time, StoreError)>,
}

/// What of a stream's recordings is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// The time; `None`: that of the newest recording.
    pub(super) span: Option<Span>,
    /// For a playlist, which has no more than [`SPAN_MAX`], the newest where no time is said; all of it else.
    pub(super) is_playlist: bool,
}

impl Catalog {
    /// Whether an index that was read tells of this object.
    pub(super) fn tells_of(&self, stored: &StoredObject) -> bool {
        let known = self.streams.get(&stored.name).and_then(|known| known.sessions.get(&stored.session));
        known.is_some_and(|loaded| match stored.object {
            SessionObject::Segment { rendition, segment } => {
                loaded.recording.segment(rendition, segment).is_some()
                    || loaded.recording.is_hole(rendition, segment)
            }
            SessionObject::MpegTs { segment } => loaded.recording.mpeg_ts(segment).is_some(),
            SessionObject::Init { rendition, number } => loaded.recording.track(rendition, number).is_some(),
            _ => false,
        })
    }

    /// Whether the recording of this object is known.
    pub(super) fn has_session(&self, stored: &StoredObject) -> bool {
        self.streams.get(&stored.name).is_some_and(|known| known.sessions.contains_key(&stored.session))
    }

    /// A recording is deleted.
    pub(super) fn forget(&mut self, name: &StreamName, session: Session) {
        if let Some(known) = self.streams.get_mut(name) {
            known.sessions.remove(&session);
        }
    }

    /// The store is asked anew which parts there are of a recording's index.
    pub(super) fn relist(&mut self, name: &StreamName, session: Session) {
        let known = self.streams.get_mut(name).and_then(|known| known.sessions.get_mut(&session));
        if let Some(loaded) = known {
            loaded.listed_at = None;
        }
    }

    /// The CRC-32C and length that an index which was read tells of this object.
    pub(super) fn checksum(&self, stored: &StoredObject) -> Option<(u32, u64)> {
        let recording = &self.streams.get(&stored.name)?.sessions.get(&stored.session)?.recording;
        match stored.object {
            SessionObject::Segment { rendition, segment } => {
                recording.segment(rendition, segment).map(|segment| (segment.crc32c, segment.bytes))
            }
            SessionObject::MpegTs { segment } => {
                recording.mpeg_ts(segment).map(|segment| (segment.crc32c, segment.bytes))
            }
            _ => None,
        }
    }
}

/// A recording of a stream, as it is now.
pub(super) struct Current {
    pub(super) recording: Arc<Recording>,
    pub(super) is_running: bool,
}

/// The streams that have recordings in the store.
pub(super) fn names(shared: &Shared) -> Result<Vec<StreamName>, StoreError> {
    let folders = wait(shared, |done| shared.objects.folders("", done))?;
    Ok(folders.iter().filter_map(|folder| StreamName::parse(folder)).collect())
}

/// Asks the store which streams have recordings; returns when it is asked again. An error leaves what was known.
pub(super) fn refresh_names(shared: &Shared) -> Duration {
    match names(shared) {
        Ok(names) => {
            let names = Some(Arc::new(names.into_iter().collect()));
            *shared.names.write().unwrap_or_else(PoisonError::into_inner) = names;
            NAMES_EVERY
        }
        Err(error) => {
            tracing::debug!(%error, "cannot list the recordings of the store");
            NAMES_AWAY
        }
    }
}

/// The recordings of a stream that may have something of what is wanted; read as far as they are not known.
///
/// # Errors
/// The store's, where something of what is wanted could not be read.
pub(super) fn current(
    shared: &Shared,
    name: &StreamName,
    wanted: Wanted,
) -> Result<Vec<Current>, StoreError> {
    let now = shared.clock.now();
    let span = wanted.span;
    let unstored = shared.running.as_ref().map(|running| running.unstored(name)).unwrap_or_default();
    let mut known = shared.catalog().streams.get(name).cloned().unwrap_or_default();
    // What goes on here and began before the time that is wanted has all of it: the store is not asked what else there is.
    let has_all =
        |own: &Unstored| own.is_running && span.is_some_and(|span| own.session.begun() <= span.from);
    let listed =
        if unstored.iter().any(has_all) { Ok(()) } else { list_sessions(shared, name, &mut known, now) };
    if let Err(error) = listed
        && known.sessions.is_empty()
        && unstored.is_empty()
    {
        keep(shared, name, known);
        return Err(error);
    }
    for Unstored { session, .. } in &unstored {
        known.sessions.entry(*session).or_insert_with(|| new(name, *session, now));
    }
    let newest = known.sessions.keys().next_back().copied();
    let overlapping = if unstored.iter().any(has_all) { BTreeSet::new() } else { overlapping(&known, span) };
    let mut found = Vec::new();
    let mut failed = None;
    for (session, next) in with_next(&known.sessions.keys().copied().collect::<Vec<_>>()) {
        // A recording lies between its begin and that of the next one, or overlaps that.
        let may_have = match span {
            None => Some(session) == newest,
            Some(span) => {
                span.to.is_none_or(|to| session.begun() < to)
                    && (next.is_none_or(|next: Session| next.begun() > span.from)
                        || overlapping.contains(&session))
            }
        };
        let Some(loaded) = known.sessions.get_mut(&session).filter(|_| may_have) else { continue };
        let own = unstored.iter().find(|unstored| unstored.session == session);
        if let Err(error) = read_index(shared, name, loaded, own, wanted) {
            failed = Some(error);
        }
        loaded.used_at = now;
        add_unstored(loaded, own);
        let recording = Arc::clone(&loaded.recording);
        let age = shared.clock.utc().as_nanos().saturating_sub(loaded.newest_written.as_nanos());
        let is_elsewhere = || recording.ended().is_none() && Duration::from_nanos(age) < RUNNING_WITHIN;
        let is_running = own.map_or_else(is_elsewhere, |own| own.is_running);
        if recording.renditions().next().is_some() {
            found.push(Current { recording, is_running });
        }
    }
    keep(shared, name, known);
    // A list that lacks what could not be read would be told as whole. What was read is kept: the next try goes on there.
    failed.map_or(Ok(found), Err)
}

/// Whether the store says that there is a recording, as far as it does not have to be asked again.
pub(super) fn is_listed(shared: &Shared, name: &StreamName, session: Session) -> bool {
    let before = shared.catalog().streams.get(name).cloned().unwrap_or_default();
    let mut known = before.clone();
    let listed = list_sessions(shared, name, &mut known, shared.clock.now());
    merge_list(shared, name, &before, &known);
    listed.is_ok() && known.sessions.contains_key(&session)
}

/// The beginning of a recording.
pub(super) struct Beginning {
    pub(super) current: Current,
    /// What the first part of the index tells of begins then: what is known of before is deleted. `None` where there is no part.
    pub(super) kept_from: Option<Utc>,
    /// The index could not be read.
    pub(super) failed: Option<StoreError>,
}

/// A recording and the beginning of its index: what tells of its first pictures. `None` where there is no such recording.
///
/// # Errors
/// The store's, where it is not known whether there is one.
pub(super) fn beginning(
    shared: &Shared,
    name: &StreamName,
    session: Session,
) -> Result<Option<Beginning>, StoreError> {
    let now = shared.clock.now();
    let unstored = shared.running.as_ref().map(|running| running.unstored(name)).unwrap_or_default();
    let own = unstored.iter().find(|unstored| unstored.session == session);
    let before = shared.catalog().streams.get(name).cloned().unwrap_or_default();
    let mut known = before.clone();
    let listed = if own.is_some() { Ok(()) } else { list_sessions(shared, name, &mut known, now) };
    merge_list(shared, name, &before, &known);
    if own.is_none() && !known.sessions.contains_key(&session) {
        return listed.map(|()| None);
    }
    let mut loaded = known.sessions.remove(&session).unwrap_or_else(|| new(name, session, now));
    loaded.used_at = now;
    let failed = read_beginning(shared, name, &mut loaded, own).err();
    add_unstored(&mut loaded, own);
    let recording = Arc::clone(&loaded.recording);
    let first = loaded.listing.keys().next();
    let kept_from = first.and_then(|first| loaded.starts.get(first).copied());
    // Another server's may go on, too.
    let is_running = own.map_or_else(|| recording.ended().is_none(), |own| own.is_running);
    merge_session(shared, name, session, loaded, own.is_some());
    let current = Current { recording, is_running };
    Ok(Some(Beginning { current, kept_from, failed }))
}

/// Takes over which recordings there are by a list that has just come: others may have read their indexes meanwhile.
fn merge_list(shared: &Shared, name: &StreamName, before: &Known, after: &Known) {
    if (before.listed_at, &before.failed_at) == (after.listed_at, &after.failed_at) {
        return;
    }
    let mut catalog = shared.catalog();
    let mut now = catalog.streams.remove(name).unwrap_or_default();
    now.sessions
        .retain(|session, _| after.sessions.contains_key(session) || !before.sessions.contains_key(session));
    for (session, loaded) in &after.sessions {
        now.sessions.entry(*session).or_insert_with(|| loaded.clone());
    }
    (now.listed_at, now.failed_at) = (after.listed_at, after.failed_at.clone());
    catalog.put(name, now);
}

/// Takes over what was read of an index, unless another one has read more of it meanwhile, or the recording was deleted.
fn merge_session(shared: &Shared, name: &StreamName, session: Session, loaded: Loaded, is_own: bool) {
    let mut catalog = shared.catalog();
    let mut now = catalog.streams.remove(name).unwrap_or_default();
    match now.sessions.get_mut(&session) {
        Some(known) if known.recording.parts() <= loaded.recording.parts() => *known = loaded,
        Some(known) => known.used_at = known.used_at.max(loaded.used_at),
        None if is_own => drop(now.sessions.insert(session, loaded)),
        None => {}
    }
    catalog.put(name, now);
}

/// Reads the first parts of an index, up to those that tell of pictures. The spool has the beginning of a recording of which the store has
/// no part.
fn read_beginning(
    shared: &Shared,
    name: &StreamName,
    loaded: &mut Loaded,
    own: Option<&Unstored>,
) -> Result<(), StoreError> {
    if own.is_some_and(|own| own.part == 0) {
        return Ok(());
    }
    let folder = format!("{name}/{}/index", loaded.recording.session());
    let (now, utc) = (shared.clock.now(), shared.clock.utc());
    let reader = Reader { shared, folder: &folder, deadline: now + READ_WITHIN };
    reader.list(loaded, now, utc)?;
    let first: Vec<u32> = loaded.listing.keys().copied().take(BACK as usize * 2).collect();
    for parts in first.chunks(BACK as usize) {
        reader.read(loaded, parts)?;
        if loaded.recording.segments(RenditionName::Video).next().is_some() {
            break;
        }
    }
    Ok(())
}

/// The last recordings that began before `span` and another one, but may go on in it: of two servers that record one stream.
fn overlapping(known: &Known, span: Option<Span>) -> BTreeSet<Session> {
    let Some(span) = span else { return BTreeSet::new() };
    let before = known.sessions.iter().rev().filter(|(session, _)| session.begun() <= span.from);
    before
        .skip(1)
        .take(OVERLAPPING_MAX)
        .filter(|(_, loaded)| {
            let is_over = loaded.recording.ended().is_some_and(|ended| ended <= span.from);
            let is_old =
                loaded.listed_at.is_some() && later(loaded.newest_written, PARTS_SELDOM) <= span.from;
            !is_over && !is_old
        })
        .map(|(session, _)| *session)
        .collect()
}

/// Whether there is the recording of this object.
///
/// # Errors
/// The store's.
pub(super) fn has_recording(shared: &Shared, stored: &StoredObject) -> Result<bool, StoreError> {
    let mut known = shared.catalog().streams.get(&stored.name).cloned().unwrap_or_default();
    let listed = list_sessions(shared, &stored.name, &mut known, shared.clock.now());
    let is_there = known.sessions.contains_key(&stored.session);
    keep(shared, &stored.name, known);
    listed.map(|()| is_there).or_else(|error| if is_there { Ok(true) } else { Err(error) })
}

/// Asks the store which recordings of a stream there are, where that was not asked just before.
fn list_sessions(shared: &Shared, name: &StreamName, known: &mut Known, now: Time) -> Result<(), StoreError> {
    if let Some((_, error)) = known.failed_at.as_ref().filter(|(at, _)| now.since(*at) < AWAY_FOR) {
        return Err(error.clone());
    }
    if known.listed_at.is_some_and(|at| now.since(at) < PARTS_EVERY) {
        return Ok(());
    }
    match wait(shared, |done| shared.objects.folders(name.as_str(), done)) {
        Ok(folders) => {
            let sessions: BTreeSet<Session> =
                folders.iter().filter_map(|folder| folder.parse().ok()).collect();
            known.sessions.retain(|session, _| sessions.contains(session));
            for session in sessions {
                known.sessions.entry(session).or_insert_with(|| new(name, session, now));
            }
            (known.listed_at, known.failed_at) = (Some(now), None);
            Ok(())
        }
        Err(error) => {
            tracing::debug!(%error, stream = %name, "cannot list recordings");
            known.failed_at = Some((shared.clock.now(), error.clone()));
            Err(error)
        }
    }
}

/// Adds what the store will say, in parts of these numbers; what is known of it already is left, since a change copies the recording.
fn add_unstored(loaded: &mut Loaded, own: Option<&Unstored>) {
    let Some(Unstored { part, lines, .. }) = own else { return };
    let recording = &loaded.recording;
    let is_known = |line: &Line| match line {
        Line::Track(rendition, track) => recording.track(*rendition, track.epoch) == Some(track),
        Line::Segment(rendition, segment) => recording.segment(*rendition, segment.number) == Some(segment),
        Line::MpegTs(segment) => recording.mpeg_ts(segment.number) == Some(*segment),
        Line::Hole(hole) => recording.holes().any(|known| known == hole),
        Line::Ended(utc) => recording.ended() == Some(*utc),
    };
    let added: Vec<&Line> = lines.iter().filter(|line| !is_known(line)).collect();
    if !added.is_empty() {
        let recording = Arc::make_mut(&mut loaded.recording);
        added.into_iter().for_each(|line| recording.add(*part, line.clone()));
    }
}

fn with_next(sessions: &[Session]) -> Vec<(Session, Option<Session>)> {
    sessions.iter().enumerate().map(|(at, session)| (*session, sessions.get(at + 1).copied())).collect()
}

/// Puts back what is known now, and forgets the indexes that were asked for longest ago.
fn keep(shared: &Shared, name: &StreamName, known: Known) {
    shared.catalog().put(name, known);
}

impl Catalog {
    /// What is known of a stream from now on. Forgets the indexes that were asked for longest ago.
    fn put(&mut self, name: &StreamName, known: Known) {
        if known.sessions.is_empty() && known.failed_at.is_none() {
            // Of names that viewers invent nothing is kept.
            self.streams.remove(name);
            return;
        }
        self.streams.insert(name.clone(), known);
        self.make_room();
    }

    /// Of how many recordings the index is known.
    #[cfg(test)]
    pub(super) fn loaded(&self) -> usize {
        let all = self.streams.values().flat_map(|known| known.sessions.values());
        all.filter(|loaded| !loaded.recording.is_empty()).count()
    }

    /// Forgets the indexes that were used longest ago, but never the one that was used last.
    fn make_room(&mut self) {
        let loaded = || self.streams.values().flat_map(|known| known.sessions.values());
        let loaded = loaded().filter(|loaded| !loaded.recording.is_empty() || !loaded.listing.is_empty());
        let (mut count, mut segments) =
            loaded.fold((0usize, 0usize), |(count, all), it| (count + 1, all + it.recording.len()));
        if count <= LOADED_MAX && segments <= LOADED_MAX_SEGMENTS {
            return;
        }
        let streams = self.streams.iter().flat_map(|(name, known)| {
            known.sessions.iter().map(move |(session, loaded)| {
                (loaded.used_at, name.clone(), *session, loaded.recording.len())
            })
        });
        let mut used: Vec<_> = streams.collect();
        used.sort();
        used.pop();
        for (at, name, session, own) in used {
            if count <= LOADED_MAX && segments <= LOADED_MAX_SEGMENTS {
                break;
            }
            if let Some(known) = self.streams.get_mut(&name)
                && let Some(loaded) = known.sessions.get_mut(&session)
                && !(loaded.recording.is_empty() && loaded.listing.is_empty())
            {
                *loaded = new(&name, session, at);
                (count, segments) = (count - 1, segments - own);
            }
        }
    }
}

/// Reads the parts of an index that tell of what is wanted, as far as they are not known. Which those are is guessed from when they
/// were written, or from how many there are, and then seen in what they tell: parts are written in the order of time.
fn read_index(
    shared: &Shared,
    name: &StreamName,
    loaded: &mut Loaded,
    own: Option<&Unstored>,
    wanted: Wanted,
) -> Result<(), StoreError> {
    let session = loaded.recording.session();
    let folder = format!("{name}/{session}/index");
    let now = shared.clock.now();
    let deadline = if wanted.is_playlist { now + READ_WITHIN } else { Time::NEVER };
    let utc = shared.clock.utc();
    let reader = Reader { shared, folder: &folder, deadline };
    let own = own.filter(|own| own.is_running);
    let spooled = own.and_then(|own| own.lines.iter().filter_map(begins).min());
    if spooled.zip(wanted.span).is_some_and(|(begins, span)| begins <= span.from) {
        // The store has nothing of that time yet; it may be away.
        return Ok(());
    }
    if own.is_none() {
        reader.list(loaded, now, utc)?;
    }
    let parts: Vec<u32> = match own {
        // This server's own are numbered without a hole, and how many there are is known.
        Some(own) => (0..own.part).collect(),
        None => loaded.listing.keys().copied().collect(),
    };
    let newest = if own.is_some() { utc } else { loaded.newest_written };
    let (from, to) = match wanted.span {
        Some(span) => (span.from, span.to),
        None if wanted.is_playlist => {
            (Utc::from_nanos(newest.as_nanos().saturating_sub(SPAN_MAX.as_nanos() as u64)), None)
        }
        None => (Utc::default(), None),
    };
    // Where the part lies that tells of a time.
    let guess = |at: Utc| match own {
        Some(_) => {
            let begun = session.begun().as_nanos();
            let (of, all) = (at.as_nanos().saturating_sub(begun), utc.as_nanos().saturating_sub(begun));
            let place = u128::from(of) * parts.len() as u128 / u128::from(all.max(1));
            usize::try_from(place).unwrap_or(usize::MAX).min(parts.len())
        }
        None => parts.partition_point(|part| loaded.listing.get(part).is_some_and(|written| *written < at)),
    };
    let mut first = guess(from).saturating_sub(BEFORE);
    let last =
        to.map_or(parts.len(), |to| guess(later(to, WRITTEN_WITHIN)).saturating_add(1).min(parts.len()));
    let mut read = 0usize;
    let max = if wanted.is_playlist { PARTS_READ_MAX } else { usize::MAX };
    // Forward, until one tells of what comes behind the end.
    let mut next = first;
    while next < parts.len() && read < max {
        let end =
            if next < last { last.min(next + AT_ONCE) } else { (next + BACK as usize).min(parts.len()) };
        let chunk = parts.get(next..end).unwrap_or_default();
        read += reader.read(loaded, chunk)?;
        next = end;
        let is_over = to.is_some_and(|to| {
            chunk.iter().rev().find_map(|part| loaded.starts.get(part)).is_some_and(|start| *start >= to)
        });
        if is_over {
            break;
        }
    }
    // Backward, until one begins before it.
    let mut step = BACK as usize;
    while first > 0 && read < max {
        let begins = parts.get(first..).unwrap_or_default().iter().find_map(|part| loaded.starts.get(part));
        if begins.is_some_and(|begins| *begins <= from) {
            break;
        }
        let start = first.saturating_sub(step);
        read += reader.read(loaded, parts.get(start..first).unwrap_or_default())?;
        (first, step) = (start, (step * 2).min(AT_ONCE));
    }
    Ok(())
}
