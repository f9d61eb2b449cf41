//! Ogg (RFC 3533) with Theora, VP8, Vorbis, Opus (RFC 7845), Speex and FLAC in it, as far as a relay has to know it.
//!
//! ```text
//! "OggS" 0 flags granule i64 serial u32 number u32 CRC u32 n u8 │ n lengths u8 │ payload
//!          1 continues a packet, 2 begins a stream, 4 ends one    a packet ends where a length is below 255
//! ```
//! * **Header**: the pages that begin the streams, and those of their codecs' header packets. Where streams end and
//!   others begin (chaining), theirs replace them for whom joins later.
//! * **Record**: a page.
//! * **Join**: a page that begins with a packet: with a key frame's where there are pictures.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::boundary::{Boundary, Error};
use super::walk::Walk;
use serde::{Deserialize, Serialize};

const PAGE_HEAD_BYTES: usize = 27;
const CONTINUES: u8 = 1;
const BEGINS: u8 = 2;
/// Of a stream's first packet: enough to know its codec.
const IDENTIFICATION_BYTES: usize = 80;
/// Streams at once.
const STREAMS_MAX: usize = 32;

/// What a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Codec {
    Theora,
    Vp8,
    /// Sound with a known number of header packets.
    Sound,
    /// Words about the others.
    Skeleton,
    Unknown,
}

