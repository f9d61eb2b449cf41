//! A connection that waits for a stream which its upstream server may have.

use super::responses::guarded;
use super::{Became, Connection, Role, Turn};
use crate::turn::TurnContext;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, problem};
use glassline_delivery::policy::StreamName;
use glassline_edge::{Growing, Reader};
use glassline_media::Time;
use glassline_streams::ConnectionId;
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
    pub(super) fn leave(&self, connection: ConnectionId) {
        self.begins.leave(reader(connection));
    }
}

fn reader(connection: ConnectionId) -> Reader {
    Reader { thread: connection.worker, token: connection.token }
}

impl Connection {
    /// Waits for the stream that `request` is for, which is being pulled from the upstream server and may be there by now.
    pub(super) fn await_stream(
        &mut self,
        begins: Arc<Growing>,
        request: Box<Request>,
        context: &mut TurnContext<'_>,
    ) -> io::Result<Became> {
        self.role = Role::Awaiting(Box::new(Awaiting { request, since: context.now, begins }));
        Ok(match self.look_again(context)? {
            Turn::Watches => Became::Viewer,
            _ => Became::Same,
        })
    }

    /// There may be news of the stream that it waits for.
    pub(super) fn look_again(&mut self, context: &mut TurnContext<'_>) -> io::Result<Turn> {
        let Role::Awaiting(awaiting) = &self.role else { return Ok(Turn::Rests) };
        // It says that it waits before it looks: what changes from then on is told.
        if awaiting.begins.look_or_wait(reader(self.id), |object| object.is_over().then_some(())).is_some() {
            self.refuse_awaiting(context);
            return Ok(Turn::Rests);
        }
        let name = StreamName::of_live_path(&awaiting.request.path).map(|(name, _)| name);
        if name.is_none_or(|name| context.hub.streams.find(&name).is_none()) {
            return Ok(Turn::Rests);
        }
        awaiting.leave(self.id);
        let role = std::mem::replace(&mut self.role, Role::Exchange { request: None, body_bytes: 0 });
        let Role::Awaiting(awaiting) = role else { return Ok(Turn::Rests) };
        Ok(match self.answer(awaiting.request, context)? {
            Became::Viewer => Turn::Watches,
            Became::Same => Turn::Rests,
        })
    }

    /// The stream does not come.
    pub(super) fn refuse_awaiting(&mut self, context: &mut TurnContext<'_>) {
        let Role::Awaiting(awaiting) = &self.role else { return };
        awaiting.leave(self.id);
        let head_only = awaiting.request.method == Method::Head;
        let words = "No stream of this name is live here, and the upstream server has none, or did not send it in time.";
        let response = guarded(problem(404, "no such stream", words)).with_header("Retry-After", "1");
        self.finish_answer(&response, head_only, context);
        let _ = self.outgoing.flush(&mut self.socket);
    }
}
