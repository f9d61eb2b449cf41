//! Room for messages that come, kept from those that the application has taken and dropped: fresh pages from the system
//! would cost as much as the message's way through the kernel.
//!
//! Large messages have a buffer each ([`Spares`]), small ones that come in quick succession stand in blocks one behind the
//! other ([`Blocks`]). Both let go of what they keep when no more comes.

use bytes::{Bytes, BytesMut};
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The least size of a message of which the buffer is kept for the next one.
const LARGE: usize = 256 << 10;
/// How many are kept at most: one that the application still has, one that is free.
const MAX_SPARES: usize = 2;
/// For how long, while no large message comes, and no more small ones than a block has.
pub(super) const SPARE_LIFE: Duration = Duration::from_secs(1);

/// Buffers of large messages.
#[derive(Default)]
pub(super) struct Spares {
    messages: VecDeque<Bytes>,
    /// When they go, if there are any.
    until: Time,
}

impl Spares {
    /// An empty buffer for a message of `size` bytes, if there is one that the application does not hold.
    pub(super) fn take(&mut self, size: usize) -> Vec<u8> {
        let most = size.saturating_add(size / 2);
        let fits = |spare: &Bytes| (size..=most).contains(&spare.len()) && spare.is_unique();
        let Some(mut spare) = self.messages.iter().position(fits).and_then(|at| self.messages.remove(at))
        else {
            return Vec::new();
        };
        // What has no bytes is turned into its buffer without being moved.
        spare.truncate(0);
        Vec::from(spare)
    }

    /// The application will get this message, and may be done with it soon.
    pub(super) fn keep(&mut self, now: Time, message: &Bytes) {
        if message.len() < LARGE {
            return;
        }
        if self.messages.len() >= MAX_SPARES {
            self.messages.pop_front();
        }
        self.messages.push_back(message.clone());
        self.until = now + SPARE_LIFE;
    }

    /// Lets go of what exceeds `room` bytes.
    pub(super) fn shrink_to(&mut self, room: u64) {
        while self.bytes() > room {
            self.messages.pop_front();
        }
    }

    /// Bytes of buffers that the application does not hold.
    pub(super) fn bytes(&self) -> u64 {
        self.messages.iter().filter(|spare| spare.is_unique()).map(|spare| spare.len() as u64).sum()
    }

    /// Bytes of all of them, those that the application has among them.
    #[inline]
    pub(super) fn kept_bytes(&self) -> u64 {
        self.messages.iter().map(|spare| spare.len() as u64).sum()
    }

    /// When [`Spares::expire`] has something to do.
    pub(super) fn until(&self) -> Time {
        if self.messages.is_empty() { Time::NEVER } else { self.until }
    }

    pub(super) fn expire(&mut self, now: Time) {
        if self.until() <= now {
            self.messages = VecDeque::new();
        }
    }
}

/// Bytes of a block: little beside what another one costs, and beside what stays allocated where the application keeps
/// a single message of it.
const BLOCK: usize = 16 << 10;
/// Blocks of which the messages may still be with the application: what two reads of a socket give.
const MAX_BLOCKS: usize = 64;
/// Larger messages have a buffer of their own.
const SMALL: usize = BLOCK / 8;
/// More than a block within this time is quick succession.
const SPELL: Duration = Duration::from_millis(100);

/// Blocks in which small messages stand one behind the other, each free again when all its messages are dropped.
pub(super) struct Blocks {
    /// How many there may be beside the one that is being filled.
    most: usize,
    /// What is left of the block that is being filled.
    rest: BytesMut,
    /// Ends of full blocks, the oldest first.
    full: VecDeque<BytesMut>,
    /// When this spell began, and how much has come in it.
    began: Time,
    came: usize,
    /// When they go, if there are any.
    until: Time,
}

impl Blocks {
    /// None yet, and never more than `limit` bytes of them.
    pub(super) fn new(limit: u64) -> Blocks {
        let blocks = (usize::try_from(limit).unwrap_or(usize::MAX) / BLOCK).min(MAX_BLOCKS);
        // One of them is being filled.
        let most = blocks.saturating_sub(1);
        let (rest, full) = (BytesMut::new(), VecDeque::new());
        Blocks { most, rest, full, began: Time::ZERO, came: 0, until: Time::ZERO }
    }

