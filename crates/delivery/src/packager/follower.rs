//! A rendition with segments that end where those of the lead do.

use super::clock::{Clock, ticks_between};
use super::lane::{Lane, Opening};
use super::output::World;
use super::start::Arrived;
use super::steady::Steady;
use glassline_media::container::cmaf::Timed;
use glassline_media::{AccessUnit, Ticks, Utc};
use std::collections::VecDeque;

/// Units wait for the lead no longer than this, by their own time, and no more of them than that.
const HOLD: i64 = Ticks::RATE as i64;
const HELD_MAX: usize = 512;
/// And no more bytes.
const HELD_MAX_BYTES: usize = 16 << 20;
/// Units in another format, which wait for the next key frame, are no more than this, and no longer.
const CHANGED_MAX: usize = 2048;
const CHANGED_HOLD: i64 = 12 * Ticks::RATE as i64;
/// A follower that is behind by more segments than this has nothing for the oldest of them, if that ended so long ago by the wall
/// clock.
const BEHIND_MAX: usize = 2;
const LATE: i64 = Ticks::RATE as i64;
/// A follower that is behind by more segments than this has nothing for the oldest of them, whatever the wall clock says.
const BEHIND_MOST: usize = 16;

/// From `pts` on, things belong to segment `segment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) segment: u64,
    pub(super) pts: Ticks,
    /// When the unit came that the segment begins with.
    pub(super) now: Utc,
}

/// The rendition.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) lane: Lane,
    /// The cuts that it has not passed; each is one number further.
    pub(super) cuts: VecDeque<Cut>,
    held: VecDeque<Arrived>,
    held_bytes: usize,
    /// What is presented before this is too late.
    not_before: Ticks,
    pub(super) steady: Steady,
    /// What is held begins with a unit that the track's header does not cover: a new epoch has to begin with it.
    is_changed: bool,
}

impl Follower {
    /// Nothing of it is taken that is presented before `first`.
    pub(super) fn new(lane: Lane, first: Ticks) -> Follower {
        Follower {
            lane,
            cuts: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            not_before: first,
            steady: Steady::default(),
            is_changed: false,
        }
    }

    /// How far it has come, by what it was given.
    pub(super) fn reached(&self) -> Option<Ticks> {
        self.steady.reached()
    }

    /// Takes a unit, which waits until [`Follower::drain`] finds it due.
    pub(super) fn hold(&mut self, arrived: Arrived) {
        self.held_bytes += arrived.unit.data.len();
        self.held.push_back(arrived);
    }

    /// Takes the units with stamps that nothing confirms: no other comes that would.
    pub(super) fn flush(&mut self) {
        self.steady.flush().into_iter().for_each(|unit| self.hold(unit));
    }

    /// Whether units wait for a new epoch, since the track's header does not cover them.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether those are too many, or wait for too long, to wait for the next key frame.
    pub(super) fn waits_too_long(&self) -> bool {
        let span = self.held.front().zip(self.held.back());
        let waited = span.map_or(0, |(first, newest)| (newest.unit.pts - first.unit.pts).0);
        let is_much = self.held.len() > CHANGED_MAX || self.held_bytes > HELD_MAX_BYTES;
        self.is_changed && (waited > CHANGED_HOLD || is_much)
    }

    /// The units that wait for a new epoch, with the stamps that they came with.
    pub(super) fn take_changed(&mut self) -> Vec<Arrived> {
        if !std::mem::take(&mut self.is_changed) {
            return Vec::new();
        }
        self.held_bytes = 0;
        let shift = self.steady.shift();
        let held = self.held.drain(..).map(|unit| unit.moved(-shift));
        held.chain(self.steady.take_doubted()).collect()
    }

    /// The units that wait behind a jump that the lead, with its shift, has not followed; with the stamps that they came with.
    pub(super) fn take_jumped(&mut self, lead_shift: i64) -> Vec<Arrived> {
        let shift = self.steady.shift();
        let jumped_at = self.steady.jumped_at().filter(|_| shift != lead_shift);
        let is_new = |held: &Arrived| jumped_at.is_some_and(|at| held.unit.dts >= at);
        let first = self.held.iter().position(is_new).unwrap_or(self.held.len());
        let jumped = self.held.split_off(first);
        self.held_bytes = self.held.iter().map(|held| held.unit.data.len()).sum();
        let doubted = self.steady.take_doubted();
        jumped.into_iter().map(|unit| unit.moved(-shift)).chain(doubted).collect()
    }

