//! What a request's head tells [`policy`](crate::policy) of the one that asks, and what a refusal is in HTTP.

use super::server::Request;
use super::{Host, Method};
use crate::policy::{
    Action, Caller, Credential, Full, KnownHosts, Refusal, Route, ShownToken, TOKEN_PARAMETERS, canonical,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::borrow::Cow;
use std::net::IpAddr;

/// The client that sent `request` from `peer`. `hosts` are the names that are this server's.
pub fn caller<'a>(peer: IpAddr, request: &'a Request, hosts: &dyn KnownHosts) -> Caller<'a> {
    Caller { peer, credential: credential(request), route: route(request, hosts) }
}

/// What a request shows to be let in: the fields `Authorization`, and `key`, `expires` and `token` of its query.
fn credential(request: &Request) -> Credential<'_> {
    let [expires, token] = TOKEN_PARAMETERS.map(|name| request.parameter(name));
    Credential {
        key: authorization(request),
        key_in_address: request.parameter("key").map(Cow::Owned),
        token: expires.zip(token).and_then(|(expires, token)| ShownToken::parse(&expires, &token)),
    }
}

/// The secret in a request's `Authorization` field: a bearer token (RFC 6750 §2.1) or a Basic password (RFC 7617 §2), which
/// is what `http://user:KEY@host/` becomes in FFmpeg, in curl and in addresses of servers here.
fn authorization(request: &Request) -> Option<Cow<'_, str>> {
    let (scheme, value) = request.headers.first("authorization")?.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Cow::Borrowed(value));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| Cow::Owned(password.to_owned()))
}

fn route(request: &Request, hosts: &dyn KnownHosts) -> Route {
    Route {
        is_proxied: is_proxied(request),
        is_misnamed: is_misnamed(request, hosts),
        is_foreign_page: is_foreign_page(request),
    }
}

/// Whether a proxy says that it passed the request on (RFC 7239, RFC 9110 §7.6.3, and what is customary).
fn is_proxied(request: &Request) -> bool {
    let headers = &request.headers;
    let proxied = ["forwarded", "via", "x-real-ip"];
    headers.has_prefix("x-forwarded-") || proxied.iter().any(|name| headers.first(name).is_some())
}

/// Whether the request calls this server neither by an address nor by a name of its own. The owner of another name can let
/// it point here, and browsers then take this server's answers for those of that name (DNS rebinding). Addresses and
/// `localhost` (RFC 6761 §6.3) have no such owner. HTTP/1.0 without a `Host` comes from no browser.
fn is_misnamed(request: &Request, hosts: &dyn KnownHosts) -> bool {
    match request.host() {
        None | Some(Host::Address(_)) => false,
        Some(Host::Name(name)) => {
            let name = canonical(name);
            !(name == "localhost" || name.ends_with(".localhost") || hosts.has(&name))
        }
    }
}

/// Whether a browser sends the request for a page that is not this server's own: its `Origin` is another one or, where
/// something is to change, `Sec-Fetch-Site` says so. `same-site` is another origin too, and not ours: pages of other
/// ports and of sibling names (Fetch Metadata §2.3).
pub fn is_foreign_page(request: &Request) -> bool {
    let headers = &request.headers;
    let is_foreign = |origin: &str| {
        let authority = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        let own = headers.first("host");
        !authority.zip(own).is_some_and(|(authority, own)| authority.eq_ignore_ascii_case(own))
    };
    let changes = matches!(request.method, Method::Put | Method::Post | Method::Delete | Method::Other);
    let is_cross =
        |site: &str| ["cross-site", "same-site"].iter().any(|other| site.eq_ignore_ascii_case(other));
    headers.all("origin").any(is_foreign) || (changes && headers.all("sec-fetch-site").any(is_cross))
}

/// What to do about [`Refusal::Host`].
const UNKNOWN_HOST: &str = "The Host field names neither an IP address nor localhost nor a host that this server knows: ask by its address, or \
     add the name to 'hosts' in the server's configuration.";

/// The status of a refusal, and a sentence that says what to do.
pub const fn explain(refusal: Refusal, action: Action) -> (u16, &'static str) {
    match (refusal, action) {
        (Refusal::Key, _) => (
            401,
            "Send the publish key of the server's configuration: 'Authorization: Bearer KEY', or ?key=KEY.",
        ),
        (Refusal::NotLocal, _) => (
            403,
            "Only this machine may publish: set [publish] key in the server's configuration and send it, \
             or start the server with --open-publish.",
        ),
        (Refusal::Network, Action::Publish) => {
            (403, "This address is not in [publish] networks of the server's configuration.")
        }
        (Refusal::Network, Action::Watch) => {
            (403, "This address is not in [viewer] networks of the server's configuration.")
        }
        (Refusal::ForeignPage, _) => (403, "A web page may do this only with the server that it came from."),
        (Refusal::Proxied, Action::Publish) => (
            403,
            "A proxy passed this on, so its address says nothing about who asks: set [publish] key in the server's \
             configuration and send it, or ask the server itself.",
        ),
        (Refusal::Proxied, Action::Watch) => (
            403,
            "A proxy passed this on, so its address says nothing about who asks, and [viewer] networks of the \
             server's configuration goes by addresses: restrict them at the proxy, or set [viewer] key, which a server in \
             front of this one may show.",
        ),
        (Refusal::Host, _) => (403, UNKNOWN_HOST),
        (Refusal::NotOperator, _) => (
            403,
            "This is for the server's own machine and for [admin] networks of its configuration: ask from there, or \
             add this address to them.",
        ),
        (Refusal::Token, _) => (
            401,
            "This stream is watched by a signed address; ask its operator for one ('glassline sign' makes it).",
        ),
        (Refusal::Expired, _) => (403, "This address was signed for a time that is over; ask for a new one."),
    }
}

/// The status where there is no room, and a sentence that says what to do.
pub const fn explain_full(full: Full) -> (u16, &'static str) {
    match full {
        Full::Stream => (503, "The stream has as many viewers as it may have; try again later."),
        Full::Address => (429, "As many viewers as may come from one address are watching; end one of them."),
        Full::All => (503, "The server has as many viewers as it may have; try again later."),
        Full::AddressRate => {
            (429, "What is watched from this address takes all the bit rate it may; end one of the streams.")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::http1::Limits;
    use crate::http1::server::{Event, Server};
    use crate::policy::{Distrust, Hosts};
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

    /// Has `ask` look at the client of a request from `peer`; the server is called `relay.example`.
    pub(crate) fn from<T>(peer: &str, request: &Request, ask: impl Fn(&Caller<'_>) -> T) -> T {
        let hosts = Hosts::parse(["relay.example"]).unwrap();
        ask(&caller(peer.parse().unwrap(), request, &hosts))
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
                caller.route.is_foreign_page
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

    proptest! {
        /// The owner of a name in public DNS cannot make it one that is trusted.
        #[test]
        fn names_of_others_are_never_trusted(name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,6}\\.?", port in proptest::option::of(any::<u16>())) {
            prop_assume!(!name.trim_end_matches('.').ends_with("localhost") && canonical(&name) != "relay.example");
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            prop_assert_eq!(judge(&format!("Host: {name}{port}\r\n")), Err(Distrust::Host));
        }
    }
}
