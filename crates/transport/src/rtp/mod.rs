//! RTP (RFC 3550): the packet, which source's are taken, the order of packets, reports (RTCP), MPEG-TS in them (RFC 2250), PCM sound
//! (RFC 3190, ST 2110-30), coded pictures and sound ([`coded`]), and the sessions of these ([`session`]).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |V=2|P|X|  CC   |M|     PT      |       sequence number         |
//! |                           timestamp                           |
//! |           synchronization source (SSRC) identifier            |
//! |      contributing source (CSRC) identifiers, CC of them       |
//! | X: |      profile's own        |     length in 32-bit words    |
//! | X: |                    header extension …                     |
//! |                           payload …                           |
//! | P: |                                      padding … |  length  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
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

pub mod coded;
pub mod mpeg_ts;
mod mpeg_ts_framer;
pub mod pcm;
mod reorder;
pub mod rtcp;
mod sequence;
pub mod session;
pub mod source;
pub mod statistics;

pub use mpeg_ts_framer::Framer;
pub use reorder::{Counters, Reorder, Settings};
pub(crate) use sequence::distance;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bytes of a header without contributing sources and extension.
pub const HEADER_BYTES: usize = 12;

/// Why a datagram is no RTP packet that we take.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It ends inside a header.
    #[error("an RTP packet of {found} bytes, where its header takes {expected}")]
    Short {
        /// Bytes of the datagram.
        found: usize,
        /// Bytes up to the payload.
        expected: usize,
    },
    /// Another version than 2: no RTP at all.
    #[error("version {found} where RTP says 2: no RTP packet")]
    Version {
        /// The version.
        found: u8,
    },
    /// Its padding is empty or longer than what it could pad.
    #[error("{found} bytes of padding in an RTP payload of {room}")]
    Padding {
        /// What its last byte says.
        found: u8,
        /// Bytes between header and end.
        room: usize,
    },
    /// Another payload than MPEG-TS.
    #[error("payload type {found} where MPEG-TS has 33")]
    PayloadType {
        /// The payload type.
        found: u8,
    },
    /// A payload that is no row of whole TS packets.
    #[error("an RTP payload of {bytes} bytes that are no whole MPEG-TS packets")]
    Payload {
        /// Its length.
        bytes: usize,
    },
}

/// The fixed part of a header (RFC 3550 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its meaning is the payload type's business; with MPEG-TS: the time stamp jumps here.
    pub marker: bool,
    /// What is carried, 7 bits.
    pub payload_type: u8,
    /// One more with each packet, modulo 2¹⁶.
    pub sequence: u16,
    /// In ticks of the payload type's clock, modulo 2³²; 90 kHz for MPEG-TS.
    pub timestamp: u32,
    /// The synchronization source: names the sender that counts and stamps.
    pub ssrc: u32,
}

