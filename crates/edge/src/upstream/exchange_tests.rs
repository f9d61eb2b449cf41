use super::super::super::cache::{Begun, Cache};
use super::super::super::testing::{at, bytes, cache, freshness, job, text};
use super::super::super::{Growing, UpstreamRoute};
use super::*;
use glassline_delivery::fill::{Bytes, Route};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Thu, 26 Nov 2026 00:00:10 GMT.
const UTC: Utc = Utc::from_nanos(1_795_651_210_000_000_000);
const NAME: &str = "glassline-00000000000000aa";

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

/// An exchange with one server, which stands as far as it was fed.
struct Asked {
    exchange: Exchange,
    request: String,
    growing: Arc<Growing>,
    settings: UpstreamSettings,
    server: Url,
    _cache: Arc<Cache>,
}

/// What is asked for, and what is known of it.
struct Question {
    server: &'static str,
    target: &'static str,
    host: Option<&'static str>,
    /// The head and the text of what was there, and until which second that may be given.
    old: Option<(Head, &'static str, u64)>,
    begun: Option<Begun>,
}

impl Question {
    fn of(target: &'static str) -> Question {
        Question { server: "http://origin.example", target, host: None, old: None, begun: None }
    }

    /// It is asked at second 10.
    fn ask(self) -> Asked {
        let (cache, _) = cache(64 << 20);
        let (server, growing) = (url(self.server), cache.fresh());
        let mut job = job(&cache, self.target, &growing);
        job.host = self.host.map(str::to_owned);
        job.begun = self.begun;
        if let Some((head, text, until)) = self.old {
            let old = cache.fresh();
            old.change(|object| *object = Object::whole(head, Bytes::from_static(text.as_bytes())));
            (job.old, job.old_until) = (Some(old), at(until));
        }
        let mut fetch = Fetch::new(job, at(10));
        let (request, client) = fetch.request(&server, NAME, Limits::DEFAULT);
        assert_eq!(fetch.attempts, 1);
        Asked {
            exchange: Exchange::new(fetch, client),
            request: String::from_utf8(request).unwrap(),
            growing,
            settings: UpstreamSettings::new(vec![server.clone()]),
            server,
            _cache: cache,
        }
    }
}

fn ask(target: &'static str) -> Asked {
    Question::of(target).ask()
}

impl Asked {
    /// Takes bytes that come at second 100. Returns how it stands, and how many of the bytes are left.
    fn try_take(&mut self, wire: impl AsRef<[u8]>) -> Result<(Stands, usize), HttpError> {
        let mut input = wire.as_ref();
        let origin = Origin { settings: &self.settings, server: &self.server, utc: UTC, now: at(100) };
        self.exchange.take(&mut input, origin).map(|stands| (stands, input.len()))
    }

    fn take(&mut self, wire: impl AsRef<[u8]>) -> Stands {
        self.try_take(wire).unwrap().0
    }

    /// What its readers have once what was taken is handed on.
    fn text(&mut self) -> String {
        self.exchange.deliver();
        text(&self.growing)
    }

    fn head(&self) -> Head {
        (*self.growing.look(|object| object.progress().head).unwrap()).clone()
    }

