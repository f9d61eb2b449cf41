//! Which quantisers to try: those around the one that gives the size that is expected to fit, by what pictures took lately.

use std::collections::VecDeque;

/// Bounds of what is learned, from what is taken before anything is known.
const SLOPES: (f64, f64) = (8.0 / 15.0, 40.0 / 15.0);
/// How much of a new measurement is taken.
const SLOPE_GAIN: f64 = 0.2;
/// Pictures that are remembered. The second largest of them is what the next one is expected to take: where every other picture
/// repeats the one before it, as films do at twice their rate, the others are what counts, and a picture that is too large is not
/// sent, while one that is too small is only coarser than need be.
const REMEMBERED: usize = 4;
/// The largest index.
const COARSEST: u8 = 127;
/// By how many octaves a size changes from one picture to the next, at least: candidates are never closer.
const LEAST_SPREAD: f64 = 0.12;
/// Bytes grow with this power of the area: larger pictures have more that is alike.
const AREA_EXPONENT: f64 = 0.7;
/// The share of what is expected to fit that the middle candidate aims at.
const AIM: f64 = 0.9;

/// What sizes pictures have at which quantiser: the logarithm of the size falls with the index.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    /// log2 of the bytes that index 0 would have given, of the last pictures.
    finest_sizes: VecDeque<f64>,
    /// Indices for half the size, before anything was known and now.
    first_slope: f64,
    slope: f64,
    /// By how many octaves the last pictures were off what was predicted, on average.
    error: f64,
}

impl Ladder {
    /// Where sizes halve each `slope` indices before anything is known.
    pub(crate) fn new(slope: f64) -> Ladder {
        Ladder { finest_sizes: VecDeque::with_capacity(REMEMBERED), first_slope: slope, slope, error: 0.3 }
    }

    /// log2 of the bytes that the next picture would take at index 0.
    fn finest_size(&self) -> Option<f64> {
        let mut sizes: Vec<f64> = self.finest_sizes.iter().copied().collect();
        sizes.sort_by(f64::total_cmp);
        sizes.iter().rev().nth(1).or(sizes.last()).copied()
    }

    /// log2 of the bytes that it would take at this index, as far as is known.
    fn octaves(&self, index: f64) -> Option<f64> {
        Some(self.finest_size()? - index / self.slope)
    }

    /// The index that should give `wanted` bytes of a picture of which `index` gave `bytes`; none below `finest`.
    pub(crate) fn corrected(&self, index: u8, bytes: f64, wanted: f64, finest: u8) -> u8 {
        let octaves = (bytes.max(1.0) / wanted.max(1.0)).log2();
        let corrected = f64::from(index) + octaves * self.slope;
        corrected.round().clamp(f64::from(finest), f64::from(COARSEST)) as u8
    }

    /// Takes what a picture took: indices with sizes, in any order.
    pub(crate) fn learn(&mut self, sizes: &[(u8, usize)]) {
        let octaves = |bytes: usize| (bytes.max(1) as f64).log2();
        let finest = sizes.iter().min_by_key(|(index, _)| *index);
        let coarsest = sizes.iter().max_by_key(|(index, _)| *index);
        let (Some(&(low, more)), Some(&(high, less))) = (finest, coarsest) else { return };
        if high >= low + 6 && octaves(more) > octaves(less) + 0.1 {
            let seen = f64::from(high - low) / (octaves(more) - octaves(less));
            self.slope += SLOPE_GAIN
                * (seen.clamp(self.first_slope * SLOPES.0, self.first_slope * SLOPES.1) - self.slope);
        }
        // In the middle, so that an error of the slope counts least.
        let (index, bytes) = (f64::from(low + high) / 2.0, (octaves(more) + octaves(less)) / 2.0);
        if let Some(expected) = self.octaves(index) {
            self.error += 0.1 * ((bytes - expected).abs() - self.error);
        }
        if self.finest_sizes.len() == REMEMBERED {
            self.finest_sizes.pop_front();
        }
        self.finest_sizes.push_back(bytes + index / self.slope);
    }

