//! Finds packet boundaries in bytes that were chopped anywhere.
//!
//! In: bytes as a socket gave them. Out: runs of whole packets, borrowed from the input wherever possible.

use super::packet::{PACKET_BYTES, SYNC_BYTE};
use serde::{Deserialize, Serialize};

/// Consecutive packet positions with a sync byte that are asked for after garbage.
const CONFIRMATIONS: usize = 3;
/// Bytes from a candidate to its last confirmation, inclusive.
const SPAN: usize = (CONFIRMATIONS - 1) * PACKET_BYTES + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    /// Nothing came yet: a sync byte in the first place is trusted.
    Start,
    /// Boundaries are known; `held` is the begun packet, shorter than a packet.
    Locked,
    /// Boundaries are looked for; `held` are the bytes that may still turn out as packets.
    Search,
}

/// Aligns a byte stream to 188-byte packets.
///
/// A stream that begins with a sync byte gives its first packet at once. After garbage, sync bytes at three
/// consecutive packet positions are demanded; from then on every packet's sync byte is checked, and a wrong one
/// starts the search again. Holds at most three packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Aligner {
    state: State,
    #[serde(with = "serde_bytes")]
    held: [u8; CONFIRMATIONS * PACKET_BYTES],
    held_bytes: usize,
    skipped_bytes: u64,
    resyncs: u64,
}

impl Default for Aligner {
    fn default() -> Self {
        Self::new()
    }
}

impl Aligner {
    /// An aligner before the first byte.
    pub const fn new() -> Aligner {
        Aligner {
            state: State::Start,
            held: [0; CONFIRMATIONS * PACKET_BYTES],
            held_bytes: 0,
            skipped_bytes: 0,
            resyncs: 0,
        }
    }

