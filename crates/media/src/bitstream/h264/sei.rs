//! Supplemental enhancement information (H.264 Annex D): messages beside the pictures.
//!
//! ```text
//! NAL: 06 │ { type: ff… t │ size: ff… s │ payload } … │ 80
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

use super::bits::BitReader;
use super::nal::{escape, unescape};
use serde::{Deserialize, Serialize};

/// The type of messages that are told apart by a country and a provider (§D.1.6).
pub const USER_DATA_REGISTERED: u32 = 4;
/// The type of messages that anyone may define, told apart by a UUID (§D.1.7).
pub const USER_DATA_UNREGISTERED: u32 = 5;
/// The type that says after how many pictures decoding from here is right (§D.1.8).
pub const RECOVERY_POINT: u32 = 6;

/// Longer SEI units than this are not read to their end.
const SEI_MAX_BYTES: usize = 64 * 1024;

/// The messages of one SEI NAL unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sei {
    rbsp: Vec<u8>,
}

/// `recovery_point` (§D.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPoint {
    /// Pictures after which everything is right or nearly so; 0: this one already.
    pub frames: u32,
    /// Pictures after that are exactly those of a decoder that started earlier.
    pub exact: bool,
    /// Reference across this point is broken.
    pub broken_link: bool,
}

impl Sei {
    /// Takes the payload of a NAL unit of type [`super::NalType::Sei`], emulation prevention still in.
    pub fn parse(payload: &[u8]) -> Sei {
        let mut sei = Sei::default();
        unescape(payload, SEI_MAX_BYTES, &mut sei.rbsp);
        sei
    }

    /// One unregistered message of this payload, UUID first.
    pub(in crate::bitstream) fn of_user_data(payload: &[u8]) -> Sei {
        let mut sei = Sei::default();
        for number in [USER_DATA_UNREGISTERED as usize, payload.len()] {
            write_number(number, &mut sei.rbsp);
        }
        sei.rbsp.extend_from_slice(payload);
        sei.rbsp.push(0x80);
        sei
    }

    /// Iterates over type and payload of the messages; one that is cut off ends it.
    pub fn messages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = &self.rbsp[..];
        std::iter::from_fn(move || {
            // The trailing bits (0x80) stand where a message would begin.
            if rest.is_empty() || *rest == [0x80] {
                return None;
            }
            let kind = take_number(&mut rest)?;
            let size = take_number(&mut rest)?;
            let (payload, tail) = rest.split_at_checked(size as usize)?;
            rest = tail;
            Some((kind, payload))
        })
    }

    /// The data behind the UUID of the first unregistered message with this `uuid`.
    pub fn user_data(&self, uuid: &[u8; 16]) -> Option<&[u8]> {
        self.messages()
            .filter(|(kind, _)| *kind == USER_DATA_UNREGISTERED)
            .find_map(|(_, payload)| payload.strip_prefix(&uuid[..]))
    }

    /// The recovery point, if there is one.
    pub fn recovery_point(&self) -> Option<RecoveryPoint> {
        let (_, payload) = self.messages().find(|(kind, _)| *kind == RECOVERY_POINT)?;
        RecoveryPoint::parse(payload)
    }
}

impl RecoveryPoint {
    /// Parses the message's payload, emulation prevention taken out; `None` where it is cut off.
    pub fn parse(payload: &[u8]) -> Option<RecoveryPoint> {
        let mut reader = BitReader::new(payload);
        let frames = reader.ue()?;
        Some(RecoveryPoint { frames, exact: reader.bit()?, broken_link: reader.bit()? })
    }

    /// The payload of the message: `exact`, `broken_link` as they are, no change of slice groups.
    pub fn write(self) -> Vec<u8> {
        let code = u64::from(self.frames).saturating_add(1);
        // As many zeros as the code has digits behind its first, then the code, then four bits.
        let tail = u64::from(self.exact) << 3 | u64::from(self.broken_link) << 2;
        let (value, count) =
            (u128::from(code) << 4 | u128::from(tail), code.ilog2().saturating_mul(2).saturating_add(5));
        // The payload's own end, as any that is no multiple of a byte has it (§D.1): a one, then zeros.
        let whole = count.next_multiple_of(8);
        let value = match whole.saturating_sub(count) {
            0 => value,
            left => (value << 1 | 1).unbounded_shl(left.saturating_sub(1)),
        };
        value.to_be_bytes()[16usize.saturating_sub(whole as usize / 8)..].to_vec()
    }
}

/// A number as a run of 255s and a last byte.
fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    loop {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value = value.checked_add(u32::from(byte))?;
        if byte != 255 {
            return Some(value);
        }
    }
}

/// Appends a number as [`take_number`] reads it.
fn write_number(number: usize, out: &mut Vec<u8>) {
    out.resize(out.len().saturating_add(number / 255), 255);
    out.push((number % 255).to_le_bytes()[0]);
}

/// Appends a whole SEI NAL unit, four-byte start code included, with one message.
pub fn write_message(kind: u32, payload: &[u8], out: &mut Vec<u8>) {
    let mut rbsp = Vec::with_capacity(payload.len().saturating_add(8));
    for number in [kind as usize, payload.len()] {
        write_number(number, &mut rbsp);
    }
    rbsp.extend_from_slice(payload);
    rbsp.push(0x80);
    out.extend_from_slice(&[0, 0, 0, 1, 6]);
    escape(&rbsp, out);
}

/// Appends a whole SEI NAL unit with unregistered user data.
pub fn write_user_data(uuid: &[u8; 16], data: &[u8], out: &mut Vec<u8>) {
    write_message(USER_DATA_UNREGISTERED, &[&uuid[..], data].concat(), out);
}

#[cfg(test)]
mod tests {
    use super::super::nal::nals;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_recovery_point_is_read() {
        // ue(50) = 00000110011, exact, broken_link = 0, changing_slice_group_idc = 0.
        let sei = Sei::parse(&[6, 2, 0b0000_0110, 0b0111_0000, 0x80]);
        let expected = RecoveryPoint { frames: 50, exact: true, broken_link: false };
        assert_eq!(sei.recovery_point(), Some(expected));
    }

    proptest! {
        #[test]
        fn user_data_survives(data in proptest::collection::vec(0u8..4, 0..700), uuid: [u8; 16]) {
            let mut stream = Vec::new();
            write_user_data(&uuid, &data, &mut stream);
            let units: Vec<_> = nals(&stream).collect();
            prop_assert_eq!(units.len(), 1);
            let sei = Sei::parse(units[0].payload());
            prop_assert_eq!(sei.user_data(&uuid), Some(&data[..]));
            prop_assert_eq!(sei.messages().count(), 1);
        }

        #[test]
        fn recovery_points_survive(frames in prop_oneof![0u32..200, any::<u32>()], exact: bool, broken_link: bool) {
            let frames = frames.min(u32::MAX - 1);
            let point = RecoveryPoint { frames, exact, broken_link };
            let mut nal = Vec::new();
            write_message(RECOVERY_POINT, &point.write(), &mut nal);
            prop_assert_eq!(Sei::parse(&nal[5..]).recovery_point(), Some(point));
        }

        #[test]
        fn hostile_messages_end(payload in proptest::collection::vec(any::<u8>(), 0..300)) {
            let sei = Sei::parse(&payload);
            prop_assert!(sei.messages().count() <= payload.len());
            let _ = sei.recovery_point();
        }
    }
}
