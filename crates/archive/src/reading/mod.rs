//! What viewers get of recordings: objects, each fetched once for all that ask for it, and playlists of the time that they ask for.
//!
//! ```text
//! relay's workers ─ find ─► Cache ─ hit ─► Growing
//!                             │ miss
//!                             ├─ archive/SESSION/… ─► spool (thread "replay-spool"), or store ─► Growing
//!                             ├─ archive/SESSION/poster.jpg ─► thread "posters" ─► Growing
//!                             └─ playlist, ?from=&to= ─► thread "replay": Catalog (index) ─► window, playlist ─► Growing
//! ```
//! A worker never waits: what is not in memory is an object that grows when the store has answered.

mod answers;
mod cache;
mod catalog;
mod poster;
mod replay;
mod running;

pub use catalog::{RunningRecordings, SpooledRead, Unstored};
pub use poster::Painter;
pub use running::{OwnRecordings, OwnStore};

use crate::store::{Listed, Store, StoreError};
use answers::{busy, unknown_object};
use bytes::Bytes;
use cache::{Cache, Looked};
use catalog::{Catalog, Current, Wanted};
use glassline_delivery::archive::export::{PlannedObject, Step};
use glassline_delivery::archive::index::Recording;
use glassline_delivery::archive::names::{
    ARCHIVE_FOLDER, ArchivedObject, Session, SessionObject, StoredObject,
};
use glassline_delivery::archive::query::Span;
use glassline_delivery::archive::window::SPAN_MAX;
use glassline_delivery::fill::{Memory, Object as Filling};
use glassline_delivery::packager::later;
use glassline_delivery::playlist::Object;
use glassline_delivery::policy::StreamName;
use glassline_edge::{Growing, RecordedObjects, RecordedRequest, Wake};
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc};
use poster::{Easel, PosterJob};
use replay::{Job, Pending, PlaylistJob, Replay, SpoolJob};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::time::Duration;

/// Jobs that wait for the thread "replay" at most.
const JOBS_MAX: usize = 4096;
/// A publisher's clock, which recordings have their times by, may be ahead by it.
const CLOCKS_DIFFER: Duration = Duration::from_secs(25 * 3600);
/// What a segment is taken to have of bytes while its index has not been read.
const SEGMENT_BYTES: u64 = 2 << 20;
/// Times are whole seconds, so that those that ask for one get one playlist.
const STEP_NANOS: u64 = 1_000_000_000;

/// Is called with what became of a request to the store, on a thread of the store's.
pub type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// The objects of a step of an export, as they come.
pub(crate) type StepObjects = Vec<mpsc::Receiver<Result<Bytes, StoreError>>>;

/// What objects are read from: a [`Store`], or in tests what counts how often.
pub trait Objects: Send + Sync {
    /// Reads an object, whole.
    fn get(&self, path: &str, done: Done<Bytes>);
    /// Lists what is below a folder; see [`Store::list`].
    fn list(&self, folder: &str, limit: usize, done: Done<Vec<Listed>>);
    /// Lists the folders in a folder; see [`Store::folders`].
    fn folders(&self, folder: &str, done: Done<Vec<String>>);
    /// Writes an object, whole or not at all.
    fn put(&self, path: &str, bytes: Bytes, done: Done<()>);
    /// Deletes an object. What becomes of that is not told: what stays is deleted with its recording.
    fn delete(&self, path: &str);
    /// Another store is configured: what is known of the one before is of no use.
    fn renew(&self) {}
}

impl Objects for Store {
    fn get(&self, path: &str, done: Done<Bytes>) {
        Store::get(self, path, None, done);
    }

    fn list(&self, folder: &str, limit: usize, done: Done<Vec<Listed>>) {
        Store::list(self, folder, limit, done);
    }

    fn folders(&self, folder: &str, done: Done<Vec<String>>) {
        Store::folders(self, folder, done);
    }

    fn put(&self, path: &str, bytes: Bytes, done: Done<()>) {
        Store::put(self, path, vec![bytes], done);
    }

    fn delete(&self, path: &str) {
        Store::delete(self, path, |_| {});
    }
}

/// How recordings are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingSettings {
    /// What objects and playlists take of memory at most, beside those that viewers are just sent.
    pub cache_bytes: u64,
    /// Where players of DASH ask for the time.
    pub utc_timing: String,
    /// How long segments are by the configuration.
    pub segment: Duration,
}

impl ReadingSettings {
    /// What reading takes of memory at most: what is kept, what is on its way, and what indexes say.
    pub const fn memory_bytes(&self) -> u64 {
        self.cache_bytes + cache::COMING_MAX_BYTES + catalog::LOADED_MAX_BYTES
    }
}

