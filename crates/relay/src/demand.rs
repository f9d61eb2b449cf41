//! Streams that are not here yet and that an upstream server may have. The first request for such a stream has it
//! pulled; some time after its last viewer has gone, the pull ends.

mod gateway;

pub(super) use gateway::next_look;

use crate::descent::{Descent, DescentHandover};
use crate::hub::Hub;
use crate::presentation_stores::is_version_of;
use crate::pull::{Pull, PullTable};
use glassline_delivery::fill::{Failure, Object, Via};
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{Level, NodeName, Stay};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use glassline_edge::{Edge, Growing, Wake};
use glassline_io::poll::Waker;
use glassline_media::Time;
use glassline_streams::status::SourceState;
use glassline_streams::{Holder, Live, StaticDirectory, Whereabouts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
    /// How many servers of the cluster each stream is given to.
    given: Mutex<BTreeMap<StreamName, usize>>,
}

pub(super) struct Demand {
    /// Without `via`, which is told when the table of sources is made: this server's name may be another by then.
    pull: Pull,
    /// The servers of the cluster from which it comes.
    pub(super) descent: Descent,
    /// The servers by which the request came that began it, so that servers which ask each other in a circle find it; none once the
    /// stream has begun, as what is asked then is asked for this server's own viewers.
    came_by: Via,
    /// Another server of the cluster has it, or had it when that was last known: it then goes before a source of the configuration.
    is_elsewhere: bool,
    /// Wakes the requests that wait for its first bytes.
    waiting: Arc<Growing>,
    /// When a client last watched it, or asked for it.
    watched_at: Time,
    /// When it was last given to another server of the cluster.
    pub(super) given_at: Time,
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
    is_elsewhere: bool,
    #[serde(default)]
    descent: DescentHandover,
}

/// Where a stream is pulled from.
struct Plan {
    /// The source, then its alternates; at least one.
    urls: Vec<Url>,
    /// The same as servers of the cluster, where its registry names them.
    holders: Vec<Holder>,
    epoch: u64,
}

impl Demand {
    fn new(pull: Pull, is_elsewhere: bool, hub: &Hub, now: Time) -> Demand {
        let waiting = Growing::new(Object::new(), Arc::clone(&hub.inboxes) as Arc<dyn Wake>);
        let came_by = Via::default();
        let descent = Descent::default();
        Demand {
            pull,
            descent,
            came_by,
            is_elsewhere,
            waiting,
            watched_at: now,
            given_at: Time::ZERO,
            gives_way_since: None,
        }
    }

    pub(super) fn is_pulled(&self) -> bool {
        self.gives_way_since.is_none()
    }

    /// The number of the server at `source` among those that are asked.
    pub(super) fn turn_of(&self, source: &Url) -> Option<usize> {
        let first = matches!(&self.pull.source, Source::Http(url) if url == source).then_some(0);
        let further = || self.pull.alternates.iter().position(|url| url == source).map(|place| place + 1);
        first.or_else(further)
    }

    /// It comes from these servers from now on.
    fn turn_to(&mut self, pull: Pull, holders: Vec<Holder>, epoch: u64) {
        (self.pull, self.is_elsewhere) = (pull, true);
        (self.descent.holders, self.descent.epoch, self.descent.from) = (holders, epoch, None);
    }
}

impl Plan {
    fn pull(&self, edge: &Edge, name: &StreamName, mux: Mux) -> Option<Pull> {
        let (first, alternates) = self.urls.split_first()?;
        let (source, ca) = (Source::Http(first.clone()), edge.settings().ca.clone());
        Some(Pull {
            name: name.clone(),
            source,
            alternates: alternates.to_vec(),
            mux: Some(mux),
            ca,
            via: None,
            renewed: 0,
        })
    }
}

impl Demands {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, Demand>> {
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
        self.lock().values().filter(|demand| demand.is_pulled()).map(|demand| demand.pull.clone()).collect()
    }

    /// The stream `name`, if it is one of them.
    pub(super) fn pull(&self, name: &StreamName) -> Option<Pull> {
        self.lock().get(name).filter(|demand| demand.is_pulled()).map(|demand| demand.pull.clone())
    }

    /// Whether the stream `name` is one of them.
    pub(super) fn is_pulled(&self, name: &StreamName) -> bool {
        self.lock().get(name).is_some_and(Demand::is_pulled)
    }

