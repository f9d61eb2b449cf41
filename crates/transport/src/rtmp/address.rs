//! Where a stream is published to: `rtmp://HOST[:PORT]/APP/KEY` and `rtmps://…`.
//!
//! ```text
//! rtmps://live.example:443/app/instance/KEY?name=value
//!         ╰── authority ──╯╰─── app ───╯╰── stream key ╯
//! ```
//! What stands behind the last slash of the path is the stream's name for the server, which services call the stream key: a secret.

use std::fmt;

/// Longer addresses are none.
const ADDRESS_MAX: usize = 2048;
/// Shorter texts are words of any sentence, as in `?cache=0`.
const SECRET_MIN: usize = 3;
/// The port of RTMP, and the one that services have for RTMPS.
const PORT: u16 = 1935;
const TLS_PORT: u16 = 443;

/// An address. The stream key, which is a secret, shows neither in `Debug` nor in `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Whether TLS is spoken (`rtmps://`).
    pub tls: bool,
    /// A name or an IP number, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The application: what stands between host and stream key.
    pub app: String,
    /// The stream key.
    pub key: String,
    /// Host and port as they were written.
    authority: String,
    /// What a redirect had behind a question mark, with it: a service finds the publisher by it. Empty of other addresses.
    query: String,
    /// The stream keys of the addresses that were redirected to this one.
    earlier: Vec<String>,
}

/// Without the stream key.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rtmps" } else { "rtmp" };
        write!(f, "{scheme}://{}/{}", self.authority, self.app)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/…")
    }
}

impl Address {
    /// Whether a text is meant as such an address.
    pub fn is_meant(text: &str) -> bool {
        scheme(text).is_some()
    }

    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, in words for people, without secrets.
    pub fn parse(text: &str) -> Result<Address, String> {
        let whole = |app: &str, key: &str| (!app.is_empty() && !key.is_empty()).then_some(());
        let (mut address, path, query) = Address::parse_place(text)?;
        let (app, key) = path.rsplit_once('/').unwrap_or((&path, ""));
        let app = app.trim_matches('/');
        whole(app, key).ok_or(
            "names no stream key: write rtmp://HOST/APP/KEY, the server's address with the stream key behind it",
        )?;
        address.app = app.to_owned();
        address.key = format!("{key}{query}");
        Ok(address)
    }

    /// Where a server redirects a publisher to (`ex.redirect` of a rejected `connect`). The stream key stays, and so does its query; of
    /// the same application a part of the path behind it is the stream's other name. A query of the redirect goes into
    /// [`Address::tc_url`] and never into the stream key: a redirect could otherwise publish with credentials of its own choice.
    ///
    /// # Errors
    /// The text is no address; or it leads from TLS to where there is none, which would show the stream key.
    pub fn redirected(&self, text: &str) -> Result<Address, String> {
        let (mut address, path, query) = Address::parse_place(text)?;
        if self.tls && !address.tls {
            return Err("redirects from rtmps:// to rtmp://, where the stream key could be read".to_owned());
        }
        let path = path.trim_matches('/');
        let own_query = self.key.find('?').and_then(|at| self.key.get(at..)).unwrap_or_default();
        (address.app, address.key) = match path.rsplit_once('/') {
            Some((app, name)) if app.trim_end_matches('/') == self.app => {
                (self.app.clone(), format!("{name}{own_query}"))
            }
            _ if path.is_empty() => (self.app.clone(), self.key.clone()),
            _ => (path.to_owned(), self.key.clone()),
        };
        address.query = query;
        address.earlier.clone_from(&self.earlier);
        if address.key != self.key {
            address.earlier.push(self.key.clone());
        }
        Ok(address)
    }

