//! What this server knows of the cluster, where all threads look at it.

use crate::Settings;
use crate::status::{Carrier, Figures, NodeStatus, RegistryState, Status, StreamPlace, UnreadEntry};
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{
    self, Carried, EntryError, Level, NodeEntry, NodeName, Ownership, Place, Run,
};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_streams::{Directory, Holder, NameRefusal, Whereabouts};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// When a stream of a server that is away may be asked for again: its lease has ended by then, or another server has the stream.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A stream of a server that has not been heard for so long is at no server.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A server that has just begun knows within this time what the registry has, or answers as if that were nothing.
const LISTED_WITHIN: Duration = Duration::from_secs(10);
/// Streams that are told of in a row while all that ask for a stream wait.
const STREAMS_A_TURN: usize = 512;
/// The same of servers, each of which may pull some hundred streams.
const NODES_A_TURN: usize = 8;
/// How long another server of this one's name is told of after it was last heard: three leases.
const TWIN_LASTS: Duration = Duration::from_millis(4500);
/// How long a publisher may take from being let in to being seen.
const TAKEOVER_LASTS: Duration = Duration::from_secs(1);
/// Publishers that take over between two looks at most.
const TAKEOVERS_MAX: usize = 1024;

/// What the cluster asks of the server that it is a part of.
pub trait Server: Send + Sync {
    /// The streams that have their publisher here.
    fn publishers(&self) -> Vec<StreamName>;

    /// Viewers of all streams.
    fn viewers(&self) -> u64;

    /// Whether it is emptied.
    fn is_draining(&self) -> bool;

    /// The streams that are pulled from other servers, and may be given on.
    fn carried(&self) -> BTreeMap<StreamName, Carried>;

    /// Another node has the stream: a publisher of it here ends, and viewers here get it from there.
    fn give_up(&self, name: &StreamName);

    /// The stream is at another node than before, or at one for the first time: what is pulled of it comes from there.
    fn follow(&self, name: &StreamName);
}

/// See the module.
pub struct Member {
    pub(crate) run: Run,
    pub(crate) clock: Clock,
    begun_at: Time,
    ownership: Mutex<Ownership>,
    /// Publishers that have asked to take their stream over from another node, and when.
    takeovers: Mutex<BTreeMap<StreamName, Time>>,
    registry: Mutex<RegistryState>,
    /// When another server was last heard that has this one's name.
    twin_at: Mutex<Option<Time>>,
    /// Wakes the thread: publishers have come or gone, or it has to end.
    pub(crate) news: Notify,
    ends: AtomicBool,
    /// It ends without telling the others.
    is_paused: AtomicBool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it asks of the registry has keys.
        f.debug_struct("Member").field("run", &self.run).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is whole after every single change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    pub(crate) fn new(settings: &Settings, incarnation: u64, clock: Clock) -> Member {
        let run = Run { node: settings.node.clone(), incarnation };
        let own = NodeEntry {
            run: run.clone(),
            address: settings.address.clone(),
            zone: settings.zone.clone(),
            version: settings.version.clone(),
            viewers: 0,
            is_leaving: false,
            public: settings.public.clone(),
            is_draining: false,
        };
        Member {
            run,
            begun_at: clock.now(),
            clock,
            ownership: Mutex::new(Ownership::new(ownership::Settings::default(), own)),
            takeovers: Mutex::default(),
            registry: Mutex::new(RegistryState {
                bucket: settings.bucket.clone(),
                ..RegistryState::default()
            }),
            twin_at: Mutex::default(),
            news: Notify::new(),
            ends: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
        }
    }

    pub(crate) fn ownership(&self) -> MutexGuard<'_, Ownership> {
        locked(&self.ownership)
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, RegistryState> {
        locked(&self.registry)
    }

    /// Whether the publisher of the stream that has come has just asked to take it over.
    pub(crate) fn take_takeover(&self, name: &StreamName, now: Time) -> bool {
        locked(&self.takeovers).remove(name).is_some_and(|at| now.since(at) < TAKEOVER_LASTS)
    }

