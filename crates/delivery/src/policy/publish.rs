//! Which clients may publish.

use super::{Caller, Networks, Refusal, Secret, credential};
use std::fmt;

/// Which clients may publish.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PublishPolicy {
    /// The secret that a publisher must show: `Authorization: Bearer KEY`, the password of Basic authentication
    /// (any user name), or `?key=KEY`.
    pub key: Option<Secret>,
    /// Without a key: whether others than this machine may publish.
    pub open: bool,
    /// From where publishing is allowed at all; without a key, those there need none, unless a proxy passes them on.
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

impl PublishPolicy {
    /// Whether `caller` may publish with its request.
    ///
    /// Keys are compared in constant time. A request that a browser sends for a page of another origin is refused: such a
    /// page could otherwise publish from this machine in its user's name. Where nothing but the address lets in, that has
    /// to be believable ([`Caller::check_address`]).
    pub fn check(&self, caller: &Caller<'_>) -> Result<(), Refusal> {
        if caller.route.is_foreign_page {
            return Err(Refusal::ForeignPage);
        }
        if !self.networks.contain(caller.peer) {
            return Err(Refusal::Network);
        }
        match &self.key {
            Some(key) => check_key(key, caller),
            None if self.open && self.networks.are_all() => Ok(()),
            None if !self.networks.are_all() || caller.is_loopback() => Ok(caller.check_address()?),
            None => Err(Refusal::NotLocal),
        }
    }

    /// Whether `caller` may see the viewers, and ask encoders for something: viewers' addresses are personal data. With a
    /// key every caller has to show it. Without one, this machine may, and the networks that are named here or are those of
    /// the `operators`, but no request that a proxy passed on. That all clients may publish is not enough.
    pub fn may_see_viewers(&self, caller: &Caller<'_>, operators: &Networks) -> Result<(), Refusal> {
        if caller.route.is_foreign_page {
            return Err(Refusal::ForeignPage);
        }
        let is_near = caller.is_loopback() || operators.name(caller.peer) || self.networks.name(caller.peer);
        match &self.key {
            Some(_) if !is_near && !self.networks.contain(caller.peer) => Err(Refusal::Network),
            Some(key) => check_key(key, caller),
            None if is_near => Ok(caller.check_address()?),
            None if self.networks.are_all() => Err(Refusal::NotLocal),
            None => Err(Refusal::Network),
        }
    }
}

