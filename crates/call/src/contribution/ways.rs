//! The links of a server: sources of its streams, and outputs.

use super::forward::Forward;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::way::{Runner, Way};
use glassline_delivery::policy::StreamName;
use glassline_streams::Streams;
use glassline_streams::status::{Companion, OutputStatus, SourceStatus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of links takes at most, of all together: a session's own farewell takes four seconds where the peer is silent.
const END_MAX: Duration = Duration::from_secs(5);

/// What a link of a server is for.
#[derive(Clone, Debug)]
pub enum Use {
    /// What peers send is the stream.
    Source {
        /// A peer that is silent for so long gives the name up.
        silence_timeout: Duration,
    },
    /// The stream is sent there.
    Output {
        /// How old packets may be until they are given up.
        deadline: Duration,
        /// They go over a second path too, as far as that carries them.
        twice: bool,
    },
}

/// A link that a configuration asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The stream.
    pub stream: StreamName,
    /// All that it is made of, without secrets: a link goes on where it is the same.
    pub identity: String,
    /// As the status of the stream names it.
    pub url: String,
    /// What it is for.
    pub purpose: Use,
    /// The link.
    pub way: Way,
}

struct Running {
    identity: String,
    stream: StreamName,
    url: String,
    end: End,
    forward: Option<Forward>,
    runner: Runner,
}

enum End {
    In(Arc<Incoming>),
    Out(Arc<Outgoing>),
}

/// Keeps links running. Dropping it ends them.
pub struct Ways {
    /// Held for moments only: figures are read under it by threads that serve viewers.
    running: Mutex<Vec<Running>>,
    /// Held while links are begun or waited for, so that one change comes after the other.
    changing: Mutex<()>,
    end_max: Duration,
}

impl Default for Ways {
    fn default() -> Ways {
        Ways::ending_within(END_MAX)
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ways {
    fn ending_within(end_max: Duration) -> Ways {
        Ways { running: Mutex::default(), changing: Mutex::default(), end_max }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the links that are `wanted` and no others; those that are there already go on, and one that has failed for good begins
    /// anew. Waits for the end of others, some
    /// seconds at most.
    pub fn arrange(&self, streams: &Arc<Streams>, wanted: Vec<Wanted>) {
        let _change = self.change();
        let is_wanted = |running: &Running| wanted.iter().any(|wanted| wanted.identity == running.identity);
        let doomed =
            self.lock().extract_if(.., |running| !is_wanted(running) || running.has_failed()).collect();
        self.wait_for_the_end(doomed);
        for wanted in wanted {
            let is_there = self.lock().iter().any(|running| running.identity == wanted.identity);
            if !is_there {
                let begun = Running::start(streams, wanted);
                self.lock().push(begun);
            }
        }
    }

    /// Ends all of them. Waits for that, some seconds at most.
    pub fn end(&self) {
        let _change = self.change();
        let doomed = std::mem::take(&mut *self.lock());
        self.wait_for_the_end(doomed);
    }

    /// Ends those links side by side.
    fn wait_for_the_end(&self, doomed: Vec<Running>) {
        let until = Instant::now() + self.end_max;
        for running in &doomed {
            running.stop();
        }
        for Running { forward, mut runner, url, .. } in doomed {
            // It ends before what it runs on does.
            drop(forward);
            if !runner.join_until(until) {
                tracing::warn!(
                    link = url,
                    "the link has not ended in time; what goes on does not wait for it"
                );
            }
        }
    }
}

impl Running {
    fn start(streams: &Arc<Streams>, wanted: Wanted) -> Running {
        let Wanted { stream, identity, url, purpose, way } = wanted;
        match purpose {
            Use::Source { silence_timeout } => {
                let incoming = Incoming::new(streams, &stream, &url, silence_timeout);
                let told = Arc::clone(&incoming);
                let runner =
                    Runner::start(way, Arc::clone(&incoming) as _, move |why| told.fail(why.to_owned()));
                Running { identity, stream, url, end: End::In(incoming), forward: None, runner }
            }
            Use::Output { deadline, twice } => {
                let outgoing = Outgoing::new(deadline, twice);
                let runner = Runner::start(way, Arc::clone(&outgoing) as _, |_| {});
                let forward = Some(Forward::start(streams, &stream, &outgoing));
                Running { identity, stream, url, end: End::Out(outgoing), forward, runner }
            }
        }
    }

    /// Has it end, and does not wait for that.
    fn stop(&self) {
        if let Some(forward) = &self.forward {
            forward.stop();
        }
        self.runner.stop();
    }

    fn has_failed(&self) -> bool {
        self.forward.as_ref().is_some_and(|forward| forward.error().is_some())
    }

    fn output(&self) -> Option<OutputStatus> {
        let End::Out(outgoing) = &self.end else { return None };
        let figures = outgoing.figures();
        let failure = self.forward.as_ref().and_then(Forward::error).map(str::to_owned);
        Some(OutputStatus {
            url: self.url.clone(),
            sending: figures.is_up && figures.messages > 0 && failure.is_none(),
            error: failure.or_else(|| (!figures.is_up).then(|| "the listener is not there".to_owned())),
            datagrams: figures.messages,
            bytes: figures.bytes,
            errors: figures.late + figures.left_out + figures.torn,
            moved_forward: self.forward.as_ref().map_or(0, Forward::moved_forward),
        })
    }
}

impl Companion for Ways {
    fn sources(&self) -> BTreeMap<StreamName, SourceStatus> {
        let running = self.lock();
        let of_source = |running: &Running| match &running.end {
            End::In(incoming) => Some((incoming.name().clone(), incoming.status())),
            End::Out(_) => None,
        };
        running.iter().filter_map(of_source).collect()
    }

    fn outputs(&self, name: &StreamName) -> Vec<OutputStatus> {
        self.lock().iter().filter(|running| running.stream == *name).filter_map(Running::output).collect()
    }
}

#[cfg(test)]
#[path = "ways_tests.rs"]
mod tests;
