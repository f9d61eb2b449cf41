//! CMAF and fragmented MP4, read as they come: what a publisher sends, what a test looks into.
//!
//! ```text
//! bytes ─► head of a box ─┬─ moov, moof, styp, emsg, prft ─► gathered, read ─┬─► Event
//!   any chop              ├─ mdat behind a moof ─► gathered, cut into samples┘
//!                         └─ anything else ─► passed over, not kept (mfra: told)
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

mod body;
mod copied;
mod error;
mod fragment;
mod init;
mod message;
mod sample_entry;
#[cfg(test)]
mod tests;
mod unit;

pub(super) use copied::{SampleEntries, read_sample_entries};
pub use error::{FourCc, ReadError};
pub use fragment::{ReadRun, ReadSample};
pub use init::ReadTrack;
pub use message::ProducerTime;
pub(in crate::container) use sample_entry::Form as SampleForm;
pub(in crate::container) use unit::Unfit;

use super::EventMessage;
use body::{Body, HEAD_BYTES, HEAD_MAX_BYTES, Head};
use bytes::Bytes;
use fragment::Fragment;
use init::Known;
use std::collections::VecDeque;

/// Tracks of an initialisation.
const TRACKS_MAX: usize = 16;
/// Samples of a chunk, all its tracks together: 4 minutes of pictures, 40 s of the shortest packets of Opus.
const SAMPLES_MAX: usize = 16_384;
/// The latest decoding time, in ticks: what is added to it never overflows.
const TIME_MAX: u64 = 1 << 62;
/// Bytes of a `moov` or `moof`.
const TABLE_MAX_BYTES: u64 = 1 << 20;
/// Bytes of an `mdat` that belongs to a `moof`.
const DATA_MAX_BYTES: u64 = 64 << 20;
/// Bytes of an `emsg`.
const MESSAGE_MAX_BYTES: u64 = 64 << 10;
/// Bytes of a `styp` or `prft`.
const SMALL_MAX_BYTES: u64 = 4096;
/// Room that is taken for a box at once, whatever length it claims.
const ROOM_BYTES: u64 = 64 << 10;

/// What a [`Reader`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The tracks that there are from here on (`moov`); at least one.
    Init(Vec<ReadTrack>),
    /// A segment or chunk begins, of these brands (`styp`): the major one first, then those that it is compatible with.
    SegmentType(Vec<FourCc>),
    /// An event for the application (`emsg`).
    Message(EventMessage),
    /// A `moof` and its `mdat`, whole.
    Chunk(Chunk),
    /// The index that stands at a file's end begins (`mfra`): no chunk follows.
    End,
}

/// The samples of a `moof` and its `mdat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number in the stream, as it says itself.
    pub sequence: u32,
    /// What the encoder said in front of it about a time on its clock (`prft`), the last that it said.
    pub producer_time: Option<ProducerTime>,
    /// At least one, in the order in which they stand there.
    pub runs: Vec<ReadRun>,
}

/// Reads fragmented MP4 and CMAF from bytes that come in pieces of any length.
///
/// However the same bytes are divided, they give the same events and the same error. A chunk is told when its last byte has come.
/// Holds one box at most, and a `moof` while it waits for its `mdat`: 1 MiB, and 64 MiB of data. Events take memory until they
/// are polled, by and large as much as what was pushed.
///
/// Read are `moov`, `moof` (data offsets from the `moof`, from the stream's first byte, or from the data before), `mdat`,
/// `styp`, `emsg` and `prft`. Samples in the `moov` itself are not: a file that is not fragmented has no chunks.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Bytes taken.
    at: u64,
    state: State,
    known: Vec<Known>,
    is_begun: bool,
    producer_time: Option<ProducerTime>,
    /// What waits for its `mdat`.
    fragment: Option<Fragment>,
    events: VecDeque<Event>,
    failed: Option<ReadError>,
}

