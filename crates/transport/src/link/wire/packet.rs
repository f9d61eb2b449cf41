//! The outside of a datagram: what can be read without a key. docs/wire-link.md has the byte diagrams.

use super::varint::Reader;

/// The protocol's version, in every datagram of a handshake. Another one is a stranger's datagram.
pub const VERSION: u8 = 1;
/// Bytes before the sealed part of a data packet: flags, connection ID, the low half of the packet number.
pub const DATA_HEADER: usize = 13;
/// Bytes of the tag behind a data packet's sealed part (AES-128-GCM).
pub const TAG: usize = 16;
/// What a data packet takes beside its frames.
pub const DATA_OVERHEAD: usize = DATA_HEADER + TAG;
/// The least size of a Connect datagram: larger than any answer to it, so that a forged source gains nothing.
pub const CONNECT_SIZE: usize = 1200;
/// The largest datagram that is taken.
pub const MAX_DATAGRAM: usize = 65_535;
/// The longest token that a Retry may carry, bytes.
pub const MAX_TOKEN: usize = 128;

const FIXED: u8 = 0x40;
const KEY_PHASE: u8 = 0x20;
const CONNECT: u8 = 0x81;
const ACCEPT: u8 = 0x82;
const RETRY: u8 = 0x83;
const RESET: u8 = 0x84;

/// Names one end of a link in the datagrams that it receives; chosen by that end. 8 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Which Noise pattern a Connect follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `NNpsk0`: both ends hold one key.
    SharedKey,
    /// `IK`: key pairs; the end that connects knows the listener's public key.
    KeyPair,
}

impl Pattern {
    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Pattern::SharedKey => 0,
            Pattern::KeyPair => 1,
        }
    }
}

/// A datagram, as far as it is readable from outside. Nothing in it is authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Frames under the link's keys.
    Data {
        /// The receiver's connection ID.
        to: ConnectionId,
        /// Which of the two newest keys sealed it.
        key_phase: bool,
        /// The packet number's low 32 bits.
        number: u32,
    },
    /// The first datagram of a handshake.
    Connect(Connect<'a>),
    /// The answer to it.
    Accept {
        /// The ID that the Connect gave.
        to: ConnectionId,
        /// Noise's second message.
        noise: &'a [u8],
    },
    /// "Come again with this": proves that the source of a Connect is not forged.
    Retry {
        /// The ID that the Connect gave.
        to: ConnectionId,
        /// To be put into the next Connect.
        token: &'a [u8],
    },
    /// The listener has lost this link's state.
    Reset {
        /// The ID that a data packet bore and that the listener does not know.
        of: ConnectionId,
        /// The token that the listener gave in the handshake, by which it is believed.
        token: [u8; 16],
    },
}

/// A Connect's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The Noise pattern.
    pub pattern: Pattern,
    /// The ID that datagrams to the sender shall bear.
    pub from: ConnectionId,
    /// What a Retry gave, or nothing.
    pub token: &'a [u8],
    /// Noise's first message.
    pub noise: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a datagram's outside; `None` for what is none of ours. A Connect's and a Retry's gate (see
    /// [`super::super::secure`]) has to be taken off before: its bytes are not looked at here.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Option<Packet<'a>> {
        let mut reader = Reader::new(datagram);
        let first = reader.byte()?;
        if first & !KEY_PHASE == FIXED {
            let to = ConnectionId(u64::from_be_bytes(reader.array()?));
            let number = u32::from_be_bytes(reader.array()?);
            let sealed = reader.left() >= TAG;
            return sealed.then_some(Packet::Data { to, key_phase: first & KEY_PHASE != 0, number });
        }
        if reader.byte()? != VERSION {
            return None;
        }
        match first {
            CONNECT => {
                let pattern = match reader.byte()? {
                    0 => Pattern::SharedKey,
                    1 => Pattern::KeyPair,
                    _ => return None,
                };
                let from = ConnectionId(u64::from_be_bytes(reader.array()?));
                let token = usize::from(reader.byte()?);
                let token = reader.bytes(token).filter(|token| token.len() <= MAX_TOKEN)?;
                let noise = usize::from(u16::from_be_bytes(reader.array()?));
                Some(Packet::Connect(Connect { pattern, from, token, noise: reader.bytes(noise)? }))
            }
            ACCEPT => {
                let to = ConnectionId(u64::from_be_bytes(reader.array()?));
                Some(Packet::Accept { to, noise: reader.take_rest() })
            }
            RETRY => {
                let to = ConnectionId(u64::from_be_bytes(reader.array()?));
                let token = usize::from(reader.byte()?);
                let token = reader.bytes(token).filter(|token| token.len() <= MAX_TOKEN)?;
                Some(Packet::Retry { to, token })
            }
            RESET => {
                let of = ConnectionId(u64::from_be_bytes(reader.array()?));
                let token = reader.array()?;
                reader.is_empty().then_some(Packet::Reset { of, token })
            }
            _ => None,
        }
    }

    /// Whether `datagram` claims to be of a kind that has a gate at its end.
    pub fn is_gated(datagram: &[u8]) -> bool {
        matches!(datagram.first(), Some(&(CONNECT | RETRY)))
    }
}

