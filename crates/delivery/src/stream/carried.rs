//! A container that is carried as it is, on its way into the file.
//!
//! The file holds what is behind the header; the header is kept beside it and goes before a viewer's first byte. The
//! bytes of a record are appended as they come. Where records end is remembered: only there may a viewer that has
//! fallen behind leave the stream for a later place.
//!
//! ```text
//! publisher 1                    publisher 2, another header
//! ├─record─┼─record─┼─recor┊     ├─record─┼─record─┤
//!                          ╰─────┴ seam: viewers of publisher 1 end here
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

use super::blocks::{Block, Blocks, Part};
use super::entry::{Entry, Point};
use super::file_end::{FileEnd, KEY_FRAME_TIMEOUT, StreamError};
use super::mux::Mux;
use glassline_media::Time;
use glassline_media::container::split::{Error, Split, Splitter};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Between two record ends that are remembered.
const END_INTERVAL_BYTES: u64 = 4 << 10;
/// How far before the tail record ends are remembered. A reader keeps the part of the file that it stands in, so that it
/// can finish its record whenever its socket has room again: at 100 Mbit/s these are 20 s, for 0.5 MiB of memory.
const ENDS_KEPT_BYTES: u64 = 256 << 20;
/// Seams that are remembered. A viewer that is further behind is ended at a later one's start, where its bytes are
/// gone anyway.
const SEAMS: usize = 16;

/// A stream of records behind a header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Records {
    mux: Mux,
    intake: Intake,
    track: Track,
}

/// What says where the header and the records are.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Intake {
    /// The bytes themselves.
    Splitter(Box<Splitter>),
    /// The upstream's blocks.
    Blocks(Blocks),
}

impl Intake {
    fn new(mux: Mux) -> Intake {
        let splitter = mux.container().map(|container| Box::new(Splitter::new(container)));
        splitter.map_or_else(|| Intake::Blocks(Blocks::default()), Intake::Splitter)
    }
}

/// What is known of the records in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Track {
    /// The present publisher's; `None` until its header is whole.
    session: Option<Session>,
    began: Time,
    header: Arc<[u8]>,
    /// The first offset that may need it.
    header_since: u64,
    ends: VecDeque<u64>,
    last_end: u64,
    /// Offsets from which on another header is needed than before.
    seams: VecDeque<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session {
    /// Where in the file its first record begins.
    base: u64,
    in_picture: bool,
}

impl Records {
    pub(super) fn new(mux: Mux, now: Time) -> Records {
        Records {
            mux,
            intake: Intake::new(mux),
            track: Track {
                session: None,
                began: now,
                header: Arc::default(),
                header_since: 0,
                ends: VecDeque::new(),
                last_end: 0,
                seams: VecDeque::new(),
            },
        }
    }

    /// A publisher begins.
    pub(super) fn begin_session(&mut self, now: Time) {
        self.intake = Intake::new(self.mux);
        self.track.session = None;
        self.track.began = now;
    }

    pub(super) fn push(&mut self, bytes: &[u8], file: &mut FileEnd<'_>) -> Result<(), StreamError> {
        let Records { mux, intake, track } = self;
        file.burst.video |= track.session.as_ref().is_some_and(|session| session.in_picture);
        let pushed = match intake {
            Intake::Splitter(splitter) => splitter
                .push(bytes, &mut |split| track.take(split, file))
                .map_err(|error| StreamError::Carried { mux: *mux, error }),
            Intake::Blocks(blocks) => track.take_blocks(blocks, bytes, file),
        };
        while track.ends.front().is_some_and(|end| end.saturating_add(ENDS_KEPT_BYTES) < file.past.tail()) {
            track.ends.pop_front();
        }
        pushed
    }

    /// A block begins. Its flags count where only the blocks say where the header and the records are.
    pub(super) fn begin_block(
        &mut self,
        block: Block,
        size: u32,
        file: &mut FileEnd<'_>,
    ) -> Result<(), Error> {
        let Intake::Blocks(blocks) = &mut self.intake else { return Ok(()) };
        if let Some(Part::Header(header)) = blocks.begin(block, size)? {
            self.track.begin_records(&header, file);
        }
        if block != Block::Header && self.track.session.is_none() {
            // A mux that needs no header.
            self.track.begin_records(&[], file);
        }
        if block == Block::Join {
            let point = Point::Header(Arc::clone(&self.track.header));
            file.past.add_entry(Entry { offset: *file.head, point }, file.now);
        }
        Ok(())
    }