#[derive(Clone, Debug)]
enum State {
    /// In the head of a box, of which this has come.
    Head { bytes: [u8; HEAD_MAX_BYTES], count: usize },
    /// In a box that is gathered.
    Content { head: Head, content: Vec<u8> },
    /// In one that is passed over.
    Skip { left: u64 },
}

impl Default for State {
    fn default() -> State {
        State::Head { bytes: [0; HEAD_MAX_BYTES], count: 0 }
    }
}

impl Reader {
    /// Before the first byte.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes bytes, and makes events of them for [`Reader::poll`].
    ///
    /// # Errors
    /// What is wrong with them. Nothing more is taken then, and each further call says the same; events from before stand.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), ReadError> {
        loop {
            self.push_next(&mut input)?;
            if input.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes bytes from the front of `input` up to the next event, or all. [`Reader::track`] and [`Reader::of_segment`] then
    /// say what holds at that event, whatever comes behind it in the same bytes.
    ///
    /// # Errors
    /// As [`Reader::push`].
    pub fn push_next(&mut self, input: &mut &[u8]) -> Result<(), ReadError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.take(input).inspect_err(|&error| {
            self.failed = Some(error);
            (self.state, self.fragment) = (State::default(), None);
        })
    }

    /// The next event, in the order of the stream.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The track of this number, as the last initialisation describes it.
    pub fn track(&self, id: u32) -> Option<&ReadTrack> {
        self.known.iter().map(|known| &known.track).find(|track| track.id == id)
    }

    /// A reader for a segment that comes by itself, of the tracks that are known here: its offsets count from its own first
    /// byte, and it may begin with any box.
    #[must_use]
    pub fn of_segment(&self) -> Reader {
        Reader { known: self.known.clone(), is_begun: true, ..Reader::default() }
    }

    /// Bytes of boxes that have not come to their end, which are held.
    pub fn held_bytes(&self) -> usize {
        let waiting = self.fragment.as_ref().map_or(0, Fragment::held_bytes);
        match &self.state {
            State::Content { content, .. } => waiting.saturating_add(content.len()),
            State::Head { .. } | State::Skip { .. } => waiting,
        }
    }

    /// Whether the stream may end here: no box is cut off, and no chunk waits for its data.
    pub fn is_between_boxes(&self) -> bool {
        self.failed.is_none() && self.fragment.is_none() && matches!(self.state, State::Head { count: 0, .. })
    }

    /// Takes bytes up to the next event, or all.
    fn take(&mut self, input: &mut &[u8]) -> Result<(), ReadError> {
        let told = self.events.len();
        while self.events.len() == told {
            match &mut self.state {
                State::Head { bytes, count } => {
                    let wanted = if *count < HEAD_BYTES { HEAD_BYTES } else { HEAD_MAX_BYTES };
                    let (part, rest) = input.split_at(wanted.saturating_sub(*count).min(input.len()));
                    bytes[*count..].iter_mut().zip(part).for_each(|(byte, came)| *byte = *came);
                    *count = count.saturating_add(part.len());
                    self.at = self.at.saturating_add(part.len() as u64);
                    *input = rest;
                    match Head::parse(&bytes[..*count], self.at.saturating_sub(*count as u64))? {
                        Some(head) => self.state = self.open(head)?,
                        None if input.is_empty() => return Ok(()),
                        None => {}
                    }
                }
                State::Content { head, content } => {
                    let lacking = head.content_bytes.saturating_sub(content.len() as u64);
                    let (part, rest) = split_at_most(input, lacking);
                    content.extend_from_slice(part);
                    self.at = self.at.saturating_add(part.len() as u64);
                    *input = rest;
                    if (part.len() as u64) < lacking {
                        return Ok(());
                    }
                    let (head, content) = (*head, std::mem::take(content));
                    self.state = State::default();
                    self.handle(head, content)?;
                }
                State::Skip { left } => {
                    let (part, rest) = split_at_most(input, *left);
                    *left = left.saturating_sub(part.len() as u64);
                    self.at = self.at.saturating_add(part.len() as u64);
                    *input = rest;
                    if *left > 0 {
                        return Ok(());
                    }
                    self.state = State::default();
                }
            }
        }
        Ok(())
    }

