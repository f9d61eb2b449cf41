//! Publishers of all kinds, and what comes out.

use super::*;
use crate::assemble::program;
use crate::packager::testing::{
    PICTURE, aac, captured_h265, captured_picture, core_aac, h265, opus, other_key, picture,
};
use glassline_media::AccessUnit;
use glassline_media::Ticks;
use glassline_media::Utc;
use glassline_media::bitstream;
use glassline_media::bitstream::aac_config::HeAac;
use glassline_media::container::cmaf::{
    self, Brand, Captured, LiveTimeline, Media, Run, SegmentKind, Track, write_chunk, write_init,
    write_segment_type,
};
use glassline_media::container::ts::{self, Demuxer};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SOUND: i64 = 1800;

/// Writes one track as a publisher does.
struct Encoder {
    timeline: LiveTimeline,
    sequence: u32,
}

impl Encoder {
    fn new(first: &AccessUnit) -> Encoder {
        let track = Track { id: 1, media: Media::of(first, false).unwrap() };
        Encoder { timeline: LiveTimeline::new(track, Ticks(0)), sequence: 0 }
    }

    fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_init(Brand::Cmaf, std::slice::from_ref(self.timeline.track()), &mut out);
        out
    }

    fn chunk(&mut self, unit: &AccessUnit, captured: Option<Utc>) -> Vec<u8> {
        let timed = self.timeline.push(unit).unwrap();
        self.sequence += 1;
        let media_time = timed.decode_time.saturating_add_signed(timed.sample.composition_offset.into());
        let captured = captured.map(|utc| Captured { track_id: 1, utc, media_time });
        let (samples, mut out) = (&[timed.sample], Vec::new());
        let run = Run { track_id: 1, decode_time: timed.decode_time, samples, data: &timed.data };
        write_segment_type(SegmentKind::Chunk, &mut out);
        write_chunk(self.sequence, captured, &[run], &mut out);
        out
    }

    fn chunks(&mut self, units: &[AccessUnit]) -> Vec<u8> {
        units.iter().flat_map(|unit| self.chunk(unit, None)).collect()
    }
}

fn pictures(numbers: std::ops::Range<i64>) -> Vec<AccessUnit> {
    numbers.map(|number| picture(number % 25 == 0, 20, number * PICTURE)).collect()
}

fn sounds(numbers: std::ops::Range<i64>) -> Vec<AccessUnit> {
    numbers.map(|number| opus(9, number * SOUND)).collect()
}

/// An ingest whose packets are taken apart.
#[derive(Default)]
struct House {
    ingest: Ingest,
    now: Time,
    demuxers: BTreeMap<usize, Demuxer>,
    units: BTreeMap<usize, Vec<AccessUnit>>,
    names: Vec<String>,
    seams: usize,
    packets: Vec<u8>,
}

impl House {
    fn at(&mut self, ms: u64) -> &mut House {
        self.now = Time::from_millis(ms);
        self.ingest.handle_timeout(self.now);
        self.look();
        self
    }

    fn begin(&mut self, path: &str) -> u64 {
        self.ingest.begin(path, self.now).unwrap()
    }

    fn push(&mut self, id: u64, bytes: &[u8]) -> Result<(), IngestError> {
        let pushed = self.ingest.push(id, bytes, self.now);
        self.look();
        pushed
    }

    fn end(&mut self, id: u64) -> Result<Ended, IngestError> {
        let ended = self.ingest.end(id, self.now);
        if !matches!(ended, Ok(Ended::Waits)) {
            self.ingest.close(id, self.now);
        }
        self.look();
        ended
    }

    /// A whole request.
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<Ended, IngestError> {
        let id = self.begin(path);
        let pushed = self.push(id, bytes);
        let ended = self.end(id);
        pushed.and(ended)
    }

