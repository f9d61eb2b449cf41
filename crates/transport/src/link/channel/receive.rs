//! One channel's receiving end: fragments become messages, each once, in order where that is wished.
//!
//! `intake` takes frames apart; here is what becomes of messages, and in which order.

mod intake;
mod tally;

use crate::counter::count;
use bytes::Bytes;
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::assembly::Assembly;
use super::compression::{Dictionary, Unpacker};
use super::fec::Gathered;
use super::send::MAX_AHEAD;
use super::spares::{Blocks, Spares};
use super::{LEAST_SHARE, MESSAGE_COST, stamp, window_for};
use crate::link::ranges::Ranges;
use crate::link::steps::step;
use crate::link::{Compression, Options};
use tally::Tally;

/// On an unreliable channel: how many messages may be incomplete or have ended out of order.
const MAX_OPEN: u64 = 1024;
/// What a range of messages costs that have ended out of order.
const GONE_COST: u64 = 64;
/// A queue for more messages than this gives its memory back when it is empty.
const KEPT_QUEUE: usize = 1024;

/// A message of which parts have come.
struct Part {
    assembly: Assembly,
    packed: bool,
    parity: Option<Box<Gathered>>,
    since: Time,
    /// What it is counted with in [`Receiver::held`].
    counted: u64,
}

/// A message, as it was carried.
struct Whole {
    bytes: Bytes,
    packed: bool,
    /// When the first of its parts came, and the last that was needed.
    first: Time,
    last: Time,
}

/// A message that came, and what is known of its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number on the channel, from 0 in the order in which messages of the session began to be sent. One that was
    /// replaced or given up while it waited has none.
    pub number: u64,
    /// The message.
    pub bytes: Bytes,
    /// When the first of its parts came.
    pub first: Time,
    /// When it was whole.
    pub last: Time,
    /// Messages of the channel that were passed over since the one that was taken before: lost, incomplete, or given up by
    /// the sender.
    pub skipped: u64,
    /// It came on an earlier session: its number counts that session's messages.
    pub stale: bool,
    /// The time that the sender gave it, by the sender's wall clock; `None` where the peer's channel is not
    /// [`Options::stamped`], or the sender gave none.
    pub stamp: Option<Utc>,
}

impl Whole {
    fn cost(&self) -> u64 {
        MESSAGE_COST.saturating_add(self.bytes.len() as u64)
    }
}

/// How messages of a channel are unpacked that outlive it.
#[derive(Clone)]
pub(crate) struct Unpacking {
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
    max_size: u32,
}

/// A message that came whole before its session was lost.
pub(crate) struct Leftover {
    number: u64,
    whole: Whole,
    unpacking: Option<Arc<Unpacking>>,
    stamped: bool,
}

impl Leftover {
    /// What it is counted with.
    pub(crate) fn cost(&self) -> u64 {
        self.whole.cost()
    }

    /// The message; `None` if it does not decompress, or its stamp is cut off.
    pub(crate) fn unpack(self) -> Option<Received> {
        let Whole { mut bytes, first, last, .. } = self.whole;
        if let Some(how) = self.unpacking {
            bytes = Unpacker::new(how.compression, how.dictionary.clone()).unpack(&bytes, how.max_size)?;
        }
        let (stamp, bytes) = if self.stamped { stamp::split(&bytes)? } else { (None, bytes) };
        Some(Received { number: self.number, bytes, first, last, skipped: 0, stale: true, stamp })
    }
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

/// All that it keeps is counted as it comes, so that a peer takes no more memory than it has sent bytes for, and is ordered
/// so that no packet takes longer for what came before it.
pub(crate) struct Receiver {
    pub(crate) options: Options,
    /// Our own wish for `max_receive_time`, which goes before the sender's.
    pub(crate) own_receive_time: Option<Duration>,
    /// The most messages kept for the application on an unreliable channel.
    queue: usize,
    /// The most bytes kept, each message's cost among them.
    window: u64,
    /// CONSUMED is told once so many bytes are free again.
    tell_bytes: u64,
    /// All before this number have ended.
    next: u64,
    /// Messages from `next` on of which parts have come,
    parts: BTreeMap<u64, Part>,
    /// those that wait for the ones before them, and since when,
    waiting: BTreeMap<u64, (Whole, Time)>,
    /// and those that were delivered, cancelled or skipped; how many they are.
    gone: Ranges<u64>,
    gone_count: Tally,
    /// What `parts` and `waiting` take.
    held: Tally,
    ready: VecDeque<(u64, Whole)>,
    ready_bytes: Tally,
    /// The number that CONSUMED told last, and the one that it tells next.
    told: u64,
    consumed: u64,
    /// Bytes consumed since the last telling.
    freed: u64,
    /// SKIPPED has to be sent.
    pub(crate) skipped: bool,
    dictionary: Option<Arc<Dictionary>>,
    unpacker: Unpacker,
    /// The peer has sent something as compressed, or as stamped, that is not.
    pub(crate) damaged: bool,
    spares: Spares,
    blocks: Blocks,
    pub(crate) counters: ReceiveCounters,
    /// Of `counters.skipped`, what was told with messages that were taken.
    skipped_told: u64,
    /// The same, told by events.
    passed_over_told: u64,
}

impl Receiver {
    pub(crate) fn new(options: Options, own: Option<&Options>, window: u64) -> Receiver {
        let window = window_for(window, options.max_size);
        Receiver {
            options,
            own_receive_time: own.and_then(|own| own.max_receive_time),
            queue: own.map_or(Options::default().queue, |own| own.queue) as usize,
            window,
            tell_bytes: window / 4,
            next: 0,
            parts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            gone: Ranges::default(),
            gone_count: Tally::default(),
            held: Tally::default(),
            ready: VecDeque::new(),
            ready_bytes: Tally::default(),
            told: 0,
            consumed: 0,
            freed: 0,
            skipped: false,
            dictionary: None,
            unpacker: Unpacker::new(options.compression, None),
            damaged: false,
            spares: Spares::default(),
            blocks: Blocks::new(window),
            counters: ReceiveCounters::default(),
            skipped_told: 0,
            passed_over_told: 0,
        }
    }

