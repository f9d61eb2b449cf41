//! AV1 ("RTP Payload Format For AV1", v1.0 §4) to temporal units.
//!
//! ```text
//! continues:1 goes on:1 elements:2 new sequence:1 0:3 │ [length, leb128] OBU or a piece of one │ …
//! ```
//! Of one to three elements the last has no length; with 0 each has one.

use super::{CodedUnit, Collected, Piece, UNIT_BYTES_MAX};
use bytes::Bytes;
use glassline_media::Codec;
use glassline_media::bitstream::{self, av1};

/// In the header of an OBU: an extension and a size follow.
const HAS_EXTENSION: u8 = 4;
const HAS_SIZE: u8 = 2;
/// Types of OBUs (AV1 §6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;
/// Bytes of a sequence header that is kept at most.
const SEQUENCE_BYTES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Av1Assembler {
    /// The OBUs so far, in the low-overhead format.
    sample: Vec<u8>,
    /// An OBU that goes on in the next packet.
    fragment: Option<Vec<u8>>,
    /// The newest sequence header, for key frames without one.
    sequence: Vec<u8>,
    timestamp: u64,
    has_begun: bool,
    is_damaged: bool,
    has_given: bool,
}

impl Av1Assembler {
    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if self.has_begun && piece.timestamp != self.timestamp {
            self.is_damaged |= piece.is_after_loss;
            self.finish(out);
        }
        if piece.is_after_loss {
            self.fragment = None;
            self.is_damaged |= self.has_begun;
        }
        self.timestamp = piece.timestamp;
        if !piece.payload.is_empty() && self.take_payload(piece, out).is_none() {
            out.malform();
            (self.fragment, self.is_damaged, self.has_begun) = (None, true, true);
        }
        if piece.marker {
            self.finish(out);
        }
    }

    fn take_payload(&mut self, piece: &Piece<'_>, out: &mut Collected) -> Option<()> {
        let (&aggregation, mut rest) = piece.payload.split_first()?;
        let (continues, goes_on) = (aggregation & 0x80 != 0, aggregation & 0x40 != 0);
        let elements = aggregation >> 4 & 3;
        if !continues && self.fragment.take().is_some() {
            self.is_damaged = true;
        }
        let mut number = 0u8;
        while !rest.is_empty() {
            number = number.saturating_add(1);
            let is_bare = elements > 0 && number == elements;
            let length = if is_bare { rest.len() } else { read_leb128(&mut rest)? };
            let (element, behind) = rest.split_at_checked(length)?;
            let is_last = behind.is_empty();
            rest = behind;
            let is_first = number == 1;
            self.take_element(element, is_first && continues, is_last && goes_on, piece.is_after_loss);
        }
        if number < elements {
            return None;
        }
        if self.sample.len() > UNIT_BYTES_MAX {
            self.sample = Vec::new();
            self.is_damaged = true;
        }
        let _ = out;
        Some(())
    }

    fn take_element(&mut self, element: &[u8], continues: bool, goes_on: bool, is_after_loss: bool) {
        let mut obu = if continues {
            let Some(fragment) = self.fragment.take() else {
                // The rest of one with a beginning that did not come; before the first unit that is no loss.
                self.has_begun |= self.has_given || !is_after_loss;
                self.is_damaged = true;
                return;
            };
            fragment
        } else {
            Vec::new()
        };
        self.has_begun = true;
        if obu.len().saturating_add(element.len()) > UNIT_BYTES_MAX {
            self.is_damaged = true;
            return;
        }
        obu.extend_from_slice(element);
        if goes_on {
            self.fragment = Some(obu);
        } else if self.take_obu(&obu).is_none() {
            self.is_damaged = true;
        }
    }

    /// A whole OBU, with a size or without.
    fn take_obu(&mut self, obu: &[u8]) -> Option<()> {
        let &header = obu.first()?;
        let kind = header >> 3 & 15;
        if matches!(kind, TEMPORAL_DELIMITER | TILE_LIST | PADDING) {
            return Some(());
        }
        let begin = self.sample.len();
        if header & HAS_SIZE != 0 {
            self.sample.extend_from_slice(obu);
        } else {
            let header_bytes = if header & HAS_EXTENSION != 0 { 2 } else { 1 };
            let (head, payload) = obu.split_at_checked(header_bytes)?;
            self.sample.push(header | HAS_SIZE);
            self.sample.extend_from_slice(head.get(1..)?);
            write_leb128(payload.len(), &mut self.sample);
            self.sample.extend_from_slice(payload);
        }
        if kind == SEQUENCE_HEADER {
            let sequence = self.sample.get(begin..).filter(|bytes| bytes.len() <= SEQUENCE_BYTES_MAX)?;
            self.sequence = sequence.to_vec();
        }
        Some(())
    }

    /// The temporal unit is whole.
    pub(super) fn finish(&mut self, out: &mut Collected) {
        let is_open = self.fragment.take().is_some();
        let sample = std::mem::take(&mut self.sample);
        let is_damaged = std::mem::take(&mut self.is_damaged) || is_open;
        if !std::mem::take(&mut self.has_begun) {
            return;
        }
        let unit = Some(&sample).filter(|sample| !is_damaged && !sample.is_empty());
        let Some(unit) = unit.and_then(|sample| av1::to_unit(sample, &self.sequence)) else {
            return out.damage();
        };
        self.has_given = true;
        out.push(CodedUnit {
            codec: Codec::Av1,
            random_access: bitstream::is_key(Codec::Av1, &unit),
            data: Bytes::from(unit),
            timestamp: self.timestamp,
            decode_timestamp: self.timestamp,
        });
    }
}

/// A length (AV1 §4.10.5) of at most four bytes: RTP packets are shorter.
fn read_leb128(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0usize;
    for shift in [0u32, 7, 14, 21] {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends a length.
pub(super) fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
