//! What a connection's peer sends: bytes from the socket to events of HTTP, and each of these to what the connection is by then.

use super::ingesting::{Put, is_put};
use super::responses::{guarded, shared_with};
use super::staging::is_report;
use super::{Became, Connection, Role, Turn};
use crate::turn::TurnContext;
use glassline_delivery::http1::server::{CONTINUE, Event, Request};
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::policy::{StreamName, is_live_path};
use glassline_io::containment::{Border, arm, inject};
use glassline_streams::Flushed;
use std::io;

/// Answers that may wait for a client that reads slowly, before its next requests are looked at.
const OUTGOING_LIMIT_BYTES: usize = 256 << 10;
/// Bytes of a body that its address has no use for, before the request is refused and the connection ended.
const STRAY_BODY_BYTES: u64 = 64 << 10;
/// Bytes of a manifest or playlist that a publisher puts, and that is not needed.
const MANIFEST_MAX_BYTES: u64 = 4 << 20;
/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 16;

/// The answer to a publisher that has gone in the middle of its body (RFC 9112 §8).
fn cut_off() -> Response {
    guarded(problem(
        400,
        "the stream was cut off",
        "Its end did not come; publish again under the same name.",
    ))
}

impl Connection {
    /// Takes what the peer has sent.
    pub(super) fn read(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
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
    pub(super) fn take_input(
        &mut self,
        mut input: &[u8],
        context: &mut TurnContext<'_>,
    ) -> io::Result<Became> {
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
                    self.move_publisher(context);
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
                    self.release_slot(context, "sent more than it may");
                    let title = format!("more than {limit} bit/s");
                    let words = "Send at a lower bit rate, or raise the stream's max_bitrate in the server's configuration.";
                    self.refuse(problem(429, &title, words), context);
                    return Ok(Became::Same);
                }
                match publishing.live.push(publishing.session, data, context.now) {
                    Ok(news) => {
                        let flushed = Flushed { news, wake_at: None };
                        context.notify(&publishing.live, flushed, self.id.worker);
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
        if is_report(&request) {
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
            match self.acquire(&request, context) {
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
                self.release_slot(context, if whole { "ended" } else { "was cut off" });
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
}
