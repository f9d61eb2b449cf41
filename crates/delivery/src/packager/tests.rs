use super::testing::*;
use super::*;
use glassline_media::Ticks;
use glassline_media::container::cmaf;
use proptest::prelude::*;
use std::time::Duration;

mod irregular;

const MILLI: u64 = 1_000_000;

fn segments(checked: &Checked, name: RenditionName) -> Vec<&Segment> {
    checked.packager.presentation().rendition(name).unwrap().listed().collect()
}

#[test]
fn a_regular_stream_becomes_segments_and_parts_that_are_all_alike() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 260, 50);
    let video = segments(&checked, RenditionName::Video);
    assert_eq!(video.len(), 6);
    for segment in &video[..5] {
        assert!(segment.complete && segment.independent && !segment.gap);
        assert_eq!(segment.duration_time(), Duration::from_secs(2));
        assert_eq!(segment.parts.len(), 10);
        assert!(segment.parts.iter().all(|part| segment.part_time(part) == Duration::from_millis(200)));
        assert!(segment.parts[0].independent && !segment.parts[1].independent);
        assert_eq!(segment.key_frames.len(), 1);
        assert_eq!(segment.key_frames[0].offset_bytes, 0);
    }
    let second = &checked.segments[&(RenditionName::Video, 1)];
    assert_eq!(second.chunks, 50, "a chunk for each picture");
    let sound = segments(&checked, RenditionName::Audio(1));
    assert_eq!(sound.len(), 6);
    for (sound, video) in sound.iter().zip(&video) {
        assert_eq!(sound.number, video.number);
        assert!(sound.start_time().abs_diff(video.start_time()) < Duration::from_millis(22));
        // 9 frames of 21.3 ms: more than 85 % of what was asked for.
        let all_but_last = sound.parts.iter().take(sound.parts.len() - 1);
        assert!(all_but_last.clone().all(|part| part.duration == 9 * 1024), "{:?}", sound.parts);
    }
    assert_eq!(checked.packager.presentation().target_duration_secs(), 2);
    assert!(checked.packager.presentation().is_ready());
    assert!(checked.packager.left_out().is_empty());
}

#[test]
fn a_part_is_complete_with_its_last_picture_and_a_chunk_with_each() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    feed(&mut checked, 0, 4, 50);
    let part = |checked: &Checked, part| checked.parts[&(RenditionName::Video, 0, part)].clone();
    assert_eq!((part(&checked, 0).chunks, part(&checked, 0).complete), (4, false));
    feed(&mut checked, 4, 1, 50);
    assert_eq!((part(&checked, 0).chunks, part(&checked, 0).complete), (5, true));
    let rendition = &checked.packager.presentation().renditions()[0];
    assert_eq!(rendition.position(), Position { segment: 0, part: 1 });
}

#[test]
fn segments_end_at_key_frames_only_or_after_six_times_their_length() {
    let lengths = |keys: i64| -> Vec<u64> {
        let mut checked = Checked::new(Settings::default(), &video_and_aac());
        feed(&mut checked, 0, 1300, keys);
        let of = |name| -> Vec<(u64, u64)> {
            let list = segments(&checked, name);
            list.iter().map(|segment| (segment.number, segment.start_time().as_millis() as u64)).collect()
        };
        let (video, sound) = (of(RenditionName::Video), of(RenditionName::Audio(1)));
        let numbers = |list: &[(u64, u64)]| list.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers(&video), numbers(&sound));
        video.windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    };
    // Four of 520 ms, which is then what is told.
    assert!(lengths(13).iter().all(|&millis| millis == 2080));
    assert!(lengths(75).iter().all(|&millis| millis == 3000));
    assert!(lengths(250).iter().all(|&millis| millis == 10_000), "encoders without settings");
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 700, 10_000);
    let video = segments(&checked, RenditionName::Video);
    assert_eq!(video[0].duration_time(), Duration::from_secs(12));
    assert!(video[0].independent && !video[1].independent && !video[1].parts[0].independent);
    assert_eq!(checked.packager.presentation().target_duration_secs(), 12);
}

#[test]
fn sound_that_is_ahead_or_behind_is_cut_at_the_pictures_time() {
    for delay in [-20i64, -5, 0, 5, 20] {
        let mut checked = Checked::new(Settings::default(), &video_and_aac());
        for index in 0..200i64 {
            let pts = index * PICTURE;
            checked.push(VIDEO, &picture(index % 50 == 0, 100, pts));
            // Two packets of 20 ms for each picture, some pictures earlier or later than it.
            let sound = index - delay;
            if sound >= 0 {
                for half in 0..2 {
                    let frame = sound * 1920 / 1024 + half;
                    checked.push(SOUND, &aac(40, frame * 1920));
                }
            }
        }
        let video = segments(&checked, RenditionName::Video);
        let sound = segments(&checked, RenditionName::Audio(1));
        // Of the first one there may be no beginning.
        for (sound, video) in sound.iter().zip(&video).skip(1) {
            assert_eq!(sound.number, video.number);
            let apart = sound.start_time().abs_diff(video.start_time());
            assert!(apart < Duration::from_millis(43), "delay {delay}: {apart:?}");
        }
    }
}

