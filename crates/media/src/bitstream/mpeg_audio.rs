//! Frames of MPEG audio, layers I to III (ISO/IEC 11172-3 §2.4.1.3; at lower rates 13818-3 §2.4.1).
//!
//! ```text
//! sync:11 │ version:2 layer:2 no_crc:1 │ rate:4 sampling:2 padding:1 private:1 │ mode:2 …
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

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// 1 to 3.
    pub layer: u8,
    /// Samples a second.
    pub rate_hz: u32,
    /// Channels, 1 or 2.
    pub channels: u8,
    /// Bytes of the whole frame.
    pub frame_bytes: usize,
    /// Samples of each channel in the frame.
    pub samples: u32,
    /// One of the lower sampling rates of 13818-3.
    pub low_rate: bool,
}

/// Thousands of bits a second by their index: layers I, II and III, and at lower sampling rates I, and II and III.
const BITRATES: [[u16; 14]; 5] = [
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

impl Header {
    /// Parses the header at the beginning of `bytes`; `None` where fewer than four bytes are there, none of a frame, or those of a
    /// frame of open length.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let &[a, b, c, d] = bytes.first_chunk::<HEADER_BYTES>()?;
        if a != 0xff || b & 0xe0 != 0xe0 {
            return None;
        }
        // 11 is MPEG-1, 10 MPEG-2, 00 the still lower rates that are called 2.5.
        let halvings = match b >> 3 & 3 {
            3 => 0u32,
            2 => 1,
            0 => 2,
            _ => return None,
        };
        let layer = 4u8.checked_sub(b >> 1 & 3).filter(|layer| *layer < 4)?;
        let low_rate = halvings > 0;
        let row = match (low_rate, layer) {
            (false, layer) => usize::from(layer).saturating_sub(1),
            (true, 1) => 3,
            (true, _) => 4,
        };
        let index = usize::from(c >> 4).checked_sub(1)?;
        let bitrate = u32::from(*BITRATES.get(row)?.get(index)?).saturating_mul(1000);
        let rate_hz = [44_100u32, 48_000, 32_000].get(usize::from(c >> 2 & 3))?.checked_shr(halvings)?;
        let padding = u32::from(c >> 1 & 1);
        let samples = match (layer, low_rate) {
            (1, _) => 384u32,
            (3, true) => 576,
            _ => 1152,
        };
        // In slots, which are of four bytes in layer I.
        let (slot, per_second) = if layer == 1 { (4u32, samples / 32) } else { (1, samples / 8) };
        let slots = per_second.saturating_mul(bitrate).checked_div(rate_hz)?.saturating_add(padding);
        Some(Header {
            layer,
            rate_hz,
            channels: if d >> 6 == 3 { 1 } else { 2 },
            frame_bytes: usize::try_from(slots.saturating_mul(slot)).ok()?.max(HEADER_BYTES),
            samples,
            low_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_frames_are_read() {
        let of = |bytes: [u8; 4]| {
            let header = Header::parse(&bytes).unwrap();
            (header.layer, header.rate_hz, header.channels, header.frame_bytes, header.samples)
        };
        // LAME at 128 kbit/s and 44.1 kHz, joint stereo, without and with padding.
        assert_eq!(of([0xff, 0xfb, 0x90, 0x64]), (3, 44_100, 2, 417, 1152));
        assert_eq!(of([0xff, 0xfb, 0x92, 0x64]), (3, 44_100, 2, 418, 1152));
        // twolame at 192 kbit/s and 48 kHz.
        assert_eq!(of([0xff, 0xfd, 0xa4, 0x00]), (2, 48_000, 2, 576, 1152));
        // LAME at 64 kbit/s and 22.05 kHz, one channel.
        assert_eq!(of([0xff, 0xf3, 0x80, 0xc0]), (3, 22_050, 1, 208, 576));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        // A reserved version, layer, bit rate and sampling rate; an open bit rate; too few bytes.
        for bytes in [
            [0xff, 0xeb, 0x90, 0x64],
            [0xff, 0xf9, 0x90, 0x64],
            [0xff, 0xfb, 0xf0, 0x64],
            [0xff, 0xfb, 0x9c, 0x64],
            [0xff, 0xfb, 0x00, 0x64],
            [0xfe, 0xfb, 0x90, 0x64],
        ] {
            assert_eq!(Header::parse(&bytes), None, "{bytes:x?}");
        }
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x90]), None);
    }

    proptest! {
        #[test]
        fn frames_go_on(bytes in any::<[u8; 4]>()) {
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!((HEADER_BYTES..8192).contains(&header.frame_bytes));
                prop_assert!(header.samples > 0 && header.rate_hz >= 8000);
            }
        }
    }
}
