//! Packets to frames.

use super::format::{Format, Scan};
use super::frame::Frame;
use super::header::{self, EXTENSION_BYTES, HeaderError, Segment};
use super::layout::Layout;
use super::plan::{Aim, Arrival, MESSAGES_MAX, Piece, Plan};
use crate::rtp::{HEADER_BYTES, Packet};
use glassline_media::Time;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Packets of the next frame after which what is missing of the one before comes no more, where there is one path. Where a frame
/// has fewer, all of them are enough.
const REORDERED_PACKETS: u64 = 64;
/// A frame whose packets stop coming is given out after this, and the other path's delay.
const STALL: Duration = Duration::from_millis(100);
/// Frames that are not out at a time.
const FRAMES_MAX: usize = 16;
/// So many packets in a row that belong to frames long past, or come from another sender, are a stream that begins anew.
const BEGINS_ANEW: u32 = 32;
/// After so much silence any packet is.
const SILENCE: Duration = Duration::from_millis(50);
/// What is behind the last frame that is out by no more than this is late, and no new stream: a second, at any rate there is.
const LATE_TICKS: u32 = 90_000;
const LATE_PACKETS: u64 = 1 << 22;
/// How far two fields of a frame may be apart, in ticks of 90 kHz: those of one frame a second.
const FIELDS_APART: u32 = 45_000;
/// From so many datagrams a message on, one message is worth a call.
const MANY: usize = 8;

/// How a stream is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What its frames are.
    pub format: Format,
    /// The payload type; packets of others are refused.
    pub payload_type: u8,
    /// Paths that bring the same packets (ST 2022-7): 1 or 2.
    pub paths: usize,
    /// By how much one path may be later than the other.
    pub skew: Duration,
}

/// Whoever has the memory for frames.
pub trait Store {
    /// Memory for one more frame, by a number of the store's own choice; `None` where all of it is held.
    fn open(&mut self) -> Option<usize>;
    /// The memory of a number, at least a frame's bytes.
    fn bytes(&mut self, slot: usize) -> &mut [u8];
}

/// What has come, and what has not. All counts are exact; packets are those of the merged stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that brought samples.
    pub packets: u64,
    /// Packets between the first one and the last that are in no frame.
    pub lost: u64,
    /// Packets that came after one that was sent later, by the same path.
    pub reordered: u64,
    /// Packets whose samples were there already.
    pub duplicates: u64,
    /// Packets whose frame was out already.
    pub late: u64,
    /// Datagrams that are no packets of this stream.
    pub refused: u64,
    /// Frames that are out and whole.
    pub frames: u64,
    /// Frames that are out with holes.
    pub incomplete: u64,
    /// Frames that were lost as a whole because there was no memory for them.
    pub dropped: u64,
    /// Times that the stream began anew.
    pub restarts: u64,
    /// Packets that the kernel put where they belong; all others were copied.
    pub in_place: u64,
}

/// A frame that is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its memory, which is no longer the depacketizer's; `None` where there was none.
    pub slot: Option<usize>,
    /// The RTP time stamp of the frame, or its first field.
    pub timestamp: u32,
    /// When its first packet came.
    pub began: Time,
    /// When its last one did.
    pub ended: Time,
    /// What is missing, ascending. The bytes there are anything.
    pub holes: Vec<Range<usize>>,
    /// Packets that are missing in it.
    pub lost: u64,
}

/// One path.
#[derive(Debug)]
struct Path {
    /// The sequence number that comes next.
    next: Option<u64>,
    /// Datagrams that a message brings.
    datagrams: usize,
    /// All messages bring as many.
    is_steady: bool,
    /// Messages of the next call.
    messages: usize,
}

/// A layout that is being learned.
#[derive(Debug)]
struct Recording {
    frame: u64,
    next: u64,
    layout: Layout,
}

