//! A connection at the door, from its first byte to its last.

mod entering;

use super::status::{Board, Figures, count};
use super::viewer::{Look, Viewer};
use crate::entrance::{Contribution, Entrance};
use crate::outgoing::Outgoing;
use crate::rtp_ports;
use crate::tracks::Tracks;
use crate::wire::Wire;
use entering::Wait;
use glassline_delivery::assemble::Written;
use glassline_delivery::policy::Protocol;
use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{Inbox, Receiver};
use glassline_media::{Time, Utc};
use glassline_transport::rtsp::server::{Output, Role, ServerSession};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;
use thiserror::Error;

/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 8;
/// With so many bytes that wait for the peer, a viewer's stream is not read on: it falls behind there, and is moved forward.
const OUTGOING_MAX_BYTES: usize = 1 << 20;
/// With so many, a peer does not read what it is answered: nothing more of it is read, and one that neither publishes nor plays is ended.
const ANSWERS_MAX_BYTES: usize = 64 << 10;
/// With so many, a viewer does not read what it is sent.
const DEAF_BYTES: usize = 16 << 20;
/// How long a peer may take nothing of what waits for it.
const DEAF_TIME: Duration = Duration::from_secs(20);
/// How long a viewer that ends may take to read what was sent.
const LINGER: Duration = Duration::from_secs(2);

/// Why a connection is over.
#[derive(Debug, Error)]
pub(super) enum Closed {
    /// The peer has ended it.
    #[error("the peer has ended the connection")]
    ByPeer,
    /// The system has.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// The session is over.
    #[error("{0}")]
    Session(String),
    /// It does not read what it is sent.
    #[error("it does not read what it is sent")]
    Deaf,
    /// Plain bytes where TLS is expected.
    #[error("it does not speak TLS, which this listener expects (rtsps://)")]
    NotTls,
    /// A publisher sends nothing.
    #[error("nothing came for too long")]
    Silent,
    /// A publisher has to end.
    #[error("{0}")]
    Over(String),
    /// It has made room for another, before it published or played.
    #[error("it has neither published nor played, and made room for another")]
    CrowdedOut,
    /// The server ends.
    #[error("the server ends")]
    Ending,
}

/// What a connection is lent for its turn.
pub(super) struct Context<'a> {
    pub(super) server: &'a Arc<dyn Entrance>,
    pub(super) board: &'a Board,
    pub(super) poller: &'a Poller,
    pub(super) scratch: &'a mut [u8],
    pub(super) inbox: &'a mut Inbox,
    pub(super) waker: Waker,
    pub(super) now: Time,
}

impl Context<'_> {
    fn utc(&self) -> Utc {
        self.server.clock().utc()
    }
}

/// Ports of a track, and those of the client.
#[derive(Debug)]
struct Ports {
    rtp: Receiver,
    rtcp: Receiver,
    client: (u16, u16),
}

/// What the client does.
#[derive(Debug)]
enum Side {
    Nothing,
    /// The stream that it would watch is being fetched.
    Waits(Box<Wait>),
    Publishes(Box<Publication>),
    Watches(Box<Viewer>),
}

/// A publisher that was let in.
#[derive(Debug)]
struct Publication {
    contribution: Contribution,
    /// From RECORD on.
    tracks: Option<Tracks>,
    began: Time,
}

#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    wire: Wire,
    peer: SocketAddr,
    protocol: Protocol,
    session: ServerSession,
    outgoing: Outgoing,
    ports: Vec<Option<Ports>>,
    side: Side,
    figures: Arc<Figures>,
    /// When the peer last took something of what waits.
    taken: Time,
    closes_at: Option<Time>,
}

impl Connection {
    pub(super) fn new(
        id: u64,
        wire: Wire,
        peer: SocketAddr,
        session: ServerSession,
        now: Time,
    ) -> Connection {
        let protocol = if wire.is_secured() { Protocol::Rtsps } else { Protocol::Rtsp };
        Connection {
            id,
            wire,
            peer,
            protocol,
            session,
            outgoing: Outgoing::default(),
            ports: Vec::new(),
            side: Side::Nothing,
            figures: Arc::default(),
            taken: now,
            closes_at: None,
        }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it neither publishes nor plays: such connections are bounded, since anybody may have a stream described.
    pub(super) fn is_waiting(&self) -> bool {
        !self.session.is_running()
    }

    /// Its sockets or its stream have news. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, context: &mut Context<'_>) -> Result<bool, Closed> {
        self.flush(context.now)?;
        let mut more = false;
        for _ in 0..READS_A_TURN {
            let connection = self.read_connection(context)?;
            let ports = self.read_ports(context);
            self.settle(context)?;
            more = connection || ports;
            if !more {
                break;
            }
        }
        let stream = self.read_stream(context)?;
        self.settle(context)?;
        let (was_choked, was_full) = (self.is_choked(), !self.takes_stream());
        self.flush(context.now)?;
        // Where all is written, the socket has nothing to tell.
        let has_room = (was_choked && !self.is_choked()) || (was_full && self.takes_stream());
        Ok(more || stream || has_room || self.wants_turn())
    }

