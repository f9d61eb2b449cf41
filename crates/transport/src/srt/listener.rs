//! The end that is called: cookies, requests, and the connections that come of them (§4.3.1).
//!
//! The first packet of a caller is answered with a cookie that is made of its address; nothing is kept of it, and the answer is no
//! longer than the question, so that it is of no use to one that writes another's address into its packets.

use super::connection::{Agreed, Connection, timestamp};
use super::crypto::{KeyError, Keys};
use super::handshake::{
    CONCLUSION, DATAGRAMS, Extensions, Handshake, INDUCTION, INDUCTION_VERSION, Live, MAGIC, Rejection,
    STREAM_ID_MAX, VERSION,
};
use super::packet::{Control, Kind, Packet};
use super::socket_ids::{Resets, SocketIds, reset, wants_reset};
use super::{LATENCY_MAX, Settings};
use crate::subscriber::subscriber;
use glassline_media::Time;
use ring::hmac;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A cookie is good for so long, and as long again.
const COOKIE_TIME: Duration = Duration::from_secs(30);
/// The flow window that is told, in packets, and the size of packets.
const WINDOW: u32 = 8192;
const MTU: u32 = 1500;
/// Keys are unwrapped this often at most, and so many at once.
const UNWRAP_EVERY: Duration = Duration::from_millis(10);
const UNWRAP_BURST: u32 = 50;
/// An address that has shown a wrong passphrase is not heard for so long; so many of them are remembered.
const WRONG_FOR: Duration = Duration::from_millis(500);
const WRONG_MAX: usize = 256;
/// Answers to handshakes that wait to leave, at most.
const ANSWERS_MAX: usize = 256;

/// A caller that has shown its cookie and waits for an answer.
pub struct Request {
    /// Its address.
    pub from: SocketAddr,
    /// What it asks for, as it came.
    pub stream_id: Vec<u8>,
    handshake: Handshake,
    live: Live,
    /// The key-material message.
    message: Option<Vec<u8>>,
    /// The keys in it.
    keys: Option<Keys>,
    stamp: u32,
}

/// Neither the stream id, which may hold a key, nor keys show.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Why a request does not become a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Rejection);

/// What a datagram came to.
#[derive(Debug)]
pub enum Handled {
    /// One of the connections may have news: its socket.
    Connection(u32),
    /// A caller asks for one: [`Listener::accept`] or [`Listener::reject`] has to follow.
    Request(Box<Request>),
    /// A caller was refused, and is told so.
    Refused(SocketAddr, Rejection),
    /// Nothing but, perhaps, an answer.
    Nothing,
}

/// A peer's connection.
#[derive(Debug)]
struct Peer {
    remote: SocketAddr,
    /// The peer's own socket.
    socket: u32,
    connection: Connection,
}

/// A listener with its connections. Pure: one that runs it hands in datagrams and `now`, and sends what it gets.
#[derive(Debug)]
pub struct Listener {
    settings: Settings,
    secret: hmac::Key,
    drawn: u64,
    began: Time,
    max_peers: usize,
    peers: BTreeMap<u32, Peer>,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    refused: u64,
    unwrapping: Unwrapping,
    /// Makes our ids of the peers'; without it they are drawn.
    ids: Option<SocketIds>,
    resets: Resets,
    reset: u64,
}

/// How often keys may be unwrapped, which costs a thousandth of a second: a stranger needs nothing but an address of its own to
/// ask for it.
#[derive(Debug, Default)]
struct Unwrapping {
    /// How many more may be at `at`.
    left: u32,
    at: Time,
    /// Addresses that have shown a wrong passphrase, and when.
    wrong: VecDeque<(IpAddr, Time)>,
}

impl Unwrapping {
    /// Whether one more may be for this address.
    fn allow(&mut self, address: IpAddr, now: Time) -> bool {
        let grown = now.since(self.at).as_millis() / UNWRAP_EVERY.as_millis();
        if grown > 0 {
            let grown = u32::try_from(grown).unwrap_or(u32::MAX);
            (self.left, self.at) = (self.left.saturating_add(grown).min(UNWRAP_BURST), now);
        }
        while self.wrong.front().is_some_and(|(_, since)| now.since(*since) >= WRONG_FOR) {
            self.wrong.pop_front();
        }
        let address = subscriber(address);
        if self.left == 0 || self.wrong.iter().any(|(wrong, _)| *wrong == address) {
            return false;
        }
        self.left -= 1;
        true
    }

