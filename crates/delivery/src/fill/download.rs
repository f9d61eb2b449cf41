//! One object from its upstream servers, over as many exchanges as it takes.
//!
//! ```text
//! request ─► 200 ─► Begin, then bytes ─► whole
//!              └─ broken off after n bytes ─► request with Range: n- and If-Range ─► 206 from n ─► Resume
//!                                                                                └► 200 ─► Resume, n bytes passed over
//! ```
//! An object is put together from two answers only where both say by one strong entity tag that they are of the same bytes.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::object::{Failure, Head};
use super::selection::VERY_LARGE;
use crate::http1::client;

/// Fields of an answer that are between its two ends alone (RFC 9110 §7.6.1), or that we say ourselves.
const HOP_BY_HOP: [&str; 15] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-range",
    "server",
    "server-timing",
    "age",
    "set-cookie",
];

/// What comes of an answer's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object begins with this head, and has this many bytes, where that is told.
    Begin(Head, Option<u64>),
    /// It goes on; so many bytes of what comes are there already.
    Resume {
        /// Bytes to pass over.
        skip: u64,
    },
    /// What is known of it still holds.
    NotModified,
    /// This server cannot be used for it: the next one may.
    TryNext,
    /// What has come cannot be completed by anybody.
    Fail(Failure),
}

/// How far an object has come, and how to ask for the rest.
#[derive(Clone, Debug, Default)]
pub struct Download {
    /// The tag of what is known already, if that is asked about.
    known: Option<String>,
    /// The tag of what has begun.
    etag: Option<String>,
    has_begun: bool,
    /// Bytes that have come.
    filled: u64,
    total: Option<u64>,
}

impl Download {
    /// An object of which nothing is there; `known` is the entity tag of one that has grown stale.
    pub fn new(known: Option<&str>) -> Download {
        Download { known: known.map(str::to_owned), ..Download::default() }
    }

    /// An object whose first `filled` bytes are there from elsewhere, of `total`, under this entity tag.
    pub fn begun(etag: &str, filled: u64, total: u64) -> Download {
        let etag = Some(etag).filter(|etag| etag.starts_with('"')).map(str::to_owned);
        Download { known: None, etag, has_begun: true, filled, total: Some(total) }
    }

    /// Whether its head has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether a break can be mended by another request.
    pub fn can_resume(&self) -> bool {
        !self.has_begun || self.etag.is_some()
    }

    /// Fields of the next request.
    pub fn request_fields(&self) -> Vec<(&'static str, String)> {
        match (&self.etag, &self.known) {
            (Some(etag), _) if self.filled > 0 => {
                vec![("Range", format!("bytes={}-{VERY_LARGE}", self.filled)), ("If-Range", etag.clone())]
            }
            (_, Some(known)) if !self.has_begun => vec![("If-None-Match", known.clone())],
            _ => Vec::new(),
        }
    }

    /// Bytes that have come.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// `bytes` more of the object have come.
    pub fn took(&mut self, bytes: u64) {
        self.filled = self.filled.saturating_add(bytes);
    }

    /// What an answer's head comes to.
    pub fn handle_head(&mut self, head: &client::Head) -> Verdict {
        let headers = &head.headers;
        let strong = headers.first("etag").filter(|tag| tag.starts_with('"')).map(str::to_owned);
        let length = headers.first("content-length").and_then(|length| length.parse::<u64>().ok());
        if self.has_begun {
            if strong.is_none() || strong != self.etag {
                return if head.status >= 500 { Verdict::TryNext } else { Verdict::Fail(Failure::Upstream) };
            }
            return match head.status {
                206 if range_start(headers.first("content-range")) == Some(self.filled) => {
                    Verdict::Resume { skip: 0 }
                }
                200 => Verdict::Resume { skip: self.filled },
                _ => Verdict::TryNext,
            };
        }
        match head.status {
            304 if self.known.is_some() => return Verdict::NotModified,
            // Nobody asked for a part, or for what it knows.
            206 | 304 => return Verdict::Fail(Failure::Malformed),
            // A circle is the configuration's, and to be seen by who asks.
            508 => {}
            500.. => return Verdict::TryNext,
            _ => {}
        }
        (self.has_begun, self.etag, self.total) = (true, strong, length);
        let mut kept = Head::of_status(head.status);
        for (name, value) in headers.iter() {
            if !HOP_BY_HOP.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                kept = kept.with(name, value);
            }
        }
        Verdict::Begin(kept, length)
    }

    /// Whether all has come that was announced, where the connection, or the answer, has ended.
    pub fn is_whole(&self) -> bool {
        self.has_begun && self.total.is_none_or(|total| self.filled >= total)
    }
}

