//! UDP out: to an address, or to a multicast group.

use super::{BATCH_DATAGRAMS, empty_message, interface_index};
use crate::header_marks;
use crate::tcp::wait_is_none;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Where datagrams go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// A machine's address, or a multicast group's.
    pub address: SocketAddr,
    /// The network interface by which a group is sent to; the routing table chooses without one.
    pub interface: Option<String>,
    /// The address of ours that it comes from, which receivers of one source ask for; the system chooses without one.
    pub source: Option<IpAddr>,
    /// Networks that a datagram may pass (TTL, IPv6: hop limit). Without one it is 1 for groups, so that they stay in
    /// their network, and what the system does elsewhere.
    pub ttl: Option<u8>,
    /// The class that routers are asked to treat the datagrams as (DSCP, RFC 2474), 63 at most; what the system does without one,
    /// usually 0.
    pub dscp: Option<u8>,
    /// Whether datagrams of IPv6 bear a flow label (RFC 6437), which the kernel derives from addresses and ports; the system
    /// decides without it (`net.ipv6.auto_flowlabels`).
    pub flow_label: Option<bool>,
}

impl Route {
    /// To `address`, and all else as the system does it.
    pub const fn to(address: SocketAddr) -> Route {
        Route { address, interface: None, source: None, ttl: None, dscp: None, flow_label: None }
    }
}

/// A non-blocking socket that sends to one place. It is no error where no process listens there.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    to: SockAddr,
}

impl Sender {
    /// Opens a socket. Fails with `NotFound` where there is no such interface, with `AddrNotAvailable` where the source is
    /// no address of ours, with `InvalidInput` where there is no such DSCP.
    pub fn open(route: &Route) -> io::Result<Sender> {
        let (socket, to) = open(route)?;
        Ok(Sender { socket, to })
    }

