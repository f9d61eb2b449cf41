//! x264 as a live encoder uses it: by the slice, with intra refresh, at a constant rate, changed while it runs.
#![cfg(feature = "x264")]

use glassline_codec::h264::x264::{Encoder, KeyInterval, Settings};
use glassline_media::bitstream::h264::{
    BitReader, NalType, RecoveryPoint, Sei, nals, unescape, write_capture_utc,
};
use glassline_media::{AccessUnit, FrameRate, Picture, PixelFormat, Size, Ticks, Time, Utc};
use glassline_test_support::{has_program, skip};
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

const RATE: u32 = 25;

/// A texture that drifts, and as much noise as asked for.
fn picture(number: u32, noise_mask: u32) -> Picture {
    let captured = Time::from_millis(u64::from(number) * 1000 / u64::from(RATE));
    let mut picture = Picture::new(PixelFormat::I420, Size::new(320, 180).unwrap(), captured);
    let mut noise = number.wrapping_mul(0x9e37_79b9) | 1;
    for plane in picture.planes_mut() {
        let Size { width, height } = plane.size();
        for y in 0..height {
            for (x, sample) in (0..width).zip(plane.line_mut(y as usize)) {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                let texture = ((x + number * 3) * 5) ^ ((y + number) * 7);
                *sample = (60 + (texture & 63) + (noise & noise_mask)) as u8;
            }
        }
    }
    picture
}

fn settings(bitrate_bps: u64) -> Settings {
    let mut settings =
        Settings::new(Size::new(320, 180).unwrap(), FrameRate::new(RATE, 1).unwrap(), bitrate_bps);
    settings.preset = "superfast".to_owned();
    settings
}

fn encode(encoder: &mut Encoder, numbers: Range<u32>, noise_mask: u32) -> Vec<AccessUnit> {
    let units = numbers.map(|number| {
        let picture = picture(number, noise_mask);
        encoder.encode(&picture, Ticks::from_time(picture.captured)).unwrap()
    });
    units.collect()
}

fn kinds(unit: &[u8]) -> Vec<NalType> {
    nals(unit).map(|nal| nal.kind()).collect()
}

fn random_access(units: &[AccessUnit]) -> Vec<usize> {
    (0..units.len()).filter(|&number| units[number].random_access).collect()
}

fn recovery_point(unit: &AccessUnit) -> Option<RecoveryPoint> {
    nals(&unit.data)
        .filter(|nal| nal.kind() == NalType::Sei)
        .find_map(|nal| Sei::parse(nal.payload()).recovery_point())
}

/// Decodes coded pictures into packed 4:2:0 ones; the decoder must have nothing to complain about.
fn decode(name: &str, units: &[AccessUnit]) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.data.iter().copied()).collect();
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-f", "h264", "-i"])
        .arg(&path)
        .args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bytes = PixelFormat::I420.packed_bytes(Size::new(320, 180).unwrap());
    output.stdout.chunks(bytes).map(<[u8]>::to_vec).collect()
}

/// The macroblock with which a slice begins.
fn first_macroblock(slice: &[u8]) -> u32 {
    let nal = nals(slice).next().unwrap();
    let mut head = Vec::new();
    unescape(nal.payload(), 16, &mut head);
    BitReader::new(&head).ue().unwrap()
}

#[test]
fn slices_come_one_by_one_in_order_and_the_last_says_so() {
    for (threads, slices) in [(1, 1), (1, 8), (2, 0), (2, 8), (4, 12)] {
        let settings = Settings { threads, slices, ..settings(2_000_000) };
        let (mut by_slice, mut whole) = (Encoder::new(&settings).unwrap(), Encoder::new(&settings).unwrap());
        for number in 0..30 {
            let picture = picture(number, 15);
            let pts = Ticks::from_time(picture.captured);
            let mut units = Vec::new();
            let coded = by_slice
                .encode_slices(&picture, pts, None, &mut |unit| {
                    units.push((unit.bytes.to_vec(), unit.kind, unit.last));
                })
                .unwrap();
            let joined: Vec<u8> = units.iter().flat_map(|(bytes, ..)| bytes.iter().copied()).collect();
            let unit = whole.encode(&picture, pts).unwrap();
            // With several threads x264's rate control depends on which row is finished first.
            assert!(threads > 1 || unit.data == joined, "{slices} slices: picture {number}");
            assert_eq!((coded.bytes, coded.random_access), (joined.len(), unit.random_access));
            assert_eq!(units[0].1, NalType::AccessUnitDelimiter);
            assert_eq!(units.iter().position(|&(.., last)| last), Some(units.len() - 1));
            let starts: Vec<u32> = units
                .iter()
                .filter(|(_, kind, _)| kind.is_slice())
                .map(|(bytes, ..)| first_macroblock(bytes))
                .collect();
            assert!(starts[0] == 0 && starts.is_sorted_by(|a, b| a < b), "{starts:?}");
            assert!(starts.len() >= slices.max(1) as usize);
        }
    }
}

