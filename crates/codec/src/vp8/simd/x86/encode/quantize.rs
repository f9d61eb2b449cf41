//! Quantising.

use super::transform::{load_block, store_block};
use super::*;
use crate::vp8::quantize::Steps;

#[derive(Clone, Copy)]
struct Vectors {
    zero_bin: __m256i,
    round: __m256i,
    reciprocal: __m256i,
    factor: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
fn vectors(steps: &Steps) -> Vectors {
    Vectors {
        zero_bin: load_block(&steps.zero_bin),
        round: load_block(&steps.round),
        reciprocal: load_block(&steps.reciprocal),
        factor: load_block(&steps.factor),
    }
}

/// To zigzag order.
#[inline]
#[target_feature(enable = "avx2")]
fn zigzag(values: __m256i) -> __m256i {
    // One value comes from the other half in each direction: the eighth into the low, the seventh into the high one.
    let own = _mm256_setr_epi8(
        0, 1, 2, 3, 8, 9, -1, -1, 10, 11, 4, 5, 6, 7, 12, 13, //
        2, 3, 8, 9, 10, 11, 4, 5, -1, -1, 6, 7, 12, 13, 14, 15,
    );
    let other = _mm256_setr_epi8(
        -1, -1, -1, -1, -1, -1, 0, 1, -1, -1, -1, -1, -1, -1, -1, -1, //
        -1, -1, -1, -1, -1, -1, -1, -1, 14, 15, -1, -1, -1, -1, -1, -1,
    );
    let swapped = _mm256_permute4x64_epi64(values, 0b0100_1110);
    _mm256_or_si256(_mm256_shuffle_epi8(values, own), _mm256_shuffle_epi8(swapped, other))
}

/// A block's levels, line by line.
#[inline]
#[target_feature(enable = "avx2")]
fn levels_of(coefficients: &[i16; 16], steps: Vectors) -> __m256i {
    let zero = _mm256_setzero_si256();
    let value = load_block(coefficients);
    let size = _mm256_max_epi16(value, _mm256_subs_epi16(zero, value));
    let rounded = _mm256_adds_epi16(size, steps.round);
    let level = _mm256_mulhi_epu16(rounded, steps.reciprocal);
    let level = _mm256_andnot_si256(_mm256_cmpgt_epi16(steps.zero_bin, size), level);
    _mm256_sign_epi16(level, value)
}

/// Stores a block's levels and what they stand for; gives where they end.
#[inline]
#[target_feature(enable = "avx2,lzcnt")]
fn store(level: __m256i, steps: Vectors, levels: &mut [i16; 16], dequantized: &mut [i16; 16]) -> usize {
    store_block(dequantized, _mm256_mullo_epi16(level, steps.factor));
    let level = zigzag(level);
    store_block(levels, level);
    let (low, high) = (_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1));
    let nothing = _mm_cmpeq_epi8(_mm_packs_epi16(low, high), _mm_setzero_si128());
    let something = !_mm_movemask_epi8(nothing) as u32 & 0xffff;
    32 - something.leading_zeros() as usize
}

#[target_feature(enable = "avx2,lzcnt")]
fn one(
    coefficients: &[i16; 16],
    steps: &Steps,
    levels: &mut [i16; 16],
    dequantized: &mut [i16; 16],
) -> usize {
    let steps = vectors(steps);
    store(levels_of(coefficients, steps), steps, levels, dequantized)
}

/// Stores a block, if there is anything in it; whether there is.
#[inline]
#[target_feature(enable = "avx2,lzcnt")]
fn store_some(
    level: __m256i,
    steps: Vectors,
    levels: &mut [i16; 16],
    dequantized: &mut [i16; 16],
    end: &mut u8,
) -> bool {
    if _mm256_testz_si256(level, level) != 0 {
        *end = 0;
        return false;
    }
    *end = store(level, steps, levels, dequantized) as u8;
    true
}

#[target_feature(enable = "avx2,lzcnt")]
fn run(
    coefficients: &[[i16; 16]],
    steps: &Steps,
    levels: &mut [[i16; 16]],
    dequantized: &mut [[i16; 16]],
    ends: &mut [u8],
) -> bool {
    let steps = vectors(steps);
    let mut any = false;
    let (coefficients, rest) = coefficients.as_chunks::<4>();
    let (levels, rest_levels) = levels.as_chunks_mut::<4>();
    let (dequantized, rest_dequantized) = dequantized.as_chunks_mut::<4>();
    let (ends, rest_ends) = ends.as_chunks_mut::<4>();
    for (((coefficients, levels), dequantized), ends) in
        coefficients.iter().zip(levels).zip(dequantized).zip(ends)
    {
        let [a, b, c, d] = [0, 1, 2, 3].map(|at: usize| levels_of(&coefficients[at], steps));
        let all = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
        // Most of four neighbours have nothing left, or most of them have something.
        if _mm256_testz_si256(all, all) != 0 {
            *ends = [0; 4];
            continue;
        }
        any = true;
        for (at, level) in [a, b, c, d].into_iter().enumerate() {
            store_some(level, steps, &mut levels[at], &mut dequantized[at], &mut ends[at]);
        }
    }
    let rest = rest.iter().zip(rest_levels).zip(rest_dequantized).zip(rest_ends);
    for (((coefficients, levels), dequantized), end) in rest {
        any |= store_some(levels_of(coefficients, steps), steps, levels, dequantized, end);
    }
    any
}

pub(super) fn quantize(
    coefficients: &[i16; 16],
    steps: &Steps,
    levels: &mut [i16; 16],
    dequantized: &mut [i16; 16],
) -> usize {
    // SAFETY: this function is only reached through a table that is given out where there are these instructions.
    unsafe { one(coefficients, steps, levels, dequantized) }
}

pub(super) fn quantize_run(
    coefficients: &[[i16; 16]],
    steps: &Steps,
    levels: &mut [[i16; 16]],
    dequantized: &mut [[i16; 16]],
    ends: &mut [u8],
) -> bool {
    // SAFETY: as above.
    unsafe { run(coefficients, steps, levels, dequantized, ends) }
}
