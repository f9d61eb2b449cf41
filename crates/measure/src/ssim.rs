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
use glassline_media::picture::{Picture, Plane};

/// Samples of a side of the blocks that windows are put together from.
const BLOCK: usize = 4;

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
    /// Where the pictures are of different size, components or depth, or in pgroups.
    pub fn of(reference: &Picture, distorted: &Picture) -> Result<Ssim, CompareError> {
        compare::check(reference, distorted)?;
        let mut ssim = Ssim { pictures: 1, ..Ssim::default() };
        let depth_bits = reference.format().depth_bits;
        let constants = Constants::new(depth_bits);
        for (index, (one, other)) in reference.planes().iter().zip(distorted.planes()).enumerate() {
            // A plane in which no window fits says nothing.
            let found = if depth_bits == 8 {
                of_plane::<u32>(one, other, constants, add_line)
            } else {
                of_plane::<u64>(one, other, constants, add_deep_line)
            };
            let Some(found) = found else { continue };
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

/// (0.01 · peak)² and (0.03 · peak)², for sums over 64 samples: multiplied with 64 and 64 · 63, as x264 has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constants {
    c1: i64,
    c2: i64,
}

impl Constants {
    fn new(depth_bits: u8) -> Constants {
        let peak = (1i64 << depth_bits) - 1;
        let rounded = |ten_thousandths: i64| (ten_thousandths + 5000) / 10_000;
        Constants { c1: rounded(peak * peak * 64), c2: rounded(9 * peak * peak * 64 * 63) }
    }
}

/// Sums over a 4×4 block of both pictures' samples. Those of 8 bits fit into 32, deeper ones' squares do not.
#[derive(Clone, Copy, Debug, Default)]
struct Sums<T> {
    one: u32,
    other: u32,
    /// Of the squares of both.
    squares: T,
    products: T,
}

/// The mean over all windows, or `None` where none fits.
fn of_plane<T: Copy + Default + Into<u64>>(
    reference: &Plane,
    distorted: &Plane,
    constants: Constants,
    add_line: fn(&mut [Sums<T>], &[u8], &[u8]),
) -> Option<f64> {
    let columns = reference.size().width as usize / BLOCK;
    let rows = reference.size().height as usize / BLOCK;
    if columns < 2 || rows < 2 {
        return None;
    }
    let mut above = vec![Sums::<T>::default(); columns];
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
            let of = |(top, bottom): (&[Sums<T>], &[Sums<T>])| {
                of_window([top[0], top[1], bottom[0], bottom[1]], constants)
            };
            sum += windows.map(of).sum::<f64>();
        }
    }
    Some(sum / ((columns - 1) * (rows - 1)) as f64)
}

