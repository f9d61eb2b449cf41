//! What is written is read back, in any chop; what others write is understood; what nobody should write is refused.

use super::*;
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::{adts, av1, h264, h265};
use crate::container::cmaf::boxes::{Fields, full, plain};
use crate::container::cmaf::tests::{adts_frame, adts_of, picture, recovery_point, sound, unit};
use crate::container::cmaf::{
    Brand, Captured, EventTime, LiveTimeline, Media, Run, Sample, SegmentKind, Track, write_chunk,
    write_event, write_init, write_segment_type,
};
use crate::time::{Ticks, Utc};
use proptest::prelude::*;

/// All events of bytes that are chopped at `cuts` again and again, and the error.
fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<Event>, Option<ReadError>) {
    let (mut reader, mut events) = (Reader::new(), Vec::new());
    let (mut rest, mut cuts) = (bytes, cuts.iter().cycle());
    while !rest.is_empty() {
        let (chop, tail) = rest.split_at((*cuts.next().expect("cycles")).clamp(1, rest.len()));
        rest = tail;
        let pushed = reader.push(chop);
        events.extend(std::iter::from_fn(|| reader.poll()));
        if let Err(error) = pushed {
            assert_eq!((reader.push(b"more"), reader.poll()), (Err(error), None), "nothing after an error");
            return (events, Some(error));
        }
    }
    (events, None)
}

fn whole(bytes: &[u8]) -> (Vec<Event>, Option<ReadError>) {
    read(bytes, &[bytes.len()])
}

/// The chunks of bytes that are good.
fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let (events, error) = whole(bytes);
    assert_eq!(error, None);
    let chunks = events.into_iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    chunks.collect()
}

fn refusal(bytes: &[u8]) -> String {
    whole(bytes).1.expect("it is refused").to_string()
}

/// Pictures with parameter sets beside them and in them, AAC, Opus.
fn tracks() -> Vec<Track> {
    let media = [
        Media::of(&picture(true, 10, 0), false),
        Media::of(&picture(true, 10, 0), true),
        Media::of(&unit(Codec::Aac, adts_frame(40), 0), false),
        Media::of(&sound(9, 0), false),
    ];
    media.into_iter().zip(1..).map(|(media, id)| Track { id, media: media.unwrap() }).collect()
}

fn init(tracks: &[Track]) -> Vec<u8> {
    let mut out = Vec::new();
    write_init(Brand::Cmaf, tracks, &mut out);
    out
}

fn message() -> EventMessage {
    EventMessage {
        scheme_id_uri: "urn:scte:scte35:2013:bin".to_owned(),
        value: "ü".to_owned(),
        timescale: 90_000,
        presentation_time: EventTime::At(u64::MAX),
        duration: 5,
        id: 6,
        message_data: vec![0, 1, 2],
    }
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (1u32..200, any::<u32>(), any::<i32>(), any::<bool>());
    let sample = sample.prop_map(|(bytes, duration, composition_offset, is_sync)| Sample {
        bytes,
        duration,
        composition_offset,
        is_sync,
        roll: 0,
    });
    proptest::collection::vec(sample, 1..8)
}

/// Runs of tracks 1 to 4, a chunk of a few each.
fn stream() -> impl Strategy<Value = Vec<Vec<(u32, u64, Vec<Sample>)>>> {
    let run = (1u32..=4, 0u64..TIME_MAX, samples());
    proptest::collection::vec(proptest::collection::vec(run, 1..4), 0..6)
}

/// Writes the stream, and says what has to be read.
fn write(stream: &[Vec<(u32, u64, Vec<Sample>)>]) -> (Vec<u8>, Vec<Event>) {
    let (mut out, mut expected) = (init(&tracks()), Vec::new());
    let mut byte = 0u8;
    for (runs, sequence) in stream.iter().zip(1..) {
        write_segment_type(SegmentKind::Chunk, &mut out);
        expected.push(Event::SegmentType(vec![FourCc(*b"cmfl"); 2]));
        write_event(&message(), &mut out);
        expected.push(Event::Message(message()));
        let utc = Utc::from_nanos(1_700_000_000_123_456_789 + u64::from(sequence));
        let captured = Captured { track_id: runs[0].0, utc, media_time: runs[0].1 };
        let data: Vec<Vec<u8>> = runs
            .iter()
            .map(|(_, _, samples)| {
                let bytes: u32 = samples.iter().map(|sample| sample.bytes).sum();
                byte = byte.wrapping_add(1);
                (0..bytes).map(|at| at as u8 ^ byte).collect()
            })
            .collect();
        let written: Vec<Run<'_>> = runs
            .iter()
            .zip(&data)
            .map(|((track_id, decode_time, samples), data)| Run {
                track_id: *track_id,
                decode_time: *decode_time,
                samples,
                data,
            })
            .collect();
        write_chunk(sequence, Some(captured), &written, &mut out);
        let media_time = captured.media_time;
        let producer_time = Some(ProducerTime { track_id: captured.track_id, utc, media_time, flags: 24 });
        let runs = written.iter().map(expected_run).collect();
        expected.push(Event::Chunk(Chunk { sequence, producer_time, runs }));
    }
    (out, expected)
}

