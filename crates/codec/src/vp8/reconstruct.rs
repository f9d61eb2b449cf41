//! From modes and coefficients to samples, macroblock by macroblock.

use super::frame::Geometry;
use super::macroblock::{Macroblock, Mode, Reference};
use super::predict::inter;
use super::predict::intra::{self, ABOVE, Edges, LEFT, SubblockEdges};
use super::simd::Kernels;
use super::state::Inner;
use super::tokens::{Coefficients, Ends, Y2};
use super::transform;

/// The last lines of the row above, before they were filtered; beyond the picture as intra prediction sees it.
#[derive(Debug, Default)]
pub(crate) struct TopLines {
    planes: [Vec<u8>; 3],
}

/// Samples in front of and behind each line.
const MARGIN: usize = 16;

impl TopLines {
    /// What lies above the first row.
    pub(crate) fn reset(&mut self, geometry: &Geometry) {
        for (index, line) in self.planes.iter_mut().enumerate() {
            line.clear();
            line.resize(geometry.plane(index).0 + 2 * MARGIN, ABOVE);
        }
    }

    /// Takes the last lines of `row`.
    pub(crate) fn keep(&mut self, geometry: &Geometry, row: usize, planes: &[&mut [u8]; 3]) {
        let lines = last_lines(geometry, row, planes);
        self.take(geometry, 0, lines);
    }

    /// Takes a piece of the last lines of a row, from macroblock `column` on.
    pub(crate) fn take(&mut self, geometry: &Geometry, column: usize, lines: [&[u8]; 3]) {
        for (index, (line, samples)) in self.planes.iter_mut().zip(lines).enumerate() {
            let (width, _, _) = geometry.plane(index);
            let from = MARGIN + column * if index == 0 { 16 } else { 8 };
            line[from..from + samples.len()].copy_from_slice(samples);
            line[MARGIN - 1] = LEFT;
            if from + samples.len() == MARGIN + width {
                // To the right, the last sample goes on.
                let sample = line[MARGIN + width - 1];
                line[MARGIN + width..].fill(sample);
            }
        }
    }

    /// The samples above from `x` on.
    pub(crate) fn from(&self, index: usize, x: usize) -> &[u8] {
        &self.planes[index][MARGIN + x..]
    }

    /// The sample above and to the left of `x`.
    pub(crate) fn corner(&self, index: usize, x: usize) -> u8 {
        self.planes[index][MARGIN + x - 1]
    }
}

/// The last lines of `row`, of each plane.
pub(crate) fn last_lines<'a>(geometry: &Geometry, row: usize, planes: &'a [&mut [u8]; 3]) -> [&'a [u8]; 3] {
    [0, 1, 2].map(|index| {
        let (width, _, stride) = geometry.plane(index);
        let lines = if index == 0 { 16 } else { 8 };
        &planes[index][((row + 1) * lines - 1) * stride..][..width]
    })
}

/// What the macroblocks of a row have in common.
#[derive(Debug)]
pub(crate) struct Reconstruction<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) top: &'a TopLines,
    pub(crate) references: Option<&'a Inner>,
    pub(crate) version: u8,
    pub(crate) kernels: &'a Kernels,
    pub(crate) row: usize,
    /// The row that planes begin with.
    pub(crate) first_row: usize,
}

