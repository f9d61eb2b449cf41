use super::*;
use glassline_test_support::{has_library, skip};

const SIDE: (u32, u32) = (64, 48);

/// A group of pictures with B-pictures, each of a brightness of its own, in the order of decoding.
fn group(count: i64, fields: bool) -> Vec<AccessUnit> {
    let size = Size::new(SIDE.0, SIDE.1).unwrap();
    let settings = Settings {
        key_interval: KeyInterval::Pictures(1000),
        look_ahead: Some(LookAhead { pictures: 5, b_pictures: Some(3) }),
        threads: 1,
        fields: fields.then_some(glassline_media::pixels::FieldOrder::TopFirst),
        ..Settings::new(size, FrameRate::new(25, 1).unwrap(), 400_000)
    };
    coded(&settings, count, |number, picture| {
        picture.planes_mut()[0].bytes_mut().fill(brightness(number));
        picture.planes_mut()[1].bytes_mut().fill(90);
        picture.planes_mut()[2].bytes_mut().fill(160);
    })
}

/// So many pictures as `paint` makes them of their numbers, in the order of decoding.
fn coded(settings: &Settings, count: i64, paint: impl Fn(i64, &mut Picture)) -> Vec<AccessUnit> {
    let mut encoder = LookAheadEncoder::new(settings).unwrap();
    let mut units = Vec::new();
    for number in 0.. {
        let mut data = Vec::new();
        let take = &mut |unit: DelayedUnit<'_>| data = unit.bytes.to_vec();
        let coded = if number < count {
            let mut picture = Picture::new(PixelFormat::I420, settings.size, Time::ZERO);
            paint(number, &mut picture);
            encoder.push(&picture, Ticks(number * 3600), take).unwrap()
        } else {
            match encoder.flush(take).unwrap() {
                Some(coded) => Some(coded),
                None => break,
            }
        };
        units.extend(coded.map(|coded| unit(data, coded.pts, coded.random_access)));
    }
    units
}

fn brightness(number: i64) -> u8 {
    u8::try_from(40 + 4 * number).unwrap()
}

/// The mean brightness and the Cb of each picture, by its time.
fn decoded(units: &[AccessUnit]) -> Vec<(u64, u8, u8)> {
    let mut decoder = PictureDecoder::exact(Codec::H264).unwrap();
    let mut found = Vec::new();
    let mut each = |at: Time, picture: DecodedPicture<'_>| {
        let sum: u64 =
            picture.luma.chunks(picture.stride).flat_map(|line| &line[..64]).map(|it| u64::from(*it)).sum();
        let mut line = Vec::new();
        picture.chroma.unwrap().line(0, 7, &mut line);
        found.push((at.as_nanos(), (sum / (64 * 48)) as u8, line[5]));
    };
    for unit in units {
        decoder.decode(&unit.data, Time::from_nanos(unit.pts.0 as u64), &mut each).unwrap();
    }
    decoder.drain(&mut each).unwrap();
    found
}

#[test]
fn pictures_from_the_middle_of_a_group_are_coded_anew_with_their_times() {
    let test = "pictures_from_the_middle_of_a_group_are_coded_anew_with_their_times";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let units = group(20, false);
    assert!(units.windows(2).any(|two| two[1].pts < two[0].pts), "some are reordered");
    let rate = FrameRate::new(25, 1).unwrap();
    // Between two pictures: from the next one on.
    let anew = recode(&units, Ticks(7 * 3600 - 1), rate, 400_000, &mut || true).unwrap().unwrap();
    assert_eq!(
        anew.iter().map(|unit| unit.pts.0).collect::<Vec<_>>(),
        (7..20).map(|at| at * 3600).collect::<Vec<_>>()
    );
    assert!(anew[0].random_access && anew[1..].iter().all(|unit| !unit.random_access));
    assert!(nals(&anew[0].data).any(|nal| nal.kind() == NalType::Sps));
    for ((at, luma, chroma), number) in decoded(&anew).into_iter().zip(7..) {
        assert_eq!(at, number as u64 * 3600);
        assert!(
            luma.abs_diff(brightness(number)) <= 2 && chroma.abs_diff(90) <= 2,
            "{number}: {luma} {chroma}"
        );
    }
    let mut asked = 0;
    let ended = recode(&units, Ticks(0), rate, 400_000, &mut || {
        asked += 1;
        asked < 3
    });
    assert!(ended.unwrap().is_none() && asked == 3);
    // Behind the last one there is none.
    assert_eq!(recode(&units, Ticks(20 * 3600), rate, 400_000, &mut || true).unwrap().unwrap(), []);
    assert_eq!(recode(&[], Ticks(0), rate, 400_000, &mut || true).unwrap().unwrap(), []);
}

