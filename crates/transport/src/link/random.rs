//! Random bytes from a seed that is handed in, so that a simulation repeats itself.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// A generator of random bytes: ChaCha20 (RFC 8439) over a counter, with the seed as its key.
///
/// As secret as its seed: hand 32 bytes of the system's randomness in, or any in a simulation.
pub struct Random(ChaCha20Rng);

impl Random {
    /// A generator that gives the same bytes for the same seed.
    pub fn new(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A generator of its own for one user, independent of what this one gives afterwards.
    pub fn fork(&mut self) -> Random {
        Random::new(self.array())
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_row_of_bytes_and_another_seed_another() {
        let (mut one, mut same, mut other) =
            (Random::new([1; 32]), Random::new([1; 32]), Random::new([2; 32]));
        let first: [u8; 100] = one.array();
        assert_eq!(first, same.array());
        assert_ne!(first, other.array());
        assert_ne!(first, one.array(), "it goes on");
        assert_ne!(one.fork().array::<16>(), one.fork().array::<16>());
        assert!(first.iter().filter(|byte| **byte == 0).count() < 10);
    }

    /// The first block of the key of zeros (RFC 8439 §A.1, test vector 1).
    #[test]
    fn it_is_chacha20() {
        let block: [u8; 8] = Random::new([0; 32]).array();
        assert_eq!(block, [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }
}