impl Default for ReadingSettings {
    fn default() -> ReadingSettings {
        ReadingSettings {
            cache_bytes: 64 << 20,
            utc_timing: "/api/time?format=iso".to_owned(),
            segment: Duration::from_secs(2),
        }
    }
}

/// What was read, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingFigures {
    /// Bytes of what is in memory.
    pub memory_bytes: u64,
    /// Requests that were answered from memory, or joined to one that was under way.
    pub hits: u64,
    /// Requests that something was fetched or rendered for.
    pub misses: u64,
    /// Of these, how many failed.
    pub failures: u64,
    /// Requests that were refused, since what their address had asked for just before was still coming.
    pub refused: u64,
}

/// The recordings in a store, and those that go on.
pub struct Archive {
    shared: Arc<Shared>,
    jobs: mpsc::SyncSender<Job>,
    spool: mpsc::SyncSender<SpoolJob>,
    /// Where pictures of recordings are made.
    posters: Option<mpsc::SyncSender<PosterJob>>,
    easel: Option<Easel>,
}

/// What requests, the thread "replay" and callbacks of the store share.
struct Shared {
    objects: Box<dyn Objects>,
    running: Option<Arc<dyn RunningRecordings>>,
    cache: Mutex<Cache>,
    catalog: Mutex<Catalog>,
    /// The streams that have recordings in the store; `None` before it has said so. Workers look here, and at nothing that takes long.
    names: RwLock<Option<Arc<BTreeSet<StreamName>>>>,
    /// Another store is configured.
    is_new: AtomicBool,
    /// The store gave no answer in time: until then it is not asked by what would wait for it.
    away_until: Mutex<Time>,
    memory: Memory,
    clock: Clock,
    settings: ReadingSettings,
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        // Whole after each change.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive {
    /// Starts the thread. `running` has what the store has not yet; `None` on a server that only reads.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(
        objects: Box<dyn Objects>,
        running: Option<Arc<dyn RunningRecordings>>,
        settings: ReadingSettings,
        clock: Clock,
    ) -> io::Result<Archive> {
        let shared = Arc::new(Shared {
            objects,
            running,
            cache: Mutex::new(Cache::new(settings.cache_bytes)),
            catalog: Mutex::default(),
            names: RwLock::default(),
            is_new: AtomicBool::new(false),
            away_until: Mutex::new(Time::ZERO),
            memory: Memory::default(),
            clock,
            settings,
        });
        let (jobs, receiver) = mpsc::sync_channel(JOBS_MAX);
        let replay = Replay::new(Arc::clone(&shared), receiver);
        std::thread::Builder::new().name("replay".into()).spawn(move || replay.run())?;
        let (spool, receiver) = mpsc::sync_channel(JOBS_MAX);
        let reads = move || replay::read_spool(&receiver);
        std::thread::Builder::new().name("replay-spool".into()).spawn(reads)?;
        Ok(Archive { shared, jobs, spool, posters: None, easel: None })
    }

    /// Has pictures of recordings made by `painter`, on a thread of their own.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn with_pictures(self, painter: Painter) -> io::Result<Archive> {
        let easel: Easel = Arc::new(Mutex::new(painter));
        let posters = Some(poster::start(&self.shared, &easel)?);
        Ok(Archive { posters, easel: Some(easel), ..self })
    }

    /// The recordings of a stream that may have something in `span`, or the newest one, with whether they go on. Waits for the store.
    ///
    /// # Errors
    /// The store's.
    pub fn current(
        &self,
        name: &StreamName,
        span: Option<Span>,
    ) -> Result<Vec<(Arc<Recording>, bool)>, StoreError> {
        let current = catalog::current(&self.shared, name, Wanted { span, is_playlist: false })?;
        Ok(current.into_iter().map(|Current { recording, is_running }| (recording, is_running)).collect())
    }

    /// The streams of which there are recordings in the store. Waits for the store.
    ///
    /// # Errors
    /// The store's.
    pub fn names(&self) -> Result<Vec<StreamName>, StoreError> {
        catalog::names(&self.shared)
    }

    /// What time it is.
    pub fn utc(&self) -> Utc {
        self.shared.clock.utc()
    }

    /// How much time has passed.
    pub(crate) fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Begins to fetch the objects of a step of an export: of each a channel on which it comes.
    pub(crate) fn fetch_step(&self, step: &Step) -> StepObjects {
        let fetch = |planned: &PlannedObject| {
            let (sender, receiver) = mpsc::sync_channel(1);
            let spooled = self.shared.running.as_ref().and_then(|it| it.spooled(&planned.object));
            if let Some(Ok(bytes)) = spooled.map(|read| read()) {
                let _ = sender.send(Ok(bytes));
                return receiver;
            }
            self.shared.objects.get(
                &planned.object.to_string(),
                Box::new(move |result| {
                    let _ = sender.send(result);
                }),
            );
            receiver
        };
        step.objects.iter().map(fetch).collect()
    }

    /// How many objects one address may cause to be fetched at once from now on, and two thirds as many playlists; 0: any number.
    pub fn set_max_per_address(&self, objects: usize) {
        self.shared.cache().set_max_of_one(objects);
    }

    /// What was read.
    pub fn figures(&self) -> ReadingFigures {
        let figures = self.shared.cache().figures();
        ReadingFigures { memory_bytes: self.shared.memory.bytes(), ..figures }
    }

    /// A recording is deleted: nothing of it is given any more, as soon as what is on its way has left.
    pub fn forget(&self, name: &StreamName, session: Session) {
        self.shared.cache().forget(&format!("{name}/{session}/"));
        self.shared.catalog().forget(name, session);
    }

    /// Another store is configured: nothing that is known is given any more.
    pub fn forget_all(&self) {
        self.shared.objects.renew();
        self.shared.cache().forget("");
        *self.shared.catalog() = Catalog::default();
        *self.shared.names.write().unwrap_or_else(PoisonError::into_inner) = None;
        *self.shared.away_until.lock().unwrap_or_else(PoisonError::into_inner) = Time::ZERO;
        self.shared.is_new.store(true, Ordering::Release);
    }

    /// The object of this key, which `begin` has filled where it is not there.
    fn object(
        &self,
        by: Option<IpAddr>,
        (key, expected): (String, u64),
        wake: &Arc<dyn Wake>,
        begin: impl FnOnce(Pending),
    ) -> Arc<Growing> {
        let now = self.shared.clock.now();
        let new = || Growing::new(Filling::counted(self.shared.memory.clone()), Arc::clone(wake));
        let looked = self.shared.cache().look_for(by, &key, expected, now, new);
        match looked {
            Looked::Known(growing) => growing,
            Looked::New(growing) => {
                begin(Pending::new(&self.shared, Arc::clone(&growing), key));
                growing
            }
            Looked::Busy => busy(wake),
            Looked::BusyWithOne => answers::busy_with_one(wake),
        }
    }

    fn segment(
        &self,
        request: RecordedRequest<'_>,
        archived: ArchivedObject,
        wake: &Arc<dyn Wake>,
    ) -> Arc<Growing> {
        let ArchivedObject { session, object } = archived;
        let stored = StoredObject { name: request.name.clone(), session, object };
        let (is_known, expected) = {
            let catalog = self.shared.catalog();
            (
                catalog.has_session(&stored),
                catalog.checksum(&stored).map_or(SEGMENT_BYTES, |(_, bytes)| bytes),
            )
        };
        self.object(request.peer, (stored.to_string(), expected), wake, |pending| {
            let spooled = self.shared.running.as_ref().and_then(|running| running.spooled(&stored));
            match spooled {
                // Where too much waits, it is dropped, which answers so.
                Some(read) => drop(self.spool.try_send(SpoolJob { stored, read, pending })),
                None if is_known => replay::fetch(stored, pending),
                // The store is asked once which recordings there are, and not for each that viewers invent.
                None => drop(self.jobs.try_send(Job::Object(stored, pending))),
            }
        })
    }

    /// The picture of a recording; `None` where none are made.
    fn poster(
        &self,
        request: RecordedRequest<'_>,
        archived: ArchivedObject,
        wake: &Arc<dyn Wake>,
    ) -> Option<Arc<Growing>> {
        let posters = self.posters.as_ref()?;
        let ArchivedObject { session, object } = archived;
        let stored = StoredObject { name: request.name.clone(), session, object };
        // Counted as a playlist is: one thread makes them, and segments that are on their way do not hold it up. One page asks for
        // fifty, which may take a while: the thread's own bound is enough.
        Some(self.object(None, (stored.to_string(), cache::LIST), wake, |pending| {
            // Where too much waits, it is dropped, which answers so.
            let asked = self.shared.clock.now();
            drop(posters.try_send(PosterJob { stored, pending, asked }));
        }))
    }

    fn playlist(
        &self,
        request: RecordedRequest<'_>,
        object: Object,
        span: Option<Span>,
        wake: &Arc<dyn Wake>,
    ) -> Arc<Growing> {
        let name = request.name;
        let asked = span.map(|span| span.to_string()).unwrap_or_default();
        // A name of an object has no question mark.
        let key = format!("{name}/{object}?{asked}");
        self.object(request.peer, (key, cache::LIST), wake, |pending| {
            let job = PlaylistJob { name: name.clone(), object, span, pending, waits: None };
            drop(self.jobs.try_send(Job::Playlist(job)));
        })
    }

    /// What a request asks for by the clock, in whole seconds: a second has one playlist, however its fractions are written.
    fn span(&self, query: &str) -> Result<Option<Span>, String> {
        let now = self.shared.clock.utc().as_nanos();
        let now = Utc::from_nanos(now - now % STEP_NANOS);
        let span = Span::of(query, now).map_err(|bad| bad.to_string())?;
        Ok(span.map(|Span { from, to }| Span {
            from: Utc::from_nanos(from.as_nanos() - from.as_nanos() % STEP_NANOS),
            to: to.map(|to| {
                Utc::from_nanos(to.as_nanos().checked_next_multiple_of(STEP_NANOS).unwrap_or(u64::MAX))
            }),
        }))
    }
}

