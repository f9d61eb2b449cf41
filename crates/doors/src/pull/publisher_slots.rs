//! The publisher slots of the streams that one source feeds.

use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Block, Mux};
use glassline_streams::{Publisher, Streams};
use std::sync::Arc;

/// One upstream's streams: all have it, or none.
pub(super) struct PublisherSlots {
    streams: Arc<Streams>,
    names: Vec<StreamName>,
    mux: Mux,
    publishers: Vec<Publisher>,
}

impl PublisherSlots {
    pub(super) fn new(streams: &Arc<Streams>, names: &[StreamName], mux: Mux) -> PublisherSlots {
        PublisherSlots { streams: Arc::clone(streams), names: names.to_vec(), mux, publishers: Vec::new() }
    }

    /// The sessions of the slots that are taken.
    pub(super) fn sessions(&self) -> Vec<u64> {
        self.publishers.iter().map(Publisher::session).collect()
    }

    /// Takes the slots that another process had. Returns whether it got all of them.
    pub(super) fn restore(&mut self, sessions: &[u64]) -> bool {
        let slots = self.names.iter().zip(sessions);
        let publishers = slots.filter_map(|(name, session)| self.streams.restore_publisher(name, *session));
        self.publishers = publishers.collect();
        let all = sessions.is_empty() || self.publishers.len() == self.names.len();
        if !all {
            self.publishers.clear();
        }
        all
    }

    /// Takes all slots. Fails, with none taken, in words for people.
    pub(super) fn acquire(&mut self) -> Result<(), String> {
        let taken: Result<Vec<_>, _> =
            self.names.iter().map(|name| self.streams.publish(name, self.mux)).collect();
        self.publishers = taken.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Of a mux that is not known, passes on what its source calls it, where that is something to watch or hear.
    pub(super) fn call(&self, media_type: Option<&str>) {
        if self.mux == Mux::Raw {
            self.publishers.iter().for_each(|publisher| publisher.call(media_type));
        }
    }

    /// Of a mux that is not known, passes on what its source's next block is.
    pub(super) fn begin_block(&self, block: Block, size: u32) -> Result<(), String> {
        if self.mux != Mux::Raw {
            return Ok(());
        }
        let mut begun = self.publishers.iter().map(|publisher| publisher.begin_block(block, size));
        begun.try_for_each(|begun| begun).map_err(|error| error.to_string())
    }

    /// Passes on what came.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.publishers
            .iter_mut()
            .try_for_each(|publisher| publisher.push(bytes))
            .map_err(|error| error.to_string())
    }

    /// What follows does not continue what was before.
    pub(super) fn begin_anew(&mut self) {
        self.publishers.iter_mut().for_each(Publisher::begin_anew);
    }

    /// Gives the slots up; viewers wait for a while.
    pub(super) fn release(&mut self) {
        self.publishers.clear();
    }

    pub(super) fn are_taken(&self) -> bool {
        !self.publishers.is_empty()
    }
}

#[cfg(test)]
#[path = "publisher_slots_tests.rs"]
mod tests;
