//! How a sender cuts a frame into packets.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::format::Format;
use super::header::{EXTENSION_BYTES, SEGMENT_BYTES, Segment};
use std::ops::Range;

/// A packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Bytes of the RTP header, with what it may have behind its fixed part.
    pub(super) rtp_bytes: u16,
    /// It is the last one of a frame or field.
    pub(super) marker: bool,
    /// Its segments' headers, in [`Layout::heads`].
    heads: Range<u32>,
    /// Where its segments belong, in [`Layout::places`].
    places: Range<u32>,
    /// Bytes of the whole datagram.
    pub(super) bytes: u32,
}

impl Entry {
    /// Bytes in front of its samples.
    pub(super) fn head_bytes(&self) -> usize {
        head_bytes(self.rtp_bytes, self.heads.len())
    }
}

fn head_bytes(rtp_bytes: u16, heads_bytes: usize) -> usize {
    usize::from(rtp_bytes).saturating_add(EXTENSION_BYTES).saturating_add(heads_bytes)
}

/// A number of bytes or runs in half the memory. A frame has fewer by far; what lies beyond would have empty ranges, which no
/// packet fits.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// All packets of a frame, in order: of both fields where there are two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<Entry>,
    heads: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Layout {
    /// Packets.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Runs of samples of all packets.
    pub(super) fn runs(&self) -> usize {
        self.places.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Appends a packet.
    pub(super) fn push(&mut self, rtp_bytes: u16, marker: bool, heads: &[u8], places: &[Range<usize>]) {
        let samples: usize = places.iter().map(Range::len).sum();
        let (heads_at, places_at) = (short(self.heads.len()), short(self.places.len()));
        let head_bytes = head_bytes(rtp_bytes, heads.len());
        self.heads.extend_from_slice(heads);
        self.places.extend_from_slice(places);
        self.entries.push(Entry {
            rtp_bytes,
            marker,
            heads: heads_at..short(self.heads.len()),
            places: places_at..short(self.places.len()),
            bytes: short(head_bytes.saturating_add(samples)),
        });
    }

    /// The headers of a packet's segments.
    pub(super) fn heads(&self, entry: &Entry) -> &[u8] {
        &self.heads[entry.heads.start as usize..entry.heads.end as usize]
    }

    /// Where the samples of a packet's segments belong, one after the other.
    pub(super) fn places(&self, entry: &Entry) -> &[Range<usize>] {
        &self.places[entry.places.start as usize..entry.places.end as usize]
    }

    /// The number of the packet with these headers of segments. Frames are sent from the top, field by field: a search by halves.
    pub(super) fn find(&self, heads: &[u8]) -> Option<usize> {
        let key = |heads: &[u8]| {
            let first = heads.first_chunk::<SEGMENT_BYTES>()?;
            let (segment, _) = Segment::read(first);
            Some((segment.field, segment.line, segment.offset))
        };
        let wanted = key(heads)?;
        let at = self.entries.partition_point(|entry| key(self.heads(entry)).is_some_and(|key| key < wanted));
        self.entries.get(at).filter(|entry| self.heads(entry) == heads).map(|_| at)
    }

    /// Whether its packets bring each byte of a frame once.
    pub(super) fn is_whole(&self, format: &Format) -> bool {
        self.places.iter().map(Range::len).sum::<usize>() == format.frame_bytes()
    }
}
