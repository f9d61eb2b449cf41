//! Six taps across and down.
//!
//! Products are of unsigned samples and signed taps, added in pairs with saturation. The pairs – outer, second and
//! fifth… – are chosen such that a sum that saturates would be clamped to 255 in any case.

use super::*;
use crate::vp8::predict::inter::SIX_TAP;

/// Lines of the largest block with its context.
const LINES: usize = 21;
/// Bytes a line of filtered samples takes.
const WIDTH: usize = 16;

/// The three pairs of taps, each pair in every 16 bits: first and last, second and fourth, third and fifth.
#[derive(Clone, Copy)]
struct Taps {
    outer: __m256i,
    second: __m256i,
    third: __m256i,
}

impl Taps {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(eighths: usize) -> Taps {
        let taps = &SIX_TAP[eighths & 7];
        let pair = |a: usize, b: usize| _mm256_set1_epi16(i16::from_le_bytes([taps[a] as u8, taps[b] as u8]));
        Taps { outer: pair(0, 5), second: pair(1, 3), third: pair(2, 4) }
    }

    /// Filters 16 samples whose pairs are given, to 16 bits each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn apply(&self, outer: __m256i, second: __m256i, third: __m256i) -> __m256i {
        let outer = _mm256_maddubs_epi16(outer, self.outer);
        let second = _mm256_maddubs_epi16(second, self.second);
        let third = _mm256_maddubs_epi16(third, self.third);
        let sum = _mm256_adds_epi16(_mm256_add_epi16(second, outer), third);
        _mm256_srai_epi16(_mm256_adds_epi16(sum, _mm256_set1_epi16(64)), 7)
    }

    /// The same for 8 samples.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn apply_half(&self, outer: __m128i, second: __m128i, third: __m128i) -> __m128i {
        let outer = _mm_maddubs_epi16(outer, _mm256_castsi256_si128(self.outer));
        let second = _mm_maddubs_epi16(second, _mm256_castsi256_si128(self.second));
        let third = _mm_maddubs_epi16(third, _mm256_castsi256_si128(self.third));
        let sum = _mm_adds_epi16(_mm_add_epi16(second, outer), third);
        _mm_srai_epi16(_mm_adds_epi16(sum, _mm_set1_epi16(64)), 7)
    }
}

/// Bytes of 8 neighbouring samples' taps `first` and `first + distance`, side by side.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(first: i8, distance: i8) -> __m128i {
    let base = _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    let step = _mm_set1_epi16(i16::from_le_bytes([first as u8, (first + distance) as u8]));
    _mm_add_epi8(base, step)
}

/// Filters `lines` lines of 16 across.
#[inline]
#[target_feature(enable = "avx2")]
fn across_16(out: &mut [u8; LINES * WIDTH], src: &[u8], stride: usize, lines: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let outer = _mm256_broadcastsi128_si256(pairs(0, 5));
    let second = _mm256_broadcastsi128_si256(pairs(1, 2));
    let third = _mm256_broadcastsi128_si256(pairs(2, 2));
    for line in 0..lines {
        let src = &src[line * stride..line * stride + 24];
        let both = _mm256_set_m128i(load16(src, 8), load16(src, 0));
        let value = taps.apply(
            _mm256_shuffle_epi8(both, outer),
            _mm256_shuffle_epi8(both, second),
            _mm256_shuffle_epi8(both, third),
        );
        let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(value, value), 0b1000);
        store16(out, line * WIDTH, _mm256_castsi256_si128(packed));
    }
}

/// Filters `lines` lines of 8 across.
#[inline]
#[target_feature(enable = "avx2")]
fn across_8(out: &mut [u8; LINES * WIDTH], src: &[u8], stride: usize, lines: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let (outer, second, third) = (pairs(0, 5), pairs(1, 2), pairs(2, 2));
    for line in 0..lines {
        let samples = load16(src, line * stride);
        let value = taps.apply_half(
            _mm_shuffle_epi8(samples, outer),
            _mm_shuffle_epi8(samples, second),
            _mm_shuffle_epi8(samples, third),
        );
        store8(out, line * WIDTH, _mm_packus_epi16(value, value));
    }
}

