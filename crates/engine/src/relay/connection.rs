//! One connection, from its first byte to its last: an HTTP exchange, then perhaps a publisher or a viewer.
//!
//! ```text
//!              ┌─ answer, next request ─┐
//!   accept ─► Exchange ─────────────────┴─► Draining ─► gone
//!               ├─► Publishing ─► answer ─────┘
//!               └─► Watching (until one side ends)
//! ```

use crate::relay::ClaimError;
use crate::relay::access::{Asked, GONE};
use crate::relay::hub::Hub;
use crate::relay::live::{Flushed, Live, PushError, Seat};
use crate::relay::outgoing::Outgoing;
use crate::relay::presence::Purpose;
use crate::relay::viewer::{Fed, Viewer};
use glassline_delivery::http1::server::{CONTINUE, Event, Request, Server};
use glassline_delivery::http1::{HttpError, Method, Response, problem};
use glassline_delivery::metacube::CONTENT_CODING;
use glassline_delivery::policy::{Meter, StreamName, WatchRefusal};
use glassline_io::tcp::Connection as Socket;
use glassline_media::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Unsent bytes that a viewer's kernel may hold beyond what is on its way.
const VIEWER_UNSENT_BYTES: u32 = 64 << 10;
/// Answers that may wait for a client that reads slowly, before its next requests are looked at.
const OUTGOING_LIMIT_BYTES: usize = 256 << 10;
/// Bytes of a body that nobody asked for, before the connection is ended.
const STRAY_BODY_BYTES: u64 = 64 << 10;
/// How long a connection that was answered and ended may go on sending before it is cut: cut at once, the
/// kernel would reset it and the peer might never read the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 16;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    peer: SocketAddr,
    seat: Seat,
    http: Server,
    outgoing: Outgoing,
    waiting_input: Vec<u8>,
    role: Role,
    /// What the access log is to be told at the exchange's end.
    asked: Option<Box<Asked>>,
    /// What the publisher that was here has sent.
    published_bytes: u64,
}

/// A place for a connection. The generation tells an old token from a new one's.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) connection: Option<Box<Connection>>,
}

#[derive(Debug)]
enum Role {
    Exchange {
        request: Option<Box<Request>>,
        body_bytes: u64,
    },
    Publishing(Publishing),
    Watching(Box<Viewer>),
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
}

/// What a connection's turn came to.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing more to do until its socket or its stream has news.
    Rests,
    /// More input may wait; come back after the others had their turn.
    Again,
    /// It became a viewer.
    Watches,
    /// It is over.
    Over,
}

/// What a worker lends to a connection for its turn.
pub(super) struct Desk<'a> {
    pub(super) hub: &'a Hub,
    pub(super) now: Time,
    pub(super) scratch: &'a mut [u8],
    /// Streams that grew in this turn, and whose viewers on this worker wait to be served.
    pub(super) news: &'a mut Vec<Arc<Live>>,
    /// Streams whose waiting bytes are to be looked after, and when.
    pub(super) due: &'a mut Vec<(Time, Arc<Live>)>,
}

impl Desk<'_> {
    /// Does what `flushed` asks for: wakes the workers that have viewers of `live`, notes those of worker `own`.
    pub(super) fn tell(&mut self, live: &Arc<Live>, flushed: Flushed, own: usize) {
        if flushed.news && self.hub.announce(live, Some(own)) {
            self.news.push(Arc::clone(live));
        }
        if let Some(at) = flushed.wake_at {
            self.due.push((at, Arc::clone(live)));
        }
    }
}

impl Connection {
    pub(super) fn new(socket: Socket, peer: SocketAddr, seat: Seat, hub: &Hub, now: Time) -> Connection {
        // Whoever never reads what it asked for is given up by the kernel; a failure here costs only that.
        let _ = socket.give_up_after(hub.settings.stall_timeout);
        Connection {
            socket,
            peer,
            seat,
            http: Server::new(hub.settings.http, now),
            outgoing: Outgoing::default(),
            waiting_input: Vec::new(),
            role: Role::Exchange { request: None, body_bytes: 0 },
            asked: None,
            published_bytes: 0,
        }
    }

