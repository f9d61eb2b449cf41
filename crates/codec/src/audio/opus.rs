//! Opus (RFC 6716) by libopus, in its restricted low-delay mode (CELT alone, look-ahead 2.5 ms) or, for talk over lines
//! that lose packets, in its speech mode (SILK or both, look-ahead 6.5 ms), in which each packet also holds the one
//! before it.
//!
//! Comes in: [`AudioBlock`]s of any length at 48 kHz. Goes out: one [`AccessUnit`] a frame, with one Opus packet as its
//! data. Called by the `encode` pipeline and by `direct::sound`, which decodes too.
//!
//! **Time.** A decoder gives sound that lags behind what went in by [`Encoder::lookahead_samples`] (RFC 7845 calls it
//! pre-skip). MPEG-TS has no field for that, so a unit's `pts` is earlier by as much than the capture time of the
//! first sample that went into it: what a decoder plays at `pts` was captured at `pts`. The first packet of a stream
//! begins with as much start-up.

use super::framer::{Framer, ticks_of};
use super::opus_ffi;
pub use super::{MAX_OVERLAP, RATE_HZ, REANCHOR};
use crate::CodecError;
use bytes::Bytes;
use glassline_media::{AccessUnit, AudioBlock, Codec, Stamps, Ticks, Time};
use std::fmt::Display;

/// How much sound one packet holds. Shorter is sooner, costs more bits for the same quality, and more TS packets:
/// in MPEG-TS 128 kbit/s become 0.6 Mbit/s with 2.5 ms, 0.3 with 5 ms, and 0.15 with 10 or 20 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameDuration {
    /// 2.5 ms, 120 samples.
    Ms2_5,
    /// 5 ms, 240 samples.
    #[default]
    Ms5,
    /// 10 ms, 480 samples.
    Ms10,
    /// 20 ms, 960 samples.
    Ms20,
}

impl FrameDuration {
    /// All of them, the shortest first.
    pub const ALL: [FrameDuration; 4] =
        [FrameDuration::Ms2_5, FrameDuration::Ms5, FrameDuration::Ms10, FrameDuration::Ms20];

    /// Samples in each channel.
    pub const fn samples(self) -> usize {
        match self {
            FrameDuration::Ms2_5 => 120,
            FrameDuration::Ms5 => 240,
            FrameDuration::Ms10 => 480,
            FrameDuration::Ms20 => 960,
        }
    }
}

/// What the sound is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Anything, with the least delay.
    #[default]
    LowDelay,
    /// Talk. Each packet also holds the one before it, coarsely (RFC 6716 §2.1.7), for so many losses in a hundred;
    /// [`Decoder::recover`] takes it from there. Packets of 10 ms at least.
    Speech {
        /// Losses to count on, percent.
        loss_percent: u8,
    },
}

/// What an [`Encoder`] is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 1 or 2.
    pub channels: u8,
    /// Bits a second for all channels, 6 000 to 510 000.
    pub bitrate_bps: u32,
    /// Sound in a packet.
    pub frame_duration: FrameDuration,
    /// What the sound is.
    pub mode: Mode,
}

impl Default for Settings {
    /// Stereo at 128 kbit/s in packets of 5 ms.
    fn default() -> Settings {
        Settings {
            channels: 2,
            bitrate_bps: 128_000,
            frame_duration: FrameDuration::default(),
            mode: Mode::LowDelay,
        }
    }
}

/// An open encoder.
pub struct Encoder {
    framer: Framer,
    coder: Coder,
    lookahead: usize,
}

/// What codes the frames.
struct Coder {
    handle: opus_ffi::Encoder,
    packet: Vec<u8>,
    lookahead: Ticks,
}

impl Encoder {
    /// Opens an encoder, or says which setting is out of range.
    pub fn new(settings: Settings) -> Result<Encoder, CodecError> {
        check_channels(settings.channels)?;
        let bitrates = 6_000..=510_000;
        if !bitrates.contains(&settings.bitrate_bps) {
            return Err(refused("bitrate (bit/s)", settings.bitrate_bps, "between 6000 and 510000"));
        }
        let speech = match settings.mode {
            Mode::LowDelay => None,
            Mode::Speech { loss_percent } => Some(loss_percent.min(100)),
        };
        if speech.is_some() && settings.frame_duration.samples() < FrameDuration::Ms10.samples() {
            return Err(refused(
                "packet of speech (samples)",
                settings.frame_duration.samples(),
                "480 or 960",
            ));
        }
        let mut handle = opus_ffi::Encoder::open(settings.channels, settings.bitrate_bps as i32, speech)
            .map_err(|reason| failed("open an encoder", reason))?;
        let lookahead = handle.lookahead().map_err(|reason| failed("tell its look-ahead", reason))?;
        let framer = Framer::new(CODEC, settings.channels, settings.frame_duration.samples());
        let coder = Coder { handle, packet: vec![0; MAX_PACKET_BYTES], lookahead: ticks_of(lookahead) };
        Ok(Encoder { framer, coder, lookahead })
    }

    /// Samples a channel by which decoded sound lags behind; 120 (2.5 ms), for talk 312. See the module's head.
    pub fn lookahead_samples(&self) -> usize {
        self.lookahead
    }

