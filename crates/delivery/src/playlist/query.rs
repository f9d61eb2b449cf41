//! A viewer's query: the directives of HLS in it, and what is carried into the addresses of a playlist.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::fmt;

/// A longer query is not carried on.
const CARRIED_MAX_BYTES: usize = 4096;
/// What the names of directives to servers begin with (draft-pantos-hls-rfc8216bis §6.2.5).
pub(super) const DIRECTIVE_PREFIX: &str = "_HLS_";

/// What is put behind each address of a playlist: the viewer's query, such as a token, or nothing. Written as form data
/// (percent-encoded; the letters that HLS's quoted strings, XML and DASH's templates give a meaning are among those),
/// without the directives of HLS, which each request has its own of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried(String);

impl Carried {
    /// Of the query that a request has behind its `?`.
    pub fn of(query: Option<&str>) -> Carried {
        let query = query.filter(|query| query.len() <= CARRIED_MAX_BYTES).unwrap_or("");
        let mut written = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
        let pairs = form_urlencoded::parse(query.as_bytes());
        written.extend_pairs(pairs.filter(|(name, _)| !name.starts_with(DIRECTIVE_PREFIX)));
        let written = written.finish();
        Carried(if written == "?" { String::new() } else { written })
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_carried_and_directives_are_not() {
        let carried = |query| Carried::of(Some(query)).to_string();
        assert_eq!(Carried::of(None).to_string(), "");
        assert_eq!(carried(""), "");
        assert_eq!(carried("_HLS_msn=7&_HLS_part=2"), "");
        assert_eq!(carried("token=a%2Fb&_HLS_msn=7&x"), "?token=a%2Fb&x=");
        assert_eq!(carried("t=\"\n$Number$<&u=1"), "?t=%22%0A%24Number%24%3C&u=1");
    }

    proptest! {
        #[test]
        fn nothing_that_has_a_meaning_in_a_playlist_is_carried(query in "\\PC{0,64}") {
            let carried = Carried::of(Some(&query)).to_string();
            prop_assert!(!carried.contains(['"', '\r', '\n', '<', '>', '$', '\'', '#', ' ']));
        }
    }
}
