//! When pictures that come from somewhere else were captured, as far as their arrival tells. Pure: arrivals and `now`
//! go in, capture times and the next deadline come out.
//!
//! A pipe has no time stamps. Its pictures lie on a grid of the nominal rate; what [`Timeline`] finds out is where
//! the grid lies on the clock, and what to do with a picture that does not fit it:
//!
//! ```text
//!   on time, or late             at its place on the grid, which is in the past
//!   always late                  the grid is moved later, slowly: the writer's clock is slower than ours
//!   early                        it waits for its place, until it is known why it is early:
//!     a constant lead              the grid is moved earlier: the pictures are live, and the first ones came late
//!     a growing lead               back-pressure: the writer is faster than the rate, and is held to it
//!   so late that it was a stall  the grid is moved on to now; what a live writer then sends in a burst is as old as
//!                                the stall was long, and is dropped, so that the delay does not stay
//! ```
//!
//! A constant lead and a growing one look alike for as long as every early picture is waited for before the next one
//! is read: each comes early again. So the caller reads ahead while pictures wait, and tells
//! [when its room is full](Timeline::full). A writer that fills the room is faster than its rate. One that lets the
//! reader wait although there is room is not, and then its lead is measured: small leads are followed at once
//! ([`QUICK_PERIODS`]), larger ones when they have stayed the same over four windows. What was followed in error is
//! given back once the room turns out to be full, so that a file ends up on its own grid.

use glassline_media::{FrameRate, Time};
use std::time::Duration;

/// Later than this, and later than two pictures, is a stall: the stream's clock has gone on meanwhile.
const STALL: Duration = Duration::from_millis(100);
/// Where the source's clock runs slower than ours, the grid moves later by this part of a picture's time each picture:
/// 200 ppm. The windows find a larger difference.
const CREEP: i64 = 5_000;
/// A lead of so many pictures' time is followed at once.
const QUICK_PERIODS: i64 = 2;
/// The largest lead that is followed at all, in nanoseconds. The pictures that are read ahead cover as much.
pub(super) const LEAD_MAX: Duration = Duration::from_secs(1);
/// A writer may gain this part of the elapsed time for ever: 5,000 ppm, more than any camera's clock differs, or its
/// header's rate from its own (25 told, 25.03 real).
const GAIN: i64 = 200;
/// For so long after its room was full a writer counts as faster than its rate.
const FULL_FOR: Duration = Duration::from_secs(2);
/// The earliest arrival of each window counts.
const WINDOW: Duration = Duration::from_millis(250);
const WINDOWS: usize = 4;

/// What becomes of a picture that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It waits for its place.
    Waits,
    /// The same, and nothing had come before it for longer than a stall; it is so late.
    Stalled(Duration),
    /// It is as old as the stall before it was long, and is left out.
    Dropped,
}

/// Places arriving pictures on the clock.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    rate: FrameRate,
    period: i64,
    /// Whether the grid follows a clock of the source's own; a file has none.
    follows: bool,
    /// When picture 0 of the grid is due.
    anchor: Option<Time>,
    /// Pictures that were placed.
    number: u64,
    /// Pictures that have come and wait for their place.
    waiting: u64,
    /// The capture time of the picture that was placed last.
    captured: Option<Time>,
    /// When the last picture came.
    arrived: Time,
    /// By how much the grid was moved earlier than the nominal rate allows; negative where a stall moved it later.
    gained: i64,
    /// The part of it that was followed at once.
    quick: i64,
    envelope: Envelope,
    /// How much later the grid has to move yet, and how much of that each picture.
    slew: (i64, i64),
    /// When the room for pictures that wait was last full.
    full: Option<Time>,
    /// Whether the writer was seen to be live: it has kept to a constant lead while there was room for a larger one.
    live: bool,
    /// Time that a stall took and no burst has brought back.
    owed: i64,
}

/// How early the earliest pictures of the last windows came, in nanoseconds against the grid; negative is early.
#[derive(Clone, Copy, Debug)]
struct Envelope {
    /// Pictures of a window.
    length: u32,
    count: u32,
    lowest: i64,
    /// Of whole windows, the newest last.
    windows: [Option<i64>; WINDOWS],
}

impl Envelope {
    fn new(period: i64) -> Envelope {
        let length = (nanos(WINDOW) / period).clamp(4, 64) as u32;
        Envelope { length, count: 0, lowest: i64::MAX, windows: [None; WINDOWS] }
    }

    fn reset(&mut self) {
        (self.count, self.lowest, self.windows) = (0, i64::MAX, [None; WINDOWS]);
    }

    /// Takes an arrival. At the end of a window it tells the lowest and the highest of the windows' lowest values, once
    /// there are enough of them.
    fn push(&mut self, offset: i64) -> Option<(i64, i64)> {
        self.lowest = self.lowest.min(offset);
        self.count += 1;
        if self.count < self.length {
            return None;
        }
        self.windows.rotate_left(1);
        self.windows[WINDOWS - 1] = Some(self.lowest);
        (self.count, self.lowest) = (0, i64::MAX);
        let lowest = self.windows.iter().copied().try_fold(i64::MAX, |low, it| Some(low.min(it?)))?;
        let highest = self.windows.iter().flatten().copied().max()?;
        Some((lowest, highest))
    }

    /// The grid was moved by so much.
    fn shift(&mut self, by: i64) {
        self.lowest = self.lowest.saturating_sub(by);
        self.windows.iter_mut().flatten().for_each(|window| *window -= by);
    }
}

