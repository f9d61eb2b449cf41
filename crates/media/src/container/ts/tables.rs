//! Follows PAT and PMT of the first program in a stream, and keeps the packets that carried them.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::continuity::Continuity;
use super::packet::{NULL_PID, PACKET_BYTES, Packet};
use super::psi::{PAT_PID, Pat, Pmt, Program, SectionReader};
use crate::bitstream::aac_config::HeAac;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// More than any section of 1,024 bytes needs.
const TABLE_MAX_PACKETS: usize = 8;

/// One table: its last whole section and the packets that brought it, their counters zeroed. While the table is
/// only repeated nothing is allocated.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Table {
    reader: SectionReader,
    pending: Vec<u8>,
    section: Vec<u8>,
    packets: Packets,
}

impl Table {
    fn new() -> Table {
        Table {
            reader: SectionReader::new(),
            pending: Vec::with_capacity(TABLE_MAX_PACKETS * PACKET_BYTES),
            section: Vec::new(),
            packets: Arc::from([]),
        }
    }

    fn reset(&mut self) {
        self.drop_pending();
        self.section.clear();
        self.packets = Arc::from([]);
    }

    fn drop_pending(&mut self) {
        self.reader.reset();
        self.pending.clear();
    }

    /// Takes the PID's next packet. `accept` judges a section that differs from the last accepted one.
    fn push(
        &mut self,
        bytes: &[u8; PACKET_BYTES],
        packet: &Packet<'_>,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        let mut masked = *bytes;
        masked[3] &= 0xf0;
        if self.pending.len() >= TABLE_MAX_PACKETS * PACKET_BYTES {
            self.drop_pending();
        }
        self.pending.extend_from_slice(&masked);
        let Table { reader, pending, section, packets } = self;
        reader.push(packet.payload, packet.unit_start, &mut |found, here| {
            if *section != found {
                if !accept(found) {
                    return;
                }
                section.clear();
                section.extend_from_slice(found);
            }
            let carriers: &[u8] = if here { &masked } else { pending };
            if **packets != *carriers {
                *packets = Arc::from(carriers);
            }
        });
        if packet.unit_start {
            self.pending.clear();
            self.pending.extend_from_slice(&masked);
        }
    }
}

/// Whole packets, shared with the entry points that need them.
pub(super) type Packets = Arc<[u8]>;

/// The tables of a stream's first program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tables {
    pat: Table,
    pmt: Table,
    program_number: u16,
    pmt_pid: u16,
    program: Option<Program>,
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables { pat: Table::new(), pmt: Table::new(), program_number: 0, pmt_pid: NULL_PID, program: None }
    }

    pub(super) fn reset(&mut self) {
        self.pat.reset();
        self.forget_program();
    }

    fn forget_program(&mut self) {
        self.pmt.reset();
        self.pmt_pid = NULL_PID;
        self.program = None;
    }

    pub(super) fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// The stream on `pid` says itself that it is HE-AAC; true if that was not known.
    pub(super) fn told(&mut self, pid: u16, he_aac: HeAac) -> bool {
        let streams = self.program.as_mut().map(|program| &mut program.streams);
        let stream = streams.and_then(|streams| streams.iter_mut().find(|stream| stream.pid == pid));
        stream.is_some_and(|stream| stream.he_aac.replace(he_aac) != Some(he_aac))
    }

    /// The packets of PAT and PMT, once a program is known.
    pub(super) fn packets(&self) -> Option<(Packets, Packets)> {
        self.program.is_some().then(|| (self.pat.packets.clone(), self.pmt.packets.clone()))
    }

    /// Whether packets of `pid` are for [`Tables::push`].
    #[inline]
    pub(super) fn wants(&self, pid: u16) -> bool {
        pid == PAT_PID || pid == self.pmt_pid && pid != NULL_PID
    }

    /// Takes a packet of a table's PID; true if the program is another one now.
    pub(super) fn push(
        &mut self,
        bytes: &[u8; PACKET_BYTES],
        packet: &Packet<'_>,
        continuity: Continuity,
    ) -> bool {
        let table = if packet.pid == PAT_PID { &mut self.pat } else { &mut self.pmt };
        match continuity {
            Continuity::Duplicate | Continuity::Unchecked => return false,
            Continuity::Lost { .. } | Continuity::Signalled { .. } => table.drop_pending(),
            Continuity::First | Continuity::Continuous => {}
        }
        if packet.scrambled || !packet.has_payload {
            return false;
        }
        if packet.pid == PAT_PID { self.push_pat(bytes, packet) } else { self.push_pmt(bytes, packet) }
    }

    fn push_pat(&mut self, bytes: &[u8; PACKET_BYTES], packet: &Packet<'_>) -> bool {
        let followed = (self.program_number, self.pmt_pid);
        let mut chosen = followed;
        self.pat.push(bytes, packet, &mut |section| {
            let Ok(pat) = Pat::parse(section) else { return false };
            let valid = |&&(number, pid): &&(u16, u16)| number != 0 && (0x10..NULL_PID).contains(&pid);
            let again = pat.programs.iter().find(|&&program| program == followed);
            match again.or_else(|| pat.programs.iter().find(valid)) {
                Some(&program) if pat.current => chosen = program,
                _ => return false,
            }
            true
        });
        if chosen == followed {
            return false;
        }
        let changed = self.program.is_some();
        self.forget_program();
        (self.program_number, self.pmt_pid) = chosen;
        changed
    }

    fn push_pmt(&mut self, bytes: &[u8; PACKET_BYTES], packet: &Packet<'_>) -> bool {
        let (number, pid) = (self.program_number, self.pmt_pid);
        let mut found = None;
        self.pmt.push(bytes, packet, &mut |section| match Pmt::parse(section) {
            Ok(pmt) if pmt.current && pmt.program_number == number => {
                found = Some(Program::new(pid, pmt));
                true
            }
            _ => false,
        });
        let changed = found.is_some() && found != self.program;
        if changed {
            self.program = found;
        }
        changed
    }
}