    /// Sends the first [`BATCH_DATAGRAMS`] of `datagrams` by one system call. Returns how many of them were sent, at
    /// least one of several; `None` where the socket takes nothing now. An error is the first one's; it was not sent.
    #[allow(unsafe_code)]
    pub fn send(&self, datagrams: &[&[u8]]) -> io::Result<Option<usize>> {
        let count = datagrams.len().min(BATCH_DATAGRAMS);
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_DATAGRAMS];
        let mut messages = [empty_message(); BATCH_DATAGRAMS];
        for ((message, vector), datagram) in messages.iter_mut().zip(&mut vectors).zip(datagrams) {
            *vector = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
            let header = &mut message.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (vector, 1);
            (header.msg_name, header.msg_namelen) = (self.to.as_ptr().cast_mut().cast(), self.to.len());
        }
        wait_is_none(|| {
            // SAFETY: each of the first `count` messages names one vector and the address, each vector a datagram with its
            // length; all of them live until the call is over. The kernel writes to the messages' own lengths alone.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    count as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A non-blocking socket that sends as `route` says, and the address to send to.
pub(super) fn open(route: &Route) -> io::Result<(Socket, SockAddr)> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(route.address), kind, Some(Protocol::UDP))?;
    let interface = interface_index(&socket, route.interface.as_deref())?;
    header_marks::set(&socket, route.dscp, route.flow_label)?;
    if let Some(source) = route.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    let ttl = route.ttl.map(u32::from);
    let to = match route.address {
        SocketAddr::V4(group) if group.ip().is_multicast() => {
            socket.set_multicast_ttl_v4(ttl.unwrap_or(1))?;
            if interface != 0 {
                set_multicast_interface_v4(&socket, interface)?;
            }
            route.address
        }
        SocketAddr::V6(group) if group.ip().is_multicast() => {
            socket.set_multicast_hops_v6(ttl.unwrap_or(1))?;
            socket.set_multicast_if_v6(interface)?;
            // Groups that mean something on one link alone are sent to with it (RFC 4007 §6).
            SocketAddrV6::new(*group.ip(), group.port(), 0, interface).into()
        }
        SocketAddr::V4(_) => {
            ttl.map_or(Ok(()), |ttl| socket.set_ttl_v4(ttl))?;
            route.address
        }
        SocketAddr::V6(_) => {
            ttl.map_or(Ok(()), |ttl| socket.set_unicast_hops_v6(ttl))?;
            route.address
        }
    };
    Ok((socket, to.into()))
}

/// Which interface sends to groups; for IPv4 there is no other way to name it by its number.
#[allow(unsafe_code)]
fn set_multicast_interface_v4(socket: &Socket, index: u32) -> io::Result<()> {
    let any = libc::in_addr { s_addr: 0 };
    let request = libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: index as libc::c_int };
    // SAFETY: the pointer is to a whole `ip_mreqn`, and its length is given with it; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            (&raw const request).cast(),
            size_of_val(&request) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Inbox, Receiver, Settings};
    use std::time::{Duration, Instant};

    fn route(address: SocketAddr, interface: Option<&str>, ttl: Option<u8>) -> Route {
        Route { interface: interface.map(str::to_owned), ttl, ..Route::to(address) }
    }

    /// Sends numbered datagrams and sees them arrive.
    fn sends(address: &str, interface: Option<&str>, from: Option<&str>) {
        let (address, name) = (address.parse().unwrap(), interface.map(str::to_owned));
        let sender = from.map(|from| from.parse().unwrap());
        let receiver = Receiver::open(&Settings { address, interface: name, sender }).unwrap();
        let to = receiver.local_address().unwrap();
        let out = Sender::open(&Route { source: sender, ..route(to, interface, Some(3)) }).unwrap();
        let datagrams: Vec<Vec<u8>> = (0..80u8).map(|number| vec![number; usize::from(number)]).collect();
        let parts: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
        let mut sent = 0;
        while sent < parts.len() {
            sent += out.send(&parts[sent..]).unwrap().unwrap_or(0);
        }
        let (mut inbox, mut got) = (Inbox::default(), Vec::new());
        let deadline = Instant::now() + Duration::from_secs(20);
        while got.len() < parts.len() {
            receiver.receive(&mut inbox).unwrap();
            got.extend(inbox.datagrams().map(<[u8]>::to_vec));
            assert!(Instant::now() < deadline, "{} datagrams", got.len());
        }
        assert_eq!(got, datagrams);
    }

    #[test]
    fn datagrams_reach_an_address() {
        sends("127.0.0.1:0", None, None);
    }

    #[test]
    fn datagrams_reach_a_group_and_a_receiver_of_one_source() {
        sends("239.255.77.2:0", Some("lo"), None);
        sends("239.255.77.2:0", Some("lo"), Some("127.0.0.1"));
    }

    #[test]
    fn groups_stay_in_their_network_unless_asked() {
        let open = |to: &str, ttl| Sender::open(&route(to.parse().unwrap(), None, ttl)).unwrap().socket;
        assert_eq!(open("239.1.2.3:5000", None).multicast_ttl_v4().unwrap(), 1);
        assert_eq!(open("239.1.2.3:5000", Some(16)).multicast_ttl_v4().unwrap(), 16);
        assert_eq!(open("127.0.0.1:5000", Some(3)).ttl_v4().unwrap(), 3);
    }

    #[test]
    fn what_cannot_leave_is_told() {
        let error =
            Sender::open(&route("239.1.2.3:5000".parse().unwrap(), Some("nowhere0"), None)).unwrap_err();
        assert!(error.to_string().contains("nowhere0"), "{error}");
        let foreign =
            Route { source: "192.0.2.1".parse().ok(), ..route(([127, 0, 0, 1], 9).into(), None, None) };
        assert_eq!(Sender::open(&foreign).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        let out = Sender::open(&route("127.0.0.1:9".parse().unwrap(), None, None)).unwrap();
        // Nobody listens there, and nobody minds.
        for _ in 0..3 {
            assert_eq!(out.send(&[b"a", b"b"]).unwrap(), Some(2));
        }
        let too_long = vec![0; 70_000];
        assert_eq!(out.send(&[b"a", &too_long]).unwrap(), Some(1));
        assert_eq!(out.send(&[&too_long]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(out.send(&[]).unwrap(), Some(0));
    }
}
