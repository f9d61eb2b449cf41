//! What all macroblocks of a frame are decided and coded by.

use super::parallel::Parallel;
use super::quantization::Quantizations;
use super::rate::{BlockCosts, ModeCosts};
use super::residue::Coding;
use super::segments::Segments;
use super::source::Source;
use super::speed::{Tools, hurried};
use crate::vp8::frame::Geometry;
use crate::vp8::macroblock::Reference;
use crate::vp8::reconstruct::{Reconstruction, TopLines};
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::state::Inner;

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
    pub(crate) speed: u8,
    pub(crate) tools: Tools,
    /// Tells how much of the picture's time is gone.
    pub(crate) parallel: &'a dyn Parallel,
    pub(crate) kernels: &'static Kernels,
    pub(crate) encode_kernels: &'static EncodeKernels,
}

impl Job<'_> {
    pub(crate) fn coding<'b>(&'b self, quantizations: &'b Quantizations) -> Coding<'b> {
        Coding {
            kernels: self.encode_kernels,
            quantization: &quantizations[0],
            costs: self.block_costs,
            weigh: self.tools.weigh,
        }
    }

    /// What a row that is begun now is decided with.
    pub(crate) fn row_tools(&self, row: usize) -> Tools {
        let done = row as f64 / self.geometry.rows.max(1) as f64;
        match hurried(self.speed, self.parallel.spent(), done) {
            speed if speed == self.speed => self.tools,
            speed => Tools::new(speed),
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
}
