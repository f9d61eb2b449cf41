//! Structural similarity (Wang, Bovik, Sheikh, Simoncelli: "Image quality assessment: from error visibility to
//! structural similarity", IEEE TIP 13(4), 2004).
//!
//! As x264 and FFmpeg's filter `ssim` count it: unweighted windows of 8×8 samples, four apart in both directions, the
//! mean over all windows that lie wholly inside a plane; `K1` = 0.01, `K2` = 0.03, variances divided by 63. A rest of
//! fewer than four columns or lines is not looked at. (Daala's `dump_ssim`, with which the Salsify paper measured, weights
//! windows by a Gaussian that grows with the picture's height instead: [`super::daala_ssim`] has it. Its figures are others,
//! and cannot be mixed with these.)
//!
//! In decibels it is −10 · log10(1 − SSIM): 1 is infinite, 0.99 is 20 dB.

use super::compare::{self, CompareError};
use crate::picture::{Picture, Plane};

/// Samples of a side of the blocks that windows are put together from.
const BLOCK: usize = 4;
/// (0.01 · 255)² and (0.03 · 255)², for sums over 64 samples: multiplied with 64² and 64 · 63.
const C1: i64 = 416;
const C2: i64 = 235_963;

/// SSIM of a pair of pictures, or the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ssim {
    /// Sums of the planes' SSIM over the pictures.
    planes: [f64; 3],
    /// Samples of each plane, which weight it in [`Ssim::all`].
    samples: [u64; 3],
    pictures: u64,
}

impl Ssim {
    /// Of one pair of pictures. One pass over the samples and 16 bytes of memory for each four columns.
    ///
    /// # Errors
    /// Where the pictures are of different size or subsampling, or of more than 8 bits.
    pub fn of(reference: &Picture, distorted: &Picture) -> Result<Ssim, CompareError> {
        compare::check(reference, distorted)?;
        let mut ssim = Ssim { pictures: 1, ..Ssim::default() };
        for (index, (one, other)) in reference.planes().iter().zip(distorted.planes()).enumerate() {
            // A plane in which no window fits says nothing.
            let Some(found) = of_plane(one, other) else { continue };
            ssim.planes[index] = found;
            ssim.samples[index] = u64::from(one.size().width) * u64::from(one.size().height);
        }
        Ok(ssim)
    }

    /// Takes another picture of the same size into the mean.
    pub fn add(&mut self, other: &Ssim) {
        for plane in 0..3 {
            self.planes[plane] += other.planes[plane];
            self.samples[plane] += other.samples[plane];
        }
        self.pictures += other.pictures;
    }

    /// Of plane `index`, −1 to 1; `None` where there is no such plane, or no window fits into it.
    pub fn plane(&self, index: usize) -> Option<f64> {
        let exists = self.samples.get(index).is_some_and(|&samples| samples > 0);
        exists.then(|| self.planes[index] / self.pictures as f64)
    }

    /// Of all planes, each weighted by its samples, −1 to 1; `None` of no pictures, or none of 8×8 samples.
    pub fn all(&self) -> Option<f64> {
        let samples = self.samples.iter().sum::<u64>();
        let weighted = (0..3).map(|index| self.planes[index] * self.samples[index] as f64).sum::<f64>();
        (samples > 0).then(|| weighted / samples as f64 / self.pictures as f64)
    }
}

/// −10 · log10(1 − `ssim`); infinite for 1.
pub fn decibels(ssim: f64) -> f64 {
    -10.0 * (1.0 - ssim).log10()
}

/// Sums over a 4×4 block of both pictures' samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    one: u32,
    other: u32,
    /// Of the squares of both.
    squares: u32,
    products: u32,
}

/// The mean over all windows, or `None` where none fits.
fn of_plane(reference: &Plane, distorted: &Plane) -> Option<f64> {
    let columns = reference.size().width as usize / BLOCK;
    let rows = reference.size().height as usize / BLOCK;
    if columns < 2 || rows < 2 {
        return None;
    }
    let mut above = vec![Sums::default(); columns];
    let mut here = above.clone();
    let mut sum = 0.0;
    for row in 0..rows {
        std::mem::swap(&mut above, &mut here);
        here.fill(Sums::default());
        for y in row * BLOCK..(row + 1) * BLOCK {
            add_line(&mut here, reference.line(y), distorted.line(y));
        }
        if row > 0 {
            let windows = above.windows(2).zip(here.windows(2));
            sum +=
                windows.map(|(top, bottom)| of_window([top[0], top[1], bottom[0], bottom[1]])).sum::<f64>();
        }
    }
    Some(sum / ((columns - 1) * (rows - 1)) as f64)
}

