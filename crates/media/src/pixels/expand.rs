//! To any components and depth in planes, from whatever a source gives: so that a test pattern in 8-bit 4:2:0 can be sent in every
//! format of uncompressed video ([`Packer`](super::Packer) makes pgroups of the result).
//!
//! * **Depth**: shifted to the left, or rounded to the nearest.
//! * **Chroma**, in width: each sample, and between two of them their mean (it lies on the left one of two samples of luma). In
//!   height: each line twice, both lines of the same field where there are fields. What is to have less gets means, as
//!   [`Converter`](super::Converter) makes them. Where a picture has no chroma it is grey.
//! * **RGB**: by the matrix of the picture's colour, or of its size where that names none.
//!
//! Lines of 4:2:0 doubled in height alone come back from the converter as they were.

use super::convert::{Scan, pair};
use super::matrix::{Codes, Matrix};
use super::pgroup::{Unpacker, taken};
use super::simd::Simd;
use crate::picture::{Chroma, Colour, Picture, PicturePool, PixelFormat, Plane};

/// Makes pictures of one format. Keeps planes to be used again; otherwise each picture is on its own.
#[derive(Clone, Debug)]
pub struct Expander {
    simd: Simd,
    format: PixelFormat,
    is_full: Option<bool>,
    unpacker: Unpacker,
    pool: PicturePool,
    /// For RGB on its way to luma and chroma.
    between: PicturePool,
    work: Work,
}

/// Lines on their way, of two bytes a sample.
#[derive(Clone, Debug, Default)]
struct Work {
    luma: Vec<u8>,
    /// Chroma at the width and height that it is to have, still as deep as it was.
    chroma: [Vec<u8>; 2],
    /// The same before its width is doubled or halved.
    narrow: Vec<u8>,
}

impl Expander {
    /// To `format` in planes, also where it is in pgroups. With the fastest instructions that there are.
    pub fn new(format: PixelFormat) -> Expander {
        Expander::with(Simd::best(), format)
    }

    /// With given instructions. The result is the same.
    pub fn with(simd: Simd, format: PixelFormat) -> Expander {
        let (pool, between) = (PicturePool::default(), PicturePool::default());
        let unpacker = Unpacker::with(simd);
        Expander {
            simd,
            format: format.to_planar(),
            is_full: None,
            unpacker,
            pool,
            between,
            work: Work::default(),
        }
    }

    /// Whether RGB made of luma and chroma runs over all code values. Without this it does where luma does.
    #[must_use]
    pub fn full_range(mut self, is_full: bool) -> Expander {
        self.is_full = Some(is_full);
        self
    }

    /// Components and depth of what comes out.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// `picture` in this expander's format and its own size; times, fields and colour are kept. RGB made of luma and chroma names the
    /// matrix by which it was made, for the way back; luma and chroma made of RGB are limited in range. One that is of this format
    /// already is given back untouched.
    ///
    /// Cost: reads and writes each sample once or twice. See `cargo bench -p glassline-media --bench pixels`.
    pub fn expand(&mut self, picture: Picture) -> Picture {
        if picture.format() == self.format {
            return picture;
        }
        let mut picture = self.unpacker.unpack(&picture);
        let to = self.format.chroma;
        if picture.format().chroma == Chroma::Rgb && to != Chroma::Rgb {
            picture = self.without_rgb(&picture);
        }
        if picture.format() == self.format {
            return picture;
        }
        let mut out = taken(&mut self.pool, &picture, self.format);
        match (picture.format().chroma, to) {
            (Chroma::Rgb, Chroma::Rgb) => {
                for (from, to) in picture.planes().iter().zip(out.planes_mut()) {
                    recode_plane(from, picture.format(), to, self.format);
                }
            }
            (_, Chroma::Rgb) => self.expand_to_rgb(&picture, &mut out),
            _ => self.expand_planes(&picture, &mut out),
        }
        self.pool.keep(&out);
        out
    }

    /// Converts RGB to luma and chroma in 4:4:4, with the depth of the result.
    fn without_rgb(&mut self, picture: &Picture) -> Picture {
        let (from, matrix) = (picture.format(), picture.colour.matrix_of(picture.size()));
        let to = PixelFormat::planar(Chroma::Yuv444, self.format.depth_bits);
        let mut out = taken(&mut self.between, picture, to);
        out.colour = Colour { matrix, full_range: false, ..picture.colour };
        let from = Codes { depth_bits: from.depth_bits, is_full: picture.colour.full_range };
        let to = Codes { depth_bits: to.depth_bits, is_full: false };
        let matrix = Matrix::to_ycbcr(matrix, from, to);
        if let ([red, green, blue], [luma, one, two]) = (picture.planes(), out.planes_mut()) {
            let lines = luma.lines_mut().zip(one.lines_mut()).zip(two.lines_mut());
            for (y, ((luma, one), two)) in lines.enumerate() {
                let rgb = [red.line(y), green.line(y), blue.line(y)];
                self.simd.matrix(&matrix, rgb, [luma, one, two]);
            }
        }
        self.between.keep(&out);
        out
    }

