//! The normal loop filter, 32 places along an edge at a time: 16 of luma, 8 of Cb, 8 of Cr.
//!
//! Eight vectors hold the samples across the edge, four on each side. Across a horizontal edge they are lines; across
//! a vertical one they are made by turning 32 lines of 8 samples into 8 columns of 32, and turned back.

use super::*;
use crate::vp8::loop_filter::{Area, Thresholds};

/// Samples across an edge, from the fourth on one side to the fourth on the other.
type Across = [__m256i; 8];

#[inline]
#[target_feature(enable = "avx2")]
fn bytes(value: u8) -> __m256i {
    _mm256_set1_epi8(value as i8)
}

#[inline]
#[target_feature(enable = "avx2")]
fn difference(a: __m256i, b: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a))
}

/// All ones where `value` is at most `limit`, both unsigned.
#[inline]
#[target_feature(enable = "avx2")]
fn at_most(value: __m256i, limit: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_subs_epu8(value, limit), _mm256_setzero_si256())
}

/// Where an edge is to be filtered, and where its surroundings do not vary highly.
#[inline]
#[target_feature(enable = "avx2")]
fn masks(s: &Across, edge: u8, thresholds: &Thresholds) -> (__m256i, __m256i) {
    let near = _mm256_max_epu8(difference(s[2], s[3]), difference(s[5], s[4]));
    let far = _mm256_max_epu8(
        _mm256_max_epu8(difference(s[0], s[1]), difference(s[1], s[2])),
        _mm256_max_epu8(difference(s[7], s[6]), difference(s[6], s[5])),
    );
    let smooth = at_most(_mm256_max_epu8(near, far), bytes(thresholds.interior));
    let step = difference(s[3], s[4]);
    // Halved in 16 bits, so the lowest bit of one byte is not to fall into the next.
    let outer = _mm256_and_si256(difference(s[2], s[5]), bytes(0xfe));
    let outer = _mm256_srli_epi16(outer, 1);
    let size = _mm256_adds_epu8(_mm256_adds_epu8(step, step), outer);
    let mask = _mm256_and_si256(at_most(size, bytes(edge)), smooth);
    (mask, at_most(near, bytes(thresholds.high_variance)))
}

/// Signed bytes divided by 8, rounded down.
#[inline]
#[target_feature(enable = "avx2")]
fn eighth(value: __m256i) -> __m256i {
    let shifted = _mm256_srli_epi16(_mm256_xor_si256(value, bytes(0x80)), 3);
    _mm256_sub_epi8(_mm256_and_si256(shifted, bytes(0x1f)), bytes(0x10))
}

/// `outer + 3 (q0 − p0)`, saturated.
#[inline]
#[target_feature(enable = "avx2")]
fn common(outer: __m256i, p0: __m256i, q0: __m256i) -> __m256i {
    let step = _mm256_subs_epi8(q0, p0);
    _mm256_adds_epi8(_mm256_adds_epi8(_mm256_adds_epi8(outer, step), step), step)
}

/// Filters across a subblock's edge; changes the two samples on each side.
#[inline]
#[target_feature(enable = "avx2")]
fn subblock(s: &mut Across, thresholds: &Thresholds) {
    let (mask, calm) = masks(s, thresholds.subblock_edge, thresholds);
    let sign = bytes(0x80);
    let [p1, p0, q0, q1] = [2, 3, 4, 5].map(|at| _mm256_xor_si256(s[at], sign));
    let outer = _mm256_andnot_si256(calm, _mm256_subs_epi8(p1, q1));
    let value = _mm256_and_si256(common(outer, p0, q0), mask);
    let down = eighth(_mm256_adds_epi8(value, bytes(4)));
    let up = eighth(_mm256_adds_epi8(value, bytes(3)));
    // (down + 1) / 2, rounded down: an average with zero, both shifted to unsigned.
    let half = _mm256_xor_si256(_mm256_avg_epu8(_mm256_xor_si256(down, sign), sign), sign);
    let half = _mm256_and_si256(half, calm);
    s[2] = _mm256_xor_si256(_mm256_adds_epi8(p1, half), sign);
    s[3] = _mm256_xor_si256(_mm256_adds_epi8(p0, up), sign);
    s[4] = _mm256_xor_si256(_mm256_subs_epi8(q0, down), sign);
    s[5] = _mm256_xor_si256(_mm256_subs_epi8(q1, half), sign);
}

/// `(value · weight + 63) / 128` of signed bytes that are interleaved with ones.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted(low: __m256i, high: __m256i, weight: u8) -> __m256i {
    let factors = _mm256_set1_epi16(i16::from_le_bytes([weight, 63]));
    let low = _mm256_srai_epi16(_mm256_maddubs_epi16(factors, low), 7);
    let high = _mm256_srai_epi16(_mm256_maddubs_epi16(factors, high), 7);
    _mm256_packs_epi16(low, high)
}

