//! From a camera to packets: where pictures and sound come from, the encoder that runs, and where its streams go.
//!
//! ```text
//! capture (devices, files, FFmpeg, raw video over RTP) ─► encode ─► output: file, datagrams, HTTP push, a stream of this process
//! slate: a still picture, coded to be repeated
//! raw: uncompressed video over RTP, received, recorded, sent, looked at
//! ```
//! Each source, encoder and output has a thread of its own; the pure cores are in `codec`, `media` and `transport`.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod capture;
pub mod encode;
pub mod output;
pub mod parallel;
pub mod raw;
pub mod slate;
pub mod wav_writer;
