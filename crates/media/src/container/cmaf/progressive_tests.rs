use super::super::boxes::{find, walk};
use super::super::{Brand, Media, Track, write_init};
use super::*;
use crate::access_unit::{AccessUnit, Codec};
use crate::{Stamps, Ticks};
use bytes::Bytes;
use proptest::prelude::*;

const TABLE: [&[u8; 4]; 2] = [b"minf", b"stbl"];

fn sound() -> InitTrack {
    // ADTS: AAC-LC, 48 kHz, two channels, 8 bytes.
    let data = Bytes::from_static(&[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x1f, 0xfc, 0]);
    let unit = AccessUnit {
        codec: Codec::Aac,
        data,
        pts: Ticks(0),
        dts: Ticks(0),
        random_access: true,
        stamps: Stamps::default(),
    };
    let media = Media::of(&unit, false).unwrap();
    let mut header = Vec::new();
    write_init(Brand::Cmaf, &[Track { id: 1, media }], &mut header);
    InitTrack::read(&header).unwrap()
}

/// Pictures of a codec that nothing here looks into.
fn pictures() -> InitTrack {
    let mut sample_entry = vec![0, 0, 0, 16];
    sample_entry.extend_from_slice(b"avc1\0\0\0\0\0\0\0\x01");
    InitTrack { is_video: true, timescale: 90_000, shown_size: (640 << 16, 360 << 16), sample_entry }
}

fn samples(from: u64, duration: u32, count: u64, reordered: bool) -> Vec<PlacedSample> {
    (0..count)
        .map(|at| PlacedSample {
            bytes: 100 + at as u32,
            decode_time: from + at * u64::from(duration),
            duration,
            composition_offset: if reordered { [2, 4, 1, 1][at as usize % 4] * duration as i32 } else { 0 },
            is_sync: !reordered || at.is_multiple_of(4),
        })
        .collect()
}

