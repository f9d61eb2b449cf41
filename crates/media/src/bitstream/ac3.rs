//! Frames of AC-3 and E-AC-3 (ETSI TS 102 366, ATSC A/52).
//!
//! ```text
//! AC-3    0b77:16 │ crc:16 │ rate:2 size:6 │ bsid:5 bsmod:3 │ acmod:3 [mix levels] lfe:1
//! E-AC-3  0b77:16 │ type:2 id:3 size:11 │ rate:2 blocks:2 acmod:3 lfe:1 │ bsid:5 …
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

use super::h264::BitReader;

/// Bytes of a header, as far as it is read.
pub const HEADER_BYTES: usize = 8;
/// Samples of each channel in a block.
const BLOCK_SAMPLES: u32 = 256;
/// Blocks of an access unit.
const UNIT_BLOCKS: u32 = 6;
/// Samples of each channel in an access unit.
pub const UNIT_SAMPLES: u32 = BLOCK_SAMPLES * UNIT_BLOCKS;

/// Thousands of bits a second by half of `frmsizecod` (table 4.13).
const BITRATES: [u16; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
/// Samples a second by `fscod`.
const RATES_HZ: [u32; 3] = [48_000, 44_100, 32_000];
/// Channels by `acmod`, without that of low frequencies.
const CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// E-AC-3, otherwise AC-3.
    pub enhanced: bool,
    /// Bytes of the whole frame.
    pub frame_bytes: usize,
    /// Samples a second.
    pub rate_hz: u32,
    /// `fscod`.
    pub rate_code: u8,
    /// Blocks of 256 samples, 1 to 6.
    pub blocks: u32,
    /// `bsid`.
    pub version: u8,
    /// `bsmod`; 0 in E-AC-3, which does not say it here.
    pub service: u8,
    /// `acmod`: which channels there are.
    pub channel_mode: u8,
    /// There is a channel of low frequencies.
    pub low_frequencies: bool,
    /// `frmsizecod` of AC-3 halved: the bit rate; 0 in E-AC-3.
    pub rate_index: u8,
    /// The number of the substream of E-AC-3; 0 of AC-3.
    pub substream: u8,
    /// The frame adds channels to the independent substream before it.
    pub dependent: bool,
}

