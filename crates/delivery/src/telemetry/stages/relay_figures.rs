//! What one server knows of the pictures that pass through it, by what their senders say and by its own stages.

use super::part::{Part, sender_parts};
use super::steps::{Percentiles, Step, Steps, Tally};
use glassline_media::stamps::{STAGE_LONGEST, StageCount};
use glassline_media::{Stage, Stamps, Time, Utc};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Values of a part in a step; those beyond are left out.
const SAMPLES_MAX: usize = 4096;

/// This server's stages.
pub const RELAY_STAGES: [Stage; 5] = [
    Stage::RelayFirstByte,
    Stage::RelayReceived,
    Stage::RelayReleased,
    Stage::RelayFlushed,
    Stage::RelaySent,
];
/// Of these, those of which an earlier version hands counts over, by place.
const COUNTED_FIRST: [Stage; 4] =
    [Stage::RelayFirstByte, Stage::RelayReceived, Stage::RelayFlushed, Stage::RelaySent];

/// A picture that says when it was captured, and has passed this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedPicture {
    /// When it was captured, as the stream says.
    pub captured: Utc,
    /// When its first packet came.
    pub first_byte: Time,
    /// When its last packet came.
    pub received: Time,
    /// When the transport gave its last packet out, where that holds back what comes.
    pub released: Option<Time>,
    /// When viewers could have all of it.
    pub flushed: Time,
    /// When all of it had been handed to the kernel for the first viewer; `None` where no viewer was given it.
    pub sent: Option<Time>,
    /// How far this server's wall clock was ahead of its monotonic one then, in nanoseconds, modulo 2⁶⁴.
    pub ahead_ns: u64,
}

impl PassedPicture {
    /// When it passed one of [`RELAY_STAGES`].
    pub fn at(&self, stage: Stage) -> Option<Time> {
        match stage {
            Stage::RelayFirstByte => Some(self.first_byte),
            Stage::RelayReceived => Some(self.received),
            Stage::RelayReleased => self.released,
            Stage::RelayFlushed => Some(self.flushed),
            Stage::RelaySent => self.sent,
            _ => None,
        }
    }

    /// The same in microseconds after the whole microsecond of its capture, by this server's wall clock: below zero where
    /// the clocks disagree.
    pub fn after_capture_us(&self, stage: Stage) -> Option<i64> {
        let utc = self.at(stage)?.as_nanos().wrapping_add(self.ahead_ns);
        let captured = i128::from(self.captured.as_micros()).checked_mul(1000)?;
        i64::try_from(i128::from(utc).checked_sub(captured)?.div_euclid(1000)).ok()
    }
}

/// Times of pictures, in microseconds, by part.
#[derive(Clone, Debug, Default)]
pub struct Samples([Vec<u32>; Part::ALL.len()]);

impl Samples {
    fn push(&mut self, part: Part, time: Duration) {
        let samples = &mut self.0[part as usize];
        if samples.len() < SAMPLES_MAX {
            samples.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        }
    }
}

impl Tally for Samples {
    fn parts(&self) -> Vec<(Part, Percentiles)> {
        let known = Part::ALL.into_iter().zip(&self.0).filter(|(_, samples)| !samples.is_empty());
        known.map(|(part, samples)| (part, percentiles(&mut samples.clone()))).collect()
    }

    fn reports(&self) -> u32 {
        0
    }
}

/// By nearest rank; of at least one sample.
fn percentiles(samples: &mut [u32]) -> Percentiles {
    let mut rank = |hundredths: usize| {
        let index = samples.len().saturating_mul(hundredths).div_ceil(100).saturating_sub(1);
        *samples.select_nth_unstable(index).1
    };
    Percentiles { p50_us: rank(50), p99_us: rank(99) }
}

/// What one server knows of the pictures that pass: counts since the stream began, and percentiles.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayFigures {
    counts: [StageCount; COUNTED_FIRST.len()],
    #[serde(default)]
    released: StageCount,
    steps: Steps<Samples>,
}

impl RelayFigures {
    /// Counts what a sender says of one of its pictures.
    pub(crate) fn count_sender(&mut self, stamps: &Stamps, now: Time) {
        let samples = self.steps.running(now);
        sender_parts(stamps).for_each(|(part, time)| samples.push(part, time));
    }

