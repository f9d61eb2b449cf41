//! A chunked PUT to a server, a chunk for each picture or sound, begun anew at a key frame whenever the connection is lost.
//!
//! ```text
//!            connected: head goes out, key frame asked for
//! Connecting ─────────────────────────────────────────────► Open ── key frame comes ──► sends each one
//!     ▲  └─ failed: again after a growing pause ─┘            │  ▲                          │ slower than the stream
//!     │                                                       │  └── key frame comes ◄── leaves pictures out
//!     └───── closed, or nothing taken for 5 s ────────────────┘        an answer of 4xx ends the output
//! ```
//! A live stream goes on meanwhile, without this output; a file waits for the server.

use super::connect::connect;
use super::{Board, Sink, State as Doing};
use crate::encode::output::{Address, Server};
use crate::encode::pipeline::{Demand, Packets};
use crate::encode::queue::Queue;
use crate::failure;
use anyhow::Result;
use glassline_delivery::http1::client::{Client, Event, Head, Request};
use glassline_delivery::http1::{Limits, Method, body};
use glassline_delivery::stream::Seams;
use glassline_io::client::{Refused, Wire};
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long what was made may wait to be sent; then pictures are left out until it has gone.
const MAX_BEHIND: Duration = Duration::from_secs(1);
const MAX_PENDING_BYTES: usize = 8 << 20;
/// How long a connection may take nothing at all.
const MAX_BLOCKED: Duration = Duration::from_secs(5);
/// How long a file's encoder waits for a server that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the rest of an answer may take, and the answer to the end of the stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a file that waits for a server looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
const STEP: Duration = Duration::from_millis(1);
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// After a lost connection the server may hold our name for that long: "taken" (409) is then no final answer.
const NAME_HELD: Duration = Duration::from_secs(15);

/// One stream to one server.
pub(super) struct Http {
    address: Address,
    connector: Option<Connector>,
    request: Request,
    queue: Arc<Queue>,
    state: State,
    pause: Duration,
    /// Whether a server has ever been reached.
    was_reached: bool,
    /// When a connection that had carried the stream was lost.
    lost: Option<Instant>,
    board: Arc<Board>,
}

enum State {
    Connecting(Receiver<Result<Wire, Refused>>),
    Open(Box<Connection>),
}

struct Connection {
    wire: Wire,
    reply: Reply,
    /// Whether the key frame with which the stream begins has gone out.
    started: bool,
    /// What the socket has not taken yet.
    pending: Vec<u8>,
    /// Since when something waits, and since when nothing of it was taken.
    waits_since: Option<Instant>,
    blocked_since: Option<Instant>,
    /// Pictures are left out; what follows the gap is announced on each PID.
    behind: bool,
    seams: Option<Seams>,
    /// What has come of a picture that goes on: it leaves when it is whole, since a relay works picture by picture.
    picture: Vec<u8>,
    opened: Instant,
}

/// What the server says, as far as it has come.
struct Reply {
    client: Client,
    head: Option<Box<Head>>,
    body: Vec<u8>,
    is_whole: bool,
    /// Why nothing more comes.
    ended: Option<String>,
    /// Why nothing more could be sent.
    failed: Option<String>,
    since: Option<Instant>,
    buffer: Vec<u8>,
}

/// What the server said, or that it just went.
enum Answer {
    Said { head: Box<Head>, text: String },
    Gone(String),
}

impl Http {
    /// Begins to connect. What fails is told and tried again.
    pub(super) fn open(
        server: &Server,
        connector: Option<Connector>,
        key: Option<&str>,
        queue: &Arc<Queue>,
        board: Arc<Board>,
    ) -> Http {
        let Server { address, target, .. } = server;
        let mut request =
            Request::new(Method::Put, &address.to_string(), target).with_header("Content-Type", "video/mp2t");
        if let Some(key) = key {
            request = request.with_header("Authorization", &format!("Bearer {key}"));
        }
        board.set(Doing::Connecting);
        Http {
            request,
            queue: Arc::clone(queue),
            state: State::Connecting(connect(address.clone(), connector.clone(), Duration::ZERO)),
            connector,
            address: address.clone(),
            pause: FIRST_PAUSE,
            was_reached: false,
            lost: None,
            board,
        }
    }

