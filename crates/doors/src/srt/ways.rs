//! What of SRT a server has: its listeners, and the lines that are sources and outputs of its streams.

use super::line::{Line, LineUse};
use super::listen::Listening;
use super::session::{Payloads, read_into};
use crate::entrance::Entrance;
use crate::log_throttle::LogThrottle;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::poll::Waker;
use glassline_io::udp::{Local, Port};
use glassline_media::Time;
use glassline_streams::status::{
    Companion, Door, OutputStatus, PeerRole, PeerStatus, ServiceCount, SourceState, SourceStatus,
};
use glassline_streams::{Entering, Publisher, Streams, Subscription};
use glassline_transport::srt::{Address, Connection, Settings};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// How often it is looked for a stream that is not there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A source that was live for so long was a good one: its next failure is told.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// Listeners that a configuration asks for.
#[derive(Clone, Debug, Default)]
pub struct WantedListener {
    /// Where they listen.
    pub addresses: Vec<SocketAddr>,
    /// Where they listen for SRT over several lines at once (SRTLA).
    pub bonded: Vec<SocketAddr>,
    /// How they want their connections.
    pub settings: Settings,
    /// How many each of them has at most.
    pub max_peers: usize,
}

/// A line that a configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The stream.
    pub stream: StreamName,
    /// Where it leads.
    pub address: Address,
    /// Whether what comes is the stream; else the stream is sent there.
    pub is_source: bool,
    /// After this time without a byte a source gives up the name.
    pub silence_timeout: Duration,
}

struct Running {
    wanted: Wanted,
    line: Line,
    counts: Arc<Counts>,
}

/// What a line counts beside the connection's figures.
#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    datagrams: AtomicU64,
    moved_forward: AtomicU64,
    given_up: AtomicU64,
}

#[derive(Default)]
struct State {
    listeners: Vec<(SocketAddr, Listening)>,
    /// Listeners that could not be opened, and why.
    failed: Vec<(SocketAddr, String)>,
    lines: Vec<Running>,
}

/// All of SRT that runs. Dropping it ends it.
#[derive(Default)]
pub struct SrtWays(Mutex<State>);

impl SrtWays {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the addresses can be listened at that are wanted and not there yet.
    ///
    /// # Errors
    /// The first that cannot, and why.
    pub fn check(&self, listener: &WantedListener) -> Result<(), (SocketAddr, io::Error)> {
        let state = self.lock();
        let is_there = |address: &SocketAddr| state.listeners.iter().any(|(known, _)| known == address);
        let wanted = listener.addresses.iter().chain(&listener.bonded).filter(|address| !is_there(address));
        let mut opened =
            wanted.map(|address| Port::open(&Local::at(*address)).map_err(|error| (*address, error)));
        opened.try_for_each(|opened| opened.map(drop))
    }

