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

/// A unit in several metadata AU cells that grows beyond this is dropped.
const JOINED_MAX_BYTES: usize = 64 << 10;
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

/// Puts the units of one stream together. Holds at most one PES packet or section, and a unit that is split over cells.
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
        /// The begun unit, where one is split over metadata AU cells.
        begun: Option<Fragments>,
    },
    Sections(SectionReader),
}

/// A unit that is split over metadata AU cells, as far as it has come.
#[derive(Clone, Debug)]
struct Fragments {
    /// The service that it belongs to.
    service: u8,
    data: Vec<u8>,
    /// Of the PES packet that it begins in.
    pts: Option<Ticks>,
}

/// Which part of a unit a metadata AU cell is (13818-1 §2.12.4.2, `cell_fragment_indication`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragment {
    Middle,
    Last,
    First,
    Whole,
}

impl Fragment {
    fn of(flags: u8) -> Fragment {
        match flags >> 6 {
            0 => Fragment::Middle,
            1 => Fragment::Last,
            2 => Fragment::First,
            _ => Fragment::Whole,
        }
    }
}

impl Collector {
    pub(super) fn new(pid: u16, kind: DataKind) -> Collector {
        let body = match kind {
            DataKind::Klv { .. } => Body::Pes { bytes: Vec::new(), active: false, begun: None },
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
                let dropped = reader.push(packet.payload, packet.unit_start, &mut |section, _| {
                    found.take_section(section, reference);
                });
                found.damaged = found.damaged.saturating_add(dropped);
            }
            Body::Pes { bytes, active, .. } => {
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
            Body::Sections(reader) => {
                found.damaged = found.damaged.saturating_add(reader.reset().into());
            }
            Body::Pes { bytes, active, begun } => {
                let lost = u64::from(*active).saturating_add(u64::from(begun.take().is_some()));
                found.damaged = found.damaged.saturating_add(lost);
                bytes.clear();
                *active = false;
            }
        }
    }

    /// Whether a unit has begun that is not whole.
    pub(super) fn has_begun(&self) -> bool {
        match &self.body {
            Body::Sections(reader) => reader.has_begun(),
            Body::Pes { active, begun, .. } => *active || begun.is_some(),
        }
    }

    /// Nothing follows: gives the begun PES packet, and drops what cannot be whole any more.
    pub(super) fn finish(&mut self, reference: Option<Ticks>, found: &mut Found) {
        self.end(reference, found);
        self.lose(found);
    }

    /// Gives the begun PES packet, if there is one: another one begins, or nothing follows.
    fn end(&mut self, reference: Option<Ticks>, found: &mut Found) {
        let Body::Pes { bytes, active, begun } = &mut self.body else { return };
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
        // Some writers leave the cells out, which the universal key in front shows.
        if payload.starts_with(&klv::KEY_PREFIX) {
            found.give(self.kind, payload, pts);
        } else {
            take_cells(&payload, pts, self.kind, begun, found);
        }
    }
}

impl Found {
    /// Gives KLV; what begins with no universal key is none.
    fn give(&mut self, kind: DataKind, data: Bytes, pts: Option<Ticks>) {
        if data.starts_with(&klv::KEY_PREFIX) {
            self.units.push(DataUnit { kind, data, pts });
        } else {
            self.count_damaged();
        }
    }

    fn count_damaged(&mut self) {
        self.damaged = self.damaged.saturating_add(1);
    }

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
            Err(_) => self.count_damaged(),
        }
    }
}

fn unwrap(stamp: u64, reference: Option<Ticks>) -> Ticks {
    Ticks::unwrap_near(stamp, reference.unwrap_or(Ticks(stamp.cast_signed())))
}

/// Gives what is in the metadata AU cells of a PES packet (13818-1 §2.12.4): the whole units end to end, and one that began in
/// an earlier packet by itself, with the stamp of that.
fn take_cells(
    payload: &[u8],
    pts: Option<Ticks>,
    kind: DataKind,
    begun: &mut Option<Fragments>,
    found: &mut Found,
) {
    let counted = |found: &Found| (found.units.len(), found.damaged, found.oversized);
    let (before, mut rest, mut whole) = (counted(found), payload, Vec::new());
    // A unit that began in an earlier packet has the stamp of that.
    let mut is_earlier = begun.is_some();
    while let Some((&[service, _, flags, high, low], behind)) = rest.split_first_chunk::<CELL_HEAD_BYTES>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((cell, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        let fragment = Fragment::of(flags);
        if matches!(fragment, Fragment::First | Fragment::Whole) {
            if begun.take().is_some() {
                found.count_damaged();
            }
            is_earlier = false;
        }
        match fragment {
            Fragment::Whole => whole.extend_from_slice(cell),
            Fragment::First => *begun = Some(Fragments { service, data: cell.to_vec(), pts }),
            Fragment::Middle | Fragment::Last => {
                let Some(mut unit) = begun.take().filter(|unit| unit.service == service) else {
                    found.count_damaged();
                    continue;
                };
                unit.data.extend_from_slice(cell);
                if unit.data.len() > JOINED_MAX_BYTES {
                    found.oversized = found.oversized.saturating_add(1);
                } else if fragment == Fragment::Middle {
                    *begun = Some(unit);
                } else if is_earlier {
                    found.give(kind, unit.data.into(), unit.pts);
                } else {
                    whole.append(&mut unit.data);
                }
            }
        }
    }
    if !rest.is_empty() {
        found.count_damaged();
    }
    let has_nothing = counted(found) == before && begun.is_none();
    if !whole.is_empty() || has_nothing {
        found.give(kind, whole.into(), pts);
    }
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
