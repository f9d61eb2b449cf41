//! The thread "replay", which reads indexes and renders playlists, and the thread "replay-spool", which reads from the spool: a store
//! that does not answer holds up the first alone.

use super::Shared;
use super::answers;
use super::catalog::{self, SpooledRead, Wanted};
use crate::waits::Waits;
use bytes::Bytes;
use glassline_delivery::archive::index::crc32c;
use glassline_delivery::archive::names::StoredObject;
use glassline_delivery::archive::playlist::{self, Telling};
use glassline_delivery::archive::query::Span;
use glassline_delivery::archive::window::{Source, Window, limited};
use glassline_delivery::fill::Head;
use glassline_delivery::http1::Response;
use glassline_delivery::playlist::Object;
use glassline_delivery::policy::StreamName;
use glassline_edge::Growing;
use glassline_io::containment::{Border, contain};
use glassline_media::Time;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A failure is told to all that ask within this time, and then tried anew.
const FAILURE_FOR: Duration = Duration::from_secs(1);
/// How long a playlist may be kept to which something is added, or that another recording replaces.
const GROWING_FOR: Duration = Duration::from_secs(1);
/// How long one may be kept that is whole. What it names may be deleted.
const WHOLE_FOR: Duration = Duration::from_secs(60);
/// How long clients may keep objects, which never change.
const OBJECT_SECS: u32 = 86_400;
/// How long an object is kept that was compared with its index, and one that was not: it may be deleted, and its index be read.
const OBJECT_FOR: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(10));
/// How often it is looked again for what has been captured and is recorded in a moment.
const AWAIT_EVERY: Duration = Duration::from_millis(200);
/// The thread does other things for so many times as long as it looked.
const AWAIT_SHARE: u32 = 4;
/// And no longer than that, where it is the store that took the time.
const AWAIT_SELDOM: Duration = Duration::from_secs(2);
/// So many wait at most; others are given what there is.
const AWAITING_MAX: usize = 64;
/// How often the thread looks after what has expired.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// An object that was asked for and has to be answered. Where it is dropped without an answer, by a panic or by a thread that ends, it
/// says that: nothing waits for ever.
pub(super) struct Pending {
    shared: Arc<Shared>,
    growing: Arc<Growing>,
    key: String,
    is_answered: bool,
}

impl Pending {
    pub(super) fn new(shared: &Arc<Shared>, growing: Arc<Growing>, key: String) -> Pending {
        Pending { shared: Arc::clone(shared), growing, key, is_answered: false }
    }

    /// Whether anything beside the cache still has the object: the clients that asked for it may have gone.
    pub(super) fn is_awaited(&self) -> bool {
        let cache = self.shared.cache();
        let of_cache = usize::from(cache.has(&self.key, &self.growing));
        // None is handed out while the cache is locked.
        Arc::strong_count(&self.growing) > 1 + of_cache
    }

    /// Gives these bytes, which may be given for so long.
    pub(super) fn fill(mut self, head: Head, bytes: Vec<u8>, keep: Duration) {
        self.is_answered = true;
        let bytes = self.shared.memory.hold(bytes);
        self.growing.change(|object| {
            object.begin(head, None);
            object.append(bytes);
            object.finish();
        });
        let expires = self.shared.clock.now() + keep;
        self.shared.cache().is_whole(&self.key, &self.growing, expires, false);
    }

    /// Says why there is nothing.
    pub(super) fn refuse(mut self, response: Response) {
        self.answer(response, FAILURE_FOR);
    }

    /// The same, for so long.
    pub(super) fn answer(&mut self, response: Response, keep: Duration) {
        self.is_answered = true;
        answers::fill(&self.growing, response);
        let expires = self.shared.clock.now() + keep;
        self.shared.cache().is_whole(&self.key, &self.growing, expires, true);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(answers::too_many(), Duration::ZERO);
        }
    }
}

/// An object to be read from the spool.
pub(super) struct SpoolJob {
    pub(super) stored: StoredObject,
    pub(super) read: SpooledRead,
    pub(super) pending: Pending,
}

