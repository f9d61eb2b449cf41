//! Socket ids that outlive the process, and the word to peers of which the connection does not.
//!
//! ```text
//! handshake: peer's id ──permutation──► our id          a later process: our id ──inverse──► peer's id ──► SHUTDOWN
//! ```
//! The peer of a server that was killed goes on sending to an id that the next process does not know. SRT has no message for that, so
//! the reference waits for five seconds until it gives such a connection up. Here our id of a connection is a keyed permutation of the
//! peer's. A process with the same key computes the peer's id from a packet for a connection that it does not have, and answers with
//! the SHUTDOWN (§3.2.7) that the former process could not send. This is what QUIC calls a stateless reset (RFC 9000 §10.3).

use super::packet::{Control, HEADER_BYTES, Kind, Packet};
use crate::subscriber::subscriber;
use glassline_media::Time;
use ring::hmac;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Rounds of the Feistel network; four make a permutation that chosen values and chosen results do not tell from a random one (Luby
/// and Rackoff, 1988).
const ROUNDS: u8 = 4;
/// The reference counts its ids below this, and so are ours for such peers.
const SMALL: u32 = 1 << 30;
/// Steps of cycle walking. Three of four steps end a walk of large ids: more than these come once in 2¹²⁸ ids.
const WALK_MAX: usize = 64;
/// Within this time an address with its port is answered once.
const RESET_APART: Duration = Duration::from_millis(100);
/// Answers within that time, and those of them to one network.
const RESETS_MAX: usize = 256;
const RESETS_OF_NETWORK: usize = 32;

/// A keyed permutation of socket ids.
pub(super) struct SocketIds(hmac::Key);

/// The key does not show.
impl fmt::Debug for SocketIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketIds")
    }
}

impl SocketIds {
    /// The permutation of a secret. Processes that have the same one have the same permutation.
    pub(super) fn new(secret: &[u8]) -> SocketIds {
        let text = [b"glassline srt socket ids".as_slice(), secret].concat();
        SocketIds(hmac::Key::new(hmac::HMAC_SHA256, &text))
    }

    /// Our id for the peer's id; `None` where that gives a number with a meaning of its own.
    pub(super) fn own(&self, peer: u32) -> Option<u32> {
        self.permute(peer, false)
    }

    /// The peer's id for an id of ours, whether there is such a connection or not.
    pub(super) fn peer(&self, own: u32) -> Option<u32> {
        self.permute(own, true)
    }

    /// Small ids are permuted among themselves. Others come of peers that use all 32 bits, which take any id: the walk goes on until
    /// it is outside of the small ones.
    fn permute(&self, id: u32, is_inverse: bool) -> Option<u32> {
        if !has_peer(id) {
            return None;
        }
        let permuted = if id < SMALL {
            self.feistel(id, 15, is_inverse)
        } else {
            let walk = std::iter::successors(Some(id), |id| Some(self.feistel(*id, 16, is_inverse)));
            walk.skip(1).take(WALK_MAX).find(|id| *id >= SMALL)?
        };
        has_peer(permuted).then_some(permuted)
    }

    /// A balanced Feistel network over twice `half_bits` bits.
    fn feistel(&self, id: u32, half_bits: u32, is_inverse: bool) -> u32 {
        let mask = (1u32 << half_bits) - 1;
        let (mut left, mut right) = (id >> half_bits & mask, id & mask);
        if is_inverse {
            for round in (0..ROUNDS).rev() {
                (left, right) = (right ^ self.round(round, half_bits, left) & mask, left);
            }
        } else {
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ self.round(round, half_bits, right) & mask);
            }
        }
        left << half_bits | right
    }

    fn round(&self, round: u8, half_bits: u32, half: u32) -> u32 {
        let [a, b, c, d] = half.to_be_bytes();
        let tag = hmac::sign(&self.0, &[round, half_bits as u8, a, b, c, d]);
        tag.as_ref().first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// 0 is a socket that is not agreed on yet, and the reference's mark of none is -1.
const fn has_peer(id: u32) -> bool {
    id != 0 && id != u32::MAX
}

/// How often peers of former connections are told: an answer is no longer than what it answers, and these bounds keep what strangers
/// can have sent, and looked for, small.
#[derive(Debug, Default)]
pub(super) struct Resets {
    recent: VecDeque<(SocketAddr, Time)>,
}

impl Resets {
    /// Whether `from` may be told now. If so, that is remembered.
    pub(super) fn allow(&mut self, now: Time, from: SocketAddr) -> bool {
        while self.recent.front().is_some_and(|(_, at)| now.since(*at) >= RESET_APART) {
            self.recent.pop_front();
        }
        let network = subscriber(from.ip());
        let of_network = self.recent.iter().filter(|(to, _)| subscriber(to.ip()) == network);
        let is_full = self.recent.len() >= RESETS_MAX || of_network.count() >= RESETS_OF_NETWORK;
        if is_full || self.recent.iter().any(|(to, _)| *to == from) {
            return false;
        }
        self.recent.push_back((from, now));
        true
    }
}

/// Whether a packet for an unknown connection is one that a peer sends while it believes in that, and long enough to be answered.
pub(super) fn wants_reset(packet: &Packet<'_>, bytes: usize) -> bool {
    let is_of_connection = match packet {
        Packet::Data(data) => !data.payload.is_empty(),
        Packet::Control(control) => matches!(
            control.kind,
            Kind::KeepAlive | Kind::Ack | Kind::LossReport | Kind::AckAck | Kind::DropRequest
        ),
    };
    is_of_connection && bytes >= RESET_BYTES
}

/// Bytes of a reset.
const RESET_BYTES: usize = HEADER_BYTES + 4;

/// The datagram that ends a connection at its peer.
pub(super) fn reset(peer: u32, timestamp: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(RESET_BYTES);
    Control { kind: Kind::Shutdown, information: 0, timestamp, destination: peer, body: &[] }.write(&mut out);
    out
}

#[cfg(test)]
#[path = "socket_ids_tests.rs"]
mod tests;
