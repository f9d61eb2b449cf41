//! The continuity counters of all PIDs (13818-1 §2.4.3.3): how loss shows.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::packet::{NULL_PID, Packet};
use serde::{Deserialize, Serialize};

/// What a packet's counter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// The PID's first packet.
    First,
    /// The counter follows.
    Continuous,
    /// The counter repeats: the packet before was sent a second time, which is allowed once.
    Duplicate,
    /// The counter may be anything, since the packet announces a discontinuity.
    Signalled {
        /// It is what it would be without one: nothing needs to be missing.
        follows: bool,
    },
    /// Packets are missing or out of order.
    Lost {
        /// The counter that would have followed.
        expected: u8,
        /// The counter found.
        found: u8,
    },
    /// The counter of this packet means nothing: null packets, and those with the transport error bit.
    Unchecked,
}

const UNKNOWN: u8 = 0xff;
const REPEATED: u8 = 0x10;

/// Follows the counters of all PIDs. 24 KiB; a few ns a packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContinuityChecker {
    /// Per PID: [`UNKNOWN`], or the last counter with [`REPEATED`] where a duplicate was seen.
    #[serde(with = "serde_bytes")]
    last: Box<[u8]>,
    /// Per PID, a fingerprint of the last payload: a packet with the same counter and another payload is not its
    /// duplicate but comes after a multiple of 16 lost packets, or from a source that began anew.
    payloads: Box<[u16]>,
    errors: u64,
}

impl Default for ContinuityChecker {
    fn default() -> Self {
        Self::new()
    }
}

impl ContinuityChecker {
    /// A checker that has seen nothing.
    pub fn new() -> ContinuityChecker {
        let pids = usize::from(NULL_PID) + 1;
        ContinuityChecker { last: vec![UNKNOWN; pids].into(), payloads: vec![0; pids].into(), errors: 0 }
    }

    /// Takes the next packet of the stream. Packets without payload must repeat the counter, others raise it by
    /// one; a packet that repeats counter and payload is a [`Continuity::Duplicate`] the first time and an error after
    /// that.
    #[inline]
    pub fn check(&mut self, packet: &Packet<'_>) -> Continuity {
        if packet.pid == NULL_PID || packet.transport_error {
            return Continuity::Unchecked;
        }
        let slot = &mut self.last[usize::from(packet.pid)];
        let last = *slot;
        let found = packet.continuity;
        let mut next = found;
        let payload = &mut self.payloads[usize::from(packet.pid)];
        let same_payload = !packet.has_payload || {
            let before = std::mem::replace(payload, fingerprint(packet.payload));
            before == *payload
        };
        let step = u8::from(packet.has_payload);
        let expected = (last & 0x0f).wrapping_add(step) & 0x0f;
        let verdict = if last == UNKNOWN {
            Continuity::First
        } else if packet.discontinuity() {
            Continuity::Signalled { follows: found == expected }
        } else if found == expected {
            next |= if packet.has_payload { 0 } else { last & REPEATED };
            Continuity::Continuous
        } else if packet.has_payload && same_payload && found == last & 0x0f && last & REPEATED == 0 {
            next |= REPEATED;
            Continuity::Duplicate
        } else {
            self.errors = self.errors.saturating_add(1);
            Continuity::Lost { expected, found }
        };
        *slot = next;
        verdict
    }

    /// Whether `packet` may come next: its counter follows that of the last one on its PID, or means nothing, or may be anything.
    /// A packet that is sent twice does not.
    pub fn follows(&self, packet: &Packet<'_>) -> bool {
        let step = u8::from(packet.has_payload);
        let is_next = |last: u8| packet.continuity == last.wrapping_add(step) & 0x0f;
        packet.pid == NULL_PID
            || packet.transport_error
            || packet.discontinuity()
            || self.last(packet.pid).is_none_or(is_next)
    }

    /// How many packets gave [`Continuity::Lost`].
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// The last counter seen on `pid`, if any was.
    pub fn last(&self, pid: u16) -> Option<u8> {
        let last = *self.last.get(usize::from(pid))?;
        (last != UNKNOWN).then_some(last & 0x0f)
    }

    /// Forgets all counters; the count of errors stays.
    pub fn reset(&mut self) {
        self.last.fill(UNKNOWN);
    }
}

/// 16 bits of a payload's length, head and tail: enough to tell apart what a coder gives.
#[inline]
fn fingerprint(payload: &[u8]) -> u16 {
    let (head, tail) = match (payload.first_chunk(), payload.last_chunk()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => (payload.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)), 0),
    };
    let mixed = head ^ tail.rotate_left(29) ^ payload.len() as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::ts::discontinuity_packet;

    fn check(checker: &mut ContinuityChecker, pid: u16, continuity: u8) -> Continuity {
        let mut bytes = [0; 188];
        bytes[..4].copy_from_slice(&[0x47, (pid >> 8) as u8, pid as u8, 0x10 | continuity]);
        checker.check(&Packet::parse(&bytes).unwrap())
    }

    #[test]
    fn duplicates_are_allowed_once() {
        let mut checker = ContinuityChecker::new();
        assert_eq!(check(&mut checker, 5, 15), Continuity::First);
        assert_eq!(check(&mut checker, 5, 0), Continuity::Continuous);
        assert_eq!(check(&mut checker, 5, 0), Continuity::Duplicate);
        assert_eq!(check(&mut checker, 5, 0), Continuity::Lost { expected: 1, found: 0 });
        assert_eq!(check(&mut checker, 5, 3), Continuity::Lost { expected: 1, found: 3 });
        assert_eq!(check(&mut checker, NULL_PID, 3), Continuity::Unchecked);
        assert_eq!(checker.errors(), 2);
        assert_eq!(checker.last(5), Some(3));
    }

    #[test]
    fn the_same_counter_with_another_payload_is_loss() {
        let mut bytes = [0; 188];
        bytes[..4].copy_from_slice(&[0x47, 0, 5, 0x13]);
        let mut checker = ContinuityChecker::new();
        checker.check(&Packet::parse(&bytes).unwrap());
        bytes[187] = 1;
        let again = checker.check(&Packet::parse(&bytes).unwrap());
        assert_eq!(again, Continuity::Lost { expected: 4, found: 3 });
    }

    #[test]
    fn a_signalled_jump_is_no_error() {
        let mut checker = ContinuityChecker::new();
        check(&mut checker, 5, 1);
        let jump = discontinuity_packet(5, 9);
        assert_eq!(checker.check(&Packet::parse(&jump).unwrap()), Continuity::Signalled { follows: false });
        assert_eq!(check(&mut checker, 5, 10), Continuity::Continuous);
        assert_eq!(checker.errors(), 0);
    }
}
