//! Costs of the intra modes, all at once.

use super::distance::{pairs_of_4, pairs_of_8, pairs_of_16, satd_of_4, satd_of_lines, twice};
use super::*;
use crate::vp8::predict::intra::{self, Edges, SubblockEdges};

/// Sums of pairs of equal samples, and their differences, which are none: in the layout of `pairs_of_16` where `N` is
/// 16, of `pairs_of_8` with a sample of each of two lines where it is 8.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs_of_equal<const N: usize>(sample: u8, lower: u8) -> __m256i {
    let sum = |sample: u8| _mm_set1_epi16(2 * i16::from(sample));
    if N == 16 {
        _mm256_zextsi128_si256(sum(sample))
    } else {
        _mm256_set_m128i(_mm_move_epi64(sum(lower)), _mm_move_epi64(sum(sample)))
    }
}

/// Lines of a square block by true motion, to sums and differences of pairs: one of 16, or two of 8.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs_of_true_motion<const N: usize>(above: __m256i, base: i16, lower: i16) -> __m256i {
    if N == 16 {
        let samples = _mm256_add_epi16(above, _mm256_set1_epi16(base));
        let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(samples, samples), 0b1000);
        pairs_of_16(_mm256_castsi256_si128(packed))
    } else {
        let base = _mm256_set_m128i(_mm_set1_epi16(lower), _mm_set1_epi16(base));
        let samples = _mm256_add_epi16(above, base);
        pairs_of_8(_mm256_packus_epi16(samples, samples))
    }
}

/// # Safety
/// `src` is of `N`×`N` samples, 16 or 8.
#[target_feature(enable = "avx2")]
unsafe fn square_costs_avx2<const N: usize>(src: View, edges: &Edges<'_>) -> [u32; 4] {
    let left: &[u8] = &edges.left[..N];
    // Eight samples stand in both halves.
    let above = if N == 16 { load16(edges.above, 0) } else { load8(edges.above, 0) };
    let (wide, vertical) = if N == 16 {
        (_mm256_cvtepu8_epi16(above), pairs_of_16(above))
    } else {
        let twice = _mm_unpacklo_epi64(above, above);
        (_mm256_cvtepu8_epi16(twice), pairs_of_8(_mm256_broadcastsi128_si256(twice)))
    };
    let mean = intra::dc(edges, N);
    let mean = pairs_of_equal::<N>(mean, mean);
    let corner = i16::from(edges.corner);
    let base = |line: usize| i16::from(left[line]) - corner;
    let mut sums = [_mm256_setzero_si256(); 4];
    // Four lines at a time, or twice four.
    for y in (0..N).step_by(if N == 16 { 4 } else { 8 }) {
        let mut lines = [[_mm256_setzero_si256(); 4]; 4];
        for (at, line) in (y..y + 4).enumerate() {
            let lower = if N == 16 { line } else { line + 4 };
            // SAFETY: the lines lie in the view.
            let own = unsafe {
                if N == 16 { pairs_of_16(src.load16(line, 0)) } else { pairs_of_8(twice(src, line)) }
            };
            lines[0][at] = _mm256_sub_epi16(own, mean);
            lines[1][at] = _mm256_sub_epi16(own, vertical);
            lines[2][at] = _mm256_sub_epi16(own, pairs_of_equal::<N>(left[line], left[lower]));
            let motion = pairs_of_true_motion::<N>(wide, base(line), base(lower));
            lines[3][at] = _mm256_sub_epi16(own, motion);
        }
        for (sum, lines) in sums.iter_mut().zip(lines) {
            *sum = _mm256_add_epi16(*sum, satd_of_lines(lines));
        }
    }
    sums.map(|sum| sum16(sum))
}

