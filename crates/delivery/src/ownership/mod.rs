//! Which node of a cluster has a stream, by a registry that several machines share: a key-value bucket of which each entry has a revision
//! and can be written on the condition that the revision is still the same (compare and set), as NATS JetStream has.
//!
//! ```text
//! a publisher comes, goes ─► publish, release ─┐                ┌─► Output::Request ─► the registry
//! the registry's news ─────► handle_entry ─────┼─► Ownership ───┼─► Output::Granted, Refused, Lost ─► this node's streams
//! its answers ─────────────► handle_answer ────┘   (claims)     └─► Output::Moved ─► viewers that follow
//! ```
//! A stream's entry names its owner. A claim is written over the revision that was seen, so that of two nodes one succeeds; the revision
//! that it gets is its epoch, so that no epoch has two owners. What the registry has now decides everywhere. A publisher is taken elsewhere while the owner's lease
//! lasts only if it asks to take over. While the registry is away, what runs goes on, and publishers that come are served here; what
//! follows from that is settled when it is back.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod carriage;
mod carrying;
mod choice;
mod entry;
mod known;
mod view;

pub use carriage::{CarriageEntry, Carried};
pub use carrying::Holder;
pub use choice::{Candidate, HOPS_MAX, Level, Stay, answers, choose, gateway, refuge, stays};
pub use entry::{EntryError, Key, NodeEntry, NodeName, Run, StreamEntry, TEXT_MAX_BYTES, VALUE_MAX_BYTES};
pub use view::Place;

use crate::policy::StreamName;
use carrying::Carrying;
use glassline_media::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use view::{Change, View};

/// How a node takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The lease is renewed so often,
    pub renewal: Duration,
    /// and has ended where it was not renewed for so long.
    pub lease: Duration,
    /// A request to the registry that is not answered in this time has failed.
    pub request_timeout: Duration,
    /// After a failure the registry is asked again so much later.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let millis = Duration::from_millis;
        Settings {
            renewal: millis(400),
            lease: millis(1500),
            request_timeout: millis(1000),
            retry: millis(200),
        }
    }
}

/// What the registry is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Writes an entry whatever stands there.
    Put {
        /// Its key.
        key: Key,
        /// The entry.
        value: Vec<u8>,
    },
    /// Writes an entry where the key's revision is this one; 0: where there is no entry.
    Set {
        /// Its key.
        key: Key,
        /// The entry.
        value: Vec<u8>,
        /// The revision that it has to have.
        revision: u64,
    },
    /// Reads an entry: the newest one, not what a replica has.
    Get {
        /// Its key.
        key: Key,
    },
    /// Removes an entry.
    Remove {
        /// Its key.
        key: Key,
    },
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was written, with this revision.
    Written {
        /// The new revision.
        revision: u64,
    },
    /// Another revision stands there: nothing was written.
    Conflict,
    /// The entry, and its revision.
    Found {
        /// The entry.
        value: Vec<u8>,
        /// Its revision.
        revision: u64,
    },
    /// There is no entry.
    Absent,
    /// It is not known what came of it.
    Failed,
}

/// Why a publisher does not get a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another node has its publisher.
    #[error("the stream has a publisher at node {0}; end that one, or publish with takeover=1")]
    Taken(NodeName),
    /// Its entry is not read, and not written over.
    #[error("{0}")]
    Entry(EntryError),
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The registry is asked, and answers under this number.
    Request {
        /// The number.
        id: u64,
        /// What it is asked.
        request: Request,
    },
    /// The stream of this node's publisher has this epoch, as its only owner.
    Granted {
        /// The stream.
        name: StreamName,
        /// The epoch.
        epoch: u64,
    },
    /// The publisher has to go: the name is not this node's.
    Refused {
        /// The stream.
        name: StreamName,
        /// Why.
        why: Refusal,
    },
    /// Another node has a higher epoch: the publisher here has to go, and viewers follow.
    Lost {
        /// The stream.
        name: StreamName,
        /// Which node has it.
        owner: NodeName,
        /// Its epoch.
        epoch: u64,
    },
    /// Another node than before has a stream that has no publisher here; [`Ownership::place`] says which.
    Moved {
        /// The stream.
        name: StreamName,
    },
}

