//! What a peer may make us hold: each channel has its window, all channels of a link share a budget, and the endpoint has
//! one for all its links.

use crate::counter::count;
use glassline_media::Time;
use std::collections::VecDeque;

use super::channels::Channels;
use super::windows::budget_for;
use crate::link::channel::receive::{Overrun, Received, Receiver};
use crate::link::{Event, Settings};

impl Channels {
    /// A channel was opened by the peer: the others tell of their room the sooner, and the budget may be another.
    pub(super) fn share_room(&mut self, settings: &Settings) {
        let reliable = self.receivers.iter().flatten().filter(|receiver| receiver.options.reliable).count();
        for receiver in self.receivers.iter_mut().flatten() {
            receiver.share_window(reliable <= 1, settings.window_bytes);
        }
        self.room = budget_for(settings, &self.receivers);
        self.recount();
    }

    fn recount(&mut self) {
        let receivers: u64 = self.receivers.iter().flatten().map(|receiver| receiver.memory()).sum();
        let leftover = self.leftover.values().map(|left| left.bytes).sum();
        self.memory = receivers.saturating_add(leftover);
    }

    /// Has a receiver take something in, and counts what that takes. The peer breaks the rules if there is no room for it.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        channel: u8,
        events: &mut VecDeque<Event>,
        take: impl FnOnce(&mut Receiver) -> Result<bool, Overrun>,
    ) -> Result<(), &'static str> {
        let outcome = self.with_receiver(channel, |receiver| (receiver.is_readable(), take(receiver)));
        // Data comes with its OPEN until that is acknowledged.
        let (waiting, taken) = outcome.ok_or("data on a channel that was not opened")?;
        let readable = taken.map_err(|_| "more data than there is room for")?;
        if readable && !waiting {
            events.push_back(Event::Readable { channel });
        }
        if self.memory > self.room { self.make_room(channel) } else { Ok(()) }
    }

    /// More is held than the budget allows: what is kept for messages to come goes, and then what is old on an unreliable
    /// channel.
    fn make_room(&mut self, channel: u8) -> Result<(), &'static str> {
        self.forget_spares();
        let channels = self;
        let Some(receiver) = channels.receiver(channel) else { return Ok(()) };
        let is_reliable = receiver.options.reliable;
        while channels.memory > channels.room && !is_reliable {
            if channels.with_receiver(channel, Receiver::drop_one) != Some(true) {
                break;
            }
        }
        let is_too_much = channels.memory > channels.room && is_reliable;
        if is_too_much { Err("more data on all channels than there is room for") } else { Ok(()) }
    }

    /// Keeps nothing for messages to come.
    pub(super) fn forget_spares(&mut self) {
        self.receivers.iter_mut().flatten().for_each(|receiver| receiver.forget_spares());
        self.recount();
    }

    /// As time goes by, what is kept for messages to come goes, and messages are skipped.
    pub(super) fn handle_receiver_timeouts(&mut self, now: Time, events: &mut VecDeque<Event>) {
        for (channel, receiver) in (0u8..).zip(&mut self.receivers) {
            let Some(receiver) = receiver else { continue };
            if receiver.next_timeout() > now {
                continue;
            }
            let (waiting, before) = (receiver.is_readable(), receiver.memory());
            let skipped = receiver.counters.skipped;
            if receiver.handle_timeout(now) && !waiting {
                events.push_back(Event::Readable { channel });
            }
            self.memory = self.memory.saturating_add(receiver.memory()).saturating_sub(before);
            self.passed_over |= u64::from(receiver.counters.skipped > skipped) << channel;
        }
    }

    /// Takes the next message that came on `channel`. `damaged` is set where one does not decompress, or
    /// lacks its stamp.
    pub(super) fn receive(&mut self, channel: u8, damaged: &mut bool) -> Option<Received> {
        while let Some(left) = self.leftover.get_mut(&channel) {
            let Some(message) = left.pop() else {
                self.leftover.remove(&channel);
                break;
            };
            self.memory = self.memory.saturating_sub(message.cost());
            // One that does not decompress is passed over and ends no link: the session that it came on is over.
            if let Some(message) = message.unpack() {
                return Some(message);
            }
        }
        let (message, is_damaged) =
            self.with_receiver(channel, |receiver| (receiver.pop(), receiver.damaged))?;
        *damaged |= is_damaged;
        message
    }

    /// Whether messages came that the application has not taken.
    pub(super) fn has_unread(&self) -> bool {
        let left = self.leftover.values().any(|left| !left.messages.is_empty());
        left || self.receivers.iter().flatten().any(|receiver| receiver.is_readable())
    }

    /// What has come whole is the application's, as it was carried: it is unpacked when it is taken. On each channel no more
    /// of it is kept than a window, however often the peer restarts.
    pub(super) fn keep_leftovers(&mut self, window_bytes: u64) {
        for (channel, receiver) in (0u8..).zip(self.receivers.drain(..)) {
            let Some(receiver) = receiver.filter(|receiver| receiver.is_readable()) else { continue };
            let left = self.leftover.entry(channel).or_default();
            for message in receiver.into_leftover() {
                count(&mut left.bytes, message.cost());
                left.messages.push_back(message);
            }
            while left.bytes > window_bytes && left.pop().is_some() {}
        }
        self.recount();
    }

    /// Nothing more comes on the paths that there were.
    pub(super) fn stop_receivers(&mut self) {
        self.receivers.iter_mut().flatten().for_each(|receiver| receiver.stop());
        self.recount();
    }

    /// Drops all that came, and what is kept for messages to come.
    pub(super) fn drop_received(&mut self) {
        self.receivers.clear();
        self.leftover.clear();
        self.recount();
    }

    /// What is held of what came: see [`Link::held_bytes`](super::Link::held_bytes).
    pub(super) fn held_bytes(&self) -> u64 {
        self.receivers.iter().flatten().map(|receiver| receiver.held_bytes()).sum()
    }

    /// What is kept for messages to come: see [`Link::spare_bytes`](super::Link::spare_bytes).
    pub(super) fn spare_bytes(&self) -> u64 {
        self.receivers.iter().flatten().map(|receiver| receiver.spare_bytes()).sum()
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
