//! Runs the body of the fuzz target over the committed corpus: what fuzzing found once stays found.
#![allow(clippy::unwrap_used, reason = "tests read files")]
#![allow(unreachable_pub, reason = "the body is public for the fuzz target")]

#[path = "../../../fuzz/bodies/pcap.rs"]
mod pcap;

#[test]
fn packet_captures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/pcap");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        pcap::run(&data);
        for step in 1..20 {
            pcap::run(&data[..data.len() * step / 20]);
            let mut damaged = data.clone();
            for at in (step..data.len()).step_by(97) {
                damaged[at] ^= 1 << (step % 8);
            }
            pcap::run(&damaged);
        }
    }
    assert!(files >= 5, "the corpus has {files} files");
}