    /// Has the listeners and lines that are wanted and no others; those that are there already go on. An address that cannot be
    /// listened at is told in the log and by [`SrtWays::failed`]. Waits for the end of lines that are wanted no more.
    pub fn arrange(&self, server: &Arc<dyn Entrance>, listener: &WantedListener, lines: Vec<Wanted>) {
        let mut state = self.lock();
        let plain = listener.addresses.iter().map(|address| (*address, false));
        let wanted: Vec<_> = plain.chain(listener.bonded.iter().map(|address| (*address, true))).collect();
        let mut spare = wanted.clone();
        // Each that is there stands for one that is wanted.
        let mut stays = |address: &SocketAddr, listening: &Listening| {
            let at = spare.iter().position(|known| *known == (*address, listening.is_bonded()));
            at.map(|at| spare.remove(at)).is_some()
        };
        let doomed: Vec<_> =
            state.listeners.extract_if(.., |(address, listening)| !stays(address, listening)).collect();
        // Their sockets are closed before others are opened at the same addresses.
        drop(doomed);
        for (_, listening) in &state.listeners {
            listening.reconfigure(listener.settings.clone(), listener.max_peers);
        }
        state.failed.clear();
        for (address, is_bonded) in spare {
            let settings = listener.settings.clone();
            match Listening::start(server, address, is_bonded, settings, listener.max_peers) {
                Ok(listening) => {
                    let what = if is_bonded { "SRTLA" } else { "SRT" };
                    tracing::info!(address = %listening.address(), "{what} is served");
                    state.listeners.push((address, listening));
                }
                Err(error) => {
                    tracing::error!(%address, "cannot listen for SRT: {error}; free the port or change [srt] listen or srtla");
                    state.failed.push((address, error.to_string()));
                }
            }
        }
        let is_same = |running: &Running, wanted: &Wanted| running.wanted == *wanted;
        let is_wanted = |running: &Running| lines.iter().any(|wanted| is_same(running, wanted));
        let doomed: Vec<_> = state.lines.extract_if(.., |running| !is_wanted(running)).collect();
        drop(state);
        doomed.iter().for_each(|running| running.line.stop());
        drop(doomed);
        for wanted in lines {
            let is_there = self.lock().lines.iter().any(|running| is_same(running, &wanted));
            if !is_there {
                let streams = Arc::clone(server.streams());
                match Running::start(streams, wanted) {
                    Ok(running) => self.lock().lines.push(running),
                    Err(error) => tracing::error!("a connection by SRT cannot begin: {error}"),
                }
            }
        }
    }

    /// Ends all of it.
    pub fn end(&self) {
        // Threads that serve viewers ask for figures meanwhile.
        let ended = std::mem::take(&mut *self.lock());
        ended.lines.iter().for_each(|running| running.line.stop());
        drop(ended);
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.lock().listeners.iter().map(|(.., listening)| listening.address()).collect()
    }

    /// Where it should listen and cannot, and why.
    pub fn failed(&self) -> Vec<(SocketAddr, String)> {
        self.lock().failed.clone()
    }
}

impl Companion for SrtWays {
    fn sources(&self) -> BTreeMap<StreamName, SourceStatus> {
        let state = self.lock();
        let sources = state.lines.iter().filter(|running| running.wanted.is_source);
        sources.map(|running| (running.wanted.stream.clone(), running.source())).collect()
    }

    fn outputs(&self, name: &StreamName) -> Vec<OutputStatus> {
        let state = self.lock();
        let outputs = state.lines.iter().filter(|running| !running.wanted.is_source);
        outputs.filter(|running| running.wanted.stream == *name).map(Running::output).collect()
    }

    fn doors(&self) -> Vec<Door> {
        let state = self.lock();
        let door = |(_, listening): &(SocketAddr, Listening)| Door {
            protocol: if listening.is_bonded() { "srtla" } else { "srt" },
            port: listening.address().port(),
        };
        state.listeners.iter().map(door).collect()
    }

    fn counts(&self) -> Vec<ServiceCount> {
        let state = self.lock();
        if state.listeners.is_empty() {
            return Vec::new();
        }
        let sum =
            |of: fn(&Listening) -> u64| state.listeners.iter().map(|(.., listening)| of(listening)).sum();
        let count = |name, is_gauge, help, value| ServiceCount { name, is_gauge, help, value };
        vec![
            count(
                "srt_connections",
                true,
                "Current publishers and viewers over SRT.",
                sum(Listening::connections),
            ),
            count(
                "srt_accepted_total",
                false,
                "Connections over SRT that were let in.",
                sum(Listening::accepted),
            ),
            count(
                "srt_refused_total",
                false,
                "Callers over SRT that were refused, and handshakes without a cookie.",
                sum(Listening::refused),
            ),
            count(
                "srt_resets_total",
                false,
                "Packets over SRT for connections of a process before this one, answered with their end.",
                sum(Listening::resets),
            ),
        ]
    }

