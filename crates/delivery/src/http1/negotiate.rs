//! What of a representation a client wants (RFC 9110): a coding (§12.5.3), nothing where it has it already (§13),
//! or a part (§14).

use super::server::Request;
use super::{Headers, Method, Response, parse_date, problem};
use std::ops::Range;

/// The content coding among `available` in which to send a body rather than as it is, if there is one: the client has
/// to ask for it, at least as much as for the body as it is (RFC 9110 §12.5.3). Of those that it wants most, the first.
/// Without the field, which allows anything, nothing is asked for.
pub fn preferred_coding<'a>(headers: &Headers, available: &[&'a str]) -> Option<&'a str> {
    let weight_of = |wanted: &str| {
        let values = headers.all("accept-encoding").flat_map(|value| value.split(','));
        // Equivalent names of old (RFC 9110 §8.4.1.3).
        let plain = |name: &str| name.strip_prefix("x-").unwrap_or(name).eq_ignore_ascii_case(wanted);
        values.filter_map(weighted).find(|(name, _)| plain(name)).map(|(_, weight)| weight)
    };
    let (of_identity, of_others) = (weight_of("identity").unwrap_or(0), weight_of("*"));
    let mut best: Option<(&str, u16)> = None;
    for coding in available {
        // What is not named stands behind everything that is.
        let weight = weight_of(coding).or(of_others).unwrap_or(0);
        if weight > 0 && weight >= of_identity && best.is_none_or(|(_, known)| weight > known) {
            best = Some((coding, weight));
        }
    }
    best.map(|(coding, _)| coding)
}

/// An element of a list with its weight in thousandths; `None` for what is not one (RFC 9110 §12.4.2).
fn weighted(element: &str) -> Option<(&str, u16)> {
    let mut parts = element.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('='));
    Some((name, weight.map_or(Some(1000), |weight| thousandths(weight.trim()))?))
}

/// `0.125` is 125.
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, rest) = weight.split_once('.').unwrap_or((weight, ""));
    let are_digits = rest.bytes().all(|digit| digit.is_ascii_digit());
    let whole = match whole {
        "0" => 0,
        "1" => 1000,
        _ => return None,
    };
    if rest.len() > 3 || !are_digits {
        return None;
    }
    let rest = format!("{rest:0<3}").parse::<u16>().ok()?;
    rest.checked_add(whole).filter(|weight| *weight <= 1000)
}

/// Whether the client has the representation with this entity tag already (RFC 9110 §13.1.2, weak comparison).
pub(crate) fn is_known(headers: &Headers, etag: &str) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let mut tags = headers.all("if-none-match").flat_map(|tags| tags.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || opaque(tag) == opaque(etag))
}

/// Whether the client has the representation already that has this entity tag and that was changed at `modified`, if these are
/// told. Where it names entity tags, times do not count (RFC 9110 §13.1.3); nor does a field that is no time, or that is there
/// twice.
pub(crate) fn is_unchanged(headers: &Headers, etag: Option<&str>, modified: Option<&str>) -> bool {
    if headers.first("if-none-match").is_some() {
        return etag.is_some_and(|etag| is_known(headers, etag));
    }
    let mut fields = headers.all("if-modified-since");
    let (Some(since), None) = (fields.next(), fields.next()) else { return false };
    let times = modified.and_then(parse_date).zip(parse_date(since));
    times.is_some_and(|(modified, since)| modified <= since)
}

/// What a `Range` field asks for (RFC 9110 §14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From this byte to that one.
    Between(u64, u64),
    /// From this byte to the end.
    From(u64),
    /// So many bytes before the end.
    Last(u64),
}

