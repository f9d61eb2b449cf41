//! Packets to frames: which frames there are, when they go out, and what is counted. Packets come by one of two ways:
//!
//! * `planned`: the kernel has put it where a plan said, and its header says that it belongs there. A few comparisons.
//! * `unplanned`: all else, and all of it until one frame has come whole. It is parsed and copied.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod continuity;
mod line_numbers;
mod planned;
mod unplanned;

use super::format::{Format, Scan};
use super::frame::Frame;
use super::header::Segment;
use super::layout::Layout;
use super::plan::{Arrival, MESSAGES_MAX, Plan};
use crate::counter::count;
use crate::rtp::source::{Origin, SourceLock};
use continuity::{Continuity, Whole};
use glassline_media::Time;
use line_numbers::Undecided;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Packets of the next frame after which what is missing of the one before comes no more, where there is one path. Where a frame
/// has fewer, all of them are enough.
const REORDERED_PACKETS: u64 = 64;
/// How long after its latest packet a frame without its end is given out; the other path's delay is added.
const STALL: Duration = Duration::from_millis(100);
/// Frames that are not out at a time.
const FRAMES_MAX: usize = 16;
/// How far two fields of a frame may be apart, in ticks of 90 kHz: those of one frame a second.
const FIELDS_APART: u32 = 45_000;
/// What is behind the last frame that is out by no more than this is late, and no new stream: a second, at any rate there is.
const LATE_TICKS: u32 = 90_000;
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

/// The memory for frames, which the caller provides.
pub trait Store {
    /// Memory for one more frame, by a number of the store's own choice; `None` where all of it is held.
    fn open(&mut self) -> Option<usize>;
    /// The memory of a number, at least a frame's bytes. Nothing, where it does not [take aim](Store::takes_aim).
    fn bytes(&mut self, slot: usize) -> &mut [u8];

    /// Whether frames are kept as they come, so that the kernel may write into them. Otherwise all bytes are given to
    /// [`Store::write`].
    fn takes_aim(&self) -> bool {
        true
    }

