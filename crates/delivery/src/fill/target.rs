//! What an upstream server is asked for.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::policy::{PathReading, TOKEN_PARAMETERS};

/// The path and query of the object that a request for `path` with `query` is about: without what only concerns this server and
/// this viewer, so that all viewers' requests for it are the same. `None` for a path that servers read differently
/// ([`PathReading::Ambiguous`]): a server might read it as the path of a stream for which the policy was not asked.
pub fn upstream_target(path: &str, query: &str) -> Option<String> {
    if PathReading::of(path) == PathReading::Ambiguous {
        return None;
    }
    let is_of_viewer = |pair: &str| {
        let name = form_urlencoded::parse(pair.as_bytes()).next();
        name.is_none_or(|(name, _)| TOKEN_PARAMETERS.contains(&&*name))
    };
    let pairs: Vec<&str> = query.split('&').filter(|pair| !is_of_viewer(pair)).collect();
    let mark = if pairs.is_empty() { "" } else { "?" };
    Some(format!("{path}{mark}{}", pairs.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(path: &str, query: &str) -> Option<String> {
        upstream_target(path, query)
    }

    #[test]
    fn tokens_are_left_out_however_they_are_written() {
        for query in ["", "token=x", "expires=1&token=x", "%74oken=x", "&&token=a&", "tok%65n"] {
            assert_eq!(target("/a.mp4", query).as_deref(), Some("/a.mp4"), "{query}");
        }
        let wanted = Some("/live/a/video.m3u8?_HLS_msn=1&b=%20");
        assert_eq!(target("/live/a/video.m3u8", "_HLS_msn=1&token=x&b=%20").as_deref(), wanted);
    }

    #[test]
    fn nobody_goes_upwards_or_around_the_streams_rules() {
        for path in [
            "/a/../b",
            "/a/%2e%2E/b",
            "/./b",
            "/%6Cive/a/1.m4s",
            "//live/a/1.m4s",
            "/live%2Fa/1.m4s",
            "/live\\a/1.m4s",
            "/%5clive/a",
            "/LIVE/a/1.m4s",
            "/live;x/a/1.m4s",
            "/.%00/live/a",
            "/live/open/..;/closed/1.m4s",
            "live/a/1.m4s",
        ] {
            assert_eq!(target(path, ""), None, "{path}");
        }
        for path in ["/", "/alive/x", "/live", "/live/a/1.m4s", "/a/live/b", "/%zz", "/a..b"] {
            assert_eq!(target(path, "").as_deref(), Some(path));
        }
    }

    proptest! {
        #[test]
        fn what_is_asked_for_begins_with_the_path(path in "/\\PC{0,40}", query in "\\PC{0,40}") {
            if let Some(target) = target(&path, &query) {
                prop_assert!(target.starts_with(&path));
            }
        }
    }
}