    /// Takes the next bytes and calls `whole` with each run of whole packets, in order: never empty, a multiple
    /// of 188 long, a sync byte at the head of each packet. Only a packet that lies across two pushes, and what
    /// confirmed a new lock, is copied.
    pub fn push(&mut self, mut bytes: &[u8], whole: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Start => {
                    self.state = if bytes[0] == SYNC_BYTE { State::Locked } else { State::Search };
                    bytes
                }
                State::Locked => self.push_locked(bytes, whole),
                State::Search => self.push_search(bytes, whole),
            };
        }
    }

    /// Whether packet boundaries are known.
    pub fn is_locked(&self) -> bool {
        self.state == State::Locked
    }

    /// Bytes that the packet lacks which has begun, if boundaries are known: 0 at a boundary.
    pub fn missing_bytes(&self) -> Option<usize> {
        let held = Some(self.held_bytes).filter(|_| self.is_locked())?;
        Some(if held == 0 { 0 } else { PACKET_BYTES.saturating_sub(held) })
    }

    /// Bytes dropped because they were no part of a packet.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// How often a lock was lost.
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// Forgets begun packets and the lock, as for a new connection; the counters stay.
    pub fn reset(&mut self) {
        self.state = State::Start;
        self.held_bytes = 0;
    }

    /// Gives what is whole, holds the rest; returns what follows a wrong sync byte (that byte included).
    fn push_locked<'a>(&mut self, mut bytes: &'a [u8], whole: &mut dyn FnMut(&[u8])) -> &'a [u8] {
        if self.held_bytes > 0 {
            let take = bytes.len().min(PACKET_BYTES - self.held_bytes);
            bytes = self.hold(bytes, take);
            if self.held_bytes < PACKET_BYTES {
                return bytes;
            }
            whole(&self.held[..PACKET_BYTES]);
            self.held_bytes = 0;
        }
        let (packets, _) = bytes.as_chunks::<PACKET_BYTES>();
        let run = packets.iter().take_while(|packet| packet[0] == SYNC_BYTE).count() * PACKET_BYTES;
        if run > 0 {
            whole(&bytes[..run]);
            bytes = &bytes[run..];
        }
        match bytes.first() {
            None => bytes,
            Some(&SYNC_BYTE) => self.hold(bytes, bytes.len()),
            Some(_) => {
                self.state = State::Search;
                self.resyncs += 1;
                bytes
            }
        }
    }

    /// Collects up to three packets' worth of bytes and looks for a confirmed boundary in them.
    fn push_search<'a>(&mut self, bytes: &'a [u8], whole: &mut dyn FnMut(&[u8])) -> &'a [u8] {
        let take = bytes.len().min(self.held.len() - self.held_bytes);
        let rest = self.hold(bytes, take);
        let held = &self.held[..self.held_bytes];
        let candidates = held.len().saturating_sub(SPAN - 1);
        let confirmed =
            |start: usize| (0..CONFIRMATIONS).all(|k| held[start + k * PACKET_BYTES] == SYNC_BYTE);
        let found = (0..candidates).find(|&start| confirmed(start));
        let drop = found.unwrap_or(candidates);
        self.skipped_bytes += drop as u64;
        self.held.copy_within(drop..self.held_bytes, 0);
        self.held_bytes -= drop;
        if found.is_some() {
            let run = self.held_bytes / PACKET_BYTES * PACKET_BYTES;
            whole(&self.held[..run]);
            self.held.copy_within(run..self.held_bytes, 0);
            self.held_bytes -= run;
            self.state = State::Locked;
        }
        rest
    }

    fn hold<'a>(&mut self, bytes: &'a [u8], take: usize) -> &'a [u8] {
        self.held[self.held_bytes..self.held_bytes + take].copy_from_slice(&bytes[..take]);
        self.held_bytes += take;
        &bytes[take..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(number: u8) -> Vec<u8> {
        let mut packet = vec![number; PACKET_BYTES];
        packet[0] = SYNC_BYTE;
        packet
    }

    fn collect(aligner: &mut Aligner, bytes: &[u8], chop: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for part in bytes.chunks(chop) {
            aligner.push(part, &mut |run| {
                assert!(!run.is_empty() && run.len().is_multiple_of(PACKET_BYTES));
                assert!(run.chunks(PACKET_BYTES).all(|packet| packet[0] == SYNC_BYTE));
                out.extend_from_slice(run);
            });
        }
        out
    }

    #[test]
    fn the_first_packet_does_not_wait_for_a_second() {
        let mut aligner = Aligner::new();
        assert_eq!(collect(&mut aligner, &packet(1), 188), packet(1));
        assert!(aligner.is_locked());
    }

    #[test]
    fn whole_runs_are_borrowed() {
        let bytes = [packet(1), packet(2), packet(3)].concat();
        let mut aligner = Aligner::new();
        aligner.push(&bytes, &mut |run| assert_eq!(run.as_ptr_range(), bytes.as_ptr_range()));
    }

    #[test]
    fn a_false_start_is_counted_and_found_again() {
        let mut bytes = vec![SYNC_BYTE; 1];
        bytes.extend([0u8; 300]);
        let good = [packet(1), packet(2), packet(3), packet(4)].concat();
        bytes.extend_from_slice(&good);
        let mut aligner = Aligner::new();
        let out = collect(&mut aligner, &bytes, 50);
        assert_eq!(out[PACKET_BYTES..], good);
        assert_eq!((aligner.resyncs(), aligner.skipped_bytes()), (1, 301 - PACKET_BYTES as u64));
    }

    proptest! {
        #[test]
        fn chops_do_not_matter(
            garbage in proptest::collection::vec(any::<u8>().prop_filter("no sync", |b| *b != SYNC_BYTE), 0..900),
            count in 3u8..20, chop in 1usize..700,
        ) {
            let good: Vec<u8> = (0..count).flat_map(|k| packet(k & 0x3f)).collect();
            let bytes = [&garbage[..], &good[..]].concat();
            let mut aligner = Aligner::new();
            prop_assert_eq!(collect(&mut aligner, &bytes, chop), good);
            prop_assert_eq!(aligner.skipped_bytes(), garbage.len() as u64);
            prop_assert!(aligner.is_locked());
        }

        #[test]
        fn every_byte_is_given_skipped_or_held(bytes in proptest::collection::vec(
            prop_oneof![Just(SYNC_BYTE), any::<u8>()], 0..4000), chop in 1usize..500,
        ) {
            let mut aligner = Aligner::new();
            let out = collect(&mut aligner, &bytes, chop);
            let counted = out.len() + aligner.skipped_bytes() as usize + aligner.held_bytes;
            prop_assert_eq!(counted, bytes.len());
        }
    }
}
