use super::*;
use crate::Stamps;
use crate::bitstream::av1::tests::{PLAIN, unit as obus};
use crate::container::frames::Event;
use crate::container::webm::demux::Demuxer;
use crate::container::webm::ebml;
use bytes::Bytes;
use proptest::prelude::*;

/// 20 ms of Opus in stereo, as its first byte says.
const TOC: u8 = 0xFC;

fn unit(codec: Codec, data: Vec<u8>, pts: i64) -> AccessUnit {
    AccessUnit {
        codec,
        data: Bytes::from(data),
        pts: Ticks(pts),
        dts: Ticks(pts),
        random_access: true,
        stamps: Stamps::default(),
    }
}

/// A picture at so many milliseconds; its frame ends with these bytes.
fn picture(millis: i64, is_key: bool, body: &[u8]) -> AccessUnit {
    let frame = [&[if is_key { 0x10 } else { 0x30 }], body, &[0x80]].concat();
    let sequence = is_key.then_some((1, PLAIN));
    let parts: Vec<(u8, &[u8])> =
        [Some((2, &[][..])), sequence, Some((6, &frame[..]))].into_iter().flatten().collect();
    AccessUnit { random_access: is_key, ..unit(Codec::Av1, obus(&parts), millis * 90) }
}

fn sound(millis: i64) -> AccessUnit {
    unit(Codec::Opus, vec![TOC, 1, 2, 3], millis * 90)
}

/// A file of these units, and the same as it is before its patches.
fn files(with_sound: bool, units: &[AccessUnit]) -> (Vec<u8>, Vec<u8>) {
    let (mut recorder, mut out, mut patches) = (Recorder::new(with_sound), Vec::new(), Vec::new());
    for unit in units {
        recorder.push(unit, &mut out).unwrap();
        patches.extend(std::iter::from_fn(|| recorder.poll_patch()));
        assert!(patches.iter().all(|patch| patch.offset as usize + patch.bytes.len() <= out.len()));
    }
    recorder.finish(&mut out).unwrap();
    patches.extend(std::iter::from_fn(|| recorder.poll_patch()));
    let torn = out.clone();
    for Patch { offset, bytes } in patches {
        out[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    (out, torn)
}

fn file(with_sound: bool, units: &[AccessUnit]) -> Vec<u8> {
    files(with_sound, units).0
}

/// What our own demultiplexer finds: units, and that nothing is damaged.
fn read(bytes: &[u8]) -> Vec<AccessUnit> {
    let (mut demuxer, mut units) = (Demuxer::new(), Vec::new());
    demuxer.push(bytes).unwrap();
    demuxer.finish();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            units.push(unit);
        }
    }
    assert_eq!((demuxer.counters().damaged_blocks, demuxer.counters().left_out), (0, 0));
    units
}

/// The elements on the way down to `path`, from the payload of the segment.
fn inside<'a>(payload: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
    let Some((first, rest)) = path.split_first() else { return vec![payload] };
    let found = ebml::children(payload).filter(|(id, _)| id == first);
    found.flat_map(|(_, payload)| inside(payload, rest)).collect()
}

/// The payload of the segment, of a file that has ended well: all of the file behind its head is in it.
fn segment(file: &[u8]) -> &[u8] {
    let top: Vec<_> = ebml::children(file).collect();
    assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0x1A45_DFA3, 0x1853_8067]);
    top[1].1
}

fn numbers(payload: &[u8], path: &[u32]) -> Vec<u64> {
    inside(payload, path).into_iter().map(|value| ebml::unsigned(value).unwrap()).collect()
}

/// Ten seconds: a key frame each four, 25 pictures and 50 packets a second.
fn film() -> Vec<AccessUnit> {
    let mut units: Vec<AccessUnit> = Vec::new();
    for index in 0..250i64 {
        units.push(picture(index * 40, index % 100 == 0, &[7, 0, 0, 1, 9]));
        units.extend([sound(index * 40), sound(index * 40 + 20)]);
    }
    units
}

#[test]
fn what_is_written_is_read_back_with_its_times_and_key_frames() {
    let back = read(&file(true, &film()));
    for codec in [Codec::Av1, Codec::Opus] {
        let of = |units: &[AccessUnit]| -> Vec<AccessUnit> {
            units.iter().filter(|unit| unit.codec == codec).cloned().collect()
        };
        let (written, found) = (of(&film()), of(&back));
        assert_eq!(written.len(), found.len());
        for (written, found) in written.iter().zip(&found) {
            assert_eq!((&written.data, written.random_access), (&found.data, found.random_access));
            // Times are whole milliseconds, those of sound with its pre-skip.
            assert!((written.pts - found.pts).0.abs() <= 45, "{written:?} {found:?}");
        }
    }
}

