//! FLV in any chop in, access units out (Adobe Flash Video File Format 10.1, Annex E.2 to E.4; Enhanced RTMP v2, "Enhanced
//! Audio" and "Enhanced Video").
//!
//! ```text
//! bytes ─► tag ─┬─ script data ─► passed over
//!               ├─ sequence header ─► Known (SPS and PPS, AudioSpecificConfig, …) ─► Event::Tracks
//!               └─ coded frame ─► unwrapped time ─► Annex B, ADTS, … ─────────────► Event::AccessUnit
//! ```
//! * **Times** are milliseconds modulo 2³², of decoding (E.4.1); pictures say how much later they are presented, as a signed
//!   number of 24 bits (E.4.3.1). They are unwrapped: each lies near the one before.
//! * **Tracks** have numbers: the type of their tags. A file header says which kinds there are, in advance and often wrongly:
//!   until all of them have shown, or for a second, what comes is held back, so that the first [`Event::Tracks`] names all.
//! * Of Enhanced RTMP's several tracks in a tag (`Multitrack`), number 0 is taken and the others are left out. Metadata is left
//!   out; the nanoseconds of `ModEx` are part of a time.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub use super::track::{AUDIO_TRACK, VIDEO_TRACK};
pub use crate::container::frames::{Event, Track};

use super::tag::{self, Content, Format, Packet};
use super::track::Known;
use super::{
    AUDIO, BACK_POINTER_BYTES, FILE_HEADER_BYTES, FILE_HEADER_MAX_BYTES, SCRIPT, TAG_HEADER_BYTES, VIDEO,
};
use crate::Stamps;
use crate::access_unit::AccessUnit;
use crate::container::frames::{Coded, Coming, Taken, count};
use crate::container::tracks::Kind;
use crate::time::Ticks;
use std::collections::VecDeque;

/// Ticks of 90 kHz in a millisecond.
const TICKS_PER_MS: i64 = 90;
const NANOS_PER_MS: i64 = 1_000_000;
/// A kind of track that the file header announces is waited for so long, by the times of the others.
const HOLD_MS: u64 = 1000;
/// What is held back meanwhile, at most.
const HOLD_UNITS: usize = 1000;
const HOLD_BYTES: usize = 8 << 20;
/// Room for a tag that is kept from tag to tag.
const ROOM_BYTES: usize = 1 << 20;
/// Flags of the file header: there is video, there is audio (E.2).
const HAS_VIDEO: u8 = 1;
const HAS_AUDIO: u8 = 4;

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DemuxError {
    /// The first bytes are those of something else.
    #[error("begins with {found:02x?}, expected FLV, version 1 (46 4c 56 01)")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// The file header says that tags begin within it, or far behind it.
    #[error("an FLV header of {found} bytes, expected 9 to {FILE_HEADER_MAX_BYTES}")]
    HeaderLength {
        /// The length that it claims.
        found: u32,
    },
    /// What should be a tag is none, or is encrypted.
    #[error("an FLV tag of type {found} at byte {at}, expected 8 (audio), 9 (video) or 18 (script data)")]
    TagType {
        /// Its first byte.
        found: u8,
        /// Where it begins, from the first byte.
        at: u64,
    },
}

/// What went by and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Whole tags.
    pub tags: u64,
    /// Tags that contradict themselves, or what the sequence header says of them.
    pub damaged_tags: u64,
    /// Coded frames that came before the sequence header that they need.
    pub unconfigured: u64,
    /// Tags of formats and tracks of which no units are made.
    pub left_out: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    FileHeader,
    /// In what stands between the file header and the first tag.
    Skip(u64),
    TagHead,
    /// In a tag of this type and time, and in the length behind it.
    Tag {
        kind: u8,
        time: u32,
        bytes: usize,
    },
}

