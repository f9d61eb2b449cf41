//! Messages and interleaved packets in one stream of bytes (RFC 2326 §4 to §7, §10.12).
//!
//! ```text
//! RTSP/1.0 200 OK ⏎ Name: value ⏎ … ⏎ ⏎ [body of Content-Length bytes]
//! METHOD rtsp://… RTSP/1.0 ⏎ …
//! $ │ channel:8 │ length:16 │ a packet of RTP or RTCP
//! ```
//! Cameras end lines with a single `\n`, write lines without a colon, and now and then bytes between messages that belong to
//! nothing: these are skipped up to a bound, to where a message or a packet begins.

use std::fmt::Write;
use thiserror::Error;

/// Bytes of a message's head at most.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Bytes of a message's body at most: a description has 64 KiB.
pub const BODY_BYTES_MAX: usize = 128 << 10;
/// Headers of a message at most.
const HEADERS_MAX: usize = 100;
/// Bytes that are skipped at most until something begins that is understood.
const SKIPPED_MAX: usize = 256 << 10;
/// The longest that may stand in front of what ends a request's first line: a method.
const METHOD_BYTES_MAX: usize = 32;

/// Why a stream of bytes cannot be read on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// A head without end.
    #[error("a message's head has more than {HEAD_BYTES_MAX} bytes or {HEADERS_MAX} lines")]
    Head,
    /// A body that is too large.
    #[error("a message's body has {0} bytes: at most {BODY_BYTES_MAX} are taken")]
    Body(usize),
    /// A first line that is none of RTSP 1.0.
    #[error("{0:?} begins no message of RTSP 1.0")]
    Line(String),
    /// Too much that is understood by nothing.
    #[error("{SKIPPED_MAX} bytes without a message or a packet: this is no RTSP")]
    Noise,
}

/// The lines behind the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The first value of a name, whatever its case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Adds one. Line ends in the value would begin another header: they become spaces.
    pub fn push(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into().replace(['\r', '\n'], " ");
        self.0.push((name.to_owned(), value));
    }

    /// `CSeq`.
    pub fn sequence(&self) -> Option<u32> {
        self.get("CSeq")?.trim().parse().ok()
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `OPTIONS`, …, as it is written.
    pub method: String,
    /// The address, or `*`.
    pub uri: String,
    /// Its headers, without those of its body.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Three digits.
    pub status: u16,
    /// What stands behind them.
    pub reason: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// One without headers and body.
    pub fn new(method: &str, uri: &str) -> Request {
        Request {
            method: method.to_owned(),
            uri: uri.to_owned(),
            headers: Headers::default(),
            body: Vec::new(),
        }
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        write_message(&format!("{} {} RTSP/1.0", self.method, self.uri), &self.headers, &self.body)
    }
}

impl Response {
    /// One to a request with the number `sequence`.
    pub fn new(status: u16, reason: &str, sequence: Option<u32>) -> Response {
        let mut headers = Headers::default();
        if let Some(sequence) = sequence {
            headers.push("CSeq", sequence.to_string());
        }
        Response { status, reason: reason.to_owned(), headers, body: Vec::new() }
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        write_message(&format!("RTSP/1.0 {} {}", self.status, self.reason), &self.headers, &self.body)
    }
}

