//! Connections that answer with an object which may still grow.

use crate::connection::fetching::Handling;
use crate::connection::{Role, Turn};
use crate::inboxes::Message;
use crate::test_connections::{Answer, LEFT, Stage, answers, get, stage};
use glassline_delivery::fill::{Bytes, Failure, Head, Object};
use glassline_delivery::http1::server::{Event, Request};
use glassline_edge::{CacheStatus, Growing, ObjectSource, Reading, Wake};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const MISS: ObjectSource = ObjectSource::Upstream(CacheStatus::Miss);
const PLAIN: Handling = Handling { carries_token: false, or_here: false, is_own: false };

/// Has the connection read a request that it has not answered.
fn read(stage: &mut Stage, wire: &str) -> Box<Request> {
    let (mut input, now) = (wire.as_bytes(), stage.now);
    let Ok(Some(Event::Request(request))) = stage.connection.http.next(&mut input, now) else {
        panic!("a request: {wire}")
    };
    assert_eq!(stage.connection.http.next(&mut input, now), Ok(Some(Event::End)));
    stage.connection.asked = stage.hub.asked(&request);
    request
}

/// A connection that answers the request `wire` with `object`.
fn fetching_with(
    wire: &str,
    object: Object,
    source: ObjectSource,
    handling: Handling,
) -> (Stage, Arc<Growing>) {
    let mut stage = stage(|_| {});
    let growing = Growing::new(object, Arc::clone(&stage.hub.inboxes) as Arc<dyn Wake>);
    let request = read(&mut stage, wire);
    let (reading, now) = (Reading::new(Arc::clone(&growing)), stage.now);
    stage.connection.fetch(reading, source, request, handling, now);
    stage.turn();
    (stage, growing)
}

fn fetching(wire: &str, object: Object) -> (Stage, Arc<Growing>) {
    fetching_with(wire, object, MISS, PLAIN)
}

