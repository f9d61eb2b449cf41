//! What the threads of a relay share: its settings, its [`Streams`], its [`Inboxes`], its counters, and whether they
//! run.

use crate::access::{Access, OpenRequest};
use crate::certificates::Certificates;
use crate::configuration::Configuration;
use crate::counters::RelayCounters;
use crate::demand::Demands;
use crate::descent::PassedOver;
use crate::descriptors::Division;
use crate::draining::{DrainPlan, Draining};
use crate::first_bytes::{FirstByteReport, FirstByteRooms};
use crate::inboxes::Inboxes;
use crate::inboxes::Message;
use crate::ingest::Ingests;
use crate::long_answers::LongAnswers;
use crate::marking::Marker;
use crate::memory;
use crate::output::{Destinations, OutputTable};
use crate::presentation_stores::PresentationStores;
use crate::pull::PullTable;
use crate::recorder::Recorder;
use crate::roster::{Clients, Roster};
use crate::status::Totals;
use crate::{ListenerRole, Settings, Site};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{Load, StreamName};
use glassline_delivery::stream::{Mux, Pacing};
use glassline_delivery::telemetry::History;
use glassline_delivery::telemetry::stages::{RelayFigures, ViewerFigures};
use glassline_doors::Server;
use glassline_edge::{Edge, FetcherError, RecordedObjects, Waits, Wake};
use glassline_io::clock::Clock;
use glassline_io::poll::Poller;
use glassline_media::Time;
use glassline_streams::counters::{HandedCounts, UnknownCounts};
use glassline_streams::presence::{Presence, Purpose};
use glassline_streams::status::{Companion, Door, ServiceCount, StreamStatus};
use glassline_streams::{AcquireError, Directory, Live, News, Observer, Publisher, SlotRequest, Streams};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

/// What the threads of a relay share.
pub struct Hub {
    configuration: Arc<Configuration>,
    pub(super) clock: Clock,
    pub(super) counters: RelayCounters,
    pub(super) streams: Arc<Streams>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) presence: Presence,
    pub(super) certificates: Arc<Certificates>,
    pub(super) marker: Marker,
    /// Ways in and out that run beside it.
    companions: OnceLock<Vec<Arc<dyn Companion>>>,
    recorder: OnceLock<Arc<dyn Recorder>>,
    pub(super) presentations: PresentationStores,
    pub(super) demands: Demands,
    pub(super) passed_over: PassedOver,
    pub(super) draining: Draining,
    pub(super) ingests: Ingests,
    pub(super) long_answers: LongAnswers,
    pub(super) object_waits: Waits,
    pub(super) first_bytes: FirstByteRooms,
    edge: RwLock<Option<Arc<Edge>>>,
    /// Where streams are that are not here, as a registry of several servers says.
    pub(super) directory: RwLock<Option<Arc<dyn Directory>>>,
    recorded: RwLock<Option<Arc<dyn RecordedObjects>>>,
    pub(super) roster: Roster,
    site: Arc<dyn Site>,
    began: Time,
    phase: AtomicU8,
    /// A bit for each of the first 64 workers that is being started again after a panic.
    workers_down: AtomicU64,
}

/// See [`Hub::state`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HubState {
    began: Time,
    next_id: u64,
    counts: HandedCounts,
    /// Versions that hand the other counts over by position hand this one over beside them.
    #[serde(default, skip_serializing)]
    gave_way: u64,
    /// It goes on being emptied.
    #[serde(default)]
    drain: Option<DrainPlan>,
}

/// How long a thread that rests after a panic takes to see that it has to halt.
const REST: Duration = Duration::from_millis(20);

/// What the relay's threads have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Serve.
    Running,
    /// Come to a halt and hand over all that they have.
    Halted,
    /// End all connections.
    Stopping,
}

/// Lets one more in where its address has fewer than `limit`; 0 is any number.
fn up_to(limit: usize) -> impl FnOnce(Load, Load) -> Result<(), ()> {
    move |of_address, _| if limit == 0 || of_address.count < limit { Ok(()) } else { Err(()) }
}

