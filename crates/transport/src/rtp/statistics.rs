//! What a receiver knows of one sender's packets (RFC 3550 §6.4.1, appendices A.1, A.3, A.8): how many came, how many are
//! missing, in which order, and how evenly.
//!
//! ```text
//!        base                                     highest
//!         │            the newest 4096 numbers       │
//! ────────┼────────────┬─────────────────────────────┤
//!         │ settled    │ a bit each: is it missing?  │ ► a gap sets bits, a late packet clears its own
//! ```
//! Headers and arrival times come in, counters go out. A packet in its turn costs a few nanoseconds: one comparison, and a
//! word of the window every 64 packets. Nothing is allocated.

use super::{Header, distance};
use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

/// Words of the window; each remembers 64 numbers.
const WORDS: u64 = 64;
const WORDS_KEPT: usize = 64;
/// How far back it is known what is missing. What lies before is no late packet but another count.
const WINDOW: i64 = 64 * 64;
/// How far back a number is looked for: the oldest word of the window may be begun only.
const BEHIND_MAX: i64 = 64 - WINDOW;
/// How far a number may jump ahead and still be the sender's next one (RFC 3550 A.1, MAX_DROPOUT).
const DROPOUT_MAX: u32 = 3000;

/// What has come. Numbers are packets unless they say otherwise, and run over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the sender has sent as far as the numbers tell: from the first number to the highest.
    pub expected: u64,
    /// Different packets of these that came.
    pub received: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets out of all order, or of another sender, that no second one followed.
    pub strays: u64,
    /// Times that the sender began anew: another SSRC, or numbers from elsewhere.
    pub restarts: u64,
    /// The most packets in a row that are missing.
    pub longest_loss: u64,
}

impl Counters {
    /// Packets that are missing. One that comes late, within the newest 4096 numbers, is no longer among them.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// What has come since `earlier`, which the same [`Statistics`] gave: an interval of a report (RFC 3550 A.3).
    /// [`Counters::longest_loss`] stays that of the whole time.
    #[must_use]
    pub const fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            expected: self.expected.saturating_sub(earlier.expected),
            received: self.received.saturating_sub(earlier.received),
            duplicates: self.duplicates.saturating_sub(earlier.duplicates),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            strays: self.strays.saturating_sub(earlier.strays),
            restarts: self.restarts.saturating_sub(earlier.restarts),
            longest_loss: self.longest_loss,
        }
    }
}

/// What a packet is to those before it. `number` is its sequence number over all wraps; it grows by one a packet and says
/// nothing of how many there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first one, or the next one.
    Next {
        /// Its number.
        number: u64,
    },
    /// Packets before it are missing.
    Gap {
        /// Its number.
        number: u64,
        /// How many are missing.
        missing: u64,
    },
    /// It was missing, and comes after a later one.
    Late {
        /// Its number.
        number: u64,
    },
    /// It came before.
    Duplicate {
        /// Its number.
        number: u64,
    },
    /// The sender has begun anew: with this packet and the one before it, which was a stray.
    Restart {
        /// Its number.
        number: u64,
    },
    /// It has no place in the count. If the next packet follows it, they are a restart.
    Stray,
}

/// Receiver statistics of one flow.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::rtp::{Header, statistics::Statistics};
///
/// let mut statistics = Statistics::new(90_000);
/// for (sequence, millis) in [(65_534, 0), (65_535, 10), (1, 30), (0, 31), (4, 40)] {
///     let header = Header { marker: false, payload_type: 96, sequence, timestamp: 900 * millis as u32 / 10, ssrc: 1 };
///     statistics.push(&header, Time::from_millis(millis));
/// }
/// let counters = statistics.counters();
/// assert_eq!((counters.expected, counters.received, counters.lost()), (7, 5, 2));
/// assert_eq!((counters.reordered, counters.longest_loss), (1, 2));
/// ```
#[derive(Clone, Debug)]
pub struct Statistics {
    nanos_per_tick: f64,
    dropout_max: i64,
    session: Option<Session>,
    /// The number that would follow a stray, and its SSRC.
    candidate: Option<(u32, u32)>,
    /// Of the sessions before, and what belongs to none.
    before: Counters,
    jitter_nanos: f64,
}

#[derive(Clone, Debug)]
struct Session {
    ssrc: u32,
    base: u64,
    highest: u64,
    received: u64,
    duplicates: u64,
    reordered: u64,
    /// Which of the newest numbers are missing, by the number modulo [`WINDOW`].
    missing: [u64; WORDS_KEPT],
    /// The longest loss that has left the window, and how long the one is that is just leaving it.
    longest: u64,
    run: u64,
    last_arrival: Time,
    last_timestamp: u32,
}

