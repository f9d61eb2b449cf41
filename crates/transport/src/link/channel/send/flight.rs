//! What is under way: messages that have begun, what is known of their parts, and how they end.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Announced, Begun, Ranges, Sender, Written, cost, data_head};
use crate::link::Compression;
use crate::link::{Event, Outcome};

impl Sender {
    /// Ends the message at `index` of `begun`, if it has not ended yet.
    pub(super) fn end(&mut self, index: usize, outcome: Outcome, events: &mut VecDeque<Event>) {
        let number = self.number(index);
        let begun = &mut self.begun[index];
        if begun.done {
            return;
        }
        begun.done = true;
        begun.lost.clear();
        begun.acked.clear();
        let bytes = std::mem::take(&mut begun.bytes);
        begun.parity = None;
        let message = begun.message;
        self.release(bytes.len());
        self.resend.remove(&number);
        if index.saturating_add(1) == self.begun.len() {
            self.unfinished = false;
        }
        self.finish(message, outcome, events);
    }

    /// As [`Sender::end`], and the other end is told not to wait.
    pub(super) fn give_up(&mut self, index: usize, outcome: Outcome, events: &mut VecDeque<Event>) {
        if !self.begun[index].done {
            self.end(index, outcome, events);
            self.cancels.insert(self.number(index));
        }
    }

    /// Forgets ended messages at the front.
    pub(super) fn retire(&mut self) {
        while self.begun.front().is_some_and(|begun| begun.done) {
            self.begun.pop_front();
            self.first = self.first.saturating_add(1);
        }
    }

    /// Writes a part once more, as it was written into another path's packet. `Some(false)`: it does not fit into `room`
    /// bytes. `None`: it does not matter any more.
    pub(crate) fn write_duplicate(&self, part: Written, room: usize, out: &mut Vec<u8>) -> Option<bool> {
        let begun = self.missing(part)?;
        if self.duplicate_bytes(part)? > room {
            return Some(false);
        }
        begun.write(self.id, part.message, part.offset, part.length, false, out);
        Some(true)
    }

    /// What a duplicate of a part takes in a packet, its head included; `None` where it does not matter any more.
    pub(crate) fn duplicate_bytes(&self, part: Written) -> Option<usize> {
        let (total, length) = (self.missing(part)?.total(), part.length as usize);
        Some(data_head(part.message, total, part.offset, length).saturating_add(length))
    }

    /// Whether anything of a part is neither acknowledged nor given up.
    pub(crate) fn is_missing(&self, part: Written) -> bool {
        self.missing(part).is_some()
    }

    pub(super) fn missing(&self, part: Written) -> Option<&Begun> {
        let begun = self.begun.get(self.index(part.message)?).filter(|begun| !begun.done)?;
        let mut missing = begun.acked.missing(part.offset, part.end());
        (part.length == 0 || missing.next().is_some()).then_some(begun)
    }

    /// A part has arrived.
    pub(crate) fn handle_acked(&mut self, part: Written, events: &mut VecDeque<Event>) {
        let index = self.index(part.message).unwrap_or(usize::MAX);
        let Some(begun) = self.begun.get_mut(index).filter(|begun| !begun.done) else {
            return self.handle_acked_late(part, events);
        };
        let total = begun.total();
        if part.parity {
            let Some(parity) = &mut begun.parity else { return };
            parity.acked = parity.acked.saturating_add(1);
            if !parity.suffices(total) {
                return;
            }
        } else if part.length != total {
            let bytes = part.offset..part.end();
            begun.change(bytes.clone(), |acked, gone| {
                acked.insert(bytes.start, bytes.end);
                gone.remove(bytes.start, bytes.end);
            });
            begun.lost.remove(bytes.start, bytes.end);
            if begun.lost.is_empty() {
                self.resend.remove(&part.message);
            }
            let enough = begun.parity.as_ref().is_some_and(|parity| parity.suffices(total));
            if !enough && !begun.acked.covers(total) {
                return;
            }
        }
        self.end(index, Outcome::Delivered, events);
        self.retire();
    }

