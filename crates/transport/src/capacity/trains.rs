//! What the trains of the last moments say of a path where the rate changes from one picture to the next.
//!
//! The rate that a path is known to carry follows the fastest train, so that more room is used as soon as it shows, and falls where a
//! queue stands. On a cellular network, which carries three times as much in one picture's time as in the next, it is therefore
//! what the path carries at its best, and a picture of that size is late whenever the next moment is a usual one. So a message
//! may have what slower trains of late had too: that costs nothing where all of them are alike.

use super::Feedback;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// For so long a train counts. Half as long and twice as long give the same on cellular traces; the longer, the later a path that
/// has become wider is used.
const LIFE: Duration = Duration::from_millis(500);
/// Trains that are remembered, at most: pictures at 120 a second.
const MOST: usize = 60;
/// Fewer trains say nothing of how much they differ.
const LEAST: usize = 5;
/// The share of trains that may have been slower than the rate that is counted with, and how much more than that one is sent:
/// trains that are slowed down by nothing measure a little less than what the path carries. (Measured on twelve cellular traces with
/// pictures that use nine tenths of their budgets: less of either buys delay with size, at the price that shorter pictures have
/// too. With these, pictures are as large as without them, and on average by 2 % less late at the 95th percentile: of four that were
/// looked at one by one, by 6 and 7 % less on two and by 2 % more on the others.)
const SLOWER: f64 = 0.5;
const MARGIN: f64 = 1.3;

/// The rates of the newest trains.
#[derive(Clone, Debug, Default)]
pub(super) struct Trains {
    /// When each was measured last, its number and its bytes a second; the newest behind.
    seen: VecDeque<(Time, u32, f64)>,
}

impl Trains {
    /// Takes what an acknowledgement says of the train that it belongs to.
    pub(super) fn handle_feedback(&mut self, now: Time, feedback: &Feedback) {
        let Some(rate) = feedback.train_rate else { return };
        let rate = rate.bytes_per_second() as f64;
        match self.seen.back_mut() {
            // More of it has come: its rate is known better.
            Some((at, number, known)) if *number == feedback.train => (*at, *known) = (now, rate),
            _ => self.seen.push_back((now, feedback.train, rate)),
        }
        let is_old = |seen: &VecDeque<(Time, u32, f64)>| {
            seen.len() > MOST || seen.front().is_some_and(|(at, ..)| now.since(*at) > LIFE)
        };
        while is_old(&self.seen) {
            self.seen.pop_front();
        }
    }

    /// Bytes a second that a message may count with; `None` where too little is known.
    pub(super) fn usual(&self, now: Time) -> Option<f64> {
        let fresh = self.seen.iter().filter(|(at, ..)| now.since(*at) <= LIFE);
        let mut rates: Vec<f64> = fresh.map(|(.., rate)| *rate).collect();
        if rates.len() < LEAST {
            return None;
        }
        rates.sort_by(f64::total_cmp);
        rates.get((SLOWER * (rates.len() - 1) as f64) as usize).map(|rate| MARGIN * rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::quantity::ByteRate;

    fn trains(rates: impl IntoIterator<Item = u64>) -> Trains {
        let mut trains = Trains::default();
        for (number, rate) in (0u32..).zip(rates) {
            let train_rate = Some(ByteRate::from_bytes_per_second(rate));
            let feedback = Feedback { train: number, train_rate, ..Feedback::default() };
            trains.handle_feedback(Time::from_millis(u64::from(number) * 33), &feedback);
        }
        trains
    }

    #[test]
    fn trains_that_are_alike_limit_nothing_and_those_that_differ_do() {
        let alike = trains([100_000; 10]).usual(Time::from_millis(330));
        assert!(alike.is_some_and(|usual| (usual - 130_000.0).abs() < 1.0), "{alike:?}");
        let differ =
            trains([20_000, 100_000, 30_000, 110_000, 40_000, 100_000, 25_000, 90_000, 20_000, 35_000]);
        let usual = differ.usual(Time::from_millis(330)).unwrap_or_default();
        assert!((40_000.0..60_000.0).contains(&usual), "{usual}");
    }

    #[test]
    fn what_is_old_or_little_says_nothing() {
        assert_eq!(trains([100_000; 4]).usual(Time::from_millis(132)), None);
        assert_eq!(trains([100_000; 10]).usual(Time::from_millis(1_000)), None);
        // A path that has become wider is known to be after half a second.
        let wider = trains([100_000; 10].into_iter().chain([400_000; 12]));
        assert!(wider.usual(Time::from_millis(22 * 33)).is_some_and(|usual| usual >= 400_000.0));
        assert!(trains([1; 1_000]).seen.len() <= MOST);
    }

    #[test]
    fn a_train_counts_once_with_what_is_known_of_it_last() {
        let mut trains = Trains::default();
        for (train, rate) in [(1, 10), (1, 20), (1, 30), (2, 40), (3, 50)] {
            let train_rate = Some(ByteRate::from_bytes_per_second(rate));
            trains.handle_feedback(Time::ZERO, &Feedback { train, train_rate, ..Feedback::default() });
        }
        let rates: Vec<f64> = trains.seen.iter().map(|(.., rate)| *rate).collect();
        assert_eq!(rates, [30.0, 40.0, 50.0]);
    }
}
