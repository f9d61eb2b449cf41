//! Streams that are not here yet and that an upstream server may have. The first request for such a stream has it
//! pulled; some time after its last viewer has gone, the pull ends.

use crate::hub::Hub;
use crate::presentation_stores::is_version_of;
use crate::pull::{Pull, PullTable};
use glassline_delivery::fill::{Failure, Object, Via};
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use glassline_edge::{Edge, Growing, Wake};
use glassline_io::poll::Waker;
use glassline_media::Time;
use glassline_streams::Whereabouts;
use glassline_streams::status::SourceState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Streams that are pulled on demand at once; strangers choose their names.
const DEMANDS_MAX: usize = 256;
/// How long one goes on without a viewer, where `return_window` is no shorter.
const UNWATCHED: Duration = Duration::from_secs(30);
/// The same at least: a viewer that its first bytes have woken has to come.
const UNWATCHED_LEAST: Duration = Duration::from_secs(1);

/// A publisher that takes the place of a pull has its slot within this time, or does not get it.
const GIVES_WAY: Duration = Duration::from_secs(1);

/// The streams that are pulled because clients have asked for them.
#[derive(Default)]
pub(super) struct Demands {
    demands: Mutex<BTreeMap<StreamName, Demand>>,
    /// Wakes the thread that pulls.
    waker: Mutex<Option<Waker>>,
}

struct Demand {
    pull: Pull,
    /// Wakes the requests that wait for its first bytes.
    waiting: Arc<Growing>,
    /// When a client last watched it, or asked for it.
    watched_at: Time,
    /// Since when a publisher here takes its place: nothing is pulled any more, and requests wait for the publisher.
    gives_way_since: Option<Time>,
}

/// One, as a process leaves it to the next: what is watched goes on there.
#[derive(Serialize, Deserialize)]
pub(super) struct DemandHandover {
    name: String,
    source: Source,
    alternates: Vec<Url>,
    mux: Mux,
    #[serde(default)]
    via: Option<String>,
}

impl Demand {
    fn new(pull: Pull, hub: &Hub, now: Time) -> Demand {
        let waiting = Growing::new(Object::new(), Arc::clone(&hub.inboxes) as Arc<dyn Wake>);
        Demand { pull, waiting, watched_at: now, gives_way_since: None }
    }
}

impl Demands {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, Demand>> {
        // Whole after every single change.
        self.demands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that pulls is woken so.
    pub(super) fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// The streams.
    pub(super) fn pulls(&self) -> Vec<Pull> {
        let demands = self.lock();
        demands
            .values()
            .filter(|demand| demand.gives_way_since.is_none())
            .map(|demand| demand.pull.clone())
            .collect()
    }

    /// Whether the stream `name` is one of them.
    pub(super) fn is_pulled(&self, name: &StreamName) -> bool {
        self.lock().get(name).is_some_and(|demand| demand.gives_way_since.is_none())
    }

    /// Whether the stream `name` is one of them, or a version of the capture of that name is.
    pub(super) fn have(&self, name: &StreamName) -> bool {
        let demands = self.lock();
        let follows = (Bound::Excluded(name), Bound::Unbounded);
        let is_pulled = |demand: &Demand| demand.gives_way_since.is_none();
        let mut versions =
            demands.range(follows).filter(|(_, demand)| is_pulled(demand)).map(|(version, _)| version);
        demands.get(name).is_some_and(is_pulled)
            || versions
                .by_ref()
                .take_while(|version| version.as_str().starts_with(name.as_str()))
                .any(|version| is_version_of(version, name))
    }

    /// The stream `name` has begun: the requests that wait for it are woken and look again.
    pub(super) fn tell(&self, name: &StreamName) {
        let mut demands = self.lock();
        let waiting = demands.get(name).map(|demand| Arc::clone(&demand.waiting));
        if demands.get(name).is_some_and(|demand| demand.gives_way_since.is_some()) {
            demands.remove(name);
        }
        drop(demands);
        if let Some(waiting) = waiting {
            waiting.change(|_| ());
        }
    }
}

impl Hub {
    /// Has the stream `name` pulled from the first upstream server that has it. The request waits for the returned
    /// object to change, and then looks for the stream again; where all servers fail, the object fails too. `None`
    /// where no upstream server is configured for it, where the configuration gives it a source, or where too many
    /// streams are asked for.
    /// `via` are the servers by which the request came.
    pub(super) fn demand(&self, name: &StreamName, mux: Mux, via: &Via, now: Time) -> Option<Arc<Growing>> {
        let edge = self.edge()?;
        let mut demands = self.demands.lock();
        if let Some(demand) = demands.get_mut(name) {
            demand.watched_at = now;
            return Some(Arc::clone(&demand.waiting));
        }
        if demands.len() >= DEMANDS_MAX || self.settings().pulls.iter().any(|pull| pull.name == *name) {
            return None;
        }
        let mut urls = self.servers_of(&edge, name, mux)?.into_iter();
        let (source, alternates) = (Source::Http(urls.next()?), urls.collect());
        let (ca, via) = (edge.settings().ca.clone(), Some(via.then(edge.name())));
        let pull = Pull { name: name.clone(), source, alternates, mux: Some(mux), ca, via };
        let demand = Demand::new(pull, self, now);
        let waiting = Arc::clone(&demand.waiting);
        demands.insert(name.clone(), demand);
        drop(demands);
        self.rearrange_pulls();
        Some(waiting)
    }