/// Filters across a macroblock's edge; changes the three samples on each side.
#[inline]
#[target_feature(enable = "avx2")]
fn macroblock(s: &mut Across, thresholds: &Thresholds) {
    let (mask, calm) = masks(s, thresholds.macroblock_edge, thresholds);
    let sign = bytes(0x80);
    let [p2, p1, p0, q0, q1, q2] = [1, 2, 3, 4, 5, 6].map(|at| _mm256_xor_si256(s[at], sign));
    let value = _mm256_and_si256(common(_mm256_subs_epi8(p1, q1), p0, q0), mask);
    let wild = _mm256_andnot_si256(calm, value);
    let down = eighth(_mm256_adds_epi8(wild, bytes(4)));
    let up = eighth(_mm256_adds_epi8(wild, bytes(3)));
    let (p0, q0) = (_mm256_adds_epi8(p0, up), _mm256_subs_epi8(q0, down));
    let value = _mm256_and_si256(value, calm);
    let low = _mm256_unpacklo_epi8(value, bytes(1));
    let high = _mm256_unpackhi_epi8(value, bytes(1));
    let (a, b, c) = (weighted(low, high, 27), weighted(low, high, 18), weighted(low, high, 9));
    s[1] = _mm256_xor_si256(_mm256_adds_epi8(p2, c), sign);
    s[2] = _mm256_xor_si256(_mm256_adds_epi8(p1, b), sign);
    s[3] = _mm256_xor_si256(_mm256_adds_epi8(p0, a), sign);
    s[4] = _mm256_xor_si256(_mm256_subs_epi8(q0, a), sign);
    s[5] = _mm256_xor_si256(_mm256_subs_epi8(q1, b), sign);
    s[6] = _mm256_xor_si256(_mm256_subs_epi8(q2, c), sign);
}

