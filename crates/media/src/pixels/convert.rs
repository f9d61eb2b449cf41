//! To 8-bit 4:2:0, which the encoders take, from whatever a source gives.
//!
//! ```text
//! planar   mono | 4:2:0 | 4:1:1 | 4:2:2 | 4:4:4 | RGB, 8 to 16 bits ─┐
//! pgroups  mono | 4:2:0 |         4:2:2 | 4:4:4 | RGB, 8 to 16 bits ─┼─► I420, even in width and height
//! packed   YUYV | UYVY | NV12 | NV16                                ─┘
//! ```
//! * **Depth**: rounded to the nearest, no dither.
//! * **Chroma**: the mean of two lines, and in width at the left of two samples, where H.264 has it (4:2:2 is there
//!   already). Of interlaced pictures, lines of the same field are taken together.
//! * **RGB**: by the matrix that its colour names, or its primaries, or its size: BT.709 for high definition, BT.601 for standard. The
//!   result is limited in range, whatever RGB was.
//! * **Odd sizes**: H.264 in 4:2:0 counts its cropping in steps of two, so an odd width or height cannot be said.
//!   The last column or line is repeated: nothing is lost, and the picture is larger by one.

mod lines;

use super::simd::Simd;
use crate::picture::{Chroma, Colour, Picture, PicturePool, PixelFormat, Plane, Size};
use crate::time::Time;
use thiserror::Error;

/// How the lines of a picture belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// All were captured at once.
    #[default]
    Progressive,
    /// Even and odd lines are two fields, captured one after the other.
    Interlaced,
}

/// How capture cards lay 4:2:2 and 4:2:0 out in 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedFormat {
    /// 4:2:2, `Y U Y V`.
    Yuyv,
    /// 4:2:2, `U Y V Y`.
    Uyvy,
    /// 4:2:0: a plane of luma, then one of `U V` pairs.
    Nv12,
    /// 4:2:2: the same with as many lines of chroma as of luma.
    Nv16,
}

impl PackedFormat {
    /// Bytes of a line without padding. Of two planes each has lines of this length.
    pub fn line_bytes(self, size: Size) -> usize {
        let pairs = size.width.div_ceil(2) as usize;
        match self {
            PackedFormat::Yuyv | PackedFormat::Uyvy => 4 * pairs,
            PackedFormat::Nv12 | PackedFormat::Nv16 => 2 * pairs,
        }
    }

    /// Bytes of a picture of `size` with lines that begin `stride_bytes` apart; the last one needs no padding.
    pub fn picture_bytes(self, size: Size, stride_bytes: usize) -> usize {
        let height = size.height as usize;
        let lines = match self {
            PackedFormat::Yuyv | PackedFormat::Uyvy => height,
            PackedFormat::Nv12 => height + height.div_ceil(2),
            PackedFormat::Nv16 => 2 * height,
        };
        (lines - 1) * stride_bytes + self.line_bytes(size)
    }
}

/// Converts pictures. Keeps planes to be used again; otherwise each picture is on its own.
#[derive(Clone, Debug)]
pub struct Converter {
    simd: Simd,
    pool: PicturePool,
    /// Lines in between: two and two.
    lines: [Vec<u8>; 4],
    /// Lines of pgroups and RGB.
    work: lines::Work,
}

impl Default for Converter {
    fn default() -> Converter {
        Converter::new()
    }
}

impl Converter {
    /// With the fastest instructions that there are.
    pub fn new() -> Converter {
        Converter::with(Simd::best())
    }

    /// With given instructions. The result is the same.
    pub fn with(simd: Simd) -> Converter {
        let (pool, work) = (PicturePool::default(), lines::Work::default());
        Converter { simd, pool, lines: Default::default(), work }
    }

    /// The size of a converted picture: `size`, rounded up to even numbers.
    pub fn size(size: Size) -> Size {
        Size { width: size.width.next_multiple_of(2), height: size.height.next_multiple_of(2) }
    }

