//! Answers: of the site, of the relay itself, and refusals.

use super::draining::Wanted;
use super::fetching::Handling;
use super::ingesting::is_put;
use super::responses::{absent, guarded, shared_with};
use super::staging::{asks_for_stages, tell};
use super::watching::find_watched;
use super::{Became, Connection, Role};
use crate::turn::TurnContext;
use crate::{ListenerRole, Settings};
use glassline_delivery::fill::Via;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{HttpError, Method, Response, problem};
use glassline_delivery::policy::{StreamName, is_live_path};
use glassline_delivery::pull::hops_limit;
use glassline_edge::{CacheStatus, Growing, ObjectSource, Reading, RecordedRequest, Wake};
use glassline_streams::presence::subscriber;
use glassline_streams::{Live, Whereabouts};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a request for something of a stream's is answered with.
enum StreamAnswer {
    /// The stream, without an end.
    Stream(Arc<Live>),
    /// An object that may still grow.
    Object {
        reading: Reading,
        source: ObjectSource,
        /// Where it is a playlist, its addresses are given the viewer's token.
        carries_token: bool,
        /// Where its server has none, it is made here.
        or_here: bool,
    },
    /// The stream, when this changes: it is asked for elsewhere.
    Later(Arc<Growing>),
    /// When its pictures passed.
    Stages(Response),
}

/// What upstream servers have.
struct Upstream {
    reading: Reading,
    source: ObjectSource,
    /// Its pages are the operator's own.
    is_own: bool,
}

/// What upstream servers have at the request's address; an answer where they lead back to this one. `None` where there are
/// no such servers, or they are not asked for that: what is this server's own never comes from others.
fn find_upstream(
    request: &Request,
    peer: IpAddr,
    context: &TurnContext<'_>,
) -> Option<Result<Upstream, Response>> {
    let edge = context.hub.edge()?;
    if context.hub.owns(&request.path) {
        return None;
    }
    if edge.is_loop(&request.headers) {
        return Some(Err(circle()));
    }
    let located = edge.locate(request.headers.first("host"), &request.path, &request.query)?;
    let route = located.route.and_then(|route| edge.settings().routes.get(route));
    let is_own = route.is_some_and(|route| route.own_pages);
    let (reading, status) = edge.find(located, Via::of(&request.headers), subscriber(peer), context.now);
    Some(Ok(Upstream { reading, source: ObjectSource::Upstream(status), is_own }))
}

/// The answer to a request that has come by this server before.
fn circle() -> Response {
    let words = "The request has come by this server before: the servers that it asks lead back to it. Mend [upstream], or the \
                 streams of [cluster] static.";
    problem(508, "the servers ask each other in a circle", words)
}

/// The answer to a server that asks for a stream of which nothing comes here either: two servers that are pulled from by each other would
/// each take its own old bytes for a new stream.
fn waits_too() -> Response {
    let words = "This server pulls the stream, and nothing of it comes at the moment. Try again shortly, or ask another server.";
    problem(503, "the stream is waited for here, too", words).with_header("Retry-After", "1")
}

/// The answer to a server that is as near to the stream's publisher as this one: what it asks for might be its own.
fn farther_away() -> Response {
    let words = "This server is as far away from the stream's publisher as the one that asks. Ask the server that has the publisher.";
    problem(508, "this server is not nearer to the stream's publisher", words)
}

/// The answer where the server that has the stream cannot be reached.
fn away(retry_after: Duration) -> Response {
    let words = "The server of the cluster that had this stream is away, or this one has just begun and does not know it yet; GET /api/cluster says more. Try again shortly.";
    let seconds = retry_after.as_secs().max(1).to_string();
    problem(503, "the stream's server is away", words).with_header("Retry-After", seconds)
}

