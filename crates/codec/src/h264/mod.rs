//! H.264 encoders: pictures in, Annex B access units out.

#[cfg(feature = "x264")]
mod rate_control;
#[cfg(feature = "x264")]
pub mod x264;
#[cfg(feature = "x264")]
mod x264_ffi;
#[cfg(feature = "x264")]
mod x264_settings;
#[cfg(feature = "x264")]
mod x264_slices;