    fn look(&mut self) {
        while let Some(output) = self.ingest.poll() {
            match output {
                Output::Begin { stream, version } => {
                    assert!(stream == self.names.len() || stream == self.names.len() + 1);
                    self.names.push(version);
                }
                Output::Seam { stream } => {
                    self.seams += 1;
                    self.demuxers.insert(stream, Demuxer::new());
                }
                Output::Packets { stream, bytes } => {
                    assert!(!bytes.is_empty() && bytes.len() % ts::PACKET_BYTES == 0);
                    self.packets.extend_from_slice(&bytes);
                    let demuxer = self.demuxers.entry(stream).or_default();
                    demuxer.push(&bytes);
                    while let Some(event) = demuxer.poll() {
                        if let ts::Event::AccessUnit { mut unit, .. } = event {
                            (unit.pts, unit.dts) = (unit.pts - program::LEAD, unit.dts - program::LEAD);
                            self.units.entry(stream).or_default().push(unit);
                        }
                    }
                }
            }
        }
    }

    /// When the units of a stream are decoded, in their order: pictures, or sound.
    fn times(&self, stream: usize, video: bool) -> Vec<i64> {
        let units = self.units.get(&stream).into_iter().flatten();
        units.filter(|unit| unit.codec.is_video() == video).map(|unit| unit.dts.0).collect()
    }

    fn pictures(&self) -> usize {
        self.times(0, true).len()
    }
}

fn expected(count: i64, ticks: i64) -> Vec<i64> {
    (0..count).map(|number| number * ticks).collect()
}

#[test]
fn one_long_request_a_track_goes_on_chunk_by_chunk() {
    let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    let (first, second) = (house.begin("Streams(video.cmfv)"), house.begin("Streams(audio.cmfa)"));
    house.push(first, &video.header()).unwrap();
    house.push(second, &sound.header()).unwrap();
    house.at(500);
    for number in 0..50 {
        let chunk = video.chunk(&pictures(number..number + 1)[0], None);
        let (begin, last) = chunk.split_at(chunk.len() - 1);
        house.push(first, begin).unwrap();
        assert_eq!(house.pictures() as i64, number.max(0), "not before its last byte");
        for unit in sounds(number * 2..number * 2 + 2) {
            house.push(second, &sound.chunk(&unit, None)).unwrap();
        }
        house.push(first, last).unwrap();
        assert_eq!(house.pictures() as i64, number + 1, "and with it");
    }
    assert_eq!(house.end(first), Ok(Ended::Taken));
    assert_eq!(house.end(second), Ok(Ended::Taken));
    assert_eq!(house.times(0, true), expected(50, PICTURE));
    assert_eq!(house.times(0, false), expected(100, SOUND));
    assert_eq!((house.seams, house.names.len()), (0, 0));
    let counters = house.ingest.counters();
    assert_eq!(counters, Counters { chunks: 150, ..Counters::default() });
    assert_eq!(house.ingest.held_bytes(), 0);
}

#[test]
fn one_request_a_header_and_a_segment_whatever_they_are_called() {
    for [header, segment] in
        [["init-streamT.m4s", "chunk-streamT-N.m4s"], ["T/init.mp4", "T/N.m4s"], ["T", "T"]]
    {
        let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&aac(9, 0)));
        let named = |pattern: &str, track: &str, number: i64| {
            pattern.replace('T', track).replace('N', &number.to_string())
        };
        let mut house = House::default();
        house.put(&named(header, "0", 0), &video.header()).unwrap();
        house.put(&named(header, "1", 0), &sound.header()).unwrap();
        for number in 0..4 {
            let bytes = video.chunks(&pictures(number * 25..number * 25 + 25));
            house.put(&named(segment, "0", number + 1), &bytes).unwrap();
            let units: Vec<_> = (number * 50..number * 50 + 50).map(|at| aac(9, at * 1920)).collect();
            house.put(&named(segment, "1", number + 1), &sound.chunks(&units)).unwrap();
            // The header may come again, as where a connection was lost.
            house.put(&named(header, "0", 0), &video.header()).unwrap();
            house.at(1000 * (number as u64 + 1));
        }
        assert_eq!(house.times(0, true), expected(100, PICTURE), "{header}");
        assert_eq!(house.times(0, false), expected(200, 1920), "{header}");
        assert_eq!(house.ingest.counters(), Counters { chunks: 300, ..Counters::default() });
        assert_eq!(house.ingest.expected_quiet(), Duration::from_micros(1_066_666), "50 frames of sound");
    }
}

