//! Where a transport stream goes on that comes from another server than before, or from the same one again.
//!
//! Servers give on the same bytes, each from its newest key frame to a client that comes. Part of that has been here already: it is known
//! by hashes of the last packets, and passed over. So what follows continues what was before without a gap and without a repetition; only
//! where bytes are missing in between it does not ([`Piece::Anew`]).
//!
//! ```text
//! Through ─► begin ─► Searching ─► Matching ─► Through     (the first packet of a picture is known, and so are those behind it)
//!                         └────────────┴─────► Through     (it is not, or one of those is another: anew)
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::collections::VecDeque;

/// Bytes of a packet (ISO/IEC 13818-1 §2.4.3.2).
const PACKET: usize = 188;
/// Packets that are known again: 6 MB of stream, in 256 kB.
const PACKETS_MAX: usize = 32_768;
/// Packets in front of the first picture or sound of what comes: tables, and those of streams without a beginning.
const FRONT_MAX: usize = 256;
/// Bytes that have been known again and are kept, for what comes behind them may be another stream: a key frame interval of 16 Mbit/s.
const MATCHED_MAX_BYTES: usize = 2 << 20;

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// They are new, and follow what was before.
    Data(&'a [u8]),
    /// What comes next does not continue what was before.
    Anew,
}

#[derive(Debug)]
enum State {
    Through,
    /// No packet has been known yet; those in front of the first picture or sound are kept.
    Searching {
        front: Vec<u8>,
    },
    /// So many of the known packets, from the oldest on, are in front of the next that comes. The `front` is kept still, and behind its
    /// first `tables` bytes what has been known: without the key frame nothing of what follows could be shown if it is another stream.
    Matching {
        at: usize,
        front: Vec<u8>,
        tables: usize,
    },
}

/// See the module. Bytes of each connection have to begin with a packet.
#[derive(Debug)]
pub struct Splice {
    /// Hashes of the last packets that were passed on, the newest last.
    known: VecDeque<u64>,
    /// What has been passed on of the packet behind them.
    tail: Vec<u8>,
    state: State,
    /// Bytes of a packet that is not whole yet, while it is not clear what becomes of it.
    input: Vec<u8>,
}

impl Default for Splice {
    fn default() -> Splice {
        Splice { known: VecDeque::new(), tail: Vec::new(), state: State::Through, input: Vec::new() }
    }
}

impl Splice {
    /// Another connection begins.
    pub fn begin(&mut self) {
        self.input.clear();
        // Without anything before there is nothing to continue.
        self.state = match self.known.is_empty() && self.tail.is_empty() {
            true => State::Through,
            false => State::Searching { front: Vec::new() },
        };
    }

    /// Takes bytes of the connection, in any chop, and emits what becomes of them.
    pub fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        while !matches!(self.state, State::Through) && !bytes.is_empty() {
            let missing = PACKET.saturating_sub(self.input.len());
            let (packet, rest) = bytes.split_at(missing.min(bytes.len()));
            self.input.extend_from_slice(packet);
            bytes = rest;
            if self.input.len() == PACKET {
                let packet = std::mem::take(&mut self.input);
                self.judge(&packet, emit);
            }
        }
        if !bytes.is_empty() {
            self.pass(bytes, emit);
        }
    }

    fn pass(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        emit(Piece::Data(bytes));
        let mut rest = bytes;
        while !rest.is_empty() {
            let missing = PACKET.saturating_sub(self.tail.len());
            let (more, behind) = rest.split_at(missing.min(rest.len()));
            rest = behind;
            if self.tail.is_empty() && more.len() == PACKET {
                self.know(hash(more));
                continue;
            }
            self.tail.extend_from_slice(more);
            if self.tail.len() == PACKET {
                let hash = hash(&self.tail);
                self.tail.clear();
                self.know(hash);
            }
        }
    }

    fn know(&mut self, hash: u64) {
        if self.known.len() >= PACKETS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(hash);
    }

    fn judge(&mut self, packet: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        match std::mem::replace(&mut self.state, State::Through) {
            State::Through => self.pass(packet, emit),
            State::Searching { mut front } => {
                let is_late = front.len() >= FRONT_MAX.saturating_mul(PACKET);
                if !begins_unit(packet) && !is_late {
                    front.extend_from_slice(packet);
                    self.state = State::Searching { front };
                    return;
                }
                let sought = hash(packet);
                match self.known.iter().rposition(|known| *known == sought) {
                    Some(at) => {
                        let tables = front.len();
                        front.extend_from_slice(packet);
                        self.state = State::Matching { at: at.saturating_add(1), front, tables };
                    }
                    None => self.begin_anew(&front, packet, emit),
                }
            }
            State::Matching { at, mut front, tables } => match self.known.get(at) {
                Some(known) if *known == hash(packet) => {
                    let is_kept = front.len() > tables;
                    if front.len().saturating_sub(tables) >= MATCHED_MAX_BYTES {
                        front.truncate(tables);
                        front.shrink_to_fit();
                    } else if is_kept {
                        front.extend_from_slice(packet);
                    }
                    self.state = State::Matching { at: at.saturating_add(1), front, tables };
                }
                None if packet.starts_with(&self.tail) => {
                    let (_, rest) = packet.split_at(self.tail.len());
                    self.pass(rest, emit);
                }
                _ => self.begin_anew(&front, packet, emit),
            },
        }
    }

    fn begin_anew(&mut self, front: &[u8], packet: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        self.known.clear();
        self.tail.clear();
        emit(Piece::Anew);
        if !front.is_empty() {
            self.pass(front, emit);
        }
        self.pass(packet, emit);
    }
}

/// Whether a picture or a piece of sound begins in the packet: a PES packet does (ISO/IEC 13818-1 §2.4.3.6).
fn begins_unit(packet: &[u8]) -> bool {
    let [_, second, _, fourth, ..] = packet else { return false };
    let adaptation = if fourth & 0x20 == 0 {
        0
    } else {
        packet.get(4).map_or(0, |length| usize::from(*length).saturating_add(1))
    };
    let payload = packet.get(adaptation.saturating_add(4)..).unwrap_or_default();
    second & 0x40 != 0 && fourth & 0x10 != 0 && payload.starts_with(&[0, 0, 1])
}

/// A mix of all bytes. What another server gives is trusted as much as what it gives on; none has to be kept from finding two alike.
fn hash(packet: &[u8]) -> u64 {
    let (words, rest) = packet.as_chunks::<8>();
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 32
    };
    let hash = words.iter().fold(0x2545_F491_4F6C_DD1D, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
