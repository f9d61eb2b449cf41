use super::super::conformance::{Checker, Profile};
use super::super::mux::{AudioFormat, MuxSettings, Muxer};
use super::super::{Continuity, ContinuityChecker, Demuxer, Event, PACKET_BYTES};
use super::*;
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::klv::uas;
use crate::stamps::Stamps;
use proptest::prelude::*;

const SYNCHRONOUS: DataKind = DataKind::Klv { synchronous: true };
const PICTURE_TICKS: i64 = 3600;

fn klv(number: u64, padding: usize) -> Vec<u8> {
    let mission = Some("m".repeat(padding)).filter(|mission| !mission.is_empty());
    uas::Set { time_micros: Some(number), mission, ..uas::Set::default() }.write()
}

/// The packets of each of so many pictures, with sound behind every other one.
fn pictures(count: i64, first: i64) -> Vec<Vec<u8>> {
    let sound = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(sound), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let unit = |codec, number: i64, data: Vec<u8>| {
        let pts = Ticks(first + number * PICTURE_TICKS);
        let random_access = number % 25 == 0;
        AccessUnit { codec, data: data.into(), pts, dts: pts, random_access, stamps: Stamps::default() }
    };
    let picture = |number: i64| {
        let mut data =
            vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, if number % 25 == 0 { 0x65 } else { 0x41 }, 0x88];
        data.resize(1500, 0x55);
        let mut out = Vec::new();
        muxer.write(&unit(Codec::H264, number, data), &mut out).unwrap();
        if number % 2 == 0 {
            muxer.write(&unit(Codec::Opus, number, vec![0xfc, 0xff, 0xfe]), &mut out).unwrap();
        }
        out
    };
    (0..count).map(picture).collect()
}

/// The stream with a unit behind each picture, and what the inserter said of the picture then.
fn inserted(pictures: &[Vec<u8>], data: impl Fn(u64) -> Vec<u8>) -> (Vec<u8>, Vec<PictureTime>) {
    let (mut inserter, mut out, mut times) = (DataInserter::new(SYNCHRONOUS), Vec::new(), Vec::new());
    for (number, picture) in (0..).zip(pictures) {
        inserter.pass(picture, &mut out);
        let time = inserter.picture(Ticks(0)).unwrap();
        inserter.write(&data(number), time.pts, &mut out);
        times.push(time);
    }
    (out, times)
}

fn assert_continuous(stream: &[u8]) {
    let mut checker = ContinuityChecker::default();
    for bytes in packet::packets(stream) {
        let packet = Packet::parse(bytes).unwrap();
        let found = checker.check(&packet);
        assert!(matches!(found, Continuity::First | Continuity::Continuous), "{:#x}: {found:?}", packet.pid);
    }
}

#[test]
fn units_come_out_with_the_stamps_of_their_pictures_and_nothing_else_has_changed() {
    let pictures = pictures(60, 90_000);
    let (stream, times) = inserted(&pictures, |number| klv(number, 0));
    assert_continuous(&stream);
    for (number, time) in (0..).zip(&times) {
        let captured = Ticks(90_000 + number * PICTURE_TICKS);
        assert_eq!(*time, PictureTime { captured, pts: captured + Ticks(4_500) });
    }
    let mut demuxer = Demuxer::with_data();
    demuxer.push(&stream);
    demuxer.finish();
    let (mut units, mut programs, mut found) = (Vec::new(), Vec::new(), 0);
    for event in std::iter::from_fn(|| demuxer.poll()) {
        match event {
            Event::Data { unit, .. } => units.push((unit.data.to_vec(), unit.pts.unwrap())),
            Event::Program(program) => programs.push(program),
            Event::AccessUnit { .. } => found += 1,
            _ => {}
        }
    }
    let expected: Vec<_> = (0..).zip(&times).map(|(number, time)| (klv(number, 0), time.pts)).collect();
    assert_eq!(units, expected);
    assert_eq!((programs.len(), found), (1, 90), "the program is told once, and nothing of it is lost");
    let streams: Vec<_> = programs[0].streams.iter().map(|stream| (stream.pid, stream.data_kind())).collect();
    assert_eq!(streams, [(0x100, None), (0x101, None), (0x102, Some(SYNCHRONOUS))]);
    // All but tables and data is as it was, byte by byte.
    let others = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let kept = packet::packets(bytes)
            .filter(|bytes| !matches!(Packet::parse(bytes).unwrap().pid, 0x1000 | 0x102));
        kept.map(|bytes| bytes.to_vec()).collect()
    };
    assert_eq!(others(&stream), others(&pictures.concat()));
    let mut checker = Checker::new(Profile::default());
    checker.push(&stream);
    checker.finish();
    let mut before = Checker::new(Profile::default());
    before.push(&pictures.concat());
    before.finish();
    let broken = |checker: &Checker| -> Vec<_> {
        checker
            .verdicts()
            .into_iter()
            .filter(|verdict| verdict.broken > 0)
            .map(|verdict| verdict.rule)
            .collect()
    };
    assert_eq!(broken(&checker), broken(&before));
}