#[test]
fn the_capture_time_is_the_date_of_a_segment_and_of_the_sound_beside_it() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    let captured = |index: i64| Utc::from_nanos(BEGUN.as_nanos() - 300 * MILLI + index as u64 * 40 * MILLI);
    for index in 0..120 {
        checked.push(VIDEO, &captured_picture(index % 50 == 0, captured(index), index * PICTURE));
        checked.push(SOUND, &aac(40, index * 3840));
    }
    for segment in segments(&checked, RenditionName::Video) {
        assert_eq!(segment.program_date_time, captured(segment.number as i64 * 50));
        assert!(segment.captured);
    }
    for segment in segments(&checked, RenditionName::Audio(1)).into_iter().filter(|segment| !segment.gap) {
        let millis = |utc: Utc| utc.as_nanos() / MILLI;
        let due = millis(captured(0)) + segment.start_time().as_millis() as u64;
        assert!(millis(segment.program_date_time).abs_diff(due) <= 1);
    }
    let first = &checked.segments[&(RenditionName::Video, 0)].bytes;
    assert_eq!((&first[4..8], &first[28..32]), (&b"styp"[..], &b"prft"[..]));
    // What is said of a capture long ago or ahead is a clock that is wrong.
    let mut wrong = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    for index in 0..3 {
        wrong.push(VIDEO, &captured_picture(index == 0, Utc::from_nanos(7), index * PICTURE));
    }
    assert_eq!(segments(&wrong, RenditionName::Video)[0].program_date_time, BEGUN);
    assert_eq!(&wrong.segments[&(RenditionName::Video, 0)].bytes[28..32], b"moof");
}

#[test]
fn pictures_of_h265_say_when_they_were_captured_too() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x24, &[])]));
    let captured = |index: i64| Utc::from_nanos(BEGUN.as_nanos() - 300 * MILLI + index as u64 * 40 * MILLI);
    for index in 0..120 {
        checked.push(VIDEO, &captured_h265(index % 50 == 0, captured(index), index * PICTURE));
    }
    let segments = segments(&checked, RenditionName::Video);
    assert!(segments.len() > 1);
    for segment in segments {
        assert_eq!(segment.program_date_time, captured(segment.number as i64 * 50));
        assert!(segment.captured);
    }
    let first = &checked.segments[&(RenditionName::Video, 0)].bytes;
    assert_eq!((&first[4..8], &first[28..32]), (&b"styp"[..], &b"prft"[..]));
}

#[test]
fn a_chunk_repeats_what_its_picture_says_of_its_senders_stages() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    let mut said = Vec::new();
    for index in 0..60 {
        let captured = Utc::from_nanos(BEGUN.as_nanos() + index as u64 * 40 * MILLI);
        let (unit, message) = staged_picture(index % 50 == 0, captured, index * PICTURE);
        checked.push(VIDEO, &unit);
        said.push(message);
    }
    let inits = checked.inits.values().map(|init| &init[..]);
    let segments = checked.segments.values().map(|segment| &segment.bytes[..]);
    let mut reader = cmaf::Reader::new();
    reader.push(&inits.chain(segments).collect::<Vec<_>>().concat()).unwrap();
    let mut messages = Vec::new();
    while let Some(event) = reader.poll() {
        if let cmaf::Event::Message(message) = event {
            assert_eq!((&message.scheme_id_uri[..], message.timescale), (cmaf::CAPTURE_SCHEME, 90_000));
            messages.push((message.presentation_time, message.message_data));
        }
    }
    let expected = said.iter().take(messages.len()).enumerate();
    let expected =
        expected.map(|(index, said)| (cmaf::EventTime::At(index as u64 * PICTURE as u64), said.clone()));
    assert!(messages.len() >= 50 && messages.iter().cloned().eq(expected), "{messages:?}");
}

#[test]
fn new_parameter_sets_a_jump_and_a_publishers_return_begin_an_epoch() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 120, 50);
    // Another encoder.
    for index in 120..180i64 {
        let pts = index * PICTURE;
        checked.push(VIDEO, &if index % 50 == 20 { other_key(pts) } else { picture(false, 50, pts) });
        checked.push(SOUND, &aac(40, pts));
    }
    // An hour ahead, then back, then another publisher.
    feed(&mut checked, 90_000, 60, 50);
    feed(&mut checked, 1000, 60, 50);
    checked.packager.discontinuity(BEGUN, 0);
    checked.drain();
    feed(&mut checked, 1050, 60, 50);
    checked.finish(BEGUN);
    let presentation = checked.packager.presentation();
    let epochs: Vec<u32> = presentation.epochs().map(|epoch| epoch.number).collect();
    assert_eq!(epochs, [1, 2, 3, 4, 5]);
    let starts: Vec<Duration> = presentation.epochs().map(|epoch| epoch.start).collect();
    assert!(starts.is_sorted(), "{starts:?}");
    for rendition in presentation.renditions() {
        let epochs: Vec<u32> = rendition.listed().map(|segment| segment.epoch).collect();
        assert!(epochs.is_sorted() && epochs.last() == Some(&5), "{epochs:?}");
    }
    let numbers = |name| -> Vec<_> {
        segments(&checked, name).iter().map(|segment| (segment.number, segment.epoch)).collect()
    };
    assert_eq!(numbers(RenditionName::Video), numbers(RenditionName::Audio(1)));
    assert_eq!(
        presentation.rendition(RenditionName::Video).unwrap().track_in(2).unwrap().codec,
        "avc1.4D400D"
    );
    assert!(checked.ended && presentation.is_ended());
    checked.push(VIDEO, &picture(true, 9, 0));
}

