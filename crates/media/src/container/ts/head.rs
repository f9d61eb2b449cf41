//! The beginning of a PES packet of video, as its packets come: whether decoding can begin there.
//!
//! Nothing is kept but a few bytes, so that looking costs no memory; the search ends at the first coded slice.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::parameter_sets::{Kind, ShownSets, start_code};
use crate::access_unit::Codec;
use crate::bitstream::h264::sei::RECOVERY_POINT;
use crate::bitstream::h264::{Join, RecoveryPoint};
use serde::{Deserialize, Serialize};

/// Bytes of one PES packet that are searched for the first coded slice. What stands before it (parameter sets,
/// messages) is far smaller; the limit bounds the cost of hostile streams.
const SEARCH_LIMIT_BYTES: u32 = 64 * 1024;
/// More than a recovery point's payload ever needs.
const MESSAGE_BYTES: usize = 12;

/// What a search has found so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that decides.
    Nothing,
    /// The first slice, and what stands before it.
    Slice(Shown),
}

/// What the beginning of a picture shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The slice refers to no earlier picture, nor does any that follows.
    pub(super) is_key: bool,
    pub(super) recovery: Option<RecoveryPoint>,
    pub(super) sets: ShownSets,
}

impl Shown {
    /// How decoding can begin here; `has_sets`: the decoder has parameter sets already.
    pub(super) fn join(&self, has_sets: bool) -> Option<Join> {
        if !has_sets && !self.sets.are_whole() {
            return None;
        }
        if self.is_key { Some(Join::Idr) } else { self.recovery.map(Join::Recovery) }
    }
}

/// Where in a PES packet of the video the search for its first slice stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Search {
    /// Decided, or nothing to search.
    Done,
    /// In the nine bytes that tell how long the PES header is.
    Header { bytes: [u8; 9], count: usize },
    /// In the rest of the PES header.
    Skip { left: usize },
    /// In the elementary stream.
    Payload(Head),
}

/// What the elementary stream has shown in front of its first slice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Head {
    /// The last four bytes, for start codes across packets.
    last: u32,
    searched: u32,
    #[serde(default)]
    sets: ShownSets,
    /// The NAL unit that is being read is a parameter set.
    #[serde(default)]
    in_set: bool,
    /// It is a slice, of a key frame or not, and so many bytes are before the one that says whether it is its picture's first.
    #[serde(default)]
    slice: Option<(bool, u8)>,
    /// The first bytes of a frame of AV1, until they say what it is.
    #[serde(default)]
    frame: Vec<u8>,
    recovery: Option<RecoveryPoint>,
    messages: Option<Messages>,
}

impl Search {
    /// At the first byte of a PES packet of an elementary stream with this codec.
    pub(super) fn begin(codec: Option<Codec>) -> Search {
        match codec {
            Some(Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Mpeg2Video) => {
                Search::Header { bytes: [0; 9], count: 0 }
            }
            _ => Search::Done,
        }
    }

    /// Searches the packet's next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8], codec: Codec) -> Found {
        loop {
            match self {
                Search::Done => return Found::Nothing,
                Search::Header { bytes: header, count } => {
                    let (part, rest) = bytes.split_at(bytes.len().min(9usize.saturating_sub(*count)));
                    header[*count..].iter_mut().zip(part).for_each(|(byte, came)| *byte = *came);
                    *count = count.saturating_add(part.len());
                    bytes = rest;
                    if *count < 9 {
                        return Found::Nothing;
                    }
                    let valid = header.starts_with(&[0, 0, 1]);
                    *self = if valid { Search::Skip { left: usize::from(header[8]) } } else { Search::Done };
                }
                Search::Skip { left } => {
                    let take = bytes.len().min(*left);
                    *left = left.saturating_sub(take);
                    bytes = &bytes[take..];
                    if *left > 0 {
                        return Found::Nothing;
                    }
                    *self = Search::Payload(Head { last: u32::MAX, ..Head::default() });
                }
                Search::Payload(head) => {
                    head.searched =
                        head.searched.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    let found = head.push(bytes, codec);
                    if found != Found::Nothing || head.searched > SEARCH_LIMIT_BYTES {
                        *self = Search::Done;
                    }
                    return found;
                }
            }
        }
    }
}

