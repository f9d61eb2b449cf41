//! The media room from outside: containers beside FFmpeg and over arbitrary chops, corpora. One program, so that what the
//! tests share is compiled and linked once.

mod cmaf_ffmpeg;
mod corpus;
mod flv_ffmpeg;
mod split_ffmpeg;
mod ts_clock;
mod ts_conformance;
mod ts_ffmpeg;
mod ts_program_changes;
mod ts_roundtrip;
mod ts_scan;
