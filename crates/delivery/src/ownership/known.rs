//! What a node knows of the registry, for those that ask.

use super::{Counters, EntryError, Local, NodeEntry, Ownership, Place, Refusal, Run, Stage, StreamEntry};
use crate::policy::StreamName;
use glassline_media::Time;

impl Ownership {
    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the registry is heard.
    pub fn is_heard(&self) -> bool {
        self.view.is_heard()
    }

    /// The nodes that are known, alive or not.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeEntry> {
        self.view.nodes()
    }

    /// Whether that run of a node goes on, as far as is known.
    pub fn is_alive(&self, run: &Run, now: Time) -> bool {
        self.view.is_alive(run, now)
    }

    /// The streams that have an entry, with their owners.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamName, &StreamEntry)> {
        self.view.streams().filter_map(|(name, known)| Some((name, known.entry.as_ref()?.as_ref().ok()?)))
    }

    /// The streams with an entry that is not read, and why.
    pub fn unread(&self) -> impl Iterator<Item = (&StreamName, EntryError)> {
        self.view
            .streams()
            .filter_map(|(name, known)| Some((name, known.entry.as_ref()?.as_ref().err().copied()?)))
    }

    /// The streams that have a publisher here, as far as it was told.
    pub fn publishing(&self) -> impl Iterator<Item = &StreamName> {
        self.locals.keys()
    }

    /// Whether the stream's entry says that its publisher is there, whatever has become of its node.
    pub fn is_published(&self, name: &StreamName) -> bool {
        let entry = self.view.stream(name).and_then(|known| known.entry.as_ref());
        entry.and_then(|entry| entry.as_ref().ok()).is_some_and(|entry| entry.is_live)
    }

    /// When a node's entry was last seen; `None` where it never was.
    pub fn seen_at(&self, run: &Run) -> Option<Time> {
        self.view.heard_at(run)
    }

    /// Whether a publisher of the stream would be refused if it came here now: another node has one, and was heard so lately that it is
    /// there. What is not sure yet, [`Ownership::publish`] decides.
    ///
    /// # Errors
    /// Why it would be.
    pub fn may_publish(&self, name: &StreamName, takes_over: bool, now: Time) -> Result<(), Refusal> {
        if !self.view.is_heard() {
            return Ok(());
        }
        match self.view.stream(name).and_then(|known| known.entry.as_ref()) {
            Some(Err(error)) => Err(Refusal::Entry(*error)),
            Some(Ok(entry)) if entry.is_live && entry.owner.node != self.own.run.node && !takes_over => {
                // Two renewals: a node that has just died is not taken for one that is there.
                let lately = self.settings.renewal.saturating_mul(2);
                let is_there =
                    self.view.heard_at(&entry.owner).is_some_and(|heard| now.since(heard) < lately);
                if is_there && self.view.is_alive(&entry.owner, now) {
                    return Err(Refusal::Taken(entry.owner.node.clone()));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Where the stream is.
    pub fn place(&self, name: &StreamName, now: Time) -> Place {
        match self.locals.get(name) {
            Some(Local { stage: Stage::Owned { epoch, .. }, .. }) => Place::Here { epoch: *epoch },
            _ => self.view.place(name, &self.own.run, now),
        }
    }

    /// A stream that is a version of the capture `group` and has a publisher at another node: the best of them.
    pub fn best_version(&self, group: &StreamName, now: Time) -> Option<&StreamName> {
        self.view.best_version(group, now)
    }

    /// The epoch under which this node owns the stream.
    pub fn owned(&self, name: &StreamName) -> Option<u64> {
        match self.locals.get(name)?.stage {
            Stage::Owned { epoch, .. } => Some(epoch),
            _ => None,
        }
    }
}
