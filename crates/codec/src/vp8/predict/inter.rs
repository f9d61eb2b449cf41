//! Prediction from a reference frame (RFC 6386 §18).
//!
//! Where a vector points beyond the reference, its outermost samples go on without end. No border is kept in memory:
//! the few blocks that need one get their samples gathered.

use crate::vp8::frame::{Frame, Geometry};
use crate::vp8::modes::{Macroblock, Mode, Split};
use crate::vp8::motion::{Vector, chroma_vector};
use crate::vp8::simd::{Kernels, SubPel};

/// The six taps for each eighth of a sample (§18.3).
pub(crate) const SIX_TAP: [[i8; 6]; 8] = [
    // The middle one is 128; whole samples are never filtered.
    [0, 0, 127, 0, 0, 0],
    [0, -6, 123, 12, -1, 0],
    [2, -11, 108, 36, -8, 1],
    [0, -9, 93, 50, -6, 0],
    [3, -16, 77, 77, -16, 3],
    [0, -6, 50, 93, -9, 0],
    [1, -8, 36, 108, -11, 2],
    [0, -1, 12, 123, -6, 0],
];

/// Samples of context that filters look at before and behind a block, in each direction.
pub(crate) const BEFORE: usize = 2;
const BEHIND: usize = 3;
/// Sides of the largest block with its context.
const GATHERED: usize = 16 + BEFORE + BEHIND;
const GATHERED_STRIDE: usize = 32;

/// Six taps across and down, the scalar reference. `src` begins [`BEFORE`] samples above and left of the block; `x`
/// and `y` are eighths of a sample, not both zero.
pub(crate) fn six_tap<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    let filtered = |taps: &[i8; 6], sample: &dyn Fn(usize) -> u8| {
        let sum: i32 = taps.iter().enumerate().map(|(at, &tap)| i32::from(tap) * i32::from(sample(at))).sum();
        ((sum + 64) >> 7).clamp(0, 255) as u8
    };
    let mut half = [[0u8; N]; GATHERED];
    for (line, src) in half.iter_mut().zip(src.chunks(src_stride)).take(N + BEFORE + BEHIND) {
        for (at, out) in line.iter_mut().enumerate() {
            *out = if x == 0 { src[at + BEFORE] } else { filtered(&SIX_TAP[x], &|tap| src[at + tap]) };
        }
    }
    for (line, dst) in dst.chunks_mut(dst_stride).take(N).enumerate() {
        for (at, out) in dst.iter_mut().take(N).enumerate() {
            *out = if y == 0 {
                half[line + BEFORE][at]
            } else {
                filtered(&SIX_TAP[y], &|tap| half[line + tap][at])
            };
        }
    }
}

/// Two taps across and down, of versions 1 to 3. Arguments as for [`six_tap`].
pub(crate) fn bilinear<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    let mix = |a: u8, b: u8, eighths: usize| {
        ((u32::from(a) * (128 - 16 * eighths as u32) + u32::from(b) * 16 * eighths as u32 + 64) >> 7) as u8
    };
    let mut half = [[0u8; N]; GATHERED];
    for (line, src) in half.iter_mut().zip(src.chunks(src_stride).skip(BEFORE)).take(N + 1) {
        let src = &src[BEFORE..BEFORE + N + 1];
        for (out, pair) in line.iter_mut().zip(src.windows(2)) {
            *out = mix(pair[0], pair[1], x);
        }
    }
    for (pair, dst) in half.windows(2).zip(dst.chunks_mut(dst_stride)).take(N) {
        for (at, out) in dst.iter_mut().take(N).enumerate() {
            *out = mix(pair[0][at], pair[1][at], y);
        }
    }
}

/// One plane of a reference, and where in the plane that is being predicted a block goes.
struct Source<'a> {
    plane: &'a [u8],
    stride: usize,
    width: i32,
    height: i32,
}

impl Source<'_> {
    /// Predicts the `N`×`N` samples at (`x`, `y`) of the picture, displaced by a vector in eighths of a sample.
    fn predict<const N: usize>(&self, dst: &mut [u8], at: (usize, usize), eighths: (i32, i32), filter: SubPel) {
        let (x, y) = (at.0 as i32 + (eighths.0 >> 3), at.1 as i32 + (eighths.1 >> 3));
        let (across, down) = ((eighths.0 & 7) as usize, (eighths.1 & 7) as usize);
        let dst = &mut dst[at.1 * self.stride + at.0..];
        let size = N as i32;
        if across == 0 && down == 0 {
            if x >= 0 && y >= 0 && x + size <= self.width && y + size <= self.height {
                let src = &self.plane[y as usize * self.stride + x as usize..];
                copy::<N>(dst, self.stride, src, self.stride);
            } else {
                let mut gathered = [0; GATHERED * GATHERED_STRIDE];
                self.gather(&mut gathered, x, y, N);
                copy::<N>(dst, self.stride, &gathered, GATHERED_STRIDE);
            }
            return;
        }
        let (before, behind) = (BEFORE as i32, BEHIND as i32);
        let inside = x >= before
            && y >= before
            && x + size + behind <= self.width
            && y + size + behind <= self.height;
        let (x, y) = (x - before, y - before);
        if inside {
            let src = &self.plane[y as usize * self.stride + x as usize..];
            filter(dst, self.stride, src, self.stride, across, down);
        } else {
            let mut gathered = [0; GATHERED * GATHERED_STRIDE];
            self.gather(&mut gathered, x, y, N + BEFORE + BEHIND);
            filter(dst, self.stride, &gathered, GATHERED_STRIDE, across, down);
        }
    }

    /// Gathers `side`×`side` samples from (`x`, `y`) on, wherever that is.
    #[cold]
    fn gather(&self, out: &mut [u8], x: i32, y: i32, side: usize) {
        for (line, out) in out.chunks_mut(GATHERED_STRIDE).take(side).enumerate() {
            let y = (y + line as i32).clamp(0, self.height - 1) as usize;
            let src = &self.plane[y * self.stride..][..self.width as usize];
            let end = x + side as i32;
            if x >= 0 && end <= self.width {
                out[..side].copy_from_slice(&src[x as usize..][..side]);
            } else {
                for (at, out) in out[..side].iter_mut().enumerate() {
                    *out = src[(x + at as i32).clamp(0, self.width - 1) as usize];
                }
            }
        }
    }
}

