//! A frame, row by row: decide how each macroblock is predicted, code what is left, keep tokens.

use super::decision::Decider;
use super::quantization::Quantization;
use super::rate::{BlockCosts, ModeCosts};
use super::residue::{Coding, ends};
use super::source::Source;
use super::speed::Tools;
use super::subblocks;
use super::tokens::{Collector, Counts, Levels, Token};
use crate::vp8::decode::reconstruct::{Reconstruction, TopLines};
use crate::vp8::frame::Geometry;
use crate::vp8::modes::{Macroblock, Mode, Reference};
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::state::Inner;
use crate::vp8::tokens::{self, BLOCKS, Context};

/// What all macroblocks of a frame have in common.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) key: bool,
    pub(crate) geometry: Geometry,
    pub(crate) source: Source<'a>,
    pub(crate) state: Option<&'a Inner>,
    /// References that may be predicted from, each frame once.
    pub(crate) references: &'a [Reference],
    pub(crate) quantization: Quantization,
    pub(crate) block_costs: &'a BlockCosts,
    pub(crate) mode_costs: &'a ModeCosts,
    pub(crate) tools: Tools,
    pub(crate) kernels: &'static Kernels,
    pub(crate) encode_kernels: &'static EncodeKernels,
}

/// What coding a frame fills, kept so that its memory need not be asked for again.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// With a line of those outside above, and one to the left of each row.
    pub(crate) macroblocks: Vec<Macroblock>,
    pub(crate) tokens: Vec<Vec<Token>>,
    contexts: Vec<Context>,
    top: TopLines,
}

impl Store {
    fn reset(&mut self, geometry: &Geometry, replay: bool) {
        let count = (geometry.columns + 1) * (geometry.rows + 1);
        if !replay {
            self.macroblocks.clear();
            self.macroblocks.resize(count, Macroblock::OUTSIDE);
        }
        self.tokens.resize(geometry.rows, Vec::new());
        self.tokens.iter_mut().for_each(Vec::clear);
        self.contexts.clear();
        self.contexts.resize(geometry.columns, [0; 9]);
        self.top.reset(geometry);
    }
}

impl Store {
    /// Decides all macroblocks alike.
    pub(crate) fn decide_all(&mut self, geometry: &Geometry, macroblock: &Macroblock) {
        let across = geometry.columns + 1;
        for row in self.macroblocks.chunks_mut(across).skip(1) {
            row[1..].fill(macroblock.clone());
        }
    }
}

impl Job<'_> {
    /// Codes all macroblocks into `planes`, not yet filtered. With `replay`, `store` holds the decisions of an
    /// earlier run, which stand.
    pub(crate) fn run(
        &self,
        store: &mut Store,
        counts: &mut Counts,
        planes: &mut [&mut [u8]; 3],
        replay: bool,
    ) {
        store.reset(&self.geometry, replay);
        let across = self.geometry.columns + 1;
        let mut levels = Box::new(Levels::ZERO);
        for row in 0..self.geometry.rows {
            let (above, current) = store.macroblocks[row * across..][..2 * across].split_at_mut(across);
            let mut line = Row {
                job: self,
                row,
                reconstruction: Reconstruction {
                    geometry: &self.geometry,
                    top: &store.top,
                    references: self.state,
                    version: 0,
                    kernels: self.kernels,
                    row,
                },
                collector: Collector { tokens: &mut store.tokens[row], counts },
                left: [0; 9],
                levels: &mut levels,
                coefficients: [0; BLOCKS * 16],
            };
            for column in 0..self.geometry.columns {
                if !replay {
                    let decider = Decider::new(self, &line.reconstruction, (column, row), above, current);
                    current[column + 1] = decider.decide(planes);
                }
                line.code(column, &mut current[column + 1], &mut store.contexts[column], planes);
            }
            store.top.keep(&self.geometry, row, planes);
        }
    }
}

/// A row in the making.
struct Row<'a> {
    job: &'a Job<'a>,
    row: usize,
    reconstruction: Reconstruction<'a>,
    collector: Collector<'a>,
    left: Context,
    levels: &'a mut Levels,
    coefficients: tokens::Coefficients,
}

impl Row<'_> {
    /// Codes what prediction leaves of a macroblock, and reconstructs it.
    fn code(
        &mut self,
        column: usize,
        macroblock: &mut Macroblock,
        above: &mut Context,
        planes: &mut [&mut [u8]; 3],
    ) {
        let job = self.job;
        let coding = Coding {
            kernels: job.encode_kernels,
            quantization: &job.quantization,
            costs: job.block_costs,
            weigh: job.tools.weigh,
        };
        let has_y2 = macroblock.has_y2();
        let (x, y) = (16 * column, 16 * self.row);
        let source = [job.source.at(0, x, y), job.source.at(1, x / 2, y / 2), job.source.at(2, x / 2, y / 2)];
        self.reconstruction.predict(column, macroblock, planes);
        let (y_stride, uv_stride) = (job.geometry.y_stride, job.geometry.uv_stride);
        let uv_at = y / 2 * uv_stride + x / 2;
        let predicted = [
            (&planes[0][y * y_stride + x..], y_stride),
            (&planes[1][uv_at..], uv_stride),
            (&planes[2][uv_at..], uv_stride),
        ];
        let contexts = (&*above, &self.left);
        if macroblock.mode == Mode::B {
            self.levels.ends[tokens::Y2] = 0;
            coding.chroma(&source, &predicted, contexts, self.levels, &mut self.coefficients);
            subblocks::code(
                &coding,
                &self.reconstruction,
                (column, self.row),
                macroblock,
                source[0],
                contexts,
                self.levels,
                planes[0],
            );
        } else {
            coding.macroblock(&source, &predicted, has_y2, contexts, self.levels, &mut self.coefficients);
        }
        let ends = ends(self.levels);
        macroblock.coded = ends.is_some();
        macroblock.skipped = ends.is_none();
        match &ends {
            Some(ends) => {
                let coefficients = &mut self.coefficients;
                self.reconstruction.add_residue(column, macroblock, ends, coefficients, planes);
                self.collector.macroblock(self.levels, has_y2, above, &mut self.left);
            }
            None => tokens::skip(has_y2, above, &mut self.left),
        }
        self.coefficients.fill(0);
    }
}