    fn name(&self) -> &str {
        &self.board.name
    }

    /// Whether the source waits for the server.
    fn is_patient(&self) -> bool {
        !self.queue.is_live() && !self.queue.is_stopped()
    }

    /// Whether the connection was opened by this call; `None` where there is none.
    ///
    /// # Errors
    /// Where the server is not who it should be.
    fn connected(&mut self) -> Result<Option<bool>> {
        loop {
            let State::Connecting(result) = &self.state else { return Ok(Some(false)) };
            let patient = self.is_patient();
            let result = match result.recv_timeout(if patient { STOP_INTERVAL } else { Duration::ZERO }) {
                Err(RecvTimeoutError::Timeout) if patient => continue,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    Err(Refused::plain(io::Error::other("the connecting thread ended")))
                }
                Ok(result) => result.and_then(|wire| self.start(wire).map_err(Refused::plain)),
            };
            match result {
                Ok(connection) => {
                    tracing::info!("publishing to {}", self.name());
                    self.was_reached = true;
                    self.board.set(Doing::Sending);
                    self.state = State::Open(Box::new(connection));
                    return Ok(Some(true));
                }
                // What was wrong from the beginning does not mend itself.
                Err(Refused { error, by_tls: true }) if !self.was_reached => {
                    let advice =
                        "give the file with its authority's certificate by --ca, or correct the address";
                    return Err(failure::failed(format_args!("{}: {error}", self.name()), advice));
                }
                Err(Refused { error, .. }) => self.connect_again(&error.to_string()),
            }
        }
    }

    fn start(&self, wire: Wire) -> io::Result<Connection> {
        let mut connection = Connection {
            wire,
            reply: Reply {
                client: self.request.client(Limits::DEFAULT),
                head: None,
                body: Vec::new(),
                is_whole: false,
                ended: None,
                failed: None,
                since: None,
                buffer: vec![0; READ_BYTES_MIN],
            },
            started: false,
            pending: self.request.clone().chunked(),
            waits_since: None,
            blocked_since: None,
            behind: false,
            seams: None,
            picture: Vec::new(),
            opened: Instant::now(),
        };
        connection.write()?;
        Ok(connection)
    }

    fn connect_again(&mut self, why: &str) {
        if let State::Open(connection) = &self.state {
            if connection.started {
                self.lost = Some(Instant::now());
            }
            // A server that takes the stream and drops it at once is not asked every half second for ever.
            if connection.opened.elapsed() > LONGEST_PAUSE {
                self.pause = FIRST_PAUSE;
            }
        }
        tracing::warn!("{}: {why}; trying again in {:.1} s", self.name(), self.pause.as_secs_f64());
        self.board.set(Doing::Connecting);
        self.state = State::Connecting(connect(self.address.clone(), self.connector.clone(), self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Acts on the end of a connection: an error where trying again would not help.
    fn ended(&mut self, answer: Answer) -> Result<()> {
        let (head, text) = match answer {
            Answer::Gone(why) => {
                self.connect_again(&why);
                return Ok(());
            }
            Answer::Said { head, text } => (head, text),
        };
        let said = format!("the server answered {} {}{text}", head.status, head.reason);
        let name_held = head.status == 409 && self.lost.is_some_and(|lost| lost.elapsed() < NAME_HELD);
        match head.status {
            300..=399 => {
                let location = head.headers.first("Location").unwrap_or("elsewhere");
                let message = format_args!("{}: {said}", self.name());
                Err(failure::failed(message, format_args!("publish to {location}")))
            }
            // Too slow, too many: these pass.
            400..=499 if !name_held && !matches!(head.status, 408 | 429) => {
                let advice = match head.status {
                    401 | 403 => "give the server's key by --publish-key-file",
                    409 => "choose another name, or take it over with ?takeover=1",
                    _ => "correct the address",
                };
                Err(failure::failed(format_args!("{}: {said}", self.name()), advice))
            }
            _ => {
                self.connect_again(&said);
                Ok(())
            }
        }
    }
}

impl Sink for Http {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let Some(opened) = self.connected()? else {
            self.board.left_out();
            return Ok(Demand::Nothing);
        };
        let patient = self.is_patient();
        let State::Open(connection) = &mut self.state else { return Ok(Demand::Nothing) };
        if let Some(answer) = connection.reply.poll(&mut connection.wire) {
            self.ended(answer)?;
            return Ok(Demand::Nothing);
        }
        if !connection.started && !packets.joinable || connection.reply.since.is_some() {
            return Ok(if opened { Demand::KeyFrame } else { Demand::Nothing });
        }
        connection.started = true;
        let demand = connection.take(packets, &self.board);
        if let Err(why) = connection.send(patient) {
            // What the server said before it closed tells more than the broken pipe.
            connection.reply.expect_end(why);
            if patient {
                let answer = connection.reply.last(&mut connection.wire);
                self.ended(answer)?;
            }
        }
        Ok(demand)
    }

    fn finish(&mut self) -> Result<()> {
        let stopped = self.queue.is_stopped();
        let State::Open(connection) = &mut self.state else {
            if stopped {
                return Ok(());
            }
            let advice = "start the server, then publish again";
            let message = format_args!("{} was not reached at the end", self.name());
            return Err(failure::failed(message, advice));
        };
        if !connection.picture.is_empty() {
            body::write_chunk(&std::mem::take(&mut connection.picture), &mut connection.pending);
        }
        connection.pending.extend_from_slice(body::LAST_CHUNK);
        let sent = connection.send(true);
        let answer = connection.reply.last(&mut connection.wire);
        connection.wire.end();
        match (answer, sent) {
            (Answer::Said { head, text }, _) if head.status >= 300 => {
                let message = format_args!("{}: {} {}{text}", self.name(), head.status, head.reason);
                Err(failure::failed(message, "see what the server says"))
            }
            (Answer::Said { .. }, _) | (_, Ok(())) => Ok(()),
            (_, Err(why)) => Err(failure::failed(
                format_args!("{}: {why}", self.name()),
                "the end of the stream is missing there",
            )),
        }
    }
}

impl Connection {
    /// Puts the packets behind what waits, or leaves them out where the server is slower than the stream.
    fn take(&mut self, packets: &Packets<'_>, board: &Board) -> Demand {
        if self.behind {
            if !self.pending.is_empty() || !packets.joinable {
                board.left_out();
                // Once what waited has gone, the next picture may as well be one to go on with.
                return if self.pending.is_empty() { Demand::KeyFrame } else { Demand::Nothing };
            }
            self.behind = false;
            self.seams = Some(Seams::new());
            board.set(Doing::Sending);
        }
        self.picture.extend_from_slice(packets.bytes);
        if !packets.ends_picture {
            return Demand::Nothing;
        }
        if let Some(seams) = &mut self.seams {
            seams.announce(&mut self.picture);
        }
        body::write_chunk(&self.picture, &mut self.pending);
        board.sent(self.picture.len());
        self.picture.clear();
        let waits = self.waits_since.is_some_and(|since| since.elapsed() > MAX_BEHIND);
        if waits || self.pending.len() > MAX_PENDING_BYTES {
            self.behind = true;
            board.set(Doing::Behind);
            tracing::warn!("{}: slower than the stream; pictures are left out there", board.name);
        }
        Demand::Nothing
    }

    /// Hands to the socket what it takes.
    fn write(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.pending.len() {
            match self.wire.write(&self.pending[sent..])? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(bytes) => sent += bytes,
                None => break,
            }
        }
        self.pending.drain(..sent);
        if sent > 0 {
            self.blocked_since = None;
        }
        if self.pending.is_empty() {
            self.waits_since = None;
            self.blocked_since = None;
            self.wire.flush()?;
        } else {
            let now = Instant::now();
            self.waits_since.get_or_insert(now);
            self.blocked_since.get_or_insert(now);
        }
        Ok(())
    }

    /// The same; a `patient` one waits until all is taken, otherwise the rest goes out with the next run.
    fn send(&mut self, patient: bool) -> Result<(), String> {
        let limit = if patient { PATIENCE } else { MAX_BLOCKED };
        loop {
            self.write().map_err(|error| error.to_string())?;
            if self.blocked_since.is_some_and(|since| since.elapsed() > limit) {
                return Err("the server takes nothing of the stream".to_owned());
            }
            if !patient || self.pending.is_empty() && self.wire.flush().map_err(|error| error.to_string())? {
                return Ok(());
            }
            thread::sleep(STEP);
        }
    }
}

