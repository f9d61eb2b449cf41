//! Recordings of a server's streams, as the server has them.

use crate::keeper::{KeepError, Keeper};
use crate::mailbox::{Mailbox, Message};
use crate::recording_thread::{self, LEAVE_WITHIN, RecordingThread};
use crate::settings::RecordSettings;
use crate::status::{Published, Status};
use crate::store::Store;
use crate::tap::Tap;
use bytes::Bytes;
use glassline_delivery::archive::index::Line;
use glassline_delivery::archive::names::{Session, SessionObject};
use glassline_delivery::archive::spool::RecordingStatus;
use glassline_delivery::policy::StreamName;
use glassline_edge::ChunkObserver;
use glassline_media::Utc;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

/// How long a new configuration, or a new process, waits for the disk.
const PATIENCE: Duration = Duration::from_secs(3);

/// How far a recording has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Recording,
    /// It has ended, and the store has not got all of it.
    Uploading,
    /// It is in the store.
    Complete,
    /// The server stopped at once; what it had written is there, and the recording has ended.
    Recovered,
    /// It is in the store as far as it came there; another server may still write it.
    Unfinished,
}

impl State {
    /// As the API has it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Recording => "recording",
            State::Uploading => "uploading",
            State::Complete => "complete",
            State::Recovered => "recovered",
            State::Unfinished => "unfinished",
        }
    }
}

/// A recording, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The stream.
    pub name: StreamName,
    /// The recording.
    pub session: Session,
    /// When its first picture or sound was captured, and when the last one ended.
    pub span: Option<(Utc, Utc)>,
    /// Its bytes.
    pub bytes: u64,
    /// How far it has come.
    pub state: State,
    /// Nothing deletes it.
    pub is_locked: bool,
    /// The codec of its first pictures, as RFC 6381 has it; `None` where it has none.
    pub pictures: Option<String>,
}

/// Records streams. Where nothing is configured, it has threads that sleep.
pub struct Recordings {
    mailbox: Arc<Mailbox>,
    published: Arc<Published>,
    keeper: Arc<Keeper>,
    settings: RwLock<Option<RecordSettings>>,
    next_key: AtomicU64,
    /// Ends with the thread.
    thread: Mutex<Option<mpsc::Receiver<()>>>,
}

impl std::fmt::Debug for Recordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recordings")
    }
}

