//! A program that changes in mid-stream: its PMT lists other PIDs, then lies elsewhere itself. No unit is lost, and who
//! joins or is moved gets the tables of the part that follows.
#![allow(clippy::unwrap_used)]

use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{
    ContinuityChecker, Demuxer, Event, MuxSettings, Muxer, PACKET_BYTES, Packet, Scanner, psi,
};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};

/// Pictures of each part; the first is a key frame.
const PICTURES: i64 = 30;
const PAT_PID: u16 = 0;

/// Where a part has its program: the PIDs of PMT and video.
type Layout = (u16, u16);

/// As the muxer has it; other video; other PMT; all anew; back again.
const LAYOUTS: [Layout; 5] =
    [(0x1000, 0x100), (0x1000, 0x200), (0x1100, 0x200), (0x1200, 0x300), (0x1000, 0x100)];

fn picture(number: i64) -> AccessUnit {
    let key = number % PICTURES == 0;
    let mut data = vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, if key { 0x65 } else { 0x41 }, 0x88];
    data.resize(500 + number as usize, 0x55);
    let pts = Ticks(90_000 + number * 3600);
    let stamps = Stamps::default();
    AccessUnit { codec: Codec::H264, data: data.into(), pts, dts: pts, random_access: key, stamps }
}

/// A packet of ours as it is in another layout: tables are written anew, the rest gets another PID.
fn moved(packet: &[u8; PACKET_BYTES], (pmt_pid, video): Layout, version: u8, out: &mut Vec<u8>) {
    let read = Packet::parse(packet).unwrap();
    let mut continuity = packet[3] & 0x0f;
    let mut section = Vec::new();
    let pid = match read.pid {
        PAT_PID => {
            let mut pat = psi::Pat::parse(&read.payload[1..]).unwrap();
            (pat.version, pat.programs) = (version, vec![(pat.programs[0].0, pmt_pid)]);
            pat.write(&mut section);
            PAT_PID
        }
        pid if pid == LAYOUTS[0].0 => {
            let mut pmt = psi::Pmt::parse(&read.payload[1..]).unwrap();
            (pmt.version, pmt.pcr_pid, pmt.streams[0].pid) = (version, video, video);
            pmt.write(&mut section);
            pmt_pid
        }
        _ => video,
    };
    if section.is_empty() {
        let start = out.len();
        out.extend_from_slice(packet);
        out[start + 1] = packet[1] & 0xe0 | (pid >> 8) as u8;
        out[start + 2] = pid as u8;
    } else {
        psi::write_packets(pid, &section, &mut continuity, out);
    }
}

/// Packets' counters as one multiplexer would have them over all parts.
fn count(bytes: &mut [u8]) {
    let mut next = std::collections::BTreeMap::new();
    for packet in bytes.as_chunks_mut::<PACKET_BYTES>().0 {
        let counter = next.entry((packet[1] & 0x1f, packet[2])).or_insert(0u8);
        packet[3] = packet[3] & 0xf0 | *counter;
        *counter = (*counter + u8::from(packet[3] & 0x10 != 0)) & 0x0f;
    }
}

/// The whole stream, and where each part begins.
fn stream() -> (Vec<u8>, Vec<usize>) {
    let settings =
        MuxSettings { video: Some(Codec::H264), table_interval: Ticks(3600), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    for (part, layout) in LAYOUTS.into_iter().enumerate() {
        starts.push(bytes.len());
        for number in 0..PICTURES {
            let mut written = Vec::new();
            muxer.write(&picture(part as i64 * PICTURES + number), &mut written).unwrap();
            packets(&written).for_each(|packet| moved(packet, layout, part as u8, &mut bytes));
        }
    }
    count(&mut bytes);
    (bytes, starts)
}

#[test]
fn every_unit_comes_out_of_each_part() {
    let (bytes, _) = stream();
    for chop in [1, 188, 1316, usize::MAX] {
        let mut demuxer = Demuxer::new();
        let (mut programs, mut units) = (Vec::new(), Vec::new());
        for part in bytes.chunks(chop.min(bytes.len())) {
            demuxer.push(part);
            while let Some(event) = demuxer.poll() {
                match event {
                    Event::Program(program) => programs.push((program.pmt_pid, program.streams[0].pid)),
                    Event::AccessUnit { pid, unit, .. } => units.push((pid, unit)),
                    Event::Data { .. } | Event::Pcr { .. } => {}
                }
            }
        }
        assert_eq!(programs, LAYOUTS, "chopped by {chop}");
        assert_eq!(units.len(), LAYOUTS.len() * PICTURES as usize);
        for (number, (pid, unit)) in (0..).zip(&units) {
            let expected = picture(number);
            assert_eq!(*pid, LAYOUTS[(number / PICTURES) as usize].1, "picture {number}");
            assert_eq!((&unit.data, unit.random_access), (&expected.data, expected.random_access));
            assert_eq!(unit.pts - units[0].1.pts, expected.pts - picture(0).pts);
        }
        let counters = demuxer.counters();
        assert_eq!((counters.continuity_errors, counters.damaged_units), (0, 0));
    }
}

fn continuity_errors(bytes: &[u8]) -> u64 {
    let mut checker = ContinuityChecker::new();
    for packet in packets(bytes) {
        checker.check(&Packet::parse(packet).unwrap());
    }
    checker.errors()
}

#[test]
fn who_joins_or_is_moved_gets_the_tables_of_the_part() {
    let (bytes, starts) = stream();
    let mut scanner = Scanner::new();
    let mut found = Vec::new();
    for (number, packet) in packets(&bytes).enumerate() {
        let entry = scanner.scan(packet).entry;
        found.extend(entry.map(|entry| ((number - entry.packets_back as usize) * PACKET_BYTES, entry.point)));
    }
    assert_eq!(scanner.continuity_errors(), 0);
    assert_eq!(found.len(), LAYOUTS.len(), "one place to join in each part");
    for (part, (at, point)) in found.iter().enumerate() {
        let end = starts.get(part + 1).copied().unwrap_or(bytes.len());
        assert!((starts[part]..end).contains(at));
        let joined = [&point.prelude(false)[..], &bytes[*at..]].concat();
        let mut scanner = Scanner::new();
        let first = packets(&joined).find(|packet| scanner.scan(packet).entry.is_some()).unwrap();
        let program = scanner.program().unwrap();
        assert_eq!((program.pmt_pid, program.streams[0].pid), LAYOUTS[part]);
        assert_eq!(Packet::parse(first).unwrap().pid, LAYOUTS[part].1, "its first picture is the part's");
        assert_eq!(continuity_errors(&joined), 0);
        // Who has seen an earlier part, and perhaps the same PIDs, is moved forward to this one.
        for left in
            starts.iter().take(part + 1).map(|start| start + 7 * PACKET_BYTES).filter(|left| left < at)
        {
            let moved = [&bytes[..left], &point.prelude(true)[..], &bytes[*at..]].concat();
            assert_eq!(continuity_errors(&moved), 0, "left at {left}, joined at {at}");
        }
    }
}
