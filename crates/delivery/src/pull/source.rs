//! Where a stream comes from, by its URL.
//!
//! ```text
//! http://[USER[:PASSWORD]@]HOST[:PORT]/PATH[?QUERY]                https:// the same, over TLS
//! udp://[SENDER@]ADDRESS:PORT[?interface=NAME][&source=SENDER]     ADDRESS: our own, or a multicast group's
//! rtp://…                                                          the same, with RTP
//! ```
//! Neither `Display` nor `Debug` shows user, password or query: these go into logs and answers.

use crate::output::is_interface;
use crate::stream::Mux;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// Where a stream comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Another server, which is asked for it.
    Http(HttpUrl),
    /// Datagrams of MPEG-TS that somebody sends.
    Udp(UdpAddress),
    /// The same in RTP (RFC 2250).
    Rtp(UdpAddress),
}

/// An `http:` or `https:` URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HttpUrl {
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

/// Where datagrams come to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UdpAddress {
    /// Our own address, or a multicast group's. An unspecified one takes what comes to any of ours.
    pub address: SocketAddr,
    /// The network interface at which a group is joined; the system chooses without one.
    pub interface: Option<String>,
    /// The one sender whose datagrams are wanted (source-specific multicast, RFC 4607).
    pub sender: Option<IpAddr>,
}

/// Why a text is no source. The text itself is not repeated, since it may hold a password.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceError {
    /// Another scheme than those that are known.
    #[error("a source begins with http://, https://, udp:// or rtp://")]
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
    /// No port where one is needed, or not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// `udp:` or `rtp:` with something else than an address.
    #[error("udp:// and rtp:// want an IP address and a port, as in udp://239.1.2.3:5000 or udp://[::]:5000")]
    Address,
    /// An option of `udp:` or `rtp:` that is not known or has a bad value.
    #[error("udp:// and rtp:// know ?interface=NAME and &source=SENDER; {0}")]
    Option(&'static str),
}

impl Source {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Source, SourceError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SourceError::Characters);
        }
        match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
                HttpUrl::parse(rest, false).map(Source::Http)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
                HttpUrl::parse(rest, true).map(Source::Http)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("udp") => {
                UdpAddress::parse(rest).map(Source::Udp)
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("rtp") => {
                UdpAddress::parse(rest).map(Source::Rtp)
            }
            _ => Err(SourceError::Scheme),
        }
    }

    /// What comes from there: what the path of an `http:` or `https:` URL ends with, else MPEG-TS.
    pub fn mux(&self) -> Mux {
        let Source::Http(url) = self else { return Mux::MpegTs };
        let path = url.target.split('?').next().unwrap_or_default();
        match path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
            Some("mkv") => Mux::WebM,
            Some("oga" | "ogv" | "opus") => Mux::Ogg,
            Some(extension) => Mux::of_extension(extension).unwrap_or_default(),
            None => Mux::MpegTs,
        }
    }
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