#[test]
fn user_data_goes_with_its_picture() {
    let mut encoder = Encoder::new(&settings(1_000_000)).unwrap();
    for number in 0..5u32 {
        // Times with zeros in them need emulation prevention.
        let captured = Utc::from_nanos(u64::from(number) << 40);
        let mut unit = Vec::new();
        let user_data = write_capture_utc(captured);
        let picture = picture(number, 0);
        encoder
            .encode_slices(&picture, Ticks(number.into()), Some(&user_data), &mut |nal| {
                unit.extend_from_slice(nal.bytes);
            })
            .unwrap();
        let found = nals(&unit)
            .filter(|nal| nal.kind() == NalType::Sei)
            .find_map(|nal| Sei::parse(nal.payload()).capture_utc());
        assert_eq!(found, Some(captured));
    }
    let long = vec![1; Encoder::MAX_USER_DATA_BYTES + 1];
    let refused = encoder.encode_slices(&picture(9, 0), Ticks(9), Some(&long), &mut |_| {});
    assert!(refused.unwrap_err().to_string().contains("65537 bytes of user data"));
}

#[test]
fn intra_refresh_announces_recovery_points_instead_of_key_frames() {
    let mut settings = settings(1_000_000);
    settings.intra_refresh = true;
    settings.key_interval = KeyInterval::Pictures(25);
    let mut encoder = Encoder::new(&settings).unwrap();
    let units = encode(&mut encoder, 0..110, 7);
    let keys: Vec<bool> = units.iter().map(|unit| kinds(&unit.data).contains(&NalType::Idr)).collect();
    assert_eq!(keys.iter().filter(|&&key| key).count(), 1, "one IDR, the first");
    let points = random_access(&units);
    assert!(points[0] == 0 && points.len() >= 4, "{points:?}");
    for &number in &points {
        let kinds = kinds(&units[number].data);
        assert!(
            kinds.contains(&NalType::Sps) && kinds.contains(&NalType::Pps),
            "picture {number}: {kinds:?}"
        );
        let point = recovery_point(&units[number]);
        assert_eq!(point.is_some(), number > 0);
        if let Some(point) = point {
            assert!(point.exact && !point.broken_link && (1..=25).contains(&point.frames), "{point:?}");
        }
    }
    assert!((0..110).all(|number| points.contains(&number) || recovery_point(&units[number]).is_none()));
    // A key frame can still be had.
    encoder.force_key_frame();
    let forced = encode(&mut encoder, 110..111, 7);
    assert!(forced[0].random_access && kinds(&forced[0].data).contains(&NalType::Idr));
    if !has_program("ffmpeg") {
        return skip(
            "intra_refresh_announces_recovery_points_instead_of_key_frames",
            "ffmpeg is not installed",
        );
    }
    let whole = decode("refresh.h264", &units);
    assert_eq!(whole.len(), 110);
    // After as many pictures as announced a decoder that began there shows exactly what the others do.
    let start = points[2];
    let joined = decode("refresh_joined.h264", &units[start..]);
    let recovered = 110 - start - recovery_point(&units[start]).unwrap().frames as usize;
    assert!(joined.len() >= recovered, "{} pictures", joined.len());
    for back in 1..=recovered {
        assert!(joined[joined.len() - back] == whole[110 - back], "{back} pictures before the end");
    }
}

