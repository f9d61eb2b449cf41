//! Pages, API, metrics and probes.

use crate::{serve, serve_with};
use glassline_test_support::http::{Answer, ask, connect, get, publish};
use glassline_test_support::numbered::Shape;
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::SocketAddr;

const SHAPE: Shape = Shape { packets: 5, group: 5 };

fn is_kind(answer: &Answer, kind: &str) -> bool {
    answer.header("content-type").is_some_and(|found| found.split(';').next() == Some(kind))
}

/// The addresses of scripts and style sheets in a page, which are relative to the folder that has `above` folders above it.
fn assets(page: &str, above: usize) -> Vec<String> {
    let begin = if above == 0 { "./assets/".to_owned() } else { format!("{}assets/", "../".repeat(above)) };
    let quoted = page.split('"').filter_map(|part| part.strip_prefix(&*begin));
    quoted.map(|name| format!("/assets/{name}")).collect()
}

#[test]
fn the_pages_and_what_they_load() {
    let server = serve(&[]);
    for path in ["/", "/watch/x", "/watch/no-such-stream"] {
        let page = get(server.address(), path);
        assert!(page.status == 200 && is_kind(&page, "text/html"), "{path}: {page:?}");
        let assets = assets(&page.text(), path.matches('/').count() - 1);
        assert!(assets.iter().any(|asset| asset.ends_with(".js")), "{path} loads no script: {}", page.text());
        for asset in assets {
            let answer = get(server.address(), &asset);
            let kind = match asset.rsplit('.').next() {
                Some("js") => "text/javascript",
                Some("css") => "text/css",
                Some("svg") => "image/svg+xml",
                other => panic!("{asset}: {other:?}"),
            };
            assert!(answer.status == 200 && is_kind(&answer, kind), "{asset}: {:?}", answer.headers);
            assert!(!answer.body.is_empty());
            check_revalidation(server.address(), &asset, &answer);
        }
        assert!(
            !page.text().contains("http://") && !page.text().contains("https://"),
            "{path} loads from elsewhere"
        );
    }
    let missing = get(server.address(), "/assets/none.js");
    assert_eq!(missing.status, 404);
}

/// Where an answer carries an ETag, asking again with it costs no body.
fn check_revalidation(address: SocketAddr, path: &str, answer: &Answer) {
    let Some(tag) = answer.header("etag") else { return };
    assert!(tag.ends_with('"') && (tag.starts_with('"') || tag.starts_with("W/\"")), "{tag}");
    let again = ask(address, "GET", path, &[&format!("If-None-Match: {tag}")]);
    assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    let other = ask(address, "GET", path, &["If-None-Match: \"another\""]);
    assert_eq!((other.status, &other.body), (200, &answer.body), "{path}");
}

#[test]
fn head_says_what_get_would() {
    let server = serve(&[]);
    for path in ["/", "/watch/x", "/api/streams", "/healthz", "/metrics", "/no/such/page", "/live/none.ts"] {
        let (got, asked) = (get(server.address(), path), ask(server.address(), "HEAD", path, &[]));
        assert_eq!((asked.status, asked.body.len()), (got.status, 0), "{path}");
        assert_eq!(asked.header("content-type"), got.header("content-type"), "{path}");
        let has_length = asked.header("content-length").and_then(|length| length.parse::<usize>().ok());
        assert!(
            has_length.is_some_and(|length| length.abs_diff(got.body.len()) < 64),
            "{path}: {has_length:?}"
        );
    }
}

#[test]
fn one_connection_carries_many_requests() {
    let server = serve(&[]);
    let mut stream = connect(server.address());
    for _ in 0..20 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let head = glassline_test_support::http::read_head(&mut stream);
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        assert_eq!((head.status, String::from_utf8_lossy(&body).trim()), (200, "ok"));
    }
}

