//! GStreamer as viewer, and as publisher.

use crate::{demo, have, serve};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::skip;

fn has_element(name: &str) -> bool {
    run("gst-inspect-1.0", &["--exists", name], 60).status == Some(0)
}

#[test]
fn gstreamer_plays_the_demo() {
    let test = "gstreamer_plays_the_demo";
    if !have(test, &["gst-launch-1.0", "gst-inspect-1.0"]) {
        return;
    }
    let missing: Vec<_> =
        ["souphttpsrc", "tsdemux", "h264parse"].into_iter().filter(|name| !has_element(name)).collect();
    if !missing.is_empty() {
        skip(test, &format!("GStreamer has no {}", missing.join(", ")));
        return;
    }
    let decoder = ["avdec_h264", "openh264dec"].into_iter().find(|name| has_element(name));
    let server = demo();
    let location = format!("location={}", server.url("/live/demo.ts"));
    let mut pipeline = vec!["-v", "souphttpsrc", &location, "!", "tsdemux", "!", "h264parse", "!"];
    pipeline.extend(decoder.map(|decoder| [decoder, "!"]).into_iter().flatten());
    // It ends by itself once it has had 100 pictures.
    pipeline.extend(["fakesink", "num-buffers=100"]);
    let outcome = run("gst-launch-1.0", &pipeline, 60);
    let said = outcome.text() + &outcome.stderr;
    assert_eq!(outcome.status, Some(0), "{said}");
    assert!(said.contains("Got EOS") && said.contains("width=(int)1280"), "{said}");
    assert!(!said.contains("WARNING") && !said.contains("ERROR"), "{said}");
}

#[test]
fn gstreamer_publishes_buffer_by_buffer_as_one_publisher() {
    let test = "gstreamer_publishes_buffer_by_buffer_as_one_publisher";
    if !have(test, &["gst-launch-1.0", "gst-inspect-1.0", "ffmpeg"]) {
        return;
    }
    let missing: Vec<_> =
        ["souphttpclientsink", "identity", "filesrc"].into_iter().filter(|name| !has_element(name)).collect();
    if !missing.is_empty() {
        skip(test, &format!("GStreamer has no {}", missing.join(", ")));
        return;
    }
    let scratch = Scratch::new("gst");
    let file = scratch.path().join("in.ts").display().to_string();
    let made = run(
        "ffmpeg",
        &[
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=160x120:rate=25",
            "-t",
            "6",
            "-c:v",
            "mpeg2video",
            "-g",
            "12",
            "-f",
            "mpegts",
            &file,
        ],
        60,
    );
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let server = serve();
    // Buffers of no whole packets, each in a request of its own.
    let (from, to) = (format!("location={file}"), format!("location={}", server.url("/live/gst.ts")));
    let pipeline = [
        "-q",
        "filesrc",
        &from,
        "blocksize=3000",
        "!",
        "identity",
        "sleep-time=10000",
        "!",
        "souphttpclientsink",
        "sync=false",
        &to,
    ];
    let outcome = run("gst-launch-1.0", &pipeline, 60);
    let said = outcome.text() + &outcome.stderr;
    assert_eq!(outcome.status, Some(0), "{said}");
    // It breaks its last request off when it ends.
    let (bytes, came) = (std::fs::metadata(&file).unwrap().len(), server.count("gst", "bytes_in"));
    assert!(came <= bytes && came + 2 * 3000 >= bytes, "{came} of {bytes}");
    let requests = server.metrics().sum("glassline_requests_total", "");
    assert!(requests > 10.0, "it puts each buffer: {requests}");
    assert_eq!(server.count("gst", "publishers"), 1);
    assert_eq!((server.count("gst", "garbage_bytes"), server.count("gst", "continuity_errors")), (0, 0));
}