    /// Whether the stream `name` is pulled from another server of the cluster that has it.
    pub(super) fn is_of_another(&self, name: &StreamName) -> bool {
        self.lock().get(name).is_some_and(|demand| demand.is_pulled() && demand.is_elsewhere)
    }

    /// The same, or of a version of the capture of that name.
    pub(super) fn are_of_another(&self, name: &StreamName) -> bool {
        self.have_where(name, |demand| demand.is_elsewhere)
    }

    /// Whether the stream `name` is pulled from one of several servers, or of a cluster: one that may be pulling it from here as well.
    pub(super) fn may_go_round(&self, name: &StreamName) -> bool {
        let demands = self.lock();
        demands.get(name).is_some_and(|demand| demand.is_elsewhere || !demand.pull.alternates.is_empty())
    }

    /// Whether it is one of them, or was until a publisher came that is about to take its place.
    pub(super) fn has(&self, name: &StreamName) -> bool {
        self.lock().contains_key(name)
    }

    /// Whether the stream `name` is one of them, or a version of the capture of that name is.
    pub(super) fn have(&self, name: &StreamName) -> bool {
        self.have_where(name, |_| true)
    }

    fn have_where(&self, name: &StreamName, is_meant: impl Fn(&Demand) -> bool) -> bool {
        let demands = self.lock();
        let is_meant = |demand: &Demand| demand.is_pulled() && is_meant(demand);
        let follows = (Bound::Excluded(name), Bound::Unbounded);
        let mut versions =
            demands.range(follows).filter(|(_, demand)| is_meant(demand)).map(|(version, _)| version);
        demands.get(name).is_some_and(is_meant)
            || versions
                .by_ref()
                .take_while(|version| version.as_str().starts_with(name.as_str()))
                .any(|version| is_version_of(version, name))
    }

    /// The stream `name` has begun: the requests that wait for it are woken and look again. Returns whether the table of sources has to
    /// be made anew.
    pub(super) fn tell(&self, name: &StreamName) -> bool {
        let mut demands = self.lock();
        let Some(demand) = demands.get_mut(name) else { return false };
        let waiting = Arc::clone(&demand.waiting);
        let is_news = !std::mem::take(&mut demand.came_by).is_empty();
        if !demand.is_pulled() {
            demands.remove(name);
        }
        drop(demands);
        waiting.change(|_| ());
        is_news
    }
}

impl Hub {
    /// Has the stream `name` pulled from the first upstream server that has it. The request waits for the returned
    /// object to change, and then looks for the stream again; where all servers fail, the object fails too. `None`
    /// where no upstream server is configured for it, where the configuration gives it a source and no other server has it, or where too
    /// many streams are asked for.
    /// `via` are the servers by which the request came.
    pub(super) fn demand(&self, name: &StreamName, mux: Mux, via: &Via, now: Time) -> Option<Arc<Growing>> {
        let edge = self.edge()?;
        let mut demands = self.demands.lock();
        if let Some(demand) = demands.get_mut(name) {
            demand.watched_at = now;
            return Some(Arc::clone(&demand.waiting));
        }
        let is_elsewhere = self.is_elsewhere(name);
        if demands.len() >= DEMANDS_MAX || (self.has_source(name) && !is_elsewhere) {
            return None;
        }
        let plan = self.plan(&edge, name, mux, (Level::NONE, None))?;
        let pull = plan.pull(&edge, name, mux)?;
        let descent = Descent { holders: plan.holders, epoch: plan.epoch, ..Descent::default() };
        let demand = Demand { came_by: via.clone(), descent, ..Demand::new(pull, is_elsewhere, self, now) };
        let waiting = Arc::clone(&demand.waiting);
        demands.insert(name.clone(), demand);
        drop(demands);
        if self.streams.find(name).is_some_and(|live| live.published_since().is_some()) {
            // A publisher has come since the request looked for one: it would be taken for what is pulled.
            self.demands.lock().remove(name);
            waiting.change(|_| ());
            return None;
        }
        self.rearrange_pulls();
        Some(waiting)
    }

