//! Where the time of pictures goes, stage by stage, by their own stamps.

use glassline_inspect::Samples;
use glassline_media::{Stage, Stamps};
use serde::{Deserialize, Serialize};

/// From the stage before to this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage's name ([`Stage::name`]).
    pub stage: String,
    /// The median, ms.
    pub p50_ms: f64,
    /// The 95th percentile.
    pub p95_ms: f64,
    /// The 99th.
    pub p99_ms: f64,
}

/// Collects the stamps of pictures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline([Samples; Stage::ALL.len()]);

impl Timeline {
    /// A picture that was shown.
    pub(crate) fn push(&mut self, stamps: &Stamps) {
        for step in stamps.budget() {
            self.0[step.to as usize].push(step.time.as_secs_f64() * 1e3);
        }
    }

    /// The stages that pictures have passed, in their order.
    pub(crate) fn stages(&self) -> Vec<StageTime> {
        let of = |(stage, samples): (Stage, &Samples)| {
            let distribution = samples.distribution(|value| (value * 100.0).round() / 100.0)?;
            let (p50_ms, p95_ms, p99_ms) = (distribution.p50, distribution.p95, distribution.p99);
            Some(StageTime { stage: stage.name().to_owned(), p50_ms, p95_ms, p99_ms })
        };
        Stage::ALL.into_iter().zip(&self.0).filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Time;

    #[test]
    fn stages_are_told_from_one_to_the_next_that_was_passed() {
        let mut timeline = Timeline::default();
        for number in 0..100 {
            let captured = Time::from_millis(1_000 * number);
            let at = |ms| captured + std::time::Duration::from_millis(ms);
            let late = if number < 10 { 30 } else { 0 };
            let stamps = Stamps::captured_at(captured)
                .with(Stage::EncoderIn, at(2))
                .with(Stage::Encoded, at(12 + late))
                .with(Stage::Decoded, at(50 + late));
            timeline.push(&stamps);
        }
        let stages = timeline.stages();
        let names: Vec<&str> = stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!(names, [Stage::EncoderIn.name(), Stage::Encoded.name(), Stage::Decoded.name()]);
        assert_eq!(
            (stages[0].p50_ms, stages[1].p50_ms, stages[1].p95_ms, stages[2].p99_ms),
            (2.0, 10.0, 40.0, 38.0)
        );
        assert_eq!(Timeline::default().stages(), []);
    }
}
