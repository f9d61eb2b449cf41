//! AAC-LC (ISO/IEC 14496-3) by the encoder in FFmpeg's libavcodec, in ADTS frames.
//!
//! Comes in: [`AudioBlock`]s of any length at 48 kHz. Goes out: one [`AccessUnit`] a frame of 1,024 samples. Called by
//! the `encode` pipeline for receivers that play no Opus.
//!
//! **Which encoder.** FDK AAC is better at low rates, but its licence may not be joined with the GPL of x264.
//! libavcodec's may (LGPL, or GPL as distributions build it), and it stands in Debian's main archive. It is opened
//! when the first encoder is, by the name that belongs to the headers of the build: a program that codes no AAC
//! neither loads nor needs it.
//!
//! **Time.** The transform overlaps: what is decoded lags by [`Encoder::lag_samples`] (1,024, the priming). `pts` is
//! earlier by as much, so what a decoder plays at `pts` was captured at `pts`: a packet has the time of the frame before its
//! own, which is what it makes audible, across a jump in time too. The encoder looks one frame ahead,
//! to choose its windows. A packet is therefore there [`Encoder::delay_samples`] (3,072; 64 ms) after its `pts`.

use super::aac_ffi::{self, Refusal};
use super::framer::{Framer, ticks_of};
pub use super::{MAX_OVERLAP, RATE_HZ, REANCHOR};
use crate::CodecError;
use bytes::Bytes;
use glassline_media::bitstream::adts;
use glassline_media::{AccessUnit, AudioBlock, Codec, Stamps, Ticks, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// What an [`Encoder`] is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 1 or 2.
    pub channels: u8,
    /// Bits a second for all channels, 16 000 to 288 000 for each.
    pub bitrate_bps: u32,
}

impl Default for Settings {
    /// Stereo at 128 kbit/s.
    fn default() -> Settings {
        Settings { channels: 2, bitrate_bps: 128_000 }
    }
}

/// An open encoder.
pub struct Encoder {
    framer: Framer,
    coder: Coder,
}

/// What codes the frames.
struct Coder {
    handle: aac_ffi::Encoder,
    channels: u8,
    lag: usize,
    /// Samples of each channel in a frame.
    frame: usize,
    /// Capture times of the frames that went in and have not come out.
    inside: VecDeque<Time>,
    /// That of the last frame that went in.
    last: Time,
    /// That of the frame before the next packet's: what a decoder gives for a packet is the frame before it.
    before: Option<Time>,
    packet: Vec<u8>,
}

impl Encoder {
    /// Opens an encoder.
    ///
    /// # Errors
    /// [`CodecError::Setting`] for one out of range, [`CodecError::Absent`] where this machine has not the library
    /// that the program was built for.
    pub fn new(settings: Settings) -> Result<Encoder, CodecError> {
        let Settings { channels, bitrate_bps } = settings;
        let refused = |setting, found: String, expected: String| {
            Err(CodecError::Setting { codec: CODEC, setting, found, expected })
        };
        if !matches!(channels, 1 | 2) {
            return refused("channels", channels.to_string(), "1 or 2".to_owned());
        }
        let (least, most) = (16_000 * u32::from(channels), 288_000 * u32::from(channels));
        if !(least..=most).contains(&bitrate_bps) {
            let expected = format!("between {least} and {most} with {channels} channels");
            return refused("bitrate (bit/s)", bitrate_bps.to_string(), expected);
        }
        let handle =
            aac_ffi::Encoder::open(RATE_HZ, channels, bitrate_bps).map_err(|refusal| match refusal {
                Refusal::Absent(reason) => CodecError::Absent {
                    codec: CODEC,
                    library: aac_ffi::library(),
                    package: format!("libavcodec{}", aac_ffi::library_version()),
                    reason,
                },
                Refusal::Refused(reason) => failed("open an encoder", reason),
            })?;
        let frame = handle.frame_samples() / usize::from(channels);
        let (lag, packet) = (handle.lag(), vec![0; MAX_PACKET_BYTES]);
        let coder = Coder {
            handle,
            channels,
            lag,
            frame,
            inside: VecDeque::new(),
            last: Time::ZERO,
            before: None,
            packet,
        };
        Ok(Encoder { framer: Framer::new(CODEC, channels, frame), coder })
    }

