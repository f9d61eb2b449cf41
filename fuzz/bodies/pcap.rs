//! Any bytes as a packet capture: containers, headers, flows, and the flight and picture that come of them.
//!
//! The first byte chooses how the rest is chopped.

use glassline_inspect::flight::{Basis, Flight, Settings};
use glassline_inspect::pcap::{HEAD_BYTES, Packet, PcapError, Reader, Segment, Survey, segment};
use glassline_inspect::report::flight::{Caption, draw};
use glassline_media::Time;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let chop = 1 + usize::from(choice) * 7;
    let whole = read(data, data.len().max(1));
    assert_eq!(whole, read(data, chop), "the reader is alike on any chop");
    let (segments, ..) = whole;
    let mut survey = Survey::default();
    segments.iter().for_each(|(_, segment)| survey.push(segment));
    let Some((flow, count)) = survey.largest(|_| true) else { return };
    assert!(
        count.payload_bytes > 0
            && survey.flows().iter().all(|other| other.1.payload_bytes <= count.payload_bytes)
    );
    let mut flight = Flight::new(Settings::new(Basis::Packets));
    for (time, segment) in segments.iter().filter(|(_, segment)| segment.flow == flow) {
        flight.push(*time, segment.payload_bytes, segment.packets());
    }
    let summary = flight.finish();
    let in_bins: u64 = summary.figures.burst_histogram.iter().map(|bin| bin.bytes).sum();
    assert_eq!(
        (summary.figures.bytes, in_bins),
        (count.payload_bytes, count.payload_bytes),
        "every byte is counted"
    );
    let name = flow.to_string();
    let svg = draw(&summary, &Caption { flow: Some(&name), ..Caption::default() });
    assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && svg.len() < 1 << 20);
}

fn read(data: &[u8], chop: usize) -> (Vec<(Time, Segment)>, u64, Option<PcapError>) {
    let (mut reader, mut segments) = (Reader::new(), Vec::new());
    let mut give = |packet: Packet<'_>| {
        assert!(packet.head.len() <= HEAD_BYTES);
        segments.extend(segment::parse(&packet).ok().map(|segment| (packet.time, segment)));
    };
    let error = data.chunks(chop).find_map(|part| reader.push(part, &mut give).err());
    (segments, reader.packets(), error)
}
