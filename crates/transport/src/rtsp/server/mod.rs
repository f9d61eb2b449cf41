//! A server's session: a client on one connection publishes a stream, or plays one.
//!
//! ```text
//! ANNOUNCE ─► Enter(publish) ─► admit ─► SETUP … ─► RECORD ─► Begin: units come out
//! DESCRIBE ─► Enter(watch) ─► describe ─► SETUP … ─► PLAY ─► Begin: units go in ─► PAUSE ─► Halt: none do until PLAY
//! ```
//! A session lives as long as its connection. While a question is with the caller, no further request is read, and so many requests
//! in a row alone: those behind them wait for [`ServerSession::resume`], since answers cost more than questions. Datagrams go to the
//! address of the connection's other end alone, so that no request makes the server send to others.

mod requests;
#[cfg(test)]
mod tests;

use super::auth::Shown;
use super::message::{Incoming, MessageError, Parser, Request, write_interleaved};
use super::tracks::PlayedTrack;
use crate::rtp::session::offer::OfferedTrack;
use crate::rtp::session::receiver::Receiver;
use crate::rtp::session::sender::Sender;
use crate::rtp::source::Origin;
use crate::rtp::{self, rtcp};
use crate::splitmix;
use glassline_media::{AccessUnit, Time, Utc};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// What passwords are asked for.
pub const REALM: &str = "glassline";
/// How long a client may take until it publishes or plays.
const BEGIN_TIME: Duration = Duration::from_secs(30);
/// What a session's header says: a client that plays over UDP shows life more often.
const SESSION_TIME: Duration = Duration::from_secs(60);
/// Bytes that a client may send before its question is answered.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Requests that are answered in a row; then what they led to is done, and the answers are sent.
const REQUESTS_A_TURN: u32 = 16;
/// What is understood.
const METHODS: &str =
    "OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, PAUSE, RECORD, GET_PARAMETER, SET_PARAMETER, TEARDOWN";

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sends a stream.
    Publish,
    /// It gets a stream.
    Watch,
}

/// What the session wants to have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// These bytes are sent on the connection.
    Send(Vec<u8>),
    /// Whether a client may do that: [`ServerSession::admit`], [`ServerSession::describe`] or [`ServerSession::refuse`] answers.
    Enter {
        /// What it wants to do.
        role: Role,
        /// With which stream: what stands behind `/live/`, without the query.
        name: String,
        /// The query; it may hold a key.
        query: String,
    },
    /// Two ports for datagrams; [`ServerSession::handle_ports`] or [`ServerSession::handle_no_ports`] answers.
    OpenPorts {
        /// The track that they are for.
        track: usize,
        /// The client's ports, for RTP and RTCP.
        client: (u16, u16),
    },
    /// The stream begins.
    Begin(Role),
    /// The viewer takes no more units until the stream begins once more.
    Halt,
    /// A datagram to the client's first or second port of a track.
    Datagram {
        /// The track.
        track: usize,
        /// To the second.
        is_rtcp: bool,
        /// What is in it.
        data: Vec<u8>,
    },
}

/// Why a session is over.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Over {
    /// The client has ended it.
    #[error("the client has ended it")]
    Ended,
    /// What comes is no RTSP.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It took too long.
    #[error("neither PLAY nor RECORD within {} s", BEGIN_TIME.as_secs())]
    Idle,
    /// It sends without waiting for answers.
    #[error("it sends more than {WAITING_BYTES_MAX} bytes before it is answered")]
    Flood,
    /// It shows no life.
    #[error("no report and no request within {} s", SESSION_TIME.as_secs())]
    Silent,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// A question is with the caller.
    Asks(Role),
    /// Ports of a track are asked for.
    Opens(usize),
    Ready(Role),
    Running(Role),
}

/// How a track's packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Channels(u8, u8),
    Ports,
}

