//! A part of an index: written line by line, and read whole.

use super::super::names::{INDEX_PART_MAX, Session};
use super::line;
use super::{
    Hole, LINE_MAX_BYTES, Line, MpegTsSegment, PART_BYTES, PART_MAX_BYTES, RecordedSegment, VERSION, crc32c,
};
use crate::packager::{RenditionName, TrackInfo};
use crate::policy::StreamName;
use glassline_media::Utc;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the first line of each part says it is.
const FORMAT: &str = "glassline-archive";

#[derive(Deserialize, Serialize)]
struct Header<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u32,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    session: Cow<'a, str>,
    part: u32,
}

#[derive(Deserialize, Serialize)]
struct Footer {
    lines: u64,
    crc32c: String,
}

/// Writes a part.
#[derive(Debug)]
pub struct PartWriter {
    text: String,
    lines: u64,
    tracks: BTreeSet<(RenditionName, u32)>,
    segments: usize,
}

impl PartWriter {
    /// Part `part` of the index of this recording, from 0 to [`INDEX_PART_MAX`].
    pub fn new(name: &StreamName, session: Session, part: u32) -> PartWriter {
        let session = session.to_string();
        let header = Header {
            format: FORMAT.into(),
            version: VERSION,
            name: name.as_str().into(),
            session: session.as_str().into(),
            part,
        };
        let mut writer = PartWriter { text: String::new(), lines: 0, tracks: BTreeSet::new(), segments: 0 };
        writer.write_line(&serde_json::to_string(&header).unwrap_or_default());
        writer
    }

    /// A segment was recorded; `track` is what its rendition is in its epoch.
    pub fn add_segment(&mut self, rendition: RenditionName, track: &TrackInfo, segment: &RecordedSegment) {
        if self.tracks.insert((rendition, track.epoch)) {
            self.write_line(&line::write(&Line::Track(rendition, track.clone())));
        }
        self.write_line(&line::write(&Line::Segment(rendition, segment.clone())));
        self.segments += 1;
    }

    /// The segments of a number are there as MPEG-TS, too.
    pub fn add_mpeg_ts(&mut self, segment: MpegTsSegment) {
        self.write_line(&line::write(&Line::MpegTs(segment)));
        self.segments += 1;
    }

    /// Segments were not recorded.
    pub fn add_hole(&mut self, hole: &Hole) {
        self.write_line(&line::write(&Line::Hole(hole.clone())));
        self.segments += 1;
    }

    /// The recording has ended then. Nothing follows but [`PartWriter::finish`].
    pub fn end(&mut self, utc: Utc) {
        self.write_line(&line::write(&Line::Ended(utc)));
    }

    /// How many segments and holes it has.
    pub const fn entries(&self) -> usize {
        self.segments
    }

    /// Whether it has come to so many bytes that another one begins.
    pub const fn is_full(&self) -> bool {
        self.text.len() >= PART_BYTES
    }

    /// The part's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let crc32c = format!("{:08x}", crc32c(self.text.as_bytes()));
        let footer = serde_json::to_string(&Footer { lines: self.lines, crc32c });
        self.write_line(&footer.unwrap_or_default());
        self.text.into_bytes()
    }

    fn write_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
    }
}

/// A part that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The stream.
    pub name: StreamName,
    /// The recording.
    pub session: Session,
    /// Its number.
    pub number: u32,
    /// What it says, in that order.
    pub lines: Vec<Line>,
    /// Lines that this version knows nothing of.
    pub unknown: u64,
}

/// Why a part is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// It is larger than any part.
    #[error("a part of an index has at most 1 MiB, and this one has {0} bytes")]
    TooLarge(usize),
    /// Its end is missing, or its bytes are others than those that were written.
    #[error("the part is torn: {0}")]
    Torn(&'static str),
    /// It is no part of an index.
    #[error(
        "this is no part of an index of Glassline: its first line does not say \"format\":\"glassline-archive\""
    )]
    Foreign,
    /// A later program wrote it.
    #[error(
        "the index has version {0}, and this program reads version 1: read it with the program that wrote it or a later one"
    )]
    Version(u32),
    /// A line says what cannot be.
    #[error("line {line} of the part: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl Part {
    /// Reads a part.
    ///
    /// # Errors
    /// [`PartError`]: then nothing of it counts.
    pub fn read(bytes: &[u8]) -> Result<Part, PartError> {
        if bytes.len() > PART_MAX_BYTES {
            return Err(PartError::TooLarge(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| PartError::Torn("it is no UTF-8"))?;
        let header_line = text.split('\n').next().unwrap_or_default();
        let header = read_header(header_line)?;
        let body = whole_lines(text)?;
        let mut part =
            Part { name: header.0, session: header.1, number: header.2, lines: Vec::new(), unknown: 0 };
        for (text, number) in body.lines().zip(1..).skip(1) {
            if text.len() > LINE_MAX_BYTES {
                return Err(PartError::Line { line: number, what: "it is longer than 16 KiB".to_owned() });
            }
            match line::read(text).map_err(|what| PartError::Line { line: number, what })? {
                Some(line) => part.lines.push(line),
                None => part.unknown += 1,
            }
        }
        Ok(part)
    }

    /// Writes it again, as this version writes it: with the tracks in front of the segments that need them.
    pub fn write(&self) -> Vec<u8> {
        let mut writer = PartWriter::new(&self.name, self.session, self.number);
        for line in &self.lines {
            writer.write_line(&line::write(line));
        }
        writer.finish()
    }
}

fn read_header(text: &str) -> Result<(StreamName, Session, u32), PartError> {
    if text.len() > LINE_MAX_BYTES {
        return Err(PartError::Foreign);
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        format: Cow<'a, str>,
        version: u32,
    }
    let kind: Kind<'_> = serde_json::from_str(text).map_err(|_| PartError::Foreign)?;
    if kind.format != FORMAT {
        return Err(PartError::Foreign);
    }
    // Before all else that a later version may have changed.
    if kind.version != VERSION {
        return Err(PartError::Version(kind.version));
    }
    let bad = |what: &str| PartError::Line { line: 1, what: what.to_owned() };
    let header: Header<'_> = serde_json::from_str(text).map_err(|error| bad(&error.to_string()))?;
    let name = StreamName::parse(&header.name).ok_or_else(|| bad("no stream has this name"))?;
    let session = header.session.parse().map_err(|_| bad("no recording has this name"))?;
    if header.part > INDEX_PART_MAX {
        return Err(bad("no part has this number"));
    }
    Ok((name, session, header.part))
}

/// What stands before the last line, which has to agree with it.
fn whole_lines(text: &str) -> Result<&str, PartError> {
    let lines = text.strip_suffix('\n').ok_or(PartError::Torn("its last line has no end"))?;
    let (body, last) = match lines.rsplit_once('\n') {
        Some((before, last)) => (text.get(..=before.len()).unwrap_or_default(), last),
        None => return Err(PartError::Torn("it has one line")),
    };
    let footer: Footer = Some(last)
        .filter(|last| last.len() <= LINE_MAX_BYTES)
        .and_then(|last| serde_json::from_str(last).ok())
        .ok_or(PartError::Torn("its last line has no count and no CRC"))?;
    let count = body.bytes().filter(|byte| *byte == b'\n').count() as u64;
    if footer.lines != count {
        return Err(PartError::Torn("it has not as many lines as its last one says"));
    }
    if footer.crc32c != format!("{:08x}", crc32c(body.as_bytes())) {
        return Err(PartError::Torn("its bytes have another CRC than its last line says"));
    }
    Ok(body)
}
