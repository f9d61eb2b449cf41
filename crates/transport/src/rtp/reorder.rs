//! Puts packets back into the order in which they were sent.
//!
//! ```text
//!            next                          what is held: bounded in time and number
//!              │                           │
//!  ──given out─┼── gap ──┬───┬── gap ──┬───┤
//! ```
//! A packet that comes in its turn is given out at once, without a copy. One that comes early is held until those
//! before it have come, or until the first that waits has waited for the window; then the gap is given up.

use super::source::{Origin, SourceLock, Standing};
use super::{Header, distance};
use crate::counter::count;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a [`Reorder`] waits for missing packets, and how many it holds meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How long a packet is held at most for those that should come before it.
    pub window: Duration,
    /// Packets that are held at most. A datagram has up to 64 KiB; usual ones take 1.3 kB.
    pub packets: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { window: Duration::from_millis(50), packets: 512 }
    }
}

/// What has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets, whatever became of them.
    pub received: u64,
    /// Packets that were not there when their turn was over.
    pub lost: u64,
    /// Packets that came after a later one, and in time all the same.
    pub reordered: u64,
    /// Packets that came when their turn was over; they stay among the lost.
    pub late: u64,
    /// Packets that came again.
    pub duplicate: u64,
    /// Packets of other sources than the one that is listened to ([`SourceLock`]), and packets out of all order.
    pub stray: u64,
    /// Times that the sender began anew.
    pub restarts: u64,
}

/// A packet that is so far ahead cannot be the sender's next ones (RFC 3550 A.1, MAX_DROPOUT).
const AHEAD_MAX: i64 = 3000;
/// How far back it is known what has come; what lies before is no late packet but another count.
const RECENT: u64 = 512;
/// The lowest of them.
const BEHIND_MAX: i64 = -512;

/// Gives out one sender's packets in order, each once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reorder {
    settings: Settings,
    #[serde(default)]
    lock: SourceLock,
    session: Option<Session>,
    /// A packet that does not belong to the session. A second one that follows it begins another.
    candidate: Option<(Header, Vec<u8>)>,
    counters: Counters,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session {
    ssrc: u32,
    /// The number that is given out next, unwrapped.
    next: u64,
    /// What came early: when it came, and its payload.
    held: BTreeMap<u64, (Time, Vec<u8>)>,
    /// When the first gap is given up.
    deadline: Time,
    /// Which of the numbers before `next` were given out, by the number modulo [`RECENT`].
    recent: [u64; (RECENT / 64) as usize],
}

impl Session {
    fn new(header: &Header) -> Session {
        // One turn ahead, so that looking back never ends below zero.
        let next = 1 << 16 | u64::from(header.sequence);
        Session {
            ssrc: header.ssrc,
            next,
            held: BTreeMap::new(),
            deadline: Time::NEVER,
            recent: [0; (RECENT / 64) as usize],
        }
    }

    /// How far from its turn a packet is; `None` where it is not of this session.
    fn distance(&self, header: &Header) -> Option<i64> {
        let ahead = distance(self.next, u64::from(header.sequence), 16);
        (header.ssrc == self.ssrc && (BEHIND_MAX..=AHEAD_MAX).contains(&ahead)).then_some(ahead)
    }