/// What is in the way to owning a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// What is known decides; it waits for the registry, or until another node's lease has ended.
    Waiting,
    /// A claim is on its way.
    Claiming { request: u64 },
    /// The registry is asked what stands there.
    Looking { request: u64 },
    /// It failed, and is asked again then.
    Pausing { until: Time },
    /// The stream is this node's.
    Owned { epoch: u64, revision: u64 },
}

#[derive(Clone, Debug)]
struct Local {
    stage: Stage,
    takes_over: bool,
    /// Since when the publisher is here.
    since: Time,
}

#[derive(Clone, Debug)]
enum Pending {
    Lease,
    Carriage,
    Claim { name: StreamName },
    Look { name: StreamName, revision: u64 },
    Release,
}

/// What is known of this node's part in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Claims that the registry has granted.
    pub granted: u64,
    /// Streams that went to another node.
    pub lost: u64,
    /// Claims that came too late.
    pub conflicts: u64,
    /// Requests that failed or were not answered in time.
    pub failed: u64,
    /// Entries that are not read, or for which there is no room.
    pub dropped: u64,
}

/// A node's part in the registry.
#[derive(Debug)]
pub struct Ownership {
    settings: Settings,
    own: NodeEntry,
    view: View,
    locals: BTreeMap<StreamName, Local>,
    carrying: Carrying,
    pending: BTreeMap<u64, (Pending, Time)>,
    next_id: u64,
    renew_at: Time,
    /// When it was last decided which leases have ended.
    decided_at: Time,
    /// A stream may stand in the registry as this node's that has no publisher here.
    has_unreleased: bool,
    outputs: VecDeque<Output>,
    counters: Counters,
}

