//! Direct video and WebRTC in real time over an emulated line: what is shown is matched with what was captured.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, run};
use glassline_test_support::{no_private_network, skip};
use serde_json::Value;

/// Three seconds over a line without limit. Of ours only what takes little time to encode: no timing is looked at.
fn experiment(options: &[&str]) -> Outcome {
    let line = ["lab", "experiment", "test:320x180@25", "--up", "unlimited", "--duration", "3s", "--json"];
    run(GLASSLINE, &[&line[..], &["--testbed", "none"], options].concat(), 180)
}

/// What came of a run; `None`, and counted, where no network can be made here.
fn measured(test: &str, options: &[&str]) -> Option<Value> {
    let outcome = experiment(options);
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
    assert_eq!(report["used"], Value::Null, "a line without limit");
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
}
