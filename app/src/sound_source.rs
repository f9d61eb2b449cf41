//! `--audio-in` and `--audio-format`: where audio comes from, for all commands that take audio.

use glassline_studio::capture::{AudioIn, RawFormat};

/// Where audio comes from.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct SoundSource {
    /// Where audio comes from, instead of the input: alsa:DEVICE, rtp:FILE.sdp (ST 2110-30, AES67), FILE.wav, or fd:N
    /// (raw samples from an open descriptor)
    #[arg(long = "audio-in", value_name = "SOURCE")]
    pub(crate) audio_in: Option<AudioIn>,
    /// Format of raw samples, or what is requested from an ALSA device: s16le, s24le, s32le, f32le or f64le, rate and
    /// channels [default: s16le:48000:2; for a device the best that it has]
    #[arg(long = "audio-format", value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in")]
    pub(crate) audio_format: Option<RawFormat>,
}
