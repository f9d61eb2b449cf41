//! Opus (RFC 7587), MPEG audio (RFC 2250 §3.5) and uncompressed samples (RFC 3551 §4.5.11, RFC 3190).

use super::{Collected, Piece};
use crate::rtp::pcm::{Depth, Format};
use glassline_media::Codec;
use glassline_media::bitstream::{mpeg_audio, opus, s302m};

/// Each packet is one of Opus.
#[derive(Debug)]
pub(super) struct OpusAssembler;

impl OpusAssembler {
    #[expect(clippy::unused_self, reason = "the same shape as the others")]
    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if piece.payload.is_empty() {
            return;
        }
        match opus::duration_samples(piece.payload) {
            Some(_) => out.push_sound(Codec::Opus, piece.payload.to_vec(), piece.timestamp),
            None => out.malform(),
        }
    }
}

/// Frames of MPEG audio behind four bytes: zeros, and how far into a frame the packet begins.
#[derive(Debug)]
pub(super) struct MpegAudioAssembler {
    clock_hz: u32,
    /// A frame that goes on in the next packet.
    frame: Option<(u64, Vec<u8>)>,
}

impl MpegAudioAssembler {
    pub(super) fn new(clock_hz: u32) -> MpegAudioAssembler {
        MpegAudioAssembler { clock_hz, frame: None }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if piece.is_after_loss && self.frame.take().is_some() {
            out.damage();
        }
        if !piece.payload.is_empty() && self.take_payload(piece, out).is_none() {
            self.frame = None;
            out.malform();
        }
    }

    fn take_payload(&mut self, piece: &Piece<'_>, out: &mut Collected) -> Option<()> {
        let ([_, _, high, low], data) = piece.payload.split_first_chunk::<4>()?;
        let offset = usize::from(u16::from_be_bytes([*high, *low]));
        let (mut timestamp, mut data) = (piece.timestamp, data.to_vec());
        if offset > 0 {
            // The rest of a frame with a beginning that did not come.
            let Some((begun, mut frame)) = self.frame.take() else { return Some(()) };
            if frame.len() != offset {
                out.damage();
                return Some(());
            }
            frame.append(&mut data);
            (timestamp, data) = (begun, frame);
        } else if self.frame.take().is_some() {
            out.damage();
        }
        let mut rest = &data[..];
        while !rest.is_empty() {
            let header = mpeg_audio::Header::parse(rest)?;
            let Some((frame, behind)) = rest.split_at_checked(header.frame_bytes) else {
                self.frame = Some((timestamp, rest.to_vec()));
                return Some(());
            };
            out.push_sound(Codec::MpegAudio, frame.to_vec(), timestamp);
            let ticks = u64::from(header.samples).saturating_mul(self.clock_hz.into());
            let ticks = ticks.checked_div(header.rate_hz.into()).unwrap_or(0);
            timestamp = timestamp.saturating_add(ticks);
            rest = behind;
        }
        Some(())
    }
}

/// Samples of 48 kHz, which go on as SMPTE ST 302 has them. One channel is given twice: ST 302 has pairs.
#[derive(Debug)]
pub(super) struct PcmAssembler {
    format: Format,
    /// The place of the next sample in its block of 192.
    position: u16,
}

impl PcmAssembler {
    pub(super) fn new(format: Format) -> PcmAssembler {
        PcmAssembler { format, position: 0 }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        let frame_bytes = self.format.frame_bytes();
        let whole = piece.payload.len().checked_rem(frame_bytes) == Some(0);
        if piece.payload.is_empty() || !whole {
            if !whole {
                out.malform();
            }
            return;
        }
        let mut samples = Vec::new();
        self.format.depth().decode(piece.payload, &mut samples);
        let channels = match self.format.channels() {
            1 => {
                samples = samples.iter().flat_map(|sample| [*sample, *sample]).collect();
                2
            }
            channels => channels,
        };
        let depth = match self.format.depth() {
            Depth::L16 => s302m::Depth::Bits16,
            Depth::L24 => s302m::Depth::Bits24,
        };
        let mut unit = Vec::new();
        if s302m::write(&samples, channels, depth, self.position, &mut unit).is_err() {
            return out.malform();
        }
        let frames = samples.len().checked_div(channels.into()).unwrap_or(0);
        let position = usize::from(self.position).saturating_add(frames);
        let position = position.checked_rem(s302m::BLOCK_SAMPLES.into()).unwrap_or(0);
        self.position = u16::try_from(position).unwrap_or(0);
        out.push_sound(Codec::S302m, unit, piece.timestamp);
    }
}
