//! From a captured packet's headers to its flow and payload: link layer, IP, TCP and UDP.

use super::packet::{LinkType, Packet};
use crate::flight::{TCP_PAYLOAD_BYTES, UDP_PAYLOAD_BYTES, tcp_packets};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// VLAN tags that may stand in front of a packet.
const TAGS_MAX: usize = 4;
/// Extension headers of IPv6 that are gone through.
const EXTENSIONS_MAX: usize = 8;
/// What a packet of 1,500 bytes carries at most: 20 bytes each of IPv4 and TCP, or 8 of UDP.
const TCP_PAYLOAD_MAX_BYTES: u64 = 1460;
const UDP_PAYLOAD_MAX_BYTES: u64 = 1472;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl Protocol {
    /// "TCP" or "UDP".
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        }
    }
}

/// One direction of one conversation, as one interface saw it: a packet that was captured on two counts in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The interface's number in the capture.
    pub interface: u32,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} → {}", self.protocol.name(), self.from, self.to)
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From which address to which.
    pub flow: Flow,
    /// Bytes behind the TCP or UDP header, as on the wire, however little of them was captured.
    pub payload_bytes: u64,
}

impl Segment {
    /// Packets that it makes on Ethernet: 1, but for what was captured before the network card cut it up
    /// (segmentation offload).
    pub const fn packets(&self) -> u64 {
        match self.flow.protocol {
            _ if !self.is_unsegmented() => 1,
            // UDP is cut where the sender said; senders of MPEG-TS say seven TS packets.
            Protocol::Udp if self.payload_bytes.is_multiple_of(UDP_PAYLOAD_BYTES) => {
                self.payload_bytes / UDP_PAYLOAD_BYTES
            }
            _ => tcp_packets(self.payload_bytes),
        }
    }

    /// Whether it is larger than an Ethernet packet of 1,500 bytes: captured before segmentation (or on a link that
    /// takes more at once, as loopback does).
    pub const fn is_unsegmented(&self) -> bool {
        let max = match self.flow.protocol {
            Protocol::Tcp => TCP_PAYLOAD_MAX_BYTES,
            Protocol::Udp => UDP_PAYLOAD_MAX_BYTES,
        };
        self.payload_bytes > max
    }
}

const _: () =
    assert!(TCP_PAYLOAD_BYTES <= TCP_PAYLOAD_MAX_BYTES && UDP_PAYLOAD_BYTES <= UDP_PAYLOAD_MAX_BYTES);

/// Why a packet's flow is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// A link type that is not read here.
    LinkType,
    /// Neither TCP nor UDP over IP.
    Other,
    /// A later fragment of an IP packet: the ports stand in the first one.
    Fragment,
    /// Less was captured than the headers are long, or they contradict themselves.
    Cut,
}

/// Bytes of a header, or why there are none.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Unread> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Unread::Cut)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Unread> {
    field(bytes, at).map(u16::from_be_bytes)
}

/// Reads the headers of a packet.
///
/// # Errors
/// [`Unread`] where it is no TCP or UDP, or its headers are not all there.
pub fn parse(packet: &Packet<'_>) -> Result<Segment, Unread> {
    let head = packet.head;
    let (ip_at, ether_type, interface) = match packet.link_type {
        LinkType::ETHERNET => (14, u16_at(head, 12)?, packet.interface),
        LinkType::SLL => (16, u16_at(head, 14)?, packet.interface),
        LinkType::SLL2 => (20, u16_at(head, 0)?, u32::from_be_bytes(field(head, 4)?)),
        LinkType::NULL | LinkType::LOOP => (4, family(field(head, 0)?)?, packet.interface),
        // 12 is what Linux calls "raw" in memory; some write it into files.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) => {
            (0, if field::<1>(head, 0)?[0] >> 4 == 6 { 0x86dd } else { 0x0800 }, packet.interface)
        }
        _ => return Err(Unread::LinkType),
    };
    let (ip_at, ether_type) = untag(head, ip_at, ether_type)?;
    let ip = head.get(ip_at..).ok_or(Unread::Cut)?;
    let wire_bytes = u64::from(packet.original_bytes).saturating_sub(ip_at as u64);
    match ether_type {
        0x0800 => ipv4(ip, wire_bytes, interface),
        0x86dd => ipv6(ip, wire_bytes, interface),
        _ => Err(Unread::Other),
    }
}

