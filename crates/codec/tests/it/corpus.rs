//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[cfg(feature = "av1")]
#[path = "../../../../fuzz/bodies/av1.rs"]
mod av1;
#[path = "../../../../fuzz/bodies/vp8.rs"]
mod vp8;
#[path = "../../../../fuzz/bodies/vp8_encode.rs"]
mod vp8_encode;

#[cfg(feature = "av1")]
#[test]
fn av1_units() {
    corpus::run("av1", av1::run);
}

#[test]
fn vp8_frames() {
    corpus::run("vp8", vp8::run);
}

#[test]
fn vp8_encoder() {
    corpus::run("vp8_encode", vp8_encode::run);
}