impl Timeline {
    /// A grid of `rate` that begins with the first picture. Pictures of a file keep to the rate; a live writer is
    /// followed.
    pub(super) fn new(rate: FrameRate, follows: bool) -> Timeline {
        let period = nanos(rate.time_of(1)).max(1);
        Timeline {
            rate,
            period,
            follows,
            anchor: None,
            number: 0,
            waiting: 0,
            captured: None,
            arrived: Time::ZERO,
            gained: 0,
            quick: 0,
            envelope: Envelope::new(period),
            slew: (0, 0),
            full: None,
            live: false,
            owed: 0,
        }
    }

    /// The grid begins at `first`, and not with the first picture's arrival.
    pub(super) fn begin(&mut self, first: Time) {
        self.anchor = Some(first);
        self.arrived = first;
    }

    /// A picture is there at `now`.
    pub(super) fn arrive(&mut self, now: Time) -> Arrival {
        let gap = now.since(self.arrived);
        self.arrived = now;
        let Some(due) = self.due(self.waiting) else {
            self.anchor = Some(now);
            self.waiting = 1;
            return Arrival::Waits;
        };
        let offset = signed(now, due);
        let stall = nanos(STALL).max(2 * self.period);
        if offset > stall {
            return self.stall(offset, nanos(gap) > stall);
        }
        if self.follows {
            // In a burst.
            let early = -offset > self.period / 2 && nanos(gap) < self.period / 2;
            if early && self.owed >= self.period / 2 {
                self.owed -= self.period;
                self.envelope.reset();
                return Arrival::Dropped;
            }
            self.follow(offset, nanos(gap), now);
        }
        self.waiting += 1;
        Arrival::Waits
    }

    /// The caller has no room for more pictures that wait: the writer has given all that could be taken.
    pub(super) fn full(&mut self, now: Time) {
        self.full = Some(now);
        (self.live, self.slew) = (false, (0, 0));
        self.envelope.reset();
    }

    /// When [`poll`](Timeline::poll) gives the next place; `None` where no picture waits. [`arrive`](Timeline::arrive)
    /// may change it.
    #[must_use]
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let due = self.due(0).filter(|_| self.waiting > 0)?;
        // Pictures that come closer than this would be as good as two in one.
        let least = self.captured.map(|captured| captured + self.rate.time_of(1) / 2);
        Some(least.map_or(due, |least| due.max(least)))
    }

    /// Takes the picture that has waited longest, once its time has come, and tells when it was captured. Capture times
    /// rise, by half a picture's time at least.
    pub(super) fn poll(&mut self, now: Time) -> Option<Time> {
        let captured = self.poll_timeout().filter(|captured| *captured <= now)?;
        self.captured = Some(captured);
        self.number += 1;
        self.waiting -= 1;
        if self.is_too_fast(now) {
            let back = self.gained.clamp(0, self.period / 2);
            self.shift(back);
        } else {
            let step = self.slew.1.min(self.slew.0);
            self.slew.0 -= step;
            self.shift(step);
        }
        Some(captured)
    }

    /// The place of the picture behind `waiting` others.
    fn due(&self, waiting: u64) -> Option<Time> {
        Some(self.anchor? + self.rate.time_of(self.number + waiting))
    }

    /// Moves the grid by so many nanoseconds, later or earlier.
    fn shift(&mut self, by: i64) {
        let Some(anchor) = &mut self.anchor else { return };
        *anchor = Time::from_nanos(anchor.as_nanos().saturating_add_signed(by));
        for gained in [&mut self.gained, &mut self.quick] {
            *gained = gained.saturating_sub(by).max(-nanos(LEAD_MAX));
        }
        self.envelope.shift(by);
    }

    /// The picture is so late that the stream's clock has gone on meanwhile.
    fn stall(&mut self, late: i64, silent: bool) -> Arrival {
        self.shift(late);
        self.envelope.reset();
        self.slew = (0, 0);
        self.owed = if silent && self.live { late } else { 0 };
        self.waiting += 1;
        if silent { Arrival::Stalled(Duration::from_nanos(late.unsigned_abs())) } else { Arrival::Waits }
    }

    /// Whether the writer has filled all room lately.
    fn is_too_fast(&self, now: Time) -> bool {
        self.full.is_some_and(|full| now.since(full) < FULL_FOR)
    }

    /// Moves the grid to where a picture that came at `offset` from its place, `gap` behind the one before it, shows it
    /// to be.
    fn follow(&mut self, offset: i64, gap: i64, now: Time) {
        if self.is_too_fast(now) {
            return;
        }
        let gain = gap.min(nanos(LEAD_MAX)) / GAIN;
        for gained in [&mut self.gained, &mut self.quick] {
            *gained -= (*gained).clamp(-gain, gain);
        }
        let low = self.envelope.push(offset);
        // The writer has let us wait: what it had ready, if it had, we have.
        let waited = gap >= self.period / 2;
        if waited && self.owed > 0 {
            self.owed = 0;
        }
        if offset < 0 && waited {
            self.shift(-(-offset).min(QUICK_PERIODS * self.period - self.quick).max(0));
        } else if offset > 0 {
            self.shift(offset.min(self.period / CREEP));
        }
        let Some((lowest, highest)) = low else { return };
        if highest - lowest <= self.period / 4 {
            self.live = true;
            // What was followed meanwhile is no lead any more.
            let lead = self.envelope.windows.iter().flatten().copied().max().map_or(0, |high| -high);
            let lead = lead.min(nanos(LEAD_MAX) - self.gained).max(0);
            let quick = self.quick;
            self.shift(-lead);
            self.quick = quick;
        }
        let late = lowest.max(0);
        self.slew = (late, late / i64::from(self.envelope.length) + 1);
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// How far `time` is behind `from`.
fn signed(time: Time, from: Time) -> i64 {
    nanos(time.since(from)) - nanos(from.since(time))
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