impl Ownership {
    /// The part of the node that `own` describes, which has not heard the registry yet.
    pub fn new(settings: Settings, own: NodeEntry) -> Ownership {
        let view = View::new(settings.lease, own.run.clone());
        Ownership {
            settings,
            own,
            view,
            locals: BTreeMap::new(),
            carrying: Carrying::default(),
            pending: BTreeMap::new(),
            next_id: 1,
            renew_at: Time::NEVER,
            decided_at: Time::ZERO,
            has_unreleased: false,
            outputs: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// What the caller has to do next; `None` where nothing is.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Ownership::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Time {
        let requests = self.pending.values().map(|(_, until)| *until);
        let locals = self.locals.iter().filter_map(|(name, local)| match local.stage {
            Stage::Pausing { until } => Some(until),
            Stage::Waiting => self.lease_in_the_way(name),
            _ => None,
        });
        requests.chain(locals).fold(self.renew_at.min(self.carriage_due()), Time::min)
    }

    /// When the lease ends that keeps a publisher here waiting.
    fn lease_in_the_way(&self, name: &StreamName) -> Option<Time> {
        // Of an entry of a connection before the list decides.
        let known = self.view.stream(name).filter(|known| known.revision > 0)?;
        let end = self.view.lease_end(&known.entry.as_ref()?.as_ref().ok()?.owner)?;
        // What could not be judged at its time waits for news.
        (end > self.decided_at).then_some(end)
    }

    /// All entries that there were when the registry was heard have come: [`Ownership::handle_entry`] brings news from now on.
    pub fn handle_listed(&mut self, now: Time) {
        for name in self.view.end_list() {
            self.handle_stream(&name, now);
        }
        self.decide_all(now);
        self.begin_carrying(now);
    }

    /// What this node says of itself changes: it is told with the next renewal, and at once where the node is about to leave.
    pub fn describe(&mut self, viewers: u64, is_leaving: bool, now: Time) {
        let is_news = is_leaving != self.own.is_leaving;
        (self.own.viewers, self.own.is_leaving) = (viewers, is_leaving);
        if is_news && self.view.is_heard() {
            self.renew(now);
        }
    }

    /// This node is emptied from now on, or not any more; it is told at once.
    pub fn drain(&mut self, is_draining: bool, now: Time) {
        let is_news = is_draining != std::mem::replace(&mut self.own.is_draining, is_draining);
        if is_news && self.view.is_heard() {
            self.renew(now);
        }
    }

    /// The registry is heard from now on: all entries that there are come as news, then [`Ownership::handle_listed`], and further ones as
    /// they are written. Or it is heard no longer. Answers and news of a connection before are not handed in any more.
    pub fn handle_connection(&mut self, is_heard: bool, now: Time) {
        self.view.set_heard(is_heard, now);
        if !is_heard {
            self.renew_at = Time::NEVER;
            self.carrying.pause();
            return;
        }
        self.view.begin_list();
        // What was asked by the connection before is not answered any more.
        for id in self.pending.keys().copied().collect::<Vec<_>>() {
            self.handle_answer(id, Answer::Failed, now);
        }
        self.renew(now);
        let names: Vec<_> = self.locals.keys().cloned().collect();
        for name in names {
            // Others may have claimed it meanwhile, and it was not heard.
            self.look(&name, now);
        }
    }

    /// A publisher of the stream has come here. It may send at once; [`Output::Granted`] says that the stream is this node's,
    /// [`Output::Refused`] that it has to go.
    pub fn publish(&mut self, name: &StreamName, takes_over: bool, now: Time) {
        let local = self.locals.entry(name.clone()).or_insert(Local {
            stage: Stage::Waiting,
            takes_over,
            since: now,
        });
        local.takes_over |= takes_over;
        self.decide(name, now);
    }

    /// The stream has no publisher here any more, and waits for none.
    pub fn release(&mut self, name: &StreamName, now: Time) {
        match self.locals.remove(name).map(|local| local.stage) {
            Some(Stage::Owned { epoch, revision }) => self.give_back(name, epoch, revision, now),
            // A claim that is on its way is given back when it is known to have been granted. An entry that was not given back before
            // may stand there still.
            Some(_) => self.has_unreleased = true,
            None => {}
        }
    }

    /// An entry was written, or removed (`None`), with this revision. News may come late, twice, and out of order.
    pub fn handle_entry(&mut self, key: &Key, value: Option<&[u8]>, revision: u64, now: Time) {
        let change = self.view.take(key, value, revision, now);
        if *key == Key::Carries(self.own.run.node.clone()) {
            self.hear_own_carriage(now);
        }
        match change {
            Change::None => {}
            Change::Dropped => self.counters.dropped = self.counters.dropped.saturating_add(1),
            Change::Stream(name) => self.handle_stream(&name, now),
            Change::Node => self.decide_all(now),
        }
    }

    /// The registry has answered a request.
    pub fn handle_answer(&mut self, id: u64, answer: Answer, now: Time) {
        let Some((pending, _)) = self.pending.remove(&id) else { return };
        if answer == Answer::Failed {
            self.counters.failed = self.counters.failed.saturating_add(1);
        }
        match pending {
            Pending::Lease => {}
            Pending::Carriage => self.carrying.handle_answer(&answer),
            Pending::Release => self.has_unreleased |= !matches!(answer, Answer::Written { .. }),
            Pending::Claim { name } => self.handle_claim(id, &name, answer, now),
            Pending::Look { name, revision } => self.handle_look(id, &name, revision, answer, now),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let late: Vec<u64> =
            self.pending.iter().filter(|(_, (_, until))| *until <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.handle_answer(id, Answer::Failed, now);
        }
        if self.renew_at <= now {
            self.renew(now);
        }
        self.write_carriage(now);
        self.decided_at = now;
        self.decide_all(now);
    }

    fn renew(&mut self, now: Time) {
        self.renew_at = now + self.settings.renewal;
        let request = Request::Put { key: Key::Node(self.own.run.node.clone()), value: self.own.write() };
        self.ask(Pending::Lease, request, now);
        if std::mem::take(&mut self.has_unreleased) {
            self.release_rest(now);
        }
    }

    /// Gives back what stands in the registry as this node's and has no publisher here: it was not known that it was given back.
    fn release_rest(&mut self, now: Time) {
        let is_ours = |entry: &StreamEntry| entry.owner == self.own.run && entry.is_live;
        let rest = self.view.streams().filter_map(|(name, known)| {
            let entry = known.entry.as_ref()?.as_ref().ok().filter(|entry| is_ours(entry))?;
            (!self.locals.contains_key(name))
                .then(|| (name.clone(), entry.epoch(known.revision), known.revision))
        });
        for (name, epoch, revision) in rest.collect::<Vec<_>>() {
            self.give_back(&name, epoch, revision, now);
        }
    }

    fn ask(&mut self, pending: Pending, request: Request, now: Time) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.pending.insert(id, (pending, now + self.settings.request_timeout));
        self.outputs.push_back(Output::Request { id, request });
        id
    }

    fn look(&mut self, name: &StreamName, now: Time) {
        if !self.locals.contains_key(name) {
            return;
        }
        let request = Request::Get { key: Key::Stream(name.clone()) };
        let revision = self.view.stream(name).map_or(0, |known| known.revision);
        let request = self.ask(Pending::Look { name: name.clone(), revision }, request, now);
        if let Some(local) = self.locals.get_mut(name)
            && !matches!(local.stage, Stage::Owned { .. })
        {
            local.stage = Stage::Looking { request };
        }
    }

    fn decide_all(&mut self, now: Time) {
        let waiting = self.locals.iter().filter(|(_, local)| match local.stage {
            Stage::Waiting => true,
            Stage::Pausing { until } => until <= now,
            _ => false,
        });
        for name in waiting.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.decide(&name, now);
        }
    }