/// Appends the clear part of a data packet: [`DATA_HEADER`] bytes.
#[inline]
pub fn write_data_header(to: ConnectionId, key_phase: bool, number: u64, out: &mut Vec<u8>) {
    out.push(FIXED | if key_phase { KEY_PHASE } else { 0 });
    out.extend_from_slice(&to.0.to_be_bytes());
    let [_, _, _, _, low @ ..] = number.to_be_bytes();
    out.extend_from_slice(&low);
}

/// The whole packet number that has `low` as its low half and is nearest to the one after `largest` (RFC 9000 appendix
/// A.3).
#[inline]
pub fn expand_number(low: u32, largest: Option<u64>) -> u64 {
    const WINDOW: u64 = 1 << 32;
    let expected = largest.map_or(0, |largest| largest.saturating_add(1));
    let candidate = (expected & !(WINDOW - 1)) | u64::from(low);
    if candidate.saturating_add(WINDOW / 2) <= expected && candidate < (1 << 62) - WINDOW {
        candidate.saturating_add(WINDOW)
    } else if candidate > expected.saturating_add(WINDOW / 2) {
        candidate.checked_sub(WINDOW).unwrap_or(candidate)
    } else {
        candidate
    }
}

/// A Connect without its gate, padded so that with the gate of `gate_bytes` it has [`CONNECT_SIZE`] bytes. A token
/// longer than [`MAX_TOKEN`] or a message longer than 65,535 bytes is cut, which no caller's is.
pub fn write_connect(connect: &Connect<'_>, gate_bytes: usize) -> Vec<u8> {
    let mut out = vec![CONNECT, VERSION, connect.pattern.code()];
    out.extend_from_slice(&connect.from.0.to_be_bytes());
    write_token(connect.token, &mut out);
    let length = u16::try_from(connect.noise.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(connect.noise.iter().take(length.into()));
    out.resize(out.len().max(CONNECT_SIZE.saturating_sub(gate_bytes)), 0);
    out
}

/// What both ends mix into the handshake as Noise's prologue: the Connect's clear bytes that must not be changed.
pub fn prologue(pattern: Pattern, from: ConnectionId) -> [u8; 11] {
    let mut bytes = [0; 11];
    bytes[..3].copy_from_slice(&[CONNECT, VERSION, pattern.code()]);
    bytes[3..].copy_from_slice(&from.0.to_be_bytes());
    bytes
}

/// An Accept around Noise's second message.
pub fn write_accept(to: ConnectionId, noise: &[u8]) -> Vec<u8> {
    let mut out = vec![ACCEPT, VERSION];
    out.extend_from_slice(&to.0.to_be_bytes());
    out.extend_from_slice(noise);
    out
}

/// A Retry without its gate.
pub fn write_retry(to: ConnectionId, token: &[u8]) -> Vec<u8> {
    let mut out = vec![RETRY, VERSION];
    out.extend_from_slice(&to.0.to_be_bytes());
    write_token(token, &mut out);
    out
}

/// Appends a token and its length; one longer than [`MAX_TOKEN`] is cut.
fn write_token(token: &[u8], out: &mut Vec<u8>) {
    let length = u8::try_from(token.len().min(MAX_TOKEN)).unwrap_or(u8::MAX);
    out.push(length);
    out.extend(token.iter().take(length.into()));
}

/// A Reset: 26 bytes, less than any data packet that it answers.
pub fn write_reset(of: ConnectionId, token: [u8; 16]) -> Vec<u8> {
    let mut out = vec![RESET, VERSION];
    out.extend_from_slice(&of.0.to_be_bytes());
    out.extend_from_slice(&token);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_is_read_as_it_was_written() {
        let (from, noise) = (ConnectionId(0x0102_0304_0506_0708), [7; 96]);
        let connect = Connect { pattern: Pattern::KeyPair, from, token: b"token", noise: &noise };
        let bytes = write_connect(&connect, 28);
        assert_eq!(bytes.len() + 28, CONNECT_SIZE);
        assert_eq!(Packet::parse(&bytes), Some(Packet::Connect(connect)));
        assert_eq!(bytes[..11], prologue(Pattern::KeyPair, from));
        assert_eq!(
            Packet::parse(&write_accept(from, &noise)),
            Some(Packet::Accept { to: from, noise: &noise })
        );
        assert_eq!(Packet::parse(&write_retry(from, b"t")), Some(Packet::Retry { to: from, token: b"t" }));
        let reset = write_reset(from, [9; 16]);
        assert_eq!(Packet::parse(&reset), Some(Packet::Reset { of: from, token: [9; 16] }));
        assert_eq!(Packet::parse(&[&reset[..], &[0]].concat()), None, "no byte too many");
        let mut data = Vec::new();
        write_data_header(from, true, 0x1_2345_6789, &mut data);
        assert_eq!(data.len(), DATA_HEADER);
        assert_eq!(Packet::parse(&data), None, "no room for a tag");
        data.extend([0; TAG]);
        let expected = Packet::Data { to: from, key_phase: true, number: 0x2345_6789 };
        assert_eq!(Packet::parse(&data), Some(expected));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..8) {
            let _ = Packet::parse(&bytes);
            let _ = Packet::parse(&[&[0x80 | kind, VERSION][..], &bytes].concat());
        }

        #[test]
        fn a_number_near_the_expected_one_is_whole_again(
            largest in 0u64..(1 << 60), delta in -(1i64 << 31) + 2..(1i64 << 31) - 2,
        ) {
            let number = largest.saturating_add_signed(delta);
            prop_assert_eq!(expand_number(number as u32, Some(largest)), number);
        }
    }
}
