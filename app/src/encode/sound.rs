//! The audio options of `encode`, as given on the command line.

use crate::sound_source::SoundSource;
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::encode::{SoundRequest, sound};
use std::time::Duration;

/// Where audio comes from and how it is coded.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SoundArgs {
    /// Audio codec [default: opus if there is audio]
    #[arg(long, value_enum, value_name = "CODEC")]
    pub(super) audio: Option<Audio>,
    #[command(flatten)]
    pub(super) source: SoundSource,
    /// Bit rate of the audio [default: 128k]
    #[arg(long, value_name = "RATE")]
    pub(super) audio_bitrate: Option<Bitrate>,
    /// Length of an audio packet: for Opus 2.5ms, 5ms, 10ms or 20ms, for s302m 1ms to 10ms [default: opus 5ms, s302m
    /// 1ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub(super) audio_frame: Option<Duration>,
    /// Bits per sample of s302m: 16, 20 or 24 [default: 24]
    #[arg(long, value_name = "BITS")]
    pub(super) audio_bits: Option<u32>,
}

/// How audio is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Audio {
    /// Opus: 7.5 ms of delay, plays everywhere except on older Apple devices
    #[cfg(feature = "opus")]
    Opus,
    /// AAC-LC: 64 ms of delay, plays everywhere
    #[cfg(feature = "aac")]
    Aac,
    /// SMPTE 302M: uncompressed samples, 1 ms of delay, about 3 Mbit/s, for contribution
    S302m,
    /// No audio
    None,
}

impl From<Audio> for sound::Audio {
    fn from(choice: Audio) -> sound::Audio {
        match choice {
            #[cfg(feature = "opus")]
            Audio::Opus => sound::Audio::Opus,
            #[cfg(feature = "aac")]
            Audio::Aac => sound::Audio::Aac,
            Audio::S302m => sound::Audio::S302m,
            Audio::None => sound::Audio::None,
        }
    }
}

impl SoundArgs {
    /// The same, for the encoder.
    pub(super) fn request(&self) -> SoundRequest {
        SoundRequest {
            codec: self.audio.map(sound::Audio::from),
            input: self.source.audio_in.clone(),
            raw: self.source.audio_format,
            bitrate: self.audio_bitrate,
            frame: self.audio_frame,
            bits: self.audio_bits,
        }
    }
}
