//! How far a block is from its prediction: the scalar reference of the encoder's kernels in `simd`.
//!
//! A block is given by a slice that begins at its first sample, and its stride: the bytes from a line to the next.
//! The encoder's search and mode decision call these, through [`EncodeKernels`](super::simd::EncodeKernels).

use super::modes::{B_MODES, SQUARE_MODES};
use super::predict::intra::{self, Edges, SubblockEdges};

/// The shapes of block that motion is searched for; as a number, the place of a shape's kernel in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 16×16.
    Whole,
    /// 16 across, 8 down.
    Wide,
    /// 8 across, 16 down.
    Tall,
    /// 8×8.
    Quarter,
    /// 4×4.
    Subblock,
}

impl Shape {
    /// All of them, in the order of arrays of kernels.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) const ALL: [Shape; 5] =
        [Shape::Whole, Shape::Wide, Shape::Tall, Shape::Quarter, Shape::Subblock];

    /// Samples across.
    pub(crate) const fn width(self) -> usize {
        match self {
            Shape::Whole | Shape::Wide => 16,
            Shape::Tall | Shape::Quarter => 8,
            Shape::Subblock => 4,
        }
    }

    /// Lines.
    pub(crate) const fn height(self) -> usize {
        match self {
            Shape::Whole | Shape::Tall => 16,
            Shape::Wide | Shape::Quarter => 8,
            Shape::Subblock => 4,
        }
    }
}

/// The differences of two blocks, line by line.
fn differences<const W: usize, const H: usize>(
    (a, a_stride): (&[u8], usize),
    (b, b_stride): (&[u8], usize),
) -> impl Iterator<Item = i32> {
    (0..H).flat_map(move |y| {
        let (a, b) = (&a[y * a_stride..][..W], &b[y * b_stride..][..W]);
        a.iter().zip(b).map(|(&a, &b)| i32::from(a) - i32::from(b))
    })
}

/// Sum of absolute differences.
pub(crate) fn sad<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
) -> u32 {
    differences::<W, H>((src, src_stride), (reference, reference_stride)).map(i32::unsigned_abs).sum()
}

/// [`sad`] against four places in a reference, each given by the index of its first sample.
pub(crate) fn sad_four<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    places: [usize; 4],
) -> [u32; 4] {
    places.map(|at| sad::<W, H>(src, src_stride, &reference[at..], reference_stride))
}

/// One dimension of the Hadamard transform.
fn hadamard(input: [i32; 4]) -> [i32; 4] {
    let (a, b) = (input[0] + input[1], input[0] - input[1]);
    let (c, d) = (input[2] + input[3], input[2] - input[3]);
    [a + c, b + d, a - c, b - d]
}

fn satd_of_subblock(src: &[u8], src_stride: usize, reference: &[u8], reference_stride: usize) -> u32 {
    let mut lines = [[0; 4]; 4];
    for (y, line) in lines.iter_mut().enumerate() {
        let (a, b) = (&src[y * src_stride..][..4], &reference[y * reference_stride..][..4]);
        *line = hadamard(std::array::from_fn(|x| i32::from(a[x]) - i32::from(b[x])));
    }
    let columns = (0..4).map(|x| hadamard(lines.map(|line| line[x])));
    // All 16 are even or all are odd, so their sum is even.
    columns.flatten().map(i32::unsigned_abs).sum::<u32>() / 2
}

/// Sum of absolute transformed differences: of 4×4 Hadamard transforms, halved.
pub(crate) fn satd<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
) -> u32 {
    let subblocks = (0..H / 4).flat_map(|y| (0..W / 4).map(move |x| (4 * x, 4 * y)));
    subblocks
        .map(|(x, y)| {
            let (src, reference) = (&src[y * src_stride + x..], &reference[y * reference_stride + x..]);
            satd_of_subblock(src, src_stride, reference, reference_stride)
        })
        .sum()
}

/// SATD of a square block of `N`×`N` samples (16 or 8) against its prediction by each of [`SQUARE_MODES`].
pub(crate) fn square_costs<const N: usize>(src: &[u8], stride: usize, edges: &Edges<'_>) -> [u32; 4] {
    SQUARE_MODES.map(|mode| {
        let mut prediction = [0; 256];
        intra::square::<N>(mode, &mut prediction, N, edges);
        satd::<N, N>(src, stride, &prediction, N)
    })
}

/// SATD of a subblock of 4×4 samples against its prediction by each of [`B_MODES`].
pub(crate) fn subblock_costs(src: &[u8], stride: usize, edges: &SubblockEdges) -> [u32; 10] {
    B_MODES.map(|mode| {
        let mut prediction = [0; 16];
        intra::subblock(mode, &mut prediction, 4, edges);
        satd::<4, 4>(src, stride, &prediction, 4)
    })
}