    fn expand_planes(&mut self, picture: &Picture, out: &mut Picture) {
        let (from, to) = (picture.format(), self.format);
        for (index, plane) in out.planes_mut().iter_mut().enumerate() {
            let Some(source) = picture.planes().get(index) else {
                fill(plane.bytes_mut(), 128 << (to.depth_bits - 8), to);
                continue;
            };
            if index == 0 || from.chroma == to.chroma {
                recode_plane(source, from, plane, to);
                continue;
            }
            let Work { narrow, chroma: [line, _], .. } = &mut self.work;
            let width = plane.size().width as usize;
            for (row, out) in plane.lines_mut().enumerate() {
                let source = ChromaLine::new(picture, source, to.chroma, row);
                if let Some(line) = source.unchanged() {
                    recode(line, from, out, to);
                } else {
                    source.write(narrow, line, width);
                    recode_wide(line, from.depth_bits, out, to);
                }
            }
        }
    }

    fn expand_to_rgb(&mut self, picture: &Picture, out: &mut Picture) {
        let from = picture.format();
        let is_full = self.is_full.unwrap_or(picture.colour.full_range);
        let code_point = picture.colour.matrix_of(picture.size());
        out.colour = Colour { matrix: code_point, full_range: is_full, ..picture.colour };
        let codes = Codes { depth_bits: from.depth_bits, is_full: picture.colour.full_range };
        let matrix = Matrix::to_rgb(code_point, codes, Codes { depth_bits: self.format.depth_bits, is_full });
        // Lines on their way have two bytes a sample, however deep they are.
        let matrix = Matrix { from_bytes: 2, ..matrix };
        let width = picture.size().width as usize;
        let Work { luma, chroma, narrow } = &mut self.work;
        let [red, green, blue] = out.planes_mut() else { return };
        let lines = red.lines_mut().zip(green.lines_mut()).zip(blue.lines_mut());
        for (y, ((red, green), blue)) in lines.enumerate() {
            widen(picture.planes()[0].line(y), from, luma);
            for (index, line) in chroma.iter_mut().enumerate() {
                match picture.planes().get(index + 1) {
                    Some(plane) => ChromaLine::new(picture, plane, Chroma::Rgb, y).write(narrow, line, width),
                    None => {
                        line.resize(2 * width, 0);
                        fill(line, 128 << (from.depth_bits - 8), PixelFormat::planar(from.chroma, 16));
                    }
                }
            }
            let [one, two] = &*chroma;
            self.simd.matrix(&matrix, [luma, one, two], [red, green, blue]);
        }
    }
}

/// Where a line of chroma comes from.
struct ChromaLine<'a> {
    from: PixelFormat,
    /// Two lines, of which the chroma line is the mean; often both are the same.
    lines: [&'a [u8]; 2],
    /// How often its width is halved; doubled, where this is negative.
    halvings: i32,
}

impl<'a> ChromaLine<'a> {
    /// Line `row` of a plane of `picture`, as a picture with `chroma` has it.
    fn new(picture: &Picture, plane: &'a Plane, chroma: Chroma, row: usize) -> ChromaLine<'a> {
        let from = picture.format();
        let shifts = |chroma: Chroma| chroma.shifts().unwrap_or((0, 0));
        let ((x, y), (to_x, to_y)) = (shifts(from.chroma), shifts(chroma));
        let rows = plane.size().height as usize;
        let scan = if picture.fields.is_some() { Scan::Interlaced } else { Scan::Progressive };
        let rows = match (y, to_y) {
            (1, 0) => [row_of(row, rows, scan); 2],
            (0, 1) => pair(row, rows, scan),
            _ => [row; 2],
        };
        ChromaLine { from, lines: rows.map(|row| plane.line(row)), halvings: to_x as i32 - x as i32 }
    }

    /// The line, where it is one as it is.
    fn unchanged(&self) -> Option<&'a [u8]> {
        let [one, two] = self.lines;
        (self.halvings == 0 && std::ptr::eq(one, two)).then_some(one)
    }

    /// Writes it with two bytes a sample, `width` of them, as deep as it was.
    fn write(&self, narrow: &mut Vec<u8>, out: &mut Vec<u8>, width: usize) {
        let [one, two] = self.lines;
        widen(one, self.from, out);
        if !std::ptr::eq(one, two) {
            widen(two, self.from, narrow);
            mean(narrow, out);
        }
        for _ in 0..self.halvings.unsigned_abs() {
            std::mem::swap(narrow, out);
            if self.halvings < 0 { double(narrow, out) } else { halve(narrow, out) }
        }
        out.truncate(2 * width);
    }
}

