//! An event of an alarm as a server keeps it.

use glassline_delivery::watch::{AlarmEvent, State};
use serde::Serialize;

/// An event, and what a server knows beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The event.
    #[serde(flatten)]
    pub event: AlarmEvent,
    /// The unit of its value and limit.
    pub unit: &'static str,
    /// The picture of its beginning, for [`Alarms::picture_of_alarm`](crate::Alarms::picture_of_alarm); `None` where there is none, or none any more.
    pub picture: Option<String>,
    /// Its alarm is muted, or was when a past event came up.
    pub muted: bool,
}

impl Entry {
    /// A line of the log: a warning where an alarm begins that is not muted.
    pub(crate) fn log(&self) {
        let Entry { event, unit, muted, .. } = self;
        let AlarmEvent { alarm, stream, value, limit, .. } = event;
        let value = value.map_or_else(|| "nothing to measure".to_owned(), |value| format!("{value} {unit}"));
        match event.state {
            State::Begun if *muted => {
                tracing::info!(stream, alarm, "muted alarm: {alarm}: {value}, limit {limit}");
            }
            State::Begun => tracing::warn!(stream, alarm, "alarm: {alarm}: {value}, limit {limit}"),
            State::Over => tracing::info!(stream, alarm, "alarm is over: {alarm}: {value}, limit {limit}"),
        }
    }
}
