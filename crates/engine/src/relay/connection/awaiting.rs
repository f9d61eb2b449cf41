//! A connection that waits for a stream which its upstream server may have.

use super::answering::guarded;
use super::{Connection, Role, Turn};
use crate::edge::{Growing, Reader};
use crate::relay::live::Seat;
use crate::relay::turn::TurnContext;
use glassline_delivery::fill::Object;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, problem};
use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use std::io;
use std::sync::Arc;

/// A request for a stream that is pulled because of it.
#[derive(Debug)]
pub(super) struct Awaiting {
    pub(super) request: Box<Request>,
    pub(super) since: Time,
    /// Changes when the stream begins, and fails where it will not.
    begins: Arc<Growing>,
}

impl Awaiting {
    /// Its peer is gone.
    pub(super) fn leave(&self, seat: Seat) {
        self.begins.leave(reader(seat));
    }
}

fn reader(seat: Seat) -> Reader {
    Reader { thread: seat.worker, token: seat.token }
}

impl Connection {
    /// Has the stream that `request` is for pulled from the upstream server, if there is one, and waits for it. Whether the
    /// peer may watch it was decided before.
    pub(super) fn await_stream(&mut self, request: &Request, context: &TurnContext<'_>) -> bool {
        let Some((name, mux)) = StreamName::of_live_path(&request.path) else { return false };
        if context.hub.streams.find(&name).is_some() {
            return false;
        }
        let Some(begins) = context.hub.demand(&name, mux, context.now) else { return false };
        if begins.look_or_wait(reader(self.seat), |object: &Object| object.is_over().then_some(())).is_some()
        {
            return false;
        }
        let request = Box::new(request.clone());
        self.role = Role::Awaiting(Box::new(Awaiting { request, since: context.now, begins }));
        true
    }

    /// There is news of the stream that it waits for.
    pub(super) fn look_again(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        let Role::Awaiting(awaiting) = &self.role else { return Ok(Turn::Rests) };
        if awaiting.begins.look(Object::is_over) {
            self.refuse_awaiting(context);
            return Ok(Turn::Rests);
        }
        let request = awaiting.request.clone();
        let found =
            StreamName::of_live_path(&request.path).and_then(|(name, _)| context.hub.streams.find(&name));
        if found.is_none() {
            let waits =
                awaiting.begins.look_or_wait(reader(self.seat), |object| object.is_over().then_some(()));
            return Ok(if waits.is_some() { Turn::Again } else { Turn::Rests });
        }
        self.role = Role::Exchange { request: None, body_bytes: 0 };
        Ok(if self.answer(&request, context)? { Turn::Watches } else { Turn::Rests })
    }

    /// The stream does not come.
    pub(super) fn refuse_awaiting(&mut self, context: &mut TurnContext<'_>) {
        let Role::Awaiting(awaiting) = &self.role else { return };
        awaiting.leave(self.seat);
        let head_only = awaiting.request.method == Method::Head;
        let words = "No stream of this name is live here, and the upstream server has none, or did not send it in time.";
        let response = guarded(problem(404, "no such stream", words)).with_header("Retry-After", "1");
        self.finish_answer(&response, head_only, context);
        let _ = self.outgoing.flush(&mut self.socket);
    }
}
