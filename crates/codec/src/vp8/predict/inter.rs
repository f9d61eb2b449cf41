//! Prediction from a reference frame (RFC 6386 §18).
//!
//! Where a vector points beyond the reference, its outermost samples go on without end. No border is kept in memory:
//! the few blocks that need one get their samples gathered.

use crate::vp8::frame::{Frame, Geometry};
use crate::vp8::macroblock::{Macroblock, Mode, Split};
use crate::vp8::motion::chroma_vector;
use crate::vp8::simd::{Copy, Kernels, SubPel, SubPelTwo};
use crate::vp8::vector::Vector;

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

/// [`six_tap`] of two planes.
pub(crate) fn six_tap_two<const N: usize>(
    dst: [&mut [u8]; 2],
    dst_stride: usize,
    src: [&[u8]; 2],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    for (dst, src) in dst.into_iter().zip(src) {
        six_tap::<N>(dst, dst_stride, src, src_stride, x, y);
    }
}

/// [`bilinear`] of two planes.
pub(crate) fn bilinear_two<const N: usize>(
    dst: [&mut [u8]; 2],
    dst_stride: usize,
    src: [&[u8]; 2],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    for (dst, src) in dst.into_iter().zip(src) {
        bilinear::<N>(dst, dst_stride, src, src_stride, x, y);
    }
}

/// Planes of one size that blocks are taken from.
#[derive(Clone, Copy)]
struct Planes {
    stride: usize,
    width: i32,
    height: i32,
}

/// A block's place in a reference: its first sample, and eighths of a sample beyond it.
#[derive(Clone, Copy)]
struct BlockPosition {
    x: i32,
    y: i32,
    across: usize,
    down: usize,
}

impl BlockPosition {
    /// The place (`x`, `y`), displaced by a vector in eighths of a sample.
    fn new((x, y): (usize, usize), (across, down): (i32, i32)) -> BlockPosition {
        BlockPosition {
            x: x as i32 + (across >> 3),
            y: y as i32 + (down >> 3),
            across: (across & 7) as usize,
            down: (down & 7) as usize,
        }
    }

    fn is_whole(&self) -> bool {
        self.across == 0 && self.down == 0
    }

    /// The first sample that filters look at.
    fn with_context(self) -> BlockPosition {
        BlockPosition { x: self.x - BEFORE as i32, y: self.y - BEFORE as i32, ..self }
    }
}

/// Samples that were gathered because some of them lie beyond the picture.
type Gathered = [u8; GATHERED * GATHERED_STRIDE];

impl Planes {
    /// Where in a plane `side`×`side` samples begin, if all of them lie in it.
    fn inside(&self, place: BlockPosition, side: usize) -> Option<usize> {
        let side = side as i32;
        let inside =
            place.x >= 0 && place.y >= 0 && place.x + side <= self.width && place.y + side <= self.height;
        inside.then(|| place.y as usize * self.stride + place.x as usize)
    }

    /// Predicts `N`×`N` samples of one plane.
    fn predict<const N: usize>(
        &self,
        plane: &[u8],
        dst: &mut [u8],
        place: BlockPosition,
        (copy, filter): (Copy, SubPel),
    ) {
        if place.is_whole() {
            return self.copy::<N>(plane, dst, place, copy);
        }
        let place = place.with_context();
        if let Some(at) = self.inside(place, N + BEFORE + BEHIND) {
            filter(dst, self.stride, &plane[at..], self.stride, place.across, place.down);
        } else {
            self.predict_gathered::<N>(plane, dst, place, filter);
        }
    }

