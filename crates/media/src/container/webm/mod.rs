//! WebM and Matroska (RFC 9559) as they are sent live, as far as a relay has to know them.
//!
//! ```text
//! EBML │ Segment, of unknown size ─────────────────────────────────────────────────────────
//!      │ Info │ Tracks │ … │ Cluster: time, blocks … │ Cluster: time, blocks … │ …
//! ```
//! * **Header**: all up to the first cluster. Where the segment's size is known it is made unknown for viewers: what
//!   follows for them is not what the file had.
//! * **Record**: a cluster; each of its children where its size is unknown, since then the next cluster ends it.
//! * **Join**: a cluster with a key frame as its first picture; any cluster where there are no pictures.
//!
//! [`demux`] makes access units of a stream, and [`mux`] a file of access units.
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
pub(super) mod ebml;
pub mod mux;
mod reorder;
mod tracks;
mod write_head;

use super::boundary::{Boundary, Error, RECORD_MAX_BYTES};
use super::walk::Walk;
use ebml::UNKNOWN;
use serde::{Deserialize, Serialize};

const EBML: u32 = 0x1A45_DFA3;
const DOC_TYPE: u32 = 0x4282;
const SEGMENT: u32 = 0x1853_8067;
const TRACKS: u32 = 0x1654_AE6B;
const TRACK_ENTRY: u32 = 0xAE;
const TRACK_NUMBER: u32 = 0xD7;
const TRACK_TYPE: u32 = 0x83;
const CLUSTER: u32 = 0x1F43_B675;
const SIMPLE_BLOCK: u32 = 0xA3;
const BLOCK_GROUP: u32 = 0xA0;
const BLOCK: u32 = 0xA1;
const REFERENCE_BLOCK: u32 = 0xFB;

/// `TrackType` of pictures.
const VIDEO: u64 = 1;
/// `SimpleBlock`: a key frame.
const KEY_FRAME: u8 = 0x80;
/// Of a block behind its track number: time i16, flags u8.
const BLOCK_HEAD_BYTES: usize = 3;
/// Tracks that are looked at.
const TRACKS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    #[default]
    Head,
    /// In the payload of an element that is passed over.
    Payload(u32),
    /// At the start of a block's payload of this size.
    Block { id: u32, size: u64 },
}

/// A cluster, or a group of blocks in it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Open {
    start: u64,
    /// `None`: until something else begins.
    end: Option<u64>,
}

/// Finds header, records and joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Scanner {
    pub(super) walk: Walk,
    state: State,
    began: bool,
    /// Where the segment's size stands, and its length.
    segment_size: Option<(u64, usize)>,
    video_tracks: Vec<u64>,
    knows_tracks: bool,
    cluster: Option<Open>,
    /// Whether the present cluster's first picture has shown.
    cluster_is_known: bool,
    group: Option<Open>,
    /// Of the present group: its block's track, and whether it refers to others.
    group_track: Option<u64>,
    group_refers: bool,
    body_began: bool,
}

