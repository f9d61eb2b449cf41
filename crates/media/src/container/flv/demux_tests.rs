use super::*;
use crate::access_unit::Codec;
use crate::bitstream::h264;
use proptest::collection::vec;
use proptest::prelude::*;

const FILE_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
/// x264's sets: baseline, 320x180.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];
/// AAC-LC, 44.1 kHz, stereo; and 48 kHz, mono.
const LC: &[u8] = &[0xAF, 0, 0x12, 0x10];
const OTHER_LC: &[u8] = &[0xAF, 0, 0x11, 0x88];

fn tag(kind: u8, time: u32, payload: &[u8]) -> Vec<u8> {
    let (size, [extended, t0, t1, t2]) = ((payload.len() as u32).to_be_bytes(), time.to_be_bytes());
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[t0, t1, t2, extended, 0, 0, 0], payload, &back].concat()
}

fn avcc(sps: &[u8]) -> Vec<u8> {
    let (sps_bytes, pps_bytes) = ([0, sps.len() as u8], [0, PPS.len() as u8]);
    [&[1, sps[1], sps[2], sps[3], 0xff, 0xe1][..], &sps_bytes, sps, &[1], &pps_bytes, PPS].concat()
}

fn avc_header(sps: &[u8]) -> Vec<u8> {
    tag(9, 0, &[&[0x17, 0, 0, 0, 0][..], &avcc(sps)].concat())
}

/// A NAL unit behind its length.
fn nal(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn idr(time: u32, composition_ms: i32) -> Vec<u8> {
    let composition = &composition_ms.to_be_bytes()[1..];
    tag(9, time, &[&[0x17, 1][..], composition, &nal(&[0x65, 0x88, 7])].concat())
}

fn picture(time: u32, composition_ms: i32) -> Vec<u8> {
    let composition = &composition_ms.to_be_bytes()[1..];
    tag(9, time, &[&[0x27, 1][..], composition, &nal(&[0x41, 0x9a, 7])].concat())
}

fn aac(time: u32) -> Vec<u8> {
    tag(8, time, &[0xAF, 1, 0x21, 9, 9])
}

fn demux_in(bytes: &[u8], chop: usize) -> (Vec<Event>, Counters, Option<DemuxError>) {
    let (mut demuxer, mut events, mut error) = (Demuxer::new(), Vec::new(), None);
    for chunk in bytes.chunks(chop.max(1)) {
        error = demuxer.push(chunk).err().or(error);
        events.extend(std::iter::from_fn(|| demuxer.poll()));
    }
    demuxer.finish();
    events.extend(std::iter::from_fn(|| demuxer.poll()));
    (events, demuxer.counters(), error)
}

fn demux(tags: &[Vec<u8>]) -> (Vec<Event>, Counters) {
    let (events, counters, error) = demux_in(&[FILE_HEADER, &tags.concat()].concat(), usize::MAX);
    assert_eq!(error, None);
    (events, counters)
}

fn units(events: &[Event]) -> Vec<(u16, &AccessUnit)> {
    let unit = |event| match event {
        &Event::AccessUnit { track, ref unit, .. } => Some((track, unit)),
        Event::Tracks(_) => None,
    };
    events.iter().filter_map(unit).collect()
}

fn tracks(events: &[Event]) -> Vec<Vec<(u16, Option<Codec>)>> {
    let told = |event: &Event| match event {
        Event::Tracks(tracks) => Some(tracks.iter().map(|track| (track.number, track.codec)).collect()),
        Event::AccessUnit { .. } => None,
    };
    events.iter().filter_map(told).collect()
}

fn times(events: &[Event], wanted: u16) -> Vec<(i64, i64)> {
    let own = units(events).into_iter().filter(|(track, _)| *track == wanted);
    own.map(|(_, unit)| (unit.dts.0, unit.pts.0)).collect()
}

#[test]
fn pictures_are_annex_b_and_sound_is_adts() {
    let tags = [avc_header(SPS), tag(8, 0, LC), idr(0, 80), aac(0), picture(40, 40)];
    let (events, counters) = demux(&tags);
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::Aac))]]);
    let units = units(&events);
    let start = [0, 0, 0, 1];
    let key = [&h264::ACCESS_UNIT_DELIMITER[..], &start, SPS, &start, PPS, &start, &[0x65, 0x88, 7]].concat();
    assert_eq!((&units[0].1.data[..], units[0].1.random_access), (&key[..], true));
    let sound = [0xff, 0xf1, 0x50, 0x80, 1, 0x5f, 0xfc, 0x21, 9, 9];
    assert_eq!((units[1].0, &units[1].1.data[..]), (8, &sound[..]));
    let other = [&h264::ACCESS_UNIT_DELIMITER[..], &start, &[0x41, 0x9a, 7]].concat();
    assert_eq!((&units[2].1.data[..], units[2].1.random_access), (&other[..], false));
    assert_eq!(times(&events, 9), [(0, 7200), (3600, 7200)]);
    assert_eq!(counters, Counters { tags: 5, ..Counters::default() });
    // Where the units' tags begin.
    let lengths: Vec<u64> = tags.iter().map(|tag| tag.len() as u64).collect();
    let at = |events: &[Event]| -> Vec<u64> {
        let at = |event: &Event| matches!(event, Event::AccessUnit { .. }).then_some(event.clone());
        let at = events.iter().filter_map(at).map(|event| match event {
            Event::AccessUnit { at, .. } => at,
            Event::Tracks(_) => 0,
        });
        at.collect()
    };
    let first = FILE_HEADER.len() as u64 + lengths[0] + lengths[1];
    assert_eq!(at(&events), [first, first + lengths[2], first + lengths[2] + lengths[3]]);
}