/// Takes the tags of an FLV stream apart.
///
/// Any chop of the same bytes gives the same events. Holds one tag (16 MiB at most, by its format), and what waits for a track
/// that is announced: 8 MiB, and the tag more. After an error nothing more is taken.
#[derive(Clone, Debug, Default)]
pub struct Demuxer {
    state: State,
    /// What has come of the file header, tag head or tag.
    buffer: Vec<u8>,
    /// Bytes taken.
    taken: u64,
    /// Where the present tag begins.
    tag_at: u64,
    failed: Option<DemuxError>,
    tracks: Tracks,
}

/// All that is behind the tags' framing.
#[derive(Clone, Debug, Default)]
struct Tracks {
    video: Option<Known>,
    audio: Option<Known>,
    /// Tags of several tracks that have come: of pictures, of sound.
    several: [bool; 2],
    /// The time of the last coded frame, in milliseconds, unwrapped.
    clock: Option<i64>,
    /// Which kinds are announced and have not shown.
    awaited: u8,
    /// When waiting for them began.
    waits_since: Option<i64>,
    is_open: bool,
    /// What was told last.
    told: Vec<Track>,
    held_bytes: usize,
    events: VecDeque<Event>,
    /// Units that wait for the tracks.
    held: VecDeque<Event>,
    counters: Counters,
}

impl Demuxer {
    /// A demuxer before the first byte of a file header.
    pub fn new() -> Demuxer {
        Demuxer::default()
    }

    /// Takes the next bytes, chopped anywhere. What they complete waits in [`Demuxer::poll`]; poll until `None` before the
    /// next push, or the events pile up.
    ///
    /// # Errors
    /// Where the bytes are not FLV. Nothing is taken from there on. A tag that is framed well and holds nonsense is counted.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), DemuxError> {
        while self.failed.is_none() && !input.is_empty() {
            if let State::Skip(left) = self.state {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                input = self.advance(input, count);
                let left = left.saturating_sub(count as u64);
                self.state = if left == 0 { State::TagHead } else { State::Skip(left) };
                continue;
            }
            let whole = match self.state {
                State::FileHeader => FILE_HEADER_BYTES,
                State::Skip(_) | State::TagHead => TAG_HEADER_BYTES,
                State::Tag { bytes, .. } => bytes,
            };
            let count = whole.saturating_sub(self.buffer.len()).min(input.len());
            self.buffer.extend_from_slice(input.get(..count).unwrap_or_default());
            input = self.advance(input, count);
            if self.buffer.len() < whole {
                break;
            }
            let buffer = std::mem::take(&mut self.buffer);
            self.failed = self.take(&buffer).err();
            if buffer.capacity() <= ROOM_BYTES {
                self.buffer = buffer;
                self.buffer.clear();
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn advance<'a>(&mut self, input: &'a [u8], count: usize) -> &'a [u8] {
        self.taken = self.taken.saturating_add(count as u64);
        input.get(count..).unwrap_or_default()
    }

    /// The next event, in the order of the stream.
    pub fn poll(&mut self) -> Option<Event> {
        self.tracks.events.pop_front()
    }

    /// The stream has ended: what was held back is told. A tag that is not whole is dropped.
    pub fn finish(&mut self) {
        self.tracks.open();
    }

    /// What went by and what went wrong so far.
    pub fn counters(&self) -> Counters {
        self.tracks.counters
    }

