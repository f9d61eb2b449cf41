//! Any bytes as a line of MAVLink: found in any pieces, and as messages of a vehicle that become sets.

use glassline_media::bitstream::klv::{Packet, uas};
use glassline_media::bitstream::mavlink::{Parser, Read, Telemetry};
use glassline_media::{Time, Utc};

/// From one piece to the next.
const PIECE_MS: u64 = 40;

/// Panics where a promise is broken: pieces change nothing of the messages that are found, each set is whole, has a right checksum
/// and says something, and there are at most ten a second.
pub fn run(data: &[u8]) {
    let Some((&first, line)) = data.split_first() else { return };
    let size = usize::from(first % 64) + 1;
    let mut whole = Parser::new();
    let mut expected = 0u64;
    whole.push(line, &mut |_, _| expected += 1);
    assert_eq!(whole.counters().frames, expected, "each frame is given");
    let mut telemetry = Telemetry::new();
    let mut sets = 0;
    let mut at = Time::ZERO;
    for (number, piece) in (0..).zip(line.chunks(size)) {
        at = Time::from_millis(number * PIECE_MS);
        let utc = Utc::from_micros(1_790_000_000_000_000 + number * PIECE_MS * 1000);
        let read = Read { at, utc, beside_vehicle: first & 0x80 != 0, here: utc };
        telemetry.push(piece, read, &mut |set| {
            sets += 1;
            let packet = Packet::parse(&set.bytes).expect("a set is a packet");
            let said = uas::Set::parse(&packet).expect("of a drone");
            assert_eq!((packet.bytes.len(), said.checksum_right), (set.bytes.len(), Some(true)));
            assert!(said.latitude_deg.is_some() || said.heading_deg.is_some(), "a set says something");
            assert_eq!(said.latitude_deg.is_some(), said.longitude_deg.is_some());
            assert!(said.time_micros.is_some(), "and when");
        });
    }
    assert!(sets <= at.as_nanos() / 100_000_000 + 2, "{sets} sets until {at:?}");
    let counters = telemetry.counters();
    assert!(counters.frames.skipped_bytes <= line.len() as u64);
}
