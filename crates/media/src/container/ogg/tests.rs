use super::{BEGINS, CONTINUES};
use crate::container::boundary::{Error, HEADER_MAX_BYTES};
use crate::container::split::Container;
use crate::container::split::testing::{split, whole};
use proptest::collection::vec;
use proptest::prelude::*;

/// A page of whole packets.
fn page(flags: u8, granule: i64, serial: u32, packets: &[&[u8]]) -> Vec<u8> {
    let mut lengths = Vec::new();
    for packet in packets {
        lengths.extend(std::iter::repeat_n(255, packet.len() / 255));
        lengths.push((packet.len() % 255) as u8);
    }
    let mut page = [b"OggS\0", &[flags][..], &granule.to_le_bytes(), &serial.to_le_bytes()].concat();
    page.extend_from_slice(&[0; 8]);
    page.push(lengths.len() as u8);
    [page, lengths, packets.concat()].concat()
}

fn opus_header(serial: u32) -> Vec<u8> {
    [page(BEGINS, 0, serial, &[b"OpusHead\x01\x02"]), page(0, 0, serial, &[b"OpusTags\x00"])].concat()
}

fn video_header() -> Vec<u8> {
    [
        page(BEGINS, 0, 1, &[b"\x80theora\x03\x02"]),
        page(BEGINS, 0, 2, &[b"OpusHead\x01\x02"]),
        page(0, 0, 1, &[b"\x81theora", b"\x82theora"]),
        page(0, 0, 2, &[b"OpusTags\x00"]),
    ]
    .concat()
}

fn key_frame() -> Vec<u8> {
    page(0, 64, 1, &[&[0x30; 700]])
}

fn picture() -> Vec<u8> {
    page(0, 65, 1, &[&[0x70; 90]])
}

fn sound(serial: u32) -> Vec<u8> {
    page(0, 960, serial, &[&[0x11; 60], &[0x11; 50]])
}

fn offsets(pages: &[Vec<u8>]) -> Vec<u64> {
    pages
        .iter()
        .scan(0, |at, page| {
            Some({
                *at += page.len() as u64;
                *at
            })
        })
        .collect()
}

#[test]
fn the_header_is_all_codecs_headers_and_a_page_is_a_record() {
    let pages = [sound(2), key_frame(), sound(2), picture(), key_frame()];
    let told = whole(Container::Ogg, &[video_header(), pages.concat()].concat());
    assert_eq!(told.headers, [(0, video_header())]);
    let ends = offsets(&pages);
    assert_eq!((&told.data, &told.ends), (&pages.concat(), &ends));
    assert_eq!(told.key_frames(), [ends[0], ends[3]]);
    assert_eq!((told.pictures, told.error), (3, None));
}

#[test]
fn header_packets_may_span_pages() {
    // "More" has no end on its page: lengths 255 only.
    let mut tags = page(0, -1, 1, &[&[b't'; 510]]);
    let lengths = usize::from(tags[26]);
    tags[26] -= 1;
    tags.remove(27 + lengths - 1);
    let rest = page(CONTINUES, 0, 1, &[b"end"]);
    let header = [page(BEGINS, 0, 1, &[b"OpusHead\x01\x02"]), tags, rest].concat();
    let told = whole(Container::Ogg, &[header.clone(), sound(1)].concat());
    assert_eq!(told.headers, [(0, header)]);
    assert_eq!(told.key_frames(), [0]);
}

#[test]
fn sound_alone_is_joined_where_a_packet_begins() {
    let pages = [sound(7), page(CONTINUES, 1920, 7, &[&[1; 9]]), sound(7)];
    let told = whole(Container::Ogg, &[opus_header(7), pages.concat()].concat());
    assert_eq!(told.key_frames(), [0, offsets(&pages)[1]]);
}