    /// A part is deemed lost.
    pub(crate) fn handle_lost(&mut self, part: Written, events: &mut VecDeque<Event>) {
        let Some(index) = self.index(part.message) else { return };
        let Some(begun) = self.begun.get_mut(index).filter(|begun| !begun.done) else { return };
        if self.options.reliable && begun.parity.is_some() {
            self.lose_part(index, part);
        } else if self.options.reliable {
            let missing: Vec<_> = begun.acked.missing(part.offset, part.end()).collect();
            for (start, end) in &missing {
                begun.lost.insert(*start, *end);
            }
            if !missing.is_empty() || part.length == 0 {
                self.resend.insert(part.message);
            }
        } else {
            let total = begun.total();
            if let Some(parity) = begun.parity.as_mut().filter(|_| part.parity) {
                parity.lost = parity.lost.saturating_add(1);
            } else if begun.parity.is_some() {
                let bytes = part.offset..part.end();
                begun.change(bytes.clone(), |_, gone| _ = gone.insert(bytes.start, bytes.end));
            }
            if begun.parity.as_ref().is_some_and(|parity| !parity.is_in_vain()) {
                return;
            }
            let whole = part.length == total && !part.parity && begun.parity.is_none();
            self.remember(index);
            if whole {
                // Nothing of it has come, so there is nothing to be told.
                self.end(index, Outcome::Lost, events);
            } else {
                self.give_up(index, Outcome::Lost, events);
            }
            self.retire();
        }
    }

    /// Sends a part of the oldest message that is not acknowledged once more, as a probe. Gives whether there is one.
    pub(crate) fn probe(&mut self) -> bool {
        if !self.resend.is_empty() {
            return true;
        }
        let Some(index) = self.begun.iter().position(|begun| !begun.done && begun.sent > 0) else {
            return false;
        };
        if !self.options.reliable {
            return false;
        }
        let begun = &mut self.begun[index];
        let first = begun.acked.missing(0, begun.sent).next();
        if let Some((start, end)) = first {
            let end = end.min(start.saturating_add(1200));
            begun.change(start..end, |_, gone| gone.remove(start, end));
            begun.lost.insert(start, end);
            self.resend.insert(self.number(index));
        }
        first.is_some()
    }

    /// The other end has done with all messages before `next`.
    pub(crate) fn handle_consumed(&mut self, next: u64) {
        while self.consumed < next {
            let Some(size) = self.unconsumed.pop_front() else { break };
            self.unconsumed_bytes = self.unconsumed_bytes.saturating_sub(cost(size));
            self.consumed = self.consumed.saturating_add(1);
        }
    }

    /// The other end goes on without those messages before `before` that it has not got.
    pub(crate) fn handle_skipped(&mut self, before: u64, events: &mut VecDeque<Event>) {
        let count = usize::try_from(before.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = count.min(self.begun.len());
        (0..count).for_each(|index| self.end(index, Outcome::Skipped, events));
        self.retire();
    }

    /// The peer has forgotten everything: what had begun is lost, what waits is sent as if nothing had been before.
    pub(crate) fn restart(&mut self, events: &mut VecDeque<Event>) {
        (0..self.begun.len()).for_each(|index| self.end(index, Outcome::Lost, events));
        self.begun.clear();
        self.resend.clear();
        self.copies.clear();
        self.stranded = None;
        self.late.clear();
        self.cancels.clear();
        self.unconsumed.clear();
        (self.first, self.consumed, self.unconsumed_bytes, self.unfinished) = (0, 0, 0, false);
        // The new peer may hold another dictionary.
        for waiting in &mut self.waiting {
            (waiting.packed, waiting.tried) = (None, self.options.compression == Compression::None);
        }
        self.announced = Announced::No;
    }
}

impl Begun {
    /// Changes what is known of `bytes`: what is acknowledged, and, if the message has parity, what of it is gone. Counts what that
    /// means for its shards.
    pub(super) fn change(&mut self, bytes: Range<u32>, change: impl FnOnce(&mut Ranges, &mut Ranges)) {
        let total = self.total();
        let Some(parity) = &mut self.parity else {
            return change(&mut self.acked, &mut Ranges::default());
        };
        let before = parity.fates(&bytes, &self.acked, total);
        change(&mut self.acked, &mut parity.gone);
        let after = parity.fates(&bytes, &self.acked, total);
        parity.count(before, after);
    }
}
