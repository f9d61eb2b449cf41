//! One connection, from its first byte to its last: an HTTP exchange, then perhaps a publisher or a viewer.
//!
//! ```text
//!              ┌─ answer, next request ─┐
//!   accept ─► Exchange ─────────────────┴─► Draining ─► gone
//!               ├─► Fetching ─► next request ─┤
//!               ├─► Publishing, Ingesting, Reporting ─► answer
//!               └─► Watching (until one side ends)
//! ```

mod answering;
mod awaiting;
mod fetching;
mod ingesting;
mod preparing;
mod publishing;
mod responses;
mod staging;
mod state;
mod watching;

pub(super) use state::ConnectionState;

use crate::Settings;
use crate::access::{GONE, OpenRequest};
use crate::hub::Hub;
use crate::outgoing::Outgoing;
use crate::resting::Resting;
use crate::turn::TurnContext;
use crate::viewer::{Fed, Viewer};
use crate::wire::Wire;
use awaiting::Awaiting;
use fetching::Fetching;
use glassline_delivery::http1::server::{CONTINUE, Event, Request, Server};
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::policy::{Meter, StreamName, is_live_path};
use glassline_io::containment::{Border, arm, inject};
use glassline_media::Time;
use glassline_streams::pieces::Publisher;
use glassline_streams::presence::{Purpose, subscriber};
use glassline_streams::{Flushed, Live, Seat};
use ingesting::{Ingesting, Put};
use preparing::Preparing;
use responses::{guarded, shared_with};
use staging::Reporting;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use watching::Admission;

/// Answers that may wait for a client that reads slowly, before its next requests are looked at.
const OUTGOING_LIMIT_BYTES: usize = 256 << 10;
/// Bytes of a body that its address has no use for, before the request is refused and the connection ended.
const STRAY_BODY_BYTES: u64 = 64 << 10;
/// Bytes of a manifest or playlist that a publisher puts, and that is not needed.
const MANIFEST_MAX_BYTES: u64 = 4 << 20;
/// How long a connection that was answered and ended may go on sending before it is cut: cut at once, the
/// kernel would reset it and the peer might never read the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 16;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Wire,
    peer: SocketAddr,
    /// Whether it came in by an admin listener.
    is_admin: bool,
    seat: Seat,
    http: Server,
    outgoing: Outgoing,
    waiting_input: Vec<u8>,
    role: Role,
    /// What the access log gets at the exchange's end.
    asked: Option<Box<OpenRequest>>,
    /// What the publisher that was here has sent.
    published_bytes: u64,
    /// What a viewer has taken and gives back.
    admission: Admission,
    /// Whether it is counted among those of its address that have not been answered.
    asks: bool,
    /// Since when it is noted to rest.
    noted_rest: Option<Time>,
}

// Each viewer has one, and what it takes is most of what a viewer takes.
const _: () = assert!(size_of::<Connection>() <= 368 && size_of::<Viewer>() <= 256);

/// A place for a connection. The generation tells an old token from a new one's.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) connection: Option<Box<Connection>>,
}

#[derive(Debug)]
enum Role {
    Exchange {
        request: Option<Box<Request>>,
        body_bytes: u64,
    },
    // In a place of their own: of viewers there are very many, and all roles take as much room as the largest.
    Publishing(Box<Publishing>),
    /// It brings a track of CMAF, or a segment of one.
    Ingesting(Box<Ingesting>),
    /// It brings a viewer's report.
    Reporting(Reporting),
    Watching(Box<Viewer>),
    /// An object is on its way, as it comes.
    Fetching(Box<Fetching>),
    /// It waits for a stream that is asked for elsewhere.
    Awaiting(Box<Awaiting>),
    /// Its answer is being made by another thread.
    Preparing(Box<Preparing>),
    /// Another process took the request, and answered nothing yet.
    Asked(Box<Request>),
    /// Answered; `since` is when all was written and our side ended.
    Draining {
        since: Option<Time>,
    },
}

#[derive(Debug)]
struct Publishing {
    live: Arc<Live>,
    session: u64,
    last_bytes: Time,
    began: Time,
    bytes: u64,
    meter: Option<Meter>,
    /// Its body has an end, behind which the same publisher may go on.
    piece: Option<PieceInHand>,
}

