//! What is written is read by the demultiplexer, unit for unit.

use super::super::demux::{AUDIO_TRACK, Event, Tags, VIDEO_TRACK};
use super::*;
use crate::Stamps;
use crate::time::Ticks;
use bytes::Bytes;

/// x264's sets: baseline, 320x180; and the same with another level.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

fn unit(codec: Codec, data: Vec<u8>, random_access: bool) -> AccessUnit {
    let data = Bytes::from(data);
    AccessUnit { codec, data, pts: Ticks(0), dts: Ticks(0), random_access, stamps: Stamps::default() }
}

fn annex_b(nals: &[&[u8]]) -> Vec<u8> {
    nals.iter().flat_map(|nal| [&[0, 0, 0, 1], *nal].concat()).collect()
}

fn key_frame(sps: &[u8]) -> AccessUnit {
    unit(Codec::H264, annex_b(&[&[9, 0xf0], sps, PPS, &[0x65, 0x88, 7]]), true)
}

fn picture() -> AccessUnit {
    unit(Codec::H264, annex_b(&[&[9, 0xf0], &[0x41, 0x9a, 7]]), false)
}

/// AAC-LC, stereo, of this index of rates, in ADTS.
fn aac(rate_index: u8) -> AccessUnit {
    let frame = [0x21, 9, 9];
    let bytes = 7 + frame.len() as u8;
    let header = [0xff, 0xf1, 0x40 | rate_index << 2, 0x80, bytes >> 3, bytes << 5 | 0x1f, 0xfc];
    unit(Codec::Aac, [&header[..], &frame].concat(), true)
}

fn read(tags: &mut Tags) -> Vec<(u16, AccessUnit)> {
    let unit = |event| match event {
        Event::AccessUnit { track, unit, .. } => Some((track, unit)),
        Event::Tracks(_) => None,
    };
    std::iter::from_fn(|| tags.poll()).filter_map(unit).collect()
}

#[test]
fn h264_has_the_record_of_mp4_and_units_behind_their_lengths() {
    let mut writer = TagWriter::new(&key_frame(SPS)).unwrap();
    let header = writer.header().unwrap();
    // Behind the tag's own five bytes: version, profile, constraints, level, lengths of four bytes, one SPS (14496-15 §5.3.3.1).
    assert_eq!(header[..13], [0x17, 0, 0, 0, 0, 1, 0x42, 0xc0, 0x0d, 0xff, 0xe1, 0, SPS.len() as u8]);
    assert!(header.ends_with(&[&[1, 0, PPS.len() as u8][..], PPS].concat()));
    let (written, body) = writer.write(&key_frame(SPS), 80).unwrap();
    // Neither delimiter nor parameter sets.
    assert_eq!((written, &body[..]), (Written::Frame, &[0x17, 1, 0, 0, 80, 0, 0, 0, 3, 0x65, 0x88, 7][..]));
    let (_, body) = writer.write(&picture(), -40).unwrap();
    assert_eq!(body, [0x27, 1, 0xff, 0xff, 0xd8, 0, 0, 0, 3, 0x41, 0x9a, 7]);
    assert_eq!((writer.format(), writer.format().id()), (TagFormat::Number(7), 7));
}

#[test]
fn what_is_written_is_read() {
    let mut tags = Tags::new();
    let mut video = TagWriter::new(&key_frame(SPS)).unwrap();
    let mut audio = TagWriter::new(&aac(4)).unwrap();
    tags.push(true, 0, &video.header().unwrap());
    tags.push(false, 0, &audio.header().unwrap());
    tags.push(true, 1000, &video.write(&key_frame(SPS), 40).unwrap().1);
    tags.push(false, 1010, &audio.write(&aac(4), 0).unwrap().1);
    tags.push(true, 1040, &video.write(&picture(), 0).unwrap().1);
    let units = read(&mut tags);
    let numbers: Vec<u16> = units.iter().map(|(track, _)| *track).collect();
    assert_eq!(numbers, [VIDEO_TRACK, AUDIO_TRACK, VIDEO_TRACK]);
    let AccessUnit { pts, dts, random_access, .. } = units[0].1;
    assert_eq!((pts, dts, random_access), (Ticks(1040 * 90), Ticks(1000 * 90), true));
    assert_eq!(units[1].1.data, aac(4).data);
    let nals =
        |data: &[u8]| crate::bitstream::h264::nals(data).map(|nal| nal.bytes.to_vec()).collect::<Vec<_>>();
    assert!(nals(&units[0].1.data).contains(&SPS.to_vec()), "the key frame has its sets again");
    assert!(nals(&units[2].1.data).contains(&vec![0x41, 0x9a, 7]));
    assert_eq!(tags.counters().damaged_tags, 0);
}

#[test]
fn other_parameter_sets_want_a_header_in_front() {
    let mut writer = TagWriter::new(&key_frame(SPS)).unwrap();
    let before = writer.header();
    let mut other = SPS.to_vec();
    other[3] = 0x1e;
    assert_eq!(writer.write(&key_frame(&other), 0).unwrap().0, Written::AfterHeader);
    assert_ne!(writer.header(), before);
    assert_eq!(writer.write(&key_frame(&other), 0).unwrap().0, Written::Frame);
    // A set alone, without the picture parameter set that belongs to it, says nothing whole; what was told before holds.
    let torn = unit(Codec::H264, annex_b(&[SPS, &[0x65, 0x88, 7]]), true);
    let told = writer.header();
    assert!(writer.write(&torn, 0).is_err());
    assert_eq!(writer.header(), told);
    let mut sound = TagWriter::new(&aac(4)).unwrap();
    assert_eq!(sound.header().unwrap(), [0xaf, 0, 0x12, 0x10]);
    assert_eq!(sound.write(&aac(3), 0).unwrap().0, Written::AfterHeader);
    assert_eq!(sound.header().unwrap(), [0xaf, 0, 0x11, 0x90]);
}

#[test]
fn codecs_without_a_number_have_letters() {
    let mut opus = TagWriter::new(&unit(Codec::Opus, vec![0xfc, 1, 2], true)).unwrap();
    let header = opus.header().unwrap();
    assert_eq!(header, *b"\x90OpusOpusHead\x01\x02\0\0\x80\xbb\0\0\0\0\0");
    assert_eq!(
        opus.write(&unit(Codec::Opus, vec![0xfc, 1, 2], true), 0).unwrap().1,
        *b"\x91Opus\xfc\x01\x02"
    );
    assert_eq!(opus.format().id(), u32::from_be_bytes(*b"Opus"));
    let mut tags = Tags::new();
    tags.push(false, 0, &header);
    tags.push(false, 20, b"\x91Opus\xfc\x01\x02");
    assert_eq!(read(&mut tags)[0].1.data[..], [0xfc, 1, 2]);
    for codec in [Codec::Mpeg2Video, Codec::S302m] {
        assert!(TagWriter::new(&unit(codec, vec![1, 2, 3], true)).is_err());
        assert_eq!(TagFormat::of(codec), None);
    }
}

#[test]
fn times_beyond_24_bits_stand_at_their_ends() {
    let mut writer = TagWriter::new(&key_frame(SPS)).unwrap();
    assert_eq!(writer.write(&picture(), i32::MAX).unwrap().1[2..5], [0x7f, 0xff, 0xff]);
    assert_eq!(writer.write(&picture(), i32::MIN).unwrap().1[2..5], [0x80, 0, 0]);
}