#[test]
fn requests_that_overtake_each_other_are_put_right() {
    let mut video = Encoder::new(&picture(true, 9, 0));
    let segments: Vec<_> =
        (0..4).map(|number| video.chunks(&pictures(number * 25..number * 25 + 25))).collect();
    let mut house = House::default();
    // The first segment is there before its header.
    let early = house.begin("1.m4s");
    house.push(early, &segments[0]).unwrap();
    assert_eq!(house.end(early), Ok(Ended::Waits));
    assert_eq!(house.ingest.outcome(early), None);
    house.put("init.mp4", &video.header()).unwrap();
    assert_eq!(house.ingest.outcome(early), Some(Ok(())));
    house.ingest.close(early, house.now);
    house.at(1000);
    assert_eq!(house.pictures(), 25);
    house.put("3.m4s", &segments[2]).unwrap();
    assert_eq!(house.pictures(), 25);
    house.put("2.m4s", &segments[1]).unwrap();
    house.put("2.m4s", &segments[1]).unwrap();
    house.put("4.m4s", &segments[3]).unwrap();
    assert_eq!(house.times(0, true), expected(100, PICTURE));
    assert_eq!(house.ingest.counters().late_units, 25);
}

#[test]
fn a_segment_does_not_take_another_tracks_header_because_that_came_first() {
    let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    house.put("init-stream1.m4s", &sound.header()).unwrap();
    let early = house.begin("chunk-stream0-00001.m4s");
    house.push(early, &video.chunks(&pictures(0..25))).unwrap();
    assert_eq!(house.ingest.poll_timeout(), Some(Time::from_millis(1000)));
    house.put("init-stream0.m4s", &video.header()).unwrap();
    assert_eq!(house.end(early), Ok(Ended::Taken));
    house.ingest.close(early, house.now);
    house.put("chunk-stream1-00001.m4s", &sound.chunks(&sounds(0..50))).unwrap();
    house.at(1000);
    assert_eq!(house.times(0, true), expected(25, PICTURE));
    assert_eq!(house.ingest.counters().late_units, 0);
}