    /// What the samples of a converted picture mean that had `colour`, `format` and `size`. RGB gets the matrix and the limited
    /// range in which it comes out, and where it does not name its primaries or its curve those of the system of that matrix:
    /// BT.709, or BT.601 (of 576 lines its 625-line system), so that players undo just what was done.
    pub fn colour(colour: Colour, format: PixelFormat, size: Size) -> Colour {
        if format.chroma != Chroma::Rgb {
            return colour;
        }
        let matrix = match colour.matrix_of(size) {
            // The same numbers by both names.
            6 if size.height == 576 => 5,
            matrix => matrix,
        };
        let named = |found: u8, usual: u8| if matches!(found, 0 | 2) { usual } else { found };
        let (primaries, transfer) = match matrix {
            1 => (1, 1),
            5 => (5, 6),
            6 => (6, 6),
            9 => (9, 14),
            _ => (2, 2),
        };
        Colour {
            primaries: named(colour.primaries, primaries),
            transfer: named(colour.transfer, transfer),
            matrix,
            full_range: false,
        }
    }

    /// `picture` in 8-bit 4:2:0 of even width and height; times, fields and colour are kept, but that RGB gets what
    /// [`Converter::colour`] says. One that is so already is given back untouched.
    ///
    /// A picture that has fields ([`Picture::fields`]) is interlaced whatever `scan` says.
    ///
    /// Cost: reads each sample once. See `cargo bench -p glassline-media --bench pixels`.
    pub fn convert(&mut self, picture: Picture, scan: Scan) -> Picture {
        let size = Self::size(picture.size());
        if picture.format() == PixelFormat::I420 && picture.size() == size {
            return picture;
        }
        let scan = if picture.fields.is_some() { Scan::Interlaced } else { scan };
        let mut out = self.pool.take(PixelFormat::I420, size, picture.captured);
        (out.colour, out.captured_utc, out.fields) = (picture.colour, picture.captured_utc, picture.fields);
        let is_rgb = picture.format().chroma == Chroma::Rgb;
        out.colour = Self::colour(picture.colour, picture.format(), picture.size());
        if is_rgb || !picture.format().is_planar() {
            self.convert_lines(&picture, scan, &mut out);
        } else {
            self.convert_planes(&picture, scan, &mut out);
        }
        self.pool.keep(&out);
        out
    }

    /// Writes all samples of `out` from a picture in planes, plane by plane.
    fn convert_planes(&mut self, picture: &Picture, scan: Scan, out: &mut Picture) {
        let deep = deep_shift(picture.format());
        let [luma, blue, red] = out.planes_mut() else { unreachable!("I420 has three planes") };
        let from = &picture.planes()[0];
        for (y, line) in luma.lines_mut().enumerate() {
            let width = from.size().width as usize;
            self.eight_bits(from.line(y.min(from.size().height as usize - 1)), deep, &mut line[..width]);
            repeat_last(line, width);
        }
        for (plane, index) in [(blue, 1), (red, 2)] {
            match picture.planes().get(index) {
                Some(from) => self.chroma(from, picture.format(), scan, plane),
                None => plane.bytes_mut().fill(128),
            }
        }
    }

    /// A picture of a capture card's bytes, in 8-bit 4:2:0 of even width and height; lines begin `stride_bytes`
    /// apart in both planes where there are two. Colour and wall clock are the caller's to set.
    ///
    /// # Errors
    /// [`PixelsError`] where `bytes` or the stride are too small for the size.
    pub fn unpack(
        &mut self,
        bytes: &[u8],
        format: PackedFormat,
        size: Size,
        stride_bytes: usize,
        (scan, captured): (Scan, Time),
    ) -> Result<Picture, PixelsError> {
        if stride_bytes < format.line_bytes(size) {
            return Err(PixelsError::Stride { found: stride_bytes, least: format.line_bytes(size), size });
        }
        let needed = format.picture_bytes(size, stride_bytes);
        if bytes.len() < needed {
            return Err(PixelsError::Short { found: bytes.len(), needed, size });
        }
        let line = |y: usize| &bytes[y * stride_bytes..][..format.line_bytes(size)];
        let mut out = self.pool.take(PixelFormat::I420, Self::size(size), captured);
        match format {
            PackedFormat::Yuyv | PackedFormat::Uyvy => {
                self.unpack_pairs(line, format == PackedFormat::Yuyv, (size, scan), &mut out);
            }
            PackedFormat::Nv12 | PackedFormat::Nv16 => {
                self.unpack_planes(line, format == PackedFormat::Nv16, (size, scan), &mut out);
            }
        }
        self.pool.keep(&out);
        Ok(out)
    }