    fn fail(&mut self, address: IpAddr, now: Time) {
        if self.wrong.len() >= WRONG_MAX {
            self.wrong.pop_front();
        }
        self.wrong.push_back((subscriber(address), now));
    }
}

impl Listener {
    /// A listener that has `max_peers` connections at most. `seed` is random, and no two listeners have the same.
    pub fn new(settings: Settings, max_peers: usize, seed: [u8; 32], now: Time) -> Listener {
        Listener {
            settings,
            secret: hmac::Key::new(hmac::HMAC_SHA256, &seed),
            drawn: 0,
            began: now,
            max_peers,
            peers: BTreeMap::new(),
            answers: VecDeque::new(),
            refused: 0,
            unwrapping: Unwrapping { left: UNWRAP_BURST, at: now, wrong: VecDeque::new() },
            ids: None,
            resets: Resets::default(),
            reset: 0,
        }
    }

    /// Makes the socket ids of connections to come of `secret` and the peers' ids, so that a later listener with the same secret tells
    /// peers of this one's connections that these are over, and this one those of an earlier listener.
    pub fn set_socket_secret(&mut self, secret: &[u8]) {
        self.ids = Some(SocketIds::new(secret));
    }

    /// Packets of connections that are not here any more, to which the peer was told so.
    pub fn resets(&self) -> u64 {
        self.reset
    }

    /// Goes on with other settings, which hold for requests to come.
    pub fn reconfigure(&mut self, settings: Settings, max_peers: usize) {
        (self.settings, self.max_peers) = (settings, max_peers);
    }

