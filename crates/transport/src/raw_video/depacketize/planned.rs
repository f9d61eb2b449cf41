//! The packets that come as planned: where the next ones are to go, and whether they are those that came.

use super::super::frame::Frame;
use super::super::header::{EXTENSION_BYTES, Segment};
use super::super::layout::Layout;
use super::super::plan::{Aim, Plan};
use super::{Depacketizer, FRAMES_MAX, MANY, Store, is_later};
use crate::counter::count;
use crate::rtp::HEADER_BYTES;
use glassline_media::Time;
use std::ops::Range;

impl Depacketizer {
    /// Says where the next bytes of a path are to go. Cost: a few nanoseconds a packet.
    pub fn plan(&mut self, path: usize, plan: &mut Plan, store: &mut dyn Store) {
        plan.clear();
        self.prepare_spare(store);
        let (messages, datagrams, next) = {
            let path = &self.paths[path];
            let one_call = !path.is_steady && path.datagrams >= MANY;
            let datagrams = if one_call { usize::MAX } else { path.datagrams };
            (if one_call { 1 } else { path.messages }, datagrams, path.next)
        };
        let Some((learned, next)) = self.learned.as_ref().zip(next) else {
            (0..messages).for_each(|_| plan.end_message());
            return;
        };
        let takes_aim = store.takes_aim();
        let mut cursor = Cursor::find(self, learned, next);
        let mut floor = 0;
        for _ in 0..messages {
            for _ in 0..datagrams {
                let Some((frame, index)) = cursor.as_ref().map(|cursor| (cursor.frame, cursor.index)) else {
                    break;
                };
                let Some(entry) = learned.get(index) else { break };
                let places = learned.places(entry);
                if !plan.has_room(entry.bytes as usize, places.len().saturating_add(1)) {
                    break;
                }
                let head_at = plan.scratch(entry.head_bytes());
                let ascends = places.windows(2).all(|pair| pair[0].end <= pair[1].start);
                let is_free =
                    places.iter().all(|place| place.start >= floor && frame.coverage.is_free(place));
                let slot = frame.slot.filter(|_| takes_aim && ascends && is_free);
                match slot {
                    Some(slot) => {
                        places.iter().for_each(|place| plan.frame(slot, place.clone()));
                        floor = places.last().map_or(floor, |last| last.end);
                    }
                    None => {
                        plan.scratch(places.iter().map(Range::len).sum());
                    }
                }
                plan.aim(Aim { entry: index, frame: frame.number, head_at, in_place: slot.is_some() });
                let number = frame.number;
                cursor = cursor.and_then(|cursor| cursor.advance(self, learned));
                if cursor.as_ref().is_none_or(|cursor| cursor.frame.number != number) {
                    floor = 0;
                }
            }
            plan.end_message();
        }
    }

    /// Whether a datagram is the one that was planned; then it is noted.
    pub(super) fn hit(
        &mut self,
        path: usize,
        aim: &Aim,
        bytes: usize,
        scratch: &[u8],
        at: Time,
        store: &mut dyn Store,
    ) -> bool {
        let Some(learned) = &self.learned else { return false };
        let Some(entry) = learned.get(aim.entry).filter(|entry| entry.bytes as usize == bytes) else {
            return false;
        };
        let planned = scratch.get(aim.head_at..).and_then(|rest| rest.split_at_checked(entry.head_bytes()));
        let Some((head, mut samples)) = planned else { return false };
        let (rtp, payload) = head.split_at(usize::from(entry.rtp_bytes));
        let Some(([first, second, s0, s1, t0, t1, t2, t3, source @ ..], more)) =
            rtp.split_first_chunk::<HEADER_BYTES>()
        else {
            return false;
        };
        let Some(next) = self.paths[path].next else { return false };
        let [.., n0, n1, n2, n3] = next.to_be_bytes();
        let marker_and_type = u8::from(entry.marker) << 7 | self.settings.payload_type;
        if *first != self.first_byte
            || *second != marker_and_type
            || [*s0, *s1] != [n2, n3]
            || Some(u32::from_be_bytes(*source)) != self.lock.ssrc()
            || (self.is_wide && payload[..EXTENSION_BYTES] != [n0, n1])
            || payload[EXTENSION_BYTES..] != *learned.heads(entry)
            || (*first != 2 << 6 && more.len() != behind_fixed(*first, more))
        {
            return false;
        }
        let timestamp = u32::from_be_bytes([*t0, *t1, *t2, *t3]);
        let field = usize::from(Segment::is_second_field(&payload[EXTENSION_BYTES..]));
        let Some(place) = self.find_planned(aim, (timestamp, field), next, at) else { return false };
        let Some((learned, entry)) =
            self.learned.as_ref().and_then(|learned| Some((learned, learned.get(aim.entry)?)))
        else {
            return false;
        };
        let is_end = entry.marker && field.saturating_add(1) == self.settings.format.fields();
        let frame = &mut self.frames[place];
        let mut added = 0;
        for range in learned.places(entry) {
            if !aim.in_place {
                let (now, later) = samples.split_at(range.len());
                samples = later;
                if let Some(slot) = frame.slot
                    && !frame.coverage.has(range)
                {
                    store.write(slot, range.start, now);
                }
            }
            added = frame.coverage.add(range.clone()).saturating_add(added);
        }
        count(&mut self.counters.in_place, aim.in_place.into());
        count(&mut self.counters.by_path[path], 1);
        self.paths[path].next = Some(next.saturating_add(1));
        self.note(place, next, added, is_end, at);
        true
    }

