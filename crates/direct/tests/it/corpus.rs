//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the body is public for the fuzz target")]

use glassline_test_support::corpus;
use proptest::prelude::*;

#[path = "../../../../fuzz/bodies/direct.rs"]
mod direct;

#[path = "../../../../fuzz/bodies/direct_beside.rs"]
mod direct_beside;

#[test]
fn direct_beside_corpus() {
    corpus::run("direct_beside", direct_beside::run);
}

#[test]
fn direct_corpus() {
    corpus::run("direct", direct::run);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(prop_oneof![0u8..9, any::<u8>()], 0..2000)) {
        direct_beside::run(&bytes);
    }
}
