//! Figures of the door: what it counts, and the publishers that are there.

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
    pub(super) publishers: AtomicU64,
}

/// What has taken place at the door, and what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Publishers that are there.
    pub publishing: u64,
    /// Connections that came.
    pub connections: u64,
    /// Of these, closed before they published to make room, or since their address had too many such.
    pub crowded_out: u64,
    /// Ended because what they sent is not RTMP, or is more than is held.
    pub broken: u64,
    /// Ended because they did not publish in time, or fell silent.
    pub timed_out: u64,
    /// Publishers that were refused: key, name, codec, play.
    pub refused: u64,
    /// Publishers that were let in.
    pub publishers: u64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// A publisher's figures, as its connection last told them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) bytes: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) seams: AtomicU64,
}

/// A publisher.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: StreamName,
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
        count(&self.counters.publishers);
        self.lock().insert(id, entry);
    }

    pub(super) fn leave(&self, id: u64) {
        self.lock().remove(&id);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    pub(super) fn counts(&self) -> Counts {
        let Counters { connections, crowded_out, broken, timed_out, refused, publishers } = &self.counters;
        Counts {
            publishing: self.lock().len() as u64,
            connections: connections.load(Relaxed),
            crowded_out: crowded_out.load(Relaxed),
            broken: broken.load(Relaxed),
            timed_out: timed_out.load(Relaxed),
            refused: refused.load(Relaxed),
            publishers: publishers.load(Relaxed),
        }
    }

    /// The publishers of a stream.
    pub(super) fn peers(&self, name: &StreamName, now: Time) -> Vec<PeerStatus> {
        let entries = self.lock();
        let own = entries.values().filter(|entry| entry.name == *name);
        own.map(|entry| entry.status(now)).collect()
    }
}

impl Entry {
    fn status(&self, now: Time) -> PeerStatus {
        let Figures { bytes, damaged, dropped, moved, seams } = &*self.figures;
        let figure =
            |name, words, value: &AtomicU64| PeerFigure { name, words, value: value.load(Relaxed) as f64 };
        PeerStatus {
            role: PeerRole::Publish,
            protocol: self.protocol,
            address: self.address,
            seconds: now.since(self.began).as_secs_f64(),
            bytes: bytes.load(Relaxed),
            figures: vec![
                figure("damaged_messages", "Damaged messages", damaged),
                figure("dropped_units", "Units left out", dropped),
                figure("moved_units", "Units with mended times", moved),
                figure("seams", "Seams", seams),
            ],
        }
    }
}
