//! Steps the preset where x264 cannot keep up, and back when it could do more.

use glassline_codec::h264::x264;
use glassline_media::Time;
use std::time::Duration;

/// A step gets this long to help before the next.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// Room must have been there this long before a step back.
const STEP_BACK_AFTER: Duration = Duration::from_secs(10);
/// A step back that did not hold doubles the timeout up to this.
const STEP_BACK_AFTER_MAX: Duration = Duration::from_secs(300);
/// A picture that takes less than this share of its time leaves room for a slower preset.
const ROOM: f64 = 0.5;

/// Chooses a preset by what was dropped and how long pictures take. `placebo` to `ultrafast`, but never slower than
/// the one that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Adapt {
    /// From the fastest to the one that was asked for.
    presets: Vec<&'static str>,
    at: usize,
    dropped: u64,
    stepped: Time,
    /// Since when nothing was dropped and there was room.
    calm_since: Time,
    timeout: Duration,
    stepped_back: bool,
}

impl Adapt {
    /// Begins at `preset`.
    pub(super) fn new(preset: &str, now: Time) -> Adapt {
        let mut presets = x264::PRESETS.to_vec();
        let at = presets.iter().position(|name| *name == preset).unwrap_or(0);
        presets.truncate(at + 1);
        Adapt {
            presets,
            at,
            dropped: 0,
            stepped: now,
            calm_since: now,
            timeout: STEP_BACK_AFTER,
            stepped_back: false,
        }
    }

    /// Asked after each picture: `dropped` pictures so far, `load` the share of a picture's time that this one took.
    /// Returns the preset to change to.
    pub(super) fn poll(&mut self, dropped: u64, load: f64, now: Time) -> Option<&'static str> {
        let drops = dropped > std::mem::replace(&mut self.dropped, dropped);
        if drops || load > ROOM {
            self.calm_since = now;
        }
        if drops && self.at > 0 && now.since(self.stepped) >= STEP_INTERVAL {
            if self.stepped_back {
                self.timeout = (self.timeout * 2).min(STEP_BACK_AFTER_MAX);
            }
            self.stepped_back = false;
            return Some(self.step(self.at - 1, now));
        }
        if self.at + 1 < self.presets.len() && now.since(self.calm_since) >= self.timeout {
            self.stepped_back = true;
            return Some(self.step(self.at + 1, now));
        }
        None
    }

    fn step(&mut self, to: usize, now: Time) -> &'static str {
        self.at = to;
        self.stepped = now;
        self.calm_since = now;
        self.presets[to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(100_000 + seconds * 1000)
    }

    #[test]
    fn drops_step_down_one_preset_a_second() {
        let mut adapt = Adapt::new("veryfast", at(0));
        assert_eq!(adapt.poll(1, 0.9, at(0)), None);
        assert_eq!(adapt.poll(2, 0.9, at(1)), Some("superfast"));
        assert_eq!(adapt.poll(2, 0.9, at(3)), None);
        assert_eq!(adapt.poll(3, 0.9, at(4)), Some("ultrafast"));
        assert_eq!(adapt.poll(9, 0.9, at(9)), None, "there is nothing faster");
    }

    #[test]
    fn room_steps_back_to_what_was_asked_for_and_no_further() {
        let mut adapt = Adapt::new("superfast", at(0));
        assert_eq!(adapt.poll(1, 0.9, at(1)), Some("ultrafast"));
        assert_eq!(adapt.poll(1, 0.3, at(10)), None);
        assert_eq!(adapt.poll(1, 0.3, at(11)), Some("superfast"));
        assert_eq!(adapt.poll(1, 0.3, at(99)), None);
        // It did not hold: the next try waits twice as long, from the last busy picture on.
        assert_eq!(adapt.poll(2, 0.9, at(100)), Some("ultrafast"));
        assert_eq!(adapt.poll(2, 0.9, at(105)), None);
        assert_eq!(adapt.poll(2, 0.3, at(124)), None);
        assert_eq!(adapt.poll(2, 0.3, at(125)), Some("superfast"));
    }
}