/// A piece of a publisher's stream that is coming.
#[derive(Debug)]
struct PieceInHand {
    publisher: Publisher,
    /// The place of its first byte in what the publisher sends.
    from: u64,
    /// Pieces before it.
    before: u32,
}

/// What a connection's turn came to.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nothing more to do until its socket or its stream has news.
    Rests,
    /// There is more to read or to send; come back after the others had their turn.
    Again,
    /// It is a viewer that has had its share, and there is more for it.
    HasMore,
    /// There is more to send from then on.
    Later(Time),
    /// It became a viewer.
    Watches,
    /// It is over.
    Over,
}

/// What a connection has become by what its peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    /// A viewer's: news of its stream bring it its turns from now on.
    Viewer,
    /// Nothing else than it was.
    Same,
}

/// The answer to a publisher that has gone in the middle of its body (RFC 9112 §8).
fn cut_off() -> Response {
    guarded(problem(
        400,
        "the stream was cut off",
        "Its end did not come; publish again under the same name.",
    ))
}

/// Whether a request puts something of a presentation.
fn is_put(request: &Request) -> bool {
    matches!(request.method, Method::Put | Method::Post)
        && StreamName::of_presentation_path(&request.path).is_some()
}

impl Connection {
    pub(crate) fn new(
        socket: Wire,
        peer: SocketAddr,
        is_admin: bool,
        seat: Seat,
        settings: &Settings,
        now: Time,
    ) -> Connection {
        // An answer's last bytes wait for nothing; a failure here costs only that, as does one below.
        let _ = socket.tcp().send_at_once();
        // The kernel gives up a client that does not take what it asked for.
        let _ = socket.tcp().give_up_after(settings.stall_timeout);
        Connection {
            socket,
            peer,
            is_admin,
            seat,
            http: Server::new(settings.http, now),
            outgoing: Outgoing::default(),
            waiting_input: Vec::new(),
            role: Role::Exchange { request: None, body_bytes: 0 },
            asked: None,
            published_bytes: 0,
            admission: Admission::default(),
            // The worker counted it when it let it in.
            asks: !is_admin,
            noted_rest: None,
        }
    }

    /// Whether its peer has cost a descriptor and has neither got a whole answer nor sent a stream: one that says
    /// nothing, or half a request, or that does not take its answer. False for viewers, clients of an object,
    /// publishers that have sent something, connections that rest between two requests, and those of admin listeners.
    fn is_unanswered(&self) -> bool {
        !self.is_admin
            && match &self.role {
                Role::Exchange { .. } => !(self.http.has_answered() && self.outgoing.is_empty()),
                Role::Publishing(publishing) => publishing.bytes == 0,
                Role::Ingesting(ingesting) => ingesting.bytes == 0,
                Role::Reporting(_) | Role::Preparing(_) => true,
                // Its patience is bounded by itself.
                Role::Watching(_) | Role::Fetching(_) | Role::Awaiting(_) | Role::Asked(_) => false,
                Role::Draining { since } => since.is_none(),
            }
    }

    /// Counts it among those of its address that have not been answered, or no longer, as it is now.
    pub(crate) fn count_answers(&mut self, hub: &Hub) {
        let asks = self.is_unanswered();
        match (self.asks, asks) {
            (true, false) => hub.answered(self.peer.ip()),
            // It is here already, whatever the limit is.
            (false, true) => hub.presence.count(self.peer.ip(), Purpose::Ask, 0),
            _ => {}
        }
        self.asks = asks;
    }

    /// Since when it rests between two requests, with nothing left to send and nothing come: closing it loses nothing.
    fn rests_since(&self) -> Option<Time> {
        let is_quiet = matches!(self.role, Role::Exchange { .. })
            && self.outgoing.is_empty()
            && self.waiting_input.is_empty();
        self.http.resting_since().filter(|_| is_quiet && self.socket.is_flushed())
    }

    /// Has `resting`, in which it is `token`, know whether and since when it rests, as it is now.
    pub(crate) fn note_rest(&mut self, token: u64, resting: &mut Resting) {
        let since = self.rests_since();
        resting.change(token, self.peer.ip(), std::mem::replace(&mut self.noted_rest, since), since);
    }

    /// Has `resting` forget it.
    pub(crate) fn leave_rest(&mut self, token: u64, resting: &mut Resting) {
        resting.change(token, self.peer.ip(), self.noted_rest.take(), None);
    }

