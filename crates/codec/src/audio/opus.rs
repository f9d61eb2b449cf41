//! Opus (RFC 6716) by libopus, in its restricted low-delay mode: CELT alone, look-ahead 2.5 ms.
//!
//! Comes in: [`AudioBlock`]s of any length at 48 kHz. Goes out: one [`AccessUnit`] a frame, whose data is one Opus
//! packet. Called by the `encode` pipeline, and the decoder by `receive`.
//!
//! **Time.** A unit's `pts` is the capture time of the first sample that went into it. A decoder gives sound that
//! lags behind by [`Encoder::lookahead_samples`] (RFC 7845 calls it pre-skip): at `pts` it plays the sample that was
//! captured 2.5 ms before. That is constant, a twentieth of what is noticed as a lip-sync error (ITU-R BT.1359), and
//! nothing is subtracted for it here; a container with a field for pre-skip (CMAF's `dOps`, Ogg) takes
//! `lookahead_samples`.

use super::opus_ffi;
use crate::CodecError;
use bytes::Bytes;
use glassline_media::{AccessUnit, AudioBlock, Codec, Stamps, Ticks, Time};
use std::fmt::Display;
use std::time::Duration;

/// Samples a second and channel. Opus always counts at this rate.
pub const RATE_HZ: u32 = 48_000;

/// How much sound one packet holds. Shorter is sooner and costs more bits for the same quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameDuration {
    /// 2.5 ms, 120 samples.
    Ms2_5,
    /// 5 ms, 240 samples.
    Ms5,
    /// 10 ms, 480 samples.
    #[default]
    Ms10,
    /// 20 ms, 960 samples.
    Ms20,
}

impl FrameDuration {
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

/// What an [`Encoder`] is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 1 or 2.
    pub channels: u8,
    /// Bits a second for all channels, 6 000 to 510 000.
    pub bitrate_bps: u32,
    /// Sound in a packet.
    pub frame_duration: FrameDuration,
}

impl Default for Settings {
    /// Stereo at 128 kbit/s in packets of 10 ms.
    fn default() -> Settings {
        Settings { channels: 2, bitrate_bps: 128_000, frame_duration: FrameDuration::default() }
    }
}

/// An open encoder.
pub struct Encoder {
    handle: opus_ffi::Encoder,
    settings: Settings,
    lookahead: usize,
    /// Interleaved samples that do not fill a frame yet.
    pending: Vec<f32>,
    timeline: Option<Timeline>,
    packet: Vec<u8>,
}

/// Sample time: counted from an anchor, so that the rounding of one packet's time never adds to the next.
#[derive(Clone, Copy)]
struct Timeline {
    anchor: Time,
    /// Samples a channel since the anchor that were taken in.
    taken: u64,
}

impl Timeline {
    fn time_of(self, sample: u64) -> Time {
        let nanos = u128::from(sample) * 1_000_000_000 / u128::from(RATE_HZ);
        self.anchor + Duration::from_nanos(nanos as u64)
    }
}

impl Encoder {
    /// How far a block's capture time may lie from where the samples before it end until time is anchored anew.
    ///
    /// A capture thread stamps its blocks a few milliseconds early or late as it is scheduled: that must not move
    /// the packets' even spacing. What is further off is sound that was lost, or a sound card's clock that has
    /// drifted this far from ours; both are put right well before they are seen against the picture (ITU-R BT.1359:
    /// 45 ms).
    pub const REANCHOR: Duration = Duration::from_millis(20);
    /// How far capture times may go back before [`Encoder::push`] calls it an error.
    pub const MAX_OVERLAP: Duration = Duration::from_secs(1);

    /// Opens an encoder, or says which setting is out of range.
    pub fn new(settings: Settings) -> Result<Encoder, CodecError> {
        check_channels(settings.channels)?;
        let bitrates = 6_000..=510_000;
        if !bitrates.contains(&settings.bitrate_bps) {
            return Err(refused("bitrate (bit/s)", settings.bitrate_bps, "between 6000 and 510000"));
        }
        let mut handle = opus_ffi::Encoder::open(settings.channels, settings.bitrate_bps as i32)
            .map_err(|reason| failed("open an encoder", reason))?;
        let lookahead = handle.lookahead().map_err(|reason| failed("tell its look-ahead", reason))?;
        let packet = vec![0; MAX_PACKET_BYTES];
        Ok(Encoder { handle, settings, lookahead, pending: Vec::new(), timeline: None, packet })
    }

