//! Sockets that datagrams come to: bound, joined to their group, and with room for datagrams that wait to be read. And
//! what other sockets have in common with them.

use super::settings::Settings;
use super::{interface_index, storage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use rustix::time::Timespec;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How much room a socket was asked to have in the kernel, and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What was asked for.
    pub asked_bytes: usize,
    /// What the kernel gives.
    pub granted_bytes: usize,
    /// The kernel's parameter that bounds it: [`Granted::RECEIVE`] or [`Granted::SEND`].
    pub limit: &'static str,
}

impl Granted {
    /// What bounds the room for datagrams that were not read yet.
    pub const RECEIVE: &'static str = "net.core.rmem_max";
    /// What bounds the room for datagrams that have not left yet.
    pub const SEND: &'static str = "net.core.wmem_max";

    /// Whether it is all that was asked for.
    pub fn is_all(&self) -> bool {
        self.granted_bytes >= self.asked_bytes
    }

    /// The command by which an administrator has the kernel give all of it; `None` where it does.
    pub fn advice(&self) -> Option<String> {
        (!self.is_all()).then(|| format!("sysctl -w {}={}", self.limit, self.asked_bytes))
    }
}

/// Waits until `what` holds of a socket, `timeout` has passed or a signal came. Returns whether it holds.
pub(super) fn wait(socket: &Socket, what: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
    wait_any(&mut [PollFd::new(socket, what)], timeout)
}

/// The same for any one of several sockets.
pub(super) fn wait_any(sockets: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(|wait| Timespec {
        tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    });
    match poll(sockets, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A non-blocking socket with room for `buffer_bytes`, or as much as the kernel gives. Where the machine has no IPv6, all
/// addresses are those of IPv4.
pub(super) fn open(settings: &Settings, buffer_bytes: usize) -> io::Result<Socket> {
    match open_exactly(settings, buffer_bytes) {
        Err(error)
            if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                && settings.address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) =>
        {
            let address = (Ipv4Addr::UNSPECIFIED, settings.address.port()).into();
            open_exactly(&Settings { address, ..settings.clone() }, buffer_bytes)
        }
        other => other,
    }
}

fn open_exactly(settings: &Settings, buffer_bytes: usize) -> io::Result<Socket> {
    let address = settings.address;
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    // What the kernel refuses here costs room alone.
    let _ = socket.set_recv_buffer_size(buffer_bytes);
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes);
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if address.ip().is_multicast() {
        socket.set_reuse_address(true)?;
        // Without this a socket gets what any program of the machine has joined, from any sender.
        match address {
            SocketAddr::V4(_) => socket.set_multicast_all_v4(false)?,
            SocketAddr::V6(_) => socket.set_multicast_all_v6(false)?,
        }
    }
    let interface = interface_index(&socket, settings.interface.as_deref())?;
    socket.bind(&SockAddr::from(match address {
        // Groups that mean something on one link alone are bound with it (RFC 4007 §6).
        SocketAddr::V6(group) if group.ip().is_multicast() => {
            SocketAddrV6::new(*group.ip(), group.port(), 0, interface).into()
        }
        address => address,
    }))?;
    if address.ip().is_multicast() {
        join(&socket, settings, interface)?;
    }
    Ok(socket)
}

/// Where a socket receives.
pub(super) fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Datagrams that the kernel dropped since the socket was opened, for want of room; counts modulo 2³².
#[allow(unsafe_code)]
pub(super) fn dropped(socket: &Socket) -> io::Result<u32> {
    // `struct sk_meminfo` of the kernel is a row of 32-bit counters, the drops at this place.
    let mut counters = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut length = size_of_val(&counters) as libc::socklen_t;
    // SAFETY: the pointer is to `length` writable bytes of plain integers; the kernel writes no more than those.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counters.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(counters[libc::SK_MEMINFO_DROPS as usize]) } else { Err(io::Error::last_os_error()) }
}

fn join(socket: &Socket, settings: &Settings, index: u32) -> io::Result<()> {
    match (settings.address.ip(), settings.sender) {
        (group, Some(sender)) => join_source_group(socket, index, group, sender),
        (IpAddr::V4(group), None) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
        }
        (IpAddr::V6(group), None) => socket.join_multicast_v6(&group, index),
    }
}

/// Joins `group` for what `sender` sends there (RFC 3678 §5.1.1), which needs an interface's index for IPv6.
#[allow(unsafe_code)]
fn join_source_group(socket: &Socket, index: u32, group: IpAddr, sender: IpAddr) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let request = libc::group_source_req {
        gsr_interface: index,
        gsr_group: storage(group),
        gsr_source: storage(sender),
    };
    // SAFETY: the pointer is to a whole `group_source_req`, and its length is given with it; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            libc::MCAST_JOIN_SOURCE_GROUP,
            (&raw const request).cast(),
            size_of_val(&request) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
