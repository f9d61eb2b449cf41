//! Motion search of one block: whole samples by SAD from predicted places on, then between samples.

use super::rate::{Cost, MAX_COMPONENT, ModeCosts};
use super::reference::ReferencePlane;
use super::speed::Tools;
use crate::vp8::measure::Shape;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::vector::Vector;

/// A vector, how far the block that it points to is from the source, and the same with the price of its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) vector: Vector,
    pub(crate) distance: u32,
    pub(crate) cost: u32,
}

/// The search for one block.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) kernels: &'static EncodeKernels,
    pub(crate) tools: &'a Tools,
    pub(crate) shape: Shape,
    pub(crate) source: (&'a [u8], usize),
    pub(crate) luma: ReferencePlane<'a>,
    /// The block's place.
    pub(crate) place: (i32, i32),
    /// How far whole samples may go: left, right, up, down.
    pub(crate) limits: [i32; 4],
    pub(crate) costs: &'a ModeCosts,
    /// What vectors are coded as differences to.
    pub(crate) best: Vector,
    /// What a bit is worth, in 16ths.
    pub(crate) price: u32,
    /// The first step of the whole-sample search, in samples.
    pub(crate) first_step: i32,
}

/// How far vectors of a macroblock may point: one macroblock beyond the picture.
pub(crate) fn limits((column, row): (usize, usize), (columns, rows): (usize, usize)) -> [i32; 4] {
    let reach = |macroblocks: usize| (16 * (macroblocks as i32 + 1)).min(MAX_REACH);
    [-reach(column), reach(columns - 1 - column), -reach(row), reach(rows - 1 - row)]
}

/// No search goes farther than this, in samples: vectors are quarters of them in 16 bits.
const MAX_REACH: i32 = 8000;

fn whole(x: i32, y: i32) -> Vector {
    Vector::new((4 * y) as i16, (4 * x) as i16)
}

/// Where vectors may point, first and last, in whole samples.
#[derive(Clone, Copy, Debug)]
struct Range {
    x: (i32, i32),
    y: (i32, i32),
}

impl Range {
    #[inline(always)]
    fn allows(&self, x: i32, y: i32) -> bool {
        self.x.0 <= x && x <= self.x.1 && self.y.0 <= y && y <= self.y.1
    }

    /// Whether all samples that (`x`, `y`), in quarters of a sample, lies between are in the range.
    #[inline(always)]
    fn allows_quarters(&self, x: i32, y: i32) -> bool {
        self.allows(x >> 2, y >> 2) && self.allows((x + 3) >> 2, (y + 3) >> 2)
    }
}

