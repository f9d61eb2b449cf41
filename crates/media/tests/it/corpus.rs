//! Runs the bodies of the fuzz targets over the committed corpus: what fuzzing found once stays found.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read files")]
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use std::path::Path;

#[path = "../../../../fuzz/bodies/ivf.rs"]
mod ivf;
#[path = "../../../../fuzz/bodies/nal.rs"]
mod nal;
#[path = "../../../../fuzz/bodies/s302m.rs"]
mod s302m;
#[path = "../../../../fuzz/bodies/split.rs"]
mod split;
#[path = "../../../../fuzz/bodies/ts.rs"]
mod ts;
#[path = "../../../../fuzz/bodies/wav.rs"]
mod wav;
#[path = "../../../../fuzz/bodies/y4m.rs"]
mod y4m;

/// Calls `run` with each file, and with each cut short and with bits turned over.
fn over_corpus(name: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        run(&data);
        for step in 1..20 {
            run(&data[..data.len() * step / 20]);
            let mut damaged = data.clone();
            for at in (step..data.len()).step_by(97) {
                damaged[at] ^= 1 << (step % 8);
            }
            run(&damaged);
        }
    }
    assert!(files >= 4, "the corpus of {name} has {files} files");
}

#[test]
fn transport_streams() {
    over_corpus("ts", ts::run);
}

#[test]
fn network_abstraction_units() {
    over_corpus("nal", nal::run);
}

#[test]
fn ivf_files() {
    over_corpus("ivf", ivf::run);
}

#[test]
fn y4m_pictures() {
    over_corpus("y4m", y4m::run);
}

#[test]
fn carried_containers() {
    over_corpus("split", split::run);
}

#[test]
fn wave_files() {
    over_corpus("wav", wav::run);
}

#[test]
fn lpcm_payloads() {
    over_corpus("s302m", s302m::run);
}
