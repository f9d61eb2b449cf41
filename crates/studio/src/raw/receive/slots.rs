//! The memory of frames that are being received.

use super::memory::{FrameMemory, FramePool};
use glassline_media::pixels::FrameUnpacker;
use glassline_transport::raw_video::{Piece, Plan, SCRATCH_MIDDLE, Store};
use std::ops::Range;

/// Frames that a depacketizer may have open, and some more.
const SLOTS: usize = 20;

/// Frames by the numbers that the depacketizer knows them by.
pub(super) struct Slots {
    pool: FramePool,
    frames: [Option<FrameMemory>; SLOTS],
    unpacker: Option<FrameUnpacker>,
}

impl Slots {
    /// Without an unpacker, frames are of pgroups.
    pub(super) fn new(pool: FramePool, unpacker: Option<FrameUnpacker>) -> Slots {
        Slots { pool, frames: std::array::from_fn(|_| None), unpacker }
    }

    /// Gives a frame's memory away.
    pub(super) fn take(&mut self, slot: usize) -> Option<FrameMemory> {
        self.frames.get_mut(slot)?.take()
    }

    /// Frames that are free.
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
            .frames
            .each_mut()
            .map(|frame| Ascending::of(frame.as_mut().map_or(&mut [], FrameMemory::packed_mut), 0));
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
        let slot = self.frames.iter().position(Option::is_none)?;
        self.frames[slot] = Some(self.pool.take()?);
        Some(slot)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.frames[slot].as_mut().map_or(&mut [], FrameMemory::packed_mut)
    }

    fn takes_aim(&self) -> bool {
        self.unpacker.is_none() && self.pool.has_bytes()
    }

    fn write(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        if let Some(frame) = &mut self.frames[slot] {
            frame.write(at, bytes, self.unpacker.as_mut());
        }
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

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
