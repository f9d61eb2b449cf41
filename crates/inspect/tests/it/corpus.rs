//! Runs the bodies of the fuzz targets over the committed corpora: what fuzzing found once stays found.
#![allow(unreachable_pub, reason = "the bodies are public for the fuzz targets")]

use glassline_test_support::corpus;

#[path = "../../../../fuzz/bodies/pcap.rs"]
mod pcap;
#[path = "../../../../fuzz/bodies/segmented.rs"]
mod segmented;

#[test]
fn packet_captures() {
    corpus::run("pcap", pcap::run);
}

#[test]
fn playlists_manifests_and_segments() {
    corpus::run("segmented", segmented::run);
}
