//! The client's end of a connection: a request goes out, a response and its body come in.

use super::body::{Decoder, Framing, Piece};
use super::head::{HeadBuffer, Parsed, malformed};
use super::{Headers, HttpError, Limits, Method, Version};
use serde::{Deserialize, Serialize};

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    head: String,
}

impl Request {
    /// A request for `target` (path and query) at `host` (name and port). HTTP/1.1, closed after one exchange.
    pub fn new(method: Method, host: &str, target: &str) -> Request {
        Request::kept_alive(method, host, target).with_header("Connection", "close")
    }

    /// The same on a connection that may go on behind it, if the server does not mind: see [`Client::keeps_alive`].
    pub fn kept_alive(method: Method, host: &str, target: &str) -> Request {
        let clean = |text: &str| text.chars().filter(|character| !character.is_control()).collect::<String>();
        let (target, host) = (clean(target).replace(' ', "%20"), clean(host));
        let agent = concat!("glassline/", env!("CARGO_PKG_VERSION"));
        let head = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\n", method.name());
        Request { method, head }
    }

    /// The same with a field more; control characters are left out of the value.
    pub fn with_header(mut self, name: &str, value: &str) -> Request {
        self.head.push_str(name);
        self.head.push_str(": ");
        self.head.extend(value.chars().filter(|character| !character.is_control()));
        self.head.push_str("\r\n");
        self
    }

    /// The bytes of the head, for a body that follows in chunks ([`super::body::write_chunk`]).
    pub fn chunked(self) -> Vec<u8> {
        self.with_header("Transfer-Encoding", "chunked").without_body()
    }

    /// The bytes of the head, for a request without a body.
    pub fn without_body(self) -> Vec<u8> {
        let mut bytes = self.head.into_bytes();
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// What reads the answer.
    pub fn client(&self, limits: Limits) -> Client {
        Client {
            limits,
            method: self.method,
            head: HeadBuffer::default(),
            body: None,
            keeps_alive: false,
            interim: 0,
            is_told_to_continue: false,
        }
    }
}

/// A response's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code, 200 to 999; interim responses (1xx) are passed over.
    pub status: u16,
    /// What the server calls it.
    pub reason: String,
    /// Header fields.
    pub headers: Headers,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The response's head. Its body follows.
    Head(Box<Head>),
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The response is whole.
    End,
}

/// Reads one response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Client {
    limits: Limits,
    method: Method,
    head: HeadBuffer,
    body: Option<Decoder>,
    #[serde(default)]
    keeps_alive: bool,
    #[serde(default)]
    interim: u32,
    #[serde(default)]
    is_told_to_continue: bool,
}

impl Client {
    /// The next event at the front of `input`, which moves past it; `None` where more input is needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, HttpError> {
        if let Some(body) = &mut self.body {
            return Ok(body.next(input)?.map(|piece| match piece {
                Piece::Data(data) => Event::Data(data),
                Piece::End => Event::End,
            }));
        }
        loop {
            let Some((head, version)) = self.head.take(input, &self.limits, parse_response)? else {
                return Ok(None);
            };
            if head.status >= 200 {
                let framing = framing(self.method, &head, version)?;
                self.keeps_alive = head.headers.keeps_alive(version) && framing != Framing::UntilClose;
                self.body = Some(Decoder::new(framing));
                return Ok(Some(Event::Head(Box::new(head))));
            }
            self.interim = self.interim.saturating_add(1);
            self.is_told_to_continue |= head.status == 100;
        }
    }

    /// Whether the connection may be used again behind this response, as far as its head says.
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// Whether the server has answered `Expect: 100-continue` by 100 (RFC 9110 §10.1.1).
    pub fn is_told_to_continue(&self) -> bool {
        self.is_told_to_continue
    }

    /// How many interim responses have come (1xx, RFC 9110 §15.2).
    pub fn interim_responses(&self) -> u32 {
        self.interim
    }

    /// Tells that the connection has ended: an error where that cuts the response short.
    pub fn end(&self) -> Result<(), HttpError> {
        match &self.body {
            Some(body) => body.end(),
            None => Err(HttpError::EndedEarly("before a response")),
        }
    }
}

