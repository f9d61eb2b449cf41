//! Who may publish.

use super::{Networks, Secret};
use crate::http1::server::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Who may publish.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PublishPolicy {
    /// The secret that a publisher must show: `Authorization: Bearer KEY`, the password of Basic authentication
    /// (any user name), or `?key=KEY`.
    pub key: Option<Secret>,
    /// Without a key: whether others than this machine may publish.
    pub open: bool,
    /// From where publishing is allowed at all; without a key, those there need none.
    pub networks: Networks,
}

/// The key does not show: policies get logged.
impl fmt::Debug for PublishPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "(secret)");
        let mut shown = f.debug_struct("PublishPolicy");
        shown.field("key", &key).field("open", &self.open).field("networks", &self.networks).finish()
    }
}

/// Why somebody may not publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The key is missing or wrong.
    Key,
    /// Not from this machine, and there is no key.
    NotLocal,
    /// From an address outside of the networks that may.
    Network,
    /// A web page of another site asked through somebody's browser.
    ForeignPage,
}

impl Refusal {
    /// Status, and a sentence that says what to do.
    pub const fn explain(self) -> (u16, &'static str) {
        match self {
            Refusal::Key => (
                401,
                "Send the publish key of the server's configuration: 'Authorization: Bearer KEY', or ?key=KEY.",
            ),
            Refusal::NotLocal => (
                403,
                "Only this machine may publish: set [publish] key in the server's configuration and send it, \
                 or start the server with --open-publish.",
            ),
            Refusal::Network => {
                (403, "This address is not in [publish] networks of the server's configuration.")
            }
            Refusal::ForeignPage => (403, "A web page may publish only to the server that it came from."),
        }
    }
}

impl PublishPolicy {
    /// Whether `peer` may publish with `request`.
    ///
    /// Keys are compared in constant time. A request that a browser sends for a page of another origin is
    /// refused: such a page could otherwise publish from this machine in its user's name.
    pub fn check(&self, peer: IpAddr, request: &Request) -> Result<(), Refusal> {
        if is_from_foreign_page(request) {
            return Err(Refusal::ForeignPage);
        }
        if !self.networks.contain(peer) {
            return Err(Refusal::Network);
        }
        match &self.key {
            Some(key) => {
                let header = request.headers.first("authorization").and_then(credential);
                let shown = header.or_else(|| request.parameter("key")).unwrap_or_default();
                if bool::from(shown.as_bytes().ct_eq(key.as_bytes())) { Ok(()) } else { Err(Refusal::Key) }
            }
            None if self.open || !self.networks.are_all() || peer.to_canonical().is_loopback() => Ok(()),
            None => Err(Refusal::NotLocal),
        }
    }

