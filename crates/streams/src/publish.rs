//! Publishing from inside the process.

use crate::live::{Live, PushError};
use crate::registry::{AcquireError, Acquired, Origin, SlotRequest};
use crate::streams::Streams;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Block, Mux};
use glassline_media::Time;
use std::fmt;
use std::sync::Arc;

/// A publisher's slot. Dropping it gives the name up; viewers stay for a while and wait for the next one.
pub struct Publisher {
    streams: Arc<Streams>,
    live: Arc<Live>,
    session: u64,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stream, session) = (&self.live.name, self.session);
        f.debug_struct("Publisher").field("stream", stream).field("session", &session).finish_non_exhaustive()
    }
}

impl Streams {
    /// Publishes a stream of `mux` from inside this process.
    ///
    /// # Errors
    /// Why the caller does not get the name.
    pub fn publish(self: &Arc<Self>, name: &StreamName, mux: Mux) -> Result<Publisher, AcquireError> {
        let slot_request = SlotRequest { name, mux, origin: Origin::Inside, take_over: false, piece: None };
        let Acquired { live, session, .. } = self.acquire(slot_request)?;
        Ok(Publisher::new(Arc::clone(self), live, session))
    }

    /// The publisher inside another process that had the slot of `name` under `session`, if the slot is still its.
    pub fn restore_publisher(self: &Arc<Self>, name: &StreamName, session: u64) -> Option<Publisher> {
        let live = self.find(name).filter(|live| live.reclaim(session, None))?;
        Some(Publisher::new(Arc::clone(self), live, session))
    }
}

impl Publisher {
    fn new(streams: Arc<Streams>, live: Arc<Live>, session: u64) -> Publisher {
        Publisher { streams, live, session }
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.live.name
    }

    /// Its session.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The stream is called so in HTTP; `None`: as its mux is.
    pub fn call(&self, media_type: Option<&str>) {
        self.live.call(media_type);
    }

    /// A block of `size` bytes begins. Only [`Mux::Raw`] needs that: other muxes say themselves what has to be known.
    pub fn begin_block(&self, block: Block, size: u32) -> Result<(), PushError> {
        self.live.begin_block(self.session, block, size, self.streams.now())
    }

    /// What follows does not continue what was before: other tracks, or another clock.
    pub fn begin_anew(&mut self) {
        // Where the slot is lost, the next bytes show it.
        if let Some(session) = self.live.begin_anew(self.session, self.streams.now()) {
            self.session = session;
        }
        self.streams.announce(&self.live, None);
    }

    /// Appends bytes of its mux to the stream, in any chop. Viewers get it when the stream's flush policy says so; a call is
    /// taken for all that there is at the moment.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PushError> {
        self.push_held(bytes, None)
    }

    /// [`Publisher::push`] of what came at `held_since`, by this machine's monotonic clock, and was held back by its transport.
    pub fn push_held(&mut self, bytes: &[u8], held_since: Option<Time>) -> Result<(), PushError> {
        let now = self.streams.now();
        let (pushed, flushed) = self.live.push_held(self.session, bytes, held_since, now);
        self.streams.notify(&self.live, flushed);
        pushed
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.live.release(self.session, self.streams.now());
        self.streams.announce(&self.live, None);
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
