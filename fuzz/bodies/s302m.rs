//! Payloads of ST 302 from a stranger: what is read is written again and read the same.

use glassline_media::bitstream::s302m::{read, write};

/// Reads `data` as the payload of a PES packet.
pub fn run(data: &[u8]) {
    let Ok((header, samples)) = read(data) else { return };
    let samples: Vec<f32> = samples.collect();
    assert_eq!(samples.len(), header.samples() * usize::from(header.channels));
    let mut out = Vec::new();
    write(&samples, header.channels, header.depth, 0, &mut out).expect("what was read fits");
    let (again, rest) = read(&out).expect("what we write is whole");
    assert_eq!((again.channels, again.depth), (header.channels, header.depth));
    assert!(rest.eq(samples), "samples survive");
}
