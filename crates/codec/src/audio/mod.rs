//! Audio codecs: samples in, packets out.
//!
//! Opus is the choice for live sound: frames of 2.5 to 20 ms and a look-ahead of 2.5 ms, where AAC-LC has frames of
//! 21 ms and priming on top. MPEG-TS carries it to VLC and FFmpeg, every browser plays it (MSE, WebCodecs), and its
//! licence is free.

#[cfg(feature = "opus")]
pub mod opus;
#[cfg(feature = "opus")]
mod opus_ffi;
