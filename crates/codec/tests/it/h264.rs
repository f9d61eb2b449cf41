//! What x264 gives, decoded by another program: the right pictures, the right number, key frames and rate.
#![cfg(feature = "x264")]

use glassline_codec::h264::x264::{Encoder, KeyInterval, Settings};
use glassline_media::bitstream::h264::{NalType, Sps, nals};
use glassline_media::{AccessUnit, Colour, FrameRate, Picture, PixelFormat, Size, Ticks, Time};
use glassline_test_support::{has_program, skip};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const RATE: u32 = 25;

/// A texture that drifts, with a square that moves against it and a little noise.
fn picture(size: Size, number: u32) -> Picture {
    let captured = Time::from_millis(u64::from(number) * 1000 / u64::from(RATE));
    let mut picture = Picture::new(PixelFormat::I420, size, captured);
    let mut noise = number.wrapping_mul(0x9e37_79b9) | 1;
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        let Size { width, height } = plane.size();
        for y in 0..height {
            let line = plane.line_mut(y as usize);
            for x in 0..width {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                let texture = ((x + number * 3) * 5) ^ ((y + number) * 7);
                let square = (number * 4 % width..).take(32).any(|left| left == x) && y % 64 < 32;
                let value = if square { 200 } else { 40 + (texture & 127) + (noise & 7) };
                line[x as usize] = if index == 0 { value as u8 } else { 96 + (value / 4) as u8 };
            }
        }
    }
    picture
}

fn settings(bitrate_bps: u64) -> Settings {
    let size = Size::new(320, 180).unwrap();
    Settings { colour: Colour::BT709, ..Settings::new(size, FrameRate::new(RATE, 1).unwrap(), bitrate_bps) }
}

fn encode(settings: &Settings, count: u32, force: &[u32]) -> (Vec<Picture>, Vec<AccessUnit>) {
    let mut encoder = Encoder::new(settings).unwrap();
    let pictures: Vec<_> = (0..count).map(|number| picture(settings.size, number)).collect();
    let units = (0..).zip(&pictures).map(|(number, picture)| {
        if force.contains(&number) {
            encoder.force_key_frame();
        }
        encoder.encode(picture, Ticks::from_time(picture.captured)).unwrap()
    });
    let units = units.collect();
    (pictures, units)
}

fn key_frames(units: &[AccessUnit]) -> Vec<usize> {
    (0..units.len()).filter(|&number| units[number].random_access).collect()
}

fn file(name: &str, units: &[AccessUnit]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.data.iter().copied()).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Decodes a file of coded pictures into packed 4:2:0 ones.
fn decode(path: &PathBuf, size: Size) -> Vec<Vec<u8>> {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-xerror", "-f", "h264", "-i"])
        .arg(path)
        .args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.chunks(PixelFormat::I420.packed_bytes(size)).map(<[u8]>::to_vec).collect()
}

fn psnr_db(picture: &Picture, decoded: &[u8]) -> f64 {
    let samples = picture.planes().iter().flat_map(|plane| plane.lines().flatten().copied());
    let squares: u64 =
        samples.zip(decoded).map(|(x, &y)| u64::from(x.abs_diff(y)) * u64::from(x.abs_diff(y))).sum();
    10.0 * (255.0 * 255.0 * decoded.len() as f64 / squares.max(1) as f64).log10()
}

#[test]
fn another_decoder_sees_every_picture() {
    if !has_program("ffmpeg") {
        return skip("another_decoder_sees_every_picture", "ffmpeg is not installed");
    }
    let settings = settings(6_000_000);
    let (pictures, units) = encode(&settings, 60, &[]);
    let decoded = decode(&file("every_picture.h264", &units), settings.size);
    assert_eq!(decoded.len(), 60);
    for (number, (picture, decoded)) in pictures.iter().zip(&decoded).enumerate() {
        assert_eq!(decoded.len(), PixelFormat::I420.packed_bytes(settings.size));
        let psnr = psnr_db(picture, decoded);
        assert!(psnr > 32.0, "picture {number}: {psnr:.1} dB");
    }
}

#[test]
fn decoding_can_start_at_any_key_frame() {
    if !has_program("ffmpeg") {
        return skip("decoding_can_start_at_any_key_frame", "ffmpeg is not installed");
    }
    let settings = Settings { key_interval: KeyInterval::Pictures(10), ..settings(2_000_000) };
    let (pictures, units) = encode(&settings, 40, &[]);
    for start in key_frames(&units) {
        let decoded = decode(&file("start.h264", &units[start..]), settings.size);
        assert_eq!(decoded.len(), 40 - start);
        assert!(psnr_db(&pictures[start], &decoded[0]) > 25.0);
    }
}