#[test]
fn a_segment_that_is_like_two_others_headers_waits_for_its_own() {
    let (mut video, sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    house.put("init-stream2.m4s", &sound.header()).unwrap();
    house.put("init-stream0.m4s", &Encoder::new(&other_key(0)).header()).unwrap();
    let early = house.begin("chunk-stream1-00001.m4s");
    house.push(early, &video.chunks(&pictures(0..25))).unwrap();
    house.put("init-stream1.m4s", &video.header()).unwrap();
    assert_eq!(house.end(early), Ok(Ended::Taken));
    house.at(3000);
    // The best version is the other one, of which nothing has come.
    assert_eq!((house.times(1, true), house.times(0, true).len()), (expected(25, PICTURE), 0));
    assert_eq!(house.names, ["240p25", "180p25"]);
}

#[test]
fn a_segment_whose_name_fits_no_header_takes_the_only_one_in_the_end() {
    let mut video = Encoder::new(&picture(true, 9, 0));
    let mut house = House::default();
    house.put("Header-of-pictures.mp4", &video.header()).unwrap();
    let early = house.begin("1.m4s");
    house.push(early, &video.chunks(&pictures(0..25))).unwrap();
    assert_eq!(house.pictures(), 0);
    house.at(1000);
    assert_eq!(house.pictures(), 25);
    // Once that is settled nothing waits.
    house.put("2.m4s", &video.chunks(&pictures(25..50))).unwrap();
    assert_eq!(house.pictures(), 50);
}

#[test]
fn a_missing_segment_is_waited_for_but_not_for_long() {
    let mut video = Encoder::new(&picture(true, 9, 0));
    let mut house = House::default();
    house.put("init.mp4", &video.header()).unwrap();
    house.put("1.m4s", &video.chunks(&pictures(0..25))).unwrap();
    house.at(1000);
    let lost = video.chunks(&pictures(25..50));
    house.put("3.m4s", &video.chunks(&pictures(50..75))).unwrap();
    assert_eq!(house.pictures(), 25);
    assert_eq!(house.ingest.poll_timeout(), Some(Time::from_millis(1250)));
    house.at(1250);
    assert_eq!(house.pictures(), 50);
    house.put("2.m4s", &lost).unwrap();
    assert_eq!(house.pictures(), 50);
    assert_eq!((house.ingest.counters().gaps, house.ingest.counters().late_units), (1, 25));
}

#[test]
fn pictures_begin_without_sound_and_go_on_with_it() {
    let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    house.put("v", &[video.header(), video.chunks(&pictures(0..25))].concat()).unwrap();
    assert_eq!((house.pictures(), house.ingest.poll_timeout()), (0, Some(Time::from_millis(1000))));
    house.at(1000);
    assert_eq!((house.pictures(), house.seams), (25, 0));
    let _ = sound.chunks(&sounds(0..40));
    house.put("a", &[sound.header(), sound.chunks(&sounds(40..60))].concat()).unwrap();
    house.put("v", &video.chunks(&pictures(25..30))).unwrap();
    assert_eq!((house.seams, house.times(0, false).len()), (1, 20));
    assert_eq!(house.pictures(), 30);
}

#[test]
fn he_aac_is_said_in_the_stream_as_the_header_says_it() {
    let said = |parametric_stereo| Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
    let mut house = House::default();
    for (he_aac, from, seams) in [(None, 0, 0), (said(false), 10, 1)] {
        let first = core_aac(40, 0);
        let media = Media::of(&first, false).unwrap().told(he_aac);
        let timeline = LiveTimeline::new(Track { id: 1, media }, Ticks(0));
        let mut sound = Encoder { timeline, sequence: 0 };
        let units: Vec<_> = (from..from + 10).map(|number| core_aac(40, number * 3840)).collect();
        house.put("sound", &[sound.header(), sound.chunks(&units)].concat()).unwrap();
        let now = house.now;
        house.at(now.as_nanos() / 1_000_000 + 4000);
        assert_eq!(house.seams, seams);
        assert_eq!(house.demuxers[&0].program().unwrap().audio().unwrap().he_aac, he_aac);
    }
    assert_eq!(house.times(0, false), expected(20, 3840));
}

#[test]
fn several_versions_become_streams_of_their_own_with_the_sound() {
    let (mut low, mut high) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&other_key(0)));
    let mut sound = Encoder::new(&opus(9, 0));
    let mut house = House::default();
    house.put("init-0.mp4", &low.header()).unwrap();
    house.put("init-1.mp4", &high.header()).unwrap();
    house.put("init-2.mp4", &sound.header()).unwrap();
    house.put("seg-2-1.mp4", &sound.chunks(&sounds(0..50))).unwrap();
    house.at(500);
    house.put("seg-0-1.mp4", &low.chunks(&pictures(0..25))).unwrap();
    house.put("seg-1-1.mp4", &high.chunks(&[other_key(0)])).unwrap();
    house.at(2000);
    assert_eq!(house.names, ["240p25", "180p25"], "best first, whatever the order in which they come");
    assert_eq!((house.times(0, true).len(), house.times(1, true).len()), (1, 25));
    for stream in [0, 1] {
        assert_eq!(house.times(stream, false), expected(50, SOUND));
    }
    // One more of the same shape has no name left.
    let another = Encoder::new(&picture(true, 9, 0)).header();
    house.put("init-3.mp4", &another).unwrap();
    let again = Encoder::new(&picture(true, 9, 0)).chunks(&pictures(0..1));
    let error = house.put("seg-3-1.mp4", &again).unwrap_err();
    assert_eq!(error, IngestError::SameName { name: "180p25".to_owned() });
    assert_eq!(house.ingest.counters().refused_tracks, 1);
}