    /// Where the stream `name` of `mux` is pulled from: from the servers that the cluster names, or else from the upstream servers. `level`
    /// is how far this server is from the publisher's, at most, and the last the server that is preferred.
    fn plan(
        &self,
        edge: &Edge,
        name: &StreamName,
        mux: Mux,
        (level, preferred): (Level, Option<&NodeName>),
    ) -> Option<Plan> {
        // A stream has one name here, whatever host a request names: the first request must not choose its servers.
        let path = format!("/live/{name}.{}", mux.extension());
        let (mut holders, mut epoch) = (Vec::new(), 0);
        let (servers, target) = match self.whereabouts(name) {
            Whereabouts::At { servers, epoch: of } => {
                (holders, epoch) = (self.holders(name, level, preferred), of);
                let named = holders.iter().map(|holder| holder.url.clone());
                (if holders.is_empty() { servers } else { named.collect() }, path)
            }
            Whereabouts::Here | Whereabouts::Away { .. } => return None,
            Whereabouts::Unknown => {
                let located = edge.locate(None, &path, "")?;
                let group = located.route.map_or(0, |route| route + 1);
                (edge.settings().groups().nth(group)?.to_vec(), located.target)
            }
        };
        let at = |server: &Url| server.at(&format!("{}{target}", server.target().trim_end_matches('/')));
        Some(Plan { urls: servers.iter().map(at).collect(), holders, epoch })
    }

