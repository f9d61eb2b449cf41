//! Entropy decoding, the same code as everywhere: compiled for a processor that counts leading zeros and shifts by
//! any register in one step.

use crate::vp8::bool_coder::BoolDecoder;
use crate::vp8::modes::{Macroblock, ModeReader};
use crate::vp8::tokens::{self, BlockProbs};

#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn modes(
    reader: &mut ModeReader<'_>,
    row: usize,
    above: &[Macroblock],
    current: &mut [Macroblock],
    segments: &mut [u8],
) {
    reader.parse_row(row, above, current, segments);
}

#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn block(
    decoder: &mut BoolDecoder<'_>,
    probs: &BlockProbs,
    context: usize,
    first: usize,
    factors: [i16; 2],
    out: &mut [i16; 16],
) -> usize {
    tokens::block(decoder, probs, context, first, factors, out)
}

pub(super) fn parse_modes(
    reader: &mut ModeReader<'_>,
    row: usize,
    above: &[Macroblock],
    current: &mut [Macroblock],
    segments: &mut [u8],
) {
    // SAFETY: this function is only reached through a table that is given out where there are these instructions.
    unsafe { modes(reader, row, above, current, segments) }
}

pub(super) fn read_block(
    decoder: &mut BoolDecoder<'_>,
    probs: &BlockProbs,
    context: usize,
    first: usize,
    factors: [i16; 2],
    out: &mut [i16; 16],
) -> usize {
    // SAFETY: as above.
    unsafe { block(decoder, probs, context, first, factors, out) }
}