fn check_key(key: &str, caller: &Caller<'_>) -> Result<(), Refusal> {
    let shown = caller.credential.publish_key().unwrap_or_default();
    credential::is_key(key, shown).then_some(()).ok_or(Refusal::Key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::access::tests::{from, request as parse};
    use crate::http1::server::Request;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    fn request(target: &str, fields: &str) -> Request {
        let host = if fields.contains("Host: ") { "" } else { "Host: relay.example:8080\r\n" };
        parse(&format!("PUT {target} HTTP/1.1"), &format!("{host}{fields}"))
    }

    fn check(policy: &PublishPolicy, peer: &str, request: &Request) -> Result<(), Refusal> {
        from(peer, request, |caller| policy.check(caller))
    }

    const EVIL: &str = "Host: evil:80\r\nOrigin: http://evil:80\r\n";
    const PROXIED: [&str; 3] =
        ["Forwarded: for=192.0.2.7\r\n", "X-Forwarded-Proto: https\r\n", "Via: 1.1 proxy\r\n"];

    #[test]
    fn who_watches_is_told_to_this_machine_named_networks_and_who_has_the_key() {
        let operators = Networks::parse(["203.0.113.0/24"]).unwrap();
        let ask = |policy: &PublishPolicy, peer: &str, target: &str, fields: &str| {
            from(peer, &request(target, fields), |caller| policy.may_see_viewers(caller, &operators))
        };
        let open = PublishPolicy { open: true, ..PublishPolicy::default() };
        assert_eq!(ask(&open, "127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&open, "::ffff:127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&open, "192.0.2.7", "/", ""), Err(Refusal::NotLocal), "open is for publishers");
        assert_eq!(ask(&open, "203.0.113.9", "/", ""), Ok(()));
        assert_eq!(ask(&open, "127.0.0.1", "/", "Origin: http://elsewhere\r\n"), Err(Refusal::ForeignPage));
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let named = PublishPolicy { networks, ..PublishPolicy::default() };
        assert_eq!(ask(&named, "192.0.2.7", "/", ""), Ok(()));
        assert_eq!(ask(&named, "127.0.0.1", "/", ""), Ok(()));
        assert_eq!(ask(&named, "198.51.100.1", "/", ""), Err(Refusal::Network));
        for peer in ["127.0.0.1", "192.0.2.7", "203.0.113.9"] {
            assert_eq!(ask(&named, peer, "/", EVIL), Err(Refusal::Host), "{peer}");
            for field in PROXIED {
                assert_eq!(ask(&named, peer, "/", field), Err(Refusal::Proxied), "{peer} {field}");
            }
        }
    }

    #[test]
    fn with_a_key_everybody_needs_it_to_see_who_watches() {
        let operators = Networks::parse(["203.0.113.0/24"]).unwrap();
        let ask = |policy: &PublishPolicy, peer: &str, target: &str, fields: &str| {
            from(peer, &request(target, fields), |caller| policy.may_see_viewers(caller, &operators))
        };
        let keyed = PublishPolicy { key: Some("secret".into()), ..PublishPolicy::default() };
        for peer in ["127.0.0.1", "192.0.2.7", "203.0.113.9"] {
            assert_eq!(ask(&keyed, peer, "/", ""), Err(Refusal::Key), "{peer}");
            assert_eq!(ask(&keyed, peer, "/?key=secret", ""), Ok(()), "{peer}");
            assert_eq!(ask(&keyed, peer, "/", "Via: 1.1 proxy\r\n"), Err(Refusal::Key), "{peer}");
            let passed_on = "Via: 1.1 proxy\r\nAuthorization: Bearer secret\r\n";
            assert_eq!(ask(&keyed, peer, "/", passed_on), Ok(()), "{peer}");
        }
        assert_eq!(
            ask(&keyed, "127.0.0.1", "/?key=secret", "Origin: http://evil\r\n"),
            Err(Refusal::ForeignPage)
        );
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let both = PublishPolicy { networks, ..keyed };
        assert_eq!(ask(&both, "198.51.100.1", "/?key=secret", ""), Err(Refusal::Network));
        assert_eq!(ask(&both, "127.0.0.1", "/?key=secret", ""), Ok(()));
    }

    #[test]
    fn without_a_key_only_this_machine_publishes() {
        let policy = PublishPolicy::default();
        let request = request("/live/a.ts", "");
        assert_eq!(check(&policy, "127.0.0.1", &request), Ok(()));
        assert_eq!(check(&policy, "::1", &request), Ok(()));
        assert_eq!(check(&policy, "::ffff:127.0.0.1", &request), Ok(()));
        assert_eq!(check(&policy, "192.0.2.7", &request), Err(Refusal::NotLocal));
        let open = PublishPolicy { open: true, ..policy };
        assert_eq!(check(&open, "192.0.2.7", &request), Ok(()));
    }

    /// A page at a name of its owner's that points to this machine sends that name as Host and as Origin.
    #[test]
    fn where_the_address_alone_lets_in_it_has_to_be_believable() {
        let networks = Networks::parse(["192.0.2.0/24", "127.0.0.0/8"]).unwrap();
        let named = PublishPolicy { networks: networks.clone(), ..PublishPolicy::default() };
        let named_open = PublishPolicy { open: true, ..named.clone() };
        for (policy, peer) in
            [(&PublishPolicy::default(), "127.0.0.1"), (&named, "192.0.2.7"), (&named_open, "127.0.0.1")]
        {
            assert_eq!(check(policy, peer, &request("/live/a.ts?takeover=1", EVIL)), Err(Refusal::Host));
            for field in PROXIED {
                assert_eq!(
                    check(policy, peer, &request("/live/a.ts", field)),
                    Err(Refusal::Proxied),
                    "{field}"
                );
            }
            let cross = request("/live/a.ts", "Sec-Fetch-Site: cross-site\r\n");
            assert_eq!(check(policy, peer, &cross), Err(Refusal::ForeignPage));
        }
        // A key says who asks, wherever that is; and where anybody may, nothing has to be believed.
        let keyed = PublishPolicy { key: Some("s3cret".into()), networks, ..PublishPolicy::default() };
        let open = PublishPolicy { open: true, ..PublishPolicy::default() };
        for fields in [EVIL, PROXIED[0], PROXIED[1], PROXIED[2]] {
            assert_eq!(check(&keyed, "127.0.0.1", &request("/live/a.ts?key=s3cret", fields)), Ok(()));
            assert_eq!(check(&keyed, "127.0.0.1", &request("/live/a.ts", fields)), Err(Refusal::Key));
            assert_eq!(check(&open, "198.51.100.1", &request("/live/a.ts", fields)), Ok(()));
        }
    }

    #[test]
    fn with_a_key_everybody_needs_it() {
        let policy = PublishPolicy { key: Some("s3cret".into()), open: true, ..PublishPolicy::default() };
        let ask = |target: &str, fields: &str| check(&policy, "127.0.0.1", &request(target, fields));
        assert_eq!(ask("/live/a.ts", ""), Err(Refusal::Key));
        assert_eq!(ask("/live/a.ts?key=s3cre", ""), Err(Refusal::Key));
        assert_eq!(ask("/live/a.ts?key=s3cret", ""), Ok(()));
        assert_eq!(ask("/live/a.ts", "Authorization: bearer s3cret\r\n"), Ok(()));
        let basic = |text: &str| format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text));
        assert_eq!(ask("/live/a.ts", &basic("me:s3cret")), Ok(()));
        assert_eq!(ask("/live/a.ts", &basic("s3cret")), Err(Refusal::Key));
        assert_eq!(ask("/live/a.ts", "Authorization: Basic ===\r\n"), Err(Refusal::Key));
        assert!(!format!("{policy:?}").contains("s3cret"));
    }

    #[test]
    fn a_network_that_is_named_may_and_no_other() {
        let networks = Networks::parse(["192.0.2.0/24"]).unwrap();
        let policy = PublishPolicy { networks, ..PublishPolicy::default() };
        let plain = request("/live/a.ts", "");
        assert_eq!(check(&policy, "192.0.2.7", &plain), Ok(()));
        assert_eq!(check(&policy, "127.0.0.1", &plain), Err(Refusal::Network));
        let policy = PublishPolicy { key: Some("s3cret".into()), ..policy };
        assert_eq!(check(&policy, "192.0.2.7", &plain), Err(Refusal::Key));
    }

    #[test]
    fn a_foreign_page_may_not_publish_through_a_browser() {
        let policy = PublishPolicy::default();
        let foreign = request("/live/a.ts", "Origin: https://evil.example\r\n");
        assert_eq!(check(&policy, "127.0.0.1", &foreign), Err(Refusal::ForeignPage));
        let own = request("/live/a.ts", "Origin: http://relay.example:8080\r\n");
        assert_eq!(check(&policy, "127.0.0.1", &own), Ok(()));
    }
}
