//! ADTS frames around AAC (ISO/IEC 13818-7 §6.2).
//!
//! ```text
//! fff:12 │ id:1 layer:2 no_crc:1 │ profile:2 rate:4 private:1 channels:3 … │ length:13 │ fullness:11 │ blocks:2
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

/// Samples of each channel in one block of a frame.
pub const SAMPLES_PER_BLOCK: u32 = 1024;
/// Bytes of a header without checksum.
pub const HEADER_BYTES: usize = 7;

/// Sample rates by their index (ISO/IEC 14496-3 table 1.18).
pub(crate) const RATES_HZ: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// The header of an ADTS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// MPEG-4 audio object type, 1 to 4; 2 is low complexity.
    pub object_type: u8,
    /// Samples a second.
    pub rate_hz: u32,
    /// `channel_configuration`, 0 to 7.
    pub channels: u8,
    /// A checksum of two bytes follows the header.
    pub checksum: bool,
    /// Bytes of the whole frame, header included; at least those of the header.
    pub frame_bytes: usize,
    /// Blocks of 1,024 samples, 1 to 4.
    pub blocks: u8,
}

impl Header {
    /// Parses the header at the beginning of `bytes`; `None` where fewer than seven bytes are there, or none of
    /// a frame.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let &[a, b, c, d, e, f, g] = bytes.first_chunk::<HEADER_BYTES>()?;
        if a != 0xff || b & 0xf6 != 0xf0 {
            return None;
        }
        let checksum = b & 1 == 0;
        let frame_bytes = usize::from(d & 3) << 11 | usize::from(e) << 3 | usize::from(f >> 5);
        if frame_bytes < overhead(checksum) {
            return None;
        }
        Some(Header {
            object_type: (c >> 6).saturating_add(1),
            rate_hz: *RATES_HZ.get(usize::from(c >> 2 & 0xf))?,
            channels: (c & 1) << 2 | d >> 6,
            checksum,
            frame_bytes,
            blocks: (g & 3).saturating_add(1),
        })
    }

    /// Samples of each channel in the frame.
    pub const fn samples(&self) -> u32 {
        SAMPLES_PER_BLOCK.saturating_mul(self.blocks as u32)
    }

    /// The seven bytes of the header, buffer fullness "variable"; `None` where a field does not fit. A checksum
    /// is not written.
    pub fn write(&self) -> Option<[u8; HEADER_BYTES]> {
        let rate = rate_index(self.rate_hz)?;
        let fits = (1..=4).contains(&self.object_type)
            && self.channels < 8
            && (HEADER_BYTES..1 << 13).contains(&self.frame_bytes)
            && (1..=4).contains(&self.blocks)
            && !self.checksum;
        let length = u16::try_from(self.frame_bytes).ok()?;
        let ([high, middle], [_, low]) = ((length >> 3).to_be_bytes(), (length << 5).to_be_bytes());
        fits.then(|| {
            [
                0xff,
                0xf1,
                self.object_type.saturating_sub(1) << 6 | rate << 2 | self.channels >> 2,
                (self.channels & 3) << 6 | high,
                middle,
                low | 0x1f,
                0xfc | self.blocks.saturating_sub(1),
            ]
        })
    }

    /// Bytes before the coded block: the header and its checksum.
    pub const fn overhead_bytes(&self) -> usize {
        overhead(self.checksum)
    }
}

const fn overhead(checksum: bool) -> usize {
    if checksum { HEADER_BYTES + 2 } else { HEADER_BYTES }
}

pub(super) fn rate_index(rate_hz: u32) -> Option<u8> {
    u8::try_from(RATES_HZ.iter().position(|&rate| rate == rate_hz)?).ok()
}

/// Iterates over the whole frames of `bytes`, each with its header; ends at the first byte that is none of a
/// frame, and at one that is cut off.
pub fn frames(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = Header::parse(rest)?;
        let (frame, tail) = rest.split_at_checked(header.frame_bytes)?;
        rest = tail;
        Some((header, frame))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_survives(
            object_type in 1u8..=4, rate in 0..RATES_HZ.len(), channels in 0u8..8, bytes in 7usize..8192, blocks in 1u8..=4,
        ) {
            let rate_hz = RATES_HZ[rate];
            let header = Header { object_type, rate_hz, channels, checksum: false, frame_bytes: bytes, blocks };
            prop_assert_eq!(Header::parse(&header.write().unwrap()), Some(header));
        }

        #[test]
        fn hostile_bytes_end(bytes in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(0xf1), any::<u8>()], 0..400)) {
            prop_assert!(frames(&bytes).count() <= bytes.len() / HEADER_BYTES);
        }
    }

    #[test]
    fn a_frame_that_is_cut_off_ends_it() {
        let header = Header {
            object_type: 2,
            rate_hz: 48_000,
            channels: 2,
            checksum: false,
            frame_bytes: 20,
            blocks: 1,
        };
        let mut bytes = header.write().unwrap().to_vec();
        bytes.resize(25, 0);
        assert_eq!(frames(&bytes).count(), 1);
    }
}
