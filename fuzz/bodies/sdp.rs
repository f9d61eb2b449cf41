//! A session description from a stranger: the bytes are its text.

use glassline_transport::rtp::coded::Format;
use glassline_transport::sdp::{CodedDescription, Description, MAX_BYTES};

/// Reads it. What is read must be written as a description that reads the same.
pub fn run(data: &[u8]) {
    if let Ok(coded) = CodedDescription::parse_bytes(data) {
        for encoding in coded.tracks.iter().flat_map(|track| &track.encodings) {
            let _ = Format::of(encoding);
        }
    }
    let Ok(description) = Description::parse(&String::from_utf8_lossy(data)) else { return };
    for flow in &description.flows {
        assert!((1..=2).contains(&flow.paths.len()) && flow.payload_type < 128);
    }
    let text = description.to_string();
    // What stands once for the whole session is written for each section: so it may have become too long.
    if text.len() > MAX_BYTES {
        return;
    }
    let again = Description::parse(&text).expect("what is written is a description");
    assert_eq!(again.to_string(), text);
    assert_eq!(again.flows.len(), description.flows.len());
}
