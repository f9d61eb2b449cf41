//! From glass to glass on one machine: `probe --glass` reads the age of what FFmpeg decodes.

use crate::{GLASSLINE, have, serve};
use glassline_test_support::program::{Running, run};
use glassline_test_support::wait::at_once;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;

/// How long is looked: more than three times the pictures that are wanted.
const SECONDS: &str = "3s";

/// Checks what holds on any machine; prints the figures, which decide nothing here.
fn check(report: &Value, what: &str) {
    assert_eq!((&report["kind"], &report["schema"]), (&"glass".into(), &1.into()), "{report}");
    let number = |path: &str| {
        report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {report}"))
    };
    let (looked_at, unread) = (number("/age_ms/count"), number("/unread"));
    assert!(looked_at >= 20.0 && unread * 20.0 <= looked_at, "{report}");
    assert!(number("/pictures") <= number("/units") && number("/pictures") >= looked_at, "{report}");
    let (median, high) = (number("/age_ms/p50"), number("/age_ms/p99"));
    assert!(median > 0.0 && high >= median && high < 30_000.0, "{report}");
    eprintln!(
        "{what}: age p50 {median:.1} ms, p99 {high:.1} ms; missing {}, late {}",
        number("/missing"),
        number("/late")
    );
}

#[test]
fn ages_of_datagrams_are_measured() {
    if !have("ages_of_datagrams_are_measured", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("udp://{to}");
    let source = ["encode", "test:320x180@25", &url, "--preset", "ultrafast", "--bitrate", "1M"];
    for how in
        [&["--threads", "1", "--slices", "1"][..], &["--threads", "1", "--slices", "8"], &["--threads", "2"]]
    {
        let mut encoder = Running::start(Command::new(GLASSLINE).args(source).args(how));
        let probe = run(GLASSLINE, &["probe", &url, "--glass", "--json", "--duration", SECONDS], 60);
        assert_eq!(probe.status, Some(0), "{how:?}: {}", probe.stderr);
        check(&serde_json::from_str(&probe.text()).unwrap(), &format!("{how:?}"));
        assert!(encoder.ended().is_none(), "{}", encoder.output());
    }
}

#[test]
fn ages_of_a_relayed_stream_are_measured() {
    if !have("ages_of_a_relayed_stream_are_measured", &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let url = server.url("/live/glass.ts");
    let _encoder = Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &url]));
    server.wait_for_pictures("glass");
    let probe = |more: &[&str]| {
        run(GLASSLINE, &[&["probe", &url, "--glass", "--duration", SECONDS], more].concat(), 60)
    };
    let for_programs = || {
        let probe = probe(&["--json"]);
        assert_eq!(probe.status, Some(0), "{}", probe.stderr);
        check(&serde_json::from_str(&probe.text()).unwrap(), "through serve");
    };
    let for_people = || {
        let probe = probe(&[]);
        assert!(probe.text().contains("Age, ms") && probe.text().contains("decoded"), "{}", probe.text());
    };
    at_once(for_programs, for_people);
}
