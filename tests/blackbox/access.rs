//! Who may publish and watch, how much, and what web pages of others may read.

use crate::{glassline, serve_with};
use glassline_test_support::http::{Answer, ask, connect, get, publish, raw, read_answer, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

const SHAPE: Shape = Shape { packets: 60, group: 10 };

/// A server that has a stream "stage", and its publisher.
fn stage(config: &str) -> (Server, TcpStream, Scratch) {
    let (server, scratch) = serve_with(config);
    let mut publisher = publish(server.address(), "/live/stage.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") > 0);
    (server, publisher, scratch)
}

/// Asks for a stream and reads the answer's head; the viewer stays.
fn watch(server: &Server, target: &str) -> (Answer, TcpStream) {
    let mut stream = connect(server.address());
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    (read_head(&mut stream), stream)
}

#[test]
fn with_a_viewer_key_only_signed_addresses_let_in() {
    let (server, _publisher, _scratch) = stage("[viewer]\nkey = 'a-viewer-key'\n[log]\nlevel = 'trace'\n");
    let key_file = Scratch::new("key");
    let key = key_file.write("viewer.key", "a-viewer-key\n");
    let sign = |path: &str, time: &str| {
        let url = server.url(path);
        let signed = glassline(&["sign", &url, "--key-file", &key, "--for", time]);
        assert_eq!(signed.status, Some(0), "{}", signed.stderr);
        let text = signed.text();
        assert!(text.starts_with(&url), "{text}");
        text.trim().strip_prefix(&server.url("")).unwrap().to_owned()
    };
    let refused = get(server.address(), "/live/stage.ts");
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("glassline sign"), "{}", refused.text());

    let good = sign("/live/stage.ts", "1h");
    let (answer, _viewer) = watch(&server, &good);
    assert_eq!(answer.status, 200);
    until("the viewer to be counted", || server.count("stage", "viewers") == 1);
    assert_eq!(ask(server.address(), "HEAD", &good, &[]).status, 200);
    assert_eq!(get(server.address(), &sign("/live/stage.ts", "0s")).status, 403);
    // One stream's token is not another's, and the page's address carries the same one.
    let other = sign("/live/other.ts", "1h");
    let query = other.split_once('?').unwrap().1;
    assert_eq!(get(server.address(), &format!("/live/stage.ts?{query}")).status, 401);
    let page = sign("/watch/stage", "1h");
    let query = page.split_once('?').unwrap().1;
    assert_eq!(watch(&server, &format!("/live/stage.ts?{query}")).0.status, 200);

    let log = server.process.output();
    let token = good.split_once("token=").unwrap().1;
    assert!(!log.contains("a-viewer-key") && !log.contains(token), "a secret is in the log: {log}");
}

