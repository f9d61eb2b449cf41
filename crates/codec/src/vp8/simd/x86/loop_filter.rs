//! The normal loop filter, 32 places along an edge at a time: 16 of luma, 8 of Cb, 8 of Cr.
//!
//! Eight vectors hold the samples across the edge, four on each side. Across a horizontal edge they are lines; across
//! a vertical one they are made by turning 32 lines of 8 samples into 8 columns of 32, and turned back.

use super::view::MAX_STRIDE;
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

/// Two masks: where an edge has to be filtered, and where the variance around it is not high.
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
    let (p1, p0) = (_mm256_xor_si256(s[2], sign), _mm256_xor_si256(s[3], sign));
    let (q0, q1) = (_mm256_xor_si256(s[4], sign), _mm256_xor_si256(s[5], sign));
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
    let (p2, p1, p0) =
        (_mm256_xor_si256(s[1], sign), _mm256_xor_si256(s[2], sign), _mm256_xor_si256(s[3], sign));
    let (q0, q1, q2) =
        (_mm256_xor_si256(s[4], sign), _mm256_xor_si256(s[5], sign), _mm256_xor_si256(s[6], sign));
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

/// The places in the planes around an edge: from the first sample that a kernel looks at on. All that it looks at
/// lies in the planes, which [`EdgePointers::new`] has checked once for all loads and stores.
struct EdgePointers {
    y: *mut u8,
    u: *mut u8,
    v: *mut u8,
    y_stride: usize,
    uv_stride: usize,
}

/// Checks that `lines` lines of `width` bytes from `first` on lie in the plane, and gives where they begin.
#[inline(always)]
fn place(plane: &mut [u8], first: usize, stride: usize, lines: usize, width: usize) -> *mut u8 {
    assert!(stride <= MAX_STRIDE, "stride {stride}");
    plane[first..][..(lines - 1) * stride + width].as_mut_ptr()
}

impl EdgePointers {
    /// 8 lines of 16 bytes of luma and 8 of chroma, for a horizontal edge.
    #[inline(always)]
    fn of_lines(area: &mut Area<'_>, y: usize, uv: usize) -> EdgePointers {
        EdgePointers {
            y: place(area.y, y, area.y_stride, 8, 16),
            u: place(area.u, uv, area.uv_stride, 8, 8),
            v: place(area.v, uv, area.uv_stride, 8, 8),
            y_stride: area.y_stride,
            uv_stride: area.uv_stride,
        }
    }

    /// 16 lines of luma and 8 of chroma, 8 bytes each, for a vertical edge.
    #[inline(always)]
    fn of_columns(area: &mut Area<'_>, y: usize, uv: usize) -> EdgePointers {
        EdgePointers {
            y: place(area.y, y, area.y_stride, 16, 8),
            ..EdgePointers::of_lines_of_chroma(area, uv)
        }
    }

    #[inline(always)]
    fn of_lines_of_chroma(area: &mut Area<'_>, uv: usize) -> EdgePointers {
        EdgePointers {
            y: std::ptr::null_mut(),
            u: place(area.u, uv, area.uv_stride, 8, 8),
            v: place(area.v, uv, area.uv_stride, 8, 8),
            y_stride: area.y_stride,
            uv_stride: area.uv_stride,
        }
    }
}

/// Loads 16 samples of luma, 8 of Cb, 8 of Cr, `line` lines below the places.
///
/// # Safety
/// The places are those of lines, and `line` is below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_line(places: &EdgePointers, line: usize) -> __m256i {
    let uv = line * places.uv_stride;
    // SAFETY: `EdgePointers::of_lines` has checked that the lines lie in the planes.
    unsafe {
        let (u, v) = (_mm_loadl_epi64(places.u.add(uv).cast()), _mm_loadl_epi64(places.v.add(uv).cast()));
        let luma = _mm_loadu_si128(places.y.add(line * places.y_stride).cast());
        _mm256_set_m128i(_mm_unpacklo_epi64(u, v), luma)
    }
}

/// Undoes [`load_line`].
///
/// # Safety
/// As for [`load_line`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_line(places: &EdgePointers, line: usize, value: __m256i) {
    let uv = line * places.uv_stride;
    let chroma = _mm256_extracti128_si256(value, 1);
    // SAFETY: `EdgePointers::of_lines` has checked that the lines lie in the planes.
    unsafe {
        _mm_storeu_si128(places.y.add(line * places.y_stride).cast(), _mm256_castsi256_si128(value));
        _mm_storel_epi64(places.u.add(uv).cast(), chroma);
        _mm_storel_epi64(places.v.add(uv).cast(), _mm_unpackhi_epi64(chroma, chroma));
    }
}

