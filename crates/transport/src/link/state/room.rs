//! What a peer may make us hold: each channel has its window, all channels of a link share a budget, and the endpoint has
//! one for all its links.

use crate::counter::count;
use bytes::Bytes;
use glassline_media::Time;
use std::collections::VecDeque;

use super::session::Session;
use super::{Link, Standing};
use crate::link::channel::receive::{Leftover, Overrun, Received, Receiver};
use crate::link::channel::send::Sender;
use crate::link::channel::{LEAST_SHARE, window_for};
use crate::link::{CloseCode, CloseReason, Event, Settings};

/// All channels together may have so many windows of messages that are not consumed at the other end, and each of them
/// its share of one ([`LEAST_SHARE`]), whatever the others have.
const SHARED_WINDOWS: u64 = 2;
/// The receiver's budget is at least so many windows: those that are shared, one that the least shares add up to, and one
/// for what parts take beside their bytes.
const BUDGET_WINDOWS: u64 = 4;

/// Messages of sessions before this one.
#[derive(Default)]
pub(super) struct Leftovers {
    messages: VecDeque<Leftover>,
    bytes: u64,
}

impl Leftovers {
    fn pop(&mut self) -> Option<Leftover> {
        let message = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.cost());
        Some(message)
    }
}

/// What the peer takes of us on each channel as far as is known.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    /// What it grants to a channel.
    window: u64,
    /// What all of them share, and what they have.
    shared: u64,
    outstanding: u64,
}

impl Windows {
    pub(super) fn new(senders: &[Option<Box<Sender>>], session: &Session) -> Windows {
        let window = session.peer.window_bytes;
        let (mut shared, mut outstanding) = (SHARED_WINDOWS.saturating_mul(window), 0u64);
        for sender in senders.iter().flatten().filter(|sender| sender.options.reliable) {
            shared = shared.max(window_for(window, sender.options.max_size));
            outstanding = outstanding.saturating_add(sender.outstanding());
        }
        Windows { window, shared, outstanding }
    }

    /// The bytes that a channel may have outstanding, those that it has among them.
    #[inline]
    pub(super) fn of(self, sender: &Sender) -> u64 {
        let others = self.outstanding.saturating_sub(sender.outstanding());
        let share = self.shared.saturating_sub(others).max(self.window / LEAST_SHARE);
        window_for(self.window, sender.options.max_size).min(share)
    }
}

impl Link {
    /// The budget for what comes: [`Settings::link_bytes`], or as much more as the windows need that honest peers go by.
    pub(super) fn budget_for(settings: &Settings, receivers: &[Option<Box<Receiver>>]) -> u64 {
        let largest = receivers.iter().flatten().map(|receiver| {
            SHARED_WINDOWS.saturating_mul(window_for(settings.window_bytes, receiver.options.max_size))
        });
        let windows = settings.window_bytes.saturating_mul(BUDGET_WINDOWS);
        largest.chain([windows, settings.link_bytes]).max().unwrap_or(0)
    }

    /// What the link takes of the endpoint's budget: all that came and was not taken, and what is kept for messages to come.
    pub(crate) fn memory(&self) -> u64 {
        self.channels.memory
    }

    /// A channel was opened by the peer: the others tell of their room the sooner, and the budget may be another.
    pub(super) fn share_room(&mut self) {
        let reliable =
            self.channels.receivers.iter().flatten().filter(|receiver| receiver.options.reliable).count();
        for receiver in self.channels.receivers.iter_mut().flatten() {
            receiver.share_window(reliable <= 1, self.settings.window_bytes);
        }
        self.channels.room = Link::budget_for(&self.settings, &self.channels.receivers);
        self.recount();
    }

    fn recount(&mut self) {
        let receivers: u64 = self.channels.receivers.iter().flatten().map(|receiver| receiver.memory()).sum();
        let leftover = self.channels.leftover.values().map(|left| left.bytes).sum();
        self.channels.memory = receivers.saturating_add(leftover);
    }