#[test]
fn a_file_that_has_ended_well_says_where_things_are_and_how_long_it_lasts() {
    let file = file(true, &film());
    let segment = segment(&file);
    let ids: Vec<u32> = ebml::children(segment).map(|(id, _)| id).collect();
    // SeekHead, Info, Tracks, clusters, Cues.
    assert_eq!(ids, [0x114D_9B74, 0x1549_A966, 0x1654_AE6B, CLUSTER, CLUSTER, CLUSTER, 0x1C53_BB6B]);
    let start = segment.as_ptr() as usize;
    let seeks = inside(segment, &[0x114D_9B74, 0x4DBB]);
    for (seek, id) in seeks.iter().zip([ids[1], ids[2], ids[6]]) {
        let at = numbers(seek, &[0x53AC])[0] as usize;
        assert_eq!(numbers(seek, &[0x53AB]), [u64::from(id)]);
        assert_eq!(ebml::head(&segment[at..]).unwrap().0, id);
    }
    let duration = inside(segment, &[0x1549_A966, 0x4489])[0];
    assert_eq!(f64::from_be_bytes(duration.try_into().unwrap()), 10_000.0);
    // Each key frame is the first block of its cluster, and is listed.
    let cues = inside(segment, &[0x1C53_BB6B, 0xBB]);
    let clusters = inside(segment, &[CLUSTER]);
    let listed: Vec<(u64, u64)> =
        cues.iter().map(|cue| (numbers(cue, &[0xB3])[0], numbers(cue, &[0xB7, 0xF1])[0])).collect();
    assert_eq!(listed.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [0, 4000, 8000]);
    for ((time, at), cluster) in listed.iter().zip(&clusters) {
        let (id, _, payload) = ebml::head(&segment[*at as usize..]).unwrap();
        assert_eq!((id, payload.as_ptr()), (CLUSTER, cluster.as_ptr()));
        assert_eq!(numbers(cluster, &[TIMESTAMP]), [*time]);
        assert_eq!(inside(cluster, &[SIMPLE_BLOCK])[0][..4], [0x81, 0, 0, KEY_FRAME]);
    }
    assert_eq!(segment.as_ptr() as usize + segment.len() - start, segment.len());
}

#[test]
fn tracks_tell_decoders_what_they_have_to_know() {
    let file = file(true, &film());
    let entries = inside(segment(&file), &[0x1654_AE6B, 0xAE]);
    let [video, sound] = entries[..] else { panic!("two tracks: {entries:?}") };
    let element = |entry, id: u32| inside(entry, &[id])[0].to_vec();
    assert_eq!((element(video, 0x86), element(sound, 0x86)), (b"V_AV1".to_vec(), b"A_OPUS".to_vec()));
    // av1C: its version, the profile, level and form of the samples, then the sequence header with its size.
    let configuration = [&[0x81, 0x00, 0x0C, 0x00, 0x0A, PLAIN.len() as u8], PLAIN].concat();
    assert_eq!(element(video, 0x63A2), configuration);
    assert_eq!((numbers(video, &[0xE0, 0xB0]), numbers(video, &[0xE0, 0xBA])), (vec![320], vec![180]));
    assert!(inside(video, &[0xE0, 0x55B0]).is_empty(), "its colour is not said");
    assert_eq!(element(sound, 0x63A2), b"OpusHead\x01\x02\x38\x01\x80\xBB\0\0\0\0\0");
    assert_eq!((numbers(sound, &[0x56AA]), numbers(sound, &[0x56BB])), (vec![6_500_000], vec![80_000_000]));
    assert_eq!(numbers(sound, &[0xE1, 0x9F]), [2]);
    let head = ebml::children(&file).next().unwrap().1;
    assert_eq!((numbers(head, &[0x4287]), numbers(head, &[0x4285])), (vec![4], vec![2]));
    assert_eq!(inside(head, &[0x4282]), [b"webm"]);
}

