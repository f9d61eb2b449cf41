//! A connection to a service, and the stream that is published over it.

use super::connect::{NoConnection, Waiting};
use super::metadata;
use super::outgoing::{Outgoing, What};
use glassline_delivery::forward::{Feed, ForwardCounters, Item};
use glassline_io::client::Wire;
use glassline_io::random;
use glassline_io::tls::READ_BYTES_MIN;
use glassline_media::Time;
use glassline_streams::{Unit, Units};
use glassline_transport::rtmp::client::Step;
use glassline_transport::rtmp::handshake::RANDOM_BYTES;
use glassline_transport::rtmp::{Address, ClientError, ClientEvent, ClientSession};
use std::io;
use std::time::Duration;

/// Bytes that wait for room in the socket before more is taken of what can still be dropped, and that the system holds.
pub(super) const OUT_BYTES: usize = 64 << 10;
const UNSENT_BYTES: u32 = 128 << 10;
/// Answers to the service that wait for room in the socket: one that asks on and on and reads nothing would fill the memory. What else
/// waits is [`OUT_BYTES`] and one tag, of 16 MiB at most.
const ANSWERS_MAX: usize = 64 << 10;
/// A service that takes nothing for so long, although something waits, is gone.
pub(super) const STALL: Duration = Duration::from_secs(20);
/// How long the end waits for the last bytes to leave.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// Units, and reads of the socket, in a row; then the other gets its turn.
const UNITS_A_TURN: usize = 256;
const READS_A_TURN: usize = 16;
/// A service that closes within this time has looked at the stream key.
const KEY_TRIED: Duration = Duration::from_secs(5);

/// How an attempt has ended.
pub(super) enum Over {
    /// The thread has to end.
    Stopped,
    /// The stream is over: nothing is wrong.
    StreamEnded,
    /// The service wants the stream elsewhere.
    Redirected(String),
    Failed {
        reason: String,
        is_refused: bool,
        /// It is ended here: the service waits for more.
        is_ours: bool,
    },
}

impl From<NoConnection> for Over {
    fn from(none: NoConnection) -> Over {
        match none {
            NoConnection::Stopped => Over::Stopped,
            NoConnection::Failed(reason) => failed(reason),
        }
    }
}

impl From<ClientError> for Over {
    fn from(error: ClientError) -> Over {
        let is_refused = matches!(error, ClientError::Refused { .. });
        let is_ours = !matches!(error, ClientError::Refused { .. } | ClientError::Ended { .. });
        Over::Failed { reason: error.to_string(), is_refused, is_ours }
    }
}

/// The service, or the network, has ended it.
pub(super) fn failed(reason: impl Into<String>) -> Over {
    Over::Failed { reason: reason.into(), is_refused: false, is_ours: false }
}

/// It is ended here.
fn given_up(reason: impl Into<String>) -> Over {
    Over::Failed { reason: reason.into(), is_refused: false, is_ours: true }
}

/// The stream is none that the service could take.
pub(super) fn refused(reason: impl Into<String>) -> Over {
    Over::Failed { reason: reason.into(), is_refused: true, is_ours: true }
}

/// The stream that is published.
pub(super) struct Source {
    pub(super) units: Units,
    pub(super) feed: Feed,
    pub(super) began: Time,
}

/// A connection to a service.
pub(super) struct Line {
    wire: Wire,
    pub(super) session: ClientSession,
    pub(super) outgoing: Outgoing,
    /// When bytes were written last, or nothing waited.
    pub(super) moved: Time,
    room: Vec<u8>,
    pub(super) source: Option<Source>,
}

/// What a turn of reading has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    /// The service has the stream from now on.
    pub(super) is_published: bool,
    /// More has come than is read in a turn.
    pub(super) has_more: bool,
}

impl Line {
    /// A conversation that begins over `wire`.
    pub(super) fn new(wire: Wire, address: Address, now: Time) -> io::Result<Line> {
        let socket = wire.socket();
        // Where these are refused the connection works without them.
        let _ = socket.limit_unsent(UNSENT_BYTES);
        let _ = socket.give_up_after(STALL);
        let session = ClientSession::new(address, &noise()?, now);
        let (outgoing, room) = (Outgoing::default(), vec![0; READ_BYTES_MIN]);
        Ok(Line { wire, session, outgoing, moved: now, room, source: None })
    }

    /// What was sent, and what was not: tags that wait for room in the socket are not sent yet.
    pub(super) fn counters(&self) -> ForwardCounters {
        let Some(Source { feed, .. }) = &self.source else { return ForwardCounters::default() };
        let (counters, [pictures, sounds]) = (feed.counters(), self.outgoing.tags());
        ForwardCounters {
            pictures: counters.pictures.saturating_sub(pictures),
            sounds: counters.sounds.saturating_sub(sounds),
            ..counters
        }
    }

    /// The same at the end: what waits is dropped.
    pub(super) fn finish(&mut self) -> ForwardCounters {
        let [pictures, sounds] = self.outgoing.tags();
        if let Some(source) = &mut self.source {
            source.feed.finish();
        }
        let counters = self.counters();
        ForwardCounters {
            dropped_pictures: counters.dropped_pictures + pictures,
            dropped_sounds: counters.dropped_sounds + sounds,
            ..counters
        }
    }

