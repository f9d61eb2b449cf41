//! Random bytes from a seed that is handed in, so that a simulation repeats itself.

use ring::hmac;
use zeroize::Zeroizing;

/// A generator of random bytes: HMAC-SHA256 over a counter, whose key is replaced after each request, so that what
/// was drawn cannot be found from what is kept (after NIST SP 800-90A §10.1.2, without reseeding).
///
/// As secret as its seed: hand 32 bytes of the system's randomness in, or any in a simulation.
pub struct Random {
    key: Zeroizing<[u8; 32]>,
}

impl Random {
    /// A generator that gives the same bytes for the same seed.
    pub fn new(seed: [u8; 32]) -> Random {
        Random { key: Zeroizing::new(seed) }
    }

    /// Fills `out`. Cost: a microsecond or so for each 32 bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key[..]);
        for (index, chunk) in out.chunks_mut(32).enumerate() {
            let block = hmac::sign(&key, &(index as u64 + 1).to_be_bytes());
            chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
        }
        self.key.copy_from_slice(hmac::sign(&key, &0u64.to_be_bytes()).as_ref());
    }

    /// `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A generator of its own for one user, who does not share this one's future.
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
}