    /// YUYV and UYVY: two lines at a time, with one line of chroma as the mean of both.
    fn unpack_pairs<'a>(
        &mut self,
        packed: impl Fn(usize) -> &'a [u8],
        luma_first: bool,
        (size, scan): (Size, Scan),
        out: &mut Picture,
    ) {
        let (width, height) = (size.width as usize, size.height as usize);
        let [luma, blue, red] = out.planes_mut() else { unreachable!("I420 has three planes") };
        let half = blue.size().width as usize;
        self.lines.iter_mut().for_each(|line| line.resize(half, 0));
        let stride = luma.stride_bytes();
        let luma = luma.bytes_mut();
        for (row, (blue, red)) in blue.lines_mut().zip(red.lines_mut()).enumerate() {
            let rows = pair(row, height, scan);
            let [blue_one, red_one, blue_two, red_two] = &mut self.lines;
            for (y, blue, red) in [(rows[0], blue_one, red_one), (rows[1], blue_two, red_two)] {
                let line = &mut luma[y * stride..][..size.width.next_multiple_of(2) as usize];
                self.simd.unpack(packed(y), luma_first, [&mut line[..width], blue, red]);
                repeat_last(line, width);
            }
            self.simd.average(&self.lines[0], &self.lines[2], blue);
            self.simd.average(&self.lines[1], &self.lines[3], red);
        }
        // By fields, and two lines more than a multiple of four: the last line has no partner.
        if scan == Scan::Interlaced && height % 4 == 2 {
            let [blue, red, ..] = &mut self.lines;
            let line = &mut luma[(height - 1) * stride..][..size.width.next_multiple_of(2) as usize];
            self.simd.unpack(packed(height - 1), luma_first, [&mut line[..width], blue, red]);
            repeat_last(line, width);
        }
        if height % 2 == 1 {
            luma.copy_within((height - 1) * stride..height * stride, height * stride);
        }
    }

    /// NV12 and NV16.
    fn unpack_planes<'a>(
        &mut self,
        packed: impl Fn(usize) -> &'a [u8],
        tall: bool,
        (size, scan): (Size, Scan),
        out: &mut Picture,
    ) {
        let (width, height) = (size.width as usize, size.height as usize);
        let [luma, blue, red] = out.planes_mut() else { unreachable!("I420 has three planes") };
        for (y, line) in luma.lines_mut().enumerate() {
            line[..width].copy_from_slice(&packed(y.min(height - 1))[..width]);
            repeat_last(line, width);
        }
        let half = blue.size().width as usize;
        self.lines.iter_mut().for_each(|line| line.resize(half, 0));
        for (row, (blue, red)) in blue.lines_mut().zip(red.lines_mut()).enumerate() {
            if !tall {
                self.simd.split(packed(height + row), blue, red);
                continue;
            }
            let rows = pair(row, height, scan);
            let [blue_one, red_one, blue_two, red_two] = &mut self.lines;
            self.simd.split(packed(height + rows[0]), blue_one, red_one);
            self.simd.split(packed(height + rows[1]), blue_two, red_two);
            self.simd.average(blue_one, blue_two, blue);
            self.simd.average(red_one, red_two, red);
        }
    }

    /// A line of samples to 8 bits; `deep` is by how much they are shifted, if they take two bytes.
    fn eight_bits(&self, from: &[u8], deep: Option<u32>, out: &mut [u8]) {
        match deep {
            Some(shift) => self.simd.narrow(from, shift, out),
            None => out.copy_from_slice(&from[..out.len()]),
        }
    }

    fn chroma(&mut self, from: &Plane, format: PixelFormat, scan: Scan, out: &mut Plane) {
        let (width, height) = (from.size().width as usize, from.size().height as usize);
        let deep = deep_shift(format);
        for (row, out) in out.lines_mut().enumerate() {
            if format.chroma == Chroma::Yuv420 {
                self.eight_bits(from.line(row), deep, out);
                continue;
            }
            let [one, two] = pair(row, height, scan).map(|y| from.line(y));
            match (format.chroma, deep) {
                (Chroma::Yuv422, Some(shift)) => self.simd.average_deep(one, two, shift, out),
                (Chroma::Yuv422, None) => self.simd.average(one, two, out),
                (Chroma::Yuv444, None) => self.simd.quarter(one, two, out),
                (Chroma::Yuv444, Some(_)) => {
                    let mut lines = [std::mem::take(&mut self.lines[0]), std::mem::take(&mut self.lines[1])];
                    for (line, from) in lines.iter_mut().zip([one, two]) {
                        line.resize(width, 0);
                        self.eight_bits(from, deep, line);
                    }
                    self.simd.quarter(&lines[0], &lines[1], out);
                    [self.lines[0], self.lines[1]] = lines;
                }
                _ => {
                    let mut line = std::mem::take(&mut self.lines[0]);
                    line.resize(width, 0);
                    match deep {
                        Some(shift) => self.simd.average_deep(one, two, shift, &mut line),
                        None => self.simd.average(one, two, &mut line),
                    }
                    double(&line, out);
                    self.lines[0] = line;
                }
            }
        }
    }
}

