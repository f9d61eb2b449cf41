use super::*;
use crate::bitstream::h264::ColourDescription;
use crate::time::FrameRate;
use proptest::prelude::*;

/// SVT-AV1, 320×180, main profile, level 2.0, no colour said.
pub(crate) const PLAIN: &[u8] = &[0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xfb, 0xf9, 0x00, 0x40];
/// libaom, the same, BT.709.
const BT_709: &[u8] = &[0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xda, 0xf9, 0x10, 0x10, 0x10, 0x10, 0x40];
/// SVT-AV1, 10 bits, BT.2020, PQ.
const PQ: &[u8] = &[0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xfb, 0xf9, 0x50, 0x91, 0x00, 0x90, 0x40];

/// A unit whose OBUs have these types and payloads.
pub(crate) fn unit(parts: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(kind, payload) in parts {
        write_escaped(&Obu { header: kind << 3, extension: None, payload }, &mut out);
    }
    out
}

/// How a temporal unit is laid out.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    delimiter: bool,
    key: bool,
    metadata: bool,
    hidden: usize,
    tile_groups: usize,
    padding: bool,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    let body = proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(3), any::<u8>()], 0..40);
    (any::<[bool; 4]>(), 0usize..3, 0usize..3, body).prop_map(
        |([delimiter, key, metadata, padding], hidden, tile_groups, body)| {
            // A frame's trailing bits have a one.
            let body = [&body[..], &[0x80]].concat();
            Layout { delimiter, key, metadata, hidden, tile_groups, padding, body }
        },
    )
}

/// A unit that is laid out so.
pub(crate) fn laid_out(layout: &Layout) -> Vec<u8> {
    let frame = |first: u8| [&[first], &layout.body[..]].concat();
    let (hidden, shown) = (frame(0x20), frame(if layout.key { 0x10 } else { 0x30 }));
    let mut parts: Vec<(u8, &[u8])> = Vec::new();
    parts.extend(layout.delimiter.then_some((2, &[][..])));
    parts.extend(layout.key.then_some((1, PLAIN)));
    parts.extend(layout.metadata.then_some((5, &[4, 0xb5, 0x80][..])));
    // Hidden frames are of no key frame's unit here.
    parts.extend((0..if layout.key { 0 } else { layout.hidden }).map(|_| (6, &hidden[..])));
    parts.push((if layout.tile_groups > 0 { 3 } else { 6 }, &shown));
    parts.extend((0..layout.tile_groups).map(|_| (4, &layout.body[..])));
    parts.extend(layout.padding.then_some((15, &[7, 0x80][..])));
    unit(&parts)
}

#[test]
fn sequence_headers_are_read() {
    let header = SequenceHeader::parse(PLAIN).unwrap();
    assert_eq!((header.width_px, header.height_px, header.bit_depth), (320, 180, 8));
    assert_eq!((header.codec_string().as_str(), header.colour), ("av01.0.00M.08", None));

    let frames = FrameSyntax {
        is_reduced: false,
        has_decoder_model: false,
        frame_id_bits: 0,
        screen_content: None,
        integer_vectors: None,
        order_hint_bits: 7,
    };
    assert_eq!(header.frames, frames);

    let header = SequenceHeader::parse(BT_709).unwrap();
    let colour = ColourDescription { full_range: false, primaries: 1, transfer: 1, matrix: 1 };
    assert_eq!((header.width_px, header.colour), (320, Some(colour)));
    assert_eq!(header.codec_string(), "av01.0.00M.08");
    assert_eq!(header.descriptors(), *b"\x05\x04AV01\x80\x04\x81\x00\x0c\x00");

    let header = SequenceHeader::parse(PQ).unwrap();
    assert_eq!((header.width_px, header.height_px, header.bit_depth), (320, 180, 10));
    assert_eq!(header.codec_string(), "av01.0.00M.10.0.110.09.16.09.0");
    assert_eq!(header.descriptors()[8..], [0x81, 0x00, 0x4c, 0x80]);
}

#[test]
fn each_sequence_header_that_is_cut_off_is_refused() {
    for header in [PLAIN, BT_709, PQ] {
        for bytes in 0..header.len() - 1 {
            assert_eq!(SequenceHeader::parse(&header[..bytes]), None, "{bytes}");
        }
    }
}

