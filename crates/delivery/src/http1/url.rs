//! Addresses of the web, as far as HTTP/1.1 is spoken to them (RFC 3986, RFC 9110 §4.2).
//!
//! ```text
//! http://[USER[:PASSWORD]@]HOST[:PORT]/PATH[?QUERY]                https:// the same, over TLS
//! ```
//! Neither `Display` nor `Debug` shows user, password or query: these go into logs and answers.

use super::Method;
use super::client::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use thiserror::Error;

/// An `http:` or `https:` URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Url {
    /// Whether it is an `https:` one.
    #[serde(default)]
    tls: bool,
    /// Name or address, an IPv6 address without its brackets.
    host: String,
    port: u16,
    /// Path and query; begins with a slash.
    target: String,
    /// `Authorization`'s value.
    authorization: Option<String>,
}

/// Why a text is no such URL. The text itself is not repeated, since it may hold a password.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// Another scheme.
    #[error("a URL begins with http:// or https:// here")]
    Scheme,
    /// A redirect from `https:` to `http:`.
    #[error("it leads from https:// to http://, where anybody may listen and change it")]
    Unsafe,
    /// Characters that no URL has.
    #[error("a URL has only visible ASCII characters; write others as %XX")]
    Characters,
    /// No host, or one with characters that none has.
    #[error("the host is missing or is no name or address")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

/// `target` with the `.` and `..` of its path resolved (RFC 3986 §5.2.4); its query stays as it is.
fn without_dot_segments(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            name => kept.push(name),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

impl Url {
    /// Reads what follows `http://` or, with `tls`, `https://`.
    fn parse(rest: &str, tls: bool) -> Result<Url, UrlError> {
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (user, host_port) = match authority.rsplit_once('@') {
            Some((user, host_port)) => (Some(user), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:".contains(&byte);
        if host.is_empty() || !host.bytes().all(name) {
            return Err(UrlError::Host);
        }
        let authorization = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let both = [unescape(user), b":".to_vec(), unescape(password)].concat();
            format!("Basic {}", BASE64_STANDARD.encode(both))
        });
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (host, port) = (host.to_ascii_lowercase(), port.unwrap_or(default_port(tls)));
        Ok(Url { tls, host, port, target, authorization })
    }

    /// Where a redirect from here to `location` leads (RFC 9110 §10.2.2, RFC 3986 §5.2). Credentials go along only
    /// to the same scheme, host and port; none leads from `https:` to `http:`.
    pub fn redirected(&self, location: &str) -> Result<Url, UrlError> {
        let location = location.split('#').next().unwrap_or_default();
        if !location.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Characters);
        }
        let path = self.target.split('?').next().unwrap_or("/");
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| &path[..=folder.len()]);
        let mut url = match location.split_once("://") {
            // A scheme has no slash and no question mark: else the "://" belongs to a path or query.
            Some((scheme, _)) if !scheme.contains(['/', '?']) => location.parse()?,
            _ if location.starts_with("//") => Url::parse(&location[2..], self.tls)?,
            _ => {
                let target = match location.as_bytes().first() {
                    Some(b'/') => location.to_owned(),
                    Some(b'?') => format!("{path}{location}"),
                    None => self.target.clone(),
                    Some(_) => format!("{folder}{location}"),
                };
                Url { target, ..self.clone() }
            }
        };
        url.target = without_dot_segments(&url.target);
        if self.tls && !url.tls {
            return Err(UrlError::Unsafe);
        }
        if (url.tls, &url.host, url.port) == (self.tls, &self.host, self.port) {
            url.authorization = url.authorization.or_else(|| self.authorization.clone());
        }
        Ok(url)
    }

    /// The host to connect to: a name or an address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is asked over TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The value of `Host`.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }

    /// The same server, asked for `target`: a path and perhaps a query.
    pub fn at(&self, target: &str) -> Url {
        Url { target: target.to_owned(), ..self.clone() }
    }

    /// A request for it, with its credentials.
    pub fn request(&self, method: Method) -> Request {
        let request = Request::new(method, &self.authority(), &self.target);
        match &self.authorization {
            Some(authorization) => request.with_header("Authorization", authorization),
            None => request,
        }
    }

    /// The value of `Authorization`: a secret.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

/// The port of a URL that names none.
fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Host and port of `host:port`, `[v6]:port`, either without a port.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(UrlError::Host)?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(UrlError::Host);
            }
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(UrlError::Host),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(UrlError::Host),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    // `u16`'s own parser takes a plus sign.
    let number = |port: &str| {
        let number = port.parse().ok().filter(|port| *port != 0);
        number.filter(|_| port.bytes().all(|byte| byte.is_ascii_digit())).ok_or(UrlError::Port)
    };
    Ok((host, port.filter(|port| !port.is_empty()).map(number).transpose()?))
}

