//! What peers that bring nothing may hold: connections, descriptors, names.

use crate::{GLASSLINE, serve_with};
use glassline_test_support::http::{ask, connect, get, publish, read_all, read_answer, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

const SHAPE: Shape = Shape { packets: 5, group: 5 };

fn watch(server: &Server, stream: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{stream}.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    viewer
}

#[test]
fn bodies_that_never_come_are_not_waited_for() {
    // A publisher that brought something might be silent for an hour.
    let (server, _scratch) = serve_with("[publish]\nsilence_timeout = '1h'\n[viewer]\nbody_timeout = '1s'\n");
    let heads = [
        "POST /api/streams/a/keyframe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT /live/b.ts HTTP/1.0\r\n\r\n",
    ];
    let open = |head: &&str| {
        let mut stream = connect(server.address());
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = heads.iter().map(open).collect();
    for (head, stream) in heads.iter().zip(&mut streams) {
        assert_eq!(read_answer(stream).status, 408, "{head}");
    }
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_request_bodies_timed_out_total", ""), 4.0);
    // One that has a stream is the publisher's as before.
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("a", "bytes_in") > 0);
}

#[test]
fn who_asks_for_nothing_is_limited_by_address_and_who_watches_is_not() {
    let (server, _scratch) = serve_with("workers = 1\n[viewer]\nmax_unanswered_per_address = 4\n");
    let mut publisher = publish(server.address(), "/live/hall.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("hall", "bytes_in") > 0);
    // A hall is one address.
    let viewers: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut viewer = watch(&server, "hall");
            assert_eq!(read_head(&mut viewer).status, 200);
            viewer
        })
        .collect();
    // Nor do those count that rest between two requests.
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /gen204 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        read_head(stream).status
    };
    let mut resting: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = connect(server.address());
            assert_eq!(ask(&mut stream), 204);
            stream
        })
        .collect();
    // One worker takes them in their order.
    let mut silent: Vec<TcpStream> = (0..3).map(|_| connect(server.address())).collect();
    silent.push(connect(server.address()));
    silent[3].write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let refused = read_answer(&mut connect(server.address()));
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // One more request makes a connection that rested one of them, and does not end it.
    assert_eq!(ask(&mut resting[0]), 204);
    drop(silent.pop());
    until("room", || read_all(&mut half_asked(&server)).starts_with(b"HTTP/1.1 200"));
    let metrics = server.metrics();
    assert!(metrics.sum("glassline_connections_refused_unanswered_total", "") >= 1.0);
    assert_eq!(server.count("hall", "viewers"), viewers.len() as u64);
}

fn half_asked(server: &Server) -> TcpStream {
    let mut stream = connect(server.address());
    // Refused ones may be reset before all of it is taken.
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream
}

#[test]
fn many_that_ask_at_once_from_one_address_are_all_answered() {
    let (server, _scratch) = serve_with("workers = 1\n[viewer]\nmax_unanswered_per_address = 4\n");
    assert_eq!(get(server.address(), "/gen204").status, 204);
    // While the server stands still they all come, with their requests; then it finds them at once.
    server.process.signal("STOP");
    let mut callers: Vec<TcpStream> = (0..100).map(|_| half_asked(&server)).collect();
    server.process.signal("CONT");
    for caller in &mut callers {
        assert_eq!(read_answer(caller).status, 200);
    }
    assert_eq!(server.metrics().sum("glassline_connections_refused_total", ""), 0.0);
}

