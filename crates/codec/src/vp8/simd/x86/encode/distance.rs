//! SAD, SSE and SATD.

use super::*;

/// What [`sad`] adds up for a block: 64-bit parts.
///
/// # Safety
/// Both views are of `W`×`H` samples.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sad_parts<const W: usize, const H: usize>(src: View, reference: View) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    // SAFETY: the lines lie in the views.
    unsafe {
        match W {
            16 => {
                for y in (0..H).step_by(2) {
                    let part = _mm256_sad_epu8(src.two_of_16(y, 0), reference.two_of_16(y, 0));
                    sum = _mm256_add_epi64(sum, part);
                }
            }
            8 => {
                for y in (0..H).step_by(4) {
                    let part = _mm256_sad_epu8(src.four_of_8(y, 0), reference.four_of_8(y, 0));
                    sum = _mm256_add_epi64(sum, part);
                }
            }
            _ => {
                let part = _mm_sad_epu8(src.four_of_4(0, 0), reference.four_of_4(0, 0));
                sum = _mm256_zextsi128_si256(part);
            }
        }
    }
    sum
}

/// # Safety
/// Both views are of `W`×`H` samples.
#[target_feature(enable = "avx2")]
unsafe fn sad_avx2<const W: usize, const H: usize>(src: View, reference: View) -> u32 {
    // SAFETY: as the caller has promised.
    sum_of_sads(unsafe { sad_parts::<W, H>(src, reference) })
}

/// The sum of what `sad_epu8` gives.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum_of_sads(sum: __m256i) -> u32 {
    let two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as u32
}

pub(super) fn sad<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
) -> u32 {
    let src = View::new(src, src_stride, W, H);
    let reference = View::new(reference, reference_stride, W, H);
    // SAFETY: the views are of W×H samples; this function is only reached through a table that is given out where
    // there is AVX2.
    unsafe { sad_avx2::<W, H>(src, reference) }
}

/// # Safety
/// All views are of `W`×`H` samples.
#[target_feature(enable = "avx2")]
unsafe fn sad_four_avx2<const W: usize, const H: usize>(src: View, references: [View; 4]) -> [u32; 4] {
    let mut sums = [_mm256_setzero_si256(); 4];
    // SAFETY: the lines lie in the views.
    unsafe {
        match W {
            16 => {
                for y in (0..H).step_by(2) {
                    let lines = src.two_of_16(y, 0);
                    for at in 0..4 {
                        let part = _mm256_sad_epu8(lines, references[at].two_of_16(y, 0));
                        sums[at] = _mm256_add_epi32(sums[at], part);
                    }
                }
            }
            8 => {
                for y in (0..H).step_by(4) {
                    let lines = src.four_of_8(y, 0);
                    for at in 0..4 {
                        let part = _mm256_sad_epu8(lines, references[at].four_of_8(y, 0));
                        sums[at] = _mm256_add_epi32(sums[at], part);
                    }
                }
            }
            _ => {
                let lines = src.four_of_4(0, 0);
                for at in 0..4 {
                    let part = _mm_sad_epu8(lines, references[at].four_of_4(0, 0));
                    sums[at] = _mm256_zextsi128_si256(part);
                }
            }
        }
    }
    // Each sum is in four pieces of 32 bits with 32 bits of nothing between: they go between each other.
    let first = _mm256_or_si256(sums[0], _mm256_slli_epi64(sums[1], 32));
    let second = _mm256_or_si256(sums[2], _mm256_slli_epi64(sums[3], 32));
    let both = _mm256_add_epi32(_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second));
    let four = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    let mut out = [0; 4];
    // SAFETY: four values of 32 bits are 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), four) }
    out
}

pub(super) fn sad_four<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    places: [usize; 4],
) -> [u32; 4] {
    let src = View::new(src, src_stride, W, H);
    let references = places.map(|at| View::new(&reference[at..], reference_stride, W, H));
    // SAFETY: the views are of W×H samples, and there is AVX2 as in `sad`.
    unsafe { sad_four_avx2::<W, H>(src, references) }
}

/// Of the absolute values of two vectors, the larger one of each pair of neighbours.
///
/// The last stage of a Hadamard transform turns a pair into its sum and its difference. The absolute values of these
/// add up to twice the larger absolute value of the pair: this is half of what the stage would give.
#[inline]
#[target_feature(enable = "avx2")]
fn last_stage(a: __m256i, b: __m256i) -> __m256i {
    let (a, b) = (_mm256_abs_epi16(a), _mm256_abs_epi16(b));
    let even = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
    let odd = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
    _mm256_max_epi16(even, odd)
}