fn range_start(value: Option<&str>) -> Option<u64> {
    value?.trim().strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::client::{Event, Request};
    use crate::http1::{Limits, Method};

    fn head(status: u16, fields: &str) -> client::Head {
        let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        let mut client = Request::new(Method::Get, "h", "/").client(Limits::DEFAULT);
        match client.next(&mut wire.as_bytes()) {
            Ok(Some(Event::Head(head))) => *head,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_begins_without_what_concerns_its_connection() {
        let mut download = Download::new(None);
        assert!(download.request_fields().is_empty() && download.can_resume());
        let fields = "Content-Type: video/mp4\r\nETag: \"1\"\r\nConnection: close\r\nContent-Length: 5\r\nSet-Cookie: a\r\n";
        let Verdict::Begin(head, Some(5)) = download.handle_head(&head(200, fields)) else { panic!() };
        assert_eq!(head.lines().to_ascii_lowercase(), "content-type: video/mp4\r\netag: \"1\"\r\n");
    }

    #[test]
    fn what_broke_off_goes_on_where_it_is_the_same() {
        let mut begun = Download::new(None);
        begun.handle_head(&head(200, "ETag: \"1\"\r\n"));
        begun.took(7);
        let fields = begun.request_fields();
        assert_eq!(fields, [("Range", "bytes=7-9007199254740991".into()), ("If-Range", "\"1\"".to_owned())]);
        let verdict = |status, fields: &str| begun.clone().handle_head(&head(status, fields));
        let part = "ETag: \"1\"\r\nContent-Range: bytes 7-99/100\r\n";
        assert_eq!(verdict(206, part), Verdict::Resume { skip: 0 });
        assert_eq!(verdict(200, "ETag: \"1\"\r\n"), Verdict::Resume { skip: 7 });
        assert_eq!(verdict(206, "ETag: \"1\"\r\nContent-Range: bytes 5-99/100\r\n"), Verdict::TryNext);
        assert_eq!(verdict(200, "ETag: \"2\"\r\n"), Verdict::Fail(Failure::Upstream));
        assert_eq!(verdict(200, ""), Verdict::Fail(Failure::Upstream));
        assert_eq!(verdict(503, ""), Verdict::TryNext);
    }

    #[test]
    fn what_has_begun_elsewhere_goes_on_where_it_has_a_strong_tag() {
        let mut begun = Download::begun("\"1\"", 7, 100);
        let fields = begun.request_fields();
        assert_eq!(fields, [("Range", "bytes=7-9007199254740991".into()), ("If-Range", "\"1\"".to_owned())]);
        let part = head(206, "ETag: \"1\"\r\nContent-Range: bytes 7-99/100\r\n");
        assert_eq!(begun.handle_head(&part), Verdict::Resume { skip: 0 });
        begun.took(93);
        assert!(begun.is_whole() && begun.can_resume());
        assert!(!Download::begun("W/\"1\"", 7, 100).can_resume());
    }

    #[test]
    fn without_a_strong_tag_nothing_is_put_together() {
        for fields in ["", "ETag: W/\"1\"\r\n"] {
            let mut download = Download::new(None);
            download.handle_head(&head(200, fields));
            download.took(1);
            assert!(!download.can_resume(), "{fields}");
        }
    }

    #[test]
    fn what_is_stale_is_asked_about() {
        let mut download = Download::new(Some("\"1\""));
        assert_eq!(download.request_fields(), [("If-None-Match", "\"1\"".to_owned())]);
        assert_eq!(download.handle_head(&head(304, "")), Verdict::NotModified);
        assert_eq!(Download::new(None).handle_head(&head(304, "")), Verdict::Fail(Failure::Malformed));
        assert_eq!(Download::new(None).handle_head(&head(502, "")), Verdict::TryNext);
        assert!(matches!(Download::new(None).handle_head(&head(508, "")), Verdict::Begin(..)));
    }

    #[test]
    fn fewer_bytes_than_announced_are_not_whole() {
        let mut download = Download::new(None);
        assert!(!download.is_whole());
        download.handle_head(&head(200, "Content-Length: 5\r\n"));
        download.took(4);
        assert!(!download.is_whole());
        download.took(1);
        assert!(download.is_whole());
    }
}
