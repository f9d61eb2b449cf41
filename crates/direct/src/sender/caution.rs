//! When pictures are coded against what the receiver is known to have alone: for a while after losses that came close to each other.

use glassline_media::Time;
use std::time::Duration;

/// Two losses within this time: the next are likely.
const LOSSES_WITHIN: Duration = Duration::from_secs(2);
/// For so long after them every picture is coded against one that the receiver has.
const CAUTION: Duration = Duration::from_secs(1);

/// Remembers the newest losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caution {
    newest_loss: Option<Time>,
    until: Time,
}

impl Caution {
    /// A picture is lost.
    pub(super) fn handle_loss(&mut self, now: Time) {
        if self.newest_loss.replace(now).is_some_and(|before| now.since(before) < LOSSES_WITHIN) {
            self.until = now + CAUTION;
        }
    }

    /// Whether the next picture is coded against what the receiver is known to have.
    pub(super) fn holds(&self, now: Time) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_losses_within_two_seconds_make_careful_for_one() {
        let mut caution = Caution::default();
        let mut lose = |at| {
            caution.handle_loss(Time::from_millis(at));
            [at, at + 999, at + 1_000].map(|at| caution.holds(Time::from_millis(at)))
        };
        assert_eq!(lose(1_000), [false; 3]);
        assert_eq!(lose(3_000), [false; 3]);
        assert_eq!(lose(4_999), [true, true, false]);
    }
}