fn words(content: &[u8]) -> Vec<u32> {
    content.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// The edits of each track: duration in ticks of the movie and time of the track, -1 for none.
fn edits(head: &[u8]) -> Vec<Vec<(u64, i64)>> {
    let moov = find(head_boxes(head), &[b"moov"]).unwrap();
    let tracks = walk(moov).into_iter().filter(|(kind, _)| kind == b"trak");
    tracks
        .map(|(_, trak)| {
            let list = find(trak, &[b"edts", b"elst"]).unwrap();
            list[8..]
                .chunks(20)
                .map(|edit| {
                    let long = |at: usize| u64::from_be_bytes(edit[at..at + 8].try_into().unwrap());
                    (long(0), long(8) as i64)
                })
                .collect()
        })
        .collect()
}

/// The head without the beginning of its `mdat`.
fn head_boxes(head: &[u8]) -> &[u8] {
    let first = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
    let second = u32::from_be_bytes(head[first..first + 4].try_into().unwrap()) as usize;
    &head[..first + second]
}

#[test]
fn all_is_told_in_front_of_the_bytes() {
    let mut file = Progressive::new();
    let (video, audio) = (file.add_track(&pictures(), None), file.add_track(&sound(), Some(*b"eng")));
    file.push(video, 0, &samples(90_000, 3600, 8, true)).unwrap();
    file.push(audio, 0, &samples(48_000, 1024, 10, false)).unwrap();
    file.push(video, 0, &samples(90_000 + 8 * 3600, 3600, 8, true)).unwrap();
    let head = file.finish(Duration::from_secs(1), None);
    let boxes = head_boxes(&head);
    assert_eq!(walk(boxes).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [*b"ftyp", *b"moov"]);
    assert_eq!(&head[boxes.len() + 4..], b"mdat");
    let data = u32::from_be_bytes(head[boxes.len()..boxes.len() + 4].try_into().unwrap());
    assert_eq!(u64::from(data), file.data_bytes() + 8);
    let moov = find(boxes, &[b"moov"]).unwrap();
    let tracks: Vec<_> = walk(moov).into_iter().filter(|(kind, _)| kind == b"trak").collect();
    let table = |track: usize, kind: &[u8; 4]| {
        find(tracks[track].1, &[&[b"mdia"], &TABLE[..], &[kind]].concat()).map(|content| words(&content[4..]))
    };
    assert_eq!(table(0, b"stts"), Some(vec![1, 16, 3600]));
    assert_eq!(table(0, b"stss"), Some(vec![4, 1, 5, 9, 13]));
    assert_eq!(table(0, b"stsc"), Some(vec![1, 1, 8, 1]));
    assert_eq!(table(1, b"stss"), None, "of sound each is one");
    assert_eq!(table(1, b"ctts"), None);
    let places = table(0, b"stco").unwrap();
    let (of_video, of_sound): (u32, u32) = ((100..108).sum(), (100..110).sum());
    assert_eq!(places, [2, head.len() as u32, head.len() as u32 + of_video + of_sound]);
    assert_eq!(table(1, b"stco"), Some(vec![1, head.len() as u32 + of_video]));
    let language = find(tracks[1].1, &[b"mdia", b"mdhd"]).unwrap();
    assert_eq!(u16::from_be_bytes(language[32..34].try_into().unwrap()), 0x15c7, "eng");
}

#[test]
fn what_begins_earlier_is_cut_and_what_begins_later_waits() {
    let mut file = Progressive::new();
    let (video, audio) = (file.add_track(&pictures(), None), file.add_track(&sound(), None));
    let late = file.add_track(&sound(), None);
    // The first picture is shown two after it is decoded.
    file.push(video, 0, &samples(900_000, 3600, 8, true)).unwrap();
    file.push(audio, 0, &samples(480_000, 1024, 20, false)).unwrap();
    file.push(late, 0, &samples(490_000, 1024, 20, false)).unwrap();
    let begin = Duration::from_nanos(10_080_000_000);
    let told = edits(&file.finish(begin, None));
    assert_eq!(told[0], [(8 * 3600, 2 * 3600)]);
    assert_eq!(told[1], [((20 * 1024 - 3840) * 90_000 / 48_000, 3840)]);
    let wait = (490_000 - 480_000 - 3840) * 90_000 / 48_000;
    assert_eq!(told[2], [(wait, -1), (20 * 1024 * 90_000 / 48_000, 0)]);
    assert!(file.is_shown(late, begin, None) && !file.is_shown(late, begin, Some(begin)));
    let soon = Some(begin + Duration::from_millis(100));
    assert_eq!(edits(&file.finish(begin, soon)).len(), 2, "a track of which nothing is shown is left out");
    // An end that was asked for ends all tracks.
    let told = edits(&file.finish(begin, Some(begin + Duration::from_millis(200))));
    assert_eq!((told[0][0].0, told[1][0].0, told[2][0].0 + told[2][1].0), (18_000, 18_000, 18_000));
}

#[test]
fn what_is_missing_takes_its_time() {
    let mut file = Progressive::new();
    let audio = file.add_track(&sound(), None);
    file.push(audio, 0, &samples(0, 1024, 3, false)).unwrap();
    file.push(audio, 0, &samples(10_000, 1024, 3, false)).unwrap();
    let head = file.finish(Duration::ZERO, None);
    let path: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stts"];
    let table = words(find(head_boxes(&head), &path).unwrap());
    assert_eq!(table[1..], [3, 2, 1024, 1, 10_000 - 2048, 3, 1024]);
    assert_eq!(file.track_end(audio), Some(10_000 + 3 * 1024));
}

#[test]
fn another_epoch_has_a_description_of_its_own() {
    let mut file = Progressive::new();
    let video = file.add_track(&pictures(), None);
    let mut other = pictures();
    other.sample_entry[12] = 9;
    assert_eq!(file.add_description(video, &pictures()), Ok(0));
    assert_eq!(file.add_description(video, &other), Ok(1));
    assert_eq!(file.add_description(video, &other), Ok(1));
    assert_eq!(file.add_description(video, &sound()), Err(ProgressiveError::Other));
    let mut codec = pictures();
    codec.sample_entry[4..8].copy_from_slice(b"hvc1");
    assert_eq!(file.add_description(video, &codec), Err(ProgressiveError::Other));
    let scale = InitTrack { timescale: 44_100, ..other.clone() };
    assert_eq!((file.add_description(video, &scale), file.timescale(video)), (Ok(1), Some(90_000)));
    assert_eq!(file.add_description(7, &other), Err(ProgressiveError::Track));
    file.push(video, 0, &samples(0, 3600, 2, false)).unwrap();
    file.push(video, 1, &samples(7200, 3600, 2, false)).unwrap();
    let back = ProgressiveError::Backwards { found: 0, last: 10_800 };
    assert_eq!(file.push(video, 1, &samples(0, 3600, 2, false)), Err(back));
    assert_eq!(file.push(video, 2, &samples(99_999, 3600, 2, false)), Err(ProgressiveError::Track));
    let head = file.finish(Duration::ZERO, None);
    let path: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsc"];
    let table = words(find(head_boxes(&head), &path).unwrap());
    assert_eq!(table[1..], [2, 1, 2, 1, 2, 2, 2]);
}

#[test]
fn a_large_file_has_long_places() {
    let mut file = Progressive::new();
    let video = file.add_track(&pictures(), None);
    let huge = |at: u64| PlacedSample { bytes: 1 << 31, ..samples(at * 3600, 3600, 1, false)[0] };
    for at in 0..4 {
        file.push(video, 0, &[huge(at)]).unwrap();
    }
    let head = file.finish(Duration::ZERO, None);
    let path: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"co64"];
    let table = find(head_boxes(&head), &path).unwrap();
    let last = u64::from_be_bytes(table[table.len() - 8..].try_into().unwrap());
    assert_eq!(last, head.len() as u64 + (3 << 31));
    let data = &head[head_boxes(&head).len()..];
    assert_eq!((&data[..8], data.len()), (&b"\0\0\0\x01mdat"[..], 16));
}