impl Session {
    fn new(ssrc: u32, number: u32) -> Session {
        // One turn of 32 bits ahead, so that looking back never ends below zero.
        let first = 1 << 32 | u64::from(number);
        Session {
            ssrc,
            base: first,
            highest: first,
            received: 1,
            duplicates: 0,
            reordered: 0,
            missing: [0; WORDS_KEPT],
            longest: 0,
            run: 0,
            last_arrival: Time::ZERO,
            last_timestamp: 0,
        }
    }

    const fn place(number: u64) -> (usize, u64) {
        (Session::word(number / 64), 1 << (number % 64))
    }

    /// Where the bits of a word of numbers stand: its low bits.
    const fn word(word: u64) -> usize {
        (word & (WORDS - 1)) as usize
    }

    /// The numbers from `first` to before `end`, which are within the window, are missing.
    fn miss(&mut self, first: u64, end: u64) {
        for number in first..end {
            let (word, bit) = Session::place(number);
            self.missing[word] |= bit;
        }
    }

    /// Makes `number` the highest. Those between are missing.
    fn advance(&mut self, number: u64) {
        let (old, new) = (self.highest / 64, number / 64);
        // Of the word that is begun before any leaves: it may be among those.
        let behind = old.saturating_add(1);
        self.miss(self.highest.saturating_add(1), number.min(behind.saturating_mul(64)));
        for word in behind..=new.min(old.saturating_add(WORDS)) {
            let leaves = std::mem::take(&mut self.missing[Session::word(word)]);
            settle(leaves, &mut self.run, &mut self.longest);
        }
        // A gap that is wider than the window: words that were never in it, all missing.
        count(&mut self.run, new.saturating_sub(old).saturating_sub(WORDS).saturating_mul(64));
        let oldest = new.saturating_add(1).saturating_sub(WORDS);
        self.miss(behind.max(oldest).saturating_mul(64), number);
        self.highest = number;
        count(&mut self.received, 1);
    }

    /// A number that is not above the highest, and within the window. Returns whether it was missing.
    fn look_back(&mut self, number: u64) -> bool {
        if number < self.base {
            self.miss(number.saturating_add(1), self.base);
            self.base = number;
        } else {
            let (word, bit) = Session::place(number);
            if self.missing[word] & bit == 0 {
                count(&mut self.duplicates, 1);
                return false;
            }
            self.missing[word] &= !bit;
        }
        count(&mut self.received, 1);
        count(&mut self.reordered, 1);
        true
    }

    /// The longest loss, of what is settled and of what is in the window.
    fn longest_loss(&self) -> u64 {
        let (mut run, mut longest) = (self.run, self.longest);
        let newest = self.highest / 64;
        for word in newest.saturating_sub(WORDS - 1)..=newest {
            settle(self.missing[Session::word(word)], &mut run, &mut longest);
        }
        longest.max(run)
    }

    fn counters(&self) -> Counters {
        Counters {
            expected: self.highest.saturating_sub(self.base).saturating_add(1),
            received: self.received,
            duplicates: self.duplicates,
            reordered: self.reordered,
            strays: 0,
            restarts: 0,
            longest_loss: self.longest_loss(),
        }
    }
}

/// Goes on with a run of missing packets over a word of them.
fn settle(missing: u64, run: &mut u64, longest: &mut u64) {
    if missing == 0 {
        *longest = (*longest).max(std::mem::take(run));
        return;
    }
    let (mut rest, mut left) = (missing, 64u32);
    while left > 0 {
        let came = rest.trailing_zeros().min(left);
        if came > 0 {
            *longest = (*longest).max(std::mem::take(run));
        }
        rest = rest.checked_shr(came).unwrap_or(0);
        left = left.saturating_sub(came);
        let gone = rest.trailing_ones().min(left);
        count(run, gone.into());
        rest = rest.checked_shr(gone).unwrap_or(0);
        left = left.saturating_sub(gone);
    }
}

impl Statistics {
    /// Before the first packet of a flow with time stamps that count `clock_rate_hz` a second.
    pub fn new(clock_rate_hz: u32) -> Statistics {
        Statistics {
            nanos_per_tick: 1e9 / f64::from(clock_rate_hz.max(1)),
            dropout_max: i64::from(DROPOUT_MAX),
            session: None,
            candidate: None,
            before: Counters::default(),
            jitter_nanos: 0.0,
        }
    }

    /// How far a number may jump ahead and still be a loss and no restart; 3000 by default (RFC 3550 A.1). A flow of 500,000
    /// packets a second passes that in 6 ms. Of 16-bit numbers, no more than 32,767 can be told.
    #[must_use]
    pub fn with_dropout_max(mut self, packets: u32) -> Statistics {
        self.dropout_max = i64::from(packets.min(0x7FFF_FFFF));
        self
    }

