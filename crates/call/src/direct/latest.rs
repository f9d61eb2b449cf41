//! Which of several links a service that has one source serves: the one that came last.

use crate::link::Link;
use crate::link::session::Served;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long is waited for a link before it is looked whether it is still there.
const TICK: Duration = Duration::from_millis(100);

/// Counts the links that a service was given.
#[derive(Debug, Default)]
pub(super) struct Latest(AtomicU64);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(u64);

impl Latest {
    /// Another link has come: those before it are served no more.
    pub(super) fn begin(&self) -> Turn {
        Turn(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether the link has ended, or another one has come.
    pub(super) fn is_over(&self, turn: Turn, link: &Link) -> bool {
        link.has_ended() || self.0.load(Ordering::Relaxed) != turn.0
    }

    /// Waits until the link is up.
    ///
    /// # Errors
    /// That will not be, or another one has come: how far the service has come then. Where its source `has_ended` meanwhile,
    /// there is nothing to wait for.
    pub(super) fn wait_connected(
        &self,
        turn: Turn,
        link: &Link,
        has_ended: impl Fn() -> bool,
    ) -> Result<(), Served> {
        while !matches!(link.wait_connected(TICK), Ok(true)) {
            if has_ended() {
                return Err(Served::All);
            }
            if self.is_over(turn, link) {
                return Err(Served::ThisLink);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
