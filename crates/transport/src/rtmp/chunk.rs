//! The chunk stream (Adobe RTMP 1.0, section 5.3): messages in pieces, those of several chunk streams between each other.
//!
//! ```text
//! fmt u2, chunk stream id u6 [u8 [u8]] │ message header of 11, 7, 3 or 0 bytes │ [extended time u32] │ up to chunk size bytes
//! ```
//! A header that leaves fields out takes them from the one before on its chunk stream. What is held is bounded: chunk streams,
//! bytes of a message, bytes of all messages that are not whole. Memory grows with the bytes that come, not with the lengths
//! that are told.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of a chunk's payload before the sender says another size (section 5.4.1).
pub const DEFAULT_CHUNK_BYTES: u32 = 128;
/// Longer chunks than a message can be make no difference.
const CHUNK_MAX_BYTES: u32 = 0xff_ffff;
/// Chunk streams of a connection. Encoders use about five.
const STREAMS_MAX: usize = 32;
/// What stands in the three bytes of a time that is in four bytes behind the header.
const EXTENDED: u32 = 0xff_ffff;
/// Room for a message that is allocated before its bytes come.
const ROOM_BYTES: usize = 4096;

/// Why the bytes of a peer are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// Section 5.4.1: at least 1, and the first bit is zero.
    #[error("a chunk size of {found}, expected 1 to {}", i32::MAX)]
    ChunkSize {
        /// What was told.
        found: u32,
    },
    /// A header that takes fields from one before it, and there is none.
    #[error("chunk stream {stream} begins with a header of format {format}, which continues nothing")]
    NoHeader {
        /// The chunk stream.
        stream: u32,
        /// The format.
        format: u8,
    },
    /// More chunk streams than are allowed.
    #[error("more than {STREAMS_MAX} chunk streams")]
    TooManyStreams,
    /// Messages that are not whole take more bytes than are allowed now.
    #[error("a message of {found} bytes, expected at most {limit}")]
    TooLong {
        /// Bytes of the message, or of all that are not whole.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// A message (section 6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Milliseconds, modulo 2³².
    pub time: u32,
    /// What it is.
    pub kind: u8,
    /// The message stream.
    pub stream: u32,
    /// What is in it.
    pub payload: Vec<u8>,
}

/// What a chunk stream has told.
#[derive(Debug)]
struct Stream {
    time: u32,
    /// The last time or difference of times that a header had.
    delta: u32,
    /// That time was an extended one.
    is_extended: bool,
    bytes: usize,
    kind: u8,
    message_stream: u32,
    /// A message has begun and is not whole.
    is_open: bool,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In a header.
    Head,
    /// In a chunk's payload: bytes that are still to come, of this chunk stream.
    Payload { stream: u32, left: usize },
}

/// What is known of whether a sender repeats an extended time in headers of format 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Unknown,
    Repeats,
    /// As Flash Media Live Encoder does, and libraries after it.
    LeavesOut,
}

/// Makes messages of chunks.
#[derive(Debug)]
pub struct ChunkReader {
    state: State,
    head: Vec<u8>,
    streams: BTreeMap<u32, Stream>,
    chunk_bytes: usize,
    limit_bytes: usize,
    held_bytes: usize,
    habit: Habit,
    abandoned: u64,
}

/// A header, as far as it is there.
enum Head {
    /// So many bytes are needed to know more.
    Needs(usize),
    Whole {
        stream: u32,
        format: u8,
        /// Bytes of it.
        bytes: usize,
    },
}

impl ChunkReader {
    /// Before the first chunk. Messages that are not whole may take `limit_bytes`, all of them together.
    pub fn new(limit_bytes: usize) -> ChunkReader {
        ChunkReader {
            state: State::Head,
            head: Vec::new(),
            streams: BTreeMap::new(),
            chunk_bytes: DEFAULT_CHUNK_BYTES as usize,
            limit_bytes,
            held_bytes: 0,
            habit: Habit::Unknown,
            abandoned: 0,
        }
    }

    /// From here on, messages that are not whole may take so many bytes.
    pub fn set_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// The peer has told the size of its chunks (section 5.4.1).
    ///
    /// # Errors
    /// [`ChunkError::ChunkSize`].
    pub fn set_chunk_size(&mut self, found: u32) -> Result<(), ChunkError> {
        if found == 0 || i32::try_from(found).is_err() {
            return Err(ChunkError::ChunkSize { found });
        }
        self.chunk_bytes = found.min(CHUNK_MAX_BYTES) as usize;
        Ok(())
    }

