//! Motion vectors: what the neighbours suggest, and how a vector is read (RFC 6386 §16.3, §16.4 and §17).

use super::bool_coder::BoolDecoder;
use super::macroblock::{Macroblock, Mode, Reference, Split};
use super::tables::modes::{SPLIT, SUB_VECTOR};
use super::vector::Vector;

/// How far vectors that are taken from neighbours may point, in quarter samples: one macroblock beyond the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Bounds {
    /// The bounds at a macroblock's place in a picture of `columns` × `rows` macroblocks.
    pub(crate) fn new(column: usize, row: usize, columns: usize, rows: usize) -> Bounds {
        let reach = |macroblocks: usize| 64 * (macroblocks as i32 + 1);
        Bounds {
            left: -reach(column),
            right: reach(columns - 1 - column),
            top: -reach(row),
            bottom: reach(rows - 1 - row),
        }
    }

    fn clamp(&self, vector: Vector) -> Vector {
        // Clamping moves a value of 16 bits towards zero, so it still fits.
        Vector::new(
            i32::from(vector.row()).clamp(self.top, self.bottom) as i16,
            i32::from(vector.column()).clamp(self.left, self.right) as i16,
        )
    }
}

/// What the neighbours suggest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suggested {
    /// Rows of [`MODE_CONTEXTS`](super::tables::modes::MODE_CONTEXTS) for: zero or not, nearest or not, near or not,
    /// split or not.
    pub(crate) contexts: [usize; 4],
    nearest: Vector,
    near: Vector,
    best: Vector,
}

impl Suggested {
    /// Looks at the macroblocks above, to the left, and above to the left of one that is predicted from `reference`.
    #[inline(always)]
    pub(crate) fn new(
        current: Reference,
        above: &Macroblock,
        left: &Macroblock,
        above_left: &Macroblock,
        sign_bias: [bool; 2],
    ) -> Suggested {
        let mut vectors = [Vector::ZERO; 4];
        let mut counts = [0usize; 4];
        let mut latest = 0;
        for (neighbour, weight) in [(above, 2), (left, 2), (above_left, 1)] {
            if !neighbour.reference.is_inter() {
                continue;
            }
            if neighbour.vector == Vector::ZERO {
                counts[0] += weight;
                continue;
            }
            let opposed = neighbour.reference.bias(sign_bias) != current.bias(sign_bias);
            let vector = if opposed { neighbour.vector.inverted() } else { neighbour.vector };
            if latest == 0 || vector != vectors[latest] {
                latest += 1;
                vectors[latest] = vector;
            }
            counts[latest] += weight;
        }
        // Three vectors, of which the last is the first again.
        if counts[3] > 0 && vectors[3] == vectors[1] {
            counts[1] += 1;
        }
        if counts[2] > counts[1] {
            counts.swap(1, 2);
            vectors.swap(1, 2);
        }
        let best = if counts[1] >= counts[0] { vectors[1] } else { Vector::ZERO };
        let is_split = |macroblock: &Macroblock| usize::from(macroblock.mode == Mode::Split);
        counts[3] = 2 * (is_split(above) + is_split(left)) + is_split(above_left);
        Suggested { contexts: counts, nearest: vectors[1], near: vectors[2], best }
    }

    pub(crate) fn nearest(&self, bounds: &Bounds) -> Vector {
        bounds.clamp(self.nearest)
    }

    pub(crate) fn near(&self, bounds: &Bounds) -> Vector {
        bounds.clamp(self.near)
    }

    /// What new vectors are differences to.
    pub(crate) fn best(&self, bounds: &Bounds) -> Vector {
        bounds.clamp(self.best)
    }
}

/// The tree of short components (§17.2).
pub(crate) const SHORT_TREE: [i8; 14] = [2, 8, 4, 6, 0, -1, -2, -3, 10, 12, -4, -5, -6, -7];

#[inline(always)]
fn component(decoder: &mut BoolDecoder<'_>, probs: &[u8; 19]) -> i16 {
    let mut value = 0;
    if decoder.bool(probs[0]) {
        let long = &probs[9..];
        for bit in [0, 1, 2, 9, 8, 7, 6, 5, 4] {
            value |= i16::from(decoder.bool(long[bit])) << bit;
        }
        // A long component is at least 8, so bit 3 goes without saying where no higher one is set.
        if value & 0xfff0u16 as i16 == 0 || decoder.bool(long[3]) {
            value |= 8;
        }
    } else {
        value = i16::from(decoder.tree(&SHORT_TREE, &probs[2..9]));
    }
    if value != 0 && decoder.bool(probs[1]) { -value } else { value }
}

/// A vector as the difference to `best`.
pub(crate) fn new_vector(decoder: &mut BoolDecoder<'_>, probs: &[[u8; 19]; 2], best: Vector) -> Vector {
    let row = component(decoder, &probs[0]);
    let column = component(decoder, &probs[1]);
    best.plus(row, column)
}

