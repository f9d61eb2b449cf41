//! Pictures out of PES packets that were cut in every way.

use super::*;
use crate::bitstream::av1;
use crate::bitstream::testing::{Layout, layout, pps, slice, sps, units};
use crate::container::ts::mux::VIDEO_PID;
use crate::container::ts::packetize::{Field, packetize};
use crate::container::ts::pes::STREAM_ID_VIDEO;
use crate::container::ts::{MuxSettings, Muxer, discontinuity_packet};
use proptest::prelude::*;

/// A PES packet, before it is packed.
#[derive(Clone, Debug)]
struct Pes {
    stamp: Option<i64>,
    bounded: bool,
    payload: Vec<u8>,
}

fn pes_bytes(pes: &Pes) -> Vec<u8> {
    let mut out = Vec::new();
    match pes.stamp {
        Some(stamp) => super::super::pes::write_header(
            STREAM_ID_VIDEO,
            Ticks(stamp),
            Ticks(stamp),
            pes.payload.len(),
            &mut out,
        ),
        None => {
            let length = u16::try_from(pes.payload.len() + 3).unwrap_or(0);
            out.extend_from_slice(&[0, 0, 1, STREAM_ID_VIDEO]);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&[0x80, 0, 0]);
        }
    }
    if !pes.bounded {
        out[4..6].copy_from_slice(&[0, 0]);
    }
    out.extend_from_slice(&pes.payload);
    out
}

/// Tables, and a way to pack PES packets behind them.
struct Stream {
    bytes: Vec<u8>,
    continuity: u8,
}

impl Stream {
    fn new(codec: Codec) -> Stream {
        let muxer = Muxer::new(MuxSettings { video: Some(codec), audio: None, ..MuxSettings::default() });
        let (mut muxer, mut bytes) = (muxer.unwrap(), Vec::new());
        muxer.write_tables(Ticks(0), &mut bytes);
        Stream { bytes, continuity: 0 }
    }

    /// Of units that lie end to end in PES packets of this size, each with the stamp of the first unit that begins in it.
    fn cut(codec: Codec, units: &[(Vec<u8>, i64)], size: usize, bounded: bool) -> Stream {
        let (mut begins, mut bytes) = (Vec::new(), Vec::new());
        for (unit, stamp) in units {
            begins.push((bytes.len(), *stamp));
            bytes.extend_from_slice(unit);
        }
        let mut stream = Stream::new(codec);
        for (index, payload) in bytes.chunks(size).enumerate() {
            let range = index * size..index * size + payload.len();
            let stamp = begins.iter().find(|(at, _)| range.contains(at)).map(|(_, stamp)| *stamp);
            stream.push(&Pes { stamp, bounded, payload: payload.to_vec() });
        }
        stream
    }

    fn push(&mut self, pes: &Pes) {
        packetize(
            VIDEO_PID,
            &mut self.continuity,
            Field::default(),
            [&pes_bytes(pes), &[], &[]],
            &mut self.bytes,
        );
    }
}

/// The units that come out, with their times; what is left at the end included.
fn demuxed(bytes: &[u8], chop: usize) -> (Vec<(Vec<u8>, i64)>, Counters) {
    let (mut demuxer, mut found) = (Demuxer::new(), Vec::new());
    let mut take = |demuxer: &mut Demuxer| {
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { unit, .. } = event {
                found.push((unit.data.to_vec(), unit.dts.0));
            }
        }
    };
    for part in bytes.chunks(chop) {
        demuxer.push(part);
        take(&mut demuxer);
    }
    demuxer.finish();
    take(&mut demuxer);
    (found, demuxer.counters())
}

