//! Encoders that publish to a relay in this process, and begin again when they fail.
//!
//! ```text
//!          ┌────────────── again after a growing pause ──────────────┐
//!          ▼                                                         │
//!   Starting ── input and encoder are open, the name is ours ──► Running ── failed, or the input has ended
//! ```
//! Each has a thread that sees to it. One that fails is told in the log and in its status, and tried again; nothing else is
//! touched by it.

use super::control::{Change, Controls, Status};
use super::encoding::{Encoding, Stopper};
use super::{ControlError, Error, Request, Result};
use crate::output::{Output, RelayOutput};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_streams::Streams;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that has run for this long is begun again soon.
const GOOD_RUN: Duration = Duration::from_secs(30);
/// How long an encoder that was told to end may take: its input may hang in a read that nothing ends.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// What an encoder does.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderRequest {
    /// What is encoded, and how.
    pub request: Request,
    /// The input as it was named, for people.
    pub input: String,
    /// What it publishes: one stream, or one for each rendition.
    pub streams: Vec<StreamName>,
}

/// Puts an error in words for people, with what to do about it.
pub type Explain = fn(Error) -> String;

/// All encoders of the process, each by a name of its own. Shared by the code that starts and stops them and the code that
/// queries them.
pub struct Supervisor {
    encoders: Mutex<BTreeMap<StreamName, Arc<Encoder>>>,
    explain: Explain,
}

/// Why an encoder cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotControlled {
    /// No encoder in this process makes the stream.
    NotBuiltIn,
    /// One does, but it does not run now; why, where that is known.
    NotRunning(Option<String>),
    /// It does not do what was asked.
    Refused(ControlError),
}

/// How an encoder does, for one of its streams.
#[derive(Clone, Debug, Serialize)]
pub struct EncoderStatus {
    /// The stream's.
    pub name: String,
    /// The encoder's.
    pub section: String,
    /// Its input, as it was named.
    pub input: String,
    /// `starting`, `running`, `waiting`.
    pub state: &'static str,
    /// Why it does not run.
    pub error: Option<String>,
    /// Until it is tried again.
    pub retry_in_ms: Option<f64>,
    /// Times that it was begun again.
    pub restarts: u64,
    /// What it says of itself while it runs.
    pub running: Option<Status>,
}

struct Encoder {
    name: StreamName,
    explain: Explain,
    wanted: Mutex<EncoderRequest>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopping: bool,
    over: bool,
    phase: Phase,
    error: Option<String>,
    restarts: u64,
    /// What was asked for while it ran, of which stream, and holds until its request changes.
    changes: BTreeMap<usize, Vec<Change>>,
}

impl State {
    /// Keeps a change of stream `index`, in place of an earlier one of its kind.
    fn keep(&mut self, index: usize, change: &Change) {
        let changes = self.changes.entry(index).or_default();
        changes.retain(|known| std::mem::discriminant(known) != std::mem::discriminant(change));
        changes.push(change.clone());
    }
}

#[derive(Default)]
enum Phase {
    #[default]
    Starting,
    Running(Stopper, Controls),
    Waiting(Instant),
}

impl Supervisor {
    /// Has no encoders yet. `explain` puts their errors in words.
    #[must_use]
    pub fn new(explain: Explain) -> Supervisor {
        Supervisor { encoders: Mutex::default(), explain }
    }

    /// Has these encoders and no others: those that are as they were go on, where only the bit rate differs it is changed as
    /// they run, the others end and begin.
    pub fn arrange(&self, streams: &Arc<Streams>, wanted: &BTreeMap<StreamName, EncoderRequest>) {
        let mut encoders = self.lock();
        let mut ending = Vec::new();
        encoders.retain(|name, encoder| {
            let stays = wanted.get(name).is_some_and(|request| encoder.adopt(request));
            if !stays {
                encoder.stop();
                ending.push(Arc::clone(encoder));
            }
            stays
        });
        // A device has to be free before another encoder opens it.
        ending.iter().for_each(|encoder| encoder.wait_for_end());
        for (name, request) in wanted {
            if !encoders.contains_key(name) {
                let encoder = Encoder::start(streams, name, request.clone(), self.explain);
                encoders.insert(name.clone(), encoder);
            }
        }
    }