/// What is recorded of the stream `name` at `rest` of its presentation. `None` where that is not about recordings, or the presentation
/// is one of upstream servers.
fn find_recorded(
    name: &StreamName,
    rest: &str,
    (request, peer): (&Request, IpAddr),
    context: &TurnContext<'_>,
) -> Option<StreamAnswer> {
    let hub = context.hub;
    let recorded = hub.recorded()?;
    if hub.is_presented_upstream(name) {
        return None;
    }
    // Servers may have one store, or the stream may have been here before: at an address all of them give what the one gives that has the
    // stream now, live and recorded.
    let is_elsewhere = matches!(hub.whereabouts(name), Whereabouts::At { .. } | Whereabouts::Away { .. });
    // A presentation that has ended is kept for a while, so that its players see its end.
    let is_live =
        hub.presentations.have(name) || hub.streams.find(name).is_some() || hub.ladder(name).is_some();
    let peer = peer.to_canonical();
    let peer = (!peer.is_loopback()).then(|| subscriber(peer));
    let asked = RecordedRequest { name, rest, query: &request.query, peer, is_live, is_elsewhere };
    let wake = Arc::clone(&hub.inboxes) as Arc<dyn Wake>;
    let reading = Reading::new(recorded.find(asked, &wake)?);
    Some(StreamAnswer::Object {
        reading,
        source: ObjectSource::Recorded,
        // It is rendered once for all viewers.
        carries_token: context.settings.rules.of(name).watch.key.is_some(),
        or_here: false,
    })
}

impl Connection {
    fn takes_long(&self, request: &Request, context: &TurnContext<'_>) -> bool {
        let door = ListenerRole::of(self.is_admin, &context.settings.listen);
        context.hub.takes_long(request, door, self.peer.ip())
    }

    /// Answers a whole request.
    pub(super) fn answer(
        &mut self,
        request: Box<Request>,
        context: &mut TurnContext<'_>,
    ) -> io::Result<Became> {
        let (is_live, head_only) = (is_live_path(&request.path), request.method == Method::Head);
        let reads = head_only || request.method == Method::Get;
        let response = match request.method {
            _ if is_live && reads => match self.find_live_object(&request, context) {
                Ok(StreamAnswer::Stream(live)) => return self.watch(live, &request, context),
                Ok(StreamAnswer::Object { reading, source, carries_token, or_here }) => {
                    if let Some((name, _)) = StreamName::of_presentation_path(&request.path) {
                        self.mark_header(&name, context);
                    }
                    let handling = Handling { carries_token, or_here, is_own: false };
                    self.fetch(reading, source, request, handling, context.now);
                    return Ok(Became::Same);
                }
                Ok(StreamAnswer::Stages(response)) => response,
                Ok(StreamAnswer::Later(begins)) => return self.await_stream(begins, request, context),
                Err(response) => response,
            },
            // It may publish, or its request would have been refused before its body.
            Method::Put | Method::Post if is_put(&request) => Response::new(204),
            Method::Delete if StreamName::of_presentation_path(&request.path).is_some() => {
                self.delete_part(&request, context)
            }
            Method::Options => preflight(context.settings),
            _ if reads && self.takes_long(&request, context) => {
                self.prepare(request, context);
                return Ok(Became::Same);
            }
            _ => {
                let door = ListenerRole::of(self.is_admin, &context.settings.listen);
                let moved = if reads { self.send_page(&request, context) } else { None };
                let response = moved.unwrap_or_else(|| context.hub.respond(&request, door, self.peer.ip()));
                let is_absent = response.status == 404 && reads && !self.is_admin;
                match is_absent.then(|| find_upstream(&request, self.peer.ip(), context)).flatten() {
                    Some(Ok(Upstream { reading, source, is_own })) => {
                        let handling = Handling { carries_token: false, or_here: false, is_own };
                        self.fetch(reading, source, request, handling, context.now);
                        return Ok(Became::Same);
                    }
                    Some(Err(circle)) => circle,
                    None => shared_with(context.settings, response),
                }
            }
        };
        let response = if is_live { guarded(response) } else { response };
        self.finish_answer(&response, head_only, context);
        Ok(Became::Same)
    }

