//! `probe --flight`: of a capture, and of a live stream.

use crate::commands::assert_fails;
use crate::{glassline, serve};
use glassline_test_support::capture::{Capture, Format, ethernet, tcp};
use glassline_test_support::program::Scratch;
use glassline_test_support::xml;
use serde_json::Value;
use std::net::SocketAddr;

const START_NANOS: u64 = 1_700_000_000_000_000_000;
const RELAY: &str = "192.0.2.1:8080";
const VIEWER: &str = "192.0.2.2:5000";
const OTHER: &str = "192.0.2.3:6000";

/// Two seconds of 50 pictures each, 20 packets a picture, `spacing_nanos` apart; beside it a smaller stream to another
/// viewer, and acknowledgements.
fn capture(format: Format, spacing_nanos: u64) -> Vec<u8> {
    let [relay, viewer, other]: [SocketAddr; 3] = [RELAY, VIEWER, OTHER].map(|text| text.parse().unwrap());
    let mut packets = Vec::new();
    for picture in 0..100 {
        let at = START_NANOS + picture * 20_000_000;
        packets.extend((0..20).map(|n| (at + n * spacing_nanos, ethernet(&tcp(relay, viewer, 1448)))));
        packets.push((at + 5_000_000, ethernet(&tcp(relay, other, 1000))));
        packets.push((at + 6_000_000, ethernet(&tcp(viewer, relay, 0))));
    }
    packets.sort_by_key(|(at, _)| *at);
    let mut capture = Capture::new(format, false, 1);
    for (at, packet) in &packets {
        capture.packet(*at, packet.len(), &packet[..66]);
    }
    capture.bytes().to_vec()
}

fn json(arguments: &[&str]) -> Value {
    let outcome = glassline(arguments);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.text()).unwrap_or_else(|error| panic!("{error}: {}", outcome.text()))
}

fn picture(path: &str) -> String {
    let svg = std::fs::read_to_string(path).unwrap();
    xml::texts(&svg).unwrap_or_else(|error| panic!("{path}: {error}")).join("\n")
}

#[test]
fn the_flight_of_a_capture() {
    let scratch = Scratch::new("flight");
    // Known by its bytes, not by its name.
    let file = scratch.write("capture.bin", capture(Format::Micros, 12_000));
    let out = scratch.file("out.svg");
    let report = json(&["probe", &file, "--json", "--flight", &out]);
    assert_eq!((report["kind"].as_str(), report["packets"].as_u64()), (Some("capture"), Some(2200)));
    assert_eq!((report["flow_count"].as_u64(), report["flow"]["to"].as_str()), (Some(2), Some(VIEWER)));
    let flight = &report["flight"];
    assert_eq!((flight["basis"].as_str(), flight["bytes"].as_u64()), (Some("packets"), Some(2000 * 1448)));
    assert_eq!(flight["burst_bytes"]["count"], 100);
    assert_eq!(flight["largest_burst"]["packets"], 20);
    let in_bins: u64 =
        flight["burst_histogram"].as_array().unwrap().iter().filter_map(|bin| bin["bytes"].as_u64()).sum();
    assert_eq!(in_bins, 2000 * 1448);
    let words = picture(&out);
    for word in ["Packet flight", VIEWER, "Bursts of up to 29 kB (20 packets)", "How large the bursts are"] {
        assert!(words.contains(word), "{word:?} is not in {words}");
    }
    // The table says the same.
    let table = glassline(&["probe", &file, "--flight"]);
    assert_eq!(table.status, Some(0), "{}", table.stderr);
    for word in
        ["192.0.2.1:8080 → 192.0.2.2:5000", "Bursts of up to 29 kB", "rate in each 10 ms", "No warnings"]
    {
        assert!(table.text().contains(word), "{word:?} is not in {}", table.text());
    }
}

#[test]
fn pacing_shows_on_the_same_axes() {
    let scratch = Scratch::new("pacing");
    let [bursty, paced] = [("bursty", 12_000), ("paced", 1_000_000)].map(|(name, spacing)| {
        let file = scratch.write(&format!("{name}.pcapng"), capture(Format::Ng(9), spacing));
        let out = scratch.file(&format!("{name}.svg"));
        let report = json(&["probe", &file, "--json", "--flight", &out, "--flight-scale", "500M"]);
        let words = picture(&out);
        assert!(words.contains("500 Mb/s") && !words.contains("cut off"), "{words}");
        report["flight"].clone()
    });
    let peak = |flight: &Value| flight["windows"][0]["rate_bps"]["max"].as_f64().unwrap();
    assert_eq!((peak(&bursty), peak(&paced)), (20.0 * 1448.0 * 8e3, 1448.0 * 8e3));
    assert_eq!(
        (&bursty["bytes"], &bursty["lines"][0]["line_bps"]),
        (&paced["bytes"], &paced["lines"][0]["line_bps"])
    );
    assert!(
        bursty["lines"][0]["queue_bytes"].as_u64() > Some(20_000) && paced["lines"][0]["queue_bytes"] == 1448
    );
    let edges = |flight: &Value| -> Vec<Value> {
        flight["burst_histogram"].as_array().unwrap().iter().map(|bin| bin["from_bytes"].clone()).collect()
    };
    assert_eq!(edges(&bursty), edges(&paced));
}

