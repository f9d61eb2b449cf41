use crate::container::boundary::{Error, HEADER_MAX_BYTES, RECORD_MAX_BYTES};
use crate::container::split::Container;
use crate::container::split::testing::{Told, split, whole};
use proptest::collection::vec;
use proptest::prelude::*;

const UNKNOWN: &[u8] = &[0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];

fn sized(id: u32, size: &[u8], payload: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    [&id, size, payload].concat()
}

fn element(id: u32, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u64 | 1 << 28).to_be_bytes();
    sized(id, &size[4..], payload)
}

fn block(track: u8, flags: u8, length: usize) -> Vec<u8> {
    [&[0x80 | track, 0, 0, flags][..], &vec![track; length]].concat()
}

fn simple(track: u8, key: bool, length: usize) -> Vec<u8> {
    element(super::SIMPLE_BLOCK, &block(track, if key { 0x80 } else { 0 }, length))
}

fn group(track: u8, refers: bool, length: usize) -> Vec<u8> {
    let reference = if refers { element(super::REFERENCE_BLOCK, &[0xFF]) } else { Vec::new() };
    element(super::BLOCK_GROUP, &[element(super::BLOCK, &block(track, 0, length)), reference].concat())
}

fn track(number: u8, kind: u8) -> Vec<u8> {
    let fields = [element(super::TRACK_NUMBER, &[number]), element(super::TRACK_TYPE, &[kind])];
    element(super::TRACK_ENTRY, &fields.concat())
}

fn header(segment_size: &[u8], tracks: &[Vec<u8>]) -> Vec<u8> {
    [
        element(super::EBML, &element(super::DOC_TYPE, b"webm")),
        sized(super::SEGMENT, segment_size, b""),
        element(0x1549_A966, &[0xEC, 0x80]),
        element(super::TRACKS, &tracks.concat()),
    ]
    .concat()
}

fn pictures_and_sound() -> Vec<u8> {
    header(UNKNOWN, &[track(1, 1), track(2, 2)])
}

/// A cluster of these blocks, of known size.
fn cluster(blocks: &[Vec<u8>]) -> Vec<u8> {
    element(super::CLUSTER, &[element(0xE7, &[0]), blocks.concat()].concat())
}

/// The same of unknown size.
fn endless(blocks: &[Vec<u8>]) -> Vec<u8> {
    sized(super::CLUSTER, UNKNOWN, &[element(0xE7, &[0]), blocks.concat()].concat())
}

fn whole_webm(bytes: &[u8]) -> Told {
    whole(Container::WebM, bytes)
}

#[test]
fn the_header_ends_before_the_first_cluster_and_a_cluster_is_a_record() {
    let clusters = [
        cluster(&[simple(2, true, 9), simple(1, true, 300), simple(1, false, 20)]),
        cluster(&[simple(1, false, 30), simple(1, true, 30)]),
        cluster(&[group(1, false, 40), group(1, true, 40)]),
        cluster(&[group(1, true, 40)]),
        cluster(&[simple(2, true, 9)]),
    ];
    let told = whole_webm(&[pictures_and_sound(), clusters.concat()].concat());
    assert_eq!(told.headers, [(0, pictures_and_sound())]);
    assert_eq!(told.data, clusters.concat());
    let ends: Vec<u64> = clusters
        .iter()
        .scan(0, |at, cluster| {
            Some({
                *at += cluster.len() as u64;
                *at
            })
        })
        .collect();
    assert_eq!(told.ends, ends);
    let joins = [(0, true), (ends[0], false), (ends[1], true), (ends[2], false), (ends[3], false)];
    assert_eq!(told.joins, joins);
    assert_eq!((told.pictures, told.error), (7, None));
}

#[test]
fn of_a_cluster_without_an_end_each_child_is_a_record() {
    let children = [simple(1, true, 30), group(1, true, 10), simple(2, true, 5)];
    let bytes = [pictures_and_sound(), endless(&children), endless(&children)].concat();
    let told = whole_webm(&bytes);
    assert_eq!((told.ends.len(), told.error), (8, None));
    assert_eq!(told.key_frames(), [0, endless(&children).len() as u64]);
    assert_eq!(told.ends.last(), Some(&(told.data.len() as u64)));
}

#[test]
fn sound_alone_is_joined_at_each_cluster() {
    let clusters = [cluster(&[simple(1, true, 4)]), cluster(&[simple(1, true, 4)])];
    let told = whole_webm(&[header(UNKNOWN, &[track(1, 2)]), clusters.concat()].concat());
    assert_eq!(told.key_frames(), [0, clusters[0].len() as u64]);
}