    /// Where the stream `name` of `mux` is pulled from: from the servers that the cluster names, or else from the upstream servers.
    fn servers_of(&self, edge: &Edge, name: &StreamName, mux: Mux) -> Option<Vec<Url>> {
        // A stream has one name here, whatever host a request names: the first request must not choose its servers.
        let path = format!("/live/{name}.{}", mux.extension());
        let (servers, target) = match self.whereabouts(name) {
            Whereabouts::At { servers, .. } => (servers, path),
            Whereabouts::Here | Whereabouts::Away { .. } => return None,
            Whereabouts::Unknown => {
                let located = edge.locate(None, &path, "")?;
                let group = located.route.map_or(0, |route| route + 1);
                (edge.settings().groups().nth(group)?.to_vec(), located.target)
            }
        };
        let at = |server: &Url| server.at(&format!("{}{target}", server.target().trim_end_matches('/')));
        Some(servers.iter().map(at).collect())
    }

    /// The stream `name` is at another server than before, or at one for the first time: what is pulled of it comes from there, and
    /// viewers here that wait for its publisher get it from there. Without any the stream ends here.
    pub(super) fn follow(&self, name: &StreamName) {
        let (Some(edge), Whereabouts::At { .. }) = (self.edge(), self.whereabouts(name)) else { return };
        let now = self.clock.now();
        // Streams are never looked for under the lock of the demands: a publisher that comes takes the two the other way round.
        let live = self.streams.find(name);
        let mut demands = self.demands.lock();
        let (mux, via) = match (demands.get(name), live) {
            (Some(demand), _) if demand.gives_way_since.is_some() => return,
            (Some(demand), _) => (demand.pull.mux.unwrap_or_default(), demand.pull.via.clone()),
            (None, Some(live)) if live.published_since().is_some() => return,
            (None, Some(live)) => {
                // Its objects are the other server's to give from now on.
                self.presentations.remove(name);
                if live.viewers() == 0 {
                    drop(demands);
                    self.streams.end(&live);
                    return;
                }
                (live.mux, Some(Via::default().then(edge.name())))
            }
            (None, None) => return,
        };
        let Some(mut urls) = self.servers_of(&edge, name, mux).map(Vec::into_iter) else { return };
        let Some(first) = urls.next() else { return };
        let (source, alternates, ca) = (Source::Http(first), urls.collect(), edge.settings().ca.clone());
        let pull = Pull { name: name.clone(), source, alternates, mux: Some(mux), ca, via };
        let is_full = demands.len() >= DEMANDS_MAX;
        match demands.get_mut(name) {
            Some(demand) if demand.pull == pull => return,
            Some(demand) => demand.pull = pull,
            None if is_full => return,
            None => drop(demands.insert(name.clone(), Demand::new(pull, self, now))),
        }
        drop(demands);
        tracing::info!(stream = %name, "the stream is at another server of the cluster now: it is pulled from there");
        self.rearrange_pulls();
    }

    /// Ends the pull of the stream `name`, for a publisher here to take its place; the stream goes on, and requests that wait for it wait
    /// for the publisher. Returns whether there was one.
    pub(super) fn end_demand(&self, name: &StreamName) -> bool {
        let now = self.clock.now();
        let mut demands = self.demands.lock();
        let Some(demand) = demands.get_mut(name).filter(|demand| demand.gives_way_since.is_none()) else {
            return false;
        };
        demand.gives_way_since = Some(now);
        drop(demands);
        self.rearrange_pulls();
        true
    }

    /// Has all that is pulled on demand come from where it is now: the map has changed. What is nowhere any more ends.
    pub(super) fn follow_all(&self) {
        for name in self.demands.pulls().into_iter().map(|pull| pull.name) {
            match (self.whereabouts(&name), self.edge()) {
                (Whereabouts::At { .. }, Some(_)) => self.follow(&name),
                (Whereabouts::Unknown, Some(edge))
                    if self.servers_of(&edge, &name, Mux::default()).is_none() =>
                {
                    let demand = self.demands.lock().remove(&name);
                    self.rearrange_pulls();
                    self.streams.find(&name).into_iter().for_each(|live| self.streams.end(&live));
                    demand.into_iter().for_each(|demand| {
                        demand.waiting.change(|object| object.fail(Failure::Upstream));
                    });
                }
                _ => {}
            }
        }
    }