impl Hub {
    /// Returns also a poller for each worker, then the outputs' and the packager's.
    pub(super) fn new(
        settings: Settings,
        site: Arc<dyn Site>,
        clock: Clock,
        workers: usize,
    ) -> io::Result<(Hub, Vec<Poller>)> {
        let (inboxes, pollers) = Inboxes::new(workers)?;
        let inboxes = Arc::new(inboxes);
        let configuration = Arc::new(Configuration::new(settings, workers));
        let streams = Streams::new(Arc::clone(&configuration) as _, Arc::clone(&inboxes) as _, clock);
        let hub = Hub {
            configuration,
            roster: Roster::new(workers),
            clock,
            counters: RelayCounters::default(),
            streams: Arc::new(streams),
            inboxes,
            presence: Presence::default(),
            certificates: Arc::new(Certificates::new().map_err(io::Error::other)?),
            marker: Marker::default(),
            companions: OnceLock::new(),
            recorder: OnceLock::new(),
            presentations: PresentationStores::default(),
            demands: Demands::default(),
            passed_over: PassedOver::default(),
            draining: Draining::default(),
            ingests: Ingests::default(),
            long_answers: LongAnswers::default(),
            object_waits: Waits::default(),
            first_bytes: FirstByteRooms::new(workers),
            edge: RwLock::default(),
            directory: RwLock::default(),
            recorded: RwLock::default(),
            site,
            began: clock.now(),
            phase: AtomicU8::new(Phase::Running as u8),
            workers_down: AtomicU64::new(0),
        };
        Ok((hub, pollers))
    }

    /// What the next process needs of it beside the streams.
    pub(super) fn state(&self) -> HubState {
        HubState {
            began: self.began,
            next_id: self.streams.next_id(),
            counts: self.counters.state(),
            gave_way: 0,
            drain: self.draining.left(),
        }
    }

    /// Goes on from what another process left.
    ///
    /// # Errors
    /// Its counts are not understood.
    pub(super) fn inherit(&mut self, state: HubState, streams: Vec<Arc<Live>>) -> Result<(), UnknownCounts> {
        self.began = state.began;
        self.counters = RelayCounters::restore(&state.counts)?;
        self.counters.gave_way.add(state.gave_way);
        self.draining.set(state.drain);
        self.streams.inherit(state.next_id, streams);
        Ok(())
    }

    /// For the threads to share it. Streams tell it of their publishers from then on.
    pub(super) fn into_shared(self) -> Arc<Hub> {
        let hub = Arc::new(self);
        let observer: Weak<Hub> = Arc::downgrade(&hub);
        hub.streams.set_observer(observer);
        let weak = Arc::downgrade(&hub);
        hub.long_answers.set_maker(Arc::new(move |request, door, peer| {
            Some(weak.upgrade()?.respond(request, door, peer))
        }));
        hub
    }

    /// The clock that everything here is stamped with.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// All streams, by name; pulled ones also while their sources are not there.
    pub fn streams(&self) -> Vec<StreamStatus> {
        let (now, streams) = (self.clock.now(), self.streams.all());
        let mut list = streams.iter().map(|live| live.status(now)).collect();
        self.pulls().complete(&mut list, now);
        for (name, source) in self.companions().iter().flat_map(|companion| companion.sources()) {
            match list.binary_search_by(|stream: &StreamStatus| stream.name.cmp(&name)) {
                Ok(at) => list[at].source = Some(source),
                Err(at) => list.insert(at, StreamStatus::absent(&name, Mux::MpegTs, Some(source))),
            }
        }
        let outputs = self.outputs();
        for stream in &mut list {
            outputs.complete(stream);
            self.complete(stream);
            self.presentations.complete(stream);
        }
        list
    }

    /// One stream.
    pub fn stream(&self, name: &StreamName) -> Option<StreamStatus> {
        let now = self.clock.now();
        let of_companion = || self.companions().iter().find_map(|companion| companion.sources().remove(name));
        let source = self.pulls().status(name, now).or_else(of_companion);
        let mut status = match self.streams.find(name) {
            Some(live) => StreamStatus { source, ..live.status(now) },
            None => StreamStatus::absent(name, self.pulls().mux(name), Some(source?)),
        };
        self.outputs().complete(&mut status);
        self.complete(&mut status);
        self.presentations.complete(&mut status);
        Some(status)
    }