/// An array of what an expression gives for 0 to 7. A closure would not be compiled into its caller here.
macro_rules! eight {
    ($at:ident => $value:expr) => {
        [
            {
                let $at = 0;
                $value
            },
            {
                let $at = 1;
                $value
            },
            {
                let $at = 2;
                $value
            },
            {
                let $at = 3;
                $value
            },
            {
                let $at = 4;
                $value
            },
            {
                let $at = 5;
                $value
            },
            {
                let $at = 6;
                $value
            },
            {
                let $at = 7;
                $value
            },
        ]
    };
}

/// Transposes in each half of 128 bits: of 8 vectors, each with a line of 8 samples in its low and one in its high
/// half, vectors of columns, the low halves' samples first. Doing it twice is doing nothing, since a vector of
/// columns has the same shape.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(lines: &Across) -> Across {
    // Pairs of lines, byte by byte; then 16 bits by 16 bits; then 32 by 32: two columns a vector.
    let a0 = _mm256_unpacklo_epi8(lines[0], lines[1]);
    let a1 = _mm256_unpacklo_epi8(lines[2], lines[3]);
    let a2 = _mm256_unpacklo_epi8(lines[4], lines[5]);
    let a3 = _mm256_unpacklo_epi8(lines[6], lines[7]);
    let b0 = _mm256_unpackhi_epi8(lines[0], lines[1]);
    let b1 = _mm256_unpackhi_epi8(lines[2], lines[3]);
    let b2 = _mm256_unpackhi_epi8(lines[4], lines[5]);
    let b3 = _mm256_unpackhi_epi8(lines[6], lines[7]);
    let (c0, c1) = (_mm256_unpacklo_epi16(a0, a1), _mm256_unpackhi_epi16(a0, a1));
    let (c2, c3) = (_mm256_unpacklo_epi16(a2, a3), _mm256_unpackhi_epi16(a2, a3));
    let (d0, d1) = (_mm256_unpacklo_epi16(b0, b1), _mm256_unpackhi_epi16(b0, b1));
    let (d2, d3) = (_mm256_unpacklo_epi16(b2, b3), _mm256_unpackhi_epi16(b2, b3));
    let (e0, e1) = (_mm256_unpacklo_epi32(c0, c2), _mm256_unpackhi_epi32(c0, c2));
    let (e2, e3) = (_mm256_unpacklo_epi32(c1, c3), _mm256_unpackhi_epi32(c1, c3));
    let (f0, f1) = (_mm256_unpacklo_epi32(d0, d2), _mm256_unpackhi_epi32(d0, d2));
    let (f2, f3) = (_mm256_unpacklo_epi32(d1, d3), _mm256_unpackhi_epi32(d1, d3));
    [
        _mm256_unpacklo_epi64(e0, f0),
        _mm256_unpackhi_epi64(e0, f0),
        _mm256_unpacklo_epi64(e1, f1),
        _mm256_unpackhi_epi64(e1, f1),
        _mm256_unpacklo_epi64(e2, f2),
        _mm256_unpackhi_epi64(e2, f2),
        _mm256_unpacklo_epi64(e3, f3),
        _mm256_unpackhi_epi64(e3, f3),
    ]
}

/// Loads 8 bytes of the lines `line` and `line + 8` of luma into one vector.
///
/// # Safety
/// 16 lines of 8 bytes from `y` on can be read, and `line` is below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_luma(y: *const u8, stride: usize, line: usize) -> __m128i {
    // SAFETY: both lines are among the 16.
    unsafe {
        let low = _mm_loadl_epi64(y.add(line * stride).cast());
        let high = _mm_loadl_epi64(y.add((line + 8) * stride).cast());
        _mm_unpacklo_epi64(low, high)
    }
}

/// Undoes [`load_luma`].
///
/// # Safety
/// 16 lines of 8 bytes from `y` on can be written, and `line` is below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_luma(y: *mut u8, stride: usize, line: usize, value: __m128i) {
    // SAFETY: both lines are among the 16.
    unsafe {
        _mm_storel_epi64(y.add(line * stride).cast(), value);
        _mm_storel_epi64(y.add((line + 8) * stride).cast(), _mm_unpackhi_epi64(value, value));
    }
}

