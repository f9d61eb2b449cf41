use super::*;
use crate::bitstream::klv::uas;
use crate::container::ts::psi::{Pat, Pmt, write_packets};
use crate::container::ts::{Demuxer, ElementaryStream, Event};
use proptest::prelude::*;

const PID: u16 = 0x1f0;
const VIDEO: u16 = 0x100;

/// Tables of a program with these streams.
fn tables(streams: Vec<ElementaryStream>, pcr_pid: u16) -> Vec<u8> {
    let (mut out, mut section) = (Vec::new(), Vec::new());
    Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] }
        .write(&mut section);
    write_packets(0, &section, &mut 0, &mut out);
    section.clear();
    Pmt { program_number: 1, version: 0, current: true, pcr_pid, streams }.write(&mut section);
    write_packets(0x1000, &section, &mut 0, &mut out);
    out
}

fn klv(number: u64) -> Vec<u8> {
    uas::Set { time_micros: Some(number), mission: Some("m".repeat(100)), ..uas::Set::default() }.write()
}

fn units(bytes: &[u8], chop: usize) -> (Vec<DataUnit>, Demuxer) {
    let mut demuxer = Demuxer::with_data();
    let mut found = Vec::new();
    for part in bytes.chunks(chop) {
        demuxer.push(part);
        found.extend(std::iter::from_fn(|| demuxer.poll()).filter_map(data));
    }
    demuxer.finish();
    found.extend(std::iter::from_fn(|| demuxer.poll()).filter_map(data));
    (found, demuxer)
}

fn data(event: Event) -> Option<DataUnit> {
    match event {
        Event::Data { pid: PID, unit, .. } => Some(unit),
        _ => None,
    }
}

#[test]
fn klv_of_either_kind_is_given_as_it_was_sent() {
    for synchronous in [false, true] {
        let kind = DataKind::Klv { synchronous };
        let mut writer = DataWriter::new(PID, kind);
        // In front of the pictures in the table, and with the clock.
        let video = ElementaryStream::new(VIDEO, 0x1b, Vec::new());
        let mut bytes = tables(vec![writer.announced(), video], PID);
        let stamp =
            |number: u64| (synchronous || number > 1).then_some(Ticks(90_000 + 9_000 * number as i64));
        for number in 0..4 {
            writer.write(&klv(number), stamp(number), &mut bytes);
        }
        let (found, demuxer) = units(&bytes, 100);
        let expected: Vec<_> =
            (0..4).map(|number| DataUnit { kind, data: klv(number).into(), pts: stamp(number) }).collect();
        assert_eq!(found, expected, "synchronous: {synchronous}");
        assert_eq!(demuxer.counters().damaged_data, 0);
        // Where they are not asked for, there are none.
        let mut plain = Demuxer::new();
        plain.push(&bytes);
        assert!(std::iter::from_fn(|| plain.poll()).all(|event| matches!(event, Event::Program(_))));
    }
}

/// jmisb #119: the stream id of one kind in a stream of the other; and synchronous metadata without cells, as some writers have it.
#[test]
fn mixed_conventions_are_read() {
    for (kind, cells) in [(false, true), (true, false)] {
        let announced = DataWriter::new(PID, DataKind::Klv { synchronous: kind }).announced();
        let mut writer = DataWriter::new(PID, DataKind::Klv { synchronous: cells });
        let mut bytes = tables(vec![announced], VIDEO);
        writer.write(&klv(7), Some(Ticks(5)), &mut bytes);
        let (found, _) = units(&bytes, 1000);
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].data[..], found[0].kind), (&klv(7)[..], DataKind::Klv { synchronous: kind }));
    }
}

#[test]
fn a_lost_packet_costs_one_unit_and_a_cut_header_none_but_its_own() {
    let kind = DataKind::Klv { synchronous: false };
    let mut writer = DataWriter::new(PID, kind);
    let mut bytes = tables(vec![writer.announced()], VIDEO);
    let long = [klv(1), klv(2), klv(3), klv(4)].concat();
    let from = bytes.len();
    writer.write(&long, Some(Ticks(1)), &mut bytes);
    writer.write(&klv(5), Some(Ticks(2)), &mut bytes);
    bytes.drain(from + 188..from + 2 * 188);
    writer.write(b"no key at all, and no cell", Some(Ticks(3)), &mut bytes);
    writer.write(&klv(6), Some(Ticks(4)), &mut bytes);
    let (found, demuxer) = units(&bytes, 188);
    assert_eq!(found.iter().map(|unit| unit.pts).collect::<Vec<_>>(), [Some(Ticks(2)), Some(Ticks(4))]);
    assert_eq!(demuxer.counters().damaged_data, 2);
}

#[test]
fn cues_are_given_with_their_time_and_wrong_ones_are_counted() {
    const CUE: &[u8] = b"\xfc\x30\x2e\x00\x00\x00\x03\x28\x98\x00\xff\xf0\x05\x06\xfe\x00\x0b\xfe\x50\x00\x18\x02\x16CUEIdW\xe4\x91\x7f\xcb\x00\x00\x52\x65\xc0\x00\x00\x34\x00\x00\x00\x00\x6a\x5b\xbc\x14";
    let mut writer = DataWriter::new(PID, DataKind::Splice);
    let mut bytes = tables(vec![writer.announced()], VIDEO);
    writer.write(CUE, None, &mut bytes);
    let mut wrong = CUE.to_vec();
    wrong[20] ^= 1;
    writer.write(&wrong, None, &mut bytes);
    let (found, demuxer) = units(&bytes, 50);
    let expected =
        DataUnit { kind: DataKind::Splice, data: CUE.to_vec().into(), pts: Some(Ticks(786_000 + 207_000)) };
    assert_eq!(found, [expected]);
    assert_eq!(demuxer.counters().damaged_data, 1);
    // DTS-HD has the same type of stream.
    let blu_ray = ElementaryStream::new(PID, 0x86, b"\x05\x04HDMV".to_vec());
    assert_eq!((blu_ray.data_kind(), blu_ray.is_audio()), (None, true));
}

proptest! {
    /// However a stream of data is broken, nothing but its own units is touched, and memory is bounded.
    #[test]
    fn hostile_streams_do_no_harm(
        kind in 0usize..3, flips in proptest::collection::vec((0usize..6000, any::<u8>()), 0..30), chop in 1usize..400,
    ) {
        let kinds = [DataKind::Klv { synchronous: false }, DataKind::Klv { synchronous: true }, DataKind::Splice];
        let mut writer = DataWriter::new(PID, kinds[kind]);
        let mut bytes = tables(vec![writer.announced()], PID);
        for number in 0..20 {
            writer.write(&klv(number), Some(Ticks(number as i64)), &mut bytes);
        }
        let protected = 2 * 188;
        for (at, value) in flips {
            if protected + at < bytes.len() {
                bytes[protected + at] = value;
            }
        }
        let (found, _) = units(&bytes, chop);
        for unit in found {
            prop_assert!(unit.data.len() <= PES_MAX_BYTES + 184);
        }
    }
}
