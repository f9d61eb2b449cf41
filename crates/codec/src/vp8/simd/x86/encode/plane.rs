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

#[target_feature(enable = "avx2")]
fn halve_avx2(
    (dst, dst_stride): (&mut [u8], usize),
    (src, src_stride): (&[u8], usize),
    width: usize,
    height: usize,
) {
    let ones = _mm256_set1_epi8(1);
    let two = _mm256_set1_epi16(2);
    for y in 0..height {
        let upper = &src[2 * y * src_stride..][..2 * width];
        let lower = &src[(2 * y + 1) * src_stride..][..2 * width];
        let dst = &mut dst[y * dst_stride..][..width];
        let mut at = 0;
        while at + 16 <= width {
            let a = _mm256_set_m128i(load16(upper, 2 * at + 16), load16(upper, 2 * at));
            let b = _mm256_set_m128i(load16(lower, 2 * at + 16), load16(lower, 2 * at));
            let sum = _mm256_add_epi16(_mm256_maddubs_epi16(a, ones), _mm256_maddubs_epi16(b, ones));
            let mean = _mm256_srli_epi16(_mm256_add_epi16(sum, two), 2);
            let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(mean, mean), 0b1000);
            store16(dst, at, _mm256_castsi256_si128(packed));
            at += 16;
        }
        let pairs = upper[2 * at..].as_chunks::<2>().0.iter().zip(lower[2 * at..].as_chunks::<2>().0);
        for (out, (upper, lower)) in dst[at..].iter_mut().zip(pairs) {
            let sum: u16 = upper.iter().chain(lower).map(|&sample| u16::from(sample)).sum();
            *out = ((sum + 2) >> 2) as u8;
        }
    }
}

pub(super) fn halve(dst: (&mut [u8], usize), src: (&[u8], usize), width: usize, height: usize) {
    // SAFETY: there is AVX2 as above.
    unsafe { halve_avx2(dst, src, width, height) }
}
