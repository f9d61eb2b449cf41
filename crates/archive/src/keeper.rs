//! The thread "record-keep": it knows which recordings the store has, and deletes those that are not kept.
//!
//! It waits for the store where others must not. What a part of an index says is read once. What fails with one recording is counted
//! and told, and is no reason to leave the others as they are.

mod belief;
mod remove;

use crate::settings::RecordSettings;
use crate::store::{Listed, Store, StoreError, StoreErrorKind};
use belief::Believed;
use bytes::Bytes;
use glassline_delivery::archive::index::{Line, Part};
use glassline_delivery::archive::names::{Session, SessionObject, StoredObject};
use glassline_delivery::archive::retention::{KeptPart, KeptRecording};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::Utc;
use remove::at_once;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_secs(60);
/// Parts of an index, and recordings of a stream, that are known at most.
const PARTS_MAX: usize = 1 << 20;
/// Objects of a recording that are listed at once to be deleted.
const DELETE_MAX: usize = 10_000;
/// Requests that are under way at once.
const AT_ONCE: usize = 32;
/// One that has no end, and of which the store got a part of the index not longer ago, goes on: another server writes it.
const RECENT: Duration = Duration::from_secs(300);
/// The object that keeps a recording from being deleted.
const LOCK: &str = "lock";

/// What is known of a recording in the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    parts: BTreeMap<u32, KeptPart>,
    /// Parts that cannot be read, which is told once. What they would tell of is not known; they are kept as long as others.
    torn: BTreeMap<u32, KeptPart>,
    /// Where it has no part of an index, which a crash may leave: all that is there, as old as the newest of it.
    bare: Option<KeptPart>,
    /// Of all parts and what they tell of.
    bytes: u64,
    pub(crate) span: Option<(Utc, Utc)>,
    pub(crate) ended: Option<Utc>,
    pub(crate) is_locked: bool,
    /// A start has found it unfinished and ended it.
    pub(crate) is_recovered: bool,
    /// The codec of its first pictures.
    pictures: Option<String>,
}

impl Entry {
    fn add(&mut self, part: KeptPart) {
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.parts.insert(part.number, part);
    }

    fn add_torn(&mut self, part: KeptPart) {
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.torn.insert(part.number, part);
    }

    /// It has no part of an index, but these objects; none: it has a part, or nothing.
    fn set_bare(&mut self, objects: &[Listed]) {
        self.bytes = self.bytes.saturating_sub(self.bare.map_or(0, |bare| bare.bytes));
        self.bare = objects.iter().map(|listed| listed.modified).max().map(|written| KeptPart {
            number: 0,
            written,
            bytes: objects.iter().fold(0, |all, listed| all.saturating_add(listed.bytes)),
        });
        self.bytes = self.bytes.saturating_add(self.bare.map_or(0, |bare| bare.bytes));
    }

    fn remove(&mut self, part: u32) {
        let of_index = self.parts.remove(&part).or_else(|| self.torn.remove(&part));
        if let Some(part) = of_index.or_else(|| self.bare.take()) {
            self.bytes = self.bytes.saturating_sub(part.bytes);
        }
    }

    /// All parts that the store has.
    fn all_parts(&self) -> impl Iterator<Item = &KeptPart> {
        self.parts.values().chain(self.torn.values()).chain(&self.bare)
    }

    /// Whether another server may be writing it, one of a newer version among them.
    fn is_recent(&self, now: Utc) -> bool {
        let newest = self.all_parts().map(|part| part.written.as_nanos()).max();
        let is_young = |written: u64| u128::from(now.as_nanos().saturating_sub(written)) < RECENT.as_nanos();
        self.ended.is_none() && newest.is_some_and(is_young)
    }
}

/// What is known of a recording in the store, for people.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) span: Option<(Utc, Utc)>,
    pub(crate) ended: Option<Utc>,
    pub(crate) bytes: u64,
    pub(crate) is_locked: bool,
    pub(crate) is_recovered: bool,
    pub(crate) pictures: Option<String>,
}

