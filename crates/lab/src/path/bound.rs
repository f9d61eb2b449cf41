//! The bound on what an end sends: the mean over any second, whatever the bursts within it.

use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);
/// What is sent within this time is kept as one, at its last time: so the list stays short.
const GRAIN: Duration = Duration::from_micros(500);
/// The share of the bound that trains leave to other messages: one of this.
const CONTROL_SHARE: u64 = 16;

/// What was sent within [`GRAIN`].
#[derive(Clone, Copy, Debug)]
struct Sending {
    first: Time,
    last: Time,
    bytes: u64,
}

/// Counts what was sent in the last second, and says when more may be. What it allows never exceeds its bound in any second.
#[derive(Clone, Debug)]
pub struct RateBound {
    window_bytes: u64,
    /// What was sent, the oldest first.
    sent: VecDeque<Sending>,
    /// Bytes that a train which has begun still sends.
    reserved_bytes: u64,
}

impl RateBound {
    /// A bound in bits of IP packets a second.
    pub fn new(bits_per_second: u64) -> RateBound {
        RateBound { window_bytes: bits_per_second / 8, sent: VecDeque::new(), reserved_bytes: 0 }
    }

    /// The bytes of the longest train that it ever allows to be sent back to back.
    pub fn longest_train_bytes(&self) -> u64 {
        self.window_bytes - self.window_bytes / CONTROL_SHARE
    }

    /// When a train of `bytes` may begin, which is then sent within a second; `None` if never.
    #[must_use]
    pub fn train_at(&self, now: Time, bytes: u64) -> Option<Time> {
        self.room_at(now, bytes, self.longest_train_bytes())
    }

    /// Whether a single message of `bytes` may be sent now.
    #[must_use]
    pub fn allows(&self, now: Time, bytes: u64) -> bool {
        self.room_at(now, bytes, self.window_bytes).is_some_and(|at| at <= now)
    }

    fn room_at(&self, now: Time, bytes: u64, limit: u64) -> Option<Time> {
        let wanted = bytes.saturating_add(self.reserved_bytes);
        if wanted > limit {
            return None;
        }
        let current = |sending: &&Sending| now.since(sending.last) < WINDOW;
        let sum: u64 = self.sent.iter().filter(current).map(|sending| sending.bytes).sum();
        let mut excess = (sum + wanted).saturating_sub(limit);
        let mut at = now;
        for sending in self.sent.iter().filter(current) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(sending.bytes);
            at = sending.last + WINDOW;
        }
        Some(at.max(now))
    }

    /// A train begins, of which so many bytes are still to be sent.
    pub fn reserve(&mut self, bytes: u64) {
        self.reserved_bytes = bytes;
    }

    /// `bytes` were sent, of a train if `is_train`.
    pub fn note(&mut self, now: Time, bytes: u64, is_train: bool) {
        while self.sent.front().is_some_and(|oldest| now.since(oldest.last) >= WINDOW) {
            self.sent.pop_front();
        }
        if is_train {
            self.reserved_bytes = self.reserved_bytes.saturating_sub(bytes);
        }
        match self.sent.back_mut() {
            Some(newest) if now.since(newest.first) < GRAIN => {
                (newest.last, newest.bytes) = (now, newest.bytes + bytes);
            }
            _ => self.sent.push_back(Sending { first: now, last: now, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_train_waits_until_the_second_before_it_has_room() {
        let mut bound = RateBound::new(8_000_000);
        let at = Time::from_millis;
        assert_eq!(bound.longest_train_bytes(), 937_500);
        assert_eq!(bound.train_at(at(0), 937_501), None);
        assert_eq!(bound.train_at(at(0), 900_000), Some(at(0)));
        bound.reserve(900_000);
        assert!(!bound.allows(at(0), 100_001), "what a train still sends is taken");
        assert!(bound.allows(at(0), 100_000));
        bound.note(at(0), 500_000, true);
        bound.note(at(300), 400_000, true);
        assert_eq!(bound.train_at(at(400), 30_000), Some(at(400)));
        assert_eq!(bound.train_at(at(400), 500_000), Some(at(1000)));
        assert_eq!(bound.train_at(at(400), 937_500), Some(at(1300)));
    }

    proptest! {
        #[test]
        fn no_second_ever_has_more_than_the_bound(
            steps in prop::collection::vec((0u64..300_000, 1u64..200_000, any::<bool>()), 1..200)
        ) {
            let (mut bound, mut now, mut log) = (RateBound::new(1_600_000), Time::ZERO, Vec::new());
            for (micros, bytes, is_train) in steps {
                now += Duration::from_micros(micros);
                if is_train {
                    if let Some(at) = bound.train_at(now, bytes) {
                        now = at;
                        bound.reserve(bytes);
                        // In two parts, with another message in between if it is allowed.
                        bound.note(now, bytes / 2, true);
                        log.push((now, bytes / 2));
                        if bound.allows(now, 5_000) {
                            bound.note(now, 5_000, false);
                            log.push((now, 5_000));
                        }
                        bound.note(now, bytes - bytes / 2, true);
                        log.push((now, bytes - bytes / 2));
                    }
                } else if bound.allows(now, bytes) {
                    bound.note(now, bytes, false);
                    log.push((now, bytes));
                }
            }
            for (end, _) in &log {
                let within = log.iter().filter(|(at, _)| at <= end && end.since(*at) < WINDOW);
                prop_assert!(within.map(|(_, bytes)| bytes).sum::<u64>() <= 200_000);
            }
        }
    }
}