    fn peers(&self, name: &StreamName) -> Vec<PeerStatus> {
        let state = self.lock();
        let mut peers: Vec<_> =
            state.listeners.iter().flat_map(|(.., listening)| listening.peers(name)).collect();
        let of_stream = state.lines.iter().filter(|running| running.wanted.stream == *name);
        peers.extend(of_stream.filter_map(Running::peer));
        peers
    }
}

impl Running {
    fn start(streams: Arc<Streams>, wanted: Wanted) -> io::Result<Running> {
        let counts = Arc::new(Counts::default());
        let (name, own) = (wanted.stream.clone(), Arc::clone(&counts));
        let (url, silence_timeout) = (wanted.address.to_string(), wanted.silence_timeout);
        let address = wanted.address.clone();
        let line = if wanted.is_source {
            let make = |_| Source {
                streams,
                name,
                url,
                silence_timeout,
                publisher: None,
                heard: Time::ZERO,
                gathered: Vec::new(),
                counts: own,
                throttle: LogThrottle::default(),
            };
            Line::start(address, make)?
        } else {
            let make = |waker| Output {
                streams,
                name,
                url,
                waker: std::task::Waker::from(Arc::new(Wakes(waker))),
                subscription: None,
                payloads: Payloads::default(),
                buffer: Vec::new(),
                look_again: Time::ZERO,
                last: (0, 0),
                last_moved: 0,
                counts: own,
                throttle: LogThrottle::default(),
            };
            Line::start(address, make)?
        };
        Ok(Running { wanted, line, counts })
    }

    fn source(&self) -> SourceStatus {
        let status = self.line.status();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceStatus {
            url: self.wanted.address.to_string(),
            state: match (&status.connection, status.failures) {
                (Some(_), _) => SourceState::Live,
                (None, 0) => SourceState::Connecting,
                (None, _) => SourceState::Waiting { retry_in: None },
            },
            error: status.error,
            sessions: status.connections,
            failures: status.failures,
            redirects: 0,
            metacube: false,
            garbage_bytes: 0,
            encoder_delay: None,
            datagrams: Some((count(&self.counts.datagrams), 0)),
            rtp: None,
        }
    }

    fn output(&self) -> OutputStatus {
        let status = self.line.status();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OutputStatus {
            url: self.wanted.address.to_string(),
            sending: status.connection.is_some(),
            error: status.error,
            datagrams: count(&self.counts.datagrams),
            bytes: count(&self.counts.bytes),
            errors: count(&self.counts.given_up) + status.failures,
            moved_forward: count(&self.counts.moved_forward),
        }
    }

    fn peer(&self) -> Option<PeerStatus> {
        let status = self.line.status();
        let (connection, address) = (status.connection?, status.remote?);
        let role = if self.wanted.is_source { PeerRole::Publish } else { PeerRole::Watch };
        let now = glassline_io::clock::Clock::new().now();
        Some(PeerStatus {
            role,
            protocol: "srt",
            address,
            seconds: status.since.map_or(0.0, |since| now.since(since).as_secs_f64()),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            figures: super::figures(&connection, self.wanted.is_source),
        })
    }
}

struct Wakes(Waker);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// What comes is a stream.
struct Source {
    streams: Arc<Streams>,
    name: StreamName,
    url: String,
    silence_timeout: Duration,
    publisher: Option<Publisher>,
    heard: Time,
    gathered: Vec<u8>,
    counts: Arc<Counts>,
    throttle: LogThrottle,
}

impl LineUse for Source {
    fn begin(&mut self) {
        self.heard = self.streams.clock().now();
        if self.throttle.begin(self.heard) {
            tracing::info!(stream = %self.name, source = self.url, "source is connected");
        }
    }

