//! What goes on between clients and upstream servers: paths and queries, `Via`, times, and the fields of answers.
//!
//! The first byte chooses: 0, the rest is a path and behind a line feed a query; 1, a time; 2, a request; else an answer.

use glassline_delivery::fill::{
    Defaults, Download, Freshness, Head, Via, has_passed, server_name, upstream_target,
};
use glassline_delivery::http1::client::{Event as Answered, Request};
use glassline_delivery::http1::server::{Event as Asked, Server};
use glassline_delivery::http1::{Limits, Method, parse_date};
use glassline_delivery::policy::StreamName;
use glassline_media::{Time, Utc};

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    match data.split_first() {
        None => {}
        Some((0, rest)) => path(&String::from_utf8_lossy(rest)),
        Some((1, rest)) => date(&String::from_utf8_lossy(rest)),
        Some((2, rest)) => request(rest),
        Some((_, rest)) => answer(rest),
    }
}

fn path(text: &str) {
    let (path, query) = text.split_once('\n').unwrap_or((text, ""));
    let Some(target) = upstream_target(path, query) else { return };
    assert!(target.starts_with(path));
    // A server that does all at once, as long as it changes something.
    let (mut seen, mut before) = (path.to_owned(), String::new());
    while seen != before {
        let next = read_leniently(&seen);
        before = std::mem::replace(&mut seen, next);
    }
    if let Some((name, _)) = StreamName::of_presentation_path(&seen) {
        let decided = StreamName::of_presentation_path(path).map(|(name, _)| name);
        let is_same = decided.is_some_and(|decided| decided.as_str().eq_ignore_ascii_case(name.as_str()));
        assert!(is_same, "{path} is read as {seen}");
    }
}

fn read_leniently(path: &str) -> String {
    let bytes = path.replace('\\', "/");
    let mut plain = Vec::new();
    let mut rest = bytes.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        rest = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                &tail[2..]
            }
            _ => {
                plain.push(*first);
                tail
            }
        };
    }
    let plain = String::from_utf8_lossy(&plain).to_ascii_lowercase();
    let mut kept = Vec::new();
    for part in plain.split('/').map(|part| part.split(';').next().unwrap_or_default()) {
        match part {
            "" | "." => {}
            ".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

fn date(text: &str) {
    if let Some(seconds) = parse_date(text) {
        assert!(seconds < 253_402_300_801, "later than the year 9999: {text}");
        assert_eq!(parse_date(text.trim()), Some(seconds));
    }
}

fn request(bytes: &[u8]) {
    let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
    let Ok(Some(Asked::Request(request))) = server.next(&mut &*bytes, Time::ZERO) else { return };
    let own = server_name(7);
    let told = Via::of(&request.headers).then(&own);
    assert!(told.len() < 600, "{told}");
    let mut next = Server::new(Limits::DEFAULT, Time::ZERO);
    let wire = format!("GET / HTTP/1.1\r\nHost: h\r\nVia: {told}\r\n\r\n");
    match next.next(&mut wire.as_bytes(), Time::ZERO) {
        Ok(Some(Asked::Request(request))) => assert!(has_passed(&request.headers, &own), "{told}"),
        other => panic!("{told} makes {other:?}"),
    }
}

fn answer(bytes: &[u8]) {
    let mut client = Request::new(Method::Get, "h", "/").client(Limits::DEFAULT);
    let Ok(Some(Answered::Head(head))) = client.next(&mut &*bytes) else { return };
    let passed = Head::of_answer(head.status, &head.headers);
    assert_eq!(passed.for_clients(), passed);
    assert_eq!(Head::of_lines(head.status, passed.lines()).as_ref(), Some(&passed));
    let other = ["set-cookie", "content-security-policy", "clear-site-data", "alt-svc", "link", "connection"];
    assert!(other.iter().all(|name| passed.field(name).is_none()), "{}", passed.lines());
    let renewed = passed.renewed(&head.headers);
    assert_eq!(renewed.renewed(&head.headers), renewed);
    let defaults = Defaults::default();
    for path in ["/a.m4s", "/a.m3u8"] {
        let freshness = Freshness::of(head.status, &head.headers, path, &defaults, Utc::from_nanos(0));
        let _ = Freshness::of_renewed(&passed, &head.headers, path, &defaults, Utc::from_nanos(0));
        let _ = freshness.until(Time::from_millis(1000));
        let mut download = Download::new(None);
        let _ = download.handle_head(&head);
        assert!(!download.is_of_request() || freshness == Freshness::default());
    }
}
