//! What becomes of viewers that fall behind.

use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// What becomes of a viewer that falls behind the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlowPolicy {
    /// It is moved forward to the newest key frame; dropped when that would be more often than so many times within
    /// [`Moves::WINDOW`]. 0 is any number of times.
    Move {
        /// Moves within the window.
        max_moves: u16,
    },
    /// It is dropped.
    Drop,
}

impl Default for SlowPolicy {
    fn default() -> SlowPolicy {
        SlowPolicy::Move { max_moves: 0 }
    }
}

/// How often a viewer was moved lately. Takes no memory where that is not counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Moves(VecDeque<Time>);

impl Moves {
    /// The time over which moves are counted.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// The viewer has fallen behind. Returns whether it is moved; otherwise it is dropped.
    pub fn try_move(&mut self, policy: SlowPolicy, now: Time) -> bool {
        match policy {
            SlowPolicy::Drop => false,
            SlowPolicy::Move { max_moves: 0 } => true,
            SlowPolicy::Move { max_moves } => {
                while self.0.front().is_some_and(|&at| now.since(at) >= Self::WINDOW) {
                    self.0.pop_front();
                }
                let may = self.0.len() < usize::from(max_moves);
                if may {
                    self.0.push_back(now);
                }
                may
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_is_moved_always_never_or_so_often_a_minute() {
        let at = Time::from_millis;
        let mut moves = Moves::default();
        assert!((0..1000).all(|_| moves.try_move(SlowPolicy::default(), at(1))));
        assert!(moves.0.is_empty() && !moves.try_move(SlowPolicy::Drop, at(1)));
        let policy = SlowPolicy::Move { max_moves: 2 };
        assert!(moves.try_move(policy, at(1000)) && moves.try_move(policy, at(31_000)));
        assert!(!moves.try_move(policy, at(60_999)));
        // The first one is a minute old, the second is not.
        assert!(moves.try_move(policy, at(61_000)));
        assert!(!moves.try_move(policy, at(61_001)));
        assert!(moves.try_move(policy, at(91_000)) && !moves.try_move(policy, at(91_000)));
    }
}