    /// Whether `peer` may see who watches: addresses are personal data. This machine may, the networks that are named
    /// here, and who shows the key; nobody just because everybody may publish. What a proxy passes on comes from this
    /// machine only to all appearance, and needs the key.
    pub fn may_see_viewers(&self, peer: IpAddr, request: &Request) -> Result<(), Refusal> {
        let proxied = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
        let is_passed_on = proxied.iter().any(|name| request.headers.first(name).is_some());
        let is_named = !self.networks.are_all() && self.networks.contain(peer);
        let is_near = !is_passed_on && (is_named || peer.to_canonical().is_loopback());
        let closed = PublishPolicy { open: false, ..self.clone() };
        match closed.check(peer, request) {
            Err(Refusal::ForeignPage) => Err(Refusal::ForeignPage),
            _ if is_near => Ok(()),
            Ok(()) if self.key.is_some() => Ok(()),
            Ok(()) => Err(Refusal::NotLocal),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Whether a browser sends `request` for a page that is not this server's own.
pub fn is_from_foreign_page(request: &Request) -> bool {
    request.headers.first("origin").is_some_and(|origin| {
        let host = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        host.is_none() || host != request.headers.first("host")
    })
}

/// The secret in an `Authorization` field: a bearer token (RFC 6750 §2.1) or a Basic password (RFC 7617 §2), which
/// is what `http://user:KEY@host/` becomes in FFmpeg and curl.
fn credential(field: &str) -> Option<String> {
    let (scheme, value) = field.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Limits;
    use crate::http1::server::{Event, Server};
    use glassline_media::Time;

    fn request(target: &str, fields: &str) -> Request {
        let wire = format!("PUT {target} HTTP/1.1\r\nHost: relay:8080\r\n{fields}\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        match server.next(&mut wire.as_bytes(), Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_watches_is_told_to_this_machine_named_networks_and_who_has_the_key() {
        let ask = |policy: &PublishPolicy, peer: &str, target: &str, fields: &str| {
            policy.may_see_viewers(peer.parse().unwrap(), &request(target, fields))
        };
        let open = PublishPolicy { open: true, ..PublishPolicy::default() };
        assert_eq!(ask(&open, "127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&open, "::ffff:127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&open, "192.0.2.7", "/", ""), Err(Refusal::NotLocal), "open is for publishers");
        assert_eq!(ask(&open, "127.0.0.1", "/", "X-Forwarded-For: 192.0.2.7\r\n"), Err(Refusal::NotLocal));
        assert_eq!(ask(&open, "127.0.0.1", "/", "Origin: http://elsewhere\r\n"), Err(Refusal::ForeignPage));
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let named = PublishPolicy { networks, ..PublishPolicy::default() };
        assert_eq!(ask(&named, "192.0.2.7", "/", ""), Ok(()));
        assert_eq!(ask(&named, "127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&named, "198.51.100.1", "/", ""), Err(Refusal::Network));
        let keyed = PublishPolicy { key: Some("secret".into()), ..PublishPolicy::default() };
        assert_eq!(ask(&keyed, "127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&keyed, "192.0.2.7", "/", ""), Err(Refusal::Key));
        assert_eq!(ask(&keyed, "192.0.2.7", "/?key=secret", ""), Ok(()));
        let passed_on = "Via: 1.1 proxy\r\nAuthorization: Bearer secret\r\n";
        assert_eq!(ask(&keyed, "127.0.0.1", "/", passed_on), Ok(()));
        assert_eq!(ask(&keyed, "127.0.0.1", "/", "Via: 1.1 proxy\r\n"), Err(Refusal::Key));
    }

    #[test]
    fn without_a_key_only_this_machine_publishes() {
        let policy = PublishPolicy::default();
        let request = request("/live/a.ts", "");
        let far: IpAddr = "192.0.2.7".parse().unwrap();
        assert_eq!(policy.check("127.0.0.1".parse().unwrap(), &request), Ok(()));
        assert_eq!(policy.check("::1".parse().unwrap(), &request), Ok(()));
        assert_eq!(policy.check("::ffff:127.0.0.1".parse().unwrap(), &request), Ok(()));
        assert_eq!(policy.check(far, &request), Err(Refusal::NotLocal));
        let open = PublishPolicy { open: true, ..policy };
        assert_eq!(open.check(far, &request), Ok(()));
    }

    #[test]
    fn with_a_key_everybody_needs_it() {
        let policy = PublishPolicy { key: Some("s3cret".into()), open: true, ..PublishPolicy::default() };
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(policy.check(here, &request("/live/a.ts", "")), Err(Refusal::Key));
        assert_eq!(policy.check(here, &request("/live/a.ts?key=s3cre", "")), Err(Refusal::Key));
        assert_eq!(policy.check(here, &request("/live/a.ts?key=s3cret", "")), Ok(()));
        assert_eq!(policy.check(here, &request("/live/a.ts", "Authorization: bearer s3cret\r\n")), Ok(()));
        let basic = |text: &str| format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text));
        assert_eq!(policy.check(here, &request("/live/a.ts", &basic("me:s3cret"))), Ok(()));
        assert_eq!(policy.check(here, &request("/live/a.ts", &basic("s3cret"))), Err(Refusal::Key));
        assert_eq!(
            policy.check(here, &request("/live/a.ts", "Authorization: Basic ===\r\n")),
            Err(Refusal::Key)
        );
        assert!(!format!("{policy:?}").contains("s3cret"));
    }

    #[test]
    fn a_network_that_is_named_may_and_no_other() {
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let policy = PublishPolicy { networks, ..PublishPolicy::default() };
        let plain = request("/live/a.ts", "");
        assert_eq!(policy.check("192.0.2.7".parse().unwrap(), &plain), Ok(()));
        assert_eq!(policy.check("127.0.0.1".parse().unwrap(), &plain), Err(Refusal::Network));
        let policy = PublishPolicy { key: Some("s3cret".into()), ..policy };
        assert_eq!(policy.check("192.0.2.7".parse().unwrap(), &plain), Err(Refusal::Key));
    }

    #[test]
    fn a_foreign_page_may_not_publish_through_a_browser() {
        let policy = PublishPolicy::default();
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let foreign = request("/live/a.ts", "Origin: https://evil.example\r\n");
        assert_eq!(policy.check(here, &foreign), Err(Refusal::ForeignPage));
        assert_eq!(policy.check(here, &request("/live/a.ts", "Origin: http://relay:8080\r\n")), Ok(()));
    }
}
