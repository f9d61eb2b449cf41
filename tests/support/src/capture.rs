//! Packet captures, made byte by byte as tests need them: classic pcap and pcapng, either byte order, any resolution.

use std::net::{IpAddr, SocketAddr};

/// How a capture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Classic, microseconds.
    Micros,
    /// Classic, nanoseconds.
    Nanos,
    /// pcapng with one interface, whose `if_tsresol` is this: 10⁻ⁿ s, n from 6 to 9.
    Ng(u8),
}

/// A capture that is being written.
#[derive(Clone, Debug)]
pub struct Capture {
    format: Format,
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Capture {
    /// An empty capture of a link of this type (a LINKTYPE of tcpdump.org; Ethernet is 1).
    pub fn new(format: Format, big_endian: bool, link_type: u16) -> Capture {
        let mut capture = Capture { format, big_endian, bytes: Vec::new() };
        match format {
            Format::Micros | Format::Nanos => {
                capture.u32(if format == Format::Nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
                capture.u16s(&[2, 4]);
                [0, 0, 262_144, link_type.into()].into_iter().for_each(|field| capture.u32(field));
            }
            Format::Ng(resolution) => {
                let body = capture.fields(&[0x1a2b_3c4d], &[1, 0]);
                capture.block(0x0a0d_0d0a, &[body, vec![0xff; 8]].concat());
                // A block that readers must pass over, and options before and after the one that counts.
                capture.block(0x0bad, b"none of your business");
                let body = capture.fields(&[], &[link_type, 0, 0, 0, 2, 3]);
                let option = capture.fields(&[], &[9, 1]);
                capture.block(1, &[&body, &b"lo0\0"[..], &option, &[resolution, 0, 0, 0], &[0; 4]].concat());
            }
        }
        capture
    }

    /// Adds a packet that came `nanos` after the epoch (rounded down to the resolution) and was `original` bytes
    /// long, of which `captured` was kept.
    pub fn packet(&mut self, nanos: u64, original: usize, captured: &[u8]) {
        let lengths = [captured.len() as u32, original as u32];
        let (seconds, rest) = ((nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32);
        match self.format {
            Format::Micros | Format::Nanos => {
                let parts = if self.format == Format::Micros { rest / 1000 } else { rest };
                for field in [seconds, parts, lengths[0], lengths[1]] {
                    self.u32(field);
                }
            }
            Format::Ng(resolution) => {
                let stamp = nanos / 10u64.pow(9 - u32::from(resolution));
                let fields = [0, (stamp >> 32) as u32, stamp as u32, lengths[0], lengths[1]];
                let body = self.fields(&fields, &[]);
                self.block(6, &[&body, captured].concat());
                return;
            }
        }
        self.bytes.extend_from_slice(captured);
    }

    /// What is written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        self.u32(kind);
        self.u32(padded as u32 + 12);
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.u32(padded as u32 + 12);
    }

    fn fields(&self, long: &[u32], short: &[u16]) -> Vec<u8> {
        let mut part = Capture { bytes: Vec::new(), ..*self };
        long.iter().for_each(|field| part.u32(*field));
        part.u16s(short);
        part.bytes
    }

    fn u32(&mut self, value: u32) {
        let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend_from_slice(&bytes);
    }

    fn u16s(&mut self, values: &[u16]) {
        for value in values {
            let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            self.bytes.extend_from_slice(&bytes);
        }
    }
}

/// An IP packet with a TCP segment of `payload` zeros, from one address to another of the same family.
///
/// # Panics
/// Where the families differ.
pub fn tcp(from: SocketAddr, to: SocketAddr, payload: u16) -> Vec<u8> {
    let mut header = [0; 32];
    header[12] = 8 << 4;
    ip(6, from, to, &header, payload)
}

/// The same over UDP.
///
/// # Panics
/// Where the families differ.
pub fn udp(from: SocketAddr, to: SocketAddr, payload: u16) -> Vec<u8> {
    let mut header = [0; 8];
    header[4..6].copy_from_slice(&(payload + 8).to_be_bytes());
    ip(17, from, to, &header, payload)
}

fn ip(protocol: u8, from: SocketAddr, to: SocketAddr, header: &[u8], payload: u16) -> Vec<u8> {
    let mut body = [header, &vec![0; payload.into()]].concat();
    body[..2].copy_from_slice(&from.port().to_be_bytes());
    body[2..4].copy_from_slice(&to.port().to_be_bytes());
    let length = body.len() as u16;
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            head[2..4].copy_from_slice(&(length + 20).to_be_bytes());
            [head, from.octets().to_vec(), to.octets().to_vec()].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut head = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            head[4..6].copy_from_slice(&length.to_be_bytes());
            [head, from.octets().to_vec(), to.octets().to_vec()].concat()
        }
        _ => panic!("{from} and {to} are of two families"),
    };
    packet.append(&mut body);
    packet
}

/// Puts an Ethernet header in front of an IP packet.
pub fn ethernet(ip: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type, ip].concat()
}
