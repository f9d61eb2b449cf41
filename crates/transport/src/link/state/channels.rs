//! What all paths of a link have in common: its channels, and what is held of what came on them.

use std::collections::{BTreeMap, VecDeque};

use super::room::Leftovers;
use super::{Link, Settings};
use crate::link::channel::receive::Receiver;
use crate::link::channel::send::{Announced, MAX_AHEAD, Sender};
use crate::link::content::Content;
use crate::link::{Event, MAX_CHANNELS, Options};

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
            room: Link::budget_for(settings, &[]),
            order: Vec::new(),
            own: vec![None; MAX_CHANNELS],
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
