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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that decides.
    Nothing,
    /// Decoding can begin here, so.
    Join(Join),
    /// It cannot.
    NoJoin,
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
    has_sps: bool,
    has_pps: bool,
    recovery: Option<RecoveryPoint>,
    messages: Option<Messages>,
}

impl Search {
    /// At the first byte of a PES packet whose elementary stream is coded so.
    pub(super) fn begin(codec: Option<Codec>) -> Search {
        match codec {
            Some(Codec::H264 | Codec::H265 | Codec::Mpeg2Video) => Search::Header { bytes: [0; 9], count: 0 },
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
            let after_start_code = self.last & 0x00ff_ffff == 1;
            self.last = self.last << 8 | u32::from(byte);
            if after_start_code {
                self.messages = None;
                let found = self.unit(codec, byte);
                if found != Found::Nothing {
                    return found;
                }
            } else if let Some(messages) = &mut self.messages {
                self.recovery = self.recovery.or(messages.push(byte));
            }
        }
        Found::Nothing
    }

    /// A NAL unit (or another unit of video) begins with `header`.
    fn unit(&mut self, codec: Codec, header: u8) -> Found {
        let join = |is_join: bool| if is_join { Found::Join(Join::Idr) } else { Found::NoJoin };
        match codec {
            // H.264 table 7-1: types 1 to 5 are coded slices, 5 is IDR.
            Codec::H264 => match header & 0x1f {
                5 => return join(true),
                1..=4 => {
                    let point = self.recovery.filter(|_| self.has_sps && self.has_pps);
                    return point.map_or(Found::NoJoin, |point| Found::Join(Join::Recovery(point)));
                }
                6 => self.messages = Some(Messages::default()),
                7 => self.has_sps = true,
                8 => self.has_pps = true,
                _ => {}
            },
            // H.265 table 7-1: types below 32 are coded slices, 16 to 23 random access.
            Codec::H265 => match header >> 1 & 0x3f {
                16..=23 => return join(true),
                0..=31 => return join(false),
                _ => {}
            },
            // 13818-2 table 6-1: a sequence header, or a picture without one.
            Codec::Mpeg2Video => match header {
                0xb3 => return join(true),
                0x00 => return join(false),
                _ => {}
            },
            _ => return join(false),
        }
        Found::Nothing
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
    use crate::bitstream::h264::{ACCESS_UNIT_DELIMITER, join};
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
            let expected = join(&unit).map_or(Found::NoJoin, Found::Join);
            prop_assert_eq!(search(&unit, chop), expected);
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
