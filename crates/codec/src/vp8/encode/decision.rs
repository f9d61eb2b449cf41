//! How a macroblock is predicted.

use super::job::Job;
use super::motion_search::{self, Search};
use super::quantization::Quantization;
use super::rate::{self, Cost, intra_index};
use super::reference::ReferencePlane;
use super::residue::Coding;
use super::speed::Tools;
use super::split::Cutter;
use super::subblocks::{Choice, Tile};
use crate::vp8::macroblock::{Macroblock, Mode, Reference, Split};
use crate::vp8::measure::Shape;
use crate::vp8::modes::SQUARE_MODES;
use crate::vp8::motion::{Bounds, Suggested};
use crate::vp8::reconstruct::Reconstruction;
use crate::vp8::tables::modes::MODE_CONTEXTS;
use crate::vp8::vector::Vector;

/// What saying that a macroblock is intra, or which reference it is predicted from, costs about: intra, last,
/// golden, altref.
const REFERENCE_COSTS: [Cost; 4] = [900, 60, 800, 1000];

/// What a step of an inter mode's tree costs, taken or not, by context and step.
static STEP_COSTS: [[[u16; 2]; 4]; 6] = {
    let mut costs = [[[0; 2]; 4]; 6];
    let mut at = 0;
    while at < 24 {
        let probability = MODE_CONTEXTS[at / 4][at % 4];
        costs[at / 4][at % 4] = [rate::bit(false, probability) as u16, rate::bit(true, probability) as u16];
        at += 1;
    }
    costs
};

/// Decides how one macroblock is predicted.
pub(crate) struct Decider<'a> {
    job: &'a Job<'a>,
    /// Those of its row.
    tools: &'a Tools,
    reconstruction: &'a Reconstruction<'a>,
    column: usize,
    row: usize,
    above: &'a Macroblock,
    left: &'a Macroblock,
    above_left: &'a Macroblock,
    above_right: Option<&'a Macroblock>,
    source: (&'a [u8], usize),
    segment: u8,
    /// Of its segment.
    quantization: &'a Quantization,
}

/// The best so far.
struct Best {
    cost: u32,
    /// Of it, what is left of the source.
    distance: u32,
    macroblock: Macroblock,
}

/// What a macroblock with one vector is predicted to be, where that was made on the way.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// That of the best so far, and room for the next one to be judged.
    samples: [[u8; 256]; 2],
    best: usize,
    pub(crate) valid: bool,
    /// Where the macroblock stands still: how far luma is from what was there before.
    pub(crate) still: Option<u32>,
}

impl Prediction {
    pub(crate) const NONE: Prediction =
        Prediction { samples: [[0; 256]; 2], best: 0, valid: false, still: None };

    /// The samples, if they are valid.
    pub(crate) fn samples(&self) -> Option<&[u8; 256]> {
        self.valid.then_some(&self.samples[self.best])
    }
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
        let bit = |at: usize| Cost::from(STEP_COSTS[self.near.contexts[at]][at][usize::from(at < steps)]);
        let cost: Cost = (0..4.min(steps + 1)).map(bit).sum();
        cost + REFERENCE_COSTS[self.reference as usize]
    }
}

impl<'a> Decider<'a> {
    pub(crate) fn new(
        (job, tools): (&'a Job<'a>, &'a Tools),
        reconstruction: &'a Reconstruction<'a>,
        (column, row): (usize, usize),
        above: &'a [Macroblock],
        current: &'a [Macroblock],
    ) -> Decider<'a> {
        let segment = job.segments.of(row * job.geometry.columns + column);
        Decider {
            job,
            tools,
            reconstruction,
            column,
            row,
            above: &above[column + 1],
            left: &current[column],
            above_left: &above[column],
            above_right: above.get(column + 2),
            source: job.source.at(0, 16 * column, 16 * row),
            segment,
            quantization: &job.quantizations[usize::from(segment & 3)],
        }
    }

    /// Decides.
    pub(crate) fn decide(&self, planes: &[&mut [u8]; 3], prediction: &mut Prediction) -> Macroblock {
        let mut best = Best { cost: u32::MAX, distance: u32::MAX, macroblock: Macroblock::OUTSIDE };
        if !self.job.key {
            let geometry = &self.job.geometry;
            let bounds = Bounds::new(self.column, self.row, geometry.columns, geometry.rows);
            // No reference's vectors are mirrored, so the neighbours suggest the same for all.
            let near = Suggested::new(Reference::Last, self.above, self.left, self.above_left, [false; 2]);
            for &reference in self.job.references {
                self.inter(reference, (near, &bounds), &mut best, prediction);
                let quiet = best.distance < self.quiet() && !self.tools.search_all;
                if quiet || prediction.still.is_some() {
                    break;
                }
            }
        }
        if self.job.key || best.distance > self.quantization.step * self.tools.try_intra {
            self.intra(planes, &mut best, prediction);
        }
        Macroblock { segment: self.segment, ..best.macroblock }
    }

    fn priced(&self, bits: Cost) -> u32 {
        (bits * self.quantization.satd_price) >> 12
    }

    /// Below this SATD hardly any coefficient is left.
    fn quiet(&self) -> u32 {
        self.quantization.step * self.tools.quiet
    }

