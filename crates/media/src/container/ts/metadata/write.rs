//! Streams of data, written.

use super::super::packetize::{Field, packetize};
use super::super::pes;
use super::super::psi::{DataKind, ElementaryStream, write_packets};
use crate::time::Ticks;

/// The stream id of synchronous metadata (13818-1 table 2-22).
const STREAM_ID_METADATA: u8 = 0xfc;
/// Bytes of metadata that fit a PES packet, with its optional fields and the head of a cell.
pub const DATA_MAX_BYTES: usize = 0xffff - 3 - 5 - super::CELL_HEAD_BYTES;

/// Writes the packets of a stream of data on one PID.
#[derive(Clone, Debug)]
pub struct DataWriter {
    pid: u16,
    kind: DataKind,
    continuity: u8,
    cell: u8,
}

impl DataWriter {
    /// A writer before the first unit.
    pub fn new(pid: u16, kind: DataKind) -> DataWriter {
        DataWriter { pid, kind, continuity: 0, cell: 0 }
    }

    /// What the program map says of it (MISB ST 1402, SCTE 35 §8.1).
    pub fn announced(&self) -> ElementaryStream {
        let (stream_type, descriptors): (u8, &[u8]) = match self.kind {
            DataKind::Klv { synchronous: false } => (0x06, b"\x05\x04KLVA"),
            // Metadata of the general application (0x0100), in a format that KLVA registers, of service 0; and its buffer.
            DataKind::Klv { synchronous: true } => {
                (0x15, b"\x26\x09\x01\x00\xffKLVA\x00\x0f\x27\x09\xc0\x01\xf4\xc0\x01\xf4\xc0\x00\x00")
            }
            DataKind::Splice => (0x86, b"\x05\x04CUEI"),
        };
        ElementaryStream::new(self.pid, stream_type, descriptors.to_vec())
    }

    /// Appends the packets of a unit: KLV packets of up to [`DATA_MAX_BYTES`], more are cut off; of cues a whole section, which
    /// has no time stamp. Synchronous KLV without a time stamp has that of 0.
    pub fn write(&mut self, data: &[u8], pts: Option<Ticks>, out: &mut Vec<u8>) {
        let data = data.get(..data.len().min(DATA_MAX_BYTES)).unwrap_or_default();
        let synchronous = match self.kind {
            DataKind::Splice => return write_packets(self.pid, data, &mut self.continuity, out),
            DataKind::Klv { synchronous } => synchronous,
        };
        let mut head = Vec::new();
        let mut cell = Vec::new();
        if synchronous {
            let [high, low] = u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes();
            // A whole unit, which can be begun with.
            cell.extend_from_slice(&[0, self.cell, 0xdf, high, low]);
            self.cell = self.cell.wrapping_add(1);
        }
        let stream_id = if synchronous { STREAM_ID_METADATA } else { pes::STREAM_ID_PRIVATE };
        match pts.or(synchronous.then_some(Ticks(0))) {
            Some(pts) => {
                pes::write_header(stream_id, pts, pts, cell.len().saturating_add(data.len()), &mut head);
            }
            None => {
                let length = u16::try_from(data.len().saturating_add(3)).unwrap_or(u16::MAX);
                head.extend_from_slice(&[0, 0, 1, stream_id]);
                head.extend_from_slice(&length.to_be_bytes());
                head.extend_from_slice(&[0x84, 0, 0]);
            }
        }
        head.extend_from_slice(&cell);
        packetize(self.pid, &mut self.continuity, Field::default(), [&head, data, &[]], out);
    }
}
