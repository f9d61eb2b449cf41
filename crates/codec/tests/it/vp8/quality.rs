//! What the encoder makes of a clip, in bits and decibels, beside what it has made of it before: no change of it may
//! cost more than rounding without being seen here.

use glassline_codec::vp8::{Encoder, EncoderSettings, Serial, StreamQuality};
use glassline_measure::pattern::Pattern;
use glassline_measure::psnr::SquaredError;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Picture, Size, Time, Utc};
use glassline_test_support::{has_program, shared, skip};
use std::process::{Command, Stdio};

const PICTURES: usize = 50;

/// Quantiser index and speed, and what they give: bits of the clip, PSNR of all planes in dB.
type Row = (u8, u8, u64, f64);

const PATTERN: [Row; 5] = [
    (8, 6, 673_208, 50.772),
    (40, 0, 106_608, 43.273),
    (40, 6, 123_776, 43.179),
    (40, 10, 149_104, 43.259),
    (90, 6, 68_672, 37.627),
];

const FILMED: [Row; 5] = [
    (8, 6, 2_920_648, 46.797),
    (40, 0, 618_088, 40.246),
    (40, 6, 754_992, 39.794),
    (40, 10, 860_936, 40.124),
    (90, 6, 252_456, 34.515),
];

/// Encodes `pictures` as the program does with a quantiser that stays.
fn encode(pictures: &[Picture], index: u8, speed: u8) -> (u64, f64) {
    let quality = StreamQuality::Quantizer(index);
    let frame_rate = FrameRate::new(25, 1).unwrap();
    let settings = EncoderSettings { frame_rate, key_interval: None, quality, speed, denoise: None };
    let mut encoder = Encoder::new(&settings);
    let (mut bits, mut error) = (0, SquaredError::default());
    for picture in pictures {
        let encoded = encoder.encode(picture, &Serial).unwrap();
        bits += 8 * encoded.bytes.len() as u64;
        error.add(&SquaredError::of(picture, &encoded.picture).unwrap());
    }
    (bits, error.all_db().unwrap())
}

/// Half a percent of bits and two hundredths of a decibel are what the drawing's floating point may change; a change
/// that trades one for the other beyond that brings its new rows.
fn check(pictures: &[Picture], rows: &[Row]) {
    let mut lost = Vec::new();
    for &(index, speed, bits, psnr_db) in rows {
        let (found_bits, found_db) = encode(pictures, index, speed);
        if found_bits * 1000 > bits * 1005 || found_db < psnr_db - 0.02 {
            lost.push(format!(
                "quantiser {index}, speed {speed}: {found_bits} bits, {found_db:.3} dB; \
                 {bits} bits, {psnr_db:.3} dB before"
            ));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn the_test_pattern_takes_no_more_bits_and_is_no_worse() {
    let rate = FrameRate::new(25, 1).unwrap();
    let mut pattern = Pattern::new(Size::new(320, 180).unwrap(), rate);
    let pictures: Vec<Picture> = (0..PICTURES as u64)
        .map(|number| pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default()))
        .collect();
    check(&pictures, &PATTERN);
}

#[test]
fn a_filmed_clip_takes_no_more_bits_and_is_no_worse() {
    let test = "a_filmed_clip_takes_no_more_bits_and_is_no_worse";
    let Some(file) = shared("media/foreman_cif25.mp4") else {
        return skip(test, "the shared folder has no media/foreman_cif25.mp4");
    };
    if !has_program("ffmpeg") {
        return skip(test, "ffmpeg is not installed");
    }
    // Decoding H.264 is exact: each machine gets the same pictures.
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-i"]).arg(file).args(["-frames:v", &PICTURES.to_string()]);
    command.args(["-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pictures = read(&output.stdout);
    assert_eq!(pictures.len(), PICTURES);
    check(&pictures, &FILMED);
}

fn read(y4m: &[u8]) -> Vec<Picture> {
    let (mut reader, mut rest, mut pictures) = (y4m::Reader::new(), y4m, Vec::new());
    while let Some(picture) = reader.parse(&mut rest).unwrap() {
        pictures.push(picture);
    }
    pictures
}
