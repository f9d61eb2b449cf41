//! Forward DCTs of four blocks at once, and the WHT of DC coefficients.

use super::super::residue::{Lines, transpose};
use super::*;
use crate::vp8::forward::{COSINE, FIRST_BIAS, SECOND_BIAS, SINE};

/// `(a·left + b·right + bias) / 2^SHIFT` of 16 values.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const SHIFT: i32>(a: __m256i, b: __m256i, (left, right): (i32, i32), bias: i32) -> __m256i {
    let factors = _mm256_set1_epi32((right << 16) | (left & 0xffff));
    let bias = _mm256_set1_epi32(bias);
    let low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors);
    let high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors);
    let low = _mm256_srai_epi32(_mm256_add_epi32(low, bias), SHIFT);
    let high = _mm256_srai_epi32(_mm256_add_epi32(high, bias), SHIFT);
    _mm256_packs_epi32(low, high)
}

/// The coefficients of four blocks, from lines of residues to lines of coefficients.
#[inline]
#[target_feature(enable = "avx2")]
fn dct(residue: Lines) -> Lines {
    let v = transpose(residue);
    let a = _mm256_slli_epi16(_mm256_add_epi16(v[0], v[3]), 3);
    let b = _mm256_slli_epi16(_mm256_add_epi16(v[1], v[2]), 3);
    let c = _mm256_slli_epi16(_mm256_sub_epi16(v[1], v[2]), 3);
    let d = _mm256_slli_epi16(_mm256_sub_epi16(v[0], v[3]), 3);
    let v = transpose([
        _mm256_add_epi16(a, b),
        rotated::<12>(c, d, (SINE, COSINE), FIRST_BIAS[0]),
        _mm256_sub_epi16(a, b),
        rotated::<12>(c, d, (-COSINE, SINE), FIRST_BIAS[1]),
    ]);
    let (a, b) = (_mm256_add_epi16(v[0], v[3]), _mm256_add_epi16(v[1], v[2]));
    let (c, d) = (_mm256_sub_epi16(v[1], v[2]), _mm256_sub_epi16(v[0], v[3]));
    let seven = _mm256_set1_epi16(7);
    // One more, and one less again where the outermost lines are equal.
    let second = rotated::<16>(c, d, (SINE, COSINE), SECOND_BIAS[0] + (1 << 16));
    [
        _mm256_srai_epi16(_mm256_add_epi16(_mm256_add_epi16(a, b), seven), 4),
        _mm256_add_epi16(second, _mm256_cmpeq_epi16(d, _mm256_setzero_si256())),
        _mm256_srai_epi16(_mm256_add_epi16(_mm256_sub_epi16(a, b), seven), 4),
        rotated::<16>(c, d, (-COSINE, SINE), SECOND_BIAS[1]),
    ]
}

/// From a line of each of four blocks to block by block.
#[inline]
#[target_feature(enable = "avx2")]
fn blocks(lines: Lines) -> Lines {
    let low = (_mm256_unpacklo_epi64(lines[0], lines[1]), _mm256_unpacklo_epi64(lines[2], lines[3]));
    let high = (_mm256_unpackhi_epi64(lines[0], lines[1]), _mm256_unpackhi_epi64(lines[2], lines[3]));
    [
        _mm256_permute2x128_si256(low.0, low.1, 0x20),
        _mm256_permute2x128_si256(high.0, high.1, 0x20),
        _mm256_permute2x128_si256(low.0, low.1, 0x31),
        _mm256_permute2x128_si256(high.0, high.1, 0x31),
    ]
}

/// Stores one block's coefficients.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_block(out: &mut [i16; 16], value: __m256i) {
    // SAFETY: 16 values of 16 bits are 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), value) }
}

/// Loads one block's coefficients.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_block(block: &[i16; 16]) -> __m256i {
    // SAFETY: 16 values of 16 bits are 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }
}

/// # Safety
/// Both views are of 16×16 samples.
#[target_feature(enable = "avx2")]
unsafe fn luma(src: View, prediction: View, out: &mut [[i16; 16]; 16]) {
    for (row, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut residue = [_mm256_setzero_si256(); 4];
        for (y, line) in residue.iter_mut().enumerate() {
            // SAFETY: the lines lie in the views.
            let (src, prediction) =
                unsafe { (src.load16(4 * row + y, 0), prediction.load16(4 * row + y, 0)) };
            *line = _mm256_sub_epi16(_mm256_cvtepu8_epi16(src), _mm256_cvtepu8_epi16(prediction));
        }
        for (out, block) in out.iter_mut().zip(blocks(dct(residue))) {
            store_block(out, block);
        }
    }
}

