//! What waits to be sent: messages come, are replaced, grow too old.

use crate::counter::count;
use bytes::Bytes;
use glassline_media::Time;
use std::collections::VecDeque;

use super::{Sender, Waiting};
use crate::link::Compression;
use crate::link::channel::stamp::STAMP_BYTES;
use crate::link::{Error, Event, MessageId, Outcome};

impl Sender {
    #[inline]
    pub(crate) fn push(
        &mut self,
        now: Time,
        bytes: Bytes,
        twice: bool,
        events: &mut VecDeque<Event>,
    ) -> Result<MessageId, Error> {
        if bytes.len() > self.options.max_size as usize {
            let stamp = self.stamp_bytes();
            return Err(Error::TooLarge {
                found: bytes.len().saturating_sub(stamp.into()),
                limit: self.options.max_size.saturating_sub(stamp.into()),
                channel: self.id,
            });
        }
        if self.options.newest {
            self.replace(events);
        }
        let room = self.options.queue_bytes.max(self.options.max_size as usize);
        let held = self.held_bytes.saturating_add(bytes.len());
        if self.waiting.len() >= self.options.queue as usize || held > room {
            return Err(Error::QueueFull { channel: self.id });
        }
        let message = MessageId(self.next_message);
        self.next_message = self.next_message.saturating_add(1);
        self.held_bytes = held;
        count(&mut self.counters.messages, 1);
        count(&mut self.counters.bytes, bytes.len() as u64);
        let tried = self.options.compression == Compression::None;
        self.waiting.push_back(Waiting { message, bytes, queued: now, packed: None, tried, twice });
        Ok(message)
    }

    /// What a stamp takes of each message.
    #[inline]
    pub(crate) fn stamp_bytes(&self) -> u8 {
        if self.options.stamped { STAMP_BYTES } else { 0 }
    }

    /// Whether a message of so many bytes finds room, with its stamp. One that replaces others does not need theirs.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let bytes = bytes.saturating_add(self.stamp_bytes().into());
        let (mut count, mut held) = (self.waiting.len(), self.held_bytes);
        if self.options.newest {
            count = 0;
            held = held.saturating_sub(self.waiting.iter().map(|waiting| waiting.bytes.len()).sum());
        }
        if self.options.newest && self.options.cancel_begun {
            held = 0;
        }
        let room = self.options.queue_bytes.max(self.options.max_size as usize);
        let fits = count < self.options.queue as usize && held.saturating_add(bytes) <= room;
        bytes > self.options.max_size as usize || fits
    }

    /// A new message comes: what waits goes, and what has begun too if that is wished.
    fn replace(&mut self, events: &mut VecDeque<Event>) {
        while let Some(waiting) = self.waiting.pop_front() {
            self.release(waiting.bytes.len());
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
            let Some(index) = self.index(number) else { continue };
            if let Some(begun) = self.begun.get_mut(index).filter(|begun| !begun.done) {
                let total = begun.total();
                begun.lost.insert(0, total);
                self.resend.insert(number);
                count(&mut self.counters.copied_bytes, total.into());
            }
        }
        if let Some(index) = self.stranded.take().and_then(|number| self.index(number)) {
            self.give_up(index, Outcome::Lost, events);
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
            self.release(waiting.bytes.len());
            self.finish(waiting.message, Outcome::Cancelled, events);
        }
    }
}
