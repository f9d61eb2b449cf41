//! LPCM in MPEG-TS as AES3 words (SMPTE ST 302): no codec, and so no delay but that of the packet.
//!
//! ```text
//! payload bytes:16 │ channels/2 − 1:2 │ channel id:8 │ depth:2 │ 0:4 │ words …
//! word pair: sample:16|20|24 (lowest bit first) │ V U C F │ sample of the next channel │ V U C F
//! ```
//! One payload of a PES packet is one unit. F marks the first sample of a block of 192 (AES3); validity, user and
//! channel status bits are written as zeros and not read.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use thiserror::Error;

/// Samples a second; ST 302 knows no other rate.
pub const RATE_HZ: u32 = 48_000;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4;
/// Samples of each channel in an AES3 block; the first sample of a block is marked.
pub const BLOCK_SAMPLES: u16 = 192;

/// Bits of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// 16 bits.
    Bits16,
    /// 20 bits.
    Bits20,
    /// 24 bits.
    #[default]
    Bits24,
}

impl Depth {
    /// The number.
    pub const fn bits(self) -> u32 {
        match self {
            Depth::Bits16 => 16,
            Depth::Bits20 => 20,
            Depth::Bits24 => 24,
        }
    }

    /// The depth of this number of bits; 16, 20 and 24 are known.
    pub const fn from_bits(bits: u32) -> Option<Depth> {
        match bits {
            16 => Some(Depth::Bits16),
            20 => Some(Depth::Bits20),
            24 => Some(Depth::Bits24),
            _ => None,
        }
    }

    /// The number, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Depth::Bits16 => "16 bit",
            Depth::Bits20 => "20 bit",
            Depth::Bits24 => "24 bit",
        }
    }

    /// Bytes of two samples with their four flags each.
    pub const fn pair_bytes(self) -> usize {
        match self {
            Depth::Bits16 => 5,
            Depth::Bits20 => 6,
            Depth::Bits24 => 7,
        }
    }
}

/// Why bytes are no payload of ST 302, or samples do not fit one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum S302mError {
    /// Fewer bytes than the header has.
    #[error("ST 302: {found} bytes, expected at least {HEADER_BYTES}")]
    Truncated {
        /// Bytes that were there.
        found: usize,
    },
    /// The reserved depth.
    #[error("ST 302: the depth has the reserved code 3, expected 0 to 2 (16, 20, 24 bit)")]
    Depth,
    /// The length in the header is not that of what follows.
    #[error("ST 302: header says {stated} bytes of samples, {found} are there")]
    Length {
        /// What the header says.
        stated: usize,
        /// What is there.
        found: usize,
    },
    /// Samples that are no whole number of samples in each channel, or a number of channels that is not 2, 4, 6, 8.
    #[error(
        "ST 302: {samples} samples of {channels} channels do not fill whole words of 2, 4, 6 or 8 channels"
    )]
    Channels {
        /// Samples of all channels.
        samples: usize,
        /// Channels.
        channels: u8,
    },
    /// More than the 16-bit length can tell.
    #[error("ST 302: {found} bytes of samples, expected at most 65535")]
    TooLong {
        /// Bytes that the samples need.
        found: usize,
    },
}

/// The header of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// 2, 4, 6 or 8.
    pub channels: u8,
    /// Bits of a sample.
    pub depth: Depth,
    /// Bytes that follow.
    pub payload_bytes: u16,
}

impl Header {
    /// Parses the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`S302mError::Truncated`], [`S302mError::Depth`].
    pub fn parse(bytes: &[u8]) -> Result<Header, S302mError> {
        let &[a, b, c, d, ..] = bytes else { return Err(S302mError::Truncated { found: bytes.len() }) };
        let depth = match d >> 4 & 3 {
            0 => Depth::Bits16,
            1 => Depth::Bits20,
            2 => Depth::Bits24,
            _ => return Err(S302mError::Depth),
        };
        Ok(Header {
            channels: (c >> 6).saturating_add(1).saturating_mul(2),
            depth,
            payload_bytes: u16::from_be_bytes([a, b]),
        })
    }

