//! One channel's receiving end: fragments become messages, each once, in order where that is wished.

use bytes::Bytes;
use glassline_media::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::compression::{Dictionary, Unpacker};
use super::fec::Gathered;
use super::send::MAX_AHEAD;
use super::spares::{Blocks, Spares};
use crate::link::ranges::Ranges;
use crate::link::wire::frame::{Data, Parity};
use crate::link::wire::row::Row;
use crate::link::{Compression, Options};

/// On an unreliable, unordered channel: how many messages may be incomplete or come out of order.
const MAX_OPEN: usize = 1024;
/// The most separate parts of one message; a peer that sends more breaks the rules.
const MAX_PARTS: usize = 1 << 14;

enum Held {
    /// A message of which parts have come.
    Part(Part),
    /// One that waits for those before it.
    Whole { whole: Whole, since: Time },
    /// One that was delivered, cancelled or skipped.
    Gone,
}

struct Part {
    bytes: Vec<u8>,
    total: u32,
    packed: bool,
    have: Ranges,
    parity: Option<Box<Gathered>>,
    since: Time,
}

impl Part {
    /// What it is counted with: its message's bytes, and those of parity.
    fn held_bytes(&self) -> u64 {
        u64::from(self.total) + self.parity.as_ref().map_or(0, |parity| parity.bytes())
    }
}

/// A message, as it was carried.
struct Whole {
    bytes: Bytes,
    packed: bool,
}

/// Counts of one channel's receiving end since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Messages that became whole.
    pub messages: u64,
    /// Their bytes, as they were carried: compressed ones count with what they took.
    pub bytes: u64,
    /// Messages of which parts were lost and were made from parity.
    pub recovered: u64,
    /// Messages that were passed over: lost, incomplete, or cancelled by the sender. Those of which nothing came are
    /// counted where the order shows that they are missing.
    pub skipped: u64,
    /// Messages that came whole but that the application did not take in time, on an unreliable channel.
    pub dropped: u64,
    /// Bytes that came more than once.
    pub duplicate_bytes: u64,
}

/// The other end breaks the rules: more than it was given room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

pub(crate) struct Receiver {
    pub(crate) options: Options,
    /// Our own wish for `max_receive_time`, which goes before the sender's.
    pub(crate) own_receive_time: Option<Duration>,
    /// The most messages kept for the application on an unreliable channel.
    queue: usize,
    /// The most bytes kept.
    window: u64,
    /// All before this number have ended.
    next: u64,
    held: BTreeMap<u64, Held>,
    held_bytes: u64,
    ready: VecDeque<(u64, Whole)>,
    ready_bytes: u64,
    /// What was last told by CONSUMED, and what is to be told.
    told: u64,
    consumed: u64,
    /// Bytes consumed since the last telling.
    freed: u64,
    /// SKIPPED is to be told.
    pub(crate) skipped: bool,
    unpacker: Unpacker,
    /// The peer has sent something as compressed that is not.
    pub(crate) damaged: bool,
    spares: Spares,
    blocks: Blocks,
    pub(crate) counters: ReceiveCounters,
}

impl Receiver {
    pub(crate) fn new(options: Options, own: Option<&Options>, window: u64) -> Receiver {
        Receiver {
            options,
            own_receive_time: own.and_then(|own| own.max_receive_time),
            queue: own.map_or(Options::default().queue, |own| own.queue) as usize,
            window: window.max(2 * u64::from(options.max_size)),
            next: 0,
            held: BTreeMap::new(),
            held_bytes: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            told: 0,
            consumed: 0,
            freed: 0,
            skipped: false,
            unpacker: Unpacker::new(options.compression, None),
            damaged: false,
            spares: Spares::default(),
            blocks: Blocks::new(window),
            counters: ReceiveCounters::default(),
        }
    }

    /// With what the peer packs its messages.
    pub(crate) fn use_dictionary(&mut self, dictionary: Option<Arc<Dictionary>>) {
        self.unpacker = Unpacker::new(self.options.compression, dictionary);
    }

