//! A message of which parts have come. Its memory grows with what came and not with what was announced: a peer that
//! names a large message and sends a byte of it takes a byte, wherever in the message that byte stands.

use std::collections::BTreeMap;

use super::fec::Gathered;
use crate::link::ranges::Ranges;
use crate::link::steps::step;

/// The most separate parts of one message; a peer that sends more breaks the rules.
const MAX_PARTS: usize = 1 << 14;
/// What one costs beside its bytes: its entries here and at the channel.
const COST: u64 = 384;
/// What a part costs that is kept by itself, and a range of bytes that is known to be there.
const AHEAD_COST: u64 = 80;
const RANGE_COST: u64 = 32;

/// More separate parts than a sender makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyParts;

/// The parts of one message.
pub(super) struct Assembly {
    /// The message from its beginning on, with zeros where nothing has come yet.
    bytes: Vec<u8>,
    /// Parts that lie so far ahead that the zeros before them would be more than what came.
    ahead: BTreeMap<u32, Box<[u8]>>,
    ahead_bytes: u32,
    total: u32,
    came: u32,
    have: Ranges,
}

impl Assembly {
    /// Nothing yet of a message of `total` bytes, which will stand in `buffer` as far as that has room.
    pub(super) fn new(buffer: Vec<u8>, total: u32) -> Assembly {
        let (ahead, have) = (BTreeMap::new(), Ranges::default());
        Assembly { bytes: buffer, ahead, ahead_bytes: 0, total, came: 0, have }
    }

    /// The whole message's size.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Which bytes have come.
    pub(super) fn have(&self) -> &Ranges {
        &self.have
    }

    /// Whether all of them have.
    pub(super) fn is_whole(&self) -> bool {
        self.came == self.total
    }

    /// What it takes: its bytes, of which no more are counted than the message has, and what is kept beside them.
    pub(super) fn memory(&self) -> u64 {
        let bytes = (self.bytes.capacity() as u64).saturating_add(self.ahead_bytes.into());
        let ahead = AHEAD_COST.saturating_mul(self.ahead.len() as u64);
        let ranges = RANGE_COST.saturating_mul(self.have.count() as u64);
        COST.saturating_add(ahead).saturating_add(ranges).saturating_add(bytes.min(self.total.into()))
    }

    /// Adds a part, which ends within the message; gives how many of its bytes are new.
    #[inline]
    pub(super) fn insert(
        &mut self,
        offset: u32,
        part: &[u8],
        parity: Option<&mut Gathered>,
    ) -> Result<u32, TooManyParts> {
        if self.have.count() > MAX_PARTS {
            return Err(TooManyParts);
        }
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let end = offset.saturating_add(length);
        let before = parity.as_ref().map_or(0, |parity| parity.covered(&self.have, offset, end, self.total));
        let came = self.came;
        if offset as usize == self.bytes.len() && self.ahead.is_empty() {
            // All of it is new.
            self.have.insert(offset, end);
            self.came = self.came.saturating_add(length);
            self.put(offset, part);
        } else {
            self.insert_late(offset, end, part);
        }
        if let Some(parity) = parity {
            let after = parity.covered(&self.have, offset, end, self.total);
            parity.count_covered(after.saturating_sub(before));
        }
        Ok(self.came.saturating_sub(came))
    }

    fn insert_late(&mut self, offset: u32, end: u32, part: &[u8]) {
        let mut at = offset;
        loop {
            step();
            let gap = self.have.missing(at, end).next();
            let Some((start, stop)) = gap else { break };
            self.have.insert(start, stop);
            let count = stop.saturating_sub(start);
            self.came = self.came.saturating_add(count);
            let (from, to) = (start.saturating_sub(offset) as usize, stop.saturating_sub(offset) as usize);
            // A gap lies within the part.
            let Some(new) = part.get(from..to) else { break };
            if stop <= self.reach() {
                self.put(start, new);
            } else {
                self.ahead.insert(start, new.into());
                self.ahead_bytes = self.ahead_bytes.saturating_add(count);
            }
            at = stop;
        }
        let reach = self.reach();
        while let Some(first) = self.ahead.first_entry()
            && (*first.key() as usize).saturating_add(first.get().len()) <= reach as usize
        {
            step();
            let (start, bytes) = first.remove_entry();
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            self.ahead_bytes = self.ahead_bytes.saturating_sub(length);
            self.put(start, &bytes);
        }
    }