    /// What is at an address of streams: a stream, or a part of its presentation, here or at an upstream server, where the peer
    /// may watch it.
    fn find_live_object(
        &self,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<StreamAnswer, Response> {
        if let Some((name, rest)) = StreamName::of_presentation_path(&request.path) {
            // Pages of others may read what became of a request for an object.
            let shared = |response| shared_with(context.settings, response);
            self.may_watch(&name, request, context).map_err(shared)?;
            if rest.ends_with(".m3u8") || rest.ends_with(".mpd") {
                self.send_away(&name, Wanted::Playlist, request, context)?;
            }
            if asks_for_stages(rest) {
                return tell(&name, request, context)
                    .map(|response| StreamAnswer::Stages(shared(response)))
                    .or_else(|response| self.find_upstream_or(response, &name, request, context));
            }
            if let Some(recorded) = find_recorded(&name, rest, (request, self.peer.ip()), context) {
                return Ok(recorded);
            }
            if context.hub.is_presented_upstream(&name) {
                if let Some(found) = self.find_fetched(&name, request, context) {
                    return found;
                }
                if context.hub.demands.are_of_another(&name) {
                    // Its server is about to be told of, or another publisher is: what is made here meanwhile would have other numbers.
                    return Err(shared(away(Duration::from_secs(1))));
                }
            }
            return self
                .find_packaged(&name, rest, request, context)
                .or_else(|response| self.find_upstream_or(response, &name, request, context));
        }
        if let Some(moved) = at_its_presentation(request) {
            return Err(shared_with(context.settings, moved));
        }
        let (name, mux) = StreamName::of_live_path(&request.path).ok_or_else(absent)?;
        self.may_watch(&name, request, context)?;
        self.send_away(&name, Wanted::Stream, request, context)?;
        let live = context.hub.streams.find(&name);
        if let Some(edge) = context.hub.edge()
            && (live.is_none() || context.hub.demands.is_pulled(&name))
        {
            // What is here only since it is pulled is not given back to the server that it is pulled from.
            if edge.is_loop(&request.headers) {
                return Err(circle());
            }
            let waits = live.as_ref().is_some_and(|live| live.published_since().is_none());
            if waits && !Via::of(&request.headers).is_empty() && context.hub.demands.may_go_round(&name) {
                return Err(waits_too());
            }
            if let Some(limit) = hops_limit(&request.headers) {
                let given = context.hub.may_give_on(&name, live.as_deref(), limit);
                given.map_err(|is_here| if is_here { farther_away() } else { waits_too() })?;
            }
        }
        if live.is_none() {
            if let Whereabouts::Away { retry_after } = context.hub.whereabouts(&name) {
                return Err(away(retry_after));
            }
            let via = Via::of(&request.headers);
            if let Some(begins) = context.hub.demand(&name, mux, &via, context.now) {
                return Ok(StreamAnswer::Later(begins));
            }
        }
        find_watched(&name, mux, context).map(StreamAnswer::Stream)
    }

    /// What is packaged here at `rest` of the presentation of the stream `name`.
    fn find_packaged(
        &self,
        name: &StreamName,
        rest: &str,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<StreamAnswer, Response> {
        let growing = self.find_presented(name, rest, request, context)?;
        if request.method == Method::Get {
            self.note_fetched(name, rest, context);
        }
        // Its playlists are written with the viewer's query.
        let (reading, source) = (Reading::new(growing), ObjectSource::Packaged);
        Ok(StreamAnswer::Object { reading, source, carries_token: false, or_here: false })
    }

    /// What upstream servers have of the presentation of the stream `name`. `None` as for [`find_upstream`].
    fn find_fetched(
        &self,
        name: &StreamName,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Option<Result<StreamAnswer, Response>> {
        let found = match context.hub.whereabouts_of_presentation(name) {
            Whereabouts::Unknown => find_upstream(request, self.peer.ip(), context)?,
            Whereabouts::Here => return None,
            Whereabouts::Away { retry_after } => return Some(Err(away(retry_after))),
            Whereabouts::At { servers, epoch } => {
                let edge = context.hub.edge()?;
                if edge.is_loop(&request.headers) {
                    return Some(Err(circle()));
                }
                let (at, place) = ((servers.first()?, epoch), (&*request.path, &*request.query));
                let via = Via::of(&request.headers);
                let (reading, status) =
                    edge.find_at(at, place, via, subscriber(self.peer.ip()), context.now)?;
                Ok(Upstream { reading, source: ObjectSource::Upstream(status), is_own: false })
            }
        };
        Some(found.map(|Upstream { reading, source, .. }| {
            let carries_token = context.settings.rules.of(name).watch.key.is_some();
            // What was refused a moment ago may be there by now.
            let is_fresh = source == ObjectSource::Upstream(CacheStatus::Miss);
            let or_here = is_fresh && context.hub.is_presented_upstream(name);
            StreamAnswer::Object { reading, source, carries_token, or_here }
        }))
    }

    /// The same where there is nothing here, which is what `absent` says.
    fn find_upstream_or(
        &self,
        absent: Response,
        name: &StreamName,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<StreamAnswer, Response> {
        let found = if absent.status == 404 { self.find_fetched(name, request, context) } else { None };
        found.unwrap_or_else(|| Err(shared_with(context.settings, absent)))
    }

    /// Answers with what is packaged here, since the upstream servers package nothing of this stream.
    pub(super) fn answer_here(&mut self, request: Box<Request>, context: &mut TurnContext<'_>) {
        let place = StreamName::of_presentation_path(&request.path);
        let found = place
            .ok_or_else(absent)
            .and_then(|(name, rest)| self.find_packaged(&name, rest, &request, context));
        match found {
            Ok(StreamAnswer::Object { reading, source, carries_token, or_here }) => {
                let handling = Handling { carries_token, or_here, is_own: false };
                self.fetch(reading, source, request, handling, context.now);
            }
            Ok(_) => {}
            Err(response) => {
                let head_only = request.method == Method::Head;
                let response = guarded(shared_with(context.settings, response));
                self.finish_answer(&response, head_only, context);
            }
        }
    }

    pub(super) fn finish_answer(
        &mut self,
        response: &Response,
        head_only: bool,
        context: &mut TurnContext<'_>,
    ) {
        if response.status >= 400 {
            context.hub.counters.errors.increment();
        }
        let keep = self.http.keeps_alive() && !context.hub.is_stopping();
        self.outgoing.push(response.head(keep));
        let has_body = !head_only && !matches!(response.status, 204 | 304);
        if has_body {
            self.outgoing.push(response.body.clone());
        }
        self.log(response.status, if has_body { response.body.len() as u64 } else { 0 }, context);
        if keep {
            self.role = Role::Exchange { request: None, body_bytes: 0 };
            self.http.done(context.now);
        } else {
            self.drain();
        }
    }

    /// Answers while the request's body is still coming, and ends the connection.
    pub(super) fn refuse(&mut self, response: Response, context: &mut TurnContext<'_>) {
        let response = guarded(response);
        if response.status >= 400 {
            context.hub.counters.errors.increment();
        }
        self.outgoing.push(response.head(false));
        self.log(response.status, response.body.len() as u64, context);
        self.outgoing.push(response.body);
        self.drain();
    }

    pub(super) fn refuse_http(&mut self, error: &HttpError, context: &mut TurnContext<'_>) {
        tracing::debug!(peer = %self.peer, %error, "bad request");
        self.release_slot(context, "sent malformed HTTP");
        self.leave_track(context);
        let words = "The request could not be read as HTTP/1.1; see the title for what is wrong with it.";
        self.refuse(problem(error.status(), &error.to_string(), words), context);
    }

    /// Answers, once, a peer that speaks plain HTTP where TLS is spoken.
    pub(super) fn refuse_plain(&mut self, context: &mut TurnContext<'_>) {
        if !matches!(self.role, Role::Draining { .. }) {
            let words = "This port speaks HTTPS: ask for the same address with https:// in front.";
            self.refuse(problem(400, "plain HTTP on a port for HTTPS", words), context);
        }
    }

    /// The flush of what is queued ends our side; what still comes is read and forgotten for a moment.
    pub(super) fn drain(&mut self) {
        self.role = Role::Draining { since: None };
        self.waiting_input.clear();
    }
}

/// Where the playlist or manifest is that `/live/NAME.m3u8` or `/live/NAME.mpd` asks for, as other servers have them: without a
/// look at whether there is such a stream. Relative, so that it holds behind a proxy's folder.
fn at_its_presentation(request: &Request) -> Option<Response> {
    let (name, extension) = request.path.strip_prefix("/live/")?.rsplit_once('.')?;
    let object = match extension {
        "m3u8" => "index.m3u8",
        "mpd" => "manifest.mpd",
        _ => return None,
    };
    let name = StreamName::parse(name)?;
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    Some(Response::new(302).with_header("Location", format!("{name}/{object}{query}")))
}

/// Fields that players of other origins send: ranges, conditions, tokens, and what CTA-5004 (CMCD) has them tell.
const ASKED_WITH: &str = "Authorization, Cache-Control, CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status, If-Match, \
                          If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Pragma, Range";

/// The answer to `OPTIONS`: what may be asked, and by pages of other origins.
fn preflight(settings: &Settings) -> Response {
    let response = Response::new(204).with_header("Allow", "GET, HEAD, PUT, POST, DELETE, OPTIONS");
    match settings.allow_origin {
        Some(_) => shared_with(settings, response)
            .with_header("Access-Control-Allow-Methods", "GET, HEAD")
            .with_header("Access-Control-Allow-Headers", ASKED_WITH)
            .with_header("Access-Control-Max-Age", "86400"),
        None => response,
    }
}
