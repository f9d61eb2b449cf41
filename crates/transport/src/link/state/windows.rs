//! How much a peer may send: the window of each channel, what all of them share, and the budget for what came.

use std::collections::VecDeque;

use super::path::PathState;
use crate::link::Settings;
use crate::link::channel::receive::{Leftover, Receiver};
use crate::link::channel::send::Sender;
use crate::link::channel::{LEAST_SHARE, window_for};

/// All channels together may have so many windows of messages that are not consumed at the other end, and each of them
/// its share of one ([`LEAST_SHARE`]), whatever the others have.
const SHARED_WINDOWS: u64 = 2;
/// The receiver's budget is at least so many windows: those that are shared, one that the least shares add up to, and one
/// for what parts take beside their bytes.
const BUDGET_WINDOWS: u64 = 4;

/// Messages of sessions before this one.
#[derive(Default)]
pub(super) struct Leftovers {
    pub(super) messages: VecDeque<Leftover>,
    pub(super) bytes: u64,
}

impl Leftovers {
    pub(super) fn pop(&mut self) -> Option<Leftover> {
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
    pub(super) fn new(senders: &[Option<Box<Sender>>], path: &PathState) -> Windows {
        let window = path.peer.window_bytes;
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

/// The budget for what comes: [`Settings::link_bytes`], or as much more as the windows need that honest peers go by.
pub(super) fn budget_for(settings: &Settings, receivers: &[Option<Box<Receiver>>]) -> u64 {
    let largest = receivers.iter().flatten().map(|receiver| {
        SHARED_WINDOWS.saturating_mul(window_for(settings.window_bytes, receiver.options.max_size))
    });
    let windows = settings.window_bytes.saturating_mul(BUDGET_WINDOWS);
    largest.chain([windows, settings.link_bytes]).max().unwrap_or(0)
}
