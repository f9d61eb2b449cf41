//! Flash Video (Adobe Flash Video File Format 10.1, Annex E; Enhanced RTMP v2), as far as a relay has to know it; [`demux`] takes it apart.
//!
//! ```text
//! "FLV" 1 flags u32 offset │ u32 0 │ type u8, size u24, time u32, stream u24, size bytes │ u32 11+size │ …
//! ╰──── file header ───────╯       ╰──────────────── tag ───────────────────────────────╯
//!
//! video: frame type u4, codec u4, packet type u8 …      or   1 u1, frame type u3, packet type u4, FourCC …
//! audio: format u4, …, AAC packet type u8 …             or   9 u4, packet type u4, FourCC …
//! ```
//! * **Header**: the file header, and the script data and sequence headers that come before the first other tag. A
//!   sequence header that comes later replaces the one before for viewers that join later: it is told before the next
//!   join, where it differs from the one before. A stream is refused when its changed headers together take more bytes
//!   than the stream itself.
//! * **Record**: a tag with the size behind it.
//! * **Join**: a video tag with a key frame; any audio tag as long as no video has shown.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod demux;
pub mod mux;
mod tag;
mod track;

use super::boundary::{Boundary, Error, HEADER_MAX_BYTES};
use super::walk::Walk;
use serde::{Deserialize, Serialize};

const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
const SCRIPT: u8 = 18;
const FILE_HEADER_BYTES: usize = 9;
const TAG_HEADER_BYTES: usize = 11;
/// What a tag is followed by: its length once more.
const BACK_POINTER_BYTES: u64 = 4;
/// Where in a tag its time stands, which says nothing of what the tag holds.
const TIME: std::ops::Range<usize> = 4..8;
/// Bytes of headers that a stream may tell at once, after the first one. Beyond that a changed header costs its length
/// in bytes of the stream before it, so that all headers together take no more than the stream itself.
const HEADERS_BURST_BYTES: u64 = 4 * HEADER_MAX_BYTES as u64;
/// Sound and pictures tell in their first two bytes what they are.
const KIND_BYTES: usize = 2;
/// The longest file header that is believed; it has 9 bytes.
const FILE_HEADER_MAX_BYTES: u64 = 4096;

const AVC: u8 = 7;
/// H.265 as many encoders have it that do not know Enhanced RTMP; laid out as H.264 is. No specification has it.
const HEVC: u8 = 12;
const AAC: u8 = 10;
const ENHANCED_AUDIO: u8 = 9;

/// What a tag is to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Tag {
    Script,
    AudioHeader,
    VideoHeader,
    Audio,
    KeyFrame,
    Picture,
    /// The end of a sequence, or a command to the player.
    Other,
}

impl Tag {
    fn is_header(self) -> bool {
        matches!(self, Tag::AudioHeader | Tag::VideoHeader)
    }

