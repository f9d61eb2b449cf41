//! How old pictures are when the last of their bytes has come, by the capture time that they carry.

use crate::distribution::Distribution;
use crate::samples::Samples;
use glassline_media::{Time, Utc};
use serde::Serialize;
use std::time::Duration;

/// On one machine a packet may be here before the call that sent it has returned: by so much a picture may seem to come
/// before it was sent, beside what the clock may be off.
const CALL_MAX: Duration = Duration::from_millis(1);

/// The wall clock that ages are told by.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// This moment on our monotonic clock…
    pub at: Time,
    /// … was this one on the wall clock.
    pub utc: Utc,
    /// Which clock it is: "server" or "local".
    pub whose: &'static str,
    /// How wrong `utc` may be, where it was asked for over the network.
    pub uncertainty_ms: Option<f64>,
}

impl WallClock {
    /// This clock at `time` of our monotonic one. What lies before 1970 is 1970.
    pub fn utc_at(&self, time: Time) -> Utc {
        let ahead = i128::from(self.utc.as_nanos()) - i128::from(self.at.as_nanos());
        Utc::from_nanos(u64::try_from(i128::from(time.as_nanos()) + ahead).unwrap_or(0))
    }

    /// When what came at `received` of our monotonic clock did so on this one, in nanoseconds since 1970. No sooner than `sent`,
    /// which its sender says on the same clock.
    ///
    /// # Errors
    /// By how much it was here before it was sent, where that is more than the clock may be off.
    pub fn arrival(&self, received: Time, sent: Time) -> Result<Time, Duration> {
        let received = Time::from_nanos(self.utc_at(received).as_nanos());
        let early = sent.since(received);
        if early <= self.tolerance() { Ok(received.max(sent)) } else { Err(early) }
    }

    /// By how much two times of one picture may be in the wrong order, one of them by this clock.
    pub fn tolerance(&self) -> Duration {
        CALL_MAX + Duration::from_secs_f64(self.uncertainty_ms.unwrap_or(0.0).clamp(0.0, 1e6) / 1e3)
    }
}

/// Ages at this end.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AgeReport {
    /// In milliseconds.
    pub ms: Distribution,
    /// By which clock ages are told: "server" or "local".
    pub clock: &'static str,
    /// How wrong that clock may be, in milliseconds, where it was asked for over the network.
    pub clock_uncertainty_ms: Option<f64>,
}

/// Gathers the ages of one stream's pictures. They count from an origin of their own until a wall clock is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Ages {
    /// Arrival on our clock less capture on the wall clock, of the first picture; nanoseconds.
    first: Option<i128>,
    /// The same of all, less the first's.
    later: Samples,
}

impl Ages {
    /// A picture captured at `captured` was whole at `arrival`.
    pub(super) fn push(&mut self, captured: Utc, arrival: Time) {
        let apart = i128::from(arrival.as_nanos()) - i128::from(captured.as_nanos());
        let first = *self.first.get_or_insert(apart);
        self.later.push((apart - first) as f64);
    }

    /// Pictures that say when they were captured.
    pub(super) fn count(&self) -> u64 {
        self.later.count()
    }

    pub(super) fn report(&self, clock: &WallClock) -> Option<AgeReport> {
        let wall = i128::from(clock.utc.as_nanos()) - i128::from(clock.at.as_nanos());
        let first = (self.first? + wall) as f64;
        let ms = self.later.distribution(|later| (first + later) / 1e6)?;
        Some(AgeReport { ms, clock: clock.whose, clock_uncertainty_ms: clock.uncertainty_ms })
    }
}