impl Header {
    /// The header of a packet without padding, extension and contributing sources.
    pub fn write(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = 2 << 6;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7F;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// A packet, parsed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fixed part of its header.
    pub header: Header,
    /// The contributing sources, at most 15.
    pub contributing: &'a [[u8; 4]],
    /// The header extension: what the profile says, and its 32-bit words.
    pub extension: Option<(u16, &'a [[u8; 4]])>,
    /// What it carries, without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// [`Error::Version`] where it is no RTP, [`Error::Short`] and [`Error::Padding`] where it contradicts itself.
    pub fn parse(datagram: &'a [u8]) -> Result<Packet<'a>, Error> {
        let short = |expected| Error::Short { found: datagram.len(), expected };
        let Some((fixed, rest)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(short(HEADER_BYTES));
        };
        let [first, second, s0, s1, t0, t1, t2, t3, source @ ..] = *fixed;
        if first >> 6 != 2 {
            return Err(Error::Version { found: first >> 6 });
        }
        let header = Header {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7F,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes(source),
        };
        let words = |bytes: &'a [u8], count: usize, at: usize| {
            let length = count.saturating_mul(4);
            let end = at.saturating_add(length);
            let (words, rest) = bytes.split_at_checked(length).ok_or(short(end))?;
            Ok((words.as_chunks::<4>().0, rest, end))
        };
        let (contributing, rest, at) = words(rest, usize::from(first & 0x0F), HEADER_BYTES)?;
        let (extension, payload) = if first & 0x10 == 0 {
            (None, rest)
        } else {
            let (head, rest, at) = words(rest, 1, at)?;
            let Some(&[p0, p1, l0, l1]) = head.first() else { return Err(short(at)) };
            let (extension, rest, _) = words(rest, usize::from(u16::from_be_bytes([l0, l1])), at)?;
            (Some((u16::from_be_bytes([p0, p1]), extension)), rest)
        };
        let padding = if first & 0x20 == 0 { None } else { Some(payload.last().copied().unwrap_or(0)) };
        let payload = match padding {
            None => payload,
            Some(found) => {
                let wrong = Error::Padding { found, room: payload.len() };
                let end = payload.len().checked_sub(found.into()).filter(|_| found > 0).ok_or(wrong)?;
                payload.get(..end).ok_or(wrong)?
            }
        };
        Ok(Packet { header, contributing, extension, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        marker: true,
        payload_type: 33,
        sequence: 0xABCD,
        timestamp: 0x0123_4567,
        ssrc: 0x89AB_CDEF,
    };

    #[test]
    fn a_header_is_what_the_rfc_draws() {
        let bytes = HEADER.write();
        assert_eq!(bytes, [0x80, 0xA1, 0xAB, 0xCD, 1, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet, Packet { header: HEADER, contributing: &[], extension: None, payload: &[] });
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let with = |first: u8, rest: &[u8]| {
            let mut bytes = [&HEADER.write()[..], rest].concat();
            bytes[0] = first;
            Packet::parse(&bytes).map(|packet| packet.payload.len())
        };
        assert_eq!(Packet::parse(&[0x80; 11]), Err(Error::Short { found: 11, expected: 12 }));
        assert_eq!(with(0x47, &[]), Err(Error::Version { found: 1 }));
        assert_eq!(with(0x83, &[0; 11]), Err(Error::Short { found: 23, expected: 24 }));
        assert_eq!(with(0x90, &[0; 3]), Err(Error::Short { found: 15, expected: 16 }));
        assert_eq!(with(0x90, &[0, 0, 0, 2, 0, 0, 0, 0]), Err(Error::Short { found: 20, expected: 24 }));
        assert_eq!(with(0xA0, &[]), Err(Error::Padding { found: 0, room: 0 }));
        assert_eq!(with(0xA0, &[1, 0]), Err(Error::Padding { found: 0, room: 2 }));
        assert_eq!(with(0xA0, &[1, 3]), Err(Error::Padding { found: 3, room: 2 }));
        assert_eq!(with(0xA0, &[1, 2]), Ok(0));
    }

    proptest! {
        #[test]
        fn what_is_put_in_is_read_out(
            marker: bool, payload_type in 0u8..128, sequence: u16, timestamp: u32, ssrc: u32,
            contributing in prop::collection::vec(any::<[u8; 4]>(), 0..16),
            extension in prop::option::of((any::<u16>(), prop::collection::vec(any::<[u8; 4]>(), 0..20))),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            padding in 0u8..50,
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let mut bytes = header.write().to_vec();
            bytes[0] |= contributing.len() as u8 | u8::from(extension.is_some()) << 4 | u8::from(padding > 0) << 5;
            bytes.extend(contributing.iter().flatten());
            if let Some((profile, words)) = &extension {
                bytes.extend(profile.to_be_bytes());
                bytes.extend((words.len() as u16).to_be_bytes());
                bytes.extend(words.iter().flatten());
            }
            bytes.extend(&payload);
            bytes.extend((0..padding).map(|index| if index + 1 == padding { padding } else { 0 }));
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!(packet.header, header);
            prop_assert_eq!(packet.contributing, &contributing[..]);
            let expected = extension.as_ref().map(|(profile, words)| (*profile, &words[..]));
            prop_assert_eq!(packet.extension, expected);
            prop_assert_eq!(packet.payload, &payload[..]);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() <= bytes.len() - HEADER_BYTES);
            }
        }
    }
}