fn write_message(first: &str, headers: &Headers, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{first}\r\n");
    for (name, value) in &headers.0 {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if !body.is_empty() {
        let _ = write!(text, "Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A packet between messages.
pub fn write_interleaved(channel: u8, packet: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(packet.len()).ok()?;
    let mut bytes = Vec::with_capacity(packet.len().saturating_add(4));
    bytes.extend_from_slice(&[b'$', channel]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(packet);
    Some(bytes)
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A request of the other side.
    Request(Request),
    /// A response.
    Response(Response),
    /// A packet of a channel.
    Packet {
        /// The channel.
        channel: u8,
        /// The packet.
        data: Vec<u8>,
    },
}

/// What stands at the beginning of the bytes that are held.
enum Start {
    Message,
    Packet,
    /// Nothing that is known: so many bytes may be skipped.
    Noise(usize),
    Incomplete,
}

/// Takes bytes as they come, and gives what is whole. Holds at most a message's head and body, or a packet.
#[derive(Debug, Default)]
pub struct Parser {
    held: Vec<u8>,
    /// What of it is done with.
    done: usize,
    /// Where the search for the end of a head goes on.
    searched: usize,
    /// Bytes of a message that lacks a part of its body; less is not looked at again.
    wanted: usize,
    skipped: usize,
    skipped_in_all: u64,
}

impl Parser {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.done > 0 {
            self.held.drain(..self.done);
            self.done = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// Bytes that are held and were not read yet.
    pub fn held_bytes(&self) -> usize {
        self.held.len().saturating_sub(self.done)
    }

    /// Bytes that belonged to nothing.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_in_all
    }

    /// The next message or packet; `None` where more bytes are needed.
    ///
    /// # Errors
    /// [`MessageError`]; the stream cannot be read on then.
    pub fn poll(&mut self) -> Result<Option<Incoming>, MessageError> {
        loop {
            let held = self.held.get(self.done..).unwrap_or_default();
            match start(held) {
                Start::Incomplete => return Ok(None),
                Start::Noise(bytes) => {
                    self.done = self.done.saturating_add(bytes);
                    self.skipped = self.skipped.saturating_add(bytes);
                    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                    self.skipped_in_all = self.skipped_in_all.saturating_add(bytes);
                    if self.skipped > SKIPPED_MAX {
                        return Err(MessageError::Noise);
                    }
                }
                Start::Packet => return Ok(self.packet()),
                Start::Message => return self.message(),
            }
        }
    }

    fn packet(&mut self) -> Option<Incoming> {
        let held = self.held.get(self.done..)?;
        let (&[_, channel, high, low], rest) = held.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let data = rest.get(..length)?.to_vec();
        self.advance(length.saturating_add(4));
        Some(Incoming::Packet { channel, data })
    }

    fn advance(&mut self, bytes: usize) {
        self.done = self.done.saturating_add(bytes);
        (self.searched, self.wanted, self.skipped) = (0, 0, 0);
    }

    fn message(&mut self) -> Result<Option<Incoming>, MessageError> {
        let held = self.held.get(self.done..).unwrap_or_default();
        if held.len() < self.wanted {
            return Ok(None);
        }
        let Some(end) = head_end(held, self.searched) else {
            if held.len() > HEAD_BYTES_MAX {
                return Err(MessageError::Head);
            }
            self.searched = held.len().saturating_sub(3);
            return Ok(None);
        };
        if end > HEAD_BYTES_MAX {
            return Err(MessageError::Head);
        }
        self.searched = end.saturating_sub(4);
        let text: String = match std::str::from_utf8(held.get(..end).unwrap_or_default()) {
            Ok(text) => text.to_owned(),
            // Older devices have Latin-1.
            Err(_) => held.iter().take(end).copied().map(char::from).collect(),
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().trim().to_owned();
        let headers = read_headers(lines)?;
        let length = headers.get("Content-Length").and_then(|value| value.trim().parse::<usize>().ok());
        let length = length.unwrap_or(0);
        if length > BODY_BYTES_MAX {
            return Err(MessageError::Body(length));
        }
        self.wanted = end.saturating_add(length);
        let Some(body) = held.get(end..self.wanted) else { return Ok(None) };
        let body = body.to_vec();
        self.advance(end.saturating_add(length));
        incoming(&first, headers, body).map(Some)
    }
}

fn start(held: &[u8]) -> Start {
    match held {
        [] => Start::Incomplete,
        [b'$', ..] => Start::Packet,
        // Blank lines may stand between messages (RFC 2326 §4.1 by HTTP's rules).
        [b'\r' | b'\n', ..] => Start::Noise(1),
        _ => {
            // A response begins with the protocol's name, and a request has its name behind method and address: both begin with a
            // word in capitals.
            let word = held.iter().take(METHOD_BYTES_MAX).take_while(|byte| is_of_method(**byte)).count();
            match held.get(word) {
                Some(b' ') if word > 0 => Start::Message,
                Some(b'/') if held.starts_with(b"RTSP/") => Start::Message,
                None if word > 0 && word < METHOD_BYTES_MAX => Start::Incomplete,
                _ => {
                    let next = held.iter().skip(1).position(|byte| matches!(byte, b'$' | b'R'));
                    Start::Noise(next.map_or(held.len(), |next| next.saturating_add(1)))
                }
            }
        }
    }
}

fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'_'
}

/// Where the body begins, if the end of the head has come.
fn head_end(held: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = held.get(at..)?.iter().position(|byte| *byte == b'\n')?;
        at = at.saturating_add(found).saturating_add(1);
        match held.get(at..)? {
            [b'\n', ..] => return Some(at.saturating_add(1)),
            [b'\r', b'\n', ..] => return Some(at.saturating_add(2)),
            _ => {}
        }
    }
}

fn read_headers<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Headers, MessageError> {
    let mut headers = Headers::default();
    for line in lines {
        if line.trim().is_empty() {
            continue;
        }
        if headers.0.len() >= HEADERS_MAX {
            return Err(MessageError::Head);
        }
        let goes_on = line.starts_with([' ', '\t']);
        if let Some((_, value)) = headers.0.last_mut().filter(|_| goes_on) {
            // RFC 2326 §15.
            value.push(' ');
            value.push_str(line.trim());
        } else if let Some((name, value)) = line.split_once(':') {
            headers.0.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(headers)
}

fn incoming(first: &str, headers: Headers, body: Vec<u8>) -> Result<Incoming, MessageError> {
    let refuse = || MessageError::Line(first.chars().take(60).collect());
    if let Some(rest) = first.strip_prefix("RTSP/") {
        let mut words = rest.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(|status| status.trim().parse().ok());
        let status = status.filter(|status| version.starts_with("1.") && (100..1000).contains(status));
        let reason = words.next().unwrap_or_default().trim().to_owned();
        let status = status.ok_or_else(refuse)?;
        return Ok(Incoming::Response(Response { status, reason, headers, body }));
    }
    let mut words = first.split_ascii_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(uri), Some(version), None) if version.starts_with("RTSP/1.") => {
            let (method, uri) = (method.to_owned(), uri.to_owned());
            Ok(Incoming::Request(Request { method, uri, headers, body }))
        }
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(parser: &mut Parser) -> Vec<Incoming> {
        std::iter::from_fn(|| parser.poll().unwrap()).collect()
    }

    #[test]
    fn messages_and_packets_come_in_pieces_of_any_size() {
        let mut stream = b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 5\r\n\r\nv=0\r\n".to_vec();
        stream.extend(write_interleaved(3, b"pack$t").unwrap());
        stream.extend(b"OPTIONS * RTSP/1.0\nCSeq: 7\n\n");
        for size in 1..stream.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                parser.push(piece);
                found.extend(all(&mut parser));
            }
            let [Incoming::Response(response), packet, Incoming::Request(request)] = &found[..] else {
                panic!("{found:?}")
            };
            assert_eq!((response.status, response.headers.sequence()), (200, Some(2)));
            assert_eq!(response.body, b"v=0\r\n");
            assert_eq!(*packet, Incoming::Packet { channel: 3, data: b"pack$t".to_vec() });
            assert_eq!((request.method.as_str(), request.headers.sequence()), ("OPTIONS", Some(7)));
            assert_eq!(parser.skipped_bytes(), 0);
        }
    }

    #[test]
    fn what_belongs_to_nothing_is_skipped_up_to_a_bound() {
        let mut parser = Parser::default();
        parser.push(&[&[0, 1, 2, 3][..], b"\r\nRTSP/1.0 200\r\n\r\n"].concat());
        let found = all(&mut parser);
        assert!(matches!(&found[..], [Incoming::Response(Response { status: 200, .. })]), "{found:?}");
        assert_eq!(parser.skipped_bytes(), 6);
        let mut noise = Parser::default();
        let failed = (0..1000).find_map(|_| {
            noise.push(&[1; 1000]);
            noise.poll().err()
        });
        assert_eq!(failed, Some(MessageError::Noise));
    }

    #[test]
    fn heads_and_bodies_have_bounds() {
        let failure = |bytes: &[u8]| {
            let mut parser = Parser::default();
            parser.push(bytes);
            parser.poll()
        };
        let long = [&b"RTSP/1.0 200 OK\r\nA: "[..], &[b'a'; HEAD_BYTES_MAX]].concat();
        assert_eq!(failure(&long), Err(MessageError::Head));
        let many = format!("RTSP/1.0 200 OK\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(failure(many.as_bytes()), Err(MessageError::Head));
        let large = b"RTSP/1.0 200 OK\r\nContent-Length: 999999\r\n\r\n";
        assert_eq!(failure(large), Err(MessageError::Body(999_999)));
        for line in ["RTSP/2.0 200 OK", "RTSP/1.0 x", "GET / HTTP/1.1", "OPTIONS"] {
            assert!(
                matches!(failure(format!("{line} \r\n\r\n").as_bytes()), Err(MessageError::Line(_))),
                "{line}"
            );
        }
    }

    #[test]
    fn lines_that_go_on_and_lines_without_a_colon_are_read() {
        let mut parser = Parser::default();
        parser.push(b"RTSP/1.0 200 OK\r\nnonsense\r\nPublic: OPTIONS,\r\n PLAY\r\ncseq:1\r\n\r\n");
        let found = all(&mut parser);
        let [Incoming::Response(response)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(response.headers.get("public"), Some("OPTIONS, PLAY"));
        assert_eq!(response.headers.sequence(), Some(1));
    }

    #[test]
    fn a_value_cannot_begin_another_header() {
        let mut request = Request::new("PLAY", "rtsp://h/");
        request.headers.push("User-Agent", "a\r\nEvil: b");
        assert_eq!(request.write(), b"PLAY rtsp://h/ RTSP/1.0\r\nUser-Agent: a  Evil: b\r\n\r\n");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_are_kept_without_bound(
            pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"RTSP/1.0 2\r\n:$A\x00\x01".to_vec()), 0..80), 0..30),
        ) {
            let mut parser = Parser::default();
            for piece in &pieces {
                parser.push(piece);
                while let Ok(Some(_)) = parser.poll() {}
            }
            prop_assert!(parser.held.len() <= pieces.iter().map(Vec::len).sum());
        }

        #[test]
        fn messages_survive(method in "[A-Z_]{1,20}", uri in "rtsp://[a-z/]{1,20}", value in "[ -~]{0,30}", body in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut request = Request::new(&method, &uri);
            request.headers.push("X", value.trim());
            request.body = body;
            let mut parser = Parser::default();
            parser.push(&request.write());
            let Some(Incoming::Request(again)) = parser.poll().unwrap() else { panic!() };
            prop_assert_eq!(again.headers.get("X"), request.headers.get("X"));
            prop_assert_eq!((again.method, again.uri, again.body), (request.method, request.uri, request.body));
        }
    }
}
