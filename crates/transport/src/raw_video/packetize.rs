//! Frames to packets.

use super::format::Format;
use super::header::{EXTENSION_BYTES, SEGMENT_BYTES, Segment};
use super::layout::Layout;
use crate::rtp::{HEADER_BYTES, Header};
use glassline_media::choice;
use std::ops::Range;

/// Bytes in front of a packet's first segment header.
const FIXED_BYTES: usize = HEADER_BYTES + EXTENSION_BYTES;
/// ST 2110-20 §6.3.3: what block packing counts in.
const BLOCK_BYTES: usize = 180;
/// With up to a third more packets a line may come apart evenly.
const EVEN_PERCENT: usize = 134;

choice! {
    /// How samples are divided among packets (ST 2110-20 §6.3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Packing {
        /// General packing mode: packets of one size, which end with lines.
        General = "gpm" as default,
        /// Block packing mode: packets of as many whole blocks of 180 bytes as fit, over the ends of lines.
        Block = "bpm",
    }
}

/// How frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketizerSettings {
    /// What they are.
    pub format: Format,
    /// The payload type, 7 bits.
    pub payload_type: u8,
    /// The synchronization source.
    pub ssrc: u32,
    /// The first packet's sequence number, 32 bits with its extension.
    pub first_sequence: u32,
    /// A datagram's bytes at most: headers of RTP and samples.
    pub datagram_bytes: usize,
    /// How samples are divided.
    pub packing: Packing,
}

/// Makes packets. Their samples are not touched: a packet is its header and ranges of the frame's bytes.
#[derive(Clone, Debug)]
pub struct Packetizer {
    settings: PacketizerSettings,
    layout: Layout,
    /// The headers of a frame's packets, one after the other.
    heads: Vec<u8>,
    sequence: u32,
}

impl Packetizer {
    /// Before the first frame; `None` where a datagram has no room for a header and a pgroup.
    pub fn new(settings: PacketizerSettings) -> Option<Packetizer> {
        let (_, _, group) = settings.format.group();
        let room = settings.datagram_bytes.min(65_507).checked_sub(FIXED_BYTES + 2 * SEGMENT_BYTES)?;
        if room < group {
            return None;
        }
        let settings = PacketizerSettings { datagram_bytes: settings.datagram_bytes.min(65_507), ..settings };
        let mut layout = Layout::default();
        for field in 0..settings.format.fields() {
            match settings.packing {
                Packing::General => cut_lines(&settings, field, &mut layout),
                Packing::Block => cut_blocks(&settings, field, &mut layout),
            }
        }
        Some(Packetizer { settings, layout, heads: Vec::new(), sequence: settings.first_sequence })
    }

    /// How frames are cut.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The next frame, with the time stamps of its fields (the first one alone counts where they have one in common).
    /// Cost: a few nanoseconds a packet.
    pub fn frame(&mut self, timestamps: [u32; 2]) -> Packets<'_> {
        self.heads.clear();
        for index in 0..self.layout.len() {
            let Some(entry) = self.layout.get(index) else { break };
            let segments = self.layout.heads(entry);
            let field = usize::from(Segment::is_second_field(segments));
            let header = Header {
                marker: entry.marker,
                payload_type: self.settings.payload_type,
                sequence: self.sequence as u16,
                timestamp: timestamps[field],
                ssrc: self.settings.ssrc,
            };
            self.heads.extend_from_slice(&header.write());
            self.heads.extend_from_slice(&((self.sequence >> 16) as u16).to_be_bytes());
            self.heads.extend_from_slice(segments);
            self.sequence = self.sequence.wrapping_add(1);
        }
        Packets { layout: &self.layout, heads: &self.heads, index: 0 }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutPacket<'a> {
    /// Its header: of RTP, and of its segments.
    pub head: &'a [u8],
    /// Its samples: ranges of the frame, one after the other.
    pub samples: &'a [Range<usize>],
    /// Bytes of all of it.
    pub bytes: usize,
    /// Which field it belongs to, 0 or 1.
    pub field: usize,
}

/// The packets of a frame, in order.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    layout: &'a Layout,
    heads: &'a [u8],
    index: usize,
}

impl<'a> Iterator for Packets<'a> {
    type Item = OutPacket<'a>;

