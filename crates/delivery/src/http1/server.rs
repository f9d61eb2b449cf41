//! The server's end of a connection: bytes in, requests and bodies out.
//!
//! ```text
//!            ┌──────────────────────── next request ───────────────────────┐
//!            ▼                                                             │
//!   Head ──Request──► Body ──Data…──► End ──► (the caller answers) ──► done()
//! ```
//! The caller feeds input with [`Server::next`], answers when a request has come, and calls [`Server::done`]
//! when the answer is written; only then is the next, pipelined request looked at.

use super::body::{Decoder, Framing, Piece};
use super::head::{HeadBuffer, Parsed, malformed};
use super::{Headers, Host, HttpError, Limits, Method, Version, host, plain_path, plain_query};
use glassline_media::Time;
use serde::{Deserialize, Serialize};

/// A request's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// The path without the query, in the form that all equivalent ones share ([`plain_path`]).
    pub path: String,
    /// The query without its `?`; empty where there is none.
    pub query: String,
    /// Protocol version.
    pub version: Version,
    /// Header fields.
    pub headers: Headers,
}

impl Request {
    /// The value of a query parameter, percent-decoded; `Some("")` for one without value.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Under which name or at which address the client called this server; `None` where it does not say, as HTTP/1.0
    /// need not.
    pub fn host(&self) -> Option<Host<'_>> {
        self.headers.first("host").and_then(Host::parse)
    }

    /// Whether the client waits for `100 Continue` before it sends a body (RFC 9110 §10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.version == Version::Http11 && self.headers.has_token("expect", "100-continue")
    }
}

/// What tells a client to go on and send its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request's head. Its body, if any, follows as [`Event::Data`]; [`Event::End`] follows in any case.
    Request(Box<Request>),
    /// Bytes of the request's body.
    Data(&'a [u8]),
    /// The request is whole.
    End,
}

/// One connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    limits: Limits,
    state: State,
    head: HeadBuffer,
    keep_alive: bool,
    since: Time,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum State {
    Head { first: bool },
    Body(Decoder),
    Answering,
    Failed,
}

impl Server {
    /// A connection that was accepted at `now`.
    pub fn new(limits: Limits, now: Time) -> Server {
        Server {
            limits,
            state: State::Head { first: true },
            head: HeadBuffer::default(),
            keep_alive: true,
            since: now,
        }
    }

    /// The next event at the front of `input`, which moves past it; `None` where more input is needed or an
    /// answer is still due. After an error the caller answers with [`HttpError::status`] and closes the
    /// connection.
    pub fn next<'a>(&mut self, input: &mut &'a [u8], now: Time) -> Result<Option<Event<'a>>, HttpError> {
        let result = self.step(input, now);
        if result.is_err() {
            self.state = State::Failed;
            self.keep_alive = false;
        }
        result
    }

    fn step<'a>(&mut self, input: &mut &'a [u8], now: Time) -> Result<Option<Event<'a>>, HttpError> {
        match &mut self.state {
            State::Head { .. } => {
                let was_empty = self.head.is_empty();
                let Some(request) = self.head.take(input, &self.limits, parse_request)? else {
                    if was_empty && !self.head.is_empty() {
                        self.since = now;
                        self.state = State::Head { first: true };
                    }
                    return Ok(None);
                };
                self.keep_alive = request.headers.keeps_alive(request.version);
                self.since = now;
                self.state = State::Body(Decoder::new(framing(&request)?));
                Ok(Some(Event::Request(Box::new(request))))
            }
            State::Body(decoder) => Ok(match decoder.next(input)? {
                Some(Piece::Data(data)) => Some(Event::Data(data)),
                Some(Piece::End) => {
                    self.state = State::Answering;
                    Some(Event::End)
                }
                None => None,
            }),
            State::Answering | State::Failed => Ok(None),
        }
    }

    /// Tells that the answer is written; the next request may come.
    pub fn done(&mut self, now: Time) {
        if matches!(self.state, State::Answering) {
            self.state = State::Head { first: false };
            self.since = now;
        }
    }

    /// Tells that the peer has ended its side. An error where that cuts a head or body short.
    pub fn end(&self) -> Result<(), HttpError> {
        match &self.state {
            State::Head { .. } if !self.head.is_empty() => {
                Err(HttpError::EndedEarly("inside a request head"))
            }
            State::Body(decoder) => decoder.end(),
            _ => Ok(()),
        }
    }

    /// Whether the connection stays after the current exchange.
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the connection rests between requests, so that closing it loses nothing.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Head { .. }) && self.head.is_empty()
    }

    /// Whether a request's body is still coming.
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Whether a chunked body is coming, and no chunk of it has come in part.
    pub fn is_between_chunks(&self) -> bool {
        matches!(&self.state, State::Body(decoder) if decoder.is_between_chunks())
    }

    /// Whether all requests that have begun are answered, of which there was one at least.
    pub fn has_answered(&self) -> bool {
        matches!(self.state, State::Head { first: false }) && self.head.is_empty()
    }

    /// Since when the connection rests between two requests: the last one is answered, and nothing of the next one has
    /// come. `None` where it does not.
    #[must_use]
    pub fn resting_since(&self) -> Option<Time> {
        self.has_answered().then_some(self.since)
    }

    /// When this connection has waited too long for a head, or for the rest of a body; a body that is a stream has no such
    /// time, which is the caller's business. Changes with [`Server::next`] and [`Server::done`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Head { first: false } => Some(self.since + self.limits.idle_time),
            State::Head { first: true } => Some(self.since + self.limits.head_time),
            State::Body(_) => Some(self.since + self.limits.body_time),
            State::Answering | State::Failed => None,
        }
    }

    /// What is late where [`Server::poll_timeout`] has passed.
    pub fn late(&self) -> HttpError {
        HttpError::TimedOut(match self.state {
            State::Body(_) => "the request's body took too long",
            _ => "the request's head took too long",
        })
    }
}

