use super::*;
use crate::sdp::Encoding;
use glassline_media::bitstream::{adts, h264, s302m};
use glassline_media::upsample::Upsampler;
use glassline_media::{AccessUnit, Stamps, Ticks};
use proptest::prelude::*;
use std::time::Duration;

const HOST: Origin = Origin { path: 0, address: None };

fn format(name: &str, clock_hz: u32, channels: u8, parameters: &str) -> Format {
    let (name, parameters) = (name.to_owned(), parameters.to_owned());
    Format::of(&Encoding { payload_type: 96, name, clock_hz, channels, parameters }).unwrap()
}

fn h264() -> Format {
    format("H264", 90_000, 1, "sprop-parameter-sets=Z0I=,aM4=")
}

fn settings() -> Settings {
    Settings { window: Duration::from_millis(20), packets: 8 }
}

/// A receiver with what it gives, as bytes and time stamps; the first time stamp is 0.
struct Run {
    receiver: Depacketizer,
    sequence: u16,
}

impl Run {
    fn new(format: &Format) -> Run {
        Run { receiver: Depacketizer::new(format, 96, settings()), sequence: 65_530 }
    }

    fn push(&mut self, timestamp: u32, marker: bool, payload: &[u8]) {
        self.push_of_type(96, timestamp, marker, payload);
    }

    fn push_of_type(&mut self, payload_type: u8, timestamp: u32, marker: bool, payload: &[u8]) {
        let header = Header { marker, payload_type, sequence: self.sequence, timestamp, ssrc: 5 };
        let packet = [&header.write()[..], payload].concat();
        self.receiver.handle_packet(&packet, HOST, Time::from_millis(1)).unwrap();
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The next packet is lost.
    fn lose(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.push(0, false, &[]);
        self.receiver.handle_timeout(Time::from_millis(100));
    }

    fn units(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| self.receiver.poll())
            .map(|unit| (unit.timestamp.wrapping_sub(1 << 32), unit.data.to_vec()))
            .collect()
    }

    /// Units as NAL unit types.
    fn kinds(&mut self) -> Vec<(u64, Vec<u8>)> {
        let kinds = |data: &[u8]| h264::nals(data).map(|nal| nal.bytes[0] & 0x1f).collect();
        self.units().into_iter().map(|(at, data)| (at, kinds(&data))).collect()
    }
}

const IDR: [u8; 3] = [0x65, 0x88, 1];
const SLICE: [u8; 3] = [0x41, 0x9a, 2];
/// A slice that does not begin with its picture's first block.
const LATER_SLICE: [u8; 3] = [0x41, 0x1a, 3];

#[test]
fn a_key_frame_without_parameter_sets_gets_those_of_the_description() {
    let mut run = Run::new(&h264());
    run.push(0, true, &IDR);
    run.push(3000, true, &SLICE);
    let units = run.units();
    assert_eq!(
        units[0].1,
        [&[0, 0, 0, 1, 0x67, 0x42, 0, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1][..], &IDR].concat()
    );
    assert_eq!(units[1], (3000, [&[0, 0, 0, 1][..], &SLICE].concat()));
    // One that has them keeps its own, which then are put in front of the next one, behind its delimiter.
    run.push(6000, false, &[24, 0, 2, 0x67, 0x43, 0, 2, 0x68, 0xcf]);
    run.push(6000, true, &IDR);
    run.push(9000, false, &[9, 0xf0]);
    run.push(9000, true, &IDR);
    let units = run.units();
    assert!(units[0].1.starts_with(&[0, 0, 0, 1, 0x67, 0x43, 0, 0, 0, 1, 0x68, 0xcf]));
    assert!(units[1].1.starts_with(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x43, 0, 0, 0, 1, 0x68, 0xcf]));
}

