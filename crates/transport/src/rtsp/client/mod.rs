//! A client's session: it plays the first track of pictures and the first of sound that a server has.
//!
//! ```text
//! Connecting ─► OPTIONS ─► DESCRIBE ─► SETUP, SETUP ─► PLAY ─► Playing ─► Over
//!     ▲                       │ redirect   │ refuses UDP  │ no packet over UDP
//!     └───────────────────────┴────────────┴──────────────┘ anew, to another server or over TCP
//! ```
//! Packets are asked for in datagrams first, and on the connection where the server refuses that, or where none comes: firewalls and
//! routers let connections through. One request is under way at a time, since small servers answer no second one.

mod error;
#[cfg(test)]
mod habits_tests;
mod responses;
#[cfg(test)]
mod tests;

pub use super::tracks::PlayedTrack;
pub use error::ClientError;

use super::auth::{Answerer, Credentials};
use super::message::{Incoming, Parser, Request, Response, write_interleaved};
use super::transport::{Lower, Transport};
use super::uri::{Base, Uri};
use crate::rtp::coded::Placed;
use crate::rtp::rtcp;
use crate::rtp::session::receiver::Receiver;
use crate::rtp::source::Origin;
use crate::rtp::{self, Packet};
use crate::splitmix;
use glassline_media::{Time, Utc};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a response, or a connection, is waited for.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// After so much time without a packet in datagrams they are asked for on the connection.
const UDP_TIME: Duration = Duration::from_secs(3);
/// The time after which a server forgets a session that shows no life, where it does not say it (RFC 2326 §12.37).
const SESSION_TIME: Duration = Duration::from_secs(60);
/// Times that a server may lead elsewhere.
const REDIRECTS_MAX: u8 = 5;
/// A goodbye that no packet follows for so long is meant: some cameras say it with every report.
const GOODBYE_TIME: Duration = Duration::from_secs(1);
/// What requests call us.
const PROGRAM: &str = "Glassline";

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// What is asked for.
    pub server: Uri,
    /// What is shown where the server asks for it.
    pub credentials: Option<Credentials>,
    /// How packets are asked for; `None`: in datagrams, then on the connection.
    pub lower: Option<Lower>,
    /// After this time without a packet the session is over.
    pub silence_timeout: Duration,
    /// How long packets are waited for that come out of order.
    pub reorder: rtp::Settings,
    /// Randomness, for numbers that others should not guess: nonces and the SSRC of reports.
    pub random: u64,
}

/// What the session wants to have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A connection to that server, in place of any other; [`ClientSession::handle_connected`] is told of it.
    Connect(Uri),
    /// These bytes are sent on the connection.
    Send(Vec<u8>),
    /// Two ports for datagrams, an even one and the next; [`ClientSession::handle_ports`] is told of them.
    OpenPorts {
        /// The track that they are for.
        track: usize,
    },
    /// This datagram is sent to the server, from the first or second port of a track.
    Datagram {
        /// The track.
        track: usize,
        /// From the second port.
        is_rtcp: bool,
        /// Where it goes.
        to: SocketAddr,
        /// What is in it.
        data: Vec<u8>,
    },
    /// Connection and ports are closed.
    Close,
}

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It does not play yet.
    Connecting,
    /// It plays, since that time.
    Playing(Time),
    /// It is over.
    Over(ClientError),
}

/// A request, and what its response leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Options,
    Describe,
    Setup(usize),
    Play { with_range: bool },
    KeepAlive(&'static str),
}

