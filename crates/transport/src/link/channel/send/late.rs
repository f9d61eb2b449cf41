//! Messages that were told lost and come after all: others had overtaken their packets by more than a path was known to do.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Begun, Ranges, Sender, Written, length_of};
use crate::link::channel::fec::Parity;
use crate::link::{Event, MessageId, Outcome};

/// So many such messages are remembered: packets are forgotten soon after they were deemed lost.
const MAX_LATE: usize = 16;

/// A message of which everything has left.
pub(super) struct Late {
    number: u64,
    message: MessageId,
    total: u32,
    acked: Ranges,
    parity: Option<Box<Parity>>,
}

impl Late {
    /// Whether a part that has arrived makes it whole.
    fn handle_acked(&mut self, part: Written) -> bool {
        let bytes = part.offset..part.end();
        match &mut self.parity {
            Some(parity) if part.parity => parity.acked = parity.acked.saturating_add(1),
            Some(parity) => {
                let before = parity.fates(&bytes, &self.acked, self.total);
                self.acked.insert(bytes.start, bytes.end);
                let after = parity.fates(&bytes, &self.acked, self.total);
                parity.count(before, after);
            }
            None => {
                self.acked.insert(bytes.start, bytes.end);
            }
        }
        let suffices = self.parity.as_ref().is_some_and(|parity| parity.suffices(self.total));
        suffices || self.acked.covers(self.total)
    }
}

impl Sender {
    /// The message at `index` of `begun` is about to be told lost. Where the receiver does not mind the order it takes it all
    /// the same, if all of it comes before it hears of that.
    pub(super) fn remember(&mut self, index: usize) {
        let number = self.number(index);
        let Begun { message, bytes, sent, acked, parity, .. } = &mut self.begun[index];
        let all_sent = *sent as usize == bytes.len();
        if self.options.ordered || !self.options.receipts || !all_sent {
            return;
        }
        if self.late.len() == MAX_LATE {
            self.late.pop_front();
        }
        let (message, total, acked) = (*message, length_of(bytes), std::mem::take(acked));
        self.late.push_back(Late { number, message, total, acked, parity: parity.take() });
    }

    /// A part has arrived of a message that has ended.
    pub(super) fn handle_acked_late(&mut self, part: Written, events: &mut VecDeque<Event>) {
        let Some(index) = self.late.iter().position(|late| late.number == part.message) else { return };
        if !self.late[index].handle_acked(part) {
            return;
        }
        let Some(late) = self.late.remove(index) else { return };
        self.cancels.remove(&late.number);
        self.counters.lost = self.counters.lost.saturating_sub(1);
        self.finish(late.message, Outcome::Delivered, events);
    }

    /// Messages in a row have arrived, of which some may have ended.
    pub(super) fn handle_row_acked_late(&mut self, numbers: Range<u64>, events: &mut VecDeque<Event>) {
        let late: Vec<_> = self.late.iter().map(|late| (late.number, late.total)).collect();
        for (message, length) in late.into_iter().filter(|late| numbers.contains(&late.0)) {
            let part = Written { message, offset: 0, length, again: false, parity: false };
            self.handle_acked_late(part, events);
        }
    }

    /// The other end knows that `message` will not be finished: whatever comes of it now is dropped there.
    pub(crate) fn handle_cancel_acked(&mut self, message: u64) {
        self.late.retain(|late| late.number != message);
    }
}