impl ByteRange {
    /// The range that `headers` ask for; `None` where they ask for all: there is no such field, or one that a server ignores.
    pub(crate) fn of(headers: &Headers) -> Option<ByteRange> {
        let mut fields = headers.all("range");
        let (Some(field), None) = (fields.next(), fields.next()) else { return None };
        let range = field.split_once('=').filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
        // Several parts would need a multipart answer; a server may ignore that wish (RFC 9110 §14.2).
        let (first, last) = range.and_then(|(_, range)| range.trim().split_once('-'))?;
        let number = |text: &str| {
            let are_digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            // What does not fit lies beyond every end.
            are_digits.then(|| text.parse().unwrap_or(u64::MAX))
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Some(ByteRange::Between(first, last)),
            (Some(first), None) if last.is_empty() => Some(ByteRange::From(first)),
            (None, Some(last)) if first.is_empty() => Some(ByteRange::Last(last)),
            _ => None,
        }
    }

    /// Which of `length` bytes these are; none where there are no such bytes.
    pub(crate) fn within(self, length: u64) -> Range<u64> {
        match self {
            ByteRange::Between(first, last) => first..last.saturating_add(1).min(length),
            ByteRange::From(first) => first..length,
            ByteRange::Last(count) => length.saturating_sub(count)..length,
        }
    }
}

/// The first byte of the part that a message with these fields has (RFC 9110 §14.4; §14.5 of one that is put). `None`: it does
/// not say.
pub fn content_range_start(headers: &Headers) -> Option<u64> {
    let range = headers.first("content-range")?.trim().strip_prefix("bytes ")?;
    range.split_once('-')?.0.trim().parse().ok()
}

/// Whether a part is of the representation that the client has a part of already (RFC 9110 §13.1.5, strong
/// comparison). A date is none that we gave.
pub(crate) fn is_same(headers: &Headers, etag: Option<&str>) -> bool {
    headers.first("if-range").is_none_or(|known| Some(known) == etag && !known.starts_with("W/"))
}

impl Response {
    /// The answer to `request`, where the whole answer is `self`: `304` where the client has it already, `206` with a part,
    /// `416`, or `self`. The bytes of the body are shared, not copied.
    pub fn for_request(mut self, request: &Request) -> Response {
        if self.status != 200 || !matches!(request.method, Method::Get | Method::Head) {
            return self;
        }
        let field =
            |name| self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        let (etag, modified) = (field("ETag"), field("Last-Modified"));
        if is_unchanged(&request.headers, etag.as_deref(), modified.as_deref()) {
            self.status = 304;
            self.body.clear();
            self.headers.retain(|(name, _)| !matches!(*name, "Content-Type" | "Content-Encoding"));
            return self;
        }
        if request.method != Method::Get || !is_same(&request.headers, etag.as_deref()) {
            return self;
        }
        let length = self.body.len() as u64;
        let Some(range) = ByteRange::of(&request.headers) else { return self };
        let range = range.within(length);
        if range.is_empty() {
            return unsatisfiable(length);
        }
        let told = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
        // Both are at most the body's length, which memory holds.
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        self.status = 206;
        self.body = self.body.slice(place(range.start)..place(range.end));
        self.with_header("Content-Range", told)
    }
}

