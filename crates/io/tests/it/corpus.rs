//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../../../fuzz/bodies/meeting.rs"]
mod meeting;

#[test]
fn meetings_of_two_processes() {
    corpus::run("meeting", meeting::run);
}