impl Search<'_> {
    fn index(&self) -> usize {
        self.shape as usize
    }

    fn bits(&self, vector: Vector) -> Cost {
        (self.costs.vector(vector, self.best) * self.price) >> 12
    }

    /// Where vectors may point, in whole samples.
    fn range(&self) -> Range {
        let [left, right, up, down] = self.limits;
        let (row, column) = (i32::from(self.best.row()), i32::from(self.best.column()));
        // A difference that cannot be coded; rounding to quarters leaves a sample to spare.
        const NEAR: i32 = MAX_COMPONENT - 4;
        let least = |limit: i32, best: i32| limit.max((best - NEAR + 3) >> 2);
        let most = |limit: i32, best: i32| limit.min((best + NEAR) >> 2);
        Range { x: (least(left, column), most(right, column)), y: (least(up, row), most(down, row)) }
    }

    fn sad(&self, x: i32, y: i32) -> u32 {
        let extent = (self.shape.width(), self.shape.height());
        let distance = self.kernels.sad[self.index()];
        self.luma.window(self.place.0 + x, self.place.1 + y, extent, |src, stride| {
            distance(self.source.0, self.source.1, src, stride)
        })
    }

    /// Distances of the four places `step` samples around (`x`, `y`): left, right, up, down.
    fn four(&self, (x, y): (i32, i32), step: i32) -> [u32; 4] {
        let side = 2 * step as usize;
        let (source, stride) = self.source;
        let four = self.kernels.sad_four[self.index()];
        let extent = (self.shape.width() + side, self.shape.height() + side);
        self.luma.window(self.place.0 + x - step, self.place.1 + y - step, extent, |src, src_stride| {
            let step = step as usize;
            let places = [step * src_stride, step * src_stride + side, step, side * src_stride + step];
            four(source, stride, src, src_stride, places)
        })
    }

    /// The best whole-sample vector, from `starts` on, and the distances of its four neighbours: left, right, up,
    /// down.
    pub(crate) fn whole_samples(&self, starts: &[Vector]) -> (Found, [u32; 4]) {
        let range = self.range();
        let mut best = Found { vector: Vector::ZERO, distance: u32::MAX, cost: u32::MAX };
        let mut tried: [(i32, i32); 8] = [(i32::MAX, 0); 8];
        for (at, start) in starts.iter().enumerate().take(8) {
            let (x, y) = ((i32::from(start.column()) + 2) >> 2, (i32::from(start.row()) + 2) >> 2);
            if tried[..at].contains(&(x, y)) || !range.allows(x, y) {
                continue;
            }
            tried[at] = (x, y);
            self.take(&mut best, (x, y), self.sad(x, y));
        }
        let mut around = [u32::MAX; 4];
        let mut step = self.first_step;
        while step > 0 {
            for _ in 0..self.tools.rounds {
                let (x, y) = (i32::from(best.vector.column()) / 4, i32::from(best.vector.row()) / 4);
                let points = [(x - step, y), (x + step, y), (x, y - step), (x, y + step)];
                around = self.four((x, y), step);
                let before = best.cost;
                for (point, distance) in points.into_iter().zip(around) {
                    if range.allows(point.0, point.1) {
                        self.take(&mut best, point, distance);
                    }
                }
                if best.cost == before {
                    break;
                }
                around = [u32::MAX; 4];
            }
            step /= 2;
        }
        (best, around)
    }

    fn take(&self, best: &mut Found, (x, y): (i32, i32), distance: u32) {
        if distance >= best.cost {
            return;
        }
        let vector = whole(x, y);
        let cost = distance + self.bits(vector);
        if cost < best.cost {
            *best = Found { vector, distance, cost };
        }
    }

    fn between(&self, x: i32, y: i32) -> u32 {
        let extent = (self.shape.width() + 1, self.shape.height() + 1);
        let (at_x, at_y) = (self.place.0 + (x >> 2), self.place.1 + (y >> 2));
        let kernels =
            if self.tools.sub_pel_satd { &self.kernels.sub_pel_satd } else { &self.kernels.sub_pel_sad };
        let (across, down) = (2 * (x & 3) as usize, 2 * (y & 3) as usize);
        let distance = kernels[self.index()];
        self.luma.window(at_x, at_y, extent, |src, stride| {
            distance(self.source.0, self.source.1, src, stride, across, down)
        })
    }

    /// How far the source is from where `vector` points, or `None` where it must not point.
    pub(crate) fn exactly(&self, vector: Vector) -> Option<u32> {
        let (x, y) = (i32::from(vector.column()), i32::from(vector.row()));
        self.range().allows_quarters(x, y).then(|| self.between(x, y))
    }

    /// The best vector around a whole-sample one, in quarters of a sample.
    pub(crate) fn quarter_samples(&self, found: Found, around: [u32; 4]) -> Found {
        let (x, y) = (i32::from(found.vector.column()), i32::from(found.vector.row()));
        let mut best = found;
        if self.tools.sub_pel_satd {
            best.distance = self.between(x, y);
            best.cost = best.distance + self.bits(best.vector);
        }
        let range = self.range();
        let try_at = |best: &mut Found, x: i32, y: i32| {
            if !range.allows_quarters(x, y) {
                return;
            }
            let vector = Vector::new(y as i16, x as i16);
            let distance = self.between(x, y);
            let cost = distance + self.bits(vector);
            if cost < best.cost {
                *best = Found { vector, distance, cost };
            }
        };
        // Towards the better neighbours first.
        let (across, down) =
            (if around[0] < around[1] { -2 } else { 2 }, if around[2] < around[3] { -2 } else { 2 });
        try_at(&mut best, x + across, y);
        try_at(&mut best, x, y + down);
        try_at(&mut best, x + across, y + down);
        if self.tools.quarter_rounds == 0 {
            // Once, towards what is better on either side of the best so far.
            let [beside, below] = [around[0].min(around[1]), around[2].min(around[3])];
            let towards = |half: i32, at: i32, from: i32, beyond: u32| {
                if at == from || found.distance >= beyond { half / 2 } else { -half / 2 }
            };
            let (at_x, at_y) = (i32::from(best.vector.column()), i32::from(best.vector.row()));
            try_at(&mut best, at_x + towards(across, at_x, x, beside), at_y);
            let at_x = i32::from(best.vector.column());
            try_at(&mut best, at_x, at_y + towards(down, at_y, y, below));
            return best;
        }
        for _ in 0..self.tools.quarter_rounds {
            let before = best.vector;
            let (x, y) = (i32::from(before.column()), i32::from(before.row()));
            for (dx, dy) in [(-1, 0), (1, 0), (0, -1), (0, 1)] {
                try_at(&mut best, x + dx, y + dy);
            }
            if best.vector == before {
                break;
            }
        }
        best
    }
}