/// Copies `N`×`N` samples.
fn copy<const N: usize>(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize) {
    for (dst, src) in dst.chunks_mut(dst_stride).zip(src.chunks(src_stride)).take(N) {
        dst[..N].copy_from_slice(&src[..N]);
    }
}

/// Predicts a macroblock from `reference` into the planes of the frame in the making, which has the same geometry.
pub(crate) fn macroblock(
    planes: &mut [&mut [u8]; 3],
    geometry: &Geometry,
    reference: &Frame,
    macroblock: &Macroblock,
    (column, row): (usize, usize),
    (kernels, version): (&Kernels, u8),
) {
    let filters = if version == 0 { &kernels.six_tap } else { &kernels.bilinear };
    let full_pixel = version == 3;
    let source = |index: usize| {
        let (width, height, stride) = geometry.plane(index);
        Source { plane: reference.plane(index), stride, width: width as i32, height: height as i32 }
    };
    let luma = |vector: Vector| (2 * i32::from(vector.column), 2 * i32::from(vector.row));
    let chroma = |vector: Vector| (i32::from(vector.column), i32::from(vector.row));
    let (y, x) = (16 * row, 16 * column);
    if macroblock.mode != Mode::Split {
        source(0).predict::<16>(planes[0], (x, y), luma(macroblock.vector), filters[0]);
        let vector = chroma_vector([macroblock.vector; 4], full_pixel);
        for index in [1, 2] {
            source(index).predict::<8>(planes[index], (x / 2, y / 2), chroma(vector), filters[1]);
        }
        return;
    }
    let plane = source(0);
    if macroblock.split == Split::Sixteenths {
        for (block, &vector) in macroblock.vectors.iter().enumerate() {
            let at = (x + block % 4 * 4, y + block / 4 * 4);
            plane.predict::<4>(planes[0], at, luma(vector), filters[2]);
        }
    } else {
        for block in [0, 2, 8, 10] {
            let at = (x + block % 4 * 4, y + block / 4 * 4);
            plane.predict::<8>(planes[0], at, luma(macroblock.vectors[block]), filters[1]);
        }
    }
    for block in [0, 2, 8, 10] {
        let vectors = [0, 1, 4, 5].map(|at| macroblock.vectors[block + at]);
        let vector = chroma_vector(vectors, full_pixel);
        let at = (x / 2 + block % 4 * 2, y / 2 + block / 4 * 2);
        for index in [1, 2] {
            source(index).predict::<4>(planes[index], at, chroma(vector), filters[2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_keep_the_level() {
        for taps in &SIX_TAP[1..] {
            assert_eq!(taps.iter().map(|&tap| i32::from(tap)).sum::<i32>(), 128);
        }
        for (x, y) in [(2, 0), (0, 3), (4, 7)] {
            let (mut a, mut b) = ([0; 64], [0; 64]);
            six_tap::<8>(&mut a, 8, &[90; 32 * 13], 32, x, y);
            bilinear::<8>(&mut b, 8, &[90; 32 * 13], 32, x, y);
            assert_eq!((a, b), ([90; 64], [90; 64]));
        }
    }

    #[test]
    fn the_outermost_samples_go_on_without_end() {
        let plane: Vec<u8> = (0..64 * 64).map(|at| (at % 64 + at / 64) as u8).collect();
        let source = Source { plane: &plane, stride: 64, width: 64, height: 64 };
        let mut out = vec![0; 64 * 64];
        source.predict::<16>(&mut out, (16, 16), (8 * -5000, 8 * 5000), six_tap::<16>);
        assert_eq!(out[16 * 64 + 16..][..16], [63; 16]);
        source.predict::<16>(&mut out, (16, 16), (8 * 5000 + 3, 8 * -5000 + 3), six_tap::<16>);
        assert_eq!(out[31 * 64 + 16..][..16], [63; 16]);
        source.predict::<4>(&mut out, (60, 60), (8, 8), six_tap::<4>);
        assert_eq!(out[63 * 64 + 60..], [124, 125, 126, 126]);
    }
}