    /// The peer gives up the message that has begun on a chunk stream (section 5.4.2).
    pub fn abort(&mut self, stream: u32) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            self.held_bytes = self.held_bytes.saturating_sub(stream.payload.len());
            stream.give_up();
        }
    }

    /// Bytes of messages that are not whole.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Messages that had begun and in which another one began on the same chunk stream.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Takes bytes up to the end of the next message; the rest stays in `bytes`. Returns `None` where all of them are taken
    /// and no message is whole. What is in a message of the protocol has to be done before the next call: it may
    /// change the size of the chunks behind it.
    ///
    /// # Errors
    /// What is wrong; the connection is over then.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, ChunkError> {
        while !bytes.is_empty() {
            let done = match self.state {
                State::Head => self.push_head(bytes)?,
                State::Payload { stream, left } => self.push_payload(stream, left, bytes)?,
            };
            if done.is_some() {
                return Ok(done);
            }
        }
        Ok(None)
    }

    fn push_head(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, ChunkError> {
        loop {
            match self.look_at_head()? {
                Head::Needs(needed) => {
                    let count = needed.saturating_sub(self.head.len()).min(bytes.len());
                    if count == 0 {
                        return Ok(None);
                    }
                    let (taken, rest) = bytes.split_at(count);
                    self.head.extend_from_slice(taken);
                    *bytes = rest;
                }
                Head::Whole { stream, format, bytes: head_bytes } => {
                    // What was read to know whether a time is repeated may be the first of the payload.
                    let behind = self.head.split_off(head_bytes.min(self.head.len()));
                    let head = std::mem::take(&mut self.head);
                    self.begin_chunk(stream, format, &head)?;
                    return self.push_behind(&behind);
                }
            }
        }
    }

    /// Takes bytes that were read beyond a header: at most four.
    fn push_behind(&mut self, behind: &[u8]) -> Result<Option<Message>, ChunkError> {
        let mut rest = behind;
        // A message of no bytes is whole already.
        let mut done = match self.state {
            State::Payload { stream, left: 0 } => self.push_payload(stream, 0, &mut rest)?,
            _ => None,
        };
        while !rest.is_empty() {
            match self.state {
                State::Payload { stream, left } => {
                    done = self.push_payload(stream, left, &mut rest)?.or(done);
                }
                State::Head => {
                    self.head.extend_from_slice(rest);
                    break;
                }
            }
        }
        Ok(done)
    }

    fn look_at_head(&mut self) -> Result<Head, ChunkError> {
        let Some(&first) = self.head.first() else { return Ok(Head::Needs(1)) };
        let format = first >> 6;
        let (stream, basic_bytes) = match (first & 0x3f, self.head.get(1), self.head.get(2)) {
            (0, Some(&low), _) => (u32::from(low).saturating_add(64), 2),
            (0, None, _) => return Ok(Head::Needs(2)),
            (1, Some(&low), Some(&high)) => {
                (u32::from(u16::from_le_bytes([low, high])).saturating_add(64), 3)
            }
            (1, ..) => return Ok(Head::Needs(3)),
            (stream, ..) => (u32::from(stream), 1),
        };
        let known = self.streams.get(&stream);
        if known.is_none() && format > 1 {
            return Err(ChunkError::NoHeader { stream, format });
        }
        let fields_bytes: usize = [11, 7, 3, 0][usize::from(format)];
        let fixed_bytes = fields_bytes.saturating_add(basic_bytes);
        if self.head.len() < fixed_bytes {
            return Ok(Head::Needs(fixed_bytes));
        }
        let whole = |bytes| Head::Whole { stream, format, bytes };
        let with_time = fixed_bytes.saturating_add(4);
        if format < 3 {
            let time = self.head.get(basic_bytes..).and_then(u24);
            let bytes = if time == Some(EXTENDED) { with_time } else { fixed_bytes };
            return Ok(if self.head.len() < bytes { Head::Needs(bytes) } else { whole(bytes) });
        }
        let Some(known) = known.filter(|known| known.is_extended) else { return Ok(whole(fixed_bytes)) };
        if self.habit == Habit::LeavesOut {
            return Ok(whole(fixed_bytes));
        }
        let Some(time) = self.head.get(fixed_bytes..).and_then(<[u8]>::first_chunk) else {
            return Ok(Head::Needs(with_time));
        };
        // Section 5.3.1.3: the time is repeated. Where a message goes on it has to be the same one.
        if u32::from_be_bytes(*time) == known.delta {
            self.habit = Habit::Repeats;
        } else if known.is_open && self.habit == Habit::Unknown {
            self.habit = Habit::LeavesOut;
            return Ok(whole(fixed_bytes));
        }
        Ok(whole(with_time))
    }

    /// A chunk's header is whole.
    fn begin_chunk(&mut self, id: u32, format: u8, head: &[u8]) -> Result<(), ChunkError> {
        if !self.streams.contains_key(&id) && self.streams.len() >= STREAMS_MAX {
            return Err(ChunkError::TooManyStreams);
        }
        let basic_bytes = match head.first().map(|first| first & 0x3f) {
            Some(0) => 2,
            Some(1) => 3,
            _ => 1,
        };
        let fields = head.get(basic_bytes..).unwrap_or_default();
        let stream = self.streams.entry(id).or_insert_with(Stream::new);
        if format < 3 && stream.is_open {
            self.abandoned = self.abandoned.saturating_add(1);
            self.held_bytes = self.held_bytes.saturating_sub(stream.payload.len());
            stream.give_up();
        }
        if format < 3 {
            let said = u24(fields).unwrap_or(0);
            stream.is_extended = said == EXTENDED;
            let extended = fields.last_chunk().map_or(0, |time| u32::from_be_bytes(*time));
            stream.delta = if stream.is_extended { extended } else { said };
        }
        if let (0 | 1, Some(&[_, _, _, a, b, c, kind])) = (format, fields.first_chunk()) {
            stream.bytes = u32::from_be_bytes([0, a, b, c]) as usize;
            stream.kind = kind;
        }
        if let (0, Some(id)) = (format, fields.get(7..).and_then(<[u8]>::first_chunk)) {
            stream.message_stream = u32::from_le_bytes(*id);
        }
        if !stream.is_open {
            stream.is_open = true;
            // Behind a header of format 0, one of format 3 that begins a message has its time as difference (5.3.1.2.4).
            stream.time = if format == 0 { stream.delta } else { stream.time.wrapping_add(stream.delta) };
            if stream.bytes > self.limit_bytes {
                return Err(ChunkError::TooLong { found: stream.bytes, limit: self.limit_bytes });
            }
            stream.payload.reserve(stream.bytes.min(ROOM_BYTES));
        }
        let left = stream.bytes.saturating_sub(stream.payload.len()).min(self.chunk_bytes);
        self.state = State::Payload { stream: id, left };
        Ok(())
    }

    fn push_payload(
        &mut self,
        id: u32,
        left: usize,
        bytes: &mut &[u8],
    ) -> Result<Option<Message>, ChunkError> {
        let count = left.min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        self.held_bytes = self.held_bytes.saturating_add(count);
        if self.held_bytes > self.limit_bytes {
            return Err(ChunkError::TooLong { found: self.held_bytes, limit: self.limit_bytes });
        }
        let left = left.saturating_sub(count);
        self.state = if left > 0 { State::Payload { stream: id, left } } else { State::Head };
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        stream.payload.extend_from_slice(taken);
        if stream.payload.len() < stream.bytes {
            return Ok(None);
        }
        self.held_bytes = self.held_bytes.saturating_sub(stream.payload.len());
        stream.is_open = false;
        Ok(Some(Message {
            time: stream.time,
            kind: stream.kind,
            stream: stream.message_stream,
            payload: std::mem::take(&mut stream.payload),
        }))
    }
}

