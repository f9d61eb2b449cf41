//! The publisher slot of a stream: one publisher has it at a time, under a session. It is kept for a while for a publisher that
//! sends its stream in pieces, one request after another.

use crate::pieces::{Continued, EndedPiece, LeftPiece, Piece};
use glassline_delivery::policy::StreamName;
use glassline_delivery::slate::Gate;
use glassline_delivery::stream::Stream;
use glassline_media::Time;
use serde::{Deserialize, Serialize};

/// Which connection, of all workers. A publisher is told by it to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId {
    /// Its worker.
    pub worker: usize,
    /// Its token there.
    pub token: u64,
}

/// What asking for the publisher slot came to.
pub enum Acquisition {
    /// The caller has it.
    Granted {
        /// What it pushes under.
        session: u64,
        /// The publisher that had the slot before; the caller tells it to go.
        evicted: Option<ConnectionId>,
        /// It is the next piece of what was sent before.
        continued: Option<Continued>,
    },
    /// Another publisher has it.
    Taken,
}

/// The publisher that has the slot.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PublisherSession {
    session: u64,
    /// Its connection; processes do not tell each other.
    #[serde(skip)]
    connection: Option<ConnectionId>,
    /// Whether it is in this process.
    #[serde(skip)]
    is_here: bool,
    since: Time,
    /// It sends piece by piece, and the next one has to begin until then; processes do not tell each other.
    #[serde(skip)]
    rests_until: Option<Time>,
}

/// What a publisher's bytes go into.
pub(super) struct IntoStream<'a> {
    pub(super) stream: &'a mut Stream,
    /// What stands in front of it where the stream has a slate.
    pub(super) gate: Option<&'a mut Gate>,
}

