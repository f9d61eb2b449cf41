//! `lab load live`: viewers of what `serve --demo` packages.

use crate::{glassline, serve};
use glassline_test_support::http::get;
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use serde_json::Value;

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {report:#}"))
}

/// A few viewers of `name` for some seconds, and what is said of them.
fn watch(name: &str, protocol: &str, arguments: &[&str]) {
    let server = serve(&["--demo"]);
    let path = format!("/live/demo/{name}");
    // A stream's first segment may be shorter than its hints say.
    let segments = || get(server.address(), "/live/demo/video.m3u8").text().matches("#EXTINF").count();
    until("two segments", || segments() >= 2);
    let url = server.url(&path);
    let usual = ["lab", "load", "live", &url, "--viewers", "5", "--ramp", "1s", "--duration", "3s", "--json"];
    let outcome = glassline(&[&usual[..], arguments].concat());
    let report: Value = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", outcome.text(), outcome.stderr));
    assert_eq!(outcome.status, Some(0), "{report:#} {}", outcome.stderr);
    assert_eq!((&report["protocol"], number(&report, "/playing")), (&protocol.into(), 5.0));
    for nothing in ["/http_errors", "/lost", "/malformed", "/foreign"] {
        assert_eq!(number(&report, nothing), 0.0, "{nothing} in {report:#}");
    }
    assert!(
        number(&report, "/chunk_delay_ms/count") > 100.0 && number(&report, "/requests") > 5.0,
        "{report:#}"
    );
    assert_eq!(number(&report, "/viewers/mean_ms/count"), 5.0, "{report:#}");
}

#[test]
fn viewers_of_low_latency_hls_get_each_part() {
    let folder = Scratch::new("lab-live");
    let page = folder.file("page.html");
    watch("index.m3u8", "hls", &["--report", &page]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("<svg"));
}

#[test]
fn viewers_of_low_latency_dash_read_segments_that_grow() {
    watch("manifest.mpd", "dash", &["--processes", "2"]);
}

#[test]
fn nobody_gets_what_is_not_there() {
    let server = serve(&[]);
    let url = server.url("/live/none/index.m3u8");
    let outcome = glassline(&[
        "lab",
        "load",
        "live",
        &url,
        "--viewers",
        "2",
        "--ramp",
        "100/s",
        "--warm-up",
        "0s",
        "--duration",
        "500ms",
    ]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.text());
    assert!(outcome.stderr.contains("answered 404"), "{}", outcome.stderr);
    let outcome = glassline(&["lab", "load", "live", &server.url("/live/none"), "--viewers", "2"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("--protocol"), "{}", outcome.stderr);
}
