//! What the workers share: the streams, their inboxes, the counts.

use crate::relay::access::{Access, Asked};
use crate::relay::certificates::Certificates;
use crate::relay::live::{Claim, Flushed, Live, Seat};
use crate::relay::marking::Marker;
use crate::relay::output;
use crate::relay::presence::{Presence, Purpose};
use crate::relay::pull::Boards;
use crate::relay::roster::{Clients, Roster};
use crate::relay::status::{StreamStatus, Totals};
use crate::relay::{ClaimError, Door, Settings, Site};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{Load, StreamName};
use glassline_delivery::stream::Mux;
use glassline_delivery::telemetry::History;
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Waker};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The token under which workers are woken.
pub(super) const WAKE: u64 = u64::MAX;

/// Streams that give up their descriptors at once, where there are none: a few connections are then let in before it is
/// looked again.
const DISPLACED_AT_ONCE: usize = 16;

/// What runs through a relay.
pub struct Hub {
    settings: RwLock<Arc<Settings>>,
    pub(super) clock: Clock,
    pub(super) counts: Counts,
    pub(super) presence: Presence,
    pub(super) certificates: Arc<Certificates>,
    pub(super) marker: Marker,
    pub(super) roster: Roster,
    boards: RwLock<Arc<Boards>>,
    outputs: RwLock<Arc<output::Boards>>,
    site: Arc<dyn Site>,
    began: Time,
    streams: Mutex<BTreeMap<StreamName, Arc<Live>>>,
    next_id: AtomicU64,
    /// One for each worker, and the outputs' last.
    inboxes: Vec<Inbox>,
    phase: AtomicU8,
}

/// See [`Hub::state`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HubState {
    began: Time,
    next_id: u64,
    counts: [u64; 10],
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) refused_unanswered: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) bodies_timed_out: AtomicU64,
    pub(super) streams_displaced: AtomicU64,
    pub(super) tls_handshakes: AtomicU64,
    pub(super) tls_failed: AtomicU64,
    /// Connections now whose TLS another process does.
    pub(super) tls_apart: AtomicU64,
}

/// Tells a worker something from another thread.
#[derive(Debug)]
pub(super) enum Message {
    /// A stream that the worker has viewers of has grown or ended.
    News(Arc<Live>),
    /// A stream's waiting bytes are to be looked after at this time.
    FlushAt(Time, Arc<Live>),
    /// The publisher at this token has lost its seat.
    Evicted(u64),
}

/// What the relay's threads are to do.
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

struct Inbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
}

