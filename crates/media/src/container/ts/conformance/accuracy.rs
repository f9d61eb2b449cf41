//! How exactly the clock's references follow the position of their bytes, where the rate is constant.

use super::super::packet::Pcr;
use super::rules::{Rule, Tally};

/// References that one line is laid through: at 40 ms each, some twenty seconds, within which a clock's drift is even.
const WINDOW: usize = 512;
/// Fewer show no rate.
const ENOUGH: usize = 10;
/// Where a tenth to nine tenths of the intervals have rates this near, the rate is meant to be constant.
const SPREAD: f64 = 0.05;
/// A stream with null packets says that its rate is meant to be constant, however much its clock jitters: there the
/// parts of a window, so many, have to have rates that near.
const PARTS: usize = 4;
const NANOS_PER_TICK: f64 = 1e9 / Pcr::RATE as f64;

/// A reference of the clock.
#[derive(Clone, Copy, Debug)]
struct Reference {
    /// Number of its packet.
    packet: u64,
    /// 27 MHz.
    ticks: u64,
    /// Whether null packets came since the one before.
    padded: bool,
}

/// Lays a line through the references of one window after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Accuracy {
    window: Vec<Reference>,
    has_nulls: bool,
    constant: Option<bool>,
}

impl Accuracy {
    /// Whether all windows so far had a constant rate.
    pub(super) fn is_constant(&self) -> Option<bool> {
        self.constant
    }

    /// A null packet.
    pub(super) fn null(&mut self) {
        self.has_nulls = true;
    }

    pub(super) fn reference(&mut self, packet: u64, ticks: u64, tally: &mut Tally) {
        let padded = std::mem::take(&mut self.has_nulls);
        self.window.push(Reference { packet, ticks, padded });
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
        let constant = self.is_meant_constant();
        self.constant = Some(constant && self.constant != Some(false));
        if !constant {
            return;
        }
        let first = self.window[0];
        let points: Vec<(f64, f64)> = (self.window.iter())
            .map(|it| ((it.packet - first.packet) as f64, (it.ticks - first.ticks) as f64))
            .collect();
        let (offset, pace) = line(&points);
        for (reference, &(x, y)) in self.window.iter().zip(&points) {
            let off_ns = (y - offset - pace * x).abs() * NANOS_PER_TICK;
            tally.at_most(Rule::PcrAccuracy, off_ns, reference.packet);
        }
    }

    /// By the rates of its intervals; of a stream that is padded, by those of longer parts.
    fn is_meant_constant(&self) -> bool {
        let steps = || self.window.windows(2).filter_map(pace);
        if is_even(steps().collect()) {
            return true;
        }
        let padded = self.window[1..].iter().filter(|it| it.padded).count();
        let part = self.window.len() / PARTS;
        // A part is a line of its own from its first reference to its last: jitter of a few references is nothing to it.
        padded * 2 >= self.window.len()
            && part >= ENOUGH
            && is_even(self.window.chunks_exact(part).filter_map(pace).collect())
    }
}

/// Ticks a packet, from the first reference to the last.
fn pace(references: &[Reference]) -> Option<f64> {
    let (first, last) = (references.first()?, references.last()?);
    let packets = last.packet - first.packet;
    (packets > 0).then(|| (last.ticks - first.ticks) as f64 / packets as f64)
}

/// Whether a tenth to nine tenths of them are near each other.
fn is_even(mut paces: Vec<f64>) -> bool {
    paces.sort_by(f64::total_cmp);
    let Some(last) = paces.len().checked_sub(1) else { return false };
    let at = |share: f64| paces[(share * last as f64).round() as usize];
    at(0.9) - at(0.1) <= SPREAD * at(0.5)
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

    /// Of references each 540,000 ticks, by their number: on which packet, how late in ticks, whether null packets came
    /// before. Whether the rate was taken for constant, and the verdict.
    fn of(packet: fn(u64) -> u64, late: fn(u64) -> u64, padded: bool) -> (Option<bool>, Verdict) {
        let (mut accuracy, mut tally) = (Accuracy::default(), Tally::new(Profile::Iso));
        for k in 0..100 {
            if padded {
                accuracy.null();
            }
            accuracy.reference(packet(k), 1_000_000 + k * 540_000 + late(k), &mut tally);
        }
        accuracy.finish(&mut tally);
        let verdict = tally.verdicts()[Rule::PcrAccuracy as usize];
        (accuracy.is_constant(), verdict)
    }

    #[test]
    fn a_variable_rate_is_not_judged() {
        let varies: fn(u64) -> u64 = |k| k * 25 + k % 3 * 7;
        let (constant, verdict) = of(varies, |_| 0, false);
        assert_eq!((constant, verdict.checked), (Some(false), 0));
        // With a null packet here and there, too: it has another rate in each part.
        let grows: fn(u64) -> u64 = |k| k * 700 + k * k;
        assert_eq!(of(grows, |_| 0, true).0, Some(false));
    }

    #[test]
    fn what_is_nearly_constant_is_held_to_it() {
        // Pictures of 720 packets, behind each fifth of which come two with the tables.
        let sloppy: fn(u64) -> u64 = |k| k * 720 + k / 5 * 2;
        let (constant, verdict) = of(sloppy, |_| 0, false);
        assert_eq!(constant, Some(true));
        assert!(verdict.broken > 50, "{verdict:?}");
    }

    #[test]
    fn null_packets_say_that_the_rate_is_meant_constant() {
        // Jitter of a tenth of an interval: no rate of any interval is near another.
        let jitter: fn(u64) -> u64 = |k| k * 7919 % 54_000;
        assert_eq!(of(|k| k * 720, jitter, false).0, Some(false));
        let (constant, verdict) = of(|k| k * 720, jitter, true);
        assert_eq!(constant, Some(true));
        assert!(verdict.broken > 90 && verdict.worst.unwrap() > 500_000.0, "{verdict:?}");
    }
}