    /// The value of a field of the request.
    fn asked(&self, name: &str) -> Option<&str> {
        self.request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

#[test]
fn a_request_is_of_the_object_alone_and_names_this_server() {
    let asked = ask("/a/b.m4s?x=1");
    let agent = concat!("glassline/", env!("CARGO_PKG_VERSION"));
    let expected = format!(
        "GET /a/b.m4s?x=1 HTTP/1.1\r\nHost: origin.example\r\nUser-Agent: {agent}\r\nVia: 1.1 {NAME}\r\n\r\n"
    );
    assert_eq!(asked.request, expected);
}

#[test]
fn a_servers_path_stands_in_front_and_its_key_and_port_are_shown() {
    let asked = Question { server: "http://edge:KEY@[::1]:8080/base/", ..Question::of("/a") }.ask();
    assert!(asked.request.starts_with("GET /base/a HTTP/1.1\r\nHost: [::1]:8080\r\n"), "{}", asked.request);
    assert_eq!(asked.asked("Authorization"), Some("Basic ZWRnZTpLRVk="));
}

#[test]
fn a_route_that_keeps_the_host_asks_by_that() {
    let asked = Question { host: Some("b.example"), ..Question::of("/a") }.ask();
    assert_eq!(asked.asked("Host"), Some("b.example"));
}

#[test]
fn what_was_there_is_asked_about_by_its_tag_or_else_by_its_date() {
    let plain = Head::new("video/mp4");
    let dated = plain.clone().with("Last-Modified", "Wed, 25 Nov 2026 00:00:10 GMT");
    for (head, tag, date) in [
        (dated.clone().with("ETag", "W/\"1\""), Some("W/\"1\""), None),
        (dated, None, Some("Wed, 25 Nov 2026 00:00:10 GMT")),
        (plain, None, None),
    ] {
        let asked = Question { old: Some((head, "old", 50)), ..Question::of("/a") }.ask();
        assert_eq!((asked.asked("If-None-Match"), asked.asked("If-Modified-Since")), (tag, date));
    }
}

#[test]
fn an_answer_with_a_length_is_whole_with_its_last_byte() {
    let mut asked = ask("/a.m4s");
    assert!(!asked.exchange.has_answer);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 5\r\nSet-Cookie: a\r\n\r\n";
    assert_eq!(asked.take(format!("{head}hel")), Stands::Goes);
    assert!(asked.exchange.has_answer);
    assert_eq!(
        (asked.exchange.taken_bytes(), asked.growing.look(Object::filled)),
        (3, 0),
        "it is not handed on"
    );
    assert_eq!((asked.text().as_str(), asked.exchange.taken_bytes()), ("hel", 0));
    assert_eq!(asked.growing.look(|object| object.progress().total), Some(5));
    assert!(!asked.exchange.handle_end(), "it is cut short");
    assert_eq!(asked.try_take("lo more").unwrap(), (Stands::Done, 5), "what follows is not of it");
    assert_eq!(asked.text(), "hello");
    assert_eq!(asked.head(), Head::new("video/mp4"), "what is not of the object stays behind");
    assert!(asked.exchange.handle_end() && asked.exchange.keeps_alive());
}

#[test]
fn an_answer_without_a_length_ends_with_its_connection() {
    let mut asked = ask("/a.m4s");
    assert_eq!(asked.take("HTTP/1.1 200 OK\r\n\r\nhello"), Stands::Goes);
    assert_eq!(asked.text(), "hello");
    assert!(asked.exchange.handle_end() && !asked.exchange.keeps_alive());
}

#[test]
fn a_connection_that_ends_within_a_head_or_a_chunk_has_not_answered() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |body: &str| format!("{head}{body}");
    for cut in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        head,
        &chunked("5\r\nhel"),
        &chunked("5\r\nhello\r\n"),
        &chunked("0\r\n"),
    ] {
        let mut asked = ask("/a.m4s");
        assert_eq!(asked.take(cut), Stands::Goes, "{cut}");
        assert!(!asked.exchange.handle_end(), "{cut}");
    }
}

#[test]
fn an_answer_that_is_no_http_is_an_error() {
    for wire in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    ] {
        assert!(ask("/a.m4s").try_take(wire).is_err(), "{wire}");
    }
}

#[test]
fn what_a_server_says_in_between_is_passed_over() {
    let mut asked = ask("/a.m4s");
    let wire = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!((asked.take(wire), asked.text().as_str()), (Stands::Done, "x"));
}

#[test]
fn a_connection_that_its_server_ends_is_not_used_again() {
    let mut asked = ask("/a.m4s");
    let wire = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
    assert_eq!((asked.take(wire), asked.exchange.keeps_alive()), (Stands::Done, false));
}