    /// Whether LL-HLS and LL-DASH of `name` are upstream servers' to give, though its bytes are here: one viewer of
    /// `/live/NAME.ts` is no reason to make anew what others follow, with other numbers. What is made here already goes on here.
    pub(super) fn is_presented_upstream(&self, name: &StreamName) -> bool {
        self.demands.have(name) && !self.presentations.have(name)
    }

    /// What the next process needs of them.
    pub(super) fn demands_left(&self) -> Vec<DemandHandover> {
        let left = |(name, demand): (&StreamName, &Demand)| {
            let Pull { source, alternates, mux, via, .. } = demand.pull.clone();
            Some(DemandHandover { name: name.to_string(), source, alternates, mux: mux?, via })
        };
        self.demands
            .lock()
            .iter()
            .filter(|(_, demand)| demand.gives_way_since.is_none())
            .filter_map(left)
            .collect()
    }

    /// Goes on with what another process left, where there are upstream servers still.
    pub(super) fn inherit_demands(&self, left: Vec<DemandHandover>) {
        let (settings, now) = (self.settings(), self.clock.now());
        let Some(upstream) = &settings.upstream else { return };
        for DemandHandover { name, source, alternates, mux, via } in left.into_iter().take(DEMANDS_MAX) {
            let Some(name) = StreamName::parse(&name) else { continue };
            if settings.pulls.iter().all(|pull| pull.name != name) {
                let ca = upstream.ca.clone();
                let pull = Pull { name: name.clone(), source, alternates, mux: Some(mux), ca, via };
                self.demands.lock().insert(name, Demand::new(pull, self, now));
            }
        }
        self.rearrange_pulls();
    }

    /// Whether the stream `name`, or a version of the capture of that name, is being received, and has been since `since`.
    pub(super) fn receives(&self, name: &StreamName, since: Time) -> bool {
        let mut lives = self.streams.find(name).into_iter().chain(self.versions_of(name));
        lives.any(|live| live.published_since().is_some_and(|began| began <= since))
    }

    /// Ends the pulls of streams that no upstream server has, or that no client watches. Called by one worker at its
    /// sweeps.
    pub(super) fn look_at_demands(&self) {
        let (now, pulls, settings) = (self.clock.now(), self.pulls(), self.settings());
        let mut ended = Vec::new();
        let names: Vec<StreamName> = self.demands.lock().keys().cloned().collect();
        // See `follow`.
        let mut lives: BTreeMap<_, _> =
            names.into_iter().filter_map(|name| Some((name.clone(), self.streams.find(&name)?))).collect();
        self.demands.lock().retain(|name, demand| {
            if let Some(since) = demand.gives_way_since {
                // The publisher did not get the name after all.
                let is_over = now.since(since) > GIVES_WAY;
                if is_over {
                    ended.push((name.clone(), None, Arc::clone(&demand.waiting)));
                }
                return !is_over;
            }
            let (live, store) = (lives.remove(name), self.presentations.find(name));
            if live.as_ref().is_some_and(|live| live.viewers() > 0) {
                demand.watched_at = now;
            }
            // Players of what is packaged here watch it, too.
            let wanted_at = store.map_or(Time::ZERO, |store| store.wanted_at());
            demand.watched_at = demand.watched_at.max(wanted_at);
            let status = pulls.status(name, now);
            let fails = status.is_some_and(|status| matches!(status.state, SourceState::Waiting { .. }));
            let timeout = match live {
                Some(_) => settings.return_window.clamp(UNWATCHED_LEAST, UNWATCHED),
                None => UNWATCHED,
            };
            let is_over = (live.is_none() && fails) || now.since(demand.watched_at) > timeout;
            if is_over {
                ended.push((name.clone(), live, Arc::clone(&demand.waiting)));
            }
            !is_over
        });
        if ended.is_empty() {
            return;
        }
        self.rearrange_pulls();
        for (name, live, waiting) in ended {
            // The stream ends with its pull: it would stand still, and the next viewers would get its old bytes in
            // place of new ones.
            if let Some(live) = live {
                tracing::info!(stream = %name, "no client watches it: it is pulled no longer");
                self.streams.end(&live);
            }
            if self.streams.find(&name).is_none() {
                self.presentations.remove(&name);
            }
            waiting.change(|object| object.fail(Failure::Upstream));
        }
    }

    /// Makes the table of sources anew, and tells the thread that pulls.
    fn rearrange_pulls(&self) {
        self.set_pulls(|former| {
            let settings = self.settings();
            let all: Vec<Pull> = settings.pulls.iter().cloned().chain(self.demands.pulls()).collect();
            PullTable::new(&all, former)
        });
        self.demands.wake();
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