    /// Predicts `N`×`N` samples of two planes.
    fn predict_two<const N: usize>(
        &self,
        planes: [&[u8]; 2],
        dst: [&mut [u8]; 2],
        place: BlockPosition,
        (copy, filter): (Copy, SubPelTwo),
    ) {
        if place.is_whole() {
            for (plane, dst) in planes.into_iter().zip(dst) {
                self.copy::<N>(plane, dst, place, copy);
            }
            return;
        }
        let place = place.with_context();
        if let Some(at) = self.inside(place, N + BEFORE + BEHIND) {
            let src = planes.map(|plane| &plane[at..]);
            filter(dst, self.stride, src, self.stride, place.across, place.down);
        } else {
            self.predict_two_gathered::<N>(planes, dst, place, filter);
        }
    }

    // Those that gather stand apart: their samples would make the others' stack frames large.

    #[cold]
    #[inline(never)]
    fn predict_gathered<const N: usize>(
        &self,
        plane: &[u8],
        dst: &mut [u8],
        place: BlockPosition,
        filter: SubPel,
    ) {
        let mut gathered = [0; GATHERED * GATHERED_STRIDE];
        self.gather(&mut gathered, plane, place, N + BEFORE + BEHIND);
        filter(dst, self.stride, &gathered, GATHERED_STRIDE, place.across, place.down);
    }

    #[cold]
    #[inline(never)]
    fn predict_two_gathered<const N: usize>(
        &self,
        planes: [&[u8]; 2],
        dst: [&mut [u8]; 2],
        place: BlockPosition,
        filter: SubPelTwo,
    ) {
        let mut gathered = [[0; GATHERED * GATHERED_STRIDE]; 2];
        for (gathered, plane) in gathered.iter_mut().zip(planes) {
            self.gather(gathered, plane, place, N + BEFORE + BEHIND);
        }
        let src = [&gathered[0][..], &gathered[1]];
        filter(dst, self.stride, src, GATHERED_STRIDE, place.across, place.down);
    }

    #[cold]
    #[inline(never)]
    fn copy_gathered<const N: usize>(&self, plane: &[u8], dst: &mut [u8], place: BlockPosition) {
        let mut gathered = [0; GATHERED * GATHERED_STRIDE];
        self.gather(&mut gathered, plane, place, N);
        copy::<N>(dst, self.stride, &gathered, GATHERED_STRIDE);
    }

    fn copy<const N: usize>(&self, plane: &[u8], dst: &mut [u8], place: BlockPosition, copy: Copy) {
        if let Some(at) = self.inside(place, N) {
            copy(dst, self.stride, &plane[at..], self.stride);
        } else {
            self.copy_gathered::<N>(plane, dst, place);
        }
    }

    /// Gathers `side`×`side` samples, wherever they are.
    fn gather(&self, out: &mut Gathered, plane: &[u8], place: BlockPosition, side: usize) {
        let width = self.width as usize;
        // How many samples of a line lie beyond the left edge, and how many before the right one ends.
        let left = (-place.x).clamp(0, side as i32) as usize;
        let right = (self.width - place.x).clamp(left as i32, side as i32) as usize;
        let from = (place.x.max(0) as usize).min(width);
        for (line, out) in out.chunks_mut(GATHERED_STRIDE).take(side).enumerate() {
            let y = (place.y + line as i32).clamp(0, self.height - 1) as usize;
            let src = &plane[y * self.stride..][..width];
            out[..left].fill(src[0]);
            out[left..right].copy_from_slice(&src[from..from + right - left]);
            out[right..side].fill(src[width - 1]);
        }
    }
}

/// Copies `N`×`N` samples.
#[inline(always)]
pub(crate) fn copy<const N: usize>(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize) {
    for line in 0..N {
        dst[line * dst_stride..][..N].copy_from_slice(&src[line * src_stride..][..N]);
    }
}

