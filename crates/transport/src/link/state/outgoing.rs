//! What the channels of a link put into packets: which goes next, what it may send, and frames that wait for no window.

use glassline_media::Time;

use super::channels::Channels;
use super::path::PathState;
use super::rounded_down;
use super::sum::Room;
use super::windows::Windows;
use crate::link::channel::fec;
use crate::link::channel::send::Sender;
use crate::link::content::Content;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::{DATA_OVERHEAD, TAG};

/// The largest frames of [`Channels::write_control`] together, bytes: a CANCEL with the OPEN of its channel.
pub(super) const LARGEST_CONTROL: usize = 2 + 8 + 20;

/// Where a packet is that is being written.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Bytes before it in the buffer.
    pub(super) start: usize,
    /// What it may have at most, bytes.
    pub(super) limit: usize,
}

impl Place {
    /// Bytes that it has so far.
    #[inline]
    pub(super) fn size(self, out: &[u8]) -> usize {
        out.len().saturating_sub(self.start)
    }

    /// Bytes of frames that still fit.
    #[inline]
    pub(super) fn room(self, out: &[u8]) -> usize {
        self.limit.saturating_sub(TAG).saturating_sub(self.size(out))
    }
}

/// The channel that goes next.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) channel: u8,
    /// No other one of its priority has anything.
    pub(super) is_alone: bool,
}

impl Channels {
    /// Whether one of them has something to send over a path.
    pub(super) fn have_data(&self, path: &PathState) -> bool {
        let windows = Windows::new(&self.senders, path);
        self.senders.iter().flatten().any(|sender| sender.has_data(windows.of(sender)))
    }

    /// Bytes that are still to leave, on all of them.
    pub(super) fn unsent_bytes(&self, lossy: bool, whole: usize) -> u64 {
        let senders = self.senders.iter().flatten();
        senders.map(|sender| sender.unsent_bytes(lossy, whole, false)).fold(0, u64::saturating_add)
    }

    /// Whether the rest of a message waits: its first part has left.
    pub(super) fn have_unfinished(&self) -> bool {
        self.senders.iter().flatten().any(|sender| sender.is_unfinished())
    }

    /// Whether there are frames that neither window nor pace hold back.
    pub(super) fn have_control(&mut self) -> bool {
        self.senders.iter().flatten().any(|sender| !sender.cancels.is_empty())
            || self
                .receivers
                .iter_mut()
                .flatten()
                .any(|receiver| receiver.skipped || receiver.consumed().is_some())
    }

    /// Writes them: SKIPPED, CONSUMED and CANCEL.
    pub(super) fn write_control(&mut self, place: Place, out: &mut Vec<u8>, contents: &mut Vec<Content>) {
        let full = |out: &Vec<u8>| place.room(out) < LARGEST_CONTROL;
        for (channel, receiver) in (0u8..).zip(&mut self.receivers) {
            let Some(receiver) = receiver else { continue };
            if full(out) {
                return;
            }
            if std::mem::take(&mut receiver.skipped) {
                Frame::Skipped { channel, message: receiver.next() }.write(out);
                contents.push(Content::Skipped(channel));
            }
            if full(out) {
                return;
            }
            if let Some(next) = receiver.consumed() {
                Frame::Consumed { channel, next }.write(out);
                receiver.told(next);
                contents.push(Content::Consumed(channel));
            }
        }
        for (channel, sender) in (0u8..).zip(&mut self.senders) {
            let Some(sender) = sender else { continue };
            // A receiver that does not know the channel yet would ignore the CANCEL, and then hold a part of the message
            // that comes late for ever.
            let mut announce = !sender.is_announced();
            while !full(out) {
                let Some(message) = sender.cancels.pop_first() else { break };
                if std::mem::take(&mut announce) {
                    Frame::Open { channel, options: sender.options }.write(out);
                    contents.push(Content::Open(channel));
                }
                Frame::Cancel { channel, message }.write(out);
                contents.push(Content::Cancel(channel, message));
            }
        }
    }

