//! How a client is let in, or waits for its stream.

use super::super::query::parameter;
use super::super::status::{Entry, count};
use super::super::viewer::Viewer;
use super::{Connection, Context, Publication, Side};
use crate::arrival::Awaited;
use crate::entrance::{Attendance, Client, Contribution, Refused};
use glassline_delivery::policy::{
    AccessRequest, Action, Caller, Credential, Protocol, Route, Secret, ShownToken, StreamName,
};
use glassline_media::Time;
use glassline_streams::status::PeerRole;
use glassline_transport::rtsp::server::Role;
use std::sync::Arc;
use std::time::Duration;

/// Viewers at once, and publishers: one thread serves all, and neither takes the other's room.
const VIEWERS_MAX: usize = 1024;
const PUBLISHERS_MAX: usize = 256;
/// How long a viewer waits for a stream that is fetched from another server to begin; its tracks are then waited for as for any viewer.
const FETCH_TIME: Duration = Duration::from_secs(4);
/// How often it is looked for meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A viewer's wait for its stream.
#[derive(Debug)]
pub(super) struct Wait {
    awaited: Awaited,
    name: StreamName,
    query: String,
    look_at: Time,
}

impl Wait {
    /// When it is looked for the stream again.
    pub(super) fn look_at(&self) -> Time {
        self.look_at
    }
}

impl Connection {
    /// Lets the viewer in that waits, once its stream is there; where it does not come the viewer is told.
    pub(super) fn look_for_awaited(&mut self, context: &mut Context<'_>) {
        let Side::Waits(wait) = &mut self.side else { return };
        if context.now < wait.look_at {
            return;
        }
        if wait.awaited.is_on_its_way(context.server, context.now) {
            wait.look_at = context.now + LOOK_AGAIN;
            return;
        }
        if let Side::Waits(wait) = std::mem::replace(&mut self.side, Side::Nothing) {
            self.enter(Role::Watch, wait.name.as_str(), &wait.query, false, context);
        }
    }

    /// Whether the client may do what it asks for.
    /// A viewer of a stream that another server may have waits for that, where it `may_wait`.
    pub(super) fn enter(
        &mut self,
        role: Role,
        name: &str,
        query: &str,
        may_wait: bool,
        context: &mut Context<'_>,
    ) {
        let (now, utc) = (context.now, context.utc());
        let Some(name) = StreamName::parse(name) else {
            return self.session.refuse(404, "there is no stream of such a name", now, utc);
        };
        let action = if role == Role::Publish { Action::Publish } else { Action::Watch };
        let (peers, most, words) = match role {
            Role::Publish => {
                (PeerRole::Publish, PUBLISHERS_MAX, "as many publishers over RTSP as there may be")
            }
            Role::Watch => (PeerRole::Watch, VIEWERS_MAX, "as many viewers over RTSP as there may be"),
        };
        if context.board.present(peers) >= most {
            count(&context.board.counters.refused);
            return self.session.refuse(503, &format!("there are {words} ({most})"), now, utc);
        }
        let parameter = |wanted| parameter(query, wanted);
        let key = self.shown_key(&name, action, context).or_else(|| parameter("key").map(Secret::new));
        let token = parameter("expires").zip(parameter("token"));
        let token = token.and_then(|(expires, token)| ShownToken::parse(&expires, &token));
        let credential = Credential { key: key.as_deref().map(Into::into), token, ..Credential::default() };
        if self.session.shown().is_none() && credential.key.is_none() && credential.token.is_none() {
            // Most programs show nothing until they are asked: that is no refusal worth a line in the log.
            let (peer, protocol) = (self.peer.ip(), self.protocol);
            let caller = Caller { peer, credential: credential.clone(), route: Route::DIRECT };
            let asked = AccessRequest { name: &name, action, protocol, caller: &caller };
            if let Err(refusal) = context.server.check(&asked) {
                let refused = Refused::Access(refusal, action);
                if refused.status() == 401 {
                    return self.session.refuse(401, &refused.to_string(), now, utc);
                }
            }
        }
        let program = self.session.program().map(|program| {
            let letters = program.chars().filter(|letter| !letter.is_control());
            letters.take(200).collect::<String>()
        });
        let client =
            Client { peer: self.peer, protocol: self.protocol, credential, program: program.as_deref() };
        if may_wait && role == Role::Watch {
            let awaited = Awaited::begin(context.server, &client, &name, FETCH_TIME);
            if let Some(awaited) = awaited {
                let (query, look_at) = (query.to_owned(), now + LOOK_AGAIN);
                self.side = Side::Waits(Box::new(Wait { awaited, name, query, look_at }));
                return;
            }
        }
        let is_take_over = parameter("takeover").is_some_and(|value| value == "1" || value == "true");
        let entered = match role {
            Role::Publish => {
                Contribution::enter(context.server, &client, &name, is_take_over).map(|contribution| {
                    let publication = Publication { contribution, tracks: None, began: now };
                    Side::Publishes(Box::new(publication))
                })
            }
            Role::Watch => Attendance::enter(context.server, &client, &name, context.waker.clone())
                .map(|attendance| Side::Watches(Box::new(Viewer::new(attendance, now)))),
        };
        match entered {
            Ok(side) => {
                self.side = side;
                let protocol = if self.protocol == Protocol::Rtsps { "rtsps" } else { "rtsp" };
                let (address, figures) = (self.peer, Arc::clone(&self.figures));
                let role = if role == Role::Publish { PeerRole::Publish } else { PeerRole::Watch };
                context.board.enter(self.id, Entry { name, role, protocol, address, began: now, figures });
                if role == PeerRole::Publish {
                    self.session.admit(now, utc);
                }
            }
            Err(refused) => {
                count(&context.board.counters.refused);
                self.session.refuse(refused.status(), &refused.to_string(), now, utc);
            }
        }
    }

    /// The key that the client shows: as a password, or by a digest of it.
    fn shown_key(&self, name: &StreamName, action: Action, context: &Context<'_>) -> Option<Secret> {
        let shown = self.session.shown()?;
        if let Some(password) = shown.password() {
            return Some(Secret::new(password));
        }
        let key = context.server.key(name, action)?;
        // What is no digest of the key stands for a wrong one.
        let is_right = self.session.proves(name.as_str(), &key);
        Some(if is_right { key } else { Secret::new("") })
    }
}
