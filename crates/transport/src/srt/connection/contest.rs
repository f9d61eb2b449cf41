//! Whether a peer is still there, where another one asks for its place.
//!
//! A program that is killed says nothing, and its connection is given up after [`PEER_IDLE`](super::super::PEER_IDLE). When it has
//! been started again within that time it asks for what its dead connection still has. So the old peer is asked: it answers any full
//! acknowledgement (§3.2.4, §3.2.8), whether it sends or not.

use super::Connection;
use glassline_media::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A peer sends something at least once a second: one that is silent for so long, and does not answer, is gone.
const GONE: Duration = Duration::from_secs(1);
/// Its answer is waited for at least so long.
const ANSWERS_WITHIN: Duration = Duration::from_millis(200);
/// What comes so long after the question, while none of its answers does, shows a peer that does not answer such questions.
const MUTE_AFTER: Duration = Duration::from_millis(500);
/// A question that was asked before this is another contest's.
const CONTEST: Duration = Duration::from_secs(2);

/// A question whether the peer is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    /// For which caller.
    by: SocketAddr,
    asked: Time,
    /// The number of the first acknowledgement that asks.
    number: u32,
    is_answered: bool,
}

impl Contest {
    /// The peer has answered this acknowledgement. Other packets prove nothing: they may have been under way when it was killed.
    pub(super) fn handle_answer(&mut self, number: u32) {
        self.is_answered |= number.wrapping_sub(self.number) < u32::MAX / 2;
    }
}

/// Whether a peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has been heard since it was asked.
    There,
    /// It was asked, and may still answer: the one that wants its place has to ask again.
    Asked,
    /// It is gone: it does not answer, or has ended the connection itself.
    Gone,
}

impl Connection {
    /// When anything came last.
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// A caller at the address `by` asks for the peer's place: the peer is asked whether it is there. To be called again, a moment
    /// later, until that is known. What it has to say leaves with the next [`Connection::poll_transmit`].
    pub fn contest(&mut self, by: SocketAddr, now: Time) -> Life {
        if self.ended.is_some() {
            return Life::Gone;
        }
        let is_same = |contest: &Contest| contest.by == by && now.since(contest.asked) < CONTEST;
        let Some(contest) = self.contest.filter(is_same) else {
            self.send_ack(now);
            self.contest = Some(Contest { by, asked: now, number: self.acks.number, is_answered: false });
            return Life::Asked;
        };
        if contest.is_answered || self.heard >= contest.asked + MUTE_AFTER {
            self.contest = None;
            return Life::There;
        }
        let answers_within = (self.rtt.smoothed + self.rtt.variation * 4).clamp(ANSWERS_WITHIN, GONE);
        if now.since(self.heard) >= GONE && now.since(contest.asked) >= answers_within {
            return Life::Gone;
        }
        // The question, or the answer, may be lost.
        self.send_ack(now);
        Life::Asked
    }
}
