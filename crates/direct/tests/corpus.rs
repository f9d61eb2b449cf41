//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the body is public for the fuzz target")]

use glassline_test_support::corpus;

#[path = "../../../fuzz/bodies/direct.rs"]
mod direct;

#[test]
fn direct_corpus() {
    corpus::run("direct", direct::run);
}