#[test]
fn sound_alone_is_cut_by_time_and_all_tracks_alike() {
    let tracks = vec![stream(SOUND, 0x0f, &[]), stream(SECOND_SOUND, 0x06, &[5, 4, b'O', b'p', b'u', b's'])];
    let mut checked = Checked::new(Settings::default(), &program(tracks));
    for index in 0..600i64 {
        checked.push(SOUND, &aac(40, index * 1920));
        checked.push(SECOND_SOUND, &opus(40, index * 1920 / 1800 * 1800 + index % 2));
    }
    let first = segments(&checked, RenditionName::Audio(1));
    let second = segments(&checked, RenditionName::Audio(2));
    assert!(first.len() >= 6);
    for (first, second) in first.iter().zip(&second).take(5) {
        assert_eq!(first.number, second.number);
        // Whole frames, as many as the first time.
        assert_eq!(first.duration, 94 * 1024);
        assert!(first.start_time().abs_diff(second.start_time()) < Duration::from_millis(25));
    }
    assert!(checked.packager.presentation().is_ready());
}

#[test]
fn sound_that_ceases_leaves_gaps_and_comes_back() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 75, 50);
    for index in 75..500i64 {
        checked.push(VIDEO, &picture(index % 50 == 0, 100, index * PICTURE));
    }
    feed(&mut checked, 500, 200, 50);
    let presentation = checked.packager.presentation();
    assert_eq!(presentation.current_epoch().unwrap().number, 1);
    let sound = segments(&checked, RenditionName::Audio(1));
    let gaps: Vec<u64> = sound.iter().filter(|segment| segment.gap).map(|segment| segment.number).collect();
    assert!(gaps.len() >= 6, "{gaps:?}");
    assert!(!sound.last().unwrap().gap);
    for (sound, video) in sound.iter().zip(segments(&checked, RenditionName::Video)) {
        assert_eq!(sound.number, video.number);
        assert!(sound.start_time().abs_diff(video.start_time()) < Duration::from_millis(43));
    }
}

#[test]
fn pictures_that_cease_leave_the_sound_and_come_back() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 75, 50);
    for frame in 141..1200i64 {
        checked.push(SOUND, &aac(40, frame * 1920));
    }
    let presentation = checked.packager.presentation();
    assert_eq!(presentation.current_epoch().unwrap().number, 2);
    assert!(!presentation.rendition(RenditionName::Video).unwrap().is_in(2));
    assert!(presentation.rendition(RenditionName::Audio(1)).unwrap().is_in(2));
    feed(&mut checked, 650, 120, 50);
    let presentation = checked.packager.presentation();
    assert_eq!(presentation.current_epoch().unwrap().number, 3);
    assert!(presentation.rendition(RenditionName::Video).unwrap().is_in(3));
    assert!(presentation.is_ready());
}

#[test]
fn a_track_that_comes_late_begins_an_epoch_once() {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    for index in 0..75i64 {
        checked.push(VIDEO, &picture(index % 50 == 0, 100, index * PICTURE));
    }
    assert_eq!(checked.packager.presentation().renditions().len(), 1);
    feed(&mut checked, 75, 200, 50);
    let presentation = checked.packager.presentation();
    assert_eq!(presentation.current_epoch().unwrap().number, 2);
    assert_eq!(presentation.renditions().len(), 2);
}

#[test]
fn pictures_that_are_shown_in_another_order_begin_with_the_key_frames_time() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    for index in 0..120i64 {
        // Two pictures later than they are decoded, and every second one later still.
        let mut unit = picture(index % 50 == 0, 60, index * 3003);
        unit.pts = Ticks(unit.dts.0 + 3003 * (2 + index % 2));
        checked.push(VIDEO, &unit);
    }
    let epoch = *checked.packager.presentation().current_epoch().unwrap();
    assert_eq!(epoch.first_ticks, 2 * 3003);
    for segment in segments(&checked, RenditionName::Video) {
        assert_eq!(segment.start, epoch.first_ticks + segment.number * 100 * 3003);
        // 25 pictures a second are said, a third less is seen: what is said counts, and parts are no longer than that.
        assert!(segment.parts.iter().all(|part| part.duration <= 18_000));
    }
    crate::playlist::check::all(checked.packager.presentation());
}

