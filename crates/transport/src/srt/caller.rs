//! The end that calls (§4.3.1.1).

use super::connection::{Agreed, Connection, timestamp};
use super::crypto::Keys;
use super::handshake::{
    CONCLUSION, DATAGRAMS, Extensions, Handshake, INDUCTION, INDUCTION_VERSION, Live, MAGIC, Rejection,
    VERSION,
};
use super::packet::{Control, Kind, Packet};
use super::sequence::Sequence;
use super::{LATENCY_MAX, Settings};
use glassline_media::Time;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// A handshake that is not answered is sent again after this.
const AGAIN: Duration = Duration::from_millis(250);
/// And given up after this.
const PATIENCE: Duration = Duration::from_secs(3);
const MTU: u32 = 1500;
const WINDOW: u32 = 8192;

/// Why no connection comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallerError {
    /// The listener has refused it.
    #[error("{}", .0.words())]
    Rejected(Rejection),
    /// Nothing has answered.
    #[error("no SRT listener answers there")]
    Silent,
    /// What answered is no listener of this version.
    #[error("what answers there is no SRT listener of version 5 of the handshake (SRT 1.3 and later)")]
    Version,
}

#[derive(Debug)]
enum Phase {
    Inducing,
    Concluding { cookie: u32 },
    Connected(Box<Connection>),
    Failed(CallerError),
}

/// A caller, from its first packet on. It goes on as a [`Connection`].
pub struct Caller {
    settings: Settings,
    stream_id: Vec<u8>,
    to: SocketAddr,
    socket: u32,
    sequence: Sequence,
    keys: Option<Keys>,
    seed: [u8; 32],
    began: Time,
    due: Time,
    phase: Phase,
}

