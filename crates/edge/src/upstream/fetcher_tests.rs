use super::super::super::testing::{Answer, Origin, client, job, plain, text};
use super::super::super::{CacheStatus, Edge, Reading, UpstreamSettings};
use super::super::FetchFigures;
use super::*;
use glassline_delivery::fill::Via;
use glassline_test_support::wait::until;
use std::net::TcpListener;

/// Wakes no reader: these tests look.
struct Unheard;

impl super::super::super::Wake for Unheard {
    fn wake(&self, _: usize, _: Vec<u64>) {}
}

/// No machine is so slow that a server seems to be silent.
fn settings(servers: &[&str]) -> UpstreamSettings {
    let (connect_timeout, silence_timeout) = (Duration::from_secs(600), Duration::from_secs(600));
    let settings = UpstreamSettings::new(servers.iter().map(|url| url.parse().unwrap()).collect());
    UpstreamSettings { connect_timeout, silence_timeout, ..settings }
}

fn start(settings: UpstreamSettings) -> Edge {
    Edge::start(settings, Arc::new(Unheard), Clock::new(), 1).unwrap()
}

fn find(edge: &Edge, target: &str) -> (Reading, CacheStatus) {
    find_for(edge, target, 1)
}

/// It is asked for by the client of this number.
fn find_for(edge: &Edge, target: &str, number: u8) -> (Reading, CacheStatus) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let located = edge.locate(None, path, query).unwrap();
    edge.find(located, Via::default(), client(number), Clock::new().now())
}

/// What it has come to.
fn end(reading: &Reading) -> Result<String, Failure> {
    until("an object to be over", || reading.look(Object::is_over));
    reading.look(Object::failure).map_or_else(|| Ok(text(reading)), Err)
}

fn fetch(edge: &Edge, target: &str) -> Result<String, Failure> {
    end(&find(edge, target).0)
}

/// A port of this machine on which no server listens.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// An answer of these fields, each with its end, and this body.
fn ok(fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn value(request: &str, name: &str) -> Option<String> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
}

#[test]
fn an_object_comes_once_and_is_kept() {
    let origin = Origin::start(|_, _| Answer::keeps(ok("Cache-Control: max-age=60\r\n", "hello")));
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a?x=1"), Ok("hello".into()));
    let (reading, status) = find(&edge, "/a?x=1");
    assert_eq!((text(&reading).as_str(), status), ("hello", CacheStatus::Hit));
    let requests = origin.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].starts_with("GET /a?x=1 HTTP/1.1\r\n"), "{requests:?}");
    let bytes = ok("Cache-Control: max-age=60\r\n", "hello").len() as u64;
    assert_eq!(edge.fetch_figures(), FetchFigures { fetches: 1, bytes, ..FetchFigures::default() });
    assert_eq!(edge.cache_figures().requests, [1, 0, 0, 0, 1]);
}

