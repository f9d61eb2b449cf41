//! A chunked PUT to a server, one chunk an access unit (however many slices it comes in), begun anew at a key frame whenever the connection is lost.
//!
//! ```text
//!            connected: head goes out, key frame asked for
//! Connecting ─────────────────────────────────────────────► Open ── key frame comes ──► sends each unit
//!     ▲  └─ failed: again after a growing pause ─┘            │
//!     └───── closed, or slower than the stream for 3 s ───────┘        an answer of 4xx ends the command
//! ```
//! A live stream goes on meanwhile, without this output; a file waits for the server.

use super::Sink;
use crate::encode::output::Address;
use crate::encode::pipeline::{Demand, Packets};
use crate::encode::queue::Queue;
use crate::failure;
use anyhow::Result;
use glassline_delivery::http1::client::{Client, Event, Head, Request};
use glassline_delivery::http1::{Limits, Method, body};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may take less than the stream gives; with [`MAX_PENDING_BYTES`] the bound of what waits.
const MAX_BLOCKED: Duration = Duration::from_secs(3);
const MAX_PENDING_BYTES: usize = 8 << 20;
/// How long a file's encoder waits for a server that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the rest of an answer may take, and the answer to the end of the stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a file that waits for a server looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// After a lost connection the server may hold our name for that long: "taken" (409) is then no final answer.
const NAME_HELD: Duration = Duration::from_secs(15);

/// One stream to one server.
pub(super) struct Http {
    address: Address,
    name: String,
    request: Request,
    queue: Arc<Queue>,
    state: State,
    pause: Duration,
    /// When a connection that had carried the stream was lost.
    lost: Option<Instant>,
}

enum State {
    Connecting(Receiver<io::Result<TcpStream>>),
    Open(Connection),
}

struct Connection {
    stream: TcpStream,
    client: Client,
    /// Whether the key frame with which the stream begins has gone out.
    started: bool,
    /// What has come of a picture that goes on: it leaves when it is whole, since a relay works picture by picture.
    picture: Vec<u8>,
    /// What the kernel has not taken yet.
    pending: Vec<u8>,
    blocked_since: Option<Instant>,
    opened: Instant,
}

/// What the server said, or that it just went.
enum Answer {
    Said { head: Box<Head>, text: String },
    Gone(String),
}

impl Http {
    /// Begins to connect. What fails is told and tried again.
    pub(super) fn open(address: &Address, target: &str, key: Option<&str>, queue: &Arc<Queue>) -> Http {
        let mut request =
            Request::new(Method::Put, &address.to_string(), target).with_header("Content-Type", "video/mp2t");
        if let Some(key) = key {
            request = request.with_header("Authorization", &format!("Bearer {key}"));
        }
        Http {
            name: format!("http://{address}{target}"),
            request,
            queue: Arc::clone(queue),
            state: State::Connecting(connect(address.clone(), Duration::ZERO)),
            address: address.clone(),
            pause: FIRST_PAUSE,
            lost: None,
        }
    }

    /// Whether the source waits for the server.
    fn is_patient(&self) -> bool {
        !self.queue.is_live() && !self.queue.is_stopped()
    }

    /// Whether the connection was opened by this call; `None` where there is none.
    fn connected(&mut self) -> Option<bool> {
        loop {
            let State::Connecting(result) = &self.state else { return Some(false) };
            let patient = self.is_patient();
            let result = match result.recv_timeout(if patient { STOP_INTERVAL } else { Duration::ZERO }) {
                Err(RecvTimeoutError::Timeout) if patient => continue,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the connecting thread ended")),
                Ok(result) => result.and_then(|stream| self.start(stream)),
            };
            match result {
                Ok(connection) => {
                    tracing::info!("publishing to {}", self.name);
                    self.state = State::Open(connection);
                    return Some(true);
                }
                Err(error) => self.connect_again(&error.to_string()),
            }
        }
    }

    fn start(&self, mut stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.write_all(&self.request.clone().chunked())?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            client: self.request.client(Limits::DEFAULT),
            started: false,
            picture: Vec::new(),
            pending: Vec::new(),
            blocked_since: None,
            opened: Instant::now(),
        })
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
        tracing::warn!("{}: {why}; trying again in {:.1} s", self.name, self.pause.as_secs_f64());
        self.state = State::Connecting(connect(self.address.clone(), self.pause));
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
                let message = format_args!("{}: {said}", self.name);
                Err(failure::failed(message, format_args!("publish to {location}")))
            }
            // Too slow, too many: these pass.
            400..=499 if !name_held && !matches!(head.status, 408 | 429) => {
                let advice = match head.status {
                    401 | 403 => "give the server's key by --publish-key-file",
                    409 => "choose another name, or take it over with ?takeover=1",
                    _ => "correct the address",
                };
                Err(failure::failed(format_args!("{}: {said}", self.name), advice))
            }
            _ => {
                self.connect_again(&said);
                Ok(())
            }
        }
    }
}

