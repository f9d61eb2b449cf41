//! A block moved towards its prediction.

use super::*;
use crate::vp8::encode::denoise::filter::{Level, SIDE};

/// # Safety
/// Both views are of 8×8 samples.
#[target_feature(enable = "avx2")]
unsafe fn block_avx2(level: &Level, source: View, predicted: View, out: &mut [u8], out_stride: usize) -> u32 {
    let one = _mm256_set1_epi16(1);
    let mut samples = [_mm256_setzero_si256(); 4];
    let mut differences = samples;
    let mut sum = _mm256_setzero_si256();
    for pair in 0..4 {
        // SAFETY: the views are as promised.
        let (source, predicted) = unsafe { (source.two_of_8(2 * pair, 0), predicted.two_of_8(2 * pair, 0)) };
        samples[pair] = _mm256_cvtepu8_epi16(source);
        differences[pair] = _mm256_sub_epi16(_mm256_cvtepu8_epi16(predicted), samples[pair]);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(differences[pair], one));
    }
    let real = _mm256_set1_epi16(level.real(sum32(sum) as i32));
    let mut sum = _mm256_setzero_si256();
    for difference in &mut differences {
        *difference = _mm256_sub_epi16(*difference, real);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_abs_epi16(*difference), one));
    }
    let rest = sum32(sum);
    let (most, slope) = level.share(rest);
    let (most, slope, limit) =
        (_mm256_set1_epi16(most), _mm256_set1_epi16(slope), _mm256_set1_epi16(level.limit));
    for (pair, (samples, differences)) in samples.into_iter().zip(differences).enumerate() {
        let size = _mm256_abs_epi16(differences);
        let beyond = _mm256_max_epi16(_mm256_sub_epi16(limit, size), _mm256_setzero_si256());
        let share = _mm256_min_epi16(_mm256_srai_epi16(_mm256_mullo_epi16(beyond, slope), 4), most);
        let way = _mm256_srli_epi16(_mm256_mullo_epi16(size, share), 8);
        let moved = _mm256_add_epi16(samples, _mm256_sign_epi16(way, differences));
        let moved = _mm256_packus_epi16(moved, moved);
        store8(out, 2 * pair * out_stride, _mm256_castsi256_si128(moved));
        store8(out, (2 * pair + 1) * out_stride, _mm256_extracti128_si256(moved, 1));
    }
    rest
}

pub(super) fn block(
    level: &Level,
    (source, source_stride): (&[u8], usize),
    (predicted, stride): (&[u8], usize),
    (out, out_stride): (&mut [u8], usize),
) -> u32 {
    let source = View::new(source, source_stride, SIDE, SIDE);
    let predicted = View::new(predicted, stride, SIDE, SIDE);
    // SAFETY: the views are as large as needed; this function is only reached through a table that is given out
    // where there is AVX2.
    unsafe { block_avx2(level, source, predicted, out, out_stride) }
}
