//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read files")]
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use std::path::Path;

#[path = "../../../fuzz/bodies/vp8.rs"]
mod vp8;

#[test]
fn vp8_frames() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/vp8");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        vp8::run(&data);
        for step in 1..20 {
            vp8::run(&data[..data.len() * step / 20]);
            let mut damaged = data.clone();
            for at in (step..data.len()).step_by(97) {
                damaged[at] ^= 1 << (step % 8);
            }
            vp8::run(&damaged);
        }
    }
    assert!(files >= 4, "the corpus has {files} files");
}
