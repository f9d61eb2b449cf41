//! The publisher slots of the streams that one source feeds.

use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::{Piece, Splice};
use glassline_delivery::stream::{Block, Mux};
use glassline_media::Time;
use glassline_streams::{Publisher, Streams};
use std::sync::Arc;
use std::time::Duration;

/// One upstream's streams: all have it, or none.
pub(super) struct PublisherSlots {
    streams: Arc<Streams>,
    names: Vec<StreamName>,
    mux: Mux,
    publishers: Vec<Publisher>,
    is_spliced: bool,
    /// Of a stream that other servers have, too: where it goes on when it comes from one of those.
    splice: Option<Splice>,
    /// The slots are kept until then although nothing comes.
    held_until: Option<Time>,
}

/// For how long slots are kept when another server is asked: longer than connections take, and not so long that viewers of other servers
/// would wait for this one.
const HOLD: Duration = Duration::from_secs(1);

impl PublisherSlots {
    pub(super) fn new(streams: &Arc<Streams>, names: &[StreamName], mux: Mux) -> PublisherSlots {
        PublisherSlots {
            streams: Arc::clone(streams),
            names: names.to_vec(),
            mux,
            publishers: Vec::new(),
            is_spliced: false,
            splice: None,
            held_until: None,
        }
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

    /// Other servers have the same bytes as the one that is asked: what comes next may continue what came before.
    pub(super) fn set_spliced(&mut self, is_spliced: bool) {
        self.is_spliced = is_spliced;
    }

    /// Takes all slots, or goes on with those that are held. Fails, with none taken, in words for people.
    pub(super) fn acquire(&mut self) -> Result<(), String> {
        let is_held = self.held_until.take().is_some() && self.are_taken();
        let splice = self.splice.take().filter(|_| is_held);
        self.splice = self.is_spliced.then(|| splice.unwrap_or_default());
        if let Some(splice) = &mut self.splice {
            splice.begin();
        }
        if is_held {
            if self.splice.is_none() {
                self.begin_anew();
            }
            return Ok(());
        }
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
        let publishers = &mut self.publishers;
        let Some(splice) = &mut self.splice else { return push(publishers, bytes) };
        let mut pushed = Ok(());
        splice.push(bytes, &mut |piece| match piece {
            Piece::Data(bytes) if pushed.is_ok() => pushed = push(publishers, bytes),
            Piece::Data(_) => {}
            Piece::Anew => publishers.iter_mut().for_each(Publisher::begin_anew),
        });
        if pushed.is_err() {
            // The slots are another publisher's, or their stream has ended: there is nothing to go on with.
            self.splice = None;
        }
        pushed
    }

    /// Nothing comes any more. Slots of what may be continued are kept for a moment.
    pub(super) fn pause(&mut self, now: Time) {
        if self.splice.is_some() && self.are_taken() {
            self.held_until.get_or_insert(now + HOLD);
        } else {
            self.release();
        }
    }

    /// Until when the slots are kept; `None` where none are, or what is theirs comes.
    pub(super) fn held_until(&self) -> Option<Time> {
        self.held_until
    }

    /// Goes on with the slots that another source of the same streams has had until `now`.
    pub(super) fn adopt(&mut self, mut former: PublisherSlots, now: Time) {
        former.pause(now);
        if former.names == self.names && former.mux == self.mux && former.held_until.is_some() {
            *self = former;
        }
    }

    /// What follows does not continue what was before.
    pub(super) fn begin_anew(&mut self) {
        self.publishers.iter_mut().for_each(Publisher::begin_anew);
    }

    /// Gives the slots up; viewers wait for a while.
    pub(super) fn release(&mut self) {
        self.publishers.clear();
        (self.splice, self.held_until) = (None, None);
    }

    pub(super) fn are_taken(&self) -> bool {
        !self.publishers.is_empty()
    }
}

fn push(publishers: &mut [Publisher], bytes: &[u8]) -> Result<(), String> {
    publishers.iter_mut().try_for_each(|publisher| publisher.push(bytes)).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "publisher_slots_tests.rs"]
mod tests;
