//! Streams that the relay fetches from elsewhere: from another relay, from upstreams that misbehave, from datagrams.

use crate::{GLASSLINE, serve, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{ask, connect, get, publish, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const SHAPE: Shape = Shape { packets: 5, group: 5 };
pub(crate) const HASTE: &str = "[pull]\nretry_min = '50ms'\nretry_max = '100ms'\nsilence_timeout = '2s'\n";

/// A relay that pulls these streams, quick to try again.
fn pulling(sources: &[(&str, &str)]) -> (Server, Scratch) {
    let sections = sources.iter().map(|(name, source)| format!("[stream.{name}]\nsource = '{source}'\n"));
    serve_with(&(HASTE.to_owned() + &sections.collect::<String>()))
}

/// What `/api/streams` says of a stream's source.
pub(crate) fn source(server: &Server, name: &str) -> serde_json::Value {
    server.stream(name).map_or(serde_json::Value::Null, |stream| stream["source"].clone())
}

pub(crate) fn until_live(server: &Server, name: &str) {
    until("the source to be live", || source(server, name)["state"] == "live");
}

pub(crate) fn watch(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

/// Reads until the check has seen so many video packets.
pub(crate) fn see(viewer: &mut TcpStream, check: &mut Check, packets: u64) {
    let mut buffer = [0; 4096];
    while check.packets < packets {
        let count = match read_once(viewer, &mut buffer) {
            Ok(count) => count,
            Err(error) => panic!("{error} after {} packets of {packets}", check.packets),
        };
        assert!(count > 0, "ended after {} packets", check.packets);
        check.push(&buffer[..count]).unwrap();
    }
}

/// An address on which nobody listens, nor will: other tests' servers are at 127.0.0.1, and might be given a port
/// there that is free for a moment.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.31.7.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn viewers_stay_while_the_upstream_relay_is_killed_and_comes_back() {
    viewers_stay("", false);
}

#[test]
fn viewers_stay_while_an_upstream_that_sends_metacube_is_killed_and_comes_back() {
    viewers_stay("?encoding=metacube", true);
}

fn viewers_stay(query: &str, metacube: bool) {
    // The pulling relay comes first, its source later: either order must do, and the return tries the other.
    let address = free_address();
    let (edge, _scratch) = pulling(&[("far", &format!("http://{address}/live/near.ts{query}"))]);
    until("a failure to be told", || source(&edge, "far")["failures"].as_u64() > Some(1));
    let told = source(&edge, "far");
    assert!(told["error"].as_str().is_some_and(|why| why.starts_with("cannot connect")), "{told}");
    let early = get(edge.address(), "/live/far.ts");
    assert_eq!((early.status, early.header("retry-after")), (503, Some("1")));

    let mut viewer = None;
    let mut check = Check::new(SHAPE);
    for session in 0..3 {
        let mut origin = Server::start_at(GLASSLINE, &address.to_string(), &[]);
        let mut publisher = publish(origin.address(), "/live/near.ts");
        // Each session's pictures are later ones, from a key frame on.
        let first = session * 100;
        publisher.write_all(&SHAPE.picture(first)).unwrap();
        until_live(&edge, "far");
        let bytes = || edge.count("far", "bytes_in");
        until("its first picture", || bytes() > 0);
        let viewer = viewer.get_or_insert_with(|| watch(&edge, "far"));
        // A viewer's answer may come before its place in the stream: it is at the first key frame before there is another.
        see(viewer, &mut check, (session * 10 + 1) * SHAPE.packets);
        for number in first + 1..first + 10 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
        }
        see(viewer, &mut check, (session + 1) * 10 * SHAPE.packets);
        assert_eq!(check.moves, session, "each seam is announced, and nothing else");
        origin.process.kill();
        until("the loss to be seen", || source(&edge, "far")["state"] != "live");
        assert_eq!((edge.count("far", "viewers"), edge.stream("far").unwrap()["live"] == true), (1, false));
    }
    assert_eq!(source(&edge, "far")["reconnects"], 2);
    assert_eq!((source(&edge, "far")["metacube"] == true, edge.count("far", "garbage_bytes")), (metacube, 0));
    let metrics = edge.metrics();
    assert_eq!(metrics.sum("glassline_stream_source_reconnects_total", "stream=\"far\""), 2.0);
    assert_eq!(metrics.sum("glassline_stream_source_live", "stream=\"far\""), 0.0);
    assert_eq!(edge.count("far", "continuity_errors"), 0);
}

#[test]
fn streams_of_one_source_share_one_connection() {
    let origin = serve(&[]);
    let mut publisher = publish(origin.address(), "/live/near.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the origin's stream", || origin.count("near", "bytes_in") > 0);
    // By a name, which has an IPv6 address too on most machines; nobody listens there.
    let url = format!("http://localhost:{}/live/near.ts", origin.address().port());
    let (edge, _scratch) = pulling(&[("one", &url), ("two", &url), ("three", &url)]);
    for name in ["one", "two", "three"] {
        until("the picture", || edge.count(name, "bytes_in") > 0);
        let mut check = Check::new(SHAPE);
        see(&mut watch(&edge, name), &mut check, 5);
    }
    assert_eq!(origin.count("near", "viewers"), 1);
}

/// An upstream of the test's own, which does the same on each connection. Its requests' heads are kept.
struct Upstream {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Upstream {
    fn new(
        act: impl Fn(&mut TcpStream, &str, SocketAddr) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, ended, act) = (Arc::clone(&connections), Arc::clone(&over), Arc::new(act));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                counted.fetch_add(1, Ordering::AcqRel);
                let act = Arc::clone(&act);
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if !matches!(read_once(&mut stream, &mut byte), Ok(1)) {
                            return;
                        }
                        head.push(byte[0]);
                    }
                    // The relay may hang up in the middle, as it should.
                    let _ = act(&mut stream, &String::from_utf8_lossy(&head), address);
                });
            }
        });
        Upstream { address, connections, over }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