/// Pictures whose key frames have all that they need, of a frame rate of 25.
fn pictures(layouts: &[Layout], fields: bool) -> Vec<(Vec<u8>, i64)> {
    let whole: Vec<Layout> =
        layouts.iter().map(|layout| Layout { sets: layout.sets || layout.idr, ..layout.clone() }).collect();
    units(&whole, fields).into_iter().zip((0..).map(|number: i64| 90_000 + number * 3600)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The stamp of each picture stands in the PES packet in which it begins; others have none.
    #[test]
    fn a_picture_may_lie_in_several_pes_packets(
        layouts in prop::collection::vec(layout(), 2..10), at in 1usize..60, bounded: bool, fields: bool, chop in 1usize..700,
    ) {
        let expected = pictures(&layouts, fields);
        let mut stream = Stream::new(Codec::H264);
        for (unit, stamp) in &expected {
            let mut stamp = Some(*stamp);
            for payload in unit.chunks(at) {
                stream.push(&Pes { stamp: stamp.take(), bounded, payload: payload.to_vec() });
            }
        }
        let (found, counters) = demuxed(&stream.bytes, chop);
        prop_assert_eq!(found, expected);
        prop_assert_eq!((counters.damaged_units, counters.oversized_units), (0, 0));
    }

    #[test]
    fn several_pictures_may_lie_in_a_pes_packet(
        layouts in prop::collection::vec(layout(), 2..24), each in 2usize..9, bounded: bool, chop in 1usize..700,
    ) {
        let expected = pictures(&layouts, false);
        let mut stream = Stream::new(Codec::H264);
        for group in expected.chunks(each) {
            let payload = group.iter().flat_map(|(unit, _)| unit.clone()).collect();
            stream.push(&Pes { stamp: Some(group[0].1), bounded, payload });
        }
        let (found, counters) = demuxed(&stream.bytes, chop);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(counters.damaged_units, 0);
    }

    /// Each PES packet that some picture begins in has the stamp of the first one.
    #[test]
    fn pes_packets_may_be_cut_anywhere(
        layouts in prop::collection::vec(layout(), 2..16), size in 5usize..400, bounded: bool, chop in 1usize..700,
    ) {
        let expected = pictures(&layouts, false);
        let stream = Stream::cut(Codec::H264, &expected, size, bounded);
        let (found, counters) = demuxed(&stream.bytes, chop);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(counters.damaged_units, 0);
    }

    #[test]
    fn temporal_units_of_av1_may_be_cut_anywhere(
        layouts in prop::collection::vec(av1::tests::layout(), 2..16), size in 5usize..400, bounded: bool, chop in 1usize..700,
    ) {
        let units = layouts.iter().map(av1::tests::laid_out);
        // What comes before the first sequence header is of no use, but it is whole.
        let expected: Vec<_> = units.zip((0..).map(|number: i64| 90_000 + number * 3600)).collect();
        let stream = Stream::cut(Codec::Av1, &expected, size, bounded);
        let (found, counters) = demuxed(&stream.bytes, chop);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(counters.damaged_units, 0);
    }

    #[test]
    fn lost_packets_cost_the_pictures_that_they_are_of(
        layouts in prop::collection::vec(layout(), 6..14), lost in 3usize..40, at in 20usize..300, bounded: bool,
    ) {
        let expected = pictures(&layouts, false);
        let mut stream = Stream::new(Codec::H264);
        for (unit, stamp) in &expected {
            let mut stamp = Some(*stamp);
            for payload in unit.chunks(at) {
                stream.push(&Pes { stamp: stamp.take(), bounded, payload: payload.to_vec() });
            }
        }
        let lost = (lost * PACKET_BYTES).min(stream.bytes.len() - PACKET_BYTES);
        stream.bytes.drain(lost..lost + PACKET_BYTES);
        let (found, _) = demuxed(&stream.bytes, 999);
        // The picture that it is of, and what was not known to be whole before it: the one before, and where that is shorter than what is
        // looked at of a slice's head, the one before that, too.
        let cost = 2 + usize::from(expected.iter().any(|(unit, _)| unit.len() < 32));
        prop_assert!(found.len() + cost >= expected.len(), "{} of {}", found.len(), expected.len());
        // Only the last one before the gap may be cut off, at the very end of the stream.
        let strange = found.iter().filter(|unit| !expected.contains(unit)).count();
        prop_assert!(strange <= usize::from(lost + PACKET_BYTES >= stream.bytes.len()), "{}", strange);
    }
}

#[test]
fn a_picture_in_front_of_an_announced_jump_is_not_dropped() {
    let picture = |number: u32| [slice(0x41, 0, number, None, &[7; 40])].concat();
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 40])].concat();
    let pes = |payload: &[u8], stamp| Pes { stamp: Some(stamp), bounded: false, payload: payload.to_vec() };
    // At a packet of the clock alone, whose counter goes on; at the packet that begins the next picture.
    for alone in [true, false] {
        let mut stream = Stream::new(Codec::H264);
        stream.push(&pes(&key, 0));
        stream.push(&pes(&picture(1), 3600));
        if alone {
            let last = stream.continuity.wrapping_sub(1) & 0x0f;
            stream.bytes.extend_from_slice(&discontinuity_packet(VIDEO_PID, last));
            stream.push(&pes(&key, 900_000));
        } else {
            stream.continuity = stream.continuity.wrapping_add(5) & 0x0f;
            let field = Field { discontinuity: true, ..Field::default() };
            let bytes = pes_bytes(&pes(&key, 900_000));
            packetize(VIDEO_PID, &mut stream.continuity, field, [&bytes, &[], &[]], &mut stream.bytes);
        }
        let (found, counters) = demuxed(&stream.bytes, 188);
        let stamps: Vec<i64> = found.iter().map(|(_, stamp)| *stamp).collect();
        assert_eq!((stamps, counters.damaged_units), (vec![0, 3600, 900_000], 0), "alone: {alone}");
    }
    // Where the counter jumps and nothing begins, something is missing.
    let mut stream = Stream::new(Codec::H264);
    stream.push(&pes(&key, 0));
    stream.push(&pes(&picture(1), 3600));
    stream.continuity = stream.continuity.wrapping_add(5) & 0x0f;
    let last = stream.continuity.wrapping_sub(1) & 0x0f;
    stream.bytes.extend_from_slice(&discontinuity_packet(VIDEO_PID, last));
    stream.push(&pes(&key, 900_000));
    assert_eq!(demuxed(&stream.bytes, 188).0.len(), 2);
}

