//! `lab load`: what it says of a server that is right, and of servers that are not.

use crate::{GLASSLINE, glassline, serve, serve_with};
use glassline_test_support::http::publish;
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Outcome, Running, Scratch};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

fn load(url: &str, arguments: &[&str]) -> (Outcome, Value) {
    let outcome = glassline(&[&["lab", "load", "http", url, "--json"], arguments].concat());
    let report = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", outcome.text(), outcome.stderr));
    (outcome, report)
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {report:#}"))
}

#[test]
fn fifty_viewers_of_the_demo_get_every_byte_right() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let (outcome, report) =
        load(&server.url("/live/demo.ts"), &["--viewers", "50", "--check", "all", "--duration", "2s"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(report["schema"], 1);
    for (path, expected) in [
        ("/viewers/connected", 50.0),
        ("/viewers/receiving", 50.0),
        ("/viewers/refused", 0.0),
        ("/viewers/dropped", 0.0),
        ("/check/viewers", 50.0),
        ("/check/errors", 0.0),
        ("/join/connect_ms/count", 50.0),
        ("/join/first_byte_ms/count", 50.0),
        ("/join/key_frame_ms/count", 50.0),
        ("/rate_bps/count", 50.0),
    ] {
        assert_eq!(number(&report, path), expected, "{path} in {report:#}");
    }
    assert!(
        number(&report, "/check/packets") > 1000.0 && number(&report, "/throughput_bps") > 1e6,
        "{report:#}"
    );
    assert_eq!(report["delay_ms"], Value::Null, "the demo carries no stamps of the lab's");
}

#[test]
fn source_viewers_and_probe_speak_https_to_whom_is_trusted() {
    let (identity, folder) = (Identity::new(&["127.0.0.1"]), Scratch::new("load-https"));
    identity.write(&folder, "one");
    let secure = crate::tls::serve_identity("", identity, folder);
    let url = format!("https://{}/live/load.ts", secure.address);
    let ca = secure.folder.file("one.pem");
    let source = ["lab", "load", "source", &url, "--rate", "2M", "--ca", &ca];
    let mut source = Running::start(Command::new(GLASSLINE).args(source));
    until("the source", || secure.server.count("load", "bytes_in") > 0);
    let (outcome, report) =
        load(&url, &["--viewers", "20", "--check", "all", "--duration", "1s", "--ca", &ca]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    for (path, expected) in [("/viewers/receiving", 20.0), ("/check/viewers", 20.0), ("/check/errors", 0.0)] {
        assert_eq!(number(&report, path), expected, "{path} in {report:#}");
    }
    assert!(number(&report, "/delay_ms/first_packet/count") > 100.0, "{report:#}");
    let probed = glassline(&["probe", &url, "--ca", &ca, "--duration", "1s", "--json"]);
    assert_eq!(probed.status, Some(0), "{}", probed.stderr);
    // Whom the system trusts has not signed it.
    let (outcome, report) = load(&url, &["--viewers", "3", "--duration", "1s"]);
    assert_eq!((outcome.status, number(&report, "/viewers/refused")), (Some(1), 3.0), "{report:#}");
    let probed = glassline(&["probe", &url, "--duration", "1s"]);
    assert!(probed.status == Some(1) && probed.stderr.contains("--ca"), "{}", probed.stderr);
    source.signal("TERM");
    source.wait();
}

#[test]
fn the_lab_s_own_stream_tells_the_delay_of_its_frames() {
    let server = serve(&[]);
    let url = server.url("/live/load.ts");
    let mut source =
        Running::start(Command::new(GLASSLINE).args(["lab", "load", "source", &url, "--rate", "2M"]));
    until("the source", || server.count("load", "bytes_in") > 0);
    let (outcome, report) = load(
        &url,
        &["--viewers", "40", "--check", "all", "--duration", "2s", "--processes", "2", "--ramp", "200ms"],
    );
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(number(&report, "/check/stamped"), 40.0, "{report:#}");
    assert_eq!((number(&report, "/check/errors"), number(&report, "/viewers/receiving")), (0.0, 40.0));
    let (first, last) =
        (number(&report, "/delay_ms/first_packet/p50"), number(&report, "/delay_ms/last_packet/p50"));
    assert!(first > 0.0 && last >= first, "{first} {last}");
    assert!(number(&report, "/delay_ms/last_packet/count") > 100.0, "{report:#}");
    source.signal("INT");
    assert_eq!(source.wait().code(), Some(0), "{}", source.output());
    until("its summary", || source.output().contains("Mbit/s"));
}

#[test]
fn slow_viewers_are_moved_forward_and_that_is_no_error() {
    let (server, _scratch) = serve_with("[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\n");
    let url = server.url("/live/load.ts");
    let _source =
        Running::start(Command::new(GLASSLINE).args(["lab", "load", "source", &url, "--rate", "10M"]));
    until("the source", || server.count("load", "bytes_in") > 0);
    let (outcome, report) = load(&url, &["--viewers", "4", "--slow", "2@1M", "--duration", "5s"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!((number(&report, "/rate_bps/count"), number(&report, "/limited_rate_bps/count")), (2.0, 2.0));
    assert!(
        number(&report, "/check/announced") > 0.0 && number(&report, "/check/skipped") > 0.0,
        "{report:#}"
    );
    assert_eq!(number(&report, "/check/errors"), 0.0);
}

#[test]
fn too_many_for_the_server_are_moved_to_key_frames_and_each_move_is_counted() {
    let (server, _scratch) =
        serve_with("workers = 1\n[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\npacing = 'off'\n");
    let url = server.url("/live/load.ts");
    let mut source =
        Running::start(Command::new(GLASSLINE).args(["lab", "load", "source", &url, "--rate", "10M"]));
    until("the source", || server.count("load", "bytes_in") > 0);
    // Nobody can have more than a third, and now and then the server itself has no time at all.
    let url = &url;
    let (outcome, report, counted) = std::thread::scope(|scope| {
        let viewers = scope.spawn(move || {
            load(url, &["--viewers", "30", "--check", "all", "--rate-limit", "3300k", "--duration", "6s"])
        });
        while !viewers.is_finished() {
            server.process.signal("STOP");
            std::thread::sleep(Duration::from_millis(150));
            server.process.signal("CONT");
            std::thread::sleep(Duration::from_millis(100));
        }
        let counted = server.metrics().sum("glassline_stream_moved_forward_total", "\"load\"");
        let (outcome, report) = viewers.join().unwrap();
        (outcome, report, counted)
    });
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    for path in ["/check/errors", "/check/misplaced", "/viewers/refused", "/viewers/dropped"] {
        assert_eq!(number(&report, path), 0.0, "{path} in {report:#}");
    }
    let (announced, skipped) = (number(&report, "/check/announced"), number(&report, "/check/skipped"));
    assert!(announced >= 30.0 && skipped > announced, "{report:#}");
    assert!(counted >= announced, "{announced} moves were seen, /metrics counts {counted}");
    // The publisher is still there, and says how long it had to wait.
    assert_eq!(server.count("load", "publishers"), 1);
    source.signal("INT");
    assert_eq!(source.wait().code(), Some(0), "{}", source.output());
    until("what it waited", || source.output().contains("until the server took it"));
}

#[test]
fn an_interrupted_load_reports_what_it_has() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let url = server.url("/live/demo.ts");
    for processes in ["1", "2"] {
        let arguments =
            ["lab", "load", "http", &url, "--viewers", "6", "--duration", "1h", "--processes", processes];
        let mut load = Running::start(Command::new(GLASSLINE).args(arguments));
        until("six viewers", || server.count("demo", "viewers") == 6);
        load.signal("INT");
        assert_eq!(load.wait().code(), Some(0), "{}", load.output());
        until("the report", || load.output().contains("6 of 6 at the end"));
        until("no viewer", || server.count("demo", "viewers") == 0);
    }
}

/// A server that sends a stream with some damage to everyone, as made from a good one, in chunks; ends with the
/// program.
fn broken_server(damage: impl Fn(&mut Vec<u8>) + Send + 'static) -> SocketAddr {
    const SHAPE: Shape = Shape { packets: 40, group: 10 };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut body: Vec<u8> = (0..30).flat_map(|number| SHAPE.picture(number)).collect();
            damage(&mut body);
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    address
}

#[test]
fn what_a_broken_server_does_to_the_stream_is_found() {
    const PACKET: usize = 188;
    type Damage = fn(&mut Vec<u8>);
    let cases: [(&str, Damage, Option<&str>); 5] = [
        ("nothing", |_| {}, None),
        ("a wrong byte", |body| body[PACKET * 500] = 0, Some("/check/wrong")),
        ("a torn packet", |body| drop(body.drain(PACKET * 500 + 50..PACKET * 501)), Some("/check/wrong")),
        ("a missing packet", |body| drop(body.drain(PACKET * 500..PACKET * 501)), Some("/check/missing")),
        (
            "a repeated packet",
            |body| {
                let again: Vec<u8> = body[PACKET * 500..PACKET * 501].to_vec();
                drop(body.splice(PACKET * 501..PACKET * 501, again));
            },
            Some("/check/repeated"),
        ),
    ];
    for (what, damage, found) in cases {
        let url = format!("http://{}/x.ts", broken_server(damage));
        let (outcome, report) = load(&url, &["--viewers", "3", "--duration", "1s"]);
        assert_eq!(number(&report, "/viewers/finished"), 3.0, "{what}: {report:#}");
        match found {
            None => {
                assert_eq!((outcome.status, number(&report, "/check/errors")), (Some(0), 0.0), "{report:#}");
            }
            Some(path) => {
                assert_eq!(outcome.status, Some(1), "{what}: {}", outcome.stderr);
                assert!(number(&report, path) >= 3.0, "{what}: {report:#}");
                assert!(outcome.stderr.contains("wrong, missing or repeated"), "{}", outcome.stderr);
            }
        }
    }
}

#[test]
fn any_body_can_be_loaded_and_only_streams_are_checked() {
    let server = serve(&[]);
    let (outcome, report) = load(&server.url("/"), &["--viewers", "3", "--duration", "1s"]);
    assert_eq!((outcome.status, number(&report, "/viewers/finished")), (Some(0), 3.0), "{report:#}");
    assert_eq!(report["check"], Value::Null);
    assert!(report["notes"].to_string().contains("no MPEG transport stream"), "{report:#}");
}

#[test]
fn where_nobody_gets_anything_the_reason_is_said() {
    let server = serve(&[]);
    let (outcome, report) = load(&server.url("/live/none.ts"), &["--viewers", "3", "--duration", "1s"]);
    assert_eq!((outcome.status, number(&report, "/viewers/refused")), (Some(1), 3.0), "{report:#}");
    assert!(outcome.stderr.contains("404"), "{}", outcome.stderr);
    for (arguments, complaint) in [
        (&["ftp://localhost/"][..], "begins with http:// or https://"),
        (&["http://localhost/", "--viewers", "9999999"], "--processes"),
        (&["http://localhost/", "--ramp", "fast"], "500/s"),
    ] {
        let outcome = glassline(&[&["lab", "load", "http"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{}", outcome.stderr);
    }
    let slow = glassline(&["lab", "load", "source", "http://127.0.0.1:9/live/x.ts", "--rate", "10k"]);
    assert_eq!(slow.status, Some(2), "{}", slow.stderr);
}

#[test]
fn a_source_that_may_not_publish_says_why() {
    let server = serve(&[]);
    let _publisher = publish(server.address(), "/live/taken.ts");
    until("the publisher", || server.stream("taken").is_some());
    let outcome = glassline(&["lab", "load", "source", &server.url("/live/taken.ts"), "--duration", "20s"]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("409"), "{}", outcome.stderr);
}
