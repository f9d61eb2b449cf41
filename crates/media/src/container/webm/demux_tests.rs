use super::*;
use crate::access_unit::Codec;
use crate::container::tracks::Kind;
use proptest::prelude::*;

const OPUS_HEAD: &[u8] = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";
/// 20 ms of Opus, as its first byte says (CELT, wideband, one frame).
const TOC: u8 = 0xB8;

/// An element of a known size.
fn element(id: u32, payload: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    let size = (1 << 56 | payload.len() as u64).to_be_bytes();
    [&id[..], &size, payload].concat()
}

fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

fn entry(fields: &[Vec<u8>]) -> Vec<u8> {
    element(TRACK_ENTRY, &fields.concat())
}

const TRACK_ENTRY: u32 = 0xAE;

/// A track of Opus with this number.
fn opus(track: u64, more: &[Vec<u8>]) -> Vec<u8> {
    let fields = [number(0xD7, track), number(0x83, 2), element(0x86, b"A_OPUS"), element(0x63A2, OPUS_HEAD)];
    entry(&[&fields[..], more].concat())
}

/// Up to the first cluster.
fn header(entries: &[Vec<u8>]) -> Vec<u8> {
    let head = element(EBML, &element(0x4282, b"webm"));
    // A segment of unknown size.
    let segment = [&SEGMENT.to_be_bytes()[..], &[0xFF]].concat();
    [head, segment, element(TRACKS, &entries.concat())].concat()
}

/// A cluster of unknown size at this time.
fn cluster(at: u64, blocks: &[Vec<u8>]) -> Vec<u8> {
    [&CLUSTER.to_be_bytes()[..], &[0xFF], &number(TIMESTAMP, at), &blocks.concat()].concat()
}

/// A block's content.
fn block(track: u8, at: i16, flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x80 | track][..], &at.to_be_bytes(), &[flags], payload].concat()
}

fn simple(track: u8, at: i16, flags: u8, payload: &[u8]) -> Vec<u8> {
    element(SIMPLE_BLOCK, &block(track, at, flags, payload))
}

fn demuxed(wire: &[u8], chop: usize) -> (Vec<Event>, Counters, Option<DemuxError>) {
    let (mut demuxer, mut events, mut failed) = (Demuxer::new(), Vec::new(), None);
    for part in wire.chunks(chop.max(1)) {
        failed = demuxer.push(part).err();
        events.extend(std::iter::from_fn(|| demuxer.poll()));
    }
    demuxer.finish();
    events.extend(std::iter::from_fn(|| demuxer.poll()));
    (events, demuxer.counters(), failed)
}

/// Track and milliseconds of each unit.
fn units(events: &[Event]) -> Vec<(u16, i64)> {
    let units = events.iter().filter_map(|event| match event {
        Event::AccessUnit { track, unit, .. } => Some((*track, unit.pts.0 / 90)),
        Event::Tracks(_) => None,
    });
    units.collect()
}

fn tracks(events: &[Event]) -> &[Track] {
    match &events[0] {
        Event::Tracks(tracks) => tracks,
        Event::AccessUnit { .. } => panic!("tracks come first"),
    }
}

#[test]
fn blocks_are_units_at_the_times_of_cluster_and_block() {
    let packet = [TOC, 1, 2, 3];
    let body = [
        cluster(1000, &[simple(1, 0, 0x80, &packet), simple(1, 20, 0x80, &packet)]),
        cluster(1040, &[element(BLOCK_GROUP, &element(BLOCK, &block(1, -3, 0, &packet)))]),
    ];
    let wire = [header(&[opus(1, &[])]), body.concat()].concat();
    let (events, counters, failed) = demuxed(&wire, wire.len());
    assert_eq!((units(&events), failed), (vec![(1, 1000), (1, 1020), (1, 1037)], None));
    assert_eq!(counters, Counters { blocks: 3, damaged_blocks: 0, left_out: 0 });
    let [track] = tracks(&events) else { panic!("one track") };
    assert_eq!((track.codec, track.kind, &*track.format), (Some(Codec::Opus), Kind::Audio, "Opus"));
    let Event::AccessUnit { at, unit, .. } = &events[1] else { panic!("a unit") };
    assert_eq!((&unit.data[..], unit.dts), (&packet[..], unit.pts));
    // A block begins where its ID stands.
    assert_eq!(u32::from(wire[*at as usize]), SIMPLE_BLOCK);
}

