//! How exactly the clock's references follow the position of their bytes, where the rate is constant.

use super::super::packet::Pcr;
use super::rules::{Rule, Tally};

/// References that one line is laid through: at 40 ms each, some twenty seconds, within which a clock's drift is even.
const WINDOW: usize = 512;
/// Fewer show no rate.
const ENOUGH: usize = 10;
/// Where a tenth to nine tenths of the intervals have rates this near, the rate counts as constant. Pictures of constant
/// size with tables between some of them are not: their rate is another one in each interval.
const SPREAD: f64 = 0.001;
const NANOS_PER_TICK: f64 = 1e9 / Pcr::RATE as f64;

/// Lays a line through the references of one window after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Accuracy {
    /// Number of the packet, and 27 MHz ticks.
    window: Vec<(u64, u64)>,
    constant: Option<bool>,
}

impl Accuracy {
    /// Whether all windows so far had a constant rate.
    pub(super) fn is_constant(&self) -> Option<bool> {
        self.constant
    }

    pub(super) fn reference(&mut self, packet: u64, ticks: u64, tally: &mut Tally) {
        self.window.push((packet, ticks));
        if self.window.len() >= WINDOW {
            self.judge(tally);
            // The next window goes on from here.
            self.window.drain(..WINDOW - 1);
        }
    }

    /// The clock begins anew.
    pub(super) fn restart(&mut self, tally: &mut Tally) {
        self.judge(tally);
        self.window.clear();
    }

    pub(super) fn finish(&mut self, tally: &mut Tally) {
        self.judge(tally);
        self.window.clear();
    }

    fn judge(&mut self, tally: &mut Tally) {
        if self.window.len() < ENOUGH {
            return;
        }
        let constant = self.has_constant_rate();
        self.constant = Some(constant && self.constant != Some(false));
        if !constant {
            return;
        }
        let (first, start) = self.window[0];
        let points: Vec<(f64, f64)> = (self.window.iter())
            .map(|&(packet, ticks)| ((packet - first) as f64, (ticks - start) as f64))
            .collect();
        let (offset, pace) = line(&points);
        for (&(packet, _), &(x, y)) in self.window.iter().zip(&points) {
            let off_ns = (y - offset - pace * x).abs() * NANOS_PER_TICK;
            tally.at_most(Rule::PcrAccuracy, off_ns, packet);
        }
    }

    fn has_constant_rate(&self) -> bool {
        let paces = self.window.windows(2).filter(|pair| pair[1].0 > pair[0].0);
        let mut paces: Vec<f64> =
            paces.map(|pair| (pair[1].1 - pair[0].1) as f64 / (pair[1].0 - pair[0].0) as f64).collect();
        paces.sort_by(f64::total_cmp);
        let Some(last) = paces.len().checked_sub(1) else { return false };
        let at = |share: f64| paces[(share * last as f64).round() as usize];
        at(0.9) - at(0.1) <= SPREAD * at(0.5)
    }
}

/// Offset and slope of the line of least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let (up, across) = points.iter().fold((0.0, 0.0), |(up, across), (x, y)| {
        (up + (x - mean_x) * (y - mean_y), across + (x - mean_x) * (x - mean_x))
    });
    let slope = if across > 0.0 { up / across } else { 0.0 };
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use super::super::rules::{Profile, Verdict};
    use super::*;

    /// A reference each 25 packets of 1,234.5 ticks, off by `error` ticks at one of them.
    fn judged(count: u64, error: u64) -> Verdict {
        let (mut accuracy, mut tally) = (Accuracy::default(), Tally::new(Profile::Iso));
        for k in 0..count {
            let exact = (k * 25 * 2469).div_ceil(2);
            accuracy.reference(k * 25, exact + if k == count / 3 { error } else { 0 }, &mut tally);
        }
        accuracy.finish(&mut tally);
        assert_eq!(accuracy.is_constant(), (count >= 10).then_some(true));
        tally.verdicts().into_iter().find(|verdict| verdict.rule == Rule::PcrAccuracy).unwrap()
    }

    #[test]
    fn half_a_microsecond_is_allowed_and_more_is_not() {
        assert_eq!(judged(9, 0).checked, 0);
        for count in [10, 600, 2000] {
            let exact = judged(count, 0);
            assert_eq!(exact.broken, 0, "{exact:?}");
            assert!(exact.checked >= count && exact.worst.unwrap() < 40.0, "{exact:?}");
        }
        let (near, far) = (judged(600, 12), judged(600, 17));
        assert_eq!((near.broken, far.broken), (0, 1), "{near:?} {far:?}");
        assert_eq!(far.first_packet, Some(200 * 25));
    }

    #[test]
    fn a_variable_rate_is_not_judged() {
        // Any, and pictures of 720 packets, behind each fifth of which come two with the tables.
        let packets: [fn(u64) -> u64; 2] = [|k| k * 25 + k % 3 * 7, |k| k * 720 + k / 5 * 2];
        for packet in packets {
            let (mut accuracy, mut tally) = (Accuracy::default(), Tally::new(Profile::Iso));
            for k in 0..100 {
                accuracy.reference(packet(k), k * 540_000, &mut tally);
            }
            accuracy.finish(&mut tally);
            assert_eq!(accuracy.is_constant(), Some(false));
            assert_eq!(tally.verdicts()[Rule::PcrAccuracy as usize].checked, 0);
        }
    }
}