impl Codec {
    /// From a stream's first packet, with the number of header packets, this one among them.
    fn identify(packet: &[u8]) -> (Codec, u32) {
        let byte = |at: usize| u32::from(packet.get(at).copied().unwrap_or(0));
        match packet {
            [0x80, b't', b'h', b'e', b'o', b'r', b'a', ..] => (Codec::Theora, 3),
            [b'O', b'V', b'P', b'8', b'0', ..] => (Codec::Vp8, 2),
            [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => (Codec::Sound, 3),
            [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => (Codec::Sound, 2),
            // The number of further ones stands in the first: at byte 68, little-endian; at byte 7, big-endian.
            [b'S', b'p', b'e', b'e', b'x', b' ', b' ', b' ', ..] => {
                (Codec::Sound, byte(68).min(16).saturating_add(2))
            }
            [0x7F, b'F', b'L', b'A', b'C', ..] => {
                (Codec::Sound, (byte(7) << 8 | byte(8)).max(1).saturating_add(1))
            }
            [b'f', b'i', b's', b'h', b'e', b'a', b'd', 0, ..] => (Codec::Skeleton, 1),
            _ => (Codec::Unknown, 1),
        }
    }

    fn is_video(self) -> bool {
        matches!(self, Codec::Theora | Codec::Vp8)
    }

    /// Whether a packet that begins with `first` is a key frame (Theora §7.1, RFC 6386 §9.1).
    fn is_key_frame(self, first: u8) -> bool {
        match self {
            Codec::Theora => first & 0xC0 == 0,
            Codec::Vp8 => first & 1 == 0,
            Codec::Sound | Codec::Skeleton | Codec::Unknown => true,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stream {
    serial: u32,
    codec: Codec,
    /// Header packets that are still to come.
    headers_left: u32,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
enum State {
    #[default]
    Head,
    Payload,
}

/// A page's head, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Page {
    flags: u8,
    granule: i64,
    serial: u32,
    /// Packets that end on it.
    packets: u32,
    payload_bytes: u64,
    /// Where its payload begins.
    head_bytes: usize,
}

/// Finds header, records and joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Scanner {
    pub(super) walk: Walk,
    state: State,
    streams: Vec<Stream>,
    body_began: bool,
    /// The header of streams that began behind the first header, until it is whole.
    chained: Option<Vec<u8>>,
}

impl Scanner {
    pub(super) fn scan(&mut self, mut input: &[u8], marks: &mut Vec<Boundary>) -> Result<(), Error> {
        loop {
            match self.state {
                State::Head => {
                    let Some(page) = self.head(&mut input)? else { return Ok(()) };
                    self.begin(page, marks)?;
                    self.state = State::Payload;
                }
                State::Payload => {
                    if !self.walk.pass(&mut input) {
                        return Ok(());
                    }
                    if let (Some(page), Some(chained)) = (self.walk.next(), &mut self.chained) {
                        chained.extend_from_slice(&page);
                        if chained.len() > super::split::HEADER_MAX_BYTES {
                            return Err(Error::HeaderTooLong { found: chained.len() as u64 });
                        }
                    }
                    if self.body_began {
                        marks.push(Boundary::RecordEnd { at: self.walk.position() });
                    }
                    self.state = State::Head;
                }
            }
        }
    }

    /// Gathers a page's head and the first bytes of its payload.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Page>, Error> {
        if !self.walk.gather(input, 4) {
            return Ok(None);
        }
        let (head, at) = (self.walk.head(), self.walk.start());
        let found = [head[0], head[1], head[2], head[3]];
        if found != *b"OggS" {
            return Err(match at {
                0 => Error::Magic { found, expected: "OggS (4f 67 67 53)" },
                at => {
                    let (found, expected) = (u32::from_be_bytes(found).into(), "0x4f676753 (OggS)");
                    Error::Unexpected { what: "an Ogg page's beginning", found, expected, at }
                }
            });
        }
        if !self.walk.gather(input, PAGE_HEAD_BYTES) {
            return Ok(None);
        }
        let head = self.walk.head();
        if head[4] != 0 {
            let found = head[4].into();
            return Err(Error::Unexpected { what: "an Ogg page's version", found, expected: "0", at });
        }
        let (flags, segments) = (head[5], usize::from(head[26]));
        let serial = u32::from_le_bytes([head[14], head[15], head[16], head[17]]);
        let granule = head[6..14].iter().rev().fold(0_i64, |granule, byte| granule << 8 | i64::from(*byte));
        let head_bytes = segments.saturating_add(PAGE_HEAD_BYTES);
        if !self.walk.gather(input, head_bytes) {
            return Ok(None);
        }
        let lengths = &self.walk.head()[PAGE_HEAD_BYTES..head_bytes];
        let packets = lengths.iter().map(|length| u32::from(*length < 255)).sum::<u32>();
        let payload_bytes = lengths.iter().map(|length| usize::from(*length)).sum::<usize>();
        let wanted = if flags & BEGINS != 0 { IDENTIFICATION_BYTES } else { 1 };
        if !self.walk.gather(input, head_bytes.saturating_add(wanted.min(payload_bytes))) {
            return Ok(None);
        }
        let payload_bytes = payload_bytes as u64;
        Ok(Some(Page { flags, granule, serial, packets, payload_bytes, head_bytes }))
    }

    fn begin(&mut self, page: Page, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        let is_header = self.take_header(page)?;
        let at = self.walk.start();
        if is_header && self.body_began && self.chained.is_none() {
            self.chained = Some(Vec::new());
        }
        let keep = is_header && self.chained.is_some();
        let gathered = self.walk.head().len().saturating_sub(page.head_bytes);
        if !is_header {
            if !self.body_began {
                self.body_began = true;
                marks.push(Boundary::BodyBegins { at });
            }
            marks.extend(self.chained.take().map(Boundary::Header));
            self.tell_joins(page, marks);
        }
        self.walk.expect(page.payload_bytes.saturating_sub(gathered as u64), keep)
    }

    /// Notes what a page brings of the streams' headers. Returns whether it belongs to them.
    fn take_header(&mut self, page: Page) -> Result<bool, Error> {
        let at = self.walk.start();
        if page.flags & BEGINS != 0 {
            if self.body_began && self.chained.is_none() {
                // A chain's next link (RFC 3533 §4).
                self.streams.clear();
            }
            let (codec, headers) = Codec::identify(&self.walk.head()[page.head_bytes..]);
            let headers_left = headers.saturating_sub(page.packets);
            self.streams.push(Stream { serial: page.serial, codec, headers_left });
            if self.streams.len() > STREAMS_MAX {
                let (found, expected) = (self.streams.len() as u64, "at most 32");
                return Err(Error::Unexpected { what: "the number of Ogg streams", found, expected, at });
            }
            return Ok(true);
        }
        if self.streams.is_empty() {
            let (what, expected) = ("the first Ogg page's flags", "2 (a stream begins)");
            return Err(Error::Unexpected { what, found: page.flags.into(), expected, at });
        }
        if self.body_began && self.chained.is_none() {
            return Ok(false);
        }
        let all_are_whole = self.streams.iter().all(|stream| stream.headers_left == 0);
        let stream = self.streams.iter_mut().find(|stream| stream.serial == page.serial);
        let Some(stream) = stream else { return Ok(true) };
        if all_are_whole && !matches!(stream.codec, Codec::Skeleton | Codec::Unknown)
            || all_are_whole && stream.codec == Codec::Unknown && page.granule != 0
        {
            return Ok(false);
        }
        stream.headers_left = stream.headers_left.saturating_sub(page.packets);
        Ok(true)
    }

    fn tell_joins(&self, page: Page, marks: &mut Vec<Boundary>) {
        let (at, first) = (self.walk.start(), self.walk.head().get(page.head_bytes).copied());
        let codec =
            self.streams.iter().find(|stream| stream.serial == page.serial).map(|stream| stream.codec);
        if codec.is_some_and(Codec::is_video) {
            marks.push(Boundary::Picture);
        }
        let Some(first) = first.filter(|_| page.flags & CONTINUES == 0) else { return };
        let has_video = self.streams.iter().any(|stream| stream.codec.is_video());
        let key_frame = match codec {
            Some(codec) if has_video => codec.is_video() && codec.is_key_frame(first),
            Some(Codec::Skeleton) | None => false,
            Some(_) => true,
        };
        marks.push(Boundary::Join { at, key_frame });
    }
}

#[cfg(test)]
mod tests;
