//! Numbers that look random and repeat with their seed.

use std::time::Duration;

/// SplitMix64: 64 bits of state, each seed a sequence of its own of period 2⁶⁴. For simulations, never for secrets.
///
/// The sequence of a seed is fixed: a simulation that failed can be repeated by its seed on any machine.
/// (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.)
///
/// ```
/// use glassline_transport::emulator::Random;
/// let (mut one, mut other) = (Random::new(7), Random::new(7));
/// assert_eq!(one.next_u64(), other.next_u64());
/// assert_ne!(Random::stream(7, 1).next_u64(), Random::stream(7, 2).next_u64());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// One of many independent sequences of `seed`: drawing more from one of them changes nothing in the others.
    pub const fn stream(seed: u64, number: u64) -> Random {
        // Two rounds apart: neighbouring seeds and neighbouring numbers share nothing.
        Random(mix(mix(seed.wrapping_add(GAMMA)) ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number from 0 up to, but not including, 1; 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability; never for 0 or less, always for 1 or more. Draws once in any case.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A whole number from 0 to `last`, evenly (to one part in 2⁶⁴).
    pub fn up_to(&mut self, last: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * (u128::from(last) + 1);
        (wide >> 64) as u64
    }

    /// A duration from zero to `longest`, evenly; at most 584 years.
    pub fn duration_up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_nanos(self.up_to(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// A duration of this mean, exponentially distributed; at most 44 means, since `unit` has 53 bits.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let share = -(1.0 - self.unit()).ln();
        let nanos = mean.as_nanos() as f64 * share;
        // A float that is too large becomes the largest integer.
        Duration::from_nanos(nanos as u64)
    }

    /// Fills a buffer.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_paper() {
        // The first values of the reference implementation with seed 1234567.
        let mut random = Random::new(1_234_567);
        let found = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let count = 100_000u32;
        let ones = (0..count).filter(|_| random.chance(0.02)).count();
        assert!((1_850..2_150).contains(&ones), "{ones}");
        assert!(!Random::new(3).chance(0.0) && Random::new(3).chance(1.0));
        let mean = Duration::from_millis(100);
        let sum: Duration = (0..count).map(|_| random.exponential(mean)).sum();
        assert!((sum / count).abs_diff(mean) < Duration::from_millis(2), "{:?}", sum / count);
        let sum: u64 = (0..count).map(|_| random.up_to(10)).sum();
        assert!((490_000..510_000).contains(&sum), "{sum}");
        assert!((0..1000).all(|_| random.up_to(0) == 0));
        random.up_to(u64::MAX);
    }

    #[test]
    fn any_length_is_filled() {
        for length in [0, 1, 7, 8, 9, 40] {
            let mut bytes = vec![0; length];
            Random::new(5).fill(&mut bytes);
            assert!(length == 0 || bytes.iter().any(|&byte| byte != 0));
        }
    }
}
