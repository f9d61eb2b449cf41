//! A relay among others of a cluster: which streams are here, where those are that are not, and what becomes of a publisher where
//! another server has its name.

use crate::hub::Hub;
use glassline_delivery::ownership::{Level, NodeName};
use glassline_delivery::policy::StreamName;
use glassline_streams::{
    AcquireError, Directory, Holder, NameRefusal, Origin, SlotRequest, StaticDirectory, Whereabouts,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Hub {
    /// Has `directory` asked for streams that are not here, and which publishers may come; `None`: there is none.
    pub fn set_directory(&self, directory: Option<Arc<dyn Directory>>) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
    }

    /// Where the configuration places streams.
    pub fn places(&self) -> StaticDirectory {
        self.settings().places.clone()
    }

    pub(super) fn directory(&self) -> Option<Arc<dyn Directory>> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Viewers of all streams here, over HTTP.
    pub fn viewers(&self) -> u64 {
        self.streams.all().iter().map(|live| live.viewers() as u64).sum()
    }

    /// Where the stream `name` is: what the configuration says goes before what the directory says.
    pub fn whereabouts(&self, name: &StreamName) -> Whereabouts {
        if let Some(server) = self.settings().places.server(name) {
            return Whereabouts::At { servers: vec![server.clone()], epoch: 0 };
        }
        self.directory().map_or(Whereabouts::Unknown, |directory| directory.find(name))
    }

    /// Where the presentation `name` is: of a stream, or of the versions of a capture, which share its playlists.
    pub(super) fn whereabouts_of_presentation(&self, name: &StreamName) -> Whereabouts {
        match (self.whereabouts(name), self.directory()) {
            (Whereabouts::Unknown, Some(directory)) => directory.find_version(name),
            (whereabouts, _) => whereabouts,
        }
    }

    /// The servers from which the stream `name` may be pulled, nearest first, where the registry knows them.
    pub(super) fn holders(&self, name: &StreamName, level: Level, from: Option<&NodeName>) -> Vec<Holder> {
        if self.settings().places.server(name).is_some() {
            return Vec::new();
        }
        self.directory().map_or_else(Vec::new, |directory| directory.holders(name, level, from))
    }

    /// Whether a publisher may have the slot that it asks for. Where it may, and the stream is pulled from another server of the
    /// cluster, the publisher takes the pull's place.
    pub(super) fn admit_publisher(&self, slot_request: &mut SlotRequest<'_>) -> Result<(), AcquireError> {
        let name = slot_request.name;
        let is_inside = slot_request.origin == Origin::Inside;
        let is_encoder = || self.settings().reserved.contains(name);
        if is_inside && self.pulls_on_demand(name) && !is_encoder() {
            return Ok(());
        }
        // What the configuration makes here has no other place.
        let continues = || slot_request.piece.is_some() && self.streams.find(name).is_some();
        if !is_inside && self.is_draining() && !continues() {
            if matches!(slot_request.origin, Origin::Door) {
                self.draining.publishers_refused.fetch_add(1, Ordering::Relaxed);
            }
            return Err(AcquireError::Draining);
        }
        let refuse = |why| AcquireError::Elsewhere { name: name.clone(), why };
        if let Some(server) = self.settings().places.server(name) {
            let words = format!("[cluster] static places it at {server}; publish it there");
            return Err(refuse(NameRefusal(words)));
        }
        let Some(directory) = self.directory() else { return Ok(()) };
        if !is_inside && (is_encoder() || self.has_source(name)) {
            // The configuration has given the name away, and the registry of this process refuses the publisher: no pull ends for it.
            return Ok(());
        }
        directory.may_publish(name, slot_request.take_over).map_err(refuse)?;
        slot_request.take_over |= self.end_demand(name);
        Ok(())
    }

    /// Whether another server has the stream `name`.
    pub(super) fn is_elsewhere(&self, name: &StreamName) -> bool {
        matches!(self.whereabouts(name), Whereabouts::At { .. })
    }

    /// Whether another server has a publisher of the stream `name`, so that none is let in here.
    pub(super) fn is_published_elsewhere(&self, name: &StreamName) -> bool {
        let is_placed = || self.settings().places.server(name).is_some();
        let is_refused =
            || self.directory().is_some_and(|directory| directory.may_publish(name, false).is_err());
        self.is_elsewhere(name) && (is_placed() || is_refused())
    }

    /// Whether what is pulled under `name` is what viewers have asked for: the configuration may give the name a source of its own.
    fn pulls_on_demand(&self, name: &StreamName) -> bool {
        self.demands.pull(name).is_some_and(|pull| self.pulls().has_pull(&pull))
    }

    /// The streams that have their publisher here. A pull that gives way to a publisher may have its slot for a moment still: the name
    /// counts when the publisher has it.
    pub fn own_publishers(&self) -> Vec<StreamName> {
        let mut lives = self.streams.all();
        lives.retain(|live| !live.has_ended() && live.published_since().is_some());
        let names = lives.iter().map(|live| live.name.clone());
        names.filter(|name| !self.demands.has(name)).collect()
    }

    /// Another server has the stream `name`: a publisher of it here ends, as one that is replaced does, and viewers here get it from
    /// there.
    pub fn give_up(&self, name: &StreamName) {
        if !self.demands.is_pulled(name)
            && let Some(live) = self.streams.find(name)
            && live.published_since().is_some()
        {
            self.streams.evict(&live);
        }
        self.follow(name);
    }

    /// The stream `name` is at another server than before: what is pulled of it, and viewers here that wait for its publisher, get it from
    /// there.
    pub fn follow_stream(&self, name: &StreamName) {
        self.follow(name);
    }
}

#[cfg(test)]
#[path = "whereabouts_tests.rs"]
mod tests;
