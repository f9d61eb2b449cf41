//! An HTTP upstream: the pure puller, its socket, its names.

use super::publisher_slots::PublisherSlots;
use super::table::{Note, Phase, PullEntry};
use super::{LeftSocket, PullContext, READS_A_TURN, Resolved, Sources, token};
use crate::log_throttle::LogThrottle;
use crate::outgoing::Outgoing;
use crate::tls_ends::PlainEnd;
use crate::wire::Wire;
use glassline_delivery::http1::Url;
use glassline_delivery::metacube::{Flags, Metadata};
use glassline_delivery::pull::{self, Event, Output, Policy, PullError, Puller};
use glassline_delivery::stream::{Block, Mux};
use glassline_io::poll::{Poller, Watch};
use glassline_io::resolve;
use glassline_io::tcp::Connection;
use glassline_io::tls::{self, Session};
use glassline_media::quantity::in_seconds;
use glassline_media::{Time, Utc};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Two clocks that differ by more than this measure no delay.
const PLAUSIBLE_DELAY: Duration = Duration::from_secs(3600);

pub(super) struct Upstream {
    index: usize,
    entry: Arc<PullEntry>,
    note: Note,
    puller: Puller,
    slots: PublisherSlots,
    link: Link,
    outgoing: Outgoing,
    generation: u32,
    /// The host that the certificate has to be for, where TLS is wanted.
    secured: Option<String>,
    /// Addresses that were not tried yet, the next one last.
    addresses: Vec<SocketAddr>,
    /// What a thread is resolving.
    resolving: Option<Host>,
    /// What has to be resolved; another than `resolving` where that was given up.
    wanted: Option<Host>,
    log_throttle: LogThrottle,
    good_after: Duration,
}

/// See [`Upstream::state`].
#[derive(Serialize, Deserialize)]
pub(super) struct UpstreamState {
    note: Note,
    puller: Puller,
    sessions: Vec<u64>,
    #[serde(with = "serde_bytes")]
    outgoing: Vec<u8>,
}

/// Name and port.
type Host = (String, u16);

enum Link {
    Closed,
    Opening(Connection),
    Open(Wire),
}

impl Upstream {
    pub(super) fn new(
        server: &dyn Sources,
        index: usize,
        entry: Arc<PullEntry>,
        url: Url,
        policy: Policy,
        seed: u64,
    ) -> Upstream {
        let slots = PublisherSlots::new(server.streams(), &entry.names, entry.mux);
        let alternates = entry.alternates.clone();
        Upstream {
            index,
            entry,
            note: Note::default(),
            puller: Puller::new(url, policy, seed, server.clock().now()).with_alternates(alternates),
            slots,
            link: Link::Closed,
            outgoing: Outgoing::default(),
            generation: 0,
            secured: None,
            addresses: Vec::new(),
            resolving: None,
            wanted: None,
            log_throttle: LogThrottle::default(),
            good_after: policy.good_after,
        }
    }

    /// What the next process needs of it, and its socket, or an end for its plain bytes; `None` where it has none, and
    /// begins anew there.
    pub(super) fn state(&self) -> Option<(UpstreamState, LeftSocket<'_>)> {
        let Link::Open(wire) = &self.link else { return None };
        let socket = match wire.state() {
            Ok((_, Some(PlainEnd::Made(pair)))) => LeftSocket::Plain(pair),
            Ok(_) => LeftSocket::Own(wire.as_fd()),
            Err(error) => {
                tracing::warn!(source = %self.entry.source, %error, "a source begins anew with the new program");
                return None;
            }
        };
        let state = UpstreamState {
            note: self.note.clone(),
            puller: self.puller.clone(),
            sessions: self.slots.sessions(),
            outgoing: self.outgoing.to_bytes(),
        };
        Some((state, socket))
    }

    /// The TLS of its connection.
    pub(super) fn into_session(self: Box<Self>) -> Option<(Connection, Session)> {
        match self.link {
            Link::Open(wire) => wire.into_session(),
            Link::Closed | Link::Opening(_) => None,
        }
    }