    /// The place of the frame that a planned packet belongs to. Begins the next one with its first packet.
    fn find_planned(
        &mut self,
        aim: &Aim,
        (timestamp, field): (u32, usize),
        sequence: u64,
        at: Time,
    ) -> Option<usize> {
        if let Some(place) = self.frames.iter().rposition(|frame| frame.number == aim.frame) {
            if self.frames[place].timestamps[field] == Some(timestamp) {
                return Some(place);
            }
            return self.is_other_field(place, (timestamp, field), sequence).then(|| {
                self.frames[place].timestamps[field] = Some(timestamp);
                place
            });
        }
        let is_next = self.spare.as_ref().is_some_and(|spare| spare.number == aim.frame) && aim.entry == 0;
        let last = self.frames.back().map(Frame::newest_timestamp).or(self.out.map(|out| out.timestamp));
        let is_newer = last.is_none_or(|last| is_later(timestamp, last));
        let goes_on = self.continuity.allows(timestamp, sequence, at);
        if !is_next || !is_newer || !goes_on || self.frames.len() >= FRAMES_MAX {
            return None;
        }
        let mut frame = self.spare.take()?;
        frame.begin((timestamp, field), sequence, at);
        let place = self.frames.len();
        self.frames.push_back(frame);
        Some(place)
    }
}

/// Where a path is in the layout.
struct Cursor<'a> {
    frame: &'a Frame,
    index: usize,
}

impl<'a> Cursor<'a> {
    fn find(of: &'a Depacketizer, learned: &Layout, next: u64) -> Option<Cursor<'a>> {
        let within = |frame: &'a Frame| {
            let index = usize::try_from(next.checked_sub(frame.base)?).ok()?;
            (index < learned.len()).then_some(Cursor { frame, index })
        };
        if let Some(cursor) = of.frames.iter().find_map(within) {
            return Some(cursor);
        }
        let end_of = |frame: &Frame| frame.base.saturating_add(learned.len() as u64);
        let end = of.frames.back().map(end_of).or(of.out.map(|out| out.end));
        let frame = of.spare.as_ref().filter(|_| end == Some(next))?;
        Some(Cursor { frame, index: 0 })
    }

    /// The packet behind it: of the same frame, or the first one of the next.
    fn advance(self, of: &'a Depacketizer, learned: &Layout) -> Option<Cursor<'a>> {
        let Cursor { frame, index } = self;
        let index = index.saturating_add(1);
        if index < learned.len() {
            return Some(Cursor { frame, index });
        }
        if of.spare.as_ref().is_some_and(|spare| spare.number == frame.number) {
            return None;
        }
        Cursor::find(of, learned, frame.base.saturating_add(learned.len() as u64))
    }
}

/// Bytes of an RTP header behind its fixed part, by its first byte and what follows.
fn behind_fixed(first: u8, more: &[u8]) -> usize {
    let sources = usize::from(first & 0x0F).saturating_mul(4);
    let extension = match more.get(sources..).and_then(|rest| rest.first_chunk()) {
        Some([_, _, l0, l1]) if first & 0x10 != 0 => {
            usize::from(u16::from_be_bytes([*l0, *l1])).saturating_add(1).saturating_mul(4)
        }
        _ => 0,
    };
    sources.saturating_add(extension)
}
