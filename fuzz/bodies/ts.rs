//! Any bytes as a transport stream: alignment, scanning, demuxing, tables and headers, the rules.
//!
//! The first byte chooses how the rest is chopped.

use glassline_media::container::ts::conformance::{Checker, Profile};
use glassline_media::container::ts::demux::Follows;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::psi::{Pat, Pmt, SECTION_MAX_BYTES, SectionReader};
use glassline_media::container::ts::{Aligner, Demuxer, Event, PACKET_BYTES, Packet, Scanner};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let chop = 1 + usize::from(choice) * 7;
    let mut aligner = Aligner::new();
    let mut scanner = Scanner::new();
    let mut given_bytes = 0;
    for part in data.chunks(chop) {
        aligner.push(part, &mut |run| {
            assert!(!run.is_empty() && run.len() % PACKET_BYTES == 0, "runs are whole packets");
            given_bytes += run.len() as u64;
            packets(run).for_each(|packet| scan(&mut scanner, packet));
        });
    }
    let held_bytes = data.len() as u64 - given_bytes - aligner.skipped_bytes();
    assert!(held_bytes < 3 * PACKET_BYTES as u64, "at most three packets are held");
    // The demuxer is alike on any chop.
    assert_eq!(demux(data, chop), demux(data, data.len().max(1)));
    assert_eq!(check(data, chop), check(data, data.len().max(1)));
    demux_with_pauses(data, chop);
    let mut reader = SectionReader::new();
    for packet in packets(data) {
        if let Ok(packet) = Packet::parse(packet) {
            reader.push(packet.payload, packet.unit_start, &mut |section, _| {
                assert!(section.len() <= SECTION_MAX_BYTES);
                parse_tables(section);
            });
        }
    }
    parse_tables(data);
    let _ = PesHeader::parse(data);
}

fn scan(scanner: &mut Scanner, packet: &[u8; PACKET_BYTES]) {
    let scan = scanner.scan(packet);
    let found = scan.entry.map(|entry| {
        assert!(u64::from(entry.packets_back) < scanner.packets(), "entries lie in the stream");
        entry.point
    });
    if let Some(point) = found.or_else(|| scanner.entry_here()) {
        for discontinuity in [false, true] {
            let prelude = point.prelude(discontinuity);
            assert!(packets(&prelude).all(|packet| Packet::parse(packet).is_ok()), "preludes are packets");
            assert!(prelude.len() <= 32 * PACKET_BYTES, "preludes are bounded");
        }
    }
}

/// How often each rule is broken.
fn check(data: &[u8], chop: usize) -> Vec<u64> {
    let mut checker = Checker::new(Profile::Dvb);
    data.chunks(chop).for_each(|part| checker.push(part));
    checker.finish();
    let verdicts = checker.verdicts();
    assert!(verdicts.iter().all(|verdict| verdict.worst.is_none_or(f64::is_finite)));
    verdicts.iter().map(|verdict| verdict.broken).collect()
}

fn demux(data: &[u8], chop: usize) -> Vec<Event> {
    let mut demuxer = Demuxer::with_data();
    let mut events = Vec::new();
    for part in data.chunks(chop) {
        demuxer.push(part);
        events.extend(std::iter::from_fn(|| demuxer.poll()));
    }
    demuxer.finish();
    events.extend(std::iter::from_fn(|| demuxer.poll()));
    events
}

/// A source that pauses behind each part: what is given of pictures is no more than has come, but for parameter sets in front of
/// key frames.
fn demux_with_pauses(data: &[u8], chop: usize) {
    let mut demuxer = Demuxer::new();
    for part in data.chunks(chop) {
        demuxer.push(part);
        demuxer.pause();
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { follows: Follows::Rest, unit, .. } = event {
                assert!(!unit.random_access && unit.data.len() <= data.len());
            }
        }
        assert!(demuxer.begun_bytes() <= data.len());
    }
    demuxer.finish();
}

/// What is read can be written and read again.
fn parse_tables(section: &[u8]) {
    let mut written = Vec::new();
    if let Ok(pat) = Pat::parse(section) {
        pat.write(&mut written);
        assert!(Pat::parse(&written).is_ok_and(|again| pat.programs.starts_with(&again.programs)));
    }
    written.clear();
    if let Ok(pmt) = Pmt::parse(section) {
        pmt.write(&mut written);
        assert!(Pmt::parse(&written).is_ok_and(|again| pmt.streams.starts_with(&again.streams)));
    }
}
