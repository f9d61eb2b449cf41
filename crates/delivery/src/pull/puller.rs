//! An HTTP upstream, from the first attempt on.
//!
//! ```text
//!            ┌──────────────── wait: back-off ◄──────────────┬──────────────┐
//!            ▼                                             fails          fails
//! Waiting ─► Connecting ─► Head ─► redirect: Connecting      │              │
//!                            └───► 200 ─► Body ─► ended ─────┘  (each step may fail, or be silent too long)
//! ```
//! Where several servers have the stream, a failure leads to the next one at once, and to a wait when all have failed.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::PullError;
use crate::backoff::Backoff;
use crate::http1::client::{self, Client, Head};
use crate::http1::{Headers, Limits, Method, Url};
use crate::metacube::{self, CONTENT_CODING, Flags, Metadata};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// How patient and how persistent a puller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How long a connection may take, then its head, and how long the stream may bring no byte.
    pub silence_timeout: Duration,
    /// What is waited after a first failure, at most.
    pub retry_min: Duration,
    /// What is waited after many, at most.
    pub retry_max: Duration,
    /// A stream that came for this long was a good one: the failure that ends it is a first one.
    pub good_after: Duration,
    /// How long a packet of RTP waits for those that should come before it.
    pub reorder: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            silence_timeout: Duration::from_secs(5),
            retry_min: Duration::from_millis(250),
            retry_max: Duration::from_secs(10),
            good_after: Duration::from_secs(5),
            reorder: Duration::from_millis(50),
        }
    }
}

/// What to do with the upstream's socket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Open a connection to this host and port, and tell what came of it.
    Connect {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// Whether to speak TLS there. The connection counts as open, and the request may be sent, before the
        /// handshake is over; the handshake is within the time for the answer.
        #[serde(default)]
        tls: bool,
    },
    /// Send these bytes. They may hold secrets.
    Send(Vec<u8>),
    /// Close the connection, or give the attempt to open it up.
    Close,
}

/// What came from upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The upstream has agreed; the stream's bytes follow.
    Began {
        /// Whether they come in Metacube blocks, which are taken off.
        metacube: bool,
        /// What the upstream calls them (`Content-Type`).
        media_type: Option<&'a str>,
    },
    /// A Metacube block begins; its bytes follow.
    Block {
        /// Its length in bytes.
        size: u32,
        /// What it is.
        flags: Flags,
    },
    /// Bytes of the stream.
    Data(&'a [u8]),
    /// What the upstream says beside the stream.
    Metadata(Metadata),
}

/// Where a puller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connects, or waits for the answer.
    Connecting,
    /// The stream comes.
    Live,
    /// The last attempt failed; the next one is at this time.
    Waiting {
        /// When.
        retry_at: Time,
    },
}

/// What a puller has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Times that the stream began to come.
    pub sessions: u64,
    /// Attempts and streams that failed or ended.
    pub failures: u64,
    /// Redirects followed.
    pub redirects: u64,
    /// Bytes that belonged to no Metacube block.
    pub garbage_bytes: u64,
}

/// The field of a request by which a server of a cluster asks for a stream only where it has passed fewer servers than the number says
/// (`ownership::Level`).
pub const HOPS_FIELD: &str = "Glassline-Hops";

/// The limit that a request's fields have; `None` where they have none that can be read.
pub fn hops_limit(headers: &Headers) -> Option<u8> {
    headers.first(HOPS_FIELD).and_then(|text| text.trim().parse().ok())
}

/// Redirects followed in a row.
const REDIRECT_LIMIT: usize = 5;
/// Garbage in a row after which an upstream is given up: as for publishers.
const GARBAGE_LIMIT_BYTES: u64 = 64 << 10;

/// Pulls one stream. Holds a head at most; the stream's bytes only pass through.
#[derive(Clone, Serialize, Deserialize)]
pub struct Puller {
    source: Url,
    policy: Policy,
    backoff: Backoff,
    state: State,
    /// Where this attempt has been, the present place last.
    visited: Vec<Url>,
    outputs: VecDeque<Output>,
    #[serde(skip)]
    error: Option<PullError>,
    counts: Counts,
    /// The servers that are asked where the source fails, in this order.
    #[serde(default)]
    alternates: Vec<Url>,
    /// The one that is asked now: the source is 0, the alternates follow.
    #[serde(default)]
    turn: usize,
    /// How many of them have failed since a stream came, or all had failed.
    #[serde(default)]
    failed_in_a_row: usize,
    /// By which servers the stream is asked for (`Via`, RFC 9110 §7.6.3).
    #[serde(default)]
    via: Option<String>,
    /// The server answers only where the stream has passed fewer servers than this.
    #[serde(default)]
    hops_limit: Option<u8>,
}

#[derive(Clone, Serialize, Deserialize)]
enum State {
    Waiting { until: Time },
    Connecting { since: Time },
    Head { since: Time, client: Box<Client> },
    Body(Box<Body>),
}

#[derive(Clone, Serialize, Deserialize)]
struct Body {
    client: Box<Client>,
    blocks: Option<metacube::Reader>,
    began: Time,
    newest_byte: Time,
}

