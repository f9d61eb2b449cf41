//! HTTPS: what goes through it, who is shown which certificate, and who is turned away.

use crate::glassline;
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, get, publish, raw, read_all, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::tls::{self, Identity, Stream};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(crate) const SHAPE: Shape = Shape { packets: 20, group: 5 };
pub(crate) const NAME: &str = "a.example";

/// A server with HTTPS and plain HTTP.
pub(crate) struct Secure {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) identity: Identity,
    pub(crate) folder: Scratch,
}

pub(crate) fn serve_tls(settings: &str) -> Secure {
    let (identity, folder) = (Identity::new(&[NAME]), Scratch::new("https"));
    identity.write(&folder, "one");
    serve_identity(settings, identity, folder)
}

pub(crate) fn serve_identity(settings: &str, identity: Identity, folder: Scratch) -> Secure {
    let text = format!(
        "[tls]\nlisten = ['127.0.0.1:0']\ncheck_interval = '1s'\n{}{settings}",
        if settings.contains("certificates") {
            ""
        } else {
            "certificates = [{ chain = 'one.pem', key = 'one.key' }]\n"
        },
    );
    let file = folder.write("glassline.toml", text);
    let server = crate::serve(&["--config", &file]);
    let output = server.process.output();
    let (_, rest) = output.split_once("https://").expect("the address for HTTPS is told");
    let address = rest.split('/').next().unwrap().parse().unwrap();
    Secure { server, address, identity, folder }
}

impl Secure {
    pub(crate) fn connect(&self) -> Stream {
        tls::connect(self.address, NAME, &tls::client(&[&self.identity]))
    }

    pub(crate) fn request(&self, head: &str) -> Stream {
        let mut stream = self.connect();
        write!(stream, "{head}\r\nHost: {NAME}\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.server.metrics().sum(name, "")
    }
}

/// Reads to the end, of which the peer has to tell: a cut is an error.
pub(crate) fn read_to_close_notify(stream: &mut Stream, check: &mut Check) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match read_once(stream, &mut buffer).unwrap() {
            0 => return,
            count => check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}")),
        }
    }
}

#[test]
fn what_is_published_over_https_is_watched_byte_by_byte() {
    let secure = serve_tls("[publish]\nreturn_window = '0s'\n");
    let mut publisher = secure.request("PUT /live/s.ts HTTP/1.1");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || secure.server.count("s", "bytes_in") > 0);
    let mut viewer = secure.request("GET /live/s.ts HTTP/1.1");
    assert_eq!(read_head(&mut viewer).status, 200);
    let mut plain = connect(secure.server.address());
    write!(plain, "GET /live/s.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_head(&mut plain);
    let (mut check, mut buffer) = (Check::new(SHAPE), vec![0; 64 << 10]);
    for number in 1..400 {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        // Every packet arrives with no later one to push it.
        while check.packets < (number + 1) * SHAPE.packets {
            let count = read_once(&mut viewer, &mut buffer).unwrap();
            assert!(count > 0, "ended after {} packets", check.packets);
            check.push(&buffer[..count]).unwrap();
        }
    }
    publisher.conn.send_close_notify();
    publisher.flush().unwrap();
    assert_eq!(read_head(&mut publisher).status, 204);
    read_to_close_notify(&mut viewer, &mut check);
    assert_eq!((check.moves, check.packets), (0, 400 * SHAPE.packets));
    let mut beside = Check::new(SHAPE);
    beside.push(&read_all(&mut plain)).unwrap();
    assert_eq!(beside.packets, check.packets);
    assert_eq!(secure.metric("glassline_tls_handshakes_total"), 2.0);
    assert_eq!(secure.metric("glassline_tls_handshakes_failed_total"), 0.0);
}

