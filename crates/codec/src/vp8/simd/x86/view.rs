//! Blocks of samples that were checked once and are then loaded line by line.

use super::*;

/// Strides above this are refused, so that no product with a number of lines can overflow.
pub(super) const MAX_STRIDE: usize = 1 << 24;

/// A block that can be read: `lines` lines, `width` bytes of each.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) first: *const u8,
    pub(super) stride: usize,
}

impl View {
    /// Checks that the block lies in `bytes`. The view is not to outlive them.
    #[inline(always)]
    pub(super) fn new(bytes: &[u8], stride: usize, width: usize, lines: usize) -> View {
        let fits = stride <= MAX_STRIDE && bytes.len() >= (lines - 1) * stride + width;
        assert!(fits, "{width}x{lines} with stride {stride} in {} bytes", bytes.len());
        View { first: bytes.as_ptr(), stride }
    }

    /// 16 bytes from byte `at` of a line on.
    ///
    /// # Safety
    /// They are among those that were checked, and `bytes` still lives; so for the others.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn load16(self, line: usize, at: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe { _mm_loadu_si128(self.first.add(line * self.stride + at).cast()) }
    }

    /// 16 bytes each of a line and the next.
    ///
    /// # Safety
    /// As for [`View::load16`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn two_of_16(self, line: usize, at: usize) -> __m256i {
        // SAFETY: as the caller has promised.
        unsafe { _mm256_set_m128i(self.load16(line + 1, at), self.load16(line, at)) }
    }

    /// 8 bytes.
    ///
    /// # Safety
    /// As for [`View::load16`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn load8(self, line: usize, at: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe { _mm_loadl_epi64(self.first.add(line * self.stride + at).cast()) }
    }

    /// 8 bytes each of a line and the next.
    ///
    /// # Safety
    /// As for [`View::load16`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn two_of_8(self, line: usize, at: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe { _mm_unpacklo_epi64(self.load8(line, at), self.load8(line + 1, at)) }
    }

    /// 8 bytes each of four lines.
    ///
    /// # Safety
    /// As for [`View::load16`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn four_of_8(self, line: usize, at: usize) -> __m256i {
        // SAFETY: as the caller has promised.
        unsafe { _mm256_set_m128i(self.two_of_8(line + 2, at), self.two_of_8(line, at)) }
    }

    /// 4 bytes each of four lines.
    ///
    /// # Safety
    /// As for [`View::load16`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn four_of_4(self, line: usize, at: usize) -> __m128i {
        // SAFETY: as the caller has promised.
        unsafe {
            let first = self.first.add(line * self.stride + at);
            let second = first.add(self.stride);
            let third = second.add(self.stride);
            _mm_setr_epi32(
                first.cast::<i32>().read_unaligned(),
                second.cast::<i32>().read_unaligned(),
                third.cast::<i32>().read_unaligned(),
                third.add(self.stride).cast::<i32>().read_unaligned(),
            )
        }
    }
}
