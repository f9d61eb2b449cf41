//! A panic ends what it came up in, and nothing else: it is asked for in each kind of place, under load.

use crate::{GLASSLINE, glassline};
use glassline_test_support::http::{ask, connect, get, publish, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// What programs with debug assertions read; see `io::containment`.
const VARIABLE: &str = "GLASSLINE_TEST_PANIC";
const SHAPE: Shape = Shape { packets: 5, group: 5 };

/// A server with a configuration that panics where `panics` says.
fn serve_with_panics(panics: &str, config: &str) -> (Server, Scratch) {
    let scratch = Scratch::new("panics");
    let file = scratch.write("glassline.toml", config);
    let mut command = Command::new(GLASSLINE);
    command.env(VARIABLE, panics);
    (Server::start_by(command, "127.0.0.1:0", &["--config", &file]), scratch)
}

fn panics(server: &Server, border: &str) -> f64 {
    server.metrics().sum("glassline_panics_total", &format!("where=\"{border}\""))
}

fn ask_for(server: &Server, path: &str) -> TcpStream {
    let mut stream = connect(server.address());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream
}

/// Whether the connection ends, with or without a word.
fn ends(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

/// Viewers of the lab, each of which checks every byte, while `attack` goes on; then how they got on.
fn viewers_beside(server: &Server, viewers: &str, attack: impl FnOnce()) -> Value {
    let url = server.url("/live/load.ts");
    let source = ["lab", "load", "source", &url, "--rate", "1M"];
    let mut source = Running::start(Command::new(GLASSLINE).args(source));
    until("the source", || server.count("load", "bytes_in") > 0);
    let arguments = ["lab", "load", "http", &url, "--json", "--viewers", viewers, "--check", "all"];
    let report = thread::scope(|scope| {
        let load = scope.spawn(|| glassline(&[&arguments[..], &["--duration", "8s"]].concat()));
        until("the viewers", || server.count("load", "viewers").to_string() == viewers);
        attack();
        assert_eq!(server.count("load", "viewers").to_string(), viewers, "they are all there after it");
        let outcome = load.join().expect("the load ends");
        assert_eq!(outcome.status, Some(0), "{} {}", outcome.text(), outcome.stderr);
        serde_json::from_slice::<Value>(&outcome.stdout).expect("a report")
    });
    source.signal("TERM");
    source.wait();
    report
}

fn nobody_lost_anything(report: &Value, viewers: f64) {
    for (path, expected) in [
        ("/viewers/receiving", viewers),
        ("/viewers/dropped", 0.0),
        ("/viewers/refused", 0.0),
        ("/check/viewers", viewers),
        ("/check/errors", 0.0),
    ] {
        let found = report.pointer(path).and_then(Value::as_f64);
        assert_eq!(found, Some(expected), "{path} in {report:#}");
    }
}

#[test]
fn the_release_program_unwinds() {
    // What Cargo would do for the release program, whatever profile and environment say.
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let graph = Command::new(env!("CARGO"))
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["build", "--release", "--locked", "--offline", "--manifest-path", manifest])
        .args(["--unit-graph", "-Zunstable-options"])
        .output()
        .unwrap();
    assert!(graph.status.success(), "{}", String::from_utf8_lossy(&graph.stderr));
    let graph: Value = serde_json::from_slice(&graph.stdout).unwrap();
    let units = graph["units"].as_array().unwrap().iter();
    let ours: Vec<_> = units.filter(|unit| unit["pkg_id"].as_str().unwrap().contains("/crates/")).collect();
    assert!(ours.len() >= 7, "{} rooms", ours.len());
    for unit in ours {
        assert_eq!(unit["profile"]["panic"], "unwind", "{}", unit["pkg_id"]);
    }
}

#[test]
fn a_thousand_panics_of_connections_and_some_of_workers_cost_other_viewers_nothing() {
    let asked = "connection=/panics,connection=append:broken,connection=serve:poison,worker=/falls";
    let (server, _scratch) = serve_with_panics(asked, "workers = 2\n");
    for border in ["connection", "link", "exchange", "encoder", "output", "worker"] {
        assert_eq!(panics(&server, border), 0.0, "{border} is there from the start");
    }
    let report = viewers_beside(&server, "500", || {
        for _ in 0..1000 {
            ends(ask_for(&server, "/panics"));
        }
        // In the middle of a write into a stream: the stream ends, and its name is to be had again.
        let mut publisher = publish(server.address(), "/live/broken.ts");
        until("the stream", || server.stream("broken").is_some());
        let viewer = ask_for(&server, "/live/broken.ts");
        until("its viewer", || server.count("broken", "viewers") == 1);
        let _ = publisher.write_all(&SHAPE.picture(0));
        ends(viewer);
        ends(publisher);
        until("the end", || server.stream("broken").is_none());
        let mut again = publish(server.address(), "/live/broken.ts");
        until("the name again", || server.stream("broken").is_some_and(|stream| stream["live"] == true));
        let _ = again.write_all(&SHAPE.picture(0));
        ends(again);
        // While a viewer is sent to.
        let mut publisher = publish(server.address(), "/live/poison.ts");
        publisher.write_all(&SHAPE.picture(0)).unwrap();
        until("the stream", || server.count("poison", "bytes_in") > 0);
        let viewer = ask_for(&server, "/live/poison.ts");
        until("its viewer", || server.count("poison", "viewers") == 1);
        publisher.write_all(&SHAPE.picture(1)).unwrap();
        ends(viewer);
        // Outside of any connection's turn.
        for number in 1..=6 {
            assert_eq!(get(server.address(), "/falls").status, 404);
            until("the worker's panic", || panics(&server, "worker") >= f64::from(number));
        }
    });
    nobody_lost_anything(&report, 500.0);
    assert!(panics(&server, "connection") >= 1003.0);
    assert_eq!(get(server.address(), "/healthz").status, 200);
    until("no connection is left over", || server.metrics().sum("glassline_connections", "") <= 2.0);
    let log = server.process.output();
    assert!(log.contains("a test asks for a panic of this connection"), "{log}");
    let has_frames =
        |line: &str| line.contains("backtrace=") && line.contains("relay/src/connection/input.rs:");
    assert!(log.lines().any(has_frames), "a place's first panic is told with where it came from: {log}");
    let told = log.lines().filter(|line| line.contains("panic: ")).count();
    assert!(told < 60, "{told} lines tell of 1,000 panics");
}

#[test]
fn a_panic_of_an_encoder_begins_it_anew() {
    let config = "[encode.studio]\ninput = 'test:320x180@25'\npreset = 'ultrafast'\nthreads = 1\n";
    let (server, _scratch) = serve_with_panics("encoder=picture 30.", config);
    server.wait_for_pictures("studio");
    until("the panic", || panics(&server, "encoder") >= 1.0);
    let encoder = || {
        let encoders = get(server.address(), "/api/encoders").json();
        encoders["encoders"][0].clone()
    };
    until("another run", || encoder()["restarts"].as_u64() >= Some(1) && encoder()["state"] == "running");
    assert_eq!(get(server.address(), "/healthz").status, 200);
}

#[test]
fn a_panic_of_an_output_or_a_presentation_ends_it_alone() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (good, bad) = (receiver.local_addr().unwrap(), "127.0.0.1:9");
    let studio = "[encode.studio]\ninput = 'test:320x180@25'\npreset = 'ultrafast'\nthreads = 1\n";
    let config = format!("[stream.load]\noutputs = ['udp://{good}', 'udp://{bad}']\n{studio}");
    let asked = format!("output={bad},output=package:sick");
    let (server, _scratch) = serve_with_panics(&asked, &config);
    let report = viewers_beside(&server, "50", || {
        until("the output's panics", || panics(&server, "output") >= 2.0);
        let mut datagram = [0; 2048];
        assert!(receiver.recv(&mut datagram).is_ok_and(|bytes| bytes > 0), "the other output goes on");
        let mut publisher = publish(server.address(), "/live/sick.ts");
        publisher.write_all(&SHAPE.picture(0)).unwrap();
        until("the stream", || server.count("sick", "bytes_in") > 0);
        let before = panics(&server, "output");
        let status = get(server.address(), "/live/sick/index.m3u8").status;
        assert!(status >= 400, "{status}");
        assert!(panics(&server, "output") > before);
        let playlist = || get(server.address(), "/live/studio/index.m3u8");
        assert_eq!(until_some("a playlist", || Some(playlist()).filter(|it| it.status == 200)).status, 200);
    });
    nobody_lost_anything(&report, 50.0);
}