/// A sample between two, `eighths` of the way.
fn between(a: u8, b: u8, eighths: usize) -> u8 {
    ((usize::from(a) * (8 - eighths) + usize::from(b) * eighths + 4) >> 3) as u8
}

/// A block between whole samples by two taps across, then down, `x` and `y` eighths of a sample (below 8) beyond
/// the first one. It looks at one line and one column behind the block, whether it needs them or not.
fn interpolated<const W: usize, const H: usize>(
    reference: &[u8],
    stride: usize,
    x: usize,
    y: usize,
) -> [[u8; W]; H] {
    let line = |row: usize| -> [u8; W] {
        let line = &reference[row * stride..][..W + 1];
        std::array::from_fn(|at| between(line[at], line[at + 1], x))
    };
    std::array::from_fn(|row| {
        let (upper, lower) = (line(row), line(row + 1));
        std::array::from_fn(|at| between(upper[at], lower[at], y))
    })
}

/// [`sad`] against a reference between whole samples, `x` and `y` eighths of a sample (below 8) beyond its first
/// one, by two taps: for a search, not what is predicted in the end. The reference is to hold a line and a column
/// more than the block.
pub(crate) fn sub_pel_sad<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    x: usize,
    y: usize,
) -> u32 {
    let prediction = interpolated::<W, H>(reference, reference_stride, x, y);
    sad::<W, H>(src, src_stride, prediction.as_flattened(), W)
}

/// [`satd`] in the manner of [`sub_pel_sad`].
pub(crate) fn sub_pel_satd<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    x: usize,
    y: usize,
) -> u32 {
    let prediction = interpolated::<W, H>(reference, reference_stride, x, y);
    satd::<W, H>(src, src_stride, prediction.as_flattened(), W)
}

/// Sum of squared errors of `width`×`height` samples, of any size.
pub(crate) fn plane_sse(
    (a, a_stride): (&[u8], usize),
    (b, b_stride): (&[u8], usize),
    width: usize,
    height: usize,
) -> u64 {
    let lines = (0..height).map(|y| (&a[y * a_stride..][..width], &b[y * b_stride..][..width]));
    lines.map(|(a, b)| a.iter().zip(b).map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2)).sum::<u64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::macroblock::Mode;
    use super::*;

    #[test]
    fn distances_of_known_blocks() {
        let (a, mut b) = ([100; 256], [103; 256]);
        assert_eq!(sad::<16, 16>(&a, 16, &b, 16), 768);
        // A constant is one coefficient a subblock: 16 · 3, halved.
        assert_eq!(satd::<16, 16>(&a, 16, &b, 16), 16 * 24);
        b = a;
        b[17] = 110;
        // An impulse spreads over all coefficients.
        assert_eq!(satd::<4, 4>(&a, 16, &b, 16), 80);
        assert_eq!(sad_four::<4, 4>(&a, 16, &b, 16, [0, 1, 17, 18]), [10, 10, 10, 0]);
    }

    #[test]
    fn the_right_mode_costs_nothing() {
        let above: [u8; 16] = std::array::from_fn(|x| 10 * x as u8);
        let left = [20; 16];
        let edges = Edges { above: &above, left: &left, corner: 20, has_above: true, has_left: true };
        let src: Vec<u8> = (0..256).map(|at| above[at % 16]).collect();
        let costs = square_costs::<16>(&src, 16, &edges);
        assert_eq!(SQUARE_MODES[1], Mode::Vertical);
        assert_eq!((costs[1], costs[3]), (0, 0));
        assert!(costs[0] > 0 && costs[2] > 0);
        let around = [1, 2, 3, 4, 50, 5, 6, 7, 8, 9, 10, 11, 12];
        for (at, mode) in B_MODES.into_iter().enumerate() {
            let mut block = [0; 16];
            intra::subblock(mode, &mut block, 4, &around);
            assert_eq!(subblock_costs(&block, 4, &around)[at], 0, "{mode:?}");
        }
    }

    #[test]
    fn between_samples_lies_what_two_taps_give() {
        let reference: Vec<u8> = (0..17 * 17).map(|at| (8 * (at % 17)) as u8).collect();
        let src: Vec<u8> = (0..256).map(|at| (8 * (at % 16) + 3) as u8).collect();
        assert_eq!(sub_pel_sad::<16, 16>(&src, 16, &reference, 17, 3, 5), 0);
        assert_eq!(sub_pel_satd::<16, 16>(&src, 16, &reference, 17, 2, 0), 128);
    }

    #[test]
    fn planes_are_compared() {
        let src: Vec<u8> = (0..12).collect();
        assert_eq!(plane_sse((&src, 6), (&src[1..], 6), 5, 2), 10);
    }
}