    /// From its type and its first bytes, of which there may be fewer than two.
    fn of(kind: u8, payload: &[u8]) -> Option<Tag> {
        let (first, second) = (payload.first().copied().unwrap_or(0), payload.get(1).copied().unwrap_or(0));
        Some(match kind {
            SCRIPT => Tag::Script,
            AUDIO => match (first >> 4, second) {
                (AAC, 0) => Tag::AudioHeader,
                (ENHANCED_AUDIO, _) if first & 0xF == 0 => Tag::AudioHeader,
                _ => Tag::Audio,
            },
            VIDEO if payload.is_empty() => Tag::Other,
            VIDEO => {
                let is_enhanced = first & 0x80 != 0;
                let frame_type = first >> 4 & 7;
                // Sequence header 0, coded picture 1 (3: without composition time; 6: of several tracks).
                let packet_type = match first & 0xF {
                    kind if is_enhanced => kind,
                    AVC | HEVC => second,
                    _ => 1,
                };
                match (packet_type, frame_type) {
                    (0, _) => Tag::VideoHeader,
                    (5, _) if is_enhanced => Tag::VideoHeader,
                    (1, 5) => Tag::Other,
                    (1, 1) => Tag::KeyFrame,
                    (3 | 6, 1) if is_enhanced => Tag::KeyFrame,
                    (1, _) => Tag::Picture,
                    (3 | 6, _) if is_enhanced => Tag::Picture,
                    _ => Tag::Other,
                }
            }
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
enum State {
    #[default]
    FileHeader,
    /// In what stands between the file header and the first tag.
    Offset,
    Head,
    Payload(Tag),
}

/// Finds header, records and joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Scanner {
    pub(super) walk: Walk,
    state: State,
    body_began: bool,
    has_video: bool,
    header: Header,
}

/// The header as it is now, for whom joins from here on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    /// The file header, and the script data that came before the body.
    #[serde(with = "serde_bytes")]
    front: Vec<u8>,
    /// The newest sequence header of each kind, in the order in which the kinds first came: two at most.
    sequence: Vec<(Tag, Vec<u8>)>,
    /// It differs from what was told, which the next join needs.
    has_changed: bool,
    /// What may be told at `counted_at` in bytes: it grows by one for each byte of the stream.
    allowance_bytes: u64,
    counted_at: u64,
}

impl Default for Header {
    fn default() -> Header {
        Header {
            front: Vec::new(),
            sequence: Vec::new(),
            has_changed: false,
            allowance_bytes: HEADERS_BURST_BYTES,
            counted_at: 0,
        }
    }
}

impl Header {
    /// Adds script data, or puts a sequence header in the place of the one before. Costs as much as the tag is long.
    fn take(&mut self, tag: Tag, bytes: Vec<u8>) -> Result<(), Error> {
        match self.sequence.iter_mut().find(|(kind, _)| *kind == tag) {
            _ if tag == Tag::Script => self.front.extend_from_slice(&bytes),
            // Encoders repeat it, with the time of each repetition.
            Some((_, before)) if is_same(before, &bytes) => {}
            Some((_, before)) => (*before, self.has_changed) = (bytes, true),
            None => {
                self.sequence.push((tag, bytes));
                self.has_changed = true;
            }
        }
        let found = self.length();
        if found > HEADER_MAX_BYTES as u64 { Err(Error::HeaderTooLong { found }) } else { Ok(()) }
    }

    fn length(&self) -> u64 {
        let sequence = self.sequence.iter().map(|(_, bytes)| bytes.len());
        sequence.fold(self.front.len(), usize::saturating_add) as u64
    }

    /// The header, where it has changed since it was last asked for. Each costs its length out of what the stream may
    /// tell up to `at`.
    fn poll(&mut self, at: u64) -> Result<Option<Vec<u8>>, Error> {
        if !std::mem::take(&mut self.has_changed) {
            return Ok(None);
        }
        let (grown, found) = (at.saturating_sub(self.counted_at), self.length());
        let allowance = self.allowance_bytes.saturating_add(grown).min(HEADERS_BURST_BYTES);
        let left = allowance.checked_sub(found).ok_or(Error::HeaderChanges { found, at })?;
        (self.allowance_bytes, self.counted_at) = (left, at);
        let parts = std::iter::once(&self.front).chain(self.sequence.iter().map(|(_, bytes)| bytes));
        Ok(Some(parts.map(Vec::as_slice).collect::<Vec<_>>().concat()))
    }
}

/// Whether two tags are the same but for their times.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.get(..TIME.start) == other.get(..TIME.start) && one.get(TIME.end..) == other.get(TIME.end..)
}

impl Scanner {
    pub(super) fn scan(&mut self, mut input: &[u8], marks: &mut Vec<Boundary>) -> Result<(), Error> {
        loop {
            match self.state {
                State::FileHeader => {
                    if !self.walk.gather(&mut input, 4) {
                        return Ok(());
                    }
                    let head = self.walk.head();
                    if head[..4] != *b"FLV\x01" {
                        let found = [head[0], head[1], head[2], head[3]];
                        return Err(Error::Magic { found, expected: "FLV, version 1 (46 4c 56 01)" });
                    }
                    if !self.walk.gather(&mut input, FILE_HEADER_BYTES) {
                        return Ok(());
                    }
                    let head = self.walk.head();
                    let offset = u64::from(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
                    if !(FILE_HEADER_BYTES as u64..=FILE_HEADER_MAX_BYTES).contains(&offset) {
                        let (what, expected) = ("the FLV header's length", "9");
                        return Err(Error::Unexpected { what, found: offset, expected, at: 0 });
                    }
                    let left = offset.saturating_sub(FILE_HEADER_BYTES as u64);
                    self.walk.expect(left.saturating_add(BACK_POINTER_BYTES), true)?;
                    self.state = State::Offset;
                }
                State::Offset => {
                    if !self.walk.pass(&mut input) {
                        return Ok(());
                    }
                    self.header.front = self.walk.next().unwrap_or_default();
                    self.state = State::Head;
                }
                State::Head => {
                    let Some(tag) = self.head(&mut input)? else { return Ok(()) };
                    self.begin(tag, marks)?;
                    self.state = State::Payload(tag);
                }
                State::Payload(tag) => {
                    if !self.walk.pass(&mut input) {
                        return Ok(());
                    }
                    self.end(tag, marks)?;
                    self.state = State::Head;
                }
            }
        }
    }

    /// Gathers a tag's head; what the tag is, once it is there.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Tag>, Error> {
        if !self.walk.gather(input, TAG_HEADER_BYTES) {
            return Ok(None);
        }
        let head = self.walk.head();
        let size = u32::from_be_bytes([0, head[1], head[2], head[3]]);
        let kind_bytes = KIND_BYTES.min(size as usize);
        // The upper bits are reserved, but for one that says "encrypted".
        let (kind, at) = (head[0], self.walk.start());
        if !matches!(kind, AUDIO | VIDEO | SCRIPT) {
            let expected = "8 (audio), 9 (video) or 18 (script data)";
            return Err(Error::Unexpected { what: "an FLV tag's type", found: kind.into(), expected, at });
        }
        if !self.walk.gather(input, kind_bytes.saturating_add(TAG_HEADER_BYTES)) {
            return Ok(None);
        }
        let Some(tag) = Tag::of(kind, &self.walk.head()[TAG_HEADER_BYTES..]) else { return Ok(None) };
        let keep = tag.is_header() || tag == Tag::Script && !self.body_began;
        let left = u64::from(size).saturating_sub(kind_bytes as u64);
        self.walk.expect(left.saturating_add(BACK_POINTER_BYTES), keep)?;
        Ok(Some(tag))
    }

