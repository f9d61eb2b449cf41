//! `lab glass`: barcodes at the end of whole chains, and whether the stages that a stream tells add up to what they say.
//!
//! The bounds hold on machines that other tests keep busy; the figures themselves are printed. What a stage leaves out, or counts
//! twice, is the same for all pictures, so that medians find it on any machine.

use crate::{GLASSLINE, have, serve};
use glassline_test_support::program::{Outcome, Running, Scratch, run};
use glassline_test_support::xml;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;

const CODING: [&str; 8] = ["--preset", "ultrafast", "--bitrate", "1M", "--slices", "4", "--audio", "none"];

fn glass(target: &str, more: &[&str]) -> Outcome {
    run(GLASSLINE, &[&["lab", "glass", target, "--duration", "4s"], more].concat(), 120)
}

fn report(outcome: &Outcome) -> Value {
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.text()).unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {report}"))
}

/// Barcodes were read, all but a few, and say ages that can be.
fn check_ages(report: &Value, by: &str) {
    assert_eq!(report["opened_by"], by, "{report}");
    let (looked_at, unread) = (number(report, "/age_ms/count"), number(report, "/unread"));
    assert!(looked_at >= 20.0 && unread * 20.0 <= looked_at, "{report}");
    assert!(number(report, "/age_ms/min") > 0.0 && number(report, "/age_ms/p99") < 30_000.0, "{report}");
}

/// Stages add up to what barcodes say: at most 2 ms apart in the median, 5 ms at the 99th percentile.
fn check_proof(report: &Value, what: &str) {
    check_ages(report, "glassline");
    let proof = &report["proof"];
    assert!(number(proof, "/compared") * 2.0 >= number(report, "/age_ms/count"), "{report}");
    let stages: Vec<_> =
        proof["steps"].as_array().unwrap().iter().map(|step| step["to"].as_str().unwrap()).collect();
    for stage in ["encoder_in", "encoded", "sent", "received", "decoded"] {
        assert!(stages.contains(&stage), "{stage}: {report}");
    }
    let (median, high) = (number(proof, "/apart_ms/p50"), number(proof, "/apart_ms/p99"));
    eprintln!(
        "{what}: sum of stages p50 {:.3} ms, barcode to barcode p50 {:.3} ms; apart p50 {median:.4} ms, p99 {high:.4} ms",
        number(proof, "/sum_ms/p50"),
        number(proof, "/barcode_ms/p50"),
    );
    assert!(median <= 2.0 && high <= 5.0, "{report}");
}

#[test]
fn stages_add_up_to_barcodes_over_datagrams_and_through_a_relay() {
    if !have("stages_add_up_to_barcodes_over_datagrams_and_through_a_relay", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = serve();
    let relayed = server.url("/live/glass.ts");
    let datagrams = format!("udp://{to}");
    let _encoder = Running::start(
        Command::new(GLASSLINE).args(["encode", "test:320x180@50", &datagrams, &relayed]).args(CODING),
    );
    server.wait_for_pictures("glass");
    check_proof(&report(&glass(&datagrams, &["--json"])), "datagrams");
    let through = report(&glass(&relayed, &["--json"]));
    check_proof(&through, "relay");
    assert_eq!(through["clock"], "server", "{through}");
    assert!(number(&through, "/clock_offset_ms").abs() <= 2.0, "one machine: {through}");
    // For people, with a picture.
    let scratch = Scratch::new("lab-glass");
    let picture = scratch.file("glass.svg");
    let outcome = glass(&relayed, &["--svg", &picture]);
    for text in ["sum of stages", "barcode to barcode", "apart, either way", "last slice out"] {
        assert!(outcome.text().contains(text), "{text} is not in {} {}", outcome.text(), outcome.stderr);
    }
    let svg = xml::texts(&std::fs::read_to_string(&picture).unwrap()).unwrap().join("\n");
    assert!(svg.contains("From glass to glass") && svg.contains("decoded"), "{svg}");
}

#[test]
fn foreign_chains_are_measured_by_barcodes_alone() {
    if !have("foreign_chains_are_measured_by_barcodes_alone", &["ffmpeg"]) {
        return;
    }
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (ours, theirs) = (format!("udp://{}", free()), format!("udp://{}", free()));
    let _encoder =
        Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &ours]).args(CODING));
    // Another program decodes and encodes anew: our stages are gone, the barcode is not.
    let _transcoder = Running::start(
        Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-fflags",
                "nobuffer",
                "-i",
                &ours,
                "-an",
                "-c:v",
                "mpeg2video",
                "-g",
                "12",
            ])
            .args(["-q:v", "3", "-f", "mpegts", "-flush_packets", "1", &theirs]),
    );
    // It ends with the first picture.
    let refused = run(GLASSLINE, &["lab", "glass", &theirs, "--duration", "60s"], 120);
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--ffmpeg"), "{}", refused.stderr);
    let report = report(&glass(&theirs, &["--json", "--ffmpeg"]));
    check_ages(&report, "ffmpeg");
    assert_eq!(report["proof"], Value::Null, "{report}");
    eprintln!("foreign chain: barcode to barcode p50 {:.1} ms", number(&report, "/age_ms/p50"));
}

#[test]
fn what_has_no_barcode_and_what_is_no_video_is_told() {
    if !have("what_has_no_barcode_and_what_is_no_video_is_told", &["ffmpeg"]) {
        return;
    }
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("udp://{to}");
    let plain = Running::start(
        Command::new("ffmpeg")
            .args(["-v", "error", "-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25"])
            .args(["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25"])
            .args(["-f", "mpegts", &url]),
    );
    for more in [&[][..], &["--ffmpeg"]] {
        let outcome = glass(&url, more);
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("has a barcode; it is the test picture's"), "{}", outcome.stderr);
    }
    drop(plain);
    let scratch = Scratch::new("lab-glass");
    let file = scratch.write("a.ts", b"recorded");
    for (target, status, words) in
        [(&file[..], 2, "not live"), ("-", 1, "FFmpeg decoded nothing"), ("/no/such", 1, "cannot read")]
    {
        let outcome = glass(target, &[]);
        assert_eq!(outcome.status, Some(status), "{target}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{target}: {}", outcome.stderr);
    }
}
