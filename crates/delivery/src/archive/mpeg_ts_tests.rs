use super::*;
use crate::packager::RenditionName;
use crate::packager::Settings;
use crate::packager::later;
use crate::packager::testing::{BEGUN, Checked, feed, video_and_aac};
use glassline_media::container::ts::{Continuity, ContinuityChecker, Demuxer, PACKET_BYTES, Packet};
use glassline_media::{Codec, Ticks};
use proptest::prelude::*;
use std::time::Duration;

const BOTH: [RenditionName; 2] = [RenditionName::Video, RenditionName::Audio(1)];

/// Twenty seconds in segments of two seconds, with a key frame each second.
fn twenty() -> Checked {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 500, 25);
    checked.finish(later(BEGUN, Duration::from_secs(20)));
    checked
}

/// What a number is made of.
fn ingredients(checked: &Checked, number: u64) -> Vec<Ingredient> {
    let ingredient = |name: RenditionName| {
        let header = checked.inits[&(name, 1)].clone();
        let segment = checked.segments.get(&(name, number)).map(|grown| Bytes::from(grown.bytes.clone()));
        let language = (!name.is_video()).then_some(*b"eng");
        Ingredient { header, segment, language }
    };
    BOTH.into_iter().map(ingredient).collect()
}

fn numbers(checked: &Checked) -> Vec<u64> {
    let names = checked.segments.keys().filter(|(name, _)| name.is_video());
    names.map(|(_, number)| *number).collect()
}

/// The units in it.
fn units(ts: &[u8]) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(ts);
    demuxer.finish();
    let unit = |event| match event {
        glassline_media::container::ts::Event::AccessUnit { unit, .. } => Some(unit),
        _ => None,
    };
    std::iter::from_fn(|| demuxer.poll()).filter_map(unit).collect()
}

#[test]
fn each_segment_is_whole_in_itself_and_together_they_are_the_stream() {
    let checked = twenty();
    let mut all = Vec::new();
    let mut pictures = 0;
    for number in numbers(&checked) {
        let ts = segment(&ingredients(&checked, number)).unwrap();
        let pids: Vec<u16> = ts
            .chunks(PACKET_BYTES)
            .map(|packet| Packet::parse(packet.try_into().unwrap()).unwrap().pid)
            .collect();
        assert_eq!(pids[..2], [0, 0x1000], "the tables come first");
        let mut continuity = ContinuityChecker::new();
        for packet in ts.chunks(PACKET_BYTES) {
            let packet = Packet::parse(packet.try_into().unwrap()).unwrap();
            assert!(!matches!(continuity.check(&packet), Continuity::Lost { .. }), "{number}");
        }
        assert_eq!(continuity.errors(), 0);
        let of_this = units(&ts);
        let first = of_this.iter().find(|unit| unit.codec.is_video()).unwrap();
        assert!(first.random_access, "it begins with a key frame");
        pictures += of_this.iter().filter(|unit| unit.codec.is_video()).count();
        all.extend(of_this);
    }
    assert_eq!(pictures, 500);
    for is_video in [true, false] {
        let stamps: Vec<Ticks> =
            all.iter().filter(|unit| unit.codec.is_video() == is_video).map(|unit| unit.dts).collect();
        let steps: Vec<i64> = stamps.windows(2).map(|pair| (pair[1] - pair[0]).0).collect();
        let usual = if is_video { 3600 } else { 1920 };
        assert!(steps.iter().all(|step| (step - usual).abs() <= 1), "no stamp is missing or comes again");
    }
    // Sound is where it is to the pictures in CMAF: they began together.
    let at = |is_video: bool| all.iter().find(|unit| unit.codec.is_video() == is_video).unwrap().pts;
    assert!((at(true) - at(false)).0.abs() <= 1920);
}

#[test]
fn what_is_missing_of_a_rendition_is_missing_and_the_program_is_the_same() {
    let checked = twenty();
    let number = numbers(&checked)[3];
    let whole = segment(&ingredients(&checked, number)).unwrap();
    for lacking in 0..2 {
        let mut some = ingredients(&checked, number);
        some[lacking].segment = None;
        let ts = segment(&some).unwrap();
        assert_eq!(ts[..2 * PACKET_BYTES], whole[..2 * PACKET_BYTES], "PAT and PMT");
        let is_there = |codec: Codec| units(&ts).iter().any(|unit| unit.codec == codec);
        assert_eq!([is_there(Codec::H264), is_there(Codec::Aac)], [lacking != 0, lacking != 1]);
    }
    let twice = [&ingredients(&checked, number)[..], &ingredients(&checked, number)[..1]].concat();
    assert!(matches!(segment(&twice), Err(NoSegment::Codec)));
    assert!(matches!(segment(&[]), Err(NoSegment::Mux(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_panic(at in 0usize..4000, value: u8, cut in 0usize..4000, which in 0usize..2, of_header: bool) {
        let checked = twenty();
        let mut some = ingredients(&checked, numbers(&checked)[2]);
        let of = &mut some[which];
        let bytes = if of_header { &mut of.header } else { of.segment.as_mut().unwrap() };
        let mut changed = bytes.to_vec();
        let length = changed.len();
        changed[at % length] = value;
        changed.truncate(length - cut % length);
        *bytes = changed.into();
        let _ = segment(&some);
    }
}
