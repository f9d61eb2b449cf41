//! How far a path changes the order of packets.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::received::divided;
use super::rtt::Rtt;
use std::time::Duration;

/// Packets that must be acknowledged after one for it to be lost (RFC 9002 §6.1.1), on a path that keeps their order,
pub(crate) const PACKET_THRESHOLD: u64 = 3;
/// and on one that has been seen to change it, at most.
pub(crate) const PACKET_THRESHOLD_MAX: u64 = 64;
/// After so many losses in a row that were none of order, the path keeps it (RFC 8985 §6.2 step 4).
pub(crate) const ORDERLY_LOSSES: u32 = 16;

/// By how much a path changes the order of packets, learned from those that were deemed lost and came late (as RACK's window,
/// RFC 8985 §6.2 step 4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordering {
    /// Packets that must be acknowledged after one for it to be lost.
    pub(crate) packets: u64,
    /// How much longer than usual one is waited for.
    pub(crate) time: Duration,
    /// Times that something was deemed lost since one came late.
    losses: u32,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering { packets: PACKET_THRESHOLD, time: Duration::ZERO, losses: 0 }
    }
}

impl Reordering {
    /// A packet that was deemed lost came after as many as `behind` later ones.
    pub(crate) fn handle_late(&mut self, behind: u64, rtt: &Rtt) {
        self.packets = self.packets.max(behind.saturating_add(1)).min(PACKET_THRESHOLD_MAX);
        let more = divided(rtt.least.min(rtt.smoothed), 4);
        self.time = self.time.saturating_add(more).min(rtt.smoothed);
        self.losses = 0;
    }

    /// Something was deemed lost.
    pub(crate) fn handle_loss(&mut self) {
        self.losses = self.losses.saturating_add(1);
        if self.losses >= ORDERLY_LOSSES {
            *self = Reordering::default();
        }
    }
}
