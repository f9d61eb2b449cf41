//! The packets that nothing was planned for, or something else: each is parsed, and copied to where it belongs.

use super::super::frame::Frame;
use super::super::header::{self, Segment};
use super::super::layout::Layout;
use super::super::plan::{Arrival, Piece, Plan};
use super::continuity::Continuity;
use super::{Depacketizer, FRAMES_MAX, LATE_TICKS, Out, Recording, Store, is_later};
use crate::counter::count;
use crate::rtp::source::{Origin, Standing};
use crate::rtp::{HEADER_BYTES, Packet, distance};
use glassline_media::Time;

/// So many packets in a row that are cut otherwise than the layout says are a sender that cuts frames anew.
const MISFITS_MAX: u32 = 32;
/// A layout is learned where the runs of samples have so many bytes in the mean, or where a frame has few runs. It
/// takes about as much memory as a frame then, whatever the sender does; other senders' packets are copied.
const RUN_BYTES_MEAN: usize = 32;
const RUNS_FREE: usize = 4_096;
/// What is behind the last frame that is out by no more than this is late, and no new stream.
const LATE_PACKETS: u64 = 1 << 22;

/// Half a turn of sequence numbers of 16 bits.
const HALF_TURN: u64 = 1 << 15;

/// What a packet is to the frames.
enum Belongs {
    /// To the frame at this place.
    Open(usize),
    /// To one that has not begun.
    Newer,
    /// To one that is out.
    Out,
    /// To none of this stream.
    Elsewhere,
    /// To a stream that begins with it, since the source was silent.
    Anew,
}

