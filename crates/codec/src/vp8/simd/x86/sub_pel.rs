//! Six taps across and down.
//!
//! Products are of unsigned samples and signed taps, added in pairs with saturation. The pairs – first and last,
//! second and fourth, third and fifth – are chosen such that a sum that saturates would be clamped to 255 in any
//! case.

use super::view::MAX_STRIDE;
use super::*;
use crate::vp8::predict::inter::SIX_TAP;

/// Lines of the largest block with its context.
const LINES: usize = 21;
/// Bytes that a line of half-filtered samples takes: 16, or 8 of one block and 8 of another.
const WIDTH: usize = 16;
/// Samples that are filtered in one direction.
type Half = [u8; LINES * WIDTH];

/// The three pairs of taps, each pair in every 16 bits.
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
        Taps { outer: pair(taps, 0, 5), second: pair(taps, 1, 3), third: pair(taps, 2, 4) }
    }

    /// Filters 16 samples, given as the three pairs of samples that each one's taps apply to, to 16 bits each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn apply(&self, outer: __m256i, second: __m256i, third: __m256i) -> __m256i {
        let outer = _mm256_maddubs_epi16(outer, self.outer);
        let second = _mm256_maddubs_epi16(second, self.second);
        let third = _mm256_maddubs_epi16(third, self.third);
        let sum = _mm256_adds_epi16(_mm256_add_epi16(second, outer), third);
        _mm256_srai_epi16(_mm256_adds_epi16(sum, _mm256_set1_epi16(64)), 7)
    }

    /// Filters 8 neighbouring samples in each half, across: to 16 bits each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn across(&self, samples: __m256i) -> __m256i {
        self.apply(
            _mm256_shuffle_epi8(samples, neighbours(0, 5)),
            _mm256_shuffle_epi8(samples, neighbours(1, 2)),
            _mm256_shuffle_epi8(samples, neighbours(2, 2)),
        )
    }

    /// Filters 32 samples down: in each byte of the lines one sample's taps.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn down(&self, lines: [__m256i; 6]) -> __m256i {
        let low = self.apply(
            _mm256_unpacklo_epi8(lines[0], lines[5]),
            _mm256_unpacklo_epi8(lines[1], lines[3]),
            _mm256_unpacklo_epi8(lines[2], lines[4]),
        );
        let high = self.apply(
            _mm256_unpackhi_epi8(lines[0], lines[5]),
            _mm256_unpackhi_epi8(lines[1], lines[3]),
            _mm256_unpackhi_epi8(lines[2], lines[4]),
        );
        _mm256_packus_epi16(low, high)
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn pair(taps: &[i8; 6], a: usize, b: usize) -> __m256i {
    _mm256_set1_epi16(i16::from_le_bytes([taps[a] as u8, taps[b] as u8]))
}

/// Where the taps `first` and `first + distance` of 8 neighbouring samples stand, side by side.
#[inline]
#[target_feature(enable = "avx2")]
fn neighbours(first: i8, distance: i8) -> __m256i {
    let base = _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    let step = _mm_set1_epi16(i16::from_le_bytes([first as u8, (first + distance) as u8]));
    _mm256_broadcastsi128_si256(_mm_add_epi8(base, step))
}

#[inline]
#[target_feature(enable = "avx2")]
fn both(low: __m128i, high: __m128i) -> __m256i {
    _mm256_set_m128i(high, low)
}

/// Lines of samples that can be read: `lines` lines, `width` bytes of each.
#[derive(Clone, Copy)]
struct Source {
    first: *const u8,
    stride: usize,
}

impl Source {
    /// Checks that the lines lie in `src`.
    #[inline(always)]
    fn new(src: &[u8], stride: usize, lines: usize, width: usize) -> Source {
        assert!(stride <= MAX_STRIDE, "stride {stride}");
        Source { first: src[..(lines - 1) * stride + width].as_ptr(), stride }
    }

    /// 16 bytes from byte `at` of a line on.
    ///
    /// # Safety
    /// They are among those that were checked.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load16(self, line: usize, at: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe { _mm_loadu_si128(self.first.add(line * self.stride + at).cast()) }
    }

    /// 8 bytes of one source's line, and 8 of another's.
    ///
    /// # Safety
    /// They are among those that were checked.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load8(self, other: Source, line: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe {
            let low = _mm_loadl_epi64(self.first.add(line * self.stride).cast());
            let high = _mm_loadl_epi64(other.first.add(line * other.stride).cast());
            _mm_unpacklo_epi64(low, high)
        }
    }
}

/// Filters `lines` lines of 16 across.
#[inline]
#[target_feature(enable = "avx2")]
fn across_16(out: &mut Half, src: &[u8], stride: usize, lines: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let source = Source::new(src, stride, lines, 24);
    for (line, out) in out.as_chunks_mut::<WIDTH>().0[..lines].iter_mut().enumerate() {
        // SAFETY: each line has 24 bytes.
        let samples = unsafe { both(source.load16(line, 0), source.load16(line, 8)) };
        let value = taps.across(samples);
        let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(value, value), 0b1000);
        store16(out, 0, _mm256_castsi256_si128(packed));
    }
}

