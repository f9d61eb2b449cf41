//! How a link holds its share of the path among other flows that fill the queue.
//!
//! Beside flows that slow down at losses (CUBIC, Reno) the window grows and falls as CUBIC's does. If losses come again
//! and again soon after the window was lowered, the other flows do not react to losses (BBR), and a flow that does is
//! starved. Then the link holds the rate that it was seen to get, as BBR does: a window of twice the bandwidth-delay
//! product of the fastest of some rounds, with a probe for more every eight round trips, until there are no losses for
//! a while.

use glassline_media::Time;

use super::cubic::Cubic;
use super::{Feedback, LEAST_RATE, Round};

/// Losses that come sooner after those before than this, round trips, are early:
const EARLY: u32 = 16;
/// so many in a row mean that another flow does not react to losses.
const DEAF: u32 = 3;
/// With a larger share of losses than this we give way all the same,
const TOLERABLE: f64 = 0.2;
/// by this factor each round trip.
const EASED: f64 = 0.9;
/// After so many round trips without losses a link that holds its share reacts to losses again.
const QUIET_ROUNDS: u32 = 24;
/// The window grows for an application with pauses while so much of it is under way.
const USED: f64 = 0.5;
/// For how many rounds the fastest rate counts.
const MEMORY: usize = 10;
/// The gains of the rate, a least round trip each: a probe for more, the queue of the probe drained, and the rest.
const GAINS: [f64; 8] = [1.25, 0.75, 1.05, 1.05, 1.05, 1.05, 1.05, 1.05];

/// A share of the path among others.
#[derive(Clone, Debug)]
pub(super) struct Competition {
    cubic: Cubic,
    /// While others do not listen to losses.
    firm: Option<Firm>,
    /// When the window was last lowered for losses, and how many times in a row that was early.
    lost_at: Option<Time>,
    early: u32,
    /// The fastest rate since losses began to come early.
    best: f64,
}

/// Holds what it was seen to get.
#[derive(Clone, Copy, Debug)]
struct Firm {
    rates: [f64; MEMORY],
    newest: usize,
    step: usize,
    step_since: Time,
    quiet_rounds: u32,
}

impl Firm {
    fn new(now: Time, rate: f64) -> Firm {
        Firm { rates: [rate; MEMORY], newest: 0, step: 0, step_since: now, quiet_rounds: 0 }
    }

    fn bandwidth(&self) -> f64 {
        self.rates.iter().copied().fold(LEAST_RATE, f64::max)
    }
}

impl Competition {
    pub(super) fn new(cubic: Cubic) -> Competition {
        Competition { cubic, firm: None, lost_at: None, best: 0.0, early: 0 }
    }

    /// Takes what an acknowledgement told.
    pub(super) fn handle_feedback(&mut self, now: Time, feedback: &Feedback) {
        let rate = feedback.rate.unwrap_or_default().bytes_per_second() as f64;
        if let Some(firm) = &mut self.firm {
            firm.rates[firm.newest] = firm.rates[firm.newest].max(rate);
            let since = now - firm.step_since;
            if since >= feedback.least_rtt.min(feedback.rtt) {
                (firm.step, firm.step_since) = ((firm.step + 1) % GAINS.len(), now);
            }
            return;
        }
        self.best = self.best.max(rate);
        if feedback.lost_bytes > 0 {
            self.handle_lost(now, feedback);
        } else if !feedback.app_limited || feedback.wants_more && self.is_used(feedback) {
            self.cubic.handle_acked(now, feedback.acked_bytes, feedback.rtt);
        }
    }

    /// Whether about as much is under way as may be (RFC 9002 §7.8).
    fn is_used(&self, feedback: &Feedback) -> bool {
        let under_way = (feedback.in_flight + feedback.acked_bytes) as f64;
        under_way >= USED * self.cubic.window_bytes()
    }

    fn handle_lost(&mut self, now: Time, feedback: &Feedback) {
        let starting = self.cubic.is_starting();
        if !self.cubic.handle_lost(now, feedback.sent_at.or(feedback.lost_sent_at).unwrap_or(now)) {
            return;
        }
        let soon = self.lost_at.is_some_and(|before| now - before < feedback.rtt * EARLY);
        self.lost_at = Some(now);
        if !soon || starting {
            (self.early, self.best) = (0, feedback.rate.unwrap_or_default().bytes_per_second() as f64);
            return;
        }
        self.early += 1;
        // Pictures are bursts, which find a queue full now and then that others hardly fill.
        let in_bursts = feedback.pausing || feedback.wants_more;
        if self.early >= DEAF && !in_bursts {
            self.early = 0;
            self.firm = Some(Firm::new(now, self.best));
        }
    }

    /// A router has marked packets. Other flows get such marks too and may react to them: so the link gives up its held
    /// share, and its window falls as at a loss.
    pub(super) fn handle_congestion_mark(&mut self, now: Time, feedback: &Feedback) {
        if self.firm.is_some() {
            self.listen(now, feedback);
        }
        self.cubic.handle_lost(now, feedback.sent_at.unwrap_or(now));
    }

    fn listen(&mut self, now: Time, feedback: &Feedback) {
        let window = self.window(feedback).min(feedback.in_flight.max(1) as f64);
        self.cubic = self.cubic.again(now, window);
        (self.firm, self.early, self.lost_at) = (None, 0, None);
    }

    /// A round trip is over; `loss_share` is the share that was lost in some of them.
    pub(super) fn end_round(&mut self, now: Time, round: &Round, feedback: &Feedback, loss_share: f64) {
        let Some(firm) = &mut self.firm else { return };
        firm.newest = (firm.newest + 1) % MEMORY;
        firm.rates[firm.newest] = 0.0;
        if loss_share > TOLERABLE {
            firm.rates.iter_mut().for_each(|rate| *rate *= EASED);
        }
        firm.quiet_rounds = if round.lost > 0 { 0 } else { firm.quiet_rounds + 1 };
        if firm.quiet_rounds >= QUIET_ROUNDS {
            self.listen(now, feedback);
        }
    }

    /// How many bytes may be under way.
    pub(super) fn window(&self, feedback: &Feedback) -> f64 {
        let Some(firm) = &self.firm else { return self.cubic.window_bytes() };
        let rtt = feedback.least_rtt.min(feedback.rtt).as_secs_f64();
        2.0 * firm.bandwidth() * rtt + 6.0 * self.cubic.packet_bytes()
    }

    /// At how many bytes a second packets leave.
    pub(super) fn rate(&self, feedback: &Feedback) -> f64 {
        match &self.firm {
            Some(firm) => firm.bandwidth() * GAINS[firm.step],
            None => 1.1 * self.cubic.window_bytes() / feedback.rtt.as_secs_f64().max(0.0005),
        }
    }
}
