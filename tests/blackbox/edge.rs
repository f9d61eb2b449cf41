//! Objects that are served while they fill: LL-HLS and LL-DASH out of a stream, and edges in front of other servers.

use crate::hot::upgrade;
use crate::pull::{SHAPE, see, watch};
use crate::tls::serve_identity;
use crate::{GLASSLINE, serve, serve_with};
use glassline_test_support::http::{Answer, ask, connect, get, read_answer, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::{until, until_some};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What a test's origin was asked: the target, and the head as it came.
pub(crate) struct Asked {
    pub(crate) target: String,
    pub(crate) head: String,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// An HTTP server whose answers a test writes. Each connection has a thread; a connection ends where its answer does not say
/// how long it is.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Origin {
    /// `answer` writes an answer, and says whether the connection goes on.
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.31.7.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&counts));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (Ok(mut connection), answer, seen) = (connection, Arc::clone(&answer), Arc::clone(&seen))
                else {
                    return;
                };
                std::thread::spawn(move || {
                    while let Some(asked) = read_request(&mut connection) {
                        *seen.lock().unwrap().entry(asked.target.clone()).or_default() += 1;
                        if !answer(&asked, &mut connection) {
                            return;
                        }
                    }
                });
            }
        });
        Origin { address, counts }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn count(&self, target: &str) -> usize {
        self.counts.lock().unwrap().get(target).copied().unwrap_or(0)
    }
}

fn read_request(connection: &mut TcpStream) -> Option<Asked> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    Some(Asked { target, head })
}

/// An edge in front of these servers.
pub(crate) fn edge(servers: &[&str]) -> (Server, Scratch) {
    let list: Vec<String> = servers.iter().map(|server| format!("'{server}'")).collect();
    serve_with(&format!("[upstream]\nservers = [{}]\nconnect_timeout = '1s'\n", list.join(", ")))
}

pub(crate) fn whole(body: &[u8], fields: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Bytes that say where they are.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// A gate for each half of a body.
fn gate() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (open, opened) = channel();
    (open, Mutex::new(opened))
}

/// Reads an answer in chunks on a connection that stays.
fn read_chunked(stream: &mut TcpStream) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[test]
fn one_fetch_however_many_ask_and_all_read_while_it_fills() {
    let (open, opened) = gate();
    let origin = Origin::start(move |_, connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n").unwrap();
        opened.lock().unwrap().recv().unwrap();
        connection.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
        true
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    let ask = |edge: &Server| {
        let mut client = connect(edge.address());
        write!(client, "GET /a/1.m4s HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(read_head(&mut client).status, 200);
        client
    };
    let mut clients: Vec<_> = (0..50).map(|_| ask(&edge)).collect();
    for client in &mut clients {
        let mut chunk = [0; 10];
        client.read_exact(&mut chunk).unwrap();
        assert_eq!(&chunk, b"5\r\nfirst\r\n", "before the object is whole");
    }
    open.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(read_chunked(client), b"second");
    }
    assert_eq!(get(edge.address(), "/a/1.m4s").body, b"firstsecond");
    // The connection goes on behind its answer.
    let client = &mut clients[0];
    write!(client, "GET /a/1.m4s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200") && rest.ends_with(b"firstsecond"));
    assert_eq!(origin.count("/a/1.m4s"), 1);
}

#[test]
fn what_breaks_off_goes_on_at_the_next_server() {
    let body = pattern(100_000);
    let (tag, broken) = ("ETag: \"1\"\r\n", body.clone());
    let first = Origin::start(move |_, connection| {
        connection.write_all(&whole(&broken, tag)[..40_000]).unwrap();
        false
    });
    let rest = body.clone();
    let second = Origin::start(move |asked, connection| {
        let range = asked.field("range").expect("the rest is asked for");
        let from: usize = range["bytes=".len()..].split('-').next().unwrap().parse().unwrap();
        assert_eq!(asked.field("if-range"), Some("\"1\""));
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\n{tag}\r\n",
            rest.len() - from,
            rest.len() - 1,
            rest.len()
        );
        connection.write_all(&[head.as_bytes(), &rest[from..]].concat()).unwrap();
        true
    });
    let (edge, _scratch) = edge(&[&first.url(), &second.url()]);
    let answer = get(edge.address(), "/a.mp4");
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("100000")));
    assert!(answer.body == body);
    assert_eq!((first.count("/a.mp4"), second.count("/a.mp4")), (1, 1));
}

