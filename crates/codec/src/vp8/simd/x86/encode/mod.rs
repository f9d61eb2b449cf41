//! The encoder's kernels with AVX2.
//!
//! Each entry of the table is a safe function that checks its slices by making [`View`]s of them, and calls one that
//! is compiled for AVX2.

mod denoise;
mod distance;
mod intra;
mod plane;
mod quantize;
mod sub_pel;
mod transform;

use super::view::View;
use super::*;
use crate::vp8::simd::encode::EncodeKernels;

/// One function for each shape.
macro_rules! by_shape {
    ($function:path) => {{
        use $function as function;
        [function::<16, 16>, function::<16, 8>, function::<8, 16>, function::<8, 8>, function::<4, 4>]
    }};
}

pub(super) static AVX2: EncodeKernels = EncodeKernels {
    name: "avx2",
    sad: by_shape!(distance::sad),
    sad_four: by_shape!(distance::sad_four),
    satd: by_shape!(distance::satd),
    sub_pel_sad: by_shape!(sub_pel::sub_pel_sad),
    sub_pel_satd: by_shape!(sub_pel::sub_pel_satd),
    square_costs: [intra::square_costs::<16>, intra::square_costs::<8>],
    subblock_costs: intra::subblock_costs,
    forward_block: transform::forward_block,
    forward_luma: transform::forward_luma,
    forward_chroma: transform::forward_chroma,
    forward_wht: transform::forward_wht,
    quantize: quantize::quantize,
    quantize_run: quantize::quantize_run,
    write_tokens: super::entropy::write_tokens,
    prefetch: plane::prefetch,
    denoise: denoise::block,
    plane_sse: plane::plane_sse,
};

/// The sum of eight values.
#[inline]
#[target_feature(enable = "avx2")]
fn sum32(values: __m256i) -> u32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    sum32_of_four(four)
}

/// The sum of four values.
#[inline]
#[target_feature(enable = "avx2")]
fn sum32_of_four(values: __m128i) -> u32 {
    let two = _mm_add_epi32(values, _mm_shuffle_epi32(values, 0b1110));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0b01))) as u32
}

/// The sum of sixteen values of 16 bits without sign.
#[inline]
#[target_feature(enable = "avx2")]
fn sum16(values: __m256i) -> u32 {
    let even = _mm256_and_si256(values, _mm256_set1_epi32(0xffff));
    sum32(_mm256_add_epi32(even, _mm256_srli_epi32(values, 16)))
}