/// Neither the stream id, which may hold a key, nor keys show.
impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("to", &self.to).field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Caller {
    /// Begins to call the listener at `to`. `seed` is random, and no two callers have the same.
    pub fn new(settings: Settings, stream_id: &str, to: SocketAddr, seed: [u8; 32], now: Time) -> Caller {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed);
        let mut drawn = 0u64;
        let mut random = |bytes: &mut [u8]| {
            for chunk in bytes.chunks_mut(32) {
                drawn += 1;
                let block = ring::hmac::sign(&key, &[b"call".as_slice(), &drawn.to_be_bytes()].concat());
                chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
            }
        };
        let mut word = [0; 4];
        random(&mut word);
        let socket = (u32::from_be_bytes(word) & 0x3fff_ffff).max(1);
        random(&mut word);
        let sequence = Sequence::new(u32::from_be_bytes(word));
        let passphrase = settings.passphrase.clone();
        let keys = passphrase.map(|passphrase| Keys::new(passphrase, settings.key_bytes, &mut random));
        let mut own_seed = [0; 32];
        random(&mut own_seed);
        let stream_id = stream_id.as_bytes().to_vec();
        let (seed, began, due, phase) = (own_seed, now, now, Phase::Inducing);
        Caller { settings, stream_id, to, socket, sequence, keys, seed, began, due, phase }
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.phase {
            Phase::Connected(connection) => Some(connection),
            _ => None,
        }
    }

    /// Whether a listener has answered.
    pub fn is_answered(&self) -> bool {
        !matches!(self.phase, Phase::Inducing | Phase::Failed(CallerError::Silent))
    }

    /// Why there will be none.
    pub fn error(&self) -> Option<CallerError> {
        match &self.phase {
            Phase::Failed(error) => Some(*error),
            _ => None,
        }
    }

    /// Where it calls.
    pub fn remote(&self) -> SocketAddr {
        self.to
    }

    /// Takes a datagram of the listener's.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) {
        if let Phase::Connected(connection) = &mut self.phase {
            return connection.handle_datagram(now, datagram);
        }
        let Some(Packet::Control(Control { kind: Kind::Handshake, body, timestamp, destination, .. })) =
            Packet::parse(datagram)
        else {
            return;
        };
        let Some((handshake, extensions)) = Handshake::parse(body).filter(|_| destination == self.socket)
        else {
            return;
        };
        if let Some(why) = handshake.rejection() {
            self.phase = Phase::Failed(CallerError::Rejected(why));
            return;
        }
        match (&self.phase, handshake.kind) {
            (Phase::Inducing, INDUCTION) => {
                self.phase = match handshake {
                    Handshake { version: VERSION, extension: MAGIC, cookie, .. } => {
                        self.due = now;
                        Phase::Concluding { cookie }
                    }
                    _ => Phase::Failed(CallerError::Version),
                };
            }
            (Phase::Concluding { .. }, CONCLUSION) => self.connect(now, &handshake, extensions, timestamp),
            _ => {}
        }
    }

    fn connect(&mut self, now: Time, handshake: &Handshake, extensions: Extensions, stamp: u32) {
        let is_encrypted = extensions.keys.as_ref().is_some_and(|message| message.len() > 4);
        let live = match extensions.check() {
            Ok(live) if is_encrypted == self.keys.is_some() => live,
            // The reference answers with a state of four bytes where the passphrase is another one.
            Ok(_) if self.keys.is_some() && extensions.keys.is_some() => {
                self.phase = Phase::Failed(CallerError::Rejected(Rejection::BAD_SECRET));
                return;
            }
            Ok(_) => {
                self.phase = Phase::Failed(CallerError::Rejected(Rejection::UNSECURE));
                return;
            }
            Err(why) => {
                self.phase = Phase::Failed(CallerError::Rejected(why));
                return;
            }
        };
        let latency = self.settings.latency().max(live.peer_receives_after).min(LATENCY_MAX);
        let agreed = Agreed {
            own: self.socket,
            peer: handshake.socket,
            own_sequence: self.sequence,
            peer_sequence: handshake.sequence,
            latency: if live.is_timed() { latency } else { Duration::ZERO },
            peer_latency: self.settings.peer_latency().max(live.receives_after).min(LATENCY_MAX),
            keys: self.keys.take(),
            began: self.began,
            peer_stamp: stamp,
            seed: self.seed,
        };
        self.phase = Phase::Connected(Box::new(Connection::new(agreed, None, now)));
    }

    /// When [`Caller::handle_timeout`] or [`Caller::poll_transmit`] has something to do next.
    pub fn poll_timeout(&self) -> Time {
        match &self.phase {
            Phase::Connected(connection) => connection.poll_timeout(),
            Phase::Failed(_) => Time::NEVER,
            _ => self.due,
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        match &mut self.phase {
            Phase::Connected(connection) => connection.handle_timeout(now),
            Phase::Failed(_) => {}
            _ if now.since(self.began) >= PATIENCE => self.phase = Phase::Failed(CallerError::Silent),
            _ => {}
        }
    }

    /// Writes the next datagram, or several of one size, into `out`. Returns their size; `None` where nothing is to leave now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<super::Transmit> {
        let (extensions, version, kind, extension, cookie) = match &mut self.phase {
            Phase::Connected(connection) => return connection.poll_transmit(now, out),
            Phase::Failed(_) => return None,
            _ if self.due > now => return None,
            Phase::Inducing => (Extensions::default(), INDUCTION_VERSION, INDUCTION, DATAGRAMS, 0),
            Phase::Concluding { cookie } => {
                let live = Live::new(self.settings.latency(), self.settings.peer_latency());
                let keys = self.keys.as_ref().map(Keys::message);
                let stream_id = Some(self.stream_id.clone()).filter(|id| !id.is_empty());
                let flags = 1 | if keys.is_some() { 2 } else { 0 } | if stream_id.is_some() { 4 } else { 0 };
                let extensions = Extensions { live: Some(live), keys, stream_id, ..Extensions::default() };
                (extensions, VERSION, CONCLUSION, flags, *cookie)
            }
        };
        let is_conclusion = kind == CONCLUSION;
        let key_bytes = self.settings.key_bytes.count() as u16 / 8;
        let encryption = if is_conclusion && self.keys.is_some() { key_bytes } else { 0 };
        let (sequence, socket) = (self.sequence, self.socket);
        let handshake = Handshake {
            version,
            encryption,
            extension,
            sequence,
            mtu: MTU,
            window: WINDOW,
            kind,
            socket,
            cookie,
        };
        out.clear();
        let stamp = timestamp(self.began, now);
        out.extend_from_slice(&handshake.write(&extensions, false, stamp, 0, self.to.ip()));
        self.due = now + AGAIN;
        Some(super::Transmit { segment_bytes: out.len() })
    }
}
