//! When the store gets the next object: so many at once, so fast, and after a failure later and later.
//!
//! ```text
//!            busy: half as many at once             away: none until a back-off is over, then one alone
//! open ──────────────────────────────► open       open ──────────────────────────────────► closed ──► trying
//!   ▲ all of these stored: one more at once          ▲ stored: one at once                     ▲           │
//!   └────────────────────────────────────────────────┴───────────────── away: twice as long ───┴───────────┘
//! ```
//! A line that is too slow for so many objects at once ends them all by the time that each may take, as a store that is away does.
//! That is why after a failure they are one at once, and one more whenever as many were stored as there may be.
//!
//! What waits for a store that comes back leaves as fast as it can be read and taken. Where that is faster than this machine, its disk
//! or its processor can bear beside what is being recorded, [`Uploads::ease`] halves what is sent at once.

use crate::backoff::Backoff;
use glassline_media::Time;
use std::time::Duration;

/// Objects that are on their way at once. A store that answers in 200 ms then takes 160 in a second.
pub const PARALLEL: usize = 32;
/// Bytes that are on their way at once: they are in memory. One object is, however large it is.
pub const PARALLEL_BYTES: u64 = 24 << 20;
/// The first and the longest wait after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How often fewer are sent at once for the sake of what is recorded.
const EASE_EVERY: Duration = Duration::from_secs(1);
/// What may leave at once where there is a rate, as time of it.
const BURST: Duration = Duration::from_secs(1);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the store.
    Stored,
    /// The store asks for fewer at once.
    Busy,
    /// The store takes nothing now.
    Away,
    /// The store does not take this object, which says nothing of others.
    Refused,
    /// It failed for no known reason, which may be one of this object alone.
    Failed,
}

/// Whether the next object may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Now.
    Now,
    /// Not before then.
    At(Time),
    /// When one that is on its way has arrived.
    AfterOne,
}

/// Decides when objects leave.
#[derive(Clone, Debug)]
pub struct Uploads {
    /// Bytes a second; `None`: as fast as it goes.
    rate: Option<u64>,
    parallel: usize,
    /// So many were stored since `parallel` has changed.
    stored: usize,
    /// Something was stored since an object was refused.
    takes_others: bool,
    active: usize,
    active_bytes: u64,
    /// When what has left will have left at the rate.
    paid_until: Time,
    backoff: Backoff,
    closed_until: Option<Time>,
    eased_at: Option<Time>,
}

impl Uploads {
    /// At most `rate` bytes a second; `seed` shifts the times of attempts.
    pub fn new(rate: Option<u64>, seed: u64) -> Uploads {
        Uploads {
            rate: rate.map(|rate| rate.max(1)),
            parallel: PARALLEL,
            stored: 0,
            takes_others: true,
            active: 0,
            active_bytes: 0,
            paid_until: Time::ZERO,
            backoff: Backoff::new(RETRY.0, RETRY.1, seed),
            closed_until: None,
            eased_at: None,
        }
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, rate: Option<u64>) {
        self.rate = rate.map(|rate| rate.max(1));
        self.paid_until = Time::ZERO;
    }

    /// Whether the store took nothing the last time.
    pub fn is_away(&self) -> bool {
        self.closed_until.is_some()
    }

    /// How many are on their way.
    pub fn active(&self) -> usize {
        self.active
    }

    /// What leaves holds up what comes: half as many at once from now on, and one more whenever as many were stored. Calls within a
    /// second of one that did that do nothing, as what is on its way goes on.
    pub fn ease(&mut self, now: Time) {
        if self.eased_at.is_none_or(|at| now.since(at) >= EASE_EVERY) {
            self.eased_at = Some(now);
            (self.parallel, self.stored) = ((self.parallel / 2).max(1), 0);
        }
    }

    /// Whether an object of `bytes` may leave.
    pub fn permission(&self, bytes: u64, now: Time) -> Permission {
        if let Some(until) = self.closed_until {
            if self.active > 0 {
                return Permission::AfterOne;
            }
            if now < until {
                return Permission::At(until);
            }
        }
        let is_full =
            self.active >= self.parallel || self.active_bytes.saturating_add(bytes) > PARALLEL_BYTES;
        if is_full && self.active > 0 {
            return Permission::AfterOne;
        }
        if self.rate.is_some() && self.paid_until > now + BURST {
            let wait = self.paid_until.since(now).saturating_sub(BURST);
            return Permission::At(now + wait);
        }
        Permission::Now
    }