#[test]
fn what_nobody_can_complete_is_cut_and_not_kept() {
    let origin = Origin::start(|_, connection| {
        connection.write_all(&whole(&pattern(1000), "")[..500]).unwrap();
        false
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for _ in 0..2 {
        let answer = get(edge.address(), "/a.mp4");
        assert_eq!((answer.status, answer.header("content-length")), (200, Some("1000")));
        assert!(answer.body.len() < 1000, "the client sees that it was cut");
    }
    assert_eq!(origin.count("/a.mp4"), 2);
}

#[test]
fn what_is_kept_answers_ranges_and_conditions() {
    let origin = Origin::start(|asked, connection| {
        let body = pattern(1000);
        let fields = if asked.target.starts_with("/old") {
            if asked.field("if-none-match") == Some("\"7\"") {
                connection.write_all(b"HTTP/1.1 304 Not Modified\r\nETag: \"7\"\r\n\r\n").unwrap();
                return true;
            }
            "ETag: \"7\"\r\nCache-Control: max-age=0, stale-if-error=60\r\n"
        } else {
            "ETag: \"7\"\r\nSet-Cookie: a=b\r\nCache-Control: max-age=60\r\n"
        };
        connection.write_all(&whole(&body, fields)).unwrap();
        true
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    let at = |target: &str, fields: &[&str]| ask(edge.address(), "GET", target, fields);
    let all = at("/a.mp4?x=1&token=secret", &[]);
    assert_eq!((all.status, all.header("set-cookie"), all.body.len()), (200, None, 1000));
    let part = at("/a.mp4?x=1&token=other&expires=5", &["Range: bytes=10-19"]);
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 10-19/1000")));
    assert_eq!(part.body, pattern(1000)[10..20]);
    let same = at("/a.mp4?x=1", &["If-None-Match: \"7\""]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    let beyond = at("/a.mp4?x=1", &["Range: bytes=5000-"]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */1000")));
    let head = ask(edge.address(), "HEAD", "/a.mp4?x=1", &[]);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("1000"), 0));
    assert_eq!(origin.count("/a.mp4?x=1"), 1, "tokens are no part of an object's name");
    for _ in 0..2 {
        assert_eq!(at("/old.mp4", &[]).body, pattern(1000));
    }
    assert_eq!(origin.count("/old.mp4"), 2, "what is old is asked about");
    for path in ["/a/../b", "/a/%2e%2E/b", "/./b"] {
        assert_eq!(at(path, &[]).status, 404, "{path}");
    }
}

#[test]
fn servers_that_are_of_no_use_are_told() {
    let nonsense = Origin::start(|asked, connection| {
        let answer: &[u8] = match asked.target.as_str() {
            "/chunk" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "/both" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
            "/status" => b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            "/absent" => b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
            _ => {
                while connection.write_all(b"HTTP/1.1 200 OK\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").is_ok()
                {
                }
                b""
            }
        };
        let _ = connection.write_all(answer);
        false
    });
    let (server, _scratch) = edge(&[&nonsense.url()]);
    for path in ["/chunk", "/both", "/status", "/endless"] {
        let answer = get(server.address(), path);
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (502, Some("1")),
            "{path}: {}",
            answer.text()
        );
    }
    let absent = get(server.address(), "/absent");
    assert_eq!((absent.status, absent.body.as_slice()), (404, &b"none"[..]));

    let (alone, _scratch) = edge(&["http://127.31.7.3:9"]);
    assert_eq!(get(alone.address(), "/a").status, 502);
}

#[test]
fn servers_that_ask_each_other_in_a_circle_are_told() {
    let address = TcpListener::bind("127.31.7.4:0").unwrap().local_addr().unwrap();
    let (one, _scratch) = edge(&[&format!("http://{address}")]);
    let other = Server::start_at(GLASSLINE, &address.to_string(), &["--upstream", &one.url("")]);
    assert_eq!(get(one.address(), "/a").status, 508);
    assert_eq!(get(other.address(), "/live/b/index.m3u8").status, 508);
}

/// The lines of a playlist that begin with `tag`.
pub(crate) fn tags<'a>(playlist: &'a str, tag: &'a str) -> impl Iterator<Item = &'a str> {
    playlist.lines().filter_map(move |line| line.strip_prefix(tag))
}

/// An attribute's text in quotes.
pub(crate) fn quoted<'a>(attributes: &'a str, name: &str) -> &'a str {
    attributes.split_once(&format!("{name}=\"")).unwrap().1.split('"').next().unwrap()
}

pub(crate) fn playlist(server: &Server, target: &str) -> String {
    let answer = get(server.address(), target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/vnd.apple.mpegurl"));
    answer.text()
}

/// Undoes chunked transfer.
fn body(answer: &Answer) -> Vec<u8> {
    if answer.header("transfer-encoding").is_none() {
        return answer.body.clone();
    }
    let (mut rest, mut body) = (&answer.body[..], Vec::new());
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

#[test]
fn a_stream_is_ll_hls_and_ll_dash_through_an_edge() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let edge = serve(&["--upstream", &origin.url("")]);
    let multivariant = playlist(&edge, "/live/demo/index.m3u8?user=a%22b");
    assert!(multivariant.contains("video.m3u8?user=a%22b"), "{multivariant}");
    // The next part is waited for, at both. It may turn out that its segment ends before it; then there is another one.
    let part = until_some("a part that was hinted at", || {
        let media = playlist(&edge, "/live/demo/video.m3u8");
        let part = quoted(tags(&media, "#EXT-X-PRELOAD-HINT:").next().unwrap(), "URI").to_owned();
        let came = get(edge.address(), &format!("/live/demo/{part}"));
        assert!(came.status == 404 || came.header("content-type") == Some("video/mp4"), "{}", came.status);
        (came.status == 200).then_some(part)
    });
    let numbers: Vec<u64> = part.split(['/', '.']).filter_map(|number| number.parse().ok()).collect();
    let reload = format!("/live/demo/video.m3u8?_HLS_msn={}&_HLS_part={}", numbers[0], numbers[1]);
    let media = playlist(&edge, &reload);
    assert!(tags(&media, "#EXT-X-PART:").any(|attributes| quoted(attributes, "URI") == part), "{media}");
    // A segment is its parts.
    let listed = until_some("a whole segment with its parts", || {
        let media = playlist(&edge, "/live/demo/video.m3u8");
        let lines: Vec<&str> = media.lines().collect();
        let end = lines.iter().rposition(|line| line.ends_with(".m4s"))?;
        let parts = lines[..end].iter().rev().skip(1).map_while(|line| line.strip_prefix("#EXT-X-PART:"));
        let parts: Vec<String> = parts.map(|attributes| quoted(attributes, "URI").to_owned()).collect();
        (!parts.is_empty()).then(|| (lines[end].to_owned(), parts))
    });
    let (segment, parts) = listed;
    let bytes = |name: &str| body(&get(edge.address(), &format!("/live/demo/{name}")));
    let joined: Vec<u8> = parts.iter().rev().flat_map(|part| bytes(part)).collect();
    assert!(!joined.is_empty() && joined == bytes(&segment), "{segment} {parts:?}");
    let manifest = get(edge.address(), "/live/demo/manifest.mpd");
    assert_eq!((manifest.status, manifest.header("content-type")), (200, Some("application/dash+xml")));
    assert!(manifest.text().contains("availabilityTimeComplete=\"false\""));
    for (target, status) in [
        ("video.m3u8?_HLS_msn=99999999999", 400),
        ("video.m3u8?_HLS_part=1", 400),
        ("video/1.m4s", 410),
        ("video/99999999999.m4s", 404),
        ("audio-7.m3u8", 404),
        ("../../etc/passwd", 404),
    ] {
        assert_eq!(get(origin.address(), &format!("/live/demo/{target}")).status, status, "{target}");
    }
}

#[test]
fn the_end_of_a_stream_is_told_to_those_who_wait() {
    let (server, _scratch) = serve_with("[publish]\nreturn_window = '0s'\n");
    let mut encoder =
        glassline_test_support::program::Running::start(std::process::Command::new(GLASSLINE).args([
            "encode",
            "test:320x180@25",
            &server.url("/live/a.ts"),
            "--keyint",
            "1s",
        ]));
    server.wait_for_pictures("a");
    let media = playlist(&server, "/live/a/video.m3u8");
    let hint = tags(&media, "#EXT-X-PRELOAD-HINT:").next().unwrap();
    let numbers: Vec<u64> =
        quoted(hint, "URI").split(['/', '.']).filter_map(|number| number.parse().ok()).collect();
    let mut waiting = connect(server.address());
    let target = format!("/live/a/video.m3u8?_HLS_msn={}", numbers[0] + 1);
    write!(waiting, "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    encoder.signal("TERM");
    encoder.wait();
    let answer = read_answer(&mut waiting);
    assert_eq!(answer.status, 200, "{}", answer.text());
    until("the end", || playlist(&server, "/live/a/video.m3u8").contains("#EXT-X-ENDLIST"));
}

#[test]
fn a_request_that_waits_is_answered_by_the_next_program() {
    let (open, opened) = gate();
    let origin = Origin::start(move |_, connection| {
        opened.lock().unwrap().recv().unwrap();
        connection.write_all(&whole(b"done", "")).is_ok()
    });
    let scratch = Scratch::new("edge");
    let config = scratch.write("glassline.toml", format!("[upstream]\nservers = ['{}']\n", origin.url()));
    let mut edge = serve(&["--config", &config]);
    let mut waiting = connect(edge.address());
    write!(waiting, "GET /a.m4s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    until("the fetch", || origin.count("/a.m4s") == 1);
    upgrade(&mut edge, &config);
    until("the next program's fetch", || origin.count("/a.m4s") == 2);
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    let answer = read_answer(&mut waiting);
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"done"[..]));
}

#[test]
fn a_stream_that_an_upstream_server_has_is_pulled_when_somebody_asks() {
    let origin = serve(&[]);
    let mut publisher = glassline_test_support::http::publish(origin.address(), "/live/far.ts");
    let edge = serve(&["--upstream", &origin.url("")]);
    publisher.write_all(&(0..10).flat_map(|number| SHAPE.picture(number)).collect::<Vec<_>>()).unwrap();
    until("pictures at the origin", || origin.count("far", "bytes_in") > 0);
    let mut viewer = watch(&edge, "far");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 1);
    publisher.write_all(&SHAPE.picture(10)).unwrap();
    assert!(edge.stream("far").unwrap()["source"]["url"].as_str().unwrap().ends_with("/live/far.ts"));
    let absent = get(edge.address(), "/live/nobody.ts");
    assert_eq!(absent.status, 404, "{}", absent.text());
    until("what nobody has to be forgotten", || edge.stream("nobody").is_none());
}

#[test]
fn who_may_not_watch_gets_nothing_from_upstream_either() {
    let origin = Origin::start(|_, connection| connection.write_all(&whole(b"secret", "")).is_ok());
    let config =
        format!("[viewer]\nkey = 'a-key-of-many-letters'\n[upstream]\nservers = ['{}']\n", origin.url());
    let (edge, _scratch) = serve_with(&config);
    for path in [
        "/live/a/video/1.m4s",
        "/live/a.ts",
        "/%6Cive/a/video/1.m4s",
        "//live/a/1.m4s",
        "/live%2Fa/1.m4s",
        "/x/../live/a/1",
    ] {
        let answer = get(edge.address(), path);
        assert!(matches!(answer.status, 401 | 403 | 404), "{path}: {}", answer.status);
    }
    assert_eq!(get(edge.address(), "/open.m4s").body, b"secret");
    assert_eq!(origin.counts.lock().unwrap().len(), 1);
}

#[test]
fn servers_are_asked_over_tls_and_below_their_paths() {
    let (identity, folder) = (Identity::new(&["localhost"]), Scratch::new("origin"));
    identity.write(&folder, "one");
    let origin = serve_identity("[demo]\nenabled = true\n", identity, folder);
    let scratch = Scratch::new("edge");
    scratch.write("ca.pem", &origin.identity.chain);
    let url = format!("https://localhost:{}", origin.address.port());
    let over =
        |text: &str| scratch.write("glassline.toml", format!("[upstream]\nservers = ['{url}']\n{text}"));
    let edge = serve(&["--config", &over("ca = 'ca.pem'\n")]);
    assert!(playlist(&edge, "/live/demo/index.m3u8").contains("video.m3u8"));
    // Whom nobody vouches for is not believed.
    let stranger = serve(&["--config", &over("")]);
    assert_eq!(get(stranger.address(), "/live/demo/index.m3u8").status, 502);

    let below =
        Origin::start(|asked, connection| connection.write_all(&whole(asked.target.as_bytes(), "")).is_ok());
    let (edge, _scratch) = self::edge(&[&format!("{}/base/", below.url())]);
    assert_eq!(get(edge.address(), "/a.mp4?x=1").body, b"/base/a.mp4?x=1");
}

/// An edge in front of `origin` that wants tokens for its streams, and what signs an address of it.
pub(crate) fn edge_with_tokens(origin: &str) -> (Server, Scratch, impl Fn(&str) -> String + use<>) {
    let scratch = Scratch::new("tokens");
    let key = scratch.write("viewer.key", "a-key-of-many-letters");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = format!("[viewer]\nkey_file = '{key}'\n[upstream]\nservers = ['{origin}']\n");
    let edge = serve(&["--config", &scratch.write("glassline.toml", text)]);
    let address = edge.address();
    let sign = move |path: &str| {
        let url = format!("http://{address}{path}");
        let signed = crate::glassline(&["sign", &url, "--key-file", &key, "--for", "1h"]);
        assert_eq!(signed.status, Some(0), "{}", signed.stderr);
        signed.text().trim().strip_prefix(&format!("http://{address}")).unwrap().to_owned()
    };
    (edge, scratch, sign)
}

#[test]
fn a_viewer_with_a_signed_address_follows_the_playlists_of_an_origin_without_tokens() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let (edge, _scratch, sign) = edge_with_tokens(&origin.url(""));
    let resolve = |address: &str| format!("/live/demo/{address}");
    let multivariant = playlist(&edge, &sign("/live/demo/index.m3u8"));
    let media = multivariant.lines().find(|line| line.starts_with("video.m3u8")).unwrap();
    assert!(media.contains("token="), "{multivariant}");
    // The next part is asked for by its hint, the playlist by its directives, each as it stands there.
    let part = until_some("a part that was hinted at", || {
        let text = playlist(&edge, &resolve(media));
        let part = quoted(tags(&text, "#EXT-X-PRELOAD-HINT:").next().unwrap(), "URI").to_owned();
        let came = get(edge.address(), &resolve(&part));
        assert!(came.status == 404 || came.header("content-type") == Some("video/mp4"), "{}", came.status);
        (came.status == 200).then_some(part)
    });
    let numbers: Vec<u64> = part.split(['/', '.']).filter_map(|number| number.parse().ok()).collect();
    let reload = format!("{}&_HLS_msn={}&_HLS_part={}", resolve(media), numbers[0], numbers[1]);
    let text = playlist(&edge, &reload);
    assert!(tags(&text, "#EXT-X-PART:").any(|attributes| quoted(attributes, "URI") == part), "{text}");
    let header = quoted(tags(&text, "#EXT-X-MAP:").next().unwrap(), "URI");
    assert_eq!(get(edge.address(), &resolve(header)).status, 200, "{header}");
    let segment = until_some("a whole segment", || {
        let text = playlist(&edge, &resolve(media));
        text.lines().rfind(|line| line.contains(".m4s?") && !line.starts_with('#')).map(str::to_owned)
    });
    assert_eq!(get(edge.address(), &resolve(&segment)).status, 200);
    let manifest = get(edge.address(), &sign("/live/demo/manifest.mpd")).text();
    let template = quoted(&manifest, "media");
    assert!(template.contains("$Number$") && template.contains("&amp;token="), "{manifest}");

    // Without the token nothing of it is there, and with another's neither.
    for address in ["index.m3u8", "video.m3u8", &part, header, &segment, "manifest.mpd"] {
        let bare = address.split('?').next().unwrap();
        assert_eq!(get(edge.address(), &resolve(bare)).status, 401, "{bare}");
    }
    let token = segment.split_once('?').unwrap().1;
    assert_eq!(get(edge.address(), &format!("/live/other/index.m3u8?{token}")).status, 401);
}

