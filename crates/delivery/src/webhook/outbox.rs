//! What waits for one receiver.
//!
//! ```text
//! push ─► pending ── due, and the receiver not paused ──► in flight ── 2xx ──► delivered
//!           ▲  │                                             │
//!           │  └─ too old, or pushed out by newer ones       ├─ another answer: again, ever later ─┐
//!           │                                                └─ no answer: the receiver is paused ─┤
//!           └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! A message that a receiver answers with a failure does not hold up the others; a receiver that cannot be reached is left alone
//! for a growing pause, whatever waits. So messages may arrive in another order, and may arrive twice.

use super::Message;
use crate::backoff::Backoff;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How persistent an outbox is, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How often a message is tried.
    pub attempts: u32,
    /// The longest wait after a first failure; it doubles with each further one.
    pub retry_min: Duration,
    /// The longest wait after many.
    pub retry_max: Duration,
    /// A message that is older is not tried any more.
    pub keep: Duration,
    /// Messages that may wait; the oldest makes room for a newer one.
    pub max_messages: usize,
    /// Bytes that they may take together.
    pub max_bytes: usize,
}

impl Default for Policy {
    /// Ten attempts within about twenty minutes, as long as an alarm is news; an hour of waiting; 256 messages of 1 MiB together.
    fn default() -> Policy {
        Policy {
            attempts: 10,
            retry_min: Duration::from_secs(5),
            retry_max: Duration::from_secs(300),
            keep: Duration::from_secs(3600),
            max_messages: 256,
            max_bytes: 1 << 20,
        }
    }
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered.
    Answered {
        /// Its status.
        status: u16,
        /// How long it wants to be left alone (`Retry-After`, RFC 9110 §10.2.3).
        retry_after: Option<Duration>,
    },
    /// It did not: no connection, no answer in time, or no HTTP.
    Unanswered,
}

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has arrived.
    Delivered,
    /// It is tried again.
    Again {
        /// After so long, or later.
        wait: Duration,
    },
    /// It was tried often enough, and is gone.
    GivenUp,
    /// The receiver wants no messages any more (410): none goes there from here on.
    Closed,
}

/// What an outbox has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that the receiver took.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Messages that were tried in vain, became too old, or came after the receiver had closed.
    pub given_up: u64,
    /// Messages that made room for newer ones, or that were larger than the room.
    pub dropped: u64,
}

/// The messages for one receiver.
#[derive(Debug)]
pub struct Outbox {
    policy: Policy,
    /// In the order in which they came.
    pending: VecDeque<Pending>,
    in_flight: Option<Pending>,
    /// Bytes of all of them.
    bytes: usize,
    /// Of the receiver as a whole.
    backoff: Backoff,
    paused_until: Option<Time>,
    /// Where the randomness of the messages' waits comes from.
    seed: u64,
    is_closed: bool,
    counters: Counters,
}

#[derive(Debug)]
struct Pending {
    message: Message,
    came: Time,
    due: Time,
    attempts: u32,
    backoff: Backoff,
}

impl Outbox {
    /// An empty one. `seed` is where the randomness of its waits comes from; it need not be a secret.
    pub fn new(policy: Policy, seed: u64) -> Outbox {
        Outbox {
            policy,
            pending: VecDeque::new(),
            in_flight: None,
            bytes: 0,
            backoff: Backoff::new(policy.retry_min, policy.retry_max, seed),
            paused_until: None,
            seed,
            is_closed: false,
            counters: Counters::default(),
        }
    }

    /// Takes a message. Where there is no room the oldest that waits makes some.
    pub fn push(&mut self, message: Message, now: Time) {
        let weight = message.weight_bytes();
        if self.is_closed {
            self.counters.given_up = self.counters.given_up.saturating_add(1);
            return;
        }
        // Room is made by what waits alone.
        let (flying, flying_bytes) =
            self.in_flight.as_ref().map_or((0, 0), |flying| (1, flying.message.weight_bytes()));
        if weight > self.policy.max_bytes.saturating_sub(flying_bytes) || self.policy.max_messages <= flying {
            self.counters.dropped = self.counters.dropped.saturating_add(1);
            return;
        }
        while self.len() >= self.policy.max_messages
            || self.bytes.saturating_add(weight) > self.policy.max_bytes
        {
            let Some(oldest) = self.pending.pop_front() else { break };
            self.forget(&oldest);
            self.counters.dropped = self.counters.dropped.saturating_add(1);
        }
        self.seed = self.seed.wrapping_add(1);
        let backoff = Backoff::new(self.policy.retry_min, self.policy.retry_max, self.seed);
        self.bytes = self.bytes.saturating_add(weight);
        self.pending.push_back(Pending { message, came: now, due: now, attempts: 0, backoff });
    }

