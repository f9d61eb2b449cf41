//! Entries of a cluster's registry, as another program, or another version of this one, may have written them.

use glassline_delivery::ownership::{CarriageEntry, Key, NodeEntry, StreamEntry, VALUE_MAX_BYTES};

/// Reads the bytes as each kind of entry, and as a key. Panics where what was read is written otherwise, or too long.
pub fn run(data: &[u8]) {
    if let Ok(entry) = NodeEntry::read(data) {
        assert_eq!(NodeEntry::read(&entry.write()), Ok(entry));
    }
    if let Ok(entry) = StreamEntry::read(data) {
        assert_eq!(StreamEntry::read(&entry.write()), Ok(entry));
    }
    if let Ok(entry) = CarriageEntry::read(data) {
        let written = entry.write();
        assert!(written.len() <= VALUE_MAX_BYTES);
        let again = CarriageEntry::read(&written).expect("what was written can be read");
        assert_eq!(again.run, entry.run);
        assert!(again.streams.iter().all(|(name, carried)| entry.streams.get(name) == Some(carried)));
    }
    if let Some(text) = std::str::from_utf8(data).ok()
        && let Some(key) = Key::parse(text)
    {
        assert_eq!(key.to_string(), text);
    }
}
