//! A server's side of a connection on which a client publishes (Adobe RTMP 1.0, sections 5 and 7; Enhanced RTMP v2, "Enhancing
//! NetConnection connect Command").
//!
//! ```text
//! bytes ─► Handshake ─► ChunkReader ─┬─ the protocol's own: sizes, windows, pings ─► answers
//!                                    ├─ commands: connect, createStream ──────────► answers
//!                                    ├─ publish, onMetaData, the end ─────────────► Event
//!                                    └─ sound, pictures ─────────────────────────► Event::Media
//! ```
//! [`ServerSession::push`] returns with each event, so that what the caller answers holds for the bytes behind it. Before the
//! caller has [accepted](ServerSession::accept) a publisher, a message may have 64 KiB: a connection costs little until it has
//! shown its key. There are two deadlines, for the handshake and for the accepted publisher; silence is the caller's.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::amf0::{AmfError, Value, object};
use super::chunk::{ChunkError, ChunkReader, ChunkWriter, Message};
use super::handshake::{Handshake, HandshakeError, RANDOM_BYTES};
use super::message::{self, number};
use super::metadata::{Metadata, shortened};
use super::sent::{self, COMMANDS, CONTROL, OF_STREAM, WINDOW_BYTES};
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;
use thiserror::Error;

/// The application that streams are published to: `rtmp://HOST/live/NAME`.
pub const APP: &str = "live";
/// How long the handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take, from the connection's beginning, until a publisher is accepted.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of messages that are not whole, before a publisher is accepted and after.
const LIMIT_BEFORE: usize = 64 << 10;
const LIMIT: usize = 20 << 20;
/// Messages in an aggregate message that are taken.
const PARTS_MAX: usize = 1024;
/// Message streams that a connection may create.
const STREAMS_MAX: u32 = 16;

/// The codecs that are taken by their four letters: those that MPEG-TS carries here.
const VIDEO_CODECS: [&str; 3] = ["avc1", "hvc1", "av01"];
const AUDIO_CODECS: [&str; 5] = ["mp4a", "Opus", ".mp3", "ac-3", "ec-3"];
/// Enhanced RTMP v2: what is done with a codec is forwarding; modifiers and nanoseconds are understood.
const CAN_FORWARD: f64 = 4.0;
const CAPABILITIES: f64 = 12.0;

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer does not speak RTMP.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// What it sends are no chunks.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A command is none.
    #[error("a command cannot be read: {0}")]
    Command(#[from] AmfError),
    /// The handshake was not over in time.
    #[error("no handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    NoHandshake,
    /// No publisher was accepted in time.
    #[error("nothing was published within {} s", PUBLISH_TIMEOUT.as_secs())]
    NoPublisher,
    /// A client was told why what it asked for is not to be had. The connection ends when that has been sent.
    #[error("{0}")]
    Refused(String),
}

/// What a client does.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It wants to publish. The caller answers by [`ServerSession::accept`] or [`ServerSession::refuse`] before the next push.
    Publish(Publish),
    /// What it says of its stream.
    Metadata(Metadata),
    /// A message of media, of an accepted publisher.
    Media(Media),
    /// The accepted publisher is over. The connection may publish again.
    Unpublish,
}

/// What a client wants to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// The stream's name and what it has asked with, as it came: `NAME?key=KEY`.
    pub name: String,
    /// What stands behind a `?` in the application or in the address: `key=KEY`.
    pub query: Option<String>,
    /// The program that the client says it is.
    pub agent: String,
}

/// A message of media: the body of an FLV tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Pictures; otherwise sound.
    pub is_video: bool,
    /// Milliseconds, modulo 2³², of decoding.
    pub time: u32,
    /// The body.
    pub payload: Vec<u8>,
}

/// Why a publisher is refused (the codes of `NetStream.onStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another publisher has the name, or it is no name.
    BadName,
    /// The client may not publish this.
    Denied,
    /// What it sends cannot be carried, or something is wrong here.
    Failed,
}

impl Refusal {
    const fn code(self) -> &'static str {
        match self {
            // OBS shows the words of these two codes, and of no others that a publisher may get.
            Refusal::BadName | Refusal::Denied => "NetStream.Publish.Denied",
            Refusal::Failed => "NetStream.Publish.Rejected",
        }
    }
}

/// What was dropped, and what a client did that it need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that came.
    pub bytes: u64,
    /// Messages that came.
    pub messages: u64,
    /// Messages of media before a publisher was accepted.
    pub early_media: u64,
    /// Messages that were given up for another on their chunk stream.
    pub abandoned: u64,
    /// Messages and data that are not known or cannot be read.
    pub ignored: u64,
}