impl HttpUrl {
    /// Reads what follows `http://` or, with `tls`, `https://`.
    fn parse(rest: &str, tls: bool) -> Result<HttpUrl, SourceError> {
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
            return Err(SourceError::Host);
        }
        let authorization = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let both = [unescape(user), b":".to_vec(), unescape(password)].concat();
            format!("Basic {}", BASE64_STANDARD.encode(both))
        });
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (host, port) = (host.to_ascii_lowercase(), port.unwrap_or(usual_port(tls)));
        Ok(HttpUrl { tls, host, port, target, authorization })
    }

    /// Where a redirect from here to `location` leads (RFC 9110 §10.2.2, RFC 3986 §5.2). Credentials go along only
    /// to the same scheme, host and port; none leads from `https:` to `http:`.
    pub fn redirected(&self, location: &str) -> Result<HttpUrl, SourceError> {
        let location = location.split('#').next().unwrap_or_default();
        if !location.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SourceError::Characters);
        }
        let path = self.target.split('?').next().unwrap_or("/");
        let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        let mut url = match location.split_once("://") {
            // A scheme has no slash and no question mark: else the "://" belongs to a path or query.
            Some((scheme, _)) if !scheme.contains(['/', '?']) => match Source::parse(location)? {
                Source::Http(url) => url,
                Source::Udp(_) | Source::Rtp(_) => return Err(SourceError::Scheme),
            },
            _ if location.starts_with("//") => HttpUrl::parse(&location[2..], self.tls)?,
            _ => {
                let target = match location.as_bytes().first() {
                    Some(b'/') => location.to_owned(),
                    Some(b'?') => format!("{path}{location}"),
                    None => self.target.clone(),
                    Some(_) => format!("{folder}{location}"),
                };
                HttpUrl { target, ..self.clone() }
            }
        };
        url.target = without_dot_segments(&url.target);
        if self.tls && !url.tls {
            return Err(SourceError::Unsafe);
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
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// The value of `Host`.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == usual_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }

    /// The value of `Authorization`: a secret.
    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl UdpAddress {
    /// Reads what follows `udp://` or `rtp://`.
    fn parse(rest: &str) -> Result<UdpAddress, SourceError> {
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.strip_suffix('/').unwrap_or(address);
        // What VLC writes where it listens; FFmpeg leaves the sender out.
        let (sender, address) = address.split_once('@').unwrap_or(("", address));
        let (host, port) = split_port(address)?;
        let ip = match host {
            "" => Ipv6Addr::UNSPECIFIED.into(),
            host => host.parse::<IpAddr>().map_err(|_| SourceError::Address)?,
        };
        let address = SocketAddr::new(ip, port.ok_or(SourceError::Port)?);
        let no_sender = |_| SourceError::Option("the sender is no IP address");
        let bare = sender.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(sender);
        let sender = if bare.is_empty() { None } else { Some(bare.parse().map_err(no_sender)?) };
        let mut source = UdpAddress { address, interface: None, sender };
        for (key, value) in form_urlencoded::parse(options.as_bytes()) {
            match &*key {
                "interface" if is_interface(&value) => source.interface = Some(value.into_owned()),
                "source" if source.sender.is_some() => {
                    return Err(SourceError::Option("the sender is given twice"));
                }
                "source" => source.sender = Some(value.parse().map_err(no_sender)?),
                "interface" => {
                    let words = "an interface's name has 1 to 15 letters, digits and .-_:@";
                    return Err(SourceError::Option(words));
                }
                _ => return Err(SourceError::Option("there is another option")),
            }
        }
        if !ip.is_multicast() && (source.sender.is_some() || source.interface.is_some()) {
            return Err(SourceError::Option("they belong to multicast groups"));
        }
        if source.sender.is_some_and(|sender| sender.is_ipv4() != ip.is_ipv4()) {
            return Err(SourceError::Option("the sender is of the other IP version"));
        }
        Ok(source)
    }
}

/// The port that needs not be said.
fn usual_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Host and port of `host:port`, `[v6]:port`, either without a port.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), SourceError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(SourceError::Host)?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(SourceError::Host);
            }
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(SourceError::Host),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(SourceError::Host),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    // `u16`'s own parser takes a plus sign.
    let number = |port: &str| {
        let number = port.parse().ok().filter(|port| *port != 0);
        number.filter(|_| port.bytes().all(|byte| byte.is_ascii_digit())).ok_or(SourceError::Port)
    };
    Ok((host, port.filter(|port| !port.is_empty()).map(number).transpose()?))
}

/// Undoes `%XX` (RFC 3986 §2.1). A per cent sign without two digits stands for itself.
fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
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

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may be a key.
        let (path, query) = self.target.split_once('?').map_or((&*self.target, ""), |(path, _)| (path, "?…"));
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{path}{query}", self.authority())
    }
}