#[test]
fn a_unit_ends_at_its_marker_or_where_the_time_stamp_changes() {
    let mut run = Run::new(&h264());
    run.push(0, false, &IDR);
    run.push(0, false, &LATER_SLICE);
    assert_eq!(run.kinds(), []);
    run.push(3000, false, &SLICE);
    assert_eq!(run.kinds(), [(0, vec![7, 8, 5, 1])]);
    run.push(3000, true, &LATER_SLICE);
    assert_eq!(run.kinds(), [(3000, vec![1, 1])]);
    run.push(6000, false, &SLICE);
    run.receiver.finish();
    assert_eq!(run.kinds(), [(6000, vec![1])]);
}

#[test]
fn parameter_sets_with_markers_and_other_stamps_belong_to_the_picture_behind_them() {
    let mut run = Run::new(&format("H264", 90_000, 1, ""));
    run.push(0, true, &[0x67, 0x42]);
    run.push(0, false, &[0x68, 0xce]);
    run.push(3000, true, &IDR);
    run.push(3000, false, &[0x67, 0x42]);
    run.push(3000, true, &[0x68, 0xce]);
    run.push(6000, true, &IDR);
    assert_eq!(run.kinds(), [(3000, vec![7, 8, 5]), (6000, vec![7, 8, 5])]);
    // The same of a sender that forgets markers.
    run.push(9000, false, &SLICE);
    run.push(9000, false, &[0x67, 0x42]);
    run.push(9000, false, &[0x68, 0xce]);
    run.push(12_000, false, &IDR);
    run.push(15_000, false, &SLICE);
    assert_eq!(run.kinds(), [(9000, vec![1]), (12_000, vec![7, 8, 5])]);
    assert_eq!(run.receiver.counters().damaged, 0);
}

#[test]
fn a_marker_on_each_slice_is_not_believed_for_long() {
    let mut run = Run::new(&h264());
    for picture in 0..3 {
        for slice in [SLICE, LATER_SLICE, LATER_SLICE] {
            run.push(picture * 3000, true, &slice);
        }
    }
    run.receiver.finish();
    // Of the first picture one slice is shown; from then on pictures are whole.
    assert_eq!(run.kinds(), [(0, vec![1]), (3000, vec![1; 3]), (6000, vec![1; 3])]);
    assert_eq!(run.receiver.counters().damaged, 1);
}

#[test]
fn fragments_are_joined_and_habits_of_them_are_taken() {
    let mut run = Run::new(&h264());
    run.push(0, false, &[0x7c, 0x85, 0x88, 1]);
    run.push(0, false, &[0x7c, 0x05, 2]);
    run.push(0, true, &[0x7c, 0x45, 3]);
    // Start and end in one.
    run.push(3000, true, &[0x5c, 0xc1, 0x9a, 7]);
    // Without an end, before another one.
    run.push(6000, false, &[0x5c, 0x81, 0x9a, 1]);
    run.push(6000, false, &[0x5c, 0x01, 2]);
    run.push(6000, true, &[0x41, 0x1a, 3]);
    // Start codes left in.
    run.push(9000, true, &[0, 0, 0, 1, 6, 5, 0, 0, 1, 0x41, 0x9a]);
    let units = run.units();
    assert!(units[0].1.ends_with(&[0, 0, 0, 1, 0x65, 0x88, 1, 2, 3]));
    assert_eq!(units[1].1, [0, 0, 0, 1, 0x41, 0x9a, 7]);
    assert_eq!(units[2].1, [0, 0, 0, 1, 0x41, 0x9a, 1, 2, 0, 0, 0, 1, 0x41, 0x1a, 3]);
    assert_eq!(units[3].1, [0, 0, 0, 1, 6, 5, 0, 0, 0, 1, 0x41, 0x9a]);
    assert_eq!(run.receiver.counters().malformed, 0);
}