#[test]
fn sound_beside_pictures_that_are_left_out_is_cut_at_their_key_frames() {
    let streams = vec![stream(VIDEO, 0x02, &[]), stream(SOUND, 0x0f, &[])];
    // The sound comes behind the pictures of its time, or before them: then the first segment is longer by that, and that length
    // holds for the others. Key frames are a second apart, or 0.48 s.
    for (lead, keys, count) in [(-45_000i64, 25i64, 18..=21), (45_000, 25, 13..=15), (0, 12, 13..=21)] {
        let settings = Settings { segment: Duration::from_secs(1), ..wide() };
        let mut checked = Checked::new(settings, &program(streams.clone()));
        let (mut sound, mut begin, mut frames) = (0i64, Vec::new(), 0);
        // The first key frame is the third picture.
        for index in 0..500i64 {
            let pts = index * PICTURE;
            while sound * 1920 <= pts + lead {
                checked.push_at(SOUND, &aac(60, sound * 1920), pts);
                frames += usize::from(sound * 1920 >= 2 * PICTURE);
                sound += 1;
            }
            let is_key = index % keys == 2;
            checked.push_at(VIDEO, &mpeg2(is_key, pts), pts);
            if is_key {
                begin.push(checked.pushed);
            }
        }
        checked.finish(BEGUN);
        let rendition = checked.packager.presentation().rendition(RenditionName::Audio(1)).unwrap();
        let all: Vec<&Segment> = rendition.listed().collect();
        let sources: Vec<_> = all.iter().map(|segment| segment.source.clone().unwrap()).collect();
        assert!(sources.iter().all(|source| begin.contains(&source.start)), "{sources:?}");
        assert!(sources.windows(2).all(|pair| pair[0].end == pair[1].start), "{sources:?}");
        assert!(count.contains(&all.len()), "{}", all.len());
        assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 1), "what is before is left out");
        crate::playlist::check::all(checked.packager.presentation());
    }
    // Pictures without key frames, and none at all: the sound goes on by itself after a while.
    for pictures in [true, false] {
        let mut checked = Checked::new(wide(), &program(streams.clone()));
        for index in 0..1000i64 {
            if pictures {
                checked.push(VIDEO, &mpeg2(false, index * 1920));
            }
            checked.push(SOUND, &aac(60, index * 1920));
        }
        let listed = segments(&checked, RenditionName::Audio(1)).len();
        assert!((10..=11).contains(&listed), "{listed}");
    }
}

#[test]
fn recovery_points_cut_and_are_no_key_frames() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    for index in 0..160i64 {
        checked.push(
            VIDEO,
            &if index % 50 == 0 { recovery(index * PICTURE) } else { picture(false, 60, index * PICTURE) },
        );
    }
    let video = segments(&checked, RenditionName::Video);
    assert_eq!(video.len(), 4);
    assert!(video.iter().all(|segment| segment.independent && segment.key_frames.is_empty()));
    let presentation = checked.packager.presentation();
    assert_eq!(crate::playlist::hls::iframes(presentation, &crate::playlist::Carried::default()), None);
    crate::playlist::check::all(presentation);
}

#[test]
fn an_open_part_ends_where_nothing_comes() {
    let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
    for index in 0..7 {
        checked.push(VIDEO, &picture(index == 0, 100, index * PICTURE));
    }
    let durations = |checked: &Checked| {
        let rendition = checked.packager.presentation().rendition(RenditionName::Video).unwrap();
        let parts = rendition
            .listed()
            .flat_map(|segment| segment.parts.iter().map(|part| part.duration as i64 / PICTURE));
        parts.collect::<Vec<_>>()
    };
    assert_eq!(durations(&checked), [5]);
    assert_eq!(checked.packager.stall_timeout(), Some(Duration::from_millis(600)));
    checked.packager.handle_stall(BEGUN);
    checked.drain();
    assert_eq!(durations(&checked), [5, 2]);
    assert_eq!(checked.packager.stall_timeout(), None);
    // What comes afterwards goes on in the next part.
    for index in 7..13 {
        checked.push(VIDEO, &picture(false, 100, index * PICTURE));
    }
    assert_eq!(durations(&checked), [5, 2, 5]);
    assert!(checked.packager.stall_timeout().is_some());
    crate::playlist::check::all(checked.packager.presentation());
}

#[test]
fn what_cmaf_does_not_take_is_named() {
    let mpeg_2 = stream(0x110, 0x02, &[]);
    let pcm = stream(0x111, 0x06, &[5, 4, b'B', b'S', b'S', b'D']);
    let data = stream(0x112, 0x06, &[]);
    let second = stream(0x113, 0x1b, &[]);
    let teletext = stream(0x114, 0x06, &[0x56, 5, b'd', b'e', b'u', 9, 0]);
    let subtitles = stream(0x115, 0x06, &[0x59, 8, b'd', b'e', b'u', 16, 0, 1, 0, 1]);
    let av1 = stream(0x116, 0x06, &[5, 4, b'A', b'V', b'0', b'1']);
    let sound = stream(SOUND, 0x0f, &[]);
    let all = [mpeg_2, stream(VIDEO, 0x1b, &[]), pcm, data, second, teletext, subtitles, av1, sound];
    let program = program(all.to_vec());
    let checked = Checked::new(Settings::default(), &program);
    let told: Vec<_> = checked.packager.left_out().iter().map(|left| (left.pid, &*left.codec)).collect();
    assert_eq!(
        told,
        [
            (0x110, "MPEG-2 video"),
            (0x111, "S302M"),
            (0x112, "an unknown format (stream type 0x06)"),
            (0x113, "H.264"),
            (0x114, "teletext"),
            (0x115, "DVB subtitles"),
            (0x116, "AV1"),
        ]
    );
    assert_eq!(left_out_of(&program.streams), checked.packager.left_out());
}

#[test]
fn the_window_bounds_what_is_listed_and_kept() {
    let settings = Settings { window: Duration::from_secs(12), ..Settings::default() };
    let mut checked = Checked::new(settings, &video_and_aac());
    feed(&mut checked, 0, 2000, 50);
    let rendition = checked.packager.presentation().rendition(RenditionName::Video).unwrap();
    let listed: Duration = rendition.complete().map(Segment::duration_time).sum();
    assert_eq!(listed, Duration::from_secs(12));
    assert!(checked.expired > 40 && checked.segments.len() <= 2 * 11, "{}", checked.segments.len());
    let object = |segment| crate::playlist::Object::Segment { rendition: RenditionName::Video, segment };
    let presentation = checked.packager.presentation();
    let next = rendition.position().segment;
    assert_eq!(presentation.availability(object(0)), Availability::Gone);
    assert_eq!(presentation.availability(object(next)), Availability::Exists);
    assert_eq!(presentation.availability(object(next + 1)), Availability::Coming);
    assert_eq!(presentation.availability(object(next + 2)), Availability::Unknown);
}