    /// Samples of each channel.
    pub fn samples(&self) -> usize {
        usize::from(self.payload_bytes).checked_div(self.frame_bytes()).unwrap_or(0)
    }

    /// Bytes of a sample of each channel.
    fn frame_bytes(&self) -> usize {
        self.depth.pair_bytes().saturating_mul(usize::from(self.channels / 2))
    }
}

/// Appends header and words of interleaved `samples` (−1.0 to 1.0, clipped). `block_position` is the first sample's
/// place in its AES3 block, 0 to 191.
///
/// # Errors
/// [`S302mError::Channels`], [`S302mError::TooLong`]; nothing is written then.
pub fn write(
    samples: &[f32],
    channels: u8,
    depth: Depth,
    block_position: u16,
    out: &mut Vec<u8>,
) -> Result<(), S302mError> {
    if !matches!(channels, 2 | 4 | 6 | 8) || !samples.len().is_multiple_of(usize::from(channels)) {
        return Err(S302mError::Channels { samples: samples.len(), channels });
    }
    let found = (samples.len() / 2).saturating_mul(depth.pair_bytes());
    let payload_bytes = u16::try_from(found).map_err(|_| S302mError::TooLong { found })?;
    let [high, low] = payload_bytes.to_be_bytes();
    let code = match depth {
        Depth::Bits16 => 0u8,
        Depth::Bits20 => 1,
        Depth::Bits24 => 2,
    };
    out.extend_from_slice(&[high, low, (channels / 2).saturating_sub(1) << 6, code << 4]);
    let bits = depth.bits();
    let (first_at, mark_at, unused) =
        (bits.saturating_add(8), bits.saturating_add(4), 8usize.saturating_sub(depth.pair_bytes()));
    let mut position = block_position % BLOCK_SAMPLES;
    for frame in samples.chunks_exact(usize::from(channels)) {
        for pair in frame.as_chunks::<2>().0 {
            let [first, second] = pair.map(|sample| u64::from(word(sample, bits)));
            let mark = u64::from(position == 0);
            let pair = first << first_at | mark << mark_at | second << 4;
            out.extend_from_slice(&pair.to_be_bytes()[unused..]);
        }
        position = position.saturating_add(1) % BLOCK_SAMPLES;
    }
    Ok(())
}

/// A sample's bits, the lowest first.
fn word(sample: f32, bits: u32) -> u32 {
    let scale = f64::from(1u32 << bits.saturating_sub(1));
    // A NaN becomes zero in the cast, which is within its bounds by the line itself.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to fewer bits than an i32 has")]
    let value = (f64::from(sample) * scale).round().clamp(-scale, scale - 1.0) as i32;
    (value.cast_unsigned() << 32u32.saturating_sub(bits)).reverse_bits()
}