#[derive(Debug)]
enum State {
    Handshake(Box<Handshake>),
    Open,
}

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publishing {
    No,
    /// The caller has not answered.
    Asked {
        stream: u32,
    },
    Accepted {
        stream: u32,
    },
}

/// A server's side of a connection: see the module.
#[derive(Debug)]
pub struct ServerSession {
    state: State,
    reader: ChunkReader,
    writer: ChunkWriter,
    began: Time,
    app: Option<String>,
    query: Option<String>,
    agent: String,
    streams: u32,
    publishing: Publishing,
    /// The publisher was accepted once: the deadline for it is met.
    was_accepted: bool,
    /// After how many bytes an acknowledgement is wanted, and how many have come since the last.
    window: Option<u32>,
    unacknowledged: u32,
    out: Vec<u8>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl ServerSession {
    /// Before the first byte. `random` are random bytes for the handshake.
    pub fn new(random: [u8; RANDOM_BYTES], now: Time) -> ServerSession {
        ServerSession {
            state: State::Handshake(Box::new(Handshake::new(random))),
            reader: ChunkReader::new(LIMIT_BEFORE),
            writer: ChunkWriter::default(),
            began: now,
            app: None,
            query: None,
            agent: String::new(),
            streams: 0,
            publishing: Publishing::No,
            was_accepted: false,
            window: None,
            unacknowledged: 0,
            out: Vec::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Takes bytes up to the next event; the rest stays in `bytes`. Returns `None` where all of them are taken. What is to
    /// send stands in [`ServerSession::take_output`] afterwards, also where there is an error.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, SessionError> {
        let before = bytes.len();
        let pushed = self.take(bytes);
        let taken = u32::try_from(before.saturating_sub(bytes.len())).unwrap_or(u32::MAX);
        self.counters.bytes = self.counters.bytes.saturating_add(taken.into());
        self.unacknowledged = self.unacknowledged.saturating_add(taken);
        self.acknowledge();
        pushed
    }

    /// The publisher of [`Event::Publish`] has its stream.
    pub fn accept(&mut self) {
        let Publishing::Asked { stream } = self.publishing else { return };
        self.publishing = Publishing::Accepted { stream };
        self.was_accepted = true;
        self.reader.set_limit(LIMIT);
        self.send(CONTROL, &message::user_control(message::STREAM_BEGIN, &stream.to_be_bytes()));
        self.status(stream, "status", "NetStream.Publish.Start", "The stream is published.");
    }

    /// The publisher does not get its stream, or has lost it: the client is told why. The connection should end once that is
    /// sent.
    pub fn refuse(&mut self, refusal: Refusal, words: &str) {
        let stream = match self.publishing {
            Publishing::No => 0,
            Publishing::Asked { stream } | Publishing::Accepted { stream } => stream,
        };
        self.publishing = Publishing::No;
        self.status(stream, "error", refusal.code(), words);
    }

    /// What is to send, and has not been taken before.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// When [`ServerSession::handle_timeout`] ends the connection.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Handshake(_) => Some(self.began + HANDSHAKE_TIMEOUT),
            State::Open if self.was_accepted => None,
            State::Open => Some(self.began + PUBLISH_TIMEOUT),
        }
    }

