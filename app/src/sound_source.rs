//! `--audio-in` and `--audio-format`: where sound comes from, of all commands that take some.

use glassline_engine::capture::{AudioIn, RawFormat};

/// Where sound comes from.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct SoundSource {
    /// Where sound comes from, in place of the input's own: alsa:DEVICE, rtp:FILE.sdp (ST 2110-30, AES67), FILE.wav, or
    /// fd:N (raw samples on an open descriptor)
    #[arg(long = "audio-in", value_name = "SOURCE")]
    pub(crate) audio_in: Option<AudioIn>,
    /// What raw samples are like, and what is asked of an ALSA device: s16le, s24le, s32le, f32le or f64le, rate and
    /// channels [default: s16le:48000:2; of a device the best that it has]
    #[arg(long = "audio-format", value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in")]
    pub(crate) audio_format: Option<RawFormat>,
}
