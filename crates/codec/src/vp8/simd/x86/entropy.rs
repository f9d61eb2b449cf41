//! Entropy coding, the same code as everywhere: compiled for a processor that counts leading zeros and shifts by
//! any register in one step.

use crate::vp8::bool_coder::{BoolDecoder, BoolEncoder};
use crate::vp8::encode::tokens::{self as encode_tokens, Token};
use crate::vp8::macroblock::Macroblock;
use crate::vp8::modes::ModeReader;
use crate::vp8::quantizer::Factors;
use crate::vp8::tables::coefficients::CoefficientProbs;
use crate::vp8::tokens::{self, Coefficients, Context, Ends};

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
fn macroblock(
    decoder: &mut BoolDecoder<'_>,
    probs: &CoefficientProbs,
    has_y2: bool,
    factors: &Factors,
    contexts: (&mut Context, &mut Context),
    out: &mut Coefficients,
) -> Ends {
    tokens::macroblock(decoder, probs, has_y2, factors, contexts, out)
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

pub(super) fn read_macroblock(
    decoder: &mut BoolDecoder<'_>,
    probs: &CoefficientProbs,
    has_y2: bool,
    factors: &Factors,
    contexts: (&mut Context, &mut Context),
    out: &mut Coefficients,
) -> Ends {
    // SAFETY: as above.
    unsafe { macroblock(decoder, probs, has_y2, factors, contexts, out) }
}

#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn write(encoder: &mut BoolEncoder, tokens: &[Token], probs: &CoefficientProbs) {
    encode_tokens::write(encoder, tokens, probs);
}

pub(super) fn write_tokens(encoder: &mut BoolEncoder, tokens: &[Token], probs: &CoefficientProbs) {
    // SAFETY: as above.
    unsafe { write(encoder, tokens, probs) }
}