impl Step {
    const fn method(self) -> &'static str {
        match self {
            Step::Options => "OPTIONS",
            Step::Describe => "DESCRIBE",
            Step::Setup(_) => "SETUP",
            Step::Play { .. } => "PLAY",
            Step::KeepAlive(method) => method,
        }
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    step: Step,
    sequence: u32,
    /// Times that it was sent with new credentials.
    answers: u8,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ClientSession {
    settings: ClientSettings,
    server: Uri,
    /// The address of the connection's other end.
    peer: Option<IpAddr>,
    lower: Lower,
    phase: Phase,
    parser: Parser,
    outputs: VecDeque<Output>,
    sequence: u32,
    asked: Option<Asked>,
    /// The number of a keep-alive that was not answered in time.
    unanswered: Option<u32>,
    /// When the response, the connection or the ports are waited for no longer.
    deadline: Time,
    answerer: Option<Answerer>,
    credentials: Option<Credentials>,
    random: u64,
    /// The methods that the server lists.
    public: Vec<String>,
    session: Option<String>,
    session_time: Duration,
    /// The address of the whole session.
    control: String,
    tracks: Vec<PlayedTrack>,
    left_out: Vec<String>,
    ports: Option<(u16, u16)>,
    receiver: Option<Receiver>,
    next_keep_alive: Time,
    redirects: u8,
    /// The description, as it came.
    described: Vec<u8>,
    /// Times that the server has sent another one.
    announced: u8,
    stray: u64,
}

impl ClientSession {
    /// A session that begins at `now`.
    pub fn new(settings: ClientSettings, now: Time) -> ClientSession {
        let mut session = ClientSession {
            server: settings.server.clone(),
            peer: None,
            lower: settings.lower.unwrap_or(Lower::Udp),
            phase: Phase::Connecting,
            parser: Parser::default(),
            outputs: VecDeque::new(),
            sequence: 0,
            asked: None,
            unanswered: None,
            deadline: Time::NEVER,
            answerer: None,
            credentials: settings.credentials.clone(),
            random: settings.random,
            public: Vec::new(),
            session: None,
            session_time: SESSION_TIME,
            control: String::new(),
            tracks: Vec::new(),
            left_out: Vec::new(),
            ports: None,
            receiver: None,
            next_keep_alive: Time::NEVER,
            redirects: 0,
            described: Vec::new(),
            announced: 0,
            stray: 0,
            settings,
        };
        session.connect(now);
        session
    }

    /// Begins anew, with what is known of the server.
    fn connect(&mut self, now: Time) {
        (self.parser, self.asked, self.unanswered, self.session) = (Parser::default(), None, None, None);
        (self.tracks, self.left_out, self.receiver, self.peer) = (Vec::new(), Vec::new(), None, None);
        (self.phase, self.next_keep_alive, self.ports) = (Phase::Connecting, Time::NEVER, None);
        (self.session_time, self.stray) = (SESSION_TIME, 0);
        self.deadline = now + ANSWER_TIME;
        self.outputs.push_back(Output::Connect(self.server.clone()));
    }

    /// What has to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Where it stands.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The tracks that are played, in the order of [`ClientSession::poll_unit`]'s numbers.
    pub fn tracks(&self) -> &[PlayedTrack] {
        &self.tracks
    }

    /// What of the description is left out, and why, in sentences.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// How packets come now.
    pub fn lower(&self) -> Lower {
        self.lower
    }

    /// Times that the server led elsewhere.
    pub fn redirects(&self) -> u8 {
        self.redirects
    }

    /// What came of the tracks, once they are played.
    pub fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    /// Packets of the connection that is open that belonged to no track.
    pub fn stray_packets(&self) -> u64 {
        self.stray
    }

    /// The next access unit, with the number of its track.
    pub fn poll_unit(&mut self) -> Option<(usize, Placed)> {
        self.receiver.as_mut()?.poll()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    fn end(&mut self, error: ClientError) {
        if !self.is_over() {
            self.phase = Phase::Over(error);
            (self.asked, self.deadline, self.next_keep_alive) = (None, Time::NEVER, Time::NEVER);
            self.outputs.push_back(Output::Close);
        }
    }

    /// The connection is open, to `peer`.
    pub fn handle_connected(&mut self, peer: IpAddr, now: Time) {
        self.peer = Some(peer.to_canonical());
        self.ask(Step::Options, 0, now);
    }

    /// The connection has ended.
    pub fn handle_end(&mut self) {
        self.end(ClientError::Closed);
    }

    /// The ports of the track that they were asked for.
    pub fn handle_ports(&mut self, track: usize, ports: (u16, u16), now: Time) {
        if !self.is_over() {
            self.ports = Some(ports);
            self.ask(Step::Setup(track), 0, now);
        }
    }

    /// There are no ports: packets are asked for on the connection.
    pub fn handle_no_ports(&mut self, now: Time) {
        if !self.is_over() && !self.fall_back(now) {
            self.end(ClientError::Transport);
        }
    }

    /// Bytes came on the connection when our wall clock said `utc`.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time, utc: Utc) {
        self.parser.push(bytes);
        while !self.is_over() {
            match self.parser.poll() {
                Ok(None) => return,
                Ok(Some(Incoming::Response(response))) => self.handle_response(&response, now),
                Ok(Some(Incoming::Request(request))) => self.handle_request(&request, now),
                Ok(Some(Incoming::Packet { channel, data })) => self.handle_packet(channel, &data, now, utc),
                Err(error) => self.end(error.into()),
            }
        }
    }