    /// Whether there is something to do that no socket tells of.
    fn wants_turn(&self) -> bool {
        let is_fresh = matches!(&self.side, Side::Watches(viewer) if viewer.is_fresh());
        (is_fresh && self.takes_stream()) || (self.session.has_more() && !self.is_choked())
    }

    /// Whether there is room for more of a stream that is watched.
    fn takes_stream(&self) -> bool {
        self.outgoing.len() <= OUTGOING_MAX_BYTES && self.closes_at.is_none()
    }

    /// Whether so much waits for the peer that nothing more of it is read.
    fn is_choked(&self) -> bool {
        let has_played = matches!(self.side, Side::Watches(_)) && self.session.has_begun();
        self.outgoing.len() > if has_played { OUTGOING_MAX_BYTES } else { 0 } + ANSWERS_MAX_BYTES
    }

    fn read_connection(&mut self, context: &mut Context<'_>) -> Result<bool, Closed> {
        if self.is_choked() {
            self.flush(context.now)?;
            if self.is_choked() {
                // It is read on when the socket has room.
                return if self.session.has_begun() { Ok(false) } else { Err(Closed::Deaf) };
            }
        }
        if self.session.has_more() {
            self.session.resume(context.now, context.utc());
            return Ok(true);
        }
        let Some(count) = self.wire.read(context.scratch)? else { return Ok(false) };
        if self.wire.is_mistaken() {
            return Err(Closed::NotTls);
        }
        if count == 0 {
            return Err(Closed::ByPeer);
        }
        let utc = context.utc();
        if self.closes_at.is_none() {
            self.session.handle_bytes(&context.scratch[..count], context.now, utc);
        }
        Ok(true)
    }

    fn read_ports(&mut self, context: &mut Context<'_>) -> bool {
        let (mut more, utc, peer) = (false, context.utc(), self.peer.ip().to_canonical());
        for (track, ports) in self.ports.iter().enumerate() {
            let Some(ports) = ports else { continue };
            for socket in [&ports.rtp, &ports.rtcp] {
                if socket.receive(context.inbox).is_err() {
                    continue;
                }
                for (sender, datagram) in context.inbox.received() {
                    // Of the peer alone.
                    if let Some(sender) = sender.filter(|sender| sender.ip() == peer) {
                        self.session.handle_datagram(track, datagram, sender, context.now, utc);
                    }
                }
                more |= context.inbox.is_full();
            }
        }
        more
    }

    /// Reads of the stream that is watched as much as the peer takes. Returns whether there is more.
    fn read_stream(&mut self, context: &mut Context<'_>) -> Result<bool, Closed> {
        for _ in 0..READS_A_TURN {
            let takes_stream = self.takes_stream();
            let Side::Watches(viewer) = &mut self.side else { return Ok(false) };
            if !takes_stream || !viewer.may_read(context.now) {
                return Ok(false);
            }
            let look = viewer.read(context.scratch)?;
            if let Some(offered) = viewer.offer(context.now) {
                self.offer(offered, context);
            }
            self.send_units(context);
            match look {
                Look::Pending => return Ok(false),
                Look::More => {}
                Look::Ended => {
                    self.session.end_stream();
                    return Ok(false);
                }
            }
            self.settle(context)?;
        }
        Ok(true)
    }

    fn offer(
        &mut self,
        offered: Vec<glassline_transport::rtp::session::offer::OfferedTrack>,
        context: &Context<'_>,
    ) {
        let utc = context.utc();
        let Side::Watches(viewer) = &self.side else { return };
        if offered.is_empty() {
            let words = "the stream has nothing now that RTSP carries: H.264, H.265, AV1, AAC, Opus, MPEG audio or S302M";
            self.side = Side::Nothing;
            context.board.leave(self.id);
            return self.session.refuse(415, words, context.now, utc);
        }
        let name = viewer.name();
        self.session.describe(&name, offered, context.now, utc);
    }

