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

use super::head::Head;
use super::object::Failure;
use super::selection::VERY_LARGE;
use super::status::is_of_request;
use crate::http1::{client, content_range_start, parse_date};

/// A longer entity tag is not sent back: the request has to fit into what servers take.
const ETAG_BYTES_MAX: usize = 1024;

/// A longer time of change is none.
const DATE_BYTES_MAX: usize = 64;

/// By what a server is asked whether an object that is known still holds (RFC 9111 §4.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// By its entity tag, which is sent in `If-None-Match`.
    Tag(String),
    /// By when it last changed, which is sent in `If-Modified-Since` as the server wrote it: it may compare texts.
    Modified(String),
}

impl Validator {
    /// That of an object with this head: its entity tag, or when it last changed where it has no tag that can be sent back.
    /// `None`: it cannot be asked about.
    pub fn of(head: &Head) -> Option<Validator> {
        let tag = head.field("etag").filter(|tag| !tag.is_empty() && tag.len() <= ETAG_BYTES_MAX);
        let modified = head.field("last-modified");
        let modified = modified.filter(|at| at.len() <= DATE_BYTES_MAX && parse_date(at).is_some());
        tag.map(|tag| Validator::Tag(tag.to_owned()))
            .or_else(|| modified.map(|at| Validator::Modified(at.to_owned())))
    }

    fn field(&self) -> (&'static str, String) {
        match self {
            Validator::Tag(tag) => ("If-None-Match", tag.clone()),
            Validator::Modified(at) => ("If-Modified-Since", at.clone()),
        }
    }

    /// Whether an answer of 304 with these fields is about what it stands for: one that speaks of another version says nothing
    /// of this one (RFC 9111 §4.3.4).
    fn is_meant(&self, etag: Option<&str>, modified: Option<&str>) -> bool {
        match self {
            Validator::Tag(known) => etag.is_none_or(|told| is_like(told, known)),
            Validator::Modified(known) => {
                modified.is_none_or(|told| told == known || parse_date(told) == parse_date(known))
            }
        }
    }
}

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
    /// No server can complete what has come.
    Fail(Failure),
}

/// How far an object has come, and how to ask for the rest.
#[derive(Clone, Debug, Default)]
pub struct Download {
    /// What is known already, if that is asked about.
    known: Option<Validator>,
    /// The tag of what has begun.
    etag: Option<String>,
    has_begun: bool,
    /// What is known already is of use where nothing better comes.
    has_spare: bool,
    /// The answer that has begun says something of the request rather than of the object.
    is_of_request: bool,
    /// Bytes that have come.
    filled: u64,
    total: Option<u64>,
}

impl Download {
    /// An object of which nothing is there; `known` is that of one that has grown stale.
    pub fn new(known: Option<Validator>) -> Download {
        Download { known, ..Download::default() }
    }

    /// The same, where what is known already may be given if nothing better comes. Then no answer takes its place that says
    /// something of the request alone ([`Download::is_of_request`]).
    #[must_use]
    pub fn with_spare(self, has_spare: bool) -> Download {
        Download { has_spare, ..self }
    }

    /// An object of `total` bytes under this entity tag, of which the first `filled` are there from elsewhere.
    pub fn begun(etag: &str, filled: u64, total: u64) -> Download {
        let etag = Some(etag).filter(|etag| etag.starts_with('"')).map(str::to_owned);
        Download { etag, has_begun: true, filled, total: Some(total), ..Download::default() }
    }

