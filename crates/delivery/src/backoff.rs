//! How long to wait before the next attempt.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Exponential back-off with jitter: waits double from `least` to `most`, and each is shortened by up to a half at
/// random, so that the relays that lost one upstream together do not come back to it together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
    random: u64,
}

impl Backoff {
    /// A back-off before the first failure. `seed` is where its randomness comes from; it need not be a secret.
    pub fn new(least: Duration, most: Duration, seed: u64) -> Backoff {
        Backoff { least, most: most.max(least), next: least, random: seed }
    }

    /// What to wait after another failure.
    pub fn fail(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.most);
        // splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let fraction = (mixed ^ mixed >> 31) >> 32;
        whole - whole.mul_f64(fraction as f64 / 2f64.powi(33))
    }

    /// Waits between `least` and `most` from the next failure on.
    pub fn reconfigure(&mut self, least: Duration, most: Duration) {
        self.least = least;
        self.most = most.max(least);
        self.next = self.next.clamp(self.least, self.most);
    }

    /// All has been well for a while: the next failure is a first one.
    pub fn reset(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_begin_anew() {
        let millis = Duration::from_millis;
        let mut backoff = Backoff::new(millis(100), millis(1000), 7);
        for whole in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.fail();
            assert!(wait > millis(whole / 2) && wait <= millis(whole), "{wait:?} of {whole}");
        }
        backoff.reset();
        assert!(backoff.fail() <= millis(100));
        backoff.reconfigure(millis(500), millis(600));
        let wait = backoff.fail();
        assert!(wait > millis(250) && wait <= millis(500), "{wait:?}");
    }

    #[test]
    fn seeds_make_different_waits_and_the_same_seed_the_same() {
        let first = |seed| Backoff::new(Duration::from_secs(1), Duration::from_secs(9), seed).fail();
        assert_eq!(first(1), first(1));
        let waits: std::collections::BTreeSet<_> = (0..100).map(first).collect();
        assert!(waits.len() > 95);
    }
}
