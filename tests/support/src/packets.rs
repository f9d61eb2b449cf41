//! The headers of the packets that this machine sends and gets, as they are on the wire.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;

/// All protocols (linux/if_ether.h).
const ETH_P_ALL: u16 = 3;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What stands in the headers of a packet of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of IPv6; otherwise of IPv4.
    pub is_ipv6: bool,
    /// The DSCP.
    pub dscp: u8,
    /// The two bits of congestion (ECN).
    pub ecn: u8,
    /// The flow label; 0 with IPv4.
    pub flow_label: u32,
    /// The sender's port.
    pub from: u16,
    /// The receiver's.
    pub to: u16,
}

impl Header {
    /// Reads a packet that begins with IP's header; `None` if it is none of TCP or UDP, or a later fragment.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
        let (class, flow_label, protocol, ports) = match packet.first()? >> 4 {
            4 if word(6)? & 0x1FFF == 0 => {
                (*packet.get(1)?, 0, *packet.get(9)?, usize::from(packet[0] & 15) * 4)
            }
            6 => {
                let first = u32::from(word(0)?) << 16 | u32::from(word(2)?);
                ((first >> 20) as u8, first & 0xF_FFFF, *packet.get(6)?, 40)
            }
            _ => return None,
        };
        let is_known = [TCP, UDP].contains(&protocol);
        let (from, to) = (word(ports)?, word(ports + 2)?);
        let header =
            Header { is_ipv6: packet[0] >> 4 == 6, dscp: class >> 2, ecn: class & 3, flow_label, from, to };
        is_known.then_some(header)
    }
}

/// A socket that gets a copy of every packet, of all interfaces.
#[derive(Debug)]
pub struct Packets(Socket);

impl Packets {
    /// Opens it; `None` where this process may not (`CAP_NET_RAW`).
    #[must_use]
    pub fn open() -> Option<Packets> {
        let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)).ok()?;
        socket.set_nonblocking(true).ok()?;
        // Other tests send much at the same time.
        let _ = socket.set_recv_buffer_size(8 << 20);
        Some(Packets(socket))
    }

    /// The headers of the packets that have come since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Header> {
        let (mut headers, mut buffer) = (Vec::new(), [0; 128]);
        // The rest of a longer packet is left out.
        while let Ok(count) = (&self.0).read(&mut buffer) {
            headers.extend(Header::read(&buffer[..count]));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_are_read() {
        let mut four = [0; 28];
        (four[0], four[1], four[9]) = (0x45, 34 << 2 | 2, UDP);
        four[20..24].copy_from_slice(&[0x13, 0x88, 0x1F, 0x90]);
        let expected = Header { is_ipv6: false, dscp: 34, ecn: 2, flow_label: 0, from: 5000, to: 8080 };
        assert_eq!(Header::read(&four), Some(expected));
        let mut six = [0; 48];
        six[..4].copy_from_slice(&(6 << 28 | (46 << 2 | 1) << 20 | 0xABCDE_u32).to_be_bytes());
        six[6] = TCP;
        six[40..44].copy_from_slice(&[0x13, 0x88, 0x1F, 0x90]);
        let expected = Header { is_ipv6: true, dscp: 46, ecn: 1, flow_label: 0xABCDE, ..expected };
        assert_eq!(Header::read(&six), Some(expected));
        four[7] = 1;
        assert_eq!((Header::read(&four), Header::read(&six[..42]), Header::read(&[])), (None, None, None));
    }
}