#[test]
fn a_clock_and_several_operating_points_are_read() {
    // 30,000 of 1,001 a second, one tick a picture, two operating points with a decoder's model, tier H at level 8.
    let mut bits = String::new();
    let mut put = |value: u64, count: usize| bits.push_str(&format!("{value:0count$b}"));
    for (value, count) in [(0, 3), (0, 1), (0, 1), (1, 1), (1001, 32), (30_000, 32), (1, 1), (1, 1)] {
        put(value, count);
    }
    for (value, count) in [(1, 1), (9, 5), (1001, 32), (9, 5), (9, 5), (1, 1), (1, 5)] {
        put(value, count);
    }
    for (level, tier) in [(8, Some(1)), (5, None)] {
        put(0x101, 12);
        put(level, 5);
        tier.into_iter().for_each(|tier| put(tier, 1));
        for (value, count) in [(1, 1), (7, 10), (8, 10), (1, 1), (1, 1), (9, 4)] {
            put(value, count);
        }
    }
    for (value, count) in [(10, 4), (10, 4), (1919, 11), (1079, 11), (0, 1), (0, 3), (0, 4), (0, 1)] {
        put(value, count);
    }
    // No content of screens; no super-resolution; 4:2:0 with chroma beside luma, full range.
    for (value, count) in [(0, 1), (0, 1), (0, 3), (0, 1), (0, 1), (0, 1), (1, 1), (2, 2), (0, 1), (0, 1)] {
        put(value, count);
    }
    let bytes: Vec<u8> = (0..bits.len().div_ceil(8))
        .map(|at| {
            u8::from_str_radix(&format!("{:0<8}", &bits[at * 8..bits.len().min(at * 8 + 8)]), 2).unwrap()
        })
        .collect();
    let header = SequenceHeader::parse(&bytes).unwrap();
    assert_eq!((header.width_px, header.height_px), (1920, 1080));
    assert_eq!((header.level, header.high_tier), (8, true));
    assert_eq!(header.frame_rate, FrameRate::new(30_000, 1001));
    assert_eq!(header.codec_string(), "av01.0.08H.08.0.112.01.01.01.1");
}

#[test]
fn metadata_of_light_is_what_the_boxes_have() {
    // SVT-AV1: G(0.265,0.69)B(0.15,0.06)R(0.68,0.32)WP(0.3127,0.329)L(1000,0.0001), 1000 and 400 cd/m².
    let light = [1, 0x03, 0xe8, 0x01, 0x90, 0x80];
    let mastering = [
        2, 0xae, 0x14, 0x51, 0xec, 0x43, 0xd7, 0xb0, 0xa4, 0x26, 0x66, 0x0f, 0x5c, 0x50, 0x0d, 0x54, 0x39,
        0x00, 0x03, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x02, 0x80,
    ];
    let unit =
        unit(&[(2, &[]), (1, PQ), (5, &light), (5, &mastering), (6, &[0x10, 7]), (5, &[1, 9, 9, 9, 9])]);
    let head = Head::of(&unit);
    assert_eq!(head.hdr.light, Some([0x03, 0xe8, 0x01, 0x90]));
    let numbers: Vec<u16> = head.hdr.mastering.unwrap()[..16]
        .as_chunks()
        .0
        .iter()
        .map(|half| u16::from_be_bytes(*half))
        .collect();
    assert_eq!(numbers, [13_250, 34_500, 7500, 3000, 34_000, 16_000, 15_635, 16_450]);
    assert_eq!(head.hdr.mastering.unwrap()[16..], [0x00, 0x98, 0x96, 0x80, 0, 0, 0, 1]);
    assert_eq!(head.parse_sequence().unwrap().bit_depth, 10);
    let mut configuration = Vec::new();
    head.parse_sequence().unwrap().write_configuration(head.sequence.as_ref().unwrap(), &mut configuration);
    assert_eq!(configuration[..6], [0x81, 0x00, 0x4c, 0x00, 0x0a, 0x0e]);
}

