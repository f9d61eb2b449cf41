//! A connection of a server that is emptied: a client that comes is sent to another server, and what runs ends where that one can take it
//! up.

use super::responses::shared_with;
use super::{Connection, Role};
use crate::refuge::{Refuges, Target};
use crate::turn::TurnContext;
use crate::viewer::Stays;
use glassline_delivery::fill::Via;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::hops_limit;
use glassline_delivery::push;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

/// What the publisher of an open request has asked for, where it goes elsewhere when it is told so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Movable {
    path: String,
    query: String,
    /// When it was last looked where it may go: not for each of its pictures.
    #[serde(default)]
    looked_at: Option<Time>,
}

/// It is looked again after this time.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

impl Movable {
    pub(super) fn of(request: &Request) -> Option<Movable> {
        let follows = push::follows(&request.headers);
        follows.then(|| Movable { path: request.path.clone(), query: request.query.clone(), looked_at: None })
    }
}

/// When a connection was last noted to be a player's, in seconds: all workers share one table of players, and a player reads its playlist
/// several times a second.
#[derive(Debug, Default)]
pub(super) struct NotedPlayer(Cell<Option<NonZeroU32>>);

/// It is noted again after this time; the note lasts three times as long.
const NOTED_FOR_S: u32 = 10;

impl NotedPlayer {
    fn is_due(&self, now: Time) -> bool {
        self.0.get().is_none_or(|at| seconds(now).get().saturating_sub(at.get()) >= NOTED_FOR_S)
    }

    fn set(&self, now: Time) {
        self.0.set(Some(seconds(now)));
    }
}

/// Seconds of the clock, none of which is zero.
fn seconds(time: Time) -> NonZeroU32 {
    let seconds = u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX);
    NonZeroU32::MIN.saturating_add(seconds)
}

/// What a viewer asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The stream, without an end.
    Stream,
    /// A playlist or manifest.
    Playlist,
}

/// An answer that leads to `location` as long as this server is emptied.
fn moved(location: String) -> Response {
    Response::new(307).with_header("Location", location).with_header("Cache-Control", "no-store")
}

/// Whether a script or a player of a web page asks: a browser follows a redirect to another server only where the page's own policy and
/// that server's answer allow it (Fetch Standard §4.4), and shows the page an error otherwise.
///
/// Of an address by plain http a browser says neither where the page is from nor what it fetches for (Fetch Metadata, §2; Fetch Standard
/// §3.2): there it is told by its name, and by not asking for a page.
fn is_of_page(request: &Request) -> bool {
    let headers = &request.headers;
    if headers.first("origin").is_some() {
        return true;
    }
    match headers.first("sec-fetch-mode") {
        Some(mode) => mode != "navigate",
        None => {
            let is_browser = headers.first("user-agent").is_some_and(|name| name.starts_with("Mozilla/"));
            is_browser && !headers.first("accept").is_some_and(|accept| accept.contains("text/html"))
        }
    }
}

/// Why it is never sent away, where it is not: a page, and a server that reads in the registry that this one is emptied.
pub(super) fn stays(request: &Request) -> Option<Stays> {
    match hops_limit(&request.headers) {
        Some(_) => Some(Stays::Server),
        None => is_of_page(request).then_some(Stays::Page),
    }
}

impl Connection {
    fn target<'a>(&self, path: &'a str, query: &'a str) -> Target<'a> {
        Target { path, query, is_secured: self.socket.is_secured() }
    }

