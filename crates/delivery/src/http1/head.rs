//! What requests and responses have in common before their bodies.

use super::body::Framing;
use super::{HttpError, Limits};
use serde::{Deserialize, Serialize};

/// A request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Method {
    /// Read.
    Get,
    /// Read the head alone.
    Head,
    /// Write; here: publish.
    Put,
    /// Act, or publish.
    Post,
    /// Take away; here: what a publisher has put.
    Delete,
    /// Ask what may be done.
    Options,
    /// Any other.
    Other,
}

impl Method {
    pub(super) fn parse(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        }
    }

    /// The method's token.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Other => "other",
        }
    }
}

/// The protocol's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// HTTP/1.0: connections end unless asked to stay.
    Http10,
    /// HTTP/1.1: connections stay unless asked to end.
    Http11,
}

impl Version {
    pub(super) fn of(minor: Option<u8>) -> Version {
        if minor == Some(0) { Version::Http10 } else { Version::Http11 }
    }
}

/// Header fields in their order. Names compare without case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub(super) fn from_parsed(parsed: &[httparse::Header<'_>]) -> Headers {
        let field = |header: &httparse::Header<'_>| {
            (header.name.to_owned(), String::from_utf8_lossy(header.value).trim().to_owned())
        };
        Headers(parsed.iter().map(field).collect())
    }

    /// The first field of this name.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields, in order: names as they came, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All fields of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Whether the name of a field begins with `prefix`, without case.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        let begins =
            |name: &str| name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix));
        self.0.iter().any(|(name, _)| begins(name))
    }

    /// Puts one field of this name in place of all that there are.
    pub(super) fn replace(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Whether a comma-separated field of this name holds `token`, without case.
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name).flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    }

    /// Whether `Connection` names the field `name`, which then is between the two ends of one connection, whatever it says
    /// (RFC 9110 §7.6.1).
    pub fn is_of_connection(&self, name: &str) -> bool {
        self.has_token("connection", name)
    }

    /// The same with a field more.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Headers {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether the connection stays open after this exchange (RFC 9112 §9.3).
    pub(super) fn keeps_alive(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.has_token("connection", "close"),
            Version::Http10 => self.has_token("connection", "keep-alive"),
        }
    }

    /// The body's framing by length fields alone (RFC 9112 §6.3), or `None` without any.
    pub(super) fn framing(&self, version: Version) -> Result<Option<Framing>, HttpError> {
        let coded = self.first("transfer-encoding");
        let mut lengths = self.all("content-length").flat_map(|value| value.split(',')).map(str::trim);
        let length = lengths.next();
        if lengths.any(|other| Some(other) != length) {
            return Err(HttpError::AmbiguousLength("several Content-Length fields differ"));
        }
        match (coded, length) {
            (Some(_), Some(_)) => {
                Err(HttpError::AmbiguousLength("both Transfer-Encoding and Content-Length"))
            }
            (Some(_), None) if version == Version::Http10 => {
                Err(HttpError::AmbiguousLength("Transfer-Encoding in HTTP/1.0"))
            }
            (Some(coding), None)
                if coding.eq_ignore_ascii_case("chunked") && self.all("transfer-encoding").count() == 1 =>
            {
                Ok(Some(Framing::Chunked))
            }
            (Some(coding), None) => Err(HttpError::UnknownCoding(coding.chars().take(40).collect())),
            (None, Some(length))
                if !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit()) =>
            {
                let bytes =
                    length.parse().map_err(|_| HttpError::Malformed("Content-Length is too large".into()))?;
                Ok(Some(Framing::Length(bytes)))
            }
            (None, Some(_)) => Err(HttpError::Malformed("Content-Length is no number".into())),
            (None, None) => Ok(None),
        }
    }
}

/// A head and its length in bytes, once it is whole.
pub(super) type Parsed<T> = Result<Option<(usize, T)>, HttpError>;

/// Gathers a head that comes in pieces, up to a limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct HeadBuffer {
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

impl HeadBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes bytes from the front of `input` and tries `parse` on what is there. `parse` gives the head's
    /// length and value once it is whole; what follows the head stays in `input`.
    pub(super) fn take<T>(
        &mut self,
        input: &mut &[u8],
        limits: &Limits,
        parse: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<Option<T>, HttpError> {
        self.skip_empty_lines(input)?;
        let before = self.bytes.len();
        let room = limits.head_bytes.saturating_sub(before);
        let taken = &input[..room.min(input.len())];
        // A head ends with a line feed: without a new one there is nothing new to find.
        let maybe_whole = taken.contains(&b'\n');
        self.bytes.extend_from_slice(taken);
        if maybe_whole {
            let end = end_of_head(&self.bytes, before)?;
            // Only whole lines: half a one may be wrong already, but how much of it is here is the chop's doing.
            let last = self.bytes.iter().rposition(|byte| *byte == b'\n');
            let lines = last.map_or(0, |at| at.saturating_add(1));
            let head = &self.bytes[..end.unwrap_or(lines)];
            if let Some((length, head)) = parse(head)? {
                *input = &input[length.saturating_sub(before)..];
                // Most connections have said all that they will, and there may be very many: no room is kept for more.
                self.bytes = Vec::new();
                return Ok(Some(head));
            }
            if end.is_some() {
                return Err(HttpError::Malformed("an empty line stands where the head is not whole".into()));
            }
        }
        *input = &input[taken.len()..];
        if self.bytes.len() >= limits.head_bytes {
            return Err(HttpError::HeadTooLarge { limit: limits.head_bytes });
        }
        Ok(None)
    }

    /// Skips empty lines before a request line, as a server should (RFC 9112 §2.2). The carriage return of one may be the last
    /// byte that has come; it is kept then.
    fn skip_empty_lines(&mut self, input: &mut &[u8]) -> Result<(), HttpError> {
        loop {
            match (self.bytes.as_slice(), *input) {
                ([], [b'\r', b'\n', rest @ ..]) => *input = rest,
                ([b'\r'], [b'\n', rest @ ..]) => {
                    self.bytes.clear();
                    *input = rest;
                }
                ([], [b'\n', ..] | [b'\r', _, ..]) | ([b'\r'], [_, ..]) => {
                    return Err(HttpError::BareLineEnd);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Where the first head in `bytes` ends, once it is whole: behind its empty line. Only what stands at `from` and behind
/// it has not been looked at. A lenient reader and a strict one behind it would see two different messages where a line
/// feed alone ended a line, so that is an error.
fn end_of_head(bytes: &[u8], from: usize) -> Result<Option<usize>, HttpError> {
    for (at, _) in bytes.iter().enumerate().skip(from).filter(|(_, byte)| **byte == b'\n') {
        match &bytes[..at] {
            [.., b'\r', b'\n', b'\r'] => return Ok(at.checked_add(1)),
            [.., b'\r'] => {}
            _ => return Err(HttpError::BareLineEnd),
        }
    }
    Ok(None)
}

pub(super) fn malformed(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::TooManyHeaders,
        other => HttpError::Malformed(other.to_string()),
    }
}
