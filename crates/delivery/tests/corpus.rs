//! The fuzz targets' corpora, run as plain tests.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub)]

#[path = "../../../fuzz/bodies/http1.rs"]
mod http1;

#[test]
fn http1_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http1");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "the corpus is missing");
    for file in files {
        http1::run(&std::fs::read(file).unwrap());
    }
}