/// Node-Media-Server, issue 25 ("Larger timestamp than 24-bit: 0xd1750a9a"), and what follows it a week later.
#[test]
fn times_go_on_where_their_32_bits_end() {
    let last = u32::MAX - 39;
    let tags =
        [avc_header(SPS), tag(8, 0, LC), idr(last, 0), aac(last), picture(0, 0), aac(20), picture(40, 0)];
    let (events, _) = demux(&tags);
    let first = -40 * 90;
    assert_eq!(times(&events, 9), [(first, first), (0, 0), (3600, 3600)]);
    assert_eq!(times(&events, 8), [(first, first), (1800, 1800)]);
    // Beyond 24 bits, in both directions.
    let (events, _) =
        demux(&[avc_header(SPS), tag(8, 0, LC), idr(0x00ff_fff0, 0), picture(0x0100_0018, 0), aac(0)]);
    assert_eq!(
        times(&events, 9),
        [(0x00ff_fff0 * 90, 0x00ff_fff0 * 90), (0x0100_0018 * 90, 0x0100_0018 * 90)]
    );
    assert_eq!(times(&events, 8), [(0, 0)]);
}

/// gortmplib, pull request 88: -34 ms is 0xffffde, not 16,777,182 ms. SRS, issue 809.
#[test]
fn pictures_may_be_presented_before_they_are_decoded() {
    let (events, _) = demux(&[avc_header(SPS), tag(8, 0, LC), idr(1000, -34), picture(1040, -8_388_608)]);
    assert_eq!(times(&events, 9), [(90_000, 86_940), (93_600, (1040 - 8_388_608) * 90)]);
}

/// Ant Media Server, issue 3790, and SRS, issue 2944: AAC of which no sequence header comes.
#[test]
fn sound_without_a_sequence_header_is_taken_where_its_frames_have_headers() {
    let frame = [0xff, 0xf1, 0x50, 0x80, 1, 0x5f, 0xfc, 0x21, 9, 9];
    let adts = tag(8, 0, &[&[0xAF, 1][..], &frame].concat());
    let (events, counters) = demux(&[avc_header(SPS), adts.clone(), idr(0, 0)]);
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::Aac))]]);
    assert_eq!((&units(&events)[0].1.data[..], counters.damaged_tags), (&frame[..], 0));
    // Behind a sequence header as well.
    let (events, _) = demux(&[avc_header(SPS), tag(8, 0, LC), adts, idr(0, 0)]);
    assert_eq!(&units(&events)[0].1.data[..], &frame[..]);
    // Raw frames wait for their header, and are counted until then.
    let (events, counters) = demux(&[avc_header(SPS), idr(0, 0), aac(0), tag(8, 0, LC), aac(23)]);
    assert_eq!((times(&events, 8), counters.unconfigured), (vec![(23 * 90, 23 * 90)], 1));
}

