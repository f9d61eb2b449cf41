//! A server that takes a stream, from the first attempt on.
//!
//! ```text
//!            connected: head goes out, key frame asked for
//! Connecting ─────────────────────────────────────────────► Open ── key frame comes ──► sends each picture
//!     ▲  └─ failed: Waiting, again after a growing pause ─┘   │  ▲                          │ slower than the stream
//!     │                                                       │  └── key frame comes ◄── leaves pictures out
//!     └───── closed, or nothing taken for too long ───────────┘        an answer of 4xx ends it: Over
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::{Answer, Loss, PushFailure};
use crate::backoff::Backoff;
use crate::http1::client::{self, Client, Head};
use crate::http1::{HttpError, Limits, Method, Url, body};
use crate::stream::Seams;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How patient and how persistent a pusher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What is waited after a first failure, at most.
    pub retry_min: Duration,
    /// What is waited after many, at most. A connection that lasted for longer was a good one.
    pub retry_max: Duration,
    /// How long what was made may wait to be sent; then pictures are left out until it has gone.
    pub behind_after: Duration,
    /// How much may wait.
    pub pending_max_bytes: usize,
    /// How long a connection may take nothing at all.
    pub blocked_max: Duration,
    /// How long the rest of an answer may take, and the answer to the end of the stream.
    pub answer_timeout: Duration,
    /// After a lost connection the server may hold our name for that long: "taken" (409) is then no final answer.
    pub name_held: Duration,
}

impl Policy {
    /// For a live stream, which goes on without the server.
    pub const LIVE: Policy = Policy {
        retry_min: Duration::from_millis(500),
        retry_max: Duration::from_secs(5),
        behind_after: Duration::from_secs(1),
        pending_max_bytes: 8 << 20,
        blocked_max: Duration::from_secs(5),
        answer_timeout: Duration::from_secs(2),
        name_held: Duration::from_secs(15),
    };
    /// For a file, which waits for the server.
    pub const FILE: Policy = Policy { blocked_max: Duration::from_secs(10), ..Policy::LIVE };
}

/// What to do with the server's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection to this host and port, and tell what came of it.
    Connect {
        /// Name or address, of IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
        /// Whether to speak TLS there.
        tls: bool,
    },
    /// Close the connection.
    Close,
}

/// What has happened, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server was reached.
    Connected,
    /// It was not, or is lost.
    Lost {
        /// Why.
        why: Loss,
        /// Until the next attempt.
        retry_in: Duration,
    },
    /// It is slower than the stream: pictures are left out.
    Behind,
    /// Pictures go there again.
    CaughtUp,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They go to the server, so many bytes of whole pictures now.
    Taken(usize),
    /// Nothing goes there now, or nothing that can begin with these.
    Waiting,
    /// They were left out.
    LeftOut,
}

/// What an answer may hold of words.
const ANSWER_MAX_BYTES: usize = 16 << 10;
/// Sent bytes are let go of when there are as many.
const COMPACT_BYTES: usize = 256 << 10;

/// Pushes one stream. Holds what the socket has not taken yet, at most [`Policy::pending_max_bytes`] and a picture.
pub struct Pusher {
    url: Url,
    key: Option<String>,
    policy: Policy,
    backoff: Backoff,
    state: State,
    /// Whether the server has ever been reached.
    was_reached: bool,
    /// When a connection that had carried the stream was lost.
    lost: Option<Time>,
    wants_key_frame: bool,
    outputs: VecDeque<Output>,
    events: VecDeque<Event>,
}

enum State {
    Waiting { until: Time },
    Connecting,
    Open(Box<Connection>),
    Over(Result<(), PushFailure>),
}

struct Connection {
    client: Client,
    reply: Reply,
    /// Whether the key frame with which the stream begins has come.
    started: bool,
    /// What the socket has not taken yet, behind what it has.
    pending: Vec<u8>,
    sent: usize,
    /// Since when something waits, and since when nothing of it was taken.
    waits_since: Option<Time>,
    blocked_since: Option<Time>,
    /// Pictures are left out; what follows the gap is announced on each PID.
    behind: bool,
    seams: Option<Seams>,
    /// What has come of a picture that goes on: it leaves when it is whole, since a relay works picture by picture.
    picture: Vec<u8>,
    opened: Time,
    /// The stream has ended.
    finishing: bool,
}

