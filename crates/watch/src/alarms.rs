//! The alarms of all streams of a server, for its log, API and metrics.

use crate::entry::Entry;
use crate::feed::Counts;
use crate::mutes::{Mute, Mutes};
use crate::pictures::{Jpeg, Pictures};
use glassline_delivery::watch::{Alarm, AlarmEvent, Raised, State};
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The longest mute.
pub const MUTE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Events that are kept.
const RECENT_MAX: usize = 200;
/// Streams and alarms that are counted; more are not.
const COUNTED_MAX: usize = 16_384;

/// What `GET /api/alarms` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The alarms that are there, as they began.
    pub active: Vec<Entry>,
    /// What has begun or was over lately, newest first.
    pub recent: Vec<Entry>,
    /// Alarms that are muted.
    pub muted: Vec<Mute>,
    /// The streams that are watched: of others no alarm comes.
    pub watched: Vec<String>,
}

/// The figures of one stream and alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The stream.
    pub stream: String,
    /// The alarm.
    pub alarm: Alarm,
    /// Whether it is there.
    pub is_active: bool,
    /// How often it has begun.
    pub begun: u64,
}

#[derive(Debug, Default)]
struct Known {
    active: BTreeMap<(String, Alarm), Entry>,
    recent: VecDeque<Entry>,
    begun: BTreeMap<(String, Alarm), u64>,
    counts: BTreeMap<String, Counts>,
    pictures: Pictures,
    mutes: Mutes,
}

/// What else is told of each event. Called by the thread that watches: it has to return at once.
pub type Listener = Box<dyn Fn(&Entry, Utc) + Send + Sync>;

/// Written by the thread that watches, read by those that answer.
#[derive(Default)]
pub struct Alarms(Mutex<Known>, OnceLock<Listener>);

impl std::fmt::Debug for Alarms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Alarms").field(&self.0).finish()
    }
}

impl Alarms {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Tables are whole after every single change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `listener` told of each event from now on. Only the first one is.
    pub fn listen(&self, listener: Listener) {
        let _ = self.1.set(listener);
    }

    /// An alarm of `stream` has begun, with this picture, or is over; the log is told.
    pub(crate) fn push(&self, stream: &str, raised: &Raised, utc: Utc, picture: Option<Arc<[u8]>>) {
        let now = Clock.now();
        let event = AlarmEvent::new(stream, raised, utc);
        let picture = picture.map(|bytes| Jpeg::of_alarm(bytes, stream, raised.alarm, utc));
        let id = picture.as_ref().map(|picture| picture.id.clone());
        let mut state = self.lock();
        // Under the same lock as the question below: what a mute has kept back goes before what is told now.
        let owed = state.mutes.settle(now);
        // Before anything is told of it.
        picture.into_iter().for_each(|picture| state.pictures.push(picture));
        let muted = state.mutes.is_muted(stream, raised.alarm, now);
        let entry = Entry { event, unit: raised.alarm.unit(), picture: id, muted };
        let key = (stream.to_owned(), raised.alarm);
        match raised.state {
            State::Begun => {
                if state.begun.len() < COUNTED_MAX || state.begun.contains_key(&key) {
                    *state.begun.entry(key.clone()).or_default() += 1;
                }
                state.active.insert(key, entry.clone());
            }
            State::Over => drop(state.active.remove(&key)),
        }
        state.recent.push_front(entry.clone());
        state.recent.truncate(RECENT_MAX);
        if muted {
            state.mutes.hold(raised.alarm, entry.clone(), utc);
        }
        drop(state);
        self.tell_owed(owed);
        entry.log();
        if !muted {
            self.notify(&entry, utc);
        }
    }

    fn notify(&self, entry: &Entry, utc: Utc) {
        if let Some(listener) = self.1.get() {
            listener(entry, utc);
        }
    }