#[test]
fn sign_says_what_it_needs() {
    let scratch = Scratch::new("sign");
    let (key, short) = (scratch.write("good.key", "a-viewer-key"), scratch.write("short.key", "short"));
    for (arguments, words) in [
        (["http://h/stage", &key], "/live/NAME.ts"),
        (["http://h/live/stage.ts", &short], "8 to 256"),
        (["http://h/live/stage.ts", "/nowhere/key"], "/nowhere/key"),
    ] {
        let outcome = glassline(&["sign", arguments[0], "--key-file", arguments[1]]);
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn viewers_are_limited_by_stream_and_by_address() {
    for (limits, status) in [("max_per_stream = 2", 503), ("max_per_address = 2", 429)] {
        let (server, _publisher, _scratch) = stage(&format!("[viewer]\n{limits}\n"));
        let first = watch(&server, "/live/stage.ts");
        let second = watch(&server, "/live/stage.ts");
        assert_eq!((first.0.status, second.0.status), (200, 200), "{limits}");
        // What is refused is a viewer, not a look at the head.
        assert_eq!(get(server.address(), "/live/stage.ts").status, status, "{limits}");
        assert_eq!(ask(server.address(), "HEAD", "/live/stage.ts", &[]).status, 200);
        drop(first);
        until("the place of who left", || watch(&server, "/live/stage.ts").0.status == 200);
    }
}

#[test]
fn networks_that_may_not_are_refused() {
    let (server, mut publisher, _scratch) = stage("[viewer]\nnetworks = ['10.0.0.0/8']\n");
    assert_eq!(get(server.address(), "/live/stage.ts").status, 403);
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    let (server, _scratch) = serve_with("[publish]\nnetworks = ['10.0.0.0/8']\n");
    let answer = read_answer(&mut publish(server.address(), "/live/stage.ts"));
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("[publish] networks"), "{}", answer.text());
}

#[test]
fn a_publisher_that_sends_too_much_is_refused() {
    let (server, mut publisher, _scratch) = stage("[publish]\nmax_bitrate = '500k'\n");
    // Five seconds' worth may come at once: 312,500 bytes, 27 pictures.
    let mut refused = false;
    for number in 1..200 {
        refused = publisher.write_all(&SHAPE.picture(number)).is_err();
        if refused {
            break;
        }
    }
    let answer = read_answer(&mut publisher);
    assert_eq!(answer.status, 429, "{refused}");
    assert!(
        answer.text().contains("500000 bit/s") && answer.text().contains("max_bitrate"),
        "{}",
        answer.text()
    );
    let taken = server.count("stage", "bytes_in");
    assert!(taken <= 312_500, "{taken} bytes were taken");
    until("the publisher slot to be free", || {
        server.stream("stage").is_none_or(|stream| stream["live"] == false)
    });
}

#[test]
fn publishers_are_limited_by_address() {
    let (server, publisher, _scratch) = stage("[publish]\nmax_per_address = 1\n");
    assert_eq!(read_answer(&mut publish(server.address(), "/live/two.ts")).status, 429);
    drop(publisher);
    until("the first publisher to be gone", || server.stream("stage").is_none_or(|s| s["live"] == false));
    let mut second = publish(server.address(), "/live/two.ts");
    second.write_all(&SHAPE.picture(0)).unwrap();
    until("the second stream", || server.count("two", "bytes_in") > 0);
}

/// The answer to a request of these lines, whose connection ends behind it.
fn ask_as(address: SocketAddr, first_line: &str, fields: &[&str]) -> Answer {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let head = format!("{first_line} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    raw(address, head.as_bytes()).expect("an answer")
}

/// DNS rebinding: a page at a name whose owner lets it point here has the browser send that name as Host and as Origin.
#[test]
fn a_name_that_is_not_this_servers_opens_nothing() {
    let called = |server: &Server, name: &str, first_line: &str| {
        let port = server.address().port();
        let (host, origin) = (format!("Host: {name}:{port}"), format!("Origin: http://{name}:{port}"));
        ask_as(server.address(), first_line, &[&host, &origin, "Content-Length: 0"])
    };
    let asked = [
        "POST /api/streams/stage/keyframe",
        "POST /api/streams/stage/bitrate?rate=1M",
        "GET /api/clients",
        "GET /metrics",
        "GET /api/encoders",
        "PUT /live/stage.ts?takeover=1",
        "PUT /live/new.ts",
    ];
    let (server, mut publisher, _scratch) = stage("");
    for first_line in asked {
        let refused = called(&server, "evil", first_line);
        assert_eq!(refused.status, 403, "{first_line}: {}", refused.text());
        assert_eq!(refused.header("content-type"), Some("application/problem+json"), "{first_line}");
        assert!(refused.text().contains("'hosts'"), "{first_line}: {}", refused.text());
    }
    // What everybody may see, everybody may call as they like.
    assert_eq!(called(&server, "evil", "GET /api/streams").status, 200);
    // The stream is whose it was.
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    let bytes = (SHAPE.picture(0).len() + SHAPE.picture(1).len()) as u64;
    until("the second picture", || server.count("stage", "bytes_in") == bytes);
    assert_eq!(server.count("stage", "publishers"), 1);

    let (server, _publisher, _scratch) = stage("hosts = ['relay.example']\n");
    for name in ["127.0.0.1", "[::1]", "localhost", "RELAY.example.", "a.localhost"] {
        let statuses: Vec<_> =
            asked[..5].iter().map(|first_line| called(&server, name, first_line).status).collect();
        assert_eq!(statuses, [409, 409, 200, 200, 200], "{name}");
        assert_eq!(called(&server, name, "PUT /live/new.ts").status, 204, "{name}");
    }
    assert_eq!(called(&server, "evil", "PUT /live/new.ts").status, 403);
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let (server, _publisher, _scratch) = stage("");
    let host = format!("Host: {}", server.address());
    for site in ["cross-site", "same-site"] {
        let site = format!("Sec-Fetch-Site: {site}");
        for first_line in ["PUT /live/stage.ts?takeover=1", "POST /api/streams/stage/keyframe"] {
            let refused = ask_as(server.address(), first_line, &[&host, &site, "Content-Length: 0"]);
            assert_eq!(refused.status, 403, "{first_line} {site}");
        }
        assert_eq!(ask_as(server.address(), "GET /api/streams", &[&host, &site]).status, 200);
    }
    let own = ask_as(
        server.address(),
        "PUT /live/own.ts",
        &[&host, "Sec-Fetch-Site: same-origin", "Content-Length: 0"],
    );
    assert_eq!(own.status, 204);
}

#[test]
fn what_a_proxy_passes_on_is_not_from_this_machine() {
    let (server, _publisher, _scratch) = stage("");
    let (near, _publisher, _scratch) =
        stage("[viewer]\nnetworks = ['127.0.0.0/8']\n[publish]\nnetworks = ['127.0.0.0/8']\n");
    for field in [
        "Forwarded: for=192.0.2.1",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-Proto: https",
        "Via: 1.1 proxy",
    ] {
        for server in [&server, &near] {
            for (method, target) in [
                ("PUT", "/live/stage.ts?takeover=1"),
                ("GET", "/api/clients"),
                ("GET", "/metrics"),
                ("GET", "/api/encoders"),
            ] {
                let refused = ask(server.address(), method, target, &[field, "Content-Length: 0"]);
                assert_eq!(refused.status, 403, "{method} {target} {field}: {}", refused.text());
            }
        }
        assert_eq!(ask(near.address(), "GET", "/live/stage.ts", &[field]).status, 403, "{field}");
        assert_eq!(ask(server.address(), "HEAD", "/live/stage.ts", &[field]).status, 200, "{field}");
    }
    assert_eq!(ask(near.address(), "HEAD", "/live/stage.ts", &[]).status, 200);
    // With a key it is always the key that counts, near and far.
    let key = "Authorization: Bearer open-sesame-of-16";
    let (keyed, _scratch) = serve_with("[publish]\nkey = 'open-sesame-of-16'\n");
    let status = |method: &str, target: &str, fields: &[&str]| {
        ask(keyed.address(), method, target, &[fields, &["Content-Length: 0"]].concat()).status
    };
    for (method, target, good) in [("PUT", "/live/a.ts", 204), ("GET", "/api/clients", 200)] {
        assert_eq!(status(method, target, &[]), 401, "{target}");
        assert_eq!(status(method, target, &["Via: 1.1 proxy"]), 401, "{target}");
        assert_eq!(status(method, target, &[key]), good, "{target}");
        assert_eq!(
            status(method, target, &[key, "Via: 1.1 proxy", "X-Forwarded-For: 192.0.2.1"]),
            good,
            "{target}"
        );
    }
}

/// Who has no token cannot tell streams that need one from those that do not exist.
#[test]
fn unknown_and_closed_streams_answer_alike() {
    for (config, status) in [
        ("[viewer]\nkey = 'a-viewer-key'\n", 401),
        ("[stream.stage]\nviewer_key = 'a-viewer-key'\n", 404),
        ("[viewer]\nnetworks = ['192.0.2.0/24']\n", 403),
    ] {
        let (server, _publisher, _scratch) = stage(config);
        let signed = "?expires=4000000000&token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for query in ["", signed, "?encoding=none", "?prebuffer=x", "?encoding=metacube"] {
            for (method, extension) in [("GET", "ts"), ("HEAD", "ts"), ("GET", "flv"), ("GET", "raw")] {
                let answer = |name: &str| {
                    let Answer { status, headers, body } =
                        ask(server.address(), method, &format!("/live/{name}.{extension}{query}"), &[]);
                    (status, headers, body)
                };
                let (closed, unknown) = (answer("stage"), answer("nosuch"));
                assert_eq!(closed, unknown, "{config} {method} {extension} {query}");
                assert_eq!(closed.0, status, "{config} {method} {extension} {query}");
            }
        }
        // The API tells whoever is no operator no more. A proxy's caller is not.
        let told = |target: &str| {
            let Answer { status, headers, body } = ask(server.address(), "GET", target, &["Via: 1.1 proxy"]);
            (status, headers, body)
        };
        assert_eq!(told("/api/streams/stage"), told("/api/streams/nosuch"), "{config}");
        assert_eq!(told("/api/streams/stage/history"), told("/api/streams/nosuch/history"), "{config}");
        assert_eq!(told("/api/streams/stage").0, 404, "{config}");
        let list = ask(server.address(), "GET", "/api/streams", &["Via: 1.1 proxy"]).json();
        assert_eq!(list["streams"], serde_json::json!([]), "{config}");
        assert_eq!(get(server.address(), "/api/streams/stage").status, 200, "{config}");
    }
}

#[test]
fn who_has_a_token_is_told_about_its_stream() {
    let (server, _publisher, _scratch) = stage("[viewer]\nkey = 'a-viewer-key'\n");
    let key_file = Scratch::new("key");
    let url = server.url("/live/stage.ts");
    let signed = glassline(&["sign", &url, "--key-file", &key_file.write("key", "a-viewer-key")]).text();
    let query = signed.trim().split_once('?').unwrap().1;
    let told = |target: &str| ask(server.address(), "GET", target, &["Via: 1.1 proxy"]);
    assert_eq!(told(&format!("/api/streams/stage?{query}")).json()["name"], "stage");
    assert_eq!(told(&format!("/api/streams/stage/history?points=1&{query}")).status, 200);
    assert_eq!(told(&format!("/api/streams?{query}")).json()["streams"][0]["name"], "stage");
    assert_eq!(told(&format!("/live/stage.flv?{query}")).status, 404);
    assert!(told(&format!("/live/stage.flv?{query}")).text().contains("/live/stage.ts"));
}

/// Bytes of others' under this server's name are no page of it.
#[test]
fn no_browser_makes_a_page_of_what_is_under_live() {
    let (server, mut publisher, _scratch) = stage("[viewer]\nmax_per_stream = 1\n");
    let check = |answer: &Answer, what: &str| {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}: {answer:?}");
        assert_eq!(answer.header("content-security-policy"), Some("sandbox"), "{what}: {answer:?}");
        let times = answer.headers.iter().filter(|(name, _)| name == "x-content-type-options").count();
        assert_eq!(times, 1, "{what}");
    };
    let (answer, _viewer) = watch(&server, "/live/stage.ts");
    assert_eq!(answer.status, 200);
    check(&answer, "a viewer");
    for (method, target, status) in [
        ("HEAD", "/live/stage.ts", 200),
        ("GET", "/live/stage.ts", 503),
        ("GET", "/live/stage.flv", 404),
        ("GET", "/live/stage.ts?encoding=x", 400),
        ("GET", "/live/stage.ts?prebuffer=x", 400),
        ("GET", "/live/nosuch.ts", 404),
        ("GET", "/live/x.html", 404),
        ("GET", "/live/", 404),
        ("GET", "/live", 404),
        ("OPTIONS", "/live/stage.ts", 204),
        ("DELETE", "/live/stage.ts", 405),
        ("DELETE", "/live/stage/1.m4s", 204),
        ("PUT", "/live/stage/manifest.mpd", 204),
        ("PUT", "/live/stage.ts", 409),
        ("PUT", "/live/empty.ts", 204),
        ("PUT", "/live/x.html", 404),
    ] {
        let answer = ask(server.address(), method, target, &["Content-Length: 0"]);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        check(&answer, &format!("{method} {target}"));
    }
    let _ = publisher.write_all(&vec![0; 300_000]);
    let refused = read_answer(&mut publisher);
    assert_eq!(refused.status, 415);
    check(&refused, "garbage");
}

