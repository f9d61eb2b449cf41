//! Small messages in a row: as many as a packet takes are one frame, one record of what is under way, and with the
//! packets before and after one step when they are acknowledged.

use glassline_media::Time;
use std::collections::VecDeque;
use std::ops::Range;

use super::{Begun, Conditions, Ranges, Sender, Written, length_of};
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

    /// Their numbers.
    #[inline]
    fn numbers(self) -> Range<u64> {
        self.first..self.first.saturating_add(self.count.into())
    }

    /// Takes in those right before or after these.
    pub(crate) fn join(&mut self, other: Row) -> bool {
        let before = other.numbers().end == self.first;
        if !before && self.numbers().end != other.first {
            return false;
        }
        self.first = self.first.min(other.first);
        self.count = self.count.saturating_add(other.count);
        true
    }
}

impl Sender {
    /// Whether messages wait of which several fit into `room` bytes. `lossy` and `parity` are as in [`Conditions`].
    pub(crate) fn is_row_next(&self, room: usize, lossy: bool, parity: bool) -> bool {
        let small = |at: usize| self.waiting.get(at).is_some_and(|waiting| waiting.bytes.len() < room / 2);
        self.may_begin_row(lossy, parity) && small(0) && small(1)
    }

    /// Whether what waits leaves as it is, and nothing goes before it.
    fn may_begin_row(&self, lossy: bool, parity: bool) -> bool {
        self.options.compression == Compression::None
            && self.parity_share(lossy, parity) == 0
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
        if !self.may_begin_row(on.lossy, on.parity) || self.waiting.len() < 2 || self.drops_stamps(on) {
            return None;
        }
        let first = self.next_number();
        let mut left = room.checked_sub(row_head(first))?;
        let (mut count, mut bytes) = (0u32, 0u32);
        for waiting in self.waiting.iter().take(MAX_ROW) {
            let size = length_of(&waiting.bytes);
            let frame = varint::size(size.into()).saturating_add(size as usize);
            let Some(rest) = left.checked_sub(frame) else { break };
            let more = bytes.saturating_add(size);
            if !self.has_window(count.into(), more.into(), on.window) {
                break;
            }
            (left, count, bytes) = (rest, count.saturating_add(1), more);
        }
        if count < 2 {
            return None;
        }
        let lengths = self.waiting.iter().take(count as usize).map(|waiting| waiting.bytes.len());
        write_row_head(self.id, first, lengths, out);
        let row = Row { first, count };
        for number in row.numbers() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            out.extend_from_slice(&waiting.bytes);
            self.count_begun(now, number, waiting.bytes.len(), on.copies);
            self.begun.push_back(Begun {
                twice: false,
                message: waiting.message,
                sent: length_of(&waiting.bytes),
                bytes: waiting.bytes,
                queued: waiting.queued,
                acked: Ranges::default(),
                lost: Ranges::default(),
                packed: false,
                parity: None,
                done: false,
            });
        }
        Some((row, bytes))
    }

    /// A row, or several that follow each other, have arrived.
    pub(crate) fn handle_row_acked(&mut self, row: Row, events: &mut VecDeque<Event>) {
        let end = row.numbers().end.min(self.next_number());
        if !self.late.is_empty() {
            self.handle_row_acked_late(row.numbers(), events);
        }
        for number in row.first.max(self.first)..end {
            if number != self.first {
                if let Some(index) = self.index(number) {
                    self.end(index, Outcome::Delivered, events);
                }
                continue;
            }
            // The oldest is forgotten at once.
            let Some(begun) = self.begun.pop_front() else { break };
            self.first = self.first.saturating_add(1);
            if !begun.done {
                self.release(begun.bytes.len());
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
        for message in row.numbers() {
            let begun = self.index(message).and_then(|index| self.begun.get(index));
            let Some(length) = begun.filter(|begun| !begun.done).map(|begun| begun.total()) else {
                continue;
            };
            self.handle_lost(Written { message, offset: 0, length, again: false, parity: false }, events);
        }
    }
}