    /// Mutes `alarm` of `stream` (`None`: all of its alarms) from now on for `time`, at most [`MUTE_MAX`]; without time an earlier mute
    /// ends. Says whether there is such a stream: one that is watched.
    pub fn mute(&self, stream: &str, alarm: Option<Alarm>, time: Duration) -> bool {
        let time = time.min(MUTE_MAX);
        let until = Utc::from_nanos(Clock.utc().as_nanos().saturating_add(time.as_nanos() as u64));
        let mut state = self.lock();
        let is_watched = state.counts.contains_key(stream);
        if is_watched {
            state.mutes.set(stream, alarm, (Clock.now() + time, until));
        }
        is_watched
    }

    /// Ends the mutes that are over, and tells of what they have kept from being told.
    pub(crate) fn settle(&self, now: Time) {
        let due = self.lock().mutes.settle(now);
        self.tell_owed(due);
    }

    fn tell_owed(&self, due: Vec<(Entry, Utc)>) {
        for (entry, utc) in due {
            let entry = Entry { muted: false, ..entry };
            // The log knows its end already.
            if entry.event.state == State::Begun {
                entry.log();
            }
            self.notify(&entry, utc);
        }
    }

    /// What was done for `stream`.
    pub(crate) fn count(&self, stream: &str, counts: Counts) {
        let mut state = self.lock();
        match state.counts.get_mut(stream) {
            Some(known) => *known = counts,
            None => drop(state.counts.insert(stream.to_owned(), counts)),
        }
    }

    /// `stream` has another newest picture, or none.
    pub(crate) fn set_picture(&self, stream: &str, picture: Option<Jpeg>) {
        self.lock().pictures.set_newest(stream, picture);
    }

    /// The newest picture of `stream`.
    pub fn picture(&self, stream: &str) -> Option<Jpeg> {
        self.lock().pictures.newest(stream).cloned()
    }

    /// What tells the newest picture of `stream` from others.
    pub fn picture_id(&self, stream: &str) -> Option<String> {
        self.lock().pictures.newest(stream).map(|picture| picture.id.clone())
    }

    /// The picture of an alarm's beginning: one of the last 64.
    pub fn picture_of_alarm(&self, id: &str) -> Option<Jpeg> {
        self.lock().pictures.of_alarm(id).cloned()
    }

    /// `stream` is no longer watched.
    pub(crate) fn forget(&self, stream: &str) {
        let mut state = self.lock();
        let due = state.mutes.forget(stream);
        state.pictures.set_newest(stream, None);
        state.counts.remove(stream);
        state.begun.retain(|(name, _), _| name != stream);
        drop(state);
        self.tell_owed(due);
    }

    /// All that is known.
    pub fn report(&self) -> Report {
        let state = self.lock();
        let now = Clock.now();
        let entry = |known: &Entry| {
            let picture = known.picture.clone().filter(|id| state.pictures.of_alarm(id).is_some());
            Entry { picture, ..known.clone() }
        };
        let active = |((stream, alarm), known): (&(String, Alarm), &Entry)| {
            let muted = state.mutes.is_muted(stream, *alarm, now);
            Entry { muted, ..entry(known) }
        };
        Report {
            active: state.active.iter().map(active).collect(),
            recent: state.recent.iter().map(entry).collect(),
            muted: state.mutes.list(now),
            watched: state.counts.keys().cloned().collect(),
        }
    }

    /// The figures of the alarms that have been there, of streams that are watched.
    pub fn figures(&self) -> Vec<Figure> {
        let state = self.lock();
        let figure = |(key, &begun): (&(String, Alarm), &u64)| Figure {
            stream: key.0.clone(),
            alarm: key.1,
            is_active: state.active.contains_key(key),
            begun,
        };
        state.begun.iter().map(figure).collect()
    }

    /// What is done for each stream that is watched.
    pub fn counts(&self) -> Vec<(String, Counts)> {
        self.lock().counts.iter().map(|(stream, counts)| (stream.clone(), *counts)).collect()
    }
}
