//! Prediction from the macroblock's own picture, before it is filtered (RFC 6386 §12).
//!
//! Beyond the picture's left edge all samples are 129, above it 127, and so is the corner of the first row.

use crate::vp8::macroblock::{BMode, Mode};

/// Samples of the column to the left of the picture.
pub(crate) const LEFT: u8 = 129;
/// Samples of the line above the picture.
pub(crate) const ABOVE: u8 = 127;

/// What lies around a square block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges<'a> {
    /// The line above, as long as the block is wide.
    pub(crate) above: &'a [u8],
    /// The column to the left.
    pub(crate) left: &'a [u8],
    /// The sample above the column and left of the line.
    pub(crate) corner: u8,
    /// Whether the line above lies in the picture.
    pub(crate) has_above: bool,
    /// Whether the column to the left does.
    pub(crate) has_left: bool,
}

/// Predicts a block of `N`×`N` samples: 16 for luma, 8 for chroma. `dst` begins at its first sample.
#[inline(always)]
pub(crate) fn square<const N: usize>(mode: Mode, dst: &mut [u8], stride: usize, edges: &Edges<'_>) {
    let (Some(above), Some(left)) = (edges.above.first_chunk::<N>(), edges.left.first_chunk::<N>()) else {
        return;
    };
    let lines = dst.chunks_mut(stride).take(N).filter_map(|line| line.first_chunk_mut::<N>());
    match mode {
        Mode::Vertical => lines.for_each(|line| *line = *above),
        Mode::Horizontal => lines.zip(left).for_each(|(line, &sample)| *line = [sample; N]),
        Mode::TrueMotion => {
            for (line, &sample) in lines.zip(left) {
                let base = i16::from(sample) - i16::from(edges.corner);
                for (out, &above) in line.iter_mut().zip(above) {
                    *out = (base + i16::from(above)).clamp(0, 255) as u8;
                }
            }
        }
        _ => {
            let mean = dc(edges, N);
            lines.for_each(|line| *line = [mean; N]);
        }
    }
}

/// The mean of the samples above and to the left, as far as they lie in the picture.
#[inline(always)]
pub(crate) fn dc(edges: &Edges<'_>, side: usize) -> u8 {
    let sum = |samples: &[u8]| samples[..side].iter().map(|&sample| u32::from(sample)).sum::<u32>();
    let (total, count) = match (edges.has_above, edges.has_left) {
        (true, true) => (sum(edges.above) + sum(edges.left), 2 * side),
        (true, false) => (sum(edges.above), side),
        (false, true) => (sum(edges.left), side),
        (false, false) => return 128,
    };
    ((total + count as u32 / 2) / count as u32) as u8
}

/// What lies around a subblock of 4×4, from the bottom of the column to the left, over the corner, to the end of the
/// line above and to the right: 4 + 1 + 8 samples.
pub(crate) type SubblockEdges = [u8; 13];

/// Predicts a subblock of 4×4 samples.
pub(crate) fn subblock(mode: BMode, dst: &mut [u8], stride: usize, edges: &SubblockEdges) {
    let e = |at: usize| u32::from(edges[at]);
    let two = |at: usize| ((e(at) + e(at + 1) + 1) >> 1) as u8;
    let three = |at: usize| ((e(at - 1) + 2 * e(at) + e(at + 1) + 2) >> 2) as u8;
    let block: [[u8; 4]; 4] = match mode {
        BMode::Dc => {
            let sum: u32 = (0..4).map(|at| e(at) + e(at + 5)).sum();
            [[((sum + 4) >> 3) as u8; 4]; 4]
        }
        BMode::TrueMotion => [0, 1, 2, 3].map(|y| {
            let base = i16::from(edges[3 - y]) - i16::from(edges[4]);
            [0, 1, 2, 3].map(|x| (base + i16::from(edges[5 + x])).clamp(0, 255) as u8)
        }),
        BMode::Vertical => [[three(5), three(6), three(7), three(8)]; 4],
        BMode::Horizontal => {
            let last = ((e(1) + 3 * e(0) + 2) >> 2) as u8;
            [[three(3); 4], [three(2); 4], [three(1); 4], [last; 4]]
        }
        BMode::LeftDown => {
            let last = ((e(11) + 3 * e(12) + 2) >> 2) as u8;
            [0, 1, 2, 3].map(|y| [0, 1, 2, 3].map(|x| if x + y == 6 { last } else { three(6 + x + y) }))
        }
        BMode::RightDown => [0, 1, 2, 3].map(|y| [0, 1, 2, 3].map(|x| three(4 + x - y))),
        BMode::VerticalRight => [
            [two(4), two(5), two(6), two(7)],
            [three(4), three(5), three(6), three(7)],
            [three(3), two(4), two(5), two(6)],
            [three(2), three(4), three(5), three(6)],
        ],
        BMode::VerticalLeft => [
            [two(5), two(6), two(7), two(8)],
            [three(6), three(7), three(8), three(9)],
            [two(6), two(7), two(8), three(10)],
            [three(7), three(8), three(9), three(11)],
        ],
        BMode::HorizontalDown => [
            [two(3), three(4), three(5), three(6)],
            [two(2), three(3), two(3), three(4)],
            [two(1), three(2), two(2), three(3)],
            [two(0), three(1), two(1), three(2)],
        ],
        BMode::HorizontalUp => {
            let (bottom, near) = (edges[0], ((e(1) + 3 * e(0) + 2) >> 2) as u8);
            [
                [two(2), three(2), two(1), three(1)],
                [two(1), three(1), two(0), near],
                [two(0), near, bottom, bottom],
                [bottom; 4],
            ]
        }
    };
    for (line, samples) in dst.chunks_mut(stride).zip(block) {
        line[..4].copy_from_slice(&samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_surroundings_give_flat_blocks() {
        use BMode::*;
        for mode in [
            Dc,
            TrueMotion,
            Vertical,
            Horizontal,
            LeftDown,
            RightDown,
            VerticalRight,
            VerticalLeft,
            HorizontalDown,
            HorizontalUp,
        ] {
            let mut out = [0; 16];
            subblock(mode, &mut out, 4, &[77; 13]);
            assert_eq!(out, [77; 16], "{mode:?}");
        }
    }

    #[test]
    fn dc_takes_what_lies_in_the_picture() {
        let dc = |has_above, has_left| {
            let edges = Edges { above: &[10; 8], left: &[20; 8], corner: 0, has_above, has_left };
            let mut out = [0; 64];
            square::<8>(Mode::Dc, &mut out, 8, &edges);
            out[63]
        };
        assert_eq!([dc(true, true), dc(true, false), dc(false, true), dc(false, false)], [15, 10, 20, 128]);
    }

    #[test]
    fn true_motion_carries_gradients_on() {
        let above: [u8; 16] = std::array::from_fn(|x| 100 + x as u8);
        let left: [u8; 16] = std::array::from_fn(|y| 250 + y as u8 / 4);
        let edges = Edges { above: &above, left: &left, corner: 100, has_above: true, has_left: true };
        let mut out = [0; 256];
        square::<16>(Mode::TrueMotion, &mut out, 16, &edges);
        assert_eq!(out[..8], [250, 251, 252, 253, 254, 255, 255, 255]);
    }
}
