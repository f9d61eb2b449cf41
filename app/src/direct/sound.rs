//! The sound of `send` and `receive`, as the command line says it.

use crate::encode::input_words;
use crate::failure;
use crate::sound_source::SoundSource;
use anyhow::{Context, Result};
use glassline_call::direct::{
    AudioOut, LipSync, Redundancy, SoundReceiver, SoundSender, SoundSettings, SoundSink,
};
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::capture::{AudioIn, FfmpegInput, Input, SoundInput, TONE_CHANNELS};
use std::sync::Arc;
use std::time::Duration;

/// Opus is coded with one or two channels.
const CHANNELS_MAX: u8 = 2;
/// Speech needs no more.
const SPEECH_BITRATE: Bitrate = Bitrate::from_bits_per_second(32_000);
/// What speech is coded in, and recovered from.
const SPEECH_FRAME: Duration = Duration::from_millis(20);

/// Sound that is sent.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(super) struct SoundArgs {
    /// Audio codec [default: opus if there is audio]
    #[arg(long, value_enum, value_name = "CODEC")]
    audio: Option<Audio>,
    #[command(flatten)]
    source: SoundSource,
    /// Bit rate of the audio [default: 64k, for speech 32k]
    #[arg(long, value_name = "RATE")]
    audio_bitrate: Option<Bitrate>,
    /// Length of an audio packet: 2.5ms, 5ms, 10ms or 20ms; shorter packets arrive sooner and cost more bits
    /// [default: 10ms, for speech 20ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    audio_frame: Option<Duration>,
    /// The audio is speech: it is coded as speech, and each packet also contains the previous one in low quality
    #[arg(long)]
    speech: bool,
    /// How many earlier audio packets each packet repeats, against losses: auto (while packets are being lost), or 0
    /// to 4 [default: auto]
    #[arg(long, value_name = "N", value_parser = parse_redundancy)]
    audio_redundancy: Option<Redundancy>,
}

/// How sound is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Audio {
    /// Opus
    Opus,
    /// No audio
    None,
}

fn parse_redundancy(text: &str) -> Result<Redundancy, String> {
    if text == "auto" {
        return Ok(Redundancy::Auto);
    }
    let count = text.parse().ok().filter(|count| *count <= 4).map(Redundancy::Always);
    count.ok_or_else(|| format!("{text:?} is neither auto nor a number from 0 to 4"))
}

/// Sound that is open.
pub(super) struct Opened {
    pub(super) sender: Arc<SoundSender>,
    /// Where it comes from, if not from the source of the pictures.
    pub(super) input: Option<SoundInput>,
}

impl SoundArgs {
    /// Opens the sound that goes with `input`, if there is some and it is wanted. `file`: what FFmpeg knows of it.
    pub(super) fn open(&self, input: Option<&Input>, file: Option<&FfmpegInput>) -> Result<Option<Opened>> {
        if self.audio == Some(Audio::None) {
            return Ok(None);
        }
        let (input, channels) = match (&self.source.audio_in, file) {
            (Some(named), _) => return self.named(named),
            (None, Some(file)) => {
                let Some(channels) = file.channels() else { return self.none() };
                let channels = channels.min(CHANNELS_MAX);
                (Some(SoundInput::ffmpeg(file, channels).map_err(input_words)?), channels)
            }
            (None, None) if input.is_some_and(Input::has_sound) => (None, TONE_CHANNELS),
            (None, None) => return self.none(),
        };
        self.opened(input, channels)
    }

    /// Opens the sound that goes with a stream that is fetched: what is named in its place, or its own, if it is wanted.
    pub(super) fn open_fetched(&self, own: impl FnOnce() -> SoundInput) -> Result<Option<Opened>> {
        match (self.audio, &self.source.audio_in) {
            (Some(Audio::None), _) => Ok(None),
            (_, Some(named)) => self.named(named),
            (_, None) => {
                let own = own();
                let channels = own.channels();
                self.opened(Some(own), channels)
            }
        }
    }

    fn named(&self, named: &AudioIn) -> Result<Option<Opened>> {
        let opened = SoundInput::open(named, self.source.audio_format).map_err(input_words)?;
        let channels = opened.channels();
        self.opened(Some(opened), channels)
    }

    fn opened(&self, input: Option<SoundInput>, channels: u8) -> Result<Option<Opened>> {
        if channels > CHANNELS_MAX {
            return Err(failure::usage(
                format!("the sound has {channels} channels; Opus is coded with 1 or 2"),
                "ask for fewer: --audio-format s16le:48000:2",
            ));
        }
        let default = SoundSettings::default();
        let settings = SoundSettings {
            channels,
            bitrate: self.audio_bitrate.unwrap_or(if self.speech { SPEECH_BITRATE } else { default.bitrate }),
            frame: self.audio_frame.unwrap_or(if self.speech { SPEECH_FRAME } else { default.frame }),
            speech: self.speech,
            redundancy: self.audio_redundancy.unwrap_or_default(),
        };
        let sender = SoundSender::new(settings).map_err(|error| {
            failure::usage(error.to_string(), "give --audio-bitrate and --audio-frame as --help says")
        })?;
        Ok(Some(Opened { sender: Arc::new(sender), input }))
    }

    /// There is no sound, which is an error where some was asked for.
    fn none(&self) -> Result<Option<Opened>> {
        let asked = self.audio.is_some() || self.audio_bitrate.is_some() || self.audio_frame.is_some();
        if asked || self.speech || self.audio_redundancy.is_some() {
            let advice = "name a source with --audio-in: alsa:DEVICE, FILE.wav or fd:N";
            return Err(failure::usage("this input carries no sound", advice));
        }
        Ok(None)
    }
}

/// Opens what plays sound.
pub(super) fn open_output(output: &AudioOut, pictures: Arc<LipSync>) -> Result<Arc<SoundReceiver>> {
    Ok(receiver(output.open().context("cannot open --audio-out")?, pictures))
}

/// A receiver of sound that goes with pictures.
pub(super) fn receiver(sink: Box<dyn SoundSink>, pictures: Arc<LipSync>) -> Arc<SoundReceiver> {
    Arc::new(SoundReceiver::new(sink, pictures))
}