/// Undoes `%XX` (RFC 3986 §2.1). A per cent sign without two digits stands for itself.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| {
            let digit = tail.get(at).and_then(|digit| char::from(*digit).to_digit(16))?;
            u8::try_from(digit).ok()
        };
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may be a key.
        let (path, query) = self.target.split_once('?').map_or((&*self.target, ""), |(path, _)| (path, "?…"));
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{path}{query}", self.authority())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Url {
    type Err = UrlError;
    fn from_str(text: &str) -> Result<Url, UrlError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Characters);
        }
        match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Url::parse(rest, false),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Url::parse(rest, true),
            _ => Err(UrlError::Scheme),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn http(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = http("HTTP://Origin.example:8080/live/a.ts?key=x#part");
        assert_eq!((url.host(), url.port(), url.target()), ("origin.example", 8080, "/live/a.ts?key=x"));
        assert_eq!((url.authority().as_str(), url.authorization()), ("origin.example:8080", None));
        assert_eq!(http("http://h").target(), "/");
        assert_eq!(http("http://h?x").target(), "/?x");
        let url = http("http://[2001:db8::1]/a");
        assert_eq!((url.host(), url.port(), url.authority().as_str()), ("2001:db8::1", 80, "[2001:db8::1]"));
        assert_eq!(http("http://[::1]:81/a").authority(), "[::1]:81");
        let url = http("HTTPS://h/a");
        assert_eq!((url.tls(), url.port(), url.authority().as_str()), (true, 443, "h"));
        assert_eq!(http("https://h:80/a").to_string(), "https://h:80/a");
        assert_eq!(http("http://h:443/a").to_string(), "http://h:443/a");
    }

    #[test]
    fn secrets_are_sent_and_never_shown() {
        let text = "http://some%3auser:p%40ss@word@h:81/a.ts?key=hush";
        let source = http(text);
        for shown in [format!("{source}"), format!("{source:?}")] {
            assert_eq!(shown, "http://h:81/a.ts?…");
        }
        let basic = BASE64_STANDARD.encode("some:user:p@ss@word");
        assert_eq!(http(text).authorization(), Some(format!("Basic {basic}").as_str()));
        for bad in
            ["http://u:hush@/a", "http://u:hush@h:x/a", "https://u:hush@h:0/", "ftp://u:hush@h/", "hush"]
        {
            let error = bad.parse::<Url>().unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn redirects_are_resolved_and_keep_secrets_at_home() {
        let from = http("http://u:p@h:81/live/a.ts?key=x");
        let to = |location: &str| {
            let url = from.redirected(location).unwrap();
            (format!("{}{}", url.authority(), url.target()), url.authorization().is_some())
        };
        for (location, expected) in [
            ("http://h:81/b.ts", ("h:81/b.ts", true)),
            ("http://h/b.ts", ("h/b.ts", false)),
            ("https://h:81/b.ts", ("h:81/b.ts", false)),
            ("https://h/b.ts", ("h/b.ts", false)),
            ("http://other/b.ts?y", ("other/b.ts?y", false)),
            ("//other:82/b.ts", ("other:82/b.ts", false)),
            ("/b.ts", ("h:81/b.ts", true)),
            ("b.ts#x", ("h:81/live/b.ts", true)),
            ("../b.ts", ("h:81/b.ts", true)),
            ("./x/../../../b.ts?../c", ("h:81/b.ts?../c", true)),
            ("..", ("h:81/", true)),
            ("/a/b/./..", ("h:81/a/", true)),
            ("//other/x/../b...ts", ("other/b...ts", false)),
            ("?z=http://x/", ("h:81/live/a.ts?z=http://x/", true)),
            ("/b?z=http://x/", ("h:81/b?z=http://x/", true)),
            ("", ("h:81/live/a.ts?key=x", true)),
        ] {
            let (url, keeps) = to(location);
            assert_eq!((url.as_str(), keeps), expected, "{location}");
        }
        let safe = http("https://u:p@h/live/a.ts");
        for (location, keeps) in
            [("b.ts", true), ("//h/b.ts", true), ("https://h:443/", true), ("//i/b.ts", false)]
        {
            let url = safe.redirected(location).unwrap();
            assert_eq!((url.tls(), url.authorization().is_some()), (true, keeps), "{location}");
        }
        assert_eq!(safe.redirected("http://h/b.ts"), Err(UrlError::Unsafe));
        for bad in ["udp://239.1.2.3:5", "ftp://h/", "http://", "http://h:99999/", "/a b"] {
            assert!(from.redirected(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_carries_the_credentials_to_any_path_of_its_server() {
        let url = http("https://u:p@h:8443/live/a.ts").at("/api/time");
        let request = String::from_utf8(url.request(Method::Get).without_body()).unwrap();
        assert!(request.starts_with("GET /api/time HTTP/1.1\r\nHost: h:8443\r\n"), "{request}");
        assert!(request.ends_with("\r\nAuthorization: Basic dTpw\r\n\r\n"), "{request}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://)?[a-z0-9:/@?&=%.\\[\\]#é ]{0,40}", location in "\\PC{0,40}") {
            if let Ok(url) = text.parse::<Url>() {
                let _ = url.redirected(&location);
            }
        }
    }
}
