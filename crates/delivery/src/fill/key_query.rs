//! Which parameters of a query an object depends on.

use std::borrow::Cow;

/// The parameters of a query that are part of an object's name. All are where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyQuery(Option<Vec<String>>);

impl KeyQuery {
    /// Only the parameters of these names, as they read once their escapes are resolved; none where there are no names.
    pub fn only(names: impl IntoIterator<Item = String>) -> KeyQuery {
        KeyQuery(Some(names.into_iter().collect()))
    }

    /// The same, and the parameters of these names.
    #[must_use]
    pub fn and(&self, names: &[&str]) -> KeyQuery {
        let more = names.iter().map(|&name| name.to_owned());
        KeyQuery(self.0.as_ref().map(|known| known.iter().cloned().chain(more).collect()))
    }

    /// What of `query` counts: the parameters that do, as they are written and in their order. The upstream server is asked
    /// with the same: what is not in an object's name must not change the object.
    pub fn select<'a>(&self, query: &'a str) -> Cow<'a, str> {
        let Some(names) = &self.0 else { return Cow::Borrowed(query) };
        let counts = |pair: &&str| {
            let name = form_urlencoded::parse(pair.as_bytes()).next();
            name.is_some_and(|(name, _)| names.iter().any(|known| *known == name))
        };
        let mut kept = query.split('&').filter(counts);
        match (kept.next(), kept.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(one), None) => Cow::Borrowed(one),
            (Some(one), Some(other)) => {
                Cow::Owned([one, other].into_iter().chain(kept).collect::<Vec<_>>().join("&"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_listed_stays_as_it_is_written() {
        let only = |names: &[&str]| KeyQuery::only(names.iter().map(|name| (*name).to_owned()));
        let hls = only(&["_HLS_msn", "_HLS_part"]);
        for (query, kept) in [
            ("", ""),
            ("x=1", ""),
            ("_HLS_part=2&x=1&_HLS_msn=%31", "_HLS_part=2&_HLS_msn=%31"),
            ("%5FHLS_msn=1&_HLS_MSN=2", "%5FHLS_msn=1"),
            ("_HLS_msn", "_HLS_msn"),
            ("&&_HLS_msn=1&_HLS_msn=2&", "_HLS_msn=1&_HLS_msn=2"),
        ] {
            assert_eq!(hls.select(query), kept, "{query}");
        }
        assert_eq!(only(&[]).select("a=1&b"), "");
        assert_eq!(only(&["a"]).and(&["from", "to"]).select("a=1&b=2&from=-5m&x"), "a=1&from=-5m");
        assert_eq!(KeyQuery::default().and(&["from"]).select("a=1"), "a=1");
        assert_eq!(KeyQuery::default().select("a=1&&b"), "a=1&&b");
    }

    proptest! {
        /// What does not count changes nothing, and what was selected is selected again.
        #[test]
        fn others_change_nothing(query in "[ab%61=&]{0,30}", other in "[b-z]{1,5}(=[a-z%]{0,5})?") {
            let only = KeyQuery::only(["a".to_owned()]);
            let kept = only.select(&query).into_owned();
            prop_assert_eq!(only.select(&kept), &*kept);
            let more = format!("{query}&{other}");
            prop_assert_eq!(only.select(&more).into_owned(), kept);
        }
    }
}
