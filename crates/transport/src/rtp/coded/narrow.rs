//! Sound of one channel at the rates of telephones: G.711 (RFC 3551 §4.5.14) and L16 (§4.5.11).
//!
//! MPEG-TS has no place for it. It becomes uncompressed sound of 48 kHz here (SMPTE ST 302, the channel given twice), which MPEG-TS
//! carries; what runs the session may encode that anew ([`Format::is_narrow`](super::Format::is_narrow)).

use super::{Collected, Piece};
use glassline_media::bitstream::g711::Law;
use glassline_media::bitstream::s302m;
use glassline_media::upsample::Upsampler;
use glassline_media::{Codec, Time};

/// Samples of a packet at most: half a second at 8 kHz.
const SAMPLES_MAX: usize = 4000;
/// Samples of 48 kHz of a unit at most: ST 302 has room for 65,535 bytes, five for each pair (SMPTE ST 302 §6).
const UNIT_SAMPLES_MAX: usize = 65_535 / 5;
/// Sound that comes faster than this many times its time is refused beyond the first second: each sample costs far more than it took
/// to send, and one thread may serve many senders.
const HASTE: u64 = 2;

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
    budget: Budget,
}

/// Samples that are taken yet.
#[derive(Debug)]
struct Budget {
    rate_hz: u64,
    left: u64,
    at: Option<Time>,
}

impl Budget {
    /// Whether `count` more are taken at `now`.
    fn allow(&mut self, count: u64, now: Time) -> bool {
        let second = self.rate_hz;
        let passed = now.since(self.at.unwrap_or(now)).as_micros();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX).min(10_000_000);
        let grown = passed.saturating_mul(second).saturating_mul(HASTE).checked_div(1_000_000).unwrap_or(0);
        if grown > 0 || self.at.is_none() {
            (self.left, self.at) =
                (self.left.saturating_add(grown).min(second.saturating_mul(HASTE)), Some(now));
        }
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

impl NarrowAssembler {
    pub(super) fn new(samples: Samples, factor: usize) -> NarrowAssembler {
        let rate_hz = 48_000u64.checked_div(u64::try_from(factor).unwrap_or(1)).unwrap_or(8000);
        let budget = Budget { rate_hz, left: rate_hz, at: None };
        NarrowAssembler {
            samples,
            factor,
            upsampler: Upsampler::new(factor),
            position: 0,
            next: None,
            budget,
        }
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
        let count = u64::try_from(decoded.len()).unwrap_or(u64::MAX);
        if decoded.len() > SAMPLES_MAX || !self.budget.allow(count, piece.now) {
            return out.malform();
        }
        // What was lost, or not sent as there was silence, is not what the filter goes on from.
        if self.next != Some(piece.timestamp) {
            self.upsampler.reset();
        }
        self.next = Some(piece.timestamp.saturating_add(count));
        let delay = u64::try_from(Upsampler::DELAY).unwrap_or(0);
        let mut timestamp = piece.timestamp.saturating_sub(delay);
        for part in decoded.chunks(UNIT_SAMPLES_MAX.checked_div(self.factor).unwrap_or(1).max(1)) {
            self.write(part, timestamp, out);
            timestamp = timestamp.saturating_add(u64::try_from(part.len()).unwrap_or(0));
        }
    }

    /// Makes one unit.
    fn write(&mut self, part: &[f32], timestamp: u64, out: &mut Collected) {
        let mut samples = Vec::with_capacity(part.len().saturating_mul(self.factor));
        self.upsampler.push(part.iter().copied(), &mut samples);
        let pairs: Vec<f32> = samples.iter().flat_map(|sample| [*sample, *sample]).collect();
        let mut unit = Vec::new();
        if s302m::write(&pairs, 2, s302m::Depth::Bits16, self.position, &mut unit).is_err() {
            return out.malform();
        }
        let position = usize::from(self.position).saturating_add(samples.len());
        let position = position.checked_rem(s302m::BLOCK_SAMPLES.into()).unwrap_or(0);
        self.position = u16::try_from(position).unwrap_or(0);
        out.push_sound(Codec::S302m, unit, timestamp);
    }
}

fn full_scale(sample: i16) -> f32 {
    f32::from(sample) / 32_768.0
}
