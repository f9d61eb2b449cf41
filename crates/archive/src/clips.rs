//! Clips: short exports of recordings, made in memory for those that ask a running server for them.
//!
//! ```text
//! POST ─► Clips::order ─► thread "clips", one at a time ─► export_to_memory, still_at ─► kept for ten minutes ◄─ GET ─ Clips::find
//! ```
//! A worker that orders or finds one never waits. All of them together, made and being made, take [`CLIPS_MAX_BYTES`] at most, and the
//! oldest goes for a new one.

use crate::export::{ExportFailure, ExportRequest, export_to_memory};
use crate::reading::Archive;
use bytes::Bytes;
use glassline_delivery::archive::export::{Container, Report};
use glassline_delivery::archive::query::Span;
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest clip.
pub const CLIP_MAX: Duration = Duration::from_secs(300);
/// The largest one.
pub const CLIP_MAX_BYTES: u64 = 64 << 20;
/// What all of them take of memory at most, the one that is made among them. Tables of samples and what has come of the store and is
/// not in the clip yet are beside it, as is a clip that is being read while it goes.
pub const CLIPS_MAX_BYTES: u64 = 160 << 20;
/// What the one that is being made may take: its segments have a little less than their boxes.
const MADE_BYTES: u64 = CLIP_MAX_BYTES + CLIP_MAX_BYTES / 4;
/// Clips that wait to be made.
const WAITING_MAX: usize = 4;
/// Clips and failures that are known at once.
const KNOWN_MAX: usize = 32;
/// How long they are.
pub const KEPT_FOR: Duration = Duration::from_secs(600);
/// How often it is looked for those that have been kept long enough.
const SWEEP_EVERY: Duration = Duration::from_secs(20);

/// A clip.
#[derive(Clone, Debug)]
pub struct Clip {
    /// The MP4.
    pub bytes: Bytes,
    /// What is in it.
    pub report: Arc<Report>,
    /// Its first picture, small, as JPEG; `None` where that is not decoded here.
    pub poster: Option<Bytes>,
}

/// What became of one that was ordered.
#[derive(Clone, Debug)]
pub enum ClipState {
    /// It waits, or is being made.
    Making,
    /// It is there.
    Done(Clip),
    /// There is none, for this reason.
    Failed(Arc<ExportFailure>),
}

/// Why none is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// So many are waiting that no other one is taken.
    #[error("other clips are waiting to be made")]
    Occupied,
    /// Its time has no end, or is longer than [`CLIP_MAX`].
    #[error("a clip has five minutes at most")]
    TooLong,
}

/// See the module.
pub struct Clips {
    jobs: SyncSender<Job>,
    kept: Arc<Mutex<Kept>>,
    clock: Clock,
}

struct Job {
    id: u64,
    name: StreamName,
    span: Span,
}

#[derive(Default)]
struct Kept {
    /// The number of the next one.
    next: u64,
    known: BTreeMap<u64, Known>,
}

struct Known {
    name: StreamName,
    since: Time,
    state: ClipState,
}

impl Known {
    fn bytes(&self) -> u64 {
        match &self.state {
            ClipState::Done(clip) => clip.bytes.len() as u64,
            ClipState::Making | ClipState::Failed(_) => 0,
        }
    }
}

impl Kept {
    fn sweep(&mut self, now: Time) {
        self.known
            .retain(|_, known| matches!(known.state, ClipState::Making) || now.since(known.since) < KEPT_FOR);
    }

    /// Lets go of failures and then of the oldest that are done, so that those which stay have `most` bytes together, and one more is
    /// known.
    fn make_room(&mut self, most: u64) {
        loop {
            let bytes: u64 = self.known.values().map(Known::bytes).sum();
            if bytes <= most && self.known.len() < KNOWN_MAX {
                return;
            }
            let is_failed = |known: &Known| matches!(known.state, ClipState::Failed(_));
            let is_done = |known: &Known| matches!(known.state, ClipState::Done(_));
            // Those that take memory go where it is memory that is lacking.
            let failed = self.known.iter().find(|(_, known)| bytes <= most && is_failed(known));
            let oldest = failed.or_else(|| self.known.iter().find(|(_, known)| is_done(known)));
            let oldest = oldest.map(|(id, _)| *id);
            let Some(oldest) = oldest else { return };
            self.known.remove(&oldest);
        }
    }
}

fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    // Whole after each change.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clips {
    /// Starts the thread that makes them.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(archive: Arc<Archive>, clock: Clock) -> io::Result<Clips> {
        let (jobs, receiver) = sync_channel(WAITING_MAX);
        let kept = Arc::new(Mutex::new(Kept::default()));
        let made = Arc::clone(&kept);
        let run = move || make_all(&archive, &receiver, &made, clock);
        std::thread::Builder::new().name("clips".into()).spawn(run)?;
        Ok(Clips { jobs, kept, clock })
    }

    /// Has a clip made of what was recorded of `name` in `span`. Returns its number.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn order(&self, name: &StreamName, span: Span) -> Result<u64, Refused> {
        let lasts = span.to.and_then(|to| to.as_nanos().checked_sub(span.from.as_nanos()));
        if lasts.is_none_or(|nanos| u128::from(nanos) > CLIP_MAX.as_nanos()) {
            return Err(Refused::TooLong);
        }
        let mut kept = locked(&self.kept);
        kept.sweep(self.clock.now());
        kept.make_room(u64::MAX);
        let id = kept.next;
        // Under the lock, so that it is known before it is made.
        self.jobs.try_send(Job { id, name: name.clone(), span }).map_err(|_| Refused::Occupied)?;
        kept.next = id.wrapping_add(1);
        let known = Known { name: name.clone(), since: self.clock.now(), state: ClipState::Making };
        kept.known.insert(id, known);
        Ok(id)
    }

    /// What became of a stream's clip; `None` where it is not known, or no longer.
    pub fn find(&self, name: &StreamName, id: u64) -> Option<ClipState> {
        let mut kept = locked(&self.kept);
        kept.sweep(self.clock.now());
        kept.known.get(&id).filter(|known| known.name == *name).map(|known| known.state.clone())
    }

    /// Lets go of all clips of a stream.
    pub fn forget(&self, name: &StreamName) {
        locked(&self.kept).known.retain(|_, known| known.name != *name);
    }
}

impl fmt::Debug for Clips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clips").field(&locked(&self.kept).known.len()).finish()
    }
}

/// Makes one after the other, until the other end has gone.
fn make_all(archive: &Archive, jobs: &Receiver<Job>, kept: &Mutex<Kept>, clock: Clock) {
    loop {
        let Job { id, name, span } = match jobs.recv_timeout(SWEEP_EVERY) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => {
                locked(kept).sweep(clock.now());
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        locked(kept).make_room(CLIPS_MAX_BYTES - MADE_BYTES);
        // What is no longer known was let go of meanwhile.
        let is_wanted = || locked(kept).known.contains_key(&id);
        let request = ExportRequest { name: name.clone(), span: Some(span), container: Container::Mp4 };
        let made =
            contain(Border::Output, || export_to_memory(archive, &request, CLIP_MAX_BYTES, |_| is_wanted()));
        let state = match made {
            Ok(Ok((bytes, report))) => {
                // Without one it is a clip all the same.
                let poster = contain(Border::Output, || archive.still_at(&name, report.from));
                let poster = poster.ok().flatten();
                tracing::info!(stream = %name, id, bytes = bytes.len(), "a clip was made");
                ClipState::Done(Clip { bytes, report: Arc::new(report), poster })
            }
            Ok(Err(error)) => {
                tracing::warn!(stream = %name, id, %error, "a clip could not be made");
                ClipState::Failed(Arc::new(error))
            }
            Err(_) => ClipState::Failed(Arc::new(ExportFailure::Stopped)),
        };
        let mut kept = locked(kept);
        if let Some(known) = kept.known.get_mut(&id) {
            (known.since, known.state) = (clock.now(), state);
        }
    }
}

#[cfg(test)]
#[path = "clips_tests.rs"]
mod tests;