impl Puller {
    /// A puller; its first attempt is due at once. `seed` makes its waits differ from those of others.
    pub fn new(source: Url, policy: Policy, seed: u64, now: Time) -> Puller {
        Puller {
            source,
            policy,
            backoff: Backoff::new(policy.retry_min, policy.retry_max, seed),
            state: State::Waiting { until: now },
            visited: Vec::new(),
            outputs: VecDeque::new(),
            error: None,
            counts: Counts::default(),
            alternates: Vec::new(),
            turn: 0,
            failed_in_a_row: 0,
            via: None,
            hops_limit: None,
        }
    }

    /// The same, which asks `alternates` in their order where the source fails, and the source again behind the last.
    #[must_use]
    pub fn with_alternates(mut self, alternates: Vec<Url>) -> Puller {
        self.alternates = alternates;
        self
    }

    /// Has the next requests tell servers by `via` where they have come by (`Via`, RFC 9110 §7.6.3).
    pub fn set_via(&mut self, via: Option<String>) {
        self.via = via;
    }

    /// Has the next requests ask for the stream only where it has passed fewer servers than this ([`HOPS_FIELD`]).
    pub fn set_hops_limit(&mut self, limit: Option<u8>) {
        self.hops_limit = limit;
    }

    /// Which server the next attempt asks, or this one does: 0 is the source, 1 the first alternate.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Applies a new retry policy.
    pub fn reconfigure(&mut self, policy: Policy) {
        self.policy = policy;
        self.backoff.reconfigure(policy.retry_min, policy.retry_max);
    }

