//! Pictures with lines that have to be made first: pgroups are unpacked, and RGB goes through its matrix.
//!
//! Two lines at a time become two of luma and one of each chroma while the processor's cache has them: no picture
//! stands in between.

use super::{Converter, Scan, deep_shift, pair, repeat_last};
use crate::picture::{Chroma, Picture, PixelFormat};
use crate::pixels::matrix::{Codes, Matrix};
use crate::pixels::pgroup::unpack_line;
use crate::pixels::simd::Simd;

/// Lines on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// What was unpacked and is not 8 bits yet: the lines of a run of pgroups.
    raw: [Vec<u8>; 4],
    /// Cb and Cr of two lines, before one line is made of them.
    chroma: [[Vec<u8>; 2]; 2],
}

/// What lines are made of.
struct Lines<'a> {
    simd: Simd,
    picture: &'a Picture,
    /// Of the picture, in planes.
    planar: PixelFormat,
    /// By how much samples are shifted, if they take two bytes.
    deep: Option<u32>,
    /// Of RGB.
    matrix: Option<Matrix>,
}

/// The 8-bit luma of `out` and its stride, with the width of what is converted.
struct Luma<'a> {
    bytes: &'a mut [u8],
    stride: usize,
    width: usize,
}

impl Luma<'_> {
    fn line(&mut self, y: usize) -> &mut [u8] {
        &mut self.bytes[y * self.stride..][..self.width]
    }

    fn two_lines(&mut self, y: usize) -> [&mut [u8]; 2] {
        let (upper, lower) = self.bytes[y * self.stride..].split_at_mut(self.stride);
        [&mut upper[..self.width], &mut lower[..self.width]]
    }
}

impl Converter {
    /// Writes all samples of `out` from a picture in pgroups, or of RGB.
    pub(super) fn convert_lines(&mut self, picture: &Picture, scan: Scan, out: &mut Picture) {
        let planar = picture.format().to_planar();
        let matrix = (planar.chroma == Chroma::Rgb).then(|| {
            let from = Codes { depth_bits: planar.depth_bits, is_full: picture.colour.full_range };
            let to = Codes { depth_bits: 8, is_full: false };
            Matrix::to_ycbcr(picture.colour.matrix_of(picture.size()), from, to)
        });
        let lines = Lines { simd: self.simd, picture, planar, deep: deep_shift(planar), matrix };
        let (width, height) = (picture.size().width as usize, picture.size().height as usize);
        self.work.prepare(planar, width);
        let [luma, blue, red] = out.planes_mut() else { unreachable!("I420 has three planes") };
        let stride = luma.stride_bytes();
        let mut luma = Luma { bytes: luma.bytes_mut(), stride, width };
        match planar.chroma {
            Chroma::Mono => {
                (0..height).for_each(|y| lines.mono(y, luma.line(y), &mut self.work));
                [blue, red].into_iter().for_each(|plane| plane.bytes_mut().fill(128));
            }
            Chroma::Yuv420 => {
                for (row, (blue, red)) in blue.lines_mut().zip(red.lines_mut()).enumerate() {
                    let [upper, lower] = luma.two_lines(2 * row);
                    lines.two(row, [upper, blue, red, lower], &mut self.work);
                }
            }
            _ => {
                for (row, (blue, red)) in blue.lines_mut().zip(red.lines_mut()).enumerate() {
                    for (slot, y) in pair(row, height, scan).into_iter().enumerate() {
                        lines.one(y, luma.line(y), slot, &mut self.work);
                    }
                    lines.join([blue, red], &self.work);
                }
                // By fields, and two lines more than a multiple of four: the last line has no partner.
                if scan == Scan::Interlaced && height % 4 == 2 {
                    lines.one(height - 1, luma.line(height - 1), 0, &mut self.work);
                }
            }
        }
        if width % 2 == 1 {
            luma.bytes.chunks_exact_mut(stride).for_each(|line| repeat_last(&mut line[..=width], width));
        }
        if height % 2 == 1 {
            luma.bytes.copy_within((height - 1) * stride..height * stride, height * stride);
        }
    }
}

