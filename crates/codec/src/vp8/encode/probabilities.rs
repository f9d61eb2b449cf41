//! The probabilities that a frame is written with, chosen from what was counted.

use super::rate::bit;
use super::tokens::{Counts, branches};
use crate::vp8::tables::coefficients::{self, CoefficientProbs};
use crate::vp8::tables::modes::{UPDATE_VECTOR, VectorProbs};

/// The probability of a 0 where zeros and ones came so often.
pub(crate) fn probability(zeros: u32, ones: u32) -> u8 {
    let total = u64::from(zeros) + u64::from(ones);
    if total == 0 {
        return 128;
    }
    ((u64::from(zeros) * 256 + total / 2) / total).clamp(1, 255) as u8
}

/// What `zeros` and `ones` cost with a probability.
fn cost([zeros, ones]: [u32; 2], probability: u8) -> u64 {
    u64::from(zeros) * u64::from(bit(false, probability))
        + u64::from(ones) * u64::from(bit(true, probability))
}

/// The probability to be used instead of `old`, where saying so pays: `flag` is how likely it is not said, `bits` how
/// long the new value is.
fn better(counts: [u32; 2], old: u8, flag: u8, bits: u64, round: impl Fn(u8) -> u8) -> Option<u8> {
    if counts == [0, 0] {
        return None;
    }
    let new = round(probability(counts[0], counts[1]));
    let price = 256 * bits + u64::from(bit(true, flag)) - u64::from(bit(false, flag));
    (new != old && cost(counts, new) + price < cost(counts, old)).then_some(new)
}

/// Moves the probabilities of coefficients where that pays.
pub(crate) fn adapt_coefficients(probs: &mut CoefficientProbs, counts: &Counts) {
    let flags = coefficients::UPDATE.as_flattened().as_flattened();
    let probs = probs.as_flattened_mut().as_flattened_mut();
    for ((probs, flags), counts) in probs.iter_mut().zip(flags).zip(counts) {
        for ((prob, &flag), counts) in probs.iter_mut().zip(flags).zip(branches(counts)) {
            if let Some(new) = better(counts, *prob, flag, 8, |new| new) {
                *prob = new;
            }
        }
    }
}

/// How often the nodes of a vector's component were left to the left and to the right.
pub(crate) type VectorCounts = [[[u32; 2]; 19]; 2];

/// Counts a vector's difference to the best one.
pub(crate) fn count_vector(counts: &mut VectorCounts, difference: [i32; 2]) {
    for (counts, value) in counts.iter_mut().zip(difference) {
        let size = value.unsigned_abs();
        let mut count = |node: usize, bit: bool| counts[node][usize::from(bit)] += 1;
        count(0, size > 7);
        if size > 0 {
            count(1, value < 0);
        }
        if size > 7 {
            for at in [0, 1, 2, 4, 5, 6, 7, 8, 9] {
                count(9 + at, size >> at & 1 != 0);
            }
            if size > 15 {
                count(12, size & 8 != 0);
            }
        } else {
            // The tree of short values is that of their three bits: nodes 0, then 1 or 4, then one of four.
            let (high, middle) = (size >> 2, size >> 1 & 1);
            count(2, high != 0);
            count(2 + if high == 0 { 1 } else { 4 }, middle != 0);
            count(2 + (2 + 3 * high + middle) as usize, size & 1 != 0);
        }
    }
}

/// Moves the probabilities of vectors where that pays.
pub(crate) fn adapt_vectors(probs: &mut VectorProbs, counts: &VectorCounts) {
    let flags = UPDATE_VECTOR.as_flattened();
    let probs = probs.as_flattened_mut();
    for ((prob, &flag), &counts) in probs.iter_mut().zip(flags).zip(counts.as_flattened()) {
        // Seven bits are said, the lowest is 0 but for a probability of 1.
        let round = |new: u8| (new & !1).max(1);
        if let Some(new) = better(counts, *prob, flag, 7, round) {
            *prob = new;
        }
    }
}

/// Modes' probabilities: the counted ones, where all of them together pay.
pub(crate) fn adapt_modes<const NODES: usize>(probs: &mut [u8; NODES], counts: &[[u32; 2]; NODES]) -> bool {
    let new = counts.map(|[zeros, ones]| probability(zeros, ones));
    let total =
        |probs: &[u8; NODES]| counts.iter().zip(probs).map(|(&count, &prob)| cost(count, prob)).sum::<u64>();
    let pays = total(&new) + 256 * 8 * (NODES as u64) < total(probs);
    if pays {
        *probs = new;
    }
    pays
}

/// The cost of a vector's component, for tests of the counts.
#[cfg(test)]
fn counted_cost(counts: &VectorCounts, probs: &VectorProbs) -> u64 {
    counts.as_flattened().iter().zip(probs.as_flattened()).map(|(&count, &prob)| cost(count, prob)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::rate::component_cost;
    use super::*;
    use crate::vp8::tables::modes::DEFAULT_VECTOR;

    #[test]
    fn a_probability_is_the_share_of_zeros() {
        assert_eq!(
            [probability(0, 0), probability(1, 0), probability(0, 9), probability(3, 1)],
            [128, 255, 1, 192]
        );
    }

    #[test]
    fn only_what_pays_is_changed() {
        assert_eq!(better([3, 3], 120, 250, 8, |new| new), None);
        assert_eq!(better([3000, 1000], 120, 250, 8, |new| new), Some(192));
        let mut probs = [128; 4];
        assert!(!adapt_modes(&mut probs, &[[5, 2]; 4]));
        assert!(adapt_modes(&mut probs, &[[500, 20]; 4]));
        assert_eq!(probs, [246; 4]);
    }

    #[test]
    fn a_vector_is_counted_where_it_is_paid() {
        for value in (0..300).chain([512, 1023]) {
            let mut counts = [[[0; 2]; 19]; 2];
            count_vector(&mut counts, [value, -value]);
            let signs = if value == 0 { 0 } else { 512 };
            let sum: u32 = DEFAULT_VECTOR.iter().map(|probs| component_cost(probs, value as u32)).sum();
            assert_eq!(counted_cost(&counts, &DEFAULT_VECTOR), u64::from(sum + signs), "{value}");
        }
    }
}
