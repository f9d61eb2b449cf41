//! How an object's bytes are laid into a connection (RFC 9112 §6, §7.1).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::object::Bytes;
use crate::http1::body::LAST_CHUNK;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Its length stands in the head.
    Length,
    /// It comes in chunks.
    Chunked,
    /// It ends with the connection: what clients of HTTP/1.0 understand.
    UntilClose,
}

impl Framing {
    /// Lays the next bytes of a body, `pieces` of `count` bytes in all, onto `out`. What arrived together leaves as one
    /// chunk.
    pub fn lay(self, pieces: impl IntoIterator<Item = Bytes>, count: u64, out: &mut Vec<Bytes>) {
        if self == Framing::Chunked && count > 0 {
            out.push(Bytes::from(format!("{count:x}\r\n")));
            out.extend(pieces);
            out.push(Bytes::from_static(b"\r\n"));
        } else {
            out.extend(pieces);
        }
    }

    /// Ends the body.
    pub fn end(self, out: &mut Vec<Bytes>) {
        if self == Framing::Chunked {
            out.push(Bytes::from_static(LAST_CHUNK));
        }
    }

    /// How a body of `length` bytes, if that is known, is laid for a client that understands chunks, or not.
    pub fn of(length: Option<u64>, understands_chunks: bool) -> Framing {
        match (length, understands_chunks) {
            (Some(_), _) => Framing::Length,
            (None, true) => Framing::Chunked,
            (None, false) => Framing::UntilClose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Limits;
    use crate::http1::Method;
    use crate::http1::client::{Event, Request};

    #[test]
    fn chunks_are_read_by_our_client() {
        let mut out = vec![Bytes::from_static(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")];
        for text in [&b"abc"[..], b"", &[7; 70_000]] {
            Framing::Chunked.lay([Bytes::copy_from_slice(text)], text.len() as u64, &mut out);
        }
        Framing::Chunked.end(&mut out);
        let (wire, mut body) = (out.concat(), Vec::new());
        let mut client = Request::new(Method::Get, "h", "/").client(Limits::DEFAULT);
        let mut input = &wire[..];
        loop {
            match client.next(&mut input).expect("good HTTP") {
                Some(Event::Head(_)) => {}
                Some(Event::Data(data)) => body.extend_from_slice(data),
                Some(Event::End) => break,
                None => panic!("it has no end"),
            }
        }
        assert_eq!(body, [&b"abc"[..], &[7; 70_000]].concat());
        assert!(input.is_empty());
    }
}
