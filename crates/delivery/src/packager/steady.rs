//! What stamps that do not follow each other mean: a gap, a wrong stamp, or a jump of the sender's clock.
//!
//! ```text
//! 1 2 3 4 ············ 9 10     a gap: the wall clock, or the sound, has moved on as far
//! 1 2 3 4 77 6 7 8              a wrong stamp: the next one follows those before it
//! 1 2 3 4 91 92 93              a jump: the next one follows the odd one
//! ```
//! One stamp decides nothing: where nothing else speaks for it, the unit waits for the next one. A wrong stamp is put right, so
//! that the unit is not lost. After a jump that took no time, or a moment as where a publisher comes back at once, times go on as if
//! there had been none. Such moments add up, and put what is played behind the wall clock, where players of DASH do not look for it:
//! behind half a second of them times go on as much later. Where the stream has stood still meanwhile, it begins anew.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::clock::ticks_between;
use super::start::Arrived;
use glassline_media::{Ticks, Utc};

/// A step of this many ticks is none to wonder about, nor one of four units.
const NEAR: i64 = 9000;
/// Units that follow each other lie no further apart than this, or than four units.
const STEP_MAX: i64 = 2 * Ticks::RATE as i64;
/// By how much arrivals may be off from stamps, and renditions from each other.
const SLACK: i64 = Ticks::RATE as i64;
/// So much behind the wall clock times may be: what players of DASH ask for too early is waited for.
const LOST_MAX: i64 = SLACK / 2;
/// Arrivals are looked back at for up to twice this.
const STRETCH: i64 = 5 * Ticks::RATE as i64;
/// So many units that agree with nothing are placed one behind the other.
const DOUBTED_MAX: usize = 4;

/// What becomes of units.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// The rendition takes them, with the stamps that they have now.
    Take(Vec<Arrived>),
    /// What they continue is not what there is: they begin anew, with the stamps that they came with.
    Anew(Vec<Arrived>),
}

/// Follows the stamps of one rendition.
#[derive(Clone, Debug, Default)]
pub(super) struct Steady {
    /// What is added to the stamps that come.
    shift: i64,
    last: Option<Last>,
    pace: Pace,
    /// Where the units lie that came behind the newest jump, shifted.
    jumped_at: Option<Ticks>,
    /// Units with stamps that nothing confirms yet, as they came.
    doubted: Vec<Arrived>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// Its decoding time stamp, shifted.
    dts: Ticks,
    /// What it lasts, or is expected to.
    duration: i64,
    now: Utc,
}

/// What else is known when a unit comes, in ticks of 90 kHz.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// How long the unit is expected to last.
    pub(super) duration: i64,
    /// How far the other renditions have come, shifted.
    pub(super) reached: Option<Ticks>,
    /// A gap that is longer than this is a new beginning.
    pub(super) gap_max: i64,
    /// The shift that another rendition has found.
    pub(super) other_shift: i64,
    /// Whether all begins anew where this one does. Otherwise it goes on as much later as it came.
    pub(super) leads: bool,
}

impl Steady {
    /// Adds this to the stamps that come, from the first unit on.
    pub(super) fn begin_with(&mut self, shift: i64) {
        self.shift = shift;
    }

    /// What is added to stamps.
    pub(super) fn shift(&self) -> i64 {
        self.shift
    }

    /// The last unit's time, shifted.
    pub(super) fn reached(&self) -> Option<Ticks> {
        self.last.map(|last| last.dts)
    }

    /// Where the units lie that came behind the newest jump, shifted.
    pub(super) fn jumped_at(&self) -> Option<Ticks> {
        self.jumped_at
    }

    /// Takes out the units with stamps that nothing confirms, as they came.
    pub(super) fn take_doubted(&mut self) -> Vec<Arrived> {
        std::mem::take(&mut self.doubted)
    }

    /// The first unit that is taken with this sets what others follow.
    fn accept(&mut self, arrived: Arrived, dts: Ticks, duration: i64) -> Arrived {
        let offset = arrived.unit.pts - arrived.unit.dts;
        self.last = Some(Last { dts, duration, now: arrived.now });
        self.pace.observe(dts, arrived.now);
        let mut placed = arrived;
        (placed.unit.dts, placed.unit.pts) = (dts, dts + offset);
        placed
    }

    fn shifted(&self, arrived: &Arrived) -> Ticks {
        arrived.unit.dts + Ticks(self.shift)
    }

