//! Frames between the thread that packs them and the one that sends them.

use super::UNPOISONED;
use crate::capture;
use glassline_io::pages::Block;
use glassline_media::Time;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A frame as it goes out.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its pgroups.
    pub(super) block: Block,
    /// When its picture was captured; `None` where that is when it is sent.
    pub(super) captured: Option<Time>,
    /// When it was there.
    pub(super) ready: Time,
    /// Its picture's number in the file, from 0, or in the stream.
    pub(super) number: u64,
}

/// What came out of [`Queue::take`].
pub(super) enum Taken {
    Frame(Frame),
    /// None has come in time.
    Nothing,
    /// None will come any more.
    End,
}

/// Frames that wait, in order. There are never more than there are blocks.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    ended: Option<Result<(), capture::Error>>,
    is_over: bool,
    is_stopped: bool,
}

impl Queue {
    /// Puts a frame in; false once the queue is stopped.
    pub(super) fn push(&self, frame: Frame) -> bool {
        let mut state = self.lock();
        state.frames.push_back(frame);
        self.changed.notify_all();
        !state.is_stopped
    }

    /// The next frame; waits for one.
    pub(super) fn take(&self, timeout: Duration) -> Taken {
        let waits = |state: &mut State| state.frames.is_empty() && !state.is_over && !state.is_stopped;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, waits);
        let mut state = waited.expect(UNPOISONED).0;
        match state.frames.pop_front() {
            _ if state.is_stopped => Taken::End,
            Some(frame) => Taken::Frame(frame),
            None if state.is_over => Taken::End,
            None => Taken::Nothing,
        }
    }

    /// No frame comes any more, for this reason.
    pub(super) fn end(&self, ended: Result<(), capture::Error>) {
        let mut state = self.lock();
        state.ended.get_or_insert(ended);
        state.is_over = true;
        self.changed.notify_all();
    }

    /// No more frames are wanted.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// A block is free again.
    pub(super) fn freed(&self) {
        self.changed.notify_all();
    }

    /// Waits until something has changed, or for so long.
    pub(super) fn wait(&self, timeout: Duration) {
        drop(self.changed.wait_timeout(self.lock(), timeout));
    }

    /// How the source ended.
    pub(super) fn take_end(&self) -> Option<Result<(), capture::Error>> {
        self.lock().ended.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}
