//! How much of a stream has passed, by its time stamps.

use glassline_media::{Ticks, Time};

/// A step between time stamps beyond this is a jump of the time stamps, not time that has passed.
const JUMP_TICKS: i64 = 5 * Ticks::RATE as i64;

/// Time stamps to time from the first one on, across jumps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeline {
    /// A time stamp, and its place.
    base: Option<(Ticks, Time)>,
    newest: Time,
}

impl Timeline {
    /// The place of `ticks`. Where it is far from all before, it stands behind what has passed.
    pub(super) fn place(&mut self, ticks: Ticks) -> Time {
        let place = self.base.map(|(base, time)| {
            let nanos = i128::from(ticks.0.saturating_sub(base.0)) * 1_000_000_000 / i128::from(Ticks::RATE);
            i128::from(time.as_nanos()) + nanos
        });
        let newest = i128::from(self.newest.as_nanos());
        let jump = i128::from(JUMP_TICKS) * 1_000_000_000 / i128::from(Ticks::RATE);
        let place = match place {
            Some(place) if (newest - jump..=newest + jump).contains(&place) => {
                Time::from_nanos(u64::try_from(place.max(0)).unwrap_or(0))
            }
            _ => {
                self.base = Some((ticks, self.newest));
                self.newest
            }
        };
        self.newest = self.newest.max(place);
        place
    }

    /// How much has passed.
    pub(super) fn newest(&self) -> Time {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jumps_are_no_time() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.place(Ticks(900_000)), Time::ZERO);
        assert_eq!(timeline.place(Ticks(990_000)), Time::from_millis(1000));
        assert_eq!(timeline.place(Ticks(981_000)), Time::from_millis(900));
        assert_eq!(timeline.place(Ticks(90_000_000)), Time::from_millis(1000));
        assert_eq!(timeline.place(Ticks(90_090_000)), Time::from_millis(2000));
        assert_eq!(timeline.place(Ticks(0)), Time::from_millis(2000));
        assert_eq!(timeline.place(Ticks(-45_000)), Time::from_millis(1500));
    }

    proptest! {
        #[test]
        fn any_ticks_go_no_further_than_a_jump_at_once(ticks in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut timeline = Timeline::default();
            for ticks in ticks {
                let before = timeline.newest();
                timeline.place(Ticks(ticks));
                prop_assert!(timeline.newest() >= before);
                prop_assert!(timeline.newest().since(before).as_secs() <= 5);
            }
        }
    }
}
