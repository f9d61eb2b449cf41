//! Upgrades under TLS: the old program goes on with the TLS of its connections, and nobody misses a byte.

use crate::GLASSLINE;
use crate::tls::{NAME, SHAPE, Secure, read_to_close_notify, serve_tls};
use glassline_io::handover::Channel;
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, publish, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::Server;
use glassline_test_support::tls::{self, Stream};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Starts a new program that takes over. Returns the old one, which may go on.
fn upgrade(secure: &mut Secure) -> Server {
    let address = secure.server.address().to_string();
    let name = format!("@glassline serve {address}");
    until("the place to meet", || std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name));
    let file = secure.folder.file("glassline.toml");
    let next = Server::start_at(GLASSLINE, &address, &["--upgrade", "--config", &file]);
    std::mem::replace(&mut secure.server, next)
}

fn ends_well(mut old: Server) {
    assert_eq!(old.process.wait().code(), Some(0), "the old program ends well");
}

fn is_there(secure: &Secure, name: &str) {
    until("the stream", || secure.server.count(name, "bytes_in") > 0);
}

/// A viewer over TLS that has the answer's head.
fn watch(secure: &Secure, name: &str) -> Stream {
    let mut viewer = secure.request(&format!("GET /live/{name}.ts HTTP/1.1"));
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

/// Reads until `bytes` have come in all.
fn read_until(stream: &mut impl Read, bytes: usize, into: &mut Vec<u8>) {
    let mut buffer = vec![0; 64 << 10];
    while into.len() < bytes {
        let count = read_once(stream, &mut buffer).unwrap();
        assert!(count > 0, "ended after {} bytes of {bytes}", into.len());
        into.extend_from_slice(&buffer[..count]);
    }
}

/// Asks for the list of streams, on a connection that stays.
fn streams(asking: &mut Stream) -> serde_json::Value {
    write!(asking, "GET /api/streams HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let head = read_head(asking);
    let length: usize = head.header("content-length").unwrap().parse().unwrap();
    let mut body = Vec::new();
    read_until(asking, length, &mut body);
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn who_is_on_tls_stays_over_three_upgrades_and_gets_every_byte() {
    let mut secure = serve_tls(
        "[publish]\nreturn_window = '0s'\nsilence_timeout = '60s'\n[viewer]\nstall_timeout = '60s'\n",
    );
    // The publisher is on TLS too, and so is somebody who asks now and then.
    let mut publisher = secure.request("PUT /live/s.ts HTTP/1.1");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let mut asking = secure.connect();
    // From its first answer on it may rest for a minute; before that the server waits ten seconds for a request, which a machine that
    // stands still lets pass.
    assert_eq!(streams(&mut asking)["streams"][0]["name"], "s");
    let mut plain = connect(secure.server.address());
    write!(plain, "GET /live/s.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_head(&mut plain);
    let mut viewers: Vec<_> = (0..20).map(|_| (watch(&secure, "s"), Vec::new())).collect();
    until("the viewers", || secure.server.count("s", "viewers") == 21);
    let mut sent = SHAPE.picture(0).len();
    let mut number = 1;
    let mut olds = Vec::new();
    for turn in 1..=3 {
        for part in 0..2 {
            for _ in 0..40 {
                let picture = SHAPE.picture(number);
                // Cut anywhere: what was read of a packet or a record has to be carried over too.
                let (first, rest) = picture.split_at(number as usize * 7919 % picture.len());
                publisher.write_all(first).unwrap();
                publisher.flush().unwrap();
                publisher.write_all(rest).unwrap();
                sent += picture.len();
                number += 1;
            }
            if part == 0 {
                // Some have read all there is, others have it all still before them.
                for (viewer, got) in viewers[..20].iter_mut().step_by(2) {
                    read_until(viewer, sent, got);
                }
                olds.push(upgrade(&mut secure));
            }
        }
        let answer = streams(&mut asking);
        assert_eq!(answer["streams"][0]["publishers"], 1, "the publisher stays: {answer}");
        assert_eq!(secure.server.count("s", "viewers"), 20 + turn);
        // Publisher, who asks, viewers; each viewer that came later is drained by another program.
        assert_eq!(secure.metric("glassline_connections_draining"), (21 + turn) as f64);
        assert_eq!(secure.metric("glassline_stream_moved_forward_total"), 0.0);
        let clients = glassline_test_support::http::get(secure.server.address(), "/api/clients").json();
        let seen = clients["clients"].as_array().unwrap();
        assert!(seen.iter().all(|client| client["tcp"]["rtt_ms"].is_number()), "{clients}");
        // The port for HTTPS goes on as well.
        viewers.push((watch(&secure, "s"), Vec::new()));
        until("one more viewer", || secure.server.count("s", "viewers") == 21 + turn);
    }
    assert!(secure.metric("glassline_tls_handshakes_total") >= 25.0, "counts go on");
    publisher.conn.send_close_notify();
    publisher.flush().unwrap();
    assert_eq!(read_head(&mut publisher).status, 204);
    let mut all = Vec::new();
    plain.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), sent);
    let mut check = Check::new(SHAPE);
    check.push(&all).unwrap();
    assert_eq!((check.packets, check.moves), (number * SHAPE.packets, 0));
    for (index, (viewer, got)) in viewers.iter_mut().enumerate() {
        // To the end, of which TLS tells.
        viewer.read_to_end(got).unwrap();
        let whole = if index < 20 { *got == all } else { all.ends_with(got) && !got.is_empty() };
        assert!(whole, "viewer {index} got {} bytes of {}", got.len(), all.len());
    }
    drop((publisher, asking, viewers));
    for old in olds {
        ends_well(old);
    }
    assert_eq!(secure.metric("glassline_connections_draining"), 0.0);
}

#[test]
fn a_slow_viewer_is_moved_forward_after_an_upgrade_as_before_it() {
    let mut secure = serve_tls(
        "[publish]\nreturn_window = '0s'\n[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\npacing = 'off'\n",
    );
    let mut publisher = publish(secure.server.address(), "/live/slow.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "slow");
    let mut viewer = watch(&secure, "slow");
    let (mut check, mut buffer, mut number) = (Check::new(SHAPE), vec![0; 20_000], 1);
    let mut olds = Vec::new();
    for moves in [1, 3, 5] {
        let deadline = Instant::now() + Duration::from_secs(60);
        while check.moves < moves {
            assert!(Instant::now() < deadline, "not moved after {number} pictures");
            for _ in 0..20 {
                publisher.write_all(&SHAPE.picture(number)).unwrap();
                number += 1;
            }
            let count = read_once(&mut viewer, &mut buffer).unwrap();
            check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        olds.push(upgrade(&mut secure));
    }
    let counted = secure.metric("glassline_stream_moved_forward_total");
    drop(publisher);
    read_to_close_notify(&mut viewer, &mut check);
    assert!(counted >= 5.0, "{} moves were seen, {counted} counted", check.moves);
    drop(viewer);
    olds.into_iter().for_each(ends_well);
}

#[test]
fn a_viewer_that_takes_nothing_is_dropped_and_one_that_leaves_is_gone() {
    let mut secure = serve_tls("[viewer]\nstall_timeout = '1s'\npacing = 'off'\n");
    let mut publisher = publish(secure.server.address(), "/live/s.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let (_stalled, leaving) = (watch(&secure, "s"), watch(&secure, "s"));
    let old = upgrade(&mut secure);
    assert_eq!(secure.server.count("s", "viewers"), 2);
    drop(leaving);
    let mut number = 1;
    until("both to be gone", || {
        for _ in 0..20 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
            number += 1;
        }
        secure.server.count("s", "viewers") == 0
    });
    assert_eq!(secure.server.count("s", "stalled"), 1);
    ends_well(old);
}

#[test]
fn who_reads_slowly_gets_all_to_the_stream_s_end() {
    let mut secure = serve_tls("[publish]\nreturn_window = '0s'\n[viewer]\npacing = 'off'\n");
    let mut publisher = publish(secure.server.address(), "/live/s.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let mut viewer = watch(&secure, "s");
    let old = upgrade(&mut secure);
    // More than all sockets on the way take at once.
    let pictures = 2000;
    for number in 1..pictures {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
    }
    drop(publisher);
    std::thread::sleep(Duration::from_secs(1));
    let (mut check, mut buffer) = (Check::new(SHAPE), vec![0; 20_000]);
    loop {
        match read_once(&mut viewer, &mut buffer).unwrap() {
            0 => break,
            count => check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}")),
        }
        // The last part of it is read when the new program has long let go of the connection.
        if check.packets > (pictures - 30) * SHAPE.packets {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert_eq!((check.packets, check.moves), (pictures * SHAPE.packets, 0));
    drop(viewer);
    ends_well(old);
}

#[test]
fn the_bound_ends_them_cleanly() {
    for (drain, seconds) in [("0s", 0), ("1s", 1)] {
        let mut secure =
            serve_tls(&format!("[publish]\nsilence_timeout = '60s'\n[process]\ndrain = '{drain}'\n"));
        let mut publisher = publish(secure.server.address(), "/live/s.ts");
        publisher.write_all(&SHAPE.picture(0)).unwrap();
        is_there(&secure, "s");
        let mut viewer = watch(&secure, "s");
        let before = Instant::now();
        let old = upgrade(&mut secure);
        read_to_close_notify(&mut viewer, &mut Check::new(SHAPE));
        assert!(before.elapsed() >= Duration::from_secs(seconds), "after {:?}", before.elapsed());
        until("the viewer to be gone", || secure.server.count("s", "viewers") == 0);
        drop(viewer);
        ends_well(old);
        // Plain ones stay, and who comes again is served by the new program.
        publisher.write_all(&SHAPE.picture(1)).unwrap();
        let mut got = Vec::new();
        read_until(&mut watch(&secure, "s"), SHAPE.picture(0).len(), &mut got);
    }
}

#[test]
fn the_ends_of_either_program_are_seen() {
    // The new one's end is the end of all.
    let mut secure = serve_tls("[publish]\nsilence_timeout = '60s'\n");
    let mut publisher = publish(secure.server.address(), "/live/s.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let mut viewer = watch(&secure, "s");
    let (oldest, old) = (upgrade(&mut secure), upgrade(&mut secure));
    ends_well(old);
    secure.server.process.signal("TERM");
    read_to_close_notify(&mut viewer, &mut Check::new(SHAPE));
    drop(viewer);
    ends_well(oldest);
    assert_eq!(secure.server.process.wait().code(), Some(0));

    // The old one's end is that of its connections; what it is told otherwise is not for it.
    let mut secure = serve_tls("[publish]\nsilence_timeout = '60s'\n");
    let mut publisher = publish(secure.server.address(), "/live/s.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let mut viewer = watch(&secure, "s");
    let old = upgrade(&mut secure);
    old.process.signal("HUP");
    until("the answer", || old.process.output().contains("send the signal to that one"));
    old.process.signal("TERM");
    read_to_close_notify(&mut viewer, &mut Check::new(SHAPE));
    drop(viewer);
    ends_well(old);
    until("the viewer to be gone", || secure.server.count("s", "viewers") == 0);
    assert_eq!(secure.server.count("s", "publishers"), 1);
    publisher.write_all(&SHAPE.picture(1)).unwrap();
}

#[test]
fn who_comes_to_take_over_and_fails_changes_nothing_for_tls() {
    let secure = serve_tls("");
    let mut publisher = publish(secure.server.address(), "/live/s.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_there(&secure, "s");
    let mut viewer = watch(&secure, "s");
    let (mut got, mut sent) = (Vec::new(), SHAPE.picture(0));
    let meeting = format!("glassline serve {}", secure.server.address());
    for number in 1..6 {
        let mut channel = Channel::connect(&meeting).unwrap();
        channel.send(b"glassline: take over", &[]).unwrap();
        drop(channel.receive(1 << 30).unwrap());
        channel.send(b"oh, no!", &[]).unwrap();
        let said = || secure.server.process.output().matches("oh, no!").count() as u64;
        until("the old one goes on", || said() == number);
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        sent.extend(SHAPE.picture(number));
        read_until(&mut viewer, sent.len(), &mut got);
        assert!(got == sent);
    }
}

#[test]
fn a_handshake_goes_on_over_an_upgrade() {
    let mut secure = serve_tls("");
    let mut stream = secure.connect();
    let mut hello = Vec::new();
    stream.conn.write_tls(&mut hello).unwrap();
    stream.sock.write_all(&hello[..50]).unwrap();
    let silent = connect(secure.address);
    let accepted = || secure.metric("glassline_connections") >= 3.0;
    until("the connections", accepted);
    let old = upgrade(&mut secure);
    stream.sock.write_all(&hello[50..]).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    assert_eq!(secure.metric("glassline_tls_handshakes_total"), 1.0);
    drop((stream, silent));
    ends_well(old);
    until("the failure", || secure.metric("glassline_tls_handshakes_failed_total") == 1.0);
    // Not over TLS at all, and known only after the upgrade.
    let mut mistaken = connect(secure.address);
    until("it", || secure.metric("glassline_connections_draining") == 0.0 && accepted_one(&secure));
    let old = upgrade(&mut secure);
    mistaken.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_once(&mut mistaken, &mut [0; 100]).unwrap_or(0), 0, "it is ended");
    ends_well(old);
    let mut stream = tls::connect(secure.address, NAME, &tls::client(&[&secure.identity]));
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
}

/// Whether somebody is connected beside who asks.
fn accepted_one(secure: &Secure) -> bool {
    secure.metric("glassline_connections") >= 2.0
}
