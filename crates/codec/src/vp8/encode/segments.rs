//! Segments: macroblocks that are quantised more finely than their frame (RFC 6386 §9.3).

use super::task::Task;
use crate::vp8::measure::Shape;
use crate::vp8::quantizer::ac_factor;
use crate::vp8::state::{Inner, Segmentation};

/// Segments, as macroblocks name them.
const STILL: u8 = 1;
/// Up to this sum of differences to the frame before, in quantiser steps, a macroblock stands still. Where nothing
/// moves, quantisation leaves about 30 steps of rich texture, and less of all else.
const STILL_LIMIT: u32 = 40;
/// A map of fewer still macroblocks, in percent, is not worth its bits.
const LEAST_PERCENT: usize = 5;

/// Which macroblocks get another quantiser than their frame, and which one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    /// The segment of each macroblock, row by row; nothing where all are alike.
    map: Vec<u8>,
    finer: u8,
}

impl Segments {
    /// Finds the macroblocks that stand still, where the request wants them finer. `index` is the quantiser that the
    /// frame is decided with.
    pub(crate) fn new(task: &Task<'_>, index: u8) -> Segments {
        let finer = task.request.still_finer.min(127);
        let Some(inner) = task.inner.filter(|_| finer > 0) else { return Segments::default() };
        let geometry = &task.geometry;
        let sad = task.encode_kernels.sad[Shape::Whole as usize];
        let limit = STILL_LIMIT * u32::from(ac_factor(index).unsigned_abs());
        let mut map = Vec::with_capacity(geometry.rows * geometry.columns);
        for row in 0..geometry.rows {
            for column in 0..geometry.columns {
                let (source, source_stride) = task.source.at(0, 16 * column, 16 * row);
                let last = &inner.last.plane(0)[16 * row * geometry.y_stride + 16 * column..];
                let stands = sad(source, source_stride, last, geometry.y_stride) < limit;
                map.push(if stands { STILL } else { 0 });
            }
        }
        let still = map.iter().filter(|&&segment| segment == STILL).count();
        if still * 100 < map.len() * LEAST_PERCENT {
            return Segments::default();
        }
        Segments { map, finer }
    }

    /// The segment of a macroblock by its number in the frame.
    pub(crate) fn of(&self, macroblock: usize) -> u8 {
        self.map.get(macroblock).copied().unwrap_or(0)
    }

    /// The quantiser index of each segment in a frame of `index`.
    pub(crate) fn indices(&self, index: u8) -> [u8; 4] {
        [index, index.saturating_sub(self.finer), index, index]
    }

    /// Says in a frame's header what the segments are; where there are none, what was said before stays for later.
    pub(crate) fn describe(&self, segmentation: &mut Segmentation) {
        segmentation.enabled = !self.map.is_empty();
        if segmentation.enabled {
            segmentation.absolute = false;
            // An index goes down to 0 at most, which decoders see to as well.
            segmentation.quantizer = [0, -(self.finer as i8), 0, 0];
            segmentation.filter_level = [0; 4];
        }
    }

    /// Whether the frame has to write the map: decoders keep one from the frame before, if that had segments too.
    pub(crate) fn updates_map(&self, before: Option<&Inner>) -> bool {
        let kept = before.is_some_and(|inner| inner.segmentation.enabled && *inner.segment_map == *self.map);
        !self.map.is_empty() && !kept
    }

    /// The map behind a frame that writes it.
    pub(crate) fn map(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Quality, Request, encode};
    use super::*;
    use crate::vp8::State;
    use glassline_media::{Picture, PixelFormat, Size, Time};

    #[test]
    fn a_map_is_written_where_it_is_another_one_or_may_be_forgotten() {
        let mut picture = Picture::new(PixelFormat::I420, Size::new(64, 32).unwrap(), Time::ZERO);
        let request = Request { quality: Quality::Quantizer(40), still_finer: 10, ..Request::default() };
        let first = encode(&State::new(), &picture, &request).unwrap();
        // The left half jumps.
        picture.planes_mut()[0].lines_mut().for_each(|line| line[..32].fill(200));
        let second = encode(&first.state, &picture, &request).unwrap();
        let map = [0, 0, STILL, STILL, 0, 0, STILL, STILL];
        let inner = second.state.0.as_deref().unwrap();
        assert_eq!((&inner.segment_map[..], inner.segmentation.quantizer), (&map[..], [0, -10, 0, 0]));

        let same = Segments { map: map.to_vec(), finer: 3 };
        assert!(!same.updates_map(Some(inner)), "decoders have it");
        assert!(same.updates_map(None) && same.updates_map(first.state.0.as_deref()));
        assert!(Segments { map: vec![STILL; 8], finer: 10 }.updates_map(Some(inner)));
        let plain = encode(&second.state, &picture, &Request { still_finer: 0, ..request }).unwrap();
        let inner = plain.state.0.as_deref().unwrap();
        assert!(!inner.segmentation.enabled && *inner.segment_map == map);
        assert!(
            same.updates_map(Some(inner)),
            "decoders differ in what they keep behind a frame without segments"
        );
        assert!(!Segments::default().updates_map(Some(inner)));
    }

    #[test]
    fn indices_end_at_the_finest() {
        let segments = Segments { map: vec![STILL], finer: 20 };
        assert_eq!(segments.indices(50), [50, 30, 50, 50]);
        assert_eq!(segments.indices(7)[1], 0);
        assert_eq!(Segments::default().indices(50), [50; 4]);
    }
}
