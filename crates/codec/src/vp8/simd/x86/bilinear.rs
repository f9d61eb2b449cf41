//! What lies between whole samples by two taps.
//!
//! Taps are eighths here and 128ths in RFC 6386: multiples of 16, so that dividing the sum by 8 rounds the same way.

use super::view::View;
use super::*;
use crate::vp8::predict::inter::BEFORE;

/// Weights of a sample and the next one, in every pair of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(eighths: usize) -> __m256i {
    let eighths = (eighths & 7) as u8;
    _mm256_set1_epi16(i16::from_le_bytes([8 - eighths, eighths]))
}

/// 32 samples between `a` and `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn between(a: __m256i, b: __m256i, weights: __m256i) -> __m256i {
    let four = _mm256_set1_epi16(4);
    let low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights);
    let high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights);
    let low = _mm256_srli_epi16(_mm256_add_epi16(low, four), 3);
    let high = _mm256_srli_epi16(_mm256_add_epi16(high, four), 3);
    _mm256_packus_epi16(low, high)
}

/// Two lines of 16 samples, or four of 8, or four of 4, between a sample and the next.
///
/// # Safety
/// `view` holds them and a column more.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn across<const W: usize>(view: View, line: usize, x: usize, weights: __m256i) -> __m256i {
    // SAFETY: as the caller has promised.
    unsafe {
        let (a, b) = match W {
            16 => (view.two_of_16(line, 0), view.two_of_16(line, 1)),
            8 => (view.four_of_8(line, 0), view.four_of_8(line, 1)),
            _ => (
                _mm256_zextsi128_si256(view.four_of_4(line, 0)),
                _mm256_zextsi128_si256(view.four_of_4(line, 1)),
            ),
        };
        if x == 0 { a } else { between(a, b, weights) }
    }
}

/// The one line behind the block, in the lowest bytes.
///
/// # Safety
/// As for [`across`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn last_across<const W: usize>(view: View, line: usize, x: usize, weights: __m256i) -> __m256i {
    // SAFETY: as the caller has promised.
    unsafe {
        let (a, b) = match W {
            16 => (view.load16(line, 0), view.load16(line, 1)),
            8 => (view.load8(line, 0), view.load8(line, 1)),
            _ => {
                let first = view.first.add(line * view.stride);
                let read = |at| _mm_cvtsi32_si128(first.add(at).cast::<i32>().read_unaligned());
                (read(0), read(1))
            }
        };
        let (a, b) = (_mm256_zextsi128_si256(a), _mm256_zextsi128_si256(b));
        if x == 0 { a } else { between(a, b, weights) }
    }
}

/// The lines one below those of `current`, of which the last one is the first of `next`.
#[inline]
#[target_feature(enable = "avx2")]
fn one_below<const W: usize>(current: __m256i, next: __m256i) -> __m256i {
    match W {
        16 => _mm256_permute2x128_si256(current, next, 0x21),
        8 => _mm256_alignr_epi8(_mm256_permute2x128_si256(current, next, 0x21), current, 8),
        _ => _mm256_alignr_epi8(next, current, 4),
    }
}

/// Fills the first `W`·`H` bytes of `out` with a block between whole samples, line after line.
///
/// # Safety
/// `view` holds a line and a column more than the block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn interpolate<const W: usize, const H: usize>(
    out: &mut [u8; 256],
    view: View,
    x: usize,
    y: usize,
) {
    let (x_weights, y_weights) = (weights(x), weights(y));
    let lines = if W == 16 { 2 } else { 4 };
    // SAFETY: all lines lie in the view; a step writes the 32 (for blocks of 4, 16) bytes of its lines.
    unsafe {
        let mut current = across::<W>(view, 0, x, x_weights);
        for line in (0..H).step_by(lines) {
            let value = if y == 0 {
                current
            } else {
                let next = if line + lines < H {
                    across::<W>(view, line + lines, x, x_weights)
                } else {
                    last_across::<W>(view, H, x, x_weights)
                };
                let value = between(current, one_below::<W>(current, next), y_weights);
                current = next;
                value
            };
            let place = out.as_mut_ptr().add(line * W);
            if W == 4 {
                _mm_storeu_si128(place.cast(), _mm256_castsi256_si128(value));
            } else {
                _mm256_storeu_si256(place.cast(), value);
            }
            if y == 0 && line + lines < H {
                current = across::<W>(view, line + lines, x, x_weights);
            }
        }
    }
}

/// Blocks of `N`×`N` samples.
///
/// # Safety
/// `view` is of the block with a line and a column more.
#[target_feature(enable = "avx2")]
unsafe fn block<const N: usize>(dst: &mut [u8], dst_stride: usize, view: View, x: usize, y: usize) {
    let mut out = [0; 256];
    // SAFETY: as the caller has promised.
    unsafe { interpolate::<N, N>(&mut out, view, x, y) };
    for (line, samples) in out.as_chunks::<N>().0[..N].iter().enumerate() {
        dst[line * dst_stride..][..N].copy_from_slice(samples);
    }
}

pub(super) fn bilinear<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    let view = View::new(&src[BEFORE * src_stride + BEFORE..], src_stride, N + 1, N + 1);
    // SAFETY: the view is as large as needed; this function is only reached through a table that is given out where
    // there is AVX2.
    unsafe { block::<N>(dst, dst_stride, view, x, y) }
}

pub(super) fn bilinear_two<const N: usize>(
    dst: [&mut [u8]; 2],
    dst_stride: usize,
    src: [&[u8]; 2],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    for (dst, src) in dst.into_iter().zip(src) {
        bilinear::<N>(dst, dst_stride, src, src_stride, x, y);
    }
}
