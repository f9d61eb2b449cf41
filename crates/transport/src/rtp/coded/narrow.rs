//! Sound of one channel at the rates of telephones: G.711 (RFC 3551 §4.5.14) and L16 (§4.5.11).
//!
//! MPEG-TS has no place for it. It becomes uncompressed sound of 48 kHz here (SMPTE ST 302, the channel given twice), which MPEG-TS
//! carries; what runs the session may encode that anew ([`Format::is_narrow`](super::Format::is_narrow)).

use super::{Collected, Piece};
use glassline_media::Codec;
use glassline_media::bitstream::g711::Law;
use glassline_media::bitstream::s302m;
use glassline_media::upsample::Upsampler;

/// Samples of a packet at most: half a second at 8 kHz; ST 302 has room for more of them.
const SAMPLES_MAX: usize = 4000;

/// How samples lie in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// A byte each.
    Law(Law),
    /// 16 bits each, the high byte first.
    L16,
}

/// How many samples of 48 kHz one of this rate becomes, where that is a whole number.
pub(super) fn factor(rate_hz: u32) -> Option<usize> {
    match rate_hz {
        8_000 => Some(6),
        12_000 => Some(4),
        16_000 => Some(3),
        24_000 => Some(2),
        _ => None,
    }
}

/// Each packet is a run of samples.
#[derive(Debug)]
pub(super) struct NarrowAssembler {
    samples: Samples,
    factor: usize,
    upsampler: Upsampler,
    /// The place of the next sample in its block of 192.
    position: u16,
    /// The time stamp that follows, of sound without a gap.
    next: Option<u64>,
}

impl NarrowAssembler {
    pub(super) fn new(samples: Samples, factor: usize) -> NarrowAssembler {
        NarrowAssembler { samples, factor, upsampler: Upsampler::new(factor), position: 0, next: None }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        let decoded: Vec<f32> = match self.samples {
            Samples::Law(law) => piece.payload.iter().map(|byte| full_scale(law.decode(*byte))).collect(),
            Samples::L16 => {
                let (samples, rest) = piece.payload.as_chunks::<2>();
                if !rest.is_empty() {
                    return out.malform();
                }
                samples.iter().map(|sample| full_scale(i16::from_be_bytes(*sample))).collect()
            }
        };
        if decoded.is_empty() {
            return;
        }
        if decoded.len() > SAMPLES_MAX {
            return out.malform();
        }
        // What was lost, or not sent as there was silence, is not what the filter goes on from.
        if self.next != Some(piece.timestamp) {
            self.upsampler.reset();
        }
        let count = u64::try_from(decoded.len()).unwrap_or(u64::MAX);
        self.next = Some(piece.timestamp.saturating_add(count));
        let mut samples = Vec::with_capacity(decoded.len().saturating_mul(self.factor));
        self.upsampler.push(decoded, &mut samples);
        let pairs: Vec<f32> = samples.iter().flat_map(|sample| [*sample, *sample]).collect();
        let mut unit = Vec::new();
        if s302m::write(&pairs, 2, s302m::Depth::Bits16, self.position, &mut unit).is_err() {
            return out.malform();
        }
        let position = usize::from(self.position).saturating_add(samples.len());
        let position = position.checked_rem(s302m::BLOCK_SAMPLES.into()).unwrap_or(0);
        self.position = u16::try_from(position).unwrap_or(0);
        let delay = u64::try_from(Upsampler::DELAY).unwrap_or(0);
        out.push_sound(Codec::S302m, unit, piece.timestamp.saturating_sub(delay));
    }
}

fn full_scale(sample: i16) -> f32 {
    f32::from(sample) / 32_768.0
}