/// Takes a stream's packets.
#[derive(Debug)]
pub struct Depacketizer {
    settings: Settings,
    paths: Vec<Path>,
    ssrc: Option<u32>,
    /// Whether the payload's extended sequence numbers mean anything; some senders leave them zero.
    is_wide: bool,
    /// How the sender cuts frames, once it is known.
    learned: Option<Layout>,
    /// The first byte of its RTP headers.
    first_byte: u8,
    recording: Option<Recording>,
    misfits: u32,
    /// By time stamp.
    frames: VecDeque<Frame>,
    /// The next frame: has memory, but nothing has come of it.
    spare: Option<Frame>,
    next_number: u64,
    /// The sequence number behind the last frame that is out, and that frame's time stamp.
    out: Option<(u64, u32)>,
    /// Packets in a row that are of no use.
    strangers: u32,
    latest: Time,
    counters: Counters,
    done: VecDeque<Done>,
    /// Room.
    segments: Vec<Segment>,
    places: Vec<Range<usize>>,
    gathered: Vec<u8>,
}

impl Depacketizer {
    /// Before the first packet.
    ///
    /// # Panics
    /// Without a path, or with more than two.
    pub fn new(settings: Settings) -> Depacketizer {
        assert!((1..=2).contains(&settings.paths));
        let path = || Path { next: None, datagrams: 1, is_steady: true, messages: 4 };
        Depacketizer {
            settings,
            paths: (0..settings.paths).map(|_| path()).collect(),
            ssrc: None,
            is_wide: false,
            learned: None,
            first_byte: 0,
            recording: None,
            misfits: 0,
            frames: VecDeque::new(),
            spare: None,
            next_number: 0,
            out: None,
            strangers: 0,
            latest: Time::ZERO,
            counters: Counters::default(),
            done: VecDeque::new(),
            segments: Vec::new(),
            places: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// What has come.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The sender's synchronization source, once one has come.
    pub fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// How the sender cuts frames, once one came whole.
    pub fn layout(&self) -> Option<&Layout> {
        self.learned.as_ref()
    }

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
        let mut cursor = Cursor::find(self, learned, next);
        let mut floor = 0;
        for _ in 0..messages {
            for _ in 0..datagrams {
                let Some((frame, index)) = cursor.as_ref().map(|cursor| (cursor.frame, cursor.index)) else {
                    break;
                };
                let Some(entry) = learned.get(index) else { break };
                let places = learned.places(entry);
                if !plan.has_room(entry.bytes as usize, 1 + places.len()) {
                    break;
                }
                let head_at = plan.scratch(entry.head_bytes());
                let ascends = places.windows(2).all(|pair| pair[0].end <= pair[1].start);
                let is_free =
                    places.iter().all(|place| place.start >= floor && frame.coverage.is_free(place));
                let slot = frame.slot.filter(|_| ascends && is_free);
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

    /// Takes what a call has brought by a path, in the order of the plan's messages. Poll afterwards.
    ///
    /// `scratch` is the memory that the plan's pieces were of, [`super::SCRATCH_BYTES`].
    pub fn take(
        &mut self,
        path: usize,
        plan: &Plan,
        arrivals: &[Arrival],
        scratch: &[u8],
        store: &mut dyn Store,
    ) {
        for (message, arrival) in arrivals.iter().enumerate() {
            let datagram_bytes = arrival.datagram_bytes.max(1);
            let mut offset = 0;
            let mut aims = plan.aims(message).iter();
            while offset < arrival.bytes {
                let bytes = datagram_bytes.min(arrival.bytes - offset);
                let is_hit =
                    aims.next().is_some_and(|aim| self.hit(path, aim, bytes, scratch, arrival.at, store));
                if !is_hit {
                    self.gather(plan, (message, offset), arrivals, scratch, store);
                    self.take_gathered(path, (message, offset), arrivals, store);
                    self.pace(path, arrivals, false);
                    return;
                }
                offset += bytes;
            }
        }
        self.pace(path, arrivals, true);
    }

    /// How much the next call is to bring.
    fn pace(&mut self, path: usize, arrivals: &[Arrival], was_planned: bool) {
        let path = &mut self.paths[path];
        let count = |arrival: &Arrival| arrival.bytes.div_ceil(arrival.datagram_bytes.max(1)).max(1);
        let Some(last) = arrivals.last() else { return };
        // The last one may have been all there was.
        let most = arrivals.iter().map(count).max().unwrap_or(1);
        path.is_steady = match arrivals {
            [_] => path.is_steady || count(last) == path.datagrams,
            [before @ .., _] => before.iter().all(|arrival| count(arrival) == most) && count(last) <= most,
            [] => path.is_steady,
        };
        if arrivals.len() > 1 || most > path.datagrams || !path.is_steady {
            path.datagrams = most;
        }
        let usual = if path.datagrams >= MANY { 8 } else { MESSAGES_MAX };
        path.messages = if was_planned { (2 * path.messages).min(usual) } else { usual.min(8) };
    }

    /// Takes one datagram by itself, which nothing was planned for.
    pub fn take_datagram(&mut self, path: usize, datagram: &[u8], at: Time, store: &mut dyn Store) {
        let mut segments = std::mem::take(&mut self.segments);
        if self.try_take(path, datagram, at, store, &mut segments).is_none() {
            self.counters.refused += 1;
        }
        self.segments = segments;
    }

    /// What is out, in order.
    pub fn poll(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// When [`Depacketizer::handle_timeout`] gives out a frame of which nothing comes any more.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let front = self.frames.front()?;
        let newer = self.frames.get(1).filter(|_| self.paths.len() > 1);
        Some(match newer {
            Some(newer) => newer.began + self.settings.skew,
            None if self.is_whole(front) => front.began + self.settings.skew,
            None => front.latest + STALL + self.settings.skew,
        })
    }

    /// Gives out what has waited long enough.
    pub fn handle_timeout(&mut self, now: Time) {
        while self.poll_timeout().is_some_and(|at| at <= now) {
            self.close();
        }
    }

    /// The stream ends: gives out what there is.
    pub fn finish(&mut self) {
        while !self.frames.is_empty() {
            self.close();
        }
    }

    fn prepare_spare(&mut self, store: &mut dyn Store) {
        let number = self.next_number;
        let spare = self.spare.get_or_insert_with(|| Frame { number, ..Frame::default() });
        if spare.number == number {
            self.next_number += 1;
        }
        if spare.slot.is_none() {
            spare.slot = store.open();
        }
    }

    /// Whether a datagram is the one that was planned; then it is noted.
    fn hit(
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
        let head = &scratch[aim.head_at..aim.head_at + entry.head_bytes()];
        let (rtp, payload) = head.split_at(usize::from(entry.rtp_bytes));
        let Some(([first, second, s0, s1, t0, t1, t2, t3, source @ ..], more)) =
            rtp.split_first_chunk::<HEADER_BYTES>()
        else {
            return false;
        };
        let Some(next) = self.paths[path].next else { return false };
        let marker_and_type = u8::from(entry.marker) << 7 | self.settings.payload_type;
        if *first != self.first_byte
            || *second != marker_and_type
            || u16::from_be_bytes([*s0, *s1]) != next as u16
            || Some(u32::from_be_bytes(*source)) != self.ssrc
            || payload[EXTENSION_BYTES..] != *learned.heads(entry)
            || (*first != 2 << 6 && more.len() != behind_fixed(*first, more))
        {
            return false;
        }
        let timestamp = u32::from_be_bytes([*t0, *t1, *t2, *t3]);
        let field = usize::from(Segment::is_second_field(&payload[EXTENSION_BYTES..]));
        let mut samples = &scratch[aim.head_at + entry.head_bytes()..];
        let Some(place) = self.find_planned(aim, (timestamp, field), next, at) else { return false };
        let Some((learned, entry)) =
            self.learned.as_ref().and_then(|learned| Some((learned, learned.get(aim.entry)?)))
        else {
            return false;
        };
        let is_end = entry.marker && field + 1 == self.settings.format.fields();
        let frame = &mut self.frames[place];
        let mut added = 0;
        for range in learned.places(entry) {
            if !aim.in_place {
                let (now, later) = samples.split_at(range.len());
                samples = later;
                if let Some(slot) = frame.slot
                    && !frame.coverage.has(range)
                {
                    store.bytes(slot)[range.clone()].copy_from_slice(now);
                }
            }
            added += frame.coverage.add(range.clone());
        }
        self.counters.in_place += u64::from(aim.in_place);
        self.paths[path].next = Some(next + 1);
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
            return self.is_other_field(place, timestamp, field).then(|| {
                self.frames[place].timestamps[field] = Some(timestamp);
                place
            });
        }
        let is_next = self.spare.as_ref().is_some_and(|spare| spare.number == aim.frame) && aim.entry == 0;
        let last =
            self.frames.back().map(Frame::newest_timestamp).or(self.out.map(|(_, timestamp)| timestamp));
        let is_newer = last.is_none_or(|last| is_later(timestamp, last));
        if !is_next || !is_newer || self.frames.len() >= FRAMES_MAX {
            return None;
        }
        let mut frame = self.spare.take()?;
        frame.timestamps[field] = Some(timestamp);
        (frame.base, frame.highest) = (sequence, sequence);
        (frame.began, frame.latest) = (at, at);
        self.frames.push_back(frame);
        Some(self.frames.len() - 1)
    }

    /// Whether a time stamp is that of the field which is still missing of a frame.
    fn is_other_field(&self, place: usize, timestamp: u32, field: usize) -> bool {
        let frame = &self.frames[place];
        match (self.settings.format.scan(), frame.timestamps[field], frame.timestamps[1 - field]) {
            (Scan::Segmented, None, Some(other)) => timestamp == other,
            (Scan::Interlaced, None, Some(other)) if field == 1 => {
                is_later(timestamp, other) && timestamp.wrapping_sub(other) < FIELDS_APART
            }
            _ => false,
        }
    }

    /// A packet of a frame has come.
    fn note(&mut self, place: usize, sequence: u64, added: usize, is_end: bool, at: Time) {
        let frame = &mut self.frames[place];
        (frame.highest, frame.latest) = (frame.highest.max(sequence), at);
        if is_end {
            frame.end = Some(sequence);
        }
        if added == 0 {
            self.counters.duplicates += 1;
        } else {
            frame.unique += 1;
            self.counters.packets += 1;
        }
        self.strangers = 0;
        self.latest = at;
        let is_whole = frame.coverage.bytes() == self.settings.format.frame_bytes();
        let is_past = is_whole || frame.unique >= REORDERED_PACKETS;
        let given_up = self.paths.len() == 1 && place > 0 && is_past;
        if (is_whole || given_up) && added > 0 {
            self.settle(if given_up { place } else { 0 });
        }
    }

    /// Gives out the first `least` frames, and what is whole behind them.
    fn settle(&mut self, least: usize) {
        (0..least).for_each(|_| self.close());
        while self.frames.front().is_some_and(|frame| self.is_whole(frame) && self.is_next(frame)) {
            self.close();
        }
    }

    fn is_whole(&self, frame: &Frame) -> bool {
        frame.coverage.bytes() == self.settings.format.frame_bytes()
    }

    /// Whether nothing can come any more that belongs before a frame: the other path may still bring it.
    fn is_next(&self, frame: &Frame) -> bool {
        self.paths.len() == 1 || self.out.is_none_or(|(next, _)| frame.base <= next)
    }

    /// Gives out the first frame.
    fn close(&mut self) {
        let Some(frame) = self.frames.pop_front() else { return };
        let bytes = self.settings.format.frame_bytes();
        let is_whole = frame.coverage.bytes() == bytes;
        if let Some(recording) = self.recording.take_if(|recording| recording.frame == frame.number)
            && is_whole
            && recording.layout.is_whole(&self.settings.format)
        {
            self.learned = Some(recording.layout);
            self.misfits = 0;
        }
        let planned = self.learned.as_ref().map(|learned| frame.base + learned.len() as u64 - 1);
        // A whole frame ends where it ends; of another one the last packet may be missing.
        let end = frame.end.or(planned).unwrap_or(frame.highest).max(frame.highest);
        let base = self.out.map_or(frame.base, |(next, _)| next.min(frame.base));
        let lost = (end + 1 - frame.base.min(end + 1)).saturating_sub(frame.unique);
        self.counters.lost += (end + 1).saturating_sub(base).saturating_sub(frame.unique);
        let next = self.out.map_or(end + 1, |(next, _)| next.max(end + 1));
        self.out = Some((next, frame.newest_timestamp()));
        match frame.slot {
            None => self.counters.dropped += 1,
            Some(_) if is_whole => self.counters.frames += 1,
            Some(_) => self.counters.incomplete += 1,
        }
        self.done.push_back(Done {
            slot: frame.slot,
            timestamp: frame.timestamp(),
            began: frame.began,
            ended: frame.latest,
            holes: if is_whole { Vec::new() } else { frame.coverage.holes(bytes) },
            lost,
        });
    }

    /// Copies all that was not planned so out of where the kernel has put it: from a datagram on, with all messages behind it.
    fn gather(
        &mut self,
        plan: &Plan,
        (message, offset): (usize, usize),
        arrivals: &[Arrival],
        scratch: &[u8],
        store: &mut dyn Store,
    ) {
        self.gathered.clear();
        for (number, arrival) in arrivals.iter().enumerate().skip(message) {
            let mut skip = if number == message { offset } else { 0 };
            let mut left = arrival.bytes - skip;
            for piece in plan.pieces(number) {
                let bytes = match piece {
                    Piece::Scratch(range) => &scratch[range.clone()],
                    Piece::Frame { slot, bytes } => &store.bytes(*slot)[bytes.clone()],
                };
                let from = skip.min(bytes.len());
                skip -= from;
                let bytes = &bytes[from..bytes.len().min(from + left)];
                left -= bytes.len();
                self.gathered.extend_from_slice(bytes);
                if left == 0 {
                    break;
                }
            }
        }
    }

    fn take_gathered(
        &mut self,
        path: usize,
        (message, offset): (usize, usize),
        arrivals: &[Arrival],
        store: &mut dyn Store,
    ) {
        let gathered = std::mem::take(&mut self.gathered);
        let mut rest = &gathered[..];
        for (number, arrival) in arrivals.iter().enumerate().skip(message) {
            let left = arrival.bytes - if number == message { offset } else { 0 };
            let (bytes, later) = rest.split_at(left.min(rest.len()));
            rest = later;
            for datagram in bytes.chunks(arrival.datagram_bytes.max(1)) {
                self.take_datagram(path, datagram, arrival.at, store);
            }
        }
        self.gathered = gathered;
    }

    /// `None`: it is no packet of this stream.
    fn try_take(
        &mut self,
        path: usize,
        datagram: &[u8],
        at: Time,
        store: &mut dyn Store,
        segments: &mut Vec<Segment>,
    ) -> Option<()> {
        let packet = Packet::parse(datagram).ok()?;
        let header = packet.header;
        if header.payload_type != self.settings.payload_type {
            return None;
        }
        let (extension, heads, samples) = match header::parse(packet.payload, segments) {
            Ok(parts) => parts,
            Err(HeaderError::Short { .. } | HeaderError::Samples { .. } | HeaderError::Segments) => {
                return None;
            }
        };
        self.places.clear();
        for segment in &*segments {
            self.places.push(self.settings.format.place(segment)?);
        }
        self.accept_sender(header.ssrc, at)?;
        let sequence = self.extend(path, header.sequence, extension);
        let field = usize::from(segments.first()?.field);
        let path = &mut self.paths[path];
        let is_reordered = path.next.is_some_and(|next| sequence < next);
        path.next = Some(path.next.unwrap_or(0).max(sequence + 1));
        let place = match self.find_frame((header.timestamp, field), sequence, heads, at, store) {
            Some(place) => place,
            None => {
                self.counters.late += 1;
                return Some(());
            }
        };
        self.record(place, sequence, &packet, heads);
        let frame = &mut self.frames[place];
        let (mut rest, mut added) = (samples, 0);
        for range in &self.places {
            let (now, later) = rest.split_at(range.len());
            rest = later;
            if let Some(slot) = frame.slot
                && !frame.coverage.has(range)
            {
                store.bytes(slot)[range.clone()].copy_from_slice(now);
            }
            added += frame.coverage.add(range.clone());
        }
        self.counters.reordered += u64::from(is_reordered && added > 0);
        let is_end = header.marker && field + 1 == self.settings.format.fields();
        self.note(place, sequence, added, is_end, at);
        Some(())
    }

    /// Whether packets of a sender are taken: one at a time, and another one once the first has gone.
    fn accept_sender(&mut self, ssrc: u32, at: Time) -> Option<()> {
        match self.ssrc {
            None => self.ssrc = Some(ssrc),
            Some(known) if known == ssrc => {}
            Some(_) => {
                self.strangers += 1;
                if self.strangers < BEGINS_ANEW && at.since(self.latest) < SILENCE {
                    return None;
                }
                self.restart(ssrc);
            }
        }
        Some(())
    }

    /// The stream begins anew. What there is of it goes out.
    fn restart(&mut self, ssrc: u32) {
        self.finish();
        self.paths.iter_mut().for_each(|path| path.next = None);
        (self.ssrc, self.out, self.recording) = (Some(ssrc), None, None);
        (self.is_wide, self.strangers) = (false, 0);
        self.counters.restarts += 1;
    }

    /// A sequence number that does not wrap.
    fn extend(&mut self, path: usize, sequence: u16, extension: u16) -> u64 {
        let highest = self.paths.iter().filter_map(|path| path.next).max();
        let wide = u64::from(extension) << 16 | u64::from(sequence);
        let Some(next) = self.paths[path].next.or(highest) else { return 1 << 32 | wide };
        if self.is_wide {
            return nearest(next, wide, 32);
        }
        let narrow = nearest(next, u64::from(sequence), 16);
        // Once the low half has wrapped and the high half has gone on with it, both count.
        if narrow >> 16 != (next.saturating_sub(1)) >> 16 && next.saturating_sub(1) & 0xFFFF_0000 != 0 {
            self.is_wide = narrow & 0xFFFF_FFFF == wide;
        }
        narrow
    }

    /// The place of the frame that a packet belongs to; a new one is begun. `None`: it is out already.
    fn find_frame(
        &mut self,
        (timestamp, field): (u32, usize),
        sequence: u64,
        heads: &[u8],
        at: Time,
        store: &mut dyn Store,
    ) -> Option<usize> {
        let same = |frame: &Frame| frame.timestamps[field] == Some(timestamp);
        if let Some(place) = self.frames.iter().rposition(same) {
            return Some(place);
        }
        if let Some(place) =
            (0..self.frames.len()).rev().find(|&at| self.is_other_field(at, timestamp, field))
        {
            self.frames[place].timestamps[field] = Some(timestamp);
            return Some(place);
        }
        if let Some((next, last)) = self.out
            && (!is_later(timestamp, last) || sequence < next)
        {
            // The other path brings what is long out; a stream that begins anew is somewhere else.
            if last.wrapping_sub(timestamp) <= LATE_TICKS && next.saturating_sub(sequence) <= LATE_PACKETS {
                return None;
            }
            self.strangers += 1;
            if self.strangers < BEGINS_ANEW && at.since(self.latest) < SILENCE {
                return None;
            }
            self.restart(self.ssrc.unwrap_or(0));
        }
        if self.frames.len() >= FRAMES_MAX {
            self.close();
        }
        self.prepare_spare(store);
        let mut frame = self.spare.take()?;
        frame.timestamps[field] = Some(timestamp);
        let known = self.learned.as_ref().and_then(|learned| learned.find(heads));
        let start = known.map(|index| sequence.saturating_sub(index as u64));
        // Without a layout to look it up, the frame begins where the one before it has ended.
        let before = self.frames.back().map_or(self.out.map(|(next, _)| next), |frame| Some(frame.end? + 1));
        frame.base = start.or(before.filter(|next| *next <= sequence)).unwrap_or(sequence);
        frame.highest = sequence;
        (frame.began, frame.latest) = (at, at);
        let place = self.frames.partition_point(|other| is_later(timestamp, other.timestamp()));
        self.frames.insert(place, frame);
        Some(place)
    }

    /// Learns how the sender cuts frames, where that is not known or no longer true.
    fn record(&mut self, place: usize, sequence: u64, packet: &Packet<'_>, heads: &[u8]) {
        let frame = &self.frames[place];
        if let Some(learned) = &self.learned {
            let index = sequence.checked_sub(frame.base).and_then(|index| usize::try_from(index).ok());
            let fits =
                index.and_then(|index| learned.get(index)).is_some_and(|entry| learned.heads(entry) == heads);
            self.misfits = if fits { 0 } else { self.misfits + 1 };
            if self.misfits < BEGINS_ANEW {
                return;
            }
            self.learned = None;
        }
        if frame.coverage.bytes() == 0 && self.places.first().is_some_and(|place| place.start == 0) {
            self.recording =
                Some(Recording { frame: frame.number, next: sequence, layout: Layout::default() });
        }
        let Some(recording) = self.recording.as_mut().filter(|recording| recording.frame == frame.number)
        else {
            return;
        };
        if recording.next != sequence {
            self.recording = None;
            return;
        }
        recording.next += 1;
        let words = packet.contributing.len() + packet.extension.map_or(0, |(_, words)| 1 + words.len());
        let rtp_bytes = (HEADER_BYTES + 4 * words) as u16;
        recording.layout.push(rtp_bytes, packet.header.marker, heads, &self.places);
        self.first_byte =
            2 << 6 | u8::from(packet.extension.is_some()) << 4 | packet.contributing.len() as u8;
    }
}

/// Where a path is in the layout.
struct Cursor<'a> {
    frame: &'a Frame,
    index: usize,
}

impl<'a> Cursor<'a> {
    fn find(of: &'a Depacketizer, learned: &Layout, next: u64) -> Option<Cursor<'a>> {
        let length = learned.len() as u64;
        let within = |frame: &&Frame| (frame.base..frame.base + length).contains(&next);
        if let Some(frame) = of.frames.iter().find(within) {
            return Some(Cursor { frame, index: (next - frame.base) as usize });
        }
        let end = of.frames.back().map_or(of.out.map(|(next, _)| next), |frame| Some(frame.base + length));
        let frame = of.spare.as_ref().filter(|_| end == Some(next))?;
        Some(Cursor { frame, index: 0 })
    }

    /// The packet behind it: of the same frame, or the first one of the next.
    fn advance(self, of: &'a Depacketizer, learned: &Layout) -> Option<Cursor<'a>> {
        let Cursor { frame, index } = self;
        if index + 1 < learned.len() {
            return Some(Cursor { frame, index: index + 1 });
        }
        if of.spare.as_ref().is_some_and(|spare| spare.number == frame.number) {
            return None;
        }
        Cursor::find(of, learned, frame.base + learned.len() as u64)
    }
}

/// Bytes of an RTP header behind its fixed part, by its first byte and what follows.
fn behind_fixed(first: u8, more: &[u8]) -> usize {
    let sources = 4 * usize::from(first & 0x0F);
    let extension = match more.get(sources..sources + 4) {
        Some([_, _, l0, l1]) if first & 0x10 != 0 => 4 + 4 * usize::from(u16::from_be_bytes([*l0, *l1])),
        _ => 0,
    };
    sources + extension
}

/// Whether a time stamp is later than another one, modulo 2³².
fn is_later(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

/// The number nearest to `to` whose low `bits` are those of `value`.
fn nearest(to: u64, value: u64, bits: u32) -> u64 {
    let span = 1u64 << bits;
    let ahead = value.wrapping_sub(to) & (span - 1);
    if ahead < span / 2 { to + ahead } else { (to + ahead).checked_sub(span).unwrap_or(to + ahead) }
}