    /// Host and port; then the path, and the query with its question mark.
    fn parse_place(text: &str) -> Result<(Address, String, String), String> {
        let (tls, rest) = scheme(text).ok_or("begins with neither rtmp:// nor rtmps://")?;
        if text.len() > ADDRESS_MAX
            || text.chars().any(|letter| letter.is_control() || letter.is_whitespace())
        {
            return Err(format!("is longer than {ADDRESS_MAX} bytes, or has spaces in it"));
        }
        let (place, query) = match rest.find('?') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        if authority.contains('@') {
            return Err(
                "has a user or a password, which RTMP has no standard for; services take a stream key: \
                        rtmp://HOST/APP/KEY"
                    .to_owned(),
            );
        }
        let (host, port) = match authority.rsplit_once(':') {
            // A colon within brackets belongs to the number.
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (host, port.ok_or("has a port that is no number from 1 to 65535")?)
            }
            _ => (authority, if tls { TLS_PORT } else { PORT }),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(['[', ']']) {
            return Err("names no host".to_owned());
        }
        let (host, authority) = (host.to_owned(), authority.to_owned());
        let (app, key, own_query) = (String::new(), String::new(), String::new());
        let address = Address { tls, host, port, app, key, authority, query: own_query, earlier: Vec::new() };
        Ok((address, path.to_owned(), query.to_owned()))
    }

    /// What a client says it connects to (`tcUrl`): all but the stream key. A redirect's query is in it, which is for the server alone.
    pub fn tc_url(&self) -> String {
        format!("{self}{}", self.query)
    }

    /// Text in which the stream key may stand, or one that was redirected to this address, without them. It has no control
    /// characters either: between the letters of a key they would keep it from being found.
    pub fn hide_key(&self, text: &str) -> String {
        let keys = self.earlier.iter().chain([&self.key]);
        let mut secrets: Vec<&str> = keys.flat_map(|key| secrets(key)).chain(secrets(&self.query)).collect();
        secrets.retain(|secret| secret.len() >= SECRET_MIN);
        // Longest first: what stands within another one is not found any more behind it.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut hidden: String = text.chars().filter(|letter| !letter.is_control()).collect();
        for secret in secrets {
            hidden = hidden.replace(secret, "…");
        }
        hidden
    }
}

/// A stream key, its name, its query, and what is in this.
fn secrets(key: &str) -> impl Iterator<Item = &str> {
    let (name, query) = key.split_once('?').unwrap_or((key, ""));
    let pairs = query.split('&').flat_map(|pair| [pair, pair.split_once('=').map_or("", |(_, value)| value)]);
    [key, name, query].into_iter().chain(pairs)
}

