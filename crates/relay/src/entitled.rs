//! Which callers may see what besides streams' bytes: what is for operators only, the viewers, and which streams there
//! are.

use crate::certificates::Certificates;
use crate::hub::Hub;
use crate::{ListenerRole, Settings};
use glassline_delivery::http1::access::caller;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{Hosts, KnownHosts, Refusal, StreamName, Token};
use std::net::IpAddr;

/// The names that a relay is called by: those that are configured, and those of its certificates.
pub(super) struct OwnHosts<'a> {
    configured: &'a Hosts,
    certificates: &'a Certificates,
}

impl<'a> OwnHosts<'a> {
    pub(super) fn of(hub: &'a Hub, settings: &'a Settings) -> OwnHosts<'a> {
        OwnHosts { configured: &settings.hosts, certificates: &hub.certificates }
    }
}

impl KnownHosts for OwnHosts<'_> {
    fn has(&self, name: &str) -> bool {
        self.configured.has(name) || self.certificates.have_name(name)
    }
}

impl Hub {
    /// Whether `request` of `peer`, which came in by a listener of this `role`, may see what is for operators only:
    /// metrics, encoders, where streams come from and go to. On the admin listener every caller may where
    /// [`Settings::admin_networks`] are not given; otherwise only this machine and those networks may, and on a public
    /// listener none. Web pages of other servers may not.
    pub fn is_operator(&self, role: ListenerRole, peer: IpAddr, request: &Request) -> Result<(), Refusal> {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = caller(peer, request, &hosts);
        let networks = &settings.admin_networks;
        let is_near = caller.is_loopback() || networks.name(peer);
        match role {
            ListenerRole::Public => Err(Refusal::NotOperator),
            _ if caller.route.is_foreign_page => Err(Refusal::ForeignPage),
            // Where a proxy stands before the listener, the proxy decides which callers reach it.
            ListenerRole::Admin if networks.are_all() => Ok(caller.check_host()?),
            ListenerRole::Admin | ListenerRole::Shared if is_near => Ok(caller.check_address()?),
            ListenerRole::Admin | ListenerRole::Shared => Err(Refusal::NotOperator),
        }
    }

    /// Whether the caller may see the viewers with their addresses, and ask encoders for something. Where there is an
    /// admin listener, operators may on that listener alone; where there is none, the callers may that
    /// [`PublishPolicy::may_see_viewers`](glassline_delivery::policy::PublishPolicy::may_see_viewers) allows.
    pub fn may_see_viewers(
        &self,
        role: ListenerRole,
        peer: IpAddr,
        request: &Request,
    ) -> Result<(), Refusal> {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = caller(peer, request, &hosts);
        match role {
            ListenerRole::Public => Err(Refusal::NotLocal),
            ListenerRole::Admin => self.is_operator(role, peer, request),
            ListenerRole::Shared => {
                settings.rules.general.publish.may_see_viewers(&caller, &settings.admin_networks)
            }
        }
    }

    /// Whether `request` of `peer` may see what is for the crew of an event: alarms, and streams that viewers need a token for. An
    /// operator may, and where there is no admin listener a caller that shows the publish key. A network from where publishing is
    /// allowed without a key is not enough, since viewers may be in it.
    pub fn is_crew(&self, role: ListenerRole, peer: IpAddr, request: &Request) -> Result<(), Refusal> {
        self.is_operator(role, peer, request).or_else(|refusal| {
            let has_key = self.settings().rules.general.publish.key.is_some();
            let is_shown = || self.may_see_viewers(role, peer, request).is_ok();
            if role == ListenerRole::Shared && has_key && is_shown() { Ok(()) } else { Err(refusal) }
        })
    }

    /// The query that an operator's links to `name` need; `None` where they need none.
    pub fn ticket(&self, name: &StreamName) -> Option<String> {
        let settings = self.settings();
        settings.rules.of(name).watch.ticket(name, self.clock().utc()).map(|token| token.query())
    }

    /// The query that an operator's links to the event `name` need; `None` where they need none.
    pub fn event_ticket(&self, name: &StreamName) -> Option<String> {
        let settings = self.settings();
        settings.rules.general.watch.event_ticket(name, self.clock().utc()).map(|token| token.query())
    }