/// The pieces of a split macroblock, and their vectors into `macroblock`.
pub(crate) fn split(
    decoder: &mut BoolDecoder<'_>,
    probs: &[[u8; 19]; 2],
    macroblock: &mut Macroblock,
    above: &Macroblock,
    left: &Macroblock,
    best: Vector,
) {
    let split = if !decoder.bool(SPLIT[0]) {
        Split::Sixteenths
    } else if !decoder.bool(SPLIT[1]) {
        Split::Quarters
    } else if decoder.bool(SPLIT[2]) {
        Split::LeftRight
    } else {
        Split::TopBottom
    };
    macroblock.split = split;
    for &first in split.first_blocks() {
        let first = usize::from(first);
        let to_left =
            if first % 4 == 0 { left.block_vector(first + 3) } else { macroblock.vectors[first - 1] };
        let on_top = if first < 4 { above.block_vector(first + 12) } else { macroblock.vectors[first - 4] };
        let probabilities = &SUB_VECTOR[sub_context(to_left, on_top)];
        let vector = if !decoder.bool(probabilities[0]) {
            to_left
        } else if !decoder.bool(probabilities[1]) {
            on_top
        } else if !decoder.bool(probabilities[2]) {
            Vector::ZERO
        } else {
            new_vector(decoder, probs, best)
        };
        // At once, since the next piece looks at it.
        let (width, height) = split.blocks();
        for y in 0..height {
            macroblock.vectors[first + 4 * y..][..width].fill(vector);
        }
    }
    macroblock.vector = macroblock.vectors[15];
}

/// The row of [`SUB_VECTOR`] for a piece with these vectors to its left and above it.
pub(crate) fn sub_context(left: Vector, above: Vector) -> usize {
    match (left == above, left == Vector::ZERO, above == Vector::ZERO) {
        (true, true, _) => 4,
        (true, false, _) => 3,
        (_, _, true) => 2,
        (_, true, _) => 1,
        _ => 0,
    }
}

/// The vector of a chroma block of 4×4: the mean of its four luma blocks' vectors, halves away from zero; whole
/// samples where `full_pixel`.
pub(crate) fn chroma_vector(vectors: [Vector; 4], full_pixel: bool) -> Vector {
    let mean = |component: fn(Vector) -> i16| {
        let sum: i32 = vectors.iter().map(|&vector| i32::from(component(vector))).sum();
        ((sum + 2 * sum.signum()) / 4) as i16
    };
    let (row, column) = (mean(Vector::row), mean(Vector::column));
    if full_pixel { Vector::new(row & !7, column & !7) } else { Vector::new(row, column) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vp8::macroblock::Reference;

    fn inter(row: i16, column: i16) -> Macroblock {
        Macroblock {
            reference: Reference::Last,
            mode: Mode::New,
            vector: Vector::new(row, column),
            ..Macroblock::OUTSIDE
        }
    }

    #[test]
    fn neighbours_that_agree_weigh_together() {
        let (a, b) = (inter(4, 8), inter(-3, 0));
        let near = Suggested::new(Reference::Last, &a, &a, &b, [false; 2]);
        assert_eq!(near.contexts, [0, 4, 1, 0]);
        assert_eq!((near.nearest, near.near, near.best), (a.vector, b.vector, a.vector));
        // The one above to the left counts for the first one when all three are told apart by order alone.
        let near = Suggested::new(Reference::Last, &a, &b, &a, [false; 2]);
        assert_eq!(near.contexts, [0, 3, 2, 0]);
        // The heavier one becomes the nearest.
        let near = Suggested::new(Reference::Last, &Macroblock::OUTSIDE, &a, &b, [false; 2]);
        assert_eq!((near.contexts, near.nearest), ([0, 2, 1, 0], a.vector));
    }

    #[test]
    fn a_vector_into_a_mirrored_reference_is_turned_round() {
        let golden = Macroblock { reference: Reference::Golden, ..inter(4, -8) };
        let near = Suggested::new(Reference::Last, &golden, &inter(-4, 8), &golden, [true, false]);
        assert_eq!(near.contexts[1], 5);
        assert_eq!(near.nearest, Vector::new(-4, 8));
    }

    #[test]
    fn suggested_vectors_stay_within_a_macroblock_of_the_picture() {
        let bounds = Bounds::new(1, 0, 3, 2);
        assert_eq!(bounds.clamp(Vector::new(-1000, -1000)), Vector::new(-64, -128));
        assert_eq!(bounds.clamp(Vector::new(1000, 1000)), Vector::new(128, 128));
    }

    #[test]
    fn chroma_vectors_are_rounded_away_from_zero() {
        let all = |value| [Vector::new(value, -value); 4];
        assert_eq!(chroma_vector(all(3), false), Vector::new(3, -3));
        assert_eq!(chroma_vector(all(13), true), Vector::new(8, -16));
        let mut mixed = all(0);
        mixed[0] = Vector::new(2, -2);
        assert_eq!(chroma_vector(mixed, false), Vector::new(1, -1));
    }
}
