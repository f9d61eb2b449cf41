//! Metacube2: how live streams travel between Cubemap, VLC, Nageru and their kin. Pure: bytes in any chop come
//! in, blocks go out, and back.
//!
//! A stream is a row of blocks, so that a relay knows where headers are and where a viewer may begin. The
//! format is that of the published `metacube2.h`; all numbers are big-endian.
//!
//! ```text
//!  0                8            12       14       16
//!  ├─ "cube!map" ───┼─ size u32 ─┼─ flags ┼─ CRC16 ┼─ size bytes …
//!
//! flags  1  header: what every viewer needs first
//!        2  not suitable for a stream's start
//!        4  metadata: for relays, not for viewers; its CRC is inverted, so that old readers pass over it
//!
//! metadata  type u64 ─┬─ 1: seconds u64, nanoseconds u64 (the encoder's wall clock)
//!                     └─ 2: PTS i64, time base numerator u64, denominator u64 (of the next block)
//! ```
//! Over HTTP a response says `Content-Encoding: metacube`; nothing is negotiated, the address decides.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod reader;

pub use reader::{Event, Reader};

use glassline_media::Utc;

/// What stands in front of each block's bytes.
pub const HEADER_BYTES: usize = 16;
/// The coding's name in `Content-Encoding`.
pub const CONTENT_CODING: &str = "metacube";

const SYNC: &[u8; 8] = b"cube!map";
const TIMESTAMP: u64 = 1;
const NEXT_BLOCK_PTS: u64 = 2;
const NANOS: u64 = 1_000_000_000;

/// What a block is, as its header says it. Bits that are not known are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Bytes of the stream at which a viewer may begin.
    pub const NONE: Flags = Flags(0);
    /// What every viewer needs before the first byte of the stream.
    pub const HEADER: Flags = Flags(1);
    /// Bytes of the stream at which no viewer may begin.
    pub const NOT_SUITABLE_FOR_STREAM_START: Flags = Flags(2);
    /// For relays, not for viewers.
    pub const METADATA: Flags = Flags(4);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What relays tell each other beside the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metadata {
    /// The encoder's wall clock when it wrote this.
    EncoderTimestamp(Utc),
    /// The presentation time of the block that follows, in units of `timebase_num / timebase_den` seconds.
    NextBlockPts {
        /// The time stamp.
        pts: i64,
        /// The time base's numerator.
        timebase_num: u64,
        /// The time base's denominator.
        timebase_den: u64,
    },
}

impl Metadata {
    /// The longest payload of a kind that is known, in bytes.
    const MAX_BYTES: usize = 32;

    /// A metadata block's payload; `None` where its type is not known or its length not that of its type.
    pub fn parse(payload: &[u8]) -> Option<Metadata> {
        let (words, rest) = payload.as_chunks::<8>();
        if !rest.is_empty() {
            return None;
        }
        let word = |index: usize| u64::from_be_bytes(words[index]);
        match (words.first().map(|kind| u64::from_be_bytes(*kind))?, words.len()) {
            (TIMESTAMP, 3) if word(2) < NANOS => Some(Metadata::EncoderTimestamp(Utc::from_nanos(
                word(1).checked_mul(NANOS)?.checked_add(word(2))?,
            ))),
            (NEXT_BLOCK_PTS, 4) => Some(Metadata::NextBlockPts {
                pts: word(1).cast_signed(),
                timebase_num: word(2),
                timebase_den: word(3),
            }),
            _ => None,
        }
    }
}

/// The header of a block of `size` bytes, which are to follow it.
pub fn header(size: u32, flags: Flags) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(SYNC);
    header[8..12].copy_from_slice(&size.to_be_bytes());
    header[12..14].copy_from_slice(&flags.0.to_be_bytes());
    header[14..].copy_from_slice(&checksum(size, flags).to_be_bytes());
    header
}

/// Appends `bytes` as one block, or as several where they are 4 GiB or more.
pub fn write_block(bytes: &[u8], flags: Flags, out: &mut Vec<u8>) {
    for part in bytes.chunks(u32::MAX as usize) {
        let size = u32::try_from(part.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&header(size, flags));
        out.extend_from_slice(part);
    }
}

/// Appends a metadata block.
pub fn write_metadata(metadata: Metadata, out: &mut Vec<u8>) {
    let words = match metadata {
        Metadata::EncoderTimestamp(at) => vec![TIMESTAMP, at.as_nanos() / NANOS, at.as_nanos() % NANOS],
        Metadata::NextBlockPts { pts, timebase_num, timebase_den } => {
            vec![NEXT_BLOCK_PTS, pts.cast_unsigned(), timebase_num, timebase_den]
        }
    };
    let payload: Vec<u8> = words.into_iter().flat_map(u64::to_be_bytes).collect();
    write_block(&payload, Flags::METADATA, out);
}

/// The CRC of size and flags: polynomial 0x8FDB, the register begins at 0x1234 and the message is followed by 16
/// zero bits; inverted for metadata. About 60 steps, once a block.
fn checksum(size: u32, flags: Flags) -> u16 {
    let message = u64::from(size) << 32 | u64::from(flags.0) << 16;
    let register = (0..u64::BITS).rev().fold(0x1234_u16, |register, bit| {
        let shifted = register << 1 | (message >> bit & 1) as u16;
        if register & 0x8000 == 0 { shifted } else { shifted ^ 0x8FDB }
    });
    if flags.has(Flags::METADATA) { !register } else { register }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_that_cubemap_writes() {
        // Taken from what Cubemap 1.4.3 sends.
        assert_eq!(header(564, Flags::NONE), *b"cube!map\x00\x00\x02\x34\x00\x00\x7e\x6e");
        assert_eq!(header(30, Flags::HEADER), *b"cube!map\x00\x00\x00\x1e\x00\x01\xa2\x9b");
    }

    #[test]
    fn a_metadata_blocks_checksum_is_inverted() {
        let plain = checksum(24, Flags::NONE);
        assert_ne!(checksum(24, Flags::METADATA), plain);
        let message = u64::from(24u32) << 32 | 4 << 16;
        let bits = (0..64).rev().fold(0x1234_u32, |register, bit| {
            let shifted = register << 1 | (message >> bit & 1) as u32;
            if shifted & 0x1_0000 == 0 { shifted } else { shifted ^ 0x1_8FDB }
        });
        assert_eq!(u32::from(!checksum(24, Flags::METADATA)), bits);
    }

    #[test]
    fn metadata_of_a_wrong_length_or_value_is_none() {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let good = Metadata::parse(&words(&[1, 1_790_000_000, 5]));
        assert_eq!(good, Some(Metadata::EncoderTimestamp(Utc::from_nanos(1_790_000_000_000_000_005))));
        for bad in [
            words(&[]),
            words(&[1]),
            words(&[1, 2]),
            words(&[1, 2, NANOS]),
            words(&[1, u64::MAX, 0]),
            words(&[1, 2, 3, 4]),
            words(&[2, 1, 2]),
            words(&[3, 1, 2]),
            [words(&[1, 2, 3]), vec![0]].concat(),
        ] {
            assert_eq!(Metadata::parse(&bad), None, "{bad:?}");
        }
    }
}