    /// Where the record ends that the byte at `offset` is in, as far as it has come up to `head`: `offset` itself
    /// where one begins there.
    pub(super) fn record_end(&self, offset: u64, head: u64) -> u64 {
        let Track { ends, last_end, .. } = &self.track;
        if offset > *last_end {
            return head;
        }
        let next = ends.partition_point(|end| *end < offset);
        ends.get(next).copied().unwrap_or(*last_end)
    }

    /// The newest header, and the first offset that may need it.
    pub(super) fn header(&self) -> (&Arc<[u8]>, u64) {
        (&self.track.header, self.track.header_since)
    }

    /// The newest seam; 0 where there was none.
    pub(super) fn newest_seam(&self) -> u64 {
        self.track.seams.back().copied().unwrap_or(0)
    }

    /// The first seam behind `offset`.
    pub(super) fn seam_behind(&self, offset: u64) -> Option<u64> {
        self.track.seams.iter().copied().find(|seam| *seam > offset)
    }
}

impl Track {
    fn take(&mut self, split: Split<'_>, file: &mut FileEnd<'_>) {
        let session = match (&mut self.session, split) {
            (None, Split::Header(header)) => return self.begin_records(header, file),
            (None, _) => return,
            (Some(session), _) => session,
        };
        match split {
            Split::Header(header) => {
                self.header = header.into();
                self.header_since = self.last_end;
            }
            Split::RecordEnd { at } => {
                session.in_picture = false;
                let at = session.base.saturating_add(at);
                self.end_record(at);
            }
            Split::Join { at, key_frame } => {
                let offset = session.base.saturating_add(at);
                if key_frame || file.past.lacks_entry_since(self.began, KEY_FRAME_TIMEOUT, file.now) {
                    let point = Point::Header(Arc::clone(&self.header));
                    file.past.add_entry(Entry { offset, point }, file.now);
                }
            }
            Split::Picture => {
                session.in_picture = true;
                file.burst.picture_starts = true;
                file.burst.video = true;
            }
            Split::Data(data) => {
                (file.append)(data);
                *file.head = file.head.saturating_add(data.len() as u64);
            }
        }
    }

    fn end_record(&mut self, at: u64) {
        self.last_end = at;
        if self.ends.back().is_none_or(|last| at.saturating_sub(*last) >= END_INTERVAL_BYTES) {
            self.ends.push_back(at);
        }
    }

    /// Takes bytes of blocks that have begun.
    fn take_blocks(
        &mut self,
        blocks: &mut Blocks,
        mut input: &[u8],
        file: &mut FileEnd<'_>,
    ) -> Result<(), StreamError> {
        while !input.is_empty() {
            match blocks.take(&mut input) {
                Some(Part::Header(header)) => self.begin_records(&header, file),
                Some(Part::Data(data, is_last)) => {
                    // What the bytes are is not known: they count as a picture, so that they do not wait for one.
                    (file.burst.picture_starts, file.burst.video) = (true, true);
                    (file.append)(data);
                    *file.head = file.head.saturating_add(data.len() as u64);
                    if is_last {
                        self.end_record(*file.head);
                    }
                }
                None if input.is_empty() => {}
                None => return Err(StreamError::NoBlock),
            }
        }
        Ok(())
    }

    /// A publisher's header is whole. Where it is the last one's, byte for byte, and that one ended with a whole
    /// record, viewers just go on; else there is a seam.
    fn begin_records(&mut self, header: &[u8], file: &mut FileEnd<'_>) {
        let base = *file.head;
        self.session = Some(Session { base, in_picture: false });
        if *self.header == *header && self.last_end == base {
            return;
        }
        self.header = header.into();
        (self.header_since, self.last_end) = (base, base);
        self.ends.push_back(base);
        self.seams.push_back(base);
        if self.seams.len() > SEAMS {
            self.seams.pop_front();
        }
        file.past.forget_entries();
    }
}