    /// Goes on where another process left off. Where a publisher slot has been lost, it begins anew.
    pub(super) fn restore(
        &mut self,
        state: UpstreamState,
        socket: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        if self.slots.restore(&state.sessions) {
            self.generation = 1;
            poller.add(&socket, token(self.index, self.generation), Watch::Edges)?;
            self.link = Link::Open(Wire::plain(Connection::from_descriptor(socket)));
            (self.note, self.puller, self.outgoing) = (state.note, state.puller, state.outgoing.into());
            self.entry.post(&self.note);
        }
        Ok(())
    }

    /// Applies a new retry policy.
    pub(super) fn reconfigure(&mut self, policy: Policy) {
        self.puller.reconfigure(policy);
        self.good_after = policy.good_after;
    }

    pub(super) fn entry(&self) -> &Arc<PullEntry> {
        &self.entry
    }

    pub(super) fn poll_timeout(&self) -> Time {
        let held_until = self.slots.held_until().unwrap_or(Time::NEVER);
        self.puller.poll_timeout().unwrap_or(Time::NEVER).min(held_until)
    }

    /// Goes on with the streams of another source that was asked for them until now.
    pub(super) fn adopt(&mut self, former: Upstream, now: Time) {
        self.slots.adopt(former.slots, now);
    }

    pub(super) fn handle_timeout(&mut self, context: &mut PullContext<'_>) {
        if self.slots.held_until().is_some_and(|until| until <= context.now) {
            self.slots.release();
        }
        self.puller.handle_timeout(context.now);
        self.settle(context);
    }

    /// A name's addresses have come, or none.
    pub(super) fn handle_resolved(
        &mut self,
        addresses: io::Result<Vec<SocketAddr>>,
        context: &mut PullContext<'_>,
    ) {
        let resolved = self.resolving.take();
        if self.wanted != resolved {
            // What was asked for was given up meanwhile, perhaps for another name.
            self.resolve(context);
            return;
        }
        self.wanted = None;
        match addresses {
            Ok(addresses) => self.try_addresses(addresses, context),
            Err(error) => self.puller.handle_failure(PullError::Connect(error.to_string()), context.now),
        }
        self.settle(context);
    }