    /// Packs what is presented before `frontier`, and what has waited too long.
    pub(super) fn drain(&mut self, frontier: Ticks, zero: Ticks, clock: &Clock, world: &mut World<'_>) {
        while !self.is_changed
            && let (Some(first), Some(newest)) = (self.held.front(), self.held.back())
        {
            let waits_long = (newest.unit.pts - first.unit.pts).0 > HOLD
                || self.held.len() > HELD_MAX
                || self.held_bytes > HELD_MAX_BYTES;
            if first.unit.pts >= frontier && !waits_long {
                break;
            }
            let Some(arrived) = self.held.pop_front() else { break };
            if self.has_changed(&arrived) {
                self.held.push_front(arrived);
                self.is_changed = true;
            } else {
                self.held_bytes -= arrived.unit.data.len();
                self.take(&arrived.unit, zero, clock, world);
            }
        }
    }

    /// Ends the segments that nothing comes for any more. The wall clock tells that, and not the stamps alone: pauses in a row put those of
    /// the pictures ahead by segments, and the sound comes as soon behind them as ever.
    pub(super) fn leave_behind(&mut self, now: Utc, zero: Ticks, clock: &Clock, world: &mut World<'_>) {
        while let Some(cut) = self.cuts.front().copied().filter(|cut| {
            let is_late = ticks_between(cut.now, now) >= LATE;
            self.cuts.len() > if is_late { BEHIND_MAX } else { BEHIND_MOST }
        }) {
            self.cuts.pop_front();
            self.not_before = cut.pts;
            self.pass(cut, None, zero, clock, world);
        }
    }

    fn has_changed(&self, arrived: &Arrived) -> bool {
        arrived.unit.pts >= self.not_before
            && arrived.media().is_some_and(|media| !self.lane.timeline.track().media.covers(&media))
    }

    fn take(&mut self, unit: &AccessUnit, zero: Ticks, clock: &Clock, world: &mut World<'_>) {
        if unit.pts < self.not_before {
            return;
        }
        let Ok(timed) = self.lane.sample(unit) else { return };
        while let Some(cut) = self.cuts.front().copied().filter(|cut| cut.pts <= unit.pts) {
            self.cuts.pop_front();
            self.pass(cut, Some(&timed), zero, clock, world);
        }
        self.add(unit, &timed, clock, world);
    }

    fn add(&mut self, unit: &AccessUnit, timed: &Timed, clock: &Clock, world: &mut World<'_>) {
        let Some(mut out) = world.output(self.lane.name) else { return };
        let mut captured = None;
        if !self.lane.is_open() {
            let date = clock.date_of(unit.pts);
            captured = date.is_capture.then(|| date.utc.into());
            // Behind a silence a segment begins where the one before it ended, all the same.
            let decode_time = self.lane.begins_at(timed.decode_time);
            let opening = Opening { decode_time, offset: 0, date, independent: true };
            self.lane.begin_segment(opening, &mut out);
        }
        self.lane.add(timed, true, captured, &mut out);
    }

    /// Ends the segment before `cut`, which may be one in which nothing came. `next` is the sample behind it.
    fn pass(&mut self, cut: Cut, next: Option<&Timed>, zero: Ticks, clock: &Clock, world: &mut World<'_>) {
        let at = self.lane.scaled(cut.pts - zero);
        let window = world.presentation.settings().window;
        let Some(mut out) = world.output(self.lane.name) else { return };
        if self.lane.is_open() {
            // Segments follow each other without gap where the samples do.
            let near = at.saturating_add(self.lane.info.sample_ticks.into());
            let end = next.map(|next| next.decode_time).filter(|&decode_time| decode_time <= near);
            self.lane.end_segment(Some(end.unwrap_or(at.max(self.lane.reached()))), &mut out);
        } else {
            self.lane.add_gap(at, clock.date_of(cut.pts), &mut out);
        }
        out.rendition.trim(window, out.events);
    }

    /// Ends all segments up to the lead's `number`, which ends at `end`; `None`: the lead has no such segment.
    pub(super) fn finish(
        &mut self,
        number: u64,
        end: Option<Ticks>,
        zero: Ticks,
        clock: &Clock,
        world: &mut World<'_>,
    ) {
        while let Some(cut) = self.cuts.pop_front() {
            self.pass(cut, None, zero, clock, world);
        }
        let window = world.presentation.settings().window;
        let Some(mut out) = world.output(self.lane.name) else { return };
        if self.lane.is_open() {
            self.lane.end_segment(None, &mut out);
        } else if let Some(end) = end.filter(|_| self.lane.number == number) {
            self.lane.add_gap(self.lane.scaled(end - zero), clock.date_of(end), &mut out);
        }
        out.rendition.trim(window, out.events);
    }
}
