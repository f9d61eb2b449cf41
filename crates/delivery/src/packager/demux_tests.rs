use super::super::testing::{BEGUN, Intake, aac, other_key, picture};
use super::*;
use crate::packager::{Event, Kind, LeftOut, RenditionName, Settings};
use glassline_media::AccessUnit;
use glassline_media::bitstream::h264::{self, NalType};
use std::time::Duration;

const FILE_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
/// AAC-LC, 48 kHz, stereo.
const AAC_HEADER: &[u8] = &[0xAF, 0, 0x11, 0x90];
/// A picture lasts so long, in milliseconds.
const PICTURE_MS: u32 = 40;

fn tag(kind: u8, time_ms: u32, payload: &[u8]) -> Vec<u8> {
    let (size, [extended, t0, t1, t2]) = ((payload.len() as u32).to_be_bytes(), time_ms.to_be_bytes());
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[t0, t1, t2, extended, 0, 0, 0], payload, &back].concat()
}

/// The sequence header with the sets of a key frame.
fn avc_header(key: &AccessUnit) -> Vec<u8> {
    let find = |wanted| h264::nals(&key.data).find(|nal| nal.kind() == wanted).expect("a set").bytes;
    let (sps, pps) = (find(NalType::Sps), find(NalType::Pps));
    let mut payload = vec![0x17, 0, 0, 0, 0, 1, sps[1], sps[2], sps[3], 0xff, 0xe1, 0, sps.len() as u8];
    payload.extend_from_slice(sps);
    payload.extend_from_slice(&[1, 0, pps.len() as u8]);
    payload.extend_from_slice(pps);
    tag(9, 0, &payload)
}

/// A unit's slices as a tag; presented `later_ms` after they are decoded.
fn avc(unit: &AccessUnit, time_ms: u32, later_ms: u8) -> Vec<u8> {
    let mut payload = vec![if h264::is_key(&unit.data) { 0x17 } else { 0x27 }, 1, 0, 0, later_ms];
    for nal in h264::nals(&unit.data).filter(|nal| nal.kind().is_slice()) {
        payload.extend_from_slice(&(nal.bytes.len() as u32).to_be_bytes());
        payload.extend_from_slice(nal.bytes);
    }
    tag(9, time_ms, &payload)
}

fn sound(time_ms: u32) -> Vec<u8> {
    let frame = aac(80, 0);
    tag(8, time_ms, &[&[0xAF, 1][..], &frame.data[7..]].concat())
}

/// What comes in front: the file header and the sequence headers.
fn prelude() -> Vec<u8> {
    [FILE_HEADER, &avc_header(&picture(true, 10, 0)), &tag(8, 0, AAC_HEADER)].concat()
}

/// Pictures with a key frame every two seconds, and sound beside them, from a time on.
fn body(pictures: u32, from_ms: u32) -> Vec<u8> {
    let mut sounds = 0;
    let tags = (0..pictures).map(|index| {
        let now = index * PICTURE_MS;
        let mut tags = avc(&picture(index % 50 == 0, 500, 0), from_ms.wrapping_add(now), 80);
        // 1,024 samples, in whole milliseconds.
        while sounds * 64 / 3 <= now {
            tags.extend(sound(from_ms.wrapping_add(sounds * 64 / 3)));
            sounds += 1;
        }
        tags
    });
    tags.collect::<Vec<_>>().concat()
}

fn poll(intake: &mut Intake) -> Vec<Event> {
    std::iter::from_fn(|| intake.poll()).collect()
}

fn packaged(body: &[u8], chop: usize) -> (Intake, Vec<Event>) {
    let mut intake = Intake::new(Mux::Flv, Settings::default());
    intake.push(&prelude(), BEGUN, None);
    let mut at = 0;
    for part in body.chunks(chop) {
        intake.push(part, BEGUN, Some(at));
        at += part.len() as u64;
    }
    intake.finish(BEGUN);
    let events = poll(&mut intake);
    (intake, events)
}

fn ends(events: &[Event], name: RenditionName) -> usize {
    let own = |event: &&Event| matches!(event, Event::SegmentEnds { rendition, .. } if *rendition == name);
    events.iter().filter(own).count()
}

