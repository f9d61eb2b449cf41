//! What strangers send: each gets a clear answer, and the server is as it was.

use crate::{serve, serve_with};
use glassline_test_support::http::{Answer, ask, connect, get, publish, raw, read_answer, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::wait::until;
use std::io::{Read, Write};

const SHAPE: Shape = Shape { packets: 5, group: 5 };

/// Checks that an answer is problem JSON (RFC 9457) of this status, with a sentence that says what to do.
fn assert_problem(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    for field in ["title", "detail"] {
        assert!(problem[field].as_str().is_some_and(|text| text.len() > 5), "{field} of {problem}");
    }
}

#[test]
fn a_body_that_is_no_transport_stream_is_refused() {
    let server = serve(&[]);
    for (name, body) in [
        ("zeros", vec![0; 300_000]),
        ("text", b"no transport stream at all ".repeat(12_000)),
        ("sync bytes without packets", [vec![0x47; 1], vec![b'x'; 300_000]].concat()),
        (
            "an mp4 file",
            [b"\0\0\0\x20ftypisom".to_vec(), (0..300_000u32).map(|at| (at * 7) as u8 & 0x3F).collect()]
                .concat(),
        ),
    ] {
        let head = format!(
            "PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = raw(server.address(), &[head.as_bytes(), &body].concat()).expect(name);
        assert_problem(&answer, 415);
        until("the name to be free", || server.stream("a").is_none_or(|stream| stream["live"] == false));
    }
}

#[test]
fn a_truncated_transport_stream_is_passed_on_up_to_its_last_whole_packet() {
    let server = serve(&[]);
    let picture = SHAPE.picture(0);
    let mut publisher = publish(server.address(), "/live/cut.ts");
    publisher.write_all(&picture[..picture.len() - 100]).unwrap();
    until("its bytes", || server.count("cut", "bytes_in") == picture.len() as u64 - 100);
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/cut.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    drop(publisher);
    until("its end", || server.stream("cut").is_some_and(|stream| stream["live"] == false));
    // Another publisher goes on; the torn packet is not in between.
    let mut publisher = publish(server.address(), "/live/cut.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    // Two tables and four packets before; one packet on each of three PIDs that announces the seam; all after.
    let mut got = vec![0; (2 + 4 + 3 + 2 + 5) * 188];
    viewer.read_exact(&mut got).unwrap();
    assert!(got.chunks(188).all(|packet| packet[0] == 0x47), "a torn packet was passed on");
    assert_eq!(&got[..6 * 188], &picture[..6 * 188]);
}

#[test]
fn a_silent_publisher_is_told_and_gives_up_its_name() {
    let (server, _scratch) = serve_with("[publish]\nsilence_timeout = '1s'\n");
    let answer = read_answer(&mut publish(server.address(), "/live/quiet.ts"));
    assert_problem(&answer, 408);
    until("the name to be free", || server.stream("quiet").is_none());
    // One that falls silent later, too.
    let mut publisher = publish(server.address(), "/live/quiet.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    assert_problem(&read_answer(&mut publisher), 408);
    until("it to be off", || server.stream("quiet").is_none_or(|stream| stream["live"] == false));
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = serve(&[]);
    let line = [b"GET / HTTP/1.1\r\nHost: h\r\nX: ".as_slice(), &vec![b'a'; 64 << 10], b"\r\n\r\n"].concat();
    assert_problem(&raw(server.address(), &line).expect("an answer"), 431);
    let many: String = (0..500).map(|number| format!("X-{number}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n");
    assert_problem(&raw(server.address(), many.as_bytes()).expect("an answer"), 431);
    let target = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(64 << 10));
    let answer = raw(server.address(), target.as_bytes()).expect("an answer");
    assert!(matches!(answer.status, 414 | 431), "{}", answer.status);
}

#[test]
fn a_head_that_comes_too_slowly_is_given_up() {
    let server = serve(&[]);
    // Half a head, and nothing more: the limit is ten seconds from its first byte.
    let mut slow = connect(server.address());
    slow.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap();
    // One that sends a byte now and then is given up all the same.
    let mut dripping = connect(server.address());
    dripping.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let dripper = dripping.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let mut dripper = dripper;
        while dripper.write_all(b"X").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    });
    // Meanwhile others are served.
    assert_eq!(get(server.address(), "/healthz").status, 200);
    assert_problem(&read_answer(&mut slow), 408);
    assert_problem(&read_answer(&mut dripping), 408);
    drop(dripping);
    drip.join().unwrap();
}

#[test]
fn what_is_no_request_is_refused() {
    let server = serve(&[]);
    for (bytes, status) in [
        (b"BLAH\r\n\r\n".as_slice(), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
        (b"PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
    ] {
        let answer = raw(server.address(), bytes).unwrap_or_else(|| panic!("no answer to {bytes:?}"));
        assert_problem(&answer, status);
    }
    assert_problem(&ask(server.address(), "PUT", "/live/..ts", &["Content-Length: 0"]), 404);
    assert_problem(&ask(server.address(), "PUT", "/live/a%2Fb.ts", &["Content-Length: 0"]), 404);
    assert_problem(&get(server.address(), "/live/none.ts"), 404);
    assert_problem(&get(server.address(), "/live/../../etc/passwd"), 404);
    assert_problem(&get(server.address(), "/no/such/page"), 404);
    let other = ask(server.address(), "DELETE", "/live/a.ts", &[]);
    assert!(matches!(other.status, 404 | 405 | 501), "{}", other.status);
}

/// What a lenient reader passes over is another request to a strict one behind it, or the other way round.
#[test]
fn what_two_readers_could_read_differently_is_refused() {
    let server = serve(&[]);
    let host = "Host: localhost\r\n";
    for wire in [
        // HTTP/1.1 has exactly one host, and nobody has two.
        "GET /healthz HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\n{host}{host}\r\n"),
        format!("GET /healthz HTTP/1.0\r\n{host}Host: other\r\n\r\n"),
        "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
        // Line feeds alone.
        "GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\n{host}\n"),
        format!("\nGET /healthz HTTP/1.1\r\n{host}\r\n"),
    ] {
        assert_problem(&raw(server.address(), wire.as_bytes()).expect("an answer"), 400);
    }
    for body in [
        "5 \r\nhello\r\n0\r\n\r\n",
        "5x\r\nhello\r\n0\r\n\r\n",
        "5;=\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nA\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
    ] {
        let wire = format!("POST /api/none HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n{body}");
        assert_problem(
            &raw(server.address(), wire.as_bytes()).unwrap_or_else(|| panic!("no answer to {body:?}")),
            400,
        );
    }
    for fine in [
        "GET /healthz HTTP/1.0\r\n\r\n".to_owned(),
        format!("\r\nGET http://localhost/healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
    ] {
        assert_eq!(raw(server.address(), fine.as_bytes()).expect("an answer").status, 200, "{fine:?}");
    }
}

#[test]
fn strangers_cost_no_memory() {
    let server = serve(&[]);
    let round = |round: u32| {
        for number in 0..200u32 {
            let garbage: Vec<u8> = (0..2000u32)
                .map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(round * 1000 + number) >> 13) as u8)
                .collect();
            let prefix: &[u8] = match number % 5 {
                0 => b"",
                1 => b"GET / HTTP/1.1\r\n",
                2 => b"PUT /live/g.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                3 => b"PUT /live/g.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                _ => b"POST /api/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
            };
            let mut stream = connect(server.address());
            let _ = stream.write_all(&[prefix, &garbage].concat());
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        until("all of them to be let go", || {
            let body = get(server.address(), "/api/streams").json();
            body["streams"].as_array().is_some_and(|list| list.iter().all(|stream| stream["live"] == false))
        });
    };
    round(0);
    let (memory, descriptors) = (server.own_memory_bytes(), server.descriptors());
    (1..8).for_each(round);
    until("its descriptors to be closed", || server.descriptors() <= descriptors + 4);
    let grown = server.own_memory_bytes().saturating_sub(memory);
    assert!(grown < 8 << 20, "1,400 strangers made the server grow by {grown} bytes from {memory}");
    assert_eq!(get(server.address(), "/healthz").status, 200);
}
