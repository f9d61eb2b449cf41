//! The loop filter (RFC 6386 §15): how strong it is for each macroblock, and the scalar reference of its kernels.

use super::frame::Geometry;
use super::header::FrameHeader;
use super::macroblock::{Macroblock, Mode, Reference};
use super::simd::Kernels;
use super::state::{Filter, Segmentation};

/// Thresholds of one macroblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Above this much difference across a macroblock's edge, it is no artefact and stays.
    pub(crate) macroblock_edge: u8,
    /// The same for the edges of its subblocks.
    pub(crate) subblock_edge: u8,
    /// The same for neighbouring samples on one side of an edge.
    pub(crate) interior: u8,
    /// Above this, the samples at the edge vary so much that only those next to it are changed.
    pub(crate) high_variance: u8,
}

/// The planes of a frame that is being filtered.
pub(crate) struct Area<'a> {
    pub(crate) y: &'a mut [u8],
    pub(crate) u: &'a mut [u8],
    pub(crate) v: &'a mut [u8],
    pub(crate) y_stride: usize,
    pub(crate) uv_stride: usize,
}

/// A frame's filter.
#[derive(Clone, Debug)]
pub(crate) struct LoopFilter {
    simple: bool,
    /// Levels by segment, reference and kind of mode: B_PRED or other intra; zero, other, or split vectors.
    levels: [[[u8; 4]; 4]; 4],
    thresholds: [Thresholds; 64],
}

/// The highest level.
const MAX_LEVEL: i32 = 63;

impl LoopFilter {
    /// The filter that a frame asks for, or `None` where it asks for none.
    pub(crate) fn new(
        header: &FrameHeader,
        segmentation: &Segmentation,
        deltas: &Filter,
    ) -> Option<LoopFilter> {
        if header.filter_level == 0 {
            return None;
        }
        let mut levels = [[[0; 4]; 4]; 4];
        for (segment, levels) in levels.iter_mut().enumerate() {
            let base = i32::from(header.filter_level);
            let value = i32::from(segmentation.filter_level[segment]);
            let level = match (segmentation.enabled, segmentation.absolute) {
                (false, _) => base,
                (true, true) => value,
                (true, false) => base + value,
            };
            let level = level.clamp(0, MAX_LEVEL);
            for (reference, levels) in levels.iter_mut().enumerate() {
                for (kind, out) in levels.iter_mut().enumerate() {
                    let mut level = level;
                    if deltas.deltas_enabled {
                        level += i32::from(deltas.reference[reference]);
                        // Of intra modes only B_PRED has an offset of its own.
                        if reference > 0 || kind == 0 {
                            level += i32::from(deltas.mode[kind]);
                        }
                    }
                    *out = level.clamp(0, MAX_LEVEL) as u8;
                }
            }
        }
        let thresholds =
            std::array::from_fn(|level| Thresholds::new(level as u8, header.sharpness, header.key));
        Some(LoopFilter { simple: header.simple_filter, levels, thresholds })
    }

    fn level(&self, macroblock: &Macroblock) -> u8 {
        let kind = match macroblock.mode {
            Mode::B => 0,
            Mode::Split => 3,
            Mode::Nearest | Mode::Near | Mode::New => 2,
            Mode::Zero | Mode::Dc | Mode::Vertical | Mode::Horizontal | Mode::TrueMotion => 1,
        };
        let reference = match macroblock.reference {
            Reference::Intra => 0,
            Reference::Last => 1,
            Reference::Golden => 2,
            Reference::Altref => 3,
        };
        self.levels[usize::from(macroblock.segment & 3)][reference][kind]
    }

    /// Filters a row of macroblocks. Changes up to three lines of the row above, and leaves the last three lines of
    /// this one to be changed by the row below.
    pub(crate) fn row(
        &self,
        area: &mut Area<'_>,
        geometry: &Geometry,
        row: usize,
        macroblocks: &[Macroblock],
        kernels: &Kernels,
    ) {
        for (column, macroblock) in macroblocks.iter().enumerate() {
            let level = self.level(macroblock);
            if level == 0 {
                continue;
            }
            let thresholds = &self.thresholds[usize::from(level & 63)];
            let y = 16 * row * geometry.y_stride + 16 * column;
            let uv = 8 * row * geometry.uv_stride + 8 * column;
            let subblocks = macroblock.coded || !macroblock.has_y2();
            let filters = if self.simple { &kernels.simple_filter } else { &kernels.normal_filter };
            if column > 0 {
                (filters.left)(area, y, uv, thresholds);
            }
            if subblocks {
                (filters.columns)(area, y, uv, thresholds);
            }
            if row > 0 {
                (filters.top)(area, y, uv, thresholds);
            }
            if subblocks {
                (filters.rows)(area, y, uv, thresholds);
            }
        }
    }
}