#[test]
fn a_transport_stream_goes_in_as_bytes() {
    use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
    let audio = AudioFormat { codec: Codec::Aac, channels: 2, language: Some(*b"deu"), he_aac: None };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(audio), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut bytes = Vec::new();
    for index in 0..150i64 {
        muxer.write(&picture(index % 50 == 0, 500, 90_000 + index * PICTURE), &mut bytes).unwrap();
        muxer.write(&aac(80, 90_000 + index * PICTURE), &mut bytes).unwrap();
    }
    let mut intake = testing::Intake::new(crate::stream::Mux::MpegTs, Settings::default());
    bytes.chunks(1000).for_each(|chunk| intake.push(chunk, BEGUN, None));
    intake.finish(BEGUN);
    let events: Vec<Event> = std::iter::from_fn(|| intake.poll()).collect();
    let ends = |name| {
        let own =
            |event: &&Event| matches!(event, Event::SegmentEnds { rendition, .. } if *rendition == name);
        events.iter().filter(own).count()
    };
    assert_eq!((ends(RenditionName::Video), ends(RenditionName::Audio(1))), (3, 3));
    assert_eq!(events.last(), Some(&Event::Ended));
    let sound = intake.packager.presentation().rendition(RenditionName::Audio(1)).unwrap().track().unwrap();
    assert!(
        matches!(sound.kind, Kind::Audio { channels: 2, language: Some(language), .. } if language == *b"deu")
    );
}

/// A push with odd stamps.
#[derive(Clone, Debug)]
enum Odd {
    Step(i64),
    To(i64),
}

fn odd() -> impl Strategy<Value = (u8, Odd, i64, usize)> {
    let stamp = prop_oneof![
        8 => (0i64..10_000).prop_map(Odd::Step),
        2 => (-200_000i64..400_000).prop_map(Odd::Step),
        1 => any::<i64>().prop_map(Odd::To),
        1 => Just(Odd::Step(0)),
        1 => Just(Odd::Step(1)),
    ];
    (0u8..8, stamp, -20_000i64..20_000, 0usize..3000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_stamps_breaks_it(pushes in proptest::collection::vec(odd(), 1..300), window in 0u64..20) {
        let settings = Settings { window: Duration::from_secs(window), ..Settings::default() };
        let mut checked = Checked::new(settings, &video_and_aac());
        let mut at = [0i64; 2];
        for (kind, stamp, offset, bytes) in pushes {
            let lane = usize::from(kind >= 5);
            at[lane] = match stamp {
                Odd::Step(step) => at[lane].wrapping_add(step),
                Odd::To(stamp) => stamp,
            };
            let mut unit = match kind {
                0 => picture(true, bytes, at[0]),
                1..=3 => picture(false, bytes, at[0]),
                4 => other_key(at[0]),
                5 => opus(bytes, at[1]),
                _ => aac(bytes, at[1]),
            };
            if kind < 5 {
                unit.pts = Ticks(unit.dts.0.wrapping_add(offset));
            }
            checked.push(if lane == 0 { VIDEO } else { SOUND }, &unit);
            crate::playlist::check::all(checked.packager.presentation());
        }
        checked.finish(BEGUN);
        crate::playlist::check::all(checked.packager.presentation());
        for rendition in checked.packager.presentation().renditions() {
            prop_assert!(rendition.open().is_none());
        }
    }
}

/// Pictures of 40 ms, or what is told of them, beside AAC: `(pts of the picture, when it comes, key)`.
fn feed_at(checked: &mut Checked, pictures: &[(i64, i64, bool)], sound_until: i64) -> usize {
    let mut frames = 0;
    let mut sound = 0i64;
    for &(pts, came, key) in pictures {
        while sound * 1920 <= came.min(sound_until) {
            checked.push_at(SOUND, &aac(60, sound * 1920), sound * 1920);
            frames += 1;
            sound += 1;
        }
        checked.push_at(VIDEO, &picture(key, 100, pts), came);
    }
    frames
}

/// The samples in a rendition's segments.
fn samples(checked: &Checked, name: RenditionName) -> Vec<cmaf::ReadSample> {
    let mut samples = Vec::new();
    for segment in segments(checked, name).iter().filter(|segment| !segment.gap) {
        let init = &checked.inits[&(name, segment.epoch)];
        let bytes = &checked.segments[&(name, segment.number)].bytes;
        let mut reader = cmaf::Reader::new();
        reader.push(&[&init[..], &bytes[..]].concat()).unwrap();
        while let Some(event) = reader.poll() {
            if let cmaf::Event::Chunk(chunk) = event {
                samples.extend(chunk.runs.into_iter().flat_map(|run| run.samples));
            }
        }
    }
    samples
}

/// How many pictures or frames of sound are in a rendition's segments, and how many epochs those are of.
fn contents(checked: &Checked, name: RenditionName) -> (usize, usize) {
    let epochs: std::collections::BTreeSet<u32> =
        segments(checked, name).iter().filter(|segment| !segment.gap).map(|segment| segment.epoch).collect();
    (samples(checked, name).len(), epochs.len())
}

fn wide() -> Settings {
    Settings { window: Duration::from_secs(600), ..Settings::default() }
}

#[test]
fn gaps_between_pictures_lose_neither_pictures_nor_sound() {
    // Slides: 3.5 s without a picture each 8 s, and once 11.5 s.
    let times: Vec<i64> = (0..1000)
        .filter(|index| !(50..138).contains(&(index % 200)) && !(500..700).contains(index))
        .collect();
    let pictures: Vec<(i64, i64, bool)> = times
        .iter()
        .enumerate()
        .map(|(number, index)| (index * PICTURE, index * PICTURE, number % 100 == 0))
        .collect();
    let mut checked = Checked::new(wide(), &video_and_aac());
    let frames = feed_at(&mut checked, &pictures, i64::MAX);
    checked.finish(BEGUN);
    assert_eq!(contents(&checked, RenditionName::Video), (pictures.len(), 1));
    assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 1));
    crate::playlist::check::all(checked.packager.presentation());
}