    fn luma(&self, reference: Reference) -> Option<ReferencePlane<'a>> {
        let state = self.job.state?;
        let frame = match reference {
            Reference::Golden => &state.golden,
            Reference::Altref => &state.altref,
            Reference::Last | Reference::Intra => &state.last,
        };
        Some(ReferencePlane::new(frame, &self.job.geometry, 0))
    }

    fn inter(
        &self,
        reference: Reference,
        (near, bounds): (Suggested, &Bounds),
        best: &mut Best,
        prediction: &mut Prediction,
    ) {
        let Some(luma) = self.luma(reference) else { return };
        let geometry = &self.job.geometry;
        let around = Around { reference, near, best: near.best(bounds) };
        let (nearest, nearer) = (near.nearest(bounds), near.near(bounds));
        self.suggested(&luma, &around, Mode::Zero, Vector::ZERO, (best, prediction));
        // Nothing has moved or changed here: nothing else is looked at, and of luma nothing is coded.
        if reference == Reference::Last
            && nearest == Vector::ZERO
            && self.quantization.is_still(best.distance)
        {
            prediction.still = Some(best.distance);
            return;
        }
        // The neighbours' vectors point into other references; there, they mean little.
        let related = self.tools.search_all
            || reference == Reference::Last
            || [self.above, self.left].iter().any(|neighbour| neighbour.reference == reference);
        if nearest != Vector::ZERO && related {
            self.suggested(&luma, &around, Mode::Nearest, nearest, (best, prediction));
        }
        if nearer != Vector::ZERO && nearer != nearest && related {
            self.suggested(&luma, &around, Mode::Near, nearer, (best, prediction));
        }
        let search = reference == Reference::Last || self.tools.search_all;
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
            tools: self.tools,
            shape: Shape::Whole,
            source: self.source,
            luma,
            place: (16 * self.column as i32, 16 * self.row as i32),
            limits: motion_search::limits((self.column, self.row), (geometry.columns, geometry.rows)),
            costs: self.job.mode_costs,
            best: around.best,
            price: self.quantization.satd_price,
            first_step: self.tools.first_step,
        };
        let (found, around_found) = search.whole_samples(&starts);
        let found = search.quarter_samples(found, around_found);
        if ![Vector::ZERO, nearest, nearer].contains(&found.vector) {
            let bits = around.mode_cost(3) + self.job.mode_costs.vector(found.vector, search.best);
            self.consider(&luma, reference, Mode::New, found.vector, bits, (best, prediction));
        }
        if best.distance > self.quiet() * 2 && best.macroblock.reference == reference {
            self.split(luma, &around, search.limits, best, prediction);
        }
    }

    /// Tries pieces with vectors of their own.
    fn split(
        &self,
        luma: ReferencePlane<'_>,
        around: &Around,
        limits: [i32; 4],
        best: &mut Best,
        prediction: &mut Prediction,
    ) {
        let tools = self.tools;
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
            price: self.quantization.satd_price,
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
                prediction.valid = false;
            }
        }
    }

    fn suggested(
        &self,
        luma: &ReferencePlane<'_>,
        around: &Around,
        mode: Mode,
        vector: Vector,
        best: (&mut Best, &mut Prediction),
    ) {
        let steps = match mode {
            Mode::Nearest => 1,
            Mode::Near => 2,
            _ => 0,
        };
        self.consider(luma, around.reference, mode, vector, around.mode_cost(steps), best);
    }

    fn consider(
        &self,
        luma: &ReferencePlane<'_>,
        reference: Reference,
        mode: Mode,
        vector: Vector,
        bits: Cost,
        (best, prediction): (&mut Best, &mut Prediction),
    ) {
        let price = self.priced(bits);
        if price >= best.cost {
            return;
        }
        let satd = self.job.encode_kernels.satd[Shape::Whole as usize];
        let (x, y) = (16 * self.column as i32, 16 * self.row as i32);
        let whole = vector.row() & 3 == 0 && vector.column() & 3 == 0;
        let samples = &mut prediction.samples[1 - prediction.best];
        let distance = if whole {
            let (x, y) = (x + i32::from(vector.column() >> 2), y + i32::from(vector.row() >> 2));
            let measured = |src: &[u8], stride: usize| satd(self.source.0, self.source.1, src, stride);
            luma.window(x, y, (16, 16), measured)
        } else {
            luma.predict(self.job.kernels, 16, (x, y), vector, (samples, 16));
            satd(self.source.0, self.source.1, samples, 16)
        };
        if distance + price < best.cost {
            best.cost = distance + price;
            best.distance = distance;
            best.macroblock.reference = reference;
            best.macroblock.mode = mode;
            best.macroblock.vector = vector;
            prediction.valid = !whole;
            prediction.best ^= usize::from(!whole);
        }
    }

    fn intra(&self, planes: &[&mut [u8]; 3], best: &mut Best, prediction: &mut Prediction) {
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
        if job.key || (self.tools.subblocks && cost < best.cost + best.cost / 4) {
            let base = self.priced(job.mode_costs.y[4] + reference);
            let limit = best.cost.saturating_sub(base);
            let coding = Coding {
                kernels: job.encode_kernels,
                quantization: self.quantization,
                costs: job.block_costs,
                weigh: false,
            };
            let choice = Choice {
                key: job.key,
                costs: job.mode_costs,
                neighbours: (self.above, self.left),
                price: self.quantization.satd_price,
            };
            let tile = Tile::new(self.reconstruction, self.column, planes[0]);
            let add = job.kernels.add_block;
            if let Some(cost) = choice.run(&coding, tile, &mut macroblock, self.source, add, limit) {
                best.cost = cost + base;
                chosen = Some(Mode::B);
            }
        }
        if let Some(mode) = chosen {
            best.macroblock = macroblock;
            prediction.valid = false;
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
        let left: [u8; N] = self.reconstruction.left(index, self.column, plane);
        let edges = self.reconstruction.edges(index, self.column, &left);
        let (src, src_stride) = self.job.source.at(index, self.column * N, self.row * N);
        (self.job.encode_kernels.square_costs[usize::from(N == 8)])(src, src_stride, &edges)
    }
}