type Known = BTreeMap<(StreamName, Session), Entry>;

/// What the thread is told.
enum Task {
    /// Another store, and other rules.
    Configure(Option<Box<(RecordSettings, Store)>>),
    /// A recording is complete in the store.
    Complete(StreamName, Session, bool),
    /// The recordings that go on, or are not complete in the store.
    Running(BTreeSet<(StreamName, Session)>),
    Delete(StreamName, Session),
    Lock(StreamName, Session, bool),
    End,
}

/// Why a recording is not deleted or locked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// There is none.
    #[error("there is no such recording")]
    Unknown,
    /// It goes on, or the store has not got all of it.
    #[error("the recording goes on, or the store has not got all of it yet: end it, and try again")]
    Running,
    /// It is locked.
    #[error("the recording is locked: unlock it first")]
    Locked,
}

/// The thread's handle.
#[derive(Debug)]
pub(crate) struct Keeper {
    tasks: Mutex<Sender<Task>>,
    known: Arc<Mutex<Known>>,
    running: Mutex<BTreeSet<(StreamName, Session)>>,
    wanted: Arc<Mutex<Wanted>>,
    errors: Arc<Errors>,
    is_held: Arc<AtomicBool>,
}

/// What requests have asked for: which recordings are locked or unlocked, until the store has it.
type Wanted = BTreeMap<(StreamName, Session), bool>;

/// Failures of the store, by kind.
type Errors = [AtomicU64; StoreErrorKind::ALL.len()];

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    pub(crate) fn start() -> io::Result<Keeper> {
        let (tasks, receiver) = channel();
        let (known, errors) = (Arc::<Mutex<Known>>::default(), Arc::<Errors>::default());
        let wanted = Arc::<Mutex<Wanted>>::default();
        let is_held = Arc::<AtomicBool>::default();
        let worker = Worker {
            known: Arc::clone(&known),
            wanted: Arc::clone(&wanted),
            errors: Arc::clone(&errors),
            is_held: Arc::clone(&is_held),
            believed: None,
            clock: Clock::new(),
            place: None,
            running: None,
            told: None,
            failed: None,
            looked: false,
        };
        thread::Builder::new().name("record-keep".into()).spawn(move || worker.run(&receiver))?;
        Ok(Keeper { tasks: Mutex::new(tasks), known, running: Mutex::default(), wanted, errors, is_held })
    }

    fn send(&self, task: Task) {
        // The thread ends with the handle alone.
        let _ = locked(&self.tasks).send(task);
    }

    pub(crate) fn configure(&self, place: Option<(RecordSettings, Store)>) {
        self.send(Task::Configure(place.map(Box::new)));
    }

    pub(crate) fn complete(&self, name: StreamName, session: Session, is_recovered: bool) {
        self.send(Task::Complete(name, session, is_recovered));
    }

    pub(crate) fn set_running(&self, running: BTreeSet<(StreamName, Session)>) {
        locked(&self.running).clone_from(&running);
        self.send(Task::Running(running));
    }

    /// What is known of the recordings in the store, of the streams that `is_wanted` names.
    pub(crate) fn summaries(
        &self,
        is_wanted: impl Fn(&StreamName) -> bool,
    ) -> Vec<((StreamName, Session), Summary)> {
        let known = locked(&self.known);
        let wanted = known.iter().filter(|((name, _), _)| is_wanted(name));
        let summary = |(key, entry): (&(StreamName, Session), &Entry)| {
            let Entry { span, ended, bytes, is_locked, is_recovered, ref pictures, .. } = *entry;
            let pictures = pictures.clone();
            (key.clone(), Summary { span, ended, bytes, is_locked, is_recovered, pictures })
        };
        wanted.map(summary).collect()
    }

    #[cfg(test)]
    fn known(&self) -> Known {
        locked(&self.known).clone()
    }

    /// The streams of which the store has recordings.
    pub(crate) fn names(&self) -> BTreeSet<StreamName> {
        locked(&self.known).keys().map(|(name, _)| name.clone()).collect()
    }

    /// Whether the store has this recording, as far as is known.
    pub(crate) fn has(&self, name: &StreamName, session: Session) -> bool {
        locked(&self.known).contains_key(&(name.clone(), session))
    }

    /// Failures of the store that were met here, in the order of [`StoreErrorKind::ALL`].
    pub(crate) fn errors(&self) -> [u64; StoreErrorKind::ALL.len()] {
        self.errors.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether nothing is deleted for its age, since the store's clock is not believed.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// Has a recording deleted, which takes a while.
    pub(crate) fn delete(&self, name: StreamName, session: Session) -> Result<(), KeepError> {
        let key = (name.clone(), session);
        if locked(&self.running).contains(&key) {
            return Err(KeepError::Running);
        }
        match locked(&self.known).get(&key) {
            None => return Err(KeepError::Unknown),
            Some(known) if known.is_locked => return Err(KeepError::Locked),
            Some(known) if known.is_recent(Clock::new().utc()) => return Err(KeepError::Running),
            Some(_) => {}
        }
        self.send(Task::Delete(name, session));
        Ok(())
    }

    /// Has a recording locked or unlocked.
    pub(crate) fn lock(&self, name: StreamName, session: Session, is_locked: bool) -> Result<(), KeepError> {
        let key = (name.clone(), session);
        let is_running = locked(&self.running).contains(&key);
        let mut known = locked(&self.known);
        match known.get_mut(&key) {
            // From now on, whenever the store gets it.
            Some(known) => known.is_locked = is_locked,
            None if is_running => {}
            None => return Err(KeepError::Unknown),
        }
        locked(&self.wanted).insert(key, is_locked);
        drop(known);
        self.send(Task::Lock(name, session, is_locked));
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.send(Task::End);
    }
}

