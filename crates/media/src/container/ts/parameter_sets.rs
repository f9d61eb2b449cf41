//! The parameter sets of a video stream, kept for viewers that join later: many senders say them once (RTSP cameras in SDP, some
//! muxers at their start), and a decoder that begins at a later key frame needs them in front of it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::access_unit::Codec;
use crate::bitstream::av1::{self, ObuType, Role};
use crate::bitstream::h264::{find_start_code, nals};
use serde::{Deserialize, Serialize};

/// Bytes of parameter sets that are kept at most; larger ones do not occur.
pub(super) const SETS_MAX_BYTES: usize = 4096;

/// What a NAL unit is to a decoder that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A set that a sequence of pictures refers to; in H.265 also those that these refer to.
    Sequence,
    Video,
    Picture,
    Slice {
        is_key: bool,
    },
    Other,
}

impl Kind {
    /// By the first byte of a NAL unit, of a frame of AV1 by some more; `None` where there are too few.
    pub(super) fn of(codec: Codec, unit: &[u8]) -> Option<Kind> {
        let &header = unit.first()?;
        Some(match codec {
            // H.264 table 7-1: types 1 to 5 are coded slices, 5 is IDR.
            Codec::H264 => match header & 0x1f {
                kind @ 1..=5 => Kind::Slice { is_key: kind == 5 },
                7 => Kind::Sequence,
                8 => Kind::Picture,
                _ => Kind::Other,
            },
            Codec::Av1 => match av1::role(unit)? {
                Role::Shown { is_key } => Kind::Slice { is_key },
                Role::Hidden => Kind::Slice { is_key: false },
                Role::Front if ObuType::of(header) == ObuType::SequenceHeader => Kind::Sequence,
                Role::Front | Role::Other => Kind::Other,
            },
            // H.265 table 7-1: types below 32 are coded slices, 16 to 23 random access.
            _ => match header >> 1 & 0x3f {
                kind @ 0..=31 => Kind::Slice { is_key: matches!(kind, 16..=23) },
                32 => Kind::Video,
                33 => Kind::Sequence,
                34 => Kind::Picture,
                _ => Kind::Other,
            },
        })
    }

    pub(super) fn is_set(self) -> bool {
        matches!(self, Kind::Sequence | Kind::Video | Kind::Picture)
    }
}

/// Where the first slice of a unit of H.264 or H.265 begins, or the first frame of one of AV1, the unit's end where it has none, and
/// whether it is a key frame's.
pub(super) fn first_slice(codec: Codec, unit: &[u8]) -> (usize, bool) {
    let mut from = 0;
    while let Some(at) = find_start_code(unit, from) {
        from = at.saturating_add(3);
        if let Some(Kind::Slice { is_key }) = unit.get(from..).and_then(|unit| Kind::of(codec, unit)) {
            return (at, is_key);
        }
    }
    (unit.len(), false)
}

/// The start code in front of a set that is put elsewhere: of AV1 those of three bytes alone.
pub(super) const fn start_code(codec: Codec) -> &'static [u8] {
    match codec {
        Codec::Av1 => &[0, 0, 1],
        _ => &[0, 0, 0, 1],
    }
}

/// The parameter sets in front of one picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShownSets {
    pub(super) has_sequence: bool,
    pub(super) has_picture: bool,
    /// The sets with their start codes, as they stand there; none where they are too large.
    pub(super) bytes: Vec<u8>,
    is_too_large: bool,
}

impl ShownSets {
    /// Those in front of the first slice of a whole unit of H.264 or H.265, or the first frame of one of AV1, and whether that is a
    /// key frame's.
    pub(super) fn of(codec: Codec, unit: &[u8]) -> (ShownSets, bool) {
        let (end, is_key) = first_slice(codec, unit);
        let mut sets = ShownSets::default();
        for nal in nals(unit.get(..end).unwrap_or_default()) {
            if let Some(kind) = Kind::of(codec, nal.bytes).filter(|kind| kind.is_set()) {
                sets.begin(codec, kind);
                sets.push(start_code(codec));
                sets.push(nal.bytes);
            }
        }
        (sets, is_key)
    }

    /// A decoder can begin with them.
    pub(super) fn are_whole(&self) -> bool {
        self.has_sequence && self.has_picture
    }

    /// A set of this kind comes. The sequence header of MPEG-2 video and of AV1 is all that their pictures need.
    pub(super) fn begin(&mut self, codec: Codec, kind: Kind) {
        self.has_sequence |= kind == Kind::Sequence;
        self.has_picture |= kind == Kind::Picture || matches!(codec, Codec::Mpeg2Video | Codec::Av1);
    }

    /// Takes bytes of a set.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len().saturating_add(bytes.len()) > SETS_MAX_BYTES {
            self.is_too_large = true;
            self.bytes.clear();
        }
        if !self.is_too_large {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A start code has ended the last set. The start code's last byte, 1, was taken for one of the set: it and the zeros before
    /// it are removed.
    pub(super) fn end(&mut self) {
        self.bytes.pop();
        while self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
    }
}

/// The newest parameter sets of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ParameterSets {
    /// With start codes; empty until there is one of each kind that a decoder needs.
    bytes: Vec<u8>,
}

impl ParameterSets {
    pub(super) fn learn(&mut self, shown: &ShownSets) {
        if shown.bytes.is_empty() {
            return;
        }
        if shown.has_sequence {
            // What refers to the old ones is gone with them.
            self.bytes.clear();
        }
        let is_complete = shown.are_whole() || !self.bytes.is_empty();
        let is_known = self.bytes.windows(shown.bytes.len()).any(|known| known == shown.bytes);
        if is_complete && !is_known && self.bytes.len().saturating_add(shown.bytes.len()) <= SETS_MAX_BYTES {
            self.bytes.extend_from_slice(&shown.bytes);
        }
    }

    /// What to put in front of a key frame that has none; empty where they are not known.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(parts: &[&[u8]]) -> Vec<u8> {
        parts.iter().flat_map(|part| [&[0, 0, 1][..], part].concat()).collect()
    }

    #[test]
    fn the_newest_sets_are_kept() {
        let mut sets = ParameterSets::default();
        let mut shown = |parts: &[&[u8]]| {
            let (shown, is_key) = ShownSets::of(Codec::H264, &unit(parts));
            sets.learn(&shown);
            (sets.bytes().to_vec(), is_key)
        };
        let whole = |parts: &[&[u8]]| {
            parts.iter().flat_map(|part| [&[0, 0, 0, 1][..], part].concat()).collect::<Vec<u8>>()
        };
        // A picture parameter set alone is of no use.
        assert_eq!(shown(&[&[0x68, 1], &[0x41, 9]]), (Vec::new(), false));
        assert_eq!(shown(&[&[0x67, 1], &[0x68, 1], &[0x65, 9]]), (whole(&[&[0x67, 1], &[0x68, 1]]), true));
        // Another one joins them, once.
        for _ in 0..2 {
            assert_eq!(shown(&[&[0x68, 2], &[0x41, 9]]).0, whole(&[&[0x67, 1], &[0x68, 1], &[0x68, 2]]));
        }
        assert_eq!(shown(&[&[0x65, 9]]).0.len(), 18);
        assert_eq!(shown(&[&[0x67, 2], &[0x68, 1], &[0x65, 9]]).0, whole(&[&[0x67, 2], &[0x68, 1]]));
        // What no set can be is not kept.
        let large = [&[0x68][..], &[7; SETS_MAX_BYTES]].concat();
        assert_eq!(shown(&[&large, &[0x65, 9]]).0, whole(&[&[0x67, 2], &[0x68, 1]]));
    }
}
