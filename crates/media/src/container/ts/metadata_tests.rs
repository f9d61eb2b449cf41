use super::*;
use crate::bitstream::klv::uas;
use crate::container::ts::packetize::{Field, packetize};
use crate::container::ts::pes;
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

/// A metadata AU cell: service, flags and bytes.
type Cell<'a> = (u8, u8, &'a [u8]);

/// PES packets of metadata on the PID, each with its stamp and its cells.
fn with_cells(packets: &[(u64, &[Cell])]) -> Vec<u8> {
    let mut bytes =
        tables(vec![DataWriter::new(PID, DataKind::Klv { synchronous: true }).announced()], VIDEO);
    let mut counter = 0;
    for (pts, cells) in packets {
        let mut payload = Vec::new();
        for (service, flags, data) in *cells {
            payload.extend_from_slice(&[*service, 0, *flags]);
            payload.extend_from_slice(&(data.len() as u16).to_be_bytes());
            payload.extend_from_slice(data);
        }
        let mut head = Vec::new();
        pes::write_header(0xfc, Ticks(*pts as i64), Ticks(*pts as i64), payload.len(), &mut head);
        packetize(PID, &mut counter, Field::default(), [&head, &payload, &[]], &mut bytes);
    }
    bytes
}

#[test]
fn a_unit_in_several_cells_is_joined_and_none_is_given_in_part() {
    const FIRST: u8 = 0x9f;
    const MIDDLE: u8 = 0x1f;
    const LAST: u8 = 0x5f;
    const WHOLE: u8 = 0xdf;
    let sets = [klv(1), klv(2), klv(3)];
    let [one, two, three] = sets.each_ref().map(|set| &set[..]);
    let (a, b, c) = (&two[..10], &two[10..60], &two[60..]);
    let given = |packets: &[(u64, &[Cell])]| {
        let (found, demuxer) = units(&with_cells(packets), 77);
        let found: Vec<_> = found.into_iter().map(|unit| (unit.pts.unwrap().0, unit.data.to_vec())).collect();
        (found, demuxer.counters().damaged_data)
    };
    // In one PES packet, among whole ones.
    let all =
        given(&[(5, &[(0, WHOLE, one), (0, FIRST, a), (0, MIDDLE, b), (0, LAST, c), (0, WHOLE, three)])]);
    assert_eq!(all, (vec![(5, [one, two, three].concat())], 0));
    // Over three of them: the stamp is that of the first, and what follows has its own.
    let over = given(&[
        (5, &[(0, WHOLE, one), (0, FIRST, a)]),
        (6, &[(0, MIDDLE, b)]),
        (7, &[(0, LAST, c), (0, WHOLE, three)]),
    ]);
    assert_eq!(over, (vec![(5, one.to_vec()), (5, two.to_vec()), (7, three.to_vec())], 0));
    // Without its first part, its last one, or with that of another service.
    assert_eq!(given(&[(5, &[(0, LAST, c)]), (6, &[(0, WHOLE, one)])]), (vec![(6, one.to_vec())], 1));
    assert_eq!(given(&[(5, &[(0, FIRST, a)]), (6, &[(0, WHOLE, one)])]), (vec![(6, one.to_vec())], 1));
    assert_eq!(given(&[(5, &[(0, FIRST, a)])]), (vec![], 1));
    assert_eq!(
        given(&[(5, &[(0, FIRST, a), (1, LAST, c)]), (6, &[(0, WHOLE, one)])]),
        (vec![(6, one.to_vec())], 1)
    );
    // One that never ends.
    let long = [a, &[7; 30_000]].concat();
    let grown = given(&[
        (5, &[(0, FIRST, &long)]),
        (6, &[(0, MIDDLE, &long)]),
        (7, &[(0, MIDDLE, &long)]),
        (8, &[(0, WHOLE, one)]),
    ]);
    assert_eq!(grown, (vec![(8, one.to_vec())], 1));
    // What is behind the cells is none.
    let mut cut = with_cells(&[(5, &[(0, WHOLE, one)])]);
    let writer = &mut DataWriter::new(PID, DataKind::Klv { synchronous: false });
    writer.write(
        &[&[0, 0, WHOLE, 0, one.len() as u8], one, &[0, 0, WHOLE, 9, 9, 9]].concat(),
        None,
        &mut cut,
    );
    let (found, demuxer) = units(&cut, 188);
    assert_eq!((found.len(), demuxer.counters().damaged_data), (2, 1));
}

#[test]
fn cues_that_are_cut_off_or_too_long_are_counted() {
    const CUE: &[u8] = b"\xfc\x30\x2e\x00\x00\x00\x03\x28\x98\x00\xff\xf0\x05\x06\xfe\x00\x0b\xfe\x50\x00\x18\x02\x16CUEIdW\xe4\x91\x7f\xcb\x00\x00\x52\x65\xc0\x00\x00\x34\x00\x00\x00\x00\x6a\x5b\xbc\x14";
    let damaged = |payloads: &[(bool, &[u8])]| {
        let mut bytes = tables(vec![DataWriter::new(PID, DataKind::Splice).announced()], VIDEO);
        for ((start, payload), counter) in payloads.iter().zip(0u8..) {
            let mut packet = vec![0x47, if *start { 0x41 } else { 0x01 }, PID as u8, 0x10 | counter & 0x0f];
            packet.extend_from_slice(payload);
            packet.resize(188, 0xff);
            bytes.extend_from_slice(&packet);
        }
        let (found, demuxer) = units(&bytes, 188);
        (found.len(), demuxer.counters().damaged_data)
    };
    let whole = [&[0], CUE].concat();
    let begun = [&[0, 0xfc, 0x32, 0x00][..], &[0; 180]].concat();
    assert_eq!(damaged(&[(true, &whole)]), (1, 0));
    // The next one begins before it ends; the pointer leads nowhere; nothing follows; packets are missing.
    assert_eq!(damaged(&[(true, &begun), (true, &whole)]), (1, 1));
    assert_eq!(damaged(&[(true, &[200]), (true, &whole)]), (1, 1));
    assert_eq!(damaged(&[(true, &whole), (true, &begun)]), (1, 1));
    let mut lost = vec![(true, &begun[..])];
    lost.extend([(false, &[0; 184][..]); 1]);
    assert_eq!(damaged(&lost), (0, 1));
    // Longer than a cue may be, once, however much of it comes.
    let long = [&[0, 0xfc, 0x3f, 0xff][..], &[0; 180]].concat();
    let mut all = vec![(true, &long[..])];
    all.extend([(false, &[0; 184][..]); 5]);
    all.push((true, &whole));
    assert_eq!(damaged(&all), (1, 1));
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