impl Reconstruction<'_> {
    /// Where a macroblock's samples begin in a plane.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize, column: usize) -> usize {
        let (side, stride) =
            if index == 0 { (16, self.geometry.y_stride) } else { (8, self.geometry.uv_stride) };
        side * ((self.row - self.first_row) * stride + column)
    }

    /// The column to the left of a macroblock.
    #[inline(always)]
    pub(crate) fn left<const N: usize>(&self, index: usize, column: usize, plane: &[u8]) -> [u8; N] {
        let mut left = [LEFT; N];
        if column > 0 {
            let (_, _, stride) = self.geometry.plane(index);
            let lines = plane[self.at(index, column) - 1..].chunks(stride);
            left.iter_mut().zip(lines).for_each(|(sample, line)| *sample = line[0]);
        }
        left
    }

    /// Predicts a macroblock and adds its residue, if it has any; leaves `coefficients` all zero.
    pub(crate) fn macroblock(
        &mut self,
        column: usize,
        macroblock: &Macroblock,
        ends: Option<&Ends>,
        coefficients: &mut Coefficients,
        planes: &mut [&mut [u8]; 3],
    ) {
        self.predict(column, macroblock, planes, false);
        if macroblock.mode == Mode::B {
            self.subblocks(column, macroblock, ends.is_some(), coefficients, planes[0]);
        }
        if let Some(ends) = ends {
            self.add_residue(column, macroblock, ends, coefficients, planes);
        }
    }

    /// Predicts a macroblock, but for luma where its subblocks have modes of their own, or where it has one vector
    /// and `has_luma` says that this is done.
    pub(crate) fn predict(
        &self,
        column: usize,
        macroblock: &Macroblock,
        planes: &mut [&mut [u8]; 3],
        has_luma: bool,
    ) {
        let inner = self.references;
        let reference = match macroblock.reference {
            Reference::Intra => None,
            Reference::Last => inner.map(|inner| &inner.last),
            Reference::Golden => inner.map(|inner| &inner.golden),
            Reference::Altref => inner.map(|inner| &inner.altref),
        };
        if let Some(reference) = reference {
            let place = (column, self.row);
            let at = [self.at(0, column), self.at(1, column)];
            let how = (self.kernels, self.version);
            inter::macroblock(planes, self.geometry, reference, macroblock, (place, at), how, has_luma);
            return;
        }
        for index in [1, 2] {
            self.predict_square::<8>(index, column, macroblock.uv_mode, planes[index]);
        }
        if macroblock.mode != Mode::B {
            self.predict_square::<16>(0, column, macroblock.mode, planes[0]);
        }
    }

    fn predict_square<const N: usize>(&self, index: usize, column: usize, mode: Mode, plane: &mut [u8]) {
        let (_, _, stride) = self.geometry.plane(index);
        let left: [u8; N] = self.left(index, column, plane);
        let edges = self.edges(index, column, &left);
        intra::square::<N>(mode, &mut plane[self.at(index, column)..], stride, &edges);
    }

    /// What lies around a macroblock, `left` of it as given.
    #[inline(always)]
    pub(crate) fn edges<'b>(&'b self, index: usize, column: usize, left: &'b [u8]) -> Edges<'b> {
        let x = column * if index == 0 { 16 } else { 8 };
        Edges {
            above: self.top.from(index, x),
            left,
            corner: self.top.corner(index, x),
            has_above: self.row > 0,
            has_left: column > 0,
        }
    }

    /// Predicts and completes luma's subblocks one after the other, each from the ones before it.
    fn subblocks(
        &self,
        column: usize,
        macroblock: &Macroblock,
        coded: bool,
        coefficients: &mut Coefficients,
        plane: &mut [u8],
    ) {
        // The macroblock with a line above it and a column to the left, from byte `FIRST` of each line on.
        const STRIDE: usize = 32;
        const FIRST: usize = 8;
        let stride = self.geometry.y_stride;
        let (x, at) = (16 * column, self.at(0, column));
        let mut tile = [0u8; 17 * STRIDE];
        let above = self.top.from(0, x);
        tile[FIRST..FIRST + 20].copy_from_slice(&above[..20]);
        tile[FIRST - 1] = self.top.corner(0, x);
        for (line, left) in self.left::<16>(0, column, plane).into_iter().enumerate() {
            tile[(line + 1) * STRIDE + FIRST - 1] = left;
        }
        // Down the right side, all subblocks see the row above the macroblock, since what would be there is not
        // decoded yet.
        for line in [4, 8, 12] {
            tile[line * STRIDE + FIRST + 16..][..4].copy_from_slice(&above[16..20]);
        }
        for (block, &mode) in macroblock.b_modes.iter().enumerate() {
            let corner = block / 4 * 4 * STRIDE + FIRST + block % 4 * 4 - 1;
            let mut edges: SubblockEdges = [0; 13];
            for (at, edge) in edges[..4].iter_mut().enumerate() {
                *edge = tile[corner + (4 - at) * STRIDE];
            }
            edges[4..].copy_from_slice(&tile[corner..corner + 9]);
            let dst = &mut tile[corner + STRIDE + 1..];
            intra::subblock(mode, dst, STRIDE, &edges);
            let block = coefficients.as_chunks_mut::<16>().0.get_mut(block);
            if let Some(block) = block.filter(|block| coded && **block != [0; 16]) {
                (self.kernels.add_block)(dst, STRIDE, block);
            }
        }
        for line in 0..16 {
            let out = &mut plane[at + line * stride..][..16];
            out.copy_from_slice(&tile[(line + 1) * STRIDE + FIRST..][..16]);
        }
    }

    pub(crate) fn add_residue(
        &self,
        column: usize,
        macroblock: &Macroblock,
        ends: &Ends,
        coefficients: &mut Coefficients,
        planes: &mut [&mut [u8]; 3],
    ) {
        let geometry = self.geometry;
        if macroblock.has_y2() && ends.blocks[Y2] > 0 {
            let dc = transform::inverse_wht(&coefficients[Y2 * 16..]);
            for (block, dc) in coefficients.as_chunks_mut::<16>().0.iter_mut().zip(dc) {
                block[0] = dc;
            }
            coefficients[Y2 * 16..].fill(0);
        }
        let kernels = self.kernels;
        let (groups, _) = coefficients.as_chunks_mut::<64>();
        let has_ac = |ends: &[u8]| ends.iter().any(|&end| end > 1);
        let has_dc = |group: &[i16; 64]| [0, 16, 32, 48].iter().any(|&at| group[at] != 0);
        if macroblock.mode != Mode::B {
            let at = self.at(0, column);
            for (line, group) in groups[..4].iter_mut().enumerate() {
                let dst = &mut planes[0][at + 4 * line * geometry.y_stride..];
                if has_ac(&ends.blocks[4 * line..4 * line + 4]) {
                    (kernels.add_four)(dst, geometry.y_stride, group);
                } else if has_dc(group) {
                    (kernels.add_four_dc)(dst, geometry.y_stride, group);
                }
            }
        }
        let at = self.at(1, column);
        for (index, group) in groups[4..6].iter_mut().enumerate() {
            let dst = &mut planes[index + 1][at..];
            if has_ac(&ends.blocks[16 + 4 * index..20 + 4 * index]) {
                (kernels.add_square)(dst, geometry.uv_stride, group);
            } else if has_dc(group) {
                (kernels.add_square_dc)(dst, geometry.uv_stride, group);
            }
        }
    }
}