    /// Takes what is whole.
    fn take(&mut self, bytes: &[u8]) -> Result<(), DemuxError> {
        match (self.state, bytes) {
            (State::FileHeader, &[a, b, c, version, flags, s0, s1, s2, s3, ..]) => {
                let found = [a, b, c, version];
                if found != *b"FLV\x01" {
                    return Err(DemuxError::Magic { found });
                }
                let length = u32::from_be_bytes([s0, s1, s2, s3]);
                let behind = u64::from(length).checked_sub(FILE_HEADER_BYTES as u64);
                let behind = behind.filter(|_| u64::from(length) <= FILE_HEADER_MAX_BYTES);
                let behind = behind.ok_or(DemuxError::HeaderLength { found: length })?;
                self.tracks.awaited = flags & (HAS_VIDEO | HAS_AUDIO);
                self.state = State::Skip(behind.saturating_add(BACK_POINTER_BYTES));
            }
            (State::TagHead, &[kind, s0, s1, s2, t0, t1, t2, extended, ..]) => {
                self.tag_at = self.taken.saturating_sub(TAG_HEADER_BYTES as u64);
                if !matches!(kind, AUDIO | VIDEO | SCRIPT) {
                    return Err(DemuxError::TagType { found: kind, at: self.tag_at });
                }
                let size = u32::from_be_bytes([0, s0, s1, s2]);
                let all = u64::from(size).saturating_add(BACK_POINTER_BYTES);
                let time = u32::from_be_bytes([extended, t0, t1, t2]);
                self.state = match usize::try_from(all) {
                    Ok(bytes) if kind != SCRIPT => State::Tag { kind, time, bytes },
                    _ => {
                        count(&mut self.tracks.counters.tags);
                        State::Skip(all)
                    }
                };
            }
            (State::Tag { kind, time, .. }, bytes) => {
                let payload = bytes.split_last_chunk::<4>().map_or(&[][..], |(payload, _)| payload);
                count(&mut self.tracks.counters.tags);
                self.tracks.take(kind, time, payload, self.tag_at);
                self.state = State::TagHead;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Takes tags apart that come without a file around them, as messages of RTMP do: nothing is announced, and nothing held
/// back.
#[derive(Clone, Debug, Default)]
pub struct Tags {
    tracks: Tracks,
}

impl Tags {
    /// Before the first tag.
    pub fn new() -> Tags {
        Tags::default()
    }

    /// Takes the body of a tag of pictures or of sound, at a time in milliseconds, modulo 2³². What it gives waits in
    /// [`Tags::poll`]; of its units the place in the stream is 0.
    pub fn push(&mut self, is_video: bool, time: u32, payload: &[u8]) {
        count(&mut self.tracks.counters.tags);
        self.tracks.take(if is_video { VIDEO } else { AUDIO }, time, payload, 0);
    }

    /// The next event, in the order of the tags.
    pub fn poll(&mut self) -> Option<Event> {
        self.tracks.events.pop_front()
    }

    /// What went by and what went wrong so far.
    pub fn counters(&self) -> Counters {
        self.tracks.counters
    }
}

impl Tracks {
    fn take(&mut self, kind: u8, time: u32, payload: &[u8], at: u64) {
        let is_video = kind == VIDEO;
        let content = if is_video { tag::video(payload) } else { tag::audio(payload) };
        let Some(Content { packet, has_others, nanos }) = content else {
            // Some encoders send empty tags, which say nothing.
            if !payload.is_empty() {
                count(&mut self.counters.damaged_tags);
            }
            return;
        };
        if has_others {
            count(&mut self.counters.left_out);
            let [video, audio] = &mut self.several;
            *(if is_video { video } else { audio }) = true;
            self.clock(time);
            self.open_if_due();
        }
        match packet {
            Packet::Nothing => {}
            Packet::Header { format, record } => {
                self.configure(is_video, format, record);
                self.open_if_due();
            }
            Packet::Coded { format, data, is_key, composition_ms } => {
                let later = i64::from(nanos).saturating_mul(TICKS_PER_MS) / NANOS_PER_MS;
                let dts = Ticks(self.clock(time).saturating_mul(TICKS_PER_MS).saturating_add(later));
                let pts = dts + Ticks(i64::from(composition_ms).saturating_mul(TICKS_PER_MS));
                self.code(is_video, format, &Coded { data, is_key, times: Some((pts, dts)) }, at);
            }
        }
    }

    /// The time of a coded frame, unwrapped: the one that is nearest to the one before.
    fn clock(&mut self, time: u32) -> i64 {
        let unwrapped = match self.clock {
            // The first may be negative (E.4.1: SI32).
            None => i64::from(time.cast_signed()),
            Some(last) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "modulo 2^32, as the stream's own times are"
                )]
                let last_time = last as u32;
                last.saturating_add(i64::from(time.wrapping_sub(last_time).cast_signed()))
            }
        };
        self.clock = Some(unwrapped);
        let began = *self.waits_since.get_or_insert(unwrapped);
        if unwrapped.abs_diff(began) >= HOLD_MS {
            self.open();
        }
        unwrapped
    }

    fn slot(&mut self, is_video: bool) -> &mut Option<Known> {
        if is_video { &mut self.video } else { &mut self.audio }
    }

    /// Takes a sequence header.
    fn configure(&mut self, is_video: bool, format: Format, record: &[u8]) {
        let slot = self.slot(is_video);
        if slot.as_ref().is_some_and(|known| known.is_configured_by(format, record)) {
            return;
        }
        match Known::configured(format, record) {
            Some(known) => *slot = Some(known),
            // What was told before it holds.
            None => count(&mut self.counters.damaged_tags),
        }
    }

    /// Takes a coded frame.
    fn code(&mut self, is_video: bool, format: Format, coded: &Coded<'_>, at: u64) {
        let slot = self.slot(is_video);
        if slot.as_ref().is_none_or(|known| known.format != format) {
            match Known::unconfigured(format, coded.data) {
                Some(known) => *slot = Some(known),
                None => return count(&mut self.counters.unconfigured),
            }
        }
        let Some(known) = slot else { return };
        let (track, codec, mut units) = (known.track.number, known.track.codec, Vec::new());
        match known.take(coded, &mut units) {
            Taken::Whole => {}
            Taken::Damaged => count(&mut self.counters.damaged_tags),
            Taken::LeftOut => count(&mut self.counters.left_out),
        }
        self.open_if_due();
        let Some(codec) = codec else { return };
        for Coming { data, pts, dts, random_access } in units {
            let unit = AccessUnit { codec, data, pts, dts, random_access, stamps: Stamps::default() };
            self.give(Event::AccessUnit { track, at, unit });
        }
    }

    fn give(&mut self, event: Event) {
        if self.is_open {
            return self.events.push_back(event);
        }
        if let Event::AccessUnit { unit, .. } = &event {
            self.held_bytes = self.held_bytes.saturating_add(unit.data.len());
        }
        self.held.push_back(event);
        if self.held.len() >= HOLD_UNITS || self.held_bytes >= HOLD_BYTES {
            self.open();
        }
    }

    /// Holds nothing back any more, where all that is announced has shown.
    fn open_if_due(&mut self) {
        let shown = |has: bool, flag: u8| if has { flag } else { 0 };
        let shown = shown(self.video.is_some(), HAS_VIDEO) | shown(self.audio.is_some(), HAS_AUDIO);
        if self.awaited & !shown == 0 {
            self.open();
        } else if self.is_open {
            self.tell();
        }
    }

    fn open(&mut self) {
        self.is_open = true;
        self.tell();
        let held = std::mem::take(&mut self.held);
        self.events.extend(held);
        self.held_bytes = 0;
    }

    /// Tells the tracks, where they are others than those that were told.
    fn tell(&mut self) {
        let known = [&self.video, &self.audio].into_iter().flatten().map(|known| known.track.clone());
        let kinds = [(Kind::Video, VIDEO_TRACK), (Kind::Audio, AUDIO_TRACK)];
        let several = kinds.into_iter().zip(self.several).filter(|(_, has_come)| *has_come);
        let several = several.map(|((kind, number), _)| Track {
            number: number.saturating_add(256),
            kind,
            codec: None,
            format: "further tracks (multitrack)".into(),
            why: Some("of FLV track 0 of pictures and of sound is taken"),
            language: None,
            he_aac: None,
            channels: None,
        });
        let tracks: Vec<Track> = known.chain(several).collect();
        if !tracks.is_empty() && tracks != self.told {
            self.told.clone_from(&tracks);
            self.events.push_back(Event::Tracks(tracks));
        }
    }
}

#[cfg(test)]
#[path = "demux_tests.rs"]
mod tests;