    /// Samples a channel by which decoded sound lags behind; 120 (2.5 ms). See the module's head.
    pub fn lookahead_samples(&self) -> usize {
        self.lookahead
    }

    /// Takes `block` in and returns the packets that it fills, oldest first. What is left waits for the next block.
    ///
    /// Where the block begins more than [`Encoder::REANCHOR`] after the samples before it, silence fills their
    /// packet up and time goes on at the block's. Where it begins as much too early, its first samples, whose time
    /// is taken already, are dropped. Time stamps always grow.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another rate or number of channels, [`CodecError::TimeStamp`] for a block that goes
    /// back by more than [`Encoder::MAX_OVERLAP`]; the encoder is unchanged after both.
    pub fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>, CodecError> {
        let channels = usize::from(self.settings.channels);
        if block.rate_hz != RATE_HZ
            || block.channels != self.settings.channels
            || !block.samples.len().is_multiple_of(channels)
        {
            let (rate, count) = (block.rate_hz, block.samples.len());
            let found = format!("{count} samples of {} channels at {rate} Hz", block.channels);
            let expected = format!("{channels} channels at {RATE_HZ} Hz");
            return Err(CodecError::Input { codec: CODEC, found, expected });
        }
        let mut samples = block.samples.as_slice();
        let mut units = Vec::new();
        match self.timeline {
            None => self.timeline = Some(Timeline { anchor: block.captured, taken: 0 }),
            Some(timeline) => {
                let expected = timeline.time_of(timeline.taken);
                if block.captured.since(expected) > Self::REANCHOR {
                    units.extend(self.fill_up()?);
                    self.timeline = Some(Timeline { anchor: block.captured, taken: 0 });
                }
                let overlap = expected.since(block.captured);
                if overlap > Self::MAX_OVERLAP {
                    let (found, last) = (Ticks::from_time(block.captured), Ticks::from_time(expected));
                    return Err(CodecError::TimeStamp { codec: CODEC, found, last });
                }
                if overlap > Self::REANCHOR {
                    let frames = (overlap.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as usize;
                    samples = &samples[samples.len().min(frames * channels)..];
                }
            }
        }
        let frame = self.settings.frame_duration.samples() * channels;
        for piece in samples.chunks(frame) {
            // A piece may fill one frame and begin the next; pieces are at most a frame long.
            self.take(piece);
            if self.pending.len() >= frame {
                units.push(self.encode_frame()?);
            }
        }
        Ok(units)
    }

    /// Ends the stream: the last packet, filled up with silence, if samples wait for one.
    pub fn flush(&mut self) -> Result<Option<AccessUnit>, CodecError> {
        self.fill_up()
    }

    fn take(&mut self, samples: &[f32]) {
        self.pending.extend_from_slice(samples);
        let timeline = self.timeline.as_mut().expect("anchored before samples are taken");
        timeline.taken += (samples.len() / usize::from(self.settings.channels)) as u64;
    }

    fn fill_up(&mut self) -> Result<Option<AccessUnit>, CodecError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let frame = self.settings.frame_duration.samples() * usize::from(self.settings.channels);
        self.take(&vec![0.0; frame - self.pending.len()]);
        self.encode_frame().map(Some)
    }

    fn encode_frame(&mut self) -> Result<AccessUnit, CodecError> {
        let channels = usize::from(self.settings.channels);
        let frame = self.settings.frame_duration.samples() * channels;
        let timeline = self.timeline.expect("samples were taken");
        let captured = timeline.time_of(timeline.taken - (self.pending.len() / channels) as u64);
        let bytes = self
            .handle
            .encode(&self.pending[..frame], &mut self.packet)
            .map_err(|reason| failed("encode a frame", reason))?;
        self.pending.drain(..frame);
        let pts = Ticks::from_time(captured);
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
        let frames = self.handle.decode(Some(packet), &mut self.samples).map_err(corrupt)?;
        Ok(self.block(frames, captured))
    }

    /// Conceals a lost packet by going on with the sound before it.
    pub fn conceal(&mut self, lost: FrameDuration, captured: Time) -> Result<AudioBlock, CodecError> {
        let length = lost.samples() * usize::from(self.channels);
        let frames = self
            .handle
            .decode(None, &mut self.samples[..length])
            .map_err(|reason| failed("conceal a loss", reason))?;
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
