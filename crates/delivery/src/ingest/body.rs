//! One request's body: what it is, by its first box, and what is in it.

use glassline_media::container::cmaf::{Event, FourCc, Reader};
use glassline_media::{Ticks, Time};

use super::error::IngestError;

/// Bytes of a box's head: length and type.
const HEAD_BYTES: usize = 8;
/// What a header begins with: a new reader then reads the body from there.
const HEADERS: [&[u8; 4]; 2] = [b"ftyp", b"moov"];
/// What a segment or chunk may begin with.
const SEGMENTS: [&[u8; 4]; 10] =
    [b"styp", b"moof", b"prft", b"emsg", b"sidx", b"ssix", b"free", b"skip", b"uuid", b"mfra"];

/// How far a body is read.
#[derive(Debug)]
pub(super) enum State {
    /// Its first box has not told what it is.
    Begins(Vec<u8>),
    /// A segment that has come before its header; its bytes.
    Waits(Vec<u8>),
    /// A header, or segments of one.
    Reads(Box<Reader>),
    /// Nothing more is taken of it.
    Over(Result<(), IngestError>),
}

/// A body.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) path: String,
    pub(super) state: State,
    /// The header of its segments, by its place among all of them.
    pub(super) header: Option<usize>,
    pub(super) began: Time,
    pub(super) bytes: u64,
    /// Its last byte has come.
    pub(super) is_whole: bool,
    /// When its first unit is decoded, and where its last one ends.
    pub(super) span: Option<(Ticks, Ticks)>,
}

/// What the first box says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Header,
    Segment,
}

impl Body {
    pub(super) fn new(path: &str, now: Time) -> Body {
        Body {
            path: path.to_owned(),
            state: State::Begins(Vec::new()),
            header: None,
            began: now,
            bytes: 0,
            is_whole: false,
            span: None,
        }
    }

    /// Bytes that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Begins(bytes) | State::Waits(bytes) => bytes.len(),
            State::Reads(reader) => reader.held_bytes(),
            State::Over(_) => 0,
        }
    }

    /// What it is, once its first box tells; takes the bytes that have told it.
    pub(super) fn begin(&mut self, bytes: &[u8]) -> Result<Option<(Kind, Vec<u8>)>, IngestError> {
        let State::Begins(head) = &mut self.state else { return Ok(None) };
        head.extend_from_slice(bytes);
        let Some((_, rest)) = head.split_first_chunk::<4>() else { return Ok(None) };
        let Some(&kind) = rest.first_chunk::<4>() else { return Ok(None) };
        debug_assert!(head.len() >= HEAD_BYTES);
        let kind = if HEADERS.contains(&&kind) {
            Kind::Header
        } else if SEGMENTS.contains(&&kind) {
            Kind::Segment
        } else {
            return Err(IngestError::NotCmaf { found: FourCc(kind) });
        };
        Ok(Some((kind, std::mem::take(head))))
    }

    /// Reads on, up to the next event. Its reader then knows what holds at that event and nothing that stands behind it, so
    /// that it makes no difference how much of that has come with it.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, IngestError> {
        let State::Reads(reader) = &mut self.state else { return Ok(None) };
        reader.push_next(bytes)?;
        Ok(reader.poll())
    }

    /// Whether it may end where it is.
    pub(super) fn check_end(&self) -> Result<(), IngestError> {
        let is_cut = match &self.state {
            State::Begins(head) => !head.is_empty(),
            State::Reads(reader) => !reader.is_between_boxes(),
            State::Waits(_) => false,
            State::Over(result) => return result.clone(),
        };
        if is_cut { Err(IngestError::CutOff { bytes: self.bytes }) } else { Ok(()) }
    }
}
