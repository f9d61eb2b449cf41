//! Forwards: streams that are published to services over RTMP and RTMPS (YouTube, Twitch, another relay).
//!
//! ```text
//! Live ─► Units ─► delivery::forward::Feed ─► transport::rtmp::ClientSession ─► Wire ─► service
//!         (thread "forward": one for each, which connects again and again)
//! ```
//! A forward reads its stream as a subscriber does, which holds nothing up. It connects while the stream has a publisher, and says to
//! the service when the stream is over.

mod connect;
mod line;
mod metadata;
mod outgoing;
mod status;
mod worker;

pub use worker::{Pauses, WantedForward};

use glassline_delivery::policy::StreamName;
use glassline_io::containment::{Border, contain};
use glassline_io::poll::{Poller, Waker};
use glassline_streams::Streams;
use glassline_streams::status::{Companion, ForwardStatus, OutputStatus, ServiceCount, SourceStatus};
use status::{Board, Totals};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use worker::{WAKER, Worker};

/// The thread of a forward. Dropping it ends the stream at the service, and waits for that.
struct Running {
    wanted: WantedForward,
    board: Arc<Board>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    /// What forwards have done so far that end at this moment.
    ending: Vec<Arc<Board>>,
    /// What forwards have done that are wanted no more: counters never become less.
    ended: Totals,
    is_used: bool,
}

impl State {
    /// Takes out the forwards that have to end. What they have done counts on meanwhile.
    fn take_out(&mut self, is_doomed: impl Fn(&Running) -> bool) -> Vec<Running> {
        let doomed: Vec<_> = self.running.extract_if(.., |running| is_doomed(running)).collect();
        self.ending.extend(doomed.iter().map(|running| Arc::clone(&running.board)));
        doomed
    }
}

/// All forwards that run. Dropping it ends them.
#[derive(Default)]
pub struct Forwards {
    state: Mutex<State>,
    pauses: Pauses,
}

impl Forwards {
    /// None yet; attempts that fail are made again after these pauses.
    pub fn new(pauses: Pauses) -> Forwards {
        Forwards { state: Mutex::default(), pauses }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the forwards that are wanted and no others; those that are there already go on. Waits for the end of those that are wanted
    /// no more.
    pub fn arrange(&self, streams: &Arc<Streams>, wanted: Vec<WantedForward>) {
        let mut state = self.lock();
        state.is_used |= !wanted.is_empty();
        let doomed = state.take_out(|running| !wanted.contains(&running.wanted));
        drop(state);
        self.end_all(doomed);
        for wanted in wanted {
            let is_there = self.lock().running.iter().any(|running| running.wanted == wanted);
            if is_there {
                continue;
            }
            match Running::start(Arc::clone(streams), wanted, self.pauses) {
                Ok(running) => self.lock().running.push(running),
                Err(error) => tracing::error!("a forward cannot begin: {error}"),
            }
        }
    }

    /// Ends all of them.
    pub fn end(&self) {
        // Threads that serve viewers ask for figures meanwhile.
        let doomed = self.lock().take_out(|_| true);
        self.end_all(doomed);
    }

    fn end_all(&self, doomed: Vec<Running>) {
        doomed.iter().for_each(Running::stop);
        for running in doomed {
            let board = Arc::clone(&running.board);
            drop(running);
            let mut state = self.lock();
            state.ending.retain(|ending| !Arc::ptr_eq(ending, &board));
            state.ended.add(&board.totals());
        }
    }
}

impl Drop for Forwards {
    fn drop(&mut self) {
        self.end();
    }
}

impl Companion for Forwards {
    fn sources(&self) -> BTreeMap<StreamName, SourceStatus> {
        BTreeMap::new()
    }

    fn outputs(&self, _name: &StreamName) -> Vec<OutputStatus> {
        Vec::new()
    }

    fn forwards(&self, name: &StreamName) -> Vec<ForwardStatus> {
        let now = glassline_io::clock::Clock::new().now();
        let state = self.lock();
        let own = state.running.iter().filter(|running| running.wanted.stream == *name);
        own.map(|running| running.board.status(&running.wanted.address, now)).collect()
    }

    fn counts(&self) -> Vec<ServiceCount> {
        let state = self.lock();
        if !state.is_used {
            return Vec::new();
        }
        let mut all = state.ended;
        let boards = state.running.iter().map(|running| &running.board).chain(&state.ending);
        boards.for_each(|board| all.add(&board.totals()));
        let publishing = state.running.iter().filter(|running| running.board.is_publishing()).count() as u64;
        let count = |name, help, value| ServiceCount { name, is_gauge: false, help, value };
        let gauge = |name, help, value| ServiceCount { name, is_gauge: true, help, value };
        vec![
            gauge("rtmp_forwards", "Forwards over RTMP that are configured.", state.running.len() as u64),
            gauge("rtmp_forwards_publishing", "Forwards over RTMP that a service has now.", publishing),
            count("rtmp_forward_bytes_total", "Bytes sent to services over RTMP.", all.bytes),
            count("rtmp_forward_pictures_total", "Pictures sent to services over RTMP.", all.pictures),
            count(
                "rtmp_forward_dropped_pictures_total",
                "Pictures that services did not take in time.",
                all.dropped_pictures,
            ),
            count(
                "rtmp_forward_failures_total",
                "Attempts to publish to services that failed, and streams that ended there.",
                all.failures,
            ),
            count(
                "rtmp_forward_refused_total",
                "Of these, refused by the service, or for codecs that it does not take.",
                all.refused,
            ),
        ]
    }
}

impl Running {
    fn start(streams: Arc<Streams>, wanted: WantedForward, pauses: Pauses) -> io::Result<Running> {
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKER)?;
        let board = Arc::new(Board::default());
        let mut worker =
            Worker::new(streams, wanted.clone(), Arc::clone(&board), (poller, waker.clone()), pauses);
        let own = Arc::clone(&board);
        let thread = thread::Builder::new().name("forward".into()).spawn(move || {
            // A panic has been counted and logged. The stream goes on without this forward.
            if contain(Border::Output, || worker.run()).is_err() {
                own.fault();
            }
        })?;
        Ok(Running { wanted, board, waker, thread: Some(thread) })
    }

    /// Has it end, and does not wait for that.
    fn stop(&self) {
        self.board.stop();
        self.waker.wake();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