    /// A packet came on the connection.
    fn handle_packet(&mut self, channel: u8, data: &[u8], now: Time, utc: Utc) {
        let has = |track: &PlayedTrack| {
            track.way.channels.is_some_and(|(rtp, rtcp)| channel == rtp || channel == rtcp)
        };
        let mut found = self.tracks.iter().enumerate().filter(|(_, track)| has(track)).map(|(at, _)| at);
        let (first, has_more) = (found.next(), found.next().is_some());
        // Some servers give all tracks the same channels.
        let by_type = |at: usize| {
            let kind = Packet::parse(data).ok().map(|packet| packet.header.payload_type);
            let known = self.tracks.iter().position(|track| Some(track.payload_type) == kind);
            known.unwrap_or(at)
        };
        let track = first.map(|at| if has_more { by_type(at) } else { at });
        match (track, &mut self.receiver) {
            (Some(track), Some(receiver)) => {
                receiver.handle_datagram(track, data, Origin::of(None), now, utc);
            }
            _ => self.stray = self.stray.saturating_add(1),
        }
    }

    /// A datagram came to one of a track's ports from `from`, when our wall clock said `utc`.
    pub fn handle_datagram(&mut self, track: usize, data: &[u8], from: SocketAddr, now: Time, utc: Utc) {
        let is_from_server = self.peer.is_some_and(|peer| peer == from.ip().to_canonical());
        match &mut self.receiver {
            Some(receiver) if is_from_server => {
                receiver.handle_datagram(track, data, Origin::of(Some(from)), now, utc);
            }
            _ => self.stray = self.stray.saturating_add(1),
        }
    }

    /// When [`ClientSession::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Time {
        // A keep-alive that is due while an answer is waited for goes out behind that.
        let keep_alive = if self.asked.is_none() { self.next_keep_alive } else { Time::NEVER };
        let mut due = self.deadline.min(keep_alive);
        if let (Phase::Playing(since), Some(receiver)) = (&self.phase, &self.receiver) {
            due = due.min(receiver.poll_timeout()).min(self.silence_deadline(*since, receiver));
        }
        due
    }

    /// When the session has been silent for too long, as far as is known now.
    fn silence_deadline(&self, since: Time, receiver: &Receiver) -> Time {
        match receiver.newest() {
            Some(newest) if receiver.has_ended() => newest + GOODBYE_TIME,
            Some(newest) => newest + self.settings.silence_timeout,
            None if self.may_fall_back() => since + UDP_TIME.min(self.settings.silence_timeout),
            None => since + self.settings.silence_timeout,
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if now >= self.deadline {
            self.deadline = Time::NEVER;
            match self.asked.take() {
                // Cameras that send need not answer: packets are life enough.
                Some(Asked { step: Step::KeepAlive(_), sequence, .. }) => self.unanswered = Some(sequence),
                asked => {
                    let method = asked.map_or("CONNECT", |asked| asked.step.method());
                    return self.end(ClientError::NoAnswer { method, after: ANSWER_TIME });
                }
            }
        }
        let Phase::Playing(since) = self.phase else { return };
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
        self.send_reports(now);
        let Some(receiver) = &self.receiver else { return };
        if now >= self.silence_deadline(since, receiver) {
            let (has_ended, is_empty) = (receiver.has_ended(), receiver.newest().is_none());
            if !(is_empty && self.fall_back(now)) {
                let silent = ClientError::Silent(self.settings.silence_timeout);
                self.end(if has_ended { ClientError::Ended } else { silent });
            }
            return;
        }
        if now >= self.next_keep_alive {
            self.next_keep_alive = now + self.keep_alive_time();
            // Where the one before is not answered yet, the next one is soon enough.
            if self.asked.is_some() {
                return;
            }
            self.ask(Step::KeepAlive(self.keep_alive_method()), 0, now);
        }
    }

    fn send_reports(&mut self, now: Time) {
        let Some(receiver) = &mut self.receiver else { return };
        for (track, data) in receiver.poll_reports(now) {
            let Some(played) = self.tracks.get(track) else { continue };
            match (played.way.channels, played.way.server_ports) {
                (Some((_, channel)), _) => {
                    self.outputs.extend(write_interleaved(channel, &data).map(Output::Send));
                }
                (None, Some((_, port))) => {
                    if let Some(ip) = self.peer {
                        let to = SocketAddr::new(ip, port);
                        self.outputs.push_back(Output::Datagram { track, is_rtcp: true, to, data });
                    }
                }
                (None, None) => {}
            }
        }
    }

    /// From one keep-alive to the next.
    fn keep_alive_time(&self) -> Duration {
        self.session_time.checked_div(2).unwrap_or(self.session_time)
    }

    /// The method of keep-alives: of those that the server lists, what changes nothing.
    fn keep_alive_method(&self) -> &'static str {
        let lists = |method: &str| self.public.iter().any(|known| known.eq_ignore_ascii_case(method));
        match () {
            () if lists("GET_PARAMETER") => "GET_PARAMETER",
            () if self.public.is_empty() || lists("OPTIONS") => "OPTIONS",
            () if lists("SET_PARAMETER") => "SET_PARAMETER",
            () => "OPTIONS",
        }
    }

