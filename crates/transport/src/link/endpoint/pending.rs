//! Handshakes that are under way at either end, and paths that another process has replaced.

use super::PeerId;
use crate::link::secure::noise::Handshake;
use crate::link::state::path::PathState;
use crate::link::wire::packet::ConnectionId;
use crate::link::{CloseCode, Ecn, Path, Transmit};
use glassline_media::Time;
use std::time::Duration;

/// The longest that an answer to a Connect is waited for before the next one.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Our attempt to connect.
pub(super) struct Attempt {
    pub(super) handshake: Handshake,
    pub(super) noise: Vec<u8>,
    pub(super) local: ConnectionId,
    pub(super) path: Path,
    pub(super) datagram: Vec<u8>,
    pub(super) next_at: Time,
    pub(super) wait: Duration,
    pub(super) gives_up: Time,
    pub(super) sent_at: Option<Time>,
    pub(super) sent: u32,
    pub(super) retries: u32,
}

impl Attempt {
    pub(super) fn next_timeout(&self) -> Time {
        self.next_at.min(self.gives_up)
    }

    pub(super) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.next_at > now {
            return None;
        }
        self.next_at = now + self.wait;
        self.wait = self.wait.saturating_mul(2).min(LAST_WAIT);
        self.sent_at = Some(now);
        self.sent = self.sent.saturating_add(1);
        out.extend_from_slice(&self.datagram);
        Some(Transmit { path: self.path, bytes: out.len(), segment_bytes: out.len(), ecn: Ecn::NotCapable })
    }
}

/// A peer's handshake that we have answered.
pub(super) struct Pending {
    /// The path that it gives; none where the peer is refused.
    pub(super) path_state: Option<PathState>,
    pub(super) path: Path,
    pub(super) noise: Vec<u8>,
    pub(super) accept: Vec<u8>,
    pub(super) peer: PeerId,
    /// Its Connect bore a good token: it is where it says that it is.
    pub(super) is_proven: bool,
    pub(super) expires: Time,
    pub(super) answered_at: Time,
    pub(super) answers: u32,
}

/// A path that another process of the same peer has replaced.
pub(super) struct Replaced {
    pub(super) path: PathState,
    pub(super) code: CloseCode,
    pub(super) expires: Time,
    pub(super) next_at: Time,
}