fn framing(method: Method, head: &Head, version: Version) -> Result<Framing, HttpError> {
    if method == Method::Head || matches!(head.status, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    Ok(head.headers.framing(version)?.unwrap_or(Framing::UntilClose))
}

fn parse_response(bytes: &[u8]) -> Parsed<(Head, Version)> {
    let mut fields = [httparse::EMPTY_HEADER; Limits::HEADERS];
    let mut parsed = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = parsed.parse(bytes).map_err(malformed)? else {
        return Ok(None);
    };
    let head = Head {
        status: parsed.code.unwrap_or(0),
        reason: parsed.reason.unwrap_or("").to_owned(),
        headers: Headers::from_parsed(parsed.headers),
    };
    if head.status < 100 {
        return Err(HttpError::Malformed(format!("status {}", head.status)));
    }
    Ok(Some((length, (head, Version::of(parsed.version)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::body;
    use crate::http1::server;
    use glassline_media::Time;
    use proptest::prelude::*;

    fn read(method: Method, chops: &[&[u8]]) -> Result<(u16, Vec<u8>, bool), HttpError> {
        let mut client = Request::new(method, "h", "/").client(Limits::DEFAULT);
        let (mut status, mut data, mut ended) = (0, Vec::new(), false);
        'chops: for chop in chops {
            let mut input = *chop;
            while let Some(event) = client.next(&mut input)? {
                match event {
                    Event::Head(head) => status = head.status,
                    Event::Data(bytes) => data.extend_from_slice(bytes),
                    Event::End => {
                        ended = true;
                        break 'chops;
                    }
                }
            }
        }
        client.end()?;
        Ok((status, data, ended))
    }

    #[test]
    fn interim_responses_are_passed_over() {
        let wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(read(Method::Put, &[wire]), Ok((204, vec![], true)));
    }

    #[test]
    fn without_a_length_the_body_lasts_until_the_end() {
        assert_eq!(
            read(Method::Get, &[b"HTTP/1.0 200 OK\r\n\r\nab", b"cd"]),
            Ok((200, b"abcd".to_vec(), false))
        );
        assert!(read(Method::Get, &[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]).is_err());
        assert_eq!(
            read(Method::Head, &[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]),
            Ok((200, vec![], true))
        );
        assert!(read(Method::Get, &[b"ICY 200 OK\r\n\r\n"]).is_err());
    }

    #[test]
    fn lines_of_a_head_and_of_chunks_end_with_both_bytes() {
        for wire in [
            &b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\n\n",
            b"HTTP/1.1 100 Continue\r\n\nHTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert_eq!(read(Method::Get, &[wire]), Err(HttpError::BareLineEnd));
        }
        let chunked = |body: &str| {
            let wire = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            read(Method::Get, &[wire.as_bytes()])
        };
        assert_eq!(chunked("2;a=\"b;\\\"c\"\r\n\n\n\r\n0\r\n\r\n"), Ok((200, b"\n\n".to_vec(), true)));
        assert!(matches!(chunked("2\nab\r\n0\r\n\r\n"), Err(HttpError::BadChunk(_))));
    }

    #[test]
    fn our_server_reads_our_client() {
        let mut wire =
            Request::new(Method::Put, "host:1", "/live/a b.ts").with_header("X", "1\r\nY: 2").chunked();
        body::write_chunk(b"abc", &mut wire);
        wire.extend_from_slice(body::LAST_CHUNK);
        let mut server = server::Server::new(Limits::DEFAULT, Time::ZERO);
        let mut input = &wire[..];
        let Ok(Some(server::Event::Request(request))) = server.next(&mut input, Time::ZERO) else { panic!() };
        assert_eq!((request.method, request.path.as_str()), (Method::Put, "/live/a%20b.ts"));
        assert_eq!((request.headers.first("x"), request.headers.first("y")), (Some("1Y: 2"), None));
        assert_eq!(server.next(&mut input, Time::ZERO), Ok(Some(server::Event::Data(b"abc"))));
        assert_eq!(server.next(&mut input, Time::ZERO), Ok(Some(server::Event::End)));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(wire in proptest::collection::vec(any::<u8>(), 0..1000), cut in 0usize..1000) {
            let (first, second) = wire.split_at(cut.min(wire.len()));
            let _ = read(Method::Get, &[first, second]);
        }
    }
}
