//! A connection at the door, from its first byte to its last.

use super::feed::{Feed, Uncarried};
use super::status::{Board, Entry, Figures, count};
use super::target::Target;
use crate::entrance::{Client, Contribution, Entrance, Over, Refused};
use crate::outgoing::Outgoing;
use crate::wire::Wire;
use glassline_delivery::assemble::Written;
use glassline_delivery::policy::{Credential, Meter, Protocol};
use glassline_media::Time;
use glassline_streams::AcquireError;
use glassline_transport::rtmp::{Event, Publish, Refusal, ServerSession, SessionError};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use thiserror::Error;

/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 8;
/// Answers that wait for a peer that does not read them; an honest one reads some kilobytes.
const ANSWERS_MAX_BYTES: usize = 64 << 10;
/// How long a refused peer may take to read why.
const LINGER: Duration = Duration::from_secs(2);
/// The stream gets its bytes at the latest when the messages that were taken may have grown to so much, each by this.
const UNGIVEN_MAX_BYTES: usize = 1 << 20;
const GROWN_BYTES: usize = 16 << 10;
/// A stream may begin anew so often within this time.
const SEAMS_MAX: u32 = 20;
const SEAMS_WITHIN: Duration = Duration::from_secs(10);

/// Why a connection is over.
#[derive(Debug, Error)]
pub(super) enum Closed {
    /// The peer has ended it.
    #[error("the peer has ended the connection")]
    ByPeer,
    /// The system has.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// What it sent, or did not send in time.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// It does not read what it is answered.
    #[error("it does not read its answers")]
    Deaf,
    /// Plain bytes where TLS is expected.
    #[error("it does not speak TLS, which this listener expects (rtmps://)")]
    NotTls,
    /// It was told why it is refused.
    #[error("it was refused")]
    Refused,
    /// The server ends, or gives its listeners up.
    #[error("the server ends")]
    Ending,
}

/// What a connection is lent for its turn.
pub(super) struct Context<'a> {
    pub(super) server: &'a Arc<dyn Entrance>,
    pub(super) board: &'a Board,
    pub(super) scratch: &'a mut [u8],
    pub(super) now: Time,
}

/// A publisher that was let in.
#[derive(Debug)]
struct Publication {
    contribution: Contribution,
    feed: Feed,
    figures: Arc<Figures>,
    /// Of all that it sends, also of what is left out.
    meter: Option<Meter>,
    /// What the messages that were taken since the stream got its bytes may have grown to.
    ungiven: usize,
    /// Seams since a time.
    seams: (u32, Time),
}

impl Publication {
    /// So many bytes have come. Returns why it has to end, if so.
    fn meter(&mut self, count: usize, now: Time) -> Option<Over> {
        let meter = self.meter.as_mut()?;
        (!meter.allow(count, now)).then(|| Over::TooFast { limit_bps: meter.limit_bps() })
    }