#[test]
fn times_are_scaled_and_the_delay_of_the_codec_is_taken_off() {
    let info = element(INFO, &number(TIMESTAMP_SCALE, 100_000));
    let tracks = element(TRACKS, &opus(1, &[number(0x56AA, 6_500_000)]));
    let head = [element(EBML, &[]), [&SEGMENT.to_be_bytes()[..], &[0xFF]].concat(), info, tracks].concat();
    let wire = [head, cluster(100_000, &[simple(1, 65, 0x80, &[TOC, 1])])].concat();
    assert_eq!(units(&demuxed(&wire, 7).0), [(1, 10_000)]);
}

#[test]
fn laced_frames_follow_each_other_as_long_as_they_last() {
    let frames: [&[u8]; 3] = [&[TOC, 1], &[TOC, 2, 2], &[TOC, 3]];
    let all = frames.concat();
    let even = [&[TOC, 1][..], &[TOC, 2], &[TOC, 3]].concat();
    for (flags, payload) in [
        (0x02, [&[2, 2, 3][..], &all].concat()),
        (0x04, [&[2][..], &even].concat()),
        // 2 bytes, then one more.
        (0x06, [&[2, 0x82, 0xC0][..], &all].concat()),
    ] {
        let wire = [header(&[opus(1, &[])]), cluster(0, &[simple(1, 0, 0x80 | flags, &payload)])].concat();
        let (events, counters, _) = demuxed(&wire, 5);
        assert_eq!(units(&events), [(1, 0), (1, 20), (1, 40)], "lacing {flags:#x}");
        assert_eq!(counters.damaged_blocks, 0);
        // Where the track says how long a frame lasts, by that.
        let told = opus(1, &[number(0x23_E383, 30_000_000)]);
        let wire = [header(&[told]), cluster(0, &[simple(1, 0, 0x80 | flags, &payload)])].concat();
        assert_eq!(units(&demuxed(&wire, 5).0), [(1, 0), (1, 30), (1, 60)], "lacing {flags:#x}");
    }
    for payload in [&[9, 1][..], &[2, 0xFF, 0xFF, 3], &[]] {
        let wire = [header(&[opus(1, &[])]), cluster(0, &[simple(1, 0, 0x82, payload)])].concat();
        assert_eq!(demuxed(&wire, 64).1.damaged_blocks, 1, "{payload:?}");
    }
}

#[test]
fn tracks_say_why_they_are_left_out_and_default_ones_come_first() {
    let compressed = element(0x6D80, &element(0x6240, &element(0x5034, &number(0x4254, 0))));
    let stripping = element(0x5034, &[number(0x4254, 3), element(0x4255, &[TOC])].concat());
    let stripped = element(0x6D80, &element(0x6240, &stripping));
    let aac = [number(0xD7, 4), number(0x83, 2), element(0x86, b"A_AAC")];
    let text = [number(0xD7, 5), number(0x83, 17), element(0x86, b"S_TEXT/UTF8")];
    let vp9 = [number(0xD7, 6), number(0x83, 1), element(0x86, b"V_VP9")];
    let entries = [
        opus(1, &[number(0x88, 0)]),
        opus(2, &[compressed]),
        opus(3, &[stripped, element(0x22_B59C, b"deu")]),
        // Another of the same number.
        opus(3, &[]),
        entry(&aac),
        entry(&text),
        entry(&vp9),
        opus(7, &[number(0xB9, 0)]),
        // No number, and one that no block has.
        entry(&[element(0x86, b"A_OPUS")]),
    ];
    let wire =
        [header(&entries), cluster(0, &[simple(3, 0, 0x80, &[9, 9]), simple(2, 0, 0x80, &[1])])].concat();
    let (events, counters, _) = demuxed(&wire, wire.len());
    let told: Vec<_> = tracks(&events).iter().map(|track| (track.number, track.codec, track.why)).collect();
    let missing = "its configuration (CodecPrivate) is missing";
    assert_eq!(
        told,
        [
            (2, None, Some("its frames are compressed or encrypted")),
            (3, Some(Codec::Opus), None),
            (4, None, Some(missing)),
            (5, None, Some("subtitles beside the pictures are not written")),
            (6, None, None),
            (7, None, Some("it is switched off in its header")),
            (1, Some(Codec::Opus), None),
        ]
    );
    assert_eq!(tracks(&events)[1].language, Some(*b"deu"));
    let Event::AccessUnit { unit, .. } = &events[1] else { panic!("a unit") };
    assert_eq!((&unit.data[..], counters.left_out), (&[TOC, 9, 9][..], 1));
}

#[test]
fn strings_may_end_with_a_zero_byte() {
    let fields = [number(0xD7, 1), number(0x83, 2), element(0x86, b"A_OPUS\0"), element(0x63A2, OPUS_HEAD)];
    let entry = entry(&[&fields[..], &[element(0x22_B59C, b"deu\0")]].concat());
    let (events, ..) = demuxed(&header(&[entry]), 4);
    let [track] = tracks(&events) else { panic!("one track") };
    assert_eq!((track.codec, track.language, &*track.format), (Some(Codec::Opus), Some(*b"deu"), "Opus"));
    assert_eq!(super::super::check_doc_type(&element(0x4282, b"matroska\0"), 0), Ok(()));
    assert!(super::super::check_doc_type(&element(0x4282, b"matroskas"), 0).is_err());
}