/// The Ethernet type of a BSD address family. Its byte order is not known.
fn family(bytes: [u8; 4]) -> Result<u16, Unread> {
    let number = u32::from_be_bytes(bytes);
    match number.min(number.swap_bytes()) {
        2 => Ok(0x0800),
        // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 24 | 28 | 30 => Ok(0x86dd),
        _ => Err(Unread::Other),
    }
}

/// Goes over VLAN tags (IEEE 802.1Q, 802.1ad).
fn untag(head: &[u8], mut at: usize, mut ether_type: u16) -> Result<(usize, u16), Unread> {
    for _ in 0..TAGS_MAX {
        if !matches!(ether_type, 0x8100 | 0x88a8 | 0x9100) {
            break;
        }
        ether_type = u16_at(head, at.saturating_add(2))?;
        at = at.saturating_add(4);
    }
    Ok((at, ether_type))
}

/// RFC 791 §3.1.
fn ipv4(ip: &[u8], wire_bytes: u64, interface: u32) -> Result<Segment, Unread> {
    let [first] = field(ip, 0)?;
    let header_bytes = usize::from(first & 0x0f) << 2;
    if first >> 4 != 4 || header_bytes < 20 {
        return Err(Unread::Cut);
    }
    if u16_at(ip, 6)? & 0x1fff != 0 {
        return Err(Unread::Fragment);
    }
    // Zero where it does not fit: a packet that was captured before segmentation.
    let total_bytes = match u16_at(ip, 2)? {
        0 => wire_bytes,
        total => total.into(),
    };
    let [protocol] = field(ip, 9)?;
    let (from, to): ([u8; 4], [u8; 4]) = (field(ip, 12)?, field(ip, 16)?);
    let addresses = (IpAddr::V4(Ipv4Addr::from(from)), IpAddr::V4(Ipv4Addr::from(to)));
    transport(ip, header_bytes, protocol, total_bytes, addresses, interface)
}

/// RFC 8200 §3 and §4.
fn ipv6(ip: &[u8], wire_bytes: u64, interface: u32) -> Result<Segment, Unread> {
    if field::<1>(ip, 0)?[0] >> 4 != 6 {
        return Err(Unread::Cut);
    }
    // Zero in a jumbogram (RFC 2675), which is what "BIG TCP" captures look like.
    let total_bytes = match u16_at(ip, 4)? {
        0 => wire_bytes,
        payload => u64::from(payload).saturating_add(40),
    };
    let (from, to): ([u8; 16], [u8; 16]) = (field(ip, 8)?, field(ip, 24)?);
    let addresses = (IpAddr::V6(Ipv6Addr::from(from)), IpAddr::V6(Ipv6Addr::from(to)));
    let ([mut next], mut at): ([u8; 1], usize) = (field(ip, 6)?, 40);
    for _ in 0..EXTENSIONS_MAX {
        let length = |shift: u32| -> Result<usize, Unread> {
            let [units] = field(ip, at.saturating_add(1))?;
            Ok((usize::from(units) << shift).saturating_add(8))
        };
        let bytes = match next {
            // Hop-by-hop options, routing, destination options; authentication counts in other units.
            0 | 43 | 60 => length(3)?,
            51 => length(2)?,
            44 if u16_at(ip, at.saturating_add(2))? & 0xfff8 != 0 => return Err(Unread::Fragment),
            44 => 8,
            _ => break,
        };
        [next] = field(ip, at)?;
        at = at.saturating_add(bytes);
    }
    transport(ip, at, next, total_bytes, addresses, interface)
}

/// RFC 9293 §3.1, RFC 768.
fn transport(
    ip: &[u8],
    at: usize,
    protocol: u8,
    total_bytes: u64,
    (from, to): (IpAddr, IpAddr),
    interface: u32,
) -> Result<Segment, Unread> {
    let (protocol, header_bytes) = match protocol {
        PROTOCOL_TCP => (Protocol::Tcp, u64::from(field::<1>(ip, at.saturating_add(12))?[0] >> 4) << 2),
        PROTOCOL_UDP => (Protocol::Udp, 8),
        _ => return Err(Unread::Other),
    };
    let (from_port, to_port) = (u16_at(ip, at)?, u16_at(ip, at.saturating_add(2))?);
    let payload_bytes = total_bytes.checked_sub(header_bytes.saturating_add(at as u64)).ok_or(Unread::Cut)?;
    let (from, to) = (SocketAddr::new(from, from_port), SocketAddr::new(to, to_port));
    Ok(Segment { flow: Flow { interface, protocol, from, to }, payload_bytes })
}
