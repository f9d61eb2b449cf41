//! What coding a frame fills.

use super::quantization::Quantizations;
use super::tokens::{Counts, Token};
use crate::vp8::frame::Geometry;
use crate::vp8::macroblock::Macroblock;
use crate::vp8::reconstruct::TopLines;
use crate::vp8::tokens::Context;

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
    pub(crate) fn reset(&mut self, geometry: &Geometry, layers: usize, replay: bool) {
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