fn expected_run(run: &Run<'_>) -> ReadRun {
    let (mut time, mut at) = (run.decode_time, 0);
    let samples = run.samples.iter().map(|sample| {
        let data = Bytes::copy_from_slice(&run.data[at..at + sample.bytes as usize]);
        let (decode_time, duration) = (time, sample.duration);
        time += u64::from(duration);
        at += data.len();
        let flags = if sample.is_sync { 0x0200_0000 } else { 0x0101_0000 };
        ReadSample {
            decode_time,
            duration,
            composition_offset: sample.composition_offset.into(),
            flags,
            data,
        }
    });
    ReadRun { track_id: run.track_id, decode_time: run.decode_time, samples: samples.collect() }
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_any_chop(
        stream in stream(),
        cuts in proptest::collection::vec(1usize..300, 1..20),
    ) {
        let (bytes, expected) = write(&stream);
        let (events, error) = read(&bytes, &cuts);
        prop_assert_eq!(error, None);
        let Event::Init(found) = &events[0] else { panic!("{:?}", events[0]) };
        for (found, track) in found.iter().zip(tracks()) {
            prop_assert_eq!((found.id, found.timescale), (track.id, track.media.timescale()));
            prop_assert_eq!(found.presentation_start, 0);
            prop_assert_eq!(found.media.as_ref(), Some(&track.media));
        }
        prop_assert_eq!(&events[1..], &expected[..]);
    }

    /// Bytes that are nearly right: no panic, the same in any chop, and no more than there is.
    #[test]
    fn mutated_bytes_do_no_harm(
        stream in stream(),
        wrong in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in 1usize..200,
    ) {
        let (mut bytes, _) = write(&stream);
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (events, error) = whole(&bytes);
        prop_assert_eq!(&read(&bytes, &[cut]), &(events.clone(), error));
        let mut tracks = Vec::new();
        let mut got = 0;
        for event in events {
            match event {
                Event::Init(found) => tracks = found,
                Event::Chunk(chunk) => for run in chunk.runs {
                    let track = tracks.iter().find(|track| track.id == run.track_id).unwrap();
                    for sample in run.samples {
                        got += sample.data.len();
                        let _ = track.to_unit(&sample);
                    }
                },
                _ => {}
            }
        }
        prop_assert!(got <= bytes.len(), "no byte is given twice");
    }

    #[test]
    fn garbage_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 1..400), cut in 1usize..50) {
        let boxed = [&init(&tracks()), &bytes[..]].concat();
        prop_assert_eq!(read(&boxed, &[cut]), whole(&boxed));
        prop_assert_eq!(read(&bytes, &[cut]), whole(&bytes));
    }
}

/// A `moof` with one `traf` of these boxes.
fn moof(traf: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    plain(&mut out, b"moof", |out| {
        full(out, b"mfhd", 0, 0, |out| out.u32(9));
        plain(out, b"traf", traf);
    });
    out
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|&word| out.u32(word));
}

fn mdat(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    plain(&mut out, b"mdat", |out| out.extend_from_slice(data));
    out
}

/// Decoding time, duration, composition offset, whether it is a sync sample, bytes.
type Told<'a> = (u64, u32, i64, bool, &'a [u8]);

fn told(chunk: &Chunk) -> Vec<Told<'_>> {
    let samples = chunk.runs.iter().flat_map(|run| &run.samples);
    let told = samples.map(|sample| {
        (sample.decode_time, sample.duration, sample.composition_offset, sample.is_sync(), &sample.data[..])
    });
    told.collect()
}