    /// Ends all of them.
    pub fn end(&self) {
        let ending = std::mem::take(&mut *self.lock());
        ending.values().for_each(|encoder| encoder.stop());
        ending.values().for_each(|encoder| encoder.wait_for_end());
    }

    /// How all do.
    #[must_use]
    pub fn statuses(&self) -> Vec<EncoderStatus> {
        self.lock().values().flat_map(|encoder| encoder.status()).collect()
    }

    /// Has the next picture of the stream, and of all renditions beside it, coded as a key frame.
    ///
    /// # Errors
    /// Where no encoder makes it now.
    pub fn request_key_frame(&self, name: &StreamName) -> Result<(), NotControlled> {
        let (encoder, _) = self.find(name)?;
        encoder.controls()?.request_key_frame();
        Ok(())
    }

    /// Makes a change to the stream while its encoder runs; it holds until its request changes.
    ///
    /// # Errors
    /// Where no encoder makes it now, or not so.
    pub fn change(&self, name: &StreamName, change: &Change) -> Result<(), NotControlled> {
        let (encoder, index) = self.find(name)?;
        let controls = encoder.controls()?;
        controls.change(index, change).map_err(NotControlled::Refused)?;
        encoder.lock().keep(index, change);
        Ok(())
    }

    /// The encoder that makes the stream, and which of its streams that is.
    fn find(&self, name: &StreamName) -> Result<(Arc<Encoder>, usize), NotControlled> {
        let encoders = self.lock();
        let place = |encoder: &Arc<Encoder>| {
            let index = encoder.request().streams.iter().position(|stream| stream == name)?;
            Some((Arc::clone(encoder), index))
        };
        encoders.values().find_map(place).ok_or(NotControlled::NotBuiltIn)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, Arc<Encoder>>> {
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoder {
    fn start(
        streams: &Arc<Streams>,
        name: &StreamName,
        wanted: EncoderRequest,
        explain: Explain,
    ) -> Arc<Encoder> {
        let encoder = Arc::new(Encoder {
            name: name.clone(),
            explain,
            wanted: Mutex::new(wanted),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (own, streams) = (Arc::clone(&encoder), Arc::clone(streams));
        let started = thread::Builder::new().name("encoder".into()).spawn(move || own.live(&streams));
        if let Err(error) = started {
            tracing::error!(stream = %name, "no thread for its encoder: {error}");
            let mut state = encoder.lock();
            (state.over, state.error) = (true, Some(error.to_string()));
            drop(state);
        }
        encoder
    }

    /// Goes on as `wanted` says, if it can without beginning anew.
    fn adopt(&self, wanted: &EncoderRequest) -> bool {
        let mut own = self.request();
        if *own == *wanted {
            return true;
        }
        // Where two renditions are alike but for their bit rates, these are in the streams' names.
        if own.request.without_bitrates() != wanted.request.without_bitrates()
            || (&own.input, &own.streams) != (&wanted.input, &wanted.streams)
        {
            return false;
        }
        *own = wanted.clone();
        drop(own);
        let mut state = self.lock();
        // The request has bit rates of its own; what else was asked for goes on.
        state.changes.values_mut().for_each(|changes| {
            changes.retain(|change| !matches!(change, Change::Bitrate(_)));
        });
        match &state.phase {
            Phase::Running(_, controls) => {
                let mut bitrates = wanted.request.bitrates().into_iter().enumerate();
                bitrates.all(|(index, bitrate)| controls.set_bitrate(index, bitrate).is_ok())
            }
            // The next attempt reads the request.
            Phase::Starting => false,
            Phase::Waiting(_) => true,
        }
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        if let Phase::Running(stopper, _) = &state.phase {
            stopper.stop();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn wait_for_end(&self) {
        let deadline = Instant::now() + END_TIMEOUT;
        let mut state = self.lock();
        while !state.over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!(stream = %self.name, "its encoder hangs in its input and is left behind");
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The thread: encodes until told to stop.
    fn live(&self, streams: &Arc<Streams>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let ended = contain(Border::Encoder, || self.encode(streams));
            let ended = ended.unwrap_or_else(|panicked| Err(panicked.into()));
            let mut state = self.lock();
            if state.stopping {
                break;
            }
            if begun.elapsed() >= GOOD_RUN {
                pause = FIRST_PAUSE;
            }
            let seconds = pause.as_secs();
            let why = match ended {
                Ok(()) => "the input has ended".to_owned(),
                Err(error) => (self.explain)(error),
            };
            tracing::error!(stream = %self.name, "its encoder does not run: {why}; trying again in {seconds} s");
            state.error = Some(why);
            state.restarts += 1;
            let deadline = Instant::now() + pause;
            state.phase = Phase::Waiting(deadline);
            while !state.stopping {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.stopping {
                break;
            }
            state.phase = Phase::Starting;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let mut state = self.lock();
        state.over = true;
        state.phase = Phase::Starting;
        drop(state);
        self.changed.notify_all();
    }

    /// Opens the input and encodes until it ends, fails or is told to stop.
    fn encode(&self, streams: &Arc<Streams>) -> Result<()> {
        let EncoderRequest { request, streams: names, .. } = self.request().clone();
        // The names are acquired when all else is there: until then another publisher keeps the one that it has.
        let encoding = Encoding::open(&request, Clock::new())?;
        for (&index, changes) in &self.lock().changes {
            for change in changes {
                if let Err(error) = encoding.controls().change(index, change) {
                    tracing::warn!(stream = %self.name, "what was asked for before does not hold any more: {error}");
                }
            }
        }
        if self.lock().stopping {
            return Ok(());
        }
        let mut outputs: Vec<Box<dyn Output>> = Vec::new();
        for name in &names {
            let acquired = streams.publish(name, Mux::MpegTs);
            let publisher = acquired.map_err(|error| Error::Publish { stream: name.clone(), error })?;
            outputs.push(Box::new(RelayOutput::new(publisher)));
        }
        {
            let mut state = self.lock();
            if state.stopping {
                return Ok(());
            }
            state.phase = Phase::Running(encoding.stopper(), encoding.controls());
            state.error = None;
        }
        tracing::info!(stream = %self.name, "its encoder runs");
        encoding.run(outputs).result
    }

    fn controls(&self) -> Result<Controls, NotControlled> {
        let state = self.lock();
        match &state.phase {
            Phase::Running(_, controls) => Ok(controls.clone()),
            Phase::Starting | Phase::Waiting(_) => Err(NotControlled::NotRunning(state.error.clone())),
        }
    }

    fn status(&self) -> Vec<EncoderStatus> {
        let EncoderRequest { input, streams, .. } = self.request().clone();
        let state = self.lock();
        let (name, retry, running) = match &state.phase {
            Phase::Starting => ("starting", None, Vec::new()),
            Phase::Running(_, controls) => ("running", None, controls.status()),
            Phase::Waiting(until) => {
                let left = until.saturating_duration_since(Instant::now());
                ("waiting", Some(left.as_secs_f64() * 1e3), Vec::new())
            }
        };
        let status = |(index, stream): (usize, &StreamName)| EncoderStatus {
            name: stream.to_string(),
            section: self.name.to_string(),
            input: input.clone(),
            state: name,
            error: state.error.clone(),
            retry_in_ms: retry,
            restarts: state.restarts,
            running: running.get(index).cloned(),
        };
        streams.iter().enumerate().map(status).collect()
    }

    fn request(&self) -> MutexGuard<'_, EncoderRequest> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(feature = "x264")]
#[path = "supervisor_tests.rs"]
mod tests;
