//! How much a publisher may send.

use glassline_media::Time;
use serde::{Deserialize, Serialize};

/// Holds a sender to a mean bit rate, with room for bursts: a bucket that leaks at the rate and holds what comes at
/// that rate in [`Meter::BURST_SECONDS`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Meter {
    limit_bps: u64,
    level_bits: f64,
    at: Time,
}

impl Meter {
    /// Seconds at the limit that may come at once: what players and encoders send in advance.
    pub const BURST_SECONDS: f64 = 5.0;

    /// A meter that allows `limit_bps` bits a second in the mean.
    pub fn new(limit_bps: u64, now: Time) -> Meter {
        Meter { limit_bps, level_bits: 0.0, at: now }
    }

    /// The limit, in bits a second.
    pub fn limit_bps(&self) -> u64 {
        self.limit_bps
    }

    /// Takes `bytes` into account. Returns whether they are still within the limit.
    pub fn allow(&mut self, bytes: usize, now: Time) -> bool {
        let leaked = now.since(self.at).as_secs_f64() * self.limit_bps as f64;
        self.at = now;
        self.level_bits = (self.level_bits - leaked).max(0.0) + bytes as f64 * 8.0;
        self.level_bits <= self.limit_bps as f64 * Self::BURST_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_may_last_and_a_burst_may_come() {
        let mut meter = Meter::new(8_000_000, Time::ZERO);
        // Four seconds' worth at once, then exactly the rate for a minute.
        assert!(meter.allow(4_000_000, Time::ZERO));
        assert!((1..600).all(|tenth| meter.allow(100_000, Time::from_millis(tenth * 100))));
        // Another second's worth reaches the brim, and one more is too much.
        assert!(meter.allow(900_000, Time::from_millis(60_000)));
        assert!(!meter.allow(1_000_000, Time::from_millis(60_000)));
    }

    #[test]
    fn a_little_too_fast_is_found_out() {
        let mut meter = Meter::new(8_000_000, Time::ZERO);
        let refused = (1..2000u64).find(|&tenth| !meter.allow(110_000, Time::from_millis(tenth * 100)));
        assert!(refused.is_some_and(|tenth| (400..600).contains(&tenth)), "{refused:?}");
    }
}
