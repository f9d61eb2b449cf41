//! Muxes that are carried as they are: their header first, then from a place to join, and never a torn record.

use crate::hot::upgrade;
use crate::{serve, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{Answer, connect, get, publish, read_answer, read_head};
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// An FLV tag of video; `number` stands in it four times, in network order, and then again and again.
fn picture(number: u32, key_frame: bool, length: usize) -> Vec<u8> {
    let filling = number.to_be_bytes().repeat(length.div_ceil(4).max(4));
    tag(9, &[&[if key_frame { 0x17 } else { 0x27 }, 1][..], &filling].concat())
}

fn tag(kind: u8, payload: &[u8]) -> Vec<u8> {
    let (size, back) = ((payload.len() as u32).to_be_bytes(), (payload.len() as u32 + 11).to_be_bytes());
    [&[kind][..], &size[1..], &[0; 7], payload, &back].concat()
}

fn header(mark: u8) -> Vec<u8> {
    let parts = [tag(18, b"onMetaData"), tag(9, &[0x17, 0, mark]), tag(8, &[0xAF, 0, mark])];
    [b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec(), parts.concat()].concat()
}

/// Five pictures, the first of them a key frame.
fn group(first: u32) -> Vec<u8> {
    (0..5).flat_map(|index| picture(first + index, index == 0, 700)).collect()
}

/// Reads tags behind a header, and knows what may follow what.
#[derive(Default)]
struct Check {
    held: Vec<u8>,
    last: Option<u32>,
    pictures: u64,
    moves: u64,
}

impl Check {
    fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        while let Some(size) = self.held.get(1..4) {
            let end =
                11 + (usize::from(size[0]) << 16 | usize::from(size[1]) << 8 | usize::from(size[2])) + 4;
            let Some(tag) = self.held.get(..end) else { return };
            let number = u32::from_be_bytes(tag[13..17].try_into().unwrap());
            let is_key_frame = tag[11] == 0x17;
            assert_eq!(tag, picture(number, is_key_frame, end - 17), "a torn record");
            match self.last {
                Some(last) if number == last + 1 => {}
                Some(last) => {
                    assert!(number > last && is_key_frame, "{number} after {last}");
                    self.moves += 1;
                }
                None => assert!(is_key_frame, "{number} is no place to join"),
            }
            self.last = Some(number);
            self.pictures += 1;
            self.held.drain(..end);
        }
    }
}