/// A header that says a bit rate, as others write it.
fn with_bitrate(header: &[u8], bits: u32) -> Vec<u8> {
    let mut header = header.to_vec();
    let avcc = header.windows(4).position(|window| window == b"avcC").unwrap() - 4;
    let btrt = [&[0, 0, 0, 20], &b"btrt"[..], &[0; 4], &bits.to_be_bytes(), &bits.to_be_bytes()].concat();
    header.splice(avcc..avcc, btrt);
    for kind in [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1"] {
        let at = header.windows(4).position(|window| window == kind).unwrap() - 4;
        let size = u32::from_be_bytes(header[at..at + 4].try_into().unwrap()) + 20;
        header[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    header
}

#[test]
fn versions_that_are_alike_are_told_by_their_bit_rates() {
    let header = Encoder::new(&picture(true, 9, 0)).header();
    let mut house = House::default();
    house.put("a/init", &with_bitrate(&header, 500_000)).unwrap();
    house.put("b/init", &with_bitrate(&header, 1_999_800)).unwrap();
    house.put("c/init", &Encoder::new(&other_key(0)).header()).unwrap();
    house.at(1000);
    assert_eq!(house.names, ["240p25", "180p25-500k", "180p25-2M"]);
    // Later ones too.
    house.put("d/init", &with_bitrate(&header, 750_000)).unwrap();
    house.at(2000);
    assert_eq!(house.names[3..], ["180p25"]);
    house.put("e/init", &with_bitrate(&header, 100_000)).unwrap();
    assert_eq!(house.names[4..], ["180p25-100k"]);
}

#[test]
fn a_version_that_comes_later_stands_beside_the_name_that_was_asked_for() {
    let (mut first, mut second) = (Encoder::new(&other_key(0)), Encoder::new(&picture(true, 9, 0)));
    let mut house = House::default();
    house.put("a/v", &[first.header(), first.chunks(&[other_key(0)])].concat()).unwrap();
    house.at(1000);
    house.put("b/v", &[second.header(), second.chunks(&pictures(0..5))].concat()).unwrap();
    assert_eq!(house.names, ["180p25"]);
    assert_eq!((house.times(0, true).len(), house.times(1, true).len(), house.seams), (1, 5, 0));
}

#[test]
fn what_was_captured_when_comes_through() {
    let at = |number: i64| Utc::from_nanos(1_700_000_000_000_000_000 + number as u64 * 40_000_000);
    let own = Utc::from_nanos(5_000_000_000);
    let of_h264 = |key, number| picture(key, 20, number * PICTURE);
    let of_h265 = |key, number| h265(key, number * PICTURE);
    for (make, saying) in [
        (&of_h264 as &dyn Fn(bool, i64) -> AccessUnit, captured_picture(false, own, 3 * PICTURE)),
        (&of_h265, captured_h265(false, own, 3 * PICTURE)),
    ] {
        let mut video = Encoder::new(&make(true, 0));
        let mut house = House::default();
        house.put("v", &video.header()).unwrap();
        house.at(1000);
        for number in 0..3 {
            house.put("v", &video.chunk(&make(number == 0, number), Some(at(number)))).unwrap();
        }
        house.put("v", &video.chunk(&saying, Some(at(3)))).unwrap();
        house.put("v", &video.chunk(&make(false, 4), None)).unwrap();
        house.put("v", &video.chunk(&make(false, 5), None)).unwrap();
        let of_unit = |unit: &AccessUnit| -> Vec<Utc> {
            let (head, _) = bitstream::head(unit.codec, &unit.data);
            head.filter_map(|nal| bitstream::messages(unit.codec, &nal)?.capture_utc()).collect()
        };
        // The last one may still be open.
        let said: Vec<_> = house.units[&0].iter().map(of_unit).take(5).collect();
        let nearest = |found: Utc, wanted: Utc| found.as_nanos().abs_diff(wanted.as_nanos()) <= 1;
        for number in 0..3 {
            assert!(said[number].len() == 1 && nearest(said[number][0], at(number as i64)), "{said:?}");
        }
        assert_eq!(said[3..], [vec![own], vec![]], "its own time, and none");
    }
}

#[test]
fn a_publisher_says_that_it_is_over() {
    let mut video = Encoder::new(&picture(true, 9, 0));
    let mut house = House::default();
    house.put("v", &[video.header(), video.chunks(&pictures(0..2))].concat()).unwrap();
    assert!(!house.ingest.is_over());
    house.put("v", b"\0\0\0\x08mfra").unwrap();
    assert!(house.ingest.is_over());
    house.put("v", &video.chunks(&pictures(2..3))).unwrap();
    assert!(!house.ingest.is_over());
    let last =
        [&b"\0\0\0\x18stypcmfs\0\0\0\0cmfslmsg"[..], &video.chunks(&pictures(3..4))[24 - 4..]].concat();
    let id = house.begin("v");
    let _ = house.push(id, &last[..24]);
    house.ingest.close(id, house.now);
    assert!(house.ingest.is_over());
}

#[test]
fn an_encoder_that_begins_anew_makes_one_seam() {
    let mut house = House::default();
    for round in 0..2 {
        let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
        let from = if round == 0 { 500 } else { 0 };
        house.put("v", &video.header()).unwrap();
        house.put("a", &sound.header()).unwrap();
        house.at(1000 + round * 5000);
        house.put("v", &video.chunks(&pictures(from..from + 25))).unwrap();
        house.put("a", &sound.chunks(&sounds(from * 2..from * 2 + 50))).unwrap();
    }
    assert_eq!((house.seams, house.pictures(), house.times(0, false).len()), (1, 50, 100));
}

#[test]
fn what_cannot_be_taken_is_refused_and_said() {
    let video = Encoder::new(&picture(true, 9, 0)).header();
    let sound = Encoder::new(&opus(9, 0)).header();
    let refused = |bytes: &[u8]| House::default().put("x", bytes).unwrap_err();
    assert_eq!((refused(b"GARBAGE!").status(), refused(b"G@\0\x10G@\0\x10").status()), (415, 415));
    let at = video.windows(4).position(|window| window == b"avc1").unwrap();
    let mut other = video.clone();
    other[at..at + 4].copy_from_slice(b"vp09");
    assert_eq!(refused(&other), IngestError::Codec { sample_entry: FourCc(*b"vp09") });
    let advice = refused(&other).advice();
    for codec in cmaf::WRITTEN.split([',', ' ']).filter(|word| !["", "and"].contains(word)) {
        assert!(advice.contains(codec), "{codec} is not in {advice}");
    }
    assert_eq!(refused(&video[..video.len() - 1]), IngestError::CutOff { bytes: video.len() as u64 - 1 });
    assert_eq!(refused(&video[..5]), IngestError::CutOff { bytes: 5 });
    assert_eq!(refused(b"\x7f\xff\xff\xffmoov").status(), 400);
    let hostile = [&video[..], b"\x7f\xff\xff\xffmoof"].concat();
    assert_eq!(refused(&hostile).status(), 400);

    let mut house = House::default();
    house.put("a", &sound).unwrap();
    assert_eq!(house.put("b", &sound).unwrap_err(), IngestError::SecondSound);
    assert_eq!(house.put("c", &other).unwrap_err().status(), 415);
    assert_eq!(house.ingest.counters().refused_tracks, 2);
    // A segment that could be anybody's, and one without a header.
    house.put("init_1.mp4", &video).unwrap();
    let chunk = Encoder::new(&picture(true, 9, 0)).chunks(&pictures(0..1));
    house.at(1000);
    assert_eq!(house.put("out.m4s", &chunk).unwrap_err(), IngestError::Ambiguous);
    let mut house = House::default();
    let id = house.begin("1.m4s");
    house.push(id, &chunk).unwrap();
    assert_eq!(house.end(id), Ok(Ended::Waits));
    house.at(1000);
    assert_eq!(house.ingest.outcome(id), Some(Err(IngestError::NoHeader)));
}

#[test]
fn a_track_on_a_clock_of_its_own_is_refused() {
    let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    house.put("v", &[video.header(), video.chunks(&pictures(0..5))].concat()).unwrap();
    house.put("a", &sound.header()).unwrap();
    house.at(500);
    let mut error = None;
    for number in 0..200 {
        error = error.or(house.put("a", &sound.chunks(&sounds(50_000 + number..50_001 + number))).err());
    }
    assert_eq!(error, Some(IngestError::OtherClock));
    assert_eq!(house.seams, 0);
}

#[test]
fn what_is_held_has_a_bound() {
    let mut house = House::default();
    let header = Encoder::new(&picture(true, 9, 0)).header();
    let ids: Vec<u64> = (0..64).map(|number| house.begin(&format!("{number}"))).collect();
    assert_eq!(house.ingest.begin("one more", house.now), Err(IngestError::TooManyBodies { limit: 64 }));
    house.push(ids[0], &header).unwrap();
    // Boxes that never end, in each of them.
    let moof = Encoder::new(&picture(true, 9, 0)).chunks(&pictures(0..1));
    let at = moof.windows(4).position(|window| window == b"mdat").unwrap();
    let piece = vec![0; 1 << 20];
    let mut refused = 0;
    for id in &ids[1..] {
        let open = [&moof[..at - 4], b"\x03\0\0\0mdat"].concat();
        let mut pushed = house.push(*id, &header.iter().chain(&open).copied().collect::<Vec<_>>());
        for _ in 0..40 {
            pushed = pushed.and_then(|()| house.push(*id, &piece));
            assert!(house.ingest.held_bytes() <= HELD_MAX_BYTES);
        }
        refused += usize::from(pushed.is_err());
    }
    assert!(refused > 40, "{refused}");
    // What waits for another track is bounded, too.
    let (mut video, sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
    let mut house = House::default();
    house.put("v", &video.header()).unwrap();
    house.put("a", &sound.header()).unwrap();
    house.at(500);
    for number in 0..60 {
        let big = picture(number == 0, 1 << 20, number * PICTURE);
        house.put("v", &video.chunks(&[big])).unwrap();
        assert!(house.ingest.held_bytes() <= WAITING_MAX_BYTES + (2 << 20));
    }
}

#[test]
fn a_segment_without_a_time_begins_alike_in_any_chop() {
    let run = |chop: usize| {
        let (mut house, units) = (House::default(), pictures(0..50));
        let mut encoder = Encoder::new(&units[0]);
        let first = [encoder.header(), encoder.chunks(&units[..10])].concat();
        let mut segment = encoder.chunks(&units[25..35]);
        while let Some(at) = segment.windows(4).position(|kind| kind == b"tfdt") {
            segment[at..at + 4].copy_from_slice(b"free");
        }
        for (at_ms, bytes) in [(1, first), (300, segment)] {
            house.at(at_ms);
            let id = house.begin("v");
            bytes.chunks(chop).for_each(|part| house.push(id, part).unwrap());
            house.ingest.close(id, house.now);
        }
        house.at(5000);
        (house.packets.clone(), house.ingest.counters())
    };
    let whole = run(usize::MAX);
    assert!(!whole.0.is_empty());
    assert_eq!(run(3), whole);
}

proptest! {
    /// The same bytes in any chop, and with the tracks' requests in any interleaving, give the same packets but for order.
    #[test]
    fn any_chop_gives_the_same(cuts in proptest::collection::vec(1usize..300, 1..40), whole in any::<bool>()) {
        let (mut video, mut sound) = (Encoder::new(&picture(true, 9, 0)), Encoder::new(&opus(9, 0)));
        let bodies = [
            [video.header(), video.chunks(&pictures(0..10))].concat(),
            [sound.header(), sound.chunks(&sounds(0..20))].concat(),
        ];
        let mut house = House::default();
        let ids = [house.begin("v"), house.begin("a")];
        let mut rests = [&bodies[0][..], &bodies[1][..]];
        let mut cuts = cuts.iter().cycle();
        while rests.iter().any(|rest| !rest.is_empty()) {
            for (id, rest) in ids.iter().zip(&mut rests) {
                let count = if whole { rest.len() } else { (*cuts.next().unwrap()).min(rest.len()) };
                let (chop, behind) = rest.split_at(count);
                *rest = behind;
                house.push(*id, chop).unwrap();
            }
        }
        house.at(1000);
        prop_assert_eq!(house.times(0, true), expected(10, PICTURE));
        prop_assert_eq!(house.times(0, false), expected(20, SOUND));
        let given: Vec<_> = house.units[&0].iter().map(|unit| (unit.codec, unit.dts)).collect();
        prop_assert!(given.is_sorted_by_key(|(_, dts)| *dts));
    }

    /// Bytes of no sense are refused or dropped.
    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..600, cut in 1usize..64) {
        let mut video = Encoder::new(&picture(true, 9, 0));
        let mut body = [video.header(), video.chunks(&pictures(0..3))].concat();
        for (offset, byte) in bytes.iter().take(6).enumerate() {
            let length = body.len();
            body[(at + offset * 7) % length] = *byte;
        }
        let mut house = House::default();
        let id = house.begin("v");
        for chop in body.chunks(cut).chain(bytes.chunks(cut)) {
            if house.push(id, chop).is_err() {
                break;
            }
        }
        let _ = house.end(id);
        house.at(5000);
    }
}