fn add_line(sums: &mut [Sums<u32>], one: &[u8], other: &[u8]) {
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

/// The same of samples that take two bytes.
fn add_deep_line(sums: &mut [Sums<u64>], one: &[u8], other: &[u8]) {
    let blocks = one.as_chunks::<{ 2 * BLOCK }>().0.iter().zip(other.as_chunks::<{ 2 * BLOCK }>().0);
    for (sums, (one, other)) in sums.iter_mut().zip(blocks) {
        for (&a, &b) in one.as_chunks::<2>().0.iter().zip(other.as_chunks::<2>().0) {
            let (a, b) = (u32::from(u16::from_le_bytes(a)), u32::from(u16::from_le_bytes(b)));
            sums.one += a;
            sums.other += b;
            sums.squares += u64::from(a * a) + u64::from(b * b);
            sums.products += u64::from(a * b);
        }
    }
}

fn of_window<T: Copy + Into<u64>>(blocks: [Sums<T>; 4], Constants { c1, c2 }: Constants) -> f64 {
    // Of 16 bits, 64 times the sum of 128 squares takes 45 bits.
    let sum = |of: fn(&Sums<T>) -> u64| blocks.iter().map(of).sum::<u64>() as i64;
    let (one, other) = (sum(|block| block.one.into()), sum(|block| block.other.into()));
    let variances = 64 * sum(|block| block.squares.into()) - one * one - other * other;
    let covariance = 64 * sum(|block| block.products.into()) - one * other;
    let luminance = (2 * one * other + c1) as f64 / (one * one + other * other + c1) as f64;
    luminance * (2 * covariance + c2) as f64 / (variances + c2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{deep_picture, picture};
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
    fn textbook(one: &[f64], other: &[f64], peak: f64) -> f64 {
        let count = one.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
        let (m1, m2) = (mean(one), mean(other));
        let covariance = |a: &[f64], b: &[f64], (ma, mb): (f64, f64)| {
            a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / (count - 1.0)
        };
        let (v1, v2) = (covariance(one, one, (m1, m1)), covariance(other, other, (m2, m2)));
        let both = covariance(one, other, (m1, m2));
        let (c1, c2) = ((0.01 * peak).powi(2), (0.03 * peak).powi(2));
        (2.0 * m1 * m2 + c1) * (2.0 * both + c2) / ((m1 * m1 + m2 * m2 + c1) * (v1 + v2 + c2))
    }

    #[test]
    fn constants_are_those_of_x264() {
        assert_eq!(Constants::new(8), Constants { c1: 416, c2: 235_963 });
        // .01² · 1023² · 64 and .03² · 1023² · 64 · 63
        assert_eq!(Constants::new(10), Constants { c1: 6698, c2: 3_797_644 });
    }

    #[test]
    fn depth_does_not_matter_to_what_is_seen() {
        let noise = |x: usize, y: usize, salt: usize| ((x * 31 + y * 17 + x * y * salt) % 200) as u8;
        let eight = |salt| picture(40, 24, move |_, x, y| noise(x, y, salt));
        let expected = Ssim::of(&eight(3), &eight(5)).unwrap();
        for depth_bits in 9..=16 {
            let deep = |salt| {
                deep_picture(depth_bits, (40, 24), move |_, x, y| {
                    u16::from(noise(x, y, salt)) << (depth_bits - 8)
                })
            };
            let found = Ssim::of(&deep(3), &deep(5)).unwrap();
            for plane in 0..3 {
                let (found, expected) = (found.plane(plane).unwrap(), expected.plane(plane).unwrap());
                assert!((found - expected).abs() < 2e-3, "{depth_bits}: {found} {expected}");
            }
            assert_eq!(Ssim::of(&deep(3), &deep(3)).unwrap().all(), Some(1.0));
        }
        // The darkest and the brightest of 16 bits stay within the sums.
        let (black, white): (Picture, Picture) =
            [0, u16::MAX].map(|value| deep_picture(16, (16, 16), move |_, _, _| value)).into();
        assert!(Ssim::of(&black, &white).unwrap().all().unwrap() < 0.001);
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
                    all.push(textbook(&window(&one, left, top), &window(&other, left, top), 255.0));
                }
            }
            let expected = all.iter().sum::<f64>() / all.len() as f64;
            prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    proptest! {
        #[test]
        fn deep_windows_are_those_of_the_definition(depth_bits in 9u8..=16, seed: u32) {
            let noise = |salt: u32| move |plane: usize, x: usize, y: usize| {
                let at = (plane * 10_007 + y * 101 + x) as u32;
                (at.wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(salt) >> 16) as u16 >> (16 - depth_bits)
            };
            let one = deep_picture(depth_bits, (8, 8), noise(3));
            let other = deep_picture(depth_bits, (8, 8), |p, x, y| noise(3)(p, x, y) / 2 + noise(11)(p, x, y) / 3);
            let found = Ssim::of(&one, &other).unwrap().plane(0).unwrap();
            let window = |picture: &Picture| -> Vec<f64> {
                let bytes = picture.planes()[0].lines().flatten().copied().collect::<Vec<u8>>();
                bytes.as_chunks::<2>().0.iter().map(|&sample| f64::from(u16::from_le_bytes(sample))).collect()
            };
            let peak = f64::from((1u32 << depth_bits) - 1);
            let expected = textbook(&window(&one), &window(&other), peak);
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
