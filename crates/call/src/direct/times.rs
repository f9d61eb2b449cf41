//! How long pictures take from stage to stage: the latency budget of what was shown.

use glassline_media::{Stage, Stamps};
use hdrhistogram::Histogram;
use std::time::Duration;

/// Longer times are counted as this one: a minute.
const LONGEST_MICROS: u64 = 60_000_000;

/// Quantiles of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest; a minute at most.
    pub max: Duration,
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Times {
        let at = |quantile| Duration::from_micros(histogram.value_at_quantile(quantile));
        Times {
            count: histogram.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: Duration::from_micros(histogram.max()),
        }
    }
}

/// Times by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// From the stage before that was passed to this one, in the order of the stages; those that were never passed are left out.
    pub stages: Vec<(Stage, Times)>,
    /// From capture to the screen.
    pub total: Times,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record((time.as_micros().min(u128::from(LONGEST_MICROS)) as u64).max(1));
}

/// Collects the stamps of pictures.
pub(super) struct StageMeter {
    stages: [Histogram<u64>; Stage::ALL.len()],
    total: Histogram<u64>,
}

impl StageMeter {
    pub(super) fn new() -> StageMeter {
        StageMeter { stages: std::array::from_fn(|_| histogram()), total: histogram() }
    }

    pub(super) fn record(&mut self, stamps: &Stamps) {
        for step in stamps.budget() {
            record(&mut self.stages[step.to as usize], step.time);
        }
        if let Some(total) = stamps.between(Stage::Captured, Stage::Shown) {
            record(&mut self.total, total);
        }
    }

    pub(super) fn times(&self) -> StageTimes {
        let passed = Stage::ALL.into_iter().zip(&self.stages).filter(|(_, histogram)| !histogram.is_empty());
        StageTimes {
            stages: passed.map(|(stage, histogram)| (stage, Times::of(histogram))).collect(),
            total: Times::of(&self.total),
        }
    }

    /// What was collected since the last call.
    pub(super) fn take(&mut self) -> StageTimes {
        let times = self.times();
        self.stages.iter_mut().for_each(Histogram::reset);
        self.total.reset();
        times
    }
}

/// Collects times of one kind.
pub(super) struct TimeMeter(Histogram<u64>);

impl TimeMeter {
    pub(super) fn new() -> TimeMeter {
        TimeMeter(histogram())
    }

    pub(super) fn record(&mut self, time: Duration) {
        record(&mut self.0, time);
    }

    /// What was collected since the last call.
    pub(super) fn take(&mut self) -> Times {
        let times = Times::of(&self.0);
        self.0.reset();
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Time;

    #[test]
    fn stages_that_were_passed_are_told_and_then_forgotten() {
        let mut meter = StageMeter::new();
        for extra in 0..100 {
            let mut stamps = Stamps::captured_at(Time::from_millis(1000));
            stamps.set(Stage::Encoded, Time::from_millis(1005));
            stamps.set(Stage::Shown, Time::from_millis(1010 + extra));
            meter.record(&stamps);
        }
        let times = meter.take();
        assert_eq!(
            times.stages.iter().map(|(stage, _)| *stage).collect::<Vec<_>>(),
            [Stage::Encoded, Stage::Shown]
        );
        assert_eq!(times.stages[0].1.p50.as_millis(), 5);
        assert!((58..62).contains(&times.total.p50.as_millis()), "{:?}", times.total);
        assert_eq!((times.total.count, meter.take().total.count), (100, 0));
    }

    #[test]
    fn a_time_is_a_microsecond_at_least_and_a_minute_at_most() {
        let mut meter = TimeMeter::new();
        meter.record(Duration::ZERO);
        let least = meter.take();
        assert_eq!(
            (least.count, least.p50, least.max),
            (1, Duration::from_micros(1), Duration::from_micros(1))
        );
        meter.record(Duration::from_secs(3600));
        let most = meter.take().max;
        assert!(most.abs_diff(Duration::from_secs(60)) < Duration::from_millis(100), "{most:?}");
    }

    #[test]
    fn nothing_that_was_collected_is_told_as_nothing() {
        assert_eq!(TimeMeter::new().take(), Times::default());
        assert_eq!(StageMeter::new().take(), StageTimes::default());
    }

    #[test]
    fn all_times_stay_where_they_are_only_looked_at() {
        let mut meter = StageMeter::new();
        let stamps = Stamps::captured_at(Time::from_millis(1)).with(Stage::Encoded, Time::from_millis(3));
        meter.record(&stamps);
        assert_eq!(meter.times(), meter.times());
        assert_eq!(meter.times().stages[0].1.count, 1);
        // A picture that was not shown counts in no total.
        assert_eq!(meter.take().total.count, 0);
        assert!(meter.times().stages.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn quantiles_lie_among_what_was_recorded(micros in proptest::collection::vec(1u64..60_000_000, 1..200)) {
            let mut meter = TimeMeter::new();
            micros.iter().for_each(|time| meter.record(Duration::from_micros(*time)));
            let mut sorted = micros.clone();
            sorted.sort_unstable();
            let times = meter.take();
            proptest::prop_assert_eq!(times.count, micros.len() as u64);
            for (told, quantile) in [(times.p50, 0.5), (times.p95, 0.95), (times.p99, 0.99), (times.max, 1.0)] {
                let rank = ((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
                let (told, exact) = (told.as_micros() as u64, sorted[rank - 1]);
                // Three digits are kept.
                proptest::prop_assert!(told.abs_diff(exact) <= exact / 500 + 1, "{told} for {exact} at {quantile}");
            }
        }
    }
}
