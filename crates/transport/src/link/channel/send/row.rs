//! Small messages in a row: as many as a packet takes are one frame, one record of what is under way, and with the
//! packets before and after one step when they are acknowledged.

use glassline_media::Time;
use std::collections::VecDeque;

use super::{Begun, Conditions, Ranges, Sender, Written};
use crate::link::Compression;
use crate::link::wire::row::{MAX_ROW, row_head, write_row_head};
use crate::link::wire::varint;
use crate::link::{Event, Outcome};

/// Whole messages with numbers that follow each other, which were written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    first: u64,
    count: u32,
}

impl Row {
    /// How many they are.
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// Takes in those right before or after these.
    pub(crate) fn join(&mut self, other: Row) -> bool {
        let before = other.first + u64::from(other.count) == self.first;
        if !before && self.first + u64::from(self.count) != other.first {
            return false;
        }
        self.first = self.first.min(other.first);
        self.count += other.count;
        true
    }
}

impl Sender {
    /// Whether messages wait of which several fit into `room` bytes.
    pub(crate) fn is_row_next(&self, room: usize, lossy: bool) -> bool {
        let small = |at: usize| self.waiting.get(at).is_some_and(|waiting| waiting.bytes.len() < room / 2);
        self.may_begin_row(lossy) && small(0) && small(1)
    }

    /// Whether what waits leaves as it is, and nothing goes before it.
    fn may_begin_row(&self, lossy: bool) -> bool {
        self.options.compression == Compression::None
            && self.options.fec.percent(lossy) == 0
            && self.resend.is_empty()
            && !self.unfinished
    }

    /// Begins as many of the messages that wait as fit into `room` bytes, two at least, and writes them as one frame.
    /// Gives them and how many bytes they have. `None`: nothing was written, and it is for [`Sender::write`] to say what
    /// there is to send.
    pub(crate) fn write_row(
        &mut self,
        now: Time,
        room: usize,
        on: &Conditions<'_>,
        out: &mut Vec<u8>,
    ) -> Option<(Row, u32)> {
        if !self.may_begin_row(on.lossy) || self.waiting.len() < 2 {
            return None;
        }
        let first = self.first + self.begun.len() as u64;
        let mut left = room.checked_sub(row_head(first))?;
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.waiting.iter().take(MAX_ROW) {
            let size = waiting.bytes.len();
            let Some(rest) = left.checked_sub(varint::size(size as u64) + size) else { break };
            if !self.has_window(count, bytes + size as u64, on.window) {
                break;
            }
            (left, count, bytes) = (rest, count + 1, bytes + size as u64);
        }
        if count < 2 {
            return None;
        }
        let lengths = self.waiting.iter().take(count as usize).map(|waiting| waiting.bytes.len());
        write_row_head(self.id, first, lengths, out);
        for number in first..first + count {
            let Some(waiting) = self.waiting.pop_front() else { break };
            out.extend_from_slice(&waiting.bytes);
            self.count_begun(now, number, waiting.bytes.len(), on.copies);
            self.begun.push_back(Begun {
                message: waiting.message,
                sent: waiting.bytes.len() as u32,
                bytes: waiting.bytes,
                queued: waiting.queued,
                acked: Ranges::default(),
                lost: Ranges::default(),
                packed: false,
                parity: None,
                done: false,
            });
        }
        Some((Row { first, count: count as u32 }, bytes as u32))
    }

    /// A row, or several that follow each other, have arrived.
    pub(crate) fn handle_row_acked(&mut self, row: Row, events: &mut VecDeque<Event>) {
        let end = (row.first + u64::from(row.count)).min(self.first + self.begun.len() as u64);
        if !self.late.is_empty() {
            self.handle_row_acked_late(row.first..row.first + u64::from(row.count), events);
        }
        for number in row.first.max(self.first)..end {
            if number != self.first {
                self.end((number - self.first) as usize, Outcome::Delivered, events);
                continue;
            }
            // The oldest is forgotten at once.
            let Some(begun) = self.begun.pop_front() else { break };
            self.first += 1;
            if !begun.done {
                self.held_bytes -= begun.bytes.len();
                if !self.resend.is_empty() {
                    self.resend.remove(&number);
                }
                self.finish(begun.message, Outcome::Delivered, events);
            }
        }
        self.retire();
    }

    /// A row is deemed lost: none of its messages have come.
    pub(crate) fn handle_row_lost(&mut self, row: Row, events: &mut VecDeque<Event>) {
        for message in row.first..row.first + u64::from(row.count) {
            let begun = message.checked_sub(self.first).and_then(|index| self.begun.get(index as usize));
            let Some(length) = begun.filter(|begun| !begun.done).map(|begun| begun.bytes.len() as u32) else {
                continue;
            };
            self.handle_lost(Written { message, offset: 0, length, again: false, parity: false }, events);
        }
    }
}
