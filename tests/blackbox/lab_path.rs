//! `lab path`: lines that `lab link` emulates, measured by the program on both sides.

use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::until;
use glassline_test_support::{has_program, no_private_network, skip};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// Whether links can be made here; counts the test as skipped where not.
fn can(test: &str) -> bool {
    if !has_program("sh") {
        skip(test, "no sh");
        return false;
    }
    let outcome = glassline(&["lab", "link", "--", "true"]);
    if let Some(reason) = (outcome.status != Some(0)).then(|| no_private_network(&[])).flatten() {
        skip(test, &reason);
        return false;
    }
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    true
}

fn key(scratch: &Scratch, name: &str) -> String {
    let file = scratch.file(name);
    assert_eq!(glassline(&["key", "new", &file]).status, Some(0));
    file
}

/// A listener at a free port of all addresses.
struct Listening {
    running: Running,
    port: String,
}

impl Listening {
    fn start(key: &str, more: &[&str]) -> Listening {
        let arguments = [&["lab", "path", "--listen", "0.0.0.0:0", "--key", key], more].concat();
        let running = Running::start(Command::new(GLASSLINE).args(arguments));
        until("the listener's port", || running.output().contains("listening at port "));
        let output = running.output();
        let port = output.split("listening at port ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
        Listening { port: port.to_owned(), running }
    }
}

/// Measures behind an emulated link; what the link reports is in the way of nothing.
fn measured(key: &str, port: &str, link: &[&str], more: &[&str]) -> (Value, String) {
    let svg = more.contains(&"--svg");
    let script =
        format!("exec {GLASSLINE} lab path $GLASSLINE_FAR:{port} --key {key} --json {}", more.join(" "));
    let outcome = glassline(&[&["lab", "link"], link, &["--", "sh", "-c", &script]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("sends at most"), "the volume is told first: {}", outcome.stderr);
    assert!(!svg || outcome.text().starts_with('{'), "{}", outcome.text());
    (serde_json::from_slice(&outcome.stdout).unwrap(), outcome.stderr)
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {report:#}"))
}

#[test]
fn a_line_is_measured_in_both_directions_and_drawn() {
    if !can("a_line_is_measured_in_both_directions_and_drawn") {
        return;
    }
    let scratch = Scratch::new("path");
    let (key, svg) = (key(&scratch, "venue.key"), scratch.file("path.svg"));
    let mut listening = Listening::start(&key, &["--once"]);
    let link =
        ["--up", "5M", "--down", "10M", "--delay", "10ms", "--queue", "up=48p", "--queue", "down=100p"];
    let (report, _) = measured(&key, &listening.port, &link, &["--svg", &svg]);
    for (way, rate, queue) in [("up", 5e6, 48.0), ("down", 10e6, 100.0)] {
        let found = number(&report, &format!("/{way}/bottleneck_bps"));
        assert!((found / rate - 1.0).abs() <= 0.05, "{way}: {found} of {rate}: {report:#}");
        let found = number(&report, &format!("/{way}/queue_packets"));
        assert!(
            (found - queue).abs() <= f64::max(2.0, queue * 0.05),
            "{way}: {found} of {queue}: {report:#}"
        );
        let bursts = report[way]["bursts"].as_array().unwrap();
        assert!(bursts[0]["packets"] == 1 && bursts[0]["arrived"] == 1, "{report:#}");
        assert!(bursts.iter().any(|burst| burst["lost_at"].as_array().is_some_and(|lost| !lost.is_empty())));
        assert_eq!(number(&report, &format!("/{way}/mtu")), 1500.0, "{report:#}");
        assert!(report[way]["recommendation"]["text"].as_str().unwrap().contains("--bitrate"), "{report:#}");
    }
    assert!(number(&report, "/round_trip_ms") >= 20.0);
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    assert_eq!(listening.running.wait().code(), Some(0), "{}", listening.running.output());
    assert!(listening.running.output().contains("done after"), "{}", listening.running.output());
}

#[test]
fn another_key_gets_no_answer_and_status_1() {
    let scratch = Scratch::new("path-key");
    let (theirs, ours) = (key(&scratch, "a.key"), key(&scratch, "b.key"));
    let mut listening = Listening::start(&theirs, &[]);
    let outcome = glassline(&["lab", "path", &format!("127.0.0.1:{}", listening.port), "--key", &ours]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("does not answer; start glassline lab path --listen"),
        "{}",
        outcome.stderr
    );
    listening.running.signal("INT");
    assert_eq!(listening.running.wait().code(), Some(0), "{}", listening.running.output());
    assert!(listening.running.output().contains("datagrams were made without the key"));
}

#[test]
fn a_measurement_that_is_interrupted_reports_what_it_has() {
    let scratch = Scratch::new("path-stop");
    let key = key(&scratch, "a.key");
    let listening = Listening::start(&key, &[]);
    let caller = ["lab", "path", &format!("127.0.0.1:{}", listening.port), "--key", &key];
    let mut caller = Running::start(Command::new(GLASSLINE).args(caller));
    until("the session", || listening.running.output().contains(": measuring"));
    caller.signal("INT");
    // Ended within the packets without load, of which nothing is counted: nothing has been measured.
    let status = caller.wait();
    let output = caller.output();
    assert!(output.contains("ended early: a signal"), "{status:?}: {output}");
    until("the end of the session", || listening.running.output().contains(": done after"));
}

#[test]
fn a_listener_sends_no_more_than_it_gets_to_one_that_only_sends() {
    let scratch = Scratch::new("path-forged");
    let key = key(&scratch, "a.key");
    let listening = Listening::start(&key, &[]);
    // What a caller sends first is recorded, and sent again from elsewhere.
    let tap = UdpSocket::bind("127.0.0.1:0").unwrap();
    tap.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = tap.local_addr().unwrap().to_string();
    let mut caller = Running::start(Command::new(GLASSLINE).args(["lab", "path", &address, "--key", &key]));
    let mut buffer = [0; 2048];
    let length = tap.recv(&mut buffer).unwrap();
    caller.signal("INT");
    caller.wait();
    let to = format!("127.0.0.1:{}", listening.port);
    let mut received = 0;
    for _ in 0..50 {
        tap.send_to(&buffer[..length], &to).unwrap();
        let (answer, from) =
            tap.recv_from(&mut [0; 2048]).map(|(bytes, from)| (bytes, from.to_string())).unwrap();
        if from == to {
            received += answer;
        }
    }
    assert!(received > 0 && received <= 50 * length, "{received} of {}", 50 * length);
    assert!(!listening.running.output().contains("measuring"), "{}", listening.running.output());
}

#[test]
fn what_cannot_be_used_is_told() {
    let scratch = Scratch::new("path-usage");
    let pair = scratch.file("pair.key");
    glassline(&["key", "new", "--pair", &pair]);
    for (arguments, words) in [
        (vec!["127.0.0.1", "--key", &pair], "one half of a key pair"),
        (vec!["127.0.0.1", "--key", "/no/such.key"], "cannot read the key"),
        (vec!["127.0.0.1"], "--key"),
        (vec!["--key", &pair], "HOST"),
        (vec!["127.0.0.1", "--key", &pair, "--max-rate", "10k"], "must be from 500k"),
        (vec!["127.0.0.1", "--key", &pair, "--duration", "1s"], "must be from 5s"),
        (vec!["127.0.0.1", "--listen", "--key", &pair], "cannot be used with"),
    ] {
        let outcome = glassline(&[&["lab", "path"], &arguments[..]].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{arguments:?}: {}", outcome.stderr);
    }
}
