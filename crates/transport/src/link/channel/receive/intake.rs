//! Handles frames of messages: whole messages, rows of them, parts and parity.

use crate::counter::count;
use bytes::Bytes;
use glassline_media::Time;

use super::{Overrun, Part, Receiver, Whole};
use crate::link::Compression;
use crate::link::channel::assembly::Assembly;
use crate::link::channel::fec::Gathered;
use crate::link::wire::frame::{Data, Parity};
use crate::link::wire::row::Row;

impl Receiver {
    /// Takes a part of a message. `true`: the application has something to take that it had not before.
    #[inline]
    pub(crate) fn handle_data(&mut self, now: Time, data: &Data<'_>) -> Result<bool, Overrun> {
        self.handle_part(now, data, false)
    }

    /// Takes a part of a message that is compressed.
    pub(crate) fn handle_packed(&mut self, now: Time, data: &Data<'_>) -> Result<bool, Overrun> {
        if self.options.compression == Compression::None {
            return Err(Overrun);
        }
        self.handle_part(now, data, true)
    }

    #[inline]
    fn handle_part(&mut self, now: Time, data: &Data<'_>, packed: bool) -> Result<bool, Overrun> {
        if data.bytes.len() == data.total as usize {
            if !self.admit_part(data.message, data.total, data.bytes.len())? {
                return Ok(false);
            }
            let bytes = self.copy(now, data.message, data.bytes);
            return self.handle_whole(now, data.message, Whole { bytes, packed, first: now, last: now });
        }
        // One of which parts have come is wanted, and has its room.
        if !self.parts.contains_key(&data.message) {
            if !self.admit_part(data.message, data.total, data.bytes.len())? {
                return Ok(false);
            }
            self.hold_part(now, data.message, data.total, packed);
        }
        match self.gather(now, data, packed)? {
            Some(whole) => {
                self.spares.keep(now, &whole.bytes);
                self.complete(now, data.message, whole)
            }
            None => self.bounded(false),
        }
    }

    /// A copy of a message. Those that the application gets next share blocks, since it takes them in their order; one that
    /// waits for others would keep a block for itself.
    #[inline]
    fn copy(&mut self, now: Time, message: u64, bytes: &[u8]) -> Bytes {
        if message == self.next || !self.options.ordered {
            self.blocks.copy(now, bytes).freeze()
        } else {
            Bytes::copy_from_slice(bytes)
        }
    }

    /// Takes a message that came in one piece and is wanted.
    #[inline]
    fn handle_whole(&mut self, now: Time, message: u64, whole: Whole) -> Result<bool, Overrun> {
        if !self.parts.is_empty() {
            self.forget(message);
        }
        self.complete(now, message, whole)
    }

    /// Takes whole messages in a row.
    pub(crate) fn handle_row(&mut self, now: Time, row: &Row<'_>) -> Result<bool, Overrun> {
        let count = u64::from(row.count);
        if row.first == self.next && self.is_even() && row.first.saturating_add(count) <= self.limit() {
            // Nothing is missing before them, and none of them has come.
            let mut all = self.blocks.copy(now, row.bytes);
            for (message, length) in (row.first..).zip(row.lengths()) {
                // Each message is counted with its own delivery: a later one of the row may be refused.
                if length > self.options.max_size as usize || length > all.len() {
                    return Err(Overrun);
                }
                let bytes = all.split_to(length).freeze();
                self.deliver_next(message, Whole { bytes, packed: false, first: now, last: now });
            }
            return self.bounded(true);
        }
        let (mut readable, mut rest) = (false, row.bytes);
        for (message, length) in (row.first..).zip(row.lengths()) {
            let Some((bytes, after)) = rest.split_at_checked(length) else { break };
            rest = after;
            // A packet's messages have 16 bits of bytes at most.
            let total = u32::try_from(length).map_err(|_| Overrun)?;
            if self.admit_part(message, total, length)? {
                // By itself: others of the row may go long before this one.
                let bytes = Bytes::copy_from_slice(bytes);
                let whole = Whole { bytes, packed: false, first: now, last: now };
                readable |= self.handle_whole(now, message, whole)?;
            }
        }
        Ok(readable)
    }