#[test]
fn one_tls_connection_carries_many_requests() {
    let secure = serve_tls("");
    let mut stream = secure.connect();
    let request = "GET /assets/app.js HTTP/1.1\r\nHost: h\r\n\r\n";
    stream.write_all(request.repeat(10).as_bytes()).unwrap();
    let expected = get(secure.server.address(), "/assets/app.js").body;
    for _ in 0..10 {
        let head = read_head(&mut stream);
        let mut body = vec![0; head.header("content-length").unwrap().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        assert!(head.status == 200 && body == expected);
    }
    assert_eq!(stream.conn.protocol_version().map(u16::from), Some(0x0304), "TLS 1.3");
}

#[test]
fn three_hundred_tls_viewers_at_once() {
    const VIEWERS: usize = 300;
    let secure = serve_tls("[publish]\nreturn_window = '0s'\n[viewer]\npacing = 'off'\n");
    let mut publisher = publish(secure.server.address(), "/live/many.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || secure.server.count("many", "bytes_in") > 0);
    let before = secure.server.own_memory_bytes();
    let client = tls::client(&[&secure.identity]);
    let mut viewers: Vec<_> = (0..VIEWERS).map(|_| tls::connect(secure.address, NAME, &client)).collect();
    for viewer in &mut viewers {
        write!(viewer, "GET /live/many.ts HTTP/1.1\r\nHost: {NAME}\r\n\r\n").unwrap();
    }
    until("all of them", || secure.server.count("many", "viewers") == VIEWERS as u64);
    let each = secure.server.own_memory_bytes().saturating_sub(before) / VIEWERS as u64;
    eprintln!("{each} bytes of memory for each TLS viewer");
    assert!(each < 64 << 10, "{each} bytes for each");
    for number in 1..50 {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
    }
    drop(publisher);
    for mut viewer in viewers {
        assert_eq!(read_head(&mut viewer).status, 200);
        let mut check = Check::new(SHAPE);
        read_to_close_notify(&mut viewer, &mut check);
        assert_eq!((check.moves, check.packets), (0, 50 * SHAPE.packets));
    }
}

#[test]
fn a_slow_tls_viewer_is_moved_forward_and_gets_no_wrong_byte() {
    let secure = serve_tls(
        "[publish]\nreturn_window = '0s'\n[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\npacing = 'off'\n",
    );
    let mut publisher = publish(secure.server.address(), "/live/slow.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || secure.server.count("slow", "bytes_in") > 0);
    let mut viewer = secure.request("GET /live/slow.ts HTTP/1.1");
    assert_eq!(read_head(&mut viewer).status, 200);
    let (mut check, mut buffer, mut number) = (Check::new(SHAPE), vec![0; 20_000], 1);
    let deadline = Instant::now() + Duration::from_secs(60);
    while check.moves < 3 {
        assert!(Instant::now() < deadline, "not moved after {number} pictures");
        for _ in 0..20 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
            number += 1;
        }
        let count = read_once(&mut viewer, &mut buffer).unwrap();
        check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    let counted = secure.metric("glassline_stream_moved_forward_total");
    drop(publisher);
    read_to_close_notify(&mut viewer, &mut check);
    assert!(counted >= 3.0, "{} moves were seen, {counted} counted", check.moves);
}

#[test]
fn a_tls_viewer_that_takes_nothing_is_dropped() {
    let secure = serve_tls("[viewer]\nstall_timeout = '1s'\npacing = 'off'\n");
    let mut publisher = publish(secure.server.address(), "/live/stall.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || secure.server.count("stall", "bytes_in") > 0);
    let mut viewer = secure.request("GET /live/stall.ts HTTP/1.1");
    assert_eq!(read_head(&mut viewer).status, 200);
    until("the viewer", || secure.server.count("stall", "viewers") == 1);
    let mut number = 1;
    until("the viewer to be dropped", || {
        for _ in 0..20 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
            number += 1;
        }
        // Our clock and the kernel's race for it; only ours counts it.
        secure.server.count("stall", "viewers") == 0
    });
}

#[test]
fn plain_http_is_told_that_it_is_the_wrong_port() {
    let secure = serve_tls("");
    for head in ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "PUT /live/x.ts HTTP/1.1\r\nHost: h\r\n\r\nGGGG"] {
        let answer = raw(secure.address, head.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("https://"), "{}", answer.text());
    }
    until("both are counted", || secure.metric("glassline_tls_handshakes_failed_total") == 2.0);
    assert_eq!(secure.server.count("x", "bytes_in"), 0);
}

#[test]
fn garbage_is_turned_away_and_counted() {
    let secure = serve_tls("");
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3];
    let cases: [&[u8]; 4] =
        [&[0; 3000], &[0xFF; 9], &[&hello[..], &[7; 600]].concat(), &[0x16, 3, 1, 0xFF, 0xFF, 0, 0]];
    for bytes in cases {
        let mut stream = connect(secure.address);
        stream.write_all(bytes).unwrap();
        // An alert at most, then the end.
        assert!(read_all(&mut stream).len() < 64);
    }
    // Gone in the middle of a handshake.
    connect(secure.address).write_all(&hello).unwrap();
    until("all are counted", || secure.metric("glassline_tls_handshakes_failed_total") == 5.0);
    let mut stream = secure.request("GET /healthz HTTP/1.1");
    assert_eq!(read_head(&mut stream).status, 200);
    assert!(!secure.server.process.output().contains("peer="), "{}", secure.server.process.output());
}

/// The certificate that is shown to who asks for `name`, whether it is trusted or not.
fn shown(secure: &Secure, name: &str, known: &[&Identity]) -> Option<Vec<u8>> {
    let mut stream = tls::connect(secure.address, name, &tls::client(known));
    stream.conn.complete_io(&mut stream.sock).ok()?;
    Some(tls::shown(&stream))
}

#[test]
fn names_choose_certificates() {
    let (first, second) = (Identity::new(&[NAME]), Identity::new(&["*.b.example"]));
    let folder = Scratch::new("https");
    first.write(&folder, "one");
    second.write(&folder, "two");
    let settings =
        "certificates = [{ chain = 'one.pem', key = 'one.key' }, { chain = 'two.pem', key = 'two.key' }]\n";
    let secure = serve_identity(settings, Identity::new(&[NAME]), folder);
    let known = [&first, &second];
    assert_eq!(shown(&secure, NAME, &known), Some(first.der.clone()));
    assert_eq!(shown(&secure, "x.b.example", &known), Some(second.der.clone()));
    assert_eq!(shown(&secure, "none.example", &known), None, "the first one, which has not this name");
}

#[test]
fn replaced_files_are_noticed_and_bad_ones_are_not_taken() {
    let secure = serve_tls("");
    let mut before = secure.connect();
    before.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut before).status, 200);
    let said = |words: &str| secure.server.process.output().matches(words).count();

    let next = Identity::new(&[NAME]);
    secure.folder.write("one.pem", "very-secret is no certificate");
    until("the complaint", || said("the old ones stay") == 1);
    assert!(!secure.server.process.output().contains("very-secret"));
    assert_eq!(shown(&secure, NAME, &[&secure.identity]), Some(secure.identity.der.clone()));
    // As certbot does it: others take the old ones' places.
    for (name, text) in [("one.pem", &next.chain), ("one.key", &next.key)] {
        std::fs::rename(secure.folder.write("new", text), secure.folder.file(name)).unwrap();
    }
    // The key is everybody's to read; who does as he is told is heard without a signal.
    until("the refusal", || said("; type: chmod 600 ") == 1);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(secure.folder.file("one.key"), mode).unwrap();
    until("the new certificate", || shown(&secure, NAME, &[&next]).is_some());
    assert_eq!(shown(&secure, NAME, &[&secure.identity]), None);
    // Who was there stays.
    before.read_exact(&mut [0; 3]).unwrap();
    before.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut before).status, 200);
    // A reload reads them at once; where they are bad, nothing changes.
    secure.folder.write("one.key", &secure.identity.key);
    secure.server.process.signal("HUP");
    until("the complaint", || said("the configuration stays as it was") == 1);
    assert!(secure.server.process.output().contains("the key is not the certificate's"));
    assert_eq!(shown(&secure, NAME, &[&next]), Some(next.der.clone()));
}

