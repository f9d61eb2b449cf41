//! What the other codec's pictures could take of the line: as much as ours leave, and what ours take.
//!
//! Budgets follow from what was sent before, so another codec has others. A line that carries `rate` bytes a second and has `queued`
//! bytes under way takes `rate * horizon - queued` within a horizon. From the budgets that our pictures have had follows the rate,
//! and from that the budgets of the others.

use glassline_media::Time;
use std::time::Duration;

/// The line with our pictures on it, and in thought with those of the other codec.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SharedLine {
    bytes_per_second: f64,
    /// Bytes that are under way of ours, and of the others.
    ours: f64,
    theirs: f64,
    /// When that was so.
    at: Option<Time>,
}

impl SharedLine {
    /// At `now` our picture could take `budget` bytes within `horizon`.
    pub(super) fn note(&mut self, now: Time, budget: u64, horizon: Duration) {
        let left = self.at.map_or(0.0, |at| now.since(at).as_secs_f64()) * self.bytes_per_second;
        (self.ours, self.theirs) = ((self.ours - left).max(0.0), (self.theirs - left).max(0.0));
        self.bytes_per_second = (budget as f64 + self.ours) / horizon.as_secs_f64().max(1e-6);
        self.at = Some(now);
    }

    /// What a picture of the other codec could take within `horizon`, bytes.
    pub(super) fn their_budget(&self, horizon: Duration) -> u64 {
        (self.bytes_per_second * horizon.as_secs_f64() - self.theirs).max(0.0) as u64
    }

    /// When our last picture was decided on.
    pub(super) fn at(&self) -> Option<Time> {
        self.at
    }

    /// Both have sent a picture of so many bytes, or none.
    pub(super) fn sent(&mut self, ours: usize, theirs: usize) {
        self.ours += ours as f64;
        self.theirs += theirs as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sends_more_than_the_line_carries_has_less_for_the_next_picture() {
        let mut line = SharedLine::default();
        let horizon = Duration::from_millis(40);
        let (mut ours_under_way, mut theirs) = (0u64, Vec::new());
        for number in 0..20 {
            // 100 bytes a millisecond; ours take half of that.
            line.note(Time::from_millis(33 * number), 4_000 - ours_under_way, horizon);
            let budget = line.their_budget(horizon);
            line.sent(1_650, budget as usize);
            ours_under_way = 0;
            theirs.push(budget);
        }
        assert_eq!(theirs[0], 4_000, "nothing is under way");
        // What is taken within 40 ms has not left after 33.
        assert!(theirs[1..].iter().all(|budget| (3_290..=3_310).contains(budget)), "{theirs:?}");
        let sum: u64 = theirs[10..].iter().sum();
        assert!(sum <= 33_100, "no more than the line carries: {sum}");
    }

    #[test]
    fn a_line_that_carries_nothing_has_no_budget() {
        let mut line = SharedLine::default();
        line.note(Time::ZERO, 0, Duration::ZERO);
        assert_eq!(line.their_budget(Duration::from_millis(40)), 0);
        line.sent(0, 5_000);
        line.note(Time::from_millis(33), 2_000, Duration::from_millis(40));
        assert_eq!(line.their_budget(Duration::from_millis(40)), 0, "5,000 bytes are under way");
    }
}
