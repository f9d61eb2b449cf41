//! A connection that waits for an answer which another thread makes.

use super::responses::{guarded, shared_with};
use super::{Connection, Role, Turn};
use crate::listen::ListenerRole;
use crate::long_answers::{Client, LongAnswer};
use crate::turn::TurnContext;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, problem};
use glassline_media::Time;
use std::sync::Arc;

/// A request of which the answer is being made.
#[derive(Debug)]
pub(super) struct Preparing {
    pub(super) request: Box<Request>,
    pub(super) since: Time,
    answer: Arc<LongAnswer>,
}

impl Connection {
    /// Has the answer to `request` made by the thread for that. Where too many wait for it, the request is refused.
    pub(super) fn prepare(&mut self, request: Box<Request>, context: &mut TurnContext<'_>) {
        let door = ListenerRole::of(self.is_admin, &context.settings.listen);
        let (hub, peer) = (context.hub, self.peer.ip());
        let is_operator = hub.is_operator(door, peer, &request).is_ok();
        let client = Client { door, peer, is_operator };
        match hub.long_answers.ask(&hub.inboxes, &request, client, self.id) {
            Some(answer) => {
                self.role = Role::Preparing(Box::new(Preparing { request, since: context.now, answer }));
            }
            None => self.refuse_unprepared(&request, context),
        }
    }

    /// The answer that it waits for may be there.
    pub(super) fn take_prepared(&mut self, context: &mut TurnContext<'_>) -> Turn {
        let Role::Preparing(preparing) = &self.role else { return Turn::Rests };
        let Some(response) = preparing.answer.take() else { return Turn::Rests };
        let head_only = preparing.request.method == Method::Head;
        self.finish_answer(&shared_with(context.settings, response), head_only, context);
        // It leaves now, and what the peer has sent behind its request is due.
        self.take_turn(context)
    }

    /// It takes too long.
    pub(super) fn refuse_preparing(&mut self, context: &mut TurnContext<'_>) {
        let Role::Preparing(preparing) = &self.role else { return };
        let request = preparing.request.clone();
        self.refuse_unprepared(&request, context);
        let _ = self.outgoing.flush(&mut self.socket);
    }

    fn refuse_unprepared(&mut self, request: &Request, context: &mut TurnContext<'_>) {
        let words = "This server makes as many such answers as it can at the moment. Ask again in a second.";
        let response = guarded(problem(503, "too many ask for this", words)).with_header("Retry-After", "1");
        self.finish_answer(&response, request.method == Method::Head, context);
    }
}
