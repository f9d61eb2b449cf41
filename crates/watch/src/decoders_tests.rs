//! What is decoded of a stream with B-pictures, which a decoder puts into order.

use super::*;
use glassline_codec::h264::x264::{KeyInterval, LookAhead, LookAheadEncoder, Settings};
use glassline_delivery::watch::{Alarm, Rules, Wanted};
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Stamps, Ticks};
use glassline_test_support::{has_library, skip};

/// Pictures of 25 a second, with a key frame every two seconds and B-pictures between, in the order of decoding. `level` is the
/// brightness of one.
fn coded(count: i64, level: impl Fn(i64) -> u8) -> Vec<AccessUnit> {
    let size = Size::new(64, 48).unwrap();
    let settings = Settings {
        key_interval: KeyInterval::Pictures(50),
        look_ahead: Some(LookAhead { pictures: 5, b_pictures: Some(3) }),
        threads: 1,
        ..Settings::new(size, FrameRate::new(25, 1).unwrap(), 300_000)
    };
    let mut encoder = LookAheadEncoder::new(&settings).unwrap();
    let mut units = Vec::new();
    let mut number = 0;
    loop {
        let mut data = Vec::new();
        let take = &mut |unit: glassline_codec::h264::x264::DelayedUnit<'_>| data = unit.bytes.to_vec();
        let coded = if number < count {
            let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
            for (y, line) in picture.planes_mut()[0].lines_mut().enumerate() {
                // Something that moves a little.
                let of_line = |x: usize| level(number) + ((x + y + number as usize) % 8) as u8;
                line.iter_mut().enumerate().for_each(|(x, sample)| *sample = of_line(x));
            }
            picture.planes_mut()[1].bytes_mut().fill(128);
            picture.planes_mut()[2].bytes_mut().fill(128);
            number += 1;
            encoder.push(&picture, Ticks(number * 3600), take).unwrap()
        } else {
            let Some(coded) = encoder.flush(take).unwrap() else { return units };
            Some(coded)
        };
        if let Some(coded) = coded {
            units.push(AccessUnit {
                codec: Codec::H264,
                data: data.into(),
                pts: coded.pts,
                dts: coded.dts,
                random_access: coded.random_access,
                stamps: Stamps::captured_at(Time::ZERO),
            });
        }
    }
}

/// A stream that is watched, and what was wanted of it.
struct Stream {
    watcher: Watcher,
    decoders: Decoders,
    wanted: u64,
    runs: u64,
    /// Key frames that were wanted by themselves and were not judged at once.
    late: u64,
}

impl Stream {
    fn of(units: &[AccessUnit]) -> Stream {
        let mut stream = Stream {
            watcher: Watcher::new(Rules::default()),
            decoders: Decoders::new(),
            wanted: 0,
            runs: 0,
            late: 0,
        };
        units.iter().for_each(|unit| stream.push(unit));
        stream.decoders.end_run(&mut stream.watcher);
        assert_eq!((stream.decoders.refused, stream.decoders.take_failure()), (0, None));
        stream
    }

    fn push(&mut self, unit: &AccessUnit) {
        let Stream { watcher, decoders, .. } = self;
        match watcher.push_unit(0x100, unit) {
            Wanted::Picture { at, decoding } => {
                decoders.picture(unit, at, decoding, watcher);
                self.wanted += 1;
                self.runs += u64::from(decoding == Decoding::RunBegins);
                self.late += u64::from(decoding == Decoding::KeyFrame && !decoders.judge.is_key_out());
            }
            Wanted::RunEnds => decoders.end_run(watcher),
            Wanted::Nothing | Wanted::Sound { .. } => {}
        }
    }
}

fn can(test: &str) -> bool {
    let can = has_library("libavcodec.so.");
    if !can {
        skip(test, "libavcodec is not installed");
    }
    can
}

#[test]
fn each_picture_that_is_wanted_is_decoded_once() {
    if !can("each_picture_that_is_wanted_is_decoded_once") {
        return;
    }
    let units = coded(25 * 42, |_| 120);
    assert!(!units.is_sorted_by_key(|unit| unit.pts.0), "there are B-pictures");
    let stream = Stream::of(&units);
    assert_eq!(stream.decoders.judge.decoded, stream.wanted, "the key frame of a run is not decoded twice");
    assert_eq!((stream.runs, stream.late), (5, 0));
    assert!((21 + 5 * 6..=21 + 5 * 12).contains(&stream.wanted), "{}", stream.wanted);
    // Each key frame has said how sharp it is, those of runs too.
    let saved = serde_json::to_value(stream.watcher.save()).unwrap();
    assert_eq!(saved["sharpness"].as_array().unwrap().len(), 21, "{saved}");
}

#[test]
fn a_key_frame_that_was_judged_by_itself_is_decoded_again_where_it_decides_something() {
    if !can("a_key_frame_that_was_judged_by_itself_is_decoded_again_where_it_decides_something") {
        return;
    }
    // Black from 6.4 s on, between two runs.
    let units = coded(25 * 14, |number| if number < 160 { 120 } else { 16 });
    let mut stream = Stream::of(&units);
    assert!(stream.decoders.judge.decoded > stream.wanted, "{}", stream.decoders.judge.decoded);
    let raised = stream.watcher.poll().expect("an alarm");
    let at_ms = raised.at.as_nanos() / 1_000_000;
    assert!(raised.alarm == Alarm::Black && (8_400..10_200).contains(&at_ms), "{raised:?}");
}

#[test]
fn a_still_is_the_last_picture_that_units_decode_to() {
    if !has_library("libavcodec.so.") {
        return skip("a_still_is_the_last_picture_that_units_decode_to", "libavcodec is not installed");
    }
    assert!(crate::decodes(Codec::H264));
    let units = coded(10, |number| if number < 5 { 20 } else { 200 });
    let dark = crate::still_of(&units[..1]).unwrap();
    let bright = crate::still_of(&units).unwrap();
    assert!(dark.bytes.starts_with(&[0xff, 0xd8, 0xff]) && bright.bytes.ends_with(&[0xff, 0xd9]));
    let all_bright = crate::still_of(&coded(1, |_| 200)).unwrap();
    assert_ne!(dark, bright);
    assert_ne!(dark, all_bright);
    assert_eq!(bright.bytes.len().abs_diff(all_bright.bytes.len()) / 100, 0, "much the same picture");
    let damaged = AccessUnit { data: vec![0, 0, 1, 0x65, 0x88, 0x80].into(), ..units[0].clone() };
    assert_eq!(crate::still_of(&[damaged]), None);
}