#[test]
fn another_flow_can_be_chosen() {
    let scratch = Scratch::new("flow");
    let file = scratch.write("a.pcap", capture(Format::Nanos, 12_000));
    for choice in ["6000", "to:6000"] {
        let report = json(&["probe", &file, "--json", "--flight", "--flow", choice]);
        assert_eq!(
            (report["flow"]["to"].as_str(), report["flight"]["bytes"].as_u64()),
            (Some(OTHER), Some(100_000))
        );
    }
    let skipped = json(&["probe", &file, "--json", "--flight", "--flow", "from:8080", "--flight-skip", "1s"]);
    assert_eq!(skipped["flight"]["bytes"].as_u64(), Some(1000 * 1448));
    assert_fails(&glassline(&["probe", &file, "--flight", "--flow", "to:8080"]), 1, &["8080", RELAY, VIEWER]);
    assert_fails(&glassline(&["probe", &file, "--flight", "--flow", "at:80"]), 2, &["from:PORT"]);
}

#[test]
fn what_has_no_flight_says_why() {
    let scratch = Scratch::new("noflight");
    let file = scratch.write("a.pcap", capture(Format::Micros, 12_000));
    assert_fails(&glassline(&["probe", &file]), 2, &["packet capture", "--flight"]);
    assert_fails(&glassline(&["probe", "--flight", &file]), 2, &[".svg"]);
    assert_fails(
        &glassline(&["probe", &file, "--flight", "/no/such/folder/out.svg"]),
        1,
        &["/no/such/folder"],
    );
    assert_fails(&glassline(&["probe", &file, "--flow", "80"]), 2, &["--flight"]);
    let stream = scratch.write("a.ts", [0x47; 188]);
    assert_fails(&glassline(&["probe", &stream, "--flight"]), 2, &["arrival times", "tcpdump"]);
    assert_fails(
        &glassline(&["probe", "http://127.0.0.1:9/a.ts", "--flight", "--flow", "80"]),
        2,
        &["--flow"],
    );
    let cut = scratch.write("cut.pcap", &capture(Format::Micros, 12_000)[..20]);
    assert_fails(&glassline(&["probe", &cut, "--flight"]), 1, &["cut.pcap", "no packet"]);
    let mut bytes = capture(Format::Micros, 12_000);
    bytes[5] = 9;
    let damaged = scratch.write("damaged.pcap", &bytes);
    assert_fails(&glassline(&["probe", &damaged, "--flight"]), 1, &["damaged.pcap", "version"]);
    // Damage further on leaves what stands before it.
    let mut bytes = capture(Format::Micros, 12_000);
    let middle = 24 + 1000 * (16 + 66);
    bytes[middle + 8..middle + 12].fill(0xff);
    let damaged = scratch.write("half.pcap", &bytes);
    let report = json(&["probe", &damaged, "--flight", "--json"]);
    assert_eq!(report["packets"], 1000);
    assert!(
        report["warnings"][0].as_str().unwrap().contains(&format!("byte {middle}")),
        "{}",
        report["warnings"]
    );
}

#[test]
fn the_flight_of_a_live_stream() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let scratch = Scratch::new("liveflight");
    let out = scratch.file("out.svg");
    let url = server.url("/live/demo.ts");
    let report = json(&["probe", &url, "--duration", "2s", "--json", "--flight", &out]);
    assert!(report["streams"].as_array().is_some_and(|streams| streams.len() == 2), "{report}");
    let flight = &report["flight"];
    assert_eq!(flight["basis"], "reads");
    let (counted, left_out) =
        (flight["bytes"].as_u64().unwrap(), flight["start_left_out"]["bytes"].as_u64().unwrap());
    assert!(counted > 0 && left_out > 0, "{flight}");
    assert_eq!(report["bytes"].as_u64(), Some(counted + left_out));
    let words = picture(&out);
    for word in ["reads by a TCP receiver", &url, "left out"] {
        assert!(words.contains(word), "{word:?} is not in {words}");
    }
    // Without being asked, nothing of it.
    assert!(json(&["probe", &url, "--duration", "300ms", "--json"])["flight"].is_null());
}