/// SRS, issue 939: the file header announces sound, and none comes. The other way round it comes unannounced, or late.
#[test]
fn what_is_announced_is_waited_for_and_no_longer_than_a_second() {
    let pictures: Vec<Vec<u8>> = (1..60u32).map(|index| picture(index * 40, 0)).collect();
    let bytes = [FILE_HEADER, &avc_header(SPS), &idr(0, 0), &pictures.concat()].concat();
    let mut demuxer = Demuxer::new();
    let first_second = bytes.len() - pictures[24..].concat().len();
    demuxer.push(&bytes[..first_second]).unwrap();
    assert_eq!(demuxer.poll(), None, "sound may come");
    demuxer.push(&bytes[first_second..]).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| demuxer.poll()).collect();
    assert_eq!((tracks(&events), units(&events).len()), (vec![vec![(9, Some(Codec::H264))]], 60));
    // It comes all the same.
    let late = [tag(8, 2400, LC), aac(2400)].concat();
    demuxer.push(&late).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| demuxer.poll()).collect();
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::Aac))]]);
    // Sound first: the tracks are told once.
    let (events, _) = demux(&[tag(8, 0, LC), aac(0), aac(23), avc_header(SPS), idr(40, 0)]);
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::Aac))]]);
    assert!(matches!(events[0], Event::Tracks(_)));
    // What waits is bounded.
    let many = (0..HOLD_UNITS + 10).flat_map(|_| aac(0));
    let mut demuxer = Demuxer::new();
    demuxer.push(&[FILE_HEADER, &tag(8, 0, LC), &many.collect::<Vec<u8>>()].concat()).unwrap();
    assert_eq!(std::iter::from_fn(|| demuxer.poll()).count(), HOLD_UNITS + 11);
}

/// yasea, pull request 840: another resolution in mid-stream. nginx-rtmp-module, issue 9: headers that are repeated.
#[test]
fn a_sequence_header_in_mid_stream_holds_from_there_on() {
    let mut other = SPS.to_vec();
    other[3] = 0x1f;
    let tags = [
        avc_header(SPS),
        tag(8, 0, LC),
        idr(0, 0),
        avc_header(SPS),
        idr(40, 0),
        avc_header(&other),
        tag(8, 0, OTHER_LC),
        idr(80, 0),
        aac(80),
        // One that is cut off changes nothing.
        tag(9, 80, &[0x17, 0, 0, 0, 0, 1, 2]),
        idr(120, 0),
    ];
    let (events, counters) = demux(&tags);
    assert_eq!(tracks(&events).len(), 2, "the sound has another number of channels");
    let units = units(&events);
    let has = |unit: &AccessUnit, sps: &[u8]| unit.data.windows(sps.len()).any(|window| window == sps);
    let found: Vec<bool> =
        units.iter().filter(|(track, _)| *track == 9).map(|(_, unit)| has(unit, SPS)).collect();
    assert_eq!(found, [true, true, false, false]);
    assert!(has(units.last().unwrap().1, &other));
    let sound = units.iter().find(|(track, _)| *track == 8).unwrap().1;
    let header = crate::bitstream::adts::Header::parse(&sound.data).unwrap();
    assert_eq!((header.rate_hz, header.channels), (48_000, 1));
    assert_eq!(counters.damaged_tags, 1);
}