pub(super) fn square_costs<const N: usize>(src: &[u8], stride: usize, edges: &Edges<'_>) -> [u32; 4] {
    let src = View::new(src, stride, N, N);
    // SAFETY: the view is of N×N samples; this function is only reached through a table that is given out where
    // there is AVX2.
    unsafe { square_costs_avx2::<N>(src, edges) }
}

/// A shuffle that takes places of means of two, then of three: `T + n` is the mean of three around place `n`.
const fn shuffle(places: [u8; 16]) -> [[u8; 16]; 2] {
    let mut out = [[0x80; 16]; 2];
    let mut at = 0;
    while at < 16 {
        let three = places[at] >= T;
        out[three as usize][at] = places[at] - if three { T } else { 0 };
        at += 1;
    }
    out
}

/// See [`shuffle`].
const T: u8 = 32;

/// The directional modes of a subblock, in the order of `B_MODES` from the third on, by means of
/// two (the place and the next) and of three samples around it.
static DIRECTIONS: [[[u8; 16]; 2]; 8] = [
    // Vertical.
    shuffle([
        T + 5,
        T + 6,
        T + 7,
        T + 8,
        T + 5,
        T + 6,
        T + 7,
        T + 8,
        T + 5,
        T + 6,
        T + 7,
        T + 8,
        T + 5,
        T + 6,
        T + 7,
        T + 8,
    ]),
    // Horizontal.
    shuffle([T + 3, T + 3, T + 3, T + 3, T + 2, T + 2, T + 2, T + 2, T + 1, T + 1, T + 1, T + 1, T, T, T, T]),
    // Left and down.
    shuffle([
        T + 6,
        T + 7,
        T + 8,
        T + 9,
        T + 7,
        T + 8,
        T + 9,
        T + 10,
        T + 8,
        T + 9,
        T + 10,
        T + 11,
        T + 9,
        T + 10,
        T + 11,
        T + 12,
    ]),
    // Right and down.
    shuffle([
        T + 4,
        T + 5,
        T + 6,
        T + 7,
        T + 3,
        T + 4,
        T + 5,
        T + 6,
        T + 2,
        T + 3,
        T + 4,
        T + 5,
        T + 1,
        T + 2,
        T + 3,
        T + 4,
    ]),
    // Vertical, to the right.
    shuffle([4, 5, 6, 7, T + 4, T + 5, T + 6, T + 7, T + 3, 4, 5, 6, T + 2, T + 4, T + 5, T + 6]),
    // Vertical, to the left.
    shuffle([5, 6, 7, 8, T + 6, T + 7, T + 8, T + 9, 6, 7, 8, T + 10, T + 7, T + 8, T + 9, T + 11]),
    // Horizontal, down.
    shuffle([3, T + 4, T + 5, T + 6, 2, T + 3, 3, T + 4, 1, T + 2, 2, T + 3, 0, T + 1, 1, T + 2]),
    // Horizontal, up; place 13 of the means of two is the bottom sample alone.
    shuffle([2, T + 2, 1, T + 1, 1, T + 1, 0, T, 0, T, 13, 13, 13, 13, 13, 13]),
];

