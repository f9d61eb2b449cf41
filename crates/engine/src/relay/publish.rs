//! Publishing from inside the process.

use crate::relay::hub::Hub;
use crate::relay::live::{Live, PushError};
use crate::relay::registry::{ClaimError, Claimant, Claimed};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Block, Mux};
use std::sync::Arc;

/// A publisher's seat. Dropping it gives the name up; viewers stay for a while and wait for the next one.
pub struct Publisher {
    hub: Arc<Hub>,
    live: Arc<Live>,
    session: u64,
}

impl Hub {
    /// Publishes a stream of MPEG-TS from inside this process.
    pub fn publish(self: &Arc<Hub>, name: &StreamName) -> Result<Publisher, ClaimError> {
        Publisher::claim(self, name, Mux::MpegTs)
    }
}

impl Publisher {
    pub(super) fn claim(hub: &Arc<Hub>, name: &StreamName, mux: Mux) -> Result<Publisher, ClaimError> {
        let claimant = Claimant { name, mux, seat: None, take_over: false, piece: None };
        let Claimed { live, session, .. } = hub.claim(claimant)?;
        Ok(Publisher { hub: Arc::clone(hub), live, session })
    }

    /// The seat that this publisher had in another process, under `session`, if it is still its.
    pub(super) fn restore(hub: &Arc<Hub>, name: &StreamName, session: u64) -> Option<Publisher> {
        let live = hub.streams.find(name).filter(|live| live.reclaim(session, None))?;
        Some(Publisher { hub: Arc::clone(hub), live, session })
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.live.name
    }

    /// Its session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// The stream is called so in HTTP; `None`: as its mux is.
    pub(super) fn call(&self, media_type: Option<&str>) {
        self.live.call(media_type);
    }

    /// A block of `size` bytes begins, of a stream whose blocks say what has to be known.
    pub(super) fn begin_block(&self, block: Block, size: u32) -> Result<(), PushError> {
        self.live.begin_block(self.session, block, size, self.hub.clock.now())
    }

    /// Appends bytes of its mux to the stream, in any chop. Viewers get it when the stream's flush policy says so; a call is
    /// taken for all that there is at the moment.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PushError> {
        let now = self.hub.clock.now();
        let (pushed, flushed) = self.live.push_all(self.session, bytes, now);
        self.hub.inboxes.notify(&self.live, flushed);
        pushed
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.live.release(self.session, self.hub.clock.now());
        self.hub.inboxes.announce(&self.live, None);
    }
}
