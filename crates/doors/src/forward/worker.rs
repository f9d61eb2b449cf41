//! The thread of a forward: it waits for its stream, publishes it, and tries again.
//!
//! ```text
//! idle ─ the stream has a publisher ─► connecting ─► publishing ─ the stream is over ─► idle
//!                                       ▲    │            │ the service closes, refuses, takes nothing
//!                                       └────┴─ waiting ◄─┘ 1 s, 2 s, 4 s … 60 s
//! ```

use super::connect::{Connecting, NoConnection, Waiting};
use super::metadata;
use super::status::{Board, Phase};
use crate::log_throttle::LogThrottle;
use glassline_delivery::backoff::Backoff;
use glassline_delivery::forward::{Feed, Item};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::client::Wire;
use glassline_io::poll::{Poller, Waker};
use glassline_io::random;
use glassline_io::tls::{READ_BYTES_MIN, Roots};
use glassline_media::container::flv::mux::TagFormat;
use glassline_media::{Codec, Time};
use glassline_streams::{Entering, Streams, Unit, Units};
use glassline_transport::rtmp::client::Step;
use glassline_transport::rtmp::handshake::RANDOM_BYTES;
use glassline_transport::rtmp::{Address, ClientError, ClientEvent, ClientSession};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(super) use super::connect::WAKER;

/// A forward that a configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedForward {
    /// The stream.
    pub stream: StreamName,
    /// Where it is published.
    pub address: Address,
    /// The authorities that are trusted for `rtmps:`.
    pub roots: Roots,
}

/// How long is waited for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// After the first failure, and after a stream that has ended; twice as long after each further failure, up to `most`.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { least: Duration::from_secs(1), most: Duration::from_secs(60) }
    }
}

/// How often it is looked for a stream that is not there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A stream that was published for so long was a good one: the next failure is a first one.
const GOOD_RUN: Duration = Duration::from_secs(60);
/// Bytes that wait for room in the socket before more is taken of what can still be dropped, and that the system holds.
const OUT_BYTES: usize = 64 << 10;
const UNSENT_BYTES: u32 = 128 << 10;
/// A service that takes nothing for so long, although something waits, is gone.
const STALL: Duration = Duration::from_secs(20);
/// How long the end waits for the last bytes to leave.
const FAREWELL: Duration = Duration::from_secs(1);
/// Units that are read in a row; then the socket gets its turn.
const UNITS_A_TURN: usize = 256;
/// Figures are written down this often.
const FIGURES: Duration = Duration::from_millis(250);
/// A service that closes within this time has looked at the stream key.
const KEY_TRIED: Duration = Duration::from_secs(5);
/// A service may send a publisher on so often.
const REDIRECTS_MAX: usize = 3;
/// All that a tag can carry.
const CODECS: [Codec; 8] = [
    Codec::H264,
    Codec::H265,
    Codec::Av1,
    Codec::Aac,
    Codec::MpegAudio,
    Codec::Opus,
    Codec::Ac3,
    Codec::EAc3,
];

/// How an attempt has ended.
enum Over {
    /// The thread has to end.
    Stopped,
    /// The stream is over: nothing is wrong.
    StreamEnded,
    /// The service wants the stream elsewhere.
    Redirected(String),
    Failed {
        reason: String,
        is_refused: bool,
    },
}

impl From<NoConnection> for Over {
    fn from(none: NoConnection) -> Over {
        match none {
            NoConnection::Stopped => Over::Stopped,
            NoConnection::Failed(reason) => Over::Failed { reason, is_refused: false },
        }
    }
}

impl From<ClientError> for Over {
    fn from(error: ClientError) -> Over {
        let is_refused = matches!(error, ClientError::Refused { .. });
        Over::Failed { reason: error.to_string(), is_refused }
    }
}

fn failed(reason: impl Into<String>) -> Over {
    Over::Failed { reason: reason.into(), is_refused: false }
}

