//! Whether others fill the queue, and whether they are gone: less is sent for two round trips, and the queue tells.

use super::competition::Competition;
use super::cubic::Cubic;
use super::{Capacity, Feedback, Mode, Round, Shared, TARGET, Trial};
use glassline_media::Time;
use std::time::Duration;

/// Round trips of a queue that stands, after which a trial shows whether other flows fill it; twice as many after each
/// trial that found none,
pub(super) const FIRST_TRIAL: u32 = 8;
/// and so many at most.
const LAST_TRIAL: u32 = 256;
/// A trial that seems to have found others is made once more, so many round trips of a standing queue later: a path that became slower
/// while it went on looks the same.
const AGAIN_AFTER: u32 = 2;
/// For how many round trips half the rate is tried.
const TRIAL_ROUNDS: u32 = 2;
/// How long competition goes on before a trial without.
pub(super) const TRIAL_AFTER: Duration = Duration::from_secs(5);
/// The same, where trials have found others again and again.
const LAST_TRIAL_AFTER: Duration = Duration::from_secs(20);
/// A longer queue than this is looked into, however slow the path is by what is known.
const KEPT: Duration = Duration::from_millis(14);
/// After so many rounds with a short queue no other flow fills it.
const ROOMY: u32 = 4;
/// How long it is remembered how wide the path was.
const WIDEST_LASTS: Duration = Duration::from_secs(60);
/// Once competition is over, a bandwidth below this share of the earlier one while a queue stands means that other
/// flows have come back.
const DISPLACED: f64 = 0.75;

impl Capacity {
    /// Whether less is sent than might be, to see what becomes of the queue.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some_and(|trial| trial.rounds < TRIAL_ROUNDS)
    }

    /// Whether the others are gone: the queue is short, or it becomes so at half our rate.
    pub(super) fn look_for_nobody(&mut self, now: Time, round: &Round, feedback: &Feedback, least: f64) {
        if let Some(competition) = &mut self.competition {
            competition.end_round(now, round, feedback, self.loss_share);
        }
        let since = now - self.mode_since;
        // A short queue also empties when all flows lose packets at once: an empty queue alone does not show that the
        // others are gone.
        let mut alone = self.roomy_rounds >= ROOMY && since > TRIAL_AFTER;
        if let Some(trial) = &mut self.trial {
            trial.rounds += 1;
            if trial.rounds <= TRIAL_ROUNDS {
                return;
            }
            // Half the window is in flight: if all the queue were ours, this would be its delay.
            let least_rtt = feedback.least_rtt.min(feedback.rtt).as_secs_f64();
            let own = ((trial.queue - least_rtt) / 2.0).max(0.0);
            alone |= least < own + TARGET.as_secs_f64().max((trial.queue - own) / 8.0);
            self.trial = None;
            self.mode_since = now;
            self.trial_gap = (self.trial_gap * 2).min(LAST_TRIAL_AFTER);
        } else if !alone && since > self.trial_gap && !round.idle {
            self.trial = Some(Trial { rounds: 0, queue: least });
        }
        if alone {
            let bandwidth = self.bandwidth;
            let shared = |competition| Shared { ended: now, competition, bandwidth };
            self.shared = self.competition.take().map(shared);
            self.enter(Mode::Delay, now);
            self.trial_after = FIRST_TRIAL / 2;
        }
    }

    /// Notes the widest that the path was lately.
    pub(super) fn note_widest(&mut self, now: Time) {
        if self.bandwidth >= self.widest.0 || now - self.widest.1 > WIDEST_LASTS {
            self.widest = (self.bandwidth, now);
        }
    }

    /// Whether other flows fill the queue: it stands, and at half our rate it stands as well.
    pub(super) fn look_for_others(&mut self, now: Time, round: &Round, feedback: &Feedback, least: f64) {
        let usual = TARGET.as_secs_f64();
        // What is kept of a queue on a slow path is no reason for a trial, which costs an application its quality.
        let kept = if feedback.wants_more { self.target().min(KEPT.as_secs_f64()) } else { usual };
        // Neither is the time that one packet takes on it by itself. A rate that others have pressed down says nothing of that.
        let alone = self.packet as f64 / self.widest.0.max(self.bandwidth);
        let long = 1.5 * usual.max(kept).max(alone);
        self.shared.take_if(|shared| now - shared.ended >= TRIAL_AFTER * 2);
        // Some flows that fill a queue beside ours hardly have one alone (BBR): the share that they take shows them.
        let displaced =
            self.shared.as_ref().is_some_and(|before| self.bandwidth < DISPLACED * before.bandwidth);
        if displaced && self.queue > TARGET && !round.idle {
            return self.compete(now, feedback);
        }
        let Some(trial) = &mut self.trial else {
            let stands = least > long && !round.idle;
            self.standing_rounds =
                if stands { self.standing_rounds + 1 } else { self.standing_rounds.saturating_sub(2) };
            self.suspects_others &= self.standing_rounds > 0;
            if self.standing_rounds >= self.trial_after {
                self.trial = Some(Trial { rounds: 0, queue: least });
            }
            return;
        };
        trial.rounds += 1;
        if trial.rounds == TRIAL_ROUNDS + 1 && !round.idle && least > long.max(0.6 * trial.queue) {
            // Those that were there lately are known.
            if std::mem::replace(&mut self.suspects_others, true) || self.shared.is_some() {
                self.compete(now, feedback);
            } else {
                self.trial = None;
                self.standing_rounds = self.trial_after.saturating_sub(AGAIN_AFTER);
            }
        } else if trial.rounds > TRIAL_ROUNDS + 1 {
            (self.trial, self.shared, self.suspects_others) = (None, None, false);
            self.standing_rounds = 0;
            self.trial_after = (self.trial_after * 2).min(LAST_TRIAL);
        }
    }

    fn compete(&mut self, now: Time, feedback: &Feedback) {
        let window = (self.bandwidth * feedback.rtt.as_secs_f64()).max(4.0 * self.packet as f64);
        (self.competition, self.trial_gap) = match self.shared.take() {
            Some(before) => (Some(before.competition), (self.trial_gap * 2).min(LAST_TRIAL_AFTER)),
            None => {
                let cubic = Cubic::starting(now, window * 1.2, self.packet);
                (Some(Competition::new(cubic)), TRIAL_AFTER)
            }
        };
        self.enter(Mode::Competitive, now);
    }
}
