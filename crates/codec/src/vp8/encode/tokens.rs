//! Levels to tokens: collected and counted while a frame is analysed, written once its probabilities are chosen
//! (RFC 6386 §13).

use super::rate::{CATEGORY_BASE, END, TOKENS, token_of};
use crate::vp8::bool_coder::BoolEncoder;
use crate::vp8::tables::coefficients::CoefficientProbs;
use crate::vp8::tokens::{BANDS, BLOCKS, Context, LARGE, Y2};

/// Kind, band and context of a token as one number.
const CONTEXTS: usize = 4 * 8 * 3;

/// How often each token came, and how often one came behind a zero, by kind, band and context.
pub(crate) type Counts = [[u32; TOKENS + 1]; CONTEXTS];

/// Behind the tokens' counts: those of tokens behind a zero.
const BEHIND_ZERO: usize = TOKENS;

/// A token with all that writing it takes: its context from bit 0, itself from bit 8, whether it stands behind a zero
/// in bit 12, its extra bits from bit 16, its sign in bit 28.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token(u32);

/// The levels of a macroblock, in zigzag order, and where its blocks end.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) blocks: [[i16; 16]; BLOCKS],
    /// The position behind the last level that is not 0; at least that is 0 where a block has none.
    pub(crate) ends: [u8; BLOCKS],
}

impl Levels {
    pub(crate) const ZERO: Levels = Levels { blocks: [[0; 16]; BLOCKS], ends: [0; BLOCKS] };

    /// Whether there is nothing to code.
    pub(crate) fn is_zero(&self) -> bool {
        self.ends == [0; BLOCKS]
    }
}

/// Collects tokens and counts them.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    pub(crate) tokens: &'a mut Vec<Token>,
    pub(crate) counts: &'a mut Counts,
}

impl Collector<'_> {
    /// A macroblock's tokens; whether luma's DC coefficients have a block of their own, and what its neighbours have.
    pub(crate) fn macroblock(
        &mut self,
        levels: &Levels,
        has_y2: bool,
        above: &mut Context,
        left: &mut Context,
    ) {
        let (kind, first) = if has_y2 {
            let context = above[8] + left[8];
            let end = levels.ends[Y2];
            self.block(&levels.blocks[Y2], (1, 0, context), end);
            (above[8], left[8]) = (u8::from(end > 0), u8::from(end > 0));
            (0, 1)
        } else {
            (3, 0)
        };
        for at in 0..16 {
            let (x, y) = (at % 4, at / 4);
            let end = levels.ends[at];
            self.block(&levels.blocks[at], (kind, first, above[x] + left[y]), end);
            (above[x], left[y]) = (u8::from(end > 0), u8::from(end > 0));
        }
        for at in 16..24 {
            let (x, y) = (4 + (at & 4) / 2 + at % 2, 4 + (at & 4) / 2 + at / 2 % 2);
            let end = levels.ends[at];
            self.block(&levels.blocks[at], (2, 0, above[x] + left[y]), end);
            (above[x], left[y]) = (u8::from(end > 0), u8::from(end > 0));
        }
    }

    #[inline(always)]
    fn block(&mut self, levels: &[i16; 16], (kind, first, context): (usize, usize, u8), end: u8) {
        let (mut context, mut behind_zero) = (usize::from(context), false);
        for at in first..usize::from(end) {
            let value = levels[at & 15];
            let size = value.unsigned_abs();
            let token = token_of(size);
            let place = (kind * 8 + usize::from(BANDS[at])) * 3 + context;
            let extra = if token > 4 { size - CATEGORY_BASE[token - 5] } else { 0 };
            self.push(place, token, behind_zero, u32::from(extra) | u32::from(value < 0) << 12);
            behind_zero = token == 0;
            context = token.min(2);
        }
        let at = usize::from(end).max(first);
        if at < 16 {
            let place = (kind * 8 + usize::from(BANDS[at])) * 3 + context;
            self.push(place, END, false, 0);
        }
    }

    #[inline(always)]
    fn push(&mut self, place: usize, token: usize, behind_zero: bool, extra: u32) {
        let counts = &mut self.counts[place];
        counts[token] += 1;
        counts[BEHIND_ZERO] += u32::from(behind_zero);
        self.tokens
            .push(Token(place as u32 | (token as u32) << 8 | u32::from(behind_zero) << 12 | extra << 16));
    }
}

/// How often each node of the token tree was left to the left and to the right.
pub(crate) fn branches(counts: &[u32; TOKENS + 1]) -> [[u32; 2]; 11] {
    let sum = |from: usize, to: usize| counts[from..=to].iter().sum::<u32>();
    let tokens = sum(0, 10);
    [
        [counts[END], tokens - counts[BEHIND_ZERO]],
        [counts[0], tokens - counts[0]],
        [counts[1], sum(2, 10)],
        [sum(2, 4), sum(5, 10)],
        [counts[2], sum(3, 4)],
        [counts[3], counts[4]],
        [sum(5, 6), sum(7, 10)],
        [counts[5], counts[6]],
        [sum(7, 8), sum(9, 10)],
        [counts[7], counts[8]],
        [counts[9], counts[10]],
    ]
}

/// Writes tokens with the probabilities that the frame has come to.
pub(crate) fn write(encoder: &mut BoolEncoder, tokens: &[Token], probs: &CoefficientProbs) {
    let probs = probs.as_flattened().as_flattened();
    // A copy that stays in registers.
    let mut out = std::mem::replace(encoder, BoolEncoder::new(Vec::new()));
    for &Token(token) in tokens {
        let node = &probs[(token & 0x7f) as usize % CONTEXTS];
        let value = token >> 8 & 15;
        if token >> 12 & 1 == 0 {
            out.bool(value != END as u32, node[0]);
            if value == END as u32 {
                continue;
            }
        }
        out.bool(value != 0, node[1]);
        if value == 0 {
            continue;
        }
        out.bool(value != 1, node[2]);
        if value > 1 {
            write_large(&mut out, node, value, token >> 16 & 0xfff);
        }
        out.bool(token >> 28 & 1 != 0, 128);
    }
    *encoder = out;
}

#[inline(always)]
fn write_large(out: &mut BoolEncoder, node: &[u8; 11], value: u32, extra: u32) {
    out.bool(value > 4, node[3]);
    if value <= 4 {
        out.bool(value > 2, node[4]);
        if value > 2 {
            out.bool(value > 3, node[5]);
        }
        return;
    }
    out.bool(value > 6, node[6]);
    match value {
        5 => {
            out.bool(false, node[7]);
            out.bool(extra != 0, 159);
        }
        6 => {
            out.bool(true, node[7]);
            out.bool(extra & 2 != 0, 165);
            out.bool(extra & 1 != 0, 145);
        }
        _ => {
            let category = (value - 7) as usize & 3;
            out.bool(category > 1, node[8]);
            out.bool(category & 1 != 0, node[9 + category / 2]);
            let probabilities = LARGE[category];
            for (at, &probability) in probabilities.iter().enumerate() {
                out.bool(extra >> (probabilities.len() - 1 - at) & 1 != 0, probability);
            }
        }
    }
}

/// Counts of nothing.
pub(crate) const NO_COUNTS: Counts = [[0; TOKENS + 1]; CONTEXTS];