    /// Has a receiver take something in, and counts what that takes. The peer breaks the rules if there is no room for it.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        channel: u8,
        take: impl FnOnce(&mut Receiver) -> Result<bool, Overrun>,
    ) -> Result<(), &'static str> {
        let outcome =
            self.channels.with_receiver(channel, |receiver| (receiver.is_readable(), take(receiver)));
        // Data comes with its OPEN until that is acknowledged.
        let (waiting, taken) = outcome.ok_or("data on a channel that was not opened")?;
        let readable = taken.map_err(|_| "more data than there is room for")?;
        if readable && !waiting {
            self.events.push_back(Event::Readable { channel });
        }
        if self.channels.memory > self.channels.room { self.make_room(channel) } else { Ok(()) }
    }

    /// More is held than the budget allows: what is kept for messages to come goes, and then what is old on an unreliable
    /// channel.
    fn make_room(&mut self, channel: u8) -> Result<(), &'static str> {
        self.forget_spares();
        let channels = &mut self.channels;
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
    pub(crate) fn forget_spares(&mut self) {
        self.channels.receivers.iter_mut().flatten().for_each(|receiver| receiver.forget_spares());
        self.recount();
    }

    /// As time goes by, what is kept for messages to come goes, and messages are skipped.
    pub(super) fn handle_receiver_timeouts(&mut self, now: Time) {
        for (channel, receiver) in (0u8..).zip(&mut self.channels.receivers) {
            let Some(receiver) = receiver else { continue };
            if receiver.next_timeout() > now {
                continue;
            }
            let (waiting, before) = (receiver.is_readable(), receiver.memory());
            let skipped = receiver.counters.skipped;
            if receiver.handle_timeout(now) && !waiting {
                self.events.push_back(Event::Readable { channel });
            }
            self.channels.memory =
                self.channels.memory.saturating_add(receiver.memory()).saturating_sub(before);
            self.channels.passed_over |= u64::from(receiver.counters.skipped > skipped) << channel;
        }
    }

    /// Takes the next message that came on `channel`. Small ones that came in quick succession share blocks of 16 KiB, each
    /// of which is there for as long as one of its messages is.
    pub fn receive(&mut self, channel: u8) -> Option<Bytes> {
        self.receive_message(channel).map(|message| message.bytes)
    }

    /// As [`Link::receive`], with the message's number and when it came, and how many before it will not come; of those
    /// [`Event::PassedOver`] tells as soon as it is known.
    pub fn receive_message(&mut self, channel: u8) -> Option<Received> {
        while let Some(left) = self.channels.leftover.get_mut(&channel) {
            let Some(message) = left.pop() else {
                self.channels.leftover.remove(&channel);
                break;
            };
            self.channels.memory = self.channels.memory.saturating_sub(message.cost());
            // One that does not decompress is passed over and ends no link: the session that it came on is over.
            if let Some(message) = message.unpack() {
                return Some(message);
            }
        }
        let (message, damaged) =
            self.channels.with_receiver(channel, |receiver| (receiver.pop(), receiver.damaged))?;
        self.damaged |= damaged;
        message
    }

    /// Whether messages came that the application has not taken.
    pub(crate) fn has_unread(&self) -> bool {
        let left = self.channels.leftover.values().any(|left| !left.messages.is_empty());
        left || self.channels.receivers.iter().flatten().any(|receiver| receiver.is_readable())
    }

    /// What has come whole is the application's, as it was carried: it is unpacked when it is taken. On each channel no more
    /// of it is kept than a window, however often the peer restarts.
    pub(super) fn keep_leftovers(&mut self) {
        for (channel, receiver) in (0u8..).zip(self.channels.receivers.drain(..)) {
            let Some(receiver) = receiver.filter(|receiver| receiver.is_readable()) else { continue };
            let left = self.channels.leftover.entry(channel).or_default();
            for message in receiver.into_leftover() {
                count(&mut left.bytes, message.cost());
                left.messages.push_back(message);
            }
            while left.bytes > self.settings.window_bytes && left.pop().is_some() {}
        }
        self.recount();
    }

    /// Nothing more comes on the sessions that there were.
    pub(super) fn stop_receivers(&mut self) {
        self.channels.receivers.iter_mut().flatten().for_each(|receiver| receiver.stop());
        self.recount();
    }

    /// All links together hold more than the endpoint's budget allows, and this one most: it goes with all that came.
    pub(crate) fn give_way(&mut self, now: Time) {
        self.channels.receivers.clear();
        self.channels.leftover.clear();
        self.recount();
        if !matches!(self.standing, Standing::Closed) {
            self.end(now, CloseCode::NoRoom, "no room for what was sent", CloseReason::NoRoom);
        }
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