#[test]
fn key_frames_get_the_parameter_sets_that_they_lack() {
    let sets = [sps(false), pps()].concat();
    let key = slice(0x65, 0, 0, None, &[9; 40]);
    let mut stream = Stream::new(Codec::H264);
    for (number, unit) in
        [[&sets[..], &key].concat(), key.clone(), [&[0, 0, 0, 1, 9, 0xf0], &key[..]].concat()]
            .iter()
            .enumerate()
    {
        stream.push(&Pes { stamp: Some(number as i64 * 3600), bounded: true, payload: unit.clone() });
    }
    let (found, _) = demuxed(&stream.bytes, 188);
    let nals =
        |unit: &[u8]| crate::bitstream::h264::nals(unit).map(|nal| nal.bytes[0] & 0x1f).collect::<Vec<_>>();
    let kinds: Vec<_> = found.iter().map(|(unit, _)| nals(unit)).collect();
    assert_eq!(kinds, [vec![7, 8, 5], vec![7, 8, 5], vec![9, 7, 8, 5]]);
}

/// By the specification each frame has a PES packet, also one that is not shown, whose presentation time says nothing.
#[test]
fn a_unit_of_av1_is_shown_when_the_packet_of_its_shown_frame_says() {
    let key = av1::tests::unit(&[(2, &[]), (1, av1::tests::PLAIN), (6, &[0x10, 7])]);
    let hidden = av1::tests::unit(&[(2, &[]), (6, &[0x20, 7])]);
    let shown = av1::tests::unit(&[(6, &[0x30, 7])]);
    let mut stream = Stream::new(Codec::Av1);
    let mut push = |payload: &[u8], pts: i64, dts: i64| {
        let mut bytes = Vec::new();
        super::super::pes::write_header(
            super::super::pes::STREAM_ID_PRIVATE,
            Ticks(pts),
            Ticks(dts),
            payload.len(),
            &mut bytes,
        );
        bytes.extend_from_slice(payload);
        packetize(VIDEO_PID, &mut stream.continuity, Field::default(), [&bytes, &[], &[]], &mut stream.bytes);
    };
    push(&key, 7200, 3600);
    push(&hidden, 5400, 5400);
    push(&shown, 10_800, 7200);
    let mut demuxer = Demuxer::new();
    demuxer.push(&stream.bytes);
    demuxer.finish();
    let units = std::iter::from_fn(|| demuxer.poll()).filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => {
            Some((unit.data.to_vec(), unit.pts.0, unit.dts.0, unit.random_access))
        }
        _ => None,
    });
    let units: Vec<_> = units.collect();
    assert_eq!(units, [(key, 7200, 3600, true), ([hidden, shown].concat(), 10_800, 5400, false)]);
}

#[test]
fn a_unit_is_given_as_early_as_its_end_shows() {
    let given_after = |bounded: bool, marked: bool| {
        let (mut demuxer, mut stream) = (Demuxer::new(), Stream::new(Codec::H264));
        let mut after = Vec::new();
        for number in 0..5u32 {
            let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 200])].concat();
            let mut payload = if number == 0 { key } else { slice(0x41, 0, number, None, &[7; 100]) };
            if marked {
                payload.extend_from_slice(&crate::bitstream::h264::END_OF_UNIT);
            }
            stream.push(&Pes { stamp: Some(i64::from(number) * 3600), bounded, payload });
            demuxer.push(&std::mem::take(&mut stream.bytes));
            after.push(
                std::iter::from_fn(|| demuxer.poll())
                    .filter(|event| matches!(event, Event::AccessUnit { .. }))
                    .count(),
            );
        }
        after
    };
    // Our own mark tells at once, whichever length is said.
    assert_eq!(given_after(true, true), [1; 5]);
    assert_eq!(given_after(false, true), [1; 5]);
    // A stated length tells once several PES packets were whole units.
    assert_eq!(given_after(true, false), [0, 1, 1, 2, 1]);
    assert_eq!(given_after(false, false), [0, 1, 1, 1, 1]);
}