    /// What becomes of a publisher here that waits, by what is known.
    fn decide(&mut self, name: &StreamName, now: Time) {
        let Some(Local { stage, takes_over, since }) = self.locals.get(name).cloned() else { return };
        match stage {
            Stage::Pausing { until } if until <= now => return self.look(name, now),
            Stage::Waiting if self.view.is_heard() => {}
            _ => return,
        }
        let known = self.view.stream(name);
        let (revision, epoch) = known.map_or((0, 0), |known| (known.revision, known.epoch));
        // A key that was removed has a revision, and no entry.
        let has_entry = known.is_some_and(|known| known.entry.is_some());
        if has_entry && revision == 0 {
            // It is of a connection before: the list decides.
            return;
        }
        let revision = if has_entry { revision } else { 0 };
        match known.and_then(|known| known.entry.clone()) {
            Some(Err(error)) => self.refuse(name, Refusal::Entry(error)),
            Some(Ok(entry)) if entry.owner == self.own.run && entry.is_live => {
                self.own_it(name, epoch, revision);
            }
            Some(Ok(entry))
                if entry.is_live
                    && entry.owner.node != self.own.run.node
                    && !takes_over
                    && self.view.is_alive(&entry.owner, now) =>
            {
                // An encoder of a node that has just died comes here before that node's lease has ended: what the node said before does
                // not show that it is there still.
                if self.view.heard_at(&entry.owner).is_some_and(|heard| heard > since) {
                    self.refuse(name, Refusal::Taken(entry.owner.node));
                }
            }
            _ => self.claim(name, revision, now),
        }
    }

    fn refuse(&mut self, name: &StreamName, why: Refusal) {
        self.locals.remove(name);
        self.outputs.push_back(Output::Refused { name: name.clone(), why });
    }

    fn claim(&mut self, name: &StreamName, revision: u64, now: Time) {
        let value = self.own_claim().write();
        let request = Request::Set { key: Key::Stream(name.clone()), value, revision };
        let request = self.ask(Pending::Claim { name: name.clone() }, request, now);
        if let Some(local) = self.locals.get_mut(name) {
            local.stage = Stage::Claiming { request };
        }
    }

    fn own_claim(&self) -> StreamEntry {
        StreamEntry { owner: self.own.run.clone(), claimed: None, is_live: true }
    }

    /// The stream is this node's from now on.
    fn own_it(&mut self, name: &StreamName, epoch: u64, revision: u64) {
        let Some(local) = self.locals.get_mut(name) else { return };
        let was = std::mem::replace(&mut local.stage, Stage::Owned { epoch, revision });
        local.takes_over = false;
        if !matches!(was, Stage::Owned { epoch: before, .. } if before == epoch) {
            self.counters.granted = self.counters.granted.saturating_add(1);
            self.outputs.push_back(Output::Granted { name: name.clone(), epoch });
        }
    }

    fn give_back(&mut self, name: &StreamName, epoch: u64, revision: u64, now: Time) {
        let entry = StreamEntry { owner: self.own.run.clone(), claimed: Some(epoch), is_live: false };
        let request = Request::Set { key: Key::Stream(name.clone()), value: entry.write(), revision };
        self.ask(Pending::Release, request, now);
    }