/// Which of the `rows` of chroma in 4:2:0 line `y` of luma has: one of its own field.
fn row_of(y: usize, rows: usize, scan: Scan) -> usize {
    let row = match scan {
        Scan::Progressive => y / 2,
        Scan::Interlaced => y / 4 * 2 + y % 2,
    };
    // The last lines of a field may have no row of their own.
    if row < rows { row } else { row.saturating_sub(2) }
}

fn sample(bytes: [u8; 2]) -> u32 {
    u32::from(u16::from_le_bytes(bytes))
}

/// A line to two bytes a sample.
fn widen(line: &[u8], format: PixelFormat, out: &mut Vec<u8>) {
    if format.sample_bytes() == 2 {
        out.clear();
        out.extend_from_slice(line);
    } else {
        out.resize(2 * line.len(), 0);
        for (&byte, out) in line.iter().zip(out.as_chunks_mut::<2>().0) {
            *out = [byte, 0];
        }
    }
}

/// The mean of two lines, rounded up, into the second.
fn mean(one: &[u8], two: &mut [u8]) {
    for (one, two) in one.as_chunks::<2>().0.iter().zip(two.as_chunks_mut::<2>().0) {
        *two = ((sample(*one) + sample(*two)).div_ceil(2) as u16).to_le_bytes();
    }
}

/// Twice the width: each sample, and between two of them their mean.
fn double(line: &[u8], out: &mut Vec<u8>) {
    out.resize(2 * line.len(), 0);
    let (line, out) = (line.as_chunks::<2>().0, out.as_chunks_mut::<4>().0);
    let next = line.get(1..).unwrap_or_default();
    for ((&here, &next), out) in line.iter().zip(next).zip(out.iter_mut()) {
        let (here, next) = (sample(here), sample(next));
        *out = (here | ((here + next + 1) >> 1) << 16).to_le_bytes();
    }
    if let (Some(&last), Some(out)) = (line.last(), out.last_mut()) {
        *out = (sample(last) | sample(last) << 16).to_le_bytes();
    }
}

/// Half the width: each second sample, with half of those beside it.
fn halve(line: &[u8], out: &mut Vec<u8>) {
    let line = line.as_chunks::<2>().0;
    out.resize(line.len().div_ceil(2) * 2, 0);
    let last = line.len().saturating_sub(1);
    for (x, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let at = |x: usize| sample(line[x.min(last)]);
        let sum = at((2 * x).saturating_sub(1)) + 2 * at(2 * x) + at(2 * x + 1);
        *out = (((sum + 2) >> 2) as u16).to_le_bytes();
    }
}

/// Sets all samples to one value, padding too.
fn fill(bytes: &mut [u8], value: u16, format: PixelFormat) {
    match format.sample_bytes() {
        1 => bytes.fill(value as u8),
        _ => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|out| *out = value.to_le_bytes()),
    }
}

/// A plane to another depth.
fn recode_plane(from: &Plane, format: PixelFormat, to: &mut Plane, to_format: PixelFormat) {
    for (line, out) in from.lines().zip(to.lines_mut()) {
        recode(line, format, out, to_format);
    }
}

/// A line to another depth.
fn recode(line: &[u8], from: PixelFormat, out: &mut [u8], to: PixelFormat) {
    let depths = (from.depth_bits, to.depth_bits);
    match (from.sample_bytes(), to.sample_bytes()) {
        _ if from.depth_bits == to.depth_bits => out.copy_from_slice(line),
        (1, _) => shifted::<1, 2>(line, depths, out),
        (_, 1) => shifted::<2, 1>(line, depths, out),
        _ => shifted::<2, 2>(line, depths, out),
    }
}

/// The same of a line that has two bytes a sample, however deep it is.
fn recode_wide(line: &[u8], depth_bits: u8, out: &mut [u8], to: PixelFormat) {
    let depths = (depth_bits, to.depth_bits);
    if to.sample_bytes() == 1 {
        shifted::<2, 1>(line, depths, out);
    } else {
        shifted::<2, 2>(line, depths, out);
    }
}

/// Samples of `FROM` bytes to those of `TO`: shifted to the left, or to the right and rounded.
fn shifted<const FROM: usize, const TO: usize>(line: &[u8], (from, to): (u8, u8), out: &mut [u8]) {
    let samples = line.as_chunks::<FROM>().0.iter().zip(out.as_chunks_mut::<TO>().0);
    let value =
        |bytes: &[u8; FROM]| u16::from_le_bytes([bytes[0], if FROM > 1 { bytes[FROM - 1] } else { 0 }]);
    let put = |value: u16, out: &mut [u8; TO]| out.copy_from_slice(&value.to_le_bytes()[..TO]);
    if to >= from {
        let shift = u32::from(to - from);
        samples.for_each(|(bytes, out)| put(value(bytes) << shift, out));
    } else {
        let (shift, max) = (u32::from(from - to), u16::MAX >> (16 - to));
        let round = 1 << (shift - 1);
        samples.for_each(|(bytes, out)| put((value(bytes).saturating_add(round) >> shift).min(max), out));
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