    /// What to do next with the socket, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether [`Puller::poll_output`] has something.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// When [`Puller::handle_timeout`] begins the next attempt or gives up a silent one; never `None`, since a puller
    /// tries for ever.
    ///
    /// Every `handle_` call and [`Puller::reconfigure`] may change it: ask again after them.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(match &self.state {
            State::Waiting { until } => *until,
            State::Connecting { since } | State::Head { since, .. } => *since + self.policy.silence_timeout,
            State::Body(body) => body.newest_byte + self.policy.silence_timeout,
        })
    }

    /// The time of [`Puller::poll_timeout`] may have come: begins an attempt, or gives one up.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        let what = match &self.state {
            State::Waiting { .. } => {
                self.visited.clear();
                let asked = self.turn.checked_sub(1).and_then(|turn| self.alternates.get(turn));
                self.connect(asked.unwrap_or(&self.source).clone(), now);
                return;
            }
            State::Connecting { .. } => "no connection",
            State::Head { .. } => "no whole answer",
            State::Body(_) => "no byte of the stream",
        };
        self.fail(PullError::Silent { what, time: self.policy.silence_timeout }, now);
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now: Time) {
        let (State::Connecting { .. }, Some(url)) = (&self.state, self.visited.last()) else { return };
        // Nothing but what we can read: else a cache on the way might compress.
        let mut request = url.request(Method::Get).with_header("Accept-Encoding", CONTENT_CODING);
        if let Some(via) = &self.via {
            request = request.with_header("Via", via);
        }
        if let Some(limit) = self.hops_limit {
            request = request.with_header(HOPS_FIELD, &limit.to_string());
        }
        let client = Box::new(request.client(Limits::DEFAULT));
        self.outputs.push_back(Output::Send(request.without_body()));
        self.state = State::Head { since: now, client };
    }

    /// The connection could not be opened, broke, or what came could not be published.
    pub fn handle_failure(&mut self, error: PullError, now: Time) {
        if !matches!(self.state, State::Waiting { .. }) {
            self.fail(error, now);
        }
    }

    /// The upstream has ended the connection.
    pub fn handle_end(&mut self, now: Time) {
        let error = match &self.state {
            State::Waiting { .. } => return,
            State::Connecting { .. } => PullError::Lost("it was closed".into()),
            State::Head { client, .. } => client.end().map_or_else(PullError::Http, |()| PullError::Ended),
            State::Body(body) => body.client.end().map_or_else(PullError::Http, |()| PullError::Ended),
        };
        self.fail(error, now);
    }

    /// Takes bytes from the upstream, in any chop, and emits what they say, in order.
    pub fn handle_bytes(&mut self, mut input: &[u8], now: Time, emit: &mut dyn FnMut(Event<'_>)) {
        let head = match &mut self.state {
            State::Head { client, .. } => match client.next(&mut input) {
                Ok(Some(client::Event::Head(head))) => Some(head),
                Ok(_) => return,
                Err(error) => return self.fail(error.into(), now),
            },
            _ => None,
        };
        if let Some(head) = head {
            match self.accept(&head, now) {
                Ok(Some(metacube)) => {
                    let media_type = head.headers.first("content-type");
                    emit(Event::Began { metacube, media_type });
                }
                Ok(None) => return,
                Err(error) => return self.fail(error, now),
            }
        }
        if let Err(error) = self.read_body(input, now, emit) {
            self.fail(error, now);
        }
    }

    fn read_body(
        &mut self,
        mut input: &[u8],
        now: Time,
        emit: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), PullError> {
        let State::Body(body) = &mut self.state else { return Ok(()) };
        while let Some(event) = body.client.next(&mut input)? {
            let mut data = match event {
                client::Event::Data(data) => data,
                client::Event::End => return Err(PullError::Ended),
                client::Event::Head(_) => continue,
            };
            let Some(blocks) = &mut body.blocks else {
                body.newest_byte = now;
                emit(Event::Data(data));
                continue;
            };
            let garbage_before = blocks.garbage_bytes();
            while let Some(event) = blocks.next(&mut data) {
                match event {
                    metacube::Event::Block { size, flags } => emit(Event::Block { size, flags }),
                    metacube::Event::Data(data) => {
                        body.newest_byte = now;
                        emit(Event::Data(data));
                    }
                    metacube::Event::Metadata(metadata) => emit(Event::Metadata(metadata)),
                }
            }
            let garbage = blocks.garbage_bytes().saturating_sub(garbage_before);
            self.counts.garbage_bytes = self.counts.garbage_bytes.saturating_add(garbage);
            if blocks.garbage_run() > GARBAGE_LIMIT_BYTES {
                return Err(PullError::NotMetacube { bytes: blocks.garbage_run() });
            }
        }
        Ok(())
    }

    /// Judges a response's head. `Some` where the stream follows, and whether in blocks; `None` where it sent us on.
    fn accept(&mut self, head: &Head, now: Time) -> Result<Option<bool>, PullError> {
        match head.status {
            200 => {}
            301 | 302 | 303 | 307 | 308 => return self.redirect(head, now).map(|()| None),
            status => return Err(PullError::Status { status }),
        }
        let metacube = match head.headers.first("content-encoding") {
            None => false,
            Some(coding) if coding.eq_ignore_ascii_case("identity") => false,
            Some(coding) if coding.eq_ignore_ascii_case(CONTENT_CODING) => true,
            Some(coding) => return Err(PullError::Encoding { found: coding.chars().take(40).collect() }),
        };
        let state = std::mem::replace(&mut self.state, State::Waiting { until: now });
        let State::Head { client, .. } = state else { return Ok(None) };
        let blocks = metacube.then(metacube::Reader::new);
        self.state = State::Body(Box::new(Body { client, blocks, began: now, newest_byte: now }));
        self.counts.sessions = self.counts.sessions.saturating_add(1);
        self.error = None;
        Ok(Some(metacube))
    }

    fn redirect(&mut self, head: &Head, now: Time) -> Result<(), PullError> {
        let location = head.headers.first("location");
        let location = location.ok_or_else(|| PullError::BadRedirect("it names no Location".into()))?;
        let here = self.visited.last().unwrap_or(&self.source);
        let url = here.redirected(location).map_err(|error| PullError::BadRedirect(error.to_string()))?;
        if self.visited.contains(&url) {
            return Err(PullError::RedirectLoop { url: url.to_string() });
        }
        if self.visited.len() > REDIRECT_LIMIT {
            return Err(PullError::TooManyRedirects { limit: REDIRECT_LIMIT });
        }
        self.counts.redirects = self.counts.redirects.saturating_add(1);
        self.outputs.push_back(Output::Close);
        self.connect(url, now);
        Ok(())
    }

    fn connect(&mut self, url: Url, now: Time) {
        let (host, port, tls) = (url.host().to_owned(), url.port(), url.tls());
        self.outputs.push_back(Output::Connect { host, port, tls });
        self.visited.push(url);
        self.state = State::Connecting { since: now };
    }

    fn fail(&mut self, error: PullError, now: Time) {
        if let State::Body(body) = &self.state
            && body.newest_byte.since(body.began) >= self.policy.good_after
        {
            self.backoff.reset();
            self.failed_in_a_row = 0;
        }
        // Number 0 is the source itself.
        self.turn = if self.turn < self.alternates.len() { self.turn.saturating_add(1) } else { 0 };
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.counts.failures = self.counts.failures.saturating_add(1);
        self.error = Some(error);
        // The outputs for this connection that were not taken are void. It may be open already, and is closed then.
        self.outputs.clear();
        self.outputs.push_back(Output::Close);
        let until = if self.failed_in_a_row <= self.alternates.len() {
            now
        } else {
            self.failed_in_a_row = 0;
            now + self.backoff.fail()
        };
        self.state = State::Waiting { until };
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        match &self.state {
            // The next server is about to be asked.
            State::Waiting { .. } if self.failed_in_a_row > 0 => Phase::Connecting,
            State::Waiting { until } => Phase::Waiting { retry_at: *until },
            State::Connecting { .. } | State::Head { .. } => Phase::Connecting,
            State::Body(_) => Phase::Live,
        }
    }

    /// Why the last attempt failed; `None` before the first failure and while the stream comes.
    pub fn error(&self) -> Option<&PullError> {
        self.error.as_ref()
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
#[path = "puller_tests.rs"]
mod tests;