    /// Counts a picture that has passed.
    pub(crate) fn count_picture(&mut self, picture: &PassedPicture, now: Time) {
        let way = picture.after_capture_us(Stage::RelayFirstByte);
        let way = way.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros);
        if let Some(way) = way.filter(|way| *way <= STAGE_LONGEST) {
            self.counts[0].push(way);
        }
        let mut before = picture.first_byte;
        for stage in RELAY_STAGES.into_iter().skip(1) {
            if let Some(at) = picture.at(stage) {
                let place = COUNTED_FIRST.iter().position(|counted| *counted == stage);
                place.map_or(&mut self.released, |place| &mut self.counts[place]).push(at.since(before));
                before = at;
            }
        }
        let running = self.steps.running(now);
        if let Some(released) = picture.released {
            running.push(Part::Hold, released.since(picture.received));
        }
        let had = picture.released.unwrap_or(picture.received);
        running.push(Part::Relay, picture.sent.unwrap_or(picture.flushed).since(had));
    }

    /// How long pictures took to each stage of this server from the one before it; to the first one, from capture.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, &StageCount)> {
        let passed = |(_, count): &(Stage, &StageCount)| count.buckets.iter().any(|count| *count > 0);
        let [first_byte, received, flushed, sent] = &self.counts;
        RELAY_STAGES.into_iter().zip([first_byte, received, &self.released, flushed, sent]).filter(passed)
    }

    /// The last ten minutes.
    pub fn steps(&self, now: Time) -> Vec<Step> {
        self.steps.all(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::STEPS;
    use super::*;

    fn micros(value: u64) -> Time {
        Time::from_nanos(value * 1000)
    }

    fn passed(number: u64) -> PassedPicture {
        let at = |after: u64| micros(1_000_000 + number * 20_000 + after);
        PassedPicture {
            captured: Utc::from_nanos(1_700_000_001_000_000_999 + number * 20_000_000),
            first_byte: at(10_000),
            received: at(12_000),
            released: None,
            flushed: at(12_050),
            sent: (number > 0).then(|| at(12_450)),
            ahead_ns: 1_700_000_000_000_000_000,
        }
    }

    #[test]
    fn a_picture_is_counted_from_stage_to_stage_and_in_its_step() {
        let mut figures = RelayFigures::default();
        (0..100)
            .for_each(|number| figures.count_picture(&passed(number), micros(1_020_000 + number * 20_000)));
        let sums: Vec<_> = figures.stages().map(|(stage, count)| (stage, count.sum.as_micros())).collect();
        let expected = [
            (Stage::RelayFirstByte, 1_000_000),
            (Stage::RelayReceived, 200_000),
            (Stage::RelayFlushed, 5_000),
            (Stage::RelaySent, 99 * 400),
        ];
        assert_eq!(sums, expected);
        let steps = figures.steps(micros(3_100_000));
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].begins, Time::ZERO);
        assert_eq!(steps[0].parts, [(Part::Relay, Percentiles { p50_us: 450, p99_us: 450 })]);
        let mut held = RelayFigures::default();
        held.count_picture(
            &PassedPicture { released: Some(micros(1_152_020)), ..passed(7) },
            micros(1_160_000),
        );
        let hold = Percentiles { p50_us: 20, p99_us: 20 };
        let relay = Percentiles { p50_us: 430, p99_us: 430 };
        assert_eq!(held.steps(micros(1_200_000))[0].parts, [(Part::Relay, relay), (Part::Hold, hold)]);
        let sums: Vec<_> = held.stages().map(|(stage, count)| (stage, count.sum.as_micros())).collect();
        assert_eq!(
            sums[1..4],
            [(Stage::RelayReceived, 2000), (Stage::RelayReleased, 20), (Stage::RelayFlushed, 30)]
        );
        assert_eq!(passed(3).after_capture_us(Stage::RelayFirstByte), Some(10_000));
        let early = PassedPicture { ahead_ns: passed(0).ahead_ns - 20_000_000, ..passed(0) };
        assert_eq!(early.after_capture_us(Stage::RelayFirstByte), Some(-10_000), "told, and not counted");
        let before: u64 = figures.counts[0].buckets.iter().sum();
        figures.count_picture(&early, micros(3_200_000));
        assert_eq!(figures.counts[0].buckets.iter().sum::<u64>(), before);
    }

    #[test]
    fn steps_are_kept_for_ten_minutes_and_those_without_data_are_absent() {
        let mut figures = RelayFigures::default();
        for step in (0..200).filter(|step| step % 3 != 0) {
            figures.count_picture(&passed(1), Time::from_millis(step * 10_000 + 5));
        }
        assert!(figures.steps.past.len() < STEPS);
        let steps = figures.steps(Time::from_millis(1_995_000));
        assert!(steps.windows(2).all(|pair| pair[0].begins < pair[1].begins));
        assert_eq!(steps.len(), 40, "two of three in ten minutes");
        assert_eq!(figures.steps(Time::from_millis(9_000_000)), []);
    }
}