    fn handle_claim(&mut self, id: u64, name: &StreamName, answer: Answer, now: Time) {
        let is_current = self
            .locals
            .get(name)
            .is_some_and(|local| matches!(local.stage, Stage::Claiming { request } if request == id));
        match answer {
            Answer::Written { revision } => {
                let value = self.own_claim().write();
                // Where its own news, or later ones, have come before, those decide.
                if self.view.take(&Key::Stream(name.clone()), Some(&value), revision, now) == Change::Dropped
                {
                    self.drop_own(name, is_current, now);
                    return;
                }
                if is_current {
                    self.own_it(name, revision, revision);
                }
                self.handle_stream(name, now);
            }
            Answer::Conflict if is_current => {
                self.counters.conflicts = self.counters.conflicts.saturating_add(1);
                self.look(name, now);
            }
            _ if is_current => self.pause(name, now),
            _ => {}
        }
    }

    /// `before` is the revision that was known when the registry was asked.
    fn handle_look(&mut self, id: u64, name: &StreamName, before: u64, answer: Answer, now: Time) {
        match answer {
            Answer::Found { value, revision } => {
                let is_current =
                    |local: &Local| matches!(local.stage, Stage::Looking { request } if request == id);
                if self.view.take(&Key::Stream(name.clone()), Some(&value), revision, now) == Change::Dropped
                {
                    let is_current = self.locals.get(name).is_some_and(is_current);
                    self.drop_own(name, is_current, now);
                    return;
                }
            }
            // What was written since is not in the answer.
            Answer::Absent if self.view.stream(name).is_none_or(|known| known.revision == before) => {
                self.view.forget_stream(name);
            }
            Answer::Absent => {}
            _ => {
                let is_current =
                    |local: &Local| matches!(local.stage, Stage::Looking { request } if request == id);
                if self.locals.get(name).is_some_and(is_current) {
                    self.pause(name, now);
                }
                return;
            }
        }
        if let Some(local) = self.locals.get_mut(name)
            && matches!(local.stage, Stage::Looking { request } if request == id)
        {
            local.stage = Stage::Waiting;
        }
        self.handle_stream(name, now);
    }

    /// There is no room for an entry that this node has asked for: it is asked for again later.
    fn drop_own(&mut self, name: &StreamName, is_current: bool, now: Time) {
        self.counters.dropped = self.counters.dropped.saturating_add(1);
        if is_current {
            self.pause(name, now);
        }
    }

    fn pause(&mut self, name: &StreamName, now: Time) {
        let until = now + self.settings.retry;
        if let Some(local) = self.locals.get_mut(name) {
            local.stage = Stage::Pausing { until };
        }
    }

    /// What is known of the stream has changed.
    fn handle_stream(&mut self, name: &StreamName, now: Time) {
        let known = self.view.stream(name).cloned();
        let (revision, epoch) = known.as_ref().map_or((0, 0), |known| (known.revision, known.epoch));
        let entry = known.and_then(|known| known.entry).and_then(Result::ok);
        let is_ours = entry.as_ref().is_some_and(|entry| entry.owner == self.own.run && entry.is_live);
        let Some(local) = self.locals.get_mut(name) else {
            match entry {
                // A claim that was given up has been granted after all.
                Some(_) if is_ours => self.give_back(name, epoch, revision, now),
                _ => self.outputs.push_back(Output::Moved { name: name.clone() }),
            }
            return;
        };
        match (&mut local.stage, entry) {
            (Stage::Owned { .. } | Stage::Claiming { .. }, Some(_)) if is_ours => {
                self.own_it(name, epoch, revision);
            }
            (Stage::Owned { .. }, Some(entry)) if entry.owner != self.own.run => {
                self.locals.remove(name);
                self.counters.lost = self.counters.lost.saturating_add(1);
                self.outputs.push_back(Output::Lost { name: name.clone(), owner: entry.owner.node, epoch });
            }
            // It was removed by hand, or the bucket was made anew.
            (Stage::Owned { .. }, _) => {
                local.stage = Stage::Waiting;
                self.decide(name, now);
            }
            (Stage::Waiting, _) => self.decide(name, now),
            // A request is on its way, and its answer decides.
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "carrying_tests.rs"]
mod carrying_tests;
#[cfg(test)]
#[path = "simulation_tests.rs"]
mod simulation_tests;
#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
