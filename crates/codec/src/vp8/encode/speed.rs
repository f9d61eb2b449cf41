//! What a speed level switches.

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
