//! Encoders inside: one for each `[encode.NAME]` section and for the demo, publishing under their names, or each rendition
//! under a name of its own.
//!
//! ```text
//!          ┌────────────── again after a growing pause ──────────────┐
//!          ▼                                                         │
//!   Starting ── input and encoder are open, the name is ours ──► Running ── failed, or the input has ended
//! ```
//! Each has a thread that sees to it. One that fails is told in the log, in `/api/encoders` and in the metrics, and tried
//! again; nothing else is touched by it.

use crate::config;
use crate::encode::{self, Controls, Job, Publish};
use anyhow::{Context, Result};
use glassline_delivery::policy::StreamName;
use glassline_engine::relay::Hub;
use glassline_media::quantity::Bitrate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that has run for this long is begun again soon.
const GOOD_RUN: Duration = Duration::from_secs(30);
/// How long an encoder that is to end may take: its input may hang in a read that nothing ends.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// All encoders of the process, by their sections' names. Shared by the service, which arranges them, and the site, which
/// asks them.
#[derive(Default)]
pub(super) struct Encoders(Mutex<BTreeMap<StreamName, Arc<Encoder>>>);

/// Why an encoder cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// The stream is not made in this process.
    NotInside,
    /// It is, but the encoder does not run now; why, where that is known.
    NotRunning(Option<String>),
    /// It does not do what was asked.
    Refused(String),
}

/// `GET /api/encoders`.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) encoders: Vec<Status>,
}

/// How an encoder does, for one of its streams.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Status {
    /// The stream's.
    pub(super) name: String,
    /// The section's.
    pub(super) section: String,
    pub(super) input: String,
    /// `starting`, `running`, `waiting`.
    pub(super) state: &'static str,
    /// Why it does not run.
    pub(super) error: Option<String>,
    pub(super) retry_in_ms: Option<f64>,
    /// Times that it was begun again.
    pub(super) restarts: u64,
    /// What it says of itself while it runs.
    pub(super) running: Option<encode::Status>,
}

struct Encoder {
    name: StreamName,
    /// What it publishes: one stream, or one for each rendition.
    streams: Vec<StreamName>,
    section: Mutex<config::Encode>,
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
    /// What was asked for while it ran, of which stream, and holds until the section changes.
    bitrates: BTreeMap<usize, Bitrate>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Starting,
    Running(encode::Stopper, Controls),
    Waiting(Instant),
}

impl Encoders {
    /// Has these encoders and no others: those that are as they were go on, where only the bit rate differs it is changed as
    /// they run, the others end and begin.
    pub(super) fn arrange(&self, hub: &Arc<Hub>, wanted: &BTreeMap<StreamName, config::Encode>) {
        let mut encoders = self.lock();
        let mut ending = Vec::new();
        encoders.retain(|name, encoder| {
            let stays = wanted.get(name).is_some_and(|section| encoder.adopt(section));
            if !stays {
                encoder.stop();
                ending.push(Arc::clone(encoder));
            }
            stays
        });
        // A device has to be free before another encoder opens it.
        ending.iter().for_each(|encoder| encoder.wait_for_end());
        for (name, section) in wanted {
            if !encoders.contains_key(name) {
                encoders.insert(name.clone(), Encoder::start(hub, name, section));
            }
        }
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        let ending = std::mem::take(&mut *self.lock());
        ending.values().for_each(|encoder| encoder.stop());
        ending.values().for_each(|encoder| encoder.wait_for_end());
    }

    /// How all do.
    pub(super) fn report(&self) -> Report {
        Report { encoders: self.lock().values().flat_map(|encoder| encoder.status()).collect() }
    }

    /// Has the next picture of the stream, and of all renditions beside it, coded as a key frame.
    pub(super) fn request_key_frame(&self, name: &StreamName) -> Result<(), Unasked> {
        let (encoder, _) = self.find(name)?;
        encoder.controls()?.request_key_frame();
        Ok(())
    }

    /// Changes the stream's bit rate, without a key frame; it holds until its section changes.
    pub(super) fn set_bitrate(&self, name: &StreamName, bitrate: Bitrate) -> Result<(), Unasked> {
        let (encoder, index) = self.find(name)?;
        let controls = encoder.controls()?;
        controls.set_bitrate(index, bitrate).map_err(|error| Unasked::Refused(error.to_string()))?;
        encoder.lock().bitrates.insert(index, bitrate);
        Ok(())
    }