/// Reads from the spool until no handle is left.
pub(super) fn read_spool(jobs: &mpsc::Receiver<SpoolJob>) {
    for SpoolJob { stored, read, pending } in jobs {
        // A panic drops what is pending, which answers.
        let _ = contain(Border::Output, || match read() {
            Ok(bytes) => fill_object(&stored, pending, bytes),
            Err(error) => {
                tracing::debug!(%error, object = %stored, "not in the spool any more");
                fetch(stored, pending);
            }
        });
    }
}

/// What the thread is asked for.
pub(super) enum Job {
    Playlist(PlaylistJob),
    /// An object of a recording that is not known yet.
    Object(StoredObject, Pending),
}

/// A playlist that was asked for.
pub(super) struct PlaylistJob {
    pub(super) name: StreamName,
    pub(super) object: Object,
    pub(super) span: Option<Span>,
    pub(super) pending: Pending,
    /// What it waits for, where that is recorded in a moment.
    pub(super) waits: Option<Waits>,
}

/// See the module.
pub(super) struct Replay {
    shared: Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
    /// Playlists that wait for what is recorded in a moment, and when they are looked at.
    awaiting: Vec<PlaylistJob>,
    look_at: Time,
    names_at: Time,
    sweep_at: Time,
}

impl Replay {
    pub(super) fn new(shared: Arc<Shared>, jobs: mpsc::Receiver<Job>) -> Replay {
        let at = Time::ZERO;
        Replay { shared, jobs, awaiting: Vec::new(), look_at: at, names_at: at, sweep_at: at }
    }