impl Thresholds {
    fn new(level: u8, sharpness: u8, key: bool) -> Thresholds {
        let mut interior = level >> (u8::from(sharpness > 0) + u8::from(sharpness > 4));
        if sharpness > 0 {
            interior = interior.min(9 - sharpness);
        }
        let interior = interior.max(1);
        let high_variance = match (key, level) {
            (true, 40..) => 2,
            (true, 15..) => 1,
            (false, 40..) => 3,
            (false, 20..) => 2,
            (false, 15..) => 1,
            _ => 0,
        };
        Thresholds {
            macroblock_edge: 2 * (level + 2) + interior,
            subblock_edge: 2 * level + interior,
            interior,
            high_variance,
        }
    }
}

/// The four kinds of edges of a macroblock: its left one, those between its columns of subblocks, its upper one,
/// those between its rows. Arguments: the planes, where the macroblock's luma and chroma begin, thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeFilters {
    pub(crate) left: EdgeFilter,
    pub(crate) columns: EdgeFilter,
    pub(crate) top: EdgeFilter,
    pub(crate) rows: EdgeFilter,
}

/// See [`EdgeFilters`].
pub(crate) type EdgeFilter = fn(&mut Area<'_>, usize, usize, &Thresholds);

/// The scalar normal filter.
pub(crate) const NORMAL: EdgeFilters = EdgeFilters {
    left: |area, y, uv, thresholds| {
        all_planes(area, y, uv, false, |plane, at, step| {
            macroblock_edge(plane, at, step, thresholds);
        });
    },
    columns: |area, y, uv, thresholds| normal_inside(area, y, uv, false, thresholds),
    top: |area, y, uv, thresholds| {
        all_planes(area, y, uv, true, |plane, at, step| {
            macroblock_edge(plane, at, step, thresholds);
        });
    },
    rows: |area, y, uv, thresholds| normal_inside(area, y, uv, true, thresholds),
};

/// The scalar simple filter, for luma alone.
pub(crate) const SIMPLE: EdgeFilters = EdgeFilters {
    left: |area, y, _, thresholds| {
        along(area.y, y, area.y_stride, 1, 16, |plane, at, step| {
            simple(plane, at, step, thresholds.macroblock_edge);
        });
    },
    columns: |area, y, _, thresholds| {
        for offset in [4, 8, 12] {
            along(area.y, y + offset, area.y_stride, 1, 16, |plane, at, step| {
                simple(plane, at, step, thresholds.subblock_edge);
            });
        }
    },
    top: |area, y, _, thresholds| {
        along(area.y, y, 1, area.y_stride, 16, |plane, at, step| {
            simple(plane, at, step, thresholds.macroblock_edge);
        });
    },
    rows: |area, y, _, thresholds| {
        for offset in [4, 8, 12] {
            along(area.y, y + offset * area.y_stride, 1, area.y_stride, 16, |plane, at, step| {
                simple(plane, at, step, thresholds.subblock_edge);
            });
        }
    },
};

/// Calls `filter` for each of `count` places along an edge, `next` bytes apart; samples across it are `step` apart.
fn along(
    plane: &mut [u8],
    at: usize,
    next: usize,
    step: usize,
    count: usize,
    filter: impl Fn(&mut [u8], usize, usize),
) {
    for place in 0..count {
        filter(plane, at + place * next, step);
    }
}

fn all_planes(
    area: &mut Area<'_>,
    y: usize,
    uv: usize,
    horizontal: bool,
    filter: impl Fn(&mut [u8], usize, usize),
) {
    for (plane, at, stride, count) in [
        (&mut *area.y, y, area.y_stride, 16),
        (&mut *area.u, uv, area.uv_stride, 8),
        (&mut *area.v, uv, area.uv_stride, 8),
    ] {
        let (next, step) = if horizontal { (1, stride) } else { (stride, 1) };
        along(plane, at, next, step, count, &filter);
    }
}

fn normal_inside(area: &mut Area<'_>, y: usize, uv: usize, horizontal: bool, thresholds: &Thresholds) {
    let edge = |plane: &mut [u8], at: usize, step: usize| subblock_edge(plane, at, step, thresholds);
    let luma = if horizontal { 4 * area.y_stride } else { 4 };
    let chroma = if horizontal { 4 * area.uv_stride } else { 4 };
    all_planes(area, y + luma, uv + chroma, horizontal, edge);
    let (next, step) = if horizontal { (1, area.y_stride) } else { (area.y_stride, 1) };
    along(area.y, y + 2 * luma, next, step, 16, edge);
    along(area.y, y + 3 * luma, next, step, 16, edge);
}

fn clamped(value: i32) -> i32 {
    value.clamp(-128, 127)
}

fn signed(sample: u8) -> i32 {
    i32::from(sample) - 128
}

fn unsigned(value: i32) -> u8 {
    (clamped(value) + 128) as u8
}

fn difference(plane: &[u8], a: usize, b: usize) -> i32 {
    i32::from(plane[a].abs_diff(plane[b]))
}

fn is_edge_artefact(plane: &[u8], at: usize, step: usize, edge: u8) -> bool {
    2 * difference(plane, at - step, at) + difference(plane, at - 2 * step, at + step) / 2 <= i32::from(edge)
}

fn is_smooth(plane: &[u8], at: usize, step: usize, interior: u8) -> bool {
    let within = |a: usize| difference(plane, a, a + step) <= i32::from(interior);
    [at - 4 * step, at - 3 * step, at - 2 * step, at, at + step, at + 2 * step].into_iter().all(within)
}

fn varies_highly(plane: &[u8], at: usize, step: usize, threshold: u8) -> bool {
    difference(plane, at - 2 * step, at - step) > i32::from(threshold)
        || difference(plane, at + step, at) > i32::from(threshold)
}

/// Changes the two samples next to the edge, and gives by how much the right one went down.
fn adjust(plane: &mut [u8], at: usize, step: usize, use_outer: bool) -> i32 {
    let (p1, p0) = (signed(plane[at - 2 * step]), signed(plane[at - step]));
    let (q0, q1) = (signed(plane[at]), signed(plane[at + step]));
    let outer = if use_outer { clamped(p1 - q1) } else { 0 };
    let value = clamped(outer + 3 * (q0 - p0));
    let (down, up) = (clamped(value + 4) >> 3, clamped(value + 3) >> 3);
    plane[at] = unsigned(q0 - down);
    plane[at - step] = unsigned(p0 + up);
    down
}

fn simple(plane: &mut [u8], at: usize, step: usize, edge: u8) {
    if is_edge_artefact(plane, at, step, edge) {
        adjust(plane, at, step, true);
    }
}

fn subblock_edge(plane: &mut [u8], at: usize, step: usize, thresholds: &Thresholds) {
    if !is_edge_artefact(plane, at, step, thresholds.subblock_edge)
        || !is_smooth(plane, at, step, thresholds.interior)
    {
        return;
    }
    let high_variance = varies_highly(plane, at, step, thresholds.high_variance);
    let change = (adjust(plane, at, step, high_variance) + 1) >> 1;
    if !high_variance {
        plane[at + step] = unsigned(signed(plane[at + step]) - change);
        plane[at - 2 * step] = unsigned(signed(plane[at - 2 * step]) + change);
    }
}

fn macroblock_edge(plane: &mut [u8], at: usize, step: usize, thresholds: &Thresholds) {
    if !is_edge_artefact(plane, at, step, thresholds.macroblock_edge)
        || !is_smooth(plane, at, step, thresholds.interior)
    {
        return;
    }
    if varies_highly(plane, at, step, thresholds.high_variance) {
        adjust(plane, at, step, true);
        return;
    }
    let outer = clamped(signed(plane[at - 2 * step]) - signed(plane[at + step]));
    let value = clamped(outer + 3 * (signed(plane[at]) - signed(plane[at - step])));
    for (distance, weight) in [(0, 27), (1, 18), (2, 9)] {
        let change = clamped((weight * value + 63) >> 7);
        let (right, left) = (at + distance * step, at - (distance + 1) * step);
        plane[right] = unsigned(signed(plane[right]) - change);
        plane[left] = unsigned(signed(plane[left]) + change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_follow_level_and_sharpness() {
        let thresholds = Thresholds::new(63, 0, true);
        assert_eq!((thresholds.macroblock_edge, thresholds.subblock_edge), (193, 189));
        assert_eq!((thresholds.interior, thresholds.high_variance), (63, 2));
        assert_eq!(Thresholds::new(63, 7, false).interior, 2);
        assert_eq!(Thresholds::new(20, 3, false).interior, 6);
        assert_eq!(Thresholds::new(1, 5, false).interior, 1);
        let variances = [14, 15, 20, 40].map(|level| Thresholds::new(level, 0, false).high_variance);
        assert_eq!(variances, [0, 1, 2, 3]);
    }

    #[test]
    fn a_small_step_is_smoothed_and_a_large_one_stays() {
        let thresholds = Thresholds::new(20, 0, false);
        let step = |height: u8| {
            let mut line = [[100; 8], [100 + height; 8]].concat();
            macroblock_edge(&mut line, 8, 1, &thresholds);
            line[5..11].to_vec()
        };
        assert_eq!(step(8), [101, 102, 103, 105, 106, 107]);
        assert_eq!(step(100), [100, 100, 100, 200, 200, 200]);
    }
}
