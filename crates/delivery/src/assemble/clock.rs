//! The times of one track as a transport stream needs them: decoding times that only grow, and no presentation before
//! decoding.

use glassline_media::{AccessUnit, Ticks};

/// A step back of more than this is a clock that was set anew; less of one is jitter of the publisher's.
const BACK: i64 = Ticks::RATE as i64 / 2;
/// A step forward of more than this is one, too.
const FORWARD: i64 = 10 * Ticks::RATE as i64;
/// Pictures that are presented earlier than decoded by up to this long have their decoding times moved back.
const EARLY_MAX: i64 = Ticks::RATE as i64;

/// What was done with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The track's times begin anew with it.
    pub(super) jumps: bool,
    /// It has another decoding or presentation time than it came with, beside what was said of the track before.
    pub(super) is_moved: bool,
}

/// Where a track is.
#[derive(Debug, Default)]
pub(super) struct TrackClock {
    /// The latest decoding time that came.
    newest: Option<Ticks>,
    /// The decoding time that the last unit was given.
    given: Option<Ticks>,
    /// How much later the program's clock is than the track's.
    offset: Ticks,
    /// How much earlier units are decoded than they say: some encoders of pictures that are shown in another order give the
    /// time of capture as that of decoding, and a negative offset of presentation.
    early: Ticks,
}

impl TrackClock {
    /// Gives a unit its times.
    pub(super) fn place(&mut self, unit: &mut AccessUnit) -> Step {
        let step = self.newest.map_or(Ticks(0), |newest| unit.dts - newest);
        let jumps = step.0 < BACK.saturating_neg() || step.0 > FORWARD;
        if jumps {
            *self = TrackClock::default();
        }
        self.newest = self.newest.max(Some(unit.dts));
        let mut is_moved = false;
        let lack = unit.dts - unit.pts;
        if lack.0 > EARLY_MAX {
            unit.pts = unit.dts;
            is_moved = true;
        } else if lack > self.early {
            self.early = lack;
            is_moved = true;
        }
        unit.dts = unit.dts + self.offset - self.early;
        unit.pts = unit.pts + self.offset;
        if let Some(given) = self.given.filter(|given| unit.dts <= *given) {
            unit.dts = given + Ticks(1);
            unit.pts = unit.pts.max(unit.dts);
            is_moved = true;
        }
        self.given = Some(unit.dts);
        Step { jumps, is_moved }
    }

    /// The program's clock is later than what [`TrackClock::place`] gave by so much: from now on units are put there.
    pub(super) fn shift(&mut self, later: Ticks) {
        self.offset = self.offset + later;
        self.given = self.given.map(|given| given + later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packager::testing::picture;

    fn place(clock: &mut TrackClock, dts: i64, pts: i64) -> (i64, i64, Step) {
        let mut unit = AccessUnit { pts: Ticks(pts), ..picture(false, 9, dts) };
        let step = clock.place(&mut unit);
        (unit.dts.0, unit.pts.0, step)
    }

    const PLAIN: Step = Step { jumps: false, is_moved: false };
    const MOVED: Step = Step { jumps: false, is_moved: true };
    const JUMP: Step = Step { jumps: true, is_moved: false };

    #[test]
    fn times_in_order_stay_as_they_are() {
        let mut clock = TrackClock::default();
        for dts in [900_000_000, 900_003_600, 900_003_690, 900_900_000] {
            assert_eq!(place(&mut clock, dts, dts + 7200), (dts, dts + 7200, PLAIN));
        }
    }

    #[test]
    fn a_small_step_back_is_moved_and_a_large_one_begins_anew() {
        let mut clock = TrackClock::default();
        assert_eq!(place(&mut clock, 90_000, 90_000), (90_000, 90_000, PLAIN));
        assert_eq!(place(&mut clock, 90_000, 90_000), (90_001, 90_001, MOVED));
        assert_eq!(place(&mut clock, 45_000, 95_000), (90_002, 95_000, MOVED));
        assert_eq!(place(&mut clock, 93_600, 93_600), (93_600, 93_600, PLAIN));
        assert_eq!(place(&mut clock, 48_599, 48_599), (48_599, 48_599, JUMP));
        assert_eq!(place(&mut clock, 948_600, 948_600), (948_600, 948_600, JUMP));
    }

    #[test]
    fn pictures_presented_before_they_are_decoded_are_decoded_earlier() {
        let mut clock = TrackClock::default();
        assert_eq!(place(&mut clock, 0, 0), (0, 0, PLAIN));
        assert_eq!(place(&mut clock, 3600, 10_800), (3600, 10_800, PLAIN));
        assert_eq!(place(&mut clock, 10_800, 7200), (7200, 7200, MOVED));
        assert_eq!(place(&mut clock, 14_400, 10_800), (10_800, 10_800, PLAIN));
        assert_eq!(
            place(&mut clock, 18_000, -900_000),
            (14_400, 18_000, MOVED),
            "a presentation that cannot be"
        );
    }
}