/// Lets in whoever comes to an address that has fewer than `limit`; 0 is any number.
fn up_to(limit: usize) -> impl FnOnce(Load, Load) -> Result<(), ()> {
    move |of_address, _| if limit == 0 || of_address.count < limit { Ok(()) } else { Err(()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps and lists are whole after every single change, whatever panicked in between.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Returns also a poller for each worker, and the outputs' last.
    pub(super) fn new(
        settings: Settings,
        site: Arc<dyn Site>,
        clock: Clock,
        workers: usize,
    ) -> io::Result<(Hub, Vec<Poller>)> {
        let pollers = (0..=workers).map(|_| Poller::new()).collect::<io::Result<Vec<_>>>()?;
        let inbox = |poller| Ok(Inbox { messages: Mutex::default(), waker: Waker::new(poller, WAKE)? });
        let inboxes = pollers.iter().map(inbox).collect::<io::Result<Vec<_>>>()?;
        let hub = Hub {
            boards: RwLock::new(Arc::new(Boards::new(&settings.pulls, &Boards::default()))),
            roster: Roster::new(workers),
            outputs: RwLock::new(Arc::new(output::Boards::new(
                &settings.outputs,
                &output::Boards::default(),
            ))),
            settings: RwLock::new(Arc::new(settings)),
            clock,
            counts: Counts::default(),
            presence: Presence::default(),
            certificates: Arc::new(Certificates::new().map_err(io::Error::other)?),
            marker: Marker::default(),
            site,
            began: clock.now(),
            streams: Mutex::default(),
            next_id: AtomicU64::new(0),
            inboxes,
            phase: AtomicU8::new(Phase::Running as u8),
        };
        Ok((hub, pollers))
    }

    /// What the next process needs of it beside the streams.
    pub(super) fn state(&self) -> HubState {
        let Counts {
            connections: _,
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
            tls_apart: _,
        } = &self.counts;
        let counts = [
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
        ];
        HubState {
            began: self.began,
            next_id: self.next_id.load(Ordering::Relaxed),
            counts: counts.map(|count| count.load(Ordering::Relaxed)),
        }
    }

    /// Goes on from what another process left.
    pub(super) fn inherit(&mut self, state: HubState, streams: Vec<Arc<Live>>) {
        self.began = state.began;
        self.next_id = AtomicU64::new(state.next_id);
        let [
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
        ] = state.counts.map(AtomicU64::new);
        let (connections, tls_apart) = (AtomicU64::new(0), AtomicU64::new(0));
        self.counts = Counts {
            connections,
            accepted,
            refused,
            refused_unanswered,
            requests,
            errors,
            timed_out,
            bodies_timed_out,
            streams_displaced,
            tls_handshakes,
            tls_failed,
            tls_apart,
        };
        self.streams = Mutex::new(streams.into_iter().map(|live| (live.name.clone(), live)).collect());
    }

    /// The clock that everything here is stamped with.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// All streams, by name; pulled ones also while their sources are not there.
    pub fn streams(&self) -> Vec<StreamStatus> {
        let (now, streams) = (self.clock.now(), self.all());
        let mut list = streams.iter().map(|live| live.status(now)).collect();
        self.boards().complete(&mut list, now);
        let outputs = self.outputs();
        list.iter_mut().for_each(|stream| outputs.complete(stream));
        list
    }

    /// One stream.
    pub fn stream(&self, name: &StreamName) -> Option<StreamStatus> {
        let now = self.clock.now();
        let source = self.boards().status(name, now);
        let mut status = match self.find(name) {
            Some(live) => StreamStatus { source, ..live.status(now) },
            None => StreamStatus::absent(name, self.boards().mux(name), Some(source?)),
        };
        self.outputs().complete(&mut status);
        Some(status)
    }

    /// The viewers of `stream`, or of all streams, as their workers last saw them: each is looked at some times a
    /// second, or once in (viewers of a worker / 1,000) seconds where they are many. At most `limit` are listed,
    /// those who are furthest behind live. Waits for no worker's turn.
    pub fn clients(&self, stream: Option<&StreamName>, limit: usize) -> Clients {
        self.roster.clients(stream, limit, self.clock.now())
    }

    /// Gives `read` how a stream was; `None` where it is not.
    pub fn history<T>(&self, stream: &StreamName, read: impl FnOnce(&History) -> T) -> Option<T> {
        Some(self.find(stream)?.telemetry.read(read))
    }

    /// Writes down how each stream is, once a second. Called by one worker.
    pub(super) fn record_history(&self, now: Time) {
        let streams = self.all();
        if !streams.iter().any(|live| live.telemetry.is_due(now)) {
            return;
        }
        let mut audiences = self.roster.audiences();
        for live in streams.iter().filter(|live| live.telemetry.is_due(now)) {
            live.telemetry.record(now, audiences.remove(&live.id).unwrap_or_default(), live);
        }
    }

    /// The relay as a whole.
    pub fn totals(&self) -> Totals {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            uptime: self.clock.now().since(self.began),
            connections: count(&self.counts.connections),
            accepted: count(&self.counts.accepted),
            refused: count(&self.counts.refused),
            refused_unanswered: count(&self.counts.refused_unanswered),
            requests: count(&self.counts.requests),
            errors: count(&self.counts.errors),
            timed_out: count(&self.counts.timed_out),
            bodies_timed_out: count(&self.counts.bodies_timed_out),
            streams_displaced: count(&self.counts.streams_displaced),
            tls_handshakes: count(&self.counts.tls_handshakes),
            tls_failed: count(&self.counts.tls_failed),
            tls_apart: count(&self.counts.tls_apart),
            marks_in_use: self.marker.in_use(),
            marks_exhausted: self.marker.exhausted(),
        }
    }

    /// Changes the settings, of all streams too. To be called while the threads are halted.
    pub(super) fn reconfigure(&self, settings: Settings) {
        let settings = Arc::new(settings);
        for live in self.all() {
            live.reconfigure(settings.of_stream(&live.name));
            self.announce(&live, None);
        }
        let boards = Boards::new(&settings.pulls, &self.boards());
        *self.boards.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(boards);
        let outputs = output::Boards::new(&settings.outputs, &self.outputs());
        *self.outputs.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(outputs);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// What is known of the sources.
    pub(super) fn boards(&self) -> Arc<Boards> {
        Arc::clone(&self.boards.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is known of the outputs.
    pub(super) fn outputs(&self) -> Arc<output::Boards> {
        Arc::clone(&self.outputs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The settings of the moment. Who asks often keeps them for a turn.
    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn respond(&self, request: &Request, door: Door, peer: IpAddr) -> Response {
        self.site.respond(request, door, peer, self)
    }

    /// What is to be remembered of `request` for the access log, if there is one.
    pub(super) fn asked(&self, request: &Request) -> Option<Box<Asked>> {
        self.site.logs_access().then(|| Box::new(Asked::new(request, self.clock.now())))
    }

    pub(super) fn log_access(&self, access: Access) {
        self.site.log_access(access);
    }

    /// Whether one more connection may come from `address` where `limit` may be there; 0 is any number. It is counted
    /// then, until [`Hub::disconnected`].
    pub(super) fn connects(&self, address: IpAddr, limit: usize) -> bool {
        self.presence.enter(address, Purpose::Connect, 0, up_to(limit)).is_ok()
    }

    /// The same of one that has not been answered, until [`Hub::answered`].
    pub(super) fn asks(&self, address: IpAddr, limit: usize) -> bool {
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

    pub(super) fn all(&self) -> Vec<Arc<Live>> {
        lock(&self.streams).values().cloned().collect()
    }

    pub(super) fn find(&self, name: &StreamName) -> Option<Arc<Live>> {
        lock(&self.streams).get(name).filter(|live| !live.has_ended()).cloned()
    }

    /// Takes the publisher's seat of the stream `name`, which begins if there is none. One of another mux is replaced
    /// where `take_over` asks for it.
    pub(super) fn claim(
        &self,
        name: &StreamName,
        mux: Mux,
        seat: Option<Seat>,
        take_over: bool,
    ) -> Result<(Arc<Live>, u64), ClaimError> {
        let (now, settings) = (self.clock.now(), self.settings());
        if seat.is_some() && self.boards().has(name) {
            return Err(ClaimError::Pulled { name: name.clone() });
        }
        if seat.is_some() && settings.reserved.contains(name) {
            return Err(ClaimError::Inside { name: name.clone() });
        }
        let mut streams = lock(&self.streams);
        let former = streams.get(name).filter(|live| !live.has_ended()).cloned();
        let other_mux = former.as_ref().filter(|live| live.mux != mux).cloned();
        if let Some(other) = other_mux.as_ref().filter(|_| !take_over) {
            return Err(ClaimError::OtherMux { name: name.clone(), mux: other.mux });
        }
        let live = match former.filter(|live| live.mux == mux) {
            Some(live) => live,
            None if !streams.contains_key(name) && !self.has_room(&mut streams, settings.max_streams) => {
                return Err(ClaimError::TooMany { limit: settings.max_streams });
            }
            None => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let settings = settings.of_stream(name);
                let live = Live::new(id, name.clone(), mux, settings, self.workers(), now);
                let live = Arc::new(live);
                live.set_has_outputs(self.outputs().has(name));
                streams.insert(name.clone(), Arc::clone(&live));
                live
            }
        };
        match live.claim(seat, take_over, now) {
            Claim::Taken => Err(ClaimError::Taken { name: name.clone() }),
            Claim::Granted { session, evicted } => {
                drop(streams);
                self.announce(&live, None);
                let replaced = other_mux.and_then(|other| {
                    let seat = other.give_way();
                    self.announce(&other, None);
                    seat
                });
                if let Some(seat) = evicted.or(replaced) {
                    self.send(seat.worker, Message::Evicted(seat.token));
                }
                Ok((live, session))
            }
        }
    }

    /// Whether there is room for one more of `limit` streams, which others may have to make. A name that was used once
    /// would otherwise hold its place for the whole return window.
    fn has_room(&self, streams: &mut BTreeMap<StreamName, Arc<Live>>, limit: usize) -> bool {
        while streams.len() >= limit {
            if !self.displace(streams) {
                return false;
            }
        }
        true
    }

    /// Ends the stream that waits longest for its publisher to return, of those that nobody watches, for others to have
    /// its place or its descriptors. Returns whether there was one.
    fn displace(&self, streams: &mut BTreeMap<StreamName, Arc<Live>>) -> bool {
        let boards = self.boards();
        // Those that have a source are the configuration's.
        let waiting = streams.values().filter(|live| !boards.has(&live.name));
        let waiting = waiting.filter_map(|live| Some((live.waits_since()?, live)));
        let Some((_, live)) = waiting.min_by_key(|(since, _)| *since) else { return false };
        let live = Arc::clone(live);
        live.end();
        streams.remove(&live.name);
        self.counts.streams_displaced.fetch_add(1, Ordering::Relaxed);
        tracing::info!(stream = %live.name, "stream ended before its publisher's time to return was over: room is needed");
        // Who has come since it was looked at learns it.
        self.announce(&live, None);
        true
    }

    /// The system has no descriptor left: some streams that nobody needs give theirs up.
    pub(super) fn lacks_descriptors(&self) {
        let mut streams = lock(&self.streams);
        let _ = (0..DISPLACED_AT_ONCE).all(|_| self.displace(&mut streams));
    }

    /// Ends the streams whose publishers have been gone for too long.
    pub(super) fn end_abandoned(&self) {
        let (now, window) = (self.clock.now(), self.settings().return_window);
        let mut ended = Vec::new();
        lock(&self.streams).retain(|_, live| {
            let over = live.has_ended() || live.is_abandoned(window, now);
            if over {
                live.end();
                ended.push(Arc::clone(live));
            }
            !over
        });
        for live in ended {
            tracing::info!(stream = %live.name, viewers = live.viewers(), "stream ended: its publisher did not return");
            self.announce(&live, None);
        }
    }

    /// Does what `flushed` asks for, from a thread that is no worker.
    pub(super) fn tell(&self, live: &Arc<Live>, flushed: Flushed) {
        if flushed.news {
            self.announce(live, None);
        }
        if let Some(at) = flushed.wake_at {
            let worker = usize::try_from(live.id).unwrap_or_default() % self.workers();
            self.send(worker, Message::FlushAt(at, Arc::clone(live)));
        }
    }

    /// Wakes each worker that has viewers of `live`. `own` is the worker that calls, which is not woken: it
    /// serves its viewers itself if this returns true.
    pub(super) fn announce(&self, live: &Arc<Live>, own: Option<usize>) -> bool {
        let mut serve_own = false;
        for worker in 0..self.inboxes.len() {
            if live.tell(worker) {
                if own == Some(worker) {
                    serve_own = true;
                } else {
                    self.send(worker, Message::News(Arc::clone(live)));
                }
            }
        }
        serve_own
    }

    fn send(&self, worker: usize, message: Message) {
        let inbox = &self.inboxes[worker];
        lock(&inbox.messages).push(message);
        inbox.waker.wake();
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.inboxes.len() - 1
    }

    /// Takes what others told the outputs' thread.
    pub(super) fn collect_for_outputs(&self, into: &mut Vec<Message>) {
        self.collect(self.workers(), into);
    }

    /// The outputs' thread looks at the news of `live` now.
    pub(super) fn heard_for_outputs(&self, live: &Live) {
        live.heard(self.workers());
    }

    /// Takes what others told worker `worker`.
    pub(super) fn collect(&self, worker: usize, into: &mut Vec<Message>) {
        let inbox = &self.inboxes[worker];
        inbox.waker.clear();
        std::mem::swap(&mut *lock(&inbox.messages), into);
    }

    /// Lets the threads run, come to a halt with all they have, or end.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
        for inbox in &self.inboxes {
            inbox.waker.wake();
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Running as u8
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Stopping as u8
    }
}
