//! Which datagrams are received.

use std::net::{IpAddr, SocketAddr};

/// What is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Our own address, or a multicast group's, which is joined. `[::]` takes IPv4 too.
    pub address: SocketAddr,
    /// The network interface at which a group is joined; the routing table chooses without one.
    pub interface: Option<String>,
    /// The one sender from which datagrams to the group are received (source-specific multicast).
    pub sender: Option<IpAddr>,
}