impl IntoStream<'_> {
    /// See [`Stream::return_session`]. Of a publisher that is not shown yet the gate keeps what came of it.
    fn return_session(&mut self, may: bool) -> bool {
        match &mut self.gate {
            Some(gate) => gate.return_publisher(self.stream, may),
            None => self.stream.return_session(may),
        }
    }

    fn begin_session(&mut self, now: Time) {
        match &mut self.gate {
            Some(gate) => gate.begin_publisher(self.stream),
            None => self.stream.begin_session(now),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct PublisherSlot {
    holder: Option<PublisherSession>,
    /// The last request of the present publisher, or of the last one, has ended as a piece does.
    left: Option<LeftPiece>,
    /// How many publishers had come when the present one's request began.
    sessions_at_acquisition: u64,
    sessions: u64,
    gone_since: Time,
}

impl PublisherSlot {
    /// A free one.
    pub(super) fn new(now: Time) -> PublisherSlot {
        PublisherSlot::restore(None, 0, now)
    }

    /// As another process has left it ([`PublisherSlot::handed`]).
    pub(super) fn restore(
        holder: Option<PublisherSession>,
        sessions: u64,
        gone_since: Time,
    ) -> PublisherSlot {
        PublisherSlot { holder, left: None, sessions_at_acquisition: 0, sessions, gone_since }
    }

    /// What the next process needs of it: the publisher, how many sessions there were, and since when there is none.
    pub(super) fn handed(&self) -> (Option<PublisherSession>, u64, Time) {
        (self.holder, self.sessions, self.gone_since)
    }

    /// The publisher of `session` has come from another process, at `connection` from now on. Returns
    /// whether the slot is its.
    pub(super) fn reclaim(&mut self, session: u64, connection: Option<ConnectionId>) -> bool {
        match &mut self.holder {
            Some(holder) if holder.session == session => {
                (holder.connection, holder.is_here) = (connection, true);
                true
            }
            _ => false,
        }
    }

    /// The session of a publisher that has not come over from the other process.
    pub(super) fn absent_session(&self) -> Option<u64> {
        self.holder.filter(|holder| !holder.is_here).map(|holder| holder.session)
    }

    /// The session of the publisher at `connection`.
    pub(super) fn session_at(&self, connection: ConnectionId) -> Option<u64> {
        self.holder.filter(|holder| holder.connection == Some(connection)).map(|holder| holder.session)
    }

    /// Whether the publisher of `session` has it.
    #[inline]
    pub(super) fn is_held_by(&self, session: u64) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.session == session)
    }

    /// Whether a publisher has it.
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// Since when its publisher is there; `None` where it has none.
    pub(super) fn published_since(&self) -> Option<Time> {
        self.holder.as_ref().map(|holder| holder.since)
    }

    /// Since when no publisher is there. Of meaning only where none is.
    pub(super) fn gone_since(&self) -> Time {
        self.gone_since
    }

    /// Frees the slot of a publisher that sends piece by piece and has not gone on in time. Returns whether there was one.
    pub(super) fn settle(&mut self, name: &StreamName, now: Time) -> bool {
        let over = self.holder.and_then(|holder| holder.rests_until).filter(|until| now > *until);
        if let Some(until) = over {
            self.holder = None;
            self.gone_since = until;
            tracing::info!(stream = %name, "publisher sent no further piece and gave up its name");
        }
        over.is_some()
    }

    /// Whether it is free, or kept for the publisher of `piece` between two pieces.
    pub(super) fn is_free_for(&self, piece: Option<&Piece>) -> bool {
        let rests = |holder: PublisherSession| holder.rests_until.is_some();
        self.holder.is_none_or(|holder| rests(holder) && self.left_by(piece).is_some())
    }

    /// What the publisher of `piece` left, if it was the last one.
    fn left_by(&self, piece: Option<&Piece>) -> Option<&LeftPiece> {
        self.left.as_ref().filter(|left| piece.is_some_and(|piece| piece.publisher == left.publisher))
    }

    /// Gives the slot to a publisher, whatever publisher has it. What that one left has to be shown before.
    pub(super) fn grant(
        &mut self,
        connection: Option<ConnectionId>,
        piece: Option<&Piece>,
        mut into: IntoStream<'_>,
        now: Time,
    ) -> Acquisition {
        let left = self.left_by(piece).cloned();
        self.sessions += 1;
        let session = self.sessions;
        let from = piece.and_then(|piece| piece.from);
        // Where it says at which place it begins, that counts; else its packets have to show that they follow.
        let left = left.filter(|left| now <= left.until && from.is_none_or(|from| from == left.end));
        let continues = left.is_some() && into.return_session(from.is_none());
        let continued = left.filter(|_| continues).map(|left| Continued {
            count: left.count,
            from: from.unwrap_or(left.end),
            meter: left.meter,
        });
        if continued.is_none() {
            into.begin_session(now);
        }
        self.left = None;
        self.sessions_at_acquisition = into.stream.counters().sessions;
        let since = self.holder.filter(|_| continued.is_some()).map_or(now, |holder| holder.since);
        let evicted = self
            .holder
            .replace(PublisherSession { session, connection, is_here: true, since, rests_until: None })
            .and_then(|holder| holder.connection);
        Acquisition::Granted { session, evicted, continued }
    }

    /// `piece` has ended: keeps the slot until `until` for the next piece. Returns whether it is kept. Nothing shows that
    /// others follow the first piece: after that the slot is free. What was sent has to be shown before.
    pub(super) fn rest(&mut self, piece: &EndedPiece<'_>, stream: &Stream, until: Time, now: Time) -> bool {
        let Some(holder) = self.holder else { return false };
        let has_gone_on = stream.counters().sessions == self.sessions_at_acquisition;
        // Its packets may have shown that it is the first piece of another publisher.
        let before = if has_gone_on { piece.before } else { 0 };
        let count = before.saturating_add(1);
        let end = piece.from.saturating_add(piece.bytes);
        let (publisher, meter) = (piece.publisher.clone(), piece.meter);
        self.left = Some(LeftPiece { publisher, end, meter, until, count });
        self.holder =
            (count > 1).then_some(PublisherSession { connection: None, rests_until: Some(until), ..holder });
        self.gone_since = now;
        self.holder.is_some()
    }

    /// The publisher goes on under another session, which does not continue what it has sent. Returns that.
    pub(super) fn begin_anew(&mut self) -> u64 {
        self.sessions += 1;
        if let Some(holder) = &mut self.holder {
            holder.session = self.sessions;
        }
        self.sessions
    }

    /// The publisher has gone.
    pub(super) fn release(&mut self, now: Time) {
        self.holder = None;
        self.left = None;
        self.gone_since = now;
    }

    /// The stream has ended for another one under its name. Returns where its publisher is.
    pub(super) fn vacate(&mut self) -> Option<ConnectionId> {
        self.holder.take().and_then(|holder| holder.connection)
    }

    /// A panic has ended the stream.
    pub(super) fn end(&mut self, now: Time) {
        self.holder = None;
        self.gone_since = now;
    }
}

#[cfg(test)]
#[path = "publisher_slot_tests.rs"]
mod tests;
