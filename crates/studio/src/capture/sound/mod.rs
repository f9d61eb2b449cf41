//! Sound as it is captured or read: where it comes from and which clock it keeps.
//!
//! ```text
//! WAV file ──► wav_file: rate made 48 kHz, time from the picture ──────────┐
//! any file ──► ffmpeg_audio: 48 kHz by FFmpeg, time from the picture ──────┼─► Consumer
//! alsa:, fd:, rtp, a fetched stream ─► live ─► media::samples::Follower: clock + resampling ────┘
//! ```
//! A sound card's crystal is not the clock that pictures are stamped with: in half an hour 100 ppm are 180 ms.
//! [`glassline_media::samples`] measures the one against the other by when samples arrive and takes out what it finds, so that
//! blocks leave with stamps that lie on the capture clock exactly, one behind the other.

mod accompaniment;
mod fetched;
mod ffmpeg_audio;
mod file_audio;
mod input;
mod live;
mod rtp;
mod wav_file;

pub use accompaniment::Accompaniment;
pub use file_audio::FileAudio;
pub use input::{AudioIn, RawFormat, SoundInput};