    /// Takes a packet that arrived at `now`.
    pub fn push(&mut self, header: &Header, now: Time) -> Arrival {
        let number = u32::from(header.sequence);
        self.count(header, number, now, |highest| distance(highest, u64::from(number), 16))
    }

    /// Takes a packet that has the `high` 16 bits of its number in its payload header (RFC 4175 §4.2, RFC 8331 §2.1).
    /// Of a sender that leaves them at zero the low ones are believed.
    pub fn push_extended(&mut self, header: &Header, high: u16, now: Time) -> Arrival {
        let number = u32::from(high) << 16 | u32::from(header.sequence);
        let dropout_max = self.dropout_max;
        self.count(header, number, now, |highest| {
            let wide = distance(highest, u64::from(number), 32);
            if (BEHIND_MAX..=dropout_max).contains(&wide) {
                wide
            } else {
                distance(highest, u64::from(number), 16)
            }
        })
    }

    fn count(&mut self, header: &Header, number: u32, now: Time, distance: impl Fn(u64) -> i64) -> Arrival {
        let Some(session) = &mut self.session else {
            self.begin(header, number, now);
            return self.number(|number| Arrival::Next { number });
        };
        let distance = distance(session.highest);
        if session.ssrc != header.ssrc || !(BEHIND_MAX..=self.dropout_max).contains(&distance) {
            return self.consider(header, number, now);
        }
        let number = session.highest.wrapping_add_signed(distance);
        let arrival = match distance {
            1 => {
                session.advance(number);
                Arrival::Next { number }
            }
            2.. => {
                session.advance(number);
                Arrival::Gap { number, missing: distance.unsigned_abs().saturating_sub(1) }
            }
            _ if session.look_back(number) => Arrival::Late { number },
            _ => Arrival::Duplicate { number },
        };
        let passed = now.as_nanos().wrapping_sub(session.last_arrival.as_nanos()).cast_signed();
        let stamped = header.timestamp.wrapping_sub(session.last_timestamp).cast_signed();
        let change = (passed as f64 - f64::from(stamped) * self.nanos_per_tick).abs();
        self.jitter_nanos += (change - self.jitter_nanos) / 16.0;
        (session.last_arrival, session.last_timestamp) = (now, header.timestamp);
        if self.candidate.take().is_some() {
            count(&mut self.before.strays, 1);
        }
        arrival
    }

    /// A packet of no session that is known (RFC 3550 A.1: `bad_seq`).
    fn consider(&mut self, header: &Header, number: u32, now: Time) -> Arrival {
        let follows = Some((header.ssrc, number));
        let stray = self.candidate.replace((header.ssrc, number.wrapping_add(1)));
        if stray != follows
            && stray.map(|(ssrc, next)| (ssrc, next & 0xFFFF)) != Some((header.ssrc, number & 0xFFFF))
        {
            count(&mut self.before.strays, stray.is_some().into());
            return Arrival::Stray;
        }
        self.candidate = None;
        self.before = self.counters();
        count(&mut self.before.restarts, 1);
        self.begin(header, number, now);
        if let Some(session) = &mut self.session {
            session.base = session.base.saturating_sub(1);
            count(&mut session.received, 1);
        }
        self.number(|number| Arrival::Restart { number })
    }

    fn begin(&mut self, header: &Header, number: u32, now: Time) {
        let session = Session::new(header.ssrc, number);
        self.session = Some(Session { last_arrival: now, last_timestamp: header.timestamp, ..session });
        self.jitter_nanos = 0.0;
    }

    fn number(&self, arrival: impl Fn(u64) -> Arrival) -> Arrival {
        self.session.as_ref().map_or(Arrival::Stray, |session| arrival(session.highest))
    }

    /// What has come so far. Walks over the window, for [`Counters::longest_loss`].
    pub fn counters(&self) -> Counters {
        let before = &self.before;
        let Some(session) = &self.session else { return *before };
        let now = session.counters();
        Counters {
            expected: before.expected.saturating_add(now.expected),
            received: before.received.saturating_add(now.received),
            duplicates: before.duplicates.saturating_add(now.duplicates),
            reordered: before.reordered.saturating_add(now.reordered),
            strays: before.strays,
            restarts: before.restarts,
            longest_loss: before.longest_loss.max(now.longest_loss),
        }
    }

    /// The sender's SSRC; `None` before the first packet.
    pub fn ssrc(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.ssrc)
    }

    /// The interarrival jitter (RFC 3550 §6.4.1): how much, smoothed over 16 packets, the distances of packets differ from
    /// those of their time stamps. Where packets of one picture share a time stamp, it holds their spacing too.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float saturates"
    )]
    pub fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter_nanos as u64)
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
