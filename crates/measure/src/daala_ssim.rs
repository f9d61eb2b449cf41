//! Structural similarity as the tools of Daala compute it (`dump_ssim`; xiph/daala, `tools/dump_ssim.c`): the measure of the
//! Salsify paper (Fouladi et al., NSDI 2018 §5).
//!
//! Every sample has a window around it, weighted by a Gaussian in both directions. Its σ grows with the picture: 1.5 samples for
//! each 256 lines, 4.2 at 720 lines. Weights are whole numbers that add up to 256; the window ends where the first weight that is
//! left out would be less than a half. At the picture's edges the part of a window that lies outside has no weight, and what such
//! a window says counts by the weight that is left. `K1` = 0.01, `K2` = 0.03; variances are divided by the weight.
//!
//! [`super::ssim`] has small windows without weights, every fourth sample: its figures are others, and the two are never mixed.
//! Samples are taken as square. Luma alone is looked at, as the paper's figures do. Sums over several pictures are of SSIM;
//! decibels ([`super::ssim::decibels`]) are made of their mean.

use super::compare::{self, CompareError};
use glassline_media::picture::{Picture, Plane};

/// The sum of a window's weights in one direction.
const WEIGHT: f64 = 256.0;
/// σ for each line of the picture.
const SIGMA_PER_LINE: f64 = 1.5 / 256.0;
/// Taken off each sample, deeper ones divided to be within 0 to 256 as those of 8 bits are, so that sums of squares over a column of a window are exact in 32 bits of floating point: at most 2²³.
const MIDDLE: f32 = 128.0;
/// Sums that are gathered for each sample: of both pictures, of both's squares, of products.
const SUMS: usize = 4;
/// Samples that are worked on at a time, in registers.
const LANES: usize = 16;

/// SSIM of luma of a pair of pictures, or the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DaalaSsim {
    sum: f64,
    pictures: u64,
}

impl DaalaSsim {
    /// Of one pair of pictures.
    ///
    /// Cost: about ten times that of [`super::ssim`], some 14 ms for 1280×720 on one core: each sample is weighed with the 22 beside
    /// it and then with the 22 above and below, in four sums. The result is within 10⁻⁵ of exact arithmetic, of more than 8 bits within
    /// 10⁻⁴.
    ///
    /// # Errors
    /// Where the pictures are of different size, components or depth, or in pgroups.
    pub fn of(reference: &Picture, distorted: &Picture) -> Result<DaalaSsim, CompareError> {
        compare::check(reference, distorted)?;
        let luma = reference.planes().first().zip(distorted.planes().first());
        let depth = Depth::new(reference.format().depth_bits);
        Ok(luma.map_or(DaalaSsim::default(), |(one, other)| DaalaSsim {
            sum: of_plane(one, other, depth),
            pictures: 1,
        }))
    }

    /// Takes another picture into the mean.
    pub fn add(&mut self, other: &DaalaSsim) {
        self.sum += other.sum;
        self.pictures += other.pictures;
    }

    /// The mean, −1 to 1; `None` of no pictures.
    pub fn luma(&self) -> Option<f64> {
        (self.pictures > 0).then(|| self.sum / self.pictures as f64)
    }
}

/// What follows from the depth of samples (`depth` of `calc_ssim`).
#[derive(Clone, Copy, Debug)]
struct Depth {
    /// Samples are multiplied with it, 1 of 8 bits; exact.
    scale: f32,
    /// (0.01 · peak)² and (0.03 · peak)², of samples that are scaled.
    c1: f32,
    c2: f32,
}

impl Depth {
    fn new(depth_bits: u8) -> Depth {
        let steps = f64::from(1u32 << (depth_bits - 8));
        let peak = f64::from((1u32 << depth_bits) - 1) / steps;
        let [c1, c2] = [0.01, 0.03].map(|share: f64| (share * peak).powi(2) as f32);
        Depth { scale: (1.0 / steps) as f32, c1, c2 }
    }
}

