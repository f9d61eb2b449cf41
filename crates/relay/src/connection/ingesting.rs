//! A request that puts a part of a presentation: of CMAF, or a manifest that is not needed.

use super::responses::{absent, guarded};
use super::{Connection, Role};
use crate::ingest::{Asking, IngestSession, Refused, asks_to_take_over};
use crate::turn::TurnContext;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::ingest::{Ended, PATH_MAX_BYTES, Target};
use glassline_delivery::policy::{Meter, StreamName};
use glassline_media::Time;
use glassline_streams::AcquireError;
use std::sync::Arc;

/// A request that brings CMAF.
#[derive(Debug)]
pub(super) struct Ingesting {
    session: Arc<IngestSession>,
    /// Behind the stream's name.
    path: String,
    /// Its number there.
    body: u64,
    pub(super) bytes: u64,
    last_bytes: Time,
    /// All of it has come, and it waits for its header.
    is_whole: bool,
}

/// What a request to put something of a presentation comes to.
pub(super) enum Put {
    /// It brings a track.
    Track(Ingesting),
    /// Its body is passed over and it is answered then.
    PassedOver,
}

/// An answer that refuses, out of what may be the reason.
struct Refusal(Response);

impl From<AcquireError> for Refusal {
    fn from(error: AcquireError) -> Refusal {
        Refusal(super::publishing::publish_refusal(&error))
    }
}

/// Whether a request puts something of a presentation.
pub(super) fn is_put(request: &Request) -> bool {
    matches!(request.method, Method::Put | Method::Post)
        && StreamName::of_presentation_path(&request.path).is_some()
}

impl Connection {
    /// Begins to take what is put at `path` of the stream `name`, where the peer may publish that.
    pub(super) fn begin_put(
        &self,
        name: &StreamName,
        path: &str,
        request: &Request,
        context: &mut TurnContext<'_>,
    ) -> Result<Put, Response> {
        self.may_publish(name, request, context)?;
        let Some(target) = Target::of(path) else {
            let words = format!("Put tracks to /live/NAME/PATH; PATH is 1 to {PATH_MAX_BYTES} bytes.");
            return Err(problem(404, "no such address", &words));
        };
        let is_empty = request.headers.first("content-length") == Some("0");
        if target == Target::Manifest {
            context.hub.ingests.manifests.increment();
        }
        if target == Target::Manifest || is_empty {
            return Ok(Put::PassedOver);
        }
        let ingests = &context.hub.ingests;
        ingests.requests.increment();
        let meter = context.settings.rules.of(name).max_publish_bps;
        let meter = meter.map(|limit| Meter::new(limit, context.now));
        let take_over = asks_to_take_over(request);
        let (address, protocol) = (self.peer.ip(), self.socket.protocol());
        let asking = Asking { name, request, address, protocol, connection: self.id, meter, take_over };
        let entered = ingests
            .enter(context.hub, asking, context.now, || self.enter_as_publisher(context).map_err(Refusal));
        let session = entered.map_err(|Refusal(response)| {
            ingests.refused.increment();
            tracing::warn!(peer = %self.peer, stream = %name, path, status = response.status, "publisher of CMAF refused");
            response
        })?;
        let body = session.begin(path, context.now).map_err(|refused| {
            ingests.refused.increment();
            tracing::warn!(peer = %self.peer, stream = %name, path, %refused, "request of a publisher refused");
            answer_to(&refused)
        })?;
        let last_bytes = context.now;
        let path = path.to_owned();
        Ok(Put::Track(Ingesting { session, path, body, bytes: 0, last_bytes, is_whole: false }))
    }

    /// Answers a publisher that deletes a part of a presentation. Nothing is deleted: what is too old goes by itself.
    pub(super) fn delete_part(&self, request: &Request, context: &TurnContext<'_>) -> Response {
        match StreamName::of_presentation_path(&request.path) {
            Some((name, _)) => self.may_publish(&name, request, context).err().unwrap_or(Response::new(204)),
            None => absent(),
        }
    }

