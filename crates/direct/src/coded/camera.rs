//! When a camera's own encoder is set to another rate, and when it is asked for a key frame.
//!
//! ```text
//! budget for each unit ─► LinkRate ─► CameraRate::poll_rate ─► the driver ─► handle_set | handle_refused
//! bytes of each unit ──► what is delivered, beside what was set ──┘ (compensates), ─► poll_ignored
//! ```
//! A driver takes longer over a new rate than x264, and an encoder in hardware may begin a group of pictures with it. So a
//! rate is set at most twice a second, and for changes of more than a tenth alone.

use super::LinkRate;
use glassline_media::Time;
use std::time::Duration;

/// A driver is not asked for another rate, nor for another key frame, sooner than that.
const SET_INTERVAL: Duration = Duration::from_millis(500);
/// A change of the rate is worth a request from this part on.
const CHANGE: f64 = 0.1;
/// After refusals the pause before the next request doubles, up to this.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(16);
/// What is delivered is measured over so long, and not while an encoder still comes down from a higher rate.
const MEASURED_OVER: Duration = Duration::from_secs(3);
const SETTLING: Duration = Duration::from_secs(1);
/// An encoder that codes more than its rate is set to a lower one, by this factor at most.
const COMPENSATED_MAX: f64 = 1.5;
/// So many measurements in a row above that factor are no mistake of a rate control: the rate is ignored.
const IGNORED_AFTER: u32 = 2;

/// The bit rates that a camera's encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRange {
    /// The least, bits a second.
    pub minimum_bps: u64,
    /// The largest, bits a second.
    pub maximum_bps: u64,
    /// Rates are the least one and multiples of this above it, bits a second; 0 is taken as 1.
    pub step_bps: u64,
}

impl RateRange {
    /// The largest rate of the range that is not above `bps`; the least one where all are.
    fn fit(self, bps: u64) -> u64 {
        let above = bps.min(self.maximum_bps).saturating_sub(self.minimum_bps);
        self.minimum_bps + above / self.step_bps.max(1) * self.step_bps.max(1)
    }
}

/// A rate that a driver has taken and that the camera does not keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredRate {
    /// What the driver has said that it has set, bits a second.
    pub set_bps: u64,
    /// What was delivered meanwhile, bits a second.
    pub delivered_bps: u64,
}

/// Decides which rate a camera's encoder is set to.
#[derive(Clone, Debug)]
pub struct CameraRate {
    range: RateRange,
    bitrate_max_bps: Option<u64>,
    link: LinkRate,
    /// What was asked for last.
    asked_bps: Option<u64>,
    /// What the driver has made of it.
    set_bps: Option<u64>,
    /// Nothing is asked for before.
    next_request: Time,
    pause: Duration,
    /// What is delivered for each bit that was set, from 1 on.
    excess: f64,
    measured: Measured,
    ignored: Option<IgnoredRate>,
}

/// What a camera delivers while a rate holds.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Units before are not counted.
    since: Time,
    bits: u64,
    /// The largest rate that was set meanwhile.
    set_bps: u64,
    /// Measurements in a row with far too much.
    ignored: u32,
    is_told: bool,
}

impl CameraRate {
    /// An encoder that takes such rates, and that shall code no more than `bitrate_max_bps`.
    #[must_use]
    pub fn new(range: RateRange, bitrate_max_bps: Option<u64>) -> CameraRate {
        CameraRate {
            range,
            bitrate_max_bps,
            link: LinkRate::new(LinkRate::FIRST_BPS),
            asked_bps: None,
            set_bps: None,
            next_request: Time::ZERO,
            pause: SET_INTERVAL,
            excess: 1.0,
            measured: Measured::default(),
            ignored: None,
        }
    }

    /// Takes a unit's length, and what the link takes within `horizon` as it comes, both in bytes.
    pub fn handle_unit(&mut self, now: Time, unit_bytes: u64, budget_bytes: u64, horizon: Duration) {
        self.link.handle_budget(budget_bytes, horizon);
        let Some(set_bps) = self.set_bps else { return };
        if now < self.measured.since {
            return;
        }
        self.measured.bits = self.measured.bits.saturating_add(unit_bytes.saturating_mul(8));
        let over = now.since(self.measured.since);
        if over < MEASURED_OVER {
            return;
        }
        let delivered = self.measured.bits as f64 / over.as_secs_f64();
        let ratio = delivered / self.measured.set_bps.max(1) as f64;
        self.excess = ratio.clamp(1.0, COMPENSATED_MAX);
        let ignored = if ratio > COMPENSATED_MAX { self.measured.ignored + 1 } else { 0 };
        if ignored >= IGNORED_AFTER && !self.measured.is_told {
            self.measured.is_told = true;
            self.ignored =
                Some(IgnoredRate { set_bps: self.measured.set_bps, delivered_bps: delivered as u64 });
        }
        self.measured = Measured { since: now, bits: 0, set_bps, ignored, ..self.measured };
    }

    /// The rate to set now, bits a second; `None` where the one that holds stays. The caller then calls
    /// [`CameraRate::handle_set`] or [`CameraRate::handle_refused`].
    pub fn poll_rate(&mut self, now: Time) -> Option<u64> {
        if now < self.next_request {
            return None;
        }
        let wanted = (self.link.wanted_bps() as f64 / self.excess) as u64;
        let wanted = self.range.fit(wanted.min(self.bitrate_max_bps.unwrap_or(u64::MAX)));
        let is_worth_it =
            self.asked_bps.is_none_or(|asked| wanted.abs_diff(asked) as f64 > asked as f64 * CHANGE);
        is_worth_it.then(|| {
            self.next_request = now + self.pause;
            wanted
        })
    }

    /// The driver has taken a rate: what was asked for, and what it has made of it, bits a second.
    pub fn handle_set(&mut self, now: Time, asked_bps: u64, set_bps: u64) {
        self.asked_bps = Some(asked_bps);
        self.pause = SET_INTERVAL;
        self.next_request = now + SET_INTERVAL;
        let before = self.set_bps.replace(set_bps);
        if before.is_none_or(|before| set_bps < before) {
            self.measured = Measured { since: now + SETTLING, bits: 0, set_bps, ..self.measured };
        } else {
            self.measured.set_bps = self.measured.set_bps.max(set_bps);
        }
    }

    /// The driver has refused a rate, as some do while they capture. It is asked again, less and less often.
    pub fn handle_refused(&mut self, now: Time) {
        self.next_request = now + self.pause;
        self.pause = (self.pause * 2).min(REFUSED_PAUSE_MAX);
    }

    /// The camera does not keep to its rate: given once.
    pub fn poll_ignored(&mut self) -> Option<IgnoredRate> {
        self.ignored.take()
    }

    /// What the driver has set last, bits a second.
    #[must_use]
    pub fn set_bps(&self) -> Option<u64> {
        self.set_bps
    }
}

/// Decides when a camera's encoder is asked for a key frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyRequests {
    asked: Option<Time>,
}

impl KeyRequests {
    /// Whether to ask now, where nothing but a key frame can be sent (`wants_key`): at once, and again where none has come.
    pub fn poll_request(&mut self, wants_key: bool, now: Time) -> bool {
        let is_due = wants_key && self.asked.is_none_or(|asked| now.since(asked) >= SET_INTERVAL);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
#[path = "camera_tests.rs"]
mod tests;
