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

/// Sends a piece of a stream in a request of its own, on a connection of its own.
fn put(server: &Server, target: &str, body: &[u8], fields: &[&str]) -> u16 {
    let mut connection = connect(server.address());
    put_on(&mut connection, target, body, &[fields, &["Connection: close"]].concat())
}

fn put_on(connection: &mut std::net::TcpStream, target: &str, body: &[u8], fields: &[&str]) -> u16 {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    write!(
        connection,
        "PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    )
    .unwrap();
    connection.write_all(body).unwrap();
    read_head(connection).status
}

/// What begins with the first picture, cut into pieces that keep no packet.
fn pieces(pictures: u64, piece: usize) -> Vec<Vec<u8>> {
    let bytes: Vec<u8> = (0..pictures).flat_map(|picture| SHAPE.picture(picture)).collect();
    bytes.chunks(piece).map(<[u8]>::to_vec).collect()
}

/// Reads whole packets until `packets` were right. The head is read already.
fn sees_one_stream(viewer: &mut std::net::TcpStream, packets: u64) {
    let (mut check, mut packet) = (Check::new(SHAPE), [0; 188]);
    while check.packets < packets {
        viewer.read_exact(&mut packet).unwrap();
        check.push(&packet).unwrap();
    }
}

#[test]
fn a_publisher_that_puts_piece_by_piece_is_one_publisher() {
    for (how, says_where, keeps) in
        [("by place", true, false), ("by its packets", false, false), ("on one connection", true, true)]
    {
        let server = serve(&[]);
        let target = "/live/pieces.ts";
        let (mut viewer, mut sent) = (None, 0);
        let mut kept = connect(server.address());
        for (number, piece) in pieces(20, 777).into_iter().enumerate() {
            let place = format!("Content-Range: bytes {sent}-{}/*", sent + piece.len() - 1);
            let fields: &[&str] = if says_where && number > 0 { &[&place] } else { &[] };
            let status = if keeps {
                put_on(&mut kept, target, &piece, fields)
            } else {
                put(&server, target, &piece, fields)
            };
            assert_eq!(status, 204, "{how}: piece {number}");
            sent += piece.len();
            if number > 1 {
                assert_eq!(server.stream("pieces").unwrap()["live"], true, "{how}: piece {number}");
            }
            if number == 8 {
                let mut watching = connect(server.address());
                write!(watching, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                assert_eq!(read_head(&mut watching).status, 200);
                viewer = Some(watching);
            }
        }
        // The viewer has joined at the second key frame.
        sees_one_stream(&mut viewer.unwrap(), 5 * 14);
        assert_eq!(server.count("pieces", "publishers"), 1, "{how}");
        assert_eq!(
            (server.count("pieces", "garbage_bytes"), server.count("pieces", "bytes_in")),
            (0, sent as u64)
        );
        assert_eq!(server.count("pieces", "continuity_errors"), 0, "{how}");
        // Another one does not get its name as long as it may go on; who takes over does.
        let other = put(&server, target, &SHAPE.picture(0), &["User-Agent: other"]);
        assert_eq!(other, 409, "{how}");
        assert_eq!(
            put(&server, &format!("{target}?takeover=1"), &SHAPE.picture(0), &["User-Agent: other"]),
            204
        );
        assert_eq!(server.count("pieces", "publishers"), 2);
    }
}

#[test]
fn who_puts_another_stream_is_another_publisher() {
    let server = serve(&[]);
    let first: Vec<u8> = (0..6).flat_map(|picture| SHAPE.picture(picture)).collect();
    let publishers = || server.count("again", "publishers");
    assert_eq!(put(&server, "/live/again.ts", &first, &[]), 204);
    // The same file once more: its packets begin anew.
    assert_eq!(put(&server, "/live/again.ts", &first, &[]), 204);
    assert_eq!(publishers(), 2);
    // Another program, another place than where the last one ended, a body without a length.
    assert_eq!(put(&server, "/live/again.ts", &SHAPE.picture(6), &["User-Agent: other"]), 204);
    assert_eq!(publishers(), 3);
    let place = "Content-Range: bytes 5-6/*";
    assert_eq!(put(&server, "/live/again.ts", &SHAPE.picture(7), &["User-Agent: other", place]), 204);
    assert_eq!(publishers(), 4);
    let mut endless = publish(server.address(), "/live/again.ts");
    endless.write_all(&SHAPE.picture(8)).unwrap();
    until("the next publisher", || publishers() == 5);
}

#[test]
fn a_publisher_whose_pieces_stop_gives_up_its_name() {
    let (server, _scratch) = serve_with("[publish]\nsilence_timeout = '1s'\n");
    for piece in pieces(6, 777) {
        assert_eq!(put(&server, "/live/stops.ts", &piece, &[]), 204);
    }
    assert_eq!(server.stream("stops").unwrap()["live"], true);
    until("its name to be given up", || server.stream("stops").is_some_and(|stream| stream["live"] == false));
    assert_eq!(put(&server, "/live/stops.ts", &SHAPE.picture(0), &["User-Agent: other"]), 204);
    assert_eq!(server.count("stops", "publishers"), 2);
}

#[test]
fn pieces_together_may_bring_no_more_than_their_publisher_may() {
    let (server, _scratch) = serve_with("[publish]\nmax_bitrate = '100k'\n");
    let statuses: Vec<u16> =
        pieces(200, 20_000).iter().map(|piece| put(&server, "/live/much.ts", piece, &[])).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}
