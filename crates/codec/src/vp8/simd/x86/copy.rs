//! Square blocks from one plane to another.

use super::view::MAX_STRIDE;

/// Copies `N`×`N` samples, `N` being 16, 8 or 4.
pub(super) fn copy<const N: usize>(dst: &mut [u8], dst_stride: usize, src: &[u8], src_stride: usize) {
    let fits = |bytes: &[u8], stride: usize| stride <= MAX_STRIDE && bytes.len() >= (N - 1) * stride + N;
    assert!(
        fits(src, src_stride) && fits(dst, dst_stride),
        "{N}x{N} with strides {src_stride}, {dst_stride}"
    );
    let (from, to) = (src.as_ptr(), dst.as_mut_ptr());
    for line in 0..N {
        // SAFETY: both slices hold N lines of N bytes, as was checked, and one of them is borrowed mutably, so they do
        // not overlap.
        unsafe {
            let line_of_src = from.add(line * src_stride).cast::<[u8; N]>().read_unaligned();
            to.add(line * dst_stride).cast::<[u8; N]>().write_unaligned(line_of_src);
        }
    }
}
