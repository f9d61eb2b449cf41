//! What the thread that fetches objects is asked for, by the workers and by the thread of the disk.
//!
//! ```text
//! worker ─ a miss ──────────────► FetchMailbox ─ Waker ─► thread "fetch"
//! disk ─ not there, or damaged ─────┘
//! ```

use super::cache::Job;
use glassline_io::poll::Waker;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A message to the thread that fetches.
pub(super) enum FetchMessage {
    /// An object has to be fetched.
    Job(Box<Job>),
    /// A client of this address waits, too, for the fetch that has this number among those that wait.
    Joins(u64, IpAddr),
}

/// The messages that the thread has not taken yet.
pub(super) struct FetchMailbox {
    messages: Mutex<Vec<FetchMessage>>,
    waker: Waker,
}

impl FetchMailbox {
    /// `waker` wakes the thread.
    pub(super) fn new(waker: Waker) -> Arc<FetchMailbox> {
        Arc::new(FetchMailbox { messages: Mutex::default(), waker })
    }

    /// Has the object of this job fetched.
    pub(super) fn send(&self, job: Box<Job>) {
        self.tell(FetchMessage::Job(job));
    }

    /// See [`FetchMessage::Joins`].
    pub(super) fn join(&self, ticket: u64, address: IpAddr) {
        self.tell(FetchMessage::Joins(ticket, address));
    }

    fn tell(&self, message: FetchMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.waker.wake();
    }

    /// Wakes the thread without a message: room was made, or addresses of a server were found.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Takes all messages.
    pub(super) fn collect(&self) -> Vec<FetchMessage> {
        self.waker.clear();
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