#[test]
fn one_connection_carries_objects_one_after_the_other() {
    let origin = Origin::start(|number, _| Answer::keeps(ok("", &number.to_string())));
    let edge = start(settings(&[&origin.url]));
    let got: Vec<_> = (0..5).map(|number| fetch(&edge, &format!("/{number}")).unwrap()).collect();
    assert_eq!(got, ["0", "1", "2", "3", "4"]);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_connection_that_its_server_gave_up_while_it_rested_is_no_failure() {
    // The second request comes on a connection that ends without a word, as if its end had crossed the request.
    let origin = Origin::start(|number, _| match number {
        1 => Answer::ends(Vec::new()),
        number => Answer::keeps(ok("", &number.to_string())),
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("0".into()));
    assert_eq!(fetch(&edge, "/b"), Ok("2".into()));
    assert_eq!((origin.connections(), edge.fetch_figures().fetches), (2, 3));
}

#[test]
fn a_server_that_cannot_be_reached_is_followed_by_the_next_one() {
    let origin = Origin::start(|_, _| Answer::keeps(ok("", "here")));
    let edge = start(settings(&[&closed_port(), &origin.url]));
    for target in ["/a", "/b", "/c"] {
        assert_eq!(fetch(&edge, target), Ok("here".into()));
    }
    assert_eq!((origin.requests().len(), edge.fetch_figures().failed), (3, 0));
}

#[test]
fn an_object_fails_where_no_server_can_be_reached() {
    let edge = start(settings(&[&closed_port(), &closed_port()]));
    assert_eq!(fetch(&edge, "/a"), Err(Failure::Upstream));
    let figures = edge.fetch_figures();
    assert_eq!((figures.fetches, figures.failed), (2, 1));
    assert_eq!(edge.cache_figures().objects, 0, "the next request tries anew");
}

#[test]
fn a_server_that_fails_one_object_is_asked_for_the_others() {
    let first = Origin::start(|_, request| match request.starts_with("GET /bad ") {
        true => Answer::keeps(b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".to_vec()),
        false => Answer::keeps(ok("", "first")),
    });
    let second = Origin::start(|_, _| Answer::keeps(ok("", "second")));
    let edge = start(settings(&[&first.url, &second.url]));
    assert_eq!(fetch(&edge, "/bad"), Ok("second".into()));
    assert_eq!(fetch(&edge, "/good"), Ok("first".into()));
    assert_eq!(second.requests().len(), 1);
}

#[test]
fn a_server_error_from_all_servers_is_no_object() {
    let origin =
        Origin::start(|_, _| Answer::keeps(b"HTTP/1.1 500 x\r\nContent-Length: 4\r\n\r\noops".to_vec()));
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Err(Failure::Upstream));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn what_breaks_off_goes_on_at_the_next_server_from_the_byte_it_had() {
    let first = Origin::start(|_, _| {
        Answer::ends(b"HTTP/1.1 200 OK\r\nETag: \"7\"\r\nContent-Length: 11\r\n\r\nhello".to_vec())
    });
    let second = Origin::start(|_, _| {
        let head =
            "HTTP/1.1 206 x\r\nETag: \"7\"\r\nContent-Range: bytes 5-10/11\r\nContent-Length: 6\r\n\r\n";
        Answer::keeps([head.as_bytes(), b" world"].concat())
    });
    let edge = start(settings(&[&first.url, &second.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("hello world".into()));
    let request = &second.requests()[0];
    assert_eq!(value(request, "If-Range").as_deref(), Some("\"7\""));
    assert!(value(request, "Range").is_some_and(|range| range.starts_with("bytes=5-")), "{request}");
    let figures = edge.fetch_figures();
    assert_eq!((figures.fetches, figures.resumed, figures.failed), (2, 1, 0));
}

#[test]
fn what_breaks_off_goes_on_at_its_own_server_where_there_is_no_other_one() {
    let origin = Origin::start(|number, _| match number {
        0 => Answer::ends(b"HTTP/1.1 200 OK\r\nETag: \"7\"\r\nContent-Length: 5\r\n\r\nhel".to_vec()),
        _ => Answer::keeps(ok("ETag: \"7\"\r\n", "hello")),
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("hello".into()));
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn what_breaks_off_without_a_strong_tag_fails() {
    for tag in ["", "ETag: W/\"7\"\r\n"] {
        let cut = format!("HTTP/1.1 200 OK\r\n{tag}Content-Length: 5\r\n\r\nhel").into_bytes();
        let origin = Origin::start(move |_, _| Answer::ends(cut.clone()));
        let edge = start(settings(&[&origin.url]));
        let (reading, _) = find(&edge, "/a");
        assert_eq!(end(&reading), Err(Failure::Upstream), "{tag}");
        assert_eq!((text(&reading).as_str(), origin.requests().len()), ("hel", 1), "what came was given");
    }
}

#[test]
fn a_chunked_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    let origin = Origin::start(|_, _| {
        Answer::ends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec())
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Err(Failure::Upstream));
}

#[test]
fn a_server_that_always_breaks_off_is_asked_so_often_and_no_more() {
    let origin = Origin::start(|number, _| {
        let head = match number {
            0 => "HTTP/1.1 200 OK\r\nETag: \"7\"\r\nContent-Length: 1000\r\n\r\n".to_owned(),
            at => format!(
                "HTTP/1.1 206 x\r\nETag: \"7\"\r\nContent-Range: bytes {at}-999/1000\r\nContent-Length: {}\r\n\r\n",
                1000 - at
            ),
        };
        Answer::ends([head.as_bytes(), b"x"].concat())
    });
    let edge = start(settings(&[&origin.url]));
    let (reading, _) = find(&edge, "/a");
    assert_eq!(end(&reading), Err(Failure::Upstream));
    assert_eq!((origin.requests().len(), text(&reading).len()), (ATTEMPTS_MAX, ATTEMPTS_MAX));
}

#[test]
fn a_server_that_speaks_no_http_is_followed_by_the_next_one() {
    let first = Origin::start(|_, _| Answer::keeps(b"220 mail.example ESMTP\r\n\r\n".to_vec()));
    let second = Origin::start(|_, _| Answer::keeps(ok("", "second")));
    let edge = start(settings(&[&first.url, &second.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("second".into()));
}

#[test]
fn a_server_that_stays_silent_fails_its_object_in_time() {
    let origin = Origin::start(|_, _| Answer::keeps(Vec::new()));
    let silence_timeout = Duration::from_millis(200);
    let edge = start(UpstreamSettings { silence_timeout, ..settings(&[&origin.url]) });
    assert_eq!(fetch(&edge, "/a"), Err(Failure::Upstream));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn an_object_that_is_too_large_fails_at_the_first_server() {
    let first = Origin::start(|_, _| Answer::keeps(ok("", "0123456789")));
    let second = Origin::start(|_, _| Answer::keeps(ok("", "second")));
    let edge = start(UpstreamSettings { object_bytes: 9, ..settings(&[&first.url, &second.url]) });
    assert_eq!(fetch(&edge, "/a"), Err(Failure::TooLarge));
    assert_eq!(second.requests().len(), 0);
}

#[test]
fn a_key_that_the_only_server_refuses_bars_the_stream() {
    let origin = Origin::start(|_, _| Answer::keeps(b"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let with_key = origin.url.replace("http://", "http://edge:KEY@");
    let edge = start(settings(&[&with_key]));
    assert_eq!(fetch(&edge, "/live/a.ts"), Err(Failure::Barred));
    assert_eq!(value(&origin.requests()[0], "Authorization").as_deref(), Some("Basic ZWRnZTpLRVk="));
}

#[test]
fn an_old_object_that_still_holds_is_given_again_without_its_bytes_coming_twice() {
    let origin = Origin::start(|number, request| match number {
        0 => Answer::keeps(ok("ETag: \"7\"\r\nCache-Control: max-age=0, stale-if-error=60\r\n", "hello")),
        _ => {
            assert!(request.contains("\r\nIf-None-Match: \"7\"\r\n"), "{request}");
            Answer::keeps(NOT_MODIFIED.as_bytes().to_vec())
        }
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("hello".into()));
    assert_eq!(fetch(&edge, "/a"), Ok("hello".into()));
    assert_eq!(find(&edge, "/a").1, CacheStatus::Hit, "it is fresh again");
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn an_old_object_is_given_where_its_server_fails_for_as_long_as_it_may() {
    let fails = || Answer::keeps(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec());
    let origin = Origin::start(move |number, _| match number {
        0 => Answer::keeps(ok("Cache-Control: max-age=0, stale-if-error=600\r\n", "old")),
        1 => Answer::keeps(ok("Cache-Control: max-age=0\r\nETag: \"7\"\r\n", "other")),
        _ => fails(),
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!((fetch(&edge, "/a"), fetch(&edge, "/b")), (Ok("old".into()), Ok("other".into())));
    for _ in 0..2 {
        assert_eq!(fetch(&edge, "/a"), Ok("old".into()), "and the server is asked each time");
    }
    assert_eq!(fetch(&edge, "/b"), Err(Failure::Upstream), "that may not");
    assert_eq!((origin.requests().len(), edge.fetch_figures().failed), (5, 3));
}

#[test]
fn an_object_that_is_old_but_of_use_is_given_at_once_and_renewed_behind_it() {
    let origin = Origin::start(|number, _| {
        Answer::keeps(ok("Cache-Control: max-age=0, stale-while-revalidate=600\r\n", &number.to_string()))
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!(fetch(&edge, "/a"), Ok("0".into()));
    let (reading, status) = find(&edge, "/a");
    assert_eq!((text(&reading).as_str(), status), ("0", CacheStatus::Stale));
    until("the new one", || text(&find(&edge, "/a").0) != "0");
}

#[test]
fn an_answer_about_the_request_goes_to_those_that_wait_and_is_not_kept() {
    let origin = Origin::start(|number, _| match number {
        0 => Answer::keeps(
            b"HTTP/1.1 429 x\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nslow".to_vec(),
        ),
        _ => Answer::keeps(ok("", "good")),
    });
    let edge = start(settings(&[&origin.url]));
    assert_eq!((fetch(&edge, "/a"), fetch(&edge, "/a")), (Ok("slow".into()), Ok("good".into())));
}

#[test]
fn requests_for_an_object_that_is_on_its_way_join_it() {
    let (release, held) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |_, _| {
        held.lock().unwrap().recv().unwrap();
        Answer::keeps(ok("", "one for all"))
    });
    let edge = start(settings(&[&origin.url]));
    let (first, miss) = find(&edge, "/a");
    let (second, joined) = find(&edge, "/a");
    assert_eq!((miss, joined), (CacheStatus::Miss, CacheStatus::Joined));
    release.send(()).unwrap();
    assert_eq!([end(&first), end(&second)], [Ok("one for all".into()), Ok("one for all".into())]);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn where_all_connections_are_in_use_clients_take_turns() {
    let (release, held) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |_, _| {
        held.lock().unwrap().recv().unwrap();
        Answer::keeps(ok("", "x"))
    });
    let edge = start(UpstreamSettings { connections: 1, ..settings(&[&origin.url]) });
    let first = find_for(&edge, "/1a", 1).0;
    until("the first request", || origin.requests().len() == 1);
    let readings: Vec<Reading> =
        [("/1b", 1), ("/1c", 1), ("/2a", 2)].map(|(target, asker)| find_for(&edge, target, asker).0).into();
    let waits = |reading: &Reading| reading.ticket().load(Ordering::Acquire) != 0;
    until("the others to wait", || readings.iter().all(waits));
    (0..4).for_each(|_| release.send(()).unwrap());
    for reading in readings.iter().chain([&first]) {
        assert_eq!(end(reading), Ok("x".into()));
    }
    let order: Vec<String> =
        origin.requests().iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(
        (order, origin.connections()),
        (vec!["/1a".into(), "/1b".into(), "/2a".into(), "/1c".into()], 1)
    );
}

#[test]
fn an_object_that_no_reader_waits_for_leaves_its_connection_to_another_one() {
    let origin = Origin::start(|_, request| match request.starts_with("GET /left ") {
        true => Answer::keeps(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun".to_vec()),
        false => Answer::keeps(ok("", "wanted")),
    });
    let edge = start(UpstreamSettings { connections: 1, ..settings(&[&origin.url]) });
    let left = find(&edge, "/left").0;
    until("its begin", || left.look(Object::filled) == 5);
    let object = Arc::clone(&left);
    drop(left);
    assert_eq!(fetch(&edge, "/wanted"), Ok("wanted".into()));
    assert_eq!(object.look(Object::failure), Some(Failure::Upstream));
    let figures = edge.fetch_figures();
    assert_eq!((figures.cancelled, figures.failed), (1, 0));
}

#[test]
fn the_end_of_the_edge_fails_what_is_on_its_way_and_what_waits() {
    let origin =
        Origin::start(|_, _| Answer::keeps(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun".to_vec()));
    let edge = start(UpstreamSettings { connections: 1, ..settings(&[&origin.url]) });
    let begun = find(&edge, "/a").0;
    until("its begin", || begun.look(Object::filled) == 5);
    let waits = find(&edge, "/b").0;
    until("the other one to wait", || waits.ticket().load(Ordering::Acquire) != 0);
    drop(edge);
    for reading in [&begun, &waits] {
        assert_eq!(reading.look(Object::failure), Some(Failure::Upstream));
    }
}

#[test]
fn an_object_larger_than_the_memory_is_read_to_its_end_by_a_reader_that_goes_on() {
    const BYTES: u64 = 3 << 20;
    let origin = Origin::start(|_, _| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
        let body: Vec<u8> = (0..BYTES).map(|at| (at / 1000) as u8).collect();
        Answer::keeps([head.as_bytes(), &body].concat())
    });
    let edge = start(UpstreamSettings { cache_bytes: 512 << 10, ..settings(&[&origin.url]) });
    let (reading, mut place) = (find(&edge, "/large").0, 0);
    let reader = super::super::super::Reader { thread: 0, token: 0 };
    until("all of it", || {
        let mut pieces = Vec::new();
        reading.look_or_wait(reader, (place, place + 1), |object| {
            (object.read(place, place + 50_000, &mut pieces) > 0).then_some(())
        });
        for byte in pieces.concat() {
            assert_eq!(byte, (place / 1000) as u8, "at {place}");
            place += 1;
        }
        place == BYTES
    });
    assert_eq!(reading.look(Object::failure), None);
    assert!(edge.cache_figures().held_bytes <= edge.settings().memory_bytes());
}

#[test]
fn authorities_that_cannot_be_read_are_an_error_of_the_start() {
    let ca = Some("/nowhere/authorities.pem".into());
    let with_tls = UpstreamSettings { ca: ca.clone(), ..settings(&["https://origin.example"]) };
    let begun = Edge::start(with_tls, Arc::new(Unheard), Clock::new(), 1);
    assert!(matches!(begun.err(), Some(FetcherError::Tls(_))));
    drop(start(UpstreamSettings { ca, ..settings(&["http://origin.example"]) }));
}

/// It has the length of what still holds, and no body (RFC 9110 §8.6).
const NOT_MODIFIED: &str =
    "HTTP/1.1 304 x\r\nETag: \"7\"\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\n";

#[test]
fn an_old_object_that_may_be_given_no_longer_is_not_given_where_its_server_fails() {
    let origin = Origin::start(|_, _| Answer::keeps(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let edge = start(settings(&[&origin.url]));
    let now = edge.clock.now();
    for (target, old_until, expected) in [
        ("/long", now + Duration::from_secs(600), Ok("old".to_owned())),
        ("/over", now, Err(Failure::Upstream)),
    ] {
        let (reading, ..) = edge.cache.find(target, now);
        let old = edge.cache.fresh();
        old.change(|object| *object = Object::whole(plain(), b"old"[..].into()));
        let job = Job { old: Some(old), old_until, ..job(&edge.cache, target, &reading) };
        edge.mailbox.send(Box::new(job));
        assert_eq!(end(&reading), expected, "{target}");
    }
}

#[test]
fn a_client_that_joins_a_fetch_which_waits_brings_it_its_turn() {
    let (release, held) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |_, _| {
        held.lock().unwrap().recv().unwrap();
        Answer::keeps(ok("", "x"))
    });
    let edge = start(UpstreamSettings { connections: 1, ..settings(&[&origin.url]) });
    let first = find_for(&edge, "/1a", 1).0;
    until("the first request", || origin.requests().len() == 1);
    let waits = |reading: &Reading| reading.ticket().load(Ordering::Acquire) != 0;
    let mut readings = vec![first];
    for (target, asker) in [("/1b", 1), ("/1c", 1), ("/1d", 1)] {
        readings.push(find_for(&edge, target, asker).0);
        until("it to wait", || readings.last().is_some_and(waits));
    }
    let (joined, status) = find_for(&edge, "/1d", 2);
    assert_eq!(status, CacheStatus::Joined);
    // What follows in the mailbox is taken up behind that.
    readings.extend([joined, find_for(&edge, "/3a", 3).0]);
    until("the last one to wait", || readings.last().is_some_and(waits));
    (0..5).for_each(|_| release.send(()).unwrap());
    readings.iter().for_each(|reading| assert_eq!(end(reading), Ok("x".into())));
    let requests = origin.requests();
    let order: Vec<&str> = requests.iter().filter_map(|request| request.split(' ').nth(1)).collect();
    assert_eq!(order, ["/1a", "/1b", "/1d", "/3a", "/1c"]);
}
