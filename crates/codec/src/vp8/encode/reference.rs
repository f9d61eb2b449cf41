//! A plane of a reference frame, as motion search sees it: blocks anywhere, beyond the picture's edges as well.

use crate::vp8::frame::{Frame, Geometry};
use crate::vp8::simd::Kernels;
use crate::vp8::vector::Vector;

/// Bytes of a line of gathered samples.
const GATHERED_STRIDE: usize = 32;
/// The most lines that are gathered: 16 with four on both sides.
const MOST_LINES: usize = 24;
/// Samples that were gathered since some of them lie beyond the picture.
type Gathered = [u8; (MOST_LINES + 1) * GATHERED_STRIDE];

/// Samples that a filter of six taps looks at before and behind a block.
const BEFORE: i32 = 2;
const CONTEXT: usize = 5;

/// A plane of a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReferencePlane<'a> {
    pub(crate) samples: &'a [u8],
    pub(crate) stride: usize,
    width: i32,
    height: i32,
}

impl<'a> ReferencePlane<'a> {
    /// Luma is the plane 0.
    pub(crate) fn new(frame: &'a Frame, geometry: &Geometry, index: usize) -> ReferencePlane<'a> {
        let (width, height, stride) = geometry.plane(index);
        ReferencePlane { samples: frame.plane(index), stride, width: width as i32, height: height as i32 }
    }

    /// Where `width`×`height` samples from (`x`, `y`) on begin, if all of them lie in the picture.
    #[inline(always)]
    pub(crate) fn inside(&self, x: i32, y: i32, width: usize, height: usize) -> Option<usize> {
        let inside = x >= 0 && y >= 0 && x + width as i32 <= self.width && y + height as i32 <= self.height;
        inside.then(|| y as usize * self.stride + x as usize)
    }

    /// Gives `width`×`height` samples from (`x`, `y`) on and their stride to `look`, gathered where they are not
    /// beside each other.
    #[inline(always)]
    pub(crate) fn window<R>(
        &self,
        x: i32,
        y: i32,
        (width, height): (usize, usize),
        look: impl FnOnce(&[u8], usize) -> R,
    ) -> R {
        match self.inside(x, y, width, height) {
            Some(at) => look(&self.samples[at..], self.stride),
            None => {
                let mut gathered = [0; (MOST_LINES + 1) * GATHERED_STRIDE];
                self.gather(x, y, (width, height), &mut gathered);
                look(&gathered, GATHERED_STRIDE)
            }
        }
    }

    #[inline(never)]
    fn gather(&self, x: i32, y: i32, (width, height): (usize, usize), out: &mut Gathered) {
        let left = (-x).clamp(0, width as i32) as usize;
        let right = (self.width - x).clamp(left as i32, width as i32) as usize;
        let from = x.clamp(0, self.width) as usize;
        for line in 0..height {
            let y = (y + line as i32).clamp(0, self.height - 1) as usize;
            let src = &self.samples[y * self.stride..];
            // Whole strides at a time, from left to right: what is too much is written over, and the last line has
            // another one behind it.
            let (first, last) = (src[0], src[self.width as usize - 1]);
            let out = &mut out[line * GATHERED_STRIDE..][..2 * GATHERED_STRIDE];
            out[..GATHERED_STRIDE].fill(first);
            if let Some(src) = src.get(from..from + GATHERED_STRIDE) {
                out[left..left + GATHERED_STRIDE].copy_from_slice(src);
            } else {
                out[left..right].copy_from_slice(&src[from..from + right - left]);
            }
            out[right..right + GATHERED_STRIDE].fill(last);
        }
    }

    /// Predicts the block of `side`×`side` (16, 8 or 4) samples at (`x`, `y`) into `dst`.
    pub(crate) fn predict(
        &self,
        kernels: &Kernels,
        side: usize,
        place: (i32, i32),
        vector: Vector,
        dst: (&mut [u8], usize),
    ) {
        let (row, column) = (i32::from(vector.row()), i32::from(vector.column()));
        self.predict_eighths(kernels, side, place, (2 * column, 2 * row), dst);
    }

    /// The same with a vector in eighths of a sample: right, down.
    pub(crate) fn predict_eighths(
        &self,
        kernels: &Kernels,
        side: usize,
        (x, y): (i32, i32),
        (right, below): (i32, i32),
        (dst, dst_stride): (&mut [u8], usize),
    ) {
        let (x, y) = (x + (right >> 3), y + (below >> 3));
        let (across, down) = ((right & 7) as usize, (below & 7) as usize);
        if across == 0 && down == 0 {
            self.window(x, y, (side, side), |src, stride| {
                for (dst, src) in dst.chunks_mut(dst_stride).zip(src.chunks(stride)).take(side) {
                    dst[..side].copy_from_slice(&src[..side]);
                }
            });
            return;
        }
        let filter = match side {
            16 => kernels.six_tap[0],
            8 => kernels.six_tap[1],
            _ => kernels.six_tap[2],
        };
        let extent = (side + CONTEXT, side + CONTEXT);
        self.window(x - BEFORE, y - BEFORE, extent, |src, stride| {
            filter(dst, dst_stride, src, stride, across, down);
        });
    }
}