#[test]
fn defaults_stand_where_samples_say_nothing() {
    let init = init(&tracks());
    // Defaults in the tfhd, flags of the first sample in the trun, data behind the moof by default-base-is-moof.
    let mut one = moof(|out| {
        full(out, b"tfhd", 0, 0x2_0038, |out| words(out, &[1, 3000, 2, 0x0101_0000]));
        full(out, b"tfdt", 0, 0, |out| out.u32(70));
        full(out, b"trun", 0, 0x5, |out| words(out, &[3, 0, 0x0200_0000]));
    });
    let bytes = one.len() as u32;
    let at = one.windows(4).position(|word| word == b"trun").unwrap() + 12;
    one[at..at + 4].copy_from_slice(&(bytes + 8).to_be_bytes());
    // The next begins where that ended; its data offsets count from the stream's first byte, and offsets have no sign.
    let two_at = init.len() + one.len() + 14;
    let data_at = |moof_bytes: usize| (two_at + moof_bytes + 8) as u64;
    let two = |base: u64| {
        moof(|out| {
            full(out, b"tfhd", 0, 0x1, |out| {
                out.u32(1);
                out.u64(base);
            });
            full(out, b"trun", 0, 0xb00, |out| words(out, &[2, 10, 1, u32::MAX, 20, 0, 5]));
            full(out, b"trun", 1, 0xb00, |out| words(out, &[1, 30, 2, u32::MAX]));
        })
    };
    let two = two(data_at(two(0).len()));
    let file = [&init[..], &one, &mdat(b"aabbcc"), &two, &mdat(b"dee")].concat();
    let chunks = chunks(&file);
    let expected: [Told<'_>; 3] =
        [(70, 3000, 0, true, b"aa"), (3070, 3000, 0, false, b"bb"), (6070, 3000, 0, false, b"cc")];
    assert_eq!(told(&chunks[0]), expected);
    // The sample without bytes is left out, and takes its time.
    let expected: [Told<'_>; 2] = [(9070, 10, i64::from(u32::MAX), true, b"d"), (9100, 30, -1, true, b"ee")];
    assert_eq!((told(&chunks[1]), chunks[1].sequence), (expected.to_vec(), 9));
}

/// A sample of one byte, `offset` bytes behind where the `moof` of 72 begins.
fn small_moof(offset: u32) -> Vec<u8> {
    moof(|out| {
        full(out, b"tfhd", 0, 0x2_0010, |out| words(out, &[1, 1]));
        full(out, b"trun", 0, 0x1, |out| words(out, &[1, offset]));
    })
}

#[test]
fn long_lengths_are_read_and_unknown_boxes_passed_over() {
    let large = |kind: &[u8; 4], size: u64, content: &[u8]| {
        [&[0, 0, 0, 1], &kind[..], &size.to_be_bytes(), content].concat()
    };
    assert_eq!(small_moof(80).len(), 72);
    let file = [&init(&tracks())[..], &large(b"free", 19, b"???"), &small_moof(80), &mdat(b"x")].concat();
    assert_eq!(told(&chunks(&file)[0]), [(0, 0, 0, true, &b"x"[..])]);
    let long_data = large(b"mdat", 17, b"x");
    let file = [&init(&tracks())[..], &small_moof(88), &long_data].concat();
    assert_eq!(told(&chunks(&file)[0]), [(0, 0, 0, true, &b"x"[..])]);
    // An offset that leads into the head of the mdat.
    let file = [&init(&tracks())[..], &small_moof(80), &long_data].concat();
    assert!(refusal(&file).starts_with("the place of a sample is"), "{}", refusal(&file));
    // Petabytes of what nobody knows are neither kept nor refused.
    let mut reader = Reader::new();
    reader.push(&[&init(&tracks())[..], &large(b"mdat", 1 << 60, b"")].concat()).unwrap();
    for _ in 0..100 {
        reader.push(&[0; 1 << 16]).unwrap();
    }
    assert!(matches!(reader.state, State::Skip { left } if left == (1 << 60) - 16 - (100 << 16)));
    assert!(!reader.is_between_boxes());
}

#[test]
fn what_cannot_be_is_refused_and_said() {
    let init = init(&tracks());
    let at = init.len();
    let behind = |bytes: &[u8]| refusal(&[&init[..], bytes].concat());
    let to_the_end = [&[0, 0, 0, 0], &b"mdat"[..]].concat();
    assert_eq!(
        behind(&to_the_end),
        format!("a box 'mdat' of 0 bytes at byte {at}, expected at least its own head")
    );
    assert_eq!(refusal(b"\0\0\0\x08RIFF"), "begins with a box 'RIFF', expected ftyp, styp or moov");
    let early = [&b"\0\0\0\x08ftyp"[..], &small_moof(80)].concat();
    assert_eq!(refusal(&early), "the box 'moof' at byte 8 has no 'moov'");
    let twice = [small_moof(80), small_moof(80)].concat();
    assert_eq!(behind(&twice), format!("the box 'moof' at byte {} has no 'mdat'", at + 72));
    let short = moof(|out| full(out, b"tfhd", 0, 0, |_| {}));
    assert_eq!(behind(&short), format!("the box 'tfhd' at byte {} ends in track_ID", at + 32));
    let unknown = moof(|out| full(out, b"tfhd", 0, 0, |out| out.u32(5)));
    assert!(behind(&unknown).contains("track_ID is 5 in the box 'tfhd'"));
    let many = moof(|out| {
        full(out, b"tfhd", 0, 0x2_0000, |out| out.u32(1));
        full(out, b"trun", 0, 0, |out| out.u32(u32::MAX));
    });
    assert!(behind(&many).contains("the number of samples is 4294967295"), "{}", behind(&many));
    let late = moof(|out| {
        full(out, b"tfhd", 0, 0x2_0000, |out| out.u32(1));
        full(out, b"tfdt", 1, 0, |out| out.u64(u64::MAX));
    });
    assert!(behind(&late).contains("the decoding time is 18446744073709551615"));
    let long = b"\x7f\xff\xff\xffmoof";
    assert!(behind(long).contains("expected at most 1 MiB"));
    let data = [&small_moof(80)[..], b"\x04\x00\x00\x09mdat"].concat();
    assert!(behind(&data).contains("a box 'mdat' of 67108873 bytes"), "{}", behind(&data));
    // One byte for two samples.
    let shared = moof(|out| {
        full(out, b"tfhd", 0, 0x2_0010, |out| words(out, &[1, 1]));
        full(out, b"trun", 0, 0x1, |out| words(out, &[1, 100]));
        full(out, b"trun", 0, 0x1, |out| words(out, &[1, 100]));
    });
    assert!(behind(&[&shared[..], &mdat(b"x")].concat()).starts_with("the sum of all samples' sizes is 2"));
    let inner = moof(|out| out.extend_from_slice(b"\0\0\x01\0tfhd"));
    assert!(behind(&inner).ends_with("expected no more than the box around it"), "{}", behind(&inner));
    let all: Vec<Track> = (1..=17).map(|id| Track { id, media: tracks()[3].media.clone() }).collect();
    assert!(refusal(&self::init(&all)).starts_with("the number of tracks is 17"));
    assert!(refusal(&self::init(&[all[0].clone(), all[0].clone()])).starts_with("track_ID is 1"));
}

/// What goes in through a live timeline, and what comes out again, of one track.
fn through(units: &[AccessUnit], in_band: bool) -> (ReadTrack, Vec<AccessUnit>) {
    through_track(Media::of(&units[0], in_band).unwrap(), units)
}

fn through_track(media: Media, units: &[AccessUnit]) -> (ReadTrack, Vec<AccessUnit>) {
    let track = Track { id: 1, media };
    let mut file = init(std::slice::from_ref(&track));
    let mut timeline = LiveTimeline::new(track, Ticks(0));
    for (unit, sequence) in units.iter().zip(1..) {
        let timed = timeline.push(unit).unwrap();
        let samples = &[timed.sample];
        let run = Run { track_id: 1, decode_time: timed.decode_time, samples, data: &timed.data };
        write_chunk(sequence, None, &[run], &mut file);
    }
    let (events, error) = whole(&file);
    assert_eq!(error, None);
    let Event::Init(tracks) = &events[0] else { panic!("no tracks") };
    let samples = events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(&chunk.runs[0].samples[0]),
        _ => None,
    });
    let units = samples.map(|sample| tracks[0].to_unit(sample).unwrap()).collect();
    (tracks[0].clone(), units)
}

