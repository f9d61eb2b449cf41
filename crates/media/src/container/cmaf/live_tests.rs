//! A packager's side: samples that are given out at once, and what stands in front of segments.

use super::boxes::find;
use super::tests::{number, picture, sound};
use super::*;
use proptest::prelude::*;

/// Decoding time and duration of each sample of a live track of pictures at `stamps`.
fn live(track: Track, stamps: &[i64]) -> Vec<(u64, u32)> {
    let mut timeline = LiveTimeline::new(track, Ticks(0));
    let placed = stamps.iter().zip(0..).map(|(&dts, index)| {
        let timed = timeline.push(&picture(index == 0, 10, dts)).unwrap();
        assert_eq!(timeline.end(), timed.decode_time + u64::from(timed.sample.duration));
        (timed.decode_time, timed.sample.duration)
    });
    placed.collect()
}

fn durations(samples: &[(u64, u32)]) -> Vec<u32> {
    samples.iter().map(|&(_, duration)| duration).collect()
}

/// A track of pictures whose parameter set says `rate`, whatever its bytes say.
fn track_at(rate: Option<crate::FrameRate>) -> Track {
    let mut media = Media::of(&picture(true, 10, 0), true).unwrap();
    let Media::H264 { parsed, .. } = &mut media else { unreachable!() };
    parsed.frame_rate = rate;
    Track { id: 1, media }
}

#[test]
fn a_live_timeline_gives_each_sample_at_once() {
    // A picture is lost after the third; stamps, not durations, say where the rest is.
    let stated = live(track_at(crate::FrameRate::new(25, 1)), &[0, 3600, 7199, 14_400, 18_000]);
    assert_eq!(stated, [(0, 3600), (3600, 3600), (7199, 3600), (14_400, 3600), (18_000, 3600)]);
    // Without a frame rate the usual distance is taken, and a pause is not usual.
    let unstated = live(track_at(None), &[0, 1800, 3600, 450_000, 451_800, 453_600]);
    assert_eq!(durations(&unstated), [3000, 1800, 1800, 1800, 1800, 1800]);
    // A frame rate that is far off is not believed for long.
    for wrong in [crate::FrameRate::new(90_000, 1), crate::FrameRate::new(1, 9)] {
        let mended = live(track_at(wrong), &[0, 1800, 3600, 5400]);
        assert_eq!(durations(&mended)[1..], [1800, 1800, 1800]);
    }
    let never = live(track_at(crate::FrameRate::new(1, u32::MAX)), &[0]);
    assert_eq!(never, [(0, 3000)]);
}

#[test]
fn what_is_written_of_irregular_pictures_lets_browsers_go_on() {
    // Ticks between pictures, again and again: steady, a screen that stands still for a while, two rates, slides.
    for rhythm in
        [&[3600][..], &[3600, 3600, 3600, 108_000], &[3000, 9000], &[270_000, 450_000, 90_000], &[1_800_000]]
    {
        let mut timeline = LiveTimeline::new(track_at(crate::FrameRate::new(25, 1)), Ticks(0));
        let (mut dts, mut told) = (0, 0);
        for index in 0..60 {
            let timed = timeline.push(&picture(index == 0, 10, dts)).unwrap();
            let step = rhythm[index % rhythm.len()];
            if index > 2 * rhythm.len() {
                let last = rhythm[(index - 1) % rhythm.len()] as u32;
                assert!(last <= 2 * told, "{last} after {told} of {rhythm:?}");
            }
            told = timeline.told(&timed.sample);
            assert!(rhythm != [3600] || told == 3600, "steady pictures last as long as they do");
            assert_eq!(
                timeline.end(),
                timed.decode_time + u64::from(timed.sample.duration),
                "as far as is known"
            );
            dts += step;
        }
    }
}

#[test]
fn live_sound_follows_its_samples_and_stamps_that_do_not_follow_are_refused() {
    let media = Media::of(&sound(9, 0), false).unwrap();
    let mut timeline = LiveTimeline::new(Track { id: 2, media }, Ticks(90_000));
    assert_eq!((timeline.track().id, timeline.zero(), timeline.end()), (2, Ticks(90_000), 0));
    let mut push =
        |dts| timeline.push(&sound(9, dts)).map(|timed| (timed.decode_time, timed.sample.duration));
    // Stamps of 10 ms that are up to 5 ms off, then a gap.
    let placed = [90_000, 90_900, 92_200, 92_300, 100_000].map(|dts| push(dts).unwrap());
    assert_eq!(placed, [(0, 480), (480, 480), (960, 480), (1440, 480), (5333, 480)]);
    for bad in [100_000, 99_999, 0, 100_001 + 3600 * 90_000] {
        assert!(matches!(push(bad), Err(Error::Time { .. })), "{bad}");
    }
    // What was refused has changed nothing.
    assert_eq!(push(100_900), Ok((5813, 480)));
    assert!(matches!(timeline.push(&picture(true, 9, 200_000)), Err(Error::Configuration { .. })));
    assert_eq!(timeline.end(), 6293);
}

#[test]
fn segments_say_what_they_are_and_carry_events() {
    let mut out = Vec::new();
    write_segment_type(SegmentKind::Segment, &mut out);
    assert_eq!(&out[..], b"\0\0\0\x18stypcmfs\0\0\0\0cmfsmsdh");
    out.clear();
    write_segment_type(SegmentKind::Chunk, &mut out);
    assert_eq!(&out[..], b"\0\0\0\x14stypcmfl\0\0\0\0cmfl");
    out.clear();
    let event = EventMessage {
        scheme_id_uri: "urn:x\0y".to_owned(),
        value: "1".to_owned(),
        timescale: 90_000,
        presentation_time: EventTime::At(1 << 40),
        duration: EventMessage::UNKNOWN_DURATION,
        id: 7,
        message_data: vec![1, 2, 3],
    };
    write_event(&event, &mut out);
    let content = find(&out, &[b"emsg"]).unwrap();
    assert_eq!([number::<4>(content, 0), number::<4>(content, 4)], [0x0100_0000, 90_000]);
    assert_eq!((number::<8>(content, 8), number::<8>(content, 16)), (1 << 40, 0xffff_ffff_0000_0007));
    assert_eq!(&content[24..], b"urn:x\x001\0\x01\x02\x03");
}

proptest! {
    /// However stamps come, each sample lies where its stamp says, and behind the one before it.
    #[test]
    fn live_pictures_lie_at_their_stamps(
        steps in proptest::collection::vec(1i64..20_000, 1..60),
        rate in proptest::option::of((1u32..200_000, 1u32..2000)),
    ) {
        let stamps: Vec<i64> = steps.iter().scan(0, |dts, step| { *dts += step; Some(*dts - steps[0]) }).collect();
        let placed = live(track_at(rate.and_then(|(n, d)| crate::FrameRate::new(n, d))), &stamps);
        for ((time, duration), dts) in placed.iter().zip(&stamps) {
            prop_assert_eq!(*time, *dts as u64);
            prop_assert!(*duration > 0);
        }
    }
}