impl Archive {
    /// Whether something of the stream is recorded, as far as is known.
    fn has(&self, name: &StreamName) -> bool {
        let names = self.shared.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        names.is_some_and(|names| names.contains(name))
            || self.shared.running.as_ref().is_some_and(|running| running.has(name))
    }

    /// Whether the object is of a recording that is known here. The store is not asked.
    fn is_here(&self, name: &StreamName, archived: ArchivedObject) -> bool {
        let ArchivedObject { session, object } = archived;
        let stored = StoredObject { name: name.clone(), session, object };
        let is_known = self.shared.catalog().has_session(&stored);
        is_known || self.shared.running.as_ref().is_some_and(|running| running.spooled(&stored).is_some())
    }

    /// Whether there is no store at the moment.
    fn is_off(&self) -> bool {
        self.shared.running.as_ref().is_some_and(|running| !running.is_on())
    }
}

impl RecordedObjects for Archive {
    fn find(&self, request: RecordedRequest<'_>, wake: &Arc<dyn Wake>) -> Option<Arc<Growing>> {
        let RecordedRequest { name, rest, query, is_live, is_elsewhere, .. } = request;
        if rest.strip_prefix(ARCHIVE_FOLDER).is_some_and(|rest| rest.starts_with('/')) {
            return match rest.parse() {
                // The store is not asked for names that viewers invent; another server may have them.
                _ if self.is_off() || !self.has(name) => None,
                Err(_) => Some(unknown_object(wake)),
                Ok(archived) if is_elsewhere && !self.is_here(name, archived) => None,
                Ok(archived @ ArchivedObject { object: SessionObject::Poster, .. }) => {
                    Some(self.poster(request, archived, wake).unwrap_or_else(|| unknown_object(wake)))
                }
                Ok(archived) => Some(self.segment(request, archived, wake)),
            };
        }
        if is_elsewhere {
            return None;
        }
        let object: Object = rest.parse().ok()?;
        let is_listed = matches!(
            object,
            Object::Multivariant
                | Object::Media(_)
                | Object::IFrames
                | Object::TransportMedia
                | Object::NumberManifest
                | Object::TimelineManifest
        );
        if !is_listed {
            return None;
        }
        let span = self.span(query);
        // A stream that is not recorded is what it is without recordings.
        if is_live && span == Ok(None) || self.is_off() || !self.has(name) {
            return None;
        }
        let now = self.utc();
        Some(match span {
            Err(words) => answers::bad_time(&words, wake),
            Ok(Some(span)) if span.from > later(now, CLOCKS_DIFFER) => answers::to_come(wake),
            Ok(Some(span)) if is_too_long(span, now) => answers::too_many_days(wake),
            // The same address has to be the same time when a player reads it again.
            Ok(Some(span))
                if Span::is_relative(query)
                    && matches!(object, Object::Media(_) | Object::IFrames | Object::TransportMedia) =>
            {
                answers::by_the_clock(object, span, wake)
            }
            Ok(span) => self.playlist(request, object, span, wake),
        })
    }
}

/// Whether a time is longer than one playlist may have, before anything of it is read.
fn is_too_long(span: Span, now: Utc) -> bool {
    let length = |to: Utc| to.as_nanos().saturating_sub(span.from.as_nanos());
    // One that goes on ends there.
    span.to.is_some_and(|to| to <= now && u128::from(length(to)) > SPAN_MAX.as_nanos())
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Archive").field(&self.figures()).finish()
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
