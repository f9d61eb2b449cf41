//! How much is done for each picture: in how many qualities it is encoded, and how fast, by the time that this took of late.

/// Of the time between two pictures, the share that encoding may take before it is asked for fewer candidates, and below which
/// for one more.
pub(super) const BUSY: f64 = 0.7;
const IDLE: f64 = 0.4;
/// The share from which on pictures are left out.
#[cfg(feature = "av1")]
const EXHAUSTED: f64 = 0.95;
/// What one picture's share counts.
const GAIN: f64 = 0.1;
/// What is taken to be the share before the first picture.
const FIRST_LOAD: f64 = 0.5;
/// A second candidate costs a third of the first one, and a picture that is not sent all of it.
const LEAST_CANDIDATES: usize = 2;
/// Candidates of the first pictures: more once it has been seen that there is time.
const FIRST_CANDIDATES: usize = 2;

/// Fewer candidates where encoding takes too much of the time between two pictures, then a faster encoder; back where there is
/// room.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    most_candidates: usize,
    /// The speed that was asked for.
    slowest: u8,
    /// The fastest that the encoder is made where time is short with the fewest candidates.
    fastest: u8,
    candidates: usize,
    speed: u8,
    /// The share of the time between pictures that encoding took lately.
    load: f64,
}

impl Effort {
    /// Within what was asked for: so many candidates, and no slower than this; and no faster than that.
    pub(super) fn new(most_candidates: usize, slowest: u8, fastest: u8) -> Effort {
        let candidates = most_candidates.min(FIRST_CANDIDATES);
        Effort { most_candidates, slowest, fastest, candidates, speed: slowest, load: FIRST_LOAD }
    }

    /// In how many qualities pictures are encoded.
    pub(super) fn candidates(&self) -> usize {
        self.candidates
    }

    /// The encoder's speed against quality, 0 to 10.
    pub(super) fn speed(&self) -> u8 {
        self.speed
    }

    /// Whether pictures are left out since encoding takes too long with the fewest candidates and the fastest encoder.
    #[cfg(feature = "av1")]
    pub(super) fn is_exhausted(&self) -> bool {
        let least = LEAST_CANDIDATES.min(self.most_candidates);
        self.load > EXHAUSTED && self.candidates <= least && self.speed >= self.fastest
    }

    /// A picture has taken this share of the time to the next one. Returns whether the next one is encoded otherwise.
    pub(super) fn handle_share(&mut self, share: f64) -> bool {
        self.load += GAIN * (share - self.load);
        let least = LEAST_CANDIDATES.min(self.most_candidates);
        if self.load > BUSY && self.candidates > least {
            self.candidates -= 1;
        } else if self.load > BUSY && self.speed < self.fastest {
            self.speed += 1;
        } else if self.load < IDLE && self.speed > self.slowest {
            self.speed -= 1;
        } else if self.load < IDLE && self.candidates < self.most_candidates {
            self.candidates += 1;
        } else {
            return false;
        }
        self.load = (BUSY + IDLE) / 2.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reached with this share for a while.
    fn settled(effort: &mut Effort, share: f64) -> (usize, u8) {
        for _ in 0..200 {
            effort.handle_share(share);
        }
        (effort.candidates(), effort.speed())
    }

    #[test]
    fn time_that_is_left_gives_candidates_and_time_that_lacks_takes_them() {
        let mut effort = Effort::new(4, 4, 9);
        assert_eq!((effort.candidates(), effort.speed()), (2, 4));
        assert_eq!(settled(&mut effort, 0.5), (2, 4), "neither busy nor idle");
        assert_eq!(settled(&mut effort, 0.2), (4, 4));
        // Candidates go first, then care; care comes back first.
        let mut seen = Vec::new();
        for _ in 0..200 {
            if effort.handle_share(0.9) {
                seen.push((effort.candidates(), effort.speed()));
            }
        }
        assert_eq!(seen, [(3, 4), (2, 4), (2, 5), (2, 6), (2, 7), (2, 8), (2, 9)]);
        let mut seen = Vec::new();
        for _ in 0..200 {
            if effort.handle_share(0.3) {
                seen.push((effort.candidates(), effort.speed()));
            }
        }
        assert_eq!(seen, [(2, 8), (2, 7), (2, 6), (2, 5), (2, 4), (3, 4), (4, 4)]);
    }

    #[test]
    fn one_late_picture_changes_nothing() {
        let mut effort = Effort::new(4, 4, 9);
        settled(&mut effort, 0.3);
        assert!(!effort.handle_share(3.0));
        assert_eq!((effort.candidates(), effort.speed()), (4, 4));
    }

    #[test]
    fn what_was_asked_for_is_not_passed() {
        // Already the fastest.
        assert_eq!(settled(&mut Effort::new(6, 9, 9), 2.0), (2, 9));
        assert_eq!(settled(&mut Effort::new(1, 0, 9), 0.1), (1, 0));
        assert_eq!(settled(&mut Effort::new(1, 0, 9), 2.0), (1, 9));
    }
}
