//! IVF from a stranger: the first byte says where to cut; what was read is written and read again, and it is read as damaged.

use glassline_media::container::ivf::{Frame, Reader};
use glassline_media::container::ivf_rate::PictureRate;
use glassline_media::container::ivf_salvage::{Found, SalvagingReader};

/// The frames in `parts`, and the reader, until an error or the end.
fn read(parts: [&[u8]; 2]) -> (Vec<Frame>, Reader) {
    let mut reader = Reader::new();
    let mut frames = Vec::new();
    for mut input in parts {
        while let Ok(Some(frame)) = reader.parse(&mut input) {
            frames.push(frame);
        }
    }
    (frames, reader)
}

/// Reads `parts` as a damaged file: and comes to its end.
fn salvage(parts: [&[u8]; 2]) {
    let (mut reader, mut rate, mut founds) = (SalvagingReader::new(), PictureRate::default(), 0);
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    for part in parts.into_iter().map(Some).chain([None]) {
        match part {
            Some(part) => reader.push(part),
            None => reader.end(),
        }
        while let Ok(Some(found)) = reader.poll() {
            founds += 1;
            assert!(founds <= 2 * bytes, "it goes forward");
            if let Found::Frame(frame) = found {
                assert!(frame.bytes.len() <= bytes);
                rate.push(frame.time_stamp);
            }
        }
    }
    if let Some(header) = reader.header() {
        let _ = rate.rate(header.rate);
    }
}

/// Reads `data` as a file, cut in two. Panics where a frame does not survive being written and read again.
pub fn run(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let parts = wire.split_at(wire.len() * usize::from(cut) / 256).into();
    salvage(parts);
    let (frames, reader) = read(parts);
    let Some(header) = reader.header() else { return };
    let mut out = Vec::new();
    header.write(&mut out);
    for frame in &frames {
        frame.write(&mut out).expect("what was read is not too long to be written");
    }
    let (again, second) = read([&out, &[]]);
    assert_eq!(second.finish(), Ok(()), "what we write is whole");
    assert_eq!(second.header(), Some(header));
    assert_eq!(again, frames);
}
