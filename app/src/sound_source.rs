//! `--audio-in` and `--audio-format`: where audio comes from, for all commands that take audio.

use glassline_studio::capture::{AudioIn, RawFormat};

/// The help of `--audio-in`.
pub(crate) const AUDIO_IN: &str = "\
Where audio comes from, instead of the input: alsa:DEVICE, rtp:FILE.sdp (ST 2110-30, AES67), FILE.wav, or fd:N (raw \
samples from an open descriptor)";
/// The help of `--audio-format`.
pub(crate) const AUDIO_FORMAT: &str = "\
Format of raw samples, or what is requested from an ALSA device: s16le, s24le, s32le, f32le or f64le, rate and channels \
[default: s16le:48000:2; for a device the best that it has]";

/// Where audio comes from.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct SoundSource {
    #[arg(long, value_name = "SOURCE", help = AUDIO_IN)]
    pub(crate) audio_in: Option<AudioIn>,
    #[arg(long, value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in", help = AUDIO_FORMAT)]
    pub(crate) audio_format: Option<RawFormat>,
}