    fn next(&mut self) -> Option<OutPacket<'a>> {
        let entry = self.layout.get(self.index)?;
        self.index += 1;
        let (head, rest) = self.heads.split_at(entry.head_bytes());
        self.heads = rest;
        let field = usize::from(Segment::is_second_field(self.layout.heads(entry)));
        Some(OutPacket { head, samples: self.layout.places(entry), bytes: entry.bytes as usize, field })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.layout.len() - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Packets<'_> {}

/// Collects segments into packets.
struct Cutter<'a> {
    format: Format,
    field: usize,
    layout: &'a mut Layout,
    segments: Vec<Segment>,
    places: Vec<Range<usize>>,
}

impl Cutter<'_> {
    /// Adds bytes of a line.
    fn add(&mut self, row: usize, start: usize, bytes: usize) {
        let (width, lines, group) = self.format.group();
        self.segments.push(Segment {
            length: bytes as u16,
            field: self.field == 1,
            line: (row * lines) as u16,
            offset: (start / group * width) as u16,
        });
        let at = self.format.row_at(self.field, row) + start;
        self.places.push(at..at + bytes);
    }

    /// Ends a packet.
    fn end(&mut self, marker: bool) {
        let count = self.segments.len();
        let heads: Vec<u8> = self
            .segments
            .drain(..)
            .enumerate()
            .flat_map(|(index, segment)| segment.write(index + 1 < count))
            .collect();
        self.layout.push(HEADER_BYTES as u16, marker, &heads, &self.places);
        self.places.clear();
    }
}

fn cutter<'a>(settings: &PacketizerSettings, field: usize, layout: &'a mut Layout) -> Cutter<'a> {
    Cutter { format: settings.format, field, layout, segments: Vec::new(), places: Vec::new() }
}

/// A marker ends a frame, each of its fields, but not the first segment of two (ST 2110-20 §6.1.2).
fn has_marker(format: &Format, field: usize) -> bool {
    format.scan() != super::Scan::Segmented || field == 1
}

fn cut_lines(settings: &PacketizerSettings, field: usize, layout: &mut Layout) {
    let format = settings.format;
    let (rows, line) = (format.field_rows(field), format.line_bytes());
    let (_, _, group) = format.group();
    let mut cutter = cutter(settings, field, layout);
    let whole_lines = (settings.datagram_bytes - FIXED_BYTES) / (SEGMENT_BYTES + line);
    if whole_lines >= 1 {
        // Packets of one size, where a few lines less make them so.
        let even = (whole_lines.div_ceil(2)..=whole_lines).rev().find(|lines| rows.is_multiple_of(*lines));
        let lines = even.unwrap_or(whole_lines).min(super::header::SEGMENTS_MAX);
        for first in (0..rows).step_by(lines) {
            let end = rows.min(first + lines);
            (first..end).for_each(|row| cutter.add(row, 0, line));
            cutter.end(end == rows && has_marker(&format, field));
        }
        return;
    }
    let groups = line / group;
    let most = (settings.datagram_bytes - FIXED_BYTES - SEGMENT_BYTES) / group;
    let least = groups.div_ceil(most);
    let packets =
        (least..=least * EVEN_PERCENT / 100).find(|count| groups.is_multiple_of(*count)).unwrap_or(least);
    let bytes = groups.div_ceil(packets) * group;
    for row in 0..rows {
        for start in (0..line).step_by(bytes) {
            cutter.add(row, start, bytes.min(line - start));
            cutter.end(row + 1 == rows && start + bytes >= line && has_marker(&format, field));
        }
    }
}

fn cut_blocks(settings: &PacketizerSettings, field: usize, layout: &mut Layout) {
    let format = settings.format;
    let (rows, line) = (format.field_rows(field), format.line_bytes());
    let (_, _, group) = format.group();
    // As many headers as a packet's bytes can have lines.
    let room = |bytes: usize| FIXED_BYTES + (bytes / line + 2) * SEGMENT_BYTES + bytes;
    let most = |step: usize| {
        (1..).map(|count| count * step).take_while(|bytes| room(*bytes) <= settings.datagram_bytes).last()
    };
    let bytes = most(BLOCK_BYTES).map_or_else(|| most(group).unwrap_or(group), |bytes| bytes / group * group);
    let mut cutter = cutter(settings, field, layout);
    let all = rows * line;
    for first in (0..all).step_by(bytes) {
        let end = all.min(first + bytes);
        let mut at = first;
        while at < end {
            let (row, start) = (at / line, at % line);
            let now = (line - start).min(end - at);
            cutter.add(row, start, now);
            at += now;
        }
        cutter.end(end == all && has_marker(&format, field));
    }
}