impl fmt::Display for UdpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        let interface = self.interface.as_ref().map(|name| format!("interface={name}"));
        let sender = self.sender.map(|sender| format!("source={sender}"));
        let options: Vec<String> = interface.into_iter().chain(sender).collect();
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Http(url) => url.fmt(f),
            Source::Udp(address) => write!(f, "udp://{address}"),
            Source::Rtp(address) => write!(f, "rtp://{address}"),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for UdpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn http(text: &str) -> HttpUrl {
        match Source::parse(text) {
            Ok(Source::Http(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn udp(text: &str) -> UdpAddress {
        match Source::parse(text) {
            Ok(Source::Udp(address)) => address,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_address_tells_its_mux() {
        for (url, mux) in [
            ("http://h/live/a.ts", Mux::MpegTs),
            ("http://h/a.webm?encoding=metacube", Mux::WebM),
            ("http://h/a.FLV", Mux::Flv),
            ("http://h/a.ogv", Mux::Ogg),
            ("http://h.flv/stream?x=a.ogg", Mux::MpegTs),
            ("udp://239.1.2.3:5000", Mux::MpegTs),
        ] {
            assert_eq!(Source::parse(url).unwrap().mux(), mux, "{url}");
        }
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
        let source = Source::parse(text).unwrap();
        for shown in [format!("{source}"), format!("{source:?}"), format!("{:?}", http(text))] {
            assert_eq!(shown, "http://h:81/a.ts?…");
        }
        let basic = BASE64_STANDARD.encode("some:user:p@ss@word");
        assert_eq!(http(text).authorization(), Some(format!("Basic {basic}").as_str()));
        for bad in
            ["http://u:hush@/a", "http://u:hush@h:x/a", "https://u:hush@h:0/", "ftp://u:hush@h/", "hush"]
        {
            let error = Source::parse(bad).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn datagrams_come_from_anywhere_groups_and_single_senders() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(udp("udp://127.0.0.1:5000").address, address("127.0.0.1:5000"));
        assert_eq!(udp("udp://@:5000").address, address("[::]:5000"));
        assert_eq!(udp("udp://@239.1.2.3:5000/").address, address("239.1.2.3:5000"));
        let source = udp("udp://232.1.2.3:5000?interface=eth0&source=192.0.2.7");
        assert_eq!(source.interface.as_deref(), Some("eth0"));
        assert_eq!(source.sender, Some("192.0.2.7".parse().unwrap()));
        let text = "udp://232.1.2.3:5000?interface=eth0&source=192.0.2.7";
        assert_eq!(Source::parse("udp://192.0.2.7@232.1.2.3:5000?interface=eth0").unwrap().to_string(), text);
        let v6 = Source::parse("RTP://[2001:db8::7]@[ff3e::1]:5000").unwrap();
        assert_eq!(v6.to_string(), "rtp://[ff3e::1]:5000?source=2001:db8::7");
        assert_ne!(Source::parse("rtp://239.1.2.3:5000"), Source::parse("udp://239.1.2.3:5000"));
        assert_eq!(udp("udp://[ff3e::1]:5000?source=2001:db8::7").address, address("[ff3e::1]:5000"));
        for bad in [
            "udp://host:5000",
            "udp://239.1.2.3",
            "udp://239.1.2.3:0",
            "udp://239.1.2.3:5000?pkt_size=1316",
            "udp://239.1.2.3:5000?source=x",
            "rtp://x@239.1.2.3:5000",
            "rtp://192.0.2.7@10.0.0.1:5000",
            "rtp://192.0.2.7@239.1.2.3:5000?source=192.0.2.8",
            "udp://239.1.2.3:5000?source=::1",
            "udp://239.1.2.3:5000?interface=",
            "udp://239.1.2.3:5000?interface=a%0Ab",
            "udp://239.1.2.3:5000?interface=a%26source%3D1.2.3.4",
            "udp://239.1.2.3:+5000",
            "udp://127.0.0.1:5000?interface=lo",
            "udp://::1:5000",
        ] {
            assert!(Source::parse(bad).is_err(), "{bad}");
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
        assert_eq!(safe.redirected("http://h/b.ts"), Err(SourceError::Unsafe));
        for bad in ["udp://239.1.2.3:5", "ftp://h/", "http://", "http://h:99999/", "/a b"] {
            assert!(from.redirected(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://|udp://|rtp://)?[a-z0-9:/@?&=%.\\[\\]#é ]{0,40}", location in "\\PC{0,40}") {
            if let Ok(Source::Http(url)) = Source::parse(&text) {
                let _ = url.redirected(&location);
            }
        }
    }
}