/// Filters `lines` lines of 8 across, of two blocks at once.
#[inline]
#[target_feature(enable = "avx2")]
fn across_two(out: &mut Half, src: [&[u8]; 2], stride: usize, lines: usize, eighths: usize) {
    let taps = Taps::new(eighths);
    let (a, b) = (Source::new(src[0], stride, lines, 16), Source::new(src[1], stride, lines, 16));
    for (line, out) in out.as_chunks_mut::<WIDTH>().0[..lines].iter_mut().enumerate() {
        // SAFETY: each line has 16 bytes.
        let samples = unsafe { both(a.load16(line, 0), b.load16(line, 0)) };
        let value = taps.across(samples);
        let packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(value, value), 0b1000);
        store16(out, 0, _mm256_castsi256_si128(packed));
    }
}

/// Filters lines of 16 down, two at a time. `line` gives a line from two above the block on, and `store` takes one of
/// the block.
macro_rules! down {
    ($lines:expr, $eighths:expr, $line:expr, $store:expr) => {{
        let taps = Taps::new($eighths);
        let mut window = [$line(0), $line(1), $line(2), $line(3), $line(4)];
        let mut at = 0;
        while at < $lines {
            let (next, last) = ($line(at + 5), $line(at + 6));
            let value = taps.down([
                both(window[0], window[1]),
                both(window[1], window[2]),
                both(window[2], window[3]),
                both(window[3], window[4]),
                both(window[4], next),
                both(next, last),
            ]);
            $store(at, _mm256_castsi256_si128(value));
            $store(at + 1, _mm256_extracti128_si256(value, 1));
            window = [window[2], window[3], window[4], next, last];
            at += 2;
        }
    }};
}

#[target_feature(enable = "avx2")]
fn block_16(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize, x: usize, y: usize) {
    let mut half: Half = [0; LINES * WIDTH];
    if y == 0 {
        across_16(&mut half, &src[2 * src_stride..], src_stride, 16, x);
        for (line, samples) in half.as_chunks::<WIDTH>().0[..16].iter().enumerate() {
            dst[line * dst_stride..][..16].copy_from_slice(samples);
        }
        return;
    }
    let source = if x == 0 {
        Source::new(&src[2..], src_stride, 21, 16)
    } else {
        across_16(&mut half, src, src_stride, 21, x);
        Source::new(&half, WIDTH, 21, 16)
    };
    // SAFETY: the source has 21 lines of 16 bytes.
    down!(16, y, |line| unsafe { source.load16(line, 0) }, |line: usize, value| store16(
        dst,
        line * dst_stride,
        value
    ));
}

/// Blocks of `N`×`N` samples, 8 or 4, of two planes at once.
#[inline]
#[target_feature(enable = "avx2")]
fn two_blocks<const N: usize>(
    dst: [&mut [u8]; 2],
    dst_stride: usize,
    src: [&[u8]; 2],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    let [a, b] = dst;
    let mut half: Half = [0; LINES * WIDTH];
    if y == 0 {
        across_two(&mut half, [&src[0][2 * src_stride..], &src[1][2 * src_stride..]], src_stride, N, x);
        for (line, samples) in half.as_chunks::<WIDTH>().0[..N].iter().enumerate() {
            a[line * dst_stride..][..N].copy_from_slice(&samples[..N]);
            b[line * dst_stride..][..N].copy_from_slice(&samples[8..8 + N]);
        }
        return;
    }
    let (first, second) = if x == 0 {
        let source = |src: &[u8]| Source::new(&src[2..], src_stride, N + 5, 8);
        (source(src[0]), source(src[1]))
    } else {
        across_two(&mut half, src, src_stride, N + 5, x);
        (Source::new(&half, WIDTH, N + 5, 8), Source::new(&half[8..], WIDTH, N + 5, 8))
    };
    // SAFETY: both sources have N + 5 lines of 8 bytes.
    down!(N, y, |line| unsafe { first.load8(second, line) }, |line: usize, value| {
        let at = line * dst_stride;
        if N == 8 {
            store8(a, at, value);
            store8(b, at, _mm_unpackhi_epi64(value, value));
        } else {
            store4(a, at, value);
            store4(b, at, _mm_unpackhi_epi64(value, value));
        }
    });
}

/// One block of `N`×`N` samples, 8 or 4.
#[target_feature(enable = "avx2")]
fn one_block<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    let mut unused = [0; 64];
    let mut out = [0; 64];
    two_blocks::<N>([&mut out, &mut unused], 8, [src, src], src_stride, x, y);
    for line in 0..N {
        dst[line * dst_stride..][..N].copy_from_slice(&out[8 * line..][..N]);
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

pub(super) fn six_tap<const N: usize>(
    dst: &mut [u8],
    dst_stride: usize,
    src: &[u8],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    // SAFETY: as above.
    unsafe { one_block::<N>(dst, dst_stride, src, src_stride, x, y) }
}

pub(super) fn six_tap_two<const N: usize>(
    dst: [&mut [u8]; 2],
    dst_stride: usize,
    src: [&[u8]; 2],
    src_stride: usize,
    x: usize,
    y: usize,
) {
    // SAFETY: as above.
    unsafe { two_blocks::<N>(dst, dst_stride, src, src_stride, x, y) }
}
