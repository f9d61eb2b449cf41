//! Sound before it is coded.

use crate::time::Time;

/// A run of audio samples.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioBlock {
    /// Interleaved samples, −1.0 to 1.0; the length is a multiple of `channels`.
    pub samples: Vec<f32>,
    /// Channels, 1 to 8.
    pub channels: u8,
    /// Samples a second and channel.
    pub rate_hz: u32,
    /// When the first sample was captured.
    pub captured: Time,
}

impl AudioBlock {
    /// Samples in each channel.
    pub fn frames(&self) -> usize {
        self.samples.len() / usize::from(self.channels.max(1))
    }
}

/// How a sample lies in bytes, little endian throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleFormat {
    /// 16-bit integers, two's complement.
    S16,
    /// 24-bit integers in three bytes.
    S24,
    /// 32-bit integers. The lowest eight bits are lost: an [`AudioBlock`] resolves 24.
    S32,
    /// IEEE 754 single precision, full scale at 1.0.
    F32,
    /// IEEE 754 double precision, full scale at 1.0.
    F64,
}

impl SampleFormat {
    /// All of them.
    pub const ALL: [SampleFormat; 5] =
        [SampleFormat::S16, SampleFormat::S24, SampleFormat::S32, SampleFormat::F32, SampleFormat::F64];

    /// Bytes of a sample.
    pub const fn bytes(self) -> usize {
        match self {
            SampleFormat::S16 => 2,
            SampleFormat::S24 => 3,
            SampleFormat::S32 | SampleFormat::F32 => 4,
            SampleFormat::F64 => 8,
        }
    }

    /// The name that FFmpeg and ALSA's tools give it too.
    pub const fn name(self) -> &'static str {
        match self {
            SampleFormat::S16 => "s16le",
            SampleFormat::S24 => "s24le",
            SampleFormat::S32 => "s32le",
            SampleFormat::F32 => "f32le",
            SampleFormat::F64 => "f64le",
        }
    }

    /// Appends the samples in `bytes`; a piece of one at the end is left out.
    ///
    /// Integers of up to 24 bits are kept exactly. What is no number becomes silence, and floats are kept within
    /// ±8 (18 dB above full scale): no source means more, and codecs need not survive it.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            SampleFormat::S16 => {
                let samples = bytes.as_chunks::<2>().0.iter();
                out.extend(samples.map(|&sample| f32::from(i16::from_le_bytes(sample)) / 32_768.0));
            }
            SampleFormat::S24 => {
                let samples = bytes.as_chunks::<3>().0.iter();
                let whole = |&[a, b, c]: &[u8; 3]| i32::from_le_bytes([0, a, b, c]) >> 8;
                out.extend(samples.map(|sample| whole(sample) as f32 / 8_388_608.0));
            }
            SampleFormat::S32 => {
                let samples = bytes.as_chunks::<4>().0.iter();
                out.extend(samples.map(|&sample| i32::from_le_bytes(sample) as f32 / 2_147_483_648.0));
            }
            SampleFormat::F32 => {
                let samples = bytes.as_chunks::<4>().0.iter();
                out.extend(samples.map(|&sample| tame(f32::from_le_bytes(sample))));
            }
            SampleFormat::F64 => {
                let samples = bytes.as_chunks::<8>().0.iter();
                out.extend(samples.map(|&sample| tame(f64::from_le_bytes(sample) as f32)));
            }
        }
    }
}

fn tame(sample: f32) -> f32 {
    if sample.is_nan() { 0.0 } else { sample.clamp(-8.0, 8.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(format: SampleFormat, bytes: &[u8]) -> Vec<f32> {
        let mut out = Vec::new();
        format.decode(bytes, &mut out);
        out
    }

    #[test]
    fn full_scale_is_one_in_each_format() {
        assert_eq!(decoded(SampleFormat::S16, &[0, 0x80, 0, 0x40, 9]), [-1.0, 0.5]);
        assert_eq!(decoded(SampleFormat::S24, &[0, 0, 0x80, 0, 0, 0x40]), [-1.0, 0.5]);
        assert_eq!(decoded(SampleFormat::S32, &[0, 0, 0, 0x80, 0, 0, 0, 0x40]), [-1.0, 0.5]);
        assert_eq!(decoded(SampleFormat::F32, &0.5f32.to_le_bytes()), [0.5]);
        assert_eq!(decoded(SampleFormat::F64, &(-0.25f64).to_le_bytes()), [-0.25]);
    }

    #[test]
    fn what_is_no_number_is_silence() {
        assert_eq!(decoded(SampleFormat::F32, &f32::NAN.to_le_bytes()), [0.0]);
        assert_eq!(decoded(SampleFormat::F32, &f32::INFINITY.to_le_bytes()), [8.0]);
        assert_eq!(decoded(SampleFormat::F64, &f64::MIN.to_le_bytes()), [-8.0]);
    }

    proptest! {
        #[test]
        fn integers_of_24_bits_are_kept_exactly(value in -(1i32 << 23)..1 << 23) {
            let [a, b, c, _] = value.to_le_bytes();
            prop_assert_eq!(decoded(SampleFormat::S24, &[a, b, c]), vec![value as f32 / 8_388_608.0]);
            prop_assert_eq!((decoded(SampleFormat::S24, &[a, b, c])[0] * 8_388_608.0) as i32, value);
        }

        #[test]
        fn any_bytes_give_finite_samples(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for format in SampleFormat::ALL {
                let samples = decoded(format, &bytes);
                prop_assert_eq!(samples.len(), bytes.len() / format.bytes());
                prop_assert!(samples.iter().all(|sample| sample.abs() <= 8.0));
            }
        }
    }
}
