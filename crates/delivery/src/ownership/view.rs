//! What a node knows of the registry: the entries that it has seen, and whether the nodes behind them are alive.
//!
//! Clocks of machines differ, and a registry's time to live is judged by a clock that may be wrong: a node's lease has ended here where
//! no newer entry of it was *seen* for the lease's length by this node's own monotonic clock, while the registry could be heard.
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
use super::entry::{EntryError, Key, NodeEntry, NodeName, Run, StreamEntry};
use crate::policy::StreamName;
use glassline_media::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Streams that are known at most.
const STREAMS_MAX: usize = 65_536;
/// Names that are looked at when versions of a capture are looked for.
const VERSIONS_MAX: usize = 256;
/// Nodes that are known at most.
const NODES_MAX: usize = 1024;

/// A stream's entry, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownStream {
    /// The entry; `None` where it was removed.
    pub(super) entry: Option<Result<StreamEntry, EntryError>>,
    /// Its revision; 0: any news of it are newer.
    pub(super) revision: u64,
    /// The epoch of its owner.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug)]
struct KnownNode {
    entry: NodeEntry,
    revision: u64,
    seen_at: Time,
    /// When this run of the node was first seen.
    run_since: Time,
}

/// Where a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its publisher is at this node.
    Here {
        /// Its epoch.
        epoch: u64,
    },
    /// It is at another node.
    At {
        /// What that node says of itself; `None` where it has not been heard.
        node: Option<NodeEntry>,
        /// The node.
        name: NodeName,
        /// The stream's epoch.
        epoch: u64,
        /// The node's lease lasts, as far as is known, and the publisher is there.
        is_live: bool,
    },
    /// It is at no node.
    Nowhere,
}

/// What has changed of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: it was known, or older than what is known.
    None,
    /// A stream's entry.
    Stream(StreamName),
    /// A node's entry.
    Node,
    /// There is no room for it, or it is not read.
    Dropped,
}

/// What a node knows of the registry.
#[derive(Debug)]
pub(super) struct View {
    lease: Duration,
    /// This node.
    own: Run,
    streams: BTreeMap<StreamName, KnownStream>,
    nodes: BTreeMap<NodeName, KnownNode>,
    /// What each node pulls, with the entry's revision.
    carriages: BTreeMap<NodeName, (CarriageEntry, u64)>,
    /// The nodes that say so of each stream.
    carriers: BTreeMap<StreamName, BTreeSet<NodeName>>,
    /// Since when the registry is heard; `None` while it is not.
    heard_since: Option<Time>,
    /// What the registry had when it was heard is still coming.
    is_listing: bool,
    /// All that it had has come once.
    was_listed: bool,
}

impl View {
    pub(super) fn new(lease: Duration, own: Run) -> View {
        View {
            lease,
            own,
            streams: BTreeMap::new(),
            nodes: BTreeMap::new(),
            carriages: BTreeMap::new(),
            carriers: BTreeMap::new(),
            heard_since: None,
            is_listing: false,
            was_listed: false,
        }
    }

    /// The registry is heard from now on, or no longer.
    pub(super) fn set_heard(&mut self, is_heard: bool, now: Time) {
        self.heard_since = if is_heard { self.heard_since.or(Some(now)) } else { None };
    }

    pub(super) fn is_heard(&self) -> bool {
        self.heard_since.is_some()
    }

    /// Whether all that the registry had has come once since this node began.
    pub(super) fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// Takes an entry, or that it was removed (`None`).
    pub(super) fn take(&mut self, key: &Key, value: Option<&[u8]>, revision: u64, now: Time) -> Change {
        match key {
            Key::Node(name) => self.take_node(name, value, revision, now),
            Key::Stream(name) => self.take_stream(name, value, revision),
            Key::Carries(name) => self.take_carriage(name, value, revision),
        }
    }

    fn take_carriage(&mut self, name: &NodeName, value: Option<&[u8]>, revision: u64) -> Change {
        if self.carriages.get(name).is_some_and(|(_, known)| *known >= revision) {
            return Change::None;
        }
        let read = value.map(|value| CarriageEntry::read(value).ok().filter(|entry| entry.run.node == *name));
        match read {
            Some(Some(entry)) if self.carriages.len() < NODES_MAX || self.carriages.contains_key(name) => {
                self.forget_carriage(name);
                for stream in entry.streams.keys() {
                    self.carriers.entry(stream.clone()).or_default().insert(name.clone());
                }
                self.carriages.insert(name.clone(), (entry, revision));
                Change::None
            }
            // What the node said before is not so any more, whatever it says now.
            Some(_) => {
                self.forget_carriage(name);
                Change::Dropped
            }
            None => {
                self.forget_carriage(name);
                Change::None
            }
        }
    }

    fn forget_carriage(&mut self, name: &NodeName) {
        let Some((entry, _)) = self.carriages.remove(name) else { return };
        for stream in entry.streams.keys() {
            let Some(carriers) = self.carriers.get_mut(stream) else { continue };
            carriers.remove(name);
            if carriers.is_empty() {
                self.carriers.remove(stream);
            }
        }
    }