#[test]
fn a_loss_damages_the_unit_that_it_falls_into_and_no_other() {
    // Packets of three pictures in three pieces each; each one is lost once.
    for lost in 0..9 {
        let mut run = Run::new(&h264());
        run.push(0, true, &IDR);
        for number in 0..9u32 {
            let (stamp, place) = (3000 * (1 + number / 3), number % 3);
            let payload: &[u8] =
                [&[0x5c, 0x81, 0x9a, 1][..], &[0x5c, 0x01, 2], &[0x5c, 0x41, 3]][place as usize];
            if number == lost {
                run.sequence = run.sequence.wrapping_add(1);
            } else {
                run.push(stamp, place == 2, payload);
            }
        }
        run.receiver.handle_timeout(Time::from_millis(100));
        run.receiver.finish();
        let found: Vec<u64> = run.units().iter().skip(1).map(|(at, _)| *at / 3000).collect();
        let expected: Vec<u64> = (1..4).filter(|picture| *picture != u64::from(1 + lost / 3)).collect();
        assert_eq!(found, expected, "packet {lost}");
        let counters = run.receiver.counters();
        // That the last packet is lost no number tells.
        assert_eq!((counters.packets.lost, counters.damaged, counters.units), (u64::from(lost < 8), 1, 3));
    }
}

#[test]
fn a_stream_that_is_joined_in_the_middle_of_a_picture_begins_with_the_next_one() {
    let mut run = Run::new(&h264());
    run.push(0, false, &[0x7c, 0x05, 9]);
    run.push(0, true, &[0x7c, 0x45, 9]);
    run.push(3000, true, &SLICE);
    assert_eq!(run.kinds(), [(3000, vec![1])]);
    assert_eq!(run.receiver.counters().damaged, 0);
}

#[test]
fn what_contradicts_itself_costs_its_unit() {
    let mut run = Run::new(&h264());
    run.push(0, true, &IDR);
    run.push(3000, false, &SLICE);
    run.push(3000, true, &[24, 0, 200, 1]);
    run.push(6000, true, &[25, 0, 0, 0]);
    run.push(9000, true, &SLICE);
    assert_eq!(run.kinds(), [(0, vec![7, 8, 5]), (9000, vec![1])]);
    let counters = run.receiver.counters();
    assert_eq!((counters.malformed, counters.damaged), (2, 1));
}

#[test]
fn a_unit_without_end_is_dropped_and_holds_no_more_than_its_bound() {
    let mut run = Run::new(&h264());
    run.push(0, true, &IDR);
    let piece = [&[0x5c, 0x01][..], &[7; 60_000]].concat();
    run.push(3000, false, &[0x5c, 0x81, 0x9a]);
    for _ in 0..UNIT_BYTES_MAX / 60_000 + 10 {
        run.push(3000, false, &piece);
    }
    let Assembler::Nal(assembler) = &run.receiver.assembler else { panic!() };
    assert!(assembler.held_bytes() <= UNIT_BYTES_MAX);
    run.push(6000, true, &SLICE);
    assert_eq!(run.kinds(), [(0, vec![7, 8, 5]), (6000, vec![1])]);
    assert_eq!(run.receiver.counters().damaged, 1);
}

#[test]
fn other_payload_types_are_passed_over() {
    let mut run = Run::new(&h264());
    let header = Header { marker: true, payload_type: 13, sequence: 1, timestamp: 0, ssrc: 5 };
    run.receiver.handle_packet(&header.write(), HOST, Time::ZERO).unwrap();
    run.push(0, true, &IDR);
    assert_eq!((run.kinds().len(), run.receiver.counters().other_type), (1, 1));
    assert!(run.receiver.handle_packet(&[1, 2, 3], HOST, Time::ZERO).is_err());
}

