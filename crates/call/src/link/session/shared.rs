//! What the threads of a session share, and what they tell its main thread.

use super::peer::PeerStatistics;
use super::peers::Peers;
use super::{CONTROL, Continuity, Error, Link, Output, Served, Service, SessionEvent};
use glassline_io::containment::{Border, contain};
use glassline_transport::link::{LinkId, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

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
    /// The listener has refused us for as long as a connect is tried.
    Refused,
    RemoteIsAt(Vec<SocketAddr>),
    /// A channel's input has no more to give.
    InputEnded,
    /// A service has sent all.
    ServiceEnded,
    /// Another process has come in a peer's place, and a channel is cut off.
    Torn {
        peer: String,
        channel: u8,
    },
    /// An input or an output cannot go on.
    Failed(Error),
    /// The output of a channel beside a service cannot go on.
    OutputFailed(Error),
}

/// What the threads of a session share.
pub(super) struct Shared {
    pub(super) messages: Sender<Message>,
    pub(super) events: Sender<SessionEvent>,
    pub(super) peers: Peers,
    /// All inputs have ended or are cut off: what one of them gives after that is not sent.
    pub(super) inputs_ended: AtomicBool,
    pub(super) channels: Vec<(u8, Options)>,
    /// An input's messages are to arrive, however long the other end is away.
    pub(super) is_waited_for: bool,
    /// What it means that a channel is cut off: for what is sent, and for what comes.
    pub(super) continuity: BTreeMap<u8, [Continuity; 2]>,
    pub(super) outputs: BTreeMap<u8, Mutex<Box<dyn Output>>>,
    /// An input's messages go with their times.
    pub(super) gives_stamps: bool,
    /// Channels with outputs that need the times of messages.
    pub(super) needs_stamps: BTreeSet<u8>,
    pub(super) services: Vec<Running>,
}

/// A service, and whether it has sent all.
pub(super) struct Running {
    pub(super) service: Arc<dyn Service>,
    has_ended: AtomicBool,
}

impl Running {
    pub(super) fn new(service: Arc<dyn Service>) -> Running {
        Running { service, has_ended: AtomicBool::new(false) }
    }

    /// Serves a link, and tells the main thread what came of it.
    pub(super) fn serve(&self, shared: &Shared, link: &Link) {
        // What it shares with other links may be half-written, so that the whole session ends.
        let served = contain(Border::Link, || self.service.serve(link));
        let served = match served {
            Ok(served) => served,
            Err(panicked) => return shared.notify(Message::Failed(panicked.into())),
        };
        match served {
            Ok(Served::All) => {
                if self.service.is_input() && !self.has_ended.swap(true, Ordering::Relaxed) {
                    shared.notify(Message::ServiceEnded);
                }
            }
            Ok(Served::ThisLink) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                shared.notify(Message::Failed(Error::ServiceClosed));
            }
            Err(error) => shared.notify(Message::Failed(Error::Service(error))),
        }
    }
}

impl Shared {
    /// Tells the main thread.
    pub(super) fn notify(&self, message: Message) {
        // It fails once the session is over, when the message is not needed.
        let _ = self.messages.send(message);
    }

    /// Tells the program.
    pub(super) fn emit(&self, event: SessionEvent) {
        // The session's handle may be gone.
        let _ = self.events.send(event);
    }

    /// Tells the program where a peer sends no times that are needed here.
    pub(super) fn tell_of_opened(&self, peer: &str, channel: u8, stamped: bool) {
        if !stamped && self.needs_stamps.contains(&channel) {
            self.emit(SessionEvent::Unstamped { peer: peer.to_owned(), channel });
        }
    }

    /// Tells the program where a peer takes no times and is to get some.
    pub(super) fn tell_of_connected(&self, peer: &str, takes_stamps: Option<bool>) {
        if self.gives_stamps && takes_stamps == Some(false) {
            self.emit(SessionEvent::StampsNotTaken { peer: peer.to_owned() });
        }
    }

    /// Whether no output and no service here takes what comes on a channel.
    pub(super) fn takes_nothing_of(&self, channel: u8) -> bool {
        let is_served = self.services.iter().any(|running| running.service.takes().contains(&channel));
        channel != CONTROL && !self.outputs.contains_key(&channel) && !is_served
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

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