    /// The stream `name` is at another server than before, or at one for the first time: what is pulled of it comes from there, and
    /// viewers here that wait for its publisher get it from there. Without any the stream ends here.
    pub(super) fn follow(&self, name: &StreamName) {
        let (Some(edge), Whereabouts::At { .. }) = (self.edge(), self.whereabouts(name)) else { return };
        let now = self.clock.now();
        // Streams are never looked for under the lock of the demands: a publisher that comes takes the two the other way round.
        let live = self.streams.find(name);
        if live.is_none() {
            // What is left of one that has ended here would be given in place of the other server's.
            self.leave_presentation(name);
        }
        let source = self.pulls().live_source(name);
        let mut demands = self.demands.lock();
        // Servers that were behind this one while it had the publisher are still: it is no farther away than they have been told.
        let of_owner = Descent { level: Level::of(1), ..Descent::default() };
        let descent = demands.get(name).map_or(of_owner, |demand| demand.descent.clone());
        let mux = match (demands.get(name), live) {
            (Some(demand), _) if !demand.is_pulled() => return,
            (Some(demand), _) => demand.pull.mux.unwrap_or_default(),
            (None, Some(live)) if live.published_since().is_some() => return,
            (None, Some(live)) => {
                // Its objects are the other server's to give from now on.
                self.leave_presentation(name);
                if live.viewers() == 0 {
                    drop(demands);
                    self.streams.end(&live);
                    return;
                }
                live.mux
            }
            (None, None) => return,
        };
        let preferred = descent.holder().map(|holder| &holder.node);
        let Some(plan) = self.plan(&edge, name, mux, (descent.level, preferred)) else { return };
        let Some(mut pull) = plan.pull(&edge, name, mux) else { return };
        let Plan { holders, epoch, .. } = plan;
        // The same servers are no reason to begin anew.
        pull.renewed = demands.get(name).map_or(0, |demand| demand.pull.renewed);
        let is_full = demands.len() >= DEMANDS_MAX;
        match demands.get_mut(name) {
            Some(demand) if demand.is_elsewhere && !holders.is_empty() => {
                // What comes goes on, and what has just been asked for is waited for.
                match self.stays(&demand.descent, &holders, epoch) {
                    Stay::Anew => {
                        demand.descent.epoch = epoch;
                        return;
                    }
                    Stay::Still => return,
                    Stay::Turn if demand.pull == pull => {
                        let turn = source.as_ref().and_then(|source| demand.turn_of(source));
                        let descent = &mut demand.descent;
                        (descent.holders, descent.epoch, descent.from) = (holders, epoch, turn);
                        return;
                    }
                    Stay::Turn => {}
                }
                demand.turn_to(pull, holders, epoch);
            }
            Some(demand) if demand.pull == pull && demand.is_elsewhere => return,
            Some(demand) => demand.turn_to(pull, holders, epoch),
            None if is_full => return,
            None => {
                let mut demand = Demand::new(pull, true, self, now);
                demand.descent = Descent { holders, epoch, ..descent };
                demands.insert(name.clone(), demand);
            }
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

    /// The map was `former`: what it places at another server now comes from there. What it places nowhere any more ends, unless a
    /// registry or upstream servers may have it. What the map has never placed is left alone: a registry that has just begun knows
    /// nothing yet.
    pub(super) fn follow_map(&self, former: &StaticDirectory) {
        let settings = self.settings();
        for Pull { name, mux, .. } in self.demands.pulls() {
            let (was, is) = (former.server(&name), settings.places.server(&name));
            if was == is {
                continue;
            }
            self.follow(&name);
            if is.is_none() && self.directory().is_none_or(|directory| directory.is_complete()) {
                self.end_unplaced(&name, mux.unwrap_or_default());
            }
        }
    }

    /// Ends the pull of the stream `name`, and the stream, where no server has it.
    fn end_unplaced(&self, name: &StreamName, mux: Mux) {
        let Some(edge) = self.edge() else { return };
        if self.plan(&edge, name, mux, (Level::NONE, None)).is_some() {
            return;
        }
        let live = self.streams.find(name);
        let published_since = |live: &Arc<Live>| live.published_since();
        let since = live.as_ref().and_then(published_since);
        let mut demands = self.demands.lock();
        let demand =
            if demands.get(name).is_some_and(Demand::is_pulled) { demands.remove(name) } else { None };
        drop(demands);
        let Some(demand) = demand else { return };
        self.rearrange_pulls();
        // A publisher that has taken the place of the pull meanwhile goes on.
        if let Some(live) = live.filter(|live| published_since(live) == since) {
            self.streams.end(&live);
        }
        demand.waiting.change(|object| object.fail(Failure::Upstream));
    }

    /// Whether LL-HLS and LL-DASH of `name` are upstream servers' to give, though its bytes are here: one viewer of
    /// `/live/NAME.ts` is no reason to make anew what others follow, with other numbers. What is made here already goes on here.
    pub(super) fn is_presented_upstream(&self, name: &StreamName) -> bool {
        self.demands.have(name) && !self.presentations.have(name)
    }

    /// What the next process needs of them.
    pub(super) fn demands_left(&self) -> Vec<DemandHandover> {
        let left = |(name, demand): (&StreamName, &Demand)| {
            let Pull { source, alternates, mux, .. } = demand.pull.clone();
            let (name, is_elsewhere, descent) =
                (name.to_string(), demand.is_elsewhere, demand.descent.left());
            Some(DemandHandover { name, source, alternates, mux: mux?, is_elsewhere, descent })
        };
        self.demands.lock().iter().filter(|(_, demand)| demand.is_pulled()).filter_map(left).collect()
    }

    /// Goes on with what another process left, where there are upstream servers still.
    pub(super) fn inherit_demands(&self, left: Vec<DemandHandover>) {
        let (settings, now) = (self.settings(), self.clock.now());
        let Some(upstream) = &settings.upstream else { return };
        for DemandHandover { name, source, alternates, mux, is_elsewhere, descent } in
            left.into_iter().take(DEMANDS_MAX)
        {
            let Some(name) = StreamName::parse(&name) else { continue };
            if is_elsewhere || !self.has_source(&name) {
                let ca = upstream.ca.clone();
                let pull = Pull {
                    name: name.clone(),
                    source,
                    alternates,
                    mux: Some(mux),
                    ca,
                    via: None,
                    renewed: 0,
                };
                let descent = Descent::inherited(descent);
                let demand = Demand { descent, ..Demand::new(pull, is_elsewhere, self, now) };
                self.demands.lock().insert(name, demand);
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
        let (now, settings) = (self.clock.now(), self.settings());
        // Another server publishes the stream of a source here: viewers here get it from there.
        for pull in settings.pulls.iter().filter(|pull| self.is_published_elsewhere(&pull.name)) {
            self.follow(&pull.name);
        }
        let pulls = self.pulls();
        let fails = |name: &StreamName| {
            let status = pulls.status(name, now);
            status.is_some_and(|status| matches!(status.state, SourceState::Waiting { .. }))
        };
        self.follow_registered();
        self.turn_to_gateways(now);
        let (mut ended, mut changed) = (Vec::new(), Vec::new());
        let names: Vec<StreamName> = self.demands.lock().keys().cloned().collect();
        let sourced = names.iter().filter(|name| self.has_source(name));
        let returning: BTreeSet<StreamName> = sourced
            .filter(|name| !self.demands.is_of_another(name) || self.returns_to_source(name, fails(name)))
            .cloned()
            .collect();
        // See `follow`.
        let mut lives: BTreeMap<_, _> =
            names.into_iter().filter_map(|name| Some((name.clone(), self.streams.find(&name)?))).collect();
        self.demands.lock().retain(|name, demand| {
            let live = lives.remove(name);
            if let Some(since) = demand.gives_way_since {
                if now.since(since) <= GIVES_WAY {
                    return true;
                }
                // The publisher did not get the name after all.
                let is_watched = live.is_some_and(|live| live.viewers() > 0);
                if is_watched {
                    (demand.gives_way_since, demand.watched_at) = (None, now);
                    changed.push(Arc::clone(&demand.waiting));
                } else {
                    ended.push((name.clone(), None, Arc::clone(&demand.waiting)));
                }
                return is_watched;
            }
            if returning.contains(name) {
                changed.push(Arc::clone(&demand.waiting));
                return false;
            }
            let store = self.presentations.find(name);
            if live.as_ref().is_some_and(|live| live.viewers() > 0) {
                demand.watched_at = now;
            }
            // Players of what is packaged here watch it, too.
            let wanted_at = store.map_or(Time::ZERO, |store| store.wanted_at());
            demand.watched_at = demand.watched_at.max(wanted_at);
            let timeout = match live {
                Some(_) => settings.return_window.clamp(UNWATCHED_LEAST, UNWATCHED),
                None => UNWATCHED,
            };
            let is_over = (live.is_none() && fails(name)) || now.since(demand.watched_at) > timeout;
            if is_over {
                ended.push((name.clone(), live, Arc::clone(&demand.waiting)));
            }
            !is_over
        });
        if ended.is_empty() && changed.is_empty() {
            return;
        }
        self.rearrange_pulls();
        changed.iter().for_each(|waiting| waiting.change(|_| ()));
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

    /// Turns pulls from servers that have died, and pulls of streams that have another owner than when they were begun.
    fn follow_registered(&self) {
        let registered = |(name, demand): (&StreamName, &Demand)| {
            let Descent { holders, epoch, .. } = &demand.descent;
            let loses = holders.is_empty() || self.loses_carrier(&demand.descent);
            (demand.is_pulled() && demand.is_elsewhere).then(|| (name.clone(), *epoch, loses))
        };
        let registered: Vec<_> = self.demands.lock().iter().filter_map(registered).collect();
        for (name, known, loses) in registered {
            let is_known =
                |whereabouts| matches!(whereabouts, Whereabouts::At { epoch, .. } if epoch == known);
            if loses || !is_known(self.whereabouts(&name)) {
                self.follow(&name);
            }
        }
    }

    /// Whether the configuration gives the stream `name` a source.
    pub(super) fn has_source(&self, name: &StreamName) -> bool {
        self.settings().pulls.iter().any(|pull| pull.name == *name)
    }

    /// Whether the stream `name`, which is pulled from another server although the configuration gives it a source, comes from that source
    /// again: that server gives nothing, and has no publisher of it. As long as it gives something it does not matter what is known of
    /// it: a registry that has just begun knows nothing.
    fn returns_to_source(&self, name: &StreamName, fails: bool) -> bool {
        self.whereabouts(name) == Whereabouts::Here || (fails && !self.is_published_elsewhere(name))
    }

    /// What is pulled: what the configuration says goes before what is asked for, but for a stream that another server has.
    pub(super) fn all_pulls(&self) -> Vec<Pull> {
        let edge = self.edge();
        let demands = self.demands.lock();
        let of = |is_elsewhere: bool| {
            let pulled = demands.values().filter(move |demand| demand.is_pulled());
            pulled.filter(move |demand| demand.is_elsewhere == is_elsewhere).map(|demand| {
                let via = edge.as_ref().map(|edge| demand.came_by.then(edge.name()));
                Pull { via, ..demand.pull.clone() }
            })
        };
        of(true).chain(self.settings().pulls.iter().cloned()).chain(of(false)).collect()
    }

    /// Makes the table of sources anew, and tells the thread that pulls.
    pub(super) fn rearrange_pulls(&self) {
        self.set_pulls(|former| PullTable::new(&self.all_pulls(), former));
        self.demands.wake();
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