#[test]
fn video_behind_more_sounds_than_are_followed_is_found() {
    use crate::container::ts::psi;
    let (mut pat, mut pmt, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    psi::Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] }
        .write(&mut pat);
    let sounds = (0..STREAMS_MAX as u16 + 1)
        .map(|number| psi::ElementaryStream::new(0x200 + number, 0x0f, Vec::new()));
    let streams = sounds.chain([psi::ElementaryStream::new(VIDEO_PID, 0x1b, Vec::new())]).collect();
    psi::Pmt { program_number: 1, version: 0, current: true, pcr_pid: VIDEO_PID, streams }.write(&mut pmt);
    psi::write_packets(0, &pat, &mut 0, &mut bytes);
    psi::write_packets(0x1000, &pmt, &mut 0, &mut bytes);
    let mut stream = Stream { bytes, continuity: 0 };
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &[9; 40])].concat();
    stream.push(&Pes { stamp: Some(3600), bounded: true, payload: key.clone() });
    assert_eq!(demuxed(&stream.bytes, 188).0, [(key, 3600)]);
}

/// Units without stamps and without a rate wait, but not without end.
#[test]
fn what_waits_for_a_time_has_a_bound() {
    let body = vec![7; 3 << 20];
    let units: Vec<Vec<u8>> = (0..8).map(|number| slice(0x41, 0, number, None, &body)).collect();
    let key = [sps(false), pps(), slice(0x65, 0, 0, None, &body)].concat();
    let mut stream = Stream::new(Codec::H264);
    let payload = [vec![key], units].concat().concat();
    stream.push(&Pes { stamp: Some(0), bounded: false, payload });
    let (mut demuxer, mut given) = (Demuxer::new(), 0);
    demuxer.push(&stream.bytes);
    given += std::iter::from_fn(|| demuxer.poll())
        .filter(|event| matches!(event, Event::AccessUnit { .. }))
        .count();
    assert!(given >= 4, "{given}");
}

/// The muxer's tables say what the sequence header does, and one may join at key frames that lack it.
#[test]
fn av1_is_described_and_joined_where_its_sequence_header_was_said_once() {
    use crate::container::ts::{Scanner, packet::packets};
    let settings = MuxSettings { video: Some(Codec::Av1), ..MuxSettings::default() };
    let (mut muxer, mut bytes) = (Muxer::new(settings).unwrap(), Vec::new());
    for number in 0..20i64 {
        let is_key = number % 10 == 0;
        let frame = [if is_key { 0x10 } else { 0x30 }, 9, 0, 0, 1, 9];
        let head = if number == 0 { &[(1, av1::tests::PLAIN)][..] } else { &[] };
        let data = Bytes::from(av1::tests::unit(&[head, &[(6, &frame[..])]].concat()));
        let (pts, stamps) = (Ticks(number * 3600), crate::Stamps::default());
        let unit = AccessUnit { codec: Codec::Av1, data, pts, dts: pts, random_access: is_key, stamps };
        muxer.write(&unit, &mut bytes).unwrap();
    }
    let (mut scanner, mut entries) = (Scanner::new(), Vec::new());
    for (at, packet) in packets(&bytes).enumerate() {
        if let Some(entry) = scanner.scan(packet).entry {
            entries.push((at - entry.packets_back as usize, entry.point));
        }
    }
    let stream = &scanner.program().unwrap().streams[0];
    assert_eq!((stream.codec, stream.stream_type), (Some(Codec::Av1), 0x06));
    assert_eq!(stream.descriptors, *b"\x05\x04AV01\x80\x04\x81\x00\x0c\xc0");
    assert_eq!(entries.len(), 2);
    for (number, (at, point)) in entries.into_iter().enumerate() {
        let joined = [&point.prelude(false)[..], &bytes[at * PACKET_BYTES..]].concat();
        let (found, counters) = demuxed(&joined, 188);
        assert_eq!((found.len(), counters.damaged_units), (20 - 10 * number, 0));
        let head = av1::Head::of(&found[0].0);
        assert_eq!(head.parse_sequence().unwrap().width_px, 320, "entry {number}");
        assert!(av1::is_key(&found[0].0));
    }
}

