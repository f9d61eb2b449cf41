//! Records of the spool's log: one log for all streams that are recorded, in files that are only ever appended to.
//!
//! ```text
//! record   0 "GLR1" │ 4 CRC-32C of what follows up to 40 │ 8 length of the payload │ 12 CRC-32C of the payload
//!         16 kind │ 17 rendition │ 18 two zeros │ 20 part │ 24 recording │ 32 number │ 40 payload
//! payload  a line of JSON │ line feed │ bytes
//! ```
//! Numbers are little-endian. A file ends at the first record that is not whole: what a crash has torn. A header has a CRC of its
//! own, so that a reader can go from record to record without reading all of the media between them.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::index::{Crc32c, crc32c};
use crate::packager::RenditionName;
use bytes::Bytes;

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 40;
/// The longest payload. A part of a segment lasts a fifth of a second: this is one of 2.6 Gbit/s.
pub const PAYLOAD_MAX_BYTES: u32 = 64 << 20;
/// The longest line of JSON in front of a payload's bytes.
pub const LINE_MAX_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 4] = b"GLR1";

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A recording has begun, or goes on in this file: its names, tracks, and the number of its next index part.
    Begun,
    /// The CMAF header of epoch `number`, behind the line of its track.
    Init,
    /// A part of segment `number`, behind the line of the segment as far as it has come with it.
    Part,
    /// Segment `number` is complete: its line, and where its parts are.
    SegmentEnd,
    /// Part `number` of the index: which segments it tells of, and its text.
    IndexPart,
    /// An object is in the store: [`Header::part`] says of which kind it is.
    Stored,
    /// Segment `number` of pictures and sound as MPEG-TS, whole, behind its line.
    MpegTs,
    /// The recording has ended: `number` is when, in nanoseconds of UTC.
    Ended,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Begun,
        Kind::Init,
        Kind::Part,
        Kind::SegmentEnd,
        Kind::IndexPart,
        Kind::Stored,
        Kind::MpegTs,
        Kind::Ended,
    ];

    const fn code(self) -> u8 {
        match self {
            Kind::Begun => 1,
            Kind::Init => 2,
            Kind::Part => 3,
            Kind::SegmentEnd => 4,
            Kind::IndexPart => 5,
            Kind::Stored => 6,
            Kind::Ended => 7,
            Kind::MpegTs => 8,
        }
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Of which rendition; `None` where it is of the whole recording.
    pub rendition: Option<RenditionName>,
    /// Part within the segment; of [`Kind::Stored`] the kind of object.
    pub part: u32,
    /// The recording, by a number that this log gave it.
    pub recording: u64,
    /// Of a segment, an epoch or an index part.
    pub number: u64,
    /// Bytes of the payload.
    pub length: u32,
    /// CRC-32C of the payload.
    pub payload_crc32c: u32,
}

/// Why there is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no whole record")]
pub struct Torn;

const fn rendition_code(rendition: Option<RenditionName>) -> u8 {
    match rendition {
        None => 0,
        Some(RenditionName::Video) => 1,
        Some(RenditionName::Audio(number)) => number.saturating_add(1),
    }
}

fn rendition_of(code: u8) -> Result<Option<RenditionName>, Torn> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(RenditionName::Video)),
        code if code <= crate::packager::AUDIO_MAX.saturating_add(1) => {
            Ok(Some(RenditionName::Audio(code.saturating_sub(1))))
        }
        _ => Err(Torn),
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().map_or(0, u32::from_le_bytes)
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.copied().map_or(0, u64::from_le_bytes)
}

impl Header {
    /// The header of a record with this payload, which is `pieces` end to end; `None` where that is too long.
    pub fn of(mut self, pieces: &[Bytes]) -> Option<Header> {
        let mut crc = Crc32c::default();
        let mut length = 0u32;
        for piece in pieces {
            length = length.checked_add(u32::try_from(piece.len()).ok()?)?;
            crc.update(piece);
        }
        (self.length, self.payload_crc32c) = (length, crc.value());
        (length <= PAYLOAD_MAX_BYTES).then_some(self)
    }

