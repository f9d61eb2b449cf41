//! What the threads of a session share, and what they tell its main thread.

use super::peer::PeerStatistics;
use super::peers::Peers;
use super::{Error, Link, Output, SessionEvent};
use glassline_transport::link::{LinkId, Options};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// What the session's main thread is told.
pub(super) enum Message {
    Stop,
    /// The flags of a peer have changed: a link may be finished.
    Changed,
    /// A peer has made a link.
    Accepted(Link),
    /// A link has ended, and all that came on it is written.
    Over(LinkId),
    Unreachable {
        was_up: bool,
    },
    RemoteIsAt(SocketAddr),
    InputEnded,
    /// An input or an output cannot go on.
    Failed(Error),
}

/// What the threads of a session share.
pub(super) struct Shared {
    pub(super) messages: Sender<Message>,
    pub(super) events: Sender<SessionEvent>,
    pub(super) peers: Peers,
    pub(super) inputs_ended: AtomicBool,
    pub(super) channels: Vec<(u8, Options)>,
    pub(super) outputs: BTreeMap<u8, Mutex<Box<dyn Output>>>,
}

impl Shared {
    /// Tells the main thread.
    pub(super) fn notify(&self, message: Message) {
        // Nobody listens any more once the session is over.
        let _ = self.messages.send(message);
    }

    /// Tells the program.
    pub(super) fn emit(&self, event: SessionEvent) {
        // The session's handle may be gone.
        let _ = self.events.send(event);
    }

    /// Figures of the links that have not gone.
    pub(super) fn statistics(&self) -> Vec<PeerStatistics> {
        self.peers.all().iter().filter_map(|peer| peer.statistics(&self.channels)).collect()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}
