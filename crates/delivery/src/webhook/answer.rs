//! What a receiver answers: the status, and for how long it wants to be left alone. Of the body nothing is read.

use super::Outcome;
use crate::http1::client::{Client, Event, Head, Request};
use crate::http1::{HttpError, Limits, Method, parse_date};
use glassline_media::Utc;
use std::time::Duration;
use thiserror::Error;

/// What an answer may take until its head is whole, interim answers (1xx) included, of which a receiver could send any number.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why what has come is no answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AnswerError {
    /// It is no HTTP, has a head of more than 16 KiB, or ends before its head is whole.
    #[error("the answer cannot be read: {0}")]
    Http(#[from] HttpError),
    /// It goes on without end.
    #[error("the answer's head has more than {ANSWER_BYTES_MAX} bytes")]
    Endless,
}

/// Reads the answer to one message.
#[derive(Debug)]
pub struct AnswerReader {
    client: Client,
    received: usize,
}

impl Default for AnswerReader {
    fn default() -> AnswerReader {
        AnswerReader::new()
    }
}

impl AnswerReader {
    /// For the answer to a `POST`.
    pub fn new() -> AnswerReader {
        let client = Request::new(Method::Post, "receiver", "/").client(Limits::DEFAULT);
        AnswerReader { client, received: 0 }
    }

    /// Takes the next bytes of the connection, chopped anywhere. Returns the outcome once the head is whole: [`Outcome::Answered`];
    /// nothing is pushed behind it. A date in `Retry-After` is compared with `now`.
    ///
    /// # Errors
    /// [`AnswerError`]; the connection is of no use then. Holds at most as many bytes as a head may have.
    pub fn push(&mut self, bytes: &[u8], now: Utc) -> Result<Option<Outcome>, AnswerError> {
        let room = ANSWER_BYTES_MAX.saturating_sub(self.received);
        let mut input = bytes.get(..room).unwrap_or(bytes);
        self.received = self.received.saturating_add(input.len());
        if let Some(Event::Head(head)) = self.client.next(&mut input)? {
            return Ok(Some(outcome(&head, now)));
        }
        if self.received >= ANSWER_BYTES_MAX { Err(AnswerError::Endless) } else { Ok(None) }
    }

    /// The connection has ended, and there was no whole head.
    pub fn ended(&self) -> AnswerError {
        AnswerError::Http(HttpError::EndedEarly("before a response"))
    }
}

fn outcome(head: &Head, now: Utc) -> Outcome {
    let retry_after = head.headers.first("retry-after").and_then(|text| retry_after(text, now));
    Outcome::Answered { status: head.status, retry_after }
}

/// `Retry-After` in either form (RFC 9110 §10.2.3): seconds, or a date.
fn retry_after(text: &str, now: Utc) -> Option<Duration> {
    let now_s = now.as_nanos() / 1_000_000_000;
    let seconds = text.trim().parse().ok();
    let until = || parse_date(text).map(|date_s| date_s.saturating_sub(now_s));
    seconds.or_else(until).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Utc = Utc::from_nanos(784_111_770_000_000_000);

    /// Pushes `wire` in pieces of `chop` bytes.
    fn read(wire: &[u8], chop: usize) -> Result<Option<Outcome>, AnswerError> {
        let mut reader = AnswerReader::new();
        for piece in wire.chunks(chop) {
            if let Some(outcome) = reader.push(piece, NOW)? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    fn answered(status: u16, retry_after_s: Option<u64>) -> Result<Option<Outcome>, AnswerError> {
        let retry_after = retry_after_s.map(Duration::from_secs);
        Ok(Some(Outcome::Answered { status, retry_after }))
    }

    #[test]
    fn a_pause_is_told_in_seconds_or_as_a_date() {
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:20 GMT", Some(0)),
            ("", None),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
        ] {
            let wire = format!("HTTP/1.1 503 Later\r\nretry-after: {text}\r\n\r\n");
            assert_eq!(read(wire.as_bytes(), usize::MAX), answered(503, seconds), "{text}");
        }
    }

    #[test]
    fn the_first_head_that_is_no_interim_one_is_the_answer() {
        let wire = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(read(wire, 1), answered(204, None));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\nno end of it", usize::MAX), answered(200, None));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n", 3), Ok(None));
        assert!(matches!(AnswerReader::new().ended(), AnswerError::Http(HttpError::EndedEarly(_))));
        for bad in ["220 mail.example ESMTP\r\n", "HTTP/1.1 99 No\r\n\r\n", "HTTP/2 200\r\n\r\n"] {
            assert!(matches!(read(bad.as_bytes(), usize::MAX), Err(AnswerError::Http(_))), "{bad}");
        }
    }

    #[test]
    fn what_has_no_end_is_ended() {
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(5000);
        assert_eq!(read(&interim, 1000), Err(AnswerError::Endless));
        assert_eq!(read(&b"\r\n".repeat(40_000), usize::MAX), Err(AnswerError::Endless));
        let fields = [&b"HTTP/1.1 200 OK\r\n"[..], &b"X: y\r\n".repeat(20_000)].concat();
        assert!(matches!(read(&fields, 1000), Err(AnswerError::Http(_))));
        // A head that is whole with the last byte that is read is an answer, and one that is a byte longer is none.
        let lines = |count: usize| b"\r\n".repeat(count / 2);
        let whole = [&lines(ANSWER_BYTES_MAX - 20)[..], b"HTTP/1.1 200 Yes\r\n\r\n"].concat();
        assert_eq!((whole.len(), read(&whole, 100)), (ANSWER_BYTES_MAX, answered(200, None)));
        let longer = [&lines(ANSWER_BYTES_MAX - 20)[..], b"HTTP/1.1 200 Sure\r\n\r\n"].concat();
        assert_eq!(read(&longer, 100), Err(AnswerError::Endless));
        assert_eq!(read(&longer, usize::MAX), Err(AnswerError::Endless));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_however_they_are_chopped(
            parts in proptest::collection::vec(prop_oneof![
                Just(&b"HTTP/1.1 200 OK\r\n"[..]), Just(&b"HTTP/1.1 100 Go on\r\n\r\n"[..]),
                Just(&b"Retry-After: 17\r\n"[..]), Just(&b"Transfer-Encoding: chunked\r\n"[..]),
                Just(&b"\r\n"[..]), Just(&b"\n"[..]), Just(&b"\0"[..]), Just(&b"HTTP/1.0 503 "[..]),
            ], 0..12),
            other in proptest::collection::vec(any::<u8>(), 0..40), chop in 1usize..40,
        ) {
            let wire = [parts.concat(), other].concat();
            // What is wrong is told as far as it has come; that something is, always.
            prop_assert_eq!(read(&wire, chop).map_err(drop), read(&wire, usize::MAX).map_err(drop));
        }
    }
}
