//! A connection's time limits: each of what it may be has its own.

use super::responses::guarded;
use super::{Connection, Role, Turn};
use crate::turn::TurnContext;
use glassline_delivery::http1::problem;
use glassline_media::Time;
use std::time::Duration;

/// How long a connection that was answered and ended may go on sending before it is cut: cut at once, the
/// kernel would reset it and the peer might never read the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);

impl Connection {
    /// Checks the connection's time limits. Returns whether it is over.
    pub(crate) fn check_time(&mut self, context: &mut TurnContext<'_>) -> bool {
        let (now, settings) = (context.now, context.settings);
        match &mut self.role {
            Role::Exchange { .. } | Role::Reporting(_) => self.check_exchange_time(context),
            Role::Publishing(_) => self.check_publisher_time(context),
            Role::Ingesting(_) => {
                self.check_track(context);
                false
            }
            Role::Watching(viewer) => {
                let stalled =
                    viewer.blocked_since().is_some_and(|since| now.since(since) >= settings.stall_timeout);
                if stalled {
                    viewer.live().counters.stalled.increment();
                    let stream = &viewer.live().name;
                    tracing::info!(peer = %self.peer, %stream, "viewer dropped: its connection takes nothing");
                }
                stalled
            }
            Role::Fetching(fetching) => {
                if fetching
                    .waits_since()
                    .is_some_and(|since| now.since(since) >= fetching.waiting_time(settings))
                {
                    context.hub.counters.timed_out.increment();
                    fetching.leave(self.id);
                    let words = "What was asked for did not come in time; read the playlist again.";
                    let response = problem(503, "it takes too long", words).with_header("Retry-After", "1");
                    self.finish_answer(&guarded(response), false, context);
                    let _ = self.outgoing.flush(&mut self.socket);
                    return false;
                }
                let is_in_the_way = fetching.note_progress(now);
                if is_in_the_way {
                    tracing::info!(peer = %self.peer, "a client was dropped: others waited for it while memory was short");
                }
                is_in_the_way
            }
            Role::Awaiting(awaiting) => {
                if now.since(awaiting.since) >= settings.waiting_time(&awaiting.request.headers) {
                    context.hub.counters.timed_out.increment();
                    self.refuse_awaiting(context);
                }
                false
            }
            Role::Preparing(preparing) => {
                if now.since(preparing.since) >= settings.waiting_time(&preparing.request.headers) {
                    context.hub.counters.timed_out.increment();
                    self.refuse_preparing(context);
                }
                false
            }
            Role::Asked(_) => false,
            Role::Draining { since } => since.is_some_and(|since| now.since(since) >= DRAIN_TIME),
        }
    }

    fn check_exchange_time(&mut self, context: &mut TurnContext<'_>) -> bool {
        if !self.outgoing.is_empty() {
            return false;
        }
        if self.http.poll_timeout().is_some_and(|deadline| context.now >= deadline) {
            context.hub.counters.timed_out.increment();
            if self.http.is_idle() {
                return true;
            }
            if self.http.is_in_body() {
                context.hub.counters.bodies_timed_out.increment();
            }
            self.refuse_http(&self.http.late(), context);
            let _ = self.outgoing.flush(&mut self.socket);
        }
        false
    }

    fn check_publisher_time(&mut self, context: &mut TurnContext<'_>) -> bool {
        let Role::Publishing(publishing) = &self.role else { return false };
        let (now, settings) = (context.now, context.settings);
        // A publisher that has sent nothing at all has no stream to come back to.
        let timeout = match publishing.bytes {
            0 => settings.silence_timeout.min(settings.http.body_time),
            _ => settings.silence_timeout,
        };
        if now.since(publishing.last_bytes) >= timeout {
            // On a busy worker what has come may still wait to be read: that is no silence.
            let bytes = publishing.bytes;
            if matches!(self.take_turn(context), Turn::Over) {
                return true;
            }
            if !matches!(&self.role, Role::Publishing(publishing) if publishing.bytes == bytes) {
                return false;
            }
            context.hub.counters.timed_out.increment();
            if bytes == 0 {
                context.hub.counters.bodies_timed_out.increment();
            }
            let words = "A publisher that sends nothing gives up its name; publish again when there is something to send.";
            self.release_slot(context, "was silent and gave up its name");
            self.refuse(problem(408, "nothing was sent for too long", words), context);
            let _ = self.outgoing.flush(&mut self.socket);
        }
        false
    }

    /// Ends our side of a connection that is ending, once all is written.
    pub(crate) fn end_if_written(&mut self, now: Time) {
        if let Role::Draining { since: since @ None } = &mut self.role
            && self.outgoing.is_empty()
        {
            self.socket.take_leave();
            if self.socket.is_flushed() {
                *since = Some(now);
                let _ = self.socket.end();
            }
        }
    }
}
