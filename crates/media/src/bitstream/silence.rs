//! Coded silence: units of sound that decoders turn into zeros, of a few bytes, without an encoder.

use super::adts;
use crate::access_unit::Codec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What silence is coded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Silence {
    /// AAC of low complexity in ADTS frames of 1,024 samples.
    Aac {
        /// Samples a second: one of the thirteen rates of ISO/IEC 14496-3 table 1.18.
        rate_hz: u32,
        /// `channel_configuration`, 1 to 6.
        channels: u8,
    },
    /// Opus packets of 20 ms.
    Opus {
        /// Channels, 1 or 2.
        channels: u8,
    },
}

impl Silence {
    /// Two channels at 48 kHz: what most publishers send.
    pub const USUAL: Silence = Silence::Aac { rate_hz: 48_000, channels: 2 };

    /// Its codec.
    pub const fn codec(self) -> Codec {
        match self {
            Silence::Aac { .. } => Codec::Aac,
            Silence::Opus { .. } => Codec::Opus,
        }
    }

    /// Its channels.
    pub const fn channels(self) -> u8 {
        match self {
            Silence::Aac { channels, .. } | Silence::Opus { channels } => channels,
        }
    }

    /// When unit `number` is due after the first one, in ticks of 90 kHz, rounded down.
    pub const fn ticks_of(self, number: u64) -> i64 {
        let (samples, rate_hz) = match self {
            Silence::Aac { rate_hz, .. } => (adts::SAMPLES_PER_BLOCK, rate_hz),
            Silence::Opus { .. } => (960, 48_000),
        };
        let rate_hz = if rate_hz == 0 { 48_000 } else { rate_hz };
        (number as u128 * samples as u128 * 90_000 / rate_hz as u128) as i64
    }

    /// One unit; `None` where there is no such layout or rate. Each is decoded on its own.
    pub fn unit(self) -> Option<Bytes> {
        let (rate_hz, channels) = match self {
            Silence::Aac { rate_hz, channels } => (rate_hz, channels),
            // RFC 6716 §3.1: configuration 31 (CELT, 20 ms), one frame; a first bit of "silence" in the frame (§4.3).
            Silence::Opus { channels: 1 } => return Some(Bytes::from_static(&[0xf8, 0xff, 0xfe])),
            Silence::Opus { channels: 2 } => return Some(Bytes::from_static(&[0xfc, 0xff, 0xfe])),
            Silence::Opus { .. } => return None,
        };
        // Elements of the layout (ISO/IEC 14496-3 §4.4.2.1) with no band coded, and the end element.
        let block: &[u8] = match channels {
            1 => &[0x00, 0xc8, 0x00, 0x80, 0x23, 0x80],
            2 => &[0x21, 0x00, 0x49, 0x90, 0x02, 0x19, 0x00, 0x23, 0x80],
            3 => &[0x00, 0xc8, 0x00, 0x80, 0x20, 0x84, 0x01, 0x26, 0x40, 0x08, 0x64, 0x00, 0x8e],
            4 => &[
                0x00, 0xc8, 0x00, 0x80, 0x20, 0x84, 0x01, 0x26, 0x40, 0x08, 0x64, 0x00, 0x80, 0x2c, 0x80,
                0x08, 0x02, 0x38,
            ],
            5 => &[
                0x00, 0xc8, 0x00, 0x80, 0x20, 0x84, 0x01, 0x26, 0x40, 0x08, 0x64, 0x00, 0x82, 0x30, 0x04,
                0x99, 0x00, 0x21, 0x90, 0x02, 0x38,
            ],
            6 => &[
                0x00, 0xc8, 0x00, 0x80, 0x20, 0x84, 0x01, 0x26, 0x40, 0x08, 0x64, 0x00, 0x82, 0x30, 0x04,
                0x99, 0x00, 0x21, 0x90, 0x02, 0x00, 0xb2, 0x00, 0x20, 0x08, 0xe0,
            ],
            _ => return None,
        };
        let frame_bytes = adts::HEADER_BYTES + block.len();
        let header =
            adts::Header { object_type: 2, rate_hz, channels, checksum: false, frame_bytes, blocks: 1 };
        Some(Bytes::from([&header.write()?[..], block].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_silence_says_its_rate_and_channels() {
        for channels in 1..=6 {
            for rate_hz in [44_100, 48_000] {
                let unit = Silence::Aac { rate_hz, channels }.unit().unwrap();
                let (header, frame) = adts::frames(&unit).next().unwrap();
                assert_eq!((header.rate_hz, header.channels, frame.len()), (rate_hz, channels, unit.len()));
            }
        }
        assert_eq!(Silence::Aac { rate_hz: 48_000, channels: 7 }.unit(), None);
        assert_eq!(Silence::Aac { rate_hz: 12_345, channels: 2 }.unit(), None);
        assert_eq!(Silence::Opus { channels: 3 }.unit(), None);
        assert_eq!(
            super::super::opus::duration_samples(&Silence::Opus { channels: 2 }.unit().unwrap()),
            Some(960)
        );
    }

    #[test]
    fn times_of_units_do_not_drift() {
        let silence = Silence::Aac { rate_hz: 44_100, channels: 2 };
        assert_eq!((silence.ticks_of(1), silence.ticks_of(44_100)), (2089, 1024 * 90_000));
        assert_eq!(Silence::Opus { channels: 1 }.ticks_of(50), 90_000);
    }
}