    /// Forgets the publishers that asked long ago: each has not got its name, or had it before.
    pub(crate) fn forget_takeovers(&self, now: Time) {
        locked(&self.takeovers).retain(|_, at| now.since(*at) < TAKEOVER_LASTS);
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.news.notify_one();
    }

    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Ordering::Release);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Another server has been heard that has this one's name. Returns whether that is news.
    pub(crate) fn note_twin(&self, now: Time) -> bool {
        let was = self.has_twin(now);
        *locked(&self.twin_at) = Some(now);
        !was
    }

    fn has_twin(&self, now: Time) -> bool {
        locked(&self.twin_at).is_some_and(|at| now.since(at) < TWIN_LASTS)
    }

    /// Has all streams of the registry told of by name, those with an entry that is not read too: which node has one, its epoch and
    /// whether it is live.
    fn each_stream(
        &self,
        now: Time,
        mut tell: impl FnMut(&StreamName, Result<(&NodeName, u64, bool), EntryError>),
    ) {
        let mut last: Option<StreamName> = None;
        loop {
            let next = {
                // Workers ask for streams, and the thread has news: none waits until all are told of.
                let ownership = self.ownership();
                let mut names = ownership.streams_behind(last.as_ref(), now);
                let mut end = None;
                for (name, seen) in names.by_ref().take(STREAMS_A_TURN) {
                    tell(name, seen);
                    end = Some(name);
                }
                end.filter(|_| names.next().is_some()).cloned()
            };
            if next.is_none() {
                return;
            }
            last = next;
        }
    }

    fn registry_now(&self, now: Time) -> RegistryState {
        let (counters, heard) = {
            let ownership = self.ownership();
            (ownership.counters(), ownership.is_heard())
        };
        let mut registry = self.registry().clone();
        registry.heard = heard;
        registry.twin = self.has_twin(now);
        registry.error = registry.error.filter(|_| !heard);
        (registry.claims, registry.lost) = (counters.granted, counters.lost);
        (registry.conflicts, registry.failed) = (counters.conflicts, counters.failed);
        registry.dropped = registry.dropped.saturating_add(counters.dropped);
        registry
    }

    /// The servers that say they pull a stream, by its name.
    fn carriers(&self, now: Time) -> BTreeMap<StreamName, Vec<Carrier>> {
        let mut carriers = BTreeMap::<StreamName, Vec<Carrier>>::new();
        for first in (0..).step_by(NODES_A_TURN) {
            let ownership = self.ownership();
            let mut is_over = true;
            for entry in ownership.carriages().skip(first).take(NODES_A_TURN) {
                is_over = false;
                if !ownership.is_alive(&entry.run, now) {
                    continue;
                }
                for (name, Carried { hops, .. }) in &entry.streams {
                    let carrier = Carrier { node: entry.run.node.to_string(), hops: *hops };
                    carriers.entry(name.clone()).or_default().push(carrier);
                }
            }
            if is_over {
                break;
            }
        }
        carriers
    }

    /// What there is to tell.
    pub fn status(&self) -> Status {
        let now = self.clock.now();
        let nodes: Vec<_> = {
            let ownership = self.ownership();
            ownership.nodes().map(|entry| (entry.clone(), ownership.is_alive(&entry.run, now))).collect()
        };
        let node = |(entry, alive): (NodeEntry, bool)| NodeStatus {
            name: entry.run.node.to_string(),
            // A `Url` shows no key.
            address: entry.address.parse::<Url>().map_or_else(|_| "no URL".to_owned(), |url| url.to_string()),
            own: entry.run == self.run,
            zone: entry.zone,
            version: entry.version,
            viewers: entry.viewers,
            alive,
            leaving: entry.is_leaving,
            draining: entry.is_draining,
        };
        let nodes = nodes.into_iter().map(node).collect();
        let mut carriers = self.carriers(now);
        let (mut streams, mut unread) = (Vec::new(), Vec::new());
        self.each_stream(now, |name, seen| match seen {
            Ok((node, epoch, live)) => {
                let (node, carriers) = (node.to_string(), carriers.remove(name).unwrap_or_default());
                streams.push(StreamPlace { name: name.to_string(), node, epoch, live, carriers });
            }
            Err(error) => unread.push(UnreadEntry { name: name.to_string(), error: error.to_string() }),
        });
        let registry = self.registry_now(now);
        Status { node: self.run.node.to_string(), registry, nodes, streams, unread }
    }

    /// What there is to count.
    pub fn figures(&self) -> Figures {
        let now = self.clock.now();
        let nodes_alive = {
            let ownership = self.ownership();
            ownership.nodes().filter(|entry| ownership.is_alive(&entry.run, now)).count() as u64
        };
        let mut figures = Figures { registry: self.registry_now(now), nodes_alive, ..Figures::default() };
        self.each_stream(now, |_, seen| match seen {
            Ok((node, _, true)) if *node == self.run.node => figures.streams_here += 1,
            Ok((_, _, true)) => figures.streams_elsewhere += 1,
            Ok(_) => {}
            Err(_) => figures.entries_unread += 1,
        });
        figures
    }

    /// Where a stream is that no node is known to have: at none, or it is not known yet, since this server has just begun. A player
    /// takes "not found" for the stream's end, and asks again after "away".
    fn unknown(&self, name: &StreamName, ownership: &Ownership, now: Time) -> Whereabouts {
        let is_here = |here: &StreamName| {
            // A ladder has no entry, its versions have.
            let version = here.as_str().strip_prefix(name.as_str());
            version.is_some_and(|version| version.is_empty() || version.starts_with('-'))
        };
        if ownership.was_listed()
            || now.since(self.begun_at) >= LISTED_WITHIN
            || ownership.publishing().any(is_here)
        {
            return Whereabouts::Unknown;
        }
        Whereabouts::Away { retry_after: RETRY_AFTER }
    }
}