#[test]
fn streams_that_wait_for_their_publishers_give_way_where_all_places_are_taken() {
    let (server, _scratch) = serve_with("[publish]\nmax_streams = 4\nreturn_window = '1h'\n");
    let brief = |name: &str| {
        let mut publisher = publish(server.address(), &format!("/live/{name}.ts"));
        publisher.write_all(&SHAPE.picture(0)).unwrap();
        until("its bytes", || server.count(name, "bytes_in") > 0);
        publisher
    };
    let gone = |name: &str| {
        drop(brief(name));
        until("it to be gone", || server.stream(name).is_some_and(|stream| stream["live"] == false));
    };
    gone("watched");
    let mut viewer = watch(&server, "watched");
    assert_eq!(read_head(&mut viewer).status, 200);
    let _live = brief("live");
    gone("older");
    gone("newer");
    // The oldest of those that nobody watches, then the next.
    gone("first");
    let names = |wanted: &[&str]| wanted.iter().all(|name| server.stream(name).is_some());
    assert!(names(&["watched", "live", "newer", "first"]) && server.stream("older").is_none());
    let _second = brief("second");
    assert!(names(&["watched", "live", "first", "second"]) && server.stream("newer").is_none());
    let _third = brief("third");
    assert!(names(&["watched", "live", "second", "third"]));
    // Who is there, and who is watched, does not give way.
    let refused = ask(server.address(), "PUT", "/live/fourth.ts", &["Content-Length: 0"]);
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("max_streams"), "{}", refused.text());
    assert_eq!(server.metrics().sum("glassline_streams_displaced_total", ""), 3.0);
    // Its publisher returns, and the viewer goes on.
    let mut publisher = publish(server.address(), "/live/watched.ts");
    publisher.write_all(&SHAPE.picture(5)).unwrap();
    let mut got = [0; 2 * 188];
    viewer.read_exact(&mut got).unwrap();
}

#[test]
fn log_lines_that_strangers_cause_are_counted() {
    const REFUSED: u64 = 300;
    let (mut server, _scratch) = serve_with("[publish]\nkey = 'the-right-one'\n");
    for number in 0..REFUSED {
        let target = format!("/live/s{number}.ts");
        let fields = ["Content-Length: 0", "Authorization: Bearer a-wrong-one"];
        assert_eq!(ask(server.address(), "PUT", &target, &fields).status, 401);
    }
    // What was counted and not told yet is told at the end.
    server.process.signal("TERM");
    server.process.wait();
    let said = server.process.output();
    let (counted, told): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| line.contains("publisher refused"))
        .partition(|line| line.contains(" more like this in "));
    let lines: u64 = counted
        .iter()
        .map(|line| {
            let before = line.split(" more like this").next().unwrap();
            before.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
        })
        .sum();
    assert_eq!(told.len() as u64 + lines, REFUSED, "{said}");
    assert!((50..REFUSED as usize / 2).contains(&told.len()), "{} lines: {said}", told.len());
}

#[test]
fn idle_connections_do_not_keep_newcomers_out() {
    let (server, _scratch) = serve_with("workers = 1\n[viewer]\nmax_connections = 8\n");
    let idle: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(server.address());
            stream.write_all(b"GET /gen204 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            assert_eq!(read_head(&mut stream).status, 204);
            stream
        })
        .collect();
    let metrics = server.metrics();
    // The 40, and the one that asks for the metrics.
    assert_eq!(metrics.sum("glassline_connections_gave_way_total", ""), 33.0);
    assert_eq!(metrics.sum("glassline_connections_refused_total", ""), 0.0);
    drop(idle);
}

/// A server that may open so many descriptors and no more.
fn with_descriptors(limit: u32, config: &str) -> (Server, Scratch) {
    let scratch = Scratch::new("few");
    let file = scratch.write("glassline.toml", config);
    let program = scratch.write("few", format!("#!/bin/sh\nulimit -n {limit}\nexec {GLASSLINE} \"$@\"\n"));
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    (Server::start(&program, &["--config", &file]), scratch)
}