    /// Tells the access log, if there is one, that the exchange is over.
    fn log(&mut self, status: u16, bytes: u64, context: &TurnContext<'_>) {
        let published_bytes = std::mem::take(&mut self.published_bytes);
        if let Some(asked) = self.asked.take() {
            context.hub.log_access(asked.over(
                self.peer.ip(),
                status,
                bytes.max(published_bytes),
                context.now,
            ));
        }
    }

    pub(crate) fn viewer(&mut self) -> Option<(&mut Viewer, &mut Wire)> {
        match &mut self.role {
            Role::Watching(viewer) => Some((viewer, &mut self.socket)),
            _ => None,
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it is a publisher's.
    pub(crate) fn publishes(&self) -> bool {
        matches!(self.role, Role::Publishing(_) | Role::Ingesting(_))
    }

    /// The socket can take or give bytes.
    pub(crate) fn take_turn(&mut self, context: &mut TurnContext<'_>) -> Turn {
        match self.try_turn(context) {
            Ok(turn) => turn,
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "connection lost");
                Turn::Over
            }
        }
    }

    fn try_turn(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        let mut rests = Turn::Rests;
        if let Role::Watching(viewer) = &mut self.role {
            match viewer.feed(&mut self.socket, context.allowance, context.now)? {
                Fed::Finished => return self.end_viewer(context),
                Fed::HasMore => rests = Turn::HasMore,
                Fed::Paced => rests = Turn::Later(viewer.next_burst()),
                Fed::Stays => {}
            }
        } else {
            let flushed = self.outgoing.flush(&mut self.socket)?;
            if let Role::Asked(_) = &self.role
                && let Role::Asked(request) =
                    std::mem::replace(&mut self.role, Role::Exchange { request: None, body_bytes: 0 })
                && self.answer(request, context)? == Became::Viewer
            {
                return Ok(Turn::Watches);
            }
            if let Role::Fetching(_) = &self.role {
                rests = self.feed_fetch(context)?;
            }
            if matches!(rests, Turn::Over) {
                return Ok(Turn::Over);
            }
            let waits = matches!(self.role, Role::Fetching(_) | Role::Awaiting(_) | Role::Preparing(_));
            if flushed && !waits && !self.waiting_input.is_empty() {
                let input = std::mem::take(&mut self.waiting_input);
                if self.take_input(&input, context)? == Became::Viewer {
                    return Ok(Turn::Watches);
                }
            }
        }
        let turn = match self.read(context) {
            Ok(Turn::Rests) if self.wants_turn() => Ok(Turn::Again),
            Ok(Turn::Rests) => Ok(rests),
            turn => turn,
        };
        if let Role::Publishing(publishing) = &self.role {
            let flushed = publishing.live.pause(context.now);
            context.notify(&publishing.live, flushed, self.seat.worker);
        }
        turn
    }

    /// Takes what the peer has sent.
    fn read(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        for _ in 0..READS_A_TURN {
            if !self.waiting_input.is_empty() {
                return Ok(Turn::Rests);
            }
            let was_handshaking = self.socket.is_handshaking();
            let received = self.socket.read(context.scratch)?;
            if was_handshaking && !self.socket.is_handshaking() {
                context.hub.counters.tls_handshakes.increment();
            }
            if matches!(self.role, Role::Publishing(_)) {
                // What has come is told to have come when it is here, not when its turn began.
                context.now = context.hub.clock.now();
            }
            match received {
                None => return Ok(Turn::Rests),
                Some(0) => return self.peer_ended(context),
                Some(_) if self.socket.is_mistaken() => {
                    self.refuse_plain(context);
                    self.outgoing.flush(&mut self.socket)?;
                }
                Some(count) => {
                    let scratch = std::mem::take(&mut context.scratch);
                    let became = self.take_input(&scratch[..count], context);
                    context.scratch = scratch;
                    if became? == Became::Viewer {
                        return Ok(Turn::Watches);
                    }
                }
            }
        }
        Ok(Turn::Again)
    }

