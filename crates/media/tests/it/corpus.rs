//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../../../fuzz/bodies/captions.rs"]
mod captions;
#[path = "../../../../fuzz/bodies/cmaf.rs"]
mod cmaf;
#[path = "../../../../fuzz/bodies/flv.rs"]
mod flv;
#[path = "../../../../fuzz/bodies/ivf.rs"]
mod ivf;
#[path = "../../../../fuzz/bodies/klv.rs"]
mod klv;
#[path = "../../../../fuzz/bodies/mavlink.rs"]
mod mavlink;
#[path = "../../../../fuzz/bodies/nal.rs"]
mod nal;
#[path = "../../../../fuzz/bodies/s302m.rs"]
mod s302m;
#[path = "../../../../fuzz/bodies/scte35.rs"]
mod scte35;
#[path = "../../../../fuzz/bodies/split.rs"]
mod split;
#[path = "../../../../fuzz/bodies/ts.rs"]
mod ts;
#[path = "../../../../fuzz/bodies/wav.rs"]
mod wav;
#[path = "../../../../fuzz/bodies/webm.rs"]
mod webm;
#[path = "../../../../fuzz/bodies/y4m.rs"]
mod y4m;

#[test]
fn transport_streams() {
    corpus::run("ts", ts::run);
}

#[test]
fn network_abstraction_units() {
    corpus::run("nal", nal::run);
}

#[test]
fn ivf_files() {
    corpus::run("ivf", ivf::run);
}

#[test]
fn y4m_pictures() {
    corpus::run("y4m", y4m::run);
}

#[test]
fn carried_containers() {
    corpus::run("split", split::run);
}

#[test]
fn flash_video() {
    corpus::run("flv", flv::run);
}

#[test]
fn matroska() {
    corpus::run("webm", webm::run);
}

#[test]
fn fragmented_files() {
    corpus::run("cmaf", cmaf::run);
}

#[test]
fn wave_files() {
    corpus::run("wav", wav::run);
}

#[test]
fn lpcm_payloads() {
    corpus::run("s302m", s302m::run);
}

#[test]
fn captions_in_pictures() {
    corpus::run("captions", captions::run);
}

#[test]
fn klv_packets() {
    corpus::run("klv", klv::run);
}

#[test]
fn lines_of_mavlink() {
    corpus::run("mavlink", mavlink::run);
}

#[test]
fn cues() {
    corpus::run("scte35", scte35::run);
}