    /// Takes bytes of a track.
    pub(super) fn take_track(&mut self, data: &[u8], context: &mut TurnContext<'_>) {
        let Role::Ingesting(ingesting) = &mut self.role else { return };
        ingesting.last_bytes = context.now;
        ingesting.bytes += data.len() as u64;
        let session = Arc::clone(&ingesting.session);
        let (pushed, at) = session.push(ingesting.body, data, context.hub, context.now);
        if let Some(at) = at {
            context.call_at(at, &session);
        }
        if let Err(refused) = pushed {
            self.refuse_track(&refused, context);
        }
    }

    /// The last byte of a track's request has come.
    pub(super) fn end_track(&mut self, context: &mut TurnContext<'_>) {
        let Role::Ingesting(ingesting) = &mut self.role else { return };
        let (ended, at) = ingesting.session.end(ingesting.body, context.hub, context.now);
        if let Some(at) = at {
            context.call_at(at, &ingesting.session);
        }
        match ended {
            Ok(Ended::Taken) => {
                self.leave_track(context);
                self.finish_answer(&guarded(Response::new(204)), false, context);
            }
            Ok(Ended::Waits) => ingesting.is_whole = true,
            Err(refused) => {
                let response = self.refusal_of_track(&refused, context);
                self.finish_answer(&guarded(response), false, context);
            }
        }
    }

    /// Refuses a request while its body is still coming.
    fn refuse_track(&mut self, refused: &Refused, context: &mut TurnContext<'_>) {
        let response = self.refusal_of_track(refused, context);
        self.refuse(response, context);
    }

    fn refusal_of_track(&mut self, refused: &Refused, context: &mut TurnContext<'_>) -> Response {
        if let Role::Ingesting(ingesting) = &self.role {
            let Ingesting { session, path, .. } = &**ingesting;
            tracing::warn!(peer = %self.peer, stream = %session.name(), path, %refused, "request of a publisher refused");
        }
        context.hub.ingests.refused.increment();
        self.leave_track(context);
        answer_to(refused)
    }

    /// Gives up what it has of its publisher.
    pub(super) fn leave_track(&mut self, context: &mut TurnContext<'_>) {
        if let Role::Ingesting(ingesting) = &self.role {
            self.published_bytes = ingesting.bytes;
            if let Some(at) = ingesting.session.close(ingesting.body, context.hub, context.now) {
                context.call_at(at, &ingesting.session);
            }
            self.role = Role::Exchange { request: None, body_bytes: 0 };
        }
    }

    /// Looks after a track's request that waits, or brings nothing.
    pub(super) fn check_track(&mut self, context: &mut TurnContext<'_>) {
        let Role::Ingesting(ingesting) = &self.role else { return };
        let outcome = ingesting.session.outcome(ingesting.body);
        let timeout = match ingesting.bytes {
            0 => context.settings.http.body_time,
            _ => context.settings.http.body_time.max(context.settings.silence_timeout),
        };
        let timeout = timeout + ingesting.session.expected_quiet();
        match outcome {
            Some(Ok(())) => {
                self.leave_track(context);
                self.finish_answer(&guarded(Response::new(204)), false, context);
            }
            Some(Err(refused)) if ingesting.is_whole => {
                let response = self.refusal_of_track(&refused, context);
                self.finish_answer(&guarded(response), false, context);
            }
            Some(Err(refused)) => self.refuse_track(&refused, context),
            None if context.now.since(ingesting.last_bytes) >= timeout => {
                context.hub.counters.timed_out.increment();
                context.hub.counters.bodies_timed_out.increment();
                self.leave_track(context);
                let words = "End requests that bring nothing more, and begin new ones.";
                self.refuse(problem(408, "nothing was sent for too long", words), context);
            }
            None => return,
        }
        let _ = self.outgoing.flush(&mut self.socket);
    }
}

fn answer_to(refused: &Refused) -> Response {
    let (status, words) = refused.explain();
    problem(status, &refused.to_string(), words)
}
