//! What bits cost: tables made from the probabilities that a frame starts from, in 256ths of a bit.

use crate::vp8::bool_coder::{Path, paths};
use crate::vp8::macroblock::{BMode, Mode};
use crate::vp8::modes::{B_TREE, KEY_Y_TREE, UV_TREE, Y_TREE};
use crate::vp8::motion::SHORT_TREE;
use crate::vp8::state::Probabilities;
use crate::vp8::tables::modes::{B_MODE, KEY_B_MODE, KEY_UV_MODE, KEY_Y_MODE};
use crate::vp8::tokens::LARGE;
use crate::vp8::vector::Vector;

/// 256ths of a bit.
pub(crate) type Cost = u32;

/// 256 times −log₂(`probability` / 256), by squaring the mantissa bit by bit.
const fn cost_of(probability: u32) -> u16 {
    if probability == 0 {
        return 2048;
    }
    let whole = probability.ilog2();
    let mut mantissa = ((probability as u64) << 31) >> whole;
    let (mut fraction, mut bit) = (0u32, 0);
    // One bit more than is kept, to round by.
    while bit < 9 {
        mantissa = (mantissa * mantissa) >> 31;
        fraction <<= 1;
        if mantissa >> 32 != 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
        bit += 1;
    }
    (2048 - whole * 256 - fraction.div_ceil(2)) as u16
}

const BITS: [u16; 257] = {
    let mut costs = [0; 257];
    let mut at = 0;
    while at < 256 {
        costs[at] = cost_of(at as u32);
        at += 1;
    }
    costs
};

/// The cost of a bit that is 0 with probability `probability / 256`.
#[inline(always)]
pub(crate) const fn bit(bit: bool, probability: u8) -> Cost {
    BITS[if bit { 256 - probability as usize } else { probability as usize }] as Cost
}

/// The cost of a leaf of a tree.
pub(crate) const fn leaf(tree: &[i8], probabilities: &[u8], path: Path) -> Cost {
    let (mut at, mut cost, mut shift) = (0usize, 0, path.length);
    while shift > 0 {
        shift -= 1;
        let taken = path.bits >> shift & 1;
        cost += bit(taken != 0, probabilities[at >> 1]);
        at = tree[at + taken as usize] as usize;
    }
    cost
}

/// Ways to luma's modes, as [`Mode`] numbers them.
pub(crate) const Y_PATHS: [Path; 5] = paths(&Y_TREE);
pub(crate) const KEY_Y_PATHS: [Path; 5] = paths(&KEY_Y_TREE);
pub(crate) const UV_PATHS: [Path; 4] = paths(&UV_TREE);
pub(crate) const B_PATHS: [Path; 10] = paths(&B_TREE);
pub(crate) const SHORT_PATHS: [Path; 8] = paths(&SHORT_TREE);

/// Tokens: values 0 to 4, six categories of larger ones, and the end of a block.
pub(crate) const TOKENS: usize = 12;
pub(crate) const END: usize = 11;
/// The least value of each category.
pub(crate) const CATEGORY_BASE: [u16; 6] = [5, 7, 11, 19, 35, 67];

/// The token of an absolute value.
#[inline(always)]
pub(crate) const fn token_of(value: u16) -> usize {
    match value {
        0..=4 => value as usize,
        5..=6 => 5,
        7..=10 => 6,
        11..=18 => 7,
        19..=34 => 8,
        35..=66 => 9,
        _ => 10,
    }
}

/// Sign and extra bits of absolute values up to 255.
const EXTRA: [u16; 256] = {
    let mut costs = [256; 256];
    costs[0] = 0;
    let mut value = 5;
    while value < 256 {
        costs[value] = 256 + extra_of(value as u16) as u16;
        value += 1;
    }
    costs
};

