//! What this server knows of the cluster, where all threads look at it.

use crate::Settings;
use crate::status::{Carrier, NodeStatus, RegistryState, Status, StreamPlace, UnreadEntry};
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{self, Carried, Level, NodeEntry, NodeName, Ownership, Place, Run};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_streams::{Directory, Holder, NameRefusal, Whereabouts};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// When a stream of a server that is away may be asked for again: its lease has ended by then, or another server has the stream.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A stream of a server that has not been heard for so long is at no server.
const FORGOTTEN: Duration = Duration::from_secs(60);
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
#[derive(Debug)]
pub struct Member {
    pub(crate) run: Run,
    pub(crate) clock: Clock,
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

    /// What there is to tell.
    pub fn status(&self) -> Status {
        let now = self.clock.now();
        let ownership = self.ownership();
        let counters = ownership.counters();
        let node = |entry: &NodeEntry| NodeStatus {
            name: entry.run.node.to_string(),
            // A `Url` shows no key.
            address: entry.address.parse::<Url>().map_or_else(|_| "no URL".to_owned(), |url| url.to_string()),
            zone: entry.zone.clone(),
            version: entry.version.clone(),
            viewers: entry.viewers,
            alive: ownership.is_alive(&entry.run, now),
            leaving: entry.is_leaving,
            draining: entry.is_draining,
            own: entry.run == self.run,
        };
        let nodes = ownership.nodes().map(node).collect();
        let names: Vec<_> = ownership.streams().map(|(name, _)| name.clone()).collect();
        let mut carriers = BTreeMap::<StreamName, Vec<Carrier>>::new();
        for entry in ownership.carriages().filter(|entry| ownership.is_alive(&entry.run, now)) {
            for (name, Carried { hops, .. }) in &entry.streams {
                let carrier = Carrier { node: entry.run.node.to_string(), hops: *hops };
                carriers.entry(name.clone()).or_default().push(carrier);
            }
        }
        let stream = |name: StreamName| {
            let (node, epoch, live) = match ownership.place(&name, now) {
                Place::Here { epoch } => (self.run.node.to_string(), epoch, true),
                Place::At { name, epoch, is_live, .. } => (name.to_string(), epoch, is_live),
                Place::Nowhere => return None,
            };
            let carriers = carriers.remove(&name).unwrap_or_default();
            Some(StreamPlace { name: name.to_string(), node, epoch, live, carriers })
        };
        let streams = names.into_iter().filter_map(stream).collect();
        let unread = ownership.unread();
        let unread =
            unread.map(|(name, error)| UnreadEntry { name: name.to_string(), error: error.to_string() });
        let unread = unread.collect();
        let heard = ownership.is_heard();
        drop(ownership);
        let mut registry = self.registry().clone();
        registry.heard = heard;
        registry.twin = self.has_twin(now);
        registry.error = registry.error.filter(|_| !heard);
        (registry.claims, registry.lost) = (counters.granted, counters.lost);
        (registry.conflicts, registry.failed) = (counters.conflicts, counters.failed);
        registry.dropped = registry.dropped.saturating_add(counters.dropped);
        Status { node: self.run.node.to_string(), registry, nodes, streams, unread }
    }
}

impl Directory for Member {
    fn find(&self, name: &StreamName) -> Whereabouts {
        let now = self.clock.now();
        let ownership = self.ownership();
        match ownership.place(name, now) {
            Place::Here { .. } => Whereabouts::Here,
            Place::Nowhere => Whereabouts::Unknown,
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
            // Another run of its node has begun since.
            Place::At { .. } => Whereabouts::Unknown,
        }
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
mod tests {
    use super::*;

    #[test]
    fn another_server_of_the_same_name_is_told_of_until_it_has_not_been_heard_for_three_leases() {
        let settings = Settings {
            servers: Vec::new(),
            credentials: None,
            ca: None,
            bucket: "b".to_owned(),
            replicas: 1,
            node: ownership::NodeName::parse("a").unwrap(),
            address: "http://h".to_owned(),
            public: String::new(),
            zone: String::new(),
            version: String::new(),
        };
        let member = Member::new(&settings, 7, Clock::new());
        let at = Time::from_millis;
        assert!(!member.has_twin(at(1000)) && member.note_twin(at(1000)) && !member.note_twin(at(1400)));
        assert!(member.has_twin(at(5899)) && !member.has_twin(at(5900)));
        assert!(member.note_twin(at(6000)), "it is told of again");
        assert_eq!(ownership::Settings::default().lease * 3, TWIN_LASTS);
    }
}
