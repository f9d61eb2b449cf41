//! Audio codecs: samples in, packets out.
//!
//! | codec | sound in a packet | a decoder's output lags by | a packet is there after its PTS by |
//! |---|---|---|---|
//! | S302M (LPCM) | any; 1 ms | 0 | 1 ms |
//! | Opus | 2.5, 5, 10, 20 ms | 2.5 ms | 7.5 ms (of 5 ms) |
//! | AAC-LC | 21.3 ms | 21.3 ms | 64 ms |
//!
//! **Time.** A unit's `pts` is the capture time of the first sample that a decoder gives for it: the codec's delay is
//! subtracted here, so that sound and pictures with equal stamps were captured together. The capture time in
//! [`stamps`](glassline_media::AccessUnit::stamps) is that of the first sample that went in.
//!
//! Opus is the choice for live sound that everybody plays: VLC and FFmpeg from MPEG-TS, every browser through MSE and
//! WebCodecs, and its licence is free. S302M costs megabits and is for contribution; AAC is for what plays no Opus.

#[cfg(feature = "aac")]
pub mod aac;
#[cfg(feature = "aac")]
mod aac_ffi;
mod framer;
#[cfg(feature = "opus")]
pub mod opus;
#[cfg(feature = "opus")]
mod opus_ffi;
pub mod s302m;

pub use framer::{LONGEST_SILENCE, MAX_OVERLAP, RATE_HZ, REANCHOR};
