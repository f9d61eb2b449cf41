//! What of an object a request is for: conditions and ranges (RFC 9110 §13, §14), also while it grows (RFC 8673).

use super::object::Progress;
use crate::http1::Headers;
use thiserror::Error;

/// A last byte from this on means "up to the end, wherever that will be" (RFC 8673 §2.2).
const VERY_LARGE: u64 = 1 << 53;

/// What is to be sent of an object.
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
    /// What a request with `headers` wants of an object that has come as far as `progress`, whose head is known. Ranges of
    /// several parts, and units other than bytes, are passed over, as is allowed. A range without a last byte is passed over while
    /// the end is not known: an answer to it could not say what it holds.
    ///
    /// # Errors
    /// [`SelectionError::Unsatisfiable`].
    pub fn of(headers: &Headers, progress: &Progress) -> Result<Selection, SelectionError> {
        let head = progress.head.as_deref();
        let etag = head.and_then(|head| head.field("etag"));
        if let Some(known) = headers.first("if-none-match") {
            let same = |tag: &str| etag.is_some_and(|etag| weak(tag) == weak(etag));
            if known.trim() == "*" || known.split(',').any(|tag| same(tag.trim())) {
                return Ok(Selection::NotModified);
            }
        }
        let Some(range) = headers.first("range") else { return Ok(Selection::Whole) };
        // A part is joined only to the same bytes; dates are no proof of that.
        if let Some(condition) = headers.first("if-range")
            && etag.is_none_or(|etag| etag.starts_with("W/") || etag != condition.trim())
        {
            return Ok(Selection::Whole);
        }
        select(range, progress.total).unwrap_or(Ok(Selection::Whole))
    }
}

fn weak(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// `None` where the range is passed over.
fn select(range: &str, total: Option<u64>) -> Option<Result<Selection, SelectionError>> {
    let (unit, set) = range.trim().split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    if first.is_empty() {
        let suffix: u64 = number(last)?;
        let total = total?;
        if suffix == 0 || total == 0 {
            return Some(Err(SelectionError::Unsatisfiable { total }));
        }
        return Some(Ok(Selection::Part { from: total.saturating_sub(suffix), to: Some(total) }));
    }
    let from: u64 = number(first)?;
    let to = if last.is_empty() { None } else { Some(number(last)?.saturating_add(1)) };
    if to.is_some_and(|to| to <= from) {
        return None;
    }
    match total {
        Some(total) if from >= total => Some(Err(SelectionError::Unsatisfiable { total })),
        Some(total) => Some(Ok(Selection::Part { from, to: Some(to.unwrap_or(total).min(total)) })),
        None => match to? {
            to if to > VERY_LARGE - 1 => Some(Ok(Selection::Part { from, to: None })),
            to => Some(Ok(Selection::Part { from, to: Some(to) })),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::{Bytes, Head, Object};
    use crate::http1::server::{Event, Server};
    use crate::http1::{Limits, Method};
    use glassline_media::Time;
    use proptest::prelude::*;

    fn headers(fields: &str) -> Headers {
        let wire = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        match server.next(&mut wire.as_bytes(), Time::ZERO) {
            Ok(Some(Event::Request(request))) => {
                assert_eq!(request.method, Method::Get);
                request.headers
            }
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
        Selection::of(&headers(fields), progress)
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
        let part = Ok(Selection::Part { from: 1, to: Some(3) });
        assert_eq!(of("Range: bytes=1-2\r\nIf-Range: \"7\"\r\n", &whole), part);
        for condition in ["\"8\"", "W/\"7\"", "Tue, 24 Nov 2026 11:00:00 GMT"] {
            let fields = format!("Range: bytes=1-2\r\nIf-Range: {condition}\r\n");
            assert_eq!(of(&fields, &whole), Ok(Selection::Whole), "{condition}");
        }
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