/// A viewer that joins where a stream no longer says its parameter sets gets them in front, and no counter jumps.
#[test]
fn who_joins_later_gets_the_parameter_sets_that_were_said_once() {
    use crate::container::ts::{ContinuityChecker, Scanner, packet::packets};
    let sets = [sps(false), pps()].concat();
    for delimiter in [&[][..], &[0, 0, 0, 1, 9, 0xf0]] {
        let mut stream = Stream::new(Codec::H264);
        for number in 0..40u32 {
            let key = number % 10 == 0;
            let head = if number == 0 { &sets[..] } else { &[] };
            let slice = slice(if key { 0x65 } else { 0x41 }, 0, number % 10, None, &[9; 300]);
            let payload = [delimiter, head, &slice].concat();
            stream.push(&Pes { stamp: Some(i64::from(number) * 3600), bounded: true, payload });
        }
        let (mut scanner, mut entries) = (Scanner::new(), Vec::new());
        for (at, packet) in packets(&stream.bytes).enumerate() {
            if let Some(entry) = scanner.scan(packet).entry {
                entries.push((at - entry.packets_back as usize, entry.point));
            }
        }
        assert_eq!(entries.len(), 4);
        for (number, (at, point)) in entries.into_iter().enumerate() {
            for moved in [false, true] {
                let rest = &stream.bytes[at * PACKET_BYTES..];
                let seen = if moved { &stream.bytes[..2 * PACKET_BYTES] } else { &[] };
                let joined = [seen, &point.prelude(moved), rest].concat();
                let mut checker = ContinuityChecker::new();
                packets(&joined).for_each(|packet| _ = checker.check(&Packet::parse(packet).unwrap()));
                assert_eq!(checker.errors(), 0, "entry {number}, moved: {moved}");
                let (found, _) = demuxed(&joined, 188);
                let nals: Vec<u8> =
                    crate::bitstream::h264::nals(&found[0].0).map(|nal| nal.bytes[0] & 0x1f).collect();
                assert!(
                    nals.contains(&7) && nals.contains(&8) && nals.contains(&5),
                    "entry {number}: {nals:?}"
                );
                assert_eq!(
                    (found.len(), found[0].1),
                    (40 - 10 * number, number as i64 * 36_000),
                    "moved: {moved}"
                );
            }
        }
    }
}

#[test]
fn he_aac_in_latm_is_known_in_front_of_its_units() {
    use crate::bitstream::latm::tests::configured;
    use crate::container::ts::mux::{AUDIO_PID, PMT_PID};
    use crate::container::ts::psi::{ElementaryStream, PAT_PID, Pat, Pmt, write_packets};
    let mut bytes = Vec::new();
    let mut table = |pid, section: &[u8]| write_packets(pid, section, &mut 0, &mut bytes);
    let (mut pat, mut pmt) = (Vec::new(), Vec::new());
    Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, PMT_PID)] }.write(&mut pat);
    let streams = vec![ElementaryStream::new(AUDIO_PID, STREAM_TYPE_LATM, Vec::new())];
    Pmt { program_number: 1, version: 0, current: true, pcr_pid: AUDIO_PID, streams }.write(&mut pmt);
    table(PAT_PID, &pat);
    table(PMT_PID, &pmt);
    let specific = [(5, 5), (6, 4), (2, 4), (3, 4), (2, 5), (0, 3)];
    let mut continuity = 0;
    for number in 0..3 {
        let element = configured(&[number; 30], (number != 1).then_some((false, &specific[..])));
        let mut pes = Vec::new();
        let pts = Ticks(i64::from(number) * 3840);
        super::super::pes::write_header(0xc0, pts, pts, element.len(), &mut pes);
        packetize(AUDIO_PID, &mut continuity, Field::default(), [&pes, &element, &[]], &mut bytes);
    }
    let mut demuxer = Demuxer::new();
    demuxer.push(&bytes);
    demuxer.finish();
    let events = std::iter::from_fn(|| demuxer.poll());
    let said: Vec<_> = events
        .map(|event| match event {
            Event::Program(program) => Some(program.audio().unwrap().he_aac),
            _ => None,
        })
        .collect();
    let he_aac = HeAac { parametric_stereo: false, rate_max_hz: 48_000 };
    // The table without it, the configuration with it, and units that repeat it.
    assert_eq!(said, [Some(None), Some(Some(he_aac)), None, None, None]);
    assert_eq!(demuxer.program().unwrap().audio().unwrap().he_aac, Some(he_aac));
}

#[path = "demux_pause_tests.rs"]
mod pauses;
