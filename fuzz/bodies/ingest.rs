//! Hostile publishers of CMAF: the first byte says how all is chopped, then requests come behind each other, a byte for the
//! path and two for the length of each. What goes out is whole packets; any chop gives the same; what is held has a bound.

use glassline_delivery::ingest::{Counters, Ingest, Output};
use glassline_media::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Where headers and segments are put.
const PATHS: [&str; 6] = ["v", "a", "init-stream0.m4s", "chunk-stream0-00001.m4s", "x/init.mp4", "x/1.m4s"];

/// What the tables of one chunk may take, however few bytes describe them.
const TABLES_BYTES: usize = 4 << 20;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, wire)) = data.split_first() else { return };
    let whole = ingested(wire, usize::MAX);
    assert_eq!(ingested(wire, 1 + usize::from(choice)), whole, "any chop gives the same");
}

/// The packets of each stream, how often each began anew, what was refused, and what was counted.
type Given = (BTreeMap<usize, Vec<u8>>, BTreeMap<usize, usize>, Vec<String>, Counters);

fn ingested(mut wire: &[u8], chop: usize) -> Given {
    let mut ingest = Ingest::new();
    let (mut packets, mut seams, mut refusals) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let (mut now, mut pushed_bytes, mut versions) = (Time::from_millis(1), 0, BTreeSet::new());
    let mut streams = 0;
    while let Some((&[path, high, low], rest)) = wire.split_first_chunk::<3>() {
        let (body, behind) = rest.split_at((usize::from(high) << 8 | usize::from(low)).min(rest.len()));
        wire = behind;
        let path = PATHS[usize::from(path) % PATHS.len()];
        let Ok(id) = ingest.begin(path, now) else { unreachable!("each is closed") };
        for part in body.chunks(chop) {
            pushed_bytes += part.len();
            if let Err(error) = ingest.push(id, part, now) {
                assert!((400..500).contains(&error.status()) && !error.advice().is_empty());
                refusals.push(error.to_string());
                break;
            }
            assert!(ingest.held_bytes() <= 4 * pushed_bytes + TABLES_BYTES, "in proportion to what came");
        }
        if let Err(error) = ingest.end(id, now) {
            refusals.push(error.to_string());
        }
        now += std::time::Duration::from_millis(300);
        ingest.handle_timeout(now);
        ingest.close(id, now);
        while let Some(output) = ingest.poll() {
            match output {
                Output::Begin { stream, version } => {
                    // The first one may be that of the name itself, which nothing announces.
                    assert!(stream == streams || (stream == 1 && streams == 0), "they are counted");
                    assert!(!packets.contains_key(&stream), "announced before its packets");
                    streams = stream + 1;
                    assert!(versions.insert(version), "each has a name of its own");
                }
                Output::Seam { stream } => {
                    assert!(stream < streams.max(1), "one that is there");
                    *seams.entry(stream).or_default() += 1;
                }
                Output::Packets { stream, bytes } => {
                    assert!(stream < streams.max(1) && bytes.len() % 188 == 0);
                    packets.entry(stream).or_insert_with(Vec::new).extend_from_slice(&bytes);
                }
            }
        }
    }
    (packets, seams, refusals, ingest.counters())
}
