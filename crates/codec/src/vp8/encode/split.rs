//! Macroblocks in pieces with vectors of their own (RFC 6386 §16.3, SPLITMV).

use super::motion_search::{Found, Search};
use super::rate::{self, ModeCosts};
use super::reference::ReferencePlane;
use super::speed::Tools;
use super::write::split_cost;
use crate::vp8::macroblock::{Macroblock, Mode, Reference, Split};
use crate::vp8::measure::Shape;
use crate::vp8::motion::sub_context;
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::tables::modes::SUB_VECTOR;
use crate::vp8::vector::Vector;

/// What cutting a macroblock depends on.
pub(crate) struct Cutter<'a> {
    pub(crate) kernels: &'static Kernels,
    pub(crate) encode_kernels: &'static EncodeKernels,
    pub(crate) tools: &'a Tools,
    pub(crate) source: (&'a [u8], usize),
    pub(crate) luma: ReferencePlane<'a>,
    pub(crate) reference: Reference,
    /// The macroblock's first sample.
    pub(crate) place: (i32, i32),
    /// How far its vectors may point, in samples.
    pub(crate) limits: [i32; 4],
    pub(crate) costs: &'a ModeCosts,
    pub(crate) best: Vector,
    pub(crate) price: u32,
    pub(crate) above: &'a Macroblock,
    pub(crate) left: &'a Macroblock,
}

/// The shape of the pieces.
fn shape(split: Split) -> Shape {
    match split {
        Split::TopBottom => Shape::Wide,
        Split::LeftRight => Shape::Tall,
        Split::Quarters => Shape::Quarter,
        Split::Sixteenths => Shape::Subblock,
    }
}

impl Cutter<'_> {
    /// Cuts a macroblock that is best predicted by `whole` in one piece; gives it with its cost (without that of
    /// the mode itself) and its distance, unless its pieces' vectors alone cost more than `limit`.
    pub(crate) fn cut(
        &self,
        split: Split,
        starts: &[Vector; 16],
        limit: u32,
    ) -> Option<(Macroblock, u32, u32)> {
        let mut macroblock =
            Macroblock { mode: Mode::Split, reference: self.reference, split, ..Macroblock::OUTSIDE };
        let mut total = 0;
        for &first in split.first_blocks() {
            let first = usize::from(first);
            let found = self.piece(&macroblock, first, starts[first]);
            total += found.cost;
            if total >= limit {
                return None;
            }
            let (width, height) = split.blocks();
            for y in 0..height {
                macroblock.vectors[first + 4 * y..][..width].fill(found.vector);
            }
        }
        macroblock.vector = macroblock.vectors[15];
        let bits = split_cost(&macroblock, (self.above, self.left), self.best, self.costs);
        let distance = self.distance(&macroblock);
        Some((macroblock, distance + ((bits * self.price) >> 12), distance))
    }

    /// Finds the vector of one piece.
    fn piece(&self, macroblock: &Macroblock, first: usize, start: Vector) -> Found {
        let split = macroblock.split;
        let to_left = if first.is_multiple_of(4) {
            self.left.block_vector(first + 3)
        } else {
            macroblock.vectors[first - 1]
        };
        let on_top =
            if first < 4 { self.above.block_vector(first + 12) } else { macroblock.vectors[first - 4] };
        let (x, y) = (4 * (first % 4), 4 * (first / 4));
        let search = Search {
            kernels: self.encode_kernels,
            tools: self.tools,
            shape: shape(split),
            source: (&self.source.0[y * self.source.1 + x..], self.source.1),
            luma: self.luma,
            place: (self.place.0 + x as i32, self.place.1 + y as i32),
            limits: self.limits,
            costs: self.costs,
            best: self.best,
            price: self.price,
            first_step: 1,
        };
        let probs = &SUB_VECTOR[sub_context(to_left, on_top)];
        let price = |kind: usize| {
            let bits: rate::Cost = (0..3.min(kind + 1)).map(|at| rate::bit(at < kind, probs[at])).sum();
            (bits * self.price) >> 12
        };
        let (found, around) = search.whole_samples(&[start, to_left, on_top]);
        let mut best = search.quarter_samples(found, around);
        best.cost = best.cost.saturating_add(price(3));
        for (kind, vector) in [(0, to_left), (1, on_top), (2, Vector::ZERO)] {
            if let Some(distance) = search.exactly(vector) {
                let cost = distance + price(kind);
                if cost < best.cost {
                    best = Found { vector, distance, cost };
                }
            }
        }
        best
    }

    /// How far the source is from what the pieces predict.
    fn distance(&self, macroblock: &Macroblock) -> u32 {
        let mut prediction = [0; 256];
        let side = if macroblock.split == Split::Sixteenths { 4 } else { 8 };
        for y in (0..16).step_by(side) {
            for x in (0..16).step_by(side) {
                let vector = macroblock.vectors[y / 4 * 4 + x / 4];
                let place = (self.place.0 + x as i32, self.place.1 + y as i32);
                let dst = (&mut prediction[16 * y + x..], 16);
                self.luma.predict(self.kernels, side, place, vector, dst);
            }
        }
        (self.encode_kernels.satd[Shape::Whole as usize])(self.source.0, self.source.1, &prediction, 16)
    }
}