impl Head {
    fn push(&mut self, bytes: &[u8], codec: Codec) -> Found {
        for &byte in bytes {
            if let Some((is_key, left)) = self.slice {
                if left == 0 {
                    // first_mb_in_slice is 0, first_slice_segment_in_pic_flag is 1: both are the first bit.
                    return self.found(is_key, byte & 0x80 != 0);
                }
                self.slice = Some((is_key, left.saturating_sub(1)));
                continue;
            }
            if !self.frame.is_empty() {
                self.frame.push(byte);
                match Kind::of(codec, &self.frame) {
                    Some(Kind::Slice { is_key }) => return self.found(is_key, true),
                    Some(_) => return self.found(false, false),
                    None => continue,
                }
            }
            let after_start_code = self.last & 0x00ff_ffff == 1;
            self.last = self.last << 8 | u32::from(byte);
            if after_start_code {
                self.messages = None;
                if std::mem::take(&mut self.in_set) {
                    self.sets.end();
                }
                let found = self.unit(codec, byte);
                if found != Found::Nothing {
                    return found;
                }
                if self.in_set {
                    self.sets.push(start_code(codec));
                    self.sets.push(&[byte]);
                }
            } else if self.in_set {
                self.sets.push(&[byte]);
            } else if let Some(messages) = &mut self.messages {
                self.recovery = self.recovery.or(messages.push(byte));
            }
        }
        Found::Nothing
    }

    /// A NAL unit (or another unit of video) begins with `header`.
    fn unit(&mut self, codec: Codec, header: u8) -> Found {
        match codec {
            Codec::H264 | Codec::H265 | Codec::Av1 => match Kind::of(codec, &[header]) {
                None => self.frame.push(header),
                // The later parts of a slice (data partitioning) say nothing of the picture.
                Some(Kind::Slice { .. }) if codec == Codec::H264 && matches!(header & 0x1f, 3 | 4) => {
                    return self.found(false, false);
                }
                Some(Kind::Slice { is_key }) => self.slice = Some((is_key, u8::from(codec == Codec::H265))),
                Some(Kind::Other) if codec == Codec::H264 && header & 0x1f == 6 => {
                    self.messages = Some(Messages::default());
                }
                Some(Kind::Other) => {}
                Some(kind) => {
                    self.in_set = true;
                    self.sets.begin(codec, kind);
                }
            },
            // 13818-2 table 6-1: a sequence header, which is all that a decoder needs, or a picture without one.
            Codec::Mpeg2Video => match header {
                0xb3 => {
                    self.sets.begin(codec, Kind::Sequence);
                    return self.found(true, true);
                }
                0x00 => return self.found(false, true),
                _ => {}
            },
            _ => return self.found(false, false),
        }
        Found::Nothing
    }

    /// The first slice of a PES packet. Where it is not its picture's first, the picture began before, and nothing begins here.
    fn found(&mut self, is_key: bool, is_first: bool) -> Found {
        let recovery = self.recovery.filter(|_| is_first);
        Found::Slice(Shown { is_key: is_key && is_first, recovery, sets: std::mem::take(&mut self.sets) })
    }
}

/// The messages of an SEI NAL unit (H.264 §7.3.2.3), byte by byte.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Messages {
    /// Zero bytes in a row, for emulation prevention.
    zeros: u8,
    kind: u32,
    /// Bytes of the message that are still to come, once its size is known.
    left: Option<u32>,
    /// The size has begun: `kind` is whole.
    in_size: bool,
    size: u32,
    kept: [u8; MESSAGE_BYTES],
    count: usize,
}