    /// Takes the next unit.
    pub(super) fn push(&mut self, arrived: Arrived, context: &Context) -> Verdict {
        let dts = self.shifted(&arrived);
        let Some(last) = self.last else {
            return Verdict::Take(vec![self.accept(arrived, dts, context.duration)]);
        };
        if self.doubted.is_empty() {
            return self.judge(arrived, dts, last, context);
        }
        let most = STEP_MAX.max(context.duration.saturating_mul(4));
        let since = distance(dts, last.dts);
        if (1..=most).contains(&since) {
            // Those between had wrong stamps.
            let between = std::mem::take(&mut self.doubted);
            let parts = i64::try_from(between.len()).unwrap_or(i64::MAX).saturating_add(1);
            let mut taken = Vec::new();
            for (number, doubted) in (1i64..).zip(between) {
                let ahead = since.saturating_mul(number).checked_div(parts).unwrap_or(0).max(number);
                taken.push(self.accept(doubted, last.dts + Ticks(ahead), context.duration));
            }
            let behind = last.dts + Ticks(parts);
            taken.push(self.accept(arrived, dts.max(behind), context.duration));
            return Verdict::Take(taken);
        }
        let from_doubted =
            self.doubted.last().map_or(0, |before| distance(arrived.unit.dts, before.unit.dts));
        if (1..=most).contains(&from_doubted) {
            return self.jump(arrived, last, context);
        }
        self.doubted.push(arrived);
        if self.doubted.len() < DOUBTED_MAX {
            return Verdict::Take(Vec::new());
        }
        Verdict::Take(self.flush())
    }

    /// A unit behind one that nothing was wrong with.
    fn judge(&mut self, arrived: Arrived, dts: Ticks, last: Last, context: &Context) -> Verdict {
        let since = distance(dts, last.dts);
        if (1..=NEAR.max(context.duration.saturating_mul(4))).contains(&since) {
            return Verdict::Take(vec![self.accept(arrived, dts, context.duration)]);
        }
        if (1..=context.gap_max).contains(&since) {
            // By half of it at least: arrivals are jerky.
            let has_passed = ticks_between(last.now, arrived.now) >= since / 2;
            let has_reached =
                context.reached.is_some_and(|reached| distance(reached, dts) >= NEAR.saturating_neg());
            if has_passed || has_reached {
                return Verdict::Take(vec![self.accept(arrived, dts, context.duration)]);
            }
        }
        if let Some(shift) = self.shared_shift(arrived.unit.dts, last, context) {
            // The sender's clock has jumped, as another rendition has shown.
            self.shift = shift;
            let other = arrived.unit.dts + Ticks(shift);
            let placed = if other > last.dts { other } else { last.dts + Ticks(1) };
            return Verdict::Take(vec![self.accept(arrived, placed, context.duration)]);
        }
        self.doubted.push(arrived);
        Verdict::Take(Vec::new())
    }

    /// What another rendition's stamps are shifted by, where this one's follow with it, or go on beside it: behind a pause
    /// that the jump came in, too.
    fn shared_shift(&self, dts: Ticks, last: Last, context: &Context) -> Option<i64> {
        let other = dts + Ticks(context.other_shift);
        let follows = distance(other, last.dts).saturating_abs() <= SLACK;
        let is_beside =
            context.reached.is_some_and(|reached| distance(other, reached).saturating_abs() <= SLACK);
        let goes_on = is_beside && distance(other, last.dts) > 0;
        (context.other_shift != self.shift && (follows || goes_on)).then_some(context.other_shift)
    }