    /// Works until no handle is left.
    pub(super) fn run(mut self) {
        loop {
            let now = self.shared.clock.now();
            let is_new = self.shared.is_new.swap(false, Ordering::AcqRel);
            if is_new || now >= self.names_at {
                let every = catalog::refresh_names(&self.shared);
                self.names_at = self.shared.clock.now() + every;
            }
            if now >= self.sweep_at {
                self.shared.cache().sweep(now);
                self.sweep_at = now + SWEEP_EVERY;
            }
            // Also where jobs come without a pause.
            if now >= self.look_at && !self.awaiting.is_empty() {
                for job in std::mem::take(&mut self.awaiting) {
                    self.contained(job);
                }
                // Others come in between, however long it takes.
                let then = self.shared.clock.now();
                self.look_at = then + (then.since(now) * AWAIT_SHARE).clamp(AWAIT_EVERY, AWAIT_SELDOM);
            }
            let timeout = if self.awaiting.is_empty() { SWEEP_EVERY } else { AWAIT_EVERY };
            match self.jobs.recv_timeout(timeout) {
                Ok(Job::Playlist(job)) => self.contained(job),
                // A panic drops what is pending, which answers.
                Ok(Job::Object(stored, pending)) => {
                    let _ = contain(Border::Output, || object_of(&self.shared, stored, pending));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does a job; a panic fails it alone.
    fn contained(&mut self, job: PlaylistJob) {
        let may_wait = self.awaiting.len() < AWAITING_MAX;
        if let Ok(Some(awaiting)) = contain(Border::Output, || playlist_of(&self.shared, job, may_wait)) {
            self.awaiting.push(awaiting);
        }
    }
}

/// Answers a request for a playlist; returns it where it has to wait.
fn playlist_of(shared: &Shared, mut job: PlaylistJob, may_wait: bool) -> Option<PlaylistJob> {
    let (now, utc) = (shared.clock.now(), shared.clock.utc());
    let wanted = Wanted { span: job.span.map(|span| limited(span, utc)), is_playlist: true };
    let current = match catalog::current(shared, &job.name, wanted) {
        Ok(current) => current,
        Err(error) => {
            tracing::warn!(%error, stream = %job.name, "cannot read the index of a recording");
            job.pending.refuse(answers::store_failed(&error));
            return None;
        }
    };
    let sources: Vec<_> = current
        .iter()
        .map(|current| Source { recording: &current.recording, is_running: current.is_running })
        .collect();
    let has_waited = job.waits.get_or_insert_with(|| Waits::begin(&sources, now, utc)).are_over(now);
    let window = match Window::for_playlist(&sources, job.span, utc) {
        Ok(window) => window,
        Err(too_long) => {
            job.pending.refuse(answers::too_long(&too_long.to_string()));
            return None;
        }
    };
    let is_running = sources.iter().any(|source| source.is_running);
    let has_begun = job.span.is_none_or(|span| span.from <= utc);
    let is_due_soon = has_begun && window.as_ref().map_or(is_running, Window::is_awaited);
    if is_due_soon && may_wait && !has_waited {
        return Some(job);
    }
    if window.as_ref().is_some_and(|window| playlist::is_cut_up(window, job.object)) {
        let words =
            "Too much is missing in that time for one manifest: ask for a shorter time, or for index.m3u8.";
        job.pending.refuse(answers::too_long(words));
        return None;
    }
    let telling = Telling { utc_timing: &shared.settings.utc_timing, segment: shared.settings.segment };
    // One rendering is for all: the relay puts each viewer's token into the addresses.
    let text = window.as_ref().and_then(|window| playlist::render(window, job.object, "", utc, telling));
    let is_recorded = window.is_some();
    let Some((text, window)) = text.zip(window) else {
        let is_mpeg_ts = job.object == Object::TransportMedia && is_recorded;
        job.pending.refuse(if is_mpeg_ts { answers::no_mpeg_ts() } else { answers::absent() });
        return None;
    };
    // Without a time it is that of the newest recording, which another one may replace at once.
    let keep = if window.is_growing() || job.span.is_none() { GROWING_FOR } else { WHOLE_FOR };
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    let head = Head::new(job.object.media_type())
        .with("ETag", &format!("\"{:016x}\"", hasher.finish()))
        .with("Vary", "Accept-Encoding")
        .with("Cache-Control", &format!("max-age={}", keep.as_secs()));
    job.pending.fill(head, text.into_bytes(), keep);
    None
}

/// Answers a request for an object of a recording that is not known yet.
fn object_of(shared: &Shared, stored: StoredObject, pending: Pending) {
    match catalog::has_recording(shared, &stored) {
        Ok(true) => fetch(stored, pending),
        Ok(false) => pending.refuse(answers::not_found(false)),
        Err(error) => pending.refuse(answers::store_failed(&error)),
    }
}

/// Fetches an object from the store.
pub(super) fn fetch(stored: StoredObject, pending: Pending) {
    use crate::store::StoreErrorKind::NotFound;
    let (path, shared) = (stored.to_string(), Arc::clone(&pending.shared));
    let done = move |result| match result {
        Ok(bytes) => fill_object(&stored, pending, bytes),
        Err(error) => {
            let error: crate::store::StoreError = error;
            if error.kind() == NotFound {
                let was_there = pending.shared.catalog().tells_of(&stored);
                pending.refuse(answers::not_found(was_there));
            } else {
                tracing::warn!(%error, object = %stored, "cannot read a recorded object");
                pending.refuse(answers::store_failed(&error));
            }
        }
    };
    shared.objects.get(&path, Box::new(done));
}

/// The bytes of an object are there: it is given where they are those that were recorded.
fn fill_object(stored: &StoredObject, pending: Pending, bytes: Bytes) {
    let recorded = pending.shared.catalog().checksum(stored);
    if !checked(stored, &bytes, recorded) {
        pending.refuse(answers::damaged());
        return;
    }
    let head = Head::new(stored.object.media_type())
        .with("ETag", &format!("\"{}-{}\"", stored.session, stored.object))
        .with("Cache-Control", &format!("max-age={OBJECT_SECS}, immutable"));
    let keep = if recorded.is_some() { OBJECT_FOR.0 } else { OBJECT_FOR.1 };
    pending.fill(head, bytes.into(), keep);
}

/// Whether these bytes are those of which the index tells the CRC-32C and the length; what it does not tell of is taken as it is.
pub(super) fn checked(stored: &StoredObject, bytes: &[u8], recorded: Option<(u32, u64)>) -> bool {
    let Some((crc, length)) = recorded else { return true };
    let is_whole = length == bytes.len() as u64 && crc == crc32c(bytes);
    if !is_whole {
        tracing::warn!(object = %stored, bytes = bytes.len(), recorded = length, "a recorded object is damaged");
    }
    is_whole
}