    /// Pictures have so many times the area from now on.
    pub(crate) fn rescale(&mut self, factor: f64) {
        let octaves = AREA_EXPONENT * factor.max(1e-3).log2();
        self.finest_sizes.iter_mut().for_each(|size| *size += octaves);
    }

    /// `count` indices, finest first, around the one that gives `bytes`, none below `finest`; fewer where they would be the
    /// same.
    pub(crate) fn around(&self, bytes: u64, count: usize, finest: u8) -> Vec<u8> {
        let wanted = (bytes.max(1) as f64 * AIM).log2();
        let middle = self.finest_size().map_or(60.0, |size| (size - wanted) * self.slope);
        let step = (self.error.max(LEAST_SPREAD) * self.slope).min(24.0);
        // One is finer than expected; the coarser ones are further and further away, since one of them must fit.
        let offsets = [-1.8, -0.6, 0.6, 2.6, 5.0, 8.0];
        let offsets = match count {
            // The only one: what is too large is not sent.
            0 | 1 => &[1.35][..],
            2 => &[-0.2, 2.4],
            3 => &[-1.2, 0.2, 3.0],
            4 => &offsets[..4],
            5 => &offsets[..5],
            _ => &offsets[..],
        };
        let mut indices: Vec<u8> = offsets
            .iter()
            .map(|offset| {
                (middle + offset * step).round().clamp(f64::from(finest), f64::from(COARSEST)) as u8
            })
            .collect();
        indices.dedup();
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that halve each twelve indices.
    fn size(index: u8) -> usize {
        (200_000.0 * 2f64.powf(-f64::from(index) / 12.0)) as usize
    }

    fn sizes(indices: &[u8]) -> Vec<(u8, usize)> {
        indices.iter().map(|&index| (index, size(index))).collect()
    }

    #[test]
    fn pictures_that_are_alike_are_met_after_a_few() {
        let mut ladder = Ladder::new(15.0);
        let mut indices = vec![40, 60];
        for _ in 0..40 {
            ladder.learn(&sizes(&indices));
            indices = ladder.around(5_000, 4, 4);
        }
        let fits = indices.iter().map(|&index| size(index)).find(|&bytes| bytes <= 5_000).unwrap();
        assert!((3_800..=5_000).contains(&fits), "{fits} of {indices:?}");
        assert!(size(*indices.last().unwrap()) < 4_500);
    }

    #[test]
    fn a_picture_that_missed_its_size_meets_it_the_second_time() {
        let mut ladder = Ladder::new(15.0);
        for _ in 0..40 {
            ladder.learn(&sizes(&[40, 60]));
        }
        for first in [30, 90] {
            let second = ladder.corrected(first, size(first) as f64, 5_000.0, 4);
            assert!((4_300..5_700).contains(&size(second)), "{} with {second}", size(second));
        }
        assert_eq!(ladder.corrected(60, 1e9, 10.0, 4), 127);
        assert_eq!(ladder.corrected(60, 10.0, 1e9, 4), 4);
    }

    #[test]
    fn candidates_are_as_many_as_asked_for_unless_they_are_the_same() {
        let mut ladder = Ladder::new(15.0);
        for count in 1..=6 {
            ladder.learn(&sizes(&[50, 70]));
            let indices = ladder.around(5_000, count, 4);
            assert_eq!(indices.len(), count);
            assert!(indices.is_sorted());
        }
        assert_eq!(ladder.around(100_000_000, 4, 10), [10], "nothing is finer than the finest");
        assert_eq!(ladder.around(1, 4, 10), [127]);
    }

    #[test]
    fn pictures_that_change_have_candidates_further_apart() {
        let spread = |scale: f64| {
            let mut ladder = Ladder::new(15.0);
            for number in 0..60 {
                let factor = if number % 2 == 0 { 1.0 } else { scale };
                let sizes: Vec<_> = sizes(&[50, 60])
                    .iter()
                    .map(|&(q, bytes)| (q, (bytes as f64 * factor) as usize))
                    .collect();
                ladder.learn(&sizes);
            }
            let indices = ladder.around(5_000, 4, 0);
            indices[3] - indices[0]
        };
        assert!(spread(2.5) > 2 * spread(1.0), "{} and {}", spread(2.5), spread(1.0));
    }
}