    /// The channel that goes next on a path, leaving out those in the set `tried`: the least priority number first, among equals
    /// the least weighted share.
    pub(super) fn next_channel(&self, path: &PathState, now: Time, tried: u64) -> Option<Next> {
        let may_begin = !path.recovery.is_blind() || path.blind_until <= now;
        let windows = Windows::new(&self.senders, path);
        let mut best: Option<(&Sender, u8)> = None;
        let mut alone = true;
        for &channel in &self.order {
            let Some(sender) = self.sender(channel) else { continue };
            if best.is_some_and(|(chosen, _)| sender.options.priority > chosen.options.priority) {
                break;
            }
            if tried & 1 << channel == 0
                && (may_begin || sender.is_unfinished())
                && sender.has_data(windows.of(sender))
            {
                alone = best.is_none();
                if best.is_none_or(|(chosen, _)| sender.share < chosen.share) {
                    best = Some((sender, channel));
                }
            }
        }
        best.map(|(_, channel)| Next { channel, is_alone: alone })
    }

    /// The one channel that has something to send, if that is the rest of a message, and packets need nothing else.
    pub(super) fn running_channel(&self, path: &PathState) -> Option<u8> {
        let plain = path.capacity.is_fast()
            && !path.probe
            && path.idle_since.is_none()
            && path.duplicates.is_empty()
            && path.parity.is_empty()
            && !path.received.is_asked()
            && !path.recovery.is_blind();
        if !plain {
            return None;
        }
        let windows = Windows::new(&self.senders, path);
        let mut running = None;
        for &channel in &self.order {
            let Some(sender) = self.sender(channel) else { continue };
            if !sender.has_data(windows.of(sender)) {
                continue;
            }
            if running.is_some() || !sender.is_running() {
                return None;
            }
            running = Some(channel);
        }
        running
    }

    /// How many bytes a message on `channel` may have, to be in time where the paths have this room: see
    /// [`Link::budget`](super::Link::budget).
    pub(super) fn message_budget(&self, room: Room, channel: u8) -> u64 {
        let stamp = self.sender(channel).map_or(0, |sender| sender.stamp_bytes());
        self.budget(room, channel).saturating_sub(stamp.into())
    }

    fn budget(&self, room: Room, channel: u8) -> u64 {
        let Some(own) = self.sender(channel) else { return 0 };
        if room.is_shared && own.options.newest && own.waiting() > 0 {
            // One more would replace it. The next one is as fresh, and nothing that was sent is lost for it.
            return 0;
        }
        let (lossy, whole) = (room.is_lossy, room.datagram.saturating_sub(DATA_OVERHEAD));
        let room = room.bytes;
        let (mut first, mut equal, mut weights) = (0.0, 0.0, f64::from(own.options.weight));
        for other in self.senders.iter().flatten() {
            let goes_first = other.options.priority < own.options.priority;
            if std::ptr::eq(&raw const **other, own) || other.options.priority > own.options.priority {
                continue;
            }
            let unsent = other.unsent_bytes(lossy, whole, false) as f64;
            if goes_first {
                first += unsent;
            } else if unsent > 0.0 {
                equal += unsent;
                weights += f64::from(other.options.weight);
            }
        }
        let left = (room - first).max(0.0);
        let left = (left - equal).max(left * f64::from(own.options.weight) / weights);
        let left = rounded_down(left - own.unsent_bytes(lossy, whole, true) as f64);
        let percent = own.parity_ahead(lossy);
        let with_parity = 100u64.saturating_add(percent.into());
        let mut size = left.saturating_mul(100).checked_div(with_parity).unwrap_or(0);
        // Parity comes in whole pieces.
        loop {
            let parity = fec::parity_bytes(u32::try_from(size).unwrap_or(u32::MAX), percent, whole);
            match size.saturating_add(parity).checked_sub(left) {
                Some(over @ 1..) => size = size.saturating_sub(over),
                _ => return size,
            }
        }
    }
}
