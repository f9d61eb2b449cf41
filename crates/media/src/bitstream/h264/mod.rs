//! H.264 (ITU-T H.264, ISO/IEC 14496-10) as far as carrying it needs: NAL units, parameter sets, messages.
//! No picture is decoded.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod bits;
mod capture_utc;
pub mod nal;
pub mod sei;
pub mod sps;
pub mod units;

pub use bits::BitReader;
pub use capture_utc::{
    CAPTURE_UTC_BYTES, CAPTURE_UTC_UUID, write_capture, write_capture_utc, write_capture_utc_nal,
};
pub use nal::{Nal, NalType, escape, find_start_code, nals, unescape};
pub use sei::{RecoveryPoint, Sei};
pub use sps::{ColourDescription, HrdRate, Sps};

use serde::{Deserialize, Serialize};

/// An access unit delimiter with its start code: any kind of slice may follow (§7.4.2.4).
pub const ACCESS_UNIT_DELIMITER: [u8; 6] = [0, 0, 0, 1, 9, 0xf0];

/// Filler data of no bytes, with its start code (§7.3.2.7): what our muxer puts behind the last slice of a unit, at the
/// very end of a transport packet. It belongs to the unit that it ends, means nothing to a decoder, and tells a
/// receiver that nothing more of the picture follows, also where the PES packet has no length.
pub const END_OF_UNIT: [u8; 5] = [0, 0, 1, 12, 0x80];

/// What is wrong with an H.264 bitstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bits end before this field.
    #[error("bitstream ends in {what}")]
    Truncated {
        /// The field, or the structure.
        what: &'static str,
    },
    /// A value is larger than the standard or this implementation allows.
    #[error("{what} is {found}, expected at most {limit}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u32,
        /// The largest value allowed.
        limit: u32,
    },
}

/// How the macroblocks of a slice may be predicted (H.264 table 7-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceType {
    /// From earlier pictures.
    P,
    /// From two lists of pictures.
    B,
    /// From the same picture.
    I,
    /// Like P, for switching streams.
    Sp,
    /// Like I, for switching streams.
    Si,
}

/// The slice type in the payload of a slice's NAL unit (types 1, 2 and 5).
pub fn slice_type(nal: &Nal<'_>) -> Option<SliceType> {
    if !matches!(nal.bytes[0] & 0x1f, 1 | 2 | 5) {
        return None;
    }
    let mut head = Vec::with_capacity(16);
    unescape(nal.payload(), 16, &mut head);
    let mut reader = BitReader::new(&head);
    reader.ue()?;
    Some(match reader.ue_up_to(9)? % 5 {
        0 => SliceType::P,
        1 => SliceType::B,
        2 => SliceType::I,
        3 => SliceType::Sp,
        _ => SliceType::Si,
    })
}

/// The type of an access unit's first slice.
pub fn first_slice_type(access_unit: &[u8]) -> Option<SliceType> {
    slice_type(&nals(access_unit).find(|nal| nal.kind().is_slice())?)
}

/// Whether an access unit is an IDR picture. Looks at no byte behind the first slice's header.
pub fn is_key(access_unit: &[u8]) -> bool {
    first_kind(access_unit, NalType::is_slice) == Some(NalType::Idr)
}

/// Whether an access unit begins with an access unit delimiter.
pub fn begins_with_delimiter(access_unit: &[u8]) -> bool {
    first_kind(access_unit, |_| true) == Some(NalType::AccessUnitDelimiter)
}

/// The first NAL unit type of which `wanted` is true, without looking for its unit's end.
fn first_kind(access_unit: &[u8], wanted: impl Fn(NalType) -> bool) -> Option<NalType> {
    let mut at = 0;
    loop {
        at = find_start_code(access_unit, at)?.saturating_add(3);
        let kind = NalType::of(*access_unit.get(at)?);
        if wanted(kind) {
            return Some(kind);
        }
    }
}

/// How decoding can begin at a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// An IDR picture: it and all that follow it are right.
    Idr,
    /// A recovery point (§D.2.8): pictures are right after a while.
    Recovery(RecoveryPoint),
}

impl Join {
    /// Pictures from this one on that may be wrong; 0: this one is right already.
    pub const fn settling_frames(self) -> u32 {
        match self {
            Join::Idr => 0,
            Join::Recovery(point) => point.frames,
        }
    }
}

