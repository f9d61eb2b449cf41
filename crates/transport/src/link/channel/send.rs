//! One channel's sending end: what waits, what has begun, what has to be sent again.
//!
//! A message gets its number on the wire when it begins, so what is replaced or cancelled while it waits leaves no gap.
//! Only the message that began last may have bytes that were never sent.
//!
//! `queue` has what waits, `flight` what is in flight, `late` what was deemed lost and may come yet, `run` the middle
//! of large messages, `parity` that of reliable ones; here messages begin and are written into packets.

mod flight;
mod late;
mod parity;
mod queue;
mod row;
mod run;

use crate::counter::count;
use bytes::Bytes;
use glassline_media::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::compression::{Dictionary, Packer};
use super::fec::{self, Parity};
use super::{MESSAGE_COST, length_of, stamp};
use crate::link::ranges::Ranges;
use crate::link::wire::frame::{Data, data_head};
use crate::link::wire::varint;
use crate::link::{Event, MessageId, Options, Outcome};
pub(crate) use parity::Due;
pub(crate) use row::Row;

/// The most messages that may be begun and not yet consumed at the other end.
pub(crate) const MAX_AHEAD: u64 = 1 << 15;
/// A fragment is not made smaller than this where the message has more.
const MIN_FRAGMENT: usize = 64;
/// A reliable message up to this size may be sent more than once without being lost, and any such message over two paths.
const SMALL: usize = 600;

/// Whether the other end knows of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Every packet with data of the channel tells it.
    No,
    /// It was acknowledged.
    Yes,
}

struct Waiting {
    message: MessageId,
    bytes: Bytes,
    queued: Time,
    /// `bytes` packed, if that was tried and was worth it; seldom, and many wait.
    packed: Option<Box<Bytes>>,
    tried: bool,
    /// See [`Begun::twice`].
    twice: bool,
}

struct Begun {
    message: MessageId,
    bytes: Bytes,
    queued: Time,
    /// How many bytes were sent at least once.
    sent: u32,
    acked: Ranges,
    lost: Ranges,
    packed: bool,
    parity: Option<Box<Parity>>,
    /// Of several paths two carry it.
    twice: bool,
    done: bool,
}

/// What a link knows that matters to how a message is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions<'a> {
    /// What a packet could take if it were empty, bytes.
    pub(crate) whole: usize,
    /// The window at the other end, bytes.
    pub(crate) window: u64,
    /// When copies of small reliable messages leave.
    pub(crate) copies: &'a [Duration],
    /// What the other end has, too.
    pub(crate) dictionary: Option<&'a Dictionary>,
    /// Whether the path is seen to lose packets.
    pub(crate) lossy: bool,
    /// Whether the other end takes stamps.
    pub(crate) stamps: bool,
    /// Whether reliable messages get parity too: the other end takes it.
    pub(crate) parity: bool,
    /// The number of the path.
    pub(crate) path: u8,
    /// Where parts may go over a second path too: how many bytes of copies leave there soon.
    pub(crate) copy_room: Option<u64>,
    /// Whether a part may fill its packet to the end, so that it needs no length. One that goes over two paths may not:
    /// it has to fit behind other frames there.
    pub(crate) fill: bool,
}

/// What was written into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) message: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// Whether the bytes had been sent before.
    pub(crate) again: bool,
    /// Whether it is a parity shard; `offset` is its number then.
    pub(crate) parity: bool,
}

impl Written {
    /// Where in the message the bytes end.
    #[inline]
    pub(crate) fn end(self) -> u32 {
        self.offset.saturating_add(self.length)
    }

    /// What a part comes to that waits to be repeated on another path: its bytes, and its place in the queue.
    pub(crate) fn duplicate_cost(self) -> u64 {
        u64::from(self.length).saturating_add(16)
    }
}