    /// Messages that wait or are in flight.
    pub fn len(&self) -> usize {
        self.pending.len().saturating_add(usize::from(self.in_flight.is_some()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn forget(&mut self, pending: &Pending) {
        self.bytes = self.bytes.saturating_sub(pending.message.weight_bytes());
    }

    /// The message to send now; `None` where none is due, or one is in flight. [`Outbox::handle_outcome`] has to follow.
    pub fn poll_attempt(&mut self, now: Time) -> Option<Message> {
        if self.in_flight.is_some() {
            return None;
        }
        self.give_up_old(now);
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        let index = self.pending.iter().position(|pending| pending.due <= now)?;
        let mut pending = self.pending.remove(index)?;
        pending.attempts = pending.attempts.saturating_add(1);
        let message = pending.message.clone();
        self.in_flight = Some(pending);
        Some(message)
    }

    /// When [`Outbox::poll_attempt`] should be asked again, if nothing is pushed before; `None` where nothing waits or
    /// a message is in flight. Changed by every call with `&mut self`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.in_flight.is_some() {
            return None;
        }
        let due = self.pending.iter().map(|pending| pending.due).min()?;
        let due = self.paused_until.map_or(due, |until| due.max(until));
        // One that becomes too old meanwhile is let go of in time.
        let oldest = self.pending.iter().map(|pending| pending.came + self.policy.keep).min()?;
        Some(due.min(oldest))
    }

    fn give_up_old(&mut self, now: Time) {
        let keep = self.policy.keep;
        let (mut kept, mut gone_bytes, mut gone) = (VecDeque::new(), 0_usize, 0_u64);
        for pending in self.pending.drain(..) {
            if pending.came + keep <= now {
                gone_bytes = gone_bytes.saturating_add(pending.message.weight_bytes());
                gone = gone.saturating_add(1);
            } else {
                kept.push_back(pending);
            }
        }
        self.pending = kept;
        self.bytes = self.bytes.saturating_sub(gone_bytes);
        self.counters.given_up = self.counters.given_up.saturating_add(gone);
    }

    /// Says what came of the attempt that [`Outbox::poll_attempt`] gave. Without one nothing happens, and the verdict is
    /// [`Verdict::GivenUp`].
    pub fn handle_outcome(&mut self, outcome: Outcome, now: Time) -> Verdict {
        let Some(mut pending) = self.in_flight.take() else { return Verdict::GivenUp };
        if let Outcome::Answered { status: 200..300, .. } = outcome {
            self.forget(&pending);
            self.counters.delivered = self.counters.delivered.saturating_add(1);
            self.backoff.reset();
            self.paused_until = None;
            return Verdict::Delivered;
        }
        self.counters.failed_attempts = self.counters.failed_attempts.saturating_add(1);
        if let Outcome::Answered { status: 410, .. } = outcome {
            return self.close();
        }
        let mut wait = pending.backoff.fail();
        match outcome {
            // The receiver or what stands before it is overloaded, or asks for a pause; no message helps there.
            Outcome::Answered { status, retry_after }
                if retry_after.is_some() || matches!(status, 429 | 502 | 503 | 504) =>
            {
                let pause =
                    retry_after.unwrap_or_default().min(self.policy.retry_max).max(self.backoff.fail());
                wait = wait.max(pause);
                self.paused_until = Some(now + pause);
            }
            Outcome::Answered { .. } => {
                self.backoff.reset();
                self.paused_until = None;
            }
            Outcome::Unanswered => self.paused_until = Some(now + self.backoff.fail()),
        }
        if pending.attempts >= self.policy.attempts {
            self.forget(&pending);
            self.counters.given_up = self.counters.given_up.saturating_add(1);
            return Verdict::GivenUp;
        }
        pending.due = now + wait;
        // By its age, so that it is still the first to make room.
        let index = self.pending.iter().position(|other| other.came > pending.came);
        self.pending.insert(index.unwrap_or(self.pending.len()), pending);
        Verdict::Again { wait }
    }

    fn close(&mut self) -> Verdict {
        // The one in flight is among those that are given up.
        let gone = u64::try_from(self.pending.len()).unwrap_or(u64::MAX).saturating_add(1);
        self.counters.given_up = self.counters.given_up.saturating_add(gone);
        self.pending.clear();
        (self.bytes, self.is_closed) = (0, true);
        Verdict::Closed
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