fn refused(reason: impl Into<String>) -> Over {
    Over::Failed { reason: reason.into(), is_refused: true }
}

/// What wakes a subscription's reader.
struct Wakes(Waker);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

pub(super) struct Worker {
    streams: Arc<Streams>,
    wanted: WantedForward,
    board: Arc<Board>,
    waiting: Waiting,
    connecting: Connecting,
    throttle: LogThrottle,
    pauses: Pauses,
}

impl Worker {
    pub(super) fn new(
        streams: Arc<Streams>,
        wanted: WantedForward,
        board: Arc<Board>,
        (poller, waker): (Poller, Waker),
        pauses: Pauses,
    ) -> Worker {
        let waiting = Waiting::new(poller, waker, streams.clock());
        let (connecting, throttle) = (Connecting::default(), LogThrottle::default());
        Worker { streams, wanted, board, waiting, connecting, throttle, pauses }
    }

    fn now(&self) -> Time {
        self.waiting.clock.now()
    }

    /// Publishes the stream whenever it is there, until the thread has to end.
    pub(super) fn run(&mut self) {
        let mut backoff = Backoff::new(self.pauses.least, self.pauses.most, self.waiting.clock.seed());
        while self.wait_for_stream().is_ok() {
            self.board.enter(Phase::Connecting);
            let mut published = None;
            let over = self.attempt(&mut published);
            self.board.leave();
            let (stream, forward) = (&self.wanted.stream, self.wanted.address.to_string());
            if published.is_some_and(|since| self.now().since(since) >= GOOD_RUN) {
                backoff.reset();
            }
            let (reason, is_refused) = match over {
                Over::Stopped => return,
                Over::StreamEnded => {
                    tracing::info!(%stream, forward, "forward is over with its stream");
                    self.board.enter(Phase::Idle);
                    // Services want a moment before the next stream of a key.
                    let until = self.now() + self.pauses.least;
                    match self.rest(until) {
                        Ok(()) => continue,
                        Err(_) => return,
                    }
                }
                Over::Redirected(_) => (format!("redirected more than {REDIRECTS_MAX} times"), false),
                Over::Failed { reason, is_refused } => (reason, is_refused),
            };
            let (now, pause) = (self.waiting.clock.now(), backoff.fail());
            if self.throttle.end(&reason, GOOD_RUN, now) {
                let retry_in_s = (pause.as_secs_f64() * 10.0).round() / 10.0;
                tracing::warn!(%stream, forward, retry_in_s, "forward is not there: {reason}");
            }
            self.board.fail(&reason, is_refused);
            self.board.enter(Phase::Waiting { until: now + pause, is_refused });
            if self.rest(now + pause).is_err() {
                return;
            }
        }
    }

    fn rest(&mut self, until: Time) -> Result<(), NoConnection> {
        while self.waiting.clock.now() < until {
            self.waiting.wait(until, &self.board)?;
        }
        Ok(())
    }

    /// Waits until the stream has a publisher.
    fn wait_for_stream(&mut self) -> Result<(), NoConnection> {
        let mut is_idle = false;
        loop {
            let live = self.streams.find(&self.wanted.stream);
            if live.is_some_and(|live| live.published_since().is_some()) {
                return Ok(());
            }
            if !std::mem::replace(&mut is_idle, true) {
                self.board.enter(Phase::Idle);
            }
            let until = self.now() + LOOK_AGAIN;
            self.waiting.wait(until, &self.board)?;
        }
    }

    /// One attempt, with the redirects of the service.
    fn attempt(&mut self, published: &mut Option<Time>) -> Over {
        let mut address = self.wanted.address.clone();
        for _ in 0..=REDIRECTS_MAX {
            let to = match self.publish(&address, published) {
                Err(Over::Redirected(to)) => to,
                Err(over) => return over,
                Ok(()) => return Over::StreamEnded,
            };
            match address.redirected(&to) {
                Ok(next) => {
                    tracing::info!(stream = %self.wanted.stream, "forward is redirected to {next}");
                    address = next;
                }
                Err(wrong) => return failed(format!("the server {wrong}")),
            }
        }
        Over::Redirected(String::new())
    }