fn watch(server: &Server, target: &str) -> (Answer, TcpStream) {
    let mut viewer = connect(server.address());
    write!(viewer, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    (read_head(&mut viewer), viewer)
}

fn read(viewer: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    viewer.read_exact(&mut bytes).unwrap();
    bytes
}

fn wait_for_bytes(server: &Server, name: &str, bytes: usize) {
    until("the bytes to have come", || server.count(name, "bytes_in") >= bytes as u64);
}

#[test]
fn a_viewer_gets_the_header_and_the_stream_from_its_newest_key_frame() {
    let server = serve(&[]);
    let wire = [header(1), group(0), group(5), group(10)].concat();
    let mut publisher = publish(server.address(), "/live/a.flv");
    for chop in wire.chunks(101) {
        publisher.write_all(chop).unwrap();
    }
    wait_for_bytes(&server, "a", wire.len());
    let (head, mut viewer) = watch(&server, "/live/a.flv");
    assert_eq!((head.status, head.header("content-type")), (200, Some("video/x-flv")));
    let expected = [header(1), group(10)].concat();
    assert_eq!(read(&mut viewer, expected.len()), expected);
    publisher.write_all(&group(15)).unwrap();
    assert_eq!(read(&mut viewer, group(15).len()), group(15));
    let told = server.stream("a").unwrap();
    assert_eq!(
        (told["mux"].as_str(), told["codecs"].as_array().map(Vec::len)),
        (Some("flv"), Some(2)),
        "{told}"
    );
    // Its page is there, and so are all others.
    assert_eq!(get(server.address(), "/watch/a").status, 200);
}

#[test]
fn a_name_has_one_mux() {
    let server = serve(&[]);
    let mut first = publish(server.address(), "/live/a.flv");
    let wire = [header(1), group(0)].concat();
    first.write_all(&wire).unwrap();
    wait_for_bytes(&server, "a", wire.len());
    let wrong = get(server.address(), "/live/a.ts");
    assert_eq!((wrong.status, wrong.json()["title"].as_str()), (404, Some("this stream is FLV")));
    assert_eq!(wrong.json()["detail"].as_str(), Some("It is at /live/a.flv."));

    let refused = read_answer(&mut publish(server.address(), "/live/a.webm"));
    assert_eq!((refused.status, refused.json()["title"].as_str()), (409, Some("stream a is FLV")));
    // Also while its publisher may still return.
    drop(first);
    until("the publisher to be gone", || server.stream("a").is_some_and(|stream| stream["live"] == false));
    assert_eq!(read_answer(&mut publish(server.address(), "/live/a.ts")).status, 409);

    let (_, mut viewer) = watch(&server, "/live/a.flv");
    let mut second = publish(server.address(), "/live/a.ogg?takeover=1");
    second.write_all(b"OggS").unwrap();
    until("the other mux", || server.stream("a").is_some_and(|stream| stream["mux"] == "ogg"));
    let mut all = Vec::new();
    viewer.read_to_end(&mut all).unwrap();
    assert_eq!(all, wire, "who watched the first one has all of it and goes");
}

#[test]
fn what_is_not_the_mux_of_its_address_is_refused() {
    let server = serve(&[]);
    for (extension, wrong, advice) in [
        ("flv", &[0x47; 188][..], "FLV"),
        ("webm", b"FLV\x01\x05\0\0\0\x09", "WebM"),
        (
            "ogg",
            b"\x1A\x45\xDF\xA3\x9F\x42\x86\x81\x01\x42\xF7\x81\x01\x42\xF2\x81\x04\x42\xF3\x81\x08\x42\x82",
            "Ogg",
        ),
    ] {
        let mut publisher = publish(server.address(), &format!("/live/a.{extension}?takeover=1"));
        publisher.write_all(wrong).unwrap();
        let refused = read_answer(&mut publisher);
        let said = refused.json();
        assert_eq!(refused.status, 415, "{said}");
        assert!(said["detail"].as_str().unwrap().contains(advice), "{said}");
    }
    let mut huge = publish(server.address(), "/live/b.flv");
    huge.write_all(b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x12\xFF\xFF\xFF\0\0\0\0\0\0\0onMeta").unwrap();
    let refused = read_answer(&mut huge);
    let title = refused.json()["title"].as_str().unwrap_or_default().to_owned();
    assert!(refused.status == 415 && title.contains("a header of 16777230 bytes"), "{title}");
    assert_eq!(read_answer(&mut publish(server.address(), "/live/a.avi")).status, 404);
}

#[test]
fn viewers_stay_where_a_publisher_returns_with_its_header_and_go_where_it_does_not() {
    let server = serve(&[]);
    let mut expected = Vec::new();
    let (mut viewer, mut publisher) = (None, None);
    for session in 0..3u32 {
        drop(publisher.take());
        until("the publisher slot to be free", || {
            server.stream("a").is_none_or(|stream| stream["live"] == false)
        });
        let mut next = publish(server.address(), "/live/a.flv");
        next.write_all(&[header(7), group(session * 5)].concat()).unwrap();
        expected.extend(group(session * 5));
        let viewer = viewer.get_or_insert_with(|| {
            wait_for_bytes(&server, "a", header(7).len() + group(0).len());
            let mut viewer = watch(&server, "/live/a.flv").1;
            assert_eq!(read(&mut viewer, header(7).len()), header(7));
            viewer
        });
        assert_eq!(read(viewer, group(0).len()), group(session * 5));
        publisher = Some(next);
    }
    let mut viewer = viewer.unwrap();
    drop(publisher);
    until("the publisher slot to be free", || {
        server.stream("a").is_none_or(|stream| stream["live"] == false)
    });
    let mut other = publish(server.address(), "/live/a.flv");
    other.write_all(&[header(8), group(0)].concat()).unwrap();
    let mut rest = Vec::new();
    viewer.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{} bytes behind another header", rest.len());
    let (_, mut viewer) = watch(&server, "/live/a.flv");
    assert_eq!(read(&mut viewer, header(8).len()), header(8));
}

/// Connects with a small receive buffer and reads nothing but the head.
fn stuck_viewer(server: &Server, buffer_bytes: usize) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(buffer_bytes).unwrap();
    socket.connect(&server.address().into()).unwrap();
    let mut viewer = TcpStream::from(socket);
    viewer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(viewer, "GET /live/a.flv HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

#[test]
fn who_falls_behind_leaves_at_a_records_end_and_goes_on_at_a_key_frame() {
    // One whose record's rest is no longer there is cut off instead, and that is counted: rare, and a matter of chance.
    assert!((0..5).any(|_| falls_behind()), "each time it was cut off");
}

/// Whether the viewer was moved, and not cut off.
fn falls_behind() -> bool {
    let (server, _scratch) = serve_with("[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\n");
    let mut publisher = publish(server.address(), "/live/a.flv");
    publisher.write_all(&[header(1), group(0)].concat()).unwrap();
    wait_for_bytes(&server, "a", header(1).len() + group(0).len());
    let mut viewer = stuck_viewer(&server, 16 << 10);
    assert_eq!(read(&mut viewer, header(1).len()), header(1));
    // Far more than socket buffers and backlog hold, then a last group that the viewer is to see in any case.
    let mut number = 5;
    for _ in 0..3000 {
        let length = 500 + number as usize * 37 % 4000;
        let pictures: Vec<u8> = (0..5).flat_map(|at| picture(number + at, at == 0, length)).collect();
        publisher.write_all(&pictures).unwrap();
        number += 5;
    }
    let (mut check, mut buffer) = (Check::default(), vec![0; 64 << 10]);
    while check.last < Some(number - 1) {
        let count = read_once(&mut viewer, &mut buffer).unwrap();
        if count == 0 {
            assert_eq!(server.count("a", "cut_off"), 1, "ended after picture {:?}", check.last);
            return false;
        }
        check.push(&buffer[..count]);
    }
    assert!(check.moves > 0 && check.pictures > 10, "{} moves, {} pictures", check.moves, check.pictures);
    // One who is moved again before a byte of it has left sees one move.
    let moved = server.count("a", "moved_forward");
    assert!(moved >= check.moves, "{moved} moves, {} of them seen", check.moves);
    assert_eq!(server.count("a", "cut_off"), 0);
    true
}

#[test]
fn who_falls_behind_in_a_record_whose_rest_is_gone_is_ended_and_counted() {
    let (server, _scratch) = serve_with("[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\n");
    let mut publisher = publish(server.address(), "/live/a.flv");
    let long = picture(0, true, 15 << 20);
    publisher.write_all(&[header(1), long[..2000].to_vec()].concat()).unwrap();
    wait_for_bytes(&server, "a", header(1).len() + 2000);
    let mut viewer = stuck_viewer(&server, 256 << 10);
    // One that has had nothing of the record yet, since its worker had no processor for that long, may be moved instead.
    let begun_bytes = [&header(1), &long[..1000]].concat();
    assert!(read(&mut viewer, begun_bytes.len()) == begun_bytes);
    publisher.write_all(&long[2000..]).unwrap();
    for number in 1..20 {
        publisher.write_all(&picture(number, true, 500_000)).unwrap();
    }
    wait_for_bytes(&server, "a", header(1).len() + long.len() + 19 * 500_000);
    // All of that may have come within the second that is kept in any case: the stream goes on for longer.
    let begun = Instant::now();
    for number in 20.. {
        publisher.write_all(&picture(number, true, 10_000)).unwrap();
        if begun.elapsed() > Duration::from_millis(1_500) {
            break;
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    let (mut all, mut buffer) = (begun_bytes, vec![0; 64 << 10]);
    loop {
        match read_once(&mut viewer, &mut buffer) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => {
                panic!("{error} after {} bytes, moved {}", all.len(), server.count("a", "moved_forward"))
            }
        }
    }
    let expected = [header(1), long].concat();
    assert!(all.len() < expected.len(), "{} bytes", all.len());
    assert!(all == expected[..all.len()], "another byte");
    until("the end to be counted", || server.count("a", "cut_off") == 1);
    assert_eq!(server.metrics().sum("glassline_stream_viewers_cut_off_total", "\"a\""), 1.0);
    assert_eq!(server.count("a", "moved_forward"), 0);
}

#[test]
fn viewers_begin_further_back_where_they_are_to() {
    let config = "[viewer]\nprebuffer = '8000B'\n[stream.b]\nprebuffer = '10m'\nbacklog = '20s'\nbacklog_max = '2MiB'\n";
    let (server, _scratch) = serve_with(config);
    let groups = [group(0), group(5), group(10), group(15)];
    let wire = [header(1), groups.concat()].concat();
    let mut publishers = Vec::new();
    for name in ["a", "b"] {
        let mut publisher = publish(server.address(), &format!("/live/{name}.flv"));
        for group in [&header(1)[..], &groups[0], &groups[1], &groups[2], &groups[3]] {
            publisher.write_all(group).unwrap();
            // Places to join that come all at once are one to a viewer who asks for a time.
            std::thread::sleep(Duration::from_millis(120));
        }
        publishers.push(publisher);
        wait_for_bytes(&server, name, wire.len());
    }
    for (target, first) in [
        ("/live/a.flv", 1),
        ("/live/a.flv?prebuffer=0", 3),
        ("/live/a.flv?prebuffer=600", 0),
        ("/live/b.flv", 0),
        ("/live/b.flv?prebuffer=0", 3),
    ] {
        let expected = [header(1), groups[first..].concat()].concat();
        let (head, mut viewer) = watch(&server, target);
        assert_eq!(head.status, 200, "{target}");
        assert!(read(&mut viewer, expected.len()) == expected, "{target}");
    }
    for bad in ["x", "-1", "601", "NaN", ""] {
        let refused = get(server.address(), &format!("/live/a.flv?prebuffer={bad}"));
        assert_eq!(refused.status, 400, "{bad:?}");
    }
}

#[test]
fn an_upgrade_is_not_seen_by_who_watches_a_carried_mux() {
    let (mut server, scratch) = serve_with("[viewer]\nbacklog = '60s'\n");
    let config = scratch.file("glassline.toml");
    let wire = [header(1), group(0), group(5)].concat();
    let mut publisher = publish(server.address(), "/live/a.flv");
    // Cut in the middle of a record, and before that in the middle of the header.
    let mut early = publish(server.address(), "/live/early.flv");
    early.write_all(&wire[..20]).unwrap();
    publisher.write_all(&wire[..wire.len() - 300]).unwrap();
    wait_for_bytes(&server, "a", wire.len() - 300);
    wait_for_bytes(&server, "early", 20);
    let (_, mut viewer) = watch(&server, "/live/a.flv");
    let begun = [header(1), group(5)].concat();
    assert_eq!(read(&mut viewer, begun.len() - 300), begun[..begun.len() - 300]);
    upgrade(&mut server, &config);
    publisher.write_all(&wire[wire.len() - 300..]).unwrap();
    publisher.write_all(&group(10)).unwrap();
    assert_eq!(read(&mut viewer, 300), begun[begun.len() - 300..]);
    assert_eq!(read(&mut viewer, group(10).len()), group(10));
    early.write_all(&wire[20..]).unwrap();
    wait_for_bytes(&server, "early", wire.len());
    // Places to join from before the upgrade have their header.
    for (target, expected) in [
        ("/live/a.flv", [header(1), group(10)].concat()),
        ("/live/a.flv?prebuffer=600", [header(1), group(0), group(5), group(10)].concat()),
        ("/live/early.flv", [header(1), group(5)].concat()),
    ] {
        let (_, mut viewer) = watch(&server, target);
        assert!(read(&mut viewer, expected.len()) == expected, "{target}");
    }
}

/// The next Metacube2 block: its flags and bytes.
fn block(viewer: &mut TcpStream) -> (u16, Vec<u8>) {
    let head = read(viewer, 16);
    assert_eq!(&head[..8], b"cube!map");
    let size = u32::from_be_bytes(head[8..12].try_into().unwrap());
    (u16::from_be_bytes([head[12], head[13]]), read(viewer, size as usize))
}

#[test]
fn in_metacube_the_header_is_a_header_block() {
    let server = serve(&[]);
    let wire = [header(1), group(0), group(5)].concat();
    let mut publisher = publish(server.address(), "/live/a.flv");
    publisher.write_all(&wire).unwrap();
    wait_for_bytes(&server, "a", wire.len());
    let (head, mut viewer) = watch(&server, "/live/a.flv?encoding=metacube");
    assert_eq!((head.status, head.header("content-encoding")), (200, Some("metacube")));
    assert_eq!(head.header("content-type"), Some("video/x-flv"));
    assert_eq!(block(&mut viewer), (1, header(1)));
    assert_eq!(block(&mut viewer), (0, group(5)));
    publisher.write_all(&picture(10, false, 50)).unwrap();
    assert_eq!(block(&mut viewer), (2, picture(10, false, 50)));
    publisher.write_all(&[picture(11, false, 50), group(12)].concat()).unwrap();
    let mut got = Vec::new();
    while got.len() < picture(11, false, 50).len() + group(12).len() {
        let (flags, bytes) = block(&mut viewer);
        let at_key_frame = bytes[..12] == group(12)[..12];
        assert_eq!(flags, if at_key_frame { 0 } else { 2 });
        got.extend(bytes);
    }
    assert_eq!(got, [picture(11, false, 50), group(12)].concat());
}

#[test]
fn a_relay_pulls_what_another_one_carries() {
    let origin = serve(&[]);
    let wire = [header(1), group(0), group(5)].concat();
    let mut publisher = publish(origin.address(), "/live/near.flv");
    publisher.write_all(&wire).unwrap();
    wait_for_bytes(&origin, "near", wire.len());
    for query in ["", "?encoding=metacube"] {
        let source = origin.url(&format!("/live/near.flv{query}"));
        let (edge, _scratch) = serve_with(&format!("[stream.far]\nsource = '{source}'\n"));
        until("the source to be live", || {
            edge.count("far", "bytes_in") >= (header(1).len() + group(5).len()) as u64
        });
        assert_eq!(edge.stream("far").unwrap()["mux"], "flv");
        let (_, mut viewer) = watch(&edge, "/live/far.flv");
        let expected = [header(1), group(5)].concat();
        assert_eq!(read(&mut viewer, expected.len()), expected);
    }
}

#[test]
fn a_mux_that_is_not_known_is_carried_by_what_metacube_says_of_it() {
    let origin = serve(&[]);
    let wire = [header(1), group(0), group(5)].concat();
    let mut publisher = publish(origin.address(), "/live/near.flv");
    publisher.write_all(&wire).unwrap();
    wait_for_bytes(&origin, "near", wire.len());
    let source = origin.url("/live/near.flv?encoding=metacube");
    let config = format!(
        "[stream.far]\nsource = '{source}'\nmux = 'raw'\n[stream.bare]\nsource = '{}'\nmux = 'raw'\n",
        origin.url("/live/near.flv")
    );
    let (edge, _scratch) = serve_with(&config);
    until("the source's bytes", || {
        edge.count("far", "bytes_in") >= (header(1).len() + group(5).len()) as u64
    });
    for picture in [picture(10, false, 80), picture(11, true, 80), picture(12, false, 80)] {
        publisher.write_all(&picture).unwrap();
    }
    let all = header(1).len() + group(5).len() + 3 * picture(0, true, 80).len();
    until("the source's bytes", || edge.count("far", "bytes_in") == all as u64);
    let (head, mut viewer) = watch(&edge, "/live/far.raw");
    assert_eq!((head.status, head.header("content-type")), (200, Some("video/x-flv")));
    // Where the three came together, the origin has still begun a block with the key frame.
    let expected = [header(1), picture(11, true, 80), picture(12, false, 80)].concat();
    assert_eq!(read(&mut viewer, expected.len()), expected);
    let (_, mut blocks) = watch(&edge, "/live/far.raw?encoding=metacube");
    assert_eq!(block(&mut blocks), (1, header(1)));
    assert_eq!(block(&mut blocks).0, 0);

    let told = |name: &str| edge.stream(name).unwrap();
    assert_eq!(told("far")["mux"], "raw");
    until("the complaint", || told("bare")["source"]["error"].as_str().is_some());
    let error = told("bare")["source"]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("bytes in no Metacube block"), "{error}");
    let mut pushed = publish(edge.address(), "/live/other.raw");
    pushed.write_all(b"anything").unwrap();
    assert_eq!(read_answer(&mut pushed).status, 415);
}