    /// Its socket has news. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, generation: u32, context: &mut PullContext<'_>) -> bool {
        if generation != self.generation {
            return false;
        }
        let more = match self.try_turn(context) {
            Ok(more) => more,
            Err(error) => {
                let is_connected = !matches!(&self.link, Link::Open(wire) if wire.is_handshaking());
                let failure = match is_connected {
                    true => PullError::Lost,
                    false if tls::is_untrusted(&error) => PullError::Untrusted,
                    false => PullError::Connect,
                };
                self.puller.handle_failure(failure(error.to_string()), context.now);
                false
            }
        };
        self.settle(context);
        more && generation == self.generation
    }

    fn try_turn(&mut self, context: &mut PullContext<'_>) -> io::Result<bool> {
        if let Link::Opening(connection) = &self.link {
            match connection.connected() {
                Ok(()) => self.opened(context),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => {
                    self.try_next(Some(error), context);
                    return Ok(false);
                }
            }
        }
        let Link::Open(wire) = &mut self.link else { return Ok(false) };
        wire.flush()?;
        self.outgoing.flush(wire)?;
        for _ in 0..READS_A_TURN {
            let received = wire.read(context.scratch)?;
            if !self.outgoing.is_empty() && !wire.is_handshaking() {
                // The handshake's end has just come.
                self.outgoing.flush(wire)?;
            }
            let Some(count) = received else { return Ok(false) };
            if wire.is_mistaken() {
                let words = "it speaks plain HTTP where TLS is expected";
                self.puller.handle_failure(PullError::Connect(words.into()), context.now);
                return Ok(false);
            }
            if count == 0 {
                self.puller.handle_end(context.now);
                return Ok(false);
            }
            let taken = take_bytes(&mut self.puller, &mut self.slots, &mut self.note, context, count);
            if let Err(words) = taken {
                self.puller.handle_failure(PullError::Refused(words), context.now);
            }
            if self.puller.has_output() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn opened(&mut self, context: &mut PullContext<'_>) {
        if let Link::Opening(connection) = std::mem::replace(&mut self.link, Link::Closed) {
            self.addresses.clear();
            let wire = match &self.secured {
                None => Ok(Wire::plain(connection)),
                Some(host) => {
                    let session = context.trust.connect(&self.entry.roots, host);
                    session.map(|session| Wire::secured(connection, session))
                }
            };
            match wire {
                Ok(wire) => self.link = Link::Open(wire),
                Err(error) => {
                    return self.puller.handle_failure(PullError::Connect(error.to_string()), context.now);
                }
            }
            self.puller.set_via(self.entry.via());
            let name = self.entry.names.first();
            let source = self.entry.http(self.puller.turn());
            let limit = name.zip(source).and_then(|(name, source)| context.server.hops_limit(name, &source));
            self.puller.set_hops_limit(limit);
            self.slots.set_spliced(limit.is_some() && self.entry.mux == Mux::MpegTs);
            self.puller.handle_connected(context.now);
            while let Some(output) = self.puller.poll_output() {
                if let Output::Send(bytes) = output {
                    self.outgoing.push(bytes);
                }
            }
        }
    }

    /// Does what the puller asks for, and tells what has changed.
    fn settle(&mut self, context: &mut PullContext<'_>) {
        while let Some(output) = self.puller.poll_output() {
            match output {
                Output::Connect { host, port, tls } => {
                    self.secured = tls.then(|| host.clone());
                    match host.parse::<IpAddr>() {
                        Ok(ip) => self.try_addresses(vec![SocketAddr::new(ip, port)], context),
                        Err(_) => {
                            self.wanted = Some((host, port));
                            self.resolve(context);
                        }
                    }
                }
                // Requests are sent where the connection opens; none is due at another time.
                Output::Send(_) => {}
                Output::Close => self.close(context.now),
            }
        }
        self.publish_status(context);
    }

    fn close(&mut self, now: Time) {
        self.link = Link::Closed;
        // What epoll has told of the old socket is void.
        self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
        self.outgoing = Outgoing::default();
        self.addresses.clear();
        self.wanted = None;
        self.slots.pause(now);
    }

    /// Starts a thread that resolves the wanted name, unless one is still busy: a resolver that hangs must not take
    /// more and more threads.
    fn resolve(&mut self, context: &PullContext<'_>) {
        let (Some((host, port)), None) = (self.wanted.clone(), &self.resolving) else { return };
        let (index, answers, waker) = (self.index, context.answers.clone(), context.waker.clone());
        let answer = move |addresses| {
            // The answer has no receiver any more where the relay has ended.
            let _ = answers.send(Resolved { index, addresses });
            waker.wake();
        };
        match resolve::in_background(host.clone(), port, answer) {
            Ok(()) => self.resolving = Some((host, port)),
            Err(error) => self.puller.handle_failure(PullError::Connect(error.to_string()), context.now),
        }
    }

    fn try_addresses(&mut self, mut addresses: Vec<SocketAddr>, context: &PullContext<'_>) {
        // Where the first one swallows all, another one is first next time.
        let first = self.puller.counts().failures % addresses.len().max(1) as u64;
        addresses.rotate_left(first as usize);
        addresses.reverse();
        self.addresses = addresses;
        self.try_next(None, context);
    }

    /// Opens a connection to the next address; where there is none, fails with what the last one came to.
    fn try_next(&mut self, mut error: Option<io::Error>, context: &PullContext<'_>) {
        self.link = Link::Closed;
        while let Some(address) = self.addresses.pop() {
            let opened = Connection::connect_from(address, None, None).and_then(|connection| {
                self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
                context.poller.add(&connection, token(self.index, self.generation), Watch::Edges)?;
                Ok(connection)
            });
            match opened {
                Ok(connection) => {
                    self.link = Link::Opening(connection);
                    return;
                }
                Err(failed) => error = Some(failed),
            }
        }
        let words = error.map_or_else(|| "the name has no address".into(), |error| error.to_string());
        self.puller.handle_failure(PullError::Connect(words), context.now);
    }

    /// Tells the log and the entry.
    fn publish_status(&mut self, context: &PullContext<'_>) {
        let (counts, error) = (self.puller.counts(), self.puller.error().map(ToString::to_string));
        let was = self.note.phase;
        self.note.phase = match self.puller.phase() {
            pull::Phase::Connecting => Phase::Connecting,
            pull::Phase::Live => Phase::Live,
            pull::Phase::Waiting { retry_at } => Phase::Waiting { retry_at: Some(retry_at) },
        };
        if self.note.phase == Phase::Live && was != Phase::Live {
            if let Some(source) = self.entry.http(self.puller.turn()) {
                context.server.note_attempt(&self.entry.names, &source, Ok(()));
            }
            let (source, metacube) = (self.entry.url(self.puller.turn()), self.note.metacube);
            if self.log_throttle.begin(context.now) {
                tracing::info!(%source, streams = ?self.entry.names, metacube, "source is live");
            }
        }
        if counts.failures > self.note.failures {
            if let (Some(error), Some(source)) = (self.puller.error(), self.entry.http(self.note.turn)) {
                context.server.note_attempt(&self.entry.names, &source, Err(error));
            }
            // The turn is the next one's by now.
            let (source, why) = (self.entry.url(self.note.turn), error.as_deref().unwrap_or_default());
            let retry_in_s = in_seconds(self.poll_timeout().since(context.now));
            let failures = counts.failures;
            if self.log_throttle.end(why, self.good_after, context.now) {
                tracing::warn!(%source, streams = ?self.entry.names, failures, retry_in_s, "source is not there: {why}");
            } else {
                tracing::debug!(%source, failures, retry_in_s, "source is not there: {why}");
            }
            self.note.encoder_delay = None;
        }
        let pull::Counts { sessions, failures, redirects, garbage_bytes } = counts;
        let turn = self.puller.turn();
        let remedy = self.puller.error().filter(|error| {
            // An answer that turns out to be no stream has begun a session.
            let of_body = matches!(error, PullError::Refused(_) | PullError::NotMetacube { .. });
            sessions <= u64::from(of_body)
        });
        let remedy = remedy.and_then(PullError::remedy).map(str::to_owned);
        self.note =
            Note { sessions, failures, redirects, garbage_bytes, error, turn, remedy, ..self.note.clone() };
        self.entry.post(&self.note);
    }
}

/// Passes on what the first `count` bytes of the context's scratch say.
fn take_bytes(
    puller: &mut Puller,
    slots: &mut PublisherSlots,
    note: &mut Note,
    context: &mut PullContext<'_>,
    count: usize,
) -> Result<(), String> {
    let mut taken = Ok(());
    let (clock, bytes) = (context.server.clock(), &context.scratch[..count]);
    puller.handle_bytes(bytes, context.now, &mut |event| match event {
        Event::Began { metacube, media_type } => {
            note.metacube = metacube;
            taken = slots.acquire();
            slots.call(media_type);
        }
        Event::Block { size, flags } if taken.is_ok() => taken = slots.begin_block(block(flags), size),
        Event::Data(bytes) if taken.is_ok() => taken = slots.push(bytes),
        Event::Metadata(Metadata::EncoderTimestamp(at)) => note.encoder_delay = delay(at, clock.utc()),
        Event::Block { .. } | Event::Data(_) | Event::Metadata(_) => {}
    });
    taken
}

/// What a block's flags say of it.
fn block(flags: Flags) -> Block {
    if flags.has(Flags::HEADER) {
        Block::Header
    } else if flags.has(Flags::NOT_SUITABLE_FOR_STREAM_START) {
        Block::Rest
    } else {
        Block::Join
    }
}

/// From `at` to `now`, where that can be a delay.
fn delay(at: Utc, now: Utc) -> Option<Duration> {
    let delay = Duration::from_nanos(now.as_nanos().checked_sub(at.as_nanos())?);
    (delay <= PLAUSIBLE_DELAY).then_some(delay)
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
