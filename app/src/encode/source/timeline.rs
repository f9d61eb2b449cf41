//! When pictures that come from somewhere else were captured, as far as their arrival tells.
//!
//! A pipe has no time stamps. Its pictures lie on a grid of the nominal rate; what [`Timeline`] finds out is where
//! the grid lies on the clock, and what to do with a picture that does not fit it:
//!
//! ```text
//!   on time, or a little late    at its place on the grid
//!   a little early               the grid moves there: no picture is younger than its arrival
//!   half a picture early         it waits for its place: the writer is faster than the rate
//!   so late that it was a stall  the grid moves on to now; what then comes in a burst is as old as the stall was
//!                                long, and gives way, so that the delay does not stay
//! ```

use glassline_media::{FrameRate, Time};
use std::time::Duration;

/// Later than this, and later than two pictures, is a stall: the stream's clock has gone on meanwhile.
const STALL: Duration = Duration::from_millis(100);
/// A source whose clock runs slower than ours is followed by as much of a picture's time each picture: 200 ppm.
const CREEP: u32 = 5_000;

/// What becomes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It was captured at this time, which may still come: then it waits.
    At {
        captured: Time,
        /// How late it was, if that was a stall.
        stalled: Option<Duration>,
    },
    /// It is old and gives way.
    Dropped,
}

/// Places arriving pictures on the clock.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    rate: FrameRate,
    /// Whether the source has a clock of its own that is to be followed; a file has none.
    follows: bool,
    /// When picture 0 of the grid is due.
    anchor: Option<Time>,
    number: u64,
    /// Time that a stall took and no burst has brought back.
    owed: Duration,
}

impl Timeline {
    /// A grid of `rate` that begins with the first picture.
    pub(super) fn new(rate: FrameRate, follows: bool) -> Timeline {
        Timeline { rate, follows, anchor: None, number: 0, owed: Duration::ZERO }
    }

    /// The place of a picture that is there at `now`. Captured times rise from picture to picture.
    pub(super) fn arrive(&mut self, now: Time) -> Place {
        let period = self.rate.time_of(1);
        let anchor = self.anchor.unwrap_or(now);
        let due = anchor + self.rate.time_of(self.number);
        let (early, late) = (due.since(now), now.since(due));
        let mut stalled = None;
        let mut shift = Duration::ZERO;
        if early > period / 2 || !self.follows && !early.is_zero() {
            if self.owed >= period {
                self.owed -= period;
                return Place::Dropped;
            }
        } else if !early.is_zero() {
            self.anchor = Some(Time::from_nanos(anchor.as_nanos().saturating_sub(early.as_nanos() as u64)));
            self.number += 1;
            return Place::At { captured: now, stalled };
        } else if late > STALL.max(2 * period) {
            (shift, stalled) = (late, Some(late));
            self.owed = if self.follows { self.owed + late } else { Duration::ZERO };
        } else if self.follows {
            shift = late.min(period / CREEP);
        }
        self.anchor = Some(anchor + shift);
        self.number += 1;
        Place::At { captured: due + shift, stalled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_millis(20);

    fn timeline(follows: bool) -> Timeline {
        Timeline::new(FrameRate::new(50, 1).unwrap(), follows)
    }

    fn at(place: Place) -> u64 {
        match place {
            Place::At { captured, .. } => captured.as_nanos() / 1000,
            Place::Dropped => panic!("dropped"),
        }
    }

    fn micros(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn a_file_keeps_to_its_rate() {
        let mut file = timeline(false);
        // All is there at once: each picture waits for its time.
        let places: Vec<u64> = (0..5).map(|_| at(file.arrive(micros(1000)))).collect();
        assert_eq!(places, [1000, 21_000, 41_000, 61_000, 81_000]);
        // A disk that was slow moves the grid, and nothing is left out.
        let place = file.arrive(micros(301_000));
        assert_eq!(place, Place::At { captured: micros(301_000), stalled: Some(Duration::from_millis(200)) });
        assert_eq!(at(file.arrive(micros(301_000))), 321_000);
    }

    #[test]
    fn a_writer_that_is_too_fast_waits_for_the_rate() {
        let mut pipe = timeline(true);
        let places: Vec<u64> = (0..4).map(|_| at(pipe.arrive(micros(0)))).collect();
        assert_eq!(places, [0, 20_000, 40_000, 60_000]);
    }

    #[test]
    fn jitter_is_taken_out_and_the_earliest_arrival_counts() {
        let mut pipe = timeline(true);
        assert_eq!(at(pipe.arrive(micros(5_000))), 5_000);
        // The first one was late by 5 ms, as it turns out.
        assert_eq!(at(pipe.arrive(micros(20_000))), 20_000);
        for number in 2..50u64 {
            let jitter = (number * 7919) % 5_000;
            let captured = at(pipe.arrive(micros(number * 20_000 + jitter)));
            assert!(captured.abs_diff(number * 20_000) <= 4 * number, "{number}: {captured}");
        }
    }

    #[test]
    fn clocks_that_run_otherwise_are_followed() {
        for real in [19_998u64, 20_002] {
            let mut pipe = timeline(true);
            let last = (0..10_000).map(|number| at(pipe.arrive(micros(number * real)))).last().unwrap();
            assert!(last.abs_diff(9_999 * real) < 20, "{real}: off by {}", last.abs_diff(9_999 * real));
        }
    }

    #[test]
    fn what_comes_in_a_burst_after_a_stall_gives_way() {
        let mut pipe = timeline(true);
        for number in 0..5 {
            pipe.arrive(micros(number * 20_000));
        }
        let place = pipe.arrive(micros(600_000));
        assert_eq!(place, Place::At { captured: micros(600_000), stalled: Some(Duration::from_millis(500)) });
        let dropped = (0..25).filter(|_| pipe.arrive(micros(600_000)) == Place::Dropped).count();
        assert_eq!(dropped, 25);
        assert_eq!(at(pipe.arrive(micros(620_000))), 620_000);
    }

    proptest! {
        /// Whatever comes when: time rises by at most half a picture's jump, and nothing waits longer than its turn.
        #[test]
        fn times_always_rise(
            gaps in proptest::collection::vec(prop_oneof![0u64..50_000, 0u64..500, 0u64..3_000_000], 1..200),
            follows: bool,
        ) {
            let (mut timeline, mut now, mut last) = (timeline(follows), 0, None);
            for gap in gaps {
                now += gap;
                if let Place::At { captured, stalled } = timeline.arrive(micros(now)) {
                    prop_assert!(last.is_none_or(|last| captured >= last + PERIOD / 2), "{captured:?} after {last:?}");
                    prop_assert!(stalled.is_none_or(|late| late > STALL && captured == micros(now)));
                    last = Some(captured);
                    // A picture that is to wait holds its source up.
                    now = now.max(captured.as_nanos() / 1000);
                }
            }
        }
    }
}
