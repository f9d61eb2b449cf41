use super::*;
use glassline_transport::ancillary::{
    CaptionRate, CaptionType, Cdp, Field, Payload, Source, TimeCode, Triplet,
};
use proptest::prelude::*;

fn found() -> Found {
    Found {
        clock: Clock::new(),
        media_clock: MediaClock::new(None),
        clocks: Clocks::default(),
        payloads: 0,
        frames: 0,
        captions: 0,
        contents: 0,
        time_code: None,
        kinds: BTreeMap::new(),
        unlisted: 0,
    }
}

fn received(packets: Vec<Packet>, is_last: bool) -> Received {
    let payload = Payload { field: Field::Unspecified, packets, ..Payload::default() };
    Received { payload, timestamp: 0, is_last, arrived: Time::from_millis(1) }
}

fn packet(did: u8, sdid: u8, line: u16) -> Packet {
    let mut packet = Packet::new(did, sdid, &[1, 2, 3]).unwrap();
    packet.line = line;
    packet
}

fn captions(triplets: &[Triplet]) -> Packet {
    let rate = CaptionRate::of(glassline_media::FrameRate::new(30, 1).unwrap()).unwrap();
    Cdp::new(rate, 0, triplets).unwrap().packet().unwrap()
}

#[test]
fn payloads_and_whole_frames_are_counted_apart() {
    let mut found = found();
    found.push(&received(vec![], false));
    found.push(&received(vec![packet(0x41, 5, 11)], true));
    assert_eq!((found.payloads, found.frames, found.kinds.len()), (2, 1, 1));
    assert_eq!(found.clocks.captured_by, Some("arrivals"));
}

#[test]
fn one_kind_on_two_lines_is_told_twice() {
    let mut found = found();
    for line in [11, 12, 11] {
        found.note(&packet(0x41, 5, line));
    }
    assert_eq!(found.kinds, BTreeMap::from([((0x41, 5, 11), 2), ((0x41, 5, 12), 1)]));
}

#[test]
fn kinds_beyond_those_that_are_listed_are_counted_together() {
    let mut found = found();
    for line in 0..KINDS_MAX as u16 + 3 {
        found.note(&packet(0x50, 1, line));
    }
    found.note(&packet(0x50, 1, 0));
    assert_eq!((found.kinds.len(), found.unlisted, found.kinds[&(0x50, 1, 0)]), (KINDS_MAX, 3, 2));
}

#[test]
fn captions_that_say_nothing_are_packets_without_contents() {
    let mut found = found();
    found.note(&captions(&[Triplet::null(true), Triplet::PADDING]));
    assert_eq!((found.captions, found.contents), (1, 0));
    let letters = Triplet { is_valid: true, kind: CaptionType::Field1, data: [0xC1, 0xC2] };
    found.note(&captions(&[letters]));
    assert_eq!((found.captions, found.contents), (2, 1));
}

#[test]
fn the_newest_time_code_is_told() {
    let mut found = found();
    for frames in [3, 4] {
        let (hours, minutes, seconds) = (10, 20, 30);
        let source = Source::Ltc;
        let code = TimeCode { hours, minutes, seconds, frames, is_drop_frame: false, source };
        found.note(&code.packet().unwrap());
    }
    assert_eq!(found.time_code.as_deref(), Some("10:20:30:04"));
}

proptest! {
    #[test]
    fn each_packet_is_counted_once(kinds in prop::collection::vec((0..9_u8, 0..9_u16), 0..200)) {
        let mut found = found();
        kinds.iter().for_each(|(sdid, line)| found.note(&packet(0x50, *sdid, *line)));
        prop_assert_eq!(found.kinds.values().sum::<u64>() + found.unlisted, kinds.len() as u64);
        let mut listed: Vec<_> = kinds.clone();
        listed.sort_unstable();
        listed.dedup();
        prop_assert_eq!(found.kinds.len(), listed.len().min(KINDS_MAX));
    }
}