    /// Its bytes.
    pub fn write(&self) -> [u8; HEADER_BYTES] {
        let mut body = Vec::with_capacity(HEADER_BYTES);
        body.extend_from_slice(&self.length.to_le_bytes());
        body.extend_from_slice(&self.payload_crc32c.to_le_bytes());
        body.extend_from_slice(&[self.kind.code(), rendition_code(self.rendition), 0, 0]);
        body.extend_from_slice(&self.part.to_le_bytes());
        body.extend_from_slice(&self.recording.to_le_bytes());
        body.extend_from_slice(&self.number.to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        let whole =
            MAGIC.iter().chain(&crc32c(&body).to_le_bytes()).chain(&body).copied().collect::<Vec<_>>();
        header.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        header
    }

    /// Reads one at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Torn`] where none is there.
    pub fn read(bytes: &[u8]) -> Result<Header, Torn> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Torn)?;
        let (begin, body) = bytes.split_at(8);
        if begin.get(..4) != Some(MAGIC.as_slice()) || read_u32(begin, 4) != crc32c(body) {
            return Err(Torn);
        }
        let code = body.get(8).copied().unwrap_or_default();
        let header = Header {
            kind: Kind::ALL.into_iter().find(|kind| kind.code() == code).ok_or(Torn)?,
            rendition: rendition_of(body.get(9).copied().unwrap_or_default())?,
            part: read_u32(body, 12),
            recording: read_u64(body, 16),
            number: read_u64(body, 24),
            length: read_u32(body, 0),
            payload_crc32c: read_u32(body, 4),
        };
        if header.length <= PAYLOAD_MAX_BYTES { Ok(header) } else { Err(Torn) }
    }

    /// Whether `payload` is the one that was written.
    pub fn has(&self, payload: &[u8]) -> bool {
        payload.len() == self.length as usize && crc32c(payload) == self.payload_crc32c
    }

    /// Bytes of the whole record.
    pub fn record_bytes(&self) -> u64 {
        u64::from(self.length).saturating_add(HEADER_BYTES as u64)
    }
}

/// The line of JSON of a payload, and the bytes behind it.
///
/// # Errors
/// [`Torn`] where there is no line.
pub fn split(payload: &[u8]) -> Result<(&str, &[u8]), Torn> {
    let end = payload.iter().take(LINE_MAX_BYTES).position(|byte| *byte == b'\n').ok_or(Torn)?;
    let line = payload.get(..end).and_then(|line| std::str::from_utf8(line).ok()).ok_or(Torn)?;
    Ok((line, payload.get(end.saturating_add(1)..).unwrap_or_default()))
}

/// Bytes of a record, by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file's number.
    pub file: u32,
    /// Where they begin in it.
    pub at: u32,
    /// How many.
    pub length: u32,
}

/// Bytes of a piece as a record has it.
const PIECE_BYTES: usize = 12;

/// Pieces as a record has them.
pub fn write_pieces(pieces: &[Piece]) -> Bytes {
    let fields = pieces.iter().flat_map(|piece| [piece.file, piece.at, piece.length]);
    fields.flat_map(u32::to_le_bytes).collect()
}

/// Reads what [`write_pieces`] wrote.
///
/// # Errors
/// [`Torn`] where it is none of that.
pub fn read_pieces(bytes: &[u8]) -> Result<Vec<Piece>, Torn> {
    let (whole, rest) = bytes.as_chunks::<PIECE_BYTES>();
    if !rest.is_empty() {
        return Err(Torn);
    }
    let read = |piece: &[u8; PIECE_BYTES]| Piece {
        file: read_u32(piece, 0),
        at: read_u32(piece, 4),
        length: read_u32(piece, 8),
    };
    Ok(whole.iter().map(read).collect())
}