#[test]
fn colour_stands_in_the_header_where_the_sequence_header_says_it() {
    // libaom, BT.709.
    let sequence = [0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xda, 0xf9, 0x10, 0x10, 0x10, 0x10, 0x40];
    let key = unit(Codec::Av1, obus(&[(2, &[]), (1, &sequence), (6, &[0x10, 0x80])]), 0);
    let file = file(false, &[key]);
    let colour = inside(segment(&file), &[0x1654_AE6B, 0xAE, 0xE0, 0x55B0]);
    assert_eq!(colour.len(), 1);
    let values = [0x55B1, 0x55B9, 0x55BA, 0x55BB].map(|id| numbers(colour[0], &[id])[0]);
    assert_eq!(values, [1, 1, 1, 1], "BT.709 of the range of broadcasts");
}

#[test]
fn a_cluster_ends_at_a_key_frame_and_after_five_seconds_and_five_megabytes() {
    let times = |units: &[AccessUnit]| numbers(segment(&file(false, units)), &[CLUSTER, TIMESTAMP]);
    // One key frame, as direct video has it.
    let rare: Vec<_> = (0..320).map(|index| picture(index * 40, index == 0, &[5])).collect();
    assert_eq!(times(&rare), [0, 5000, 10_000]);
    // A pause that no time in a cluster has room for.
    assert_eq!(times(&[picture(0, true, &[]), picture(400_000, false, &[])]), [0, 400_000]);
    let large: Vec<_> = (0..7).map(|index| picture(index * 40, index == 0, &[9; 1 << 20])).collect();
    assert_eq!(times(&large), [0, 200]);
    assert_eq!(times(&[picture(0, true, &[]), picture(40, true, &[]), picture(80, false, &[])]), [0, 40]);
}

