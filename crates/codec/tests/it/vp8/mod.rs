//! The VP8 codec from outside.

mod denoise;
mod encode;
mod golden;
mod hostile;
mod interop;
mod plan;
mod quality;
mod rate;
mod states;
mod vectors;

use glassline_media::Picture;
use glassline_media::container::ivf;
use glassline_test_support::{shared, skip};
use std::path::{Path, PathBuf};

/// The conformance streams, or none where they are absent; then the test is skipped.
fn streams(test: &str) -> Vec<PathBuf> {
    let Some(folder) = shared("vp8-test-vectors") else {
        skip(test, "the VP8 test vectors are absent");
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut streams: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "ivf")).collect();
    streams.sort();
    streams
}

/// One of the conformance streams.
fn stream(test: &str, name: &str) -> Option<Vec<Vec<u8>>> {
    let file = shared(&format!("vp8-test-vectors/{name}.ivf"));
    if file.is_none() {
        skip(test, "the VP8 test vectors are absent");
    }
    file.map(|file| frames(&file))
}

/// The frames of an IVF file.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let (mut reader, mut rest) = (ivf::Reader::new(), &bytes[..]);
    let mut frames = Vec::new();
    while let Some(frame) = reader.parse(&mut rest).unwrap() {
        frames.push(frame.bytes.to_vec());
    }
    frames
}

/// A picture's samples, plane by plane, without padding.
fn samples(picture: &Picture) -> Vec<u8> {
    picture.planes().iter().flat_map(|plane| plane.lines()).flatten().copied().collect()
}