#[test]
fn the_rate_changes_while_running_and_no_key_frame_comes() {
    let mut settings = settings(2_000_000);
    settings.key_interval = KeyInterval::Pictures(1000);
    let mut encoder = Encoder::new(&settings).unwrap();
    let bits_per_second = |encoder: &mut Encoder, numbers: Range<u32>| {
        let seconds = f64::from(numbers.end - numbers.start) / f64::from(RATE);
        let units = encode(encoder, numbers.clone(), 31);
        assert!(numbers.start == 0 || random_access(&units).is_empty());
        units.iter().map(|unit| unit.data.len() * 8).sum::<usize>() as f64 / seconds
    };
    let before = bits_per_second(&mut encoder, 0..100);
    encoder.set_bitrate(600_000).unwrap();
    assert_eq!(encoder.bitrate_bps(), 600_000);
    bits_per_second(&mut encoder, 100..125);
    let after = bits_per_second(&mut encoder, 125..225);
    assert!((1_600_000.0..2_400_000.0).contains(&before), "{before}");
    assert!((450_000.0..750_000.0).contains(&after), "{after}");
    encoder.set_bitrate(1_500_000).unwrap();
    bits_per_second(&mut encoder, 225..250);
    let again = bits_per_second(&mut encoder, 250..350);
    assert!((1_100_000.0..1_900_000.0).contains(&again), "{again}");
    assert!(encoder.set_bitrate(1).unwrap_err().to_string().contains("bitrate"));
    assert_eq!(encoder.bitrate_bps(), 1_500_000);
}

#[test]
fn the_preset_changes_while_running_and_the_stream_stays_whole() {
    let mut settings = settings(1_000_000);
    settings.preset = "medium".to_owned();
    settings.key_interval = KeyInterval::Pictures(1000);
    let mut encoder = Encoder::new(&settings).unwrap();
    let mut units = Vec::new();
    for (index, preset) in ["ultrafast", "superfast", "medium", "ultrafast"].into_iter().enumerate() {
        let start = index as u32 * 10;
        units.extend(encode(&mut encoder, start..start + 10, 7));
        encoder.set_preset(preset).unwrap();
        // Two changes before a picture are both in force.
        encoder.set_bitrate(1_000_000 + u64::from(start)).unwrap();
    }
    assert!(encoder.set_preset("fastest").unwrap_err().to_string().contains("ultrafast"));
    assert_eq!(random_access(&units), [0]);
    if !has_program("ffmpeg") {
        return skip(
            "the_preset_changes_while_running_and_the_stream_stays_whole",
            "ffmpeg is not installed",
        );
    }
    assert_eq!(decode("presets.h264", &units).len(), 40);
}

#[test]
fn filler_keeps_the_rate_where_pictures_need_less() {
    let mut settings = settings(8_000_000);
    settings.filler = true;
    settings.vbv = std::time::Duration::from_millis(200);
    let mut encoder = Encoder::new(&settings).unwrap();
    let units = encode(&mut encoder, 0..100, 0);
    let filler = units.iter().filter(|unit| kinds(&unit.data).contains(&NalType::Filler)).count();
    assert!(filler > 50, "{filler} of 100 pictures");
    // All but what the first second's VBV evens out.
    let bits: usize = units[25..].iter().map(|unit| unit.data.len() * 8).sum();
    let ratio = bits as f64 / 3.0 / 8_000_000.0;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    if has_program("ffmpeg") {
        assert_eq!(decode("filler.h264", &units).len(), 100);
    }
}

#[test]
fn pictures_of_a_constant_size_are() {
    for noise in [0, 15, 63] {
        let mut settings = settings(2_000_000);
        settings.preset = "ultrafast".to_owned();
        settings.filler = true;
        settings.intra_refresh = true;
        settings.vbv = settings.frame_rate.time_of(1);
        let mut encoder = Encoder::new(&settings).unwrap();
        let units = encode(&mut encoder, 0..100, noise);
        let sizes: Vec<usize> = units[1..].iter().map(|unit| unit.data.len()).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        // A picture's share of the rate is 10,000 bytes.
        assert!(*least >= 9_900 && *most <= 10_100, "noise {noise}: {least} to {most} bytes");
    }
}
