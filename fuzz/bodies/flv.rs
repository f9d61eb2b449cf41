//! FLV from a hostile publisher, taken apart: the first byte says how it is chopped, the second are the file header's flags.

use glassline_media::container::flv::demux::{Demuxer, Event};

/// Frames that are named to be of AAC have a header more, and key frames their sets again: so many times may units be larger.
const GROWTH: usize = 1 << 16;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&[chop, flags], tags)) = data.split_first_chunk::<2>() else { return };
    let wire = [&[b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0][..], tags].concat();
    let whole = demux(&wire, wire.len());
    assert_eq!(demux(&wire, 1 + usize::from(chop)), whole, "any chop gives the same");
    // And without a header that is right.
    assert_eq!(demux(tags, 1 + usize::from(chop)), demux(tags, tags.len().max(1)));
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
    let (mut tracks, mut last, mut bytes) = (Vec::new(), 0, 0usize);
    for event in &events {
        match event {
            Event::Tracks(told) => {
                assert!(
                    (1..=4).contains(&told.len()) && *told != tracks,
                    "tracks are told where they are others"
                );
                tracks.clone_from(told);
            }
            Event::AccessUnit { track, at, unit } => {
                assert!(
                    tracks.iter().any(|told| told.number == *track),
                    "a unit is of a track that was told"
                );
                assert!((last..wire.len() as u64).contains(at), "units come in the order of their tags");
                assert!(!unit.data.is_empty());
                (last, bytes) = (*at, bytes + unit.data.len());
            }
        }
    }
    assert!(bytes <= GROWTH * wire.len().max(1), "memory is in proportion to the input");
    (events, fails)
}