#[test]
fn enhanced_rtmp_names_codecs_by_four_letters() {
    let key = |body: &[&[u8]]| tag(9, 0, &body.concat());
    // H.264: a sequence start, coded frames with a time, and without one behind a modifier of nanoseconds.
    let frame = nal(&[0x65, 0x88, 7]);
    let tags = [
        key(&[&[0x90], b"avc1", &avcc(SPS)]),
        key(&[&[0x91], b"avc1", &[0xff, 0xff, 0xfe], &frame]),
        tag(9, 40, &[&[0x97, 2, 1, 2, 3, 0x03][..], b"avc1", &frame].concat()),
        // The end of a sequence, metadata, a command.
        key(&[&[0x92], b"avc1"]),
        key(&[&[0x94], b"avc1", b"colorInfo"]),
        key(&[&[0xd1], &[0]]),
        tag(8, 0, &[&[0x90][..], b"Opus", b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0"].concat()),
        tag(8, 0, &[&[0x91][..], b"Opus", &[0xfc, 1, 2, 3]].concat()),
    ];
    let (events, counters) = demux(&tags);
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::Opus))]]);
    // 66,051 ns are 5.9 ticks.
    assert_eq!(times(&events, 9), [(0, -180), (3605, 3605)]);
    assert_eq!(&units(&events)[2].1.data[..], &[0xfc, 1, 2, 3]);
    assert_eq!((counters.damaged_tags, counters.left_out), (0, 0));
    // The length of a modifier in two bytes more.
    let long = [&[0x97, 0xff, 1, 0][..], &[0; 257], &[0x03], b"avc1", &frame].concat();
    let (events, _) = demux(&[tags[0].clone(), tag(9, 7, &long), tags[7].clone()]);
    assert_eq!(times(&events, 9), [(630, 630)]);
    // AC-3 is cut by its own headers, AV1 needs none of the container's.
    let av1 = tag(9, 0, &[&[0x90][..], b"av01", &[0x81, 0, 0, 0]].concat());
    let (events, _) = demux(&[av1, tag(8, 0, &[&[0x91][..], b"ac-3", &[0; 8]].concat())]);
    assert_eq!(tracks(&events), [[(9, Some(Codec::Av1)), (8, Some(Codec::Ac3))]]);
}

#[test]
fn what_no_units_are_made_of_is_named() {
    let named = |tags: &[Vec<u8>]| -> Vec<(String, bool)> {
        let (events, counters) = demux(tags);
        assert!(units(&events).is_empty() && counters.left_out > 0);
        let Some(Event::Tracks(tracks)) = events.into_iter().next() else { panic!("no tracks") };
        tracks.into_iter().map(|track| (track.format.into_owned(), track.why.is_some())).collect()
    };
    let tags = [tag(9, 0, &[0x14, 1, 2]), tag(8, 0, &[0xb2, 1, 2])];
    assert_eq!(named(&tags), [("VP6".into(), false), ("Speex".into(), false)]);
    let vp9 = tag(9, 0, &[&[0x91][..], b"vp09", &[1, 2]].concat());
    // Opus of six channels, and AAC of an object type that ADTS cannot say.
    let opus = tag(
        8,
        0,
        &[&[0x90][..], b"Opus", b"OpusHead\x01\x06\x38\x01\x80\xbb\0\0\0\0\x01\x04\x02\0"].concat(),
    );
    assert_eq!(named(&[opus, vp9.clone()]), [("VP9".into(), false), ("Opus".into(), true)]);
    let usac = tag(8, 0, &[0xAF, 0, 0xf9, 0x4a, 0x40, 0, 0]);
    assert_eq!(named(&[usac, vp9])[1], ("AAC".into(), true));
    // Tracks other than number 0 alone.
    let several = [
        tag(9, 0, &[&[0x96, 0x01][..], b"avc1", &[1, 1, 2]].concat()),
        tag(8, 0, &[&[0x95, 0x01][..], b"Opus", &[1, 1, 2]].concat()),
        tag(9, 2000, &[0x96, 1]),
    ];
    assert_eq!(named(&several).len(), 2);
}

