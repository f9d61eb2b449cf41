//! The sound's coding, which a build without Opus lacks.

use anyhow::Result;
use glassline_media::container::ts::AudioFormat;
use glassline_media::{AccessUnit, AudioBlock};

/// How sound is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Audio {
    /// Opus in packets of 10 ms
    #[cfg(feature = "opus")]
    #[cfg_attr(feature = "opus", default)]
    Opus,
    /// No sound
    #[cfg_attr(not(feature = "opus"), default)]
    None,
}

/// An open encoder.
#[cfg(feature = "opus")]
pub(super) struct Encoder(glassline_codec::audio::opus::Encoder);

/// No encoder: there is none in this build.
#[cfg(not(feature = "opus"))]
pub(super) enum Encoder {}

#[cfg(feature = "opus")]
impl Encoder {
    /// The encoder for what was chosen; `None` for no sound.
    pub(super) fn open(audio: Audio) -> Result<Option<Encoder>> {
        use glassline_codec::audio::opus;
        let channels = super::source::SOUND_CHANNELS;
        Ok(match audio {
            Audio::None => None,
            Audio::Opus => {
                Some(Encoder(opus::Encoder::new(opus::Settings { channels, ..opus::Settings::default() })?))
            }
        })
    }

    /// What the container says about the sound.
    pub(super) fn format(&self) -> AudioFormat {
        let codec = glassline_media::Codec::Opus;
        AudioFormat { codec, channels: super::source::SOUND_CHANNELS, language: None }
    }

    /// Takes samples in and returns the packets that they fill.
    pub(super) fn push(&mut self, block: &AudioBlock) -> Result<Vec<AccessUnit>> {
        Ok(self.0.push(block)?)
    }

    /// The last packet, if samples wait for one.
    pub(super) fn flush(&mut self) -> Result<Option<AccessUnit>> {
        Ok(self.0.flush()?)
    }
}

#[cfg(not(feature = "opus"))]
impl Encoder {
    pub(super) fn open(_: Audio) -> Result<Option<Encoder>> {
        Ok(None)
    }

    pub(super) fn format(&self) -> AudioFormat {
        match *self {}
    }

    pub(super) fn push(&mut self, _: &AudioBlock) -> Result<Vec<AccessUnit>> {
        match *self {}
    }

    pub(super) fn flush(&mut self) -> Result<Option<AccessUnit>> {
        match *self {}
    }
}
