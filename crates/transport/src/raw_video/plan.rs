//! Where the kernel is to put what it receives.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::net::SocketAddr;
use std::ops::Range;

/// The most that one message of `recvmmsg` brings: what the kernel has collected of a row of datagrams.
pub const MESSAGE_BYTES: usize = 65_535;
/// Messages of a call at most.
pub(super) const MESSAGES_MAX: usize = 32;
/// What the scratch memory has to have: headers and samples that have no place in front, and for each message what it may bring
/// beyond the plan. Only what is used is ever touched.
pub const SCRATCH_BYTES: usize = 2 * MESSAGES_MAX * TAIL_STRIDE;
/// Pieces of the scratch memory below this ascend within a plan, and so do those from here on.
pub const SCRATCH_MIDDLE: usize = MESSAGES_MAX * TAIL_STRIDE;
/// No power of two, so that the messages' tails do not fight for the same places of the cache.
const TAIL_STRIDE: usize = MESSAGE_BYTES + 1 + 192;
/// Pieces of a message at most (`UIO_MAXIOV` is 1,024), its tail aside.
const PIECES_MAX: usize = 1_000;

/// A run of bytes that the kernel writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Of the scratch memory.
    Scratch(Range<usize>),
    /// Of a frame's memory. Those of one frame ascend within a plan.
    Frame {
        /// The frame's memory, as [`super::Store`] has named it.
        slot: usize,
        /// The bytes of it.
        bytes: Range<usize>,
    },
}

/// What one message brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its bytes.
    pub bytes: usize,
    /// The size of its datagrams, but for the last one, which may be shorter; the same as `bytes` where there is one.
    pub datagram_bytes: usize,
    /// When it came.
    pub at: glassline_media::Time,
    /// The sender's address, where the system tells. The kernel collects datagrams of one sender alone.
    pub from: Option<SocketAddr>,
}

/// A packet that is expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Which one of the layout.
    pub(super) entry: usize,
    /// The number of the frame that it belongs to.
    pub(super) frame: u64,
    /// Where in the scratch memory its header is.
    pub(super) head_at: usize,
    /// Its samples are where they belong; otherwise they follow its header.
    pub(super) in_place: bool,
}

/// A message that is expected.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pieces: Range<usize>,
    aims: Range<usize>,
}

/// Messages, and where their bytes go. It is made anew for each call, and keeps its room.
#[derive(Debug, Default)]
pub struct Plan {
    pieces: Vec<Piece>,
    aims: Vec<Aim>,
    messages: Vec<Message>,
    /// The first byte of the scratch memory that is free for headers.
    free: usize,
    /// Of the message that is being planned.
    begun: (usize, usize),
    bytes: usize,
}

impl Plan {
    /// Messages.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// The pieces of a message, in the order in which they are filled.
    pub fn pieces(&self, message: usize) -> &[Piece] {
        self.messages.get(message).map_or(&[], |message| &self.pieces[message.pieces.clone()])
    }

    pub(super) fn aims(&self, message: usize) -> &[Aim] {
        self.messages.get(message).map_or(&[], |message| &self.aims[message.aims.clone()])
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.aims.clear();
        self.messages.clear();
        (self.free, self.bytes, self.begun) = (0, 0, (0, 0));
    }

    /// Whether a datagram of so many bytes and pieces still goes into the message that is being planned.
    pub(super) fn has_room(&self, bytes: usize, pieces: usize) -> bool {
        let planned = self.pieces.len().saturating_sub(self.begun.0);
        self.bytes.saturating_add(bytes) <= MESSAGE_BYTES && planned.saturating_add(pieces) <= PIECES_MAX
    }

    /// The next bytes go to the scratch memory. Returns where.
    pub(super) fn scratch(&mut self, bytes: usize) -> usize {
        let at = self.free;
        self.free = at.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        match self.pieces[self.begun.0..].last_mut() {
            Some(Piece::Scratch(last)) if last.end == at => last.end = self.free,
            _ => self.pieces.push(Piece::Scratch(at..self.free)),
        }
        at
    }

    /// The next bytes go to a frame.
    pub(super) fn frame(&mut self, slot: usize, bytes: Range<usize>) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        match self.pieces[self.begun.0..].last_mut() {
            Some(Piece::Frame { slot: last, bytes: end }) if *last == slot && end.end == bytes.start => {
                end.end = bytes.end;
            }
            _ => self.pieces.push(Piece::Frame { slot, bytes }),
        }
    }

    pub(super) fn aim(&mut self, aim: Aim) {
        self.aims.push(aim);
    }

    /// Ends a message: what it brings beyond the plan goes to the scratch memory.
    pub(super) fn end_message(&mut self) {
        let tail = MESSAGES_MAX.saturating_add(self.messages.len()).saturating_mul(TAIL_STRIDE);
        let beyond = MESSAGE_BYTES.saturating_sub(self.bytes);
        self.pieces.push(Piece::Scratch(tail..tail.saturating_add(beyond)));
        let (pieces, aims) = self.begun;
        self.messages.push(Message { pieces: pieces..self.pieces.len(), aims: aims..self.aims.len() });
        (self.begun, self.bytes) = ((self.pieces.len(), self.aims.len()), 0);
    }
}
