//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../../../fuzz/bodies/handover.rs"]
mod handover;

#[test]
fn what_one_process_leaves_to_the_next() {
    corpus::run("handover", handover::run);
}