#[test]
fn key_frames_are_those_that_are_shown_at_once() {
    let is_key = |frame: &[(u8, &[u8])]| super::is_key(&unit(&[&[(2, &[][..]), (1, PLAIN)], frame].concat()));
    assert!(is_key(&[(6, &[0x10, 1])]));
    assert!(is_key(&[(3, &[0x10, 1]), (4, &[1])]));
    assert!(!is_key(&[(6, &[0x00, 1])]), "a key frame that is shown later");
    assert!(!is_key(&[(6, &[0x30, 1])]), "between frames");
    assert!(!is_key(&[(6, &[0x50, 1])]), "within a frame alone");
    assert!(!is_key(&[(3, &[0x90])]), "one that is shown again");
    assert!(!is_key(&[(6, &[0x20, 1]), (6, &[0x10, 1])]), "behind one that is not");
    assert!(!is_key(&[]));
}

proptest! {
    #[test]
    fn units_are_samples_and_back(
        parts in proptest::collection::vec(
            (prop_oneof![Just(5u8), Just(4), Just(9)], proptest::option::of(0u8..8), proptest::collection::vec(0u8..5, 0..300)), 0..6,
        ),
        key: bool,
    ) {
        let mut sample = Vec::new();
        for (kind, extension, payload) in &parts {
            let header = kind << 3 | if extension.is_some() { HAS_EXTENSION } else { 0 };
            let extension = extension.map(|layers| layers << 5);
            Obu { header, extension, payload }.write(&mut sample);
        }
        let frame = [if key { 0x10 } else { 0x30 }, 0, 0, 1, 0, 0, 0];
        Obu { header: 6 << 3, extension: None, payload: &frame }.write(&mut sample);
        let mut config = Vec::new();
        Obu { header: 1 << 3, extension: None, payload: PLAIN }.write(&mut config);
        let unit = to_unit(&sample, &config).unwrap();
        prop_assert_eq!(is_key(&unit), key);
        prop_assert_eq!(Head::of(&unit).sequence, key.then_some(config.clone()));
        let mut back = Vec::new();
        to_sample(&unit, &mut back);
        // A transport stream need not have sizes.
        let (mut bare, mut same) = (Vec::new(), Vec::new());
        for obu in obus(&back).filter(|obu| obu.payload.last().is_some_and(|&byte| byte != 0)) {
            obu.write(&mut same);
            bare.extend_from_slice(&[0, 0, 1]);
            escape(&[&[obu.header & !HAS_SIZE][..], obu.extension.as_slice(), obu.payload].concat(), &mut bare);
        }
        let mut sized = Vec::new();
        to_sample(&bare, &mut sized);
        prop_assert_eq!(sized, same);
        prop_assert_eq!(back, if key { [config, sample].concat() } else { sample });
    }

    #[test]
    fn hostile_bytes_do_no_harm(bytes in proptest::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(3), Just(0x0a), Just(0x12), Just(0x32), Just(0x2a), any::<u8>()], 0..200,
    )) {
        let _ = (is_key(&bytes), Head::of(&bytes).parse_sequence(), to_unit(&bytes, &bytes), role(&bytes));
        let _ = SequenceHeader::parse(&bytes);
        let mut sample = Vec::new();
        to_sample(&bytes, &mut sample);
        // What was written is whole.
        prop_assert!(to_unit(&sample, &[]).is_some());
    }
}

proptest! {
    #[test]
    fn user_data_come_as_they_were_written_and_decoders_can_tell_where_they_end(
        body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(3), Just(0x80), any::<u8>()], 1..80),
    ) {
        let mut unit = TEMPORAL_DELIMITER.to_vec();
        write_user_data(&body, &mut unit);
        unit.extend_from_slice(&[0, 0, 1, 0x32, 0x02, 0x30, 0x80]);
        let obus: Vec<_> = escaped(&unit).collect();
        prop_assert_eq!(obus.len(), 3);
        prop_assert_eq!(user_data(obus[0]), None);
        prop_assert_eq!(user_data(obus[1]), Some(body));
        prop_assert_eq!(user_data(obus[2]), None);
        for cut in 0..obus[1].len() {
            // A part of it is none, or says as much as there is; it does no harm.
            let _ = user_data(&obus[1][..cut]);
        }
        // Metadata of another type is passed over.
        prop_assert_eq!(user_data(&[0x2a, 3, 5, 1, 0x80]), None);
    }
}