    fn work(&mut self, connection: &mut Connection, now: Time) -> Option<String> {
        self.gathered.clear();
        let (gathered, counts) = (&mut self.gathered, &self.counts);
        let mut held_since = None;
        let has_come = connection.deliver(now, |payload, came| {
            held_since = Some(came);
            gathered.extend_from_slice(payload);
            counts.datagrams.fetch_add(1, Ordering::Relaxed);
        });
        // What comes counts, although it is held back.
        self.heard = connection.heard_data();
        if !has_come {
            let is_silent = now.since(self.heard) >= self.silence_timeout && !connection.holds();
            return is_silent.then(|| "the source sends nothing".to_owned());
        }
        counts.bytes.fetch_add(gathered.len() as u64, Ordering::Relaxed);
        if self.publisher.is_none() {
            match self.streams.publish(&self.name, Mux::MpegTs) {
                Ok(publisher) => self.publisher = Some(publisher),
                Err(error) => return Some(error.to_string()),
            }
        }
        let pushed =
            self.publisher.as_mut().map_or(Ok(()), |publisher| publisher.push_held(gathered, held_since));
        pushed.err().map(|error| {
            self.publisher = None;
            error.to_string()
        })
    }

    fn poll_timeout(&self) -> Time {
        self.heard + self.silence_timeout
    }

    fn end(&mut self, why: &str) {
        self.publisher = None;
        if self.throttle.end(why, GOOD_AFTER, self.streams.clock().now()) {
            tracing::warn!(stream = %self.name, source = self.url, "source is not there: {why}");
        }
    }
}

/// A stream is sent.
struct Output {
    streams: Arc<Streams>,
    name: StreamName,
    url: String,
    waker: std::task::Waker,
    subscription: Option<Subscription>,
    payloads: Payloads,
    buffer: Vec<u8>,
    look_again: Time,
    counts: Arc<Counts>,
    /// What the connection had sent and given up at the last look, and how often the reader had been moved.
    last: (u64, u64),
    last_moved: u32,
    throttle: LogThrottle,
}

impl LineUse for Output {
    fn begin(&mut self) {
        self.look_again = Time::ZERO;
        self.last = (0, 0);
        if self.throttle.begin(self.streams.clock().now()) {
            tracing::info!(stream = %self.name, output = self.url, "output is connected");
        }
    }

    fn work(&mut self, connection: &mut Connection, now: Time) -> Option<String> {
        // What a peer sends back is nothing to us.
        connection.deliver(now, |_, _| {});
        if self.subscription.is_none() && self.look_again <= now {
            self.look_again = now + LOOK_AGAIN;
            let found = self.streams.subscribe(&self.name, Entering::Newest, self.waker.clone());
            self.last_moved = 0;
            self.subscription = found.filter(|subscription| subscription.mux() == Mux::MpegTs);
        }
        let statistics = connection.statistics(now);
        let (sent, given_up) = std::mem::replace(&mut self.last, (statistics.sent, statistics.given_up));
        self.counts.datagrams.fetch_add(statistics.sent.saturating_sub(sent), Ordering::Relaxed);
        self.counts.given_up.fetch_add(statistics.given_up.saturating_sub(given_up), Ordering::Relaxed);
        let Some(subscription) = &mut self.subscription else { return None };
        let read = |buffer: &mut [u8]| {
            let read = subscription.read(buffer)?;
            if let glassline_streams::Read::Bytes(count) = read {
                self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
            }
            Ok(read)
        };
        let ended = read_into(read, &mut self.payloads, connection, &mut self.buffer, now);
        let moved = subscription.times_moved().saturating_sub(self.last_moved);
        self.last_moved = subscription.times_moved();
        self.counts.moved_forward.fetch_add(moved.into(), Ordering::Relaxed);
        if ended.unwrap_or(true) {
            self.subscription = None;
            self.look_again = now + LOOK_AGAIN;
        }
        None
    }

    fn poll_timeout(&self) -> Time {
        if self.subscription.is_none() { self.look_again } else { Time::NEVER }
    }

    fn end(&mut self, why: &str) {
        (self.subscription, self.payloads) = (None, Payloads::default());
        if self.throttle.end(why, GOOD_AFTER, self.streams.clock().now()) {
            tracing::warn!(stream = %self.name, output = self.url, "output is not there: {why}");
        }
    }
}