impl Directory for Member {
    fn find(&self, name: &StreamName) -> Whereabouts {
        let now = self.clock.now();
        let ownership = self.ownership();
        match ownership.place(name, now) {
            Place::Here { .. } => Whereabouts::Here,
            Place::Nowhere => self.unknown(name, &ownership, now),
            // A run of this server that has ended.
            Place::At { name: node, .. } if node == self.run.node => Whereabouts::Unknown,
            Place::At { node: Some(node), epoch, .. } => {
                let is_alive = ownership.is_alive(&node.run, now);
                let seen_at = ownership.seen_at(&node.run).unwrap_or(Time::ZERO);
                match node.address.parse::<Url>() {
                    // Without a publisher the node may have what viewers still read of the stream.
                    Ok(url) if is_alive => Whereabouts::At { servers: vec![url], epoch },
                    _ if !ownership.is_published(name) || now.since(seen_at) > FORGOTTEN => {
                        Whereabouts::Unknown
                    }
                    _ => Whereabouts::Away { retry_after: RETRY_AFTER },
                }
            }
            // Another run of its node has begun just now, and has not said yet that it has the stream.
            Place::At { is_live: true, .. } => Whereabouts::Away { retry_after: RETRY_AFTER },
            // Another run of its node has begun since, or none has been heard.
            Place::At { .. } => self.unknown(name, &ownership, now),
        }
    }

    fn find_version(&self, group: &StreamName) -> Whereabouts {
        let version = self.ownership().best_version(group, self.clock.now()).cloned();
        version.map_or(Whereabouts::Unknown, |version| self.find(&version))
    }

    fn is_complete(&self) -> bool {
        self.ownership().was_listed()
    }

    fn holders(&self, name: &StreamName, level: Level, from: Option<&NodeName>) -> Vec<Holder> {
        let holders = self.ownership().holders(name, level, from, self.clock.now());
        let holder = |holder: ownership::Holder| {
            let url = holder.address.parse::<Url>().ok()?;
            Some(Holder { node: holder.node, url, hops: holder.hops })
        };
        holders.into_iter().filter_map(holder).collect()
    }

    fn may_carry(&self, node: &NodeName) -> bool {
        self.ownership().may_carry(node, self.clock.now())
    }

    fn gateway(&self, name: &StreamName, from: &NodeName) -> Option<NodeName> {
        self.ownership().gateway(name, from, self.clock.now())
    }

    fn refuge(&self, name: &StreamName) -> Option<Url> {
        self.ownership().refuge(name, self.clock.now())?.public.parse().ok()
    }

    fn may_publish(&self, name: &StreamName, takes_over: bool) -> Result<(), NameRefusal> {
        let refused = self.ownership().may_publish(name, takes_over, self.clock.now());
        refused.map_err(|why| NameRefusal(why.to_string()))?;
        if takes_over {
            let mut takeovers = locked(&self.takeovers);
            if takeovers.len() < TAKEOVERS_MAX {
                takeovers.insert(name.clone(), self.clock.now());
            }
        }
        Ok(())
    }

    fn publishers_changed(&self) {
        self.news.notify_one();
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
