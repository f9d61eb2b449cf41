//! Who asks, and how far the address that a request comes from may be believed.
//!
//! Loopback and networks that are named are trusted for where they are. That is worth nothing where somebody else stands
//! behind the address: a web page whose name its owner lets point to this machine (DNS rebinding: the browser then sends
//! the page's own name as `Host`, and as `Origin` too), or whoever a proxy passes on.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::http1::server::Request;
use crate::http1::{Host, Method};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Names under which a server is called.
pub trait KnownHosts {
    /// Whether `name` is one, in lower case and without a dot at its end.
    fn has(&self, name: &str) -> bool;
}

/// Names that the configuration gives: each a host name, or `*.` before one for all that are one label longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// The names in `texts`; the first that is none is the error. Case and a dot at the end mean nothing.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Hosts, &'a str> {
        let name = |text: &'a str| {
            let plain = plain(text);
            is_host_name(plain.strip_prefix("*.").unwrap_or(&plain)).then_some(plain).ok_or(text)
        };
        texts.into_iter().map(name).collect::<Result<_, _>>().map(Hosts)
    }
}

impl KnownHosts for Hosts {
    fn has(&self, name: &str) -> bool {
        let of_wildcard =
            || name.split_once('.').is_some_and(|(_, rest)| self.0.contains(&format!("*.{rest}")));
        self.0.contains(name) || of_wildcard()
    }
}

/// Letters, digits, dashes and underscores in labels of up to 63, 253 in all (RFC 1123 §2.1, RFC 8552 for underscores).
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Why the address that a request comes from says nothing about who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// A proxy passed the request on.
    Proxied,
    /// `Host` is neither an address, nor `localhost`, nor a name that is known.
    Host,
}

/// What to do about [`Distrust::Host`].
pub(super) const UNKNOWN_HOST: &str = "The Host field names neither an IP address nor localhost nor a host that this server knows: ask by its address, or \
     add the name to 'hosts' in the server's configuration.";

/// Who asks.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// What it asks.
    pub request: &'a Request,
    /// The names that are this server's.
    pub hosts: &'a dyn KnownHosts,
}