/// A track, as the client names it.
#[derive(Clone, Debug)]
struct Track {
    control: String,
    /// Its number among those that are carried.
    place: Option<usize>,
    way: Option<Way>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ServerSession {
    parser: Parser,
    state: State,
    over: Option<Over>,
    outputs: VecDeque<Output>,
    random: u64,
    nonce: String,
    id: String,
    /// The request that is answered later.
    request: Option<Request>,
    role: Option<Role>,
    tracks: Vec<Track>,
    played: Vec<PlayedTrack>,
    left_out: Vec<String>,
    receiver: Option<Receiver>,
    offered: Vec<OfferedTrack>,
    sender: Option<Sender>,
    /// Ports of the track that is being set up.
    client_ports: (u16, u16),
    began: Time,
    /// Whether it has published or played.
    has_begun: bool,
    /// Requests that may still be answered before the caller's next word.
    left: u32,
    /// When a request or a report came last.
    alive: Time,
    reorder: rtp::Settings,
}

impl ServerSession {
    /// A session of a connection that was accepted at `now`. `random` is randomness that others should not guess.
    pub fn new(random: u64, reorder: rtp::Settings, now: Time) -> ServerSession {
        let mut session = ServerSession {
            parser: Parser::default(),
            state: State::Idle,
            over: None,
            outputs: VecDeque::new(),
            random,
            nonce: String::new(),
            id: String::new(),
            request: None,
            role: None,
            tracks: Vec::new(),
            played: Vec::new(),
            left_out: Vec::new(),
            receiver: None,
            offered: Vec::new(),
            sender: None,
            client_ports: (0, 0),
            began: now,
            has_begun: false,
            left: REQUESTS_A_TURN,
            alive: now,
            reorder,
        };
        session.nonce = format!("{:016x}{:016x}", session.next_random(), session.next_random());
        session.id = format!("{:016x}", session.next_random());
        session
    }

    fn next_random(&mut self) -> u64 {
        splitmix::next(&mut self.random)
    }

    /// What has to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Why it is over; `None` while it is not. What it still wants to have sent is sent before the connection is closed.
    pub fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// Of a publisher, the tracks that are carried, in the order of [`ServerSession::poll_unit`]'s numbers.
    pub fn tracks(&self) -> &[PlayedTrack] {
        &self.played
    }

    /// What of a publisher's tracks is left out, and why, in sentences.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// A publisher's next unit, with the number of its track.
    pub fn poll_unit(&mut self) -> Option<(usize, rtp::coded::Placed)> {
        self.receiver.as_mut()?.poll()
    }

    /// What came of a publisher.
    pub fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    /// What the client shows with the request that is asked about.
    pub fn shown(&self) -> Option<Shown> {
        self.request.as_ref()?.headers.get("Authorization").and_then(Shown::parse)
    }

    /// Whether what it shows is a digest of this user and key.
    pub fn proves(&self, user: &str, key: &str) -> bool {
        let method = self.request.as_ref().map(|request| request.method.as_str()).unwrap_or_default();
        self.shown().is_some_and(|shown| shown.proves(user, key, REALM, &self.nonce, method))
    }

    /// What the client calls itself.
    pub fn program(&self) -> Option<&str> {
        self.request.as_ref()?.headers.get("User-Agent")
    }

    /// Bytes came on the connection when our wall clock said `utc`.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time, utc: Utc) {
        self.parser.push(bytes);
        self.resume(now, utc);
    }

    /// Whether requests may be held that were not read for the sake of those before them: [`ServerSession::resume`] reads them. More
    /// bytes are better left unread until then.
    pub fn has_more(&self) -> bool {
        self.left == 0 && self.over.is_none() && !matches!(self.state, State::Asks(_) | State::Opens(_))
    }

    /// Reads on where the last turn ended.
    pub fn resume(&mut self, now: Time, utc: Utc) {
        self.left = REQUESTS_A_TURN;
        self.advance(now, utc);
    }

    /// Whether the client publishes or plays now.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether it has published or played, and perhaps pauses now.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Reads on, as far as nothing is waited for.
    fn advance(&mut self, now: Time, utc: Utc) {
        while self.over.is_none() {
            if matches!(self.state, State::Asks(_) | State::Opens(_)) {
                if self.parser.held_bytes() > WAITING_BYTES_MAX {
                    self.over = Some(Over::Flood);
                }
                return;
            }
            if self.left == 0 {
                return;
            }
            match self.parser.poll() {
                Ok(None) => return,
                Ok(Some(Incoming::Request(request))) => {
                    self.alive = now;
                    self.left = self.left.saturating_sub(1);
                    self.handle_request(request, now);
                }
                // Answers to nothing that was asked.
                Ok(Some(Incoming::Response(_))) => {}
                Ok(Some(Incoming::Packet { channel, data })) => {
                    let is_of = |track: &Track| matches!(track.way, Some(Way::Channels(rtp, rtcp)) if channel == rtp || channel == rtcp);
                    if let Some(track) = self.tracks.iter().position(is_of) {
                        self.take(track, &data, None, now, utc);
                    }
                }
                Err(error) => {
                    self.reply(400, "Bad Request", None, |_| {});
                    self.over = Some(error.into());
                }
            }
        }
    }