    /// Handshakes that were refused or made no sense.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let tag = hmac::sign(&self.secret, &[b"draw".as_slice(), &self.drawn.to_be_bytes()].concat());
        tag.as_ref().try_into().unwrap_or_default()
    }

    /// The cookie of an address, for a span of time.
    fn cookie(&self, from: SocketAddr, span: u64) -> u32 {
        let ip = match from.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let text = [b"cookie".as_slice(), &ip, &from.port().to_be_bytes(), &span.to_be_bytes()].concat();
        let tag = hmac::sign(&self.secret, &text);
        tag.as_ref().first_chunk::<4>().map_or(1, |bytes| u32::from_be_bytes(*bytes))
    }

    fn span(&self, now: Time) -> u64 {
        (now.since(self.began).as_nanos() / COOKIE_TIME.as_nanos()) as u64
    }

    /// Takes a datagram that came from `from`.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Handled {
        self.handle_datagram_of_line(now, from, None, datagram)
    }

    /// Takes a datagram of the peer `from`, which came by this one of its lines where it has several ([`crate::srtla`]).
    pub fn handle_datagram_of_line(
        &mut self,
        now: Time,
        from: SocketAddr,
        line: Option<u8>,
        datagram: &[u8],
    ) -> Handled {
        let Some(packet) = Packet::parse(datagram) else { return Handled::Nothing };
        let destination = packet.destination();
        if destination != 0 {
            // An id that is known comes from the address that it was given to.
            return match self.peers.get_mut(&destination) {
                Some(peer) if peer.remote == from => {
                    peer.connection.handle_datagram_of_line(now, line, datagram);
                    Handled::Connection(destination)
                }
                Some(_) => Handled::Nothing,
                None => {
                    if wants_reset(&packet, datagram.len()) {
                        self.reset(now, from, destination);
                    }
                    Handled::Nothing
                }
            };
        }
        let Packet::Control(Control { kind: Kind::Handshake, body, timestamp, .. }) = packet else {
            return Handled::Nothing;
        };
        let Some((handshake, extensions)) = Handshake::parse(body) else { return Handled::Nothing };
        match handshake.kind {
            INDUCTION => self.induce(now, from, handshake),
            CONCLUSION => return self.conclude(now, from, handshake, extensions, timestamp),
            _ => self.refused += 1,
        }
        Handled::Nothing
    }

    fn answer(&mut self, from: SocketAddr, datagram: Vec<u8>) {
        // Callers ask again.
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((from, datagram));
        }
    }

    /// Tells the peer of a connection that is not here that it is over.
    fn reset(&mut self, now: Time, from: SocketAddr, own: u32) {
        let Some(peer) =
            self.ids.as_ref().filter(|_| self.resets.allow(now, from)).and_then(|ids| ids.peer(own))
        else {
            return;
        };
        self.reset += 1;
        self.answer(from, reset(peer, timestamp(self.began, now)));
    }

    fn induce(&mut self, now: Time, from: SocketAddr, asked: Handshake) {
        if asked.version < INDUCTION_VERSION || asked.extension != DATAGRAMS && asked.extension != 0 {
            self.refused += 1;
            return;
        }
        let cookie = self.cookie(from, self.span(now));
        // No length of keys is told: the caller's is taken, whichever it is.
        let answer = Handshake { version: VERSION, encryption: 0, extension: MAGIC, cookie, ..asked };
        let stamp = timestamp(self.began, now);
        let datagram = answer.write(&Extensions::default(), true, stamp, asked.socket, from.ip());
        self.answer(from, datagram);
    }

    fn conclude(
        &mut self,
        now: Time,
        from: SocketAddr,
        handshake: Handshake,
        extensions: Extensions,
        stamp: u32,
    ) -> Handled {
        let span = self.span(now);
        let spans = [Some(span), span.checked_sub(1)];
        let is_known = spans.into_iter().flatten().any(|span| self.cookie(from, span) == handshake.cookie);
        if !is_known {
            self.refused += 1;
            return Handled::Nothing;
        }
        let same = |peer: &&mut Peer| peer.remote == from && peer.socket == handshake.socket;
        if let Some(peer) = self.peers.values_mut().find(same) {
            // The answer was lost: it is given again.
            if let Some(response) = peer.connection.response(now) {
                self.answer(from, response);
            }
            return Handled::Nothing;
        }
        let checked = match handshake.version {
            VERSION => extensions.check(),
            _ => Err(Rejection::VERSION),
        };
        let stream_id = extensions.stream_id.unwrap_or_default();
        let checked = checked.and_then(|live| match stream_id.len() {
            0..=STREAM_ID_MAX => Ok(live),
            _ => Err(Rejection::BAD_REQUEST),
        });
        let live = match checked {
            Ok(live) => live,
            Err(why) => {
                self.refuse(now, from, handshake, why);
                return Handled::Refused(from, why);
            }
        };
        let keys = match self.unwrap(now, from, extensions.keys.as_deref()) {
            Some(Ok(keys)) => keys,
            Some(Err(why)) => {
                self.refuse(now, from, handshake, why);
                return Handled::Refused(from, why);
            }
            // The caller asks again.
            None => return Handled::Nothing,
        };
        let message = extensions.keys;
        Handled::Request(Box::new(Request { from, stream_id, handshake, live, message, keys, stamp }))
    }

    /// The keys of a request, once the passphrases of both ends go together; `None` where it is not looked at them now.
    fn unwrap(
        &mut self,
        now: Time,
        from: SocketAddr,
        message: Option<&[u8]>,
    ) -> Option<Result<Option<Keys>, Rejection>> {
        match (&self.settings.passphrase, message) {
            (None, None) => Some(Ok(None)),
            (Some(passphrase), Some(message)) => {
                if !self.unwrapping.allow(from.ip(), now) {
                    self.refused += 1;
                    return None;
                }
                Some(match Keys::parse(message, passphrase) {
                    Ok(keys) => Ok(Some(keys)),
                    Err(error) => {
                        self.unwrapping.fail(from.ip(), now);
                        Err(match error {
                            KeyError::Passphrase => Rejection::BAD_SECRET,
                            KeyError::Malformed => Rejection::ROGUE,
                        })
                    }
                })
            }
            _ => Some(Err(Rejection::UNSECURE)),
        }
    }

    fn refuse(&mut self, now: Time, from: SocketAddr, handshake: Handshake, why: Rejection) {
        self.refused += 1;
        let stamp = timestamp(self.began, now);
        let answer = handshake.refused(why);
        let datagram = answer.write(&Extensions::default(), true, stamp, handshake.socket, from.ip());
        self.answer(from, datagram);
    }

    /// Refuses a request.
    pub fn reject(&mut self, now: Time, request: &Request, why: Rejection) {
        self.refuse(now, request.from, request.handshake, why);
    }

    /// Whether there is room for one more connection. To be asked before anything is done for a request.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), Refused> {
        if self.peers.len() >= self.max_peers { Err(Refused(Rejection::OVERLOAD)) } else { Ok(()) }
    }

    /// A socket id that no connection has.
    fn draw_socket(&mut self) -> u32 {
        loop {
            let drawn = self.draw();
            let id = drawn.first_chunk::<4>().map_or(1, |bytes| u32::from_be_bytes(*bytes)) & 0x3fff_ffff;
            if id != 0 && !self.peers.contains_key(&id) {
                return id;
            }
        }
    }

    /// Makes a connection of a request. Returns its socket.
    ///
    /// # Errors
    /// Those of [`Listener::check`]; the caller has been told.
    pub fn accept(&mut self, now: Time, request: Request) -> Result<u32, Refused> {
        if let Err(refused) = self.check() {
            self.reject(now, &request, refused.0);
            return Err(refused);
        }
        let seed = self.draw();
        // Peers at two addresses may have the same id: the later one gets an id that a later process cannot tell a peer's from.
        let own = self.ids.as_ref().and_then(|ids| ids.own(request.handshake.socket));
        let own = own.filter(|own| !self.peers.contains_key(own)).unwrap_or_else(|| self.draw_socket());
        let Request { from, handshake, live, stamp, keys, message, .. } = request;
        let latency = self.settings.latency().max(live.peer_receives_after).min(LATENCY_MAX);
        let peer_latency = self.settings.peer_latency().max(live.receives_after).min(LATENCY_MAX);
        let has_keys = keys.is_some();
        // A side that has no time of delivery gets what comes as it comes, and gives it so.
        let (latency, peer_latency) =
            if live.is_timed() { (latency, peer_latency) } else { (Duration::ZERO, peer_latency) };
        let extensions = Extensions {
            live: Some(Live::new(latency, peer_latency)),
            keys: message.filter(|_| has_keys),
            ..Extensions::default()
        };
        // Both ends number their packets from the caller's number on.
        let answer = Handshake {
            version: VERSION,
            extension: 1 | if has_keys { 2 } else { 0 },
            encryption: handshake.encryption,
            mtu: handshake.mtu.min(MTU),
            window: WINDOW,
            kind: CONCLUSION,
            socket: own,
            cookie: handshake.cookie,
            sequence: handshake.sequence,
        };
        let response =
            // Time stamps begin with the connection.
            answer.write(&extensions, true, timestamp(now, now), handshake.socket, from.ip());
        let agreed = Agreed {
            own,
            peer: handshake.socket,
            own_sequence: handshake.sequence,
            peer_sequence: handshake.sequence,
            latency,
            peer_latency,
            keys,
            began: now,
            peer_stamp: stamp,
            seed,
        };
        let connection = Connection::new(agreed, Some(response.clone()), now);
        self.answer(from, response);
        self.peers.insert(own, Peer { remote: from, socket: handshake.socket, connection });
        Ok(own)
    }

    /// An answer to a handshake that is to leave, and where to.
    pub fn poll_answer(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.answers.pop_front()
    }

    /// A connection, with where its peer is.
    pub fn connection(&mut self, socket: u32) -> Option<(SocketAddr, &mut Connection)> {
        self.peers.get_mut(&socket).map(|peer| (peer.remote, &mut peer.connection))
    }

    /// All connections.
    pub fn connections(&mut self) -> impl Iterator<Item = (u32, SocketAddr, &mut Connection)> {
        self.peers.iter_mut().map(|(socket, peer)| (*socket, peer.remote, &mut peer.connection))
    }

    /// How many there are.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Forgets a connection that is over, once what it had to say has left.
    pub fn remove(&mut self, socket: u32) {
        self.peers.remove(&socket);
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