#[test]
fn without_good_certificates_it_does_not_start_and_says_why() {
    let folder = Scratch::new("https");
    Identity::new(&[NAME]).write(&folder, "one");
    folder.write("two.key", Identity::new(&[NAME]).key);
    let outcome = |certificate: &str, arguments: &[&str]| {
        let text = format!("listen = []\n[tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{certificate}]\n");
        let file = folder.write("glassline.toml", text);
        let outcome = glassline(&[&["serve", "--config", &file], arguments].concat());
        (outcome.status, outcome.stderr)
    };
    for arguments in [&[][..], &["--test-config"]] {
        let (status, words) = outcome("{ chain = 'none.pem', key = 'one.key' }", arguments);
        assert!(status == Some(2) && words.contains("none.pem: No such file"), "{words}");
        assert!(words.contains("correct the name"), "{words}");
        let (status, words) = outcome("{ chain = 'one.pem', key = 'two.key' }", arguments);
        assert!(status == Some(2) && words.contains("the key is not the certificate's"), "{words}");
        let (status, words) = outcome("", arguments);
        assert!(status == Some(2) && words.contains("tls.listen: needs a certificate"), "{words}");
    }
    assert_eq!(outcome("{ chain = 'one.pem', key = 'one.key' }", &["--test-config"]).0, Some(0));
}

