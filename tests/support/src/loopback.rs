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

#[cfg(test)]
mod tests {
    use super::*;

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