#[test]
fn a_server_that_fails_is_not_the_last_to_be_asked_and_one_in_a_loop_is() {
    for status in [500, 502, 503, 504] {
        let mut asked = ask("/a.m4s");
        let wire = format!("HTTP/1.1 {status} x\r\nContent-Length: 4\r\n\r\noops");
        assert_eq!((asked.take(wire), asked.text().as_str()), (Stands::TryNext, ""), "{status}");
        assert_eq!(asked.growing.look(|object| object.progress().head), None);
    }
    let mut asked = ask("/a.m4s");
    assert_eq!(asked.take("HTTP/1.1 508 x\r\nContent-Length: 4\r\n\r\nloop"), Stands::Done);
    assert_eq!((asked.head().status(), asked.text().as_str()), (508, "loop"));
    assert!(asked.exchange.download.download.is_of_request());
}

#[test]
fn a_refusal_is_an_object_that_lasts_for_a_moment() {
    let mut asked = ask("/a.m4s");
    assert_eq!(asked.take("HTTP/1.1 404 x\r\nContent-Length: 4\r\n\r\nnone"), Stands::Done);
    assert_eq!((asked.head().status(), asked.text().as_str()), (404, "none"));
    assert_eq!(asked.exchange.download.freshness.lasts(), Duration::from_millis(500));
}

#[test]
fn an_answer_that_was_not_asked_for_is_of_no_use() {
    for wire in [
        "HTTP/1.1 206 x\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 304 x\r\n\r\n",
    ] {
        assert_eq!(ask("/a.m4s").take(wire), Stands::Failed(Failure::Malformed), "{wire}");
    }
}

#[test]
fn what_still_holds_is_the_old_object_under_a_renewed_head() {
    let head = Head::new("text/plain").with("ETag", "\"1\"").with("Cache-Control", "max-age=5");
    let mut asked = Question { old: Some((head, "as it was", 50)), ..Question::of("/a") }.ask();
    let wire = "HTTP/1.1 304 x\r\nETag: W/\"1\"\r\nCache-Control: max-age=70\r\nAge: 30\r\n\r\n";
    assert_eq!(asked.take(wire), Stands::Done);
    let (fetch, same) = asked.exchange.into_parts();
    let same = same.unwrap();
    let progress = same.progress();
    assert_eq!((bytes(&same), progress.is_whole), (b"as it was".to_vec(), true));
    assert_eq!(progress.head.unwrap().field("cache-control"), Some("max-age=70"));
    assert_eq!(progress.sent, Some(at(70)), "another cache had it for half a minute");
    assert_eq!(fetch.freshness, freshness(40, 0, 0));
}

#[test]
fn an_answer_about_another_version_says_nothing_of_the_old_one() {
    let head = Head::new("text/plain").with("ETag", "\"1\"");
    let mut asked = Question { old: Some((head, "as it was", 50)), ..Question::of("/a") }.ask();
    assert_eq!(asked.take("HTTP/1.1 304 x\r\nETag: \"2\"\r\n\r\n"), Stands::Failed(Failure::Malformed));
    assert!(asked.exchange.same.is_none());
}

#[test]
fn an_answer_that_is_about_the_request_does_not_replace_what_may_still_be_given() {
    let old = |until| Some((Head::new("text/plain").with("ETag", "\"1\""), "as it was", until));
    let wire = "HTTP/1.1 429 x\r\nContent-Length: 4\r\n\r\nslow";
    let mut spare = Question { old: old(11), ..Question::of("/a") }.ask();
    assert_eq!(spare.take(wire), Stands::Failed(Failure::Upstream));
    let mut too_old = Question { old: old(10), ..Question::of("/a") }.ask();
    assert_eq!((too_old.take(wire), too_old.text().as_str()), (Stands::Done, "slow"));
}

fn begun(etag: &str) -> Option<Begun> {
    Some(Begun { etag: etag.to_owned(), filled: 5, total: 11, freshness: freshness(7, 0, 0) })
}