#[test]
fn pages_of_others_may_read_where_the_configuration_says_so() {
    let (server, _publisher, _scratch) = stage("[viewer]\nallow_origin = 'https://example.org'\n");
    let shared = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    let expected = Some("https://example.org".to_owned());
    assert_eq!(shared(&watch(&server, "/live/stage.ts").0), expected);
    assert_eq!(shared(&get(server.address(), "/api/streams")), expected);
    let preflight = ask(server.address(), "OPTIONS", "/live/stage.ts", &["Origin: https://example.org"]);
    assert_eq!((preflight.status, shared(&preflight)), (204, expected));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD"));
    let allowed = preflight.header("access-control-allow-headers").unwrap_or_default();
    for field in ["Range", "Authorization", "If-None-Match", "If-Range", "Cache-Control", "CMCD-Request"] {
        assert!(allowed.split(", ").any(|named| named == field), "{field}: {allowed}");
    }
    assert_eq!(preflight.header("timing-allow-origin"), Some("https://example.org"));
    let exposed = preflight.header("access-control-expose-headers").unwrap_or_default();
    assert!(exposed.contains("Content-Range") && exposed.contains("ETag"), "{exposed}");

    let (server, _publisher, _scratch) = stage("");
    assert_eq!(shared(&watch(&server, "/live/stage.ts").0), None);
    assert_eq!(shared(&ask(server.address(), "OPTIONS", "/live/stage.ts", &[])), None);
}

