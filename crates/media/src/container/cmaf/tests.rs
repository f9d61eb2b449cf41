//! What is written is read back by a reader of its own here, and every byte is accounted for.

use super::boxes::{find, walk};
use super::*;
use crate::bitstream::aac_config::HeAac;
use crate::bitstream::h264;
use crate::time::Utc;
use bytes::Bytes;
use proptest::prelude::*;

/// Baseline, 320x180, 25 pictures a second, as x264 writes it.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

pub(super) fn unit(codec: Codec, data: Vec<u8>, dts: i64) -> AccessUnit {
    let (pts, dts, stamps) = (Ticks(dts), Ticks(dts), crate::Stamps::default());
    AccessUnit { codec, data: Bytes::from(data), pts, dts, random_access: false, stamps }
}

/// A picture whose one slice has `bytes` bytes.
pub(super) fn picture(key: bool, bytes: usize, dts: i64) -> AccessUnit {
    let mut data = h264::ACCESS_UNIT_DELIMITER.to_vec();
    if key {
        for nal in [SPS, PPS] {
            data.extend_from_slice(&[0, 0, 0, 1]);
            data.extend_from_slice(nal);
        }
    }
    data.extend_from_slice(&[0, 0, 1, if key { 0x65 } else { 0x41 }]);
    data.resize(data.len() + bytes.max(1), 0x88);
    unit(Codec::H264, data, dts)
}

/// An Opus packet of 10 ms in stereo.
pub(super) fn sound(bytes: usize, dts: i64) -> AccessUnit {
    let mut data = vec![0xe4; bytes.max(1)];
    data[0] = 0xf4;
    unit(Codec::Opus, data, dts)
}

/// Big-endian, at `at`.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A sample as it is read back: decoding time, duration, whether it is a key frame, its bytes.
type Read = (u64, u64, bool, Vec<u8>);

/// Reads all samples of a track out of a file.
fn samples(file: &[u8], track_id: u64) -> Vec<Read> {
    let (mut found, mut at) = (Vec::new(), 0);
    for (kind, content) in walk(file) {
        let start = at;
        at += content.len() + 8;
        if &kind != b"moof" {
            continue;
        }
        for (_, traf) in walk(content).into_iter().filter(|(kind, _)| kind == b"traf") {
            let of = |kind| find(traf, &[kind]).unwrap();
            if number::<4>(of(b"tfhd"), 4) != track_id {
                continue;
            }
            let (mut time, run) = (number::<8>(of(b"tfdt"), 4), of(b"trun"));
            assert_eq!(number::<4>(run, 0), 0x0100_0701, "version and flags");
            let mut data = start + number::<4>(run, 8) as usize;
            for index in 0..number::<4>(run, 4) as usize {
                let field = |field: usize| number::<4>(run, 12 + index * 12 + field * 4);
                let (duration, bytes) = (field(0), field(1) as usize);
                found.push((time, duration, field(2) == 0x0200_0000, file[data..data + bytes].to_vec()));
                time += duration;
                data += bytes;
            }
        }
    }
    found
}

fn kinds(file: &[u8]) -> Vec<String> {
    walk(file).iter().map(|(kind, _)| String::from_utf8_lossy(kind).into_owned()).collect()
}

/// A file of two groups of pictures with sound.
fn recorded() -> (Vec<u8>, Vec<u8>, Patch) {
    let (mut recorder, mut file) = (Recorder::new(true), Vec::new());
    // Neither the picture nor the sound has a beginning to hold on to.
    recorder.push(&picture(false, 9, 996_400), &mut file).unwrap();
    recorder.push(&sound(3, 999_000), &mut file).unwrap();
    for index in 0..40 {
        recorder
            .push(&picture(index % 20 == 0, 100 + index, 1_000_000 + 3600 * index as i64), &mut file)
            .unwrap();
        for part in 0..4 {
            let dts = 1_000_100 + 3600 * index as i64 + 900 * part;
            recorder.push(&sound(20 + part as usize, dts), &mut file).unwrap();
        }
    }
    let before = file.clone();
    let patch = recorder.finish(&mut file).unwrap().unwrap();
    (before, file, patch)
}