#[test]
fn flv_goes_in_as_bytes() {
    let body = body(150, 0);
    let (intake, events) = packaged(&body, 1000);
    assert_eq!(events, packaged(&body, usize::MAX).1, "any chop gives the same");
    assert_eq!((ends(&events, RenditionName::Video), ends(&events, RenditionName::Audio(1))), (3, 3));
    assert_eq!(events.last(), Some(&Event::Ended));
    assert!(intake.packager.left_out().is_empty() && !intake.packager.takes_nothing());
    let video = intake.packager.presentation().rendition(RenditionName::Video).unwrap();
    let segments: Vec<_> = video.complete().collect();
    assert_eq!(segments[0].duration_time(), Duration::from_secs(2));
    // Segments begin where their key frames' tags do.
    let source = segments[1].source.clone().unwrap();
    let is_key = |at: u64| body[at as usize] == 9 && body[at as usize + 11] == 0x17;
    assert!(is_key(source.start) && segments[0].source == Some(0..source.start));
    let sound = intake.packager.presentation().rendition(RenditionName::Audio(1)).unwrap();
    assert!(matches!(sound.track().unwrap().kind, Kind::Audio { channels: 2, .. }));
}

#[test]
fn times_of_flv_that_wrap_go_on_in_the_same_epoch() {
    let (intake, events) = packaged(&body(150, u32::MAX - 3000), 777);
    assert_eq!((ends(&events, RenditionName::Video), ends(&events, RenditionName::Audio(1))), (3, 3));
    assert_eq!(intake.packager.presentation().epochs().count(), 1);
}

#[test]
fn another_sequence_header_begins_an_epoch_at_its_key_frame() {
    let rest = (0..60).map(|index| {
        let unit = if index % 50 == 0 { other_key(0) } else { picture(false, 500, 0) };
        [avc(&unit, 4000 + index * PICTURE_MS, 80), sound(4000 + index * PICTURE_MS)].concat()
    });
    let rest: Vec<u8> = rest.collect::<Vec<_>>().concat();
    let (intake, _) = packaged(&[body(100, 0), avc_header(&other_key(0)), rest].concat(), 999);
    let epochs: Vec<_> = intake.packager.presentation().epochs().collect();
    assert_eq!(epochs.len(), 2);
    assert_eq!(epochs[1].start - epochs[0].start, Duration::from_secs(4));
}

#[test]
fn tracks_of_flv_that_are_not_packaged_are_named() {
    let mut intake = Intake::new(Mux::Flv, Settings::default());
    intake.push(&[FILE_HEADER, &tag(9, 0, &[0x14, 1, 2]), &tag(8, 0, &[0xb2, 1])].concat(), BEGUN, None);
    assert!(intake.packager.takes_nothing());
    let named: Vec<_> =
        intake.packager.left_out().iter().map(|left| (left.pid, left.codec.to_string())).collect();
    assert_eq!(named, [(9, "VP6".to_owned()), (8, "Speex".to_owned())]);
    // Sound alone is packaged.
    intake.begin(Mux::Flv, BEGUN);
    intake.push(&[FILE_HEADER, &tag(9, 0, &[0x14, 1, 2]), &tag(8, 0, AAC_HEADER)].concat(), BEGUN, None);
    (0..200).for_each(|index| intake.push(&sound(index * 64 / 3), BEGUN, None));
    assert!(!intake.packager.takes_nothing() && intake.packager.left_out().len() == 1);
    assert!(ends(&poll(&mut intake), RenditionName::Audio(1)) > 0);
}

#[test]
fn a_stream_may_come_back_in_another_mux() {
    let mut intake = Intake::new(Mux::MpegTs, Settings::default());
    intake.push(&[0x47; 1880], BEGUN, Some(0));
    intake.begin(Mux::Flv, BEGUN);
    intake.push(&prelude(), BEGUN, None);
    intake.push(&body(60, 0), BEGUN, Some(5000));
    assert_eq!((intake.demux.mux(), ends(&poll(&mut intake), RenditionName::Video)), (Mux::Flv, 1));
    // Of a mux that is carried alone there is nothing to play.
    let mut carried = Intake::new(Mux::Ogg, Settings::default());
    carried.push(b"OggS", BEGUN, Some(0));
    carried.finish(BEGUN);
    assert_eq!(poll(&mut carried), [Event::Ended]);
    assert_eq!(carried.packager.left_out(), &[] as &[LeftOut]);
}