    /// A copy of `bytes`: some messages end to end.
    #[inline]
    pub(super) fn copy(&mut self, now: Time, bytes: &[u8]) -> BytesMut {
        if self.rest.capacity() < bytes.len() && !self.begin_block(now, bytes.len()) {
            return BytesMut::from(bytes);
        }
        self.rest.extend_from_slice(bytes);
        self.rest.split()
    }

    /// Begins a block for `size` bytes, if so much comes that this is worth while.
    fn begin_block(&mut self, now: Time, size: usize) -> bool {
        if size > SMALL {
            return false;
        }
        if now > self.began + SPELL {
            (self.began, self.came) = (now, 0);
        }
        self.came = self.came.saturating_add(size);
        if self.came < BLOCK {
            return false;
        }
        if self.rest.capacity() > 0 {
            self.full.push_back(std::mem::take(&mut self.rest));
        }
        // The application takes the oldest messages first.
        let is_free = self.full.front_mut().is_some_and(|oldest| oldest.try_reclaim(BLOCK));
        let is_many = self.full.len() > self.most;
        let oldest = if is_free || is_many { self.full.pop_front() } else { None };
        self.rest = oldest.filter(|_| is_free).unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
        self.until = now + SPARE_LIFE;
        true
    }

    /// Bytes of all blocks, those of which the application has messages among them.
    pub(super) fn bytes(&self) -> u64 {
        let filling = usize::from(self.rest.capacity() > 0);
        self.full.len().saturating_add(filling).saturating_mul(BLOCK) as u64
    }

    /// When [`Blocks::expire`] has something to do.
    pub(super) fn until(&self) -> Time {
        if self.rest.capacity() == 0 && self.full.is_empty() { Time::NEVER } else { self.until }
    }

    pub(super) fn expire(&mut self, now: Time) {
        if self.until() <= now {
            (self.rest, self.full) = (BytesMut::new(), VecDeque::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn blocks_are_used_again_once_their_messages_are_dropped() {
        let mut blocks = Blocks::new(1 << 20);
        let (mut places, mut held) = (BTreeSet::new(), VecDeque::new());
        for number in 0..10_000u32 {
            let message = number.to_be_bytes().repeat(50);
            let copied = blocks.copy(Time::from_nanos(u64::from(number) * 1000), &message).freeze();
            assert_eq!(copied, message);
            // The first ones stand by themselves, wherever other threads' memory leaves room.
            if blocks.bytes() > 0 {
                places.insert(copied.as_ptr() as usize / BLOCK);
            }
            held.push_back((number, copied));
            if held.len() > 500 {
                // What has come meanwhile has not touched it.
                let (number, taken) = held.pop_front().unwrap();
                assert_eq!(taken, number.to_be_bytes().repeat(50));
            }
        }
        // 500 messages of 200 bytes and what is free beside them.
        assert!(blocks.bytes() <= 10 * BLOCK as u64, "{}", blocks.bytes());
        assert!(places.len() <= 40, "{}", places.len());
    }

    #[test]
    fn what_is_kept_for_messages_to_come_has_a_bound_and_an_end() {
        let limit = 10 * BLOCK as u64;
        let (mut blocks, mut held) = (Blocks::new(limit), Vec::new());
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            held.push(blocks.copy(now, &[7; 1000]));
            assert!(blocks.bytes() <= limit);
            now += Duration::from_micros(10);
        }
        assert!(blocks.until() <= now + SPARE_LIFE);
        blocks.expire(blocks.until());
        assert_eq!((blocks.bytes(), blocks.until()), (0, Time::NEVER));
        assert!(held.iter().all(|message| message[..] == [7; 1000]));
    }

    #[test]
    fn messages_that_come_now_and_then_share_nothing() {
        let mut blocks = Blocks::new(1 << 20);
        for number in 0..1000 {
            drop(blocks.copy(Time::from_millis(number * 20), &[1; 1000]));
            drop(blocks.copy(Time::from_millis(number * 20), &[1; SMALL + 1]));
        }
        assert_eq!((blocks.bytes(), blocks.until()), (0, Time::NEVER));
    }
}