    fn may_fall_back(&self) -> bool {
        self.lower == Lower::Udp && self.settings.lower.is_none()
    }

    /// Begins anew with packets on the connection, where that may be.
    fn fall_back(&mut self, now: Time) -> bool {
        if !self.may_fall_back() {
            return false;
        }
        self.lower = Lower::Tcp;
        self.say_goodbye();
        self.outputs.push_back(Output::Close);
        self.connect(now);
        true
    }

    /// The session is not wanted any more: the server is told, and all is closed.
    pub fn tear_down(&mut self) {
        self.say_goodbye();
        self.end(ClientError::Closed);
    }

    fn say_goodbye(&mut self) {
        if self.session.is_some() && !self.is_over() {
            let request = self.request("TEARDOWN", &self.control.clone());
            self.outputs.push_back(Output::Send(request.write()));
        }
    }

    /// A request with what all have.
    fn request(&mut self, method: &'static str, uri: &str) -> Request {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Request::new(method, uri);
        request.headers.push("CSeq", self.sequence.to_string());
        request.headers.push("User-Agent", PROGRAM);
        if let Some(session) = &self.session {
            request.headers.push("Session", session.as_str());
        }
        let random = self.next_random();
        if let Some(answerer) = &mut self.answerer {
            request.headers.push("Authorization", answerer.answer(method, uri, random));
        }
        request
    }

    /// The next of a row of numbers that begins with the settings' randomness (splitmix64).
    fn next_random(&mut self) -> u64 {
        splitmix::next(&mut self.random)
    }

    /// Sends a request.
    fn ask(&mut self, step: Step, answers: u8, now: Time) {
        let uri = match step {
            Step::Options | Step::Describe => self.server.text(),
            Step::Setup(track) => self.tracks.get(track).map(|track| track.uri.clone()).unwrap_or_default(),
            Step::Play { .. } | Step::KeepAlive(_) => self.control.clone(),
        };
        let mut request = self.request(step.method(), &uri);
        match step {
            Step::Describe => request.headers.push("Accept", "application/sdp"),
            Step::Setup(track) => request.headers.push("Transport", self.wanted_transport(track).to_string()),
            Step::Play { with_range: true } => request.headers.push("Range", "npt=0.000-"),
            _ => {}
        }
        self.asked = Some(Asked { step, sequence: self.sequence, answers });
        let answer_time = match step {
            // A camera that does not answer one gets the next all the same, before it forgets the session.
            Step::KeepAlive(_) => ANSWER_TIME.min(self.keep_alive_time()),
            _ => ANSWER_TIME,
        };
        self.deadline = now + answer_time;
        self.outputs.push_back(Output::Send(request.write()));
    }

    fn wanted_transport(&self, track: usize) -> Transport {
        let first = u8::try_from(track.saturating_mul(2)).unwrap_or(0);
        match self.lower {
            Lower::Tcp => {
                let channels = Some((first, first.saturating_add(1)));
                Transport { is_tcp: true, channels, ..Transport::default() }
            }
            Lower::Udp => Transport { client_ports: self.ports, ..Transport::default() },
        }
    }
}