impl Reply {
    /// What the server said, once it has said it all, or is given no more time. Does not wait.
    fn poll(&mut self, wire: &mut Wire) -> Option<Answer> {
        while self.ended.is_none() && !self.is_whole {
            match wire.read(&mut self.buffer) {
                Ok(None) => break,
                Ok(Some(0)) => self.ended = Some("the connection was closed".to_owned()),
                Ok(Some(count)) => {
                    self.since.get_or_insert_with(Instant::now);
                    if let Err(error) = self.take(count) {
                        self.ended = Some(format!("the server's answer is not HTTP: {error}"));
                        self.head = None;
                    }
                }
                Err(error) => self.ended = Some(error.to_string()),
            }
        }
        let is_late = self.since.is_some_and(|since| since.elapsed() > ANSWER_TIMEOUT);
        if self.ended.is_none() && !self.is_whole && !is_late {
            return None;
        }
        Some(match self.head.take() {
            Some(head) => Answer::Said { text: explanation(&self.body), head },
            None => {
                let why = self.failed.take().or(self.ended.take());
                Answer::Gone(why.unwrap_or_else(|| "no answer came".to_owned()))
            }
        })
    }

    fn take(&mut self, count: usize) -> Result<(), glassline_delivery::http1::HttpError> {
        let mut bytes = &self.buffer[..count];
        while let Some(event) = self.client.next(&mut bytes)? {
            match event {
                Event::Head(head) => self.head = Some(head),
                Event::Data(data) => self.body.extend_from_slice(data),
                Event::End => self.is_whole = true,
            }
            if self.is_whole || self.body.len() >= MAX_ANSWER_BYTES {
                self.is_whole = true;
                break;
            }
        }
        Ok(())
    }

    /// The connection has failed; what the server may have said before is still read for a while.
    fn expect_end(&mut self, why: String) {
        self.since.get_or_insert_with(Instant::now);
        self.failed.get_or_insert(why);
    }

    /// Waits for what the server says to the end of the stream.
    fn last(&mut self, wire: &mut Wire) -> Answer {
        self.since = Some(Instant::now());
        loop {
            if let Some(answer) = self.poll(wire) {
                return answer;
            }
            thread::sleep(STEP);
        }
    }
}

/// What a body says in words: title and detail of problem details (RFC 9457), or a text's first line.
fn explanation(body: &[u8]) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let field = |name: &str| problem.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let words = match (field("title"), field("detail")) {
        (Some(title), Some(detail)) => format!("{title}: {detail}"),
        (title, detail) => title.or(detail).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(body);
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
            if line.starts_with(['<', '{']) { String::new() } else { line.chars().take(300).collect() }
        }),
    };
    let words: String = words.chars().filter(|character| !character.is_control()).collect();
    if words.is_empty() { words } else { format!(" ({words})") }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
