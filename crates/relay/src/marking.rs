//! Marks viewers' connections.

use glassline_delivery::policy::{Marking, Marks};
use glassline_io::tcp::Connection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The marks that viewers' connections have.
#[derive(Debug, Default)]
pub(super) struct Marker {
    marks: Mutex<Marks>,
    exhausted: AtomicU64,
}

impl Marker {
    fn marks(&self) -> MutexGuard<'_, Marks> {
        // Its sets agree again after every call, whatever panicked in between.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a viewer's connection. Returns its own mark, if it got one; the caller gives it back with
    /// [`Marker::give_back`].
    pub(super) fn mark(&self, socket: &Connection, marking: Marking) -> Option<u32> {
        let own = marking.pool.and_then(|pool| {
            let mark = self.marks().take(pool);
            if mark.is_none() {
                self.exhausted.fetch_add(1, Ordering::Relaxed);
            }
            mark
        });
        let mark = own.or(marking.shared)?;
        match socket.mark(mark) {
            Ok(()) => own,
            Err(error) => {
                // It was possible at the start. A viewer can be served without it.
                tracing::warn!(%error, mark, "cannot mark a viewer's connection");
                own.inspect(|&mark| self.give_back(mark));
                None
            }
        }
    }

    /// A viewer has come with its own mark from another process.
    pub(super) fn hold(&self, mark: u32) {
        self.marks().hold(mark);
    }

    /// A viewer that had its own mark is gone.
    pub(super) fn give_back(&self, mark: u32) {
        self.marks().give_back(mark);
    }

    /// Connections that have a mark of their own.
    pub(super) fn in_use(&self) -> usize {
        self.marks().in_use()
    }

    /// Connections that found the pool empty.
    pub(super) fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "marking_tests.rs"]
mod tests;