#[test]
fn probes_say_ok() {
    let server = serve(&[]);
    for path in ["/healthz", "/readyz"] {
        let answer = get(server.address(), path);
        assert_eq!((answer.status, answer.text().trim()), (200, "ok"), "{path}");
    }
    let time = get(server.address(), "/api/time").json()["utc_us"].as_u64().expect("a time");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    assert!(now.abs_diff(time) < 60_000_000, "{time} is not now");
}

#[test]
fn the_example_dashboard_asks_for_metrics_that_there_are() {
    let example = include_str!("../../examples/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(example).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 8));
    let metrics = serve(&[]).metrics();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let asked: std::collections::BTreeSet<&str> =
        example.split(|c: char| !is_name(c)).filter(|word| word.starts_with("glassline_")).collect();
    for name in &asked {
        // A histogram's samples have names of their own.
        let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let is_histogram = |family| metrics.families.get(family).is_some_and(|kind| kind == "histogram");
        assert!(
            metrics.families.contains_key(*name) || parts.into_iter().any(is_histogram),
            "{name} is no metric"
        );
    }
    assert!(asked.len() > 15, "{asked:?}");
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let server = serve(&[]);
    let empty = server.metrics();
    assert!(!empty.families.is_empty());
    let mut publisher = publish(server.address(), "/live/m.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    let bytes = SHAPE.picture(0).len() as u64;
    until("its bytes", || server.count("m", "bytes_in") == bytes);
    let mut viewer = connect(server.address());
    viewer.write_all(b"GET /live/m.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    until("the viewer", || server.count("m", "viewers") == 1);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_stream_bytes_in_total", "\"m\"") as u64, bytes);
    assert_eq!(metrics.sum("glassline_stream_viewers", "\"m\""), 1.0);
    assert_eq!(metrics.sum("glassline_stream_moved_forward_total", "\"m\""), 0.0);
    for (name, kind) in &metrics.families {
        assert!(name.starts_with("glassline_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    }
    assert!(is_kind(&get(server.address(), "/metrics"), "text/plain"));
}

/// The documented fields with their types; those in the second list may be null.
const STREAM_FIELDS: [(&str, &str); 17] = [
    ("name", "string"),
    ("mux", "string"),
    ("live", "boolean"),
    ("bitrate_bps", "integer"),
    ("viewers", "integer"),
    ("codecs", "array"),
    ("uptime_s", "number"),
    ("bytes_in", "integer"),
    ("bytes_out", "integer"),
    ("continuity_errors", "integer"),
    ("garbage_bytes", "integer"),
    ("left_out", "array"),
    ("moved_forward", "integer"),
    ("dropped_behind", "integer"),
    ("stalled", "integer"),
    ("cut_off", "integer"),
    ("publishers", "integer"),
];
const OPTIONAL_FIELDS: [&str; 2] = ["newest_byte_age_ms", "key_frame_interval_s"];

fn is_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        _ => false,
    }
}

#[test]
fn the_api_has_its_documented_fields() {
    let (server, _scratch) = serve_with("contact = 'Ring the video desk: \"+49 30\" <1>'\n");
    let empty = get(server.address(), "/api/streams");
    assert!(is_kind(&empty, "application/json"));
    let body = empty.json();
    assert_eq!(body["streams"], serde_json::json!([]));
    assert_eq!(body["server"]["contact"], "Ring the video desk: \"+49 30\" <1>");
    assert!(body["server"]["version"].is_string() && body["server"]["uptime_s"].is_number());
    assert!(body["server"]["now_utc_us"].is_u64());

    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&[SHAPE.picture(0), SHAPE.picture(1)].concat()).unwrap();
    until("the stream", || server.count("a", "bytes_in") > 0);
    let stream = server.stream("a").expect("listed");
    for (field, kind) in STREAM_FIELDS {
        assert!(is_type(&stream[field], kind), "{field} is no {kind}: {stream}");
    }
    for field in OPTIONAL_FIELDS {
        let value = stream.get(field).unwrap_or_else(|| panic!("{field} is missing: {stream}"));
        assert!(value.is_null() || value.is_number(), "{field}: {stream}");
    }
    let join = stream.get("join").unwrap_or_else(|| panic!("join is missing: {stream}"));
    assert!(join.is_null() || join["at"].is_string() && join["settling_frames"].is_u64(), "{stream}");
    assert_eq!(stream["codecs"][0]["kind"], "video");
    assert_eq!(stream["codecs"][0]["name"], "H.264");
    let alone = get(server.address(), "/api/streams/a").json();
    assert_eq!(alone["name"], "a", "{alone}");
    assert_eq!(get(server.address(), "/api/streams/none").status, 404);
}

#[test]
fn no_page_is_sniffed_into_something_else() {
    let server = serve(&[]);
    for path in ["/", "/watch/x"] {
        let answer = get(server.address(), path);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}: {:?}", answer.headers);
    }
}

