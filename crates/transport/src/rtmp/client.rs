//! A client's side of a connection on which it publishes one stream (Adobe RTMP 1.0, sections 5 and 7; Enhanced RTMP v2, "Enhancing
//! NetConnection connect Command").
//!
//! ```text
//! handshake ─► connect ─► releaseStream, FCPublish, createStream ─► publish ─► onMetaData, media … ─► FCUnpublish, deleteStream
//! ```
//! Each step waits for its answer, and no longer than a deadline. `releaseStream` and `FCPublish` are in no specification: services
//! want them, as Flash Media Live Encoder sent them, and what is answered to these two counts for nothing.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::address::Address;
use super::amf0::{self, Value, object};
use super::chunk::{ChunkError, ChunkReader, ChunkWriter, Message};
use super::handshake::{ClientHandshake, HandshakeError, RANDOM_BYTES};
use super::message::{self, number};
use super::metadata::shortened;
use super::sent::{self, AUDIO, COMMANDS, CONTROL, OF_STREAM, VIDEO, WINDOW_BYTES};
use glassline_media::Time;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// How long the handshake, and each answer, may take.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of messages that are not whole. Servers send commands.
const LIMIT: usize = 64 << 10;
/// A redirect is no longer than an address.
const REDIRECT_MAX: usize = 2048;
/// Numbers of commands, by which they are answered.
const CONNECT: f64 = 1.0;
const RELEASE: f64 = 2.0;
const FC_PUBLISH: f64 = 3.0;
const CREATE: f64 = 4.0;
const PUBLISH: f64 = 5.0;
const UNPUBLISH: f64 = 6.0;
const DELETE: f64 = 7.0;
/// The letters of codecs that a client of Enhanced RTMP says it may send.
const CODECS: [&str; 6] = ["hvc1", "av01", "avc1", "Opus", "ac-3", "ec-3"];
/// What the client says it is: some servers look for the name that live encoders have had.
const AGENT: &str = concat!("FMLE/3.0 (compatible; Glassline/", env!("CARGO_PKG_VERSION"), ")");

/// What an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// S1 and S2.
    Handshake,
    /// The application.
    Connect,
    /// A message stream.
    CreateStream,
    /// `NetStream.Publish.Start`.
    Publish,
    /// None: the stream is published.
    Published,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Handshake => "the handshake",
            Step::Connect => "connect",
            Step::CreateStream => "createStream",
            Step::Publish => "publish",
            Step::Published => "media",
        })
    }
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server does not speak RTMP.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// What it sends are no chunks.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// It does not answer.
    #[error("no answer to {step} within {} s", STEP_TIMEOUT.as_secs())]
    NoAnswer {
        /// What is not answered.
        step: Step,
    },
    /// It does not take the stream. Words of the server, without the stream key.
    #[error("{step} was refused: {words}")]
    Refused {
        /// What was refused.
        step: Step,
        /// The code and the description that it gives.
        words: String,
    },
    /// It has ended the stream.
    #[error("the server has ended the stream: {words}")]
    Ended {
        /// The code and the description that it gives.
        words: String,
    },
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The stream is published from here on: media may be sent.
    Published,
    /// The server wants the stream elsewhere (`ex.code` 302 of a rejected `connect`): [`Address::redirected`] reads where. The
    /// connection is over.
    Redirected(String),
}

/// What was answered, and what came that need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Bytes that came.
    pub bytes: u64,
    /// Messages that came.
    pub messages: u64,
    /// Messages that are not known, cannot be read, or answer nothing.
    pub ignored: u64,
}

#[derive(Debug)]
enum State {
    Handshake(ClientHandshake),
    Open,
}

/// A client's side of a connection: see the module.
#[derive(Debug)]
pub struct ClientSession {
    address: Address,
    state: State,
    step: Step,
    deadline: Time,
    reader: ChunkReader,
    writer: ChunkWriter,
    /// The message stream that the server has given.
    stream: u32,
    /// The letters of codecs that the server lists; `None` where it lists none.
    listed: Option<Vec<String>>,
    /// After how many bytes an acknowledgement is wanted, and how many have come since the last.
    window: Option<u32>,
    unacknowledged: u32,
    /// The window that the server was told last.
    told_window: u32,
    out: Vec<u8>,
    events: VecDeque<ClientEvent>,
    counters: ClientCounters,
}

