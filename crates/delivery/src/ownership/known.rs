//! What a node knows of the registry, for those that ask.

use super::{
    Counters, EntryError, Local, NodeEntry, NodeName, Ownership, Place, Refusal, Run, Stage, StreamEntry,
};
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

    /// Whether all entries that there were have come once, so that a stream without one is at no node, as far as was heard.
    pub fn was_listed(&self) -> bool {
        self.view.was_listed()
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

    /// The streams behind `last` by name (`None`: all of them) that have an entry: each with its owner, its epoch, and whether it is live,
    /// as [`Ownership::place`] has it; or why the entry is not read.
    pub fn streams_behind(
        &self,
        last: Option<&StreamName>,
        now: Time,
    ) -> impl Iterator<Item = (&StreamName, Result<(&NodeName, u64, bool), EntryError>)> {
        self.view.streams_behind(last).filter_map(move |(name, known)| {
            let seen = match (self.owned(name), known.entry.as_ref()?) {
                (Some(epoch), Ok(_)) => Ok((&self.own.run.node, epoch, true)),
                (_, Ok(entry)) => {
                    let is_live =
                        entry.is_live && (entry.owner == self.own.run || self.is_alive(&entry.owner, now));
                    Ok((&entry.owner.node, known.epoch, is_live))
                }
                (_, Err(error)) => Err(*error),
            };
            Some((name, seen))
        })
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
                    self.view.heard_at(&entry.owner).is_some_and(|heard| now.since(heard) < lately)
                        || self.view.is_replaced_now(&entry.owner, now);
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