impl Messages {
    /// Takes the unit's next byte; gives the recovery point with its last one.
    fn push(&mut self, byte: u8) -> Option<RecoveryPoint> {
        if self.zeros >= 2 && byte == 3 {
            self.zeros = 0;
            return None;
        }
        self.zeros = if byte == 0 { self.zeros.saturating_add(1) } else { 0 };
        match self.left {
            None if self.in_size => {
                self.size = self.size.saturating_add(u32::from(byte));
                if byte != 255 {
                    (self.left, self.count) = (Some(self.size), 0);
                }
            }
            None => {
                self.kind = self.kind.saturating_add(u32::from(byte));
                self.in_size = byte != 255;
            }
            Some(left) => {
                if let Some(slot) = self.kept.get_mut(self.count) {
                    *slot = byte;
                    self.count = self.count.saturating_add(1);
                }
                self.left = Some(left.saturating_sub(1));
            }
        }
        if self.left != Some(0) {
            return None;
        }
        let (kind, count) = (self.kind, self.count);
        (self.kind, self.size, self.left, self.in_size) = (0, 0, None, false);
        if kind == RECOVERY_POINT { RecoveryPoint::parse(&self.kept[..count]) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitstream::h264::sei::{USER_DATA_UNREGISTERED, write_message};
    use crate::bitstream::h264::{self, ACCESS_UNIT_DELIMITER, NalType, join};
    use crate::container::ts::pes::{STREAM_ID_VIDEO, write_header};
    use crate::time::Ticks;
    use proptest::prelude::*;

    fn search(unit: &[u8], chop: usize) -> Found {
        let mut pes = Vec::new();
        write_header(STREAM_ID_VIDEO, Ticks(1), Ticks(0), unit.len(), &mut pes);
        pes.extend_from_slice(unit);
        let mut search = Search::begin(Some(Codec::H264));
        let mut parts = pes.chunks(chop).map(|part| search.push(part, Codec::H264));
        parts.find(|found| *found != Found::Nothing).unwrap_or(Found::Nothing)
    }

    #[derive(Clone, Debug)]
    enum Part {
        Sets,
        Point(RecoveryPoint),
        UserData(Vec<u8>),
    }

    fn part() -> impl Strategy<Value = Part> {
        let point = (0u32..300, any::<bool>(), any::<bool>()).prop_map(|(frames, exact, broken_link)| {
            Part::Point(RecoveryPoint { frames, exact, broken_link })
        });
        let data = proptest::collection::vec(0u8..8, 0..600).prop_map(Part::UserData);
        prop_oneof![Just(Part::Sets), point, data]
    }

    proptest! {
        #[test]
        fn what_packets_show_is_what_the_whole_unit_says(
            parts in proptest::collection::vec(part(), 0..6), idr: bool, chop in 1usize..400,
        ) {
            let mut unit = ACCESS_UNIT_DELIMITER.to_vec();
            for part in &parts {
                match part {
                    Part::Sets => unit.extend_from_slice(&[0, 0, 0, 1, 0x67, 9, 0, 0, 1, 0x68, 7]),
                    Part::Point(point) => write_message(RECOVERY_POINT, &point.write(), &mut unit),
                    Part::UserData(data) => write_message(USER_DATA_UNREGISTERED, data, &mut unit),
                }
            }
            unit.extend_from_slice(&[0, 0, 1, if idr { 0x65 } else { 0x41 }, 0x9a, 0x11]);
            let Found::Slice(shown) = search(&unit, chop) else { panic!("there is a slice") };
            let has_sets = shown.sets.are_whole();
            prop_assert_eq!(shown.join(false), join(&unit).filter(|_| has_sets));
            prop_assert_eq!(shown.join(true).is_some(), idr || shown.recovery.is_some());
            let sets: Vec<u8> = h264::nals(&unit)
                .filter(|nal| matches!(nal.kind(), NalType::Sps | NalType::Pps))
                .flat_map(|nal| [&[0, 0, 0, 1][..], nal.bytes].concat())
                .collect();
            prop_assert_eq!(shown.sets.bytes, sets);
        }

        #[test]
        fn later_slices_of_a_key_frame_are_no_place_to_join(first_mb in 1u8..4, chop in 1usize..400) {
            // ue(1) to ue(3) begin with a zero bit.
            let unit = [0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65, [0x40, 0x60, 0x20][usize::from(first_mb) - 1], 9];
            let Found::Slice(shown) = search(&unit, chop) else { panic!("there is a slice") };
            prop_assert_eq!(shown.join(true), None);
        }

        #[test]
        fn hostile_units_do_no_harm(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(6), Just(255), any::<u8>()], 0..600),
            chop in 1usize..200,
        ) {
            let _ = search(&bytes, chop);
        }
    }
}