/// Calls `found` with each whole record of a file, its payload, and where the payload begins. Returns where the first begins that is
/// not whole.
pub fn scan(bytes: &[u8], mut found: impl FnMut(&Header, &[u8], usize)) -> usize {
    let mut at = 0usize;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Ok(header) = Header::read(rest) else { return at };
        let begin = at.saturating_add(HEADER_BYTES);
        let end = begin.saturating_add(header.length as usize);
        let Some(payload) = bytes.get(begin..end).filter(|payload| header.has(payload)) else { return at };
        found(&header, payload, begin);
        at = end;
    }
}

/// Where in `bytes` the header of the first record is, whether its payload is whole or not; `None` where there is none.
pub fn find(bytes: &[u8]) -> Option<usize> {
    let begins = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC);
    let mut begins = begins.map(|(at, _)| at);
    begins.find(|at| bytes.get(*at..).is_some_and(|rest| Header::read(rest).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> impl Strategy<Value = Header> {
        let renditions = prop_oneof![
            Just(None),
            Just(Some(RenditionName::Video)),
            (1..=crate::packager::AUDIO_MAX).prop_map(|number| Some(RenditionName::Audio(number)))
        ];
        (0..Kind::ALL.len(), renditions, any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
            |(kind, rendition, part, recording, number)| Header {
                kind: Kind::ALL[kind],
                rendition,
                part,
                recording,
                number,
                length: 0,
                payload_crc32c: 0,
            },
        )
    }

    fn record(header: Header, payload: &[u8]) -> (Header, Vec<u8>) {
        let header = header.of(&[Bytes::copy_from_slice(payload)]).unwrap();
        (header, [&header.write()[..], payload].concat())
    }

    proptest! {
        /// Wherever a file ends, all that is whole is found, and nothing else.
        #[test]
        fn a_file_that_is_cut_anywhere_has_the_records_before(
            records in proptest::collection::vec((header(), proptest::collection::vec(any::<u8>(), 0..60)), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = Vec::new();
            let mut ends = vec![0];
            let mut written = Vec::new();
            for (header, payload) in &records {
                let (header, bytes) = record(*header, payload);
                file.extend(bytes);
                ends.push(file.len());
                written.push((header, payload.clone()));
            }
            let cut = cut.index(file.len() + 1);
            let mut found = Vec::new();
            let end = scan(&file[..cut], |header, payload, _| found.push((*header, payload.to_vec())));
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            prop_assert_eq!(end, ends[whole]);
            prop_assert_eq!(&found[..], &written[..whole]);
        }

        /// One wrong bit ends a file at its record.
        #[test]
        fn a_wrong_bit_is_seen(header in header(), payload in proptest::collection::vec(any::<u8>(), 0..60), bit in any::<prop::sample::Index>()) {
            let (_, mut bytes) = record(header, &payload);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(scan(&bytes, |_, _, _| panic!("it is wrong")), 0);
        }

        #[test]
        fn the_next_record_is_found_behind_anything(before in proptest::collection::vec(any::<u8>(), 0..90), header in header()) {
            let (_, record) = record(header, b"payload");
            let whole = [&before[..], b"GLR1", &record].concat();
            prop_assert_eq!(find(&whole), Some(before.len() + 4));
            prop_assert_eq!(find(&whole[..whole.len() - 8]), None);
        }

        #[test]
        fn any_bytes_are_scanned_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(scan(&bytes, |_, _, _| ()) <= bytes.len());
            let _ = read_pieces(&bytes);
            let _ = split(&bytes);
        }
    }

    #[test]
    fn pieces_and_lines_are_read_as_they_were_written() {
        let pieces = [Piece { file: 1, at: 40, length: 7 }, Piece { file: 2, at: u32::MAX, length: 0 }];
        assert_eq!(read_pieces(&write_pieces(&pieces)).unwrap(), pieces);
        assert_eq!(read_pieces(&[0; 13]), Err(Torn));
        assert_eq!(split(b"{}\nab\nc").unwrap(), ("{}", &b"ab\nc"[..]));
        assert_eq!(split(b"{}"), Err(Torn));
    }
}
