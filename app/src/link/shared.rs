//! What the threads of a run have in common, and how they tell its main thread what happens.

use super::output::Output;
use glassline_engine::link::Link;
use glassline_transport::link::LinkId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

/// What the threads of a run tell.
pub(super) enum News {
    Signal(i32),
    /// Something is so that may end the run.
    Changed,
    /// A link was made by a peer.
    Accepted(Link),
    /// A link has ended, and all that came on it is written.
    Over(LinkId),
    Unreachable {
        was_up: bool,
    },
    /// Nothing comes from the peer any more.
    Lost,
    /// The listener whose name was looked for again is here.
    Located(SocketAddr),
    InputEnded,
    /// An input or an output cannot go on.
    Failed {
        channel: u8,
        error: std::io::Error,
        what: &'static str,
    },
    /// Whoever read an output has gone.
    ReaderGone,
}

/// What the threads of a run share.
pub(super) struct Shared {
    pub(super) outputs: BTreeMap<u8, Mutex<Output>>,
    pub(super) inputs_ended: AtomicBool,
    /// Where the peer is thought to be, for people.
    pub(super) remote: String,
    pub(super) news: Mutex<Sender<News>>,
}

impl Shared {
    pub(super) fn tell(&self, news: News) {
        // Nobody listens any more once the run is over.
        let _ = self.news.lock().unwrap_or_else(PoisonError::into_inner).send(news);
    }
}
