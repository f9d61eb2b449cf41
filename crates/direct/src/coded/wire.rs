//! Access units on channel [`VIDEO`](crate::VIDEO).
//!
//! ```text
//! unit      version:1=1 flags:1 epoch:4 number:v back:v captured:v rate:v+v stamps:1+n unit:rest
//!           flags     bit 1: an access unit of H.264; bit 0: decoding can begin here; bit 2: the rest of the one before;
//!                     bit 3: others may refer to it; the others are 0
//!           number    of the unit, from 0, one more for each that was sent
//!           back      number less that of the unit that it needs, the newest before it that others refer to; 0 for none
//!           captured  UTC in microseconds
//!           rate      pictures a second, as a fraction; 0/1 where it is not known
//!           stamps    as of pictures
//!           unit      Annex B, start codes included
//! ```
//! `epoch`, `v` and the stamps are those of [`crate::wire`].
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::wire::{NUMBER_MAX, WireError, parse_stamps, version, write_stamps};
use glassline_media::{FrameRate, Stamps, Utc};
use glassline_transport::link::wire::varint::{self, Reader};

const VERSION: u8 = 1;
const KEY: u8 = 1;
const UNIT: u8 = 2;
const CONTINUES: u8 = 4;
const REFERENCE: u8 = 8;

/// Whether a message of channel VIDEO is an access unit, and not a picture of ours.
pub fn is_unit(message: &[u8]) -> bool {
    matches!(message, [VERSION, flags, ..] if flags & UNIT != 0)
}

/// What stands in front of an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    /// Names one run of the sender.
    pub epoch: u32,
    /// The unit's number in it.
    pub number: u64,
    /// The unit that it needs; `None`: decoding can begin here.
    pub needs: Option<u64>,
    /// It is the rest of the unit before it.
    pub continues: bool,
    /// Others may refer to it.
    pub reference: bool,
    /// When it was captured, or came.
    pub captured: Utc,
    /// Pictures a second, where that is known.
    pub rate: Option<FrameRate>,
    /// The stages that it has passed since, on a clock that is zero at its capture.
    pub passed: Stamps,
}

impl UnitHeader {
    /// Appends the header; the unit follows.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags = UNIT
            | flag(self.needs.is_none(), KEY)
            | flag(self.continues, CONTINUES)
            | flag(self.reference, REFERENCE);
        out.extend_from_slice(&[VERSION, flags]);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        varint::write(self.number, out);
        varint::write(self.needs.map_or(0, |needs| self.number.saturating_sub(needs)), out);
        varint::write(self.captured.as_micros(), out);
        let (numerator, denominator) =
            self.rate.map_or((0, 1), |rate| (rate.numerator(), rate.denominator()));
        varint::write(numerator.into(), out);
        varint::write(denominator.into(), out);
        write_stamps(&self.passed, out);
    }

    /// Reads a message: its header and the unit behind it.
    ///
    /// # Errors
    /// Another version, or no such message.
    pub fn parse(message: &[u8]) -> Result<(UnitHeader, &[u8]), WireError> {
        let missing = |what| WireError::Malformed { what };
        let mut reader = Reader::new(message);
        let flags = version(&mut reader)?;
        if flags & UNIT == 0 || flags & !(KEY | UNIT | CONTINUES | REFERENCE) != 0 {
            return Err(missing("flags"));
        }
        let epoch = u32::from_be_bytes(reader.array().ok_or(missing("epoch"))?);
        let number = reader.varint_up_to(NUMBER_MAX).ok_or(missing("number"))?;
        let back = reader.varint_up_to(number).ok_or(missing("needed unit"))?;
        let needs = match (flags & KEY != 0, back) {
            (true, 0) => None,
            (false, 1..) => number.checked_sub(back),
            _ => return Err(missing("needed unit")),
        };
        let captured = Utc::from_micros(reader.varint_up_to(NUMBER_MAX).ok_or(missing("time of capture"))?);
        let mut part = || reader.u32_up_to(u32::MAX).ok_or(missing("frame rate"));
        let rate = FrameRate::new(part()?, part()?);
        let passed = parse_stamps(&mut reader).ok_or(missing("block of stamps"))?;
        let unit = reader.take_rest();
        if unit.is_empty() {
            return Err(missing("unit"));
        }
        let (continues, reference) = (flags & CONTINUES != 0, flags & REFERENCE != 0);
        Ok((UnitHeader { epoch, number, needs, continues, reference, captured, rate, passed }, unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Stage, Time};
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn units_come_back_and_their_beginnings_are_refused(
            (epoch, number, back) in (any::<u32>(), 0u64..1 << 40, 0u64..50),
            (continues, reference, rated) in any::<(bool, bool, bool)>(),
            micros in 0u64..1 << 50,
            unit in prop::collection::vec(any::<u8>(), 1..60),
        ) {
            let encoded = Time::ZERO + Duration::from_micros(micros % 1_000_000);
            let passed = Stamps::captured_at(Time::ZERO).with(Stage::Encoded, encoded);
            let header = UnitHeader {
                epoch,
                number,
                needs: (back > 0 && back <= number).then(|| number - back),
                continues,
                reference,
                captured: Utc::from_micros(micros),
                rate: rated.then(|| FrameRate::new(30_000, 1001).unwrap()),
                passed,
            };
            let mut message = Vec::new();
            header.write(&mut message);
            let head = message.len();
            message.extend_from_slice(&unit);
            prop_assert!(is_unit(&message));
            prop_assert_eq!(UnitHeader::parse(&message), Ok((header, &unit[..])));
            for end in 0..=head {
                prop_assert!(UnitHeader::parse(&message[..end]).is_err());
            }
            prop_assert!(crate::wire::PictureHeader::parse(&message).is_err());
        }
    }
}