#[test]
fn a_file_has_a_fragment_for_each_group_and_a_list_at_the_end() {
    let (before, mut file, patch) = recorded();
    assert_eq!(kinds(&before), ["ftyp", "moov", "moof", "mdat"]);
    assert_eq!(kinds(&file), ["ftyp", "moov", "moof", "mdat", "moof", "mdat", "mfra"]);
    assert_eq!(file[..before.len()], before, "what is written stays");
    let pictures = samples(&file, 1);
    assert_eq!(pictures.len(), 40);
    for (index, (time, duration, sync, data)) in pictures.iter().enumerate() {
        assert_eq!((*time, *duration, *sync), (3600 * index as u64, 3600, index % 20 == 0));
        // Delimiter and parameter sets are gone; the slice stands behind its length.
        assert_eq!((data.len(), number::<4>(data, 0)), (100 + index + 5, 100 + index as u64 + 1));
    }
    let sounds = samples(&file, 2);
    assert_eq!(sounds.len(), 160);
    // 100 ticks of 90 kHz are 53.3 samples.
    assert_eq!(sounds[0].0, 53);
    assert!(
        sounds
            .iter()
            .zip(0..)
            .all(|((time, duration, ..), index)| (*time, *duration) == (53 + 480 * index, 480))
    );
    // The list leads to the fragments.
    let list = find(&file, &[b"mfra", b"tfra"]).unwrap();
    assert_eq!(number::<4>(list, 12), 2);
    for entry in 0..2 {
        let (time, offset) =
            (number::<8>(list, 16 + 19 * entry), number::<8>(list, 24 + 19 * entry) as usize);
        assert_eq!((time, &file[offset + 4..offset + 8]), (72_000 * entry as u64, &b"moof"[..]));
    }
    let length = number::<4>(&file, file.len() - 4) as usize;
    assert_eq!(&file[file.len() - length + 4..][..4], b"mfra");
    // The duration finds its place: 40 pictures, or the sound that ends 100 ticks later.
    let at = patch.offset as usize;
    assert_eq!(&file[at + 4..at + 8], b"free");
    file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    assert_eq!(number::<8>(find(&file, &[b"moov", b"mvex", b"mehd"]).unwrap(), 4), 144_099);
    assert_eq!(kinds(find(&file, &[b"moov", b"mvex"]).unwrap()), ["mehd", "trex", "trex"]);
}

#[test]
fn pictures_do_not_wait_for_ever_for_sound_or_for_a_key_frame() {
    let (mut recorder, mut file) = (Recorder::new(true), Vec::new());
    for index in 0..200 {
        recorder.push(&picture(index == 0, 10, 3600 * index), &mut file).unwrap();
    }
    // After two seconds without sound it begins without; a fragment a second.
    assert_eq!(kinds(&file).iter().filter(|kind| *kind == "moof").count(), 7);
    recorder.push(&sound(10, 720_000), &mut file).unwrap();
    recorder.finish(&mut file).unwrap();
    assert_eq!((samples(&file, 1).len(), samples(&file, 2).len()), (200, 0));
    // Nothing to begin with is no file.
    let (mut recorder, mut file) = (Recorder::new(false), Vec::new());
    recorder.push(&picture(false, 10, 0), &mut file).unwrap();
    assert_eq!((recorder.finish(&mut file).unwrap(), file.len()), (None, 0));
}

#[test]
fn gaps_last_and_what_does_not_follow_is_refused() {
    let (mut recorder, mut file) = (Recorder::new(true), Vec::new());
    for (index, dts) in [0, 3600, 10_800].into_iter().enumerate() {
        recorder.push(&picture(index == 0, 10, dts), &mut file).unwrap();
        recorder.push(&sound(10, dts), &mut file).unwrap();
    }
    for bad in [10_800, 0, 10_801 + 90_000 * 3600] {
        let error = recorder.push(&picture(false, 10, bad), &mut file).unwrap_err();
        assert!(matches!(error, Error::Time { .. }), "{error}");
    }
    let mut other = picture(true, 10, 14_400);
    let mut data = other.data.to_vec();
    // Another level.
    data[h264::ACCESS_UNIT_DELIMITER.len() + 4 + 3] = 0x1f;
    other.data = data.into();
    assert_eq!(recorder.push(&other, &mut file).unwrap_err(), Error::Changed);
    let carried = unit(Codec::S302m, vec![1], 20_000);
    assert_eq!(recorder.push(&carried, &mut file).unwrap_err(), Error::Codec { codec: Codec::S302m });
    recorder.finish(&mut file).unwrap();
    let durations = |track| samples(&file, track).iter().map(|sample| sample.1).collect::<Vec<_>>();
    assert_eq!(durations(1), [3600, 7200, 7200]);
    assert_eq!(durations(2), [1920, 3840, 480]);
}

