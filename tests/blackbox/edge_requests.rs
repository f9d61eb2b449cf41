//! What a single request may cause at an edge, and what an upstream server's answer may: nothing for others.

use crate::edge::{Origin, edge, whole};
use crate::serve_with;
use glassline_test_support::http::{ask, get};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What is seen of each request at an origin that answers all with `fields`.
fn recording(fields: &'static str) -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    let origin = Origin::start(move |asked, connection| {
        seen.lock().unwrap().push(asked.head.clone());
        connection.write_all(&whole(b"bytes", fields)).is_ok()
    });
    (origin, heads)
}

#[test]
fn what_a_client_writes_does_not_make_the_upstream_server_refuse() {
    let (origin, heads) = recording("Cache-Control: no-cache\r\n");
    let (edge, _scratch) = edge(&[&origin.url()]);
    let long = "x".repeat(14 << 10);
    let hops: Vec<String> = (0..400).map(|hop| format!("1.1 glassline-{hop:016x}")).collect();
    for fields in [
        vec![format!("Via: 1.1 {long}")],
        vec![format!("Via: {}", hops.join(", "))],
        vec!["Via: 1.1 squid.example".to_owned(), format!("X-Forwarded-For: {long}")],
        vec![
            "Connection: Via".to_owned(),
            "Via: 1.1 glassline-0000000000000001".to_owned(),
            "Range: bytes=1-2".to_owned(),
            "If-None-Match: \"x\"".to_owned(),
            "If-Modified-Since: Thu, 26 Nov 2026 00:00:00 GMT".to_owned(),
            "Accept-Encoding: gzip".to_owned(),
            "Accept-Language: eo".to_owned(),
            "Origin: https://a.example".to_owned(),
            "Cookie: a=b".to_owned(),
            "Authorization: Bearer alice".to_owned(),
            "Cache-Control: no-store".to_owned(),
            "Forwarded: for=192.0.2.1".to_owned(),
            "User-Agent: someone".to_owned(),
            "TE: trailers".to_owned(),
            "Expect: 200-maybe".to_owned(),
            "Upgrade: h2c".to_owned(),
        ],
    ] {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let status = ask(edge.address(), "GET", "/a.m3u8", &fields).status;
        assert!(matches!(status, 200 | 206), "{status}");
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 4);
    for head in heads.iter() {
        let names: Vec<String> =
            head.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0.to_lowercase())).collect();
        assert_eq!(names, ["host", "user-agent", "via"], "{head}");
        assert!(head.len() < 1024 && !head.contains("someone") && !head.contains("squid"), "{head}");
    }
    assert!(heads[1].contains("glassline-000000000000018f"), "a circle is still seen: {}", heads[1]);
    assert!(!heads[3].contains("glassline-0000000000000001"), "{}", heads[3]);
}

#[test]
fn an_answer_that_its_request_caused_is_not_kept_and_takes_no_good_objects_place() {
    let first = AtomicUsize::new(0);
    let origin = Origin::start(move |asked, connection| {
        let good = whole(b"good", "ETag: \"1\"\r\nCache-Control: max-age=0, stale-if-error=600\r\n");
        let refusal = |line: &str| {
            format!("HTTP/1.1 {line}\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nno")
                .into_bytes()
        };
        let answer = match asked.target.as_str() {
            "/good.m4s" if first.fetch_add(1, Ordering::Relaxed) == 0 => good,
            "/good.m4s" => refusal("429 Too Many Requests"),
            "/long.m4s" => refusal("414 URI Too Long"),
            _ => refusal("431 Request Header Fields Too Large"),
        };
        connection.write_all(&answer).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for _ in 0..4 {
        let answer = get(edge.address(), "/good.m4s");
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"good"[..]));
    }
    assert_eq!(origin.count("/good.m4s"), 4, "it was asked about each time");
    for (target, status) in [("/long.m4s", 414), ("/large.m4s", 431)] {
        for asked in 1..=3 {
            assert_eq!(get(edge.address(), target).status, status);
            assert_eq!(origin.count(target), asked, "{target} is not kept");
        }
    }
}

