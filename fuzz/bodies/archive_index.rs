//! Parts of the index of a recording: what a store may give back.

use glassline_delivery::archive::index::{Part, Recording};

/// Reads what begins with a byte as a part, and with another as lines that are sealed here, so that the bytes behind a CRC are
/// reached. Panics where what was read is written otherwise, or adds up to another size.
pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let sealed;
    let bytes = if first % 2 == 0 {
        rest
    } else {
        let mut body = rest.to_vec();
        if body.last() != Some(&b'\n') {
            body.push(b'\n');
        }
        let lines = body.iter().filter(|byte| **byte == b'\n').count();
        let crc = glassline_delivery::archive::index::crc32c(&body);
        body.extend_from_slice(format!("{{\"lines\":{lines},\"crc32c\":\"{crc:08x}\"}}\n").as_bytes());
        sealed = body;
        &sealed
    };
    let Ok(part) = Part::read(bytes) else { return };
    let written = part.write();
    let again = Part::read(&written).expect("what was written can be read");
    assert_eq!((&again.lines, again.number), (&part.lines, part.number));
    assert_eq!(again.write(), written);
    let mut recording = Recording::new(part.name.clone(), part.session);
    recording.add_part(part).expect("it is of this recording, and the first of its number");
    let names: Vec<_> = recording.renditions().collect();
    let bytes: u64 = names.iter().flat_map(|name| recording.segments(*name)).map(|it| it.bytes).sum();
    let mpeg_ts: u64 = recording.mpeg_ts_segments().map(|it| it.bytes).sum();
    assert_eq!(bytes + mpeg_ts, recording.bytes());
    let _ = (recording.span(), recording.missing_parts());
}
