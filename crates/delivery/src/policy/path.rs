//! What other servers may take a request's path for.
//!
//! Whether a stream may be watched is decided by the path as it came. An upstream server may read the same path otherwise: it
//! undoes escapes (once, or until there are none), takes `\` for `/`, joins slashes, leaves path parameters out, resolves dots,
//! or does not care for case. So a path goes upstream only where each of these readings is the one that was decided about:
//!
//! ```text
//! /live/hall/1.m4s                                            the stream's, in plain form
//! /a/1.m4s   /pct//a%20b.m4s   /a;v=1.m4s                     no stream's, by any reading
//! /LIVE/hall/1.m4s   /live;x/hall/1.m4s   /%256Cive/hall/1    a stream's by some reading: ambiguous
//! /live/hall/..;/stage/1.m4s   /a/%2e%2e/b   /.%00/a          dots, control characters: ambiguous
//! ```

use super::{StreamName, is_live_path};

/// What a path may be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathReading {
    /// By each reading it is a path of streams, in its plain form.
    Streams,
    /// By no reading is it a path of streams.
    Other,
    /// Servers may read it in different ways.
    Ambiguous,
}

/// Escapes within escapes that are undone; what has more of them is ambiguous.
const ESCAPES_DEPTH: usize = 4;

impl PathReading {
    /// Of a request's path, without its query, as it came.
    pub fn of(path: &str) -> PathReading {
        if !path.starts_with('/') {
            return PathReading::Ambiguous;
        }
        let is_plain = is_live_path(path);
        let mut bytes = path.as_bytes().to_vec();
        for _ in 0..=ESCAPES_DEPTH {
            match Folded::of(&bytes) {
                None => return PathReading::Ambiguous,
                Some(folded) if folded.is_streams() && !(is_plain && folded.keeps_name(path)) => {
                    return PathReading::Ambiguous;
                }
                Some(_) => {}
            }
            let undone = unescaped(&bytes);
            if undone == bytes {
                return if is_plain { PathReading::Streams } else { PathReading::Other };
            }
            bytes = undone;
        }
        PathReading::Ambiguous
    }
}

/// The parts of a path as the most lenient server sees them.
struct Folded(Vec<String>);

impl Folded {
    /// `None` where a part leads upwards, or has control characters: readers cut there, or leave them out.
    fn of(bytes: &[u8]) -> Option<Folded> {
        let mut text = String::with_capacity(bytes.len());
        for character in lenient_utf8(bytes) {
            match character {
                _ if character.is_control() => return None,
                // Slashes, and characters that compatibility forms make slashes of.
                '\\' | '\u{2044}' | '\u{2215}' | '\u{29F8}' | '\u{FF0F}' | '\u{FF3C}' => text.push('/'),
                // What some servers leave out: per cent signs without digits, and invisible characters.
                '%' | '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' => {}
                _ => fold_case(half_width(character), &mut text),
            }
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            // Path parameters (RFC 3986 §3.3), streams of a Windows file, and a query or fragment behind an escaped mark.
            let part = part.split([';', ':', '?', '#']).next().unwrap_or_default();
            let is_end = |character: char| matches!(character, '.' | ' ' | '+');
            if part.contains('.') && part.chars().all(is_end) {
                return None;
            }
            // Windows takes dots and spaces off the end, some servers spaces off both.
            let part = part.trim_end_matches(is_end).trim_start_matches([' ', '+']);
            if !part.is_empty() {
                parts.push(part.to_owned());
            }
        }
        Some(Folded(parts))
    }

    fn is_streams(&self) -> bool {
        self.0.first().is_some_and(|first| first == "live")
    }

    /// Whether the stream is the one that `path`, which is in plain form, names.
    fn keeps_name(&self, path: &str) -> bool {
        match (path.split('/').nth(2), self.0.get(1)) {
            (None | Some(""), None) => true,
            (Some(name), Some(folded)) => {
                StreamName::parse(name).is_some() && name.eq_ignore_ascii_case(folded)
            }
            _ => false,
        }
    }
}

/// ASCII for its full-width form.
fn half_width(character: char) -> char {
    match u32::from(character) {
        code @ 0xFF01..=0xFF5E => char::from_u32(code.saturating_sub(0xFEE0)).unwrap_or(character),
        _ => character,
    }
}