    /// The stream begins anew. Returns whether it does so too often: each time all its viewers are told.
    fn has_too_many_seams(&mut self, now: Time) -> bool {
        let (count, since) = &mut self.seams;
        if now.since(*since) >= SEAMS_WITHIN {
            (*count, *since) = (0, now);
        }
        *count += 1;
        *count > SEAMS_MAX
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    wire: Wire,
    peer: SocketAddr,
    protocol: Protocol,
    session: ServerSession,
    outgoing: Outgoing,
    publication: Option<Publication>,
    last_bytes: Time,
    /// When its publication ended; it may publish again for a while.
    unpublished_at: Time,
    /// It was told why it is refused, and ends then at the latest.
    closes_at: Option<Time>,
    /// The peer reads our end behind that.
    has_ended: bool,
}

impl Connection {
    pub(super) fn new(
        id: u64,
        wire: Wire,
        peer: SocketAddr,
        session: ServerSession,
        now: Time,
    ) -> Connection {
        let protocol = if wire.is_secured() { Protocol::Rtmps } else { Protocol::Rtmp };
        Connection {
            id,
            wire,
            peer,
            protocol,
            session,
            outgoing: Outgoing::default(),
            publication: None,
            last_bytes: now,
            unpublished_at: now,
            closes_at: None,
            has_ended: false,
        }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it has not been let in: such connections are bounded.
    pub(super) fn is_waiting(&self) -> bool {
        self.publication.is_none()
    }

    /// Its socket has news. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, context: &mut Context<'_>) -> Result<bool, Closed> {
        self.flush()?;
        for _ in 0..READS_A_TURN {
            let Some(count) = self.wire.read(context.scratch)? else { return Ok(false) };
            if self.wire.is_mistaken() {
                return Err(Closed::NotTls);
            }
            if count == 0 {
                return Err(Closed::ByPeer);
            }
            self.last_bytes = context.now;
            let too_fast =
                self.publication.as_mut().and_then(|publication| publication.meter(count, context.now));
            if let Some(over) = too_fast.filter(|_| self.closes_at.is_none()) {
                self.session.refuse(Refusal::Failed, &over.to_string());
                self.outgoing.push(self.session.take_output());
                self.linger_if(Err(Closed::Refused), context)?;
            }
            if self.closes_at.is_none() {
                let (scratch, taken) = (std::mem::take(&mut context.scratch), count);
                let handled = self.handle_bytes(&scratch[..taken], context);
                context.scratch = scratch;
                // What is answered may say why the connection ends.
                self.outgoing.push(self.session.take_output());
                self.linger_if(handled, context)?;
                self.flush()?;
            }
        }
        Ok(true)
    }

