//! Inverse DCTs of four blocks at once, and their sum with the prediction.

use super::*;

/// Four blocks' coefficients, line by line: vector `y` holds line `y` of each block.
pub(super) type Lines = [__m256i; 4];

/// Loads four blocks and clears them.
#[inline]
#[target_feature(enable = "avx2")]
fn take(coefficients: &mut [i16; 64]) -> Lines {
    let pointer = coefficients.as_mut_ptr().cast::<__m256i>();
    // SAFETY: 64 values of 16 bits are four vectors of 256 bits; loads and stores need no alignment.
    let blocks = unsafe { [0, 1, 2, 3].map(|at| _mm256_loadu_si256(pointer.add(at))) };
    *coefficients = [0; 64];
    let low = (_mm256_unpacklo_epi64(blocks[0], blocks[1]), _mm256_unpacklo_epi64(blocks[2], blocks[3]));
    let high = (_mm256_unpackhi_epi64(blocks[0], blocks[1]), _mm256_unpackhi_epi64(blocks[2], blocks[3]));
    [
        _mm256_permute2x128_si256(low.0, low.1, 0x20),
        _mm256_permute2x128_si256(high.0, high.1, 0x20),
        _mm256_permute2x128_si256(low.0, low.1, 0x31),
        _mm256_permute2x128_si256(high.0, high.1, 0x31),
    ]
}

/// One dimension of the inverse DCT of all blocks.
#[inline]
#[target_feature(enable = "avx2")]
fn pass(input: Lines) -> Lines {
    // sin(π/8)·√2·2¹⁶ takes 17 bits with its sign: one 2¹⁶ less, and the value itself added again.
    let sine = |value| {
        _mm256_add_epi16(_mm256_mulhi_epi16(value, _mm256_set1_epi16((35_468 - 65_536) as i16)), value)
    };
    let cosine = |value| _mm256_add_epi16(_mm256_mulhi_epi16(value, _mm256_set1_epi16(20_091)), value);
    let a = _mm256_add_epi16(input[0], input[2]);
    let b = _mm256_sub_epi16(input[0], input[2]);
    let c = _mm256_sub_epi16(sine(input[1]), cosine(input[3]));
    let d = _mm256_add_epi16(cosine(input[1]), sine(input[3]));
    [_mm256_add_epi16(a, d), _mm256_add_epi16(b, c), _mm256_sub_epi16(b, c), _mm256_sub_epi16(a, d)]
}

/// Makes lines columns within each block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose(lines: Lines) -> Lines {
    let (a, b) = (_mm256_unpacklo_epi16(lines[0], lines[1]), _mm256_unpackhi_epi16(lines[0], lines[1]));
    let (c, d) = (_mm256_unpacklo_epi16(lines[2], lines[3]), _mm256_unpackhi_epi16(lines[2], lines[3]));
    let (even, odd) = (_mm256_unpacklo_epi32(a, c), _mm256_unpacklo_epi32(b, d));
    let (even_high, odd_high) = (_mm256_unpackhi_epi32(a, c), _mm256_unpackhi_epi32(b, d));
    [
        _mm256_unpacklo_epi64(even, odd),
        _mm256_unpackhi_epi64(even, odd),
        _mm256_unpacklo_epi64(even_high, odd_high),
        _mm256_unpackhi_epi64(even_high, odd_high),
    ]
}

/// The residues of four blocks, line by line.
#[inline]
#[target_feature(enable = "avx2")]
fn residue(coefficients: &mut [i16; 64]) -> Lines {
    let columns = pass(transpose(pass(take(coefficients))));
    let round = |value| _mm256_srai_epi16(_mm256_add_epi16(value, _mm256_set1_epi16(4)), 3);
    transpose(columns.map(round))
}

/// The residue of four blocks that have DC coefficients alone; the same in each line.
#[inline]
#[target_feature(enable = "avx2")]
fn dc_residue(coefficients: &mut [i16; 64]) -> __m256i {
    let dc = [0, 16, 32, 48].map(|at| i64::from(coefficients[at].wrapping_add(4) >> 3));
    for at in [0, 16, 32, 48] {
        coefficients[at] = 0;
    }
    let quads = _mm256_setr_epi64x(dc[0], dc[1], dc[2], dc[3]);
    // The low 16 bits of each quarter, four times.
    let spread = _mm256_setr_epi8(
        0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9, 0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9,
    );
    _mm256_shuffle_epi8(quads, spread)
}

/// Adds residues to 16 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn add_line(dst: &mut [u8], at: usize, residue: __m256i) {
    let samples = _mm256_cvtepu8_epi16(load16(dst, at));
    // Saturated like the scalar sum: a residue of 16 bits plus a sample may not wrap before it is clamped.
    let sum = _mm256_adds_epi16(samples, residue);
    let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(sum, sum), 0b1000);
    store16(dst, at, _mm256_castsi256_si128(packed));
}

/// Adds residues to 8 samples.
#[inline]
#[target_feature(enable = "avx2")]
fn add_half_line(dst: &mut [u8], at: usize, residue: __m128i) {
    let sum = _mm_adds_epi16(_mm_cvtepu8_epi16(load8(dst, at)), residue);
    store8(dst, at, _mm_packus_epi16(sum, sum));
}

#[target_feature(enable = "avx2")]
fn four(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    for (line, residue) in residue(coefficients).into_iter().enumerate() {
        add_line(dst, line * stride, residue);
    }
}

#[target_feature(enable = "avx2")]
fn four_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    let residue = dc_residue(coefficients);
    for line in 0..4 {
        add_line(dst, line * stride, residue);
    }
}

#[target_feature(enable = "avx2")]
fn square(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    for (line, residue) in residue(coefficients).into_iter().enumerate() {
        add_half_line(dst, line * stride, _mm256_castsi256_si128(residue));
        add_half_line(dst, (line + 4) * stride, _mm256_extracti128_si256(residue, 1));
    }
}

#[target_feature(enable = "avx2")]
fn square_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    let residue = dc_residue(coefficients);
    for line in 0..4 {
        add_half_line(dst, line * stride, _mm256_castsi256_si128(residue));
        add_half_line(dst, (line + 4) * stride, _mm256_extracti128_si256(residue, 1));
    }
}

#[target_feature(enable = "avx2")]
fn block(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 16]) {
    let mut four = [0; 64];
    four[..16].copy_from_slice(coefficients);
    *coefficients = [0; 16];
    for (line, residue) in residue(&mut four).into_iter().enumerate() {
        let line = &mut dst[line * stride..][..4];
        let samples = i32::from_le_bytes([line[0], line[1], line[2], line[3]]);
        let samples = _mm_cvtepu8_epi16(_mm_cvtsi32_si128(samples));
        let sum = _mm_adds_epi16(samples, _mm256_castsi256_si128(residue));
        store4(line, 0, _mm_packus_epi16(sum, sum));
    }
}

pub(super) fn add_block(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 16]) {
    // SAFETY: this function is only reached through a table that is given out where there is AVX2.
    unsafe { block(dst, stride, coefficients) }
}

pub(super) fn add_four(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    // SAFETY: as above.
    unsafe { four(dst, stride, coefficients) }
}

pub(super) fn add_four_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    // SAFETY: as above.
    unsafe { four_dc(dst, stride, coefficients) }
}

pub(super) fn add_square(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    // SAFETY: as above.
    unsafe { square(dst, stride, coefficients) }
}

pub(super) fn add_square_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    // SAFETY: as above.
    unsafe { square_dc(dst, stride, coefficients) }
}