/// Connects after `pause` in a thread of its own, since names and hosts may take their time.
fn connect(address: Address, pause: Duration) -> Receiver<io::Result<TcpStream>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        thread::sleep(pause);
        let attempt = || {
            let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
            for address in (address.host.as_str(), address.port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        };
        // Nobody receives where the command has ended meanwhile.
        let _ = sender.send(attempt());
    });
    receiver
}

impl Sink for Http {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let Some(opened) = self.connected() else { return Ok(Demand::Nothing) };
        let patient = self.is_patient();
        let State::Open(connection) = &mut self.state else { return Ok(Demand::Nothing) };
        if let Some(answer) = connection.answer() {
            self.ended(answer)?;
            return Ok(Demand::Nothing);
        }
        if !connection.started && !packets.joinable {
            return Ok(if opened { Demand::KeyFrame } else { Demand::Nothing });
        }
        connection.started = true;
        connection.picture.extend_from_slice(packets.bytes);
        if !packets.ends_picture {
            return Ok(Demand::Nothing);
        }
        body::write_chunk(&connection.picture, &mut connection.pending);
        connection.picture.clear();
        if let Err(why) = connection.send(patient) {
            // What the server said before it closed tells more than the broken pipe.
            let answer = connection.last_answer().unwrap_or(Answer::Gone(why));
            self.ended(answer)?;
        }
        Ok(Demand::Nothing)
    }

    fn finish(&mut self) -> Result<()> {
        let stopped = self.queue.is_stopped();
        let State::Open(connection) = &mut self.state else {
            if stopped {
                return Ok(());
            }
            let advice = "start the server, then publish again";
            return Err(failure::failed(format_args!("{} was not reached at the end", self.name), advice));
        };
        connection.pending.extend_from_slice(body::LAST_CHUNK);
        let sent = connection.send(true);
        match (connection.last_answer(), sent) {
            (Some(Answer::Said { head, text }), _) if head.status >= 300 => {
                let message = format_args!("{}: {} {}{text}", self.name, head.status, head.reason);
                Err(failure::failed(message, "see what the server says"))
            }
            (Some(Answer::Said { .. }), _) | (_, Ok(())) => Ok(()),
            (_, Err(why)) => Err(failure::failed(
                format_args!("{}: {why}", self.name),
                "the end of the stream is missing there",
            )),
        }
    }
}

impl Connection {
    /// Hands to the kernel what it takes. A `patient` one waits until it has taken all; otherwise the rest goes out
    /// with the next unit.
    fn send(&mut self, patient: bool) -> Result<(), String> {
        let mut sent = 0;
        let begun = Instant::now();
        while sent < self.pending.len() {
            match self.stream.write(&self.pending[sent..]) {
                Ok(0) => return Err("the connection is closed".to_owned()),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !patient || begun.elapsed() > PATIENCE {
                        break;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        self.pending.drain(..sent);
        if self.pending.is_empty() {
            self.blocked_since = None;
            return Ok(());
        }
        let since = *self.blocked_since.get_or_insert(begun);
        if patient || since.elapsed() > MAX_BLOCKED || self.pending.len() > MAX_PENDING_BYTES {
            return Err("the server takes the stream more slowly than it is made".to_owned());
        }
        Ok(())
    }

    /// What the server said, if it spoke or closed. Does not wait where it did neither.
    fn answer(&mut self) -> Option<Answer> {
        match self.stream.peek(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            _ => Some(
                self.last_answer().unwrap_or_else(|| Answer::Gone("the connection was closed".to_owned())),
            ),
        }
    }

    /// Reads the answer to its end, for a short time. `None` where there is none.
    fn last_answer(&mut self) -> Option<Answer> {
        self.stream.set_nonblocking(false).ok()?;
        self.stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let (mut answer, mut body) = (None, Vec::new());
        let mut buffer = [0; 4096];
        'reading: while Instant::now() < deadline && body.len() < MAX_ANSWER_BYTES {
            let length = match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(length) => length,
            };
            let mut bytes = &buffer[..length];
            loop {
                match self.client.next(&mut bytes) {
                    Ok(Some(Event::Head(head))) => answer = Some(head),
                    Ok(Some(Event::Data(data))) => body.extend_from_slice(data),
                    Ok(Some(Event::End)) => break 'reading,
                    Ok(None) => break,
                    Err(error) => {
                        return Some(Answer::Gone(format!("the server's answer is not HTTP: {error}")));
                    }
                }
            }
        }
        answer.map(|head| Answer::Said { text: explanation(&body), head })
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