    /// Takes `block` in and returns the packets that it fills, oldest first. What is left waits for the next block.
    ///
    /// Where the block begins more than [`REANCHOR`] after the samples before it, silence fills the gap. A gap of more
    /// than [`LONGEST_SILENCE`](super::LONGEST_SILENCE) is not filled: time goes on with the block's capture time.
    /// Where the block begins more than [`REANCHOR`] too early, its first samples are dropped, since their time is
    /// taken already. Time stamps always grow.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another rate or number of channels, [`CodecError::TimeStamp`] for a block that goes
    /// back by more than [`MAX_OVERLAP`]; the encoder is unchanged after both.
    pub fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>, CodecError> {
        let (mut units, Encoder { framer, coder, .. }) = (Vec::new(), self);
        framer.push(block, &mut |captured, samples| {
            units.push(coder.encode(captured, samples)?);
            Ok(())
        })?;
        Ok(units)
    }

    /// Ends the stream: the last packet, filled up with silence, if samples wait for one.
    pub fn flush(&mut self) -> Result<Option<AccessUnit>, CodecError> {
        let (mut unit, Encoder { framer, coder, .. }) = (None, self);
        framer.flush(&mut |captured, samples| {
            unit = Some(coder.encode(captured, samples)?);
            Ok(())
        })?;
        Ok(unit)
    }
}

impl Coder {
    fn encode(&mut self, captured: Time, samples: &[f32]) -> Result<AccessUnit, CodecError> {
        let bytes = self
            .handle
            .encode(samples, &mut self.packet)
            .map_err(|reason| failed("encode a frame", reason))?;
        let pts = Ticks::from_time(captured) - self.lookahead;
        Ok(AccessUnit {
            codec: Codec::Opus,
            data: Bytes::copy_from_slice(&self.packet[..bytes]),
            pts,
            dts: pts,
            random_access: true,
            stamps: Stamps::captured_at(captured),
        })
    }
}

/// An open decoder.
pub struct Decoder {
    handle: opus_ffi::Decoder,
    channels: u8,
    samples: Vec<f32>,
}

impl Decoder {
    /// Opens a decoder that gives `channels` (1 or 2), whatever number the packets hold.
    pub fn new(channels: u8) -> Result<Decoder, CodecError> {
        check_channels(channels)?;
        let handle = opus_ffi::Decoder::open(channels).map_err(|reason| failed("open a decoder", reason))?;
        let samples = vec![0.0; MAX_PACKET_SAMPLES * usize::from(channels)];
        Ok(Decoder { handle, channels, samples })
    }

    /// Decodes one packet into 2.5 to 120 ms of sound at 48 kHz, which `captured` is written on.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`] for bytes that are no Opus packet; the decoder goes on with the next one.
    pub fn decode(&mut self, packet: &[u8], captured: Time) -> Result<AudioBlock, CodecError> {
        let corrupt = |reason| CodecError::Corrupt { codec: CODEC, bytes: packet.len(), reason };
        if packet.is_empty() {
            return Err(corrupt("it is empty".to_owned()));
        }
        let frames = self.handle.decode(Some(packet), &mut self.samples, false).map_err(corrupt)?;
        Ok(self.block(frames, captured))
    }

    /// Conceals a lost packet by going on with the sound before it.
    pub fn conceal(&mut self, lost: FrameDuration, captured: Time) -> Result<AudioBlock, CodecError> {
        let length = lost.samples() * usize::from(self.channels);
        let frames = self
            .handle
            .decode(None, &mut self.samples[..length], false)
            .map_err(|reason| failed("conceal a loss", reason))?;
        Ok(self.block(frames, captured))
    }

    /// The packet that was lost before `packet`, as far as that holds it ([`Mode::Speech`]); concealed where it does not.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`] for bytes that are no Opus packet; the decoder goes on with the next one.
    pub fn recover(
        &mut self,
        packet: &[u8],
        lost: FrameDuration,
        captured: Time,
    ) -> Result<AudioBlock, CodecError> {
        let length = lost.samples() * usize::from(self.channels);
        let corrupt = |reason| CodecError::Corrupt { codec: CODEC, bytes: packet.len(), reason };
        let frames = self.handle.decode(Some(packet), &mut self.samples[..length], true).map_err(corrupt)?;
        Ok(self.block(frames, captured))
    }

    fn block(&self, frames: usize, captured: Time) -> AudioBlock {
        let samples = self.samples[..frames * usize::from(self.channels)].to_vec();
        AudioBlock { samples, channels: self.channels, rate_hz: RATE_HZ, captured }
    }
}

fn check_channels(channels: u8) -> Result<(), CodecError> {
    if matches!(channels, 1 | 2) { Ok(()) } else { Err(refused("channels", channels, "1 or 2")) }
}

fn refused(setting: &'static str, found: impl Display, expected: &str) -> CodecError {
    CodecError::Setting { codec: CODEC, setting, found: found.to_string(), expected: expected.to_owned() }
}

fn failed(action: &'static str, reason: String) -> CodecError {
    CodecError::Library { library: "libopus", action, reason }
}

const CODEC: &str = "Opus";
/// The largest frame of a packet (RFC 6716 §3.4 [R2]) and its table of contents byte.
const MAX_PACKET_BYTES: usize = 1276;
/// 120 ms (RFC 6716 §3.4 [R5]).
const MAX_PACKET_SAMPLES: usize = 5760;

#[cfg(test)]
#[path = "opus_tests.rs"]
mod tests;