    fn begin(&mut self, tag: Tag, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        let at = self.walk.start();
        self.has_video |= matches!(tag, Tag::VideoHeader | Tag::KeyFrame | Tag::Picture);
        if tag.is_header() || tag == Tag::Script {
            return Ok(());
        }
        if !self.body_began {
            self.body_began = true;
            // It is what came so far, byte for byte.
            (self.header.has_changed, self.header.counted_at) = (false, at);
            marks.push(Boundary::BodyBegins { at });
        }
        // Only the next join needs it: of headers that follow each other the last one alone is told.
        if tag != Tag::Other
            && let Some(header) = self.header.poll(at)?
        {
            marks.push(Boundary::Header(header));
        }
        match tag {
            Tag::KeyFrame => marks.push(Boundary::Join { at, key_frame: true }),
            Tag::Audio => marks.push(Boundary::Join { at, key_frame: !self.has_video }),
            Tag::Picture => marks.push(Boundary::Join { at, key_frame: false }),
            _ => {}
        }
        if matches!(tag, Tag::KeyFrame | Tag::Picture) {
            marks.push(Boundary::Picture);
        }
        Ok(())
    }

    fn end(&mut self, tag: Tag, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        if let Some(bytes) = self.walk.next() {
            self.header.take(tag, bytes)?;
        }
        if self.body_began {
            marks.push(Boundary::RecordEnd { at: self.walk.position() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