    /// Writes bytes of a frame to where they belong: whole pgroups from byte `at` on, with [`Format::line_bytes`] to a line.
    fn write(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        self.bytes(slot)[at..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// What has come, and what has not. All counts are exact; packets are those of the merged stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that brought samples.
    pub packets: u64,
    /// Packets that are in no frame, between the first one of a sender that came and the last: what follows the last one that came
    /// is counted with the next one. Those that came late, or were refused, are in no frame either.
    pub lost: u64,
    /// Packets that came after one that was sent later, by the same path.
    pub reordered: u64,
    /// Packets with samples that were there already.
    pub duplicates: u64,
    /// Packets of frames that were out already.
    pub late: u64,
    /// Packets without samples, which close a frame or field.
    pub closing: u64,
    /// Datagrams that are no packets of this stream, those of other sources among them.
    pub refused: u64,
    /// Frames that are out and whole.
    pub frames: u64,
    /// Frames that are out with holes.
    pub incomplete: u64,
    /// Frames that had begun before the first packet came.
    pub partial: u64,
    /// Frames that were lost as a whole because there was no memory for them.
    pub dropped: u64,
    /// Times that the stream began anew.
    pub restarts: u64,
    /// Packets that the kernel put where they belong; all others were copied.
    pub in_place: u64,
    /// Packets of the stream that each path brought: those too that the other had brought, that were late or had no samples.
    pub by_path: [u64; 2],
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
    /// It is the stream's first one and has no beginning: a receiver that joins in the middle of a frame was never sent
    /// that.
    pub is_partial: bool,
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

/// The frames that are out.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// Up to this sequence number all is counted.
    next: u64,
    /// Behind the last frame, as it was planned: its last packets may be missing.
    end: u64,
    /// The last frame's time stamp.
    timestamp: u32,
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
    lock: SourceLock,
    continuity: Continuity,
    /// What came before it was known what line numbers count; `None` once it is. Then the format says it.
    undecided: Option<Undecided>,
    /// Packets in a row of the stream's own source with line numbers that count otherwise.
    contradictions: u32,
    /// Whether the payload's extended sequence numbers are believed; some senders leave them zero.
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
    /// The last frame that is out.
    out: Option<Out>,
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
            lock: SourceLock::new(),
            continuity: Continuity::default(),
            undecided: (settings.format.fields() > 1).then(Undecided::default),
            contradictions: 0,
            is_wide: true,
            learned: None,
            first_byte: 0,
            recording: None,
            misfits: 0,
            frames: VecDeque::new(),
            spare: None,
            next_number: 0,
            out: None,
            counters: Counters::default(),
            done: VecDeque::new(),
            segments: Vec::new(),
            places: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// With a lock that knows which senders are allowed.
    #[must_use]
    pub fn with_lock(self, lock: SourceLock) -> Depacketizer {
        Depacketizer { lock, ..self }
    }

    /// What has come.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Datagrams that are kept until it is known what the line numbers of a stream in two fields count; no counter has them yet.
    pub fn undecided(&self) -> usize {
        self.undecided.as_ref().map_or(0, Undecided::len)
    }

    /// The sender's synchronization source, once one has come.
    pub fn ssrc(&self) -> Option<u32> {
        self.lock.ssrc()
    }

    /// Runs of samples that are remembered of a frame while its layout is being learned.
    #[cfg(test)]
    pub(super) fn recorded_runs(&self) -> usize {
        self.recording.as_ref().map_or(0, |recording| recording.layout.runs())
    }

    /// How the sender cuts frames, once one came whole.
    pub fn layout(&self) -> Option<&Layout> {
        self.learned.as_ref()
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
        // Of an empty datagram nothing is left to look at.
        let empty = arrivals.iter().filter(|arrival| arrival.bytes == 0).count();
        count(&mut self.counters.refused, empty as u64);
        for (message, arrival) in arrivals.iter().enumerate() {
            let datagram_bytes = arrival.datagram_bytes.max(1);
            let mut offset = 0;
            let mut aims = plan.aims(message).iter();
            // A stranger's bytes may lie where a frame's belong. There they are no more than a hole: what was planned for all
            // messages from this one on is void, and what they bring is copied to where it belongs.
            let is_source = self.lock.is_at(Origin { path, address: arrival.from });
            while offset < arrival.bytes {
                let bytes = datagram_bytes.min(arrival.bytes.saturating_sub(offset));
                let is_hit = is_source
                    && aims.next().is_some_and(|aim| self.hit(path, aim, bytes, scratch, arrival.at, store));
                if !is_hit {
                    if offset > 0 {
                        self.lock.touch(path, arrival.at);
                    }
                    self.gather(plan, (message, offset), arrivals, scratch, store);
                    self.take_gathered(path, (message, offset), arrivals, store);
                    self.pace(path, arrivals, false);
                    return;
                }
                offset = offset.saturating_add(bytes);
            }
            if offset > 0 {
                self.lock.touch(path, arrival.at);
            }
        }
        self.pace(path, arrivals, true);
    }

    /// How much the next call is to bring.
    fn pace(&mut self, path: usize, arrivals: &[Arrival], was_planned: bool) {
        let path = &mut self.paths[path];
        let count = |arrival: &Arrival| match arrival.datagram_bytes {
            // Nearly always where the kernel collects nothing, and a division a packet is not for nothing.
            most if arrival.bytes <= most => 1,
            each => arrival.bytes.div_ceil(each.max(1)),
        };
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
        // A message that is planned costs, whether it comes or not.
        path.messages = match arrivals.len() {
            _ if !was_planned => usual.min(8),
            all if all >= path.messages => path.messages.saturating_mul(2).min(usual),
            some => some.saturating_add(1).min(usual),
        };
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
            self.next_number = number.saturating_add(1);
        }
        if spare.slot.is_none() {
            spare.slot = store.open();
        }
    }

    /// Whether a packet's time stamp is that of the field which is still missing of a frame.
    fn is_other_field(&self, place: usize, (timestamp, field): (u32, usize), sequence: u64) -> bool {
        let frame = &self.frames[place];
        match (
            self.settings.format.scan(),
            frame.timestamps[field],
            frame.timestamps[usize::from(field == 0)],
        ) {
            // Segments have one stamp, and so have the fields of some senders, FFmpeg among them.
            (Scan::Segmented | Scan::Interlaced, None, Some(other)) if timestamp == other => {
                self.is_near(frame, sequence)
            }
            (Scan::Interlaced, None, Some(other)) if field == 1 => {
                // Time stamps alone do not tell the frame's own second field from the next one's.
                let length = self.learned.as_ref().map_or(u64::MAX, |learned| learned.len() as u64);
                sequence < frame.base.saturating_add(length)
                    && is_later(timestamp, other)
                    && self.continuity.allows_field(other, timestamp)
                    && timestamp.wrapping_sub(other) < FIELDS_APART
            }
            _ => false,
        }
    }

    /// A packet of a frame has come.
    fn note(&mut self, place: usize, sequence: u64, added: usize, is_end: bool, at: Time) {
        let frame = &mut self.frames[place];
        (frame.highest, frame.latest) = (frame.highest.max(sequence), at);
        frame.lowest = frame.lowest.min(sequence);
        if is_end {
            frame.end = Some(sequence);
        }
        if added == 0 {
            count(&mut self.counters.duplicates, 1);
        } else {
            count(&mut frame.unique, 1);
            count(&mut self.counters.packets, 1);
        }
        let is_whole = frame.coverage.bytes() == self.settings.format.frame_bytes();
        let is_past = is_whole || frame.unique >= REORDERED_PACKETS;
        let given_up = match self.paths.len() {
            1 if is_past => place,
            // Frames of few packets may all have holes: the third one that begins ends the first.
            1 => place.saturating_sub(1),
            _ => 0,
        };
        if (is_whole || given_up > 0) && added > 0 {
            self.settle(given_up);
        }
    }

    /// A packet of a frame has come that has no samples: it says that the frame, or a field, has ended.
    fn note_empty(&mut self, place: usize, sequence: u64, is_end: bool, at: Time) {
        let frame = &mut self.frames[place];
        (frame.highest, frame.latest) = (frame.highest.max(sequence), at);
        frame.lowest = frame.lowest.min(sequence);
        if is_end {
            frame.end = Some(sequence);
        }
        if frame.note_empty(sequence) {
            count(&mut frame.unique, 1);
            count(&mut self.counters.closing, 1);
        } else {
            count(&mut self.counters.duplicates, 1);
        }
    }

    /// The same of a frame that is out, since all its samples are there: nothing is lost in front of the next one. False where
    /// the packet does not follow, or has come before.
    fn extend_out(&mut self, sequence: u64) -> bool {
        let Some(out) = self.out.as_mut().filter(|out| out.next == sequence) else { return false };
        out.next = sequence.saturating_add(1);
        out.end = out.end.max(out.next);
        self.continuity.extend(out.next);
        true
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
        self.paths.len() == 1 || self.out.is_none_or(|out| frame.base <= out.end)
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
        if is_whole {
            let (first, next) = (frame.lowest, frame.highest.saturating_add(1));
            self.continuity.note(Whole {
                timestamp: frame.timestamp(),
                first,
                next,
                began: frame.began,
                has_one_stamp: frame.has_one_stamp(),
            });
        }
        let end_by = |learned: &Layout| frame.base.saturating_add(learned.len() as u64).saturating_sub(1);
        let planned = self.learned.as_ref().map(end_by);
        // A whole frame ends where it ends; of another one the last packet may be missing.
        let end = frame.end.or(planned).unwrap_or(frame.highest).max(frame.highest);
        let lost = end.saturating_add(1).saturating_sub(frame.base).saturating_sub(frame.unique);
        let holes = if is_whole { Vec::new() } else { frame.coverage.holes(bytes) };
        let is_partial = self.out.is_none() && holes.first().is_some_and(|hole| hole.start == 0);
        self.settle_lost(&frame, end);
        let counters = &mut self.counters;
        let counter = match frame.slot {
            _ if is_partial => &mut counters.partial,
            None => &mut counters.dropped,
            Some(_) if is_whole => &mut counters.frames,
            Some(_) => &mut counters.incomplete,
        };
        count(counter, 1);
        self.done.push_back(Done {
            slot: frame.slot,
            timestamp: frame.timestamp(),
            began: frame.began,
            ended: frame.latest,
            holes,
            lost,
            is_partial,
        });
    }

    /// Counts what is missing up to a frame's end, where that is known: the sum over all frames is exact, whichever of them the
    /// numbers between two belonged to.
    fn settle_lost(&mut self, frame: &Frame, planned_end: u64) {
        // What may be missing behind the last packet of all was perhaps never sent.
        let most = self.frames.front().map_or(frame.highest, |newer| newer.lowest.saturating_sub(1));
        let last = planned_end.min(most).max(frame.highest);
        let from = self.out.map_or(frame.lowest, |out| out.next);
        let next = from.max(last.saturating_add(1));
        count(&mut self.counters.lost, next.saturating_sub(from));
        self.counters.lost = self.counters.lost.saturating_sub(frame.unique);
        let end = self.out.map_or(0, |out| out.end).max(planned_end.saturating_add(1));
        self.out = Some(Out { next, end, timestamp: frame.newest_timestamp() });
    }

    /// The stream begins anew. What there is of it goes out.
    fn restart(&mut self) {
        self.finish();
        self.paths.iter_mut().for_each(|path| path.next = None);
        (self.out, self.recording, self.is_wide) = (None, None, true);
        self.continuity = Continuity::default();
        count(&mut self.counters.restarts, 1);
    }
}

/// Whether a time stamp is later than another one, modulo 2³².
fn is_later(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}
