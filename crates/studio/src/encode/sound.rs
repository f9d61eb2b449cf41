//! How sound is coded: Opus, AAC-LC or plain samples, behind one face.

use super::Result;
use super::sound_error::SoundError;
use crate::capture::TONE_CHANNELS;
#[cfg(feature = "aac")]
use glassline_codec::audio::aac;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
use glassline_codec::audio::s302m;
use glassline_media::bitstream::s302m::{Depth, HEADER_BYTES};
use glassline_media::container::ts::constant_rate::SoundLoad;
use glassline_media::container::ts::{AudioFormat, MuxSettings};
use glassline_media::quantity::Bitrate;
use glassline_media::{AccessUnit, AudioBlock, Codec, Ticks, choice};
use std::time::Duration;

/// Samples a second and channel that every coder takes.
const RATE_HZ: u32 = glassline_codec::audio::RATE_HZ;
/// From when a packet is there to when it is played, on the wire: for muxing, the network and the receiver.
const MARGIN: Ticks = Ticks(1_800);
/// What the test tone gives at a time to a coder that gathers more than this.
const MAX_BLOCK: usize = 480;

choice! {
    /// How sound is coded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Audio {
        /// Opus: 7.5 ms of delay, plays everywhere except on older Apple devices.
        #[cfg(feature = "opus")]
        Opus = "opus",
        /// AAC-LC: 64 ms of delay, plays everywhere.
        #[cfg(feature = "aac")]
        Aac = "aac",
        /// SMPTE 302M: uncompressed samples, 1 ms of delay, about 3 Mbit/s, for contribution.
        S302m = "s302m",
        /// No audio.
        None = "none",
    }
}

impl Default for Audio {
    /// Opus, if it is built in.
    fn default() -> Audio {
        #[cfg(feature = "opus")]
        return Audio::Opus;
        #[cfg(not(feature = "opus"))]
        Audio::None
    }
}

/// What is asked of a coder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How the sound is coded.
    pub codec: Audio,
    /// Channels of the sound that goes in.
    pub channels: u8,
    /// Bits a second; the codec's default where not given.
    pub bitrate: Option<Bitrate>,
    /// Sound in a packet; the codec's default where not given.
    pub frame: Option<Duration>,
    /// Bits of a sample that is not coded; 24 where not given.
    pub bits: Option<u32>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { codec: Audio::default(), channels: TONE_CHANNELS, bitrate: None, frame: None, bits: None }
    }
}

impl Settings {
    /// Samples of each channel that a source does best to give at a time; `None` for no sound.
    pub(super) fn block_frames(&self) -> Option<usize> {
        let wanted = self.frame.map(samples_of);
        Some(match self.codec {
            Audio::None => return None,
            #[cfg(feature = "opus")]
            Audio::Opus => wanted.unwrap_or(opus::FrameDuration::default().samples()).clamp(1, MAX_BLOCK),
            #[cfg(feature = "aac")]
            Audio::Aac => 240,
            Audio::S302m => wanted.unwrap_or(s302m::Settings::default().frame_samples).clamp(1, MAX_BLOCK),
        })
    }
}

/// What the container has to know of the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// What it says about it.
    pub(super) format: AudioFormat,
    /// How much later than their capture the stamps on the wire have to be, for picture and sound alike, so that no
    /// packet comes after its time.
    pub(super) decode_delay: Ticks,
    /// What it adds to a stream of constant rate.
    pub(super) load: SoundLoad,
}

/// An open encoder.
pub(super) struct Encoder {
    coder: Coder,
    /// What the container says about the sound.
    format: AudioFormat,
    /// From a packet's stamp until it is there.
    delay: Ticks,
    load: SoundLoad,
}

enum Coder {
    #[cfg(feature = "opus")]
    Opus(opus::Encoder),
    #[cfg(feature = "aac")]
    Aac(aac::Encoder),
    S302m(s302m::Encoder),
}