    /// Connects, and publishes the stream until it is over.
    fn publish(&mut self, address: &Address, published: &mut Option<Time>) -> Result<(), Over> {
        let Worker { connecting, waiting, board, wanted, .. } = self;
        let wire = connecting.connect(address, &wanted.roots, waiting, board)?;
        let socket = wire.socket();
        // Where these are refused the connection works without them.
        let _ = socket.limit_unsent(UNSENT_BYTES);
        let _ = socket.give_up_after(STALL);
        let random = noise().map_err(|error| failed(error.to_string()))?;
        let session = ClientSession::new(address.clone(), &random, self.now());
        let mut line = Line {
            wire,
            session,
            out: Vec::new(),
            written: 0,
            sent: 0,
            moved: self.now(),
            room: vec![0; READ_BYTES_MIN],
            source: None,
        };
        let over = self.converse(&mut line, published);
        if let Some(Source { feed, .. }) = &line.source {
            self.board.observe(line.sent, feed.counters(), Duration::ZERO);
        }
        if matches!(over, Ok(()) | Err(Over::Stopped)) {
            line.farewell(&mut self.waiting);
        }
        over
    }

    fn converse(&mut self, line: &mut Line, published: &mut Option<Time>) -> Result<(), Over> {
        let mut figures_due = Time::ZERO;
        let mut ends_by: Option<Time> = None;
        loop {
            let now = self.now();
            if line.read(now)? {
                *published = Some(now);
                self.began(line, now)?;
            }
            line.session.handle_timeout(now)?;
            let (has_more, has_ended) = line.take_units(now)?;
            line.write(now)?;
            if has_ended {
                let by = *ends_by.get_or_insert(now + FAREWELL);
                let is_drained = line.waits() == 0
                    && line.source.as_ref().is_none_or(|source| source.feed.poll_timeout() == Time::NEVER);
                if is_drained || now >= by {
                    return Ok(());
                }
            }
            if let Some(source) = &line.source
                && now >= figures_due
            {
                figures_due = now + FIGURES;
                self.board.observe(line.sent, source.feed.counters(), source.feed.behind(now));
            }
            if has_more {
                self.waiting.wait(now, &self.board)?;
                continue;
            }
            let mut due = line.session.poll_timeout().min(ends_by.unwrap_or(Time::NEVER));
            if line.waits() > 0 {
                due = due.min(line.moved + STALL);
            }
            if let Some(source) = &line.source {
                due = due.min(figures_due);
                if line.waits() < OUT_BYTES {
                    due = due.min(source.feed.poll_timeout());
                }
            }
            self.waiting.wait(due, &self.board)?;
        }
    }

    /// The service has the stream from now on.
    fn began(&mut self, line: &mut Line, now: Time) -> Result<(), Over> {
        let Worker { streams, wanted, waiting, .. } = self;
        let waker = std::task::Waker::from(Arc::new(Wakes(waiting.waker.clone())));
        let Some(subscription) = streams.subscribe(&wanted.stream, Entering::Newest, waker) else {
            return Err(Over::StreamEnded);
        };
        let mux = subscription.mux();
        if mux != Mux::MpegTs {
            let words = format!("the stream is carried as {}; only MPEG-TS is forwarded", mux.extension());
            return Err(refused(words));
        }
        let units = subscription.into_units().ok_or_else(|| refused("the stream is no MPEG-TS"))?;
        // A server that lists no letters is not asked further: services take H.265 and AV1 without saying so, as OBS sends them.
        let takes = |codec: &Codec| match TagFormat::of(*codec) {
            Some(TagFormat::Number(_)) => true,
            Some(TagFormat::Letters(letters)) => line.session.lists(letters).unwrap_or(codec.is_video()),
            None => false,
        };
        let codecs: Vec<Codec> = CODECS.into_iter().filter(takes).collect();
        line.source = Some(Source { units, feed: Feed::new(&codecs), began: now });
        self.board.enter(Phase::Publishing { since: now });
        if self.throttle.begin(now) {
            let (stream, forward) = (&self.wanted.stream, self.wanted.address.to_string());
            tracing::info!(%stream, forward, "forward is published");
        }
        Ok(())
    }
}