#[test]
fn a_token_goes_to_nobody_else() {
    let text =
        "#EXTM3U\n#EXT-X-MAP:URI=\"init.mp4\"\n1.m4s\nhttps://cdn.example/2.m4s\n//cdn.example/3.m4s\n";
    let origin = Origin::start(move |asked, connection| {
        let kind =
            "Content-Type: application/vnd.apple.mpegurl\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n";
        let body = if asked.target.contains(".m3u8") { text.as_bytes() } else { b"media" };
        connection.write_all(&whole(body, kind)).is_ok()
    });
    let (edge, _scratch, sign) = edge_with_tokens(&origin.url());
    let signed = sign("/live/a/index.m3u8");
    let token = signed.split_once('?').unwrap().1;
    let wanted = text.replace("init.mp4", &format!("init.mp4?{token}"));
    let wanted = wanted.replace("1.m4s", &format!("1.m4s?{token}"));
    for fields in [&[][..], &["Range: bytes=0-99999"]] {
        let answer = ask(edge.address(), "GET", &signed, fields);
        assert_eq!(answer.text(), wanted);
        assert_eq!(answer.header("content-length"), Some(wanted.len().to_string().as_str()));
    }
    let other = sign("/live/a/index.m3u8?x=1");
    assert!(get(edge.address(), &other).text().contains("init.mp4?"), "{other}");
    assert_eq!(ask(edge.address(), "GET", &signed, &["If-None-Match: \"1\""]).status, 304);
    let head = ask(edge.address(), "HEAD", &signed, &[]);
    assert_eq!(head.header("content-length"), Some(wanted.len().to_string().as_str()));
    // What is kept is one for all viewers, and no server was told a token.
    let counts = origin.counts.lock().unwrap();
    assert_eq!(counts.get("/live/a/index.m3u8"), Some(&1));
    assert!(counts.keys().all(|target| !target.contains("token")), "{:?}", counts.keys());
}

