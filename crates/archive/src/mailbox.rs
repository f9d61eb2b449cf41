//! What the thread "record" is told: bounded in bytes where it comes from the packager.

use crate::store::StoreError;
use bytes::Bytes;
use glassline_delivery::archive::index::RecordedSegment;
use glassline_delivery::packager::{RenditionName, TrackInfo};
use glassline_delivery::policy::StreamName;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of parts that may wait for the thread: four seconds of 100 streams of 5 Mbit/s. The thread is late by as much when the disk
/// does not take what it is given, as one does not for a second or two while it puts away what others have written to it. Players'
/// windows have the same bytes, so that such a time takes no further memory.
pub(crate) const WAITING_MAX_BYTES: u64 = 256 << 20;

/// Beyond that, so much of what tells of parts, and of parts that were dropped.
const TOLD_MAX_BYTES: u64 = 16 << 20;
/// What a message counts for beside the bytes of its part.
const MESSAGE_BYTES: u64 = 512;
/// Requests of viewers that may wait for the thread.
pub(crate) const REQUESTS_MAX: usize = 256;

/// With so much waiting the thread sends nothing to the store.
pub(crate) const CROWDED_BYTES: u64 = WAITING_MAX_BYTES / 16;

/// What the thread does when it comes to it.
pub(crate) type Task<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A message.
pub(crate) enum Message<T: ?Sized = crate::recording_thread::RecordingThread> {
    /// A presentation begins to be recorded.
    Begin { key: u64, name: StreamName },
    /// A CMAF header of it.
    Init { key: u64, rendition: RenditionName, track: TrackInfo, bytes: Bytes },
    /// A part of it is complete: the one of this number in its segment.
    Part { key: u64, rendition: RenditionName, segment: RecordedSegment, part: u32, chunks: Vec<Bytes> },
    /// A part of it was dropped, for want of room here.
    Lost { key: u64, rendition: RenditionName, segment: RecordedSegment },
    /// A segment of it is complete.
    SegmentEnd { key: u64, rendition: RenditionName, segment: RecordedSegment },
    /// Nothing came in the time of a segment.
    Gap { key: u64, rendition: RenditionName, segment: RecordedSegment },
    /// It has ended.
    End { key: u64 },
    /// The store has answered what the spool that was opened as number `spool` has sent; whether it is one that was configured before.
    Stored { spool: u64, id: u64, is_former: bool, result: Result<(), StoreError> },
    /// The disk has what was handed over as number `sync`; or it failed, in words.
    Synced { sync: u64, result: Result<(), String> },
    /// Something else.
    Do(Task<T>),
    /// Something that a viewer waits for.
    Request(Task<T>),
}

impl Message {
    /// What it takes of the room of those that are bounded.
    fn bounded_bytes(&self) -> u64 {
        match self {
            Message::Part { chunks, .. } => {
                MESSAGE_BYTES + chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>()
            }
            Message::Lost { .. } | Message::SegmentEnd { .. } | Message::Gap { .. } => MESSAGE_BYTES,
            _ => 0,
        }
    }
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    bounded_bytes: u64,
    requests: usize,
}

/// The messages that wait.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    dropped_bytes: AtomicU64,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message, whatever waits.
    pub(crate) fn send(&self, message: Message) {
        self.lock().messages.push_back(message);
        self.changed.notify_one();
    }

    /// Adds one that tells of parts, where there is room; otherwise its bytes are counted, it is dropped, and false returned.
    pub(crate) fn send_bounded(&self, message: Message) -> bool {
        let bytes = message.bounded_bytes();
        let is_part = matches!(message, Message::Part { .. });
        let most = if is_part { WAITING_MAX_BYTES } else { WAITING_MAX_BYTES + TOLD_MAX_BYTES };
        let mut state = self.lock();
        if state.bounded_bytes.saturating_add(bytes) > most {
            if is_part {
                self.dropped_bytes.fetch_add(bytes - MESSAGE_BYTES, Ordering::Relaxed);
            }
            return false;
        }
        state.bounded_bytes += bytes;
        state.messages.push_back(message);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Adds a request, where not too many wait.
    pub(crate) fn send_request(&self, task: Task<crate::recording_thread::RecordingThread>) {
        let mut state = self.lock();
        if state.requests < REQUESTS_MAX {
            state.requests += 1;
            state.messages.push_back(Message::Request(task));
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Bytes that wait, of messages that are bounded.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.lock().bounded_bytes
    }

    /// Bytes of parts that were dropped.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes.load(Ordering::Relaxed)
    }

    /// Waits for messages, so long at most, and puts all that are there behind those that are left of the last time.
    pub(crate) fn take(&self, timeout: Duration, into: &mut VecDeque<Message>) {
        let state = self.lock();
        let timeout = if into.is_empty() { timeout } else { Duration::ZERO };
        let waited = self.changed.wait_timeout_while(state, timeout, |state| state.messages.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        into.append(&mut state.messages);
    }

    /// A message that was taken is done with.
    pub(crate) fn release(&self, message: &Message) {
        let (bytes, is_request) = (message.bounded_bytes(), matches!(message, Message::Request(_)));
        if bytes > 0 || is_request {
            let mut state = self.lock();
            state.bounded_bytes = state.bounded_bytes.saturating_sub(bytes);
            state.requests -= usize::from(is_request);
        }
    }
}