fn framing(request: &Request) -> Result<Framing, HttpError> {
    if let Some(framing) = request.headers.framing(request.version)? {
        return Ok(framing);
    }
    // A request without a length has no body (RFC 9112 §6.3). Simple publishers send an endless one all the
    // same and say that the connection ends with it; nothing else could follow on such a connection.
    let publishes = matches!(request.method, Method::Put | Method::Post);
    let endless = publishes && !request.headers.keeps_alive(request.version);
    Ok(if endless { Framing::UntilClose } else { Framing::Length(0) })
}

fn parse_request(bytes: &[u8]) -> Parsed<Request> {
    let mut fields = [httparse::EMPTY_HEADER; Limits::HEADERS];
    let mut parsed = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(length) = parsed.parse(bytes).map_err(malformed)? else {
        return Ok(None);
    };
    let version = Version::of(parsed.version);
    let mut headers = Headers::from_parsed(parsed.headers);
    host::check(&headers, version)?;
    let mut target = parsed.path.unwrap_or("/");
    // The absolute form, which proxies send, names the same resource, and its host counts (RFC 9112 §3.2.2).
    if let Some(after_scheme) = without_scheme(target) {
        let end = after_scheme.find(['/', '?']).unwrap_or(after_scheme.len());
        let (authority, rest) = after_scheme.split_at(end);
        if authority.is_empty() || Host::parse(authority).is_none() {
            return Err(HttpError::Malformed("the request's target names no host".into()));
        }
        headers.replace("host", authority);
        target = rest;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        method: Method::parse(parsed.method.unwrap_or("")),
        path: if path.is_empty() { "/".to_owned() } else { plain_path(path).into_owned() },
        query: plain_query(query).into_owned(),
        version,
        headers,
    };
    Ok(Some((length, request)))
}

