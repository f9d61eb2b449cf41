//! Telemetry in a stream of `receive`, as other programs read it.

use crate::{GLASSLINE, have};
use glassline_media::bitstream::klv::{self, uas};
use glassline_test_support::flight::{STAMPED, attitude, fly, position};
use glassline_test_support::program::{Scratch, run};

const SETS: u64 = 20;

fn line(number: u32) -> Vec<u8> {
    match number % 2 {
        0 => attitude(number * 20, 1.0, 2.0, 3.0),
        _ => position(number * 20, 473_977_418, 85_455_939, 488_130),
    }
}

fn assert_sets(bytes: &[u8], program: &str) {
    let found: Vec<_> = klv::packets(bytes).filter_map(|packet| uas::Set::parse(&packet)).collect();
    assert!(found.len() as u64 >= SETS, "{program}: {} sets in {} bytes", found.len(), bytes.len());
    assert!(found.iter().all(|set| set.checksum_right == Some(true)), "{program}");
    let last = found.last().unwrap();
    assert!((last.latitude_deg.unwrap() - 47.397_741_8).abs() < 1e-7, "{program}: {last:?}");
}

#[test]
fn ffmpeg_reads_the_telemetry_of_a_flight_and_gstreamer_what_is_beside_it() {
    let test = "ffmpeg_reads_the_telemetry_of_a_flight_and_gstreamer_what_is_beside_it";
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(test, "built without x264");
    }
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("klv-flight");
    let film = scratch.file("flight.ts");
    fly(GLASSLINE, [&[&film, "--channel", "0:klv=mavlink"], &[STAMPED]], line, SETS);
    let looked = run("ffprobe", &["-hide_banner", &film], 60);
    assert!(looked.stderr.contains("Data: klv (KLVA"), "{}", looked.stderr);
    let out = scratch.file("out.klv");
    let copied = run(
        "ffmpeg",
        &["-v", "error", "-y", "-i", &film, "-map", "0:d", "-c", "copy", "-f", "data", &out],
        60,
    );
    assert_eq!((copied.status, copied.stderr.as_str()), (Some(0), ""));
    assert_sets(&std::fs::read(&out).unwrap(), "FFmpeg");
    // Each packet has a time stamp, that of a picture.
    let entries =
        ["-v", "quiet", "-select_streams", "d", "-show_entries", "packet=pts", "-of", "csv=p=0", &film];
    let stamps = run("ffprobe", &entries, 60).text();
    assert!(stamps.lines().count() as u64 >= SETS && !stamps.contains("N/A"), "{stamps}");
    if !have(test, &["gst-launch-1.0"]) {
        return;
    }
    // GStreamer knows synchronous metadata from 1.24 on; older ones read what is beside it.
    let source = format!("location={film}");
    let pipeline = [
        "-q",
        "filesrc",
        &source,
        "!",
        "tsdemux",
        "name=d",
        "d.",
        "!",
        "queue",
        "!",
        "h264parse",
        "!",
        "fakesink",
        "d.",
        "!",
        "queue",
        "!",
        "opusparse",
        "!",
        "fakesink",
    ];
    let piped = run("gst-launch-1.0", &pipeline, 60);
    assert_eq!((piped.status, piped.stderr.as_str()), (Some(0), ""));
}
