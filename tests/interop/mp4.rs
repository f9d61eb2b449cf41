//! `encode FILE.mp4`: FFmpeg finds nothing to complain about, while the file grows, when it is cut, and at its end.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, Running, Scratch, run};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::process::Command;

/// What ffprobe says of the file: format and streams.
fn probe(file: &str) -> Value {
    let fields =
        "format=duration,format_name:stream=codec_name,codec_type,duration,nb_read_packets,width,sample_rate";
    let arguments = ["-v", "warning", "-count_packets", "-show_entries", fields, "-of", "json", file];
    let outcome = run("ffprobe", &arguments, 60);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), ""), "{file}");
    serde_json::from_str(&outcome.text()).unwrap()
}

fn decode(file: &str) -> Outcome {
    run("ffmpeg", &["-v", "warning", "-i", file, "-f", "null", "-"], 60)
}

fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn ffmpeg_reads_it_and_times_are_right() {
    if !have("ffmpeg_reads_it_and_times_are_right", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("mp4");
    let file = scratch.file("out.mp4");
    let arguments = ["encode", "test:320x180@25", &file, "--duration", "3s", "--preset", "ultrafast"];
    let outcome = run(GLASSLINE, &arguments, 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let found = probe(&file);
    let streams = found["streams"].as_array().unwrap();
    let of = |kind: &str| {
        streams.iter().find(|stream| stream["codec_type"] == kind).unwrap_or_else(|| panic!("{found}"))
    };
    let (video, sound) = (of("video"), of("audio"));
    assert_eq!((video["codec_name"].as_str(), video["width"].as_u64()), (Some("h264"), Some(320)));
    assert_eq!((sound["codec_name"].as_str(), sound["sample_rate"].as_str()), (Some("opus"), Some("48000")));
    // Pictures may be left out at the beginning of a busy machine's run; what is there lasts three seconds.
    let pictures = number(&video["nb_read_packets"]);
    assert!((60.0..=75.0).contains(&pictures), "{pictures} pictures");
    let duration = number(&found["format"]["duration"]);
    assert!((pictures / 25.0 - 0.1..=3.1).contains(&duration), "{duration} s of {pictures} pictures");
    let decoded = decode(&file);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_file_of_pictures_alone_has_each_of_them_at_its_time() {
    if !have("a_file_of_pictures_alone_has_each_of_them_at_its_time", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("mp4");
    let (input, file) = (scratch.file("in.y4m"), scratch.file("out.mp4"));
    let source = "testsrc=size=320x180:rate=30000/1001:duration=3";
    let made =
        run("ffmpeg", &["-v", "error", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", &input], 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let outcome = run(GLASSLINE, &["encode", &input, &file, "--preset", "ultrafast"], 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let found = probe(&file);
    assert_eq!(found["streams"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(number(&found["streams"][0]["nb_read_packets"]), 90.0);
    assert!((number(&found["format"]["duration"]) - 3.003).abs() < 0.001, "{found}");
    let decoded = decode(&file);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""));
    // A player may begin at the second key frame.
    let sought =
        run("ffmpeg", &["-v", "warning", "-ss", "1.5", "-i", &file, "-frames:v", "1", "-f", "null", "-"], 60);
    assert_eq!((sought.status, sought.stderr.as_str()), (Some(0), ""));
}

#[test]
fn with_intra_refresh_recovery_points_are_told_and_ffmpeg_reads_them() {
    let test = "with_intra_refresh_recovery_points_are_told_and_ffmpeg_reads_them";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("mp4");
    let (input, file) = (scratch.file("in.y4m"), scratch.file("out.mp4"));
    let source = "testsrc=size=320x180:rate=25:duration=4";
    let made =
        run("ffmpeg", &["-v", "error", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", &input], 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let outcome = run(GLASSLINE, &["encode", &input, &file, "--preset", "ultrafast", "--intra-refresh"], 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let found = probe(&file);
    assert_eq!(number(&found["streams"][0]["nb_read_packets"]), 100.0);
    let decoded = decode(&file);
    assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""));
    // One sweep a second: the first one begins with the key frame.
    let bytes = std::fs::read(&file).unwrap();
    let groups = |kind: &[u8]| bytes.windows(12).filter(|at| &at[..4] == kind && &at[8..] == b"roll").count();
    assert_eq!((groups(b"sgpd"), groups(b"sbgp")), (3, 3));
}

#[test]
fn a_file_that_still_grows_plays_and_so_does_one_whose_writer_died() {
    if !have("a_file_that_still_grows_plays_and_so_does_one_whose_writer_died", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("mp4");
    let file = scratch.file("out.mp4");
    let mut command = Command::new(GLASSLINE);
    command.args(["encode", "test:320x180@25", &file, "--preset", "ultrafast"]);
    let mut encoder = Running::start(&mut command);
    let bytes = || std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    until("two fragments", || {
        bytes() > 0 && std::fs::read(&file).unwrap().windows(4).filter(|at| at == b"moof").count() >= 2
    });
    let copy = scratch.file("copy.mp4");
    std::fs::copy(&file, &copy).unwrap();
    encoder.kill();
    for file in [&copy, &file] {
        let decoded = decode(file);
        assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""));
        let found = probe(file);
        assert!(number(&found["format"]["duration"]) > 0.9, "{found}");
    }
}
