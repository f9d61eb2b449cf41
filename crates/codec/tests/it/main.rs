//! The codecs from outside: x264 beside a foreign decoder, VP8 beside vectors and libvpx, AV1 by slots, corpora. One program,
//! so that what the tests share is compiled and linked once.
// Test data lies in files, and the foreign decoder is a process.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
// In a test's helpers an unwrap is the assertion.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "av1")]
mod av1;
mod corpus;
mod h264;
mod h264_live;
mod vp8;
