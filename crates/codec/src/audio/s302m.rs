//! LPCM in MPEG-TS (SMPTE ST 302): samples as they are, and no delay but that of gathering a packet.
//!
//! Comes in: [`AudioBlock`]s at 48 kHz. Goes out: one [`AccessUnit`] a packet, with the payload of one PES packet as
//! its data. Called by the `encode` pipeline.

use super::framer::Framer;
pub use super::{MAX_OVERLAP, RATE_HZ, REANCHOR};
use crate::CodecError;
use bytes::Bytes;
use glassline_media::bitstream::s302m::{self, BLOCK_SAMPLES, Depth};
use glassline_media::{AccessUnit, AudioBlock, Codec, Stamps, Ticks, Time};

/// What an [`Encoder`] is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 2, 4, 6 or 8.
    pub channels: u8,
    /// Bits of a sample.
    pub depth: Depth,
    /// Samples of each channel in a packet, 1 to [`MAX_FRAME_SAMPLES`].
    pub frame_samples: usize,
}

/// The longest packet: 10 ms. More would not fit a PES packet with all channels, and would only be late.
pub const MAX_FRAME_SAMPLES: usize = 480;

impl Default for Settings {
    /// Stereo of 24 bits in packets of 1 ms. Those fill two TS packets to 96 %, so that shorter ones would not be
    /// sooner for anything, and longer ones not much smaller.
    fn default() -> Settings {
        Settings { channels: 2, depth: Depth::Bits24, frame_samples: 48 }
    }
}

/// An encoder.
pub struct Encoder {
    framer: Framer,
    settings: Settings,
    /// The next sample's place in its AES3 block.
    position: u16,
}

impl Encoder {
    /// Opens an encoder, or says which setting is out of range.
    pub fn new(settings: Settings) -> Result<Encoder, CodecError> {
        let refused = |setting, found: String, expected: &str| {
            Err(CodecError::Setting { codec: CODEC, setting, found, expected: expected.to_owned() })
        };
        if !matches!(settings.channels, 2 | 4 | 6 | 8) {
            return refused("channels", settings.channels.to_string(), "2, 4, 6 or 8");
        }
        if !(1..=MAX_FRAME_SAMPLES).contains(&settings.frame_samples) {
            return refused("samples in a packet", settings.frame_samples.to_string(), "1 to 480 (10 ms)");
        }
        let framer = Framer::new(CODEC, settings.channels, settings.frame_samples);
        Ok(Encoder { framer, settings, position: 0 })
    }

    /// Takes `block` in and returns the packets that it fills, oldest first. What is left waits for the next block.
    /// A gap of more than [`REANCHOR`]
    /// before the block becomes silence, one of more than [`LONGEST_SILENCE`](super::LONGEST_SILENCE) moves time on; as much
    /// of overlap as the first is dropped.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another rate or number of channels, [`CodecError::TimeStamp`] for a block that goes
    /// back by more than [`MAX_OVERLAP`]; the encoder is unchanged after both.
    pub fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>, CodecError> {
        let mut units = Vec::new();
        let Encoder { framer, settings, position } = self;
        framer.push(block, &mut |captured, samples| {
            units.push(pack(*settings, position, captured, samples)?);
            Ok(())
        })?;
        Ok(units)
    }

    /// Ends the stream: the last packet, filled up with silence, if samples wait for one.
    pub fn flush(&mut self) -> Result<Option<AccessUnit>, CodecError> {
        let mut unit = None;
        let Encoder { framer, settings, position } = self;
        framer.flush(&mut |captured, samples| {
            unit = Some(pack(*settings, position, captured, samples)?);
            Ok(())
        })?;
        Ok(unit)
    }
}

fn pack(
    settings: Settings,
    position: &mut u16,
    captured: Time,
    samples: &[f32],
) -> Result<AccessUnit, CodecError> {
    let Settings { channels, depth, frame_samples } = settings;
    let mut data = Vec::with_capacity(s302m::HEADER_BYTES + samples.len() / 2 * depth.pair_bytes());
    s302m::write(samples, channels, depth, *position, &mut data).map_err(|error| CodecError::Input {
        codec: CODEC,
        found: error.to_string(),
        expected: format!("{channels} channels"),
    })?;
    *position = ((usize::from(*position) + frame_samples) % usize::from(BLOCK_SAMPLES)) as u16;
    let pts = Ticks::from_time(captured);
    let stamps = Stamps::captured_at(captured);
    Ok(AccessUnit {
        codec: Codec::S302m,
        data: Bytes::from(data),
        pts,
        dts: pts,
        random_access: true,
        stamps,
    })
}

const CODEC: &str = "S302M";

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frames: usize, channels: u8, captured: Time) -> AudioBlock {
        let samples = (0..frames * usize::from(channels)).map(|at| at as f32 / 8_388_608.0).collect();
        AudioBlock { samples, channels, rate_hz: RATE_HZ, captured }
    }

    #[test]
    fn samples_come_out_as_they_went_in_with_their_time() {
        for channels in [2, 4, 6, 8] {
            for depth in [Depth::Bits20, Depth::Bits24] {
                let mut encoder = Encoder::new(Settings { channels, depth, ..Settings::default() }).unwrap();
                let mut input = block(1000, channels, Time::from_millis(20));
                if depth == Depth::Bits20 {
                    input.samples.iter_mut().for_each(|sample| *sample *= 16.0);
                }
                let mut units = encoder.push(&input).unwrap();
                units.extend(encoder.flush().unwrap());
                assert_eq!(units.len(), 21);
                let mut output = Vec::new();
                for (number, unit) in (0..).zip(&units) {
                    assert_eq!((unit.pts, unit.dts), (Ticks(1800 + 90 * number), unit.pts));
                    let (header, samples) = s302m::read(&unit.data).unwrap();
                    assert_eq!((header.channels, header.depth, header.samples()), (channels, depth, 48));
                    output.extend(samples);
                }
                let (sound, silence) = output.split_at(input.samples.len());
                assert!(sound == input.samples && silence.iter().all(|sample| *sample == 0.0));
            }
        }
    }

    #[test]
    fn aes3_blocks_run_on_from_packet_to_packet() {
        let mut encoder = Encoder::new(Settings { frame_samples: 100, ..Settings::default() }).unwrap();
        let units = encoder.push(&block(600, 2, Time::ZERO)).unwrap();
        let marks = |unit: &AccessUnit| -> Vec<usize> {
            unit.data[4..]
                .chunks(7)
                .enumerate()
                .filter(|(_, pair)| pair[3] & 0x10 != 0)
                .map(|(at, _)| at)
                .collect()
        };
        let found: Vec<_> = units.iter().map(marks).collect();
        assert_eq!(found, [vec![0], vec![92], vec![], vec![84], vec![], vec![76]]);
    }

    #[test]
    fn wrong_settings_and_blocks_are_refused() {
        for channels in [0, 1, 3, 10] {
            assert!(Encoder::new(Settings { channels, ..Settings::default() }).is_err());
        }
        for frame_samples in [0, 481] {
            assert!(Encoder::new(Settings { frame_samples, ..Settings::default() }).is_err());
        }
        let mut encoder = Encoder::new(Settings::default()).unwrap();
        assert!(encoder.push(&block(10, 4, Time::ZERO)).is_err());
    }
}