    /// What is done with a box of which the head has come.
    fn open(&mut self, head: Head) -> Result<State, ReadError> {
        if !self.is_begun && !matches!(&head.kind.0, b"ftyp" | b"styp" | b"moov") {
            return Err(ReadError::First { found: head.kind });
        }
        self.is_begun = true;
        let (limit, expected) = match &head.kind.0 {
            b"moov" | b"moof" => (TABLE_MAX_BYTES, "at most 1 MiB"),
            b"mdat" if self.fragment.is_some() => (DATA_MAX_BYTES, "at most 64 MiB"),
            b"emsg" => (MESSAGE_MAX_BYTES, "at most 64 KiB"),
            b"styp" | b"prft" => (SMALL_MAX_BYTES, "at most 4 KiB"),
            kind => {
                if *kind == *b"mfra" {
                    self.events.push_back(Event::End);
                }
                // An event was told perhaps, and nothing more is looked at before the next call.
                let is_empty = head.content_bytes == 0;
                return Ok(if is_empty {
                    State::default()
                } else {
                    State::Skip { left: head.content_bytes }
                });
            }
        };
        if head.content_bytes > limit {
            let found = head.content_bytes.saturating_add(head.bytes as u64);
            return Err(ReadError::Size { kind: head.kind, found, expected, at: head.at });
        }
        Ok(State::Content { head, content: Vec::with_capacity(head.content_bytes.min(ROOM_BYTES) as usize) })
    }

    /// A box that was gathered.
    fn handle(&mut self, head: Head, content: Vec<u8>) -> Result<(), ReadError> {
        let body = Body::new(head, &content);
        match &head.kind.0 {
            b"moov" => {
                self.refuse_waiting(head)?;
                self.known = init::parse(body)?;
                let tracks = self.known.iter().map(|known| known.track.clone()).collect();
                self.events.push_back(Event::Init(tracks));
            }
            b"moof" => {
                self.refuse_waiting(head)?;
                if self.known.is_empty() {
                    let expected = FourCc(*b"moov");
                    return Err(ReadError::Missing { kind: head.kind, expected, at: head.at });
                }
                // One without samples has no data to wait for.
                let fragment = Fragment::parse(body, &mut self.known)?;
                self.fragment = Some(fragment).filter(|fragment| !fragment.runs.is_empty());
            }
            b"mdat" => {
                if let Some(mut fragment) = self.fragment.take() {
                    fragment.fill(head.content_at(), &Bytes::from(content))?;
                    let (sequence, runs) = (fragment.sequence, fragment.runs);
                    let producer_time = self.producer_time.take();
                    self.events.push_back(Event::Chunk(Chunk { sequence, producer_time, runs }));
                }
            }
            b"styp" => self.events.push_back(Event::SegmentType(message::brands(body)?)),
            b"emsg" => self.events.push_back(Event::Message(message::event(body)?)),
            _ => self.producer_time = Some(message::producer_time(body)?),
        }
        Ok(())
    }

    /// A `moof` that still waits for its `mdat` when the next table comes never gets it.
    fn refuse_waiting(&self, head: Head) -> Result<(), ReadError> {
        match &self.fragment {
            Some(_) => Err(ReadError::Missing { kind: head.kind, expected: FourCc(*b"mdat"), at: head.at }),
            None => Ok(()),
        }
    }
}

fn split_at_most(input: &[u8], bytes: u64) -> (&[u8], &[u8]) {
    input.split_at(usize::try_from(bytes).unwrap_or(usize::MAX).min(input.len()))
}
