//! What others offer.

use super::{Daemon, Scope, check_interface, io_error};
use mdns_sd::{Receiver, ResolvedService, ScopedIp, ServiceEvent};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Instant;

/// Addresses of one service, at most.
const MAX_ADDRESSES: usize = 16;
/// Properties of one service, at most.
const MAX_PROPERTIES: usize = 32;

/// A service as it was announced, which anybody in the network may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What people call it. Any characters may be in it.
    pub name: String,
    /// The machine's name.
    pub host: String,
    /// Where it listens, the most promising first: IPv4, IPv6, IPv6 at one link (with its scope), this machine alone.
    pub addresses: Vec<SocketAddr>,
    /// What else is told of it.
    pub properties: BTreeMap<String, String>,
}

/// What a [`Browser`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there, or something of it has changed.
    Found(Found),
    /// The service of this name has gone.
    Gone(String),
}

/// Asks for services of one type, and goes on asking, more and more seldom.
#[derive(Debug)]
pub struct Browser {
    /// Asks until it is dropped.
    _daemon: Daemon,
    events: Receiver<ServiceEvent>,
    kind: String,
}

impl Browser {
    /// Asks for services of type `kind` (`_NAME._udp.local.`), at all interfaces or at one.
    ///
    /// # Errors
    /// `NotFound` where there is no such interface; what the system says where there is no thread or descriptor left.
    pub fn new(kind: &str, interface: Option<&str>) -> io::Result<Browser> {
        check_interface(interface)?;
        let daemon = Daemon::new()?;
        let any = Ipv6Addr::UNSPECIFIED.into();
        Scope { interface: interface.map(str::to_owned), address: any }.restrict(&daemon)?;
        let events = daemon.0.browse(kind).map_err(io_error)?;
        Ok(Browser { _daemon: daemon, events, kind: kind.to_owned() })
    }

    /// The next that is new; waits for it until `deadline`. `None` also where the network tells more than anybody can
    /// take.
    pub fn next(&self, deadline: Instant) -> Option<Change> {
        loop {
            match self.events.recv_deadline(deadline).ok()? {
                ServiceEvent::ServiceResolved(service) => {
                    if let Some(found) = Found::new(&service, &self.kind) {
                        return Some(Change::Found(found));
                    }
                }
                ServiceEvent::ServiceRemoved(_, name) => {
                    return Some(Change::Gone(instance_name(&name, &self.kind)));
                }
                _ => {}
            }
        }
    }
}

impl Found {
    /// `None` where nothing can be reached.
    pub(super) fn new(service: &ResolvedService, kind: &str) -> Option<Found> {
        let mut addresses: Vec<_> = service
            .addresses
            .iter()
            .map(|address| socket_address(address, service.port))
            .filter(|address| {
                address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
            })
            .collect();
        addresses.sort_by_key(|address| (rank(address.ip()), *address));
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        let properties = service
            .txt_properties
            .iter()
            .take(MAX_PROPERTIES)
            .map(|property| {
                let value = String::from_utf8_lossy(property.val().unwrap_or_default());
                (property.key().to_owned(), value.into_owned())
            })
            .collect();
        let name = instance_name(&service.fullname, kind);
        let host = service.host.trim_end_matches('.').to_owned();
        (!addresses.is_empty()).then_some(Found { name, host, addresses, properties })
    }
}

fn socket_address(address: &ScopedIp, port: u16) -> SocketAddr {
    match (address.to_ip_addr(), address) {
        (IpAddr::V6(ip), ScopedIp::V6(scoped)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, scoped.scope_id().index).into()
        }
        (ip, _) => SocketAddr::new(ip, port),
    }
}

/// Lower is more promising. A machine that has several is best reached by what routers know.
pub(super) fn rank(ip: IpAddr) -> u8 {
    match ip {
        ip if ip.is_loopback() => 4,
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 3,
        IpAddr::V6(_) => 1,
    }
}

/// What stands before the type, which is compared without regard to case. The announcing machine chooses `full`: the
/// type's length from its end may lie within a letter.
pub(super) fn instance_name(full: &str, kind: &str) -> String {
    let parts = full.len().checked_sub(kind.len()).and_then(|at| full.split_at_checked(at));
    match parts.and_then(|(front, rest)| Some((front.strip_suffix('.')?, rest))) {
        Some((name, rest)) if rest.eq_ignore_ascii_case(kind) => name.to_owned(),
        _ => full.to_owned(),
    }
}
