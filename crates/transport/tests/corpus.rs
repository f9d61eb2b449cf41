//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub)]

#[path = "../../../fuzz/bodies/rtp.rs"]
mod rtp;

#[test]
fn rtp_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/rtp");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "the corpus is missing");
    for file in files {
        rtp::run(&std::fs::read(file).unwrap());
    }
}