/// Reads a whole payload: its header, and its interleaved samples, exact.
///
/// # Errors
/// [`S302mError`], where it is cut off or its length is not what the header says. A piece of a word at the end,
/// within that length, is left out.
pub fn read(bytes: &[u8]) -> Result<(Header, impl Iterator<Item = f32>), S302mError> {
    let header = Header::parse(bytes)?;
    let words = &bytes[HEADER_BYTES..];
    let stated = usize::from(header.payload_bytes);
    if words.len() != stated {
        return Err(S302mError::Length { stated, found: words.len() });
    }
    let (bits, pair_bytes) = (header.depth.bits(), header.depth.pair_bytes());
    let whole = words.len().saturating_sub(words.len().checked_rem(header.frame_bytes()).unwrap_or(0));
    let (first_at, unused) = (bits.saturating_add(8), 32u32.saturating_sub(bits));
    let scale = (1u32 << bits.saturating_sub(1)) as f32;
    let samples = words[..whole].chunks_exact(pair_bytes).flat_map(move |pair| {
        let pair = pair.iter().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
        [pair >> first_at, pair >> 4].map(|word| {
            // Its lowest bits are the sample.
            let [.., a, b, c, d] = word.to_be_bytes();
            let value = (u32::from_be_bytes([a, b, c, d]) << unused).reverse_bits() << unused;
            (value.cast_signed() >> unused) as f32 / scale
        })
    });
    Ok((header, samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_lie_as_in_the_standard() {
        // 0x000001 lowest bit first is 100…: the first bit on the wire; F stands behind the first channel only.
        let mut out = Vec::new();
        write(&[1.0 / 8_388_608.0, -1.0], 2, Depth::Bits24, 0, &mut out).unwrap();
        assert_eq!(out, [0, 7, 0, 0x20, 0x80, 0, 0, 0x10, 0, 0, 0x10]);
        out.clear();
        write(&[0.5, 0.5], 2, Depth::Bits20, 5, &mut out).unwrap();
        assert_eq!(out, [0, 6, 0, 0x10, 0, 0, 0x20, 0, 0, 0x20]);
    }

    #[test]
    fn the_first_of_192_samples_is_marked() {
        let mut out = Vec::new();
        write(&[0.0; 400], 2, Depth::Bits16, 191, &mut out).unwrap();
        let marks: Vec<usize> = out[4..]
            .chunks(5)
            .enumerate()
            .filter(|(_, pair)| pair[2] & 0x10 != 0)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(marks, [1, 193]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        let mut refused = |samples: usize, channels| {
            write(&vec![0.0; samples], channels, Depth::Bits24, 0, &mut out).unwrap_err()
        };
        for (samples, channels) in [(2, 1), (6, 3), (3, 2), (10, 10), (4, 0)] {
            assert_eq!(refused(samples, channels), S302mError::Channels { samples, channels });
        }
        assert_eq!(refused(18_726, 2), S302mError::TooLong { found: 65_541 });
        assert!(out.is_empty());
        assert_eq!(read(&[0, 7, 0]).err(), Some(S302mError::Truncated { found: 3 }));
        assert_eq!(read(&[0, 7, 0, 0x30]).err(), Some(S302mError::Depth));
        assert_eq!(read(&[0, 7, 0, 0x20, 1]).err(), Some(S302mError::Length { stated: 7, found: 1 }));
    }

    #[test]
    fn what_is_too_loud_is_clipped() {
        let mut out = Vec::new();
        write(&[9.0, -9.0, f32::NAN, 1.0], 2, Depth::Bits24, 0, &mut out).unwrap();
        let (_, samples) = read(&out).unwrap();
        let most = 8_388_607.0 / 8_388_608.0;
        assert_eq!(samples.collect::<Vec<_>>(), [most, -1.0, 0.0, most]);
    }

    proptest! {
        #[test]
        fn samples_survive_exactly(
            pairs in 1usize..=4, bits in prop::sample::select(vec![16u32, 20, 24]), position in 0u16..192,
            values in proptest::collection::vec(any::<i32>(), 0..100),
        ) {
            let channels = pairs as u8 * 2;
            let depth = Depth::from_bits(bits).unwrap();
            let whole = values.len() - values.len() % usize::from(channels);
            let scale = (1u32 << (bits - 1)) as f32;
            let samples: Vec<f32> = values[..whole].iter().map(|value| (value >> (32 - bits)) as f32 / scale).collect();
            let mut out = Vec::new();
            write(&samples, channels, depth, position, &mut out).unwrap();
            let (header, again) = read(&out).unwrap();
            prop_assert_eq!((header.channels, header.depth), (channels, depth));
            prop_assert_eq!(header.samples() * usize::from(channels), whole);
            prop_assert_eq!(again.collect::<Vec<_>>(), samples);
        }

        #[test]
        fn hostile_bytes_are_refused_or_read(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), fit in any::<bool>()) {
            if fit && bytes.len() >= 4 {
                let length = (bytes.len() - 4) as u16;
                bytes[..2].copy_from_slice(&length.to_be_bytes());
            }
            if let Ok((header, samples)) = read(&bytes) {
                let all: Vec<f32> = samples.collect();
                prop_assert_eq!(all.len(), header.samples() * usize::from(header.channels));
                prop_assert!(all.iter().all(|sample| sample.abs() <= 1.0));
            }
        }
    }
}
