//! What of an object a request is for: conditions and ranges (RFC 9110 §13, §14), also while it grows (RFC 8673).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::object::Progress;
use crate::http1::server::Request;
use crate::http1::{ByteRange, Method, is_same, is_unchanged};
use thiserror::Error;

/// A last byte from this on means "up to the end, wherever that will be" (RFC 8673 §2.2).
pub const VERY_LARGE: u64 = (1 << 53) - 1;

/// The part of an object that the answer contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of it.
    Whole,
    /// Bytes `from` to before `to`; `to` is `None` where that is the end and it is not known where it will be.
    Part {
        /// The first byte.
        from: u64,
        /// Behind the last one.
        to: Option<u64>,
    },
    /// Nothing: the client has it already.
    NotModified,
}

/// Why nothing can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// The range begins behind the end, which is at `total`.
    #[error("the range begins behind the end, at byte {total}")]
    Unsatisfiable {
        /// Bytes of the object.
        total: u64,
    },
}

impl Selection {
    /// What `request` wants of an object that has come as far as `progress` and has its head already. Ranges of several parts,
    /// and units other than bytes, are ignored, as is allowed. A range without a last byte is ignored while the end is not known:
    /// an answer to it could not say which bytes it holds.
    ///
    /// # Errors
    /// [`SelectionError::Unsatisfiable`].
    pub fn of(request: &Request, progress: &Progress) -> Result<Selection, SelectionError> {
        let field = |name| progress.head.as_deref().and_then(|head| head.field(name));
        let etag = field("etag");
        if is_unchanged(&request.headers, etag, field("last-modified")) {
            return Ok(Selection::NotModified);
        }
        if request.method != Method::Get || !is_same(&request.headers, etag) {
            return Ok(Selection::Whole);
        }
        match (ByteRange::of(&request.headers), progress.total) {
            (None, _) => Ok(Selection::Whole),
            (Some(range), Some(total)) => {
                let range = range.within(total);
                if range.is_empty() {
                    return Err(SelectionError::Unsatisfiable { total });
                }
                Ok(Selection::Part { from: range.start, to: Some(range.end) })
            }
            (Some(ByteRange::Between(from, last)), None) => {
                let end = last.checked_add(1).filter(|_| last < VERY_LARGE);
                Ok(Selection::Part { from, to: end })
            }
            (Some(ByteRange::From(_) | ByteRange::Last(_)), None) => Ok(Selection::Whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::{Bytes, Head, Object};
    use crate::http1::Limits;
    use crate::http1::server::{Event, Server};
    use glassline_media::Time;
    use proptest::prelude::*;

    fn request(method: &str, fields: &str) -> Request {
        let wire = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        match server.next(&mut wire.as_bytes(), Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn object(bytes: usize, is_whole: bool) -> Progress {
        let mut object = Object::new();
        object.begin(Head::new("video/mp4").with("ETag", "\"7\""), None);
        object.append(Bytes::from(vec![0; bytes]));
        if is_whole {
            object.finish();
        }
        object.progress()
    }

    fn of(fields: &str, progress: &Progress) -> Result<Selection, SelectionError> {
        Selection::of(&request("GET", fields), progress)
    }

    #[test]
    fn ranges_of_what_is_whole() {
        let whole = object(100, true);
        let part = |from, to| Ok(Selection::Part { from, to: Some(to) });
        for (range, wanted) in [
            ("bytes=0-9", part(0, 10)),
            ("Bytes = 90-", part(90, 100)),
            ("bytes=90-400", part(90, 100)),
            ("bytes=-30", part(70, 100)),
            ("bytes=-300", part(0, 100)),
            ("bytes=100-", Err(SelectionError::Unsatisfiable { total: 100 })),
            ("bytes=-0", Err(SelectionError::Unsatisfiable { total: 100 })),
            ("bytes=9-3", Ok(Selection::Whole)),
            ("bytes=0-1,5-6", Ok(Selection::Whole)),
            ("seconds=0-1", Ok(Selection::Whole)),
            ("bytes=+1-2", Ok(Selection::Whole)),
            ("bytes=99999999999999999999-", Err(SelectionError::Unsatisfiable { total: 100 })),
        ] {
            assert_eq!(of(&format!("Range: {range}\r\n"), &whole), wanted, "{range}");
        }
    }

    #[test]
    fn ranges_of_what_still_grows() {
        let growing = object(100, false);
        let wanted = |from, to| Ok(Selection::Part { from, to });
        assert_eq!(of("Range: bytes=50-9007199254740991\r\n", &growing), wanted(50, None));
        assert_eq!(of("Range: bytes=500-599\r\n", &growing), wanted(500, Some(600)));
        for last in [u64::MAX - 1, u64::MAX] {
            assert_eq!(of(&format!("Range: bytes=0-{last}\r\n"), &growing), wanted(0, None));
        }
        assert_eq!(of("Range: bytes=0-99999999999999999999\r\n", &growing), wanted(0, None));
        assert_eq!(of("Range: bytes=50-\r\n", &growing), Ok(Selection::Whole));
        assert_eq!(of("Range: bytes=-50\r\n", &growing), Ok(Selection::Whole));
    }

    #[test]
    fn conditions() {
        let whole = object(100, true);
        for fields in
            ["If-None-Match: \"7\"\r\n", "If-None-Match: \"1\", W/\"7\"\r\n", "If-None-Match: *\r\n"]
        {
            assert_eq!(of(fields, &whole), Ok(Selection::NotModified), "{fields}");
        }
        assert_eq!(of("If-None-Match: \"8\"\r\n", &whole), Ok(Selection::Whole));
        let head = request("HEAD", "Range: bytes=1-2\r\n");
        assert_eq!(Selection::of(&head, &whole), Ok(Selection::Whole), "a head has no part");
        let part = Ok(Selection::Part { from: 1, to: Some(3) });
        assert_eq!(of("Range: bytes=1-2\r\nIf-Range: \"7\"\r\n", &whole), part);
        for condition in ["\"8\"", "W/\"7\"", "Tue, 24 Nov 2026 11:00:00 GMT"] {
            let fields = format!("Range: bytes=1-2\r\nIf-Range: {condition}\r\n");
            assert_eq!(of(&fields, &whole), Ok(Selection::Whole), "{condition}");
        }
    }

    #[test]
    fn a_time_is_a_condition_where_there_is_no_tag_in_the_request() {
        let changed = |at: &str| {
            let mut object = Object::new();
            object.begin(Head::new("video/mp4").with("ETag", "\"7\"").with("Last-Modified", at), None);
            object.append(Bytes::from(vec![0; 100]));
            object.finish();
            object.progress()
        };
        let whole = changed("Tue, 24 Nov 2026 10:00:00 GMT");
        for (since, known) in [
            ("Tue, 24 Nov 2026 10:00:00 GMT", true),
            ("Tue, 24 Nov 2026 10:00:01 GMT", true),
            ("Tuesday, 24-Nov-26 10:00:00 GMT", true),
            ("Tue Nov 24 10:00:00 2026", true),
            ("Tue, 24 Nov 2026 09:59:59 GMT", false),
            ("yesterday", false),
            ("0", false),
            ("", false),
        ] {
            let fields = format!("If-Modified-Since: {since}\r\n");
            let wanted = if known { Selection::NotModified } else { Selection::Whole };
            assert_eq!(of(&fields, &whole), Ok(wanted), "{since}");
            let head = request("HEAD", &fields);
            assert_eq!(Selection::of(&head, &whole), Ok(wanted), "{since}");
        }
        let since = "If-Modified-Since: Tue, 24 Nov 2026 10:00:00 GMT\r\n";
        let both = |tag: &str| of(&format!("{since}If-None-Match: {tag}\r\n"), &whole);
        assert_eq!(both("\"8\""), Ok(Selection::Whole), "the time does not count beside a tag");
        assert_eq!(both("\"7\""), Ok(Selection::NotModified));
        assert_eq!(of(&format!("{since}{since}"), &whole), Ok(Selection::Whole), "two are none");
        assert_eq!(of(&format!("{since}Range: bytes=1-2\r\n"), &whole), Ok(Selection::NotModified));
        for none in ["", "tomorrow"] {
            assert_eq!(of(since, &changed(none)), Ok(Selection::Whole), "{none}");
        }
        assert_eq!(of(since, &object(100, true)), Ok(Selection::Whole), "it does not say when it changed");
    }

    proptest! {
        #[test]
        fn a_part_lies_inside(range in "(bytes|x)=[0-9,-]{0,12}", bytes in 0usize..50, is_whole: bool) {
            let progress = object(bytes, is_whole);
            if let Ok(Selection::Part { from, to }) = of(&format!("Range: {range}\r\n"), &progress) {
                prop_assert!(to.is_none_or(|to| from < to));
                if let Some(total) = progress.total {
                    prop_assert!(from < total && to.is_some_and(|to| to <= total));
                }
            }
        }
    }
}