#[test]
fn tracks_say_what_decoders_need() {
    let media = |unit: &AccessUnit, in_band| Media::of(unit, in_band).unwrap();
    let video = media(&picture(true, 10, 0), true);
    assert_eq!((video.codec_string(), video.timescale()), ("avc3.42C00D".to_owned(), 90_000));
    let mut aac = adts_frame(40);
    let sound = media(&unit(Codec::Aac, aac.clone(), 0), false);
    assert_eq!((sound.codec_string(), sound.timescale()), ("mp4a.40.2".to_owned(), 44_100));
    let mut sample = Vec::new();
    sound.write_sample(&unit(Codec::Aac, aac.clone(), 0), &mut sample).unwrap();
    assert_eq!(sample, vec![0x21; 40]);
    aac.truncate(20);
    assert!(sound.write_sample(&unit(Codec::Aac, aac, 0), &mut sample).is_err());
    let mut init = Vec::new();
    let track = Track { id: 1, media: video.clone() };
    write_init(Brand::Cmaf, std::slice::from_ref(&track), &mut init);
    assert_eq!(&init[8..12], b"cmfc");
    let table = find(&init, &[b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"]).unwrap();
    let entry = find(&table[8..], &[b"avc3"]).unwrap();
    assert_eq!((number::<2>(entry, 24), number::<2>(entry, 26)), (320, 180));
    let configuration = find(&entry[78..], &[b"avcC"]).unwrap();
    assert_eq!(configuration[..8], [1, 0x42, 0xc0, 0x0d, 0xff, 0xe1, 0, SPS.len() as u8]);
    assert!(configuration.ends_with(PPS));
    // Parameter sets stay in the samples, so that they may change.
    let mut sample = Vec::new();
    video.write_sample(&picture(true, 3, 0), &mut sample).unwrap();
    assert_eq!(sample.len(), 4 + SPS.len() + 4 + PPS.len() + 4 + 4);
    for bad in [
        unit(Codec::H264, vec![0, 0, 1, 0x65, 9], 0),
        unit(Codec::Opus, vec![], 0),
        unit(Codec::Aac, vec![0], 0),
    ] {
        assert!(Media::of(&bad, false).is_err());
    }
}

pub(super) fn adts_frame(bytes: usize) -> Vec<u8> {
    adts_of(44_100, 2, bytes)
}

/// A frame of AAC-LC behind its header.
pub(super) fn adts_of(rate_hz: u32, channels: u8, bytes: usize) -> Vec<u8> {
    let frame_bytes = bytes + 7;
    let header = crate::bitstream::adts::Header {
        object_type: 2,
        rate_hz,
        channels,
        checksum: false,
        frame_bytes,
        blocks: 1,
    };
    let mut frame = header.write().unwrap().to_vec();
    frame.resize(frame_bytes, 0x21);
    frame
}

#[test]
fn he_aac_is_said_where_it_is_known() {
    let said = |parametric_stereo| Some(HeAac { parametric_stereo, rate_max_hz: 48_000 });
    for (channels, he_aac, codec, scale, config, heard) in [
        (2, None, "mp4a.40.2", 24_000, &[0x13, 0x10][..], 2),
        (2, said(false), "mp4a.40.5", 48_000, &[0x2b, 0x11, 0x88, 0x00], 2),
        (1, said(true), "mp4a.40.29", 48_000, &[0xeb, 0x09, 0x88, 0x00], 2),
        // A higher profile than this needs.
        (2, said(true), "mp4a.40.5", 48_000, &[0x2b, 0x11, 0x88, 0x00], 2),
    ] {
        let first = unit(Codec::Aac, adts_of(24_000, channels, 40), 0);
        let media = Media::of(&first, false).unwrap().told(he_aac);
        assert_eq!((media.codec_string(), media.timescale()), (codec.to_owned(), scale));
        assert_eq!((media.channels(), media.sound_ticks(&first)), (Some(heard), Some(1024 * scale / 24_000)));
        let mut init = Vec::new();
        write_init(Brand::Cmaf, &[Track { id: 1, media }], &mut init);
        let table = find(&init, &[b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"]).unwrap();
        let entry = find(&table[8..], &[b"mp4a"]).unwrap();
        assert_eq!((number::<2>(entry, 16), number::<2>(entry, 24)), (u64::from(heard), u64::from(scale)));
        let esds = find(&entry[28..], &[b"esds"]).unwrap();
        let specific = [&[5, config.len() as u8], config, &[6, 1, 2]].concat();
        assert!(esds.ends_with(&specific), "{esds:02x?}");
    }
}

#[test]
fn a_track_may_have_the_largest_number() {
    let media = Media::Opus { channels: 2 };
    let mut file = Vec::new();
    write_init(Brand::File, &[Track { id: u32::MAX, media }], &mut file);
    let header = find(&file, &[b"moov", b"mvhd"]).unwrap();
    assert_eq!(header[header.len() - 4..], u32::MAX.to_be_bytes(), "one that is free is to be looked for");
}

#[test]
fn a_chunk_tells_when_it_was_captured() {
    let sample = Sample { bytes: 3, duration: 1800, composition_offset: -90, is_sync: true, roll: 0 };
    let run = Run { track_id: 1, decode_time: 5, samples: &[sample], data: b"abc" };
    let utc = Utc::from_nanos(1_500_000_000);
    let mut chunk = Vec::new();
    write_chunk(7, Some(Captured { track_id: 1, utc, media_time: 9 }), &[run], &mut chunk);
    assert_eq!(kinds(&chunk), ["prft", "moof", "mdat"]);
    let told = find(&chunk, &[b"prft"]).unwrap();
    assert_eq!((number::<4>(told, 0), number::<4>(told, 8)), (0x0100_0018, 2_208_988_801));
    assert_eq!((number::<4>(told, 12), number::<8>(told, 16)), (1 << 31, 9));
    let run = find(&chunk, &[b"moof", b"traf", b"trun"]).unwrap();
    assert_eq!((number::<4>(run, 0), number::<4>(run, 24) as u32 as i32), (0x0100_0f01, -90));
    assert!(chunk.ends_with(b"abc"));
}

proptest! {
    /// However pictures and sound come, each sample is found again in its place, and times add up.
    #[test]
    fn what_goes_in_comes_out(
        units in proptest::collection::vec((any::<bool>(), any::<bool>(), 1usize..400, 1i64..20_000), 1..120),
        zero in 0i64..1 << 40,
    ) {
        let (mut recorder, mut file) = (Recorder::new(true), Vec::new());
        let (mut dts, mut sent) = (zero, [Vec::new(), Vec::new()]);
        recorder.push(&picture(true, 1, dts), &mut file).unwrap();
        recorder.push(&sound(1, dts), &mut file).unwrap();
        sent[0].push((0, 6));
        sent[1].push((0, 1));
        for (is_picture, key, bytes, step) in units {
            dts += step;
            let unit = if is_picture { picture(key, bytes, dts) } else { sound(bytes, dts) };
            recorder.push(&unit, &mut file).unwrap();
            sent[usize::from(!is_picture)].push((dts - zero, if is_picture { bytes + 5 } else { bytes }));
        }
        recorder.finish(&mut file).unwrap();
        for (track, sent) in (1..).zip(&sent) {
            let found = samples(&file, track);
            prop_assert_eq!(found.len(), sent.len());
            for pair in found.windows(2) {
                prop_assert_eq!(pair[0].0 + pair[0].1, pair[1].0);
            }
            for ((time, _, _, data), (dts, bytes)) in found.iter().zip(sent) {
                prop_assert_eq!(data.len(), *bytes);
                let stamped = if track == 1 { *dts as f64 } else { *dts as f64 * 48.0 / 90.0 };
                // Pictures are exact; sound follows its own samples within 5 ms, or comes late behind too many of them.
                let early = if track == 1 { 0.0 } else { 241.0 };
                prop_assert!(*time as f64 >= stamped - early);
            }
        }
    }

    #[test]
    fn hostile_units_do_no_harm(
        units in proptest::collection::vec(
            (0usize..8, proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x67), any::<u8>()], 0..60), any::<i64>()),
            0..20,
        ),
    ) {
        let (mut recorder, mut file) = (Recorder::new(true), Vec::new());
        recorder.push(&picture(true, 1, 0), &mut file).unwrap();
        for (codec, data, dts) in units {
            let sound = [Codec::Opus, Codec::Aac, Codec::Ac3, Codec::EAc3, Codec::MpegAudio];
            let codecs = [&[Codec::H264, Codec::H265, Codec::Av1][..], &sound].concat();
            let codec = codecs[codec];
            // The demuxer unwraps stamps of 33 bits; they never come near the ends of 64.
            let _ = recorder.push(&unit(codec, data, dts >> 8), &mut file);
        }
        let _ = recorder.finish(&mut file);
        walk(&file);
    }
}

/// A picture of 100 bytes that is a recovery point, right after 39 more.
pub(super) fn recovery_point(dts: i64) -> AccessUnit {
    let whole = picture(true, 100, dts);
    let slice = whole.data.len() - 104;
    // SEI, recovery point: 39 as Exp-Golomb, exact, no broken link.
    let message = [0, 0, 1, 0x06, 6, 2, 0x05, 0x11, 0x80];
    let mut data = whole.data[..slice].to_vec();
    data.extend_from_slice(&message);
    data.extend_from_slice(&picture(false, 100, dts).data[h264::ACCESS_UNIT_DELIMITER.len()..]);
    unit(Codec::H264, data, dts)
}

#[test]
pub(super) fn recovery_points_are_a_sample_group() {
    let (mut recorder, mut file) = (Recorder::new(false), Vec::new());
    for index in 0..60i64 {
        let dts = 3600 * index;
        let picture = match index {
            0 => picture(true, 100, dts),
            20 | 40 => recovery_point(dts),
            _ => picture(false, 100, dts),
        };
        if index == 20 {
            assert_eq!(h264::join(&picture.data).map(h264::Join::settling_frames), Some(39));
        }
        recorder.push(&picture, &mut file).unwrap();
    }
    recorder.finish(&mut file).unwrap();
    // Each begins a fragment, and is its first sample.
    let fragments: Vec<&[u8]> =
        walk(&file).into_iter().filter(|(kind, _)| kind == b"moof").map(|(_, moof)| moof).collect();
    assert_eq!(fragments.len(), 3);
    assert!(
        find(fragments[0], &[b"traf", b"sgpd"]).is_none()
            && find(fragments[0], &[b"traf", b"sbgp"]).is_none()
    );
    for moof in &fragments[1..] {
        let [descriptions, samples] = [b"sgpd", b"sbgp"].map(|kind| find(moof, &[b"traf", kind]).unwrap());
        assert_eq!((number::<4>(descriptions, 0), &descriptions[4..8]), (0x0100_0000, &b"roll"[..]));
        assert_eq!(
            [number::<4>(descriptions, 8), number::<4>(descriptions, 12), number::<2>(descriptions, 16)],
            [2, 1, 39]
        );
        assert_eq!((number::<4>(samples, 0), &samples[4..8]), (0, &b"roll"[..]));
        let entries: Vec<u64> = (0..5).map(|field| number::<4>(samples, 8 + 4 * field)).collect();
        assert_eq!(entries, [2, 1, 0x1_0001, 19, 0]);
    }
    // They are no sync samples: only a reader that knows the group begins there.
    assert_eq!(self::samples(&file, 1).iter().filter(|(_, _, sync, _)| *sync).count(), 1);
}

#[test]
fn the_scheme_of_captures_is_the_uuid_of_the_message_in_the_picture() {
    let digits: String = h264::CAPTURE_UTC_UUID.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(CAPTURE_SCHEME.replace('-', ""), format!("urn:uuid:{digits}"));
}
