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
    /// Rounds of quarter-sample steps.
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
            first_step: if speed <= 4 { 4 } else { 2 },
            sub_pel_satd: speed <= 4,
            quarter_rounds: if speed <= 2 { 3 } else { 1 },
            search_all: speed <= 3,
            quarters: speed <= 5,
            halves: speed <= 3,
            sixteenths: speed <= 1,
            weigh: speed <= 8,
            subblocks: speed <= 7,
        }
    }
}
