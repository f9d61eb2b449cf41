//! VP8 of ours in foreign decoders: each picture is, to the bit, the one that we decode, which is the one that the
//! encoder has as its reference.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::{has_program, shared, skip};
use std::process::{Command, Stdio};

/// MD5 of each picture of a stream.
fn ours(stream: &str) -> Vec<String> {
    let outcome = run(GLASSLINE, &["decode", stream, "--md5"], 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.text().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

fn ffmpeg(stream: &str) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-c:v", "vp8", "-i", stream, "-fps_mode", "passthrough"]);
    command.args(["-pix_fmt", "yuv420p", "-f", "framehash", "-hash", "md5", "-"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let pictures = text.lines().filter(|line| !line.starts_with('#'));
    pictures.map(|line| line.rsplit(',').next().unwrap().trim().to_owned()).collect()
}

fn vpxdec(stream: &str) -> Vec<String> {
    let mut command = Command::new("vpxdec");
    command.args(["--codec=vp8", "--i420", "--md5", "-o", "%4.i420", stream]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn streams_decode_bit_exactly_elsewhere() {
    let test = "streams_decode_bit_exactly_elsewhere";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("vp8-elsewhere");
    let mut inputs = vec!["test:333x187@30".to_owned()];
    match shared("media/foreman_cif25.mp4") {
        Some(file) => inputs.push(file.to_string_lossy().into_owned()),
        None => skip(test, "the shared folder has no media/foreman_cif25.mp4"),
    }
    for (number, input) in inputs.iter().enumerate() {
        for how in [
            &["--quantizer", "0", "--speed", "6"][..],
            &["--quantizer", "50", "--speed", "3", "--keyint", "7"],
            &["--quantizer", "127", "--speed", "10"],
            &["--bitrate", "300k", "--speed", "0"],
            &["--bitrate", "1M", "--speed", "6", "--threads", "2"],
        ] {
            let stream = scratch.file(&format!("{number}.ivf"));
            let arguments =
                [&["encode", input, &stream, "--codec", "vp8", "--limit", "20"][..], how].concat();
            let outcome = run(GLASSLINE, &arguments, 120);
            assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
            let expected = ours(&stream);
            assert_eq!(expected.len(), 20);
            assert_eq!(ffmpeg(&stream), expected, "FFmpeg, {arguments:?}");
            if has_program("vpxdec") {
                assert_eq!(vpxdec(&stream), expected, "libvpx, {arguments:?}");
            } else {
                skip(test, "vpxdec is not installed");
            }
        }
    }
}
