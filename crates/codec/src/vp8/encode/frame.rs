//! A frame, row by row: decide how each macroblock is predicted, code what is left, keep tokens.
//!
//! What is decided may be coded in several qualities at once, each in a *layer*: samples, tokens and all that follows
//! from a quantiser. The first layer is what is decided by. Macroblocks that are predicted from a reference are predicted
//! and transformed once for all layers.

use super::decision::{Decider, Prediction};
use super::parallel::Parallel;
use super::quantization::Quantizations;
use super::rate::{BlockCosts, ModeCosts};
use super::residue::{Coding, Residue, Samples, ends};
use super::rows;
use super::segments::Segments;
use super::source::Source;
use super::speed::Tools;
use super::subblocks;
use super::tokens::{Collector, Counts, Levels, Token};
use crate::vp8::frame::Geometry;
use crate::vp8::modes::{Macroblock, Mode, Reference};
use crate::vp8::reconstruct::{Reconstruction, TopLines};
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
    /// What is decided by.
    pub(crate) quantizations: &'a Quantizations,
    pub(crate) segments: &'a Segments,
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
    /// Columns and rows of them.
    size: (usize, usize),
    pub(crate) layers: Vec<LayerStore>,
}

/// What coding a layer fills.
#[derive(Debug, Default)]
pub(crate) struct LayerStore {
    /// By row of macroblocks.
    pub(crate) tokens: Vec<Vec<Token>>,
    /// Whether macroblocks have coefficients, row by row.
    pub(crate) coded: Vec<bool>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) top: TopLines,
}

impl Store {
    fn reset(&mut self, geometry: &Geometry, layers: usize, replay: bool) {
        // All that is in the picture is decided before it is looked at.
        if !replay && self.size != (geometry.columns, geometry.rows) {
            self.size = (geometry.columns, geometry.rows);
            self.macroblocks.clear();
            self.macroblocks.resize((geometry.columns + 1) * (geometry.rows + 1), Macroblock::OUTSIDE);
        }
        if self.layers.len() < layers {
            self.layers.resize_with(layers, LayerStore::default);
        }
        for layer in &mut self.layers[..layers] {
            layer.tokens.resize(geometry.rows, Vec::new());
            layer.tokens.iter_mut().for_each(Vec::clear);
            layer.coded.resize(geometry.columns * geometry.rows, false);
            layer.contexts.clear();
            layer.contexts.resize(geometry.columns, [0; 9]);
            layer.top.reset(geometry);
        }
    }

    /// Decides all macroblocks alike.
    pub(crate) fn decide_all(&mut self, geometry: &Geometry, macroblock: &Macroblock) {
        let across = geometry.columns + 1;
        for row in self.macroblocks.chunks_mut(across).skip(1) {
            row[1..].fill(macroblock.clone());
        }
    }

    /// Notes in the macroblocks which of them have coefficients in a layer.
    pub(crate) fn show(&mut self, geometry: &Geometry, layer: usize) {
        let rows = self.macroblocks.chunks_mut(geometry.columns + 1).skip(1);
        for (row, coded) in rows.zip(self.layers[layer].coded.chunks(geometry.columns)) {
            for (macroblock, &coded) in row[1..].iter_mut().zip(coded) {
                (macroblock.coded, macroblock.skipped) = (coded, !coded);
            }
        }
    }
}

/// A frame in the making: one of the qualities that a run codes.
#[derive(Debug)]
pub(crate) struct Layer<'a> {
    pub(crate) quantizations: &'a Quantizations,
    pub(crate) planes: [&'a mut [u8]; 3],
    pub(crate) counts: &'a mut Counts,
}

