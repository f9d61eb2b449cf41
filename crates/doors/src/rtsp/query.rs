//! Parameters in the query of an address.

/// A parameter of an address's query, without escapes. A client may end the address of the whole session with a slash, behind the
/// query too.
pub(super) fn parameter(query: &str, wanted: &str) -> Option<String> {
    let query = query.strip_suffix('/').unwrap_or(query);
    let mut all = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
    all.next().map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::parameter;

    #[test]
    fn a_key_may_have_slashes_and_the_address_one_behind_it() {
        let key = |query| parameter(query, "key");
        assert_eq!(key("key=a/b%2Fc&x=1").as_deref(), Some("a/b/c"));
        assert_eq!(key("x=1&key=a%2F/").as_deref(), Some("a/"));
        assert_eq!((key(""), key("keys=1")), (None, None));
    }
}
