//! When a run of pictures that follow each other begins, for flicker and for frozen pictures: every ten seconds, and sooner where key
//! frames speak for flicker.
//!
//! Lively pictures show the same cues all the time. Each cue therefore shortens the interval once: while runs find no turns of
//! brightness the interval grows again (2, 4, 8, 10 s), and it is short anew once a run has found some, or once the cue comes back after
//! it has been absent for ten seconds. A stream without cues, and one that always has them, cost the same.

use glassline_media::Time;
use std::time::Duration;

/// The longest time from a run to the next.
pub(super) const RUN_INTERVAL: Duration = Duration::from_secs(10);
/// The time from a run to the next while there is flicker, and where a cue is new.
const SUSPECTED_INTERVAL: Duration = Duration::from_secs(2);
/// A cue that has been absent for so long is new when it comes back.
const CUE_ABSENT: Duration = RUN_INTERVAL;

/// What speaks for flicker at a key frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlickerCues {
    /// The alarm is there.
    pub(super) is_active: bool,
    /// The key frame came soon after the one before: encoders begin anew where a picture is unlike the one before.
    pub(super) is_soon: bool,
    /// The last two key frames differ as pictures of a flash do.
    pub(super) is_unlike: bool,
}

/// The beginnings of runs.
#[derive(Clone, Debug)]
pub(super) struct RunSchedule {
    begun_at: Option<Time>,
    soon: Cue,
    unlike: Cue,
}

impl RunSchedule {
    pub(super) fn new() -> RunSchedule {
        RunSchedule { begun_at: None, soon: Cue::default(), unlike: Cue::default() }
    }

    /// When the last run began.
    pub(super) fn begun_at(&self) -> Option<Time> {
        self.begun_at
    }

    /// Takes a key frame at `at`: whether a run has to begin with it.
    pub(super) fn is_due(&mut self, at: Time, cues: FlickerCues) -> bool {
        let by_soon = self.soon.push(cues.is_soon, at);
        let by_unlike = self.unlike.push(cues.is_unlike, at);
        let by_alarm = if cues.is_active { SUSPECTED_INTERVAL } else { RUN_INTERVAL };
        let interval = by_alarm.min(by_soon).min(by_unlike);
        self.begun_at.is_none_or(|begun| at.since(begun) >= interval || at < begun)
    }

    /// A run begins with the key frame at `at`. Until it finds something, the cues that are there count for less.
    pub(super) fn begin(&mut self, at: Time, cues: FlickerCues) {
        self.begun_at = Some(at);
        for (cue, is_there) in [(&mut self.soon, cues.is_soon), (&mut self.unlike, cues.is_unlike)] {
            if is_there {
                cue.back_off();
            }
        }
    }

    /// The run has found turns of brightness, as many as flicker has.
    pub(super) fn found_turns(&mut self) {
        (self.soon.interval, self.unlike.interval) = (SUSPECTED_INTERVAL, SUSPECTED_INTERVAL);
    }
}

/// One cue, and the interval that it asks for.
#[derive(Clone, Copy, Debug)]
struct Cue {
    seen_at: Option<Time>,
    interval: Duration,
}

impl Default for Cue {
    fn default() -> Cue {
        Cue { seen_at: None, interval: SUSPECTED_INTERVAL }
    }
}

impl Cue {
    /// Whether the cue is there at `at`; returns the interval that it asks for.
    fn push(&mut self, is_there: bool, at: Time) -> Duration {
        if !is_there {
            return RUN_INTERVAL;
        }
        let seen_at = self.seen_at.replace(at);
        if seen_at.is_none_or(|seen| at.since(seen) >= CUE_ABSENT || at < seen) {
            self.interval = SUSPECTED_INTERVAL;
        }
        self.interval
    }

    fn back_off(&mut self) {
        self.interval = (self.interval * 2).min(RUN_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds in which runs begin, of `seconds` with a key frame each, where `cues` are there and runs find turns in the seconds
    /// that `finds` names.
    fn runs(seconds: u64, cues: impl Fn(u64) -> FlickerCues, finds: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut schedule = RunSchedule::new();
        let mut begun = Vec::new();
        for second in 0..seconds {
            let at = Time::from_millis(second * 1000);
            if schedule.is_due(at, cues(second)) {
                schedule.begin(at, cues(second));
                begun.push(second);
                if finds(second) {
                    schedule.found_turns();
                }
            }
        }
        begun
    }

    const NONE: FlickerCues = FlickerCues { is_active: false, is_soon: false, is_unlike: false };
    const UNLIKE: FlickerCues = FlickerCues { is_unlike: true, ..NONE };

    #[test]
    fn a_cue_that_stays_counts_for_less_and_less() {
        assert_eq!(runs(50, |_| NONE, |_| false), [0, 10, 20, 30, 40]);
        assert_eq!(runs(60, |_| UNLIKE, |_| false), [0, 4, 12, 22, 32, 42, 52]);
        assert_eq!(runs(9, |_| UNLIKE, |_| true), [0, 2, 4, 6, 8]);
        assert_eq!(runs(9, |_| FlickerCues { is_active: true, ..NONE }, |_| false), [0, 2, 4, 6, 8]);
        // The run at 22 s finds turns once.
        assert_eq!(runs(50, |_| UNLIKE, |second| second == 22), [0, 4, 12, 22, 24, 28, 36, 46]);
    }

    #[test]
    fn a_cue_is_new_after_ten_seconds_without_it_and_beside_another_one() {
        // Cuts now and then.
        let cuts = |second: u64| if second % 15 == 3 { UNLIKE } else { NONE };
        assert_eq!(runs(60, cuts, |_| false), [0, 3, 13, 18, 28, 33, 43, 48, 58]);
        let often = |second: u64| if second % 5 == 3 { UNLIKE } else { NONE };
        assert_eq!(runs(60, often, |_| false), [0, 3, 8, 18, 28, 38, 48, 58]);
        // Lively pictures, in which key frames begin to come soon after each other.
        let both = |second: u64| FlickerCues { is_soon: second >= 35, ..UNLIKE };
        assert_eq!(runs(50, both, |_| false), [0, 4, 12, 22, 32, 35, 39, 47]);
    }
}