/// What the server says, as far as it has come.
#[derive(Default)]
struct Reply {
    head: Option<Box<Head>>,
    body: Vec<u8>,
    is_whole: bool,
    /// Why nothing more comes.
    ended: Option<String>,
    /// Why nothing more could be sent.
    failed: Option<String>,
    /// Since when there is something to wait for.
    since: Option<Time>,
}

impl Reply {
    fn take(&mut self, client: &mut Client, mut bytes: &[u8]) -> Result<(), HttpError> {
        while let Some(event) = client.next(&mut bytes)? {
            match event {
                client::Event::Head(head) => self.head = Some(head),
                client::Event::Data(data) => {
                    let room = ANSWER_MAX_BYTES.saturating_sub(self.body.len());
                    self.body.extend(data.iter().take(room));
                }
                client::Event::End => self.is_whole = true,
            }
            if self.is_whole || self.body.len() >= ANSWER_MAX_BYTES {
                self.is_whole = true;
                break;
            }
        }
        Ok(())
    }
}

impl Pusher {
    /// A pusher to `url`; its first attempt is due at once. `key` is what publishers show; `seed` makes its waits differ
    /// from those of others.
    #[must_use]
    pub fn new(url: Url, key: Option<&str>, policy: Policy, seed: u64, now: Time) -> Pusher {
        Pusher {
            url,
            key: key.map(str::to_owned),
            policy,
            backoff: Backoff::new(policy.retry_min, policy.retry_max, seed),
            state: State::Waiting { until: now },
            was_reached: false,
            lost: None,
            wants_key_frame: false,
            outputs: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// What to do next with the socket, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the next picture had better be a key frame; told once.
    pub fn take_demand(&mut self) -> bool {
        std::mem::take(&mut self.wants_key_frame)
    }

    /// Whether there is a connection that takes the stream.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&self.state, State::Open(connection) if connection.reply.since.is_none())
    }

    /// How it has ended, once it has: nothing is done any more.
    #[must_use]
    pub fn result(&self) -> Option<&Result<(), PushFailure>> {
        match &self.state {
            State::Over(result) => Some(result),
            _ => None,
        }
    }

    /// When [`Pusher::handle_timeout`] has something to do. Every other call but the `poll_` ones may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Waiting { until } => Some(*until),
            State::Connecting | State::Over(_) => None,
            State::Open(connection) => {
                // Once an answer comes, or nothing more can be sent, it alone is waited for.
                let answer = connection.reply.since.map(|since| since + self.policy.answer_timeout);
                answer.or_else(|| Some(connection.blocked_since? + self.policy.blocked_max))
            }
        }
    }

    /// The time of [`Pusher::poll_timeout`] may have come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        match &mut self.state {
            State::Waiting { .. } => {
                let (host, port, tls) = (self.url.host().to_owned(), self.url.port(), self.url.tls());
                self.outputs.push_back(Output::Connect { host, port, tls });
                self.state = State::Connecting;
            }
            State::Open(connection) if connection.reply.since.is_none() => {
                connection.expect_end("the server takes nothing of the stream".to_owned(), now);
                if connection.finishing {
                    self.conclude(now);
                }
            }
            State::Open(_) => self.conclude(now),
            State::Connecting | State::Over(_) => {}
        }
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now: Time) {
        if !matches!(self.state, State::Connecting) {
            return;
        }
        let mut request = self.url.request(Method::Put).with_header("Content-Type", "video/mp2t");
        if let Some(key) = &self.key {
            request = request.with_header("Authorization", &format!("Bearer {key}"));
        }
        let client = request.client(Limits::DEFAULT);
        self.state = State::Open(Box::new(Connection {
            client,
            reply: Reply::default(),
            started: false,
            pending: request.chunked(),
            sent: 0,
            waits_since: None,
            blocked_since: None,
            behind: false,
            seams: None,
            picture: Vec::new(),
            opened: now,
            finishing: false,
        }));
        self.was_reached = true;
        self.wants_key_frame = true;
        self.events.push_back(Event::Connected);
    }

    /// There is no connection; `by_tls`: because the server is not trusted.
    pub fn handle_refused(&mut self, why: String, by_tls: bool, now: Time) {
        if !matches!(self.state, State::Connecting) {
            return;
        }
        // What was wrong from the beginning does not mend itself.
        if by_tls && !self.was_reached {
            self.end(Err(PushFailure::Untrusted(why)));
        } else {
            self.retry(Loss::Failed(why), now);
        }
    }

    /// The server's bytes, in any chop.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        let Connection { client, reply, .. } = &mut **connection;
        if reply.is_whole || reply.ended.is_some() {
            return;
        }
        reply.since.get_or_insert(now);
        if let Err(error) = reply.take(client, bytes) {
            reply.ended = Some(format!("the server's answer is not HTTP: {error}"));
            reply.head = None;
        }
        if reply.is_whole || reply.ended.is_some() {
            self.conclude(now);
        }
    }

    /// The connection has ended: closed by the server, or for this reason.
    pub fn handle_end(&mut self, why: Option<String>, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        let why = why.unwrap_or_else(|| "the connection was closed".to_owned());
        connection.reply.ended.get_or_insert(why);
        self.conclude(now);
    }

    /// Nothing more can be sent, for this reason. What the server said before it closed tells more: it may still come.
    pub fn handle_send_failure(&mut self, why: String, now: Time) {
        if let State::Open(connection) = &mut self.state {
            connection.expect_end(why, now);
        }
    }

    /// Takes packets of the stream: whole packets of 188 bytes. A viewer can join where `joinable`; nothing of a picture is
    /// still to come where `ends_picture`.
    pub fn push(&mut self, packets: &[u8], joinable: bool, ends_picture: bool, now: Time) -> Taken {
        let State::Open(connection) = &mut self.state else { return Taken::LeftOut };
        if connection.finishing {
            return Taken::LeftOut;
        }
        if packets.is_empty() && connection.picture.is_empty() {
            // A picture without bytes begins nothing.
            return Taken::Taken(0);
        }
        if !connection.started && !joinable || connection.reply.since.is_some() {
            return Taken::Waiting;
        }
        if joinable {
            self.wants_key_frame = false;
        }
        connection.started = true;
        if connection.behind {
            let is_sent = connection.unsent().is_empty();
            if !is_sent || !joinable {
                // Once what waited has gone, the next picture may as well be one to go on with.
                self.wants_key_frame |= is_sent;
                return Taken::LeftOut;
            }
            connection.behind = false;
            connection.seams = Some(Seams::new());
            self.events.push_back(Event::CaughtUp);
        }
        connection.picture.extend_from_slice(packets);
        if !ends_picture {
            return Taken::Taken(0);
        }
        let bytes = connection.write_picture();
        connection.waits_since.get_or_insert(now);
        connection.blocked_since.get_or_insert(now);
        let waits = connection.waits_since.is_some_and(|since| now.since(since) > self.policy.behind_after);
        if waits || connection.unsent().len() > self.policy.pending_max_bytes {
            connection.behind = true;
            self.events.push_back(Event::Behind);
        }
        Taken::Taken(bytes)
    }

    /// The bytes to send; empty where nothing waits.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        match &self.state {
            State::Open(connection) if connection.reply.failed.is_none() => connection.unsent(),
            _ => &[],
        }
    }

    /// The first `bytes` of [`Pusher::transmit`] were sent; 0 where the socket takes nothing.
    pub fn handle_sent(&mut self, bytes: usize, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        connection.sent = connection.sent.saturating_add(bytes).min(connection.pending.len());
        if connection.unsent().is_empty() {
            connection.pending.clear();
            connection.sent = 0;
            (connection.waits_since, connection.blocked_since) = (None, None);
            if connection.finishing {
                connection.reply.since.get_or_insert(now);
            }
            return;
        }
        if bytes > 0 {
            connection.blocked_since = None;
        }
        if connection.sent >= COMPACT_BYTES {
            connection.pending.drain(..connection.sent);
            connection.sent = 0;
        }
        connection.waits_since.get_or_insert(now);
        connection.blocked_since.get_or_insert(now);
    }

    /// The stream has ended. `hurried`: the user wants to end, and a server that is not there is not missed.
    /// [`Pusher::result`] tells how that went once the server has answered, or was given its time.
    pub fn finish(&mut self, hurried: bool, now: Time) {
        match &mut self.state {
            State::Over(_) => {}
            State::Waiting { .. } | State::Connecting => {
                self.end(if hurried { Ok(()) } else { Err(PushFailure::NotReached) });
            }
            // Said again, it is no other end; and where the answer has begun, nothing more is sent.
            State::Open(connection) if connection.finishing || connection.reply.since.is_some() => {
                connection.finishing = true;
            }
            State::Open(connection) => {
                if !connection.picture.is_empty() {
                    connection.write_picture();
                }
                connection.pending.extend_from_slice(body::LAST_CHUNK);
                connection.waits_since.get_or_insert(now);
                connection.blocked_since.get_or_insert(now);
                connection.finishing = true;
            }
        }
    }

    /// The server has answered, has gone, or was given enough time.
    fn conclude(&mut self, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        let (finishing, all_sent) = (connection.finishing, connection.unsent().is_empty());
        let Reply { head, body, ended, failed, .. } = std::mem::take(&mut connection.reply);
        let answer = head.map(|head| Answer {
            status: head.status,
            reason: head.reason,
            location: head.headers.first("Location").map(str::to_owned),
            body,
        });
        let gone = failed.clone().or(ended).unwrap_or_else(|| "no answer came".to_owned());
        if finishing {
            self.outputs.push_back(Output::Close);
            return self.end(match answer {
                Some(answer) if answer.status >= 300 => Err(PushFailure::RefusedAtEnd(answer)),
                Some(_) => Ok(()),
                None if all_sent && failed.is_none() => Ok(()),
                None => Err(PushFailure::Unfinished(gone)),
            });
        }
        let Some(answer) = answer else { return self.lose(Loss::Failed(gone), now) };
        let name_held =
            answer.status == 409 && self.lost.is_some_and(|lost| now.since(lost) < self.policy.name_held);
        match answer.status {
            300..=399 => self.end(Err(PushFailure::Moved(answer))),
            // Too slow, too many: these pass.
            400..=499 if !name_held && !matches!(answer.status, 408 | 429) => {
                self.end(Err(PushFailure::Refused(answer)));
            }
            _ => self.lose(Loss::Answered(answer), now),
        }
    }

    /// Gives the connection up, and tries again later.
    fn lose(&mut self, why: Loss, now: Time) {
        if let State::Open(connection) = &self.state {
            if connection.started {
                self.lost = Some(now);
            }
            // A server that takes the stream and drops it at once is not asked every half second for ever.
            if now.since(connection.opened) > self.policy.retry_max {
                self.backoff.reset();
            }
        }
        self.outputs.push_back(Output::Close);
        self.retry(why, now);
    }

    fn retry(&mut self, why: Loss, now: Time) {
        let retry_in = self.backoff.fail();
        self.events.push_back(Event::Lost { why, retry_in });
        self.state = State::Waiting { until: now + retry_in };
    }

    fn end(&mut self, result: Result<(), PushFailure>) {
        if matches!(self.state, State::Open(_)) && self.outputs.back() != Some(&Output::Close) {
            self.outputs.push_back(Output::Close);
        }
        self.state = State::Over(result);
    }
}

impl Connection {
    fn unsent(&self) -> &[u8] {
        self.pending.get(self.sent..).unwrap_or_default()
    }

    /// Makes a chunk of the picture. Returns its bytes.
    fn write_picture(&mut self) -> usize {
        if let Some(seams) = &mut self.seams {
            seams.announce(&mut self.picture);
        }
        body::write_chunk(&self.picture, &mut self.pending);
        let bytes = self.picture.len();
        self.picture.clear();
        bytes
    }

    fn expect_end(&mut self, why: String, now: Time) {
        self.reply.since.get_or_insert(now);
        self.reply.failed.get_or_insert(why);
    }
}

#[cfg(test)]
#[path = "pusher_tests.rs"]
mod tests;