/// What stands behind `http://` or `https://`, in whatever case.
fn without_scheme(target: &str) -> Option<&str> {
    let has_scheme =
        |scheme: &str| target.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let scheme = ["http://", "https://"].into_iter().find(|scheme| has_scheme(scheme))?;
    target.get(scheme.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[derive(Debug, PartialEq, Eq)]
    enum Seen {
        Request(Method, String),
        Body(Vec<u8>),
    }

    /// Feeds `wire` cut at `cuts`, answers each request at once, and returns what was seen.
    fn feed(wire: &[u8], cuts: &[usize]) -> Result<Vec<Seen>, HttpError> {
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        let (mut seen, mut body, mut from) = (Vec::new(), Vec::new(), 0);
        for to in cuts.iter().copied().chain([wire.len()]) {
            let mut input = &wire[from..to];
            from = to;
            while let Some(event) = server.next(&mut input, Time::ZERO)? {
                match event {
                    Event::Request(request) => seen.push(Seen::Request(request.method, request.path)),
                    Event::Data(data) => body.extend_from_slice(data),
                    Event::End => {
                        seen.push(Seen::Body(std::mem::take(&mut body)));
                        server.done(Time::ZERO);
                    }
                }
            }
        }
        server.end()?;
        Ok(seen)
    }

    const WIRE: &[u8] = b"\r\nGET /a?x=1 HTTP/1.1\r\nHost: h\r\n\r\n\
        PUT /live/b.ts HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        POST /c HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nx\n\
        HEAD /d HTTP/1.0\r\n\r\n";

    fn expected() -> Vec<Seen> {
        let request = |method, path: &str| Seen::Request(method, path.to_owned());
        vec![
            request(Method::Get, "/a"),
            Seen::Body(vec![]),
            request(Method::Put, "/live/b.ts"),
            Seen::Body(b"abc".to_vec()),
            request(Method::Post, "/c"),
            Seen::Body(b"x\n".to_vec()),
            request(Method::Head, "/d"),
            Seen::Body(vec![]),
        ]
    }

    proptest! {
        #[test]
        fn pipelined_requests_survive_any_chop(mut cuts in proptest::collection::vec(0..WIRE.len(), 0..20)) {
            cuts.sort_unstable();
            prop_assert_eq!(feed(WIRE, &cuts), Ok(expected()));
        }

        #[test]
        fn garbage_never_panics(wire in proptest::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000) {
            let _ = feed(&wire, &[cut.min(wire.len())]);
        }
    }

    #[test]
    fn a_head_of_64_kilobytes_is_refused_with_431() {
        let wire = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 64 << 10]].concat();
        let error = feed(&wire, &[100, 9000]).unwrap_err();
        assert_eq!((error.status(), error), (431, HttpError::HeadTooLarge { limit: 16 << 10 }));
        let many = "A: b\r\n".repeat(65);
        let error = feed(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes(), &[]).unwrap_err();
        assert_eq!(error, HttpError::TooManyHeaders);
    }

    #[test]
    fn smuggling_is_refused() {
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5, 6",
            "Content-Length: +5",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let wire = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
            let error = feed(wire.as_bytes(), &[]).unwrap_err();
            assert!(!matches!(error, HttpError::BadHost(_)), "{fields}: {error}");
        }
    }

    #[test]
    fn there_is_one_host_and_it_is_a_good_one() {
        let heads =
            |version: &str, fields: &str| feed(format!("GET / {version}\r\n{fields}\r\n").as_bytes(), &[]);
        for fields in ["Host: a\r\n", "hOsT: [::1]:80\r\n", "Host:\r\n"] {
            assert!(heads("HTTP/1.1", fields).is_ok() && heads("HTTP/1.0", fields).is_ok(), "{fields}");
        }
        assert!(heads("HTTP/1.0", "").is_ok());
        for fields in
            ["Host: a\r\nHost: a\r\n", "Host: a\r\nX: y\r\nhost: b\r\n", "Host: a, b\r\n", "Host: a@b\r\n"]
        {
            for version in ["HTTP/1.1", "HTTP/1.0"] {
                let error = heads(version, fields).unwrap_err();
                assert!(matches!(error, HttpError::BadHost(_)) && error.status() == 400, "{fields}: {error}");
            }
        }
        assert!(matches!(heads("HTTP/1.1", "X: y\r\n"), Err(HttpError::BadHost(_))));
        let absolute =
            |target: &str| feed(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(), &[]);
        for (target, path) in [("HTTP://a:80", "/"), ("https://[::1]/x?y", "/x"), ("http://a?y", "/")] {
            assert_eq!(absolute(target).unwrap()[0], Seen::Request(Method::Get, path.into()), "{target}");
        }
        for target in ["http:///x", "http://user@a/x", "http://a b/"] {
            assert!(absolute(target).is_err(), "{target}");
        }
    }

    #[test]
    fn lines_of_a_head_end_with_both_bytes() {
        for wire in [
            "GET / HTTP/1.1\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n\n",
            "GET / HTTP/1.1\r\nHost: h\n\n",
            "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "\r\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        ] {
            for cut in 0..wire.len() {
                assert_eq!(
                    feed(wire.as_bytes(), &[cut]),
                    Err(HttpError::BareLineEnd),
                    "{wire:?} cut at {cut}"
                );
            }
        }
        assert!(
            feed(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", &[]).is_err(),
            "a return inside a line"
        );
    }

    proptest! {
        /// Wherever one of the carriage returns of a head is left away, the head is refused, however it is cut.
        #[test]
        fn a_head_without_one_of_its_carriage_returns_is_refused(which in 0usize..4, cut in 0usize..60) {
            let whole = "GET /a HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n";
            let (at, _) = whole.match_indices('\r').nth(which).expect("four lines");
            let wire = [&whole[..at], &whole[at + 1..]].concat();
            prop_assert_eq!(feed(wire.as_bytes(), &[cut.min(wire.len())]), Err(HttpError::BareLineEnd));
        }
    }

    #[test]
    fn a_publisher_may_send_until_it_closes() {
        let wire = b"POST /live/x.ts HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGGGG";
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        let mut input = &wire[..];
        assert!(matches!(server.next(&mut input, Time::ZERO), Ok(Some(Event::Request(_)))));
        assert_eq!(server.next(&mut input, Time::ZERO), Ok(Some(Event::Data(b"GGGG"))));
        assert_eq!(server.next(&mut input, Time::ZERO), Ok(None));
        assert_eq!(server.end(), Ok(()));
    }

    #[test]
    fn a_slow_head_and_a_long_rest_time_out() {
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        assert_eq!(server.resting_since(), None, "it has asked for nothing yet");
        assert_eq!(server.poll_timeout(), Some(Time::ZERO + Duration::from_secs(10)));
        let mut input = &b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGE"[..];
        while let Some(event) = server.next(&mut input, Time::from_millis(5000)).unwrap() {
            if event == Event::End {
                assert_eq!(server.resting_since(), None);
                server.done(Time::from_millis(5000));
                assert_eq!(server.poll_timeout(), Some(Time::from_millis(65_000)));
                assert_eq!(server.resting_since(), Some(Time::from_millis(5000)));
            }
        }
        assert_eq!(server.resting_since(), None, "the next request has begun");
        assert_eq!(server.poll_timeout(), Some(Time::from_millis(15_000)));
        assert!(server.end().is_err());
    }

    #[test]
    fn a_body_that_does_not_come_times_out() {
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        assert!(!server.has_answered());
        let mut input = &b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"[..];
        assert!(matches!(server.next(&mut input, Time::from_millis(5000)), Ok(Some(Event::Request(_)))));
        assert_eq!(server.poll_timeout(), Some(Time::from_millis(15_000)));
        // What trickles in does not put it off.
        assert_eq!(server.next(&mut &b"abcd"[..], Time::from_millis(14_000)), Ok(Some(Event::Data(b"abcd"))));
        assert_eq!(server.poll_timeout(), Some(Time::from_millis(15_000)));
        assert_eq!(server.late(), HttpError::TimedOut("the request's body took too long"));
        assert!(!server.is_idle() && !server.has_answered());
        let mut input = &b"e"[..];
        while let Some(event) = server.next(&mut input, Time::from_millis(14_500)).unwrap() {
            if event == Event::End {
                assert_eq!(server.poll_timeout(), None);
                server.done(Time::from_millis(14_500));
            }
        }
        assert!(server.has_answered());
        assert_eq!(server.late(), HttpError::TimedOut("the request's head took too long"));
    }

    #[test]
    fn query_and_expectations_are_read() {
        let wire = b"PUT http://host/live/x.ts?takeover=1&key=a%20b HTTP/1.1\r\nHost: other\r\nExpect: 100-Continue\r\n\r\n";
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        let mut input = &wire[..];
        let Ok(Some(Event::Request(request))) = server.next(&mut input, Time::ZERO) else {
            panic!("no request")
        };
        assert_eq!((request.path.as_str(), request.host()), ("/live/x.ts", Some(Host::Name("host"))));
        assert_eq!(request.parameter("takeover").as_deref(), Some("1"));
        assert_eq!(request.parameter("key").as_deref(), Some("a b"));
        assert_eq!(request.parameter("none"), None);
        assert!(request.expects_continue());
    }
}