/// 16 samples of luma, 8 of Cb, 8 of Cr.
#[inline]
#[target_feature(enable = "avx2")]
fn load_line(area: &Area<'_>, y: usize, uv: usize) -> __m256i {
    let chroma = _mm_unpacklo_epi64(load8(area.u, uv), load8(area.v, uv));
    _mm256_set_m128i(chroma, load16(area.y, y))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_line(area: &mut Area<'_>, y: usize, uv: usize, line: __m256i) {
    store16(area.y, y, _mm256_castsi256_si128(line));
    let chroma = _mm256_extracti128_si256(line, 1);
    store8(area.u, uv, chroma);
    store8(area.v, uv, _mm_unpackhi_epi64(chroma, chroma));
}

/// Loads the lines around a horizontal edge of all planes.
#[inline]
#[target_feature(enable = "avx2")]
fn load_lines(area: &Area<'_>, y: usize, uv: usize) -> Across {
    let (y, uv) = (y - 4 * area.y_stride, uv - 4 * area.uv_stride);
    [0, 1, 2, 3, 4, 5, 6, 7].map(|at| load_line(area, y + at * area.y_stride, uv + at * area.uv_stride))
}

/// Transposes in each half of 128 bits: of 8 vectors, each with a line of 8 samples in its low and one in its high
/// half, vectors of columns, the low halves' samples first.
#[inline]
#[target_feature(enable = "avx2")]
fn to_columns(lines: Across) -> Across {
    let half = |a: [__m256i; 4]| {
        // Pairs of lines, byte by byte; then 16 bits by 16 bits; then 32 by 32: two columns a vector.
        let (b0, b1) = (_mm256_unpacklo_epi16(a[0], a[1]), _mm256_unpackhi_epi16(a[0], a[1]));
        let (b2, b3) = (_mm256_unpacklo_epi16(a[2], a[3]), _mm256_unpackhi_epi16(a[2], a[3]));
        [
            _mm256_unpacklo_epi32(b0, b2),
            _mm256_unpackhi_epi32(b0, b2),
            _mm256_unpacklo_epi32(b1, b3),
            _mm256_unpackhi_epi32(b1, b3),
        ]
    };
    let low = half([0, 2, 4, 6].map(|at| _mm256_unpacklo_epi8(lines[at], lines[at + 1])));
    let high = half([0, 2, 4, 6].map(|at| _mm256_unpackhi_epi8(lines[at], lines[at + 1])));
    [
        _mm256_unpacklo_epi64(low[0], high[0]),
        _mm256_unpackhi_epi64(low[0], high[0]),
        _mm256_unpacklo_epi64(low[1], high[1]),
        _mm256_unpackhi_epi64(low[1], high[1]),
        _mm256_unpacklo_epi64(low[2], high[2]),
        _mm256_unpackhi_epi64(low[2], high[2]),
        _mm256_unpacklo_epi64(low[3], high[3]),
        _mm256_unpackhi_epi64(low[3], high[3]),
    ]
}

/// Undoes [`to_columns`]: transposing twice is nothing, but the low and high halves come as 8 and 8 columns here.
#[inline]
#[target_feature(enable = "avx2")]
fn to_lines(columns: Across) -> Across {
    // [`to_columns`] takes vectors of two lines; here a vector holds a column's samples in lines 0 to 7 and 8 to 15,
    // which is the same shape with the roles of lines and columns exchanged.
    to_columns(columns)
}

/// Loads the columns around a vertical edge of all planes: luma's 16 lines, then Cb's 8 and Cr's 8.
#[inline]
#[target_feature(enable = "avx2")]
fn load_columns(area: &Area<'_>, y: usize, uv: usize) -> Across {
    let (y, uv) = (y - 4, uv - 4);
    to_columns([0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        let luma = _mm_unpacklo_epi64(
            load8(area.y, y + at * area.y_stride),
            load8(area.y, y + (at + 8) * area.y_stride),
        );
        let chroma = uv + at * area.uv_stride;
        _mm256_set_m128i(_mm_unpacklo_epi64(load8(area.u, chroma), load8(area.v, chroma)), luma)
    }))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_columns(area: &mut Area<'_>, y: usize, uv: usize, columns: Across) {
    let (y, uv) = (y - 4, uv - 4);
    for (at, line) in to_lines(columns).into_iter().enumerate() {
        let luma = _mm256_castsi256_si128(line);
        store8(area.y, y + at * area.y_stride, luma);
        store8(area.y, y + (at + 8) * area.y_stride, _mm_unpackhi_epi64(luma, luma));
        let chroma = _mm256_extracti128_si256(line, 1);
        store8(area.u, uv + at * area.uv_stride, chroma);
        store8(area.v, uv + at * area.uv_stride, _mm_unpackhi_epi64(chroma, chroma));
    }
}

/// Filters luma's vertical edge at `y`; half of the vectors goes unused.
#[inline]
#[target_feature(enable = "avx2")]
fn luma_column(plane: &mut [u8], y: usize, stride: usize, thresholds: &Thresholds) {
    let y = y - 4;
    let mut s = to_columns([0, 1, 2, 3, 4, 5, 6, 7].map(|at| {
        let luma = _mm_unpacklo_epi64(load8(plane, y + at * stride), load8(plane, y + (at + 8) * stride));
        _mm256_castsi128_si256(luma)
    }));
    subblock(&mut s, thresholds);
    for (at, line) in to_lines(s).into_iter().enumerate() {
        let luma = _mm256_castsi256_si128(line);
        store8(plane, y + at * stride, luma);
        store8(plane, y + (at + 8) * stride, _mm_unpackhi_epi64(luma, luma));
    }
}

/// Filters luma's horizontal edge at `y`.
#[inline]
#[target_feature(enable = "avx2")]
fn luma_row(plane: &mut [u8], y: usize, stride: usize, thresholds: &Thresholds) {
    let first = y - 4 * stride;
    let mut s = [0, 1, 2, 3, 4, 5, 6, 7].map(|at| _mm256_castsi128_si256(load16(plane, first + at * stride)));
    subblock(&mut s, thresholds);
    for at in 2..6 {
        store16(plane, first + at * stride, _mm256_castsi256_si128(s[at]));
    }
}

#[target_feature(enable = "avx2")]
fn left_edge(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let mut s = load_columns(area, y, uv);
    macroblock(&mut s, thresholds);
    store_columns(area, y, uv, s);
}

#[target_feature(enable = "avx2")]
fn inner_columns(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let mut s = load_columns(area, y + 4, uv + 4);
    subblock(&mut s, thresholds);
    store_columns(area, y + 4, uv + 4, s);
    luma_column(area.y, y + 8, area.y_stride, thresholds);
    luma_column(area.y, y + 12, area.y_stride, thresholds);
}

#[target_feature(enable = "avx2")]
fn top_edge(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let mut s = load_lines(area, y, uv);
    macroblock(&mut s, thresholds);
    let (y, uv) = (y - 4 * area.y_stride, uv - 4 * area.uv_stride);
    for at in 1..7 {
        store_line(area, y + at * area.y_stride, uv + at * area.uv_stride, s[at]);
    }
}

#[target_feature(enable = "avx2")]
fn inner_rows(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let (y_stride, uv_stride) = (area.y_stride, area.uv_stride);
    let mut s = load_lines(area, y + 4 * y_stride, uv + 4 * uv_stride);
    subblock(&mut s, thresholds);
    for at in 2..6 {
        store_line(area, y + at * y_stride, uv + at * uv_stride, s[at]);
    }
    luma_row(area.y, y + 8 * y_stride, y_stride, thresholds);
    luma_row(area.y, y + 12 * y_stride, y_stride, thresholds);
}

pub(super) fn left(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    // SAFETY: this function is only reached through a table that is given out where there is AVX2.
    unsafe { left_edge(area, y, uv, thresholds) }
}

pub(super) fn columns(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    // SAFETY: as above.
    unsafe { inner_columns(area, y, uv, thresholds) }
}

pub(super) fn top(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    // SAFETY: as above.
    unsafe { top_edge(area, y, uv, thresholds) }
}

pub(super) fn rows(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    // SAFETY: as above.
    unsafe { inner_rows(area, y, uv, thresholds) }
}