    fn companions(&self) -> &[Arc<dyn Companion>] {
        self.companions.get().map_or(&[], Vec::as_slice)
    }

    /// The figures of what runs beside the relay.
    pub fn companion_counts(&self) -> Vec<ServiceCount> {
        self.companions().iter().flat_map(|companion| companion.counts()).collect()
    }

    /// Where protocols other than HTTP are served.
    pub fn doors(&self) -> Vec<Door> {
        self.companions().iter().flat_map(|companion| companion.doors()).collect()
    }

    /// Adds what the companions know of a stream.
    fn complete(&self, status: &mut StreamStatus) {
        for companion in self.companions() {
            status.outputs.extend(companion.outputs(&status.name));
            status.peers.extend(companion.peers(&status.name));
            status.forwards.extend(companion.forwards(&status.name));
        }
    }

    /// The viewers of `stream`, or of all streams, as their workers last saw them: each is looked at some times a
    /// second, or once in (viewers of a worker / 1,000) seconds where they are many. At most `limit` are listed,
    /// those that are furthest behind live. Waits for no worker.
    pub fn clients(&self, stream: Option<&StreamName>, limit: usize) -> Clients {
        self.roster.clients(stream, limit, self.clock.now())
    }

    /// Gives `read` how a stream was; `None` where it is not.
    pub fn history<T>(&self, stream: &StreamName, read: impl FnOnce(&History) -> T) -> Option<T> {
        Some(self.streams.find(stream)?.telemetry.read(read))
    }

    /// Gives `read` what this server's stages of the stream's pictures add up to, and what its viewers report; `None` where
    /// there is no such stream. The first is empty of other muxes than MPEG-TS.
    pub fn stages<T>(
        &self,
        stream: &StreamName,
        read: impl FnOnce(&RelayFigures, &ViewerFigures) -> T,
    ) -> Option<T> {
        let live = self.streams.find(stream)?;
        // Copied, so that no publisher waits for `read`.
        let relay = live.relay_figures(RelayFigures::clone).unwrap_or_default();
        Some(read(&relay, &live.viewer_figures()))
    }

    /// Writes down how each stream is, once a second. Called by one worker.
    pub(super) fn record_history(&self, now: Time) {
        let streams = self.streams.all();
        streams.iter().for_each(|live| live.viewer_figures().forget(now));
        if !streams.iter().any(|live| live.telemetry.is_due(now)) {
            return;
        }
        let mut audiences = self.roster.audiences();
        for live in streams.iter().filter(|live| live.telemetry.is_due(now)) {
            live.telemetry.record(now, audiences.remove(&live.id).unwrap_or_default(), live.moment());
        }
    }

    /// The relay as a whole.
    pub fn totals(&self) -> Totals {
        let counters = &self.counters;
        Totals {
            uptime: self.clock.now().since(self.began),
            connections: counters.connections.value(),
            accepted: counters.accepted.value(),
            refused: counters.refused.value(),
            refused_unanswered: counters.refused_unanswered.value(),
            gave_way: counters.gave_way.value(),
            requests: counters.requests.value(),
            errors: counters.errors.value(),
            timed_out: counters.timed_out.value(),
            bodies_timed_out: counters.bodies_timed_out.value(),
            streams_displaced: counters.streams_displaced.value(),
            unpackaged_bytes: counters.unpackaged_bytes.value(),
            ingest: self.ingests.counts(),
            tls_handshakes: counters.tls_handshakes.value(),
            tls_failed: counters.tls_failed.value(),
            tls_apart: counters.tls_apart.value(),
            marks_in_use: self.marker.in_use(),
            marks_exhausted: self.marker.exhausted(),
        }
    }

    /// Requests for what was recorded are answered by this from now on; `None`: there are no recordings.
    pub fn set_recorded(&self, recorded: Option<Arc<dyn RecordedObjects>>) {
        *self.recorded.write().unwrap_or_else(PoisonError::into_inner) = recorded;
    }

