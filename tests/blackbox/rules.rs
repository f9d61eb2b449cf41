//! The rules of single streams, and what becomes of slow viewers.

use crate::{glassline, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{Answer, connect, get, publish, read_answer, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::TcpStream;

const SHAPE: Shape = Shape { packets: 60, group: 10 };
/// Large pictures, to leave slow viewers behind with few of them.
const LARGE: Shape = Shape { packets: 600, group: 4 };
/// More pictures than fit into a backlog of 1 MiB and the kernel's buffers on both sides.
const TOO_MANY: u64 = 300;

/// Asks to publish; the answer's status, or the publisher where it is let in.
fn try_publish(server: &Server, target: &str) -> Result<TcpStream, u16> {
    let name = target.split_once("/live/").unwrap().1.split_once(".ts").unwrap().0;
    let before = server.count(name, "publishers");
    let mut publisher = publish(server.address(), target);
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    publisher.set_nonblocking(true).unwrap();
    let mut first = [0];
    until("an answer or a stream", || {
        publisher.peek(&mut first).is_ok() || server.count(name, "publishers") > before
    });
    publisher.set_nonblocking(false).unwrap();
    if server.count(name, "publishers") > before {
        Ok(publisher)
    } else {
        Err(read_answer(&mut publisher).status)
    }
}

/// Asks for a stream; who is let in stays.
fn watch(server: &Server, target: &str) -> (Answer, TcpStream) {
    let mut stream = connect(server.address());
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    (read_head(&mut stream), stream)
}

#[test]
fn a_stream_has_keys_of_its_own() {
    let key_file = Scratch::new("keys");
    let viewer_key = key_file.write("viewer.key", "the-stage-viewers\n");
    let (server, _scratch) = serve_with(&format!(
        "[publish]\nkey = 'general-publishers'\n[viewer]\nkey = 'general-viewers'\n\
         [stream.stage]\npublish_key = 'the-stage-publisher'\nviewer_key_file = '{viewer_key}'\n"
    ));
    assert_eq!(try_publish(&server, "/live/stage.ts").unwrap_err(), 401);
    assert_eq!(try_publish(&server, "/live/stage.ts?key=general-publishers").unwrap_err(), 401);
    assert_eq!(try_publish(&server, "/live/hall.ts?key=the-stage-publisher").unwrap_err(), 401);
    let _stage = try_publish(&server, "/live/stage.ts?key=the-stage-publisher").unwrap();
    let _hall = try_publish(&server, "/live/hall.ts?key=general-publishers").unwrap();

    let general_key = key_file.write("general.key", "general-viewers\n");
    let status = |stream: &str, key: &str| {
        let url = server.url(&format!("/live/{stream}.ts"));
        let signed = glassline(&["sign", &url, "--key-file", key]).text();
        watch(&server, signed.trim().strip_prefix(&server.url("")).unwrap()).0.status
    };
    assert_eq!((status("stage", &viewer_key), status("stage", &general_key)), (200, 401));
    assert_eq!((status("hall", &viewer_key), status("hall", &general_key)), (401, 200));
}

#[test]
fn a_stream_has_limits_of_its_own() {
    let (server, _scratch) = serve_with(
        "[viewer]\nmax_per_stream = 1\n[stream.small]\nmax_bitrate = '500k'\n[stream.wide]\nmax_viewers = 2\n",
    );
    let mut publishers: Vec<_> =
        ["small", "wide"].map(|name| try_publish(&server, &format!("/live/{name}.ts")).unwrap()).into();
    let first = [watch(&server, "/live/small.ts"), watch(&server, "/live/wide.ts")];
    assert_eq!(first.each_ref().map(|(answer, _)| answer.status), [200, 200]);
    assert_eq!(watch(&server, "/live/small.ts").0.status, 503);
    let second = watch(&server, "/live/wide.ts");
    assert_eq!((second.0.status, watch(&server, "/live/wide.ts").0.status), (200, 503));

    // Five seconds' worth of 500 kbit/s may come at once; the other one may send anything.
    let pictures: Vec<u8> = (1..60).flat_map(|number| SHAPE.picture(number)).collect();
    publishers[1].write_all(&pictures).unwrap();
    until("all of it", || {
        server.count("wide", "bytes_in") == (pictures.len() + SHAPE.picture(0).len()) as u64
    });
    let _ = publishers[0].write_all(&pictures);
    let answer = read_answer(&mut publishers[0]);
    assert_eq!(answer.status, 429);
    assert!(answer.text().contains("500000 bit/s"), "{}", answer.text());
}

#[test]
fn viewers_are_limited_over_all_streams() {
    let (server, _scratch) = serve_with("[viewer]\nmax_viewers = 2\n");
    let _publishers = ["a", "b"].map(|name| try_publish(&server, &format!("/live/{name}.ts")).unwrap());
    let first = watch(&server, "/live/a.ts");
    let second = watch(&server, "/live/b.ts");
    assert_eq!((first.0.status, second.0.status), (200, 200));
    let refused = watch(&server, "/live/b.ts").0;
    assert_eq!(refused.status, 503);
    drop(first);
    until("the place of who left", || watch(&server, "/live/b.ts").0.status == 200);
}

#[test]
fn who_comes_when_the_bit_rate_is_used_up_is_refused() {
    for (limit, status) in [("max_bitrate", 503), ("max_bitrate_per_address", 429)] {
        let (server, _scratch) = serve_with(&format!("[viewer]\n{limit} = '100k'\n"));
        let mut publisher = try_publish(&server, "/live/a.ts").unwrap();
        let mut pictures = 1..;
        // At 50 times the limit, as far as the last two seconds tell.
        until("a refusal", || {
            for _ in 0..50 {
                publisher.write_all(&SHAPE.picture(pictures.next().unwrap())).unwrap();
            }
            watch(&server, "/live/a.ts").0.status == status
        });
        // A stream without a rate of its own takes nothing of it.
        let _quiet = try_publish(&server, "/live/quiet.ts").unwrap();
        until("a place", || watch(&server, "/live/quiet.ts").0.status == 200);
    }
}

#[test]
fn connections_are_limited_by_address() {
    let admin = "127.0.0.1:0";
    let (server, _scratch) =
        serve_with(&format!("[admin]\nlisten = ['{admin}']\n[viewer]\nmax_connections_per_address = 2\n"));
    let ask = |stream: &mut TcpStream| {
        write!(stream, "GET /gen204 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        read_head(stream).status
    };
    let mut first = connect(server.address());
    let mut second = connect(server.address());
    assert_eq!((ask(&mut first), ask(&mut second)), (204, 204));
    // One that rests would give way to another one.
    for stream in [&mut first, &mut second] {
        stream.write_all(b"GET /").unwrap();
    }
    assert_eq!(read_head(&mut connect(server.address())).status, 503);
    // Operators come in all the same.
    let output = server.process.output();
    let admin = output.split("http://127.0.0.1:").last().and_then(|rest| rest.split('/').next()).unwrap();
    let metrics = get(format!("127.0.0.1:{admin}").parse().unwrap(), "/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("glassline_connections_refused_total 1\n"), "{}", metrics.text());
    drop(first);
    until("the place of who left", || {
        let mut third = connect(server.address());
        third.write_all(b"GET /gen204 HTTP/1.1\r\nHost: h\r\n\r\n").is_ok()
            && read_head(&mut third).status == 204
    });
}

#[test]
fn a_limit_holds_where_all_come_at_once() {
    let (server, _scratch) = serve_with("workers = 4\n[viewer]\nmax_per_stream = 5\n");
    let _publisher = try_publish(&server, "/live/a.ts").unwrap();
    let at_once = std::sync::Barrier::new(40);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let viewers: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = connect(server.address());
                    at_once.wait();
                    write!(stream, "GET /live/a.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                    (read_head(&mut stream).status, stream)
                })
            })
            .collect();
        viewers.into_iter().map(|viewer| viewer.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(answers.iter().filter(|(status, _)| *status == 503).count(), 35);
    assert_eq!(server.count("a", "viewers"), 5);
}

/// A server with a backlog of 1 MiB, a publisher and a viewer that has the first picture.
fn with_a_slow_viewer(rules: &str) -> (Server, Scratch, TcpStream, TcpStream, Check) {
    // On a busy machine the publisher's next pictures may come late: that is no silence.
    let (server, scratch) = serve_with(&format!(
        "[publish]\nsilence_timeout = '60s'\n[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\npacing = 'off'\n{rules}\n"
    ));
    let mut publisher = publish(server.address(), "/live/stage.ts");
    publisher.write_all(&LARGE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") == LARGE.picture(0).len() as u64);
    let (answer, mut viewer) = watch(&server, "/live/stage.ts");
    assert_eq!(answer.status, 200);
    let mut check = Check::new(LARGE);
    read_some(&mut viewer, &mut check);
    (server, scratch, publisher, viewer, check)
}

/// Reads once, and checks it. False at the end.
fn read_some(viewer: &mut TcpStream, check: &mut Check) -> bool {
    let mut bytes = vec![0; 64 << 10];
    let count = read_once(viewer, &mut bytes).unwrap();
    check.push(&bytes[..count]).unwrap();
    count > 0
}

/// Sends pictures while the viewer does not read.
fn leave_behind(server: &Server, publisher: &mut TcpStream, from: u64) {
    let pictures: Vec<u8> = (from..from + TOO_MANY).flat_map(|number| LARGE.picture(number)).collect();
    let bytes = server.count("stage", "bytes_in") + pictures.len() as u64;
    publisher.write_all(&pictures).unwrap();
    until("all pictures", || server.count("stage", "bytes_in") == bytes);
}

#[test]
fn a_viewer_that_falls_behind_is_dropped_where_the_rules_say_so() {
    for rules in ["slow = 'drop'", "[stream.stage]\nslow = 'drop'"] {
        let (server, _scratch, mut publisher, mut viewer, mut check) = with_a_slow_viewer(rules);
        leave_behind(&server, &mut publisher, 1);
        // It gets what the kernel holds for it, each packet right, and then the end.
        while read_some(&mut viewer, &mut check) {}
        let counts = ["dropped_behind", "moved_forward", "stalled"].map(|name| server.count("stage", name));
        assert_eq!(counts, [1, 0, 0], "{rules}");
        assert_eq!(server.metrics().sum("glassline_stream_dropped_behind_total", "\"stage\""), 1.0);
        until("no viewer", || server.count("stage", "viewers") == 0);
    }
}

#[test]
fn a_viewer_that_falls_behind_too_often_is_dropped() {
    let (server, _scratch, mut publisher, mut viewer, mut check) = with_a_slow_viewer("max_moves = 1");
    leave_behind(&server, &mut publisher, 1);
    while server.count("stage", "moved_forward") == 0 {
        assert!(read_some(&mut viewer, &mut check), "it is still a viewer");
    }
    leave_behind(&server, &mut publisher, 1 + TOO_MANY);
    while read_some(&mut viewer, &mut check) {}
    let counts = ["dropped_behind", "moved_forward", "stalled"].map(|name| server.count("stage", name));
    assert_eq!(counts, [1, 1, 0]);
}