/// Whether and how decoding can begin at this access unit: at an IDR picture, or at a recovery point that brings both
/// parameter sets. Looks at no byte behind the first slice's header.
pub fn join(access_unit: &[u8]) -> Option<Join> {
    let (head, slice) = nal::head(access_unit, |header| NalType::of(header).is_slice());
    match NalType::of(*access_unit.get(slice?)?) {
        NalType::Idr => Some(Join::Idr),
        _ => {
            let (mut sps, mut pps, mut point) = (false, false, None);
            for nal in head {
                match nal.kind() {
                    NalType::Sps => sps = true,
                    NalType::Pps => pps = true,
                    NalType::Sei => point = point.or_else(|| Sei::parse(nal.payload()).recovery_point()),
                    _ => {}
                }
            }
            point.filter(|_| sps && pps).map(Join::Recovery)
        }
    }
}

/// Iterates over the access units of a byte stream in which each begins with a delimiter: start codes stay, what
/// stands before the first delimiter belongs to the first unit.
pub fn split_at_delimiters(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        let mut seen_slice = false;
        while let Some(at) = find_start_code(rest, from) {
            from = at.saturating_add(3);
            let Some(&header) = rest.get(from) else { break };
            let kind = NalType::of(header);
            if kind == NalType::AccessUnitDelimiter && seen_slice {
                // The zero of a four-byte start code goes with the delimiter.
                let cut = at.checked_sub(1).filter(|&before| rest[before] == 0).unwrap_or(at);
                let (unit, tail) = rest.split_at(cut);
                rest = tail;
                return Some(unit);
            }
            seen_slice |= kind.is_slice();
        }
        Some(std::mem::take(&mut rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_slice_types_are_told() {
        let idr = [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x65, 0b1011_1000];
        assert!(is_key(&idr) && begins_with_delimiter(&idr));
        // first_mb 0 = 1, slice_type 7 (all I) = 0001000.
        let intra = [0, 0, 1, 0x41, 0b1000_1000];
        assert!(!is_key(&intra) && !begins_with_delimiter(&intra));
        assert_eq!(first_slice_type(&intra), Some(SliceType::I));
        assert_eq!(first_slice_type(&[0, 0, 1, 0x41, 0b1100_0000]), Some(SliceType::P));
        assert_eq!(first_slice_type(&[0, 0, 1]), None);
    }

    #[test]
    fn a_recovery_point_needs_its_parameter_sets() {
        let point = RecoveryPoint { frames: 39, exact: true, broken_link: false };
        let mut message = Vec::new();
        sei::write_message(sei::RECOVERY_POINT, &point.write(), &mut message);
        let slice = [0, 0, 1, 0x41, 0x9a, 0, 0, 1, 0x41, 0x9a];
        let sets = [0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1];
        let unit = |parts: &[&[u8]]| [&ACCESS_UNIT_DELIMITER[..], &parts.concat()].concat();
        assert_eq!(join(&unit(&[&sets, &message, &slice])), Some(Join::Recovery(point)));
        assert_eq!(Join::Recovery(point).settling_frames(), 39);
        assert_eq!(join(&unit(&[&message, &slice])), None);
        assert_eq!(join(&unit(&[&sets, &slice])), None);
        // What follows the first slice is another picture's, or nothing that counts.
        assert_eq!(join(&unit(&[&sets, &slice, &message])), None);
        assert_eq!(join(&unit(&[&sets, &message])), None);
        assert_eq!(join(&unit(&[&sets, &message, &[0, 0, 1, 0x65, 0x88]])), Some(Join::Idr));
    }

    #[test]
    fn delimiters_split() {
        let unit = |kind: u8| [&ACCESS_UNIT_DELIMITER[..], &[0, 0, 1, kind, 7]].concat();
        let stream = [unit(0x65), unit(0x41), unit(0x41)].concat();
        let units: Vec<_> = split_at_delimiters(&stream).collect();
        assert_eq!(units, [unit(0x65), unit(0x41), unit(0x41)]);
        assert_eq!(split_at_delimiters(&[]).count(), 0);
        assert_eq!(split_at_delimiters(&[1, 2]).count(), 1);
    }
}
