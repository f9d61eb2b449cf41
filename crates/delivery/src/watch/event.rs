//! What is told of an alarm.

use super::alarm::Alarm;
use crate::playlist::date_time;
use glassline_media::{Choice, Time, Utc};
use serde::{Deserialize, Serialize};

/// Whether an alarm is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has begun.
    Begun,
    /// It is over.
    Over,
}

/// An alarm that has begun or is over, as the [`Watcher`](super::Watcher) gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raised {
    /// Which one.
    pub alarm: Alarm,
    /// What of it.
    pub state: State,
    /// How much of the stream had passed, on its own time, from the first unit.
    pub at: Time,
    /// What was measured, in [`Alarm::unit`]; `None` where there was nothing to measure.
    pub value: Option<f64>,
    /// The limit that it is compared with.
    pub limit: f64,
}

/// The same with its stream and its time of day: what goes to people and programs.
///
/// As JSON: `{"alarm":"silence","state":"begun","stream":"hall","at_utc":"2026-05-04T03:02:01.123Z","value":-71.2,"limit":-60.0}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmEvent {
    /// The alarm's name.
    pub alarm: String,
    /// Whether it has begun or is over.
    pub state: State,
    /// The stream: its name on a server, or what was named on the command line.
    pub stream: String,
    /// When (RFC 3339, with milliseconds).
    pub at_utc: String,
    /// What was measured, to three decimals; null where there was nothing to measure.
    pub value: Option<f64>,
    /// The limit that it was compared with.
    pub limit: f64,
}

impl AlarmEvent {
    /// What `raised` means for `stream` at `utc`.
    pub fn new(stream: &str, raised: &Raised, utc: Utc) -> AlarmEvent {
        let Raised { alarm, state, value, limit, .. } = *raised;
        AlarmEvent {
            alarm: alarm.name().to_owned(),
            state,
            stream: stream.to_owned(),
            at_utc: date_time(utc),
            value: value.filter(|value| value.is_finite()).map(|value| (value * 1e3).round() / 1e3),
            limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_json() {
        let raised = Raised {
            alarm: Alarm::AvSync,
            state: State::Begun,
            at: Time::ZERO,
            value: Some(250.123_456),
            limit: 140.0,
        };
        let event = AlarmEvent::new("hall", &raised, Utc::from_micros(1_777_863_721_123_456));
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"alarm":"av_sync","state":"begun","stream":"hall","at_utc":"2026-05-04T03:02:01.123Z","value":250.123,"limit":140.0}"#
        );
        assert_eq!(serde_json::from_str::<AlarmEvent>(&json).unwrap(), event);
        let endless = Raised { value: Some(f64::NEG_INFINITY), state: State::Over, ..raised };
        let json = serde_json::to_string(&AlarmEvent::new("a\"b", &endless, Utc::from_micros(0))).unwrap();
        assert!(
            json.contains(r#""state":"over","stream":"a\"b""#) && json.contains(r#""value":null"#),
            "{json}"
        );
    }
}