#[test]
fn a_stream_is_pulled_from_the_next_server_where_the_first_is_down_or_has_none() {
    let (without, with) = (serve(&[]), serve(&[]));
    let mut publisher = glassline_test_support::http::publish(with.address(), "/live/far.ts");
    publisher.write_all(&(0..10).flat_map(|number| SHAPE.picture(number)).collect::<Vec<_>>()).unwrap();
    until("pictures at the origin", || with.count("far", "bytes_in") > 0);
    let breaks = Origin::start(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n");
        false
    });
    let (edge, _scratch) = edge(&["http://127.31.7.3:9", &without.url(""), &breaks.url(), &with.url("")]);
    let (mut viewer, mut check) = (watch(&edge, "far"), Check::new(SHAPE));
    see(&mut viewer, &mut check, 1);
    let told = edge.stream("far").unwrap()["source"].clone();
    assert_eq!(
        (told["url"].as_str(), told["failures"].as_u64()),
        (Some(&*with.url("/live/far.ts")), Some(3))
    );
    assert_eq!(get(edge.address(), "/live/nobody.ts").status, 404, "all servers were asked");
    assert!(breaks.count("/live/nobody.ts") >= 1);
}

#[test]
fn a_stream_goes_on_from_the_next_server_where_the_first_is_killed() {
    let mut servers = [serve(&[]), serve(&[])];
    // The second server's pictures are later ones, so that none that was seen before is taken for them.
    let publish = |server: &Server, first: u64| {
        let mut publisher = glassline_test_support::http::publish(server.address(), "/live/far.ts");
        publisher.write_all(&SHAPE.picture(first)).unwrap();
        until("pictures at the origin", || server.count("far", "bytes_in") > 0);
        publisher
    };
    let mut publishers = [publish(&servers[0], 0), publish(&servers[1], 100)];
    let (edge, _scratch) = edge(&[&servers[0].url(""), &servers[1].url("")]);
    let (mut viewer, mut check) = (watch(&edge, "far"), Check::new(SHAPE));
    publishers[0].write_all(&SHAPE.picture(1)).unwrap();
    see(&mut viewer, &mut check, 2 * SHAPE.packets);
    servers[0].process.kill();
    let second = servers[1].url("/live/far.ts");
    until("the second server to be asked", || {
        let told = edge.stream("far").unwrap()["source"].clone();
        told["url"] == second.as_str() && told["state"] == "live"
    });
    for number in 101..104 {
        publishers[1].write_all(&SHAPE.picture(number)).unwrap();
    }
    see(&mut viewer, &mut check, 6 * SHAPE.packets);
    assert_eq!(check.moves, 1, "the seam is announced");
    assert_eq!(edge.count("far", "viewers"), 1);
}

#[test]
fn what_is_large_and_asked_for_often_is_the_same_each_time() {
    let bytes = pattern(700_001);
    let body = bytes.clone();
    let origin = Origin::start(move |_, connection| {
        connection.write_all(&whole(&body, "Cache-Control: max-age=60\r\nETag: \"1\"\r\n")).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for time in 0..12 {
        let answer = get(edge.address(), "/large.mp4");
        assert!(answer.status == 200 && answer.body == bytes, "time {time}: {} bytes", answer.body.len());
        let from = time * 50_000 + 17;
        let part = glassline_test_support::http::ask(
            edge.address(),
            "GET",
            "/large.mp4",
            &[&format!("Range: bytes={from}-{}", from + 100_000)],
        );
        assert_eq!(part.status, 206);
        assert!(part.body == bytes[from..=from + 100_000], "from {from}");
    }
    assert_eq!(origin.count("/large.mp4"), 1);
}
