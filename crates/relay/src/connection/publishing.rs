//! A connection that publishes: how it gets its publisher slot, and how it loses it.

use super::draining::Movable;
use super::{Connection, Role};
use crate::entitled::OwnHosts;
use crate::in_seconds;
use crate::ingest::{asks_to_take_over, credential};
use crate::turn::TurnContext;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, access, content_range_start, problem};
use glassline_delivery::policy::{AccessRequest, Action, Load, Meter, StreamName};
use glassline_delivery::stream::Mux;
use glassline_media::Time;
use glassline_streams::AcquireError;
use glassline_streams::pieces::{EndedPiece, Piece, Publisher};
use glassline_streams::presence::Purpose;
use glassline_streams::{Acquired, Origin, SlotRequest};
use glassline_streams::{Flushed, Live, PushError};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Publishing {
    pub(super) live: Arc<Live>,
    pub(super) session: u64,
    pub(super) last_bytes: Time,
    pub(super) began: Time,
    pub(super) bytes: u64,
    pub(super) meter: Option<Meter>,
    /// It goes to another server where it is told so.
    pub(super) movable: Option<Movable>,
    /// Its body has an end, behind which the same publisher may go on.
    pub(super) piece: Option<PieceInHand>,
}

/// A piece of a publisher's stream that is coming.
#[derive(Debug)]
pub(super) struct PieceInHand {
    pub(super) publisher: Publisher,
    /// The place of its first byte in what the publisher sends.
    pub(super) from: u64,
    /// Pieces before it.
    pub(super) before: u32,
}

