//! The peers that a session has now.

use super::peer::Peer;
use bytes::Bytes;
use glassline_media::Utc;
use glassline_transport::link::{CloseCode, Error as LinkError, LinkId};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// While a queue is full it is looked this often whether its peer is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The peers, and a wait for the first one.
#[derive(Default)]
pub(super) struct Peers {
    state: Mutex<State>,
    /// A peer was added, or the session is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    peers: Vec<Arc<Peer>>,
    is_over: bool,
}

impl Peers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().peers.clone()
    }

    pub(super) fn add(&self, peer: Arc<Peer>) {
        self.lock().peers.push(peer);
        self.changed.notify_all();
    }

    pub(super) fn remove(&self, id: LinkId) -> Option<Arc<Peer>> {
        let peers = &mut self.lock().peers;
        let index = peers.iter().position(|peer| peer.id() == id)?;
        Some(peers.remove(index))
    }

    /// No peer will come any more: threads that wait for one give up.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Sends a message that was read at `stamp` to all peers; waits for the first one. `false`: the session is over.
    ///
    /// # Errors
    /// The channel does not take such a message.
    pub(super) fn send(&self, channel: u8, message: &Bytes, stamp: Utc) -> Result<bool, LinkError> {
        loop {
            let Some(peers) = self.wait() else { return Ok(false) };
            let mut sent = false;
            for peer in &peers {
                match self.send_to(peer, channel, message, stamp) {
                    Ok(()) => sent = true,
                    // Its end is told otherwise.
                    Err(LinkError::Closed) => {}
                    Err(_) if peer.link.has_ended() => {}
                    Err(error) => return Err(error),
                }
            }
            if sent {
                return Ok(true);
            }
        }
    }

    /// The peers, once there is one with a link that has not ended. `None`: the session is over.
    fn wait(&self) -> Option<Vec<Arc<Peer>>> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if state.peers.iter().any(|peer| !peer.link.has_ended()) {
                return Some(state.peers.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends a message to a peer, and waits for room: not for that of one that is away while others are there.
    fn send_to(&self, peer: &Peer, channel: u8, message: &Bytes, stamp: Utc) -> Result<(), LinkError> {
        loop {
            match peer.send(channel, message.clone(), stamp, LOOK_AGAIN) {
                Err(LinkError::QueueFull { .. }) => {
                    let holds_others_up = peer.is_away.load(Ordering::Relaxed)
                        && self
                            .all()
                            .iter()
                            .any(|other| !other.is_away.load(Ordering::Relaxed) && !other.link.has_ended());
                    if holds_others_up {
                        peer.was_given_up.store(true, Ordering::Relaxed);
                        peer.link.close_with(CloseCode::Failed, "it is away, and its queue is full");
                        return Err(LinkError::Closed);
                    }
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
