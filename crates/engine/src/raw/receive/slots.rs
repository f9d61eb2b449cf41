//! The memory of frames that are being received.

use glassline_io::pages::{Block, Pool};
use glassline_media::Memory;
use glassline_transport::raw_video::{Piece, Plan, SCRATCH_MIDDLE, Store};
use std::ops::Range;

/// Frames that a depacketizer may have open, and some more.
const SLOTS: usize = 20;

/// Frames by the numbers that the depacketizer knows them by.
pub(super) struct Slots {
    pool: Pool,
    blocks: [Option<Block>; SLOTS],
}

impl Slots {
    pub(super) fn new(pool: Pool) -> Slots {
        Slots { pool, blocks: std::array::from_fn(|_| None) }
    }

    /// Gives a frame's memory away.
    pub(super) fn take(&mut self, slot: usize) -> Option<Block> {
        self.blocks.get_mut(slot)?.take()
    }

    /// Frames that nobody holds.
    pub(super) fn free(&self) -> usize {
        self.pool.free()
    }

    /// Lends the pieces of a plan, one after the other, to `push`; `end` is called behind each message.
    pub(super) fn lend<'a, T>(
        &'a mut self,
        scratch: &'a mut [u8],
        plan: &Plan,
        batch: &mut T,
        mut push: impl FnMut(&mut T, &'a mut [u8]),
        mut end: impl FnMut(&mut T),
    ) {
        let (heads, tails) = scratch.split_at_mut(SCRATCH_MIDDLE);
        let (mut heads, mut tails) = (Ascending::of(heads, 0), Ascending::of(tails, SCRATCH_MIDDLE));
        let mut frames = self
            .blocks
            .each_mut()
            .map(|block| Ascending::of(block.as_mut().map_or(&mut [], Block::bytes_mut), 0));
        for message in 0..plan.messages() {
            for piece in plan.pieces(message) {
                let bytes = match piece {
                    Piece::Scratch(range) if range.start < SCRATCH_MIDDLE => heads.take(range),
                    Piece::Scratch(range) => tails.take(range),
                    Piece::Frame { slot, bytes } => frames[*slot].take(bytes),
                };
                push(batch, bytes);
            }
            end(batch);
        }
    }
}

impl Store for Slots {
    fn open(&mut self) -> Option<usize> {
        let slot = self.blocks.iter().position(Option::is_none)?;
        self.blocks[slot] = Some(self.pool.take()?);
        Some(slot)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.blocks[slot].as_mut().map_or(&mut [], Block::bytes_mut)
    }
}

/// Memory that is lent from its beginning to its end.
struct Ascending<'a> {
    rest: &'a mut [u8],
    /// Where `rest` begins.
    at: usize,
}

impl<'a> Ascending<'a> {
    fn of(rest: &'a mut [u8], at: usize) -> Ascending<'a> {
        Ascending { rest, at }
    }

    /// The bytes of `range`, which begins no earlier than the last one has ended.
    fn take(&mut self, range: &Range<usize>) -> &'a mut [u8] {
        let rest = std::mem::take(&mut self.rest);
        let (_, rest) = rest.split_at_mut(range.start - self.at);
        let (bytes, rest) = rest.split_at_mut(range.len());
        (self.rest, self.at) = (rest, range.end);
        bytes
    }
}