    fn came(&self, number: u64) -> bool {
        self.recent[(number % RECENT / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// The turn of `next` is over.
    fn advance(&mut self, came: bool) {
        let (word, bit) = ((self.next % RECENT / 64) as usize, 1 << (self.next % 64));
        if came {
            self.recent[word] |= bit;
        } else {
            self.recent[word] &= !bit;
        }
        self.next = self.next.saturating_add(1);
    }

    /// Gives out what is held and next in the order.
    fn drain(&mut self, window: Duration, out: &mut dyn FnMut(&[u8])) {
        while let Some((_, payload)) = self.held.remove(&self.next) {
            out(&payload);
            self.advance(true);
        }
        let first = self.held.values().map(|(came, _)| *came).min();
        self.deadline = first.map_or(Time::NEVER, |first| first + window);
    }

    /// Gives the first gap up. Returns how many packets are lost with it.
    fn skip(&mut self, window: Duration, out: &mut dyn FnMut(&[u8])) -> u64 {
        let before = self.next;
        let end = self.held.first_key_value().map_or(before, |(number, _)| *number);
        while self.next < end {
            self.advance(false);
        }
        self.drain(window, out);
        end.saturating_sub(before)
    }
}

impl Reorder {
    /// Before the first packet.
    pub fn new(settings: Settings) -> Reorder {
        Reorder {
            settings,
            lock: SourceLock::new(),
            session: None,
            candidate: None,
            counters: Counters::default(),
        }
    }

    /// With a lock that knows which senders are allowed.
    #[must_use]
    pub fn with_lock(self, lock: SourceLock) -> Reorder {
        Reorder { lock, ..self }
    }

    /// The same for one that has taken no packet: packets of others than these addresses are refused; empty: of none.
    pub fn allow(&mut self, sources: Vec<IpAddr>) {
        self.lock = SourceLock::new().with_allowed(0, sources);
    }

    /// The SSRC that is listened to, and its address on the first path.
    pub fn source(&self) -> Option<(u32, Option<SocketAddr>)> {
        Some((self.lock.ssrc()?, self.lock.address(0)))
    }

    /// Whether a datagram from there may be of the source that is listened to; of any, while there is none.
    pub fn listens_to(&self, from: Origin) -> bool {
        self.lock.ssrc().is_none() || self.lock.is_at(from)
    }

    /// Whether packets from there may be taken at all, by the addresses that are [allowed](Reorder::allow).
    pub fn allows(&self, from: Origin) -> bool {
        self.lock.allows(from)
    }

    /// Applies new settings. A gap that is being waited for keeps its time.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// What has come so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that are held now.
    pub fn held(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.held.len())
    }

    /// Takes a packet and calls `out` with each payload that is next in the order: nearly always this packet's own, as
    /// it is. An empty payload keeps its packet's place in the order, and never makes a source the one that is listened
    /// to.
    ///
    /// Packets of other sources are dropped while the first one sends ([`SourceLock`]). Once that is silent, another SSRC, or a
    /// number far from the expected one, begins a new session if the very next packet follows it (both are then given out);
    /// alone it is dropped.
    ///
    /// Returns whether the packet is of the source that is listened to; one that came late or twice is, too. Packets that are
    /// refused say nothing of that source.
    pub fn push(
        &mut self,
        header: &Header,
        payload: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(&[u8]),
    ) -> bool {
        count(&mut self.counters.received, 1);
        let standing = self.lock.weigh(from, header.ssrc, now);
        let is_first = self.lock.ssrc().is_none() || standing == Standing::Successor;
        if standing == Standing::Stranger || (is_first && payload.is_empty()) {
            count(&mut self.counters.stray, 1);
            return false;
        }
        let session = self.session.get_or_insert_with(|| Session::new(header));
        let Some(distance) = session.distance(header) else {
            // A second count beside one that goes on is of no use, whichever SSRC it bears.
            if self.lock.may_renumber(now) {
                return self.consider(header, payload, from, now, out);
            }
            count(&mut self.counters.stray, 1);
            return false;
        };
        self.lock.renew(from, header.ssrc, now);
        count(&mut self.counters.stray, self.candidate.take().is_some().into());
        self.take(distance, payload, now, out);
        true
    }

    fn take(&mut self, distance: i64, payload: &[u8], now: Time, out: &mut dyn FnMut(&[u8])) {
        let (window, counters) = (self.settings.window, &mut self.counters);
        let Some(session) = &mut self.session else { return };
        if distance == 0 {
            out(payload);
            session.advance(true);
            if !session.held.is_empty() {
                count(&mut counters.reordered, 1);
                session.drain(window, out);
            }
        } else if distance < 0 {
            let again = session.came(session.next.saturating_sub(distance.unsigned_abs()));
            count(&mut counters.duplicate, again.into());
            count(&mut counters.late, (!again).into());
        } else {
            let number = session.next.saturating_add(distance.unsigned_abs());
            if session.held.contains_key(&number) {
                count(&mut counters.duplicate, 1);
                return;
            }
            let is_behind = session.held.last_key_value().is_some_and(|(last, _)| *last > number);
            count(&mut counters.reordered, is_behind.into());
            session.deadline = session.deadline.min(now + window);
            session.held.insert(number, (now, payload.to_vec()));
            while session.held.len() > self.settings.packets {
                count(&mut counters.lost, session.skip(window, out));
            }
            self.handle_timeout(now, out);
        }
    }

    /// A packet of no session that is known. Returns whether it begins one.
    fn consider(
        &mut self,
        header: &Header,
        payload: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let Some((first, first_payload)) = self.candidate.replace((*header, payload.to_vec())) else {
            return false;
        };
        if (first.ssrc, first.sequence.wrapping_add(1)) != (header.ssrc, header.sequence) {
            count(&mut self.counters.stray, 1);
            return false;
        }
        self.give_out(out);
        self.lock.renew(from, header.ssrc, now);
        self.candidate = None;
        count(&mut self.counters.restarts, 1);
        let mut session = Session::new(&first);
        out(&first_payload);
        out(payload);
        session.advance(true);
        session.advance(true);
        self.session = Some(session);
        true
    }

    /// When [`Reorder::handle_timeout`] gives up the oldest gap; `None` while nothing is held. Changes with
    /// [`Reorder::push`], [`Reorder::handle_timeout`] and [`Reorder::flush`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.session.as_ref().map(|session| session.deadline).filter(|due| *due != Time::NEVER)
    }

    /// Gives up the gaps that have been waited for long enough.
    pub fn handle_timeout(&mut self, now: Time, out: &mut dyn FnMut(&[u8])) {
        let due = |session: &&mut Session| session.deadline <= now && !session.held.is_empty();
        while let Some(session) = self.session.as_mut().filter(due) {
            count(&mut self.counters.lost, session.skip(self.settings.window, out));
        }
    }

    /// Gives out all that is held, and forgets the sender: the next packet, of any sender, begins a session. The
    /// counters stay.
    pub fn flush(&mut self, out: &mut dyn FnMut(&[u8])) {
        self.lock.release();
        self.give_out(out);
    }

    fn give_out(&mut self, out: &mut dyn FnMut(&[u8])) {
        let Some(mut session) = self.session.take() else { return };
        while !session.held.is_empty() {
            count(&mut self.counters.lost, session.skip(self.settings.window, out));
        }
    }
}

#[cfg(test)]
#[path = "reorder_tests.rs"]
mod tests;
