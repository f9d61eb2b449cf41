//! Packet captures: which packets came when, of which flow, and how large they were.
//!
//! Comes in: a capture file's bytes, chopped anywhere ([`Reader::push`]). Goes out: a [`Packet`] for each record, of
//! which [`segment::parse`] makes a [`Segment`] of a [`Flow`]. [`Survey`] says which flow carries the most. Pure, and
//! bounded: of a packet only its headers are held.
//!
//! ```text
//! classic  header 24 bytes: magic, version, zone, accuracy, snap length, link type
//!          then records:    seconds, µs or ns, captured length, original length (4 bytes each), packet
//! pcapng   blocks:          type, total length (4 bytes each), body, padding to 4 bytes, total length again
//!          of these are read: section header, interface description, enhanced packet, (obsolete) packet
//! ```
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng, the link types of tcpdump.org.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod block;
mod flow;
mod packet;
mod reader;
pub mod segment;

pub use flow::{Count, FLOWS_MAX, Survey};
pub use packet::{HEAD_BYTES, LinkType, Packet};
pub use reader::Reader;
pub use segment::{Flow, Protocol, Segment, Unread};

/// Bytes that tell a capture from anything else: those of [`is_capture`].
pub const MAGIC_BYTES: usize = 4;

/// Whether a file that begins with `bytes` is a capture: classic (µs, ns, or Kuznetzov's) or pcapng, of either byte
/// order. False for less than [`MAGIC_BYTES`] bytes.
pub fn is_capture(bytes: &[u8]) -> bool {
    matches!(
        bytes.first_chunk(),
        Some(
            [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d]
                | [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0xcd, 0x34]
                | [0x34, 0xcd, 0xb2, 0xa1]
                | [0x0a, 0x0d, 0x0d, 0x0a]
        )
    )
}

/// Why a capture cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// It begins with something else.
    #[error("not a packet capture: it begins with {0:02x?}, expected the magic number of pcap or pcapng")]
    Magic([u8; MAGIC_BYTES]),
    /// The classic format with longer records, which a patched libpcap wrote long ago.
    #[error(
        "a capture of the modified format (Kuznetzov's), which nothing writes any more; convert it with editcap"
    )]
    Modified,
    /// A version that may be laid out differently.
    #[error("capture format version {0}.{1} at byte {2}; 2.x of pcap and 1.x of pcapng are known")]
    Version(u16, u16, u64),
    /// A record of the classic format that is longer than any packet.
    #[error(
        "damaged: the record at byte {at} claims {found} captured bytes, {} at most are possible",
        reader::RECORD_MAX_BYTES
    )]
    Record {
        /// Captured bytes that it claims.
        found: u32,
        /// Where it begins.
        at: u64,
    },
    /// A block that cannot be as long as it says.
    #[error(
        "damaged: the block at byte {at} has type {kind:#x} and claims {found} bytes, expected a multiple of 4 and {least} at least"
    )]
    Block {
        /// The block's type.
        kind: u32,
        /// The length that it claims.
        found: u32,
        /// What it would need.
        least: u32,
        /// Where it begins.
        at: u64,
    },
    /// A section with a byte order that cannot be told.
    #[error(
        "damaged: the section at byte {at} has byte-order magic {found:02x?}, expected 1a 2b 3c 4d or its reverse"
    )]
    ByteOrder {
        /// What stands there.
        found: [u8; 4],
        /// Where the section begins.
        at: u64,
    },
    /// A packet of an interface that was not described before.
    #[error("damaged: the packet at byte {at} is of interface {found}, {known} were described before it")]
    Interface {
        /// The interface's number.
        found: u32,
        /// How many are known.
        known: usize,
        /// Where the packet's block begins.
        at: u64,
    },
    /// More interfaces than any machine has.
    #[error("more than {} interfaces", block::INTERFACES_MAX)]
    TooManyInterfaces,
}

#[cfg(test)]
mod tests;