/// Enhanced RTMP v2, "Multitrack": OBS sends several qualities of pictures so.
#[test]
fn of_several_tracks_the_first_is_taken() {
    let (frame, other) = (nal(&[0x65, 0x88, 7]), nal(&[0x65, 0x88, 9]));
    let sized =
        |number: u8, body: &[u8]| [&[number][..], &(body.len() as u32).to_be_bytes()[1..], body].concat();
    let coded = |frame: &[u8]| [&[0, 0, 40][..], frame].concat();
    let tags = [
        // One track, number 0; many of one codec; many, each with its codec.
        tag(9, 0, &[&[0x96, 0x00][..], b"avc1", &[0], &avcc(SPS)].concat()),
        tag(
            8,
            0,
            &[&[0x95, 0x00][..], b"Opus", &[0], b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0"].concat(),
        ),
        tag(
            9,
            0,
            &[&[0x96, 0x11][..], b"avc1", &sized(1, &coded(&other)), &sized(0, &coded(&frame))].concat(),
        ),
        tag(8, 0, &[&[0x95, 0x21][..], b"Opus", &sized(0, &[0xf8, 1]), b"fLaC", &sized(1, &[9])].concat()),
        // Behind a modifier; a body that is cut off; a layout that is not known.
        tag(9, 40, &[&[0x97, 0, 0, 0x16, 0x03][..], b"avc1", &[0], &frame].concat()),
        tag(9, 80, &[&[0x96, 0x11][..], b"avc1", &[0, 0, 0, 9, 1]].concat()),
        tag(9, 80, &[&[0x96, 0x31][..], b"avc1", &[0, 0, 0, 1, 1]].concat()),
    ];
    let (events, counters) = demux(&tags);
    let told: Vec<_> = tracks(&events).pop().unwrap();
    assert_eq!(told, [(9, Some(Codec::H264)), (8, Some(Codec::Opus)), (265, None), (264, None)]);
    assert_eq!(times(&events, 9), [(0, 3600), (3600, 3600)]);
    assert!(units(&events).iter().all(|(_, unit)| !unit.data.ends_with(&[0x88, 9])));
    assert_eq!(times(&events, 8), [(0, 0)]);
    assert_eq!((counters.left_out, counters.damaged_tags), (2, 2));
}

#[test]
fn tags_without_a_file_are_taken_at_once() {
    let mut tags = Tags::new();
    tags.push(true, 0, &[&[0x17, 0, 0, 0, 0][..], &avcc(SPS)].concat());
    let Some(Event::Tracks(told)) = tags.poll() else { panic!("a track") };
    assert_eq!((told.len(), told[0].codec, told[0].channels), (1, Some(Codec::H264), None));
    tags.push(true, 40, &[&[0x17, 1, 0, 0, 0][..], &nal(&[0x65, 0x88, 7])].concat());
    assert!(matches!(tags.poll(), Some(Event::AccessUnit { track: 9, .. })));
    tags.push(false, 40, LC);
    let Some(Event::Tracks(told)) = tags.poll() else { panic!("two tracks") };
    assert_eq!((told.len(), told[1].channels), (2, Some(2)));
    // Another configuration of the same codec is told.
    tags.push(false, 60, OTHER_LC);
    let Some(Event::Tracks(told)) = tags.poll() else { panic!("two tracks") };
    assert_eq!((told[1].codec, told[1].channels), (Some(Codec::Aac), Some(1)));
    tags.push(false, 60, &[]);
    tags.push(true, 60, &[0x17]);
    assert_eq!((tags.poll(), tags.counters().damaged_tags, tags.counters().tags), (None, 1, 6));
}

#[test]
fn layer_iii_of_mpeg_audio_needs_no_sequence_header() {
    // 128 kbit/s at 44.1 kHz: 417 bytes.
    let mut frame = vec![0xff, 0xfb, 0x90, 0x00];
    frame.resize(417, 0);
    let sound = |time| tag(8, time, &[&[0x2f][..], &frame].concat());
    let (events, _) = demux(&[avc_header(SPS), sound(0), idr(0, 0), sound(26)]);
    assert_eq!(tracks(&events), [[(9, Some(Codec::H264)), (8, Some(Codec::MpegAudio))]]);
    assert_eq!(times(&events, 8), [(0, 0), (26 * 90, 26 * 90)]);
}

#[test]
fn what_is_no_tag_is_refused_and_nonsense_in_one_is_counted() {
    let refused = |bytes: &[u8]| demux_in(bytes, 3).2;
    assert_eq!(refused(b"FLV\x02\x05\0\0\0\x09"), Some(DemuxError::Magic { found: *b"FLV\x02" }));
    assert_eq!(refused(b"FLV\x01\x05\0\0\0\x08"), Some(DemuxError::HeaderLength { found: 8 }));
    // One that is encrypted.
    let bad = [FILE_HEADER, &aac(0), &tag(0x28, 0, &[1])].concat();
    let at = (FILE_HEADER.len() + aac(0).len()) as u64;
    assert_eq!(refused(&bad), Some(DemuxError::TagType { found: 0x28, at }));
    let nonsense = [
        avc_header(SPS),
        tag(8, 0, LC),
        // NAL units that are cut off, none with a picture, a tag of one byte; empty ones are nothing.
        tag(9, 0, &[0x17, 1, 0, 0, 0, 0, 0, 0, 9, 0x65]),
        tag(9, 0, &[&[0x17, 1, 0, 0, 0][..], &nal(SPS)].concat()),
        tag(9, 0, &[0x17]),
        tag(8, 0, &[0xAF]),
        tag(9, 0, &[]),
        tag(8, 0, &[]),
        tag(8, 0, &[0xAF, 1]),
        tag(18, 0, b"anything at all"),
        idr(0, 0),
    ];
    let (events, counters) = demux(&nonsense);
    assert_eq!((units(&events).len(), counters.damaged_tags, counters.tags), (1, 4, 11));
}

fn any_tag() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        vec(any::<u8>(), 0..40),
        Just(LC.to_vec()),
        Just(OTHER_LC.to_vec()),
        Just([&[0x17, 0, 0, 0, 0][..], &avcc(SPS)].concat()),
        Just([&[0x90][..], b"avc1", &avcc(SPS)].concat()),
        vec(any::<u8>(), 0..9)
            .prop_map(|more| [&[0x17, 1, 0, 0, 0][..], &nal(&[0x65, 0x88]), &more].concat()),
        vec(any::<u8>(), 0..9).prop_map(|more| [&[0xAF, 1][..], &more].concat()),
        vec(any::<u8>(), 0..9).prop_map(|more| [&[0x91][..], b"Opus", &more].concat()),
        vec(any::<u8>(), 0..40).prop_map(|more| [&[0x90][..], b"hvc1", &more].concat()),
    ];
    let kind = prop_oneof![10 => prop_oneof![Just(8u8), Just(9u8)], 1 => Just(18u8), 1 => any::<u8>()];
    (kind, any::<u32>(), payload).prop_map(|(kind, time, payload)| tag(kind, time, &payload))
}

proptest! {
    #[test]
    fn any_chop_of_any_tags_gives_the_same(
        flags in any::<u8>(), tags in vec(any_tag(), 0..40), chop in 1usize..200, cut in 0usize..50,
    ) {
        let mut bytes = [FILE_HEADER, &tags.concat()].concat();
        bytes[4] = flags;
        bytes.truncate(bytes.len().saturating_sub(cut));
        let whole = demux_in(&bytes, usize::MAX);
        prop_assert_eq!(&demux_in(&bytes, chop), &whole);
        let told: usize = units(&whole.0).iter().map(|(_, unit)| unit.data.len()).sum();
        // Each key frame has the sets of a header again.
        prop_assert!(told <= bytes.len() * 20);
    }

    #[test]
    fn any_bytes_give_events_or_an_error(bytes in vec(any::<u8>(), 0..300), chop in 1usize..20) {
        prop_assert_eq!(demux_in(&bytes, chop), demux_in(&bytes, usize::MAX));
        let behind = [FILE_HEADER, &bytes].concat();
        prop_assert_eq!(demux_in(&behind, chop), demux_in(&behind, usize::MAX));
    }
}
