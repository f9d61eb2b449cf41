//! How a macroblock is predicted.

use super::frame::Job;
use super::motion_search::{self, Search};
use super::rate::{self, Cost, intra_index};
use super::reference::Luma;
use super::residue::Coding;
use super::split::Cutter;
use super::subblocks::{Choice, Tile};
use crate::vp8::decode::reconstruct::Reconstruction;
use crate::vp8::measure::{SQUARE_MODES, Shape};
use crate::vp8::modes::{Macroblock, Mode, Reference, Split};
use crate::vp8::motion::{Bounds, Suggested, Vector};
use crate::vp8::predict::intra::{Edges, LEFT};
use crate::vp8::tables::modes::MODE_CONTEXTS;

/// What saying that a macroblock is intra, or which reference it is predicted from, costs about: intra, last,
/// golden, altref.
const REFERENCE_COSTS: [Cost; 4] = [900, 60, 800, 1000];

/// A macroblock that is to be decided.
pub(crate) struct Decider<'a> {
    job: &'a Job<'a>,
    reconstruction: &'a Reconstruction<'a>,
    column: usize,
    row: usize,
    above: &'a Macroblock,
    left: &'a Macroblock,
    above_left: &'a Macroblock,
    above_right: Option<&'a Macroblock>,
    source: (&'a [u8], usize),
}

/// The best so far.
struct Best {
    cost: u32,
    /// Of it, what is left of the source.
    distance: u32,
    macroblock: Macroblock,
}

/// What is known of a macroblock and one reference.
struct Around {
    reference: Reference,
    near: Suggested,
    /// What new vectors are differences to.
    best: Vector,
}

impl Around {
    /// The cost of a mode; `steps` is 0 for zero, 1 for nearest, 2 for near, 3 for new, 4 for split.
    fn mode_cost(&self, steps: usize) -> Cost {
        let prob = |at: usize| MODE_CONTEXTS[self.near.contexts[at]][at];
        let cost: Cost = (0..4.min(steps + 1)).map(|at| rate::bit(at < steps, prob(at))).sum();
        cost + REFERENCE_COSTS[self.reference as usize]
    }
}

