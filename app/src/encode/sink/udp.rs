//! Datagrams of up to 7 TS packets: as many as fit into an Ethernet frame.

use super::Sink;
use crate::encode::output::Address;
use crate::encode::pipeline::{Demand, Packets};
use crate::failure;
use anyhow::Result;
use glassline_media::container::ts::PACKET_BYTES;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

const DATAGRAM_BYTES: usize = 7 * PACKET_BYTES;

/// A receiver, or a group of them. Multicast stays in the local network (TTL 1, the system's default).
pub(super) struct Udp {
    socket: UdpSocket,
    name: String,
    /// The last failure that was spoken of, so that it is not told for each datagram.
    told: Option<ErrorKind>,
}

impl Udp {
    pub(super) fn open(address: &Address) -> Result<Udp> {
        let name = format!("udp://{address}");
        let socket = connect(address).map_err(|error| {
            failure::failed(
                format_args!("cannot send to {name}: {error}"),
                "check the host's name and the network",
            )
        })?;
        Ok(Udp { socket, name, told: None })
    }
}

fn connect(address: &Address) -> io::Result<UdpSocket> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        match UdpSocket::bind(local).and_then(|socket| socket.connect(address).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Sink for Udp {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        for datagram in packets.bytes.chunks(DATAGRAM_BYTES) {
            let sent = match self.socket.send(datagram) {
                // An earlier datagram met a host where nobody listened. This one was not sent because of it.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => self.socket.send(datagram),
                sent => sent,
            };
            match sent {
                // Nobody listens yet, which is not the sender's concern.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                // The network may come back, and a live stream goes on.
                Err(error) if self.told != Some(error.kind()) => {
                    tracing::warn!("cannot send to {}: {error}; going on", self.name);
                    self.told = Some(error.kind());
                }
                Err(_) => {}
                Ok(_) => self.told = None,
            }
        }
        Ok(Demand::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_unit_goes_in_datagrams_of_seven_packets_and_the_rest_at_once() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let port = receiver.local_addr().unwrap().port();
        let mut sink = Udp::open(&Address { host: "127.0.0.1".to_owned(), port }).unwrap();
        let bytes: Vec<u8> = (0..16 * PACKET_BYTES).map(|index| (index / PACKET_BYTES) as u8).collect();
        sink.write(&Packets { bytes: &bytes, joinable: true, ends_picture: true }).unwrap();
        let mut received = Vec::new();
        let mut buffer = [0; 2000];
        for packets in [7, 7, 2] {
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(length, packets * PACKET_BYTES);
            received.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(received, bytes);
    }

    #[test]
    fn nobody_listening_is_no_failure() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut sink = Udp::open(&Address { host: "127.0.0.1".to_owned(), port }).unwrap();
        for _ in 0..5 {
            sink.write(&Packets { bytes: &[0x47; 3 * PACKET_BYTES], joinable: false, ends_picture: true })
                .unwrap();
        }
    }
}