/// Without case, whether a server compares in upper or in lower case: `ı` is `I` in upper case, and `K` (Kelvin) is `k` in
/// lower case.
fn fold_case(character: char, into: &mut String) {
    let folded = character.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    into.extend(folded.filter(|character| !('\u{300}'..='\u{36F}').contains(character)));
}

/// Undoes escapes once: `%XX`, and `%uXXXX` as some servers do.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let number = |digits: Option<&[u8]>| -> Option<u32> {
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut undone, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            undone.push(*first);
        } else if let Some(byte) = number(tail.get(..2)) {
            undone.push(byte as u8);
            rest = tail.get(2..).unwrap_or_default();
        } else if let ([b'u' | b'U', ..], Some(code)) = (tail, number(tail.get(1..5))) {
            let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            undone.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = tail.get(5..).unwrap_or_default();
        } else {
            undone.push(b'%');
        }
    }
    undone
}

/// Characters of UTF-8, also of forms that are longer than they have to be (RFC 3629 §10 warns of readers that take `C0 AF` for
/// a slash). What is no UTF-8 at all is the replacement character.
fn lenient_utf8(bytes: &[u8]) -> impl Iterator<Item = char> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (first, tail) = rest.split_first()?;
        let (following, high) = match first {
            0x00..=0x7F => (0, *first),
            0xC0..=0xDF => (1, first & 0x1F),
            0xE0..=0xEF => (2, first & 0x0F),
            0xF0..=0xF7 => (3, first & 0x07),
            _ => (0, 0),
        };
        rest = tail;
        if following == 0 {
            return Some(if first.is_ascii() { char::from(*first) } else { char::REPLACEMENT_CHARACTER });
        }
        let more = tail.get(..following).filter(|more| more.iter().all(|byte| byte & 0xC0 == 0x80));
        let Some(more) = more else { return Some(char::REPLACEMENT_CHARACTER) };
        rest = tail.get(following..).unwrap_or_default();
        let code = more.iter().fold(u32::from(high), |code, byte| code << 6 | u32::from(byte & 0x3F));
        Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    #[test]
    fn what_is_the_same_to_all_is_taken() {
        for path in
            ["/live", "/live/", "/live/a/1.m4s", "/live/Stage-2.hd/video/1.0.m4s", "/live/a//b", "/live/a.ts"]
        {
            assert_eq!(PathReading::of(path), PathReading::Streams, "{path}");
        }
        for path in [
            "/",
            "/alive/x",
            "/lives",
            "/a/live/b",
            "/a..b",
            "/a/b.c.",
            "/%zz",
            "/pct/a%20b.m4s",
            "/pct/caf%C3%A9.m4s",
            "/pct/caf%E9.m4s",
            "/pct/%61.m4s",
            "/pct//a.m4s",
            "/pct/a%2Fb.m4s",
            "/pct/a+b.m4s",
            "/pct/a;v=1.m4s",
            "/a:b/100%25",
            "/é",
        ] {
            assert_eq!(PathReading::of(path), PathReading::Other, "{path}");
        }
    }

    #[test]
    fn what_some_take_for_a_streams_or_for_another_streams_is_not() {
        for path in [
            "live/a/1.m4s",
            "*",
            "http:/live/a",
            "/LIVE/a/1.m4s",
            "/Live",
            "/live;x/a/1.m4s",
            "/;x/live/a/1.m4s",
            "//live/a/1.m4s",
            "/live//a/1.m4s",
            "/live/./a/1.m4s",
            "/./live/a/1.m4s",
            "/.%00/live/a/1.m4s",
            "/.;x/live/a/1.m4s",
            "/%6Cive/a/1.m4s",
            "/%256Cive/a/1.m4s",
            "/%25256Cive/a/1.m4s",
            "/%u006Cive/a/1.m4s",
            "/%2e%2e/live/a/1.m4s",
            "/x/%252e%252e/live/a",
            "/live%2Fa/1.m4s",
            "/live\\a/1.m4s",
            "/%5clive/a",
            "/%C0%AFlive/a",
            "/%E0%80%AFlive/a",
            "/li%ve/a/1.m4s",
            "/li%09ve/a/1.m4s",
            "/live%00/a",
            "/live%20/a/1.m4s",
            "/live./a/1.m4s",
            "/live::$INDEX_ALLOCATION/a/1.m4s",
            "/live%3Fx/a",
            "/ｌｉｖｅ/a/1.m4s",
            "/l\u{131}ve/a/1.m4s",
            "/l\u{130}ve/a/1.m4s",
            "/li\u{200B}ve/a",
            "/\u{2215}live/a",
            // The stream that was decided about is another one.
            "/live/open/../closed/1.m4s",
            "/live/open/..;/closed/1.m4s",
            "/live/open/..%2Fclosed/1.m4s",
            "/live/open/%252e%252e/closed",
            "/live/open/..%20/closed",
            "/live/open\\..\\closed/1.m4s",
            "/live/open%2Fclosed/1.m4s",
            "/live/closed;x/1.m4s",
            "/live/closed./1.m4s",
            "/live/%63losed/1.m4s",
            "/a/../b",
            "/a/...",
            &format!("/{}6Cive/a", "%25".repeat(40).replace("%25%", "%25")),
        ] {
            assert_eq!(PathReading::of(path), PathReading::Ambiguous, "{path}");
        }
    }

    /// One thing that a lenient server does to a path before it looks.
    fn reader(step: u8, path: &str) -> String {
        let parts = |path: &str, change: &dyn Fn(&str) -> String| -> String {
            path.split('/').map(change).collect::<Vec<_>>().join("/")
        };
        match step {
            0 => percent_decode_str(path).decode_utf8_lossy().into_owned(),
            1 => path.replace('\\', "/"),
            2 => parts(path, &|part| part.split(';').next().unwrap_or_default().to_owned()),
            3 => path.to_ascii_lowercase(),
            4 => path.chars().filter(|character| !character.is_control()).collect(),
            5 => path.split('\0').next().unwrap_or_default().to_owned(),
            6 => parts(path, &|part| match part {
                "." | ".." => part.to_owned(),
                part => part.trim_end_matches(['.', ' ']).to_owned(),
            }),
            7 => path.split(['?', '#']).next().unwrap_or_default().to_owned(),
            8 => {
                let (mut kept, mut joined) = (Vec::new(), path.split('/').filter(|part| !part.is_empty()));
                joined.by_ref().for_each(|part| match part {
                    "." => {}
                    ".." => drop(kept.pop()),
                    part => kept.push(part),
                });
                format!("/{}", kept.join("/"))
            }
            _ => path.replace('%', ""),
        }
    }

    proptest! {
        /// However servers read it, in whatever order they do so: a path of the stream NAME is taken only where it was decided
        /// about NAME.
        #[test]
        fn no_lenient_reading_leads_to_another_stream(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "/", "/", "live", "LIVE", "Live", "open", "closed", "closed", ".", "..", ";x", "\\", "%2f", "%2F", "%5c", "%2e",
                "%252e", "%25", "%6C", "ive", "%00", "%09", "%20", "?", "#", "%3F", ":", "%zz", "1.m4s", "a",
            ]), 1..9),
            steps in prop::collection::vec(0u8..10, 0..7),
        ) {
            let path = format!("/{}", pieces.concat());
            let mut seen = path.clone();
            for step in steps {
                seen = reader(step, &seen);
            }
            // A server that routes by plain prefixes, after all that.
            if let Some((name, _)) = StreamName::of_presentation_path(&seen) {
                match PathReading::of(&path) {
                    PathReading::Ambiguous => {}
                    PathReading::Other => prop_assert!(false, "{path} was taken for no stream's; read as {seen}"),
                    PathReading::Streams => {
                        let decided = StreamName::of_presentation_path(&path).map(|(name, _)| name);
                        let same = decided.is_some_and(|decided| decided.as_str().eq_ignore_ascii_case(name.as_str()));
                        prop_assert!(same, "{path} was read as {seen}");
                    }
                }
            }
        }

        #[test]
        fn no_path_panics(path in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = PathReading::of(&path);
            let _ = PathReading::of(&String::from_utf8_lossy(&bytes));
        }
    }
}