#[test]
fn units_come_back_as_they_were() {
    let mut pictures: Vec<AccessUnit> = (0..4).map(|index| picture(index == 0, 30, 3600 * index)).collect();
    pictures.push(recovery_point(14_400));
    pictures[1].pts = Ticks(9000);
    for in_band in [false, true] {
        let (track, back) = through(&pictures, in_band);
        assert_eq!(track.codec(), Some(Codec::H264));
        for (unit, back) in pictures.iter().zip(&back) {
            assert!(
                h264::nals(&unit.data).map(|nal| nal.bytes).eq(h264::nals(&back.data).map(|nal| nal.bytes))
            );
            assert_eq!((unit.pts, unit.dts), (back.pts, back.dts));
            assert_eq!(h264::join(&unit.data), h264::join(&back.data));
            assert_eq!(back.random_access, h264::join(&unit.data).is_some());
        }
    }
    // 5.1(side) of AAC, as FFmpeg has it: the first frame alone says which channels there are, and all do in the end.
    let element: &[u8] = b"\xa0\x99\x08\x80\x04\x00\x18\x80\x00";
    let header = |bytes| adts::Header { channels: 0, ..adts::Header::parse(&adts_frame(bytes)).unwrap() };
    let frame = |element: &[u8]| {
        let header = header(30 + element.len());
        let header = adts::Header { frame_bytes: adts::HEADER_BYTES + 30 + element.len(), ..header };
        [&header.write().unwrap(), element, &[0x21; 30]].concat()
    };
    let aac = |element: &[&[u8]]| -> Vec<AccessUnit> {
        let of = |(element, number)| AccessUnit {
            random_access: true,
            ..unit(Codec::Aac, frame(element), number * 2090)
        };
        element.iter().copied().zip(0i64..).map(of).collect()
    };
    let (track, back) = through(&aac(&[element, &[], &[]]), false);
    assert_eq!(track.channels(), Some(6));
    assert_eq!(back, aac(&[element; 3]));
    // H.265: its parameter sets stand in the header alone, and are there again where decoding can begin.
    let pictures: Vec<AccessUnit> =
        [(21, 0), (1, 3600), (20, 7200), (0, 10_800)].map(|(kind, dts)| h265_picture(kind, true, dts)).into();
    let (track, back) = through(&pictures, false);
    assert_eq!((track.codec(), track.channels()), (Some(Codec::H265), None));
    let expected: Vec<AccessUnit> = [(21, 0), (1, 3600), (20, 7200), (0, 10_800)]
        .map(|(kind, dts)| h265_picture(kind, kind >= 16, dts))
        .into();
    assert_eq!(back, expected);
    // AV1: the same of its sequence header, and a delimiter in front of each unit.
    let av1_picture = |is_key: bool, has_sequence: bool, dts| {
        let frame = [if is_key { 0x10 } else { 0x30 }, 7, 0, 0, 1];
        let sequence = [(1, av1::tests::PLAIN)];
        let sequence = if has_sequence { &sequence[..] } else { &[] };
        let data = av1::tests::unit(&[&[(2, &[][..])], sequence, &[(6, &frame[..])]].concat());
        AccessUnit { random_access: is_key, ..unit(Codec::Av1, data, dts) }
    };
    let pictures = [(true, true, 0), (false, false, 3600), (true, false, 7200)];
    let pictures = pictures.map(|(is_key, has_sequence, dts)| av1_picture(is_key, has_sequence, dts));
    let (track, back) = through(&pictures, false);
    assert_eq!((track.codec(), &track.sample_entry.0), (Some(Codec::Av1), b"av01"));
    assert_eq!(back[..2], pictures[..2]);
    assert_eq!(back[2], av1_picture(true, true, 7200));
    // FFmpeg leaves the configuration empty where it does not know it yet.
    let mut bytes = init(&[Track { id: 1, media: Media::of(&pictures[0], false).unwrap() }]);
    let at = bytes.windows(4).position(|window| window == b"av1C").unwrap();
    let rest = u32::from_be_bytes(bytes[at - 4..at].try_into().unwrap()) - 8;
    bytes[at - 4..at].copy_from_slice(&8u32.to_be_bytes());
    let filler = [&rest.to_be_bytes()[..], b"free"].concat();
    bytes[at + 4..at + 12].copy_from_slice(&filler);
    let (events, error) = whole(&bytes);
    assert_eq!(error, None);
    let Some(Event::Init(tracks)) = events.into_iter().next() else { panic!("no tracks") };
    assert_eq!((tracks[0].codec(), &tracks[0].media), (Some(Codec::Av1), &None));
    // 1024 samples of 44.1 kHz are 2089.8 ticks.
    let aac: Vec<AccessUnit> = [0, 2090, 4180]
        .iter()
        .map(|&dts| AccessUnit { random_access: true, ..unit(Codec::Aac, adts_frame(40), dts) })
        .collect();
    assert_eq!(through(&aac, false).1, aac);
    // HE-AAC: the frames are those of its core, 1024 samples of 24 kHz, and the header says what it is.
    let core: Vec<AccessUnit> = [0, 3840, 7680]
        .iter()
        .map(|&dts| AccessUnit { random_access: true, ..unit(Codec::Aac, adts_of(24_000, 1, 40), dts) })
        .collect();
    for (parametric_stereo, channels) in [(false, 1), (true, 2)] {
        let said = Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
        let (track, back) = through_track(Media::of(&core[0], false).unwrap().told(said), &core);
        assert_eq!((track.he_aac(), track.channels(), track.timescale), (said, Some(channels), 48_000));
        assert_eq!(back, core);
    }
    let opus: Vec<AccessUnit> =
        [0, 900, 1800].iter().map(|&dts| AccessUnit { random_access: true, ..sound(20, dts) }).collect();
    assert_eq!(through(&opus, false).1, opus);
    // Mono of layer III, 48 kHz, 32 kbit/s; three channels and one of low frequencies of AC-3, 48 kHz, 64 kbit/s.
    for (codec, head, frame_bytes, ticks, channels) in [
        (Codec::MpegAudio, &[0xff, 0xfb, 0x14, 0xc0][..], 96, 2160, 1),
        (Codec::Ac3, &[0x0b, 0x77, 0, 0, 0x08, 0x40, 0x61, 0][..], 256, 2880, 3),
    ] {
        let mut frame = head.to_vec();
        frame.resize(frame_bytes, 0x55);
        let frames: Vec<AccessUnit> = (0..3)
            .map(|number| AccessUnit { random_access: true, ..unit(codec, frame.clone(), number * ticks) })
            .collect();
        let (track, back) = through(&frames, false);
        assert_eq!((track.codec(), track.channels()), (Some(codec), Some(channels)));
        assert_eq!(back, frames);
    }
}

