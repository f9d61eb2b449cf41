use crate::container::boundary::{Error, HEADER_MAX_BYTES};
use crate::container::split::Container;
use crate::container::split::testing::{split, whole};
use proptest::collection::vec;
use proptest::prelude::*;

const FILE_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

fn tag(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[0, 0, 40, 0, 0, 0, 0], payload, &back].concat()
}

fn key_frame(length: usize) -> Vec<u8> {
    tag(9, &[&[0x17, 1][..], &vec![7; length]].concat())
}

fn picture(length: usize) -> Vec<u8> {
    tag(9, &[&[0x27, 1][..], &vec![6; length]].concat())
}

fn sound() -> Vec<u8> {
    tag(8, &[0xAF, 1, 5, 5])
}

fn header() -> Vec<u8> {
    [
        FILE_HEADER.to_vec(),
        tag(18, b"onMetaData"),
        tag(9, &[0x17, 0, 1, 2, 3]),
        tag(8, &[0xAF, 0, 0x12, 0x10]),
    ]
    .concat()
}

#[test]
fn the_header_is_all_before_the_first_picture_or_sound() {
    let body = [sound(), key_frame(300), picture(20), sound(), key_frame(10)].concat();
    let told = whole(Container::Flv, &[header(), body.clone()].concat());
    assert_eq!(told.headers, [(0, header())]);
    assert_eq!(told.data, body);
    let lengths = [sound(), key_frame(300), picture(20), sound(), key_frame(10)].map(|tag| tag.len() as u64);
    let ends: Vec<u64> = lengths
        .iter()
        .scan(0, |at, length| {
            Some({
                *at += length;
                *at
            })
        })
        .collect();
    assert_eq!(told.ends, ends);
    assert_eq!(told.key_frames(), [ends[0], ends[3]]);
    assert_eq!((told.pictures, told.error), (3, None));
}

#[test]
fn sound_alone_is_joined_anywhere() {
    let bytes = [FILE_HEADER.to_vec(), tag(8, &[0xAF, 0, 0x12]), sound(), sound()].concat();
    assert_eq!(whole(Container::Flv, &bytes).key_frames(), [0, 19]);
    // Other codecs than AAC have no sequence header.
    let bytes = [FILE_HEADER.to_vec(), tag(8, &[0x2F, 0, 1]), tag(8, &[])].concat();
    assert_eq!(whole(Container::Flv, &bytes).key_frames(), [0, 18]);
}

#[test]
fn enhanced_codecs_are_told_by_their_packet_types() {
    let hevc = |first: u8| tag(9, &[&[first][..], b"hvc1\x01\x02"].concat());
    let opus = |first: u8| tag(8, &[&[first][..], b"Opus\x01"].concat());
    let header = [FILE_HEADER.to_vec(), hevc(0x90), opus(0x90)].concat();
    let body = [hevc(0x91), opus(0x91), hevc(0xA3), hevc(0x93)].concat();
    let told = whole(Container::Flv, &[header.clone(), body].concat());
    assert_eq!(told.headers, [(0, header)]);
    let (video, audio) = (hevc(0).len() as u64, opus(0).len() as u64);
    assert_eq!(told.key_frames(), [0, 2 * video + audio]);
    // H.263 and VP6 have neither packet types nor headers.
    let told =
        whole(Container::Flv, &[FILE_HEADER.to_vec(), tag(9, &[0x14, 0, 0]), tag(9, &[0x24, 0])].concat());
    assert_eq!((told.key_frames(), told.pictures), (vec![0], 2));
}

#[test]
fn a_sequence_header_that_comes_later_is_for_whom_joins_later() {
    let late = tag(9, &[0x17, 0, 9, 9, 9, 9]);
    let bytes = [header(), key_frame(5), late.clone(), tag(18, b"onCuePoint"), key_frame(5)].concat();
    let told = whole(Container::Flv, &bytes);
    let now = [FILE_HEADER.to_vec(), tag(18, b"onMetaData"), late, tag(8, &[0xAF, 0, 0x12, 0x10])].concat();
    // It is told where it is needed: before the key frame, behind three records.
    assert_eq!(told.headers, [(0, header()), (3, now)]);
    assert_eq!(told.data, bytes[header().len()..]);
    assert_eq!(told.key_frames().len(), 2);
}

/// A tag at another time.
fn later(mut tag: Vec<u8>) -> Vec<u8> {
    tag[6] ^= 0x55;
    tag
}

#[test]
fn a_header_that_is_repeated_is_not_told_again() {
    let again = later(tag(9, &[0x17, 0, 1, 2, 3]));
    let bytes =
        [header(), [key_frame(5), again, tag(8, &[0xAF, 0, 0x12, 0x10])].concat().repeat(50)].concat();
    assert_eq!(whole(Container::Flv, &bytes).headers, [(0, header())]);
}

/// A header of nearly the longest length, and behind it `count` sequence headers of some bytes, each another one.
fn flood(between: &[u8], count: u32) -> Vec<u8> {
    let script: Vec<u8> = tag(18, &[1; 60_000]).repeat(17);
    let mut bytes = [header(), script, key_frame(5)].concat();
    for number in 0..count {
        bytes.extend(tag(9, &[&[0x17, 0][..], &number.to_be_bytes()].concat()));
        bytes.extend_from_slice(between);
    }
    bytes.extend(key_frame(5));
    bytes
}

