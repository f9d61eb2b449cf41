//! H.264 encoders: pictures in, Annex B access units out.

mod rate_control;
#[cfg(feature = "avcodec")]
mod recode;
pub mod x264;
#[cfg(feature = "x264")]
mod x264_ffi;
mod x264_interface;
mod x264_level;
mod x264_library;
mod x264_look_ahead;
mod x264_settings;
// Only the library fills it.
#[cfg_attr(not(feature = "x264"), allow(dead_code))]
mod x264_slices;

#[cfg(feature = "avcodec")]
pub use recode::recode;
