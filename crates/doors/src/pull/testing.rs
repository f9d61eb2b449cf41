//! What the thread that pulls lends to a source, in a test's hands.

use super::table::PullEntry;
use super::{Pull, PullContext, PullTable, READ_BYTES, Resolved, Sources, Trust};
use crate::testing::{House, name};
use glassline_delivery::pull::{Policy, Source};
use glassline_io::poll::{Poller, Waker};
use glassline_io::udp::Inbox;
use glassline_media::Time;
use glassline_streams::status::SourceStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

pub(super) struct Bench {
    pub(super) house: Arc<House>,
    pub(super) table: PullTable,
    pub(super) poller: Poller,
    waker: Waker,
    answers: (Sender<Resolved>, Receiver<Resolved>),
    trust: Trust,
    scratch: Vec<u8>,
    inbox: Inbox,
    gathered: Vec<u8>,
    /// Behind now: what a test waits for is so much earlier.
    pub(super) later: Duration,
}

/// Waits of a tenth of a second at first and of a second at last; a stream of three seconds is a good one. No machine is so slow
/// that something comes too late.
pub(super) const POLICY: Policy = Policy {
    silence_timeout: Duration::from_secs(600),
    retry_min: Duration::from_millis(100),
    retry_max: Duration::from_secs(1),
    good_after: Duration::from_secs(3),
    reorder: Duration::from_secs(300),
};

/// A stream from this source. Of datagrams to port 0, which no configuration may have, the system chooses the port.
pub(super) fn pull(stream: &str, source: &str) -> Pull {
    let parsed = Source::parse(&source.replace("127.0.0.1:0", "127.0.0.1:1")).unwrap();
    let source = match parsed {
        Source::Udp(mut address) if source.ends_with(":0") => {
            address.address.set_port(0);
            Source::Udp(address)
        }
        Source::Rtp(mut address) if source.ends_with(":0") => {
            address.address.set_port(0);
            Source::Rtp(address)
        }
        other => other,
    };
    Pull { name: name(stream), source, alternates: Vec::new(), mux: None, ca: None, via: None, renewed: 0 }
}

impl Bench {
    pub(super) fn new(pulls: &[Pull]) -> Bench {
        let poller = Poller::new().unwrap();
        let waker = Waker::new(&poller, super::WAKE).unwrap();
        Bench {
            house: House::new(),
            table: PullTable::new(pulls, &PullTable::default()),
            poller,
            waker,
            answers: channel(),
            trust: Trust::default(),
            scratch: vec![0; READ_BYTES],
            inbox: Inbox::default(),
            gathered: Vec::new(),
            later: Duration::ZERO,
        }
    }

    /// The first source's entry.
    pub(super) fn entry(&self) -> Arc<PullEntry> {
        Arc::clone(self.table.iter().next().unwrap())
    }

    pub(super) fn now(&self) -> Time {
        crate::Server::clock(&*self.house).now() + self.later
    }

    pub(super) fn with<T>(&mut self, act: impl FnOnce(&mut PullContext<'_>) -> T) -> T {
        let now = self.now();
        act(&mut PullContext {
            server: &*self.house as &dyn Sources,
            poller: &self.poller,
            waker: &self.waker,
            answers: &self.answers.0,
            trust: &mut self.trust,
            scratch: &mut self.scratch,
            inbox: &mut self.inbox,
            gathered: &mut self.gathered,
            now,
        })
    }

    /// The generations of the sockets that have news, after a moment at most.
    pub(super) fn ready(&self) -> Vec<u32> {
        let mut ready = Vec::new();
        self.poller.wait(Some(Duration::from_millis(5)), &mut ready).unwrap();
        let sockets = ready.iter().filter(|event| event.token != super::WAKE);
        sockets.map(|event| (event.token >> 32) as u32).collect()
    }

    /// What a thread has resolved, if it has.
    pub(super) fn resolved(&self) -> Option<Resolved> {
        self.answers.1.try_recv().ok()
    }

    pub(super) fn status(&self, stream: &str) -> SourceStatus {
        self.table.status(&name(stream), self.now()).unwrap()
    }
}