    /// Two units agree that the clock is another one: the one that has come and the last that was doubted. Those before had
    /// wrong stamps.
    fn jump(&mut self, arrived: Arrived, last: Last, context: &Context) -> Verdict {
        let mut moved = std::mem::take(&mut self.doubted);
        let strays = moved.len().saturating_sub(1);
        let Some((dts, now)) = moved.last().map(|first| (first.unit.dts, first.now)) else {
            return Verdict::Take(vec![arrived]);
        };
        moved.push(arrived);
        let steps = i64::try_from(strays).unwrap_or(i64::MAX).saturating_add(1);
        let lasts = last.duration.max(1).saturating_mul(steps);
        let due = last.dts + Ticks(lasts);
        let since = distance(dts + Ticks(self.shift), last.dts);
        // A little back: the stamp of the last one was too far ahead.
        let near = NEAR.max(context.duration.saturating_mul(4));
        // Far ahead: a gap where the other renditions have gone on through it, or there are none that could tell.
        let went_on =
            context.reached.is_none_or(|reached| distance(reached, dts + Ticks(self.shift)) >= -SLACK);
        let most = if went_on { context.gap_max } else { STEP_MAX };
        let is_gap = (near.saturating_neg()..=most).contains(&since);
        let passed = ticks_between(last.now, now);
        let stood = passed.saturating_sub(lasts);
        // Behind a pause the last unit may be expected to last for long: a stream that comes earlier than that has not stood still.
        let has_stood = stood > SLACK || passed < SLACK.saturating_neg();
        if !is_gap && has_stood && context.leads {
            return Verdict::Anew(moved);
        }
        if !is_gap {
            let later = if has_stood { stood.max(0) } else { self.pace.later(due, now) };
            let shared = self.shared_shift(dts, last, context);
            self.shift = shared.unwrap_or(distance(due, dts).saturating_add(later));
            self.pace.jump();
        }
        let mut taken = Vec::new();
        for (number, unit) in moved.into_iter().enumerate() {
            let dts = self.shifted(&unit);
            if number == strays && !is_gap {
                self.jumped_at = Some(dts);
            }
            let placed = self.last.map_or(dts, |before| match number < strays {
                true => before.dts + Ticks(before.duration.max(1)),
                false => dts.max(before.dts + Ticks(1)),
            });
            taken.push(self.accept(unit, placed, context.duration));
        }
        Verdict::Take(taken)
    }

    /// Gives what is doubted, each unit behind the one before: nothing will tell any more.
    pub(super) fn flush(&mut self) -> Vec<Arrived> {
        let Some(last) = self.last else { return self.take_doubted() };
        let mut due = last.dts;
        let mut taken = Vec::new();
        for doubted in self.take_doubted() {
            due = due + Ticks(last.duration.max(1));
            taken.push(self.accept(doubted, due, last.duration));
        }
        taken
    }
}

/// How late units come, by the wall clock, in ticks of 90 kHz: what their times have lost against it shows behind a jump.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// The first unit.
    anchor: Option<(Ticks, Utc)>,
    /// How late a unit has ever been at the least, after the first.
    least: i64,
    /// The least and the most since the last jump, in the last stretch and in the one before.
    stretches: [Option<(i64, i64)>; 2],
    /// When the last stretch began.
    since: Ticks,
}

impl Pace {
    fn late(&self, dts: Ticks, now: Utc) -> i64 {
        self.anchor.map_or(0, |(first, at)| ticks_between(at, now).saturating_sub(distance(dts, first)))
    }

    fn observe(&mut self, dts: Ticks, now: Utc) {
        if self.anchor.is_none() {
            (self.anchor, self.since) = (Some((dts, now)), dts);
        }
        let late = self.late(dts, now);
        self.least = self.least.min(late);
        if distance(dts, self.since) > STRETCH {
            self.since = dts;
            self.stretches = [None, self.stretches[0]];
        }
        let [last, _] = &mut self.stretches;
        let (least, most) = last.unwrap_or((late, late));
        *last = Some((least.min(late), most.max(late)));
    }

    fn jump(&mut self) {
        self.stretches = [None; 2];
    }

    /// By how much later than `due` a unit that came at `now` has to be placed, so that it is as late as others are; 0 where
    /// jerky arrivals may explain its delay, and where it is [`LOST_MAX`] or less.
    fn later(&self, due: Ticks, now: Utc) -> i64 {
        let seen = self.stretches.iter().flatten();
        let (least, most) = seen
            .fold((i64::MAX, i64::MIN), |(least, most), stretch| (least.min(stretch.0), most.max(stretch.1)));
        // It may come as late after its time as any: what it is placed by has to be more than that, or each jump would add to it.
        let jerk = most.saturating_sub(least).clamp(0, SLACK);
        let later = self.late(due, now).saturating_sub(self.least).saturating_sub(jerk);
        if later > LOST_MAX { later } else { 0 }
    }
}

/// From `before` to `after`, in ticks; what no stamps can be apart is as far as possible.
fn distance(after: Ticks, before: Ticks) -> i64 {
    after.0.saturating_sub(before.0)
}