#[test]
fn what_has_begun_asks_for_the_rest_and_goes_on_with_it() {
    let mut asked = Question { begun: begun("\"1\""), ..Question::of("/a") }.ask();
    assert!(asked.asked("Range").is_some_and(|range| range.starts_with("bytes=5-")), "{}", asked.request);
    assert_eq!(asked.asked("If-Range"), Some("\"1\""));
    let wire =
        "HTTP/1.1 206 x\r\nETag: \"1\"\r\nContent-Range: bytes 5-10/11\r\nContent-Length: 6\r\n\r\n world";
    assert_eq!((asked.take(wire), asked.text().as_str()), (Stands::Done, " world"));
    assert!(asked.exchange.download.download.is_whole());
    assert_eq!(asked.exchange.download.freshness, freshness(7, 0, 0), "it is worth what it was");
}

#[test]
fn a_server_without_ranges_sends_all_again_and_what_is_there_is_passed_over() {
    let mut asked = Question { begun: begun("\"1\""), ..Question::of("/a") }.ask();
    let head = "HTTP/1.1 200 x\r\nETag: \"1\"\r\nContent-Length: 11\r\n\r\n";
    for (piece, stands) in
        [(head, Stands::Goes), ("hel", Stands::Goes), ("lo wo", Stands::Goes), ("rld", Stands::Done)]
    {
        assert_eq!(asked.take(piece), stands, "{piece}");
    }
    assert_eq!(asked.text(), " world");
    assert!(asked.exchange.download.download.is_whole());
}

#[test]
fn two_versions_are_not_put_together_and_a_wrong_range_is_not_believed() {
    let mut other = Question { begun: begun("\"1\""), ..Question::of("/a") }.ask();
    let wire = "HTTP/1.1 200 x\r\nETag: \"2\"\r\nContent-Length: 11\r\n\r\nhello world";
    assert_eq!((other.take(wire), other.text().as_str()), (Stands::Failed(Failure::Upstream), ""));
    let mut wrong = Question { begun: begun("\"1\""), ..Question::of("/a") }.ask();
    let wire =
        "HTTP/1.1 206 x\r\nETag: \"1\"\r\nContent-Range: bytes 4-10/11\r\nContent-Length: 7\r\n\r\no world";
    assert_eq!((wrong.take(wire), wrong.text().as_str()), (Stands::TryNext, ""));
}

#[test]
fn an_object_that_is_larger_than_objects_may_be_fails_with_the_first_byte_too_many() {
    let mut asked = ask("/a.m4s");
    asked.settings.object_bytes = 8;
    assert_eq!(asked.take("HTTP/1.1 200 OK\r\n\r\n12345678"), Stands::Goes);
    assert_eq!(asked.take("9"), Stands::Failed(Failure::TooLarge));
}

#[test]
fn a_key_that_a_server_refuses_is_no_refusal_of_the_stream() {
    let wire = "HTTP/1.1 401 x\r\nContent-Length: 3\r\n\r\nkey";
    let mut barred = Question { server: "http://edge:KEY@o.example", ..Question::of("/live/a.ts?x") }.ask();
    assert_eq!(barred.take(wire), Stands::TryNext);
    assert!(barred.exchange.download.is_barred && barred.exchange.refusal == Some(Refusal::OurKey));
    assert_eq!(barred.growing.look(|object| object.progress().head), None, "viewers do not see it");
}

#[test]
fn a_server_that_asks_for_a_key_or_forbids_a_stream_is_heard_by_viewers_and_told_of() {
    for (server, status, target, refusal) in [
        ("http://o.example", 401, "/live/a.ts", Some(Refusal::Asked)),
        ("http://o.example", 403, "/live/a.ts", Some(Refusal::Asked)),
        ("http://edge:KEY@o.example", 403, "/live/a.ts", Some(Refusal::Asked)),
        ("http://edge:KEY@o.example", 401, "/film.mp4", None),
        ("http://o.example", 404, "/live/a.ts", None),
    ] {
        let mut asked = Question { server, ..Question::of(target) }.ask();
        let wire = format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!((asked.take(wire), asked.exchange.refusal), (Stands::Done, refusal), "{status} {target}");
        assert_eq!((asked.head().status(), asked.exchange.download.is_barred), (status, false));
    }
}