impl<'a> Decider<'a> {
    pub(crate) fn new(
        job: &'a Job<'a>,
        reconstruction: &'a Reconstruction<'a>,
        (column, row): (usize, usize),
        above: &'a [Macroblock],
        current: &'a [Macroblock],
    ) -> Decider<'a> {
        Decider {
            job,
            reconstruction,
            column,
            row,
            above: &above[column + 1],
            left: &current[column],
            above_left: &above[column],
            above_right: above.get(column + 2),
            source: job.source.at(0, 16 * column, 16 * row),
        }
    }

    /// Decides.
    pub(crate) fn decide(&self, planes: &[&mut [u8]; 3]) -> Macroblock {
        let mut best = Best { cost: u32::MAX, distance: u32::MAX, macroblock: Macroblock::OUTSIDE };
        if !self.job.key {
            for &reference in self.job.references {
                self.inter(reference, &mut best);
            }
        }
        if self.job.key || best.distance > self.job.quantization.step * 24 {
            self.intra(planes, &mut best);
        }
        best.macroblock
    }

    fn priced(&self, bits: Cost) -> u32 {
        (bits * self.job.quantization.satd_price) >> 12
    }

    /// Below this SATD hardly any coefficient is left.
    fn quiet(&self) -> u32 {
        self.job.quantization.step * 14
    }

    fn luma(&self, reference: Reference) -> Option<Luma<'a>> {
        let state = self.job.state?;
        let frame = match reference {
            Reference::Golden => &state.golden,
            Reference::Altref => &state.altref,
            Reference::Last | Reference::Intra => &state.last,
        };
        Some(Luma::new(frame, &self.job.geometry))
    }

    fn inter(&self, reference: Reference, best: &mut Best) {
        let Some(luma) = self.luma(reference) else { return };
        let geometry = &self.job.geometry;
        let bounds = Bounds::new(self.column, self.row, geometry.columns, geometry.rows);
        let near = Suggested::new(reference, self.above, self.left, self.above_left, [false; 2]);
        let around = Around { reference, near, best: near.best(&bounds) };
        let (nearest, nearer) = (near.nearest(&bounds), near.near(&bounds));
        self.suggested(&luma, &around, Mode::Zero, Vector::ZERO, best);
        if nearest != Vector::ZERO {
            self.suggested(&luma, &around, Mode::Nearest, nearest, best);
        }
        if nearer != Vector::ZERO && nearer != nearest {
            self.suggested(&luma, &around, Mode::Near, nearer, best);
        }
        let search = reference == Reference::Last || self.job.tools.search_all;
        if best.distance < self.quiet() || !search {
            return;
        }
        let starts = [
            best.macroblock.vector,
            Vector::ZERO,
            nearest,
            nearer,
            self.above_right.map_or(Vector::ZERO, |macroblock| macroblock.vector),
        ];
        let search = Search {
            kernels: self.job.encode_kernels,
            tools: &self.job.tools,
            shape: Shape::Whole,
            source: self.source,
            luma,
            place: (16 * self.column as i32, 16 * self.row as i32),
            limits: motion_search::limits((self.column, self.row), (geometry.columns, geometry.rows)),
            costs: self.job.mode_costs,
            best: around.best,
            price: self.job.quantization.satd_price,
            first_step: self.job.tools.first_step,
        };
        let (found, around_found) = search.whole_samples(&starts);
        let found = search.quarter_samples(found, around_found);
        if ![Vector::ZERO, nearest, nearer].contains(&found.vector) {
            let bits = around.mode_cost(3) + self.job.mode_costs.vector(found.vector, search.best);
            self.consider(&luma, reference, Mode::New, found.vector, bits, best);
        }
        if best.distance > self.quiet() * 2 && best.macroblock.reference == reference {
            self.split(luma, &around, search.limits, best);
        }
    }

    /// Tries pieces with vectors of their own.
    fn split(&self, luma: Luma<'_>, around: &Around, limits: [i32; 4], best: &mut Best) {
        let tools = &self.job.tools;
        if !tools.quarters {
            return;
        }
        let cutter = Cutter {
            kernels: self.job.kernels,
            encode_kernels: self.job.encode_kernels,
            tools,
            source: self.source,
            luma,
            reference: around.reference,
            place: (16 * self.column as i32, 16 * self.row as i32),
            limits,
            costs: self.job.mode_costs,
            best: around.best,
            price: self.job.quantization.satd_price,
            above: self.above,
            left: self.left,
        };
        let mode = self.priced(around.mode_cost(4));
        let mut starts = [best.macroblock.vector; 16];
        for (split, wanted) in [
            (Split::Quarters, tools.quarters),
            (Split::TopBottom, tools.halves),
            (Split::LeftRight, tools.halves),
            (Split::Sixteenths, tools.sixteenths),
        ] {
            if !wanted {
                continue;
            }
            // The search judges by other filters than prediction does, so it may be a little above.
            let limit = best.cost + best.cost / 8;
            let Some((macroblock, cost, distance)) = cutter.cut(split, &starts, limit.saturating_sub(mode))
            else {
                if split == Split::Quarters {
                    return;
                }
                continue;
            };
            if split == Split::Quarters {
                starts = macroblock.vectors;
            }
            if cost + mode < best.cost {
                *best = Best { cost: cost + mode, distance, macroblock };
            }
        }
    }

    fn suggested(&self, luma: &Luma<'_>, around: &Around, mode: Mode, vector: Vector, best: &mut Best) {
        let steps = match mode {
            Mode::Nearest => 1,
            Mode::Near => 2,
            _ => 0,
        };
        self.consider(luma, around.reference, mode, vector, around.mode_cost(steps), best);
    }

    fn consider(
        &self,
        luma: &Luma<'_>,
        reference: Reference,
        mode: Mode,
        vector: Vector,
        bits: Cost,
        best: &mut Best,
    ) {
        let price = self.priced(bits);
        if price >= best.cost {
            return;
        }
        let satd = self.job.encode_kernels.satd[Shape::Whole as usize];
        let (x, y) = (16 * self.column as i32, 16 * self.row as i32);
        let mut prediction = [0; 256];
        luma.predict(self.job.kernels, 16, (x, y), vector, (&mut prediction, 16));
        let distance = satd(self.source.0, self.source.1, &prediction, 16);
        if distance + price < best.cost {
            best.cost = distance + price;
            best.distance = distance;
            best.macroblock.reference = reference;
            best.macroblock.mode = mode;
            best.macroblock.vector = vector;
        }
    }

    fn intra(&self, planes: &[&mut [u8]; 3], best: &mut Best) {
        let job = self.job;
        let reference = if job.key { 0 } else { REFERENCE_COSTS[0] };
        let distances = self.square_costs::<16>(0, planes[0]);
        let mut costed: Vec<(u32, u32, Mode)> = Vec::with_capacity(4);
        for (mode, distance) in SQUARE_MODES.into_iter().zip(distances) {
            let bits = job.mode_costs.y[intra_index(mode)] + reference;
            costed.push((distance + self.priced(bits), distance, mode));
        }
        let Some(&(cost, distance, mode)) = costed.iter().min_by_key(|costed| costed.0) else { return };
        let mut chosen = None;
        if cost < best.cost {
            (best.cost, best.distance) = (cost, distance);
            chosen = Some(mode);
        }
        let mut macroblock = Macroblock::OUTSIDE;
        if job.key || (job.tools.subblocks && cost < best.cost + best.cost / 4) {
            let base = self.priced(job.mode_costs.y[4] + reference);
            let limit = best.cost.saturating_sub(base);
            let coding = Coding {
                kernels: job.encode_kernels,
                quantization: &job.quantization,
                costs: job.block_costs,
                weigh: false,
            };
            let choice = Choice {
                key: job.key,
                costs: job.mode_costs,
                neighbours: (self.above, self.left),
                price: job.quantization.satd_price,
            };
            let tile = Tile::new(self.reconstruction, (self.column, self.row), planes[0]);
            let add = job.kernels.add_block;
            if let Some(cost) = choice.run(&coding, tile, &mut macroblock, self.source, add, limit) {
                best.cost = cost + base;
                chosen = Some(Mode::B);
            }
        }
        if let Some(mode) = chosen {
            best.macroblock = macroblock;
            best.macroblock.mode = mode;
            best.macroblock.uv_mode = self.chroma_mode(planes);
        }
    }

    fn chroma_mode(&self, planes: &[&mut [u8]; 3]) -> Mode {
        let (u, v) = (self.square_costs::<8>(1, planes[1]), self.square_costs::<8>(2, planes[2]));
        let costed = SQUARE_MODES.into_iter().enumerate().map(|(at, mode)| {
            let bits = self.job.mode_costs.uv[intra_index(mode)];
            (u[at] + v[at] + self.priced(bits), mode)
        });
        costed.min_by_key(|&(cost, _)| cost).map_or(Mode::Dc, |(_, mode)| mode)
    }

    /// SATD by the four modes of a square block.
    fn square_costs<const N: usize>(&self, index: usize, plane: &[u8]) -> [u32; 4] {
        let (_, _, stride) = self.job.geometry.plane(index);
        let (x, y) = (self.column * N, self.row * N);
        let mut left = [LEFT; N];
        if self.column > 0 {
            for (line, sample) in left.iter_mut().enumerate() {
                *sample = plane[(y + line) * stride + x - 1];
            }
        }
        let top = self.reconstruction.top;
        let edges = Edges {
            above: top.from(index, x),
            left: &left,
            corner: top.corner(index, x),
            has_above: self.row > 0,
            has_left: self.column > 0,
        };
        let (src, src_stride) = self.job.source.at(index, x, y);
        (self.job.encode_kernels.square_costs[usize::from(N == 8)])(src, src_stride, &edges)
    }
}