    /// What this node is known to pull, by the registry.
    pub(super) fn carriage(&self, name: &NodeName) -> Option<&CarriageEntry> {
        self.carriages.get(name).map(|(entry, _)| entry)
    }

    /// What each node is known to pull.
    pub(super) fn carriages(&self) -> impl Iterator<Item = &CarriageEntry> {
        self.carriages.values().map(|(entry, _)| entry)
    }

    /// The nodes that pull the stream from an owner of this epoch, and how; alive or not.
    pub(super) fn carriers<'a>(
        &'a self,
        name: &'a StreamName,
        epoch: u64,
    ) -> impl Iterator<Item = (&'a NodeEntry, Carried)> {
        let of = move |node: &'a NodeName| {
            let (entry, _) = self.carriages.get(node)?;
            let carried = entry.streams.get(name).filter(|carried| carried.epoch == epoch)?;
            // Another run of the node has begun since.
            let node = self.node(&entry.run.node).filter(|node| node.run == entry.run)?;
            Some((node, *carried))
        };
        self.carriers.get(name).into_iter().flatten().filter_map(of)
    }

    fn take_node(&mut self, name: &NodeName, value: Option<&[u8]>, revision: u64, now: Time) -> Change {
        if self.nodes.get(name).is_some_and(|known| known.revision >= revision) {
            return Change::None;
        }
        let Some(value) = value else {
            return if self.nodes.remove(name).is_some() { Change::Node } else { Change::None };
        };
        let entry = NodeEntry::read(value).ok().filter(|entry| entry.run.node == *name);
        match entry {
            Some(entry) if self.nodes.len() < NODES_MAX || self.nodes.contains_key(name) => {
                let was_silent = entry.run == self.own
                    && self.heard_at(&self.own).is_none_or(|seen| now.since(seen) >= self.own_silence());
                if was_silent {
                    // This node has just begun, or stood still. What the others have written may still be on its way, behind a long
                    // list too: each has a lease's time to be heard. Where another node has this one's name, its entries replace this
                    // one's each time, so that neither judges any lease until one of them is gone.
                    self.heard_since = self.heard_since.map(|_| now);
                }
                let same_run = self.nodes.get(name).filter(|known| known.entry.run == entry.run);
                let run_since = same_run.map_or(now, |known| known.run_since);
                self.nodes.insert(name.clone(), KnownNode { entry, revision, seen_at: now, run_since });
                Change::Node
            }
            _ => Change::Dropped,
        }
    }

    fn take_stream(&mut self, name: &StreamName, value: Option<&[u8]>, revision: u64) -> Change {
        let known = self.streams.get(name);
        if known.is_some_and(|known| known.revision >= revision) {
            return Change::None;
        }
        if known.is_none() && self.streams.len() >= STREAMS_MAX && !self.make_room() {
            return Change::Dropped;
        }
        let entry = value.map(StreamEntry::read);
        let epoch =
            entry.as_ref().and_then(|entry| entry.as_ref().ok()).map_or(0, |entry| entry.epoch(revision));
        self.streams.insert(name.clone(), KnownStream { entry, revision, epoch });
        Change::Stream(name.clone())
    }

    /// Forgets streams without a publisher, those that were written longest ago. Returns whether there were any.
    fn make_room(&mut self) -> bool {
        let is_over = |known: &KnownStream| match &known.entry {
            None => true,
            Some(Ok(entry)) => !entry.is_live,
            Some(Err(_)) => false,
        };
        let mut over: Vec<u64> =
            self.streams.values().filter(|known| is_over(known)).map(|known| known.revision).collect();
        over.sort_unstable();
        // Many at once, so that it is not done for each name.
        let Some(last) = over.get((over.len() / 4).min(STREAMS_MAX / 16)).copied() else { return false };
        self.streams.retain(|_, known| !is_over(known) || known.revision > last);
        true
    }

    /// The registry is heard anew, and tells all that it has: what is known goes on until that has come, and all that comes is newer,
    /// also where the bucket was made anew and counts from the beginning.
    pub(super) fn begin_list(&mut self) {
        self.streams.values_mut().for_each(|known| known.revision = 0);
        self.nodes.values_mut().for_each(|known| known.revision = 0);
        self.carriages.values_mut().for_each(|(_, revision)| *revision = 0);
        self.is_listing = true;
    }

    /// All has come that there is: what has not is there no more. Returns the streams that have gone.
    pub(super) fn end_list(&mut self) -> Vec<StreamName> {
        (self.is_listing, self.was_listed) = (false, true);
        self.nodes.retain(|_, known| known.revision > 0);
        let gone = self.carriages.iter().filter(|(_, (_, revision))| *revision == 0);
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.forget_carriage(&name);
        }
        let gone = self.streams.iter_mut().filter(|(_, known)| known.revision == 0 && known.entry.is_some());
        gone.map(|(name, known)| {
            known.entry = None;
            name.clone()
        })
        .collect()
    }

    /// A look at the registry has shown that there is no entry of the stream, whatever was known.
    pub(super) fn forget_stream(&mut self, name: &StreamName) {
        if let Some(known) = self.streams.get_mut(name) {
            (known.entry, known.revision) = (None, 0);
        }
    }

    pub(super) fn stream(&self, name: &StreamName) -> Option<&KnownStream> {
        self.streams.get(name)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (&StreamName, &KnownStream)> {
        self.streams.iter()
    }

    /// Those behind `last` by name; `None`: all.
    pub(super) fn streams_behind(
        &self,
        last: Option<&StreamName>,
    ) -> impl Iterator<Item = (&StreamName, &KnownStream)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.streams.range::<StreamName, _>((from, Bound::Unbounded))
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeEntry> {
        self.nodes.values().map(|known| &known.entry)
    }

    pub(super) fn node(&self, name: &NodeName) -> Option<&NodeEntry> {
        self.nodes.get(name).map(|known| &known.entry)
    }

    /// Whether a lease that was not renewed for so long may be taken for ended: the registry was heard all the time.
    ///
    /// A node that stood still, or of which the news hang, does not see its own lease either: it judges no other then, and none while the
    /// list of what there is still comes.
    fn judges(&self, now: Time) -> bool {
        let sees_itself = self.heard_at(&self.own).is_some_and(|seen| now.since(seen) < self.own_silence());
        sees_itself
            && !self.is_listing
            && self.heard_since.is_some_and(|since| now.since(since) >= self.lease)
    }

    /// This node's own lease has to come back as news within this time; shorter than the lease, of which the rest is the others' to be late.
    fn own_silence(&self) -> Duration {
        self.lease.checked_div(3).unwrap_or_default().saturating_mul(2)
    }

    /// Whether that run of a node goes on, as far as is known.
    pub(super) fn is_alive(&self, run: &Run, now: Time) -> bool {
        match self.nodes.get(&run.node) {
            None => !self.judges(now),
            Some(known) if known.entry.is_leaving => false,
            Some(known) if known.entry.run != *run => self.is_replaced_now(run, now),
            Some(known) => !self.judges(now) || now.since(known.seen_at) < self.lease,
        }
    }

    /// Whether another run of that one's node has begun less than a lease ago. At an upgrade it has the streams and says so of one after
    /// the other: until then the earlier run's entries hold.
    pub(super) fn is_replaced_now(&self, run: &Run, now: Time) -> bool {
        let known = self.nodes.get(&run.node).filter(|known| known.entry.run != *run);
        known.is_some_and(|known| !known.entry.is_leaving && now.since(known.run_since) < self.lease)
    }

    /// When that run of a node was last heard.
    pub(super) fn heard_at(&self, run: &Run) -> Option<Time> {
        self.nodes.get(&run.node).filter(|known| known.entry.run == *run).map(|known| known.seen_at)
    }

    /// When the lease of that run may be judged if nothing more is seen of it; `None` where it is judged only by later news: where this node
    /// does not see its own lease until then.
    pub(super) fn lease_end(&self, run: &Run) -> Option<Time> {
        let heard_for_a_lease = self.heard_since? + self.lease;
        let known = self.nodes.get(&run.node).filter(|known| !known.entry.is_leaving);
        if let Some(known) = known.filter(|known| known.entry.run != *run) {
            return Some(known.run_since + self.lease);
        }
        let end =
            known.map_or(heard_for_a_lease, |known| (known.seen_at + self.lease).max(heard_for_a_lease));
        (self.heard_at(&self.own)? + self.own_silence() > end).then_some(end)
    }

    /// The best of the live versions of the capture `group` ([`crate::policy::StreamName::version`]) among the first
    /// [`VERSIONS_MAX`] names that may be one: strangers ask for any name.
    pub(super) fn best_version(&self, group: &StreamName, now: Time) -> Option<&StreamName> {
        // Behind the name stands the height.
        let begin = StreamName::parse(&format!("{group}-0"))?;
        let is_meant = |name: &StreamName| {
            let rest = name.as_str().strip_prefix(group.as_str()).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let names = self.streams.range(begin..).take_while(|(name, _)| is_meant(name));
        let live = names.take(VERSIONS_MAX).filter(|(_, known)| {
            let entry = known.entry.as_ref().and_then(|entry| entry.as_ref().ok());
            entry.is_some_and(|entry| entry.is_live && self.is_alive(&entry.owner, now))
        });
        let versions = live.filter_map(|(name, _)| {
            let version = name.version().filter(|version| version.group == *group)?;
            Some((version.best_first(), name))
        });
        versions.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, name)| name)
    }

    /// Where the stream is, seen from `own`.
    pub(super) fn place(&self, name: &StreamName, own: &Run, now: Time) -> Place {
        let known = self.streams.get(name);
        let entry = known.and_then(|known| Some((known.entry.as_ref()?.as_ref().ok()?, known.epoch)));
        match entry {
            None => Place::Nowhere,
            Some((entry, epoch)) if entry.owner == *own && entry.is_live => Place::Here { epoch },
            Some((entry, epoch)) => Place::At {
                node: self.node(&entry.owner.node).filter(|node| node.run == entry.owner).cloned(),
                name: entry.owner.node.clone(),
                epoch,
                is_live: entry.is_live && self.is_alive(&entry.owner, now),
            },
        }
    }
}