impl Connection {
    pub(super) fn acquire(
        &self,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<Publishing, Response> {
        let Some((name, mux)) = StreamName::of_live_path(&request.path) else {
            return Err(problem(
                404,
                "no such address",
                "Publish MPEG-TS to /live/NAME.ts, FLV, WebM or Ogg to .flv, .webm or .ogg, or CMAF to /live/NAME/PATH; \
                 NAME is 1 to 64 letters, digits, dots, dashes or underscores.",
            ));
        };
        self.may_publish(&name, request, context)?;
        self.enter_as_publisher(context)?;
        let take_over = asks_to_take_over(request);
        let piece = self.piece(request);
        let slot_request = SlotRequest {
            name: &name,
            mux,
            origin: Origin::Connection(self.id),
            take_over,
            piece: piece.as_ref(),
        };
        // A publisher that is not let in ends none that is here.
        let is_free = context.hub.is_draining()
            || context.hub.ingests.make_way(&name, take_over, context.hub, context.now);
        let taken = AcquireError::Taken { name: name.clone() };
        let acquired = if is_free { context.hub.streams.acquire(slot_request) } else { Err(taken) };
        let Acquired { live, session, continued } = acquired.map_err(|error| {
            context.hub.presence.leave(self.peer.ip(), Purpose::Publish, 0);
            let is_draining = matches!(error, AcquireError::Draining);
            if let Some(moved) = is_draining.then(|| self.send_publisher(&name, request, context)).flatten() {
                tracing::info!(peer = %self.peer, stream = %name, "publisher is sent to another server: this one is emptied");
                return moved;
            }
            tracing::warn!(peer = %self.peer, stream = %name, %error, "publisher refused");
            publish_refusal(&error)
        })?;
        match continued {
            Some(_) => tracing::debug!(peer = %self.peer, stream = %name, "publisher goes on"),
            None => tracing::info!(peer = %self.peer, stream = %name, "publisher began"),
        }
        let limit = context.settings.rules.of(&name).max_publish_bps;
        let known = continued.and_then(|continued| continued.meter);
        let known = known.filter(|meter| limit == Some(meter.limit_bps()));
        let meter = known.or_else(|| limit.map(|limit| Meter::new(limit, context.now)));
        let piece = piece.map(|piece| PieceInHand {
            publisher: piece.publisher,
            from: continued.map_or(piece.from, |continued| Some(continued.from)).unwrap_or(0),
            before: continued.map_or(0, |continued| continued.count),
        });
        let (movable, began) = (Movable::of(request), context.now);
        Ok(Publishing { live, session, last_bytes: began, began, bytes: 0, meter, movable, piece })
    }

    /// The piece of a stream that a request may bring, where its body has a length: programs that put each buffer in a
    /// request of its own (GStreamer's `souphttpclientsink`) tell the length, and those that send an endless body
    /// cannot.
    fn piece(&self, request: &Request) -> Option<Piece> {
        request.headers.first("content-length")?;
        let program = request.headers.first("user-agent").map(str::to_owned);
        let publisher = Publisher { address: self.peer.ip(), credential: credential(request), program };
        Some(Piece { publisher, from: content_range_start(&request.headers) })
    }

    /// A publisher's request is whole. Where others of it may follow, its slot is kept for them.
    pub(super) fn end_piece(&mut self, context: &mut TurnContext<'_>) {
        if let Role::Publishing(publishing) = &self.role
            && let Some(piece) = publishing.piece.as_ref().filter(|_| publishing.bytes > 0)
        {
            let Publishing { live, session, bytes, meter, .. } = &**publishing;
            let PieceInHand { publisher, from, before } = piece;
            let ended = EndedPiece { publisher, from: *from, bytes: *bytes, before: *before, meter: *meter };
            let until = context.now + context.settings.silence_timeout;
            if live.rest(*session, &ended, until, context.now) {
                self.published_bytes = *bytes;
                context.hub.presence.leave(self.peer.ip(), Purpose::Publish, 0);
                context.notify(live, Flushed { news: true, wake_at: None }, self.id.worker);
                tracing::debug!(peer = %self.peer, stream = %live.name, bytes, "publisher's piece ended");
                self.role = Role::Exchange { request: None, body_bytes: 0 };
                return;
            }
        }
        self.release_slot(context, "ended");
    }

    /// Whether the peer may publish `name`.
    pub(super) fn may_publish(
        &self,
        name: &StreamName,
        request: &Request,
        context: &TurnContext<'_>,
    ) -> Result<(), Response> {
        let hosts = OwnHosts::of(context.hub, context.settings);
        let caller = access::caller(self.peer.ip(), request, &hosts);
        let protocol = self.socket.protocol();
        let asked = AccessRequest { name, action: Action::Publish, protocol, caller: &caller };
        context.settings.rules.check(&asked, context.hub.clock.utc()).map_err(|refusal| {
            let (status, words) = access::explain(refusal, asked.action);
            // FFmpeg and OBS ask without the key that they have, and again with it when they are told so.
            if status == 401 && request.headers.first("authorization").is_none() && request.parameter("key").is_none() {
                tracing::info!(peer = %self.peer, stream = %name, "publisher refused: it shows no key; those that have one come again with it");
            } else {
                tracing::warn!(peer = %self.peer, stream = %name, %protocol, refusal = words, "publisher refused");
            }
            let response = problem(status, "may not publish", words);
            // Clients that keep a password back until they are asked for it (RFC 9110 §11.6.1).
            let asks = status == 401;
            if asks { response.with_header("WWW-Authenticate", "Basic realm=\"publish\"") } else { response }
        })
    }

    pub(super) fn enter_as_publisher(&self, context: &TurnContext<'_>) -> Result<(), Response> {
        let limit = context.settings.max_publishers_per_address;
        let may = |of_address: Load, _| {
            let count = of_address.count;
            if limit == 0 || count < limit {
                return Ok(());
            }
            tracing::warn!(peer = %self.peer, count, "publisher refused: too many from its address");
            let words = "End one of them, or raise [publish] max_per_address in the server's configuration.";
            Err(problem(429, &format!("this address has {count} publishers already"), words))
        };
        context.hub.presence.enter(self.peer.ip(), Purpose::Publish, 0, may)
    }

    pub(super) fn refuse_push(&mut self, error: &PushError, context: &mut TurnContext<'_>) {
        let (status, words) = match error {
            PushError::Evicted => (409, "Publish again with ?takeover=1 to take the name back."),
            PushError::Refused(_) => {
                let mux = if let Role::Publishing(publishing) = &self.role {
                    publishing.live.mux
                } else {
                    Mux::default()
                };
                (415, mux.advice())
            }
            PushError::Spool(_) => (507, "The server is out of memory for this stream; publish again later."),
        };
        tracing::warn!(peer = %self.peer, %error, "publisher refused");
        self.release_slot(context, "refused");
        self.refuse(problem(status, &error.to_string(), words), context);
    }

    /// Gives the publisher slot up, if it has one. The log says `how` the publisher went.
    pub(super) fn release_slot(&mut self, context: &mut TurnContext<'_>, how: &str) {
        if let Role::Publishing(publishing) = &self.role {
            let Publishing { live, session, began, bytes, .. } = &**publishing;
            self.published_bytes = *bytes;
            live.release(*session, context.now);
            context.hub.presence.leave(self.peer.ip(), Purpose::Publish, 0);
            context.notify(live, Flushed { news: true, wake_at: None }, self.id.worker);
            let seconds = in_seconds(context.now.since(*began));
            tracing::info!(peer = %self.peer, stream = %live.name, bytes, seconds, "publisher {how}");
            self.role = Role::Exchange { request: None, body_bytes: 0 };
        }
    }

    /// Another publisher took a name over that this connection has, or has had.
    pub(crate) fn evicted(&mut self, context: &mut TurnContext<'_>) {
        match &self.role {
            // What it published before may have been another stream, over this same connection.
            Role::Publishing(publishing) if publishing.live.is_held_by(publishing.session) => {}
            Role::Publishing(_) => {
                self.refuse_push(&PushError::Evicted, context);
                let _ = self.outgoing.flush(&mut self.socket);
            }
            // It may put something else by now.
            Role::Ingesting(_) => self.check_track(context),
            _ => {}
        }
    }
}

/// The answer to a publisher that does not get the slot.
pub(super) fn publish_refusal(error: &AcquireError) -> Response {
    let (status, words) = match error {
        AcquireError::Taken { .. } => {
            (409, "Wait until the other publisher ends, choose another name, or replace it: ?takeover=1.")
        }
        AcquireError::OtherMux { .. } => (
            409,
            "A name has one mux at a time: wait until its stream has ended (return_window after its \
             publisher), choose another name, or replace it: ?takeover=1.",
        ),
        AcquireError::Pulled { .. } => {
            (409, "Choose another name; the server's configuration gives this one a source.")
        }
        AcquireError::Inside { .. } => {
            (409, "Choose another name; the server's configuration has an encoder for this one.")
        }
        AcquireError::Elsewhere { .. } => {
            (409, "Publish there, wait until that publisher ends, or choose another name.")
        }
        AcquireError::Draining => {
            let words =
                "Publish at another server of the cluster; GET /api/cluster of any of them lists all.";
            return problem(503, &error.to_string(), words).with_header("Retry-After", "1");
        }
        AcquireError::TooMany { .. } => {
            (503, "End a stream, or raise [publish] max_streams in the server's configuration.")
        }
    };
    problem(status, &error.to_string(), words)
}