impl Work {
    /// Lines as long as those of a picture of this format.
    fn prepare(&mut self, planar: PixelFormat, width: usize) {
        let halved = matches!(planar.chroma, Chroma::Yuv420 | Chroma::Yuv422);
        let chroma = if halved { width.div_ceil(2) } else { width };
        let bytes = planar.sample_bytes();
        let [luma, blue, red, lower] = &mut self.raw;
        [luma, lower].into_iter().for_each(|line| line.resize(width * bytes, 0));
        [blue, red].into_iter().for_each(|line| line.resize(chroma * bytes, 0));
        // Of 4:2:2 two lines are joined as deep as they are.
        let bytes = if planar.chroma == Chroma::Yuv422 { bytes } else { 1 };
        self.chroma.iter_mut().flatten().for_each(|line| line.resize(chroma * bytes, 0));
    }
}

impl Lines<'_> {
    /// Line `y` of pgroups to lines of planes.
    fn unpack(&self, y: usize, lines: [&mut [u8]; 4]) {
        unpack_line(self.simd, self.picture.format(), self.picture.planes()[0].line(y), lines);
    }

    /// Line `y` of luma alone.
    fn mono(&self, y: usize, luma: &mut [u8], work: &mut Work) {
        match self.deep {
            None => self.unpack(y, [luma, &mut [], &mut [], &mut []]),
            Some(shift) => {
                self.unpack(y, [&mut work.raw[0], &mut [], &mut [], &mut []]);
                self.simd.narrow(&work.raw[0], shift, luma);
            }
        }
    }

    /// Two lines of 4:2:0.
    fn two(&self, row: usize, lines: [&mut [u8]; 4], work: &mut Work) {
        let Some(shift) = self.deep else { return self.unpack(row, lines) };
        self.unpack(row, work.raw.each_mut().map(|line| &mut line[..]));
        for (line, raw) in lines.into_iter().zip(&work.raw) {
            self.simd.narrow(raw, shift, line);
        }
    }

    /// Line `y` of anything else: luma as the result has it, and chroma as [`Lines::join`] takes it.
    fn one(&self, y: usize, luma: &mut [u8], slot: usize, Work { raw, chroma }: &mut Work) {
        let [blue, red] = &mut chroma[slot];
        let [raw_one, raw_two, raw_three, _] = raw;
        match (&self.matrix, self.deep) {
            (Some(matrix), _) => {
                let from = if let ([one, two, three], true) = (self.picture.planes(), self.is_planar()) {
                    [one.line(y), two.line(y), three.line(y)]
                } else {
                    self.unpack(y, [raw_one, raw_two, raw_three, &mut []]);
                    [&raw_one[..], &raw_two[..], &raw_three[..]]
                };
                self.simd.matrix(matrix, from, [luma, blue, red]);
            }
            (None, None) => self.unpack(y, [luma, blue, red, &mut []]),
            (None, Some(shift)) if self.planar.chroma == Chroma::Yuv422 => {
                self.unpack(y, [raw_one, blue, red, &mut []]);
                self.simd.narrow(raw_one, shift, luma);
            }
            (None, Some(shift)) => {
                self.unpack(y, [raw_one, raw_two, raw_three, &mut []]);
                self.simd.narrow(raw_one, shift, luma);
                self.simd.narrow(raw_two, shift, blue);
                self.simd.narrow(raw_three, shift, red);
            }
        }
    }

    fn is_planar(&self) -> bool {
        self.picture.format().is_planar()
    }

    /// The chroma of two lines to that of 4:2:0.
    fn join(&self, out: [&mut [u8]; 2], work: &Work) {
        let [one, two] = &work.chroma;
        for ((out, one), two) in out.into_iter().zip(one).zip(two) {
            match (self.planar.chroma, self.deep) {
                (Chroma::Yuv422, Some(shift)) => self.simd.average_deep(one, two, shift, out),
                (Chroma::Yuv422, None) => self.simd.average(one, two, out),
                _ => self.simd.quarter(one, two, out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