impl Scanner {
    pub(super) fn scan(&mut self, mut input: &[u8], marks: &mut Vec<Boundary>) -> Result<(), Error> {
        loop {
            match self.state {
                State::Head => {
                    self.close_ended(marks);
                    let Some((id, size)) = self.head(&mut input)? else { return Ok(()) };
                    self.begin(id, size, marks)?;
                }
                State::Payload(id) => {
                    if !self.walk.pass(&mut input) {
                        return Ok(());
                    }
                    self.end(id, marks)?;
                    self.state = State::Head;
                }
                State::Block { id, size } => {
                    if !self.block(id, size, &mut input, marks)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Makes the segment's size unknown in a header.
    pub(super) fn make_endless(&self, header: &mut [u8]) {
        let Some((at, length)) = self.segment_size else { return };
        let size = usize::try_from(at).ok().and_then(|at| header.get_mut(at..at.checked_add(length)?));
        if let Some(size) = size {
            size.fill(0xFF);
            if let Some(first) = size.first_mut() {
                let others = u32::try_from(length.saturating_sub(1)).unwrap_or(u32::MAX);
                *first = u8::MAX.checked_shr(others).unwrap_or(0);
            }
        }
    }

    /// Gathers an element's ID and size.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<(u32, u64)>, Error> {
        if !self.began && !self.walk.gather(input, 4) {
            return Ok(None);
        }
        let head = self.walk.head();
        if !self.began && head[..4] != EBML.to_be_bytes() {
            let found = [head[0], head[1], head[2], head[3]];
            return Err(Error::Magic { found, expected: "EBML (1a 45 df a3)" });
        }
        self.began = true;
        if !self.walk.gather(input, 1) {
            return Ok(None);
        }
        let (first, at) = (self.walk.head()[0], self.walk.start());
        let id_bytes = ebml::length(first);
        if id_bytes > 4 {
            let (what, expected) = ("an element ID's first byte", "0x10 to 0xff");
            return Err(Error::Unexpected { what, found: first.into(), expected, at });
        }
        if !self.walk.gather(input, id_bytes.saturating_add(1)) {
            return Ok(None);
        }
        let size_bytes = ebml::length(self.walk.head()[id_bytes]);
        if size_bytes > 8 {
            let (what, expected) = ("an element size's first byte", "0x01 to 0xff");
            return Err(Error::Unexpected { what, found: 0, expected, at });
        }
        if !self.walk.gather(input, id_bytes.saturating_add(size_bytes)) {
            return Ok(None);
        }
        let head = self.walk.head();
        Ok(Some((ebml::id(head), ebml::number(&head[id_bytes..]))))
    }

    fn begin(&mut self, id: u32, size: u64, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        let (start, position) = (self.walk.start(), self.walk.position());
        let is_unknown = size == UNKNOWN;
        // Whatever has four bytes of ID stands beside clusters, not in them.
        if id > 0x00FF_FFFF && self.cluster.is_some_and(|cluster| cluster.end.is_none()) {
            self.end_cluster(marks);
        }
        if is_unknown && !matches!(id, SEGMENT | CLUSTER) {
            let (what, expected) = ("the ID of an element of unknown size", "Segment or Cluster");
            return Err(Error::Unexpected { what, found: id.into(), expected, at: start });
        }
        let inside = self.group.or(self.cluster).and_then(|open| open.end);
        if inside.is_some_and(|end| position.saturating_add(size) > end) {
            let (what, expected) = ("an element's size", "one that fits into its cluster or group");
            return Err(Error::Unexpected { what, found: size, expected, at: start });
        }
        match id {
            EBML if start > 0 => {
                let (what, expected) = ("a second EBML header's ID", "one stream; publish the next one anew");
                return Err(Error::Unexpected { what, found: id.into(), expected, at: start });
            }
            SEGMENT if self.cluster.is_none() && !self.body_began => {
                // Behind its ID, which has four bytes.
                let size_at = start.saturating_add(4);
                let size_bytes = usize::try_from(position.saturating_sub(size_at)).unwrap_or(0);
                self.segment_size = Some((size_at, size_bytes));
                self.walk.next();
            }
            CLUSTER if self.cluster.is_none() => self.begin_cluster(size, marks)?,
            BLOCK_GROUP if self.cluster.is_some() && self.group.is_none() => {
                self.group = Some(Open { start, end: Some(position.saturating_add(size)) });
                (self.group_track, self.group_refers) = (None, false);
                self.check_length("BlockGroup", size)?;
                self.walk.next();
            }
            SIMPLE_BLOCK | BLOCK if self.cluster.is_some() => {
                self.check_length("block", size)?;
                self.state = State::Block { id, size };
            }
            _ => {
                self.group_refers |= id == REFERENCE_BLOCK && self.group.is_some();
                self.check_length("element", size)?;
                self.walk.expect(size, matches!(id, EBML | TRACKS) && !self.body_began)?;
                self.state = State::Payload(id);
            }
        }
        Ok(())
    }

    fn check_length(&self, what: &'static str, found: u64) -> Result<(), Error> {
        let at = self.walk.start();
        if found <= RECORD_MAX_BYTES { Ok(()) } else { Err(Error::RecordTooLong { what, found, at }) }
    }

    fn begin_cluster(&mut self, size: u64, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        let (start, position) = (self.walk.start(), self.walk.position());
        if self.segment_size.is_none() || !self.knows_tracks {
            let (what, expected) = ("a Cluster's ID", "Segment and Tracks before it");
            return Err(Error::Unexpected { what, found: CLUSTER.into(), expected, at: start });
        }
        let end = (size != UNKNOWN).then(|| position.saturating_add(size));
        if end.is_some() {
            self.check_length("Cluster", size)?;
        }
        if !self.body_began {
            self.body_began = true;
            marks.push(Boundary::BodyBegins { at: start });
        }
        self.cluster = Some(Open { start, end });
        self.cluster_is_known = self.video_tracks.is_empty();
        if self.cluster_is_known {
            marks.push(Boundary::Join { at: start, key_frame: true });
        }
        self.walk.next();
        Ok(())
    }

    /// Reads a block's track and flags. Whether all that takes is there.
    fn block(
        &mut self,
        id: u32,
        size: u64,
        input: &mut &[u8],
        marks: &mut Vec<Boundary>,
    ) -> Result<bool, Error> {
        let (at, id_bytes) = (self.walk.start(), ebml::length(self.walk.head()[0]));
        let element = id_bytes.saturating_add(ebml::length(self.walk.head()[id_bytes]));
        if size <= BLOCK_HEAD_BYTES as u64 {
            let (what, expected) = ("a block's size", "at least 4");
            return Err(Error::Unexpected { what, found: size, expected, at });
        }
        if !self.walk.gather(input, element.saturating_add(1)) {
            return Ok(false);
        }
        let track_bytes = ebml::length(self.walk.head()[element]);
        let wanted = track_bytes.saturating_add(BLOCK_HEAD_BYTES);
        if track_bytes > 8 || wanted as u64 > size {
            let (what, expected) = ("a block's track number", "one that fits into the block");
            return Err(Error::Unexpected { what, found: self.walk.head()[element].into(), expected, at });
        }
        let head_bytes = element.saturating_add(wanted);
        if !self.walk.gather(input, head_bytes) {
            return Ok(false);
        }
        let track = ebml::number(&self.walk.head()[element..]);
        let flags = self.walk.head()[head_bytes.saturating_sub(1)];
        if id == SIMPLE_BLOCK {
            self.saw_block(track, flags & KEY_FRAME != 0, marks);
        } else {
            self.group_track = Some(track);
        }
        self.walk.expect(size.saturating_sub(wanted as u64), false)?;
        self.state = State::Payload(id);
        Ok(true)
    }

    fn saw_block(&mut self, track: u64, key_frame: bool, marks: &mut Vec<Boundary>) {
        let Some(cluster) = self.cluster.filter(|_| self.video_tracks.contains(&track)) else { return };
        marks.push(Boundary::Picture);
        if !self.cluster_is_known {
            self.cluster_is_known = true;
            marks.push(Boundary::Join { at: cluster.start, key_frame });
        }
    }

    /// An element that was passed over has ended.
    fn end(&mut self, id: u32, marks: &mut Vec<Boundary>) -> Result<(), Error> {
        let (start, at) = (self.walk.start(), self.walk.position());
        if let Some(bytes) = self.walk.next() {
            let id_bytes = ebml::length(bytes[0]);
            let payload = &bytes[id_bytes.saturating_add(ebml::length(bytes[id_bytes]))..];
            match id {
                EBML => check_doc_type(payload, start)?,
                _ => {
                    self.video_tracks = video_tracks(payload);
                    self.knows_tracks = true;
                }
            }
        }
        let in_whole = self.group.is_some() || self.cluster.is_some_and(|cluster| cluster.end.is_some());
        if self.body_began && !in_whole {
            marks.push(Boundary::RecordEnd { at });
        }
        Ok(())
    }

    /// Closes the group and the cluster that end here.
    fn close_ended(&mut self, marks: &mut Vec<Boundary>) {
        let at = self.walk.position();
        if !self.walk.head().is_empty() {
            return;
        }
        if self.group.is_some_and(|group| group.end == Some(at)) {
            self.group = None;
            if let Some(track) = self.group_track.take() {
                self.saw_block(track, !self.group_refers, marks);
            }
            if self.cluster.is_some_and(|cluster| cluster.end.is_none()) {
                marks.push(Boundary::RecordEnd { at });
            }
        }
        if self.cluster.is_some_and(|cluster| cluster.end == Some(at)) {
            self.end_cluster(marks);
            marks.push(Boundary::RecordEnd { at });
        }
    }

    fn end_cluster(&mut self, marks: &mut Vec<Boundary>) {
        if let Some(cluster) = self.cluster.take().filter(|_| !self.cluster_is_known) {
            marks.push(Boundary::Join { at: cluster.start, key_frame: false });
        }
    }
}

fn check_doc_type(payload: &[u8], at: u64) -> Result<(), Error> {
    let doc_type = ebml::children(payload).find(|(id, _)| *id == DOC_TYPE).map(|(_, name)| ebml::text(name));
    match doc_type {
        Some(b"webm" | b"matroska") => Ok(()),
        other => {
            let found = ebml::unsigned(other.unwrap_or_default()).unwrap_or(u64::MAX);
            let (what, expected) = ("the EBML header's DocType", "webm or matroska");
            Err(Error::Unexpected { what, found, expected, at })
        }
    }
}

/// The numbers of the tracks that are pictures.
fn video_tracks(tracks: &[u8]) -> Vec<u64> {
    let entries = ebml::children(tracks).filter(|(id, _)| *id == TRACK_ENTRY);
    let video = entries.filter_map(|(_, entry)| {
        let field = |wanted| {
            ebml::children(entry).find(|(id, _)| *id == wanted).and_then(|(_, value)| ebml::unsigned(value))
        };
        (field(TRACK_TYPE) == Some(VIDEO)).then(|| field(TRACK_NUMBER)).flatten()
    });
    video.take(TRACKS_MAX).collect()
}

#[cfg(test)]
mod tests;
