//! What all paths of a link have in common: its channels, and what is held of what came on them.

use bytes::Bytes;
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::windows::{Leftovers, budget_for};
use crate::link::channel::receive::Receiver;
use crate::link::channel::send::{Announced, MAX_AHEAD, Sender};
use crate::link::channel::stamp;
use crate::link::content::Content;
use crate::link::{Compression, Dictionary, Error, Event, MAX_CHANNELS, MessageId, Options, Settings};

/// The channels of a link, in both directions.
pub(super) struct Channels {
    /// By their numbers.
    pub(super) senders: Vec<Option<Box<Sender>>>,
    pub(super) receivers: Vec<Option<Box<Receiver>>>,
    /// Channels on which messages were passed over of which no event has told, a bit for each.
    pub(super) passed_over: u64,
    /// Messages of sessions before this one that the application has not taken, by channel.
    pub(super) leftover: BTreeMap<u8, Leftovers>,
    /// What is held of what came, and how much that may be.
    pub(super) memory: u64,
    pub(super) room: u64,
    /// Numbers of open sending channels, by priority.
    pub(super) order: Vec<u8>,
    /// Our own options, for what we wish as a receiver.
    pub(super) own: Vec<Option<Options>>,
}

impl Channels {
    pub(super) fn new(settings: &Settings) -> Channels {
        Channels {
            senders: Vec::new(),
            receivers: Vec::new(),
            passed_over: 0,
            leftover: BTreeMap::new(),
            memory: 0,
            room: budget_for(settings, &[]),
            order: Vec::new(),
            own: vec![None; MAX_CHANNELS],
        }
    }

    /// Opens channel `id` for sending.
    ///
    /// # Errors
    /// Something was sent on it already.
    pub(super) fn open(&mut self, id: u8, options: Options) -> Result<(), Error> {
        let index = usize::from(id);
        if self.senders.len() <= index {
            self.senders.resize_with(index.saturating_add(1), || None);
        }
        if self.senders[index].as_ref().is_some_and(|sender| sender.counters.messages > 0) {
            return Err(Error::Options { channel: id, what: "it is in use" });
        }
        self.senders[index] = Some(Box::new(Sender::new(id, options)));
        self.own[index] = Some(options);
        if let Some(receiver) = self.receivers.get_mut(index).and_then(Option::as_mut) {
            receiver.own_receive_time = options.max_receive_time;
        }
        self.order.retain(|other| *other != id);
        let senders = &self.senders;
        let priority =
            |id: &u8| senders[usize::from(*id)].as_ref().map_or(u8::MAX, |sender| sender.options.priority);
        let at = self.order.partition_point(|other| (priority(other), *other) < (options.priority, id));
        self.order.insert(at, id);
        Ok(())
    }

    /// The peer sends on a channel. `dictionary` is what both ends hold. Returns whether that is new.
    pub(super) fn accept(
        &mut self,
        channel: u8,
        options: Options,
        settings: &Settings,
        dictionary: Option<&Arc<Dictionary>>,
    ) -> bool {
        let index = usize::from(channel);
        if self.receivers.len() <= index {
            self.receivers.resize_with(index.saturating_add(1), || None);
        }
        if self.receivers[index].is_some() {
            return false;
        }
        let mut receiver = Receiver::new(options, self.own[index].as_ref(), settings.window_bytes);
        if options.compression != Compression::None {
            receiver.use_dictionary(dictionary.cloned());
        }
        self.receivers[index] = Some(Box::new(receiver));
        self.share_room(settings);
        true
    }

    /// Queues a message.
    ///
    /// # Errors
    /// See [`Link::send`](super::Link::send).
    pub(super) fn push(
        &mut self,
        now: Time,
        channel: u8,
        message: Bytes,
        stamp: Option<Utc>,
        twice: bool,
        events: &mut VecDeque<Event>,
    ) -> Result<MessageId, Error> {
        let Some(sender) = self.sender(channel) else { return Err(Error::NotOpen { channel }) };
        let mut least = None;
        if sender.is_idle() {
            // A channel that was idle gains no credit: it starts at the least share among the active ones of its priority.
            let priority = sender.options.priority;
            let others = self.senders.iter().flatten();
            let active = others.filter(|other| other.options.priority == priority && !other.is_idle());
            least = active.map(|other| other.share).min();
        }
        let Some(sender) = self.sender_mut(channel) else { return Err(Error::NotOpen { channel }) };
        if let Some(least) = least {
            sender.share = sender.share.max(least);
        }
        let message = if sender.options.stamped { stamp::put(stamp, &message) } else { message };
        sender.push(now, message, twice, events)
    }

    /// Whether all that was sent has ended: delivered, cancelled or lost.
    pub(super) fn are_idle(&self) -> bool {
        self.senders.iter().flatten().all(|sender| sender.is_idle() && sender.cancels.is_empty())
    }

    /// The peer has none of what was sent: what waited still waits, what had begun is lost. What has come whole is kept for the
    /// application.
    pub(super) fn restart(&mut self, window_bytes: u64, events: &mut VecDeque<Event>) {
        for sender in self.senders.iter_mut().flatten() {
            sender.restart(events);
        }
        self.keep_leftovers(window_bytes);
    }