/// The ten predictions of a subblock, line by line.
#[inline]
#[target_feature(enable = "avx2")]
fn subblocks(edges: &SubblockEdges) -> [__m128i; 10] {
    // The edges between copies of their ends: place n of the edges is byte n + 1.
    let mut around = [0; 16];
    around[0] = edges[0];
    around[1..14].copy_from_slice(edges);
    around[14] = edges[12];
    let before = load16(&around, 0);
    let (own, after) = (_mm_srli_si128(before, 1), _mm_srli_si128(before, 2));
    let two = _mm_insert_epi8(_mm_avg_epu8(own, after), i32::from(edges[0]), 13);
    // (before + 2 own + after + 2) / 4: the mean of own with the mean of the others, that one rounded down.
    let odd = _mm_and_si128(_mm_xor_si128(before, after), _mm_set1_epi8(1));
    let three = _mm_avg_epu8(own, _mm_sub_epi8(_mm_avg_epu8(before, after), odd));
    let mut out = [_mm_setzero_si128(); 10];
    // The mean of 4 samples to the left and 4 above, without the corner.
    let eight = _mm_shuffle_epi8(own, _mm_setr_epi8(0, 1, 2, 3, 5, 6, 7, 8, -1, -1, -1, -1, -1, -1, -1, -1));
    let sum = _mm_cvtsi128_si32(_mm_sad_epu8(eight, out[0]));
    out[0] = _mm_set1_epi8(((sum + 4) >> 3) as i8);
    // True motion: all four lines in a vector.
    let above = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_srli_si128(own, 5)));
    let above = _mm256_unpacklo_epi64(above, above);
    let base = _mm256_sub_epi16(above, _mm256_set1_epi16(i16::from(edges[4])));
    let left = |line: usize| i64::from(edges[3 - line]) * 0x0001_0001_0001_0001;
    let lines = _mm256_add_epi16(base, _mm256_setr_epi64x(left(0), left(1), left(2), left(3)));
    let (low, high) = (_mm256_castsi256_si128(lines), _mm256_extracti128_si256(lines, 1));
    out[1] = _mm_packus_epi16(low, high);
    for (out, shuffles) in out[2..].iter_mut().zip(&DIRECTIONS) {
        let of_two = _mm_shuffle_epi8(two, load16(&shuffles[0], 0));
        *out = _mm_or_si128(of_two, _mm_shuffle_epi8(three, load16(&shuffles[1], 0)));
    }
    out
}

/// # Safety
/// `src` is of 4×4 samples.
#[target_feature(enable = "avx2")]
unsafe fn subblock_costs_avx2(src: View, edges: &SubblockEdges) -> [u32; 10] {
    // SAFETY: the lines lie in the view.
    let src = pairs_of_4(_mm256_broadcastsi128_si256(unsafe { src.four_of_4(0, 0) }));
    let predictions = subblocks(edges);
    let mut sums = [_mm256_setzero_si256(); 6];
    for (sum, pair) in sums.iter_mut().zip(predictions.as_chunks::<2>().0) {
        let prediction = pairs_of_4(_mm256_set_m128i(pair[1], pair[0]));
        let upper = _mm256_sub_epi16(src[0], prediction[0]);
        let parts = satd_of_4([upper, _mm256_sub_epi16(src[1], prediction[1])]);
        // At most 2,040 each: four of them fit.
        *sum = _mm256_madd_epi16(parts, _mm256_set1_epi16(1));
    }
    let first = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    let last = _mm256_hadd_epi32(sums[4], sums[5]);
    let last = _mm256_hadd_epi32(last, last);
    // Modes 0, 2, 4, 6 in the low half of the first, 1, 3, 5, 7 in the high one; 8 and 9 in the last.
    let (even, odd) = (_mm256_castsi256_si128(first), _mm256_extracti128_si256(first, 1));
    let (eighth, ninth) = (_mm256_castsi256_si128(last), _mm256_extracti128_si256(last, 1));
    let mut out = [0; 10];
    // SAFETY: 4 + 4 + 2 values of 32 bits; the stores need no alignment.
    unsafe {
        let place = out.as_mut_ptr().cast::<u32>();
        _mm_storeu_si128(place.cast(), _mm_unpacklo_epi32(even, odd));
        _mm_storeu_si128(place.add(4).cast(), _mm_unpackhi_epi32(even, odd));
        _mm_storel_epi64(place.add(8).cast(), _mm_unpacklo_epi32(eighth, ninth));
    }
    out
}

pub(super) fn subblock_costs(src: &[u8], stride: usize, edges: &SubblockEdges) -> [u32; 10] {
    let src = View::new(src, stride, 4, 4);
    // SAFETY: the view is of 4×4 samples, and there is AVX2 as above.
    unsafe { subblock_costs_avx2(src, edges) }
}
