//! Sound on its way into the pipeline: where it comes from, whose clock it keeps, how it is coded.
//!
//! ```text
//! test tone ───────────────────────────────────────────────► queue ──► coder ──► muxer
//! WAV file ──► file: rate made 48 kHz, time from the picture ──┤
//! film ──► film: 48 kHz by FFmpeg, time from the picture ──────┤
//! alsa:, fd: ──► capture ──► follow: clock + resample ──────────┘
//! ```
//! A sound card's crystal is not the clock that pictures are stamped with: in half an hour 100 ppm are 180 ms.
//! [`glassline_media::samples`] measures the one against the other by when samples arrive and takes out what it finds, so that
//! blocks leave with stamps that lie on the capture clock exactly, one behind the other.

#[cfg(feature = "alsa")]
mod alsa;
mod capture;
mod coder;
mod companion;
mod file;
mod film;
mod input;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use coder::Audio;
pub(super) use coder::{Encoder, Refusal, Settings, Stream};
pub(super) use companion::Companion;
pub(super) use input::{AudioIn, Opened};
pub(super) use wanted::Wanted;