#[test]
fn playlists_are_found_where_other_servers_have_them() {
    let (server, _scratch) = serve_with("");
    for (asked, found) in [
        ("/live/hall.m3u8", "hall/index.m3u8"),
        ("/live/hall.main.mpd?token=a&expires=9", "hall.main/manifest.mpd?token=a&expires=9"),
    ] {
        let answer = get(server.address(), asked);
        assert_eq!((answer.status, answer.header("location")), (302, Some(found)), "{asked}");
    }
    assert_eq!(get(server.address(), "/live/.m3u8").status, 404);
}

#[test]
fn a_probe_of_latency_gets_nothing_at_once() {
    let (server, _scratch) = serve_with("");
    let answer = get(server.address(), "/gen204");
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[test]
fn each_exchange_is_a_line_of_the_access_log() {
    let (server, mut publisher, scratch) =
        stage("[log]\naccess = 'access.log'\n[viewer]\nkey = 'a-viewer-key'\n");
    let log = || std::fs::read_to_string(scratch.path().join("access.log")).unwrap();
    ask(server.address(), "GET", "/api/streams?secret=1", &["User-Agent: a \"quoted\" one"]);
    assert_eq!(get(server.address(), "/live/stage.ts?token=AAAA&expires=9").status, 401);
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    let bytes = SHAPE.picture(0).len() + SHAPE.picture(1).len();
    until("the second picture", || server.count("stage", "bytes_in") == bytes as u64);
    drop(publisher);
    // A viewer's line comes when it has gone.
    let name = Scratch::new("key");
    let url = server.url("/live/stage.ts");
    let signed = glassline(&["sign", &url, "--key-file", &name.write("key", "a-viewer-key")]).text();
    let (answer, viewer) = watch(&server, signed.trim().strip_prefix(&server.url("")).unwrap());
    assert_eq!(answer.status, 200);
    drop(viewer);
    let find = |words: &[&str]| log().lines().any(|line| words.iter().all(|word| line.contains(word)));
    let published = format!("\"PUT /live/stage.ts HTTP/1.1\" 204 {bytes} ");
    for words in [
        &["127.0.0.1 - - [", "\"GET /api/streams HTTP/1.1\" 200 ", "a \\\"quoted\\\" one"][..],
        &["\"GET /live/stage.ts HTTP/1.1\" 401 "],
        &[&published],
        &["\"GET /live/stage.ts HTTP/1.1\" 200 "],
    ] {
        until(&format!("a line with {words:?}"), || find(words));
    }
    let text = log();
    assert!(!text.contains("secret") && !text.contains("token") && !text.contains("expires"), "{text}");
}

#[test]
fn a_publisher_that_is_cut_off_has_no_good_status() {
    let (server, scratch) = serve_with("[log]\naccess = 'access.log'\n[publish]\nopen = true\n");
    for (name, end, status) in [("whole", "0\r\n\r\n", 204), ("cut", "", 400)] {
        let mut publisher = connect(server.address());
        let picture = SHAPE.picture(0);
        write!(publisher, "PUT /live/{name}.ts HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        write!(publisher, "{:x}\r\n", picture.len()).unwrap();
        publisher.write_all(&picture).unwrap();
        write!(publisher, "\r\n{end}").unwrap();
        until("the picture", || server.count(name, "bytes_in") == picture.len() as u64);
        drop(publisher);
        let line = format!("\"PUT /live/{name}.ts HTTP/1.1\" {status} ");
        until(&line, || {
            std::fs::read_to_string(scratch.path().join("access.log")).is_ok_and(|log| log.contains(&line))
        });
    }
}

#[test]
fn an_access_log_that_cannot_be_written_is_named() {
    let scratch = Scratch::new("log");
    let config =
        scratch.write("glassline.toml", "listen = ['127.0.0.1:0']\n[log]\naccess = 'no/such/folder/log'\n");
    let outcome = glassline(&["serve", "--config", &config]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no/such/folder/log"), "{}", outcome.stderr);
}