#[test]
fn blocks_of_both_tracks_lie_in_the_order_of_their_times() {
    // Sound comes 300 ms late.
    let mut units = film();
    units.sort_by_key(|unit| unit.pts.0 + if unit.codec == Codec::Opus { 27_000 } else { 0 });
    let file = file(true, &units);
    let mut blocks = Vec::new();
    for cluster in inside(segment(&file), &[CLUSTER]) {
        let time = numbers(cluster, &[TIMESTAMP])[0] as i64;
        blocks.extend(inside(cluster, &[SIMPLE_BLOCK]).into_iter().map(|block| {
            let relative = i16::from_be_bytes([block[1], block[2]]);
            assert!(relative >= 0, "nothing lies before its cluster");
            (block[0] & 0x7F, time + i64::from(relative))
        }));
    }
    assert_eq!(blocks.len(), 750);
    assert!(blocks.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{blocks:?}");
}

#[test]
fn a_track_that_falls_silent_holds_the_other_one_for_a_second() {
    let mut recorder = Recorder::new(true);
    let mut out = Vec::new();
    recorder.push(&picture(0, true, &[]), &mut out).unwrap();
    assert!(out.is_empty(), "sound may still come");
    recorder.push(&sound(5), &mut out).unwrap();
    let begun = out.len();
    assert!(begun > 0);
    for millis in (40..=1040).step_by(40) {
        recorder.push(&picture(millis, false, &[]), &mut out).unwrap();
    }
    assert_eq!(read(&out).len(), 2, "the key frame and the sound");
    recorder.push(&picture(1080, false, &[]), &mut out).unwrap();
    assert_eq!(read(&out).len(), 3);
    // Sound that is later than that is still heard at its time.
    recorder.push(&sound(1020), &mut out).unwrap();
    recorder.push(&sound(2000), &mut out).unwrap();
    recorder.finish(&mut out).unwrap();
    let back = read(&out);
    assert_eq!(
        back.iter().filter(|unit| unit.codec == Codec::Opus).map(|unit| unit.pts.0 / 90).max(),
        Some(2000)
    );
}

#[test]
fn sound_is_waited_for_two_seconds_and_then_pictures_begin_alone() {
    let units: Vec<_> = (0..60).map(|index| picture(index * 40, index == 0, &[])).collect();
    let (mut recorder, mut out) = (Recorder::new(true), Vec::new());
    for unit in &units[..50] {
        recorder.push(unit, &mut out).unwrap();
        assert!(out.is_empty());
    }
    recorder.push(&units[50], &mut out).unwrap();
    assert_eq!(read(&out).len(), 51);
    recorder.push(&sound(2040), &mut out).unwrap();
    assert_eq!(read(&out).len(), 51, "the beginning has told of no sound");
    // A file that ends before has what there was.
    assert_eq!(read(&file(true, &units[..3])).len(), 3);
}

#[test]
fn what_comes_before_the_first_key_frame_is_left_out() {
    let units = [sound(0), picture(0, false, &[]), sound(60), picture(40, true, &[]), sound(30), sound(80)];
    let back = read(&file(true, &units));
    // Sound that was ahead of its picture is heard with it.
    let times: Vec<_> = back.iter().map(|unit| (unit.codec, unit.pts.0.div_euclid(90))).collect();
    assert_eq!(times, [(Codec::Av1, 0), (Codec::Opus, 20), (Codec::Opus, 40)]);
    let many: Vec<_> = (0..500).map(sound).chain([picture(0, true, &[]), picture(500, false, &[])]).collect();
    assert_eq!(read(&file(true, &many)).len(), EARLY_MAX + 2);
    // Where none comes nothing is written.
    let (mut recorder, mut out) = (Recorder::new(true), Vec::new());
    recorder.push(&units[1], &mut out).unwrap();
    recorder.finish(&mut out).unwrap();
    assert!(out.is_empty() && recorder.poll_patch().is_none());
    recorder.push(&units[3], &mut out).unwrap();
    assert!(out.is_empty(), "a file that has ended takes nothing");
}

#[test]
fn times_that_repeat_or_go_back_are_set_behind_and_those_of_another_time_refused() {
    let (mut recorder, mut out) = (Recorder::new(false), Vec::new());
    for millis in [1000, 1040, 1040, 1020, 1043, 1080] {
        recorder.push(&picture(millis, millis == 1000, &[]), &mut out).unwrap();
    }
    assert_eq!(read(&out).iter().map(|unit| unit.pts.0 / 90).collect::<Vec<_>>(), [0, 40, 41, 42, 43, 80]);
    let refused = recorder.push(&picture(-20_000, false, &[]), &mut out).unwrap_err();
    assert_eq!(refused, Error::Time { codec: Codec::Av1, apart_ms: -21_080 });
    assert!(recorder.push(&picture(90_000_000, false, &[]), &mut out).is_err(), "a day later");
}

#[test]
fn a_key_frame_without_its_sequence_header_gets_the_file_s() {
    let frame = [0x10, 0x80];
    let bare = unit(Codec::Av1, obus(&[(2, &[]), (6, &frame)]), 3600);
    let file = file(false, &[picture(0, true, &[]), bare]);
    let blocks = inside(segment(&file), &[CLUSTER, SIMPLE_BLOCK]);
    let expected = [&[0x81, 0, 0, KEY_FRAME, 0x0A, PLAIN.len() as u8], PLAIN, &[0x32, 2], &frame].concat();
    assert_eq!(blocks[1], expected, "without a delimiter");
}

#[test]
fn what_webm_does_not_hold_is_refused_by_its_name() {
    let (mut recorder, mut out) = (Recorder::new(true), Vec::new());
    for codec in [Codec::H264, Codec::Aac] {
        let refused = recorder.push(&unit(codec, vec![0, 0, 0, 1, 9], 0), &mut out).unwrap_err();
        assert_eq!(refused, Error::Codec { codec });
        assert!(refused.to_string().contains("AV1 and Opus are"), "{refused}");
    }
    recorder.push(&picture(0, true, &[]), &mut out).unwrap();
    recorder.push(&sound(0), &mut out).unwrap();
    for broken in [unit(Codec::Av1, obus(&[(2, &[])]), 3600), unit(Codec::Opus, Vec::new(), 3600)] {
        assert!(matches!(recorder.push(&broken, &mut out), Err(Error::Unit(_))));
    }
    let mut other = PLAIN.to_vec();
    other[5] ^= 4;
    let changed = unit(Codec::Av1, obus(&[(2, &[]), (1, &other), (6, &[0x10, 0x80])]), 7200);
    assert_eq!(recorder.push(&changed, &mut out), Err(Error::Unit(cmaf::Error::Changed)));
    recorder.push(&picture(80, false, &[]), &mut out).unwrap();
    recorder.finish(&mut out).unwrap();
    assert_eq!(read(&out).len(), 3, "others follow");
}

/// A film in which anything may happen that comes of a link: sound and pictures late, times that repeat, key frames anywhere.
fn any_film() -> impl Strategy<Value = Vec<AccessUnit>> {
    let body = proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40);
    let step = (any::<bool>(), 0u8..8, -500i64..9000, body);
    proptest::collection::vec(step, 0..60).prop_map(|steps| {
        let (mut clocks, mut units) = ([0; 2], vec![picture(0, true, &[3]), sound(0)]);
        for (is_sound, key, ticks, body) in steps {
            let clock = &mut clocks[usize::from(is_sound)];
            *clock += ticks;
            let mut unit = if is_sound { sound(0) } else { picture(0, key == 0, &body) };
            (unit.pts, unit.dts) = (Ticks(*clock), Ticks(*clock));
            units.push(unit);
        }
        units
    })
}