    /// Takes what has come, for a turn: a service that sends on and on keeps neither the stream nor the end of the thread waiting.
    pub(super) fn read(&mut self, now: Time) -> Result<Read, Over> {
        let mut is_published = false;
        for _ in 0..READS_A_TURN {
            let count = match self.wire.read(&mut self.room) {
                Ok(None) => return Ok(Read { is_published, has_more: false }),
                Ok(Some(0)) => return Err(self.closed("", now)),
                Ok(Some(count)) => count,
                Err(error) => return Err(self.closed(&format!(": {error}"), now)),
            };
            let mut bytes = self.room.get(..count).unwrap_or_default();
            while let Some(event) = self.session.push(&mut bytes, now)? {
                match event {
                    ClientEvent::Published => is_published = true,
                    ClientEvent::Redirected(to) => return Err(Over::Redirected(to)),
                }
            }
            self.outgoing.push(&self.session.take_output(), What::Answer);
            if self.outgoing.answers() > ANSWERS_MAX {
                return Err(given_up("the server asks on and on, and takes no answers"));
            }
        }
        Ok(Read { is_published, has_more: true })
    }

    fn closed(&self, why: &str, now: Time) -> Over {
        let is_new = self.source.as_ref().is_none_or(|source| now.since(source.began) < KEY_TRIED);
        match self.session.step() {
            // nginx-rtmp and services say so, without words, that a stream key is wrong or in use.
            Step::Published if is_new => failed(format!(
                "the server has closed the connection as soon as the stream was published: the stream key may be wrong, or in use{why}"
            )),
            Step::Published => failed(format!("the server has closed the connection{why}")),
            step => {
                failed(format!("the server has closed the connection instead of an answer to {step}{why}"))
            }
        }
    }

    /// Moves the stream's units into the socket, as far as it has room. Returns whether there is more, and whether the stream is over.
    pub(super) fn take_units(&mut self, now: Time) -> Result<(bool, bool), Over> {
        let Some(Source { units, feed, .. }) = &mut self.source else { return Ok((false, false)) };
        let (mut has_more, mut has_ended) = (true, false);
        for _ in 0..UNITS_A_TURN {
            match units.poll() {
                Ok(Unit::Program(program)) => {
                    feed.program(&program).map_err(|error| refused(error.to_string()))?;
                }
                Ok(Unit::Unit { pid, unit }) => {
                    feed.push(pid, unit, now).map_err(|error| refused(error.to_string()))?;
                }
                Ok(Unit::FellBehind) => feed.skip(),
                Ok(Unit::Ended) => {
                    (has_more, has_ended) = (false, true);
                    break;
                }
                Ok(Unit::Pending) => {
                    has_more = false;
                    break;
                }
                Err(error) => {
                    // The system has no memory for a moment: the next look tries again.
                    tracing::debug!(%error, "a stream that is forwarded cannot be read");
                    has_more = false;
                    break;
                }
            }
        }
        while self.outgoing.waits() < OUT_BYTES {
            let before = feed.counters();
            match feed.poll(now) {
                Some(Item::Metadata(described)) => {
                    self.session.send_metadata(&metadata::properties(&described));
                }
                Some(Item::Tag { is_video, time, body }) => self.session.send_media(is_video, time, body),
                None => break,
            }
            let after = feed.counters();
            let what = match (after.pictures > before.pictures, after.sounds > before.sounds) {
                (true, _) => What::Picture,
                (false, true) => What::Sound,
                (false, false) => What::Description,
            };
            self.outgoing.push(&self.session.take_output(), what);
        }
        Ok((has_more, has_ended))
    }

    /// Writes what fits.
    pub(super) fn write(&mut self, now: Time) -> Result<(), Over> {
        self.outgoing.push(&self.session.take_output(), What::Description);
        while let Some(rest) = self.outgoing.rest() {
            match self.wire.write(rest) {
                Ok(Some(count)) => {
                    self.outgoing.wrote(count);
                    self.moved = now;
                }
                Ok(None) => break,
                Err(error) => return Err(self.closed(&format!(": {error}"), now)),
            }
        }
        if self.outgoing.waits() == 0 {
            self.moved = now;
        }
        match self.wire.flush() {
            Ok(_) if now.since(self.moved) >= STALL => {
                Err(given_up(format!("the server has taken nothing for {} s", STALL.as_secs())))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.closed(&format!(": {error}"), now)),
        }
    }

    /// Says that the stream is over, where the service has it, and waits a moment until that has left.
    pub(super) fn farewell(&mut self, waiting: &mut Waiting) {
        self.session.unpublish();
        let until = waiting.clock.now() + FAREWELL;
        let mut ready = Vec::new();
        loop {
            let now = waiting.clock.now();
            let has_left = match self.write(now) {
                Ok(()) => self.outgoing.waits() == 0 && self.wire.flush().unwrap_or(true),
                Err(_) => return,
            };
            if has_left || now >= until {
                break;
            }
            if waiting.poller.wait(Some(until.since(now)), &mut ready).is_err() {
                return;
            }
            waiting.waker.clear();
        }
        self.wire.end();
        if let Wire::Plain(socket) = &self.wire {
            let _ = socket.end();
        }
    }
}

/// Random bytes for a handshake.
fn noise() -> io::Result<[u8; RANDOM_BYTES]> {
    let mut bytes = [0; RANDOM_BYTES];
    for piece in bytes.chunks_mut(32) {
        piece.copy_from_slice(random::seed()?.get(..piece.len()).unwrap_or_default());
    }
    Ok(bytes)
}