#[test]
fn the_stream_announces_its_rate_and_colour() {
    if !has_program("ffprobe") {
        return skip("the_stream_announces_its_rate_and_colour", "ffprobe is not installed");
    }
    let settings = Settings {
        frame_rate: FrameRate::new(30_000, 1001).unwrap(),
        colour: Colour { primaries: 9, transfer: 14, matrix: 9, full_range: true },
        sample_aspect: Some((128, 90)),
        ..settings(1_000_000)
    };
    let (_, units) = encode(&settings, 10, &[]);
    // Not r_frame_rate: for bare H.264 some versions of ffprobe give the rate of fields there.
    let entries = "stream=width,height,color_primaries,color_range,color_space,color_transfer,\
                   sample_aspect_ratio,has_b_frames";
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-f", "h264", "-show_entries", entries, "-of", "default=noprint_wrappers=1"])
        .arg(file("announces.h264", &units))
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    for line in [
        "width=320",
        "height=180",
        "color_primaries=bt2020",
        "color_space=bt2020nc",
        "color_transfer=bt2020-10",
        "color_range=pc",
        "sample_aspect_ratio=64:45",
        "has_b_frames=0",
    ] {
        assert!(output.contains(line), "{line} in {output}");
    }
    let sps = nals(&units[0].data)
        .find(|nal| nal.kind() == NalType::Sps)
        .map(|nal| Sps::parse(nal.payload()).unwrap())
        .unwrap();
    assert_eq!(sps.frame_rate, FrameRate::new(30_000, 1001));
    assert_eq!(sps.sample_aspect, Some((64, 45)));
    let colour = sps.colour.unwrap();
    assert_eq!((colour.primaries, colour.transfer, colour.matrix, colour.full_range), (9, 14, 9, true));
    let shapeless = Settings { sample_aspect: Some((0, 5)), ..settings.clone() };
    let (_, units) = encode(&shapeless, 1, &[]);
    let sps = nals(&units[0].data).find(|nal| nal.kind() == NalType::Sps).unwrap();
    assert_eq!(Sps::parse(sps.payload()).unwrap().sample_aspect, None);
}

#[test]
fn key_frames_stand_where_they_were_asked_for() {
    let settings = Settings { preset: "ultrafast".to_owned(), ..settings(1_000_000) };
    let (_, units) = encode(&settings, 60, &[]);
    assert_eq!(key_frames(&units), [0, 25, 50]);
    let (_, units) = encode(&settings, 60, &[7, 40]);
    assert_eq!(key_frames(&units), [0, 7, 32, 40]);
    let every = Settings { key_interval: KeyInterval::Time(Duration::from_millis(200)), ..settings };
    let (_, units) = encode(&every, 16, &[]);
    assert_eq!(key_frames(&units), [0, 5, 10, 15]);
}

#[test]
fn slices_are_as_many_as_asked_for() {
    for (threads, asked, given) in
        [(1, 1, 1..=1), (1, 5, 5..=5), (2, 4, 4..=4), (2, 12, 12..=12), (3, 5, 5..=9)]
    {
        let settings = Settings { slices: asked, threads, ..settings(1_000_000) };
        let (_, units) = encode(&settings, 5, &[]);
        for unit in &units {
            let is_slice = |window: &&[u8]| window[..3] == [0, 0, 1] && matches!(window[3] & 0x1f, 1 | 5);
            let found = unit.data.windows(4).filter(is_slice).count();
            assert!(given.contains(&found), "{threads} threads, {asked} slices: {found}");
        }
    }
}

#[test]
fn the_bitrate_is_what_was_asked_for() {
    for bitrate_bps in [500_000, 2_000_000] {
        let settings = settings(bitrate_bps);
        let (_, units) = encode(&settings, 5 * RATE, &[]);
        let bits: usize = units.iter().map(|unit| unit.data.len() * 8).sum();
        let ratio = bits as f64 / 5.0 / bitrate_bps as f64;
        assert!((0.85..1.15).contains(&ratio), "{bitrate_bps} bit/s: {ratio:.3} of it");
        // VBV of a second, full to nine tenths at the start: no second may hold more than two of them.
        for second in units.windows(RATE as usize) {
            let bits: usize = second.iter().map(|unit| unit.data.len() * 8).sum();
            assert!(bits as u64 <= 2 * bitrate_bps, "{bits} bits in a second");
        }
    }
}
