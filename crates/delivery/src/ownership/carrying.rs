//! Which streams this node says it pulls, and from which node it pulls one.
//!
//! What is told changes with viewers that come and go, and each change is heard by all nodes: it is written at once where nothing was for
//! a second, and once a second else.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::carriage::{CarriageEntry, Carried};
use super::choice::{Candidate, Level, choose, gateway, refuge};
use super::{Answer, Key, NodeEntry, NodeName, Ownership, Pending, Request};
use crate::policy::StreamName;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// An entry is written so often at most.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// A node that has a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: NodeName,
    /// Where it is reached, as a URL.
    pub address: String,
    /// How far it is from the owner; 0: it is the owner.
    pub hops: u8,
}

impl Holder {
    fn of(candidate: &Candidate<'_>) -> Holder {
        let Candidate { node, hops } = *candidate;
        Holder { node: node.run.node.clone(), address: node.address.clone(), hops }
    }
}

/// What is told of what is pulled here.
#[derive(Debug)]
pub(super) struct Carrying {
    streams: BTreeMap<StreamName, Carried>,
    /// The entry that says so; empty where no stream is pulled.
    wanted: Vec<u8>,
    /// What the registry has, where that is known; an empty one: no entry.
    written: Option<Vec<u8>>,
    /// All entries of this connection have come, so that it is known what stands there.
    is_listed: bool,
    next_at: Time,
}

impl Default for Carrying {
    fn default() -> Carrying {
        Carrying {
            streams: BTreeMap::new(),
            wanted: Vec::new(),
            written: None,
            is_listed: false,
            next_at: Time::ZERO,
        }
    }
}

impl Carrying {
    /// The registry is not heard any more.
    pub(super) fn pause(&mut self) {
        self.is_listed = false;
    }

    pub(super) fn handle_answer(&mut self, answer: &Answer) {
        if *answer == Answer::Failed {
            self.written = None;
        }
    }
}

impl Ownership {
    /// This node pulls these streams, and those alone.
    pub fn carry(&mut self, streams: BTreeMap<StreamName, Carried>, now: Time) {
        if self.carrying.streams != streams {
            self.carrying.wanted = match streams.is_empty() {
                true => Vec::new(),
                false => CarriageEntry { run: self.own.run.clone(), streams: streams.clone() }.write(),
            };
            self.carrying.streams = streams;
            self.write_carriage(now);
        }
    }

    /// What stands in the registry is known: what differs is written.
    pub(super) fn begin_carrying(&mut self, now: Time) {
        let known = self.view.carriage(&self.own.run.node);
        self.carrying.written = Some(known.map_or_else(Vec::new, CarriageEntry::write));
        self.carrying.is_listed = true;
        self.write_carriage(now);
    }

    /// What has to stand in the registry: a node that leaves pulls nothing any more.
    fn wanted_carriage(&self) -> &[u8] {
        if self.own.is_leaving { &[] } else { &self.carrying.wanted }
    }

    /// When [`Ownership::write_carriage`] is due.
    pub(super) fn carriage_due(&self) -> Time {
        let is_over = self.carrying.written.as_deref() == Some(self.wanted_carriage());
        if is_over || !self.carrying.is_listed { Time::NEVER } else { self.carrying.next_at }
    }

    /// Writes what is pulled, where that is due. A node that leaves does not wait.
    pub(super) fn write_carriage(&mut self, now: Time) {
        let is_due = now >= self.carrying.next_at || self.own.is_leaving;
        if !self.carrying.is_listed || !is_due {
            return;
        }
        let wanted = self.wanted_carriage();
        if self.carrying.written.as_deref() == Some(wanted) {
            return;
        }
        let wanted = wanted.to_vec();
        let key = Key::Carries(self.own.run.node.clone());
        let request = match wanted.is_empty() {
            true => Request::Remove { key },
            false => Request::Put { key, value: wanted.clone() },
        };
        (self.carrying.written, self.carrying.next_at) = (Some(wanted), now + WRITE_PAUSE);
        self.ask(Pending::Carriage, request, now);
    }

    /// The node leaves, as [`Ownership::describe`] was told: what it says it pulls is removed.
    pub fn leave_carriages(&mut self, now: Time) {
        self.write_carriage(now);
    }