/// A window's weights on one side, from the middle outwards: the middle's, then those at distance 1, 2 and so on. Whole numbers.
fn weights(sigma: f64, longest: usize) -> Vec<f32> {
    // Beyond this distance no weight rounds to 1.
    let least = (0.5 * std::f64::consts::PI).sqrt() * sigma / WEIGHT;
    let reach = if least < 1.0 { (sigma * (-2.0 * least.ln()).sqrt()).floor() as usize } else { 0 };
    let reach = reach.min(longest.saturating_sub(1));
    let scale = WEIGHT / ((2.0 * std::f64::consts::PI).sqrt() * sigma);
    let at = |distance: usize| (scale * (-0.5 * (distance as f64 / sigma).powi(2)).exp() + 0.5).floor();
    let sides: Vec<f64> = (1..=reach).map(at).collect();
    // Rounding is made good in the middle.
    let middle = WEIGHT - 2.0 * sides.iter().sum::<f64>();
    std::iter::once(middle).chain(sides).map(|weight| weight as f32).collect()
}

/// What of a window's weight lies inside of `length` samples, for a window around each.
fn inside(weights: &[f32], length: usize) -> Vec<f32> {
    let of = |at: usize| {
        let side = |room: usize| weights[1..].iter().take(room).sum::<f32>();
        weights[0] + side(at) + side(length - 1 - at)
    };
    (0..length).map(of).collect()
}

/// A line's sums for each sample, padded to whole lanes with zeros, which say nothing.
type Line = [Vec<[f32; LANES]>; SUMS];

/// The mean over all windows by their weights.
fn of_plane(reference: &Plane, distorted: &Plane, depth: Depth) -> f64 {
    let (width, height) = (reference.size().width as usize, reference.size().height as usize);
    let weights = weights(height as f64 * SIGMA_PER_LINE, width.min(height));
    let reach = weights.len() - 1;
    let (across, down) = (inside(&weights, width), inside(&weights, height));
    let blocks = width.div_ceil(LANES);
    // By line modulo the window's height; what is above the picture and below it is `nothing`.
    let nothing: Line = std::array::from_fn(|_| vec![[0.0; LANES]; blocks]);
    let mut lines = vec![nothing.clone(); 2 * reach + 1];
    let mut columns: [Vec<f32>; SUMS] = std::array::from_fn(|_| vec![0.0; reach + blocks * LANES + reach]);
    let mut taken = 0;
    let mut sum = 0.0;
    for (y, &weight_down) in down.iter().enumerate() {
        while taken <= (y + reach).min(height - 1) {
            let slot = taken % lines.len();
            take(&mut lines[slot], reference.line(taken), distorted.line(taken), depth.scale);
            taken += 1;
        }
        let line = |at: Option<usize>| match at {
            Some(at) if at < height => &lines[at % lines.len()],
            _ => &nothing,
        };
        for (index, column) in columns.iter_mut().enumerate() {
            let around: Vec<Around<'_>> = (1..=reach)
                .map(|distance| Around {
                    above: &line(y.checked_sub(distance))[index],
                    below: &line(Some(y + distance))[index],
                    weight: weights[distance],
                })
                .collect();
            let out = column[reach..].as_chunks_mut().0;
            weigh_lines(out, &line(Some(y))[index], weights[0], &around);
        }
        sum += f64::from(weight_down) * of_line(&columns, &weights, (&across, weight_down), depth);
    }
    let total = |weights: &[f32]| weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
    sum / (total(&across) * total(&down))
}

/// Sets a line's sums to those of its samples alone.
fn take(line: &mut Line, one: &[u8], other: &[u8], scale: f32) {
    let [ones, others, squares, products] = line;
    let sums = ones.iter_mut().zip(others).zip(squares.iter_mut().zip(products));
    let (bytes, centred): (_, fn(&[u8], f32) -> _) =
        if scale < 1.0 { (2 * LANES, deep_centred) } else { (LANES, centred) };
    for (((ones, others), (squares, products)), (one, other)) in
        sums.zip(one.chunks(bytes).zip(other.chunks(bytes)))
    {
        (*ones, *others) = (centred(one, scale), centred(other, scale));
        for lane in 0..LANES {
            let (one, other) = (ones[lane], others[lane]);
            (squares[lane], products[lane]) = (one * one + other * other, one * other);
        }
    }
}

