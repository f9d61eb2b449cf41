//! What a frame is, and where samples of a line are in it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::header::Segment;
use glassline_media::{Chroma, Layout, PixelFormat, Size, choice};
use std::ops::Range;
use thiserror::Error;

choice! {
    /// How a frame is sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scan {
        /// Line by line.
        Progressive = "progressive",
        /// One field after the other, of different times: each has a time stamp of its own.
        Interlaced = "interlaced",
        /// A progressive frame in two segments (PsF), its even lines first, with one time stamp.
        Segmented = "psf",
    }
}

/// What the line numbers of a frame that is sent in two fields or segments count. The packets tell: a line number
/// beyond the field's end counts lines of the frame; an odd one in the first field, or an even one in the second,
/// counts lines of the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineNumbers {
    /// The lines of the field (RFC 4175 §4.2, ST 2110-20 §6.2.1).
    #[default]
    OfField,
    /// The lines of the frame: the first field has 0, 2, 4, …, the second one 1, 3, 5, … So GStreamer 1.22 sends.
    OfFrame,
}

/// What the frames of a stream are. In memory a frame is its lines of pgroups without padding; fields are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pixels: PixelFormat,
    size: Size,
    scan: Scan,
    lines: LineNumbers,
    line_bytes: usize,
    rows: usize,
}

/// A format that is not taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// No pgroups.
    #[error("{0:?} has no pgroups")]
    Pixels(PixelFormat),
    /// A line ends within a pgroup.
    #[error("lines of {width} samples end within a pgroup, which takes {group}")]
    Width {
        /// Samples of a line.
        width: u32,
        /// Samples of a pgroup.
        group: u32,
    },
    /// A pgroup of 4:2:0 is of two lines of a frame or of a field: these would have to be interleaved sample by sample.
    #[error("4:2:0 is taken progressive only")]
    Fields,
    /// Lines are numbered with 15 bits, and offsets too.
    #[error("frames of {0}: RFC 4175 has room for 32767 lines and samples")]
    Size(Size),
}

impl Format {
    /// Frames of `size` in the pgroups of `pixels`, whichever layout that says.
    ///
    /// # Errors
    /// [`FormatError`] where the standard has no pgroups for it, or we do not take it.
    pub fn new(pixels: PixelFormat, size: Size, scan: Scan) -> Result<Format, FormatError> {
        let pixels = PixelFormat { layout: Layout::Pgroups, ..pixels };
        let group = pixels.pgroup().ok_or(FormatError::Pixels(pixels))?;
        if size.width > 0x7FFF || size.height > 0x7FFF {
            return Err(FormatError::Size(size));
        }
        if !size.width.is_multiple_of(group.width) {
            return Err(FormatError::Width { width: size.width, group: group.width });
        }
        if pixels.chroma == Chroma::Yuv420 && scan != Scan::Progressive {
            return Err(FormatError::Fields);
        }
        let plane = pixels.plane_size(size, 0);
        let (line_bytes, rows) = (plane.width as usize, plane.height as usize);
        Ok(Format { pixels, size, scan, lines: LineNumbers::OfField, line_bytes, rows })
    }

    /// The same, for a sender that counts line numbers like this.
    #[must_use]
    pub fn with_line_numbers(self, lines: LineNumbers) -> Format {
        Format { lines, ..self }
    }

    /// Components, depth, pgroups.
    pub fn pixels(&self) -> PixelFormat {
        self.pixels
    }

    /// Width and height of a whole frame.
    pub fn size(&self) -> Size {
        self.size
    }

    /// How it is sent.
    pub fn scan(&self) -> Scan {
        self.scan
    }

    /// Bytes of a line of pgroups (of 4:2:0, two lines).
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        self.line_bytes.saturating_mul(self.rows)
    }

    /// Samples, lines and bytes of a pgroup.
    pub(super) fn group(&self) -> (usize, usize, usize) {
        // `new` has seen that there is one.
        self.pixels
            .pgroup()
            .map_or((1, 1, 1), |group| (group.width as usize, group.lines as usize, group.bytes))
    }

    /// Fields or segments of a frame.
    pub(super) fn fields(&self) -> usize {
        if self.scan == Scan::Progressive { 1 } else { 2 }
    }

    /// Lines of pgroups of a field.
    pub(super) fn field_rows(&self, field: usize) -> usize {
        if self.fields() == 1 { self.rows } else { self.rows.saturating_add(1).saturating_sub(field) / 2 }
    }

    /// Where line `row` of a field begins in the frame.
    pub(super) fn row_at(&self, field: usize, row: usize) -> usize {
        let line = if self.fields() == 1 { row } else { row.saturating_mul(2).saturating_add(field) };
        self.line_bytes.saturating_mul(line)
    }

    /// Whether a segment's samples are whole pgroups within a line of a frame, whatever line numbers count.
    pub fn has(&self, segment: &Segment) -> bool {
        [LineNumbers::OfField, LineNumbers::OfFrame]
            .into_iter()
            .any(|lines| self.with_line_numbers(lines).place(segment).is_some())
    }

    /// Where a segment's bytes belong; `None` where that is not wholly within its line and the frame. A segment without samples
    /// belongs anywhere.
    pub(super) fn place(&self, segment: &Segment) -> Option<Range<usize>> {
        if segment.length == 0 {
            return Some(0..0);
        }
        let (width, lines, bytes) = self.group();
        let (line, offset) = (usize::from(segment.line), usize::from(segment.offset));
        let (field, length) = (usize::from(segment.field), usize::from(segment.length));
        let is_whole =
            line.is_multiple_of(lines) && offset.is_multiple_of(width) && length.is_multiple_of(bytes);
        let start = offset.checked_div(width)?.saturating_mul(bytes);
        if !is_whole || field >= self.fields() || start.saturating_add(length) > self.line_bytes {
            return None;
        }
        let row = match self.lines {
            LineNumbers::OfFrame if self.fields() > 1 => {
                if line % 2 != field {
                    return None;
                }
                line / 2
            }
            _ => line.checked_div(lines)?,
        };
        if row >= self.field_rows(field) {
            return None;
        }
        let at = self.row_at(field, row).saturating_add(start);
        Some(at..at.saturating_add(length))
    }
}