#[test]
fn h264_of_browsers_brings_its_parameter_sets() {
    let sets = [0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x0D, 0xD9, 0, 0, 0, 1, 0x68, 0xCE, 6, 0xE2];
    let key = [&sets[..], &[0, 0, 0, 1, 0x65, 0x88, 0x84, 0, 1]].concat();
    let avc = [number(0xD7, 1 << 20), number(0x83, 1), element(0x86, b"V_MPEG4/ISO/AVC")];
    // The number of the track, the time, the flags.
    let block = [&[0x30, 0, 0][..], &[0, 0, 0x80], &key].concat();
    let wire = [header(&[entry(&avc)]), cluster(0, &[element(SIMPLE_BLOCK, &block)])].concat();
    let (events, ..) = demuxed(&wire, 11);
    let [Track { number, codec: Some(Codec::H264), .. }] = tracks(&events) else { panic!("{events:?}") };
    let Event::AccessUnit { track, unit, .. } = &events[1] else { panic!("a unit") };
    assert!(unit.random_access && track == number && unit.data.ends_with(&key[4..]));
}

#[test]
fn what_is_no_webm_is_refused_and_what_contradicts_itself_is_counted() {
    let refused = |wire: &[u8]| demuxed(wire, 3).2.expect("refused");
    assert_eq!(refused(b"OggS\0\x02"), DemuxError::Magic { found: 0x4F67 });
    let head = header(&[opus(1, &[])]);
    let at = head.len() as u64;
    assert_eq!(refused(&[&head[..], &[0x00]].concat()), DemuxError::Element { found: 0, at });
    let endless = [&head[..], &[0xA3, 0xFF, 1]].concat();
    assert_eq!(refused(&endless), DemuxError::UnknownSize { id: SIMPLE_BLOCK, at });
    // A cluster in another one is passed over, and with it what is in it.
    let nested = element(CLUSTER, &[number(TIMESTAMP, 0), element(CLUSTER, &[0; 9])].concat());
    let behind = cluster(7, &[simple(1, 0, 0x80, &[TOC])]);
    let (events, _, failed) = demuxed(&[head.clone(), nested, behind].concat(), 6);
    assert_eq!((units(&events), failed), (vec![(1, 7)], None));
    // Nothing is taken behind an error.
    let (events, ..) = demuxed(&[endless, cluster(0, &[simple(1, 0, 0x80, &[TOC, 1])])].concat(), 9);
    assert_eq!(units(&events), []);
    // An unknown track, a block without a time, one that is far too long, and a good one behind them.
    let long = [&[0xA3, 0x01, 0, 0, 0, 0x02, 0, 0, 0][..], &vec![0; 0x0200_0000]].concat();
    let blocks =
        [simple(9, 0, 0x80, &[1]), element(SIMPLE_BLOCK, &[0x81, 0]), long, simple(1, 5, 0x80, &[TOC])];
    let (events, counters, failed) = demuxed(&[head, cluster(0, &blocks)].concat(), 1 << 16);
    assert_eq!((units(&events), failed), (vec![(1, 5)], None));
    assert_eq!((counters.blocks, counters.damaged_blocks), (3, 3));
}

proptest! {
    #[test]
    fn any_bytes_in_any_chop_give_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        chop in 1usize..40,
        is_body in any::<bool>(),
    ) {
        let wire = if is_body { [header(&[opus(1, &[])]), bytes].concat() } else { bytes };
        prop_assert_eq!(demuxed(&wire, chop), demuxed(&wire, wire.len()));
    }

    #[test]
    fn damaged_blocks_never_panic(
        payloads in prop::collection::vec((0u8..4, any::<i16>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 1..20),
        at in any::<u64>(),
        chop in 1usize..200,
    ) {
        let blocks: Vec<_> =
            payloads.iter().map(|(track, time, flags, payload)| simple(*track, *time, *flags, payload)).collect();
        let wire = [header(&[opus(1, &[]), opus(2, &[number(0x56AA, u64::MAX)])]), cluster(at, &blocks)].concat();
        let (events, counters, failed) = demuxed(&wire, chop);
        prop_assert_eq!(failed, None);
        prop_assert_eq!(counters.blocks, blocks.len() as u64);
        prop_assert_eq!((events, counters, failed), demuxed(&wire, wire.len()));
    }
}