fn add_line(sums: &mut [Sums], one: &[u8], other: &[u8]) {
    let blocks = one.as_chunks::<BLOCK>().0.iter().zip(other.as_chunks::<BLOCK>().0);
    for (sums, (one, other)) in sums.iter_mut().zip(blocks) {
        for (&a, &b) in one.iter().zip(other) {
            let (a, b) = (u32::from(a), u32::from(b));
            sums.one += a;
            sums.other += b;
            sums.squares += a * a + b * b;
            sums.products += a * b;
        }
    }
}

fn of_window(blocks: [Sums; 4]) -> f64 {
    let sum = |of: fn(&Sums) -> u32| blocks.iter().map(|block| i64::from(of(block))).sum::<i64>();
    let (one, other) = (sum(|block| block.one), sum(|block| block.other));
    let variances = 64 * sum(|block| block.squares) - one * one - other * other;
    let covariance = 64 * sum(|block| block.products) - one * other;
    let luminance = (2 * one * other + C1) as f64 / (one * one + other * other + C1) as f64;
    luminance * (2 * covariance + C2) as f64 / (variances + C2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::compare::tests::picture;
    use proptest::prelude::*;

    #[test]
    fn equal_pictures_are_alike() {
        let one = picture(50, 30, |plane, x, y| (x * 7 + y * 3 + plane) as u8);
        let ssim = Ssim::of(&one, &one.clone()).unwrap();
        assert_eq!((ssim.all(), ssim.plane(0), ssim.plane(2)), (Some(1.0), Some(1.0), Some(1.0)));
        assert_eq!((ssim.plane(3), Ssim::default().all()), (None, None));
        assert_eq!((decibels(1.0), decibels(0.0)), (f64::INFINITY, 0.0));
        assert!((decibels(0.99) - 20.0).abs() < 1e-9);
    }

    /// The definition, by means and variances of one window.
    fn textbook(one: &[f64], other: &[f64]) -> f64 {
        let count = one.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
        let (m1, m2) = (mean(one), mean(other));
        let covariance = |a: &[f64], b: &[f64], (ma, mb): (f64, f64)| {
            a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / (count - 1.0)
        };
        let (v1, v2) = (covariance(one, one, (m1, m1)), covariance(other, other, (m2, m2)));
        let both = covariance(one, other, (m1, m2));
        let (c1, c2) = ((0.01f64 * 255.0).powi(2), (0.03f64 * 255.0).powi(2));
        (2.0 * m1 * m2 + c1) * (2.0 * both + c2) / ((m1 * m1 + m2 * m2 + c1) * (v1 + v2 + c2))
    }

    #[test]
    fn a_plane_without_windows_says_nothing() {
        let small = |value| picture(7, 7, |_, _, _| value);
        assert_eq!(Ssim::of(&small(0), &small(200)).unwrap().all(), None);
        // Luma has one window, chroma none.
        let found = Ssim::of(&picture(8, 8, |_, _, _| 0), &picture(8, 8, |_, _, _| 200)).unwrap();
        assert_eq!((found.plane(0), found.plane(1)), (found.all(), None));
        assert!(found.plane(0).unwrap() < 0.01, "{found:?}");
    }

    proptest! {
        #[test]
        fn windows_are_those_of_the_definition(seed: u32, (width, height) in (8u32..40, 8u32..30)) {
            let noise = |salt: u32| move |plane: usize, x: usize, y: usize| {
                let at = (plane * 10_007 + y * 101 + x) as u32;
                (at.wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(salt) >> 24) as u8
            };
            let one = picture(width, height, noise(3));
            let other = picture(width, height, |p, x, y| noise(3)(p, x, y) / 2 + noise(11)(p, x, y) / 3);
            let found = Ssim::of(&one, &other).unwrap().plane(0).unwrap();
            let window = |picture: &Picture, left: usize, top: usize| -> Vec<f64> {
                let lines = picture.planes()[0].lines().skip(top).take(8);
                lines.flat_map(|line| &line[left..left + 8]).map(|&sample| f64::from(sample)).collect()
            };
            let mut all = Vec::new();
            for top in (0..=height as usize / 4 * 4 - 8).step_by(4) {
                for left in (0..=width as usize / 4 * 4 - 8).step_by(4) {
                    all.push(textbook(&window(&one, left, top), &window(&other, left, top)));
                }
            }
            let expected = all.iter().sum::<f64>() / all.len() as f64;
            prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    #[test]
    fn the_mean_is_that_of_pictures() {
        let one = picture(16, 16, |_, x, _| (x * 10) as u8);
        let other = picture(16, 16, |_, _, y| (y * 10) as u8);
        let (alike, apart) = (Ssim::of(&one, &one).unwrap(), Ssim::of(&one, &other).unwrap());
        let mut mean = alike;
        mean.add(&apart);
        let expected = f64::midpoint(1.0, apart.all().unwrap());
        assert!((mean.all().unwrap() - expected).abs() < 1e-12);
    }
}