#[test]
fn a_key_that_everybody_reads_is_refused_with_the_command_that_mends_it() {
    use std::os::unix::fs::PermissionsExt;
    let (identity, folder) = (Identity::new(&[NAME]), Scratch::new("https"));
    identity.write(&folder, "one");
    let file = folder.write(
        "glassline.toml",
        "listen = []\n[tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{ chain = 'one.pem', key = 'one.key' }]\n",
    );
    std::fs::set_permissions(folder.file("one.key"), PermissionsExt::from_mode(0o644)).unwrap();
    for test_config in [&["--test-config"][..], &[]] {
        let outcome = crate::glassline(&[&["serve", "--config", &file][..], test_config].concat());
        let command = format!("chmod 600 {}", folder.file("one.key"));
        assert!(
            outcome.status == Some(2) && outcome.stderr.contains(&format!("type: {command};")),
            "{}",
            outcome.stderr
        );
        let mended = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(mended.success());
        if test_config.is_empty() {
            drop(serve_identity("", identity, folder));
            return;
        }
        std::fs::set_permissions(folder.file("one.key"), PermissionsExt::from_mode(0o644)).unwrap();
    }
}

#[test]
fn https_alone_is_enough() {
    let (identity, folder) = (Identity::new(&[NAME]), Scratch::new("https"));
    identity.write(&folder, "one");
    let file = folder.write(
        "glassline.toml",
        "listen = []\n[tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{ chain = 'one.pem', key = 'one.key' }]\n",
    );
    let mut command = std::process::Command::new(crate::GLASSLINE);
    let mut process =
        glassline_test_support::program::Running::start(command.args(["serve", "--config", &file]));
    until("where it is", || process.output().contains("open https://127.0.0.1:"));
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn the_admin_listener_can_speak_https() {
    let secure = serve_tls("[admin]\nlisten = ['127.0.0.1:0']\ntls = true\n");
    let output = secure.server.process.output();
    let (_, admin) = output.split_once("all streams: https://").expect("where operators go");
    let admin = admin.split('/').next().unwrap().parse().unwrap();
    let status = |address| {
        let mut stream = tls::connect(address, NAME, &tls::client(&[&secure.identity]));
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {NAME}\r\n\r\n").unwrap();
        read_head(&mut stream).status
    };
    assert_eq!(status(admin), 200);
    assert_eq!(status(secure.address), 404);
    assert_eq!(get(secure.server.address(), "/metrics").status, 404);
}