    /// A client that was told why it is refused gets the time to read that.
    fn linger_if(&mut self, handled: Result<(), Closed>, context: &Context<'_>) -> Result<(), Closed> {
        let (Ok(()) | Err(Closed::Refused | Closed::Session(SessionError::Refused(_)))) = handled else {
            return handled;
        };
        if handled.is_err() {
            self.unpublish(context.board, "was ended");
            self.closes_at = Some(context.now + LINGER);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Closed> {
        self.wire.flush()?;
        let is_sent = !self.wire.is_handshaking() && self.outgoing.flush(&mut self.wire)?;
        if is_sent && self.closes_at.is_some() && !std::mem::replace(&mut self.has_ended, true) {
            self.wire.take_leave();
            self.wire.flush()?;
            self.wire.end()?;
        }
        if self.outgoing.len() > ANSWERS_MAX_BYTES { Err(Closed::Deaf) } else { Ok(()) }
    }

    fn handle_bytes(&mut self, mut bytes: &[u8], context: &mut Context<'_>) -> Result<(), Closed> {
        let mut handled = Ok(());
        while handled.is_ok() {
            match self.session.push(&mut bytes) {
                Ok(None) => break,
                Ok(Some(event)) => handled = self.handle(event, context),
                Err(error) => {
                    if matches!(error, SessionError::Refused(_)) {
                        count(&context.board.counters.refused);
                        tracing::warn!(peer = %self.peer, protocol = %self.protocol, "publisher refused: {error}");
                    }
                    handled = Err(error.into());
                }
            }
        }
        // What has come is whole as far as it has: viewers get it now.
        let given = self.give(context.now);
        if handled.is_err() { handled } else { given }
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Result<(), Closed> {
        match event {
            Event::Publish(publish) => self.publish(&publish, context),
            Event::Metadata(metadata) => {
                if let Some(publication) = &mut self.publication {
                    publication.feed.push_metadata(&metadata, context.now);
                    let (stream, encoder) = (publication.contribution.name(), metadata.encoder);
                    tracing::debug!(%stream, ?encoder, "RTMP: metadata");
                }
                Ok(())
            }
            Event::Media(media) => {
                let Some(publication) = &mut self.publication else { return Ok(()) };
                let pushed = publication.feed.push(&media, context.now);
                // Parameter sets go in front of key frames, however small those are.
                publication.ungiven += media.payload.len() + GROWN_BYTES;
                let is_much = publication.ungiven > UNGIVEN_MAX_BYTES;
                pushed.or_else(|uncarried| self.refuse_codec(&uncarried, context))?;
                if is_much { self.give(context.now) } else { Ok(()) }
            }
            Event::Unpublish => {
                let given = self.finish();
                self.unpublished_at = context.now;
                self.unpublish(context.board, "ended");
                given
            }
        }
    }

    fn publish(&mut self, publish: &Publish, context: &mut Context<'_>) -> Result<(), Closed> {
        let Some(target) = Target::of(publish) else {
            let words = "a stream's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot";
            return self.refuse(Refusal::BadName, words, context);
        };
        let program = Some(publish.agent.as_str()).filter(|agent| !agent.is_empty());
        let key_in_address = target.key.as_deref().map(Into::into);
        let credential = Credential { key_in_address, ..Credential::default() };
        let client = Client { peer: self.peer, protocol: self.protocol, credential, program };
        match Contribution::enter(context.server, &client, &target.name, target.take_over) {
            Ok(contribution) => {
                let figures = Arc::<Figures>::default();
                let protocol = if self.protocol == Protocol::Rtmps { "rtmps" } else { "rtmp" };
                let (address, began) = (self.peer, context.now);
                let entry =
                    Entry { name: target.name, protocol, address, began, figures: Arc::clone(&figures) };
                context.board.enter(self.id, entry);
                let meter = contribution.limits().max_bps.map(|limit| Meter::new(limit, context.now));
                let (feed, seams) = (Feed::default(), (0, context.now));
                let publication = Publication { contribution, feed, figures, meter, ungiven: 0, seams };
                self.publication = Some(publication);
                self.session.accept();
                Ok(())
            }
            Err(refused) => {
                let kind = match refused {
                    Refused::Access(..) => Refusal::Denied,
                    Refused::Slot(_) => Refusal::BadName,
                    _ => Refusal::Failed,
                };
                let advice = match refused {
                    Refused::Slot(AcquireError::Taken { .. }) => "; end it, or publish with NAME?takeover=1",
                    _ => "",
                };
                self.refuse(kind, &format!("{refused}{advice}"), context)
            }
        }
    }

    fn refuse(&mut self, kind: Refusal, words: &str, context: &Context<'_>) -> Result<(), Closed> {
        count(&context.board.counters.refused);
        self.session.refuse(kind, words);
        Err(Closed::Refused)
    }

    fn refuse_codec(&mut self, uncarried: &Uncarried, context: &Context<'_>) -> Result<(), Closed> {
        if let Some(publication) = &self.publication {
            let (peer, stream) = (&self.peer, publication.contribution.name());
            tracing::warn!(%peer, %stream, "publisher refused: {uncarried}");
        }
        self.unpublish(context.board, "was refused");
        self.refuse(Refusal::Failed, &uncarried.to_string(), context)
    }

    /// Gives the stream what is ready.
    fn give(&mut self, now: Time) -> Result<(), Closed> {
        let abandoned = self.session.counters().abandoned;
        let Some(publication) = &mut self.publication else { return Ok(()) };
        publication.ungiven = 0;
        let (mut over, mut has_too_many_seams) = (None, false);
        while let Some(written) = publication.feed.poll() {
            match written {
                Written::Seam => {
                    has_too_many_seams |= publication.has_too_many_seams(now);
                    publication.contribution.begin_anew();
                }
                Written::Bytes(bytes) => over = over.or(publication.contribution.push(&bytes).err()),
            }
            if over.is_some() || has_too_many_seams {
                break;
            }
        }
        let Publication { contribution, feed, figures, .. } = publication;
        let (tags, units) = feed.counters();
        figures.bytes.store(contribution.bytes(), Relaxed);
        figures.damaged.store(tags.damaged_tags + abandoned, Relaxed);
        let dropped = tags.unconfigured + tags.left_out + units.stale_units + units.undeclared_units;
        figures.dropped.store(dropped, Relaxed);
        figures.moved.store(units.moved_units, Relaxed);
        figures.seams.store(units.seams, Relaxed);
        if has_too_many_seams {
            let words = "its tracks or their times change too often for viewers to follow";
            self.session.refuse(Refusal::Failed, words);
            return Err(Closed::Refused);
        }
        let Some(over) = over else { return Ok(()) };
        let kind = if matches!(over, Over::Evicted) { Refusal::BadName } else { Refusal::Failed };
        self.session.refuse(kind, &over.to_string());
        Err(Closed::Refused)
    }

    /// What waits goes out, since nothing more comes.
    fn finish(&mut self) -> Result<(), Closed> {
        if let Some(publication) = &mut self.publication {
            publication.feed.finish();
        }
        self.give(self.last_bytes)
    }

    fn unpublish(&mut self, board: &Board, how: &'static str) {
        if let Some(publication) = self.publication.take() {
            board.leave(self.id);
            publication.contribution.leave(how);
        }
    }

    /// When [`Connection::handle_timeout`] wants to be called.
    pub(super) fn poll_timeout(&self) -> Time {
        if let Some(at) = self.closes_at {
            return at;
        }
        let publication = self.publication.as_ref();
        let silent_at = publication
            .map(|publication| self.last_bytes + publication.contribution.limits().silence_timeout);
        let feed = publication.and_then(|publication| publication.feed.poll_timeout());
        // One that published and may publish again has the time of a publisher for that.
        let idle_at = (publication.is_none() && self.session.poll_timeout().is_none())
            .then(|| self.unpublished_at + glassline_transport::rtmp::server::PUBLISH_TIMEOUT);
        let all = [silent_at, feed, idle_at, self.session.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) -> Result<(), Closed> {
        let now = context.now;
        if let Some(at) = self.closes_at {
            return if now >= at { Err(Closed::Refused) } else { Ok(()) };
        }
        let handled = self.session.handle_timeout(now).map_err(Closed::from).and_then(|()| {
            let Some(publication) = &mut self.publication else {
                let is_idle = self.session.poll_timeout().is_none()
                    && now >= self.unpublished_at + glassline_transport::rtmp::server::PUBLISH_TIMEOUT;
                return if is_idle { Err(SessionError::NoPublisher.into()) } else { Ok(()) };
            };
            if now >= self.last_bytes + publication.contribution.limits().silence_timeout {
                count(&context.board.counters.timed_out);
                self.unpublish(context.board, "fell silent");
                self.session.refuse(Refusal::Failed, "nothing came for too long; the name was given up");
                return Err(Closed::Refused);
            }
            publication.feed.handle_timeout(now);
            self.give(now)
        });
        if matches!(handled, Err(Closed::Session(_))) {
            count(&context.board.counters.timed_out);
        }
        self.outgoing.push(self.session.take_output());
        self.linger_if(handled, context)?;
        self.flush()
    }

    /// It is over: its publisher, if it has one, gives its name up.
    pub(super) fn close(mut self, why: &Closed, board: &Board) {
        let (peer, protocol) = (self.peer, self.protocol);
        let has_timed_out =
            matches!(why, Closed::Session(SessionError::NoHandshake | SessionError::NoPublisher));
        if matches!(why, Closed::Session(_) | Closed::NotTls | Closed::Deaf) && !has_timed_out {
            count(&board.counters.broken);
        }
        match why {
            // Strangers try every port: one that does not even shake hands is no news.
            Closed::Session(error) if !self.session.is_handshaking() => {
                tracing::info!(%peer, %protocol, "RTMP connection ended: {error}");
            }
            _ => tracing::debug!(%peer, %protocol, "RTMP connection ended: {why}"),
        }
        let _ = self.finish();
        let how = match why {
            Closed::ByPeer | Closed::Refused => "ended",
            _ => "broke off",
        };
        self.unpublish(board, how);
        self.wire.take_leave();
        let _ = self.flush();
    }
}
