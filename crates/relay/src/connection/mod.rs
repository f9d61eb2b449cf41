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
mod draining;
mod fetching;
mod ingesting;
mod input;
mod object_head;
mod preparing;
mod publishing;
mod responses;
mod staging;
mod state;
#[cfg(test)]
mod tests;
mod time_limits;
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
use glassline_delivery::http1::server::{Request, Server};
use glassline_delivery::policy::HeaderMarks;
use glassline_media::Time;
use glassline_streams::ConnectionId;
use glassline_streams::presence::{Purpose, subscriber};
use ingesting::Ingesting;
use preparing::Preparing;
use publishing::Publishing;
use staging::Reporting;
use std::io;
use std::net::SocketAddr;
use watching::Admission;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Wire,
    peer: SocketAddr,
    /// Whether it came in by an admin listener.
    is_admin: bool,
    id: ConnectionId,
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
    /// What its packets bear for routers.
    header_marks: HeaderMarks,
    /// Whether it is counted among those of its address that have not been answered.
    asks: bool,
    /// Since when it is noted to rest.
    noted_rest: Option<Time>,
    /// When it was last noted to be a player's.
    noted_player: draining::NotedPlayer,
}

// Each viewer has one, and what it takes is most of what a viewer takes.
const _: () = assert!(size_of::<Connection>() <= 368 && size_of::<Viewer>() <= 264);

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

impl Connection {
    pub(crate) fn new(
        socket: Wire,
        peer: SocketAddr,
        is_admin: bool,
        id: ConnectionId,
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
            id,
            http: Server::new(settings.http, now),
            outgoing: Outgoing::default(),
            waiting_input: Vec::new(),
            role: Role::Exchange { request: None, body_bytes: 0 },
            asked: None,
            published_bytes: 0,
            admission: Admission::default(),
            header_marks: HeaderMarks::default(),
            // The worker counted it when it let it in.
            asks: !is_admin,
            noted_rest: None,
            noted_player: draining::NotedPlayer::default(),
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
                // Each of these has a time limit of its own.
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
            context.notify(&publishing.live, flushed, self.id.worker);
        }
        turn
    }

    /// Gives back what it had in its stream or its object.
    fn leave_role(&mut self, context: &mut TurnContext<'_>) {
        self.release_slot(context, "was cut off");
        self.leave_track(context);
        if let Role::Watching(viewer) = &self.role {
            if viewer.has_left() {
                context.hub.draining.note_viewer_ended();
            }
            if viewer.is_server() {
                context.hub.demands.end_giving(&viewer.live().name);
            }
            viewer.live().viewer_leaves(self.id.worker);
            viewer.live().watchers().leave(subscriber(self.peer.ip()), context.now);
            self.admission.leave(self.peer.ip(), context.hub);
        }
        if let Role::Awaiting(awaiting) = &self.role {
            awaiting.leave(self.id);
        }
        if let Role::Fetching(fetching) = &self.role {
            fetching.leave(self.id);
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