/// Counts of one channel's sending end since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Messages taken from the application.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages acknowledged as a whole.
    pub delivered: u64,
    /// Messages given up: replaced, too old, or skipped by the receiver.
    pub cancelled: u64,
    /// Unreliable messages of which a part was lost.
    pub lost: u64,
    /// Bytes sent again: deemed lost, or copied.
    pub resent_bytes: u64,
    /// Of these, bytes of small messages sent again before anything was known of the first time.
    pub copied_bytes: u64,
    /// Bytes that compression has saved on messages that began to be sent.
    pub saved_bytes: u64,
    /// Bytes of parity sent.
    pub parity_bytes: u64,
}

pub(crate) struct Sender {
    id: u8,
    pub(crate) options: Options,
    pub(crate) announced: Announced,
    waiting: VecDeque<Waiting>,
    begun: VecDeque<Begun>,
    /// The number of the first in `begun`.
    first: u64,
    /// Numbers of messages with bytes in `lost`.
    resend: BTreeSet<u64>,
    /// Whether the last of `begun` has bytes never sent.
    unfinished: bool,
    /// Copies of small messages: when, which.
    copies: VecDeque<(Time, u64)>,
    /// Numbers of messages to be told cancelled.
    pub(crate) cancels: BTreeSet<u64>,
    held_bytes: usize,
    next_message: u64,
    /// Everything before this number is done with at the other end.
    consumed: u64,
    unconsumed: VecDeque<u32>,
    unconsumed_bytes: u64,
    packer: Packer,
    /// Messages that were told lost and of which all may come yet.
    late: VecDeque<late::Late>,
    /// A message with a parity frame that is too large for the path's packets. It would never end, so it is given up.
    stranded: Option<u64>,
    /// Weighted bytes sent: the least of a priority goes first.
    pub(crate) share: u64,
    pub(crate) counters: SendCounters,
}

