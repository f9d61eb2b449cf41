//! Servers of a cluster that are emptied for maintenance.

use crate::cluster::Feed;
use crate::cluster_nats::{Nats, cluster, cluster_in};
use crate::encode_cluster::{Continuity, Encoder, see_a_jump};
use crate::glassline;
use crate::hot::upgrade;
use crate::pull::{SHAPE, see, watch};
use glassline_test_support::http::{Answer, get, publish, read_head, read_once};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::Outcome;
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

fn drain(url: &str, more: &[&str]) -> Outcome {
    glassline(&[&["cluster", "drain", "--server", url], more].concat())
}

/// The head of the answer to a request for what may have no end.
fn ask(address: SocketAddr, target: &str) -> Answer {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    read_head(&mut connection)
}

/// Takes all that comes to the end of the response.
fn see_to_the_end(viewer: &mut TcpStream, check: &mut Check) {
    let mut buffer = [0; 4096];
    loop {
        let count = read_once(viewer, &mut buffer).expect("a clean end");
        if count == 0 {
            return;
        }
        check.push(&buffer[..count]).unwrap();
    }
}

#[test]
fn a_server_that_is_emptied_sends_what_comes_elsewhere_and_what_runs_at_a_key_frame() {
    let test = "a_server_that_is_emptied_sends_what_comes_elsewhere_and_what_runs_at_a_key_frame";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [far, mut one, two] = cluster_in(&nats, [("far", "far"), ("near", "one"), ("near", "two")]);
    let feed = Feed::start(&far.server, "/live/numbers.ts", 0);
    one.until_owner("numbers", "far");
    two.until_owner("numbers", "far");
    let mut first = watch(&one.server, "numbers");
    let mut first_check = Check::new(SHAPE);
    see(&mut first, &mut first_check, 100);
    two.until_carried("numbers", "one");
    let mut viewer = watch(&two.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 100);
    two.until_pulled("numbers", "one", 2);
    let url = one.server.url("");
    let outcome = drain(&url, &["--timeout", "0s", "--over", "1h"]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.text());
    assert!(outcome.stderr.contains("is not empty: ") && outcome.text().starts_with("left: "));
    // The server that pulls from it turns to another one, and its viewers go on, behind a jump only where bytes are missing.
    two.until_pulled("numbers", "far", 1);
    let seen = check.packets;
    see(&mut viewer, &mut check, seen + 500);
    assert!(check.moves <= 1, "{}", check.moves);
    let shown = glassline(&["cluster", "status", "--server", &two.server.url("")]).text();
    assert!(shown.lines().any(|line| line.starts_with("one ") && line.contains(" draining ")), "{shown}");
    let leads = |path: &str| format!("{}{path}", two.server.url(""));
    let is_led = |answer: Answer, path: &str| {
        answer.status == 307 && answer.header("location") == Some(leads(path).as_str())
    };
    // A server that is short of time for a moment judges no other, and serves what comes itself.
    let address = one.server.address();
    until("viewers to be led elsewhere", || is_led(ask(address, "/live/numbers.ts"), "/live/numbers.ts"));
    until("publishers to be led elsewhere", || {
        is_led(read_head(&mut publish(address, "/live/other.ts")), "/live/other.ts")
    });
    // An upgrade goes on with it, and ends no viewer by itself.
    let file = one.scratch.file("glassline.toml");
    upgrade(&mut one.server, &file);
    assert_eq!(one.report()["drain"]["draining"], true);
    let seen = first_check.packets;
    see(&mut first, &mut first_check, seen + 100);
    // Another time is counted from now on.
    drain(&url, &["--timeout", "0s", "--over", "0s"]);
    see_to_the_end(&mut first, &mut first_check);
    let next = first_check.last_packet().unwrap() + 1;
    assert_eq!((next % (SHAPE.packets * SHAPE.group), first_check.moves), (0, 0), "a whole group");
    let waits = drain(&url, &["--timeout", "60s"]);
    assert_eq!(waits.status, Some(0), "{} {}", waits.text(), waits.stderr);
    assert!(waits.text().ends_with("empty\n"), "{}", waits.text());
    let metrics = get(one.server.address(), "/metrics").text();
    assert!(metrics.contains("glassline_cluster_sent_on_total{what=\"running_viewer\"} 1\n"), "{metrics}");
    // Players would ask here first each time.
    let target = "/live/numbers/index.m3u8?x=1";
    until("players to be led elsewhere", || is_led(ask(address, target), target));
    let outcome = drain(&url, &["--timeout", "0s"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains(" 1 player,"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("DNS"), "{}", outcome.stderr);
    // They are known of at once, when a drain begins as well.
    assert_eq!(drain(&url, &["--undo"]).status, Some(0));
    let outcome = drain(&url, &["--timeout", "0s"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains(" 1 player,"), "{}", outcome.stderr);
    assert_eq!(drain(&url, &["--undo"]).status, Some(0));
    see(&mut watch(&one.server, "numbers"), &mut Check::new(SHAPE), 50);
    assert!(!feed.is_over());
    // A server alone has no other to send anything to.
    let alone = crate::serve(&[]);
    let outcome = drain(&alone.url(""), &[]);
    let is_told = outcome.status == Some(1) && outcome.stderr.contains("the server is alone");
    assert!(is_told, "{}", outcome.stderr);
}

#[test]
fn an_encoder_whose_server_is_emptied_goes_on_at_another_one_and_viewers_follow() {
    let test = "an_encoder_whose_server_is_emptied_goes_on_at_another_one_and_viewers_follow";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [a, b] = cluster(&nats, ["a", "b"]);
    // One address is all that it knows.
    let encoder = Encoder::start(&[a.server.address()], &[]);
    encoder.until_at(a.server.address());
    b.until_owner("e", "a");
    let mut viewers = Vec::new();
    for node in [&a, &b] {
        let (mut viewer, mut seen) = (watch(&node.server, "e"), Continuity::default());
        while seen.packets < 50 {
            seen.see(&mut viewer);
        }
        viewers.push((viewer, seen));
    }
    drain(&a.server.url(""), &["--timeout", "0s", "--over", "1h"]);
    a.until_owner("e", "b");
    see_a_jump(&mut viewers);
    until("the gap to be told", || encoder.output()["resumed"] == 1);
    let output = encoder.output();
    let there = format!("http://{}/live/e.ts", b.server.address());
    assert!(output["server"].as_str().is_some_and(|server| server.starts_with(&there)), "{output}");
    assert!(output["missing_s"].as_f64() < Some(2.0), "{output}");
    until("the publisher to be gone", || a.report()["drain"]["publishers"] == 0);
    let told = encoder.end();
    assert!(told.contains("the server has led to http://"), "{told}");
}
