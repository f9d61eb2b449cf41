//! A connection as one process leaves it to the next.

use super::draining::Movable;
use super::publishing::Publishing;
use super::watching::Admission;
use super::{Connection, Role};
use crate::access::OpenRequest;
use crate::hub::Hub;
use crate::outgoing::Outgoing;
use crate::viewer::{Viewer, ViewerState};
use crate::wire::Wire;
use glassline_delivery::http1::server::{Request, Server};
use glassline_delivery::policy::{HeaderMarks, Meter};
use glassline_io::spool::LinkFile;
use glassline_media::Time;
use glassline_streams::presence::{Purpose, subscriber};
use glassline_streams::{ConnectionId, Live};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// All of it but its wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConnectionState {
    peer: SocketAddr,
    is_admin: bool,
    http: Server,
    #[serde(with = "serde_bytes")]
    outgoing: Vec<u8>,
    #[serde(with = "serde_bytes")]
    waiting_input: Vec<u8>,
    role: RoleState,
    asked: Option<OpenRequest>,
    published_bytes: u64,
    #[serde(rename = "place")]
    admission: Admission,
    #[serde(default)]
    header_marks: HeaderMarks,
}

#[derive(Debug, Serialize, Deserialize)]
enum RoleState {
    Exchange {
        request: Option<Box<Request>>,
        body_bytes: u64,
    },
    Publishing {
        stream: u64,
        session: u64,
        last_bytes: Time,
        began: Time,
        bytes: u64,
        meter: Option<Meter>,
        #[serde(default)]
        movable: Option<Movable>,
    },
    Watching {
        stream: u64,
        viewer: Box<ViewerState>,
    },
    /// A request that nothing was answered yet.
    Asked(Box<Request>),
    Draining {
        since: Option<Time>,
    },
}

impl ConnectionState {
    /// The stream that it is about, by its id.
    pub(crate) fn stream(&self) -> Option<u64> {
        match &self.role {
            RoleState::Publishing { stream, .. } | RoleState::Watching { stream, .. } => Some(*stream),
            RoleState::Exchange { .. } | RoleState::Asked(_) | RoleState::Draining { .. } => None,
        }
    }
}

impl Connection {
    /// What the next process needs of it, and the part of its stream that it alone still has.
    pub(crate) fn state(&self) -> (ConnectionState, Option<LinkFile>) {
        let (role, own_link) = match &self.role {
            Role::Exchange { request, body_bytes } => {
                (RoleState::Exchange { request: request.clone(), body_bytes: *body_bytes }, None)
            }
            Role::Publishing(publishing) => {
                let Publishing { live, session, last_bytes, began, bytes, meter, movable, .. } =
                    &**publishing;
                let (stream, session, last_bytes) = (live.id, *session, *last_bytes);
                let (began, bytes, meter, movable) = (*began, *bytes, *meter, movable.clone());
                (RoleState::Publishing { stream, session, last_bytes, began, bytes, meter, movable }, None)
            }
            // What is half read of it stays here: the publisher sees that it is cut, and sends it again.
            Role::Ingesting(_) => (RoleState::Draining { since: None }, None),
            // One of many, of which the next one tells nearly the same.
            Role::Reporting(_) => (RoleState::Draining { since: None }, None),
            Role::Watching(viewer) => {
                let state =
                    RoleState::Watching { stream: viewer.live().id, viewer: Box::new(viewer.state()) };
                (state, viewer.own_link())
            }
            // An object that has begun ends here: the client sees that it is cut, and asks again.
            Role::Fetching(fetching) => match fetching.unanswered() {
                Some(request) => (RoleState::Asked(Box::new(request.clone())), None),
                None => (RoleState::Draining { since: None }, None),
            },
            Role::Awaiting(awaiting) => (RoleState::Asked(awaiting.request.clone()), None),
            Role::Preparing(preparing) => (RoleState::Asked(preparing.request.clone()), None),
            Role::Asked(request) => (RoleState::Asked(request.clone()), None),
            Role::Draining { since } => (RoleState::Draining { since: *since }, None),
        };
        let state = ConnectionState {
            peer: self.peer,
            is_admin: self.is_admin,
            http: self.http.clone(),
            outgoing: self.outgoing.to_bytes(),
            waiting_input: self.waiting_input.clone(),
            role,
            asked: self.asked.as_deref().cloned(),
            published_bytes: self.published_bytes,
            admission: self.admission,
            header_marks: self.header_marks,
        };
        (state, own_link)
    }

    /// The connection that another process left. `live` is the stream of [`ConnectionState::stream`]; `None` where that
    /// is missing, or the publisher slot is not its own.
    pub(crate) fn restore(
        state: ConnectionState,
        socket: Wire,
        id: ConnectionId,
        live: Option<&Arc<Live>>,
        own_link: Option<(u64, OwnedFd)>,
    ) -> Option<Connection> {
        let role = match state.role {
            RoleState::Exchange { request, body_bytes } => Role::Exchange { request, body_bytes },
            RoleState::Publishing { session, last_bytes, began, bytes, meter, movable, .. } => {
                let live = Arc::clone(live?);
                if !live.reclaim(session, Some(id)) {
                    return None;
                }
                // What the publisher's requests have told stays with the other process.
                let piece = None;
                let publishing =
                    Publishing { live, session, last_bytes, began, bytes, meter, movable, piece };
                Role::Publishing(Box::new(publishing))
            }
            RoleState::Watching { viewer, .. } => {
                Role::Watching(Box::new(Viewer::restore(*viewer, Arc::clone(live?), own_link)))
            }
            RoleState::Asked(request) => Role::Asked(request),
            RoleState::Draining { since } => Role::Draining { since },
        };
        Some(Connection {
            socket,
            peer: state.peer,
            is_admin: state.is_admin,
            id,
            http: state.http,
            outgoing: Outgoing::from(state.outgoing),
            waiting_input: state.waiting_input,
            role,
            asked: state.asked.map(Box::new),
            published_bytes: state.published_bytes,
            admission: state.admission,
            header_marks: state.header_marks,
            asks: false,
            noted_rest: None,
            noted_player: super::draining::NotedPlayer::default(),
        })
    }

    /// Counts it among those of its address and its stream, as if it had come here.
    pub(crate) fn count_in(&mut self, hub: &Hub) {
        self.count_answers(hub);
        let address = self.peer.ip();
        hub.presence.count(address, Purpose::Connect, 0);
        match &self.role {
            Role::Publishing(_) => hub.presence.count(address, Purpose::Publish, 0),
            Role::Watching(viewer) => {
                viewer.live().viewer_comes_over(self.id.worker);
                if viewer.is_server() {
                    hub.demands.begin_giving(&viewer.live().name);
                }
                viewer.live().watchers().join(subscriber(address), hub.clock.now());
                self.admission.come(address, hub);
            }
            Role::Exchange { .. }
            | Role::Ingesting(_)
            | Role::Reporting(_)
            | Role::Fetching(_)
            | Role::Awaiting(_)
            | Role::Preparing(_)
            | Role::Asked(_)
            | Role::Draining { .. } => {}
        }
    }
}
