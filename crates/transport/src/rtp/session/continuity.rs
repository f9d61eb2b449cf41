//! One timeline for what is sent, whatever the times of the stream do.
//!
//! ```text
//! the stream's times   0 1 2 3   90 91 92      a publisher begins anew, or counts from elsewhere
//! what is sent         0 1 2 3   4  5  6       time has passed, and no more
//! ```
//! Receivers of RTP take a time stamp that leaps for a gap, or wait for its time.

use glassline_media::{Ticks, Time};
use std::time::Duration;

/// A time that is so much before the newest is a jump; less is another order of tracks.
const BACK_MAX: i64 = 90_000;
/// One that is so much later than time has passed is a jump.
const AHEAD_MAX: i64 = 10 * 90_000;
/// For so long behind a jump, what is still on the times before it is left out.
const STALE_TIME: Duration = Duration::from_secs(1);

/// What is added to the times of a stream.
#[derive(Clone, Debug, Default)]
pub struct Continuity {
    shift: i64,
    /// The newest time of the stream, and when it came.
    newest: Option<(i64, Time)>,
    jumped_at: Option<Time>,
    begins_anew: bool,
}

impl Continuity {
    /// What follows has other times than what came before.
    pub fn begin_anew(&mut self) {
        self.begins_anew = true;
    }

    /// What is added to the times of a unit with the decoding time `dts`, which came at `now`. `None`: it belongs to what came before
    /// a jump, and has no place any more.
    pub fn shift(&mut self, dts: Ticks, now: Time) -> Option<Ticks> {
        let dts = dts.0;
        if let Some((newest, came)) = self.newest {
            let passed = Ticks::from_time(Time::ZERO + now.since(came)).0;
            let ahead = dts.saturating_sub(newest);
            let has_jumped = self.jumped_at.is_some_and(|at| now.since(at) < STALE_TIME);
            let most = if has_jumped { BACK_MAX } else { AHEAD_MAX };
            let is_far = ahead < BACK_MAX.saturating_neg() || ahead > passed.saturating_add(most);
            if self.begins_anew || is_far {
                if !self.begins_anew && has_jumped {
                    return None;
                }
                let place = newest.saturating_add(self.shift).saturating_add(passed.max(1));
                self.shift = place.saturating_sub(dts);
                (self.newest, self.jumped_at) = (None, Some(now));
            }
        }
        self.begins_anew = false;
        let newest = self.newest.filter(|(newest, _)| *newest >= dts);
        self.newest = newest.or(Some((dts, now)));
        Some(Ticks(self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(continuity: &mut Continuity, dts: i64, at_ms: u64) -> Option<i64> {
        continuity.shift(Ticks(dts * 90), Time::from_millis(at_ms)).map(|shift| dts + shift.0 / 90)
    }

    #[test]
    fn times_go_on_over_a_jump_by_the_time_that_has_passed() {
        let mut it = Continuity::default();
        assert_eq!([place(&mut it, 5000, 100), place(&mut it, 4980, 110)], [Some(5000), Some(4980)]);
        assert_eq!(place(&mut it, 5040, 140), Some(5040));
        // Back, and forward again.
        assert_eq!(place(&mut it, 7, 180), Some(5080));
        assert_eq!(place(&mut it, 47, 220), Some(5120));
        assert_eq!(place(&mut it, 5060, 225), None, "sound of before the jump");
        assert_eq!(place(&mut it, 900_000, 2220), Some(7120));
        assert_eq!(place(&mut it, 900_040, 2260), Some(7160));
    }

    #[test]
    fn another_stream_goes_on_at_once_and_a_pause_is_no_jump() {
        let mut it = Continuity::default();
        assert_eq!(place(&mut it, 1000, 1000), Some(1000));
        it.begin_anew();
        assert_eq!(place(&mut it, 1500, 1040), Some(1040));
        it.begin_anew();
        assert_eq!(place(&mut it, 90_000, 1080), Some(1080), "another one within a second");
        assert_eq!(place(&mut it, 90_000 + 30_000, 31_080), Some(31_080));
        // So much was lost.
        assert_eq!(place(&mut it, 90_000 + 35_000, 31_090), Some(36_080));
    }
}