#[test]
fn a_segment_of_known_size_becomes_endless_for_viewers() {
    let body = [cluster(&[simple(1, true, 30)]), element(0x1C53_BB6B, &[0; 40])].concat();
    for size in [&[0x01, 0, 0, 0, 0, 0, 9, 9][..], &[0x41, 0x23], &[0x9F]] {
        let told = whole_webm(&[header(size, &[track(1, 1)]), body.clone()].concat());
        let mut endless = vec![0xFF; size.len()];
        endless[0] = 0xFF >> (size.len() - 1);
        assert_eq!(told.headers[0].1, header(&endless, &[track(1, 1)]));
        // The index is a record too.
        assert_eq!((told.ends.len(), &told.data), (2, &body));
    }
}

#[test]
fn what_is_no_webm_is_refused() {
    let refused = |bytes: &[u8]| whole_webm(bytes).error.map(|error| error.to_string()).unwrap_or_default();
    assert!(refused(b"RIFF....WEBP").contains("begins with [52, 49, 46, 46]"));
    let other = element(super::EBML, &element(super::DOC_TYPE, b"doc"));
    assert!(refused(&other).contains("DocType"), "{}", refused(&other));
    let no_tracks = [
        element(super::EBML, &element(super::DOC_TYPE, b"webm")),
        sized(super::SEGMENT, UNKNOWN, b""),
        cluster(&[]),
    ];
    assert!(refused(&no_tracks.concat()).contains("Tracks before it"));
    let twice = [pictures_and_sound(), cluster(&[]), pictures_and_sound()].concat();
    assert!(refused(&twice).contains("second EBML header"));
    let garbage = [pictures_and_sound(), cluster(&[]), vec![0; 8]].concat();
    assert!(refused(&garbage).contains("element ID"));
}

#[test]
fn sizes_that_cannot_be_are_refused_at_once() {
    let refused = |body: Vec<u8>| whole_webm(&[pictures_and_sound(), body].concat()).error;
    let huge = [0x01, 0, 0, 1, 0, 0, 0, 0];
    let found = 1 << 32;
    assert!(matches!(
        refused(sized(super::CLUSTER, &huge, b"")),
        Some(Error::RecordTooLong { what: "Cluster", found: 0x1_0000_0000, .. })
    ));
    let block = sized(super::SIMPLE_BLOCK, &huge, b"");
    assert!(matches!(refused(endless(std::slice::from_ref(&block))), Some(Error::RecordTooLong { .. })));
    // More than its cluster has room for.
    assert!(matches!(refused(cluster(&[block])), Some(Error::Unexpected { found: was, .. }) if was == found));
    assert!(refused(endless(&[sized(super::SIMPLE_BLOCK, UNKNOWN, b"")])).is_some());
    assert!(refused(cluster(&[element(super::SIMPLE_BLOCK, &[0x81, 0, 0])])).is_some());
    // A track number that is longer than the block, and one that is none.
    assert!(refused(cluster(&[element(super::SIMPLE_BLOCK, &[0x01, 0, 0, 0, 0])])).is_some());
    assert!(refused(cluster(&[element(super::SIMPLE_BLOCK, &[0x00, 0, 0, 0, 0])])).is_some());
    let void = element(0xEC, &vec![0; 300_000]).repeat(4);
    let start =
        [element(super::EBML, &element(super::DOC_TYPE, b"webm")), sized(super::SEGMENT, UNKNOWN, b"")];
    let tracks = sized(super::TRACKS, &(1_u64 << 56 | RECORD_MAX_BYTES).to_be_bytes(), b"");
    let told = whole_webm(&[start.concat(), tracks].concat());
    assert!(matches!(told.error, Some(Error::HeaderTooLong { .. })), "{:?}", told.error);
    let told = split(Container::WebM, &[start.concat(), void].concat(), &[100_000]);
    assert!(matches!(told.error, Some(Error::HeaderTooLong { found }) if found > HEADER_MAX_BYTES as u64));
}

fn any_cluster() -> impl Strategy<Value = Vec<u8>> {
    let child =
        (any::<bool>(), 1..3u8, any::<bool>(), 0..50usize).prop_map(|(is_group, track, flag, length)| {
            if is_group { group(track, flag, length + 1) } else { simple(track, flag, length + 1) }
        });
    (any::<bool>(), vec(child, 0..8))
        .prop_map(|(ends, children)| if ends { cluster(&children) } else { endless(&children) })
}

proptest! {
    #[test]
    fn any_chop_tells_the_same(clusters in vec(any_cluster(), 1..8), cuts in vec(1usize..60, 1..20), damage in 0..900usize) {
        let mut bytes = [pictures_and_sound(), clusters.concat()].concat();
        let told = whole_webm(&bytes);
        prop_assert_eq!(told.error, None);
        prop_assert_eq!(&split(Container::WebM, &bytes, &cuts), &told);
        let at = damage % bytes.len();
        bytes[at] ^= 0x55;
        let (told, chopped) = (whole_webm(&bytes), split(Container::WebM, &bytes, &cuts));
        prop_assert_eq!((told.error, told.ends, told.joins), (chopped.error, chopped.ends, chopped.joins));
    }
}
