//! The test pattern through a real encoder at 500 kbit/s: the barcodes have to survive.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::unwrap_used)]

use glassline_measure::barcode::{self, Barcode};
use glassline_measure::pattern::Pattern;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Size, Time, Utc};
use glassline_test_support::{has_program, skip};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const PICTURES: u64 = 120;
const UTC: Utc = Utc::from_micros(1_700_000_000_345_678);

#[test]
fn barcodes_survive_h264_at_500_kbit() {
    if !has_program("ffmpeg") {
        return skip("barcodes_survive_h264_at_500_kbit", "no ffmpeg");
    }
    let frame_rate = FrameRate::new(30, 1).unwrap();
    let coded = Path::new(env!("CARGO_TARGET_TMPDIR")).join("barcodes_survive.h264");
    encode(Pattern::new(Size::new(1280, 720).unwrap(), frame_rate), &coded);
    let bits = std::fs::metadata(&coded).unwrap().len() * 8;
    let rate = bits as f64 / (PICTURES as f64 / 30.0);
    assert!((200e3..650e3).contains(&rate), "{rate} bit/s is not what was asked for");

    let (mut total, mut read) = (0, 0);
    decode(&coded, |picture| {
        let expected = Some(Barcode::new(total, utc_of(frame_rate, total)));
        let found = barcode::read(&picture);
        for code in [found.top_left, found.bottom_right] {
            assert!(code.is_none() || code == expected, "picture {total}: read {code:?}, drawn {expected:?}");
            read += u64::from(code.is_some());
        }
        total += 1;
    });
    println!("{read} of {} barcodes read at {:.0} kbit/s", 2 * PICTURES, rate / 1e3);
    assert_eq!(total, PICTURES);
    assert!(read * 100 >= 2 * PICTURES * 99, "{read} of {} barcodes read", 2 * PICTURES);
}

fn utc_of(frame_rate: FrameRate, number: u64) -> Utc {
    Utc::from_nanos(UTC.as_nanos() + frame_rate.time_of(number).as_nanos() as u64)
}

fn encode(mut pattern: Pattern, coded: &Path) {
    let mut ffmpeg = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-y",
            "-f",
            "yuv4mpegpipe",
            "-i",
            "-",
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
        ])
        .args(["-tune", "zerolatency", "-b:v", "500k", "-maxrate", "500k", "-bufsize", "500k", "-g", "30"])
        .args(["-f", "h264"])
        .arg(coded)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = ffmpeg.stdin.take().unwrap();
    let mut bytes = Vec::new();
    for number in 0..PICTURES {
        let frame_rate = pattern.frame_rate();
        let captured = Time::ZERO + frame_rate.time_of(number);
        let picture = pattern.draw(number, captured, utc_of(frame_rate, number));
        bytes.clear();
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, frame_rate), &mut bytes).unwrap();
        }
        y4m::write_picture(&picture, &mut bytes);
        input.write_all(&bytes).unwrap();
    }
    drop(input);
    assert!(ffmpeg.wait().unwrap().success());
}

fn decode(coded: &Path, mut each: impl FnMut(glassline_media::Picture)) {
    let mut ffmpeg = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "h264", "-i"])
        .arg(coded)
        .args(["-f", "yuv4mpegpipe", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = ffmpeg.stdout.take().unwrap();
    let mut reader = y4m::Reader::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let length = output.read(&mut chunk).unwrap();
        if length == 0 {
            break;
        }
        let mut rest = &chunk[..length];
        while let Some(picture) = reader.parse(&mut rest).unwrap() {
            each(picture);
        }
    }
    reader.finish().unwrap();
    assert!(ffmpeg.wait().unwrap().success());
}