    /// Bytes of messages, whole or not, that the application has not taken.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes + self.ready_bytes
    }

    /// Bytes of memory kept for messages to come: large ones', no more than what is held leaves of two windows; and blocks
    /// for small ones, at most 1 MiB or a window, of which some messages may still be held.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spares.bytes() + self.blocks.bytes()
    }

    /// The number of the first message that has not ended.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes a part of a message. `true`: the application has something to take that it had not before.
    #[inline]
    pub(crate) fn handle_data(&mut self, now: Time, data: &Data<'_>) -> Result<bool, Overrun> {
        self.handle_part(now, data, false)
    }

    /// Takes a part of a message that is compressed.
    pub(crate) fn handle_packed(&mut self, now: Time, data: &Data<'_>) -> Result<bool, Overrun> {
        if self.options.compression == Compression::None {
            return Err(Overrun);
        }
        self.handle_part(now, data, true)
    }

    #[inline]
    fn handle_part(&mut self, now: Time, data: &Data<'_>, packed: bool) -> Result<bool, Overrun> {
        if data.bytes.len() == data.total as usize {
            if !self.is_wanted(data.message, data.total, data.bytes.len())? {
                return Ok(false);
            }
            let bytes = self.blocks.copy(now, data.bytes).freeze();
            return self.handle_whole(now, data.message, Whole { bytes, packed });
        }
        // One of which parts have come is wanted, and has its room.
        if !matches!(self.held.get(&data.message), Some(Held::Part(_))) {
            if !self.is_wanted(data.message, data.total, data.bytes.len())? {
                return Ok(false);
            }
            self.hold_part(now, data.message, data.total, packed)?;
        }
        match self.gather(data, packed)? {
            Some(whole) => {
                self.spares.keep(now, &whole.bytes);
                self.complete(now, data.message, whole)
            }
            None => Ok(false),
        }
    }

    /// Takes a message that came in one piece and is wanted.
    #[inline]
    fn handle_whole(&mut self, now: Time, message: u64, whole: Whole) -> Result<bool, Overrun> {
        if !self.held.is_empty() && matches!(self.held.get(&message), Some(Held::Part(_))) {
            self.forget(message);
        }
        self.complete(now, message, whole)
    }

    /// Takes whole messages in a row.
    pub(crate) fn handle_row(&mut self, now: Time, row: &Row<'_>) -> Result<bool, Overrun> {
        let mut all = self.blocks.copy(now, row.bytes);
        if row.first == self.next && self.held.is_empty() {
            // Nothing is missing before them, and none of them has come.
            for (message, length) in (row.first..).zip(row.lengths()) {
                if length > self.options.max_size as usize {
                    return Err(Overrun);
                }
                self.ready
                    .push_back((message, Whole { bytes: all.split_to(length).freeze(), packed: false }));
            }
            self.next += u64::from(row.count);
            self.ready_bytes += row.bytes.len() as u64;
            self.counters.messages += u64::from(row.count);
            self.counters.bytes += row.bytes.len() as u64;
            return self.bounded(true);
        }
        let mut readable = false;
        for (message, length) in (row.first..).zip(row.lengths()) {
            let bytes = all.split_to(length).freeze();
            if self.is_wanted(message, length as u32, length)? {
                readable |= self.handle_whole(now, message, Whole { bytes, packed: false })?;
            }
        }
        Ok(readable)
    }

    /// Takes a parity shard.
    pub(crate) fn handle_parity(&mut self, now: Time, parity: &Parity<'_>) -> Result<bool, Overrun> {
        let packed = parity.packed;
        if self.options.reliable || packed && self.options.compression == Compression::None {
            return Err(Overrun);
        }
        if !self.is_wanted(parity.message, parity.total, parity.bytes.len())? {
            return Ok(false);
        }
        self.hold_part(now, parity.message, parity.total, packed)?;
        let room = self.held_bytes() + parity.bytes.len() as u64 <= 2 * self.window;
        let Some(Held::Part(part)) = self.held.get_mut(&parity.message) else { return Ok(false) };
        let shard = parity.bytes.len() as u32;
        if part.parity.is_none() {
            part.parity = Some(Box::new(Gathered::new(part.total, shard, parity.count).ok_or(Overrun)?));
        }
        let Some(gathered) = &mut part.parity else { return Ok(false) };
        if part.total != parity.total || part.packed != packed || !gathered.is_of(shard, parity.count) {
            return Err(Overrun);
        }
        if room && gathered.insert(parity.index, parity.bytes) {
            self.held_bytes += u64::from(shard);
        } else {
            self.counters.duplicate_bytes += u64::from(shard);
        }
        match self.recover(parity.message) {
            Some(whole) => self.complete(now, parity.message, whole),
            None => Ok(false),
        }
    }

    /// Whether a part of `size` bytes of a message of `total` bytes is of use.
    #[inline]
    fn is_wanted(&mut self, message: u64, total: u32, size: usize) -> Result<bool, Overrun> {
        if total > self.options.max_size {
            return Err(Overrun);
        }
        if message < self.next || self.is_over(message) {
            self.counters.duplicate_bytes += size as u64;
            return Ok(false);
        }
        if message - self.next >= 2 * MAX_AHEAD {
            if self.options.reliable {
                return Err(Overrun);
            }
            // After a long outage of an unreliable channel the numbers may have run far ahead.
            self.go_on_to(message);
        }
        Ok(true)
    }

    fn is_over(&self, message: u64) -> bool {
        !self.held.is_empty() && matches!(self.held.get(&message), Some(Held::Gone | Held::Whole { .. }))
    }

    /// Makes room for the parts of a message, if there is none yet.
    fn hold_part(&mut self, now: Time, message: u64, total: u32, packed: bool) -> Result<(), Overrun> {
        if self.held.contains_key(&message) {
            return Ok(());
        }
        if self.held_bytes() + u64::from(total) > 2 * self.window {
            if self.options.reliable {
                return Err(Overrun);
            }
            self.drop_oldest_part();
        }
        self.held_bytes += u64::from(total);
        let (have, bytes) = (Ranges::default(), self.spares.take(total as usize));
        self.held.insert(message, Held::Part(Part { bytes, total, packed, have, parity: None, since: now }));
        // What is kept for messages to come has the room that these leave.
        self.spares.shrink_to((2 * self.window).saturating_sub(self.held_bytes()));
        if !self.options.reliable && self.held.len() > MAX_OPEN {
            self.drop_oldest_part();
        }
        Ok(())
    }

    /// Adds a fragment of a message that is held; the message, if that completes it.
    fn gather(&mut self, data: &Data<'_>, packed: bool) -> Result<Option<Whole>, Overrun> {
        let Some(Held::Part(part)) = self.held.get_mut(&data.message) else { return Ok(None) };
        if part.total != data.total || part.packed != packed || part.have.count() > MAX_PARTS {
            return Err(Overrun);
        }
        let bytes = &mut part.bytes;
        let (start, end) = (data.offset as usize, data.offset as usize + data.bytes.len());
        let new = part.have.insert(start as u32, end as u32);
        self.counters.duplicate_bytes += data.bytes.len() as u64 - u64::from(new);
        if bytes.capacity() < part.total as usize {
            bytes.reserve_exact(part.total as usize);
        }
        if start == bytes.len() {
            bytes.extend_from_slice(data.bytes);
        } else {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data.bytes);
        }
        if !part.have.covers(part.total) {
            return Ok(if part.parity.is_some() { self.recover(data.message) } else { None });
        }
        let bytes = Bytes::from(std::mem::take(bytes));
        self.forget(data.message);
        Ok(Some(Whole { bytes, packed }))
    }

    /// Makes what is missing of a message from its parity, if there is enough of it.
    fn recover(&mut self, message: u64) -> Option<Whole> {
        let Some(Held::Part(part)) = self.held.get_mut(&message) else { return None };
        let parity = part.parity.as_ref()?;
        if !parity.recover(&mut part.bytes, &part.have, part.total) {
            return None;
        }
        let whole = Whole { bytes: Bytes::from(std::mem::take(&mut part.bytes)), packed: part.packed };
        self.counters.recovered += 1;
        self.forget(message);
        Some(whole)
    }

    /// Takes `message` out of what is held.
    fn forget(&mut self, message: u64) {
        match self.held.remove(&message) {
            Some(Held::Part(part)) => self.held_bytes -= part.held_bytes(),
            Some(Held::Whole { whole, .. }) => self.held_bytes -= whole.bytes.len() as u64,
            _ => {}
        }
    }

    fn drop_oldest_part(&mut self) {
        let Some(&first) = self.held.keys().next() else { return };
        self.go_on_to(first + 1);
    }

    fn complete(&mut self, now: Time, message: u64, whole: Whole) -> Result<bool, Overrun> {
        self.counters.messages += 1;
        self.counters.bytes += whole.bytes.len() as u64;
        if message == self.next {
            self.next += 1;
            self.deliver(message, whole);
            if !self.held.is_empty() {
                self.advance();
            }
            return self.bounded(true);
        }
        if !self.options.ordered {
            self.held.insert(message, Held::Gone);
            self.deliver(message, whole);
            if self.held.len() > MAX_OPEN && !self.options.reliable {
                self.drop_oldest_part();
            }
            return self.bounded(true);
        }
        self.held_bytes += whole.bytes.len() as u64;
        self.held.insert(message, Held::Whole { whole, since: now });
        let before = self.ready.len();
        self.handle_timeout(now);
        self.bounded(self.ready.len() > before)
    }

    fn deliver(&mut self, message: u64, whole: Whole) {
        self.ready_bytes += whole.bytes.len() as u64;
        self.ready.push_back((message, whole));
    }

    /// Keeps what waits for the application within its bounds.
    #[inline]
    fn bounded(&mut self, readable: bool) -> Result<bool, Overrun> {
        if self.options.reliable {
            let over = self.held_bytes() > 2 * self.window;
            return if over { Err(Overrun) } else { Ok(readable) };
        }
        while self.ready.len() > self.queue || self.ready.len() > 1 && self.ready_bytes > self.window {
            if let Some((_, whole)) = self.ready.pop_front() {
                self.ready_bytes -= whole.bytes.len() as u64;
                self.counters.dropped += 1;
            }
        }
        Ok(readable)
    }

    /// Delivers what follows without a gap.
    fn advance(&mut self) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() != self.next || matches!(entry.get(), Held::Part(_)) {
                break;
            }
            self.next += 1;
            if let (number, Held::Whole { whole, .. }) = entry.remove_entry() {
                self.held_bytes -= whole.bytes.len() as u64;
                self.deliver(number, whole);
            }
        }
    }

    /// Ends all messages before `message`, whether they came or not.
    fn go_on_to(&mut self, message: u64) {
        let mut ended = 0;
        while let Some(entry) = self.held.first_entry().filter(|entry| *entry.key() < message) {
            let (number, held) = entry.remove_entry();
            match held {
                Held::Part(part) => self.held_bytes -= part.held_bytes(),
                Held::Whole { whole, .. } => {
                    self.held_bytes -= whole.bytes.len() as u64;
                    self.deliver(number, whole);
                    ended += 1;
                }
                Held::Gone => ended += 1,
            }
        }
        self.counters.skipped += (message - self.next).saturating_sub(ended);
        self.next = self.next.max(message);
        self.skipped |= self.options.reliable;
        self.advance();
    }

    /// How long an incomplete message may hold up complete ones; `None` for ever.
    fn patience(&self) -> Option<Duration> {
        let time = self.own_receive_time.or(self.options.max_receive_time);
        time.or((!self.options.reliable).then_some(Duration::ZERO))
    }

    /// When [`Receiver::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Time {
        self.skip_at().min(self.spares.until()).min(self.blocks.until())
    }

    /// When the message that holds up a complete one is skipped.
    fn skip_at(&self) -> Time {
        if self.held.is_empty() || !self.options.ordered {
            return Time::NEVER;
        }
        let Some(patience) = self.patience() else { return Time::NEVER };
        let mut since = Time::NEVER;
        for held in self.held.values() {
            match held {
                Held::Part(part) => since = since.min(part.since),
                Held::Whole { since: first, .. } => return since.min(*first) + patience,
                Held::Gone => {}
            }
        }
        Time::NEVER
    }

    /// Goes on to the next complete message if the one before it has had its time. `true`: there is something to take.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.spares.expire(now);
        self.blocks.expire(now);
        let before = self.ready.len();
        while self.skip_at() <= now {
            let whole =
                self.held.iter().find(|held| matches!(held.1, Held::Whole { .. })).map(|held| *held.0);
            let Some(whole) = whole else { break };
            self.go_on_to(whole);
        }
        self.ready.len() > before
    }

    /// The sender has given `message` up. `true`: there is something to take.
    pub(crate) fn handle_cancel(&mut self, message: u64) -> bool {
        if message < self.next || message - self.next >= 2 * MAX_AHEAD || self.is_over(message) {
            return false;
        }
        self.forget(message);
        self.held.insert(message, Held::Gone);
        self.counters.skipped += 1;
        let before = self.ready.len();
        self.advance();
        if !self.options.reliable && self.held.len() > MAX_OPEN {
            self.drop_oldest_part();
        }
        self.ready.len() > before
    }

    /// Whether the application has something to take.
    pub(crate) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next message for the application.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let (number, Whole { bytes, packed }) = self.ready.pop_front()?;
        self.ready_bytes -= bytes.len() as u64;
        self.freed += bytes.len() as u64;
        if self.options.ordered {
            self.consumed = self.consumed.max(number + 1);
        }
        if self.ready.is_empty() {
            self.consumed = self.next;
        }
        if !packed {
            return Some(bytes);
        }
        // Only now, so that no more than was carried is held.
        let message = self.unpacker.unpack(&bytes, self.options.max_size);
        self.damaged |= message.is_none();
        message
    }

    /// What is to be told by CONSUMED, once it is worth a frame. The window is at least twice a message, so a sender
    /// that has no room for one has more than half a window under way, of which a quarter untold is always told.
    pub(crate) fn consumed(&mut self) -> Option<u64> {
        if self.ready.is_empty() {
            self.consumed = self.next;
        }
        if !self.options.reliable || self.consumed == self.told {
            return None;
        }
        let due = self.freed >= self.window / 4 || self.consumed - self.told >= MAX_AHEAD / 4;
        due.then_some(self.consumed)
    }

    /// CONSUMED was sent.
    pub(crate) fn told(&mut self, next: u64) {
        self.told = next;
        self.freed = 0;
    }

    /// CONSUMED was lost: it is to be told again.
    pub(crate) fn untold(&mut self) {
        self.told = 0;
        self.freed = self.window;
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