impl Job<'_> {
    /// Codes all macroblocks into `layers`, not yet filtered. With `replay`, `store` holds the decisions of an earlier
    /// run, which stand; otherwise they are made for the first layer.
    pub(crate) fn run(
        &self,
        store: &mut Store,
        layers: &mut [Layer<'_>],
        replay: bool,
        parallel: &dyn Parallel,
    ) {
        store.reset(&self.geometry, layers.len(), replay);
        if parallel.threads() > 1 && self.geometry.rows > 1 {
            return rows::run(self, store, layers, replay, parallel);
        }
        let across = self.geometry.columns + 1;
        let mut scratch = Scratch::new();
        for row in 0..self.geometry.rows {
            let (above, current) = store.macroblocks[row * across..][..2 * across].split_at_mut(across);
            let from = row * self.geometry.columns;
            let stores = store.layers.iter_mut();
            let lanes = layers.iter_mut().zip(stores).map(|(layer, store)| Lane {
                quantizations: layer.quantizations,
                coding: self.coding(layer.quantizations),
                reconstruction: self.reconstruction(&store.top, row, 0),
                planes: layer.planes.each_mut().map(|plane| &mut **plane),
                collector: Collector { tokens: &mut store.tokens[row], counts: layer.counts },
                coded: &mut store.coded[from..][..self.geometry.columns],
                contexts: &mut store.contexts,
                left: [0; 9],
            });
            let mut lanes: Vec<Lane<'_>> = lanes.collect();
            for column in 0..self.geometry.columns {
                self.macroblock(column, (above, current), &mut lanes, &mut scratch, replay);
            }
            drop(lanes);
            for (layer, store) in layers.iter().zip(&mut store.layers) {
                store.top.keep(&self.geometry, row, &layer.planes);
            }
        }
    }

    pub(crate) fn coding<'b>(&'b self, quantizations: &'b Quantizations) -> Coding<'b> {
        Coding {
            kernels: self.encode_kernels,
            quantization: &quantizations[0],
            costs: self.block_costs,
            weigh: self.tools.weigh,
        }
    }

    /// How `row` is reconstructed in planes that begin with `first_row`.
    pub(crate) fn reconstruction<'b>(
        &'b self,
        top: &'b TopLines,
        row: usize,
        first_row: usize,
    ) -> Reconstruction<'b> {
        let (geometry, references) = (&self.geometry, self.state);
        Reconstruction { geometry, top, references, version: 0, kernels: self.kernels, row, first_row }
    }

    /// Decides a macroblock, unless that is done, and codes it in all lanes. `above` is the row above as far as it is
    /// known.
    pub(crate) fn macroblock(
        &self,
        column: usize,
        (above, current): (&[Macroblock], &mut [Macroblock]),
        lanes: &mut [Lane<'_>],
        scratch: &mut Scratch,
        replay: bool,
    ) {
        let Some((first, others)) = lanes.split_first_mut() else { return };
        let row = first.reconstruction.row;
        self.prefetch(column, row);
        (scratch.prediction.valid, scratch.prediction.still) = (false, None);
        if !replay {
            let decider = Decider::new(self, &first.reconstruction, (column, row), above, current);
            current[column + 1] = decider.decide(&first.planes, &mut scratch.prediction);
        }
        let macroblock = &current[column + 1];
        first.enter(macroblock.segment);
        others.iter_mut().for_each(|other| other.enter(macroblock.segment));
        let (x, y) = (16 * column, 16 * row);
        let source =
            [self.source.at(0, x, y), self.source.at(1, x / 2, y / 2), self.source.at(2, x / 2, y / 2)];
        if macroblock.reference.is_inter() {
            first.predict_inter(column, macroblock, &scratch.prediction);
            others.iter_mut().for_each(|other| other.copy_macroblock(first, column));
            let (residue, has_y2) = (&mut scratch.residue, macroblock.has_y2());
            if let Some(distance) = scratch.prediction.still
                && first.is_still(distance)
                && others.iter().all(|other| other.is_still(distance))
            {
                residue.transform_chroma(self.encode_kernels, &source, &first.samples(column));
                first.code_chroma(column, macroblock, scratch);
                others.iter_mut().for_each(|other| other.code_chroma(column, macroblock, scratch));
                return;
            }
            residue.transform(self.encode_kernels, &source, &first.samples(column), has_y2);
            first.code(column, macroblock, scratch);
            others.iter_mut().for_each(|other| other.code(column, macroblock, scratch));
        } else {
            lanes.iter_mut().for_each(|lane| lane.intra(column, macroblock, &source, scratch));
        }
    }
}

impl Job<'_> {
    /// Asks for what macroblocks some columns further on will look at: they come in squares, which processors do not
    /// foresee.
    fn prefetch(&self, column: usize, row: usize) {
        // A line of the cache holds samples of four macroblocks' luma, of eight ones' chroma.
        for (index, side, every) in [(0, 16, 4), (1, 8, 8), (2, 8, 8)] {
            let next = column + every;
            if !column.is_multiple_of(every) || next >= self.geometry.columns {
                continue;
            }
            let fetch = self.encode_kernels.prefetch;
            let (source, stride) = self.source.at(index, side * next, side * row);
            fetch(source, stride, side);
            if let Some(state) = self.state {
                // The lines above were looked at by the row above; filters look at three below.
                let (_, _, stride) = self.geometry.plane(index);
                let from = (side * row + 3) * stride + side * next;
                fetch(state.last.plane(index).get(from..).unwrap_or_default(), stride, side);
            }
        }
    }
}

/// Working memory for coding a macroblock. It keeps no result of one macroblock for the next.
#[derive(Debug)]
pub(crate) struct Scratch {
    levels: Levels,
    /// All zero between macroblocks.
    coefficients: tokens::Coefficients,
    residue: Residue,
    prediction: Prediction,
}

impl Scratch {
    pub(crate) fn new() -> Box<Scratch> {
        Box::new(Scratch {
            levels: Levels::ZERO,
            coefficients: [0; BLOCKS * 16],
            residue: Residue::ZERO,
            prediction: Prediction::NONE,
        })
    }
}