#[test]
fn a_gap_is_one_however_late_its_first_picture_is_known_to_be_whole() {
    // As a demultiplexer gives them whose pictures end where the next one begins; the sound is a little behind.
    let times: Vec<i64> = (0..400).filter(|index| !(50..138).contains(&(index % 200))).collect();
    for with_sound in [true, false] {
        let streams = if with_sound { video_and_aac() } else { program(vec![stream(VIDEO, 0x1b, &[])]) };
        let (mut checked, mut sound) = (Checked::new(wide(), &streams), 0i64);
        for (number, pair) in times.windows(2).enumerate() {
            let came = pair[1] * PICTURE;
            while with_sound && sound * 1920 <= came - 14_000 {
                checked.push_at(SOUND, &aac(60, sound * 1920), came);
                sound += 1;
            }
            checked.push_at(VIDEO, &picture(number % 100 == 0, 100, pair[0] * PICTURE), came);
        }
        checked.finish(BEGUN);
        assert_eq!(contents(&checked, RenditionName::Video), (times.len() - 1, 1));
        let last = segments(&checked, RenditionName::Video)
            .last()
            .map(|last| last.start_time() + last.duration_time());
        assert!(
            last.unwrap().abs_diff(Duration::from_millis(399 * 40)) < Duration::from_millis(45),
            "{last:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// A wrong stamp here and there, forwards or backwards.
    #[test]
    fn wrong_stamps_lose_nothing(
        wrong in prop::collection::btree_map(60i64..400, prop_oneof![-80_000_000i64..80_000_000, -300_000i64..300_000], 0..6),
        keys in 10i64..120,
    ) {
        // No two in a row: those may be a jump.
        let mut last = -10;
        let wrong: std::collections::BTreeMap<i64, i64> = wrong.into_iter().filter(|(at, _)| {
            let apart = at - last > 4;
            if apart { last = *at; }
            apart
        }).collect();
        let pictures: Vec<(i64, i64, bool)> = (0..450i64).map(|index| {
            let off = wrong.get(&index).copied().unwrap_or(0);
            (index * PICTURE + off, index * PICTURE, index % keys == 0)
        }).collect();
        let mut checked = Checked::new(wide(), &video_and_aac());
        let frames = feed_at(&mut checked, &pictures, i64::MAX);
        checked.finish(BEGUN);
        prop_assert_eq!(contents(&checked, RenditionName::Video), (pictures.len(), 1));
        prop_assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 1));
        let last = segments(&checked, RenditionName::Video).last().map(|segment| segment.start_time() + segment.duration_time());
        prop_assert!(last.unwrap().abs_diff(Duration::from_secs(18)) < Duration::from_millis(45), "{:?}", last);
        crate::playlist::check::all(checked.packager.presentation());
    }

    /// The sender's clock jumps while pictures and sound go on: nothing is lost, and the times go on; even where the last stamp
    /// before the jump is a wrong one.
    #[test]
    fn jumps_that_take_no_time_lose_nothing(
        at in 60i64..300,
        jump in prop_oneof![-80_000_000i64..-200_000, 200_000i64..80_000_000],
        stray in prop::option::of(prop_oneof![-80_000_000i64..-2_000_000, 2_000_000i64..80_000_000]),
        keys in 10i64..120,
        sound_first: bool,
    ) {
        let stray = stray.filter(|stray| (stray - jump).abs() > 2_000_000);
        let mut checked = Checked::new(wide(), &video_and_aac());
        let (mut sound, mut frames, pictures) = (0i64, 0usize, 420i64);
        for index in 0..pictures {
            let came = index * PICTURE;
            let shift = if index >= at { jump } else { stray.filter(|_| index == at - 1).unwrap_or(0) };
            while sound * 1920 <= came {
                let sound_at = if sound_first { at - 3 } else { at + 3 };
                let shift = if sound * 1920 >= sound_at * PICTURE { jump } else { 0 };
                checked.push_at(SOUND, &aac(60, sound * 1920 + shift), sound * 1920);
                (sound, frames) = (sound + 1, frames + 1);
            }
            checked.push_at(VIDEO, &picture(index % keys == 0, 100, came + shift), came);
        }
        checked.finish(BEGUN);
        prop_assert_eq!(contents(&checked, RenditionName::Video), (pictures as usize, 1));
        prop_assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 1));
        let ends = |name| segments(&checked, name).last().map(|segment| segment.start_time() + segment.duration_time()).unwrap();
        let apart = ends(RenditionName::Video).abs_diff(ends(RenditionName::Audio(1)));
        prop_assert!(apart < Duration::from_millis(150), "{:?}", apart);
        crate::playlist::check::all(checked.packager.presentation());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// A publisher that comes back again and again, each time after a moment, on a clock of its own: what is played stays where the
    /// wall clock is, where players of DASH look for it.
    #[test]
    fn moments_between_jumps_do_not_add_up(
        pauses in prop::collection::vec(0i64..80_000, 10..30),
        jitter in prop::collection::vec(0i64..4000, 7..20),
        pictures_each in 60i64..140,
        with_sound: bool,
        begins_with_key: bool,
    ) {
        let mut checked = Checked::new(wide(), &video_and_aac());
        let (mut came, mut pictures, mut frames) = (0i64, 0usize, 0usize);
        let mut jitter = jitter.iter().cycle();
        for (number, pause) in (0i64..).zip(&pauses) {
            let shift = number * 7_000_000;
            let mut sound = 0i64;
            for index in 0..pictures_each {
                let now = came + index * PICTURE + jitter.next().unwrap();
                while with_sound && sound * 1920 < index * PICTURE + 3000 {
                    checked.push_at(SOUND, &aac(60, sound * 1920 + shift), now);
                    (sound, frames) = (sound + 1, frames + 1);
                }
                let is_key = if begins_with_key { index % 25 == 0 } else { pictures % 25 == 0 };
                checked.push_at(VIDEO, &picture(is_key, 100, index * PICTURE + shift), now);
                pictures += 1;
            }
            came += pictures_each * PICTURE + pause;
        }
        checked.finish(BEGUN);
        let (found, epochs) = contents(&checked, RenditionName::Video);
        prop_assert_eq!(found, pictures);
        prop_assert_eq!(epochs, 1);
        let presentation = checked.packager.presentation();
        let ends = |name| {
            let all = segments(&checked, name);
            let last = all.last().unwrap();
            let epoch = presentation.epoch(last.epoch).unwrap();
            let first = Duration::from_nanos(epoch.first_ticks * 100_000 / 9);
            (epoch.start + last.start_time() + last.duration_time()).saturating_sub(first)
        };
        let played = (came - pauses.last().unwrap()) as f64 / 90_000.0;
        let off = ends(RenditionName::Video).as_secs_f64() - played;
        prop_assert!(off.abs() < 0.65, "{off} s");
        if with_sound {
            let (found, _) = contents(&checked, RenditionName::Audio(1));
            prop_assert_eq!(found, frames);
            let apart = ends(RenditionName::Video).abs_diff(ends(RenditionName::Audio(1)));
            prop_assert!(apart < Duration::from_millis(150), "{:?}", apart);
        }
        crate::playlist::check::all(presentation);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// A film that begins again and again at once, whose last group of pictures is a little short: segments stay where
    /// players reckon them by their numbers.
    #[test]
    fn a_film_that_is_looped_keeps_its_numbers(keys in 20i64..110, groups in 2i64..6, rest in 60i64..100) {
        let pictures = keys * groups + rest * keys / 100;
        let mut checked = Checked::new(wide(), &video_and_aac());
        let (mut came, mut number) = (0i64, 0i64);
        while came < 300 * 90_000 {
            for index in 0..pictures {
                let stamp = index * PICTURE + number * 7_000_000;
                checked.push_at(VIDEO, &picture(index % keys == 0, 10, stamp), came + index * PICTURE);
            }
            (came, number) = (came + pictures * PICTURE, number + 1);
        }
        let presentation = checked.packager.presentation();
        let epoch = presentation.current_epoch().unwrap();
        let length = epoch.segment_length.unwrap();
        for segment in segments(&checked, RenditionName::Video) {
            let due = length.times(segment.number - epoch.first_segment);
            let off = segment.start_time().abs_diff(due);
            prop_assert!(off <= length.times(1) * 5 / 8, "segment {} begins {off:?} off {due:?}", segment.number);
        }
    }
}