    /// What answers requests for what was recorded.
    pub(super) fn recorded(&self) -> Option<Arc<dyn RecordedObjects>> {
        self.recorded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the settings, of all streams too. To be called while the threads are halted.
    pub(super) fn reconfigure(&self, settings: Settings) {
        let settings = Arc::new(settings);
        for live in self.streams.all() {
            live.reconfigure(settings.of_stream(&live.name));
            self.streams.announce(&live, None);
        }
        self.configuration.change(settings);
        self.rearrange_pulls();
    }

    /// Begins to fetch from the upstream servers that the settings name, or from none; what is kept stays where they are the
    /// same. To be called while the threads are halted.
    pub(super) fn arrange_edge(&self) -> Result<(), FetcherError> {
        let wanted = self.settings().upstream.clone();
        let mut edge = self.edge.write().unwrap_or_else(PoisonError::into_inner);
        if edge.as_ref().map(|edge| edge.settings()) != wanted.as_ref() {
            *edge = None;
            let wake = Arc::clone(&self.inboxes) as Arc<dyn Wake>;
            let seed = glassline_io::random::seed().map_err(FetcherError::from)?;
            let seed = seed[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
            *edge = match wanted {
                Some(settings) => Some(Arc::new(Edge::start(settings, wake, self.clock, seed)?)),
                None => None,
            };
        }
        Ok(())
    }

    /// How long requests for objects waited for the first byte.
    pub fn object_waits(&self) -> &Waits {
        &self.object_waits
    }

    /// The same by name, over the last ten minutes: of `name`, or of the `limit` names with the most requests.
    pub fn first_bytes(&self, name: Option<&str>, limit: usize) -> FirstByteReport {
        self.first_bytes.report(name, limit, self.clock.now())
    }

    /// What fetches objects that are not here, where upstream servers are configured.
    pub fn edge(&self) -> Option<Arc<Edge>> {
        self.edge.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of the sources.
    pub(super) fn pulls(&self) -> Arc<PullTable> {
        self.configuration.pulls()
    }

    /// Puts another table of sources in the place of the one that there is.
    pub(super) fn set_pulls(&self, make: impl FnOnce(&PullTable) -> PullTable) {
        self.configuration.set_pulls(make);
    }

    /// What is known of the outputs.
    pub(super) fn outputs(&self) -> Arc<OutputTable> {
        self.configuration.outputs()
    }

    /// The most memory that streams, objects from upstream servers and connections take by the settings.
    pub fn memory_budget_bytes(&self) -> u64 {
        let settings = self.settings();
        let division = Division::of(glassline_io::process::raise_descriptor_limit(), &settings);
        memory::budget_bytes(&settings, division.connections)
    }

    /// The settings of the moment. A thread that needs them often keeps them for a while.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.configuration.settings()
    }

    pub(super) fn respond(&self, request: &Request, door: ListenerRole, peer: IpAddr) -> Response {
        self.site.respond(request, door, peer, self)
    }

    /// Whether the answer to `request` is made by a thread of its own.
    pub(super) fn takes_long(&self, request: &Request, door: ListenerRole, peer: IpAddr) -> bool {
        self.site.takes_long(request, door, peer, self)
    }

    /// Whether what is at `path` is never asked of upstream servers.
    pub(super) fn owns(&self, path: &str) -> bool {
        self.site.owns(path)
    }

    /// What the access log needs of `request`, if there is one.
    pub(super) fn asked(&self, request: &Request) -> Option<Box<OpenRequest>> {
        self.site.logs_access().then(|| Box::new(OpenRequest::new(request, self.clock.now())))
    }

    pub(super) fn log_access(&self, access: Access) {
        self.site.log_access(access);
    }

    /// Counts one more connection from `address`, until [`Hub::disconnected`], if fewer than `limit` are there; 0 is any number.
    /// Returns whether it was.
    pub(super) fn admit_connection(&self, address: IpAddr, limit: usize) -> bool {
        self.presence.enter(address, Purpose::Connect, 0, up_to(limit)).is_ok()
    }

    /// The same of one that has not been answered, until [`Hub::answered`].
    pub(super) fn admit_unanswered(&self, address: IpAddr, limit: usize) -> bool {
        self.presence.enter(address, Purpose::Ask, 0, up_to(limit)).is_ok()
    }

    /// A connection from `address` has been answered, or is over.
    pub(super) fn answered(&self, address: IpAddr) {
        self.presence.leave(address, Purpose::Ask, 0);
    }

    /// A connection from `address` is over.
    pub(super) fn disconnected(&self, address: IpAddr) {
        self.presence.leave(address, Purpose::Connect, 0);
    }

    /// Streams are recorded by `recorder`; which ones it says itself. It stays the one that was given first.
    pub fn set_recorder(&self, recorder: Arc<dyn Recorder>) {
        let _ = self.recorder.set(recorder);
    }

    /// Whether streams may be recorded.
    pub(super) fn has_recorder(&self) -> bool {
        self.recorder.get().is_some()
    }

    /// What records the stream `name`, where it is recorded.
    pub(super) fn recorder_of(&self, name: &StreamName) -> Option<&Arc<dyn Recorder>> {
        self.recorder.get().filter(|recorder| recorder.is_recorded(name))
    }

    /// Has the status of streams complemented by the figures of what runs beside the relay. Counts once.
    pub fn set_companions(&self, companions: Vec<Arc<dyn Companion>>) {
        let _ = self.companions.set(companions);
    }

    /// The streams themselves, for all that publishes or reads one.
    pub fn live_streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// Publishes a stream of MPEG-TS from inside this process.
    ///
    /// # Errors
    /// Why the caller does not get the name.
    pub fn publish(&self, name: &StreamName) -> Result<Publisher, AcquireError> {
        self.streams.publish(name, Mux::MpegTs)
    }

    /// Worker `index` is being started again after a panic, or has been.
    pub(super) fn worker_is_down(&self, index: usize, is_down: bool) {
        let bit = 1 << (index % 64);
        if is_down {
            self.workers_down.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.workers_down.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// How many workers are being started again after a panic, and how many there are.
    pub fn workers_down(&self) -> (usize, usize) {
        (self.workers_down.load(Ordering::Acquire).count_ones() as usize, self.inboxes.workers())
    }

    /// Lets `pause` pass on the calling thread, or as much of it as the relay runs.
    pub(super) fn rest(&self, pause: Duration) {
        let until = self.clock.now() + pause;
        while self.is_running() && self.clock.now() < until {
            std::thread::sleep(until.since(self.clock.now()).min(REST));
        }
    }

    /// Lets the threads run, come to a halt with all they have, or end.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
        self.inboxes.wake_all();
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Running as u8
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Stopping as u8
    }
}

impl Server for Hub {
    fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    fn is_running(&self) -> bool {
        Hub::is_running(self)
    }

    fn rest(&self, pause: Duration) {
        Hub::rest(self, pause);
    }
}

impl Destinations for Hub {
    fn outputs(&self) -> Arc<OutputTable> {
        Hub::outputs(self)
    }

    fn pacing(&self, name: &StreamName) -> Pacing {
        self.settings().of_stream(name).pacing
    }

    fn thread(&self) -> usize {
        self.inboxes.outputs()
    }

    fn take_news(&self, into: &mut Vec<Arc<Live>>) {
        let mut messages = Vec::new();
        self.inboxes.collect(self.inboxes.outputs(), &mut messages);
        into.extend(messages.into_iter().filter_map(|message| match message {
            Message::Stream(News::Flushed(live)) => Some(live),
            _ => None,
        }));
    }
}

impl Observer for Hub {
    fn admit(&self, slot_request: &mut SlotRequest<'_>) -> Result<(), AcquireError> {
        self.admit_publisher(slot_request)
    }

    fn published(&self, live: &Arc<Live>) {
        let is_packaged_always = !self.settings().packaging.on_demand && live.mux.is_packaged();
        if is_packaged_always && !self.is_presented_upstream(&live.name) {
            drop(self.presentation_store(&live.name));
        }
        if self.presentations.find(&live.name).is_some() {
            live.set_is_packaged(true);
        }
        if self.demands.tell(&live.name) {
            self.rearrange_pulls();
        }
        if let Some(directory) = self.directory() {
            directory.publishers_changed();
        }
    }

    fn displaced(&self, _live: &Arc<Live>) {
        self.counters.streams_displaced.increment();
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