impl Recordings {
    /// Starts the threads. Whether spool and store can be had shows later, in [`Recordings::status`] and the log: live viewers need
    /// neither.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(settings: Option<RecordSettings>) -> io::Result<Recordings> {
        let (mailbox, published) = (Arc::<Mailbox>::default(), Arc::<Published>::default());
        let keeper = Arc::new(Keeper::start()?);
        let thread =
            recording_thread::start(Arc::clone(&mailbox), Arc::clone(&published), Arc::clone(&keeper))?;
        let recordings = Recordings {
            mailbox,
            published,
            keeper,
            settings: RwLock::new(None),
            next_key: AtomicU64::new(1),
            thread: Mutex::new(Some(thread)),
        };
        recordings.configure(settings);
        Ok(recordings)
    }

    /// Other settings from now on; `None`: nothing is recorded.
    pub fn configure(&self, settings: Option<RecordSettings>) {
        self.settings.write().unwrap_or_else(PoisonError::into_inner).clone_from(&settings);
        self.on_thread(move |thread| thread.configure(settings));
    }

    /// Whether the stream `name` is recorded.
    pub fn is_recorded(&self, name: &StreamName) -> bool {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        settings.as_ref().is_some_and(|settings| settings.has(name))
    }

    /// A recording of the stream `name` begins with the first header that what is returned is told of.
    pub fn begin(&self, name: &StreamName) -> Arc<dyn ChunkObserver> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        Arc::new(Tap::new(name.clone(), key, Arc::clone(&self.mailbox)))
    }

    /// What is known.
    pub fn status(&self) -> Status {
        let mut status = self.published.get();
        status
            .store_errors
            .iter_mut()
            .zip(self.keeper.errors())
            .for_each(|(all, of_keeper)| *all += of_keeper);
        status.is_retention_held = self.keeper.is_held();
        status
    }

    /// The names of all streams of which there is a recording.
    pub fn names(&self) -> BTreeSet<StreamName> {
        let running = self.published.get().recordings.into_iter().map(|recording| recording.name);
        self.keeper.names().into_iter().chain(running).collect()
    }

    /// The recordings of the streams that `is_wanted` names: those that go on, that wait in the spool, and that the store has, the
    /// newest last.
    pub fn list(&self, is_wanted: impl Fn(&StreamName) -> bool) -> Vec<Listed> {
        let known = self.keeper.summaries(&is_wanted).into_iter().map(|((name, session), known)| {
            let (span, bytes, is_locked, pictures) =
                (known.span, known.bytes, known.is_locked, known.pictures);
            let state = match known.ended {
                Some(_) if known.is_recovered => State::Recovered,
                Some(_) => State::Complete,
                None => State::Unfinished,
            };
            ((name.clone(), session), Listed { name, session, span, bytes, state, is_locked, pictures })
        });
        let mut listed: BTreeMap<_, _> = known.collect();
        for status in self.status().recordings.into_iter().filter(|status| is_wanted(&status.name)) {
            let key = (status.name.clone(), status.session);
            let known = listed.remove(&key);
            let is_locked = known.as_ref().is_some_and(|known| known.is_locked);
            let state = match (status.has_ended, status.is_recovered) {
                (false, _) => State::Recording,
                (true, true) => State::Recovered,
                (true, false) => State::Uploading,
            };
            let RecordingStatus { name, session, span, bytes, pictures, .. } = status;
            let pictures = pictures.or_else(|| known?.pictures);
            listed.insert(key, Listed { name, session, span, bytes, state, is_locked, pictures });
        }
        listed.into_values().collect()
    }

    /// Has a recording deleted, which takes a while.
    ///
    /// # Errors
    /// [`KeepError`]: then nothing is deleted.
    pub fn delete(&self, name: StreamName, session: Session) -> Result<(), KeepError> {
        self.keeper.delete(name, session)
    }

    /// Has a recording locked, so that neither its age nor a request deletes it, or unlocked.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn lock(&self, name: StreamName, session: Session, is_locked: bool) -> Result<(), KeepError> {
        self.keeper.lock(name, session, is_locked)
    }

    /// What no part of an index says in the store yet of the recordings of the stream `name`: of each its session, the number of the
    /// part of the index that follows, and lines, tracks first. `done` is called on the thread that records; it is dropped where too
    /// many requests wait for that.
    pub fn unstored_lines(
        &self,
        name: &StreamName,
        done: impl FnOnce(Vec<(Session, u32, Vec<Line>)>) + Send + 'static,
    ) {
        let name = name.clone();
        self.ask_thread(move |thread| {
            done(thread.spool().map(|(spool, log)| spool.lines_of(&name, log)).unwrap_or_default());
        });
    }

    /// The bytes of an object that is in the spool; `None` where it is not. `done` is called on the thread that records; it is dropped
    /// where too many requests wait for that.
    pub fn unstored_object(
        &self,
        name: &StreamName,
        session: Session,
        object: SessionObject,
        done: impl FnOnce(Option<Vec<Bytes>>) + Send + 'static,
    ) {
        let name = name.clone();
        self.ask_thread(move |thread| {
            let found = thread.spool().and_then(|(spool, log)| {
                let id = spool.find(&name, session, object)?;
                spool.read(id, log)
            });
            done(found);
        });
    }

    /// Whether something is configured to be recorded.
    pub fn is_on(&self) -> bool {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Does something with the store that is configured at the moment.
    pub fn with_store(&self, act: impl FnOnce(Option<&Store>) + Send + 'static) {
        act(self.published.store().as_ref());
    }

    #[cfg(test)]
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    fn ask_thread(&self, task: impl FnOnce(&mut RecordingThread) + Send + 'static) {
        self.mailbox.send_request(Box::new(task));
    }

    fn on_thread(&self, task: impl FnOnce(&mut RecordingThread) + Send + 'static) {
        self.mailbox.send(Message::Do(Box::new(task)));
    }

    /// Ends what is recorded and lets go of the spool, for another process; [`Recordings::configure`] takes it back.
    pub fn release(&self) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = None;
        let (sender, done) = mpsc::channel();
        self.on_thread(move |thread| {
            thread.release();
            let _ = sender.send(());
        });
        if done.recv_timeout(PATIENCE).is_err() {
            tracing::warn!("the spool's disk does not answer; the next process records later");
        }
    }

    /// Ends what is recorded, gives the store some seconds to take the rest, and ends the threads. What it does not take then is in the
    /// spool for the next start.
    pub fn end(&self) {
        self.on_thread(RecordingThread::leave);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It sends nothing: its end is told by that of the channel. A disk that does not answer must not keep the process.
            if thread.recv_timeout(LEAVE_WITHIN + PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                tracing::warn!("the spool's disk does not answer; what it has not taken is not recorded");
            }
        }
        self.keeper.end();
    }
}