#[test]
fn what_cannot_be_coded_anew_is_said() {
    let test = "what_cannot_be_coded_anew_is_said";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let rate = FrameRate::new(25, 1).unwrap();
    let error = recode(&group(3, true), Ticks(0), rate, 400_000, &mut || true).unwrap_err();
    assert!(error.to_string().contains("fields"), "{error}");
    let bare = unit(vec![0, 0, 0, 1, 0x65, 0x88], Ticks(0), true);
    let error = recode(&[bare], Ticks(0), rate, 400_000, &mut || true).unwrap_err();
    assert!(error.to_string().contains("without a sequence parameter set"), "{error}");
}

/// Pictures of detail that moves, coded so coarsely that the loop filter has much to do.
fn coarse(count: i64) -> Vec<AccessUnit> {
    let size = Size::new(160, 96).unwrap();
    let settings = Settings {
        key_interval: KeyInterval::Pictures(1000),
        look_ahead: Some(LookAhead { pictures: 5, b_pictures: Some(0) }),
        threads: 1,
        ..Settings::new(size, FrameRate::new(25, 1).unwrap(), 60_000)
    };
    coded(&settings, count, |number, picture| {
        for (y, line) in picture.planes_mut()[0].lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                let (x, y) = (x as f64 + number as f64 * 1.3, y as f64 - number as f64 * 0.7);
                *sample =
                    (128.0 + 55.0 * (x / 9.0).sin() * (y / 7.0).cos() + 35.0 * ((x + y) / 3.1).sin()) as u8;
            }
        }
        picture.planes_mut()[1].bytes_mut().fill(128);
        picture.planes_mut()[2].bytes_mut().fill(128);
    })
}

/// The luma of each picture.
fn luma_of(units: &[AccessUnit], mut decoder: PictureDecoder) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut each = |_: Time, picture: DecodedPicture<'_>| {
        let lines = picture.luma.chunks(picture.stride).take(picture.height_px);
        found.push(lines.flat_map(|line| line[..picture.width_px].to_vec()).collect());
    };
    for unit in units {
        decoder.decode(&unit.data, Time::from_nanos(unit.pts.0 as u64), &mut each).unwrap();
    }
    decoder.drain(&mut each).unwrap();
    found
}

fn mean_difference(one: &[u8], other: &[u8]) -> f64 {
    let sum: u64 = one.iter().zip(other).map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
    sum as f64 / one.len() as f64
}

#[test]
fn what_is_coded_anew_is_what_viewers_see_to_the_end_of_the_group() {
    let test = "what_is_coded_anew_is_what_viewers_see_to_the_end_of_the_group";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let units = coarse(60);
    let exact = || PictureDecoder::exact(Codec::H264).unwrap();
    let seen = luma_of(&units, exact());
    let rate = FrameRate::new(25, 1).unwrap();
    let anew = recode(&units, Ticks(20 * 3600), rate, 3_000_000, &mut || true).unwrap().unwrap();
    let anew = luma_of(&anew, exact());
    assert_eq!(anew.len(), 40);
    let worst =
        anew.iter().zip(&seen[20..]).map(|(anew, seen)| mean_difference(anew, seen)).fold(0.0, f64::max);
    // A decoder that leaves the filter out is further off than that.
    let looked_at = luma_of(&units, PictureDecoder::new(Codec::H264).unwrap());
    let drift = looked_at.iter().zip(&seen).map(|(one, seen)| mean_difference(one, seen)).fold(0.0, f64::max);
    assert!(worst < 1.0 && drift > 3.0 * worst, "{worst} {drift}");
}