    /// Whether its head has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the answer that has begun says something of the request, or of how it was asked, rather than of the object: 400,
    /// 414, 429, 431 and their like. Only the requests that wait for it get it: it is not kept, and replaces nothing that is.
    pub fn is_of_request(&self) -> bool {
        self.is_of_request
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
            (_, Some(known)) if !self.has_begun => vec![known.field()],
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
        let etag = headers.first("etag").filter(|tag| tag.len() <= ETAG_BYTES_MAX);
        let strong = etag.filter(|tag| tag.starts_with('"')).map(str::to_owned);
        let length = headers.first("content-length").and_then(|length| length.parse::<u64>().ok());
        if self.has_begun {
            if strong.is_none() || strong != self.etag {
                return if head.status >= 500 { Verdict::TryNext } else { Verdict::Fail(Failure::Upstream) };
            }
            return match head.status {
                206 if content_range_start(headers) == Some(self.filled) => Verdict::Resume { skip: 0 },
                200 => Verdict::Resume { skip: self.filled },
                _ => Verdict::TryNext,
            };
        }
        match head.status {
            304 if self
                .known
                .as_ref()
                .is_some_and(|known| known.is_meant(etag, headers.first("last-modified"))) =>
            {
                return Verdict::NotModified;
            }
            // The request had no range (206), or no validator that the answer fits (304).
            206 | 304 => return Verdict::Fail(Failure::Malformed),
            // A loop is a fault of the configuration: the client gets this answer, and no other server is asked.
            508 => {}
            500.. => return Verdict::TryNext,
            _ => {}
        }
        self.is_of_request = is_of_request(head.status);
        if self.is_of_request && self.has_spare {
            return Verdict::Fail(Failure::Upstream);
        }
        (self.has_begun, self.etag, self.total) = (true, strong, length);
        Verdict::Begin(Head::of_answer(head.status, headers), length)
    }

    /// Whether all has come that was announced, where the connection, or the answer, has ended.
    pub fn is_whole(&self) -> bool {
        self.has_begun && self.total.is_none_or(|total| self.filled >= total)
    }
}

