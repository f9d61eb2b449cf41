//! `probe --budget`: where the milliseconds of a stream went, by what its encoder says in it.

use crate::commands::assert_fails;
use crate::{GLASSLINE, glassline, serve};
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::synthetic;
use glassline_test_support::xml;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;

const SOURCE: [&str; 2] = ["encode", "test:320x180@50"];
const CODING: [&str; 8] = ["--preset", "ultrafast", "--bitrate", "1M", "--slices", "4", "--audio", "none"];
/// The sender's stages behind capture.
const SENDER: [&str; 7] = ["arrived", "queued", "encoder_in", "first_slice", "encoded", "muxed", "sent"];
/// Those of the server.
const RELAY: [&str; 3] = ["relay_received", "relay_flushed", "relay_sent"];

fn probe(url: &str) -> Value {
    let outcome = glassline(&["probe", url, "--budget", "--json", "--duration", "4s"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.text()).unwrap()
}

/// Checks what holds on any machine, however slow. Between the sender's stages and the one here are those of `relay`.
fn check(budget: &Value, clock: &str, relay: &[&str]) {
    let stages = [&SENDER, relay, &["received"]].concat();
    assert_eq!(budget["clock"], clock, "{budget}");
    let (pictures, staged) = (budget["pictures"].as_u64().unwrap(), budget["with_stages"].as_u64().unwrap());
    assert!(staged > 0 && staged <= pictures, "{budget}");
    let steps = budget["steps"].as_array().unwrap();
    let mut from = "captured";
    for (step, stage) in steps.iter().zip(&stages) {
        assert_eq!((&step["from"], &step["to"]), (&from.into(), &Value::from(*stage)), "{budget}");
        let [min, max] = ["min", "max"].map(|figure| step["ms"][figure].as_f64().unwrap());
        assert!(min >= 0.0 && max <= 60_000.0, "{budget}");
        from = stage;
    }
    assert_eq!(steps.len(), stages.len(), "{budget}");
    let with_relay = budget["with_relay"].as_u64().unwrap();
    assert!(with_relay <= staged && (with_relay > 0) != relay.is_empty(), "{budget}");
    // One machine: the future is only where the sender lost the processor between its call and its look at the clock.
    let from_the_future = budget["from_the_future"].as_u64().unwrap();
    assert!(from_the_future * 10 <= pictures, "{budget}");
    if from_the_future > 0 {
        return;
    }
    // The means of all parts are that of the whole.
    let sum: f64 = steps.iter().map(|step| step["ms"]["mean"].as_f64().unwrap()).sum();
    let total = budget["total_ms"]["mean"].as_f64().unwrap();
    assert!((sum - total).abs() < 0.01, "{sum} {total}: {budget}");
}

#[test]
fn the_budget_of_a_relayed_stream_is_told_and_drawn() {
    let server = serve(&[]);
    let url = server.url("/live/budget.ts");
    let _encoder = Running::start(Command::new(GLASSLINE).args(SOURCE).arg(&url).args(CODING));
    server.wait_for_pictures("budget");
    let report = probe(&url);
    check(&report["budget"], "server", &RELAY);
    let scratch = Scratch::new("budget");
    let picture = scratch.file("budget.svg");
    let outcome = glassline(&["probe", &url, "--duration", "4s", "--budget", &picture]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    for text in [
        "Latency budget, ms",
        "last slice out",
        "flushed by the relay",
        "captured to received",
        "the server's clock",
    ] {
        assert!(outcome.text().contains(text), "{text} is not in {}", outcome.text());
    }
    let svg = xml::texts(&std::fs::read_to_string(&picture).unwrap()).unwrap().join("\n");
    assert!(svg.contains("queued to first packet") && svg.contains("received"), "{svg}");
}

#[test]
fn the_budget_of_datagrams_is_told() {
    let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("udp://{to}");
    let _encoder = Running::start(Command::new(GLASSLINE).args(SOURCE).arg(&url).args(CODING));
    let report = probe(&url);
    check(&report["budget"], "local", &[]);
}

#[test]
fn what_has_no_time_of_arrival_has_no_budget() {
    let scratch = Scratch::new("budget");
    let file = scratch.write("a.ts", synthetic::constant_rate().as_flattened());
    assert_fails(&glassline(&["probe", &file, "--budget"]), 2, &["not live"]);
    let refused = |more: &[&str], status, words: &str| {
        let arguments = [&["probe", "udp://127.0.0.1:5000", "--budget"], more].concat();
        assert_fails(&glassline(&arguments), status, &[words]);
    };
    refused(&["x.png"], 2, "must end in .svg");
    refused(&["--glass"], 2, "cannot be used with");
    refused(&["/no/such/a.svg"], 1, "there is no folder");
}
