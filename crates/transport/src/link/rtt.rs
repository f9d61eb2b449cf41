//! The round-trip time of a path.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::received::{divided, max_delay};
use std::time::Duration;

/// Before a round trip was measured (RFC 9002 §6.2.2 takes 333 ms; links are shorter).
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// The round-trip time (RFC 9002 §5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) smoothed: Duration,
    pub(crate) variation: Duration,
    pub(crate) latest: Duration,
    pub(crate) least: Duration,
    measured: bool,
}

impl Rtt {
    /// Before anything was measured.
    pub(crate) fn new() -> Rtt {
        let smoothed = INITIAL_RTT;
        Rtt {
            smoothed,
            variation: divided(smoothed, 2),
            latest: smoothed,
            least: Duration::MAX,
            measured: false,
        }
    }

    pub(crate) fn update(&mut self, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        self.least = self.least.min(latest);
        if !self.measured {
            (self.smoothed, self.variation, self.measured) = (latest, divided(latest, 2), true);
            return;
        }
        let delay = ack_delay.min(max_delay(self.smoothed));
        let is_longer = latest >= self.least.saturating_add(delay);
        let adjusted = if is_longer { latest.saturating_sub(delay) } else { latest };
        let difference = self.smoothed.abs_diff(adjusted);
        self.variation = divided(self.variation.saturating_mul(3).saturating_add(difference), 4);
        self.smoothed = divided(self.smoothed.saturating_mul(7).saturating_add(adjusted), 8);
    }
}
