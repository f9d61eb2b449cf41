//! Whether multicast DNS can be tried without a network.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Whether the machine takes multicast at its loopback interface, and leaves us the port of multicast DNS. Nothing leaves
/// the machine.
pub fn loopback_hears_itself() -> bool {
    let group = Ipv4Addr::new(224, 0, 0, 251);
    let heard = || -> io::Result<()> {
        let shared = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        shared.set_reuse_address(true)?;
        shared.set_reuse_port(true)?;
        shared.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5353)).into())?;
        let receiver = UdpSocket::bind("0.0.0.0:0")?;
        receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
        let sender = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        sender.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
        let to = SocketAddr::from((group, receiver.local_addr()?.port()));
        sender.send_to(b"hello", &to.into())?;
        receiver.recv(&mut [0; 16]).map(drop)
    };
    heard().is_ok()
}