/// Samples as they are summed up, and zeros behind the last.
fn centred(samples: &[u8], _: f32) -> [f32; LANES] {
    let mut padded = [MIDDLE as u8; LANES];
    padded[..samples.len()].copy_from_slice(samples);
    padded.map(|sample| f32::from(sample) - MIDDLE)
}

/// The same of samples that take two bytes.
fn deep_centred(samples: &[u8], scale: f32) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    for (out, &sample) in out.iter_mut().zip(samples.as_chunks::<2>().0) {
        *out = f32::from(u16::from_le_bytes(sample)) * scale - MIDDLE;
    }
    out
}

/// Two lines as far from the middle, and what they weigh.
struct Around<'a> {
    above: &'a [[f32; LANES]],
    below: &'a [[f32; LANES]],
    weight: f32,
}

/// Writes the sums of a line and of those around it.
fn weigh_lines(out: &mut [[f32; LANES]], middle: &[[f32; LANES]], weight: f32, around: &[Around<'_>]) {
    for (block, (out, middle)) in out.iter_mut().zip(middle).enumerate() {
        let mut sums = middle.map(|value| weight * value);
        for Around { above, below, weight } in around {
            let (above, below) = (&above[block], &below[block]);
            for lane in 0..LANES {
                sums[lane] += weight * (above[lane] + below[lane]);
            }
        }
        *out = sums;
    }
}

/// SSIM of all windows around a line's samples, each by its weight across. `columns` has the sums over columns, with what a window
/// reaches before and behind them.
fn of_line(
    columns: &[Vec<f32>; SUMS],
    weights: &[f32],
    (across, weight_down): (&[f32], f32),
    Depth { c1, c2, .. }: Depth,
) -> f64 {
    let mut sum = [0.0f32; LANES];
    for (block, across) in across.chunks(LANES).enumerate() {
        let sums = columns.each_ref().map(|column| weigh_columns(&column[block * LANES..], weights));
        let mut weight = [0.0f32; LANES];
        weight[..across.len()].copy_from_slice(across);
        for lane in 0..LANES {
            // Padding has no weight, and any finite value.
            let share = 1.0 / (weight[lane] * weight_down).max(1.0);
            let [one, other, squares, products] = [0, 1, 2, 3].map(|index| sums[index][lane] * share);
            let variances = squares - (one * one + other * other);
            let covariance = products - one * other;
            let (one, other) = (one + MIDDLE, other + MIDDLE);
            let luminance = (2.0 * one * other + c1) / (one * one + other * other + c1);
            sum[lane] += weight[lane] * luminance * ((2.0 * covariance + c2) / (variances + c2));
        }
    }
    sum.iter().map(|&lane| f64::from(lane)).sum()
}

/// The sums around [`LANES`] samples; the window of the first of these begins at `column`'s first.
fn weigh_columns(column: &[f32], weights: &[f32]) -> [f32; LANES] {
    let (first, sides) = (weights[0], &weights[1..]);
    let windows = column.windows(LANES);
    let before = windows.clone().take(sides.len()).rev();
    let mut behind = windows.skip(sides.len());
    let mut sums = [0.0; LANES];
    for (sum, value) in sums.iter_mut().zip(behind.next().unwrap_or_default()) {
        *sum = first * value;
    }
    for ((before, behind), &weight) in before.zip(behind).zip(sides) {
        for ((sum, before), behind) in sums.iter_mut().zip(before).zip(behind) {
            *sum += weight * (before + behind);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{deep_picture, picture};
    use crate::ssim::decibels;
    use proptest::prelude::*;

    /// The definition, window by window in exact arithmetic, from weights that are given.
    fn textbook(reference: &Plane, distorted: &Plane, weights: &[i64], depth_bits: u8) -> f64 {
        let (width, height) = (reference.size().width as i64, reference.size().height as i64);
        let reach = weights.len() as i64 - 1;
        let (mut sum, mut total) = (0.0, 0.0);
        for y in 0..height {
            for x in 0..width {
                let (mut a, mut b, mut aa, mut bb, mut ab, mut all) = (0i64, 0i64, 0i64, 0i64, 0i64, 0i64);
                for line in (y - reach).max(0)..=(y + reach).min(height - 1) {
                    for column in (x - reach).max(0)..=(x + reach).min(width - 1) {
                        let weight = weights[(line - y).unsigned_abs() as usize]
                            * weights[(column - x).unsigned_abs() as usize];
                        let of = |plane: &Plane| {
                            let (line, column) = (plane.line(line as usize), column as usize);
                            match depth_bits {
                                8 => i64::from(line[column]),
                                _ => i64::from(u16::from_le_bytes([line[2 * column], line[2 * column + 1]])),
                            }
                        };
                        let (one, other) = (of(reference), of(distorted));
                        a += weight * one;
                        b += weight * other;
                        aa += weight * one * one;
                        bb += weight * other * other;
                        ab += weight * one * other;
                        all += weight;
                    }
                }
                let of = |value: i64| value as f64 / all as f64;
                let (a, b) = (of(a), of(b));
                let peak = f64::from((1u32 << depth_bits) - 1);
                let (c1, c2) = ((0.01 * peak).powi(2), (0.03 * peak).powi(2));
                let (variances, both) = (of(aa) - a * a + of(bb) - b * b, of(ab) - a * b);
                sum += all as f64 * (2.0 * a * b + c1) * (2.0 * both + c2)
                    / ((a * a + b * b + c1) * (variances + c2));
                total += all as f64;
            }
        }
        sum / total
    }

    #[test]
    fn weights_are_those_of_a_gaussian_and_add_up() {
        let of = |lines: usize| weights(lines as f64 * SIGMA_PER_LINE, lines);
        // By hand: σ 1.5 gives 256 · 0.26596 · exp(-d²/4.5): 54.5, 28.0, 9.2, 1.9, 0.26.
        assert_eq!(of(256), [68.0, 55.0, 28.0, 9.0, 2.0]);
        // σ 4.22 at 720 lines: a window of 23.
        assert_eq!(of(720).len(), 12);
        for lines in [1, 2, 16, 144, 480, 720, 1080, 2160] {
            let found = of(lines);
            assert_eq!(found[0] + 2.0 * found[1..].iter().sum::<f32>(), 256.0, "{lines}: {found:?}");
            assert!(found.iter().all(|weight| *weight > 0.0 && weight.fract() == 0.0), "{lines}: {found:?}");
        }
        // A picture of few samples has short windows.
        assert_eq!(weights(4.0, 3).len(), 3);
    }

    #[test]
    fn equal_pictures_are_alike_and_flat_ones_are_told_by_their_means() {
        let one = picture(50, 30, |_, x, y| (x * 7 + y * 3) as u8);
        assert_eq!(DaalaSsim::of(&one, &one.clone()).unwrap().luma(), Some(1.0));
        assert_eq!(DaalaSsim::default().luma(), None);
        // (2 · 100 · 120 + C1) / (100² + 120² + C1)
        let found = DaalaSsim::of(&picture(40, 40, |_, _, _| 100), &picture(40, 40, |_, _, _| 120)).unwrap();
        assert!((found.luma().unwrap() - 24_006.502_5 / 24_406.502_5).abs() < 1e-6, "{found:?}");
        assert!(DaalaSsim::of(&one, &picture(40, 40, |_, _, _| 0)).is_err());
    }

    #[test]
    fn constants_of_8_bits_are_the_papers() {
        let Depth { scale, c1, c2 } = Depth::new(8);
        assert_eq!([scale, c1, c2], [1.0, 6.5025, 58.5225]);
    }

    #[test]
    fn chroma_is_not_looked_at() {
        let with = |chroma: u8| picture(32, 32, move |plane, x, _| if plane == 0 { x as u8 } else { chroma });
        assert_eq!(DaalaSsim::of(&with(0), &with(200)).unwrap().luma(), Some(1.0));
    }

    #[test]
    fn a_picture_of_720_lines_is_that_of_exact_arithmetic() {
        // σ 4.21875; computed apart from this code.
        let exact = [26, 24, 22, 19, 15, 12, 9, 6, 4, 2, 1, 1];
        let wave = |x: usize, y: usize| (120.0 + 100.0 * ((x + y / 3) as f64 / 9.0).sin()) as u8;
        let noise = |x: usize, y: usize| ((x * 31 + y * 17 + x * y) % 23) as u8 / 2;
        let one = picture(40, 720, |_, x, y| wave(x, y));
        let other = picture(40, 720, |_, x, y| wave(x, y).saturating_add(noise(x, y)));
        let found = DaalaSsim::of(&one, &other).unwrap().luma().unwrap();
        let expected = textbook(&one.planes()[0], &other.planes()[0], &exact, 8);
        assert!((decibels(found) - decibels(expected)).abs() < 1e-3, "{found} {expected}");
    }

    #[test]
    fn it_is_what_dump_ssim_says() {
        let of = |x: usize, y: usize| (x * 7 + y * 13) % 251;
        let one = picture(80, 64, |_, x, y| of(x, y) as u8);
        let other = picture(80, 64, |_, x, y| (of(x, y) * 3 / 4 + ((x ^ y) % 16) * 2) as u8);
        let found = DaalaSsim::of(&one, &other).unwrap().luma().unwrap();
        // dump_ssim --luma-only --raw, of xiph/daala, on these two.
        assert!((found - 0.899_264_253).abs() < 1e-6, "{found}");
    }

    proptest! {
        #[test]
        fn windows_are_those_of_the_definition(seed: u32, (width, height) in (1u32..50, 1u32..40)) {
            let noise = |salt: u32| move |plane: usize, x: usize, y: usize| {
                let at = (plane * 10_007 + y * 101 + x) as u32;
                (at.wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(salt) >> 24) as u8
            };
            let one = picture(width, height, noise(3));
            let other = picture(width, height, |p, x, y| noise(3)(p, x, y) / 2 + noise(11)(p, x, y) / 3);
            let found = DaalaSsim::of(&one, &other).unwrap().luma().unwrap();
            let least = width.min(height) as usize;
            let weights: Vec<i64> =
                weights(f64::from(height) * SIGMA_PER_LINE, least).iter().map(|weight| *weight as i64).collect();
            let expected = textbook(&one.planes()[0], &other.planes()[0], &weights, 8);
            prop_assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    proptest! {
        #[test]
        fn deep_windows_are_those_of_the_definition(
            depth_bits in 9u8..=16,
            seed: u32,
            (width, height) in (1u32..50, 1u32..40),
            smooth: bool,
        ) {
            let noise = |salt: u32| move |plane: usize, x: usize, y: usize| {
                let at = if smooth { x + y } else { plane * 10_007 + y * 101 + x } as u32;
                (at.wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(salt) >> 16) as u16 >> (16 - depth_bits)
            };
            let one = deep_picture(depth_bits, (width, height), noise(3));
            let other = deep_picture(depth_bits, (width, height), |p, x, y| noise(3)(p, x, y) / 2 + noise(11)(p, x, y) / 3);
            let found = DaalaSsim::of(&one, &other).unwrap().luma().unwrap();
            let least = width.min(height) as usize;
            let weights: Vec<i64> =
                weights(f64::from(height) * SIGMA_PER_LINE, least).iter().map(|weight| *weight as i64).collect();
            let expected = textbook(&one.planes()[0], &other.planes()[0], &weights, depth_bits);
            prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    #[test]
    fn the_mean_is_that_of_pictures() {
        let one = picture(16, 16, |_, x, _| (x * 10) as u8);
        let other = picture(16, 16, |_, _, y| (y * 10) as u8);
        let (alike, apart) = (DaalaSsim::of(&one, &one).unwrap(), DaalaSsim::of(&one, &other).unwrap());
        let mut mean = alike;
        mean.add(&apart);
        let expected = f64::midpoint(1.0, apart.luma().unwrap());
        assert!((mean.luma().unwrap() - expected).abs() < 1e-12);
    }
}