/// SATD of four lines, of which the sums and differences of pairs of samples are given; in 16 parts.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn satd_of_lines(lines: [__m256i; 4]) -> __m256i {
    let (a, b) = (_mm256_add_epi16(lines[0], lines[1]), _mm256_sub_epi16(lines[0], lines[1]));
    let (c, d) = (_mm256_add_epi16(lines[2], lines[3]), _mm256_sub_epi16(lines[2], lines[3]));
    let first = last_stage(_mm256_add_epi16(a, c), _mm256_sub_epi16(a, c));
    let second = last_stage(_mm256_add_epi16(b, d), _mm256_sub_epi16(b, d));
    _mm256_add_epi16(first, second)
}

/// Sums of pairs in the low, differences in the high half: of 16 samples.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn pairs_of_16(samples: __m128i) -> __m256i {
    let factors = _mm256_set_m128i(_mm_set1_epi16(-0xff), _mm_set1_epi8(1));
    _mm256_maddubs_epi16(_mm256_broadcastsi128_si256(samples), factors)
}

/// In each half, sums of pairs, then differences, of 8 samples that are there twice.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn pairs_of_8(samples: __m256i) -> __m256i {
    let factors = _mm_unpacklo_epi64(_mm_set1_epi8(1), _mm_set1_epi16(-0xff));
    _mm256_maddubs_epi16(samples, _mm256_broadcastsi128_si256(factors))
}

/// 8 samples of a line and of the fourth one below, each twice.
///
/// # Safety
/// As for [`View::load16`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn twice(view: View, line: usize) -> __m256i {
    // SAFETY: as the caller has promised.
    let (upper, lower) = unsafe { (view.load8(line, 0), view.load8(line + 4, 0)) };
    _mm256_set_m128i(_mm_unpacklo_epi64(lower, lower), _mm_unpacklo_epi64(upper, upper))
}

/// Twice the first and second, and twice the third and fourth line of a block of 4×4, to sums and differences.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn pairs_of_4(block: __m256i) -> [__m256i; 2] {
    [pairs_of_8(_mm256_unpacklo_epi64(block, block)), pairs_of_8(_mm256_unpackhi_epi64(block, block))]
}

/// SATD of the differences of pairs of a block of 4×4 in each half, in 8 parts.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn satd_of_4(pairs: [__m256i; 2]) -> __m256i {
    let sum = _mm256_castsi256_ps(_mm256_add_epi16(pairs[0], pairs[1]));
    let difference = _mm256_castsi256_ps(_mm256_sub_epi16(pairs[0], pairs[1]));
    let even = _mm256_castps_si256(_mm256_shuffle_ps(sum, difference, 0x88));
    let odd = _mm256_castps_si256(_mm256_shuffle_ps(sum, difference, 0xdd));
    last_stage(_mm256_add_epi16(even, odd), _mm256_sub_epi16(even, odd))
}

/// # Safety
/// Both views are of `W`×`H` samples.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn satd_avx2<const W: usize, const H: usize>(src: View, reference: View) -> u32 {
    let mut sum = _mm256_setzero_si256();
    let mut lines = [sum; 4];
    // SAFETY: the lines lie in the views.
    unsafe {
        match W {
            16 => {
                for y in (0..H).step_by(4) {
                    for (at, line) in lines.iter_mut().enumerate() {
                        let src = pairs_of_16(src.load16(y + at, 0));
                        *line = _mm256_sub_epi16(src, pairs_of_16(reference.load16(y + at, 0)));
                    }
                    // At most 2 · 2,040 each time.
                    sum = _mm256_add_epi16(sum, satd_of_lines(lines));
                }
            }
            8 => {
                for y in (0..H).step_by(8) {
                    for (at, line) in lines.iter_mut().enumerate() {
                        let src = pairs_of_8(twice(src, y + at));
                        *line = _mm256_sub_epi16(src, pairs_of_8(twice(reference, y + at)));
                    }
                    sum = _mm256_add_epi16(sum, satd_of_lines(lines));
                }
            }
            _ => {
                let src = pairs_of_4(_mm256_zextsi128_si256(src.four_of_4(0, 0)));
                let reference = pairs_of_4(_mm256_zextsi128_si256(reference.four_of_4(0, 0)));
                let upper = _mm256_sub_epi16(src[0], reference[0]);
                sum = satd_of_4([upper, _mm256_sub_epi16(src[1], reference[1])]);
            }
        }
    }
    sum16(sum)
}

pub(super) fn satd<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
) -> u32 {
    let src = View::new(src, src_stride, W, H);
    let reference = View::new(reference, reference_stride, W, H);
    // SAFETY: as in `sad`.
    unsafe { satd_avx2::<W, H>(src, reference) }
}
