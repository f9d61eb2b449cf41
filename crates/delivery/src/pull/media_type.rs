//! What of a source's `Content-Type` is passed on to viewers.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// The longest that is passed on, in bytes.
const LONGEST: usize = 128;

/// What a stream may be called that its source calls `media_type` (RFC 9110 §8.3.1): the same where that is a type of video or
/// audio, with its parameters, or `application/octet-stream`; `None` for everything else. A source that says `text/html` or
/// `image/svg+xml` would otherwise have browsers run its scripts as if this server had sent them.
pub fn stream_media_type(media_type: &str) -> Option<&str> {
    let (kind, rest) = media_type.split_once('/')?;
    let (subtype, parameters) = token(rest)?;
    let is = |known: &str, found: &str| found.eq_ignore_ascii_case(known);
    let is_stream =
        is("video", kind) || is("audio", kind) || (is("application", kind) && is("octet-stream", subtype));
    (media_type.len() <= LONGEST && is_stream && are_parameters(parameters)).then_some(media_type)
}

/// `*( OWS ";" OWS token "=" ( token / quoted-string ) )`. Nothing else may follow: browsers take the last of several
/// types that commas part.
fn are_parameters(mut text: &str) -> bool {
    const SPACE: [char; 2] = [' ', '\t'];
    loop {
        if text.is_empty() {
            return true;
        }
        let next = || {
            let rest = text.trim_start_matches(SPACE).strip_prefix(';')?;
            let (_, rest) = token(rest.trim_start_matches(SPACE))?;
            let rest = rest.strip_prefix('=')?;
            match rest.strip_prefix('"') {
                Some(quoted) => Some(&quoted[end_of_quotes(quoted)?..]),
                None => token(rest).map(|(_, rest)| rest),
            }
        };
        match next() {
            Some(rest) => text = rest,
            None => return false,
        }
    }
}

/// Behind the closing quote, where there is one and nothing but visible ASCII before it.
fn end_of_quotes(quoted: &str) -> Option<usize> {
    let mut bytes = quoted.bytes().enumerate();
    loop {
        match bytes.next()? {
            (at, b'"') => return at.checked_add(1),
            (_, b'\\') => bytes.next().filter(|(_, byte)| (b' '..=b'~').contains(byte)).map(drop)?,
            (_, byte) if (b' '..=b'~').contains(&byte) => {}
            _ => return None,
        }
    }
}

/// A token at the beginning of `text`, and what is behind it (RFC 9110 §5.6.2).
fn token(text: &str) -> Option<(&str, &str)> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_inside(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_video_or_audio_is_passed_on_and_nothing_else() {
        for good in [
            "video/mp4",
            "Video/x-matroska",
            "audio/ogg; codecs=opus",
            "video/mp4;codecs=\"avc1.4d401f, mp4a.40.2\" ; a=b",
            "video/mp4; a=\"\\\"b\"",
            "application/octet-stream",
            "APPLICATION/Octet-Stream",
        ] {
            assert_eq!(stream_media_type(good), Some(good));
        }
        let long = format!("video/{}", "a".repeat(LONGEST));
        for bad in [
            "text/html",
            "image/svg+xml",
            "application/xhtml+xml",
            "application/javascript",
            "application/octet-stream2",
            "multipart/x-mixed-replace;boundary=a",
            "video/mp4, text/html",
            "video/mp4;a=b, text/html",
            "video/mp4;a=\"b\", text/html",
            "video/mp4;a=\"b",
            "video/mp4;",
            "video/mp4; a",
            "video/mp4 text/html",
            "video/mp4\n",
            "video/",
            "video",
            "/mp4",
            "",
            " video/mp4",
            "video/mp4;a=\"\\",
            "video/mp4;a=\"ä\"",
            &long,
        ] {
            assert_eq!(stream_media_type(bad), None, "{bad}");
        }
    }

    proptest! {
        /// Whatever stands in it: what is passed on is one type that no browser makes a page of.
        #[test]
        fn nothing_else_gets_through(text in "(video|audio|text|application)/[a-z]{1,4}[ ;,=\"a-z/\\t\\x00äé]{0,12}") {
            if let Some(passed) = stream_media_type(&text) {
                prop_assert!(passed.starts_with("video/") || passed.starts_with("audio/"));
                prop_assert!(!passed.split('"').step_by(2).any(|outside| outside.contains(',') || outside.contains("text/")));
            }
        }
    }
}