    /// With what the peer packs its messages.
    pub(crate) fn use_dictionary(&mut self, dictionary: Option<Arc<Dictionary>>) {
        self.dictionary.clone_from(&dictionary);
        self.unpacker = Unpacker::new(self.options.compression, dictionary);
    }

    /// The channel is the only reliable one, or shares the link's window with others: then each tells of its room the
    /// sooner, so that what is not told yet is never more than a quarter of what a channel has whatever the others have.
    pub(crate) fn share_window(&mut self, alone: bool, granted: u64) {
        self.tell_bytes = if alone { self.window / 4 } else { granted / LEAST_SHARE / 4 };
    }

    /// What is held of messages, whole or not, that the application has not taken: the bytes that came, and what each
    /// message and each part takes beside them.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.get().saturating_add(self.ready_bytes.get())
    }

    /// The most that may be held, bytes: two windows.
    #[inline]
    fn room(&self) -> u64 {
        self.window.saturating_mul(2)
    }

    /// Bytes of memory kept for messages to come: large ones', no more than what is held leaves of two windows; and blocks
    /// for small ones, at most 1 MiB or a window, of which some messages may still be held.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spares.bytes().saturating_add(self.blocks.bytes())
    }

    /// What the channel may take of its link's budget: [`Receiver::held_bytes`], what is known of messages that have ended
    /// out of order, and [`Receiver::spare_bytes`], in which a large message that is held may be counted twice.
    #[inline]
    pub(crate) fn memory(&self) -> u64 {
        let gone = GONE_COST.saturating_mul(self.gone.count() as u64);
        let kept = self.spares.kept_bytes().saturating_add(self.blocks.bytes());
        self.held_bytes().saturating_add(gone).saturating_add(kept)
    }

    /// Keeps nothing for messages to come.
    pub(crate) fn forget_spares(&mut self) {
        self.spares = Spares::default();
        self.blocks = Blocks::new(self.window);
    }

    /// Lets go of one message of an unreliable channel: the oldest that is incomplete or waits, else of those that the
    /// application has not taken. `false`: there is none.
    pub(crate) fn drop_one(&mut self) -> bool {
        if !self.parts.is_empty() || !self.waiting.is_empty() {
            self.drop_oldest();
            return true;
        }
        self.drop_ready()
    }

    /// Nothing more comes: what is incomplete goes, and what waits for something incomplete.
    pub(crate) fn stop(&mut self) {
        self.parts.clear();
        self.waiting.clear();
        self.gone.clear();
        (self.held, self.gone_count) = (Tally::default(), Tally::default());
        self.forget_spares();
    }

    /// Ends the channel: what is left for the application, as it was carried.
    pub(crate) fn into_leftover(self) -> impl Iterator<Item = Leftover> {
        let unpacking = Arc::new(Unpacking {
            compression: self.options.compression,
            dictionary: self.dictionary,
            max_size: self.options.max_size,
        });
        let stamped = self.options.stamped;
        self.ready.into_iter().map(move |(number, whole)| Leftover {
            stamped,
            number,
            unpacking: whole.packed.then(|| Arc::clone(&unpacking)),
            whole,
        })
    }

    /// The number of the first message that has not ended.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The first message that may not come yet. A sender that is reliable begins no more than are told as consumed.
    #[inline]
    fn limit(&self) -> u64 {
        let (from, ahead) =
            if self.options.reliable { (self.consumed, MAX_AHEAD) } else { (self.next, 2 * MAX_AHEAD) };
        from.saturating_add(ahead)
    }

    /// Whether nothing has come that is not before `next`.
    #[inline]
    fn is_even(&self) -> bool {
        self.parts.is_empty() && self.waiting.is_empty() && self.gone.is_empty()
    }

    #[inline]
    fn is_over(&self, message: u64) -> bool {
        !self.waiting.is_empty() && self.waiting.contains_key(&message) || self.gone.contains(message)
    }

    /// Takes what has come of `message` out of what is held.
    fn forget(&mut self, message: u64) -> Option<Part> {
        let part = self.parts.remove(&message)?;
        self.held.take(part.counted);
        Some(part)
    }

    /// Keeps what is open of an unreliable channel within its bound.
    fn bound_open(&mut self) {
        let is_over = |receiver: &Receiver| {
            receiver.gone_count.get().saturating_add(receiver.parts.len() as u64) > MAX_OPEN
        };
        while !self.options.reliable && is_over(self) {
            self.drop_oldest();
        }
    }

    /// Goes on behind the first message that has not ended in its order.
    fn drop_oldest(&mut self) {
        let part = self.parts.first_key_value().map(|part| *part.0);
        let waiting = self.waiting.first_key_value().map(|waiting| *waiting.0);
        let gone = self.gone.first().map(|gone| gone.0);
        if let Some(oldest) = part.into_iter().chain(waiting).chain(gone).min() {
            self.go_on_to(oldest.saturating_add(1));
        }
    }

    /// `message` has ended out of its order.
    fn insert_gone(&mut self, message: u64) {
        self.gone_count.add(self.gone.insert(message, message.saturating_add(1)));
    }

    fn complete(&mut self, now: Time, message: u64, whole: Whole) -> Result<bool, Overrun> {
        if message == self.next {
            self.deliver_next(message, whole);
            self.advance();
            return self.bounded(true);
        }
        self.count(&whole);
        if !self.options.ordered {
            self.insert_gone(message);
            self.deliver(message, whole);
            self.bound_open();
            return self.bounded(true);
        }
        self.held.add(whole.cost());
        self.waiting.insert(message, (whole, now));
        let before = self.ready.len();
        self.handle_timeout(now);
        let readable = self.ready.len() > before;
        self.bounded(readable)
    }

    /// Counts a message that became whole.
    #[inline]
    fn count(&mut self, whole: &Whole) {
        count(&mut self.counters.messages, 1);
        count(&mut self.counters.bytes, whole.bytes.len() as u64);
    }

    /// Delivers the message for which the order has waited. Whatever refuses what comes behind it, it is counted.
    #[inline]
    fn deliver_next(&mut self, message: u64, whole: Whole) {
        self.count(&whole);
        self.next = self.next.saturating_add(1);
        self.deliver(message, whole);
    }

    fn deliver(&mut self, message: u64, whole: Whole) {
        self.ready_bytes.add(whole.cost());
        self.ready.push_back((message, whole));
    }

    /// Keeps what is held within its bounds.
    #[inline]
    fn bounded(&mut self, readable: bool) -> Result<bool, Overrun> {
        if self.options.reliable {
            let over = self.held_bytes() > self.room();
            return if over { Err(Overrun) } else { Ok(readable) };
        }
        while self.ready.len() > self.queue || self.ready.len() > 1 && self.ready_bytes.get() > self.window {
            self.drop_ready();
        }
        while self.held_bytes() > self.room() && self.drop_one() {}
        Ok(readable)
    }

    /// Lets go of the oldest message that the application has not taken.
    fn drop_ready(&mut self) -> bool {
        let Some((_, whole)) = self.ready.pop_front() else { return false };
        self.ready_bytes.take(whole.cost());
        count(&mut self.counters.dropped, 1);
        true
    }

    /// Delivers what follows without a gap.
    fn advance(&mut self) {
        loop {
            step();
            if let Some(entry) = self.waiting.first_entry()
                && *entry.key() == self.next
            {
                let (number, (whole, _)) = entry.remove_entry();
                self.next = self.next.saturating_add(1);
                self.held.take(whole.cost());
                self.deliver(number, whole);
            } else if let Some((low, high)) = self.gone.first()
                && low <= self.next
            {
                self.gone.remove(low, high);
                self.gone_count.take(high.saturating_sub(low));
                self.next = self.next.max(high);
            } else {
                return;
            }
        }
    }

    /// Ends all messages before `message`, whether they came or not.
    fn go_on_to(&mut self, message: u64) {
        let mut ended = 0u64;
        while let Some(entry) = self.parts.first_entry().filter(|entry| *entry.key() < message) {
            step();
            self.held.take(entry.remove().counted);
        }
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() < message) {
            step();
            let (number, (whole, _)) = entry.remove_entry();
            self.held.take(whole.cost());
            self.deliver(number, whole);
            count(&mut ended, 1);
        }
        while let Some((low, high)) = self.gone.first().filter(|gone| gone.0 < message) {
            step();
            let high = high.min(message);
            self.gone.remove(low, high);
            self.gone_count.take(high.saturating_sub(low));
            count(&mut ended, high.saturating_sub(low));
        }
        count(&mut self.counters.skipped, message.saturating_sub(self.next).saturating_sub(ended));
        self.next = self.next.max(message);
        self.skipped |= self.options.reliable;
        self.advance();
    }

    /// How long an incomplete message may hold up complete ones; `None` for ever.
    fn timeout(&self) -> Option<Duration> {
        let time = self.own_receive_time.or(self.options.max_receive_time);
        time.or((!self.options.reliable).then_some(Duration::ZERO))
    }

    /// When [`Receiver::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Time {
        self.skip_at().min(self.spares.until()).min(self.blocks.until())
    }

    /// When the messages that hold up a complete one are skipped: it has waited for long enough, or the first of them of
    /// which parts came has.
    fn skip_at(&self) -> Time {
        if !self.options.ordered {
            return Time::NEVER;
        }
        let Some((message, (_, since))) = self.waiting.first_key_value() else { return Time::NEVER };
        let Some(timeout) = self.timeout() else { return Time::NEVER };
        let before = self.parts.first_key_value().filter(|part| part.0 < message);
        before.map_or(*since, |part| part.1.since.min(*since)) + timeout
    }

    /// Goes on to the next complete message if the one before it has had its time. `true`: there is something to take.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        self.spares.expire(now);
        self.blocks.expire(now);
        let before = self.ready.len();
        while self.skip_at() <= now
            && let Some((&whole, _)) = self.waiting.first_key_value()
        {
            self.go_on_to(whole);
        }
        self.ready.len() > before
    }

    /// The sender has given `message` up. `true`: there is something to take.
    pub(crate) fn handle_cancel(&mut self, message: u64) -> bool {
        if message < self.next || message >= self.limit() || self.is_over(message) {
            return false;
        }
        self.forget(message);
        self.insert_gone(message);
        count(&mut self.counters.skipped, 1);
        let before = self.ready.len();
        self.advance();
        self.bound_open();
        self.ready.len() > before
    }

    /// How many messages were passed over since this was last asked.
    pub(crate) fn take_passed_over(&mut self) -> u64 {
        let told = std::mem::replace(&mut self.passed_over_told, self.counters.skipped);
        self.counters.skipped.saturating_sub(told)
    }

    /// Whether the application has something to take.
    pub(crate) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next message for the application.
    pub(crate) fn pop(&mut self) -> Option<Received> {
        let (number, whole) = self.ready.pop_front()?;
        self.ready_bytes.take(whole.cost());
        count(&mut self.freed, whole.cost());
        if self.options.ordered {
            self.consumed = self.consumed.max(number.saturating_add(1));
        }
        if self.ready.is_empty() {
            self.consumed = self.next;
            if self.ready.capacity() > KEPT_QUEUE {
                self.ready = VecDeque::new();
            }
        }
        let Whole { mut bytes, packed, first, last } = whole;
        if packed {
            // Only now, so that no more than was carried is held.
            let unpacked = self.unpacker.unpack(&bytes, self.options.max_size);
            self.damaged |= unpacked.is_none();
            bytes = unpacked?;
        }
        let mut stamp = None;
        if self.options.stamped {
            let read = stamp::split(&bytes);
            self.damaged |= read.is_none();
            (stamp, bytes) = read?;
        }
        let told = std::mem::replace(&mut self.skipped_told, self.counters.skipped);
        let skipped = self.counters.skipped.saturating_sub(told);
        Some(Received { number, bytes, first, last, skipped, stale: false, stamp })
    }

    /// What CONSUMED tells next, once it is worth a frame. The window is at least twice the largest message, so a
    /// sender that has no room for one has more than half a window in flight, of which a quarter untold is always told;
    /// the same holds of the window that channels share.
    pub(crate) fn consumed(&mut self) -> Option<u64> {
        if self.ready.is_empty() {
            self.consumed = self.next;
        }
        if !self.options.reliable || self.consumed == self.told {
            return None;
        }
        let due = self.freed >= self.tell_bytes || self.consumed.saturating_sub(self.told) >= MAX_AHEAD / 4;
        due.then_some(self.consumed)
    }

    /// CONSUMED was sent.
    pub(crate) fn told(&mut self, next: u64) {
        self.told = next;
        self.freed = 0;
    }

    /// CONSUMED was lost: it has to be sent again.
    pub(crate) fn untold(&mut self) {
        self.told = 0;
        self.freed = self.window;
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
