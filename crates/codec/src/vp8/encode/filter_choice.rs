//! How strongly a frame is filtered: tried on a part of it.

use super::task::Task;
use super::write::Field;
use crate::vp8::header::{FrameHeader, Lasting};
use crate::vp8::loop_filter::{Area, LoopFilter};
use crate::vp8::state::Filter;

/// Less where samples were copied, more where small pieces meet.
pub(crate) fn deltas(filter: &mut Filter) {
    *filter = Filter { deltas_enabled: true, reference: [2, 0, -2, -2], mode: [4, -2, 2, 4] };
}

/// A frame that is not filtered yet, and what the choice of its filter level needs.
pub(crate) struct Trial<'a> {
    pub(crate) task: &'a Task<'a>,
    pub(crate) field: Field<'a>,
    pub(crate) lasting: &'a Lasting,
    pub(crate) header: &'a FrameHeader,
}

impl Trial<'_> {
    /// The level that brings a band in the middle of the frame nearest to the source.
    pub(crate) fn level(&self, planes: &[&mut [u8]; 3]) -> u8 {
        let index = u32::from(self.header.quantizer.index);
        let first = (index * 60 / 100).min(63) as i32;
        let geometry = &self.task.geometry;
        // A band of a sixteenth of the rows, with the row above it.
        let count = (geometry.rows / 16).clamp(1, 12);
        let from = (geometry.rows - count) / 2;
        let above = usize::from(from > 0);
        let mut scratch: [Vec<u8>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        let mut distance = |level: i32| {
            for (index, (scratch, plane)) in scratch.iter_mut().zip(planes).enumerate() {
                let (_, _, stride) = geometry.plane(index);
                let lines = if index == 0 { 16 } else { 8 };
                let (start, end) = ((from - above) * lines * stride, (from + count) * lines * stride);
                scratch.clear();
                scratch.extend_from_slice(&plane[start..end]);
            }
            self.distance(level as u8, &mut scratch, (from, count, above))
        };
        let mut best = (distance(first), first);
        let mut step = (first / 3).max(2);
        for _ in 0..2 {
            let around = [best.1 - step, best.1 + step].map(|level| level.clamp(0, 63));
            for level in around {
                let found = distance(level);
                if found < best.0 {
                    best = (found, level);
                    break;
                }
            }
            step = (step / 2).max(1);
        }
        best.1 as u8
    }

    fn distance(
        &self,
        level: u8,
        scratch: &mut [Vec<u8>; 3],
        (from, count, above): (usize, usize, usize),
    ) -> u64 {
        let geometry = &self.task.geometry;
        let header = FrameHeader { filter_level: level, ..self.header.clone() };
        if let Some(filter) = LoopFilter::new(&header, &self.lasting.segmentation, &self.lasting.filter) {
            let [y, u, v] = &mut *scratch;
            let (y_stride, uv_stride) = (geometry.y_stride, geometry.uv_stride);
            let mut area = Area { y, u, v, y_stride, uv_stride };
            for row in 0..count {
                let macroblocks = self.field.row(from + row);
                filter.row(&mut area, geometry, row + above, macroblocks, self.task.kernels);
            }
        }
        // The last lines are not finished before the row below them is filtered.
        let (width, _, stride) = geometry.plane(0);
        let (source, source_stride) = self.task.source.at(0, 0, 16 * from);
        let filtered = &scratch[0][16 * above * stride..];
        let lines = 16 * count - 4;
        (self.task.encode_kernels.plane_sse)((source, source_stride), (filtered, stride), width, lines)
    }
}
