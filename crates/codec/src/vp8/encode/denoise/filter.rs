//! The samples of a block on their way to what they were predicted to be.

/// Samples of a side of the block that is judged as a whole.
pub(crate) const SIDE: usize = 8;
/// Levels of noise are sums of absolute differences over a block: 64ths of a sample's.
pub(crate) const SAMPLES: u32 = (SIDE * SIDE) as u32;

/// How far samples move at a level of noise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// Mean differences of a block, as sums over it: up to the first they are noise, from the second on a change of the
    /// scene.
    mean: (i32, i32),
    /// What is left of differences, as sums over the block: up to the first it is noise, from the second on something
    /// else has come.
    rest: (i32, i32),
    /// From this difference on a sample stays.
    pub(crate) limit: i16,
    /// The share of the way that a sample goes at most, in 256ths.
    most: i32,
}

impl Level {
    /// `noise` is the sum of absolute differences of a block of noise alone, `most` the share of the way that a sample
    /// goes at most, in 256ths, below 256.
    pub(crate) fn new(noise: u32, most: u32) -> Level {
        let noise = noise.clamp(SAMPLES / 4, 32 * SAMPLES) as i32;
        Level {
            // The mean of 64 samples of noise is a sixth of their mean difference.
            mean: (noise / 3, noise * 2 / 3),
            rest: (noise * 3 / 2, noise * 9 / 4),
            // Three and a half standard deviations.
            limit: (noise * 9 / 2 / SAMPLES as i32 + 1) as i16,
            most: most.min(255) as i32,
        }
    }

    /// What of the mean of differences with this sum is a change of the scene.
    #[inline(always)]
    pub(crate) fn real(&self, sum: i32) -> i16 {
        (sum * (256 - falling(sum.abs(), self.mean)) / (256 * SAMPLES as i32)) as i16
    }

    /// The share of the way that samples of a block go where this sum of absolute differences is left: at most, in
    /// 256ths, and how much more for each value that a difference lies below the limit, in 16ths of that.
    #[inline(always)]
    pub(crate) fn share(&self, rest: u32) -> (i16, i16) {
        let most = self.most * falling(rest as i32, self.rest) / 256;
        // The same up to half of the limit, falling to nothing from there.
        (most as i16, (32 * most / i32::from(self.limit)) as i16)
    }
}

/// Writes a block of 8×8 samples to `out`, moved from `source` towards `predicted`, each with its stride; gives the sum
/// of the absolute differences between both, their mean left out where it is not noise. The scalar reference.
///
/// A mean that differs is a change of light and stays; only what goes around it moves. A sample that differs much
/// stays, and so do all of a block that differs much. Otherwise a sample moves by a share of the difference, rounded
/// down: what was there before is forgotten within some pictures, down to the last bit.
pub(crate) fn block(
    level: &Level,
    (source, source_stride): (&[u8], usize),
    (predicted, stride): (&[u8], usize),
    (out, out_stride): (&mut [u8], usize),
) -> u32 {
    let mut differences = [[0i16; SIDE]; SIDE];
    let lines = source.chunks(source_stride).zip(predicted.chunks(stride));
    for (differences, (source, predicted)) in differences.iter_mut().zip(lines) {
        for (difference, (&source, &predicted)) in differences.iter_mut().zip(source.iter().zip(predicted)) {
            *difference = i16::from(predicted) - i16::from(source);
        }
    }
    let real = level.real(differences.as_flattened().iter().map(|&difference| i32::from(difference)).sum());
    differences.as_flattened_mut().iter_mut().for_each(|difference| *difference -= real);
    let rest = differences.as_flattened().iter().map(|difference| u32::from(difference.unsigned_abs())).sum();
    let (most, slope) = level.share(rest);
    let lines = source.chunks(source_stride).zip(out.chunks_mut(out_stride));
    for (differences, (source, out)) in differences.iter().zip(lines) {
        for (difference, (&source, out)) in differences.iter().zip(source.iter().zip(out)) {
            let size = difference.abs();
            let share = i32::from((((level.limit - size).max(0) * slope) >> 4).min(most));
            let way = (i32::from(size) * share) >> 8;
            *out = (i32::from(source) + way * i32::from(difference.signum())).clamp(0, 255) as u8;
        }
    }
    rest
}

/// 256 up to the first of two bounds, 0 from the second on, and in between what lies between.
#[inline(always)]
fn falling(value: i32, (full, none): (i32, i32)) -> i32 {
    (none - value).clamp(0, none - full) * 256 / (none - full)
}
