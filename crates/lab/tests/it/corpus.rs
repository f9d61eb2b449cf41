//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the body is public for the fuzz target")]

use glassline_test_support::corpus;
use proptest::prelude::*;

#[path = "../../../../fuzz/bodies/lab_path.rs"]
mod lab_path;

#[test]
fn lab_path_corpus() {
    corpus::run("lab_path", lab_path::run);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..1000)) {
        lab_path::run(&bytes);
    }
}