const fn extra_of(value: u16) -> Cost {
    let token = token_of(value);
    let extra = value - CATEGORY_BASE[token - 5];
    match token {
        5 => bit(extra != 0, 159),
        6 => bit(extra & 2 != 0, 165) + bit(extra & 1 != 0, 145),
        _ => {
            let probabilities = LARGE[token - 7];
            let (mut cost, mut at) = (0, 0);
            while at < probabilities.len() {
                cost += bit(extra >> (probabilities.len() - 1 - at) & 1 != 0, probabilities[at]);
                at += 1;
            }
            cost
        }
    }
}

/// The cost of sign and extra bits of a level.
#[inline(always)]
pub(crate) fn extra(value: u16) -> Cost {
    match EXTRA.get(usize::from(value)) {
        Some(&cost) => Cost::from(cost),
        None => 256 + extra_of(value.min(2047)),
    }
}

/// Costs of tokens in one context.
pub(crate) type TokenCosts = [u16; TOKENS];

/// Costs of tokens by kind of block, band and context.
#[derive(Clone, Debug)]
pub(crate) struct BlockCosts {
    /// Where the block may end.
    pub(crate) open: [[[TokenCosts; 3]; 8]; 4],
    /// Behind a zero, where it may not.
    pub(crate) behind_zero: [[[TokenCosts; 3]; 8]; 4],
}

impl BlockCosts {
    pub(crate) fn new(probs: &Probabilities) -> BlockCosts {
        let mut costs = BlockCosts { open: [[[[0; 12]; 3]; 8]; 4], behind_zero: [[[[0; 12]; 3]; 8]; 4] };
        for kind in 0..4 {
            for band in 0..8 {
                for context in 0..3 {
                    let probs = &probs.coefficients[kind][band][context];
                    let tail = tail_costs(probs);
                    let open = bit(true, probs[0]) as u16;
                    costs.behind_zero[kind][band][context] = tail;
                    let with = &mut costs.open[kind][band][context];
                    *with = tail.map(|cost| cost + open);
                    with[END] = bit(false, probs[0]) as u16;
                }
            }
        }
        costs
    }
}

fn tail_costs(probs: &[u8; 11]) -> TokenCosts {
    let cost = |path: &[(usize, bool)]| -> u16 {
        path.iter().map(|&(node, taken)| bit(taken, probs[node]) as u16).sum()
    };
    let large = |path: &[(usize, bool)]| cost(&[(1, true), (2, true), (3, true)]) + cost(path);
    [
        cost(&[(1, false)]),
        cost(&[(1, true), (2, false)]),
        cost(&[(1, true), (2, true), (3, false), (4, false)]),
        cost(&[(1, true), (2, true), (3, false), (4, true), (5, false)]),
        cost(&[(1, true), (2, true), (3, false), (4, true), (5, true)]),
        large(&[(6, false), (7, false)]),
        large(&[(6, false), (7, true)]),
        large(&[(6, true), (8, false), (9, false)]),
        large(&[(6, true), (8, false), (9, true)]),
        large(&[(6, true), (8, true), (10, false)]),
        large(&[(6, true), (8, true), (10, true)]),
        // No block ends behind a zero.
        8192,
    ]
}

/// The longest component of a vector's difference.
pub(crate) const MAX_COMPONENT: i32 = 1023;
/// Components below this have a cost of their own in the table; a longer one is counted as the longest of them, since
/// it costs about as much.
const TABLED: usize = 256;

/// Costs of motion vectors and modes.
#[derive(Clone, Debug)]
pub(crate) struct ModeCosts {
    vector: [[u16; TABLED]; 2],
    signs: [[u16; 2]; 2],
    /// Luma's modes of intra macroblocks, as [`Mode`] numbers them.
    pub(crate) y: [Cost; 5],
    pub(crate) uv: [Cost; 4],
    /// Subblock modes without context.
    pub(crate) b: [Cost; 10],
}