    /// While this server is emptied, a viewer that comes, or asks for a playlist again, is sent to another one. An upstream server of
    /// others (`Via`) follows for the stream; the objects that it fetches go on, since those of a list have to be of one server.
    pub(super) fn send_away(
        &self,
        name: &StreamName,
        wanted: Wanted,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<(), Response> {
        let hub = context.hub;
        // A drain that begins has to know which players there are.
        let is_playlist = wanted == Wanted::Playlist && request.method == Method::Get;
        if is_playlist && self.noted_player.is_due(context.now) && hub.is_in_cluster(name) {
            self.noted_player.set(context.now);
            hub.draining.note_player(self.peer.ip(), context.now);
        }
        let is_fetched = wanted == Wanted::Playlist && !Via::of(&request.headers).is_empty();
        if !hub.is_draining() || is_fetched || stays(request).is_some() {
            return Ok(());
        }
        match hub.refuge(name, self.target(&request.path, &request.query)) {
            Some(location) => {
                hub.draining.note_viewer_sent();
                Err(shared_with(context.settings, moved(location)))
            }
            None => Ok(()),
        }
    }

    /// The answer to a browser that opens the page of a stream while this server is emptied: the page of the other server plays what is
    /// there. One that plays here already goes on.
    pub(super) fn send_page(&self, request: &Request, context: &TurnContext<'_>) -> Option<Response> {
        if !context.hub.is_draining() || self.is_admin || is_of_page(request) {
            return None;
        }
        let name = StreamName::parse(request.path.strip_prefix("/watch/")?)?;
        self.may_watch(&name, request, context).ok()?;
        let location = context.hub.refuge(&name, self.target(&request.path, &request.query))?;
        context.hub.draining.note_viewer_sent();
        Some(moved(location))
    }

    /// The answer to a publisher that comes while this server is emptied, where another one takes it.
    pub(super) fn send_publisher(
        &self,
        name: &StreamName,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Option<Response> {
        let target = self.target(&request.path, &request.query);
        let location = context.hub.refuge_of_publisher(name, target, false)?;
        context.hub.draining.note_publisher_sent();
        Some(moved(location))
    }

    /// Ends a publisher's request behind a whole chunk, which is a whole picture, and leads it to another server: where this one is emptied,
    /// and the publisher has said that it reads the answer and goes on there. Viewers here get the stream from there then.
    pub(super) fn move_publisher(&mut self, context: &mut TurnContext<'_>) {
        if !context.hub.is_draining() || !self.http.is_between_chunks() {
            return;
        }
        let Role::Publishing(publishing) = &mut self.role else { return };
        let Some(movable) = &mut publishing.movable else { return };
        if movable.looked_at.is_some_and(|at| context.now.since(at) < LOOK_PAUSE) {
            return;
        }
        movable.looked_at = Some(context.now);
        let Role::Publishing(publishing) = &self.role else { return };
        let Some(Movable { path, query, .. }) = &publishing.movable else { return };
        let target = self.target(path, query);
        let Some(location) = context.hub.refuge_of_publisher(&publishing.live.name, target, true) else {
            return;
        };
        context.hub.draining.note_publisher_sent();
        self.release_slot(context, "was sent to another server, as this one is emptied");
        self.refuse(moved(location), context);
    }

    /// Has a viewer end at its stream's next key frame when its turn has come; it comes again, and is sent to another server. One that
    /// has not ended yet stays where the server is not emptied any more.
    pub(crate) fn check_drain(&mut self, refuges: &mut Refuges, context: &TurnContext<'_>) {
        let client = (self.id, self.socket.is_secured());
        let Role::Watching(viewer) = &mut self.role else { return };
        if !context.hub.is_draining() {
            viewer.stay();
        } else if viewer.may_leave()
            && context.hub.sends_on(client, &viewer.live().name, refuges, context.now)
        {
            tracing::debug!(peer = %self.peer, stream = %viewer.live().name, "viewer is sent on at the next key frame: the server is emptied");
            viewer.leave_at_key_frame();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_is_noted_once_in_ten_seconds() {
        let (noted, at) = (NotedPlayer::default(), |seconds: u64| Time::from_millis(seconds * 1000));
        assert!(noted.is_due(Time::ZERO));
        noted.set(Time::ZERO);
        assert!(!noted.is_due(at(9)) && noted.is_due(at(10)));
        noted.set(at(25));
        assert!(!noted.is_due(at(25)) && !noted.is_due(at(34)) && noted.is_due(at(35)));
        // A clock that goes back.
        assert!(!noted.is_due(at(3)));
    }
}
