//! WebM from a hostile publisher, taken apart: the first byte says how it is chopped, the second one whether a good header stands in
//! front.

use glassline_media::container::webm::demux::{Demuxer, Event};

/// Frames that are named to be of AAC have a header more, those of tracks with stripped headers 256 bytes, and key frames their sets
/// again: so many times may units be larger.
const GROWTH: usize = 1 << 14;

/// An EBML header, a segment of unknown size, and tracks of H.264 (1), Opus (2), AAC (3), MP3 (4) and AV1 (5).
#[rustfmt::skip]
const HEADER: &[u8] = &[
    0x1A, 0x45, 0xDF, 0xA3, 0x87, 0x42, 0x82, 0x84, 0x77, 0x65, 0x62, 0x6D, 0x18, 0x53, 0x80, 0x67, 0xFF, 0x16, 0x54, 0xAE,
    0x6B, 0x40, 0x8F, 0xAE, 0xB1, 0xD7, 0x81, 0x01, 0x83, 0x81, 0x01, 0x86, 0x8F, 0x56, 0x5F, 0x4D, 0x50, 0x45, 0x47, 0x34,
    0x2F, 0x49, 0x53, 0x4F, 0x2F, 0x41, 0x56, 0x43, 0x63, 0xA2, 0x97, 0x01, 0x42, 0xC0, 0x0D, 0xFF, 0xE1, 0x00, 0x08, 0x67,
    0x42, 0xC0, 0x0D, 0xD9, 0x01, 0x61, 0x26, 0x01, 0x00, 0x04, 0x68, 0xCE, 0x06, 0xE2, 0xAE, 0xA4, 0xD7, 0x81, 0x02, 0x83,
    0x81, 0x02, 0x86, 0x86, 0x41, 0x5F, 0x4F, 0x50, 0x55, 0x53, 0x63, 0xA2, 0x93, 0x4F, 0x70, 0x75, 0x73, 0x48, 0x65, 0x61,
    0x64, 0x01, 0x02, 0x38, 0x01, 0x80, 0xBB, 0x00, 0x00, 0x00, 0x00, 0x00, 0xAE, 0x92, 0xD7, 0x81, 0x03, 0x83, 0x81, 0x02,
    0x86, 0x85, 0x41, 0x5F, 0x41, 0x41, 0x43, 0x63, 0xA2, 0x82, 0x11, 0x90, 0xAE, 0x91, 0xD7, 0x81, 0x04, 0x83, 0x81, 0x02,
    0x86, 0x89, 0x41, 0x5F, 0x4D, 0x50, 0x45, 0x47, 0x2F, 0x4C, 0x33, 0xAE, 0x8D, 0xD7, 0x81, 0x05, 0x83, 0x81, 0x01, 0x86,
    0x85, 0x56, 0x5F, 0x41, 0x56, 0x31,
];

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&[chop, form], body)) = data.split_first_chunk::<2>() else { return };
    let wire = if form & 1 == 0 { [HEADER, body].concat() } else { body.to_vec() };
    let whole = demux(&wire, wire.len().max(1));
    assert_eq!(demux(&wire, 1 + usize::from(chop)), whole, "any chop gives the same");
}

fn demux(wire: &[u8], chop: usize) -> (Vec<Event>, bool) {
    let (mut demuxer, mut events, mut fails) = (Demuxer::new(), Vec::new(), false);
    for part in wire.chunks(chop) {
        let failed = demuxer.push(part).is_err();
        assert!(failed || !fails, "what has failed takes no more");
        fails |= failed;
        events.extend(std::iter::from_fn(|| demuxer.poll()));
    }
    demuxer.finish();
    events.extend(std::iter::from_fn(|| demuxer.poll()));
    let (mut tracks, mut bytes) = (Vec::new(), 0usize);
    for event in &events {
        match event {
            Event::Tracks(told) => {
                assert!((1..=64).contains(&told.len()));
                tracks.clone_from(told);
            }
            Event::AccessUnit { track, at, unit } => {
                let told = tracks.iter().find(|told| told.number == *track);
                assert_eq!(
                    told.and_then(|told| told.codec),
                    Some(unit.codec),
                    "a unit is of a track that was told"
                );
                assert!(*at < wire.len() as u64 && unit.dts <= unit.pts);
                assert!(!unit.data.is_empty());
                bytes += unit.data.len();
            }
        }
    }
    assert!(bytes <= GROWTH * wire.len().max(1), "memory is in proportion to the input");
    (events, fails)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_its_tracks() {
        let (events, fails) = demux(HEADER, 3);
        let [Event::Tracks(tracks)] = &events[..] else { panic!("{events:?}") };
        assert!(
            !fails && tracks.len() == 5 && tracks.iter().all(|track| track.codec.is_some()),
            "{tracks:?}"
        );
    }
}