#[test]
fn sound_in_another_format_goes_on_with_the_next_key_frame_and_loses_nothing() {
    let mono = |pts: i64| {
        let mut unit = aac(60, pts);
        let mut data = unit.data.to_vec();
        data[3] = data[3] & 0x3f | 0x40;
        unit.data = data.into();
        unit
    };
    let mut checked = Checked::new(wide(), &video_and_aac());
    let (mut sound, mut frames) = (0i64, 0usize);
    for index in 0..675i64 {
        let came = index * PICTURE;
        while sound * 1920 <= came {
            let pts = sound * 1920;
            let is_mono = (pts / 810_000) % 2 == 1;
            checked.push_at(SOUND, &if is_mono { mono(pts) } else { aac(60, pts) }, pts);
            (sound, frames) = (sound + 1, frames + 1);
        }
        checked.push_at(VIDEO, &picture(index % 100 == 0, 100, came), came);
    }
    checked.finish(BEGUN);
    assert_eq!(contents(&checked, RenditionName::Video), (675, 3));
    assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 3));
    // The date of what is seen is when it came.
    for segment in segments(&checked, RenditionName::Video) {
        let first = checked.packager.presentation().epoch(segment.epoch).unwrap();
        let due = segment.start_time() + Duration::from_nanos(first.zero.0 as u64 * 100_000 / 9);
        let told = Duration::from_nanos(segment.program_date_time.as_nanos() - BEGUN.as_nanos());
        assert!(told.abs_diff(due) < Duration::from_millis(45), "{told:?} {due:?}");
    }
    crate::playlist::check::all(checked.packager.presentation());
}

