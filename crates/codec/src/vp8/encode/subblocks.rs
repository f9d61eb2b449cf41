//! B_PRED: a macroblock's 16 subblocks of luma, each predicted from the ones before it.

use super::quantization::kind;
use super::rate::{self, Cost};
use super::residue::Coding;
use super::tokens::Levels;
use crate::vp8::macroblock::{BMode, Macroblock};
use crate::vp8::modes::B_MODES;
use crate::vp8::predict::intra::{self, SubblockEdges};
use crate::vp8::reconstruct::Reconstruction;
use crate::vp8::tokens::Context;

/// A macroblock's luma with a line above it and a column to the left.
#[derive(Debug)]
pub(crate) struct Tile([u8; 17 * Tile::STRIDE]);

impl Tile {
    const STRIDE: usize = 32;
    /// Where the first sample of a line stands.
    const FIRST: usize = 8;

    /// What lies around the macroblock at (`column`, `row`).
    pub(crate) fn new(reconstruction: &Reconstruction<'_>, column: usize, plane: &[u8]) -> Tile {
        let x = 16 * column;
        let mut tile = [0; 17 * Tile::STRIDE];
        let above = reconstruction.top.from(0, x);
        tile[Tile::FIRST..Tile::FIRST + 20].copy_from_slice(&above[..20]);
        tile[Tile::FIRST - 1] = reconstruction.top.corner(0, x);
        for (line, left) in reconstruction.left::<16>(0, column, plane).into_iter().enumerate() {
            tile[(line + 1) * Tile::STRIDE + Tile::FIRST - 1] = left;
        }
        // Down the right side, all subblocks see the row above the macroblock.
        for line in [4, 8, 12] {
            tile[line * Tile::STRIDE + Tile::FIRST + 16..][..4].copy_from_slice(&above[16..20]);
        }
        Tile(tile)
    }

    fn corner(block: usize) -> usize {
        block / 4 * 4 * Tile::STRIDE + Tile::FIRST + block % 4 * 4 - 1
    }

    fn edges(&self, block: usize) -> SubblockEdges {
        let corner = Tile::corner(block);
        let mut edges: SubblockEdges = [0; 13];
        for (at, edge) in edges[..4].iter_mut().enumerate() {
            *edge = self.0[corner + (4 - at) * Tile::STRIDE];
        }
        edges[4..].copy_from_slice(&self.0[corner..corner + 9]);
        edges
    }

    /// Predicts a subblock and codes what is left; gives where its levels end.
    #[allow(clippy::too_many_arguments, reason = "a block's source, place, and where all of it goes")]
    fn code(
        &mut self,
        coding: &Coding<'_>,
        block: usize,
        mode: BMode,
        edges: &SubblockEdges,
        (source, source_stride): (&[u8], usize),
        context: u8,
        levels: &mut [i16; 16],
        add: fn(&mut [u8], usize, &mut [i16; 16]),
    ) -> u8 {
        let dst = &mut self.0[Tile::corner(block) + Tile::STRIDE + 1..];
        intra::subblock(mode, dst, Tile::STRIDE, edges);
        let (mut coefficients, mut dequantized) = ([0; 16], [0; 16]);
        let forward = coding.kernels.forward_block;
        forward(source, source_stride, dst, Tile::STRIDE, &mut coefficients);
        let end = coding.block(&coefficients, (kind::Y, 0, context), levels, &mut dequantized);
        if end > 0 {
            add(dst, Tile::STRIDE, &mut dequantized);
        }
        end
    }
}

/// A subblock's source.
fn block_of(source: (&[u8], usize), block: usize) -> (&[u8], usize) {
    (&source.0[block / 4 * 4 * source.1 + block % 4 * 4..], source.1)
}

/// The cost of a subblock's mode, given those above and to the left.
fn mode_cost(key: bool, costs: &rate::ModeCosts, mode: BMode, above: BMode, left: BMode) -> Cost {
    if key { rate::key_b_mode(mode, above, left) } else { costs.b[mode as usize] }
}

/// What choosing subblock modes depends on.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) key: bool,
    pub(crate) costs: &'a rate::ModeCosts,
    pub(crate) neighbours: (&'a Macroblock, &'a Macroblock),
    /// What a bit is worth in SATD, in 16ths.
    pub(crate) price: u32,
}

impl Choice<'_> {
    /// Chooses the modes of a macroblock's subblocks, if all of them together stay below `limit`; gives their cost.
    pub(crate) fn run(
        &self,
        coding: &Coding<'_>,
        mut tile: Tile,
        macroblock: &mut Macroblock,
        source: (&[u8], usize),
        add: fn(&mut [u8], usize, &mut [i16; 16]),
        limit: u32,
    ) -> Option<u32> {
        let mut total = 0;
        let mut levels = [0; 16];
        for block in 0..16 {
            let edges = tile.edges(block);
            let source = block_of(source, block);
            let distances = (coding.kernels.subblock_costs)(source.0, source.1, &edges);
            let above =
                if block < 4 { self.neighbours.0.b_mode(block + 12) } else { macroblock.b_modes[block - 4] };
            let left = if block % 4 == 0 {
                self.neighbours.1.b_mode(block + 3)
            } else {
                macroblock.b_modes[block - 1]
            };
            let costed = B_MODES.into_iter().zip(distances).map(|(mode, distance)| {
                let bits = mode_cost(self.key, self.costs, mode, above, left);
                (distance + ((bits * self.price) >> 12), mode)
            });
            let (cost, mode) = costed.min_by_key(|&(cost, _)| cost).unwrap_or((0, BMode::Dc));
            macroblock.b_modes[block] = mode;
            total += cost;
            if total >= limit {
                return None;
            }
            // The context's tokens are those of an ordinary block; it is only to be predicted from.
            tile.code(coding, block, mode, &edges, source, 1, &mut levels, add);
        }
        Some(total)
    }
}

/// Codes the subblocks of a macroblock by the modes that are chosen already, and reconstructs them into `plane`.
#[allow(clippy::too_many_arguments, reason = "a macroblock's source, place, and where all of it goes")]
pub(crate) fn code(
    coding: &Coding<'_>,
    reconstruction: &Reconstruction<'_>,
    column: usize,
    macroblock: &Macroblock,
    source: (&[u8], usize),
    (above, left): (&Context, &Context),
    levels: &mut Levels,
    plane: &mut [u8],
) {
    let mut tile = Tile::new(reconstruction, column, plane);
    let (mut on_top, mut to_left) = (*above, *left);
    for (block, &mode) in macroblock.b_modes.iter().enumerate() {
        let (x, y) = (block % 4, block / 4);
        let edges = tile.edges(block);
        let (source, context) = (block_of(source, block), on_top[x] + to_left[y]);
        let add = reconstruction.kernels.add_block;
        let end = tile.code(coding, block, mode, &edges, source, context, &mut levels.blocks[block], add);
        levels.ends[block] = end;
        (on_top[x], to_left[y]) = (u8::from(end > 0), u8::from(end > 0));
    }
    let (at, stride) = (reconstruction.at(0, column), reconstruction.geometry.y_stride);
    for line in 0..16 {
        let out = &mut plane[at + line * stride..][..16];
        out.copy_from_slice(&tile.0[(line + 1) * Tile::STRIDE + Tile::FIRST..][..16]);
    }
}