    /// How far the buffer may reach: no more of it is zeros than has come.
    fn reach(&self) -> u32 {
        self.came.saturating_mul(2).min(self.total)
    }

    /// Puts bytes into the buffer.
    #[inline]
    fn put(&mut self, start: u32, bytes: &[u8]) {
        let (start, length) = (start as usize, self.bytes.len());
        let end = start.saturating_add(bytes.len());
        if end > self.bytes.capacity() {
            let room = self.bytes.capacity().saturating_add(self.bytes.capacity() / 2);
            let room = end.max(room).max(self.reach() as usize).min(self.total as usize);
            self.bytes.reserve_exact(room.saturating_sub(length));
        }
        if start < length {
            let (known, new) = bytes.split_at(bytes.len().min(length.saturating_sub(start)));
            let place = start..start.saturating_add(known.len());
            self.bytes[place].copy_from_slice(known);
            self.bytes.extend_from_slice(new);
        } else {
            self.bytes.resize(start, 0);
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The message, all of which has come.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        debug_assert!(self.is_whole() && self.ahead.is_empty());
        self.bytes
    }

    /// The message, what is missing of which is made from `parity`; `None` if there is too little of that.
    pub(super) fn recover(&mut self, parity: &Gathered) -> Option<Vec<u8>> {
        if !parity.suffices(self.total) {
            return None;
        }
        while let Some((start, bytes)) = self.ahead.pop_first() {
            self.put(start, &bytes);
        }
        self.ahead_bytes = 0;
        parity.recover(&mut self.bytes, &self.have, self.total).then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes in whatever order: no more memory than a few times of it, and the message is what was sent.
        #[test]
        fn memory_is_taken_by_what_came(
            total in 1u32..200_000, parts in prop::collection::vec((any::<u32>(), 1u32..3000), 1..120),
        ) {
            let message: Vec<u8> = (0..total).map(|at| ((at * 31) >> 3) as u8).collect();
            let mut assembly = Assembly::new(Vec::new(), total);
            let mut new = 0;
            for (at, length) in parts {
                let start = at % total;
                let end = (start + length).min(total);
                new += assembly.insert(start, &message[start as usize..end as usize], None).unwrap();
                prop_assert!(assembly.bytes.capacity() as u32 <= 3 * new, "{} {}", assembly.bytes.capacity(), new);
                prop_assert!(assembly.ahead_bytes <= new);
                prop_assert_eq!(assembly.ahead_bytes as usize, assembly.ahead.values().map(|part| part.len()).sum::<usize>());
            }
            for (start, part) in (0..).step_by(1000).zip(message.chunks(1000)).collect::<Vec<_>>().into_iter().rev() {
                prop_assert!(!assembly.is_whole() || assembly.have().covers(total));
                new += assembly.insert(start, part, None).unwrap();
            }
            prop_assert_eq!(new, total);
            prop_assert!(assembly.is_whole());
            prop_assert_eq!(assembly.into_bytes(), message);
        }
    }

    #[test]
    fn a_byte_at_the_end_of_a_large_message_takes_little() {
        let mut assembly = Assembly::new(Vec::new(), 16 << 20);
        assert_eq!(assembly.insert((16 << 20) - 1, &[1], None), Ok(1));
        assert!(assembly.bytes.capacity() == 0 && assembly.memory() < 1000, "{}", assembly.memory());
        assert_eq!(assembly.insert((16 << 20) - 1, &[1], None), Ok(0));
        assert_eq!(assembly.memory(), COST + AHEAD_COST + RANGE_COST + 1);
    }
}
