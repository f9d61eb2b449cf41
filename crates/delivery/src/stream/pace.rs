//! How fast a viewer's connection may send.
//!
//! Unpaced, a key frame leaves at the speed of the server's network card, and the first slow line with a short
//! queue drops the end of it. Paced at a few times the stream's rate it arrives whole, and hardly later.

use glassline_media::Time;
use glassline_media::quantity::{Bitrate, QuantityError};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

/// How viewers' connections are paced, once they have caught up with live.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pacing {
    /// Not at all.
    Off,
    /// At this many times the stream's own rate, at its peaks; 3 is usual.
    Factor(f64),
    /// At this many bits a second.
    Rate(u64),
}

impl FromStr for Pacing {
    type Err = QuantityError;

    /// Reads `off`, a factor as `3x`, or a bit rate as `20M`.
    fn from_str(text: &str) -> Result<Pacing, QuantityError> {
        if text == "off" {
            return Ok(Pacing::Off);
        }
        match text.strip_suffix('x').and_then(|factor| factor.parse().ok()) {
            Some(factor) => Ok(Pacing::Factor(factor)),
            None => text.parse().map(|rate: Bitrate| Pacing::Rate(rate.bits_per_second())),
        }
    }
}

/// How often the rate is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// What the rate is taken over: a key frame weighs, and a change shows soon.
pub(super) const RATE_SPAN: Duration = Duration::from_millis(500);
/// A peak has fallen to a third after this long: a quiet scene ends without warning.
const PEAK_FADES: Duration = Duration::from_secs(15);
/// The lowest rate that a factor leads to; below it a single packet would take long.
const LEAST_BPS: f64 = 1e6;

/// The rate to pace at, from the stream's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pace {
    pacing: Pacing,
    peak_bps: f64,
    looked_at: Option<Time>,
}

impl Pace {
    pub(super) fn new(pacing: Pacing) -> Pace {
        Pace { pacing, peak_bps: 0.0, looked_at: None }
    }

    pub(super) fn pacing(&self) -> Pacing {
        self.pacing
    }

    pub(super) fn reconfigure(&mut self, pacing: Pacing) {
        self.pacing = pacing;
    }

    /// Whether it is time for [`Pace::look`].
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.looked_at.is_none_or(|at| now.since(at) >= LOOK_INTERVAL)
    }

    /// Takes the stream's present rate and gives what to pace at, in bits a second.
    pub(super) fn look(&mut self, rate_bps: u64, now: Time) -> Option<u64> {
        let elapsed = self.looked_at.replace(now).map_or(Duration::ZERO, |at| now.since(at));
        let faded = self.peak_bps * (-elapsed.as_secs_f64() / PEAK_FADES.as_secs_f64()).exp();
        self.peak_bps = faded.max(rate_bps as f64);
        match self.pacing {
            Pacing::Off => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Factor(factor) => Some((self.peak_bps * factor).max(LEAST_BPS) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_counts_at_once_and_a_fall_slowly() {
        let mut pace = Pace::new(Pacing::Factor(3.0));
        assert!(pace.is_due(Time::ZERO));
        assert_eq!(pace.look(2_000_000, Time::from_millis(100)), Some(6_000_000));
        assert!(!pace.is_due(Time::from_millis(199)) && pace.is_due(Time::from_millis(200)));
        assert_eq!(pace.look(5_000_000, Time::from_millis(200)), Some(15_000_000));
        let soon = pace.look(0, Time::from_millis(1200)).unwrap();
        assert!((13_500_000..14_500_000).contains(&soon), "{soon}");
        let late = pace.look(0, Time::from_millis(16_200)).unwrap();
        assert!((5_000_000..6_000_000).contains(&late), "{late}");
        assert_eq!(pace.look(0, Time::from_millis(900_000)), Some(1_000_000));
    }

    #[test]
    fn a_given_rate_is_what_it_is() {
        assert_eq!(Pace::new(Pacing::Rate(8_000_000)).look(50_000_000, Time::ZERO), Some(8_000_000));
        assert_eq!(Pace::new(Pacing::Off).look(50_000_000, Time::ZERO), None);
    }
}
