//! The bit rate of an encoder that codes each picture once: what the link has taken lately, less a reserve.
//!
//! x264 (`call::direct`) and a camera's own encoder ([`CameraRate`](super::CameraRate)) follow the same rule.

use std::time::Duration;

/// The rate that a link carries, smoothed over pictures.
#[derive(Clone, Debug)]
pub struct LinkRate {
    /// What the link took lately, bits a second.
    taken_bps: f64,
}

impl LinkRate {
    /// The rate at first, before the link has said anything, bits a second.
    pub const FIRST_BPS: u64 = 1_000_000;
    /// Of what the link takes, what pictures are given: they are not of one size.
    const SHARE: f64 = 0.85;
    /// How far one picture's budget moves the rate. Down at once, up slowly: what a late picture costs is seen, what a
    /// larger one would have given is not.
    const DOWN: f64 = 0.3;
    const UP: f64 = 0.05;

    /// A link that carries an encoder's first rate, bits a second.
    pub fn new(first_bps: u64) -> LinkRate {
        LinkRate { taken_bps: first_bps as f64 / Self::SHARE }
    }

    /// Takes what the link takes within `horizon`, bytes: once for each picture.
    pub fn handle_budget(&mut self, budget_bytes: u64, horizon: Duration) {
        let now = budget_bytes as f64 * 8.0 / horizon.as_secs_f64().max(0.001);
        self.taken_bps += (if now < self.taken_bps { Self::DOWN } else { Self::UP }) * (now - self.taken_bps);
    }

    /// The rate at which an encoder should code, bits a second.
    #[must_use]
    pub fn wanted_bps(&self) -> u64 {
        (self.taken_bps * Self::SHARE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HORIZON: Duration = Duration::from_millis(40);

    /// What leaves within the horizon at so many bits a second.
    fn budget(bps: u64) -> u64 {
        bps * 40 / 1000 / 8
    }

    #[test]
    fn the_rate_falls_within_ten_pictures_and_rises_within_a_hundred() {
        let mut rate = LinkRate::new(LinkRate::FIRST_BPS);
        assert!(rate.wanted_bps().abs_diff(LinkRate::FIRST_BPS) <= 1);
        for _ in 0..100 {
            rate.handle_budget(budget(8_000_000), HORIZON);
        }
        assert!((6_600_000..=6_800_000).contains(&rate.wanted_bps()), "{}", rate.wanted_bps());
        for _ in 0..10 {
            rate.handle_budget(budget(1_000_000), HORIZON);
        }
        assert!((850_000..=1_100_000).contains(&rate.wanted_bps()), "{}", rate.wanted_bps());
    }

    #[test]
    fn no_budget_and_no_horizon_give_a_rate_all_the_same() {
        let mut rate = LinkRate::new(0);
        rate.handle_budget(0, Duration::ZERO);
        assert_eq!(rate.wanted_bps(), 0);
        rate.handle_budget(u64::MAX, Duration::ZERO);
        assert!(rate.wanted_bps() > 0);
    }
}
