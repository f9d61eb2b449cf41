//! The picture that is encoded, in whole macroblocks.

use crate::vp8::frame::Geometry;
use glassline_media::Picture;

/// The samples of a picture with a side that is no multiple of 16: its outermost samples are repeated up to the next
/// multiple.
#[derive(Debug, Default)]
pub(crate) struct Padding {
    planes: [Vec<u8>; 3],
}

/// Planes that reach as far as whole macroblocks do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    planes: [(&'a [u8], usize); 3],
}

impl<'a> Source<'a> {
    /// The planes of `picture`, copied into `padding` where they end within a macroblock.
    pub(crate) fn new(picture: &'a Picture, geometry: &Geometry, padding: &'a mut Padding) -> Source<'a> {
        let mut planes = [(&[][..], 0); 3];
        let given = picture.planes().iter().zip(&mut padding.planes);
        for ((index, out), (plane, padded)) in planes.iter_mut().enumerate().zip(given) {
            let (width, height, stride) = geometry.plane(index);
            let size = plane.size();
            if (size.width as usize, size.height as usize) == (width, height) {
                *out = (plane.bytes(), plane.stride_bytes());
                continue;
            }
            padded.resize(stride * height, 0);
            for (y, line) in padded.chunks_exact_mut(stride).enumerate() {
                let samples = plane.line(y.min(size.height as usize - 1));
                let (inside, beyond) = line.split_at_mut(samples.len());
                inside.copy_from_slice(samples);
                beyond.fill(samples[samples.len() - 1]);
            }
            *out = (padded, stride);
        }
        Source { planes }
    }

    /// A plane from sample (`x`, `y`) on, and its stride.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize, x: usize, y: usize) -> (&'a [u8], usize) {
        let (plane, stride) = self.planes[index];
        (&plane[y * stride + x..], stride)
    }
}
