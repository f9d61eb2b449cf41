//! The fuzz targets' corpora, run as plain tests.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub)]

#[path = "../../../fuzz/bodies/http1.rs"]
mod http1;
#[path = "../../../fuzz/bodies/metacube.rs"]
mod metacube;

fn run(name: &str, body: fn(&[u8])) {
    let folder = [env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/", name].concat();
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "the corpus is missing");
    for file in files {
        body(&std::fs::read(file).unwrap());
    }
}

#[test]
fn http1_corpus() {
    run("http1", http1::run);
}

#[test]
fn metacube_corpus() {
    run("metacube", metacube::run);
}