    /// Takes a parity shard.
    pub(crate) fn handle_parity(&mut self, now: Time, parity: &Parity<'_>) -> Result<bool, Overrun> {
        let packed = parity.packed;
        if packed && self.options.compression == Compression::None {
            return Err(Overrun);
        }
        if !self.admit_part(parity.message, parity.total, parity.bytes.len())? {
            return Ok(false);
        }
        self.hold_part(now, parity.message, parity.total, packed);
        // The sender of a reliable message counts with all that was acknowledged: its parity is never left out, and one for
        // which there is no room is against the rules as a part would be.
        let room = self.options.reliable
            || self.held_bytes().saturating_add(parity.bytes.len() as u64) <= self.room();
        let Some(part) = self.parts.get_mut(&parity.message) else { return Ok(false) };
        let (total, shard) = (part.assembly.total(), u32::try_from(parity.bytes.len()).map_err(|_| Overrun)?);
        if part.parity.is_none() {
            let mut gathered = Gathered::new(total, shard, parity.count).ok_or(Overrun)?;
            gathered.count_covered(gathered.covered(part.assembly.have(), 0, total, total));
            part.parity = Some(Box::new(gathered));
        }
        let Some(gathered) = &mut part.parity else { return Ok(false) };
        if total != parity.total || part.packed != packed || !gathered.is_of(shard, parity.count) {
            return Err(Overrun);
        }
        if !room || !gathered.insert(parity.index, parity.bytes) {
            count(&mut self.counters.duplicate_bytes, shard.into());
        }
        match self.recover(now, parity.message) {
            Some(whole) => self.complete(now, parity.message, whole),
            None => {
                self.recount(parity.message);
                self.bounded(false)
            }
        }
    }

    /// Makes room for the number of a message of `total` bytes. Returns whether a part of it of `size` bytes is of use.
    #[inline]
    fn admit_part(&mut self, message: u64, total: u32, size: usize) -> Result<bool, Overrun> {
        if total > self.options.max_size {
            return Err(Overrun);
        }
        if message < self.next || self.is_over(message) {
            count(&mut self.counters.duplicate_bytes, size as u64);
            return Ok(false);
        }
        if message >= self.limit() {
            if self.options.reliable {
                return Err(Overrun);
            }
            // After a long outage of an unreliable channel the numbers may have run far ahead.
            self.go_on_to(message);
        }
        Ok(true)
    }

    /// Has a place for the parts of a message, if there is none yet.
    fn hold_part(&mut self, now: Time, message: u64, total: u32, packed: bool) {
        if self.parts.contains_key(&message) {
            return;
        }
        let assembly = Assembly::new(self.spares.take(total as usize), total);
        let counted = assembly.memory();
        self.held.add(counted);
        self.parts.insert(message, Part { assembly, packed, parity: None, since: now, counted });
        self.bound_open();
    }

    /// Adds a fragment of a message that is held; the message, if that completes it.
    fn gather(&mut self, now: Time, data: &Data<'_>, packed: bool) -> Result<Option<Whole>, Overrun> {
        let Some(part) = self.parts.get_mut(&data.message) else { return Ok(None) };
        if part.assembly.total() != data.total || part.packed != packed {
            return Err(Overrun);
        }
        let new = part.assembly.insert(data.offset, data.bytes, part.parity.as_deref_mut());
        let new = new.map_err(|_| Overrun)?;
        count(&mut self.counters.duplicate_bytes, (data.bytes.len() as u64).saturating_sub(new.into()));
        if part.assembly.is_whole() {
            let part = self.forget(data.message);
            return Ok(part.map(|part| {
                let bytes = Bytes::from(part.assembly.into_bytes());
                Whole { bytes, packed, first: part.since, last: now }
            }));
        }
        if part.parity.is_some()
            && let Some(whole) = self.recover(now, data.message)
        {
            return Ok(Some(whole));
        }
        self.recount(data.message);
        Ok(None)
    }

    /// A message of which parts have come takes more now.
    fn recount(&mut self, message: u64) {
        let Some(part) = self.parts.get_mut(&message) else { return };
        let parity = part.parity.as_ref().map_or(0, |parity| parity.memory());
        let counted = part.assembly.memory().saturating_add(parity);
        self.held.take(std::mem::replace(&mut part.counted, counted));
        self.held.add(counted);
        // What is kept for messages to come has the room that these leave.
        let left = self.room().saturating_sub(self.held_bytes());
        self.spares.shrink_to(left);
    }

    /// Makes what is missing of a message from its parity, if there is enough of it.
    fn recover(&mut self, now: Time, message: u64) -> Option<Whole> {
        let part = self.parts.get_mut(&message)?;
        let bytes = Bytes::from(part.assembly.recover(part.parity.as_ref()?)?);
        let (packed, first) = (part.packed, part.since);
        count(&mut self.counters.recovered, 1);
        self.forget(message);
        Some(Whole { bytes, packed, first, last: now })
    }
}