impl Encoder {
    /// The encoder for what was chosen; `None` for no sound.
    ///
    /// # Errors
    /// For settings that the codec does not have or take, and where AAC's library is not installed.
    pub(super) fn open(settings: &Settings) -> Result<Option<Encoder>> {
        let Settings { codec, channels, frame, .. } = *settings;
        settings.check()?;
        // Packets of `bytes` hold `frame` samples, and are there `delay` samples after their stamp.
        let encoder = |coder, codec, channels, delay: usize, (bytes, frame): (usize, usize)| {
            let format = AudioFormat { codec, channels, language: None, he_aac: None };
            let load = SoundLoad { unit_bytes: bytes, unit_time: time_of(frame), lag: time_of(delay) };
            Some(Encoder { coder, format, delay: ticks_of(delay), load })
        };
        Ok(match codec {
            Audio::None => None,
            #[cfg(feature = "opus")]
            Audio::Opus => {
                let default = opus::Settings::default();
                let frame_duration = frame.and_then(frame_duration).unwrap_or(default.frame_duration);
                let bitrate_bps = bits_per_second(settings.bitrate, default.bitrate_bps);
                let opus =
                    opus::Encoder::new(opus::Settings { channels, bitrate_bps, frame_duration, ..default })?;
                let delay = opus.lookahead_samples() + frame_duration.samples();
                let packet = packet_of(bitrate_bps, frame_duration.samples());
                encoder(Coder::Opus(opus), Codec::Opus, channels, delay, packet)
            }
            #[cfg(feature = "aac")]
            Audio::Aac => {
                let bitrate_bps = bits_per_second(settings.bitrate, aac::Settings::default().bitrate_bps);
                let aac = aac::Encoder::new(aac::Settings { channels, bitrate_bps })?;
                let delay = aac.delay_samples();
                encoder(Coder::Aac(aac), Codec::Aac, channels, delay, packet_of(bitrate_bps, 1024))
            }
            Audio::S302m => {
                // There is no single channel in AES3: it goes into both of a pair.
                let channels = channels.max(2);
                let default = s302m::Settings::default();
                let frame_samples = frame.map_or(default.frame_samples, samples_of);
                let depth = settings.bits.and_then(Depth::from_bits).unwrap_or_default();
                let s302m = s302m::Encoder::new(s302m::Settings { channels, depth, frame_samples })?;
                let bytes = HEADER_BYTES + frame_samples * usize::from(channels) / 2 * depth.pair_bytes();
                encoder(Coder::S302m(s302m), Codec::S302m, channels, frame_samples, (bytes, frame_samples))
            }
        })
    }

    /// What the container has to know.
    pub(super) fn stream(&self) -> Stream {
        let decode_delay = MuxSettings::default().decode_delay.max(self.delay + MARGIN);
        Stream { format: self.format, decode_delay, load: self.load }
    }

    /// Takes samples in and returns the packets that they fill.
    pub(super) fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>> {
        let both;
        let block = if self.format.channels == 2 && block.channels == 1 {
            let samples = block.samples.iter().flat_map(|sample| [*sample; 2]).collect();
            both = AudioBlock { samples, channels: 2, ..*block };
            &both
        } else {
            block
        };
        Ok(match &mut self.coder {
            #[cfg(feature = "opus")]
            Coder::Opus(opus) => opus.push(block)?,
            #[cfg(feature = "aac")]
            Coder::Aac(aac) => aac.push(block)?,
            Coder::S302m(s302m) => s302m.push(block)?,
        })
    }

    /// The last packets, if samples wait for one.
    pub(super) fn flush(&mut self) -> Result<Vec<AccessUnit>> {
        Ok(match &mut self.coder {
            #[cfg(feature = "opus")]
            Coder::Opus(opus) => opus.flush()?.into_iter().collect(),
            #[cfg(feature = "aac")]
            Coder::Aac(aac) => aac.flush()?,
            Coder::S302m(s302m) => s302m.flush()?.into_iter().collect(),
        })
    }
}

impl Settings {
    /// Refuses what the codec does not have.
    ///
    /// # Errors
    /// What it does not have.
    pub fn check(&self) -> Result<(), SoundError> {
        let packs = self.codec == Audio::S302m;
        let codes = !packs && self.codec != Audio::None;
        if self.bitrate.is_some() && !codes {
            return Err(SoundError::BitrateOfSamples);
        }
        if let Some(bits) = self.bits {
            if !packs {
                return Err(SoundError::BitsOfCompressed);
            }
            if Depth::from_bits(bits).is_none() {
                return Err(SoundError::Bits(bits));
            }
        }
        let channels = self.channels;
        if codes && channels > 2 {
            return Err(SoundError::ManyChannels(channels));
        }
        if packs && channels > 2 && !channels.is_multiple_of(2) {
            return Err(SoundError::OddChannels(channels));
        }
        self.frame.map_or(Ok(()), |frame| self.check_frame(frame))
    }