struct Worker {
    known: Arc<Mutex<Known>>,
    wanted: Arc<Mutex<Wanted>>,
    errors: Arc<Errors>,
    /// Nothing goes for its age.
    is_held: Arc<AtomicBool>,
    believed: Option<Believed>,
    clock: Clock,
    place: Option<(RecordSettings, Store)>,
    /// What goes on here; `None` before that is known: then nothing is deleted.
    running: Option<BTreeSet<(StreamName, Session)>>,
    told: Option<String>,
    /// What failed first in what is being done.
    failed: Option<String>,
    /// All that the store had was read once.
    looked: bool,
}

impl Worker {
    fn run(mut self, tasks: &Receiver<Task>) {
        loop {
            let task = tasks.recv_timeout(LOOK);
            if matches!(task, Ok(Task::End) | Err(RecvTimeoutError::Disconnected)) {
                return;
            }
            // What panicked is begun again by the next look.
            let _ = contain(Border::Worker, || self.handle(task.ok()));
        }
    }

    fn handle(&mut self, task: Option<Task>) {
        match task {
            Some(Task::Configure(place)) => {
                let place = place.map(|it| *it);
                let is_same = |(now, _): &(RecordSettings, Store)| {
                    place.as_ref().is_some_and(|(new, _)| new.store == now.store)
                };
                if !self.place.as_ref().is_some_and(is_same) {
                    locked(&self.known).clear();
                    self.looked = false;
                    self.believed = None;
                }
                self.place = place;
                self.look();
            }
            Some(Task::Complete(name, session, is_recovered)) => {
                if let Some(running) = &mut self.running {
                    running.remove(&(name.clone(), session));
                }
                let read = self.read_recording(&name, session);
                self.tell(read.err());
                if let Some(entry) = locked(&self.known).get_mut(&(name, session)) {
                    entry.is_recovered |= is_recovered;
                }
            }
            Some(Task::Running(running)) => {
                if self.running.replace(running).is_none() {
                    self.remove_what_is_not_kept();
                    self.tell(None);
                }
            }
            Some(Task::Delete(name, session)) => {
                tracing::info!(stream = %name, %session, "a recording is deleted, as was asked for");
                let deleted = self.remove_recording(&name, session);
                self.tell(deleted.err());
            }
            Some(Task::Lock(name, session, is_locked)) => {
                let done = self.lock(&name, session, is_locked);
                self.tell(done.err());
            }
            None => self.look(),
            Some(Task::End) => {}
        }
    }

