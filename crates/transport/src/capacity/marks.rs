//! What marks of routers make of the rate.
//!
//! Routers of L4S mark as soon as their queue begins to grow: what counts is the share that is marked, and the answer
//! is DCTCP's (RFC 8257 §3.3): a round trip with marks lowers the rate by half of the smoothed share, one without
//! raises it by a packet. Other routers mark where they would otherwise drop: a round trip with marks, however many,
//! counts as one with losses does for a loss-based controller (RFC 8511).

use super::{LEAST_RATE, Round};

/// The weight of a new round trip in the smoothed share (RFC 8257 §4.2).
const WEIGHT: f64 = 1.0 / 16.0;
/// Below this share the marks are over, and the delay alone decides.
const OVER: f64 = 0.01;
/// After each so many round trips without marks the rate rises twice as fast,
const STEP: u32 = 8;
/// up to so many times.
const LAST_STEP: u32 = 4;
/// By this factor it may be above what the path is known to carry: it is not what limits then.
const MOST: f64 = 1.25;
/// By how much marks of a router that is not of L4S lower the rate.
const CLASSIC: f64 = 0.15;

/// How the rate answers to marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// The smoothed share of packets that are marked (DCTCP's α); 0 while there are no marks.
    share: f64,
    /// At how many bytes a second packets may leave, while there are marks.
    rate: Option<f64>,
    /// It was lowered a round trip ago: what is acknowledged now was sent before.
    lowered: bool,
    /// Consecutive round trips without marks.
    clear_rounds: u32,
}

impl Marks {
    /// Whether marks limit the rate now. Then the delivery rate counts as the path's capacity, however short the queue.
    pub(super) fn are_heeded(&self) -> bool {
        self.rate.is_some()
    }

    /// A round trip of `rtt` seconds with packets of `packet` bytes is over, on a path that is known to carry `bandwidth`
    /// bytes a second.
    pub(super) fn end_round(&mut self, round: &Round, packet: f64, rtt: f64, bandwidth: f64) {
        if round.marked == 0 && self.share == 0.0 {
            return;
        }
        let packets = (round.acked as f64 / packet).max(round.marked as f64).max(1.0);
        let share = round.marked as f64 / packets;
        // What is marked first tells more than nothing.
        self.share = if self.share == 0.0 { share } else { self.share + WEIGHT * (share - self.share) };
        self.clear_rounds = if round.marked > 0 { 0 } else { self.clear_rounds + 1 };
        if self.share < OVER && round.marked == 0 {
            *self = Marks::default();
        } else if std::mem::take(&mut self.lowered) {
            // Marks of packets that left before are answered already.
        } else if round.marked > 0 {
            self.lowered = true;
            let less = if round.scalable { self.share / 2.0 } else { CLASSIC };
            let before = self.rate.unwrap_or(if round.last_rate > 0.0 { round.last_rate } else { bandwidth });
            self.rate = Some((before * (1.0 - less)).max(LEAST_RATE));
        } else if let Some(rate) = self.rate.as_mut().filter(|_| !round.app_limited) {
            let more = packet / rtt * f64::from(1 << (self.clear_rounds / STEP).min(LAST_STEP));
            *rate = (*rate + more).min(MOST * bandwidth).max(*rate);
        }
    }

    /// What marks leave of `rate`, bytes a second.
    pub(super) fn limit(&self, rate: f64) -> f64 {
        self.rate.map_or(rate, |most| rate.min(most))
    }
}
