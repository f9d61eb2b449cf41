//! How a stream and its viewers are and were.

use crate::status::WhyCounts;
use glassline_delivery::telemetry::{Behind, History, Moment, Why, percentiles_ms};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Written once a second, read by API and metrics.
#[derive(Debug)]
pub struct Telemetry(Mutex<Figures>);

/// What one process leaves to the next.
#[derive(Debug, Serialize, Deserialize)]
pub struct TelemetryState(Figures);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figures {
    history: History,
    why: WhyCounts,
    behind: Behind,
    behind_ever: Behind,
}

/// A stream's viewers, added up.
#[derive(Debug, Default)]
pub struct Audience {
    /// By what keeps them from being live.
    pub why: WhyCounts,
    /// How far they are behind live.
    pub behind: Behind,
    /// The same of each in milliseconds, for percentiles.
    pub behind_ms: Vec<u32>,
}

impl Telemetry {
    /// Nothing yet.
    pub fn new(now: Time) -> Telemetry {
        let (why, behind) = (WhyCounts::default(), Behind::default());
        Telemetry(Mutex::new(Figures { history: History::new(now), why, behind, behind_ever: behind }))
    }

    /// What the next process needs of it.
    pub fn state(&self) -> TelemetryState {
        TelemetryState(self.lock().clone())
    }

    /// What another process left.
    pub fn restore(state: TelemetryState) -> Telemetry {
        Telemetry(Mutex::new(state.0))
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        // Figures: the worst that a panic in between can do is a second that is missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a second is over.
    pub fn is_due(&self, now: Time) -> bool {
        self.lock().history.is_due(now)
    }

    /// Takes how its stream is, but for what its `audience` tells.
    pub fn record(&self, now: Time, mut audience: Audience, stream: Moment) {
        let slow = audience.why.iter().sum::<u32>() - audience.why[Why::Fine as usize];
        let moment = Moment { slow, behind_ms: percentiles_ms(&mut audience.behind_ms), ..stream };
        let mut figures = self.lock();
        figures.history.record(now, moment);
        (figures.why, figures.behind) = (audience.why, audience.behind);
        figures.behind_ever.add(&audience.behind);
    }

    /// Viewers by why they are slow, how far they are behind live, and the latter of all seconds so far.
    pub fn figures(&self) -> (WhyCounts, Behind, Behind) {
        let figures = self.lock();
        (figures.why, figures.behind, figures.behind_ever)
    }

    /// Gives `read` how it was.
    pub fn read<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&self.lock().history)
    }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
