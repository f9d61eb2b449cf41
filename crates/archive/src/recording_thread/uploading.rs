//! What goes to the store, and what becomes of it.

use super::{Opened, RecordingThread, Told};
use crate::mailbox::{CROWDED_BYTES, Message};
use crate::store::{Store, StoreError, StoreErrorKind};
use glassline_delivery::archive::upload::Outcome;
use glassline_media::Time;
use std::sync::Arc;

/// How often a store that was configured before may fail, one time after another, until what is left goes to the new one.
const FORMER_FAILURES: u32 = 3;

/// A store that was configured before: what was recorded meanwhile belongs there.
pub(super) struct FormerStore {
    store: Store,
    /// The last recording that does.
    through: u64,
    failures: u32,
}

impl RecordingThread {
    /// Sends what may leave now, until something comes: after a store was away, reading what waits for it is much work, behind which
    /// what is recorded would find no room in the mailbox.
    pub(super) fn upload(&mut self, now: Time) {
        let Some(Opened { spool, log }) = &mut self.opened else { return };
        if self.mailbox.waiting_bytes() > CROWDED_BYTES {
            return spool.ease_uploads(now);
        }
        if let Some(store) = &self.store {
            while let Some(upload) = spool.next_upload(now, log) {
                let (id, number, mailbox) = (upload.id, self.spools, Arc::clone(&self.mailbox));
                let former = self.former.as_ref().filter(|former| upload.recording <= former.through);
                let (store, is_former) = (former.map_or(store, |former| &former.store), former.is_some());
                store.put(&upload.object.to_string(), upload.pieces, move |result| {
                    mailbox.send(Message::Stored { spool: number, id, is_former, result });
                });
                if !self.mailbox.is_empty() {
                    break;
                }
            }
            if self.former.as_ref().is_some_and(|former| !spool.has_through(former.through)) {
                tracing::info!("the store that was configured before has all that was recorded for it");
                self.former = None;
            }
        }
    }

    /// Another store is configured: what goes on ends, so that no recording is in both. What waits goes to the one that it was
    /// recorded for, as long as that takes it.
    pub(super) fn leave_store(&mut self, now: Time) {
        self.end_recordings(now);
        let through = self.opened.as_ref().map_or(0, |opened| opened.spool.last_recording());
        let is_up = self.status.store_error.is_none();
        if !is_up && through > 0 {
            tracing::warn!(
                "the store that was configured before takes nothing: what waits for it goes to the new one, where the beginnings of \
                 its recordings are missing"
            );
        }
        let store = self.store.take().filter(|_| is_up && through > 0);
        self.former = store.map(|store| FormerStore { store, through, failures: 0 });
        self.status.store_error = None;
        self.published.set_store(None);
    }

    pub(super) fn stored(
        &mut self,
        (spool, id): (u64, u64),
        is_former: bool,
        result: &Result<(), StoreError>,
        now: Time,
    ) {
        if spool != self.spools {
            return;
        }
        if is_former {
            self.former_answered(result);
        }
        let outcome = match result {
            Ok(()) => Outcome::Stored,
            Err(error) => {
                self.status.store_errors[error.kind().index()] += 1;
                let words = error.to_string();
                if self.told_store.is_news(&words, now) {
                    tracing::warn!("what is recorded waits in the spool: {words}");
                }
                self.status.store_error = Some(words);
                match error.kind() {
                    StoreErrorKind::Busy => Outcome::Busy,
                    StoreErrorKind::BadRequest => Outcome::Refused,
                    StoreErrorKind::Other => Outcome::Failed,
                    _ => Outcome::Away,
                }
            }
        };
        if outcome == Outcome::Stored && self.status.store_error.take().is_some() {
            tracing::info!("the store takes what is recorded again");
            self.told_store = Told::default();
        }
        if let Some(Opened { spool, log }) = &mut self.opened {
            spool.uploaded(id, outcome, now, log);
        }
    }

    /// The store that was configured before has answered.
    fn former_answered(&mut self, result: &Result<(), StoreError>) {
        let Some(former) = &mut self.former else { return };
        former.failures = if result.is_ok() { 0 } else { former.failures + 1 };
        if former.failures >= FORMER_FAILURES {
            tracing::warn!(
                "the store that was configured before takes nothing: what is left of its recordings goes to the new one, where \
                 their beginnings are missing"
            );
            self.former = None;
        }
    }
}
