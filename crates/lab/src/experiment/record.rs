//! What is kept of a run: its settings, its figures, and what became of each picture, for plots.

use super::outcome::{Outcome, Summary};
use super::paper::{Case, Options};
use super::run::Setup;
use glassline_measure::ssim::decibels;
use glassline_media::Size;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A finished run of one of the paper's experiments. As JSON it is a file of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Rises when a key changes its meaning or goes.
    pub schema: u32,
    /// [`Case::name`].
    pub case: String,
    /// All that the run hangs on: where they are the same, so is what came of it.
    pub settings: Settings,
    /// The figures.
    pub summary: Summary,
    /// Each picture of the source.
    pub pictures: Pictures,
}

/// What a run hangs on, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The network.
    pub network: String,
    /// The sender's name.
    pub sender: String,
    /// The video's name, its size and its rate.
    pub video: String,
    /// How long pictures were captured, ms.
    pub duration_ms: u64,
    /// What all chance follows from.
    pub seed: u64,
    /// The encoder's speed: the slowest.
    pub speed: u8,
    /// How candidates and speed follow the time that coding takes; empty in results of labs in which they did not.
    #[serde(default)]
    pub effort: String,
    /// Of the program.
    pub version: String,
}

impl Settings {
    /// Of a case. `video` names the clip, `version` the program.
    pub fn new(
        case: &Case,
        setup: &Setup,
        options: &Options,
        (video, size): (&str, Size),
        version: &str,
    ) -> Settings {
        Settings {
            network: case.network.to_string(),
            sender: case.who(),
            video: format!("{video}, {size}, {:.2} pictures a second", options.rate.as_f64()),
            duration_ms: setup.duration.as_millis() as u64,
            seed: options.seed,
            speed: options.speed,
            effort: format!("up to {} candidates, as time allows", setup.sender.candidates),
            version: version.to_owned(),
        }
    }
}

/// What became of each picture of the source, a list for each kind of value, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// From one to the next, ms.
    pub interval_ms: f64,
    /// By the paper's rule; none behind the last that was shown.
    pub delay_ms: Vec<f32>,
    /// SSIM of luma as the tools of Daala compute it, dB; `None` for those that were not shown.
    pub ssim_daala_db: Vec<Option<f32>>,
    /// Bytes of packets that were sent until the next picture.
    pub sent_bytes: Vec<u32>,
    /// Bytes of packets that the way could have carried until then; empty where it has no bound.
    pub capacity_bytes: Vec<u32>,
}

/// SSIM above this is told as this: what equals its reference is infinite.
const SSIM_DB_MOST: f64 = 99.0;

impl Pictures {
    /// Of a run with a picture from the source each `interval`.
    pub fn new(outcome: &Outcome, interval: Duration) -> Pictures {
        let tenths = |value: f64| ((value * 10.0).round() / 10.0) as f32;
        let hundredths = |value: f64| ((value * 100.0).round() / 100.0) as f32;
        let slots = outcome.slots.iter();
        Pictures {
            interval_ms: interval.as_secs_f64() * 1e3,
            delay_ms: outcome.delays().iter().map(|(_, delay)| tenths(delay.as_secs_f64() * 1e3)).collect(),
            ssim_daala_db: slots
                .clone()
                .map(|slot| slot.daala_ssim.map(|ssim| hundredths(decibels(ssim).min(SSIM_DB_MOST))))
                .collect(),
            sent_bytes: slots
                .clone()
                .map(|slot| u32::try_from(slot.sent_bytes).unwrap_or(u32::MAX))
                .collect(),
            capacity_bytes: slots.filter_map(|slot| slot.capacity_bytes.map(|bytes| bytes as u32)).collect(),
        }
    }
}

impl Record {
    /// Of a run that has just ended.
    pub fn new(case: &Case, settings: Settings, setup: &Setup, outcome: &Outcome) -> Record {
        Record {
            schema: 1,
            case: case.name.to_owned(),
            settings,
            summary: outcome.summary(),
            pictures: Pictures::new(outcome, setup.rate.time_of(1)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::outcome::Slot;
    use super::*;
    use glassline_media::{FrameRate, Time};
    use std::collections::BTreeMap;

    /// A run of a case of which each third picture was not shown, and each delay is `delay` and some.
    pub(crate) fn record(name: &str, delay: u64, pictures: u64) -> Record {
        let case = Case::named(name).unwrap();
        let rate = FrameRate::new(30, 1).unwrap();
        let options = Options { rate, longest: Some(Duration::from_secs(60)), seed: 1, speed: 6 };
        let setup = case.setup(&BTreeMap::new(), &options);
        let slots = (0..pictures).map(|number| {
            let captured = Time::ZERO + rate.time_of(number);
            let is_shown = number % 3 != 2;
            Slot {
                shown: is_shown.then(|| captured + Duration::from_millis(delay + number % 7)),
                daala_ssim: is_shown.then_some(0.9 + 0.01 * (number % 5) as f64),
                sent_bytes: 5_000 + number % 1_000,
                capacity_bytes: Some(6_000.0),
                ..Slot::new(captured)
            }
        });
        let mut outcome = Outcome { slots: slots.collect(), ..Outcome::default() };
        outcome.capacity_bytes = Some(pictures as f64 * 6_000.0);
        let size = Size { width: 1280, height: 720 };
        let settings = Settings::new(case, &setup, &options, ("a clip", size), "1.0");
        let mut record = Record::new(case, settings, &setup, &outcome);
        (record.summary.ssim_daala_db, record.summary.chosen) = (Some(16.25), [0.5, 0.2, 0.1, 0.2]);
        record
    }

    #[test]
    fn a_record_is_whole_after_it_was_written_down() {
        let record = record("att-2c", 60, 90);
        assert_eq!(record.pictures.sent_bytes.len(), 90);
        assert_eq!(record.pictures.delay_ms[1], 61.0);
        assert!(record.pictures.ssim_daala_db[2].is_none() && record.pictures.ssim_daala_db[0] == Some(10.0));
        let text = serde_json::to_string(&record).unwrap();
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!((&read.settings, &read.pictures.delay_ms), (&record.settings, &record.pictures.delay_ms));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(read.settings.video.contains("1280x720"), "{:?}", read.settings);
        // One of a lab that did not adapt to the time that coding takes is read, and is no result of these settings.
        let effort = format!("\"effort\":\"{}\",", record.settings.effort);
        assert!(text.contains(&effort), "{text}");
        let earlier: Record = serde_json::from_str(&text.replace(&effort, "")).unwrap();
        assert_ne!(earlier.settings, record.settings);
    }
}
