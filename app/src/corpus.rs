//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../fuzz/bodies/config.rs"]
mod config;
#[cfg(feature = "x264")]
#[path = "../../fuzz/bodies/control.rs"]
mod control;

#[test]
fn configurations() {
    corpus::run("config", config::run);
}

#[test]
#[cfg(feature = "x264")]
fn commands_of_the_control_socket() {
    corpus::run("control", control::run);
}