    /// A datagram came to one of a track's ports, from the address of the connection's other end.
    pub fn handle_datagram(&mut self, track: usize, data: &[u8], from: SocketAddr, now: Time, utc: Utc) {
        self.take(track, data, Some(from), now, utc);
    }

    fn take(&mut self, track: usize, data: &[u8], from: Option<SocketAddr>, now: Time, utc: Utc) {
        if rtcp::is_rtcp(data) {
            self.alive = now;
        }
        if self.state == State::Running(Role::Publish)
            && let Some(place) = self.tracks.get(track).and_then(|track| track.place)
            && let Some(receiver) = &mut self.receiver
        {
            receiver.handle_datagram(place, data, Origin::of(from), now, utc);
        }
    }

    /// When [`ServerSession::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        match (&self.over, self.state) {
            (Some(_), _) => Time::NEVER,
            (None, State::Running(Role::Publish)) => {
                self.receiver.as_ref().map_or(Time::NEVER, Receiver::poll_timeout)
            }
            (None, State::Running(Role::Watch)) if self.uses_datagrams() => self.alive + SESSION_TIME,
            (None, State::Running(Role::Watch)) => Time::NEVER,
            (None, _) if self.has_begun => self.alive + SESSION_TIME,
            (None, _) => self.began + BEGIN_TIME,
        }
    }

    /// Whether a track travels in datagrams.
    pub fn uses_datagrams(&self) -> bool {
        self.tracks.iter().any(|track| track.way == Some(Way::Ports))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.over.is_some() {
            return;
        }
        match self.state {
            State::Running(Role::Publish) => self.report(now),
            State::Running(Role::Watch) if self.uses_datagrams() && now.since(self.alive) >= SESSION_TIME => {
                self.over = Some(Over::Silent);
            }
            State::Running(Role::Watch) => {}
            // It has paused.
            _ if self.has_begun && now.since(self.alive) >= SESSION_TIME => self.over = Some(Over::Silent),
            _ if !self.has_begun && now.since(self.began) >= BEGIN_TIME => self.over = Some(Over::Idle),
            _ => {}
        }
    }

    fn report(&mut self, now: Time) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.handle_timeout(now);
        for (place, data) in receiver.poll_reports(now) {
            let track = self.tracks.iter().position(|track| track.place == Some(place));
            if let Some(track) = track {
                self.put(track, true, data);
            }
        }
    }

    /// A packet goes to the client.
    fn put(&mut self, number: usize, is_rtcp: bool, data: Vec<u8>) {
        match self.tracks.get(number).and_then(|track| track.way) {
            Some(Way::Channels(rtp, rtcp)) => {
                let channel = if is_rtcp { rtcp } else { rtp };
                self.outputs.extend(write_interleaved(channel, &data).map(Output::Send));
            }
            Some(Way::Ports) => self.outputs.push_back(Output::Datagram { track: number, is_rtcp, data }),
            None => {}
        }
    }

    /// A unit of the stream that the client plays, of offered track `track`; `captured` is when it was captured, or came here.
    pub fn send_unit(&mut self, track: usize, unit: &AccessUnit, captured: Utc, now: Time) {
        if self.state != State::Running(Role::Watch)
            || self.tracks.get(track).is_none_or(|track| track.way.is_none())
        {
            return;
        }
        let mut packets = Vec::new();
        if let Some(sender) = &mut self.sender {
            let mut out = |is_report, packet: &[u8]| packets.push((is_report, packet.to_vec()));
            sender.send(track, unit, captured, now, &mut out);
        }
        for (is_report, packet) in packets {
            self.put(track, is_report, packet);
        }
    }

    /// The stream that the client plays is over: it is told, and so is the session.
    pub fn end_stream(&mut self) {
        let goodbyes: Vec<_> = self.sender.iter().flat_map(Sender::goodbyes).collect();
        for (track, data) in goodbyes {
            self.put(track, true, data);
        }
        self.over.get_or_insert(Over::Ended);
    }
}