fn header_bytes(told: &crate::container::split::testing::Told) -> usize {
    told.headers.iter().map(|(_, header)| header.len()).sum()
}

#[test]
fn of_many_headers_in_a_row_the_last_one_leaves() {
    let bytes = flood(&[], 2000);
    for cut in [bytes.len(), 40] {
        let told = split(Container::Flv, &bytes, &[cut]);
        assert_eq!((told.error, told.headers.len()), (None, 2));
        assert!(told.headers[1].1.ends_with(&tag(8, &[0xAF, 0, 0x12, 0x10])));
        let last = tag(9, &[&[0x17, 0][..], &1999_u32.to_be_bytes()].concat());
        assert!(told.headers[1].1.windows(last.len()).any(|window| window == last));
    }
}

#[test]
fn headers_take_no_more_than_the_stream_does() {
    // Each of them is needed by a join behind it.
    let bytes = flood(&sound(), 2000);
    let told = whole(Container::Flv, &bytes);
    assert!(matches!(told.error, Some(Error::HeaderChanges { .. })), "{:?}", told.error);
    assert!(header_bytes(&told) <= bytes.len() + 4 * HEADER_MAX_BYTES, "{}", header_bytes(&told));
    // A stream that brings as much as its headers take may go on with it for ever.
    let long = picture(1_200_000);
    let told = whole(Container::Flv, &flood(&long, 20));
    assert_eq!((told.error, told.headers.len()), (None, 21));
    // Short headers may change with each picture.
    let mut bytes = [header(), key_frame(5)].concat();
    for number in 0..20_000_u32 {
        bytes.extend(tag(9, &[&[0x17, 0][..], &number.to_be_bytes()].concat()));
        bytes.extend(picture(200));
    }
    let told = whole(Container::Flv, &bytes);
    assert_eq!((told.error, told.headers.len()), (None, 20_001));
}

#[test]
fn what_is_held_of_sequence_headers_is_one_of_each_kind() {
    let mut scanner = super::Scanner::default();
    let mut bytes = FILE_HEADER.to_vec();
    for number in 0..20_000_u32 {
        bytes.extend(tag(9, &[&[0x17, 0][..], &number.to_be_bytes()].concat()));
        bytes.extend(tag(8, &[&[0xAF, 0][..], &number.to_be_bytes()].concat()));
    }
    let mut marks = Vec::new();
    scanner.scan(&bytes, &mut marks).unwrap();
    assert!(marks.is_empty());
    assert_eq!((scanner.header.sequence.len(), scanner.header.length()), (2, 13 + 2 * 21));
}

#[test]
fn what_is_no_flv_is_refused() {
    let refused = |bytes: &[u8]| whole(Container::Flv, bytes).error.map(|error| error.to_string());
    let said = refused(b"<html><body>").unwrap();
    assert!(said.contains("begins with [3c, 68, 74, 6d]"), "{said}");
    let said = refused(&[header(), vec![0x47; 188]].concat()).unwrap();
    assert!(said.contains("an FLV tag's type is 0x47 at byte"), "{said}");
    assert!(refused(b"FLV\x01\x05\xff\xff\xff\xff\0\0\0\0").unwrap().contains("length is 0xffffffff"));
}

#[test]
fn a_header_that_claims_too_much_is_refused_at_once() {
    let huge = [FILE_HEADER, &[18, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0], b"on"].concat();
    assert_eq!(whole(Container::Flv, &huge).error, Some(Error::HeaderTooLong { found: 11 + 0x20_0000 + 4 }));
    let many = tag(18, &[1; 60_000]).repeat(20);
    let told = split(Container::Flv, &[FILE_HEADER, &many].concat(), &[10_000]);
    assert!(matches!(told.error, Some(Error::HeaderTooLong { found }) if found > HEADER_MAX_BYTES as u64));
}

#[test]
fn before_a_bad_tag_all_is_told() {
    let good = [key_frame(30), picture(30)].concat();
    let bytes = [header(), good.clone(), vec![0; 40]].concat();
    let told = whole(Container::Flv, &bytes);
    assert_eq!(told.data, good);
    assert!(told.error.is_some() && told.ends.len() == 2);
}

fn any_tag() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(8u8), Just(9), Just(18)];
    let first = prop_oneof![Just(0x17u8), Just(0x27), Just(0xAF), Just(0x90), Just(0xA1), any::<u8>()];
    (kind, first, 0..3u8, vec(any::<u8>(), 0..80))
        .prop_map(|(kind, first, second, rest)| tag(kind, &[vec![first, second], rest].concat()))
}

proptest! {
    #[test]
    fn any_chop_tells_the_same(tags in vec(any_tag(), 1..20), cuts in vec(1usize..60, 1..20), damage in 0..400usize) {
        let mut bytes = [header(), key_frame(9), tags.concat()].concat();
        let told = whole(Container::Flv, &bytes);
        prop_assert_eq!(told.error, None);
        prop_assert_eq!(&split(Container::Flv, &bytes, &cuts), &told);
        prop_assert_eq!(told.ends.last(), Some(&(told.data.len() as u64)));
        let at = damage % bytes.len();
        bytes[at] ^= 0x55;
        let (told, chopped) = (whole(Container::Flv, &bytes), split(Container::Flv, &bytes, &cuts));
        prop_assert_eq!((told.error, told.ends, told.joins), (chopped.error, chopped.ends, chopped.joins));
    }
}