/// What is expected back of units of a codec: those from the beginning on, each behind the one before it.
fn expected(units: &[AccessUnit], codec: Codec) -> Vec<(Bytes, bool, i64)> {
    let (delay, mut last) = (if codec == Codec::Opus { 585 } else { 0 }, i64::MIN);
    let of_codec = units.iter().filter(|unit| unit.codec == codec);
    let heard = of_codec.filter(|unit| codec.is_video() || unit.pts.0 >= 0);
    heard
        .map(|unit| {
            last = (unit.pts.0 + delay + 45).div_euclid(90).max(0).max(last.saturating_add(1));
            (unit.data.clone(), unit.random_access, last * 90 - delay)
        })
        .collect()
}

proptest! {
    #[test]
    fn any_film_is_read_back(units in any_film()) {
        let (whole, torn) = files(true, &units);
        let back = read(&whole);
        prop_assert_eq!(&back, &read(&torn));
        for codec in [Codec::Av1, Codec::Opus] {
            let found: Vec<_> = back
                .iter()
                .filter(|unit| unit.codec == codec)
                .map(|unit| (unit.data.clone(), unit.random_access, unit.pts.0))
                .collect();
            prop_assert_eq!(found, expected(&units, codec));
        }
        let segment = segment(&whole);
        let times = numbers(segment, &[CLUSTER, TIMESTAMP]);
        prop_assert!(times.is_sorted());
        let first = |cluster: &[u8]| inside(cluster, &[SIMPLE_BLOCK])[0][..1].to_vec();
        for cue in inside(segment, &[0x1C53_BB6B, 0xBB, 0xB7]) {
            let (_, size, payload) = ebml::head(&segment[numbers(cue, &[0xF1])[0] as usize..]).unwrap();
            prop_assert_eq!(first(&payload[..size as usize]), [0x81]);
        }
    }

    #[test]
    fn a_file_that_is_torn_anywhere_is_read_up_to_its_last_whole_block(units in any_film(), at in 0f64..1.0) {
        let (whole, torn) = files(true, &units);
        for file in [whole, torn] {
            let end = (file.len() as f64 * at) as usize;
            let (mut demuxer, mut found) = (Demuxer::new(), Vec::new());
            demuxer.push(&file).unwrap();
            demuxer.finish();
            let mut all = Vec::new();
            while let Some(event) = demuxer.poll() {
                if let Event::AccessUnit { at, unit, .. } = event {
                    all.push((at as usize, unit));
                }
            }
            demuxer = Demuxer::new();
            demuxer.push(&file[..end]).unwrap();
            demuxer.finish();
            while let Some(event) = demuxer.poll() {
                if let Event::AccessUnit { at, unit, .. } = event {
                    found.push((at as usize, unit));
                }
            }
            // A block is whole where it ends before the cut.
            let ends = |at: usize| {
                let (_, size, payload) = ebml::head(&file[at..]).unwrap();
                file.len() - payload.len() + size as usize
            };
            let whole: Vec<_> = all.into_iter().filter(|(at, _)| ends(*at) <= end).collect();
            prop_assert_eq!(found, whole);
        }
    }

    #[test]
    fn no_unit_is_too_odd(
        units in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x0A), Just(0x32), any::<u8>()], 0..60),
             prop_oneof![any::<i64>(), -1_000_000i64..1_000_000]),
            0..40,
        ),
    ) {
        let (mut recorder, mut out) = (Recorder::new(true), Vec::new());
        let _ = recorder.push(&picture(0, true, &[]), &mut out);
        let _ = recorder.push(&sound(0), &mut out);
        for (is_sound, data, pts) in units {
            let codec = if is_sound { Codec::Opus } else { Codec::Av1 };
            let _ = recorder.push(&unit(codec, data, pts), &mut out);
        }
        recorder.finish(&mut out).unwrap();
        prop_assert!(!read(&out).is_empty());
    }
}