fn ask(fields: &str) -> String {
    format!("GET /vod/film.mp4 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// An object that has begun with `bytes`; how many it will have is not known.
fn begun(bytes: &[u8]) -> Object {
    let mut object = Object::new();
    object.begin(Head::new("video/mp4"), None);
    object.append(Bytes::copy_from_slice(bytes));
    object
}

fn whole(bytes: &[u8]) -> Object {
    Object::whole(Head::new("video/mp4").with("ETag", "\"7\""), Bytes::copy_from_slice(bytes))
}

fn append(growing: &Growing, bytes: &[u8]) {
    growing.change(|object| object.append(Bytes::copy_from_slice(bytes)));
}

/// The connection is woken, as its worker does at a message.
fn woken(stage: &mut Stage) -> Turn {
    let is_told = |message: &Message| matches!(message, Message::Grown(tokens) if tokens[..] == [7]);
    assert!(stage.messages().iter().any(is_told), "it is told of news");
    stage.with(|connection, context| connection.woken(context))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn one(stage: &mut Stage) -> Answer {
    let mut answers = stage.answers();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

#[test]
fn an_object_of_unknown_length_leaves_in_chunks_as_it_comes() {
    let (mut stage, growing) = fetching(&ask(""), begun(b"first"));
    let heard = stage.heard();
    let (head, body) = text(&heard).split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("\r\nTransfer-Encoding: chunked"), "{head}");
    assert_eq!(body, "5\r\nfirst\r\n");
    assert!(matches!(stage.turn(), Turn::Rests) && stage.heard().is_empty());
    append(&growing, b"second one");
    woken(&mut stage);
    assert_eq!(text(&stage.heard()), "a\r\nsecond one\r\n");
    growing.change(Object::finish);
    woken(&mut stage);
    assert_eq!(text(&stage.heard()), "0\r\n\r\n");
    assert_eq!(stage.logged(), [("/vod/film.mp4".to_owned(), 200, 15)]);
    assert_eq!(stage.get("/page").text(), "/page");
}

#[test]
fn an_object_of_known_length_tells_it_before_it_is_all_there() {
    let mut object = Object::new();
    object.begin(Head::new("video/mp4"), Some(9));
    object.append(Bytes::from_static(b"four"));
    let (mut stage, growing) = fetching(&ask(""), object);
    let heard = stage.heard();
    let (head, body) = text(&heard).split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nContent-Length: 9\r\n") && !head.contains("chunked"), "{head}");
    assert_eq!(body, "four");
    append(&growing, b"other");
    assert!(matches!(woken(&mut stage), Turn::Rests));
    assert_eq!(text(&stage.heard()), "other");
    assert!(matches!(stage.connection.role, Role::Exchange { .. }), "it does not wait for the object's end");
}

#[test]
fn a_client_of_http_1_0_reads_to_the_end_of_the_connection() {
    let (mut stage, growing) =
        fetching("GET /vod/film.mp4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", begun(b"first"));
    growing.change(Object::finish);
    woken(&mut stage);
    stage.turn();
    let heard = stage.heard();
    assert!(text(&heard).ends_with("Connection: close\r\n\r\nfirst"), "{}", text(&heard));
    assert!(stage.sees_end());
}

#[test]
fn nothing_is_said_before_the_first_byte_is_there() {
    let mut object = Object::new();
    object.begin(Head::new("video/mp4"), None);
    let (mut stage, growing) = fetching(&ask(""), object);
    assert!(stage.heard().is_empty() && growing.waiting() == 1);
    stage.now += Duration::from_millis(30);
    append(&growing, b"x");
    woken(&mut stage);
    let heard = stage.heard();
    let head = text(&heard);
    assert!(head.contains("\r\nServer-Timing: cache;desc=\"miss\", origin;dur=30.0\r\n"), "{head}");
    assert!(head.contains("\r\nCache-Status: glassline; fwd=miss\r\n"), "{head}");
    let waits = stage.hub.object_waits().counts(MISS);
    assert_eq!(waits.counts.iter().sum::<u64>(), 1);
    let report = stage.hub.first_bytes(None, 10);
    assert_eq!((report.names, report.list.len()), (1, 1));
}

#[test]
fn the_next_request_waits_until_the_object_has_left() {
    let (mut stage, growing) = fetching(&ask(""), begun(b"x"));
    stage.say([get("/one"), get("/two")].concat());
    stage.turn();
    assert!(stage.site.asked.lock().unwrap().is_empty());
    growing.change(Object::finish);
    woken(&mut stage);
    let heard = stage.heard();
    let end = text(&heard).find("0\r\n\r\n").unwrap() + 5;
    let answers = answers(&heard[end..]);
    assert_eq!(answers.iter().map(Answer::text).collect::<Vec<_>>(), ["/one", "/two"]);
}

#[test]
fn a_part_is_given_as_such_and_one_that_is_not_there_is_refused_with_the_length() {
    let (mut stage, _) = fetching(&ask("Range: bytes=2-4\r\n"), whole(b"0123456789"));
    let answer = one(&mut stage);
    assert_eq!((answer.status, answer.text()), (206, "234"));
    assert_eq!(answer.field("Content-Range"), Some("bytes 2-4/10"));
    assert_eq!(answer.field("Content-Length"), Some("3"));
    let (mut stage, _) = fetching(&ask("Range: bytes=-3\r\n"), whole(b"0123456789"));
    assert_eq!(one(&mut stage).text(), "789");
    let (mut stage, _) = fetching(&ask("Range: bytes=10-\r\n"), whole(b"0123456789"));
    let answer = one(&mut stage);
    assert_eq!((answer.status, answer.field("Content-Range")), (416, Some("bytes */10")));
    assert_eq!(stage.hub.counters.errors.value(), 1);
}

#[test]
fn a_part_of_an_object_that_still_grows_begins_when_its_first_byte_is_there() {
    let (mut stage, growing) = fetching(&ask("Range: bytes=6-9\r\n"), begun(b"01234"));
    let heard = stage.heard();
    let head = text(&heard);
    assert!(head.contains("\r\nContent-Range: bytes 6-9/*\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    append(&growing, b"567");
    woken(&mut stage);
    append(&growing, b"89AB");
    woken(&mut stage);
    assert_eq!(text(&stage.heard()), "2\r\n67\r\n2\r\n89\r\n0\r\n\r\n");
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let (mut stage, _) = fetching(&ask("If-None-Match: \"7\"\r\n"), whole(b"0123456789"));
    let answer = one(&mut stage);
    assert_eq!((answer.status, answer.field("ETag")), (304, Some("\"7\"")));
    assert_eq!((answer.field("Content-Length"), answer.body.len()), (None, 0));
    assert_eq!(stage.logged(), [("/vod/film.mp4".to_owned(), 304, 0)]);
}

#[test]
fn head_of_an_object_has_its_length_and_nothing_else() {
    let (mut stage, _) = fetching(&ask("").replace("GET", "HEAD"), whole(b"0123456789"));
    let heard = stage.heard();
    assert!(text(&heard).contains("\r\nContent-Length: 10\r\n") && text(&heard).ends_with("\r\n\r\n"));
    assert!(matches!(stage.connection.role, Role::Exchange { .. }));
}

#[test]
fn an_object_that_fails_before_its_first_byte_is_answered_by_what_has_failed() {
    for (failure, status, retry) in [
        (Failure::Ended, 404, None),
        (Failure::Upstream, 502, Some("1")),
        (Failure::Malformed, 502, Some("1")),
        (Failure::TooLarge, 502, Some("1")),
        (Failure::Barred, 502, Some("10")),
        (Failure::Fault, 500, Some("1")),
    ] {
        let (mut stage, growing) = fetching(&ask(""), Object::new());
        growing.change(|object| object.fail(failure));
        woken(&mut stage);
        let answer = one(&mut stage);
        assert_eq!((answer.status, answer.field("Retry-After")), (status, retry), "{failure:?}");
        assert_eq!(stage.get("/page").status, 200, "the connection goes on");
    }
}

#[test]
fn an_object_that_fails_on_its_way_is_cut_so_that_the_client_sees_it() {
    let (mut stage, growing) = fetching(&ask(""), begun(b"first"));
    append(&growing, b"last");
    growing.change(|object| object.fail(Failure::Upstream));
    assert!(matches!(woken(&mut stage), Turn::Over));
    let heard = stage.heard();
    assert!(text(&heard).ends_with("4\r\nlast\r\n"), "what is there leaves, without an end");
    stage.close();
    assert_eq!(stage.logged(), [("/vod/film.mp4".to_owned(), 200, 9)]);
    assert_eq!(growing.waiting(), 0);
}

#[test]
fn an_object_that_does_not_begin_in_time_is_refused_and_one_that_has_is_not() {
    let (mut stage, growing) = fetching(&ask(""), Object::new());
    let limit = stage.settings.object_timeout;
    assert!(!stage.pass(limit - Duration::from_nanos(1)) && stage.heard().is_empty());
    assert!(!stage.pass(Duration::from_nanos(1)));
    let answer = one(&mut stage);
    assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
    assert_eq!((growing.waiting(), stage.hub.counters.timed_out.value()), (0, 1));
    assert_eq!(stage.get("/page").status, 200);

    let (mut stage, _growing) = fetching(&ask(""), begun(b"x"));
    assert!(!stage.pass(limit * 10));
    assert!(matches!(stage.connection.role, Role::Fetching(_)));
}

#[test]
fn a_server_that_asks_is_told_before_it_takes_this_one_for_broken() {
    let server = |digit: u32| format!("1.1 glassline-{}", digit.to_string().repeat(16));
    for hops in [1, 2, 12] {
        let via: Vec<String> = (0..hops).map(|hop| server(hop % 10)).collect();
        let (mut stage, _growing) = fetching(&ask(&format!("Via: {}\r\n", via.join(", "))), Object::new());
        let patience = stage.settings.upstream_patience;
        // It waits for its own clients' sake, and is itself waited for in turn.
        let limit = patience * (10 - hops.min(5)) / 10;
        assert!(!stage.pass(limit - Duration::from_nanos(1)) && stage.heard().is_empty());
        assert!(!stage.pass(Duration::from_nanos(1)));
        assert_eq!(one(&mut stage).status, 503, "{hops}");
    }
    // What is no server of this program waits as each client.
    let (mut stage, _growing) = fetching(&ask("Via: 1.1 squid.example\r\n"), Object::new());
    let limit = stage.settings.object_timeout;
    assert!(!stage.pass(limit - Duration::from_nanos(1)) && stage.heard().is_empty());
}

#[test]
fn a_client_that_goes_while_it_waits_is_forgotten() {
    let (mut stage, growing) = fetching(&ask(""), Object::new());
    assert_eq!(growing.waiting(), 1);
    stage.end();
    assert!(matches!(stage.turn(), Turn::Over));
    stage.close();
    assert_eq!(growing.waiting(), 0);
    assert_eq!(stage.logged(), [("/vod/film.mp4".to_owned(), LEFT, 0)]);
}

#[test]
fn a_large_object_leaves_as_fast_as_its_client_takes_it_and_others_have_turns_between() {
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (mut stage, _growing) = fetching(&ask(""), whole(&bytes));
    assert!(!stage.connection.outgoing.is_empty(), "its socket is full");
    let mut got = Vec::new();
    for _ in 0..10_000 {
        let heard = stage.heard();
        if heard.is_empty() && matches!(stage.connection.role, Role::Exchange { .. }) {
            break;
        }
        got.extend(heard);
        stage.turn();
    }
    let answers = answers(&got);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].body == bytes, "{} bytes", answers[0].body.len());
}

#[test]
fn an_object_that_is_asked_for_often_leaves_from_a_file_all_the_same() {
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 241) as u8).collect();
    let mut stage = stage(|_| {});
    let growing = Growing::new(whole(&bytes), Arc::clone(&stage.hub.inboxes) as Arc<dyn Wake>);
    for round in 0..8 {
        let fields = if round == 7 { "Range: bytes=1000-150999\r\n" } else { "" };
        let request = read(&mut stage, &ask(fields));
        let (reading, now) = (Reading::new(Arc::clone(&growing)), stage.now);
        stage.connection.fetch(reading, MISS, request, PLAIN, now);
        let mut got = Vec::new();
        for _ in 0..1000 {
            stage.turn();
            got.extend(stage.heard());
            if matches!(stage.connection.role, Role::Exchange { .. }) && stage.connection.outgoing.is_empty()
            {
                break;
            }
        }
        let answers = answers(&got);
        let expected = if round == 7 { &bytes[1000..151_000] } else { &bytes[..] };
        assert!(answers[0].body == expected, "round {round}");
    }
    assert!(growing.frozen().is_some());
    assert_eq!(stage.logged().len(), 8);
}

const PLAYLIST: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nseg1.m4s\n";

fn playlist(bytes: &str) -> Object {
    Object::whole(Head::new("application/vnd.apple.mpegurl"), Bytes::from(bytes.to_owned()))
}

const WITH_TOKEN: &str = "GET /live/a/index.m3u8?expires=7&token=abc HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CARRIES: Handling = Handling { carries_token: true, ..PLAIN };

#[test]
fn a_playlist_of_an_upstream_server_is_given_the_viewers_token() {
    let (mut stage, growing) = fetching_with(WITH_TOKEN, playlist(PLAYLIST), MISS, CARRIES);
    let answer = one(&mut stage);
    assert_eq!(answer.text(), PLAYLIST.replace("seg1.m4s", "seg1.m4s?expires=7&token=abc"));
    assert_eq!(answer.field("Content-Length"), Some(&*answer.body.len().to_string()));
    growing.look(|object| assert_eq!(object.filled(), PLAYLIST.len() as u64, "others get it as it came"));
    let (mut stage, _) = fetching_with(WITH_TOKEN, playlist(PLAYLIST), MISS, PLAIN);
    assert_eq!(one(&mut stage).text(), PLAYLIST);
}

#[test]
fn a_playlist_that_gets_a_token_is_waited_for_until_it_is_whole() {
    let mut object = Object::new();
    object.begin(Head::new("application/vnd.apple.mpegurl"), None);
    object.append(Bytes::from(PLAYLIST[..20].to_owned()));
    let (mut stage, growing) = fetching_with(WITH_TOKEN, object, MISS, CARRIES);
    assert!(stage.heard().is_empty());
    append(&growing, &PLAYLIST.as_bytes()[20..]);
    woken(&mut stage);
    assert!(stage.heard().is_empty());
    growing.change(Object::finish);
    woken(&mut stage);
    assert!(one(&mut stage).text().contains("seg1.m4s?expires=7&token=abc"));
}

#[test]
fn what_is_no_playlist_is_not_waited_for_and_stays_as_it_is() {
    let segment = WITH_TOKEN.replace("index.m3u8", "seg1.m4s");
    let (mut stage, _growing) = fetching_with(&segment, begun(b"seg1.m4s"), MISS, CARRIES);
    assert!(text(&stage.heard()).ends_with("8\r\nseg1.m4s\r\n"));
}

#[test]
fn a_redirect_to_this_server_keeps_the_viewers_token() {
    let moved =
        || Object::whole(Head::of_status(302).with("Location", "/live/a/v1/index.m3u8"), Bytes::new());
    let (mut stage, _) = fetching_with(WITH_TOKEN, moved(), MISS, CARRIES);
    let answer = one(&mut stage);
    assert_eq!(answer.field("Location"), Some("/live/a/v1/index.m3u8?expires=7&token=abc"));
    let (mut stage, _) = fetching_with(WITH_TOKEN, moved(), MISS, PLAIN);
    assert_eq!(one(&mut stage).field("Location"), Some("/live/a/v1/index.m3u8"));
}

#[test]
fn a_text_leaves_in_the_coding_that_its_client_wants_where_that_is_smaller() {
    let text = PLAYLIST.repeat(50);
    let head = Head::new("application/vnd.apple.mpegurl").with("Vary", "Accept-Encoding");
    let object = || Object::whole(head.clone(), Bytes::from(text.clone()));
    let wants = WITH_TOKEN.replace("\r\n\r\n", "\r\nAccept-Encoding: gzip\r\n\r\n");
    let (mut stage, _) = fetching_with(&wants, object(), ObjectSource::Packaged, PLAIN);
    let answer = one(&mut stage);
    assert_eq!(answer.field("Content-Encoding"), Some("gzip"));
    assert!(answer.body.len() < text.len() / 4 && answer.body.starts_with(&[0x1F, 0x8B]));
    let (mut stage, _) = fetching_with(WITH_TOKEN, object(), ObjectSource::Packaged, PLAIN);
    let answer = one(&mut stage);
    assert_eq!((answer.field("Content-Encoding"), answer.text()), (None, &*text));
}

#[test]
fn pages_of_others_run_no_scripts_and_the_operators_own_do() {
    let page = || Object::whole(Head::new("text/html"), Bytes::from_static(b"<p>"));
    let (mut stage, _) = fetching(&ask(""), page());
    let answer = one(&mut stage);
    assert_eq!(answer.field("Content-Security-Policy"), Some("sandbox"));
    let own = Handling { is_own: true, ..PLAIN };
    let (mut stage, _) = fetching_with(&ask(""), page(), MISS, own);
    let answer = one(&mut stage);
    assert_eq!(
        (answer.field("Content-Security-Policy"), answer.field("X-Content-Type-Options")),
        (None, Some("nosniff"))
    );
}

#[test]
fn what_an_object_says_itself_is_not_said_again() {
    let head = Head::new("text/html").with("content-security-policy", "default-src 'none'");
    let (mut stage, _) = fetching(&ask(""), Object::whole(head, Bytes::from_static(b"<p>")));
    let answer = one(&mut stage);
    assert_eq!(answer.head.to_ascii_lowercase().matches("content-security-policy").count(), 1);
    assert!(answer.head.contains("default-src 'none'"));
}

#[test]
fn the_head_tells_how_an_object_was_found_and_how_old_it_is() {
    for (status, found, timing) in [
        (CacheStatus::Hit, "hit", "cache;desc=\"hit\", origin;dur=0.0"),
        (CacheStatus::Stale, "hit; detail=stale", "cache;desc=\"stale\", origin;dur=0.0"),
        (CacheStatus::Disk, "hit; detail=disk", "cache;desc=\"disk\", disk;dur=0.0"),
        (CacheStatus::Joined, "fwd=miss; collapsed", "cache;desc=\"joined\", origin;dur=0.0"),
    ] {
        let mut object = whole(b"x");
        let sent = glassline_io::clock::Clock::new().now();
        object.set_sent(sent);
        let mut stage = stage(|_| {});
        stage.now = sent + Duration::from_millis(7999);
        let growing = Growing::new(object, Arc::clone(&stage.hub.inboxes) as Arc<dyn Wake>);
        let (request, now) = (read(&mut stage, &ask("")), stage.now);
        stage.connection.fetch(Reading::new(growing), ObjectSource::Upstream(status), request, PLAIN, now);
        stage.turn();
        let answer = one(&mut stage);
        assert_eq!(answer.field("Cache-Status"), Some(&*format!("glassline; {found}")));
        assert_eq!((answer.field("Age"), answer.field("Via")), (Some("7"), Some("1.1 glassline")));
        assert_eq!(answer.field("Server-Timing"), Some(timing));
    }
    let (mut stage, _) = fetching_with(&ask(""), whole(b"x"), ObjectSource::Packaged, PLAIN);
    let answer = one(&mut stage);
    assert_eq!((answer.field("Cache-Status"), answer.field("Via"), answer.field("Age")), (None, None, None));
    assert_eq!(answer.field("Server-Timing"), Some("hold;dur=0.0"));
}

#[test]
fn what_an_upstream_server_refuses_is_counted_as_an_error() {
    let absent =
        Object::whole(Head::of_status(404).with("Content-Type", "text/plain"), Bytes::from_static(b"none"));
    let (mut stage, _) = fetching(&ask("Range: bytes=0-1\r\n"), absent);
    let answer = one(&mut stage);
    assert_eq!((answer.status, answer.text()), (404, "none"), "a range is one of what there is");
    assert_eq!(stage.hub.counters.errors.value(), 1);
}

proptest! {
    #[test]
    fn however_an_object_comes_its_client_reads_the_same_bytes(
        sizes in proptest::collection::vec(1usize..30_000, 1..12),
        announced: bool,
        reads_late: bool,
    ) {
        let bytes: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|at| (at % 249) as u8).collect();
        let mut object = Object::new();
        object.begin(Head::new("video/mp4"), announced.then_some(bytes.len() as u64));
        let (mut stage, growing) = fetching(&ask(""), object);
        let (mut got, mut from) = (Vec::new(), 0);
        for size in sizes {
            append(&growing, &bytes[from..from + size]);
            from += size;
            stage.with(|connection, context| connection.woken(context));
            if !reads_late {
                got.extend(stage.heard());
            }
        }
        growing.change(Object::finish);
        stage.with(|connection, context| connection.woken(context));
        while matches!(stage.connection.role, Role::Fetching(_)) || !stage.connection.outgoing.is_empty() {
            got.extend(stage.heard());
            stage.turn();
        }
        got.extend(stage.heard());
        let end = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let mut body = Vec::new();
        let mut rest = &got[end..];
        if announced {
            body.extend_from_slice(rest);
        } else {
            loop {
                let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
                let size = usize::from_str_radix(text(&rest[..line]), 16).unwrap();
                body.extend_from_slice(&rest[line + 2..line + 2 + size]);
                rest = &rest[line + 4 + size..];
                if size == 0 {
                    break;
                }
            }
            prop_assert!(rest.is_empty());
        }
        prop_assert!(body == bytes);
    }
}
