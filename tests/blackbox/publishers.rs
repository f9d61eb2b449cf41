//! Who may publish, and what happens to a name.

use crate::{serve, serve_with};
use glassline_test_support::http::{ask, connect, get, publish, read_answer, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Server, outer_address};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::SocketAddr;

const SHAPE: Shape = Shape { packets: 5, group: 5 };

#[test]
fn a_second_publisher_is_refused_unless_it_takes_over() {
    let server = serve(&[]);
    let mut first = publish(server.address(), "/live/one.ts");
    first.write_all(&SHAPE.picture(0)).unwrap();
    until("the first publisher", || server.count("one", "bytes_in") > 0);
    let refused = read_answer(&mut publish(server.address(), "/live/one.ts"));
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("takeover=1"), "{}", refused.text());
    // The first one has not noticed.
    first.write_all(&SHAPE.picture(1)).unwrap();
    let both = (SHAPE.picture(0).len() + SHAPE.picture(1).len()) as u64;
    until("its second picture", || server.count("one", "bytes_in") == both);

    let mut third = publish(server.address(), "/live/one.ts?takeover=1");
    assert_eq!(read_answer(&mut first).status, 409);
    third.write_all(&SHAPE.picture(5)).unwrap();
    until("the new one's picture", || server.count("one", "bytes_in") > both);
}

#[test]
fn viewers_stay_while_the_publisher_is_away() {
    let server = serve(&[]);
    let mut viewer = None;
    let mut packets = 0;
    for session in 0..3 {
        let mut publisher = publish(server.address(), "/live/back.ts");
        let bytes: Vec<u8> = (0..10).flat_map(|picture| SHAPE.picture(picture)).collect();
        publisher.write_all(&bytes).unwrap();
        until("the session's bytes", || {
            server.count("back", "bytes_in") == bytes.len() as u64 * (session + 1)
        });
        let viewer = viewer.get_or_insert_with(|| {
            let mut viewer = connect(server.address());
            write!(viewer, "GET /live/back.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            read_head(&mut viewer);
            viewer
        });
        // The first time it joins at the second of two key frames.
        let expected = if session == 0 { 2 + 25 } else { 3 + bytes.len() / 188 };
        let mut got = vec![0; expected * 188];
        viewer.read_exact(&mut got).unwrap();
        if session == 0 {
            let mut check = Check::new(SHAPE);
            check.push(&got).unwrap();
            packets = check.packets;
        } else {
            let announced =
                got.chunks(188).filter(|packet| packet[3] & 0x30 == 0x20 && packet[5] & 0x80 != 0);
            assert_eq!(announced.count(), 3, "each PID's jump is announced");
        }
        drop(publisher);
        until("the publisher to be gone", || {
            server.stream("back").is_some_and(|stream| stream["live"] == false)
        });
        assert_eq!(server.count("back", "viewers"), 1);
    }
    assert_eq!((packets, server.count("back", "publishers")), (25, 3));
}

#[test]
fn many_streams_at_once() {
    let server = serve(&[]);
    let publishers: Vec<_> = (0..50)
        .map(|number| {
            let mut publisher = publish(server.address(), &format!("/live/s{number}.ts"));
            (0..=number).for_each(|picture| publisher.write_all(&SHAPE.picture(picture)).unwrap());
            publisher
        })
        .collect();
    for number in 0..50u64 {
        let bytes: u64 = (0..=number).map(|picture| SHAPE.picture(picture).len() as u64).sum();
        until("its bytes", || server.count(&format!("s{number}"), "bytes_in") == bytes);
    }
    drop(publishers);
    let live = || {
        get(server.address(), "/api/streams").json()["streams"]
            .as_array()
            .map_or(0, |list| list.iter().filter(|stream| stream["live"] == true).count())
    };
    until("all to be off", || live() == 0);
}

#[test]
fn a_publish_key_is_asked_for() {
    let (server, _scratch) = serve_with("[publish]\nkey = 'correct-horse'\n");
    let put = |target: &str, field: &[&str]| {
        let fields = [&["Content-Length: 0"], field].concat();
        ask(server.address(), "PUT", target, &fields)
    };
    for (target, fields) in [
        ("/live/a.ts", &[][..]),
        ("/live/a.ts?key=correct-hors", &[]),
        ("/live/a.ts?key=correct-horse2", &[]),
        ("/live/a.ts", &["Authorization: Bearer wrong-horse"]),
    ] {
        let refused = put(target, fields);
        assert!(matches!(refused.status, 401 | 403), "{target}: {}", refused.status);
        assert!(!refused.text().contains("correct-horse"), "the key is told");
    }
    assert_eq!(put("/live/a.ts?key=correct-horse", &[]).status, 204);
    assert_eq!(put("/live/a.ts", &["Authorization: Bearer correct-horse"]).status, 204);
    let log = server.process.output();
    assert!(!log.contains("correct-horse"), "the key is in the log: {log}");
}

#[test]
fn a_foreign_page_may_not_publish_through_a_browser() {
    let server = serve(&[]);
    let put =
        ask(server.address(), "PUT", "/live/a.ts", &["Origin: https://evil.example", "Content-Length: 0"]);
    assert_eq!(put.status, 403);
}

/// Where a server on all interfaces is reached from outside loopback.
fn from_outside(test: &str, arguments: &[&str]) -> Option<(Server, SocketAddr)> {
    let Some(address) = outer_address() else {
        skip(test, "this machine has no address but loopback");
        return None;
    };
    let server = Server::start_at(crate::GLASSLINE, "0.0.0.0:0", arguments);
    let outside = SocketAddr::new(address.into(), server.address().port());
    Some((server, outside))
}

#[test]
fn without_a_key_nobody_publishes_from_outside() {
    let Some((server, outside)) = from_outside("without_a_key_nobody_publishes_from_outside", &[]) else {
        return;
    };
    let refused = ask(outside, "PUT", "/live/a.ts", &["Content-Length: 0"]);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("--open-publish"), "{}", refused.text());
    assert_eq!(get(outside, "/healthz").status, 200);
    assert!(server.stream("a").is_none());
}

#[test]
fn open_publish_lets_anybody_in() {
    let Some((_server, outside)) = from_outside("open_publish_lets_anybody_in", &["--open-publish"]) else {
        return;
    };
    assert_eq!(ask(outside, "PUT", "/live/a.ts", &["Content-Length: 0"]).status, 204);
}
