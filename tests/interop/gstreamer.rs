//! GStreamer as viewer.

use crate::{demo, have};
use glassline_test_support::program::run;
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