/// The address of the page's script.
fn script(server: &glassline_test_support::program::Server) -> String {
    let assets = assets(&get(server.address(), "/").text(), 0);
    assets.into_iter().find(|asset| asset.ends_with(".js")).expect("a script")
}

/// What gzip, the program, makes of a body.
fn gunzip(test: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !glassline_test_support::has_program("gzip") {
        glassline_test_support::skip(test, "gzip is not installed");
        return None;
    }
    let scratch = glassline_test_support::program::Scratch::new("gzip");
    let file = scratch.write("body.gz", bytes);
    let outcome = glassline_test_support::program::run("gzip", &["-dc", &file], 20);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    Some(outcome.stdout)
}

#[test]
fn text_comes_smaller_where_that_is_asked_for() {
    let test = "text_comes_smaller_where_that_is_asked_for";
    let server = serve(&[]);
    let asset = &script(&server);
    for path in [asset, "/metrics"] {
        let whole = get(server.address(), path);
        assert_eq!((whole.header("content-encoding"), whole.header("vary")), (None, Some("Accept-Encoding")));
        let small = ask(server.address(), "GET", path, &["Accept-Encoding: br;q=0.7, gzip;q=0.8"]);
        assert_eq!(small.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(small.header("vary"), Some("Accept-Encoding"), "{path}");
        assert!(small.body.len() * 2 < whole.body.len(), "{path}: {}", small.body.len());
        let Some(unpacked) = gunzip(test, &small.body) else { return };
        if path == asset {
            assert!(unpacked == whole.body, "{path}");
        } else {
            assert!(unpacked.starts_with(b"# HELP"), "{path}");
        }
        let refused = ask(server.address(), "GET", path, &["Accept-Encoding: gzip;q=0"]);
        assert_eq!((refused.status, refused.header("content-encoding")), (200, None), "{path}");
        let head = ask(server.address(), "HEAD", path, &["Accept-Encoding: gzip"]);
        assert_eq!((head.header("content-encoding"), head.body.len()), (Some("gzip"), 0), "{path}");
    }
    let (whole, small) =
        (get(server.address(), asset), ask(server.address(), "GET", asset, &["Accept-Encoding: gzip"]));
    assert_ne!(whole.header("etag"), small.header("etag"));
    let known = format!("If-None-Match: {}", small.header("etag").unwrap());
    let again = ask(server.address(), "GET", asset, &["Accept-Encoding: gzip", &known]);
    assert_eq!((again.status, again.body.len(), again.header("vary")), (304, 0, Some("Accept-Encoding")));
    // Too small to be worth it.
    assert_eq!(
        ask(server.address(), "GET", "/healthz", &["Accept-Encoding: gzip"]).header("content-encoding"),
        None
    );
}

#[test]
fn text_comes_in_brotli_where_that_is_wanted_more() {
    let server = serve(&[]);
    let asset = &script(&server);
    let wanting = |path: &str, codings: &str| {
        ask(server.address(), "GET", path, &[&format!("Accept-Encoding: {codings}")])
    };
    // The files are compressed when they are first asked for; meanwhile they come in gzip, or as they are.
    until("the script in Brotli", || {
        let answer = wanting(asset, "gzip, deflate, br");
        answer.header("content-encoding") == Some("br")
    });
    let whole = get(server.address(), asset);
    let (in_brotli, in_gzip) = (wanting(asset, "br, gzip"), wanting(asset, "br;q=0.5, gzip"));
    assert_eq!(in_gzip.header("content-encoding"), Some("gzip"));
    assert!(in_brotli.body.len() < in_gzip.body.len(), "{} of {}", in_brotli.body.len(), in_gzip.body.len());
    assert!(unbrotli(&in_brotli.body) == whole.body);
    let tags = [&whole, &in_gzip, &in_brotli].map(|answer| answer.header("etag").unwrap().to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    let again =
        ask(server.address(), "GET", asset, &["Accept-Encoding: br", &format!("If-None-Match: {}", tags[2])]);
    assert_eq!((again.status, again.header("vary")), (304, Some("Accept-Encoding")));
    let metrics = wanting("/metrics", "br");
    assert_eq!(
        (metrics.header("content-encoding"), metrics.header("vary")),
        (Some("br"), Some("Accept-Encoding"))
    );
    assert!(unbrotli(&metrics.body).starts_with(b"# HELP"));
    assert_eq!(wanting("/metrics", "br;q=0, identity").header("content-encoding"), None);
}

/// What a decoder makes of a body.
fn unbrotli(bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    brotli::BrotliDecompress(&mut &bytes[..], &mut whole).unwrap();
    whole
}

#[test]
fn parts_of_what_has_an_end() {
    let server = serve(&[]);
    let asset = &script(&server);
    let whole = get(server.address(), asset);
    let (length, tag) = (whole.body.len(), whole.header("etag").unwrap());
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let part = ask(server.address(), "GET", asset, &["Range: bytes=10-19", &format!("If-Range: {tag}")]);
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[10..20]));
    assert_eq!(part.header("content-range"), Some(format!("bytes 10-19/{length}").as_str()));
    assert_eq!(part.header("content-length"), Some("10"));
    let last = ask(server.address(), "GET", asset, &["Range: bytes=-7"]);
    assert_eq!((last.status, &last.body[..]), (206, &whole.body[length - 7..]));
    let changed = ask(server.address(), "GET", asset, &["Range: bytes=10-19", "If-Range: \"other\""]);
    assert_eq!((changed.status, changed.body.len()), (200, length));
    let beyond = ask(server.address(), "GET", asset, &[&format!("Range: bytes={length}-")]);
    assert_eq!(
        (beyond.status, beyond.header("content-range")),
        (416, Some(format!("bytes */{length}").as_str()))
    );
    // A live stream has no end and no parts.
    let mut publisher = publish(server.address(), "/live/r.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("r", "bytes_in") > 0);
    let mut viewer = connect(server.address());
    viewer.write_all(b"GET /live/r.ts HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\n\r\n").unwrap();
    let head = glassline_test_support::http::read_head(&mut viewer);
    assert_eq!((head.status, head.header("content-range")), (200, None));
}

#[test]
fn all_methods_take_turns_on_one_connection() {
    let server = serve(&[]);
    let mut stream = connect(server.address());
    let requests = "HEAD /healthz HTTP/1.1\r\nHost: h\r\n\r\n\
        OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /healthz HTTP/1.1\r\nHost: h\r\nRange: bytes=1-1\r\n\r\n\
        DELETE /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz\
        GET https://h/gen204 HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    // In pieces that end anywhere.
    for piece in requests.as_bytes().chunks(37) {
        stream.write_all(piece).unwrap();
    }
    let mut next = |has_body: bool| {
        let head = glassline_test_support::http::read_head(&mut stream);
        let length = head.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; if has_body { length } else { 0 }];
        stream.read_exact(&mut body).unwrap();
        (head.status, String::from_utf8(body).unwrap())
    };
    assert_eq!(next(false), (200, String::new()));
    assert_eq!(next(true), (204, String::new()));
    assert_eq!(next(true), (206, "k".into()));
    assert_eq!(next(true).0, 405);
    assert_eq!(next(true), (204, String::new()));
    assert_eq!(next(true), (200, "ok\n".into()));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}
