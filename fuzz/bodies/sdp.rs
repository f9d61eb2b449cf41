//! A session description from a stranger: the bytes are its text.

use glassline_media::{Time, Utc};
use glassline_transport::rtp::Settings;
use glassline_transport::rtp::coded::Format;
use glassline_transport::rtp::session::described::{Described, DescribedSession};
use glassline_transport::sdp::{CodedDescription, Description, MAX_BYTES};

/// Reads it. What is read must be written as a description that reads the same.
pub fn run(data: &[u8]) {
    if let Ok(coded) = CodedDescription::parse_bytes(data) {
        for encoding in coded.tracks.iter().flat_map(|track| &track.encodings) {
            let _ = Format::of(encoding);
        }
    }
    if let Ok(described) = Described::parse_bytes(data) {
        receive(&described, data);
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

/// What a receiver opens is bounded, and its session stands what comes to the ports: here the description itself, in pieces.
fn receive(described: &Described, data: &[u8]) {
    assert!((1..=2).contains(&described.tracks.len()) && (1..=4).contains(&described.ports.len()));
    let ports = described.ports.len();
    for track in &described.tracks {
        assert!(track.rtp < ports && track.rtcp.is_none_or(|rtcp| rtcp < ports));
        assert!(described.ports[track.rtp].address.port() > 0);
    }
    let mut session = DescribedSession::new(described, 7, Settings::default());
    let (now, utc) = (Time::from_millis(1000), Utc::from_nanos(1_700_000_000_000_000_000));
    for (number, piece) in data.chunks(64).enumerate() {
        let from = ([127, 0, 0, 1], 9000).into();
        session.handle_datagram(number % (ports + 1), piece, from, now, utc);
    }
    session.handle_timeout(Time::from_millis(9000));
    let _ = session.poll_reports(Time::from_millis(9000));
}
