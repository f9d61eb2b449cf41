//! The sockets that a worker listens on.

use crate::Listen;
use glassline_io::poll::{Poller, Watch};
use glassline_io::tcp::Listener;
use std::io;

/// Listeners have the tokens from here up to [`crate::inboxes::WAKE`]; connections lie below.
const FIRST_TOKEN: u64 = u64::MAX - 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Listeners {
    /// Each with its kind and the address that is configured for it.
    all: Vec<(Listen, Listener)>,
    are_watched: bool,
}

impl Listeners {
    /// All, each with its kind.
    pub(super) fn all(&self) -> &[(Listen, Listener)] {
        &self.all
    }

    /// The one that epoll calls by `token`; `None` where that is a connection's.
    pub(super) fn number(token: u64) -> Option<usize> {
        token.checked_sub(FIRST_TOKEN).map(|number| number as usize)
    }

    /// Adds those. They are watched from the next [`Listeners::watch`] on.
    pub(super) fn extend(&mut self, listeners: Vec<(Listen, Listener)>) {
        self.all.extend(listeners);
    }

    /// Whether callers are told of.
    pub(super) fn are_watched(&self) -> bool {
        self.are_watched
    }

    /// Has callers told of.
    ///
    /// # Errors
    /// The system has no means for that: some of them may be watched.
    pub(super) fn watch(&mut self, poller: &Poller) -> io::Result<()> {
        for (number, (_, listener)) in self.all.iter().enumerate() {
            poller.add(listener, FIRST_TOKEN + number as u64, Watch::Accepts)?;
        }
        self.are_watched = true;
        Ok(())
    }

    /// Out of descriptors: leaves callers in the kernel's queue until the next sweep, instead of being told of
    /// them again and again.
    pub(super) fn pause(&mut self, poller: &Poller) {
        for (_, listener) in &self.all {
            let _ = poller.remove(listener);
        }
        self.are_watched = false;
    }

    /// Gives each the kind that is `wanted` of it, and closes it where none is.
    pub(super) fn rearrange<'a>(&mut self, wanted: impl Fn(&Listen) -> Option<&'a Listen>) {
        self.all.retain_mut(|(listen, _)| {
            let wanted = wanted(listen);
            *listen = wanted.unwrap_or(listen).clone();
            wanted.is_some()
        });
    }
}

#[cfg(test)]
#[path = "listeners_tests.rs"]
mod tests;