/// The answer to a request for bytes that there are not, of `length` ones (RFC 9110 §15.5.17).
pub fn unsatisfiable(length: u64) -> Response {
    let words = "Ask for a range that begins within the length that Content-Range tells.";
    problem(416, "there are no such bytes", words).with_header("Content-Range", format!("bytes */{length}"))
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::super::server::{Event, Server};
    use super::*;
    use glassline_media::Time;
    use proptest::prelude::*;

    fn request(method: &str, fields: &str) -> Request {
        let wire = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut input = wire.as_bytes();
        match Server::new(Limits::DEFAULT, Time::ZERO).next(&mut input, Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn prefers_gzip(value: &str) -> bool {
        preferred(value, &["gzip"]).is_some()
    }

    fn preferred(value: &str, available: &[&'static str]) -> Option<&'static str> {
        preferred_coding(&request("GET", &format!("Accept-Encoding: {value}\r\n")).headers, available)
    }

    #[test]
    fn codings_are_weighed() {
        for yes in [
            "gzip",
            "GZIP",
            "x-gzip",
            "deflate, gzip;q=1.0",
            "*",
            "gzip;q=0.001",
            "br, gzip; Q=0.5, *;q=0",
            "identity;q=0.5, gzip;q=0.5",
            "gzip ; q = 0.8",
            "gzip,,",
            "*;q=0.2, identity;q=0",
        ] {
            assert!(prefers_gzip(yes), "{yes}");
        }
        for no in [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip;q=0.000",
            "*;q=0",
            "gzip;q=0, *",
            "gzip;q=2",
            "gzip;q=0.1234",
            "gzip;q=x",
            "gzip;q=-1",
            "identity, gzip;q=0.9",
            "gzipp",
            "gzip;q=1.001",
        ] {
            assert!(!prefers_gzip(no), "{no}");
        }
        assert_eq!(preferred_coding(&request("GET", "").headers, &["br", "gzip"]), None);
    }

    #[test]
    fn of_several_codings_the_one_that_is_wanted_most_is_chosen() {
        for (value, expected) in [
            ("gzip, br", Some("br")),
            ("br;q=0.5, gzip;q=0.6", Some("gzip")),
            ("gzip;q=0.6, br;q=0.6", Some("br")),
            ("gzip", Some("gzip")),
            ("*", Some("br")),
            ("br;q=0, *", Some("gzip")),
            ("*;q=0.1, gzip;q=0.2", Some("gzip")),
            ("br;q=0.5, gzip, identity;q=0.7", Some("gzip")),
            ("br;q=0.5, gzip;q=0.6, identity", None),
            ("zstd, deflate", None),
        ] {
            assert_eq!(preferred(value, &["br", "gzip"]), expected, "{value}");
        }
        assert_eq!(preferred("*", &[]), None);
    }

    fn whole() -> Response {
        Response::ok("text/plain", "0123456789").with_header("ETag", "\"a\"")
    }

    fn answer(method: &str, fields: &str) -> (u16, String, Option<String>) {
        let response = whole().for_request(&request(method, fields));
        let told = response.headers.iter().find(|(name, _)| *name == "Content-Range");
        let body = String::from_utf8_lossy(&response.body).into_owned();
        (
            response.status,
            if response.status == 416 { String::new() } else { body },
            told.map(|(_, told)| told.clone()),
        )
    }

    #[test]
    fn parts_are_given() {
        for (range, body, told) in [
            ("bytes=0-3", "0123", "bytes 0-3/10"),
            ("bytes=7-", "789", "bytes 7-9/10"),
            ("bytes=-2", "89", "bytes 8-9/10"),
            ("bytes=-200", "0123456789", "bytes 0-9/10"),
            ("bytes=9-99999999999999999999999", "9", "bytes 9-9/10"),
            ("Bytes = 4-4", "4", "bytes 4-4/10"),
        ] {
            let fields = format!("Range: {range}\r\n");
            assert_eq!(answer("GET", &fields), (206, body.into(), Some(told.into())), "{range}");
            assert_eq!(answer("HEAD", &fields), (200, "0123456789".into(), None), "{range}");
        }
        for range in ["bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"] {
            let refused = (416, String::new(), Some("bytes */10".into()));
            assert_eq!(answer("GET", &format!("Range: {range}\r\n")), refused, "{range}");
        }
        for range in
            ["bytes=3-2", "bytes=1-2,4-5", "lines=1-2", "bytes=", "bytes=-", "bytes=a-b", "1-2", "bytes=+1-2"]
        {
            assert_eq!(answer("GET", &format!("Range: {range}\r\n")).0, 200, "{range}");
        }
        assert_eq!(answer("GET", "Range: bytes=1-2\r\nRange: bytes=1-2\r\n").0, 200);
    }

    #[test]
    fn conditions_come_first() {
        for tags in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            let fields = format!("If-None-Match: {tags}\r\nRange: bytes=0-1\r\n");
            for method in ["GET", "HEAD"] {
                assert_eq!(answer(method, &fields), (304, String::new(), None), "{tags}");
            }
        }
        for tags in ["\"b\"", "a", "\"ab\"", ""] {
            assert_eq!(answer("GET", &format!("If-None-Match: {tags}\r\n")).0, 200, "{tags}");
        }
        let part =
            |condition: &str| answer("GET", &format!("If-Range: {condition}\r\nRange: bytes=0-1\r\n")).0;
        assert_eq!(part("\"a\""), 206);
        assert_eq!(part("\"b\""), 200);
        assert_eq!(part("W/\"a\""), 200);
        assert_eq!(part("Sat, 29 Oct 1994 19:43:31 GMT"), 200);
        assert_eq!(answer("POST", "If-None-Match: *\r\nRange: bytes=0-1\r\nContent-Length: 0\r\n").0, 200);
        let refusal = problem(404, "none", "none").for_request(&request("GET", "Range: bytes=0-1\r\n"));
        assert_eq!(refusal, problem(404, "none", "none"));
    }

    #[test]
    fn a_time_of_change_is_a_condition() {
        let status = |fields: &str| {
            let response = whole().with_header("Last-Modified", "Tue, 24 Nov 2026 10:00:00 GMT");
            response.for_request(&request("GET", fields)).status
        };
        assert_eq!(status("If-Modified-Since: Tue, 24 Nov 2026 10:00:00 GMT\r\n"), 304);
        assert_eq!(status("If-Modified-Since: Tue, 24 Nov 2026 09:00:00 GMT\r\n"), 200);
        let both = "If-None-Match: \"b\"\r\nIf-Modified-Since: Tue, 24 Nov 2026 10:00:00 GMT\r\n";
        assert_eq!(status(both), 200);
    }

    proptest! {
        #[test]
        fn a_part_is_what_it_says(value in "(bytes=)?[0-9]{0,3}-?[0-9]{0,25}[ ,;=a-]?", length in 0usize..300) {
            let body: Vec<u8> = (0..length).map(|number| number as u8).collect();
            let given = Response::ok("text/plain", body.clone());
            let part = given.for_request(&request("GET", &format!("Range: {value}\r\n")));
            let told = part.headers.iter().find(|(name, _)| *name == "Content-Range").map(|(_, told)| told.as_str());
            match part.status {
                200 => prop_assert!(told.is_none() && part.body == body),
                416 => prop_assert_eq!(told.unwrap(), format!("bytes */{length}")),
                206 => {
                    let range = told.unwrap().strip_prefix("bytes ").unwrap().strip_suffix(&format!("/{length}")).unwrap();
                    let (first, last) = range.split_once('-').unwrap();
                    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                    prop_assert_eq!(&part.body[..], &body[first..=last]);
                }
                other => prop_assert!(false, "{other}"),
            }
        }

        #[test]
        fn no_field_panics(accepted in "[ -~]{0,60}", range in "[ -~]{0,40}", tags in "[ -~]{0,40}") {
            let fields = format!("Accept-Encoding: {accepted}\r\nRange: {range}\r\nIf-Range: {tags}\r\nIf-None-Match: {tags}\r\n");
            let request = request("GET", &fields);
            let _ = (preferred_coding(&request.headers, &["br", "gzip"]), whole().for_request(&request));
        }

        #[test]
        fn the_heavier_one_wins(gzip in 0u16..=1000, identity in 0u16..=1000) {
            let weight = |weight: u16| format!("{}.{:03}", weight / 1000, weight % 1000);
            let value = format!("identity;q={}, gzip;q={}", weight(identity), weight(gzip));
            prop_assert_eq!(prefers_gzip(&value), gzip > 0 && gzip >= identity);
        }
    }
}