#[test]
fn a_server_without_descriptors_goes_on_and_recovers() {
    const LIMIT: u32 = 80;
    let (server, _scratch) =
        with_descriptors(LIMIT, "workers = 1\n[publish]\nreturn_window = '1h'\nsilence_timeout = '1h'\n");
    until("the warning", || server.process.output().contains("the hard limit of open descriptors is 80"));
    let mut publisher = publish(server.address(), "/live/stage.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") > 0);
    let mut viewer = watch(&server, "stage");
    assert_eq!(read_head(&mut viewer).status, 200);
    let mut pictures = 0;
    let mut next = |viewer: &mut TcpStream| {
        if pictures > 0 {
            publisher.write_all(&SHAPE.picture(pictures)).unwrap();
        }
        let mut got = vec![0; SHAPE.picture(pictures).len()];
        viewer.read_exact(&mut got).unwrap();
        pictures += 1;
    };
    next(&mut viewer);

    // Half of the descriptors are for connections; the files of their streams take the other half and more.
    let mut callers = Vec::new();
    for number in 0..150 {
        let target = format!(
            "PUT /live/s{number}.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let mut caller = connect(server.address());
        let bytes = SHAPE.picture(0);
        // Those that are refused may be gone by then.
        let _ = caller.write_all(target.as_bytes());
        let _ = caller.write_all(format!("{:x}\r\n", bytes.len()).as_bytes());
        let _ = caller.write_all(&bytes);
        let _ = caller.write_all(b"\r\n");
        callers.push(caller);
    }
    // They publish, wait, or are refused for want of a place: which of it depends on who comes first to its descriptor.
    until("nearly all descriptors to be in use", || server.descriptors() + 2 >= LIMIT as usize);
    for _ in 0..20 {
        next(&mut viewer);
    }

    // Their streams wait for them, for an hour, and have the descriptors that new connections need.
    drop(callers);
    until("room again", || {
        let mut caller = half_asked(&server);
        read_all(&mut caller).starts_with(b"HTTP/1.1 200")
    });
    next(&mut viewer);
    let mut another = watch(&server, "stage");
    assert_eq!(read_head(&mut another).status, 200);
    assert!(server.process.output().contains("Too many open files"), "descriptors were left");
}

#[test]
fn a_key_that_others_may_read_is_refused_with_the_command_that_mends_it() {
    let scratch = Scratch::new("exposed");
    let key = scratch.write("publish.key", "a-key-of-publishers\n");
    let config = scratch.write("glassline.toml", "[publish]\nkey_file = 'publish.key'\n");
    let stage = scratch.write("stage.toml", "[stream.stage]\nviewer_key_file = 'publish.key'\n");
    let commands: [&[&str]; 4] = [
        &["serve", "--config", &config, "--test-config"],
        &["serve", "--config", &stage, "--test-config"],
        &["sign", "http://127.0.0.1:1/live/stage.ts", "--key-file", &key],
        &["encode", "test:320x180@25", "null:", "--limit", "1", "--publish-key-file", &key],
    ];
    for arguments in commands {
        fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
        let outcome = crate::glassline(arguments);
        let command = format!("chmod 600 {key}");
        let told = outcome.stderr.contains(&format!("(mode 0644), which is a secret; type: {command}"));
        assert!(outcome.status == Some(2) && told, "{arguments:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("a-key-of-publishers"));
        assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success());
        let outcome = crate::glassline(arguments);
        assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
    }
    // A key in the configuration itself is warned of.
    let inline = scratch.write("inline.toml", "[publish]\nkey = 'a-key-of-publishers'\n");
    let outcome = crate::glassline(&["serve", "--config", &inline, "--test-config"]);
    let told = outcome.text() + &outcome.stderr;
    assert!(outcome.status == Some(0) && told.contains("chmod 600"), "{told}");
}

#[test]
fn another_user_who_holds_the_place_to_meet_is_named() {
    let name = "another_user_who_holds_the_place_to_meet_is_named";
    let root = glassline_test_support::program::run("id", &["-u"], 60).text().trim() == "0";
    if !root || !["setpriv", "perl"].into_iter().all(glassline_test_support::has_program) {
        return glassline_test_support::skip(name, "not root, or no setpriv or perl");
    }
    // A free port; the place is held before the server comes to it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = "use Socket; $| = 1; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
                  bind(S, pack('Sa*', AF_UNIX, \"\\0$ARGV[0]\")) or die; listen(S, 9) or die; print \"held\\n\"; sleep 600";
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "nobody", "--clear-groups", "--", "perl", "-e", script]);
    let holder = Running::start(command.arg(format!("glassline serve {address}")));
    until("the holder", || holder.output().contains("held"));
    drop(listener);
    let server = Server::start_at(GLASSLINE, &address.to_string(), &[]);
    let told = until_some("the warning", || {
        let output = server.process.output();
        output.lines().find(|line| line.contains("another user holds the hand-over")).map(str::to_owned)
    });
    assert!(told.contains("nobody (uid ") && told.contains(&holder.id().to_string()), "{told}");
    let outcome = crate::glassline(&["serve", "--listen", &address.to_string(), "--upgrade"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains("nobody (uid "), "{}", outcome.stderr);
}