impl Depacketizer {
    /// Copies all that was not planned so out of where the kernel has put it: from a datagram on, with all messages behind it.
    pub(super) fn gather(
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
            let mut left = arrival.bytes.saturating_sub(skip);
            for piece in plan.pieces(number) {
                let bytes = match piece {
                    Piece::Scratch(range) => &scratch[range.clone()],
                    Piece::Frame { slot, bytes } => &store.bytes(*slot)[bytes.clone()],
                };
                let (skipped, rest) = bytes.split_at(skip.min(bytes.len()));
                skip = skip.saturating_sub(skipped.len());
                let bytes = &rest[..left.min(rest.len())];
                left = left.saturating_sub(bytes.len());
                self.gathered.extend_from_slice(bytes);
                if left == 0 {
                    break;
                }
            }
        }
    }

    pub(super) fn take_gathered(
        &mut self,
        path: usize,
        (message, offset): (usize, usize),
        arrivals: &[Arrival],
        store: &mut dyn Store,
    ) {
        let gathered = std::mem::take(&mut self.gathered);
        let mut rest = &gathered[..];
        for (number, arrival) in arrivals.iter().enumerate().skip(message) {
            let left = arrival.bytes.saturating_sub(if number == message { offset } else { 0 });
            let (bytes, later) = rest.split_at(left.min(rest.len()));
            rest = later;
            for datagram in bytes.chunks(arrival.datagram_bytes.max(1)) {
                self.take_datagram(Origin { path, address: arrival.from }, datagram, arrival.at, store);
            }
        }
        self.gathered = gathered;
    }

    /// Takes one datagram by itself, which nothing was planned for.
    pub fn take_datagram(&mut self, from: Origin, datagram: &[u8], at: Time, store: &mut dyn Store) {
        let mut segments = std::mem::take(&mut self.segments);
        if self.try_take(from, datagram, at, store, &mut segments).is_none() {
            count(&mut self.counters.refused, 1);
        }
        self.segments = segments;
    }

    /// `None`: it is no packet of this stream.
    fn try_take(
        &mut self,
        from: Origin,
        datagram: &[u8],
        at: Time,
        store: &mut dyn Store,
        segments: &mut Vec<Segment>,
    ) -> Option<()> {
        let path = from.path;
        self.paths.get(path)?;
        let packet = Packet::parse(datagram).ok()?;
        let header = packet.header;
        if header.payload_type != self.settings.payload_type {
            return None;
        }
        let (extension, heads, samples) = header::parse(packet.payload, segments).ok()?;
        if self.weigh_lines((from, datagram), header.ssrc, segments, at, store)? {
            return Some(());
        }
        self.places.clear();
        for segment in &*segments {
            self.places.push(self.settings.format.place(segment)?);
        }
        let fields = self.settings.format.fields();
        let field = usize::from(segments.first()?.field && fields > 1);
        let is_empty = samples_of(&self.places) == 0;
        let stamp = (header.timestamp, field);
        match self.lock.weigh(from, header.ssrc, at) {
            Standing::Stranger => return None,
            Standing::Successor => self.restart(),
            Standing::Known => {}
        }
        let (mut sequence, mut is_wide) = self.extend(path, (header.sequence, extension), at);
        let belongs = self.find_frame(stamp, sequence, at);
        if matches!(belongs, Belongs::Anew) {
            self.restart();
            (sequence, is_wide) = self.extend(path, (header.sequence, extension), at);
        }
        let is_reordered = self.paths[path].next.is_some_and(|next| sequence < next);
        let place = match belongs {
            Belongs::Elsewhere => return None,
            Belongs::Open(place) => Some(place),
            Belongs::Newer | Belongs::Anew => self.begin_frame(stamp, sequence, heads, at, store),
            Belongs::Out => None,
        };
        self.lock.renew(from, header.ssrc, at);
        count(&mut self.counters.by_path[path], 1);
        self.is_wide = is_wide;
        let closes_out = place.is_none() && is_empty && self.extend_out(sequence);
        // What belongs to a frame that is out tells nothing of what comes next; nor does what is older than all frames, where none
        // is out yet.
        let behind = sequence.saturating_add(1);
        let known = if place.is_some() { Some(behind) } else { self.out.map(|out| behind.min(out.next)) };
        let next = &mut self.paths[path].next;
        *next = (*next).max(known);
        let Some(place) = place else {
            count(&mut self.counters.late, (!is_empty).into());
            count(&mut self.counters.duplicates, (is_empty && !closes_out).into());
            count(&mut self.counters.closing, closes_out.into());
            return Some(());
        };
        let is_end = header.marker && field.saturating_add(1) == fields;
        if is_empty {
            self.note_empty(place, sequence, is_end, at);
            return Some(());
        }
        self.record(place, sequence, &packet, heads);
        let frame = &mut self.frames[place];
        if self.learned.is_none() {
            frame.base = frame.base.min(sequence);
        }
        let (mut rest, mut added) = (samples, 0);
        for range in &self.places {
            let (now, later) = rest.split_at(range.len());
            rest = later;
            if let Some(slot) = frame.slot
                && !frame.coverage.has(range)
            {
                store.write(slot, range.start, now);
            }
            added = frame.coverage.add(range.clone()).saturating_add(added);
        }
        count(&mut self.counters.reordered, (is_reordered && added > 0).into());
        self.note(place, sequence, added, is_end, at);
        Some(())
    }

    /// A sequence number that does not wrap, and whether extended numbers are believed behind it.
    fn extend(&self, path: usize, (sequence, extension): (u16, u16), at: Time) -> (u64, bool) {
        let wide = u64::from(extension) << 16 | u64::from(sequence);
        let nearest = |next: u64, bits| next.saturating_add_signed(distance(next, wide, bits));
        let Some(next) = self.paths[path].next else {
            // The other path may be ahead by far. One turn ahead of zero, looking back never ends below it.
            let highest = self.paths.iter().filter_map(|path| path.next).max();
            let number =
                highest.map_or(1 << 32 | wide, |next| nearest(next, if self.is_wide { 32 } else { 16 }));
            return (number, self.is_wide);
        };
        let (narrow, long) = (nearest(next, 16), nearest(next, 32));
        let is_wide = if self.is_wide {
            // The high half has stayed where it was when the low one wrapped, or is anything.
            let most = LATE_PACKETS.saturating_mul(at.since(self.lock.latest()).as_secs().saturating_add(1));
            long.saturating_add(HALF_TURN) > next && long < next.saturating_add(most)
        } else {
            // It has gone on with the low one.
            let has_wrapped = narrow >= next && narrow >> 16 != next.saturating_sub(1) >> 16;
            has_wrapped && long == narrow
        };
        (if is_wide { long } else { narrow }, is_wide)
    }

    /// Which frame a packet belongs to.
    fn find_frame(&mut self, stamp: (u32, usize), sequence: u64, at: Time) -> Belongs {
        let (timestamp, field) = stamp;
        let elsewhere =
            |of: &Depacketizer| if of.lock.may_renumber(at) { Belongs::Anew } else { Belongs::Elsewhere };
        let same = |frame: &Frame| frame.timestamps[field] == Some(timestamp);
        if let Some(place) = self.frames.iter().rposition(same) {
            return if self.is_near(&self.frames[place], sequence) {
                Belongs::Open(place)
            } else {
                elsewhere(self)
            };
        }
        let is_other = |place: &usize| self.is_other_field(*place, stamp, sequence);
        if let Some(place) = (0..self.frames.len()).rev().find(is_other) {
            self.frames[place].timestamps[field] = Some(timestamp);
            return Belongs::Open(place);
        }
        let Some(Out { next, timestamp: last, .. }) = self.out else { return Belongs::Newer };
        let packets = self.learned.as_ref().map_or(HALF_TURN, |learned| learned.len() as u64);
        if is_later(timestamp, last) && sequence >= next {
            let goes_on = self.continuity.allows(timestamp, sequence, at);
            return if goes_on { Belongs::Newer } else { elsewhere(self) };
        }
        // The other path brings what is long out; a stream that begins anew is somewhere else.
        let is_behind = (next.saturating_sub(LATE_PACKETS)..next.saturating_add(packets)).contains(&sequence);
        if last.wrapping_sub(timestamp) <= LATE_TICKS && is_behind {
            return Belongs::Out;
        }
        elsewhere(self)
    }

    /// Whether a number can be that of a packet of a frame, as far as the layout tells how many it has.
    pub(super) fn is_near(&self, frame: &Frame, sequence: u64) -> bool {
        let Some(packets) = self.learned.as_ref().map(|learned| learned.len() as u64) else { return true };
        (frame.base.saturating_sub(packets)..frame.base.saturating_add(packets.saturating_mul(2)))
            .contains(&sequence)
    }

    /// The place of a new frame. `None`: there are newer ones, as many as can be.
    fn begin_frame(
        &mut self,
        stamp: (u32, usize),
        sequence: u64,
        heads: &[u8],
        at: Time,
        store: &mut dyn Store,
    ) -> Option<usize> {
        let mut place = self.frames.partition_point(|other| is_later(stamp.0, other.timestamp()));
        if self.frames.len() >= FRAMES_MAX {
            place = place.checked_sub(1)?;
            self.close();
        }
        self.prepare_spare(store);
        let mut frame = self.spare.take()?;
        frame.begin(stamp, sequence, at);
        let known = self.learned.as_ref().and_then(|learned| learned.find(heads));
        let start = known.map(|index| sequence.saturating_sub(index as u64));
        // Without a layout to look it up, the frame begins where the one before it has ended.
        let before =
            self.frames.back().map_or(self.out.map(|out| out.end), |frame| frame.end?.checked_add(1));
        let packets = self.learned.as_ref().map_or(u64::MAX, |learned| learned.len() as u64);
        let is_its = |next: &u64| sequence.checked_sub(*next).is_some_and(|index| index < packets);
        frame.base = start.or(before.filter(is_its)).unwrap_or(sequence);
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
            self.misfits = if fits { 0 } else { self.misfits.saturating_add(1) };
            if self.misfits < MISFITS_MAX {
                return;
            }
            (self.learned, self.continuity) = (None, Continuity::default());
        }
        if frame.coverage.bytes() == 0 && self.places.first().is_some_and(|place| place.start == 0) {
            self.recording =
                Some(Recording { frame: frame.number, next: sequence, layout: Layout::default() });
        }
        let Some(recording) = self.recording.as_mut().filter(|recording| recording.frame == frame.number)
        else {
            return;
        };
        if sequence < recording.next {
            // The other path has brought it before.
            return;
        }
        let runs_max = RUNS_FREE.saturating_add(self.settings.format.frame_bytes() / RUN_BYTES_MEAN);
        if recording.next != sequence
            || samples_of(&self.places) == 0
            || recording.layout.runs().saturating_add(self.places.len()) > runs_max
        {
            self.recording = None;
            return;
        }
        recording.next = recording.next.saturating_add(1);
        let extension = packet.extension.map_or(0, |(_, words)| words.len().saturating_add(1));
        let words = packet.contributing.len().saturating_add(extension);
        let rtp_bytes = u16::try_from(words.saturating_mul(4).saturating_add(HEADER_BYTES));
        let (Ok(rtp_bytes), Ok(sources)) = (rtp_bytes, u8::try_from(packet.contributing.len())) else {
            // No datagram has room for such a header.
            self.recording = None;
            return;
        };
        recording.layout.push(rtp_bytes, packet.header.marker, heads, &self.places);
        self.first_byte = 2 << 6 | u8::from(packet.extension.is_some()) << 4 | sources;
    }
}

/// Bytes of ranges together.
fn samples_of(places: &[std::ops::Range<usize>]) -> usize {
    places.iter().map(std::ops::Range::len).sum()
}
