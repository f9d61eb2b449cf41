//! H.264 (RFC 6184, single NAL unit and non-interleaved mode) and H.265 (RFC 7798 without DONL) to access units.
//!
//! ```text
//! H.264  1…23 │ NAL unit        24 │ STAP-A: length:16 NAL unit …      28 │ FU-A: start:1 end:1 0 type:5 │ piece
//! H.265  0…47 │ NAL unit        48 │ AP: length:16 NAL unit …          49 │ FU: start:1 end:1 type:6 │ piece
//! ```
//! Habits of cameras that are taken as they are meant:
//! * a marker bit on each NAL unit, parameter sets too: these wait for their picture, and where slices of one picture follow a
//!   marker it is not believed any more;
//! * parameter sets with the time stamp of the picture before: behind a slice they begin the next unit;
//! * fragments with start and end in one packet, and without an end;
//! * start codes within payloads.

use super::decode_order::DecodeOrder;
use super::parameter_sets::{Kind, ParameterSets, START_CODE, without_start_codes};
use super::{CodedUnit, Collected, Piece, UNIT_BYTES_MAX};
use bytes::Bytes;
use glassline_media::Codec;
use glassline_media::bitstream;

/// What a packet is, by the type of its first NAL unit header.
enum Layout {
    Single,
    Aggregate,
    Fragment,
    Unknown,
}

/// Access units of one track.
#[derive(Debug)]
pub(super) struct NalAssembler {
    codec: Codec,
    sets: ParameterSets,
    order: DecodeOrder,
    /// The unit so far, behind start codes.
    unit: Vec<u8>,
    timestamp: u64,
    has_slice: bool,
    is_damaged: bool,
    /// Packets are missing, and it is not seen yet that a unit begins behind them.
    is_after_loss: bool,
    /// Where in `unit` the NAL unit begins that comes in fragments.
    fragment: Option<usize>,
    /// The time stamp of the last unit, where its marker ended it.
    ended: Option<u64>,
    ignores_marker: bool,
    /// A unit has come whole, so that one with a lost beginning is counted.
    has_given: bool,
}

impl NalAssembler {
    pub(super) fn new(codec: Codec, sets: ParameterSets) -> NalAssembler {
        let mut order = DecodeOrder::default();
        order.set_depth(sets.reorder_depth(codec));
        NalAssembler {
            codec,
            sets,
            order,
            unit: Vec::new(),
            timestamp: 0,
            has_slice: false,
            is_damaged: false,
            is_after_loss: false,
            fragment: None,
            ended: None,
            ignores_marker: false,
            has_given: false,
        }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if piece.is_after_loss {
            self.lose();
        }
        if self.has_slice && piece.timestamp != self.timestamp {
            self.finish(out);
        }
        // Parameter sets in front of a picture belong to it, whatever their own stamp says.
        self.timestamp = piece.timestamp;
        if !piece.payload.is_empty() && self.take_payload(piece.payload, out).is_none() {
            out.malform();
            self.lose();
        }
        if piece.marker && self.has_slice && !self.ignores_marker {
            self.finish(out);
            self.ended = Some(piece.timestamp);
        }
    }

    /// Packets are missing here.
    fn lose(&mut self) {
        self.is_damaged |= self.has_slice || self.fragment.is_some();
        if let Some(begin) = self.fragment.take() {
            self.unit.truncate(begin);
        }
        self.is_after_loss = true;
    }

    fn header_bytes(&self) -> usize {
        if self.codec == Codec::H265 { 2 } else { 1 }
    }

    fn layout(&self, first: u8) -> Layout {
        if self.codec == Codec::H265 {
            return match first >> 1 & 0x3f {
                0..=47 => Layout::Single,
                48 => Layout::Aggregate,
                49 => Layout::Fragment,
                _ => Layout::Unknown,
            };
        }
        match first & 0x1f {
            // 0 is no type: a start code that was left in begins with it.
            0..=23 => Layout::Single,
            24 => Layout::Aggregate,
            28 => Layout::Fragment,
            _ => Layout::Unknown,
        }
    }

