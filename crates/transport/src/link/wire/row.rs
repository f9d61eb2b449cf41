//! Whole small messages of one channel in a row: one frame, and so one record of what a packet carried.
//!
//! ```text
//! 0x1A | channel (1) | first message (varint) | how many (1) | their lengths (varints) | their bytes
//! ```

use super::packet::MAX_DATAGRAM;
use super::varint::{self, Reader};
use crate::link::MAX_CHANNELS;

/// The frame's kind.
pub(super) const ROW: u8 = 0x1A;
/// The most messages in a row.
pub const MAX_ROW: usize = 63;

/// Whole messages with numbers that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The channel's number.
    pub channel: u8,
    /// The first message's number.
    pub first: u64,
    /// How many there are.
    pub count: u8,
    lengths: &'a [u8],
    /// All messages, end to end.
    pub bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// How long each message is, in the order of their numbers.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + use<'a> {
        let mut lengths = Reader::new(self.lengths);
        std::iter::from_fn(move || lengths.length_up_to(MAX_DATAGRAM))
    }

    #[inline]
    pub(super) fn parse(reader: &mut Reader<'a>) -> Option<Row<'a>> {
        let channel = reader.byte().filter(|channel| usize::from(*channel) < MAX_CHANNELS)?;
        let first = reader.varint()?;
        let count = reader.byte().filter(|count| (1..=MAX_ROW).contains(&usize::from(*count)))?;
        let (start, mut size) = (*reader, 0usize);
        for _ in 0..count {
            size = size.checked_add(reader.length_up_to(MAX_DATAGRAM)?)?;
        }
        let lengths = reader.taken_since(start);
        Some(Row { channel, first, count, lengths, bytes: reader.bytes(size)? })
    }

    /// Appends the frame.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[ROW, self.channel]);
        varint::write(self.first, out);
        out.push(self.count);
        self.lengths().for_each(|length| varint::write(length as u64, out));
        out.extend_from_slice(self.bytes);
    }
}

/// Bytes of a row's head but for the lengths.
pub const fn row_head(first: u64) -> usize {
    3usize.saturating_add(varint::size(first))
}

/// Appends the head of a row; the messages follow, each of its length, at most [`MAX_ROW`].
#[inline]
pub fn write_row_head(
    channel: u8,
    first: u64,
    lengths: impl ExactSizeIterator<Item = usize>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&[ROW, channel]);
    varint::write(first, out);
    out.push(u8::try_from(lengths.len()).unwrap_or(u8::MAX));
    lengths.for_each(|length| varint::write(length as u64, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::wire::frame::Frame;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(
            channel in 0..MAX_CHANNELS as u8, first in 0..varint::MAX, lengths in prop::collection::vec(0usize..100, 1..=MAX_ROW),
        ) {
            let bytes: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| at as u8).collect();
            let mut out = Vec::new();
            write_row_head(channel, first, lengths.iter().copied(), &mut out);
            let varints: usize = lengths.iter().map(|length| varint::size(*length as u64)).sum();
            prop_assert_eq!(out.len(), row_head(first) + varints);
            out.extend_from_slice(&bytes);
            let Some(Frame::Row(row)) = Frame::parse(&mut Reader::new(&out)) else { panic!("no row") };
            prop_assert_eq!((row.channel, row.first, row.bytes), (channel, first, &bytes[..]));
            prop_assert_eq!(usize::from(row.count), lengths.len());
            prop_assert_eq!(row.lengths().collect::<Vec<_>>(), lengths);
            let mut again = Vec::new();
            Frame::Row(row).write(&mut again);
            prop_assert_eq!(again, &out[..]);
            let cut = Frame::parse(&mut Reader::new(&out[..out.len() - 1]));
            prop_assert!(bytes.is_empty() && cut.is_none() || !matches!(cut, Some(Frame::Row(_))));
        }
    }

    #[test]
    fn a_row_has_one_message_at_least_and_no_more_than_63() {
        for (count, is_one) in [(0u8, false), (1, true), (63, true), (64, false), (255, false)] {
            let bytes = [&[ROW, 5, 9, count][..], &[0; 255]].concat();
            assert_eq!(Frame::parse(&mut Reader::new(&bytes)).is_some(), is_one, "{count}");
        }
    }
}
