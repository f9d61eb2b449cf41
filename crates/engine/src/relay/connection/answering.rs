//! Answers: of the site, of the relay itself, and refusals.

use super::{Connection, Role};
use crate::edge::ObjectSource;
use crate::relay::turn::TurnContext;
use crate::relay::{ListenerRole, Settings};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{HttpError, Method, Response, problem};
use glassline_delivery::policy::StreamName;
use std::io;

impl Connection {
    /// Answers a whole request. Returns whether the peer has become a viewer.
    pub(super) fn answer(&mut self, request: &Request, context: &mut TurnContext<'_>) -> io::Result<bool> {
        let is_live = is_live(&request.path);
        let reads = matches!(request.method, Method::Get | Method::Head);
        if reads && let Some((name, rest)) = StreamName::of_presentation_path(&request.path) {
            if let Err(response) = self.may_watch(&name, request, context) {
                let response = shared_with(context.settings, guarded(response));
                self.finish_answer(&response, request.method == Method::Head, context);
                return Ok(false);
            }
            match self.find_presented(&name, rest, request, context) {
                Ok(growing) => self.fetch(growing, ObjectSource::Packaged, request, context.now),
                Err(response) if response.status == 404 && self.forward(request, context) => {}
                Err(response) => {
                    let response = shared_with(context.settings, guarded(response));
                    self.finish_answer(&response, request.method == Method::Head, context);
                }
            }
            return Ok(false);
        }
        if is_live && reads {
            let name = StreamName::of_live_path(&request.path).map(|(name, _)| name);
            let allowed = name.map_or(Ok(()), |name| self.may_watch(&name, request, context));
            if let Err(response) = allowed {
                self.finish_answer(&guarded(response), request.method == Method::Head, context);
                return Ok(false);
            }
            match self.find_watched(request, context) {
                Ok(live) => return self.watch(live, request, context),
                Err(response) if response.status == 404 && self.await_stream(request, context) => {
                    return Ok(false);
                }
                Err(response) => {
                    self.finish_answer(&guarded(response), request.method == Method::Head, context);
                    return Ok(false);
                }
            }
        }
        let response = match request.method {
            Method::Options => preflight(context.settings),
            _ => {
                let door = ListenerRole::of(self.is_admin, &context.settings.listen);
                let response = context.hub.respond(request, door, self.peer.ip());
                if response.status == 404 && reads && !self.is_admin && self.forward(request, context) {
                    return Ok(false);
                }
                shared_with(context.settings, response)
            }
        };
        let response = if is_live { guarded(response) } else { response };
        self.finish_answer(&response, request.method == Method::Head, context);
        Ok(false)
    }

    /// Answers with what upstream servers have at the request's address, if there are any.
    fn forward(&mut self, request: &Request, context: &mut TurnContext<'_>) -> bool {
        let Some(edge) = context.hub.edge() else { return false };
        if request.headers.all("via").any(|via| edge.is_loop(via)) {
            let words = "The request has come by this server before: its upstream servers lead back to it. Mend [upstream].";
            self.finish_answer(
                &problem(508, "the servers ask each other in a circle", words),
                false,
                context,
            );
            return true;
        }
        let Some(target) = upstream_target(request) else { return false };
        let via: Vec<&str> = request.headers.all("via").collect();
        let via = (!via.is_empty()).then(|| via.join(", "));
        let (growing, status) = edge.find(&target, via.as_deref(), context.now);
        self.fetch(growing, ObjectSource::Upstream(status), request, context.now);
        true
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
        context.hub.counters.errors.increment();
        self.outgoing.push(response.head(false));
        self.log(response.status, response.body.len() as u64, context);
        self.outgoing.push(response.body);
        self.drain();
    }

    pub(super) fn refuse_http(&mut self, error: &HttpError, context: &mut TurnContext<'_>) {
        tracing::debug!(peer = %self.peer, %error, "bad request");
        self.leave_seat(context, "sent malformed HTTP");
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

/// What upstream servers are asked for: without what only concerns this server and this viewer. `None` of a path that leads
/// upwards, or that a server which reads escapes or joins slashes would take for a stream's: who may watch was not looked at.
fn upstream_target(request: &Request) -> Option<String> {
    let plain = unescaped(&request.path);
    let mut parts = plain.split('/').filter(|part| !part.is_empty());
    let leads_up = parts.clone().any(|part| matches!(part, "." | ".."));
    if leads_up || (parts.next() == Some("live") && !is_live(&request.path)) {
        return None;
    }
    let is_ours = |pair: &&str| !matches!(pair.split('=').next(), Some("token" | "expires"));
    let pairs: Vec<&str> = request.query.split('&').filter(|pair| !pair.is_empty()).filter(is_ours).collect();
    let mark = if pairs.is_empty() { "" } else { "?" };
    Some(format!("{}{mark}{}", request.path, pairs.join("&")))
}

/// A path with its escapes undone, once (RFC 3986 §2.1).
fn unescaped(path: &str) -> String {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escaped = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).replace('\\', "/")
}

/// Whether streams are at `path`, and nothing else.
pub(super) fn is_live(path: &str) -> bool {
    path == "/live" || path.starts_with("/live/")
}

/// `response`, such that no browser makes a page of it: neither by looking at its bytes (Fetch standard, `nosniff`) nor
/// by what a source calls them (Content Security Policy Level 3, `sandbox`: no scripts, an origin of its own). Streams'
/// bytes come from others, under this server's name.
pub(super) fn guarded(mut response: Response) -> Response {
    for (name, value) in [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox")] {
        if !response.headers.iter().any(|(known, _)| *known == name) {
            response = response.with_header(name, value);
        }
    }
    response
}

/// `response`, readable for the web pages that the configuration names (Fetch standard, CORS protocol).
pub(super) fn shared_with(settings: &Settings, response: Response) -> Response {
    match &settings.allow_origin {
        Some(origin) => response.with_header("Access-Control-Allow-Origin", origin),
        None => response,
    }
}

/// The answer to `OPTIONS`: what may be asked, and by pages of other origins.
fn preflight(settings: &Settings) -> Response {
    let response = Response::new(204).with_header("Allow", "GET, HEAD, PUT, POST, OPTIONS");
    match settings.allow_origin {
        Some(_) => shared_with(settings, response)
            .with_header("Access-Control-Allow-Methods", "GET, HEAD")
            .with_header("Access-Control-Max-Age", "86400"),
        None => response,
    }
}