#[test]
fn he_aac_is_told_where_it_is_said_and_nothing_is_lost_where_that_changes() {
    // The map of the program says it, then it does not, then it does again.
    let program = |is_said: bool| {
        let descriptors = if is_said { &[0x1c, 1, 0x2c][..] } else { &[] };
        program(vec![stream(VIDEO, 0x1b, &[]), stream(SOUND, 0x0f, descriptors)])
    };
    let mut checked = Checked::new(wide(), &program(true));
    let (mut sound, mut frames) = (0i64, 0usize);
    for index in 0..900i64 {
        let came = index * PICTURE;
        if index % 300 == 290 {
            checked.packager.handle_program(&program(index != 290), BEGUN, 0);
            checked.drain();
        }
        while sound * 3840 <= came {
            checked.push_at(SOUND, &core_aac(60, sound * 3840), sound * 3840);
            (sound, frames) = (sound + 1, frames + 1);
        }
        checked.push_at(VIDEO, &picture(index % 100 == 0, 100, came), came);
    }
    checked.finish(BEGUN);
    // No picture and no sound is lost by that.
    assert_eq!(contents(&checked, RenditionName::Video), (900, 3));
    assert_eq!(contents(&checked, RenditionName::Audio(1)), (frames, 3));
    let presentation = checked.packager.presentation();
    let rendition = presentation.rendition(RenditionName::Audio(1)).unwrap();
    let tracks: Vec<_> =
        rendition.listed().map(|segment| rendition.track_in(segment.epoch).unwrap()).collect();
    let mut told: Vec<_> =
        tracks.iter().map(|track| (&track.codec[..], track.timescale, track.sample_ticks)).collect();
    told.dedup();
    let he_aac = ("mp4a.40.5", 48_000, 2048);
    assert_eq!(told, [he_aac, ("mp4a.40.2", 24_000, 1024), he_aac]);
    let kind = Kind::Audio { channels: 2, rate_hz: 48_000, language: None };
    assert_eq!(tracks[0].kind, kind);
    crate::playlist::check::all(presentation);
}

#[test]
fn told_lengths_and_cuts_agree_for_ever() {
    // GLASSLINE_HOURS=24 is a day of each; it takes minutes.
    let hours = std::env::var("GLASSLINE_HOURS").ok().and_then(|hours| hours.parse().ok()).unwrap_or(1u64);
    let mut combinations = Vec::new();
    for rate in
        [(24_000u64, 1001u64), (24, 1), (25, 1), (30_000, 1001), (30, 1), (50, 1), (60_000, 1001), (60, 1)]
    {
        for group_millis in [400, 1001, 2000, 4200] {
            combinations.push((rate, (group_millis * rate.0 / rate.1 / 1000).max(1)));
        }
    }
    for (rate, keys) in combinations {
        let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
        let pictures = hours * 3600 * rate.0 / rate.1;
        let unit_key = picture(true, 1, 0);
        let unit_other = picture(false, 1, 0);
        for index in 0..pictures {
            let pts = ((index * rate.1 * 90_000 * 2 + rate.0) / (rate.0 * 2)) as i64;
            let mut unit = if index % keys == 0 { unit_key.clone() } else { unit_other.clone() };
            (unit.pts, unit.dts) = (Ticks(pts), Ticks(pts));
            checked.push_quickly(VIDEO, &unit);
        }
        let presentation = checked.packager.presentation();
        let epoch = *presentation.current_epoch().unwrap();
        let length = epoch.segment_length.unwrap();
        let half = Duration::from_secs_f64(0.5 * rate.1 as f64 / rate.0 as f64);
        for segment in segments(&checked, RenditionName::Video) {
            let due = length.times(segment.number - epoch.first_segment);
            let error = segment.start_time().abs_diff(due);
            assert!(error < half, "{rate:?}, {keys}: segment {} begins {error:?} off", segment.number);
        }
    }
}

#[test]
fn mpeg_audio_is_refused_for_its_layer_after_several_frames_in_a_row() {
    let program = program(vec![stream(VIDEO, 0x1b, &[]), stream(SOUND, 0x03, &[])]);
    let left_out = |layer: fn(i64) -> u8| {
        let mut checked = Checked::new(Settings::default(), &program);
        for index in 0..200 {
            checked.push(VIDEO, &picture(index % 50 == 0, 100, index * PICTURE));
            checked.push(SOUND, &mpeg_audio(layer(index), index * PICTURE));
        }
        let has_sound = checked.packager.presentation().rendition(RenditionName::Audio(1)).is_some();
        (checked.packager.left_out().len(), has_sound)
    };
    assert_eq!(left_out(|_| 3), (0, true));
    assert_eq!(left_out(|_| 2), (1, false));
    assert_eq!(left_out(|index| 2 + u8::from(index % 20 > 1)), (0, true), "two of each twenty are damaged");
    assert_eq!(left_out(|index| 2 + u8::from(index < 100)), (1, true), "it became layer II");
}