/// Whether two entity tags are of the same, by the weak comparison (RFC 9110 §8.8.3.2).
fn is_like(tag: &str, other: &str) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    opaque(tag) == opaque(other)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http1::client::{Event, Request};
    use crate::http1::{Limits, Method};

    fn tag(tag: &str) -> Option<Validator> {
        Some(Validator::Tag(tag.to_owned()))
    }

    /// The head of an answer with these lines behind its first one.
    pub(crate) fn answer(status: u16, fields: &str) -> client::Head {
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
        let Verdict::Begin(head, Some(5)) = download.handle_head(&answer(200, fields)) else { panic!() };
        assert_eq!(head.lines().to_ascii_lowercase(), "content-type: video/mp4\r\netag: \"1\"\r\n");
    }

    #[test]
    fn what_broke_off_goes_on_where_it_is_the_same() {
        let mut begun = Download::new(None);
        begun.handle_head(&answer(200, "ETag: \"1\"\r\n"));
        begun.took(7);
        let fields = begun.request_fields();
        assert_eq!(fields, [("Range", "bytes=7-9007199254740991".into()), ("If-Range", "\"1\"".to_owned())]);
        let verdict = |status, fields: &str| begun.clone().handle_head(&answer(status, fields));
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
        let part = answer(206, "ETag: \"1\"\r\nContent-Range: bytes 7-99/100\r\n");
        assert_eq!(begun.handle_head(&part), Verdict::Resume { skip: 0 });
        begun.took(93);
        assert!(begun.is_whole() && begun.can_resume());
        assert!(!Download::begun("W/\"1\"", 7, 100).can_resume());
    }

    #[test]
    fn without_a_strong_tag_nothing_is_put_together() {
        for fields in ["", "ETag: W/\"1\"\r\n"] {
            let mut download = Download::new(None);
            download.handle_head(&answer(200, fields));
            download.took(1);
            assert!(!download.can_resume(), "{fields}");
        }
    }

    #[test]
    fn what_is_stale_is_asked_about() {
        let mut download = Download::new(tag("\"1\""));
        assert_eq!(download.request_fields(), [("If-None-Match", "\"1\"".to_owned())]);
        assert_eq!(download.handle_head(&answer(304, "")), Verdict::NotModified);
        assert_eq!(Download::new(None).handle_head(&answer(304, "")), Verdict::Fail(Failure::Malformed));
        assert_eq!(Download::new(None).handle_head(&answer(502, "")), Verdict::TryNext);
        assert!(matches!(Download::new(None).handle_head(&answer(508, "")), Verdict::Begin(..)));
    }

    #[test]
    fn what_another_version_is_said_of_does_not_still_hold() {
        for (told, holds) in [("\"1\"", true), ("W/\"1\"", true), ("\"2\"", false), ("W/\"2\"", false)] {
            let verdict = Download::new(tag("\"1\"")).handle_head(&answer(304, &format!("ETag: {told}\r\n")));
            assert_eq!(verdict == Verdict::NotModified, holds, "{told}");
        }
        let modified = || Some(Validator::Modified("Tue, 24 Nov 2026 10:00:00 GMT".to_owned()));
        for (told, holds) in [
            ("", true),
            ("Last-Modified: Tue, 24 Nov 2026 10:00:00 GMT\r\n", true),
            ("Last-Modified: Tuesday, 24-Nov-26 10:00:00 GMT\r\n", true),
            ("Last-Modified: Tue, 24 Nov 2026 10:00:01 GMT\r\n", false),
        ] {
            let verdict = Download::new(modified()).handle_head(&answer(304, told));
            assert_eq!(verdict == Verdict::NotModified, holds, "{told}");
        }
    }

    #[test]
    fn what_has_no_tag_is_asked_about_by_when_it_changed() {
        let at = "Tue, 24 Nov 2026 10:00:00 GMT";
        let of = |fields: &str| Validator::of(&Head::of_answer(200, &answer(200, fields).headers));
        let modified = format!("Last-Modified: {at}\r\n");
        assert_eq!(of(&modified), Some(Validator::Modified(at.to_owned())));
        assert_eq!(Download::new(of(&modified)).request_fields(), [("If-Modified-Since", at.to_owned())]);
        assert_eq!(of(&format!("ETag: W/\"1\"\r\n{modified}")), tag("W/\"1\""), "a tag is worth more");
        // The request has to fit.
        let long = format!("ETag: \"{}\"\r\n", "x".repeat(2000));
        assert_eq!(of(&long), None);
        assert_eq!(of(&format!("{long}{modified}")), Some(Validator::Modified(at.to_owned())));
        for none in ["", "Last-Modified: yesterday\r\n", "Last-Modified: 0\r\n", "ETag: \r\n"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn an_object_that_was_asked_about_by_its_time_and_has_changed_begins_anew() {
        let mut download =
            Download::new(Some(Validator::Modified("Tue, 24 Nov 2026 10:00:00 GMT".to_owned())));
        let begun = download.handle_head(&answer(200, "Content-Length: 5\r\n"));
        assert!(matches!(begun, Verdict::Begin(_, Some(5))), "{begun:?}");
    }

    #[test]
    fn what_a_request_has_caused_takes_no_good_objects_place() {
        for status in [400, 408, 413, 414, 416, 417, 421, 425, 426, 429, 431, 508] {
            let mut alone = Download::new(None);
            assert!(matches!(alone.handle_head(&answer(status, "")), Verdict::Begin(..)), "{status}");
            assert!(alone.is_of_request() && alone.has_begun());
            let mut spared = Download::new(tag("\"1\"")).with_spare(true);
            assert_eq!(spared.handle_head(&answer(status, "")), Verdict::Fail(Failure::Upstream), "{status}");
            assert!(!spared.has_begun());
        }
        for status in [200, 302, 403, 404, 410] {
            let mut new = Download::new(tag("\"1\"")).with_spare(true);
            assert!(matches!(new.handle_head(&answer(status, "")), Verdict::Begin(..)), "{status}");
            assert!(!new.is_of_request());
        }
    }

    #[test]
    fn fewer_bytes_than_announced_are_not_whole() {
        let mut download = Download::new(None);
        assert!(!download.is_whole());
        download.handle_head(&answer(200, "Content-Length: 5\r\n"));
        download.took(4);
        assert!(!download.is_whole());
        download.took(1);
        assert!(download.is_whole());
    }
}
