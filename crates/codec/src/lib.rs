//! Video and audio codecs behind safe, pure interfaces.
//!
//! Pictures and samples come in, access units go out; time stamps are arguments and nothing here reads a clock.
//! [`vp8`] is ours from end to end, and needs no library.
//!
//! The libraries' own threads are the one exception to the purity of this room: those of libx264, libaom and dav1d live
//! between the opening of an encoder or decoder and its drop, and no result depends on them.
//!
//! | feature | links | licence that it brings |
//! |---|---|---|
//! | `x264` (default) | libx264 | GPL version 2 or later |
//! | `opus` (default) | libopus | BSD |
//! | `aac` (default) | nothing; opens FFmpeg's libavcodec when the first encoder is opened | LGPL or GPL, as it was built |
//! | `avcodec` (default) | nothing; opens FFmpeg's libavcodec when the first decoder is opened | LGPL or GPL, as it was built |
//! | `av1` (default) | libaom, libdav1d | BSD 2-clause, AOM patent licence |
//!
//! Without features the crate builds without a C compiler or library.
#![deny(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod audio;
#[cfg(feature = "av1")]
pub mod av1;
#[cfg(feature = "avcodec")]
pub mod avcodec;
pub mod error;
pub mod h264;
pub mod vp8;

pub use error::CodecError;
