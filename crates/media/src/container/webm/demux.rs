//! WebM and Matroska (RFC 9559) in any chop in, access units out.
//!
//! ```text
//! bytes ─► element ─┬─ Tracks ─► Known (CodecPrivate, CodecDelay, …) ─► Event::Tracks
//!                   ├─ Info, Timestamp ─► what times count from
//!                   ├─ SimpleBlock, BlockGroup ─► frames ─► Annex B, ADTS, … ─► decoding times ─► Event::AccessUnit
//!                   └─ all others ─► passed over
//! ```
//! * **Times** are those of presentation alone, of the cluster and of the block in it, in units of `TimestampScale`. Of pictures that
//!   are reordered decoding times are made ([`super::reorder`]).
//! * **Sizes** of segments and clusters do not matter: what may stand in them says by its ID what it is.
//! * **Lacing**: several frames in one block; the first one has the block's time, the others follow.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub use crate::container::frames::{Event, Track};

use super::ebml::{self, UNKNOWN, children, unsigned};
use super::tracks::{self, Known};
use super::{
    BLOCK, BLOCK_GROUP, BLOCK_HEAD_BYTES, CLUSTER, EBML, KEY_FRAME, REFERENCE_BLOCK, SEGMENT, SIMPLE_BLOCK,
    TRACKS,
};
use crate::Stamps;
use crate::access_unit::AccessUnit;
use crate::container::boundary::HEADER_MAX_BYTES;
use crate::container::frames::{Coded, Coming, Taken, count};
use crate::time::Ticks;
use std::collections::VecDeque;

pub(super) const INFO: u32 = 0x1549_A966;
pub(super) const TIMESTAMP_SCALE: u32 = 0x2A_D7B1;
pub(super) const TIMESTAMP: u32 = 0xE7;
/// Nanoseconds of a unit of time where nothing is said (RFC 9559 §5.1.2.9).
const SCALE_NANOS: u64 = 1_000_000;
/// A block of more bytes is passed over: a picture of a gigabit.
const BLOCK_MAX_BYTES: u64 = 16 << 20;
/// Room for an element that is kept from one to the next.
const ROOM_BYTES: usize = 1 << 20;
/// An ID and a size have so many bytes at most.
const HEAD_MAX_BYTES: usize = 12;
/// `SimpleBlock`, `Block`: how frames are laced.
const LACING: u8 = 0x06;
const XIPH: u8 = 0x02;
const FIXED_SIZE: u8 = 0x04;

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DemuxError {
    /// The first bytes are those of something else.
    #[error("begins with element {found:08x}, expected EBML (1a45dfa3)")]
    Magic {
        /// The ID of the first element.
        found: u32,
    },
    /// What should be an element is none.
    #[error("an element of which ID or size begin with {found:02x} at byte {at}, expected an EBML number")]
    Element {
        /// The byte that begins no number.
        found: u8,
        /// Where the element begins, from the first byte.
        at: u64,
    },
    /// An element that is no segment or cluster has no size.
    #[error("element {id:x} of unknown size at byte {at}, expected one of a segment or cluster")]
    UnknownSize {
        /// Its ID.
        id: u32,
        /// Where it begins, from the first byte.
        at: u64,
    },
}

/// What went by and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Whole blocks.
    pub blocks: u64,
    /// Blocks that contradict themselves, or what the tracks' configuration says, or that are too long.
    pub damaged_blocks: u64,
    /// Frames of tracks of which no units are made.
    pub left_out: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    /// In an element that is passed over.
    Skip(u64),
    /// In an element that is gathered.
    Payload { id: u32, bytes: usize },
}

/// Takes the blocks of a WebM or Matroska stream apart.
///
/// Any chop of the same bytes gives the same events. Holds one block (16 MiB at most) and the pictures at the beginning that wait for
/// their decoding times. After an error nothing more is taken.
#[derive(Clone, Debug, Default)]
pub struct Demuxer {
    state: State,
    /// What has come of the head or of the payload.
    buffer: Vec<u8>,
    /// Bytes taken.
    taken: u64,
    /// Where the present element begins.
    element_at: u64,
    began: bool,
    /// Where the present cluster ends, if it says so.
    cluster_end: Option<u64>,
    failed: Option<DemuxError>,
    blocks: Blocks,
}

