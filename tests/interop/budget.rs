//! `probe --budget` of a foreign encoder's stream, which says nothing of its stages.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, run};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

#[test]
fn the_budget_of_a_stream_that_says_nothing_is_unknown_and_not_drawn() {
    if !have("the_budget_of_a_stream_that_says_nothing_is_unknown_and_not_drawn", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("udp://{to}");
    let coding = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25"];
    let _encoder = Running::start(
        Command::new("ffmpeg")
            .args(["-v", "error", "-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25"])
            .args(coding)
            .args(["-f", "mpegts", &url]),
    );
    let scratch = Scratch::new("budget");
    let picture = scratch.file("none.svg");
    let arguments = ["probe", &url, "--duration", "4s", "--json", "--budget", &picture];
    let probe = run(GLASSLINE, &arguments, 60);
    assert_eq!(probe.status, Some(0), "{}", probe.stderr);
    assert!(probe.stderr.contains("nothing to draw") && !Path::new(&picture).exists(), "{}", probe.stderr);
    let report: Value = serde_json::from_str(&probe.text()).unwrap();
    let budget = &report["budget"];
    assert_eq!((&budget["with_capture_time"], &budget["total_ms"]), (&0.into(), &Value::Null), "{budget}");
    assert_eq!(budget["steps"].as_array().map(Vec::len), Some(0), "{budget}");
    assert!(budget["notes"][0].as_str().unwrap().contains("Unknown"), "{budget}");
}
