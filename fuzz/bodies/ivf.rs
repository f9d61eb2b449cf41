//! IVF from a stranger: the first byte says where to cut; what was read is written and read again.

use glassline_media::container::ivf::{Frame, Reader};

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

/// Reads `data` as a file, cut in two. Panics where a frame does not survive being written and read again.
pub fn run(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let (frames, reader) = read(wire.split_at(wire.len() * usize::from(cut) / 256).into());
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