#[test]
fn upstreams_that_misbehave_are_told_counted_and_asked_again() {
    let upstream = Upstream::new(|stream, request, address| {
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let garbage = [0xA5; 4096];
        match path.as_str() {
            "/loop" => write!(stream, "HTTP/1.1 302 Found\r\nLocation: http://{address}/loop2\r\n\r\n"),
            "/loop2" => write!(stream, "HTTP/1.1 302 Found\r\nLocation: /loop\r\n\r\n"),
            "/mid-header" => write!(stream, "HTTP/1.1 200 OK\r\nContent-Ty"),
            "/endless-header" => {
                write!(stream, "HTTP/1.1 200 OK\r\n")?;
                loop {
                    stream.write_all(b"X-More: and more\r\n")?;
                }
            }
            "/missing" => write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            "/garbage" => loop {
                stream.write_all(&garbage)?;
            },
            "/no-ts" => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&garbage)?;
                }
            }
            "/no-blocks" => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: metacube\r\n\r\n")?;
                loop {
                    stream.write_all(&garbage)?;
                }
            }
            path if path.starts_with("/further") => {
                let number: u32 = path["/further".len()..].parse().unwrap_or(0);
                write!(stream, "HTTP/1.1 307 Go\r\nLocation: /further{}\r\n\r\n", number + 1)
            }
            path => panic!("{path}"),
        }
    });
    let cases = [
        ("loop", "redirects lead in a circle"),
        ("further", "more than 5 redirects"),
        ("mid-header", "ended too early"),
        ("endless-header", "more than 64 header fields"),
        ("missing", "answered 404"),
        ("garbage", "the upstream's answer: "),
        ("no-ts", "found no MPEG-TS packets"),
        ("no-blocks", "found no Metacube block"),
    ];
    let urls = cases.map(|(name, _)| (name, upstream.url(&format!("/{name}"))));
    let (server, _scratch) = pulling(&urls.each_ref().map(|(name, url)| (*name, url.as_str())));
    let failed = |name: &str| source(&server, name)["failures"].as_u64().unwrap_or(0);
    for (name, _) in cases {
        until("three failures", || failed(name) >= 3);
    }
    let (memory, descriptors) = (server.own_memory_bytes(), server.descriptors());
    for (name, why) in cases {
        until("nine failures", || failed(name) >= 9);
        // Between attempts it says why the last one failed; while one runs it still does.
        until("the reason", || {
            source(&server, name)["error"].as_str().is_some_and(|error| error.contains(why))
        });
        // An attempt that runs has the name from the answer's head to the first bytes that are no stream.
        until("an end of the attempt", || server.stream(name).unwrap()["live"] == false);
    }
    assert!(server.own_memory_bytes() < memory + (16 << 20), "it grows");
    assert!(server.descriptors() < descriptors + 40, "descriptors leak");
    let log = server.process.output();
    for (name, why) in cases {
        let lines =
            log.lines().filter(|line| line.contains(&format!("/{name}")) && line.contains(why)).count();
        // The 1st, 2nd, 4th, 8th … failure.
        assert!((3..8).contains(&lines), "{name} is told {lines} times");
    }
    assert!(server.metrics().sum("glassline_stream_source_failures_total", "stream=\"no-ts\"") >= 9.0);
    // And everything else goes on.
    let mut publisher = publish(server.address(), "/live/good.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("a publisher's picture", || server.count("good", "bytes_in") > 0);
}