impl ModeCosts {
    pub(crate) fn new(key: bool, probs: &Probabilities) -> ModeCosts {
        let (y_probs, uv_probs) =
            if key { (&KEY_Y_MODE, &KEY_UV_MODE) } else { (&probs.y_mode, &probs.uv_mode) };
        let y = |mode: usize| {
            let (tree, paths) = if key { (&KEY_Y_TREE, &KEY_Y_PATHS) } else { (&Y_TREE, &Y_PATHS) };
            leaf(tree, y_probs, paths[mode])
        };
        ModeCosts {
            vector: probs.vector.map(|probs| component_costs(&probs)),
            signs: probs.vector.map(|probs| [bit(false, probs[1]) as u16, bit(true, probs[1]) as u16]),
            y: std::array::from_fn(y),
            uv: std::array::from_fn(|mode| leaf(&UV_TREE, uv_probs, UV_PATHS[mode])),
            b: std::array::from_fn(|mode| leaf(&B_TREE, &B_MODE, B_PATHS[mode])),
        }
    }

    #[inline(always)]
    fn component(&self, index: usize, value: i32) -> Cost {
        let cost = self.vector[index][(value.unsigned_abs() as usize).min(TABLED - 1)];
        Cost::from(cost) + if value == 0 { 0 } else { Cost::from(self.signs[index][usize::from(value < 0)]) }
    }

    /// The cost of coding `vector` as its difference to `best`.
    #[inline(always)]
    pub(crate) fn vector(&self, vector: Vector, best: Vector) -> Cost {
        self.component(0, i32::from(vector.row()) - i32::from(best.row()))
            + self.component(1, i32::from(vector.column()) - i32::from(best.column()))
    }
}

/// By mode above, mode to the left, and mode.
static KEY_B_COSTS: [[[u16; 10]; 10]; 10] = {
    let mut costs = [[[0; 10]; 10]; 10];
    let mut at = 0;
    while at < 1000 {
        let (above, left, mode) = (at / 100, at / 10 % 10, at % 10);
        costs[above][left][mode] = leaf(&B_TREE, &KEY_B_MODE[above][left], B_PATHS[mode]) as u16;
        at += 1;
    }
    costs
};

/// The cost of a subblock's mode in a key frame.
#[inline(always)]
pub(crate) fn key_b_mode(mode: BMode, above: BMode, left: BMode) -> Cost {
    Cost::from(KEY_B_COSTS[above as usize][left as usize][mode as usize])
}

/// The place of an intra mode in tables of costs and counts.
pub(crate) fn intra_index(mode: Mode) -> usize {
    match mode {
        Mode::Vertical => 1,
        Mode::Horizontal => 2,
        Mode::TrueMotion => 3,
        Mode::B => 4,
        _ => 0,
    }
}

fn component_costs(probs: &[u8; 19]) -> [u16; TABLED] {
    std::array::from_fn(|value| component_cost(probs, value as u32) as u16)
}

/// The cost of a component's absolute value, without its sign.
pub(crate) fn component_cost(probs: &[u8; 19], value: u32) -> Cost {
    if value < 8 {
        return bit(false, probs[0]) + leaf(&SHORT_TREE, &probs[2..9], SHORT_PATHS[value as usize]);
    }
    let long = &probs[9..];
    let bits = [0, 1, 2, 4, 5, 6, 7, 8, 9].map(|at| bit(value >> at & 1 != 0, long[at]));
    let third = if value > 15 { bit(value & 8 != 0, long[3]) } else { 0 };
    bit(true, probs[0]) + bits.iter().sum::<Cost>() + third
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_cost_what_information_theory_says() {
        for probability in 1..=255u8 {
            let exact = -256.0 * (f64::from(probability) / 256.0).log2();
            assert!((f64::from(bit(false, probability)) - exact).abs() <= 1.0, "{probability}");
        }
        assert_eq!((bit(false, 128), bit(true, 128), bit(false, 1)), (256, 256, 2048));
    }

    #[test]
    fn tokens_hold_their_values() {
        assert_eq!([5, 7, 11, 19, 35, 67].map(token_of), [5, 6, 7, 8, 9, 10]);
        assert_eq!([6, 10, 18, 34, 66, 2000].map(token_of), [5, 6, 7, 8, 9, 10]);
        assert_eq!((extra(0), extra(4)), (0, 256));
        assert!(extra(255) > extra(67) && extra(2047) > 3000);
    }
}
