//! Distances to what lies between whole samples, by two taps.

use super::super::bilinear::{for_lines, interpolate};
use super::distance::{satd_avx2, sum_of_sads};
use super::*;

/// # Safety
/// `src` is of `W`×`H` samples, and `reference` of a line and a column more.
#[target_feature(enable = "avx2")]
unsafe fn sub_pel_sad_avx2<const W: usize, const H: usize>(
    src: View,
    reference: View,
    x: usize,
    y: usize,
) -> u32 {
    let mut sum = _mm256_setzero_si256();
    // SAFETY: the views are as promised.
    unsafe {
        for_lines::<W, H>(reference, x, y, |line, value| {
            let src = match W {
                16 => src.two_of_16(line, 0),
                8 => src.four_of_8(line, 0),
                _ => _mm256_zextsi128_si256(src.four_of_4(line, 0)),
            };
            sum = _mm256_add_epi64(sum, _mm256_sad_epu8(src, value));
        });
    }
    sum_of_sads(sum)
}

/// # Safety
/// As for [`sub_pel_sad_avx2`].
#[target_feature(enable = "avx2")]
unsafe fn sub_pel_satd_avx2<const W: usize, const H: usize>(
    src: View,
    reference: View,
    x: usize,
    y: usize,
) -> u32 {
    let mut block = [0; 256];
    // SAFETY: as in `sub_pel_sad_avx2`.
    unsafe {
        interpolate::<W, H>(&mut block, reference, x, y);
        satd_avx2::<W, H>(src, View::new(&block, W, W, H))
    }
}

pub(super) fn sub_pel_sad<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    x: usize,
    y: usize,
) -> u32 {
    let src = View::new(src, src_stride, W, H);
    let reference = View::new(reference, reference_stride, W + 1, H + 1);
    // SAFETY: the views are as large as needed; this function is only reached through a table that is given out
    // where there is AVX2.
    unsafe { sub_pel_sad_avx2::<W, H>(src, reference, x, y) }
}

pub(super) fn sub_pel_satd<const W: usize, const H: usize>(
    src: &[u8],
    src_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    x: usize,
    y: usize,
) -> u32 {
    let src = View::new(src, src_stride, W, H);
    let reference = View::new(reference, reference_stride, W + 1, H + 1);
    // SAFETY: as in `sub_pel_sad`.
    unsafe { sub_pel_satd_avx2::<W, H>(src, reference, x, y) }
}