impl ClientSession {
    /// Before the first byte of the server; the client's own first ones are in [`ClientSession::take_output`]. `random` are random
    /// bytes for the handshake.
    pub fn new(address: Address, random: &[u8; RANDOM_BYTES], now: Time) -> ClientSession {
        let mut out = Vec::new();
        let handshake = ClientHandshake::begin(random, &mut out);
        ClientSession {
            address,
            state: State::Handshake(handshake),
            step: Step::Handshake,
            deadline: now + STEP_TIMEOUT,
            reader: ChunkReader::new(LIMIT),
            writer: ChunkWriter::default(),
            stream: 0,
            listed: None,
            window: None,
            unacknowledged: 0,
            told_window: WINDOW_BYTES,
            out,
            events: VecDeque::new(),
            counters: ClientCounters::default(),
        }
    }

    /// Takes bytes up to the next event; the rest stays in `bytes`. Returns `None` where all of them are taken. What is to
    /// send stands in [`ClientSession::take_output`] afterwards.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn push(&mut self, bytes: &mut &[u8], now: Time) -> Result<Option<ClientEvent>, ClientError> {
        let before = bytes.len();
        let pushed = self.take(bytes, now);
        let taken = u32::try_from(before.saturating_sub(bytes.len())).unwrap_or(u32::MAX);
        self.counters.bytes = self.counters.bytes.saturating_add(taken.into());
        self.unacknowledged = self.unacknowledged.saturating_add(taken);
        self.acknowledge();
        pushed
    }

    /// What is to send, and has not been taken before.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// When [`ClientSession::handle_timeout`] ends the connection; [`Time::NEVER`] where the stream is published.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        self.deadline
    }

    /// A time that [`ClientSession::poll_timeout`] told has come.
    ///
    /// # Errors
    /// What was not answered in time.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), ClientError> {
        if now >= self.deadline { Err(ClientError::NoAnswer { step: self.step }) } else { Ok(()) }
    }

    /// What an answer is waited for.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Whether the server lists these letters among the codecs that it takes; `None` where it lists none (Enhanced RTMP v2,
    /// `fourCcList`, `videoFourCcInfoMap`, `audioFourCcInfoMap`).
    pub fn lists(&self, letters: &str) -> Option<bool> {
        let listed = self.listed.as_ref()?;
        Some(listed.iter().any(|known| known == letters || known == "*"))
    }

    /// What came so far.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// Says what is in the stream (`@setDataFrame`, `onMetaData`). Nothing is sent before the stream is published.
    pub fn send_metadata(&mut self, properties: &[(String, Value)]) {
        let mut payload = Vec::new();
        amf0::write(&["@setDataFrame".into(), "onMetaData".into()], &mut payload);
        amf0::write_ecma_array(properties, &mut payload);
        // Metadata stand at time 0: services take another time for a jump.
        self.send_of_stream(OF_STREAM, message::DATA, 0, payload);
    }

    /// Sends the body of an FLV tag of pictures or of sound, at a time in milliseconds, modulo 2³². Nothing is sent before the stream
    /// is published.
    pub fn send_media(&mut self, is_video: bool, time: u32, payload: Vec<u8>) {
        let (chunk_stream, kind) = if is_video { (VIDEO, message::VIDEO) } else { (AUDIO, message::AUDIO) };
        self.send_of_stream(chunk_stream, kind, time, payload);
    }

    fn send_of_stream(&mut self, chunk_stream: u8, kind: u8, time: u32, payload: Vec<u8>) {
        if self.step == Step::Published {
            self.send(chunk_stream, &Message { time, kind, stream: self.stream, payload });
        }
    }

    /// Says that the stream is over. The connection should end once that is sent.
    pub fn unpublish(&mut self) {
        if self.step != Step::Published {
            return;
        }
        let key = Value::String(self.address.key.clone());
        self.command(0, &["FCUnpublish".into(), UNPUBLISH.into(), Value::Null, key]);
        let stream = Value::Number(self.stream.into());
        self.command(0, &["deleteStream".into(), DELETE.into(), Value::Null, stream]);
    }

    fn take(&mut self, bytes: &mut &[u8], now: Time) -> Result<Option<ClientEvent>, ClientError> {
        if let State::Handshake(handshake) = &mut self.state {
            if !handshake.push(bytes, &mut self.out)? {
                return Ok(None);
            }
            self.state = State::Open;
            self.connect();
            self.go_on(Step::Connect, now);
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(message) = self.reader.push(bytes)? else { return Ok(None) };
            self.counters.messages = self.counters.messages.saturating_add(1);
            self.handle(&message, now)?;
        }
    }

    fn go_on(&mut self, step: Step, now: Time) {
        self.step = step;
        self.deadline = if step == Step::Published { Time::NEVER } else { now + STEP_TIMEOUT };
    }

    fn acknowledge(&mut self) {
        if self.window.is_some_and(|window| self.unacknowledged >= window) {
            self.unacknowledged = 0;
            // The sequence number wraps (section 5.4.3).
            let sequence = self.counters.bytes.to_be_bytes();
            let sequence = sequence.last_chunk::<4>().map_or(Vec::new(), |bytes| bytes.to_vec());
            self.send(CONTROL, &message::protocol(message::ACKNOWLEDGEMENT, sequence));
        }
    }

    fn handle(&mut self, message: &Message, now: Time) -> Result<(), ClientError> {
        match message.kind {
            message::SET_CHUNK_SIZE => self.reader.set_chunk_size(number(&message.payload).unwrap_or(0))?,
            message::ABORT => {
                if let Some(stream) = number(&message.payload) {
                    self.reader.abort(stream);
                }
            }
            message::WINDOW_SIZE => {
                self.window = number(&message.payload).filter(|&window| window > 0);
            }
            message::SET_PEER_BANDWIDTH => {
                // Section 5.4.5: the window is told anew where it is another one than the last.
                if let Some(window) = number(&message.payload).filter(|&window| window != self.told_window) {
                    self.told_window = window;
                    let told = window.to_be_bytes().to_vec();
                    self.send(CONTROL, &message::protocol(message::WINDOW_SIZE, told));
                }
            }
            message::ACKNOWLEDGEMENT => {}
            message::USER_CONTROL => self.handle_user_control(&message.payload),
            message::COMMAND | message::COMMAND_AMF3 => self.handle_command(message, now)?,
            _ => self.ignore(),
        }
        Ok(())
    }

    fn ignore(&mut self) {
        self.counters.ignored = self.counters.ignored.saturating_add(1);
    }

    fn handle_user_control(&mut self, payload: &[u8]) {
        if let Some((event, data)) = payload.split_first_chunk()
            && u16::from_be_bytes(*event) == message::PING_REQUEST
            && let Some(time) = data.first_chunk::<4>()
        {
            self.send(CONTROL, &message::user_control(message::PING_RESPONSE, time));
        }
    }

    /// A command that cannot be read says nothing: what it should have answered ends by its deadline.
    fn handle_command(&mut self, message: &Message, now: Time) -> Result<(), ClientError> {
        let Ok(values) = message::values(message) else {
            self.ignore();
            return Ok(());
        };
        let name = values.first().and_then(Value::as_str).unwrap_or_default();
        let transaction = values.get(1).and_then(Value::as_number).unwrap_or(0.0);
        let argument = values.get(2).unwrap_or(&Value::Null);
        let told = values.get(3).unwrap_or(&Value::Null);
        match (name, self.step) {
            ("_result", Step::Connect) if transaction == CONNECT => {
                if text(told, "level") == "error" {
                    return Err(self.refused(told));
                }
                self.listed = listed(argument).or_else(|| listed(told));
                self.create_stream();
                self.go_on(Step::CreateStream, now);
            }
            ("_result", Step::CreateStream) if transaction == CREATE => {
                self.stream = told.as_number().and_then(stream_number).ok_or_else(|| {
                    let words = "the answer has no number of a message stream".to_owned();
                    ClientError::Refused { step: self.step, words }
                })?;
                self.publish();
                self.go_on(Step::Publish, now);
            }
            ("_error", step) => {
                let asked = match step {
                    Step::Connect => CONNECT,
                    Step::CreateStream => CREATE,
                    Step::Publish => PUBLISH,
                    Step::Handshake | Step::Published => {
                        self.ignore();
                        return Ok(());
                    }
                };
                if transaction != asked {
                    self.ignore();
                    return Ok(());
                }
                // Some have what is wrong in the place of the other properties.
                let told = if *told == Value::Null { argument } else { told };
                match redirect(told).filter(|_| step == Step::Connect) {
                    Some(to) => self.events.push_back(ClientEvent::Redirected(to.to_owned())),
                    None => return Err(self.refused(told)),
                }
            }
            ("onStatus", _) => return self.handle_status(told, now),
            ("close", step) => {
                let words = "it says close".to_owned();
                return Err(match step {
                    Step::Published => ClientError::Ended { words },
                    step => ClientError::Refused { step, words },
                });
            }
            // onBWDone, onFCPublish, answers to releaseStream and FCPublish.
            _ => self.ignore(),
        }
        Ok(())
    }

    fn handle_status(&mut self, told: &Value, now: Time) -> Result<(), ClientError> {
        let code = text(told, "code");
        // Some servers say what is wrong at the level of a status.
        let is_bad = text(told, "level") == "error"
            || ["BadName", "Denied", "Rejected", "Failed", "InvalidApp", "Closed"]
                .iter()
                .any(|end| code.ends_with(end));
        match (is_bad, self.step) {
            (true, Step::Published) => Err(ClientError::Ended { words: self.words(told) }),
            (true, _) => Err(self.refused(told)),
            (false, Step::Publish) if code == "NetStream.Publish.Start" => {
                self.go_on(Step::Published, now);
                self.events.push_back(ClientEvent::Published);
                Ok(())
            }
            (false, Step::Published) if code == "NetStream.Unpublish.Success" => {
                Err(ClientError::Ended { words: self.words(told) })
            }
            _ => {
                self.ignore();
                Ok(())
            }
        }
    }

    fn refused(&self, told: &Value) -> ClientError {
        ClientError::Refused { step: self.step, words: self.words(told) }
    }

    /// Code and description, as the server gives them, without the stream key.
    fn words(&self, told: &Value) -> String {
        let hidden = |name| shortened(&self.address.hide_key(text(told, name)));
        match (hidden("code"), hidden("description")) {
            (code, words) if code.is_empty() && words.is_empty() => "it gives no reason".to_owned(),
            (code, words) if words.is_empty() => code,
            (code, words) if code.is_empty() => words,
            (code, words) => format!("{code} ({words})"),
        }
    }

    fn connect(&mut self) {
        self.send(CONTROL, &sent::chunk_size());
        self.writer.set_chunk_size(sent::CHUNK_BYTES);
        self.send(CONTROL, &sent::window_size());
        let url = self.address.tc_url();
        let codecs = CODECS.iter().map(|letters| Value::from(*letters)).collect();
        let asked = object([
            ("app", self.address.app.as_str().into()),
            ("type", "nonprivate".into()),
            ("flashVer", AGENT.into()),
            ("swfUrl", url.as_str().into()),
            ("tcUrl", url.as_str().into()),
            ("fourCcList", Value::Array(codecs)),
        ]);
        self.command(0, &["connect".into(), CONNECT.into(), asked]);
    }

    fn create_stream(&mut self) {
        let key = Value::String(self.address.key.clone());
        self.command(0, &["releaseStream".into(), RELEASE.into(), Value::Null, key.clone()]);
        self.command(0, &["FCPublish".into(), FC_PUBLISH.into(), Value::Null, key]);
        self.command(0, &["createStream".into(), CREATE.into(), Value::Null]);
    }

    fn publish(&mut self) {
        let key = Value::String(self.address.key.clone());
        let values = ["publish".into(), PUBLISH.into(), Value::Null, key, "live".into()];
        self.send(OF_STREAM, &message::command(self.stream, &values));
    }

    fn command(&mut self, stream: u32, values: &[Value]) {
        self.send(COMMANDS, &message::command(stream, values));
    }

    fn send(&mut self, chunk_stream: u8, message: &Message) {
        self.writer.write(chunk_stream, message, &mut self.out);
    }
}

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told.property(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number of a message stream, which is a whole one.
fn stream_number(number: f64) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the bounds of u32"
    )]
    let whole = (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u32)?;
    (f64::from(whole) == number).then_some(whole)
}

/// Where a rejected `connect` redirects to.
fn redirect(told: &Value) -> Option<&str> {
    let more = told.property("ex")?;
    let is_redirect = more.property("code").and_then(Value::as_number) == Some(302.0);
    let to = more.property("redirect").and_then(Value::as_str)?;
    (is_redirect && to.len() <= REDIRECT_MAX).then_some(to)
}

/// The letters of codecs in an answer to `connect`.
fn listed(told: &Value) -> Option<Vec<String>> {
    let mut all: Option<Vec<String>> = None;
    if let Some(Value::Array(list)) = told.property("fourCcList") {
        let letters = list.iter().filter_map(Value::as_str).map(str::to_owned);
        all.get_or_insert_default().extend(letters);
    }
    for name in ["videoFourCcInfoMap", "audioFourCcInfoMap"] {
        if let Some(Value::Object(map)) = told.property(name) {
            all.get_or_insert_default().extend(map.iter().map(|(letters, _)| letters.clone()));
        }
    }
    all
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