/// # Safety
/// Both views are of 8×8 samples.
#[target_feature(enable = "avx2")]
unsafe fn chroma(src: View, prediction: View, out: &mut [[i16; 16]; 4]) {
    let mut residue = [_mm256_setzero_si256(); 4];
    for (y, line) in residue.iter_mut().enumerate() {
        // SAFETY: the lines lie in the views.
        let (src, prediction) = unsafe {
            (
                _mm_unpacklo_epi64(src.load8(y, 0), src.load8(y + 4, 0)),
                _mm_unpacklo_epi64(prediction.load8(y, 0), prediction.load8(y + 4, 0)),
            )
        };
        *line = _mm256_sub_epi16(_mm256_cvtepu8_epi16(src), _mm256_cvtepu8_epi16(prediction));
    }
    for (out, block) in out.iter_mut().zip(blocks(dct(residue))) {
        store_block(out, block);
    }
}

/// # Safety
/// Both views are of 4×4 samples.
#[target_feature(enable = "avx2")]
unsafe fn block(src: View, prediction: View, out: &mut [i16; 16]) {
    // SAFETY: the lines lie in the views.
    let (src, prediction) = unsafe { (src.four_of_4(0, 0), prediction.four_of_4(0, 0)) };
    let residue = _mm256_sub_epi16(_mm256_cvtepu8_epi16(src), _mm256_cvtepu8_epi16(prediction));
    // Lines 0 and 1 in the low half, 2 and 3 in the high one: the lowest quarter is all that counts.
    let lines = dct([
        residue,
        _mm256_srli_si256(residue, 8),
        _mm256_permute4x64_epi64(residue, 0b10),
        _mm256_permute4x64_epi64(residue, 0b11),
    ]);
    store_block(out, blocks(lines)[0]);
}

pub(super) fn forward_luma(
    src: &[u8],
    src_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    out: &mut [[i16; 16]; 16],
) {
    let (src, prediction) =
        (View::new(src, src_stride, 16, 16), View::new(prediction, prediction_stride, 16, 16));
    // SAFETY: the views are of 16×16 samples; this function is only reached through a table that is given out where
    // there is AVX2.
    unsafe { luma(src, prediction, out) }
}

pub(super) fn forward_chroma(
    src: &[u8],
    src_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    out: &mut [[i16; 16]; 4],
) {
    let (src, prediction) =
        (View::new(src, src_stride, 8, 8), View::new(prediction, prediction_stride, 8, 8));
    // SAFETY: the views are of 8×8 samples, and there is AVX2 as above.
    unsafe { chroma(src, prediction, out) }
}

pub(super) fn forward_block(
    src: &[u8],
    src_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    out: &mut [i16; 16],
) {
    let (src, prediction) =
        (View::new(src, src_stride, 4, 4), View::new(prediction, prediction_stride, 4, 4));
    // SAFETY: the views are of 4×4 samples, and there is AVX2 as above.
    unsafe { block(src, prediction, out) }
}

#[target_feature(enable = "avx2")]
fn wht(input: &[i16; 16]) -> [i16; 16] {
    let all = load_block(input);
    let mut lines = [
        all,
        _mm256_srli_si256(all, 8),
        _mm256_permute4x64_epi64(all, 0b10),
        _mm256_permute4x64_epi64(all, 0b11),
    ];
    for _ in 0..2 {
        let (a, b) = (_mm256_add_epi16(lines[0], lines[3]), _mm256_add_epi16(lines[1], lines[2]));
        let (c, d) = (_mm256_sub_epi16(lines[1], lines[2]), _mm256_sub_epi16(lines[0], lines[3]));
        lines = transpose([
            _mm256_add_epi16(a, b),
            _mm256_add_epi16(c, d),
            _mm256_sub_epi16(a, b),
            _mm256_sub_epi16(d, c),
        ]);
    }
    let sum = blocks(lines)[0];
    let positive = _mm256_cmpgt_epi16(sum, _mm256_setzero_si256());
    let mut out = [0; 16];
    store_block(&mut out, _mm256_srai_epi16(_mm256_sub_epi16(sum, positive), 1));
    out
}

pub(super) fn forward_wht(input: &[i16; 16]) -> [i16; 16] {
    // SAFETY: there is AVX2 as above.
    unsafe { wht(input) }
}