/// A row of a layer in the making.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) quantizations: &'a Quantizations,
    pub(crate) coding: Coding<'a>,
    pub(crate) reconstruction: Reconstruction<'a>,
    /// From the reconstruction's first row on.
    pub(crate) planes: [&'a mut [u8]; 3],
    pub(crate) collector: Collector<'a>,
    pub(crate) coded: &'a mut [bool],
    /// Of the row above, and behind the macroblock that is coded of this one.
    pub(crate) contexts: &'a mut [Context],
    pub(crate) left: Context,
}

impl Lane<'_> {
    fn strides(&self) -> [usize; 3] {
        let geometry = self.reconstruction.geometry;
        [geometry.y_stride, geometry.uv_stride, geometry.uv_stride]
    }

    /// Takes the quantiser of a segment.
    fn enter(&mut self, segment: u8) {
        self.coding.quantization = &self.quantizations[usize::from(segment & 3)];
    }

    /// A macroblock's samples.
    fn samples(&self, column: usize) -> Samples<'_> {
        let strides = self.strides();
        [0, 1, 2].map(|index| (&self.planes[index][self.reconstruction.at(index, column)..], strides[index]))
    }

    fn predict_inter(&mut self, column: usize, macroblock: &Macroblock, prediction: &Prediction) {
        let samples = prediction.samples();
        if let Some(samples) = samples {
            let stride = self.reconstruction.geometry.y_stride;
            let lines = self.planes[0][self.reconstruction.at(0, column)..].chunks_mut(stride);
            for (line, samples) in lines.zip(samples.as_chunks::<16>().0) {
                line[..16].copy_from_slice(samples);
            }
        }
        self.reconstruction.predict(column, macroblock, &mut self.planes, samples.is_some());
    }

    /// Copies the samples of a macroblock that another lane has predicted.
    fn copy_macroblock(&mut self, from: &Lane<'_>, column: usize) {
        let samples = from.samples(column);
        for (index, (plane, (src, stride))) in self.planes.iter_mut().zip(samples).enumerate() {
            let to = plane[self.reconstruction.at(index, column)..].chunks_mut(stride);
            let lines = to.zip(src.chunks(stride));
            match index {
                0 => lines.take(16).for_each(|(to, from)| to[..16].copy_from_slice(&from[..16])),
                _ => lines.take(8).for_each(|(to, from)| to[..8].copy_from_slice(&from[..8])),
            }
        }
    }

    /// Codes what prediction has left of a macroblock, and reconstructs it.
    fn code(&mut self, column: usize, macroblock: &Macroblock, scratch: &mut Scratch) {
        let Scratch { levels, coefficients, residue, .. } = scratch;
        let contexts = (&self.contexts[column], &self.left);
        self.coding.macroblock(residue, macroblock.has_y2(), contexts, levels, coefficients);
        self.keep(column, macroblock, scratch);
    }

    fn is_still(&self, distance: u32) -> bool {
        self.coding.quantization.is_still(distance)
    }

    /// Codes a macroblock without any luma levels: its chroma alone.
    fn code_chroma(&mut self, column: usize, macroblock: &Macroblock, scratch: &mut Scratch) {
        let Scratch { levels, coefficients, residue, .. } = scratch;
        levels.ends = [0; BLOCKS];
        self.coding.chroma(residue, (&self.contexts[column], &self.left), levels, coefficients);
        self.keep(column, macroblock, scratch);
    }

    /// Predicts a macroblock from its own picture, and codes what that leaves.
    fn intra(&mut self, column: usize, macroblock: &Macroblock, source: &Samples<'_>, scratch: &mut Scratch) {
        self.reconstruction.predict(column, macroblock, &mut self.planes, false);
        let kernels = self.coding.kernels;
        if macroblock.mode != Mode::B {
            scratch.residue.transform(kernels, source, &self.samples(column), true);
            return self.code(column, macroblock, scratch);
        }
        let Scratch { levels, coefficients, residue, .. } = scratch;
        let contexts = (&self.contexts[column], &self.left);
        levels.ends[tokens::Y2] = 0;
        residue.transform_chroma(kernels, source, &self.samples(column));
        self.coding.chroma(residue, contexts, levels, coefficients);
        subblocks::code(
            &self.coding,
            &self.reconstruction,
            column,
            macroblock,
            source[0],
            contexts,
            levels,
            self.planes[0],
        );
        self.keep(column, macroblock, scratch);
    }

    /// Keeps a macroblock's tokens and completes its samples.
    fn keep(&mut self, column: usize, macroblock: &Macroblock, scratch: &mut Scratch) {
        let Scratch { levels, coefficients, .. } = scratch;
        let has_y2 = macroblock.has_y2();
        let above = &mut self.contexts[column];
        let ends = ends(levels);
        self.coded[column] = ends.is_some();
        match &ends {
            Some(ends) => {
                self.reconstruction.add_residue(column, macroblock, ends, coefficients, &mut self.planes);
                self.collector.macroblock(levels, has_y2, above, &mut self.left);
            }
            None => tokens::skip(has_y2, above, &mut self.left),
        }
    }
}