#[test]
fn other_codecs_headers_are_counted_or_known_by_their_granules() {
    let flac = [
        page(BEGINS, 0, 1, &[b"\x7FFLAC\x01\x00\x00\x02fLaC"]),
        page(0, 0, 1, &[b"comment"]),
        page(0, 0, 1, &[b"pictures"]),
    ];
    let skeleton = [
        page(BEGINS, 0, 3, &[b"fishead\0\x03\x00"]),
        opus_header(1)[..page(BEGINS, 0, 1, &[b"OpusHead\x01\x02"]).len()].to_vec(),
        page(0, 0, 3, &[b"fisbone\0"]),
        page(0, 0, 1, &[b"OpusTags"]),
        page(4, 0, 3, &[b""]),
    ];
    let unknown = [page(BEGINS, 0, 1, &[b"something"]), page(0, 0, 1, &[b"setup"])];
    for header in [flac.concat(), skeleton.concat(), unknown.concat()] {
        let told = whole(Container::Ogg, &[header.clone(), sound(1), sound(1)].concat());
        assert_eq!(told.headers, [(0, header)]);
        assert_eq!(told.joins.len(), 2);
    }
}

#[test]
fn the_next_link_of_a_chain_brings_its_header() {
    let bytes = [opus_header(1), sound(1), opus_header(2), sound(2), sound(2)].concat();
    let told = whole(Container::Ogg, &bytes);
    assert_eq!(told.headers, [(0, opus_header(1)), (3, opus_header(2))]);
    assert_eq!(told.data, bytes[opus_header(1).len()..]);
    let second = sound(1).len() as u64 + opus_header(2).len() as u64;
    assert_eq!(told.key_frames(), [0, second, second + sound(2).len() as u64]);
}

#[test]
fn what_is_no_ogg_is_refused() {
    let refused =
        |bytes: &[u8]| whole(Container::Ogg, bytes).error.map(|error| error.to_string()).unwrap_or_default();
    assert!(refused(&[0x47; 188]).contains("expected OggS"));
    assert!(refused(&sound(1)).contains("first Ogg page's flags"));
    assert!(refused(&[opus_header(1), vec![1; 40]].concat()).contains("beginning is 0x1010101"));
    let streams: Vec<u8> = (0..40).flat_map(|serial| page(BEGINS, 0, serial, &[b"OpusHead"])).collect();
    assert!(refused(&streams).contains("number of Ogg streams"));
}

#[test]
fn a_header_without_end_is_refused() {
    let endless = [opus_header(1)[..37].to_vec(), page(0, 0, 9, &[&[0; 50_000]]).repeat(30)].concat();
    let header = page(BEGINS, 0, 1, &[b"OpusHead\x01\x02"]);
    let endless = [header.clone(), endless[37..].to_vec()].concat();
    let told = split(Container::Ogg, &endless, &[70_000]);
    assert!(matches!(told.error, Some(Error::HeaderTooLong { found }) if found > HEADER_MAX_BYTES as u64));
    // In a chain too.
    let chained = [opus_header(5), sound(5), endless].concat();
    let told = split(Container::Ogg, &chained, &[70_000]);
    assert!(matches!(told.error, Some(Error::HeaderTooLong { .. })), "{:?}", told.error);
}

fn any_page() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(key_frame()),
        Just(picture()),
        Just(sound(2)),
        Just(video_header()),
        (vec(any::<u8>(), 0..300), any::<u8>()).prop_map(|(bytes, flags)| page(flags & 5, 3, 2, &[&bytes])),
    ]
}

proptest! {
    #[test]
    fn any_chop_tells_the_same(pages in vec(any_page(), 1..12), cuts in vec(1usize..90, 1..20), damage in 0..900usize) {
        let mut bytes = [video_header(), key_frame(), pages.concat()].concat();
        let told = whole(Container::Ogg, &bytes);
        prop_assert_eq!(told.error, None);
        prop_assert_eq!(&split(Container::Ogg, &bytes, &cuts), &told);
        let at = damage % bytes.len();
        bytes[at] ^= 0x55;
        let (told, chopped) = (whole(Container::Ogg, &bytes), split(Container::Ogg, &bytes, &cuts));
        prop_assert_eq!((told.error, told.ends, told.joins), (chopped.error, chopped.ends, chopped.joins));
    }
}