impl Stream {
    fn new() -> Stream {
        Stream {
            time: 0,
            delta: 0,
            is_extended: false,
            bytes: 0,
            kind: 0,
            message_stream: 0,
            is_open: false,
            payload: Vec::new(),
        }
    }

    fn give_up(&mut self) {
        self.is_open = false;
        self.payload = Vec::new();
    }
}

fn u24(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]))
}

/// Makes chunks of messages. Each begins with a whole header: commands are few, and of media the eight bytes do not count.
#[derive(Clone, Copy, Debug)]
pub struct ChunkWriter {
    chunk_bytes: usize,
}

impl Default for ChunkWriter {
    fn default() -> ChunkWriter {
        ChunkWriter { chunk_bytes: DEFAULT_CHUNK_BYTES as usize }
    }
}

impl ChunkWriter {
    /// The peer was told this size of chunks, at least 1.
    pub fn set_chunk_size(&mut self, bytes: u32) {
        self.chunk_bytes = bytes.clamp(1, CHUNK_MAX_BYTES) as usize;
    }

    /// Appends the chunks of a message on chunk stream `chunk_stream`, 2 to 63.
    pub fn write(&self, chunk_stream: u8, message: &Message, out: &mut Vec<u8>) {
        let chunk_stream = chunk_stream & 0x3f;
        let time = message.time.min(EXTENDED);
        let extended = message.time.to_be_bytes();
        let extended = if time == EXTENDED { &extended[..] } else { &[] };
        let length = u32::try_from(message.payload.len()).unwrap_or(EXTENDED).to_be_bytes();
        out.push(chunk_stream);
        out.extend_from_slice(&time.to_be_bytes()[1..]);
        out.extend_from_slice(&length[1..]);
        out.push(message.kind);
        out.extend_from_slice(&message.stream.to_le_bytes());
        out.extend_from_slice(extended);
        for (number, piece) in message.payload.chunks(self.chunk_bytes).enumerate() {
            if number > 0 {
                out.push(0xc0 | chunk_stream);
                out.extend_from_slice(extended);
            }
            out.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
