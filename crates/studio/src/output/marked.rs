//! What the packets to a server bear for routers: `?dscp=34&flow_label=true` in the URL, which the server does not see.

use glassline_delivery::policy::HeaderMarks;

/// The URL without what is said of marks, and the marks.
///
/// # Errors
/// What is wrong with a value.
pub(super) fn split(url: &str) -> Result<(String, HeaderMarks), &'static str> {
    let mut marks = HeaderMarks::default();
    let Some((path, query)) = url.split_once('?') else { return Ok((url.to_owned(), marks)) };
    let mut others = Vec::new();
    for part in query.split('&') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if !marks.take_option(key, value)? {
            others.push(part);
        }
    }
    let joint = if others.is_empty() { "" } else { "?" };
    Ok((format!("{path}{joint}{}", others.join("&")), marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_sees_the_rest_of_the_query() {
        let split = |url| split(url).unwrap();
        let (none, dscp) = (HeaderMarks::default(), Some(34));
        assert_eq!(split("http://h/live/a.ts"), ("http://h/live/a.ts".to_owned(), none));
        assert_eq!(
            split("http://h/live/a.ts?takeover=1"),
            ("http://h/live/a.ts?takeover=1".to_owned(), none)
        );
        let marks = HeaderMarks { dscp, flow_label: Some(false) };
        assert_eq!(
            split("http://h/live/a.ts?dscp=34&takeover=1&flow_label=false"),
            ("http://h/live/a.ts?takeover=1".to_owned(), marks)
        );
        assert_eq!(
            split("http://h/live/a.ts?dscp=34"),
            ("http://h/live/a.ts".to_owned(), HeaderMarks { dscp, ..none })
        );
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        for query in ["dscp=64", "dscp=-1", "dscp=af41", "dscp=", "dscp", "flow_label=yes"] {
            assert!(split(&format!("http://h/live/a.ts?{query}")).is_err(), "{query}");
        }
    }
}