#[test]
fn h265_is_joined_and_completed() {
    let mut run = Run::new(&format("H265", 90_000, 1, "sprop-vps=QAE=;sprop-sps=QgE=;sprop-pps=RAE="));
    // An IDR in fragments: type 19.
    run.push(0, false, &[0x62, 1, 0x93, 0xaf, 1]);
    run.push(0, true, &[0x62, 1, 0x53, 2]);
    // Two slices in one packet: type 1.
    run.push(3000, true, &[0x60, 1, 0, 4, 2, 1, 0x80, 5, 0, 4, 2, 1, 0x00, 6]);
    let units = run.units();
    let idr =
        [0, 0, 0, 1, 0x40, 1, 0, 0, 0, 1, 0x42, 1, 0, 0, 0, 1, 0x44, 1, 0, 0, 0, 1, 0x26, 1, 0xaf, 1, 2];
    assert_eq!(
        units,
        [(0, idr.to_vec()), (3000, vec![0, 0, 0, 1, 2, 1, 0x80, 5, 0, 0, 0, 1, 2, 1, 0x00, 6])]
    );
}

const AAC: &str = "mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1190";

#[test]
fn several_frames_of_aac_a_packet_have_times_of_their_own() {
    let mut run = Run::new(&format("MPEG4-GENERIC", 48_000, 2, AAC));
    run.push(0, true, &[0, 32, 0, 2 << 3, 0, 3 << 3, 1, 2, 3, 4, 5]);
    let units = run.units();
    let frames: Vec<_> =
        units.iter().map(|(at, data)| (*at, adts::Header::parse(data).unwrap(), &data[7..])).collect();
    assert_eq!(
        (frames[0].0, frames[0].1.rate_hz, frames[0].1.channels, frames[0].2),
        (0, 48_000, 2, &[1, 2][..])
    );
    assert_eq!((frames[1].0, frames[1].2), (1024, &[3, 4, 5][..]));
}

#[test]
fn a_frame_of_aac_comes_in_pieces_and_a_loss_takes_it_alone() {
    let mut run = Run::new(&format("MPEG4-GENERIC", 48_000, 2, AAC));
    let pieces = |run: &mut Run, stamp: u32, lost: Option<usize>| {
        for (number, piece) in [[1, 2], [3, 4]].iter().enumerate() {
            if lost == Some(number) {
                run.lose();
            } else {
                run.push(stamp, number == 1, &[&[0, 16, 0, 4 << 3][..], piece].concat());
            }
        }
    };
    pieces(&mut run, 0, None);
    pieces(&mut run, 1024, Some(1));
    pieces(&mut run, 2048, Some(0));
    pieces(&mut run, 3072, None);
    let found: Vec<_> = run.units().into_iter().map(|(at, data)| (at, data[7..].to_vec())).collect();
    assert_eq!(found, [(0, vec![1, 2, 3, 4]), (3072, vec![1, 2, 3, 4])]);
    assert_eq!(run.receiver.counters().damaged, 2);
}

#[test]
fn an_announced_frame_that_is_larger_than_any_is_not_held() {
    let mut run = Run::new(&format("MPEG4-GENERIC", 48_000, 2, "mode=AAC-hbr;sizelength=32;config=1190"));
    for _ in 0..100 {
        run.push(0, false, &[&[0, 32, 0xff, 0xff, 0xff, 0xff][..], &[7; 1000]].concat());
    }
    assert_eq!((run.units(), run.receiver.counters().malformed), (vec![], 100));
}

#[test]
fn a_payload_type_that_the_description_does_not_have_is_taken_where_no_other_comes() {
    for (has_own, given) in [(false, 5), (true, 1)] {
        let mut run = Run::new(&h264());
        if has_own {
            run.push(0, true, &[0x65, 0x88]);
        }
        for _ in 0..20 {
            run.push_of_type(97, 0, true, &[0x65, 0x88]);
        }
        assert_eq!(run.units().len(), given);
    }
}

