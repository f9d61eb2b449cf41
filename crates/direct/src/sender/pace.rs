//! What bounds pictures beside the link's budget: a cap of the rate; and those that go although they do not fit, so that something
//! comes back.

use crate::decision::Reason;
use glassline_media::quantity::Bitrate;
use glassline_media::{FrameRate, Time};
use std::time::Duration;

/// After so many pictures in a row that were not sent, the smallest one goes, so that something comes back. (Salsify waits for
/// four: measured on cellular traces, two less give the same quality and a shorter delay; fewer put pictures on the way that are
/// hardly worth to be seen.)
const SKIPS_MAX: u32 = 2;
/// So many smallest pictures leave like that, one after the other; then each waits twice as long as the one before, up to this: a
/// way that takes next to nothing would only be filled by them, and they would come seconds late.
const SMALLEST_AT_PACE: u32 = 8;
const SMALLEST_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// Pictures' worth of bytes that a cap of the rate lets be saved up.
const SAVED_PICTURES: f64 = 4.0;

/// A cap of the rate: bytes that may be spent now.
#[derive(Clone, Copy, Debug)]
struct Spending {
    per_picture: f64,
    left: f64,
}

/// What a cap of the rate allows; without one everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance(Option<Spending>);

impl Allowance {
    /// No more than so many bits a second.
    pub(super) fn new(most: Option<Bitrate>, frame_rate: FrameRate) -> Allowance {
        let per_picture = |rate: Bitrate| rate.bits_per_second() as f64 / 8.0 / frame_rate.as_f64();
        Allowance(most.map(per_picture).map(|bytes| Spending { per_picture: bytes, left: bytes }))
    }

    /// The time of another picture has come.
    pub(super) fn begin_picture(&mut self) {
        if let Some(spending) = &mut self.0 {
            let most = SAVED_PICTURES * spending.per_picture;
            spending.left = (spending.left + spending.per_picture).min(most);
        }
    }

    /// What of a budget may be used, bytes.
    pub(super) fn within(&self, budget: u64) -> u64 {
        self.0.map_or(budget, |spending| budget.min(spending.left.max(0.0) as u64))
    }

    /// So many bytes go.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Some(spending) = &mut self.0 {
            spending.left -= bytes as f64;
        }
    }
}

/// Pictures that did not fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skips {
    /// In a row, not sent.
    in_a_row: u32,
    /// Pictures that were sent although they did not fit since one has fitted, and when the next one may be.
    smallest: u32,
    smallest_from: Time,
}

impl Skips {
    /// Whether the smallest candidate goes of a picture that does not fit.
    pub(super) fn takes_smallest(&self, captured: Time) -> bool {
        self.in_a_row >= SKIPS_MAX && captured >= self.smallest_from
    }

    /// What was decided of a picture, `interval` before the next one.
    pub(super) fn note(&mut self, reason: Reason, captured: Time, interval: Duration) {
        match reason {
            Reason::Smallest => {
                self.smallest += 1;
                let doublings = self.smallest.saturating_sub(SMALLEST_AT_PACE).min(8);
                let pace = interval * SKIPS_MAX;
                let wait = (pace * (1 << doublings)).min(SMALLEST_INTERVAL_MAX.max(pace));
                self.smallest_from = captured + if doublings == 0 { Duration::ZERO } else { wait };
            }
            Reason::Fits | Reason::Searched => (self.smallest, self.smallest_from) = (0, Time::ZERO),
            Reason::Skipped | Reason::Conventional => {}
        }
        self.in_a_row = if reason == Reason::Skipped { self.in_a_row + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_goes_after_some_that_did_not_and_then_ever_more_rarely() {
        let interval = Duration::from_millis(40);
        let (mut skips, mut sent) = (Skips::default(), Vec::new());
        for number in 0..150 {
            let captured = Time::ZERO + interval * number;
            let takes = skips.takes_smallest(captured);
            skips.note(if takes { Reason::Smallest } else { Reason::Skipped }, captured, interval);
            sent.extend(takes.then_some(number));
        }
        let gaps: Vec<u32> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps[..10], [3, 3, 3, 3, 3, 3, 3, 3, 4, 8]);
        assert!(gaps[10..].iter().all(|gap| *gap == 13), "half a second: {gaps:?}");
        skips.note(Reason::Fits, Time::from_millis(6_000), interval);
        assert!(!skips.takes_smallest(Time::from_millis(6_040)));
    }

    #[test]
    fn a_cap_saves_the_bytes_of_a_few_pictures() {
        let mut free = Allowance::new(None, FrameRate::new(25, 1).expect("a rate"));
        free.spend(1 << 30);
        assert_eq!(free.within(5_000), 5_000);
        let cap = Bitrate::from_bits_per_second(200_000);
        let mut capped = Allowance::new(Some(cap), FrameRate::new(25, 1).expect("a rate"));
        assert_eq!(capped.within(5_000), 1_000);
        capped.spend(1_500);
        capped.begin_picture();
        assert_eq!(capped.within(5_000), 500);
        (0..9).for_each(|_| capped.begin_picture());
        assert_eq!(capped.within(5_000), 4_000);
    }
}
