//! Metacube2 from a hostile upstream: the first byte says where to cut.

use glassline_delivery::metacube::{Event, Reader};

/// Reads `data` as blocks. Only panics, endless loops and lost count fail.
pub fn run(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let (first, second) = wire.split_at(wire.len() * usize::from(cut) / 256);
    let (mut reader, mut promised, mut got) = (Reader::new(), 0u64, 0u64);
    for mut input in [first, second] {
        while let Some(event) = reader.next(&mut input) {
            match event {
                Event::Block { size, .. } => promised += u64::from(size),
                Event::Data(data) => {
                    assert!(!data.is_empty());
                    got += data.len() as u64;
                }
                Event::Metadata(_) => {}
            }
        }
        assert!(input.is_empty(), "a reader that asks for more has taken all");
    }
    assert!(got <= promised && got + reader.garbage_bytes() <= wire.len() as u64);
}