/// All that is behind the elements' framing.
#[derive(Clone, Debug)]
struct Blocks {
    scale_nanos: u64,
    /// The cluster's time, in units.
    cluster: u64,
    tracks: Vec<Known>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Default for Blocks {
    fn default() -> Blocks {
        let (tracks, events) = Default::default();
        Blocks { scale_nanos: SCALE_NANOS, cluster: 0, tracks, events, counters: Counters::default() }
    }
}

impl Demuxer {
    /// A demuxer before the first byte of the EBML header.
    pub fn new() -> Demuxer {
        Demuxer::default()
    }

    /// Takes the next bytes, chopped anywhere. What they complete waits in [`Demuxer::poll`]; poll until `None` before the
    /// next push, or the events pile up.
    ///
    /// # Errors
    /// Where the bytes are not WebM. Nothing is taken from there on. A block that is framed well and holds nonsense is counted.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), DemuxError> {
        while self.failed.is_none() && !input.is_empty() {
            let wanted = match self.state {
                State::Skip(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    input = self.advance(input, count);
                    let left = left.saturating_sub(count as u64);
                    self.state = if left == 0 { State::Head } else { State::Skip(left) };
                    continue;
                }
                State::Head => match head_bytes(&self.buffer) {
                    Ok(bytes) => bytes,
                    Err(found) => {
                        self.failed = Some(DemuxError::Element { found, at: self.element_at });
                        break;
                    }
                },
                State::Payload { bytes, .. } => bytes,
            };
            if matches!(self.state, State::Head) && self.buffer.is_empty() {
                self.element_at = self.taken;
            }
            let count = wanted.saturating_sub(self.buffer.len()).min(input.len());
            self.buffer.extend_from_slice(input.get(..count).unwrap_or_default());
            input = self.advance(input, count);
            if self.buffer.len() < wanted {
                break;
            }
            self.failed = self.take_whole().err();
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn advance<'a>(&mut self, input: &'a [u8], count: usize) -> &'a [u8] {
        self.taken = self.taken.saturating_add(count as u64);
        input.get(count..).unwrap_or_default()
    }

    /// The next event, in the order of the stream.
    pub fn poll(&mut self) -> Option<Event> {
        self.blocks.events.pop_front()
    }

    /// The stream has ended: pictures that wait are told. A block that is not whole is dropped.
    pub fn finish(&mut self) {
        self.blocks.flush();
    }

    /// What went by and what went wrong so far.
    pub fn counters(&self) -> Counters {
        self.blocks.counters
    }