    /// `None` where the payload contradicts itself.
    fn take_payload(&mut self, payload: &[u8], out: &mut Collected) -> Option<()> {
        match self.layout(*payload.first()?) {
            Layout::Single => {
                for nal in without_start_codes(payload) {
                    self.add(nal, out);
                }
                Some(())
            }
            Layout::Aggregate => {
                let mut rest = payload.get(self.header_bytes()..)?;
                while let Some((length, behind)) = rest.split_first_chunk::<2>() {
                    let length = usize::from(u16::from_be_bytes(*length));
                    let (nal, behind) = behind.split_at_checked(length)?;
                    self.add(nal, out);
                    rest = behind;
                }
                // Some senders pad with a byte.
                Some(())
            }
            Layout::Fragment => self.take_fragment(payload, out),
            Layout::Unknown => None,
        }
    }

    fn take_fragment(&mut self, payload: &[u8], out: &mut Collected) -> Option<()> {
        let (header, rest) = payload.split_at_checked(self.header_bytes())?;
        let (&fragment, data) = rest.split_first()?;
        let (starts, ends) = (fragment & 0x80 != 0, fragment & 0x40 != 0);
        if starts {
            let mut begin = [0u8; 3];
            let length = match (self.codec, header) {
                (Codec::H265, &[first, second]) => {
                    begin = [first & 0x81 | (fragment & 0x3f) << 1, second, 0];
                    2
                }
                (_, &[first, ..]) => {
                    begin[0] = first & 0xe0 | fragment & 0x1f;
                    1
                }
                _ => return None,
            };
            // The byte behind the header says whether the slice begins a picture.
            begin[length.min(2)] = data.first().copied().unwrap_or(0);
            let kind = Kind::of(self.codec, begin.get(..=length)?);
            self.begin(kind, out);
            self.fragment = Some(self.unit.len());
            self.append(&START_CODE);
            self.append(begin.get(..length)?);
        } else if self.fragment.is_none() {
            // The tail of one with a beginning that did not come. Before the first unit that is no loss.
            self.has_slice |= self.has_given;
            self.is_damaged |= self.has_slice;
            self.is_after_loss = true;
            return Some(());
        }
        self.append(data);
        if ends {
            self.fragment = None;
        }
        Some(())
    }

    /// A whole NAL unit.
    fn add(&mut self, nal: &[u8], out: &mut Collected) {
        if nal.is_empty() {
            return;
        }
        self.begin(Kind::of(self.codec, nal), out);
        self.append(&START_CODE);
        self.append(nal);
    }

    /// A NAL unit begins.
    fn begin(&mut self, kind: Kind, out: &mut Collected) {
        // One in fragments that has not ended is as whole as it gets: nothing is missing, or `lose` had taken it out.
        self.fragment = None;
        if self.has_slice && kind.begins_unit() {
            self.finish(out);
        }
        if let Kind::Slice { begins_picture } = kind {
            let continues = !begins_picture && !self.has_slice;
            if continues && self.ended == Some(self.timestamp) && !self.is_after_loss {
                // The marker stands on each slice: the unit that it ended was a part of a picture.
                self.ignores_marker = true;
            }
            self.is_damaged |= continues;
            self.has_slice = true;
        }
        self.is_after_loss = false;
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.unit.len().saturating_add(bytes.len()) > UNIT_BYTES_MAX {
            self.is_damaged = true;
        } else if !self.is_damaged || !self.has_slice {
            self.unit.extend_from_slice(bytes);
        }
    }

    /// No more packets come. A picture in a piece that has not ended lacks its end, as far as can be known.
    pub(super) fn end(&mut self, out: &mut Collected) {
        self.is_damaged |= self.fragment.is_some();
        self.finish(out);
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.unit.len()
    }

    /// The unit is whole.
    fn finish(&mut self, out: &mut Collected) {
        self.fragment = None;
        self.ended = None;
        if !std::mem::take(&mut self.has_slice) {
            return;
        }
        let unit = std::mem::take(&mut self.unit);
        if std::mem::take(&mut self.is_damaged) {
            out.damage();
            return;
        }
        if self.sets.update(self.codec, &unit) {
            self.order.set_depth(self.sets.reorder_depth(self.codec));
        }
        let is_key = bitstream::is_key(self.codec, &unit);
        let unit = if is_key { self.sets.complete(self.codec, unit) } else { unit };
        let random_access = is_key || bitstream::join(self.codec, &unit).is_some();
        let (timestamp, decode_timestamp) = self.order.push(self.timestamp);
        self.has_given = true;
        out.push(CodedUnit {
            codec: self.codec,
            data: Bytes::from(unit),
            timestamp,
            decode_timestamp,
            random_access,
        });
    }
}
