//! What waits to be sent: messages come, are replaced, grow too old.

use bytes::Bytes;
use glassline_media::Time;
use std::collections::VecDeque;

use super::{Sender, Waiting};
use crate::link::Compression;
use crate::link::{Error, Event, MessageId, Outcome};

impl Sender {
    #[inline]
    pub(crate) fn push(
        &mut self,
        now: Time,
        bytes: Bytes,
        events: &mut VecDeque<Event>,
    ) -> Result<MessageId, Error> {
        if bytes.len() > self.options.max_size as usize {
            return Err(Error::TooLarge {
                found: bytes.len(),
                limit: self.options.max_size,
                channel: self.id,
            });
        }
        if self.options.newest {
            self.replace(events);
        }
        let room = self.options.queue_bytes.max(self.options.max_size as usize);
        if self.waiting.len() >= self.options.queue as usize || self.held_bytes + bytes.len() > room {
            return Err(Error::QueueFull { channel: self.id });
        }
        let message = MessageId(self.next_message);
        self.next_message += 1;
        self.held_bytes += bytes.len();
        self.counters.messages += 1;
        self.counters.bytes += bytes.len() as u64;
        let tried = self.options.compression == Compression::None;
        self.waiting.push_back(Waiting { message, bytes, queued: now, packed: None, tried });
        Ok(message)
    }

    /// Whether a message of so many bytes finds room. One that replaces others does not need theirs.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let (mut count, mut held) = (self.waiting.len(), self.held_bytes);
        if self.options.newest {
            count = 0;
            held -= self.waiting.iter().map(|waiting| waiting.bytes.len()).sum::<usize>();
        }
        if self.options.newest && self.options.cancel_begun {
            held = 0;
        }
        let room = self.options.queue_bytes.max(self.options.max_size as usize);
        bytes > self.options.max_size as usize || count < self.options.queue as usize && held + bytes <= room
    }

    /// A new message comes: what waits goes, and what has begun too if that is wished.
    fn replace(&mut self, events: &mut VecDeque<Event>) {
        while let Some(waiting) = self.waiting.pop_front() {
            self.held_bytes -= waiting.bytes.len();
            self.finish(waiting.message, Outcome::Cancelled, events);
        }
        if self.options.cancel_begun {
            (0..self.begun.len()).for_each(|index| self.give_up(index, Outcome::Cancelled, events));
            self.retire();
        }
    }

    /// When the oldest message is given up, or the next copy is due.
    pub(crate) fn next_timeout(&self) -> Time {
        if self.stranded.is_some() {
            return Time::ZERO;
        }
        let copy = self.copies.front().map_or(Time::NEVER, |copy| copy.0);
        let Some(after) = self.options.cancel_after else { return copy };
        let begun = self.begun.iter().find(|begun| !begun.done).map(|begun| begun.queued);
        let oldest = begun.or(self.waiting.front().map(|waiting| waiting.queued));
        oldest.map_or(copy, |queued| copy.min(queued + after))
    }

    /// Gives up what is too old; takes up copies that are due.
    pub(crate) fn handle_timeout(&mut self, now: Time, events: &mut VecDeque<Event>) {
        while let Some(&(_, number)) = self.copies.front().filter(|copy| copy.0 <= now) {
            self.copies.pop_front();
            let Some(index) = number.checked_sub(self.first).map(|index| index as usize) else { continue };
            if let Some(begun) = self.begun.get_mut(index).filter(|begun| !begun.done) {
                let total = begun.bytes.len();
                begun.lost.insert(0, total as u32);
                self.resend.insert(number);
                self.counters.copied_bytes += total as u64;
            }
        }
        if let Some(index) = self.stranded.take().and_then(|number| number.checked_sub(self.first)) {
            self.give_up(index as usize, Outcome::Lost, events);
            self.retire();
        }
        let Some(after) = self.options.cancel_after else { return };
        for index in 0..self.begun.len() {
            if self.begun[index].queued + after > now {
                break;
            }
            self.give_up(index, Outcome::Cancelled, events);
        }
        self.retire();
        while self.waiting.front().is_some_and(|waiting| waiting.queued + after <= now) {
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.held_bytes -= waiting.bytes.len();
            self.finish(waiting.message, Outcome::Cancelled, events);
        }
    }
}