    /// Takes what was asked for: a part of a head, or a payload.
    fn take_whole(&mut self) -> Result<(), DemuxError> {
        match self.state {
            State::Head => {
                // Of the ID, and of the size behind it, the first byte says how long it is.
                let found = |found| DemuxError::Element { found, at: self.element_at };
                if head_bytes(&self.buffer).map_err(found)? > self.buffer.len() {
                    return Ok(());
                }
                if let Some((id, size, _)) = ebml::head(&self.buffer) {
                    self.buffer.clear();
                    return self.begin(id, size);
                }
            }
            State::Payload { id, .. } => {
                let payload = std::mem::take(&mut self.buffer);
                self.blocks.take(id, &payload, self.element_at);
                if payload.capacity() <= ROOM_BYTES {
                    self.buffer = payload;
                    self.buffer.clear();
                }
                self.state = State::Head;
            }
            State::Skip(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, id: u32, size: u64) -> Result<(), DemuxError> {
        let at = self.element_at;
        if !std::mem::replace(&mut self.began, true) && id != EBML {
            return Err(DemuxError::Magic { found: id });
        }
        if id == CLUSTER && self.cluster_end.is_some_and(|end| at < end) {
            // None stands in another one.
            self.state = State::Skip(size);
            return if size == UNKNOWN { Err(DemuxError::UnknownSize { id, at }) } else { Ok(()) };
        }
        if matches!(id, SEGMENT | CLUSTER) {
            // What is in it follows.
            self.cluster_end = (id == CLUSTER && size != UNKNOWN).then(|| self.taken.saturating_add(size));
            return Ok(());
        }
        if size == UNKNOWN {
            return Err(DemuxError::UnknownSize { id, at });
        }
        let (is_wanted, most) = match id {
            SIMPLE_BLOCK | BLOCK_GROUP => (true, BLOCK_MAX_BYTES),
            TRACKS | INFO => (true, HEADER_MAX_BYTES as u64),
            TIMESTAMP => (size <= 8, 8),
            _ => (false, u64::MAX),
        };
        self.state = match usize::try_from(size) {
            Ok(0) if !is_wanted => State::Head,
            Ok(bytes) if is_wanted && size <= most && bytes > 0 => State::Payload { id, bytes },
            _ if size == 0 => State::Head,
            // The first ones are refused with the header; what was told holds.
            _ => {
                if is_wanted {
                    count(&mut self.blocks.counters.damaged_blocks);
                }
                State::Skip(size)
            }
        };
        Ok(())
    }
}

/// How many bytes the head of an element has, as far as those that are there tell; the byte that begins no number otherwise.
fn head_bytes(bytes: &[u8]) -> Result<usize, u8> {
    let Some(&first) = bytes.first() else { return Ok(1) };
    let id_bytes = ebml::length(first);
    if id_bytes > 4 {
        return Err(first);
    }
    let Some(&second) = bytes.get(id_bytes) else { return Ok(id_bytes.saturating_add(1)) };
    let size_bytes = ebml::length(second);
    if size_bytes > 8 {
        return Err(second);
    }
    Ok(id_bytes.saturating_add(size_bytes).min(HEAD_MAX_BYTES))
}

impl Blocks {
    fn take(&mut self, id: u32, payload: &[u8], at: u64) {
        match id {
            INFO => {
                let scale = children(payload).find(|(id, _)| *id == TIMESTAMP_SCALE);
                let scale = scale.and_then(|(_, scale)| unsigned(scale)).filter(|scale| *scale > 0);
                self.scale_nanos = scale.unwrap_or(SCALE_NANOS);
            }
            TRACKS => {
                self.flush();
                self.tracks = tracks::read(payload);
                let told: Vec<Track> = self.tracks.iter().map(|known| known.track.clone()).collect();
                if !told.is_empty() {
                    self.events.push_back(Event::Tracks(told));
                }
            }
            TIMESTAMP => self.cluster = unsigned(payload).unwrap_or(0),
            SIMPLE_BLOCK => self.take_block(payload, None, at),
            BLOCK_GROUP => {
                let refers = children(payload).any(|(id, _)| id == REFERENCE_BLOCK);
                match children(payload).find(|(id, _)| *id == BLOCK) {
                    Some((_, block)) => self.take_block(block, Some(!refers), at),
                    None => count(&mut self.counters.damaged_blocks),
                }
            }
            _ => {}
        }
    }

    /// Takes a block; `is_key` where the group around it says that.
    fn take_block(&mut self, block: &[u8], is_key: Option<bool>, at: u64) {
        count(&mut self.counters.blocks);
        if self.try_take_block(block, is_key, at).is_none() {
            count(&mut self.counters.damaged_blocks);
        }
    }

    fn try_take_block(&mut self, block: &[u8], is_key: Option<bool>, at: u64) -> Option<()> {
        let number_bytes = ebml::length(*block.first()?);
        if number_bytes > 8 {
            return None;
        }
        let (number, rest) = block.split_at_checked(number_bytes)?;
        let (&[high, low, flags], rest) = rest.split_first_chunk::<BLOCK_HEAD_BYTES>()?;
        let number = ebml::number(number);
        let relative = i64::from(i16::from_be_bytes([high, low]));
        let nanos =
            i128::from(self.cluster).checked_add(relative.into())?.checked_mul(self.scale_nanos.into())?;
        let Blocks { tracks, events, counters, .. } = self;
        // Of a track that no header names.
        let known = tracks.iter_mut().find(|known| known.number == number)?;
        if known.track.codec.is_none() {
            count(&mut counters.left_out);
            return Some(());
        }
        let frames = laced(flags & LACING, rest)?;
        let is_key = is_key.unwrap_or(flags & KEY_FRAME != 0);
        let mut nanos = nanos.checked_sub(known.delay_nanos.into())?;
        let mut is_whole = true;
        for (index, frame) in frames.into_iter().enumerate() {
            let stamp = ticks(nanos)?;
            // The others follow, as long after each other as the track says, or as they say themselves.
            let times = (index == 0 || known.duration_nanos.is_some()).then_some((stamp, stamp));
            nanos = nanos.checked_add(known.duration_nanos.unwrap_or(0).into())?;
            is_whole &= take_frame(known, frame, is_key && index == 0, times, at, events, counters);
        }
        is_whole.then_some(())
    }

    fn flush(&mut self) {
        let Blocks { tracks, events, .. } = self;
        for known in tracks {
            let (number, codec) = (known.track.number, known.track.codec);
            let Some(codec) = codec else { continue };
            known.reorder.flush(&mut |at, coming| events.push_back(event(number, codec, at, coming)));
        }
    }
}

/// Makes units of a frame. Whether that is whole.
fn take_frame(
    known: &mut Known,
    frame: &[u8],
    is_key: bool,
    times: Option<(Ticks, Ticks)>,
    at: u64,
    events: &mut VecDeque<Event>,
    counters: &mut Counters,
) -> bool {
    let joined;
    let data = if known.prefix.is_empty() || frame.is_empty() {
        frame
    } else {
        joined = [&known.prefix[..], frame].concat();
        &joined
    };
    let mut units = Vec::new();
    let taken = known.frames.take(&Coded { data, is_key, times }, &mut units);
    if taken == Taken::LeftOut {
        count(&mut counters.left_out);
    }
    let Some(codec) = known.track.codec else { return true };
    for coming in units {
        let number = known.track.number;
        let mut give = |at, coming| events.push_back(event(number, codec, at, coming));
        if codec.is_video() {
            known.reorder.push(at, coming, &mut give);
        } else {
            give(at, coming);
        }
    }
    taken != Taken::Damaged
}

fn event(track: u16, codec: crate::Codec, at: u64, coming: Coming) -> Event {
    let Coming { data, pts, dts, random_access } = coming;
    Event::AccessUnit {
        track,
        at,
        unit: AccessUnit { codec, data, pts, dts, random_access, stamps: Stamps::default() },
    }
}

/// To the nearest tick of 90 kHz; `None` of a time that no stream has.
fn ticks(nanos: i128) -> Option<Ticks> {
    let ticks = nanos.checked_mul(9)?.checked_add(50_000)?.checked_div_euclid(100_000)?;
    let ticks = i64::try_from(ticks).ok()?;
    // 12,000 years.
    (-(1 << 55)..1 << 55).contains(&ticks).then_some(Ticks(ticks))
}

/// The frames of a block (RFC 9559 §10.3); `None` where their sizes contradict the block's.
fn laced(lacing: u8, payload: &[u8]) -> Option<Vec<&[u8]>> {
    if lacing == 0 {
        return Some(vec![payload]);
    }
    let (&others, mut rest) = payload.split_first()?;
    let others = usize::from(others);
    let mut sizes = Vec::new();
    match lacing {
        FIXED_SIZE => {
            let count = others.saturating_add(1);
            let size = rest.len().checked_div(count)?;
            if rest.len().checked_rem(count)? != 0 {
                return None;
            }
            sizes = vec![size; others];
        }
        XIPH => {
            for _ in 0..others {
                let mut size = 0usize;
                loop {
                    let (&byte, behind) = rest.split_first()?;
                    rest = behind;
                    size = size.checked_add(byte.into())?;
                    if byte != u8::MAX {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        // EBML lacing: the first size, and by how much each other one is different.
        _ => {
            let mut last = 0i64;
            for index in 0..others {
                let bytes = ebml::length(*rest.first()?);
                if bytes > 8 {
                    return None;
                }
                let (number, behind) = rest.split_at_checked(bytes)?;
                rest = behind;
                let value = i64::try_from(ebml::number(number)).ok()?;
                last = if index == 0 {
                    value
                } else {
                    // Half of what as many bytes hold is below zero.
                    let bits = u32::try_from(bytes).ok()?.checked_mul(7)?.checked_sub(1)?;
                    let half = 1i64.checked_shl(bits)?.checked_sub(1)?;
                    last.checked_add(value.checked_sub(half)?)?
                };
                sizes.push(usize::try_from(last).ok()?);
            }
        }
    }
    let mut frames = Vec::with_capacity(sizes.len().saturating_add(1));
    for size in sizes {
        let (frame, behind) = rest.split_at_checked(size)?;
        frames.push(frame);
        rest = behind;
    }
    frames.push(rest);
    Some(frames)
}

#[cfg(test)]
#[path = "demux_tests.rs"]
mod tests;
