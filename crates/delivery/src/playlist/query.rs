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

use crate::policy::TOKEN_PARAMETERS;
use std::fmt;

/// What a query has more than this, as it is written, is not carried: it is put behind each address of a playlist, and strangers
/// choose it. A token with its time takes about 80.
const CARRIED_MAX_BYTES: usize = 384;
/// What the names of directives to servers begin with (draft-pantos-hls-rfc8216bis §6.2.5).
pub(super) const DIRECTIVE_PREFIX: &str = "_HLS_";

/// What is put behind each address of a playlist: of the viewer's query its token, and of the other parameters as many as there
/// is room for, such as a token of another server's. Written as form data (percent-encoded; the letters that HLS's quoted
/// strings, XML and DASH's templates give a meaning are among those), without the directives of HLS, which each request has its
/// own of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried(String);

impl Carried {
    /// Of the query that a request has behind its `?`.
    pub fn of(query: Option<&str>) -> Carried {
        Carried::with(query, &[], &[])
    }

    /// The same with `added` behind the token, which are always carried, and without the parameters of these names and of those
    /// that are `left_out`.
    pub(crate) fn with(query: Option<&str>, added: &[(&str, &str)], left_out: &[&str]) -> Carried {
        let pairs = || form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let is_of_token = |name: &str| TOKEN_PARAMETERS.contains(&name);
        // Of several the first one counts (`http1::server::Request::parameter`).
        let token = TOKEN_PARAMETERS.iter().filter_map(|known| pairs().find(|(name, _)| name == known));
        let is_replaced =
            |name: &str| left_out.contains(&name) || added.iter().any(|(known, _)| *known == name);
        let others = pairs().filter(|(name, _)| {
            !is_of_token(name) && !is_replaced(name) && !name.starts_with(DIRECTIVE_PREFIX)
        });
        let mut written = String::new();
        let mut append = |name: &str, value: &str, max_bytes: usize| {
            let pair = form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
            if written.len().saturating_add(pair.len()).saturating_add(1) <= max_bytes {
                written.push(if written.is_empty() { '?' } else { '&' });
                written.push_str(&pair);
            }
        };
        token.for_each(|(name, value)| append(&name, &value, CARRIED_MAX_BYTES));
        added.iter().for_each(|(name, value)| append(name, value, usize::MAX));
        others.for_each(|(name, value)| append(&name, &value, CARRIED_MAX_BYTES));
        Carried(written)
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
        assert_eq!(carried("x=1&token=a&token=b&expires=7&expires=8"), "?expires=7&token=a&x=1");
        assert_eq!(carried("t=\"\n$Number$<&u=1"), "?t=%22%0A%24Number%24%3C&u=1");
    }

    #[test]
    fn a_long_query_is_not_put_behind_each_address() {
        let junk = "x".repeat(4000);
        let carried = |query: &str| Carried::of(Some(query)).to_string();
        assert_eq!(carried(&format!("a={junk}&expires=7&token=T&b=1")), "?expires=7&token=T&b=1");
        assert_eq!(carried(&format!("token={junk}&expires=7")), "?expires=7");
        let many: Vec<String> = (0..2000).map(|number| format!("p{number}=v")).collect();
        let many = carried(&format!("{}&token=T", many.join("&")));
        assert!(many.starts_with("?token=T&p0=v&p1=v&") && many.len() <= CARRIED_MAX_BYTES, "{many}");
    }

    proptest! {
        #[test]
        fn what_is_carried_is_short_and_carries_itself(query in "[a-z&=%_+é]{0,900}") {
            let carried = Carried::of(Some(&query)).to_string();
            prop_assert!(carried.len() <= CARRIED_MAX_BYTES);
            prop_assert_eq!(Carried::of(Some(carried.trim_start_matches('?'))).to_string(), carried);
        }

        #[test]
        fn nothing_that_has_a_meaning_in_a_playlist_is_carried(query in "\\PC{0,64}") {
            let carried = Carried::of(Some(&query)).to_string();
            prop_assert!(!carried.contains(['"', '\r', '\n', '<', '>', '$', '\'', '#', ' ']));
        }
    }
}