/// The stream that is published.
struct Source {
    units: Units,
    feed: Feed,
    began: Time,
}

/// A connection to a service.
struct Line {
    wire: Wire,
    session: ClientSession,
    /// What waits for room in the socket, of which so many bytes are written.
    out: Vec<u8>,
    written: usize,
    /// Bytes that were written in all.
    sent: u64,
    /// When bytes were written last, or nothing waited.
    moved: Time,
    room: Vec<u8>,
    source: Option<Source>,
}

impl Line {
    /// Bytes that wait for room in the socket.
    fn waits(&self) -> usize {
        self.out.len() - self.written
    }

    /// Takes what has come. Returns whether the service has the stream from now on.
    fn read(&mut self, now: Time) -> Result<bool, Over> {
        let mut is_published = false;
        loop {
            let count = match self.wire.read(&mut self.room) {
                Ok(None) => return Ok(is_published),
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
        }
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
    fn take_units(&mut self, now: Time) -> Result<(bool, bool), Over> {
        let Some(Source { units, feed, .. }) = &mut self.source else { return Ok((false, false)) };
        let (mut has_more, mut has_ended) = (true, false);
        for _ in 0..UNITS_A_TURN {
            match units.poll() {
                Ok(Unit::Program(program)) => {
                    feed.program(&program).map_err(|error| refused(error.to_string()))?;
                }
                Ok(Unit::Unit { pid, unit }) => feed.push(pid, unit, now),
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
        loop {
            let begun = self.session.take_output();
            self.out.extend_from_slice(&begun);
            if self.out.len() - self.written >= OUT_BYTES {
                break;
            }
            match feed.poll(now) {
                Some(Item::Metadata(described)) => {
                    self.session.send_metadata(&metadata::properties(&described));
                }
                Some(Item::Tag { is_video, time, body }) => self.session.send_media(is_video, time, body),
                None => break,
            }
        }
        Ok((has_more, has_ended))
    }

    /// Writes what fits.
    fn write(&mut self, now: Time) -> Result<(), Over> {
        let begun = self.session.take_output();
        self.out.extend_from_slice(&begun);
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.wire.write(rest) {
                Ok(Some(count)) => {
                    self.written += count;
                    self.sent += count as u64;
                    self.moved = now;
                }
                Ok(None) => break,
                Err(error) => return Err(self.closed(&format!(": {error}"), now)),
            }
        }
        if self.waits() == 0 {
            self.moved = now;
        }
        // What is written is moved away where that is cheap: all of it, or much.
        if self.waits() == 0 || self.written >= 4 * OUT_BYTES {
            self.out.drain(..self.written);
            self.written = 0;
        }
        match self.wire.flush() {
            Ok(_) if now.since(self.moved) >= STALL => {
                Err(failed(format!("the server has taken nothing for {} s", STALL.as_secs())))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.closed(&format!(": {error}"), now)),
        }
    }

    /// Says that the stream is over, and waits a moment until that has left.
    fn farewell(&mut self, waiting: &mut Waiting) {
        self.session.unpublish();
        let until = waiting.clock.now() + FAREWELL;
        let mut ready = Vec::new();
        loop {
            let now = waiting.clock.now();
            let has_left = match self.write(now) {
                Ok(()) => self.waits() == 0 && self.wire.flush().unwrap_or(true),
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
