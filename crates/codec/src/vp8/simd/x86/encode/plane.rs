//! Whole planes.

use super::*;
use crate::vp8::measure;

/// The squared errors of the first bytes of two lines, in eight parts of 32 bits, and how many bytes that were.
#[inline]
#[target_feature(enable = "avx2")]
fn line_sse(a: &[u8], b: &[u8]) -> (__m256i, usize) {
    let mut sum = _mm256_setzero_si256();
    let mut at = 0;
    while at + 16 <= a.len() {
        let difference =
            _mm256_sub_epi16(_mm256_cvtepu8_epi16(load16(a, at)), _mm256_cvtepu8_epi16(load16(b, at)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(difference, difference));
        at += 16;
    }
    (sum, at)
}

#[target_feature(enable = "avx2")]
fn sse((a, a_stride): (&[u8], usize), (b, b_stride): (&[u8], usize), width: usize, height: usize) -> u64 {
    let mut sum = _mm256_setzero_si256();
    let mut rest = 0;
    for y in 0..height {
        let (a, b) = (&a[y * a_stride..][..width], &b[y * b_stride..][..width]);
        // 32 bits hold the sums of lines of half a million samples.
        let (line, done) = line_sse(a, b);
        let even = _mm256_and_si256(line, _mm256_set1_epi64x(0xffff_ffff));
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(even, _mm256_srli_epi64(line, 32)));
        for (&a, &b) in a[done..].iter().zip(&b[done..]) {
            rest += u64::from(a.abs_diff(b)).pow(2);
        }
    }
    let two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    rest + _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as u64
}

/// Lines up to this are summed up in 32 bits.
const MAX_WIDTH: usize = 1 << 18;

pub(super) fn plane_sse(a: (&[u8], usize), b: (&[u8], usize), width: usize, height: usize) -> u64 {
    if width > MAX_WIDTH {
        return measure::plane_sse(a, b, width, height);
    }
    // SAFETY: this function is only reached through a table that is given out where there is AVX2.
    unsafe { sse(a, b, width, height) }
}

pub(super) fn prefetch(bytes: &[u8], stride: usize, lines: usize) {
    for line in 0..lines {
        let Some(first) = bytes.get(line * stride) else { return };
        // SAFETY: a prefetch changes nothing, and the byte is there; every processor of this kind has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(first).cast()) };
    }
}
