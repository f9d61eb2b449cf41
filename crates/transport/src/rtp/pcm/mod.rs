//! Uncompressed sound in RTP: linear PCM of 16 bits (RFC 3551 §4.5.11) and of 24 (RFC 3190 §4), as AES67 §8 and ST 2110-30
//! profile them.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      RTP header, 12 bytes                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  sample 0 of channel 0, 2 or 3 bytes, big endian |  sample 0 of channel 1 …
//! |  sample 1 of channel 0 …
//! ```
//! The time stamp is that of the first sample, in samples. The clock is the samples' own, so where packets are missing it
//! says how much sound is: [`Depacketizer`] puts as much silence there, and time does not slip.
//!
//! * [`Depacketizer`]: datagrams to blocks of samples, in order, with the gaps filled.
//! * [`Packetizer`]: samples to datagrams of 1 ms or 125 µs.

mod depacketize;
mod packetize;
#[cfg(test)]
mod tests;

pub use depacketize::{Block, Counters, Depacketizer, Settings};
pub use packetize::{PacketTime, Packetizer, PacketizerSettings};

use thiserror::Error;

/// Bytes that a datagram may have, its RTP header among them (ST 2110-10 §6.3, the standard UDP size limit).
pub const DATAGRAM_BYTES_MAX: usize = 1_460;
/// Channels that a stream may have (ST 2110-30 §7, level C).
pub const CHANNELS_MAX: u8 = 64;
/// The fastest sampling that is taken, in Hz. AES67 and ST 2110-30 stop at 96 kHz.
pub const RATE_MAX_HZ: u32 = 192_000;

/// Bits of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 16, big endian; `L16` in session descriptions.
    L16,
    /// 24, big endian; `L24`.
    L24,
}

impl Depth {
    /// Bytes of a sample.
    pub const fn bytes(self) -> usize {
        match self {
            Depth::L16 => 2,
            Depth::L24 => 3,
        }
    }

    /// The encoding's name in `a=rtpmap`.
    pub const fn name(self) -> &'static str {
        match self {
            Depth::L16 => "L16",
            Depth::L24 => "L24",
        }
    }

    /// Appends samples; a piece of one at the end is left out. Full scale is 1.0, and all are exact.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Depth::L16 => {
                let samples = bytes.as_chunks::<2>().0.iter();
                out.extend(samples.map(|&sample| f32::from(i16::from_be_bytes(sample)) / 32_768.0));
            }
            Depth::L24 => {
                let samples = bytes.as_chunks::<3>().0.iter();
                let whole = |&[a, b, c]: &[u8; 3]| i32::from_be_bytes([a, b, c, 0]) >> 8;
                out.extend(samples.map(|sample| whole(sample) as f32 / 8_388_608.0));
            }
        }
    }

    /// Appends the bytes of samples: the nearest value, clipped at full scale. What is no number becomes silence.
    #[expect(clippy::cast_possible_truncation, reason = "a cast clips, and makes zero of what is no number")]
    pub fn encode(self, samples: &[f32], out: &mut Vec<u8>) {
        match self {
            Depth::L16 => {
                let whole = |sample: &f32| (sample * 32_768.0).round() as i16;
                out.extend(samples.iter().flat_map(|sample| whole(sample).to_be_bytes()));
            }
            Depth::L24 => {
                let whole = |sample: &f32| (sample * 8_388_608.0).round().clamp(-8_388_608.0, 8_388_607.0);
                out.extend(samples.iter().flat_map(|sample| {
                    let [_, a, b, c] = (whole(sample) as i32).to_be_bytes();
                    [a, b, c]
                }));
            }
        }
    }
}

/// What a stream's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    depth: Depth,
    channels: u8,
    rate_hz: u32,
}

impl Format {
    /// Interleaved samples of `channels` channels, `rate_hz` a second and channel.
    ///
    /// # Errors
    /// [`Error::Channels`] and [`Error::Rate`] where that is outside of what is taken.
    pub fn new(depth: Depth, channels: u8, rate_hz: u32) -> Result<Format, Error> {
        if !(1..=CHANNELS_MAX).contains(&channels) {
            return Err(Error::Channels { found: channels });
        }
        if !(1_000..=RATE_MAX_HZ).contains(&rate_hz) {
            return Err(Error::Rate { found: rate_hz });
        }
        Ok(Format { depth, channels, rate_hz })
    }

    /// Bits of a sample.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Channels, 1 to [`CHANNELS_MAX`].
    pub fn channels(&self) -> u8 {
        self.channels
    }

    /// Samples a second and channel.
    pub fn rate_hz(&self) -> u32 {
        self.rate_hz
    }

    /// Bytes of one sample of each channel.
    pub fn frame_bytes(&self) -> usize {
        self.depth.bytes().saturating_mul(self.channels.into())
    }
}

/// Why sound is not taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No RTP packet.
    #[error(transparent)]
    Rtp(#[from] super::Error),
    /// Another payload type than the stream's.
    #[error("payload type {found} where this sound has {expected}")]
    PayloadType {
        /// The packet's.
        found: u8,
        /// The stream's.
        expected: u8,
    },
    /// A payload that is no whole samples of each channel.
    #[error("a payload of {found} bytes, where a sample of each channel takes {frame}")]
    Payload {
        /// Its bytes.
        found: usize,
        /// Bytes of a sample of each channel.
        frame: usize,
    },
    /// A datagram that is too long.
    #[error("a datagram of {found} bytes, where sound has up to {DATAGRAM_BYTES_MAX}")]
    Datagram {
        /// Its bytes.
        found: usize,
    },
    /// Channels that are not taken.
    #[error("{found} channels, where 1 to {CHANNELS_MAX} are taken")]
    Channels {
        /// How many.
        found: u8,
    },
    /// A rate that is not taken.
    #[error("{found} Hz, where 1000 to {RATE_MAX_HZ} are taken")]
    Rate {
        /// Samples a second.
        found: u32,
    },
    /// Samples of another format than the stream's.
    #[error("{found} samples of {channels} channels at {rate_hz} Hz: not what this stream has")]
    Samples {
        /// Of all channels.
        found: usize,
        /// Channels.
        channels: u8,
        /// Samples a second and channel.
        rate_hz: u32,
    },
}
