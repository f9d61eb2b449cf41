//! Figures of the door: what it counts, and the peers that are there.

use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use glassline_streams::status::{PeerFigure, PeerRole, PeerStatus};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has taken place at the door since the process began.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) crowded_out: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) refused: AtomicU64,
    publishers: AtomicU64,
    viewers: AtomicU64,
}

/// What has taken place at the door, and what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Publishers that are there.
    pub publishing: u64,
    /// Viewers that are there.
    pub watching: u64,
    /// Connections that came.
    pub connections: u64,
    /// Of these, closed before they were let in to make room, or since their address had too many such.
    pub crowded_out: u64,
    /// Ended because they do not speak TLS where that is expected, or do not read what they are sent.
    pub broken: u64,
    /// Publishers that fell silent.
    pub timed_out: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Publishers that were let in.
    pub publishers: u64,
    /// Viewers that were let in.
    pub viewers: u64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A peer's figures, as its connection last told them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) bytes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) unsent: AtomicU64,
}

/// A peer.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: StreamName,
    pub(super) role: PeerRole,
    pub(super) protocol: &'static str,
    pub(super) address: SocketAddr,
    pub(super) began: Time,
    pub(super) figures: Arc<Figures>,
}

/// What other threads read of the door.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) counters: Counters,
    /// By the numbers of their connections.
    entries: Mutex<BTreeMap<u64, Entry>>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        // The table is whole after every single change.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, id: u64, entry: Entry) {
        count(match entry.role {
            PeerRole::Publish => &self.counters.publishers,
            PeerRole::Watch => &self.counters.viewers,
        });
        self.lock().insert(id, entry);
    }

    /// Peers of a role that are there.
    pub(super) fn present(&self, role: PeerRole) -> usize {
        self.lock().values().filter(|entry| entry.role == role).count()
    }

    pub(super) fn leave(&self, id: u64) {
        self.lock().remove(&id);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    pub(super) fn counts(&self) -> Counts {
        let Counters { connections, crowded_out, broken, timed_out, refused, publishers, viewers } =
            &self.counters;
        let of = |role| self.present(role) as u64;
        Counts {
            publishing: of(PeerRole::Publish),
            watching: of(PeerRole::Watch),
            connections: connections.load(Relaxed),
            crowded_out: crowded_out.load(Relaxed),
            broken: broken.load(Relaxed),
            timed_out: timed_out.load(Relaxed),
            refused: refused.load(Relaxed),
            publishers: publishers.load(Relaxed),
            viewers: viewers.load(Relaxed),
        }
    }

    /// The peers of a stream.
    pub(super) fn peers(&self, name: &StreamName, now: Time) -> Vec<PeerStatus> {
        let entries = self.lock();
        let own = entries.values().filter(|entry| entry.name == *name);
        own.map(|entry| entry.status(now)).collect()
    }
}

impl Entry {
    fn status(&self, now: Time) -> PeerStatus {
        let Figures { bytes, lost, damaged, unsent } = &*self.figures;
        let figure =
            |name, words, value: &AtomicU64| PeerFigure { name, words, value: value.load(Relaxed) as f64 };
        let figures = match self.role {
            PeerRole::Publish => vec![
                figure("lost_packets", "Lost packets", lost),
                figure("damaged_units", "Damaged units left out", damaged),
            ],
            PeerRole::Watch => {
                vec![figure("unsent_datagrams", "Datagrams that found no room to be sent", unsent)]
            }
        };
        PeerStatus {
            role: self.role,
            protocol: self.protocol,
            address: self.address,
            seconds: now.since(self.began).as_secs_f64(),
            bytes: bytes.load(Relaxed),
            figures,
        }
    }
}
