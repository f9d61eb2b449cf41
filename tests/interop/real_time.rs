//! Direct video and WebRTC in real time over an emulated line: what is shown is matched with what was captured.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, Scratch, run};
use glassline_test_support::{no_private_network, skip};
use serde_json::Value;

/// Three seconds over a line without limit. Of ours only what takes little time to encode: no timing is looked at.
fn experiment(options: &[&str]) -> Outcome {
    experiment_over(&["--up", "unlimited"], options)
}

/// The same over these lines.
fn experiment_over(lines: &[&str], options: &[&str]) -> Outcome {
    let experiment =
        ["lab", "experiment", "test:320x180@25", "--duration", "3s", "--json", "--testbed", "none"];
    run(GLASSLINE, &[&experiment[..], lines, options].concat(), 180)
}

/// What came of a run over a line without limit; `None`, and counted, where no network can be made here.
fn measured(test: &str, options: &[&str]) -> Option<Value> {
    let report = report(test, experiment(options))?;
    assert_eq!(report["used"], Value::Null, "a line without limit");
    Some(report)
}

/// What a run tells; `None`, and counted, where no network can be made here.
fn report(test: &str, outcome: Outcome) -> Option<Value> {
    if let Some(reason) = (outcome.status != Some(0)).then(|| no_private_network(&[])).flatten() {
        skip(test, &reason);
        return None;
    }
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.text()).unwrap();
    let count = |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    assert!(
        count("/pictures") > 0 && count("/shown") > 0 && count("/shown") <= count("/pictures"),
        "{report}"
    );
    assert!(count("/real_time/judged") > 0 && report["ssim_y_db"].is_number(), "{report}");
    Some(report)
}

#[test]
fn what_ours_shows_is_what_was_captured() {
    let Some(report) = measured("what_ours_shows_is_what_was_captured", &["--real-time"]) else { return };
    assert_eq!(report["who"], "glassline");
    assert_eq!(report["real_time"]["unread"], 0, "{report}");
    assert_eq!(report["real_time"]["judged"], report["shown"], "all of them");
}

#[test]
fn pictures_take_several_lines_at_once() {
    let scratch = Scratch::new("real-time-lines");
    let svg = scratch.file("lines.svg");
    // Neither carries what the sender would send.
    let lines = ["--line", "up=500k,delay=10ms,queue=64p", "--line", "up=400k,delay=20ms,queue=64p"];
    let outcome = experiment_over(&lines, &["--real-time", "--svg", &svg]);
    let Some(report) = report("pictures_take_several_lines_at_once", outcome) else { return };
    let figure = |path: &str| report.pointer(path).and_then(Value::as_f64).unwrap();
    let [one, two] = [0, 1].map(|line| figure(&format!("/lines/{line}/bits_per_s")));
    assert!(one > 30_000.0 && two > 30_000.0, "{report:#}");
    assert!(figure("/lines/0/used") < 1.1 && figure("/lines/1/used") < 1.1, "{report:#}");
    // What was used is a share of the sum.
    assert!((figure("/used") * 900_000.0 - (one + two)).abs() < 0.02 * (one + two), "{report:#}");
    assert_eq!(report["lines"].as_array().map(Vec::len), Some(2), "{report:#}");
    assert_eq!(report["real_time"]["unread"], 0, "{report:#}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("over 2 lines") && drawn.contains("Line 2: 400kbit/s"), "{drawn}");
}

#[test]
fn what_webrtc_shows_is_what_was_captured() {
    let test = "what_webrtc_shows_is_what_was_captured";
    if !have(test, &["chromium"]) {
        return;
    }
    let Some(report) = measured(test, &["--peer", "webrtc-vp8", "--judge-every", "1"]) else { return };
    assert_eq!(report["who"], "webrtc-vp8");
    assert_eq!(report["real_time"]["peer"]["codec"], "video/VP8", "{report}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let unknown = experiment(&["--peer", "webrtc-vp8", "--browser", "/no/such/browser"]);
    assert_eq!(unknown.status, Some(1), "{}", unknown.stderr);
    let both = experiment(&["--real-time", "--controller", "salsify"]);
    assert_eq!(both.status, Some(2), "{}", both.stderr);
    assert!(both.stderr.contains("--controller"), "{}", both.stderr);
    let ours = experiment(&["--peer", "webrtc-av1", "--candidates", "2"]);
    assert_eq!(ours.status, Some(2), "{}", ours.stderr);
    // Before anything is looked for or made.
    let lines = ["--line", "up=1M", "--line", "up=2M"];
    let several = experiment_over(&lines, &["--peer", "webrtc-vp8", "--browser", "/no/such/browser"]);
    assert_eq!(several.status, Some(2), "{}", several.stderr);
    assert!(several.stderr.contains("--peer is measured over one line"), "{}", several.stderr);
}