/// Filters 16 lines of 16 down, two at a time. `src` begins two lines above.
#[inline]
#[target_feature(enable = "avx2")]
fn down_16(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let line = |at: usize| load16(src, at * src_stride);
    let two = |a: __m128i, b: __m128i| _mm256_set_m128i(b, a);
    // Lines at..=at+6, from which lines at+2 and at+3 are made.
    let mut window = [line(0), line(1), line(2), line(3), line(4)];
    for at in (0..16).step_by(2) {
        let (next, last) = (line(at + 5), line(at + 6));
        let lines = [
            two(window[0], window[1]),
            two(window[1], window[2]),
            two(window[2], window[3]),
            two(window[3], window[4]),
            two(window[4], next),
            two(next, last),
        ];
        let low = taps.apply(
            _mm256_unpacklo_epi8(lines[0], lines[5]),
            _mm256_unpacklo_epi8(lines[1], lines[3]),
            _mm256_unpacklo_epi8(lines[2], lines[4]),
        );
        let high = taps.apply(
            _mm256_unpackhi_epi8(lines[0], lines[5]),
            _mm256_unpackhi_epi8(lines[1], lines[3]),
            _mm256_unpackhi_epi8(lines[2], lines[4]),
        );
        let packed = _mm256_packus_epi16(low, high);
        store16(dst, at * dst_stride, _mm256_castsi256_si128(packed));
        store16(dst, (at + 1) * dst_stride, _mm256_extracti128_si256(packed, 1));
        window = [window[2], window[3], window[4], next, last];
    }
}

/// Filters `N` lines of `N` (8 or 4) down, two at a time. `src` begins two lines above and has 8 bytes a line.
#[inline]
#[target_feature(enable = "avx2")]
fn down_small<const N: usize>(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let line = |at: usize| load8(src, at * src_stride);
    let two = |a: __m128i, b: __m128i| _mm256_set_m128i(b, a);
    let mut window = [line(0), line(1), line(2), line(3), line(4)];
    for at in (0..N).step_by(2) {
        let (next, last) = (line(at + 5), line(at + 6));
        let pair = |a: __m128i, b: __m128i, c: __m128i, d: __m128i| {
            two(_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d))
        };
        let value = taps.apply(
            pair(window[0], next, window[1], last),
            pair(window[1], window[3], window[2], window[4]),
            pair(window[2], window[4], window[3], next),
        );
        let packed = _mm256_packus_epi16(value, value);
        let (first, second) = (_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
        if N == 8 {
            store8(dst, at * dst_stride, first);
            store8(dst, (at + 1) * dst_stride, second);
        } else {
            store4(dst, at * dst_stride, first);
            store4(dst, (at + 1) * dst_stride, second);
        }
        window = [window[2], window[3], window[4], next, last];
    }
}

#[target_feature(enable = "avx2")]
fn block_16(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize, x: usize, y: usize) {
    if x == 0 {
        return down_16(dst, dst_stride, &src[2..], src_stride, y);
    }
    let mut half = [0; LINES * WIDTH];
    if y == 0 {
        across_16(&mut half, &src[2 * src_stride..], src_stride, 16, x);
        for line in 0..16 {
            store16(dst, line * dst_stride, load16(&half, line * WIDTH));
        }
    } else {
        across_16(&mut half, src, src_stride, 21, x);
        down_16(dst, dst_stride, &half, WIDTH, y);
    }
}

#[target_feature(enable = "avx2")]
fn block_small<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    if x == 0 {
        return down_small::<N>(dst, dst_stride, &src[2..], src_stride, y);
    }
    let mut half = [0; LINES * WIDTH];
    if y == 0 {
        across_8(&mut half, &src[2 * src_stride..], src_stride, N, x);
        for line in 0..N {
            dst[line * dst_stride..][..N].copy_from_slice(&half[line * WIDTH..][..N]);
        }
    } else {
        across_8(&mut half, src, src_stride, N + 5, x);
        down_small::<N>(dst, dst_stride, &half, WIDTH, y);
    }
}

pub(super) fn six_tap_16(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    // SAFETY: this function is only reached through a table that is given out where there is AVX2.
    unsafe { block_16(dst, dst_stride, src, src_stride, x, y) }
}

pub(super) fn six_tap_8(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    // SAFETY: as above.
    unsafe { block_small::<8>(dst, dst_stride, src, src_stride, x, y) }
}

pub(super) fn six_tap_4(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    // SAFETY: as above.
    unsafe { block_small::<4>(dst, dst_stride, src, src_stride, x, y) }
}