    fn send_units(&mut self, context: &Context<'_>) {
        let utc = context.utc();
        let Side::Watches(viewer) = &mut self.side else { return };
        while let Some((track, unit, captured)) = viewer.next(utc) {
            self.session.send_unit(track, &unit, captured, context.now);
        }
        self.figures.bytes.store(viewer.bytes(), Relaxed);
    }

    /// Does what the session asks for.
    fn settle(&mut self, context: &mut Context<'_>) -> Result<(), Closed> {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(bytes) => self.outgoing.push(bytes),
                Output::Enter { role, name, query } => self.enter(role, &name, &query, true, context),
                Output::OpenPorts { track, client } => self.open_ports(track, client, context),
                Output::Begin(Role::Watch) => {
                    let in_datagrams = self.session.uses_datagrams();
                    if let Side::Watches(viewer) = &mut self.side
                        && !viewer.play(in_datagrams, context.now)
                    {
                        self.session.end_stream();
                    }
                }
                Output::Halt => {
                    if let Side::Watches(viewer) = &mut self.side {
                        viewer.pause();
                    }
                }
                Output::Begin(Role::Publish) => self.begin(context),
                Output::Datagram { track, is_rtcp, data } => self.send_datagram(track, is_rtcp, &data),
            }
        }
        self.give(context)?;
        if let Some(over) = self.session.over()
            && self.closes_at.is_none()
        {
            let why = over.to_string();
            self.closes_at = Some(context.now + LINGER);
            self.flush(context.now)?;
            if self.outgoing.is_empty() {
                return Err(Closed::Session(why));
            }
        }
        Ok(())
    }

    fn open_ports(&mut self, track: usize, client: (u16, u16), context: &Context<'_>) {
        let (now, utc) = (context.now, context.utc());
        let ours = self.wire.tcp().local_address().ok();
        let opened = ours.and_then(|ours| rtp_ports::open(ours.ip()).ok()).and_then(|(rtp, rtcp)| {
            context.poller.add(&rtp, self.id, Watch::Edges).ok()?;
            context.poller.add(&rtcp, self.id, Watch::Edges).ok()?;
            let numbers = (rtp.local_address().ok()?.port(), rtcp.local_address().ok()?.port());
            Some((Ports { rtp, rtcp, client }, numbers))
        });
        let Some((ports, numbers)) = opened else { return self.session.handle_no_ports(now, utc) };
        if self.ports.len() <= track {
            self.ports.resize_with(track + 1, || None);
        }
        self.ports[track] = Some(ports);
        self.session.handle_ports(numbers, now, utc);
    }

    fn send_datagram(&self, track: usize, is_rtcp: bool, data: &[u8]) {
        let Some(Some(ports)) = self.ports.get(track) else { return };
        let peer: IpAddr = self.peer.ip().to_canonical();
        let (socket, port) =
            if is_rtcp { (&ports.rtcp, ports.client.1) } else { (&ports.rtp, ports.client.0) };
        // One that is lost is no matter, and neither is one that no way leads for.
        if !socket.send_to(data, SocketAddr::new(peer, port)).unwrap_or(false) {
            count(&self.figures.unsent);
        }
    }

    /// A publisher sends from now on.
    fn begin(&mut self, context: &Context<'_>) {
        let Side::Publishes(publication) = &mut self.side else { return };
        let Publication { contribution, tracks, began } = &mut **publication;
        let formats = self.session.tracks().iter().map(|track| &track.format);
        let (made, left_out) = Tracks::new(formats, context.now);
        if let Some(words) = left_out {
            tracing::warn!(peer = %self.peer, stream = %contribution.name(), "a track is left out: {words}");
        }
        (*tracks, *began) = (Some(made), context.now);
        for sentence in self.session.left_out() {
            tracing::warn!(peer = %self.peer, stream = %contribution.name(), "{sentence}");
        }
    }

    /// Gives the stream what has come.
    fn give(&mut self, context: &Context<'_>) -> Result<(), Closed> {
        let Side::Publishes(publication) = &mut self.side else { return Ok(()) };
        let Publication { contribution, tracks: Some(tracks), .. } = &mut **publication else {
            return Ok(());
        };
        while let Some((track, placed)) = self.session.poll_unit() {
            tracks.push(track, placed, context.now);
        }
        while let Some(written) = tracks.poll() {
            match written {
                Written::Seam => contribution.begin_anew(),
                Written::Bytes(bytes) => {
                    contribution.push(&bytes).map_err(|over| Closed::Over(over.to_string()))?;
                }
            }
        }
        self.figures.bytes.store(contribution.bytes(), Relaxed);
        let counters = self.session.receiver().into_iter().flat_map(|receiver| receiver.counters());
        let (mut lost, mut damaged) = (0, 0);
        for track in counters {
            lost += track.packets.lost;
            damaged += track.damaged;
        }
        self.figures.lost.store(lost, Relaxed);
        self.figures.damaged.store(damaged, Relaxed);
        Ok(())
    }

    /// Writes what fits.
    fn flush(&mut self, now: Time) -> Result<(), Closed> {
        self.wire.flush()?;
        let before = self.outgoing.len();
        if !self.wire.is_handshaking() {
            self.outgoing.flush(&mut self.wire)?;
        }
        if self.outgoing.len() < before || before == 0 {
            self.taken = now;
        }
        if self.outgoing.len() > DEAF_BYTES { Err(Closed::Deaf) } else { Ok(()) }
    }

    /// When a publisher that sends nothing has to end.
    fn silent_at(&self) -> Option<Time> {
        let Side::Publishes(publication) = &self.side else { return None };
        let Publication { contribution, began, .. } = &**publication;
        let newest = self.session.receiver().and_then(|receiver| receiver.newest()).unwrap_or(*began);
        Some(newest.max(*began) + contribution.limits().silence_timeout)
    }

    /// When [`Connection::handle_timeout`] wants to be called.
    pub(super) fn poll_timeout(&self) -> Time {
        let tracks = match &self.side {
            Side::Publishes(publication) => publication.tracks.as_ref().and_then(Tracks::poll_timeout),
            _ => None,
        };
        let offer = match &self.side {
            // Otherwise it waits for the peer.
            Side::Watches(viewer) if self.takes_stream() => Some(viewer.poll_timeout()),
            _ => None,
        };
        let waits = match &self.side {
            Side::Waits(wait) => Some(wait.look_at()),
            _ => None,
        };
        let deaf = (!self.outgoing.is_empty()).then(|| self.taken + DEAF_TIME);
        let all =
            [tracks, offer, deaf, waits, self.closes_at, self.silent_at(), Some(self.session.poll_timeout())];
        all.into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    /// Does what is due. Returns whether it wants a turn.
    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) -> Result<bool, Closed> {
        let now = context.now;
        if self.closes_at.is_some_and(|at| now >= at) {
            return Err(Closed::Session("it was ended".to_owned()));
        }
        if !self.outgoing.is_empty() && now.since(self.taken) >= DEAF_TIME {
            return Err(Closed::Deaf);
        }
        if self.silent_at().is_some_and(|at| now >= at) {
            count(&context.board.counters.timed_out);
            return Err(Closed::Silent);
        }
        self.session.handle_timeout(now);
        self.look_for_awaited(context);
        if let Side::Publishes(publication) = &mut self.side
            && let Some(tracks) = &mut publication.tracks
        {
            tracks.handle_timeout(now);
        }
        if let Side::Watches(viewer) = &mut self.side
            && let Some(offered) = viewer.offer(now)
        {
            self.offer(offered, context);
        }
        let stream = self.read_stream(context)?;
        self.settle(context)?;
        self.flush(now)?;
        Ok(stream || self.wants_turn())
    }

    /// It is over: its publisher, if it has one, gives its name up.
    pub(super) fn close(mut self, why: &Closed, board: &Board) {
        let (peer, protocol) = (self.peer, self.protocol);
        tracing::debug!(%peer, %protocol, "RTSP connection ended: {why}");
        if matches!(why, Closed::NotTls | Closed::Deaf) {
            count(&board.counters.broken);
        }
        board.leave(self.id);
        let how = match why {
            Closed::ByPeer | Closed::Session(_) => "ended",
            Closed::Silent => "fell silent",
            Closed::Over(_) => "was ended",
            _ => "broke off",
        };
        if let Side::Publishes(publication) = std::mem::replace(&mut self.side, Side::Nothing) {
            let contribution = publication.contribution;
            if let Closed::Over(words) = why {
                tracing::warn!(%peer, stream = %contribution.name(), "publisher ended: {words}");
            }
            contribution.leave(how);
        }
        self.wire.take_leave();
        let _ = self.flush(Time::ZERO);
    }
}
