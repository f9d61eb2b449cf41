//! What an edge keeps, for how long, how it asks about that, and where redirects lead.

use crate::edge::{Origin, edge, whole};
use crate::serve_with;
use glassline_test_support::http::{Answer, ask, get, resolve};
use glassline_test_support::program::Server;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const CHANGED: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

/// A time as HTTP writes it, so many seconds from now.
fn date(seconds: i64) -> String {
    let (now, away) = (SystemTime::now(), Duration::from_secs(seconds.unsigned_abs()));
    httpdate::fmt_http_date(if seconds < 0 { now - away } else { now + away })
}

#[test]
fn expires_is_how_long_an_object_is_fresh() {
    let origin = Origin::start(|asked, connection| {
        let fields = match asked.target.as_str() {
            "/later" => format!("Date: {}\r\nExpires: {}\r\n", date(0), date(3600)),
            "/undated" => format!("Expires: {}\r\n", date(3600)),
            "/old-clock" => format!("Date: {}\r\nExpires: {}\r\n", date(-86_400), date(-80_000)),
            "/refusal" => {
                let fields = format!("Expires: {}\r\nContent-Length: 0\r\n", date(3600));
                return connection
                    .write_all(format!("HTTP/1.1 403 Forbidden\r\n{fields}\r\n").as_bytes())
                    .is_ok();
            }
            "/over" => format!("Date: {}\r\nExpires: {}\r\n", date(0), date(0)),
            "/past" => format!("Expires: {}\r\n", date(-60)),
            "/max-age" => format!("Expires: {}\r\nCache-Control: max-age=0\r\n", date(3600)),
            _ => "Expires: 0\r\n".to_owned(),
        };
        connection.write_all(&whole(b"body", &fields)).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for (target, asked) in [
        ("/later", 1),
        ("/undated", 1),
        ("/old-clock", 1),
        ("/refusal", 1),
        ("/over", 2),
        ("/past", 2),
        ("/max-age", 2),
        ("/none.m4s", 2),
    ] {
        let statuses = [get(edge.address(), target).status, get(edge.address(), target).status];
        assert_eq!(statuses, if target == "/refusal" { [403; 2] } else { [200; 2] }, "{target}");
        assert_eq!(origin.count(target), asked, "{target}");
    }
}

#[test]
fn what_has_no_tag_is_asked_about_by_when_it_changed() {
    let questions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&questions);
    let origin = Origin::start(move |asked, connection| {
        let since = asked.field("if-modified-since").map(str::to_owned);
        seen.lock().unwrap().push((since.clone(), asked.field("if-none-match").map(str::to_owned)));
        let fields = format!("Last-Modified: {CHANGED}\r\nCache-Control: max-age=0, stale-if-error=60\r\n");
        let answer = match since {
            Some(since) if since == CHANGED => {
                format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes()
            }
            _ => whole(b"body", &fields),
        };
        connection.write_all(&answer).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for _ in 0..3 {
        let answer = get(edge.address(), "/lm.m4s");
        assert_eq!((answer.status, answer.text().as_str()), (200, "body"));
        assert_eq!(answer.header("last-modified"), Some(CHANGED));
    }
    let by_time = (Some(CHANGED.to_owned()), None);
    assert_eq!(*questions.lock().unwrap(), [(None, None), by_time.clone(), by_time]);
}

#[test]
fn a_client_that_has_it_by_its_time_gets_nothing_more() {
    let origin = Origin::start(|_, connection| {
        let fields = format!("Last-Modified: {CHANGED}\r\nETag: \"7\"\r\nCache-Control: max-age=60\r\n");
        connection.write_all(&whole(b"body", &fields)).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    let with = |fields: &[&str]| {
        let answer = ask(edge.address(), "GET", "/lm.m4s", fields);
        (answer.status, answer.body.len())
    };
    let since = format!("If-Modified-Since: {CHANGED}");
    assert_eq!(with(&[]), (200, 4));
    assert_eq!(with(&[&since]), (304, 0));
    assert_eq!(with(&["If-Modified-Since: Tue, 24 Nov 2026 09:59:59 GMT"]), (200, 4));
    assert_eq!(with(&[&since, "If-None-Match: \"8\""]), (200, 4), "the tag alone counts");
    assert_eq!(with(&[&since, "If-None-Match: \"7\""]), (304, 0));
    assert_eq!(with(&["If-Modified-Since: yesterday"]), (200, 4));
    assert_eq!(origin.count("/lm.m4s"), 1);
}

#[test]
fn two_ways_to_write_an_address_are_one_object() {
    let origin = Origin::start(|asked, connection| {
        connection.write_all(&whole(asked.target.as_bytes(), "Cache-Control: max-age=60\r\n")).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for (asked, target) in [
        ("/pct/a-b~c.m4s", "/pct/a-b~c.m4s"),
        ("/pct/%61%2Db%7ec%2Em4s", "/pct/a-b~c.m4s"),
        ("/live/a%2Db/video/1.m4s", "/live/a-b/video/1.m4s"),
        ("/pct/a%2fb%20c", "/pct/a%2Fb%20c"),
        ("/pct/a%2Fb%20c", "/pct/a%2Fb%20c"),
        ("/pct/a.m4s?x=%2D&y=%2f", "/pct/a.m4s?x=-&y=%2f"),
    ] {
        assert_eq!(get(edge.address(), asked).text(), target, "{asked}");
    }
    assert_eq!((origin.count("/pct/a-b~c.m4s"), origin.count("/pct/a%2Fb%20c")), (1, 1));
    assert_eq!(get(edge.address(), "/pct/%00").status, 404);
}

/// Follows a redirect as browsers do.
fn follow(edge: &Server, from: &str, answer: &Answer) -> String {
    let location = answer.header("location").unwrap();
    assert!(!location.contains("://") && !location.starts_with('/'), "{location} holds behind a folder too");
    let target = resolve(from, location);
    let moved = get(edge.address(), &target);
    assert_eq!(moved.status, 200, "{target}");
    moved.text()
}

#[test]
fn redirects_of_a_server_to_itself_come_back_through_the_edge() {
    let origin = Origin::start(|asked, connection| {
        let own = format!("http://{}", asked.field("host").unwrap());
        let location = match asked.target.as_str() {
            "/base/absolute.m3u8" => format!("{own}/base/x/moved.m3u8?s=1"),
            "/base/deep/er/path" => "/base/x/moved".to_owned(),
            "/base/deep/relative" => "moved".to_owned(),
            "/base/elsewhere" => "http://cdn.example/moved".to_owned(),
            "/base/live/a/1.m4s" => format!("{own}/base/live/b/1.m4s?s=1"),
            target => return connection.write_all(&whole(target.as_bytes(), "")).is_ok(),
        };
        let body = format!("<a href='{location}'>moved</a>");
        let head = format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all((head + &body).as_bytes()).is_ok()
    });
    let strip =
        format!("[[upstream.route]]\npath = '/tv/'\nstrip = '/tv'\nservers = ['{}/base']\n", origin.url());
    let (edge, scratch) = serve_with(&format!(
        "[stream.a]\nviewer_key = 'a-key-of-many-letters'\n[upstream]\nservers = ['{}/base/']\n{strip}",
        origin.url()
    ));
    for (target, reached) in [
        ("/absolute.m3u8", "/base/x/moved.m3u8?s=1"),
        ("/deep/er/path", "/base/x/moved"),
        ("/deep/relative", "/base/deep/moved"),
        ("/tv/absolute.m3u8", "/base/x/moved.m3u8?s=1"),
        ("/tv/deep/er/path", "/base/x/moved"),
    ] {
        let answer = get(edge.address(), target);
        assert_eq!(
            (answer.status, answer.body.len(), answer.header("content-type")),
            (302, 0, None),
            "{target}"
        );
        assert_eq!(follow(&edge, target, &answer), reached, "{target}");
    }
    let elsewhere = get(edge.address(), "/elsewhere");
    assert_eq!(elsewhere.header("location"), Some("http://cdn.example/moved"), "that is no server of ours");
    assert!(elsewhere.text().contains("cdn.example"));
    // A viewer's token goes along.
    let signed = crate::glassline(&["sign", "http://h/live/a/index.m3u8", "--key-file", &key_file(&scratch)]);
    let query = signed.text().trim().split_once('?').unwrap().1.to_owned();
    let answer = get(edge.address(), &format!("/live/a/1.m4s?{query}"));
    assert_eq!((answer.status, answer.header("location")), (302, Some(&*format!("../b/1.m4s?s=1&{query}"))));
}

fn key_file(scratch: &glassline_test_support::program::Scratch) -> String {
    use std::os::unix::fs::PermissionsExt;
    let file = scratch.write("viewer.key", "a-key-of-many-letters");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}
