//! What is known of recordings, for the API, metrics and alarms.

use crate::store::{Store, StoreErrorKind};
use glassline_delivery::archive::spool::{Counters, RecordingStatus, Spool};
use glassline_media::Time;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is known of recordings at one moment; counters count from the start of the process.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The recordings that go on, or that the store has not got all of.
    pub recordings: Vec<RecordingStatus>,
    /// What was counted.
    pub counters: Counters,
    /// Bytes of media that came while there was no spool.
    pub unspooled_bytes: u64,
    /// Bytes of media that found no room on their way to the spool.
    pub queue_dropped_bytes: u64,
    /// Bytes of the spool's files.
    pub spool_bytes: u64,
    /// Bytes of objects that wait for the store.
    pub waiting_bytes: u64,
    /// How long the oldest of them has waited; `None`: none waits.
    pub oldest_waiting: Option<Duration>,
    /// Failures of the store, by kind, in the order of [`StoreErrorKind::ALL`].
    pub store_errors: [u64; StoreErrorKind::ALL.len()],
    /// The store's clock is not believed: nothing is deleted for its age.
    pub is_retention_held: bool,
    /// Why the store takes nothing now, in words.
    pub store_error: Option<String>,
    /// Failures of the spool's disk.
    pub spool_errors: u64,
    /// Why there is no spool now, or why it takes nothing, in words.
    pub spool_error: Option<String>,
    pub(crate) spool_failed_at: Option<Time>,
}

impl Status {
    pub(crate) fn take_spool(&mut self, spool: &Spool, now: Time) {
        self.recordings = spool.recordings().collect();
        self.counters = spool.counters();
        self.spool_bytes = spool.total_bytes();
        self.waiting_bytes = spool.waiting_bytes();
        self.oldest_waiting = spool.waiting_since().map(|since| now.since(since));
    }
}

/// What the thread has published last.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<Status>, Mutex<Option<Store>>);

impl Published {
    pub(crate) fn set(&self, status: &Status) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(status);
    }

    pub(crate) fn set_store(&self, store: Option<Store>) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// The store that is configured.
    pub(crate) fn store(&self) -> Option<Store> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn get(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