#[test]
fn a_panic_of_a_pulled_stream_or_a_fetch_ends_it_alone() {
    let (origin, _origin_scratch) = serve_with_panics("", "");
    let mut publisher = publish(origin.address(), "/live/fine.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || origin.count("fine", "bytes_in") > 0);
    let config = format!(
        "[stream.sick]\nsource = 'http://{0}/live/sick.ts'\n[stream.fine]\nsource = 'http://{0}/live/fine.ts'\n\
         [upstream]\nservers = ['http://{0}']\n",
        origin.address()
    );
    let (edge, _scratch) = serve_with_panics("exchange=sick,exchange=bad-object", &config);
    until("the pull's panics", || panics(&edge, "exchange") >= 2.0);
    until("the other pull", || edge.count("fine", "bytes_in") > 0);
    let before = panics(&edge, "exchange");
    let answer = ask(edge.address(), "GET", "/bad-object.txt", &[]);
    assert!(matches!(answer.status, 500 | 502), "{}: {}", answer.status, answer.text());
    assert!(panics(&edge, "exchange") > before);
    // Whoever asks next does not join what has failed, and other objects are fetched.
    assert_eq!(ask(edge.address(), "GET", "/none.txt", &[]).status, 404);
    let mut viewer = ask_for(&edge, "/live/fine.ts");
    assert_eq!(read_head(&mut viewer).status, 200);
}

#[test]
fn a_panic_in_a_link_ends_that_link_alone() {
    let scratch = Scratch::new("panics-link");
    let key = scratch.file("key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let output = scratch.file("out");
    let channel = format!("0:reliable,lines,out={output}");
    let mut listener = Running::start(Command::new(GLASSLINE).env(VARIABLE, "link=from 127.0.0.2:").args([
        "link",
        "listen",
        "127.0.0.1:0",
        "--key",
        &key,
        "--channel",
        &channel,
    ]));
    let address = until_some("the address", || {
        let said = listener.output();
        let at = said.find("127.0.0.1:")?;
        let rest = &said[at..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    });
    let input = scratch.write("in", "one\ntwo\nthree\n");
    let connect = |path: &str| {
        let channel = format!("0:reliable,lines,in={input}");
        let mut command = Command::new(GLASSLINE);
        command.args(["link", "connect", &address, "--key", &key, "--channel", &channel]);
        if !path.is_empty() {
            command.args(["--path", path]);
        }
        Running::start(&mut command)
    };
    let mut sick = connect("127.0.0.2");
    until("the panic", || listener.output().contains("a test asks for a panic of this link"));
    // It connects again and again: a fault while a peer that is not known yet connects ends all links, since the core was at work
    // for none of them.
    sick.kill();
    let mut good = connect("");
    assert!(good.wait().success(), "{}", good.output());
    assert!(listener.ended().is_none(), "{}", listener.output());
    let got = std::fs::read_to_string(&output).unwrap();
    assert!(got.contains("one\ntwo\nthree\n"), "{got}");
    listener.signal("TERM");
    listener.wait();
}