    /// Samples a channel by which decoded sound lags behind; 1,024. See the module's head.
    pub fn lag_samples(&self) -> usize {
        self.coder.lag
    }

    /// Samples a channel from a packet's `pts` until all that it needs has gone in; 3,072.
    pub fn delay_samples(&self) -> usize {
        self.coder.lag + 2 * self.coder.frame
    }

    /// Takes `block` in and returns the packets that are ready, oldest first. A gap of more than [`REANCHOR`]
    /// before the block becomes silence, one of more than [`LONGEST_SILENCE`](super::LONGEST_SILENCE) moves time on; as much
    /// of overlap as the first is dropped.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another rate or number of channels, [`CodecError::TimeStamp`] for a block that goes
    /// back by more than [`MAX_OVERLAP`]; the encoder is unchanged after both. [`CodecError::Library`].
    pub fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>, CodecError> {
        let (mut units, Encoder { framer, coder }) = (Vec::new(), self);
        framer.push(block, &mut |captured, samples| coder.encode(captured, samples, &mut units))?;
        Ok(units)
    }

    /// Ends the stream: the packets that are still inside, the last one filled up with silence. Nothing can be pushed
    /// after it.
    pub fn flush(&mut self) -> Result<Vec<AccessUnit>, CodecError> {
        let (mut units, Encoder { framer, coder }) = (Vec::new(), self);
        framer.flush(&mut |captured, samples| coder.encode(captured, samples, &mut units))?;
        coder.handle.push(None).map_err(|reason| failed("end the stream", reason))?;
        // Draining brings one packet more than frames went in: the second half of the last one's overlap.
        coder.inside.push_back(coder.last + coder.frame_time());
        coder.poll(&mut units)?;
        Ok(units)
    }
}

impl Coder {
    /// How long a frame lasts.
    fn frame_time(&self) -> Duration {
        Duration::from_nanos(self.frame as u64 * 1_000_000_000 / u64::from(RATE_HZ))
    }

    fn encode(
        &mut self,
        captured: Time,
        samples: &[f32],
        units: &mut Vec<AccessUnit>,
    ) -> Result<(), CodecError> {
        self.handle.push(Some(samples)).map_err(|reason| failed("encode a frame", reason))?;
        self.inside.push_back(captured);
        self.last = captured;
        self.poll(units)
    }

    fn poll(&mut self, units: &mut Vec<AccessUnit>) -> Result<(), CodecError> {
        loop {
            let room = &mut self.packet[adts::HEADER_BYTES..];
            let bytes = self.handle.poll(room).map_err(|reason| failed("give a packet", reason))?;
            if bytes == 0 {
                return Ok(());
            }
            let surplus = || failed("give a packet", "it gives more packets than frames went in".to_owned());
            let captured = self.inside.pop_front().ok_or_else(surplus)?;
            let frame_bytes = adts::HEADER_BYTES + bytes;
            let header = adts::Header {
                object_type: 2,
                rate_hz: RATE_HZ,
                channels: self.channels,
                checksum: false,
                frame_bytes,
                blocks: 1,
            };
            let header = header
                .write()
                .ok_or_else(|| failed("give a packet", format!("{bytes} bytes are too many")))?;
            self.packet[..adts::HEADER_BYTES].copy_from_slice(&header);
            // Across a jump in time the two frames are further apart than one lasts.
            let heard = match self.before.replace(captured) {
                Some(before) => Ticks::from_time(before) + ticks_of(self.frame),
                None => Ticks::from_time(captured),
            };
            let pts = heard - ticks_of(self.lag);
            units.push(AccessUnit {
                codec: Codec::Aac,
                data: Bytes::copy_from_slice(&self.packet[..frame_bytes]),
                pts,
                dts: pts,
                random_access: true,
                stamps: Stamps::captured_at(captured),
            });
        }
    }
}

fn failed(action: &'static str, reason: String) -> CodecError {
    CodecError::Library { library: "libavcodec", action, reason }
}

const CODEC: &str = "AAC";
/// What the length in an ADTS header can say.
const MAX_PACKET_BYTES: usize = (1 << 13) - 1;

#[cfg(test)]
#[path = "aac_tests.rs"]
mod tests;