    /// When [`Channels::handle_timeout`] has something to do though nothing came.
    pub(super) fn next_timeout(&self) -> Time {
        let sending = self.senders.iter().flatten().map(|sender| sender.next_timeout());
        let receiving = self.receivers.iter().flatten().map(|receiver| receiver.next_timeout());
        sending.chain(receiving).min().unwrap_or(Time::NEVER)
    }

    /// Cancels and skips what is too old by `now`.
    pub(super) fn handle_timeout(&mut self, now: Time, events: &mut VecDeque<Event>) {
        for sender in self.senders.iter_mut().flatten() {
            if sender.next_timeout() <= now {
                sender.handle_timeout(now, events);
            }
        }
        self.handle_receiver_timeouts(now, events);
    }

    /// Has the oldest part that is not acknowledged, of the channel that goes first, leave once more.
    pub(super) fn probe(&mut self) {
        for &channel in &self.order {
            let sender = self.senders.get_mut(usize::from(channel)).and_then(Option::as_mut);
            if sender.is_some_and(|sender| sender.probe()) {
                break;
            }
        }
    }

    /// The sender of an open channel.
    #[inline]
    pub(super) fn sender(&self, channel: u8) -> Option<&Sender> {
        self.senders.get(usize::from(channel))?.as_deref()
    }

    #[inline]
    pub(super) fn sender_mut(&mut self, channel: u8) -> Option<&mut Sender> {
        self.senders.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// The receiver of a channel that the peer has opened.
    #[inline]
    pub(super) fn receiver(&self, channel: u8) -> Option<&Receiver> {
        self.receivers.get(usize::from(channel))?.as_deref()
    }

    #[inline]
    pub(super) fn receiver_mut(&mut self, channel: u8) -> Option<&mut Receiver> {
        self.receivers.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// Has the receiver of a channel do something, and counts what it holds then.
    #[inline]
    pub(super) fn with_receiver<T>(
        &mut self,
        channel: u8,
        act: impl FnOnce(&mut Receiver) -> T,
    ) -> Option<T> {
        let receiver = self.receivers.get_mut(usize::from(channel))?.as_deref_mut()?;
        let (before, skipped) = (receiver.memory(), receiver.counters.skipped);
        let outcome = act(receiver);
        self.memory = self.memory.saturating_add(receiver.memory()).saturating_sub(before);
        self.passed_over |= u64::from(receiver.counters.skipped > skipped) << channel;
        Some(outcome)
    }

    /// Makes events of messages that were passed over since the last ones: one for a channel, however many they are.
    pub(super) fn tell_passed_over(&mut self, events: &mut VecDeque<Event>) {
        let mut channels = std::mem::take(&mut self.passed_over);
        while channels != 0 {
            let Ok(channel) = u8::try_from(channels.trailing_zeros()) else { break };
            channels &= channels.saturating_sub(1);
            if let Some(messages) = self.receiver_mut(channel).map(Receiver::take_passed_over) {
                events.push_back(Event::PassedOver { channel, messages });
            }
        }
    }

    /// The peer has got what was in a packet.
    #[inline]
    pub(super) fn handle_acked(&mut self, content: Content, events: &mut VecDeque<Event>) {
        match content {
            Content::Data { channel, part } | Content::Duplicate { channel, part } => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.handle_acked(part, events);
                }
            }
            Content::Row { channel, row } => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.handle_row_acked(row, events);
                }
            }
            Content::Open(channel) => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.announced = Announced::Yes;
                }
            }
            Content::Cancel(channel, message) => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.handle_cancel_acked(message);
                }
            }
            // What one path says of itself, and what is told again until it is outdated.
            Content::Ack(_) | Content::SizeProbe(_) | Content::Consumed(_) | Content::Skipped(_) => {}
        }
    }

    /// What was in a packet is lost, on all paths that carried it.
    pub(super) fn handle_lost(&mut self, content: Content, events: &mut VecDeque<Event>) {
        match content {
            Content::Data { channel, part } | Content::Duplicate { channel, part } => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.handle_lost(part, events);
                }
            }
            Content::Row { channel, row } => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.handle_row_lost(row, events);
                }
            }
            Content::Cancel(channel, message) => {
                if let Some(sender) = self.sender_mut(channel) {
                    sender.cancels.insert(message);
                    // A receiver that is so far behind has gone on without it.
                    while sender.cancels.len() as u64 > MAX_AHEAD {
                        sender.cancels.pop_first();
                    }
                }
            }
            Content::Consumed(channel) => {
                if let Some(receiver) = self.receiver_mut(channel) {
                    receiver.untold();
                }
            }
            Content::Skipped(channel) => {
                if let Some(receiver) = self.receiver_mut(channel) {
                    receiver.skipped = true;
                }
            }
            // OPEN goes with data, an ACK is followed by newer ones, and a probe is waited for by its own timer.
            Content::Open(_) | Content::Ack(_) | Content::SizeProbe(_) => {}
        }
    }
}