    /// Takes bytes that the peer sent.
    fn take_input(&mut self, mut input: &[u8], context: &mut TurnContext<'_>) -> io::Result<Became> {
        if matches!(self.role, Role::Watching(_) | Role::Draining { .. }) {
            return Ok(Became::Same);
        }
        loop {
            if matches!(self.role, Role::Awaiting(_)) {
                // What comes behind a request for a stream is of no use once that comes.
                return Ok(Became::Same);
            }
            if matches!(self.role, Role::Preparing(_)) {
                // The next request waits until this one is answered.
                self.waiting_input.extend_from_slice(input);
                return Ok(Became::Same);
            }
            if matches!(self.role, Role::Fetching(_)) {
                if let Turn::Over = self.feed_fetch(context)? {
                    // What has begun is cut by the connection's end.
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                if matches!(self.role, Role::Fetching(_)) {
                    // The next request waits until this one is answered.
                    self.waiting_input.extend_from_slice(input);
                    return Ok(Became::Same);
                }
                if matches!(self.role, Role::Draining { .. }) {
                    break;
                }
            }
            if self.outgoing.len() > OUTGOING_LIMIT_BYTES && !self.outgoing.flush(&mut self.socket)? {
                // The socket's next edge brings this input back.
                self.waiting_input = input.to_vec();
                return Ok(Became::Same);
            }
            match self.http.next(&mut input, context.now) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if self.take_event(event, context)? == Became::Viewer {
                        return Ok(Became::Viewer);
                    }
                    if matches!(self.role, Role::Draining { .. }) {
                        break;
                    }
                }
                Err(error) => {
                    self.refuse_http(&error, context);
                    break;
                }
            }
        }
        self.outgoing.flush(&mut self.socket)?;
        Ok(Became::Same)
    }

    fn take_event(&mut self, event: Event<'_>, context: &mut TurnContext<'_>) -> io::Result<Became> {
        match (&mut self.role, event) {
            (Role::Exchange { .. }, Event::Request(request)) => {
                context.hub.counters.requests.increment();
                self.begin_request(request, context);
            }
            (Role::Exchange { request, body_bytes }, Event::Data(data)) => {
                *body_bytes += data.len() as u64;
                let is_put = request.as_ref().is_some_and(|request| is_put(request));
                if *body_bytes > if is_put { MANIFEST_MAX_BYTES } else { STRAY_BODY_BYTES } {
                    let words = "This address takes no body of this size; publish to /live/NAME.ts.";
                    self.refuse(problem(413, "content too large", words), context);
                }
            }
            (Role::Exchange { request, body_bytes }, Event::End) => {
                *body_bytes = 0;
                if let Some(request) = request.take() {
                    return self.answer(request, context);
                }
            }
            (Role::Publishing(publishing), Event::Data(data)) => {
                publishing.last_bytes = context.now;
                publishing.bytes += data.len() as u64;
                if let Some(meter) = &mut publishing.meter
                    && !meter.allow(data.len(), context.now)
                {
                    let limit = meter.limit_bps();
                    self.leave_seat(context, "sent more than it may");
                    let title = format!("more than {limit} bit/s");
                    let words = "Send at a lower bit rate, or raise the stream's max_bitrate in the server's configuration.";
                    self.refuse(problem(429, &title, words), context);
                    return Ok(Became::Same);
                }
                match publishing.live.push(publishing.session, data, context.now) {
                    Ok(news) => {
                        let flushed = Flushed { news, wake_at: None };
                        context.notify(&publishing.live, flushed, self.seat.worker);
                    }
                    Err(error) => self.refuse_push(&error, context),
                }
            }
            (Role::Publishing(_), Event::End) => {
                self.end_piece(context);
                self.finish_answer(&guarded(Response::new(204)), false, context);
            }
            (Role::Ingesting(_), Event::Data(data)) => self.take_track(data, context),
            (Role::Ingesting(_), Event::End) => self.end_track(context),
            (Role::Reporting(_), Event::Data(data)) => self.take_report(data, context),
            (Role::Reporting(_), Event::End) => self.end_report(context),
            (Role::Publishing(_) | Role::Ingesting(_) | Role::Reporting(_), Event::Request(_))
            | (
                Role::Watching(_)
                | Role::Fetching(_)
                | Role::Awaiting(_)
                | Role::Preparing(_)
                | Role::Asked(_)
                | Role::Draining { .. },
                _,
            ) => {}
        }
        Ok(Became::Same)
    }

    fn begin_request(&mut self, request: Box<Request>, context: &mut TurnContext<'_>) {
        inject(Border::Connection, || request.path.clone());
        arm(Border::Worker, || request.path.clone());
        self.asked = context.hub.asked(&request);
        if staging::is_report(&request) {
            match self.begin_report(&request, context) {
                Ok(reporting) => {
                    if request.expects_continue() {
                        self.outgoing.push(CONTINUE);
                    }
                    self.role = Role::Reporting(reporting);
                }
                Err(refusal) => self.refuse(shared_with(context.settings, refusal), context),
            }
            return;
        }
        let publishes = matches!(request.method, Method::Put | Method::Post) && is_live_path(&request.path);
        let part = StreamName::of_presentation_path(&request.path).filter(|_| publishes);
        let put = part.map(|(name, path)| self.begin_put(&name, path, &request, context));
        if let Some(Err(refusal)) = put {
            self.refuse(refusal, context);
        } else if let Some(Ok(Put::Track(ingesting))) = put {
            if request.expects_continue() {
                self.outgoing.push(CONTINUE);
            }
            self.role = Role::Ingesting(Box::new(ingesting));
        } else if publishes && put.is_none() {
            match self.claim(&request, context) {
                Ok(publishing) => {
                    if request.expects_continue() {
                        self.outgoing.push(CONTINUE);
                    }
                    self.role = Role::Publishing(Box::new(publishing));
                }
                Err(refusal) => self.refuse(refusal, context),
            }
        } else if let Role::Exchange { request: slot, .. } = &mut self.role {
            if request.expects_continue() {
                self.outgoing.push(CONTINUE);
            }
            *slot = Some(request);
        }
    }

    fn peer_ended(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        match &self.role {
            Role::Watching(_) => self.end_viewer(context),
            Role::Publishing(_) => {
                let whole = self.http.end().is_ok();
                self.leave_seat(context, if whole { "ended" } else { "was cut off" });
                let response = if whole { guarded(Response::new(204)) } else { cut_off() };
                self.finish_answer(&response, false, context);
                let _ = self.outgoing.flush(&mut self.socket)?;
                Ok(Turn::Over)
            }
            Role::Ingesting(_) => {
                if self.http.end().is_ok() {
                    self.end_track(context);
                    let _ = self.outgoing.flush(&mut self.socket)?;
                }
                Ok(Turn::Over)
            }
            Role::Fetching(_) | Role::Awaiting(_) | Role::Reporting(_) => Ok(Turn::Over),
            // It has asked all that it will, and waits for the answer.
            Role::Preparing(_) => Ok(Turn::Rests),
            Role::Draining { .. } | Role::Exchange { .. } | Role::Asked(_) => {
                let _ = self.outgoing.flush(&mut self.socket)?;
                Ok(Turn::Over)
            }
        }
    }

    /// Ends our side of a connection that is ending, once all is written.
    pub(crate) fn end_if_written(&mut self, now: Time) {
        if let Role::Draining { since: since @ None } = &mut self.role
            && self.outgoing.is_empty()
        {
            self.socket.take_leave();
            if self.socket.is_flushed() {
                *since = Some(now);
                let _ = self.socket.end();
            }
        }
    }

    /// Checks the connection's time limits. Returns whether it is over.
    pub(crate) fn check_time(&mut self, context: &mut TurnContext<'_>) -> bool {
        let (now, settings) = (context.now, context.settings);
        match &mut self.role {
            Role::Exchange { .. } | Role::Reporting(_) => {
                if !self.outgoing.is_empty() {
                    return false;
                }
                if self.http.poll_timeout().is_some_and(|deadline| now >= deadline) {
                    context.hub.counters.timed_out.increment();
                    if self.http.is_idle() {
                        return true;
                    }
                    if self.http.is_in_body() {
                        context.hub.counters.bodies_timed_out.increment();
                    }
                    self.refuse_http(&self.http.late(), context);
                    let _ = self.outgoing.flush(&mut self.socket);
                }
                false
            }
            Role::Publishing(publishing) => {
                // A publisher that has sent nothing at all has no stream to come back to.
                let patience = match publishing.bytes {
                    0 => settings.silence_timeout.min(settings.http.body_time),
                    _ => settings.silence_timeout,
                };
                if now.since(publishing.last_bytes) >= patience {
                    // On a busy worker what has come may still wait to be read: that is no silence.
                    let bytes = publishing.bytes;
                    if matches!(self.take_turn(context), Turn::Over) {
                        return true;
                    }
                    if !matches!(&self.role, Role::Publishing(publishing) if publishing.bytes == bytes) {
                        return false;
                    }
                    context.hub.counters.timed_out.increment();
                    if bytes == 0 {
                        context.hub.counters.bodies_timed_out.increment();
                    }
                    let words = "A publisher that sends nothing gives up its name; publish again when there is something to send.";
                    self.leave_seat(context, "was silent and gave up its name");
                    self.refuse(problem(408, "nothing was sent for too long", words), context);
                    let _ = self.outgoing.flush(&mut self.socket);
                }
                false
            }
            Role::Ingesting(_) => {
                self.check_track(context);
                false
            }
            Role::Watching(viewer) => {
                let stalled =
                    viewer.blocked_since().is_some_and(|since| now.since(since) >= settings.stall_timeout);
                if stalled {
                    viewer.live().counters.stalled.increment();
                    let stream = &viewer.live().name;
                    tracing::info!(peer = %self.peer, %stream, "viewer dropped: its connection takes nothing");
                }
                stalled
            }
            Role::Fetching(fetching) => {
                if fetching.waits_since().is_some_and(|since| now.since(since) >= settings.object_timeout) {
                    context.hub.counters.timed_out.increment();
                    fetching.leave(self.seat);
                    let words = "What was asked for did not come in time; read the playlist again.";
                    let response = problem(503, "it takes too long", words).with_header("Retry-After", "1");
                    self.finish_answer(&guarded(response), false, context);
                    let _ = self.outgoing.flush(&mut self.socket);
                    return false;
                }
                let is_in_the_way = fetching.note_progress(now);
                if is_in_the_way {
                    tracing::info!(peer = %self.peer, "a client was dropped: others waited for it while memory was short");
                }
                is_in_the_way
            }
            Role::Awaiting(awaiting) => {
                if now.since(awaiting.since) >= settings.object_timeout {
                    context.hub.counters.timed_out.increment();
                    self.refuse_awaiting(context);
                }
                false
            }
            Role::Preparing(preparing) => {
                if now.since(preparing.since) >= settings.object_timeout {
                    context.hub.counters.timed_out.increment();
                    self.refuse_preparing(context);
                }
                false
            }
            Role::Asked(_) => false,
            Role::Draining { since } => since.is_some_and(|since| now.since(since) >= DRAIN_TIME),
        }
    }

    /// Gives back what it had in its stream or its object.
    fn leave_role(&mut self, context: &mut TurnContext<'_>) {
        self.leave_seat(context, "was cut off");
        self.leave_track(context);
        if let Role::Watching(viewer) = &self.role {
            viewer.live().viewer_leaves(self.seat.worker);
            viewer.live().watchers().leave(subscriber(self.peer.ip()), context.now);
            self.admission.leave(self.peer.ip(), context.hub);
        }
        if let Role::Awaiting(awaiting) = &self.role {
            awaiting.leave(self.seat);
        }
        if let Role::Fetching(fetching) = &self.role {
            fetching.leave(self.seat);
        }
    }

    fn log_end(&mut self, context: &mut TurnContext<'_>) {
        let (status, bytes) = match &self.role {
            Role::Watching(viewer) => (200, viewer.sent_bytes),
            Role::Fetching(fetching) => fetching.sent().unwrap_or((GONE, 0)),
            _ => (GONE, 0),
        };
        self.log(status, bytes, context);
    }

    fn end_socket(&mut self, context: &mut TurnContext<'_>) {
        if self.socket.is_handshaking() {
            context.hub.counters.tls_failed.increment();
        }
        self.socket.take_leave();
    }

    /// It is no longer counted among those of its address.
    fn leave_address(&mut self, context: &mut TurnContext<'_>) {
        context.hub.disconnected(self.peer.ip());
        if std::mem::take(&mut self.asks) {
            context.hub.answered(self.peer.ip());
        }
    }
}

/// What a connection does at its end, in order. Each act is independent of the others: after a panic in its turn a
/// connection may be half-written, and has to give back all that it can.
pub(crate) const LAST_ACTS: [fn(&mut Connection, &mut TurnContext<'_>); 4] =
    [Connection::leave_role, Connection::log_end, Connection::end_socket, Connection::leave_address];
