//! To another size, for the renditions of a ladder.
//!
//! Each plane on its own, by bicubic convolution over all samples that a new one covers, so that nothing flickers
//! where a picture shrinks. The work is done by `fast_image_resize`, in SIMD chosen at run time.

use crate::picture::{Picture, PicturePool, Plane, Size};
use fast_image_resize::images::{TypedCroppedImage, TypedCroppedImageMut, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

/// Scales 8-bit pictures in planes to one size.
#[derive(Clone, Debug)]
pub struct Scaler {
    size: Size,
    resizer: Resizer,
    pool: PicturePool,
}

impl Scaler {
    /// To pictures of `size`.
    pub fn new(size: Size) -> Scaler {
        Scaler { size, resizer: Resizer::new(), pool: PicturePool::default() }
    }

    /// The size of what comes out.
    pub fn size(&self) -> Size {
        self.size
    }

    /// `picture` at this scaler's size, times, colour and format kept. One of that size is cloned, which copies
    /// nothing.
    ///
    /// # Panics
    /// Where `picture` is not of 8 bits in planes ([`Converter`](super::Converter) makes it so).
    pub fn scale(&mut self, picture: &Picture) -> Picture {
        assert!(picture.format().is_planar_8bit(), "planes of 8 bits");
        if picture.size() == self.size {
            return picture.clone();
        }
        let mut out = self.pool.take(picture.format(), self.size, picture.captured);
        (out.colour, out.captured_utc) = (picture.colour, picture.captured_utc);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));
        for (from, to) in picture.planes().iter().zip(out.planes_mut()) {
            scale_plane(&mut self.resizer, &options, from, to);
        }
        self.pool.keep(&out);
        out
    }
}

/// Both planes are looked at with their padding, of which only the samples are read and written.
fn scale_plane(resizer: &mut Resizer, options: &ResizeOptions, from: &Plane, to: &mut Plane) {
    let (size, new_size) = (from.size(), to.size());
    let (stride, new_stride) = (from.stride_bytes() as u32, to.stride_bytes() as u32);
    let image = TypedImageRef::<U8>::from_buffer(stride, size.height, from.bytes());
    let image = image.expect("a plane has as many bytes as its stride and height say");
    // Not by the options' crop box, beyond which the filter would reach into the padding.
    let image = TypedCroppedImage::new(image, 0, 0, size.width, size.height);
    let image = image.expect("a plane's lines are within its stride");
    let new_image = TypedImage::<U8>::from_buffer(new_stride, new_size.height, to.bytes_mut());
    let new_image = new_image.expect("a plane has as many bytes as its stride and height say");
    let samples = TypedCroppedImageMut::new(new_image, 0, 0, new_size.width, new_size.height);
    let mut samples = samples.expect("a plane's lines are within its stride");
    // Typed, so that the library's code for all other kinds of pixels is not built.
    resizer.resize_typed(&image, &mut samples, options).expect("without a crop box nothing can be wrong");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::PixelFormat;
    use crate::time::Time;
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    fn drawn(size: Size, of: impl Fn(usize, usize) -> u8) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, size, Time::from_millis(3));
        for plane in picture.planes_mut() {
            for (y, line) in plane.lines_mut().enumerate() {
                line.iter_mut().enumerate().for_each(|(x, sample)| *sample = of(x, y));
            }
        }
        picture
    }

    #[test]
    fn a_picture_of_the_right_size_is_not_copied() {
        let picture = drawn(size(64, 48), |x, y| (x + y) as u8);
        let out = Scaler::new(size(64, 48)).scale(&picture);
        assert!(std::ptr::eq(picture.planes()[0].bytes(), out.planes()[0].bytes()));
    }

    #[test]
    fn a_ramp_stays_a_ramp() {
        // Padding is no part of the picture: at the right edge it would darken it.
        let picture = drawn(size(120, 60), |x, _| 40 + x as u8);
        for (width, height) in [(60, 30), (240, 120), (80, 40)] {
            let out = Scaler::new(size(width, height)).scale(&picture);
            for line in out.planes()[0].lines() {
                for (x, &sample) in line.iter().enumerate() {
                    let expected = 40.0 + (x as f64 + 0.5) * 120.0 / f64::from(width) - 0.5;
                    assert!((f64::from(sample) - expected).abs() < 2.0, "{width}: {sample} at {x}");
                }
            }
            assert_eq!((out.captured, out.format()), (picture.captured, PixelFormat::I420));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn flat_pictures_stay_flat_at_any_size(
            (width, height) in (1u32..200, 1u32..100),
            (new_width, new_height) in (1u32..200, 1u32..100),
            value: u8,
        ) {
            let picture = drawn(size(width, height), |_, _| value);
            let out = Scaler::new(size(new_width, new_height)).scale(&picture);
            prop_assert_eq!(out.size(), size(new_width, new_height));
            for plane in out.planes() {
                prop_assert!(plane.lines().flatten().all(|&sample| sample == value));
            }
        }
    }
}