impl Header {
    /// Parses the header at the beginning of `bytes`; `None` where fewer than eight bytes are there, or none of a frame.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let head = bytes.first_chunk::<HEADER_BYTES>()?;
        let &[0x0b, 0x77, _, _, e, f, g, _] = head else { return None };
        match f >> 3 {
            0..=10 => Header::parse_plain(e, f, g, head[7]),
            11..=16 => Header::parse_enhanced(head),
            _ => None,
        }
    }

    fn parse_plain(e: u8, f: u8, g: u8, h: u8) -> Option<Header> {
        let (rate_code, size) = (e >> 6, e & 0x3f);
        let rate_hz = *RATES_HZ.get(usize::from(rate_code))?;
        let rate_index = size >> 1;
        let bitrate = u32::from(*BITRATES.get(usize::from(rate_index))?).saturating_mul(1000);
        // In words of two bytes; at 44.1 kHz the odd codes are a word longer.
        let words = bitrate.saturating_mul(UNIT_SAMPLES / 16).checked_div(rate_hz)?;
        let longer = u32::from(rate_code == 1 && size & 1 == 1);
        let channel_mode = g >> 5;
        let head = [g, h];
        let mut bits = BitReader::new(&head);
        bits.bits(3)?;
        let levels = u32::from(channel_mode & 1 != 0 && channel_mode != 1)
            .saturating_add(u32::from(channel_mode & 4 != 0))
            .saturating_add(u32::from(channel_mode == 2));
        bits.bits(levels.saturating_mul(2))?;
        Some(Header {
            enhanced: false,
            frame_bytes: usize::try_from(words.saturating_add(longer).saturating_mul(2)).ok()?,
            rate_hz,
            rate_code,
            blocks: UNIT_BLOCKS,
            version: f >> 3,
            service: f & 7,
            channel_mode,
            low_frequencies: bits.bit()?,
            rate_index,
            substream: 0,
            dependent: false,
        })
    }

    fn parse_enhanced(head: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut bits = BitReader::new(&head[2..]);
        let (kind, substream, size) = (bits.bits(2)?, bits.bits(3)?, bits.bits(11)?);
        let (rate_code, second) = (bits.bits(2)?, bits.bits(2)?);
        let (rate_hz, blocks) = match rate_code {
            3 => (RATES_HZ.get(usize::try_from(second).ok()?)?.checked_div(2)?, UNIT_BLOCKS),
            code => {
                let rate = *RATES_HZ.get(usize::try_from(code).ok()?)?;
                (rate, *[1, 2, 3, UNIT_BLOCKS].get(usize::try_from(second).ok()?)?)
            }
        };
        if kind == 3 {
            return None;
        }
        Some(Header {
            enhanced: true,
            frame_bytes: usize::try_from(size.saturating_add(1).saturating_mul(2)).ok()?.max(HEADER_BYTES),
            rate_hz,
            rate_code: u8::try_from(rate_code).ok()?,
            blocks,
            channel_mode: u8::try_from(bits.bits(3)?).ok()?,
            low_frequencies: bits.bit()?,
            version: u8::try_from(bits.bits(5)?).ok()?,
            service: 0,
            rate_index: 0,
            substream: u8::try_from(substream).ok()?,
            dependent: kind == 1,
        })
    }

    /// Samples of each channel in the frame.
    pub const fn samples(&self) -> u32 {
        BLOCK_SAMPLES.saturating_mul(self.blocks)
    }

    /// Channels of this frame.
    pub fn channels(&self) -> u8 {
        let full = CHANNELS.get(usize::from(self.channel_mode)).copied().unwrap_or(2);
        full.saturating_add(u8::from(self.low_frequencies))
    }

    /// Whether an access unit begins with the frame: dependent substreams and further programs belong to the one before them.
    pub const fn begins_unit(&self) -> bool {
        !self.dependent && self.substream == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_of_ac_3_are_read() {
        // FFmpeg at 192 kbit/s and 48 kHz, two channels; at 448 kbit/s 5.1.
        let header = Header::parse(&[0x0b, 0x77, 0xd7, 0x5a, 0x14, 0x40, 0x43, 0xe0]).unwrap();
        assert_eq!((header.frame_bytes, header.rate_hz, header.channels()), (768, 48_000, 2));
        assert_eq!((header.version, header.rate_index, header.samples()), (8, 10, 1536));
        let header = Header::parse(&[0x0b, 0x77, 0x1b, 0x5e, 0x1e, 0x40, 0xe1, 0xdf]).unwrap();
        assert_eq!((header.frame_bytes, header.channels(), header.low_frequencies), (1792, 6, true));
        // At 44.1 kHz frames are of one of two lengths (table 4.13).
        let bytes =
            |size: u8| Header::parse(&[0x0b, 0x77, 0, 0, 0x40 | size, 0x40, 0x43, 0]).unwrap().frame_bytes;
        assert_eq!(
            [bytes(0), bytes(1), bytes(20), bytes(21), bytes(36), bytes(37)],
            [138, 140, 834, 836, 2786, 2788]
        );
    }

    #[test]
    fn frames_of_e_ac_3_are_read() {
        // FFmpeg at 192 kbit/s and 48 kHz, two channels.
        let header = Header::parse(&[0x0b, 0x77, 0x01, 0x7f, 0x34, 0x86, 0x87, 0xe0]).unwrap();
        assert_eq!((header.enhanced, header.frame_bytes, header.rate_hz), (true, 768, 48_000));
        assert_eq!((header.blocks, header.channels(), header.version), (6, 2, 16));
        assert!(header.begins_unit());
        // A dependent substream; one of two blocks.
        let dependent = Header::parse(&[0x0b, 0x77, 0x41, 0x7f, 0x34, 0x86, 0, 0]).unwrap();
        assert!(dependent.dependent && !dependent.begins_unit());
        assert_eq!(Header::parse(&[0x0b, 0x77, 0x01, 0x7f, 0x14, 0x86, 0, 0]).unwrap().samples(), 512);
    }

    proptest! {
        #[test]
        fn frames_go_on(bytes in any::<[u8; 8]>()) {
            let mut bytes = bytes;
            (bytes[0], bytes[1]) = (0x0b, 0x77);
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!((HEADER_BYTES..=4096).contains(&header.frame_bytes));
                prop_assert!(header.samples() > 0 && (1..=6).contains(&header.channels()));
            }
        }
    }
}
