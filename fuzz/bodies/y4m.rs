//! YUV4MPEG2 from a stranger: the first byte says where to cut; what was read is written and read again.

use glassline_media::Picture;
use glassline_media::container::y4m::{Reader, write_header, write_picture};

/// The pictures in `parts`, and the reader, until an error or the end.
fn read(parts: [&[u8]; 2]) -> (Vec<Picture>, Reader) {
    let mut reader = Reader::new();
    let mut pictures = Vec::new();
    for mut input in parts {
        while let Ok(Some(picture)) = reader.parse(&mut input) {
            pictures.push(picture);
        }
    }
    (pictures, reader)
}

/// Reads `data` as a stream, cut in two. Panics where a picture does not survive being written and read again.
pub fn run(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let (pictures, reader) = read(wire.split_at(wire.len() * usize::from(cut) / 256).into());
    let Some(header) = reader.header() else { return };
    let mut out = Vec::new();
    write_header(header, &mut out).expect("what was read can be written");
    for picture in &pictures {
        write_picture(picture, &mut out);
    }
    let (again, second) = read([&out, &[]]);
    assert_eq!(second.finish(), Ok(()), "what we write is whole");
    assert_eq!(again.len(), pictures.len());
    for (before, after) in pictures.iter().zip(&again) {
        for (a, b) in before.planes().iter().zip(after.planes()) {
            assert!(a.lines().eq(b.lines()), "samples survive");
        }
    }
}