/// A picture of H.265 of this kind, behind a delimiter and perhaps parameter sets.
fn h265_picture(kind: u8, has_sets: bool, dts: i64) -> AccessUnit {
    let mut data = h265::ACCESS_UNIT_DELIMITER.to_vec();
    let sets = [&[0x40, 0x01, 0x0c][..], h265::tests::MAIN, &[0x44, 0x01, 0xc1]];
    let slice = [kind << 1, 0x01, 0xaf, 7];
    for nal in sets.into_iter().filter(|_| has_sets).chain([&slice[..]]) {
        data.extend_from_slice(&[0, 0, 0, 1]);
        data.extend_from_slice(nal);
    }
    AccessUnit { random_access: kind >= 16, ..unit(Codec::H265, data, dts) }
}

#[test]
fn samples_that_make_no_unit_say_why() {
    let mut reader = Reader::new();
    reader.push(&init(&tracks())).unwrap();
    let sample = |data: &'static [u8], decode_time| {
        let (duration, composition_offset, flags) = (1, 0, 0);
        ReadSample { decode_time, duration, composition_offset, flags, data: Bytes::from_static(data) }
    };
    let error = reader.track(1).unwrap().to_unit(&sample(&[0, 0, 0, 2, 0x65], 7)).unwrap_err();
    let expected = "a sample of track 1 ('avc1') at 7 has a NAL unit that is cut off, expected whole ones";
    assert_eq!(error.to_string(), expected);
    let error = reader.track(3).unwrap().to_unit(&sample(&[0; 8190], 0)).unwrap_err();
    assert!(error.to_string().ends_with("too many bytes, expected a frame of less than 8 kB"));
    let error = reader.track(4).unwrap().to_unit(&sample(&[0], 1 << 61)).unwrap_err();
    assert!(error.to_string().contains("a time beyond all others"));
    assert!(reader.track(5).is_none());
}

