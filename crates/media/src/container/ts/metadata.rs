//! Elementary streams of data beside pictures and sound: KLV in PES packets (MISB ST 1402), cues of SCTE 35 in sections.
//!
//! ```text
//! asynchronous KLV: PES (stream_type 0x06, KLVA) │ KLV packets
//! synchronous KLV:  PES with PTS (stream_type 0x15) │ (metadata AU cell: service:8 sequence:8 fragment:2 … length:16 │ KLV)*
//! cues:             sections (stream_type 0x86)
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod write;

pub use write::{DATA_MAX_BYTES, DataWriter};

use super::continuity::Continuity;
use super::packet::Packet;
use super::pes::PesHeader;
use super::psi::{DataKind, SectionReader};
use super::scte35::{self, SpliceInfo};
use crate::bitstream::klv;
use crate::time::Ticks;
use bytes::Bytes;

/// A PES packet of metadata that grows beyond this is dropped: its length tells at most 64 KiB.
const PES_MAX_BYTES: usize = 6 + 0xffff;
/// Bytes of the head of a metadata AU cell (13818-1 table 2-99).
const CELL_HEAD_BYTES: usize = 5;

/// A unit of a stream of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataUnit {
    /// What it is.
    pub kind: DataKind,
    /// KLV packets, end to end; of cues a whole section, the checksum of which is right.
    pub data: Bytes,
    /// The time stamp, unwrapped on the scale of the pictures; of a cue the time that it tells, its adjustment included. `None`: now.
    pub pts: Option<Ticks>,
}

/// What a packet has completed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) units: Vec<DataUnit>,
    /// Units that were cut off, or are not what they should be.
    pub(super) damaged: u64,
    /// Units that are too large.
    pub(super) oversized: u64,
}

/// Puts the units of one stream together. Holds at most one PES packet or section.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub(super) pid: u16,
    pub(super) kind: DataKind,
    pub(super) first_packet: u64,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    /// The begun PES packet, where one is begun.
    Pes {
        bytes: Vec<u8>,
        active: bool,
    },
    Sections(SectionReader),
}

impl Collector {
    pub(super) fn new(pid: u16, kind: DataKind) -> Collector {
        let body = match kind {
            DataKind::Klv { .. } => Body::Pes { bytes: Vec::new(), active: false },
            DataKind::Splice => Body::Sections(SectionReader::of_at_most(scte35::SECTION_MAX_BYTES)),
        };
        Collector { pid, kind, first_packet: 0, body }
    }

    /// Takes the next packet; `reference` is the last decoding time stamp of the program.
    pub(super) fn packet(
        &mut self,
        packet: &Packet<'_>,
        continuity: Continuity,
        number: u64,
        reference: Option<Ticks>,
    ) -> Found {
        let mut found = Found::default();
        match continuity {
            Continuity::Duplicate => return found,
            Continuity::Lost { .. } | Continuity::Signalled { .. } => self.lose(&mut found),
            Continuity::First | Continuity::Continuous | Continuity::Unchecked => {}
        }
        if !packet.has_payload || packet.scrambled {
            return found;
        }
        if packet.unit_start {
            self.end(reference, &mut found);
            self.first_packet = number;
        }
        match &mut self.body {
            Body::Sections(reader) => {
                reader.push(packet.payload, packet.unit_start, &mut |section, _| {
                    found.take_section(section, reference);
                });
            }
            Body::Pes { bytes, active } => {
                *active |= packet.unit_start;
                if !*active {
                    return found;
                }
                if bytes.len().saturating_add(packet.payload.len()) > PES_MAX_BYTES.saturating_add(184) {
                    found.oversized = 1;
                    (*active, *bytes) = (false, Vec::new());
                    return found;
                }
                bytes.extend_from_slice(packet.payload);
                if PesHeader::packet_bytes(bytes).is_some_and(|whole| bytes.len() >= whole) {
                    self.end(reference, &mut found);
                }
            }
        }
        found
    }

    /// Packets are missing.
    fn lose(&mut self, found: &mut Found) {
        match &mut self.body {
            Body::Sections(reader) => reader.reset(),
            Body::Pes { bytes, active } => {
                found.damaged = found.damaged.saturating_add(u64::from(*active));
                bytes.clear();
                *active = false;
            }
        }
    }

    /// Gives the begun PES packet, if there is one: another one begins, or nothing follows.
    pub(super) fn end(&mut self, reference: Option<Ticks>, found: &mut Found) {
        let Body::Pes { bytes, active } = &mut self.body else { return };
        if !std::mem::take(active) {
            return;
        }
        let bytes = Bytes::from(std::mem::take(bytes));
        let header = PesHeader::parse(&bytes).ok();
        let whole = header.and_then(|header| {
            let end = header.packet_bytes.unwrap_or(bytes.len());
            (header.payload_start <= end && end <= bytes.len())
                .then(|| bytes.slice(header.payload_start..end))
        });
        let Some((header, payload)) = header.zip(whole) else {
            found.damaged = found.damaged.saturating_add(1);
            return;
        };
        // The stamps of metadata move no scale: one that is wrong would take the pictures' with it.
        let pts = header.pts.map(|pts| unwrap(pts, reference));
        let data = if payload.starts_with(&klv::KEY_PREFIX) { payload } else { cells(&payload) };
        if data.is_empty() {
            found.damaged = found.damaged.saturating_add(1);
            return;
        }
        found.units.push(DataUnit { kind: self.kind, data, pts });
    }
}

impl Found {
    fn take_section(&mut self, section: &[u8], reference: Option<Ticks>) {
        if section.first() != Some(&scte35::TABLE_ID) {
            return;
        }
        match SpliceInfo::parse(section) {
            Ok(info) => {
                let pts = info.time().map(|time| unwrap(time, reference));
                let data = Bytes::copy_from_slice(section);
                self.units.push(DataUnit { kind: DataKind::Splice, data, pts });
            }
            Err(_) => self.damaged = self.damaged.saturating_add(1),
        }
    }
}

fn unwrap(stamp: u64, reference: Option<Ticks>) -> Ticks {
    Ticks::unwrap_near(stamp, reference.unwrap_or(Ticks(stamp.cast_signed())))
}

/// What is in the metadata AU cells of a PES packet, end to end. Some writers leave the cells out, which the caller sees by the
/// universal key in front; what is neither is nothing.
fn cells(payload: &Bytes) -> Bytes {
    let mut rest = &payload[..];
    let mut found = Vec::new();
    while let Some((&[_, _, _, high, low], behind)) = rest.split_first_chunk::<CELL_HEAD_BYTES>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((cell, behind)) = behind.split_at_checked(length) else { break };
        found.extend_from_slice(cell);
        rest = behind;
    }
    if !found.starts_with(&klv::KEY_PREFIX) {
        found.clear();
    }
    found.into()
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