#[test]
fn a_good_object_keeps_its_place_while_its_server_fails() {
    let first = AtomicUsize::new(0);
    let origin = Origin::start(move |_, connection| {
        let good = whole(b"good", "ETag: \"1\"\r\nCache-Control: max-age=0, stale-if-error=600\r\n");
        let failure = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec();
        let answer = if first.fetch_add(1, Ordering::Relaxed) == 0 { good } else { failure };
        connection.write_all(&answer).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for _ in 0..4 {
        assert_eq!(get(edge.address(), "/a.m4s").body, b"good");
    }
}

#[test]
fn an_address_that_a_server_fails_at_does_not_take_the_server_from_others() {
    let first = Origin::start(|asked, connection| {
        let failure = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec();
        let answer = if asked.target == "/bad.m4s" { failure } else { whole(b"first", "") };
        connection.write_all(&answer).is_ok()
    });
    let (second, _) = recording("");
    let (edge, _scratch) = edge(&[&first.url(), &second.url()]);
    assert_eq!(get(edge.address(), "/bad.m4s").body, b"bytes", "the next server has it");
    assert_eq!(get(edge.address(), "/good.m4s").body, b"first");
}

#[test]
fn what_no_shared_cache_may_keep_is_asked_for_again() {
    let counts = AtomicUsize::new(0);
    let origin = Origin::start(move |asked, connection| {
        let count = counts.fetch_add(1, Ordering::Relaxed);
        let (status, fields) = match asked.target.as_str() {
            "/found" => ("302 Found", ""),
            "/denied.m4s" => ("403 Forbidden", ""),
            "/private.m4s" => ("200 OK", "Cache-Control: private=\"x, y\", max-age=600\r\n"),
            "/invalid.m4s" => ("200 OK", "Expires: soon\r\n"),
            _ => (
                "200 OK",
                "Date: Thu, 26 Nov 2026 00:00:00 GMT\r\nExpires: Fri, 27 Nov 2026 00:00:00 GMT\r\n",
            ),
        };
        let head = format!("HTTP/1.1 {status}\r\nLocation: /s{count}\r\n{fields}Content-Length: 0\r\n\r\n");
        connection.write_all(head.as_bytes()).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    let location = |target: &str| get(edge.address(), target).header("location").unwrap().to_owned();
    for target in ["/found", "/denied.m4s", "/private.m4s", "/invalid.m4s"] {
        assert_ne!(location(target), location(target), "{target}");
    }
    assert_eq!(location("/expires.bin"), location("/expires.bin"));
}

#[test]
fn what_acts_on_a_whole_origin_does_not_come_from_an_upstream_server() {
    let (origin, _) = recording(
        "Content-Type: text/html\r\nETag: \"1\"\r\nX-Secret: 1\r\nConnection: keep-alive, ETag, X-Secret\r\n\
         Content-Security-Policy: script-src *\r\nContent-Security-Policy-Report-Only: x\r\n\
         X-Content-Type-Options: off\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h3=\":1\"\r\n\
         Strict-Transport-Security: max-age=9\r\nSet-Cookie: a=b\r\nService-Worker-Allowed: /\r\n\
         Refresh: 0\r\nLink: </a>; rel=preload\r\nNEL: {}\r\nReport-To: {}\r\nSourceMap: /a\r\n\
         Access-Control-Allow-Credentials: true\r\nAccess-Control-Allow-Origin: *\r\n",
    );
    let (edge, _scratch) = edge(&[&origin.url()]);
    for target in ["/page", "/live/a/page"] {
        let answer = get(edge.address(), target);
        let mut names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let wanted = [
            "access-control-allow-origin",
            "age",
            "cache-status",
            "connection",
            "content-length",
            "content-security-policy",
            "content-type",
            "server",
            "server-timing",
            "via",
            "x-content-type-options",
        ];
        assert_eq!(names, wanted, "{target}");
        assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn no_other_way_to_write_a_streams_path_leads_around_its_rules() {
    let (origin, heads) = recording("");
    let config = format!(
        "[stream.closed]\nviewer_key = 'a-key-of-many-letters'\n[upstream]\nservers = ['{}']\n",
        origin.url()
    );
    let (edge, _scratch) = serve_with(&config);
    for path in [
        "/live/closed/1.m4s",
        "/live/CLOSED/1.m4s",
        "/LIVE/closed/1.m4s",
        "/live;x/closed/1.m4s",
        "/live;x=y;z/closed/1.m4s",
        "/;/live/closed/1.m4s",
        "//live/closed/1.m4s",
        "/live//closed/1.m4s",
        "/live/./closed/1.m4s",
        "/./live/closed/1.m4s",
        "/.%00/live/closed/1.m4s",
        "/%2e%2e/live/closed/1.m4s",
        "/x/..;/live/closed/1.m4s",
        "/%6cive/closed/1.m4s",
        "/%256cive/closed/1.m4s",
        "/live%2fclosed/1.m4s",
        "/live%252fclosed/1.m4s",
        "/live%5cclosed/1.m4s",
        "/live\\closed/1.m4s",
        "/live%20/closed/1.m4s",
        "/live/closed;x/1.m4s",
        "/live/closed./1.m4s",
        "/live/clos%65d/1.m4s",
        "/live/open/../closed/1.m4s",
        "/live/open/..;/closed/1.m4s",
        "/live/open/%2e%2e/closed/1.m4s",
        "/live/open/%252e%252e/closed/1.m4s",
        "/live/open/..%5cclosed/1.m4s",
        "live/closed/1.m4s",
    ] {
        let status = get(edge.address(), path).status;
        assert!(matches!(status, 400 | 401 | 403 | 404), "{path}: {status}");
    }
    assert_eq!(*heads.lock().unwrap(), Vec::<String>::new(), "nothing of it went upstream");
    assert_eq!(get(edge.address(), "/live/open/1.m4s").body, b"bytes");
    assert_eq!(get(edge.address(), "/pct//a;v=1%20b%2Fc.m4s").body, b"bytes");
}