/// Loads the columns around a vertical edge: luma's 16 lines, then Cb's 8 and Cr's 8.
///
/// # Safety
/// The places are those of columns.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_columns(places: &EdgePointers) -> Across {
    // SAFETY: `EdgePointers::of_columns` has checked that the lines lie in the planes.
    let lines = unsafe {
        eight!(line => {
            let luma = load_luma(places.y, places.y_stride, line);
            let uv = line * places.uv_stride;
            let (u, v) = (_mm_loadl_epi64(places.u.add(uv).cast()), _mm_loadl_epi64(places.v.add(uv).cast()));
            _mm256_set_m128i(_mm_unpacklo_epi64(u, v), luma)
        })
    };
    transpose(&lines)
}

/// Undoes [`load_columns`].
///
/// # Safety
/// As for [`load_columns`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_columns(places: &EdgePointers, columns: &Across) {
    for (line, value) in transpose(columns).into_iter().enumerate() {
        let chroma = _mm256_extracti128_si256(value, 1);
        let uv = line * places.uv_stride;
        // SAFETY: `EdgePointers::of_columns` has checked that the lines lie in the planes.
        unsafe {
            store_luma(places.y, places.y_stride, line, _mm256_castsi256_si128(value));
            _mm_storel_epi64(places.u.add(uv).cast(), chroma);
            _mm_storel_epi64(places.v.add(uv).cast(), _mm_unpackhi_epi64(chroma, chroma));
        }
    }
}

/// Filters luma's vertical edge between subblocks at `at`; half of the vectors goes unused.
#[inline]
#[target_feature(enable = "avx2")]
fn luma_column(plane: &mut [u8], at: usize, stride: usize, thresholds: &Thresholds) {
    let y = place(plane, at - 4, stride, 16, 8);
    // SAFETY: `place` has checked 16 lines of 8 bytes.
    let lines = unsafe { eight!(line => _mm256_castsi128_si256(load_luma(y, stride, line))) };
    let mut s = transpose(&lines);
    subblock(&mut s, thresholds);
    for (line, value) in transpose(&s).into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { store_luma(y, stride, line, _mm256_castsi256_si128(value)) };
    }
}

/// Filters luma's horizontal edge between subblocks at `at`.
#[inline]
#[target_feature(enable = "avx2")]
fn luma_row(plane: &mut [u8], at: usize, stride: usize, thresholds: &Thresholds) {
    let y = place(plane, at - 4 * stride, stride, 8, 16);
    // SAFETY: `place` has checked 8 lines of 16 bytes.
    let mut s =
        unsafe { eight!(line => _mm256_castsi128_si256(_mm_loadu_si128(y.add(line * stride).cast()))) };
    subblock(&mut s, thresholds);
    for (line, &value) in s[2..6].iter().enumerate() {
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(y.add((line + 2) * stride).cast(), _mm256_castsi256_si128(value)) };
    }
}

#[target_feature(enable = "avx2")]
fn left_edge(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let places = EdgePointers::of_columns(area, y - 4, uv - 4);
    // SAFETY: these are places of columns.
    let mut s = unsafe { load_columns(&places) };
    macroblock(&mut s, thresholds);
    // SAFETY: as above.
    unsafe { store_columns(&places, &s) };
}

#[target_feature(enable = "avx2")]
fn inner_columns(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let places = EdgePointers::of_columns(area, y, uv);
    // SAFETY: these are places of columns.
    let mut s = unsafe { load_columns(&places) };
    subblock(&mut s, thresholds);
    // SAFETY: as above.
    unsafe { store_columns(&places, &s) };
    luma_column(area.y, y + 8, area.y_stride, thresholds);
    luma_column(area.y, y + 12, area.y_stride, thresholds);
}

#[target_feature(enable = "avx2")]
fn top_edge(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let places = EdgePointers::of_lines(area, y - 4 * area.y_stride, uv - 4 * area.uv_stride);
    // SAFETY: these are places of lines.
    let mut s = unsafe { eight!(line => load_line(&places, line)) };
    macroblock(&mut s, thresholds);
    for (line, &value) in s[1..7].iter().enumerate() {
        // SAFETY: as above.
        unsafe { store_line(&places, line + 1, value) };
    }
}

#[target_feature(enable = "avx2")]
fn inner_rows(area: &mut Area<'_>, y: usize, uv: usize, thresholds: &Thresholds) {
    let places = EdgePointers::of_lines(area, y, uv);
    // SAFETY: these are places of lines.
    let mut s = unsafe { eight!(line => load_line(&places, line)) };
    subblock(&mut s, thresholds);
    for (line, &value) in s[2..6].iter().enumerate() {
        // SAFETY: as above.
        unsafe { store_line(&places, line + 2, value) };
    }
    let stride = area.y_stride;
    luma_row(area.y, y + 8 * stride, stride, thresholds);
    luma_row(area.y, y + 12 * stride, stride, thresholds);
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
