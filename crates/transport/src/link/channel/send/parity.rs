//! Parity of reliable messages. It leaves when nothing else waits, so it takes nothing of what messages need; and what it may make
//! good is not sent again.
//!
//! A part that is lost is *gone* while as many shards of parity have left as shards are gone, and none of those is lost: the message
//! may be whole at the other end, which the acknowledgements tell. Once more is gone than that, the rest is sent again, as on a
//! channel without parity. A shard of parity that has not left when a loss is known is worth no more than that part itself.

use bytes::Bytes;

use super::{Begun, Conditions, Parity, SMALL, Sender, Written, length_of};
use crate::counter::count;
use crate::link::MAX_PATHS;
use crate::link::wire::frame;

/// Parity of a message all of which has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    message: u64,
    /// The message's bytes.
    pub(crate) bytes: u32,
    /// How many shards there are,
    pub(crate) count: u32,
    /// and the bytes of each.
    pub(crate) shard: u32,
    /// Bytes of the message that each path has carried, by its number.
    pub(crate) carried: [u64; MAX_PATHS],
    /// It stands for copies that would not have left in time.
    pub(crate) is_for_copies: bool,
}

impl Due {
    /// The shard of this number, as a part to write.
    pub(crate) fn part(&self, index: u32) -> Written {
        Written { message: self.message, offset: index, length: self.shard, again: false, parity: true }
    }
}

impl Sender {
    /// How many shards of parity for each hundred of a message leave before the next message does. Those of reliable messages
    /// do not.
    pub(crate) fn parity_ahead(&self, lossy: bool) -> u8 {
        if self.options.reliable { 0 } else { self.options.fec.percent(lossy) }
    }

    /// How many shards of parity there are for each hundred of a message that begins now.
    pub(super) fn parity_share(&self, lossy: bool, parity: bool) -> u8 {
        if self.options.reliable && !parity { 0 } else { self.options.fec.percent(lossy) }
    }

    /// Parity of a message that begins. A reliable one of which copies leave in time needs none.
    pub(super) fn parity_of(&self, bytes: &[u8], twice: bool, on: &Conditions<'_>) -> Option<Parity> {
        let percent = self.parity_share(on.lossy, on.parity);
        if self.options.reliable && percent > 0 {
            let is_small = bytes.len() <= SMALL;
            let is_copied = on.copy_room.is_some_and(|room| is_small || twice && bytes.len() as u64 <= room);
            if is_copied || is_small && !on.copies.is_empty() {
                return None;
            }
        }
        let mut parity = Parity::of(bytes, percent, on.whole)?;
        parity.is_for_copies = twice && self.options.reliable && on.copy_room.is_some();
        Some(parity)
    }

    /// The parity of the reliable message of which `part` is the last that leaves for the first time.
    pub(crate) fn parity_due(&self, part: Written) -> Option<Due> {
        let begun = self.begun.get(self.index(part.message)?)?;
        let parity = begun.parity.as_ref().filter(|_| self.options.reliable && self.is_last(part))?;
        Some(Due {
            message: part.message,
            bytes: part.end(),
            count: length_of(&parity.pieces),
            shard: parity.shard,
            carried: parity.carried(),
            is_for_copies: parity.is_for_copies,
        })
    }

    /// Whether a part was the last of its message that left for the first time.
    pub(crate) fn is_last(&self, part: Written) -> bool {
        let begun = self.index(part.message).and_then(|index| self.begun.get(index));
        !part.again && !part.parity && begun.is_some_and(|begun| part.end() == begun.total())
    }

    /// Whether a shard of parity that waits is still of use.
    pub(crate) fn is_parity_wanted(&self, part: Written) -> bool {
        let begun = self.index(part.message).and_then(|index| self.begun.get(index));
        let begun = begun.filter(|begun| !begun.done);
        begun.is_some_and(|begun| begun.parity.as_ref().is_some_and(|parity| parity.is_wanted(begun.total())))
    }

    /// Writes a shard of parity of a reliable message. `Some(false)`: it does not fit into `room` bytes, but into `whole`. `None`: it
    /// does not matter any more, or fits into no packet.
    pub(crate) fn write_parity_shard(
        &mut self,
        part: Written,
        room: usize,
        whole: usize,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        if !self.is_parity_wanted(part) {
            return None;
        }
        let (index, shard) = (self.index(part.message)?, part.offset as usize);
        let begun = self.begun.get_mut(index)?;
        let frame = begun.parity_frame(self.id, part.message, shard).filter(|frame| frame.size() <= whole)?;
        if frame.size() > room {
            return Some(false);
        }
        frame.write(out);
        let parity = begun.parity.as_mut()?;
        parity.sent = parity.sent.saturating_add(1);
        // It leaves once: what is lost then is sent again itself.
        if let Some(piece) = parity.pieces.get_mut(shard) {
            *piece = Bytes::new();
        }
        count(&mut self.counters.parity_bytes, part.length.into());
        Some(true)
    }

    /// A part of a reliable message with parity is lost, or a shard of that parity is.
    pub(super) fn lose_part(&mut self, index: usize, part: Written) {
        let begun = &mut self.begun[index];
        if part.parity {
            if let Some(parity) = &mut begun.parity {
                parity.lost = parity.lost.saturating_add(1);
            }
        } else {
            // What waits to be sent again is not gone.
            let missing: Vec<_> = begun.acked.missing(part.offset, part.end()).collect();
            let gone = missing.into_iter().flat_map(|(start, end)| begun.lost.missing(start, end));
            let gone: Vec<_> = gone.collect();
            for (start, end) in gone {
                begun.change(start..end, |_, gone| _ = gone.insert(start, end));
            }
        }
        let total = begun.total();
        while let Some((start, end)) = begun.parity.as_ref().and_then(|parity| parity.first_in_vain(total)) {
            begun.change(start..end, |_, gone| gone.remove(start, end));
            begun.lost.insert(start, end);
        }
        if !begun.lost.is_empty() {
            self.resend.insert(self.number(index));
        }
    }
}

impl Begun {
    /// The frame of a shard of its parity, if that has not been let go of.
    pub(super) fn parity_frame(&self, channel: u8, message: u64, index: usize) -> Option<frame::Parity<'_>> {
        let parity = self.parity.as_ref()?;
        Some(frame::Parity {
            channel,
            message,
            packed: self.packed,
            total: self.total(),
            count: length_of(&parity.pieces),
            index: u32::try_from(index).ok()?,
            bytes: parity.pieces.get(index).filter(|piece| !piece.is_empty())?,
        })
    }
}

#[cfg(test)]
#[path = "parity_tests.rs"]
mod tests;