    /// The encoder that makes the stream, and which of its streams that is.
    fn find(&self, name: &StreamName) -> Result<(Arc<Encoder>, usize), Unasked> {
        let encoders = self.lock();
        let place = |encoder: &Arc<Encoder>| {
            let index = encoder.streams.iter().position(|stream| stream == name)?;
            Some((Arc::clone(encoder), index))
        };
        encoders.values().find_map(place).ok_or(Unasked::NotInside)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, Arc<Encoder>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoder {
    fn start(hub: &Arc<Hub>, name: &StreamName, section: &config::Encode) -> Arc<Encoder> {
        let encoder = Arc::new(Encoder {
            name: name.clone(),
            streams: streams(name, section),
            section: Mutex::new(section.clone()),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (own, hub) = (Arc::clone(&encoder), Arc::clone(hub));
        let started = thread::Builder::new().name("encoder".into()).spawn(move || own.live(&hub));
        if let Err(error) = started {
            tracing::error!(stream = %name, "no thread for its encoder: {error}");
            let mut state = encoder.lock();
            (state.over, state.error) = (true, Some(error.to_string()));
            drop(state);
        }
        encoder
    }

    /// Goes on as `section` says, if it can without beginning anew.
    fn adopt(&self, section: &config::Encode) -> bool {
        let mut own = self.section.lock().unwrap_or_else(PoisonError::into_inner);
        if *own == *section {
            return true;
        }
        // Where two renditions are alike but for their bit rates, these are in the streams' names.
        if own.without_bitrates() != section.without_bitrates()
            || self.streams != streams(&self.name, section)
        {
            return false;
        }
        *own = section.clone();
        drop(own);
        let mut state = self.lock();
        state.bitrates.clear();
        match &state.phase {
            Phase::Running(_, controls) => {
                let mut bitrates = section.bitrates().into_iter().enumerate();
                bitrates.all(|(index, bitrate)| controls.set_bitrate(index, bitrate).is_ok())
            }
            // The next attempt reads the section.
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
        let deadline = Instant::now() + END_PATIENCE;
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
    fn live(&self, hub: &Arc<Hub>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let ended = self.encode(hub);
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
                Err(error) => format!("{error:#}"),
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
    fn encode(&self, hub: &Arc<Hub>) -> Result<()> {
        let section = self.section.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The names are taken when all else is there: whoever has one meanwhile keeps it.
        let job = Job::open(&section)?;
        for (&index, &bitrate) in &self.lock().bitrates {
            job.controls().set_bitrate(index, bitrate)?;
        }
        if self.lock().stopping {
            return Ok(());
        }
        let mut sinks = Vec::new();
        for stream in &self.streams {
            let mut publisher = hub.publish(stream).with_context(|| stream.to_string())?;
            let publish: Publish = Box::new(move |packets| Ok(publisher.push(packets)?));
            sinks.push(publish);
        }
        {
            let mut state = self.lock();
            if state.stopping {
                return Ok(());
            }
            state.phase = Phase::Running(job.stopper(), job.controls());
            state.error = None;
        }
        tracing::info!(stream = %self.name, "its encoder runs");
        job.run(sinks)
    }

    fn controls(&self) -> Result<Controls, Unasked> {
        let state = self.lock();
        match &state.phase {
            Phase::Running(_, controls) => Ok(controls.clone()),
            Phase::Starting | Phase::Waiting(_) => Err(Unasked::NotRunning(state.error.clone())),
        }
    }

    fn status(&self) -> Vec<Status> {
        let section = self.section.lock().unwrap_or_else(PoisonError::into_inner);
        let input = section.input.clone().unwrap_or_default();
        drop(section);
        let state = self.lock();
        let (name, retry, running) = match &state.phase {
            Phase::Starting => ("starting", None, Vec::new()),
            Phase::Running(_, controls) => ("running", None, controls.status()),
            Phase::Waiting(until) => {
                let left = until.saturating_duration_since(Instant::now());
                ("waiting", Some(left.as_secs_f64() * 1e3), Vec::new())
            }
        };
        let status = |(index, stream): (usize, &StreamName)| Status {
            name: stream.to_string(),
            section: self.name.to_string(),
            input: input.clone(),
            state: name,
            error: state.error.clone(),
            retry_in_ms: retry,
            restarts: state.restarts,
            running: running.get(index).cloned(),
        };
        self.streams.iter().enumerate().map(status).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The streams that a section makes. Those that are no names have been refused with the configuration.
fn streams(name: &StreamName, section: &config::Encode) -> Vec<StreamName> {
    let names = encode::stream_names(name.as_str(), section);
    names.iter().filter_map(|name| StreamName::parse(name)).collect()
}
