//! One timeline for what is sent, whatever the times of the stream do.
//!
//! ```text
//! the stream's times   0 1 2 3   90 91 92      a publisher begins anew, or counts from elsewhere
//! what is sent         0 1 2 3   4  5  6       time has passed, and no more
//! ```
//! Receivers of RTP take a time stamp that leaps for a gap, or wait for its time.

use glassline_media::{Ticks, Time};
use std::time::Duration;

/// A time that is so much before the newest of its track is a jump; less is another order.
const BACK_MAX: i64 = 90_000;
/// One that is so much later than time has passed is a jump.
const AHEAD_MAX: i64 = 10 * 90_000;
/// Muxers put sound so far behind pictures, or ahead of them, at most.
const APART_MAX: i64 = 10 * 90_000;
/// For so long behind a jump, what is still on the times before it is left out.
const STALE_TIME: Duration = Duration::from_secs(1);
/// Tracks of a stream.
const TRACKS: usize = 2;

/// What is added to the times of a stream: the same for all of its tracks, whichever of them a jump shows first.
#[derive(Clone, Debug, Default)]
pub struct Continuity {
    shift: i64,
    /// The newest time of each track, and when it came. A track is measured by its own: another one may be seconds ahead.
    newest: [Option<(i64, Time)>; TRACKS],
    jumped_at: Option<Time>,
    /// How far the tracks were apart before the jump.
    apart: i64,
    begins_anew: bool,
}

impl Continuity {
    /// What follows has other times than what came before.
    pub fn begin_anew(&mut self) {
        self.begins_anew = true;
    }

    /// What is added to the times of a unit of track `track` (0 or 1) with the decoding time `dts`, which came at `now`. `None`: it
    /// belongs to what came before a jump, and has no place any more; or there is no such track.
    pub fn shift(&mut self, track: usize, dts: Ticks, now: Time) -> Option<Ticks> {
        let (own, dts) = (*self.newest.get(track)?, dts.0);
        if let Some((newest, came)) = own.or_else(|| self.latest()) {
            let passed = passed(came, now);
            let ahead = dts.saturating_sub(newest);
            let has_jumped = self.jumped_at.is_some_and(|at| now.since(at) < STALE_TIME);
            let (back, apart) = if own.is_some() { (BACK_MAX, 0) } else { (APART_MAX, self.apart) };
            let most = if has_jumped { BACK_MAX.saturating_add(apart) } else { AHEAD_MAX };
            let is_far = ahead < back.saturating_neg() || ahead > passed.saturating_add(most);
            if self.begins_anew || is_far {
                if !self.begins_anew && has_jumped {
                    return None;
                }
                self.jump(track, dts, now);
            }
        }
        self.begins_anew = false;
        if let Some(newest) = self.newest.get_mut(track) {
            *newest = newest.filter(|(newest, _)| *newest >= dts).or(Some((dts, now)));
        }
        Some(Ticks(self.shift))
    }

    /// The newest time of all tracks, and when it came.
    fn latest(&self) -> Option<(i64, Time)> {
        self.newest.iter().flatten().copied().max()
    }

    /// The times of all tracks go on from here with `dts`. Within a stream a track goes on where it was; those of another stream may be
    /// apart otherwise, and begin behind all that was sent.
    fn jump(&mut self, track: usize, dts: i64, now: Time) {
        let own = self.newest.get(track).copied().flatten().filter(|_| !self.begins_anew);
        let Some((newest, came)) = own.or_else(|| self.latest()) else { return };
        let first = self.newest.iter().flatten().map(|(newest, _)| *newest).min().unwrap_or(newest);
        let last = self.latest().map_or(newest, |(newest, _)| newest);
        let place = newest.saturating_add(self.shift).saturating_add(passed(came, now).max(1));
        self.shift = place.saturating_sub(dts);
        self.apart = last.saturating_sub(first).min(APART_MAX);
        (self.newest, self.jumped_at) = ([None; TRACKS], Some(now));
    }
}

/// Ticks from one moment to a later one.
fn passed(from: Time, to: Time) -> i64 {
    Ticks::from_time(Time::ZERO + to.since(from)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(continuity: &mut Continuity, track: usize, dts: i64, at_ms: u64) -> Option<i64> {
        continuity.shift(track, Ticks(dts * 90), Time::from_millis(at_ms)).map(|shift| dts + shift.0 / 90)
    }

    fn place(continuity: &mut Continuity, dts: i64, at_ms: u64) -> Option<i64> {
        place_of(continuity, 0, dts, at_ms)
    }

    #[test]
    fn times_go_on_over_a_jump_by_the_time_that_has_passed() {
        let mut it = Continuity::default();
        assert_eq!([place(&mut it, 5000, 100), place(&mut it, 4980, 110)], [Some(5000), Some(4980)]);
        assert_eq!(place(&mut it, 5040, 140), Some(5040));
        // Back, and forward again.
        assert_eq!(place(&mut it, 7, 180), Some(5080));
        assert_eq!(place(&mut it, 47, 220), Some(5120));
        assert_eq!(place_of(&mut it, 1, 5060, 225), None, "sound of before the jump");
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

    #[test]
    fn sound_that_is_muxed_far_behind_pictures_is_no_jump() {
        for skew in [1300, 9000, -1300] {
            let mut it = Continuity::default();
            let begin = 50_000;
            for number in 0..50 {
                let (dts, now) = (begin + number * 40, 1000 + 40 * number as u64);
                assert_eq!(place(&mut it, dts, now), Some(dts), "{skew}");
                assert_eq!(place_of(&mut it, 1, dts - skew, now + 5), Some(dts - skew), "{skew}");
            }
            // Both go on over a jump, as far apart as before.
            for number in 50..100 {
                let (dts, now) = (700_000 + number * 40, 1000 + 40 * number as u64);
                let wanted = begin + number * 40;
                assert_eq!(place(&mut it, dts, now), Some(wanted), "{skew}");
                let sound = place_of(&mut it, 1, dts - skew, now + 5);
                assert_eq!(sound, Some(wanted - skew), "{skew}");
            }
        }
    }

    #[test]
    fn another_stream_begins_behind_all_that_was_sent() {
        let mut it = Continuity::default();
        assert_eq!((place(&mut it, 2300, 1000), place_of(&mut it, 1, 1000, 1000)), (Some(2300), Some(1000)));
        it.begin_anew();
        assert_eq!(place_of(&mut it, 1, 70, 1040), Some(2340));
        assert_eq!((place(&mut it, 70, 1041), place_of(&mut it, 2, 70, 1041)), (Some(2340), None));
    }
}
