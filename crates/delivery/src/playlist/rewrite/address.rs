//! An address in a playlist: where it leads, and how it carries a token.

use crate::policy::TOKEN_PARAMETERS;

/// The server that a viewer has asked, as the viewer called it.
#[derive(Clone, Copy, Debug)]
pub struct AskedServer<'a> {
    /// The value of `Host`.
    pub authority: &'a str,
    /// Whether it was asked over TLS: then a token leaves by nothing else.
    pub is_secure: bool,
}

/// How a text writes the sign between two parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ampersand {
    Plain,
    /// In XML.
    Escaped,
}

impl Ampersand {
    fn sign(self) -> &'static str {
        match self {
            Ampersand::Plain => "&",
            Ampersand::Escaped => "&amp;",
        }
    }
}

/// `address` with `token` in its query, in front of its fragment; `None` where it leads to another server than `asked`, or
/// could be read so, and where it has a token already.
pub(super) fn carry(
    address: &str,
    token: &str,
    asked: &AskedServer<'_>,
    ampersand: Ampersand,
) -> Option<String> {
    if !leads_to(address, asked) || has_references(address, ampersand) {
        return None;
    }
    let fragment = address.find('#').unwrap_or(address.len());
    let (front, fragment) = address.split_at_checked(fragment)?;
    let mark = match front.split_once('?') {
        None => "?",
        Some((_, query)) => {
            let plain = query.replace("&amp;", "&");
            let mut pairs = form_urlencoded::parse(plain.as_bytes());
            if pairs.any(|(name, _)| TOKEN_PARAMETERS.contains(&&*name)) {
                return None;
            }
            ampersand.sign()
        }
    };
    Some(format!("{front}{mark}{token}{fragment}"))
}

/// Whether `address` leads to `asked`, however a player reads it. Browsers (URL Standard) take `\` for `/` and leave
/// out control characters, RFC 3986 does neither; HLS puts variables in.
pub(super) fn leads_to(address: &str, asked: &AskedServer<'_>) -> bool {
    let is_plain = |byte: u8| byte > b' ' && byte != 0x7F && !b"\\\"'<>".contains(&byte);
    if address.is_empty() || !address.bytes().all(is_plain) || address.contains("{$") {
        return false;
    }
    let behind_scheme = match address.find([':', '/', '?', '#']) {
        Some(at) if address.as_bytes().get(at) == Some(&b':') => {
            let Some((scheme, rest)) = address.split_once(':') else { return false };
            let is_secure = scheme.eq_ignore_ascii_case("https");
            if !is_secure && (asked.is_secure || !scheme.eq_ignore_ascii_case("http")) {
                return false;
            }
            // Some read "http:a" as relative, and some do not.
            if !rest.starts_with("//") {
                return false;
            }
            rest
        }
        _ => address,
    };
    let Some(rest) = behind_scheme.strip_prefix("//") else { return true };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !authority.is_empty() && authority.eq_ignore_ascii_case(asked.authority)
}

/// Whether an address in XML has character or entity references but `&amp;`: what they stand for is not looked at.
fn has_references(address: &str, ampersand: Ampersand) -> bool {
    ampersand == Ampersand::Escaped && address.replace("&amp;", "").contains('&')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Url;
    use proptest::prelude::*;

    const ASKED: AskedServer<'_> = AskedServer { authority: "edge.example", is_secure: false };

    fn leads(address: &str) -> bool {
        carry(address, "token=x", &ASKED, Ampersand::Plain).is_some()
    }

    #[test]
    fn addresses_of_the_same_server() {
        for address in [
            "a.m4s",
            "../a.m4s",
            "/live/a/1.m4s",
            "?x=1",
            "a/b:c",
            "./b:c",
            "http://edge.example/a",
            "HTTPS://EDGE.example/a",
            "//edge.example?x",
            "/../a//b",
            "é.m4s",
        ] {
            assert!(leads(address), "{address}");
        }
    }

    #[test]
    fn addresses_that_lead_elsewhere_or_may() {
        for address in [
            "",
            "http://other.example/a",
            "http://edge.example:81/a",
            "http://edge.example@other.example/a",
            "//other.example/a",
            "///other.example/a",
            "http:///other.example/a",
            "/\\other.example/a",
            "\\\\other.example/a",
            "http:\\\\other.example/a",
            "/\t/other.example/a",
            " //other.example/a",
            "ht\ttp://other.example/a",
            "http:a",
            "https:/a",
            "data:text/plain,a",
            "skd://edge.example/a",
            "b:c",
            "{$base}/a",
            "a.m4s?token=y",
            "a.m4s?x&%65xpires=1",
        ] {
            assert!(!leads(address), "{address:?}");
        }
        let secure = AskedServer { is_secure: true, ..ASKED };
        assert!(!leads_to("http://edge.example/a", &secure) && leads_to("https://edge.example/a", &secure));
        // A client of HTTP/1.0 need not say how it called the server.
        let unnamed = AskedServer { authority: "", ..ASKED };
        assert!(leads_to("a", &unnamed) && !leads_to("///other.example/a", &unnamed));
        let in_xml = |address| carry(address, "T", &ASKED, Ampersand::Escaped);
        assert_eq!(in_xml("&#47;&#47;other.example/a"), None);
        assert_eq!(in_xml("a?x&amp;y").as_deref(), Some("a?x&amp;y&amp;T"));
        assert_eq!(in_xml("a?x&amp;token=1"), None);
    }

    proptest! {
        /// By the rules for redirects, what gets a token leads to the same server.
        #[test]
        fn a_token_never_leads_elsewhere(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "http", "https", ":", "/", "//", "\\", "edge.example", "other.example", "@", "?", "#", "&", "a", ".", "..",
                ":80", "%2F", " ", "\t", "[::1]",
            ]), 0..12),
        ) {
            let address = pieces.concat();
            let base: Url = "http://edge.example/live/a/b.m3u8".parse().unwrap();
            if let Some(carried) = carry(&address, "token=x", &ASKED, Ampersand::Plain)
                && let Ok(url) = base.redirected(&carried)
            {
                prop_assert_eq!(url.host(), "edge.example", "{}", carried);
                prop_assert!(url.target().contains("token=x"), "{}", carried);
            }
        }
    }
}