#[test]
fn latm_goes_over_several_packets_too() {
    let mut run = Run::new(&format("MP4A-LATM", 48_000, 1, "cpresent=0;config=400023103fc0"));
    run.push(0, false, &[4, 1, 2]);
    run.push(0, true, &[3, 4]);
    run.push(1024, true, &[1, 9, 2, 7, 8]);
    let found: Vec<_> = run.units().into_iter().map(|(at, data)| (at, data[7..].to_vec())).collect();
    assert_eq!(found, [(0, vec![1, 2, 3, 4]), (1024, vec![9]), (2048, vec![7, 8])]);
}

#[test]
fn samples_become_those_of_st_302() {
    let mut run = Run::new(&format("L16", 48_000, 1, ""));
    run.push(0, false, &[0x40, 0, 0xC0, 0]);
    let units = run.units();
    let (header, samples) = s302m::read(&units[0].1).unwrap();
    assert_eq!((header.channels, samples.collect::<Vec<_>>()), (2, vec![0.5, 0.5, -0.5, -0.5]));
    run.push(2, false, &[1, 2, 3]);
    assert_eq!(run.receiver.counters().malformed, 1);
}

#[test]
fn g_711_becomes_sound_of_st_302_on_its_own_clock() {
    for (name, loud, level) in [("PCMU", 0x00, -32_124.0), ("PCMA", 0x2a, -32_256.0)] {
        let mut run = Run::new(&format(name, 8_000, 1, ""));
        run.push(1000, true, &[loud; 160]);
        run.push(1160, false, &[loud; 80]);
        // A pause, which is none of the filter's.
        run.push(9000, true, &[loud; 160]);
        let units = run.units();
        let lag = Upsampler::DELAY as u64;
        assert_eq!(units.iter().map(|(at, _)| at + lag).collect::<Vec<_>>(), [1000, 1160, 9000], "{name}");
        let read = |data: &[u8]| {
            let (header, samples) = s302m::read(data).unwrap();
            let samples: Vec<f32> = samples.collect();
            assert!(header.channels == 2 && samples.chunks(2).all(|pair| pair[0] == pair[1]));
            samples.iter().step_by(2).copied().collect::<Vec<f32>>()
        };
        let sounds: Vec<Vec<f32>> = units.iter().map(|(_, data)| read(data)).collect();
        assert_eq!(sounds.iter().map(Vec::len).collect::<Vec<_>>(), [960, 480, 960]);
        // The second packet goes on at full level, the third begins from silence.
        assert!(sounds[1].iter().all(|sample| (sample * 32_768.0 - level).abs() < 4.0), "{name}");
        assert!(sounds[2][0].abs() < 0.1);
        assert_eq!(run.receiver.counters().malformed, 0);
        run.push(20_000, true, &[0; 5000]);
        assert_eq!(run.receiver.counters().malformed, 1);
        // More than a unit of ST 302 has room for.
        run.push(30_000, true, &[loud; 2185]);
        let units = run.units();
        assert_eq!(units.iter().map(|(at, _)| at + lag).collect::<Vec<_>>(), [30_000, 32_184]);
        assert_eq!(units.iter().map(|(_, data)| read(data).len()).sum::<usize>(), 2185 * 6);
    }
}

#[test]
fn g_711_that_comes_faster_than_its_time_is_refused() {
    let mut run = Run::new(&format("PCMU", 8_000, 1, ""));
    let taken = |run: &mut Run, millis: u64| {
        for number in 0..3000u32 {
            let header = Header {
                marker: false,
                payload_type: 96,
                sequence: run.sequence,
                timestamp: number * 160,
                ssrc: 5,
            };
            let packet = [&header.write()[..], &[1; 160]].concat();
            run.receiver.handle_packet(&packet, HOST, Time::from_millis(millis)).unwrap();
            run.sequence = run.sequence.wrapping_add(1);
        }
        run.units().len()
    };
    // A second of it, and then twice the time that passes.
    assert_eq!(taken(&mut run, 1000), 50);
    assert_eq!(taken(&mut run, 1100), 10);
    assert_eq!(run.receiver.counters().malformed, 6000 - 60);
    assert_eq!(taken(&mut run, 90_000), 100, "what was not used is no reserve");
}