/// Predicts a macroblock from `reference` into the planes of the frame in the making, which has the same geometry.
/// `place` is its column and row, `at` where its samples begin in the planes of luma and chroma. Luma that is predicted
/// already stays where the macroblock has one vector, and `has_luma` says so.
pub(crate) fn macroblock(
    planes: &mut [&mut [u8]; 3],
    geometry: &Geometry,
    reference: &Frame,
    macroblock: &Macroblock,
    ((column, row), at): ((usize, usize), [usize; 2]),
    (kernels, version): (&Kernels, u8),
    has_luma: bool,
) {
    let (one, two) = if version == 0 {
        (&kernels.six_tap, &kernels.six_tap_two)
    } else {
        (&kernels.bilinear, &kernels.bilinear_two)
    };
    let full_pixel = version == 3;
    let shape = |index: usize| {
        let (width, height, stride) = geometry.plane(index);
        Planes { stride, width: width as i32, height: height as i32 }
    };
    let whole = &kernels.copy;
    let (luma, chroma) = (shape(0), shape(1));
    let luma_place = |at, vector: Vector| {
        BlockPosition::new(at, (2 * i32::from(vector.column()), 2 * i32::from(vector.row())))
    };
    let chroma_place =
        |at, vector: Vector| BlockPosition::new(at, (i32::from(vector.column()), i32::from(vector.row())));
    let [y_plane, u_plane, v_plane] = planes;
    let references = [reference.plane(1), reference.plane(2)];
    let (x, y) = (16 * column, 16 * row);
    if macroblock.mode != Mode::Split {
        if !has_luma {
            let dst = &mut y_plane[at[0]..];
            luma.predict::<16>(
                reference.plane(0),
                dst,
                luma_place((x, y), macroblock.vector),
                (whole[0], one[0]),
            );
        }
        let vector = chroma_vector([macroblock.vector; 4], full_pixel);
        let dst = [&mut u_plane[at[1]..], &mut v_plane[at[1]..]];
        chroma.predict_two::<8>(references, dst, chroma_place((x / 2, y / 2), vector), (whole[1], two[0]));
        return;
    }
    for (block, &vector) in macroblock.vectors.iter().enumerate() {
        let (across, down) = (block % 4 * 4, block / 4 * 4);
        let place = luma_place((x + across, y + down), vector);
        let dst = &mut y_plane[at[0] + down * luma.stride + across..];
        if macroblock.split == Split::Sixteenths {
            luma.predict::<4>(reference.plane(0), dst, place, (whole[2], one[2]));
        } else if [0, 2, 8, 10].contains(&block) {
            luma.predict::<8>(reference.plane(0), dst, place, (whole[1], one[1]));
        }
    }
    for block in [0, 2, 8, 10] {
        let vectors = [0, 1, 4, 5].map(|at| macroblock.vectors[block + at]);
        let vector = chroma_vector(vectors, full_pixel);
        let (across, down) = (block % 4 * 2, block / 4 * 2);
        let place = chroma_place((x / 2 + across, y / 2 + down), vector);
        let at = at[1] + down * chroma.stride + across;
        let dst = [&mut u_plane[at..], &mut v_plane[at..]];
        chroma.predict_two::<4>(references, dst, place, (whole[2], two[1]));
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
        let planes = Planes { stride: 64, width: 64, height: 64 };
        let predict = |place: BlockPosition| {
            let mut out = vec![0; 16 * 64];
            planes.predict::<16>(&plane, &mut out, place, (copy::<16>, six_tap::<16>));
            out[15 * 64..][..16].to_vec()
        };
        assert_eq!(predict(BlockPosition::new((16, 16), (8 * -5000, 8 * 5000))), [63; 16]);
        assert_eq!(predict(BlockPosition::new((16, 16), (8 * 5000 + 3, 8 * -5000 + 3))), [63; 16]);
        // Whole samples over the corner at the bottom right, and over the one at the top left.
        let corner = predict(BlockPosition::new((60, 60), (8, 8)));
        assert_eq!(corner[..5], [124, 125, 126, 126, 126]);
        let corner = predict(BlockPosition::new((0, 0), (8 * -10, 8 * -15)));
        assert_eq!(corner[8..13], [0, 0, 0, 1, 2]);
    }
}