#[test]
fn a_segment_by_itself_is_read_with_what_is_known() {
    let tracks = &tracks()[..1];
    let bytes = [&init(tracks)[..], &small_moof(80), &mdat(b"x")].concat();
    let at = init(tracks).len();
    let mut reader = Reader::new();
    reader.push(&bytes[..at]).unwrap();
    let mut segment = reader.of_segment();
    segment.push(&bytes[at..]).unwrap();
    assert!(matches!(segment.poll(), Some(Event::Chunk(chunk)) if chunk.runs[0].samples[0].data == b"x"[..]));
    assert_eq!((segment.poll(), segment.is_between_boxes()), (None, true));
    // What is not complete is held, and what is passed over is not.
    segment.push(&bytes[at..bytes.len() - 1]).unwrap();
    assert!(segment.held_bytes() > 0 && !segment.is_between_boxes());
    let mut segment = reader.of_segment();
    segment.push(&[&b"\0\0\0\x10mfra"[..], &[0; 7]].concat()).unwrap();
    assert_eq!((segment.poll(), segment.held_bytes()), (Some(Event::End), 0));
}

/// The initialisation of one track, in which these letters are others.
fn altered(track: &Track, from: &[u8], to: &[u8]) -> Vec<ReadTrack> {
    let mut bytes = init(std::slice::from_ref(track));
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    let (events, error) = whole(&bytes);
    assert_eq!(error, None);
    let Some(Event::Init(tracks)) = events.into_iter().next() else { panic!("no tracks") };
    tracks
}