#[test]
fn a_key_frame_without_parameter_sets_is_sent_with_the_newest_ones() {
    let mut packetizer = Packetizer::new(Codec::H264, 96, 5, 0, 1000).unwrap();
    let start: &[u8] = &[0, 0, 0, 1];
    let (sps, pps): (&[u8], &[u8]) = (&[0x67, 0x42, 0, 0x1f], &[0x68, 0xce]);
    let first = [start, sps, start, pps, start, &IDR].concat();
    let mut payloads = Vec::new();
    for (data, random_access) in
        [(first, true), ([start, &IDR].concat(), true), ([start, &SLICE].concat(), false)]
    {
        let unit = AccessUnit { random_access, ..unit(Codec::H264, data) };
        packetizer.packetize(&unit, 0, &mut |packet| {
            payloads.push(Packet::parse(packet).unwrap().payload.to_vec());
        });
    }
    let [first, second, other] = &payloads[..] else { panic!("{payloads:?}") };
    // STAP-A of the sets and the slice.
    assert_eq!((first, first[0] & 0x1f), (second, 24));
    assert!(first.windows(4).any(|part| part == sps) && other == &SLICE);
}

/// A unit's packets, and what is made of them again.
fn there_and_back(format: &Format, units: &[(AccessUnit, u32)], payload_bytes: usize) -> Vec<CodedUnit> {
    let mut packetizer = Packetizer::new(format.codec(), 96, 7, 65_000, payload_bytes).unwrap();
    let mut receiver = Depacketizer::new(format, 96, Settings::default());
    let mut sent = 0;
    for (unit, timestamp) in units {
        packetizer.packetize(unit, *timestamp, &mut |packet| {
            assert!(packet.len() <= payload_bytes + 12);
            sent += 1;
            receiver.handle_packet(packet, HOST, Time::from_millis(1)).unwrap();
        });
    }
    receiver.finish();
    let counters = receiver.counters();
    assert_eq!((counters.damaged, counters.malformed, counters.packets.received), (0, 0, sent));
    assert_eq!(packetizer.sent().0 as u64, sent);
    std::iter::from_fn(|| receiver.poll()).collect()
}

fn unit(codec: Codec, data: Vec<u8>) -> AccessUnit {
    let (data, stamps) = (Bytes::from(data), Stamps::default());
    AccessUnit { codec, data, pts: Ticks(0), dts: Ticks(0), random_access: true, stamps }
}

/// A NAL unit's bytes: no start code is in them, and no zero at their end.
fn body() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8..=255, 1..400)
}

fn annex_b(first: &[u8], bodies: &[Vec<u8>], later: &[u8]) -> Vec<u8> {
    let mut unit = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        unit.extend_from_slice(&[0, 0, 0, 1]);
        unit.extend_from_slice(if number == 0 { first } else { later });
        unit.extend_from_slice(body);
    }
    unit
}

