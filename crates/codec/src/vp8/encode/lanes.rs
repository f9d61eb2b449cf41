//! One macroblock in all layers of a frame: it is decided once, predicted and transformed once where it is inter, and coded in
//! each.

use super::decision::{Decider, Prediction};
use super::job::Job;
use super::quantization::Quantizations;
use super::residue::{Coding, Residue, Samples, ends};
use super::speed::Tools;
use super::subblocks;
use super::tokens::{Collector, Levels};
use crate::vp8::macroblock::{Macroblock, Mode};
use crate::vp8::reconstruct::Reconstruction;
use crate::vp8::tokens::{self, BLOCKS, Context};

impl Job<'_> {
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
            let decider =
                Decider::new((self, &scratch.tools), &first.reconstruction, (column, row), above, current);
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
    tools: Tools,
}

impl Scratch {
    pub(crate) fn new(tools: Tools) -> Box<Scratch> {
        Box::new(Scratch {
            tools,
            levels: Levels::ZERO,
            coefficients: [0; BLOCKS * 16],
            residue: Residue::ZERO,
            prediction: Prediction::NONE,
        })
    }

    /// Another row is begun: its macroblocks are decided with these.
    pub(crate) fn begin_row(&mut self, tools: Tools) {
        self.tools = tools;
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