/// By how many bits two-byte samples are above 8.
fn deep_shift(format: PixelFormat) -> Option<u32> {
    (format.sample_bytes() == 2).then(|| u32::from(format.depth_bits.clamp(9, 16)) - 8)
}

/// The two lines of `height` that chroma line `row` of 4:2:0 is made of. Below the last one, the last one.
pub(super) fn pair(row: usize, height: usize, scan: Scan) -> [usize; 2] {
    let (first, step) = match scan {
        Scan::Progressive => (2 * row, 1),
        Scan::Interlaced => (row / 2 * 4 + row % 2, 2),
    };
    let first = first.min(height - 1);
    [first, if first + step < height { first + step } else { first }]
}

/// The samples beyond `width` become the last one before it.
fn repeat_last(line: &mut [u8], width: usize) {
    if let Some(&last) = width.checked_sub(1).and_then(|last| line.get(last)) {
        line[width..].fill(last);
    }
}

/// 4:1:1 to half the width: each sample, and between two of them their mean.
fn double(line: &[u8], out: &mut [u8]) {
    for (pair, out) in line.iter().enumerate().zip(out.chunks_mut(2)) {
        let (index, &here) = pair;
        out[0] = here;
        if let Some(between) = out.get_mut(1) {
            let next = line.get(index + 1).copied().unwrap_or(here);
            *between = (u16::from(here) + u16::from(next)).div_ceil(2) as u8;
        }
    }
}

/// Bytes that are no picture of the size that they should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PixelsError {
    /// Too few bytes.
    #[error("a picture of {size} has {found} bytes where {needed} belong")]
    Short {
        /// Found bytes.
        found: usize,
        /// Needed bytes.
        needed: usize,
        /// Of the picture.
        size: Size,
    },
    /// Lines would overlap.
    #[error("lines of a picture of {size} lie {found} bytes apart; they take {least}")]
    Stride {
        /// Found stride.
        found: usize,
        /// Bytes of a line.
        least: usize,
        /// Of the picture.
        size: Size,
    },
    /// A run of pgroups that has no place.
    #[error("no pgroup begins at sample {x_px} of line {line} of a picture of {size}")]
    Run {
        /// Where the run begins.
        x_px: u32,
        /// In which line.
        line: u32,
        /// Of the picture.
        size: Size,
    },
    /// Components and depth of which there are no pgroups.
    #[error(
        "there are no pgroups of {:?} with {} bits; there are of luma, 4:2:0, 4:2:2, 4:4:4 and RGB with 8, 10, 12 and 16",
        found.chroma, found.depth_bits
    )]
    NoPgroups {
        /// Of the picture.
        found: PixelFormat,
    },
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
