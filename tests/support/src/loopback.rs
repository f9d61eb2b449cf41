//! Addresses of this machine at which a test hears nothing but what it sends there itself.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses of 127.0.0.0/8 from 127.128.0.1 on, which no test names by itself.
const FIRST: u32 = u32::from_be_bytes([127, 128, 0, 1]);
/// As many are taken in turn.
const COUNT: u32 = 1 << 22;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A UDP address that is free. The system may give the *port* to another test as soon as this one has left it, for instance
/// to a receiver that has gone while its sender still sends; so the address is one that no other test of this process has,
/// and that of another process has only by chance.
///
/// # Panics
/// The system has no port left.
pub fn free_udp() -> SocketAddr {
    let number = std::process::id().wrapping_mul(8_191).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let address = Ipv4Addr::from(FIRST + number % COUNT);
    let socket = UdpSocket::bind((address, 0)).expect("loopback has a free port");
    socket.local_addr().expect("a socket that is bound has an address")
}

/// Whether a program of this machine has the UDP port of `to`, at that address or at each. The kernel's tables tell: an attempt
/// to bind the port would have it for a moment itself, and a program that wants it in that moment finds it taken and gives up.
///
/// # Panics
/// `to` is an IPv6 address, or the system has no such tables.
pub fn is_bound(to: SocketAddr) -> bool {
    let SocketAddr::V4(to) = to else { panic!("{to}: only IPv4 is looked for") };
    let table = std::fs::read_to_string("/proc/net/udp").expect("Linux lists its sockets");
    // Without IPv6 the second table is absent.
    let wide = std::fs::read_to_string("/proc/net/udp6").unwrap_or_default();
    // The kernel prints the address as one number of this machine's byte order.
    let here = format!("{:08X}:{:04X}", u32::from_ne_bytes(to.ip().octets()), to.port());
    let each = format!("{}:{:04X}", "0".repeat(8), to.port());
    let each_wide = format!("{}:{:04X}", "0".repeat(32), to.port());
    let local = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    table
        .lines()
        .chain(wide.lines())
        .filter_map(local)
        .any(|local| [&here, &each, &each_wide].contains(&&local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_bound_while_a_socket_has_it_at_its_address_or_at_each() {
        let to = free_udp();
        assert!(!is_bound(to));
        let other = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 9), to.port()));
        assert!(!is_bound(to), "another address");
        drop(other);
        let socket = UdpSocket::bind(to).unwrap();
        assert!(is_bound(to));
        drop(socket);
        assert!(!is_bound(to));
        let _each = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, to.port())).unwrap();
        assert!(is_bound(to));
    }

    #[test]
    fn no_two_are_the_same_and_what_is_sent_there_arrives() {
        let (one, two) = (free_udp(), free_udp());
        assert!(one.ip() != two.ip() && one.ip().is_loopback() && two.ip().is_loopback());
        let receiver = UdpSocket::bind(one).unwrap();
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", one).unwrap();
        let mut heard = [0; 16];
        assert_eq!(receiver.recv(&mut heard).unwrap(), 5);
    }
}
