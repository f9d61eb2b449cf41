//! Who may see what, besides streams' bytes: what is for operators only, who watches, and which streams there are.

use crate::relay::certificates::Certificates;
use crate::relay::hub::Hub;
use crate::relay::{ListenerRole, Settings};
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{Caller, Hosts, KnownHosts, Refusal, StreamName};
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
    /// Whether `request` of `peer`, which came in by `door`, may see what is for operators only: metrics, encoders, where streams
    /// come from and go to. By the admin listener whoever is in [`Settings::admin_networks`] may, or everybody who reaches
    /// it where there are none; elsewhere only this machine and those networks. Pages of others may not.
    pub fn is_crew(&self, door: ListenerRole, peer: IpAddr, request: &Request) -> Result<(), Refusal> {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = Caller { peer, request, hosts: &hosts };
        let networks = &settings.admin_networks;
        let is_near = caller.is_loopback() || networks.name(peer);
        match door {
            ListenerRole::Public => Err(Refusal::NotCrew),
            _ if caller.is_foreign_page() => Err(Refusal::ForeignPage),
            // A proxy may stand before it; whom that lets in is its business.
            ListenerRole::Admin if networks.are_all() => Ok(caller.check_host()?),
            ListenerRole::Admin | ListenerRole::Shared if is_near => Ok(caller.check_address()?),
            ListenerRole::Admin | ListenerRole::Shared => Err(Refusal::NotCrew),
        }
    }

    /// Whether it may see who watches, addresses and all, and ask encoders for something: who is an operator at the admin
    /// listener; where there is none, whom
    /// [`PublishPolicy::may_see_viewers`](glassline_delivery::policy::PublishPolicy::may_see_viewers) names.
    pub fn may_see_viewers(
        &self,
        door: ListenerRole,
        peer: IpAddr,
        request: &Request,
    ) -> Result<(), Refusal> {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = Caller { peer, request, hosts: &hosts };
        match door {
            ListenerRole::Public => Err(Refusal::NotLocal),
            ListenerRole::Admin => self.is_crew(door, peer, request),
            ListenerRole::Shared => {
                settings.rules.general.publish.may_see_viewers(&caller, &settings.admin_networks)
            }
        }
    }

    /// Whether it may know that there is a stream called `name`: who may watch it, and the operators.
    pub fn may_know(&self, name: &StreamName, door: ListenerRole, peer: IpAddr, request: &Request) -> bool {
        let settings = self.settings();
        let hosts = OwnHosts::of(self, &settings);
        let caller = Caller { peer, request, hosts: &hosts };
        let watch = &settings.rules.of(name).watch;
        watch.check(&caller, name, self.clock().utc()).is_ok() || self.is_crew(door, peer, request).is_ok()
    }
}
