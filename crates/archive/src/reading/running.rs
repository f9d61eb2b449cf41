//! What the store has not yet, of the recordings of this server.

use super::catalog::{RunningRecordings, SpooledRead, Unstored};
use super::{Done, Objects};
use crate::recordings::Recordings;
use crate::store::{Listed, Store, StoreError};
use bytes::Bytes;
use glassline_delivery::archive::names::StoredObject;
use glassline_delivery::policy::StreamName;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

/// How long the thread that records is waited for: it may be waiting for the spool's disk.
const PATIENCE: Duration = Duration::from_secs(2);

/// How old what is known of the names of streams may be: a walk over all recordings is made so often, however many ask.
const NAMES_FOR: Duration = Duration::from_millis(500);

/// The recordings of this server, for its readers.
pub struct OwnRecordings {
    recordings: Arc<Recordings>,
    names: RwLock<Names>,
    /// Held by the one that walks over all recordings.
    walk: Mutex<()>,
    /// The thread that records did not answer; it is not waited for until then.
    stuck_until: Arc<Mutex<Option<Instant>>>,
}

#[derive(Default)]
struct Names {
    known: BTreeSet<StreamName>,
    at: Option<Instant>,
}

impl OwnRecordings {
    /// Of these.
    pub fn new(recordings: Arc<Recordings>) -> OwnRecordings {
        OwnRecordings {
            recordings,
            names: RwLock::default(),
            walk: Mutex::default(),
            stuck_until: Arc::default(),
        }
    }
}

/// What the thread that records answers. `None` where it did not, now or a moment ago.
fn answer<T: Send + 'static>(
    stuck_until: &Mutex<Option<Instant>>,
    ask: impl FnOnce(mpsc::SyncSender<T>),
) -> Option<T> {
    let until = || stuck_until.lock().unwrap_or_else(PoisonError::into_inner);
    if until().is_some_and(|until| Instant::now() < until) {
        return None;
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    ask(sender);
    let answer = receiver.recv_timeout(PATIENCE).ok();
    if answer.is_none() {
        *until() = Some(Instant::now() + PATIENCE * 2);
    }
    answer
}

/// The store that recordings go into, whichever is configured at the moment.
pub struct OwnStore {
    recordings: Arc<Recordings>,
    /// Its handle: readers do not wait for the thread that records, which may wait for a disk.
    known: Arc<RwLock<Option<Store>>>,
}

impl OwnStore {
    /// Of these.
    pub fn new(recordings: Arc<Recordings>) -> OwnStore {
        OwnStore { recordings, known: Arc::default() }
    }

    fn with<T: Send + 'static>(&self, done: Done<T>, ask: impl FnOnce(&Store, Done<T>) + Send + 'static) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(store) = known {
            ask(&store, done);
            return;
        }
        let known = Arc::clone(&self.known);
        self.recordings.with_store(move |store| match store {
            Some(store) => {
                *known.write().unwrap_or_else(PoisonError::into_inner) = Some(store.clone());
                ask(store, done);
            }
            None => done(Err(StoreError::not_configured())),
        });
    }
}

impl Objects for OwnStore {
    fn get(&self, path: &str, done: Done<Bytes>) {
        let path = path.to_owned();
        self.with(done, move |store, done| Objects::get(store, &path, done));
    }

    fn list(&self, folder: &str, limit: usize, done: Done<Vec<Listed>>) {
        let folder = folder.to_owned();
        self.with(done, move |store, done| Objects::list(store, &folder, limit, done));
    }

    fn folders(&self, folder: &str, done: Done<Vec<String>>) {
        let folder = folder.to_owned();
        self.with(done, move |store, done| Objects::folders(store, &folder, done));
    }

    fn put(&self, path: &str, bytes: Bytes, done: Done<()>) {
        let path = path.to_owned();
        self.with(done, move |store, done| Objects::put(store, &path, bytes, done));
    }

    fn delete(&self, path: &str) {
        let path = path.to_owned();
        // Whether there is a store is asked; the answer of the deletion itself is not waited for.
        self.with(Box::new(|_| {}), move |store, done| {
            Objects::delete(store, &path);
            done(Ok(()));
        });
    }

    fn renew(&self) {
        // Behind what was told before it: a request that is on its way there may still leave the former one here.
        let known = Arc::clone(&self.known);
        let forget = move || *known.write().unwrap_or_else(PoisonError::into_inner) = None;
        forget();
        self.recordings.with_store(move |_| forget());
    }
}

impl RunningRecordings for OwnRecordings {
    fn is_on(&self) -> bool {
        self.recordings.is_on()
    }

    fn has(&self, name: &StreamName) -> bool {
        let is_fresh = |names: &Names| names.at.is_some_and(|at| at.elapsed() < NAMES_FOR);
        {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            if is_fresh(&names) {
                return names.known.contains(name);
            }
        }
        // One walks, and the others take what was known.
        if let Ok(_walk) = self.walk.try_lock() {
            // Those of the store too, as far as they are known here: it may have just got one.
            let known = self.recordings.names();
            let names = Names { known, at: Some(Instant::now()) };
            *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        }
        self.names.read().unwrap_or_else(PoisonError::into_inner).known.contains(name)
    }

    fn unstored(&self, name: &StreamName) -> Vec<Unstored> {
        let answer = answer(&self.stuck_until, |sender| {
            self.recordings.unstored_lines(name, move |lines| {
                let _ = sender.send(lines);
            });
        });
        let known: Vec<_> = self
            .recordings
            .status()
            .recordings
            .into_iter()
            .filter(|recording| recording.name == *name)
            .collect();
        let is_running = |session| known.iter().any(|it| it.session == session && !it.has_ended);
        match answer {
            Some(unstored) => unstored
                .into_iter()
                .map(|(session, part, lines)| Unstored {
                    session,
                    part,
                    lines,
                    is_running: is_running(session),
                })
                .collect(),
            // The spool's disk does not answer: what goes on is not over for that.
            None => known
                .iter()
                .map(|it| Unstored {
                    session: it.session,
                    part: 0,
                    lines: Vec::new(),
                    is_running: !it.has_ended,
                })
                .collect(),
        }
    }

    fn spooled(&self, object: &StoredObject) -> Option<SpooledRead> {
        let recordings = self.recordings.status().recordings;
        let is_here = |it: &glassline_delivery::archive::spool::RecordingStatus| {
            it.name == object.name && it.session == object.session
        };
        if !recordings.iter().any(is_here) {
            return None;
        }
        let (recordings, object) = (Arc::clone(&self.recordings), object.clone());
        let stuck_until = Arc::clone(&self.stuck_until);
        Some(Box::new(move || {
            let found = answer(&stuck_until, |sender| {
                recordings.unstored_object(&object.name, object.session, object.object, move |found| {
                    let _ = sender.send(found);
                });
            });
            let found = found.flatten();
            found
                .map(|pieces| pieces.concat().into())
                .ok_or_else(|| io::Error::other("it is not in the spool"))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_did_not_answer_is_not_waited_for_again() {
        let stuck_until = Mutex::new(None);
        let mut kept = Vec::new();
        let mut ask = || answer::<()>(&stuck_until, |sender| kept.push(sender));
        assert_eq!(ask(), None);
        let before = Instant::now();
        (0..100).for_each(|_| assert_eq!(ask(), None));
        assert!(before.elapsed() < PATIENCE, "not once a request");
        assert_eq!(kept.len(), 1);
        *stuck_until.lock().unwrap() = Some(Instant::now());
        assert_eq!(answer(&stuck_until, |sender| sender.send(7).unwrap()), Some(7));
    }
}