    fn check_frame(&self, frame: Duration) -> Result<(), SoundError> {
        let packs = self.codec == Audio::S302m;
        if packs && !(1..=s302m::MAX_FRAME_SAMPLES).contains(&samples_of(frame)) {
            return Err(SoundError::FrameOfS302m(frame));
        }
        if !packs && !self.has_frame_lengths() {
            return Err(SoundError::FrameFixed);
        }
        #[cfg(feature = "opus")]
        if !packs && frame_duration(frame).is_none() {
            return Err(SoundError::FrameOfOpus(frame));
        }
        Ok(())
    }

    fn has_frame_lengths(&self) -> bool {
        #[cfg(feature = "opus")]
        return self.codec == Audio::Opus;
        #[cfg(not(feature = "opus"))]
        false
    }
}

#[cfg(feature = "opus")]
fn frame_duration(frame: Duration) -> Option<opus::FrameDuration> {
    let samples = samples_of(frame);
    opus::FrameDuration::ALL.into_iter().find(|known| known.samples() == samples)
}

#[cfg(any(feature = "opus", feature = "aac"))]
fn bits_per_second(bitrate: Option<Bitrate>, default: u32) -> u32 {
    bitrate.map_or(default, |bitrate| u32::try_from(bitrate.bits_per_second()).unwrap_or(u32::MAX))
}

/// Bytes and samples of a packet of compressed sound: a fifth more than the mean, since no two are alike.
#[cfg(any(feature = "opus", feature = "aac"))]
fn packet_of(bitrate_bps: u32, samples: usize) -> (usize, usize) {
    let bits = u64::from(bitrate_bps) * samples as u64 * 6 / 5 / u64::from(RATE_HZ);
    (bits.div_ceil(8) as usize, samples)
}

fn time_of(samples: usize) -> Duration {
    Duration::from_nanos(samples as u64 * 1_000_000_000 / u64::from(RATE_HZ))
}

/// Samples of each channel in so much time, to the nearest.
fn samples_of(time: Duration) -> usize {
    ((time.as_nanos() * u128::from(RATE_HZ) + 500_000_000) / 1_000_000_000) as usize
}