#[test]
fn a_redirect_to_a_server_that_is_asked_here_leads_here_and_its_body_stays_behind() {
    let mut asked = Question { server: "http://o.example/base", ..Question::of("/live/a/1.m4s") }.ask();
    let body = "<a href=\"http://o.example/base/live/b/1.m4s\">";
    let wire = format!(
        "HTTP/1.1 302 x\r\nLocation: http://o.example/base/live/b/1.m4s?s=1\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!((asked.take(wire), asked.text().as_str()), (Stands::Done, ""));
    assert_eq!(asked.head(), Head::of_status(302).with("Location", "../b/1.m4s?s=1"));
    assert_eq!(asked.growing.look(|object| (object.progress().total, object.failure())), (Some(0), None));
    assert!(asked.exchange.download.download.is_whole());
}

#[test]
fn a_redirect_to_elsewhere_is_given_as_it_is() {
    let mut asked = ask("/live/a/1.m4s");
    let wire = "HTTP/1.1 301 x\r\nLocation: http://other.example/b\r\nContent-Length: 4\r\n\r\nthis";
    assert_eq!((asked.take(wire), asked.text().as_str()), (Stands::Done, "this"));
    assert_eq!(asked.head().field("location"), Some("http://other.example/b"));
}

#[test]
fn a_redirect_of_a_routes_server_is_one_of_that_route() {
    let mut asked = Question { server: "http://r.example", ..Question::of("/a/1") }.ask();
    let rule = Route::new(None, Some("/vod/"), Some("/vod"), false).unwrap();
    let servers = vec![url("http://r.example")];
    asked.settings.servers = vec![url("http://o.example")];
    asked.settings.routes = vec![UpstreamRoute { rule, servers, own_pages: false }];
    asked.exchange.download.job.group = 1;
    assert_eq!(asked.take("HTTP/1.1 302 x\r\nLocation: /vod/2\r\nContent-Length: 0\r\n\r\n"), Stands::Done);
    // What the server calls /vod/2 is /vod/vod/2 here.
    assert_eq!(asked.head().field("location"), Some("../vod/2"));
}

#[test]
fn a_playlist_says_that_it_comes_in_codings_and_media_does_not() {
    for (target, media_type, vary) in [
        ("/a.m3u8", "text/plain", Some("Accept-Encoding")),
        ("/a", "application/dash+xml", Some("Accept-Encoding")),
        ("/a.m4s", "video/mp4", None),
        ("/a.m4s?b.m3u8", "video/mp4", None),
    ] {
        let mut asked = ask(target);
        asked.take(format!("HTTP/1.1 200 x\r\nContent-Type: {media_type}\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(asked.head().field("vary"), vary, "{target}");
    }
}

#[test]
fn an_answers_age_is_part_of_when_it_was_sent_and_of_what_it_is_worth() {
    let mut asked = ask("/a.m4s");
    let wire = "HTTP/1.1 200 x\r\nAge: 40\r\nCache-Control: max-age=100, stale-if-error=9\r\nContent-Length: 0\r\n\r\n";
    asked.take(wire);
    assert_eq!(asked.growing.look(|object| object.progress().sent), Some(at(60)));
    assert_eq!(asked.exchange.download.freshness, freshness(60, 0, 9));
    let mut ancient = ask("/a.m4s");
    ancient.take("HTTP/1.1 200 x\r\nAge: 4000\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        ancient.growing.look(|object| object.progress().sent),
        Some(Time::ZERO),
        "before the clock's begin"
    );
}

#[test]
fn small_pieces_of_one_turn_are_handed_on_as_one_and_large_ones_by_themselves() {
    let mut asked = ask("/a.m4s");
    asked.take("HTTP/1.1 200 OK\r\n\r\n");
    for _ in 0..10 {
        asked.take([7; 1000]);
    }
    assert_eq!(asked.exchange.taken.len(), 1);
    asked.take(vec![8; RUN_BYTES]);
    asked.take([9; 10]);
    let lengths: Vec<usize> = asked.exchange.taken.iter().map(Vec::len).collect();
    assert_eq!(lengths, [10_000, RUN_BYTES, 10]);
    let count = lengths.iter().sum::<usize>() as u64;
    assert_eq!(asked.exchange.taken_bytes(), count);
    asked.exchange.deliver();
    assert_eq!(asked.growing.look(Object::filled), count);
}

#[test]
fn a_fetch_that_may_give_what_was_there_says_so_until_its_time_is_over() {
    let (cache, _) = cache(1 << 20);
    let growing = cache.fresh();
    let mut job = job(&cache, "/a", &growing);
    assert!(!Fetch::new(job.clone(), at(0)).download.has_begun());
    job.begun = begun("W/\"weak\"");
    let fetch = Fetch::new(job, at(0));
    assert_eq!((fetch.download.has_begun(), fetch.download.filled()), (true, 5));
    assert!(!fetch.download.can_resume(), "by a weak tag no other server's bytes are known to fit");
    assert_eq!(fetch.freshness, freshness(7, 0, 0));
}

/// The body in chunks of these lengths.
fn chunked(body: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut wire, mut rest) = (Vec::new(), body);
    for length in lengths.iter().copied().chain([usize::MAX]) {
        let (chunk, left) = rest.split_at(length.min(rest.len()));
        rest = left;
        if !chunk.is_empty() {
            wire.extend(format!("{:x};ext=1\r\n", chunk.len()).bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
    }
    wire.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
    wire
}

proptest! {
    /// However a server cuts its answer into chunks, and the network cuts those, the object is the same.
    #[test]
    fn an_answer_is_the_same_however_it_is_cut(
        body in prop::collection::vec(any::<u8>(), 0..400),
        lengths in prop::collection::vec(1usize..80, 0..8),
        cuts in prop::collection::vec(1usize..60, 1..40),
        is_chunked in any::<bool>(),
        skip in 0usize..200,
    ) {
        let skip = skip.min(body.len());
        let begun = (skip > 0).then(|| Begun {
            etag: "\"1\"".to_owned(),
            filled: skip as u64,
            total: body.len() as u64,
            freshness: Freshness::default(),
        });
        let mut asked = Question { begun, ..Question::of("/a.m4s") }.ask();
        let framing = match is_chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        let mut wire = format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\n{framing}\r\n\r\n").into_bytes();
        wire.extend(if is_chunked { chunked(&body, &lengths) } else { body.clone() });
        let (mut rest, mut cuts) = (&wire[..], cuts.iter().cycle());
        let mut last = Stands::Goes;
        while !rest.is_empty() {
            prop_assert_eq!(last, Stands::Goes);
            let (piece, left) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            rest = left;
            last = asked.take(piece);
            asked.exchange.deliver();
        }
        prop_assert_eq!(last, Stands::Done);
        prop_assert_eq!(asked.growing.look(bytes), &body[skip..]);
        prop_assert!(asked.exchange.download.download.is_whole() && asked.exchange.handle_end());
    }

    /// Whatever a server sends, an object never has more bytes than its answer brought, nor more than announced.
    #[test]
    fn hostile_bytes_end_in_an_error_or_in_an_object_of_no_more_than_came(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        announced in 0u64..50,
    ) {
        let mut asked = ask("/a.m4s");
        let mut wire = format!("HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n").into_bytes();
        wire.extend_from_slice(&noise);
        let (stands, left) = asked.try_take(&wire).unwrap();
        asked.exchange.deliver();
        let expected = announced.min(noise.len() as u64);
        prop_assert_eq!(asked.growing.look(Object::filled), expected);
        prop_assert_eq!(stands == Stands::Done, announced <= noise.len() as u64);
        prop_assert_eq!(left as u64, if stands == Stands::Done { noise.len() as u64 - announced } else { 0 });
        let mut bare = ask("/a.m4s");
        if let Ok((stands, _)) = bare.try_take(&noise) {
            prop_assert_eq!(stands, Stands::Goes, "noise is no head");
        }
    }
}