    /// A request has failed.
    fn count(&mut self, error: &StoreError) {
        if let Some(count) = self.errors.get(error.kind().index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.failed.get_or_insert_with(|| error.to_string());
    }

    /// Tells once of what has failed.
    fn tell(&mut self, error: Option<StoreError>) {
        if let Some(error) = error {
            self.count(&error);
        }
        let words = self.failed.take();
        if let Some(words) = words.as_ref().filter(|_| self.told != words) {
            tracing::warn!("the recordings in the store cannot be looked at: {words}");
        }
        self.told = words;
    }

    fn look(&mut self) {
        // Those that the store has not taken yet.
        let wanted = locked(&self.wanted).clone();
        for ((name, session), is_locked) in wanted {
            if let Err(error) = self.lock(&name, session, is_locked) {
                self.count(&error);
            }
        }
        let looked = self.read_all();
        if looked.is_ok() {
            self.remove_what_is_not_kept();
        }
        self.tell(looked.err());
    }

    fn store(&self) -> Option<Store> {
        self.place.as_ref().map(|(_, store)| store.clone())
    }

    fn read_all(&mut self) -> Result<(), StoreError> {
        let Some(store) = self.store() else { return Ok(()) };
        let (mut seen, mut unseen) = (BTreeSet::new(), BTreeSet::new());
        for folder in store.folders_blocking("")? {
            let Some(name) = StreamName::parse(&folder) else { continue };
            let folders = store.folders_blocking(name.as_str());
            if let Err(error) = &folders {
                self.count(error);
                unseen.insert(name.clone());
            }
            for folder in folders.unwrap_or_default() {
                let Ok(session) = folder.parse::<Session>() else { continue };
                let key = (name.clone(), session);
                // One that is complete changes no more.
                let is_done = locked(&self.known).get(&key).is_some_and(|entry| entry.ended.is_some());
                if (!is_done || self.is_running(&key))
                    && let Err(error) = self.read_recording(&name, session)
                {
                    self.count(&error);
                }
                seen.insert(key);
            }
        }
        locked(&self.known).retain(|key, _| seen.contains(key) || unseen.contains(&key.0));
        self.looked = true;
        Ok(())
    }

    /// When the store got the newest part of all indexes.
    fn newest_written(&self) -> Option<Utc> {
        let known = locked(&self.known);
        known.values().flat_map(|entry| entry.all_parts().map(|part| part.written)).max()
    }

    fn is_running(&self, key: &(StreamName, Session)) -> bool {
        self.running.as_ref().is_some_and(|running| running.contains(key))
    }

    /// Reads what is new in the index of a recording.
    fn read_recording(&self, name: &StreamName, session: Session) -> Result<(), StoreError> {
        let Some(store) = self.store() else { return Ok(()) };
        let folder = format!("{name}/{session}");
        let key = (name.clone(), session);
        let mut entry = locked(&self.known).get(&key).cloned().unwrap_or_default();
        let listed = store.list_blocking(&format!("{folder}/index"), PARTS_MAX)?;
        entry.is_locked = self.is_spared(&store, &key)?;
        let objects = if listed.is_empty() { store.list_blocking(&folder, DELETE_MAX)? } else { Vec::new() };
        entry.set_bare(&objects);
        let part_of = |listed: &Listed| match listed.path.parse() {
            Ok(StoredObject { object: SessionObject::Index { part }, .. }) => Some(part),
            _ => None,
        };
        let is_new = |part: &u32| !entry.parts.contains_key(part) && !entry.torn.contains_key(part);
        let new: Vec<(u32, Listed)> = listed
            .into_iter()
            .filter_map(|listed| Some((part_of(&listed).filter(is_new)?, listed)))
            .collect();
        let mut read = Ok(());
        for some in new.chunks(AT_ONCE) {
            let texts = at_once(some, |(_, listed), done| store.get(&listed.path, None, done));
            for ((part, Listed { path, bytes, modified }), text) in some.iter().zip(texts) {
                let text = match text {
                    Ok(text) => text,
                    Err(error) => {
                        read = Err(error);
                        continue;
                    }
                };
                let Ok(read) = Part::read(&text) else {
                    tracing::warn!(
                        object = path,
                        "a part of an index is torn or of another version, and is left out"
                    );
                    entry.add_torn(KeptPart { number: *part, written: *modified, bytes: *bytes });
                    continue;
                };
                let media = add_part(&mut entry, &read);
                entry.add(KeptPart { number: *part, written: *modified, bytes: bytes + media });
            }
        }
        if entry.all_parts().next().is_some() || entry.is_locked {
            let mut known = locked(&self.known);
            if let Some(is_wanted) = locked(&self.wanted).get(&key) {
                // A request has come since the store was asked.
                entry.is_locked = *is_wanted;
            }
            known.insert(key, entry);
        }
        read
    }

    fn kept(&self, now: Utc) -> Vec<KeptRecording> {
        let kept = |((name, session), entry): (&(StreamName, Session), &Entry)| {
            let is_running = self.is_running(&(name.clone(), *session)) || entry.is_recent(now);
            // Of one that goes on the index may be on its way.
            let parts = entry.all_parts().filter(|_| !(is_running && entry.bare.is_some()));
            KeptRecording {
                name: name.clone(),
                session: *session,
                parts: parts.copied().collect(),
                is_locked: entry.is_locked,
                is_running,
            }
        };
        locked(&self.known).iter().map(kept).collect()
    }

    fn lock(&self, name: &StreamName, session: Session, is_locked: bool) -> Result<(), StoreError> {
        let Some(store) = self.store() else { return Ok(()) };
        let path = format!("{name}/{session}/{LOCK}");
        if is_locked {
            store.put_blocking(&path, vec![Bytes::from_static(b"locked\n")])?;
        } else {
            store.delete_blocking(&path)?;
        }
        tracing::info!(stream = %name, %session, is_locked, "a recording is locked or unlocked");
        let key = (name.clone(), session);
        // Both are held at once, in the order in which a request holds them.
        let (mut known, mut wanted) = (locked(&self.known), locked(&self.wanted));
        // Another request may have come meanwhile: what it wants is what is known of the recording.
        if wanted.get(&key).is_none_or(|wanted| *wanted == is_locked) {
            wanted.remove(&key);
            known.entry(key).or_default().is_locked = is_locked;
        }
        Ok(())
    }
}

/// Adds what a part says to what is known of its recording. Returns the bytes of its segments.
fn add_part(entry: &mut Entry, part: &Part) -> u64 {
    let mut timescales = BTreeMap::new();
    let mut bytes = 0u64;
    for line in &part.lines {
        match line {
            Line::Track(rendition, track) => {
                timescales.insert((*rendition, track.epoch), track.timescale);
                if rendition.is_video() && entry.pictures.is_none() {
                    entry.pictures = Some(track.codec.clone());
                }
            }
            Line::Segment(rendition, segment) => {
                let timescale = timescales.get(&(*rendition, segment.epoch)).copied().unwrap_or(1);
                let (from, to) = (segment.utc, segment.end_utc(timescale));
                let known = entry.span.get_or_insert((from, to));
                *known = (known.0.min(from), known.1.max(to));
                bytes = bytes.saturating_add(segment.bytes);
            }
            Line::MpegTs(segment) => bytes = bytes.saturating_add(segment.bytes),
            Line::Ended(utc) => entry.ended = Some(*utc),
            Line::Hole(_) => {}
        }
    }
    bytes
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