#[test]
fn what_is_known_at_an_event_does_not_depend_on_what_came_with_it() {
    let header = |id: u32| {
        let mut out = Vec::new();
        write_init(Brand::Cmaf, &[Track { id, media: Media::Opus { channels: 2 } }], &mut out);
        out
    };
    let both = [header(1), header(2), b"\0\0\0\x08mfra".to_vec()].concat();
    let (mut reader, mut input) = (Reader::new(), &both[..]);
    for id in [1, 2] {
        reader.push_next(&mut input).unwrap();
        assert!(matches!(reader.poll(), Some(Event::Init(tracks)) if tracks[0].id == id));
        assert!(reader.track(id).is_some() && reader.track(3 - id).is_none());
    }
    reader.push_next(&mut input).unwrap();
    assert_eq!((reader.poll(), input), (Some(Event::End), &b""[..]));
    assert!(reader.is_between_boxes());
}

#[test]
fn codecs_that_are_not_read_are_named() {
    let [avc1, _, aac, opus] = &tracks()[..] else { panic!("four tracks") };
    let found = &altered(avc1, b"avc1", b"vp09")[0];
    assert_eq!((found.sample_entry, &found.media, found.codec()), (FourCc(*b"vp09"), &None, None));
    // Six channels of Opus; DTS in mp4a, and MPEG audio.
    assert_eq!(altered(opus, b"dOps\0\x02", b"dOps\0\x06")[0].codec(), None);
    assert_eq!(altered(aac, &[4, 17, 0x40], &[4, 17, 0xa9])[0].codec(), None);
    let found = &altered(aac, &[4, 17, 0x40], &[4, 17, 0x6b])[0];
    assert_eq!((found.codec(), &found.media), (Some(Codec::MpegAudio), &None));
    // Parameter sets that cannot be read are not needed where samples bring their own.
    let found = &altered(&tracks()[1], &[0xe1, 0, 25, 0x67, 0x42], &[0xe1, 0, 25, 0x07, 0xff])[0];
    assert_eq!((found.codec(), found.sample_entry), (Some(Codec::H264), FourCc(*b"avc3")));
}

#[test]
fn an_edit_list_says_what_is_presented_first() {
    // Half a second of nothing, in a movie of 90 kHz; then from tick 1024 of 48 kHz on.
    let mut bytes = init(&tracks()[3..]);
    let mut edits = Vec::new();
    plain(&mut edits, b"edts", |out| {
        full(out, b"elst", 0, 0, |out| words(out, &[2, 45_000, u32::MAX, 0x1_0000, 0, 1024, 0x1_0000]));
    });
    let at = bytes.windows(4).position(|window| window == b"mdia").unwrap() - 4;
    bytes.splice(at..at, edits.iter().copied());
    for kind in [b"moov", b"trak"] {
        let at = bytes.windows(4).position(|window| window == kind).unwrap() - 4;
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) + edits.len() as u32;
        bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    let (events, error) = whole(&bytes);
    let Event::Init(tracks) = &events[0] else { panic!("{error:?}") };
    assert_eq!(tracks[0].presentation_start, 1024 - 24_000);
    let data = Bytes::from_static(&[0xf4]);
    let sample = ReadSample { decode_time: 1024, duration: 1, composition_offset: 0, flags: 0, data };
    assert_eq!(tracks[0].to_unit(&sample).unwrap().pts, Ticks(45_000));
}
