//! Network interfaces: how many packets their rings hold, which one leads to an address, what was lost in them.
//!
//! Packets that no socket ever saw were dropped in one of three places, from the wire on: the device's ring, which is too
//! short for the time until the processor comes ([`ring`], [`losses`]); the queue behind it ([`softnet`]); the socket's buffer,
//! which the socket itself counts.
#![allow(unsafe_code)]

use rustix::net::{AddressFamily, SocketType, socket};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL` (linux/sockios.h) and `ETHTOOL_GRINGPARAM` (linux/ethtool.h).
const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GRINGPARAM: u32 = 0x10;

/// Packets that one of a device's rings holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Now.
    pub current: u32,
    /// As many as the device takes.
    pub maximum: u32,
}

impl Ring {
    /// The command by which an administrator makes the receive ring of `interface` as long as it can be; `None` where it is.
    pub fn advice(&self, interface: &str) -> Option<String> {
        (self.current < self.maximum).then(|| format!("ethtool -G {interface} rx {}", self.maximum))
    }
}

/// `struct ethtool_ringparam` of linux/ethtool.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct RingParameters {
    command: u32,
    receive_maximum: u32,
    mini_maximum: u32,
    jumbo_maximum: u32,
    send_maximum: u32,
    receive: u32,
    mini: u32,
    jumbo: u32,
    send: u32,
}

/// The receive ring of an interface; `None` where the device has none that it tells of: loopback, most virtual ones.
///
/// # Errors
/// `NotFound` where there is no such interface.
pub fn ring(interface: &str) -> io::Result<Option<Ring>> {
    rings(interface).map(|(receive, _)| receive)
}

/// The receive ring of an interface and its transmit ring, as [`ring`].
///
/// # Errors
/// `NotFound` where there is no such interface.
pub fn rings(interface: &str) -> io::Result<(Option<Ring>, Option<Ring>)> {
    let mut parameters = RingParameters { command: ETHTOOL_GRINGPARAM, ..RingParameters::default() };
    // SAFETY: integers, bytes and pointers, for which all zeros stand for nothing.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = request.ifr_name.len() - 1;
    if interface.len() > name || interface.is_empty() || interface.bytes().any(|byte| byte == 0) {
        return Err(no_interface(interface));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut parameters).cast();
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: the request is a whole `ifreq` with a name that ends in a zero, and its pointer is to a whole
    // `ethtool_ringparam`, which is what this command writes. Both live until the call is over.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EPERM) => Ok((None, None)),
            Some(libc::ENODEV) => Err(no_interface(interface)),
            _ => Err(error),
        };
    }
    let told = |current, maximum| (maximum > 0).then_some(Ring { current, maximum });
    let RingParameters { receive, receive_maximum, send, send_maximum, .. } = parameters;
    Ok((told(receive, receive_maximum), told(send, send_maximum)))
}

fn no_interface(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no network interface {name:?}"))
}

/// The interface that datagrams to `address` leave by, or that has the address, by the routing table: for a group, the one at
/// which it is joined where none is named. `None` where there is no route.
///
/// # Errors
/// Where the system does not list its interfaces.
pub fn interface_of(address: IpAddr) -> io::Result<Option<String>> {
    let Some(ours) = source_of(address) else { return Ok(None) };
    let all = addresses()?;
    let found = |wanted: IpAddr| all.iter().find(|(_, has)| *has == wanted).map(|(name, _)| name.clone());
    Ok(found(address).or_else(|| found(ours)))
}

/// The address of ours that datagrams to `address` come from, by the routing table; `None` where there is no route.
pub fn source_of(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Connecting sends nothing: it has the kernel look the route up, and with it the address that we would have.
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(address, 9)).ok()?;
    socket.local_addr().ok().map(|ours| ours.ip())
}

/// The Ethernet address of an interface; `None` where it has none, as loopback.
///
/// # Errors
/// `NotFound` where there is no such interface.
pub fn ethernet_address(interface: &str) -> io::Result<Option<[u8; 6]>> {
    let is_name = !interface.is_empty() && !interface.contains('/') && interface != "." && interface != "..";
    let path = format!("/sys/class/net/{interface}/address");
    let text =
        Some(path).filter(|_| is_name).map(fs::read_to_string).ok_or_else(|| no_interface(interface))?;
    let text = text.map_err(|_| no_interface(interface))?;
    let mut parts = text.trim().split(':').map(|part| u8::from_str_radix(part, 16).ok());
    let octets: [Option<u8>; 6] = std::array::from_fn(|_| parts.next().flatten());
    let is_whole = parts.next().is_none() && octets.iter().all(Option::is_some);
    let octets = octets.map(Option::unwrap_or_default);
    Ok(Some(octets).filter(|octets| is_whole && octets.iter().any(|octet| *octet != 0)))
}

/// Whether there is an interface of this name.
pub fn exists(interface: &str) -> bool {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None);
    socket.is_ok_and(|socket| rustix::net::netdevice::name_to_index(socket, interface).is_ok())
}

/// The names of this machine's interfaces that have addresses.
///
/// # Errors
/// Where the system does not list them.
pub fn interfaces() -> io::Result<Vec<String>> {
    let mut names: Vec<String> = addresses()?.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The addresses by which other machines may reach this one: neither loopback's nor those of a single link (RFC 3927, RFC 4291
/// §2.5.6). IPv4 first, in the system's order otherwise.
///
/// # Errors
/// Where the system does not list them.
pub fn reachable_addresses() -> io::Result<Vec<IpAddr>> {
    let is_reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    };
    let mut all: Vec<IpAddr> = addresses()?.into_iter().map(|(_, ip)| ip).filter(is_reachable).collect();
    all.sort_by_key(IpAddr::is_ipv6);
    Ok(all)
}

/// The addresses of this machine, each with its interface's name.
fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the pointer is to where the call is to put the list's beginning.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut all, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: it is an entry of the list, which is there until it is given back below.
        let entry = unsafe { &*next };
        // SAFETY: an entry's name is a string that ends in a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: an entry's address is null or to one of the length that its family says.
        if let Some(address) = unsafe { address(entry.ifa_addr) } {
            all.push((name.to_string_lossy().into_owned(), address));
        }
        next = entry.ifa_next;
    }
    // SAFETY: it is the list's beginning, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(all)
}

/// The address of IP's that is there.
///
/// # Safety
/// The pointer is null, or to an address of the length that its family says.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family; nothing is assumed of its alignment.
    match i32::from(unsafe { (&raw const (*at).sa_family).read_unaligned() }) {
        libc::AF_INET => {
            // SAFETY: by its family it is a `sockaddr_in`.
            let address = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: by its family it is a `sockaddr_in6`.
            let address = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Packets that an interface's device has lost since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Dropped for want of room in the system, or since no protocol wanted them.
    pub dropped: u64,
    /// Missed by the device, for want of room in its ring.
    pub missed: u64,
    /// Lost in the device's own queue.
    pub fifo: u64,
}

/// What an interface's device has lost, as far as its driver counts.
///
/// # Errors
/// `NotFound` where there is no such interface.
pub fn losses(interface: &str) -> io::Result<Losses> {
    let read = |name: &str| {
        let path = format!("/sys/class/net/{interface}/statistics/{name}");
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_interface(interface),
            _ => error,
        })?;
        text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
    };
    Ok(Losses {
        dropped: read("rx_dropped")?,
        missed: read("rx_missed_errors")?,
        fifo: read("rx_fifo_errors")?,
    })
}

/// What all processors together did with packets that came, since the system began. Each processor counts modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets that were processed.
    pub processed: u64,
    /// Packets that were dropped since a processor's queue was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// How often work was left when a turn's time or budget was over (`net.core.netdev_budget`).
    pub squeezed: u64,
}

/// What `/proc/net/softnet_stat` says.
///
/// # Errors
/// Where the system does not tell.
pub fn softnet() -> io::Result<Softnet> {
    Ok(parse_softnet(&fs::read_to_string("/proc/net/softnet_stat")?))
}

/// A line for each processor, of hexadecimal numbers; the first three are ours.
fn parse_softnet(text: &str) -> Softnet {
    let mut all = Softnet::default();
    for line in text.lines() {
        let mut fields =
            line.split_ascii_whitespace().map(|field| u64::from(u32::from_str_radix(field, 16).unwrap_or(0)));
        all.processed += fields.next().unwrap_or(0);
        all.dropped += fields.next().unwrap_or(0);
        all.squeezed += fields.next().unwrap_or(0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_ethernet_address_and_comes_from_itself() {
        assert_eq!(ethernet_address("lo").unwrap(), None);
        for name in ["nowhere0", "", "../lo", ".."] {
            assert_eq!(ethernet_address(name).unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
        }
        let ours: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert_eq!(source_of(ours), Some(ours));
        assert!(interfaces().unwrap().contains(&"lo".to_owned()));
        assert!(exists("lo") && !exists("nowhere0") && !exists(""));
    }

    #[test]
    fn loopback_has_no_ring_and_others_may() {
        assert_eq!(ring("lo").unwrap(), None);
        for name in fs::read_dir("/sys/class/net").unwrap().flatten() {
            let Ok(name) = name.file_name().into_string() else { continue };
            match ring(&name) {
                Ok(Some(ring)) => {
                    assert!(ring.current <= ring.maximum && ring.maximum > 0, "{name}: {ring:?}");
                }
                Ok(None) => {}
                // In /sys, but no interface (`bonding_masters`).
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}"),
            }
        }
        for name in ["nowhere0", "", "a name that is much too long for any", "lo\0"] {
            let error = ring(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name:?}: {error}");
        }
    }

    #[test]
    fn a_short_ring_comes_with_its_remedy() {
        let short = Ring { current: 453, maximum: 4078 };
        assert_eq!(short.advice("eth0").unwrap(), "ethtool -G eth0 rx 4078");
        assert_eq!(Ring { current: 4078, ..short }.advice("eth0"), None);
    }

    #[test]
    fn addresses_of_loopback_belong_to_it() {
        assert_eq!(interface_of(Ipv4Addr::LOCALHOST.into()).unwrap().as_deref(), Some("lo"));
        assert_eq!(interface_of("127.5.6.7".parse().unwrap()).unwrap().as_deref(), Some("lo"));
        for (name, address) in addresses().unwrap() {
            assert!(!name.is_empty());
            // Of a link's own address there may be one at each link.
            if address.is_ipv4() {
                assert_eq!(interface_of(address).unwrap(), Some(name), "{address}");
            }
        }
        // Where it leads, or that nothing does, is this machine's affair; it is told without a failure.
        for group in ["239.255.77.9", "ff31::8000:77", "192.0.2.1"] {
            interface_of(group.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn counts_of_packets_are_read() {
        let text =
            "0000000a 00000002 00000001 00000000\n000000ff 00000003 00000000 00000000 00000000\nnonsense\n\n";
        assert_eq!(parse_softnet(text), Softnet { processed: 265, dropped: 5, squeezed: 1 });
        softnet().unwrap();
        losses("lo").unwrap();
        assert_eq!(losses("nowhere0").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
