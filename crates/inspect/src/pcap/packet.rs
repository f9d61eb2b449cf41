//! A captured packet, before anything in it is looked at.

use glassline_media::Time;

/// So much of each packet is given: all headers of the layers that are read here, with room for options.
pub const HEAD_BYTES: usize = 256;

/// What captured packets begin with: a LINKTYPE of tcpdump.org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: the address family in the capturing machine's byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP without anything in front.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: the address family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked", what `tcpdump -i any` wrote.
    pub const SLL: LinkType = LinkType(113);
    /// IPv4 without anything in front.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 without anything in front.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" version 2, what `tcpdump -i any` writes.
    pub const SLL2: LinkType = LinkType(276);
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was captured, since the Unix epoch.
    pub time: Time,
    /// The number of its interface; 0 in the classic format.
    pub interface: u32,
    /// What it begins with.
    pub link_type: LinkType,
    /// Its length on the wire, link layer included, bytes.
    pub original_bytes: u32,
    /// Its first bytes: as many as were captured, at most [`HEAD_BYTES`].
    pub head: &'a [u8],
}
