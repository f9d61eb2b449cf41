//! What a publisher asks for: the stream's name, its key, and whether it takes over.
//!
//! ```text
//! rtmp://HOST/live[?key=KEY]   NAME[?key=KEY][&takeover=1]
//! ╰─ application, with query ╯ ╰─ stream key of OBS ─────╯
//! ```

use glassline_delivery::policy::StreamName;
use glassline_transport::rtmp::Publish;

/// What a publisher asks for.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: StreamName,
    pub(super) key: Option<String>,
    pub(super) take_over: bool,
}

impl Target {
    /// `None` where the name is none. What stands behind the name goes before what stands in the address.
    pub(super) fn of(publish: &Publish) -> Option<Target> {
        let (name, query) = publish.name.split_once('?').unwrap_or((&publish.name, ""));
        let queries = [query, publish.query.as_deref().unwrap_or_default()];
        let parameter = |wanted: &str| {
            let all = queries.iter().flat_map(|query| form_urlencoded::parse(query.as_bytes()));
            let mut values = all.filter(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
            values.next()
        };
        let take_over = parameter("takeover").is_some_and(|value| value == "1" || value == "true");
        Some(Target { name: StreamName::parse(name)?, key: parameter("key"), take_over })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, query: Option<&str>) -> Option<(String, Option<String>, bool)> {
        let publish =
            Publish { name: name.to_owned(), query: query.map(str::to_owned), agent: String::new() };
        let Target { name, key, take_over } = Target::of(&publish)?;
        Some((name.to_string(), key, take_over))
    }

    #[test]
    fn a_key_stands_behind_the_name_or_in_the_address() {
        let key = |key: &str| Some(key.to_owned());
        assert_eq!(of("hall", None), Some(("hall".into(), None, false)));
        assert_eq!(of("hall?key=a%20b", None), Some(("hall".into(), key("a b"), false)));
        assert_eq!(of("hall", Some("key=x&takeover=1")), Some(("hall".into(), key("x"), true)));
        assert_eq!(
            of("hall?key=own&takeover=0", Some("key=x&takeover=1")),
            Some(("hall".into(), key("own"), false))
        );
        for bad in ["", "?key=x", "a/b", ".hidden", "a b"] {
            assert_eq!(of(bad, None), None, "{bad:?}");
        }
    }
}
