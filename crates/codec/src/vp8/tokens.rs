//! Coefficients out of the token partitions (RFC 6386 §13).

use super::bool_coder::BoolDecoder;
use super::quantizer::Factors;
use super::tables::coefficients::CoefficientProbs;

/// Blocks of a macroblock: 16 of luma, 4 of Cb, 4 of Cr, and the one of luma's DC coefficients.
pub(crate) const BLOCKS: usize = 25;
/// Where the block of luma's DC coefficients stands.
pub(crate) const Y2: usize = 24;

/// Coefficients of a macroblock, 16 a block, line by line, already multiplied with their factors.
pub(crate) type Coefficients = [i16; BLOCKS * 16];

/// For a macroblock's neighbours: which of its blocks have tokens. Luma's bottom or right blocks, two of Cb, two of
/// Cr, and the block of DC coefficients.
pub(crate) type Context = [u8; 9];

/// Band of each position, and one that is never used behind the last.
pub(crate) const BANDS: [u8; 17] = [0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7, 0];
/// Where a coefficient stands in its block.
pub(crate) const ZIGZAG: [u8; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];

/// Extra bits of the four large categories of values (§13.2).
pub(crate) const LARGE: [&[u8]; 4] = [
    &[173, 148, 140],
    &[176, 155, 140, 135],
    &[180, 157, 141, 134, 130],
    &[254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129],
];

/// Of one kind of block: by band, context and node.
pub(crate) type BlockProbs = [[[u8; 11]; 3]; 8];

/// A value of 2 or more: the tree below "not one", and extra bits.
#[inline(always)]
fn large_value(decoder: &mut BoolDecoder<'_>, probs: &[u8; 11]) -> i16 {
    if !decoder.bool(probs[3]) {
        if !decoder.bool(probs[4]) {
            return 2;
        }
        return 3 + i16::from(decoder.bool(probs[5]));
    }
    if !decoder.bool(probs[6]) {
        if !decoder.bool(probs[7]) {
            return 5 + i16::from(decoder.bool(159));
        }
        return 7 + 2 * i16::from(decoder.bool(165)) + i16::from(decoder.bool(145));
    }
    let high = usize::from(decoder.bool(probs[8]));
    let category = 2 * high + usize::from(decoder.bool(probs[9 + high]));
    let extra = LARGE[category].iter().fold(0, |extra, &prob| extra << 1 | i16::from(decoder.bool(prob)));
    3 + (8 << category) + extra
}

/// [`macroblock`], or the same compiled for a certain processor.
pub(crate) type ReadMacroblock = fn(
    &mut BoolDecoder<'_>,
    &CoefficientProbs,
    bool,
    &Factors,
    (&mut Context, &mut Context),
    &mut Coefficients,
) -> Ends;

/// Reads a block's tokens from position `first` on and gives where they end: the position behind the last token.
#[inline(always)]
fn block(
    bits: &mut BoolDecoder<'_>,
    probs: &BlockProbs,
    context: usize,
    first: usize,
    factors: [i16; 2],
    out: &mut [i16; 16],
) -> usize {
    let mut at = first;
    let mut node = &probs[usize::from(BANDS[at]) & 7][context];
    if !bits.bool(node[0]) {
        return at;
    }
    loop {
        bits.make_ready();
        // No block ends behind a zero, so there is no token for it.
        if !bits.ready_bool(node[1]) {
            at += 1;
            if at == 16 {
                break 16;
            }
            node = &probs[usize::from(BANDS[at]) & 7][0];
            continue;
        }
        let (value, context) = if bits.ready_bool(node[2]) { (large_value(bits, node), 2) } else { (1, 1) };
        bits.make_ready();
        let value = if bits.ready_bool(128) { -value } else { value };
        // The largest product takes more than 16 bits; streams that have it are broken, and it wraps.
        out[usize::from(ZIGZAG[at & 15]) & 15] = value.wrapping_mul(factors[usize::from(at > 0)]);
        at += 1;
        if at == 16 {
            break 16;
        }
        node = &probs[usize::from(BANDS[at]) & 7][context];
        if !bits.ready_bool(node[0]) {
            break at;
        }
    }
}

/// Where the tokens of a macroblock's blocks end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Positions behind the last token: more than 1 means that there may be more than a DC coefficient.
    pub(crate) blocks: [u8; BLOCKS],
    /// Whether any block has a token.
    pub(crate) any: bool,
}

/// Reads a macroblock's coefficients: whether its luma's DC coefficients have a block of their own, the factors of
/// its segment, what the neighbours above and to the left have. `out` holds zeros, and takes values where there are
/// any.
#[inline(always)]
pub(crate) fn macroblock(
    decoder: &mut BoolDecoder<'_>,
    probs: &CoefficientProbs,
    has_y2: bool,
    factors: &Factors,
    (above, left): (&mut Context, &mut Context),
    out: &mut Coefficients,
) -> Ends {
    // A copy that stays in registers.
    let mut bits = *decoder;
    let (blocks, _) = out.as_chunks_mut::<16>();
    let mut ends = Ends { blocks: [0; BLOCKS], any: false };
    let (kind, first) = if has_y2 {
        let context = usize::from(above[8] + left[8]);
        let end = block(&mut bits, &probs[1], context, 0, factors.y2, &mut blocks[Y2]);
        ends.blocks[Y2] = end as u8;
        (above[8], left[8]) = (u8::from(end > 0), u8::from(end > 0));
        ends.any |= end > 0;
        (0, 1)
    } else {
        (3, 0)
    };
    for (at, coefficients) in blocks[..16].iter_mut().enumerate() {
        let (x, y) = (at % 4, at / 4);
        let context = usize::from(above[x] + left[y]);
        let end = block(&mut bits, &probs[kind], context, first, factors.y, coefficients);
        ends.blocks[at] = end as u8;
        (above[x], left[y]) = (u8::from(end > first), u8::from(end > first));
        ends.any |= end > first;
    }
    for plane in [4, 6] {
        for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let at = 8 + 2 * plane + 2 * y + x;
            let context = usize::from(above[plane + x] + left[plane + y]);
            let end = block(&mut bits, &probs[2], context, 0, factors.uv, &mut blocks[at]);
            ends.blocks[at] = end as u8;
            (above[plane + x], left[plane + y]) = (u8::from(end > 0), u8::from(end > 0));
            ends.any |= end > 0;
        }
    }
    *decoder = bits;
    ends
}

/// What a macroblock without tokens leaves to its neighbours. One without a block of DC coefficients leaves what was
/// there for that.
pub(crate) fn skip(has_y2: bool, above: &mut Context, left: &mut Context) {
    let kept = if has_y2 { 9 } else { 8 };
    above[..kept].fill(0);
    left[..kept].fill(0);
}