impl Sender {
    /// Whether the channel's options are known to the peer; they are told with its data until then.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced == Announced::Yes
    }

    pub(crate) fn new(id: u8, options: Options) -> Sender {
        Sender {
            id,
            options,
            announced: Announced::No,
            waiting: VecDeque::new(),
            begun: VecDeque::new(),
            first: 0,
            resend: BTreeSet::new(),
            unfinished: false,
            copies: VecDeque::new(),
            cancels: BTreeSet::new(),
            held_bytes: 0,
            next_message: 0,
            consumed: 0,
            unconsumed: VecDeque::new(),
            unconsumed_bytes: 0,
            packer: Packer::new(options.compression),
            late: VecDeque::new(),
            stranded: None,
            share: 0,
            counters: SendCounters::default(),
        }
    }

    /// Bytes of messages that wait or are not acknowledged.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The number of the message at `index` of `begun`.
    #[inline]
    fn number(&self, index: usize) -> u64 {
        self.first.saturating_add(index as u64)
    }

    /// The number that the next message will have when it begins.
    #[inline]
    fn next_number(&self) -> u64 {
        self.number(self.begun.len())
    }

    /// Where in `begun` the message of this number would be.
    #[inline]
    fn index(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok())
    }

    /// A message lets go of so many bytes.
    #[inline]
    fn release(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held_bytes, "{bytes} go of {} that are held", self.held_bytes);
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
    }

    /// Messages that wait: no part of them has left.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that are still to leave: of messages that wait, of the one that has begun, and what is lost. Parity is among them,
    /// but that of reliable messages that have not begun, which leaves when nothing else waits. `replaced`: without those that one more message would
    /// replace.
    pub(crate) fn unsent_bytes(&self, lossy: bool, whole: usize, replaced: bool) -> u64 {
        let percent = self.parity_ahead(lossy);
        let newest = replaced && self.options.newest;
        let waiting = self.waiting.iter().filter(|_| !newest).map(|waiting| {
            let parity = fec::parity_bytes(length_of(&waiting.bytes), percent, whole);
            parity.saturating_add(waiting.bytes.len() as u64)
        });
        let begun = if newest && self.options.cancel_begun { 0 } else { self.unsent_of_begun() };
        waiting.fold(begun, u64::saturating_add)
    }

    fn unsent_of_begun(&self) -> u64 {
        let lost = self.resend.iter().filter_map(|number| self.begun.get(self.index(*number)?));
        let lost = lost.flat_map(|begun| begun.lost.touching(0, u32::MAX));
        let lost: u64 = lost.map(|(start, end)| u64::from(end.saturating_sub(start))).sum();
        let last = self.begun.back().filter(|_| self.unfinished).map_or(0, |begun| {
            let parity = begun.parity.as_ref().map_or(0, |parity| parity.unsent_bytes());
            u64::from(begun.total().saturating_sub(begun.sent)).saturating_add(parity)
        });
        lost.saturating_add(last)
    }

    fn finish(&mut self, message: MessageId, outcome: Outcome, events: &mut VecDeque<Event>) {
        match outcome {
            Outcome::Delivered => count(&mut self.counters.delivered, 1),
            Outcome::Cancelled | Outcome::Skipped => count(&mut self.counters.cancelled, 1),
            Outcome::Lost => count(&mut self.counters.lost, 1),
        }
        if self.options.receipts {
            events.push_back(Event::Finished { channel: self.id, message, outcome });
        }
    }

    /// Whether there is something to write, given a window of `window` bytes at the other end.
    pub(crate) fn has_data(&self, window: u64) -> bool {
        !self.resend.is_empty() || self.unfinished || self.may_begin(window)
    }

    /// Whether the message that began last has parts that were never sent.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    fn may_begin(&self, window: u64) -> bool {
        self.waiting.front().is_some_and(|next| self.has_window(0, next.bytes.len() as u64, window))
    }

    /// Whether one more message may begin after `count` others, with which it has `bytes`. Each takes [`MESSAGE_COST`]
    /// beside its bytes.
    #[inline]
    fn has_window(&self, count: u64, bytes: u64, window: u64) -> bool {
        if !self.options.reliable {
            return true;
        }
        let outstanding = (self.unconsumed.len() as u64).saturating_add(count);
        let costs = count.saturating_add(1).saturating_mul(MESSAGE_COST);
        let taken = self.unconsumed_bytes.saturating_add(bytes).saturating_add(costs);
        taken <= window && outstanding < MAX_AHEAD
    }

    /// What the other end holds of this channel as far as is known, counted as its window is.
    pub(crate) fn outstanding(&self) -> u64 {
        self.unconsumed_bytes
    }

    /// Writes one frame of at most `room` bytes. `None`: nothing is there, or nothing fits.
    pub(crate) fn write(
        &mut self,
        now: Time,
        room: usize,
        on: &Conditions<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Written> {
        if let Some(&number) = self.resend.first() {
            let written = self.write_lost(number, room, on, out)?;
            count(&mut self.counters.resent_bytes, written.length.into());
            return Some(written);
        }
        if !self.unfinished {
            if !self.may_begin(on.window) {
                return None;
            }
            let size = self.pack_next(on)?;
            // A message that one packet can hold is not cut to fill this one.
            let total = u32::try_from(size).unwrap_or(u32::MAX);
            let head = data_head(self.next_number(), total, 0, size);
            let frame = head.saturating_add(size);
            if frame > room && (frame <= on.whole || room < head.saturating_add(8 + MIN_FRAGMENT)) {
                return None;
            }
            self.begin(now, on);
        }
        let number = self.next_number().checked_sub(1)?;
        let begun = self.begun.back_mut()?;
        let (total, offset) = (begun.total(), begun.sent);
        let mut left = total.saturating_sub(offset);
        if let Some(parity) = &begun.parity {
            if left == 0 {
                return self.write_parity(number, room, on.whole, out);
            }
            // Each shard is in one packet, so that a lost packet is one lost shard.
            left = left.min(parity.left_of_shard(offset));
            let size = data_head(number, total, offset, left as usize).saturating_add(left as usize);
            if size > room && size <= on.whole {
                return None;
            }
        }
        let (length, to_the_end) = fragment(number, total, offset, left, room, on.fill)?;
        begun.write(self.id, number, offset, length, to_the_end, out);
        begun.sent = begun.sent.saturating_add(length);
        self.unfinished = begun.sent < total || begun.parity.is_some() && !self.options.reliable;
        if let Some(parity) = &mut begun.parity {
            parity.count_carried(on.path, length);
        }
        Some(Written { message: number, offset, length, again: false, parity: false })
    }

    /// Counts what was written for the channel's share: so many parts, so many bytes of messages.
    #[inline]
    pub(crate) fn charge(&mut self, parts: u32, bytes: u32) {
        let cost = u64::from(parts).saturating_mul(16).saturating_add(bytes.into()).saturating_mul(256);
        let weighted = cost.checked_div(self.options.weight.into()).unwrap_or(cost);
        self.share = self.share.saturating_add(weighted);
    }

    /// Writes the next parity shard of the message that began last, all of which was sent.
    fn write_parity(&mut self, number: u64, room: usize, whole: usize, out: &mut Vec<u8>) -> Option<Written> {
        let begun = self.begun.back_mut()?;
        let frame = begun.parity_frame(self.id, number, begun.parity.as_ref()?.sent)?;
        if frame.size() > room {
            if frame.size() > whole {
                // The path's packets have become smaller meanwhile.
                self.stranded = Some(number);
                self.unfinished = false;
            }
            return None;
        }
        frame.write(out);
        let length = length_of(frame.bytes);
        let written = Written { message: number, offset: frame.index, length, again: false, parity: true };
        let parity = begun.parity.as_mut()?;
        parity.sent = parity.sent.saturating_add(1);
        self.unfinished = parity.sent < parity.pieces.len();
        count(&mut self.counters.parity_bytes, length.into());
        Some(written)
    }

    /// Packs the message that waits first, if that has not been tried. Gives its size then.
    fn pack_next(&mut self, on: &Conditions<'_>) -> Option<usize> {
        let drops_stamp = self.drops_stamps(on);
        let next = self.waiting.front_mut()?;
        let bare = drops_stamp.then(|| stamp::without(&next.bytes));
        let bytes = bare.as_ref().unwrap_or(&next.bytes);
        if !next.tried {
            next.tried = true;
            next.packed = self.packer.pack(bytes, on.dictionary).map(Box::new);
        }
        Some(next.packed.as_ref().map_or(bytes.len(), |packed| packed.len()))
    }

    /// Whether messages have stamps of which the other end does not know.
    #[inline]
    fn drops_stamps(&self, on: &Conditions<'_>) -> bool {
        self.options.stamped && !on.stamps
    }

    /// Counts a message that begins for the window, and has its copies follow, if any.
    #[inline]
    fn count_begun(&mut self, now: Time, number: u64, bytes: usize, copies: &[Duration]) {
        if !self.options.reliable {
            return;
        }
        let size = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unconsumed.push_back(size);
        self.unconsumed_bytes = self.unconsumed_bytes.saturating_add(cost(size));
        if bytes <= SMALL {
            for after in copies {
                let at = self.copies.partition_point(|copy| copy.0 <= now + *after);
                self.copies.insert(at, (now + *after, number));
            }
        }
    }

    fn begin(&mut self, now: Time, on: &Conditions<'_>) {
        let Some(Waiting { message, mut bytes, queued, packed, twice, .. }) = self.waiting.pop_front() else {
            return;
        };
        let number = self.next_number();
        let is_packed = packed.is_some();
        if self.drops_stamps(on) {
            let bare = stamp::without(&bytes);
            self.release(bytes.len().saturating_sub(bare.len()));
            bytes = bare;
        }
        if let Some(packed) = packed {
            let saved = bytes.len().saturating_sub(packed.len());
            count(&mut self.counters.saved_bytes, saved as u64);
            self.release(saved);
            bytes = *packed;
        }
        self.count_begun(now, number, bytes.len(), on.copies);
        let (acked, lost, is_small) = (Ranges::default(), Ranges::default(), bytes.len() <= SMALL);
        let parity = self.parity_of(&bytes, twice, on).map(Box::new);
        let has_copies = twice && !parity.as_ref().is_some_and(|parity| parity.is_for_copies);
        self.begun.push_back(Begun {
            message,
            bytes,
            queued,
            sent: 0,
            acked,
            lost,
            packed: is_packed,
            parity,
            twice: has_copies || is_small,
            done: false,
        });
        self.unfinished = true;
    }

    fn write_lost(
        &mut self,
        number: u64,
        room: usize,
        on: &Conditions<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Written> {
        let index = self.index(number)?;
        let begun = self.begun.get_mut(index)?;
        let total = begun.total();
        // An empty message has no bytes to be lost; it is in `resend` all the same.
        let (offset, end) = begun.lost.first().unwrap_or((0, 0));
        let mut left = end.saturating_sub(offset);
        if let Some(parity) = &begun.parity {
            left = left.min(parity.left_of_shard(offset));
        }
        let bytes = left as usize;
        let size = data_head(number, total, offset, bytes).saturating_add(bytes);
        // It may have filled its packet without a length.
        let filling = size.saturating_sub(varint::size(left.into()));
        let fits = |room| size <= room || on.fill && filling == room;
        if !fits(room) && fits(on.whole) {
            return None;
        }
        let (length, to_the_end) = fragment(number, total, offset, left, room, on.fill)?;
        begun.write(self.id, number, offset, length, to_the_end, out);
        begun.lost.remove(offset, offset.saturating_add(length));
        if begun.lost.is_empty() {
            self.resend.remove(&number);
        }
        Some(Written { message: number, offset, length, again: true, parity: false })
    }

    /// Whether two of several paths carry a message that has begun, and whether it is a small one.
    pub(crate) fn is_twice(&self, number: u64) -> (bool, bool) {
        let begun = self.index(number).and_then(|index| self.begun.get(index));
        begun.map_or((false, false), |begun| (begun.twice, begun.total() as usize <= SMALL))
    }

    /// Whether nothing waits and all that was sent has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }
}

/// What a message takes of the window.
#[inline]
fn cost(size: u32) -> u64 {
    MESSAGE_COST.saturating_add(size.into())
}

impl Begun {
    /// The message's size as it is carried.
    #[inline]
    fn total(&self) -> u32 {
        length_of(&self.bytes)
    }

    #[inline]
    fn write(
        &self,
        channel: u8,
        message: u64,
        offset: u32,
        length: u32,
        to_the_end: bool,
        out: &mut Vec<u8>,
    ) {
        let bytes = &self.bytes[offset as usize..offset.saturating_add(length) as usize];
        let data = Data { channel, message, total: self.total(), offset, bytes };
        if self.packed { data.write_packed(to_the_end, out) } else { data.write(to_the_end, out) }
    }
}

/// How many of `left` bytes at `offset` fit into a frame of `room` bytes, and whether they fill it to its end without a
/// length, if they may; `None` for too few.
#[inline]
fn fragment(number: u64, total: u32, offset: u32, left: u32, room: usize, fill: bool) -> Option<(u32, bool)> {
    let full = data_head(number, total, offset, left as usize);
    if full.saturating_add(left as usize) <= room {
        return Some((left, false));
    }
    // The head of a part, with a length of one byte.
    let head = data_head(number, total, offset, 0);
    let filling = room.saturating_add(1).checked_sub(head)?;
    if fill && filling >= MIN_FRAGMENT && filling <= left as usize {
        return Some((u32::try_from(filling).ok()?, true));
    }
    // The length takes at most four bytes.
    let length = room.checked_sub(head.saturating_add(3))?;
    (length >= MIN_FRAGMENT).then_some((u32::try_from(length).unwrap_or(u32::MAX).min(left), false))
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
