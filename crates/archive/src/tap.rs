//! The end of a recording that is in the packager: it takes what is made of a stream, and never waits.

use crate::mailbox::{Mailbox, Message};
use bytes::Bytes;
use glassline_delivery::archive::index::RecordedSegment;
use glassline_delivery::packager::{Event, Presentation, RenditionName, Segment};
use glassline_delivery::policy::StreamName;
use glassline_edge::ChunkObserver;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes the objects of one presentation.
pub(crate) struct Tap {
    name: StreamName,
    /// What it is called by in messages; no other is.
    key: u64,
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_begun: bool,
    has_ended: bool,
    open: BTreeMap<RenditionName, Open>,
}

/// The segment of a rendition that is being made, which was taken from its beginning on.
struct Open {
    segment: u64,
    chunks: Vec<Bytes>,
    /// As it was when its last part ended.
    known: Option<RecordedSegment>,
    is_lost: bool,
}

impl Tap {
    pub(crate) fn new(name: StreamName, key: u64, mailbox: Arc<Mailbox>) -> Tap {
        Tap { name, key, mailbox, state: Mutex::default() }
    }

    fn begin_segment(
        &self,
        state: &mut State,
        name: RenditionName,
        number: u64,
        presentation: &Presentation,
    ) {
        if let Some(before) = state.open.get(&name).map(|open| open.segment) {
            self.tell_gaps(name, before, number, presentation);
        }
        let open = Open { segment: number, chunks: Vec::new(), known: None, is_lost: false };
        state.open.insert(name, open);
    }

    /// Between these two segments there may be some in the time of which nothing came.
    fn tell_gaps(&self, rendition: RenditionName, before: u64, number: u64, presentation: &Presentation) {
        let Some(found) = presentation.rendition(rendition) else { return };
        let between = (before.saturating_add(1)..number).rev().map_while(|between| found.segment(between));
        let gaps: Vec<_> =
            between.filter(|segment| segment.gap).map(|gap| recorded(gap, gap.duration)).collect();
        for segment in gaps.into_iter().rev() {
            self.mailbox.send_bounded(Message::Gap { key: self.key, rendition, segment });
        }
    }

    fn end_part(&self, open: &mut Open, rendition: RenditionName, part: u32, presentation: &Presentation) {
        let chunks = std::mem::take(&mut open.chunks);
        let found = presentation.rendition(rendition).and_then(|rendition| rendition.segment(open.segment));
        let now = found.map(|segment| {
            let parts = segment.parts.iter().take(part as usize + 1);
            recorded(segment, parts.map(|part| part.duration).sum())
        });
        let is_known = now.is_some();
        let Some(segment) = now.or_else(|| open.known.clone()) else { return };
        open.known = Some(segment.clone());
        if open.is_lost {
            return;
        }
        let key = self.key;
        let lost = Message::Lost { key, rendition, segment: segment.clone() };
        let part = Message::Part { key, rendition, segment, part, chunks };
        if !is_known || !self.mailbox.send_bounded(part) {
            open.is_lost = true;
            // Where there is no room for this either, the number that is missing tells of it.
            self.mailbox.send_bounded(lost);
        }
    }

    fn end(&self, state: &mut State) {
        if state.has_begun && !std::mem::replace(&mut state.has_ended, true) {
            self.mailbox.send(Message::End { key: self.key });
        }
    }
}

/// A segment as the index has it, so far as it lasts `duration`; bytes and CRC are counted where it is written.
fn recorded(segment: &Segment, duration: u64) -> RecordedSegment {
    RecordedSegment {
        number: segment.number,
        epoch: segment.epoch,
        start: segment.start,
        duration,
        utc: segment.program_date_time,
        captured: segment.captured,
        independent: segment.independent,
        bytes: 0,
        crc32c: 0,
        key_frames: segment.key_frames.clone(),
    }
}

impl ChunkObserver for Tap {
    fn handle_event(&self, event: &Event, presentation: &Presentation) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.key;
        match *event {
            Event::Init { rendition, number, ref bytes } => {
                let track = presentation.rendition(rendition).and_then(|it| it.track_in(number)).cloned();
                let (Some(track), false) = (track, state.has_ended) else { return };
                if !std::mem::replace(&mut state.has_begun, true) {
                    self.mailbox.send(Message::Begin { key, name: self.name.clone() });
                }
                self.mailbox.send(Message::Init { key, rendition, track, bytes: bytes.clone() });
            }
            Event::SegmentBegins { rendition, segment } => {
                self.begin_segment(&mut state, rendition, segment, presentation);
            }
            Event::Chunk { rendition, segment, ref bytes, .. } => {
                let open = state.open.get_mut(&rendition).filter(|open| open.segment == segment);
                if let Some(open) = open.filter(|open| !open.is_lost) {
                    open.chunks.push(bytes.clone());
                }
            }
            Event::PartEnds { rendition, segment, part } => {
                let open = state.open.get_mut(&rendition).filter(|open| open.segment == segment);
                if let Some(open) = open {
                    self.end_part(open, rendition, part, presentation);
                }
            }
            Event::SegmentEnds { rendition, segment: number } => {
                let open = state.open.get(&rendition).filter(|open| open.segment == number);
                let Some(known) = open.filter(|open| !open.is_lost).and_then(|open| open.known.clone())
                else {
                    return;
                };
                let found = presentation.rendition(rendition).and_then(|it| it.segment(number));
                let segment = found.map_or(known, |found| recorded(found, found.duration));
                self.mailbox.send_bounded(Message::SegmentEnd { key, rendition, segment });
            }
            Event::Ended => self.end(&mut state),
            Event::PartBegins { .. } | Event::Expires { .. } | Event::InitExpires { .. } => {}
        }
    }

    fn handle_end(&self) {
        self.end(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.handle_end();
    }
}