#[test]
fn redirects_are_followed_with_the_password_and_nobody_is_told_it() {
    let upstream = Upstream::new(|stream, request, _| {
        if !request.contains("Authorization: Basic dTpodXNoLWh1c2g=\r\n") {
            return write!(stream, "HTTP/1.1 401 No\r\n\r\n");
        }
        if request.starts_with("GET /first?key=hush-hush ") {
            return write!(stream, "HTTP/1.1 301 Moved\r\nLocation: second?key=hush-hush\r\n\r\n");
        }
        assert!(request.starts_with("GET /second?key=hush-hush "), "{request}");
        write!(stream, "HTTP/1.0 200 OK\r\n\r\n")?;
        for number in 0.. {
            stream.write_all(&SHAPE.picture(number))?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let url = format!("http://u:hush-hush@{}/first?key=hush-hush", upstream.address);
    let (server, _scratch) = pulling(&[("a", &url)]);
    until_live(&server, "a");
    see(&mut watch(&server, "a"), &mut Check::new(SHAPE), 100);
    let told = source(&server, "a");
    assert_eq!(told["url"], format!("http://{}/first?…", upstream.address));
    assert_eq!((told["redirects"].as_u64(), told["failures"].as_u64()), (Some(1), Some(0)));
    assert_eq!(upstream.connections.load(Ordering::Acquire), 2);
    for text in [
        server.process.output(),
        get(server.address(), "/api/streams").text(),
        get(server.address(), "/api/streams/a").text(),
        get(server.address(), "/metrics").text(),
    ] {
        assert!(!text.contains("hush") && !text.contains("aHVzaC"), "the secret is told: {text}");
    }
}

#[test]
fn a_pulled_name_takes_no_publisher() {
    let (server, _scratch) = pulling(&[("taken", &format!("http://{}/", free_address()))]);
    for target in ["/live/taken.ts", "/live/taken.ts?takeover=1"] {
        let refused = ask(server.address(), "PUT", target, &["Content-Length: 0"]);
        assert_eq!(refused.status, 409);
        assert!(refused.text().contains("pulled from its source"), "{}", refused.text());
    }
    assert_eq!(get(server.address(), "/live/other.ts").status, 404);
}

#[test]
fn a_silent_upstream_is_given_up() {
    let upstream = Upstream::new(|stream, _, _| {
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
        stream.write_all(&SHAPE.picture(0))?;
        stream.read_exact(&mut [0])
    });
    let (server, _scratch) = pulling(&[("quiet", &upstream.url("/a"))]);
    until_live(&server, "quiet");
    until("its end", || {
        source(&server, "quiet")["error"].as_str().is_some_and(|why| why == "no byte of the stream for 2 s")
    });
}

/// A Metacube2 block, made without any code of the product.
fn block(bytes: &[u8], flags: u16) -> Vec<u8> {
    [&block_header(u32::try_from(bytes.len()).unwrap(), flags)[..], bytes].concat()
}

fn block_header(size: u32, flags: u16) -> Vec<u8> {
    let message = [&size.to_be_bytes()[..], &flags.to_be_bytes(), &[0; 2]].concat();
    let mut register = 0x1234u16;
    for bit in message.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
        let carry = register >> 15 == 1;
        register = register << 1 | u16::from(bit);
        if carry {
            register ^= 0x8FDB;
        }
    }
    let checksum = if flags & 4 == 0 { register } else { !register };
    [b"cube!map", &message[..6], &checksum.to_be_bytes()].concat()
}

#[test]
fn metacube_is_unpacked_and_its_time_stamps_are_told() {
    let upstream = Upstream::new(|stream, _, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: metacube\r\n\r\n")?;
        for number in 0.. {
            // The encoder was here two seconds ago.
            let stamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(2);
            let words = [1, stamp.as_secs(), u64::from(stamp.subsec_nanos())].map(u64::to_be_bytes).concat();
            stream.write_all(&block(&words, 4))?;
            stream.write_all(&block(&SHAPE.picture(number), if number % 5 == 0 { 0 } else { 2 }))?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let (server, _scratch) = pulling(&[("cube", &upstream.url("/a"))]);
    until_live(&server, "cube");
    see(&mut watch(&server, "cube"), &mut Check::new(SHAPE), 100);
    let told = source(&server, "cube");
    assert_eq!((told["metacube"].as_bool(), told["garbage_bytes"].as_u64()), (Some(true), Some(0)));
    let delay = told["encoder_delay_ms"].as_f64().unwrap();
    assert!((2000.0..62_000.0).contains(&delay), "{delay} ms");
    assert!(server.metrics().sum("glassline_stream_source_encoder_delay_seconds", "cube") >= 2.0);
    assert_eq!(server.count("cube", "garbage_bytes"), 0);
}

/// A source that calls its bytes a page has no browser take them for one of this server's.
#[test]
fn of_what_a_source_calls_its_bytes_only_media_is_passed_on() {
    let kinds = [
        ("video/x-matroska", "video/x-matroska"),
        ("audio/ogg; codecs=opus", "audio/ogg; codecs=opus"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("video/mp4, text/html", "application/octet-stream"),
    ];
    let upstream = Upstream::new(move |stream, head, _| {
        let number: usize = head.split(['/', ' ']).nth(2).and_then(|path| path.parse().ok()).unwrap();
        let kind = kinds[number].0;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: metacube\r\nContent-Type: {kind}\r\n\r\n")?;
        stream.write_all(&block(b"<script>alert(1)</script>", 1))?;
        loop {
            stream.write_all(&block(b"<script>alert(1)</script>", 0))?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let sections = (0..kinds.len()).map(|number| {
        format!("[stream.s{number}]\nsource = '{}'\nmux = 'raw'\n", upstream.url(&format!("/{number}")))
    });
    let (server, _scratch) = serve_with(&(HASTE.to_owned() + &sections.collect::<String>()));
    for (number, (told, expected)) in kinds.iter().enumerate() {
        until_live(&server, &format!("s{number}"));
        let head = ask(server.address(), "HEAD", &format!("/live/s{number}.raw"), &[]);
        assert_eq!((head.status, head.header("content-type")), (200, Some(*expected)), "{told}");
        assert_eq!(head.header("content-security-policy"), Some("sandbox"), "{told}");
        assert_eq!(head.header("x-content-type-options"), Some("nosniff"), "{told}");
    }
}

/// Sends pictures in datagrams of up to seven packets until `done`, slowly enough for any receiver.
fn send_datagrams(sender: &UdpSocket, to: SocketAddr, from: u64, mut done: impl FnMut() -> bool) -> u64 {
    for number in from.. {
        for datagram in SHAPE.picture(number).chunks(7 * 188) {
            sender.send_to(datagram, to).unwrap();
        }
        if done() {
            return number;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    unreachable!()
}

/// A port at which no datagrams are received.
pub(crate) fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn sees_datagrams(url: &str, sender: &UdpSocket, to: SocketAddr) {
    let (server, _scratch) = pulling(&[("udp", url)]);
    let mut last = send_datagrams(sender, to, 0, || source(&server, "udp")["state"] == "live");
    let mut viewer = watch(&server, "udp");
    let mut check = Check::new(SHAPE);
    for session in 1..3 {
        let target = server.count("udp", "bytes_in") + 100 * 188;
        last = send_datagrams(sender, to, last + 1, || server.count("udp", "bytes_in") > target);
        let seen = check.packets;
        see(&mut viewer, &mut check, seen + 50);
        while check.moves + 1 < session {
            let seen = check.packets;
            see(&mut viewer, &mut check, seen + 1);
        }
        assert_eq!(source(&server, "udp")["datagrams_dropped"], 0);
        until("silence to be seen", || source(&server, "udp")["state"] == "waiting");
        let why = source(&server, "udp")["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(why, "no datagram for 2 s");
        assert_eq!(server.count("udp", "viewers"), 1);
        // The next session begins at a key frame.
        last = last.next_multiple_of(SHAPE.group) + SHAPE.group - 1;
    }
    assert_eq!((source(&server, "udp")["reconnects"].as_u64(), check.moves), (Some(1), 1));
}

#[test]
fn datagrams_to_our_address_are_a_stream() {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    sees_datagrams(&format!("udp://{to}"), &UdpSocket::bind("127.0.0.1:0").unwrap(), to);
}

#[test]
fn a_multicast_group_is_joined_for_one_sender() {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let to = SocketAddr::from((Ipv4Addr::new(239, 255, 77, 9), free_port()));
    sees_datagrams(&format!("udp://@{to}?interface=lo&source=127.0.0.1"), &socket.into(), to);
}

#[test]
fn datagrams_that_are_no_stream_are_told() {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (server, _scratch) =
        pulling(&[("noise", &format!("udp://{to}")), ("lost", "udp://239.1.2.3:9?interface=nowhere0")]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let complains = |name: &str, why: &str| {
        source(&server, name)["error"].as_str().is_some_and(|error| error.contains(why))
    };
    until("noise to be told", || {
        (0..10).for_each(|_| drop(sender.send_to(&[0xA5; 1400], to)));
        complains("noise", "found no MPEG-TS packets")
    });
    until("the interface to be told", || complains("lost", "no network interface \"nowhere0\""));
}

/// Takes a stream out of its blocks.
#[derive(Default)]
struct Blocks {
    held: Vec<u8>,
    /// Flags and bytes of each whole block.
    whole: Vec<(u16, Vec<u8>)>,
}

impl Blocks {
    fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        while let Some(head) = self.held.get(..16) {
            let size = u32::from_be_bytes(head[8..12].try_into().unwrap());
            let flags = u16::from_be_bytes([head[12], head[13]]);
            assert_eq!(head, block_header(size, flags), "a header that is none");
            let Some(block) = self.held.get(16..16 + size as usize) else { return };
            self.whole.push((flags, block.to_vec()));
            self.held.drain(..16 + size as usize);
        }
    }
}

fn watch_blocks(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{name}.ts?encoding=metacube HTTP/1.0\r\n\r\n").unwrap();
    let head = read_head(&mut viewer);
    assert_eq!((head.status, head.header("content-encoding")), (200, Some("metacube")));
    viewer
}

#[test]
fn metacube_says_where_headers_and_key_frames_are() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the first picture", || server.count("a", "bytes_in") > 0);
    let mut viewer = watch_blocks(&server, "a");
    let (mut blocks, mut check, mut buffer) = (Blocks::default(), Check::new(SHAPE), [0; 4096]);
    let (mut headers, mut starts) = (0, 0);
    for number in 1..100 {
        // Each picture arrives whole, with no later one to push it.
        while check.packets < number * SHAPE.packets {
            let count = read_once(&mut viewer, &mut buffer).unwrap();
            assert!(count > 0);
            blocks.push(&buffer[..count]);
            for (flags, block) in blocks.whole.drain(..) {
                let key = block[4..6] == [1, 0x40] && block[3] & 0x20 != 0;
                let tables = block[1..3] == [0x40, 0];
                match flags {
                    1 => headers += 1,
                    0 => starts += 1,
                    2 => assert!(!key, "a key frame that is not told"),
                    other => panic!("flags {other}"),
                }
                assert!(flags != 0 || key, "a place to begin without a key frame");
                assert!(flags != 1 || tables && block.len() == 2 * 188, "a header of {} bytes", block.len());
                check.push(&block).unwrap();
            }
        }
        publisher.write_all(&SHAPE.picture(number)).unwrap();
    }
    assert_eq!((headers, starts), (1, 20));
    assert_eq!(get(server.address(), "/live/a.ts?encoding=gzip").status, 400);
}

#[test]
fn a_metacube_viewer_that_falls_behind_gets_whole_blocks() {
    const LARGE: Shape = Shape { packets: 60, group: 10 };
    let (server, _scratch) = serve_with("[viewer]\nbacklog_max = '1MiB'\nbacklog = '1s'\n");
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&LARGE.picture(0)).unwrap();
    until("the first picture", || server.count("a", "bytes_in") > 0);
    let mut viewer = watch_blocks(&server, "a");
    // More than the sockets hold, while the viewer sleeps; then it wakes up.
    let bytes: u64 = (1..1600).map(|number| LARGE.picture(number)).fold(0, |bytes, picture| {
        publisher.write_all(&picture).unwrap();
        bytes + picture.len() as u64
    });
    until("all bytes", || server.count("a", "bytes_in") > bytes);
    let (mut blocks, mut check, mut buffer) = (Blocks::default(), Check::new(LARGE), vec![0; 64 << 10]);
    while check.moves == 0 {
        let count = read_once(&mut viewer, &mut buffer).unwrap();
        assert!(count > 0);
        blocks.push(&buffer[..count]);
        for (flags, block) in blocks.whole.drain(..) {
            assert!(flags <= 2 && block.len().is_multiple_of(188));
            for packet in block.chunks(188).filter(|packet| packet[1..3] != [0x1F, 0xFF]) {
                check.push(packet).unwrap();
            }
        }
    }
    assert!(server.count("a", "moved_forward") >= 1);
}
