//! The sound that a stream is to have, as the command line and the configuration of `serve` say it.

use super::coder::{Audio, Refusal, Settings};
use super::input::{AudioIn, Opened, RawFormat};
use crate::encode::source::SOUND_CHANNELS;
use crate::failure;
use anyhow::Result;
use glassline_media::quantity::{self, Bitrate};
use std::time::Duration;

/// Where sound comes from and how it is coded.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(in crate::encode) struct Wanted {
    /// How sound is coded [default: opus where there is sound]
    #[arg(long, value_enum, value_name = "CODEC")]
    pub(in crate::encode) audio: Option<Audio>,
    /// Where sound comes from: alsa:DEVICE, FILE.wav, or fd:N (raw samples on an open descriptor)
    #[arg(long, value_name = "SOURCE")]
    pub(in crate::encode) audio_in: Option<AudioIn>,
    /// What raw samples are like, and what is asked of an ALSA device: s16le, s24le, s32le, f32le or f64le, rate and
    /// channels [default: s16le:48000:2; of a device the best that it has]
    #[arg(long, value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in")]
    pub(in crate::encode) audio_format: Option<RawFormat>,
    /// Bit rate of the sound [default: 128k]
    #[arg(long, value_name = "RATE")]
    pub(in crate::encode) audio_bitrate: Option<Bitrate>,
    /// Sound in a packet: of Opus 2.5ms, 5ms, 10ms or 20ms, of s302m 1ms to 10ms [default: opus 5ms, s302m 1ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub(in crate::encode) audio_frame: Option<Duration>,
    /// Bits of a sample of s302m: 16, 20 or 24 [default: 24]
    #[arg(long, value_name = "BITS")]
    pub(in crate::encode) audio_bits: Option<u32>,
}

impl Wanted {
    /// Whether sound is wanted at all, where there is some.
    pub(in crate::encode) fn any(&self) -> bool {
        self.audio != Some(Audio::None)
    }

    /// The sound input that was named, opened, unless no sound is wanted. `timed`: pictures come by the clock.
    ///
    /// # Errors
    /// The input's, and where live sound is to go with pictures that do not come by the clock.
    pub(in crate::encode) fn open(&self, timed: bool) -> Result<Option<Opened>> {
        let wanted = self.audio_in.as_ref().filter(|_| self.any());
        let opened = wanted.map(|input| Opened::open(input, self.audio_format)).transpose()?;
        if opened.as_ref().is_some_and(Opened::is_live) && !timed {
            return Err(failure::usage(
                "live sound does not go with a file that is coded as fast as it goes",
                "give --realtime, or take sound from FILE.wav",
            ));
        }
        Ok(opened)
    }

    /// How many channels of a film's sound are coded: all where it is not compressed and they fit, two otherwise.
    pub(in crate::encode) fn coded_channels(&self, channels: u8) -> u8 {
        let packs = self.audio == Some(Audio::S302m);
        if packs && matches!(channels, 4 | 6 | 8) { channels } else { channels.min(2) }
    }

    /// How sound of so many channels is coded; `None` where there is none.
    ///
    /// # Errors
    /// A codec is asked for where there is no sound.
    pub(in crate::encode) fn settings(&self, channels: Option<u8>) -> Result<Settings, Refusal> {
        let codec = match self.audio {
            Some(audio) if audio != Audio::None && channels.is_none() => {
                let text = ": this input carries no sound";
                return Err(Refusal::new(
                    "audio",
                    text,
                    "leave --audio out, give --audio-in, or take an input that has some",
                ));
            }
            Some(audio) => audio,
            None if channels.is_some() => Audio::default(),
            None => Audio::None,
        };
        Ok(Settings {
            codec,
            channels: channels.unwrap_or(SOUND_CHANNELS),
            bitrate: self.audio_bitrate,
            frame: self.audio_frame,
            bits: self.audio_bits,
        })
    }
}