    /// What lets the caller, which shows a token of the event `event`, into its stream `name`, as a query that is good as long as
    /// that token. `None` where it shows no such token, and where the stream has another key than the event: a key
    /// signs for itself alone.
    pub fn event_access(
        &self,
        event: &StreamName,
        name: &StreamName,
        peer: IpAddr,
        request: &Request,
    ) -> Option<String> {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = caller(peer, request, &hosts);
        let (general, own) = (&settings.rules.general.watch, &settings.rules.of(name).watch);
        let key = own.key.as_deref()?;
        let is_same_key = general.key.as_deref() == Some(key);
        let is_near = own.networks.contain(peer);
        let expires_s = general.event_expires_s(&caller, event, self.clock().utc())?;
        (is_same_key && is_near).then(|| Token::sign(key, name, expires_s).query())
    }

    /// Whether the caller may know that there is a stream called `name`: callers that may watch it, and operators, may.
    pub fn may_know(&self, name: &StreamName, role: ListenerRole, peer: IpAddr, request: &Request) -> bool {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = caller(peer, request, &hosts);
        let watch = &settings.rules.of(name).watch;
        watch.check(&caller, name, self.clock().utc()).is_ok()
            || self.is_operator(role, peer, request).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_streams::{hub, name};
    use glassline_delivery::http1::Limits;
    use glassline_delivery::http1::server::{Event, Server};
    use glassline_delivery::policy::{Networks, PublishPolicy, Rules, Secret, StreamRules, WatchPolicy};
    use glassline_media::Time;

    const HERE: &str = "127.0.0.1";
    const FAR: &str = "192.0.2.7";
    const NAMED: &str = "203.0.113.9";

    fn request(fields: &str) -> Request {
        let wire = format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{fields}\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        match server.next(&mut wire.as_bytes(), Time::ZERO) {
            Ok(Some(Event::Request(request))) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn settings(networks: &[&str]) -> Settings {
        let admin_networks = Networks::parse(networks.iter().copied()).unwrap();
        Settings { admin_networks, ..Settings::default() }
    }

    /// Who is an operator at this listener, of whom is here, far away, and in a network that is named.
    fn operators(networks: &[&str], role: ListenerRole, fields: &str) -> [bool; 3] {
        let (hub, request) = (hub(settings(networks), 1), request(fields));
        [HERE, FAR, NAMED].map(|peer| hub.is_operator(role, peer.parse().unwrap(), &request).is_ok())
    }

    #[test]
    fn operators_are_told_by_listener_and_network() {
        let named = ["203.0.113.0/24"];
        assert_eq!(operators(&[], ListenerRole::Public, ""), [false; 3]);
        assert_eq!(operators(&[], ListenerRole::Shared, ""), [true, false, false]);
        assert_eq!(operators(&[], ListenerRole::Admin, ""), [true; 3], "whoever reaches it");
        assert_eq!(operators(&named, ListenerRole::Public, ""), [false; 3]);
        assert_eq!(operators(&named, ListenerRole::Shared, ""), [true, false, true]);
        assert_eq!(operators(&named, ListenerRole::Admin, ""), [true, false, true]);
    }

    #[test]
    fn neither_a_foreign_page_nor_who_a_proxy_passes_on_is_an_operator() {
        for role in [ListenerRole::Shared, ListenerRole::Admin] {
            let page = "Origin: http://elsewhere.example\r\nSec-Fetch-Site: cross-site\r\n";
            assert_eq!(operators(&["203.0.113.0/24"], role, page), [false; 3], "{role:?}");
        }
        let proxied = "X-Forwarded-For: 198.51.100.1\r\n";
        assert_eq!(operators(&["203.0.113.0/24"], ListenerRole::Shared, proxied), [false; 3]);
    }

    #[test]
    fn a_stream_that_needs_a_token_is_known_to_operators_and_to_who_may_watch_it() {
        let watch = WatchPolicy { key: Some(Secret::new("a key")), ..WatchPolicy::default() };
        let closed = StreamRules { watch, ..StreamRules::default() };
        let rules = Rules { own: [(name("closed"), closed)].into(), ..Rules::default() };
        let (hub, request) = (hub(Settings { rules, ..Settings::default() }, 1), request(""));
        let knows =
            |stream, role, peer: &str| hub.may_know(&name(stream), role, peer.parse().unwrap(), &request);
        assert!(knows("open", ListenerRole::Public, FAR) && !knows("closed", ListenerRole::Public, FAR));
        assert!(knows("closed", ListenerRole::Shared, HERE) && !knows("closed", ListenerRole::Shared, FAR));
        assert!(knows("closed", ListenerRole::Admin, FAR));
    }

    #[test]
    fn who_watches_is_told_where_operators_are() {
        let (hub, request) = (hub(settings(&["203.0.113.0/24"]), 1), request(""));
        let sees = |role, peer: &str| hub.may_see_viewers(role, peer.parse().unwrap(), &request).is_ok();
        assert!(!sees(ListenerRole::Public, HERE));
        assert!(sees(ListenerRole::Admin, NAMED) && !sees(ListenerRole::Admin, FAR));
        assert!(sees(ListenerRole::Shared, HERE) && sees(ListenerRole::Shared, NAMED));
        assert!(!sees(ListenerRole::Shared, FAR));
    }

    #[test]
    fn the_crew_shows_the_publish_key_where_there_is_no_admin_listener() {
        let publish = |key: Option<&str>, networks: &[&str]| {
            let networks = Networks::parse(networks.iter().copied()).unwrap();
            let publish = PublishPolicy { key: key.map(Secret::new), networks, ..PublishPolicy::default() };
            let general = StreamRules { publish, ..StreamRules::default() };
            let rules = Rules { general, ..Rules::default() };
            hub(Settings { rules, ..settings(&["203.0.113.0/24"]) }, 1)
        };
        let is_crew = |hub: &Hub, role, peer: &str, fields: &str| {
            hub.is_crew(role, peer.parse().unwrap(), &request(fields)).is_ok()
        };
        let (keyed, shown) = (publish(Some("a publish key"), &[]), "Authorization: Bearer a publish key\r\n");
        assert!(is_crew(&keyed, ListenerRole::Shared, FAR, shown));
        assert!(!is_crew(&keyed, ListenerRole::Shared, FAR, ""));
        assert!(!is_crew(&keyed, ListenerRole::Shared, FAR, "Authorization: Bearer another key\r\n"));
        assert!(
            !is_crew(&keyed, ListenerRole::Public, FAR, shown)
                && !is_crew(&keyed, ListenerRole::Admin, FAR, shown)
        );
        assert!(
            is_crew(&keyed, ListenerRole::Shared, NAMED, "")
                && is_crew(&keyed, ListenerRole::Shared, HERE, "")
        );
        // From where publishing needs no key viewers may come, too.
        let near = publish(None, &["192.0.2.0/24"]);
        assert!(!is_crew(&near, ListenerRole::Shared, FAR, ""));
    }

    #[test]
    fn a_host_that_another_server_may_own_makes_no_operator_by_address() {
        let request = |host: &str| {
            let wire = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
            match server.next(&mut wire.as_bytes(), Time::ZERO) {
                Ok(Some(Event::Request(request))) => *request,
                other => panic!("{other:?}"),
            }
        };
        let hosts = glassline_delivery::policy::Hosts::parse(["relay.example"]).unwrap();
        let hub = hub(Settings { hosts, ..Settings::default() }, 1);
        let is_operator = |host, role| hub.is_operator(role, HERE.parse().unwrap(), &request(host)).is_ok();
        for role in [ListenerRole::Shared, ListenerRole::Admin] {
            assert!(is_operator("relay.example", role) && is_operator("localhost:80", role), "{role:?}");
            assert!(!is_operator("evil.example", role), "{role:?}");
        }
    }

    #[test]
    fn an_operators_link_to_a_stream_carries_a_token_where_that_needs_one() {
        let watch = WatchPolicy { key: Some(Secret::new("a key")), ..WatchPolicy::default() };
        let closed = StreamRules { watch, ..StreamRules::default() };
        let rules = Rules { own: [(name("closed"), closed)].into(), ..Rules::default() };
        let hub = hub(Settings { rules, ..Settings::default() }, 1);
        assert_eq!(hub.ticket(&name("open")), None);
        let query = hub.ticket(&name("closed")).expect("a token");
        assert!(query.starts_with("expires=") && query.contains("&token="), "{query}");
        // It opens that stream, and no other.
        let wire = format!("GET /live/closed.ts?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
        let Ok(Some(Event::Request(request))) = server.next(&mut wire.as_bytes(), Time::ZERO) else {
            panic!("a request")
        };
        let knows =
            |stream| hub.may_know(&name(stream), ListenerRole::Public, FAR.parse().unwrap(), &request);
        assert!(knows("closed"));
        let settings = hub.settings();
        let hosts = OwnHosts::of(&hub, &settings);
        let caller = caller(FAR.parse().unwrap(), &request, &hosts);
        assert!(
            settings
                .rules
                .of(&name("closed"))
                .watch
                .check(&caller, &name("other"), hub.clock().utc())
                .is_err()
        );
    }
}
