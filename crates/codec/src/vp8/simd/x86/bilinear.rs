//! What lies between whole samples by two taps.
//!
//! Taps are eighths here and 128ths in RFC 6386: multiples of 16, so that dividing the sum by 8 rounds the same way.

use super::view::View;
use super::*;
use crate::vp8::predict::inter::BEFORE;

/// How a sample and the next one are mixed.
#[derive(Clone, Copy)]
enum Taps {
    /// The sample alone.
    Whole,
    /// A quarter, half, or three quarters of the way.
    Quarter,
    Half,
    ThreeQuarters,
    /// By weights, which stand in every pair of bytes.
    Weighted(__m256i),
}

impl Taps {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(eighths: usize) -> Taps {
        match eighths & 7 {
            0 => Taps::Whole,
            2 => Taps::Quarter,
            4 => Taps::Half,
            6 => Taps::ThreeQuarters,
            other => Taps::Weighted(_mm256_set1_epi16(i16::from_le_bytes([8 - other as u8, other as u8]))),
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Taps::Whole)
    }
}

/// The mean of `a` and `b`, rounded down.
#[inline]
#[target_feature(enable = "avx2")]
fn mean_below(a: __m256i, b: __m256i) -> __m256i {
    let odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd)
}

/// 32 samples between `a` and `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn between(a: __m256i, b: __m256i, taps: Taps) -> __m256i {
    match taps {
        Taps::Whole => a,
        Taps::Half => _mm256_avg_epu8(a, b),
        // (3a + b + 2) / 4: where the mean of both was rounded down, the sum is odd, and so is not rounded itself.
        Taps::Quarter => _mm256_avg_epu8(a, mean_below(a, b)),
        Taps::ThreeQuarters => _mm256_avg_epu8(b, mean_below(a, b)),
        Taps::Weighted(weights) => {
            let four = _mm256_set1_epi16(4);
            let low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights);
            let high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights);
            let low = _mm256_srli_epi16(_mm256_add_epi16(low, four), 3);
            let high = _mm256_srli_epi16(_mm256_add_epi16(high, four), 3);
            _mm256_packus_epi16(low, high)
        }
    }
}

/// Two lines of 16 samples, or four of 8, or four of 4, between a sample and the next.
///
/// # Safety
/// `view` holds them and a column more.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn across<const W: usize>(view: View, line: usize, taps: Taps) -> __m256i {
    // SAFETY: as the caller has promised.
    let load = |at| unsafe {
        match W {
            16 => view.two_of_16(line, at),
            8 => view.four_of_8(line, at),
            _ => _mm256_zextsi128_si256(view.four_of_4(line, at)),
        }
    };
    if taps.is_whole() { load(0) } else { between(load(0), load(1), taps) }
}

/// The one line behind the block, in the lowest bytes.
///
/// # Safety
/// As for [`across`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn last_across<const W: usize>(view: View, line: usize, taps: Taps) -> __m256i {
    // SAFETY: as the caller has promised.
    let load = |at| unsafe {
        _mm256_zextsi128_si256(match W {
            16 => view.load16(line, at),
            8 => view.load8(line, at),
            _ => {
                let first = view.first.add(line * view.stride + at);
                _mm_cvtsi32_si128(first.cast::<i32>().read_unaligned())
            }
        })
    };
    if taps.is_whole() { load(0) } else { between(load(0), load(1), taps) }
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

/// Gives a block between whole samples to `take`: two lines of 16, or four of 8 or (in the low half) of 4, at a time,
/// with the number of the first of them.
///
/// # Safety
/// `view` holds a line and a column more than the block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn for_lines<const W: usize, const H: usize>(
    view: View,
    x: usize,
    y: usize,
    mut take: impl FnMut(usize, __m256i),
) {
    let (x, y) = (Taps::new(x), Taps::new(y));
    let lines = if W == 16 { 2 } else { 4 };
    // SAFETY: all lines lie in the view.
    unsafe {
        if y.is_whole() {
            for line in (0..H).step_by(lines) {
                take(line, across::<W>(view, line, x));
            }
            return;
        }
        let mut current = across::<W>(view, 0, x);
        for line in (0..H).step_by(lines) {
            let next = if line + lines < H {
                across::<W>(view, line + lines, x)
            } else {
                last_across::<W>(view, H, x)
            };
            take(line, between(current, one_below::<W>(current, next), y));
            current = next;
        }
    }
}

/// Fills the first `W`·`H` bytes of `out` with a block between whole samples, line after line.
///
/// # Safety
/// As for [`for_lines`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn interpolate<const W: usize, const H: usize>(
    out: &mut [u8; 256],
    view: View,
    x: usize,
    y: usize,
) {
    let first = out.as_mut_ptr();
    // SAFETY: the view is as promised; a step writes the 32 (for blocks of 4, 16) bytes of its lines.
    unsafe {
        for_lines::<W, H>(view, x, y, |line, value| {
            let place = first.add(line * W);
            if W == 4 {
                _mm_storeu_si128(place.cast(), _mm256_castsi256_si128(value));
            } else {
                _mm256_storeu_si256(place.cast(), value);
            }
        });
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