    /// An object of `bytes` leaves.
    pub fn begin(&mut self, bytes: u64, now: Time) {
        self.active += 1;
        self.active_bytes = self.active_bytes.saturating_add(bytes);
        if let Some(rate) = self.rate {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.paid_until = self.paid_until.max(now) + time;
        }
    }

    /// An object of `bytes` that had left came to this.
    pub fn end(&mut self, bytes: u64, outcome: Outcome, now: Time) {
        self.active = self.active.saturating_sub(1);
        self.active_bytes = self.active_bytes.saturating_sub(bytes);
        match outcome {
            Outcome::Stored => {
                self.backoff.reset();
                self.closed_until = None;
                self.takes_others = true;
                self.stored += 1;
                if self.stored >= self.parallel {
                    (self.parallel, self.stored) = ((self.parallel + 1).min(PARALLEL), 0);
                }
            }
            Outcome::Refused if std::mem::replace(&mut self.takes_others, false) => {}
            Outcome::Refused | Outcome::Busy | Outcome::Away | Outcome::Failed => {
                let fewer = if outcome == Outcome::Busy { self.parallel / 2 } else { 1 };
                (self.parallel, self.stored) = (fewer.max(1), 0);
                // Those that left together fail together: that is one failure.
                if self.closed_until.is_none_or(|until| until <= now) {
                    self.closed_until = Some(now + self.backoff.fail());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uploads(rate: Option<u64>) -> (Uploads, Time) {
        (Uploads::new(rate, 7), Time::from_millis(1_000_000))
    }

    #[test]
    fn so_many_leave_at_once_and_the_next_when_one_has_arrived() {
        let (mut uploads, now) = uploads(None);
        for _ in 0..PARALLEL {
            assert_eq!(uploads.permission(1000, now), Permission::Now);
            uploads.begin(1000, now);
        }
        assert_eq!(uploads.permission(1000, now), Permission::AfterOne);
        uploads.end(1000, Outcome::Stored, now);
        assert_eq!(uploads.permission(1000, now), Permission::Now);
    }

    #[test]
    fn what_is_on_its_way_is_bounded_in_bytes_but_for_one() {
        let (mut uploads, now) = uploads(None);
        assert_eq!(uploads.permission(PARALLEL_BYTES * 2, now), Permission::Now);
        uploads.begin(PARALLEL_BYTES * 2, now);
        assert_eq!(uploads.permission(1, now), Permission::AfterOne);
    }

    #[test]
    fn a_store_that_is_away_is_asked_by_one_object_later_and_later() {
        let (mut uploads, mut now) = uploads(None);
        for _ in 0..20 {
            uploads.begin(1, now);
        }
        for _ in 0..20 {
            uploads.end(1, Outcome::Away, now);
        }
        let mut waits = Vec::new();
        for _ in 0..10 {
            let Permission::At(at) = uploads.permission(1, now) else { panic!("it leaves at once") };
            waits.push(at.since(now));
            now = at;
            assert_eq!(uploads.permission(1, now), Permission::Now);
            uploads.begin(1, now);
            assert_eq!(uploads.permission(1, now), Permission::AfterOne, "one alone");
            uploads.end(1, Outcome::Away, now);
        }
        assert!(waits[0] <= RETRY.0 && waits[9] > waits[0] * 8, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= RETRY.1), "{waits:?}");
        uploads.begin(1, now);
        uploads.end(1, Outcome::Stored, now);
        assert!(!uploads.is_away());
        assert_eq!((0..PARALLEL).map(|_| at_once(&mut uploads, now)).last(), Some(PARALLEL));
    }

    /// So many leave at once, and are stored.
    fn at_once(uploads: &mut Uploads, now: Time) -> usize {
        let mut count = 0;
        while uploads.permission(1, now) == Permission::Now {
            uploads.begin(1, now);
            count += 1;
        }
        (0..count).for_each(|_| uploads.end(1, Outcome::Stored, now));
        count
    }

    /// Objects that leave a slow line share it, and each has a minute.
    #[test]
    fn a_slow_line_is_used_and_not_filled_with_what_is_not_finished() {
        const OBJECT: f64 = 1_250_000.0;
        let timeout = Duration::from_secs(60);
        let (mut uploads, begun) = uploads(None);
        // 3 Mbit/s: of 32 at once each needs 107 s.
        let (rate, step) = (375_000.0, Duration::from_millis(100));
        let (mut now, mut sent, mut stored) = (begun, Vec::<(Time, f64)>::new(), 0.0);
        while now.since(begun) < Duration::from_secs(3600) {
            while uploads.permission(OBJECT as u64, now) == Permission::Now {
                uploads.begin(OBJECT as u64, now);
                sent.push((now, OBJECT));
            }
            now += step;
            let share = rate * step.as_secs_f64() / sent.len().max(1) as f64;
            sent.iter_mut().for_each(|(_, left)| *left -= share);
            sent.retain(|(since, left)| {
                let outcome = match (*left <= 0.0, now.since(*since) >= timeout) {
                    (true, _) => Outcome::Stored,
                    (false, true) => Outcome::Away,
                    _ => return true,
                };
                stored += if outcome == Outcome::Stored { OBJECT } else { 0.0 };
                uploads.end(OBJECT as u64, outcome, now);
                false
            });
        }
        let used = stored / (rate * 3600.0);
        assert!(used > 0.8, "{:.0} % of the line carried what was stored", used * 100.0);
    }

    #[test]
    fn a_store_that_is_busy_gets_fewer_at_once_until_it_takes_them() {
        let (mut uploads, now) = uploads(None);
        uploads.begin(1, now);
        uploads.begin(1, now);
        uploads.end(1, Outcome::Busy, now);
        uploads.end(1, Outcome::Stored, now);
        assert_eq!(at_once(&mut uploads, now), PARALLEL / 2);
        assert_eq!((0..PARALLEL).map(|_| at_once(&mut uploads, now)).last(), Some(PARALLEL));
    }

    #[test]
    fn fewer_leave_at_once_while_they_hold_up_what_comes() {
        let (mut uploads, mut now) = uploads(None);
        let all: usize = (0..PARALLEL).map(|_| at_once(&mut uploads, now)).max().unwrap_or(0);
        assert_eq!(all, PARALLEL);
        for expected in [PARALLEL / 2, PARALLEL / 4] {
            (0..5).for_each(|_| uploads.ease(now));
            let mut count = 0;
            while uploads.permission(1, now) == Permission::Now {
                uploads.begin(1, now);
                count += 1;
            }
            assert_eq!(count, expected);
            (0..count - 1).for_each(|_| uploads.end(1, Outcome::Stored, now));
            uploads.end(1, Outcome::Refused, now);
            now += EASE_EVERY;
        }
        (0..20).for_each(|step| uploads.ease(now + EASE_EVERY * step));
        assert_eq!(uploads.permission(1, now), Permission::Now, "one is sent at any time");
        assert_eq!((0..PARALLEL).map(|_| at_once(&mut uploads, now)).last(), Some(PARALLEL));
    }

    #[test]
    fn a_rate_is_kept() {
        let (mut uploads, begun) = uploads(Some(1_000_000));
        let (mut now, mut bytes) = (begun, 0);
        while now.since(begun) < Duration::from_secs(20) {
            match uploads.permission(300_000, now) {
                Permission::Now => {
                    uploads.begin(300_000, now);
                    uploads.end(300_000, Outcome::Stored, now);
                    bytes += 300_000;
                }
                Permission::At(at) => now = at,
                Permission::AfterOne => panic!("none is on its way"),
            }
        }
        assert!((19_000_000..=22_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn one_that_is_refused_holds_no_other_up() {
        let (mut uploads, now) = uploads(None);
        uploads.begin(1, now);
        uploads.end(1, Outcome::Refused, now);
        assert_eq!(uploads.permission(1, now), Permission::Now);
        // Where nothing is stored meanwhile, it is the store.
        uploads.begin(1, now);
        uploads.end(1, Outcome::Refused, now);
        assert!(matches!(uploads.permission(1, now), Permission::At(_)));
    }
}