proptest! {
    #[test]
    fn pictures_survive(
        pictures in prop::collection::vec(prop::collection::vec(body(), 1..4), 1..5), payload_bytes in 64usize..600,
    ) {
        let h265 = format("H265", 90_000, 1, "");
        let kinds: [(&Format, &[u8], &[u8]); 2] =
            [(&h264(), &[0x41, 0x9a], &[0x41, 0x1a]), (&h265, &[2, 1, 0x80], &[2, 1, 0x01])];
        for (format, first, later) in kinds {
            let units: Vec<_> = pictures.iter().zip(0..)
                .map(|(bodies, number)| (unit(format.codec(), annex_b(first, bodies, later)), number * 3000))
                .collect();
            let found = there_and_back(format, &units, payload_bytes);
            prop_assert_eq!(found.len(), units.len());
            for (found, (unit, timestamp)) in found.iter().zip(&units) {
                prop_assert_eq!(&found.data, &unit.data);
                prop_assert_eq!(found.timestamp, (1 << 32) + u64::from(*timestamp));
            }
        }
    }

    #[test]
    fn sound_survives(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..700), 1..8), payload_bytes in 64usize..900,
    ) {
        let aac = format("MPEG4-GENERIC", 48_000, 2, AAC);
        let units: Vec<_> = frames.iter().zip(0..).map(|(frame, number)| {
            let header = adts::Header {
                object_type: 2, rate_hz: 48_000, channels: 2, checksum: false, frame_bytes: frame.len() + 7, blocks: 1,
            };
            (unit(Codec::Aac, [&header.write().unwrap()[..], frame].concat()), number * 1024)
        }).collect();
        let found = there_and_back(&aac, &units, payload_bytes);
        prop_assert_eq!(found.len(), units.len());
        for (found, (unit, _)) in found.iter().zip(&units) {
            prop_assert_eq!(&found.data, &unit.data);
        }
        // MPEG audio, layer II: 48 kHz, 384 kbit/s, 1152 bytes.
        let mut frame = vec![0xff, 0xfd, 0xe4, 0];
        frame.resize(1152, 7);
        let mpa = format("MPA", 90_000, 1, "");
        let found = there_and_back(&mpa, &[(unit(Codec::MpegAudio, frame.clone()), 5)], payload_bytes);
        prop_assert_eq!(&found[0].data[..], &frame[..]);
        let samples: Vec<f32> = (0..480).map(|number| (number as f32 - 240.0) / 256.0).collect();
        let mut lpcm = Vec::new();
        s302m::write(&samples, 2, s302m::Depth::Bits24, 0, &mut lpcm).unwrap();
        let found = there_and_back(&format("L24", 48_000, 2, ""), &[(unit(Codec::S302m, lpcm), 5)], payload_bytes);
        let again: Vec<f32> = found.iter().flat_map(|unit| s302m::read(&unit.data).unwrap().1.collect::<Vec<_>>()).collect();
        prop_assert_eq!(again, samples);
    }

    #[test]
    fn temporal_units_survive(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..500), 1..5), payload_bytes in 64usize..600) {
        // Metadata, then a frame that is shown: a unit of two and more OBUs.
        let mut sample = Vec::new();
        for (number, body) in bodies.iter().enumerate() {
            let kind = if number + 1 == bodies.len() { 6 } else { 5 };
            sample.push(kind << 3 | 2);
            super::av1::write_leb128(body.len() + 1, &mut sample);
            sample.push(0x30);
            sample.extend_from_slice(body);
        }
        let data = glassline_media::bitstream::av1::to_unit(&sample, &[]).unwrap();
        let found = there_and_back(&format("AV1", 90_000, 1, ""), &[(unit(Codec::Av1, data.clone()), 9)], payload_bytes);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(&found[0].data[..], &data[..]);
    }

    #[test]
    fn hostile_packets_do_no_harm(
        name in prop::sample::select(vec!["H264", "H265", "AV1", "MPEG4-GENERIC", "MP4A-LATM", "OPUS", "MPA", "L16", "PCMU", "PCMA"]),
        packets in prop::collection::vec(
            (0u16..6, 0u32..3, any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 0..40),
    ) {
        let (clock_hz, channels) = if name.starts_with("PCM") { (8_000, 1) } else { (48_000, 2) };
        let format = format(name, clock_hz, channels, "sizelength=13;indexlength=3;config=1190");
        let mut run = Run::new(&format);
        let mut given = 0;
        for (skip, stamp, marker, payload) in packets {
            run.sequence = run.sequence.wrapping_add(skip);
            run.push(stamp * 3000, marker, &payload);
            given += run.units().len();
        }
        run.receiver.finish();
        given += run.units().len();
        prop_assert_eq!(given as u64, run.receiver.counters().units);
    }
}