    /// Tells the access log, if there is one, that the exchange is over.
    fn log(&mut self, status: u16, bytes: u64, desk: &Desk<'_>) {
        let published_bytes = std::mem::take(&mut self.published_bytes);
        if let Some(asked) = self.asked.take() {
            desk.hub.log_access(asked.over(self.peer.ip(), status, bytes.max(published_bytes), desk.now));
        }
    }

    pub(super) fn viewer(&mut self) -> Option<(&mut Viewer, &Socket)> {
        match &mut self.role {
            Role::Watching(viewer) => Some((viewer, &self.socket)),
            _ => None,
        }
    }

    /// The socket can take or give bytes.
    pub(super) fn take_turn(&mut self, desk: &mut Desk<'_>) -> Turn {
        match self.try_turn(desk) {
            Ok(turn) => turn,
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "connection lost");
                Turn::Over
            }
        }
    }

    fn try_turn(&mut self, desk: &mut Desk<'_>) -> io::Result<Turn> {
        if let Role::Watching(viewer) = &mut self.role {
            if viewer.feed(&self.socket, desk.now)? == Fed::Finished {
                return self.end_viewer(desk);
            }
        } else {
            let flushed = self.outgoing.flush(&self.socket)?;
            if flushed && !self.waiting_input.is_empty() {
                let input = std::mem::take(&mut self.waiting_input);
                if self.take_input(&input, desk)? {
                    return Ok(Turn::Watches);
                }
            }
        }
        let turn = self.read(desk);
        if let Role::Publishing(publishing) = &self.role {
            let flushed = publishing.live.pause(desk.now);
            desk.tell(&publishing.live, flushed, self.seat.worker);
        }
        turn
    }

    /// Takes what the peer has sent.
    fn read(&mut self, desk: &mut Desk<'_>) -> io::Result<Turn> {
        for _ in 0..READS_A_TURN {
            if !self.waiting_input.is_empty() {
                return Ok(Turn::Rests);
            }
            match self.socket.read(desk.scratch)? {
                None => return Ok(Turn::Rests),
                Some(0) => return self.peer_ended(desk),
                Some(count) => {
                    let scratch = std::mem::take(&mut desk.scratch);
                    let watches = self.take_input(&scratch[..count], desk);
                    desk.scratch = scratch;
                    if watches? {
                        return Ok(Turn::Watches);
                    }
                }
            }
        }
        Ok(Turn::Again)
    }

    /// Takes bytes that the peer sent. Returns whether it has just become a viewer.
    fn take_input(&mut self, mut input: &[u8], desk: &mut Desk<'_>) -> io::Result<bool> {
        if matches!(self.role, Role::Watching(_) | Role::Draining { .. }) {
            return Ok(false);
        }
        loop {
            if self.outgoing.len() > OUTGOING_LIMIT_BYTES && !self.outgoing.flush(&self.socket)? {
                // The socket's next edge brings this input back.
                self.waiting_input = input.to_vec();
                return Ok(false);
            }
            match self.http.next(&mut input, desk.now) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if self.take_event(event, desk)? {
                        return Ok(true);
                    }
                    if matches!(self.role, Role::Draining { .. }) {
                        break;
                    }
                }
                Err(error) => {
                    self.refuse_http(&error, desk);
                    break;
                }
            }
        }
        self.outgoing.flush(&self.socket)?;
        Ok(false)
    }

    fn take_event(&mut self, event: Event<'_>, desk: &mut Desk<'_>) -> io::Result<bool> {
        match (&mut self.role, event) {
            (Role::Exchange { .. }, Event::Request(request)) => {
                desk.hub.counts.requests.fetch_add(1, Ordering::Relaxed);
                self.begin_request(request, desk);
            }
            (Role::Exchange { body_bytes, .. }, Event::Data(data)) => {
                *body_bytes += data.len() as u64;
                if *body_bytes > STRAY_BODY_BYTES {
                    let words = "This address takes no body of this size; publish to /live/NAME.ts.";
                    self.refuse(problem(413, "content too large", words), desk);
                }
            }
            (Role::Exchange { request, body_bytes }, Event::End) => {
                *body_bytes = 0;
                if let Some(request) = request.take() {
                    return self.answer(&request, desk);
                }
            }
            (Role::Publishing(publishing), Event::Data(data)) => {
                publishing.last_bytes = desk.now;
                publishing.bytes += data.len() as u64;
                if let Some(meter) = &mut publishing.meter
                    && !meter.allow(data.len(), desk.now)
                {
                    let limit = meter.limit_bps();
                    self.leave_seat(desk, "sent more than it may");
                    let title = format!("more than {limit} bit/s");
                    let words = "Send at a lower bit rate, or raise [publish] max_bitrate in the server's configuration.";
                    self.refuse(problem(429, &title, words), desk);
                    return Ok(false);
                }
                match publishing.live.push(publishing.session, data, desk.now) {
                    Ok(news) => {
                        let flushed = Flushed { news, wake_at: None };
                        desk.tell(&publishing.live, flushed, self.seat.worker);
                    }
                    Err(error) => self.refuse_push(&error, desk),
                }
            }
            (Role::Publishing(_), Event::End) => {
                self.leave_seat(desk, "ended");
                self.finish_answer(&Response::new(204), false, desk);
            }
            (Role::Publishing(_), Event::Request(_)) | (Role::Watching(_) | Role::Draining { .. }, _) => {}
        }
        Ok(false)
    }

    fn begin_request(&mut self, request: Box<Request>, desk: &mut Desk<'_>) {
        self.asked = desk.hub.asked(&request);
        let publishes =
            matches!(request.method, Method::Put | Method::Post) && request.path.starts_with("/live/");
        if publishes {
            match self.claim(&request, desk) {
                Ok(publishing) => {
                    if request.expects_continue() {
                        self.outgoing.push(CONTINUE);
                    }
                    self.role = Role::Publishing(publishing);
                }
                Err(refusal) => self.refuse(refusal, desk),
            }
        } else if let Role::Exchange { request: slot, .. } = &mut self.role {
            if request.expects_continue() {
                self.outgoing.push(CONTINUE);
            }
            *slot = Some(request);
        }
    }

    fn claim(&self, request: &Request, desk: &Desk<'_>) -> Result<Publishing, Response> {
        let Some(name) = StreamName::of_live_path(&request.path) else {
            return Err(problem(
                404,
                "no such address",
                "Publish MPEG-TS to /live/NAME.ts; NAME is 1 to 64 letters, digits, dots, dashes or underscores.",
            ));
        };
        if let Err(refusal) = desk.hub.settings.publish.check(self.peer.ip(), request) {
            let (status, words) = refusal.explain();
            tracing::warn!(peer = %self.peer, stream = %name, ?refusal, "publisher refused");
            let response = problem(status, "may not publish", words);
            // Clients that keep a password back until they are asked for it (RFC 9110 §11.6.1).
            let asks = status == 401;
            return Err(if asks {
                response.with_header("WWW-Authenticate", "Basic realm=\"publish\"")
            } else {
                response
            });
        }
        self.enter_as_publisher(desk)?;
        let take_over = request.parameter("takeover").is_some_and(|value| value == "1" || value == "true");
        let (live, session) = desk.hub.claim(&name, Some(self.seat), take_over).map_err(|error| {
            desk.hub.presence.leave(self.peer.ip(), Purpose::Publish);
            tracing::warn!(peer = %self.peer, stream = %name, %error, "publisher refused");
            let (status, words) = match error {
                ClaimError::Taken { .. } => (
                    409,
                    "Wait until the other publisher ends, choose another name, or replace it: ?takeover=1.",
                ),
                ClaimError::Pulled { .. } => {
                    (409, "Choose another name; the server's configuration gives this one a source.")
                }
                ClaimError::TooMany { .. } => {
                    (503, "End a stream, or raise [publish] max_streams in the server's configuration.")
                }
            };
            problem(status, &error.to_string(), words)
        })?;
        tracing::info!(peer = %self.peer, stream = %name, "publisher began");
        let meter = desk.hub.settings.max_publish_bps.map(|limit| Meter::new(limit, desk.now));
        Ok(Publishing { live, session, last_bytes: desk.now, began: desk.now, bytes: 0, meter })
    }

    fn enter_as_publisher(&self, desk: &Desk<'_>) -> Result<(), Response> {
        let limit = desk.hub.settings.max_publishers_per_address;
        let may = |count| {
            if limit == 0 || count < limit {
                return Ok(());
            }
            tracing::warn!(peer = %self.peer, count, "publisher refused: too many from its address");
            let words = "End one of them, or raise [publish] max_per_address in the server's configuration.";
            Err(problem(429, &format!("this address has {count} publishers already"), words))
        };
        desk.hub.presence.enter(self.peer.ip(), Purpose::Publish, may)
    }

    /// Whether the peer may watch, and if `stays` counts it among the viewers of its address.
    fn enter_as_viewer(
        &self,
        live: &Live,
        request: &Request,
        stays: bool,
        desk: &Desk<'_>,
    ) -> Result<(), WatchRefusal> {
        let (hub, address) = (desk.hub, self.peer.ip());
        let policy = &hub.settings.watch;
        policy.check(address, request, &live.name, hub.clock.utc())?;
        if !stays {
            return Ok(());
        }
        hub.presence
            .enter(address, Purpose::Watch, |of_address| policy.check_counts(live.viewers(), of_address))
    }

    /// Answers a whole request. Returns whether the peer has become a viewer.
    fn answer(&mut self, request: &Request, desk: &mut Desk<'_>) -> io::Result<bool> {
        let reads = matches!(request.method, Method::Get | Method::Head);
        if reads && request.path.starts_with("/live/") {
            let name = StreamName::of_live_path(&request.path);
            if let Some(live) = name.as_ref().and_then(|name| desk.hub.find(name)) {
                return self.watch(live, request, desk);
            }
            if name.is_some_and(|name| desk.hub.boards.has(&name)) {
                let words = "Its source is not there now; GET /api/streams says why. Try again shortly.";
                let response = problem(503, "the stream's source is not there", words);
                let response = response.with_header("Retry-After", "1");
                self.finish_answer(&response, request.method == Method::Head, desk);
                return Ok(false);
            }
            let words = "No stream of this name is live. GET /api/streams lists those that are.";
            self.finish_answer(&problem(404, "no such stream", words), request.method == Method::Head, desk);
            return Ok(false);
        }
        let response = match request.method {
            Method::Options => preflight(desk.hub),
            _ => shared_with(desk.hub, desk.hub.respond(request)),
        };
        self.finish_answer(&response, request.method == Method::Head, desk);
        Ok(false)
    }

    fn watch(&mut self, live: Arc<Live>, request: &Request, desk: &mut Desk<'_>) -> io::Result<bool> {
        let head_only = request.method == Method::Head;
        let in_blocks = match request.parameter("encoding").as_deref() {
            None | Some("raw") => false,
            Some(CONTENT_CODING) => true,
            Some(_) => {
                let words = "Ask for ?encoding=metacube, or for no encoding: that is MPEG-TS as it is.";
                let response = problem(400, "unknown encoding", words);
                self.finish_answer(&response, head_only, desk);
                return Ok(false);
            }
        };
        // What can fail comes before the viewer is counted: who is counted is a viewer from here on, and leaves as one.
        self.outgoing.flush(&self.socket)?;
        if let Err(refusal) = self.enter_as_viewer(&live, request, !head_only, desk) {
            let (status, words) = refusal.explain();
            tracing::debug!(peer = %self.peer, stream = %live.name, ?refusal, "viewer refused");
            self.finish_answer(&problem(status, "may not watch", words), head_only, desk);
            return Ok(false);
        }
        let mut response = Response::new(200)
            .with_header("Content-Type", "video/mp2t")
            .with_header("Cache-Control", "no-store");
        if in_blocks {
            response = response.with_header("Content-Encoding", CONTENT_CODING);
        }
        let response = shared_with(desk.hub, response);
        if head_only {
            self.outgoing.push(response.endless_head());
            self.log(response.status, 0, desk);
            self.drain();
            return Ok(false);
        }
        // The options are kindnesses of the kernel; a viewer can be served without them.
        let _ = self.socket.send_at_once();
        let _ = self.socket.limit_unsent(VIEWER_UNSENT_BYTES);
        let mut head = std::mem::take(&mut self.outgoing).into_bytes();
        head.extend_from_slice(&response.endless_head());
        tracing::debug!(peer = %self.peer, stream = %live.name, "viewer joined");
        live.viewer_joins(self.seat.worker);
        let viewer = Viewer::new(live, head, desk.now);
        self.role = Role::Watching(Box::new(if in_blocks { viewer.in_blocks() } else { viewer }));
        Ok(true)
    }

    fn finish_answer(&mut self, response: &Response, head_only: bool, desk: &mut Desk<'_>) {
        if response.status >= 400 {
            desk.hub.counts.errors.fetch_add(1, Ordering::Relaxed);
        }
        let keep = self.http.keeps_alive() && !desk.hub.is_stopping();
        self.outgoing.push(response.head(keep));
        let has_body = !head_only && !matches!(response.status, 204 | 304);
        if has_body {
            self.outgoing.push(response.body.clone());
        }
        self.log(response.status, if has_body { response.body.len() as u64 } else { 0 }, desk);
        if keep {
            self.role = Role::Exchange { request: None, body_bytes: 0 };
            self.http.done(desk.now);
        } else {
            self.drain();
        }
    }

    /// Answers while the request's body is still coming, and ends the connection.
    fn refuse(&mut self, response: Response, desk: &mut Desk<'_>) {
        desk.hub.counts.errors.fetch_add(1, Ordering::Relaxed);
        self.outgoing.push(response.head(false));
        self.log(response.status, response.body.len() as u64, desk);
        self.outgoing.push(response.body);
        self.drain();
    }

    fn refuse_http(&mut self, error: &HttpError, desk: &mut Desk<'_>) {
        tracing::debug!(peer = %self.peer, %error, "bad request");
        self.leave_seat(desk, "sent malformed HTTP");
        let words = "The request could not be read as HTTP/1.1; see the title for what is wrong with it.";
        self.refuse(problem(error.status(), &error.to_string(), words), desk);
    }

    fn refuse_push(&mut self, error: &PushError, desk: &mut Desk<'_>) {
        let (status, words) = match error {
            PushError::Evicted => (409, "Publish again with ?takeover=1 to take the name back."),
            PushError::Refused(_) => {
                (415, "Send MPEG-TS with packets of 188 bytes, as 'ffmpeg … -f mpegts' makes it.")
            }
            PushError::Spool(_) => (507, "The server is out of memory for this stream; publish again later."),
        };
        tracing::warn!(peer = %self.peer, %error, "publisher refused");
        self.leave_seat(desk, "refused");
        self.refuse(problem(status, &error.to_string(), words), desk);
    }

    /// The flush of what is queued ends our side; what still comes is read and forgotten for a moment.
    fn drain(&mut self) {
        self.role = Role::Draining { since: None };
        self.waiting_input.clear();
    }

    fn leave_seat(&mut self, desk: &mut Desk<'_>, how: &str) {
        if let Role::Publishing(publishing) = &self.role {
            let Publishing { live, session, began, bytes, .. } = publishing;
            self.published_bytes = *bytes;
            live.release(*session, desk.now);
            desk.hub.presence.leave(self.peer.ip(), Purpose::Publish);
            desk.tell(live, Flushed { news: true, wake_at: None }, self.seat.worker);
            let seconds = desk.now.since(*began).as_secs_f64();
            tracing::info!(peer = %self.peer, stream = %live.name, bytes, seconds, "publisher {how}");
            self.role = Role::Exchange { request: None, body_bytes: 0 };
        }
    }

    fn peer_ended(&mut self, desk: &mut Desk<'_>) -> io::Result<Turn> {
        match &self.role {
            Role::Watching(_) => self.end_viewer(desk),
            Role::Publishing(_) => {
                let whole = self.http.end().is_ok();
                self.leave_seat(desk, if whole { "ended" } else { "was cut off" });
                self.finish_answer(&Response::new(204), false, desk);
                let _ = self.outgoing.flush(&self.socket)?;
                Ok(Turn::Over)
            }
            Role::Draining { .. } | Role::Exchange { .. } => {
                let _ = self.outgoing.flush(&self.socket)?;
                Ok(Turn::Over)
            }
        }
    }

    fn end_viewer(&mut self, desk: &Desk<'_>) -> io::Result<Turn> {
        if let Role::Watching(viewer) = &self.role {
            let seconds = desk.now.since(viewer.joined).as_secs_f64();
            let (stream, bytes) = (&viewer.live.name, viewer.sent_bytes);
            tracing::debug!(peer = %self.peer, %stream, bytes, seconds, "viewer left");
        }
        Ok(Turn::Over)
    }

    /// Ends our side of a connection that is ending, once all is written.
    pub(super) fn end_if_written(&mut self, now: Time) {
        if let Role::Draining { since: since @ None } = &mut self.role
            && self.outgoing.is_empty()
        {
            *since = Some(now);
            let _ = self.socket.end();
        }
    }

    /// Somebody took this publisher's name over.
    pub(super) fn evicted(&mut self, desk: &mut Desk<'_>) {
        if matches!(self.role, Role::Publishing(_)) {
            self.refuse_push(&PushError::Evicted, desk);
            let _ = self.outgoing.flush(&self.socket);
        }
    }

    /// Looks after the connection's patience. Returns whether it is over.
    pub(super) fn check_time(&mut self, desk: &mut Desk<'_>) -> bool {
        let (now, settings) = (desk.now, &desk.hub.settings);
        match &self.role {
            Role::Exchange { .. } => {
                if !self.outgoing.is_empty() {
                    return false;
                }
                if self.http.poll_timeout().is_some_and(|deadline| now >= deadline) {
                    desk.hub.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                    if self.http.is_idle() {
                        return true;
                    }
                    self.refuse_http(&HttpError::TimedOut("the request's head took too long"), desk);
                    let _ = self.outgoing.flush(&self.socket);
                }
                false
            }
            Role::Publishing(publishing) => {
                if now.since(publishing.last_bytes) >= settings.silence_timeout {
                    desk.hub.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                    let words = "A publisher that sends nothing gives up its name; publish again when there is something to send.";
                    self.leave_seat(desk, "was silent and gave up its name");
                    self.refuse(problem(408, "nothing was sent for too long", words), desk);
                    let _ = self.outgoing.flush(&self.socket);
                }
                false
            }
            Role::Watching(viewer) => {
                let stalled =
                    viewer.blocked_since().is_some_and(|since| now.since(since) >= settings.stall_timeout);
                if stalled {
                    viewer.live.counts.stalled.fetch_add(1, Ordering::Relaxed);
                    let stream = &viewer.live.name;
                    tracing::info!(peer = %self.peer, %stream, "viewer dropped: its connection takes nothing");
                }
                stalled
            }
            Role::Draining { since } => since.is_some_and(|since| now.since(since) >= DRAIN_TIME),
        }
    }

    /// The last act: whatever it was, it is no longer.
    pub(super) fn close(&mut self, desk: &mut Desk<'_>) {
        self.leave_seat(desk, "was cut off");
        if let Role::Watching(viewer) = &self.role {
            viewer.live.viewer_leaves(self.seat.worker);
            desk.hub.presence.leave(self.peer.ip(), Purpose::Watch);
            let sent_bytes = viewer.sent_bytes;
            self.log(200, sent_bytes, desk);
        }
        self.log(GONE, 0, desk);
    }
}

/// `response`, readable for the web pages that the configuration names (Fetch standard, CORS protocol).
fn shared_with(hub: &Hub, response: Response) -> Response {
    match &hub.settings.allow_origin {
        Some(origin) => response.with_header("Access-Control-Allow-Origin", origin),
        None => response,
    }
}

/// The answer to `OPTIONS`: what may be asked, and by pages of other origins.
fn preflight(hub: &Hub) -> Response {
    let response = Response::new(204).with_header("Allow", "GET, HEAD, PUT, POST, OPTIONS");
    match hub.settings.allow_origin {
        Some(_) => shared_with(hub, response)
            .with_header("Access-Control-Allow-Methods", "GET, HEAD")
            .with_header("Access-Control-Max-Age", "86400"),
        None => response,
    }
}