/// Whether it is TLS, and what stands behind the scheme.
fn scheme(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("rtmp") => Some((false, rest)),
        scheme if scheme.eq_ignore_ascii_case("rtmps") => Some((true, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> (bool, String, u16, String, String) {
        let Address { tls, host, port, app, key, .. } = Address::parse(text).unwrap();
        (tls, host, port, app, key)
    }

    #[test]
    fn addresses_of_services_are_read() {
        // The last part of the path is the key, with the query behind it; the rest is the application, as services say.
        for (text, tls, host, port, app, key) in [
            (
                "rtmp://a.rtmp.youtube.com/live2/abcd-efgh",
                false,
                "a.rtmp.youtube.com",
                1935,
                "live2",
                "abcd-efgh",
            ),
            ("rtmps://a.rtmps.youtube.com/live2/abcd", true, "a.rtmps.youtube.com", 443, "live2", "abcd"),
            (
                "rtmp://live.twitch.tv/app/live_1?bandwidthtest=true",
                false,
                "live.twitch.tv",
                1935,
                "app",
                "live_1?bandwidthtest=true",
            ),
            (
                "rtmps://live-api-s.facebook.com:443/rtmp/FB-1-0-Ab?s_bl=1&s_sw=0",
                true,
                "live-api-s.facebook.com",
                443,
                "rtmp",
                "FB-1-0-Ab?s_bl=1&s_sw=0",
            ),
            ("RTMP://h:1936/app/instance/k?a=b/c", false, "h", 1936, "app/instance", "k?a=b/c"),
            ("rtmp://[::1]:1/live/k", false, "::1", 1, "live", "k"),
        ] {
            assert_eq!(parts(text), (tls, host.into(), port, app.into(), key.into()), "{text}");
        }
        let address = Address::parse("rtmps://live-api-s.facebook.com:443/rtmp/FB-1").unwrap();
        assert_eq!(address.tc_url(), "rtmps://live-api-s.facebook.com:443/rtmp");
        assert_eq!(Address::parse("rtmp://[::1]/live/k").unwrap().tc_url(), "rtmp://[::1]/live");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for (text, words) in [
            ("http://h/app/key", "rtmp://"),
            ("rtmp://h", "stream key"),
            ("rtmp://h/app", "stream key"),
            ("rtmp://h/app/", "stream key"),
            ("rtmp://h//key", "stream key"),
            ("rtmp://h///key", "stream key"),
            ("rtmp:///app/key", "host"),
            ("rtmp://h:0/app/key", "port"),
            ("rtmp://h:x/app/key", "port"),
            ("rtmp://user:word@h/app/key", "user"),
            ("rtmp://h/app/a key", "spaces"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("/key") && !error.contains("word@"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn the_stream_key_is_not_shown() {
        let address = Address::parse("rtmp://h/app/SECRET-KEY?token=OTHER").unwrap();
        for shown in [format!("{address}"), format!("{address:?}"), format!("{:?}", Some(&address))] {
            assert!(!shown.contains("SECRET") && !shown.contains("OTHER"), "{shown}");
        }
        assert_eq!(address.hide_key("no SECRET-KEY here, nor SECRET-KEY?token=OTHER"), "no … here, nor …");
        // A secret within another one, a pair that has no value, and control characters within a key.
        let address = Address::parse("rtmp://h/app/LONG-abc-KEY?a=abc&WORD").unwrap();
        assert_eq!(address.hide_key("LONG-abc-KEY is no key, abc no value"), "… is no key, … no value");
        assert_eq!(address.hide_key("the WORD"), "the …");
        assert_eq!(address.hide_key("LONG-\u{1}abc-\nKEY"), "…");
    }

    #[test]
    fn a_redirect_keeps_the_key_and_never_leaves_tls() {
        let address = Address::parse("rtmp://h/app/KEY?a=b").unwrap();
        let to = |text: &str| address.redirected(text).map(|to| (to.host, to.port, to.app, to.key));
        let key = || "KEY?a=b".to_owned();
        assert_eq!(to("rtmp://edge:1936/app").unwrap(), ("edge".into(), 1936, "app".into(), key()));
        assert_eq!(to("rtmp://edge/app/").unwrap(), ("edge".into(), 1935, "app".into(), key()));
        assert_eq!(to("rtmp://edge/").unwrap(), ("edge".into(), 1935, "app".into(), key()));
        // Another application has our key; another name within the same one has our query, and never one of the redirect's.
        let moved = to("rtmps://edge/new/other").unwrap();
        assert_eq!(moved, ("edge".into(), 443, "new/other".into(), key()));
        for text in ["rtmp://edge/app/other", "rtmp://edge/app/other?a=theirs"] {
            assert_eq!(to(text).unwrap().3, "other?a=b", "{text}");
        }
        let moved = address.redirected("rtmp://edge/app?a=theirs").unwrap();
        assert_eq!((moved.key.clone(), moved.tc_url()), (key(), "rtmp://edge/app?a=theirs".into()));
        assert!(!format!("{moved} {moved:?}").contains("theirs"));
        // What was hidden stays so.
        let moved = address.redirected("rtmp://edge/app/other").unwrap().redirected("rtmp://third").unwrap();
        assert_eq!(moved.hide_key("KEY, other, KEY?a=b"), "…, …, …");
        assert!(to("http://edge/app").is_err());
        let secure = Address::parse("rtmps://h/app/KEY").unwrap();
        assert!(secure.redirected("rtmp://h/app").is_err());
        assert!(secure.redirected("rtmps://h/app").is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "(rtmps?://)?[a-z\\[\\]:/?@0-9é ]{0,40}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert!(!address.host.is_empty() && !address.app.is_empty() && !address.key.is_empty());
                let again = Address::parse(&format!("{}/{}", address.tc_url(), address.key)).unwrap();
                prop_assert_eq!((again.host, again.port, again.key), (address.host.clone(), address.port, address.key.clone()));
            }
            let address = Address::parse("rtmp://h/app/KEY").unwrap();
            let _ = address.redirected(&text);
        }
    }
}
