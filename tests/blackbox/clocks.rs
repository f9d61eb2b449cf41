//! Machines whose wall clocks do not agree, or are set while they run: what is told of a stream's way between them.

use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Running, Server};
use glassline_test_support::skip;
use glassline_test_support::wait::at_once;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;

const SOURCE: [&str; 2] = ["encode", "test:320x180@50"];
const CODING: [&str; 8] = ["--preset", "ultrafast", "--bitrate", "1M", "--slices", "4", "--audio", "none"];
const CLOCK: &str = "GLASSLINE_TEST_WALL_CLOCK";

/// Whether clocks can be set wrong here; counts the test as skipped where not.
fn can(test: &str) -> bool {
    if cfg!(not(debug_assertions)) {
        skip(test, "built without debug assertions: no clock can be set wrong");
    }
    cfg!(debug_assertions)
}

/// The address of a datagram socket that nothing has.
fn free_url() -> String {
    format!("udp://{}", UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

fn encoder(url: &str, clock: &str) -> Running {
    Running::start(Command::new(GLASSLINE).args(SOURCE).arg(url).args(CODING).env(CLOCK, clock))
}

fn budget(url: &str, duration: &str) -> Value {
    let outcome = glassline(&["probe", url, "--budget", "--json", "--duration", duration]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.text()).unwrap();
    report["budget"].clone()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {value}"))
}

/// How long a part of the way took, by its end.
fn step<'a>(budget: &'a Value, to: &str) -> &'a Value {
    let steps = budget["steps"].as_array().unwrap();
    &steps.iter().find(|step| step["to"] == to).unwrap_or_else(|| panic!("no {to}: {budget}"))["ms"]
}

/// No part of the way is told as less than nothing, or longer than a picture's way can be.
fn check_sense(budget: &Value) {
    let steps = budget["steps"].as_array().unwrap();
    let all = steps.iter().map(|step| &step["ms"]).chain([&budget["total_ms"]]).filter(|all| !all.is_null());
    for all in all {
        assert!(number(all, "/min") >= 0.0 && number(all, "/max") <= 60_000.0, "{budget}");
    }
}

#[test]
fn a_servers_clock_that_is_ahead_is_found_and_taken_into_account() {
    if !can("a_servers_clock_that_is_ahead_is_found_and_taken_into_account") {
        return;
    }
    // Encoder and server are one machine, whose clock is 30 ms ahead of that of the receiver.
    let mut command = Command::new(GLASSLINE);
    command.env(CLOCK, "30ms");
    let server = Server::start_by(command, "127.0.0.1:0", &[]);
    let url = server.url("/live/ahead.ts");
    let _encoder = encoder(&url, "30ms");
    server.wait_for_pictures("ahead");
    let budget = budget(&url, "4s");
    assert_eq!(budget["clock"], "server", "{budget}");
    check_sense(&budget);
    // By so much the estimate of the server's clock is wrong, at most: the quickest picture takes next to nothing over loopback,
    // and none is here before it was sent.
    let quickest = number(step(&budget, "received"), "/min");
    assert!(quickest <= 2.0, "{budget}");
    let (future, pictures) = (number(&budget, "/from_the_future"), number(&budget, "/pictures"));
    assert!(future * 4.0 <= pictures, "{budget}");
    eprintln!("30 ms ahead: the quickest picture {quickest:.3} ms, from the future {future} of {pictures}");
}

#[test]
fn a_stream_from_the_future_is_told_as_such() {
    if !can("a_stream_from_the_future_is_told_as_such") {
        return;
    }
    let budgets = || {
        // So far ahead that no busy machine makes up for it, and as the issue has it.
        for (clock, least) in [("30ms", 1.0), ("5s", 3_000.0)] {
            let url = free_url();
            let _encoder = encoder(&url, clock);
            let budget = budget(&url, "3s");
            check_sense(&budget);
            let (future, most) = (number(&budget, "/from_the_future"), number(&budget, "/future_ms_max"));
            let ahead = if clock == "5s" { 5_000.0 } else { 30.0 };
            assert!(future * 2.0 >= number(&budget, "/pictures"), "{clock}: {budget}");
            // As much as the clock is ahead, but for what the way took; a sender says late that it has sent where it has to wait.
            assert!(most > least && most < ahead + 2_000.0, "{clock}: {budget}");
            let notes = budget["notes"].to_string();
            assert!(notes.contains("come from the future") && notes.contains("disagree"), "{notes}");
            // What the sender says of itself is right all the same.
            assert!(number(step(&budget, "encoded"), "/p50") < ahead.max(500.0), "{budget}");
        }
    };
    let for_people = || {
        let url = free_url();
        let _encoder = encoder(&url, "5s");
        let outcome = glassline(&["probe", &url, "--budget", "--duration", "3s"]);
        let words = outcome.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("come from the future"), "{words} {}", outcome.stderr);
    };
    at_once(budgets, for_people);
}

#[test]
fn a_clock_that_is_set_while_it_runs_moves_no_stage_of_its_own_machine() {
    if !can("a_clock_that_is_set_while_it_runs_moves_no_stage_of_its_own_machine") {
        return;
    }
    let expect = |clock: &str, is_ahead: bool| {
        let url = free_url();
        let mut encoder = encoder(&url, clock);
        let budget = budget(&url, "8s");
        assert!(encoder.ended().is_none(), "{}", encoder.output());
        check_sense(&budget);
        // Both sides of the step were seen.
        let quickest = number(step(&budget, "received"), "/min");
        assert!(quickest < 15_000.0, "{clock}: {budget}");
        if is_ahead {
            assert!(number(&budget, "/from_the_future") >= 20.0, "{clock}: {budget}");
            assert!(number(&budget, "/future_ms_max") > 15_000.0, "{clock}: {budget}");
        } else {
            let slowest = number(step(&budget, "received"), "/max");
            assert!(slowest > 19_000.0, "pictures are that much older now: {clock}: {budget}");
        }
        for stage in ["arrived", "queued", "encoder_in", "first_slice", "encoded", "muxed", "sent"] {
            assert!(number(step(&budget, stage), "/max") < 15_000.0, "{stage}: {clock}: {budget}");
        }
    };
    at_once(|| expect("0ms,20s@5s", true), || expect("0ms,-20s@5s", false));
}
