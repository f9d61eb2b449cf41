//! Peak signal-to-noise ratio: how far the samples of two pictures are apart.
//!
//! PSNR = 10 · log10(peak² / MSE), of each plane, where peak is the largest value that a sample can have, whatever its range; that of several pictures is the one of their mean MSE, as FFmpeg's
//! filter `psnr` has it (its `average`), not the mean of decibels.

use super::compare::{self, CompareError};
use glassline_media::picture::Picture;

/// Sums of squared differences over any number of pictures of one size and depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SquaredError {
    /// Of luma, Cb and Cr; the last two are zero where there is luma alone.
    pub squared: [u64; 3],
    /// Samples that were compared, of each plane.
    pub samples: [u64; 3],
    /// Bits of a sample, which its peak follows from; 0 of no pictures.
    pub depth_bits: u8,
}

impl SquaredError {
    /// Of one pair of pictures. One pass over the samples.
    ///
    /// # Errors
    /// Where the pictures are of different size, components or depth, or in pgroups.
    pub fn of(reference: &Picture, distorted: &Picture) -> Result<SquaredError, CompareError> {
        compare::check(reference, distorted)?;
        let depth_bits = reference.format().depth_bits;
        let mut error = SquaredError { depth_bits, ..SquaredError::default() };
        let of_line = if depth_bits == 8 { of_line } else { of_deep_line };
        for (index, (one, other)) in reference.planes().iter().zip(distorted.planes()).enumerate() {
            error.squared[index] = one.lines().zip(other.lines()).map(|(a, b)| of_line(a, b)).sum();
            error.samples[index] = u64::from(one.size().width) * u64::from(one.size().height);
        }
        Ok(error)
    }

    /// Adds those of another pair, of the same depth.
    pub fn add(&mut self, other: &SquaredError) {
        for plane in 0..3 {
            // Of 16 bits, sixteen of the largest pictures that differ in everything reach the end.
            self.squared[plane] = self.squared[plane].saturating_add(other.squared[plane]);
            self.samples[plane] += other.samples[plane];
        }
        self.depth_bits = self.depth_bits.max(other.depth_bits);
    }

    /// PSNR of plane `index` in dB; infinite where nothing differs, `None` where there is no such plane.
    pub fn plane_db(&self, index: usize) -> Option<f64> {
        self.decibels(*self.squared.get(index)?, *self.samples.get(index)?)
    }

    /// PSNR over the samples of all planes in dB; infinite where nothing differs, `None` of no pictures.
    pub fn all_db(&self) -> Option<f64> {
        let squared = self.squared.iter().fold(0, |sum: u64, &squared| sum.saturating_add(squared));
        self.decibels(squared, self.samples.iter().sum())
    }

    fn decibels(&self, squared: u64, samples: u64) -> Option<f64> {
        let peak = f64::from((1u32 << self.depth_bits.min(16)) - 1);
        match (squared, samples) {
            (_, 0) => None,
            (0, _) => Some(f64::INFINITY),
            _ => Some(10.0 * (peak * peak * samples as f64 / squared as f64).log10()),
        }
    }
}

fn of_line(one: &[u8], other: &[u8]) -> u64 {
    // 65,536 squares of 255² still fit into 32 bits; a line has 16,384 samples at most.
    let squares = one.iter().zip(other).map(|(&a, &b)| {
        let difference = i32::from(a) - i32::from(b);
        (difference * difference) as u32
    });
    u64::from(squares.sum::<u32>())
}

/// The same of samples that take two bytes.
fn of_deep_line(one: &[u8], other: &[u8]) -> u64 {
    let squares = one.as_chunks::<2>().0.iter().zip(other.as_chunks::<2>().0).map(|(&a, &b)| {
        let difference = u32::from(u16::from_le_bytes(a).abs_diff(u16::from_le_bytes(b)));
        u64::from(difference * difference)
    });
    squares.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{deep_picture, picture};

    #[test]
    fn it_is_the_textbooks() {
        let one = picture(20, 10, |_, _, _| 100);
        let other = picture(20, 10, |plane, x, _| if plane == 0 && x < 10 { 104 } else { 100 });
        let error = SquaredError::of(&one, &other).unwrap();
        assert_eq!((error.squared, error.samples), ([1600, 0, 0], [200, 50, 50]));
        // MSE of luma 8: 10 · log10(65025 / 8).
        assert!((error.plane_db(0).unwrap() - 39.0998).abs() < 1e-3, "{:?}", error.plane_db(0));
        assert_eq!(error.plane_db(1), Some(f64::INFINITY));
        assert!((error.all_db().unwrap() - 40.8607).abs() < 1e-3, "{:?}", error.all_db());
        assert_eq!((SquaredError::default().all_db(), error.plane_db(3)), (None, None));
    }

    #[test]
    fn deep_samples_have_their_own_peak() {
        for depth_bits in 9..=16 {
            let of = |value: u16| deep_picture(depth_bits, (20, 10), move |_, _, _| value);
            let peak = u16::MAX >> (16 - depth_bits);
            let error = SquaredError::of(&of(0), &of(peak)).unwrap();
            assert_eq!(error.squared[0], 200 * u64::from(peak).pow(2));
            assert_eq!((error.plane_db(0), error.all_db()), (Some(0.0), Some(0.0)), "{depth_bits}");
            // 10 · log10(peak²) of a difference of one.
            let error = SquaredError::of(&of(500), &of(501)).unwrap();
            let expected = 20.0 * f64::from(peak).log10();
            assert!((error.plane_db(1).unwrap() - expected).abs() < 1e-9, "{depth_bits}");
        }
    }

    #[test]
    fn several_pictures_have_the_psnr_of_their_mean_error() {
        let black = picture(16, 16, |_, _, _| 0);
        let (near, far) = (picture(16, 16, |_, _, _| 1), picture(16, 16, |_, _, _| 255));
        let mut sum = SquaredError::of(&black, &near).unwrap();
        sum.add(&SquaredError::of(&black, &far).unwrap());
        // (1 + 255²) / 2
        assert!((sum.plane_db(0).unwrap() - 3.0102).abs() < 1e-3);
        assert_eq!(SquaredError::of(&black, &far).unwrap().plane_db(0), Some(0.0));
    }
}
