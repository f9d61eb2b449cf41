//! What of each alarm a stream is watched for.

use super::alarm::Alarm;
use glassline_media::quantity;
use std::ops::{Index, IndexMut};
use std::time::Duration;
use thiserror::Error;

/// How an alarm begins and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Whether it is watched for.
    pub enabled: bool,
    /// The limit, in [`Alarm::unit`] and within [`Alarm::limits`].
    pub limit: f64,
    /// How long the limit has to be broken until the alarm begins; zero: at once. At most [`Rule::TIME_MAX`].
    pub after: Duration,
    /// How long it has to be kept until the alarm is over. At most [`Rule::TIME_MAX`].
    pub clear: Duration,
}

impl Rule {
    /// The longest time until an alarm begins or ends.
    pub const TIME_MAX: Duration = Duration::from_secs(3600);

    /// The rule of an alarm where nothing else is said. Loudness and frozen pictures are off: events are mixed at other levels than broadcasts,
    /// and slides stand still.
    pub const fn default_of(alarm: Alarm) -> Rule {
        let limit = match alarm {
            // Those of FFmpeg's silencedetect and blackdetect.
            Alarm::Silence => -60.0,
            Alarm::Black => 10.0,
            Alarm::Clipping => 1.0,
            Alarm::Phase => -0.5,
            Alarm::Loudness | Alarm::Flicker => 3.0,
            // An encoder changes some samples of a picture that stands still; the noise of any camera is far above.
            Alarm::Frozen => 0.02,
            Alarm::Discontinuity => 0.0,
            Alarm::Blurred => 40.0,
            // ITU-R BT.1359-1: viewers object to sound that is early by 90 ms or late by 185 ms; the mean is theirs.
            Alarm::AvSync => 140.0,
            Alarm::Captions => 5.0,
            Alarm::Bitrate => 10.0,
            Alarm::Absent => 1.0,
        };
        let enabled = !matches!(alarm, Alarm::Loudness | Alarm::Frozen);
        let two_seconds = Duration::from_secs(2);
        // A lost packet has no duration: its alarm begins with it.
        let after = if matches!(alarm, Alarm::Discontinuity) { Duration::ZERO } else { two_seconds };
        Rule { enabled, limit, after, clear: two_seconds }
    }
}

/// The rules of all alarms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    rules: [Rule; Alarm::ALL.len()],
    /// The loudness that sound should have, in LUFS; -70 to 0. That of EBU R 128 is -23.
    pub target_lufs: f64,
    /// The true peak that sound must not go beyond, in dBTP; -20 to 6. That of EBU R 128 is -1.
    pub true_peak_dbtp: f64,
}

/// A value that a rule may not have.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{alarm}.{key} is {found}; from {least} to {most}")]
pub struct RulesError {
    /// The alarm.
    pub alarm: Alarm,
    /// The key of it.
    pub key: &'static str,
    /// What it is.
    pub found: String,
    /// The least that it may be.
    pub least: String,
    /// The most that it may be.
    pub most: String,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { rules: Alarm::ALL.map(Rule::default_of), target_lufs: -23.0, true_peak_dbtp: -1.0 }
    }
}

impl Index<Alarm> for Rules {
    type Output = Rule;

    fn index(&self, alarm: Alarm) -> &Rule {
        &self.rules[alarm as usize]
    }
}

impl IndexMut<Alarm> for Rules {
    fn index_mut(&mut self, alarm: Alarm) -> &mut Rule {
        &mut self.rules[alarm as usize]
    }
}

impl Rules {
    /// Whether one of `alarms` is watched for.
    pub fn any(&self, alarms: &[Alarm]) -> bool {
        alarms.iter().any(|&alarm| self[alarm].enabled)
    }

    /// Checks the values' ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), RulesError> {
        let number = |alarm, key, found: f64, least: f64, most: f64| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let [found, least, most] = [found, least, most].map(|number| number.to_string());
            Err(RulesError { alarm, key, found, least, most })
        };
        for alarm in Alarm::ALL {
            let (rule, limits) = (self[alarm], alarm.limits());
            number(alarm, "limit", rule.limit, *limits.start(), *limits.end())?;
            for (key, time) in [("after", rule.after), ("clear", rule.clear)] {
                if time > Rule::TIME_MAX {
                    let [found, least, most] =
                        [time, Duration::ZERO, Rule::TIME_MAX].map(quantity::format_duration);
                    return Err(RulesError { alarm, key, found, least, most });
                }
            }
        }
        number(Alarm::Loudness, "target", self.target_lufs, -70.0, 0.0)?;
        number(Alarm::Loudness, "true_peak", self.true_peak_dbtp, -20.0, 6.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_named_with_their_range() {
        let mut rules = Rules::default();
        assert_eq!(rules.check(), Ok(()));
        rules[Alarm::Silence].limit = 1.0;
        let error = rules.check().unwrap_err().to_string();
        assert_eq!(error, "silence.limit is 1; from -110 to 0");
        rules[Alarm::Silence].limit = f64::NAN;
        assert!(rules.check().is_err());
        rules = Rules::default();
        rules[Alarm::Black].after = Duration::from_secs(3601);
        assert_eq!(rules.check().unwrap_err().key, "after");
        rules = Rules::default();
        rules.true_peak_dbtp = 7.0;
        assert_eq!(rules.check().unwrap_err().key, "true_peak");
    }
}