#[test]
fn the_clocks_wrap_is_no_jump() {
    let first = (1i64 << 33) - 20 * PICTURE_TICKS;
    let (stream, times) = inserted(&pictures(40, first), |number| klv(number, 0));
    assert_continuous(&stream);
    assert!(times.iter().all(|time| time.pts - time.captured == Ticks(4_500)));
    let mut inserter = DataInserter::new(SYNCHRONOUS);
    inserter.pass(&pictures(40, first).concat(), &mut Vec::new());
    let near = Ticks((1 << 33) + 20 * PICTURE_TICKS);
    assert_eq!(inserter.picture(near).unwrap().captured, Ticks((1 << 33) + 19 * PICTURE_TICKS));
}

#[test]
fn nothing_is_written_before_the_program_is_known() {
    let mut inserter = DataInserter::new(SYNCHRONOUS);
    let mut out = Vec::new();
    inserter.write(&klv(1, 0), Ticks(0), &mut out);
    assert!(out.is_empty() && !inserter.is_announced() && inserter.picture(Ticks(0)).is_none());
}

/// A map that fills its packet needs a second one with the stream, and the first PIDs may be taken.
#[test]
fn a_map_that_grows_beyond_a_packet_goes_on_in_the_next_one() {
    let (mut tables, mut section) = (Vec::new(), Vec::new());
    Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(0, 0x10), (7, 0x104)] }
        .write(&mut section);
    psi::write_packets(PAT_PID, &section, &mut 0, &mut tables);
    section.clear();
    let stream = |pid, length: u8| {
        let descriptors = [&[0x52, length][..], &vec![1; usize::from(length)]].concat();
        super::super::ElementaryStream::new(pid, 0x1b, descriptors)
    };
    let streams = vec![stream(0x102, 120), stream(0x103, 20)];
    Pmt { program_number: 7, version: 9, current: true, pcr_pid: 0x105, streams }.write(&mut section);
    let mut continuity = 0;
    psi::write_packets(0x104, &section, &mut continuity, &mut tables);
    assert_eq!(tables.len(), 2 * PACKET_BYTES);
    let mut inserter = DataInserter::new(SYNCHRONOUS);
    let mut out = Vec::new();
    for _ in 0..20 {
        inserter.pass(&tables[PACKET_BYTES..], &mut Vec::new());
        inserter.pass(&tables, &mut out);
    }
    assert_eq!(out.len(), 20 * 3 * PACKET_BYTES);
    let mut demuxer = Demuxer::with_data();
    demuxer.push(&out);
    let Some(Event::Program(program)) = demuxer.poll() else { panic!() };
    assert_eq!((program.number, program.version, program.streams.len()), (7, 9, 3));
    assert_eq!((program.streams[2].pid, program.streams[2].data_kind()), (0x106, Some(SYNCHRONOUS)));
}

proptest! {
    #[test]
    fn any_packets_pass(packets in prop::collection::vec(any::<u8>(), 0..4000), sizes in prop::collection::vec(0usize..400, 1..4)) {
        let mut packets = packets;
        for packet in packets.as_chunks_mut::<PACKET_BYTES>().0 {
            (packet[0], packet[1], packet[2]) = (0x47, packet[1] & 0x50, packet[2] & 0x03);
        }
        let mut stream = pictures(2, 0).concat();
        stream.extend_from_slice(&packets);
        let (out, _) = inserted(&[stream], |number| klv(number, sizes[0] % 120));
        prop_assert_eq!(out.len() % PACKET_BYTES, 0);
    }
}