    /// A time that [`ServerSession::poll_timeout`] told has come.
    ///
    /// # Errors
    /// What has not come in time.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), SessionError> {
        match self.poll_timeout() {
            Some(at) if now >= at => Err(match self.state {
                State::Handshake(_) => SessionError::NoHandshake,
                State::Open => SessionError::NoPublisher,
            }),
            _ => Ok(()),
        }
    }

    /// Whether the handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshake(_))
    }

    /// What was dropped so far.
    pub fn counters(&self) -> Counters {
        Counters { abandoned: self.reader.abandoned(), ..self.counters }
    }

    /// Bytes of messages that are not whole.
    pub fn held_bytes(&self) -> usize {
        self.reader.held_bytes()
    }

    fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, SessionError> {
        if let State::Handshake(handshake) = &mut self.state {
            if !handshake.push(bytes, &mut self.out)? {
                return Ok(None);
            }
            self.state = State::Open;
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(message) = self.reader.push(bytes)? else { return Ok(None) };
            self.counters.messages = self.counters.messages.saturating_add(1);
            self.handle(message)?;
        }
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

    fn handle(&mut self, message: Message) -> Result<(), SessionError> {
        match message.kind {
            message::SET_CHUNK_SIZE => {
                let size = number(&message.payload).unwrap_or(0);
                self.reader.set_chunk_size(size)?;
            }
            message::ABORT => {
                if let Some(stream) = number(&message.payload) {
                    self.reader.abort(stream);
                }
            }
            message::WINDOW_SIZE => {
                self.window = number(&message.payload).filter(|&window| window > 0);
            }
            message::SET_PEER_BANDWIDTH | message::ACKNOWLEDGEMENT => {}
            message::USER_CONTROL => self.handle_user_control(&message.payload),
            message::COMMAND | message::COMMAND_AMF3 => self.handle_command(&message)?,
            message::DATA | message::DATA_AMF3 => self.handle_data(&message),
            message::AUDIO | message::VIDEO => {
                let Message { kind, time, payload, .. } = message;
                self.give(kind, time, payload);
            }
            message::AGGREGATE => {
                for (number, (kind, time, payload)) in message::parts(&message).enumerate() {
                    match kind {
                        // Each takes room beside its bytes, and a message may have a million of them.
                        _ if number >= PARTS_MAX => self.ignore(),
                        message::AUDIO | message::VIDEO => self.give(kind, time, payload.to_vec()),
                        _ => self.ignore(),
                    }
                }
            }
            _ => self.ignore(),
        }
        Ok(())
    }

    fn ignore(&mut self) {
        self.counters.ignored = self.counters.ignored.saturating_add(1);
    }

    /// Media belong to the connection's one publisher, whatever their message stream: some encoders send them on stream 0.
    fn give(&mut self, kind: u8, time: u32, payload: Vec<u8>) {
        if let Publishing::Accepted { .. } = self.publishing {
            let is_video = kind == message::VIDEO;
            self.events.push_back(Event::Media(Media { is_video, time, payload }));
        } else {
            self.counters.early_media = self.counters.early_media.saturating_add(1);
        }
    }

    fn handle_user_control(&mut self, payload: &[u8]) {
        if let Some((event, data)) = payload.split_first_chunk()
            && u16::from_be_bytes(*event) == message::PING_REQUEST
            && let Some(time) = data.first_chunk::<4>()
        {
            self.send(CONTROL, &message::user_control(message::PING_RESPONSE, time));
        }
    }

    /// Metadata that cannot be read is left out: the media tell what they are.
    fn handle_data(&mut self, message: &Message) {
        let found = message::values(message).ok().and_then(|values| Metadata::of(&values));
        match (found, self.publishing) {
            (Some(metadata), Publishing::Accepted { .. }) => {
                self.events.push_back(Event::Metadata(metadata));
            }
            _ => self.ignore(),
        }
    }

    fn handle_command(&mut self, message: &Message) -> Result<(), SessionError> {
        let values = message::values(message)?;
        let name = values.first().and_then(Value::as_str).unwrap_or_default();
        let transaction = values.get(1).and_then(Value::as_number).unwrap_or(0.0);
        let argument = values.get(3).and_then(Value::as_str).unwrap_or_default();
        match name {
            "connect" => self.connect(transaction, values.get(2).unwrap_or(&Value::Null)),
            _ if self.app.is_none() => self.refused("a command before connect".into()),
            "createStream" => self.create_stream(transaction),
            "publish" => self.publish(message.stream, argument),
            "FCUnpublish" | "deleteStream" | "closeStream" => {
                // Of another message stream that the client has made it says nothing about this one (section 7.2.2.3).
                let meant = match name {
                    "deleteStream" => values.get(3).and_then(Value::as_number).unwrap_or(0.0),
                    "closeStream" => f64::from(message.stream),
                    _ => 0.0,
                };
                if let Publishing::Accepted { stream } = self.publishing
                    && (meant == 0.0 || meant == f64::from(stream))
                {
                    self.publishing = Publishing::No;
                    self.reader.set_limit(LIMIT_BEFORE);
                    self.events.push_back(Event::Unpublish);
                    self.status(stream, "status", "NetStream.Unpublish.Success", "The stream is over.");
                }
                self.result(transaction, Value::Null);
                Ok(())
            }
            "releaseStream" | "FCPublish" | "_checkbw" | "getStreamLength" => {
                self.result(transaction, Value::Null);
                Ok(())
            }
            "play" | "play2" => {
                let words =
                    "RTMP play is not offered; this server is watched over HTTP: /watch/NAME, /live/NAME.ts";
                self.status(message.stream, "error", "NetStream.Play.Failed", words);
                Err(SessionError::Refused(format!("play: {words}")))
            }
            _ => {
                self.ignore();
                self.result(transaction, Value::Null);
                Ok(())
            }
        }
    }

    fn connect(&mut self, transaction: f64, asked: &Value) -> Result<(), SessionError> {
        let text = |name: &str| asked.property(name).and_then(Value::as_str).unwrap_or_default();
        let (app, query) = match text("app").split_once('?') {
            Some((app, query)) => (app, Some(query)),
            None => (text("app"), text("tcUrl").split_once('?').map(|(_, query)| query)),
        };
        let app = app.trim_matches('/');
        if app != APP {
            let words = format!(
                "there is no application {:?}; publish to rtmp://HOST/{APP} with the stream's name as key",
                shortened(app)
            );
            let told = [
                ("level", "error".into()),
                ("code", "NetConnection.Connect.InvalidApp".into()),
                ("description", words.as_str().into()),
            ];
            // OBS shows the words of a status, and none of an error.
            self.status(0, "error", "NetConnection.Connect.InvalidApp", &words);
            let values = ["_error".into(), transaction.into(), Value::Null, object(told)];
            self.send(COMMANDS, &message::command(0, &values));
            return Err(SessionError::Refused(words));
        }
        (self.app, self.query) = (Some(app.to_owned()), query.map(str::to_owned));
        self.agent = shortened(text("flashVer"));
        self.send(CONTROL, &sent::window_size());
        // It is asked to use the same window itself.
        let bandwidth = [&WINDOW_BYTES.to_be_bytes()[..], &[message::LIMIT_DYNAMIC]].concat();
        self.send(CONTROL, &message::protocol(message::SET_PEER_BANDWIDTH, bandwidth));
        self.send(CONTROL, &sent::chunk_size());
        self.writer.set_chunk_size(sent::CHUNK_BYTES);
        let mut properties =
            vec![("fmsVer".to_owned(), "FMS/3,0,1,123".into()), ("capabilities".to_owned(), 31.0.into())];
        let is_enhanced = ["fourCcList", "videoFourCcInfoMap", "audioFourCcInfoMap", "capsEx"];
        if is_enhanced.iter().any(|name| asked.property(name).is_some()) {
            properties.extend(capabilities());
        }
        let told = [
            ("level", "status".into()),
            ("code", "NetConnection.Connect.Success".into()),
            ("description", "Connection succeeded.".into()),
            ("objectEncoding", 0.0.into()),
        ];
        let values = ["_result".into(), transaction.into(), Value::Object(properties), object(told)];
        self.send(COMMANDS, &message::command(0, &values));
        Ok(())
    }

    fn create_stream(&mut self, transaction: f64) -> Result<(), SessionError> {
        if self.streams >= STREAMS_MAX {
            return self.refused(format!("more than {STREAMS_MAX} message streams"));
        }
        self.streams = self.streams.saturating_add(1);
        self.result(transaction, f64::from(self.streams).into());
        Ok(())
    }

    fn publish(&mut self, stream: u32, name: &str) -> Result<(), SessionError> {
        if self.publishing != Publishing::No {
            let words = "this connection publishes a stream already; use another connection";
            self.status(stream, "error", Refusal::BadName.code(), words);
            return Ok(());
        }
        self.publishing = Publishing::Asked { stream };
        let (name, query, agent) = (name.to_owned(), self.query.clone(), self.agent.clone());
        self.events.push_back(Event::Publish(Publish { name, query, agent }));
        Ok(())
    }

    /// Ends the connection without words to the client, for which there is no place.
    fn refused(&self, words: String) -> Result<(), SessionError> {
        Err(SessionError::Refused(words))
    }

    /// Answers a command that wants an answer: those with number 0 want none (section 7.2.1).
    fn result(&mut self, transaction: f64, value: Value) {
        if transaction != 0.0 {
            let values = ["_result".into(), transaction.into(), Value::Null, value];
            self.send(COMMANDS, &message::command(0, &values));
        }
    }

    fn status(&mut self, stream: u32, level: &str, code: &str, words: &str) {
        let told = [("level", level.into()), ("code", code.into()), ("description", words.into())];
        let values = ["onStatus".into(), 0.0.into(), Value::Null, object(told)];
        self.send(OF_STREAM, &message::command(stream, &values));
    }

    fn send(&mut self, chunk_stream: u8, message: &Message) {
        self.writer.write(chunk_stream, message, &mut self.out);
    }
}

/// What a client of Enhanced RTMP is told.
fn capabilities() -> [(String, Value); 4] {
    let all = VIDEO_CODECS.iter().chain(&AUDIO_CODECS).map(|letters| Value::from(*letters)).collect();
    let map = |codecs: &[&str]| {
        let each = codecs.iter().map(|letters| ((*letters).to_owned(), Value::from(CAN_FORWARD)));
        Value::Object(each.collect())
    };
    [
        ("fourCcList".to_owned(), Value::Array(all)),
        ("videoFourCcInfoMap".to_owned(), map(&VIDEO_CODECS)),
        ("audioFourCcInfoMap".to_owned(), map(&AUDIO_CODECS)),
        ("capsEx".to_owned(), Value::from(CAPABILITIES)),
    ]
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
