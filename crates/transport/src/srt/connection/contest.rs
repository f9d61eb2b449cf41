//! Whether a peer is still there, where another one asks for its place.
//!
//! A program that is killed says nothing, and its connection is given up after [`PEER_IDLE`](super::super::PEER_IDLE). When it has
//! been started again within that time it asks for what its dead connection still has. So the old peer is asked: it answers any full
//! acknowledgement (§3.2.4, §3.2.8), whether it sends or not.

use super::Connection;
use glassline_media::Time;
use std::time::Duration;

/// A peer sends something at least once a second: one that is silent for so long, and does not answer, is gone.
const GONE: Duration = Duration::from_secs(1);
/// Its answer is waited for at least so long.
const ANSWERS_WITHIN: Duration = Duration::from_millis(200);
/// A question that was asked before this is another contest's.
const CONTEST: Duration = Duration::from_secs(2);

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

    /// Another one asks for the peer's place: the peer is asked whether it is there. To be called again, a moment later, until that is
    /// known. What it has to say leaves with the next [`Connection::poll_transmit`].
    pub fn contest(&mut self, now: Time) -> Life {
        if self.ended.is_some() {
            return Life::Gone;
        }
        let Some(asked) = self.contested.filter(|asked| now.since(*asked) < CONTEST) else {
            self.contested = Some(now);
            self.send_ack(now);
            return Life::Asked;
        };
        if self.heard > asked {
            self.contested = None;
            return Life::There;
        }
        let answers_within = (self.rtt.smoothed + self.rtt.variation * 4).clamp(ANSWERS_WITHIN, GONE);
        if now.since(self.heard) >= GONE && now.since(asked) >= answers_within {
            return Life::Gone;
        }
        // The question, or the answer, may be lost.
        self.send_ack(now);
        Life::Asked
    }
}