impl Caller<'_> {
    /// Whether the connection comes from this machine.
    pub fn is_loopback(&self) -> bool {
        self.peer.to_canonical().is_loopback()
    }

    /// Whether the peer's address says who asks.
    pub fn check_address(&self) -> Result<(), Distrust> {
        if self.was_passed_on() { Err(Distrust::Proxied) } else { self.check_host() }
    }

    /// Whether a proxy says that it passed the request on (RFC 7239, RFC 9110 §7.6.3, and what is customary).
    fn was_passed_on(&self) -> bool {
        let headers = &self.request.headers;
        let proxied = ["forwarded", "via", "x-real-ip"];
        headers.has_prefix("x-forwarded-") || proxied.iter().any(|name| headers.first(name).is_some())
    }

    /// Whether the request calls this server by an address or by a name of its own. A name that only others own leads
    /// here where they have let it point here, and browsers then take our answers for theirs. Nobody owns addresses and
    /// `localhost` (RFC 6761 §6.3). HTTP/1.0 without a `Host` comes from no browser.
    pub fn check_host(&self) -> Result<(), Distrust> {
        match self.request.host() {
            None | Some(Host::Address(_)) => Ok(()),
            Some(Host::Name(name)) => {
                let name = plain(name);
                let is_own = name == "localhost" || name.ends_with(".localhost") || self.hosts.has(&name);
                if is_own { Ok(()) } else { Err(Distrust::Host) }
            }
        }
    }

    /// Whether a browser sends the request for a page that is not this server's own: its `Origin` is another one or, where
    /// something is to change, `Sec-Fetch-Site` says so. `same-site` is another origin too, and not ours: pages of other
    /// ports and of sibling names (Fetch Metadata §2.3).
    pub fn is_foreign_page(&self) -> bool {
        let headers = &self.request.headers;
        let is_foreign = |origin: &str| {
            let authority = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            let own = headers.first("host");
            !authority.zip(own).is_some_and(|(authority, own)| authority.eq_ignore_ascii_case(own))
        };
        let changes =
            matches!(self.request.method, Method::Put | Method::Post | Method::Delete | Method::Other);
        let is_cross =
            |site: &str| ["cross-site", "same-site"].iter().any(|other| site.eq_ignore_ascii_case(other));
        headers.all("origin").any(is_foreign) || (changes && headers.all("sec-fetch-site").any(is_cross))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http1::Limits;
    use crate::http1::server::{Event, Server};
    use glassline_media::Time;
    use proptest::prelude::*;

    /// A request with these lines behind its first one.
    pub(crate) fn request(first_line: &str, fields: &str) -> Request {
        let wire = format!("{first_line}\r\n{fields}\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        match server.next(&mut wire.as_bytes(), Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            other => panic!("{other:?} for {wire:?}"),
        }
    }

    /// Has `ask` look at who asks from `peer`; the server is called `relay.example`.
    pub(crate) fn from<T>(peer: &str, request: &Request, ask: impl Fn(&Caller<'_>) -> T) -> T {
        let hosts = Hosts::parse(["relay.example"]).unwrap();
        ask(&Caller { peer: peer.parse().unwrap(), request, hosts: &hosts })
    }

    fn judge(fields: &str) -> Result<(), Distrust> {
        from("127.0.0.1", &request("PUT /live/a.ts HTTP/1.1", fields), |caller| caller.check_address())
    }

    #[test]
    fn a_host_that_others_may_own_is_not_trusted() {
        for own in [
            "127.0.0.1:8080",
            "[::1]",
            "192.0.2.7:80",
            "localhost",
            "LOCALHOST.:8080",
            "a.localhost",
            "Relay.example:1",
        ] {
            assert_eq!(judge(&format!("Host: {own}\r\n")), Ok(()), "{own}");
        }
        for other in [
            "evil.example",
            "evil",
            "localhost.evil",
            "notlocalhost",
            "127.0.0.1.evil",
            "a.relay.example",
            "",
        ] {
            assert_eq!(judge(&format!("Host: {other}\r\n")), Err(Distrust::Host), "{other}");
        }
        let old = request("PUT /live/a.ts HTTP/1.0", "");
        assert_eq!(from("127.0.0.1", &old, |caller| caller.check_address()), Ok(()));
        let absolute = request("PUT http://evil.example/live/a.ts HTTP/1.1", "Host: localhost\r\n");
        assert_eq!(from("127.0.0.1", &absolute, |caller| caller.check_address()), Err(Distrust::Host));
    }

    #[test]
    fn what_a_proxy_passes_on_comes_from_elsewhere() {
        for field in [
            "Forwarded: for=192.0.2.1",
            "X-Forwarded-For: 192.0.2.1",
            "x-forwarded-proto: https",
            "X-FORWARDED-HOST: h",
            "Via: 1.1 proxy",
            "X-Real-IP: 192.0.2.1",
        ] {
            assert_eq!(judge(&format!("Host: localhost\r\n{field}\r\n")), Err(Distrust::Proxied), "{field}");
        }
        assert_eq!(judge("Host: localhost\r\nX-Forward: 1\r\n"), Ok(()));
    }

    #[test]
    fn pages_of_others_are_told_by_origin_and_by_fetch_metadata() {
        let foreign = |line: &str, fields: &str| {
            from("127.0.0.1", &request(line, &format!("Host: localhost:8080\r\n{fields}")), |caller| {
                caller.is_foreign_page()
            })
        };
        let (put, get) = ("PUT /live/a.ts HTTP/1.1", "GET /api/clients HTTP/1.1");
        for own in [
            "",
            "Origin: http://localhost:8080\r\n",
            "Sec-Fetch-Site: same-origin\r\n",
            "Sec-Fetch-Site: none\r\n",
        ] {
            assert!(!foreign(put, own) && !foreign(get, own), "{own}");
        }
        for other in [
            "Origin: http://localhost\r\n",
            "Origin: null\r\n",
            "Origin: http://localhost:8080.evil\r\n",
            "Origin: http://localhost:8080\r\nOrigin: http://evil\r\n",
        ] {
            assert!(foreign(put, other) && foreign(get, other), "{other}");
        }
        // A link on another page leads here, and changes nothing.
        for site in ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n"] {
            assert!(
                foreign(put, site) && foreign("DELETE /a HTTP/1.1", site) && !foreign(get, site),
                "{site}"
            );
            assert!(
                foreign("POST /a HTTP/1.1", &format!("Origin: http://localhost:8080\r\n{site}")),
                "{site}"
            );
        }
    }

    #[test]
    fn names_are_configured_with_and_without_wildcards() {
        let hosts = Hosts::parse(["Relay.Example.org.", "*.lan", "my_relay"]).unwrap();
        for name in ["relay.example.org", "a.lan", "my_relay"] {
            assert!(hosts.has(name), "{name}");
        }
        for name in ["example.org", "a.relay.example.org", "lan", "a.b.lan", ""] {
            assert!(!hosts.has(name), "{name}");
        }
        let long = "a".repeat(64);
        for bad in ["", "*", "*.", "a..b", "http://a", "a:80", "a b", "ä.org", ".", "a.*.b", &long] {
            assert_eq!(Hosts::parse(["good", bad]), Err(bad));
        }
    }

    proptest! {
        /// Whoever owns a name in public DNS cannot make it one that is trusted.
        #[test]
        fn names_of_others_are_never_trusted(name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,6}\\.?", port in proptest::option::of(any::<u16>())) {
            prop_assume!(!name.trim_end_matches('.').ends_with("localhost") && plain(&name) != "relay.example");
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            prop_assert_eq!(judge(&format!("Host: {name}{port}\r\n")), Err(Distrust::Host));
        }
    }
}