fn ticks_of(samples: usize) -> Ticks {
    Ticks((samples as u64 * u64::from(Ticks::RATE)).div_ceil(u64::from(RATE_HZ)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    const S302M: Settings =
        Settings { codec: Audio::S302m, channels: 2, bitrate: None, frame: None, bits: None };

    fn block(samples: Vec<f32>, channels: u8) -> AudioBlock {
        AudioBlock { samples, channels, rate_hz: RATE_HZ, captured: glassline_media::Time::ZERO }
    }

    #[test]
    fn a_bit_rate_is_refused_where_nothing_is_compressed() {
        let bitrate = Some(Bitrate::from_bits_per_second(64_000));
        for codec in [Audio::S302m, Audio::None] {
            let refused = Settings { codec, bitrate, ..S302M }.check();
            assert_eq!(refused, Err(SoundError::BitrateOfSamples), "{codec:?}");
        }
    }

    #[test]
    fn samples_have_the_bits_that_st_302_knows() {
        for bits in [16, 20, 24] {
            assert_eq!(Settings { bits: Some(bits), ..S302M }.check(), Ok(()));
        }
        for bits in [0, 8, 17, 32, u32::MAX] {
            assert_eq!(Settings { bits: Some(bits), ..S302M }.check(), Err(SoundError::Bits(bits)));
        }
        let none = Settings { codec: Audio::None, bits: Some(24), ..S302M };
        assert_eq!(none.check(), Err(SoundError::BitsOfCompressed));
    }

    #[test]
    fn uncompressed_channels_come_alone_or_in_pairs() {
        let odd = (1..=8).filter(|channels| Settings { channels: *channels, ..S302M }.check().is_err());
        assert_eq!(odd.collect::<Vec<_>>(), [3, 5, 7]);
    }

    #[test]
    fn packets_of_s302m_hold_from_one_sample_to_ten_milliseconds() {
        let is_refused = |nanos| {
            let frame = Duration::from_nanos(nanos);
            Settings { frame: Some(frame), ..S302M }.check() == Err(SoundError::FrameOfS302m(frame))
        };
        // A sample is 20.8 µs: half of one is rounded up.
        assert_eq!([0, 10_000, 10_500, 10_000_000].map(is_refused), [true, true, false, false]);
        assert!(is_refused(10_100_000));
    }

    #[test]
    fn no_sound_has_no_block_and_the_others_gather_no_more_than_ten_milliseconds() {
        assert_eq!(Settings { codec: Audio::None, ..S302M }.block_frames(), None);
        let of = |millis| Settings { frame: Some(Duration::from_millis(millis)), ..S302M }.block_frames();
        assert_eq!([of(1), of(10), of(1000)], [Some(48), Some(480), Some(480)]);
        assert_eq!(Settings { frame: Some(Duration::ZERO), ..S302M }.block_frames(), Some(1));
    }

    #[test]
    fn a_single_channel_goes_into_both_of_a_pair() {
        let frame = Some(Duration::from_millis(1));
        let coded = |channels, samples| {
            let mut encoder = Encoder::open(&Settings { channels, frame, ..S302M }).unwrap().unwrap();
            assert_eq!(encoder.stream().format.channels, 2);
            let units = encoder.push(&block(samples, channels)).unwrap();
            units.into_iter().map(|unit| unit.data).collect::<Vec<_>>()
        };
        let single: Vec<f32> = (0..96).map(|at| at as f32 / 100.0).collect();
        let pair = single.iter().flat_map(|sample| [*sample; 2]).collect();
        let coded_single = coded(1, single);
        assert_eq!(coded_single.len(), 2, "2 ms in packets of one");
        assert_eq!(coded_single, coded(2, pair));
    }

    #[test]
    fn samples_that_fill_no_packet_wait_for_the_end() {
        let frame = Some(Duration::from_millis(1));
        let mut encoder = Encoder::open(&Settings { frame, ..S302M }).unwrap().unwrap();
        assert!(encoder.push(&block(vec![0.5; 2 * 47], 2)).unwrap().is_empty());
        assert_eq!(encoder.flush().unwrap().len(), 1);
        assert!(encoder.flush().unwrap().is_empty(), "it was given already");
    }

    #[test]
    fn what_samples_add_to_a_constant_rate_is_their_bytes_and_their_time() {
        let frame = Some(Duration::from_millis(1));
        for (bits, bytes) in [(16, 4 + 48 * 5), (20, 4 + 48 * 6), (24, 4 + 48 * 7)] {
            let settings = Settings { frame, bits: Some(bits), ..S302M };
            let load = Encoder::open(&settings).unwrap().unwrap().stream().load;
            let millisecond = Duration::from_millis(1);
            assert_eq!((load.unit_bytes, load.unit_time, load.lag), (bytes, millisecond, millisecond));
        }
    }

    #[test]
    fn no_sound_has_no_encoder() {
        assert!(Encoder::open(&Settings { codec: Audio::None, ..S302M }).unwrap().is_none());
    }

    #[cfg(feature = "opus")]
    #[test]
    fn opus_has_packets_of_four_lengths_and_two_channels() {
        let opus = Settings { codec: Audio::Opus, ..S302M };
        for micros in [2_500, 5_000, 10_000, 20_000] {
            assert_eq!(Settings { frame: Some(Duration::from_micros(micros)), ..opus }.check(), Ok(()));
        }
        let frame = Duration::from_millis(15);
        assert_eq!(Settings { frame: Some(frame), ..opus }.check(), Err(SoundError::FrameOfOpus(frame)));
        assert_eq!(Settings { channels: 3, ..opus }.check(), Err(SoundError::ManyChannels(3)));
        assert_eq!(Settings { bits: Some(24), ..opus }.check(), Err(SoundError::BitsOfCompressed));
    }

    #[cfg(feature = "aac")]
    #[test]
    fn the_frames_of_aac_have_one_length() {
        let aac = Settings { codec: Audio::Aac, ..S302M };
        assert_eq!((aac.check(), aac.block_frames()), (Ok(()), Some(240)));
        let frame = Some(Duration::from_millis(20));
        assert_eq!(Settings { frame, ..aac }.check(), Err(SoundError::FrameFixed));
    }

    #[test]
    fn ticks_of_samples_are_rounded_up_and_samples_of_a_time_to_the_nearest() {
        assert_eq!([0, 1, 8, 48].map(|samples| ticks_of(samples).0), [0, 2, 15, 90]);
        assert_eq!(
            [0, 10_416, 10_417, 20_834].map(|nanos| samples_of(Duration::from_nanos(nanos))),
            [0, 0, 1, 1]
        );
    }
}