    /// From which nodes the stream is pulled here, in the order in which they are asked: a nearer one that carries it, where there is
    /// one, and the owner. Empty where no other node has it, as far as is known. `level` is how far this node was from the owner so far, and
    /// `from` the carrier from which the stream comes here: as long as it may be asked, it is the nearest.
    pub fn holders(
        &self,
        name: &StreamName,
        level: Level,
        from: Option<&NodeName>,
        now: Time,
    ) -> Vec<Holder> {
        let Some((owner, epoch)) = self.owner(name, now) else { return Vec::new() };
        let is_there = |node: &NodeEntry| self.view.is_alive(&node.run, now);
        let candidates = || {
            let carriers = self.view.carriers(name, epoch).filter(|(node, _)| is_there(node));
            carriers.map(|(node, carried)| Candidate { node, hops: carried.hops })
        };
        let is_kept = |it: &Candidate<'_>| Some(&it.node.run.node) == from && it.suits(&self.own, level);
        let kept = candidates().find(is_kept);
        let nearest = kept.unwrap_or_else(|| choose(&self.own, level, owner, candidates()));
        let owner = Candidate { node: owner, hops: 0 };
        [nearest, owner].iter().take(if nearest.hops == 0 { 1 } else { 2 }).map(Holder::of).collect()
    }

    /// The node from which this one had better pull the stream than from the node `from`, so that its zone has it from another zone once:
    /// [`gateway`]. `None` where it stays, and where the registry is not heard.
    pub fn gateway(&self, name: &StreamName, from: &NodeName, now: Time) -> Option<NodeName> {
        let (owner, epoch) = self.owner(name, now).filter(|_| self.view.is_heard())?;
        let carriers = || {
            let alive =
                self.view.carriers(name, epoch).filter(|(node, _)| self.view.is_alive(&node.run, now));
            alive.map(|(node, carried)| Candidate { node, hops: carried.hops })
        };
        let source = match owner.run.node == *from {
            true => Candidate { node: owner, hops: 0 },
            false => carriers().find(|it| it.node.run.node == *from)?,
        };
        gateway(&self.own, source, carriers()).map(|node| node.run.node.clone())
    }

    /// Whether the node may be pulled from, where another one has the stream, too.
    pub fn may_carry(&self, node: &NodeName, now: Time) -> bool {
        self.view.node(node).is_some_and(|node| !node.is_draining && self.view.is_alive(&node.run, now))
    }

    /// What was written under this node's name is heard, by whatever program: what differs is written again.
    pub(super) fn hear_own_carriage(&mut self, now: Time) {
        let is_asked = self.pending.values().any(|(pending, _)| matches!(pending, Pending::Carriage));
        if self.carrying.is_listed && !is_asked {
            let known = self.view.carriage(&self.own.run.node);
            self.carrying.written = Some(known.map_or_else(Vec::new, CarriageEntry::write));
            self.write_carriage(now);
        }
    }

    /// Where a viewer of the stream is sent while this node is emptied ([`NodeEntry::public`]).
    pub fn refuge(&self, name: &StreamName, now: Time) -> Option<&NodeEntry> {
        if !self.view.is_heard() {
            // What was heard last may be over: the other one may be emptied too by now, and would send the viewer back.
            return None;
        }
        let known = self.view.stream(name);
        let entry = known.and_then(|known| known.entry.as_ref()?.as_ref().ok());
        let owner = entry.filter(|entry| entry.is_live).map(|entry| &entry.owner);
        let epoch = known.map_or(0, |known| known.epoch);
        let carriers: Vec<_> = self.view.carriers(name, epoch).map(|(node, _)| &node.run).collect();
        let alive = self.view.nodes().filter(|node| self.view.is_alive(&node.run, now));
        let nodes = alive.map(|node| (node, Some(&node.run) == owner || carriers.contains(&&node.run)));
        refuge(&self.own, nodes)
    }

    /// The other node that owns the stream, if it is alive, and the epoch.
    fn owner(&self, name: &StreamName, now: Time) -> Option<(&NodeEntry, u64)> {
        let known = self.view.stream(name)?;
        let entry = known.entry.as_ref()?.as_ref().ok()?;
        let is_other = entry.owner.node != self.own.run.node;
        let node = self.view.node(&entry.owner.node).filter(|node| node.run == entry.owner)?;
        (is_other && self.view.is_alive(&entry.owner, now)).then_some((node, known.epoch))
    }

    /// What each node says it pulls, with the node's name.
    pub fn carriages(&self) -> impl Iterator<Item = &CarriageEntry> {
        self.view.carriages()
    }
}