proptest! {
    #[test]
    fn no_header_panics(bytes: Vec<u8>, cut in 0..800usize, at in 0..800usize, with: u8) {
        let _ = InitTrack::read(&bytes);
        let mut header = Vec::new();
        let data = Bytes::from_static(&[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x1f, 0xfc, 0]);
        let (pts, dts, stamps) = (Ticks(0), Ticks(0), Stamps::default());
        let unit = AccessUnit { codec: Codec::Aac, data, pts, dts, random_access: true, stamps };
        write_init(Brand::Cmaf, &[Track { id: 1, media: Media::of(&unit, false).unwrap() }], &mut header);
        if let Some(byte) = header.get_mut(at) {
            *byte = with;
        }
        header.truncate(cut);
        let _ = InitTrack::read(&header);
    }

    /// Whatever is pushed, tables agree with it.
    #[test]
    fn tables_have_all_samples(pushes in proptest::collection::vec((0..2usize, 1..5u64, 0..5000u64), 1..20)) {
        let mut file = Progressive::new();
        let tracks = [file.add_track(&pictures(), None), file.add_track(&sound(), None)];
        let (mut ends, mut counts, mut bytes) = ([0u64; 2], [0u32; 2], 0u64);
        for (track, count, gap) in pushes {
            let new = samples(ends[track] + gap, 1024, count, false);
            ends[track] += gap + count * 1024;
            counts[track] += count as u32;
            bytes += new.iter().map(|sample| u64::from(sample.bytes)).sum::<u64>();
            file.push(tracks[track], 0, &new).unwrap();
        }
        prop_assert_eq!(file.data_bytes(), bytes);
        let head = file.finish(Duration::ZERO, None);
        let moov = find(head_boxes(&head), &[b"moov"]).unwrap();
        let told: Vec<u32> = walk(moov).into_iter().filter(|(kind, _)| kind == b"trak").map(|(_, trak)| {
            words(&find(trak, &[b"mdia", b"minf", b"stbl", b"stsz"]).unwrap()[8..])[0]
        }).collect();
        let wanted: Vec<u32> = counts.into_iter().filter(|count| *count > 0).collect();
        prop_assert_eq!(told, wanted);
    }
}
