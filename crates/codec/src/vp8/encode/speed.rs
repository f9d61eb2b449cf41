//! What a speed level switches.

/// Of the time for a picture, the share that may be gone when its first row is begun, and how much its rows may take together.
/// The rest is for the loop filter, for writing, and for the search of a size.
const FIRST_ROW_AFTER: f64 = 0.12;
const ROWS_TAKE: f64 = 0.5;
/// By how much of the time a row is late for one step of speed.
const LATE_STEP: f64 = 0.02;
/// The highest speed.
const FASTEST: u8 = 10;

/// The speed of a row before which the share `done` of a picture's rows was begun, while the share `spent` of its time is gone:
/// `speed`, or a higher one where it is late.
pub(crate) fn hurried(speed: u8, spent: f64, done: f64) -> u8 {
    let late = spent - (FIRST_ROW_AFTER + ROWS_TAKE * done);
    let steps = (late / LATE_STEP).clamp(0.0, f64::from(FASTEST));
    speed.saturating_add(steps as u8).min(FASTEST.max(speed))
}

/// The tools of a speed level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tools {
    /// Rounds of the whole-sample search at each step.
    pub(crate) rounds: usize,
    /// The first step of the whole-sample search, in samples.
    pub(crate) first_step: i32,
    /// Whether positions between samples are judged by SATD instead of SAD.
    pub(crate) sub_pel_satd: bool,
    /// Rounds of quarter-sample steps around the best; 0 is a step in each dimension, to the side that seems better.
    pub(crate) quarter_rounds: usize,
    /// Whether golden and altref are searched, not only looked at where nothing moves.
    pub(crate) search_all: bool,
    /// Whether macroblocks may be split into four pieces.
    pub(crate) quarters: bool,
    /// Into two.
    pub(crate) halves: bool,
    /// Into sixteen.
    pub(crate) sixteenths: bool,
    /// Whether each coefficient is weighed against its bits.
    pub(crate) weigh: bool,
    /// B_PRED in inter frames.
    pub(crate) subblocks: bool,
    /// Below this SATD, in steps of the quantiser, hardly any coefficient is left, and nothing else is searched.
    pub(crate) quiet: u32,
    /// Above this SATD, in steps of the quantiser, inter frames try intra modes.
    pub(crate) try_intra: u32,
}

impl Tools {
    /// The tools of `speed`, 0 (best) to 10 (fastest).
    pub(crate) fn new(speed: u8) -> Tools {
        Tools {
            rounds: match speed {
                0..=2 => 16,
                3..=6 => 8,
                _ => 4,
            },
            first_step: match speed {
                0..=4 => 4,
                5 => 2,
                _ => 1,
            },
            sub_pel_satd: speed <= 4,
            quarter_rounds: match speed {
                0..=2 => 3,
                3..=4 => 1,
                _ => 0,
            },
            search_all: speed <= 3,
            quarters: speed <= 5,
            halves: speed <= 3,
            sixteenths: speed <= 1,
            weigh: speed <= 8,
            subblocks: speed <= 7,
            quiet: match speed {
                0..=3 => 7,
                4 => 10,
                5 => 12,
                6 => 14,
                7 => 18,
                8..=9 => 20,
                _ => 24,
            },
            try_intra: match speed {
                0..=3 => 5,
                4 => 8,
                5 => 14,
                6 => 20,
                7 => 24,
                8 => 28,
                _ => 40,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_late_is_coded_faster_the_later_it_is() {
        assert_eq!(hurried(4, 0.0, 0.0), 4, "without a bound");
        assert_eq!([0.1, 0.3, 0.6].map(|spent| hurried(4, spent, 1.0)), [4; 3], "in time");
        assert_eq!([0.15, 0.17, 0.2, 0.5, 9.0].map(|spent| hurried(4, spent, 0.0)), [5, 6, 8, 10, 10]);
        // The same time is late for the first rows, and not for the last ones.
        let speeds = [0.0, 0.25, 0.5, 0.75, 1.0].map(|done| hurried(2, 0.4, done));
        assert!(speeds.is_sorted_by(|a, b| a >= b) && speeds[0] == 10 && speeds[4] == 2, "{speeds:?}");
        assert_eq!((hurried(10, 9.0, 0.0), hurried(255, 9.0, 0.0)), (10, 255));
    }
}
